"""What a phase leaves behind: samples, the log of events, audit rows for the certificate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine._dop853 import dense_value
from spacearm.engine.loops import compile_inner
from spacearm.engine.radau import B as RADAU_W
from spacearm.engine.radau import C as RADAU_X
from spacearm.engine.system import System, begin_rates, project, rates
from spacearm.typing import Array

#: Gauss-Legendre nodes and weights on (0, 1) by which impulses are summed over a step.
GAUSS_X = 0.5 * (1.0 + np.polynomial.legendre.leggauss(5)[0])
GAUSS_W = 0.5 * np.polynomial.legendre.leggauss(5)[1]
#: Audit rows of a step: its Gauss points, or the stages of an implicit step, and its end.
AUDIT_ROWS = GAUSS_X.size + 1


class DrivePeaks(NamedTuple):
    """The largest forces of drives, with the reactions of what is held, and their power, since the sample before.

    Looked at where steps begin and end: there commands of laws change. Powers are sums over groups of degrees of
    freedom.
    """

    force: int  # offset of the forces in the kernel's input
    group: Any  # (nv,) int64: group in whose power a degree of freedom counts, -1: in none
    latest: Array  # (nv + groups,) at the end of the step
    most: Array  # (s or 0, 2, nv + groups): N, N m or W, and when, s


#: For records that do not want them.
NO_PEAKS = DrivePeaks(0, np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros((0, 2, 0)))


class SampleRecord(NamedTuple):
    """Where a phase writes. Sample times are absolute; samples in [start, end) of a step are taken from it."""

    times: Array  # (s,)
    y: Array  # (s, ny)
    inp: Array  # (s or 0, record)
    out: Array  # (s or 0, n_out)
    log: Array  # (events, 4): time, kind, degree of freedom or number of the watched function, value
    counts: Any  # int64: next sample, events logged, steps, rejected steps, audit rows
    now: Array  # (1,) time reached, s: for whoever watches from another thread
    peaks: DrivePeaks = NO_PEAKS


@compile_inner
def sample(system: System, piece: int, t: float, y: Array, record: SampleRecord) -> None:
    """Keep ``y`` as the next sample, with the kernel's input and output there if they are wanted."""
    # The solver's own last evaluation was at another state: the outputs here need one of their own.
    if record.inp.shape[0] > 0:
        rates(system, piece, t, y, system.work.dy)
    keep_sample(system, t, y, record)


@compile_inner
def keep_sample(system: System, t: float, y: Array, record: SampleRecord) -> None:
    """The same, after an evaluation there."""
    code, work = system.code, system.work
    row = record.counts[0]
    for i in range(code.ny):
        record.y[row, i] = y[i]
    if record.inp.shape[0] > 0:
        for i in range(code.record):
            record.inp[row, i] = work.inp[i]
        for i in range(work.out.size):
            record.out[row, i] = work.out[i]
    record.times[row] = system.events.offset + t
    record.counts[0] = row + 1


@compile_inner
def look_at_drives(system: System, y: Array, peaks: DrivePeaks) -> None:
    """Forces and powers of drives as the last evaluation of the rates, at ``y``, has them."""
    code, work, size = system.code, system.work, peaks.group.size
    for i in range(size, peaks.latest.size):
        peaks.latest[i] = 0.0
    for i in range(size):
        force = abs(work.inp[peaks.force + i] + work.out[code.reaction + i])
        peaks.latest[i] = force
        if peaks.group[i] >= 0:
            # Magnitudes: a motor that brakes feeds nothing back.
            peaks.latest[size + peaks.group[i]] += force * abs(y[code.speed[i]])


@compile_inner
def keep_peaks(system: System, t: float, record: SampleRecord) -> None:
    """Compare what was looked at last, at ``t``, with the largest since the sample before."""
    most, row = record.peaks.most, record.counts[0]
    if row < most.shape[0]:
        for i in range(record.peaks.latest.size):
            if record.peaks.latest[i] > most[row, 0, i]:
                most[row, 0, i] = record.peaks.latest[i]
                most[row, 1, i] = system.events.offset + t


@compile_inner
def next_sample(system: System, piece: int, t: float, h: float, record: SampleRecord) -> float:
    """When the next sample within [t, t + h) is, its state in ``work.y_try``; -1 if there is none."""
    work = system.work
    if record.counts[0] >= record.times.size:
        return -1.0
    wanted = record.times[record.counts[0]] - system.events.offset
    if wanted >= t + h:
        return -1.0
    if wanted <= t:
        for i in range(system.code.ny):
            work.y_try[i] = work.y[i]
        return t
    dense_value((wanted - t) / h, work.y, work.dense, work.y_try)
    project(system, piece, wanted, work.y_try)
    return float(wanted)


@compile_inner
def _audit_point(method: int, point: int) -> tuple[float, float]:
    """Place of a Gauss point in the step, as a fraction, and its weight; the last point is the end."""
    if point >= 5:
        return 1.0, 0.0
    # Quadrature at the points of the method's order: work and impulse are then as exact as the motion.
    return (GAUSS_X[point], GAUSS_W[point]) if method < 2 else (RADAU_X[point], RADAU_W[point])


@compile_inner
def begin_audit(system: System, method: int, piece: int, t: float, h: float, point: int) -> None:
    """The motion kernel's input at a Gauss point of the step, or at its end.

    The stages of an implicit step are known better than what lies between them, where a stiff force would magnify it.
    """
    work = system.work
    theta, _ = _audit_point(method, point)
    if method < 2:
        dense_value(theta, work.y, work.dense, work.y_try)
    else:
        for i in range(system.code.ny):
            work.y_try[i] = work.y[i] + system.stiff.own[min(point, 4), i]
    project(system, piece, t + theta * h, work.y_try)
    begin_rates(system, piece, t + theta * h, work.y_try)


@compile_inner
def keep_audit(system: System, method: int, t: float, h: float, point: int, audit: Array, record: SampleRecord) -> None:
    """Append a row after the evaluation there: (time, weight, input prefix, reactions, energies)."""
    code, work = system.code, system.work
    row = record.counts[4]
    theta, weight = _audit_point(method, point)
    audit[row, 0] = system.events.offset + t + theta * h
    audit[row, 1] = weight * h
    for i in range(code.record):
        audit[row, 2 + i] = work.inp[i]
    for j in range(code.speed.size):
        audit[row, 2 + code.record + j] = work.out[code.reaction + j]
    for i in range(code.nx, code.ny):
        audit[row, 2 + code.record + code.speed.size + i - code.nx] = work.y_try[i]
    record.counts[4] = row + 1


@compile_inner
def log_event(record: SampleRecord, time: float, kind: int, number: int, value: float) -> None:
    row = record.counts[1]
    if row < record.log.shape[0]:
        record.log[row, 0] = time
        record.log[row, 1] = kind
        record.log[row, 2] = number
        record.log[row, 3] = value
    record.counts[1] = row + 1
