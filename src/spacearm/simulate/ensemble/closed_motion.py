"""The motion of a robot in a loop of fixed steps, with a control law in it: one expression for all such loops.

Roll-outs, the vectorised runs of a campaign and :class:`~spacearm.simulate.VectorSimulator` differ in who gives
commands and in what is integrated beside the state. What they share is here, in three steps:

1. :func:`trim_motion`: the motion program without what no sample can use.
2. :func:`law_symbols`: a law as expressions over the loop's symbols. A continuous law's commands are expressions of
   the stage's state and time. A sampled law's are inputs that are held between ticks; its outputs are computed at
   ticks, as an :class:`~spacearm.engine.fixed_step.Update`.
3. :func:`close_motion`: the motion with these commands in the places of its inputs.

States are laid out as in the motion program; forces are generalised forces (6 + n), the base's in base axes; SI units.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.engine.fixed_step import Update
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.mechanics.program import Program
from spacearm.mechanics.sensors import ForceTorque
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.law import Law
from spacearm.typing import Array

#: Parameters that may be absent: a joint without a spring has a stiffness of zero.
PASSIVE = ("stiffness", "rest", "damping")
#: Inputs of the loop that hold a sampled law's commands. The loop's own ``force`` is what acts beside the law.
_HELD = {"force": "command", "drive": "drive", "wrench": "wrench"}


class LawSymbols(NamedTuple):
    """A law over the symbols of a loop."""

    commands: dict[str, SX]  # by the inputs of the motion that they go to: force, drive, wrench
    inputs: dict[str, SX]  # that the motion reads because of the law
    update: Update | None  # of a sampled law
    memory_rate: SX | None  # of a continuous law with memory


def trim_motion(
    robot: Robot,
    frames: tuple[LoadFrame, ...],
    still: Collection[str],
    passive: Mapping[str, Array],
    *,
    ledger: bool = False,
) -> Program:
    """The motion program without dry friction, and without those of these springs and dampers that are zero.

    Args:
        still: degrees of freedom that are locked or driven; with none, no mode is read.
        passive: values of ``PASSIVE`` that no sample changes.
    """
    # Zeros that are known before compilation shorten a step by a third: springs that no joint has cost nothing.
    absent: dict[str, Sequence[int] | None] = {"friction": None}
    absent |= {name: np.flatnonzero(value == 0.0).tolist() for name, value in passive.items()}
    return motion_program(robot, frames, ledger=ledger, free=not still).with_zeros(absent)


def law_symbols(
    law: Law,
    robot: Robot,
    state: SX,
    frames: tuple[LoadFrame, ...],
    model: SX | None = None,
    varied: Mapping[str, SX] | None = None,
) -> LawSymbols:
    """The law over this state, with symbols of its own for the time, its references, memory and random numbers.

    Args:
        frames: frames that wrenches act on; those of the law are among them.
        model: parameters that the law assumes, its own numbers by default.
        varied: inputs of the loop that ``model`` contains, and others that the law reads from sample to sample.
    """
    if any(isinstance(sensor, ForceTorque) for sensor in law.sensors):
        raise InputError(
            "reads a force sensor, which roll-outs do not have", place=law.place, hint="use simulate_batch"
        )
    own, sampled = law.program(robot), law.period is not None
    x, y = own.program.inputs, own.program.outputs
    # Of the step's start, and from there to the stage. A sampled law acts at a step's start, before any stage.
    time, part = ca.SX.sym("time"), ca.SX.sym("part")
    numbers = ca.SX(ca.DM(law.numbers(robot))) if model is None else model
    old, new = [x["state"], x["time"], x["model"]], [state, time if sampled else time + part, numbers]
    actions, memory = ca.substitute([y["action"], y["memory"]], old, new)
    sizes = {"force": robot.dofs, "drive": robot.dofs, "wrench": 6 * len(frames)}
    asked = {kind: ca.SX.zeros(sizes[kind]) for kind in dict.fromkeys(kind for kind, _, _ in own.actions)}
    for k, (kind, what, entry) in enumerate(own.actions):
        at = 6 * frames.index(what) + entry if kind == "wrench" else robot.dof_index(what)
        asked[kind][at] += actions[k]
    # What the law reads besides state and time; the noise is drawn by the loop.
    read = {name: x[name] for name in ("reference", "memory", "noise") if name in x} | dict(varied or {})
    read = {name: symbol for name, symbol in read.items() if symbol.numel()}
    if not sampled:
        inputs = {"time": time, "part": part, **read}
        return LawSymbols(asked, inputs, None, memory if "memory" in read else None)
    # Between ticks the motion reads these inputs: a tick writes them, no stage evaluates the law.
    held = {kind: ca.SX.sym(_HELD[kind], value.numel()) for kind, value in asked.items()}
    if "noise" in read:
        read["sample"] = ca.SX.sym("sample")  # by which the loop draws random numbers
    outputs = {_HELD[kind]: value for kind, value in asked.items()} | ({"memory": memory} if "memory" in read else {})
    inputs = {"time": time, **{_HELD[kind]: symbol for kind, symbol in held.items()}}
    return LawSymbols(held, inputs, Update(outputs, read), None)


def limit_rates(command: SX, state: SX, robot: Robot, joints: Collection[str]) -> SX:
    """Forces that are held, without drives of these joints that would push one further beyond its rate limit."""
    found = ca.SX(command)
    for i, joint in enumerate(robot.joints):
        if math.isfinite(joint.limits.velocity) and joint.name in joints:
            # Only a force that pushes further out is cut: braking must remain possible.
            rate, force = state[Layout(robot.n).rates][i], command[6 + i]
            # Evaluated in every stage, so that a drive is off as soon as the limit is reached, as an event would do.
            beyond = ca.logic_and(ca.fabs(rate) >= joint.limits.velocity, rate * force > 0)
            found[6 + i] = ca.if_else(beyond, 0.0, force)
    return found


def close_motion(
    motion: Program, robot: Robot, still: Collection[str], commands: Mapping[str, SX], inputs: Mapping[str, SX]
) -> Program:
    """The motion with these commands in the places of its inputs, and these inputs beside those that remain.

    What is in ``still`` has the acceleration of the command ``drive``, zero without one.
    """
    # A constant: branches of the recursion that a mode would choose are gone before compilation.
    mode = ca.SX(ca.DM(np.isin(robot.dof_names, [*still]).astype(float)))
    new = {"force": ca.SX.zeros(robot.dofs), "drive": ca.SX.zeros(robot.dofs), "mode": mode, **commands}
    outputs = ca.substitute(list(motion.outputs.values()), [motion.inputs[name] for name in new], list(new.values()))
    remaining = {name: symbol for name, symbol in motion.inputs.items() if name not in new}
    return replace(motion, inputs={**remaining, **inputs}, outputs=dict(zip(motion.outputs, outputs, strict=True)))
