"""Roll-outs, closed loops and batches on a GPU through the public functions, beside JAX with the same trace."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.common import Row, show
from benchmarks.robots import arm, skew_chain, states
from spacearm.capture import LoadCase
from spacearm.capture.evaluate import Evaluator
from spacearm.engine import mechanics_of
from spacearm.engine.cuda import GpuRollout, KernelTuning, RolloutSource, RolloutVariant
from spacearm.engine.device import NVRTC, SINGLE, cupy
from spacearm.engine.schedule import Schedule
from spacearm.engine.sensitivity import TangentRollout
from spacearm.engine.trace import Trace
from spacearm.errors import EngineError
from spacearm.model import Robot, catalogue
from spacearm.model.layout import Layout
from spacearm.papers.zhang2020.data import single_hit, six_hit
from spacearm.simulate import Signal, rollout
from spacearm.simulate.ensemble.rollout import _loop
from spacearm.simulate.overrides import robot_parameters

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


def jax_rate(robot: Robot, precision: str, size: int = SIZE, count: int = COUNT) -> float | None:
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
        inputs = [x[k - start] if start <= k < start + nx else float(row[k]) for k in range(kernel.n_in)]
        return jnp.stack([jnp.broadcast_to(v, x[0].shape).astype(x.dtype) for v in _by(jnp, slopes, inputs)])

    def step(_: int, x: Any) -> Any:
        a = slope(x)
        b = slope(x + 0.5 * STEP * a)
        c = slope(x + 0.5 * STEP * b)
        d = slope(x + STEP * c)
        return x + STEP / 6 * (a + 2 * (b + c) + d)

    task = jax.jit(lambda x: jax.lax.fori_loop(0, count, step, x))
    x = jnp.asarray(np.tile(states(robot, 4096), (size // 4096, 1)).T, dtype=precision)
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
        rows = task()
        for row in rows:
            print(f"{row.what}: {row.value:.4g} {row.unit} {row.ratio or ''}", flush=True)
        return rows
    except Exception as error:
        print(f"{what}: failed: {type(error).__name__}: {str(error)[:600]}", flush=True)
        return []


def rollouts(robot: Robot, what: str, precision: str, target: float | None) -> list[Row]:
    found, difference = rate(robot, precision)
    peer = jax_rate(robot, precision)
    # As time, so that a ratio above one is in our favour and a target is the longest time.
    mine, name = 1e9 / found, f"{what}, {precision}"
    rows = [Row(name, mine, "ns/evaluation", target=None if target is None else 1 / target)]
    rows += [] if peer is None else [Row(name, mine, "ns/evaluation", "JAX", 1e9 / peer)]
    close = f"{name}: difference to the processor after {COUNT} steps"
    return [*rows, Row(close, difference, "of the largest number", target=1e-12 if precision == "float64" else None)]


def calls(robot: Robot) -> list[Row]:
    """What a call costs besides its kernel: a roll-out of few samples."""
    cp = cupy()
    starts = cp.asarray(states(robot, 256))
    seconds = best(lambda: rollout(robot, starts, STEP, 1, device="gpu"), cp.cuda.Device().synchronize, 50)
    return [Row("256 samples, one step", 1e3 * seconds, "ms/call")]


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


def closed_loops(robot: Robot, what: str, noisy: bool, size: int = 100_000, count: int = 10_000) -> list[Row]:
    """Computed torque at 1 kHz, 10 s, RK4 steps of 1 ms."""
    from spacearm.control import Encoder, Gyro, computed_torque

    cp = cupy()
    powers = np.array([0.0, 0.0, 0.0, 10.0, -15.0, 6.0]) * 0.3 / 10.0 ** np.arange(6.0)
    sensors = [Encoder(noise=1e-5), Gyro(noise=1e-5)] if noisy else []
    path = [Signal(np.array([0.0, 10.0]), powers[:, None])] * robot.n
    law = computed_torque(path, 100.0, 20.0, period=STEP, sensors=sensors)
    few = states(robot, 1000)
    starts = cp.asarray(np.tile(few, (size // len(few), 1)))

    def task(steps: int = count) -> Any:
        return rollout(robot, starts, STEP, steps, law=law, device="gpu")

    task(25)
    seconds = best(task, cp.cuda.Device().synchronize, 2)
    found, expected = cp.asnumpy(task(25)[: len(few), -1]), rollout(robot, few, STEP, 25, law=law)[:, -1]
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    return [
        Row(f"100,000 runs of 10 s at 1 kHz, {what}", seconds, "s", target=None if noisy else 5.0),
        Row(f"{what}: difference to the processor after 25 steps", difference, "of the largest number", target=1e-12),
    ]


def derivatives(robot: Robot, what: str, size: int = 1 << 14) -> list[Row]:
    """Roll-outs with derivatives along the ten inertia parameters of the last body; NumPy in and out."""
    cp, last = cupy(), 10 * robot.n
    tangent = TangentRollout(robot, {"inertia": range(last, last + 10)}, zero=["mode", "drive", "friction"])
    own = robot_parameters(robot)
    inputs = {name: own[name] for name in ("inertia", "rotor", "stiffness", "rest", "damping")}
    few = states(robot, 64)
    many = inputs | {"state": np.tile(few, (size // len(few), 1))}

    def task() -> Any:
        return tangent(many, STEP, COUNT, every=COUNT, device="gpu")

    seconds = best(task, cp.cuda.Device().synchronize, 3)
    expected = tangent(inputs | {"state": few}, STEP, COUNT, every=COUNT).derivatives
    found = task().derivatives[-len(few) :]
    difference = float(np.abs(found - expected).max() / np.abs(expected).max())
    return [
        Row(f"{size} roll-outs with 10 derivatives each, {what}", 1e3 * seconds, "ms"),
        Row(
            "derivatives: difference to the processor after 25 steps", difference, "of the largest number", target=1e-12
        ),
    ]


def designs(size: int = 10_000) -> list[Row]:
    """Soft joints of Zhang's arm under two hits, 40 s at 40 ms, peaks and settling; all cores beside."""
    robot, cases = catalogue.load("zhang2020"), [LoadCase((six_hit(),)), LoadCase((single_hit("mz"),))]
    here, there = (Evaluator(robot, cases, device=device) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    stiffness, damping = rng.uniform(5.0, 20.0, (size, here.axes.size)), rng.uniform(0.5, 3.0, (size, here.axes.size))
    seconds = best(lambda: there(stiffness, damping), lambda: None, 2)
    few = slice(0, size // 10)
    start = time.perf_counter()
    expected = here(stiffness[few], damping[few])
    beside = 10 * (time.perf_counter() - start)
    found = there(stiffness[few], damping[few])
    difference = float(np.nanmax(np.abs(found.peaks - expected.peaks)) / np.nanmax(expected.peaks))
    return [
        Row(f"{size} designs of soft joints in two cases", seconds, "s", "all cores", beside),
        Row("designs: difference of the peaks to the processor", difference, "of the largest peak", target=1e-12),
    ]


EXACT = (*NVRTC, "--ftz=true")
FUSED = (*(option for option in NVRTC if "fmad" not in option), "--fmad=true", *SINGLE)
#: What is tried beside the defaults, in each precision: how the text is made, NVRTC's options (None: as usual).
VARIANTS: dict[str, tuple[tuple[KernelTuning, tuple[str, ...] | None], ...]] = {
    "float32": (
        (KernelTuning(), None),
        (KernelTuning(block=128), None),
        (KernelTuning(block=128), EXACT),
        (KernelTuning(block=128), FUSED),
        (KernelTuning(block=128, blocks=3), None),
        (KernelTuning(block=128, order="given"), None),
        (KernelTuning(block=128, unroll=4), None),
        (KernelTuning(block=128, shared=True), None),
    ),
    "float64": (
        (KernelTuning(), None),
        (KernelTuning(block=64), None),
        (KernelTuning(block=128), None),
        (KernelTuning(order="given"), None),
        (KernelTuning(block=64, order="given"), None),
        (KernelTuning(unroll=2), None),
        (KernelTuning(block=64, shared=True), None),
    ),
}


def variant(
    robot: Robot, precision: str, tuning: KernelTuning, options: tuple[str, ...] | None, size: int = SIZE
) -> list[Row]:
    """Registers, spills, rate and error of a kernel made otherwise than by default; the kernel alone."""
    cp = cupy()
    loop = _loop(robot, frozenset(), frozenset(), None)
    shape = RolloutVariant(real="double" if precision == "float64" else "float")
    kernel = GpuRollout(RolloutSource(loop, shape, tuning), options)
    few = states(robot, 4096)
    starts = cp.asarray(np.tile(few, (size // 4096, 1)), dtype=precision)
    common = robot_parameters(robot)
    common |= loop.stage.derive(common)
    schedule = Schedule(np.array([COUNT]), np.array([STEP]))

    def task() -> Any:
        return kernel.run({"state": starts}, common, schedule, COUNT).rows

    seconds = best(task, cp.cuda.Device().synchronize, 3)
    expected = rollout(robot, few, STEP, COUNT)[:, -1]
    error = float(np.abs(cp.asnumpy(task()[-4096:, -1]) - expected).max() / np.abs(expected).max())
    how = " ".join(f"{key} {value}" for key, value in tuning._asdict().items())
    note = f"{kernel.kernel.num_regs} registers, {kernel.kernel.local_size_bytes} bytes spilled, error {error:.1e}"
    what = f"{robot.name} {precision} kernel: {how} {'' if options is None else ' '.join(options)}"
    print(f"{4 * COUNT * size / seconds:.3e}/s, {note}", end="  ", flush=True)
    return [Row(what, 1e9 * seconds / (4 * COUNT * size), "ns/evaluation", note=note)]


def variants(limit: float = 200.0) -> list[Row]:
    """What could be other defaults."""
    rows: list[Row] = []
    begin = time.perf_counter()
    for precision, own in VARIANTS.items():
        for robot in (arm(), skew_chain(7)):
            for tuning, options in own:
                if time.perf_counter() - begin < limit:
                    rows += guarded(robot.name, partial(variant, robot, precision, tuning, options))
    return rows


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
        "calls": lambda: calls(arm()),
        "tensors": lambda: tensors(arm()),
        "batch, arm": lambda: accelerations(arm(), "7-joint arm"),
        "batch, chain": lambda: accelerations(skew_chain(7), general),
        "closed loops": lambda: closed_loops(arm(), "computed torque", False),
        "derivatives": lambda: derivatives(arm(), "7-joint arm"),
        "designs": designs,
        "noisy loops": lambda: closed_loops(arm(), "computed torque with noisy sensors", True),
    }
    rows = [row for what, task in parts.items() for row in guarded(what, task)]
    title = f"{name}: {SIZE} roll-outs of {COUNT} RK4 steps, arrays on the GPU"
    shown = show(title, rows, "1 ns: 1e9 evaluations/s.")
    return [*shown, *(variants() if os.environ.get("SPACEARM_BENCH_VARIANTS") else [])]
