"""Transposition of samples in rows to vector lanes and back, in blocks that stay in registers.

A group of W samples (W: lanes of this processor) stands in memory row by row; a kernel wants it [number][W].
Transposing four numbers of all W samples at once costs about half an instruction a number; one by one, the copying
would cost more than the dynamics of a small robot. A 4 x 4 block takes two rounds of shuffles: pairs of numbers within
16 bytes, which is one cheap instruction each, then pairs of these; with W = 8 both halves of a register do the same.

The functions are LLVM code that Numba puts into its loops: they take plain addresses and strides in bytes, and check
nothing. Shuffles are unrolled while the code is generated, when the number of lanes is known.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spacearm.engine.machine import host

#: Numbers of each sample that are turned at once.
BLOCK = 4

_DOUBLE = ir.DoubleType()
_CACHE_LINE = 64  # bytes


def _vector(size: int) -> Any:
    return ir.VectorType(_DOUBLE, size)


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _shuffle(builder: Any, first: Any, second: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order))


def _interleave(builder: Any, a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Transpose of the 4 x 4 blocks in which four vectors of 4 or 8 numbers stand above each other."""
    # Two rounds: pairs of numbers within 16 bytes, which is one cheap instruction each, then pairs of these. For
    # vectors of 8 both halves do the same.
    size = a.type.count
    starts = range(0, size, 4)
    even = [k + i for k in starts for i in (0, size, 2, size + 2)]
    odd = [k + i for k in starts for i in (1, size + 1, 3, size + 3)]
    low = [k + i for k in starts for i in (0, 1, size, size + 1)]
    high = [k + i for k in starts for i in (2, 3, size + 2, size + 3)]
    ab_even, ab_odd = _shuffle(builder, a, b, even), _shuffle(builder, a, b, odd)
    cd_even, cd_odd = _shuffle(builder, c, d, even), _shuffle(builder, c, d, odd)
    return (
        _shuffle(builder, ab_even, cd_even, low),
        _shuffle(builder, ab_odd, cd_odd, low),
        _shuffle(builder, ab_even, cd_even, high),
        _shuffle(builder, ab_odd, cd_odd, high),
    )


def _columns(builder: Any, rows: list[Any]) -> list[Any]:
    """W rows of four numbers as four vectors of W."""
    if len(rows) == 2:
        return [_shuffle(builder, rows[0], rows[1], [k, BLOCK + k]) for k in range(BLOCK)]
    # Rows k and k + 4 in one register: the halves are then transposed at once.
    if len(rows) == 8:
        rows = [_shuffle(builder, rows[k], rows[k + 4], list(range(8))) for k in range(4)]
    return list(_interleave(builder, *rows))


def _rows(builder: Any, columns: list[Any]) -> list[Any]:
    """Four vectors of W as W rows of four numbers."""
    lanes = columns[0].type.count
    # Transposed in registers by shuffles: memory is read and written in whole vectors only.
    if lanes == 2:
        pairs = [_shuffle(builder, columns[k], columns[k + 1], [0, 2, 1, 3]) for k in (0, 2)]
        return [_shuffle(builder, pairs[0], pairs[1], [k, k + 1, 4 + k, 5 + k]) for k in (0, 2)]
    transposed = _interleave(builder, *columns)
    if lanes == 4:
        return list(transposed)
    halves = [[_shuffle(builder, both, both, list(range(k, k + 4))) for both in transposed] for k in (0, 4)]
    return [*halves[0], *halves[1]]


def _column_pointers(builder: Any, place: Any) -> list[Any]:
    """Where four vectors of W stand, one after the other, from an address on."""
    kind = _vector(host().lanes)
    steps = [ir.Constant(place.type, 8 * kind.count * k) for k in range(BLOCK)]
    return [_pointer(builder, builder.add(place, step), kind) for step in steps]


def _load_columns(builder: Any, place: Any) -> list[Any]:
    return [builder.load(each, align=8) for each in _column_pointers(builder, place)]


def _store_columns(builder: Any, place: Any, columns: list[Any]) -> None:
    for column, each in zip(columns, _column_pointers(builder, place), strict=True):
        builder.store(column, each, align=8)


@intrinsic
def transpose_in(typingctx: Any, row: Any, stride: Any, place: Any) -> Any:
    """``transpose_in(row, stride, place)``: four numbers at address ``row``, one sample each ``stride`` bytes, to
    lanes."""
    del typingctx, row, stride, place

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        # Unrolled while the code is generated: the number of lanes is known then.
        lanes = host().lanes
        address, stride, place = args
        rows = []
        for _ in range(lanes):
            rows.append(builder.load(_pointer(builder, address, _vector(BLOCK)), align=8))
            address = builder.add(address, stride)
        _store_columns(builder, place, _columns(builder, rows))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@intrinsic
def transpose_out(typingctx: Any, place: Any, row: Any, stride: Any) -> Any:
    """``transpose_out(place, row, stride)``: :func:`transpose_in` backwards."""
    del typingctx, place, row, stride

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        place, address, stride = args
        for row in _rows(builder, _load_columns(builder, place)):
            builder.store(row, _pointer(builder, address, _vector(BLOCK)), align=8)
            address = builder.add(address, stride)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@intrinsic
def gather_rows(typingctx: Any, rows: Any, offset: Any, place: Any) -> Any:
    """``gather_rows(rows, offset, place)``: :func:`transpose_in` of samples that lie anywhere.

    ``rows`` is the address of their addresses, ``offset`` that of the four numbers in each, in bytes.
    """
    del typingctx, rows, offset, place

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        rows = [builder.load(each, align=8) for each in _row_pointers(builder, args[0], args[1])]
        _store_columns(builder, args[2], _columns(builder, rows))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


@intrinsic
def scatter_rows(typingctx: Any, place: Any, rows: Any, offset: Any) -> Any:
    """``scatter_rows(place, rows, offset)``: :func:`gather_rows` backwards."""
    del typingctx, place, rows, offset

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        columns = _load_columns(builder, args[0])
        for row, each in zip(_rows(builder, columns), _row_pointers(builder, args[1], args[2]), strict=True):
            builder.store(row, each, align=8)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


def _row_pointers(builder: Any, rows: Any, offset: Any) -> list[Any]:
    """Where four numbers of each sample are."""
    table = _pointer(builder, rows, rows.type)
    found = []
    for lane in range(host().lanes):
        row = builder.load(builder.gep(table, [ir.Constant(rows.type, lane)]))
        found.append(_pointer(builder, builder.add(row, offset), _vector(BLOCK)))
    return found


@intrinsic
def all_finite(typingctx: Any, place: Any, count: Any) -> Any:
    """``all_finite(place, count)``: whether ``count`` vectors of W numbers at an address are all finite."""
    del typingctx, place, count

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        kind = _vector(host().lanes)
        zero = ir.Constant(kind, [0.0] * kind.count)
        total = cgutils.alloca_once_value(builder, zero)
        start = _pointer(builder, args[0], kind)
        with cgutils.for_range(builder, args[1]) as loop:
            value = builder.load(builder.gep(start, [loop.index]), align=8)
            # Anything finite times zero is zero; infinity and NaN give NaN, which stays in the sum.
            builder.store(builder.fadd(builder.load(total), builder.fmul(value, zero)), total)
        found = builder.load(total)
        # NaN is the only number that is unordered with itself; one bit for each lane, compared as an integer.
        bad = builder.bitcast(builder.fcmp_unordered("uno", found, found), ir.IntType(kind.count))
        return builder.icmp_unsigned("==", bad, ir.Constant(bad.type, 0))

    return types.boolean(types.intp, types.intp), generate


@intrinsic
def prefetch(typingctx: Any, address: Any, size: Any) -> Any:
    """``prefetch(address, size)``: ask for bytes that will be read soon; they may lie beyond any array."""
    del typingctx, address, size

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        line = ir.Constant(args[0].type, _CACHE_LINE)
        count = builder.sdiv(builder.add(args[1], ir.Constant(args[0].type, _CACHE_LINE - 1)), line)
        with cgutils.for_range(builder, count) as loop:
            at = builder.add(args[0], builder.mul(loop.index, line))
            # To be read, into the nearest cache, as data.
            builder.call(ask, [builder.inttoptr(at, byte), *(ir.Constant(flag, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


@intrinsic
def load_double(typingctx: Any, address: Any) -> Any:
    """The double at an address."""
    del typingctx, address

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        return builder.load(_pointer(builder, args[0], _DOUBLE))

    return types.float64(types.intp), generate


@intrinsic
def store_double(typingctx: Any, address: Any, value: Any) -> Any:
    """Write a double to an address."""
    del typingctx, address, value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del signature
        builder.store(args[1], _pointer(builder, args[0], _DOUBLE))
        return context.get_dummy_value()

    return types.void(types.intp, types.float64), generate
