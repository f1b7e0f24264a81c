"""Fields of acceleration and the wrenches that they exert on rigid bodies: gravity, Hill's equations."""

from __future__ import annotations

import casadi as ca

from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.spatial import SX


def gravity_wrench(pose: SymbolicPose, inertia: SX, gravity: SX) -> SX:
    """Force and moment (6) at a body's origin, world axes, by a uniform field (m/s2, world axes).

    ``inertia``: the body's ten parameters (m, m c, Ixx, Iyy, Izz, Ixy, Ixz, Iyz).
    """
    # Uniform gravity acts at the mass centre: its moment about the origin is (R m c) x g.
    return ca.vertcat(inertia[0] * gravity, ca.cross(pose.rotation @ inertia[1:4], gravity))


def linear_gravity_wrench(pose: SymbolicPose, inertia: SX, gravity: SX, gradient: SX) -> SX:
    """The same in a field that changes linearly from place to place; ``gravity`` at the world's origin.

    ``gradient``: xx, yy, zz, xy, xz, yz of its symmetric gradient, 1/s2.
    """
    xx, yy, zz, xy, xz, yz = ca.vertsplit(gradient)
    slope = ca.blockcat([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return _linear_wrench(pose, inertia, gravity + slope @ pose.origin, slope)


def hill_wrench(pose: SymbolicPose, velocity: SX, angular_velocity: SX, inertia: SX, rate: SX) -> SX:
    """Force and moment (6) at a body's origin in the frame of a circular orbit of mean motion ``rate``, rad/s.

    World axes are x radial, y along the orbit, z along its normal, and turn with it. The apparent acceleration of a
    particle is ``K r - 2 W x v`` with ``K = rate^2 diag(3, 0, -1)`` and ``W = rate z`` (W. H. Clohessy and R. S.
    Wiltshire, J. Aerospace Sci. 27(9), 1960). It is linear in place and velocity, so that its integral over a rigid
    body takes the ten parameters alone: gravity gradient and gyroscopic moments are within it.
    """
    tide, rotating = _orbit(rate)
    # The field at the body's origin, and its gradient over the body. A point's velocity has a part w x r, so that the
    # Coriolis term has a gradient as well: the gyroscopic moment of a body that turns in a turning frame.
    at_origin = tide @ pose.origin - 2 * rotating @ velocity
    return _linear_wrench(pose, inertia, at_origin, tide - 2 * rotating @ ca.skew(angular_velocity))


def tidal_wrench(pose: SymbolicPose, inertia: SX, radial: SX) -> SX:
    """Force and moment (6) at a body's origin near a point on a circular orbit, in axes that do not rotate.

    ``radial`` (3): from the Earth to that point, the world's origin, of length n (mean motion, rad/s). What remains of
    gravity beside that at the origin is ``(3 radial radial^T - n^2) r``, to first order.
    """
    tide = _tide(radial)
    return _linear_wrench(pose, inertia, tide @ pose.origin, tide)


def _tide(radial: SX) -> SX:
    return 3 * radial @ radial.T - ca.sumsqr(radial) * ca.SX.eye(3)


def _linear_wrench(pose: SymbolicPose, inertia: SX, at_origin: SX, gradient: SX) -> SX:
    """Wrench on a body in a field of accelerations ``at_origin + gradient r``, r from the body's origin."""
    first = pose.rotation @ inertia[1:4]
    xx, yy, zz, xy, xz, yz = ca.vertsplit(inertia[4:10])
    tensor = ca.blockcat([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    # The integral of r r^T dm is tr(I) / 2 - I, since I is the integral of (r.r) - r r^T.
    second = pose.rotation @ (0.5 * ca.trace(tensor) * ca.SX.eye(3) - tensor) @ pose.rotation.T  # of r r^T dm
    force = inertia[0] * at_origin + gradient @ first
    return ca.vertcat(force, ca.cross(first, at_origin) + _moment(gradient @ second))


def hill_rotor_moment(axis: SX, inertia: SX, angular_velocity: SX, rate: SX) -> SX:
    """Moment (3) on the carrier of a rotor of this axial inertia, which no body has, turning at this velocity."""
    tide, rotating = _orbit(rate)
    # A rotor adds its axial inertia I only, a tensor I a a^T; of that tr / 2 - tensor, as of a body.
    second = inertia * (0.5 * ca.SX.eye(3) - axis @ axis.T)
    return _moment((tide - 2 * rotating @ ca.skew(angular_velocity)) @ second)


def _orbit(rate: SX) -> tuple[SX, SX]:
    """K, and the matrix of W x."""
    return rate**2 * ca.diag(ca.SX([3, 0, -1])), ca.skew(ca.vertcat(0, 0, rate))


def _moment(spread: SX) -> SX:
    """Integral of r x (G r) over a body, from G times the integral of r r^T."""
    return ca.vertcat(spread[2, 1] - spread[1, 2], spread[0, 2] - spread[2, 0], spread[1, 0] - spread[0, 1])
