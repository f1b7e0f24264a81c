"""Degrees of freedom that nothing resists: motions without kinetic energy.

A point mass on its own joint's axis, a thin rod that turns about itself, a base that is a point: the mass matrix is
singular there, and such a degree of freedom can be driven but not left free. A robot may be built so; whoever leaves
the degree of freedom free has to be stated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from spacearm.errors import ModelError
from spacearm.model.parts import Inertia, Joint, skew
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_about
from spacearm.typing import Array

#: A motion has no kinetic energy when the root of its energy is below this, relative to that of the degrees of freedom
#: it is made of: rounding leaves some 1e-16 of a moment of inertia, and so 1e-8 of its root.
NEGLIGIBLE = 1e-7
#: A degree of freedom takes part in a motion when its share is larger than this.
SHARE = 1e-5
#: No lever counts as shorter than this, relative to the size of the robot: times NEGLIGIBLE it is the rounding of a
#: position, below which a mass lies on the axis.
ROUNDING = 1e-8
#: Joint positions (rad, m) for which no axes are parallel that need not be: multiples of an irrational number.
_STEP = 0.5 * (np.sqrt(5.0) - 1.0)


def massless_dofs(robot: Robot, driven: Iterable[str] = ()) -> tuple[str, ...]:
    """Names of the degrees of freedom that take part in a motion without kinetic energy, at a generic configuration.

    ``driven`` are degrees of freedom that do not move of their own: they are left out. Bodies and rotors count; springs
    and friction do not, since they are forces.
    """
    return _find_massless(robot, frozenset(robot.dof_index(name) for name in driven))


@lru_cache(maxsize=256)
def _find_massless(robot: Robot, held: frozenset[int]) -> tuple[str, ...]:
    free = [index for index in range(robot.dofs) if index not in held]
    if not free:
        return ()
    # A part of the columns depends on each other only if all do: as a rule one look serves all that phases hold.
    if held and not _find_massless(robot, frozenset()):
        return ()
    root, most = _generic_energy_root(robot)
    root, most = root[:, free], most[free]
    sizes = np.linalg.norm(root, axis=0)
    # Each degree of freedom is measured by its own size, so that a light wrist on a heavy satellite is not taken for
    # nothing; what is left by rounding of the most that it could be is nothing.
    scaled = np.where(sizes > NEGLIGIBLE * most, root / np.where(sizes > 0.0, sizes, 1.0), 0.0)
    # Singular values of the root and not eigenvalues of the mass matrix W^T W: squaring would halve the digits, and
    # nothing could be told from rounding. QR first, because W has six rows for each body.
    _, values, directions = np.linalg.svd(np.linalg.qr(scaled, mode="r"))
    share = np.linalg.norm(directions[values < NEGLIGIBLE], axis=0)
    return tuple(robot.dof_names[free[index]] for index in np.flatnonzero(share > SHARE))


@lru_cache(maxsize=64)
def _generic_energy_root(robot: Robot) -> tuple[Array, Array]:
    """One for all that is held: phases of a run differ in that alone."""
    return _energy_root(robot)


def massless_message(names: Iterable[str]) -> str:
    """The report about these degrees of freedom."""
    shown = ", ".join(repr(name) for name in names)
    return f"nothing resists {shown}: there is no inertia about this axis, or these together move no mass"


def check_massless(robot: Robot, driven: Iterable[str] = ()) -> None:
    """A :class:`ModelError` that names what cannot be left free, if there is such."""
    names = massless_dofs(robot, driven)
    if names:
        raise ModelError(
            massless_message(names),
            place=f"robot {robot.name!r}",
            hint="give the bodies inertia or the joints a rotor, or lock or drive them",
        )


def joint_space_inertia(robot: Robot, joints: Array | None = None) -> Array:
    """The mass matrix at these joint positions, (6 + n, 6 + n); at a generic configuration where none are given."""
    root, _ = _energy_root(robot, joints)
    return np.asarray(root.T @ root)


#: Of the bodies of a robot: rotor energies' roots, rotations to base axes, origins in base axes, and how these move and
#: the bodies turn (base axes).
_Motions: TypeAlias = tuple[list[Array], list[Array], list[Array], list[Array], list[Array]]


@lru_cache(maxsize=64)
def _generic_motions(joints: tuple[Joint, ...], parents: tuple[int, ...]) -> _Motions:
    """At a generic configuration: the same for robots that differ in their bodies alone."""
    return _motions(joints, parents, 0.3 + np.arange(1, len(joints) + 1) * _STEP % 1.0)


def _motions(joints: tuple[Joint, ...], parents: tuple[int, ...], positions: Array) -> _Motions:
    rows = []
    base = np.eye(6, 6 + len(joints))
    rotations, origins, linear, angular = [np.eye(3)], [np.zeros(3)], [base[:3]], [base[3:]]
    for index, (joint, parent) in enumerate(zip(joints, parents, strict=True)):
        frame, revolute = rotations[parent] @ joint.placement.rotation, joint.kind == "revolute"
        axis, position = frame @ joint.axis, float(positions[index])
        arm = rotations[parent] @ joint.placement.translation + (0.0 if revolute else position) * axis
        rotating = np.array(angular[parent])
        moving = linear[parent] - skew(arm) @ rotating
        if joint.rotor is not None:
            # A rotor turns with its carrier about the axis and with its joint times the gear ratio.
            angular_rate = axis @ angular[parent]
            angular_rate[6 + index] += joint.rotor.ratio
            rows.append(np.sqrt(joint.rotor.inertia) * angular_rate[None, :])
        (rotating if revolute else moving)[:, 6 + index] += axis
        rotations.append(frame @ rotation_about(joint.axis, position) if revolute else frame)
        origins.append(origins[parent] + arm)
        linear.append(moving)
        angular.append(rotating)
    return rows, rotations, origins, linear, angular


def _energy_root(robot: Robot, joints: Array | None = None) -> tuple[Array, Array]:
    """A matrix W with kinetic energy ``|W nu|^2 / 2`` at ``joints`` or a generic configuration; nu as in
    :class:`Robot`.

    Also, for each degree of freedom, the size that its column would have if all distances and moments counted in full.
    """
    tree = robot.joints, robot.parents
    found = _generic_motions(*tree) if joints is None else _motions(*tree, joints)
    rotors, rotations, origins, linear, angular = found
    rows = [*rotors]
    for body, rotation, moving, rotating in zip(robot.bodies, rotations, linear, angular, strict=True):
        centre = moving - skew(rotation @ body.inertia.com) @ rotating
        rows += [np.sqrt(body.inertia.mass) * centre, _root(body.inertia) @ rotation.T @ rotating]
    centres = [(o + r @ body.inertia.com).tolist() for o, r, body in zip(origins, rotations, robot.bodies, strict=True)]
    places = [origin.tolist() for origin in origins]
    reach = max(math.hypot(*place) for place in [*centres, *places])
    squares = np.concatenate([np.full(3, robot.mass), np.zeros(robot.dofs - 3)])
    for index, body in enumerate(robot.bodies):
        moment, mass = float(np.trace(body.inertia.tensor)), body.inertia.mass
        # Each joint between the body and the base could at most move all of its mass at the full distance.
        current = index
        while True:  # from the body down to the base
            lever = math.dist(centres[index], places[current]) + ROUNDING * reach
            if current == 0:
                squares[3:6] += mass * lever**2 + moment
                break
            revolute = robot.joints[current - 1].kind == "revolute"
            squares[5 + current] += mass * lever**2 + moment if revolute else mass
            current = robot.parents[current - 1]
    for index, joint in enumerate(robot.joints):
        if joint.rotor is not None:
            squares[6 + index] += joint.rotor.inertia * joint.rotor.ratio**2
    return np.concatenate(rows), np.sqrt(squares)


@lru_cache(maxsize=256)
def _root(inertia: Inertia) -> Array:
    """A matrix whose square is the tensor about the mass centre; moments that are zero but for rounding are zero."""
    moments, axes = np.linalg.eigh(inertia.tensor)
    moments = np.where(moments > 1e-14 * max(moments[-1], 0.0), moments, 0.0)
    return np.asarray(np.sqrt(moments)[:, None] * axes.T)
