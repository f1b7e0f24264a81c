"""Blackbox logs as a flight controller writes them: a text header, then frames of variable-length numbers.

Of the format's many encodings two are used: signed and unsigned numbers of variable length, each frame complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

HEADER = """H Product:Blackbox flight data recorder by Nicholas Sherlock
H Data version:2
H I interval:1
H P interval:1/1
H Firmware type:Cleanflight
"""
END = b"E\xffEnd of log\x00"


def _unsigned(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _signed(value: int) -> bytes:
    return _unsigned(((value << 1) ^ (value >> 31)) & 0xFFFFFFFF)


def blackbox_bytes(columns: Mapping[str, npt.ArrayLike], *, end: bool = True) -> bytes:
    """A log of these columns of whole numbers, the first of which is ``time``, microseconds."""
    names = ["loopIteration", *columns]
    kinds = ["1" if name in ("loopIteration", "time") else "0" for name in names]
    text = HEADER
    for prop, values in (("name", names), ("signed", ["0"] * len(names)), ("predictor", ["0"] * len(names))):
        text += f"H Field I {prop}:{','.join(values)}\n"
    text += f"H Field I encoding:{','.join('1' if kind == '1' else '0' for kind in kinds)}\n"
    coders = [_unsigned if kind == "1" else _signed for kind in kinds]
    lists = [[int(value) for value in np.asarray(values)] for values in columns.values()]
    frames = b""
    for k, row in enumerate(zip(*lists, strict=True)):
        frames += b"I" + b"".join(code(value) for code, value in zip(coders, (k, *row), strict=True))
    return text.encode() + frames + (END if end else b"")


def write_blackbox(path: Path, columns: Mapping[str, npt.ArrayLike], *, end: bool = True) -> Path:
    """The same as a file."""
    path.write_bytes(blackbox_bytes(columns, end=end))
    return path
