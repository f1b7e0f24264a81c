"""Pinocchio's own numbers for a URDF text, in spacearm's coordinates: what ``tools/robots.py`` compares with."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pinocchio

from spacearm.model import Robot
from spacearm.typing import Array

if TYPE_CHECKING:
    from robots import State


@contextlib.contextmanager
def parser_errors() -> Iterator[list[str]]:
    """What a library writes to the process's stderr and calls an error, filled in at the end."""
    found: list[str] = []
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield found
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            text = file.read().decode("utf-8", errors="replace")
            found += [" ".join(line.split()[1:]) for line in text.splitlines() if line.startswith("Error:")]


class PinocchioModel:
    """A URDF text in Pinocchio with a free-flyer at its root; speaks the coordinates of ``robot``.

    The robot's base may lie elsewhere on Pinocchio's root body: velocities are moved by a constant transform.
    """

    def __init__(self, text: str) -> None:
        self.pin = pinocchio
        with parser_errors() as self.skipped:
            self.model = pinocchio.buildModelFromXML(text, pinocchio.JointModelFreeFlyer())
        self.model.gravity = pinocchio.Motion.Zero()
        self.data = self.model.createData()

    def fit(self, robot: Robot) -> None:
        """Take over the robot's coordinates; raises ``ValueError`` where this is another mechanism."""
        model = self.model
        if model.nv != robot.dofs or not all(model.existJointName(name) for name in robot.joint_names):
            raise ValueError("its joints are others")
        frame = model.frames[model.getFrameId(robot.bodies[0].name, self.pin.FrameType.BODY)]
        if frame.parentJoint != 1:
            raise ValueError("its base is another")
        self.base = frame.placement
        self.ids = [model.getJointId(name) for name in robot.joint_names]
        self.map = np.zeros((model.nv, robot.dofs))
        self.map[:6, :6] = self.base.action
        for column, index in enumerate(self.ids):
            self.map[model.idx_vs[index], 6 + column] = 1.0

    def configuration(self, state: State) -> Array:
        pin, model = self.pin, self.model
        w, x, y, z = state.quaternion
        root = pin.SE3(pin.Quaternion(w, x, y, z).matrix(), state.position) * self.base.inverse()
        q = pin.neutral(model)
        q[:7] = pin.SE3ToXYZQUAT(root)
        for index, value in zip(self.ids, state.joints, strict=True):
            start, size = model.idx_qs[index], model.nqs[index]
            q[start : start + size] = [np.cos(value), np.sin(value)] if size == 2 else value
        return np.asarray(q)

    def __call__(self, state: State, held: Array, frames: list[str]) -> dict[str, Array]:
        pin, model, data = self.pin, self.model, self.data
        q, v = self.configuration(state), self.map @ state.velocity
        upper = np.triu(pin.crba(model, data, q))
        mass = self.map.T @ (upper + np.triu(upper, 1).T) @ self.map
        bias = self.map.T @ np.array(pin.nonLinearEffects(model, data, q, v))
        result = {"mass_matrix": mass, "bias": bias}
        if not held.any():
            back = np.linalg.inv(self.map)
            result["forward dynamics"] = back @ np.array(pin.aba(model, data, q, v, back.T @ state.force))
        else:
            result["forward dynamics"] = free_acceleration(mass, state.force - bias, held)
        for frame in frames:
            index = model.getFrameId(frame, pin.FrameType.BODY)
            jacobian = np.array(pin.computeFrameJacobian(model, data, q, index, pin.LOCAL_WORLD_ALIGNED))
            result[f"jacobian of {frame}"] = jacobian @ self.map
        h = pin.computeCentroidalMomentum(model, data, q, v)
        angular = np.array(h.angular) + np.cross(np.array(data.com[0]), np.array(h.linear))
        return {**result, "momentum": np.concatenate([np.array(h.linear), angular])}

    def poses(self, robot: Robot, joints: Array) -> dict[str, Array]:
        """Places of all frames as :func:`poses` has them; joints that the robot does not have stay at zero."""
        pin, model = self.pin, self.model
        q = pin.neutral(model)
        for joint, value in zip(robot.joints, joints, strict=True):
            if model.existJointName(joint.name):
                index = model.getJointId(joint.name)
                start, size = model.idx_qs[index], model.nqs[index]
                q[start : start + size] = [np.cos(value), np.sin(value)] if size == 2 else value
        pin.framesForwardKinematics(model, self.data, q)
        base = self.data.oMf[model.getFrameId(robot.bodies[0].name, pin.FrameType.BODY)].inverse()
        links = [i for i, frame in enumerate(model.frames) if frame.type == pin.FrameType.BODY]
        return {model.frames[i].name: np.array((base * self.data.oMf[i]).homogeneous) for i in links}


def free_acceleration(mass: Array, force: Array, held: Array) -> Array:
    """Accelerations with the held degrees of freedom at rest."""
    free = np.flatnonzero(held == 0.0)
    result = np.zeros(len(mass))
    result[free] = np.linalg.solve(mass[np.ix_(free, free)], force[free])
    return result
