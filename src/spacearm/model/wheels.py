"""Reaction wheels: each is a joint of its own with a rotor, and a body without mass."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from spacearm.model.parts import Body, Inertia, Joint, Limits, Rotor


def wheel(
    name: str, body: str, axis: npt.ArrayLike, inertia: float, torque: float = math.inf, speed: float = math.inf
) -> tuple[Body, Joint]:
    """A reaction wheel on a body: a rotor on a joint of its own, whose child has no mass.

    The wheel's mass and its inertia across the axis belong to the body that carries it. The joint's rate is the wheel's
    speed relative to that body.

    Args:
        axis: unit vector of the body's frame.
        inertia: about that axis, kg m2.
        torque, speed: the most that its motor gives (N m), and its highest speed (rad/s).
    """
    limits = Limits(velocity=speed, effort=torque)
    joint = Joint(name, "revolute", body, name, axis=np.asarray(axis), limits=limits, rotor=Rotor(inertia))
    return Body(name, Inertia.massless()), joint
