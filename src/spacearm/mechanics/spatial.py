"""Spatial algebra on CasADi scalars: twists, wrenches, rotations, inertias.

Everything is written in components of a body's own axes. A twist is (linear, angular), a wrench (force, moment), both
taken at the origin of the frame. CasADi drops products with the constants 0 and 1 as they are written, so robots
whose axes and placements are aligned get short programs without further care here.

Spatial vectors are those of Featherstone (2008), chapter 2, but with the linear part first, and always at the frame's
own origin (body coordinates), so no global Pluecker transform appears. Inertias are kept as three 3 x 3 blocks and
rotations as a constant matrix times one rotation about a coordinate axis: both save operations that a dense 6 x 6
product would spend on known zeros and on symmetric entries. The count matters: expressions become straight-line machine
code, and each operation is executed in every step of the integration.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import casadi as ca
import numpy as np

from spacearm.typing import Array

SX: TypeAlias = Any  # casadi.SX has no type information

#: A number of a placement below this is a rounding error of a rotation by a right angle, not geometry.
ALIGNMENT_TOLERANCE = 1e-15


class Spatial(NamedTuple):
    """A twist (linear, angular) or a wrench (force, moment): two 3-vectors."""

    linear: SX
    angular: SX

    def plus(self, other: Spatial) -> Spatial:
        return Spatial(self.linear + other.linear, self.angular + other.angular)

    def stack(self) -> SX:
        return ca.vertcat(self.linear, self.angular)


def spatial(vector: SX) -> Spatial:
    """A 6-vector as linear and angular part."""
    return Spatial(vector[:3], vector[3:])


def dot(a: Spatial, b: Spatial) -> SX:
    """Power of a wrench on a twist (either order)."""
    return ca.dot(a.linear, b.linear) + ca.dot(a.angular, b.angular)


def scale_spatial(a: Spatial, factor: SX) -> Spatial:
    return Spatial(a.linear * factor, a.angular * factor)


def snap_entries(array: Array) -> Array:
    """The array with entries that are a right angle's rounding error as exact 0 or 1."""
    # cos(pi / 2) is 6e-17 in floating point: as a factor it would keep dead products alive.
    nearest = np.round(array)
    return np.where(np.abs(array - nearest) < ALIGNMENT_TOLERANCE, nearest, array)


def constant(array: Array) -> SX:
    """A constant array, :func:`snap_entries`."""
    return ca.SX(ca.DM(snap_entries(array)))


def mirror_upper(matrix: SX) -> SX:
    """A symmetric matrix from the upper triangle alone, so that the lower one costs nothing."""
    return ca.triu2symm(ca.triu(matrix))


class SpatialInertia(NamedTuple):
    """Symmetric 6 x 6 matrix [[mass, coupling], [coupling^T, rotation]] from twist to momentum."""

    mass: SX
    coupling: SX
    rotation: SX

    def times(self, twist: Spatial) -> Spatial:
        return Spatial(
            self.mass @ twist.linear + self.coupling @ twist.angular,
            self.coupling.T @ twist.linear + self.rotation @ twist.angular,
        )

    def plus(self, other: SpatialInertia) -> SpatialInertia:
        return SpatialInertia(self.mass + other.mass, self.coupling + other.coupling, self.rotation + other.rotation)

    def minus_outer(self, u: Spatial, factor: SX) -> SpatialInertia:
        """``self - factor * u u^T``."""
        # Symmetric blocks are mirrored from one triangle: half the products, and symmetry to the last bit.
        force, moment = u.linear * factor, u.angular * factor
        return SpatialInertia(
            mirror_upper(self.mass - force @ u.linear.T),
            self.coupling - force @ u.angular.T,
            mirror_upper(self.rotation - moment @ u.angular.T),
        )

    def with_column(self, axis: int, angular: bool, u: Spatial) -> SpatialInertia:
        """The same with this row and column, linear or angular, replaced by ``u``."""
        mass, coupling, rotation = ca.SX(self.mass), ca.SX(self.coupling), ca.SX(self.rotation)
        if angular:
            coupling[:, axis], rotation[:, axis], rotation[axis, :] = u.linear, u.angular, u.angular.T
        else:
            coupling[axis, :], mass[:, axis], mass[axis, :] = u.angular.T, u.linear, u.linear.T
        return SpatialInertia(mass, coupling, rotation)

    def shift(self, arm: SX) -> SpatialInertia:
        """The same inertia taken at a point from which the old one lies at ``arm`` (same axes)."""
        # Parallel-axis theorem for a general symmetric inertia: the mass block of an articulated inertia is a matrix.
        cross = ca.skew(arm)
        coupling = self.coupling - self.mass @ cross
        return SpatialInertia(
            self.mass, coupling, mirror_upper(self.rotation + cross @ coupling - self.coupling.T @ cross)
        )

    def stack(self) -> SX:
        return ca.blockcat([[self.mass, self.coupling], [self.coupling.T, self.rotation]])


def rigid_inertia(parameters: SX) -> SpatialInertia:
    """Inertia of a rigid body at its frame's origin from its ten parameters (m, m c, Ixx, Iyy, Izz, Ixy, Ixz, Iyz)."""
    m, h = parameters[0], parameters[1:4]
    xx, yy, zz, xy, xz, yz = ca.vertsplit(parameters[4:10])
    return SpatialInertia(m * ca.SX.eye(3), -ca.skew(h), ca.blockcat([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def wrench_rate(wrench: Spatial, twist: Spatial) -> Spatial:
    """Rate of a wrench (f, n) that moves along with a twist (v, w): (w x f, w x n + v x f)."""
    return Spatial(
        ca.cross(twist.angular, wrench.linear),
        ca.cross(twist.angular, wrench.angular) + ca.cross(twist.linear, wrench.linear),
    )


@dataclass(frozen=True)
class Rotation:
    """Rotation from child to parent axes as ``fixed @ own``: kept apart, since the product costs more operations.

    ``own`` is about coordinate axis ``axis`` by the angle with cosine ``c`` and sine ``s``, or nothing (None).
    ``plain``: ``fixed`` is the identity.
    """

    fixed: SX
    axis: int | None = None
    c: SX = None
    s: SX = None
    plain: bool = False

    def matrix(self) -> SX:
        if self.axis is None:
            return self.fixed
        return self.fixed @ self._axis_rotation()

    def to_parent(self, vector: SX) -> SX:
        """A vector's components from child to parent axes."""
        return self.fixed @ (vector if self.axis is None else self._axis_rotation() @ vector)

    def to_child(self, vector: SX) -> SX:
        """A vector's components from parent to child axes."""
        # The fixed part first: the rotation about an axis then acts on two components only.
        vector = self.fixed.T @ vector
        return vector if self.axis is None else self._axis_rotation().T @ vector

    def wrench_to_parent(self, wrench: Spatial, arm: SX) -> Spatial:
        """A wrench from the child's origin and axes to the parent's; ``arm`` is the child's origin in the parent."""
        force = self.to_parent(wrench.linear)
        return Spatial(force, self.to_parent(wrench.angular) + ca.cross(arm, force))

    def twist_to_child(self, twist: Spatial, arm: SX) -> Spatial:
        """The twist that a rigid parent has at the child's origin, in child axes."""
        return Spatial(
            self.to_child(twist.linear + ca.cross(twist.angular, arm)),
            self.to_child(twist.angular),
        )

    def wrench_to_child(self, wrench: Spatial, arm: SX) -> Spatial:
        """The inverse of :meth:`wrench_to_parent`."""
        return Spatial(self.to_child(wrench.linear), self.to_child(wrench.angular - ca.cross(arm, wrench.linear)))

    def twist_to_parent(self, twist: Spatial, arm: SX) -> Spatial:
        """The inverse of :meth:`twist_to_child`."""
        angular = self.to_parent(twist.angular)
        return Spatial(self.to_parent(twist.linear) - ca.cross(angular, arm), angular)

    def inertia_to_parent(self, inertia: SpatialInertia, arm: SX) -> SpatialInertia:
        """A child's inertia seen from the parent."""
        rotated = SpatialInertia(
            self._symmetric(inertia.mass), self._general(inertia.coupling), self._symmetric(inertia.rotation)
        )
        return rotated.shift(arm)

    def parameters_to_parent(self, parameters: SX) -> SX:
        """A body's ten inertia parameters from child to parent axes, the origin being the same."""
        xx, yy, zz, xy, xz, yz = ca.vertsplit(parameters[4:10])
        tensor = self._symmetric(ca.blockcat([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
        return ca.vertcat(
            parameters[0], self.to_parent(parameters[1:4]),
            tensor[0, 0], tensor[1, 1], tensor[2, 2], tensor[0, 1], tensor[0, 2], tensor[1, 2],
        )  # fmt: skip

    def _axis_rotation(self) -> SX:
        assert self.axis is not None
        i, j = (self.axis + 1) % 3, (self.axis + 2) % 3
        # Sparse: entries that are never set cost no products.
        rotation = ca.SX(3, 3)
        rotation[self.axis, self.axis] = 1
        rotation[i, i], rotation[i, j], rotation[j, i], rotation[j, j] = self.c, -self.s, self.s, self.c
        return rotation

    def _general(self, matrix: SX) -> SX:
        if self.axis is not None:
            matrix = self._rotate_matrix(matrix)
        return matrix if self.plain else self.fixed @ matrix @ self.fixed.T

    def _rotate_matrix(self, matrix: SX) -> SX:
        """``own @ matrix @ own.T``."""
        assert self.axis is not None
        k = self.axis
        i, j = (k + 1) % 3, (k + 2) % 3
        result = ca.SX(3, 3)
        self._rotate_plane(matrix, i, j, self.c * (matrix[i, j] + matrix[j, i]), result)
        result[k, k] = matrix[k, k]
        # The axis's own entry stays, the four in its plane share one sum, and the four beside it rotate like vectors.
        for row, column in ((i, j), (j, i)):
            sign = self.s if row == j else -self.s
            result[row, k] = self.c * matrix[row, k] + sign * matrix[column, k]
            result[k, row] = self.c * matrix[k, row] + sign * matrix[k, column]
        return result

    def _rotate_plane(self, matrix: SX, i: int, j: int, product: SX, result: SX) -> None:
        """The four entries in the plane of rotation, by a sum that all have; ``product``: c times the two products."""
        # With c^2 = 1 - s^2 all four entries are the old ones plus multiples of one sum.
        common = self.s * (matrix[i, i] - matrix[j, j]) + product
        along, across = self.s * common, self.c * common
        result[i, i], result[j, j] = matrix[i, i] - along, matrix[j, j] + along
        result[i, j], result[j, i] = across - matrix[j, i], across - matrix[i, j]
        # By right angles without rounding.
        if self.c.is_zero():
            result[i, i], result[j, j] = matrix[j, j], matrix[i, i]
        elif self.s.is_zero():
            result[i, j], result[j, i] = matrix[i, j], matrix[j, i]

    def _symmetric(self, matrix: SX) -> SX:
        if self.axis is not None:
            matrix = self._rotate_symmetric(matrix)
        # Of a fixed part of right angles the products are signs and places.
        return mirror_upper(self.fixed @ matrix @ self.fixed.T)

    def _rotate_symmetric(self, matrix: SX) -> SX:
        """The same of a symmetric matrix: 10 operations in place of 36."""
        assert self.axis is not None
        k = self.axis
        i, j = (k + 1) % 3, (k + 2) % 3
        result = ca.SX(3, 3)
        self._rotate_plane(matrix, i, j, (2 * self.c) * matrix[i, j], result)
        result[k, k] = matrix[k, k]
        result[i, k] = result[k, i] = self.c * matrix[i, k] - self.s * matrix[j, k]
        result[j, k] = result[k, j] = self.s * matrix[i, k] + self.c * matrix[j, k]
        return result


def rotation_matrix(quaternion: SX) -> SX:
    """Rotation matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = ca.vertsplit(quaternion)
    return ca.blockcat(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def quaternion_rate(quaternion: SX, rate: SX) -> SX:
    """Time derivative of a quaternion (w, x, y, z) turning at ``rate``, given in the turning axes."""
    w, x, y, z = ca.vertsplit(quaternion)
    # q' = q (0, w) / 2 with the rate in the turning axes.
    p, q, r = ca.vertsplit(0.5 * rate)
    return ca.vertcat(
        -x * p - y * q - z * r,
        w * p + y * r - z * q,
        w * q + z * p - x * r,
        w * r + x * q - y * p,
    )
