"""MuJoCo's own numbers for one robot of an MJCF file, in spacearm's coordinates, for ``tools/robots.py`` and tests.

MuJoCo reads the file by itself. The robot's bodies are moved, in memory, into a model of their own, whose base floats;
gravity, contacts, limits, dry friction, equality constraints and actuators are off. What spacearm says that it leaves
out is taken out here too, and named in :attr:`MujocoModel.without`: the caller checks that each was told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from spacearm.model import Robot
from spacearm.model._repair import water_ball as stand_in
from spacearm.model.rotations import quaternion_from_rotation, rotation_about, rotation_from_quaternion
from spacearm.typing import Array

FREE, BALL, SLIDE, HINGE = (
    mujoco.mjtJoint.mjJNT_FREE,
    mujoco.mjtJoint.mjJNT_BALL,
    mujoco.mjtJoint.mjJNT_SLIDE,
    mujoco.mjtJoint.mjJNT_HINGE,
)
# by itself MuJoCo would write what it thinks of moving bodies between models to a file
mujoco.set_mju_user_warning(lambda _: None)
OFF = ("CONTACT", "EQUALITY", "LIMIT", "FRICTIONLOSS", "ACTUATION")


class MujocoModel:
    """One robot of an MJCF file in MuJoCo, floating, without gravity; ``fit`` before use."""

    def __init__(self, path: Path) -> None:
        self.spec = mujoco.MjSpec.from_file(str(path))
        self._without_looks()
        self.spec.compile()  # numbers the elements
        # what has no name gets the one that spacearm gives it
        for kind, elements in (("body", self.spec.bodies), ("joint", self.spec.joints)):
            taken = {element.name for element in elements}
            for element in elements:
                if not element.name:
                    name = f"{kind}{element.id}"
                    while name in taken:
                        name += "2"
                    element.name = name
                    taken.add(name)
        self.whole = self.spec.compile()
        if self.whole.nbody == 1:
            raise ValueError("there is no body")

    def _without_looks(self) -> None:
        """Delete what does not move: also meshes that no inertia needs, whose files may be missing."""
        spec = self.spec
        looks = ("sensors", "skins", "keys", "excludes", "pairs", "equalities", "cameras", "lights", "textures")
        elements = [element for kind in looks for element in getattr(spec, kind)]
        from_shapes = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
        for body in spec.bodies:
            if (body.explicitinertial and not from_shapes) or body.id == 0:
                elements += [geom for geom in body.geoms if geom.meshname or geom.hfieldname]
        for element in elements:
            spec.delete(element)
        for material in spec.materials:
            material.textures = [""] * len(material.textures)
        used = {geom.meshname for geom in spec.geoms}
        for mesh in [mesh for mesh in spec.meshes if mesh.name not in used]:
            spec.delete(mesh)

    def fit(self, robot: Robot, base_mass: float | None = None) -> None:
        """Take over the robot's coordinates; raises ``ValueError`` where this is another mechanism.

        ``base_mass`` (kg) is that of a base which the file does not have, a ball of water; by default the robot's.
        """
        self.robot, self.without = robot, set()
        self.model = self._floating(robot, base_mass)
        self._weigh()
        self.data = mujoco.MjData(self.model)
        self.model.opt.gravity[:] = 0.0
        if self.model.opt.density or self.model.opt.viscosity:
            self.without.add("density")
            self.model.opt.density = self.model.opt.viscosity = 0.0
        for flag in OFF:
            self.model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}"))
        if self.model.nv != robot.dofs:
            raise ValueError(f"MuJoCo has {self.model.nv} degrees of freedom, the robot {robot.dofs}")
        self._take_out()
        self._match()

    def _floating(self, robot: Robot, base_mass: float | None) -> Any:
        """A model of the robot's bodies alone, its base with a free joint."""
        name = robot.bodies[0].name
        roots = [body for body in self.spec.bodies if body.parent is not None and body.parent.name == "world"]
        outer = mujoco.MjSpec()
        outer.option = self.spec.option
        chosen = [body for body in roots if body.name == name]
        known = {*robot.body_names, *(frame.name for frame in robot.frames)}
        if chosen:
            outer.worldbody.add_frame().attach_body(chosen[0], "", "")
            base = outer.body(name)
            if not any(joint.type == FREE for joint in base.joints):
                lost = {joint.name for joint in base.joints}
                for joint in list(base.joints):
                    outer.delete(joint)
                for actuator in list(outer.actuators):
                    if actuator.target in lost:
                        outer.delete(actuator)
                base.add_freejoint()
            return outer.compile()
        base_mass = robot.bodies[0].inertia.mass if base_mass is None else base_mass
        base = outer.worldbody.add_body(name=name)
        base.add_freejoint()
        base.mass, base.inertia = base_mass, np.diag(stand_in(base_mass).tensor)
        base.explicitinertial = True
        for body in roots:
            if body.name in known:
                base.add_frame().attach_body(body, "", "")
        return outer.compile()

    def _weigh(self) -> None:
        """Inertias, springs and dampers as in the whole file, whose compiler may scale or balance them."""
        bodies = {self.whole.body(i).name: i for i in range(self.whole.nbody)}
        for i in range(1, self.model.nbody):
            other = bodies.get(self.model.body(i).name)
            if other is not None:
                keys = ["body_mass", "body_inertia", "body_ipos", "body_iquat"]
                if self.whole.body_parentid[other] == 0 and self.model.body_parentid[i] != 0:
                    keys += ["body_pos", "body_quat"]  # attaching forgets the frames around a body
                for key in keys:
                    getattr(self.model, key)[i] = getattr(self.whole, key)[other]
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))
        # The compiler makes a springdamper into stiffness and damping with the inertia that it sees: that of the file.
        joints = {self.whole.joint(j).name: j for j in range(self.whole.njnt)}
        for j in range(self.model.njnt):
            other = joints.get(self.model.joint(j).name)
            if other is not None and int(self.model.jnt_type[j]) in (int(SLIDE), int(HINGE)):
                self.model.jnt_stiffness[j] = self.whole.jnt_stiffness[other]
                here, there = self.model.jnt_dofadr[j], self.whole.jnt_dofadr[other]
                self.model.dof_damping[here] = self.whole.dof_damping[there]

    def _take_out(self) -> None:
        """Zero what spacearm tells to leave out."""
        model = self.model
        for j in range(model.njnt):
            kind, dof = model.jnt_type[j], int(model.jnt_dofadr[j])
            if kind == FREE:
                self._zero("free joint", model.dof_damping, slice(dof, dof + 6))
                self._zero("free joint", model.jnt_stiffness, slice(j, j + 1))
            if kind == BALL:
                self._zero("ball", model.dof_armature, slice(dof, dof + 3))
        for t in range(model.ntendon):
            wraps = model.wrap_type[int(model.tendon_adr[t]) :][: int(model.tendon_num[t])]
            if np.any(wraps != int(mujoco.mjtWrap.mjWRAP_JOINT)):  # a cord through space
                for values in (model.tendon_stiffness, model.tendon_damping):
                    self._zero("is not a spring between two joints", values, slice(t, t + 1))
        for key in (
            "tendon_armature",
            "jnt_stiffnesspoly",
            "dof_dampingpoly",
            "tendon_stiffnesspoly",
            "tendon_dampingpoly",
        ):
            self._zero("armature" if "armature" in key else "non-linear", getattr(model, key), slice(None))

    def _zero(self, what: str, values: Array, where: slice) -> None:
        if np.any(values[where]):
            self.without.add(what)
            values[where] = 0.0

    def _match(self) -> None:
        """Columns of the robot's joints: (joint of MuJoCo, first column, how many)."""
        model, robot, self.columns = self.model, self.robot, []
        self.base = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, robot.bodies[0].name)
        self.free = int(model.body_jntadr[self.base])
        for j in range(model.njnt):
            if j == self.free:
                continue
            name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j)
            names = [f"{name}.{axis}" for axis in "xyz"] if model.jnt_type[j] == BALL else [name]
            columns = [
                robot.joint_index(each) if each in robot.joint_names else robot.joint_index(f"{each}_joint")
                for each in names
            ]
            self.columns.append((j, columns))
        frames = {frame.name: frame for frame in robot.frames}
        self.sites = {
            name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name)
            for name in frames
            if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, name) >= 0
        }
        self.fused = {
            name: mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
            for name in frames
            if name not in self.sites and mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) > 0  # not the world
        }

    def comparable(self, robot: Robot) -> Robot:
        """The robot without loops, which are soft in MuJoCo, and without rotors that stand for the armature of ball
        joints, only roughly, as is told."""
        rough = {column for _, columns in self.columns if len(columns) > 1 for column in columns}
        joints = [replace(joint, rotor=None) if i in rough else joint for i, joint in enumerate(robot.joints)]
        return robot.replace(joints=tuple(joints), loops=())

    def frames(self) -> list[str]:
        """Frames of the robot that MuJoCo has too."""
        return [*self.sites, *self.fused]

    # -- numbers -----------------------------------------------------------------------------------------------------

    def place(self, position: Array, quaternion: Array, joints: Array, velocity: Array) -> tuple[Array, Array]:
        """Set the state; returns (G, drift) with MuJoCo's velocity ``G nu`` and its rate ``G nu' + drift``."""
        model, data, robot = self.model, self.data, self.robot
        change, drift = np.zeros((model.nv, robot.dofs)), np.zeros(model.nv)
        rotation = rotation_from_quaternion(quaternion)
        at, dof = int(model.jnt_qposadr[self.free]), int(model.jnt_dofadr[self.free])
        data.qpos[at : at + 3], data.qpos[at + 3 : at + 7] = position, quaternion
        change[dof : dof + 3, :3], change[dof + 3 : dof + 6, 3:6] = rotation, np.eye(3)
        drift[dof : dof + 3] = rotation @ np.cross(velocity[3:6], velocity[:3])
        for j, columns in self.columns:
            at, dof = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])
            if len(columns) == 1:
                data.qpos[at] = joints[columns[0]]
                change[dof, 6 + columns[0]] = 1.0
                continue
            turns = [rotation_about(axis, joints[k]) for axis, k in zip(np.eye(3), columns, strict=True)]
            data.qpos[at : at + 4] = quaternion_from_rotation(turns[0] @ turns[1] @ turns[2])
            axes = [(turns[1] @ turns[2]).T[:, 0], turns[2].T[:, 1], np.eye(3)[2]]
            rates = [velocity[6 + k] for k in columns]
            outer = axes[1] * rates[1] + axes[2] * rates[2]
            drift[dof : dof + 3] = (
                -np.cross(outer, axes[0]) * rates[0] - np.cross(axes[2] * rates[2], axes[1]) * rates[1]
            )
            for k, axis in zip(columns, axes, strict=True):
                change[dof : dof + 3, 6 + k] = axis
        data.qvel[:] = change @ velocity
        mujoco.mj_forward(model, data)
        return change, drift

    def full_mass_matrix(self) -> Array:
        """In MuJoCo's coordinates."""
        full = np.zeros((self.model.nv, self.model.nv))
        old = (self.model, full, self.data.qM) if hasattr(self.data, "qM") else (self.model, self.data, full)
        mujoco.mj_fullM(*old)
        return full

    def __call__(self, state: Any, held: Array, frames: Sequence[str]) -> dict[str, Array]:
        model, data = self.model, self.data
        change, drift = self.place(state.position, state.quaternion, state.joints, state.velocity)
        full = self.full_mass_matrix()
        mass = change.T @ full @ change
        bias = change.T @ (np.array(data.qfrc_bias) + full @ drift)
        free = np.flatnonzero(held == 0.0)
        acceleration = np.zeros(len(mass))
        acceleration[free] = np.linalg.solve(mass[np.ix_(free, free)], (state.force - bias)[free])
        result = {"mass_matrix": mass, "bias": bias, "forward dynamics": acceleration}
        for name in frames:
            linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
            if name in self.sites:
                mujoco.mj_jacSite(model, data, linear, angular, self.sites[name])
            else:
                mujoco.mj_jacBody(model, data, linear, angular, self.fused[name])
            result[f"jacobian of {name}"] = np.concatenate([linear, angular]) @ change
        if not any(model.jnt_type[j] == BALL for j, _ in self.columns):
            result["passive"] = change.T @ np.array(data.qfrc_passive)
        return {**result, "momentum": self._momentum(state)}

    def _momentum(self, state: Any) -> Array:
        """Linear momentum and angular momentum about the world's origin, with the free joint's armature."""
        model, data = self.model, self.data
        mujoco.mj_subtreeVel(model, data)
        linear = model.body_subtreemass[0] * data.subtree_linvel[0]
        angular = data.subtree_angmom[0] + np.cross(data.subtree_com[0], linear)
        armature = float(model.dof_armature[int(model.jnt_dofadr[self.free])])
        rotation = rotation_from_quaternion(state.quaternion)
        extra = armature * rotation @ state.velocity[:3]
        angular_rate = armature * rotation @ state.velocity[3:6]
        return np.concatenate([linear + extra, angular + np.cross(state.position, extra) + angular_rate])
