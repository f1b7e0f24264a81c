"""Phases of several runs at once: each in a vector lane of the motion kernel, with a time and steps of its own.

Nearly all of a phase's time goes into evaluations of its motion kernel, and the kernel for W lanes takes about as long
as that for one. The solver stands still before each evaluation (:func:`spacearm.engine.solver.proceed`): here up to W
phases with the same kernel go on to their next one, are evaluated together, and go on. Nothing else is shared: each has
its own ticks, steps, rejections and events, and none waits for another. What is rare is evaluated alone, as in a run by
itself: trial steps towards events, friction at rest, implicit steps.

A lane gives the bits of the kernel for one (:mod:`spacearm.engine.trace`), and all else is the same machine code: what
flies beside a phase does not change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine._call import block_at, call_entry, call_kernel
from spacearm.engine._lanes import BLOCK, gather_rows, load_double, scatter_rows, store_double
from spacearm.engine.block import ArgumentBlock, block_type
from spacearm.engine.loops import CompiledEntry, compile_inner
from spacearm.engine.machine import host
from spacearm.engine.solver import NEEDED, BoundSolver, SolverCall, integrate_call
from spacearm.engine.system import System
from spacearm.typing import Array

#: In place of a reason: the phase is not over.
UNFINISHED = -6
#: Evaluations after which the loop returns, so that Ctrl-C and time limits are noticed: some tens of milliseconds.
ROUNDS = 10_000


class LanesCall(NamedTuple):
    """All that :func:`fly_lanes` takes."""

    like: SolverCall  # of the type of all phases
    solver: int  # address of the solver's entry
    kernel: int  # address of the kernel for W lanes
    least: int  # of lanes that are taken: with fewer, and no phase that waits for one, it returns
    rounds: int  # evaluations after which it returns
    phases: Any  # (n,) int64: addresses of their blocks
    reasons: Any  # (n,) int64: why they ended, or UNFINISHED
    lanes: Any  # (W,) int64: number of the phase in each lane; -1: none
    rows: Any  # (2, W) int64: addresses of its kernel input and output
    spare: Array  # those of a lane without a phase
    inp: Array  # (n_in * W,)
    out: Array  # (n_out * W,)


@CompiledEntry
def fly_lanes(call: Any) -> int:
    """Phases through the lanes; where one is over, the next one takes its lane."""
    lanes, waiting, changing = call.lanes, 0, 0
    width = lanes.size
    for _ in range(call.rounds):
        taken, new = 0, False
        for lane in range(width):
            # A phase is called up to its next evaluation.
            while lanes[lane] >= 0 or waiting < call.phases.size:
                if lanes[lane] < 0:
                    lanes[lane] = waiting
                    waiting += 1
                    system = block_at(call.phases[lanes[lane]], call.like).system
                    call.rows[0, lane], call.rows[1, lane] = system.work.inp.ctypes.data, system.work.out.ctypes.data
                    changing = max(changing, _changing_inputs(system))
                    new = True
                phase = block_at(call.phases[lanes[lane]], call.like)
                code = call_entry(call.solver, phase)
                if code == NEEDED:
                    taken += 1
                    break
                call.reasons[lanes[lane]] = code
                lanes[lane] = -1
        if taken == 0:
            return 0
        _gather(call.rows[0], call.inp.size // width if new else changing, width, call.inp)
        call_kernel(call.kernel, call.inp, call.out)
        _scatter(call.rows[1], call.out.size // width, width, call.out)
        if taken < call.least and waiting == call.phases.size:
            return 0
    return 0


@compile_inner
def _changing_inputs(system: System) -> int:
    """How many of the motion kernel's inputs, from the first on, may change within a phase."""
    code, last = system.code, system.code.nx - 1
    for target in system.signals.target:
        last = max(last, target)
    for target in system.law.target:
        last = max(last, target)
    for target in system.feedback.target:
        last = max(last, target)
    for target in system.feedback.tied:
        last = max(last, target)
    if system.friction.dof.size > 0:
        last = max(last, max(code.drive, code.mode, code.friction) + code.speed.size - 1)
    return int(last + 1)


@compile_inner
def _gather(rows: Any, count: int, width: int, inp: Array) -> None:
    """The first numbers of each row to the lanes."""
    table, place = rows.ctypes.data, inp.ctypes.data
    # Blocks of four; the last one overlaps the one before where four does not divide the length.
    for first in range(0, count if count >= BLOCK else 0, BLOCK):
        at = min(first, count - BLOCK)
        gather_rows(table, 8 * at, place + 8 * width * at)
    for i in range(count if count < BLOCK else 0):
        for lane in range(width):
            inp[i * width + lane] = load_double(rows[lane] + 8 * i)


@compile_inner
def _scatter(rows: Any, count: int, width: int, out: Array) -> None:
    """The lanes to rows of so many numbers."""
    table, place = rows.ctypes.data, out.ctypes.data
    for first in range(0, count if count >= BLOCK else 0, BLOCK):
        at = min(first, count - BLOCK)
        scatter_rows(place + 8 * width * at, table, 8 * at)
    for i in range(count if count < BLOCK else 0):
        for lane in range(width):
            store_double(rows[lane] + 8 * i, out[i * width + lane])


def can_fly(solver: BoundSolver) -> bool:
    """Whether a phase gains from others beside it: steps that may be implicit call their kernel by themselves."""
    return solver.kernel is not None and solver.call.options.method < 2


def fly(solvers: Sequence[BoundSolver], least: int = 1) -> list[int]:
    """Phases with the same kernel, in lanes, for a while: what the call of each returns, or ``UNFINISHED``.

    It ends when fewer lanes than ``least`` are taken and none of the phases waits for one, at the latest after
    ``ROUNDS`` evaluations. What is unfinished goes on with the next call, in whatever company.
    """
    first, kernel, width = solvers[0], solvers[0].kernel, host().lanes
    assert kernel is not None
    call = lanes_call(first.call, kernel.n_in, kernel.n_out)._replace(
        solver=integrate_call.address(block_type(first.call)),
        kernel=kernel.address(width),
        least=least,
        phases=np.array([solver.block.address for solver in solvers], dtype=np.int64),
        reasons=np.full(len(solvers), UNFINISHED),
    )
    for solver in solvers:
        solver.call.progress.part[1] = 1
    try:
        fly_lanes(ArgumentBlock(call))
    finally:
        for solver in solvers:
            solver.call.progress.part[1] = 0
    return [int(reason) for reason in call.reasons]


def lanes_call(like: SolverCall, n_in: int, n_out: int) -> LanesCall:
    """Empty lanes for a kernel with so many inputs and outputs."""
    width, none = host().lanes, np.zeros(0, dtype=np.int64)
    # Lanes that no phase has taken read and write this.
    spare = np.zeros(max(n_in, n_out, BLOCK))
    rows = np.full((2, width), spare.ctypes.data)
    inp, out = _whole_lines(n_in * width), _whole_lines(n_out * width)
    return LanesCall(like, 0, 0, 1, ROUNDS, none, none, np.full(width, -1), rows, spare, inp, out)


def _whole_lines(size: int) -> Array:
    """Zeros that start on a line of the cache, so that no vector lies across two of them."""
    memory = np.zeros(size + 8)
    skip = (-memory.ctypes.data // 8) % 8
    return memory[skip : skip + size]
