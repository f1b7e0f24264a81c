"""Forward sweeps: how every body moves, and the wrenches its motion needs.

Everything in body axes. Accelerations inside are those of points in space: with a turning body's matrix

    K = [dw] + [w][w]        (w, dw: angular velocity and acceleration, [.]: cross product matrix)

the point at r of a body has the acceleration a + K r, a being that of the origin, and the body needs the force
m a + K h and the moment h x a + integral of r x K r dm, h being its first moment of mass. No linear velocity enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

from spacearm.mechanics.spatial import SX, Spatial, scale_spatial, spatial
from spacearm.mechanics.tree import Placement, Tree


@dataclass(frozen=True)
class Velocities:
    """Twist of every body (body axes), and the angular momentum along its axis of every joint's rotor."""

    twist: list[Spatial]
    rotor_momentum: list[SX | None]


def velocities(tree: Tree, placements: list[Placement], velocity: SX, rotor: SX) -> Velocities:
    """Motion of every body in a state (placements, generalised velocity)."""
    twist = [spatial(velocity[:6])]
    rotor_momentum: list[SX | None] = []
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        inherited = place.twist_to_child(twist[joint.parent])
        twist.append(inherited.plus(scale_spatial(joint.subspace, velocity[6 + i])))
        rotor_momentum.append(tree.rotor_momentum(i, inherited.angular, velocity[6 + i], rotor))
    return Velocities(twist, rotor_momentum)


class BodyMotion(NamedTuple):
    """How a body moves: angular velocity and acceleration, acceleration of its origin, the matrix K."""

    angular_velocity: SX
    angular_acceleration: SX
    linear_acceleration: SX
    matrix: SX

    def wrench(self, parameters: SX) -> Spatial:
        """Wrench at the origin of a rigid body with these ten parameters; linear in them.

        The integral of r x K r dm is written in the moments of inertia; its terms in w alone are w x I w.
        """
        mass, first = parameters[0], parameters[1:4]
        # Entries of K are reused where they occur (k[1, 0] = dw_z + x y and so on): Euler's equations with fewer
        # operations than I dw + w x I w.
        # The parameters xy, xz and yz are entries of the tensor, that is minus the integrals of products: hence the
        # signs.
        xx, yy, zz, xy, xz, yz = ca.vertsplit(parameters[4:10])
        (x, y, z), rate, k = ca.vertsplit(self.angular_velocity), self.angular_acceleration, self.matrix
        moment = ca.vertcat(
            xx * rate[0] + (zz - yy) * (y * z) + xz * k[1, 0] - xy * k[2, 0] + yz * (y * y - z * z),
            yy * rate[1] + (xx - zz) * (z * x) + xy * k[2, 1] - yz * k[0, 1] + xz * (z * z - x * x),
            zz * rate[2] + (yy - xx) * (x * y) + yz * k[0, 2] - xz * k[1, 2] + xy * (x * x - y * y),
        )
        return Spatial(mass * self.linear_acceleration + k @ first, ca.cross(first, self.linear_acceleration) + moment)


def acceleration_matrix(angular_velocity: SX, angular_acceleration: SX) -> SX:
    """Matrix K = [dw] + [w][w]: a point at p of a rotating body has the acceleration K p relative to the origin."""
    x, y, z = ca.vertsplit(angular_velocity)
    return ca.skew(angular_acceleration) + ca.blockcat(
        [
            [-(y * y + z * z), x * y, x * z],
            [x * y, -(z * z + x * x), y * z],
            [x * z, y * z, -(x * x + y * y)],
        ]
    )


def motions(tree: Tree, placements: list[Placement], velocity: SX, acceleration: SX) -> list[BodyMotion]:
    """The motion of every body at this state with this generalised acceleration."""
    w, dw = velocity[3:6], acceleration[3:6]
    # The rate of components in turning axes plus w x v is the acceleration in space. No linear velocity is needed
    # below.
    result = [BodyMotion(w, dw, acceleration[:3] + ca.cross(w, velocity[:3]), acceleration_matrix(w, dw))]
    for i, (joint, place) in enumerate(zip(tree.joints, placements, strict=True)):
        parent, axis = result[joint.parent], joint.subspace
        rate, rate_rate = velocity[6 + i], acceleration[6 + i]
        inherited, own = place.to_child(parent.angular_velocity), axis.angular * rate
        w = inherited + own
        # The joint's own angular velocity is carried round by the parent: hence the product of both.
        dw = place.to_child(parent.angular_acceleration) + ca.cross(inherited, own) + axis.angular * rate_rate
        # A slide that turns: once because its arm grows, once because its direction turns.
        sliding = axis.linear * rate_rate + 2 * ca.cross(w, axis.linear * rate)
        matrix = acceleration_matrix(w, dw)
        # Points of the axis move alike with both bodies: up to it with the parent, along it with the child.
        linear = place.to_child(parent.linear_acceleration + parent.matrix @ place.arm) + matrix @ place.along + sliding
        result.append(BodyMotion(w, dw, linear, matrix))
    return result


@dataclass(frozen=True)
class InertialWrenches:
    """Wrenches and torques that a motion needs, before any is passed on to a parent.

    ``body``: on every body, at its origin; ``carrier``: on the parent of every joint that carries a rotor, at the
    child's origin in child axes; ``effort`` (6 + n): what the rotors need of their own degrees of freedom.
    """

    body: list[Spatial]
    carrier: list[Spatial | None]
    effort: SX


def inertial_wrenches(
    tree: Tree, placements: list[Placement], velocity: SX, acceleration: SX, inertia: SX, rotor: SX
) -> InertialWrenches:
    """Wrenches for this generalised acceleration at this state."""
    motion = motions(tree, placements, velocity, acceleration)
    carrier: list[Spatial | None] = [None] * tree.n
    effort = ca.SX.zeros(6 + tree.n)
    for i, joint in enumerate(tree.joints):
        parent, down = motion[joint.parent], placements[i].to_child
        rotor_momentum = tree.rotor_momentum(i, down(parent.angular_velocity), velocity[6 + i], rotor)
        torque = tree.rotor_momentum(i, down(parent.angular_acceleration), acceleration[6 + i], rotor)
        if rotor_momentum is None or torque is None:
            continue
        effort[6 + i] = joint.ratio * torque
        # The rotor's own turning up, and what it takes to turn its spinning axis.
        axis = joint.spin_axis
        carrier[i] = Spatial(
            ca.SX.zeros(3), axis * torque + ca.cross(motion[i + 1].angular_velocity, axis) * rotor_momentum
        )
    body = [motion[b].wrench(inertia[10 * b : 10 * b + 10]) for b in range(tree.bodies)]
    return InertialWrenches(body, carrier, effort)
