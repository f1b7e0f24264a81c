"""The ten numbers of a body: names, the same body seen from another frame, and the tables' form (mass, com, I_com).

The linear form is (m, hx, hy, hz, Ixx, Iyy, Izz, Ixy, Ixz, Iyz) with h = m c the first moment (kg m) and the tensor
about the body frame's origin (kg m2), body axes; products are tensor entries. The plain form is (m, cx, cy, cz, Ixx,
...) with the mass centre (m) and the tensor about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.model import Pose, Robot
from spacearm.model.fuse import joint_pose
from spacearm.model.parts import symmetric_six, tensor_of
from spacearm.optimise.consider import FixedNumber
from spacearm.typing import Array

#: Linear parameters of a body, in order, and their units.
LINEAR = ("m", "hx", "hy", "hz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
LINEAR_UNITS = ("kg", *["kg m"] * 3, *["kg m2"] * 6)
#: The form of the tables: mass, mass centre, tensor about the mass centre.
PLAIN = ("mass", "cx", "cy", "cz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
PLAIN_UNITS = ("kg", *["m"] * 3, *["kg m2"] * 6)


@dataclass(frozen=True, slots=True)
class Label:
    """One of the 10(n + 1) linear parameters."""

    body: str
    symbol: str
    unit: str

    @property
    def text(self) -> str:
        return f"{self.symbol}({self.body})"


def labels(robot: Robot) -> tuple[Label, ...]:
    """Labels of all linear parameters in the order of ``robot.inertia_parameters.ravel()``."""
    return tuple(
        Label(body.name, symbol, unit)
        for body in robot.bodies
        for symbol, unit in zip(LINEAR, LINEAR_UNITS, strict=True)
    )


def placements(robot: Robot, joints: npt.ArrayLike) -> list[Pose]:
    """Pose of every body's frame in the base frame at these joint positions."""
    q = np.asarray(joints, dtype=np.float64)
    poses = [Pose()]
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        poses.append(poses[parent] @ joint.placement @ joint_pose(joint.kind, joint.axis, float(q[i])))
    return poses


def plain_of(linear: npt.ArrayLike) -> Array:
    """Mass, mass centre and tensor about it (..., 10), from linear parameters (..., 10)."""
    p = np.asarray(linear, dtype=np.float64)
    mass = p[..., :1]
    c = p[..., 1:4] / mass
    square = np.sum(c * c, axis=-1)[..., None, None] * np.eye(3) - c[..., :, None] * c[..., None, :]
    return np.concatenate([mass, c, symmetric_six(tensor_of(p[..., 4:]) - mass[..., None] * square)], axis=-1)


def linear_of(plain: npt.ArrayLike) -> Array:
    """Linear parameters (..., 10) from mass, mass centre and tensor about it (..., 10)."""
    p = np.asarray(plain, dtype=np.float64)
    mass, c = p[..., :1], p[..., 1:4]
    square = np.sum(c * c, axis=-1)[..., None, None] * np.eye(3) - c[..., :, None] * c[..., None, :]
    return np.concatenate([mass, mass * c, p[..., 4:] + symmetric_six(mass[..., None] * square)], axis=-1)


def plain_jacobian(linear: npt.ArrayLike) -> Array:
    """Derivative (10, 10) of :func:`plain_of` for one body."""
    p = np.asarray(linear, dtype=np.float64)
    mass, h = p[0], p[1:4]
    c = h / mass
    full = np.zeros((10, 10))
    full[0, 0] = 1.0
    # From c = h / m: dc/dm = -h / m^2 = -c / m.
    full[1:4, 0] = -c / mass
    full[1:4, 1:4] = np.eye(3) / mass
    full[4:, 4:] = np.eye(6)
    # tensor about the mass centre = I - (|h|^2 E - h h^T) / m
    full[4:, 0] = symmetric_six((c @ c) * np.eye(3) - np.outer(c, c))
    for k in range(3):
        unit = np.eye(3)[k]
        full[4:, 1 + k] = -symmetric_six(2.0 * c[k] * np.eye(3) - np.outer(unit, c) - np.outer(c, unit))
    return full


def typical_sizes(robot: Robot) -> Array:
    """Size of each linear parameter, 10(n + 1): what rank and condition numbers are scaled by.

    From each body's mass and a length: the largest of its radius of gyration and the distances from its frame to its
    joints and mass centre, at least a tenth of the robot's largest. Bodies without mass are given the smallest mass of
    the others.
    """
    # Columns of a regressor have units of mass, first moment and moment of inertia: without these sizes rank and
    # condition number would depend on whether lengths are in m or mm.
    masses = np.array([body.inertia.mass for body in robot.bodies])
    positive = masses[masses > 0]
    masses = np.where(masses > 0, masses, positive.min() if positive.size else 1.0)
    traces = robot.inertia_parameters[:, 4:7].sum(axis=1)  # about the frame, so that the mass centre counts
    arms = np.sqrt(np.maximum(0.5 * traces, 0.0) / masses)
    for joint, parent in zip(robot.joints, robot.parents, strict=True):
        arms[parent] = max(arms[parent], float(np.linalg.norm(joint.placement.translation)))
    largest = float(arms.max()) or 1.0
    # A body whose frame is at its own mass centre has no arm of its own; with next to none its parameters would seem
    # weak.
    arms = np.maximum(arms, 0.1 * largest)
    ones = np.ones(3)
    return np.concatenate(
        [
            np.concatenate([[m], m * a * ones, m * a * a * ones, m * a * a * ones])
            for m, a in zip(masses, arms, strict=True)
        ]
    )


def known_inertia_numbers(
    robot: Robot, known: Iterable[int], deviations: Mapping[str, float]
) -> dict[int, FixedNumber]:
    """Places of known linear parameters that are uncertain, each with its standard deviation.

    ``deviations``: by the body's name, or ``nominal`` for all others, as shares of the parameters' typical sizes.
    """
    sizes, all_labels, common, found = typical_sizes(robot), labels(robot), deviations.get("nominal", 0.0), {}
    for k in known:
        label = all_labels[k]
        share = deviations.get(label.body, common)
        if share > 0.0:
            found[k] = FixedNumber(label.text, float(share * sizes[k]), label.unit)
    return found
