"""Distances and gates between frames, of one system or of two, as event functions."""

from __future__ import annotations

from typing import Literal

import casadi as ca
import numpy as np

from spacearm.checks import number, positive
from spacearm.engine import Kernel
from spacearm.mechanics import Program, build
from spacearm.mechanics.shapes import touches
from spacearm.mechanics.spatial import SX
from spacearm.simulate.contact import On
from spacearm.simulate.elements import View
from spacearm.simulate.phase import Direction, EventFunction
from spacearm.simulate.world import World


def distance(
    world: World,
    first: str,
    second: str,
    value: float,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """The distance of two frames' origins goes through ``value`` (m)."""
    state, time = ca.SX.sym("state", list(world.layouts.values())[-1].stop), ca.SX.sym("time")
    gap = _origin(world, first, state) - _origin(world, second, state)
    outputs = {"distance": ca.sqrt(ca.sumsqr(gap)) - value}
    program = Program("distance", {"state": state, "time": time}, outputs)
    return EventFunction(Kernel(program), (f"distance of {first} and {second}",), (direction,), (ends,))


def gate(
    world: World,
    first: str,
    second: str,
    distance: float,
    angle: float = np.pi,
    speed: float = np.inf,
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """Two frames come within a gate: all of these hold at once.

    Args:
        distance: of their origins, m.
        angle: between the z axis of one and the opposite of the other's, rad, at most pi.
        speed: of the second's origin relative to the first's, m/s.
    """
    place = f"gate of {first} and {second}"
    positive(distance, "distance", unit="m", place=place)
    number(angle, "angle", above=0.0, most=np.pi, unit="rad", place=place)
    number(speed, "speed", above=0.0, unit="m/s", infinite=True, place=place)
    view = View(world.systems, 0, 0)
    a, b = (view.frame(*world.frame(name)) for name in (first, second))
    apart, drift = b.pose.origin - a.pose.origin, b.velocity - a.velocity
    over = ca.sqrt(ca.sumsqr(apart)) / distance - 1
    if angle < np.pi:
        over = ca.fmax(over, np.cos(angle) + ca.dot(a.pose.rotation[:, 2], b.pose.rotation[:, 2]))
    if np.isfinite(speed):
        over = ca.fmax(over, ca.sqrt(ca.sumsqr(drift)) / speed - 1)
    program = Program("gate", {"state": view.state, "time": view.time}, {"over": over})
    return EventFunction(Kernel(program), (place,), ("falling",), (ends,))


def clearance(
    world: World,
    first: On,
    second: On,
    value: float = 0.0,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """The gap between two shapes goes through ``value`` (m): keep-out and self-collision, without a force."""
    view = View(world.systems, 0, 0)
    a, b = (side.motion(view, world).pose for side in (first, second))
    gaps = [touch.gap for touch in touches(first.shape, a, second.shape, b)]
    nearest = gaps[0]
    for gap in gaps[1:]:
        nearest = ca.fmin(nearest, gap)
    program = Program("clearance", {"state": view.state, "time": view.time}, {"gap": nearest - value})
    name = f"clearance of {first.label} and {second.label}"
    return EventFunction(Kernel(program), (name,), (direction,), (ends,))


def _origin(world: World, frame: str, state: SX) -> SX:
    """A frame's origin in the world, by the flat state."""
    system, own = world.frame(frame)
    program, at = build(world.robot(system), "frame_pose", frame=own), world.layouts[system]
    known = {"position": state[at.position], "quaternion": state[at.quaternion], "joints": state[at.joints]}
    symbols = [symbol for name, symbol in program.inputs.items() if name in known]
    values = [known[name] for name in program.inputs if name in known]
    return ca.substitute(program.outputs["origin"], ca.vertcat(*symbols), ca.vertcat(*values))
