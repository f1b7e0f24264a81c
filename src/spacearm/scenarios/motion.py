"""A plain run in time from a scenario file: phases, loads, thrusters, driven joints, events."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.figures import lines
from spacearm.model import Robot
from spacearm.model.document import find_robot, validated
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.result import Check, Figure, Result, Row
from spacearm.scenarios.motion_schema import (
    CrossingTable,
    LoadTable,
    MethodTable,
    MotionFile,
    PhaseTable,
    SignalTable,
    SignalValue,
    StartTable,
    ThrusterTable,
)
from spacearm.simulate import (
    RK4,
    Adaptive,
    Crossing,
    Load,
    Phase,
    Run,
    Signal,
    State,
    constant,
    firing,
    half_sine,
    pulse,
    simulate,
    spline,
    table,
    triangle,
)
from spacearm.simulate.crosscheck import cross_check as check_in_mujoco
from spacearm.simulate.methods import Method

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
    with _at("robot"):
        robot = find_robot(file.robot, folder)
    with _at("start"):
        start = start_state(robot, file.start)
    phases = []
    for index, entry in enumerate(file.phase):
        with _at(f"phase[{index}]"):
            phases.append(phase_of(robot, entry))
    with _at("method"):
        method = method_of(file.method)
    tell(0.1, "compiling and running")
    done = simulate(robot, start, phases, method=method, sample=file.sample, tolerance=file.tolerance)
    certificate: dict[str, Any] = {"sound": done.ok}
    if done.certificate is not None:
        certificate |= {c.name: Check(c.value, c.tolerance, "", c.meaning) for c in done.certificate.checks}
    rows = _rows(robot, done)
    if cross_check:
        tell(0.6, "cross-checking with MuJoCo")
        found = check_in_mujoco(done, start, phases)
        note = str(found)
        if found.expressed:
            certificate["cross_check"] = Check(found.largest, CROSS_CHECK_TOLERANCE, "", note)
        rows.append(Row("cross_check.largest", found.largest if found.expressed else None, note=note))
    tell(0.9, "drawing")
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
        f"{robot!r}: {len(phases)} phases, {done.end_time:g} s. {done.reason.text.capitalize()}.",
    )


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Gives errors their place in the scenario file."""
    try:
        yield
    except InputError as error:
        if error.file is None:
            error.place = f"{place}: {error.place}" if error.place else place
        raise


def _choice(place: str, **given: Any) -> tuple[str, Any] | None:
    """The one alternative that is given, or None; two are an error."""
    chosen = [(name, value) for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"both {chosen[0][0]!r} and {chosen[1][0]!r} are given", place=place, hint="expected one")
    return chosen[0] if chosen else None


def _angles(place: str, **given: Any) -> Any:
    """Values of the one key that is given, in rad when its name ends in ``_deg``."""
    chosen = _choice(place, **given)
    if chosen is None:
        return None
    return np.radians(chosen[1]) if chosen[0].endswith("_deg") else np.asarray(chosen[1], dtype=np.float64)


def start_state(robot: Robot, entry: StartTable) -> State:
    """State at time zero."""
    joints = _choice("", posture=entry.posture, joints=entry.joints, joints_deg=entry.joints_deg)
    angles: Any = None
    if joints is not None:
        angles = joints[1] if joints[0] == "posture" else np.asarray(joints[1], dtype=np.float64)
        if joints[0] == "joints_deg":
            _need_revolute(robot, "joints_deg", "joints")
            angles = np.radians(angles)
    if entry.rates_deg is not None:
        _need_revolute(robot, "rates_deg", "rates")
    attitude = _choice("", quaternion=entry.quaternion, rpy_deg=entry.rpy_deg)
    quaternion: Any = (1.0, 0.0, 0.0, 0.0)
    if attitude is not None:
        quaternion = attitude[1]
        if attitude[0] == "rpy_deg":
            quaternion = quaternion_from_rotation(rotation_from_rpy(np.radians(attitude[1])))
    turning = _angles("", angular_velocity=entry.angular_velocity, angular_velocity_deg=entry.angular_velocity_deg)
    return State.moving(
        robot,
        angles,
        _angles("", rates=entry.rates, rates_deg=entry.rates_deg),
        position=entry.position,
        quaternion=quaternion,
        base_velocity=entry.velocity,
        base_angular_velocity=(0.0, 0.0, 0.0) if turning is None else turning,
    )


def _need_revolute(robot: Robot, key: str, instead: str) -> None:
    sliding = [joint.name for joint in robot.joints if joint.kind == "prismatic"]
    if sliding:
        raise InputError(f"joint {sliding[0]!r} slides, it has no degrees", place=key, hint=f"give {instead!r} in SI")


def method_of(entry: MethodTable) -> Method:
    if entry.kind == "rk4":
        if entry.step is None:
            raise InputError("'step' is missing", hint="expected seconds")
        return RK4(entry.step)
    return Adaptive(entry.rtol, entry.atol, math.inf if entry.max_step is None else entry.max_step)


def signal_of(entry: SignalValue, place: str) -> Signal:
    """A number or a table as a function of time."""
    if not isinstance(entry, SignalTable):
        return constant(entry)
    if entry.kind in ("table", "spline"):
        values = _angles(place, values=entry.values, values_deg=entry.values_deg)
        if values is None or entry.times is None:
            raise InputError(f"a {entry.kind} needs 'times' and 'values'", place=place)
        with _at(place):
            return table(entry.times, values) if entry.kind == "table" else spline(entry.times, values, entry.ends)
    value = _angles(place, value=entry.value, value_deg=entry.value_deg)
    if value is None:
        raise InputError("'value' is missing", place=place)
    if entry.kind == "constant":
        return constant(float(value))
    if entry.start is None or entry.width is None:
        raise InputError(f"a {entry.kind} needs 'start' and 'width' in seconds", place=place)
    shape = {"pulse": pulse, "triangle": triangle, "half-sine": half_sine}[entry.kind]
    with _at(place):
        return shape(float(value), entry.start, entry.width)


def phase_of(robot: Robot, entry: PhaseTable) -> Phase:
    def signals(what: str, given: dict[str, Any]) -> dict[str, Signal]:
        return {name: signal_of(value, f"{what}.{name}") for name, value in given.items()}

    loads = [_load(robot, item, f"load[{k}]") for k, item in enumerate(entry.load)]
    loads += [_firing(robot, item, f"thruster[{k}]") for k, item in enumerate(entry.thruster)]
    return Phase(
        entry.duration,
        until=[_crossing(item, f"until[{k}]") for k, item in enumerate(entry.until)],
        events=[_crossing(item, f"record[{k}]") for k, item in enumerate(entry.record)],
        locked=entry.locked,
        driven=signals("driven", dict(entry.driven)),
        accelerations=signals("accelerations", entry.accelerations),
        forces=signals("forces", entry.forces),
        loads=loads,
        friction=entry.friction,
        limits=entry.limits,
        name=entry.name,
    )


def _load(robot: Robot, entry: LoadTable, place: str) -> Load:
    chosen = _choice(place, force=entry.force, moment=entry.moment)
    if chosen is None:
        raise InputError("neither 'force' nor 'moment' is given", place=place)
    with _at(place):
        robot.frame(entry.frame)
        size = signal_of(chosen[1], chosen[0])
        return Load.along(entry.frame, entry.direction, size, axes=entry.axes, moment=chosen[0] == "moment")


def _firing(robot: Robot, entry: ThrusterTable, place: str) -> Load:
    chosen = _choice(place, on=entry.on, level=entry.level)
    with _at(place):
        if chosen is None:
            return firing(robot, entry.name)
        if chosen[0] == "level":
            return firing(robot, entry.name, signal_of(chosen[1], "level"))
        total = constant(0.0)
        for begin, end in chosen[1]:
            if end <= begin:
                raise InputError(f"fires from {begin:g} s to {end:g} s", place="on", hint="expected [start, end]")
            total = total + pulse(1.0, begin, end - begin)
        return firing(robot, entry.name, total)


def _crossing(entry: CrossingTable, place: str) -> Crossing:
    value = _angles(place, value=entry.value, value_deg=entry.value_deg)
    with _at(place):
        return Crossing(entry.quantity, 0.0 if value is None else float(value), entry.direction)


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
