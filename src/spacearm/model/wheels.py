"""Reaction wheels, each a joint of its own with a rotor and a body without mass; axes of the usual sets."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import ModelError
from spacearm.model.parts import Body, Inertia, Joint, Limits, Rotor, finite, unit_vector
from spacearm.model.rotations import rotation_from_rpy
from spacearm.typing import Array

WheelSet = Literal["pyramid", "orthogonal"]
#: Angle of a pyramid's wheels from its axis (rad) with which the set has equal momentum along all three axes.
EVEN_TILT = math.acos(1.0 / math.sqrt(3.0))


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


def wheel_axes(kind: WheelSet, axis: npt.ArrayLike = (0.0, 0.0, 1.0), tilt: float = EVEN_TILT) -> Array:
    """Unit vectors of a set of wheels, in rows: four of a ``pyramid``, or x, y, z (``orthogonal``).

    Args:
        axis: of the pyramid, a unit vector of the body's frame; about z, the wheels lean to 45, 135, 225 and 315
            degrees from x towards y.
        tilt: of the pyramid's wheels from its axis, rad, between 0 and a right angle.
    """
    checks.one_of(kind, get_args(WheelSet), "set of wheels", error=ModelError)
    if kind == "orthogonal":
        return np.eye(3)
    tilt = finite(tilt, "tilt", above=0.0)
    if tilt > math.pi / 2:
        raise ModelError(f"tilt is {tilt:g} rad", hint="expected at most a right angle")
    leans = math.pi / 4 * np.array([1.0, 3.0, 5.0, 7.0])
    flat = np.column_stack([np.cos(leans), np.sin(leans), np.zeros(4)])
    upright = math.sin(tilt) * flat + math.cos(tilt) * np.array([0.0, 0.0, 1.0])
    x, y, z = unit_vector(axis, "axis")
    # Pitch and yaw that take z to the axis: multiples of right angles are exact.
    return np.asarray(upright @ rotation_from_rpy((0.0, math.atan2(math.hypot(x, y), z), math.atan2(y, x))).T)
