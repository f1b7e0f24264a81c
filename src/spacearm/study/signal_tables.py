"""Functions of time in a scenario file: signals, loads, paths of joints, thrusters."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator

from spacearm.errors import InputError, quoted
from spacearm.model import Robot
from spacearm.model.document import at
from spacearm.model.toml_schema import Name, Number, Vector3
from spacearm.simulate import Load, Signal, constant, firing, half_sine, pulse, spline, table, triangle
from spacearm.study.keys import Table, key, question_angle, refused

Numbers = list[Number]
#: Tables of signals that are positions of joints.
PATHS = ("driven", "reference")
#: How far a throttle may leave 0 ... 1 by rounding of a spline.
ROUNDING = 1e-9


class SignalTable(Table):
    """A function of the time since the start of the phase, or of whatever it belongs to."""

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
    value: Number | None = key(None, "height; of a parabola, at time zero")
    value_deg: Number | None = None
    acceleration: Number | None = key(None, "of a parabola, from rest at time zero")
    acceleration_deg: Number | None = None
    start: Number | None = key(None, "when it begins, s")
    width: Number | None = key(None, "how long it lasts, s")
    times: Numbers | None = key(None, "of the nodes, s")
    values: Numbers | None = key(None, "at the nodes")
    values_deg: Numbers | None = None
    ends: Literal["clamped", "natural", "not-a-knot"] = key("clamped", "how a spline ends")

    def make(self) -> Signal:
        """The signal in SI units."""
        if self.kind in ("table", "spline"):
            values = self.si("values")
            if values is None or self.times is None:
                raise InputError(f"a {self.kind} needs 'times' and 'values'")
            return table(self.times, values) if self.kind == "table" else spline(self.times, values, self.ends)
        value, bend = self.si("value"), self.si("acceleration")
        if value is None and bend is None:
            raise InputError("'value' is missing")
        if self.kind == "parabola":
            return Signal(np.array([0.0, 1.0]), np.array([[value or 0.0], [0.0], [0.5 * (bend or 0.0)]]))
        if self.kind == "constant":
            return constant(value)
        if self.start is None or self.width is None:
            raise InputError(f"a {self.kind} needs 'start' and 'width' in seconds")
        return {"pulse": pulse, "triangle": triangle, "half-sine": half_sine}[self.kind](value, self.start, self.width)

    def of(self, place: str, no_degrees: str = "") -> Signal:
        """The same, with errors at this place; ``no_degrees`` says why it is no angle, empty if it may be one."""
        with at(place):
            self.no_degrees(no_degrees)
            if not no_degrees and place.partition(".")[0] in PATHS:
                question_angle(self.value, f"{place}.value")
                question_angle(self.values, f"{place}.values")
            return self.make()


def _number_or_table(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": value}
    if not isinstance(value, dict | SignalTable):
        vector = "; the vector of a load is its 'direction'" if isinstance(value, list) else ""
        raise refused(f"{quoted(value)} is no signal", 'expected a number or { kind = "...", ... }' + vector)
    return value


#: A number, or a table.
SignalKey = Annotated[SignalTable, BeforeValidator(_number_or_table)]


class LoadTable(Table):
    """A force or a moment at a frame; what has both is two loads."""

    either: ClassVar = (("force", "moment"),)
    moved: ClassVar = dict.fromkeys(
        ("profile", "duration", "start", "times", "values"),
        'it belongs to the signal now: axes = "frame", direction = [1, 0, 1], '
        'force = { kind = "half-sine", value = 50, start = 0, width = 0.01 }',
    )

    frame: Name
    force: SignalKey | None = key(None, "N")
    moment: SignalKey | None = key(None, "N m")
    direction: Vector3
    axes: Literal["world", "frame"] = key("world", "of the direction")

    def of(self, robot: Robot, end: float = math.inf) -> Load:
        """The load on this robot, in a run that ends then."""
        name = "force" if self.moment is None else "moment"
        size = getattr(self, name)
        if size is None:
            raise InputError("neither 'force' nor 'moment' is given")
        robot.frame(self.frame)
        signal = size.of(name, f"a {name} has no degrees")
        if (size.start or 0.0) >= end:
            hint = f"expected less than {end:g} s"
            raise InputError(f"starts at {size.start:g} s, when the run is over", place=name, hint=hint)
        return Load.along(self.frame, self.direction, signal, axes=self.axes, moment=name == "moment")


def not_an_angle(robot: Robot, quantity: str) -> str:
    """Why this degree of freedom, position or rate has no degrees; empty where it has."""
    name = quantity.removesuffix(".rate")
    if name in robot.joint_names:
        return f"joint {quoted(name)} slides" if robot.joint(name).kind == "prismatic" else ""
    if name.startswith("base_") and not name.startswith("base_w"):
        return f"{name!r} is along an axis"
    return ""  # the base's turning, or a name that is reported as unknown elsewhere


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


class ThrusterTable(Table):
    """A thruster that fires at full thrust all the time, during intervals, or at a level."""

    name: Name = key(what="of the robot's thruster")
    on: list[Annotated[list[Number], key(min_length=2, max_length=2)]] | None = key(None, "[[start, end], ...], s")
    level: SignalKey | None = key(None, "share of the full thrust, 0 to 1; over intervals, a number")

    def intervals(self) -> list[tuple[float, float]]:
        """Start and end of each firing, in order; they must not overlap, or thrust would add up."""
        with at("on"):
            before = -math.inf
            for begin, end in sorted(self.on or []):
                if end <= begin:
                    raise InputError(f"fires from {begin:g} s to {end:g} s", hint="expected [start, end]")
                if begin < before:
                    raise InputError(
                        f"fires from {begin:g} s on, but already fires until {before:g} s",
                        hint="expected intervals that do not overlap",
                    )
                before = end
        return [(begin, end) for begin, end in sorted(self.on or [])]

    def throttle(self, duration: float) -> Signal:
        """The level over a phase of this duration (s)."""
        level = constant(1.0)
        if self.level is not None:
            level = self.level.of("level", "a level is a share of the full thrust")
            low, high = bounds(level, max(duration, 0.0))  # what is wrong with the duration is reported by the phase
            if low < -ROUNDING or high > 1.0 + ROUNDING:
                reached = low if low < -ROUNDING else high
                raise InputError(f"level reaches {reached:.6g}", place="level", hint="expected 0 (off) to 1 (full)")
        if self.on is None:
            return level
        if level.breaks.size > 2 or level.coefficients.shape[0] > 1:
            raise InputError("both 'on' and a 'level' that changes are given", hint="expected one")
        total = constant(0.0)
        for begin, end in self.intervals():
            total = total + pulse(float(level(0.0)), begin, end - begin)
        return total


def thrust(robot: Robot, tables: list[ThrusterTable], duration: float) -> list[Load]:
    """The loads of thrusters that fire during a phase."""
    loads: list[Load] = []
    seen: dict[str, str] = {}
    for index, item in enumerate(tables):
        place = f"thruster[{index}]"
        if item.name in seen:
            raise InputError(
                f"{seen[item.name]} is also for {quoted(item.name)}", place=place, hint="give all its intervals in one"
            )
        seen[item.name] = place
        with at(place):
            loads.append(firing(robot, item.name, item.throttle(duration)))
    return loads
