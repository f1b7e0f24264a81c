"""From CasADi's list to instructions: nothing is lost, repeated or reordered wrongly."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest

from spacearm.engine import Kernel
from spacearm.engine.trace import Trace, trace
from spacearm.errors import EngineError
from spacearm.mechanics import Program


def traced(x: object, y: object) -> Trace:
    return trace(ca.Function("f", [x], [ca.densify(y)]))


def ops(program: Trace) -> list[str]:
    return [instruction.op for instruction in program.instructions if instruction.op not in ("input", "const")]


def test_equal_values_are_computed_once() -> None:
    x = ca.SX.sym("x", 2)
    twice = ca.vertcat(x[0] * x[1] + 1, x[1] * x[0] + 1)
    assert ops(traced(x, twice)) == ["fma"]


def test_quotients_by_one_divisor_share_its_reciprocal() -> None:
    x = ca.SX.sym("x", 3)
    found = ops(traced(x, ca.vertcat(x[0] / x[2], x[1] / x[2])))
    assert found.count("div") == 1
    assert found.count("mul") == 2


def test_a_single_quotient_stays_a_division() -> None:
    x = ca.SX.sym("x", 2)
    assert ops(traced(x, x[0] / x[1])) == ["div"]


def test_if_else_becomes_one_select() -> None:
    x = ca.SX.sym("x", 3)
    assert ops(traced(x, ca.if_else(x[0] > 0, x[1], x[2]))) == ["lt", "select"]


def test_sums_of_products_become_chains_of_fused_operations() -> None:
    x = ca.SX.sym("x", 7)
    found = ops(traced(x, (x[0] * x[1] - x[2] * x[3]) + (x[6] - x[4] * x[5])))
    assert sorted(found) == ["fma", "fnma", "fnma"]


def test_a_product_that_is_used_twice_is_not_computed_twice() -> None:
    x = ca.SX.sym("x", 3)
    product = x[0] * x[1]
    found = ops(traced(x, ca.vertcat(product + x[2], product - x[2])))
    assert found.count("mul") == 1
    assert len(found) == 3


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_signs_of_sums_survive(signs: tuple[int, int]) -> None:
    x = ca.SX.sym("x", 4)
    value = signs[0] * (x[0] * x[1]) + signs[1] * (x[2] - x[3]) - x[0]
    point = np.array([2.0, 3.0, 5.0, 11.0])
    expected = signs[0] * 6.0 + signs[1] * (5.0 - 11.0) - 2.0
    result = Kernel(Program("f", {"x": x}, {"y": value}))({"x": point})["y"]
    assert result[0] == expected


def test_constants_that_are_not_finite_are_kept() -> None:
    x = ca.SX.sym("x", 1)
    kernel = Kernel(Program("f", {"x": x}, {"y": ca.vertcat(x + ca.SX(np.nan), ca.SX(np.inf), -ca.SX(np.inf))}))
    with pytest.warns(RuntimeWarning, match="not finite"):
        y = kernel({"x": [1.0]})["y"]
    assert np.isnan(y[0])
    assert y[1:].tolist() == [np.inf, -np.inf]


def test_an_operation_without_machine_code_is_refused() -> None:
    x = ca.SX.sym("x", 1)
    with pytest.raises(EngineError, match="no machine code"):
        traced(x, ca.erfinv(x))
