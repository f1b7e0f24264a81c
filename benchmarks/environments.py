"""Learners' environments: the capture of a tumbling target in spacearm, and the same task with MuJoCo's physics.

The peer is what one would write with MuJoCo: a sample at a time, RK4 in C, the servo of the same formula in NumPy by
``mj_fullM`` and ``mj_jacSite``, the same observation and judgement. Both integrate the same steps from the same start
with the same masses, and agree (:func:`difference`) where no drive is at its limit of rate, which MuJoCo does not have.
MuJoCo's steps alone are a row of their own: they bound what any environment around them could reach on one thread.
MJWarp, which needs an NVIDIA GPU, is the peer of :mod:`benchmarks.gpu_environments`.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Mujoco
from spacearm.connect.tasks import DAMPING, SERVO, CaptureTumbling, Draws
from spacearm.model.rotations import rotation_from_quaternion
from spacearm.typing import Array

#: Samples that spacearm steps together.
MANY = 256


def make_task() -> CaptureTumbling:
    return CaptureTumbling(period=1.0, within=0.05, rest=0.03, dispersion=0.0)


class MujocoCapture:
    """One sample of the capture in MuJoCo."""

    def __init__(self, task: CaptureTumbling) -> None:
        self.task, self.arm, self.target = task, Mujoco(task.robot), Mujoco(task.target)
        site = mujoco.mj_name2id(self.arm.model, mujoco.mjtObj.mjOBJ_SITE, task.hand)
        if site < 0:
            raise ValueError(f"MuJoCo's model has no site {task.hand!r}")
        self.site, self.own = site, 6 + np.array(task.arm)
        self.rest = np.setdiff1d(np.arange(task.robot.dofs), self.own)
        nv = self.arm.model.nv
        self.matrix, self.jacobian, self.angular = np.zeros((nv, nv)), np.zeros((3, nv)), np.zeros((3, nv))
        self.rng = np.random.default_rng(0)

    def start(self, state: Array, extra: Array) -> None:
        self.arm.start(self.arm.full(state[None])[0], self.task.step)
        self.target.start(self.target.full(extra[None])[0], self.task.step)
        mujoco.mj_forward(self.arm.model, self.arm.data)

    def servo(self, action: Array) -> Array:
        """Torques for a velocity of the hand, as :class:`spacearm.connect.tasks.ArmServo` has them."""
        task, model, data, own, rest = self.task, self.arm.model, self.arm.data, self.own, self.rest
        mujoco.mj_fullM(model, data, self.matrix)
        mujoco.mj_jacSite(model, data, self.jacobian, self.angular, self.site)
        matrix = self.matrix
        across = np.linalg.solve(matrix[rest][:, rest], matrix[rest][:, own])
        generalized = self.jacobian[:, own] - self.jacobian[:, :6] @ np.linalg.solve(matrix[:6, :6], matrix[:6, own])
        velocity = rotation_from_quaternion(data.qpos[3:7]) @ (task.speed * action)
        rates = generalized.T @ np.linalg.solve(generalized @ generalized.T + DAMPING * np.eye(3), velocity)
        rates = rates / max(1.0, float(np.max(np.abs(rates) / task.rate)))
        effective = matrix[own][:, own] - matrix[own][:, rest] @ across
        found: Array = np.clip(effective @ (rates - data.qvel[own]) / SERVO, -task.effort, task.effort)
        return found

    def step(self, action: Array) -> tuple[Array, float, bool]:
        """A period: the servo at its ticks, then what is observed and how it is judged."""
        task, hold = self.task, self.task.servo.hold
        for _ in range(task.ticks):
            self.arm.data.qfrc_applied[self.own] = self.servo(action)
            mujoco.mj_step(self.arm.model, self.arm.data, hold)
            # Positions, inertias and Jacobians of the state after the step.
            mujoco.mj_forward(self.arm.model, self.arm.data)
        mujoco.mj_step(self.target.model, self.target.data, hold * task.ticks)
        data, own = self.arm.data, self.own
        mujoco.mj_jacSite(self.arm.model, data, self.jacobian, None, self.site)
        moving, turn = self.jacobian @ data.qvel, rotation_from_quaternion(data.qpos[3:7])
        rotation, free = rotation_from_quaternion(self.target.data.qpos[3:7]), self.target.data
        point = free.qpos[:3] + rotation @ task.grapple
        velocity = free.qvel[:3] + rotation @ np.cross(free.qvel[3:6], task.grapple)
        away, slip = point - data.site_xpos[self.site], velocity - moving
        sensed = np.concatenate([data.qpos[1 + own], data.qvel[own], data.qvel[3:6]])
        seen = np.concatenate([turn.T @ away, 10.0 * (turn.T @ slip), 10.0 * (turn.T @ moving)])
        noise = self.rng.standard_normal(sensed.size + seen.size)
        share = np.array([np.linalg.norm(away) / task.within, np.linalg.norm(slip) / task.rest])
        return np.concatenate([sensed, seen]) + 1e-4 * noise, -float(np.log1p(share).sum()), bool(np.all(share <= 1.0))


def starts(task: CaptureTumbling, count: int) -> tuple[Array, Array]:
    return task.draw(Draws([np.random.default_rng(k) for k in range(count)]))


def difference(count: int = 4, periods: int = 3) -> float:
    """Largest difference of the states of both after some periods of the same actions."""
    task = make_task()
    states, extra = starts(task, count)
    actions = np.random.default_rng(1).uniform(-0.2, 0.2, (periods, count, 3))  # below all limits of rate
    inertia = np.tile(task.robot.inertia_parameters.ravel(), (count, 1))
    own, others, peer = task.simulate(states, inertia), task.simulate_extra(extra), MujocoCapture(task)
    found = []
    for action in actions:
        own.step(action)
        others.step(np.zeros((count, 0)))
    for k in range(count):
        peer.start(states[k], extra[k])
        for action in actions[:, k]:
            peer.step(action)
        found += [peer.arm.state() - own.states[k], peer.target.state() - others.states[k]]
    return max(float(np.abs(each).max()) for each in found)


def compare(rounds: int | None = None, many: int = MANY, peers: int = 20) -> dict[str, float]:
    """s for a step of 1 s of one sample: spacearm's vector environment, MuJoCo's environment, MuJoCo's steps alone."""
    import gymnasium

    import spacearm.connect.environments  # noqa: F401

    task = make_task()
    lanes: Any = gymnasium.make_vec(
        "spacearm/CaptureTumbling-v0", num_envs=many, vectorization_mode="vector_entry_point",
        period=1.0, within=0.05, rest=0.03, dispersion=0.0,
    )  # fmt: skip
    actions, peer = np.random.default_rng(1).uniform(-0.3, 0.3, (many, 3)), MujocoCapture(task)
    (state,), (extra,) = starts(task, 1)

    def own() -> None:
        lanes.step(actions)

    def mujoco_environment() -> None:
        for action in actions[:peers]:
            peer.step(action)

    def mujoco_steps() -> None:
        for _ in range(peers):
            peer.arm.run(task.servo.hold * task.ticks)
            peer.target.run(task.servo.hold * task.ticks)

    tasks = {
        "spacearm": Task(own, many, lambda: lanes.reset(seed=0)),
        "MuJoCo": Task(mujoco_environment, peers, lambda: peer.start(state, extra)),
        "MuJoCo, physics alone": Task(mujoco_steps, peers, lambda: peer.start(state, extra)),
    }
    return alternate(tasks, rounds)


def main() -> list[Row]:
    times = compare()
    own = 1e6 * times["spacearm"]
    peers = {"MuJoCo": "servo in NumPy", "MuJoCo, physics alone": "no servo, no observation"}
    rows = [
        Row(f"step of 1 s of one of {MANY} samples", own, "us", name, 1e6 * times[name], note=note)
        for name, note in peers.items()
    ]
    show("Environment of a capture: 40 RK4 steps of a 7-joint arm and of a target, 10 ticks of a servo", rows)
    return rows
