"""Attitudes as functions of time for laws to follow: rotation about one axis, and quaternion splines.

A spline runs through the four components and is normalised where it is read: simple, as smooth as the components, and
exact in angular velocity and acceleration, which follow from q, q', q'' of any length in closed form: 2 vec(q' q*) /
|q|^2 and its derivative. Its speed between waypoints is not constant; for rotations below half a revolution between
neighbours the difference from a great arc is small (spherical interpolation: K. Shoemake, Animating rotation with
quaternion curves, 1985). Neighbours get the same sign, so that the spline takes the shorter rotation.

Both kinds exist twice with the same formulas: as expressions that a law compiles, and as functions of a time that
plans call. Quaternions (w, x, y, z) map frame to world; rates in world axes, rad/s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, unit_vector
from spacearm.errors import InputError, error_context
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX, rotation_matrix
from spacearm.model.rotations import rotation_about, rotation_from_quaternion
from spacearm.simulate.signals import Signal, as_signal
from spacearm.typing import Array

#: Largest angle between neighbouring waypoints of a spline: beyond it the shorter rotation is ambiguous.
LARGEST_ROTATION = 0.95 * np.pi


@dataclass(frozen=True, eq=False)
class AttitudeRotation:
    """An attitude over time: ``start`` (quaternion, frame to world) rotated about ``axis`` (world) by ``angle``."""

    start: npt.ArrayLike
    axis: npt.ArrayLike = (0.0, 0.0, 1.0)
    angle: Any = 0.0

    def __post_init__(self) -> None:
        unit_vector(self.start, "start attitude", (4,))
        unit_vector(self.axis, "axis")

    @property
    def references(self) -> dict[str, Any]:
        """Reference signals that a law reads."""
        return {"angle": self.angle}

    @property
    def constants(self) -> dict[str, npt.ArrayLike]:
        """Constants that a law reads."""
        return {"start": self.start, "axis": self.axis}

    @staticmethod
    def rotation(plant: Plant) -> SX:
        """Rotation matrix, frame to world."""
        # A rotation about one fixed axis: its rate is the axis times the angle's rate, with no further term.
        angle, cross = plant.reference("angle").value, ca.skew(plant.constant("axis", 3))
        # Rodrigues' formula.
        rotation = ca.SX.eye(3) + ca.sin(angle) * cross + (1 - ca.cos(angle)) * (cross @ cross)
        return rotation @ rotation_matrix(plant.constant("start", 4))

    @staticmethod
    def motion(plant: Plant, order: int) -> SX:
        """Angular velocity (1) or acceleration (2), world axes."""
        return plant.constant("axis", 3) * plant.reference("angle")[order]

    def __call__(self, time: float) -> tuple[Array, Array]:
        """Rotation matrix (frame to world) and angular velocity (world axes) at a time."""
        angle, axis = as_signal(self.angle, "angle"), np.asarray(self.axis, dtype=np.float64)
        rotation = rotation_about(axis, angle(time)) @ rotation_from_quaternion(
            np.asarray(self.start, dtype=np.float64)
        )
        return rotation, angle.derivative()(time) * axis


@dataclass(frozen=True, eq=False)
class AttitudeSpline:
    """An attitude over time: the direction of four signals, a quaternion (w, x, y, z; frame to world) of any length.

    If the signals have continuous second derivatives, angular velocity and angular acceleration are continuous.
    """

    quaternion: Sequence[Signal]

    @classmethod
    def interpolate(
        cls, times: npt.ArrayLike, attitudes: npt.ArrayLike, angular_rate: npt.ArrayLike = (0.0, 0.0, 0.0)
    ) -> AttitudeSpline:
        """A spline through quaternions (K, 4) at these times (s) as :func:`rest_spline`, with this initial angular
        velocity (world).
        """
        with error_context("attitude spline"):
            quaternions = array(attitudes, "attitudes", ("K", 4))
            quaternions = np.array([unit_vector(each, f"attitude {k}", (4,)) for k, each in enumerate(quaternions)])
            for k in range(1, len(quaternions)):
                # Give neighbours the same sign, so that the spline takes the shorter rotation.
                quaternions[k] *= 1.0 if quaternions[k] @ quaternions[k - 1] >= 0.0 else -1.0
                angle = 2.0 * np.arccos(min(1.0, float(quaternions[k] @ quaternions[k - 1])))
                if angle > LARGEST_ROTATION:
                    raise InputError(
                        f"attitudes {k - 1} and {k} are {np.degrees(angle):.3g} deg apart",
                        hint=f"expected at most {np.degrees(LARGEST_ROTATION):g}: give one between them",
                    )
            wx, wy, wz = array(angular_rate, "spin", (3,))
            # q' = 1/2 (0, w) q with the angular velocity in world axes.
            w, x, y, z = 0.5 * quaternions[0]
            rate = (
                -wx * x - wy * y - wz * z,
                wx * w + wy * z - wz * y,
                wy * w + wz * x - wx * z,
                wz * w + wx * y - wy * x,
            )
            return cls(tuple(rest_spline(times, *both) for both in zip(quaternions.T, rate, strict=True)))

    @property
    def references(self) -> dict[str, Any]:
        """Reference signals that a law reads."""
        return {"quaternion": self.quaternion}

    @property
    def constants(self) -> dict[str, npt.ArrayLike]:
        """None."""
        return {}

    @staticmethod
    def rotation(plant: Plant) -> SX:
        """Rotation matrix, frame to world."""
        value = plant.reference("quaternion").value
        return rotation_matrix(value / ca.norm_2(value))

    @staticmethod
    def motion(plant: Plant, order: int) -> SX:
        """Angular velocity (1) or acceleration (2), world axes."""
        return _angular_motion(*plant.reference("quaternion"))[order - 1]

    def __call__(self, time: float) -> tuple[Array, Array]:
        """Rotation matrix (frame to world) and angular velocity (world axes) at a time."""
        value, rate, bend = (np.array([each(time) for each in order]) for order in self._orders)
        angular_rate, _ = _numeric()(value, rate, bend)
        return rotation_from_quaternion(value / np.linalg.norm(value)), np.array(angular_rate).ravel()

    @cached_property
    def _orders(self) -> list[list[Signal]]:
        rates = [each.derivative() for each in self.quaternion]
        return [[*self.quaternion], rates, [each.derivative() for each in rates]]


Attitude = AttitudeRotation | AttitudeSpline


def references_of(attitude: Attitude | None) -> Mapping[str, Any]:
    return {} if attitude is None else attitude.references


def _angular_motion(value: SX, rate: SX, bend: SX) -> tuple[SX, SX]:
    """Angular velocity and acceleration, world axes, of a quaternion of any length: 2 vec(q' q*) / |q|^2 and its rate.

    The part of q' along q only changes the length, and drops out of the vector part.
    """
    # Derived from w = 2 vec(q' q*) / |q|^2: the second term is that of the growing length.
    square = ca.dot(value, value)
    angular_rate = 2 * _vector(rate, value) / square
    return angular_rate, 2 * _vector(bend, value) / square - 2 * ca.dot(value, rate) / square * angular_rate


def _vector(p: SX, q: SX) -> SX:
    """Vector part of p q*."""
    return q[0] * p[1:] - p[0] * q[1:] - ca.cross(p[1:], q[1:])


@cache
def _numeric() -> Any:
    each = [ca.SX.sym(name, 4) for name in ("value", "rate", "bend")]
    return ca.Function("spin", each, [*_angular_motion(*each)])


def rest_spline(times: npt.ArrayLike, values: npt.ArrayLike, rate: float = 0.0) -> Signal:
    """A spline through values at times, at rest at the end, with continuous acceleration; constant afterwards.

    Quintic segments with four continuous derivatives inside, zero acceleration at both ends; ``rate`` at the start.
    """
    from scipy.interpolate import make_interp_spline

    with error_context("spline"):
        t, v = array(times, "times", ("K",)), array(values, "values", ("K",))
        if t.size < 2 or v.size != t.size or np.any(np.diff(t) <= 0.0):
            raise InputError(f"{t.size} times and {v.size} values", hint="expected two or more, at rising times")
    # A quintic spline has four conditions to spare: rate and acceleration at each end. Accelerations of zero there let
    # it join phases at rest without a jump of torque.
    first, last = [(1, float(rate)), (2, 0.0)], [(1, 0.0), (2, 0.0)]
    return _hold_last_value(make_interp_spline(t, v, k=5, bc_type=(first, last)), t, v)


def smooth_spline(times: Array, values: Array) -> Signal:
    """A quintic spline through many values, constant afterwards."""
    from scipy.interpolate import make_interp_spline

    return _hold_last_value(make_interp_spline(times, values, k=5), times, values)


def _hold_last_value(spline: Any, times: Array, values: Array) -> Signal:
    """A quintic spline as a signal that keeps its last value."""
    from scipy.interpolate import PPoly

    fit = PPoly.from_spline(spline)
    # Knots at the ends are sixfold: intervals of no length are left out. One more interval holds the last value.
    inside = np.flatnonzero(np.diff(fit.x) > 0.0)
    pieces = np.column_stack([fit.c[::-1, inside], [values[-1], 0, 0, 0, 0, 0]])
    return Signal(np.append(fit.x[inside], [times[-1], 2 * times[-1] - times[0]]), pieces)
