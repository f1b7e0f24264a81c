"""Closed loops for the cross-check, from MuJoCo's frame Jacobians: rows that stay at zero, and their rates.

Nothing of :mod:`spacearm.mechanics.constraints` is used, and nothing of MuJoCo's own equality constraints, which are
soft. The rows' bias (dJ/dt) v is a central difference of the Jacobian along the motion, extrapolated once (Richardson):
1e-12 of its size.
"""

from __future__ import annotations

import numpy as np

from spacearm.model import Loop, Robot
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Step of the central difference, in rates of order 1: error of fourth order 1e-12, rounding 1e-13.
STEP = 1e-3


def loop_rows(model: MujocoModel, robot: Robot) -> Array:
    """(m, 6 + n) from generalised velocity to what loops keep at zero, where the model stands."""
    return np.concatenate([np.zeros((0, robot.dofs)), *(_rows(model, robot, loop) for loop in robot.loops)])


def _rows(model: MujocoModel, robot: Robot, loop: Loop) -> Array:
    if not loop.joins_frames:
        row = np.zeros((1, robot.dofs))
        row[0, robot.dof_index(loop.first)], row[0, robot.dof_index(loop.second)] = 1.0, -loop.ratio
        return row
    (first, one), (second, two) = (
        (model.frame_pose(end), model.frame_jacobian(end)) for end in (loop.first, loop.second)
    )
    arm = second.translation - first.translation
    across = np.cross(one[3:].T, arm).T
    # Of the second frame as the first one sees it.
    sliding = first.rotation.T @ (two[:3] - one[:3] - across)
    rotating = first.rotation.T @ (two[3:] - one[3:])
    if loop.kind == "distance":
        return np.asarray(((arm / np.linalg.norm(arm)) @ first.rotation @ sliding)[None])
    if loop.kind == "point":
        return np.asarray(sliding)
    if loop.kind == "weld":
        return np.concatenate([sliding, rotating])
    # The two directions across a hinge: the null space of its axis.
    across = np.linalg.svd(loop.hinge[None])[2][1:]
    return np.concatenate([sliding, across @ rotating])


def loop_bias(model: MujocoModel, robot: Robot, state: State) -> Array:
    """(dJ/dt) v, (m,); leaves the model displaced."""

    def slope(step: float) -> Array:
        ends = []
        for change in (step, -step):
            # Rows are seen from a frame of the robot: where the base is does not matter.
            model.set_state(state.position, state.quaternion, state.joints + change * state.rates, state.velocity)
            ends.append(loop_rows(model, robot) @ state.velocity)
        return np.asarray((ends[0] - ends[1]) / (2.0 * step))

    return np.asarray((4.0 * slope(0.5 * STEP) - slope(STEP)) / 3.0)
