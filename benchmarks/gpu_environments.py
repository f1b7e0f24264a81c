"""Learners' environments on an NVIDIA GPU: the capture of a tumbling target, beside MJWarp's physics.

MJWarp has no environment of this task. What is measured of it is the motion alone: the same RK4 steps of the arm and of
the target, without servo, sensors, noise and judgement, which spacearm's time contains; so the ratio is a lower bound
of what an environment around MJWarp would show. MJWarp computes in single precision, spacearm's environments in double.

Its steps are launched one by one: their replay as a CUDA graph did not return on the machine at hand (Warp 1.19, CUDA
13.0, MJWarp 4.0.0). Launches take about 0.35 s of a period of 2 x 40 steps, whatever the number of samples, so only the
largest size compares what the GPU does.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from benchmarks.common import Row, show
from benchmarks.environments import make_task, starts
from benchmarks.gpu import best
from benchmarks.peers import Mujoco
from spacearm.engine.device import cupy
from spacearm.errors import EngineError
from spacearm.model import Robot
from spacearm.typing import Array

SIZES = (32768, 262144)


class Mjwarp:
    """Samples of a robot in MJWarp, all from one state."""

    def __init__(self, robot: Robot, state: Array, size: int, step: float) -> None:
        import mujoco

        self.warp: Any = importlib.import_module("warp")
        self.module: Any = importlib.import_module("mujoco_warp")
        self.peer, self.begin, self.size = Mujoco(robot), state, size
        self.peer.start(self.peer.full(state[None])[0], step)
        # MJWarp refuses flags that it does not know.
        self.peer.model.opt.disableflags &= int(np.bitwise_or.reduce([int(bit) for bit in self.module.DisableBit]))
        mujoco.mj_forward(self.peer.model, self.peer.data)
        self.model = self.module.put_model(self.peer.model)
        self.start()

    def start(self) -> None:
        self.data = self.module.put_data(self.peer.model, self.peer.data, nworld=self.size, njmax=0, nconmax=0)

    def run(self, count: int) -> None:
        for _ in range(count):
            self.module.step(self.model, self.data)

    def difference(self, count: int) -> float:
        """Largest difference of the first sample to MuJoCo after ``count`` steps from the start."""
        self.start()
        self.run(count)
        motion = np.concatenate([[0.0], self.data.qpos.numpy()[0], self.data.qvel.numpy()[0]])
        found = self.peer.back(motion[None].astype(float))[0]
        self.peer.run(count)
        return float(np.abs(found - self.peer.state()).max())


def compare(size: int) -> tuple[float, float | None, float | None]:
    """s of a step of 1 s of all samples: spacearm's environment, MJWarp's motion; largest difference of the motions."""
    import gymnasium

    import spacearm.connect.environments  # noqa: F401

    cp, task = cupy(), make_task()
    lanes: Any = gymnasium.make_vec(
        "spacearm/CaptureTumbling-v0", num_envs=size, vectorization_mode="vector_entry_point", device="gpu",
        period=1.0, within=0.05, rest=0.03, dispersion=0.0,
    )  # fmt: skip
    actions = cp.asarray(np.random.default_rng(1).uniform(-0.3, 0.3, (size, 3)))
    lanes.reset(seed=0)
    own = best(lambda: lanes.step(actions), cp.cuda.Device().synchronize)
    hold, (state,), (extra,) = task.servo.hold, *starts(task, 1)
    count = hold * task.ticks
    try:
        peers = [Mjwarp(task.robot, state, size, task.step), Mjwarp(task.target, extra, size, task.step)]
    except ImportError:
        return own, None, None

    def motion() -> None:
        for peer in peers:
            peer.run(count)

    other = best(motion, peers[0].warp.synchronize, 3)
    return own, other, max(peer.difference(count) for peer in peers)


def main() -> list[Row]:
    try:
        cupy()
    except EngineError as error:
        print(f"gpu_environments: left out, since {error}")
        return []
    rows: list[Row] = []
    for size in SIZES:
        own, other, far = compare(size)
        note = "no MJWarp here" if far is None else f"motion alone, float32, within {far:.0e} of MuJoCo"
        value = None if other is None else 1e9 * other / size
        rows.append(Row(f"step of 1 s of one of {size} samples", 1e9 * own / size, "ns", "MJWarp", value, note=note))
    show("Environment of a capture on a GPU: 40 RK4 steps of a 7-joint arm and of a target, 10 ticks of a servo", rows)
    return rows
