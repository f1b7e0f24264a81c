"""Impact: the apparent mass of a free-floating robot, and the effect of a collision on it.

After Yoshida, Kurazume, Sashida, Umetani, "Modeling of collision dynamics for space free-floating links with extended
generalized inertia tensor" (1992), for any robot of the model, in three dimensions, at any frame. Equations and limits:
``docs/studies/impact.md``.
"""

from spacearm.impact.collision import Collision, collide, effective_mass, weld_after_grasp
from spacearm.impact.configuration_search import Impactor, optimise_configuration
from spacearm.impact.contact import ContactRun, simulate_contact
from spacearm.impact.floating import FloatingSystem, build_system, free_body, solid_ball
from spacearm.impact.grasp import grasp_velocity
from spacearm.impact.tensor import ImpactPoint, extended_inertia_tensor, impact_point
from spacearm.impact.virtual_mass import MassEllipsoid, even_sphere, mass_ellipsoid, virtual_mass

__all__ = [
    "Collision",
    "ContactRun",
    "FloatingSystem",
    "ImpactPoint",
    "Impactor",
    "MassEllipsoid",
    "build_system",
    "collide",
    "effective_mass",
    "even_sphere",
    "extended_inertia_tensor",
    "free_body",
    "grasp_velocity",
    "impact_point",
    "mass_ellipsoid",
    "optimise_configuration",
    "simulate_contact",
    "solid_ball",
    "virtual_mass",
    "weld_after_grasp",
]
