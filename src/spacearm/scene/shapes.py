"""What a body looks like: its visuals, its collision shapes, or what its inertia and its joints suggest."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from spacearm.model import Body, Joint, Pose, Robot, Visual
from spacearm.model.parts import SHAPES
from spacearm.typing import Array

#: A share of the robot's size: radius of the tubes between joints where no shape is given.
TUBE = 0.02
#: Thinnest edge of an equivalent box, as a share of its longest: a rod stays visible.
THINNEST = 0.04


@dataclass(frozen=True, eq=False)
class BodyShapes:
    """A body's shapes, with a role for the colour of those that have none, and the box of its inertia."""

    shapes: tuple[tuple[str, Visual], ...]
    box: Visual | None


def body_shapes(robot: Robot, missing: Collection[str] = ()) -> list[BodyShapes]:
    """Shapes of every body, in the robot's order, without the meshes that are ``missing``."""
    drawn = [visual for body in robot.bodies for visual in body.visuals]
    # Masses of modes are drawn where the modes move a shape, not as bodies.
    modes = {mode.joint for visual in drawn for mode in visual.mode_shapes}
    hidden = {joint.child for joint in robot.joints if joint.name in modes}
    boxes = [None if body.name in hidden else equivalent_box(body) for body in robot.bodies]
    thickness = TUBE * _reach(robot, boxes)
    plain = not drawn  # else massless bodies without shapes are mere frames
    found = []
    for index, (body, box) in enumerate(zip(robot.bodies, boxes, strict=True)):
        joint = robot.joints[index - 1] if index else None
        visuals = body.visuals or [
            Visual(each.shape, each.size, each.placement) for each in body.collisions if each.shape in SHAPES
        ]
        shapes = [(_role(visual, joint), visual) for visual in visuals if visual.mesh not in missing]
        if not shapes and (plain or body.inertia.mass > 0.0) and body.name not in hidden:
            shapes = _default_shapes(robot, body, joint, box, thickness)
        found.append(BodyShapes(tuple(shapes), box))
    return found


def _role(visual: Visual, joint: Joint | None) -> str:
    """A cylinder about the middle of a joint is taken for its housing."""
    if joint is None:
        return "base"
    return "joint" if visual.shape == "cylinder" and not np.any(visual.placement.translation) else "visual"


def equivalent_box(body: Body) -> Visual | None:
    """The box of even density with the body's mass, mass centre and inertia; none for a point."""
    inertia = body.inertia
    if inertia.mass <= 0.0:
        return None
    moments, axes = np.linalg.eigh(inertia.tensor)
    # A box with edges a, b, c has I_x = m (b^2 + c^2) / 12, so a^2 = 6 (I_y + I_z - I_x) / m.
    edges = np.sqrt(np.maximum(6.0 * (moments.sum() - 2.0 * moments) / inertia.mass, 0.0))
    if edges.max() <= 0.0:
        return None
    # eigh may give a reflection; a pose needs a rotation.
    axes[:, 0] *= math.copysign(1.0, np.linalg.det(axes))
    return Visual("box", np.maximum(edges, THINNEST * edges.max()), Pose(axes, inertia.com))


def _reach(robot: Robot, boxes: list[Visual | None]) -> float:
    """How long the robot is, stretched out, m."""
    length = [0.0] * len(robot.bodies)
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        length[i + 1] = length[parent] + float(np.linalg.norm(joint.placement.translation))
    own = [0.0 if box is None else float(np.linalg.norm(box.size)) / 2.0 for box in boxes]
    return max(a + b for a, b in zip(length, own, strict=True)) or 1.0


def _default_shapes(
    robot: Robot, body: Body, joint: Joint | None, box: Visual | None, radius: float
) -> list[tuple[str, Visual]]:
    """Tubes to whatever the body carries, a housing at its joint, its box where it is not a rod."""
    lines = _lines(robot, body, joint, box, radius)
    shapes = [("link", _tube(a, b, radius)) for a, b in lines]
    if joint is not None:
        shapes.append(("joint", _joint_housing(joint, radius)))
    if box is not None and (joint is None or box.size.min() > 10.0 * radius or not lines):
        shapes.append(("base" if joint is None else "link", box))
    elif joint is None or (body.inertia.mass > 0.0 and box is None and not lines):
        shapes.append(("link", Visual("sphere", np.array([1.6 * radius]), Pose(translation=body.inertia.com))))
    return shapes


def _lines(
    robot: Robot, body: Body, joint: Joint | None, box: Visual | None, radius: float
) -> list[tuple[Array, Array]]:
    """From the body's joint to what it carries; of a body that carries nothing, to its frames or as far as its mass."""
    ends = [child.placement.translation for child in robot.children(body.name)]
    ends += [frame.placement.translation for frame in robot.frames if frame.body == body.name and not ends]
    begin = np.zeros(3) if joint is not None or box is None else box.placement.translation
    lines = [(begin, end) for end in ends if np.linalg.norm(end - begin) > radius]
    if joint is not None and not lines and np.linalg.norm(body.inertia.com) > radius:
        lines = [(begin, 2.0 * body.inertia.com)]  # a rod from its joint
    return lines


def _tube(begin: Array, end: Array, radius: float) -> Visual:
    axis = end - begin
    return Visual(
        "capsule",
        np.array([radius, float(np.linalg.norm(axis))]),
        Pose(_rotation_to_axis(axis), 0.5 * (np.asarray(begin) + np.asarray(end))),
    )


def _joint_housing(joint: Joint, radius: float) -> Visual:
    pose = Pose(_rotation_to_axis(joint.axis))
    if joint.kind == "revolute":
        return Visual("cylinder", np.array([1.6 * radius, 3.6 * radius]), pose)
    return Visual("box", np.array([2.6 * radius, 2.6 * radius, 4.5 * radius]), pose)


def _rotation_to_axis(axis: Array) -> Array:
    """A rotation that turns z into this direction."""
    z = axis / np.linalg.norm(axis)
    # The coordinate axis that is farthest from z: the cross product is never near zero.
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)
