"""The robots that every engine gets, without friction, dampers or limits: the same work for all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spacearm.engine.benchmark import arm, states
from spacearm.model import Body, Inertia, Joint, Pose, Robot
from spacearm.typing import Array

__all__ = ["arm", "arm_chain", "skew_chain", "states"]

_QUARTER_TURN = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])


def arm_chain(joints: int, seed: int = 1) -> Robot:
    """A chain as arms are built: each joint's axis at a right angle to the last, skew inertias off centre."""
    rng = np.random.default_rng([seed, joints])
    return _chain(joints, rng, lambda: (_QUARTER_TURN, np.array([0.0, -0.1, 0.3]), np.array([0.0, 0.0, 1.0])))


def skew_chain(joints: int, seed: int = 1) -> Robot:
    """A chain of revolute joints in general position: no zero in its geometry that would save work."""
    rng = np.random.default_rng([seed, joints])

    def link() -> tuple[Array, Array, Array]:
        turn, triangle = np.linalg.qr(rng.normal(size=(3, 3)))
        turn = turn * np.sign(np.diag(triangle))
        if np.linalg.det(turn) < 0.0:
            turn[:, 0] = -turn[:, 0]
        axis = rng.normal(size=3)
        return turn, 0.3 * rng.normal(size=3), axis / np.linalg.norm(axis)

    return _chain(joints, rng, link)


def _chain(joints: int, rng: np.random.Generator, link: Callable[[], tuple[Array, Array, Array]]) -> Robot:
    bodies = [Body("base", _cloud(rng, 60.0, 0.6))]
    links = []
    for i in range(joints):
        turn, offset, axis = link()
        links.append(Joint(f"joint{i + 1}", "revolute", bodies[-1].name, f"link{i + 1}", Pose(turn, offset), axis))
        bodies.append(Body(f"link{i + 1}", _cloud(rng, float(rng.uniform(3.0, 10.0)), 0.3)))
    return Robot(f"chain{joints}", tuple(bodies), tuple(links))


def _cloud(rng: np.random.Generator, mass: float, size: float) -> Inertia:
    """Inertia of seven equal point masses, kg and m."""
    points = size * rng.normal(size=(7, 3))
    centre = points.mean(axis=0)
    arms = points - centre
    tensor = mass / 7 * (np.sum(arms**2) * np.eye(3) - arms.T @ arms)
    return Inertia(mass, centre, 0.5 * (tensor + tensor.T))
