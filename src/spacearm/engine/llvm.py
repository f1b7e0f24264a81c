"""A trace as LLVM IR text: each instruction once, on a scalar or on a vector of W doubles.

The function is ``void (ptr in, ptr out)`` with ``in`` laid out [n_in][W] and ``out`` [n_out][W]. No fast-math flag is
set: NaN and infinity keep their meaning, and fused multiply-adds stand where :mod:`spacearm.engine.trace` put them, so
a sample's result does not depend on W, on its lane, or on its neighbours.

A long trace is cut into parts of a few thousand instructions, each a function of its own, because LLVM's time grows
faster than the length of a block; what a later part needs goes through scratch memory.

Inputs called uniform hold the same number in every lane; what depends on them alone is computed once, as a scalar.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from spacearm.engine.trace import Instruction, Trace

ENTRY = "spacearm_kernel"
#: Instructions in one function: up to twice this stay whole.
PART = 4000

# sin and cos on |r| <= pi/4: r + r^3 S(r^2) and 1 - r^2/2 + r^4 C(r^2), S and C interpolated at Chebyshev nodes in
# 300-bit arithmetic (relative errors 1.3e-17 and 5e-19); pi/2 in three parts for the reduction by fused multiply-adds.
_SIN = [float.fromhex(h) for h in (
    "-0x1.5555555555555p-3", "0x1.1111111110babp-7", "-0x1.a01a019e820acp-13",
    "0x1.71de37946eb45p-19", "-0x1.ae6008d0f0520p-26", "0x1.5e0a4fb47ace3p-33",
)]  # fmt: skip
_COS = [float.fromhex(h) for h in (
    "0x1.5555555555555p-5", "-0x1.6c16c16c16963p-10", "0x1.a01a019f4ddfdp-16",
    "-0x1.27e4fa16cc1bcp-22", "0x1.1eeb67d014ecep-29", "-0x1.907cd8f26aa3fp-37",
)]  # fmt: skip
_HALF_PI = [float.fromhex(h) for h in ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")]
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits

_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_COMPARE = {"lt": "olt", "le": "ole", "eq": "oeq", "ne": "une"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil", "min": "minimum", "max": "maximum",
              "copysign": "copysign"}  # fmt: skip
#: From the C library, lane by lane: rare in mechanics, common in friction laws.
_LIBRARY = {"exp", "log", "pow", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "fmod", "hypot",
            "log1p", "expm1", "erf"}  # fmt: skip


def literal(value: float) -> str:
    """A double as LLVM writes it exactly."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def kernel_ir(trace: Trace, width: int, uniform: frozenset[int] = frozenset()) -> str:
    """IR text of a trace for vectors of ``width`` doubles; ``uniform`` are flat inputs equal in all lanes."""
    return _Emitter(trace, width, uniform).text()


class _Emitter:
    def __init__(self, trace: Trace, width: int, uniform: frozenset[int]) -> None:
        self.trace = trace
        self.width = width
        self.declared: dict[str, str] = {}
        self.scalar = self._scalar_values(uniform)
        self.part_of, self.slot, self.slots = self._cut()
        self._start_part(0)

    def _start_part(self, part: int) -> None:
        """Names are local to a function: forget those of the part before."""
        self.part = part
        self.lines: list[str] = []
        self.count = 0
        self.value: dict[int, str] = {}  # as double
        self.flag: dict[int, str] = {}  # comparisons, as i1
        self.spread: dict[int, str] = {}  # scalars broadcast to all lanes
        self.angle: dict[int, tuple[str, str]] = {}  # sine and cosine of a value

    def _cut(self) -> tuple[list[int], dict[int, int], int]:
        """The part of each instruction, the scratch slot of each value that crosses parts, the number of slots."""
        length = len(self.trace.instructions)
        size = length if length <= 2 * PART else PART
        part_of = [index // max(size, 1) for index in range(length)]
        last_part = part_of[-1] if length else 0
        needed: dict[int, int] = {}  # last part that uses a value
        for index, instruction in enumerate(self.trace.instructions):
            for arg in instruction.args:
                needed[arg] = max(needed.get(arg, 0), part_of[index])
        for source in self.trace.outputs:
            needed[source] = last_part
        slot: dict[int, int] = {}
        free: list[int] = []
        ends: dict[int, list[int]] = {}  # slots that become free after a part
        slots, current = 0, 0
        for index, instruction in enumerate(self.trace.instructions):
            while current < part_of[index]:
                free.extend(ends.pop(current, []))
                current += 1
            # Inputs and constants are at hand anywhere.
            if instruction.op not in ("const", "input") and needed.get(index, 0) > part_of[index]:
                if not free:
                    free.append(slots)
                    slots += 1
                slot[index] = free.pop()
                ends.setdefault(needed[index], []).append(slot[index])
        return part_of, slot, slots

    def text(self) -> str:
        instructions, last = self.trace.instructions, self.part_of[-1] if self.part_of else 0
        functions: list[str] = []
        for index, instruction in enumerate(instructions):
            if self.part_of[index] != self.part:
                functions.append(self._function())
                self._start_part(self.part_of[index])
            self._emit(index, instruction)
            if index in self.slot:
                own = self.scalar[index]
                self._store("%scratch", self.slot[index], self._as_double(index, own), own)
        for index, source in enumerate(self.trace.outputs):
            self._store("%out", index, self._as_double(source, False), False)
        functions.append(self._function())
        parts = [*self.declared.values(), *functions]
        if last:
            calls = "\n  ".join(f"call void @part{k}(ptr %in, ptr %out, ptr %scratch)" for k in range(last + 1))
            parts.append(
                f"define void @{ENTRY}(ptr %in, ptr %out) #0 {{\n"
                f"  %scratch = alloca double, i64 {self.slots * self.width}, align 64\n  {calls}\n  ret void\n}}"
            )
        parts.append('attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }')
        return "\n".join(parts) + "\n"

    def _function(self) -> str:
        whole = not self.part_of or self.part_of[-1] == 0
        pointers = "ptr noalias nocapture readonly %in, ptr noalias nocapture %out"
        head = f"void @{ENTRY}({pointers})"
        if not whole:
            head = f"internal void @part{self.part}({pointers}, ptr noalias nocapture %scratch)"
        body = "\n  ".join(self.lines)
        return f"define {head} #0 {{\n  {body}\n  ret void\n}}"

    def _store(self, array: str, index: int, value: str, scalar: bool) -> None:
        pointer = self._new(f"getelementptr inbounds double, ptr {array}, i64 {index * self.width}")
        self.lines.append(f"store {self._type(scalar)} {value}, ptr {pointer}, align 8")

    def _load(self, array: str, index: int, scalar: bool) -> str:
        pointer = self._new(f"getelementptr inbounds double, ptr {array}, i64 {index * self.width}")
        return self._new(f"load {self._type(scalar)}, ptr {pointer}, align 8")

    # -- types and names ----------------------------------------------------------------------------------------

    def _scalar_values(self, uniform: frozenset[int]) -> list[bool]:
        """Which values are the same in all lanes."""
        scalar: list[bool] = []
        for instruction in self.trace.instructions:
            if self.width == 1 or instruction.op == "const":
                scalar.append(True)
            elif instruction.op == "input":
                scalar.append(int(instruction.constant) in uniform)
            else:
                scalar.append(all(scalar[arg] for arg in instruction.args))
        return scalar

    def _type(self, scalar: bool, element: str = "double") -> str:
        return element if scalar or self.width == 1 else f"<{self.width} x {element}>"

    def _const(self, text: str, scalar: bool, element: str = "double") -> str:
        if scalar or self.width == 1:
            return text
        return "<" + ", ".join([f"{element} {text}"] * self.width) + ">"

    def _number(self, value: float, scalar: bool) -> str:
        return self._const(literal(value), scalar)

    def _new(self, expression: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {expression}")
        return name

    def _intrinsic(self, name: str, scalar: bool, args: list[str]) -> str:
        kind = self._type(scalar)
        suffix = "f64" if kind == "double" else f"v{self.width}f64"
        full = f"llvm.{name}.{suffix}"
        self.declared[full] = f"declare {kind} @{full}({', '.join([kind] * len(args))})"
        return self._new(f"call {kind} @{full}({', '.join(f'{kind} {arg}' for arg in args)})")

    # -- values -------------------------------------------------------------------------------------------------

    def _as_double(self, index: int, scalar: bool) -> str:
        """The value as a double, spread over the lanes where it is scalar and a vector is wanted."""
        instruction = self.trace.instructions[index]
        if instruction.op == "const":
            return self._number(instruction.constant, scalar)
        own = self.scalar[index]
        if index not in self.value and self.part_of[index] != self.part:
            if instruction.op == "input":
                self.value[index] = self._load("%in", int(instruction.constant), own)
            else:
                self.value[index] = self._load("%scratch", self.slot[index], own)
        if index not in self.value:
            kind, flag = self._type(own), self._type(own, "i1")
            one, zero = self._number(1.0, own), self._number(0.0, own)
            self.value[index] = self._new(f"select {flag} {self.flag[index]}, {kind} {one}, {kind} {zero}")
        if scalar or not own or self.width == 1:
            return self.value[index]
        if index not in self.spread:
            kind = self._type(False)
            first = self._new(f"insertelement {kind} poison, double {self.value[index]}, i64 0")
            self.spread[index] = self._new(
                f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer"
            )
        return self.spread[index]

    def _as_flag(self, index: int, scalar: bool) -> str:
        """The value as a truth value in ``scalar`` or vector form."""
        own = self.scalar[index]
        if index in self.flag and (own == scalar or self.width == 1):
            return self.flag[index]
        kind = self._type(scalar)
        return self._new(f"fcmp une {kind} {self._as_double(index, scalar)}, {self._number(0.0, scalar)}")

    def _emit(self, index: int, instruction: Instruction) -> None:
        op, args, scalar = instruction.op, instruction.args, self.scalar[index]
        kind = self._type(scalar)

        def double(k: int) -> str:
            return self._as_double(args[k], scalar)

        if op == "const":
            return
        if op == "input":
            self.value[index] = self._load("%in", int(instruction.constant), scalar)
        elif op in _BINARY:
            self.value[index] = self._new(f"{_BINARY[op]} {kind} {double(0)}, {double(1)}")
        elif op == "neg":
            self.value[index] = self._new(f"fneg {kind} {double(0)}")
        elif op in ("fma", "fms", "fnma"):
            a, b, c = double(0), double(1), double(2)
            if op == "fms":
                c = self._new(f"fneg {kind} {c}")
            elif op == "fnma":
                a = self._new(f"fneg {kind} {a}")
            self.value[index] = self._intrinsic("fma", scalar, [a, b, c])
        elif op in _COMPARE:
            self.flag[index] = self._new(f"fcmp {_COMPARE[op]} {kind} {double(0)}, {double(1)}")
        elif op in ("and", "or", "not"):
            flags = self._type(scalar, "i1")
            first = self._as_flag(args[0], scalar)
            second = self._const("true", scalar, "i1") if op == "not" else self._as_flag(args[1], scalar)
            self.flag[index] = self._new(f"{'xor' if op == 'not' else op} {flags} {first}, {second}")
        elif op == "select":
            flags = self._type(scalar, "i1")
            condition = self._as_flag(args[0], scalar)
            self.value[index] = self._new(f"select {flags} {condition}, {kind} {double(1)}, {kind} {double(2)}")
        elif op in ("sin", "cos"):
            if args[0] not in self.angle:
                self.angle[args[0]] = self._sin_cos(double(0), scalar)
            self.value[index] = self.angle[args[0]][op == "cos"]
        elif op in _INTRINSIC:
            self.value[index] = self._intrinsic(_INTRINSIC[op], scalar, [double(k) for k in range(len(args))])
        elif op == "sign":
            self.value[index] = self._sign(double(0), scalar)
        else:
            self.value[index] = self._library(op, scalar, [double(k) for k in range(len(args))])

    def _sign(self, x: str, scalar: bool) -> str:
        """-1, 0 or 1; NaN stays NaN."""
        kind, flags = self._type(scalar), self._type(scalar, "i1")
        one = self._intrinsic("copysign", scalar, [self._number(1.0, scalar), x])
        nonzero = self._new(f"fcmp one {kind} {x}, {self._number(0.0, scalar)}")
        return self._new(f"select {flags} {nonzero}, {kind} {one}, {kind} {x}")

    def _library(self, op: str, scalar: bool, args: list[str]) -> str:
        if op not in _LIBRARY:
            raise AssertionError(f"no machine code for {op}")
        self.declared[op] = f"declare double @{op}({', '.join(['double'] * len(args))})"
        if scalar or self.width == 1:
            return self._new(f"call double @{op}({', '.join(f'double {arg}' for arg in args)})")
        kind, result = self._type(False), "poison"
        for lane in range(self.width):
            each = [self._new(f"extractelement {kind} {arg}, i64 {lane}") for arg in args]
            one = self._new(f"call double @{op}({', '.join(f'double {arg}' for arg in each)})")
            result = self._new(f"insertelement {kind} {result}, double {one}, i64 {lane}")
        return result

    def _sin_cos(self, x: str, scalar: bool) -> tuple[str, str]:
        """Sine and cosine without branches: reduce to |r| <= pi/4, two polynomials, swap and sign by quadrant."""
        kind, whole, flags = self._type(scalar), self._type(scalar, "i64"), self._type(scalar, "i1")

        def number(value: float) -> str:
            return self._number(value, scalar)

        def integer(value: int) -> str:
            return self._const(str(value), scalar, "i64")

        def fma(a: str, b: str, c: str) -> str:
            return self._intrinsic("fma", scalar, [a, b, c])

        def polynomial(coefficients: list[float], z: str) -> str:
            result = number(coefficients[-1])
            for coefficient in reversed(coefficients[:-1]):
                result = fma(result, z, number(coefficient))
            return result

        def signed(value: str, quadrant: str) -> str:
            """Negative where bit 1 of the quadrant is set."""
            high = self._new(f"shl {whole} {quadrant}, {integer(62)}")
            bit = self._new(f"and {whole} {high}, {integer(-(2**63))}")
            bits = self._new(f"bitcast {kind} {value} to {whole}")
            return self._new(f"bitcast {whole} {self._new(f'xor {whole} {bits}, {bit}')} to {kind}")

        shifted = fma(x, number(_TWO_OVER_PI), number(_ROUND))
        turns = self._new(f"fsub {kind} {shifted}, {number(_ROUND)}")
        quadrant = self._new(f"bitcast {kind} {shifted} to {whole}")
        r = x
        for part in _HALF_PI:
            r = fma(turns, number(-part), r)
        z = self._new(f"fmul {kind} {r}, {r}")
        rz = self._new(f"fmul {kind} {r}, {z}")
        sine = fma(rz, polynomial(_SIN, z), r)
        cosine = fma(z, fma(z, polynomial(_COS, z), number(-0.5)), number(1.0))
        low = self._new(f"and {whole} {quadrant}, {integer(1)}")
        odd = self._new(f"icmp ne {whole} {low}, {integer(0)}")
        swapped: Callable[[str, str], str] = lambda a, b: self._new(f"select {flags} {odd}, {kind} {a}, {kind} {b}")  # noqa: E731
        next_quadrant = self._new(f"add {whole} {quadrant}, {integer(1)}")
        return signed(swapped(cosine, sine), quadrant), signed(swapped(sine, cosine), next_quadrant)
