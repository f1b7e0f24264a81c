"""What the servicer knows of the target before it has caught it: readings of its pose, a filter, and the motion ahead.

Laws act on estimates only. A camera gives the pose of the grasp frame with bias, noise, latency and gaps; an extended
Kalman filter of a free rigid body with the assumed mass properties turns readings into position, velocity, attitude and
angular velocity (multiplicative form: F. L. Markley, Attitude error representations for Kalman filtering, J. Guidance,
Control, and Dynamics 26 (2), 2003). Its motion, followed ahead, is what the path of the hand is planned from; the path
is planned anew as readings arrive.

The filter's state is a vector of 13 numbers: position of the mass centre (world), quaternion (body to world), velocity
of the mass centre (world), angular velocity (body axes). Its errors are 12 numbers in that order, the attitude's a
rotation vector in body axes. In an orbit the world's axes rotate, and both follow Hill's equations. SI units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.errors import InputError, error_context
from spacearm.mechanics.sensors import Sensor
from spacearm.mission._encounter import FACING, Encounter, MissionTargetTable
from spacearm.mission._limits import Positive
from spacearm.model.layout import QUATERNION
from spacearm.model.rotations import rotation_matrices
from spacearm.model.toml_schema import Duration, Number, Seed, Vector3
from spacearm.simulate import State
from spacearm.study import ScenarioTable, key
from spacearm.study.findings import NotedValue
from spacearm.study.sensor_tables import SensorTable
from spacearm.typing import Array

POSITION, VELOCITY, RATE = slice(0, 3), slice(7, 10), slice(10, 13)
#: s, and rad that the body may rotate: the longest step in which the motion is followed.
LONGEST_STEP, LONGEST_ROTATION = 0.25, 0.05
#: Readings of a camera, at most.
MOST_READINGS = 100_000
DEGREE = np.pi / 180.0


class CameraTable(ScenarioTable):
    """Readings of the pose of the grasp frame, in world axes, while the target is free."""

    period: Duration = key(0.5, "s between readings")
    delay: Number = key(0.0, "s from a reading to its use")
    position_noise: Number = key(0.0, "standard deviation of each coordinate, m")
    position_bias: Vector3 = key([0.0, 0.0, 0.0], "constant error of the position, m, world axes")
    position_spread: Number = key(0.0, "standard deviation of a further constant error, random in each run, m")
    angle_noise: Number | None = key(None, "standard deviation of the attitude about each axis, rad")
    angle_noise_deg: Number | None = None
    angle_bias: Vector3 | None = key(None, "constant error of the attitude, rad, a rotation vector in target axes")
    angle_bias_deg: Vector3 | None = None
    angle_spread: Number | None = key(None, "standard deviation of a further constant error, random in each run, rad")
    angle_spread_deg: Number | None = None
    lost: Number = key(0.0, "share of the readings that is lost, at random")
    gaps: list[list[Number]] = key([], "intervals [[start, end], ...] without readings, s")
    update: Duration = key(2.0, "s between plans of the hand's path, each from what is known then")
    position_start: Positive = key(0.05, "standard deviation of the first estimate: position, m")
    velocity_start: Positive = key(0.01, "velocity, m/s")
    angle_start: Positive | None = key(None, "attitude, rad; 3 deg if omitted")
    angle_start_deg: Positive | None = None
    rate_start: Positive | None = key(None, "angular velocity, rad/s; 0.2 deg/s if omitted")
    rate_start_deg: Positive | None = None
    velocity_drift: Positive = key(
        1e-4, "change of velocity in 1 s that the filter allows for, standard deviation, m/s"
    )
    rate_drift: Positive = key(1e-4, "change of angular velocity in 1 s that the filter allows for, rad/s")

    def size(self, name: str, default: float = 0.0) -> float:
        """An angle or its rate in SI units."""
        given = self.si_value(name)
        return default if given is None else float(given)

    @property
    def noise(self) -> Array:
        """Standard deviations (6) of a reading as the filter takes them, m and rad; it knows nothing of a bias."""
        # A perfect reading has no inverse covariance.
        return np.repeat(np.maximum([self.position_noise, self.size("angle_noise")], 1e-6), 3)

    @property
    def start(self) -> Array:
        """Standard deviations (12) of the first estimate."""
        angle, rate = self.size("angle_start", 3.0 * DEGREE), self.size("rate_start", 0.2 * DEGREE)
        return np.repeat([self.position_start, angle, self.velocity_start, rate], 3)

    def check(self, duration: float) -> None:
        """An error where readings would fill the memory, or numbers are none that a camera has."""
        plain = ("delay", "position_noise", "position_spread")
        angles = ("angle_noise", "angle_spread")
        for name, given in ({n: getattr(self, n) for n in plain} | {n: self.size(n) for n in angles}).items():
            if given < 0.0:
                raise InputError(f"is {given:g}", place=name, hint="expected zero or more")
        if not 0.0 <= self.lost <= 1.0:
            raise InputError(f"is {self.lost:g}", place="lost", hint="expected a share, 0 to 1")
        for k, gap in enumerate(self.gaps):
            if len(gap) != 2 or not gap[0] <= gap[1]:
                raise InputError(f"is {gap}", place=f"gaps[{k}]", hint="expected start and end of the gap, s")
        if duration / self.period > MOST_READINGS:
            hint = f"expected at most {MOST_READINGS}"
            raise InputError(f"{duration / self.period:.3g} readings", place="period", hint=hint)


class NavigationTable(ScenarioTable):
    """What laws know; the truth, where it is left out."""

    seed: Seed = key(0, "seed of all noise")
    camera: CameraTable | None = key(None, "readings of the target's pose; its true motion is known if left out")
    sensor: list[SensorTable] = key([], "sensors of the servicer that its laws read in place of its true state")

    def sensors(self) -> tuple[Sensor, ...]:
        found = []
        for k, table in enumerate(self.sensor):
            with error_context(f"sensor[{k}]"):
                found.append(table.make())
        return tuple(found)


def _skew(v: Array) -> Array:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _rotate(quaternion: Array, rotation: Array) -> Array:
    """The quaternion after a rotation vector in body axes."""
    angle = float(np.linalg.norm(rotation))
    half = np.concatenate([[np.cos(0.5 * angle)], 0.5 * np.sinc(0.5 * angle / np.pi) * rotation])
    w, v = quaternion[0], quaternion[1:]
    found = np.concatenate([[w * half[0] - v @ half[1:]], w * half[1:] + half[0] * v + np.cross(v, half[1:])])
    return np.asarray(found / np.linalg.norm(found))


def _rotation_between(rotation: Array, other: Array) -> Array:
    """Rotation vector from one attitude to another, in axes of the first."""
    from scipy.spatial.transform import Rotation

    return np.asarray(Rotation.from_matrix(rotation.T @ other).as_rotvec())


@dataclass(frozen=True, eq=False)
class FreeBody:
    """Motion of a free rigid body.

    Args:
        com: mass centre (3,) in the body's frame, m.
        inertia: about the mass centre (3, 3), body axes, kg m2.
        mean_motion: of the orbit in whose axes it is described, rad/s; 0: none.
    """

    com: Array
    inertia: Array
    mean_motion: float = 0.0

    def rate(self, state: Array) -> Array:
        """Time derivative of a state (13,)."""
        n, angular_rate, velocity = self.mean_motion, state[RATE], state[VELOCITY]
        # Euler's equations hold for the angular velocity against inertial space.
        inertial, pull, moment = angular_rate, np.zeros(3), np.zeros(3)
        if n:
            rotation = rotation_matrices(state[QUATERNION])
            # Hill's axes rotate about their z axis; x points away from the Earth.
            inertial, up = angular_rate + n * rotation[2], rotation[0]
            pull = n * np.array([3.0 * n * state[0] + 2.0 * velocity[1], -2.0 * velocity[0], -n * state[2]])
            # Gravity gradient on a circular orbit.
            moment = 3.0 * n * n * np.cross(up, self.inertia @ up)
        change = np.linalg.solve(self.inertia, moment - np.cross(inertial, self.inertia @ inertial))
        if n:
            # From the inertial rate's derivative to that of the rate in Hill's axes: the orbit's own rate is constant
            # in the world, and turns in body axes.
            change = change + np.cross(angular_rate, inertial - angular_rate)
        w, v = state[3], state[4:7]
        turned = 0.5 * np.concatenate([[-v @ angular_rate], w * angular_rate + np.cross(v, angular_rate)])
        return np.concatenate([velocity, turned, pull, change])

    def move(self, state: Array, time: float) -> Array:
        """The state after a time, which may be negative, s; Runge-Kutta steps of order four."""
        # Steps are short against the rotation as well: fourth order then leaves errors far below those of any reading.
        largest = min(LONGEST_STEP, LONGEST_ROTATION / max(float(np.linalg.norm(state[RATE])), 1e-9))
        count = max(int(np.ceil(abs(time) / largest)), 1)
        step = time / count
        for _ in range(count if time else 0):
            a = self.rate(state)
            b = self.rate(state + 0.5 * step * a)
            c = self.rate(state + 0.5 * step * b)
            d = self.rate(state + step * c)
            state = state + step / 6.0 * (a + 2.0 * b + 2.0 * c + d)
            state[QUATERNION] /= np.linalg.norm(state[QUATERNION])
        return state

    def error_rates(self, state: Array) -> Array:
        """Matrix (12, 12) by which errors of a state grow; the orbit's share in those of the rotation is left out."""
        n, angular_rate, found = self.mean_motion, state[RATE], np.zeros((12, 12))
        found[0:3, 6:9] = found[3:6, 9:12] = np.eye(3)
        # A small rotation in body axes turns with the body.
        found[3:6, 3:6] = -_skew(angular_rate)
        found[6:9, 0:3] = np.diag([3.0 * n * n, 0.0, -n * n])
        found[6, 7], found[7, 6] = 2.0 * n, -2.0 * n
        # Euler's equations by the rate: d(w x I w) = dw x I w + w x I dw.
        found[9:12, 9:12] = np.linalg.solve(
            self.inertia, _skew(self.inertia @ angular_rate) - _skew(angular_rate) @ self.inertia
        )
        return found


class MotionFilter:
    """Extended Kalman filter of a free body's motion from poses of a point on it.

    Args:
        body: how it is assumed to move.
        point: the point (3,) in the body's frame, m.
        state, deviations: first estimate (13,) and its standard deviations (12,).
        noise: standard deviations (6,) of a reading, m and rad.
        drift: changes of velocity (m/s) and angular velocity (rad/s) in 1 s that are allowed for.
    """

    def __init__(
        self, body: FreeBody, point: Array, state: Array, deviations: Array, noise: Array, drift: tuple[float, float]
    ) -> None:
        self.body, self.arm = body, point - body.com
        self.time, self.state, self.covariance = 0.0, state, np.diag(deviations**2)
        self._noise = np.diag(noise**2)
        self._drift = np.diag(np.repeat([0.0, 0.0, drift[0] ** 2, drift[1] ** 2], 3))

    def move(self, time: float) -> None:
        """Move the estimate to this time, s."""
        from scipy.linalg import expm

        step = time - self.time
        # Linear about the state at the start of the step: readings are close together beside the tumble's period.
        grown = expm(self.body.error_rates(self.state) * step)
        # What is added on the way has on average half of the way to act.
        half = expm(self.body.error_rates(self.state) * 0.5 * step)
        self.covariance = grown @ self.covariance @ grown.T + step * half @ self._drift @ half.T
        self.state, self.time = self.body.move(self.state, step), time

    def take(self, time: float, position: Array, rotation: Array) -> None:
        """A reading of this time, s: the point's position (3,), m, and the body's attitude (3, 3), world."""
        self.move(time)
        attitude = rotation_matrices(self.state[QUATERNION])
        seen = np.zeros((6, 12))
        # A small rotation in body axes moves the point by R (error x arm).
        seen[:3, :3], seen[:3, 3:6], seen[3:, 3:6] = np.eye(3), -attitude @ _skew(self.arm), np.eye(3)
        off = np.concatenate(
            [position - self.state[POSITION] - attitude @ self.arm, _rotation_between(attitude, rotation)]
        )
        gain = np.linalg.solve(seen @ self.covariance @ seen.T + self._noise, seen @ self.covariance).T
        change, rest = gain @ off, np.eye(12) - gain @ seen
        # Joseph's form stays symmetric and positive under rounding.
        self.covariance = rest @ self.covariance @ rest.T + gain @ self._noise @ gain.T
        # Multiplicative: the correction of the attitude is a rotation, so that the quaternion stays of unit length and
        # the covariance of three numbers is not singular.
        self.state = shift_state(self.state, change)


def shift_state(state: Array, errors: Array) -> Array:
    """A state (13,) with errors (12,) added."""
    moved = state.copy()
    moved[POSITION] += errors[:3]
    moved[QUATERNION] = _rotate(state[QUATERNION], errors[3:6])
    moved[VELOCITY] += errors[6:9]
    moved[RATE] += errors[9:12]
    return moved


class TargetNavigation:
    """What a servicer with a camera knows of the target's motion, as time goes on.

    Args:
        table: the camera.
        target: the target, whose assumed mass properties the filter uses.
        met: its true motion, which the camera sees.
    """

    def __init__(
        self, table: CameraTable, target: MissionTargetTable, met: Encounter, seed: int, orbit: float | None
    ) -> None:
        self.table, self.met, self._grasp = table, met, target.grasp.pose()
        guess = target.assumed_robot.bodies[0].inertia
        body = FreeBody(guess.com, guess.tensor, orbit or 0.0)
        self._rng = np.random.default_rng([seed, 1])
        self._times, self._positions, self._rotations = self._readings()
        self._taken = 0
        # About the assumed mass centre: a wrong one makes the filter see a point that circles.
        first = self._first_state(met.start, guess.com)
        start = shift_state(first, table.start * np.random.default_rng([seed, 2]).normal(size=12))
        drift = table.velocity_drift, table.rate_drift
        self.filter = MotionFilter(body, self._grasp.translation, start, table.start, table.noise, drift)

    @staticmethod
    def _first_state(start: State, com: Array) -> Array:
        rotation, (linear, angular) = rotation_matrices(start.quaternion), np.split(start.velocity[:6], 2)
        velocity = rotation @ (linear + np.cross(angular, com))
        return np.concatenate([start.position + rotation @ com, start.quaternion, velocity, angular])

    def _readings(self) -> tuple[Array, Array, Array]:
        """Times, positions of the grasp and attitudes of the body that the camera reads."""
        from scipy.interpolate import CubicSpline
        from scipy.spatial.transform import Rotation, RotationSpline

        table, met, rng = self.table, self.met, self._rng
        times = np.arange(0.0, met.times[-1] + 1e-9, table.period)
        constant, noise = rng.normal(size=6), rng.normal(size=(times.size, 6))
        # Drawn for all readings: a gap does not change the noise of others.
        is_lost = rng.random(times.size) < table.lost
        for begin, end in table.gaps:
            is_lost |= (times >= begin) & (times <= end)
        bias = table.si_value("angle_bias")
        place = np.array(table.position_bias) + table.position_spread * constant[:3]
        angle = (np.zeros(3) if bias is None else np.asarray(bias)) + table.size("angle_spread") * constant[3:]
        positions = CubicSpline(met.times, met.position)(times) + place + table.position_noise * noise[:, :3]
        body = met.rotation @ (self._grasp.rotation @ FACING).T
        attitudes = RotationSpline(met.times, Rotation.from_matrix(body))(times)
        wrong = Rotation.from_rotvec(angle + table.size("angle_noise") * noise[:, 3:])
        kept = ~is_lost
        return times[kept], positions[kept], (attitudes * wrong).as_matrix()[kept]

    @property
    def readings(self) -> int:
        """Readings that have been used."""
        return self._taken

    def predict(self, now: float) -> Encounter:
        """The target's estimated motion at this time, s."""
        # A reading counts once its delay is over, for the time at which it was taken.
        while self._taken < self._times.size and self._times[self._taken] + self.table.delay <= now + 1e-9:
            k = self._taken
            self.filter.take(float(self._times[k]), self._positions[k], self._rotations[k])
            self._taken += 1
        met, body = self.met, self.filter.body
        states = self._follow(met.times)
        rotations = rotation_matrices(states[:, QUATERNION])
        first, rotation = states[0], rotations[0]
        linear = rotation.T @ first[VELOCITY] - np.cross(first[RATE], body.com)
        start = State(
            first[:3] - rotation @ body.com, first[QUATERNION], np.zeros(0), np.concatenate([linear, first[RATE]])
        )
        return Encounter(
            start,
            met.times,
            states[:, :3] + rotations @ self.filter.arm,
            rotations @ self._grasp.rotation @ FACING,
            np.einsum("tij,tj->ti", rotations, states[:, RATE]),
            met.meeting,
        )

    def _follow(self, times: Array) -> Array:
        """The estimate's state (T, 13) at all of these times, before and after now."""
        found = np.zeros((times.size, 13))
        middle = int(np.searchsorted(times, self.filter.time))
        for order in (range(middle, times.size), range(middle - 1, -1, -1)):
            time, state = self.filter.time, self.filter.state
            for k in order:
                state, time = self.filter.body.move(state, float(times[k]) - time), float(times[k])
                found[k] = state
        return found

    def rows(self, now: float) -> dict[str, NotedValue]:
        """The present estimate against the truth."""
        place, angle = self.errors(now)
        return {
            "position": NotedValue(place, "error of the estimated place of the grasp", "m"),
            "angle": NotedValue(angle, "error of its attitude", "rad"),
            "readings": NotedValue(self.readings, "of its pose that were used"),
        }

    def errors(self, now: float) -> tuple[float, float]:
        """Error of the estimated grasp: of its place, m, and of its attitude, rad, now."""
        from scipy.interpolate import CubicSpline
        from scipy.spatial.transform import Rotation, RotationSpline

        seen, met = self.predict(now), self.met
        away = CubicSpline(met.times, seen.position - met.position)(now)
        true, assumed = (RotationSpline(met.times, Rotation.from_matrix(each.rotation))(now) for each in (met, seen))
        return float(np.linalg.norm(away)), float((true.inv() * assumed).magnitude())
