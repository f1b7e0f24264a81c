"""Right-hand sides written by hand, with the interface of a compiled motion kernel, for tests of the loops alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, cfunc, types

from spacearm.engine.friction import begin
from spacearm.engine.loops import interpret
from spacearm.engine.phase import make_audit, make_events, make_record
from spacearm.engine.signals import merge
from spacearm.engine.solver import PAUSED, Options, bind_solver, make_progress
from spacearm.engine.system import MotionKernelCode, System, make_code, make_friction, make_solver_memory

SIGNATURE = types.void(types.CPointer(types.float64), types.CPointer(types.float64))


@cfunc(SIGNATURE)
def blocks2(inp: Any, out: Any) -> None:
    """Two coordinates: M a = force + friction - K x - D v + reaction.

    In: x 2, v 2, force 2, drive 2, mode 2, friction 2, M (m11, m12, m22), K (k11, k12, k22), D (d1, d2).
    Out: rate 4, reaction 2.
    """
    a = carray(inp, 20)
    b = carray(out, 6)
    m11, m12, m22 = a[12], a[13], a[14]
    f1 = a[4] + a[10] - a[15] * a[0] - a[16] * a[1] - a[18] * a[2]
    f2 = a[5] + a[11] - a[16] * a[0] - a[17] * a[1] - a[19] * a[3]
    free1, free2 = a[8] == 0.0, a[9] == 0.0
    a1, a2 = a[6], a[7]
    if free1 and free2:
        det = m11 * m22 - m12 * m12
        a1 = (m22 * f1 - m12 * f2) / det
        a2 = (m11 * f2 - m12 * f1) / det
    elif free1:
        a1 = (f1 - m12 * a2) / m11
    elif free2:
        a2 = (f2 - m12 * a1) / m22
    b[0], b[1], b[2], b[3] = a[2], a[3], a1, a2
    b[4] = 0.0 if free1 else m11 * a1 + m12 * a2 - f1
    b[5] = 0.0 if free2 else m12 * a1 + m22 * a2 - f2


@cfunc(SIGNATURE)
def kepler(inp: Any, out: Any) -> None:
    """Plane two-body problem: state x, y, vx, vy; then force, drive, mode, friction (2 each, unused)."""
    a = carray(inp, 12)
    b = carray(out, 6)
    r2 = a[0] * a[0] + a[1] * a[1]
    r3 = r2 * np.sqrt(r2)
    b[0], b[1], b[2], b[3] = a[2], a[3], -a[0] / r3, -a[1] / r3
    b[4] = b[5] = 0.0


PLACES = {"drive": 6, "mode": 8, "friction": 10, "reaction": 4, "record": 12}
BLOCKS = make_code(blocks2.address, 4, 4, [2, 3], **PLACES)
KEPLER = make_code(kepler.address, 4, 4, [2, 3], **PLACES)


class Result:
    """What a phase left."""

    def __init__(self, code: tuple[Any, ...], audit: Any, work: Any, record: Any, friction: Any) -> None:
        self.reason, self.time, self.step = code
        self.audit = audit
        self.y = work.y.copy()
        self.evaluations = int(work.count[0])
        self.samples = record.y[: record.counts[0]]
        self.inputs = record.inp[: record.counts[0]]
        self.outputs = record.out[: record.counts[0]]
        self.times = record.times[: record.counts[0]]
        self.log = record.log[: record.counts[1]]
        self.steps, self.rejected = int(record.counts[2]), int(record.counts[3])
        self.status = friction.status.copy()


def run_blocks(
    x: Any,
    v: Any,
    end: float,
    *,
    mass: Any = (1.0, 0.0, 1.0),
    stiffness: Any = (0.0, 0.0, 0.0),
    damping: Any = (0.0, 0.0),
    force: Any = (0.0, 0.0),
    static: Any = (0.0, 0.0),
    coulomb: Any = (0.0, 0.0),
    mode: Any = (0.0, 0.0),
    channels: Any = (),
    levels: Any = (),
    functions: Any = None,
    method: int = 1,
    step: float = 0.0,
    rtol: float = 1e-12,
    atol: float = 1e-14,
    times: Any = (),
    max_events: int = 1000,
    max_step: float = np.inf,
    audited: int = 0,
    code: MotionKernelCode = BLOCKS,
    offset: float = 0.0,
) -> Result:
    """``audited``: room for the audit rows of so many steps, which are taken out whenever it is full."""
    inp = np.concatenate([x, v, force, [0, 0], mode, [0, 0], mass, stiffness, damping]).astype(float)
    work = make_solver_memory(inp, 6, code.ny)
    work.y[:] = inp[:4]
    friction = make_friction([0, 1], static, coulomb)
    events = make_events(code, friction, levels, functions, offset)
    system = System(code, merge(list(channels), end), friction, events, work)
    interpret(begin)(system)
    record = make_record(np.array(times, dtype=float), code, 6, max_events=max_events)
    options = Options(method, step, rtol, np.full(code.ny, atol), max_step, 10**6, max_events)
    progress, stop = make_progress(system, options), np.zeros(1, dtype=np.uint8)
    audit, taken = make_audit(code, audited), []
    solve = bind_solver(system, options, progress, record, audit, stop)
    while True:
        reason = solve()
        taken.append(audit[: record.counts[4]].copy())
        record.counts[4] = 0
        if reason != PAUSED:
            return Result((reason, *progress.now[:2]), np.concatenate(taken), work, record, friction)
