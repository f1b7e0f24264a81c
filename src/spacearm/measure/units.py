"""Spellings of units, and their factors to SI; degrees where radians are meant."""

from __future__ import annotations

import math

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.typing import Array

_DEG, _REV = math.pi / 180.0, 2.0 * math.pi
_G0 = 9.80665  # m/s2, standard gravity, the unit of many accelerometers

#: SI unit to the units that are written for it, with their factors: value in SI = factor * value as written.
_FACTORS: dict[str, dict[str, float]] = {
    "": {"": 1.0, "1": 1.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "km": 1e3, "in": 0.0254},
    "rad": {
        "rad": 1.0,
        "mrad": 1e-3,
        "urad": 1e-6,
        "deg": _DEG,
        "arcmin": _DEG / 60,
        "arcsec": _DEG / 3600,
        "rev": _REV,
    },
    "m/s": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3, "km/h": 1.0 / 3.6},
    "rad/s": {"rad/s": 1.0, "mrad/s": 1e-3, "deg/s": _DEG, "deg/h": _DEG / 3600.0, "rpm": _REV / 60.0},
    "m/s2": {"m/s2": 1.0, "mm/s2": 1e-3, "g0": _G0, "mg0": 1e-3 * _G0, "ug0": 1e-6 * _G0},
    "rad/s2": {"rad/s2": 1.0, "deg/s2": _DEG},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "N m": {"N m": 1.0, "Nm": 1.0, "mN m": 1e-3, "mNm": 1e-3},
    "A": {"A": 1.0},
    "V": {"V": 1.0},
    "kg": {"kg": 1.0, "g": 1e-3},
    "K": {"K": 1.0},
}
#: Words and spellings of files that state their units themselves.
_WORDS = {
    **dict.fromkeys(("second", "seconds", "sec"), "s"),
    **dict.fromkeys(("millisecond", "milliseconds", "msec"), "ms"),
    **dict.fromkeys(("microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("minute", "minutes"), "min"),
    **dict.fromkeys(("hour", "hours"), "h"),
    **dict.fromkeys(("metre", "metres", "meter", "meters"), "m"),
    **dict.fromkeys(("radian", "radians"), "rad"),
    **dict.fromkeys(("degree", "degrees"), "deg"),
    **{f"{unit} s-1": f"{unit}/s" for unit in ("m", "cm", "mm", "rad", "mrad", "deg")},
    **{f"{unit} s-2": f"{unit}/s2" for unit in ("m", "mm", "rad", "deg")},
    **dict.fromkeys(("newton", "newtons"), "N"),
}
#: Unit to (factor, SI unit).
UNITS = {unit: (factor, si) for si, known in _FACTORS.items() for unit, factor in known.items()}


def to_si(unit: str, place: str = "") -> tuple[float, str]:
    """Factor to SI and the SI unit of ``unit``; an unknown one is an error that names the nearest."""
    # Common typographic spellings; words of file formats follow.
    plain = unit.strip().replace("°", "deg").replace("²", "2").replace("^2", "2").replace("µ", "u").replace("·", " ")
    plain = _WORDS.get(plain, plain)
    if plain not in UNITS:
        raise InputError(f"unit {unit!r} is not known", place=place, hint=did_you_mean(plain, UNITS))
    return UNITS[plain]


#: Degrees in a radian, and how near a factor must be to it, as a share.
DEGREES, NEAR = 180.0 / np.pi, 0.1


def ask_about_degrees(changes: Array, expected: Array, names: tuple[str, str], place: str) -> None:
    """Reject ``changes`` that are 57 times the ``expected`` ones, or the 57th part; NaN is ignored.

    ``names``: of both, for the question.
    """
    there = np.isfinite(changes) & np.isfinite(expected)
    a, b = changes[there], expected[there]
    both, own = float(a @ b), float(b @ b)
    if not own > 0.0 or both < 0.9 * np.sqrt(own * float(a @ a)):  # they do not move together: noise, or a wrong column
        return
    factor, (what, other) = both / own, names
    for size, question in ((factor, f"are the {what} in degrees?"), (1.0 / factor, f"are the {other} in degrees?")):
        if abs(size / DEGREES - 1.0) < NEAR:
            share = f"{factor:.3g} times" if factor > 1.0 else f"1 / {1.0 / factor:.3g} of"
            raise InputError(
                f"{what} are {share} the differences of the {other}: {question}",
                place=place,
                hint='expected both in radians, or their unit stated, such as unit = "deg"',
            )


#: Seconds since 1970 in the year 2000: no clock of a test rig that counts from its start is later.
EPOCH = 9.5e8


def ask_about_clock(low: float, high: float, duration: float) -> str:
    """A question about a clock from ``low`` to ``high`` (s) beside a run of this duration, empty if there is none."""
    if low > EPOCH:
        return "; does the clock count since 1970? then time = { column = ..., from_first = true }"
    for unit, factor in (("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if 0.05 < (high - low) / (factor * duration) < 50.0:
            return f"; are its times in {unit}? then time = {{ column = ..., unit = '{unit}' }}"
    return ""
