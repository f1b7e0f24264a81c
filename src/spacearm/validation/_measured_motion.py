"""The measured motion itself: poses of systems from the readings of their bases and joints, without any prediction.

Readings of position and yaw are interpolated; what was not measured stays as at the start. Velocities are the slopes of
quadratic regressions over a window, with the deviations that their residuals leave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import QUATERNION
from spacearm.model.robot import BASE_POSITION
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Signal, State, World
from spacearm.simulate.world import SEPARATOR
from spacearm.typing import Array
from spacearm.validation._quantities import ATTITUDE, YAW
from spacearm.validation.comparison import Readings

#: Quantities that show a degree of freedom of a base.
MEASURED = {"base_vx": "base_x", "base_vy": "base_y", "base_vz": "base_z", "base_wz": YAW}
#: Degrees of freedom that readings of the attitude show.
ROTATION = ("base_wx", "base_wy", "base_wz")
#: By so much a measured quaternion's length may differ from 1.
UNIT = 1e-2
#: Readings that a local regression needs at least.
ENOUGH = 5
#: Parts of the largest distance between which an approach counts as its last part.
NEAR, FAR = 0.1, 0.7
#: Of that part so many seconds at most, but so many readings; with so many readings it may be curved.
LONGEST_APPROACH, FEW, CURVED = 0.4, 8, 12


class Slope(NamedTuple):
    """Value and rate of a quantity at a time, with their standard deviations."""

    value: float
    rate: float
    value_sd: float
    rate_sd: float


def local_slope(
    times: Array, values: Array, at: float, window: tuple[float, float], sigma: float = 0.0
) -> Slope | None:
    """Quadratic regression of the readings from ``window[0]`` to ``window[1]`` (s); None of too few of them.

    ``sigma``: least standard deviation of a reading.
    """
    rows = (times >= window[0] - 1e-9) & (times <= window[1] + 1e-9)
    if np.count_nonzero(rows) < ENOUGH:
        return None
    # Times from the instant itself: value and rate there are then the first two coefficients, with their own
    # deviations.
    s = times[rows] - at
    design = np.column_stack([np.ones(s.size), s, s * s])
    found, *_ = np.linalg.lstsq(design, values[rows], rcond=None)
    left = values[rows] - design @ found
    noise = max(float(np.sqrt(left @ left / max(s.size - 3, 1))), sigma)
    # From the design alone: residuals give the size of the noise, not its colour.
    deviation = noise * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    return Slope(float(found[0]), float(found[1]), float(deviation[0]), float(deviation[1]))


@dataclass(frozen=True, eq=False)
class MeasuredMotion:
    """Poses of the systems of a world as they were measured.

    Args:
        starts: states at time zero, for what was not measured.
        readings: by quantity.
        paths: measured paths of joints of the first system, by joint.
    """

    world: World
    starts: Mapping[str, State]
    readings: Mapping[str, Readings]
    paths: Mapping[str, Signal]

    @property
    def first(self) -> str:
        return next(iter(self.world.systems))

    def reading(self, system: str, quantity: str) -> Readings | None:
        """Readings of a system's quantity, under either of its names."""
        named = self.readings.get(f"{system}{SEPARATOR}{quantity}")
        return self.readings.get(quantity) if named is None and system == self.first else named

    def is_measured(self, system: str) -> bool:
        """Whether place and yaw of a system were measured."""
        return all(self.reading(system, name) is not None for name in ("base_x", "base_y", YAW))

    def attitude(self, system: str) -> tuple[Array, Array] | None:
        """Times (T,) and quaternions (T, 4) of the base, which follow each other without a change of sign."""
        own = [self.reading(system, name) for name in ATTITUDE]
        readings = [each for each in own if each is not None]
        if not readings:
            return None
        times = readings[0].times
        if len(readings) < 4 or any(not np.array_equal(each.times, times) for each in readings):
            raise InputError(
                f"the attitude of {system!r} lacks some of its four entries at some readings", place="channel",
                hint=f"expected {', '.join(ATTITUDE)}",
            )  # fmt: skip
        values = np.stack([each.values for each in readings], axis=1)
        sizes = np.linalg.norm(values, axis=1)
        if np.any(np.abs(sizes - 1.0) > UNIT):
            raise InputError(
                f"the quaternions of {system!r} have lengths from {sizes.min():.4g} to {sizes.max():.4g}",
                place="channel", hint="expected 1; are the columns in the order w, x, y, z?",
            )  # fmt: skip
        values /= sizes[:, None]
        signs = np.sign(np.sum(values[1:] * values[:-1], axis=1))
        return times, values * np.cumprod(np.append(1.0, np.where(signs == 0.0, 1.0, signs)))[:, None]

    def histories(self) -> dict[str, tuple[Robot, Array, Array]]:
        """Robot, times and flat states of each system whose base was measured in all its degrees of freedom."""
        found = {}
        for system, robot in self.world.systems.items():
            free = [name for name in BASE_DOFS if name not in robot.base.locked_dofs]
            attitude = self.reading(system, ATTITUDE[0])
            own = [
                attitude if name in ROTATION and attitude is not None else self.reading(system, MEASURED.get(name, ""))
                for name in free
            ]
            own += [self.reading(system, name) for name in robot.joint_names]
            measured = [each for each in own if each is not None]
            if measured and not any(each is None for each in own[: len(free)]):
                # Beyond its readings a system would stand still.
                start, end = max(each.times[0] for each in measured), min(each.times[-1] for each in measured)
                times = measured[0].times[(measured[0].times >= start) & (measured[0].times <= end)]
                if times.size > 1:
                    found[system] = robot, times, self.states(system, times)
        return found

    def joints(self, system: str, times: Array) -> Array:
        """Joint positions (T, n), rad or m."""
        robot = self.world.robot(system)
        found = np.tile(self.starts[system].joints, (times.size, 1))
        for k, name in enumerate(robot.joint_names):
            own = self.reading(system, name)
            if own is not None:
                found[:, k] = np.interp(times, own.times, own.values)
            elif system == self.first and name in self.paths:
                found[:, k] = self.paths[name](times)
        return found

    def poses(self, system: str, times: Array) -> Array:
        """Positions and quaternions (T, 7) of the base."""
        state = self.starts[system]
        found = np.tile(np.concatenate([state.position, state.quaternion]), (times.size, 1))
        for k, name in enumerate(BASE_POSITION):
            own = self.reading(system, name)
            if own is not None:
                found[:, k] = np.interp(times, own.times, own.values)
        attitude = self.attitude(system)
        yaw = self.reading(system, YAW)
        if attitude is not None:
            # Between readings that are near each other the chord differs little from the arc.
            chord = np.stack([np.interp(times, attitude[0], attitude[1][:, k]) for k in range(4)], axis=1)
            found[:, QUATERNION] = chord / np.linalg.norm(chord, axis=1)[:, None]
        elif yaw is not None:
            # The attitude at the start, turned about the world's z by what was measured.
            start = rotation_matrices(state.quaternion)
            half = 0.5 * (np.interp(times, yaw.times, yaw.values) - np.arctan2(start[1, 0], start[0, 0]))
            w, x, y, z = state.quaternion
            c, s = np.cos(half), np.sin(half)
            found[:, QUATERNION] = np.column_stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])
        return found

    def states(self, system: str, times: Array) -> Array:
        """(T, 13 + 2 n) flat states with zero velocities."""
        joints = self.joints(system, times)
        zeros = np.zeros((times.size, 6 + joints.shape[1]))
        return np.hstack([self.poses(system, times), joints, zeros])

    def frame_pose(self, system: str, frame: str, times: Array) -> tuple[Array, Array]:
        """Origin (T, 3) and rotation (T, 3, 3) of a frame."""
        mechanics = mechanics_of(self.world.robot(system))
        return mechanics.frame_pose(frame, self.joints(system, times), base=self.poses(system, times))

    def relative_position(self, frame: str, guest: str, times: Array) -> Array:
        """(T, 3) where a frame was, in the axes of the guest's base, m."""
        host, own = self.world.frame(frame)
        origin, _ = self.frame_pose(host, own, times)
        base = self.poses(guest, times)
        return np.asarray(np.einsum("tji,tj->ti", rotation_matrices(base[:, QUATERNION]), origin - base[:, :3]))

    def swing(self, frame: str, guest: str, times: Array) -> Array:
        """(T,) angle of the guest about the world's z against a frame, rad, unwrapped."""
        host, own = self.world.frame(frame)
        _, rotation = self.frame_pose(host, own, times)
        attitude = rotation_matrices(self.poses(guest, times)[:, QUATERNION])
        angle = np.arctan2(attitude[:, 1, 0], attitude[:, 0, 0]) - np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
        return np.asarray(np.unwrap(angle))


class CatchTime(NamedTuple):
    """When a frame began to move with a guest, s, and the standard deviation of that."""

    time: float
    sd: float


def estimate_catch(place: Callable[[Array], Array], times: Array, after: float, within: float) -> CatchTime:
    """The instant at which a frame comes to its place in the guest: where the line of its last approach ends.

    The place is that at the end of the search. The distance to it is a straight line of time during the last part of
    the approach, from ``FAR`` of its largest value down to ``NEAR``; friction and play of a grasp end it unevenly. The
    deviation is that of the line's zero.

    Args:
        place: place (T, 3) of the frame in the guest's axes at times (T,), m.
        times: of the readings, s.
        after, within: where the search begins, and its length, s.
    """
    hint = "give its time, or another 'after' and 'within'"
    rows = times[(times >= after) & (times <= after + within)]
    if rows.size < 2 * ENOUGH:
        raise InputError(
            f"{rows.size} readings from {after:g} s to {after + within:g} s show no catch", place="catch", hint=hint
        )
    measured, settled = place(rows), rows > after + 0.75 * within
    distance = np.linalg.norm(measured - np.median(measured[settled], axis=0), axis=1)
    near, far = NEAR * distance.max(), FAR * distance.max()
    # The last approach: from the last reading beyond the nearer bound back to the first beyond the farther one.
    outside = np.flatnonzero(distance > near)
    last = int(outside[-1]) if outside.size else 0
    beyond = np.flatnonzero(distance[:last] > far)
    recent = min(int(np.searchsorted(rows, rows[last] - LONGEST_APPROACH)), last - FEW + 1)
    first = max(int(beyond[-1]) if beyond.size else 0, recent)
    if last >= rows.size - 2 or last - first < 2:
        raise InputError(f"no catch is seen from {after:g} s to {after + within:g} s", place="catch", hint=hint)
    s, own = rows[first : last + 1] - rows[last], distance[first : last + 1]
    zero, sd, slope = _zero_crossing(s, own, 2 if s.size >= CURVED else 1)
    if slope >= 0.0:
        raise InputError(f"no approach is seen from {after:g} s to {after + within:g} s", place="catch", hint=hint)
    # It is over where the distance is that of the grasp itself, and two readings after the approach at the earliest.
    rest = 3.0 * float(np.sqrt(np.mean(np.square(distance[settled]))))
    quiet = last + 1 + int(np.argmax(distance[last + 1 :] <= rest))
    latest = max(float(rows[min(last + 2, rows.size - 1)]), float(rows[quiet]) - rest / slope)
    # Where it ends within a step is not seen either: as uncertain as a uniform distribution over a quarter of it.
    step = 0.25 * float(np.median(np.diff(rows)))
    at = min(float(rows[last] + zero), latest)
    return CatchTime(at, float(np.hypot(sd, step / np.sqrt(3.0))))


def _zero_crossing(times: Array, values: Array, degree: int) -> tuple[float, float, float]:
    """Zero next to time zero of a line or parabola through values, its deviation, and the slope there."""
    design = np.vander(times, degree + 1, increasing=True)
    numbers, *_ = np.linalg.lstsq(design, values, rcond=None)
    left = values - design @ numbers
    spread = float(left @ left) / max(times.size - degree - 1, 1) * np.linalg.inv(design.T @ design)
    roots = np.roots(numbers[::-1])
    root = roots[np.argmin(np.abs(roots))] if roots.size else 1j
    if root.imag != 0.0:  # a parabola that turns before it is zero
        return _zero_crossing(times, values, 1) if degree > 1 else (0.0, np.inf, 0.0)
    zero = float(root.real)
    slope = float(np.arange(1, degree + 1) * numbers[1:] @ zero ** np.arange(degree))
    gradient = -(zero ** np.arange(degree + 1)) / slope
    return zero, float(np.sqrt(gradient @ spread @ gradient)), slope
