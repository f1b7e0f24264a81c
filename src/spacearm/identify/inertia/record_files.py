"""Records from and to files: measured experiments with a column map and units.

A file has columns and no meaning. What was commanded stands in signals (paths of joints, levels of thrusters), where
the sensors sit and how noisy they are in their descriptions, and which columns are which channel in a map. Levels of
thrusters that stand in columns hold from row to row. Which channels and units fit follows from the robot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from spacearm.checks import check_name
from spacearm.errors import InputError, error_context
from spacearm.identify.inertia._modal_motion import driven_indices
from spacearm.identify.inertia.readings import BASE_CHANNELS, MotionRecord, moving_parts
from spacearm.measure import Record, files
from spacearm.measure.channels import CHANNELS
from spacearm.measure.files import Column
from spacearm.measure.sensors import numbers_by_channel, shared_mount
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.files import write_atomically
from spacearm.simulate import Signal
from spacearm.typing import Array


def standard_columns(robot: Robot, channels: Sequence[str]) -> dict[str, Column]:
    """The columns that :func:`write_record` writes: SI units, ``rate.x``, ``joint_rate.joint1``, ...; none of modes,
    nor of what does not move."""
    found = {}
    for name in channels:
        moving = moving_parts(robot.base, name)
        if name in BASE_CHANNELS and not moving:
            continue
        if name == "attitude":
            found[name] = Column(tuple(f"attitude.{c}" for c in "wxyz"))
        elif name in BASE_CHANNELS:
            found[name] = Column(tuple(f"{name}.{'xyz'[i]}" for i in moving), CHANNELS[name].unit)
        else:
            found[name] = Column(tuple(f"{name}.{robot.joint_names[i]}" for i in driven_indices(robot)))
    return found


def read_record(
    path: str | Path,
    robot: Robot,
    sensors: Sequence[Sensor],
    columns: Mapping[str, Column] | None = None,
    *,
    commands: Mapping[str, Signal] | None = None,
    levels: Mapping[str, Column] | None = None,
    time: Column | str = "time",
    missing: Literal["reject", "drop", "keep"] = "reject",
    gaps: Literal["reject", "keep"] = "reject",
    estimate_noise: bool = False,
    name: str = "",
) -> Record:
    """A measured experiment, its channels and units checked against the robot.

    Args:
        sensors: where they sit and how noisy they are.
        columns: channel to columns; those of :func:`standard_columns` for the sensors' channels when not given.
        commands: paths of joints, levels of thrusters; their time begins at the file's first sample.
        levels: thruster to the column of its level (0 to 1), which holds until the next row; beside ``commands``.
        estimate_noise: the noise of channels for which the sensors state none is not known, and not zero.
        name: of the record; the file's if omitted.

    Raises:
        InputError: with file and place, for anything that does not fit.
    """
    path = Path(path)
    chosen = standard_columns(robot, [sensor.channel for sensor in sensors]) if columns is None else dict(columns)
    wanted = _select_columns(path, robot, chosen, levels or {})
    data = files.read_record(path, wanted, time=time, missing=missing, gaps=gaps, name=name)
    noise, spread = numbers_by_channel(sensors, "noise"), numbers_by_channel(sensors, "spread")
    mount = shared_mount(sensors)
    channels = {
        key: replace(
            channel,
            sigma=noise.get(key, np.nan if estimate_noise else 0.0),
            spread=spread.get(key, 0.0),
            mount=(float(mount[0]), float(mount[1]), float(mount[2])),
        )
        for key, channel in data.channels.items()
        if key in chosen
    }
    given = {key: signal.shift(float(data.times[0])) for key, signal in (commands or {}).items()}
    for thruster in levels or {}:
        with error_context(f"levels.{thruster}", file=path):
            # A row without a level: the thruster is taken as off, since a command that was not recorded cannot be
            # assumed.
            level = _hold(data.times, np.nan_to_num(data[f"level.{thruster}"]))
            given[thruster] = given[thruster] + level if thruster in given else level
    return replace(data, channels=channels, commands=given)


def _hold(times: Array, levels: Array) -> Signal:
    """Levels (T,) that hold from sample to sample."""
    if np.any(levels < 0.0) or np.any(levels > 1.0 + 1e-9):
        raise InputError("is outside 0 to 1", hint="expected levels of a thruster")
    # Only where the level changes: each break becomes a phase of the simulation.
    starts = np.append(0, 1 + np.flatnonzero(np.diff(levels)))
    # One second more than the record: what is asked for at its last instant is then inside, rounding or not.
    return Signal(np.append(times[starts], times[-1] + 1.0), levels[starts][None])


def _select_columns(
    path: Path, robot: Robot, chosen: Mapping[str, Column], levels: Mapping[str, Column]
) -> dict[str, Column | str]:
    """Columns to read, with the units that they must have."""
    wanted: dict[str, Column | str] = {}
    for name, column in chosen.items():
        with error_context("columns", file=path):
            check_name(name, CHANNELS, "channel")
        size, count = CHANNELS[name].size or len(driven_indices(robot)), len(column.names)
        allowed = (4, 3) if name == "attitude" else (size,)
        if name in BASE_CHANNELS and not robot.base.is_free and (moving := len(moving_parts(robot.base, name))):
            allowed = (*allowed, moving)
        if count not in allowed:
            hint = f"expected {allowed[0]}"
            if allowed[-1] < 3:
                hint += f", or the {allowed[-1]} that the {robot.base.kind} base leaves"
            elif robot.base.is_free and name in BASE_CHANNELS and count < 3:
                hint += '; on a table base = "planar", on a rail base = "rail"'
            elif name in BASE_CHANNELS and not moving_parts(robot.base, name):
                hint += f", or none: the {robot.base.kind} base does not turn"
            raise InputError(f"{name!r} has {count} columns", file=path, place="columns", hint=hint)
        expects = [_expected_unit(robot, name, k, column) for k in range(count)]
        wanted[name] = replace(column, name=column.names, expects=expects)
    for name, column in levels.items():
        if len(column.names) != 1:
            raise InputError(f"{name!r} has {len(column.names)} columns", file=path, place="levels", hint="expected 1")
        wanted[f"level.{name}"] = replace(column, name=column.names[0], unwrap=False)
    return wanted


def _expected_unit(robot: Robot, name: str, k: int, channel: Column) -> str:
    """SI unit of a column; quaternions have none, joints that slide have metres."""
    if name == "attitude":
        return "" if len(channel.names) == 4 else "rad"
    unit = CHANNELS[name].unit
    if not channel.unit:
        return ""  # taken as SI
    if CHANNELS[name].size is None and robot.joints[driven_indices(robot)[k]].kind == "prismatic":
        return {"rad": "m", "rad/s": "m/s", "rad/s2": "m/s2", "N m": "N"}[unit]
    return unit


def write_record(record: MotionRecord, robot: Robot, path: str | Path) -> Path:
    """A record as CSV in SI units with the standard column names."""
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise InputError(f"a file ending in {path.suffix!r} is not written", file=path, hint="expected .csv")
    columns = standard_columns(robot, tuple(record.readings))
    names = ["time", *(name for channel in columns.values() for name in channel.names)]
    driven = driven_indices(robot)
    read = {name: record.readings[name] for name in columns}
    read |= {name: values[:, driven] for name, values in read.items() if CHANNELS[name].size is None}
    read |= {
        name: values[:, record.moving_parts(name)]
        for name, values in read.items()
        if values.shape[1] == 3 and name in BASE_CHANNELS
    }
    table = np.column_stack([record.times, *read.values()])
    rows = [",".join(names), *(",".join(f"{value:.17g}" for value in row) for row in table)]
    write_atomically(path, "\n".join(rows) + "\n")
    return path
