"""One trajectory, RK4: time of one forward-dynamics evaluation inside it."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco, Pinocchio
from benchmarks.robots import arm, skew_chain, states
from spacearm.model import Robot
from spacearm.simulate import rollout

STEP = 1e-3  # s


def compare(robot: Robot, count: int = 2000, rounds: int | None = None) -> tuple[dict[str, float], float]:
    """(s per evaluation by engine, largest difference of the last states of spacearm and MuJoCo)."""
    start = states(robot, 1)
    lean, usual, pinocchio = Mujoco(robot), Mujoco(robot, lean=False), Pinocchio(robot)
    full = lean.full(start)[0]
    q, v = pinocchio.split(start[0])
    no_force = np.zeros(robot.dofs)
    lean.start(full, STEP)
    lean.run(count)
    difference = float(np.abs(lean.state() - rollout(robot, start[0], STEP, count)[-1]).max())
    some = max(1, count // 6)  # a step costs the same at any time: about as long as spacearm's ``count``
    times = alternate(
        {
            "spacearm": Task(lambda: rollout(robot, start[0], STEP, count), 4 * count),
            "MuJoCo": Task(lambda: lean.run(some), 4 * some, lambda: lean.start(full, STEP)),
            "MuJoCo, defaults": Task(lambda: usual.run(some), 4 * some, lambda: usual.start(full, STEP)),
            "Pinocchio, Python loop": Task(lambda: pinocchio.loop(q, v, no_force, 4 * some), 4 * some),
        },
        rounds,
    )
    return times, difference


def main() -> list[Row]:
    rows = []
    for robot, what, target in ((arm(), "7-joint arm", 6.0), (skew_chain(7), "7 joints, general position", 4.8)):
        times, difference = compare(robot)
        for peer in list(times)[1:]:
            rows.append(
                Row(
                    what,
                    times["spacearm"] * 1e9,
                    "ns/evaluation",
                    peer,
                    times[peer] * 1e9,
                    target if peer == "MuJoCo" else None,
                    f"{what}: after 2000 steps the states of spacearm and MuJoCo differ by {difference:.1e}",
                )
            )
    return show(
        "One trajectory, RK4, 2000 steps of 1 ms",
        rows,
        "MuJoCo: mj_step(nstep) in C, without what is not needed here. Pinocchio: aba at one state, no integration.",
    )
