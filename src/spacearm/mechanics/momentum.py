"""Momentum, mass centre, kinetic energy."""

from __future__ import annotations

import casadi as ca

from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.spatial import SX, Spatial, dot, rigid_inertia
from spacearm.mechanics.sweep import velocities
from spacearm.mechanics.tree import Tree


# A momentum shifts between origins as a wrench does: the moment takes arm x linear part. So each body's momentum is
# taken at its own origin, in its own axes, and one sweep from the tips to the base adds them up (R. Featherstone, Rigid
# Body Dynamics Algorithms, 2008, chapter 2). The base's pose does not enter: far from the world's origin the angular
# part would be a difference of large numbers. The world's axes and other points come last, in momentum_about.
def momentum(tree: Tree, q: SX, velocity: SX, inertia: SX, rotor: SX) -> Spatial:
    """Momentum of the whole robot at the base's origin, base axes (wrench-like: linear, then angular)."""
    placements = tree.placements(q)
    motion = velocities(tree, placements, velocity, rotor)
    own = [rigid_inertia(inertia[10 * b : 10 * b + 10]).times(motion.twist[b]) for b in range(tree.bodies)]
    for i in reversed(range(tree.n)):
        joint, place, subtree = tree.joints[i], placements[i], own[i + 1]
        if joint.rotor is not None:
            # A rotor's mass, and its inertia across the axis, are part of its carrier's. Only the momentum of its spin
            # is added, a free vector: it has no arm.
            subtree = subtree.plus(Spatial(ca.SX.zeros(3), joint.spin_axis * motion.rotor_momentum[i]))
        own[joint.parent] = own[joint.parent].plus(place.wrench_to_parent(subtree))
    return own[0]


def momentum_about(at_base: Spatial, base: SymbolicPose, point: SX) -> SX:
    """Linear momentum and angular momentum about ``point`` (6), world axes, from the momentum at the base's origin."""
    linear = base.rotation @ at_base.linear
    return ca.vertcat(linear, base.rotation @ at_base.angular + ca.cross(base.origin - point, linear))


def centre_of_mass(tree: Tree, q: SX, inertia: SX) -> tuple[SX, SX]:
    """Total mass, and mass centre of the whole robot in the base frame."""
    placements = tree.placements(q)
    # First moments m c and not mass centres: they add up without a division, and a massless body needs no exception.
    first = [inertia[10 * b + 1 : 10 * b + 4] for b in range(tree.bodies)]
    mass = [inertia[10 * b] for b in range(tree.bodies)]
    for i in reversed(range(tree.n)):
        parent, place = tree.joints[i].parent, placements[i]
        mass[parent] = mass[parent] + mass[i + 1]
        first[parent] = first[parent] + place.to_parent(first[i + 1]) + place.origin() * mass[i + 1]
    return mass[0], first[0] / mass[0]


def kinetic_energy(tree: Tree, q: SX, velocity: SX, inertia: SX, rotor: SX) -> SX:
    """Kinetic energy of bodies and rotors."""
    motion = velocities(tree, tree.placements(q), velocity, rotor)
    energy = sum(
        (
            0.5 * dot(rigid_inertia(inertia[10 * b : 10 * b + 10]).times(motion.twist[b]), motion.twist[b])
            for b in range(tree.bodies)
        ),
        ca.SX(0),
    )
    for joint, rotor_momentum in zip(tree.joints, motion.rotor_momentum, strict=True):
        if rotor_momentum is not None:
            # h^2 / 2 I with h the whole spin, the carrier's share about the axis included: I is in no body's inertia.
            energy += 0.5 * rotor_momentum * rotor_momentum / rotor[joint.rotor]
    return energy
