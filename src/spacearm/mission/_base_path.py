"""Path of the base from hold point to hold point, each of which moves with the target or with the orbit's axes.

A hold point of frame ``target`` is fixed in the target's body: to be there is to fly around a target that tumbles, in
step with it. One of frame ``orbit`` keeps its place from the target's mass centre in world axes. On the way from one
to the other, axes about the mass centre go over from those of the first to those of the second, by a share of the time
that rises smoothly from 0 to 1; in these axes the base moves on a straight line or on an arc, and changes its attitude
about a fixed axis. So it takes up the tumble while it comes nearer. Grid times of the target's motion, SI units, world
axes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, error_context
from spacearm.mission._encounter import FACING, Encounter, HandPoseSignals, fit_pose_signals, smooth_step
from spacearm.model import Pose
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import State
from spacearm.typing import Array

#: rad, of an arc about the target: near half a revolution its plane is not determined.
LARGEST_ARC = np.radians(170.0)
#: m, from the target's mass centre, of the ends of an arc at least.
NEAREST = 1e-3


@dataclass(frozen=True, eq=False)
class HoldPoint:
    """A pose of the base that it goes to and stays at.

    Args:
        frame: what carries it.
        pose: of the base, from the target's mass centre, in axes of ``frame``.
        transfer, stay: s to get there, and s that it is kept.
        is_arc: whether the way there is an arc about the target's mass centre.
    """

    frame: Literal["target", "orbit"]
    pose: Pose
    transfer: float
    stay: float
    is_arc: bool


@dataclass(frozen=True, eq=False)
class TargetMotion:
    """Frame of the target's body over time."""

    times: Array  # (T,) s
    origin: Array  # (T, 3) m
    rotation: Array  # (T, 3, 3)
    centre: Array  # (T, 3) mass centre, m

    @classmethod
    def from_encounter(cls, met: Encounter, grasp: Pose, com: Array) -> TargetMotion:
        rotation = met.rotation @ (grasp.rotation @ FACING).T
        origin = met.position - rotation @ grasp.translation
        return cls(met.times, origin, rotation, origin + rotation @ com)

    def follow_centre(self, time: float) -> tuple[Array, Array]:
        """Place (3,) and velocity (3,) of the mass centre at a time, s."""
        from scipy.interpolate import CubicSpline

        path = CubicSpline(self.times, self.centre)
        at = min(time, float(self.times[-1]))
        return np.asarray(path(at)), np.asarray(path(at, 1))

    def axes(self, frame: str) -> Array:
        """Rotations (T, 3, 3) of the axes of hold points of a frame, about the mass centre."""
        return self.rotation if frame == "target" else np.broadcast_to(np.eye(3), self.rotation.shape)


def plan_base_path(target: TargetMotion, holds: Sequence[HoldPoint], start: State) -> HandPoseSignals:
    """The path of the base from its state at time zero by all hold points, and with the last one to the end."""
    from scipy.spatial.transform import Rotation

    times, begin, frame = target.times, 0.0, "orbit"
    initial = rotation_matrices(start.quaternion)
    velocity, angular_rate = initial @ start.velocity[:3], initial @ start.velocity[3:6]
    # Of the servicer as it starts, then of each hold point: from the mass centre, in axes of its frame.
    # Until it is led away the base drifts: a path that starts from its motion does not begin with a jump of the
    # velocity.
    place = start.position + np.outer(times, velocity) - target.centre
    rotation = (Rotation.from_rotvec(np.outer(times, angular_rate)) * Rotation.from_matrix(initial)).as_matrix()
    found_place, found_rotation = target.centre + place, rotation
    for number, hold in enumerate(holds):
        end = begin + hold.transfer
        share, moving = smooth_step((times - begin) / hold.transfer), (times > begin - 1e-9) & (times < end + 1e-9)
        first, second = target.axes(frame), target.axes(hold.frame)
        # Smooth in every part: axes, place and attitude share one quintic, so that rates and accelerations begin and
        # end at zero relative to what carries the hold points.
        axes = _blend_rotations(first, second, share, moving)
        blend = _blend_arc if hold.is_arc else _blend_line
        there = np.broadcast_to(hold.pose.translation, place.shape)
        with error_context(f"rendezvous.hold[{number}]"):
            path = blend(place, there, share, moving)
        aim = np.broadcast_to(hold.pose.rotation, rotation.shape)
        attitude = _blend_rotations(rotation, aim, share, moving)
        later = times > begin + 1e-9
        found_place = np.where(later[:, None], target.centre + np.einsum("tij,tj->ti", axes, path), found_place)
        found_rotation = np.where(later[:, None, None], axes @ attitude, found_rotation)
        place, rotation, frame, begin = there, aim, hold.frame, end + hold.stay
    quaternion = Rotation.from_matrix(found_rotation).as_quat(scalar_first=True)
    return fit_pose_signals(times, found_place, quaternion)


def _blend_line(first: Array, second: Array, share: Array, moving: npt.NDArray[np.bool_]) -> Array:
    del moving
    return first + share[:, None] * (second - first)


def _blend_arc(first: Array, second: Array, share: Array, moving: npt.NDArray[np.bool_]) -> Array:
    """Places on arcs about the mass centre: directions by angle, distances evenly by the share."""
    a, b = (np.linalg.norm(each, axis=1, keepdims=True) for each in (first, second))
    if min(float(np.min(a[moving], initial=np.inf)), float(np.min(b[moving], initial=np.inf))) < NEAREST:
        raise InputError(
            "the arc begins or ends at the target's mass centre",
            hint="expected a place of the servicer ('start.position') and a hold point away from the target",
        )
    u, v = first / np.maximum(a, NEAREST), second / np.maximum(b, NEAREST)
    angle = np.arccos(np.clip(np.sum(u * v, axis=1, keepdims=True), -1.0, 1.0))
    if float(np.max(angle[moving], initial=0.0)) > LARGEST_ARC:
        raise InputError(
            "the arc about the target is nearly half a revolution: its plane is not determined",
            hint="expected a hold point between, or a straight path",
        )
    size, part = np.maximum(np.sin(angle), 1e-12), share[:, None]
    # Of directions that nearly agree, the chord is the arc.
    weights = [np.where(angle > 1e-6, np.sin(s * angle) / size, s) for s in (1.0 - part, part)]
    return np.asarray((a + part * (b - a)) * (weights[0] * u + weights[1] * v))


def _blend_rotations(first: Array, second: Array, share: Array, moving: npt.NDArray[np.bool_]) -> Array:
    """Rotations (T, 3, 3) from the first to the second, about the axis of the rotation between them.

    It may be more than half a revolution at both ends, and is less than that half way: so it takes the least motion.
    """
    from scipy.spatial.transform import Rotation

    # A target that tumbles passes half a revolution from the other axes at some time: there the shortest rotation flips
    # its axis. The rotation vector is continued from the middle of the transfer instead.
    between = Rotation.from_matrix(np.swapaxes(first, 1, 2) @ second).as_rotvec()
    rows = np.flatnonzero(moving)
    middle = rows.size // 2
    for order in (rows[middle:], rows[middle::-1]):
        for before, k in itertools.pairwise(order):
            if (angle := float(np.linalg.norm(between[k]))) > 1e-9:
                axis = between[k] / angle
                # The same rotation by other numbers of revolutions: the one nearest to that of the time before.
                count = round(float((axis @ between[before] - angle) / (2.0 * np.pi)))
                between[k] += 2.0 * np.pi * count * axis
    return np.asarray(first @ Rotation.from_rotvec(share[:, None] * between).as_matrix())
