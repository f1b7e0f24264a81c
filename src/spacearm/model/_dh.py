"""Denavit-Hartenberg tables, in both conventions, turned into joint placements.

Each row holds ``a`` (m), ``alpha`` (rad), ``d`` (m) and ``theta`` (rad, the offset that is added to the coordinate of a
revolute joint; a prismatic joint's coordinate is added to ``d``).

- ``craig`` (modified): row i carries ``alpha`` and ``a`` of the *previous* link,
  ``T = Rx(alpha) Tx(a) Rz(theta) Tz(d)``. Link frame i sits on the axis of joint i, which is where spacearm has its
  body frames too.
- ``standard`` (distal): ``T = Rz(theta) Tz(d) Tx(a) Rx(alpha)``. Joint i turns about z of frame i - 1 and link frame i
  sits at the link's far end. The body frame is then the frame just after the joint, and the link frame lies in it
  at ``Tx(a) Rx(alpha)``: :attr:`DhLink.link_frame`, which moves centroids and inertias given in the link frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from spacearm import checks
from spacearm.errors import ModelError
from spacearm.model.parts import JOINT_KINDS, JointKind, Pose, finite
from spacearm.model.rotations import rotation_about
from spacearm.typing import Array

Convention: TypeAlias = Literal["craig", "standard"]
CONVENTIONS: tuple[Convention, ...] = ("craig", "standard")

_X = np.array([1.0, 0.0, 0.0])
_Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, slots=True)
class DhRow:
    """One row of a table: ``a`` and ``d`` in m, ``alpha`` and ``theta`` in rad."""

    a: float = 0.0
    alpha: float = 0.0
    d: float = 0.0
    theta: float = 0.0
    kind: JointKind = "revolute"

    def __post_init__(self) -> None:
        checks.check_fields(self, finite, "a", "alpha", "d", "theta")
        checks.one_of(self.kind, JOINT_KINDS, "joint kind", error=ModelError)


@dataclass(frozen=True, slots=True)
class DhLink:
    """What a row becomes: a joint about z.

    Attributes:
        placement: joint frame in the parent's body frame at ``q = 0``.
        link_frame: the table's link frame in this link's own body frame (identity for ``craig``).
    """

    placement: Pose
    link_frame: Pose


def screw(axis: Array, angle: float, shift: float) -> Pose:
    """A turn about and a shift along the same axis; the two commute."""
    return Pose(rotation_about(axis, angle), shift * axis)


def _is_craig(convention: Convention) -> bool:
    return checks.one_of(convention, CONVENTIONS, "convention", error=ModelError) == "craig"


def dh_links(rows: Iterable[DhRow], convention: Convention, base: Pose | None = None) -> tuple[DhLink, ...]:
    """The joints of a serial chain; ``base`` is the table's frame 0 in the base body's frame."""
    previous = Pose() if base is None else base
    links = []
    for row in rows:
        along_x, along_z = screw(_X, row.alpha, row.a), screw(_Z, row.theta, row.d)
        # craig: the joint's axis is z of its own link frame, so the whole transform lies before the joint. standard:
        # the joint turns about z of the frame before, so the part along x lies behind it and belongs to the link.
        if _is_craig(convention):
            link = DhLink(previous @ along_x @ along_z, Pose())
        else:
            link = DhLink(previous @ along_z, along_x)
        links.append(link)
        # The next row counts from this link's table frame.
        previous = link.link_frame
    return tuple(links)
