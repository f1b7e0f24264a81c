"""Machine code for this processor: IR text in, address out, through the cache."""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from dataclasses import dataclass
from functools import cache as once
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from spacearm.engine import cache
from spacearm.engine.llvm import ENTRY, kernel_ir
from spacearm.engine.trace import Trace
from spacearm.typing import Array

_lock = threading.Lock()  # LLVM objects are made by one thread at a time


@dataclass(frozen=True)
class Host:
    """The processor that code is made for."""

    name: str
    features: str
    lanes: int  # doubles in one vector register


@once
def host() -> Host:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    lanes = 8 if features.get("avx512f") else 4 if features.get("avx2") else 2
    return Host(llvm.get_host_cpu_name(), features.flatten(), lanes)


@dataclass(frozen=True)
class MachineCode:
    """A loaded function. It lives as long as this object does."""

    address: int
    from_cache: bool
    owner: Any  # LLVM's execution engine


def load(ir: str) -> MachineCode:
    """Compile IR, or take it from the cache, and load it."""
    cpu, model = host(), _code_model(ir)
    version = ".".join(map(str, llvm.llvm_version_info))
    name = cache.key(ir, cpu.name, cpu.features, model, llvmlite.__version__, version)
    with _lock:
        code = cache.read(name)
        found = code is not None
        if code is None:
            code = _compile(ir, cpu, model)
            cache.write(name, code)
        # llvmlite's own memory manager puts code and constants side by side, as the small code model has to have them.
        near = True if model == "small" else None
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(cpu, model), use_lmm=near)
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        return MachineCode(engine.get_function_address(ENTRY), found, engine)


def evaluate(trace: Trace, row: Array) -> Array:
    """Outputs of a trace for one row of inputs."""
    code, out = load(kernel_ir(trace, 1)), np.empty(trace.n_out)
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)
    given = np.ascontiguousarray(row, dtype=np.float64)
    function(given.ctypes.data, out.ctypes.data)
    return out


def _code_model(ir: str) -> str:
    """LLVM's code model: "small" where the code calls nothing outside.

    There a constant is an operand of the instruction that needs it; else its address, 8 bytes, is loaded before. (A
    processor without fused multiply-adds calls a function for each.)
    """
    outside = re.search(r"^declare \S+ @(?!llvm\.)", ir[: ir.find("define ")], re.MULTILINE)
    near = sys.platform == "linux" and {"+fma", "+avx"} <= {*host().features.split(",")} and not outside
    return "small" if near else "jitdefault"


def _target_machine(cpu: Host, model: str) -> Any:
    target = llvm.Target.from_default_triple()
    # Straight-line code in single-assignment form needs no optimiser, only a good code generator.
    return target.create_target_machine(cpu=cpu.name, features=cpu.features, opt=2, codemodel=model, jit=True)


def _compile(ir: str, cpu: Host, model: str) -> bytes:
    module = llvm.parse_assembly(ir)
    module.verify()
    return bytes(_target_machine(cpu, model).emit_object(module))
