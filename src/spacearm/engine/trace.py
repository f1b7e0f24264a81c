"""From a CasADi function to a short list of instructions in single-assignment form.

CasADi's own list is already the program: scalars in order of evaluation, which reuse work registers. Here registers
become values that are written once (numbered by their place in the list), equal values are merged, ``if_else`` pairs
become one select, several quotients by one divisor become products with its reciprocal, and products that are used once
are fused into their sum. Flat inputs and outputs are numbered from 0; there are no branches and no loops.

Fusing here, and not in LLVM, makes results the same bit for bit for any width of vectors, in C and on a GPU: every back
end is given the same operations in an order that changes no rounding. Rewriting is therefore allowed to change the last
bit against CasADi's own evaluation, but never between back ends. Not done: rules of algebra (x - x, x * 0), which would
hide NaN and infinity.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Instruction(NamedTuple):
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

    def prefix(self, count: int) -> Trace:
        """The part of the trace that the first outputs need."""
        return _prune([*self.instructions], self.outputs[:count], self.n_in)

    def hoist(self, same: frozenset[int]) -> tuple[Trace, Trace]:
        """The trace in two: what depends on these inputs alone, and the rest.

        The outputs of the first are further inputs of the second, behind its own.
        """
        # A value depends on these inputs alone if all its operands do; constants have none.
        alone: list[bool] = []
        for op, args, constant in self.instructions:
            alone.append(int(constant) in same if op == "input" else all(alone[arg] for arg in args))
        needed = {arg for i, instruction in enumerate(self.instructions) if not alone[i] for arg in instruction.args}
        # Only values that the rest reads are handed over, and only computed ones: inputs and constants are there
        # anyway.
        border = [i for i in sorted(needed | {*self.outputs}) if alone[i] and self.instructions[i].args]
        rest = list(self.instructions)
        for k, i in enumerate(border):
            rest[i] = Instruction("input", (), float(self.n_in + k))
        once = _prune([*self.instructions], tuple(border), self.n_in)
        return once, _prune(rest, self.outputs, self.n_in + len(border))

    def reorder(self) -> Trace:
        """The same in an order that keeps fewer values waiting: next comes what frees most of its operands."""
        operands = [tuple({*args}) for _, args, _ in self.instructions]
        order = _least_waiting(operands, self.outputs)
        order += [i for i, args in enumerate(operands) if not args]
        number = {i: k for k, i in enumerate(order)}
        moved = [self.instructions[i] for i in order]
        renumbered = [Instruction(op, tuple([number[arg] for arg in args]), constant) for op, args, constant in moved]
        return _prune(renumbered, tuple(number[i] for i in self.outputs), self.n_in)

    def operations(self) -> int:
        """Arithmetic instructions, a fused multiply-add counting once."""
        return sum(1 for instruction in self.instructions if instruction.op not in ("const", "input"))


def _least_waiting(operands: list[tuple[int, ...]], outputs: tuple[int, ...]) -> list[int]:
    """Numbers of the instructions with operands, in their new order."""
    users: list[list[int]] = [[] for _ in operands]
    for i, args in enumerate(operands):
        for arg in args:
            users[arg].append(i)
    # Uses still to come. An output counts as one that never comes: its value is kept to the end.
    left = [len(own) + outputs.count(i) for i, own in enumerate(users)]
    missing = [sum(bool(operands[arg]) for arg in args) for args in operands]
    ready = {i for i, args in enumerate(operands) if args and not missing[i]}
    order: list[int] = []

    # Greedy list scheduling: the best is what ends the most operands; of equals the first in the old order, so that the
    # result is the same on every machine.
    def rank(i: int) -> tuple[int, int]:
        return -sum(left[arg] == 1 and bool(operands[arg]) for arg in operands[i]), i

    while ready:
        chosen = min(ready, key=rank)
        ready.remove(chosen)
        order.append(chosen)
        for arg in operands[chosen]:
            left[arg] -= 1
        for user in users[chosen]:
            missing[user] -= 1
            if not missing[user]:
                ready.add(user)
    return order


def trace(function: Any) -> Trace:
    """Trace of a CasADi function with one flat input and one flat, dense output."""
    # Thousands of small tuples without a cycle: a search for garbage would find none and take longer than all this.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _trace(function)
    finally:
        if collecting:
            gc.enable()


def _trace(function: Any) -> Trace:
    builder = _TraceBuilder()
    registers: dict[int, int] = {}
    outputs: dict[int, int] = {}
    kind, reads, writes = function.instruction_id, function.instruction_input, function.instruction_output
    for k in range(function.n_instructions()):
        op = kind(k)
        if op == ca.OP_CONST:
            registers[writes(k)[0]] = builder.const(function.instruction_constant(k))
        elif op == ca.OP_INPUT:
            registers[writes(k)[0]] = builder.emit("input", (), float(reads(k)[1]))
        elif op == ca.OP_OUTPUT:
            outputs[writes(k)[1]] = registers[reads(k)[0]]
        else:
            registers[writes(k)[0]] = _translate(builder, op, tuple([registers[i] for i in reads(k)]))
    # Outputs that CasADi never writes are structural zeros.
    n_out = function.nnz_out(0)
    zero = builder.const(0.0)
    flat = tuple(outputs.get(i, zero) for i in range(n_out))
    # Reciprocals first: they turn quotients into products, which may then be fused.
    shared, flat = _share_reciprocals(builder.instructions, flat)
    summed, flat = _fuse_sums(shared, flat)
    return _prune(summed, flat, function.nnz_in(0))


def _translate(builder: _TraceBuilder, op: int, args: tuple[int, ...]) -> int:
    name = _DIRECT.get(op)
    if name is not None:
        return builder.emit(name, args[:1] if name in _UNARY else args)
    if op == ca.OP_ASSIGN:
        return args[0]
    if op == ca.OP_SQ:
        return builder.emit("mul", (args[0], args[0]))
    # Exact, as 2 x would be, and without a constant.
    if op == ca.OP_TWICE:
        return builder.emit("add", (args[0], args[0]))
    if op == ca.OP_INV:
        return builder.emit("div", (builder.const(1.0), args[0]))
    if op == ca.OP_IF_ELSE_ZERO:
        return builder.emit("select", (args[0], args[1], builder.const(0.0)))
    raise EngineError(f"CasADi operation {op} has no machine code here")


class _TraceBuilder:
    """Instructions without repetition."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self._known: dict[tuple[object, ...], int] = {}

    def const(self, value: float) -> int:
        return self.emit("const", (), float(value))

    def emit(self, op: str, args: tuple[int, ...], constant: float = 0.0) -> int:
        if op in _COMMUTATIVE:
            # One order for operands that may be exchanged, so that a + b and b + a are found to be equal.
            if args[0] > args[1]:
                args = (args[1], args[0])
            if op == "add":
                merged = self._select_of(args)
                if merged is not None:
                    return self.emit("select", merged)
        # Constants written out, so that NaN equals itself and -0.0 differs from 0.0.
        key = (op, args) if args else (op, constant.hex() if op == "const" else constant)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = len(self.instructions)
            self.instructions.append(Instruction(op, args, constant))
        return known

    def _select_of(self, args: tuple[int, ...]) -> tuple[int, int, int] | None:
        """CasADi writes if_else(c, a, b) as (c ? a : 0) + (!c ? b : 0): recognise it."""
        first, second = self.instructions[args[0]], self.instructions[args[1]]
        if first.op != "select" or second.op != "select":
            return None
        zero = self.const(0.0)
        if first.args[2] != zero or second.args[2] != zero:
            return None
        # Sums commute, and so the branches come in either order.
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


def _share_reciprocals(
    instructions: list[Instruction], outputs: tuple[int, ...]
) -> tuple[list[Instruction], tuple[int, ...]]:
    """Several quotients by one divisor as products with its reciprocal: CasADi writes ``a * (1 / d)`` as ``a / d``."""
    uses = _uses(instructions, outputs)
    quotients: dict[int, int] = {}
    for i, instruction in enumerate(instructions):
        if instruction.op == "div" and uses[i]:
            quotients[instruction.args[1]] = quotients.get(instruction.args[1], 0) + 1
    builder = _TraceBuilder()
    number: list[int] = []
    for op, old, constant in instructions:
        args = tuple([number[arg] for arg in old])
        # A division costs several products and does not pipeline as well; one more rounding is the price.
        if op == "div" and quotients.get(old[1], 0) > 1:
            reciprocal = builder.emit("div", (builder.const(1.0), args[1]))
            is_one = instructions[old[0]] == Instruction("const", (), 1.0)
            number.append(reciprocal if is_one else builder.emit("mul", (args[0], reciprocal)))
        else:
            number.append(builder.emit(op, args, constant))
    return builder.instructions, tuple(number[i] for i in outputs)


class _Term(NamedTuple):
    """One term of a sum: a value, or the product of two."""

    positive: bool
    factors: tuple[int, ...]
    ready: int


def _fuse_sums(instructions: list[Instruction], outputs: tuple[int, ...]) -> tuple[list[Instruction], tuple[int, ...]]:
    """Sums rewritten as chains of fused multiply-adds.

    Sums and products that are used once, by another sum, dissolve into it. Its terms are then taken in the order in
    which they become ready, so that the chain waits for its latest term only at its end.
    """
    uses = _uses(instructions, outputs)
    user: dict[int, str] = {}
    for i, instruction in enumerate(instructions):
        if uses[i]:
            for arg in instruction.args:
                user[arg] = instruction.op
    # A value that is used elsewhere too has to exist by itself; dissolved it would be computed twice.
    dissolves = [
        uses[i] == 1 and user.get(i) in ("add", "sub", "neg") and instruction.op in ("add", "sub", "mul", "neg")
        for i, instruction in enumerate(instructions)
    ]
    builder = _TraceBuilder()
    number: list[int] = [-1] * len(instructions)
    ready: list[int] = []  # by new numbers

    def emit(op: str, args: tuple[int, ...], constant: float = 0.0) -> int:
        index = builder.emit(op, args, constant)
        # Earliest cycle at which each new value is ready, if nothing but its operands held it up.
        for made in builder.instructions[len(ready) :]:
            ready.append(max([ready[arg] for arg in made.args], default=0) + _LATENCY.get(made.op, 4))
        return index

    def terms(i: int, positive: bool, found: list[_Term], root: bool = False) -> None:
        op, args, _ = instructions[i]
        # Walk down through sums and signs, a minus changing all that is below it; products end the walk.
        if (root or dissolves[i]) and op != "mul":
            terms(args[0], positive != (op == "neg"), found)
            if op != "neg":
                terms(args[1], positive == (op == "add"), found)
        elif dissolves[i]:
            a, b = number[args[0]], number[args[1]]
            found.append(_Term(positive, (a, b), ready[a] if ready[a] > ready[b] else ready[b]))
        else:
            found.append(_Term(positive, (number[i],), ready[number[i]]))

    for i, instruction in enumerate(instructions):
        if not uses[i] or dissolves[i]:
            continue
        if instruction.op in ("add", "sub", "neg"):
            found: list[_Term] = []
            terms(i, True, found, root=True)
            number[i] = _chain(sorted(found, key=lambda term: (term.ready, len(term.factors))), emit)
        else:
            number[i] = emit(instruction.op, tuple([number[arg] for arg in instruction.args]), instruction.constant)
    return builder.instructions, tuple(number[i] for i in outputs)


#: Cycles until a value is ready, roughly, on current processors; all other operations count 4.
_LATENCY = {"const": 0, "input": 0, "div": 14, "sqrt": 20, "sin": 50, "cos": 50, "select": 2, "neg": 1}


def _chain(terms: list[_Term], emit: Callable[..., int]) -> int:
    """Emit a sum of terms, at least one of them."""
    # A fused multiply-add has to begin with something positive, or the whole sum is negated once at its end.
    if not any(term.positive for term in terms):
        return emit("neg", (_chain([_Term(True, term.factors, term.ready) for term in terms], emit),))
    first = next(k for k, term in enumerate(terms) if term.positive)
    start, rest = terms[first], [*terms[:first], *terms[first + 1 :]]
    if len(start.factors) == 1:
        total = start.factors[0]
    # Product and single value begin together as one fused operation.
    elif rest and len(rest[0].factors) == 1:
        after = rest.pop(0)
        total = emit("fma" if after.positive else "fms", (*start.factors, after.factors[0]))
    else:
        total = emit("mul", start.factors)
    for term in rest:
        if len(term.factors) == 2:
            total = emit("fma" if term.positive else "fnma", (*term.factors, total))
        else:
            total = emit("add" if term.positive else "sub", (total, term.factors[0]))
    return total


def _prune(instructions: list[Instruction], outputs: tuple[int, ...], n_in: int) -> Trace:
    """Only what an output depends on, renumbered; inputs and constants just before their first use.

    Loaded earlier they would only hold registers.
    """
    uses = _uses(instructions, outputs)
    number: dict[int, int] = {}
    kept: list[Instruction] = []

    def keep(i: int) -> None:
        op, args, constant = instructions[i]
        for arg in args:
            if arg not in number:
                keep(arg)
        number[i] = len(kept)
        kept.append(Instruction(op, tuple([number[arg] for arg in args]), constant))

    for i, instruction in enumerate(instructions):
        if uses[i] and instruction.args:
            keep(i)
    for i in outputs:
        if i not in number:
            keep(i)
    return Trace(tuple(kept), tuple(number[i] for i in outputs), n_in)
