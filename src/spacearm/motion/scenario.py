"""A plain run in time from a scenario file: phases, loads, thrusters, driven joints, events."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm.control import JointPlan, Law, Sensor
from spacearm.errors import InputError, SimulationError
from spacearm.model import Robot
from spacearm.model.document import at
from spacearm.model.toml_schema import Duration, Name, Number, Seed
from spacearm.motion.law_tables import LawTable
from spacearm.motion.plan_tables import PlanFindings, PlanTable, plans_of, with_plans
from spacearm.result import Check, Checks, Figure, Limit
from spacearm.scene import Scene, scene_of
from spacearm.simulate import RK4, Dopri853, Event, Phase, Reason, Run, Signal, State, Touched, World, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.simulate.ensemble.lanes import ALONE, LanesError
from spacearm.simulate.ensemble.side_by_side import LaneRun
from spacearm.simulate.methods import Method
from spacearm.simulate.run.figures import figures
from spacearm.study import Findings, Noted, Session, StudyFile, Table, agreement, by_joint, key, largest, row, xyz
from spacearm.study.limits import run_limits
from spacearm.study.scenario import Lane
from spacearm.study.sensor_tables import SensorTable, sensors_of
from spacearm.study.signal_tables import (
    LoadTable,
    SignalKey,
    SignalTable,
    ThrusterTable,
    bounds,
    not_an_angle,
    thrust,
)
from spacearm.study.surroundings import SurroundingsKeys
from spacearm.study.tables import StartTable
from spacearm.typing import Array
from spacearm.words import number


class MethodTable(Table):
    """How to integrate."""

    uses: ClassVar = {"dopri853": ("rtol", "atol", "max_step", "max_steps"), "rk4": ("step", "max_steps")}

    kind: Literal["dopri853", "rk4"] = key("dopri853")
    rtol: Number = key(1e-10, "relative error of a step")
    atol: Number = key(1e-12, "absolute error of a step, SI")
    max_step: Number | None = key(None, "longest step, s")
    step: Number | None = key(None, "of rk4, s")
    max_steps: Annotated[int, key(gt=0)] | None = key(None, "after so many steps a run is given up")

    def make(self) -> Method:
        """The method."""
        if self.kind == "dopri853":
            return Dopri853(self.rtol, self.atol, math.inf if self.max_step is None else self.max_step)
        if self.step is None:
            raise InputError("'step' is missing", hint="expected seconds")
        return RK4(self.step)


class EventTable(Table):
    """An event: a quantity reaches a value."""

    quantity: Name = key(what="a joint, `<joint>.rate`, `base_x` ... `base_z`, `base_vx` ... `base_wz`")
    value: Number | None = key(None, "0 where left out")
    value_deg: Number | None = None
    direction: Literal["rising", "falling", "either"] = key("either")

    def of(self, robot: Robot) -> Event:
        """The event of this robot."""
        self.no_degrees(not_an_angle(robot, self.quantity))
        return Event(self.quantity, self.si("value") or 0.0, self.direction)


class PhaseTable(Table):
    """What happens; times count from the start of the phase."""

    name: Name = key("", "for messages")
    duration: Duration = key(what="s; with `until`, at most this")
    until: list[EventTable] = key([], "events that end the phase")
    record: list[EventTable] = key([], "events that are only recorded")
    locked: list[Name] = key([], "degrees of freedom that do not move: joints, `base_vx` ... `base_wz`")
    plan: Name | None = key(None, "plan that the joints follow, but for locked ones")
    driven: dict[str, SignalKey] = key({}, "joint = path: the joint follows it, its drive's torque is the reaction")
    accelerations: dict[str, SignalKey] = key({}, "degree of freedom = prescribed acceleration")
    forces: dict[str, SignalKey] = key({}, "degree of freedom = applied force, N or N m")
    load: list[LoadTable] = key([], "forces and moments at frames")
    thruster: list[ThrusterTable] = key([], "thrusters that fire, each once")
    law: list[LawTable] = key([], "control laws, which act together")
    free: list[Name] = key([], "joints that nothing drives or holds while laws command others: they are limp")
    friction: bool = key(True, "whether dry friction acts")
    limits: Literal["report", "stop", "ignore"] = key("report", "joint limits are events, no physical stop")

    def of(
        self,
        robot: Robot,
        start: State,
        sensors: Mapping[str, Sensor],
        seed: int,
        others: Mapping[str, tuple[Robot, State]] | None = None,
        folder: Path = Path(),
    ) -> Phase:
        """The phase of this robot, which is here at time zero and whose laws may read these sensors.

        ``others``: further systems, as they are then; ``folder``: of the scenario.
        """

        def signals(what: str, given: Mapping[str, SignalTable], why: str = "") -> dict[str, Signal]:
            return {name: one.of(f"{what}.{name}", why or not_an_angle(robot, name)) for name, one in given.items()}

        def each(what: str, tables: list[Any], *more: Any) -> list[Any]:
            found = []
            for k, entry in enumerate(tables):
                with at(f"{what}[{k}]"):
                    found.append(entry.of(robot, *more))
            return found

        driven = signals("driven", self.driven)
        for name, path in driven.items():
            check_path(robot, name, path, self.duration)
        laws = each("law", self.law, start, sensors, seed, others, folder)
        self._check_limp({robot.name: robot, **{name: own for name, (own, _) in (others or {}).items()}}, laws)
        return Phase(
            self.duration,
            until=each("until", self.until),
            events=each("record", self.record),
            locked=self.locked,
            driven=driven,
            accelerations=signals("accelerations", self.accelerations),
            forces=signals("forces", self.forces, "a force has no degrees"),
            loads=[*each("load", self.load), *thrust(robot, self.thruster, self.duration)],
            laws=laws,
            friction=self.friction,
            limits=self.limits,
            name=self.name,
        )

    def _check_limp(self, systems: Mapping[str, Robot], laws: Sequence[Law]) -> None:
        """An error where laws command some joints of an arm, and nothing drives or holds another."""
        named = {*self.locked, *self.driven, *self.accelerations, *self.forces}
        free = {*self.free}
        for system, robot in systems.items():
            own = [(table, law) for table, law in zip(self.law, laws, strict=True) if law.system == system]
            sets = [table.joints_of(robot) for table, _ in own]
            commanded = {
                name
                for found, (_, law) in zip(sets, own, strict=True)
                for name in (law.commands_of(robot) if found is None else found)
            }
            arm = [name for name in robot.joint_names if name not in robot.wheel_names]
            if not commanded & {*arm}:
                continue
            tied = {end for coupling in robot.couplings for end in (coupling.first, coupling.second)}
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
                    hint="give a reference, lock them, or say that they are limp: free = [...]",
                )


def check_path(robot: Robot, name: str, path: Signal, duration: float) -> None:
    """A path stays where angles are known; a name that is no joint's is reported by the phase."""
    if name in robot.joint_names and robot.joint(name).kind == "revolute":
        farthest = max(map(abs, bounds(path, duration)))
        if farthest > LARGEST_ANGLE:
            raise InputError(
                f"goes to {farthest:g} rad", place=f"driven.{name}", hint=f"expected at most {LARGEST_ANGLE:g} rad"
            )


class MotionFile(StudyFile, SurroundingsKeys):
    """A plain run in time."""

    sample: Duration | None = key(None, "interval of the recorded samples, s; 200 over the run where left out")
    tolerance: Number = key(1e-7, "relative error that the certificate allows")
    start: StartTable = key(StartTable(), "state at time zero; at rest in the zero configuration where left out")
    method: MethodTable = key(MethodTable(), "how to integrate")
    plan: list[PlanTable] = key([], "paths of the joints that phases and laws follow")
    phase: list[PhaseTable] = key(what="what happens, one after the other", min_length=1)
    sensor: list[SensorTable] = key([], "sensors, which sampled laws read in place of the true state")
    seed: Seed = key(0, "of the sensors' random numbers")

    def world(self, session: Session, robot: Robot, start: State) -> tuple[World, dict[str, State]]:
        """The robot and all that is around it, and its states at time zero."""
        systems = {robot.name: (robot, start), **self.others(session, robot)}
        world = World({name: own for name, (own, _) in systems.items()})
        states = {name: state for name, (_, state) in systems.items()}
        return world.replace(elements=tuple(self.elements(world))), states

    def others(self, session: Session, robot: Robot) -> dict[str, tuple[Robot, State]]:
        """Systems beside the robot, and their states at time zero."""
        found: dict[str, tuple[Robot, State]] = {}
        for k, table in enumerate(self.system):
            with at(f"system[{k}]"):
                if table.name == robot.name or table.name in found:
                    raise InputError(f"a second system is called {table.name!r}", place="name")
                own = table.made(session)
                with at("start"):
                    found[table.name] = own, table.start.state(own)
        return found

    def made(self, session: Session) -> tuple[Robot, State, list[Phase], Method, dict[str, JointPlan]]:
        """The robot, its state at time zero, what happens, how to integrate, and the plans."""
        robot = session.robot(self.robot)
        with at("start"):
            start = self.start.state(robot)
        session.tell(0.02, "planning")
        plans, sensors = plans_of(self.plan, robot, start), sensors_of(self.sensor)
        phases = []
        others = self.others(session, robot)
        for index, entry in enumerate(self.phase):
            with at(f"phase[{index}]"):
                phases.append(with_plans(entry, plans).of(robot, start, sensors, self.seed, others, session.folder))
        with at("method"):
            return robot, start, phases, self.method.make(), plans

    def solve(self, session: Session) -> Motion:
        """Run it."""
        robot, start, phases, method, plans = self.made(session)
        world, states = self.world(session, robot, start)
        session.tell(0.1, "compiling and running")
        total = float(sum(phase.duration for phase in phases))
        done = simulate(
            world,
            states,
            phases if self.latch is None else self.latch.chain(world, phases),
            duration=total,
            method=method,
            sample=self.sample,
            tolerance=self.tolerance,
            max_steps=self.method.max_steps,
            progress=session.part(0.1, 0.6, "seconds"),
        )
        if done.reason == Reason.TOO_MANY_STEPS:
            raise SimulationError(
                f"the run ended at t = {done.end_time:.9g} s of {total:g} s: {done.why}",
                place=phases[len(done.phase_starts) - 1].numbered(len(done.phase_starts) - 1),
                hint="slow down what moves so fast, or set method.max_steps higher",
            )
        checked = None
        if session.cross_check:
            progress = session.part(0.6, 0.95, "cross-checking with MuJoCo, seconds")
            checked = agreement(cross_check(done, progress=progress))
        return Motion(whole=done, phases=len(phases), method=method, checked=checked, plans=plans)

    def lane(self, session: Session) -> Lane:
        """The same in fixed steps beside others."""
        for name in ("system", "contact", "stops", "gravity", "orbit", "latch"):
            if getattr(self, name):
                raise LanesError("runs side by side are of one robot in free space", place=name, hint=ALONE)
        robot, start, phases, method, plans = self.made(session)
        if not isinstance(method, RK4):
            hint = f'expected method = {{ kind = "rk4", step = ... }}, or {ALONE}'
            raise LanesError("adapts its steps: runs side by side have fixed ones", place="method", hint=hint)
        run = LaneRun(robot, start, phases, method.step, self.tolerance)
        total = float(sum(phase.duration for phase in phases))
        return Lane(run, lambda end: MotionEnd(robot=robot, state=end, time=total, plans=plans))


class End(Findings):
    """How a run ends."""

    robot: Robot
    state: State

    base_velocity = row("m/s", "world axes", of=lambda e: xyz(e.state.base_velocity))
    base_angular_velocity = row("rad/s", "world axes", of=lambda e: xyz(e.state.base_angular_velocity))
    joint = row(of=lambda e: by_joint(e.robot, e.state.joints))
    joint_rate = row(of=lambda e: by_joint(e.robot, e.state.rates, "/s"))


class MotionEnd(Findings):
    """What is kept of a run beside others, which finished and kept momentum and energy: rows as of :class:`Motion`."""

    robot: Robot
    state: State
    time: float
    plans: dict[str, JointPlan]

    end_time = row("s", name="end.time", of=lambda m: Noted(m.time, Reason.FINISHED.text))
    end = row(of=lambda m: End(robot=m.robot, state=m.state))
    plan = row(of=lambda m: {name: PlanFindings(plan=plan) for name, plan in m.plans.items()})


#: Touches that have rows; all are in the run.
MOST_TOUCHES = 10


class TouchFindings(Findings):
    """A touch of a contact or stop."""

    touch: Touched

    start = row("s", of=lambda t: t.touch.start)
    duration = row("s", of=lambda t: Noted(t.touch.end - t.touch.start, "" if t.touch.released else "still closed"))
    closing_speed = row("m/s", of=lambda t: t.touch.closing_speed)
    impulse = row("N s", "on the second shape, world axes", of=lambda t: xyz(t.touch.impulse))
    peak_force = row("N", "normal", of=lambda t: t.touch.peak_force)
    indentation = row("m", of=lambda t: t.touch.indentation)
    dissipated = row("J", of=lambda t: t.touch.dissipated)


def _peak(times: Array, values: Array, unit: str) -> str:
    """The largest of a curve and its time, in words."""
    k = int(np.argmax(values))
    return f"{number(float(values[k]), 3)} {unit} (at {times[k]:.3g} s)"


class Motion(Findings):
    """What a run in time gives."""

    whole: Run
    phases: int
    method: Method
    checked: Check | None
    plans: dict[str, JointPlan]

    @property
    def run(self) -> Run:
        """The run as the robot of the scenario has it, whatever else is in its world."""
        return self.whole if len(self.whole.tracks) == 1 else self.whole.only(self.whole.tracks[0].name)

    end_time = row("s", name="end.time", of=lambda m: Noted(m.run.end_time, m.run.reason.text))
    end = row(of=lambda m: m.run.end and End(robot=m.run.robot, state=m.run.end))
    touch = row(
        of=lambda m: {
            f"{touch.contact}.{k + 1}": TouchFindings(touch=touch)
            for k, touch in enumerate(m.whole.touches[:MOST_TOUCHES])
        }
    )
    saturated = row("1", "share of its law's time at a limit of effort or rate", of=lambda m: m.run.saturated)
    plan = row(of=lambda m: {name: PlanFindings(plan=plan) for name, plan in m.plans.items()})
    cross_check = row(name="cross_check.largest", of=lambda m: largest(m.checked))

    def title(self) -> str:
        return f"Motion of {self.run.robot.name}"

    def headline(self) -> str:
        run, data = self.run, self.run.data
        if run.end is None:
            return f"The run ended after {run.end_time:g} s: {run.why}."
        place, attitude = data["base_position"].values, data["base_quaternion"].values
        turned = 2.0 * np.degrees(np.arccos(np.minimum(1.0, np.abs(attitude @ attitude[0]))))
        moved = 1e3 * np.linalg.norm(place - place[0], axis=1)
        rate = np.degrees(np.linalg.norm(data["base_angular_velocity"].values, axis=1))
        return (
            f"{self._nearest()} In {run.end_time:g} s the base is turned by at most {_peak(run.times, turned, 'deg')}, "
            f"moved by at most {_peak(run.times, moved, 'mm')}, and turns at no more than "
            f"{_peak(run.times, rate, 'deg/s')}."
        )

    def _nearest(self) -> str:
        """The worst limit in a sentence."""
        limits = self.limits()
        if not limits:
            return "No joint has limits."
        broken = [limit for limit in limits if limit.broken]
        if not broken:
            return f"All limits are met; nearest is {limits[0].words}."
        most = 3
        more = f" and {len(broken) - most} more" if len(broken) > most else ""
        return f"Limits are broken: {', '.join(limit.words for limit in broken[:most])}{more}."

    def summary(self) -> str:
        robot, counted = self.run.robot, f"{self.phases} phase{'s' if self.phases > 1 else ''}"
        return (
            f"The robot {robot.name} has {len(robot.bodies)} bodies, {robot.n} joints and {robot.mass:g} kg. It went "
            f"through {counted} in {self.run.end_time:g} s; dotted lines mark where one begins. How the run ended: "
            f"{self.run.reason.text}."
        )

    def certificate(self) -> Mapping[str, Checks]:
        run = self.run
        early = run.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT)
        cross = {} if self.checked is None else {"cross_check": self.checked}
        return {**({"end": Check.that(False, run.why)} if early else {}), **(run.certificate or {}), **cross}

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
