"""Units of measured columns: a factor to SI and the SI unit that results."""

from __future__ import annotations

import math

from spacearm.errors import InputError, did_you_mean

_DEG = math.pi / 180.0
_G0 = 9.80665  # m/s2, standard gravity, the unit of many accelerometers

#: SI unit to the units that are written for it, with their factors: value in SI = factor * value as written.
_FACTORS: dict[str, dict[str, float]] = {
    "": {"": 1.0, "1": 1.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0},
    "m": {"m": 1.0, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "km": 1e3, "in": 0.0254},
    "rad": {"rad": 1.0, "mrad": 1e-3, "urad": 1e-6, "deg": _DEG, "arcmin": _DEG / 60.0, "arcsec": _DEG / 3600.0}
    | {"rev": 2.0 * math.pi},
    "m/s": {"m/s": 1.0, "cm/s": 1e-2, "mm/s": 1e-3, "km/h": 1.0 / 3.6},
    "rad/s": {"rad/s": 1.0, "mrad/s": 1e-3, "deg/s": _DEG, "deg/h": _DEG / 3600.0, "rpm": 2.0 * math.pi / 60.0},
    "m/s2": {"m/s2": 1.0, "mm/s2": 1e-3, "g0": _G0, "mg0": 1e-3 * _G0, "ug0": 1e-6 * _G0},
    "rad/s2": {"rad/s2": 1.0, "deg/s2": _DEG},
    "N": {"N": 1.0, "mN": 1e-3, "kN": 1e3},
    "N m": {"N m": 1.0, "Nm": 1.0, "mN m": 1e-3, "mNm": 1e-3},
    "A": {"A": 1.0},
    "V": {"V": 1.0},
    "kg": {"kg": 1.0, "g": 1e-3},
    "K": {"K": 1.0},
}
#: Unit to (factor, SI unit).
UNITS = {unit: (factor, si) for si, known in _FACTORS.items() for unit, factor in known.items()}


def to_si(unit: str, place: str = "") -> tuple[float, str]:
    """Factor to SI and the SI unit of ``unit``; an unknown one is an error that names the nearest."""
    plain = unit.strip().replace("°", "deg").replace("²", "2").replace("^2", "2").replace("µ", "u").replace("·", " ")
    if plain not in UNITS:
        raise InputError(f"unit {unit!r} is not known", place=place, hint=did_you_mean(plain, UNITS))
    return UNITS[plain]
