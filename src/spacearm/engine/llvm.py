"""A trace as LLVM IR text: each instruction once, on a scalar or on a vector of W doubles.

The function is ``void (ptr in, ptr out)`` with ``in`` laid out [n_in][W] and ``out`` [n_out][W]. No fast-math flag is
set: NaN and infinity keep their meaning, and fused multiply-adds stand where :mod:`spacearm.engine.trace` put them, so
a sample's result does not depend on W, on its lane, or on its neighbours.

All outputs are written after all inputs were read, so ``out`` may be the memory of ``in``. A kernel in place knows what
stands where, and writes each as soon as it can.

A long trace is cut into parts of a few thousand instructions, each a function of its own, because LLVM's time grows
faster than the length of a block; what a later part needs goes through scratch memory.

Inputs called uniform hold the same number in every lane; what depends on them alone is computed once, as a scalar.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from spacearm.engine.trace import Instruction, Trace
from spacearm.errors import EngineError

ENTRY = "spacearm_kernel"
#: Instructions in one function: up to twice this stay whole.
PART = 4000
#: Instructions between the inputs and an angle, at most, that are moved ahead so that angles share a register.
_AHEAD = 3

# sin and cos on |r| <= pi/4: r + r^3 S(r^2) and 1 - r^2/2 + r^4 C(r^2), S and C interpolated at Chebyshev nodes in
# 300-bit arithmetic (relative errors 1.3e-17 and 5e-19); pi/2 in three parts for the reduction by fused multiply-adds.
SIN_TERMS = [float.fromhex(h) for h in (
    "-0x1.5555555555555p-3", "0x1.1111111110babp-7", "-0x1.a01a019e820acp-13",
    "0x1.71de37946eb45p-19", "-0x1.ae6008d0f0520p-26", "0x1.5e0a4fb47ace3p-33",
)]  # fmt: skip
COS_TERMS = [float.fromhex(h) for h in (
    "0x1.5555555555555p-5", "-0x1.6c16c16c16963p-10", "0x1.a01a019f4ddfdp-16",
    "-0x1.27e4fa16cc1bcp-22", "0x1.1eeb67d014ecep-29", "-0x1.907cd8f26aa3fp-37",
)]  # fmt: skip
HALF_PI = [float.fromhex(h) for h in ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")]
TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits

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


class _Group(NamedTuple):
    """Neighbouring lanes that go through the program together: one register's worth, or a single number."""

    lane: int
    size: int

    def type(self, element: str = "double") -> str:
        return element if self.size == 1 else f"<{self.size} x {element}>"

    def splat(self, text: str, element: str = "double") -> str:
        """A constant in every lane."""
        return text if self.size == 1 else "<" + ", ".join([f"{element} {text}"] * self.size) + ">"

    def number(self, value: float) -> str:
        return self.splat(literal(value))


class Places(NamedTuple):
    """Where each flat input and output stands, in doubles.

    Without it each has a row of ``width``. With it uniform inputs may take one double, as may the outputs ``single``,
    which must depend on such inputs alone; and outputs may stand on inputs.
    """

    inp: Sequence[int]
    out: Sequence[int]
    single: frozenset[int] = frozenset()


#: What is the same in all lanes.
_SCALAR = _Group(0, 1)


def lane_groups(width: int, register: int) -> list[_Group]:
    """``width`` lanes as few groups of powers of two, none wider than a register: 10 is 8 and 2."""
    groups, lane = [], 0
    while lane < width:
        size = min(register, 1 << ((width - lane).bit_length() - 1))
        groups.append(_Group(lane, size))
        lane += size
    return groups


def kernel_ir(
    trace: Trace,
    width: int,
    uniform: frozenset[int] = frozenset(),
    register: int = 8,
    places: Places | None = None,
) -> str:
    """IR text of a trace for ``width`` lanes in registers of ``register`` doubles.

    ``uniform`` are flat inputs that are equal in all lanes: only lane 0 is read. ``places``: see :class:`Places`.
    """
    return _Emitter(trace, width, uniform, register, places).text()


class _Emitter:
    def __init__(self, trace: Trace, width: int, uniform: frozenset[int], register: int, places: Places | None) -> None:
        self.trace = trace
        self.width = width
        self.register = register
        self.in_place = places is not None
        self.places = places or Places(
            [index * width for index in range(trace.n_in)], [index * width for index in range(trace.n_out)]
        )
        # Each instruction is written once for each group of lanes: several registers' worth at once hide latencies.
        self.groups = lane_groups(width, register)
        self.declared: dict[str, str] = {}
        self.scalar = self._scalar_values(uniform)
        for index in self.places.single:
            if not self.scalar[trace.outputs[index]]:
                raise EngineError(f"output {index} differs from lane to lane but has room for one number")
        self.part_of, self.slot, self.slots = self._split_parts()
        self._start_part(0)

    def _start_part(self, part: int) -> None:
        """Names are local to a function: forget those of the part before."""
        self.part = part
        self.lines: list[str] = []
        self.count = 0
        self.value: dict[tuple[int, _Group], str] = {}  # as double
        self.flag: dict[tuple[int, _Group], str] = {}  # comparisons, as i1
        self.angle: dict[tuple[int, _Group], tuple[str, str]] = {}  # sine and cosine of a value

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

    def _split_parts(self) -> tuple[list[int], dict[int, int], int]:
        """The part of each instruction, the scratch slot of each value that crosses parts, the number of slots."""
        length = len(self.trace.instructions)
        size = length if length <= 2 * PART else PART
        part_of = [index // max(size, 1) for index in range(length)]
        last_part = part_of[-1] if length else 0
        needed: dict[int, int] = {}  # last part that uses a value
        for index, instruction in enumerate(self.trace.instructions):
            for arg in instruction.args:
                needed[arg] = max(needed.get(arg, 0), part_of[index])
        # Outputs are written in the last part, since they may stand in the memory of inputs.
        for source in self.trace.outputs:
            needed[source] = last_part
        # Slots are given back after the last part that reads them, so that scratch memory stays small.
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
        ahead = self._pack_angles() if self.width == 1 and not last else frozenset()
        due = self._due_outputs(ahead) if self.in_place and not last else {}
        for output in due.get(-1, ()):
            self._store_output(output)
        for index, instruction in enumerate(instructions):
            if index in ahead:
                continue
            if self.part_of[index] != self.part:
                functions.append(self._function())
                self._start_part(self.part_of[index])
            for group in self._groups_of(index):
                self._emit(index, instruction, group)
                if index in self.slot:
                    self._store("%scratch", self.slot[index] * self.width, self._as_double(index, group), group)
            for output in due.get(index, ()):
                self._store_output(output)
        # An output that is itself an input is read before the first one is written, which may stand in its place.
        for source in self.trace.outputs:
            if instructions[source].op == "input":
                for group in self._groups_of(source):
                    self._as_double(source, group)
        written = {output for outputs in due.values() for output in outputs}
        for output in range(self.trace.n_out):
            if output not in written:
                self._store_output(output)
        functions.append(self._function())
        parts = [*self.declared.values(), *functions]
        if last:
            calls = "\n  ".join(f"call void @part{k}(ptr %in, ptr %out, ptr %scratch)" for k in range(last + 1))
            parts.append(
                f"define void @{ENTRY}(ptr %in, ptr %out) #0 {{\n"
                f"  %scratch = alloca double, i64 {self.slots * self.width}, align 64\n  {calls}\n  ret void\n}}"
            )
        # The stack begins on a cache line, since values that find no register are kept there: a vector that lies across
        # two lines takes longer. Those of a single sample are numbers, which need no such place: addressed from the
        # frame's end each takes a byte less, and code that does not fit the processor's first cache takes longer.
        stack = '"frame-pointer"="all" "no-realign-stack"' if self.width == 1 else "alignstack=64"
        parts.append(
            f'attributes #0 = {{ nounwind {stack} "prefer-vector-width"="512" "min-legal-vector-width"="512" }}'
        )
        return "\n".join(parts) + "\n"

    def _store_output(self, output: int) -> None:
        for group in [_SCALAR] if output in self.places.single else self.groups:
            value = self._as_double(self.trace.outputs[output], group)
            self._store("%in" if self.in_place else "%out", self.places.out[output], value, group)

    def _due_outputs(self, ahead: frozenset[int]) -> dict[int, list[int]]:
        """After which instruction each output of a kernel in place can be written: when it is known, and what stood in
        its place was read. Kept to the end it would need another place until then.

        Instructions ``ahead`` came before all others, whose first is 0.
        """
        readers: dict[int, int] = {}
        for index, instruction in enumerate(self.trace.instructions):
            if instruction.op == "input" and index not in ahead:
                place = self.places.inp[int(instruction.constant)]
                for double in range(place, place + (1 if self.scalar[index] else self.width)):
                    readers[double] = index
        due: dict[int, list[int]] = {}
        for output, source in enumerate(self.trace.outputs):
            if self.trace.instructions[source].op in ("const", "input"):
                continue
            place = self.places.out[output]
            size = 1 if output in self.places.single else self.width
            last = max(readers.get(double, -1) for double in range(place, place + size))
            due.setdefault(max(last, -1 if source in ahead else source), []).append(output)
        return due

    def _pack_angles(self) -> frozenset[int]:
        """Sines and cosines of a single sample's angles, several in one register; the instructions emitted for that.

        Element by element these are the operations of a single angle, so the bits are the same.
        """
        instructions, register = self.trace.instructions, self.register
        angles = dict.fromkeys(args[0] for op, args, _ in instructions if op in ("sin", "cos"))
        paths = {angle: path for angle in angles if (path := self._path_from_inputs(angle)) is not None}
        packed = [*paths]
        if len(packed) < 2 or register < 2:
            return frozenset()
        ahead = dict.fromkeys(index for path in paths.values() for index in path)
        for index in sorted(ahead):
            self._emit(index, instructions[index], _SCALAR)
        for first in range(0, len(packed), register):
            some = packed[first : first + register]
            if len(some) == 1:  # as it is, where it is needed
                break
            group = _Group(0, 1 << (len(some) - 1).bit_length())
            vector = "zeroinitializer"
            for lane, angle in enumerate(some):
                value = self._as_double(angle, _SCALAR)
                vector = self._new(f"insertelement {group.type()} {vector}, double {value}, i64 {lane}")
            found = self._sin_cos(vector, group)
            for lane, angle in enumerate(some):
                sine, cosine = (self._new(f"extractelement {group.type()} {each}, i64 {lane}") for each in found)
                self.angle[angle, _SCALAR] = sine, cosine
        return frozenset(ahead)

    def _path_from_inputs(self, angle: int) -> list[int] | None:
        """What computes an angle, ascending: at most a few plain operations on inputs; None if it is more."""
        found: dict[int, None] = {}
        waiting = [angle]
        while waiting:
            index = waiting.pop()
            op, args, _ = self.trace.instructions[index]
            if index in found or op == "const":
                continue
            if op not in ("input", "fma", "fms", "fnma", "neg", *_BINARY):
                return None
            found[index] = None
            waiting += args
        operations = sum(self.trace.instructions[index].op != "input" for index in found)
        return sorted(found) if operations <= _AHEAD else None

    def _groups_of(self, index: int) -> list[_Group]:
        return [_SCALAR] if self.scalar[index] else self.groups

    def _function(self) -> str:
        whole = not self.part_of or self.part_of[-1] == 0
        # Results are written after inputs in their places were read: ``out`` may be ``in``, so they are not noalias.
        pointers = f"ptr nocapture {'' if self.in_place else 'readonly '}%in, ptr nocapture %out"
        head = f"void @{ENTRY}({pointers})"
        if not whole:
            head = f"internal void @part{self.part}({pointers}, ptr noalias nocapture %scratch)"
        body = "\n  ".join(self.lines)
        return f"define {head} #0 {{\n  {body}\n  ret void\n}}"

    # -- lines and names ----------------------------------------------------------------------------------------

    def _new(self, expression: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {expression}")
        return name

    def _pointer(self, array: str, place: int, group: _Group) -> str:
        return self._new(f"getelementptr inbounds double, ptr {array}, i64 {place + group.lane}")

    def _store(self, array: str, place: int, value: str, group: _Group) -> None:
        self.lines.append(f"store {group.type()} {value}, ptr {self._pointer(array, place, group)}, align 8")

    def _load(self, array: str, place: int, group: _Group) -> str:
        return self._new(f"load {group.type()}, ptr {self._pointer(array, place, group)}, align 8")

    def _intrinsic(self, name: str, group: _Group, args: list[str]) -> str:
        kind = group.type()
        full = f"llvm.{name}." + ("f64" if group.size == 1 else f"v{group.size}f64")
        self.declared[full] = f"declare {kind} @{full}({', '.join([kind] * len(args))})"
        return self._new(f"call {kind} @{full}({', '.join(f'{kind} {arg}' for arg in args)})")

    # -- values -------------------------------------------------------------------------------------------------

    def _as_double(self, index: int, group: _Group) -> str:
        """The value as a double in these lanes; what is the same in all lanes is spread over them."""
        instruction = self.trace.instructions[index]
        if instruction.op == "const":
            return group.number(instruction.constant)
        own = _SCALAR if self.scalar[index] else group
        if (index, own) not in self.value:
            self.value[index, own] = self._load_value(index, instruction, own)
        name = self.value[index, own]
        if own.size == group.size:
            return name
        wide = _Group(-1, group.size)  # spread once for all groups of a size
        if (index, wide) not in self.value:
            kind = group.type()
            first = self._new(f"insertelement {kind} poison, double {name}, i64 0")
            self.value[index, wide] = self._new(
                f"shufflevector {kind} {first}, {kind} poison, <{group.size} x i32> zeroinitializer"
            )
        return self.value[index, wide]

    def _load_value(self, index: int, instruction: Instruction, own: _Group) -> str:
        """A value that this part has no name for yet: from memory, or a truth value as a number."""
        if self.part_of[index] != self.part:
            if instruction.op == "input":
                return self._load("%in", self.places.inp[int(instruction.constant)], own)
            return self._load("%scratch", self.slot[index] * self.width, own)
        one, zero = own.number(1.0), own.number(0.0)
        return self._new(f"select {own.type('i1')} {self.flag[index, own]}, {own.type()} {one}, {own.type()} {zero}")

    def _as_flag(self, index: int, group: _Group) -> str:
        """The value as a truth value in these lanes."""
        if (index, group) in self.flag:
            return self.flag[index, group]
        # Any number but zero is true, NaN too, as in C.
        return self._new(f"fcmp une {group.type()} {self._as_double(index, group)}, {group.number(0.0)}")

    def _emit(self, index: int, instruction: Instruction, group: _Group) -> None:
        op, args, kind = instruction.op, instruction.args, group.type()
        key = (index, group)

        def double(k: int) -> str:
            return self._as_double(args[k], group)

        if op == "const":
            return
        if op == "input":
            self.value[key] = self._load("%in", self.places.inp[int(instruction.constant)], group)
        elif op in _BINARY:
            self.value[key] = self._new(f"{_BINARY[op]} {kind} {double(0)}, {double(1)}")
        elif op == "neg":
            self.value[key] = self._new(f"fneg {kind} {double(0)}")
        elif op in ("fma", "fms", "fnma"):
            a, b, c = double(0), double(1), double(2)
            # LLVM has one fused operation; a negated operand is folded into the instruction and costs nothing.
            if op == "fms":
                c = self._new(f"fneg {kind} {c}")
            elif op == "fnma":
                a = self._new(f"fneg {kind} {a}")
            self.value[key] = self._intrinsic("fma", group, [a, b, c])
        elif op in _COMPARE:
            self.flag[key] = self._new(f"fcmp {_COMPARE[op]} {kind} {double(0)}, {double(1)}")
        elif op in ("and", "or", "not"):
            first = self._as_flag(args[0], group)
            second = group.splat("true", "i1") if op == "not" else self._as_flag(args[1], group)
            self.flag[key] = self._new(f"{'xor' if op == 'not' else op} {group.type('i1')} {first}, {second}")
        elif op == "select":
            condition = f"{group.type('i1')} {self._as_flag(args[0], group)}"
            self.value[key] = self._new(f"select {condition}, {kind} {double(1)}, {kind} {double(2)}")
        elif op in ("sin", "cos"):
            # Sine and cosine of one angle share the reduction and both polynomials: compute them together.
            angle = (args[0], group)
            if angle not in self.angle:
                self.angle[angle] = self._sin_cos(double(0), group)
            self.value[key] = self.angle[angle][op == "cos"]
        elif op in _INTRINSIC:
            self.value[key] = self._intrinsic(_INTRINSIC[op], group, [double(k) for k in range(len(args))])
        elif op == "sign":
            self.value[key] = self._sign(double(0), group)
        else:
            self.value[key] = self._library(op, group, [double(k) for k in range(len(args))])

    def _sign(self, x: str, group: _Group) -> str:
        """-1, 0 or 1; NaN stays NaN."""
        kind = group.type()
        one = self._intrinsic("copysign", group, [group.number(1.0), x])
        # "one" is ordered and not equal: false for NaN, which is then handed on as it is, like zero.
        nonzero = self._new(f"fcmp one {kind} {x}, {group.number(0.0)}")
        return self._new(f"select {group.type('i1')} {nonzero}, {kind} {one}, {kind} {x}")

    def _library(self, op: str, group: _Group, args: list[str]) -> str:
        if op not in _LIBRARY:
            raise AssertionError(f"no machine code for {op}")
        self.declared[op] = f"declare double @{op}({', '.join(['double'] * len(args))})"
        if group.size == 1:
            return self._new(f"call double @{op}({', '.join(f'double {arg}' for arg in args)})")
        # Lane by lane, with the function that a single sample uses: the same bits for any width.
        kind, result = group.type(), "poison"
        for lane in range(group.size):
            each = [self._new(f"extractelement {kind} {arg}, i64 {lane}") for arg in args]
            one = self._new(f"call double @{op}({', '.join(f'double {arg}' for arg in each)})")
            result = self._new(f"insertelement {kind} {result}, double {one}, i64 {lane}")
        return result

    def _sin_cos(self, x: str, group: _Group) -> tuple[str, str]:
        """Sine and cosine without branches: reduce to |r| <= pi/4, two polynomials, swap and sign by quadrant."""
        kind, whole, flags = group.type(), group.type("i64"), group.type("i1")
        number = group.number

        def integer(value: int) -> str:
            return group.splat(str(value), "i64")

        def fma(a: str, b: str, c: str) -> str:
            return self._intrinsic("fma", group, [a, b, c])

        def polynomial(coefficients: list[float], z: str) -> str:
            result = number(coefficients[-1])
            for coefficient in reversed(coefficients[:-1]):
                result = fma(result, z, number(coefficient))
            return result

        def apply_sign(value: str, quadrant: str) -> str:
            """Negative where bit 1 of the quadrant is set."""
            high = self._new(f"shl {whole} {quadrant}, {integer(62)}")
            bit = self._new(f"and {whole} {high}, {integer(-(2**63))}")
            bits = self._new(f"bitcast {kind} {value} to {whole}")
            return self._new(f"bitcast {whole} {self._new(f'xor {whole} {bits}, {bit}')} to {kind}")

        # Nearest multiple of pi/2: adding ROUND pushes all fractions out of the mantissa, whose low bits are then the
        # integer, modulo 4 the quadrant, for negative angles too (two's complement).
        shifted = fma(x, number(TWO_OVER_PI), number(ROUND))
        turns = self._new(f"fsub {kind} {shifted}, {number(ROUND)}")
        quadrant = self._new(f"bitcast {kind} {shifted} to {whole}")
        r = x
        # x - turns pi/2 with pi/2 in three parts (W. J. Cody, W. Waite 1980): each product is exact inside the fused
        # operation, so that the remainder is accurate even near multiples of pi/2.
        for part in HALF_PI:
            r = fma(turns, number(-part), r)
        z = self._new(f"fmul {kind} {r}, {r}")
        rz = self._new(f"fmul {kind} {r}, {z}")
        sine = fma(rz, polynomial(SIN_TERMS, z), r)
        cosine = fma(z, fma(z, polynomial(COS_TERMS, z), number(-0.5)), number(1.0))
        # In odd quadrants sine and cosine change places; in the upper two the sine, in the middle two the cosine is
        # negative. Bit operations in place of branches, so that lanes may be in different quadrants.
        low = self._new(f"and {whole} {quadrant}, {integer(1)}")
        odd = self._new(f"icmp ne {whole} {low}, {integer(0)}")

        def swap_by_quadrant(a: str, b: str) -> str:
            return self._new(f"select {flags} {odd}, {kind} {a}, {kind} {b}")

        next_quadrant = self._new(f"add {whole} {quadrant}, {integer(1)}")
        return apply_sign(swap_by_quadrant(cosine, sine), quadrant), apply_sign(
            swap_by_quadrant(sine, cosine), next_quadrant
        )
