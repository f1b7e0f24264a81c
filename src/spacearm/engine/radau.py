"""Radau IIA with five stages: an implicit Runge-Kutta step of order 9 for stiff phases.

It serves where stability, not accuracy, would limit an explicit method to very short steps. The stages of a step solve
``Z = h A F(y + Z)``, Z being the five stages less the start. They are found by simplified Newton iterations: one
Jacobian, by differences, for all stages and often for several steps. In the eigenvectors of the inverse of A the linear
system of 5 n equations falls into one real and two complex systems of n equations.

Velocities of bases that move freely are in world axes here: in the axes of a rotating body the direction of a stiff
force would rotate along, and iterations with one Jacobian would not converge. Everywhere else in the engine they are in
base axes; :func:`_radau_step` converts on entry and on return. What is held (locked, stuck by dry friction, on a path)
is known at all stages and is not part of these systems, so that rest stays rest to the last bit.

The embedded error is of order 5; the interpolant is the polynomial through the start and the stages. Arrays: ``y``
(ny,), stages (5, ny), Jacobian and factors (n, n) over the components ``stiff.index``, see
:class:`spacearm.engine.system.ImplicitMemory`. Not done here: a choice of the order, sparse factors, an analytic
Jacobian, mass matrices (the rates are explicit).

See E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, 2nd edition, Springer 1996, Sec. IV.8, and J.
Comput. Appl. Math. 111 (1999) 93.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import legendre

from spacearm.engine._call import call_entry
from spacearm.engine.loops import CompiledEntry, compile_inner
from spacearm.engine.system import STAGES, System, project, rates
from spacearm.typing import Array


def _coefficients() -> tuple[Array, Array]:
    """Nodes c (5,) and matrix A (5, 5) of the collocation method on [0, 1], last node at 1."""
    # The nodes are the zeros of P_5 - P_4 on [-1, 1], mapped to [0, 1].
    difference = np.zeros(STAGES + 1)
    difference[STAGES - 1], difference[STAGES] = -1.0, 1.0
    x = np.sort(legendre.legroots(difference).real)  # NumPy from 2.5 on gives real roots as complex numbers
    # Roots by eigenvalues are off by a few units in the last place; Newton steps remove that.
    for _ in range(3):
        x -= legendre.legval(x, difference) / legendre.legval(x, legendre.legder(difference))
    x[-1] = 1.0
    # Row i of A holds the integrals from 0 to c_i of the Lagrange polynomials. Integrate Legendre polynomials, in
    # closed form, and change the basis: powers of c would be worse conditioned.
    values = legendre.legvander(x, STAGES)
    integrals = np.empty((STAGES, STAGES))
    integrals[:, 0] = 0.5 * (x + 1.0)
    for k in range(1, STAGES):
        integrals[:, k] = (values[:, k + 1] - values[:, k - 1]) / (2.0 * (2 * k + 1))
    matrix: Array = np.linalg.solve(values[:, :STAGES].T, integrals.T).T.astype(np.float64)
    return 0.5 * (x + 1.0), matrix


C, A = _coefficients()
# The last node is 1, so the last stage is the result of the step (stiffly accurate) and its row of A the weights.
B = A[-1].copy()
INVERSE = np.linalg.inv(A)
# With inverse(A) = T diag(lambda) inverse(T), Newton's system (inverse(A) / h - J) dZ = r becomes (lambda / h - J) dW =
# inverse(T) r for each eigenvalue by itself, and dZ = T dW.
_values, _vectors = np.linalg.eig(INVERSE)
# The real eigenvalue, and of each conjugate pair the one with the positive imaginary part.
_order = [int(np.argmin(np.abs(_values.imag))), *(int(i) for i in np.flatnonzero(_values.imag > 1e-6))]
ROOT = float(_values[_order[0]].real)
ROOTS = _values[_order[1:]].copy()
_scaled = np.linalg.inv(_vectors)
# INTO is the row of inverse(T), BACK the column of T, for the real eigenvalue; scaled to BACK[-1] = 1, their product
# stays the same.
INTO = _scaled[_order[0]].real * _vectors[-1, _order[0]].real
BACK = (_vectors[:, _order[0]] / _vectors[-1, _order[0]]).real.copy()
# Of a conjugate pair one member is enough: the other adds the conjugate, so that twice the real part counts.
INTO_PAIRS, BACK_PAIRS = _scaled[_order[1:]].copy(), _vectors[:, _order[1:]].T.copy()


def _error_weights() -> Array:
    """Weights (5,) of the stages in the embedded error; the rate at the start has the weight 1."""
    # The embedded quadrature has the nodes 0 and c. Its weight at 0 is 1 / ROOT, so that the error can be solved with
    # the factors of the real system, which are there already; the others follow from the conditions of order 1 to 5.
    moments = C[None, :] ** np.arange(STAGES)[:, None]
    wanted = 1.0 / np.arange(1.0, STAGES + 1.0)
    wanted[0] -= 1.0 / ROOT
    embedded = np.linalg.solve(moments, wanted)
    # h F = inverse(A) Z gives the difference of both formulas by the stages alone; ROOT scales for that solve.
    return np.asarray(ROOT * ((embedded - B) @ INVERSE))


E = _error_weights()
#: From the stages to the rows of ``work.dense``, see :func:`spacearm.engine._dop853.dense_value`.
# The powers of theta and 1 - theta in which dense_value nests its rows; two of its seven rows stay zero here.
_basis = np.stack([C, C * (1 - C), C**2 * (1 - C), C**2 * (1 - C) ** 2, C**3 * (1 - C) ** 2], axis=1)
DENSE = np.linalg.inv(_basis)
#: Iterations end where they change the stages by less than this share of the tolerance of a step.
NEWTON = 1e-3
MOST_ITERATIONS = 12
#: The embedded error is of order 5, the step's own of order 9: the tolerance of the one is the 0.6th power of the
#: other's times this (as in Hairer's code RADAU, where it is 0.1; less here: between steps the order is 5 too).
LOOSER = 0.03
#: Share of a component, and of its least size, by which the Jacobian's differences are taken.
# A Jacobian with a relative error of 1e-6 (rounding over NUDGE) does: it affects how fast iterations converge, not what
# they converge to.
NUDGE, LEAST = 3e-10, 1e-3


@compile_inner
def _factor(a: Any, pivot: Any) -> None:
    """Overwrite ``a`` (n, n), real or complex, by its LU factors with partial pivoting, row exchanges in ``pivot``."""
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
        # A singular matrix is not an error here: the solution becomes infinite, and the step is rejected for that.
        if a[k, k] == 0.0:
            continue
        for i in range(k + 1, n):
            # Rows of positions and of what is held are mostly zero: skip them.
            if a[i, k] != 0.0:
                share = a[i, k] / a[k, k]
                a[i, k] = share
                for j in range(k + 1, n):
                    a[i, j] -= share * a[k, j]


@compile_inner
def _solve(a: Any, pivot: Any, b: Any) -> None:
    """Overwrite ``b`` (n,) by the solution, with the factors of :func:`_factor`."""
    n = pivot.size
    # Whole rows were exchanged, multipliers included, so all exchanges come first.
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


@compile_inner
def _rotation(y: Array, at: int, rotation: Array) -> None:
    """Rotation matrix from base to world axes, (9,) row by row, of the quaternion (w, x, y, z) at ``at``."""
    w, a, b, c = y[at], y[at + 1], y[at + 2], y[at + 3]
    # Divided by the length: a quaternion between stages is not of length one, the matrix has to be a rotation.
    two = 2.0 / (w * w + a * a + b * b + c * c)
    rotation[0], rotation[1], rotation[2] = 1.0 - two * (b * b + c * c), two * (a * b - w * c), two * (a * c + w * b)
    rotation[3], rotation[4], rotation[5] = two * (a * b + w * c), 1.0 - two * (a * a + c * c), two * (b * c - w * a)
    rotation[6], rotation[7], rotation[8] = two * (a * c - w * b), two * (b * c + w * a), 1.0 - two * (a * a + b * b)


@compile_inner
def _to_world(rotation: Array, y: Array, at: int) -> None:
    """A vector of ``y`` from base to world axes."""
    a, b, c = y[at], y[at + 1], y[at + 2]
    for i in range(3):
        y[at + i] = rotation[3 * i] * a + rotation[3 * i + 1] * b + rotation[3 * i + 2] * c


@compile_inner
def _to_base(rotation: Array, y: Array, at: int) -> None:
    """A vector of ``y`` from world to base axes: the transpose of :func:`_to_world`."""
    a, b, c = y[at], y[at + 1], y[at + 2]
    for i in range(3):
        y[at + i] = rotation[i] * a + rotation[3 + i] * b + rotation[6 + i] * c


@compile_inner
def _rates_to_world(system: System, y: Array, dy: Array) -> None:
    """Convert the rates ``dy`` of ``y``, both in base axes, to rates of the velocities in world axes, in place."""
    rotation = system.stiff.rotation
    for k in range(system.stiff.base.shape[0]):
        at = system.stiff.base[k, 1]
        _rotation(y, system.stiff.base[k, 0], rotation)
        v0, v1, v2, w0, w1, w2 = y[at], y[at + 1], y[at + 2], y[at + 3], y[at + 4], y[at + 5]
        # d/dt (R v) = R (dv/dt + w x v); for the angular velocity itself w x w is zero.
        dy[at] += w1 * v2 - w2 * v1
        dy[at + 1] += w2 * v0 - w0 * v2
        dy[at + 2] += w0 * v1 - w1 * v0
        _to_world(rotation, dy, at)
        _to_world(rotation, dy, at + 3)


@compile_inner
def _velocities(system: System, y: Array, world: bool) -> None:
    """Velocities of all bases in ``y`` to world axes, or back."""
    rotation = system.stiff.rotation
    for k in range(system.stiff.base.shape[0]):
        at = system.stiff.base[k, 1]
        _rotation(y, system.stiff.base[k, 0], rotation)
        for first in (at, at + 3):
            if world:
                _to_world(rotation, y, first)
            else:
                _to_base(rotation, y, first)


@compile_inner
def _world_rates(system: System, piece: int, t: float, dy: Array) -> None:
    """Rates ``dy`` at the state ``stiff.trial``; the velocities of both are in world axes."""
    stiff, work = system.stiff, system.work
    for i in range(work.y.size):
        work.y_try[i] = stiff.trial[i]
    _velocities(system, work.y_try, False)
    # With quaternions of length one: else velocities, and with them stiff forces, would follow their length.
    project(system, piece, t, work.y_try)
    rates(system, piece, t, work.y_try, dy)
    _rates_to_world(system, work.y_try, dy)


@compile_inner
def _begin(system: System) -> None:
    """State and rate at the start of a step in world axes."""
    stiff, work = system.stiff, system.work
    for i in range(work.y.size):
        stiff.start[i] = work.y[i]
        stiff.rate[i] = work.k[0, i]
    _velocities(system, stiff.start, True)
    _rates_to_world(system, work.y, stiff.rate)


@compile_inner
def renew(system: System) -> None:
    """Drop Jacobian and interpolant where the equations change, and list anew what is held (``stiff.held``)."""
    stiff, friction = system.stiff, system.friction
    stiff.note[2] = stiff.note[4] = 0.0
    if stiff.index.size == 0:
        return
    for k in range(stiff.held.size):
        stiff.held[k] = stiff.given[k]
    # A stuck joint keeps its speed at zero and with it its position. The state comes first in ``stiff.index``, so a
    # place in y is a place there too.
    for i in range(friction.dof.size):
        if friction.status[i] == 0:
            stiff.held[system.code.speed[friction.dof[i]]] = True
            if stiff.position[friction.dof[i]] >= 0:
                stiff.held[stiff.position[friction.dof[i]]] = True


@compile_inner
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
        # A component near zero gets a step of its own least size, else the difference would be rounding alone.
        nudged = stiff.start[at] + NUDGE * max(abs(stiff.start[at]), LEAST)
        stiff.trial[at] = nudged
        _world_rates(system, piece, t, work.dy)
        for i in range(stiff.index.size):
            if not stiff.held[i]:
                # Divided below by the difference of the two numbers as stored, not by the step that was meant.
                rise = work.dy[stiff.index[i]] - stiff.rate[stiff.index[i]]
                stiff.jacobian[i, j] = rise / (nudged - stiff.start[at])
        stiff.trial[at] = stiff.start[at]
    stiff.note[4] = 1.0


@compile_inner
def _decompose(system: System, h: float) -> None:
    """Factors of the real and the complex systems for steps of this length."""
    stiff = system.stiff
    n = stiff.index.size
    for i in range(n):
        for j in range(n):
            stiff.lower[i, j] = -stiff.jacobian[i, j]
            for pair in range(stiff.pairs.shape[0]):
                stiff.pairs[pair, i, j] = -stiff.jacobian[i, j]
        # Divided by h rather than multiplied by h J: the Jacobian is copied as it is, and only the diagonal depends on
        # h.
        stiff.lower[i, i] += ROOT / h
        for pair in range(stiff.pairs.shape[0]):
            stiff.pairs[pair, i, i] += ROOTS[pair] / h
    _factor(stiff.lower, stiff.pivot[0])
    for pair in range(stiff.pairs.shape[0]):
        _factor(stiff.pairs[pair], stiff.pivot[1 + pair])
    stiff.note[1] = h


@compile_inner
def _predict(system: System, h: float) -> None:
    """First guess of the stages: from the interpolant of the step before, or of a longer step from here; else zero."""
    stiff, work, dense = system.stiff, system.work, system.work.dense
    before = stiff.note[2]
    # Far outside its step the polynomial is worse than no guess at all.
    known = before > 0.0 and h <= 3.0 * before
    for stage in range(stiff.z.shape[0]):
        if known:
            # note[3] is 1 where the interpolant ends at y (stages lie beyond it), 0 where it begins there (they lie
            # inside).
            theta = stiff.note[3] + C[stage] * h / before
            other = 1.0 - theta
            for i in range(work.y.size):
                value = dense[4, i] * theta
                value = (value + dense[3, i]) * other
                value = (value + dense[2, i]) * theta
                value = (value + dense[1, i]) * other
                # dense[0] is the rise over its whole step: without it the polynomial counts from where that step began.
                work.y_try[i] = work.y[i] + (value + dense[0, i]) * theta - stiff.note[3] * dense[0, i]
            _velocities(system, work.y_try, True)
        for i in range(work.y.size):
            stiff.z[stage, i] = work.y_try[i] - stiff.start[i] if known else 0.0


@compile_inner
def _evaluate(system: System, piece: int, t: float, h: float) -> None:
    """Rates ``stiff.f`` (5, ny) at all stages; what is held follows its path or stays as at the start."""
    stiff = system.stiff
    for i in range(stiff.start.size):
        stiff.trial[i] = stiff.start[i]
    for stage in range(stiff.z.shape[0]):
        for k in range(stiff.index.size):
            if not stiff.held[k]:
                i = stiff.index[k]
                # The unknowns are increments: small against the state, they keep digits that differences of states
                # would lose (E. Hairer, G. Wanner, Solving Ordinary Differential Equations II, IV.8).
                stiff.trial[i] = stiff.start[i] + stiff.z[stage, i]
        _world_rates(system, piece, t + C[stage] * h, stiff.f[stage])


@compile_inner
def _improve(system: System, h: float) -> float:
    """One Newton iteration on all stages; returns the root mean square of the change over the tolerance."""
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
            # Residual of F(y + Z) - inverse(hA) Z = 0, multiplied by inverse(T) at once.
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
            # dZ = T dW; a conjugate pair counts twice its real part.
            change = BACK[i] * stiff.right[k]
            for pair in range(stiff.rights.shape[0]):
                change += 2.0 * (BACK_PAIRS[pair, i] * stiff.rights[pair, k]).real
            stiff.z[i, at] += change
            total += (change / scale) ** 2
    return float(np.sqrt(total / (n * count)))


@compile_inner
def _radau_step(system: System, piece: int, t: float, h: float, result: Array) -> bool:
    """One step from ``work.y`` at ``t``, whose rate is in ``work.k[0]``, to ``result``; whether it converged."""
    stiff, work = system.stiff, system.work
    _begin(system)
    # Jacobian (note[4]) and factors (note[1], the step they belong to) are renewed as rarely as convergence allows.
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
            # The first ratio compares with the error of the guess and proves nothing yet.
            if ratio >= 1.0 and number > 1:
                break
        if size <= NEWTON:
            good = True
            break
        before = size
    if not good:
        return False
    # Rates at the stages as they are now, for what is integrated after the iterations.
    _evaluate(system, piece, t, h)
    last = stiff.z.shape[0] - 1
    at = 0
    # What no rate depends on (energies) and what is held is not part of Newton's system: its stages are plain
    # quadratures of known rates, Z = h A F.
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
    # Stages back to base axes, each by its own orientation; the interpolant goes through these.
    for stage in range(last + 1):
        for i in range(work.y.size):
            work.y_try[i] = stiff.start[i] + stiff.z[stage, i]
        _velocities(system, work.y_try, False)
        for i in range(work.y.size):
            stiff.own[stage, i] = work.y_try[i] - work.y[i]
    for i in range(work.y.size):
        result[i] = work.y[i] + stiff.own[last, i]
    return True


@compile_inner
def _radau_error(system: System, piece: int, t: float, h: float) -> float:
    """Error of the last step over its tolerance, root mean square: at most 1 is good.

    The difference to the embedded formula is filtered by the inverse of ``I - h J / ROOT``, so that it stays bounded
    for stiff components. An error above 1 is estimated once more with the rate at ``start + error`` in place of that
    at the start, which removes what a stiff transient adds to the first estimate (Hairer, Wanner, Sec. IV.8).
    """
    stiff, work = system.stiff, system.work
    n, value = stiff.index.size, 0.0
    for attempt in range(2):
        if attempt == 1:
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
            stiff.error[k] = work.dy[at] if attempt == 1 else stiff.rate[at]
            for j in range(stiff.z.shape[0]):
                stiff.error[k] += E[j] / h * stiff.z[j, at]
        _solve(stiff.lower, stiff.pivot[0], stiff.error)
        for k in range(n):
            at = stiff.index[k]
            largest = max(abs(stiff.start[at]), abs(stiff.start[at] + stiff.z[stiff.z.shape[0] - 1, at]))
            total += (stiff.error[k] / (stiff.tolerance[k] + stiff.note[0] * largest)) ** 2
        # Never stricter than what was asked for, whatever LOOSER gives at a coarse tolerance.
        value = np.sqrt(total / n) / max(1.0, LOOSER * stiff.note[0] ** -0.4)
    return float(value)


@compile_inner
def _radau_dense(system: System, h: float) -> None:
    """Interpolant of the last step in ``work.dense``: the polynomial of degree 5 through its start and its stages."""
    stiff, dense = system.stiff, system.work.dense
    count = stiff.z.shape[0]
    for i in range(stiff.own.shape[1]):
        for row in range(dense.shape[0]):
            dense[row, i] = 0.0
        for row in range(count):
            for j in range(count):
                dense[row, i] += DENSE[row, j] * stiff.own[j, i]
    stiff.note[2], stiff.note[3] = h, 0.0


#: What the method is asked to do: a step to ``y_new`` (its answer: whether it converged), the error of the last step,
#: the interpolant of the last step.
STEP, ERROR, DENSE_OUTPUT = 0, 1, 2


@CompiledEntry
def implicit_call(system: Any) -> int:
    """The method as code of its own, so that only runs that may be stiff wait for it to be compiled."""
    task = system.stiff.task
    piece, t, h = int(task[1]), task[2], task[3]
    if task[0] == STEP:
        task[4] = 1.0 if _radau_step(system, piece, t, h, system.work.y_new) else 0.0
    elif task[0] == ERROR:
        task[4] = _radau_error(system, piece, t, h)
    else:
        _radau_dense(system, h)
    return 0


@compile_inner
def ask_radau(system: System, what: int, piece: int, t: float, h: float) -> float:
    """Have the method do this; its answer."""
    task = system.stiff.task
    task[0], task[1], task[2], task[3] = what, piece, t, h
    call_entry(system.stiff.address, system)
    return float(task[4])
