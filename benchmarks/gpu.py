"""Roll-outs on a GPU through the public function, beside JAX on the same GPU with the same trace."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import Row, show
from benchmarks.robots import arm, skew_chain, states
from spacearm.engine.cuda import cupy
from spacearm.engine.trace import Trace
from spacearm.errors import EngineError
from spacearm.model import Robot
from spacearm.simulate import rollout
from spacearm.simulate.rollout import _loop

STEP = 1e-3  # s
COUNT = 25
SIZE = 1 << 20


def best(task: Callable[[], object], wait: Callable[[], object], rounds: int = 5) -> float:
    """Shortest time of a call, s, after a first one that compiles."""
    task()
    wait()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        task()
        wait()
        found.append(time.perf_counter() - start)
    return min(found)


def rate(robot: Robot, precision: str, size: int = SIZE) -> tuple[float, float]:
    """(evaluations of forward dynamics in a second, largest relative difference to the processor)."""
    cp = cupy()
    few = states(robot, 4096)
    starts = cp.asarray(np.tile(few, (size // len(few), 1)))

    def task() -> Any:
        return rollout(robot, starts, STEP, COUNT, device="gpu", precision=precision)  # type: ignore[arg-type]

    seconds = best(task, cp.cuda.Device().synchronize)
    expected = rollout(robot, few, STEP, COUNT)[:, -1]
    found = cp.asnumpy(task()[-len(few) :, -1])
    return 4 * COUNT * size / seconds, float(np.abs(found - expected).max() / np.abs(expected).max())


def jax_rate(robot: Robot, size: int = 1 << 16, count: int = 5) -> float | None:
    """The same with JAX: the trace of the rate, one array operation each, RK4 in a loop. None without JAX."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    loop = _loop(robot, frozenset(), frozenset(), None)
    kernel, trace = loop.stage, loop.stage.trace
    start = kernel.inputs["state"].start
    row = np.zeros(kernel.n_in)
    row[kernel.inputs["inertia"]] = robot.inertia_parameters.ravel()
    for name, value in kernel.derive({"inertia": robot.inertia_parameters.ravel()}).items():
        row[kernel.inputs[name]] = value
    nx = loop.size("state")
    slopes = Trace(trace.instructions, trace.outputs[:nx], trace.n_in)

    def slope(x: Any) -> Any:
        inputs = [x[k - start] if start <= k < start + nx else row[k] for k in range(kernel.n_in)]
        return jnp.stack([jnp.broadcast_to(v, x[0].shape) for v in _by(jnp, slopes, inputs)])

    def step(_: int, x: Any) -> Any:
        a = slope(x)
        b = slope(x + 0.5 * STEP * a)
        c = slope(x + 0.5 * STEP * b)
        d = slope(x + STEP * c)
        return x + STEP / 6 * (a + 2 * (b + c) + d)

    task = jax.jit(lambda x: jax.lax.fori_loop(0, count, step, x))
    x = jnp.asarray(np.tile(states(robot, 4096), (size // 4096, 1)).T)
    return 4 * count * size / best(lambda: task(x).block_until_ready(), lambda: None, 3)


def _by(xp: Any, trace: Trace, inputs: list[Any]) -> list[Any]:
    """Outputs of a trace by array operations."""
    binary = {"add": xp.add, "sub": xp.subtract, "mul": xp.multiply, "div": xp.divide, "lt": xp.less}
    unary = {"neg": xp.negative, "sin": xp.sin, "cos": xp.cos, "sqrt": xp.sqrt, "not": xp.logical_not}
    values: list[Any] = []
    for op, args, constant in trace.instructions:
        own = [values[arg] for arg in args]
        if op in ("const", "input"):
            values.append(constant if op == "const" else inputs[int(constant)])
        elif op in ("fma", "fms", "fnma"):
            product = own[0] * own[1]
            values.append(own[2] - product if op == "fnma" else product + own[2] if op == "fma" else product - own[2])
        elif op == "select":
            values.append(xp.where(own[0] != 0, own[1], own[2]))
        else:
            values.append({**binary, **unary}[op](*own))
    return [values[k] for k in trace.outputs]


def main() -> list[Row]:
    try:
        cp = cupy()
    except EngineError as error:
        print(f"GPU: left out, {error}\n")
        return []
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rows = []
    cases = (
        (arm(), "7-joint arm", "float64", 5.5),
        (skew_chain(7), "7 joints, general position", "float64", 3.0),
        (arm(), "7-joint arm", "float32", 12.0),
        (skew_chain(7), "7 joints, general position", "float32", None),
    )
    for robot, what, precision, target in cases:
        found, difference = rate(robot, precision)
        note = f"{what}, {precision}: states differ by {difference:.1e} from the processor's after {COUNT} steps"
        peer = jax_rate(robot) if precision == "float64" else None
        # As time, so that a ratio above one is in our favour and a target is the longest time.
        mine = 1e9 / found
        longest = None if target is None else 1 / target
        rows.append(Row(f"{what}, {precision}", mine, "ns/evaluation", target=longest, note=note))
        if peer is not None:
            rows.append(Row(f"{what}, {precision}", mine, "ns/evaluation", "JAX", 1e9 / peer))
    return show(f"{name}: {SIZE} roll-outs of {COUNT} RK4 steps, arrays on the GPU", rows, "1 ns: 1e9 evaluations/s.")
