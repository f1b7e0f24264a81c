"""How time grows with the number of joints: an evaluation, and the making of machine code."""

from __future__ import annotations

import time

import numpy as np
from rich.table import Table

from benchmarks.common import Row, Task, alternate, console
from benchmarks.peers import Mujoco
from benchmarks.robots import arm_chain, states
from spacearm.engine.benchmark import empty_cache
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import host
from spacearm.mechanics import build
from spacearm.simulate import rollout

JOINTS = (1, 2, 4, 7, 12, 20, 30, 40)
STEP = 1e-3  # s


def build_time(joints: int) -> tuple[float, int]:
    """(s from the robot to machine code for a single state, instructions), nothing cached."""
    robot = arm_chain(joints)
    with empty_cache():
        start = time.perf_counter()
        kernel = Kernel(build(robot, "forward_dynamics"))
        kernel.address(1)
        return time.perf_counter() - start, kernel.trace.operations()


def compare(joints: int, count: int = 800, rounds: int | None = None) -> tuple[dict[str, float], float]:
    """(s per evaluation, largest difference of the last states)."""
    robot = arm_chain(joints)
    starts = states(robot, 8 * host().lanes)
    mujoco = Mujoco(robot)
    full = mujoco.full(starts[:1])[0]
    mujoco.start(full, STEP)
    mujoco.run(count)
    difference = float(np.abs(mujoco.state() - rollout(robot, starts[0], STEP, count)[-1]).max())
    short = max(1, count // 8)
    times = alternate(
        {
            "one": Task(lambda: rollout(robot, starts[0], STEP, count), 4 * count),
            "batch": Task(lambda: rollout(robot, starts, STEP, short, threads=1), 4 * short * len(starts)),
            "mujoco": Task(lambda: mujoco.run(short), 4 * short, lambda: mujoco.start(full, STEP)),
        },
        rounds,
    )
    return times, difference


def main() -> list[Row]:
    rows, worst = [], 0.0
    table = Table(title="Growth: chains of n joints, RK4", title_justify="left", title_style="bold", box=None)
    for head in ("joints", "instructions", "compile s", "one ns", "batch ns", "MuJoCo ns", "one", "batch"):
        table.add_column(head, justify="right")
    for joints in JOINTS:
        compile_time, operations = build_time(joints)
        times, difference = compare(joints, rounds=10)
        one, batch, mujoco = (times[name] * 1e9 for name in ("one", "batch", "mujoco"))
        worst = max(worst, difference)
        table.add_row(
            str(joints), str(operations), f"{compile_time:.2f}", f"{one:.0f}", f"{batch:.0f}", f"{mujoco:.0f}",
            f"{mujoco / one:.1f}x", f"{mujoco / batch:.1f}x",
        )  # fmt: skip
        rows.append(Row(f"{joints} joints: compile", compile_time, "s"))
        rows.append(Row(f"{joints} joints: one trajectory", one, "ns/evaluation", "MuJoCo", mujoco))
        rows.append(Row(f"{joints} joints: batch, one thread", batch, "ns/evaluation", "MuJoCo", mujoco))
    out = console()
    out.print(table)
    out.print(
        "  Instructions, compile: of forward dynamics, from the robot to machine code. "
        f"States differ by at most {worst:.0e}.\n"
    )
    return rows
