"""Operations that make a new robot out of others; none changes what it is given.

Body and joint frames stay where they were, so positions, frames and loads of the old robot keep their meaning in the
new one. Configurations keep the joints that remain; a new joint stands at zero in them unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.errors import ModelError, did_you_mean
from spacearm.model.fuse import Weld, about_axis, fuse, located, motion, named_configurations
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
    expect,
    finite,
    unit_vector,
)
from spacearm.model.robot import Robot
from spacearm.typing import Array

__all__ = [
    "Axis",
    "attach",
    "attach_by_joint",
    "detach",
    "flexible",
    "freeze",
    "prefixed",
    "rename",
    "replace_inertias",
    "split_joint",
]


# -- joining and parting -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    """What a body or a robot brings along when it is attached; ``bodies[0]`` is its base."""

    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...] = ()
    frames: tuple[Frame, ...] = ()
    thrusters: tuple[Thruster, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    configurations: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


#: Parts of different kinds may share a name; bodies and frames may not.
_KINDS_OF_PARTS = ("body or frame", "joint", "thruster", "coupling")


def _names(parts: Robot | _Parts) -> tuple[list[str], ...]:
    """The names in use, kind by kind."""
    return (
        [*(body.name for body in parts.bodies), *(frame.name for frame in parts.frames)],
        [joint.name for joint in parts.joints],
        [thruster.name for thruster in parts.thrusters],
        [coupling.name for coupling in parts.couplings],
    )


def attach(robot: Robot, frame: str, other: Body | Robot, placement: Pose | None = None, *, prefix: str = "") -> Robot:
    """Weld a body, or another robot by its base, to a frame of the robot: a captured target, a tool, a payload.

    ``placement`` is the frame of the body (of the other robot's base) in ``frame``. The body is fused into the body
    that carries the frame, and its name stays usable as a frame. Another robot's joints, frames, thrusters and
    couplings come along, their names with ``prefix`` in front. In a configuration that both robots have, each has its
    own joint positions; the attached robot's other configurations are not taken over.
    """
    expect(placement, Pose, "placement", optional=True)
    carrier, guest = robot.frame(frame), _guest(other, prefix)
    base = guest.bodies[0].name
    weld = Weld(f"weld of {base}", carrier.body, base, carrier.placement @ (placement or Pose()))
    return _joined(robot, guest, welds=[weld])


def attach_by_joint(robot: Robot, frame: str, other: Body | Robot, joint: Joint, *, prefix: str = "") -> Robot:
    """Attach a body, or another robot by its base, through a joint.

    ``joint`` gives everything but the bodies: its ``placement`` counts from ``frame``, its ``parent`` and ``child``
    are replaced by the body that carries the frame and by the attached body. ``prefix`` is as in :func:`attach` and
    does not concern the joint's own name.
    """
    expect(joint, Joint, "joint")
    carrier, guest = robot.frame(frame), _guest(other, prefix)
    placed = replace(
        joint, parent=carrier.body, child=guest.bodies[0].name, placement=carrier.placement @ joint.placement
    )
    return _joined(robot, guest, joints=[placed])


def detach(robot: Robot, joint: str) -> tuple[Robot, Robot]:
    """Cut a joint: (what remains, what comes off, its base being the joint's child body).

    The joint goes, with its rotor and passive laws. Couplings that reach across the cut, or hold the cut joint, are
    released. The detached robot is called ``<robot>.<child>``.
    """
    cut = robot.joint(joint)
    away = set(robot.subtree(cut.child))
    halves = []
    for name, inside in ((robot.name, False), (f"{robot.name}.{cut.child}", True)):
        joints = [other for other in robot.joints if other.name != joint and (other.child in away) == inside]
        kept = {other.name for other in joints}
        half = fuse(
            name,
            [body for body in robot.bodies if (body.name in away) == inside],
            joints=joints,
            frames=[frame for frame in robot.frames if (frame.body in away) == inside],
            thrusters=[thruster for thruster in robot.thrusters if (thruster.body in away) == inside],
            couplings=[coupling for coupling in robot.couplings if {coupling.first, coupling.second} <= kept],
            configurations=named_configurations(robot),
        )
        halves.append(half)
    return halves[0], halves[1]


def _guest(other: Body | Robot, prefix: str) -> _Parts:
    if isinstance(other, Body):
        return _Parts((replace(other, name=prefix + other.name),))
    expect(other, Robot, "what is attached")
    other = prefixed(other, prefix)
    return _Parts(
        other.bodies, other.joints, other.frames, other.thrusters, other.couplings, named_configurations(other)
    )


def _joined(robot: Robot, guest: _Parts, *, joints: Sequence[Joint] = (), welds: Sequence[Weld] = ()) -> Robot:
    added = replace(guest, joints=(*joints, *guest.joints))
    for what, ours, theirs in zip(_KINDS_OF_PARTS, _names(robot), _names(added), strict=True):
        for name in sorted({*ours} & {*theirs}):
            raise ModelError(
                f"the robot already has a {what} {name!r}",
                place="what is attached",
                hint="give a prefix, or another joint name",
            )
    configurations = {
        key: {**values, **guest.configurations.get(key, {})} for key, values in named_configurations(robot).items()
    }
    return fuse(
        robot.name,
        (*robot.bodies, *guest.bodies),
        joints=(*robot.joints, *joints, *guest.joints),
        welds=welds,
        frames=(*robot.frames, *guest.frames),
        thrusters=(*robot.thrusters, *guest.thrusters),
        couplings=(*robot.couplings, *guest.couplings),
        configurations=configurations,
    )


# -- inertias and freezing ---------------------------------------------------------------------------------------


def replace_inertias(robot: Robot, inertias: Mapping[str, Inertia]) -> Robot:
    """Other inertias (each in its body's frame) for the bodies named."""
    for name in inertias:
        robot.body_index(name)
    return robot.replace(
        bodies=tuple(replace(body, inertia=inertias.get(body.name, body.inertia)) for body in robot.bodies)
    )


def freeze(robot: Robot, joints: Mapping[str, float] | Iterable[str]) -> Robot:
    """Fuse bodies by holding joints where they are: at the positions given (rad or m), or at zero where only named.

    The frozen joints' child bodies become part of the bodies that carry them, and stay usable as frames. The rotor of
    a frozen joint stands still in its parent and adds its axial inertia there. A coupling between a frozen joint and
    a free one acts as a spring and damper on the free one. Springs, dampers and friction of frozen joints are gone.
    """
    names = (joints,) if isinstance(joints, str) else joints
    held = dict(joints) if isinstance(joints, Mapping) else dict.fromkeys(names, 0.0)
    for name, value in held.items():
        robot.joint_index(name)
        held[name] = finite(value, f"position of joint {name!r}")
    welds, moments = [], dict[str, Array]()
    for joint in robot.joints:
        if joint.name not in held:
            continue
        place = joint.placement @ motion(joint.kind, joint.axis, held[joint.name])
        welds.append(Weld(joint.name, joint.parent, joint.child, place))
        if joint.rotor is not None:
            tensor = about_axis(joint.placement.rotation @ joint.axis, joint.rotor.inertia)
            moments[joint.parent] = moments.get(joint.parent, np.zeros((3, 3))) + tensor
    free = {joint.name: joint for joint in robot.joints if joint.name not in held}
    couplings = []
    for coupling in robot.couplings:
        if coupling.first in free and coupling.second in free:
            couplings.append(coupling)
            continue
        for name in (coupling.first, coupling.second):
            if name in free:
                free[name] = _held_by(free[name], coupling, held)
    return fuse(
        robot.name,
        robot.bodies,
        joints=free.values(),
        welds=welds,
        frames=robot.frames,
        thrusters=robot.thrusters,
        couplings=couplings,
        configurations=named_configurations(robot),
        moments=moments,
    )


def _held_by(joint: Joint, coupling: Coupling, held: Mapping[str, float]) -> Joint:
    """The joint with the spring and damper that a coupling is to it while its other joint is held."""
    if joint.name == coupling.first:  # deflection q - (ratio * held + rest)
        scale, rest = 1.0, coupling.ratio * held[coupling.second] + coupling.rest
    elif coupling.ratio == 0.0:  # nothing of the coupling reaches the second joint
        return joint
    else:  # deflection -ratio * (q - (held - rest) / ratio)
        scale, rest = coupling.ratio**2, (held[coupling.first] - coupling.rest) / coupling.ratio
    stiffness = coupling.stiffness * scale
    spring = joint.spring
    if stiffness > 0.0:
        old = spring or Spring(0.0)
        total = old.stiffness + stiffness
        spring = Spring(total, (old.stiffness * old.rest + stiffness * rest) / total)
    return replace(joint, spring=spring, damping=joint.damping + coupling.damping * scale)


# -- compliance --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """One compliant axis of a joint: a direction ("x", "y", "z" or a unit vector of the joint frame) and its laws."""

    direction: str | npt.ArrayLike
    kind: JointKind
    spring: Spring | None = None
    damping: float = 0.0
    limits: Limits = field(default_factory=Limits)
    friction: Friction | None = None

    @property
    def vector(self) -> Array:
        if isinstance(self.direction, str):
            if self.direction not in ("x", "y", "z"):
                raise ModelError(f"axis direction is {self.direction!r}", hint="expected x, y, z or a unit vector")
            return np.asarray(np.eye(3)["xyz".index(self.direction)])
        return unit_vector(self.direction, "axis")

    @property
    def label(self) -> str:
        way = self.direction if isinstance(self.direction, str) else ""
        return ("turn" if self.kind == "revolute" else "slide") + (f"_{way}" if way else "")


def split_joint(
    robot: Robot, joint: str, axes: Axis | Iterable[Axis], *, where: Literal["after", "before", "instead"] = "after"
) -> Robot:
    """Make a joint compliant: a row of axes with massless bodies between, after it, before it, or instead of it.

    The axes follow one another in the order given, parent to child, all through the joint frame's origin; directions
    are those of the child body's frame ("after") or of the joint frame at zero ("before", "instead"). They are called
    ``<joint>.slide_x``, ``<joint>.turn_y`` and so on; the massless body behind a joint is called ``<its name>.body``.
    A name that is in use, by an earlier split too, gets a number: ``<joint>.slide_x2``, ``<joint>.body2``. The child
    body keeps its name and frame. A coupled joint cannot be replaced.
    """
    old, axes = robot.joint(joint), [axes] if isinstance(axes, Axis) else list(axes)
    for index, axis in enumerate(axes):
        expect(axis, Axis, f"axes[{index}]")
    if where not in ("after", "before", "instead"):
        raise ModelError(f"where is {where!r}", hint="expected 'after', 'before' or 'instead'")
    if not axes:
        raise ModelError("there is no axis to split into", place=f"joint {joint!r}", hint="expected one or more")
    if where == "instead":
        for coupling in robot.couplings:
            if joint in (coupling.first, coupling.second):
                raise ModelError(
                    f"coupling {coupling.name!r} holds it, so it cannot be replaced",
                    place=f"joint {joint!r}",
                    hint="split after or before it",
                )
    row: list[Joint] = []
    places, joints, *_ = (set(names) for names in _names(robot))
    for axis in axes:
        name = _unused(f"{joint}.{axis.label}", joints)
        with located(f"joint {name!r}"):
            row.append(
                Joint(
                    name,
                    axis.kind,
                    "",
                    "",
                    axis=axis.vector,
                    spring=axis.spring,
                    damping=axis.damping,
                    friction=axis.friction,
                    limits=axis.limits,
                )
            )
    moved = replace(old, placement=Pose())
    row = {"after": [moved, *row], "before": [*row, moved], "instead": row}[where]
    row[0] = replace(row[0], placement=old.placement)
    massless = [Body(_unused(f"{part.name}.body", places), Inertia.massless()) for part in row[:-1]]
    stations = [old.parent, *(body.name for body in massless), old.child]
    row = [replace(part, parent=stations[i], child=stations[i + 1]) for i, part in enumerate(row)]
    index = robot.joint_index(joint)
    return fuse(
        robot.name,
        (*robot.bodies, *massless),
        joints=(*robot.joints[:index], *row, *robot.joints[index + 1 :]),
        frames=robot.frames,
        thrusters=robot.thrusters,
        couplings=robot.couplings,
        configurations=named_configurations(robot),
    )


def _unused(name: str, taken: set[str]) -> str:
    """``name``, with the first number from 2 on that makes it new; it is taken from now on."""
    number, new = 1, name
    while new in taken:
        number += 1
        new = f"{name}{number}"
    taken.add(new)
    return new


def flexible(robot: Robot, joint: str, stiffness: float, damping: float = 0.0, rotor: Rotor | None = None) -> Robot:
    """Put a spring and damper (N m/rad, N m s/rad) between a revolute joint and its drive.

    Adds a motor joint ``<joint>.motor`` beside the joint, on the same parent body, with a massless child body
    ``<joint>.rotor``, and the coupling ``<joint>.transmission``. The motor's coordinate is the angle on the load side.
    ``rotor`` is the drive's rotor; left out, it is the one the joint has had, which moves to the motor. Configurations
    give the motor the joint's own angle, so the spring is relaxed there.
    """
    link = robot.joint(joint)
    rotor = rotor or link.rotor
    with located(f"joint {joint!r}"):
        if link.kind != "revolute":
            raise ModelError("only a revolute joint can be made flexible", hint="split_joint takes prismatic axes")
        if rotor is None:
            raise ModelError("a flexible joint needs a rotor", hint="give the drive's Rotor(inertia, ratio)")
        motor = Joint(
            f"{joint}.motor", "revolute", link.parent, f"{joint}.rotor", link.placement, link.axis, rotor=rotor
        )
        coupling = Coupling(f"{joint}.transmission", joint, motor.name, stiffness, damping)
    index = robot.joint_index(joint)
    return fuse(
        robot.name,
        (*robot.bodies, Body(motor.child, Inertia.massless())),
        joints=(*robot.joints[:index], replace(link, rotor=None), motor, *robot.joints[index + 1 :]),
        frames=robot.frames,
        thrusters=robot.thrusters,
        couplings=(*robot.couplings, coupling),
        configurations={
            key: {**values, motor.name: values[joint]} for key, values in named_configurations(robot).items()
        },
    )


# -- names -------------------------------------------------------------------------------------------------------


def rename(robot: Robot, names: Mapping[str, str]) -> Robot:
    """Other names for bodies, joints, frames, thrusters and couplings: every part of an old name gets the new one."""
    known = {name for kind in _names(robot) for name in kind}
    for name in names:
        if name not in known:
            raise ModelError(f"robot {robot.name!r} has no part {name!r}", hint=did_you_mean(name, known))

    def new(name: str) -> str:
        return names.get(name, name)

    return robot.replace(
        bodies=tuple(replace(body, name=new(body.name)) for body in robot.bodies),
        joints=tuple(
            replace(joint, name=new(joint.name), parent=new(joint.parent), child=new(joint.child))
            for joint in robot.joints
        ),
        frames=tuple(replace(frame, name=new(frame.name), body=new(frame.body)) for frame in robot.frames),
        thrusters=tuple(
            replace(thruster, name=new(thruster.name), body=new(thruster.body)) for thruster in robot.thrusters
        ),
        couplings=tuple(
            replace(coupling, name=new(coupling.name), first=new(coupling.first), second=new(coupling.second))
            for coupling in robot.couplings
        ),
    )


def prefixed(robot: Robot, prefix: str) -> Robot:
    """The same robot with ``prefix`` in front of the name of every part; its own name and its configurations' stay."""
    return rename(robot, {name: prefix + name for kind in _names(robot) for name in kind}) if prefix else robot
