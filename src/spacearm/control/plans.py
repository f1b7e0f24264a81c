"""Plans: point-to-point signals for joints and for the hand, as fast as limits permit.

Without gravity and from rest, a motion that takes c times as long needs c**2 times less force (every term of the
equations of motion is of second order in the rates): time scaling under limits of force and rate is exact.

Profiles are piecewise polynomials (:class:`~spacearm.simulate.Signal`): a quintic with zero acceleration at both ends,
or a trapezoid of the rate. A :class:`JointPlan` is joint paths with the state that they start from; where the base goes
meanwhile comes from a run with the joints driven, since on a floating base it depends on the whole path. Limits and
gaps are checked on that run. Positions m or rad, world axes for frames, quaternions (w, x, y, z). Springs and dampers
break the scaling law above; nothing is optimised here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, number, one_of, positive, unit_vector
from spacearm.control.attitude_paths import Attitude, AttitudeRotation, AttitudeSpline, rest_spline, smooth_spline
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, SimulationError, error_context
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.simulate import Phase, Run, Signal, State, collision_pairs, gaps, nearest_approach, simulate
from spacearm.simulate.distance import NearestApproach, Pair
from spacearm.simulate.signals import from_ppoly
from spacearm.typing import Array

Profile = Literal["quintic", "trapezoid"]
#: Share of the duration in which a trapezoid speeds up.
BLEND = 0.25
#: Largest rate and acceleration of 10 s^3 - 15 s^4 + 6 s^5 on the unit interval.
QUINTIC_RATE, QUINTIC_ACCELERATION = 15.0 / 8.0, 10.0 / math.sqrt(3.0)
#: Speeds up to this (m/s, rad/s) count as rest.
STILL = 1e-9
#: Intervals between the samples of a plan.
SAMPLES = 400
#: A limit is broken by more than this, relative to the value or 1.
ROUNDING = 1e-9


def quintic(first: float, last: float, duration: float, rate: float = 0.0) -> Signal:
    """A quintic to rest, from rest or from a ``rate``, with zero acceleration at both ends; constant afterwards."""
    change, t = last - first, positive(duration, "duration", unit="s", place="quintic")
    if not 1e-60 < t < 1e60:  # its fourth power is a number
        raise InputError(f"duration is {t:g} s", place="quintic", hint="expected 1e-60 to 1e60 s")
    # 10, -15, 6 are the coefficients from rest to rest; those of the rate meet the velocity at the start.
    cubic, quartic, fifth = 10 * change / t - 6 * rate, -15 * change / t + 8 * rate, 6 * change / t - 3 * rate
    # No quadratic term: the acceleration starts at zero, and with it the torque.
    powers = [first, rate, 0.0, cubic / t**2, quartic / t**3, fifth / t**4]
    return Signal(np.array([0.0, t, 2 * t]), np.array([powers, [last, 0, 0, 0, 0, 0]]).T)


def trapezoid(first: float, last: float, duration: float, blend: float = BLEND) -> Signal:
    """Constant acceleration for a fraction ``blend`` of the duration, constant rate, constant deceleration; then
    constant.
    """
    t = positive(duration, "duration", unit="s", place="trapezoid")
    share = number(blend, "blend", above=0.0, most=0.5, place="trapezoid")
    # The area under the trapezoid of the rate is rate t (1 - share).
    rate = (last - first) / (t * (1.0 - share))
    rise, ramp = rate / (share * t), share * t
    gone = 0.5 * rate * ramp
    pieces = [[first, 0.0, 0.5 * rise], [first + gone, rate, 0.0], [last - gone, rate, -0.5 * rise]]
    edges = [0.0, ramp, t - ramp, t, 2 * t]
    if share == 0.5:
        del pieces[1], edges[2]
    return Signal(np.array(edges), np.array([*pieces, [last, 0.0, 0.0]]).T)


def shortest_duration(
    displacement: npt.ArrayLike, rate: npt.ArrayLike, acceleration: npt.ArrayLike, profile: Profile = "quintic"
) -> float:
    """Shortest duration (s) in which all displacements fit the largest rates and accelerations (infinite: no limit)."""
    one_of(profile, ("quintic", "trapezoid"), "profile")
    distances = np.abs(np.asarray(displacement, dtype=np.float64))
    # Peaks of the profile of unit distance and duration. All joints take the time of the slowest.
    top, bend = QUINTIC_RATE, QUINTIC_ACCELERATION
    if profile == "trapezoid":
        top, bend = 1.0 / (1.0 - BLEND), 1.0 / (BLEND * (1.0 - BLEND))
    # Rates fall with the duration, accelerations with its square.
    times = [top * distances / np.asarray(rate), np.sqrt(bend * distances / np.asarray(acceleration))]
    return float(np.max(times, initial=0.0))


def point_to_point(
    first: npt.ArrayLike,
    last: npt.ArrayLike,
    duration: float | None = None,
    *,
    rate: npt.ArrayLike = math.inf,
    acceleration: npt.ArrayLike = math.inf,
    profile: Profile = "quintic",
    start: npt.ArrayLike = 0.0,
) -> tuple[list[Signal], float]:
    """Joint (or position) signals that start and end together, and their duration.

    Args:
        duration: s; the shortest within the limits by default.
        rate, acceleration: the largest of each, one for all or each.
        start: rates at the start; if not zero, a quintic profile and a duration are required, and limits are not
            applied.
    """
    with error_context("point_to_point"):
        a = array(first, "first")
        b = array(last, "last", a.shape)
        begin = np.broadcast_to(array(start, "start"), a.shape)
        if np.any(begin):
            if profile != "quintic" or duration is None:
                raise InputError("moves at the start", hint="expected a duration and the quintic profile")
            moving = zip(a, b, begin, strict=True)
            return [quintic(float(x), float(y), duration, float(v)) for x, y, v in moving], float(duration)
        shortest = shortest_duration(b - a, rate, acceleration, profile)
        if duration is None:
            duration = positive(shortest, "shortest duration", unit="s", hint="give limits, or a duration")
        elif duration < shortest * (1.0 - 1e-12):
            raise InputError(f"{duration:g} s violates the limits", hint=f"expected at least {shortest:.6g} s")
        make = quintic if profile == "quintic" else trapezoid
        return [make(float(x), float(y), duration) for x, y in zip(a, b, strict=True)], float(duration)


@dataclass(frozen=True, eq=False)
class HandPath:
    """Path of a frame: three signals (m, world), and its attitude."""

    frame: str
    position: tuple[Signal, ...]
    attitude: Attitude | None
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
    """A straight path of a frame from its present position to ``goal`` (m, world), rotating about one axis to
    ``attitude``.

    A frame that moves at the start continues with its velocity and angular velocity, and comes to rest at the goal on a
    curved path.

    Args:
        attitude: quaternion (w, x, y, z) at the end; as at the start by default.
        hold_attitude: if False and no attitude is given, the attitude is free.
    """
    with error_context("hand_line"):
        target = array(goal, "goal", (3,))
        origin, rotation, velocity, angular_rate = _frame_motion(robot, start, frame)
        if profile != "quintic" and np.any([velocity, angular_rate]):
            raise InputError("the frame moves at the start", hint="expected profile='quintic'")
        position, _ = point_to_point(origin, target, duration, profile=profile, start=velocity)
        first = quaternion_from_rotation(rotation)
        if attitude is None and not hold_attitude:
            return HandPath(frame, tuple(position), None, duration)
        if np.any(angular_rate):
            ends = [first, first if attitude is None else array(attitude, "attitude", (4,))]
            return HandPath(
                frame, tuple(position), AttitudeSpline.interpolate([0.0, duration], ends, angular_rate), duration
            )
        if attitude is None:
            return HandPath(frame, tuple(position), AttitudeRotation(first), duration)
        relative = rotation_from_quaternion(unit_vector(attitude, "attitude", (4,))) @ rotation.T
        axis, angle = _axis_angle(relative)
        make = quintic if profile == "quintic" else trapezoid
        return HandPath(frame, tuple(position), AttitudeRotation(first, axis, make(0.0, angle, duration)), duration)


def _frame_motion(robot: Robot, start: State, frame: str) -> tuple[Array, Array, Array, Array]:
    """Origin and rotation of a frame in the world, its velocity and angular velocity (world axes)."""
    mechanics = mechanics_of(robot)
    origin, rotation = mechanics.frame_pose(frame, start.joints, base=start.pose)
    twist = _zero_rounding(mechanics.frame_velocity(frame, start.joints, start.velocity, base=start.pose))
    return origin, rotation, twist[:3], twist[3:]


def _zero_rounding(speeds: Array) -> Array:
    """Speeds, or zeros if all are within rounding."""
    return speeds if np.any(np.abs(speeds) > STILL) else np.zeros_like(speeds)


def _axis_angle(rotation: Array) -> tuple[Array, float]:
    """Axis (world) and angle, 0 to pi, of a rotation."""
    w, *vector = quaternion_from_rotation(rotation)
    size = float(np.linalg.norm(vector))
    if size == 0.0:
        return np.array([0.0, 0.0, 1.0]), 0.0
    sign = 1.0 if w >= 0.0 else -1.0
    return sign * np.array(vector) / size, 2.0 * math.atan2(size, abs(w))


def hand_spline(
    robot: Robot,
    start: State,
    frame: str,
    times: npt.ArrayLike,
    positions: npt.ArrayLike,
    attitudes: npt.ArrayLike | None = None,
    *,
    hold_attitude: bool = True,
) -> HandPath:
    """A smooth path of a frame from its present position through waypoints (K, 3) at times (K,), s, above zero.

    From its present velocity to rest, in quintic segments with continuous acceleration and angular acceleration.

    Args:
        attitudes: quaternions (K, 4) at the waypoints; as at the start by default.
        hold_attitude: if False and no attitudes are given, the attitude is free.
    """
    with error_context("hand_spline"):
        when = np.append(0.0, array(times, "times", ("K",)))
        through = array(positions, "positions", (when.size - 1, 3))
        origin, rotation, velocity, angular_rate = _frame_motion(robot, start, frame)
        columns = zip(np.vstack([origin, through]).T, velocity, strict=True)
        position = tuple(rest_spline(when, *column) for column in columns)
        first = quaternion_from_rotation(rotation)
        orientation: Attitude | None = AttitudeRotation(first) if hold_attitude else None
        if attitudes is None and hold_attitude and np.any(angular_rate):
            attitudes = np.tile(first, (len(through), 1))
        if attitudes is not None:
            quaternions = np.vstack([first, array(attitudes, "attitudes", (len(through), 4))])
            orientation = AttitudeSpline.interpolate(when, quaternions, angular_rate)
        return HandPath(frame, position, orientation, float(when[-1]))


@dataclass(frozen=True)
class LimitViolation:
    """A limit that a plan violates."""

    joint: str
    what: str  # position, rate or force
    time: float  # s, of the worst
    value: float
    limit: float

    def __str__(self) -> str:
        over = abs(self.value) - abs(self.limit)
        return (
            f"{self.what} of {self.joint!r} is {self.value:.6g} at {self.time:.4g} s, {abs(over):.3g} beyond its limit"
        )


@dataclass(frozen=True, eq=False)
class JointPlan:
    """Joint paths by name from an initial state on a floating base, for a phase to drive or a law to follow."""

    robot: Robot = field(repr=False)
    start: State = field(repr=False)
    signals: dict[str, Signal]
    duration: float  # s
    error: float = 0.0  # m, largest deviation of the frame from its path, if the plan was made for one
    path: HandPath | None = None  # the path that it was made for

    @classmethod
    def from_endpoints(
        cls, robot: Robot, start: State, last: npt.ArrayLike, duration: float | None = None
    ) -> JointPlan:
        """Straight path from the initial configuration to ``last``; the shortest within the joint rates if no
        ``duration`` is given.
        """
        rates = np.array([joint.limits.velocity for joint in robot.joints])
        limit = math.inf if duration else rates
        paths, lasting = point_to_point(start.joints, last, duration, rate=limit, start=_zero_rounding(start.rates))
        return cls(robot, start, dict(zip(robot.joint_names, paths, strict=True)), lasting)

    @property
    def paths(self) -> list[Signal]:
        """One for each joint, in the robot's order."""
        return [self.signals[name] for name in self.robot.joint_names]

    def phase(self, **more: Any) -> Phase:
        """A phase in which the joints follow the plan; further keywords as for :class:`Phase`."""
        return Phase(self.duration, driven=self.signals, **more)

    @cached_property
    def run(self) -> Run:
        """Simulate the plan: joints driven, base floating."""
        run = simulate(self.robot, self.start, self.phase(limits="ignore"), sample=self.duration / SAMPLES)
        if run.end is None or not run.sound:
            raise SimulationError(f"the plan could not be run: {run.why}", place="plan")
        return run

    @property
    def end(self) -> State:
        """Final state, including the base."""
        return self.run.end  # type: ignore[return-value]

    def hand(self, frame: str) -> HandPath:
        """Path of a frame in the world under the plan, for Cartesian laws: the path that it was made for, or a spline
        through samples.
        """
        if self.path is not None and self.path.frame == frame:
            return self.path
        times, states, at = self.run.times, self.run.states, Layout(self.robot.n)
        origin, rotation = mechanics_of(self.robot).frame_pose(frame, states[:, at.joints], base=states[:, at.pose])
        quaternions = np.array([quaternion_from_rotation(each) for each in rotation])
        for k in range(1, len(quaternions)):
            # q and -q are one attitude: a spline needs neighbours of the same sign.
            quaternions[k] *= 1.0 if quaternions[k] @ quaternions[k - 1] >= 0.0 else -1.0
        position, attitude = (
            tuple(smooth_spline(times, column) for column in values.T) for values in (origin, quaternions)
        )
        return HandPath(frame, position, AttitudeSpline(attitude), self.duration)

    @property
    def base_rotation(self) -> float:
        """Rotation of the base from start to end, rad."""
        w = abs(float(self.start.quaternion @ self.end.quaternion))
        # By atan2 and not acos, which loses half the digits of small angles.
        vector = np.linalg.norm(self.end.quaternion - math.copysign(w, 1.0) * self.start.quaternion)
        return 2.0 * math.atan2(float(vector), w) if w else math.pi

    def scale_time(self, factor: float) -> JointPlan:
        """The same path in ``factor`` times the time."""
        slow = {name: scale_time(signal, positive(factor, "factor")) for name, signal in self.signals.items()}
        return JointPlan(self.robot, self.start, slow, factor * self.duration, self.error)

    def find_violations(self) -> list[LimitViolation]:
        """Joint limits (position, rate, drive force) that the plan violates, each at its worst."""
        data, found = self.run.data, []
        force = data["reaction"].values[:, 6:]
        for i, joint in enumerate(self.robot.joints):
            limits = joint.limits
            ends = {
                "position": (data["joint_position"].values[:, i], limits.lower, limits.upper),
                "rate": (data["joint_velocity"].values[:, i], -limits.velocity, limits.velocity),
                "force": (force[:, i], -limits.effort, limits.effort),
            }
            for what, (values, low, high) in ends.items():
                over = np.maximum(values - high, low - values)
                k = int(np.argmax(over))
                # A plan may end at a limit: beyond it by rounding is no violation.
                if over[k] > ROUNDING * max(1.0, abs(values[k])):
                    limit = high if values[k] > high else low
                    found.append(
                        LimitViolation(joint.name, what, float(self.run.times[k]), float(values[k]), float(limit))
                    )
        return found

    def check(self) -> JointPlan:
        """Return the plan; raise an :class:`InputError` if it violates a joint limit."""
        broken = self.find_violations()
        if broken:
            more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
            hint = (
                "control.minimise_duration(plan) keeps rates and forces within limits"
                if broken[0].what != "position"
                else "choose another path"
            )
            raise InputError(f"{broken[0]}{more}", place="plan", hint=hint)
        return self

    def clearance(self, pairs: Sequence[Pair] | None = None, least: float | None = None) -> NearestApproach:
        """Smallest gap (m) between pairs of shapes along the plan, including the motion of the base.

        Args:
            pairs: shapes on frames of the robot, which move along with it, or at poses fixed in the world; the robot's
                own collision shapes by default.
            least: raise an :class:`InputError` with time and pair if the gap falls below this.
        """
        from scipy.interpolate import CubicHermiteSpline
        from scipy.optimize import minimize_scalar

        chosen = collision_pairs(self.robot) if pairs is None else pairs
        run, states = self.run, self.run.states
        found = nearest_approach(run, chosen)
        # The least gap lies between samples: refined on the interpolated motion around the nearest sample.
        moving = CubicHermiteSpline(run.times, states, run.track.outputs[:, : states.shape[1]])
        k = int(np.searchsorted(run.times, found.time))
        between = run.times[[max(k - 1, 0), min(k + 1, run.times.size - 1)]]
        best = minimize_scalar(
            lambda t: float(gaps(self.robot, [found.pair], moving(t))[0, 0]),
            bounds=between,
            method="bounded",
            options={"xatol": 1e-9},
        )
        if best.fun < found.gap:
            found = NearestApproach(float(best.fun), found.pair, float(best.x))
        if least is not None and found.gap < least:
            a, b = (each.label for each in found.pair)
            raise InputError(
                f"{a!r} and {b!r} come within {found.gap:.4g} m at {found.time:.4g} s",
                place="plan",
                hint=f"expected at least {least:g} m",
            )
        return found


def hermite(times: Array, values: Array, rates: Array) -> Signal:
    """Cubic segments with these values and rates at the times; afterwards the last rate is kept."""
    from scipy.interpolate import CubicHermiteSpline

    path = from_ppoly(CubicHermiteSpline(times, values, rates))
    breaks = np.append(path.breaks, 2 * times[-1] - times[0])
    # A rate of rounding would let the joint creep on after the path's end.
    last = rates[-1] if abs(rates[-1]) > STILL else 0.0
    return Signal(breaks, np.column_stack([path.coefficients, [values[-1], last, 0.0, 0.0]]))


def scale_time(signal: Signal, factor: float) -> Signal:
    """The same path in ``factor`` times the time."""
    # p(t / c): the coefficient of power k is divided by c^k.
    powers = np.arange(len(signal.coefficients))[:, None]
    return Signal(signal.breaks * factor, signal.coefficients / float(factor) ** powers)


def limit_time_factor(robot: Robot, start: State, paths: Sequence[Signal], duration: float) -> float:
    """Factor by which joint paths from rest must be slowed down (below 1: may be sped up) to respect the joint limits.

    ``paths`` has one for each joint; limits are those of rate and effort in the robot.
    """
    if np.any(start.velocity != 0.0):
        raise InputError("the robot moves at the start", place="limit_time_factor", hint="expected a start at rest")
    driven = dict(zip(robot.joint_names, paths, strict=True))
    # Forces scale with the square of the speed only if every part of them does: reactions of a run from rest without
    # gravity. See the module's note on springs and dampers.
    run = simulate(robot, start, Phase(duration, driven=driven, limits="ignore"), sample=duration / 1000.0)
    if not run.sound:
        raise SimulationError(f"the motion could not be run: {run.why}", place="limit_time_factor")
    rates = np.abs(run.data["joint_velocity"].values).max(axis=0)
    forces = np.abs(run.data["reaction"].values[:, 6:]).max(axis=0)
    top = np.array([joint.limits.velocity for joint in robot.joints])
    most = np.array([joint.limits.effort for joint in robot.joints])
    return float(max((rates / top).max(), np.sqrt((forces / most).max())))
