"""Reading MJCF: MuJoCo compiles the file, and the compiled model is taken apart.

A MuJoCo body with several joints becomes a row of joints with massless bodies between. A body's frame in spacearm is
the frame of its last joint: where that joint's ``pos`` is not zero, it is shifted from MuJoCo's body frame by it.

The compiled model and not the XML is read, since defaults, includes, frames, inertias from geometry and the many forms
of orientations are then MuJoCo's own work and cannot differ from it. Positions count from MuJoCo's ``ref``, so joint
positions are the same numbers in both. Ball joints become three revolute ones. What has no counterpart is
reported as lost; nothing is left out silently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import ModelError, did_you_mean, error_context, format_path, quote_text
from spacearm.model._mjcf_compile import CompiledModel, compile_bundle
from spacearm.model._mjcf_extras import Extras
from spacearm.model._mjcf_files import Bundle, bundle_file, bundle_text
from spacearm.model._mjcf_visuals import collisions_of, visuals_of
from spacearm.model.fuse import Weld, joint_pose
from spacearm.model.mjcf_write import FAR
from spacearm.model.parts import Body, Coupling, Frame, Inertia, Joint, JointKind, Pose, Rotor, Spring
from spacearm.model.robot import Robot, free_name
from spacearm.model.robot_import import Reading, RobotImport
from spacearm.model.rotations import rotation_from_quaternion, rpy_from_rotation
from spacearm.model.safexml import BOUNDS, Bounds
from spacearm.typing import Array

#: MuJoCo's armature turns with the joint only, not with the body that carries it: a rotor so fast and so light that the
#: carrier's turning does not matter. What remains of it is this many times smaller than the armature; and since it is a
#: power of two (1.4e14), the armature itself is kept to the last bit.
ARMATURE_RATIO = 2.0**47
#: More bodies than this are refused, as in URDF; and more of anything else that becomes a part of the robot.
MAX_BODIES = 1000
MAX_PARTS = {
    "nsite": ("sites", 10_000),
    "nu": ("actuators", 10_000),
    "ntendon": ("tendons", 10_000),
    "neq": ("equality constraints", 10_000),
    "nkey": ("keyframes", 1000),
}
#: How many bodies an error names.
MOST_SHOWN = 12
#: The base of a robot whose joints stand on the world, chosen by this name.
WORLD = "world"
#: MuJoCo's numbers for kinds of joints.
FREE, BALL, SLIDE, HINGE = range(4)
#: A ball joint turns about these axes of the body one after the other.
_BALL_AXES = (("x", (1.0, 0.0, 0.0)), ("y", (0.0, 1.0, 0.0)), ("z", (0.0, 0.0, 1.0)))


def read_mjcf(path: str | Path, reading: Reading | None = None, *, bounds: Bounds = BOUNDS) -> Robot:
    """The robot of an MJCF file; needs the mujoco package.

    Files that it includes or attaches, and meshes that it takes inertias from, must lie in its own folder or below,
    unless ``reading.outside``. What spacearm does not know is left out with a :class:`LossyConversion` warning, or is
    an error where ``reading.strict``. ``bounds`` say how much is read at most.
    """
    path, reading = Path(path), reading or Reading()
    with error_context(file=path):
        bundle = bundle_file(path, outside=reading.outside, bounds=bounds)
        return _robot(bundle, RobotImport(format_path(path), reading), bounds)


def robot_from_mjcf(
    text: str | bytes, file: str | Path | None = None, reading: Reading | None = None, *, bounds: Bounds = BOUNDS
) -> Robot:
    """The robot of an MJCF text, which must not need other files; ``file`` is only named in errors."""
    with error_context(file=file):
        source = "MJCF" if file is None else format_path(file)
        return _robot(bundle_text(text, bounds=bounds), RobotImport(source, reading), bounds)


def mjcf_bases(path: str | Path, *, outside: bool = False, bounds: Bounds = BOUNDS) -> tuple[str, ...]:
    """Names of the bodies of an MJCF file that are a robot of their own, each to be read with ``Reading(base=name)``.

    These are the bodies that stand on the world or float in it and have joints, or all of them if none has joints.
    """
    path = Path(path)
    with error_context(file=path):
        intake = RobotImport(format_path(path))
        tree = _BodyTree(compile_bundle(bundle_file(path, outside=outside, bounds=bounds), intake.losses, bounds))
        return tuple(tree.names[i] for i in tree.candidates)


def _robot(bundle: Bundle, intake: RobotImport, bounds: Bounds) -> Robot:
    for what, count in bundle.left_out.items():
        intake.losses.add(f"{what} ({count})" if count > 1 else what, "is left out")
    return _MjcfReader(compile_bundle(bundle, intake.losses, bounds), intake, bundle.meshes).read()


class _BodyTree:
    """The bodies of a compiled model: names, and which can be a base."""

    def __init__(self, model: CompiledModel) -> None:
        self.model = model
        given = [model.name("body", i) for i in range(model.nbody)]
        taken = set(given)
        self.names = [name or free_name(f"body{i}", taken) for i, name in enumerate(given)]
        self.roots = [i for i in range(1, model.nbody) if model.body_parentid[i] == 0]
        moving = set(model.body_rootid[model.jnt_bodyid].tolist())
        self.candidates = [i for i in self.roots if i in moving] or self.roots

    def subtree(self, root: int) -> set[int]:
        """This body and every body that it carries."""
        inside = {root}
        for i in range(root + 1, self.model.nbody):  # MuJoCo numbers parents before children
            if int(self.model.body_parentid[i]) in inside:
                inside.add(i)
        return inside

    def joints_of(self, body: int) -> range:
        start = int(self.model.body_jntadr[body])
        return range(start, start + int(self.model.body_jntnum[body]))

    def stands_on_joints(self, body: int) -> bool:
        return any(self.model.jnt_type[j] != FREE for j in self.joints_of(body))

    def base(self, reading: Reading) -> int:
        """The body that is the base; 0, the world, where the robot's joints stand on it."""
        if not self.roots:
            raise ModelError("there is no body")
        if reading.base is not None:
            if reading.base not in self.names:
                raise ModelError(
                    f"there is no body {quote_text(reading.base)}", hint=did_you_mean(reading.base, self.names)
                )
            return self.names.index(reading.base)
        if len(self.candidates) > 1:
            shown = self.candidates[:MOST_SHOWN]
            more = f" and {len(self.candidates) - len(shown)} more" if len(self.candidates) > len(shown) else ""
            names = ", ".join(repr(self.names[i]) for i in shown) + more
            raise ModelError(
                f"several bodies are attached to the world or float: {names}",
                hint=f"choose one by base={self.names[self.candidates[0]]!r} (--base on the command line); "
                f"base={WORLD!r} takes all that stand on the world",
            )
        base = self.candidates[0]
        if not self.stands_on_joints(base):
            return base
        if reading.base_mass is None and not reading.repair and not reading.depth:
            raise ModelError(
                "its joints are attached to the world, which has no mass and cannot be a base",
                place=f"body {self.names[base]!r}",
                hint="give the world a mass by base_mass (--base-mass), or let the body itself float by "
                f"base={self.names[base]!r} (--base)",
            )
        return 0


class _MjcfReader:
    def __init__(self, model: CompiledModel, intake: RobotImport, meshes: Mapping[str, str]) -> None:
        self.model, self.intake, self.losses, self.meshes = model, intake, intake.losses, meshes
        self.tree = _BodyTree(model)
        self.base = self.tree.base(intake.reading)
        self.inside = self._select_bodies()
        intake.reading = replace(intake.reading, base=None)  # chosen here, where also the world can be
        if len(self.inside) > MAX_BODIES:
            raise ModelError(f"there are {len(self.inside)} bodies", hint=f"at most {MAX_BODIES} are read")
        for key, (what, most) in MAX_PARTS.items():
            if getattr(model, key) > most:
                raise ModelError(f"there are {getattr(model, key):,} {what}", hint=f"at most {most:,} are read")
        self.extras = Extras(model, self.inside, self.losses)
        given = [model.name("jnt", j) for j in range(model.njnt)]
        taken = set(given)
        self.body_names = dict(enumerate(self.tree.names))
        self.joint_names = {j: name or free_name(f"joint{j}", taken) for j, name in enumerate(given)}
        if self.base == 0:
            self.body_names[0] = free_name("base", set(self.tree.names))
        #: MuJoCo's body frame in spacearm's, by body
        self.shift: dict[int, Pose] = {self.base: Pose()}
        self.bodies: list[Body] = []
        self.joints: list[Joint] = []
        self.welds: list[Weld] = []
        #: joints in their rows, three for a ball joint
        self.rows: dict[int, list[Joint]] = {}

    def _select_bodies(self) -> set[int]:
        """The bodies of the robot; what is not among them is reported."""
        inside = self.tree.subtree(self.base)
        if self.base == 0:
            free = [i for i in self.tree.roots if any(self.model.jnt_type[j] == FREE for j in self.tree.joints_of(i))]
            chosen = self.intake.reading.base == WORLD
            for i in free if chosen else set(self.tree.roots) - set(self.tree.candidates):
                inside -= self.tree.subtree(i)
        else:
            for j in self.tree.joints_of(self.base):
                if self.model.jnt_type[j] != FREE or self.model.body_parentid[self.base] != 0:
                    self.losses.add(
                        f"body {self.tree.names[self.base]!r}", "is the base and floats; its joint is left out"
                    )
        for i in range(1, self.model.nbody):
            if i not in inside:
                self.losses.add(f"body {self.tree.names[i]!r}", "is not part of the robot, and is left out")
        return inside

    def read(self) -> Robot:
        for i in sorted(self.inside):
            if i != self.base:
                self._connect(i)
            own = Pose(rotation_from_quaternion(self.model.body_iquat[i]), self.model.body_ipos[i])
            tensor = np.diag(self.model.body_inertia[i])
            body = self.intake.body(self.body_names[i], float(self.model.body_mass[i]), tensor, self.shift[i] @ own)
            visuals = visuals_of(self.model, i, self.shift[i], self.meshes, self.losses)
            collisions = () if self.model.off_contact else collisions_of(self.model, i, self.shift[i], self.losses)
            body = self._with_free_armature(i, body)
            self.bodies.append(replace(body, visuals=visuals, collisions=collisions))
        self.extras.report_other_losses()
        frames, thrusters, sites = self._frames_and_thrusters()
        named = {j: row[0].name for j, row in self.rows.items() if len(row) == 1}
        couplings: list[Coupling] = []
        with self.intake.problems.collect_errors():
            couplings = self.extras.couplings(named)
        names = {s: frame.name for s, frame in frames.items()}
        loops, ends, mimics = self.extras.constraints(
            named, lambda i: (self.body_names[i], self.shift[i]), sites, names
        )
        return self.intake.robot(
            self.model.model_name or "robot",
            self.bodies,
            joints=self.joints,
            welds=self.welds,
            frames=[*frames.values(), *ends],
            thrusters=thrusters,
            couplings=couplings,
            loops=loops,
            mimics=mimics,
            configurations=self.extras.configurations(self._positions),
            stacklevel=6,
        )

    # -- bodies and joints -------------------------------------------------------------------------------------------

    def _with_free_armature(self, i: int, body: Body) -> Body:
        """The base with its free joint's armature, which is a point mass at its origin and a moment about all axes."""
        joints = [j for j in self.tree.joints_of(i) if i == self.base and self.model.jnt_type[j] == FREE]
        for j in joints:
            dof, place = int(self.model.jnt_dofadr[j]), f"joint {self.joint_names[j]!r}"
            # MuJoCo adds it to all six diagonal entries of the base: as a mass without and a tensor without preferred
            # axes, it is the same in any attitude.
            armature = float(self.model.dof_armature[dof])
            if armature > 0.0:
                self.losses.add(
                    place,
                    f"the armature of a free joint is kept as {armature:g} kg at its origin and {armature:g} kg m2",
                )
                with self.intake.problems.collect_errors(place):
                    body = replace(body, inertia=body.inertia + Inertia(armature, tensor=armature * np.eye(3)))
            acts = (self.model.dof_damping, self.model.dof_frictionloss)
            if any(np.any(values[dof : dof + 6]) for values in acts) or self.model.jnt_stiffness[j]:
                self.losses.add(place, "damping, friction and springs of a free joint are left out")
        return body

    def _connect(self, body: int) -> None:
        model, name = self.model, self.body_names[body]
        carrier = int(model.body_parentid[body])
        parent = self.body_names[carrier]
        pose = Pose(rotation_from_quaternion(model.body_quat[body]), model.body_pos[body])
        place, row = self.shift[carrier] @ pose, self.tree.joints_of(body)
        self.shift[body] = Pose()
        if not row:
            self.welds.append(Weld(f"weld of {name}", parent, name, place))
            return
        for j in row:
            # A slide has no anchor: its axis may pass anywhere.
            anchor = np.zeros(3) if model.jnt_type[j] == SLIDE else model.jnt_pos[j]
            child = name if j == row[-1] else f"{self.joint_names[j]}.body"
            self.rows[j] = self._row(j, parent, child, place @ Pose(translation=anchor))
            self.joints += self.rows[j]
            ends = [joint.child for joint in self.rows[j]]
            self.bodies += [Body(end, Inertia.massless()) for end in ends if end != name]
            # All joints of a body are given in its one frame: from one anchor back to it, then on to the next.
            parent, place = child, Pose(translation=-anchor)
        self.shift[body] = place

    def _row(self, j: int, parent: str, child: str, placement: Pose) -> list[Joint]:
        """The joint, or three for a ball joint."""
        model, name, dof = self.model, self.joint_names[j], int(self.model.jnt_dofadr[j])
        if model.jnt_type[j] == FREE:
            raise ModelError(
                "a free joint is not supported here", place=f"joint {name!r}", hint="free bodies are bases"
            )
        if model.jnt_type[j] == BALL:
            return self._ball(j, parent, child, placement)
        kind: JointKind = "revolute" if model.jnt_type[j] == HINGE else "prismatic"
        address = int(model.jnt_qposadr[j])
        # MuJoCo counts from `ref`: at q = ref the body stands as drawn
        back = joint_pose(kind, model.jnt_axis[j], -float(model.qpos0[address]))
        laws = self._laws(j, dof, kind, float(model.qpos_spring[address]))
        lower, upper = (float(x) for x in model.jnt_range[j]) if self._has_limits(j) else (-math.inf, math.inf)
        limits = {
            "lower": lower if lower > -FAR else -math.inf,
            "upper": upper if upper < FAR else math.inf,
            "effort": self.extras.effort(j),
        }
        axis = model.jnt_axis[j]
        return [self.intake.joint(name, kind, parent, child, placement @ back, axis, limits=limits, **laws)]

    def _has_limits(self, j: int) -> bool:
        return bool(self.model.jnt_limited[j]) and not self.model.off_limit

    def _laws(self, j: int, dof: int, kind: JointKind, rest: float) -> dict[str, Any]:
        """Spring, damping, dry friction and rotor of a degree of freedom."""
        model, place = self.model, f"joint {self.joint_names[j]!r}"
        for key, row in (("jnt_stiffnesspoly", j), ("dof_dampingpoly", dof), ("jnt_springyield", j)):
            if getattr(model, key) is not None and np.any(getattr(model, key)[row]):
                self.losses.add(place, "the non-linear part of its spring or damper is left out")
        damping, armature = self.extras.actuator_terms(j)
        damping, armature = damping + float(model.dof_damping[dof]), armature + float(model.dof_armature[dof])
        stiffness = 0.0 if model.off_spring else float(model.jnt_stiffness[j])
        spring, rotor = None, None
        with self.intake.problems.collect_errors(place):
            spring = Spring(stiffness, rest) if stiffness != 0.0 else None
        with self.intake.problems.collect_errors(place):
            rotor = Rotor(armature / ARMATURE_RATIO**2, ARMATURE_RATIO) if armature != 0.0 else None
        return {
            "spring": spring,
            "rotor": rotor,
            "damping": 0.0 if model.off_damper else damping,
            "friction": 0.0 if model.off_frictionloss else float(model.dof_frictionloss[dof]),
        }

    def _ball(self, j: int, parent: str, child: str, placement: Pose) -> list[Joint]:
        name, dof, address = self.joint_names[j], int(self.model.jnt_dofadr[j]), int(self.model.jnt_qposadr[j])
        place = f"joint {name!r}"
        self.losses.add(
            place,
            "a ball joint becomes three revolute joints, about x, then y, then z of its body; their angles are not "
            "MuJoCo's coordinates, and at 90 deg of the second the first and the third axis coincide",
        )
        if self._has_limits(j):
            self.losses.add(place, "the range of a ball joint, a cone, is left out")
        # Springs of ball joints have their rest as a quaternion; the three joints need angles in their order.
        rest = _xyz_angles(rotation_from_quaternion(self.model.qpos_spring[address : address + 4]))
        row, taken = [], set(self.joint_names.values())
        for index, (ending, axis) in enumerate(_BALL_AXES):
            laws = self._laws(j, dof + index, "revolute", float(rest[index]))
            if index == 0 and any(laws[key] for key in ("spring", "damping", "friction", "rotor")):
                self.losses.add(
                    place,
                    "springs, damping and friction of a ball joint act on the three axes separately, which is "
                    "equivalent only near zero",
                )
            own = free_name(f"{name}.{ending}", taken)
            beyond = child if index == 2 else f"{own}.body"
            row.append(self.intake.joint(own, "revolute", parent, beyond, placement, axis, **laws))
            parent, placement = beyond, Pose()
        return row

    def _positions(self, qpos: Array) -> dict[str, float]:
        """Joint positions by name, from MuJoCo's."""
        found = {}
        for j, row in self.rows.items():
            address = int(self.model.jnt_qposadr[j])
            if len(row) == 1:
                found[row[0].name] = float(qpos[address])
            else:
                angles = _xyz_angles(rotation_from_quaternion(qpos[address : address + 4]))
                found |= {joint.name: float(angle) for joint, angle in zip(row, angles, strict=True)}
        return found

    # -- sites -------------------------------------------------------------------------------------------------------

    def _frames_and_thrusters(self) -> tuple[dict[int, Frame], list[Any], dict[int, tuple[str, Pose]]]:
        places: dict[int, tuple[str, Pose]] = {}
        for s in range(self.model.nsite):
            body = int(self.model.site_bodyid[s])
            if body in self.inside:
                own = Pose(rotation_from_quaternion(self.model.site_quat[s]), self.model.site_pos[s])
                places[s] = self.body_names[body], self.shift[body] @ own
        with self.intake.problems.collect_errors():
            thrusters, used = self.extras.thrusters(places)
            return self._frames(places, used), thrusters, places
        return {}, [], places

    def _frames(self, places: dict[int, tuple[str, Pose]], used: set[int]) -> dict[int, Frame]:
        """Frames by the number of their site."""
        frames, taken = dict[int, Frame](), set(self.body_names.values()) | {body.name for body in self.bodies}
        for s in range(self.model.nsite):
            name = self.model.name("site", s)
            if not name or s in used:
                continue
            if s not in places:
                self.losses.add(f"site {name!r}", "is not on the robot, and is left out")
                continue
            new = free_name(name if name not in taken else f"{name}.site", taken)
            if new != name:
                self.losses.add(f"site {name!r}", "has the name of a body and is renamed with the ending .site")
            frames[s] = Frame(new, *places[s])
        return frames


def _xyz_angles(rotation: Array) -> Array:
    """The angles (a, b, c) with ``rotation = Rx(a) Ry(b) Rz(c)``."""
    return -rpy_from_rotation(rotation.T)  # R^T = Rz(-c) Ry(-b) Rx(-a)
