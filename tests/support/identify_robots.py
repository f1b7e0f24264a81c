"""Robots for identification tests: a sliding joint, two arms, seven joints; all with thrusters in every direction."""

from __future__ import annotations

import numpy as np

from spacearm.model import Body, Joint, Pose, Robot, Thruster
from support.random_robots import point_mass_inertia, random_rotation


def thrusters() -> tuple[Thruster, ...]:
    """Twelve on the base: each face pushes with and without an arm."""
    found = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            for arm in (0.3, -0.2):
                direction, position = np.zeros(3), np.zeros(3)
                direction[axis] = sign
                position[(axis + 1) % 3] = arm
                position[axis] = -0.4 * sign
                found.append(Thruster(f"t{len(found)}", "base", position, direction, 3.0))
    return tuple(found)


def make(kinds: str, parents: tuple[int, ...], seed: int, skew: bool) -> Robot:
    """``kinds``: r or p for each joint; ``parents``: index of the carrying body of each."""
    rng = np.random.default_rng(seed)
    bodies = [Body("base", point_mass_inertia(rng, 60.0, 0.5, 0.1))]
    joints = []
    for i, (kind, parent) in enumerate(zip(kinds, parents, strict=True)):
        bodies.append(Body(f"link{i + 1}", point_mass_inertia(rng, float(rng.uniform(4.0, 12.0)), 0.25, 0.2)))
        axis = rng.normal(size=3) if skew else np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
        pose = Pose(random_rotation(rng) if skew else np.eye(3), rng.normal(size=3) * 0.4)
        name = bodies[parent].name
        kind_name = "revolute" if kind == "r" else "prismatic"
        joints.append(
            Joint(f"joint{i + 1}", kind_name, name, f"link{i + 1}", pose, axis / np.linalg.norm(axis))  # type: ignore[arg-type]
        )
    return Robot(f"robot-{kinds}", tuple(bodies), tuple(joints), thrusters=thrusters())


ROBOTS = {
    "sliding": make("rpr", (0, 1, 2), 1, skew=True),
    "two-arms": make("rrrpr", (0, 1, 0, 3, 4), 2, skew=False),
    "seven": make("rrrrrrr", (0, 1, 2, 3, 4, 5, 6), 3, skew=True),
    "one-slide": make("p", (0,), 4, skew=False),
    "no-joint": make("", (), 5, skew=False),
}
