"""A servicing mission from a scenario file: its stages, the strategy, the target; one run, one ledger, one page.

All stages are one run with one energy and momentum ledger, so that nothing is lost between them. A mission that breaks
a limit is a result and no error: it has a verdict, and the run may still be sound. Errors are for files that cannot be
flown and for runs that break down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, SimulationError, SpacearmError, error_context
from spacearm.mission._approach_figures import approach_figures
from spacearm.mission._curves import mission_curves
from spacearm.mission._doubt import NominalMassTable, list_other_masses, name_small_margin
from spacearm.mission._encounter import (
    GRID,
    TARGET,
    Encounter,
    MissionTargetTable,
    coast,
    find_free_state,
    find_touch_state,
    simulate_encounter,
)
from spacearm.mission._failures import FailureTable
from spacearm.mission._figures import figures
from spacearm.mission._finish import DecideTable, EjectTable, RetreatTable, StowTable
from spacearm.mission._flight import MissionFlight
from spacearm.mission._identify_target import IdentifyLoadTable
from spacearm.mission._laws import Actuators
from spacearm.mission._limits import Break, MissionLimitsTable, Positive, order_limits
from spacearm.mission._meeting import MissionApproachTable, TouchTable
from spacearm.mission._motion import make_world
from spacearm.mission._navigation import NavigationTable
from spacearm.mission._outcomes import StageOutcome
from spacearm.mission._rendezvous import RendezvousTable
from spacearm.mission._review import REACH, Requirement, list_assumptions, list_requirements, review_figures
from spacearm.mission._stages import (
    ActuatorTable,
    CatchTable,
    DetumbleTable,
    SettleTable,
    StageTable,
    WheelsTable,
)
from spacearm.mission._zones import PlumeTable
from spacearm.model import Robot, edit
from spacearm.model.toml_schema import Duration, Number
from spacearm.result import Certificate, Check, Checks, Figure, Limit
from spacearm.scene import Scene, scene_of
from spacearm.simulate import Orbit, Run, State, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.elements import ForceElement
from spacearm.simulate.run.propellant import draws_propellant, with_propellant
from spacearm.study import Findings, Session, StudyFile, key, row
from spacearm.study.findings import NotedValue, largest_difference, mujoco_check
from spacearm.study.tables import StartTable
from spacearm.text_format import format_number
from spacearm.typing import Array

#: Longer missions (two days), s, are a slip of the pen: their samples would fill the memory.
LONGEST = 2e5
MOST_READINGS = 1_000_000
#: rad or m, by which rounding may put a joint out of its range.
RANGE_SLACK = 1e-9
#: Actuators that a summary names.
MOST_NAMED = 6
Strategy = Literal["passive", "matched", "biased", "impedance", "coordinated"]


class MissionFile(StudyFile):
    """A servicing mission. Tables of stages that are left out are not flown, but for approach, touch and catch."""

    key_changes: ClassVar = {
        "crew": "it is called 'actuators' now",
        "weigh": "it is called 'identify' now",
    }

    strategy: Strategy = key("matched", "how the target is met and held")
    sample: Duration = key(0.5, "interval of the recorded samples, s")
    tolerance: Number = key(1e-8, "relative error that the certificate allows")
    orbit: Number | None = key(None, "mean motion of a circular orbit, rad/s; axes: x radial, y along it, z normal")
    continue_after_limit: bool = key(False, "whether what follows a broken limit is flown too")
    nominal: NominalMassTable = key(NominalMassTable(), "how well masses are known; a verdict within that is undecided")
    limits: MissionLimitsTable = key(MissionLimitsTable(), "limits that hold in every stage")
    clearance: Positive | None = key(None, "least distance of target and servicer, m; the gripper may come nearer")
    bus_radius: Number = key(0.0, "of a ball about the bus's origin, m, of a servicer without collision shapes")
    navigation: NavigationTable = key(NavigationTable(), "what laws know; the truth, where it is left out")
    failure: list[FailureTable] = key([], "parts that fail in flight")
    start: StartTable = key(StartTable(), "the servicer at time zero; at rest at the origin if omitted")
    actuators: ActuatorTable = key(ActuatorTable(), "hand, arm and soft joints")
    wheels: WheelsTable = key(WheelsTable(), "loops of the wheels by strategy")
    target: MissionTargetTable = key(what="what is caught")
    rendezvous: RendezvousTable | None = key(None, "the base goes to the target under thrusters")
    plume: PlumeTable | None = key(None, "exhaust of thrusters, in which the target must not be")
    approach: MissionApproachTable = key(MissionApproachTable(), "the hand goes to the grasp")
    touch: TouchTable = key(TouchTable(), "the latch closes")
    catch: CatchTable = key(CatchTable(), "both become one, the arm comes to rest")
    retreat: RetreatTable | None = key(None, "where the target is not caught, or at an abort, the arm goes back")
    settle: SettleTable | None = key(None, "soft joints and arm come to rest, the clutch closes")
    detumble: DetumbleTable | None = key(None, "wheels and thrusters stop the base, or the arm the target")
    identify: IdentifyLoadTable | None = key(None, "mass and inertia of the target are found")
    decide: DecideTable | None = key(None, "go, wait or eject; without it a stage that fails ends the mission")
    stow: StowTable | None = key(None, "after a go, the arm takes the target to a configuration")
    eject: EjectTable | None = key(None, "where it is decided so, springs throw the target off")

    def stages(self) -> list[StageTable]:
        """Stages in the order of flight."""
        rest = (self.settle, self.detumble)
        by_arm = self.detumble is not None and self.detumble.actuator == "arm"
        # An arm that stops the target does so while it moves, before all is braked.
        found = (
            self.rendezvous,
            self.approach,
            self.touch,
            self.catch,
            *(reversed(rest) if by_arm else rest),
            self.identify,
        )
        return [stage for stage in found if stage is not None]

    @property
    def longest(self) -> float:
        """Longest duration of the mission, s."""
        more = sum(stage.duration for stage in (self.settle, self.detumble, self.identify) if stage is not None)
        # Stow, ejection and retreat exclude each other: of these the longest counts.
        last = 0.0 if self.stow is None else self.stow.duration + self.stow.settle_time
        last = max(last, 0.0 if self.eject is None else 30.0 + self.eject.duration)
        last = max(last, 0.0 if self.retreat is None else self.retreat.longest)
        wait = 0.0 if self.decide is None else self.decide.wait or 0.0
        return self.begin + self.approach.duration + self.touch_time + self.catch.duration + more + wait + last

    @property
    def begin(self) -> float:
        """Time, s, at which the approach of the hand begins."""
        return 0.0 if self.rendezvous is None else self.rendezvous.duration

    @property
    def touch_time(self) -> float:
        """Time, s, after the planned touch in which the latch may close."""
        return self.touch.duration(self.approach, self.strategy)

    def _actuators(self, session: Session) -> tuple[Actuators, State]:
        robot = self.load_robot(session, loops=True)
        if self.identify is not None and not robot.base.is_free:
            raise InputError(
                f"finds the target from a momentum that nothing outside changes, but the base is {robot.base.kind}",
                place="identify",
                hint="leave it out, or let the base be free",
            )
        with error_context("actuators"):
            by_arm = self.detumble is not None and self.detumble.actuator == "arm"
            self.actuators.check(self.strategy, by_arm, self.rendezvous is not None and self.rendezvous.keep)
            servicer_actuators = self.actuators.build(robot)
        if robot.name == TARGET:
            raise InputError(f"the robot is called {TARGET!r}", place="robot", hint="expected another name")
        if self.detumble is not None:
            with error_context("detumble"):
                self.detumble.check(robot)
        if self.stow is not None:
            with error_context("stow.configuration"):
                _check_ranges(robot, robot.configuration(self.stow.configuration))
        with error_context("start"):
            servicer = self.start.state(robot)
            _check_ranges(robot, servicer.joints)
            return servicer_actuators, servicer

    def _check(self) -> None:
        with error_context("nominal"):
            self.nominal.check()
        if self.longest > LONGEST:
            hint = f"expected at most {LONGEST:g} s for all stages together"
            raise InputError(f"the stages may last {self.longest:g} s", place="mission", hint=hint)
        if (
            self.identify is not None
            and (count := self.identify.duration / self.identify.sensors.sample) > MOST_READINGS
        ):
            raise InputError(
                f"{count:.3g} samples", place="identify.sensors.sample", hint=f"expected at most {MOST_READINGS}"
            )
        if (camera := self.navigation.camera) is not None:
            with error_context("navigation.camera"):
                camera.check(self.begin + self.approach.duration + self.touch_time)
            if self.touch.contact:
                raise InputError(
                    "the camera does not follow a target that is pushed",
                    place="navigation.camera",
                    hint="leave out 'camera' or 'touch.contact'",
                )
        if self.rendezvous is not None:
            with error_context("rendezvous"):
                self.rendezvous.check(self.strategy)
        if self.retreat is not None:
            with error_context("retreat"):
                self.retreat.check(self.rendezvous)
        for place, value in (("approach.duration", self.approach.duration), ("touch.wait", self.touch.wait)):
            # The encounter is planned on a grid of times that must contain the touch and the end.
            if abs(value / GRID - round(value / GRID)) > 1e-9:
                raise InputError(f"is {value:g} s", place=place, hint=f"expected a multiple of {GRID:g} s")

    def _simulate_target(self, target: MissionTargetTable, actuators: Actuators, servicer: State) -> Encounter:
        """Its motion until the last attempt at the touch."""
        if self.rendezvous is None:
            there = coast(actuators.robot, servicer, self.approach.duration, self.orbit)
            touch = find_touch_state(target, actuators, there, self.approach.reach)
        else:
            touch = find_free_state(target)
        return simulate_encounter(target, touch, self.begin + self.approach.duration, self.touch_time, self.orbit)

    def solve(self, session: Session) -> MissionFindings:
        """Fly the mission and judge it."""
        self._check()
        servicer_actuators, servicer = self._actuators(session)
        session.report_progress(0.05, "meeting the target")
        with error_context("target"):
            # Before anything is flown: a missing mesh is an error of the file.
            target = self.target.fuse_robot(session).locate_meshes(session.folder)
        if target.has_free_joints and self.touch.contact:
            raise InputError(
                "is not supported with free joints of the target",
                place="touch.contact",
                hint="leave it out, or 'target.free_joints = []'",
            )
        found = self._fly(session.part(0.05, 0.5), servicer_actuators, servicer, target)
        if not session.cross_check:
            return found
        progress = session.partial_progress(0.5, 0.7, "cross-checking with MuJoCo, seconds")
        return replace(found, checked=mujoco_check(cross_check(found.run, closed_loop=True, progress=progress)))

    def _fly(
        self,
        session: Session,
        actuators: Actuators,
        servicer: State,
        nominal: MissionTargetTable,
        factors: tuple[float, float] | None = None,
    ) -> MissionFindings:
        """Fly the mission to its end, or to the first limit that breaks.

        Args:
            factors: of the masses that servicer and target have, relative to those that laws count on.
        """
        robot, target = actuators.robot, nominal
        if factors is not None:
            robot, target = edit.scale_masses(robot, factors[0]), nominal.scale_masses(factors[1])
        with error_context("target"):
            met = self._simulate_target(target, actuators, servicer)
        world = make_world(actuators, robot, target.reference_robot)
        elements: list[ForceElement] = [] if self.orbit is None else [Orbit(self.orbit)]
        for k, contact in enumerate(self.touch.contact):
            with error_context(f"touch.contact[{k}]"):
                elements += contact.contacts(world)
        file, breaks, flight = self.model_copy(update={"target": target}), list[Break](), None
        # A mission that breaks a limit is flown again, to end the stage there.
        while flight is None or flight.found_break is not None:
            flight = MissionFlight(file, actuators, servicer, met, breaks)
            run = simulate(
                world.replace(elements=tuple(elements)),
                {robot.name: servicer, TARGET: met.start},
                with_propellant(flight.fly) if draws_propellant(world) else flight.fly,
                duration=self.longest,
                sample=self.sample,
                tolerance=self.tolerance,
                progress=session.partial_progress(0.1, 1.0, "flying, seconds"),
            )
            # Contact forces are known only after the run: they may ask for another flight.
            if flight.found_break is None:
                flight.judge_contacts(run.touches)
            breaks += [] if flight.found_break is None else [flight.found_break]
        if run.reason == EndReason.TOO_MANY_STEPS:
            raise SimulationError(f"the mission ended at t = {run.end_time:.9g} s: {run.why}", place="mission")
        return MissionFindings(
            run=run,
            outcomes=flight.outcomes,
            strategy=self.strategy,
            flight=flight,
            checked=None,
            fly_with=partial(self._fly, session, actuators, servicer, nominal),
        )


def _check_ranges(robot: Robot, positions: Array) -> None:
    """An error where a joint is out of its range."""
    for joint, position in zip(robot.joints, positions, strict=True):
        low, high = joint.limits.lower, joint.limits.upper
        if not low - RANGE_SLACK <= position <= high + RANGE_SLACK:
            raise InputError(
                f"joint {joint.name!r} is at {position:.6g} {joint.unit}",
                hint=f"expected its range: {low:.6g} to {high:.6g} {joint.unit}",
            )


class MissionFindings(Findings):
    """Findings of a mission."""

    run: Run
    outcomes: list[StageOutcome]
    strategy: str
    flight: MissionFlight
    checked: Check | None
    #: Flies the mission with these factors of the masses of servicer and target.
    fly_with: Callable[[tuple[float, float]], MissionFindings]

    stages = row(name="", of=lambda m: {outcome.stage: outcome.rows() for outcome in m.outcomes})
    success = row(of=lambda m: NotedValue(float(m.is_successful), "1: every stage kept within its limits"))
    margin = row(
        of=lambda m: NotedValue(m.worst.margin, f"least of all stages; {m.worst.stage}: {m.worst.binding_limit.words}")
    )
    binding = row(
        of=lambda m: NotedValue(f"{m.worst.stage}: {m.worst.binding_limit.name}", "the limit with the least margin")
    )
    budget = row(of=lambda m: {entry.stage: entry.rows() for entry in m.flight.budget})
    failures = row(
        "s",
        of=lambda m: {
            part: NotedValue(time, "from which it gave nothing") for part, time in m.flight.failures.times.items()
        },
    )
    saturated = row(
        of=lambda m: {
            name: NotedValue(share, "share of the time of its laws at a limit of effort or rate")
            for name, share in m.run.saturation_shares.items()
        }
    )
    end_time = row("s", name="end.time", of=lambda m: NotedValue(m.run.end_time, m.end_words))
    cross_check = row(name="cross_check.largest", of=lambda m: largest_difference(m.checked))

    @property
    def worst(self) -> StageOutcome:
        """The first stage that broke a limit, or the one with the least margin."""
        # The first failure is the cause; later ones may only follow from it.
        failed = [outcome for outcome in self.outcomes if not outcome.success]
        return failed[0] if failed else min(self.outcomes, key=lambda outcome: outcome.margin)

    @property
    def end_words(self) -> str:
        """Why the mission ended: a limit of the last stage, or why the run did."""
        last = self.outcomes[-1]
        return self.run.reason.text if last.success else f"{last.stage}: {last.binding_limit.words}"

    @property
    def is_successful(self) -> bool:
        return self.worst.success and self.run.reason in (EndReason.FINISHED, EndReason.TERMINAL_EVENT)

    @property
    def is_sound(self) -> bool:
        return Certificate(self.certificate()).sound

    @cached_property
    def others(self) -> list[tuple[str, MissionFindings | SpacearmError]]:
        """The same with other masses (in words), up to the first one that ends otherwise; none far from all limits."""
        found, sd, worst = list[tuple[str, MissionFindings | SpacearmError]](), self.flight.file.nominal.sd, self.worst
        # What the decision asks for is no share of a limit: near or far cannot be told.
        if sd == 0.0 or (abs(worst.margin) > REACH * sd and worst.stage != "decide"):
            return found
        for words, *factors in list_other_masses(sd):
            try:
                other = self.fly_with((factors[0], factors[1]))
            except SpacearmError as error:
                return [*found, (words, error)]
            found.append((words, other))
            if other.is_successful != self.is_successful or not other.is_sound:
                break
        return found

    @property
    def requirements(self) -> list[Requirement]:
        """Each limit where it was nearest; a policy is for a target that was caught."""
        return list_requirements(self.outcomes, self.flight.file.decide if self.flight.held else None)

    def undecided(self) -> str:
        sd = self.flight.file.nominal.sd
        if sd > 0.0 and self.is_successful and (words := name_small_margin(self.requirements, sd)):
            return words
        for words, other in self.others:
            if isinstance(other, SpacearmError):
                return f"with {words} than in the file the mission cannot be flown: {other}"
            if not other.is_sound:
                return f"with {words} than in the file the numbers are not sound"
            if other.is_successful != self.is_successful:
                worst = other.worst
                what = "every stage keeps its limits" if other.is_successful else worst.binding_limit.words
                return f"with {words} than in the file, {what} ({worst.stage}, margin {100 * worst.margin:.1g} %)"
        return ""

    def title(self) -> str:
        return f"Mission of {self.flight.name}"

    def headline(self) -> str:
        words = self._course()
        doubt = self.undecided() if self.is_sound else "the numbers are not sound"
        if doubt:
            return f"Undecided: {doubt}. With the masses of the file, {words}"
        return f"{'Go' if self.is_successful else 'No go'}: {words}"

    def _course(self) -> str:
        """What happened, without the verdict."""
        mass, worst = self.flight.table.reference_robot.mass, self.worst
        time, rate = self._fastest()
        left = f"with {100 * worst.margin:.0f} % left"
        if self.is_successful and self.flight.verdict == "abort":
            return (
                f"the approach is given up after {self.outcomes[-1].begin:.3g} s and the arm goes back; every "
                f"stage keeps its limits. The nearest limit is the {worst.binding_limit.name} in {worst.stage}, {left}."
            )
        if self.is_successful:
            return (
                f"the target of {mass:g} kg is caught and every stage keeps its limits. The nearest limit is the "
                f"{worst.binding_limit.name} in {worst.stage}, {left}. In {self.run.end_time:.0f} s the bus turns "
                f"at no more than {format_number(math.degrees(rate), 2)} deg/s (at {time:.3g} s)."
            )
        after = {"eject": " The target is thrown off", "abort": " Nothing more is done."}.get(self.flight.verdict, "")
        last = self.outcomes[-1]
        if self.flight.verdict == "abort" and last.stage == "retreat":
            after = " The arm goes back" + ("." if last.success else f", but {last.binding_limit.words}.")
        if self.flight.verdict == "eject":
            after += " and gets clear." if last.success else f", but {last.binding_limit.words}."
        return f"in {worst.stage}, {worst.binding_limit.words} (margin {100 * worst.margin:.0f} %).{after}"

    def _fastest(self) -> tuple[float, float]:
        """Time (s) and size (rad/s) of the largest angular velocity of the bus."""
        data = self.data()
        rates = np.linalg.norm(data["base_angular_velocity"].values, axis=1)
        return float(data["time"].values[rates.argmax()]), float(rates.max())

    def summary(self) -> str:
        notes = "; ".join(
            f"{each.stage} {each.end - each.begin:.3g} s, margin {100 * each.margin:.0f} % ({each.binding_limit.name})"
            for each in self.outcomes
        )
        shares = sorted(self.run.saturation_shares.items(), key=lambda each: -each[1])
        limited = ", ".join(f"{name} {100 * share:.2g} %" for name, share in shares[:MOST_NAMED])
        saturated = f" At a limit of effort or rate, by the time of its laws: {limited}." if limited else ""
        return f"Strategy {self.strategy}. Stages: {notes}.{saturated}"

    def certificate(self) -> Mapping[str, Checks]:
        early = self.run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT)
        cross = {} if self.checked is None else {"cross_check": self.checked}
        end = {"end": Check.from_condition(False, self.run.why)} if early else {}
        return {**end, **(self.run.certificate or {}), **cross}

    def limits(self) -> list[Limit]:
        """Limits of all stages: broken ones in the order of their times, then the others by margin."""
        found = [
            replace(limit, name=f"{outcome.stage}: {limit.name}")
            for outcome in self.outcomes
            # The binding limit of a stage first where others are equal (sorting is stable).
            for limit in sorted(outcome.limits, key=lambda limit: limit is not outcome.binding_limit)
        ]
        return sorted(found, key=order_limits)

    def decides(self) -> bool:
        return True

    def settings(self) -> Mapping[str, Any]:
        return {
            "strategy": self.strategy,
            "assumptions": list_assumptions(self.flight),
            "other_masses": {
                words: str(other) if isinstance(other, SpacearmError) else other.worst.margin
                for words, other in self.others
            },
            "steps": self.run.stats.steps,
            "events": [f"{event.time:.9g} s: {event.kind} {event.name}" for event in self.run.events[:200]],
        }

    def data(self) -> Any:
        return mission_curves(self.run, self.flight, self.outcomes)

    def scene(self) -> Scene:
        return scene_of(self.run)

    def figures(self) -> list[Figure]:
        data = self.data()
        timeline, margins, *curves = figures(self.outcomes, data, self.flight)
        flown = [other for _, other in self.others if isinstance(other, MissionFindings)]
        least = [{need.limit.name: need.limit.margin for need in other.requirements} for other in flown]
        return [
            timeline,
            margins,
            *approach_figures(data, self.flight),
            *review_figures(self.requirements, self.flight, least),
            *curves,
        ]
