"""Where bodies and frames are and how they move: poses, Jacobians, the generalized Jacobian."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.spatial import SX, Spatial, constant, rotation_matrix
from spacearm.mechanics.tree import Placement, Tree
from spacearm.model import Frame


@dataclass(frozen=True)
class SymbolicPose:
    """Rotation matrix to outer axes and origin in outer coordinates."""

    rotation: SX
    origin: SX


def base_pose(position: SX, quaternion: SX) -> SymbolicPose:
    """Pose of the base in the world."""
    return SymbolicPose(rotation_matrix(quaternion), position)


def body_poses(tree: Tree, placements: list[Placement], base: SymbolicPose) -> list[SymbolicPose]:
    """Pose of every body in the world, of its frame in the tree."""
    poses = [base]
    for joint, place in zip(tree.joints, placements, strict=True):
        outer = poses[joint.parent]
        poses.append(SymbolicPose(outer.rotation @ place.matrix(), outer.origin + outer.rotation @ place.origin()))
    return poses


def frame_pose(tree: Tree, placements: list[Placement], base: SymbolicPose, frame: Frame) -> SymbolicPose:
    """Pose of one frame in the world."""
    pose = base
    body = tree.robot.body_index(frame.body)
    for i in tree.path(body):
        place = placements[i]
        pose = SymbolicPose(pose.rotation @ place.matrix(), pose.origin + pose.rotation @ place.origin())
    own = tree.frame(frame)
    rotation, arm = constant(own.rotation), constant(own.translation)
    return SymbolicPose(pose.rotation @ rotation, pose.origin + pose.rotation @ arm)


def frame_jacobian(tree: Tree, placements: list[Placement], base: SymbolicPose, frame: Frame) -> SX:
    """Map (6, 6 + n) from the generalised velocity to the frame's twist at its origin, world axes."""
    # Columns are the frame's twist for a unit rate of one degree of freedom: for a hinge axis x arm and axis, for a
    # slide its direction and zero. Base columns are turned to world axes, since the base's velocity comes in its own
    # axes.
    at = frame_pose(tree, placements, base, frame).origin
    poses = body_poses(tree, placements, base)
    jacobian = ca.SX(6, 6 + tree.n)
    jacobian[:3, :3] = base.rotation
    jacobian[:3, 3:6] = -ca.skew(at - base.origin) @ base.rotation
    jacobian[3:, 3:6] = base.rotation
    # Joints outside the path do not move the frame: their columns stay zero.
    for i in tree.path(tree.robot.body_index(frame.body)):
        joint, pose = tree.joints[i], poses[i + 1]
        if joint.joint.kind == "revolute":
            axis = pose.rotation @ joint.subspace.angular
            jacobian[:3, 6 + i] = ca.cross(axis, at - pose.origin)
            jacobian[3:, 6 + i] = axis
        else:
            jacobian[:3, 6 + i] = pose.rotation @ joint.subspace.linear
    return ca.densify(jacobian)


def generalized_jacobian(jacobian: SX, mass_matrix: SX) -> SX:
    """J* = J_m - J_b H_b^-1 H_bm (6, n): frame twist for joint rates when the total momentum is zero.

    Umetani and Yoshida, IEEE Trans. Robotics and Automation 5(3), 1989.
    """
    # Zero momentum, H_b v + H_bm q' = 0, gives the base's velocity for joint rates; the frame moves by both.
    base, coupling = mass_matrix[:6, :6], mass_matrix[:6, 6:]
    return ca.densify(jacobian[:, 6:] - jacobian[:, :6] @ solve_symmetric(base, coupling))


def wrench_on_body(
    tree: Tree, placements: list[Placement], quaternion: SX, frame: Frame, wrench: SX, axes: str
) -> Spatial:
    """A wrench at a frame's origin, in ``world`` or ``frame`` axes, as a wrench on its body in body axes and origin."""
    force, moment, own = wrench[:3], wrench[3:], tree.frame(frame)
    if axes == "frame":
        rotation = constant(own.rotation)
        force, moment = rotation @ force, rotation @ moment
    else:
        inward = rotation_matrix(quaternion).T
        force, moment = inward @ force, inward @ moment
        if tree.base is not None:
            force, moment = tree.base.to_child(force), tree.base.to_child(moment)
        # Down the chain from world to body axes, vector by vector: cheaper than the product of the rotations.
        for i in tree.path(tree.robot.body_index(frame.body)):
            force, moment = placements[i].to_child(force), placements[i].to_child(moment)
    return Spatial(force, moment + ca.cross(constant(own.translation), force))
