"""State of a robot at one instant: base pose, joint positions and generalised velocity.

A state is checked once, when it is made, and then immutable: numbers finite, sizes those of a robot with as many
joints, the quaternion of unit length. A quaternion that is off by more than rounding is an error, not something to
normalise silently: it usually means another order of its components. Velocities of the base are in base axes, as in
the equations of motion; constructors take world axes where their names say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.checks import UNIT_TOLERANCE, check_name, number, numbers
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

#: Positions of joints: numbers, the name of a configuration, or a table of some joints.
Joints: TypeAlias = npt.ArrayLike | str | Mapping[str, float] | None
#: Joints that a state shows in a line.
SHOWN_JOINTS = 8
#: A length this near to one is one up to rounding.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def _vector(value: npt.ArrayLike, size: int, what: str) -> Array:
    array = np.array(numbers(value, what))
    if array.shape != (size,):
        raise InputError(f"has shape {array.shape}", place=what, hint=f"expected {size} numbers")
    if not np.isfinite(array).all():
        raise InputError(f"is not finite: {array.tolist()}", place=what)
    array.setflags(write=False)
    return array


def _joint_array(robot: Robot, given: npt.ArrayLike | Mapping[str, float], what: str) -> Array:
    """A number for each joint (n,), from all of them or from a table of some; the others are zero."""
    if not isinstance(given, Mapping):
        return _vector(given, robot.n, what)
    values = np.zeros(robot.n)
    for name, value in given.items():
        check_name(name, robot.joint_names, "joint", of=robot.name, place=what)
        values[robot.joint_index(name)] = number(value, f"{what} {name!r}")
    return _vector(values, robot.n, what)


@dataclass(frozen=True, eq=False)
class State:
    """Configuration and generalised velocity.

    Args:
        position: base frame's origin in the world, m.
        quaternion: base to world rotation (w, x, y, z); scaled to length one.
        joints: joint positions, rad or m.
        velocity: (6 + n): linear and angular velocity of the base in BASE axes (m/s, rad/s), joint rates.
    """

    position: Array
    quaternion: Array
    joints: Array
    velocity: Array

    def __post_init__(self) -> None:
        # One number is a robot with one joint.
        joints = np.atleast_1d(numbers(self.joints, "joint positions"))
        n = joints.size
        object.__setattr__(self, "position", _vector(self.position, 3, "base position"))
        object.__setattr__(self, "joints", _vector(joints, n, "joint positions"))
        object.__setattr__(self, "velocity", _vector(self.velocity, 6 + n, "generalised velocity"))
        quaternion = _vector(self.quaternion, 4, "base quaternion")
        norm = float(np.linalg.norm(quaternion))
        if abs(norm - 1.0) > UNIT_TOLERANCE:
            raise InputError(f"has norm {norm:.6g}", place="base quaternion", hint="expected w, x, y, z with norm 1")
        if abs(norm - 1.0) > _ROUNDING:  # scaling what is of length one already would only change its last bits
            quaternion = quaternion / norm
            quaternion.setflags(write=False)
        object.__setattr__(self, "quaternion", quaternion)

    def __repr__(self) -> str:
        moves = "at rest" if not self.velocity.any() else "moving"
        place = ", ".join(f"{value:.4g}" for value in self.position)
        first = ", ".join(f"{value:.4g}" for value in self.joints[:SHOWN_JOINTS])
        more = ", ..." if self.joints.size > SHOWN_JOINTS else ""
        return f"State({moves}, base at ({place}) m, joints ({first}{more}))"

    @classmethod
    def at_rest(
        cls,
        robot: Robot,
        joints: Joints = None,
        *,
        position: npt.ArrayLike = (0.0, 0.0, 0.0),
        quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    ) -> State:
        """Nothing moves; ``joints`` are positions (rad or m), the name of a configuration, or a table of some joints:
        ``{"joint1": 0.3}``, the others being zero.
        """
        return cls.from_velocities(robot, joints, position=position, quaternion=quaternion)

    @classmethod
    def from_velocities(
        cls,
        robot: Robot,
        joints: Joints = None,
        rates: npt.ArrayLike | Mapping[str, float] | None = None,
        *,
        position: npt.ArrayLike = (0.0, 0.0, 0.0),
        quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
        base_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
        base_angular_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
    ) -> State:
        """State from base velocities in WORLD axes (m/s, rad/s) and joint rates; ``joints`` as for :meth:`at_rest`."""
        if joints is None:
            angles = robot.configuration("zero")
        elif isinstance(joints, str):
            angles = robot.configuration(joints)
        else:
            angles = _joint_array(robot, joints, "joint positions")
        speeds = np.zeros(robot.n) if rates is None else _joint_array(robot, rates, "joint rates")
        check_angles(robot, angles)
        still = cls(np.asarray(position), np.asarray(quaternion), angles, np.zeros(6 + robot.n))
        to_base = rotation_matrices(still.quaternion).T
        linear = to_base @ _vector(base_velocity, 3, "base velocity")
        angular = to_base @ _vector(base_angular_velocity, 3, "base angular velocity")
        return cls(still.position, still.quaternion, angles, np.concatenate([linear, angular, speeds]))

    @classmethod
    def from_vector(cls, vector: npt.ArrayLike) -> State:
        """A state from its flat vector: position 3, quaternion 4, joints n, velocity 6 + n."""
        array = numbers(vector, "state")
        if array.ndim != 1 or array.size < 13 or (array.size - 13) % 2:
            raise InputError(f"has shape {array.shape}", place="state", hint="expected 13 + 2 n numbers")
        at = Layout((array.size - 13) // 2)
        position, quaternion, joints, velocity = (array[k] for k in (at.position, QUATERNION, at.joints, at.velocity))
        # As a rule it comes from a run: one copy and one look at all numbers instead of one for each part.
        if not (np.isfinite(array).all() and abs(math.sqrt(quaternion.dot(quaternion)) - 1.0) <= _ROUNDING):
            return cls(position, quaternion, joints, velocity)
        own, found = array.copy(), object.__new__(cls)
        own.setflags(write=False)
        parts = {"position": at.position, "quaternion": QUATERNION, "joints": at.joints, "velocity": at.velocity}
        for name, place in parts.items():
            object.__setattr__(found, name, own[place])
        return found

    @property
    def vector(self) -> Array:
        """The flat state: position 3, quaternion 4, joints n, velocity 6 + n."""
        return np.concatenate([self.position, self.quaternion, self.joints, self.velocity])

    @property
    def pose(self) -> Array:
        """Position and quaternion of the base (7,)."""
        return np.concatenate([self.position, self.quaternion])

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.joints.size)

    @property
    def rates(self) -> Array:
        """Joint rates, rad/s or m/s."""
        return self.velocity[6:]

    @property
    def base_velocity(self) -> Array:
        """Velocity of the base frame's origin in world axes, m/s."""
        velocity: Array = rotation_matrices(self.quaternion) @ self.velocity[:3]
        return velocity

    @property
    def base_angular_velocity(self) -> Array:
        """Angular velocity of the base in world axes, rad/s."""
        velocity: Array = rotation_matrices(self.quaternion) @ self.velocity[3:6]
        return velocity

    def check(self, robot: Robot) -> State:
        """This state, if it fits the robot."""
        if self.n != robot.n:
            raise InputError(
                f"has {self.n} joints, robot {robot.name!r} has {robot.n}", place="state", hint=f"expected {robot.n}"
            )
        check_angles(robot, self.joints)
        return self
