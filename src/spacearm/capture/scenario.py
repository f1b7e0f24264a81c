"""The soft-capture study from a scenario file: any robot, soft joints, loads, a target, clutch, dampers, design.

Tables of the file come first, findings second. The run begins in one of three states: as given, right after a capture
at time zero, or with an approach that ends with one. Designs are evaluated from the same start, soft from the
beginning; loads may be replaced by cases with probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm import result
from spacearm.capture import figures
from spacearm.capture.capture_run import CaptureRun, SettlingCriterion
from spacearm.capture.capture_simulation import simulate_capture
from spacearm.capture.clutch import SOFT, ClutchMode, SwitchAtOverload, SwitchAtRest, SwitchAtTime
from spacearm.capture.design import DesignFront, design
from spacearm.capture.evaluate import LoadCase
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import (
    AXES,
    SoftAxis,
    SoftJoint,
    find_held_joints,
    relax_soft_axes,
    soft_axes,
    soft_joints,
    soften,
)
from spacearm.capture.target import Approach, CaughtTarget, Target, catch, catch_softly
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import Duration, Limit, Name, Number, Origin, Seed, Vector3, integer_between
from spacearm.model.toml_values import pose_of
from spacearm.result import Check, Checks, Figure
from spacearm.scene import Scene, scene_of
from spacearm.simulate import Load, State
from spacearm.simulate.run.ledger import LedgerEntry
from spacearm.study import Findings, ScenarioTable, Session, StudyFile, key, row
from spacearm.study.findings import NotedValue, largest_difference, mujoco_check, xyz
from spacearm.study.keys import keyword_maker, make_value
from spacearm.study.limits import run_limits
from spacearm.study.signal_tables import LoadTable, SignalTable, no_degrees_reason
from spacearm.study.tables import MotionKeys, Pair, ShapedBodyTable, StartTable
from spacearm.text_format import format_number

if TYPE_CHECKING:
    import xarray as xr

WRENCH = ("fx", "fy", "fz", "mx", "my", "mz")


class SoftAxisTable(ScenarioTable):
    """A soft axis."""

    stiffness: Number = key(what="N/m or N m/rad")
    damping: Number = key(0.0, "N s/m or N m s/rad")
    travel: Limit | Annotated[list[Limit], key(min_length=2, max_length=2)] = key(
        math.inf, "travel, one magnitude or [lower, upper], m or rad"
    )
    preload: Number = key(0.0, "preload of the spring, N or N m")

    def make(self) -> SoftAxis:
        travel = (self.travel[0], self.travel[1]) if isinstance(self.travel, list) else self.travel
        return SoftAxis(self.stiffness, self.damping, travel, self.preload)


class SoftTable(ScenarioTable):
    """Soft axes at a joint of the robot."""

    key_changes: ClassVar = {f"turn_{axis}": f"it is 'rotation_{axis}' now" for axis in "xyz"}

    joint: Name
    where: Literal["after", "before", "instead"] = key(
        "after", "whether the axes are placed after or before the joint, or replace it"
    )
    slide_x: SoftAxisTable | None = None
    slide_y: SoftAxisTable | None = None
    slide_z: SoftAxisTable | None = None
    rotation_x: SoftAxisTable | None = None
    rotation_y: SoftAxisTable | None = None
    rotation_z: SoftAxisTable | None = None


class CaptureTargetTable(ShapedBodyTable, MotionKeys):
    """The captured target, given by the motion of its grasped point."""

    name: Name = "target"
    origin: Origin = key(Origin(), "pose of the target's frame in the hand's frame")
    velocity: Vector3 = key([0.0, 0.0, 0.0], "of the grasped point, world axes, m/s")
    contact: SoftAxisTable | None = key(None, "a compliant grip; rigid if omitted")

    def make(self) -> Target:
        x, y, z = self.velocity
        a, b, c = map(float, self.base_angular_velocity())
        pose = pose_of(self.origin, Place("origin", self.name))
        body = self.body_of(self.name, "target", self.name)
        return Target(body.inertia, (x, y, z), (a, b, c), pose, self.name, body.visuals)


class CaptureApproachTable(ScenarioTable):
    """Motion of the arm to the target; the clutch is closed until contact."""

    duration: Duration = key(what="time until contact, s")
    driven: dict[str, SignalTable] = key({}, "joint = path: the joint follows it, before contact and after")
    compliant: dict[str, SoftAxisTable] = key({}, "joints whose drives become spring and damper at contact")

    def build(self, robot: Robot, start: State, target: Target, hand: str) -> Approach:
        """The approach of this robot."""
        paths = {
            name: path.make_signal(f"driven.{name}", no_degrees_reason(robot, name))
            for name, path in self.driven.items()
        }
        compliant = {name: make_value(axis, f"compliant.{name}") for name, axis in self.compliant.items()}
        return Approach(start, target, self.duration, paths, compliant, hand)


class UntilTable(ScenarioTable):
    """End of a mode of the clutch: at a time, when contact is sensed, or when the axes have settled."""

    key_changes: ClassVar = {"turn": "it is 'rotation' now"}

    time: Number | None = key(None, "s")
    force: Number | None = key(None, "ends when a locked sliding axis carries more than this, N")
    moment: Number | None = key(None, "the same for a rotating axis, N m")
    delay: Number | None = key(None, "delay of sensing and switching after that, s")
    slide: Number | None = key(
        None, "ends when sliding rates have settled below this, m/s; also applies to `rotation` if that is omitted"
    )
    rotation: Number | None = key(
        None, "the same for rotation rates, rad/s; also applies to `slide` if that is omitted"
    )

    def make(self) -> SwitchAtTime | SwitchAtOverload | SwitchAtRest:
        sensed, settled = self.options("force", "moment"), self.options("slide", "rotation")
        if (self.time is not None) + bool(sensed) + bool(settled) != 1:
            raise InputError(
                "'until' needs exactly one condition", hint="time; force, moment, delay; or slide, rotation"
            )
        # A delay of sensing means nothing where nothing is sensed: a slip in the file, not to be ignored.
        if self.delay is not None and not sensed:
            raise InputError("'delay' applies to a sensed contact only", hint="with force or moment")
        if sensed:
            return SwitchAtOverload(**sensed, delay=self.delay or 0.0)
        if self.time is not None:
            return SwitchAtTime(self.time)
        either = next(iter(settled.values()))  # one number applies to both, m/s and rad/s
        return SwitchAtRest(**{"slide": either, "rotation": either} | settled)


class ClutchTable(ScenarioTable):
    """A mode of the clutch."""

    mode: Literal["rigid", "soft"]
    until: UntilTable | None = key(None, "end of the mode")

    def make(self) -> ClutchMode:
        return ClutchMode(self.mode, None if self.until is None else make_value(self.until, "until"))


class OnOffTable(ScenarioTable):
    """Dampers that switch between two values, N s/m or N m s/rad."""

    on: Number = 5.0
    off: Number = 0.0

    make = keyword_maker(OnOff)


class SettlingTable(ScenarioTable):
    """Settling criterion of a vibration: below a fraction of its peak, or below a velocity or rate."""

    fraction: Number = 0.05
    velocity: Number = key(0.0, "fixed bound of the velocity, m/s")
    rate: Number = key(0.0, "fixed bound of the angular velocity, rad/s")

    make = keyword_maker(SettlingCriterion)


class DesignCaseTable(ScenarioTable):
    """A load case of the design."""

    name: Name = ""
    probability: Number = 1.0
    load: list[LoadTable] = key(min_length=1)


class DampingDesignTable(ScenarioTable):
    """Design of springs and dampers."""

    stiffness: Pair = key(what="range of all springs")
    damping: Pair = key([0.0, 5.0], "range of all dampers")
    objectives: list[Name] = key(["base_rate", "moment", "settling"], min_length=1)
    over: Literal["expected", "worst"] = key(
        "expected", "mean over the cases, weighted by probability, or the worst case"
    )
    runs: Annotated[int, integer_between(64, 10_000_000)] = 20_480
    law: Literal["constant", "balance", "skyhook"] = key("constant", "switching law of the dampers")
    off: Number = key(0.0, "damping of switched dampers while they are off")
    duration: Duration = key(40.0, "duration of each run, s")
    step: Duration = key(0.05, "largest step of RK4, s")
    settling: SettlingTable = SettlingTable()
    ties: list[list[Name]] = key([], "groups of axes that share one spring and damper")
    seed: Seed = 0
    case: list[DesignCaseTable] = key([], "load cases; the file's own loads and target if omitted")


class CaptureFile(StudyFile):
    """A capture by an arm with soft joints."""

    either: ClassVar = (("damping", "on_off"),)

    duration: Duration = key(60.0, "s")
    sample: Duration = key(0.02, "sampling interval of the record, s")
    hand: Name = key("hand", "frame that captures the target")
    free: list[Name] = key([], "joints other than soft axes that may move")
    travel: Literal["error", "report"] = key("error", "whether an axis beyond its travel is an error or is reported")
    damping: Number | dict[str, Number] | None = key(None, "damping of all soft axes, or by axis; their own if omitted")
    soft: list[SoftTable] = key([], "soft axes in addition to the robot's")
    start: StartTable = key(StartTable(), "state at time zero; at rest with springs relaxed if omitted")
    load: list[LoadTable] = key([])
    approach: CaptureApproachTable | None = key(
        None, "motion of the arm to the target; contact is at time zero if omitted"
    )
    target: CaptureTargetTable | None = None
    clutch: list[ClutchTable] = key([], "modes of the clutch; always soft if omitted")
    on_off: OnOffTable | None = None
    settling: SettlingTable = SettlingTable()
    design: DampingDesignTable | None = None

    def solve(self, session: Session) -> CaptureFindings:
        robot = self._robot(session)
        with error_context("start"):
            start = self.start.state(robot, relax_soft_axes(robot, self.start.configuration or "zero"))
        # Before any run: a slip in the file shall cost no compilation.
        modes = make_value(self.clutch, "clutch") or list(SOFT)
        loads = self._loads(robot, self.load, self.duration)
        begin = start if self.target is None else self._begin(session, robot, start, modes[0].kind == "rigid")
        if self.target is None and not loads:
            raise InputError("nothing happens", place="load", hint="add a [[load]] or a [target] table")
        settling = make_value(self.settling, "settling")
        damping = self.damping if self.on_off is None else make_value(self.on_off, "on_off")
        session.report_progress(0.1, "compiling and running")
        # After a capture the robot holds the target; after an approach it gets it during the run.
        robot = begin.robot if isinstance(begin, CaughtTarget) else robot
        options = self.options("duration", "free", "travel", "sample")
        run = simulate_capture(robot, begin, loads, modes=modes, damping=damping, **options)
        checked = None
        if session.cross_check:
            session.report_progress(0.4, "cross-checking with MuJoCo")
            checked = mujoco_check(run.cross_check())
        front = None
        if self.design is not None:
            with error_context("design"):
                # Fixed steps know no switching clutch: a design's runs have one mode.
                if modes[0].kind == "rigid":
                    raise InputError(
                        "designs are evaluated soft from the start, but the clutch is rigid at first",
                        hint="use a [[clutch]] that begins soft, or no [design]",
                    )
                front = self._design(session, self.design, robot, LoadCase(loads, begin, name="as run"))
        return CaptureFindings(file=self, run=run, caught=run.caught, criterion=settling, front=front, checked=checked)

    def _robot(self, session: Session) -> Robot:
        robot = self.load_robot(session)
        for k, entry in enumerate(self.soft):
            with error_context(f"soft[{k}]"):
                robot = soften(robot, entry.joint, SoftJoint.from_axes(entry.options(*AXES)), where=entry.where)
        if not soft_joints(robot):
            raise InputError("the robot has no soft joint", place="soft", hint="add a [[soft]] table")
        return robot

    @staticmethod
    def _loads(robot: Robot, tables: list[LoadTable], end: float) -> tuple[Load, ...]:
        found = []
        for k, entry in enumerate(tables):
            with error_context(f"load[{k}]"):
                found.append(entry.build(robot, end))
        return tuple(found)

    def _begin(self, session: Session, robot: Robot, start: State, rigid: bool) -> CaughtTarget | Approach:
        assert self.target is not None
        # A clutch that is rigid at contact also holds the soft axes in the impact.
        held = (*find_held_joints(robot, self.free), *(soft_axes(robot) if rigid else ()))
        with error_context("target"):
            target = self.target.locate_meshes(session.folder).make()
            if self.approach is not None and self.target.contact is not None:
                raise InputError(
                    "an approach ends with a rigid grip", place="contact", hint="omit it, or omit [approach]"
                )
        if self.approach is not None:
            with error_context("approach"):
                return self.approach.build(robot, start, target, self.hand)
        with error_context("target"):
            if self.target.contact is None:
                return catch(robot, start, target, self.hand, held=held)
            return catch_softly(robot, start, target, make_value(self.target.contact, "contact"), self.hand, held=held)

    def _design(self, session: Session, entry: DampingDesignTable, robot: Robot, own: LoadCase) -> DesignFront:
        cases = [own] if not entry.case else []
        for k, case in enumerate(entry.case):
            with error_context(f"case[{k}]"):
                loads = self._loads(robot, case.load, entry.duration)
                cases.append(LoadCase(loads, own.start, case.probability, case.name))
        options = entry.options()
        options |= {"stiffness": tuple(entry.stiffness), "damping": tuple(entry.damping)}
        del options["case"]
        report = session.partial_progress(0.5, 0.9, "designing")
        return design(robot, cases, free=self.free, progress=lambda part: report(part, 1.0), **options)


def _peak(values: Any) -> float:
    return float(np.abs(values).max())


class BaseFindings(Findings):
    """Largest motion of the base."""

    run: CaptureRun

    velocity = row("m/s", of=lambda b: {f"{x}.peak": _peak(v) for x, v in xyz(b.run.base_velocity.T).items()})
    rate = row("rad/s", of=lambda b: {f"{x}.peak": _peak(v) for x, v in xyz(b.run.base_rate.T).items()})
    whole = row("rad/s", name="rate.peak", of=lambda b: np.linalg.norm(b.run.base_rate, axis=1).max())


class ContactFindings(Findings):
    """Findings of the contact with the target."""

    caught: CaughtTarget

    lost = row(
        "J", "kinetic energy lost in the plastic impact", of=lambda c: c.caught.impact and c.caught.impact.energy_lost
    )
    impulse = row("", "of the target on the hand, world axes", of=lambda c: _wrench(c.caught.hand_impulse, " s"))


class ClutchImpactFindings(Findings):
    """An impact during the run: the clutch closes on moving axes."""

    impact: LedgerEntry

    lost = row("J", of=lambda j: NotedValue(j.impact.lost, f"{j.impact.text} at {j.impact.time:.6g} s"))
    impulse = row("N s, N m s", of=lambda j: j.tabulate_impulses())

    def tabulate_impulses(self) -> NotedValue:
        """Impulses on the joints that were held."""
        held = {name: size for name, size in self.impact.changed.impulse.items() if size}
        return NotedValue(np.array([*held.values()]), f"on {', '.join(held)}" if held else "no joint is held")


def _wrench(values: Any, per: str = "", note: str = "") -> dict[str, NotedValue]:
    return {n: NotedValue(v, note, ("N" if n[0] == "f" else "N m") + per) for n, v in xyz(values, WRENCH).items()}


class CaptureFindings(Findings):
    """Findings of a soft capture."""

    file: CaptureFile
    run: CaptureRun
    caught: CaughtTarget | None
    criterion: SettlingCriterion
    front: DesignFront | None
    checked: Check | None

    base = row(of=lambda c: BaseFindings(run=c.run))
    settling = row("s", of=lambda c: NotedValue(c.run.settling_time(c.criterion), str(c.criterion)))
    carried = row("", "towards the base, axes of the inner body", of=lambda c: c.tabulate_joint_wrenches())
    deformation = row(of=lambda c: {n: {"peak": c.peak_deformation(n)} for n in c.run.axes})
    absorbed = row("J", "by its damper", of=lambda c: {name: c.run.absorbed_energy()[name] for name in c.run.axes})
    clutch = row("s", of=lambda c: {f"{mode}.{k}": time for k, (time, mode) in enumerate(c.run.switches, 1)})
    impact = row(of=lambda c: {str(k): ClutchImpactFindings(impact=i) for k, i in enumerate(c.jolts(), 1)})
    travel = row("s", of=lambda c: c.tabulate_travel_violations())
    capture = row(of=lambda c: c.caught and ContactFindings(caught=c.caught))
    momentum = row("kg m/s", "world axes", of=lambda c: c.tabulate_final_momentum("linear"))
    angular_momentum = row(
        "kg m2/s", "about the mass centre of the whole system", of=lambda c: c.tabulate_final_momentum("angular")
    )
    design = row(of=lambda c: c.front and _designs(c.front))
    cross_check = row(name="cross_check.largest", of=lambda c: largest_difference(c.checked))

    def tabulate_joint_wrenches(self) -> dict[str, Any]:
        """Largest wrench through each soft joint."""
        # Component by component: peaks of different components are at different times.
        peaks = {joint: np.abs(self.run.transmitted_wrench(joint)).max(axis=0) for joint in soft_joints(self.run.robot)}
        return {joint: {f"{n}.peak": v for n, v in _wrench(peak).items()} for joint, peak in peaks.items()}

    def peak_deformation(self, axis: str) -> NotedValue:
        return NotedValue(_peak(self.run.joint(axis)), "", self.run.robot.joint(axis).unit)

    def jolts(self) -> tuple[LedgerEntry, ...]:
        """Impacts other than that of the capture, which has its own rows."""
        # The capture's own impact, if there is one, is the first: the slice skips it.
        return self.run.impacts[self.caught is not None and self.caught.impact is not None :]

    def tabulate_travel_violations(self) -> dict[str, NotedValue]:
        """Times at which axes left their travel."""
        note = "passes {0.limit:g} {0.unit} and reaches {0.reached:.6g} {0.unit}"
        return {
            f"{gone.joint}.exceeded": NotedValue(gone.time, note.format(gone)) for gone in self.run.travel_violations
        }

    def tabulate_final_momentum(self, part: str) -> dict[str, Any]:
        """Momentum of base, arm and target at the end of the run."""
        shares = getattr(self.run.momentum_budget(self.caught), part)
        return {f"{group}.end": series[-1] for group, series in shares.items()}

    def title(self) -> str:
        return f"Soft capture by {self.run.robot.name}"

    def headline(self) -> str:
        rate = np.degrees(np.linalg.norm(self.run.base_rate, axis=1).max())
        settled = self.run.settling_time(self.criterion)
        swings = (
            f"settles after {settled:.3g} s"
            if np.isfinite(settled)
            else f"still oscillates after {self.file.duration:g} s"
        )
        return (
            f"The angular velocity of the base is at most {format_number(float(rate), 3)} deg/s, and the arm {swings}."
        )

    def summary(self) -> str:
        robot, soft = self.run.robot, soft_joints(self.run.robot)
        return (
            f"{robot.name} has {len(robot.bodies)} bodies and a mass of {robot.mass:g} kg; soft: "
            f"{', '.join(soft)}. Settled "
            f"means: {self.criterion}. The run lasts "
            f"{self.file.duration:g} s."
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
        found.append(Figure("dampers", figures.damper_figure(run), "Energy absorbed by each damper."))
        plot = figures.momentum_figure(run, run.momentum_budget(self.caught))
        whose = "base, arm and target" if self.caught else "base and arm"
        found.append(Figure("momentum", plot, f"Momentum of {whose}."))
        if self.front is not None:
            # The last two objectives; a single one stands over itself.
            *_, y, x = (*self.front.objectives[-1:], *self.front.objectives)[-2:]
            colour = self.front.objectives[0] if len(self.front.objectives) > 2 else ""
            plot = figures.front_figure({"designs": self.front}, {}, x, y, colour)
            found.append(Figure("front", plot, f"Trade-off from {self.front.runs} runs."))
        return found


def _designs(front: DesignFront) -> dict[str, dict[str, NotedValue]]:
    """The designs that are best in each objective, and the knee; the first number of each is its stiffness."""
    found = {}
    for label, index in [*((f"best_{name}", front.best(name)) for name in front.objectives), ("knee", front.knee())]:
        springs, dampers = front.design(index)
        note = "; ".join(f"{axis}: {springs[axis]:.4g}, {dampers[axis]:.3g}" for axis in front.axes)
        found[label] = {
            name: NotedValue(float(value), "" if k else f"stiffness, damping of {note}", figures.objective(name)[1])
            for k, (name, value) in enumerate(zip(front.objectives, front.values[index], strict=True))
        }
    return found
