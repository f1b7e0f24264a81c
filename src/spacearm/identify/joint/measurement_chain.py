"""Angles of flexible joints from sensors: Eq. 21 of Wojtunik 2023, in closed form and by least squares.

Encoders sit at the motors and at the rigid joints; a vision system sees the poses of the base and of a frame on the
hand. The angle of a flexible joint is what makes the two fit together: for one joint, the rotation about its axis that
takes the hand as computed at angle zero to where it was seen, by its position or its attitude. For any number of
joints and both at once, Gauss-Newton on the six errors of the hand at each sample, weighted by their covariance (A. C.
Aitken, On least squares and linear combination of observations, 1935).

That covariance holds what all sensors contribute: the base's pose moves the computed hand as a motion of the base
would, encoders through the frame's Jacobian. One base reading serves the angle and the base's own channel, so that
their errors are correlated, and errors of encoders are the same sensor's at all samples: both are handed on with the
angles. Poses are (..., 7): position (m) and quaternion (w, x, y, z), in the world. Errors of attitudes are small
rotation vectors in world axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, non_negative, one_of
from spacearm.engine import Mechanics
from spacearm.errors import InputError, error_context
from spacearm.identify.joint.flexible_joints import flexible_joints
from spacearm.mechanics.sensors import Encoder, Sensor
from spacearm.model import Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

Method = Literal["least_squares", "position", "orientation"]


#: Standard deviations of readings whose sensors state none: joints and attitudes rad, positions m, torques N m.
ASSUMED = {
    "joint_position": 1e-4,
    "position": 5e-4,
    "attitude": 1e-3,
    "frame_position": 5e-4,
    "frame_attitude": 1e-3,
    "torque": 0.01,
}
_ANGLES = ("joint_position", "attitude", "frame_attitude")


def noise_by_channel(robot: Robot, sensors: Sequence[Sensor]) -> dict[str, float]:
    """Standard deviation of a reading by channel, :data:`ASSUMED` where no sensor states it.

    ``link`` is that of a flexible link's own angle: of an encoder of such joints alone, as the others' where none is.
    """
    links = {f.name for f in flexible_joints(robot)}
    found: dict[str, float] = {}
    for sensor in sensors:
        own = isinstance(sensor, Encoder) and sensor.joints is not None and {*sensor.joints} <= links
        with error_context(sensor.place):
            check_name(sensor.channel, ASSUMED, "channel of a joint's test")
            name = "link" if own else sensor.channel
            if name in found:
                raise InputError("another sensor measures the same", hint="expected one for each channel")
            value = array(sensor.noise, "noise", (), hint="expected one number for all entries")
            hint = "expected at least 0 and less than half a turn, rad"
            most: dict[str, Any] = {"below": np.pi, "hint": hint} if sensor.channel in _ANGLES else {}
            found[name] = non_negative(float(value), "noise", **most)
    every = ASSUMED | found
    return {**every, "link": every.get("link", every["joint_position"])}


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Angles of the flexible joints with their errors; base and hand errors are (position 3, attitude 3), world axes.

    ``covariance`` (T, F, F) of the angles; ``with_base`` (T, F, 6) between them and the errors of the base's pose;
    ``by_encoder``: joint to (T, F), how far the angles move for an error of 1 rad in that joint's encoder;
    ``misfit`` (T,) distance between the hand as seen and as computed, in standard deviations.
    """

    names: tuple[str, ...]
    angles: Array
    covariance: Array
    with_base: Array
    misfit: Array
    by_encoder: dict[str, Array]

    @property
    def std(self) -> Array:
        """Standard deviations (T, F), rad."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))


def rotation_vector(rotation: Array) -> Array:
    """Rotation vectors (..., 3), rad, of rotation matrices (..., 3, 3); for angles well below pi."""
    skew = np.stack(
        [
            rotation[..., 2, 1] - rotation[..., 1, 2],
            rotation[..., 0, 2] - rotation[..., 2, 0],
            rotation[..., 1, 0] - rotation[..., 0, 1],
        ],
        axis=-1,
    )
    # By sine and cosine: the arc cosine alone loses half of the digits of small angles.
    sine = 0.5 * np.linalg.norm(skew, axis=-1)
    angle = np.arctan2(sine, 0.5 * (np.trace(rotation, axis1=-2, axis2=-1) - 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = np.where(sine > 1e-9, angle / (2.0 * sine), 0.5)
    return factor[..., None] * skew


class MeasurementChain:
    """The measurement chain of a robot with flexible joints and a frame that the vision system sees."""

    def __init__(self, robot: Robot, frame: str, sensors: Sequence[Sensor] = ()) -> None:
        self.robot, self.frame = robot, robot.frame(frame).name
        #: Standard deviation of a reading by channel.
        self.noise = noise_by_channel(robot, sensors)
        self.mechanics = Mechanics(robot)
        self.flexible = flexible_joints(robot)
        self.links = [f.link for f in self.flexible]
        motors = {f.motor for f in self.flexible}
        self.encoded = [i for i in range(robot.n) if i not in self.links and i not in motors]
        moves = set(_path(robot, robot.frame(frame).body))
        for f in self.flexible:
            if f.link not in moves:
                raise InputError(
                    f"frame {frame!r} is not carried by the flexible joint {f.name!r}", place="measurement chain"
                )

    def reconstruct(
        self, joints: npt.ArrayLike, base: npt.ArrayLike, hand: npt.ArrayLike, method: Method = "least_squares"
    ) -> Reconstruction:
        """Angles of the flexible joints.

        Args:
            joints: encoder readings (T, n) in the robot's order; the entries of the flexible links are not looked at,
                those of their motors choose the branch (angles that differ by 2 pi).
            base, hand: poses (T, 7) as seen.
            method: ``position`` and ``orientation`` are the closed forms for one flexible joint; least squares takes
                both, weighted by what the sensors' noise makes of them, for any number of joints.
        """
        q, base, hand = (np.array(a, dtype=np.float64) for a in (joints, base, hand))
        with error_context("measurement chain"):
            array(q, "joints", ("T", self.robot.n), finite=False)
            array(base, "base", (len(q), 7), finite=False)
            array(hand, "hand", (len(q), 7), finite=False)
            one_of(method, get_args(Method), "method")
        bad = ~(np.isfinite(base).all(1) & np.isfinite(hand).all(1) & np.isfinite(q[:, self.encoded]).all(1))
        if bad.any():
            raise InputError(
                f"row {int(np.flatnonzero(bad)[0])} is not finite ({int(bad.sum())} such rows)",
                place="measurement chain", hint="leave such rows out",
            )  # fmt: skip
        if method != "least_squares" and len(self.links) > 1:
            raise InputError(f"{method!r} finds one angle, {len(self.links)} joints are flexible",
                             place="measurement chain", hint="use least_squares")  # fmt: skip
        # Relaxed springs: a start for the iteration, and the branch of the result (deflections are far below half a
        # turn).
        rest = np.stack([f.ratio * q[:, f.motor] + f.rest for f in self.flexible], axis=1)
        q[:, self.links] = rest
        if len(self.links) == 1:
            kind = "orientation" if method == "orientation" else "position"
            q[:, self.links[0]] = self._solve_closed_form(q, base, hand, kind)
        if method == "least_squares":
            self._least_squares(q, base, hand)
        # The hand shows an angle up to full revolutions: the motor's encoder tells which.
        q[:, self.links] -= 2.0 * np.pi * np.round((q[:, self.links] - rest) / (2.0 * np.pi))
        gain, total, jacobian = self._gain(q, base, method)
        covariance = gain @ total @ np.swapaxes(gain, -1, -2)
        noise = np.repeat([self.noise["position"] ** 2, self.noise["attitude"] ** 2], 3)
        # The same base reading serves the angle and the base channel: their errors are correlated.
        with_base = -gain @ self._world(jacobian, base) * noise
        error = self._error(q, base, hand)
        left = np.linalg.solve(total, error[..., None])[..., 0]
        misfit = np.sqrt(np.maximum(np.sum(error * left, axis=-1), 0.0))
        names = self.robot.joint_names
        by_encoder = {names[i]: -(gain @ jacobian[..., [6 + i]])[..., 0] for i in self.encoded}
        return Reconstruction(
            tuple(f.name for f in self.flexible), q[:, self.links], covariance, with_base, misfit, by_encoder
        )

    def _solve_closed_form(self, q: Array, base: Array, hand: Array, kind: str) -> Array:
        """Eq. 21 solved for the one angle: by directions across the axis, or by the attitude about it."""
        link = self.links[0]
        joint = self.robot.joints[link]
        zeroed = q.copy()
        # The angle is that by which the frame, computed at angle zero, must be rotated about the axis to where it was
        # seen.
        zeroed[:, link] = 0.0
        origins, rotations = self.mechanics.body_poses(zeroed, base=base)
        origin, rotation = origins[:, link + 1], rotations[:, link + 1]  # child frame at angle zero
        tip, axes = self.mechanics.frame_pose(self.frame, zeroed, base=base)
        axis = np.einsum("tij,j->ti", rotation, joint.axis)
        if kind == "position":
            arm, seen = tip - origin, hand[:, :3] - origin
        else:
            relative = rotation_matrices(hand[:, 3:]) @ np.swapaxes(axes, -1, -2)
            arm = np.einsum("tij,j->ti", rotation, _perpendicular(joint.axis))
            seen = np.einsum("tij,tj->ti", relative, arm)
        # Components along the axis do not depend on the angle and would only add noise.
        arm = arm - axis * np.sum(arm * axis, axis=1, keepdims=True)
        seen = seen - axis * np.sum(seen * axis, axis=1, keepdims=True)
        if kind == "position" and np.min(np.linalg.norm(arm, axis=1)) < 1e-6:
            raise InputError("the frame lies on the flexible joint's axis", place="measurement chain",
                             hint="use the orientation")  # fmt: skip
        sine = np.sum(np.cross(arm, seen) * axis, axis=1)
        angle: Array = np.arctan2(sine, np.sum(arm * seen, axis=1))
        return angle

    def _error(self, q: Array, base: Array, hand: Array) -> Array:
        """Hand as seen minus hand as computed (T, 6): position, rotation vector; world axes."""
        origin, rotation = self.mechanics.frame_pose(self.frame, q, base=base)
        error = rotation_matrices(hand[:, 3:]) @ np.swapaxes(rotation, -1, -2)
        return np.concatenate([hand[:, :3] - origin, rotation_vector(error)], axis=1)

    def _least_squares(self, q: Array, base: Array, hand: Array, rounds: int = 20) -> None:
        """Gauss-Newton on all samples at once; ``q`` is changed in place."""
        for _ in range(rounds):
            gain, _, _ = self._gain(q, base, "least_squares")
            step = (gain @ self._error(q, base, hand)[..., None])[..., 0]
            q[:, self.links] += step
            if np.max(np.abs(step)) < 1e-13:
                break

    def _world(self, jacobian: Array, base: Array) -> Array:
        """Columns (T, 6, 6) for errors of the base's pose in world axes."""
        inward = np.swapaxes(rotation_matrices(base[:, 3:]), -1, -2)
        return np.concatenate([jacobian[..., :3] @ inward, jacobian[..., 3:6] @ inward], axis=-1)

    def _gain(self, q: Array, base: Array, method: Method) -> tuple[Array, Array, Array]:
        """Map (T, F, 6) from hand errors to angles, covariance (T, 6, 6) of those errors, frame Jacobian."""
        noise = self.noise
        jacobian = self.mechanics.jacobian(self.frame, q, base=base)
        # An error of the base's reading moves the computed hand like a motion of the base.
        by_base = self._world(jacobian, base)
        spread = np.repeat([noise["position"] ** 2, noise["attitude"] ** 2], 3)
        total = (by_base * spread) @ np.swapaxes(by_base, -1, -2)
        encoded = jacobian[..., [6 + i for i in self.encoded]]
        total = total + noise["joint_position"] ** 2 * encoded @ np.swapaxes(encoded, -1, -2)
        total = total + np.diag(np.repeat([noise["frame_position"] ** 2, noise["frame_attitude"] ** 2], 3))
        # Directions without any noise would make the weights infinite; 1e-9 m and rad is below every sensor.
        total = total + 1e-18 * np.eye(6)
        own = jacobian[..., [6 + i for i in self.links]]
        if method == "position":
            kept = own * np.array([1.0, 1, 1, 0, 0, 0])[:, None]
        elif method == "orientation":
            kept = own * np.array([0.0, 0, 0, 1, 1, 1])[:, None]
        else:
            # Generalised least squares (Gauss-Markov): weights are the inverse covariance of the hand's error.
            kept = np.linalg.solve(total, own)
        # Left inverse of the flexible joints' columns: gain @ own is one.
        across = np.swapaxes(kept, -1, -2)
        return np.linalg.solve(across @ own, across), total, jacobian


def _perpendicular(axis: Array) -> Array:
    """A unit vector across ``axis``."""
    other = np.eye(3)[int(np.argmin(np.abs(axis)))]
    across: Array = np.cross(axis, other)
    return across / np.linalg.norm(across)


def _path(robot: Robot, body: str) -> list[int]:
    """Joints from the base to a body."""
    chain, index = [], robot.body_index(body)
    while index:
        chain.append(index - 1)
        index = robot.parents[index - 1]
    return chain
