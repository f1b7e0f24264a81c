"""Inertia of what was caught: excitation by arm and thrusters, noisy sensors, identification with its covariance.

Joints move on given paths and thrusters fire while sensors record; an output-error fit (:mod:`spacearm.identify`)
estimates the ten inertia parameters of the gripper together with its load. The gripper's own are known and subtracted,
which leaves the target's, moved into its frame. Linear maps carry the covariance along, so every number has a standard
deviation; directions that the motion does not excite are reported as not determined and never as numbers.

The record without noise is kept, so that noise can be drawn again from other seeds without another run. Sensors have
white noise of known deviation; bias and misalignment are not modelled. The model has the target as one rigid body:
where it moves on free joints, chi-square says how badly that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from spacearm.checks import array, check_name
from spacearm.errors import InputError, SimulationError, error_context
from spacearm.identify.inertia import MotionRecord, OutputErrorProblem, prepare_record
from spacearm.identify.inertia.inertia_parameters import PLAIN, PLAIN_UNITS, plain_of
from spacearm.identify.inertia.load import target_load
from spacearm.identify.inertia.output_error_fit import fit_output_error
from spacearm.identify.inertia.prepare_record import firing_intervals
from spacearm.identify.inertia.scenario import ExciteKeys
from spacearm.measure import Channel, Record
from spacearm.measure.sensors import shared_mount, shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.mission._flight import MissionFlight
from spacearm.mission._limits import LimitUsage, Positive
from spacearm.mission._stages import Flown, StageTable
from spacearm.model import Pose, Robot
from spacearm.model.layout import Layout
from spacearm.model.parts import STANDARD_GRAVITY
from spacearm.model.toml_schema import Duration
from spacearm.result import Limit
from spacearm.simulate import Phase, Release, Signal, constant, pulse, thruster_load
from spacearm.simulate.readings import Moments, read_moments
from spacearm.study import key
from spacearm.study.findings import NotedValue
from spacearm.study.sensor_tables import SamplingTable, SensorTable
from spacearm.text_format import format_result as text_of
from spacearm.typing import Array

#: Excursions are no larger, rad or m: more than any joint moves.
LARGEST = 100.0
#: A deviation that is not known is this many times what it may be.
UNKNOWN = 100.0


@dataclass(frozen=True, eq=False)
class LoadIdentification:
    """Identification of the load of a gripper, whose own inertia is known, from a record.

    Args:
        robot: servicer with the nominal model of the target.
        gripper: body that holds the target, and its own ten inertia parameters.
        place: the target's frame in the gripper's.
        clean: the record without noise.
    """

    robot: Robot
    gripper: str
    own: Array
    place: Pose
    clean: MotionRecord

    def repeat(self, seed: Any) -> IdentifiedLoad:
        """The load identified from the record with random noise of this seed."""
        # Only the gripper's parameters are unknown: its load is part of it, the rest of the servicer is known.
        problem = OutputErrorProblem(self.robot, [self.clean.add_noise(seed)], bodies=[self.gripper])
        fit = fit_output_error(problem)
        first, rank = 10 * self.robot.body_index(self.gripper), problem.base.rank
        # From base parameters (identifiable combinations) back to the ten of this body, by the fit's linear lift.
        lift = problem.base.lift[first : first + 10]
        whole = problem.inertia(fit.x)[first : first + 10]
        covariance = lift @ fit.covariance[:rank, :rank] @ lift.T
        # Directions that the data say nothing about: whatever has a part in them is not determined.
        hidden = lift @ (fit.unseen * problem.sizes[:rank, None])
        target = target_load(self.gripper, whole, self.own, covariance, hidden, self.place)
        return IdentifiedLoad(whole, target.values, target.std, 2.0 * fit.cost / fit.freedom, fit.reason.has_converged)


@dataclass(frozen=True, eq=False)
class IdentifiedLoad:
    """Identified load: the gripper's ten parameters with it, and the target's mass properties in its own frame."""

    load: Array
    plain: Array  # mass, mass centre, moments about it
    std: Array
    chi_square: float  # by degree of freedom
    converged: bool

    @property
    def mass(self) -> float:
        return float(self.plain[0])

    def rows(self, truth: Array) -> dict[str, Any]:
        """Every number of the target with its deviation, and the error that only a simulation knows."""
        numbers = zip(PLAIN, self.plain, self.std, truth, PLAIN_UNITS, strict=True)
        return {
            name: NotedValue(float(value), f"standard deviation {std:.2g}; is {text_of(float(true))}", unit)
            if np.isfinite(std)
            else NotedValue(None, "not determined by this motion", unit)
            for name, value, std, true, unit in numbers
        }


class IdentifySamplingTable(SamplingTable):
    """What is measured while the inertia is identified, and what the sensors have in common."""

    sample: Duration = key(0.2, "interval of the samples, s")


class IdentifyLoadTable(StageTable, ExciteKeys):
    """The inertia of the target is identified: thrusters fire, joints move, wheels keep their speed."""

    called: ClassVar[str] = "identify"

    duration: Duration = key(30.0, "s")
    sensors: IdentifySamplingTable = key(IdentifySamplingTable(), "what is measured, how often, from which seed")
    sensor: list[SensorTable] = key([], "sensors that differ from typical ones")
    mass: Positive = key(0.05, "largest standard deviation of the mass, relative to it")
    chi_square: Positive = key(
        1.5,
        "largest chi-square by degree of freedom; more says that the target is not one rigid body, or a part failed",
    )

    def excursion_paths(self, flight: MissionFlight) -> dict[str, Signal]:
        """Paths of the joints that move."""
        for joint in self.excursions:
            check_name(joint, flight.actuators.arm, "joint", of="arm", place="excursions")
        robot, start = flight.context.world.own_robot(flight.name), flight.state.joints
        # Encoders tell that a joint does not move: it is not part of the experiment.
        works = {joint for joint in self.excursions if flight.failures.works(joint, flight.context.time)}
        paths = {joint: path for joint, path in self.paths(robot, start).items() if joint in works}
        for joint, path in paths.items():
            excursion = path(path.breaks) - start[robot.joint_index(joint)]
            array(excursion, f"excursion of {joint}", least=-LARGEST, most=LARGEST, place="excursions")
        return paths

    def phase(self, flight: MissionFlight, paths: Mapping[str, Signal], times: Array) -> Phase:
        """Joints on their paths, wheels at their speed, thrusters firing; sampled as the sensors do."""
        robot, actuators = flight.context.world.own_robot(flight.name), flight.actuators
        return Phase(
            self.duration,
            locked=[name for name in actuators.arm if name not in paths],
            driven=paths,
            # Wheels keep their speed: their momentum is then known exactly.
            accelerations=dict.fromkeys(actuators.wheels, constant(0.0)),
            loads=[
                thruster_load(robot, name, pulse(level, start, end - start))
                for name, start, end, level in self.list_firings(flight)
            ],
            sample=times,
            name=self.called,
        )

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        actuators, name = flight.actuators, flight.name
        with error_context(self.called):
            paths, sensors = self.excursion_paths(flight), self.sensors.sensors(self.sensor)
        times = np.arange(0.0, self.duration * (1.0 + 1e-12), shared_period(sensors))
        # Joints that are not excited are held by their brakes, so that no law disturbs the record.
        yield from flight.brake()
        if paths:
            yield Release([flight.context.world.label(name, joint) for joint in paths])
        begin = flight.context.time
        with error_context(self.called):
            phase = self.phase(flight, paths, times)
        firings = self.list_firings(flight)
        flight.firings += [(thruster, begin + start, begin + end, level) for thruster, start, end, level in firings]
        fired = usage.spend(*self.propellant_use(flight, firings))
        yield from flight.phase(usage, phase, known=fired)
        seen, rows = flight.context.samples
        # The run also samples at events: the sensors' instants are picked out.
        states = rows[name][np.searchsorted(seen - begin, times - 1e-9)]
        yield from flight.brake()
        record = self.record(flight, paths, sensors, times, states)
        assert flight.caught is not None
        place = actuators.robot.frame(actuators.hand).placement @ flight.caught
        own = actuators.robot.inertia_parameters[actuators.robot.body_index(actuators.gripper)]
        flight.identification = LoadIdentification(flight.assumed_robot(), actuators.gripper, own, place, record)
        try:
            found = flight.identified = flight.identification.repeat(self.sensors.seed)
        except (np.linalg.LinAlgError, InputError) as error:
            raise SimulationError(
                f"what was measured cannot be evaluated: {error}",
                place=self.called,
                hint="expected noise and excursions of usual sizes",
            ) from None
        # An undetermined mass has an infinite deviation; a finite stand-in keeps margins comparable.
        doubt = min(float(found.std[0] / found.mass), UNKNOWN * self.mass)
        # Deviations hold for a model that explains what was measured: with slosh they may be far too small.
        limits = [
            Limit("uncertain", doubt, self.mass, "of its mass"),
            Limit("poor fit", found.chi_square, self.chi_square, "by degree of freedom"),
        ]
        truth = plain_of(flight.table.rigid_robot.inertia_parameters[0])
        numbers: dict[str, Any] = {"target": found.rows(truth)}
        numbers["error"] = NotedValue(
            float(np.max(np.abs(found.plain - truth) / found.std)), "largest, of the ten numbers", "standard deviations"
        )
        numbers["chi_square"] = NotedValue(found.chi_square, "by degree of freedom")
        return limits, numbers

    def list_firings(self, flight: MissionFlight) -> list[tuple[str, float, float, float]]:
        """Thruster, start, end (s) and level of each firing of a phase that begins now, with thrusters that work."""
        now, robot = flight.context.time, flight.context.world.own_robot(flight.name)
        return [
            (thruster, start, end, level)
            for thruster, signal in self.levels(robot, self.duration).items()
            for start, end, level in firing_intervals(thruster, signal, self.duration)
            if flight.failures.works(thruster, now + start)
        ]

    def propellant_use(
        self, flight: MissionFlight, firings: Sequence[tuple[str, float, float, float]]
    ) -> tuple[float, Array, Array]:
        """Propellant of all firings, kg, and how much of it has gone at the ends of the firings, s since the start."""
        ends, masses = [flight.context.time], [0.0]
        for thruster, start, end, level in sorted(firings, key=lambda firing: firing[2]):
            part = flight.actuators.robot.thruster(thruster)
            impulse = level * part.force * (end - start)
            ends.append(flight.context.time + end)
            # Propellant = impulse / (specific impulse times standard gravity).
            masses.append(impulse / (part.specific_impulse * STANDARD_GRAVITY))
        return sum(masses), np.array(ends), np.cumsum(masses)

    def record(
        self, flight: MissionFlight, paths: Mapping[str, Signal], sensors: Sequence[Sensor], times: Array, states: Array
    ) -> MotionRecord:
        """Readings of the sensors, without noise; that a thruster has failed is not known to the estimate."""
        # A target with free joints is a system of its own: the model has it as one rigid body.
        robot = flight.assumed_robot() if flight.table.has_free_joints else flight.context.world.own_robot(flight.name)
        rows = read_moments(robot, sensors, Moments(states))
        x, y, z = (float(entry) for entry in shared_mount(sensors))
        channels = {
            sensor.channel: Channel(
                times, values, sigma=sensor.noise, spread=float(np.max(sensor.spread)), mount=(x, y, z)
            )
            for sensor, values in zip(sensors, rows, strict=True)
        }
        # Wheels turn at a steady rate.
        layout = Layout(robot.n)
        steady = np.stack([states[0, layout.joints], states[0, layout.rates]])
        wheels = {
            name: Signal(np.array([0.0, self.duration]), steady[:, [robot.joint_index(name)]])
            for name in flight.actuators.wheels
        }
        commands = {**wheels, **paths, **self.levels(robot, self.duration)}
        made = prepare_record(robot, Record(self.called, channels, commands))
        # Without noise yet: that of the attitude, times the orbit's rate, is far below that of any gyro.
        return made if flight.file.orbit is None else made.remove_orbital_rotation(flight.file.orbit)
