"""A servicing mission from a scenario file: its stages, the strategy, the target; one run, one ledger, one page.

All stages are one run with one energy and momentum ledger, so that nothing is lost between them. A mission that breaks
a limit is a result and no error: it has a verdict, and the run may still be sound. Errors are for files that cannot be
flown and for runs that break down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from spacearm.errors import InputError, SimulationError
from spacearm.mission.encounter import GRID, TARGET, TargetTable, encounter
from spacearm.mission.figures import curves, figures
from spacearm.mission.finish import DecideTable, EjectTable, StowTable
from spacearm.mission.flight import Flight, Outcome, worlds
from spacearm.mission.laws import Crew
from spacearm.mission.stages import (
    ApproachTable,
    CatchTable,
    CrewTable,
    DetumbleTable,
    Positive,
    SettleTable,
    StageTable,
    TouchTable,
    WheelsTable,
)
from spacearm.mission.weigh import WeighTable
from spacearm.model.document import at
from spacearm.model.toml_schema import Duration, Number
from spacearm.result import Check, Checks, Figure, Limit
from spacearm.scene import Scene, scene_of
from spacearm.simulate import ForceElement, Orbit, Reason, Run, State, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.study import Findings, Noted, Session, StudyFile, agreement, key, largest, row
from spacearm.study.tables import ConfigurationKeys
from spacearm.words import number

#: Longer missions (two days), s, are a slip of the pen: their samples would fill the memory.
LONGEST = 2e5
MOST_READINGS = 1_000_000
Strategy = Literal["passive", "matched", "biased", "impedance", "coordinated"]


class StartKeys(ConfigurationKeys):
    """The servicer at time zero: at rest at the world's origin, in this configuration."""


class MissionFile(StudyFile):
    """A servicing mission. Tables of stages that are left out are not flown, but for approach, touch and catch."""

    strategy: Strategy = key("matched", "how the target is met and held")
    sample: Duration = key(0.5, "interval of the recorded samples, s")
    tolerance: Number = key(1e-8, "relative error that the certificate allows")
    orbit: Number | None = key(None, "mean motion of a circular orbit, rad/s; axes: x radial, y along it, z normal")
    clearance: Positive | None = key(None, "least distance of target and servicer, m; the gripper may come nearer")
    bus_radius: Number = key(0.0, "of a ball about the bus's origin, m, of a servicer without collision shapes")
    start: StartKeys = key(StartKeys(), "the servicer's joints at time zero")
    crew: CrewTable = key(CrewTable(), "hand, arm and soft joints")
    wheels: WheelsTable = key(WheelsTable(), "loops of the wheels by strategy")
    target: TargetTable = key(what="what is caught")
    approach: ApproachTable = key(ApproachTable(), "the hand goes to the grasp")
    touch: TouchTable = key(TouchTable(), "the latch closes")
    catch: CatchTable = key(CatchTable(), "both become one, the arm comes to rest")
    settle: SettleTable | None = key(None, "soft joints and arm come to rest, the clutch closes")
    detumble: DetumbleTable | None = key(None, "wheels and thrusters stop the base, or the arm the target")
    weigh: WeighTable | None = key(None, "mass and inertia of the target are found")
    decide: DecideTable | None = key(None, "go, wait or eject; without it a stage that fails ends the mission")
    stow: StowTable | None = key(None, "after a go, the arm takes the target to a configuration")
    eject: EjectTable | None = key(None, "where it is decided so, springs throw the target off")

    def stages(self) -> list[StageTable]:
        """In their order."""
        rest = (self.settle, self.detumble)
        by_arm = self.detumble is not None and self.detumble.by == "arm"
        # An arm that stops the target does so while it moves, before all is braked.
        found = (self.approach, self.touch, self.catch, *(reversed(rest) if by_arm else rest), self.weigh)
        return [stage for stage in found if stage is not None]

    @property
    def longest(self) -> float:
        """s that the mission may last."""
        more = sum(stage.duration for stage in (self.settle, self.detumble, self.weigh) if stage is not None)
        last = 0.0 if self.stow is None else self.stow.duration + self.stow.hold
        last = max(last, 0.0 if self.eject is None else 30.0 + self.eject.duration)
        wait = 0.0 if self.decide is None else self.decide.wait or 0.0
        return self.approach.duration + self.touch.wait + self.catch.duration + more + wait + last

    def _crew(self, session: Session) -> tuple[Crew, State]:
        robot = session.robot(self.robot)
        with at("crew"):
            crew = self.crew.of(robot)
        if robot.name == TARGET:
            raise InputError(f"the robot is called {TARGET!r}", place="robot", hint="expected another name")
        if self.detumble is not None:
            with at("detumble"):
                self.detumble.check(robot)
        if self.stow is not None:
            with at("stow.configuration"):
                robot.configuration(self.stow.configuration)
        with at("start"):
            return crew, State.at_rest(robot, self.start.positions(robot))

    def _check(self) -> None:
        if self.longest > LONGEST:
            hint = f"expected at most {LONGEST:g} s for all stages together"
            raise InputError(f"the stages may last {self.longest:g} s", place="mission", hint=hint)
        if self.weigh is not None and (count := self.weigh.duration / self.weigh.sensors.sample) > MOST_READINGS:
            raise InputError(
                f"{count:.3g} samples", place="weigh.sensors.sample", hint=f"expected at most {MOST_READINGS}"
            )
        if self.orbit is not None and self.weigh is not None:
            raise InputError(
                "weighing does not know the forces of an orbit", place="weigh", hint="leave out 'orbit' or 'weigh'"
            )
        for place, value in (("approach.duration", self.approach.duration), ("touch.wait", self.touch.wait)):
            # The encounter is planned on a grid of times that must contain the touch and the end.
            if abs(value / GRID - round(value / GRID)) > 1e-9:
                raise InputError(f"is {value:g} s", place=place, hint=f"expected a multiple of {GRID:g} s")

    def solve(self, session: Session) -> Mission:
        """Fly it."""
        self._check()
        crew, servicer = self._crew(session)
        session.tell(0.05, "meeting the target")
        with at("target"):
            target = self.target.located(session.folder)
            met = encounter(
                target, crew, servicer, self.approach.duration, self.touch.wait, self.approach.reach, self.orbit
            )
        world = worlds(crew, target.made)
        elements: list[ForceElement] = [] if self.orbit is None else [Orbit(self.orbit)]
        for k, contact in enumerate(self.touch.contact):
            with at(f"touch.contact[{k}]"):
                elements += contact.contacts(world)
        flight = Flight(self.model_copy(update={"target": target}), crew, servicer, met)
        session.tell(0.1, "flying")
        run = simulate(
            world.replace(elements=tuple(elements)),
            {crew.robot.name: servicer, TARGET: met.start},
            flight.fly,
            duration=self.longest,
            sample=self.sample,
            tolerance=self.tolerance,
            progress=session.part(0.1, 0.7, "seconds"),
        )
        if run.reason == Reason.TOO_MANY_STEPS:
            raise SimulationError(f"the mission ended at t = {run.end_time:.9g} s: {run.why}", place="mission")
        checked = None
        if session.cross_check:
            progress = session.part(0.7, 0.95, "cross-checking with MuJoCo, seconds")
            checked = agreement(cross_check(run, progress=progress))
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
        time, rate = self._fastest()
        left = f"with {100 * worst.margin:.0f} % left"
        if self.succeeded:
            return (
                f"Go: the target of {mass:g} kg is caught and every stage keeps its limits. The nearest limit is "
                f"{worst.binding.name} in {worst.stage}, {left}. In {self.run.end_time:.0f} s the bus turns at no more "
                f"than {number(math.degrees(rate), 2)} deg/s (at {time:.3g} s)."
            )
        after = {"eject": " The target is thrown off", "abort": " Nothing more is done."}.get(self.flight.verdict, "")
        last = self.outcomes[-1]
        if self.flight.verdict == "eject":
            after += " and gets clear." if last.success else f", but {last.binding.words}."
        return f"No go: in {worst.stage}, {worst.binding.words} (margin {100 * worst.margin:.0f} %).{after}"

    def _fastest(self) -> tuple[float, float]:
        """When the bus turns fastest (s), and how fast (rad/s)."""
        data = self.data()
        rates = np.linalg.norm(data["base_angular_velocity"].values, axis=1)
        return float(data["time"].values[rates.argmax()]), float(rates.max())

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

    def limits(self) -> list[Limit]:
        """Of all stages; in each, what is broken before that it has not settled, which is but what follows."""
        ranked = sorted(self.outcomes, key=lambda outcome: outcome.margin)
        return [
            replace(limit, name=f"{outcome.stage}: {limit.name}")
            for outcome in ranked
            for limit in sorted(outcome.limits, key=lambda limit: (limit is not outcome.binding, limit.margin))
        ]

    def settings(self) -> Mapping[str, Any]:
        return {
            "strategy": self.strategy,
            "steps": self.run.stats.steps,
            "events": [f"{event.time:.9g} s: {event.kind} {event.name}" for event in self.run.events[:200]],
        }

    def data(self) -> Any:
        return curves(self.run, self.flight)

    def scene(self) -> Scene:
        return scene_of(self.run)

    def figures(self) -> list[Figure]:
        return list(figures(self.outcomes, self.data(), self.flight))
