"""Roll-outs: fixed-step RK4 of one state or many in vector lanes, without events, samples between steps or ledger."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from spacearm.checks import numbers, positive, whole
from spacearm.engine import NonFiniteWarning
from spacearm.engine.fixed_step import FixedStep, Room, roll_samples
from spacearm.engine.machine import host
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, at
from spacearm.mechanics import motion_program
from spacearm.model import Robot
from spacearm.model.weightless import check_weightless
from spacearm.simulate.checks import flat_states, is_robot, mapping
from spacearm.simulate.overrides import check_friction, check_mass, fitted, robot_parameters, with_base
from spacearm.simulate.threads import spread
from spacearm.typing import Array

#: Samples that a thread takes at a time; a multiple of every lane width.
CHUNK = 1024
_SHARED = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")
_PASSIVE = ("stiffness", "rest", "damping")


@lru_cache(maxsize=32)
def _loop(robot: Robot, varied: frozenset[str], each: frozenset[str]) -> FixedStep:
    """The motion program with every degree of freedom free, and without springs and dampers that are not there.

    What a roll-out cannot use is written as zero before compilation, which takes a third off the time of a step.

    Args:
        varied: parameters that are not the robot's own.
        each: those that differ from sample to sample.
    """
    program = motion_program(robot, (), ledger=False)
    own = robot_parameters(robot)
    absent: dict[str, Sequence[int] | None] = dict.fromkeys(("drive", "mode", "friction"))
    absent |= {name: np.flatnonzero(own[name] == 0.0).tolist() for name in _PASSIVE if name not in varied}
    free = replace(program, name="rollout", outputs={"rate": program.outputs["rate"]}).with_zeros(absent)
    return FixedStep(Room(free), uniform=[name for name in _SHARED if name not in each])


def rollout(
    robot: Robot,
    starts: npt.ArrayLike,
    step: float,
    count: int,
    *,
    forces: npt.ArrayLike | None = None,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    every: int | None = None,
    threads: int | None = None,
    ignore_friction: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Array:
    """States after every ``every`` steps (default: the last only): (count // every, nx) or (B, count // every, nx).

    Args:
        starts: flat states (nx,) or (B, nx): position 3, quaternion 4, joints n, velocity 6 + n.
        step: s.
        count: number of steps.
        forces: generalised forces, held over each step: (nv,), (B, nv) or (B or 1, count or 1, nv).
        overrides: parameters as in :func:`simulate`, each for all samples, or (B, size) for each.
        threads: results do not depend on their number.
        ignore_friction: roll-outs know no dry friction; a robot that has it needs this consent.
    """
    is_robot(robot, "rollout")
    states = flat_states(starts, robot, "rollout")
    single = np.ndim(starts) == 1
    size = len(states)
    count, every = _lengths(step, count, every)
    force = _forces(forces, size, count, robot.dofs)
    common, each = split_overrides(robot, overrides, size)
    parameters = robot_parameters(robot, common)
    if not ignore_friction and np.any(each.get("static_friction", parameters["static_friction"]) > 0):
        raise InputError(
            f"robot {robot.name!r} has dry friction",
            place="rollout",
            hint="use simulate_batch, or pass ignore_friction=True",
        )
    if not {"inertia", "rotor"} & {*(overrides or ())}:
        check_weightless(robot)
    width = 1 if single else host().lanes
    loop = _loop(robot, frozenset(overrides or ()), frozenset(each))
    pieces = force.shape[1]  # forces are constant on each
    course = loop.course(
        width,
        float(step),
        np.full(pieces, count // pieces),
        channels=[("force", i) for i in range(force.shape[2])],
        coefficient=force[:, None],
        every=every,
    )
    known = loop.inputs
    samples = loop.samples(
        width,
        count // every,
        common={name: value for name, value in parameters.items() if name in known},
        each={"state": states} | {name: value for name, value in each.items() if name in known},
        case=np.arange(size) if len(force) > 1 else None,
    )
    code, result = loop.code(width), samples.result
    ensure_loops()

    def chunk(first: int) -> int:
        last = min(first + CHUNK, size)
        roll_samples(code, course, samples, first, last)
        return last - first

    if size <= CHUNK:
        chunk(0)
    else:
        spread(chunk, range(0, size, CHUNK), size, threads=threads, progress=progress)
    bad = np.flatnonzero(~np.isfinite(result[:, -1]).all(axis=1))
    if bad.size:
        warnings.warn(
            f"rollout: {bad.size} of {size} samples ended in numbers that are not finite, the first at index {bad[0]}",
            NonFiniteWarning,
            stacklevel=2,
        )
    return result[0] if single else result


def _lengths(step: float, count: int, every: int | None) -> tuple[int, int]:
    """Numbers of steps, in all and between records."""
    with at("rollout"):
        count = whole(count, "count", least=1)
        positive(step, "step", unit="s")
        return count, count if every is None else whole(every, "every", least=1, most=count)


def _forces(forces: npt.ArrayLike | None, size: int, count: int, dofs: int) -> Array:
    if forces is None:
        return np.zeros((1, 1, 0))
    array = numbers(forces, "forces of the rollout")
    if array.ndim == 1:
        array = array[None, None]
    elif array.ndim == 2:
        array = array[:, None]
    fits = array.ndim == 3 and array.shape[0] in (1, size) and array.shape[1] in (1, count) and array.shape[2] == dofs
    if not fits:
        raise InputError(
            f"forces have shape {np.shape(forces)}",
            place="rollout",
            hint=f"expected ({dofs},), ({size}, {dofs}) or ({size} or 1, {count} or 1, {dofs})",
        )
    return np.ascontiguousarray(array)


def split_overrides(
    robot: Robot, overrides: Mapping[str, npt.ArrayLike] | None, size: int
) -> tuple[dict[str, npt.ArrayLike], dict[str, Array]]:
    """Overrides for all samples, and those given for each sample as (B, size), checked row by row.

    Dampings and frictions may be given for the joints alone, (B, n): the base then has none.
    """
    common: dict[str, npt.ArrayLike] = {}
    each: dict[str, Array] = {}
    own = robot_parameters(robot)
    mapping(overrides or {}, "overrides", "parameter to numbers")
    for name, value in (overrides or {}).items():
        array = numbers(value, f"overrides, {name!r}")
        if array.ndim == 2 and len(array) == size:
            array = with_base(robot, name, array)
        rows = array.ndim > 1 and array.shape[0] == size and name in own and array.size == size * own[name].size
        if rows and not (name == "inertia" and array.ndim == 2 and array.shape[1] == 10):
            each[name] = array.reshape(size, -1)
        else:
            common[name] = array
    frictions = ("static_friction", "coulomb_friction")
    if any(name in each for name in frictions):
        # One of the two may be the same for all: they are judged together, row by row.
        for name in frictions:
            if name not in each:
                same = fitted(robot, name, common.pop(name, own[name]), robot.dofs)
                each[name] = np.array(np.broadcast_to(same, (size, robot.dofs)))
        check_friction(*(each[name] for name in frictions))
    if "inertia" in each:
        check_mass(each["inertia"])
    robot_parameters(robot, common)  # names and sizes
    return common, each
