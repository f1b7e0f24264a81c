"""A robot in MuJoCo: kinematics, mass matrix, bias and passive forces from an independent engine.

The model is built from :class:`~spacearm.model.Robot` by MuJoCo's own model editor, not through a file that spacearm
writes, so an error in a writer cannot hide one in the mechanics. All functions use spacearm's coordinates: velocity nu
= (base linear, base angular, both in base axes, joint rates), forces dual to it. MuJoCo's free joint has its linear
velocity in world axes; the change of coordinates is ``nu_mujoco = T nu``.

Massless bodies and rotors, which MuJoCo's compiler rejects or supports only as armature, are written into the compiled
model: a rotor becomes a body of its own on its carrier, with axial inertia alone, whose coordinate ``ratio * q`` is
part of ``T``. The effect of the carrier's rotation on the rotor is then computed by MuJoCo too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.model import Pose, Robot
from spacearm.model.layout import QUATERNION
from spacearm.typing import Array


def load_mujoco() -> Any:
    """The mujoco package, or an error that states how to install it."""
    try:
        import mujoco
    except ImportError as error:
        raise InputError(
            "the cross-check needs the mujoco package", hint="install spacearm with its extra 'verify'"
        ) from error
    return mujoco


class MujocoModel:
    """MuJoCo model of a robot at one state at a time: call :meth:`set_state` first. Gravity is zero unless set."""

    def __init__(self, robot: Robot) -> None:
        self._mj = load_mujoco()
        self.robot = robot
        self._geared = [i for i, joint in enumerate(robot.joints) if joint.rotor is not None]
        self.model = self._compile()
        self.data = self._mj.MjData(self.model)
        self._place_inertias()
        n, model = robot.n, self.model
        joints = [model.joint(f"j:{joint.name}") for joint in robot.joints]
        self._qpos = np.array([int(joint.qposadr[0]) for joint in joints], dtype=int)
        self._dofs = np.array([int(joint.dofadr[0]) for joint in joints], dtype=int)
        rotors = [model.joint(f"r:{robot.joints[i].name}") for i in self._geared]
        self._rotor_qpos = np.array([int(joint.qposadr[0]) for joint in rotors], dtype=int)
        self._ratios = np.array([_ratio(robot, i) for i in self._geared])
        self._body_ids = [int(model.body(f"b:{body.name}").id) for body in robot.bodies]
        # Constant part of T; the base's linear block is its rotation matrix, filled in by set_state.
        self._map = np.zeros((model.nv, 6 + n))
        self._map[range(6), range(6)] = 1.0
        self._map[self._dofs, 6 + np.arange(n)] = 1.0
        for i, joint, ratio in zip(self._geared, rotors, self._ratios, strict=True):
            self._map[int(joint.dofadr[0]), 6 + i] = ratio
        self._drift = np.zeros(model.nv)

    # -- building -----------------------------------------------------------------------------------------------

    def _compile(self) -> Any:
        mj, robot = self._mj, self.robot
        spec = mj.MjSpec()
        spec.compiler.degree = False
        # Otherwise MuJoCo would move the frame of a free body to its mass centre.
        spec.compiler.alignfree = False
        spec.option.gravity = [0.0, 0.0, 0.0]
        # The placeholders are off-centre and oblique: MuJoCo simplifies bodies that are aligned with their frame.
        dummy = {"mass": 1.0, "ipos": [0.1, 0.2, 0.3], "iquat": [0.8, 0.4, -0.4, 0.2], "inertia": [1.0, 1.1, 1.2]}
        dummy["explicitinertial"] = True
        base = spec.worldbody.add_body(name=f"b:{robot.bodies[0].name}", **dummy)
        base.add_joint(name="base", type=mj.mjtJoint.mjJNT_FREE, align=mj.mjtAlignFree.mjALIGNFREE_FALSE)
        handles = {robot.bodies[0].name: base}
        for joint in robot.joints:
            where = {"pos": joint.placement.translation, "quat": _quaternion(joint.placement)}
            body = handles[joint.parent].add_body(name=f"b:{joint.child}", **where, **dummy)
            kind = mj.mjtJoint.mjJNT_HINGE if joint.kind == "revolute" else mj.mjtJoint.mjJNT_SLIDE
            stiffness, rest = (joint.spring.stiffness, joint.spring.rest) if joint.spring else (0.0, 0.0)
            body.add_joint(
                name=f"j:{joint.name}",
                type=kind,
                axis=joint.axis,
                stiffness=[stiffness, 0.0, 0.0],
                springref=rest,
                damping=[joint.damping, 0.0, 0.0],
            )
            if joint.rotor is not None:
                # A child of the carrier, in parallel to the link: both rotate about the same axis, at their own rates.
                rotor = handles[joint.parent].add_body(name=f"r:{joint.name}", **where, **dummy)
                rotor.add_joint(name=f"r:{joint.name}", type=mj.mjtJoint.mjJNT_HINGE, axis=joint.axis)
            handles[joint.child] = body
        for coupling in robot.couplings:
            tendon = spec.add_tendon(
                name=coupling.name,
                stiffness=[coupling.stiffness, 0.0, 0.0],
                damping=[coupling.damping, 0.0, 0.0],
                springlength=[coupling.rest, coupling.rest],
            )
            tendon.wrap_joint(f"j:{coupling.first}", 1.0)
            tendon.wrap_joint(f"j:{coupling.second}", -coupling.ratio)
        return spec.compile()

    def _place_inertias(self) -> None:
        """Overwrite the placeholders by the robot's inertias, including zero mass and purely axial rotors."""
        model = self.model
        for body in self.robot.bodies:
            index, inertia = int(model.body(f"b:{body.name}").id), body.inertia
            self._write_inertia(index, inertia.mass, inertia.com, inertia.tensor)
        for i in self._geared:
            joint = self.robot.joints[i]
            assert joint.rotor is not None
            axial = joint.rotor.inertia * np.outer(joint.axis, joint.axis)
            self._write_inertia(int(model.body(f"r:{joint.name}").id), 0.0, np.zeros(3), axial)
        # Derived by the compiler from the placeholders: computed anew, leaves first.
        model.body_subtreemass[:] = model.body_mass
        for index in range(model.nbody - 1, 0, -1):
            model.body_subtreemass[int(model.body_parentid[index])] += model.body_subtreemass[index]

    def _write_inertia(self, index: int, mass: float, com: Array, tensor: Array) -> None:
        model = self.model
        moments, axes = np.linalg.eigh(tensor)
        # Eigenvectors may come as a reflection; a quaternion needs a rotation.
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] = -axes[:, 0]
        model.body_mass[index] = mass
        model.body_ipos[index] = com
        model.body_inertia[index] = moments
        model.body_iquat[index] = _quaternion(Pose(axes))

    # -- at a state ---------------------------------------------------------------------------------------------

    def set_state(
        self, position: npt.ArrayLike, quaternion: npt.ArrayLike, joints: npt.ArrayLike, velocity: npt.ArrayLike
    ) -> None:
        """Set the state (world position, quaternion w x y z, joints, nu) and compute what depends on it."""
        mj, model, data = self._mj, self.model, self.data
        angles, nu = np.asarray(joints, dtype=float), np.asarray(velocity, dtype=float)
        quat = np.asarray(quaternion, dtype=float)
        data.qpos[:3] = position
        data.qpos[QUATERNION] = quat / np.linalg.norm(quat)
        data.qpos[self._qpos] = angles
        # Rotors are slaved to their joints by the map T, not by constraints, which MuJoCo would regularise.
        data.qpos[self._rotor_qpos] = self._ratios * angles[self._geared]
        rotation = np.empty(9)
        mj.mju_quat2Mat(rotation, data.qpos[QUATERNION])
        self.rotation = rotation.reshape(3, 3)
        self._map[:3, :3] = self.rotation
        # MuJoCo's linear velocity is in world axes: T depends on the attitude, and its rate on w x v.
        self._drift[:3] = self.rotation @ np.cross(nu[3:6], nu[:3])  # dT/dt nu
        data.qvel[:] = self._map @ nu
        self.velocity = nu
        # The stages of mj_forward that are needed, and no constraint solver.
        mj.mj_kinematics(model, data)
        mj.mj_comPos(model, data)
        mj.mj_tendon(model, data)
        mj.mj_makeM(model, data)
        mj.mj_fwdVelocity(model, data)

    def _mass(self) -> Array:
        dense = np.empty((self.model.nv, self.model.nv))
        self._mj.mj_fullM(self.model, self.data, dense)
        return dense

    def mass_matrix(self) -> Array:
        """Generalised inertia H (6 + n, 6 + n)."""
        result: Array = self._map.T @ self._mass() @ self._map
        return result

    def bias(self) -> Array:
        """c in H nu-dot + c = force; rotors' gyroscopic terms included."""
        # H nu-dot + c = T^T (M (T nu-dot + dT/dt nu) + bias).
        result: Array = self._map.T @ (self.data.qfrc_bias + self._mass() @ self._drift)
        return result

    def passive(self) -> Array:
        """Generalised force of joint springs, joint dampers and couplings, by MuJoCo's joints and tendons."""
        result: Array = self._map.T @ np.asarray(self.data.qfrc_passive)
        return result

    def inverse_dynamics(self, acceleration: npt.ArrayLike, external: npt.ArrayLike = 0.0) -> Array:
        """The generalised force for ``acceleration`` (nu-dot) in addition to ``external``; by MuJoCo's Newton-Euler."""
        self.data.qacc[:] = self._map @ np.asarray(acceleration, dtype=float) + self._drift
        result = np.empty(self.model.nv)
        self._mj.mj_rne(self.model, self.data, 1, result)
        force: Array = self._map.T @ result - np.asarray(external, dtype=float)
        return force

    def forward_dynamics(self, force: npt.ArrayLike) -> Array:
        """nu-dot under the generalised force ``force``, all degrees of freedom free."""
        return np.asarray(np.linalg.solve(self.mass_matrix(), np.asarray(force, dtype=float) - self.bias()))

    def frame_pose(self, name: str) -> Pose:
        """Pose of the frame in the world."""
        frame = self.robot.frame(name)
        index = self._body_ids[self.robot.body_index(frame.body)]
        rotation = np.array(self.data.xmat[index]).reshape(3, 3)
        return Pose(rotation, np.array(self.data.xpos[index])) @ frame.placement

    def frame_jacobian(self, name: str) -> Array:
        """Matrix (6, 6 + n) from generalised velocity to linear and angular velocity of a frame, world axes."""
        index = self._body_ids[self.robot.body_index(self.robot.frame(name).body)]
        jacobian = np.zeros((6, self.model.nv))
        point = self.frame_pose(name).translation
        self._mj.mj_jac(self.model, self.data, jacobian[:3], jacobian[3:], point, index)
        return jacobian @ self._map

    def generalized_force(self, name: str, wrench: npt.ArrayLike) -> Array:
        """Generalised force of a wrench (force, moment; world axes, at the frame's origin)."""
        values = np.asarray(wrench, dtype=float)
        index = self._body_ids[self.robot.body_index(self.robot.frame(name).body)]
        force = np.zeros(self.model.nv)
        point = self.frame_pose(name).translation
        self._mj.mj_applyFT(self.model, self.data, values[:3], values[3:], point, index, force)
        return self._map.T @ force

    def kinetic_energy(self) -> float:
        """Kinetic energy, J, rotors included."""
        return float(0.5 * self.data.qvel @ self._mass() @ self.data.qvel)

    def mass_centre(self) -> Array:
        """Mass centre, world, m."""
        return np.array(self.data.subtree_com[self._body_ids[0]])

    def momentum(self, about: npt.ArrayLike = (0.0, 0.0, 0.0)) -> Array:
        """Linear and angular momentum (6), world axes; the angular part about the world point ``about``."""
        self._mj.mj_subtreeVel(self.model, self.data)
        base = self._body_ids[0]
        linear = self.robot.mass * np.array(self.data.subtree_linvel[base])
        angular_rate = np.array(self.data.subtree_angmom[base])
        return np.concatenate([linear, angular_rate + np.cross(self.mass_centre() - np.asarray(about), linear)])


def _ratio(robot: Robot, index: int) -> float:
    rotor = robot.joints[index].rotor
    assert rotor is not None
    return rotor.ratio


def _quaternion(pose: Pose) -> Array:
    """(w, x, y, z) of the pose's rotation."""
    mujoco = load_mujoco()
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(pose.rotation).ravel())
    return quaternion / np.linalg.norm(quaternion)
