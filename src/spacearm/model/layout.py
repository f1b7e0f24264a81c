"""Where each number of a robot's state stands in one flat vector: the one place that knows.

State: position 3, quaternion 4, joints n, generalised velocity 6 + n (linear and angular velocity of the base, joint
rates). Slices serve NumPy arrays (last axis) and CasADi columns alike::

    at = Layout(robot.n)
    rates = states[..., at.rates]
"""

from __future__ import annotations

from dataclasses import dataclass

from spacearm.errors import InputError

#: Degrees of freedom of a floating base, and the numbers of its pose.
BASE_DOFS, BASE_POSE = 6, 7


#: Stands there in every state, whatever the number of joints.
QUATERNION = slice(3, BASE_POSE)


@dataclass(frozen=True, slots=True)
class Layout:
    """The state of a robot with ``n`` joints, beginning at ``start`` (several robots stand one behind the other)."""

    n: int
    start: int = 0

    @classmethod
    def from_size(cls, size: int) -> Layout:
        """The layout of a flat state of so many numbers."""
        if size < BASE_POSE + BASE_DOFS or (size - BASE_POSE - BASE_DOFS) % 2:
            raise InputError(f"a state has {size} numbers", hint="expected 13 + 2 n")
        return cls((size - BASE_POSE - BASE_DOFS) // 2)

    @property
    def size(self) -> int:
        return BASE_POSE + BASE_DOFS + 2 * self.n

    @property
    def stop(self) -> int:
        return self.start + self.size

    @property
    def dofs(self) -> int:
        """Degrees of freedom: the base's six and the joints."""
        return BASE_DOFS + self.n

    @property
    def whole(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def position(self) -> slice:
        """Base frame's origin in the world, m."""
        return slice(self.start, self.start + 3)

    @property
    def quaternion(self) -> slice:
        """Base to world, scalar first."""
        return slice(self.start + 3, self.start + BASE_POSE)

    @property
    def pose(self) -> slice:
        """Position and quaternion."""
        return slice(self.start, self.start + BASE_POSE)

    @property
    def joints(self) -> slice:
        return slice(self.start + BASE_POSE, self.start + BASE_POSE + self.n)

    @property
    def velocity(self) -> slice:
        """Generalised velocity: base linear and angular velocity in base axes, joint rates."""
        return slice(self.start + BASE_POSE + self.n, self.stop)

    @property
    def base_velocity(self) -> slice:
        """Linear and angular velocity of the base, base axes."""
        first = self.velocity.start
        return slice(first, first + BASE_DOFS)

    @property
    def linear_velocity(self) -> slice:
        """Place of the velocity of the base frame's origin, base axes, m/s."""
        first = self.velocity.start
        return slice(first, first + 3)

    @property
    def angular_velocity(self) -> slice:
        """Place of the angular velocity of the base, base axes, rad/s."""
        first = self.velocity.start
        return slice(first + 3, first + BASE_DOFS)

    @property
    def rates(self) -> slice:
        """Place of the joint rates."""
        return slice(self.velocity.start + BASE_DOFS, self.stop)

    def joint(self, index: int) -> int:
        """Place of a joint's position."""
        return self.start + BASE_POSE + index

    def speed(self, dof: int) -> int:
        """Place of a degree of freedom's velocity; the base's six come first."""
        return self.start + BASE_POSE + self.n + dof
