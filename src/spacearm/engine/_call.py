"""Calling machine code by its address from inside a Numba loop."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def call_kernel(typingctx: Any, address: Any, inputs: Any, outputs: Any) -> Any:
    """``call_kernel(address, inputs, outputs)``: run a kernel on two C-contiguous float64 arrays."""
    del typingctx
    signature = types.void(types.intp, inputs, outputs)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = ir.DoubleType().as_pointer()
        function = ir.FunctionType(ir.VoidType(), [pointer, pointer])
        arrays = [
            cgutils.create_struct_proxy(kind)(context, builder, value=value).data
            for kind, value in zip(signature.args[1:], args[1:], strict=True)
        ]
        target = builder.inttoptr(args[0], function.as_pointer())
        builder.call(target, arrays)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def block_at(typingctx: Any, address: Any, like: Any) -> Any:
    """``block_at(address, like)``: the block of arguments at an address, of the type of ``like``."""
    del typingctx, address
    signature = like(types.intp, like)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return signature, generate


@intrinsic
def call_entry(typingctx: Any, address: Any, block: Any) -> Any:
    """``call_entry(address, block)``: run an entry (:class:`spacearm.engine.loops.CompiledEntry`) by its address."""
    del typingctx, address
    signature = types.int64(types.intp, block)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        del context, signature
        word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        # Numba's own convention: places of the result and of an error come first.
        function = ir.FunctionType(ir.IntType(32), [word.as_pointer(), pointer.as_pointer(), pointer])
        result = cgutils.alloca_once(builder, word)
        error = cgutils.alloca_once(builder, pointer)
        builder.call(builder.inttoptr(args[0], function.as_pointer()), [result, error, args[1]])
        return builder.load(result)

    return signature, generate
