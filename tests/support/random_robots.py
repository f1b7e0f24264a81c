"""Random robots and random states, the same for the same seed on every machine.

Two kinds of geometry, because symbolic code treats them differently: ``skew`` (placements, axes and inertias in general
position) and ``aligned`` (rotations that are signed permutations, axes along x, y or z of either sign, offsets with
zeros, as a Denavit-Hartenberg table gives). ``mixed`` draws one of the two for each joint.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal

import numpy as np

from spacearm.model import Body, Coupling, Frame, Inertia, Joint, Pose, Robot, Rotor, Spring
from spacearm.typing import Array

Geometry = Literal["skew", "aligned", "mixed"]


@dataclass(frozen=True)
class RandomState:
    """``position`` (m, world), ``quaternion`` (w, x, y, z; base to world), ``joints``, ``velocity`` (nu)."""

    position: Array
    quaternion: Array
    joints: Array
    velocity: Array

    @property
    def flat(self) -> Array:
        """(position, quaternion, joints, velocity) in one vector of 7 + n + 6 + n numbers."""
        return np.concatenate([self.position, self.quaternion, self.joints, self.velocity])


def random_rotation(rng: np.random.Generator) -> Array:
    """A rotation matrix, uniform over all attitudes."""
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return q


def signed_permutations() -> list[Array]:
    """The 24 rotations that map axes onto axes."""
    found = []
    for order in permutations(range(3)):
        for signs in product((1.0, -1.0), repeat=3):
            matrix = np.zeros((3, 3))
            matrix[range(3), order] = signs
            if np.linalg.det(matrix) > 0:
                found.append(matrix)
    return found


def point_mass_inertia(rng: np.random.Generator, mass: float, size: float, offset: float) -> Inertia:
    """Inertia of seven random point masses: skew, and physically possible by construction."""
    points = rng.normal(size=(7, 3)) * size * rng.uniform(0.3, 1.0, size=3) + rng.normal(size=3) * offset
    weights = rng.uniform(0.2, 1.0, size=7)
    weights *= mass / weights.sum()
    com = weights @ points / mass
    tensor = np.zeros((3, 3))
    for weight, arm in zip(weights, points - com, strict=True):
        tensor += weight * ((arm @ arm) * np.eye(3) - np.outer(arm, arm))
    return Inertia(mass, com, 0.5 * (tensor + tensor.T))


def _aligned_inertia(rng: np.random.Generator, mass: float, size: float, offset: float) -> Inertia:
    """A box with its mass centre on one axis: many zeros, as drawings give them."""
    sides = rng.uniform(0.3, 1.0, size=3) * size
    moments = mass / 3.0 * (np.sum(sides**2) - sides**2)
    com = np.zeros(3)
    com[rng.integers(3)] = rng.normal() * offset
    return Inertia(mass, com, np.diag(moments))


def random_robot(
    seed: int,
    joints: int | None = None,
    *,
    tree: bool = True,
    prismatic: float = 0.25,
    geometry: Geometry = "skew",
    rotors: float = 0.0,
    massless: float = 0.0,
    flexible: float = 0.0,
    passive: bool = False,
    frames: int = 2,
) -> Robot:
    """A robot drawn from ``seed``.

    Args:
        joints: number of joints without those that ``flexible`` adds; drawn from 1 to 12 when not given.
        tree: branch at random; otherwise one chain.
        prismatic: fraction of prismatic joints.
        rotors: fraction of revolute joints with a rotor.
        massless: fraction of the bodies inside the tree (with exactly one child) that have no mass.
        flexible: fraction of revolute joints that get a motor joint beside them (massless child, rotor, coupling).
        passive: springs and dampers on about half the joints.
        frames: number of named frames, on random bodies.
    """
    rng = np.random.default_rng([seed, 20240611])
    n = int(rng.integers(1, 13)) if joints is None else joints
    parents = [int(rng.integers(0, i + 1)) if tree else i for i in range(n)]
    rotations = signed_permutations()

    kinds = ["prismatic" if rng.random() < prismatic else "revolute" for _ in range(n)]
    is_skew = [geometry == "skew" or (geometry == "mixed" and rng.random() < 0.5) for _ in range(n)]
    empty = _massless_bodies(rng, parents, massless, longest=2 if geometry == "skew" else 1)

    bodies = [Body("base", point_mass_inertia(rng, float(rng.uniform(20.0, 80.0)), 0.6, 0.2))]
    parts: list[Joint] = []
    couplings: list[Coupling] = []
    for i, (parent, kind) in enumerate(zip(parents, kinds, strict=True)):
        mass, size, offset = float(rng.uniform(1.0, 15.0)), 0.3, 0.3
        shape = point_mass_inertia if is_skew[i] else _aligned_inertia
        inertia = shape(rng, mass, size, offset)
        bodies.append(Body(f"link{i + 1}", Inertia.massless() if empty[i] else inertia))
        if is_skew[i]:
            placement = Pose(random_rotation(rng), rng.normal(size=3) * 0.4)
            axis = rng.normal(size=3)
            axis /= np.linalg.norm(axis)
        else:
            translation = rng.normal(size=3) * 0.5 * (rng.random(3) < 0.5)
            placement = Pose(rotations[rng.integers(24)], translation)
            axis = np.zeros(3)
            axis[rng.choice(3, p=[0.2, 0.2, 0.6])] = rng.choice([1.0, -1.0], p=[0.3, 0.7])
            if parent > 0 and empty[parent - 1] and abs(axis @ placement.rotation.T @ parts[parent - 1].axis) > 0.5:
                # Two joints on one line with nothing between them would move the same mass twice.
                axis = np.roll(axis, 1)
        rotor = None
        if kind == "revolute" and rng.random() < rotors:
            rotor = Rotor(float(rng.uniform(1e-4, 3e-3)), float(rng.choice([-60.0, 1.0, 30.0, 100.0])))
        spring = (
            Spring(float(rng.uniform(5.0, 60.0)), float(rng.normal() * 0.2)) if passive and rng.random() < 0.5 else None
        )
        damping = float(rng.uniform(0.1, 2.0)) if passive and rng.random() < 0.5 else 0.0
        parts.append(
            Joint(
                f"joint{i + 1}",
                kind,
                bodies[parent].name,
                f"link{i + 1}",
                placement,
                axis,
                spring,
                damping,
                rotor=rotor,
            )  # type: ignore[arg-type]
        )
    for joint in list(parts):
        if joint.kind == "revolute" and rng.random() < flexible:
            bodies.append(Body(f"{joint.name}_rotor", Inertia.massless()))
            motor = Rotor(float(rng.uniform(1e-4, 3e-3)), float(rng.choice([50.0, -80.0, 100.0])))
            parts.append(
                Joint(
                    f"{joint.name}_motor",
                    "revolute",
                    joint.parent,
                    f"{joint.name}_rotor",
                    joint.placement,
                    joint.axis,
                    rotor=motor,
                )
            )
            couplings.append(
                Coupling(
                    f"{joint.name}_gear",
                    joint.name,
                    f"{joint.name}_motor",
                    float(rng.uniform(50, 500)),
                    float(rng.uniform(0, 3)),
                    float(rng.choice([1.0, 0.9])),
                    float(rng.normal() * 0.05),
                )
            )
    places = [
        Frame(
            f"frame{k + 1}",
            bodies[int(rng.integers(0, n + 1))].name,
            Pose(random_rotation(rng), rng.normal(size=3) * 0.3),
        )
        for k in range(frames)
    ]
    return Robot(f"random{seed}", tuple(bodies), tuple(parts), tuple(places), couplings=tuple(couplings))


def _massless_bodies(rng: np.random.Generator, parents: list[int], fraction: float, longest: int) -> list[bool]:
    """Which links have no mass: only those with one child, and no more than ``longest`` in a row."""
    n = len(parents)
    runs = [0] * (n + 1)
    empty = [False] * n
    for i, parent in enumerate(parents):
        single = parents.count(i + 1) == 1
        if single and runs[parent] < longest and rng.random() < fraction:
            empty[i] = True
            runs[i + 1] = runs[parent] + 1
    return empty


def random_state(robot: Robot, rng: np.random.Generator, *, speed: float = 1.0) -> RandomState:
    """Any attitude and configuration (angles of a full turn, slides within 0.5 m), rates of about ``speed``."""
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    revolute = np.array([joint.kind == "revolute" for joint in robot.joints], dtype=bool)
    joints = np.where(revolute, rng.uniform(-np.pi, np.pi, size=robot.n), rng.uniform(-0.5, 0.5, size=robot.n))
    return RandomState(rng.normal(size=3), quaternion, joints, rng.normal(size=robot.dofs) * speed)
