"""Welding bodies together: the one place where rigidly joined bodies become one.

Fixed joints of a URDF, bodies without a joint in an MJCF, captured targets and frozen joints are all welds.

For each body the carrier at the root of its chain of welds and its pose there are found; inertias are moved into the
carrier's frame (rotation and Steiner's theorem) and added, and joints, frames, thrusters and shapes are placed anew.
Dynamics then has one body for each rigid part. The motion of what remains is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import ModelError, error_context
from spacearm.model.base import BaseConstraint
from spacearm.model.loops import Loop
from spacearm.model.parts import Body, Coupling, Frame, Inertia, Joint, JointKind, Pose, Thruster
from spacearm.model.problems import Problems
from spacearm.model.robot import Robot, check_unique
from spacearm.model.rotations import rotation_about
from spacearm.model.slosh import Tank
from spacearm.typing import Array

#: Of each body, the body that carries it, and its place there.
Places: TypeAlias = Mapping[str, tuple[str, Pose]]
P = TypeVar("P", Joint, Frame)


@dataclass(frozen=True, slots=True)
class Weld:
    """A rigid connection: the child's frame lies at ``placement`` in the parent's frame."""

    name: str
    parent: str
    child: str
    placement: Pose = field(default_factory=Pose)


def joint_pose(kind: JointKind, axis: npt.ArrayLike, position: float) -> Pose:
    """The child's frame in the joint frame when the joint stands at ``position`` (rad or m)."""
    if kind == "revolute":
        return Pose(rotation_about(axis, position))
    return Pose(translation=np.asarray(axis, dtype=np.float64) * position)


def axial_tensor(axis: npt.ArrayLike, moment: float) -> Array:
    """The tensor of a spinning mass that resists turning about ``axis`` only, kg m2."""
    unit = np.asarray(axis, dtype=np.float64)
    return moment * np.outer(unit, unit)


def with_moment(inertia: Inertia, tensor: Array) -> Inertia:
    """The same body with ``tensor`` (kg m2) added to its inertia."""
    total = inertia.tensor + tensor
    return Inertia(inertia.mass, inertia.com, 0.5 * (total + total.T))


#: Of what carries itself.
IN_PLACE = Pose()


def fuse(
    name: str,
    bodies: Iterable[Body],
    *,
    joints: Iterable[Joint] = (),
    welds: Iterable[Weld] = (),
    frames: Iterable[Frame] = (),
    thrusters: Iterable[Thruster] = (),
    couplings: Iterable[Coupling] = (),
    loops: Iterable[Loop] = (),
    tanks: Iterable[Tank] = (),
    configurations: Mapping[str, Mapping[str, float]] | None = None,
    moments: Mapping[str, Array] | None = None,
    mend: Callable[[tuple[Body, ...], tuple[Joint, ...]], tuple[Body, ...]] | None = None,
    base: BaseConstraint | None = None,
) -> Robot:
    """The robot in which every weld's child has become part of the body that carries it.

    The child's inertia is added to the carrier, what was fixed to the child moves along, and the child's name stays
    usable as a frame. ``configurations`` are joint positions by joint name (missing ones are zero); ``moments`` are
    tensors (kg m2, axes of the body named) that are added to a body after the welding; ``mend`` may change the welded
    bodies, which it gets with the joints between them, before the robot is made and checked.
    """
    bodies, joints, welds = list(bodies), list(joints), list(welds)
    # Before anything is moved: messages then name parts as the file has them.
    _check(bodies, joints, welds)
    places = _places([body.name for body in bodies], welds)
    welded = _merge_bodies(bodies, places, moments or {})
    new_joints = tuple(_move_to_carrier(joint, joint.parent, "parent", places) for joint in joints)
    new_frames = [_move_to_carrier(frame, frame.body, "body", places) for frame in frames]
    return Robot(
        name=name,
        bodies=welded if mend is None else mend(welded, new_joints),
        joints=new_joints,
        frames=(*new_frames, *(Frame(weld.child, *places[weld.child]) for weld in welds)),
        thrusters=tuple(_move_thruster_to_carrier(thruster, places) for thruster in thrusters),
        couplings=tuple(couplings),
        loops=tuple(loops),
        tanks=tuple(tanks),
        configurations={
            key: np.array([values.get(joint.name, 0.0) for joint in new_joints])
            for key, values in (configurations or {}).items()
        },
        base=base or BaseConstraint(),
    )


def _merge_bodies(bodies: list[Body], places: Places, moments: Mapping[str, Array]) -> tuple[Body, ...]:
    """Those bodies that carry the others, with all inertias, shapes and moments."""
    inertias: dict[str, Inertia] = {}
    shapes: dict[str, tuple[list[Any], list[Any]]] = {}
    for body in bodies:
        carrier, pose = places[body.name]
        moved = body.inertia if carrier == body.name else body.inertia.transform(pose)
        with error_context(f"body {carrier!r}", fallback=True):
            # a body that nothing is welded to keeps its inertia to the last bit
            inertias[carrier] = inertias[carrier] + moved if carrier in inertias else moved
        for own, brought in zip(shapes.setdefault(carrier, ([], [])), (body.visuals, body.collisions), strict=True):
            own.extend(brought if carrier == body.name else [each.transform(pose) for each in brought])
    for target, tensor in moments.items():
        carrier, pose = places[target]
        with error_context(f"body {carrier!r}", fallback=True):
            # The tensor was given in the welded body's axes.
            inertias[carrier] = with_moment(inertias[carrier], pose.rotation @ tensor @ pose.rotation.T)
    # In the file's order: the rows of inertia parameters follow it.
    kept = [body.name for body in bodies if places[body.name][0] == body.name]
    return tuple(Body(name, inertias[name], *map(tuple, shapes[name])) for name in kept)


def _move_to_carrier(part: P, body: str, key: str, places: Places) -> P:
    """A joint or a frame of a body, placed on what carries that; of an unknown body, the robot's own check names it."""
    carrier, pose = places.get(body, (body, IN_PLACE))
    if carrier == body:
        return part
    moved: dict[str, Any] = {key: carrier, "placement": pose @ part.placement}
    return replace(part, **moved)


def _move_thruster_to_carrier(thruster: Thruster, places: Places) -> Thruster:
    carrier, pose = places.get(thruster.body, (thruster.body, IN_PLACE))
    if carrier == thruster.body:
        return thruster
    position = pose.rotation @ thruster.position + pose.translation
    return replace(thruster, body=carrier, position=position, direction=pose.rotation @ thruster.direction)


def configurations_by_name(robot: Robot) -> dict[str, dict[str, float]]:
    """The robot's configurations with joint positions by name, as :func:`fuse` takes them."""
    return {
        key: dict(zip(robot.joint_names, map(float, values), strict=True))
        for key, values in robot.configurations.items()
    }


def _check(bodies: list[Body], joints: list[Joint], welds: list[Weld]) -> None:
    problems = Problems()
    names = {body.name for body in bodies}
    carried: dict[str, str] = {}
    parts: list[Joint | Weld] = [*joints, *welds]
    places = [*(f"joint[{i}]" for i in range(len(joints))), *(f"fixed joint[{i}]" for i in range(len(welds)))]
    with problems.collect_errors():
        check_unique([body.name for body in bodies], "body")
    with problems.collect_errors():
        check_unique([part.name for part in parts], "joint", places=places)
    for part in parts:
        place = f"joint {part.name!r}"
        for role in (part.parent, part.child):
            with problems.collect_errors():
                checks.check_name(role, names, "body", place=place, error=ModelError)
        if part.child in carried:
            problems.add(f"body {part.child!r} is already carried by joint {carried[part.child]!r}", place=place)
        carried[part.child] = part.name
    problems.raise_all()


def _places(names: list[str], welds: list[Weld]) -> dict[str, tuple[str, Pose]]:
    """For each body, the body that it ends up in and its frame there."""
    weld_of = {weld.child: weld for weld in welds}
    places = {name: (name, IN_PLACE) for name in names if name not in weld_of}
    for weld in welds:
        # Walk up to a body whose place is known, then back down: every weld is visited once, and there is no recursion
        # that a long chain in a file could exhaust.
        path: list[Weld] = []
        on_path: set[str] = set()
        current = weld.child
        while current not in places:
            if current in on_path:
                raise ModelError("the fixed joints form a cycle", place=f"joint {weld_of[current].name!r}")
            on_path.add(current)
            path.append(weld_of[current])
            current = weld_of[current].parent
        for step in reversed(path):
            carrier, pose = places[step.parent]
            places[step.child] = (carrier, step.placement if carrier == step.parent else pose @ step.placement)
    return places
