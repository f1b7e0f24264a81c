"""A four-bar gripper on the 7-joint arm, beside the arm alone and the same bodies without loops."""

from __future__ import annotations

import numpy as np

from benchmarks.common import Row, Task, alternate, show
from benchmarks.robots import arm, states
from spacearm.model import Body, Frame, Inertia, Joint, Loop, Pose, Robot, edit
from spacearm.simulate import close_state, rollout
from spacearm.simulate.state import State

STEP = 1e-3  # s
#: Lengths of crank, coupler and rocker, and the distance of the pivots, m.
LENGTHS = (0.06, 0.1, 0.08, 0.1)


def finger(name: str, side: float) -> Robot:
    """A four-bar linkage on a small palm; ``side``: 1 or -1."""
    crank, coupler, rocker, ground = LENGTHS

    def bar(part: str, length: float) -> Body:
        moment = 0.2 * length**2 / 12.0
        return Body(part, Inertia(0.2, (0.5 * length, 0.0, 0.0), np.diag([0.1 * moment, moment, moment])))

    def at(x: float, y: float = 0.0) -> Pose:
        return Pose(np.eye(3), (x, y, 0.0))

    bodies = (Body("palm", Inertia(0.3, tensor=np.eye(3) * 1e-3)),)
    bodies += tuple(bar(*each) for each in (("crank", crank), ("coupler", coupler), ("rocker", rocker)))
    joints = (
        Joint("crank", "revolute", "palm", "crank", at(0.0, 0.05 * side)),
        Joint("coupler", "revolute", "crank", "coupler", at(crank)),
        Joint("rocker", "revolute", "palm", "rocker", at(ground, 0.05 * side)),
    )
    frames = (Frame("tip", "coupler", at(coupler)), Frame("end", "rocker", at(rocker)))
    return edit.prefix_names(Robot("finger", bodies, joints, frames, loops=(Loop("pin", "axis", "tip", "end"),)), name)


def gripper(fingers: int) -> Robot:
    """The arm with so many four-bar fingers; two are geared."""
    robot = arm()
    for name, side in (("left ", 1.0), ("right ", -1.0))[:fingers]:
        robot = edit.mount(robot, finger(name, side), frame="hand")
    if fingers == 2:
        robot = robot.replace(loops=(*robot.loops, Loop("gear", "gear", "left crank", "right crank")))
    return robot


def closed(robot: Robot) -> np.ndarray:
    """A state in motion with closed loops."""
    start = states(robot, 1)[0]
    for name, angle in (("crank", 0.9), ("coupler", -0.6), ("rocker", 1.2)):
        for i, joint in enumerate(robot.joint_names):
            start[7 + i] = angle if joint.endswith(name) else start[7 + i]
    return np.asarray(close_state(robot, State.from_vector(start)).vector)


def main() -> list[Row]:
    count, rows = 2000, []
    for fingers in (1, 2):
        robot = gripper(fingers)
        start = closed(robot)
        plain, tree = arm(), robot.replace(loops=())
        alone = states(plain, 1)[0]
        times = alternate(
            {
                "loops": Task(lambda r=robot, s=start: rollout(r, s, STEP, count), 4 * count),  # type: ignore[misc]
                "arm": Task(lambda r=plain, s=alone: rollout(r, s, STEP, count), 4 * count),  # type: ignore[misc]
                "tree": Task(lambda r=tree, s=start: rollout(r, s, STEP, count), 4 * count),  # type: ignore[misc]
            }
        )
        what = f"{fingers} four-bar finger{'s, geared' * (fingers == 2)}"
        own = times["loops"] * 1e9
        rows += [
            Row(what, own, "ns/evaluation", "the arm alone", times["arm"] * 1e9, 0.5 if fingers == 1 else None),
            Row(what, own, "ns/evaluation", "the same bodies, open", times["tree"] * 1e9, 0.5),
        ]
    return show("A gripper with closed loops on the 7-joint arm, RK4, 2000 steps of 1 ms", rows)
