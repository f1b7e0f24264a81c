"""Many states on one thread: roll-outs beside mujoco.rollout, forward dynamics beside Pinocchio's parallel ABA."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco, MujocoBatch, Pinocchio, PinocchioBatch
from benchmarks.robots import arm, skew_chain, states
from spacearm.engine.benchmark import Batches
from spacearm.model import Robot
from spacearm.simulate import rollout

STEP = 1e-3  # s


def rollouts(
    robot: Robot, size: int = 256, count: int = 50, rounds: int | None = None
) -> tuple[dict[str, float], float]:
    """(s per evaluation by engine, largest difference of the last states); MuJoCo gets a 32nd of the samples."""
    starts = states(robot, size)
    mujoco = Mujoco(robot)
    peer = MujocoBatch(mujoco)
    some = max(1, size // 32)
    full = mujoco.full(starts[:some])
    difference = mujoco.back(peer.run(full, STEP, count)[:, -1]) - rollout(robot, starts, STEP, count)[:some, -1]
    times = alternate(
        {
            "spacearm": Task(lambda: rollout(robot, starts, STEP, count, threads=1), 4 * size * count),
            "mujoco.rollout": Task(lambda: peer.run(full, STEP, count), 4 * some * count),
        },
        rounds,
    )
    return times, float(np.abs(difference).max())


def accelerations(robot: Robot, size: int = 16384, rounds: int | None = None) -> tuple[dict[str, float], float]:
    """(s per evaluation by engine, largest relative difference of the accelerations).

    Both write into arrays that are there already.
    """
    samples = states(robot, size)
    ours, pinocchio = Batches(robot), Pinocchio(robot)
    inputs = ours.inputs(samples)
    peer = PinocchioBatch(pinocchio)
    q, v = (np.asfortranarray(array.T) for array in pinocchio.split(samples))
    force, out = np.zeros_like(v), np.zeros_like(v)
    peer.run(q, v, force, out)
    few = max(1, size // 8)  # ABA takes so much longer
    some = [np.asfortranarray(array[:, :few]) for array in (q, v, force, out)]
    found = np.empty((size, robot.dofs))
    times = alternate(
        {
            "spacearm": Task(lambda: ours.run(inputs, threads=1, out=found), size),
            "pinocchio.abaInParallel": Task(lambda: peer.run(*some), few),
        },
        rounds,
    )
    return times, float(np.abs(found - out.T).max() / np.abs(out).max())


def main() -> list[Row]:
    rows = []
    cases = ((arm(), "7-joint arm", (25.0, 25.0)), (skew_chain(7), "7 joints, general position", (24.0, 22.0)))
    for robot, what, targets in cases:
        times, difference = rollouts(robot)
        note = f"{what}: states differ by {difference:.1e} after 50 steps"
        rows.append(
            Row(
                f"{what}: roll-outs",
                times["spacearm"] * 1e9,
                "ns/evaluation",
                "mujoco.rollout",
                times["mujoco.rollout"] * 1e9,
                targets[0],
                note,
            )
        )
        times, difference = accelerations(robot)
        note = f"{what}: accelerations differ by {difference:.1e} of the largest"
        rows.append(
            Row(
                f"{what}: forward dynamics",
                times["spacearm"] * 1e9,
                "ns/evaluation",
                "pinocchio.abaInParallel",
                times["pinocchio.abaInParallel"] * 1e9,
                targets[1],
                note,
            )
        )
    return show("Batches on one thread: 256 roll-outs of 50 RK4 steps; forward dynamics of 16384 states", rows)
