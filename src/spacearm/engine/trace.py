"""From a CasADi function to a short list of instructions in single-assignment form.

CasADi's own list is already the program: scalars in order of evaluation. Here its reused work registers become values
that are written once, equal values are merged, ``if_else`` pairs become one select, and products that are used once
are fused into their sum. Fusing here, and not in LLVM, makes results the same bit for bit for any width of vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca

from spacearm.errors import EngineError

#: CasADi operations that map one to one; anything else is either rewritten below or unknown.
_DIRECT = {
    ca.OP_ADD: "add",
    ca.OP_SUB: "sub",
    ca.OP_MUL: "mul",
    ca.OP_DIV: "div",
    ca.OP_NEG: "neg",
    ca.OP_SIN: "sin",
    ca.OP_COS: "cos",
    ca.OP_SQRT: "sqrt",
    ca.OP_FABS: "abs",
    ca.OP_FMIN: "min",
    ca.OP_FMAX: "max",
    ca.OP_FLOOR: "floor",
    ca.OP_CEIL: "ceil",
    ca.OP_COPYSIGN: "copysign",
    ca.OP_LT: "lt",
    ca.OP_LE: "le",
    ca.OP_EQ: "eq",
    ca.OP_NE: "ne",
    ca.OP_NOT: "not",
    ca.OP_AND: "and",
    ca.OP_OR: "or",
    ca.OP_SIGN: "sign",
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
    ca.OP_POW: "pow",
    ca.OP_CONSTPOW: "pow",
    ca.OP_TAN: "tan",
    ca.OP_ASIN: "asin",
    ca.OP_ACOS: "acos",
    ca.OP_ATAN: "atan",
    ca.OP_ATAN2: "atan2",
    ca.OP_SINH: "sinh",
    ca.OP_COSH: "cosh",
    ca.OP_TANH: "tanh",
    ca.OP_FMOD: "fmod",
    ca.OP_HYPOT: "hypot",
    ca.OP_LOG1P: "log1p",
    ca.OP_EXPM1: "expm1",
    ca.OP_ERF: "erf",
}
_UNARY = {
    "neg", "sin", "cos", "sqrt", "abs", "floor", "ceil", "not", "sign", "exp", "log", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "log1p", "expm1", "erf",
}  # fmt: skip
_COMMUTATIVE = {"add", "mul", "min", "max", "eq", "ne", "and", "or"}


@dataclass(frozen=True, slots=True)
class Instruction:
    """``op`` applied to earlier values; ``constant`` for "const", the flat input's index for "input"."""

    op: str
    args: tuple[int, ...] = ()
    constant: float = 0.0


@dataclass(frozen=True)
class Trace:
    """Values in order of evaluation, and for each flat output the value that it is."""

    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]
    n_in: int

    @property
    def n_out(self) -> int:
        return len(self.outputs)

    def operations(self) -> int:
        """Arithmetic instructions, a fused multiply-add counting once."""
        return sum(1 for instruction in self.instructions if instruction.op not in ("const", "input"))


def trace(function: Any) -> Trace:
    """Trace of a CasADi function with one flat input and one flat, dense output."""
    builder = _Builder()
    registers: dict[int, int] = {}
    outputs: dict[int, int] = {}
    for k in range(function.n_instructions()):
        op = function.instruction_id(k)
        if op == ca.OP_CONST:
            registers[function.instruction_output(k)[0]] = builder.const(function.instruction_constant(k))
        elif op == ca.OP_INPUT:
            source = function.instruction_input(k)[1]
            registers[function.instruction_output(k)[0]] = builder.emit("input", (), float(source))
        elif op == ca.OP_OUTPUT:
            outputs[function.instruction_output(k)[1]] = registers[function.instruction_input(k)[0]]
        else:
            args = tuple(registers[i] for i in function.instruction_input(k))
            registers[function.instruction_output(k)[0]] = _translate(builder, op, args)
    n_out = function.nnz_out(0)
    zero = builder.const(0.0)
    flat = tuple(outputs.get(i, zero) for i in range(n_out))
    return _pruned(_fused(builder.instructions, flat), flat, function.nnz_in(0))


def _translate(builder: _Builder, op: int, args: tuple[int, ...]) -> int:
    if op == ca.OP_ASSIGN:
        return args[0]
    if op == ca.OP_SQ:
        return builder.emit("mul", (args[0], args[0]))
    if op == ca.OP_TWICE:
        return builder.emit("add", (args[0], args[0]))
    if op == ca.OP_INV:
        return builder.emit("div", (builder.const(1.0), args[0]))
    if op == ca.OP_IF_ELSE_ZERO:
        return builder.emit("select", (args[0], args[1], builder.const(0.0)))
    name = _DIRECT.get(op)
    if name is None:
        raise EngineError(f"CasADi operation {op} has no machine code here")
    return builder.emit(name, args[:1] if name in _UNARY else args)


class _Builder:
    """Instructions without repetition."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[tuple[str, tuple[int, ...], float | str], int] = {}

    def const(self, value: float) -> int:
        return self.emit("const", (), float(value))

    def emit(self, op: str, args: tuple[int, ...], constant: float = 0.0) -> int:
        if op in _COMMUTATIVE and args[0] > args[1]:
            args = (args[1], args[0])
        if op == "add":
            merged = self._select_of(args)
            if merged is not None:
                return self.emit("select", merged)
        # Written out, so that NaN equals itself and -0.0 differs from 0.0.
        key = (op, args, constant.hex() if op == "const" else constant)
        known = self._known.get(key)
        if known is None:
            known = len(self.instructions)
            self.instructions.append(Instruction(op, args, constant))
            self._known[key] = known
        return known

    def _select_of(self, args: tuple[int, ...]) -> tuple[int, int, int] | None:
        """CasADi writes if_else(c, a, b) as (c ? a : 0) + (!c ? b : 0): recognise it."""
        first, second = (self.instructions[i] for i in args)
        if first.op != "select" or second.op != "select":
            return None
        zero = self.const(0.0)
        if first.args[2] != zero or second.args[2] != zero:
            return None
        for a, b in ((first, second), (second, first)):
            condition = self.instructions[b.args[0]]
            if condition.op == "not" and condition.args[0] == a.args[0]:
                return a.args[0], a.args[1], b.args[1]
        return None


def _uses(instructions: list[Instruction], outputs: tuple[int, ...]) -> list[int]:
    """How often each value is used by values that count."""
    uses = [0] * len(instructions)
    for i in outputs:
        uses[i] += 1
    for i in reversed(range(len(instructions))):
        if uses[i]:
            for arg in instructions[i].args:
                uses[arg] += 1
    return uses


def _fused(instructions: list[Instruction], outputs: tuple[int, ...]) -> list[Instruction]:
    """Sums that take a product used nowhere else as fused multiply-adds: fma, fms (ab - c), fnma (c - ab)."""
    uses = _uses(instructions, outputs)
    result = list(instructions)
    for i, instruction in enumerate(instructions):
        if instruction.op not in ("add", "sub") or not uses[i]:
            continue
        a, b = instruction.args
        if a == b:
            continue
        for arg, other, op in ((b, a, "fma" if instruction.op == "add" else "fnma"),
                               (a, b, "fma" if instruction.op == "add" else "fms")):  # fmt: skip
            if result[arg].op == "mul" and uses[arg] == 1:
                result[i] = Instruction(op, (*result[arg].args, other))
                break
    return result


def _pruned(instructions: list[Instruction], outputs: tuple[int, ...], n_in: int) -> Trace:
    """Only what an output depends on, renumbered."""
    uses = _uses(instructions, outputs)
    number: dict[int, int] = {}
    kept: list[Instruction] = []
    for i, instruction in enumerate(instructions):
        if uses[i]:
            number[i] = len(kept)
            args = tuple(number[arg] for arg in instruction.args)
            kept.append(Instruction(instruction.op, args, instruction.constant))
    return Trace(tuple(kept), tuple(number[i] for i in outputs), n_in)
