"""Signals and methods of a motion scenario: from the tables of the file to functions of time.

A key that the chosen kind does not use is an error: it was meant to do something. So is an angle in degrees where
there is no angle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from spacearm.errors import InputError, quoted
from spacearm.model import Robot
from spacearm.model.document import at
from spacearm.scenarios.motion_schema import MethodTable, SignalTable, SignalValue
from spacearm.simulate import RK4, Dopri853, Signal, constant, half_sine, pulse, spline, table, triangle
from spacearm.simulate.methods import Method

#: Keys that each kind of signal uses, besides ``kind``; those of angles in degrees go with their namesakes.
SIGNAL_KEYS = {
    "constant": ("value",),
    "pulse": ("value", "start", "width"),
    "triangle": ("value", "start", "width"),
    "half-sine": ("value", "start", "width"),
    "table": ("times", "values"),
    "spline": ("times", "values", "ends"),
}
METHOD_KEYS = {"dopri853": ("rtol", "atol", "max_step", "max_steps"), "rk4": ("step", "max_steps")}
#: How far a throttle may leave 0 ... 1 by rounding of a spline.
ROUNDING = 1e-9


def choice(place: str, **given: Any) -> tuple[str, Any] | None:
    """The one alternative that is given, or None; two are an error."""
    chosen = [(name, value) for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise InputError(f"both {chosen[0][0]!r} and {chosen[1][0]!r} are given", place=place, hint="expected one")
    return chosen[0] if chosen else None


def angles(place: str, **given: Any) -> Any:
    """Values of the one key that is given, in rad when its name ends in ``_deg``."""
    chosen = choice(place, **given)
    if chosen is None:
        return None
    return np.radians(chosen[1]) if chosen[0].endswith("_deg") else np.asarray(chosen[1], dtype=np.float64)


def not_an_angle(robot: Robot, quantity: str) -> str:
    """Why this degree of freedom, position or rate has no degrees, with its SI unit; empty where it has."""
    name = quantity.removesuffix(".rate")
    if name in robot.joint_names:
        return f"joint {quoted(name)} slides" if robot.joint(name).kind == "prismatic" else ""
    if name.startswith("base_") and not name.startswith("base_w"):
        return f"{name!r} is along an axis"
    return ""  # the base's turning, or a name that is told as unknown elsewhere


def refuse_degrees(entry: Any, place: str, why: str) -> None:
    """An error when a key of this table is in degrees; ``why`` says why there are none, empty where they may be."""
    if not why:
        return
    for key in sorted(entry.model_fields_set):
        if key.endswith("_deg") and getattr(entry, key) is not None:
            raise InputError(f"{key!r} is given, but {why}", place=place, hint=f"use {key[:-4]!r}, in SI units")


def _refuse_unused(entry: Any, used: Mapping[str, tuple[str, ...]], place: str) -> None:
    allowed = used[entry.kind]
    for key in sorted(entry.model_fields_set - {"kind"}):
        if key.removesuffix("_deg") not in allowed and getattr(entry, key) is not None:
            uses = ", ".join(map(repr, allowed))
            raise InputError(f"{key!r} does not apply to kind = {entry.kind!r}", place=place, hint=f"it uses {uses}")


def method_of(entry: MethodTable) -> Method:
    _refuse_unused(entry, METHOD_KEYS, "")
    if entry.kind == "rk4":
        if entry.step is None:
            raise InputError("'step' is missing", hint="expected seconds")
        return RK4(entry.step)
    return Dopri853(entry.rtol, entry.atol, math.inf if entry.max_step is None else entry.max_step)


def signal_of(entry: SignalValue, place: str, no_degrees: str) -> Signal:
    """A number or a table as a function of time; ``no_degrees`` says why it is no angle, empty if it is one."""
    if not isinstance(entry, SignalTable):
        return constant(entry)
    _refuse_unused(entry, SIGNAL_KEYS, place)
    refuse_degrees(entry, place, no_degrees)
    if entry.kind in ("table", "spline"):
        values = angles(place, values=entry.values, values_deg=entry.values_deg)
        if values is None or entry.times is None:
            raise InputError(f"a {entry.kind} needs 'times' and 'values'", place=place)
        with at(place):
            return table(entry.times, values) if entry.kind == "table" else spline(entry.times, values, entry.ends)
    value = angles(place, value=entry.value, value_deg=entry.value_deg)
    if value is None:
        raise InputError("'value' is missing", place=place)
    if entry.kind == "constant":
        return constant(float(value))
    if entry.start is None or entry.width is None:
        raise InputError(f"a {entry.kind} needs 'start' and 'width' in seconds", place=place)
    shape = {"pulse": pulse, "triangle": triangle, "half-sine": half_sine}[entry.kind]
    with at(place):
        return shape(float(value), entry.start, entry.width)


def throttle(entry: SignalValue, duration: float) -> Signal:
    """A thruster's level over a phase of this duration (s): between 0 (off) and 1 (full) all the time."""
    signal = signal_of(entry, "level", "a level is a share of the full thrust")
    low, high = bounds(signal, max(duration, 0.0))  # what is wrong with the duration is told by the phase
    if low < -ROUNDING or high > 1.0 + ROUNDING:
        raise InputError(
            f"level reaches {low if low < -ROUNDING else high:.6g}", place="level", hint="expected 0 (off) to 1 (full)"
        )
    return signal


def bounds(signal: Signal, duration: float) -> tuple[float, float]:
    """Least and largest value during [0, duration], also where a spline overshoots between its nodes."""
    edges = np.concatenate([[-math.inf], signal.breaks[1:-1], [math.inf]])
    found = []
    for piece, origin in enumerate(signal.breaks[:-1]):
        begin, end = max(0.0, edges[piece]) - origin, min(duration, edges[piece + 1]) - origin
        if begin > end or (begin == end and end + origin != duration):
            continue
        polynomial = np.polynomial.Polynomial(signal.coefficients[:, piece])
        turns = [root.real for root in polynomial.deriv().roots() if abs(root.imag) < ROUNDING]
        found += [float(polynomial(time)) for time in (begin, end, *(time for time in turns if begin < time < end))]
    return min(found), max(found)


def on_and_off(intervals: list[list[float]]) -> Signal:
    """1 during the intervals [start, end) in seconds, 0 outside; they must not overlap, or thrust would add up."""
    total, before = constant(0.0), -math.inf
    for begin, end in sorted(intervals):
        if end <= begin:
            raise InputError(f"fires from {begin:g} s to {end:g} s", place="on", hint="expected [start, end]")
        if begin < before:
            raise InputError(
                f"fires from {begin:g} s on, but already fires until {before:g} s",
                place="on",
                hint="expected intervals that do not overlap",
            )
        total, before = total + pulse(1.0, begin, end - begin), end
    return total
