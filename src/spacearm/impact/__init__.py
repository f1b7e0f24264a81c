"""Impact: how heavy a free-floating robot feels, and what a collision does to it.

After Yoshida, Kurazume, Sashida, Umetani, "Modeling of collision dynamics for space free-floating links with extended
generalized inertia tensor" (1992), for any robot of the model, in three dimensions, at any frame. Equations and limits:
``docs/studies/impact.md``.
"""

from spacearm.impact.collision import Collision, Jump, collide, effective_mass, grasped
from spacearm.impact.configuration_search import Impactor, Optimum, optimise_configuration
from spacearm.impact.contact import ContactRun, simulate_contact
from spacearm.impact.floating import FloatingSystem, ball, flying, free_body
from spacearm.impact.grasp import grasp_velocity
from spacearm.impact.tensor import ImpactPoint, extended_inertia_tensor, impact_point
from spacearm.impact.virtual_mass import MassEllipsoid, VirtualMass, even_sphere, mass_ellipsoid, sphere, virtual_mass

__all__ = [
    "Collision",
    "ContactRun",
    "FloatingSystem",
    "ImpactPoint",
    "Impactor",
    "Jump",
    "MassEllipsoid",
    "Optimum",
    "VirtualMass",
    "ball",
    "collide",
    "effective_mass",
    "even_sphere",
    "extended_inertia_tensor",
    "flying",
    "free_body",
    "grasp_velocity",
    "grasped",
    "impact_point",
    "mass_ellipsoid",
    "optimise_configuration",
    "simulate_contact",
    "sphere",
    "virtual_mass",
]
