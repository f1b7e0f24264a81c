"""Compiling the loops: once on a machine, announced, measured."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spacearm.engine import batch, fixed_step, record, solver
from spacearm.engine.friction import begin
from spacearm.engine.phase import SampleEnds, SampleRows, make_events, make_solver_phase, run_samples
from spacearm.engine.signals import merge
from spacearm.engine.system import System, make_code, make_friction, make_solver_memory

_lock = threading.Lock()
_ready = False


def print_status(text: str) -> None:
    """Tell the user on standard error."""
    print(text, file=sys.stderr, flush=True)


def ensure_loops() -> None:
    """Have the loops compiled, or loaded from Numba's cache, before they are needed."""
    if not _ready:
        warm_up()


def warm_up(announce: Callable[[str], None] | None = print_status) -> float:
    """Compile all loops, or load them from the cache; seconds it took. Only real compilation is announced."""
    global _ready  # noqa: PLW0603
    from numba.core import event

    class Listener(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            del event
            if not self.told and announce is not None:
                announce("compiling loops (once on this machine) ...")
            self.told = True

        def on_end(self, event: Any) -> None:
            pass

    with _lock:
        began = time.perf_counter()
        listener = Listener()
        with event.install_listener("numba:compile", listener):
            for function, arguments in _calls():
                from numba import typeof

                function.compile(tuple(typeof(argument) for argument in arguments))
        seconds = time.perf_counter() - began
        if listener.told and announce is not None:
            announce(f"compiling loops: done in {seconds:.1f} s")
        _ready = True
    return seconds


def _calls() -> list[tuple[Any, tuple[Any, ...]]]:
    """Every loop with arguments of the types that it is called with; nothing is run."""
    code = make_code(1, 13, 13, range(7, 13), [3])
    friction = make_friction([0], [1.0], [1.0])
    system = System(code, merge([], 1.0), friction, make_events(code, friction), make_solver_memory(np.zeros(1), 1, 13))
    stage = make_solver_phase(system, solver.Options(1, 0.0, 1e-10, np.zeros(1), np.inf, 1, 1))
    flag = np.zeros(1, dtype=np.uint8)
    lanes = fixed_step.StepCode(0, 0, 0, 0, 8, 0, 0, 0, 0)
    none, two, three = np.zeros(0, dtype=np.int64), np.zeros((1, 1)), np.zeros((1, 1, 1))
    tables = np.zeros((1, 1, 1, 1))
    course = fixed_step.StepSchedule(
        np.zeros(1),
        np.zeros(1),
        none,
        tables,
        none,
        tables,
        none,
        1,
        1,
        none,
        none,
        fixed_step.NO_RANDOM_CHANNELS,
        none,
    )
    many = fixed_step.Samples(np.zeros(1), none, two, none, 0, three, none, two)
    table = np.zeros((1, 4), dtype=np.int64)
    counts, flags = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.bool_)
    ends = SampleEnds(two, flags, counts, np.zeros(1), two, np.zeros((1, 1), dtype=np.bool_), three, counts)
    return [
        (begin, (system,)),
        (solver.solve, (*stage, flag)),
        (run_samples, (stage, SampleRows(two, two, two, 0), ends, flag)),
        (record.sample, (system, 0, 0.0, np.zeros(1), stage.record)),
        (batch._run, (1, 8, table, table, 0, 1, 1, 1)),
        (fixed_step.roll, (lanes, course, none, np.zeros(1), table, two)),
        (fixed_step.roll_samples, (lanes, course, many, 0, 1)),
    ]
