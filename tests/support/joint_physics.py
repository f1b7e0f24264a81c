"""A planar arm with one flexible joint on a free base, its equations written out: data that spacearm did not make.

Bodies: base (x, y, heading), link 1 behind the flexible joint, link 2 behind a rigid joint that is led along a path.
The rotor turns with the base's rate plus ``ratio`` times the motor's. Masses m, inertias J about the mass centres, link
lengths l with the mass centre at c; joint 1 sits at (a, 0) of the base. The motion is not spacearm's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline

from spacearm.identify.joint import MeasurementChain, prepare_test
from spacearm.identify.joint._programs import Drive
from spacearm.identify.joint.measured import JointTest
from spacearm.measure import Record
from spacearm.mechanics.sensors import Encoder, TorqueSensor
from spacearm.model import Pose, Robot
from spacearm.model.edit import make_flexible
from spacearm.model.parts import Body, Frame, Inertia, Joint, Rotor

Array = NDArray[np.float64]
Path = Callable[[float], tuple[float, float, float]]


@dataclass(frozen=True)
class Plant:
    """Numbers of the arm, and of the joint: what is looked for."""

    stiffness: float
    damping: float
    motor_inertia: float  # on the load side
    ratio: float = 1.0
    mass: tuple[float, float, float] = (80.0, 6.0, 4.0)
    inertia: tuple[float, float, float] = (8.0, 0.5, 0.3)
    length: tuple[float, float] = (0.9, 0.8)
    centre: tuple[float, float] = (0.45, 0.4)
    mount: float = 0.3
    friction: float = 0.0  # dry, at the motor, N m
    hysteresis: float = 0.0  # dry friction beside the spring, N m

    def robot(self, **guess: float) -> Robot:
        """The same for spacearm, with other numbers of the joint where given."""
        joint = replace(self, **guess)
        angular_rate = [np.diag([0.6 * value, 0.6 * value, value]) for value in self.inertia]
        bodies = (
            Body("base", Inertia(self.mass[0], np.zeros(3), angular_rate[0])),
            Body("link1", Inertia(self.mass[1], np.array([self.centre[0], 0.0, 0.0]), angular_rate[1])),
            Body("link2", Inertia(self.mass[2], np.array([self.centre[1], 0.0, 0.0]), angular_rate[2])),
        )
        axis = np.array([0.0, 0.0, 1.0])
        joints = (
            Joint("joint1", "revolute", "base", "link1", Pose(np.eye(3), np.array([self.mount, 0.0, 0.0])), axis),
            Joint("joint2", "revolute", "link1", "link2", Pose(np.eye(3), np.array([self.length[0], 0.0, 0.0])), axis),
        )
        tip = Frame("hand", "link2", Pose(np.eye(3), np.array([self.length[1], 0.0, 0.0])))
        robot = Robot("plant", bodies, joints, frames=(tip,))
        rotor = Rotor(joint.motor_inertia / self.ratio**2, self.ratio)
        return make_flexible(robot, "joint1", joint.stiffness, joint.damping, rotor)

    def _lever(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Mass matrix and velocity terms of (x, y, heading, q1, q2, motor)."""
        mass, bias = np.zeros((6, 6)), np.zeros(6)
        heading, first = q[2], q[2] + q[3]
        second, turn = first + q[4], np.array([v[2], v[2] + v[3], v[2] + v[3] + v[4]])

        def unit(angle: float) -> tuple[Array, Array]:
            return np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])

        arms = {0: [], 1: [(self.mount, 0), (self.centre[0], 1)],
                2: [(self.mount, 0), (self.length[0], 1), (self.centre[1], 2)]}  # fmt: skip
        which = [[2], [2, 3], [2, 3, 4]]  # rates that make up each body's
        units = [unit(angle) for angle in (heading, first, second)]
        for body in range(3):
            jacobian, drift = np.zeros((2, 6)), np.zeros(2)
            jacobian[:, :2] = np.eye(2)
            for length, along in arms[body]:
                for rate in which[along]:
                    jacobian[:, rate] += length * units[along][1]
                drift -= length * units[along][0] * turn[along] ** 2
            angular_rate = np.zeros(6)
            angular_rate[which[body]] = 1.0
            mass += self.mass[body] * jacobian.T @ jacobian + self.inertia[body] * np.outer(angular_rate, angular_rate)
            bias += self.mass[body] * jacobian.T @ drift
        rotor = np.array([0.0, 0.0, 1.0, 0.0, 0.0, self.ratio])
        mass += self.motor_inertia / self.ratio**2 * np.outer(rotor, rotor)
        return mass, bias

    def run(
        self, times: Array, second: Path, motor: Path | None = None, torque: Callable[[float], float] | None = None,
        offset: float = 0.0, start: float = 0.0,
    ) -> Truth:  # fmt: skip
        """From rest, the spring stretched by ``offset``: the motor led along a path, or moved by a torque."""
        free = [0, 1, 2, 3] if motor is not None else [0, 1, 2, 3, 5]

        def whole(t: float, y: Array) -> tuple[Array, Array, Array]:
            q, v, a = y[:6].copy(), y[6:].copy(), np.zeros(6)
            q[4], v[4], a[4] = second(t)
            if motor is not None:
                q[5], v[5], a[5] = motor(t)
            return q, v, a

        def solved(t: float, y: Array) -> tuple[Array, Array, float]:
            q, v, a = whole(t, y)
            mass, bias = self._lever(q, v)
            pull = -self.stiffness * (q[3] - q[5]) - self.damping * (v[3] - v[5])
            pull -= self.hysteresis * np.tanh((v[3] - v[5]) / 1e-3)
            rub = -self.friction * np.tanh(v[5] / 1e-3)
            force = np.array([0.0, 0.0, 0.0, pull, 0.0, rub - pull + (0.0 if torque is None else torque(t))]) - bias
            rows = np.ix_(free, free)
            driven = [k for k in range(6) if k not in free]
            a[free] = np.linalg.solve(mass[rows], force[free] - mass[np.ix_(free, driven)] @ a[driven])
            return v, a, float(mass[5] @ a - force[5])

        def rate(t: float, y: Array) -> Array:
            v, a, _ = solved(t, y)
            return np.concatenate([v, a])

        begin = np.zeros(12)
        begin[4] = second(0.0)[0]
        begin[5] = start if motor is None else motor(0.0)[0]
        begin[3] = begin[5] + offset
        done = solve_ivp(rate, (0.0, times[-1]), begin, method="DOP853", t_eval=times, rtol=1e-10, atol=1e-12,
                         max_step=0.05)  # fmt: skip
        assert done.success
        states = done.y.T
        held = [solved(t, y)[2] if torque is None else torque(t) for t, y in zip(times, states, strict=True)]
        led = np.array([whole(t, y)[0] for t, y in zip(times, states, strict=True)])
        return Truth(self, times, led, np.array(held))


@dataclass(frozen=True)
class Truth:
    """What happened: positions (x, y, heading, q1, q2, motor) at the samples, and the motor's torque."""

    plant: Plant
    times: Array
    positions: Array
    torque: Array

    def readings(
        self, seed: int | None, sigma: dict[str, float], channels: tuple[str, ...] = ("joint1",)
    ) -> dict[str, Array]:
        """Columns by name with noise: joint1, joint1.motor, joint2, attitude.z, joint1.torque."""
        clean = {"joint1": self.positions[:, 3], "joint1.motor": self.positions[:, 5], "joint2": self.positions[:, 4],
                 "attitude.z": self.positions[:, 2], "joint1.torque": self.torque}  # fmt: skip
        rng = np.random.default_rng(seed)
        kept = {"joint1.motor", "joint2", "joint1.torque", *channels}
        noisy = {name: column + (0.0 if seed is None else sigma[name]) * rng.standard_normal(column.size)
                 for name, column in clean.items()}  # fmt: skip
        return {name: column for name, column in noisy.items() if name in kept}


def waves(terms: list[tuple[float, float, float]], level: float = 0.0) -> Path:
    """A sum of (amplitude, rate rad/s, phase) sines that begins at rest: each is faded in."""

    def path(t: float) -> tuple[float, float, float]:
        total = np.array([level, 0.0, 0.0])
        for amplitude, rate, phase in terms:
            s, c = np.sin(rate * t + phase), np.cos(rate * t + phase)
            sine = np.array([s - np.sin(phase), rate * c, -(rate**2) * s])
            fade_rate = 4.0 * rate
            e = np.exp(-fade_rate * t)
            fade = np.array(
                [1.0 - e * (1.0 + fade_rate * t), fade_rate**2 * t * e, fade_rate**2 * (1.0 - fade_rate * t) * e]
            )
            total += amplitude * np.array([
                sine[0] * fade[0], sine[1] * fade[0] + sine[0] * fade[1],
                sine[2] * fade[0] + 2.0 * sine[1] * fade[1] + sine[0] * fade[2],
            ])  # fmt: skip
        return float(total[0]), float(total[1]), float(total[2])

    return path


@dataclass(frozen=True)
class Case:
    """A joint, a motion and sensors."""

    plant: Plant
    times: Array
    second: Path
    motor: Path
    torque: Callable[[float], float]
    offset: float
    sigma: dict[str, float]
    truths: dict[tuple[Plant, str], Truth] = field(default_factory=dict)

    def truth(self, drive: str) -> Truth:
        if (self.plant, drive) not in self.truths:
            moved = {"motor": self.motor} if drive == "motor_angle" else {"torque": self.torque}
            self.truths[self.plant, drive] = self.plant.run(self.times, self.second, offset=self.offset, **moved)
        return self.truths[self.plant, drive]


def _case(
    plant: Plant, rate: float, count: int, pace: float, size: float, push: float, offset: float, **sigma: float
) -> Case:
    waved = waves([(size, pace, 0.4), (0.6 * size, 1.7 * pace, 1.1), (0.3 * size, 3.1 * pace, 2.0)], 0.2)
    second = waves([(0.5 * size, 0.8 * pace, 0.3)], -0.3)

    def torque(t: float) -> float:
        return push * float(np.sin(pace * t) + 0.7 * np.sin(2.3 * pace * t + 0.5) + 0.4 * np.sin(4.1 * pace * t + 1.0))

    noise = {"joint1": sigma["link"], "joint1.motor": sigma["encoder"], "joint2": sigma["encoder"],
             "attitude.z": sigma["base"], "joint1.torque": sigma["torque"]}  # fmt: skip
    return Case(plant, np.arange(count) / rate, second, waved, torque, offset, noise)


CASES: dict[str, Case] = {
    "soft": _case(Plant(5.1, 0.4, 3.3), 50.0, 501, 0.9, 0.1, 0.3, 0.03, link=1e-3, encoder=1e-4, base=1e-3,
                  torque=0.01),
    "k8000": _case(Plant(8000.0, 12.0, 3.0), 200.0, 601, 9.0, 0.03, 20.0, 2e-3, link=5e-5, encoder=2e-5, base=2e-4,
                   torque=0.05),
    "k1e5": _case(Plant(1e5, 60.0, 3.0), 1000.0, 801, 30.0, 0.01, 200.0, 5e-4, link=1e-5, encoder=1e-5, base=2e-4,
                  torque=0.5),
    "geared": _case(Plant(8000.0, 12.0, 3.0, 100.0), 200.0, 601, 9.0, 0.03, 20.0, 2e-3, link=5e-5, encoder=2e-5,
                    base=2e-4, torque=0.05),
}  # fmt: skip


def joint_test(
    case: Case, truth: Truth, seed: int | None, drive: Drive, channels: tuple[str, ...] = ("joint1", "attitude.z"),
    **more: Any,
) -> JointTest:  # fmt: skip
    """Readings as a test; with a torque the motor's encoder is compared."""
    read = truth.readings(seed, case.sigma, channels)
    if drive == "torque":
        channels = (*channels, "joint1.motor")
        more = {"torques": {"joint1": read["joint1.torque"]}, "torque_sigma": case.sigma["joint1.torque"], **more}
    noise = np.array([case.sigma[name] for name in channels])
    encoders = {name: read[name] for name in ("joint1.motor", "joint2")}
    measured = {name: read[name] for name in channels}
    options = {"encoder_sigma": case.sigma["joint1.motor"], **more}
    return JointTest(f"seed {seed}", truth.times, encoders, measured, noise, **options)


#: What may go wrong with a test, and the words of which one must be among the suspects where the fit is not sound;
#: nothing where right values are the only good end.
FAULTS: dict[str, tuple[str, ...]] = {
    "friction": ("motor_coulomb",),
    "delay": ("delay",),
    "drift": ("attitude.z.drift",),
    "outliers": (),
    "missing": (),
    "torque": ("torque_scale",),
    "mount": ("bias",),
}


def spoilt(case: Case, drive: Drive, seed: int, fault: str, share: float = 0.01) -> JointTest:
    """A test in which one of :data:`FAULTS` happened.

    Dry friction of 3 N m; readings of link and base 20 ms late; a base attitude that drifts by 1 mrad/s, as a gyro with
    a bias has it; outliers (``share``); 5 % missing readings; torque 3 % above what is said; a camera's target on the
    hand 2 cm aside.
    """
    if fault == "friction":
        case = replace(case, plant=replace(case.plant, friction=3.0))
    truth, rng = case.truth(drive), np.random.default_rng([seed, 1000])
    if fault == "mount":
        return seen_by_cameras(case, truth, seed, drive, aside=0.02)
    test = joint_test(case, truth, seed, drive)
    measured, encoders, torques = dict(test.measured), dict(test.encoders), dict(test.torques)
    if fault == "delay":
        for name, column in (("joint1", 3), ("attitude.z", 2)):
            clean = truth.positions[:, column]
            measured[name] = measured[name] - clean + CubicSpline(case.times, clean)(np.maximum(case.times - 0.02, 0.0))
    if fault == "drift":
        measured["attitude.z"] = measured["attitude.z"] + 1e-3 * case.times
    if fault == "torque":
        torques = {joint: np.asarray(row) / 1.03 for joint, row in torques.items()}
    for kind, rows in (("", measured), ("", encoders), (".torque", torques)):
        for name, row in rows.items() if fault in ("outliers", "missing") else ():
            hit = rng.random(case.times.size) < (share if fault == "outliers" else 0.05)
            if fault == "outliers":
                rows[name] = row + hit * 100.0 * case.sigma[name + kind] * rng.normal(size=row.size)
            else:
                rows[name] = np.where(hit, np.nan, row)
    return replace(test, measured=measured, encoders=encoders, torques=torques)


def seen_by_cameras(case: Case, truth: Truth, seed: int, drive: Drive, aside: float = 0.0) -> JointTest:
    """The link's angle by the poses of base and hand (0.5 mm, 1 mrad), the hand's target ``aside`` (m) of its place."""
    return prepare_test(*camera_record(case, truth, seed, drive, aside))


def camera_record(
    case: Case, truth: Truth, seed: int, drive: Drive, aside: float = 0.0
) -> tuple[Record, MeasurementChain]:
    """The same as a record of such poses and of encoders, and how it shows the joint."""
    plant, rng, q = case.plant, np.random.default_rng([seed, 2000]), truth.positions
    angles = np.cumsum(q[:, 2:5], axis=1)
    hand = q[:, :2] + sum(
        length * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        for length, angle in zip((plant.mount, *plant.length), angles.T, strict=True)
    )
    hand = hand + aside * np.stack([-np.sin(angles[:, 2]), np.cos(angles[:, 2])], axis=1)
    encoder = Encoder(noise=case.sigma["joint1.motor"])
    read = truth.readings(seed, case.sigma)
    columns = {name: read[name] for name in ("joint1.motor", "joint2")}
    for whose, place, heading in (("", q[:, :2], q[:, 2]), ("frame_", hand, angles[:, 2])):
        columns[f"{whose}position"] = place + 5e-4 * rng.normal(size=place.shape)
        columns[f"{whose}attitude"] = heading + 1e-3 * rng.normal(size=heading.size)
    if drive == "torque":
        columns["joint1.torque"] = read["joint1.torque"]
    sensors = [encoder, TorqueSensor(noise=case.sigma["joint1.torque"])]
    record = Record.from_columns(f"seed {seed}", case.times, columns)
    return record, MeasurementChain(plant.robot(), "hand", sensors)
