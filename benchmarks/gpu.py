"""Roll-outs, closed loops and batches on a GPU through the public functions, beside JAX with the same trace."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, show
from benchmarks.robots import arm, skew_chain, states
from spacearm.engine import mechanics_of
from spacearm.engine.cuda import GpuRollout, RolloutSource
from spacearm.engine.device import cupy
from spacearm.engine.trace import Trace
from spacearm.errors import EngineError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import Signal, rollout
from spacearm.simulate.overrides import robot_parameters
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


def guarded(what: str, task: Callable[[], list[Row]]) -> list[Row]:
    """Rows of a part; a part that fails says why, and the others go on."""
    try:
        return task()
    except Exception as error:
        print(f"{what}: failed: {type(error).__name__}: {str(error)[:600]}", flush=True)
        return []


def rollouts(robot: Robot, what: str, precision: str, target: float | None) -> list[Row]:
    found, difference = rate(robot, precision)
    note = f"{what}, {precision}: states differ by {difference:.1e} from the processor's after {COUNT} steps"
    peer = jax_rate(robot) if precision == "float64" else None
    # As time, so that a ratio above one is in our favour and a target is the longest time.
    mine = 1e9 / found
    longest = None if target is None else 1 / target
    rows = [Row(f"{what}, {precision}", mine, "ns/evaluation", target=longest, note=note)]
    return rows if peer is None else [*rows, Row(f"{what}, {precision}", mine, "ns/evaluation", "JAX", 1e9 / peer)]


def tensors(robot: Robot, size: int = 1_000_000) -> list[Row]:
    """A million G* of the arm with everything free."""
    from spacearm.impact import extended_inertia_tensor

    cp, frame = cupy(), robot.frames[0].name
    few = np.random.default_rng(0).uniform(-2.0, 2.0, size=(1000, robot.n))
    joints = cp.asarray(np.tile(few, (size // len(few), 1)))
    seconds = best(lambda: extended_inertia_tensor(robot, frame, joints), cp.cuda.Device().synchronize)
    found = cp.asnumpy(extended_inertia_tensor(robot, frame, joints)[-len(few) :])
    expected = extended_inertia_tensor(robot, frame, few)
    note = f"tensors: largest relative difference {np.abs(found - expected).max() / np.abs(expected).max():.1e}"
    return [Row("a million tensors G*, 7-joint arm", 1e3 * seconds, "ms", target=10.0, note=note)]


def accelerations(robot: Robot, what: str, size: int = 1 << 20) -> list[Row]:
    """Forward dynamics of a batch, arrays on the GPU."""
    cp, own = cupy(), mechanics_of(robot)
    few = states(robot, 4096)
    at = Layout(robot.n)
    q, v, force = few[:, at.joints], few[:, at.velocity], np.ones((4096, robot.dofs))
    there = [cp.asarray(np.tile(value, (size // 4096, 1))) for value in (q, v, force)]
    seconds = best(lambda: own.forward_dynamics(*there), cp.cuda.Device().synchronize)
    found, expected = cp.asnumpy(own.forward_dynamics(*there)[-4096:]), own.forward_dynamics(q, v, force)
    note = f"{what}, batch: {np.count_nonzero(found != expected)} of {found.size} accelerations differ in any bit"
    return [Row(f"{what}, forward dynamics of a batch", 1e9 * seconds / size, "ns/evaluation", note=note)]


def closed_loops(robot: Robot, size: int = 100_000, count: int = 10_000) -> list[Row]:
    """Computed torque at 1 kHz, 10 s, RK4 steps of 1 ms."""
    from spacearm.control import computed_torque

    cp = cupy()
    powers = np.array([0.0, 0.0, 0.0, 10.0, -15.0, 6.0]) * 0.3 / 10.0 ** np.arange(6.0)
    law = computed_torque([Signal(np.array([0.0, 10.0]), powers[:, None])] * robot.n, 100.0, 20.0, period=STEP)
    few = states(robot, 1000)
    starts = cp.asarray(np.tile(few, (size // len(few), 1)))

    def task(steps: int = count) -> Any:
        return rollout(robot, starts, STEP, steps, law=law, device="gpu")

    task(25)
    seconds = best(task, cp.cuda.Device().synchronize, 2)
    found, expected = cp.asnumpy(task(25)[-len(few) :, -1]), rollout(robot, few, STEP, 25, law=law)[:, -1]
    note = f"closed loops: {np.count_nonzero(found != expected)} of {found.size} numbers differ in any bit at 25 steps"
    return [Row("100,000 runs of 10 s at 1 kHz, computed torque", seconds, "s", target=5.0, note=note)]


#: What is tried beside the defaults: block, NVRTC's options.
VARIANTS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (64, ()),
    (128, ()),
    (256, ()),
    (128, ("--maxrregcount=168",)),
    (128, ("--maxrregcount=128",)),
)
FLOAT_VARIANTS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (64, ()),
    (128, ()),
    (256, ()),
    (128, ("--ftz=true",)),
    (128, ("--ftz=true", "--prec-div=false", "--prec-sqrt=false")),
    (128, ("--maxrregcount=128",)),
    (128, ("--maxrregcount=168",)),
    (128, ("--maxrregcount=168", "--ftz=true")),
    (256, ("--ftz=true",)),
)


def variant(
    robot: Robot, precision: str, block: int, options: tuple[str, ...], order: str, shared: bool, size: int = SIZE
) -> str:
    """One line: registers, spills, rate and error of a kernel made otherwise than by default."""
    cp = cupy()
    loop = _loop(robot, frozenset(), frozenset(), None)
    real = "double" if precision == "float64" else "float"
    source = RolloutSource(loop, [], real=real, block=block, order=order, shared=shared)
    kernel = GpuRollout(source, options)
    few = states(robot, 4096)
    starts = cp.asarray(np.tile(few, (size // 4096, 1)))
    common = robot_parameters(robot)
    common |= loop.stage.derive(common)
    given = {"state": starts}
    none = np.zeros((1, 1, 0))
    seconds = best(lambda: kernel.run(given, common, none, STEP, COUNT, COUNT), cp.cuda.Device().synchronize, 3)
    found = cp.asnumpy(kernel.run(given, common, none, STEP, COUNT, COUNT)[-4096:, -1])
    expected = rollout(robot, few, STEP, COUNT)[:, -1]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    registers, spilled = kernel.kernel.num_regs, kernel.kernel.local_size_bytes
    how = f"block {block} {order}{' shared' if shared else ''} {' '.join(options)}"
    return (
        f"{robot.name} {precision} {how}: {4 * COUNT * size / seconds:.3e}/s, "
        f"{registers} registers, {spilled} bytes spilled, error {error:.1e}"
    )


def variants(limit: float = 240.0) -> list[Row]:
    """Prints what could be other defaults."""
    begin = time.perf_counter()
    for robot in (skew_chain(7), arm()):
        for precision, own in (("float64", VARIANTS), ("float32", FLOAT_VARIANTS)):
            for block, options in own:
                few = block == 64 or (precision == "float32" and block == 128)  # else too much shared memory
                ways = [
                    ("waiting", False),
                    *([] if options else [("given", False)]),
                    *([("waiting", True)] if few else []),
                ]
                for order, shared in ways:
                    if time.perf_counter() - begin < limit:
                        try:
                            print(variant(robot, precision, block, options, order, shared), flush=True)
                        except Exception as error:
                            print(f"{robot.name} {precision} {block} {options}: {str(error)[:300]}", flush=True)
    return []


def main() -> list[Row]:
    try:
        cp = cupy()
    except EngineError as error:
        print(f"GPU: left out, {error}\n")
        return []
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    general = "7 joints, general position"
    parts: dict[str, Callable[[], list[Row]]] = {
        "arm": lambda: rollouts(arm(), "7-joint arm", "float64", 5.5),
        "chain": lambda: rollouts(skew_chain(7), general, "float64", 3.0),
        "arm, float32": lambda: rollouts(arm(), "7-joint arm", "float32", 12.0),
        "chain, float32": lambda: rollouts(skew_chain(7), general, "float32", None),
        "tensors": lambda: tensors(arm()),
        "batch, arm": lambda: accelerations(arm(), "7-joint arm"),
        "batch, chain": lambda: accelerations(skew_chain(7), general),
        "closed loops": lambda: closed_loops(arm()),
    }
    rows = [row for what, task in parts.items() for row in guarded(what, task)]
    title = f"{name}: {SIZE} roll-outs of {COUNT} RK4 steps, arrays on the GPU"
    shown = show(title, rows, "1 ns: 1e9 evaluations/s.")
    out = os.environ.get("OUT")
    if out:
        found = [{"what": row.what, "value": row.value, "unit": row.unit, "note": row.note} for row in rows]
        (Path(out) / "gpu-rows.json").write_text(json.dumps(found, indent=1))
    guarded("variants", variants)
    return shown
