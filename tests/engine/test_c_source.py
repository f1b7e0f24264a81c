"""Traces as C: the same bits as the machine code."""

from __future__ import annotations

import warnings
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from spacearm.engine import NonFiniteWarning
from spacearm.engine.c_source import literal
from spacearm.engine.kernel import Kernel
from spacearm.mechanics import Program
from spacearm.mechanics.motion import motion_program
from spacearm.typing import Array
from support.compilers import by_c
from support.random_robots import random_robot

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, 7.5, -2.5]


def same(a: Array, b: Array) -> None:
    """Bit for bit, but for the sign and payload of NaN."""
    assert np.array_equal(np.isnan(a), np.isnan(b))
    good = ~np.isnan(a)
    np.testing.assert_array_equal(a[good].view(np.int64), b[good].view(np.int64))


def by_kernel(program: Program, rows: Array) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonFiniteWarning)
        found = Kernel(program)({"x": rows})
    return np.concatenate([value.reshape(len(rows), -1) for value in found.values()], axis=1)


def test_every_operation_has_the_same_bits(tmp_path: Path) -> None:
    x = ca.SX.sym("x", 2)
    a, b = x[0], x[1]
    values = [
        a + b, a - b, a * b, a / b, -a, ca.sin(a), ca.cos(b), ca.sqrt(a), ca.fabs(a), ca.fmin(a, b), ca.fmax(a, b),
        ca.floor(a), ca.ceil(a), ca.copysign(a, b), a < b, a <= b, a == b, a != b, ca.logic_not(a),
        ca.logic_and(a, b), ca.logic_or(a < b, b), ca.sign(a), ca.if_else(a < b, a, b), a * b + 1, a * b - b, 1 - a * b,
        (a < b) + 2 * b, ca.exp(a), ca.log(a), ca.tan(a), ca.atan2(a, b), ca.tanh(a), ca.fmod(a, b),
    ]  # fmt: skip
    program = Program("operations", {"x": x}, {"y": ca.densify(ca.vertcat(*values))})
    rng = np.random.default_rng(0)
    rows = np.vstack([[(p, q) for p in SPECIAL for q in SPECIAL], rng.normal(size=(200, 2)) * 10])
    same(by_c(Kernel(program).trace, rows, tmp_path, "-O2"), by_kernel(program, rows))


def test_zeros_keep_their_sign_where_a_fused_sum_is_negated(tmp_path: Path) -> None:
    """With the processor's fused multiply-adds GCC makes one instruction of both, and of -(1 - 1) the other zero."""
    x = ca.SX.sym("x", 2)
    a, b = x[0], x[1]
    sums = ca.vertcat(-(a * b) - a * a, -(a * b + a), -(a * b - 1), -(1 - a * b))
    program = Program("negated", {"x": x}, {"y": sums})
    trace = Kernel(program).trace
    ops = [instruction.op for instruction in trace.instructions]
    assert any(op == "neg" and ops[args[0]] in ("fma", "fms", "fnma") for op, args, _ in trace.instructions)
    rows = np.array([(p, q) for p in SPECIAL for q in SPECIAL])
    same(by_c(trace, rows, tmp_path, "-O2", "-march=native"), by_kernel(program, rows))


@pytest.mark.parametrize("flags", [("-O0",), ("-O3", "-march=native")])
def test_a_motion_program_has_the_same_bits(tmp_path: Path, flags: tuple[str, ...]) -> None:
    robot = random_robot(5, 4, geometry="mixed", rotors=0.5, passive=True)
    motion = motion_program(robot).inline_derived_inputs()
    flat = ca.SX.sym("x", motion.flat_input.numel())
    program = Program("flat", {"x": flat}, {"y": motion.function(flat)})
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(5, flat.numel()))
    same(by_c(Kernel(program).trace, rows, tmp_path, *flags), by_kernel(program, rows))


@pytest.mark.parametrize("value", [0.1, -0.0, 5e-324, -1e308, 1.0])
def test_a_number_is_written_exactly(value: float) -> None:
    text = literal(value).strip("()")
    assert float.fromhex(text).hex() == value.hex()
