"""Liquid with a free surface in a tank: mass properties, and its first lateral mode as a mass on springs.

A circular cylinder (radius R, liquid to the height h) with its axis along the steady acceleration g has for its first
lateral mode, with k = 1.8412 the first root of J1'(k) = 0 and t = tanh(k h / R),

    w^2 = (g k / R + s k^3 / (d R^3)) t          (d: density, s: surface tension)
    m1  = m 2 t R / (k h (k^2 - 1))              at  h / 2 - (2 R / k) tanh(k h / (2 R))  above the liquid's centre,

and what does not move, m - m1, lies so that the liquid's mass centre is where it was (Abramson, The dynamic behavior of
liquids in moving containers, NASA SP-106, 1966; Dodge, The new "dynamic behavior of liquids in moving containers",
Southwest Research Institute, 2000). The capillary term holds for a flat surface: a contact angle of 90 degrees and a
contact line that slides freely, at any Bond number d g R^2 / s. Other contact angles bend the surface where the Bond
number is below about 100; there the frequency can be lower by half, and a range should be tried.

In a sphere the mode has no closed form. With the surface flat, the potential f cos(azimuth) minimises Rayleigh's
quotient

    w^2 / g = integral |grad f|^2 dV / integral_surface f^2 dS,

over harmonic polynomials about the surface's centre, whose volume integral is one over the boundary (against finite
elements: w^2 within 1e-5 up to 1.2 R of depth, 1e-4 at 1.4 R, 4e-4 at 1.6 R and 3e-3 at 1.8 R, the mass within twice
that). The liquid pushes through the sphere's centre, so the mass hangs at the
depth g / w^2 below it, like a pendulum's. Surface tension is left out in a sphere. In a cylinder it multiplies w^2 by
1 + k^2 / Bo at a contact angle of 90 degrees (the formula above): 16 % of the frequency at a Bond number of 10, 1.7 %
at 100; expect as much in a sphere. For a liquid that wets the wall it is less: H. M. Satterlee and W. C. Reynolds
(Stanford University, report LG-2, 1964) are quoted for deep cylinders with 6.26 - 4.76 cos(contact angle) in place of
k^3 = 6.24, which is 4 % and 0.4 %; the report was not at hand, and no number of a run depends on it. Below 10 the
surface is curved and the frequency has to be given, from a test or a chart.

Where the frequency is given, it replaces the formula's; masses and places stay. The pendulum with the same forces has
the length l = g / w^2 of gravity's part alone (R / (k t) for the cylinder), and hangs that much above the slosh mass.

Further modes move less than 3 % of what the first one moves and stay with the rigid part. That part is taken to rotate
with the tank, as a liquid does that is slowed by baffles or a diaphragm; an ideal liquid would rotate less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.polynomial import Polynomial

from spacearm.checks import check_fields, non_negative, one_of, positive
from spacearm.errors import ModelError, error_context
from spacearm.model.parts import Inertia, Part
from spacearm.typing import Array

TankShape: TypeAlias = Literal["cylinder", "sphere"]
#: First root of the derivative of the Bessel function J1.
BESSEL_ROOT = 1.8411837813406593
#: Below this Bond number the surface in a sphere is far from flat.
LEAST_BOND = 10.0
#: Harmonic polynomials of a sphere's mode, and points of Gauss on its meridian.
HARMONICS, GAUSS = 14, 60


@dataclass(frozen=True, slots=True, eq=False)
class Tank(Part):
    """A tank with its axis along z, origin at its bottom, partly filled.

    Args:
        radius: m.
        mass, density: of the liquid, kg and kg/m3.
        acceleration: steady, along the axis towards the surface, m/s2; zero between firings.
        surface_tension: N/m.
        damping: ratio of the slosh mode; some 0.005 for a bare tank of water size, 0.05 and more with baffles.
        shape: ``cylinder`` or ``sphere``.
        slosh_frequency: Hz, of the mode in a tank that is held, known from elsewhere.
    """

    name: str
    radius: float
    mass: float
    density: float
    acceleration: float = 0.0
    surface_tension: float = 0.0
    damping: float = 0.01
    shape: TankShape = "cylinder"
    slosh_frequency: float | None = None

    def __post_init__(self) -> None:
        self._expect_text("name")
        with error_context(f"tank {self.name!r}"):
            one_of(self.shape, ("cylinder", "sphere"), "shape", error=ModelError)
            check_fields(self, positive, "radius", "mass", "density")
            check_fields(self, non_negative, "acceleration", "surface_tension", "damping")
            if self.slosh_frequency is not None:
                check_fields(self, positive, "slosh_frequency")
            elif self.acceleration == 0.0 and self.surface_tension == 0.0:
                raise ModelError("nothing holds the surface", hint="give the surface tension, or a steady acceleration")
            elif self.shape == "sphere" and self.bond_number < LEAST_BOND:
                raise ModelError(
                    f"has the Bond number {self.bond_number:.3g}",
                    hint=f"in a sphere the surface is flat above {LEAST_BOND:g} only; give slosh_frequency",
                )
            whole = 4.0 / 3.0 * math.pi * self.radius**3 * self.density
            if self.shape == "sphere" and self.mass >= 0.999 * whole:
                raise ModelError(f"{self.mass:g} kg do not fit into it", hint=f"it is full with {whole:.6g} kg")

    @property
    def height(self) -> float:
        """Height of the liquid, m."""
        from scipy.optimize import brentq

        volume, r = self.mass / self.density, self.radius
        if self.shape == "cylinder":
            return volume / (math.pi * r**2)
        # A spherical segment of height h: pi h^2 (3 R - h) / 3.
        share = 3.0 * volume / (math.pi * r**3)
        return r * float(brentq(lambda x: x * x * (3.0 - x) - share, 0.0, 2.0, xtol=1e-15))

    @property
    def bond_number(self) -> float:
        """Weight of the liquid beside its surface tension."""
        if self.surface_tension == 0.0:
            return math.inf
        return self.density * self.acceleration * self.radius**2 / self.surface_tension

    @property
    def pendulum_length(self) -> float:
        """Length of the pendulum that swings as the liquid does under any acceleration, m: from hinge to mass."""
        if self.shape == "sphere":
            return self.radius / sphere_mode(self.height / self.radius)[0]
        return self.radius / (BESSEL_ROOT * math.tanh(BESSEL_ROOT * self.height / self.radius))

    @property
    def frequency(self) -> float:
        """Frequency of the first lateral mode in a tank that is held, Hz."""
        if self.slosh_frequency is not None:
            return self.slosh_frequency
        square = self.acceleration / self.pendulum_length
        if self.shape == "cylinder":
            capillary = self.surface_tension * BESSEL_ROOT**2 / (self.density * self.radius**2)
            square += capillary / self.pendulum_length
        return math.sqrt(square) / (2.0 * math.pi)

    @property
    def slosh_mass(self) -> float:
        """Mass that moves in the first lateral mode, kg."""
        k, ratio = BESSEL_ROOT, self.height / self.radius
        if self.shape == "sphere":
            return sphere_mode(ratio)[1] * self.density * self.radius**3
        return self.mass * 2.0 * math.tanh(k * ratio) / (k * ratio * (k**2 - 1.0))

    @property
    def slosh_height(self) -> float:
        """Height of the slosh mass above the bottom, m."""
        if self.shape == "sphere":
            # Pressure on a sphere acts through its centre: the mass hangs below it, like a pendulum of length a / w^2.
            return self.radius - self.acceleration / (2.0 * math.pi * self.frequency) ** 2
        k = BESSEL_ROOT
        return self.height - 2.0 * self.radius / k * math.tanh(0.5 * k * self.height / self.radius)

    @property
    def stiffness(self) -> float:
        """Stiffness of the springs that hold the slosh mass, N/m."""
        return self.slosh_mass * (2.0 * math.pi * self.frequency) ** 2

    @property
    def viscosity(self) -> float:
        """Damping beside the springs, N s/m."""
        # From the damping ratio: c = 2 zeta omega m.
        return 2.0 * self.damping * 2.0 * math.pi * self.frequency * self.slosh_mass

    @property
    def liquid(self) -> Inertia:
        """All of the liquid at rest, about the bottom: a body of revolution with the surface flat."""
        z, r = Polynomial([0.0, 1.0]), self.radius
        square = Polynomial([r**2]) if self.shape == "cylinder" else 2.0 * r * z - z**2

        def whole(density: Polynomial) -> float:
            return float((self.density * math.pi * density).integ()(self.height))

        # Slices of the square radius ``square``: a disc has a quarter of its square radius across and half of it about
        # the axis.
        centre = whole(square * z) / self.mass
        across = whole(0.25 * square**2 + square * z**2) - self.mass * centre**2
        return Inertia(self.mass, np.array([0.0, 0.0, centre]), np.diag([across, across, whole(0.5 * square**2)]))


@cache
def sphere_mode(height: float) -> tuple[float, float]:
    """w^2 R / g and the slosh mass over d R^3 of a sphere's first lateral mode; the height is in units of R."""
    from scipy.linalg import eigh

    middle = height - 1.0  # of the surface, from the sphere's centre
    radius = math.sqrt(max(1.0 - middle**2, 1e-12))
    points, weights = np.polynomial.legendre.leggauss(GAUSS)
    # The wetted meridian by its angle from the bottom, and the surface by its radius; in each 0 to 1.
    part, weight = 0.5 * (points + 1.0), 0.5 * weights
    largest = math.acos(-middle)
    angle = largest * part
    rho, z = np.sin(angle), -np.cos(angle) - middle
    scale = max(radius, height)
    wall, by_rho, by_z = _harmonics(rho / scale, z / scale)
    # For harmonic f the integral of |grad f|^2 over the volume is that of f df/dn over its boundary (Green): lines in
    # place of a volume.
    outward = (by_rho * np.sin(angle) - by_z * np.cos(angle)) / scale
    energy = math.pi * largest * (wall * (weight * rho)) @ outward.T
    line = radius * part
    top, _, upward = _harmonics(line / scale, np.zeros(GAUSS))
    energy += math.pi * radius * (top * (weight * line)) @ upward.T / scale
    surface = math.pi * radius * (top * (weight * line)) @ top.T
    # Polynomials that hardly differ on the boundary are left out: they carry rounding only.
    sizes, axes = np.linalg.eigh(0.5 * (energy + energy.T))
    basis = axes[:, sizes > 1e-11 * sizes[-1]]
    # The inverse problem, surface over energy: the matrix of the energy is positive, while that of the surface is
    # singular for shapes that vanish there.
    inverse, shapes = eigh(basis.T @ surface @ basis, basis.T @ (0.5 * (energy + energy.T)) @ basis)
    value, shape = 1.0 / inverse[-1], basis @ shapes[:, -1]
    # The mode's pull on the tank: the first moment of its surface, from which the mass that moves with it follows.
    first = math.pi * radius * float((shape @ top * (weight * line)) @ line)
    return float(value), float(value * first**2 / (shape @ surface @ shape))


def _harmonics(rho: Array, z: Array) -> tuple[Array, Array, Array]:
    """Solid harmonics of order 1 without cos(azimuth) (HARMONICS, points), and their derivatives by rho and z."""
    square = rho**2 + z**2
    found = [(rho, np.ones_like(rho), np.zeros_like(rho)), (z * rho, z, rho)]
    for n in range(2, HARMONICS):
        (f, fr, fz), (e, er, ez) = found[-1], found[-2]
        # Legendre's recursion for order 1, divided so that the factor of z is 1.
        b = (n + 1) * (n - 1) / (4 * n * n - 1)
        found.append(
            (
                z * f - b * square * e,
                z * fr - b * (square * er + 2.0 * rho * e),
                f + z * fz - b * (square * ez + 2.0 * z * e),
            )
        )
    values, by_rho, by_z = (np.array(each) for each in zip(*found, strict=True))
    return values, by_rho, by_z
