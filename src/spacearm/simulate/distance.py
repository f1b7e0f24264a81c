"""Distances between frames, of one system or of two, as event functions."""

from __future__ import annotations

from typing import Literal

import casadi as ca

from spacearm.engine import Kernel
from spacearm.mechanics import Program, build
from spacearm.mechanics.spatial import SX
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


def _origin(world: World, frame: str, state: SX) -> SX:
    """A frame's origin in the world, by the flat state."""
    system, own = world.frame(frame)
    program, at = build(world.robot(system), "frame_pose", frame=own), world.layouts[system]
    known = {"position": state[at.position], "quaternion": state[at.quaternion], "joints": state[at.joints]}
    symbols = [symbol for name, symbol in program.inputs.items() if name in known]
    values = [known[name] for name in program.inputs if name in known]
    return ca.substitute(program.outputs["origin"], ca.vertcat(*symbols), ca.vertcat(*values))
