"""MuJoCo as a reference: the twin that the cross-check uses, which spacearm's mechanics and writers know nothing of."""

from __future__ import annotations

from spacearm.model import Robot
from spacearm.simulate.check.mujoco_model import MujocoModel
from support.random_robots import RandomState


def mujoco_at(robot: Robot, state: RandomState) -> MujocoModel:
    """A twin of ``robot``, set to ``state``."""
    reference = MujocoModel(robot)
    reference.set_state(state.position, state.quaternion, state.joints, state.velocity)
    return reference
