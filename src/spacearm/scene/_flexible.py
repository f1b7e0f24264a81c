"""Shapes that bend: visuals with mode shapes as bodies of a scene, each with poses of its own.

To first order in the deflection: a visual's middle moves by the sum of its mode shapes times the joints' positions, and
it rotates by the sum of their rotations. The mode's equivalent mass is not drawn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.model import Pose, Robot
from spacearm.model.layout import Layout
from spacearm.scene.scene import SceneBody, SceneShape
from spacearm.typing import Array


def quaternions_of(rotation: Array) -> Array:
    """Quaternions (..., 4), x y z w, of rotation matrices (..., 3, 3)."""
    found: Array = Rotation.from_matrix(rotation.reshape(-1, 3, 3)).as_quat()
    return found.reshape(*rotation.shape[:-2], 4)


def separate_flexible(
    robot: Robot, states: Array, poses: Array, bodies: tuple[SceneBody, ...]
) -> tuple[tuple[SceneBody, ...], Array]:
    """The bodies without the shapes that modes move, these as further bodies, and the poses (T, bodies, 7) of all."""
    joints = dict(zip(robot.joint_names, states[:, Layout(robot.n).joints].T, strict=True))
    parts, moved, named = [], [poses], set[str]()
    for k, body in enumerate(bodies):
        for shape in body.shapes:
            if not shape.visual.mode_shapes:
                continue
            # A label for each appendage, not for each of its parts.
            name = shape.visual.mode_shapes[0].joint.rpartition(".")[0]
            parts.append(_part("" if name in named else name, body, shape))
            named.add(name)
            moved.append(_part_poses(shape, joints, poses[:, k])[:, None])
    rigid = (replace(b, shapes=tuple(each for each in b.shapes if not each.visual.mode_shapes)) for b in bodies)
    return (*rigid, *parts), np.concatenate(moved, axis=1)


def _part(name: str, body: SceneBody, shape: SceneShape) -> SceneBody:
    visual = replace(shape.visual, placement=Pose(shape.visual.placement.rotation), mode_shapes=())
    return SceneBody(name, 0.0, np.zeros(3), body.system, (replace(shape, visual=visual),), None)


def _part_poses(shape: SceneShape, joints: dict[str, Array], poses: Array) -> Array:
    """(T, 7) of a shape that modes move, on a body with these poses."""
    shift, angle = np.zeros((len(poses), 3)), np.zeros((len(poses), 3))
    for mode in shape.visual.mode_shapes:
        if mode.joint in joints:
            shift += np.outer(joints[mode.joint], mode.translation)
            angle += np.outer(joints[mode.joint], mode.rotation)
    rotation = Rotation.from_quat(poses[:, 3:])
    place = poses[:, :3] + rotation.apply(shape.visual.placement.translation + shift)
    return np.concatenate([place, (rotation * Rotation.from_rotvec(angle)).as_quat()], axis=1)
