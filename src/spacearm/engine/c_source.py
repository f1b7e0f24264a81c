"""A trace as C99 text, with the same arithmetic as :mod:`spacearm.engine.llvm`: the same bits, if the compiler neither
contracts products and sums (``-ffp-contract=off``, the default of ``-std=c99`` in GCC) nor uses fast-math.

CUDA reads the same text: see :mod:`spacearm.engine.cuda`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from spacearm.engine.llvm import COS_TERMS, HALF_PI, ROUND, SIN_TERMS, TWO_OVER_PI
from spacearm.engine.trace import Instruction, Trace

_BINARY = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}
_FLAGS = {*_COMPARE, "and", "or", "not"}
_CALLS = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "copysign": "copysign",
          "min": "sa_minimum", "max": "sa_maximum", "sign": "sa_sign"}  # fmt: skip


def literal(value: float, real: str = "double") -> str:
    """A number as C writes it exactly."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    # Hexadecimal: decimal digits would be rounded once more when they are read.
    text = value.hex() + ("f" if real == "float" else "")
    return f"({text})" if text.startswith("-") else text


def statements(
    trace: Trace,
    read: Callable[[int], str],
    write: Callable[[int], str],
    *,
    real: str = "double",
    keep: Iterable[int] = (),
) -> list[str]:
    """Lines of code: flat input ``k`` is read from ``read(k)``, flat output ``k`` written to ``write(k)``.

    All outputs are written after all inputs were read, but for ``keep``: inputs that are read where they are used,
    since nobody writes them.
    """
    return _Writer(trace, read, write, real, frozenset(keep)).lines()


def helpers(lines: Sequence[str], real: str = "double", qualifier: str = "static") -> str:
    """The functions that these lines call, and that no library has; in float without sine and cosine."""
    text = "\n".join(lines)
    found = []
    for name, body in _HELPERS.items():
        if f"{name}(" in text:
            found.append(body.replace("QUALIFIER", qualifier))
    if "sa_sine_cosine(" in text and real == "double":
        found.append(_sine_cosine(qualifier))
    joined = "\n".join(found)
    return joined if real == "double" else joined.replace("double", real)


class _Writer:
    def __init__(
        self, trace: Trace, read: Callable[[int], str], write: Callable[[int], str], real: str, keep: frozenset[int]
    ) -> None:
        self.trace, self.read, self.write, self.real, self.keep = trace, read, write, real, keep
        self.angles: dict[int, int] = {}  # argument: the value that names its sine and cosine

    def lines(self) -> list[str]:
        found = []
        for index, instruction in enumerate(self.trace.instructions):
            found += self._line(index, instruction)
        return found + [f"{self.write(k)} = {self._value(source)};" for k, source in enumerate(self.trace.outputs)]

    def _value(self, index: int) -> str:
        """As a number."""
        op, args, constant = self.trace.instructions[index]
        if op == "const":
            return literal(constant, self.real)
        if op == "input" and int(constant) in self.keep:
            return self.read(int(constant))
        if op in ("sin", "cos"):
            return f"{op[0]}{self.angles[args[0]]}"
        return f"({self.real})v{index}" if op in _FLAGS else f"v{index}"

    def _flag(self, index: int) -> str:
        """As a truth value."""
        if self.trace.instructions[index].op in _FLAGS:
            return f"v{index}"
        return f"({self._value(index)} != {literal(0.0, self.real)})"

    def _line(self, index: int, instruction: Instruction) -> list[str]:
        op, args, constant = instruction
        if op == "const" or (op == "input" and int(constant) in self.keep):
            return []
        # Sine and cosine of one angle come together, whichever is asked first.
        if op in ("sin", "cos"):
            if args[0] in self.angles:
                return []
            self.angles[args[0]] = index
            return [
                f"{self.real} s{index}, c{index};",
                f"sa_sine_cosine({self._value(args[0])}, &s{index}, &c{index});",
            ]
        kind = "int" if op in _FLAGS else self.real
        return [f"const {kind} v{index} = {self._expression(op, args, constant)};"]

    def _expression(self, op: str, args: tuple[int, ...], constant: float) -> str:
        if op == "input":
            return self.read(int(constant))
        # Truth values are C's own: as numbers each would be compared anew.
        if op in ("and", "or", "not"):
            flags = [self._flag(arg) for arg in args]
            return f"!{flags[0]}" if op == "not" else f"{flags[0]} {'&&' if op == 'and' else '||'} {flags[1]}"
        if op == "select":
            return f"{self._flag(args[0])} ? {self._value(args[1])} : {self._value(args[2])}"
        values = [self._value(arg) for arg in args]
        if op in _BINARY or op in _COMPARE:
            return f"{values[0]} {_BINARY.get(op) or _COMPARE[op]} {values[1]}"
        if op == "neg":
            # GCC with -mfma makes -fma(a, b, c) one instruction, -a b - c: where the sum is zero it has the other sign.
            fused = self.trace.instructions[args[0]].op in ("fma", "fms", "fnma")
            return f"sa_negate({values[0]})" if fused else f"-{values[0]}"
        if op in ("fma", "fms", "fnma"):
            # Only those that the trace has: contraction by the compiler would give other bits.
            a, b, c = values
            name = "fma" if self.real == "double" else "fmaf"
            return f"{name}({'-' if op == 'fnma' else ''}{a}, {b}, {'-' if op == 'fms' else ''}{c})"
        # The library's name; in single precision with C's ending f.
        name = _CALLS.get(op, op)
        return f"{name}{'' if self.real == 'double' or name.startswith('sa_') else 'f'}({', '.join(values)})"


_HELPERS = {
    "sa_minimum": """QUALIFIER double sa_minimum(double a, double b)
{
    if (a != a || b != b) return a + b;
    if (a == b) return signbit(a) ? a : b;
    return a < b ? a : b;
}
""",
    "sa_maximum": """QUALIFIER double sa_maximum(double a, double b)
{
    if (a != a || b != b) return a + b;
    if (a == b) return signbit(a) ? b : a;
    return a > b ? a : b;
}
""",
    "sa_negate": """QUALIFIER double sa_negate(double x)
{
    return copysign(x, signbit(x) ? (double)1 : (double)-1);
}
""",
    "sa_sign": """QUALIFIER double sa_sign(double x)
{
    return x < 0 || x > 0 ? copysign(1, x) : x;
}
""",
}


def _sine_cosine(qualifier: str) -> str:
    """As :meth:`spacearm.engine.llvm._Emitter._sin_cos`, step by step."""

    def polynomial(name: str, terms: Sequence[float]) -> str:
        lines = [f"    double {name} = {literal(terms[-1])};"]
        lines += [f"    {name} = fma({name}, z, {literal(term)});" for term in reversed(terms[:-1])]
        return "\n".join(lines)

    # pi/2 in three parts (W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980), each taken off
    # by a fused multiply-add, which rounds once.
    reduction = "\n".join(f"    r = fma(turns, {literal(-part)}, r);" for part in HALF_PI)
    return f"""{qualifier} void sa_sine_cosine(double x, double *sine, double *cosine)
{{
    const double shifted = fma(x, {literal(TWO_OVER_PI)}, {literal(ROUND)});
    const double turns = shifted - {literal(ROUND)};
    unsigned long long quadrant, bits;
    double r = x, z, s, c, t;
    memcpy(&quadrant, &shifted, sizeof quadrant);
{reduction}
    z = r * r;
{polynomial("ps", SIN_TERMS)}
{polynomial("pc", COS_TERMS)}
    s = fma(r * z, ps, r);
    c = fma(z, fma(z, pc, {literal(-0.5)}), {literal(1.0)});
    if (quadrant & 1u) {{ t = s; s = c; c = t; }}
    memcpy(&bits, &s, sizeof bits);
    bits ^= (quadrant << 62) & 0x8000000000000000u;
    memcpy(sine, &bits, sizeof bits);
    memcpy(&bits, &c, sizeof bits);
    bits ^= ((quadrant + 1u) << 62) & 0x8000000000000000u;
    memcpy(cosine, &bits, sizeof bits);
}}
"""
