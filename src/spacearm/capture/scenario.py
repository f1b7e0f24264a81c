"""The soft-capture study from a scenario file: any robot, soft joints, hits, a target, clutch, dampers, design."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.capture.capture_run import CaptureRun, Settling
from spacearm.capture.clutch import SOFT, At, Felt, Mode, Settled
from spacearm.capture.cushion import cushion
from spacearm.capture.design import Front, design
from spacearm.capture.evaluate import Case
from spacearm.capture.figures import (
    base_figure,
    damper_figure,
    deformation_figure,
    front_figure,
    load_figure,
    momentum_figure,
    objective,
)
from spacearm.capture.scenario_schema import (
    AxisTable,
    CaptureFile,
    ClutchTable,
    DesignTable,
    HitTable,
    SettlingTable,
    SoftTable,
    TargetTable,
)
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import (
    AXES,
    SoftAxis,
    SoftJoint,
    driven_joints,
    relaxed,
    soft_axes,
    soft_joints,
    soften,
)
from spacearm.capture.target import Caught, Target, catch, catch_softly
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.model.toml_errors import Place
from spacearm.model.toml_values import inertia_of, pose_of
from spacearm.result import Check, Figure, Result, Row
from spacearm.simulate import Load, State, table

CROSS_CHECK_TOLERANCE = 1e-6


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run the study that a scenario file describes; ``folder`` is where relative robot files are looked for."""
    file = validated(CaptureFile, document)
    tell = progress or (lambda fraction, what: None)
    with at("robot"):
        robot = find_robot(file.robot, folder)
    for k, entry in enumerate(file.soft):
        with at(f"soft[{k}]"):
            robot = _soften(robot, entry)
    if not soft_joints(robot):
        raise InputError("the robot has no soft joint", place="soft", hint="add a [[soft]] table")
    with at("start"):
        start = _start(robot, file)
    modes = [_mode(entry, f"clutch[{k}]") for k, entry in enumerate(file.clutch)] or list(SOFT)
    hits = []
    for k, item in enumerate(file.hit):
        with at(f"hit[{k}]"):
            hits.append(_hit(robot, item, file.duration))
    caught = None
    if file.target is not None:
        with at("target"):
            caught = _catch(robot, start, file, modes[0].kind == "rigid")
            robot = caught.robot
    if caught is None and not hits:
        raise InputError("nothing happens", place="hit", hint="add a [[hit]] or a [target] table")
    settling = _settling(file.settling)
    tell(0.1, "compiling and running")
    begin = start if caught is None else caught
    outcome = cushion(
        robot,
        begin,
        hits,
        duration=file.duration,
        modes=modes,
        damping=_damping(file),
        free=file.free,
        travel=file.travel,
        sample=file.sample,
    )
    certificate = outcome.certificate
    rows = _rows(outcome, caught, settling)
    if cross_check:
        tell(0.4, "cross-checking with MuJoCo")
        found = outcome.cross_check()
        rows.append(Row("cross_check.largest", found.largest if found.expressed else None, note=str(found)))
        if found.expressed:
            certificate |= {"cross_check": Check(found.largest, CROSS_CHECK_TOLERANCE, "", str(found))}
    figures = _figures(outcome, caught)
    front = None
    if file.design is not None:
        with at("design"):
            if modes[0].kind == "rigid":
                raise InputError(
                    "designs are judged soft from the start, but the clutch is rigid at first",
                    hint="a [[clutch]] that begins soft, or no [design]",
                )
            own = Case(tuple(hits), begin, name="as run")
            front = _design(robot, file.design, own, file.free, lambda part: tell(0.5 + 0.4 * part, "designing"))
        rows += _design_rows(front)
        figures.append(_front_figure(front))
    tell(0.95, "drawing")
    return Result(
        "capture",
        rows,
        certificate,
        _settings(file, outcome, settling, front),
        outcome.dataset(caught),
        figures,
        file.title or f"Soft capture by {robot.name}",
        f"{robot!r} with soft joints {', '.join(soft_joints(robot))}; {file.duration:g} s.",
    )


def _axis(entry: AxisTable) -> SoftAxis:
    travel = math.inf if entry.travel is None else entry.travel
    return SoftAxis(
        entry.stiffness,
        entry.damping,
        (travel[0], travel[1]) if isinstance(travel, list) else travel,
        entry.preload,
    )


def _soften(robot: Robot, entry: SoftTable) -> Robot:
    axes = {}
    for name in AXES:
        own = getattr(entry, name)
        if own is not None:
            with at(name):
                axes[name] = _axis(own)
    return soften(robot, entry.joint, SoftJoint.of(axes), where=entry.where)


def _start(robot: Robot, file: CaptureFile) -> State:
    entry = file.start
    joints = relaxed(robot, entry.configuration or "zero")
    for name, value in entry.joints.items():
        joints[robot.joint_index(name)] = value
    return State.moving(
        robot,
        joints,
        position=entry.position,
        quaternion=entry.quaternion,
        base_velocity=entry.velocity,
        base_angular_velocity=entry.angular_velocity,
    )


def _hit(robot: Robot, entry: HitTable, end: float) -> Load:
    profile: Any = entry.profile
    duration = entry.duration
    if profile == "table":
        if entry.times is None or entry.values is None:
            raise InputError("a table needs 'times' and 'values'", hint="seconds since the hit's start, and factors")
        profile = table(entry.times, entry.values)
        duration = entry.times[-1] if duration is None else duration
    elif entry.times is not None or entry.values is not None:
        raise InputError("'times' and 'values' belong to profile 'table'", hint='profile = "table"')
    if entry.start >= end > 0.0:
        raise InputError(f"starts at {entry.start:g} s, when the run is over", hint=f"expected less than {end:g} s")
    robot.frame(entry.frame)
    duration = 0.01 if duration is None else duration
    return Load.pulse(entry.frame, entry.force, entry.moment, duration, entry.start, profile, entry.axes)


def _mode(entry: ClutchTable, place: str) -> Mode:
    with at(place):
        until = entry.until
        if until is None:
            return Mode(entry.mode)
        kinds = {
            "time": until.time is not None,
            "contact": until.force is not None or until.moment is not None,
            "settled": until.slide is not None or until.turn is not None,
        }
        if sum(kinds.values()) != 1:
            raise InputError(
                "'until' needs one way to end", place="until", hint="time; force, moment, delay; or slide, turn"
            )
        if until.delay is not None and not kinds["contact"]:
            raise InputError("'delay' belongs to a contact that is felt", place="until", hint="with force or moment")
        if kinds["contact"]:
            force, moment = (math.inf if size is None else size for size in (until.force, until.moment))
            return Mode(entry.mode, Felt(force, moment, until.delay or 0.0))
        if until.time is not None:
            return Mode(entry.mode, At(until.time))
        other = until.turn if until.slide is None else until.slide  # one number stands for both, m/s and rad/s
        assert other is not None
        return Mode(entry.mode, Settled(*(other if size is None else size for size in (until.slide, until.turn))))


def _target(entry: TargetTable) -> Target:
    if entry.angular_velocity is not None and entry.angular_velocity_deg is not None:
        raise InputError("both 'angular_velocity' and 'angular_velocity_deg' are given", hint="expected one")
    angular_velocity = (
        np.radians(entry.angular_velocity_deg)
        if entry.angular_velocity_deg is not None
        else np.array(entry.angular_velocity or np.zeros(3))
    )
    place = Place("target", entry.name)
    vx, vy, vz = entry.velocity
    return Target(
        inertia_of(entry, place),
        (vx, vy, vz),
        (float(angular_velocity[0]), float(angular_velocity[1]), float(angular_velocity[2])),
        pose_of(entry.origin, place.key("origin")),
        entry.name,
    )


def _catch(robot: Robot, start: State, file: CaptureFile, rigid: bool) -> Caught:
    entry = file.target
    assert entry is not None
    held = (*driven_joints(robot, file.free), *(soft_axes(robot) if rigid else ()))
    if entry.contact is None:
        return catch(robot, start, _target(entry), file.hand, held=held)
    return catch_softly(robot, start, _target(entry), _axis(entry.contact), file.hand, held=held)


def _settling(entry: SettlingTable) -> Settling:
    with at("settling"):
        return Settling(entry.fraction, entry.velocity, entry.rate)


def _damping(file: CaptureFile) -> float | dict[str, float] | OnOff | None:
    if file.on_off is not None:
        if file.damping is not None:
            raise InputError("both 'damping' and 'on_off' are given", place="on_off", hint="expected one")
        with at("on_off"):
            return OnOff(file.on_off.on, file.on_off.off)
    return file.damping


def _rows(outcome: CaptureRun, caught: Caught | None, settling: Settling) -> list[Row]:
    robot = outcome.robot
    rows = []
    for k, axis in enumerate("xyz"):
        rows.append(Row(f"base.velocity.{axis}.peak", float(np.abs(outcome.base_velocity[:, k]).max()), "m/s"))
        rows.append(Row(f"base.rate.{axis}.peak", float(np.abs(outcome.base_rate[:, k]).max()), "rad/s"))
    rows.append(Row("base.rate.peak", float(np.linalg.norm(outcome.base_rate, axis=1).max()), "rad/s"))
    rows.append(Row("settling", outcome.settling_time(settling), "s", note=str(settling)))
    for k, entry in enumerate(("fx", "fy", "fz", "mx", "my", "mz")):
        unit = "N" if k < 3 else "N m"
        for joint in soft_joints(robot):
            peak = float(np.abs(outcome.transmitted(joint)[:, k]).max())
            rows.append(
                Row(f"carried.{joint}.{entry}.peak", peak, unit, note="towards the base, axes of the inner body")
            )
    absorbed = outcome.absorbed()
    for name in outcome.axes:
        series, unit = outcome.joint(name), robot.joint(name).unit
        rows.append(Row(f"deformation.{name}.peak", float(np.abs(series).max()), unit))
        rows.append(Row(f"absorbed.{name}", absorbed[name], "J", note="by its damper"))
    for time, mode in outcome.switches:
        rows.append(Row(f"clutch.{mode}.{sum(row.quantity.startswith('clutch') for row in rows) + 1}", time, "s"))
    plastic = caught is not None and caught.impact is not None  # the first impact then, with rows of its own
    for number, impact in enumerate(outcome.impacts[plastic:], 1):
        rows.append(Row(f"impact.{number}.lost", impact.lost, "J", note=f"{impact.what} at {impact.time:.6g} s"))
        held = np.flatnonzero(impact.impulse)
        names = ", ".join(robot.dof_names[i] for i in held)
        note = f"on {names}" if held.size else "no joint is held"
        rows.append(Row(f"impact.{number}.impulse", impact.impulse[held], "N s, N m s", note=note))
    for gone in outcome.exceeded:
        note = f"passes {gone.limit:g} {gone.unit} and goes to {gone.reached:.6g} {gone.unit}"
        rows.append(Row(f"travel.{gone.joint}.exceeded", gone.time, "s", note=note))
    if caught is not None:
        if caught.impact is not None:
            rows.append(Row("capture.lost", caught.impact.lost, "J", note="kinetic energy lost in the plastic impact"))
        for name, value in zip(("fx", "fy", "fz", "mx", "my", "mz"), caught.hand_impulse, strict=True):
            unit = "N s" if name[0] == "f" else "N m s"
            rows.append(
                Row(f"capture.plastic_impact.{name}", float(value), unit, note="of the target on the hand, world axes")
            )
    shares = outcome.momentum_budget(caught)
    for group, part in shares.linear.items():
        rows.append(Row(f"momentum.{group}.end", part[-1], "kg m/s", note="world axes"))
        rows.append(
            Row(f"angular_momentum.{group}.end", shares.angular[group][-1], "kg m2/s", note="about all's centre")
        )
    return rows


def _figures(outcome: CaptureRun, caught: Caught | None) -> list[Figure]:
    one = {"run": outcome}
    figures = [
        Figure("base", base_figure(one), "Velocity and angular velocity of the base, world axes."),
        Figure("loads", load_figure(one, ("fx", "mx", "fy", "my", "fz", "mz")), "Loads on the base, base axes."),
    ]
    for joint, axes in soft_joints(outcome.robot).items():
        figures.append(
            Figure(f"deformation-{''.join(c if c.isalnum() and c.isascii() else '-' for c in joint)}",
                   deformation_figure(one, axes), f"Deformations of {joint}.")
        )  # fmt: skip
    figures.append(Figure("dampers", damper_figure(outcome), "Energy that each damper absorbs."))
    caption = "Momentum of base, arm and target." if caught else "Momentum of base and arm."
    figures.append(Figure("momentum", momentum_figure(outcome, outcome.momentum_budget(caught)), caption))
    return figures


def _design(
    robot: Robot, entry: DesignTable, own: Case, free: Sequence[str], progress: Callable[[float], None]
) -> Front:
    cases = [own] if not entry.case else []
    for k, case in enumerate(entry.case):
        with at(f"case[{k}]"):
            cases.append(
                Case(tuple(_hit(robot, h, entry.duration) for h in case.hit), own.start, case.probability, case.name)
            )
    return design(
        robot,
        cases,
        stiffness=(entry.stiffness[0], entry.stiffness[1]),
        damping=(entry.damping[0], entry.damping[1]),
        objectives=entry.objectives,
        over=entry.over,
        runs=entry.runs,
        law=entry.law,
        off=entry.off,
        settling=_settling(entry.settling),
        duration=entry.duration,
        step=entry.step,
        ties=entry.ties,
        free=free,
        seed=entry.seed,
        progress=progress,
    )


def _design_rows(front: Front) -> list[Row]:
    rows = []
    chosen = [(f"best_{name}", front.best(name)) for name in front.objectives] + [("knee", front.knee())]
    for label, index in chosen:
        springs, dampers = front.design(index)
        note = "; ".join(f"{a}: {springs[a]:.4g}, {dampers[a]:.3g}" for a in front.axes)
        for k, (name, value) in enumerate(zip(front.objectives, front.values[index], strict=True)):
            unit = objective(name)[1]
            text = f"stiffness, damping of {note}" if k == 0 else ""
            rows.append(Row(f"design.{label}.{name}", float(value), unit, note=text))
    return rows


def _front_figure(front: Front) -> Figure:
    x = front.objectives[-1]
    y = front.objectives[-2] if len(front.objectives) > 1 else x
    colour = front.objectives[0] if len(front.objectives) > 2 else ""
    return Figure("front", front_figure({"designs": front}, {}, x, y, colour), f"Trade-off from {front.runs} runs.")


def _settings(file: CaptureFile, outcome: CaptureRun, settling: Settling, front: Front | None) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "robot": file.robot,
        "duration [s]": file.duration,
        "settling": str(settling),
        "steps": outcome.steps,
        "stretches": len(outcome.stretches),
    }
    if front is not None:
        settings["design"] = {
            "runs": front.runs,
            "front": len(front.values),
            "law": front.law,
            "step": front.evaluator.step,
        }
    return settings
