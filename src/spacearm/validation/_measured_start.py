"""The start of a measured run: value and slope of regressions through the first readings of each base and joint."""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.robot import BASE_POSITION
from spacearm.model.rotations import rotation_from_quaternion, rpy_from_rotation
from spacearm.simulate import Contact, World, gaps
from spacearm.typing import Array
from spacearm.validation._measured_motion import MeasuredMotion, Slope, local_slope
from spacearm.validation._quantities import ATTITUDE, YAW

#: A measured start is uncertain by this many times what the regression says: the fit that follows uses these readings.
START_DOUBT = 10.0
#: A direction along which a base moves by less than this share does not move; readings that do change by so many
#: deviations, and faster than this (m/s or rad/s).
STILL, MOVES, FAST = 1e-6, 6.0, 5e-3


def measure_starts(world: World, motion: MeasuredMotion, tables: dict[str, Any], window: float) -> list[dict[str, Any]]:
    """Put the starts into the tables of a file; the uncertain numbers that they are."""
    extra: list[dict[str, Any]] = []
    window = contact_free_window(world, motion, window)
    for number, system in enumerate(world.systems):
        place = "" if not number else f"system[{system}]."
        host = tables if not number else tables["system"][number - 1]
        start = host.setdefault("start", {})
        robot = world.robot(system)
        places = [("base_x", "position[0]", "velocity[0]"), ("base_y", "position[1]", "velocity[1]"),
                  ("base_z", "position[2]", "velocity[2]"), (YAW, "rpy[2]", "angular_velocity[2]")]  # fmt: skip
        places += [(name, f"joints.{name}", f"rates.{name}") for name in robot.joint_names]
        found: list[tuple[str, str, Slope]] = []
        still = _still_quantities(robot, motion.starts[system].quaternion)
        for quantity, value_key, rate_key in places:
            own = motion.reading(system, quantity)
            if own is None:
                continue
            slope = local_slope(own.times, own.values, 0.0, (0.0, window), float(np.median(own.sigma)))
            if slope is None:
                raise _too_few(window, quantity)
            if quantity in still:
                _check_still(robot, quantity, slope)
                _put_start(start, value_key, slope.value)
                extra.append({"key": f"{place}start.{value_key}", "sd": START_DOUBT * slope.value_sd})
                continue
            found.append((value_key, rate_key, slope))
        if motion.attitude(system) is not None:
            found += _attitude_start(motion, system, window)
        # Rates are taken from the positions: gyros and tachometers have biases.
        for value_key, rate_key, slope in found:
            for name, value, sd in ((value_key, slope.value, slope.value_sd), (rate_key, slope.rate, slope.rate_sd)):
                _put_start(start, name, value)
                extra.append({"key": f"{place}start.{name}", "sd": START_DOUBT * sd})
    return extra


def _still_quantities(robot: Robot, quaternion: Array) -> list[str]:
    """Quantities of a base, world axes, that its constraint does not let move from this attitude."""
    rotation, moving = rotation_from_quaternion(quaternion), robot.base.moving_indices
    linear = np.linalg.norm(rotation[:, [i for i in moving if i < 3]], axis=1)
    turn = np.linalg.norm(rotation[2, [i - 3 for i in moving if i >= 3]])
    sizes = dict(zip(BASE_POSITION, linear, strict=True)) | {YAW: turn}
    return [name for name, size in sizes.items() if size < STILL]


def _check_still(robot: Robot, quantity: str, slope: Slope) -> None:
    if abs(slope.rate) > max(MOVES * slope.rate_sd, FAST):
        unit = "rad/s" if quantity == YAW else "m/s"
        axis = f", with axis {list(robot.base.axis)}" if robot.base.axis else ""
        raise InputError(
            f"{quantity!r} changes by {slope.rate:.3g} {unit} at the start, but the base is {robot.base.kind}{axis}",
            place="channel", hint="expected another axis of the base, or another quantity of this column",
        )  # fmt: skip


def contact_free_window(world: World, motion: MeasuredMotion, window: float) -> float:
    """The part of a window (s) before any contact of the world closes: a regression must not go over a blow."""
    pairs = [(each.first, each.second) for each in world.elements if isinstance(each, Contact)]
    clock = next((own.times for own in motion.readings.values()), np.zeros(0))
    clock = clock[clock <= window]
    if not pairs or not clock.size:
        return window
    states = np.hstack([motion.states(system, clock) for system in world.systems])
    closed = np.flatnonzero(np.any(gaps(world, pairs, states) <= 0.0, axis=1))
    # It closed between two readings, nobody knows when: the reading before these is the last that counts.
    return window if not closed.size else float(clock[max(closed[0] - 2, 0)])


def _attitude_start(motion: MeasuredMotion, system: str, window: float) -> list[tuple[str, str, Slope]]:
    """Attitude and angular velocity, world axes, by keys of a start, with deviations."""
    from scipy.spatial.transform import Rotation

    measured = motion.attitude(system)
    assert measured is not None
    times, quaternions = measured
    rows = times <= window + 1e-9
    if np.count_nonzero(rows) < 1:
        raise _too_few(window, ATTITUDE[0])
    rotations = Rotation.from_quat(quaternions[rows][:, [1, 2, 3, 0]])
    # Small rotations about the middle: their components are nearly polynomials of time.
    middle = rotations[int(np.count_nonzero(rows)) // 2]
    away = (rotations * middle.inv()).as_rotvec()
    own = motion.reading(system, ATTITUDE[1])
    # A quaternion's entries change by half the angle.
    sigma = 0.0 if own is None else 2.0 * float(np.median(own.sigma))
    slopes = [local_slope(times[rows], away[:, k], 0.0, (0.0, window), sigma) for k in range(3)]
    if any(slope is None for slope in slopes):
        raise _too_few(window, ATTITUDE[0])
    x, y, z = (slope for slope in slopes if slope is not None)
    w = np.array([x.value, y.value, z.value])
    quaternion = (Rotation.from_rotvec(w) * middle).as_quat()[[3, 0, 1, 2]]
    angles = rpy_from_rotation(rotation_from_quaternion(quaternion))
    # The rate of a rotation vector is the angular velocity at its zero; away from it by the inverse left Jacobian.
    velocity = _left_jacobian(w) @ np.array([x.rate, y.rate, z.rate])
    return [
        (f"rpy[{k}]", f"angular_velocity[{k}]", each._replace(value=float(angles[k]), rate=float(velocity[k])))
        for k, each in enumerate((x, y, z))
    ]


def _left_jacobian(vector: Array) -> Array:
    """Angular velocity (world axes) from the rate of a rotation vector: (3, 3)."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if angle < 1e-6:
        return np.asarray(np.eye(3) + 0.5 * cross)
    return np.asarray(
        np.eye(3) + (1.0 - np.cos(angle)) / angle**2 * cross + (angle - np.sin(angle)) / angle**3 * cross @ cross
    )


def _too_few(window: float, quantity: str) -> InputError:
    return InputError(
        f"the first {window:g} s have too few readings of {quantity!r} for a start",
        place="measured_start", hint="expected five or more, before anything touches, by a clock in the right unit",
    )  # fmt: skip


def _put_start(start: dict[str, Any], name: str, value: float) -> None:
    """Put a number into a start table, which may lack what it belongs to."""
    key, _, place = name.partition("[")
    if place:
        if key == "rpy":
            # The attitude of the file may be in degrees.
            given = start.pop("rpy_deg", None)
            start.setdefault("rpy", [float(np.radians(each)) for each in given] if given else [0.0, 0.0, 0.0])
        if key == "angular_velocity":
            start.pop("angular_velocity_deg", None)
        start.setdefault(key, [0.0, 0.0, 0.0])[int(place.rstrip("]"))] = value
    else:
        group, _, joint = name.partition(".")
        start.setdefault(group, {})[joint] = value
