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
