"""Compiling the loops: each once on a machine, when a run first needs it; announced, measured.

Loops are Numba functions of fixed argument types: they do not depend on robots, so that they can be compiled, and kept
on disk, before any robot is there. Groups of loops are compiled as runs need them; when all are wanted, a second
process takes those that the solver does not need, because Numba compiles one function at a time. Arguments that only
have the right types stand in for real ones: nothing is run here.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from spacearm.engine import _batch, fixed_step, phase, side_by_side, solver
from spacearm.engine.block import block_type
from spacearm.engine.loops import CompiledEntry
from spacearm.engine.phase import SampleEnds, SampleRows, make_events, make_solver_phase
from spacearm.engine.radau import implicit_call
from spacearm.engine.schedule import NO_RANDOM_CHANNELS
from spacearm.engine.signals import merge
from spacearm.engine.system import System, make_code, make_friction, make_solver_memory

#: What runs need: the solver, for one run and for several side by side; its implicit steps; many samples in a row; many
#: in vector lanes; batches of kernels.
LOOPS = {
    "solver": "solver and events",
    "side by side": "phases side by side",
    "implicit": "implicit steps",
    "samples": "many samples in a row",
    "lanes": "many samples in vector lanes",
    "batch": "batches",
}
#: What a second process compiles meanwhile, when all are wanted.
_MEANWHILE = ("implicit", "lanes", "batch", "samples", "side by side")

_lock = threading.Lock()
_ready: set[str] = set()


def print_status(text: str) -> None:
    """Tell the user on standard error."""
    print(text, file=sys.stderr, flush=True)


def ensure_loops(*names: str) -> None:
    """Have these loops (the solver by default) compiled, or loaded from the cache, before they are needed."""
    missing = [name for name in names or ("solver",) if name not in _ready]
    if missing:
        _compile_loops(missing, print_status)


def implicit_address(system: System) -> int:
    """Address of the code of implicit steps, which is compiled when it is first asked for."""
    ensure_loops("implicit")
    return implicit_call.address(block_type(system))


def warm_up(announce: Callable[[str], None] | None = print_status) -> float:
    """Compile all loops, or load them from the cache; seconds it took. Only real compilation is announced."""
    began = time.perf_counter()
    with _other_process():
        _compile_loops(["solver"], announce)
    _compile_loops(list(LOOPS), announce)
    return time.perf_counter() - began


@contextmanager
def _other_process() -> Iterator[None]:
    """Another process that compiles some of the loops into the cache; without them where nothing can be kept there."""
    missing = [name for name in _MEANWHILE if name not in _ready and not _is_cached(name)]
    # The solver is what takes long: where it is cached, this process does the rest itself.
    if not missing or _is_cached("solver"):
        yield
        return
    source = f"from spacearm.engine.warm import ensure_loops; ensure_loops(*{missing!r})"
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.wait()


def _compile_loops(names: list[str], announce: Callable[[str], None] | None) -> None:
    from numba import typeof
    from numba.core import event

    class Listener(event.Listener):
        notes: str | None = None

        def on_start(self, event: Any) -> None:
            del event
            if self.notes is None and announce is not None:
                announce(f"compiling {LOOPS[name]} (once on this machine) ...")
            self.notes = name

        def on_end(self, event: Any) -> None:
            pass

    with _lock:
        for name in names:
            began, listener = time.perf_counter(), Listener()
            with event.install_listener("numba:compile", listener):
                for function, arguments in _calls(name):
                    if isinstance(function, CompiledEntry):
                        function.compile(block_type(*arguments))
                    else:
                        function.compile(tuple(typeof(argument) for argument in arguments))
            if listener.notes and announce is not None:
                announce(f"compiling {LOOPS[name]}: done in {time.perf_counter() - began:.1f} s")
            _ready.add(name)


def _is_cached(name: str) -> bool:
    return all(
        function.is_cached(block_type(*arguments))
        for function, arguments in _calls(name)
        if isinstance(function, CompiledEntry)
    )


def _calls(name: str) -> list[tuple[Any, tuple[Any, ...]]]:
    """Loops with arguments of the types that they are called with; nothing is run."""
    if name in ("solver", "side by side", "implicit", "samples"):
        return _solver_calls()[name]
    table = np.zeros((1, 4), dtype=np.int64)
    if name == "batch":
        return [(_batch._run, (1, 8, table, table, 0, 1, 1, 1))]
    lanes = fixed_step.StepCode(0, 0, 0, 0, 8, 0, 0, 0, 0)
    none, one, two, three = np.zeros(0, dtype=np.int64), np.zeros(1), np.zeros((1, 1)), np.zeros((1, 1, 1))
    tables = np.zeros((1, 1, 1, 1))
    schedule = fixed_step.StepSchedule(
        one, one, none, tables, none, tables, none, 1, 1, none, none, NO_RANDOM_CHANNELS, none
    )
    many = fixed_step.Samples(one, none, two, none, none[:, None], three, none, two)
    return [
        (fixed_step.roll, (lanes, schedule, none, one, table, two)),
        (fixed_step.roll_samples, (lanes, schedule, many, 0, 1)),
    ]


def _solver_calls() -> dict[str, list[tuple[Any, tuple[Any, ...]]]]:
    code = make_code(1, 13, 13, range(7, 13), [3])
    friction = make_friction([0], [1.0], [1.0])
    system = System(code, merge([], 1.0), friction, make_events(code, friction), make_solver_memory(np.zeros(1), 1, 13))
    stage = make_solver_phase(system, solver.Options(1, 0.0, 1e-10, np.zeros(1), np.inf, 1, 1))
    counts, flags = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    two, three = np.zeros((1, 1)), np.zeros((1, 1, 1))
    ends = SampleEnds(two, flags, counts, np.zeros(1), two, np.zeros((1, 1), dtype=np.bool_), three, counts)
    samples = phase.SamplesCall(stage.call, 0, SampleRows(two, two, two, 0), ends)
    return {
        "solver": [
            (solver.integrate_call, (stage.call,)),
            (solver.sample_call, (stage.call,)),
        ],
        "side by side": [(side_by_side.fly_lanes, (side_by_side.lanes_call(stage.call, 0, 0),))],
        "implicit": [(implicit_call, (system,))],
        "samples": [(phase.samples_call, (samples,))],
    }
