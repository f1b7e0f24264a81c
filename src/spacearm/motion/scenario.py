"""A single run in time from a scenario file: phases, loads, thrusters, driven joints, events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm.control import JointPlan, Law
from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, SimulationError, error_context
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.toml_schema import Duration, Name, Number, Seed
from spacearm.motion._plan_tables import PlanFindings, PlanTable, plans_of, with_plans
from spacearm.motion.law_tables import ControlLawTable
from spacearm.result import Check, Checks, Figure, Limit
from spacearm.scene import Scene, scene_of
from spacearm.simulate import RK4, Dopri853, Event, Phase, Run, Signal, State, World, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.simulate.ensemble.vectorised_phases import RUN_WITHOUT_DEVICE, VectorisedError
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun
from spacearm.simulate.methods import Method
from spacearm.simulate.run.chain import Phases
from spacearm.simulate.run.figures import figures
from spacearm.simulate.run.propellant import draws_propellant, with_propellant
from spacearm.simulate.run.touches import TouchRecord
from spacearm.study import Findings, ScenarioTable, Session, StudyFile, key, row
from spacearm.study.findings import NotedValue, joint_values, largest_difference, mujoco_check, xyz
from spacearm.study.limits import run_limits
from spacearm.study.scenario import VectorisedStudy
from spacearm.study.sensor_tables import SensorTable, sensors_of
from spacearm.study.signal_tables import (
    FiringTable,
    LoadTable,
    SignalKey,
    SignalTable,
    no_degrees_reason,
    signal_bounds,
    thruster_loads,
)
from spacearm.study.surroundings import MOST, HoldTable, SurroundingsKeys
from spacearm.study.tables import StartTable
from spacearm.text_format import format_number
from spacearm.typing import Array


class MethodTable(ScenarioTable):
    """Integration method."""

    uses: ClassVar = {"dopri853": ("rtol", "atol", "max_step", "max_steps"), "rk4": ("step", "max_steps")}

    kind: Literal["dopri853", "rk4"] = key("dopri853")
    rtol: Number = key(1e-10, "relative error tolerance of a step")
    atol: Number = key(1e-12, "absolute error tolerance of a step, SI")
    max_step: Number | None = key(None, "largest step, s")
    step: Number | None = key(None, "step of rk4, s")
    max_steps: Annotated[int, key(gt=0)] | None = key(None, "number of steps after which a run is aborted")

    def make(self) -> Method:
        """The method."""
        if self.kind == "dopri853":
            return Dopri853(self.rtol, self.atol, math.inf if self.max_step is None else self.max_step)
        if self.step is None:
            raise InputError("'step' is missing", hint="expected seconds")
        return RK4(self.step)


class EventTable(ScenarioTable):
    """An event: a quantity reaches a value."""

    quantity: Name = key(what="a joint, `<joint>.rate`, `base_x` ... `base_z`, `base_vx` ... `base_wz`")
    value: Number | None = key(None, "0 if omitted")
    value_deg: Number | None = None
    direction: Literal["rising", "falling", "either"] = key("either")

    def build(self, robot: Robot) -> Event:
        """The event of this robot."""
        self.refuse_degrees(no_degrees_reason(robot, self.quantity))
        return Event(self.quantity, self.si_value("value") or 0.0, self.direction)


class PhaseTable(ScenarioTable):
    """A phase of the run; times count from its start."""

    name: Name = key("", "name in messages")
    duration: Duration = key(what="s; with `until`, the longest duration")
    until: list[EventTable] = key([], "events that end the phase")
    record: list[EventTable] = key([], "events that are only recorded")
    locked: list[Name] = key([], "locked degrees of freedom: joints, `base_vx` ... `base_wz`")
    plan: Name | None = key(None, "plan that the joints follow, except locked ones")
    driven: dict[str, SignalKey] = key(
        {}, "joint = path: the joint follows it exactly; the torque of its drive is the reaction"
    )
    accelerations: dict[str, SignalKey] = key({}, "degree of freedom = prescribed acceleration")
    forces: dict[str, SignalKey] = key({}, "degree of freedom = applied force, N or N m")
    load: list[LoadTable] = key([], "forces and moments at frames")
    thruster: list[FiringTable] = key([], "thrusters that fire, each once")
    law: list[ControlLawTable] = key([], "control laws, which act simultaneously")
    free: list[Name] = key([], "joints that are neither driven nor held while laws command others: they move freely")
    friction: bool = key(True, "whether dry friction acts")
    limits: Literal["report", "stop", "ignore"] = key("report", "joint limits as events; they are not physical stops")

    def make_phase(
        self,
        robot: Robot,
        start: State,
        sensors: Mapping[str, Sensor],
        seed: int,
        others: Mapping[str, tuple[Robot, State]] | None = None,
        folder: Path = Path(),
    ) -> Phase:
        """The phase of this robot; its laws may read ``sensors``, and ``start`` is its state at time zero.

        ``others``: states of further systems at time zero; ``folder``: folder of the scenario.
        """

        def signals(what: str, given: Mapping[str, SignalTable], why: str = "") -> dict[str, Signal]:
            return {
                name: one.make_signal(f"{what}.{name}", why or no_degrees_reason(robot, name))
                for name, one in given.items()
            }

        def each(what: str, tables: list[Any], *more: Any) -> list[Any]:
            found = []
            for k, entry in enumerate(tables):
                with error_context(f"{what}[{k}]"):
                    found.append(entry.build(robot, *more))
            return found

        # Paths first: a path out of range is the clearer error if a law follows it too.
        driven = signals("driven", self.driven)
        for name, path in driven.items():
            check_path(robot, name, path, self.duration)
        # Laws are built for the state at time zero: held poses refer to it in every phase.
        laws = each("law", self.law, start, sensors, seed, others, folder)
        self._check_undriven({robot.name: robot, **{name: own for name, (own, _) in (others or {}).items()}}, laws)
        return Phase(
            self.duration,
            until=each("until", self.until),
            events=each("record", self.record),
            locked=self.locked,
            driven=driven,
            accelerations=signals("accelerations", self.accelerations),
            forces=signals("forces", self.forces, "a force cannot be given in degrees"),
            loads=[*each("load", self.load), *thruster_loads(robot, self.thruster, self.duration)],
            laws=laws,
            friction=self.friction,
            limits=self.limits,
            name=self.name,
        )

    def _check_undriven(self, systems: Mapping[str, Robot], laws: Sequence[Law]) -> None:
        """Raise an error if laws command some joints of an arm, and another joint is neither driven nor held."""
        named = {*self.locked, *self.driven, *self.accelerations, *self.forces}
        free = {*self.free}
        for system, robot in systems.items():
            own = [(table, law) for table, law in zip(self.law, laws, strict=True) if law.system == system]
            # Known from the table for most kinds; a law in Python must be compiled to tell.
            sets = [table.joints_of(robot) for table, _ in own]
            commanded = {
                name
                for found, (_, law) in zip(sets, own, strict=True)
                for name in (law.commands_of(robot) if found is None else found)
            }
            arm = robot.arm_names
            if not commanded & {*arm}:
                continue
            # A coupled joint is held by its spring, a joint with friction by that: they are not left loose.
            tied = {end for coupling in robot.couplings for end in (coupling.first, coupling.second)}
            # A joint that nothing holds moves under reaction forces: rarely meant, and hard to see in a result.
            limp = []
            for name in arm:
                joint, names = robot.joint(name), {name, f"{system}/{name}"}
                held = joint.spring is not None or joint.friction is not None or name in tied or names & named
                if name not in commanded and not held and not names & free:
                    limp.append(name)
            if limp and self.plan is None:
                listed = ", ".join(map(repr, limp))
                raise InputError(
                    f"nothing drives or holds {listed} of {system!r} while a law moves other joints",
                    hint="give a reference, lock them, or let them move freely: free = [...]",
                )


def check_path(robot: Robot, name: str, path: Signal, duration: float) -> None:
    """Check that a path stays in the range of exact angles; an unknown joint name is reported by the phase."""
    if name in robot.joint_names and robot.joint(name).kind == "revolute":
        farthest = max(map(abs, signal_bounds(path, duration)))
        if farthest > LARGEST_ANGLE:
            raise InputError(
                f"goes to {farthest:g} rad", place=f"driven.{name}", hint=f"expected at most {LARGEST_ANGLE:g} rad"
            )


#: Tables that vectorised runs do not have, and why: force elements and further systems need events, or other programs
#: than the lanes share.
NOT_VECTORISED = {
    "system": "has one robot and no further systems",
    "contact": "has no contacts: each sample would have events of its own",
    "stops": "has no joint stops: each sample would have events of its own",
    "gravity": "is in free space, without gravity",
    "gravity_gradient": "is in free space, without gravity",
    "orbit": "is in free space, without an orbit",
    "drag": "is in free space, without drag",
    "joint_law": "has no laws of joints (LuGre, Bouc-Wen, backlash), whose memory it does not integrate; springs, "
    "dampers and couplings of the robot's file are part of it",
    "latch": "has no latches: each sample would close its own at another time",
    "loop": "has one robot, whose own loops are part of it; loops between systems are not",
}


class MotionFile(StudyFile, SurroundingsKeys):
    """A single run in time."""

    sample: Duration | None = key(None, "sampling interval of the record, s; 200 samples over the run if omitted")
    tolerance: Number = key(1e-7, "relative error that the certificate permits")
    start: StartTable = key(StartTable(), "state at time zero; at rest in the zero configuration if omitted")
    method: MethodTable = key(MethodTable(), "integration method")
    loop: list[HoldTable] = key(
        [],
        "loops between frames of two systems as they stand at time zero; velocities that they forbid are lost",
    )
    plan: list[PlanTable] = key([], "joint paths that phases and laws follow")
    phase: list[PhaseTable] = key(what="phases, in sequence", min_length=1)
    sensor: list[SensorTable] = key([], "sensors that sampled laws read in place of the true state")
    seed: Seed = key(0, "seed of the sensor noise")

    def world(self, session: Session, robot: Robot, start: State) -> tuple[World, dict[str, State]]:
        """The world with the robot and everything else in the file, and the states at time zero."""
        systems = {robot.name: (robot, start), **self.other_systems(session, robot)}
        world = World({name: own for name, (own, _) in systems.items()})
        # Elements refer to frames of all systems: the world must exist before they are made.
        states = {name: state for name, (_, state) in systems.items()}
        world = world.replace(elements=tuple(self.elements(world)))
        if len(self.loop) > MOST:
            raise InputError(f"has {len(self.loop)} entries", place="loop", hint=f"expected at most {MOST}")
        for k, table in enumerate(self.loop):
            with error_context(f"loop[{k}]"):
                closed = table.change(world).apply(world, states)
            world, states = closed.world, dict(closed.states)
        return world, states

    def other_systems(self, session: Session, robot: Robot) -> dict[str, tuple[Robot, State]]:
        """Further systems, and their states at time zero."""
        found: dict[str, tuple[Robot, State]] = {}
        for k, table in enumerate(self.system):
            with error_context(f"system[{k}]"):
                if table.name == robot.name or table.name in found:
                    raise InputError(f"a second system is called {table.name!r}", place="name")
                own = table.make_robot(session)
                with error_context("start"):
                    found[table.name] = own, table.start.state(own)
        return found

    def prepare_run(self, session: Session) -> tuple[Robot, State, list[Phase], Method, dict[str, JointPlan]]:
        """The robot, its state at time zero, the phases, the method, and the plans."""
        robot = self.load_robot(session, loops=True)
        with error_context("start"):
            start = self.start.state(robot)
        session.report_progress(0.02, "planning")
        plans, sensors = plans_of(self.plan, robot, start), sensors_of(self.sensor)
        phases = []
        others = self.other_systems(session, robot)
        # Plans are put into the tables first, so that a phase has one source of its paths.
        for index, entry in enumerate(self.phase):
            with error_context(f"phase[{index}]"):
                phases.append(
                    with_plans(entry, plans).make_phase(robot, start, sensors, self.seed, others, session.folder)
                )
        with error_context("method"):
            return robot, start, phases, self.method.make(), plans

    def solve(self, session: Session) -> Findings:
        """Run the scenario and return its findings."""
        robot, start, phases, method, plans = self.prepare_run(session)
        world, states = self.world(session, robot, start)
        session.report_progress(0.1, "compiling and running")
        total = float(sum(phase.duration for phase in phases))
        schedule: Phases = phases if self.latch is None else self.latch.chain(world, phases)
        if draws_propellant(world):
            schedule = with_propellant(schedule)
            # One program for all phases: changes between them would otherwise begin another each time.
            world = world.replace(loads=tuple({load.place: None for phase in phases for load in phase.loads}))
        done = simulate(
            world,
            states,
            schedule,
            duration=total,
            method=method,
            sample=self.sample,
            tolerance=self.tolerance,
            max_steps=self.method.max_steps,
            progress=session.partial_progress(0.1, 0.6, "seconds"),
        )
        # Half a run is of no use to a reader: an error with its cause, not a result with a remark.
        if done.reason == EndReason.TOO_MANY_STEPS:
            raise SimulationError(
                f"the run ended at t = {done.end_time:.9g} s of {total:g} s: {done.why}",
                place=phases[min(len(done.phase_starts), len(phases)) - 1].place_in_run(len(done.phase_starts) - 1),
                hint="slow down the fast motion, or raise method.max_steps",
            )
        checked = None
        if session.cross_check:
            # The reference integration takes longer than the run: it has a bar of its own.
            progress = session.partial_progress(0.6, 0.95, "cross-checking with MuJoCo, seconds")
            checked = mujoco_check(cross_check(done, progress=progress))
        return MotionFindings(whole=done, phases=len(phases), method=method, checked=checked, plans=plans)

    def prepare_lane(self, session: Session) -> VectorisedStudy:
        """The scenario with fixed steps as one lane of a vectorised batch."""
        for name, what in NOT_VECTORISED.items():
            if getattr(self, name):
                raise VectorisedError(
                    f"a vectorised run {what}", place=name, hint=f"leave out {name!r}, or {RUN_WITHOUT_DEVICE}"
                )
        robot, start, phases, method, plans = self.prepare_run(session)
        if draws_propellant(World({robot.name: robot})):
            hint = RUN_WITHOUT_DEVICE
            raise VectorisedError("a vectorised run does not take propellant out of tanks", place="robot", hint=hint)
        if not isinstance(method, RK4):
            hint = f'expected method = {{ kind = "rk4", step = ... }}, or {RUN_WITHOUT_DEVICE}'
            raise VectorisedError("adapts its steps; a vectorised run needs fixed steps", place="method", hint=hint)
        run = VectorisedRun(robot, start, phases, method.step, self.tolerance)
        total = float(sum(phase.duration for phase in phases))
        return VectorisedStudy(
            run, lambda end: VectorisedMotionFindings(robot=robot, state=end, time=total, plans=plans)
        )


class EndStateFindings(Findings):
    """Final state of a run."""

    robot: Robot
    state: State

    base_velocity = row("m/s", "world axes", of=lambda e: xyz(e.state.base_velocity))
    base_angular_velocity = row("rad/s", "world axes", of=lambda e: xyz(e.state.base_angular_velocity))
    joint = row(of=lambda e: joint_values(e.robot, e.state.joints))
    joint_rate = row(of=lambda e: joint_values(e.robot, e.state.rates, "/s"))


class VectorisedMotionFindings(Findings):
    """Findings of a vectorised run that conserved momentum and energy; rows as in :class:`MotionFindings`."""

    robot: Robot
    state: State
    time: float
    plans: dict[str, JointPlan]

    end_time = row("s", name="end.time", of=lambda m: NotedValue(m.time, EndReason.FINISHED.text))
    end = row(of=lambda m: EndStateFindings(robot=m.robot, state=m.state))
    plan = row(of=lambda m: {name: PlanFindings(plan=plan) for name, plan in m.plans.items()})


#: Largest number of touches with rows; the run has all of them.
MOST_TOUCHES = 10


class TouchFindings(Findings):
    """A touch at a contact or stop."""

    touch: TouchRecord

    start = row("s", of=lambda t: t.touch.start)
    duration = row(
        "s", of=lambda t: NotedValue(t.touch.end - t.touch.start, "" if t.touch.released else "still closed")
    )
    closing_speed = row("m/s", of=lambda t: t.touch.closing_speed)
    impulse = row("N s", "on the second shape, world axes", of=lambda t: xyz(t.touch.impulse))
    peak_force = row("N", "normal", of=lambda t: t.touch.peak_force)
    indentation = row("m", of=lambda t: t.touch.indentation)
    dissipated = row("J", of=lambda t: t.touch.dissipated)


def _peak_text(times: Array, values: Array, unit: str) -> str:
    """The largest value of a curve and its time as text."""
    k = int(np.argmax(values))
    return f"{format_number(float(values[k]), 3)} {unit} (at {times[k]:.3g} s)"


class MotionFindings(Findings):
    """Findings of a run in time."""

    whole: Run
    phases: int
    method: Method
    checked: Check | None
    plans: dict[str, JointPlan]

    @property
    def run(self) -> Run:
        """The run of the scenario's robot, without the other systems of its world."""
        return self.whole if len(self.whole.tracks) == 1 else self.whole.extract_system(self.whole.tracks[0].name)

    end_time = row("s", name="end.time", of=lambda m: NotedValue(m.run.end_time, m.run.reason.text))
    end = row(of=lambda m: m.run.end and EndStateFindings(robot=m.run.robot, state=m.run.end))
    touch = row(
        of=lambda m: {
            f"{touch.contact}.{k + 1}": TouchFindings(touch=touch)
            for k, touch in enumerate(m.whole.touches[:MOST_TOUCHES])
        }
    )
    saturated = row(
        "1", "fraction of its law's active time at a limit of effort or rate", of=lambda m: m.run.saturation_shares
    )
    plan = row(of=lambda m: {name: PlanFindings(plan=plan) for name, plan in m.plans.items()})
    cross_check = row(name="cross_check.largest", of=lambda m: largest_difference(m.checked))

    def title(self) -> str:
        return f"Motion of {self.run.robot.name}"

    def headline(self) -> str:
        run, data = self.run, self.run.data
        if run.end is None:
            return f"The run ended after {run.end_time:g} s: {run.why}."
        place, attitude = data["base_position"].values, data["base_quaternion"].values
        # Rotation since the start from the scalar product of quaternions; its magnitude, since q and -q are equal.
        rotation = 2.0 * np.degrees(np.arccos(np.minimum(1.0, np.abs(attitude @ attitude[0]))))
        moved = 1e3 * np.linalg.norm(place - place[0], axis=1)
        rate = np.degrees(np.linalg.norm(data["base_angular_velocity"].values, axis=1))
        return (
            f"{self._worst_limit_text()} In {run.end_time:g} s the base rotates by at most "
            f"{_peak_text(run.times, rotation, 'deg')}, moves by at most {_peak_text(run.times, moved, 'mm')}, and "
            "its angular velocity is at most "
            f"{_peak_text(run.times, rate, 'deg/s')}."
        )

    def _worst_limit_text(self) -> str:
        """The worst limit as a sentence."""
        limits = self.limits()
        if not limits:
            return "No joint has limits."
        broken = [limit for limit in limits if limit.is_broken]
        if not broken:
            return f"All limits are met; the closest is {limits[0].words}."
        most = 3
        more = f" and {len(broken) - most} more" if len(broken) > most else ""
        return f"Limits are violated: {', '.join(limit.words for limit in broken[:most])}{more}."

    def summary(self) -> str:
        robot, counted = self.run.robot, f"{self.phases} phase{'s' if self.phases > 1 else ''}"
        return (
            f"The robot {robot.name} has {len(robot.bodies)} bodies, {robot.n} joints and a mass of "
            f"{robot.mass:g} kg. The run has "
            f"{counted} and lasts {self.run.end_time:g} s; dotted "
            f"lines mark the start of each. It ended because: "
            f"{self.run.reason.text}."
        )

    def certificate(self) -> Mapping[str, Checks]:
        run = self.run
        # A run that ended early conserves what it should: its end is a check of its own.
        early = run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT)
        cross = {} if self.checked is None else {"cross_check": self.checked}
        return {**({"end": Check.from_condition(False, run.why)} if early else {}), **(run.certificate or {}), **cross}

    def limits(self) -> list[Limit]:
        return self._limits

    @cached_property
    def _limits(self) -> list[Limit]:
        return run_limits(self.whole)

    def settings(self) -> Mapping[str, Any]:
        return {
            "method": repr(self.method),
            "steps": self.run.stats.steps,
            "evaluations": self.run.stats.evaluations,
            "events": [f"{event.time:.9g} s: {event.kind} {event.name}" for event in self.run.events],
        }

    def data(self) -> Any:
        return self.run.data.assign(self.run.readings.rename(time="tick")) if self.run.commands else self.run.data

    def scene(self) -> Scene:
        return scene_of(self.whole)

    def figures(self) -> list[Figure]:
        return list(figures(self.run))
