"""The extended generalized inertia tensor from MuJoCo's mass matrix and Jacobian, as an independent check.

All of H is inverted at once with the rows of locked joints removed; neither H* nor the united body is used.
Closed loops are rows of MuJoCo's frame Jacobians, whose multipliers are found by least squares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.impact._joint_modes import JointModes, Locked, Resistance
from spacearm.model import Robot
from spacearm.simulate.check.mujoco_loops import loop_rows
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.typing import Array


def tensor_by_mujoco(
    robot: Robot,
    frame: str,
    joints: npt.ArrayLike,
    *,
    base: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
    locked: Locked = "none",
    resistance: Resistance = 0.0,
) -> Array:
    """G* (6, 6), world axes, of one state; arguments as for :meth:`spacearm.impact.ImpactPoint.tensor`."""
    modes = JointModes.from_options(robot, locked, resistance)
    pose = np.asarray(base, dtype=np.float64)
    reference = MujocoModel(robot)
    reference.set_state(pose[:3], pose[3:], np.asarray(joints, dtype=np.float64), np.zeros(robot.dofs))
    matrix, jacobian = reference.mass_matrix(), reference.frame_jacobian(frame)
    push = jacobian.T.copy()
    # Eq. 10: the torque that would hold every joint still is the joint part left by a rigid motion of the whole.
    base_dofs = np.array(robot.base.moving_indices, dtype=int)
    rigid = np.linalg.solve(matrix[np.ix_(base_dofs, base_dofs)], push[base_dofs])
    held = push[6:] - matrix[6:, base_dofs] @ rigid
    push[6:] -= (modes.resistance * (1.0 - modes.locked))[:, None] * held
    free = np.concatenate([base_dofs, 6 + np.flatnonzero(modes.locked == 0.0)])
    moved = np.zeros_like(push)
    moved[free] = np.linalg.solve(matrix[np.ix_(free, free)], push[free])
    if robot.loops:
        rows = loop_rows(reference, robot)[:, free]
        give = np.linalg.solve(matrix[np.ix_(free, free)], rows.T)
        moved[free] -= give @ np.linalg.lstsq(rows @ give, rows @ moved[free], rcond=1e-11)[0]
    tensor: Array = jacobian @ moved
    return tensor
