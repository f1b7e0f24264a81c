"""A batch of a million states: memory beyond its inputs and outputs, and time by threads; in a fresh process."""

from __future__ import annotations

import json

from benchmarks.common import Row, show
from benchmarks.startup import python

_CODE = """
import json, resource, sys, time
from pathlib import Path
import numpy as np
from spacearm.engine.benchmark import Batches, arm, states

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

size = {size}
robot = arm()
batches = Batches(robot)
batches.run(batches.inputs(states(robot, 64)), 2)
inputs = batches.inputs(states(robot, size))
found = {{"inputs": sum(array.nbytes for array in inputs.values())}}
for threads in (1, 2):
    try:  # forget the peak of making the inputs
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass
    before = status("VmRSS")
    start = time.perf_counter()
    result = batches.run(inputs, threads)
    found[f"time{{threads}}"] = time.perf_counter() - start
    found["outputs"] = result.nbytes
    found[f"beyond{{threads}}"] = status("VmHWM") - before - result.nbytes
    if threads == 1:
        first = result.copy()
        del result
found["same"] = bool(np.array_equal(first, result))
print(json.dumps(found))
"""


def measure(size: int = 1_000_000) -> dict[str, float]:
    """Bytes of inputs and outputs, and for 1 and 2 threads: seconds, bytes beyond those at the peak."""
    found: dict[str, float] = json.loads(python(_CODE.format(size=size)))
    return found


def main() -> list[Row]:
    runs = [measure() for _ in range(3)]
    best = {key: min(run[key] for run in runs) for key in runs[0]}
    rows = [
        Row("inputs", best["inputs"] / 1e6, "MB"),
        Row("outputs", best["outputs"] / 1e6, "MB"),
        Row("beyond these at the peak, 1 thread", max(run["beyond1"] for run in runs) / 1e6, "MB"),
        Row("beyond these at the peak, 2 threads", max(run["beyond2"] for run in runs) / 1e6, "MB"),
        Row("time, 1 thread", best["time1"], "s"),
        Row("time, 2 threads", best["time2"], "s"),
    ]
    same = "the same bit for bit" if all(run["same"] for run in runs) else "NOT THE SAME"
    return show("Forward dynamics of 1e6 states, 7-joint arm", rows, f"Results with 1 and 2 threads: {same}.")
