"""A robot beside the MuJoCo model that it is written as: states, mass matrices, frames."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from spacearm.model import (
    Body,
    Inertia,
    Joint,
    Pose,
    Robot,
)
from spacearm.model._mujoco_state import mujoco_state
from spacearm.model.mjcf_write import mjcf_text
from support.numpy_kinematics import body_poses, frame_poses, mass_matrix, mass_properties, turn


def random_state(robot, rng):
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    return rng.normal(size=3), quaternion, rng.uniform(-1, 1, robot.n), rng.normal(size=robot.dofs)


def rotation_of(quaternion):
    w, *v = quaternion
    angle = 2 * np.arctan2(np.linalg.norm(v), w)
    return turn(np.asarray(v) / np.linalg.norm(v), angle)


def loaded(robot, **options):
    model = mujoco.MjModel.from_xml_string(mjcf_text(robot, **options))
    return model, mujoco.MjData(model)


def placed(robot, model, data, state):
    data.qpos[:], data.qvel[:] = mujoco_state(robot, model, *state)
    mujoco.mj_forward(model, data)


def dof_map(robot, model, rotation):
    """Matrix that takes spacearm's generalised velocity to MuJoCo's, from the states' own conversion at unit rates."""
    columns = []
    for k in range(robot.dofs):
        unit = np.zeros(robot.dofs)
        unit[k] = 1.0
        columns.append(mujoco_state(robot, model, np.zeros(3), rotation, np.zeros(robot.n), unit)[1])
    return np.array(columns).T


def full_mass_matrix(model, data):
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, full, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(model, data, full)
    return full


def assert_same_motion(robot, model, seed, tolerance=1e-11):
    """Mass matrix, mass, mass centre, and where bodies and frames are, at a random state."""
    rng = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    state = position, quaternion, q, _ = random_state(robot, rng)
    placed(robot, model, data, state)
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = rotation_of(quaternion), position
    mine = mass_matrix(robot, q)
    change = dof_map(robot, model, quaternion)
    theirs = change.T @ full_mass_matrix(model, data) @ change
    np.testing.assert_allclose(theirs, mine, rtol=tolerance, atol=tolerance * np.abs(mine).max())
    mass, com, _ = mass_properties(robot, q)
    np.testing.assert_allclose(data.subtree_com[0], base[:3, :3] @ com + position, atol=1e-12)
    assert model.body_mass.sum() == pytest.approx(mass, rel=1e-12)
    for name, pose in body_poses(robot, q, base).items():
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if index >= 0:
            np.testing.assert_allclose(data.xpos[index], pose[:3, 3], atol=1e-12)
            np.testing.assert_allclose(data.xmat[index].reshape(3, 3), pose[:3, :3], atol=1e-12)
    poses = frame_poses(robot, q)
    for frame in robot.frames:
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, frame.name)
        np.testing.assert_allclose(data.site_xpos[index], (base @ poses[frame.name])[:3, 3], atol=1e-12)
        np.testing.assert_allclose(data.site_xmat[index].reshape(3, 3), (base @ poses[frame.name])[:3, :3], atol=1e-12)


def stout(name, size=1.0):
    return Body(name, Inertia(10.0 * size, [0.1, 0.2, -0.1], size * np.diag([2.0, 2.5, 3.0])))


def two_links(**first):
    return Robot(
        "two",
        (stout("base", 5), stout("a"), stout("b")),
        (
            Joint(
                "j", "revolute", "base", "a", Pose(turn([0.6, 0.8, 0], 0.7), [0.1, 0.5, 0.2]), [0, 0.6, 0.8], **first
            ),
            Joint("k", "revolute", "a", "b", Pose(turn([0, 0.8, 0.6], -0.4), [0.5, 0, 0.2]), [0, 1, 0]),
        ),
    )
