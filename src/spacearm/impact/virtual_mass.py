"""Virtual masses: the apparent mass of a robot for a force at a frame, for any direction.

For a unit force along n the frame's origin accelerates with a = G11* n. Yoshida et al. (1992), Eqs. 17 to 19::

    projected   m_p = |f| / (a . n) = 1 / (n^T G11* n)
    absolute    m_a = |f| / |a|     = 1 / |G11* n|      (printed as 1 / (k^T G11* k), which is not |f| / |a|)
    angle       psi between n and a

Plotted as a polar curve over n, the absolute virtual mass is an ellipse (in space an ellipsoid) with semi-axes 1 /
sigma_i, sigma_i the singular values of G11*: the *mass ellipsoid*. The projected one is not, but its root is.

Directions (..., 3) are unit vectors in world axes; masses are in kg. Singular values and not eigenvalues, because with
unequal joint resistances G11* is not symmetric: force axes and acceleration axes are then two sets. Only forces are
treated; the rotational blocks of G* have no virtual mass here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, integer, numbers
from spacearm.engine import Kernel
from spacearm.engine.device import cupy, is_device_array, to_cupy
from spacearm.errors import InputError
from spacearm.impact._joint_modes import normalise
from spacearm.mechanics import Program
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class VirtualMass:
    """Virtual masses for directions (..., 3).

    Attributes:
        direction: unit vectors of the force, world axes.
        acceleration: of the frame's origin under a unit force, 1/kg.
        projected: m_p, kg. Negative where a force pulls the frame towards itself, which only unequal joint resistances
            can cause: the law of Eq. 10 is then not passive.
        absolute: m_a, kg.
        angle: psi, rad, 0 to pi.
    """

    direction: Array
    acceleration: Array
    projected: Array
    absolute: Array
    angle: Array

    def signed_angle(self, normal: npt.ArrayLike) -> Array:
        """psi with a sign, positive for a rotation from force to acceleration about ``normal``; for maps in a plane."""
        rotation = (
            np.cross(self.direction, self.acceleration) * _copy_to_device(self.angle, normalise(normal, "normal"))
        ).sum(axis=-1)
        return np.where(rotation < 0.0, -self.angle, self.angle)


def virtual_mass(acceleration: npt.ArrayLike, direction: npt.ArrayLike) -> VirtualMass:
    """Virtual masses from accelerations (..., 3) under unit forces along ``direction`` (..., 3).

    Accelerations come from :meth:`spacearm.impact.ImpactPoint.acceleration`, or as ``direction @ G11.T``.
    """
    # Of unit length: masses would otherwise scale with the square of what was given.
    n = normalise(direction)
    there = is_device_array(acceleration)
    a: Array = to_cupy(cupy(), acceleration) if there else np.asarray(acceleration, dtype=np.float64)
    found = _masses()({"direction": n, "acceleration": a})
    projected, absolute, angle = (found[name][..., 0] for name in ("projected", "absolute", "angle"))
    return VirtualMass(np.broadcast_to(n, (*projected.shape, 3)), a, projected, absolute, angle)


@cache
def _masses() -> Kernel:
    """Eqs. 17 to 19 for unit directions, compiled: a map has a million of them."""
    n, a = ca.SX.sym("direction", 3), ca.SX.sym("acceleration", 3)
    # |n x a|, because the arc cosine of a number near 1 would lose half the digits at the peaks.
    outputs = {
        "projected": 1 / ca.dot(a, n),
        "absolute": 1 / ca.sqrt(ca.sumsqr(a)),
        "angle": ca.atan2(ca.sqrt(ca.sumsqr(ca.cross(n, a))), ca.dot(n, a)),
    }
    return Kernel(Program("virtual_mass", {"direction": n, "acceleration": a}, outputs))


#: Share of the largest compliance below which a direction does not give way.
RIGID = 1e-14


@dataclass(frozen=True, eq=False)
class MassEllipsoid:
    """Principal directions of G11* for forces in space (k = 3) or in a plane (k = 2), the heaviest first.

    Attributes:
        masses: principal absolute virtual masses (..., k), kg: semi-axes of the mass ellipsoid, largest first; infinite
            where a constrained base gives no way.
        axes: unit vectors of the force (..., 3, k) in columns, world axes.
        acceleration_axes: unit vectors of the acceleration that each gives, (..., 3, k). In space they are ``axes``
            when G11* is symmetric, that is unless joints resist unequally; they may leave a plane that the robot does
            not keep to.
    """

    masses: Array
    axes: Array
    acceleration_axes: Array

    def surface(self, count: int = 181) -> Array:
        """Points (count, 3) of the ellipse in a plane: m_a n over a revolution. Only for a single ellipse (k = 2)."""
        if self.masses.shape != (2,):
            raise InputError("has no single curve", place="mass ellipsoid", hint="expected one ellipse of a plane")
        angle = np.linspace(0.0, 2.0 * np.pi, count)
        weights = np.stack([np.cos(angle), np.sin(angle)], axis=-1) * self.masses
        points: Array = weights @ self.axes.T
        return points


def mass_ellipsoid(tensor: npt.ArrayLike, normal: npt.ArrayLike | None = None) -> MassEllipsoid:
    """Principal virtual masses of G* (..., 6, 6) or G11* (..., 3, 3); with ``normal``, for forces across it.

    In a plane that is the section of the ellipsoid by the plane: the force lies in it, the acceleration need not.
    """
    there = is_device_array(tensor)
    given: Any = to_cupy(cupy(), tensor) if there else numbers(tensor, "tensor")
    block = given[..., :3, :3] if there else array(given[..., :3, :3], "tensor", (..., 3, 3))
    basis = _copy_to_device(block, np.eye(3) if normal is None else plane_basis(normal))
    # Singular values are the accelerations under unit forces along the principal directions: masses are their inverses.
    left, values, right = np.linalg.svd(block @ basis, full_matrices=False)
    # Smallest compliance first: the heaviest direction.
    axes = np.swapaxes(right, -1, -2)[..., ::-1]
    # What a constrained base does not let give way is infinitely heavy; rounding must not make it 1e16 kg.
    values = np.where(values > RIGID * values[..., :1], values, 0.0)
    with np.errstate(divide="ignore"):
        masses = 1.0 / values[..., ::-1]
    return MassEllipsoid(masses, basis @ axes, left[..., ::-1])


def _copy_to_device(value: Any, constant: Array) -> Array:
    """A constant on the device of a value: on the GPU, or on the CPU."""
    there: Array = cupy().asarray(constant) if is_device_array(value) else constant
    return there


def plane_basis(normal: npt.ArrayLike) -> Array:
    """Two orthonormal vectors in columns (3, 2) of the plane across ``normal``; for z they are x and y."""
    n = normalise(normal, "normal")
    if n.ndim != 1:
        raise InputError(f"has shape {n.shape}", place="normal", hint="expected one vector")
    # The coordinate axis after the one that the normal is nearest to: x for z, y for x, z for y.
    start = np.eye(3)[(int(np.argmax(np.abs(n))) + 1) % 3]
    first = normalise(start - (start @ n) * n)
    return np.stack([first, np.cross(n, first)], axis=-1)


def circle(count: int = 721, normal: npt.ArrayLike = (0.0, 0.0, 1.0), *, half: bool = False) -> tuple[Array, Array]:
    """Angles (count) from 0 to 360 deg (``half``: 180), rad, and directions (count, 3) in the plane across ``normal``.

    Masses repeat after 180 deg. About z, the angle is counted from x towards y.
    """
    integer(count, "number of directions", least=2)
    angles = np.linspace(0.0, np.pi if half else 2.0 * np.pi, count)
    return angles, np.stack([np.cos(angles), np.sin(angles)], axis=-1) @ plane_basis(normal).T


def sphere(rows: int = 91, columns: int = 181) -> tuple[Array, Array, Array]:
    """Polar angles from z (rows), azimuths (columns), rad, and directions (rows, columns, 3): a grid for plotting."""
    integer(min(rows, columns), "number of directions", least=2)
    polar, azimuth = np.linspace(0.0, np.pi, rows), np.linspace(0.0, 2.0 * np.pi, columns)
    z, ring = np.cos(polar)[:, None], np.sin(polar)[:, None]
    directions = np.stack([ring * np.cos(azimuth), ring * np.sin(azimuth), z + 0.0 * azimuth], axis=-1)
    return polar, azimuth, directions


def even_sphere(count: int) -> Array:
    """Directions (count, 3) spread evenly over the sphere (a Fibonacci spiral): for statistics over all directions."""
    integer(count, "number of directions", least=2)
    index = np.arange(count) + 0.5
    z = 1.0 - 2.0 * index / count
    # Equal steps of z are equal areas (Archimedes); a golden-angle azimuth keeps neighbours from lining up.
    ring, angle = np.sqrt(1.0 - z * z), np.pi * (1.0 + np.sqrt(5.0)) * index
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=-1)
