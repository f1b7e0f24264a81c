"""A named tuple of arrays and numbers as one block of memory, which compiled loops get by one pointer.

Passed by value, the tuples of a phase are some six hundred arguments of every function of a loop: compilers need
minutes for them, and a call from Python twenty microseconds. A block has the address and the shape of each array, each
number, and the blocks of tuples within it, one behind the other in words of eight bytes. Loops read an attribute when
they need it, and may keep it: a block does not change while a loop runs, only the arrays that it points to do.

A block keeps the tuple it was made from, and so its arrays, alive. Arrays must be contiguous, rows first.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import Any

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_getattr_generic, register_model

#: Bytes of a number, an address or a length.
WORD = 8
_SCALARS = {int: types.int64, float: types.float64, bool: types.boolean}


class BlockType(types.Type):
    """Numba's type of a block: for each field its name, its type and its place in bytes."""

    def __init__(self, what: str, fields: tuple[tuple[str, Any, int], ...], size: int) -> None:
        self.fields, self.size = fields, size
        text = ";".join(f"{name}:{kind.name}@{place}" for name, kind, place in fields)
        super().__init__(name=f"{what}_{blake2b(text.encode(), digest_size=8).hexdigest()}")

    def find(self, name: str) -> tuple[Any, int] | None:
        """Type and place of a field."""
        return next(((kind, place) for own, kind, place in self.fields if own == name), None)


class ArgumentBlock:
    """A block made from a named tuple; see the module's text."""

    __slots__ = ("_memory", "_parts", "address", "kind")

    def __init__(self, parts: Any) -> None:
        values: list[Any] = []
        key: list[Any] = []
        _collect(parts, values, key)
        # Layouts are kept: finding one anew costs more than filling it.
        found = _layouts.get(tuple(key))
        if found is None:
            found = _layouts[tuple(key)] = block_type(parts), struct.Struct("=" + _format(parts))
        self.kind, packer = found
        self._parts, self._memory = parts, bytearray(packer.size)
        packer.pack_into(self._memory, 0, *values)
        self.address: int = np.frombuffer(self._memory, dtype=np.uint8).__array_interface__["data"][0]


_layouts: dict[tuple[Any, ...], tuple[BlockType, struct.Struct]] = {}


def _collect(parts: Any, values: list[Any], key: list[Any]) -> None:
    """Words of a named tuple, and what its layout depends on."""
    key.append(type(parts))
    for part in parts:
        kind = type(part)
        if kind is np.ndarray:
            if not part.flags.c_contiguous:
                raise TypeError(f"an array of {type(parts).__name__} is not contiguous")
            values.append(part.__array_interface__["data"][0])
            values += part.shape
            key.append(part.dtype.char)
            key.append(part.ndim)
        elif kind in _SCALARS:
            values.append(part)
            key.append(kind)
        elif isinstance(part, tuple):
            _collect(part, values, key)
        else:
            # NumPy's numbers, and numbers of an enumeration.
            number = float(part) if isinstance(part, float | np.floating) else int(part)
            values.append(number)
            key.append(type(number))
    key.append(None)


def _format(parts: Any) -> str:
    """The words as :mod:`struct` has them."""
    text = ""
    for part in parts:
        if isinstance(part, np.ndarray):
            text += "q" * (1 + part.ndim)
        elif isinstance(part, tuple):
            text += _format(part)
        else:
            text += "d" if isinstance(part, float | np.floating) else "q"
    return text


def block_type(parts: Any) -> BlockType:
    """The type of the block of a named tuple."""
    fields, place = [], 0
    for name, part in zip(parts._fields, parts, strict=True):
        if isinstance(part, np.ndarray):
            kind: Any = types.Array(from_dtype(part.dtype), part.ndim, "C")
            size = WORD * (1 + part.ndim)
        elif isinstance(part, tuple):
            kind = block_type(part)
            size = kind.size
        else:
            number = float if isinstance(part, float | np.floating) else bool if type(part) is bool else int
            kind, size = _SCALARS[number], WORD
        fields.append((name, kind, place))
        place += size
    return BlockType(type(parts).__name__, tuple(fields), place)


@register_model(BlockType)
class _BlockModel(models.OpaqueModel):
    """A pointer."""


@infer_getattr
class _BlockAttributes(AttributeTemplate):
    key = BlockType

    def generic_resolve(self, kind: BlockType, name: str) -> Any:
        found = kind.find(name)
        return None if found is None else found[0]


@lower_getattr_generic(BlockType)
def _read_field(context: Any, builder: Any, kind: BlockType, block: Any, name: str) -> Any:
    found = kind.find(name)
    assert found is not None
    what, place = found
    word = ir.IntType(64)

    def read(at: int, as_type: Any) -> Any:
        where = builder.gep(block, [word(at)], inbounds=True)
        value = builder.load(builder.bitcast(where, as_type.as_pointer()))
        # The same wherever it is read in a loop: else every store to an array would have it read anew.
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value

    if isinstance(what, BlockType):
        return builder.gep(block, [word(place)], inbounds=True)
    if not isinstance(what, types.Array):
        if what == types.boolean:
            return builder.icmp_signed("!=", read(place, word), word(0))
        return read(place, context.get_value_type(what))
    item = context.get_abi_sizeof(context.get_data_type(what.dtype))
    shape = [read(place + WORD * (1 + axis), word) for axis in range(what.ndim)]
    strides = [word(item)]
    for length in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], length, flags=["nsw"]))
    # All arrays are contiguous: strides follow from the shape and need no place in the block.
    count = shape[0]
    for length in shape[1:]:
        count = builder.mul(count, length, flags=["nsw"])
    array = context.make_array(what)(context, builder)
    array.data = read(place, array.data.type)
    array.shape = cgutils.pack_array(builder, shape, word)
    array.strides = cgutils.pack_array(builder, strides, word)
    array.itemsize = word(item)
    array.nitems = count
    # No owner: the tuple behind the block keeps arrays alive, and references are not counted.
    array.meminfo = ir.Constant(array.meminfo.type, None)
    array.parent = ir.Constant(array.parent.type, None)
    return array._getvalue()
