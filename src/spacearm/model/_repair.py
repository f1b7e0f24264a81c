"""Repairs of robots that cannot exist, and in which sense each is the least change.

The functions here know no file format. :class:`~spacearm.model.robot_import.RobotImport` calls them for a reader where
the caller has asked for repair, and reports every change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import pi

import numpy as np
import numpy.typing as npt

from spacearm.model.massless import joint_space_inertia
from spacearm.model.parts import Body, Coupling, Inertia, Joint
from spacearm.model.robot import Robot, bodies_with_mass
from spacearm.typing import Array

#: A body that has a moment of inertia but no mass gets the mass with which its largest radius of gyration is this, m:
#: lighter than any link with such an inertia, and heavy enough for accurate dynamics.
LARGEST_GYRATION = 1.0
#: Mass of a body that stands in where nothing resists its joint, as a share of the robot's mass.
STAND_IN_SHARE = 1e-3
#: A base without mass is made as heavy as the rest, so that neither moves as if the other were not there, whether its
#: file gives it an inertia or not; it has this mass (kg) where nothing else has any.
STAND_IN_BASE = 1.0
#: Density of the ball that stands in, kg/m3: water.
STAND_IN_DENSITY = 1000.0
#: A mimic joint becomes a spring and damper of this frequency (Hz), critically damped.
MIMIC_FREQUENCY = 100.0


@dataclass(frozen=True, slots=True)
class Mimic:
    """A joint that shall follow another: ``q[joint] = ratio * q[leader] + offset``; ``name`` of the constraint."""

    joint: str
    leader: str
    ratio: float = 1.0
    offset: float = 0.0
    name: str = ""


def nearest_tensor(tensor: npt.ArrayLike) -> Array:
    """The inertia tensor that a body can have, nearest to this symmetric one.

    Nearest is the least sum of squares of the changed entries (the Frobenius norm), so the principal axes stay. A
    body's principal moments are sums of two of its three second moments, which are not negative; the nearest such
    moments are a non-negative least-squares problem.
    """
    from scipy.optimize import nnls  # takes time to import, and is seldom needed

    symmetric = np.asarray(tensor, dtype=np.float64)
    symmetric = 0.5 * (symmetric + symmetric.T)
    scale = float(np.abs(symmetric).max())
    if scale == 0.0:
        return symmetric
    # Scaled to entries of order one: squares of the moments of a tiny body would underflow.
    moments, axes = np.linalg.eigh(symmetric / scale)
    # I_x = s_y + s_z and so on, with second moments s >= 0; these inequalities are the triangle inequality of the
    # principal moments.
    sums = 1.0 - np.eye(3)
    second, _ = nnls(sums, moments)
    nearest = axes @ np.diag(sums @ second) @ axes.T
    return np.asarray(0.5 * scale * (nearest + nearest.T))


def lightest_mass(tensor: Array) -> float:
    """Mass (kg) for an inertia without one: so light that its largest radius of gyration is 1 m."""
    return float(np.linalg.eigvalsh(tensor)[-1]) / LARGEST_GYRATION**2


def water_ball(mass: float) -> Inertia:
    """A ball of water: what stands in for a body of which only the mass is known."""
    radius = (3.0 * mass / (4.0 * pi * STAND_IN_DENSITY)) ** (1.0 / 3.0)
    return Inertia(mass, tensor=0.4 * mass * radius**2 * np.eye(3))


def base_with_mass(base: Body, mass: float) -> Body:
    """The base with this mass (kg); its inertia is the one that it has, or that of a ball of water."""
    tensor = base.inertia.tensor if np.any(base.inertia.tensor) else water_ball(mass).tensor
    return replace(base, inertia=Inertia(mass, base.inertia.com, tensor))


def find_bodies_without_inertia(bodies: Sequence[Body], joints: Sequence[Joint]) -> list[str]:
    """Names of the bodies that a joint moves without any mass or rotor to resist it."""
    heavy = bodies_with_mass(bodies, joints)
    return [joint.child for joint in joints if joint.child not in heavy and joint.rotor is None]


def mimic_coupling(robot: Robot, mimic: Mimic) -> Coupling:
    """The spring and damper that let a joint follow another: 100 Hz and critically damped at a generic configuration.

    With ``d`` the deflection, ``1 / m = w^T H^-1 w`` for its gradient ``w`` is the inertia ``m`` that resists it.
    """
    direction = np.zeros(robot.dofs)
    direction[6 + robot.joint_index(mimic.joint)] = 1.0
    direction[6 + robot.joint_index(mimic.leader)] -= mimic.ratio
    # Least squares and not a solve: the mass matrix may be singular where a joint moves no mass.
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
