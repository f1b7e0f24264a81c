"""Repairs of robots that cannot exist: what is changed, by how much, and in which sense it is the least change.

The functions here know no file format. :class:`~spacearm.model.intake.Intake` calls them for a reader where the caller
has asked for repair, and tells every change.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import pi

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from spacearm.model.parts import Body, Coupling, Inertia, Joint
from spacearm.model.robot import Robot
from spacearm.model.weightless import joint_space_inertia
from spacearm.typing import Array

#: A body that has a moment of inertia but no mass gets the mass with which its largest radius of gyration is this, m:
#: lighter than any link with such an inertia, and heavy enough for accurate dynamics.
LARGEST_GYRATION = 1.0
#: Mass of a body that stands in where nothing resists its joint, as a share of the robot's mass. A base that stands in
#: is as heavy as the rest, ...
STAND_IN_SHARE = 1e-3
#: ... and has this mass (kg) where nothing else has any.
STAND_IN_BASE = 1.0
#: Density of the ball that stands in, kg/m3: water.
STAND_IN_DENSITY = 1000.0
#: A mimic joint becomes a spring and damper of this frequency (Hz), critically damped.
MIMIC_FREQUENCY = 100.0
#: How many changes of one kind a warning spells out, the largest first.
MOST_SHOWN = 6


class Repaired(UserWarning):
    """A robot was changed so that it can exist; :attr:`repairs` lists every change of this kind."""

    def __init__(self, message: str, repairs: Sequence[Repair] = ()) -> None:
        super().__init__(message)
        self.repairs = tuple(repairs)


@dataclass(frozen=True, slots=True)
class Repair:
    """One change: of which kind, where, from what to what, and how large (for sorting; 1 is 100 %)."""

    kind: str
    place: str
    change: str
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Mimic:
    """A joint that shall follow another: ``q[joint] = ratio * q[leader] + offset``."""

    joint: str
    leader: str
    ratio: float = 1.0
    offset: float = 0.0


def tell_repairs(source: str, repairs: Iterable[Repair], *, stacklevel: int = 3) -> None:
    """One :class:`Repaired` warning for each kind of change."""
    for message, group in repair_messages(repairs):
        warnings.warn(Repaired(f"{source}: repaired: {message}", group), stacklevel=stacklevel)


def repair_messages(repairs: Iterable[Repair], most: int = MOST_SHOWN) -> list[tuple[str, list[Repair]]]:
    """What was changed, one text and its changes for each kind; the largest ``most`` changes are spelt out."""
    kinds: dict[str, list[Repair]] = {}
    for repair in repairs:
        kinds.setdefault(repair.kind, []).append(repair)
    result = []
    for kind, group in kinds.items():
        ranked = sorted(group, key=lambda repair: -repair.size)
        shown = "; ".join(f"{repair.place}: {repair.change}" for repair in ranked[:most])
        more = f"; and {len(group) - most} more" if len(group) > most else ""
        result.append((f"{kind}: {shown}{more}", group))
    return result


def nearest_tensor(tensor: npt.ArrayLike) -> Array:
    """The inertia tensor that a body can have, nearest to this symmetric one.

    Nearest is the least sum of squares of the changed entries (the Frobenius norm), so the principal axes stay. A
    body's principal moments are sums of two of its three second moments, which are not negative; the nearest such
    moments are a non-negative least-squares problem.
    """
    symmetric = np.asarray(tensor, dtype=np.float64)
    symmetric = 0.5 * (symmetric + symmetric.T)
    scale = float(np.abs(symmetric).max())
    if scale == 0.0:
        return symmetric
    moments, axes = np.linalg.eigh(symmetric / scale)
    sums = 1.0 - np.eye(3)
    second, _ = nnls(sums, moments)
    nearest = axes @ np.diag(sums @ second) @ axes.T
    return np.asarray(0.5 * scale * (nearest + nearest.T))


def lightest_mass(tensor: Array) -> float:
    """Mass (kg) for an inertia without one: so light that its largest radius of gyration is 1 m."""
    return float(np.linalg.eigvalsh(tensor)[-1]) / LARGEST_GYRATION**2


def ball(mass: float) -> Inertia:
    """A ball of water: what stands in for a body of which only the mass is known."""
    radius = (3.0 * mass / (4.0 * pi * STAND_IN_DENSITY)) ** (1.0 / 3.0)
    return Inertia(mass, tensor=0.4 * mass * radius**2 * np.eye(3))


def unresisted(bodies: Sequence[Body], joints: Sequence[Joint]) -> list[str]:
    """Names of the bodies that a joint moves without any mass or rotor to resist it."""
    children: dict[str, list[Joint]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint)
    mass = {body.name: body.inertia.mass for body in bodies}
    carried = {joint.child for joint in joints}
    order = [body.name for body in bodies if body.name not in carried]
    for name in order:  # grows while it is walked: parents first
        order += [joint.child for joint in children.get(name, ())]
    light = set(order)
    for name in reversed(order):
        if mass.get(name, 0.0) > 0.0 or any(joint.child not in light for joint in children.get(name, ())):
            light.discard(name)
    return [joint.child for joint in joints if joint.child in light and joint.rotor is None]


def mimic_coupling(robot: Robot, mimic: Mimic) -> Coupling:
    """The spring and damper that let a joint follow another: 100 Hz and critically damped at a generic configuration.

    With ``d`` the deflection, ``1 / m = w^T H^-1 w`` for its gradient ``w`` is the inertia ``m`` that resists it.
    """
    direction = np.zeros(robot.dofs)
    direction[6 + robot.joint_index(mimic.joint)] = 1.0
    direction[6 + robot.joint_index(mimic.leader)] -= mimic.ratio
    response = np.linalg.lstsq(joint_space_inertia(robot), direction, rcond=None)[0]
    inertia = 1.0 / float(direction @ response)
    rate = 2.0 * pi * MIMIC_FREQUENCY
    return Coupling(
        f"{mimic.joint}.mimic",
        mimic.joint,
        mimic.leader,
        stiffness=inertia * rate**2,
        damping=2.0 * inertia * rate,
        ratio=mimic.ratio,
        rest=mimic.offset,
    )
