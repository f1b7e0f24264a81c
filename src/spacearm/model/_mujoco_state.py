"""States of a robot to and from a MuJoCo model of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.model._mjcf_compile import import_mujoco
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_from_quaternion
from spacearm.typing import Array


def joint_addresses(robot: Robot, model: Any) -> tuple[Array, Array, int, int]:
    """Indices of the robot's joints (by name) and of its base in a MuJoCo model's vectors.

    Returns (indices into qpos, indices into qvel, both in the robot's joint order; start of the base in qpos, in qvel).
    """
    mujoco = import_mujoco()
    found = []
    for name in robot.joint_names:
        found.append(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name))
        if found[-1] < 0:
            raise InputError(f"the MuJoCo model has no joint {name!r}", place=f"robot {robot.name!r}")
    free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
    if len(free) != 1:
        raise InputError(f"the MuJoCo model has {len(free)} free joints", hint="expected one, for the base")
    return (
        model.jnt_qposadr[found].astype(int),
        model.jnt_dofadr[found].astype(int),
        int(model.jnt_qposadr[free[0]]),
        int(model.jnt_dofadr[free[0]]),
    )


def mujoco_state(
    robot: Robot,
    model: Any,
    position: npt.ArrayLike,
    quaternion: npt.ArrayLike,
    joints: npt.ArrayLike,
    velocity: npt.ArrayLike,
) -> tuple[Array, Array]:
    """State of a MuJoCo model of the robot: (qpos, qvel).

    spacearm's base velocity is that of the base frame's origin in base axes; MuJoCo wants its linear part in world
    axes and its angular part in base axes.
    """
    at_q, at_v, base_q, base_v = joint_addresses(robot, model)
    velocity = np.asarray(velocity, dtype=np.float64)
    qpos, qvel = np.array(model.qpos0, dtype=np.float64), np.zeros(model.nv)
    quaternion = np.asarray(quaternion, dtype=np.float64)
    # MuJoCo's free joint: position and quaternion (w first) in the world, linear velocity in world axes, angular
    # velocity in body axes.
    qpos[base_q : base_q + 3] = position
    qpos[base_q + 3 : base_q + 7] = quaternion / np.linalg.norm(quaternion)
    qvel[base_v : base_v + 3] = rotation_from_quaternion(quaternion) @ velocity[:3]
    qvel[base_v + 3 : base_v + 6] = velocity[3:6]
    # By name and not by place: MuJoCo numbers joints by the depth of their bodies' tree, which need not be our order.
    qpos[at_q] = joints
    qvel[at_v] = velocity[6:]
    return qpos, qvel


def spacearm_state(
    robot: Robot, model: Any, qpos: npt.ArrayLike, qvel: npt.ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """State of the robot from a MuJoCo state: position, quaternion, joints, velocity."""
    at_q, at_v, base_q, base_v = joint_addresses(robot, model)
    qpos, qvel = np.asarray(qpos, dtype=np.float64), np.asarray(qvel, dtype=np.float64)
    quaternion = qpos[base_q + 3 : base_q + 7].copy()
    # World to base axes.
    linear = rotation_from_quaternion(quaternion).T @ qvel[base_v : base_v + 3]
    velocity = np.concatenate([linear, qvel[base_v + 3 : base_v + 6], qvel[at_v]])
    return qpos[base_q : base_q + 3].copy(), quaternion, qpos[at_q].copy(), velocity
