"""Experiments as data: which joints are locked, which move, which thrusters fire; simulated by the engine.

An experiment names a configuration, joint paths relative to it and firings, and no robot: the same one is simulated
with the nominal robot, with the real one and with every candidate of a design. For a robot it becomes a
:class:`.State` and a list of :class:`.Phase` s, cut where a thruster switches so that forces are constant within each.
The world's origin is the robot's mass centre at first: positions then stay small, and so does rounding in angular
momentum about the origin.

:func:`measure` integrates these phases so tightly that base parameters come back to 1e-9 from readings without noise,
and reads the sensors. Accelerations are solved for at the samples and not taken from the integrator, which at a switch
shows the phase that ends there: a record's sample belongs to the phase that begins. Any other run is a record too:
``measure.record_run(run, sensors)``, which :func:`.identify` takes as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_fields, check_increasing, check_name, non_negative, number, positive
from spacearm.engine import mechanics_of
from spacearm.errors import InputError, SimulationError, error_context
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.measure.sensors import numbers_by_channel, shared_mount, shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.result import Certificate
from spacearm.simulate import Dopri853, Phase, Run, State, simulate, spline, thruster_load
from spacearm.simulate.loads import thrust_wrench
from spacearm.simulate.readings import Moments, read_moments
from spacearm.typing import Array

#: Tight enough that base parameters come back to 1e-9 from noise-free data.
EXACT = Dopri853(rtol=2e-14, atol=1e-17)


@dataclass(frozen=True, slots=True)
class ThrusterFiring:
    """A thruster at ``level`` (1: full thrust) during [start, end), s."""

    thruster: str
    start: float
    end: float
    level: float = 1.0

    def __post_init__(self) -> None:
        with error_context(f"thruster {self.thruster!r}"):
            non_negative(self.start, "start", unit="s")
            number(self.end, "end", above=self.start, unit="s")
            non_negative(self.level, "level")


@dataclass(frozen=True, eq=False)
class SplineNodes:
    """A joint's path: a cubic spline through (times, positions) that starts and ends at rest; s, rad or m."""

    times: npt.NDArray[Any]
    positions: npt.NDArray[Any]

    def __post_init__(self) -> None:
        check_fields(self, check_increasing, "times", place="spline nodes", count=2, start=0.0, unit="s")
        check_fields(self, array, "positions", place="spline nodes", shape=self.times.shape)


@dataclass(frozen=True, eq=False)
class Experiment:
    """One experiment. Joints without a path are locked.

    Args:
        name: shown in reports (``thrusters``, ``joint1``, ...).
        duration: s.
        configuration: joint positions at the start (n numbers or the name of a configuration).
        paths: joint to spline nodes; positions are added to the configuration's.
        firings: thrusters that fire.
        base_velocity, base_angular_velocity: at the start, world axes (m/s, rad/s): the unknown initial momentum.
        known_momentum: the initial momentum is known (zero at rest) and not estimated.
    """

    name: str
    duration: float
    configuration: npt.ArrayLike | str = "zero"
    paths: Mapping[str, SplineNodes] = field(default_factory=dict)
    firings: Sequence[ThrusterFiring] = ()
    base_velocity: npt.ArrayLike = (0.0, 0.0, 0.0)
    base_angular_velocity: npt.ArrayLike = (0.0, 0.0, 0.0)
    known_momentum: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "firings", tuple(self.firings))
        positive(self.duration, "duration", unit="s", place=self.place)
        for fire in self.firings:
            if fire.end > self.duration + 1e-9:
                raise InputError(f"thruster {fire.thruster!r} fires beyond the end", place=self.place)

    @property
    def place(self) -> str:
        return f"experiment {self.name!r}"

    def describe(self, robot: Robot) -> str:
        """What moves and what fires, in one line."""
        words = []
        for name, nodes in self.paths.items():
            slides = robot.joint(name).kind == "prismatic"
            values = nodes.positions if slides else np.rad2deg(nodes.positions)
            at, times = (", ".join(f"{value:.4g}" for value in part) for part in (values, nodes.times))
            words.append(f"{name} through {at} {'m' if slides else 'deg'} at {times} s")
        words += [f"{f.thruster} fires from {f.start:.4g} s to {f.end:.4g} s" for f in self.firings]
        return f"{self.name}, {self.duration:g} s: {'; '.join(words)}"

    def start_joints(self, robot: Robot) -> Array:
        if isinstance(self.configuration, str):
            return np.asarray(robot.configuration(self.configuration))
        return array(self.configuration, "configuration", (robot.n,), place=self.place)

    def edges(self) -> list[float]:
        """Times at which a thruster starts or ends, with the start and the end of the experiment."""
        inner = {f.start for f in self.firings} | {f.end for f in self.firings}
        return [0.0, *sorted(t for t in inner if 0.0 < t < self.duration), float(self.duration)]

    def starts_at_rest(self) -> bool:
        return not (np.any(self.base_velocity) or np.any(self.base_angular_velocity))

    def phases(self, robot: Robot) -> list[Phase]:
        """The engine's phases: joints locked or on their path, thrusters firing."""
        start = self.start_joints(robot)
        for name in self.paths:
            check_name(name, robot.joint_names, "joint", place=self.place)
        locked = [name for name in robot.joint_names if name not in self.paths]
        whole = {
            name: spline(nodes.times, nodes.positions + start[robot.joint_index(name)])
            for name, nodes in self.paths.items()
        }
        phases = []
        for low, high in pairwise(self.edges()):
            middle = 0.5 * (low + high)
            loads = [thruster_load(robot, f.thruster, f.level) for f in self.firings if f.start <= middle < f.end]
            driven = {name: path.shift(-low) for name, path in whole.items()}
            phases.append(Phase(high - low, locked=locked, driven=driven, loads=loads, limits="ignore"))
        return phases

    def start(self, robot: Robot) -> State:
        """State at time zero; the world's origin is the robot's mass centre."""
        joints = self.start_joints(robot)
        centre = mechanics_of(robot).centre_of_mass(joints)
        rates = np.zeros(robot.n)
        return State.from_velocities(
            robot,
            joints,
            rates,
            position=-centre,
            base_velocity=self.base_velocity,
            base_angular_velocity=self.base_angular_velocity,
        )

    def run(
        self,
        robot: Robot,
        times: npt.ArrayLike,
        *,
        method: Dopri853 = EXACT,
        ledger: bool = True,
        inertia: Array | None = None,
    ) -> Run:
        """The motion of the robot as it is, or with other inertias (10(n + 1)), sampled at these times."""
        overrides = None if inertia is None else {"inertia": np.asarray(inertia).ravel()}
        phases = self.phases(robot)
        return simulate(
            robot, self.start(robot), phases, sample=times, method=method, ledger=ledger, overrides=overrides
        )

    def record(
        self, robot: Robot, sensors: Sequence[Sensor], times: Array, readings: Mapping[str, Array]
    ) -> MotionRecord:
        """What these readings (T, size) by channel of the experiment mean: which joints moved, which wrench acted."""
        return MotionRecord(
            name=self.name,
            times=times,
            readings=readings,
            mount=shared_mount(sensors),
            wrench=self.wrench(robot, times),
            thrusters={
                name: self.wrench(robot, times, name) for name in dict.fromkeys(f.thruster for f in self.firings)
            },
            edges=tuple(self.edges()),
            joint_acceleration=self.joint_accelerations(robot, times),
            moving=tuple(joint in self.paths for joint in robot.joint_names),
            sigma={name: numbers_by_channel(sensors, "noise").get(name, 0.0) for name in readings},
            bias_sigma=numbers_by_channel(sensors, "spread"),
            known_momentum=np.zeros(6) if self.known_momentum and self.starts_at_rest() else None,
        )

    def wrench(self, robot: Robot, times: Array, only: str | None = None) -> Array:
        """Wrench (T, 6) of the firing thrusters, or of one, at the base's origin, base axes; they sit on the base."""
        total = np.zeros((times.size, 6))
        for low, high in pairwise(self.edges()):
            fires = any(f.start <= low < f.end and f.level > 0 for f in self.firings)
            if fires and low < times[-1] and not np.any((times >= low - 1e-9) & (times < high - 1e-9)):
                raise InputError(
                    f"thrusters fire between two samples, from {low:g} s to {high:g} s",
                    place=self.place,
                    hint="sample more often: their impulse would be lost",
                )
        for f in self.firings:
            if only is not None and f.thruster != only:
                continue
            on = (times >= f.start - 1e-12) & (times < f.end - 1e-12)
            total[on] += f.level * wrench_of(robot, f.thruster)
        return total

    def joint_accelerations(self, robot: Robot, times: Array) -> Array:
        """Commanded accelerations (T, n) of the joints."""
        total = np.zeros((times.size, robot.n))
        begin = self.start_joints(robot)
        for name, nodes in self.paths.items():
            i = robot.joint_index(name)
            total[:, i] = spline(nodes.times, nodes.positions + begin[i]).derivative().derivative()(times)
        return total


def one_joint(
    robot: Robot, joint: str, configuration: npt.ArrayLike | str, nodes: SplineNodes, *, known_momentum: bool = False
) -> Experiment:
    """Equivalent two bodies: this joint moves, all others are locked."""
    robot.joint(joint)
    return Experiment(joint, float(nodes.times[-1]), configuration, {joint: nodes}, known_momentum=known_momentum)


def wrench_of(robot: Robot, thruster: str) -> Array:
    """Wrench (6,) of a thruster at full thrust at the base's origin, base axes; it must sit on the base."""
    part = robot.thruster(thruster)
    if part.body != robot.bodies[0].name:
        raise InputError(f"sits on {part.body!r}", place=f"thruster {thruster!r}", hint="expected the base")
    return thrust_wrench(robot, thruster)


def measure(
    robot: Robot, experiment: Experiment, sensors: Sequence[Sensor], *, method: Dopri853 = EXACT, ledger: bool = True
) -> MotionRecord:
    """Simulate the experiment on this robot and read the sensors, without noise or bias (see
    :meth:`MotionRecord.add_noise`)."""
    interval = shared_period(sensors)
    times = np.arange(0.0, experiment.duration * (1 + 1e-12), interval)
    if times.size < 2:
        raise InputError(
            f"lasts {experiment.duration:g} s, samples are {interval:g} s apart",
            place=experiment.place,
            hint="expected two samples or more",
        )
    run = experiment.run(robot, times, method=method, ledger=ledger)
    if run.end_time < times[-1] - 1e-9:
        raise SimulationError(
            f"the experiment ended at {run.end_time:.6g} s of {experiment.duration:g} s: {run.why}",
            place=experiment.place,
            hint="a slower motion, or weaker forces",
        )
    states = sample_states(run, times)
    acceleration, reaction = _solve_accelerations(robot, experiment, times, states, experiment.wrench(robot, times))
    rows = read_moments(robot, sensors, Moments(states, acceleration, reaction))
    readings = {sensor.channel: values for sensor, values in zip(sensors, rows, strict=True)}
    record = experiment.record(robot, sensors, times, readings)
    return replace(
        record,
        joint_acceleration=acceleration[:, 6:],
        known_momentum=_momentum(robot, experiment) if experiment.known_momentum else None,
        certificate=run.certificate or Certificate(),
        sound=run.sound,
    )


def sample_states(run: Run, times: Array) -> Array:
    """States of a run at times at which it was sampled."""
    return run.states[np.searchsorted(run.times, times - 1e-9)]


def _momentum(robot: Robot, experiment: Experiment) -> Array:
    start = experiment.start(robot)
    if experiment.starts_at_rest():
        return np.zeros(6)
    base = np.concatenate([start.position, start.quaternion])
    return mechanics_of(robot).momentum(start.joints, start.velocity, base=base)


def _solve_accelerations(
    robot: Robot, experiment: Experiment, times: Array, states: Array, wrench: Array
) -> tuple[Array, Array]:
    """Accelerations and drive forces at each sample from the equations of motion with the wrench of that sample.

    At a switching time the engine's own sample may show the stretch that ends there; a record's sample belongs to the
    one that begins.
    """
    n = robot.n
    drive = np.concatenate([np.zeros((times.size, 6)), experiment.joint_accelerations(robot, times)], axis=1)
    mode = np.concatenate([np.zeros(6), np.ones(n)])
    force = np.zeros((times.size, 6 + n))
    force[:, :6] = wrench
    joints, velocity = states[:, Layout(n).joints], states[:, Layout(n).velocity]
    acceleration, reaction = mechanics_of(robot).hybrid_dynamics(
        joints, velocity, force, drive, np.broadcast_to(mode, force.shape)
    )
    return acceleration, reaction[:, 6:]
