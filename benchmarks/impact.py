"""Impact study: a million directions, a million configurations, tensors beside Pinocchio's, collisions and searches."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pinocchio as pin

from benchmarks.common import Row, Task, alternate, show
from benchmarks.peers import Pinocchio
from spacearm.impact import (
    FloatingSystem,
    Impactor,
    build_system,
    collide,
    even_sphere,
    impact_point,
    optimise_configuration,
    solid_ball,
    virtual_mass,
)
from spacearm.impact.contact import contact_convergence
from spacearm.model import catalogue
from spacearm.typing import Array

ROBOT, FRAME, POSTURE = "cai2023", "hand", "attitude1"
MILLION = 1_000_000


def best(call: Callable[[], object], rounds: int = 3) -> float:
    """Least wall time, s: what a user waits for, all threads at work."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def batches() -> list[Row]:
    """A million directions at one configuration, a million configurations for one direction, wall time."""
    robot = catalogue.load(ROBOT)
    point = impact_point(robot, FRAME)
    n = even_sphere(MILLION)
    joints = np.random.default_rng(0).uniform(-1.0, 1.0, (MILLION, robot.n))
    up = np.array([0.0, 0.0, 1.0])
    resisted = best(lambda: virtual_mass(point.acceleration(up, joints, resistance=0.3), up))
    note = f"{robot.name}, 7 joints; projected and absolute mass and psi of each, wall time with all threads"
    return [
        Row(
            "a million directions", best(lambda: virtual_mass(point.acceleration(n, POSTURE), n)), "s", target=1.0,
            note=note,
        ),
        Row("a million configurations", best(lambda: virtual_mass(point.acceleration(up, joints), up)), "s",
        target=1.0), Row("the same, mu = 0.3", resisted, "s", target=1.0),
        Row("a million tensors G* (6 x 6)", best(lambda: point.tensor(joints), 2), "s", target=2.0),
    ]  # fmt: skip


def tensors(count: int = 4096) -> list[Row]:
    """G* with free joints, J H^-1 J^T, beside Pinocchio's Jacobian and inverse mass matrix; one thread."""
    robot = catalogue.load(ROBOT)
    point, peer = impact_point(robot, FRAME), Pinocchio(robot)
    frame = robot.frame(FRAME)
    place = pin.SE3(frame.placement.rotation, frame.placement.translation)
    joint = peer.model.getJointId(robot.joints[robot.body_index(frame.body) - 1].name)
    index = peer.model.addFrame(pin.Frame(FRAME, joint, 0, place, pin.FrameType.OP_FRAME))
    data = peer.model.createData()
    joints = np.random.default_rng(1).uniform(-1.0, 1.0, (count, robot.n))
    some = joints[: count // 32]

    def theirs() -> Array:
        found = np.empty((len(some), 6, 6))
        q = pin.neutral(peer.model)
        for i, angles in enumerate(some):
            q[7:] = angles
            inverse = pin.computeMinverse(peer.model, data, q)
            jacobian = pin.computeFrameJacobian(peer.model, data, q, index, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
            found[i] = jacobian @ np.triu(inverse) @ jacobian.T + jacobian @ np.triu(inverse, 1).T @ jacobian.T
        return found

    ours = point.tensor(some)
    gap = float(np.abs(ours - theirs()).max() / np.abs(ours).max())
    kernel = point._tensor
    inputs = {
        "joints": joints, "quaternion": np.array([1.0, 0, 0, 0]), "locked": np.zeros(robot.n),
        "resistance": np.zeros(robot.n), "inertia": robot.inertia_parameters.ravel(),
    }  # fmt: skip
    times = alternate(
        {"spacearm": Task(lambda: kernel(inputs, threads=1), count), "pinocchio": Task(theirs, len(some))}, 10
    )
    note = f"largest relative difference {gap:.1e}"
    return [
        Row(
            "one tensor G*, one thread", 1e6 * times["spacearm"], "us", "pinocchio, Python loop",
            1e6 * times["pinocchio"], note=note,
        )
    ]  # fmt: skip


def runs(count: int = 100_000) -> list[Row]:
    """Whole collisions with their accounts, contacts in time, a configuration search; wall time."""
    robot = catalogue.load(ROBOT)
    directions = even_sphere(count)
    chain = FloatingSystem(robot, FRAME, POSTURE)
    striker = build_system(solid_ball(5.0), "contact", velocity=directions).move_to_contact(chain)
    one = build_system(solid_ball(5.0, 0.5), "contact", velocity=[0.0, 1.0, 0.0]).move_to_contact(chain)
    normal = [0.0, 1.0, 0.0]
    collisions = best(lambda: collide(chain, striker, normal=directions, restitution=0.5), 2) / count
    contact = best(lambda: contact_convergence(chain, one, [1e5], normal=normal, restitution=0.5))
    search = best(lambda: optimise_configuration(robot, FRAME, Impactor((0.0, 1.0, 0.0))), 2)
    return [
        Row(f"one of {count} collisions", 1e6 * collisions, "us", note="with both energy and momentum accounts"),
        Row("one contact in time, rtol 1e-11", contact, "s"),
        Row("a configuration search, 4096 samples, 64 searches", search, "s"),
    ]


def main() -> list[Row]:
    """Run and print."""
    rows = show("impact: batches", batches())
    rows += show("impact: tensors", tensors())
    return rows + show("impact: runs", runs())


if __name__ == "__main__":
    main()
