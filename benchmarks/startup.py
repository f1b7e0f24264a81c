"""What a user waits for before the first number: imports, compilation, the cache; each in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import Row, show
from spacearm.engine.cache import cache_dir

_IMPORT = "import time; a = time.perf_counter(); import {0}; print(time.perf_counter() - a)"

#: A process that has everything imported and its loops ready, and meets a robot for the first time.
_FIRST_CALL = """
import json, time
import numpy as np
from spacearm.engine import Mechanics
from spacearm.engine.benchmark import arm, states
from spacearm.engine.llvm import kernel_ir
from spacearm.engine.machine import load
from spacearm.engine.trace import trace
from spacearm.mechanics import build
from spacearm.model import catalogue
from spacearm.simulate import rollout

other = catalogue.load("yoshida1992")
rollout(other, states(other, 1)[0], 1e-3, 1, ignore_friction=True)
Mechanics(other).forward_dynamics(np.zeros(2), np.zeros(8), np.zeros(8))
robot = arm()
start = states(robot, 1)[0]

found = {}
clock = time.perf_counter
a = clock(); rollout(robot, start, 1e-3, 1); found["roll-out"] = clock() - a
mechanics, none = Mechanics(robot), np.zeros(13)
a = clock(); mechanics.forward_dynamics(start[7:14], start[14:], none); found["forward dynamics"] = clock() - a
"""

_STAGES = """
marks = [clock()]
program = build(robot, "forward_dynamics"); marks.append(clock())
function = program.function; marks.append(clock())
instructions = trace(function); marks.append(clock())
text = kernel_ir(instructions, 1); marks.append(clock())
load(text); marks.append(clock())
names = ("equations", "CasADi function", "trace", "IR text", "machine code")
found["stages"] = dict(zip(names, np.diff(marks).tolist()))
"""

_PRINT = "print(json.dumps(found))"

_WARM_UP = """
import json, time
from spacearm.engine import Mechanics, Kernel
from spacearm.engine.benchmark import Batches, Sensitivities, arm, states
from spacearm.engine.warm import warm_up
found = {"runs and roll-outs": warm_up(None)}
robot = arm()
samples = states(robot, 16)
batches, exact = Batches(robot), Sensitivities(robot)
batches.kernel.address(1), exact.rollout
exact.rollout.loop.code(16), exact.rollout.loop.code(8)
inputs = batches.inputs(samples)
from spacearm.engine.machine import host
batches.kernel.address(host().lanes)
a = time.perf_counter(); batches.run(inputs); found["batches"] = time.perf_counter() - a
a = time.perf_counter(); exact.run(samples[0], 1); found["sensitivities"] = time.perf_counter() - a
print(json.dumps(found))
"""


def python(code: str, **environment: str) -> str:
    """What a fresh process prints last."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip().splitlines()[-1]


def import_time(module: str, rounds: int = 7) -> float:
    return min(float(python(_IMPORT.format(module))) for _ in range(rounds))


def command_time(*arguments: str, rounds: int = 7) -> float:
    """Wall time of a command from start to exit, s."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run([*arguments], capture_output=True, check=True)
        found.append(time.perf_counter() - start)
    return min(found)


def first_calls(rounds: int = 5) -> tuple[dict[str, Any], dict[str, Any]]:
    """Best times (by what is called, and by stage) with an empty cache of kernels, and with a full one."""
    fresh, cached = [], []
    python("from spacearm.engine.warm import warm_up; print(warm_up())")
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="spacearm-bench-") as folder:
            # The loops of all robots, ready, but no kernels.
            shutil.copytree(cache_dir(), folder, ignore=shutil.ignore_patterns("*.o"), dirs_exist_ok=True)
            fresh.append(json.loads(python(_FIRST_CALL + _PRINT, SPACEARM_CACHE=folder)))
            cached.append(json.loads(python(_FIRST_CALL + _STAGES + _PRINT, SPACEARM_CACHE=folder)))
    calls = ("roll-out", "forward dynamics")
    best_fresh: dict[str, Any] = {name: min(one[name] for one in fresh) for name in calls}
    best_cached: dict[str, Any] = {name: min(one[name] for one in cached) for name in calls}
    stages = [one["stages"] for one in cached]
    best_cached["stages"] = {name: min(one[name] for one in stages) for name in stages[0]}
    return best_fresh, best_cached


def loops() -> dict[str, float]:
    """Time to compile the loops where the cache is empty."""
    with tempfile.TemporaryDirectory(prefix="spacearm-bench-") as folder:
        found: dict[str, float] = json.loads(python(_WARM_UP, SPACEARM_CACHE=folder))
    return found


def main() -> list[Row]:
    fresh, cached = first_calls()
    spacearm = Path(sys.executable).with_name("spacearm")
    rows = [
        Row("first call for a new robot, 7 joints: roll-out", fresh["roll-out"], "s", target=1.0),
        Row("first call for a new robot, 7 joints: forward dynamics", fresh["forward dynamics"], "s", target=1.0),
        Row("the same from the cache: roll-out", cached["roll-out"], "s", target=0.1),
        Row("the same from the cache: forward dynamics", cached["forward dynamics"], "s", target=0.1),
        *(Row(f"   of which {name}", seconds, "s") for name, seconds in cached["stages"].items()),
        Row("import spacearm", import_time("spacearm"), "s", target=1.0),
        Row("import spacearm.simulate", import_time("spacearm.simulate"), "s", target=1.0),
        Row("spacearm --help", command_time(str(spacearm), "--help"), "s", target=0.5),
        Row("an empty Python process", command_time(sys.executable, "-c", "pass"), "s"),
        *(Row(f"loops, once on a machine: {name}", seconds, "s") for name, seconds in loops().items()),
    ]
    return show("Startup", rows)
