"""The soft-capture study from a scenario file: any robot, soft joints, loads, a target, clutch, dampers, design.

Tables of the file in the first half, what is reported in the second. The run begins in one of three states: as given,
right after a capture at time zero, or with an approach that ends with one. A design is judged in the same start, soft
from the beginning; loads may be replaced by cases with probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm import result
from spacearm.capture import figures
from spacearm.capture.capture_run import CaptureRun, Settling
from spacearm.capture.clutch import SOFT, At, Felt, Mode, Settled
from spacearm.capture.cushion import cushion
from spacearm.capture.design import Front, design
from spacearm.capture.evaluate import Case
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import (
    AXES,
    SoftAxis,
    SoftJoint,
    held_joints,
    relaxed,
    soft_axes,
    soft_joints,
    soften,
)
from spacearm.capture.target import Approach, Caught, Target, catch, catch_softly
from spacearm.errors import InputError, at
from spacearm.model import Robot
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import Duration, Limit, Name, Number, Origin, Seed, Vector3, whole
from spacearm.model.toml_values import pose_of
from spacearm.result import Check, Checks, Figure
from spacearm.scene import Scene, scene_of
from spacearm.simulate import Load, State
from spacearm.simulate.run.ledger import Entry
from spacearm.study import Findings, Noted, Session, StudyFile, Table, agreement, key, largest, makes, row, xyz
from spacearm.study.keys import made
from spacearm.study.limits import run_limits
from spacearm.study.signal_tables import LoadTable, SignalTable, not_an_angle
from spacearm.study.tables import MotionKeys, Pair, ShapedBodyTable, StartTable
from spacearm.words import number

if TYPE_CHECKING:
    import xarray as xr

WRENCH = ("fx", "fy", "fz", "mx", "my", "mz")


class AxisTable(Table):
    """A soft axis."""

    stiffness: Number = key(what="N/m or N m/rad")
    damping: Number = key(0.0, "N s/m or N m s/rad")
    travel: Limit | Annotated[list[Limit], key(min_length=2, max_length=2)] = key(
        math.inf, "how far it may go, one size or [lower, upper], m or rad"
    )
    preload: Number = key(0.0, "of the spring, N or N m")

    def make(self) -> SoftAxis:
        travel = (self.travel[0], self.travel[1]) if isinstance(self.travel, list) else self.travel
        return SoftAxis(self.stiffness, self.damping, travel, self.preload)


class SoftTable(Table):
    """Soft axes at a joint of the robot."""

    joint: Name
    where: Literal["after", "before", "instead"] = key(
        "after", "the axes stand after or before the joint, or in its place"
    )
    slide_x: AxisTable | None = None
    slide_y: AxisTable | None = None
    slide_z: AxisTable | None = None
    turn_x: AxisTable | None = None
    turn_y: AxisTable | None = None
    turn_z: AxisTable | None = None


class TargetTable(ShapedBodyTable, MotionKeys):
    """What is caught; it moves as its grasped point does."""

    name: Name = "target"
    origin: Origin = key(Origin(), "the target's frame in the hand's")
    velocity: Vector3 = key([0.0, 0.0, 0.0], "of the grasped point, world axes, m/s")
    contact: AxisTable | None = key(None, "a grip that gives way; rigid where left out")

    def make(self) -> Target:
        x, y, z = self.velocity
        a, b, c = map(float, self.turning())
        pose = pose_of(self.origin, Place("origin", self.name))
        body = self.body_of(self.name, "target", self.name)
        return Target(body.inertia, (x, y, z), (a, b, c), pose, self.name, body.visuals)


class ApproachTable(Table):
    """How the arm moves to the target; the clutch is closed until contact."""

    duration: Duration = key(what="until contact, s")
    driven: dict[str, SignalTable] = key({}, "joint = path: the joint follows it, before contact and after")
    compliant: dict[str, AxisTable] = key({}, "joints whose drives give way at contact: spring and damper")

    def of(self, robot: Robot, start: State, target: Target, hand: str) -> Approach:
        """The approach of this robot."""
        paths = {name: path.of(f"driven.{name}", not_an_angle(robot, name)) for name, path in self.driven.items()}
        compliant = {name: made(axis, f"compliant.{name}") for name, axis in self.compliant.items()}
        return Approach(start, target, self.duration, paths, compliant, hand)


class UntilTable(Table):
    """When a mode of the clutch ends: at a time, when contact is felt, or when the axes have settled."""

    time: Number | None = key(None, "s")
    force: Number | None = key(None, "ends when a locked axis that slides carries more than this, N")
    moment: Number | None = key(None, "the same for an axis that turns, N m")
    delay: Number | None = key(None, "of sensing and switching after that, s")
    slide: Number | None = key(None, "ends when sliding rates have settled below this, m/s; stands for `turn` too")
    turn: Number | None = key(None, "the same for turning rates, rad/s; stands for `slide` too")

    def make(self) -> At | Felt | Settled:
        felt, settled = self.options("force", "moment"), self.options("slide", "turn")
        if (self.time is not None) + bool(felt) + bool(settled) != 1:
            raise InputError("'until' needs one way to end", hint="time; force, moment, delay; or slide, turn")
        if self.delay is not None and not felt:
            raise InputError("'delay' belongs to a contact that is felt", hint="with force or moment")
        if felt:
            return Felt(**felt, delay=self.delay or 0.0)
        if self.time is not None:
            return At(self.time)
        either = next(iter(settled.values()))  # one number stands for both, m/s and rad/s
        return Settled(**{"slide": either, "turn": either} | settled)


class ClutchTable(Table):
    """A mode of the clutch."""

    mode: Literal["rigid", "soft"]
    until: UntilTable | None = key(None, "when it ends")

    def make(self) -> Mode:
        return Mode(self.mode, None if self.until is None else made(self.until, "until"))


class OnOffTable(Table):
    """Dampers that switch between two values, N s/m or N m s/rad."""

    on: Number = 5.0
    off: Number = 0.0

    make = makes(OnOff)


class SettlingTable(Table):
    """When a vibration has settled: below a fraction of its peak, or below a velocity or rate."""

    fraction: Number = 0.05
    velocity: Number = key(0.0, "fixed bound of the velocity, m/s")
    rate: Number = key(0.0, "fixed bound of the angular velocity, rad/s")

    make = makes(Settling)


class CaseTable(Table):
    """Another way in which the robot may be struck, for the design."""

    name: Name = ""
    probability: Number = 1.0
    load: list[LoadTable] = key(min_length=1)


class DesignTable(Table):
    """Springs and dampers to choose."""

    stiffness: Pair = key(what="range of all springs")
    damping: Pair = key([0.0, 5.0], "range of all dampers")
    objectives: list[Name] = key(["base_rate", "moment", "settling"], min_length=1)
    over: Literal["expected", "worst"] = key("expected", "mean over the cases, by probability, or the worst")
    runs: Annotated[int, whole(64, 10_000_000)] = 20_480
    law: Literal["constant", "balance", "skyhook"] = key("constant", "how dampers switch")
    off: Number = key(0.0, "damping of switched dampers while they are off")
    duration: Duration = key(40.0, "of each run, s")
    step: Duration = key(0.05, "largest step of RK4, s")
    settling: SettlingTable = SettlingTable()
    ties: list[list[Name]] = key([], "groups of axes that share one spring and damper")
    seed: Seed = 0
    case: list[CaseTable] = key([], "ways of being struck; the file's own loads and target where left out")


class CaptureFile(StudyFile):
    """A capture by an arm with soft joints."""

    either: ClassVar = (("damping", "on_off"),)

    duration: Duration = key(60.0, "s")
    sample: Duration = key(0.02, "interval of the recorded samples, s")
    hand: Name = key("hand", "frame that catches")
    free: list[Name] = key([], "joints other than soft axes that may move")
    travel: Literal["error", "report"] = key("error", "an axis beyond its travel is an error, or is reported")
    damping: Number | dict[str, Number] | None = key(None, "of all soft axes, or by axis; their own where left out")
    soft: list[SoftTable] = key([], "soft axes in addition to the robot's")
    start: StartTable = key(StartTable(), "at rest with springs relaxed where left out")
    load: list[LoadTable] = key([])
    approach: ApproachTable | None = key(None, "of the arm to the target; contact is at time zero where left out")
    target: TargetTable | None = None
    clutch: list[ClutchTable] = key([], "soft all the time where left out")
    on_off: OnOffTable | None = None
    settling: SettlingTable = SettlingTable()
    design: DesignTable | None = None

    def solve(self, session: Session) -> Cushioned:
        robot = self._robot(session)
        with at("start"):
            start = self.start.state(robot, relaxed(robot, self.start.configuration or "zero"))
        modes = made(self.clutch, "clutch") or list(SOFT)
        loads = self._loads(robot, self.load, self.duration)
        begin = start if self.target is None else self._begin(session, robot, start, modes[0].kind == "rigid")
        if self.target is None and not loads:
            raise InputError("nothing happens", place="load", hint="add a [[load]] or a [target] table")
        settling = made(self.settling, "settling")
        damping = self.damping if self.on_off is None else made(self.on_off, "on_off")
        session.tell(0.1, "compiling and running")
        # After a capture the robot has the target in its hand; after an approach it gets it during the run.
        robot = begin.robot if isinstance(begin, Caught) else robot
        options = self.options("duration", "free", "travel", "sample")
        run = cushion(robot, begin, loads, modes=modes, damping=damping, **options)
        checked = None
        if session.cross_check:
            session.tell(0.4, "cross-checking with MuJoCo")
            checked = agreement(run.cross_check())
        front = None
        if self.design is not None:
            with at("design"):
                if modes[0].kind == "rigid":
                    raise InputError(
                        "designs are judged soft from the start, but the clutch is rigid at first",
                        hint="a [[clutch]] that begins soft, or no [design]",
                    )
                front = self._design(session, self.design, robot, Case(loads, begin, name="as run"))
        return Cushioned(file=self, run=run, caught=run.caught, criterion=settling, front=front, checked=checked)

    def _robot(self, session: Session) -> Robot:
        robot = session.robot(self.robot)
        for k, entry in enumerate(self.soft):
            with at(f"soft[{k}]"):
                robot = soften(robot, entry.joint, SoftJoint.of(entry.options(*AXES)), where=entry.where)
        if not soft_joints(robot):
            raise InputError("the robot has no soft joint", place="soft", hint="add a [[soft]] table")
        return robot

    @staticmethod
    def _loads(robot: Robot, tables: list[LoadTable], end: float) -> tuple[Load, ...]:
        found = []
        for k, entry in enumerate(tables):
            with at(f"load[{k}]"):
                found.append(entry.of(robot, end))
        return tuple(found)

    def _begin(self, session: Session, robot: Robot, start: State, rigid: bool) -> Caught | Approach:
        assert self.target is not None
        # A clutch that is rigid at contact holds the soft axes in the impact too.
        held = (*held_joints(robot, self.free), *(soft_axes(robot) if rigid else ()))
        with at("target"):
            target = self.target.located(session.folder).make()
            if self.approach is not None and self.target.contact is not None:
                raise InputError(
                    "an approach ends with a rigid grip", place="contact", hint="leave it, or [approach], out"
                )
        if self.approach is not None:
            with at("approach"):
                return self.approach.of(robot, start, target, self.hand)
        with at("target"):
            if self.target.contact is None:
                return catch(robot, start, target, self.hand, held=held)
            return catch_softly(robot, start, target, made(self.target.contact, "contact"), self.hand, held=held)

    def _design(self, session: Session, entry: DesignTable, robot: Robot, own: Case) -> Front:
        cases = [own] if not entry.case else []
        for k, case in enumerate(entry.case):
            with at(f"case[{k}]"):
                loads = self._loads(robot, case.load, entry.duration)
                cases.append(Case(loads, own.start, case.probability, case.name))
        options = entry.options()
        options |= {"stiffness": tuple(entry.stiffness), "damping": tuple(entry.damping)}
        del options["case"]
        tell = session.part(0.5, 0.9, "designing")
        return design(robot, cases, free=self.free, progress=lambda part: tell(part, 1.0), **options)


def _peak(values: Any) -> float:
    return float(np.abs(values).max())


class Base(Findings):
    """How the base moves at most."""

    run: CaptureRun

    velocity = row("m/s", of=lambda b: {f"{x}.peak": _peak(v) for x, v in xyz(b.run.base_velocity.T).items()})
    rate = row("rad/s", of=lambda b: {f"{x}.peak": _peak(v) for x, v in xyz(b.run.base_rate.T).items()})
    whole = row("rad/s", name="rate.peak", of=lambda b: np.linalg.norm(b.run.base_rate, axis=1).max())


class Catching(Findings):
    """What the contact with the target did."""

    caught: Caught

    lost = row("J", "kinetic energy lost in the plastic impact", of=lambda c: c.caught.impact and c.caught.impact.lost)
    impulse = row("", "of the target on the hand, world axes", of=lambda c: _wrench(c.caught.hand_impulse, " s"))


class Jolt(Findings):
    """An impact during the run: the clutch closes on what moves."""

    impact: Entry

    lost = row("J", of=lambda j: Noted(j.impact.lost, f"{j.impact.text} at {j.impact.time:.6g} s"))
    impulse = row("N s, N m s", of=lambda j: j.held())

    def held(self) -> Noted:
        """On the joints that were held."""
        held = {name: size for name, size in self.impact.changed.impulse.items() if size}
        return Noted(np.array([*held.values()]), f"on {', '.join(held)}" if held else "no joint is held")


def _wrench(values: Any, per: str = "", note: str = "") -> dict[str, Noted]:
    return {n: Noted(v, note, ("N" if n[0] == "f" else "N m") + per) for n, v in xyz(values, WRENCH).items()}


class Cushioned(Findings):
    """What a soft capture gives."""

    file: CaptureFile
    run: CaptureRun
    caught: Caught | None
    criterion: Settling
    front: Front | None
    checked: Check | None

    base = row(of=lambda c: Base(run=c.run))
    settling = row("s", of=lambda c: Noted(c.run.settling_time(c.criterion), str(c.criterion)))
    carried = row("", "towards the base, axes of the inner body", of=lambda c: c.through_joints())
    deformation = row(of=lambda c: {n: {"peak": c.deformed(n)} for n in c.run.axes})
    absorbed = row("J", "by its damper", of=lambda c: {name: c.run.absorbed()[name] for name in c.run.axes})
    clutch = row("s", of=lambda c: {f"{mode}.{k}": time for k, (time, mode) in enumerate(c.run.switches, 1)})
    impact = row(of=lambda c: {str(k): Jolt(impact=i) for k, i in enumerate(c.jolts(), 1)})
    travel = row("s", of=lambda c: c.left())
    capture = row(of=lambda c: c.caught and Catching(caught=c.caught))
    momentum = row("kg m/s", "world axes", of=lambda c: c.at_the_end("linear"))
    angular_momentum = row("kg m2/s", "about all's centre", of=lambda c: c.at_the_end("angular"))
    design = row(of=lambda c: c.front and _designs(c.front))
    cross_check = row(name="cross_check.largest", of=lambda c: largest(c.checked))

    def through_joints(self) -> dict[str, Any]:
        """Largest wrench through each soft joint."""
        peaks = {joint: np.abs(self.run.transmitted(joint)).max(axis=0) for joint in soft_joints(self.run.robot)}
        return {joint: {f"{n}.peak": v for n, v in _wrench(peak).items()} for joint, peak in peaks.items()}

    def deformed(self, axis: str) -> Noted:
        return Noted(_peak(self.run.joint(axis)), "", self.run.robot.joint(axis).unit)

    def jolts(self) -> tuple[Entry, ...]:
        """Impacts but for the capture's own, which has rows of its own."""
        # A slice that begins at 0 or 1: the capture's own impact is the first where there is one.
        return self.run.impacts[self.caught is not None and self.caught.impact is not None :]

    def left(self) -> dict[str, Noted]:
        """When axes left their travel."""
        note = "passes {0.limit:g} {0.unit} and goes to {0.reached:.6g} {0.unit}"
        return {f"{gone.joint}.exceeded": Noted(gone.time, note.format(gone)) for gone in self.run.exceeded}

    def at_the_end(self, part: str) -> dict[str, Any]:
        """Momentum of base, arm and target at the end of the run."""
        shares = getattr(self.run.momentum_budget(self.caught), part)
        return {f"{group}.end": series[-1] for group, series in shares.items()}

    def title(self) -> str:
        return f"Soft capture by {self.run.robot.name}"

    def headline(self) -> str:
        rate = np.degrees(np.linalg.norm(self.run.base_rate, axis=1).max())
        settled = self.run.settling_time(self.criterion)
        swings = (
            f"settles after {settled:.3g} s" if np.isfinite(settled) else f"swings on after {self.file.duration:g} s"
        )
        return f"The base turns at {number(float(rate), 3)} deg/s at most, and the arm {swings}."

    def summary(self) -> str:
        robot, soft = self.run.robot, soft_joints(self.run.robot)
        return (
            f"{robot.name} has {len(robot.bodies)} bodies and {robot.mass:g} kg; soft: {', '.join(soft)}. Settled "
            f"means: {self.criterion}. The run lasts {self.file.duration:g} s."
        )

    def certificate(self) -> Mapping[str, Checks]:
        return {**self.run.certificate, **({} if self.checked is None else {"cross_check": self.checked})}

    def limits(self) -> list[result.Limit]:
        return run_limits(self.run.run)

    def settings(self) -> Mapping[str, Any]:
        found = {
            "duration [s]": self.file.duration,
            "settling": str(self.criterion),
            "steps": self.run.steps,
            "phases": len(self.run.run.phase_starts),
        }
        front = self.front
        if front is None:
            return found
        steps = {"runs": front.runs, "front": len(front.values), "law": front.law, "step": front.evaluator.step}
        return {**found, "design": steps}

    def data(self) -> xr.Dataset:
        return self.run.dataset(self.caught)

    def scene(self) -> Scene:
        return scene_of(self.run)

    def figures(self) -> list[Figure]:
        one, run = {"run": self.run}, self.run
        found = [
            Figure("base", figures.base_figure(one), "Velocity and angular velocity of the base, world axes."),
            Figure("loads", figures.load_figure(one, ("fx", "mx", "fy", "my", "fz", "mz")), "Loads on the base."),
        ]
        for joint, axes in soft_joints(run.robot).items():
            name = f"deformation-{''.join(c if c.isalnum() and c.isascii() else '-' for c in joint)}"
            found.append(Figure(name, figures.deformation_figure(one, axes), f"Deformations of {joint}."))
        found.append(Figure("dampers", figures.damper_figure(run), "Energy that each damper absorbs."))
        plot = figures.momentum_figure(run, run.momentum_budget(self.caught))
        whose = "base, arm and target" if self.caught else "base and arm"
        found.append(Figure("momentum", plot, f"Momentum of {whose}."))
        if self.front is not None:
            *_, y, x = (*self.front.objectives[-1:], *self.front.objectives)[-2:]
            colour = self.front.objectives[0] if len(self.front.objectives) > 2 else ""
            plot = figures.front_figure({"designs": self.front}, {}, x, y, colour)
            found.append(Figure("front", plot, f"Trade-off from {self.front.runs} runs."))
        return found


def _designs(front: Front) -> dict[str, dict[str, Noted]]:
    """The designs that are best in each objective, and the knee; the first number of each tells its springs."""
    found = {}
    for label, index in [*((f"best_{name}", front.best(name)) for name in front.objectives), ("knee", front.knee())]:
        springs, dampers = front.design(index)
        note = "; ".join(f"{axis}: {springs[axis]:.4g}, {dampers[axis]:.3g}" for axis in front.axes)
        found[label] = {
            name: Noted(float(value), "" if k else f"stiffness, damping of {note}", figures.objective(name)[1])
            for k, (name, value) in enumerate(zip(front.objectives, front.values[index], strict=True))
        }
    return found
