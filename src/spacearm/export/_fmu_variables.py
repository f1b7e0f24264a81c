"""The variables of an FMU: names, units, descriptions, and what may be set."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from xml.sax.saxutils import quoteattr

from spacearm.export._motion_code import FRICTION, MotionCode
from spacearm.export.c_files import DERIVED
from spacearm.model import Robot
from spacearm.model.robot import free_name
from spacearm.typing import Array

_TEN = ("m", "mx", "my", "mz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
_TEN_UNITS = ("kg", *["kg.m"] * 3, *["kg.m2"] * 6)
#: Exponents of kg, m, s, rad in the parts that names of units are made of.
_PARTS = {
    "kg": (1, 0, 0, 0),
    "m": (0, 1, 0, 0),
    "s": (0, 0, 1, 0),
    "rad": (0, 0, 0, 1),
    "N": (1, 1, -2, 0),
    "1": (0,) * 4,
}


@dataclass(frozen=True)
class FmuVariable:
    """One scalar of the FMU; its value reference is its number."""

    name: str
    kind: str  # independent, input, state, derivative, indicator, phase, command, output, parameter
    start: float
    unit: str  # empty where a number has one that nobody knows: memory of laws
    description: str
    state_number: int = 0  # of a derivative: the state
    rule: str = "FINITE"  # what may be set, by its name in C; see _rule


def list_variables(motion: MotionCode, values: Mapping[str, Array]) -> list[FmuVariable]:
    """All variables, by value reference; ``values`` are the parameters of the code."""
    taken: set[str] = set()  # joints called "force" and "velocity" would give two variables one name
    return [replace(own, name=free_name(own.name, taken, "_")) for own in _variables(motion, values)]


def _variables(motion: MotionCode, values: Mapping[str, Array]) -> Iterator[FmuVariable]:
    ports = motion.ports
    yield FmuVariable("time", "independent", 0.0, "s", "simulated time")
    inputs = [*ports.forces(), *ports.thrusters(), *ports.wrenches()]
    for port in inputs:
        rule = "SHARE" if port.name.startswith("thruster.") else "FINITE"
        yield FmuVariable(port.name, "input", 0.0, port.unit, port.description, rule=rule)
    states = list(_states(motion))
    for (name, unit, what), value in zip(states, motion.start_vector, strict=True):
        yield FmuVariable(name, "state", float(value), unit, what)
    for k, (name, unit, _) in enumerate(states):
        yield FmuVariable(
            f"der({name})", "derivative", 0.0, _per_second(unit), f"time derivative of {name}", 1 + len(inputs) + k
        )
    for k, what in enumerate(_describe_event_functions(motion)):
        yield FmuVariable(f"watched[{k}]", "indicator", 0.0, "", f"changes its sign at an event: {what}")
    yield FmuVariable("phase", "phase", 0.0, "1", "number of the phase, from 0; their count at the end")
    for name, unit in zip(motion.robot.dof_names if motion.has_forces else (), ports.force_units, strict=False):
        what = f"what the scenario and its laws command at {name}, without the inputs"
        yield FmuVariable(f"command.{name}", "command", 0.0, unit, what)
    for port in ports.outputs():
        yield FmuVariable(port.name, "output", 0.0, port.unit, port.description)
    for name, row in values.items():
        if name in DERIVED:  # follows from the inertias
            continue
        for k, (value, (label, unit, what)) in enumerate(zip(row, _labels(motion.robot, name), strict=True)):
            yield FmuVariable(label, "parameter", float(value), unit, what, rule=_rule(name, k, values))
    yield FmuVariable("step", "parameter", motion.step, "s", "longest RK4 step of co-simulation", rule="ABOVE")


def _states(motion: MotionCode) -> Iterator[tuple[str, str, str]]:
    """Name, unit and description of what is integrated."""
    robot = motion.robot
    for axis in "xyz":
        yield f"position.{axis}", "m", f"origin of the base, {axis} of the world"
    for part in "wxyz":
        yield f"quaternion.{part}", "1", f"attitude of the base to the world, {part} of the quaternion w, x, y, z"
    for joint in robot.joints:
        yield f"{joint.name}.position", "m" if joint.kind == "prismatic" else "rad", f"position of joint {joint.name}"
    for name, unit in zip(robot.dof_names, motion.ports.velocity_units, strict=True):
        what = f"rate of joint {name}"
        if name in robot.dof_names[:6]:
            what = "velocity of the base's origin" if "_v" in name else "angular velocity of the base"
            what = f"{what}, {name[-1]} of the base"
        yield f"{name}.velocity", unit, what
    for number, label in enumerate(_memory_labels(motion)):
        yield f"memory[{number}]", "", label


def _memory_labels(motion: MotionCode) -> Iterator[str]:
    for law, own in motion.laws.items():
        if law.period is None:
            yield from (f"memory {k} of the continuous law {law.name!r}" for k in range(own.program.memory.size))


def _describe_event_functions(motion: MotionCode) -> Iterator[str]:
    """What each watched function is in each phase."""
    for k in range(motion.event_count):
        found = []
        for number, phase in enumerate(motion.watched_names()):
            if k < len(phase):
                found.append(f"phase {number}: {phase[k]}")
        yield "; ".join(found)


def _per_second(unit: str) -> str:
    """Unit of a time derivative."""
    if not unit or unit == "1":
        return "1/s" if unit else ""
    return f"{unit[:-2]}/s2" if unit.endswith("/s") else f"{unit}/s"


def _labels(robot: Robot, name: str) -> Iterator[tuple[str, str, str]]:
    """Name, unit and description of each number of a parameter."""
    sliding = {joint.name: joint.kind == "prismatic" for joint in robot.joints}
    if name == "inertia":
        for body in robot.body_names:
            for part, unit in zip(_TEN, _TEN_UNITS, strict=True):
                what = "mass" if part == "m" else f"{part} about the body's origin, body axes,"
                yield f"inertia.{body}.{part}", unit, f"{what} of body {body}"
    elif name == "coupling":
        for coupling in robot.couplings:
            force = "N" if sliding[coupling.first] else "N.m"
            angle = "m" if sliding[coupling.first] else "rad"
            units = (f"{force}/{angle}", f"{force}.s/{angle}", "1", angle)
            for part, unit in zip(("stiffness", "damping", "ratio", "rest"), units, strict=True):
                yield f"coupling.{coupling.name}.{part}", unit, f"{part} of the coupling {coupling.name}"
    elif name == "rotor":
        for joint in robot.joints:
            if joint.rotor is not None:
                yield f"rotor.{joint.name}", "kg.m2", f"inertia of the rotor of joint {joint.name} about its axis"
    else:
        bases = {"damping", *FRICTION} & {name}
        names = robot.dof_names if bases else robot.joint_names
        for number, dof in enumerate(names):
            slides = sliding.get(dof, number < 3)
            force, angle = ("N", "m") if slides else ("N.m", "rad")
            unit = {"stiffness": f"{force}/{angle}", "rest": angle, "damping": f"{force}.s/{angle}"}.get(name, force)
            words = {"stiffness": "stiffness of the spring", "rest": "rest position of the spring"}
            words |= {"static_friction": "static friction: above zero where it is here"}
            what = words.get(name, name.replace("coulomb_", "Coulomb ").replace("_", " "))
            yield f"{name}.{dof}", unit, f"{what} at {dof}"


def _rule(name: str, k: int, values: Mapping[str, Array]) -> str:
    """What a parameter alone must be, in words of the C code; what several must be together is checked there."""
    above = bool(values[name][k] > 0.0)
    if name == "inertia":
        return ("ABOVE" if above else "LEAST") if k % 10 == 0 else "LEAST" if k % 10 in (4, 5, 6) else "FINITE"
    if name in FRICTION:  # which joints rub is part of the code
        return ("ABOVE" if name == "static_friction" else "LEAST") if values["static_friction"][k] > 0.0 else "ZERO"
    if name == "coupling":
        return "LEAST" if k % 4 < 2 else "FINITE"
    return {"rotor": "ABOVE", "stiffness": "LEAST", "damping": "LEAST"}.get(name, "FINITE")


def unit_definitions(variables: list[FmuVariable]) -> str:
    """Every unit in SI base units, the same in FMI 2.0 and 3.0."""
    lines = []
    for unit in dict.fromkeys(own.unit for own in variables if own.unit):
        powers = zip(("kg", "m", "s", "rad"), _exponents(unit), strict=True)
        base = "".join(f' {name}="{power}"' for name, power in powers if power)
        lines.append(f"    <Unit name={quoteattr(unit)}><BaseUnit{base}/></Unit>")
    return "\n".join(["  <UnitDefinitions>", *lines, "  </UnitDefinitions>", ""])


def _exponents(unit: str) -> list[int]:
    """Of kg, m, s, rad."""
    above, _, below = unit.partition("/")
    total = [0, 0, 0, 0]
    for text, sign in ((above, 1), (below, -1)):
        for part in filter(None, text.split(".")):
            matched = re.fullmatch(r"([a-zA-Z1]+?)(\d?)", part)
            assert matched is not None, unit
            power = sign * int(matched[2] or 1)
            total = [a + power * b for a, b in zip(total, _PARTS[matched[1]], strict=True)]
    return total
