"""DOP853: the explicit Runge-Kutta method of order 8 with errors of orders 5 and 3 and a dense output of order 7.

A step takes 12 evaluations of the rates; the rate at its end is the first one of the next step. Its error is estimated
by two embedded formulas. The interpolant takes three evaluations more and is made only where it is needed: for samples,
events, audits. Interpolants of all methods have the same form, a nested polynomial in ``work.dense`` (7, ny), so that
one function (:func:`dense_value`) reads them.

Rows of ``work.k`` (16, ny): 0 to 11 the stages, 12 the rate at the end of the step, 13 to 15 the stages of the
interpolant. Units are those of the state and its rate; all components are integrated, and the error is taken over the
first ones, as many as there are tolerances. Also here: the first step, and the estimate of the fastest rate by which
stiffness is detected. The control of the step length is in :mod:`spacearm.engine.solver`; quaternions are brought back
to length one there, after the step.

Coefficients: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, 2nd edition, Springer
1993, Sec. II.5 and II.6 (the method is J. R. Dormand's and P. J. Prince's, error estimate and dense output Hairer's).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.engine._call import call_kernel
from spacearm.engine.loops import compile_inner
from spacearm.engine.system import SolverMemory, System, begin_rates, end_rates, rates
from spacearm.typing import Array

# Nodes: 12 stages, the end of the step, three more for the interpolant.
C = np.array(
    (
        0.0,
        0.05260015195876773,
        0.0789002279381516,
        0.1183503419072274,
        0.2816496580927726,
        0.3333333333333333,
        0.25,
        0.3076923076923077,
        0.6512820512820513,
        0.6,
        0.8571428571428571,
        1.0,
        1.0,
        0.1,
        0.2,
        0.7777777777777778,
    )
)
# Row 12 holds the weights of the step itself, rows 13 to 15 are those of the interpolant.
_A_ROWS: tuple[tuple[float, ...], ...] = (
    (),
    (0.05260015195876773,),
    (0.0197250569845379, 0.0591751709536137),
    (0.02958758547680685, 0.0, 0.08876275643042054),
    (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
    (0.037037037037037035, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
    (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
    (
        0.03709200011850479,
        0.0,
        0.0,
        0.17038392571223998,
        0.10726203044637328,
        -0.015319437748624402,
        0.008273789163814023,
    ),
    (
        0.6241109587160757,
        0.0,
        0.0,
        -3.3608926294469414,
        -0.868219346841726,
        27.59209969944671,
        20.154067550477894,
        -43.48988418106996,
    ),
    (
        0.47766253643826434,
        0.0,
        0.0,
        -2.4881146199716677,
        -0.590290826836843,
        21.230051448181193,
        15.279233632882423,
        -33.28821096898486,
        -0.020331201708508627,
    ),
    (
        -0.9371424300859873,
        0.0,
        0.0,
        5.186372428844064,
        1.0914373489967295,
        -8.149787010746927,
        -18.52006565999696,
        22.739487099350505,
        2.4936055526796523,
        -3.0467644718982196,
    ),
    (
        2.273310147516538,
        0.0,
        0.0,
        -10.53449546673725,
        -2.0008720582248625,
        -17.9589318631188,
        27.94888452941996,
        -2.8589982771350235,
        -8.87285693353063,
        12.360567175794303,
        0.6433927460157636,
    ),
    (
        0.054293734116568765,
        0.0,
        0.0,
        0.0,
        0.0,
        4.450312892752409,
        1.8915178993145003,
        -5.801203960010585,
        0.3111643669578199,
        -0.1521609496625161,
        0.20136540080403034,
        0.04471061572777259,
    ),
    (
        0.056167502283047954,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.25350021021662483,
        -0.2462390374708025,
        -0.12419142326381637,
        0.15329179827876568,
        0.00820105229563469,
        0.007567897660545699,
        -0.008298,
    ),
    (
        0.03183464816350214,
        0.0,
        0.0,
        0.0,
        0.0,
        0.028300909672366776,
        0.053541988307438566,
        -0.05492374857139099,
        0.0,
        0.0,
        -0.00010834732869724932,
        0.0003825710908356584,
        -0.00034046500868740456,
        0.1413124436746325,
    ),
    (
        -0.42889630158379194,
        0.0,
        0.0,
        0.0,
        0.0,
        -4.697621415361164,
        7.683421196062599,
        4.06898981839711,
        0.3567271874552811,
        0.0,
        0.0,
        0.0,
        -0.0013990241651590145,
        2.9475147891527724,
        -9.15095847217987,
    ),
)
# Weights of the step's two errors: result of order 8 less that of order 3, and less that of order 5.
E3 = np.array(
    (
        -0.18980075407240762,
        0.0,
        0.0,
        0.0,
        0.0,
        4.450312892752409,
        1.8915178993145003,
        -5.801203960010585,
        -0.4226823213237919,
        -0.1521609496625161,
        0.20136540080403034,
        0.02265179219836082,
    )
)
E5 = np.array(
    (
        0.01312004499419488,
        0.0,
        0.0,
        0.0,
        0.0,
        -1.2251564463762044,
        -0.4957589496572502,
        1.6643771824549864,
        -0.35032884874997366,
        0.3341791187130175,
        0.08192320648511571,
        -0.022355307863886294,
    )
)
# Weights of the four highest rows of the interpolant; the lower three are cubic Hermite.
D = np.array(
    (
        (
            -8.428938276109013,
            0.0,
            0.0,
            0.0,
            0.0,
            0.5667149535193777,
            -3.0689499459498917,
            2.38466765651207,
            2.117034582445028,
            -0.871391583777973,
            2.2404374302607883,
            0.6315787787694688,
            -0.08899033645133331,
            18.148505520854727,
            -9.194632392478356,
            -4.436036387594894,
        ),
        (
            10.427508642579134,
            0.0,
            0.0,
            0.0,
            0.0,
            242.28349177525817,
            165.20045171727028,
            -374.5467547226902,
            -22.113666853125306,
            7.733432668472264,
            -30.674084731089398,
            -9.332130526430229,
            15.697238121770845,
            -31.139403219565178,
            -9.35292435884448,
            35.81684148639408,
        ),
        (
            19.985053242002433,
            0.0,
            0.0,
            0.0,
            0.0,
            -387.0373087493518,
            -189.17813819516758,
            527.8081592054236,
            -11.57390253995963,
            6.8812326946963,
            -1.0006050966910838,
            0.7777137798053443,
            -2.778205752353508,
            -60.19669523126412,
            84.32040550667716,
            11.99229113618279,
        ),
        (
            -25.69393346270375,
            0.0,
            0.0,
            0.0,
            0.0,
            -154.18974869023643,
            -231.5293791760455,
            357.6391179106141,
            93.40532418362432,
            -37.45832313645163,
            104.0996495089623,
            29.8402934266605,
            -43.53345659001114,
            96.32455395918828,
            -39.17726167561544,
            -149.72683625798564,
        ),
    )
)
# Loops over stages below take their bounds from the shape of ``k`` (16 rows): with constant bounds LLVM would unroll
# them all, which costs many seconds of compile time and gains nothing.
A = np.zeros((16, 16))
for _row, _values in enumerate(_A_ROWS):
    A[_row, : len(_values)] = _values


def _places(weights: Array) -> npt.NDArray[np.int64]:
    """Of each row: how many weights are not zero, and where they are."""
    found = np.zeros((weights.shape[0], 1 + weights.shape[1]), dtype=np.int64)
    for row, own in enumerate(weights):
        places = np.flatnonzero(own)
        found[row, 0], found[row, 1 : 1 + places.size] = places.size, places
    return found


A_PLACES, D_PLACES, E_PLACES = _places(A), _places(D), np.array([12, *range(12)])


@compile_inner
def _add_stages(weights: Array, places: npt.NDArray[np.int64], scale: float, k: Array, result: Array) -> None:
    """``result += (scale * weights) @ k``, of those weights that are named, one after the other."""
    # Rows of k are contiguous. Four at a time: the sum stays in a register meanwhile. The order of the sum is that of
    # one at a time.
    size, count, n = result.size, places[0], 1
    while n + 3 <= count:
        p, q, r, s = places[n], places[n + 1], places[n + 2], places[n + 3]
        a, b, c, d = scale * weights[p], scale * weights[q], scale * weights[r], scale * weights[s]
        for i in range(size):
            result[i] = (((result[i] + a * k[p, i]) + b * k[q, i]) + c * k[r, i]) + d * k[s, i]
        n += 4
    while n <= count:
        p = places[n]
        a = scale * weights[p]
        for i in range(size):
            result[i] += a * k[p, i]
        n += 1


@compile_inner
def _combine(y: Array, h: float, k: Array, stages: int, result: Array) -> None:
    """``result = y + h * A[stages, :stages] @ k[:stages]``; row 12 of ``A`` holds the weights of the step."""
    # Sum first, scale by h last: the increments stay of like size, and y is rounded once.
    for i in range(y.size):
        result[i] = 0.0
    _add_stages(A[stages], A_PLACES[stages], 1.0, k, result[: y.size])
    for i in range(y.size):
        result[i] = y[i] + h * result[i]


@compile_inner
def begin_stage(system: System, piece: int, t: float, h: float, stage: int) -> None:
    """The motion kernel's input for a stage, from those before; :func:`end_rates` then gives its row of ``work.k``."""
    work = system.work
    _combine(work.y, h, work.k, stage, work.y_try)
    begin_rates(system, piece, t + C[stage] * h, work.y_try)


@compile_inner
def _evaluate_stage(system: System, piece: int, t: float, h: float, stage: int) -> None:
    begin_stage(system, piece, t, h, stage)
    call_kernel(system.code.address, system.work.inp, system.work.out)
    end_rates(system, system.work.k[stage])


@compile_inner
def dop853_result(work: SolverMemory, h: float, result: Array) -> None:
    """The end of the step, from its 12 stages."""
    _combine(work.y, h, work.k, 12, result)


@compile_inner
# Rows 1 to 11 of A, then row 12 for the result: the rate at its end is row 12 of k and the first one of the next step
# (FSAL), so that a step that is accepted costs eleven evaluations and one.
def dop853_step(system: System, piece: int, t: float, h: float, result: Array) -> None:
    """One step from ``work.y`` at ``t``, whose rate is in ``work.k[0]``, to ``result`` at ``t + h``."""
    for stage in range(1, system.work.k.shape[0] - 4):
        _evaluate_stage(system, piece, t, h, stage)
    dop853_result(system.work, h, result)


@compile_inner
def dop853_error(h: float, work: SolverMemory, rtol: float, atol: Array) -> float:
    """Error of the last step over its tolerance, root mean square: at most 1 is good.

    Components beyond the length of ``atol`` are integrated without error control.
    """
    size, k = atol.size, work.k
    y, y_new, e5, e3 = work.y, work.y_new, work.y_try[:size], work.dy[:size]
    for i in range(size):
        e5[i] = e3[i] = 0.0
    _add_stages(E5, E_PLACES, 1.0, k, e5)
    _add_stages(E3, E_PLACES, 1.0, k, e3)
    sum5 = 0.0
    sum3 = 0.0
    for i in range(size):
        scale = atol[i] + rtol * max(abs(y[i]), abs(y_new[i]))
        sum5 += (e5[i] / scale) ** 2
        sum3 += (e3[i] / scale) ** 2
    if sum5 == 0.0 and sum3 == 0.0:
        return 0.0
    # err5^2 / sqrt(err5^2 + 0.01 err3^2): the ratio of both estimates raises the order to that of the method, 8, and
    # the error of order 3 guards against one of order 5 that is small by chance.
    return float(abs(h) * sum5 / np.sqrt((sum5 + 0.01 * sum3) * size))


@compile_inner
def fastest_rate(system: System, h: float, atol: Array, rtol: float) -> float:
    """Estimate of the largest eigenvalue of the rates, 1/s, from the last step; 0 where rounding hides it.

    Stages 11 and 12 are both at the end of the step, at two slightly different states: the difference of their rates
    over that of the states is a power iteration for free (Hairer, Norsett, Wanner, in their code DOP853). Taken over
    the components of the implicit method, scaled by their tolerances ``atol``.
    """
    work = system.work
    # The state of stage 11 was overwritten: form it again, without a new evaluation.
    _combine(work.y, h, work.k, 11, work.y_try)
    rise = distance = 0.0
    for n in range(system.stiff.index.size):
        if system.stiff.held[n]:
            continue
        i = system.stiff.index[n]
        scale = atol[n] + rtol * abs(work.y[i])
        rise += ((work.k[12, i] - work.k[11, i]) / scale) ** 2
        distance += ((work.y_new[i] - work.y_try[i]) / scale) ** 2
    # Below a thousandth of the tolerance the two states differ by rounding.
    return float(np.sqrt(rise / distance)) if distance > 1e-6 * system.stiff.index.size else 0.0


@compile_inner
def hermite_dense(h: float, work: SolverMemory) -> None:
    """Cubic interpolant of the step from ``work.y`` to ``work.y_new`` with rates ``k[0]`` and ``k[12]``."""
    k, dense = work.k, work.dense
    for i in range(work.y.size):
        rise = work.y_new[i] - work.y[i]
        # Nested form: y + theta (d0 + (1 - theta) (d1 + theta (d2 + ...))).
        dense[0, i] = rise
        dense[1, i] = h * k[0, i] - rise
        dense[2, i] = 2.0 * rise - h * (k[12, i] + k[0, i])
        for row in range(3, dense.shape[0]):
            dense[row, i] = 0.0


@compile_inner
def dop853_dense(system: System, piece: int, t: float, h: float) -> None:
    """Interpolant of order 7 of the last step; needs its 12 stages and the rate at its end in ``k[12]``."""
    for stage in range(13, system.work.k.shape[0]):
        _evaluate_stage(system, piece, t, h, stage)
    dop853_interpolant(h, system.work)


@compile_inner
def dop853_interpolant(h: float, work: SolverMemory) -> None:
    """The same, from all 16 rows of ``k``."""
    k, dense = work.k, work.dense
    hermite_dense(h, work)
    # The terms of degree 4 to 7 vanish with their slopes at both ends and leave the Hermite part as it is.
    for row in range(dense.shape[0] - 3):
        _add_stages(D[row], D_PLACES[row], h, k, dense[3 + row])


@compile_inner
def dense_value(theta: float, y: Array, dense: Array, result: Array) -> None:
    """State ``result`` at the fraction ``theta`` (0 to 1) of the last step from ``y``, whatever its method."""
    # The nested form of E. Hairer, S. P. Norsett, G. Wanner (Solving Ordinary Differential Equations I, II.6): factors
    # theta and 1 - theta in turn, so that both ends of the step are met exactly.
    other = 1.0 - theta
    for i in range(y.size):
        value = dense[6, i] * theta
        value = (value + dense[5, i]) * other
        value = (value + dense[4, i]) * theta
        value = (value + dense[3, i]) * other
        value = (value + dense[2, i]) * theta
        value = (value + dense[1, i]) * other
        value = (value + dense[0, i]) * theta
        result[i] = y[i] + value


@compile_inner
def first_step(system: System, piece: int, t: float, rtol: float, atol: Array) -> float:
    """Length of the first step, s (Hairer, Norsett, Wanner, Sec. II.4); needs the rate in ``work.k[0]``."""
    work = system.work
    y, k = work.y, work.k
    size = y.size
    d0 = 0.0
    d1 = 0.0
    for i in range(size):
        scale = atol[i] + rtol * abs(y[i])
        d0 += (y[i] / scale) ** 2
        d1 += (k[0, i] / scale) ** 2
    # Squares here: 1e-10 is the 1e-5 of the source. An Euler step of h0 changes the state by a hundredth of itself.
    h0 = 1e-6 if d0 <= 1e-10 or d1 <= 1e-10 else 0.01 * np.sqrt(d0 / d1)
    # That Euler step gives the second derivative,
    for i in range(size):
        work.y_try[i] = y[i] + h0 * k[0, i]
    rates(system, piece, t + h0, work.y_try, work.dy)
    d2 = 0.0
    for i in range(size):
        scale = atol[i] + rtol * abs(y[i])
        d2 += ((work.dy[i] - k[0, i]) / scale) ** 2
    # and h1 the length at which a method of order 8 would make an error of 0.01 with derivatives of that size.
    steep = max(np.sqrt(d1 / size), np.sqrt(d2 / size) / h0)
    h1 = max(1e-6, h0 * 1e-3) if steep <= 1e-15 else (0.01 / steep) ** 0.125
    return float(min(100.0 * h0, h1))
