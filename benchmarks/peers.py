"""The same robot in MuJoCo and Pinocchio, each by its fastest way, and spacearm's states in theirs."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pinocchio as pin
from mujoco import rollout as mujoco_rollout

from spacearm.model import Inertia, Robot
from spacearm.model.mjcf_write import mjcf_text
from spacearm.model.rotations import rotation_from_quaternion
from spacearm.typing import Array

#: What MuJoCo can leave out of a step here without changing the motion; the flags that this version has.
_UNNEEDED = (
    "CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "CONTACT", "SPRING", "DAMPER", "PASSIVE", "GRAVITY", "CLAMPCTRL",
    "WARMSTART", "ACTUATION", "REFSAFE", "SENSOR", "MIDPHASE", "EULERDAMP", "AUTORESET", "ISLAND",
)  # fmt: skip


class Mujoco:
    """MuJoCo with its RK4 integrator, ``lean`` with everything disabled that this motion does not need."""

    def __init__(self, robot: Robot, *, lean: bool = True) -> None:
        self.robot = robot
        self.model = mujoco.MjModel.from_xml_string(mjcf_text(robot))
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        if lean:
            for name in _UNNEEDED:
                flag = getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}", None)
                self.model.opt.disableflags |= 0 if flag is None else int(flag)
        self.data = mujoco.MjData(self.model)
        if not np.array_equal(self.model.jnt_qposadr[1:], 7 + np.arange(robot.n)):
            raise ValueError("MuJoCo orders the joints of this robot in another way")

    def full(self, states: Array) -> Array:
        """MuJoCo's full physics states (B, 1 + nq + nv) of spacearm's: base velocity in world axes, others as ours."""
        n = self.robot.n
        result = np.zeros((len(states), mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
        result[:, 1 : 8 + n] = states[:, : 7 + n]
        result[:, 8 + n : 14 + 2 * n] = states[:, 7 + n :]
        for row, state in zip(result, states, strict=True):
            row[8 + n : 11 + n] = rotation_from_quaternion(state[3:7]) @ state[7 + n : 10 + n]
        return result

    def back(self, full: Array) -> Array:
        """spacearm's states of MuJoCo's."""
        n = self.robot.n
        result = np.ascontiguousarray(full[..., 1 : 14 + 2 * n])
        for state in result.reshape(-1, result.shape[-1]):
            state[7 + n : 10 + n] = rotation_from_quaternion(state[3:7]).T @ state[7 + n : 10 + n]
        return result

    def start(self, full: Array, step: float) -> None:
        self.model.opt.timestep = step
        mujoco.mj_setState(self.model, self.data, full, mujoco.mjtState.mjSTATE_FULLPHYSICS)

    def run(self, count: int) -> None:
        """``count`` steps in C."""
        mujoco.mj_step(self.model, self.data, count)

    def state(self) -> Array:
        full = np.empty(mujoco.mj_stateSize(self.model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
        mujoco.mj_getState(self.model, self.data, full, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        return self.back(full)

    def variant(self, parameters: Array) -> Any:
        """A copy of the model with other inertia parameters (10, about the body's origin) of the last body."""
        model = mujoco.MjModel.__copy__(self.model)
        inertia = Inertia.from_parameters(parameters)
        moments, axes = np.linalg.eigh(inertia.tensor)
        if np.linalg.det(axes) < 0.0:
            axes[:, 0] = -axes[:, 0]
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(axes).ravel())
        last = model.nbody - 1
        model.body_mass[last] = inertia.mass
        model.body_ipos[last] = inertia.com
        model.body_inertia[last] = moments
        model.body_iquat[last] = quaternion / np.linalg.norm(quaternion)
        model.body_simple[last] = 0
        return model


class MujocoBatch:
    """``mujoco.rollout`` on one thread (the calling one), C loops over samples and steps."""

    def __init__(self, peer: Mujoco, models: Any = None) -> None:
        self.peer = peer
        self.models = peer.model if models is None else models
        self.rollout = mujoco_rollout.Rollout(nthread=0)
        self.data = mujoco.MjData(peer.model)

    def run(self, full: Array, step: float, count: int) -> Array:
        """MuJoCo's states (B, count, ...) from ``full`` (B, ...)."""
        for model in [self.models] if isinstance(self.models, mujoco.MjModel) else self.models:
            model.opt.timestep = step
        found, _ = self.rollout.rollout(self.models, self.data, full, nstep=count)
        return np.asarray(found)


class Pinocchio:
    """Pinocchio with its joints of one axis where the axis is one of x, y, z."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.model = pin.Model()
        self.model.gravity = pin.Motion.Zero()
        joints = [self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")]
        for joint, parent in zip(robot.joints, robot.parents, strict=True):
            place = pin.SE3(joint.placement.rotation, joint.placement.translation)
            joints.append(self.model.addJoint(joints[parent], _axis_joint(joint.axis), place, joint.name))
        for body, index in zip(robot.bodies, joints, strict=True):
            inertia = pin.Inertia(body.inertia.mass, body.inertia.com, body.inertia.tensor)
            self.model.appendBodyToJoint(index, inertia, pin.SE3.Identity())
        self.data = self.model.createData()

    def split(self, states: Array) -> tuple[Array, Array]:
        """(configurations, velocities) of spacearm's states: the quaternion is x, y, z, w there."""
        n = self.robot.n
        order = [0, 1, 2, 4, 5, 6, 3, *range(7, 7 + n)]
        return np.ascontiguousarray(states[..., order]), np.ascontiguousarray(states[..., 7 + n :])

    def accelerations(self, q: Array, v: Array, force: Array) -> Array:
        """ABA for each of (B, ...) samples in a Python loop."""
        return np.array([pin.aba(self.model, self.data, q[i], v[i], force[i]) for i in range(len(q))])

    def loop(self, q: Array, v: Array, force: Array, count: int) -> None:
        """``count`` times ABA at one state."""
        model, data, aba = self.model, self.data, pin.aba
        for _ in range(count):
            aba(model, data, q, v, force)


class PinocchioBatch:
    """``abaInParallel`` with one thread; it wants samples in columns."""

    def __init__(self, peer: Pinocchio) -> None:
        self.pool = pin.ModelPool(peer.model, 1)

    def run(self, q: Array, v: Array, force: Array, out: Array) -> None:
        pin.abaInParallel(1, self.pool, q, v, force, out)


def _axis_joint(axis: Array) -> Any:
    for k, kind in enumerate((pin.JointModelRX, pin.JointModelRY, pin.JointModelRZ)):
        if axis[k] == 1.0:
            return kind()
    return pin.JointModelRevoluteUnaligned(axis)
