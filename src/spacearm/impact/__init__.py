"""Impact: how heavy a free-floating robot feels, and what a collision does to it.

After Yoshida, Kurazume, Sashida, Umetani, "Modeling of collision dynamics for space free-floating links with extended
generalized inertia tensor" (1992), for any robot of the model, in three dimensions, at any frame. Equations and limits:
``docs/studies/impact.md``.
"""

from spacearm.impact.collision import Collision, Jump, collide, effective_mass, grasped
from spacearm.impact.configuration_search import ConfigurationObjective, Impactor, Optimum, optimise_configuration
from spacearm.impact.contact import ContactRun, Convergence, contact_convergence, simulate_contact
from spacearm.impact.floating import FloatingSystem, ball, flying, free_body
from spacearm.impact.friction import Sliding
from spacearm.impact.grasp import GraspVelocity, grasp_velocity
from spacearm.impact.joint_modes import JointModes
from spacearm.impact.tensor import ImpactPoint, ImpulseResponse, extended_inertia_tensor, impact_point
from spacearm.impact.virtual_mass import (
    MassEllipsoid,
    VirtualMass,
    circle,
    even_sphere,
    mass_ellipsoid,
    sphere,
    virtual_mass,
)

__all__ = [
    "Collision",
    "ConfigurationObjective",
    "ContactRun",
    "Convergence",
    "FloatingSystem",
    "GraspVelocity",
    "ImpactPoint",
    "Impactor",
    "ImpulseResponse",
    "JointModes",
    "Jump",
    "MassEllipsoid",
    "Optimum",
    "Sliding",
    "VirtualMass",
    "ball",
    "circle",
    "collide",
    "contact_convergence",
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
