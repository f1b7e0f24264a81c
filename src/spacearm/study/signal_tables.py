"""Functions of time in a scenario file: signals, loads, joint paths, thrusters."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from spacearm.errors import InputError, error_context, quote_text
from spacearm.model import Robot
from spacearm.model.toml_schema import Name, Number, Vector3
from spacearm.simulate import Load, Signal, constant, half_sine, pulse, spline, table, thruster_load, triangle
from spacearm.study.keys import ScenarioTable, key, validation_error, warn_of_large_angle

Numbers = list[Number]
#: Tables of signals that are joint positions.
PATHS = ("driven", "reference")
#: How far a throttle may leave 0 ... 1 through rounding of a spline.
ROUNDING = 1e-9


class SignalTable(ScenarioTable):
    """A function of the time since the start of the phase, or of the item that it belongs to."""

    uses: ClassVar = {
        "constant": ("value",),
        "parabola": ("value", "acceleration"),
        "pulse": ("value", "start", "width"),
        "triangle": ("value", "start", "width"),
        "half-sine": ("value", "start", "width"),
        "table": ("times", "values"),
        "spline": ("times", "values", "ends"),
    }

    kind: Literal["constant", "parabola", "pulse", "triangle", "half-sine", "table", "spline"] = key("constant")
    value: Number | None = key(None, "amplitude; of a parabola, value at time zero")
    value_deg: Number | None = None
    acceleration: Number | None = key(None, "of a parabola that starts from rest at time zero")
    acceleration_deg: Number | None = None
    start: Number | None = key(None, "start time, s")
    width: Number | None = key(None, "duration, s")
    times: Numbers | None = key(None, "times of the nodes, s")
    values: Numbers | None = key(None, "values at the nodes")
    values_deg: Numbers | None = None
    ends: Literal["clamped", "natural", "not-a-knot"] = key("clamped", "end condition of a spline")

    def make(self) -> Signal:
        """The signal in SI units."""
        if self.kind in ("table", "spline"):
            values = self.si_value("values")
            if values is None or self.times is None:
                raise InputError(f"a {self.kind} needs 'times' and 'values'")
            return table(self.times, values) if self.kind == "table" else spline(self.times, values, self.ends)
        value, bend = self.si_value("value"), self.si_value("acceleration")
        if value is None and bend is None:
            raise InputError("'value' is missing")
        if self.kind == "parabola":
            # Outer pieces continue: the parabola is valid for all times.
            return Signal(np.array([0.0, 1.0]), np.array([[value or 0.0], [0.0], [0.5 * (bend or 0.0)]]))
        if self.kind == "constant":
            return constant(value)
        if self.start is None or self.width is None:
            raise InputError(f"a {self.kind} needs 'start' and 'width' in seconds")
        return {"pulse": pulse, "triangle": triangle, "half-sine": half_sine}[self.kind](value, self.start, self.width)

    def make_signal(self, place: str, no_degrees: str = "") -> Signal:
        """The signal, with errors at this place; ``no_degrees`` is why it is not an angle, empty if it may be one."""
        with error_context(place):
            self.refuse_degrees(no_degrees)
            # Large numbers are usual for torques, not for joint positions.
            if not no_degrees and place.partition(".")[0] in PATHS:
                warn_of_large_angle(self.value, f"{place}.value")
                warn_of_large_angle(self.values, f"{place}.values")
            return self.make()


def _number_or_table(value: Any) -> Any:
    # A bare number is a constant; bool is an int in Python.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": value}
    if not isinstance(value, dict | SignalTable):
        vector = "; the vector of a load is its 'direction'" if isinstance(value, list) else ""
        raise validation_error(
            f"{quote_text(value)} is not a signal", 'expected a number or { kind = "...", ... }' + vector
        )
    return value


#: A number or a table.
SignalKey = Annotated[SignalTable, BeforeValidator(_number_or_table)]


class LoadTable(ScenarioTable):
    """A force or a moment at a frame; to apply both, give two loads."""

    either: ClassVar = (("force", "moment"),)
    key_changes: ClassVar = dict.fromkeys(
        ("profile", "duration", "start", "times", "values"),
        'it belongs to the signal now: axes = "frame", direction = [1, 0, 1], '
        'force = { kind = "half-sine", value = 50, start = 0, width = 0.01 }',
    )

    frame: Name
    force: SignalKey | None = key(None, "N")
    moment: SignalKey | None = key(None, "N m")
    direction: Vector3
    axes: Literal["world", "frame"] = key("world", "axes of the direction")

    def build(self, robot: Robot, end: float = math.inf) -> Load:
        """The load on this robot, in a run that ends at ``end``, s."""
        name = "force" if self.moment is None else "moment"
        size = getattr(self, name)
        if size is None:
            raise InputError("neither 'force' nor 'moment' is given")
        robot.frame(self.frame)
        signal = size.make_signal(name, f"a {name} cannot be given in degrees")
        if (size.start or 0.0) >= end:
            hint = f"expected less than {end:g} s"
            raise InputError(f"starts at {size.start:g} s, after the end of the run", place=name, hint=hint)
        return Load.from_direction(self.frame, self.direction, signal, axes=self.axes, moment=name == "moment")


def no_degrees_reason(robot: Robot, quantity: str) -> str:
    """Why this degree of freedom, position or rate cannot be given in degrees; empty if it can."""
    name = quantity.removesuffix(".rate")
    if name in robot.joint_names:
        return f"joint {quote_text(name)} is prismatic" if robot.joint(name).kind == "prismatic" else ""
    if name.startswith("base_") and not name.startswith("base_w"):
        return f"{name!r} is a translation"
    return ""  # a rotation of the base, or an unknown name, which is reported elsewhere


def signal_bounds(signal: Signal, duration: float) -> tuple[float, float]:
    """Smallest and largest value during [0, duration], including overshoot of a spline between its nodes."""
    edges = np.concatenate([[-math.inf], signal.breaks[1:-1], [math.inf]])
    found = []
    for piece, origin in enumerate(signal.breaks[:-1]):
        begin, end = max(0.0, edges[piece]) - origin, min(duration, edges[piece + 1]) - origin
        # A piece outside the phase; one that begins at the very end still gives its value there.
        if begin > end or (begin == end and end + origin != duration):
            continue
        polynomial = np.polynomial.Polynomial(signal.coefficients[:, piece])
        # Extremes inside a piece are zeros of its derivative: exact for polynomials, no sampling.
        extrema = [root.real for root in polynomial.deriv().roots() if abs(root.imag) < ROUNDING]
        found += [float(polynomial(time)) for time in (begin, end, *(time for time in extrema if begin < time < end))]
    return min(found), max(found)


class FiringTable(ScenarioTable):
    """A thruster that fires at full thrust throughout, during intervals, or at a given level."""

    name: Name = key(what="name of the thruster in the robot")
    on: list[Annotated[list[Number], key(min_length=2, max_length=2)]] | None = key(
        None, "firing intervals [[start, end], ...], s"
    )
    level: SignalKey | None = key(None, "thrust as a fraction of full thrust, 0 to 1; constant if `on` is given")

    def intervals(self) -> list[tuple[float, float]]:
        """Start and end of each firing, in order; they must not overlap, because thrust would add up."""
        with error_context("on"):
            before = -math.inf
            for begin, end in sorted(self.on or []):
                if end <= begin:
                    raise InputError(f"fires from {begin:g} s to {end:g} s", hint="expected [start, end]")
                if begin < before:
                    raise InputError(
                        f"fires from {begin:g} s on, but is still firing until {before:g} s",
                        hint="expected intervals that do not overlap",
                    )
                before = end
        return [(begin, end) for begin, end in sorted(self.on or [])]

    def throttle(self, duration: float) -> Signal:
        """Throttle level over a phase of this duration (s)."""
        level = constant(1.0)
        if self.level is not None:
            level = self.level.make_signal("level", "a level is a fraction of the full thrust")
            low, high = signal_bounds(level, max(duration, 0.0))  # a wrong duration is reported by the phase
            if low < -ROUNDING or high > 1.0 + ROUNDING:
                reached = low if low < -ROUNDING else high
                raise InputError(f"level reaches {reached:.6g}", place="level", hint="expected 0 (off) to 1 (full)")
        if self.on is None:
            return level
        # Intervals are made of a constant level; a varying one states its own times.
        if level.breaks.size > 2 or level.coefficients.shape[0] > 1:
            raise InputError("both 'on' and a varying 'level' are given", hint="expected one")
        total = constant(0.0)
        for begin, end in self.intervals():
            total = total + pulse(float(level(0.0)), begin, end - begin)
        return total


def thruster_loads(robot: Robot, tables: list[FiringTable], duration: float) -> list[Load]:
    """The loads of thrusters that fire during a phase."""
    loads: list[Load] = []
    seen: dict[str, str] = {}
    for index, item in enumerate(tables):
        place = f"thruster[{index}]"
        if item.name in seen:
            raise InputError(
                f"{seen[item.name]} already fires {quote_text(item.name)}",
                place=place,
                hint="give all its intervals in one entry",
            )
        # Two entries of one thruster would add up to more than full thrust.
        seen[item.name] = place
        with error_context(place):
            loads.append(thruster_load(robot, item.name, item.throttle(duration)))
    return loads
