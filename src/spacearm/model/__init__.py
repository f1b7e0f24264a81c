"""What is there: the robot, its parts, its files, and the catalogue of the papers' robots."""

from spacearm.model import catalogue
from spacearm.model.base import BaseConstraint
from spacearm.model.files import load, save
from spacearm.model.loops import Loop
from spacearm.model.parts import (
    Body,
    CollisionShape,
    Coupling,
    Frame,
    Friction,
    Inertia,
    Joint,
    Limits,
    Pose,
    Rotor,
    Spring,
    Thruster,
    Visual,
)
from spacearm.model.robot import Robot
from spacearm.model.wheels import wheel

__all__ = [
    "BaseConstraint",
    "Body",
    "CollisionShape",
    "Coupling",
    "Frame",
    "Friction",
    "Inertia",
    "Joint",
    "Limits",
    "Loop",
    "Pose",
    "Robot",
    "Rotor",
    "Spring",
    "Thruster",
    "Visual",
    "catalogue",
    "load",
    "save",
    "wheel",
]
