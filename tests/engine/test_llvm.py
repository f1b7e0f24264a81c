"""Machine code against NumPy and CasADi: every operation, every width, numbers at the edges."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from numba import njit

from spacearm.engine import Kernel
from spacearm.engine._call import call_kernel
from spacearm.engine.llvm import kernel_ir, lane_groups
from spacearm.engine.machine import host, load
from spacearm.engine.trace import trace
from spacearm.errors import EngineError
from spacearm.mechanics import Program
from spacearm.typing import Array

RNG = np.random.default_rng(20)


@njit
def _call(address, inputs, outputs):  # type: ignore[no-untyped-def]
    call_kernel(address, inputs, outputs)


def run(function: object, rows: Array, width: int, uniform: frozenset[int] = frozenset()) -> Array:
    """Rows (width, n_in) through a kernel of this width, (width, n_out)."""
    program = trace(function)
    code = load(kernel_ir(program, width, uniform))
    outputs = np.empty(program.n_out * width)
    _call(code.address, np.ascontiguousarray(rows.T).ravel(), outputs)
    return outputs.reshape(program.n_out, width).T


UNARY = {
    "sin": (np.sin, 10.0), "cos": (np.cos, 10.0), "tan": (np.tan, 1.0), "exp": (np.exp, 3.0), "sqrt": (np.sqrt, None),
    "log": (np.log, None), "fabs": (np.abs, 3.0), "sign": (np.sign, 3.0), "floor": (np.floor, 5.0),
    "ceil": (np.ceil, 5.0), "asin": (np.arcsin, 0.9), "acos": (np.arccos, 0.9), "atan": (np.arctan, 5.0),
    "sinh": (np.sinh, 3.0), "cosh": (np.cosh, 3.0), "tanh": (np.tanh, 3.0), "log1p": (np.log1p, 0.9),
    "expm1": (np.expm1, 2.0),
}  # fmt: skip
BINARY = {
    "plus": np.add, "minus": np.subtract, "times": np.multiply, "rdivide": np.divide, "fmin": np.minimum,
    "fmax": np.maximum, "atan2": np.arctan2, "copysign": np.copysign, "fmod": np.fmod, "hypot": np.hypot,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@pytest.mark.parametrize("width", [1, 3, host().lanes, host().lanes + 2])
def test_every_operation_means_what_it_says(width: int) -> None:
    x = ca.SX.sym("x", 2)
    values = [getattr(ca, name)(x[0]) for name in UNARY] + [getattr(ca, name)(x[0], x[1]) for name in BINARY]
    values += [ca.logic_and(x[0] > 0, x[1] > 0), ca.logic_or(x[0] > 0, x[1] > 0), ca.logic_not(x[0] > 0), x[0] ** x[1]]
    positive = RNG.uniform(0.1, 0.9, size=(width, 2))
    found = run(ca.Function("f", [x], [ca.vertcat(*values)]), positive, width)
    a, b = positive.T
    expected = [function(a) for function, _ in UNARY.values()] + [function(a, b) for function in BINARY.values()]
    expected += [np.ones(width), np.ones(width), np.zeros(width), a**b]
    np.testing.assert_allclose(found.T, np.array(expected, dtype=float), rtol=4e-16, atol=1e-16)


def test_sine_and_cosine_are_good_to_one_and_a_half_units_in_the_last_place() -> None:
    x = ca.SX.sym("x", 1)
    kernel = Kernel(Program("f", {"x": x}, {"sin": ca.sin(x), "cos": ca.cos(x)}))
    quarter = np.pi / 2 * np.arange(-40, 41)
    angles = np.concatenate([
        RNG.uniform(-10, 10, 20000), RNG.uniform(-1e6, 1e6, 20000), quarter, np.nextafter(quarter, 9),
        10.0 ** RNG.uniform(-300, 0, 2000), [0.0],
    ])  # fmt: skip
    result = kernel({"x": angles[:, None]})
    exact = angles.astype(np.longdouble)
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        reference = function(exact)
        error = np.abs(result[name][:, 0].astype(np.longdouble) - reference)
        # 80-bit arithmetic cannot reduce large angles exactly itself: judge near zeros by NumPy's double result.
        ulp = np.spacing(np.abs(function(angles)))
        assert np.max(error / np.maximum(ulp, 1e-19)) < 1.5, name


def test_sine_of_large_angles_equals_numpy() -> None:
    x = ca.SX.sym("x", 1)
    kernel = Kernel(Program("f", {"x": x}, {"y": ca.sin(x)}))
    angles = RNG.uniform(1e6, 1e12, 5000)
    np.testing.assert_allclose(kernel({"x": angles[:, None]})["y"][:, 0], np.sin(angles), rtol=0, atol=3e-16)


def test_nan_and_infinity_pass_through_the_angle_functions() -> None:
    x = ca.SX.sym("x", 1)
    kernel = Kernel(Program("f", {"x": x}, {"y": ca.vertcat(ca.sin(x), ca.cos(x))}))
    with pytest.warns(RuntimeWarning):
        result = kernel({"x": np.array([[np.nan], [np.inf], [-np.inf], [0.0]])})["y"]
    assert np.isnan(result[:3]).all()
    assert np.array_equal(result[3], [0.0, 1.0])


def test_a_branch_not_taken_cannot_poison_the_result() -> None:
    x = ca.SX.sym("x", 2)
    kernel = Kernel(Program("f", {"x": x}, {"y": ca.if_else(x[0] > 0, x[1], 1 / x[0])}))
    assert kernel({"x": [[1.0, 5.0], [-2.0, np.nan]]})["y"].ravel().tolist() == [5.0, -0.5]


def test_parts_of_a_long_program_hand_their_values_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into many small functions, the same program gives the same bits, comparisons and angles included."""
    x = ca.SX.sym("x", 6)
    state = x
    for k in range(30):
        # Unlike factors, so that the values do not run together, where rounding would decide the comparison.
        factors = [0.4 + 0.07 * i for i in range(6)]
        turned = ca.vertcat(*(factors[i] * ca.sin(state[i]) * state[(i + 1) % 6] + 0.01 * k for i in range(6)))
        state = ca.if_else(state[0] > state[1], turned, turned + 0.2 * ca.cos(state))
    function = ca.Function("f", [x], [state])
    rows = RNG.normal(size=(host().lanes, 6))
    whole = run(function, rows, host().lanes)
    monkeypatch.setattr("spacearm.engine.llvm.PART", 37)
    assert np.array_equal(run(function, rows, host().lanes), whole)
    assert np.array_equal(run(function, rows[-1:], 1), whole[-1:])
    monkeypatch.setattr("spacearm.engine.llvm.PART", 4000)
    np.testing.assert_allclose(whole[0], np.array(function(rows[0])).ravel(), rtol=1e-12)


@pytest.mark.parametrize("width", [2, 4, 5, 8, 16])
def test_results_do_not_depend_on_the_width(width: int) -> None:
    x = ca.SX.sym("x", 4)
    value = ca.vertcat(ca.sin(x[0] * x[1]) / (x[2] + 3), x[0] * x[1] + x[2] * x[3] - x[0], ca.sqrt(ca.fabs(x[3])))
    function = ca.Function("f", [x], [value])
    rows = RNG.normal(size=(width, 4))
    wide = run(function, rows, width)
    for lane in range(width):
        assert np.array_equal(run(function, rows[lane : lane + 1], 1), wide[lane : lane + 1])


@pytest.mark.parametrize("count", [2, 3, 5, host().lanes + 1, 2 * host().lanes + 3])
def test_angles_that_share_a_register_have_the_bits_of_one_alone(count: int) -> None:
    """Inputs, sums of them, products, an angle that needs another's sine, and one that is not a number."""
    x = ca.SX.sym("x", count + 1)
    angles = [x[k] * [1.0, 30.0, 1e-9][k % 3] + 0.5 * x[k + 1] * (k % 2) for k in range(count)]
    late = ca.sin(angles[0]) + x[1]
    values = [ca.cos(late), *(ca.sin(angle) for angle in angles), *(ca.cos(angle) for angle in reversed(angles))]
    function, width = ca.Function("f", [x], [ca.vertcat(*values)]), host().lanes
    rows = RNG.normal(size=(width, count + 1))
    rows[1, count - 1] = np.nan
    wide = run(function, rows, width)
    for lane in range(width):
        single = run(function, rows[lane : lane + 1], 1)
        assert single.tobytes() == wide[lane : lane + 1].tobytes()
    expected = np.array([np.array(function(row)).ravel() for row in rows])
    np.testing.assert_allclose(wide, expected, rtol=1e-13, atol=1e-15)


def test_uniform_inputs_are_read_from_the_first_lane() -> None:
    x = ca.SX.sym("x", 3)
    function = ca.Function("f", [x], [ca.vertcat(ca.sin(x[0]) + x[1], (x[0] > 0) * x[2], x[0] * x[0])])
    width = host().lanes
    rows = RNG.normal(size=(width, 3))
    rows[:, 0] = 0.7
    plain = run(function, rows, width)
    rows[1:, 0] = np.nan
    assert np.array_equal(run(function, rows, width, frozenset({0})), plain)


@pytest.mark.parametrize(
    ("width", "register", "sizes"), [(1, 8, [1]), (10, 8, [8, 2]), (7, 4, [4, 2, 1]), (16, 8, [8, 8])]
)
def test_lanes_go_in_few_groups_of_a_register_or_less(width: int, register: int, sizes: list[int]) -> None:
    groups = lane_groups(width, register)
    assert [group.size for group in groups] == sizes
    assert [group.lane for group in groups] == [sum(sizes[:k]) for k in range(len(sizes))]


@pytest.mark.parametrize("width", [1, 3, host().lanes])
def test_a_kernel_in_place_gives_what_it_gives_elsewhere(width: int) -> None:
    """Outputs that are known before their places are read, some for an angle alone, and some long after."""
    x = ca.SX.sym("x", 9)
    early = ca.vertcat(x[1] * x[2], x[3] - x[0])
    late = ca.vertcat(*(ca.sin(x[k]) * ca.cos(x[(k + 2) % 9]) + x[(k + 1) % 9] for k in range(2, 8)), x[0] / x[8])
    program = Program("f", {"x": x}, {"x": ca.vertcat(early, late * ca.sin(late[0] + x[0]))})
    rows = RNG.normal(size=(width, 9))
    room, kernel = rows.T.flatten(), Kernel(program, in_place=True)
    _call(kernel.address(width), room, room)
    np.testing.assert_array_equal(room.reshape(9, width).T, run(program.function, rows, width))


@pytest.mark.parametrize(("width", "part"), [(1, 4000), (5, 4000), (5, 3), (host().lanes + 2, 4000)])
def test_a_kernel_in_place_writes_over_its_inputs(width: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every input is read before any output is written; uniform numbers take one double and are written once."""
    monkeypatch.setattr("spacearm.engine.llvm.PART", part)
    a, b, c, s = ca.SX.sym("a", 3), ca.SX.sym("b", 3), ca.SX.sym("c", 2), ca.SX.sym("s", 1)
    e = ca.SX.sym("e", 1)
    new = {"b": a + s, "a": b * c[0], "s": ca.sin(s) + c[1], "e": c[0] + s}
    kernel = Kernel(Program("f", {"a": a, "s": s, "b": b, "c": c, "e": e}, new), uniform=("s", "c"), in_place=True)
    at = kernel.offsets(width)
    assert at == {"a": 0, "s": 3 * width, "b": 3 * width + 1, "c": 6 * width + 1, "e": 6 * width + 3}
    assert kernel.input_doubles(width) == 7 * width + 3
    room = RNG.normal(size=kernel.input_doubles(width))
    before = room.copy()
    _call(kernel.address(width), room, room)
    old, scale = before[: 3 * width], before[3 * width]
    np.testing.assert_array_equal(room[at["b"] : at["c"]], old + scale)
    np.testing.assert_array_equal(room[: 3 * width], before[at["b"] : at["c"]] * before[at["c"]])
    assert room[at["s"]] == pytest.approx(np.sin(scale) + before[at["c"] + 1], rel=1e-15)
    np.testing.assert_array_equal(room[at["c"] : at["e"]], before[at["c"] : at["e"]])
    np.testing.assert_array_equal(room[at["e"] :], np.full(width, before[at["c"]] + scale))  # the same in all lanes


@pytest.mark.parametrize(("width", "part"), [(1, 4000), (1, 1), (3, 2), (host().lanes, 3)])
def test_inputs_that_change_places_are_read_before_they_are_written(
    width: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the program is cut, and an input that an early part used is an output of the last one."""
    monkeypatch.setattr("spacearm.engine.llvm.PART", part)
    a, b, c = ca.SX.sym("a", 2), ca.SX.sym("b", 2), ca.SX.sym("c", 1)
    new = {"a": b, "b": a, "c": ca.sin(a[0] * b[0]) * ca.cos(b[1] + a[1]) + c}
    kernel = Kernel(Program("f", {"a": a, "b": b, "c": c}, new), in_place=True)
    before = RNG.normal(size=5 * width)
    room = before.copy()
    _call(kernel.address(width), room, room)
    np.testing.assert_array_equal(room[: 4 * width], np.roll(before[: 4 * width], 2 * width))


def test_lanes_that_differ_have_no_place_in_a_single_number() -> None:
    a, s = ca.SX.sym("a", 1), ca.SX.sym("s", 1)
    kernel = Kernel(Program("f", {"a": a, "s": s}, {"s": a * s}), uniform=("s",), in_place=True)
    with pytest.raises(EngineError, match="differs from lane to lane"):
        kernel.address(3)
