"""Plans: signals from point to point for joints and for the hand, as fast as limits allow.

Without gravity and from rest, a motion that takes c times as long needs c**2 times less force (every term of the
equations of motion is of second order in the rates): time scaling under limits of force and rate is exact.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, number, one_of, positive, unit_vector
from spacearm.control.laws import Turning, resolved_acceleration
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, SimulationError, at
from spacearm.model import Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.simulate import CertificateWarning, Phase, RunWarning, Signal, State, simulate, spline
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

Profile = Literal["quintic", "trapezoid"]
#: Share of the duration in which a trapezoid speeds up.
BLEND = 0.25
#: Largest rate and acceleration of 10 s^3 - 15 s^4 + 6 s^5 on the unit interval.
QUINTIC_RATE, QUINTIC_ACCELERATION = 15.0 / 8.0, 10.0 / math.sqrt(3.0)


def quintic(first: float, last: float, duration: float) -> Signal:
    """From rest to rest with zero acceleration at both ends, then still."""
    way, t = last - first, positive(duration, "duration", unit="s", place="quintic")
    powers = [first, 0.0, 0.0, 10 * way / t**3, -15 * way / t**4, 6 * way / t**5]
    return Signal(np.array([0.0, t, 2 * t]), np.array([powers, [last, 0, 0, 0, 0, 0]]).T)


def trapezoid(first: float, last: float, duration: float, blend: float = BLEND) -> Signal:
    """Constant acceleration for a share ``blend`` of the duration, constant rate, constant deceleration; then still."""
    t = positive(duration, "duration", unit="s", place="trapezoid")
    share = number(blend, "blend", above=0.0, most=0.5, place="trapezoid")
    rate = (last - first) / (t * (1.0 - share))
    rise, ramp = rate / (share * t), share * t
    gone = 0.5 * rate * ramp
    pieces = [[first, 0.0, 0.5 * rise], [first + gone, rate, 0.0], [last - gone, rate, -0.5 * rise]]
    edges = [0.0, ramp, t - ramp, t, 2 * t]
    if share == 0.5:
        del pieces[1], edges[2]
    return Signal(np.array(edges), np.array([*pieces, [last, 0.0, 0.0]]).T)


def shortest_duration(
    way: npt.ArrayLike, rate: npt.ArrayLike, acceleration: npt.ArrayLike, profile: Profile = "quintic"
) -> float:
    """Seconds in which all of the ways can be gone within largest rates and accelerations (infinite: no limit)."""
    one_of(profile, ("quintic", "trapezoid"), "profile")
    ways = np.abs(np.asarray(way, dtype=np.float64))
    top, bend = QUINTIC_RATE, QUINTIC_ACCELERATION
    if profile == "trapezoid":
        top, bend = 1.0 / (1.0 - BLEND), 1.0 / (BLEND * (1.0 - BLEND))
    times = [top * ways / np.asarray(rate), np.sqrt(bend * ways / np.asarray(acceleration))]
    return float(np.max(times, initial=0.0))


def point_to_point(
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    duration: float | None = None,
    *,
    rate: npt.ArrayLike = math.inf,
    acceleration: npt.ArrayLike = math.inf,
    profile: Profile = "quintic",
) -> tuple[list[Signal], float]:
    """Joints (or positions) that start and arrive together, and how long they take.

    Args:
        duration: s; the shortest within the limits unless given.
        rate, acceleration: the largest of each, one for all or each.
    """
    with at("point_to_point"):
        a = array(first, "first")
        b = array(last, "last", a.shape)
        shortest = shortest_duration(b - a, rate, acceleration, profile)
        if duration is None:
            duration = positive(shortest, "shortest duration", unit="s", hint="give limits, or a duration")
        elif duration < shortest * (1.0 - 1e-12):
            raise InputError(f"{duration:g} s break the limits", hint=f"expected at least {shortest:.6g} s")
        make = quintic if profile == "quintic" else trapezoid
        return [make(float(x), float(y), duration) for x, y in zip(a, b, strict=True)], float(duration)


@dataclass(frozen=True, eq=False)
class HandPath:
    """Where a frame is to be: three signals (m, world), and its attitude."""

    frame: str
    position: tuple[Signal, ...]
    attitude: Turning | None
    duration: float  # s


def hand_line(
    robot: Robot,
    start: State,
    frame: str,
    goal: npt.ArrayLike,
    attitude: npt.ArrayLike | None = None,
    *,
    duration: float,
    profile: Profile = "quintic",
    hold_attitude: bool = True,
) -> HandPath:
    """A straight way of a frame from where it is to ``goal`` (m, world), turning about one axis to ``attitude``.

    Args:
        attitude: quaternion (w, x, y, z) at the end; as at the start unless given.
        hold_attitude: with False and no attitude, the attitude is left to itself.
    """
    with at("hand_line"):
        target = array(goal, "goal", (3,))
        origin, rotation = mechanics_of(robot).frame_pose(frame, start.joints, base=start.pose)
        position, _ = point_to_point(origin, target, duration, profile=profile)
        first = quaternion_from_rotation(rotation)
        if attitude is None:
            turning = Turning(first) if hold_attitude else None
            return HandPath(frame, tuple(position), turning, duration)
        turn = rotation_from_quaternion(unit_vector(attitude, "attitude", (4,))) @ rotation.T
        axis, angle = _axis_angle(turn)
        make = quintic if profile == "quintic" else trapezoid
        return HandPath(frame, tuple(position), Turning(first, axis, make(0.0, angle, duration)), duration)


def _axis_angle(rotation: Array) -> tuple[Array, float]:
    """Axis (world) and angle, 0 to pi, of a rotation."""
    w, *vector = quaternion_from_rotation(rotation)
    size = float(np.linalg.norm(vector))
    if size == 0.0:
        return np.array([0.0, 0.0, 1.0]), 0.0
    sign = 1.0 if w >= 0.0 else -1.0
    return sign * np.array(vector) / size, 2.0 * math.atan2(size, abs(w))


@dataclass(frozen=True, eq=False)
class JointPlan:
    """Joint paths by name, which take a frame along its way while the base floats."""

    signals: dict[str, Signal]
    end: State
    error: float  # m, largest of the frame on its way


def follow_line(
    robot: Robot, start: State, path: HandPath, *, samples: int = 200, tolerance: float = 1e-6
) -> JointPlan:
    """Inverse kinematics on the floating base: joint paths that take the hand along a path.

    On a floating base the joints that reach a pose depend on the way there, so the way is gone: with the generalized
    Jacobian, the base moving as it does.

    Raises:
        InputError: the path leads through a dynamic singularity or out of reach; it says when.
    """
    law = resolved_acceleration(
        path.frame, path.position, path.attitude, command="accelerations", period=None, stiffness=4.0, damping=4.0
    )
    grid = np.linspace(0.0, path.duration, samples + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        warnings.simplefilter("ignore", CertificateWarning)
        run = simulate(robot, start, Phase(path.duration, laws=law, limits="ignore"), sample=grid, max_steps=20_000)
    reached = mechanics_of(robot).frame_pose(path.frame, run.states[:, 7 : 7 + robot.n], base=run.states[:, :7])[0]
    wanted = np.stack([as_signal(each, "position")(run.times) for each in path.position], axis=1)
    off = np.linalg.norm(reached - wanted, axis=1)
    bad = np.flatnonzero(~(off <= tolerance))
    if bad.size or run.end is None or run.end_time < path.duration * (1.0 - 1e-9):
        when = float(run.times[bad[0]]) if bad.size else run.end_time
        raise InputError(
            f"frame {path.frame!r} cannot follow its path beyond {when:.4g} s of {path.duration:g} s",
            place="follow_line",
            hint="the path leaves the reach, or meets a dynamic singularity",
        )
    columns = run.states[:, 7 : 7 + robot.n]
    signals = {name: spline(run.times, columns[:, i]) for i, name in enumerate(robot.joint_names)}
    return JointPlan(signals, run.end, float(off.max()))


def stretched(signal: Signal, factor: float) -> Signal:
    """The same way in ``factor`` times the time."""
    powers = np.arange(len(signal.coefficients))[:, None]
    return Signal(signal.breaks * factor, signal.coefficients / float(factor) ** powers)


def within_limits(robot: Robot, start: State, paths: Sequence[Signal], duration: float) -> float:
    """By what factor joint paths from rest must be slowed down (below 1: may be sped up) for the joints' limits.

    ``paths`` has one for each joint; limits are those of rate and effort in the robot.
    """
    if np.any(start.velocity != 0.0):
        raise InputError("the robot moves at the start", place="within_limits", hint="expected a start at rest")
    driven = dict(zip(robot.joint_names, paths, strict=True))
    run = simulate(robot, start, Phase(duration, driven=driven, limits="ignore"), sample=duration / 1000.0)
    if not run.sound:
        raise SimulationError(f"the motion could not be run: {run.why}", place="within_limits")
    rates = np.abs(run.data["joint_velocity"].values).max(axis=0)
    forces = np.abs(run.data["reaction"].values[:, 6:]).max(axis=0)
    top = np.array([joint.limits.velocity for joint in robot.joints])
    most = np.array([joint.limits.effort for joint in robot.joints])
    return float(max((rates / top).max(), np.sqrt((forces / most).max())))
