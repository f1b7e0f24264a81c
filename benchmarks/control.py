"""Closed loops: computed torque at 1 kHz in lanes beside the open loop and beside MuJoCo; a long run with a law."""

from __future__ import annotations

import time

import mujoco
import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco
from benchmarks.robots import arm, states
from spacearm.control import Law, computed_torque
from spacearm.model import Robot
from spacearm.simulate import Phase, Signal, State, rollout, simulate
from spacearm.typing import Array

STEP = 1e-3  # s
STIFFNESS, DAMPING = 100.0, 20.0  # 1/s2, 1/s


def swing(size: float, duration: float) -> Signal:
    """From zero to ``size`` rad in ``duration`` seconds: 10 s^3 - 15 s^4 + 6 s^5."""
    powers = np.array([0.0, 0.0, 0.0, 10.0, -15.0, 6.0]) * size / duration ** np.arange(6.0)
    return Signal(np.array([0.0, duration]), powers[:, None])


def servo(robot: Robot, duration: float = 1.0, period: float = STEP) -> Law:
    return computed_torque([swing(0.3, duration)] * robot.n, STIFFNESS, DAMPING, period=period)


def mujoco_loop(peer: Mujoco, full: Array, count: int, path: Signal) -> None:
    """The same law with MuJoCo's mass matrix and bias, a Python loop over its steps."""
    model, data, n = peer.model, peer.data, peer.robot.n
    peer.start(full, STEP)
    mass = np.zeros((model.nv, model.nv))
    rate, rise = path.derivative(), path.derivative().derivative()
    for step in range(count):
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, mass)
        t = step * STEP
        wanted = rise(t) + DAMPING * (rate(t) - data.qvel[6:]) + STIFFNESS * (path(t) - data.qpos[7 : 7 + n])
        base = np.linalg.solve(mass[:6, :6], -data.qfrc_bias[:6] - mass[:6, 6:] @ wanted)
        data.qfrc_applied[6:] = mass[6:, :6] @ base + mass[6:, 6:] @ wanted + data.qfrc_bias[6:]
        mujoco.mj_step(model, data)


def loops(robot: Robot, size: int = 256, count: int = 50, rounds: int | None = None) -> tuple[dict[str, float], float]:
    """(s per step by engine, largest difference of a last state from MuJoCo's)."""
    starts, law, peer = states(robot, size), servo(robot), Mujoco(robot)
    full = peer.full(starts[:1])[0]
    mujoco_loop(peer, full, count, swing(0.3, 1.0))
    difference = np.abs(peer.state() - rollout(robot, starts, STEP, count, law=law)[0, -1]).max()
    times = alternate(
        {
            "open": Task(lambda: rollout(robot, starts, STEP, count, threads=1), size * count),
            "closed": Task(lambda: rollout(robot, starts, STEP, count, law=law, threads=1), size * count),
            "mujoco": Task(lambda: mujoco_loop(peer, full, count, swing(0.3, 1.0)), count),
        },
        rounds,
    )
    return times, float(difference)


def long_run(robot: Robot, rounds: int | None = None) -> float:
    """s, for 60 s with a law at 100 Hz, with ledger and certificate."""
    law, start = servo(robot, 50.0, 0.01), State.at_rest(robot)
    phase = Phase(60.0, laws=law, limits="ignore")

    def run() -> object:
        return simulate(robot, start, phase)

    best = np.inf
    run()
    for _ in range(rounds or 5):
        begin = time.process_time()  # a run has a thread of its own
        run()
        best = min(best, time.process_time() - begin)
    return float(best)


def main() -> list[Row]:
    robot = arm()
    times, difference = loops(robot)
    note = f"the state differs from MuJoCo's by {difference:.1e} after 50 steps"
    rows = [
        Row("computed torque, each step, over the open loop", times["closed"] / times["open"], "times", target=3.0),
        Row(
            "computed torque, each step",
            times["closed"] * 1e9,
            "ns/step",
            "MuJoCo, law in Python",
            times["mujoco"] * 1e9,
            note=note,
        ),
        Row("one run of 60 s, law at 100 Hz, certificate", long_run(robot), "s", target=0.2),
    ]
    return show("Closed loops: 7-joint arm, 256 roll-outs of 50 RK4 steps of 1 ms on one thread", rows)
