"""Where a robot is and how it moves, at one instant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.checks import UNIT_TOLERANCE, numbers
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

#: A length this near to one is one up to rounding.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


def _vector(value: npt.ArrayLike, size: int, what: str) -> Array:
    array = np.array(numbers(value, what))
    if array.shape != (size,):
        raise InputError(f"has shape {array.shape}", place=what, hint=f"expected {size} numbers")
    if not np.all(np.isfinite(array)):
        raise InputError(f"is not finite: {array.tolist()}", place=what)
    array.setflags(write=False)
    return array


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

    @classmethod
    def at_rest(
        cls,
        robot: Robot,
        joints: npt.ArrayLike | str | None = None,
        *,
        position: npt.ArrayLike = (0.0, 0.0, 0.0),
        quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    ) -> State:
        """Nothing moves; ``joints`` are positions or the name of a configuration."""
        return cls.moving(robot, joints, position=position, quaternion=quaternion)

    @classmethod
    def moving(
        cls,
        robot: Robot,
        joints: npt.ArrayLike | str | None = None,
        rates: npt.ArrayLike | None = None,
        *,
        position: npt.ArrayLike = (0.0, 0.0, 0.0),
        quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
        base_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
        base_angular_velocity: npt.ArrayLike = (0.0, 0.0, 0.0),
    ) -> State:
        """From velocities of the base in WORLD axes (m/s, rad/s) and joint rates."""
        if joints is None:
            angles = robot.configuration("zero")
        elif isinstance(joints, str):
            angles = robot.configuration(joints)
        else:
            angles = _vector(joints, robot.n, "joint positions")
        speeds = np.zeros(robot.n) if rates is None else _vector(rates, robot.n, "joint rates")
        check_angles(robot, angles)
        still = cls(np.asarray(position), np.asarray(quaternion), angles, np.zeros(6 + robot.n))
        to_base = rotation_matrices(still.quaternion).T
        linear = to_base @ _vector(base_velocity, 3, "base velocity")
        angular = to_base @ _vector(base_angular_velocity, 3, "base angular velocity")
        return cls(still.position, still.quaternion, angles, np.concatenate([linear, angular, speeds]))

    @classmethod
    def from_vector(cls, vector: npt.ArrayLike) -> State:
        """From the flat state: position 3, quaternion 4, joints n, velocity 6 + n."""
        array = numbers(vector, "state")
        if array.ndim != 1 or array.size < 13 or (array.size - 13) % 2:
            raise InputError(f"has shape {array.shape}", place="state", hint="expected 13 + 2 n numbers")
        n = (array.size - 13) // 2
        return cls(array[:3], array[QUATERNION], array[Layout(n).joints], array[Layout(n).velocity])

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
                f"has {self.n} joints, robot {robot.name!r} has {robot.n}", place="state", hint="expected as many"
            )
        check_angles(robot, self.joints)
        return self
