"""Operations that make a new robot out of others; none changes what it is given.

Body and joint frames stay where they were, so positions, frames and loads of the old robot keep their meaning in the
new one. Configurations keep the joints that remain; a new joint stands at zero in them unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import ModelError, error_context
from spacearm.model.fuse import Weld, axial_tensor, configurations_by_name, fuse, joint_pose
from spacearm.model.loops import is_frozen
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
    Visual,
    expect,
    finite,
    unit_vector,
)
from spacearm.model.robot import PART_KINDS, Robot, free_name
from spacearm.typing import Array

# -- joining and parting -----------------------------------------------------------------------------------------


#: Parts of different kinds may share a name; bodies and frames may not.
_KINDS_OF_PARTS = ("body or frame", "joint", "thruster", "coupling", "loop", "tank")


def _parts(robot: Robot) -> dict[str, Any]:
    """The robot as :func:`fuse` takes it."""
    return {kind: getattr(robot, kind) for kind in PART_KINDS} | {"configurations": configurations_by_name(robot)}


def _rebuild(robot: Robot, **changes: Any) -> Robot:
    """The robot with other parts, fused."""
    return fuse(robot.name, **(_parts(robot) | changes), base=robot.base)


def _names(parts: Mapping[str, Any]) -> tuple[list[str], ...]:
    """The names in use, kind by kind."""
    bodies, joints, frames, *others = ([part.name for part in parts[kind]] for kind in PART_KINDS)
    return [*bodies, *frames], joints, *others


def attach(robot: Robot, frame: str, other: Body | Robot, placement: Pose | None = None, *, prefix: str = "") -> Robot:
    """Weld a body, or another robot by its base, to a frame of the robot: a captured target, a tool, a payload.

    ``placement`` is the frame of the body (of the other robot's base) in ``frame``. The body is fused into the body
    that carries the frame, and its name stays usable as a frame. Another robot's joints, frames, thrusters, couplings
    and loops come along, their names with ``prefix`` in front. In a configuration that both robots have, each has its
    own joint positions; the attached robot's other configurations are not taken over.
    """
    expect(placement, Pose, "placement", optional=True)
    carrier, guest = robot.frame(frame), _guest_parts(other, prefix)
    return _join_parts(robot, guest, welds=[carrier_weld(carrier, guest, placement or Pose())])


def mount(
    robot: Robot,
    other: Robot,
    placement: Pose | None = None,
    *,
    frame: str | None = None,
    prefix: str = "",
    base_inertia: bool = True,
) -> Robot:
    """Weld another robot by its base to the robot: an arm to a satellite.

    As :func:`attach`, but for configurations: those of both robots are there, and joints of a robot that does not have
    one stand at zero in it.

    Args:
        placement: the other robot's base in ``frame``.
        frame: of the robot; its base if omitted.
        prefix: in front of the names of the other robot's parts.
        base_inertia: False leaves out the mass of the other robot's base, a pedestal for the laboratory.
    """
    expect(robot, Robot, "robot")
    expect(other, Robot, "what is mounted")
    expect(placement, Pose, "placement", optional=True)
    guest = _parts(prefix_names(other, prefix))
    weld = carrier_weld(
        robot.frame(frame or robot.bodies[0].name), guest, placement or Pose(), base_inertia=base_inertia
    )
    # A configuration of the guest alone: the host's joints stand at zero in it.
    everywhere: dict[str, dict[str, float]] = {key: {} for key in guest["configurations"]}
    everywhere |= configurations_by_name(robot)
    return _join_parts(robot, guest, welds=[weld], configurations=everywhere)


def carrier_weld(carrier: Frame, guest: dict[str, Any], placement: Pose, *, base_inertia: bool = True) -> Weld:
    """The weld of a guest's base to a frame; without ``base_inertia`` the base of ``guest`` becomes massless."""
    base, *others = guest["bodies"]
    if not base_inertia:
        # The body stays: its name may be that of a frame, and joints begin at it.
        guest["bodies"] = (replace(base, inertia=Inertia.massless()), *others)
    return Weld(f"weld of {base.name}", carrier.body, base.name, carrier.placement @ placement)


def add_parts(
    robot: Robot,
    *,
    bodies: Iterable[Body] = (),
    joints: Iterable[Joint] = (),
    frames: Iterable[Frame] = (),
    thrusters: Iterable[Thruster] = (),
) -> Robot:
    """The robot with further parts: wheels (:func:`spacearm.model.wheel`), thrusters, frames, bodies on joints."""
    more = {"bodies": bodies, "joints": joints, "frames": frames, "thrusters": thrusters}
    return _rebuild(robot, **{kind: (*getattr(robot, kind), *added) for kind, added in more.items()})


def attach_by_joint(
    robot: Robot, frame: str, other: Body | Robot, joint: Joint, *, prefix: str = "", placement: Pose | None = None
) -> Robot:
    """Attach a body, or another robot by its base, through a joint.

    ``joint`` gives everything but the bodies: its ``placement`` counts from ``frame``, its ``parent`` and ``child``
    are replaced by the body that carries the frame and by the attached body. ``prefix`` is as in :func:`attach` and
    does not concern the joint's own name. With ``placement`` the attached body's frame lies there in the joint's frame
    at zero, not at its origin: the joint's child is then called like the joint, and the body's name stays a frame.
    """
    expect(joint, Joint, "joint")
    expect(placement, Pose, "placement", optional=True)
    carrier, guest = robot.frame(frame), _guest_parts(other, prefix)
    base, welds = guest["bodies"][0].name, []
    if placement is not None:
        welds = [Weld(f"weld of {base}", joint.name, base, placement)]
        # A massless body at the joint's frame, to which the guest is welded where it lies.
        guest["bodies"] = (Body(joint.name, Inertia.massless()), *guest["bodies"])
    placed = replace(
        joint, parent=carrier.body, child=base if placement is None else joint.name,
        placement=carrier.placement @ joint.placement,
    )  # fmt: skip
    return _join_parts(robot, guest, joints=[placed], welds=welds)


def detach(robot: Robot, joint: str, *, keep_rotor: bool = False) -> tuple[Robot, Robot]:
    """Cut a joint: (what remains, what comes off, its base being the joint's child body).

    The joint goes, with its rotor and passive laws; with ``keep_rotor`` the rotor stands still in its parent and adds
    its axial inertia there. Couplings and loops that reach across the cut, or hold the cut joint, are released. The
    detached robot is called ``<robot>.<child>``, and its base is free.
    """
    cut = robot.joint(joint)
    away = set(robot.subtree(cut.child))

    def half(name: str, inside: bool) -> Robot:
        joints = [other for other in robot.joints if other.name != joint and (other.child in away) == inside]
        kept = {other.name for other in joints}
        bodies = [body for body in robot.bodies if (body.name in away) == inside]
        frames = [frame for frame in robot.frames if (frame.body in away) == inside]
        places = {*(body.name for body in bodies), *(frame.name for frame in frames)}
        # A tank is where its liquid is; thrusters on the other side are no longer fed by it.
        tanks = [tank for tank in robot.tanks if tank.name in places]
        fed = {"", *(tank.name for tank in tanks)}
        thrusters = [thruster for thruster in robot.thrusters if (thruster.body in away) == inside]
        return fuse(
            name,
            bodies,
            joints=joints,
            frames=frames,
            thrusters=[each if each.tank in fed else replace(each, tank="") for each in thrusters],
            tanks=tanks,
            couplings=[coupling for coupling in robot.couplings if {coupling.first, coupling.second} <= kept],
            loops=[
                loop for loop in robot.loops if {loop.first, loop.second} <= (places if loop.joins_frames else kept)
            ],
            configurations=configurations_by_name(robot),
            moments=_rotor_tensors([cut]) if keep_rotor and not inside else None,
            base=None if inside else robot.base,
        )

    return half(robot.name, False), half(f"{robot.name}.{cut.child}", True)


def _guest_parts(other: Body | Robot, prefix: str) -> dict[str, Any]:
    """What a body or a robot brings along when it is attached; ``bodies[0]`` is its base."""
    if isinstance(other, Body):
        nothing: dict[str, Any] = dict.fromkeys(PART_KINDS, ()) | {"configurations": {}}
        return nothing | {"bodies": (replace(other, name=prefix + other.name),)}
    expect(other, Robot, "what is attached")
    return _parts(prefix_names(other, prefix))


def _join_parts(
    robot: Robot,
    guest: dict[str, Any],
    *,
    joints: Sequence[Joint] = (),
    welds: Sequence[Weld] = (),
    configurations: Mapping[str, Mapping[str, float]] | None = None,
) -> Robot:
    host, guest = _parts(robot), guest | {"joints": (*joints, *guest["joints"])}
    for what, ours, theirs in zip(_KINDS_OF_PARTS, _names(host), _names(guest), strict=True):
        # Before fusing, which would report it as two bodies of one name without saying whose.
        for name in sorted({*ours} & {*theirs}):
            raise ModelError(
                f"the robot already has a {what} {name!r}",
                place="what is attached",
                hint="give a prefix, or another joint name",
            )
    kept = host["configurations"] if configurations is None else configurations
    positions = {key: {**values, **guest["configurations"].get(key, {})} for key, values in kept.items()}
    both: dict[str, Any] = {kind: (*host[kind], *guest[kind]) for kind in PART_KINDS}
    return fuse(robot.name, **both, welds=welds, configurations=positions, base=robot.base)


# -- inertias and freezing ---------------------------------------------------------------------------------------


def replace_inertias(robot: Robot, inertias: Mapping[str, Inertia]) -> Robot:
    """Other inertias (each in its body's frame) for the bodies named."""
    for name in inertias:
        robot.body_index(name)
    return robot.replace(
        bodies=tuple(replace(body, inertia=inertias.get(body.name, body.inertia)) for body in robot.bodies)
    )


def scale_masses(robot: Robot, factor: float) -> Robot:
    """The robot with masses and inertias of all bodies larger by a factor; rotors stay."""
    return replace_inertias(
        robot, {body.name: Inertia.from_parameters(factor * body.inertia.parameters) for body in robot.bodies}
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
    # Welds in the tree's order: a chain of frozen joints then fuses from the base outwards.
    stuck = [joint for joint in robot.joints if joint.name in held]
    places = [joint.placement @ joint_pose(joint.kind, joint.axis, held[joint.name]) for joint in stuck]
    welds = [Weld(joint.name, joint.parent, joint.child, place) for joint, place in zip(stuck, places, strict=True)]
    free = {joint.name: joint for joint in robot.joints if joint.name not in held}
    couplings = []
    for coupling in robot.couplings:
        if coupling.first in free and coupling.second in free:
            couplings.append(coupling)
            continue
        for name in (coupling.first, coupling.second):
            if name in free:
                free[name] = _absorb_coupling(free[name], coupling, held)
    loops = [loop for loop in robot.loops if not is_frozen(robot, loop, held.keys())]
    # Liquid that does not slosh any more is a part of its body, and nothing can be taken from it.
    tanks = [tank for tank in robot.tanks if not {f"{tank.name}.slosh_x", f"{tank.name}.slosh_y"} & held.keys()]
    fed = {"", *(tank.name for tank in tanks)}
    thrusters = [each if each.tank in fed else replace(each, tank="") for each in robot.thrusters]
    return _rebuild(
        robot, joints=free.values(), welds=welds, couplings=couplings, loops=loops, tanks=tanks, thrusters=thrusters,
        moments=_rotor_tensors(stuck),
    )  # fmt: skip


def _rotor_tensors(joints: Iterable[Joint]) -> dict[str, Array]:
    """What rotors that stand still in their parents add to the parents' inertia tensors."""
    found: dict[str, Array] = {}
    for joint in joints:
        if joint.rotor is not None:
            tensor = axial_tensor(joint.placement.rotation @ joint.axis, joint.rotor.inertia)
            found[joint.parent] = found.get(joint.parent, np.zeros((3, 3))) + tensor
    return found


def _absorb_coupling(joint: Joint, coupling: Coupling, held: Mapping[str, float]) -> Joint:
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
        # Two springs in parallel are one with the sum of the stiffnesses and the weighted mean of the rests.
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
            checks.one_of(self.direction, ("x", "y", "z"), "axis direction", error=ModelError)
            return np.asarray(np.eye(3)["xyz".index(self.direction)])
        return unit_vector(self.direction, "axis")

    @property
    def label(self) -> str:
        suffix = self.direction if isinstance(self.direction, str) else ""
        return ("rotation" if self.kind == "revolute" else "slide") + (f"_{suffix}" if suffix else "")


def split_joint(
    robot: Robot, joint: str, axes: Axis | Iterable[Axis], *, where: Literal["after", "before", "instead"] = "after"
) -> Robot:
    """Make a joint compliant: a row of axes with massless bodies between, after it, before it, or instead of it.

    The axes follow one another in the order given, parent to child, all through the joint frame's origin; directions
    are those of the child body's frame ("after") or of the joint frame at zero ("before", "instead"). They are called
    ``<joint>.slide_x``, ``<joint>.rotation_y`` and so on; the massless body behind a joint is called
    ``<its name>.body``. A name that is in use, by an earlier split too, gets a number: ``<joint>.slide_x2``,
    ``<joint>.body2``. The child body keeps its name and frame. A coupled joint cannot be replaced.
    """
    old, axes = robot.joint(joint), [axes] if isinstance(axes, Axis) else list(axes)
    for index, axis in enumerate(axes):
        expect(axis, Axis, f"axes[{index}]")
    checks.one_of(where, ("after", "before", "instead"), "where", error=ModelError)
    checks.check_not_empty(axes, "axis to split into", place=f"joint {joint!r}", error=ModelError)
    if where == "instead":
        for coupling in robot.couplings:
            if joint in (coupling.first, coupling.second):
                raise ModelError(
                    f"coupling {coupling.name!r} holds it, so it cannot be replaced",
                    place=f"joint {joint!r}",
                    hint="split after or before it",
                )
        for loop in robot.loops:
            if not loop.joins_frames and joint in (loop.first, loop.second):
                raise ModelError(
                    f"gear {loop.name!r} holds it, so it cannot be replaced",
                    place=f"joint {joint!r}",
                    hint="split after or before it",
                )
    row: list[Joint] = []
    places, joints, *_ = (set(names) for names in _names(_parts(robot)))
    for axis in axes:
        name = free_name(f"{joint}.{axis.label}", joints)
        laws = {key: getattr(axis, key) for key in ("spring", "damping", "friction", "limits")}
        with error_context(f"joint {name!r}", fallback=True):
            row.append(Joint(name, axis.kind, "", "", axis=axis.vector, **laws))
    # The row as a whole stands where the joint stood: its first part gets the placement, all others follow at zero
    # distance.
    moved = replace(old, placement=Pose())
    row = {"after": [moved, *row], "before": [*row, moved], "instead": row}[where]
    row[0] = replace(row[0], placement=old.placement)
    massless = [Body(free_name(f"{part.name}.body", places), Inertia.massless()) for part in row[:-1]]
    stations = [old.parent, *(body.name for body in massless), old.child]
    row = [replace(part, parent=stations[i], child=stations[i + 1]) for i, part in enumerate(row)]
    index = robot.joint_index(joint)
    joints_after = (*robot.joints[:index], *row, *robot.joints[index + 1 :])
    return _rebuild(robot, bodies=(*robot.bodies, *massless), joints=joints_after)


def make_flexible(
    robot: Robot, joint: str, stiffness: float, damping: float = 0.0, rotor: Rotor | None = None
) -> Robot:
    """Put a spring and damper (N m/rad, N m s/rad) between a revolute joint and its drive.

    Adds a motor joint ``<joint>.motor`` beside the joint, on the same parent body, with a massless child body
    ``<joint>.rotor``, and the coupling ``<joint>.transmission``. The motor's coordinate is the angle on the load side.
    ``rotor`` is the drive's rotor; left out, it is the one the joint has had, which moves to the motor. Configurations
    give the motor the joint's own angle, so the spring is relaxed there.
    """
    link = robot.joint(joint)
    rotor = rotor or link.rotor
    with error_context(f"joint {joint!r}", fallback=True):
        if link.kind != "revolute":
            raise ModelError("only a revolute joint can be made flexible", hint="split_joint takes prismatic axes")
        if rotor is None:
            raise ModelError("a flexible joint needs a rotor", hint="give the drive's Rotor(inertia, ratio)")
        motor = Joint(
            f"{joint}.motor", "revolute", link.parent, f"{joint}.rotor", link.placement, link.axis, rotor=rotor
        )
        coupling = Coupling(f"{joint}.transmission", joint, motor.name, stiffness, damping)
    index = robot.joint_index(joint)
    return _rebuild(
        robot,
        bodies=(*robot.bodies, Body(motor.child, Inertia.massless())),
        joints=(*robot.joints[:index], replace(link, rotor=None), motor, *robot.joints[index + 1 :]),
        couplings=(*robot.couplings, coupling),
        configurations={
            key: {**values, motor.name: values[joint]} for key, values in configurations_by_name(robot).items()
        },
    )


# -- names -------------------------------------------------------------------------------------------------------


def rename(robot: Robot, names: Mapping[str, str]) -> Robot:
    """Other names for bodies, joints, frames, thrusters, couplings and loops: every part of an old name gets it."""
    known = {name for kind in _names(_parts(robot)) for name in kind}
    for name in names:
        checks.check_name(name, known, "part", of=f"robot {robot.name!r}", error=ModelError)

    def rename_part(part: Any) -> Any:
        keys = [
            key for key in ("name", "body", "parent", "child", "first", "second", "joint", "tank") if hasattr(part, key)
        ]
        found = replace(part, **{key: names.get(old, old) for key in keys for old in [getattr(part, key)]})
        return replace(found, visuals=tuple(map(rename_visual, part.visuals))) if isinstance(part, Body) else found

    def rename_visual(visual: Visual) -> Visual:
        if not visual.mode_shapes:
            return visual
        return replace(visual, mode_shapes=tuple(map(rename_part, visual.mode_shapes)))

    return robot.replace(**{kind: tuple(map(rename_part, getattr(robot, kind))) for kind in PART_KINDS})


def prefix_names(robot: Robot, prefix: str) -> Robot:
    """The same robot with ``prefix`` in front of the name of every part; its own name and its configurations' stay."""
    every = (name for kind in _names(_parts(robot)) for name in kind)
    return rename(robot, {name: prefix + name for name in every}) if prefix else robot
