"""Tanks with a free surface: the liquid as a rigid part and a mass on springs.

A circular cylinder (radius R, liquid to the height h) with its axis along the steady acceleration g has for its first
lateral mode, with k = 1.8412 the first root of J1'(k) = 0 and t = tanh(k h / R),

    w^2 = (g k / R + s k^3 / (d R^3)) t          (d: density, s: surface tension)
    m1  = m 2 t R / (k h (k^2 - 1))              at  h / 2 - (2 R / k) tanh(k h / (2 R))  above the liquid's centre,

and what does not move, m - m1, lies so that the liquid's mass centre is where it was (Abramson, The dynamic behavior of
liquids in moving containers, NASA SP-106, 1966; Dodge, The new "dynamic behavior of liquids in moving containers",
Southwest Research Institute, 2000). The capillary term holds for a flat surface: a contact angle of 90 degrees and a
contact line that slides freely, at any Bond number d g R^2 / s. Other contact angles bend the surface where the Bond
number is below about 100; there the frequency can be lower by half, and a range should be tried.

Further modes move less than 3 % of what the first one moves and stay with the rigid part. That part is taken to rotate
with the tank, as a liquid does that is slowed by baffles or a diaphragm; an ideal liquid would rotate less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from spacearm.checks import check_fields, non_negative, positive
from spacearm.errors import ModelError, error_context
from spacearm.model.appendages import add_rigid_matrix, rigid_matrix
from spacearm.model.edit import Axis, attach, attach_by_joint, rename, split_joint
from spacearm.model.parts import Body, Inertia, Joint, Pose, Spring
from spacearm.model.robot import Robot

#: First root of the derivative of the Bessel function J1.
BESSEL_ROOT = 1.8411837813406593


@dataclass(frozen=True)
class Tank:
    """A cylindrical tank with its axis along z, origin at its bottom, partly filled.

    Args:
        radius: m.
        mass, density: of the liquid, kg and kg/m3.
        acceleration: steady, along the axis towards the surface, m/s2; zero between firings.
        surface_tension: N/m.
        damping: ratio of the slosh mode; some 0.005 for a bare tank of water size, 0.05 and more with baffles.
    """

    name: str
    radius: float
    mass: float
    density: float
    acceleration: float = 0.0
    surface_tension: float = 0.0
    damping: float = 0.01

    def __post_init__(self) -> None:
        with error_context(f"tank {self.name!r}"):
            check_fields(self, positive, "radius", "mass", "density")
            check_fields(self, non_negative, "acceleration", "surface_tension", "damping")
            if self.acceleration == 0.0 and self.surface_tension == 0.0:
                raise ModelError("nothing holds the surface", hint="give the surface tension, or a steady acceleration")

    @property
    def height(self) -> float:
        """Of the liquid, m."""
        return self.mass / (self.density * math.pi * self.radius**2)

    @property
    def bond_number(self) -> float:
        """Weight of the liquid beside its surface tension."""
        if self.surface_tension == 0.0:
            return math.inf
        return self.density * self.acceleration * self.radius**2 / self.surface_tension

    @property
    def frequency(self) -> float:
        """Of the first lateral mode in a tank that is held, Hz."""
        k, r = BESSEL_ROOT, self.radius
        gravity = self.acceleration * k / r
        capillary = self.surface_tension * k**3 / (self.density * r**3)
        return math.sqrt((gravity + capillary) * math.tanh(k * self.height / r)) / (2.0 * math.pi)

    @property
    def slosh_mass(self) -> float:
        """Mass that moves in the first lateral mode, kg."""
        k, ratio = BESSEL_ROOT, self.height / self.radius
        return self.mass * 2.0 * math.tanh(k * ratio) / (k * ratio * (k**2 - 1.0))

    @property
    def slosh_height(self) -> float:
        """Of that mass above the bottom, m."""
        k = BESSEL_ROOT
        return self.height - 2.0 * self.radius / k * math.tanh(0.5 * k * self.height / self.radius)


def add_tank(robot: Robot, frame: str, tank: Tank, placement: Pose | None = None) -> Robot:
    """The robot with a tank and its liquid; ``placement`` is the tank's bottom, its axis along z, in ``frame``.

    The slosh mass ``<name>.slosh`` slides on the joints ``<name>.slosh_x`` and ``<name>.slosh_y`` (m).
    """
    with error_context(f"tank {tank.name!r}"):
        robot = attach(robot, frame, Body(tank.name, Inertia.massless()), placement)
        h, r, m, moving = tank.height, tank.radius, tank.mass, tank.slosh_mass
        across = m * (3.0 * r**2 + h**2) / 12.0
        whole = Inertia(m, np.array([0.0, 0.0, 0.5 * h]), np.diag([across, across, 0.5 * m * r**2]))
        place = np.array([0.0, 0.0, tank.slosh_height])
        robot = add_rigid_matrix(robot, tank.name, rigid_matrix(whole) - rigid_matrix(Inertia(moving, place)))
        rate = 2.0 * math.pi * tank.frequency
        spring, damping = Spring(moving * rate**2), 2.0 * tank.damping * rate * moving
        # A joint that the two slides take the place of; soft joints of a capture are called slide_x too, slosh is none.
        joint = Joint(tank.name, "prismatic", "", "", Pose(translation=place), axis=np.array([1.0, 0.0, 0.0]))
        robot = attach_by_joint(robot, tank.name, Body(f"{tank.name}.slosh", Inertia(moving)), joint)
        axes = [Axis(axis, "prismatic", spring, damping) for axis in "xy"]
        robot = split_joint(robot, tank.name, axes, where="instead")
        return rename(robot, {f"{tank.name}.slide_{axis}": f"{tank.name}.slosh_{axis}" for axis in "xy"})
