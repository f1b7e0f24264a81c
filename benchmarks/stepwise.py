"""A run made step by step: one step of 1 ms of a 7-joint arm, called from Python, beside MuJoCo's mj_step."""

from __future__ import annotations

import mujoco
import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco
from benchmarks.robots import arm, states
from spacearm.model import Robot
from spacearm.simulate import RK4, Simulator, State, VectorSimulator

STEP = 1e-3  # s
#: Samples that are stepped together.
MANY = 256


def compare(robot: Robot, count: int = 100, rounds: int | None = None) -> dict[str, float]:
    """s per step: adaptive and fixed steps with ledger and certificate, many samples together, and MuJoCo's."""
    start = states(robot, 1)
    torque, peer = np.zeros(robot.n), Mujoco(robot)
    full = peer.full(start)[0]
    made = {
        name: Simulator(robot, State.from_vector(start[0]), period=STEP, duration=1000.0, method=method)
        for name, method in (("adaptive", None), ("RK4", RK4(STEP)))
    }

    def steps(simulator: Simulator) -> None:
        for _ in range(count):
            simulator.step(torque)

    def mujoco_steps() -> None:
        for _ in range(count):
            mujoco.mj_step(peer.model, peer.data)

    peer.start(full, STEP)
    saved = {name: simulator.save() for name, simulator in made.items()}
    tasks = {
        name: Task(lambda name=name: steps(made[name]), count, lambda name=name: made[name].restore(saved[name]))  # type: ignore[misc]
        for name in made
    }
    many = VectorSimulator(robot, start[0], MANY, period=STEP, threads=1)

    def vector_steps() -> None:
        for _ in range(count):
            many.step(torque)

    tasks["many"] = Task(vector_steps, count * MANY, many.reset)
    return alternate({**tasks, "MuJoCo": Task(mujoco_steps, count, lambda: peer.start(full, STEP))}, rounds)


def main() -> list[Row]:
    times = {name: 1e6 * value for name, value in compare(arm()).items()}
    rows = [
        Row(f"one step of 1 ms, {name}", times[name], "us", "MuJoCo, mj_step", times["MuJoCo"], note="with ledger")
        for name in ("adaptive", "RK4")
    ]
    label = f"the same, one of {MANY} samples together, RK4"
    rows.append(Row(label, times["many"], "us", "MuJoCo, mj_step", times["MuJoCo"], note="one thread"))
    show("A run made step by step, 7 joints, called from Python", rows)
    return rows
