"""Radau IIA with five stages: implicit, order 9, for what an explicit method could follow in very short steps only.

The stages of a step solve ``Z = h A F(y + Z)`` by simplified Newton iterations with a Jacobian by differences. In the
eigenvectors of the inverse of A these are one real and two complex systems of the size of the state. Velocities of
bases that move freely are in world axes here: in those of a body that turns, the direction of a stiff force would turn
along, and iterations with one Jacobian would not converge. What is held (locked, stuck by dry friction, on a path) is
known at all stages and is no part of these systems, so that rest stays rest to the last bit. The embedded error is of
order 5, the interpolant goes through the stages. See E. Hairer, G. Wanner, Solving Ordinary Differential Equations II,
2nd edition, Springer 1996, Sec. IV.8, and J. Comput. Appl. Math. 111 (1999) 93.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import legendre

from spacearm.engine.loops import inner
from spacearm.engine.system import STAGES, System, project, rates
from spacearm.typing import Array


def _coefficients() -> tuple[Array, Array]:
    """Nodes c and the matrix A, by Legendre's polynomials."""
    difference = np.zeros(STAGES + 1)
    difference[STAGES - 1], difference[STAGES] = -1.0, 1.0
    x = np.sort(legendre.legroots(difference))
    for _ in range(3):
        x -= legendre.legval(x, difference) / legendre.legval(x, legendre.legder(difference))
    x[-1] = 1.0
    values = legendre.legvander(x, STAGES)
    integrals = np.empty((STAGES, STAGES))
    integrals[:, 0] = 0.5 * (x + 1.0)
    for k in range(1, STAGES):
        integrals[:, k] = (values[:, k + 1] - values[:, k - 1]) / (2.0 * (2 * k + 1))
    matrix: Array = np.linalg.solve(values[:, :STAGES].T, integrals.T).T.astype(np.float64)
    return 0.5 * (x + 1.0), matrix


C, A = _coefficients()
B = A[-1].copy()
INVERSE = np.linalg.inv(A)
_values, _vectors = np.linalg.eig(INVERSE)
# The real eigenvalue, and of each conjugate pair the one with the positive imaginary part.
_order = [int(np.argmin(np.abs(_values.imag))), *(int(i) for i in np.flatnonzero(_values.imag > 1e-6))]
ROOT = float(_values[_order[0]].real)
ROOTS = _values[_order[1:]].copy()
_scaled = np.linalg.inv(_vectors)
INTO = _scaled[_order[0]].real * _vectors[-1, _order[0]].real
BACK = (_vectors[:, _order[0]] / _vectors[-1, _order[0]]).real.copy()
INTO_PAIRS, BACK_PAIRS = _scaled[_order[1:]].copy(), _vectors[:, _order[1:]].T.copy()


def _error_weights() -> Array:
    """Of the stages in the embedded error, beside the rate at the start with the weight 1."""
    moments = C[None, :] ** np.arange(STAGES)[:, None]
    wanted = 1.0 / np.arange(1.0, STAGES + 1.0)
    wanted[0] -= 1.0 / ROOT
    embedded = np.linalg.solve(moments, wanted)
    return np.asarray(ROOT * ((embedded - B) @ INVERSE))


E = _error_weights()
#: From the stages to the rows of ``work.dense``, see :func:`spacearm.engine.dop853.dense_value`.
_basis = np.stack([C, C * (1 - C), C**2 * (1 - C), C**2 * (1 - C) ** 2, C**3 * (1 - C) ** 2], axis=1)
DENSE = np.linalg.inv(_basis)
#: Iterations end where they change the stages by less than this share of the tolerance of a step.
NEWTON = 1e-3
MOST_ITERATIONS = 12
#: The embedded error is of order 5, the step's own of order 9: the tolerance of the one is the 0.6th power of the
#: other's times this (as in Hairer's code RADAU, where it is 0.1; less here: between steps the order is 5 too).
LOOSER = 0.03
#: Share of a component, and of its least size, by which the Jacobian's differences are taken.
NUDGE, LEAST = 3e-10, 1e-3


@inner
def _factor(a: Any, pivot: Any) -> None:
    """LU factors of ``a`` in its place, rows exchanged."""
    n = pivot.size
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[best, k]):
                best = i
        pivot[k] = best
        if best != k:
            for j in range(n):
                a[k, j], a[best, j] = a[best, j], a[k, j]
        if a[k, k] == 0.0:
            continue
        for i in range(k + 1, n):
            if a[i, k] != 0.0:
                share = a[i, k] / a[k, k]
                a[i, k] = share
                for j in range(k + 1, n):
                    a[i, j] -= share * a[k, j]


@inner
def _solve(a: Any, pivot: Any, b: Any) -> None:
    """Solve with the factors, ``b`` in its place."""
    n = pivot.size
    for k in range(n):
        if pivot[k] != k:
            b[k], b[pivot[k]] = b[pivot[k]], b[k]
    for i in range(n):
        for j in range(i):
            if a[i, j] != 0.0:
                b[i] -= a[i, j] * b[j]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if a[i, j] != 0.0:
                b[i] -= a[i, j] * b[j]
        b[i] /= a[i, i]


@inner
def _rotation(y: Array, at: int, turn: Array) -> None:
    """Rotation matrix, row by row, of the quaternion that begins at ``at``."""
    w, a, b, c = y[at], y[at + 1], y[at + 2], y[at + 3]
    two = 2.0 / (w * w + a * a + b * b + c * c)
    turn[0], turn[1], turn[2] = 1.0 - two * (b * b + c * c), two * (a * b - w * c), two * (a * c + w * b)
    turn[3], turn[4], turn[5] = two * (a * b + w * c), 1.0 - two * (a * a + c * c), two * (b * c - w * a)
    turn[6], turn[7], turn[8] = two * (a * c - w * b), two * (b * c + w * a), 1.0 - two * (a * a + b * b)


@inner
def _to_world(turn: Array, y: Array, at: int) -> None:
    """A vector of ``y`` from base to world axes."""
    a, b, c = y[at], y[at + 1], y[at + 2]
    for i in range(3):
        y[at + i] = turn[3 * i] * a + turn[3 * i + 1] * b + turn[3 * i + 2] * c


@inner
def _to_base(turn: Array, y: Array, at: int) -> None:
    a, b, c = y[at], y[at + 1], y[at + 2]
    for i in range(3):
        y[at + i] = turn[i] * a + turn[3 + i] * b + turn[6 + i] * c


@inner
def _rates_to_world(system: System, y: Array, dy: Array) -> None:
    """Rates of ``y`` into those of the same with velocities in world axes."""
    turn = system.stiff.turn
    for k in range(system.stiff.base.shape[0]):
        at = system.stiff.base[k, 1]
        _rotation(y, system.stiff.base[k, 0], turn)
        v0, v1, v2, w0, w1, w2 = y[at], y[at + 1], y[at + 2], y[at + 3], y[at + 4], y[at + 5]
        dy[at] += w1 * v2 - w2 * v1
        dy[at + 1] += w2 * v0 - w0 * v2
        dy[at + 2] += w0 * v1 - w1 * v0
        _to_world(turn, dy, at)
        _to_world(turn, dy, at + 3)


@inner
def _velocities(system: System, y: Array, world: bool) -> None:
    """Velocities of all bases in ``y`` to world axes, or back."""
    turn = system.stiff.turn
    for k in range(system.stiff.base.shape[0]):
        at = system.stiff.base[k, 1]
        _rotation(y, system.stiff.base[k, 0], turn)
        for first in (at, at + 3):
            if world:
                _to_world(turn, y, first)
            else:
                _to_base(turn, y, first)


@inner
def _world_rates(system: System, piece: int, t: float, dy: Array) -> None:
    """Rates at ``stiff.trial``, velocities in world axes in both."""
    stiff, work = system.stiff, system.work
    for i in range(work.y.size):
        work.y_try[i] = stiff.trial[i]
    _velocities(system, work.y_try, False)
    # With quaternions of length one: else velocities, and with them stiff forces, would follow their length.
    project(system, piece, t, work.y_try)
    rates(system, piece, t, work.y_try, dy)
    _rates_to_world(system, work.y_try, dy)


@inner
def _begin(system: System) -> None:
    """State and rate at the start of a step in world axes."""
    stiff, work = system.stiff, system.work
    for i in range(work.y.size):
        stiff.start[i] = work.y[i]
        stiff.rate[i] = work.k[0, i]
    _velocities(system, stiff.start, True)
    _rates_to_world(system, work.y, stiff.rate)


@inner
def renew(system: System) -> None:
    """Forget Jacobian and interpolant where the equations change, and see what is held from here on."""
    stiff, friction = system.stiff, system.friction
    stiff.note[2] = stiff.note[4] = 0.0
    if stiff.index.size == 0:
        return
    for k in range(stiff.held.size):
        stiff.held[k] = stiff.given[k]
    for i in range(friction.dof.size):
        if friction.status[i] == 0:
            stiff.held[system.code.speed[friction.dof[i]]] = True
            if stiff.position[friction.dof[i]] >= 0:
                stiff.held[stiff.position[friction.dof[i]]] = True


@inner
def _differentiate(system: System, piece: int, t: float) -> None:
    """The Jacobian at the start of the step; rows and columns of what is held are zero."""
    stiff, work = system.stiff, system.work
    for i in range(work.y.size):
        stiff.trial[i] = stiff.start[i]
    for j in range(stiff.index.size):
        for i in range(stiff.index.size):
            stiff.jacobian[i, j] = 0.0
        if stiff.held[j]:
            continue
        at = stiff.index[j]
        nudged = stiff.start[at] + NUDGE * max(abs(stiff.start[at]), LEAST)
        stiff.trial[at] = nudged
        _world_rates(system, piece, t, work.dy)
        for i in range(stiff.index.size):
            if not stiff.held[i]:
                rise = work.dy[stiff.index[i]] - stiff.rate[stiff.index[i]]
                stiff.jacobian[i, j] = rise / (nudged - stiff.start[at])
        stiff.trial[at] = stiff.start[at]
    stiff.note[4] = 1.0


@inner
def _decompose(system: System, h: float) -> None:
    """Factors of the real and the complex systems for steps of this length."""
    stiff = system.stiff
    n = stiff.index.size
    for i in range(n):
        for j in range(n):
            stiff.lower[i, j] = -stiff.jacobian[i, j]
            for pair in range(stiff.pairs.shape[0]):
                stiff.pairs[pair, i, j] = -stiff.jacobian[i, j]
        stiff.lower[i, i] += ROOT / h
        for pair in range(stiff.pairs.shape[0]):
            stiff.pairs[pair, i, i] += ROOTS[pair] / h
    _factor(stiff.lower, stiff.pivot[0])
    for pair in range(stiff.pairs.shape[0]):
        _factor(stiff.pairs[pair], stiff.pivot[1 + pair])
    stiff.note[1] = h


@inner
def _predict(system: System, h: float) -> None:
    """Stages to begin with: on the interpolant of the step before, or of a longer step from here; else none."""
    stiff, work, dense = system.stiff, system.work, system.work.dense
    before = stiff.note[2]
    known = before > 0.0 and h <= 3.0 * before
    for stage in range(stiff.z.shape[0]):
        if known:
            theta = stiff.note[3] + C[stage] * h / before
            other = 1.0 - theta
            for i in range(work.y.size):
                value = dense[4, i] * theta
                value = (value + dense[3, i]) * other
                value = (value + dense[2, i]) * theta
                value = (value + dense[1, i]) * other
                work.y_try[i] = work.y[i] + (value + dense[0, i]) * theta - stiff.note[3] * dense[0, i]
            _velocities(system, work.y_try, True)
        for i in range(work.y.size):
            stiff.z[stage, i] = work.y_try[i] - stiff.start[i] if known else 0.0


@inner
def _evaluate(system: System, piece: int, t: float, h: float) -> None:
    """Rates at all stages."""
    stiff = system.stiff
    for i in range(stiff.start.size):
        stiff.trial[i] = stiff.start[i]
    for stage in range(stiff.z.shape[0]):
        for k in range(stiff.index.size):
            if not stiff.held[k]:
                i = stiff.index[k]
                stiff.trial[i] = stiff.start[i] + stiff.z[stage, i]
        _world_rates(system, piece, t + C[stage] * h, stiff.f[stage])


@inner
def _improve(system: System, h: float) -> float:
    """One iteration on all stages; its size against the tolerance."""
    stiff = system.stiff
    n, count = stiff.index.size, stiff.z.shape[0]
    for k in range(n):
        at = stiff.index[k]
        stiff.right[k] = 0.0
        for pair in range(stiff.rights.shape[0]):
            stiff.rights[pair, k] = 0.0
        if stiff.held[k]:
            continue
        for i in range(count):
            gap = stiff.f[i, at]
            for j in range(count):
                gap -= INVERSE[i, j] / h * stiff.z[j, at]
            stiff.right[k] += INTO[i] * gap
            for pair in range(stiff.rights.shape[0]):
                stiff.rights[pair, k] += INTO_PAIRS[pair, i] * gap
    _solve(stiff.lower, stiff.pivot[0], stiff.right)
    for pair in range(stiff.rights.shape[0]):
        _solve(stiff.pairs[pair], stiff.pivot[1 + pair], stiff.rights[pair])
    total = 0.0
    for k in range(n):
        if stiff.held[k]:
            continue
        at = stiff.index[k]
        scale = stiff.tolerance[k] + stiff.note[0] * abs(stiff.start[at])
        for i in range(count):
            change = BACK[i] * stiff.right[k]
            for pair in range(stiff.rights.shape[0]):
                change += 2.0 * (BACK_PAIRS[pair, i] * stiff.rights[pair, k]).real
            stiff.z[i, at] += change
            total += (change / scale) ** 2
    return float(np.sqrt(total / (n * count)))


@inner
def radau_step(system: System, piece: int, t: float, h: float, result: Array) -> bool:
    """One step from ``work.y`` at ``t``, whose rate is in ``work.k[0]``, to ``result``; whether it converged."""
    stiff, work = system.stiff, system.work
    _begin(system)
    if stiff.note[4] == 0.0:
        _differentiate(system, piece, t)
        stiff.note[1] = 0.0
    if stiff.note[1] != h:
        _decompose(system, h)
    _predict(system, h)
    before, good = 0.0, False
    stiff.note[5] = 0.0
    for number in range(MOST_ITERATIONS):
        _evaluate(system, piece, t, h)
        size = _improve(system, h)
        if not np.isfinite(size):
            break
        if number > 0 and before > 0.0:
            ratio = size / before
            stiff.note[5] = max(stiff.note[5], ratio)
            # At the level of rounding they no longer improve.
            if size <= 0.03 and ratio > 0.3:
                good = True
                break
            if ratio >= 1.0 and number > 1:
                break
        if size <= NEWTON:
            good = True
            break
        before = size
    if not good:
        return False
    _evaluate(system, piece, t, h)
    last = stiff.z.shape[0] - 1
    at = 0
    for i in range(work.y.size):
        solved = at < stiff.index.size and stiff.index[at] == i
        if solved:
            solved = not stiff.held[at]
            at += 1
        if not solved:
            for stage in range(last + 1):
                stiff.z[stage, i] = 0.0
                for j in range(last + 1):
                    stiff.z[stage, i] += h * A[stage, j] * stiff.f[j, i]
    for stage in range(last + 1):
        for i in range(work.y.size):
            work.y_try[i] = stiff.start[i] + stiff.z[stage, i]
        _velocities(system, work.y_try, False)
        for i in range(work.y.size):
            stiff.own[stage, i] = work.y_try[i] - work.y[i]
    for i in range(work.y.size):
        result[i] = work.y[i] + stiff.own[last, i]
    return True


@inner
def radau_error(system: System, piece: int, t: float, h: float) -> float:
    """Error of the last step against its tolerance: at most 1 is good. What looks bad is judged a second time."""
    stiff, work = system.stiff, system.work
    n, value = stiff.index.size, 0.0
    for turn in range(2):
        if turn == 1:
            if value <= 1.0:
                break
            for i in range(work.y.size):
                stiff.trial[i] = stiff.start[i]
            for k in range(n):
                stiff.trial[stiff.index[k]] += stiff.error[k]  # none of what is held
            _world_rates(system, piece, t, work.dy)
        total = 0.0
        for k in range(n):
            at = stiff.index[k]
            stiff.error[k] = 0.0
            if stiff.held[k]:
                continue
            stiff.error[k] = work.dy[at] if turn == 1 else stiff.rate[at]
            for j in range(stiff.z.shape[0]):
                stiff.error[k] += E[j] / h * stiff.z[j, at]
        _solve(stiff.lower, stiff.pivot[0], stiff.error)
        for k in range(n):
            at = stiff.index[k]
            largest = max(abs(stiff.start[at]), abs(stiff.start[at] + stiff.z[stiff.z.shape[0] - 1, at]))
            total += (stiff.error[k] / (stiff.tolerance[k] + stiff.note[0] * largest)) ** 2
        value = np.sqrt(total / n) / max(1.0, LOOSER * stiff.note[0] ** -0.4)
    return float(value)


@inner
def radau_dense(system: System, h: float) -> None:
    """The polynomial through the stages of the last step."""
    stiff, dense = system.stiff, system.work.dense
    count = stiff.z.shape[0]
    for i in range(stiff.own.shape[1]):
        for row in range(dense.shape[0]):
            dense[row, i] = 0.0
        for row in range(count):
            for j in range(count):
                dense[row, i] += DENSE[row, j] * stiff.own[j, i]
    stiff.note[2], stiff.note[3] = h, 0.0
