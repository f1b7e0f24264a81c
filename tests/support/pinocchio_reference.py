"""Pinocchio as a reference: its model is built joint by joint from a Robot, with no file format in between.

Pinocchio's free-flyer has the base's linear and angular velocity in base axes, as spacearm has. Its algorithms need the
joints in depth-first order, which spacearm does not promise, so velocities are permuted. A rotor is a further body of
purely axial inertia on the carrier, whose rate is ``ratio`` times its joint's: H = G^T H_extended G.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pinocchio as pin

from spacearm.model import Inertia, Pose, Robot
from spacearm.typing import Array
from support.random_robots import RandomState


class PinocchioReference:
    """A robot in Pinocchio, without gravity; every function takes the state it is asked for."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.model = pin.Model()
        self.model.gravity = pin.Motion.Zero()
        self._joint_ids: dict[str, int] = {}
        self._body_joint: dict[str, int] = {}
        base = robot.bodies[0]
        root = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
        self.model.appendBodyToJoint(root, _inertia(base.inertia), pin.SE3.Identity())
        self._body_joint[base.name] = root
        self._add_children(base.name)
        self._frames = {
            frame.name: self.model.addFrame(
                pin.Frame(frame.name, self._body_joint[frame.body], _se3(frame.placement), pin.FrameType.OP_FRAME)
            )
            for frame in robot.frames
        }
        self.data = self.model.createData()
        n = robot.n
        # Rates of the extended model from nu, and its coordinates from ours.
        self._gear = np.zeros((self.model.nv, 6 + n))
        self._gear[range(6), range(6)] = 1.0
        for i, joint in enumerate(robot.joints):
            self._gear[self.model.idx_vs[self._joint_ids[joint.name]], 6 + i] = 1.0
            if joint.rotor is not None:
                self._gear[self.model.idx_vs[self._joint_ids[f"{joint.name}:rotor"]], 6 + i] = joint.rotor.ratio
        self._has_rotors = self.model.nv > 6 + n

    def _add_children(self, body: str) -> None:
        for joint in self.robot.children(body):
            parent, place = self._body_joint[body], _se3(joint.placement)
            if joint.rotor is not None:
                index = self.model.addJoint(
                    parent, pin.JointModelRevoluteUnaligned(joint.axis), place, f"{joint.name}:rotor"
                )
                axial = joint.rotor.inertia * np.outer(joint.axis, joint.axis)
                angular_rate = pin.Inertia(0.0, np.zeros(3), axial)
                self.model.appendBodyToJoint(index, angular_rate, pin.SE3.Identity())
                self._joint_ids[f"{joint.name}:rotor"] = index
            kind = pin.JointModelRevoluteUnaligned if joint.kind == "revolute" else pin.JointModelPrismaticUnaligned
            index = self.model.addJoint(parent, kind(joint.axis), place, joint.name)
            inertia = self.robot.body(joint.child).inertia
            self.model.appendBodyToJoint(index, _inertia(inertia), pin.SE3.Identity())
            self._joint_ids[joint.name] = index
            self._body_joint[joint.child] = index
            self._add_children(joint.child)

    def configuration(self, state: RandomState) -> Array:
        """Pinocchio's q: position, quaternion (x, y, z, w), joints in its order."""
        w, x, y, z = state.quaternion
        q = np.empty(self.model.nq)
        q[:7] = [*state.position, x, y, z, w]
        q[7:] = self._gear[6:, 6:] @ state.joints
        return q

    def rates(self, nu: npt.ArrayLike) -> Array:
        """Pinocchio's v or a from ours."""
        return self._gear @ np.asarray(nu)

    def mass_matrix(self, state: RandomState) -> Array:
        upper = np.triu(pin.crba(self.model, self.data, self.configuration(state)))
        return self._gear.T @ (upper + np.triu(upper, 1).T) @ self._gear

    def bias(self, state: RandomState) -> Array:
        """Coriolis and centrifugal terms, without gravity."""
        q, v = self.configuration(state), self.rates(state.velocity)
        return self._gear.T @ np.array(pin.nonLinearEffects(self.model, self.data, q, v))

    def inverse_dynamics(
        self, state: RandomState, acceleration: npt.ArrayLike, wrenches: dict[str, Array] | None = None
    ) -> Array:
        """Recursive Newton-Euler; ``wrenches`` per frame name (force, moment), world axes, at the frame's origin."""
        q, v, a = self.configuration(state), self.rates(state.velocity), self.rates(acceleration)
        return self._gear.T @ np.array(pin.rnea(self.model, self.data, q, v, a, self._external(q, wrenches)))

    def forward_dynamics(
        self, state: RandomState, force: npt.ArrayLike, wrenches: dict[str, Array] | None = None
    ) -> Array:
        """Articulated-body algorithm (all free); with rotors, which tie rates together, a dense solve instead."""
        q, v = self.configuration(state), self.rates(state.velocity)
        if self._has_rotors:
            rest = self.inverse_dynamics(state, np.zeros(self.robot.dofs), wrenches)
            result: Array = np.linalg.solve(self.mass_matrix(state), np.asarray(force) - rest)
            return result
        tau = self._gear @ np.asarray(force)  # a permutation: its transpose is its inverse
        a = pin.aba(self.model, self.data, q, v, tau, self._external(q, wrenches))
        return self._gear.T @ np.array(a)

    def frame_pose(self, state: RandomState, name: str) -> Pose:
        pin.framesForwardKinematics(self.model, self.data, self.configuration(state))
        place = self.data.oMf[self._frames[name]]
        return Pose(place.rotation.copy(), place.translation.copy())

    def frame_jacobian(self, state: RandomState, name: str, axes: str = "world") -> Array:
        """(6, 6 + n), linear velocity of the frame's origin first; ``axes`` is ``world`` or ``frame``."""
        reference = pin.LOCAL_WORLD_ALIGNED if axes == "world" else pin.LOCAL
        q = self.configuration(state)
        return np.array(pin.computeFrameJacobian(self.model, self.data, q, self._frames[name], reference)) @ self._gear

    def frame_drift(self, state: RandomState, name: str) -> Array:
        """dJ/dt nu of the world-axes frame Jacobian: classical acceleration of the frame at zero nu-dot."""
        q, v = self.configuration(state), self.rates(state.velocity)
        pin.forwardKinematics(self.model, self.data, q, v, np.zeros(self.model.nv))
        index = self._frames[name]
        return np.array(pin.getFrameClassicalAcceleration(self.model, self.data, index, pin.LOCAL_WORLD_ALIGNED).vector)

    def momentum(self, state: RandomState, about: npt.ArrayLike | None = None) -> Array:
        """(linear, angular), world axes, about the world point ``about``, by default the mass centre."""
        q, v = self.configuration(state), self.rates(state.velocity)
        h = pin.computeCentroidalMomentum(self.model, self.data, q, v)
        linear, angular = np.array(h.linear), np.array(h.angular)
        if about is not None:
            angular = angular + np.cross(np.array(self.data.com[0]) - np.asarray(about), linear)
        return np.concatenate([linear, angular])

    def mass_centre(self, state: RandomState) -> Array:
        return np.array(pin.centerOfMass(self.model, self.data, self.configuration(state)))

    def kinetic_energy(self, state: RandomState) -> float:
        q, v = self.configuration(state), self.rates(state.velocity)
        return float(pin.computeKineticEnergy(self.model, self.data, q, v))

    def _external(self, q: Array, wrenches: dict[str, Array] | None) -> pin.StdVec_Force:
        """External forces per joint, in the joints' own frames, as Pinocchio wants them."""
        forces = pin.StdVec_Force()
        for _ in range(self.model.njoints):
            forces.append(pin.Force.Zero())
        pin.framesForwardKinematics(self.model, self.data, q)
        for name, wrench in (wrenches or {}).items():
            frame = self.model.frames[self._frames[name]]
            place = self.data.oMf[self._frames[name]]
            local = pin.Force(place.rotation.T @ wrench[:3], place.rotation.T @ wrench[3:])
            forces[frame.parentJoint] += frame.placement.act(local)
        return forces


def _se3(pose: Pose) -> pin.SE3:
    return pin.SE3(pose.rotation.copy(), pose.translation.copy())


def _inertia(inertia: Inertia) -> pin.Inertia:
    return pin.Inertia(inertia.mass, inertia.com.copy(), inertia.tensor.copy())
