"""Units of measured columns: a factor to SI and the SI unit that results."""

from __future__ import annotations

import math

from spacearm.errors import InputError, did_you_mean

_DEG = math.pi / 180.0
_G0 = 9.80665  # m/s2, standard gravity, the unit of many accelerometers

#: Unit to (factor, SI unit): value in SI = factor * value as written.
UNITS: dict[str, tuple[float, str]] = {
    "": (1.0, ""),
    "1": (1.0, ""),
    "s": (1.0, "s"),
    "ms": (1e-3, "s"),
    "us": (1e-6, "s"),
    "ns": (1e-9, "s"),
    "min": (60.0, "s"),
    "h": (3600.0, "s"),
    "m": (1.0, "m"),
    "cm": (1e-2, "m"),
    "mm": (1e-3, "m"),
    "um": (1e-6, "m"),
    "km": (1e3, "m"),
    "in": (0.0254, "m"),
    "rad": (1.0, "rad"),
    "mrad": (1e-3, "rad"),
    "urad": (1e-6, "rad"),
    "deg": (_DEG, "rad"),
    "arcmin": (_DEG / 60.0, "rad"),
    "arcsec": (_DEG / 3600.0, "rad"),
    "rev": (2.0 * math.pi, "rad"),
    "m/s": (1.0, "m/s"),
    "cm/s": (1e-2, "m/s"),
    "mm/s": (1e-3, "m/s"),
    "km/h": (1.0 / 3.6, "m/s"),
    "rad/s": (1.0, "rad/s"),
    "mrad/s": (1e-3, "rad/s"),
    "deg/s": (_DEG, "rad/s"),
    "deg/h": (_DEG / 3600.0, "rad/s"),
    "rpm": (2.0 * math.pi / 60.0, "rad/s"),
    "m/s2": (1.0, "m/s2"),
    "mm/s2": (1e-3, "m/s2"),
    "g0": (_G0, "m/s2"),
    "mg0": (1e-3 * _G0, "m/s2"),
    "ug0": (1e-6 * _G0, "m/s2"),
    "rad/s2": (1.0, "rad/s2"),
    "deg/s2": (_DEG, "rad/s2"),
    "N": (1.0, "N"),
    "mN": (1e-3, "N"),
    "kN": (1e3, "N"),
    "N m": (1.0, "N m"),
    "Nm": (1.0, "N m"),
    "mN m": (1e-3, "N m"),
    "mNm": (1e-3, "N m"),
    "A": (1.0, "A"),
    "V": (1.0, "V"),
    "kg": (1.0, "kg"),
    "g": (1e-3, "kg"),
    "K": (1.0, "K"),
}


def to_si(unit: str, place: str = "") -> tuple[float, str]:
    """Factor to SI and the SI unit of ``unit``; an unknown one is an error that names the nearest."""
    plain = unit.strip().replace("°", "deg").replace("²", "2").replace("^2", "2").replace("µ", "u").replace("·", " ")
    if plain not in UNITS:
        raise InputError(f"unit {unit!r} is not known", place=place, hint=did_you_mean(plain, UNITS))
    return UNITS[plain]
