"""A plain run in time from a scenario file: phases, loads, thrusters, driven joints, events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError, SimulationError, quoted
from spacearm.figures import lines
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.result import Check, Figure, Result, Row
from spacearm.scenarios.motion_schema import EventTable, LoadTable, MotionFile, PhaseTable, SignalValue, StartTable
from spacearm.scenarios.signals import (
    angles,
    bounds,
    choice,
    method_of,
    not_an_angle,
    on_and_off,
    refuse_degrees,
    signal_of,
    throttle,
)
from spacearm.simulate import Event, Load, Phase, Reason, Run, Signal, State, firing, simulate
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.simulate.crosscheck import cross_check as check_in_mujoco
from spacearm.simulate.mujoco_twin import load_mujoco

#: A cross-check with MuJoCo that differs by more than this, relative to the motion, makes a run unsound.
CROSS_CHECK_TOLERANCE = 1e-6


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run a motion scenario; ``folder`` is where relative robot files are looked for."""
    file = validated(MotionFile, document)
    tell = progress or (lambda fraction, what: None)
    if cross_check:
        load_mujoco()  # where it is missing, that is told before the run
    with at("robot"):
        robot = find_robot(file.robot, folder)
    with at("start"):
        start = start_state(robot, file.start)
    phases = []
    for index, entry in enumerate(file.phase):
        with at(f"phase[{index}]"):
            phases.append(phase_of(robot, entry))
    with at("method"):
        method = method_of(file.method)
    tell(0.1, "compiling and running")
    done = simulate(
        robot,
        start,
        phases,
        method=method,
        sample=file.sample,
        tolerance=file.tolerance,
        max_steps=file.method.max_steps,
        progress=lambda time, total: tell(0.1 + 0.5 * time / total, f"at {time:.3g} s of {total:.3g} s"),
    )
    if done.reason == Reason.TOO_MANY_STEPS:
        raise SimulationError(
            f"the run ended at t = {done.end_time:.9g} s of {sum(phase.duration for phase in phases):g} s: {done.why}",
            place=phases[len(done.phase_starts) - 1].numbered(len(done.phase_starts) - 1),
            hint="take away what is so fast, or set method.max_steps",
        )
    certificate: dict[str, Any] = {"sound": done.ok}
    if done.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT):
        certificate["reason"] = done.why
    if done.certificate is not None:
        certificate |= done.certificate.checks
    rows = _rows(robot, done)
    if cross_check:
        tell(0.6, "cross-checking with MuJoCo")
        found = check_in_mujoco(done, start, phases)
        note = str(found)
        if found.expressed:
            certificate["cross_check"] = Check(found.largest, CROSS_CHECK_TOLERANCE, "", note)
        rows.append(Row("cross_check.largest", found.largest if found.expressed else None, note=note))
    tell(0.9, "drawing")
    counted = f"{len(phases)} phase{'s' if len(phases) > 1 else ''}"
    settings = {
        "robot": file.robot,
        "method": repr(method),
        "steps": done.stats.steps,
        "evaluations": done.stats.evaluations,
        "events": [f"{event.time:.9g} s: {event.kind} {event.name}" for event in done.events],
    }
    return Result(
        "motion",
        rows,
        certificate,
        settings,
        done.data,
        _figures(robot, done),
        file.title or f"Motion of {robot.name}",
        f"{robot!r}: {counted}, {done.end_time:g} s. {done.reason.text.capitalize()}.",
    )


def start_state(robot: Robot, entry: StartTable) -> State:
    """State at time zero."""
    joints = choice("", configuration=entry.configuration, joints=entry.joints, joints_deg=entry.joints_deg)
    positions: Any = None
    if joints is not None:
        positions = joints[1] if joints[0] == "configuration" else np.asarray(joints[1], dtype=np.float64)
        if joints[0] == "joints_deg":
            _need_revolute(robot, "joints_deg", "joints")
            positions = np.radians(positions)
    if entry.rates_deg is not None:
        _need_revolute(robot, "rates_deg", "rates")
    attitude = choice("", quaternion=entry.quaternion, rpy_deg=entry.rpy_deg)
    quaternion: Any = (1.0, 0.0, 0.0, 0.0)
    if attitude is not None:
        quaternion = attitude[1]
        if attitude[0] == "rpy_deg":
            quaternion = quaternion_from_rotation(rotation_from_rpy(np.radians(attitude[1])))
    turning = angles("", angular_velocity=entry.angular_velocity, angular_velocity_deg=entry.angular_velocity_deg)
    return State.moving(
        robot,
        positions,
        angles("", rates=entry.rates, rates_deg=entry.rates_deg),
        position=entry.position,
        quaternion=quaternion,
        base_velocity=entry.velocity,
        base_angular_velocity=(0.0, 0.0, 0.0) if turning is None else turning,
    )


def _need_revolute(robot: Robot, key: str, instead: str) -> None:
    sliding = [joint.name for joint in robot.joints if joint.kind == "prismatic"]
    if sliding:
        raise InputError(f"joint {sliding[0]!r} slides, it has no degrees", place=key, hint=f"give {instead!r} in SI")


def phase_of(robot: Robot, entry: PhaseTable) -> Phase:
    def signals(what: str, given: Mapping[str, SignalValue], no_degrees: str = "") -> dict[str, Signal]:
        return {
            name: signal_of(value, f"{what}.{name}", no_degrees or not_an_angle(robot, name))
            for name, value in given.items()
        }

    driven = signals("driven", entry.driven)
    for name, path in driven.items():
        _check_path(robot, name, path, entry.duration)
    loads = [_load(robot, item, f"load[{k}]") for k, item in enumerate(entry.load)]
    loads += _thrust(robot, entry)
    return Phase(
        entry.duration,
        until=[_event(robot, item, f"until[{k}]") for k, item in enumerate(entry.until)],
        events=[_event(robot, item, f"record[{k}]") for k, item in enumerate(entry.record)],
        locked=entry.locked,
        driven=driven,
        accelerations=signals("accelerations", entry.accelerations),
        forces=signals("forces", entry.forces, "a force has no degrees"),
        loads=loads,
        friction=entry.friction,
        limits=entry.limits,
        name=entry.name,
    )


def _check_path(robot: Robot, name: str, path: Signal, duration: float) -> None:
    """A path stays where angles are known; a name that is no joint's is told by the phase."""
    if name in robot.joint_names and robot.joint(name).kind == "revolute":
        farthest = max(map(abs, bounds(path, duration)))
        if farthest > LARGEST_ANGLE:
            raise InputError(
                f"goes to {farthest:g} rad", place=f"driven.{name}", hint=f"expected at most {LARGEST_ANGLE:g} rad"
            )


def _load(robot: Robot, entry: LoadTable, place: str) -> Load:
    chosen = choice(place, force=entry.force, moment=entry.moment)
    if chosen is None:
        raise InputError("neither 'force' nor 'moment' is given", place=place)
    with at(place):
        robot.frame(entry.frame)
        size = signal_of(chosen[1], chosen[0], f"a {chosen[0]} has no degrees")
        return Load.along(entry.frame, entry.direction, size, axes=entry.axes, moment=chosen[0] == "moment")


def _thrust(robot: Robot, entry: PhaseTable) -> list[Load]:
    loads: list[Load] = []
    seen: dict[str, str] = {}
    for index, item in enumerate(entry.thruster):
        place = f"thruster[{index}]"
        if item.name in seen:
            raise InputError(
                f"{seen[item.name]} is also for {quoted(item.name)}", place=place, hint="give all its intervals in one"
            )
        seen[item.name] = place
        chosen = choice(place, on=item.on, level=item.level)
        with at(place):
            level: Signal | float = 1.0
            if chosen is not None:
                level = throttle(chosen[1], entry.duration) if chosen[0] == "level" else on_and_off(chosen[1])
            loads.append(firing(robot, item.name, level))
    return loads


def _event(robot: Robot, entry: EventTable, place: str) -> Event:
    refuse_degrees(entry, place, not_an_angle(robot, entry.quantity))
    value = angles(place, value=entry.value, value_deg=entry.value_deg)
    with at(place):
        return Event(entry.quantity, 0.0 if value is None else float(value), entry.direction)


def _rows(robot: Robot, done: Run) -> list[Row]:
    rows = [Row("end.time", done.end_time, "s", note=done.reason.text)]
    if done.end is not None:
        for axis, speed, rate in zip("xyz", done.end.base_velocity, done.end.base_angular_velocity, strict=True):
            rows.append(Row(f"end.base_velocity.{axis}", speed, "m/s", note="world axes"))
            rows.append(Row(f"end.base_angular_velocity.{axis}", rate, "rad/s", note="world axes"))
        for joint, position, rate in zip(robot.joints, done.end.joints, done.end.rates, strict=True):
            rows.append(Row(f"end.joint.{joint.name}", position, joint.unit))
            rows.append(Row(f"end.joint_rate.{joint.name}", rate, f"{joint.unit}/s"))
    return rows


def _figures(robot: Robot, done: Run) -> list[Figure]:
    data = done.data
    figures = [
        Figure("base-velocity", lines(data, "base_velocity"), "Velocity of the base's origin, world axes."),
        Figure("base-rate", lines(data, "base_angular_velocity"), "Angular velocity of the base, world axes."),
    ]
    if robot.n:
        figures.append(Figure("joints", lines(data, "joint_position"), "Joint positions."))
        figures.append(Figure("joint-rates", lines(data, "joint_velocity"), "Joint rates."))
    energies = [str(name) for name in data.data_vars if str(name).startswith("energy_")]
    if energies:
        figures.append(Figure("energy", lines(data, energies, y="energy"), "Where the energy is and where it went."))
    return figures
