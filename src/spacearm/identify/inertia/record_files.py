"""Records from and to files: measured experiments with a column map and units.

A file has columns and no meaning. What was done stands in an :class:`.Experiment` (joints that moved, thrusters that
fired), where the sensors sit and how noisy they are in their descriptions, and which columns are which channel in a
map. A file's first sample is the experiment's time zero. Levels of thrusters that stand in columns hold from row to
row. Noise that no sensor states comes from the scatter of the readings
(:func:`spacearm.measure.clean.noise_from_scatter`), with its sampling error, which later tests count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from spacearm.checks import check_name
from spacearm.errors import InputError, error_context
from spacearm.identify.inertia.encoders import detect_moving_joints
from spacearm.identify.inertia.experiment import Experiment, wrench_of
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.measure import files
from spacearm.measure.attitude import to_quaternions
from spacearm.measure.channels import CHANNELS, TYPICAL_NOISE
from spacearm.measure.clean import noise_from_scatter
from spacearm.measure.files import Column
from spacearm.measure.sensors import numbers_by_channel
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.files import write_atomically
from spacearm.typing import Array


def standard_columns(robot: Robot, channels: Sequence[str]) -> dict[str, Column]:
    """The columns that :func:`write_record` writes: SI units, ``rate.x``, ``joint_rate.joint1``, ..."""
    found = {}
    for name in channels:
        if name == "attitude":
            found[name] = Column(tuple(f"attitude.{c}" for c in "wxyz"))
        elif CHANNELS[name].size == 3:
            found[name] = Column(tuple(f"{name}.{c}" for c in "xyz"), CHANNELS[name].unit)
        else:
            found[name] = Column(tuple(f"{name}.{joint}" for joint in robot.joint_names))
    return found


def read_record(
    path: str | Path,
    robot: Robot,
    experiment: Experiment,
    sensors: Sequence[Sensor],
    columns: Mapping[str, Column] | None = None,
    *,
    time: Column | str = "time",
    missing: Literal["reject", "drop", "keep"] = "reject",
    gaps: Literal["reject", "keep"] = "reject",
    levels: Mapping[str, Column] | None = None,
    estimate_noise: bool = False,
) -> MotionRecord:
    """A measured experiment.

    Args:
        experiment: what was done: which joints moved, which thrusters fired when. Its time begins at the file's
            first sample.
        sensors: where they sit and how noisy they are.
        columns: channel to columns; those of :func:`standard_columns` for the sensors' channels when not given.
        levels: thruster to the column of its level (0 to 1), which holds until the next row; beside those that fire
            in the experiment.
        estimate_noise: take the noise of channels for which the sensors state none from the scatter of the readings.

    Raises:
        InputError: with file and place, for anything that does not fit.
    """
    path = Path(path)
    chosen = standard_columns(robot, [sensor.channel for sensor in sensors]) if columns is None else dict(columns)
    wanted = _select_columns(path, robot, chosen, levels or {})
    data = files.read_record(path, wanted, time=time, missing=missing, gaps=gaps)
    readings = {name: data[name] for name in chosen}
    if "attitude" in readings:
        readings["attitude"] = to_quaternions(readings["attitude"], str(path))
    times = data.times
    record = experiment.record(robot, sensors, times - times[0], readings)
    record = _add_thrusters(record, robot, {name: data[f"level.{name}"] for name in levels or {}})
    if estimate_noise:
        known_noise = numbers_by_channel(sensors, "noise")
        record = set_noise(record, [name for name in readings if name not in known_noise])
    return set_moving(record) if "joint_position" in readings else record


def set_noise(record: MotionRecord, channels: Sequence[str]) -> MotionRecord:
    """With the noise of these channels from the scatter of their readings, over all components together."""
    sigma, doubt, unresolved = dict(record.sigma), {}, []
    for name in channels:
        # a turn moves a quaternion by half its angle, along three of four directions
        turn = name == "attitude"
        found = noise_from_scatter(record.times, record.readings[name], 3 if turn else 0, record.edges)
        sigma[name] = float(np.sqrt(found.variance)) * (2.0 if turn else 1.0) or TYPICAL_NOISE[name]
        doubt[name] = float(np.sqrt(2.0 / found.independent)) if found.independent else 0.0
        unresolved += [] if found.resolved else [name]
    return replace(record, sigma=sigma, estimated=doubt, unresolved=tuple(unresolved))


def _select_columns(
    path: Path, robot: Robot, chosen: Mapping[str, Column], levels: Mapping[str, Column]
) -> dict[str, Column | str]:
    """Columns to read, with the units that they must have."""
    wanted: dict[str, Column | str] = {}
    for name, column in chosen.items():
        with error_context("columns", file=path):
            check_name(name, CHANNELS, "channel")
        size, count = CHANNELS[name].size or robot.n, len(column.names)
        allowed = (4, 3) if name == "attitude" else (size,)
        if count not in allowed:
            raise InputError(f"{name!r} has {count} columns", file=path, place="columns", hint=f"expected {allowed[0]}")
        expects = [_expected_unit(robot, name, k, column) for k in range(count)]
        wanted[name] = replace(column, name=column.names, expects=expects)
    for name, column in levels.items():
        if len(column.names) != 1:
            raise InputError(f"{name!r} has {len(column.names)} columns", file=path, place="levels", hint="expected 1")
        wanted[f"level.{name}"] = replace(column, name=column.names[0], unwrap=False)
    return wanted


def set_moving(record: MotionRecord) -> MotionRecord:
    """Readings tell which joints move: one without a planned path is not taken as locked."""
    seen = detect_moving_joints(record.readings["joint_position"], record.sigma["joint_position"])
    moving = tuple(plan or move for plan, move in zip(record.moving, seen, strict=True))
    commanded = record.joint_acceleration if moving == record.moving else None
    return replace(record, moving=moving, joint_acceleration=commanded)


def _add_thrusters(record: MotionRecord, robot: Robot, levels: Mapping[str, Array]) -> MotionRecord:
    """With thrusters whose levels (T,) hold from sample to sample."""
    parts, edges = dict(record.thrusters), set(record.edges)
    for name, level in levels.items():
        full, steady = wrench_of(robot, name), np.nan_to_num(level)
        if np.any(steady < 0.0) or np.any(steady > 1.0 + 1e-9):
            raise InputError(f"the level of {name!r} leaves 0 to 1", place=record.place)
        parts[name] = parts.get(name, 0.0) + steady[:, None] * full
        edges |= {float(t) for t in record.times[1:][np.diff(steady) != 0.0]}
    total = np.sum(list(parts.values()), axis=0) if parts else record.wrench
    return replace(record, thrusters=parts, wrench=total, edges=tuple(sorted(edges)))


def _expected_unit(robot: Robot, name: str, k: int, channel: Column) -> str:
    """SI unit of a column; quaternions have none, joints that slide have metres."""
    if name == "attitude":
        return "rad" if len(channel.names) == 3 else ""
    unit = CHANNELS[name].unit
    if not channel.unit:
        return ""  # taken as SI
    if CHANNELS[name].size is None and robot.joints[k].kind == "prismatic":
        return {"rad": "m", "rad/s": "m/s", "rad/s2": "m/s2", "N m": "N"}[unit]
    return unit


def write_record(record: MotionRecord, robot: Robot, path: str | Path) -> Path:
    """A record as CSV in SI units with the standard column names."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise InputError(f"a file ending in {path.suffix!r} is not written", file=path, hint="expected .csv")
    columns = standard_columns(robot, tuple(record.readings))
    names = ["time", *(name for channel in columns.values() for name in channel.names)]
    table = np.column_stack([record.times, *(record.readings[name] for name in columns)])
    rows = [",".join(names), *(",".join(f"{value:.17g}" for value in row) for row in table)]
    write_atomically(path, "\n".join(rows) + "\n")
    return path
