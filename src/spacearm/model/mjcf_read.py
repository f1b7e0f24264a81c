"""Reading MJCF: MuJoCo compiles the file, and the compiled model is taken apart.

A MuJoCo body with several joints becomes a row of joints with massless bodies between. A body's frame in spacearm is
the frame of its last joint: where that joint's ``pos`` is not zero, it is shifted from MuJoCo's body frame by it.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from spacearm.errors import ModelError
from spacearm.model.fuse import Weld, fuse, located, motion
from spacearm.model.lossy import Losses
from spacearm.model.mjcf_compile import Compiled, compiled
from spacearm.model.mjcf_files import Bundle, bundle_file, bundle_text
from spacearm.model.mjcf_write import FAR
from spacearm.model.parts import (
    Body,
    Coupling,
    Frame,
    Friction,
    Inertia,
    Joint,
    JointKind,
    Limits,
    Pose,
    Rotor,
    Spring,
    Thruster,
)
from spacearm.model.robot import Robot
from spacearm.model.rotations import rotation_from_quaternion
from spacearm.model.safexml import BOUNDS, Bounds
from spacearm.model.urdf import free_name

#: MuJoCo's armature turns with the joint only, not with the body that carries it: a rotor so fast and so light that the
#: carrier's turning does not matter. What remains of it is this many times smaller than the armature.
ARMATURE_RATIO = 1e10
#: MuJoCo's numbers for kinds of joints, transmissions and wraps.
FREE, BALL, SLIDE, HINGE = range(4)
TRN_JOINT, TRN_SITE, WRAP_JOINT = 0, 4, 1


def read_mjcf(path: str | Path, *, outside: bool = False, strict: bool = False, bounds: Bounds = BOUNDS) -> Robot:
    """The robot of an MJCF file; needs the mujoco package.

    Files that it includes or attaches, and meshes that it takes inertias from, must lie in its own folder or below,
    unless ``outside``. What spacearm does not know (actuators, equality constraints, most tendons) is left out with a
    :class:`LossyConversion` warning each, or is an error where ``strict``. ``bounds`` say how much is read.
    """
    path = Path(path)
    with located(file=path):
        return _robot(bundle_file(path, outside=outside, bounds=bounds), strict=strict, bounds=bounds)


def robot_from_mjcf(
    text: str | bytes, file: str | Path | None = None, *, strict: bool = False, bounds: Bounds = BOUNDS
) -> Robot:
    """The robot of an MJCF text, which must not need other files; ``file`` is only named in errors."""
    with located(file=file):
        return _robot(bundle_text(text, bounds=bounds), strict=strict, bounds=bounds)


# -- taking the compiled model apart -----------------------------------------------------------------------------


def _robot(bundle: Bundle, *, strict: bool, bounds: Bounds) -> Robot:
    losses = Losses("MJCF", strict=strict)
    for what, count in bundle.left_out.items():
        losses.add(f"{what} ({count})" if count > 1 else what, "is left out")
    reader = _Reader(compiled(bundle, losses, bounds), losses)
    robot = reader.read()
    losses.tell(stacklevel=4)
    return robot


class _Reader:
    def __init__(self, model: Compiled, losses: Losses) -> None:
        self.model, self.losses = model, losses
        self.base = self._find_base()
        self.inside = self._subtree(self.base)
        taken: set[str] = set()
        self.body_names = {
            i: self._name("body", i) or free_name(f"body{i}", taken) for i in range(model.nbody) if i in self.inside
        }
        self.joint_names = {j: self._name("jnt", j) or free_name(f"joint{j}", taken) for j in range(model.njnt)}
        #: MuJoCo's body frame in spacearm's, by body
        self.shift: dict[int, Pose] = {self.base: Pose()}
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.welds: list[Weld] = []

    def read(self) -> Robot:
        for i in sorted(self.inside):
            if i != self.base:
                self._connect(i)
            inertia = Inertia(self.model.body_mass[i], tensor=np.diag(self.model.body_inertia[i]))
            own = Pose(rotation_from_quaternion(self.model.body_iquat[i]), self.model.body_ipos[i])
            with located(f"body {self.body_names[i]!r}"):
                self.bodies.append(Body(self.body_names[i], inertia.moved(self.shift[i] @ own)))
        thrusters, used = self._thrusters()
        couplings = self._couplings()
        self._tell_the_rest()
        return fuse(
            self.model.model_name or "robot",
            self.bodies,
            joints=self.joints,
            welds=self.welds,
            frames=self._frames(used),
            thrusters=thrusters,
            couplings=couplings,
            postures=self._postures(),
        )

    def _name(self, kind: str, index: int) -> str:
        return self.model.name(kind, index)

    def _subtree(self, root: int) -> set[int]:
        inside = {root}
        for i in range(root + 1, self.model.nbody):  # MuJoCo numbers parents before children
            if int(self.model.body_parentid[i]) in inside:
                inside.add(i)
        return inside

    def _find_base(self) -> int:
        model = self.model
        roots = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
        if len(roots) > 1:
            moving = [i for i in roots if any(model.body_jntnum[k] > 0 for k in self._subtree(i))]
            names = ", ".join(repr(self._name("body", i)) for i in roots)
            if len(moving) != 1:
                raise ModelError(f"several bodies stand on the world: {names}", hint="expected one robot")
            for i in set(roots) - set(moving):
                self.losses.add(f"body {self._name('body', i)!r}", "is scenery, and is left out")
            roots = moving
        if not roots:
            raise ModelError("there is no body")
        base = roots[0]
        kinds = [model.jnt_type[j] for j in self._joints_of(base)]
        if any(kind != FREE for kind in kinds):
            raise ModelError(
                "its joints stand on the world, which has no mass to be a base",
                place=f"body {self._name('body', base)!r}",
                hint="put the arm on a body with mass, free or fixed",
            )
        return base

    def _joints_of(self, body: int) -> range:
        start = int(self.model.body_jntadr[body])
        return range(start, start + int(self.model.body_jntnum[body]))

    def _connect(self, body: int) -> None:
        model, name = self.model, self.body_names[body]
        carrier = int(model.body_parentid[body])
        parent = self.body_names[carrier]
        pose = Pose(rotation_from_quaternion(model.body_quat[body]), model.body_pos[body])
        place, row = self.shift[carrier] @ pose, self._joints_of(body)
        self.shift[body] = Pose()
        if not row:
            self.welds.append(Weld(f"weld of {name}", parent, name, place))
            return
        for j in row:
            joint_name = self.joint_names[j]
            with located(f"joint {joint_name!r}"):
                kind = self._kind(j)
                anchor = model.jnt_pos[j] if kind == "revolute" else np.zeros(3)
                address = int(model.jnt_qposadr[j])
                # MuJoCo counts from `ref`: at q = ref the body stands as drawn
                back = motion(kind, model.jnt_axis[j], -float(model.qpos0[address]))
                child = name if j == row[-1] else f"{joint_name}.body"
                placement = place @ Pose(translation=anchor) @ back
                self.joints.append(self._joint(j, kind, parent, child, placement=placement))
            if child != name:
                self.bodies.append(Body(child, Inertia.massless()))
            parent, place = child, Pose(translation=-anchor)
        self.shift[body] = place

    def _kind(self, j: int) -> JointKind:
        kinds: dict[int, JointKind] = {
            HINGE: "revolute",
            SLIDE: "prismatic",
        }
        kind = int(self.model.jnt_type[j])
        if kind not in kinds:
            what = "ball" if kind == BALL else "free"
            raise ModelError(f"a {what} joint is not supported here", hint="expected hinge or slide")
        return kinds[kind]

    def _joint(self, j: int, kind: JointKind, parent: str, child: str, *, placement: Pose) -> Joint:
        model, name = self.model, self.joint_names[j]
        dof, address, place = int(model.jnt_dofadr[j]), int(model.jnt_qposadr[j]), f"joint {self.joint_names[j]!r}"
        stiffness, friction = float(model.jnt_stiffness[j]), float(model.dof_frictionloss[dof])
        armature = float(model.dof_armature[dof])
        for key, row in (("jnt_stiffnesspoly", j), ("dof_dampingpoly", dof)):
            if getattr(model, key) is not None and np.any(getattr(model, key)[row]):
                self.losses.add(place, "the non-linear part of its spring or damper is left out")
        if armature > 0.0 and kind == "prismatic":
            self.losses.add(place, "the armature of a slide joint is left out")
            armature = 0.0
        lower, upper = (float(x) for x in model.jnt_range[j]) if model.jnt_limited[j] else (-math.inf, math.inf)
        effort = float(np.abs(model.jnt_actfrcrange[j]).max()) if model.jnt_actfrclimited[j] else math.inf
        return Joint(
            name,
            kind,
            parent,
            child,
            placement,
            model.jnt_axis[j],
            spring=Spring(stiffness, float(model.qpos_spring[address])) if stiffness > 0.0 else None,
            damping=float(model.dof_damping[dof]),
            friction=Friction(friction, friction) if friction > 0.0 else None,
            limits=Limits(lower if lower > -FAR else -math.inf, upper if upper < FAR else math.inf, effort=effort),
            rotor=Rotor(armature / ARMATURE_RATIO**2, ARMATURE_RATIO) if armature > 0.0 else None,
        )

    def _frames(self, used: set[int]) -> list[Frame]:
        frames, taken = [], set(self.body_names.values()) | {body.name for body in self.bodies}
        for s in range(self.model.nsite):
            name, body = self._name("site", s), int(self.model.site_bodyid[s])
            if not name or s in used:
                continue
            if body not in self.inside:
                self.losses.add(f"site {name!r}", "is not on the robot, and is left out")
                continue
            own = Pose(rotation_from_quaternion(self.model.site_quat[s]), self.model.site_pos[s])
            new = free_name(name if name not in taken else f"{name}.site", taken)
            if new != name:
                self.losses.add(f"site {name!r}", f"has the name of a body, and is called {new!r}")
            frames.append(Frame(new, self.body_names[body], self.shift[body] @ own))
        return frames

    def _thrusters(self) -> tuple[list[Thruster], set[int]]:
        """Motors that push at a site, with a largest control; also their sites, where these serve nothing else."""
        model = self.model
        thrusters, used = [], set()
        for a in range(model.nu):
            name = self._name("actuator", a)
            gear = model.actuator_gear[a]
            site = int(model.actuator_trnid[a, 0])
            pushes = (
                model.actuator_trntype[a] == TRN_SITE
                and model.actuator_trnid[a, 1] < 0
                and model.actuator_dyntype[a] == 0
                and model.actuator_gaintype[a] == 0
                and model.actuator_biastype[a] == 0
                and model.actuator_ctrllimited[a]
                and model.actuator_ctrlrange[a, 0] == 0.0
                and not np.any(gear[3:])
                and np.any(gear[:3])
            )
            if not (pushes and name and int(model.site_bodyid[site]) in self.inside):
                self.losses.add(f"actuator {name or a!r}", "is left out")
                continue
            body = int(model.site_bodyid[site])
            own = self.shift[body] @ Pose(rotation_from_quaternion(model.site_quat[site]), model.site_pos[site])
            length = float(np.linalg.norm(gear[:3]))
            if abs(length - 1.0) < 1e-12:  # a unit vector but for rounding: the force is the control itself
                length = 1.0
            force = float(model.actuator_ctrlrange[a, 1] * model.actuator_gainprm[a, 0] * length)
            with located(f"actuator {name!r}"):
                direction = own.rotation @ (gear[:3] / length)
                thrusters.append(Thruster(name, self.body_names[body], own.translation, direction, force))
            if self._name("site", site).startswith(f"{name}.thruster"):
                used.add(site)
        return thrusters, used

    def _couplings(self) -> list[Coupling]:
        model, couplings = self.model, []
        for t in range(model.ntendon):
            name = self._name("tendon", t) or f"tendon{t}"
            parts = range(int(model.tendon_adr[t]), int(model.tendon_adr[t]) + int(model.tendon_num[t]))
            low, high = (float(x) for x in model.tendon_lengthspring[t])
            joints = [int(model.wrap_objid[w]) for w in parts]
            coefficients = [float(model.wrap_prm[w]) for w in parts]
            linear = (
                len(joints) == 2
                and all(model.wrap_type[w] == WRAP_JOINT for w in parts)
                and all(int(model.jnt_bodyid[j]) in self.inside and j in self.joint_names for j in joints)
                and low == high
                and coefficients[0] != 0.0
                and not model.tendon_limited[t]
                and model.tendon_frictionloss[t] == 0.0
                and (model.tendon_stiffnesspoly is None or not np.any(model.tendon_stiffnesspoly[t]))
                and (model.tendon_dampingpoly is None or not np.any(model.tendon_dampingpoly[t]))
            )
            if not linear:
                self.losses.add(f"tendon {name!r}", "is not a spring between two joints, and is left out")
                continue
            one, two = coefficients
            with located(f"tendon {name!r}"):
                couplings.append(
                    Coupling(
                        name,
                        self.joint_names[joints[0]],
                        self.joint_names[joints[1]],
                        float(model.tendon_stiffness[t]) * one**2,
                        float(model.tendon_damping[t]) * one**2,
                        -two / one,
                        low / one,
                    )
                )
        return couplings

    def _postures(self) -> dict[str, dict[str, float]]:
        """Keyframes that have a name."""
        model = self.model
        return {
            self._name("key", k): {
                name: float(model.key_qpos[k, model.jnt_qposadr[j]]) for j, name in self.joint_names.items()
            }
            for k in range(model.nkey)
            if self._name("key", k)
        }

    def _tell_the_rest(self) -> None:
        for e in range(self.model.neq):
            self.losses.add(f"equality {self._name('eq', e) or e!r}", "is left out")
        for key, what in (("nflex", "flexible body"), ("nplugin", "plugin")):
            if getattr(self.model, key):
                self.losses.add(what, "is left out")
