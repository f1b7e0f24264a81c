"""Linkages in axes that do not turn with their bodies.

Joints of a linkage mostly have parallel axes. Seen in axes at rest on the body where the linkage begins, all its bodies
have the same orientation: wrenches, twists and articulated inertias go from body to body by shifts alone. What turns
are the inertia parameters, ten numbers for each body. Loops pass several wrenches through these joints
(:mod:`spacearm.mechanics.constraints`), so that this pays for them; a tree without loops stays in its bodies' axes.

The recursions take any axes, as long as they are those of the moment: accelerations in them are vectors, not
derivatives of components. Accelerations and forces of joints are the same in all axes.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import casadi as ca
import numpy as np

from spacearm.mechanics.constraints import Closure
from spacearm.mechanics.spatial import SX, Rotation, Spatial, constant, snap_entries
from spacearm.mechanics.tree import Link, Placement, Tree
from spacearm.model import Pose
from spacearm.typing import Array


class TreeView(NamedTuple):
    """A tree with its placements, its inertia parameters and the wrenches on its bodies, in the same axes."""

    tree: Tree
    placements: list[Placement]
    inertia: SX
    wrenches: list[Spatial | None]


class _Turn(NamedTuple):
    """Rotation of a body in the axes at rest: ``fixed``, and a turn about coordinate axis ``axis``."""

    fixed: Array
    axis: int
    c: SX
    s: SX

    def rotation(self) -> Rotation:
        return Rotation(constant(self.fixed), self.axis, self.c, self.s)

    def append_turn(self, fixed: Array, turn: _Turn) -> _Turn | None:
        """The rotation of a child, ``fixed`` and a turn in its parent; None where both turns' axes are not parallel."""
        # turn(k, t) F = F turn(j, +-t) where F takes axis j to axis k or its opposite: the angles add up.
        sense = float(fixed[self.axis, turn.axis])
        if abs(sense) != 1.0:
            return None
        s = sense * self.s
        c, s = self.c * turn.c - s * turn.s, s * turn.c + self.c * turn.s
        return _Turn(self.fixed @ fixed, turn.axis, c, s)


def align_linkages(seen: TreeView, loops: Sequence[Closure]) -> TreeView:
    """The same with the bodies between each loop's ancestor and ends in axes at rest, where their joints allow it."""
    tree = seen.tree
    joints, placements = list(tree.joints), [*seen.placements]
    inertia, wrenches = ca.SX(seen.inertia), [*seen.wrenches]
    around = {i for loop in loops for i in loop.joints}
    turns: dict[int, _Turn] = {}
    for i, joint in enumerate(tree.joints):
        place, parent = seen.placements[i], turns.get(joint.parent)
        last, fixed = place.links[-1].rotation, place.fixed_rotation()
        turn = None
        free = joint.joint.kind == "revolute" and joint.rotor is None
        if i in around and free and fixed is not None and last.axis is not None:
            turn = _Turn(np.eye(3), last.axis, last.c, last.s)
            if parent is not None:
                turn = parent.append_turn(fixed, turn)
            else:
                still = Link(Rotation(last.fixed, plain=last.plain), place.links[-1].arm)
                placements[i] = Placement((*place.links[:-1], still), place.arm, place.along)
        if turn is None:
            if parent is not None:
                # A joint of its own kind on a linkage: from the linkage's axes to the body's, then as it was.
                rotation = parent.rotation()
                links = (Link(rotation, ca.SX.zeros(3)), *place.links)
                placements[i] = Placement(links, rotation.to_parent(place.arm), place.along)
            continue
        if parent is not None:
            arm = parent.rotation().to_parent(constant(joint.place.translation))
            placements[i] = Placement((Link(Rotation(ca.SX.eye(3), plain=True), arm),), arm, ca.SX.zeros(3))
        turns[i + 1], rotation = turn, turn.rotation()
        axis = snap_entries(turn.fixed @ joint.axis)
        joints[i] = replace(joint, joint=replace(joint.joint, axis=axis), place=Pose(), screw=None)
        own = slice(10 * (i + 1), 10 * (i + 2))
        inertia[own] = rotation.parameters_to_parent(inertia[own])
        push = wrenches[i + 1]
        if push is not None:
            wrenches[i + 1] = Spatial(rotation.to_parent(push.linear), rotation.to_parent(push.angular))
    aligned = copy.copy(tree)
    aligned.joints = tuple(joints)
    return TreeView(aligned, placements, inertia, wrenches)
