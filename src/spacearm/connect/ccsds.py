"""Orbit and attitude ephemeris messages of CCSDS, as text of keys and values.

OEM version 2.0: Orbit Data Messages, CCSDS 502.0-B-2 (km, km/s). AEM version 1.0: Attitude Data Messages, CCSDS
504.0-B-1, quaternions. Their quaternion of a frame A to a frame B takes components from A to B; with its scalar part
it has the numbers of the quaternion of B's axes in A. So a body's quaternion (body to world) is written as it is from
the world to the body ("A2B").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from spacearm.connect.trajectory import Trajectory, check_word, parse_time
from spacearm.errors import InputError, error_context, quote_text
from spacearm.model.files import write_atomically
from spacearm.model.safexml import read_file
from spacearm.typing import Array

#: How far a quaternion of a file may be from unit length: files are rounded.
ROUNDED = 1e-3
_META_END = "META_STOP"
_OEM_KEYS = ("OBJECT_NAME", "OBJECT_ID", "CENTER_NAME", "REF_FRAME", "TIME_SYSTEM", "START_TIME", "STOP_TIME")


def write_oem(
    trajectories: Trajectory | Sequence[Trajectory], path: str | Path, *, originator: str = "SPACEARM"
) -> Path:
    """Write positions and velocities as an Orbit Ephemeris Message, a segment for each trajectory."""
    lines = _header("CCSDS_OEM_VERS = 2.0", originator)
    for each in _as_list(trajectories):
        if each.position is None or each.velocity is None:
            raise InputError("has no positions and velocities", place=f"trajectory {quote_text(each.name)}")
        lines += ["META_START", *_meta(each, CENTER_NAME=each.centre, REF_FRAME=each.frame), _META_END, ""]
        # The standard has km and km/s.
        rows = np.hstack([each.position, each.velocity]) / 1e3
        lines += [f"{stamp} {_decimals(row)}" for stamp, row in zip(each.stamps, rows, strict=True)]
        lines.append("")
    write_atomically(Path(path), "\n".join(lines))
    return Path(path)


def write_aem(
    trajectories: Trajectory | Sequence[Trajectory], path: str | Path, *, originator: str = "SPACEARM"
) -> Path:
    """Write attitudes as an Attitude Ephemeris Message, quaternions with the scalar last."""
    lines = _header("CCSDS_AEM_VERS = 1.0", originator)
    for each in _as_list(trajectories):
        if each.quaternion is None:
            raise InputError("has no attitudes", place=f"trajectory {quote_text(each.name)}")
        own = {
            "CENTER_NAME": each.centre,
            "REF_FRAME_A": each.frame,
            "REF_FRAME_B": each.body_frame,
            "ATTITUDE_DIR": "A2B",
        }
        kind = ["ATTITUDE_TYPE = QUATERNION", "QUATERNION_TYPE = LAST"]
        lines += ["META_START", *_meta(each, **own), *kind, _META_END, "", "DATA_START"]
        # Scalar last here, first in spacearm.
        rows = each.quaternion[:, [1, 2, 3, 0]]
        lines += [f"{stamp} {_decimals(row)}" for stamp, row in zip(each.stamps, rows, strict=True)]
        lines += ["DATA_STOP", ""]
    write_atomically(Path(path), "\n".join(lines))
    return Path(path)


def _as_list(trajectories: Trajectory | Sequence[Trajectory]) -> list[Trajectory]:
    found = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
    if not found:
        raise InputError("there is no trajectory to write", place="CCSDS")
    return found


def _header(version: str, originator: str) -> list[str]:
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return [version, f"CREATION_DATE = {created}", f"ORIGINATOR = {check_word(originator, 'originator', 'CCSDS')}", ""]


def _meta(each: Trajectory, **own: str) -> list[str]:
    named = {"OBJECT_NAME": each.name, "OBJECT_ID": each.identity or each.name, **own, "TIME_SYSTEM": each.time_system}
    named |= {"START_TIME": each.stamps[0], "STOP_TIME": each.stamps[-1]}
    return [f"{key} = {value}" for key, value in named.items()]


def _decimals(row: Array) -> str:
    # The standard allows 16 significant digits; a double would need 17 to come back bit by bit.
    return " ".join(f"{value:.16g}" for value in row.tolist())


def read_oem(path: str | Path) -> list[Trajectory]:
    """The segments of an Orbit Ephemeris Message (version 1 or 2); covariances and accelerations are left out."""
    found = []
    with error_context(file=path):
        for meta, rows in _segments(path, "CCSDS_OEM_VERS", _OEM_KEYS):
            made, values = _segment(meta, rows, (6, 9))
            kept, frame, centre = values * 1e3, meta["REF_FRAME"], meta["CENTER_NAME"]
            found.append(replace(made, position=kept[:, :3], velocity=kept[:, 3:], frame=frame, centre=centre))
    return found


def read_aem(path: str | Path) -> list[Trajectory]:
    """The segments of an Attitude Ephemeris Message with quaternions (version 1), in either direction and order."""
    found = []
    needed = ("OBJECT_NAME", "OBJECT_ID", "REF_FRAME_A", "REF_FRAME_B", "ATTITUDE_DIR", "TIME_SYSTEM", "ATTITUDE_TYPE")
    with error_context(file=path):
        for meta, rows in _segments(path, "CCSDS_AEM_VERS", needed):
            if meta["ATTITUDE_TYPE"] not in ("QUATERNION", "QUATERNION/RATE", "QUATERNION/DERIVATIVE"):
                raise InputError(f"ATTITUDE_TYPE is {quote_text(meta['ATTITUDE_TYPE'])}", hint="expected QUATERNION")
            made, values = _segment(meta, rows, (4, 7, 8))
            order, direction = meta.get("QUATERNION_TYPE", "LAST"), meta["ATTITUDE_DIR"]
            if order not in ("FIRST", "LAST") or direction not in ("A2B", "B2A"):
                raise InputError(
                    f"{quote_text(order)} or {quote_text(direction)}", hint="expected FIRST or LAST, A2B or B2A"
                )
            quaternion = values[:, :4] if order == "FIRST" else values[:, [3, 0, 1, 2]]
            length = np.linalg.norm(quaternion, axis=1, keepdims=True)
            if np.any(np.abs(length - 1.0) > ROUNDED):
                raise InputError("a quaternion is not of unit length", place=f"data from line {rows[0][0]}")
            # By custom the frame that is called SC_BODY or the like is the body, the other one the reference.
            frames = [meta["REF_FRAME_A"], meta["REF_FRAME_B"]]
            body_first = frames[0].startswith("SC_") and not frames[1].startswith("SC_")
            if body_first == (direction == "A2B"):
                quaternion = quaternion * [1.0, -1.0, -1.0, -1.0]
            frame, body = reversed(frames) if body_first else frames
            centre = meta.get("CENTER_NAME", "EARTH")
            # Numbers in files are rounded: the length is checked above and made exact here.
            found.append(replace(made, quaternion=quaternion / length, frame=frame, body_frame=body, centre=centre))
    return found


def _segment(meta: dict[str, str], rows: list[tuple[int, str]], sizes: tuple[int, ...]) -> tuple[Trajectory, Array]:
    """Names and times of a segment, and the first ``sizes[0]`` numbers of each line: accelerations and rates follow."""
    stamps, values = [], []
    for number, row in rows:
        parts = row.split()
        with error_context(f"line {number}"):
            if len(parts) - 1 not in sizes:
                raise InputError(f"{len(parts) - 1} numbers after the time", hint=f"expected {sizes[0]}")
            stamps.append(parse_time(parts[0]))
            try:
                values.append([float(part) for part in parts[1 : 1 + sizes[0]]])
            except ValueError as error:
                raise InputError(f"{quote_text(row)} holds something else", hint="expected numbers") from error
            if not np.all(np.isfinite(values[-1])):
                raise InputError("a number is not finite")
    # The difference is taken in whole nanoseconds first: seconds since 1970 as doubles would be rounded to 0.2 us.
    times = (np.array(stamps) - stamps[0]) / np.timedelta64(1, "ns") / 1e9
    with error_context(f"data from line {rows[0][0]}"):
        system, identity = meta["TIME_SYSTEM"], meta["OBJECT_ID"]
        made = Trajectory(meta["OBJECT_NAME"], times, str(stamps[0]), time_system=system, identity=identity)
        return made, np.array(values)


def _segments(
    path: str | Path, version: str, needed: Sequence[str]
) -> Iterator[tuple[dict[str, str], list[tuple[int, str]]]]:
    """Metadata and lines of data, with their numbers, of each segment."""
    try:
        lines = [line.strip() for line in read_file(path).decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError("is not text", hint="expected a CCSDS message of keys and values") from error
    if not any(line.replace(" ", "").startswith(f"{version}=") for line in lines[:20]):
        raise InputError(f"does not begin with {version}", hint="expected a CCSDS message of keys and values, not XML")
    at, count = 0, 0
    while at < len(lines):
        if lines[at] != "META_START":
            at += 1
            continue
        count += 1
        meta: dict[str, str] = {}
        data: list[tuple[int, str]] = []
        at += 1
        while at < len(lines) and lines[at] != _META_END:
            key, equals, value = lines[at].partition("=")
            if equals:
                meta[key.strip()] = value.strip()
            at += 1
        at += 1
        skipped = False  # within a block of covariances
        while at < len(lines) and lines[at] != "META_START":
            line = lines[at]
            at += 1
            skipped = (skipped or line == "COVARIANCE_START") and line != "COVARIANCE_STOP"
            if not skipped and line and not line.startswith(("COMMENT", "COVARIANCE_STOP", "DATA_ST")):
                data.append((at, line))
        # The standard demands times in the metadata; they follow from the data, and many files lack them.
        missing = [key for key in needed if not meta.get(key) and key not in ("START_TIME", "STOP_TIME")]
        if missing:
            raise InputError(f"{', '.join(missing)} missing", place=f"metadata of segment {count}")
        if not data:
            raise InputError("has no data", place=f"segment {count}")
        yield meta, data
    if not count:
        raise InputError("has no segment", hint="expected META_START")
