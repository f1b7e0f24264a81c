"""The fixed-step loop on small systems with closed forms, and beside SciPy: inputs, laws, observers, derivatives."""

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from spacearm.engine import _batch, fixed_step
from spacearm.engine.fixed_step import FixedStep, StepSymbols, Update, roll, roll_samples
from spacearm.engine.machine import host
from spacearm.engine.schedule import Schedule
from spacearm.mechanics.program import Program


def oscillator() -> Program:
    """x'' = -k x + force."""
    state, k, force = ca.SX.sym("state", 2), ca.SX.sym("k", 1), ca.SX.sym("force", 1)
    rate = ca.vertcat(state[1], -k * state[0] + force)
    return Program("oscillator", {"state": state, "k": k, "force": force}, {"rate": rate})


def starts(count: int = 11) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(count, 2)), rng.uniform(0.5, 4.0, (count, 1))


@pytest.mark.parametrize("width", [1, host().lanes])
def test_free_motion_is_the_cosine(width: int) -> None:
    loop = FixedStep(StepSymbols(oscillator(), quaternions=()))
    x, k = starts()
    samples = loop.samples(width, 20, common={}, each={"state": x, "k": k})
    roll_samples(
        loop.code(width), loop.make_schedule(width, Schedule([200], np.array([0.005])), 10), samples, 0, len(x)
    )
    t, w = 0.05 * np.arange(1, 21), np.sqrt(k)
    expected = x[:, :1] * np.cos(w * t) + x[:, 1:] / w * np.sin(w * t)
    assert np.abs(samples.result[:, :, 0] - expected).max() < 1e-9


def test_a_sample_does_not_depend_on_its_lane() -> None:
    loop = FixedStep(StepSymbols(oscillator(), quaternions=()))
    x, k = starts(19)
    found = []
    for width in (1, host().lanes):
        samples = loop.samples(width, 1, common={}, each={"state": x, "k": k})
        roll_samples(
            loop.code(width), loop.make_schedule(width, Schedule([70], np.array([0.02])), 70), samples, 0, len(x)
        )
        found.append(samples.result)
    np.testing.assert_array_equal(*found)


def test_inputs_are_polynomials_on_pieces_and_by_case() -> None:
    loop = FixedStep(StepSymbols(oscillator(), quaternions=()))
    x, k = starts()
    rng = np.random.default_rng(4)
    table = rng.normal(size=(2, 3, 2, 1))  # cases, powers, pieces, channels
    width = host().lanes
    case = np.arange(len(x)) % 2
    schedule = loop.make_schedule(width, Schedule([30, 80], np.array([0.01, 0.005]), ("force",), table))
    samples = loop.samples(width, 2, common={}, each={"state": x, "k": k}, case=case)
    roll_samples(loop.code(width), schedule, samples, 0, len(x))
    for b in range(len(x)):
        y = x[b]
        for piece, length in enumerate((0.3, 0.4)):

            def rate(t: float, y: np.ndarray, c: np.ndarray = table[case[b], :, piece, 0], b: int = b) -> list[float]:
                return [y[1], -k[b, 0] * y[0] + c[0] + c[1] * t + c[2] * t * t]

            y = solve_ivp(rate, (0.0, length), y, rtol=1e-12, atol=1e-12).y[:, -1]
            np.testing.assert_allclose(samples.result[b, piece], y, atol=1e-9)


@pytest.mark.parametrize("hold", [1, 4])
def test_a_sampled_law_is_the_discrete_system(hold: int) -> None:
    """Force -g (x + x') - h * sum held over the period: powers of a matrix in closed form, the integrator with it."""
    symbols = StepSymbols(oscillator(), quaternions=())
    gain, weight, total = 0.7, 0.2, ca.SX.sym("total", 1)
    summed = total + symbols.state[0]
    law = Update(
        {"force": -gain * (symbols.state[0] + symbols.state[1]) - weight * summed, "total": summed}, {"total": total}
    )
    loop = FixedStep(symbols, uniform=("k",), law=law)
    x, _ = starts()
    width, step, count = host().lanes, 0.005, 60
    samples = loop.samples(width, 1, common={"k": np.ones(1)}, each={"state": x}, kept=("total",))
    schedule = loop.make_schedule(width, Schedule([count], np.array([step]), hold=hold), count)
    roll_samples(loop.code(width), schedule, samples, 0, len(x))
    continuous = np.zeros((3, 3))
    continuous[:2] = [[0, 1, 0], [-1, 0, 1]]
    flow = expm(continuous * step * hold)
    period = np.zeros((3, 3))  # x, v, sum
    ask = np.array([[1, 0, 0], [0, 1, 0], [-gain - weight, -gain, -weight]])
    period[:2] = flow[:2] @ ask
    period[2] = [1, 0, 1]
    end = np.linalg.matrix_power(period, count // hold) @ np.column_stack([x, np.zeros(len(x))]).T
    np.testing.assert_allclose(samples.result[:, 0], end[:2].T, atol=1e-9)
    np.testing.assert_allclose(samples.end[:, 0], end[2], atol=1e-9)


def test_an_observer_sees_every_step_and_both_sides_of_a_jump() -> None:
    """The largest acceleration under a force that acts in the first piece only, up to its very end."""
    symbols = StepSymbols(oscillator(), quaternions=())
    peak = ca.SX.sym("peak", 1)
    observer = Update({"peak": ca.fmax(peak, symbols.rate[1])}, {"peak": peak})
    loop = FixedStep(symbols, observer=observer)
    width = host().lanes
    force = np.array([[[[3.0], [0.0]]]])
    schedule = loop.make_schedule(width, Schedule([300, 100], np.full(2, 0.01), ("force",), force))
    x = np.array([[3.5, 0.0], [0.0, 0.0]])
    common = {"k": np.ones(1), "peak": np.array([-np.inf])}
    samples = loop.samples(width, 2, common=common, each={"state": x}, kept=("peak",))
    roll_samples(loop.code(width), schedule, samples, 0, 2)
    # x = 3 + a cos t: x'' = -a cos t, largest at the very end of the first piece for a > 0; at its start for a = -3
    assert samples.end[0, 0] == pytest.approx(-0.5 * np.cos(3.0), abs=1e-8)
    assert samples.end[1, 0] == pytest.approx(3.0, abs=1e-12)


def test_derivatives_are_carried_along() -> None:
    """d/dk of the cosine, k in one lane and the start in the other, with the motion itself the same in both."""
    motion = oscillator().tangent({"state": None, "k": None}, ["rate"])
    symbols = StepSymbols(motion, quaternions=())
    loop = FixedStep(symbols, uniform=[name for name in symbols.inputs if "d_" not in name])
    x0, k, t = np.array([0.8, -0.3]), 2.0, 1.5
    width = 2
    array = loop.allocate_inputs(width, {"state": x0, "k": np.array([k])})
    at = loop.place("d_k", width)
    array[at] = 1.0
    at = loop.place("d_state", width)
    array[at + 1] = 1.0  # d x0, lane 1
    rows = np.empty((1, 4))
    recorded = np.array([[at, 4]])
    roll(
        loop.code(width),
        loop.make_schedule(width, Schedule([300], np.array([0.005])), 300),
        np.zeros(2, np.int64),
        array,
        recorded,
        rows,
    )
    w = np.sqrt(k)
    s, c = np.sin(w * t), np.cos(w * t)
    by_k = (-x0[0] * t * s + x0[1] * (t * c / w - s / w**2)) / (2 * w)
    assert rows[0, 0] == pytest.approx(by_k, abs=1e-9)
    assert rows[0, 1] == pytest.approx(c, abs=1e-9)


def test_quaternions_keep_their_length_and_their_derivatives_stay_tangent() -> None:
    q, w = ca.SX.sym("state", 4), ca.SX.sym("w", 3)
    matrix = 0.5 * ca.vertcat(
        ca.horzcat(0, -w[0], -w[1], -w[2]), ca.horzcat(w[0], 0, w[2], -w[1]),
        ca.horzcat(w[1], -w[2], 0, w[0]), ca.horzcat(w[2], w[1], -w[0], 0),
    )  # fmt: skip
    loop = FixedStep(StepSymbols(Program("turning", {"state": q, "w": w}, {"rate": matrix @ q}), quaternions=(0,)))
    width = host().lanes
    rates = np.random.default_rng(1).normal(size=(5, 3))
    start = np.tile([1.0, 0, 0, 0], (5, 1))
    samples = loop.samples(width, 1, common={}, each={"state": start, "w": rates})
    roll_samples(loop.code(width), loop.make_schedule(width, Schedule([100], np.array([0.01])), 100), samples, 0, 5)
    angle = np.linalg.norm(rates, axis=1)
    expected = np.column_stack([np.cos(angle / 2), np.sin(angle / 2)[:, None] * rates / angle[:, None]])
    np.testing.assert_allclose(samples.result[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(samples.result[:, 0], axis=1), 1.0, atol=3e-16)


def test_what_runs_at_every_step_counts_no_references() -> None:
    """Counting them took a sixth of the time of a roll-out, and as much of a batch."""
    often = (fixed_step.roll, fixed_step._stages, fixed_step._write, fixed_step._keep, _batch._gather, _batch._scatter)
    for function in often:
        assert function.targetoptions.get("_nrt") is False, function.__name__  # type: ignore[attr-defined]
