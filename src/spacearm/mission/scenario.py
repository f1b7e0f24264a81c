"""A servicing mission from a scenario file: its stages, the strategy, the target; one run, one ledger, one page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from spacearm.errors import InputError, SimulationError
from spacearm.mission.encounter import GRID, TARGET, TargetTable, encounter
from spacearm.mission.flight import Flight, Outcome, worlds
from spacearm.mission.laws import Crew
from spacearm.mission.stages import (
    ApproachTable,
    CatchTable,
    CrewTable,
    DetumbleTable,
    SettleTable,
    StageTable,
    TouchTable,
    WheelsTable,
)
from spacearm.model.document import at
from spacearm.model.toml_schema import Duration, Number
from spacearm.result import Check, Checks
from spacearm.scene import Scene, scene_of
from spacearm.simulate import ForceElement, Orbit, Reason, Run, State, simulate
from spacearm.simulate.crosscheck import cross_check
from spacearm.study import Findings, Noted, Session, StudyFile, agreement, key, largest, row
from spacearm.study.tables import ConfigurationKeys
from spacearm.words import number

Strategy = Literal["passive", "matched", "biased", "impedance", "coordinated"]


class StartKeys(ConfigurationKeys):
    """The servicer at time zero: at rest at the world's origin, in this configuration."""


class MissionFile(StudyFile):
    """A servicing mission. Tables of stages that are left out are not flown, but for approach, touch and catch."""

    strategy: Strategy = key("matched", "how the target is met and held")
    sample: Duration = key(0.5, "interval of the recorded samples, s")
    tolerance: Number = key(1e-8, "relative error that the certificate allows")
    orbit: Number | None = key(None, "mean motion of a circular orbit, rad/s; axes: x radial, y along it, z normal")
    clearance: Number | None = key(None, "least distance of the target's ball from the bus's, m")
    bus_radius: Number = key(0.0, "of a ball about the bus's origin, m")
    start: StartKeys = key(StartKeys(), "the servicer's joints at time zero")
    crew: CrewTable = key(CrewTable(), "hand, arm and soft joints")
    wheels: WheelsTable = key(WheelsTable(), "loops of the wheels by strategy")
    target: TargetTable = key(what="what is caught")
    approach: ApproachTable = key(ApproachTable(), "the hand goes to the grasp")
    touch: TouchTable = key(TouchTable(), "the latch closes")
    catch: CatchTable = key(CatchTable(), "both become one, the arm comes to rest")
    settle: SettleTable | None = key(None, "soft joints and arm come to rest, the clutch closes")
    detumble: DetumbleTable | None = key(None, "wheels and thrusters stop the base")

    def stages(self) -> list[StageTable]:
        """In their order."""
        found = (self.approach, self.touch, self.catch, self.settle, self.detumble)
        return [stage for stage in found if stage is not None]

    def _crew(self, session: Session) -> tuple[Crew, State]:
        robot = session.robot(self.robot)
        with at("crew"):
            crew = self.crew.of(robot)
        if robot.name == TARGET:
            raise InputError(f"the robot is called {TARGET!r}", place="robot", hint="expected another name")
        with at("start"):
            return crew, State.at_rest(robot, self.start.positions(robot))

    def _check_times(self) -> None:
        for place, value in (("approach.duration", self.approach.duration), ("touch.wait", self.touch.wait)):
            if abs(value / GRID - round(value / GRID)) > 1e-9:
                raise InputError(f"is {value:g} s", place=place, hint=f"expected a multiple of {GRID:g} s")

    def solve(self, session: Session) -> Mission:
        """Fly it."""
        self._check_times()
        crew, servicer = self._crew(session)
        session.tell(0.05, "meeting the target")
        with at("target"):
            met = encounter(
                self.target, crew, servicer, self.approach.duration, self.touch.wait, self.approach.reach, self.orbit
            )
        elements: list[ForceElement] = [] if self.orbit is None else [Orbit(self.orbit)]
        if self.touch.contact is not None:
            with at("touch.contact"):
                elements.append(self.touch.contact.make())
        flight = Flight(self, crew, servicer, met)
        session.tell(0.1, "flying")
        total = self.approach.duration + self.touch.wait + self.catch.duration
        total += sum(stage.duration for stage in (self.settle, self.detumble) if stage is not None)
        run = simulate(
            worlds(crew, self.target.made, elements),
            {crew.robot.name: servicer, TARGET: met.start},
            flight.fly,
            duration=total,
            sample=self.sample,
            tolerance=self.tolerance,
            progress=session.part(0.1, 0.7, "seconds"),
        )
        if run.reason == Reason.TOO_MANY_STEPS:
            raise SimulationError(f"the mission ended at t = {run.end_time:.9g} s: {run.why}", place="mission")
        checked = None
        if session.cross_check:
            session.tell(0.7, "cross-checking with MuJoCo")
            checked = agreement(cross_check(run))
        return Mission(run=run, outcomes=flight.outcomes, strategy=self.strategy, flight=flight, checked=checked)


class Mission(Findings):
    """What a mission gives."""

    run: Run
    outcomes: list[Outcome]
    strategy: str
    flight: Flight
    checked: Check | None

    stages = row(name="", of=lambda m: {outcome.stage: outcome.rows() for outcome in m.outcomes})
    success = row(of=lambda m: Noted(float(m.succeeded), "1: every stage kept within its limits"))
    margin = row(of=lambda m: Noted(m.worst.margin, f"least of all stages; {m.worst.stage}: {m.worst.binding.words}"))
    binding = row(of=lambda m: Noted(f"{m.worst.stage}: {m.worst.binding.name}", "the limit with the least margin"))
    end_time = row("s", name="end.time", of=lambda m: Noted(m.run.end_time, m.run.reason.text))
    cross_check = row(name="cross_check.largest", of=lambda m: largest(m.checked))

    @property
    def worst(self) -> Outcome:
        """The stage with the least margin."""
        return min(self.outcomes, key=lambda outcome: outcome.margin)

    @property
    def succeeded(self) -> bool:
        return self.worst.success and self.run.reason in (Reason.FINISHED, Reason.TERMINAL_EVENT)

    def title(self) -> str:
        return f"Mission of {self.flight.name}"

    def headline(self) -> str:
        mass, worst = self.flight.table.made.mass, self.worst
        end = f"after {self.run.end_time:.4g} s the base turns at {number(math.degrees(self._end_rate()), 2)} deg/s"
        if self.succeeded:
            return (
                f"Go: the {mass:g} kg target is caught and all stages keep their limits; {end}. The nearest limit is "
                f"{worst.binding.name} in {worst.stage}, with {100 * worst.margin:.0f} % left."
            )
        return f"No go: {worst.stage} fails by {worst.binding.words} (margin {100 * worst.margin:.0f} %)."

    def _end_rate(self) -> float:
        assert self.run.ends is not None
        return float(math.hypot(*self.run.ends[self.flight.name].base_angular_velocity))

    def summary(self) -> str:
        told = "; ".join(
            f"{each.stage} {each.end - each.begin:.3g} s, margin {100 * each.margin:.0f} % ({each.binding.name})"
            for each in self.outcomes
        )
        return f"Strategy {self.strategy}. Stages: {told}."

    def certificate(self) -> Mapping[str, Checks]:
        early = self.run.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT)
        cross = {} if self.checked is None else {"cross_check": self.checked}
        end = {"end": Check.that(False, self.run.why)} if early else {}
        return {**end, **(self.run.certificate or {}), **cross}

    def settings(self) -> Mapping[str, Any]:
        return {
            "strategy": self.strategy,
            "steps": self.run.stats.steps,
            "events": [f"{event.time:.9g} s: {event.kind} {event.name}" for event in self.run.events[:200]],
        }

    def scene(self) -> Scene:
        return scene_of(self.run)
