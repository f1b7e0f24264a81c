"""A free-floating, tumbling target that the hand catches: at once (plastic), or through a finite contact stiffness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spacearm.capture.plastic_impact import (
    Impact,
    body_momentum,
    check_inertia,
    check_joints,
    locked_velocity,
    mechanics_of,
    relative,
)
from spacearm.capture.soft_joints import AXES, CONTACT, SoftAxis, SoftJoint, driven_joints, soften
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Body, Inertia, Joint, Pose, Robot, edit
from spacearm.simulate import State
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Target:
    """What is caught.

    Args:
        inertia: in the target's own frame.
        velocity: of the grasped point at contact, world axes, m/s.
        angular_velocity: angular velocity at contact, world axes, rad/s.
        placement: the target's frame in the hand's frame while it is held.
        name: of the body.
    """

    inertia: Inertia
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    angular_velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    placement: Pose = field(default_factory=Pose)
    name: str = "target"

    def __post_init__(self) -> None:
        for name in ("velocity", "angular_velocity"):
            vector = np.array(getattr(self, name), dtype=np.float64)
            if vector.shape != (3,) or not np.all(np.isfinite(vector)):
                raise InputError(f"{name} is {getattr(self, name)!r}", place="target", hint="expected three numbers")
            object.__setattr__(self, name, tuple(map(float, vector)))
        if self.inertia.mass <= 0.0:
            raise InputError("has no mass", place="target", hint="expected more than zero")


@dataclass(frozen=True, eq=False)
class Caught:
    """The robot with the target in hand, and the state right after contact.

    Args:
        robot: the joined system.
        state: right after contact.
        hand: frame that caught.
        target: what was caught; its frame in ``robot`` is called ``target.name``.
        impact: what the plastic impact did; None for a soft contact, where nothing is lost at once.
        hand_impulse: impulse of the target on the hand (N s, N m s), world axes, at the hand; zero for a soft contact.
        relative: twist of the grasped point relative to the hand before contact, hand axes.
        inertia: of the target in the frame ``target.name`` of ``robot``.
    """

    robot: Robot
    state: State
    hand: str
    target: Target
    impact: Impact | None
    hand_impulse: Array
    relative: Array
    inertia: Inertia


def catch(
    robot: Robot, state: State, target: Target, hand: str = "hand", *, held: Sequence[str] | None = None
) -> Caught:
    """Plastic capture: hand and target have one velocity from contact on.

    ``held`` are joints that do not give way in the impact: by default all but the soft axes, as in
    :func:`~spacearm.capture.cushion`; with the soft axes too for a clutch in rigid mode; less those that are ``free``
    afterwards. All others take part freely, so soft joints shield the base from the very first.
    """
    held = driven_joints(robot) if held is None else held
    _check(robot, state, hand, held)
    before = mechanics_of(robot)
    pose = np.concatenate([state.position, state.quaternion])
    origin, rotation = before.frame_pose(hand, state.joints, base=pose)
    joined = edit.attach(robot, hand, Body(target.name, target.inertia), target.placement)
    check_inertia(joined, state.joints, held)
    moving, turned = _target_motion(target, origin, rotation)
    momentum = before.mass_matrix(state.joints) @ state.velocity
    after = mechanics_of(joined)
    jacobian = after.jacobian(target.name, state.joints, base=pose)
    brought = body_momentum(target.inertia, turned, moving, np.asarray(target.angular_velocity))
    velocity, impulse = locked_velocity(joined, state, momentum + jacobian.T @ brought, held)
    new = State(state.position, state.quaternion, state.joints, velocity)
    kinetic = float(before.kinetic_energy(state.joints, state.velocity))
    kinetic += _kinetic(target.inertia, turned, moving, np.asarray(target.angular_velocity))
    lost = kinetic - float(after.kinetic_energy(state.joints, velocity))
    kept = jacobian @ velocity
    change = brought - body_momentum(target.inertia, turned, kept[:3], kept[3:])  # at the target's own origin
    arm = rotation @ target.placement.translation
    hand_impulse = np.concatenate([change[:3], change[3:] + np.cross(arm, change[:3])])
    gap = _relative(before, state, target, hand, pose, rotation)
    # The contact takes half the impulse times the closing twist; held joints stand still and take nothing.
    taken = 0.5 * float(hand_impulse[:3] @ rotation @ gap[:3] + hand_impulse[3:] @ rotation @ gap[3:])
    shares = [
        before.momentum(state.joints, state.velocity, base=pose, about=origin),
        np.concatenate([brought[:3], brought[3:] + np.cross(arm, brought[:3])]),
    ]
    grown = after.momentum(state.joints, velocity, base=pose, about=origin) - sum(shares)
    impact = Impact(
        0.0,
        f"{target.name} caught by {hand}",
        new,
        lost,
        impulse,
        max(
            relative(grown[part], sum(float(np.linalg.norm(own[part])) for own in shares))
            for part in (slice(0, 3), slice(3, 6))
        ),
        relative(lost - taken, kinetic),
    )
    return Caught(joined, new, hand, target, impact, hand_impulse, gap, target.inertia)


def catch_softly(
    robot: Robot,
    state: State,
    target: Target,
    contact: SoftJoint | SoftAxis,
    hand: str = "hand",
    *,
    held: Sequence[str] | None = None,
) -> Caught:
    """Capture through a finite contact stiffness: a soft joint ``contact`` between the hand and the target.

    Nothing jumps: the relative velocity before contact becomes the rates of the contact's axes. ``contact`` needs all
    six axes (one :class:`SoftAxis` stands for all), since a rigid one could not take up its share. The grip does not
    let go: it pulls as well as it pushes. ``held`` as for :func:`catch`: these joints must stand still.
    """
    _check(robot, state, hand, driven_joints(robot) if held is None else held)
    if isinstance(contact, SoftAxis):
        contact = SoftJoint(**dict.fromkeys(AXES, contact))
    missing = [name for name in AXES if name not in contact.axes]
    if missing:
        raise InputError(f"axis {missing[0]!r} is missing", place="contact", hint="expected all six axes")
    pose = np.concatenate([state.position, state.quaternion])
    before = mechanics_of(robot)
    _, rotation = before.frame_pose(hand, state.joints, base=pose)
    gap = _relative(before, state, target, hand, pose, rotation)
    # The contact's body is massless and sits in the hand; the target's frame keeps its placement behind it.
    inertia = target.inertia.moved(target.placement)
    bare = Joint(CONTACT, "revolute", "", "")
    joined = edit.attach_by_joint(robot, hand, Body(target.name, inertia), bare)
    joined = soften(joined, CONTACT, contact, where="instead")
    index = [joined.joint_index(name) for name in robot.joint_names]
    joints, rates = np.zeros(joined.n), np.zeros(joined.n)
    joints[index], rates[index] = state.joints, state.rates
    # Slides are skyhook_speed by turns about the same origin, so at zero the rates are the twist itself.
    for name, rate in zip(AXES, gap, strict=True):
        rates[joined.joint_index(f"{CONTACT}.{name}")] = rate
    new = State(state.position, state.quaternion, joints, np.concatenate([state.velocity[:6], rates]))
    return Caught(joined, new, hand, target, None, np.zeros(6), gap, inertia)


def _check(robot: Robot, state: State, hand: str, held: Sequence[str]) -> None:
    state.check(robot)
    check_joints(robot, held, "held")
    for name in held:
        if state.rates[robot.joint_index(name)] != 0.0:
            raise InputError(f"joint {name!r} is held while it moves", place="held", hint="start it at rest")
    try:
        robot.frame(hand)
    except InputError as error:
        error.place = "hand"
        raise


def _target_motion(target: Target, origin: Array, rotation: Array) -> tuple[Array, Array]:
    """Velocity of the target's frame origin (world) and the target's rotation to the world, while at the hand."""
    arm = rotation @ target.placement.translation
    velocity = np.asarray(target.velocity) + np.cross(np.asarray(target.angular_velocity), arm)
    return velocity, rotation @ target.placement.rotation


def _relative(mechanics: Mechanics, state: State, target: Target, hand: str, pose: Array, rotation: Array) -> Array:
    twist = mechanics.frame_velocity(hand, state.joints, state.velocity, base=pose)
    gap = np.concatenate([target.velocity, target.angular_velocity]) - twist
    return np.concatenate([rotation.T @ gap[:3], rotation.T @ gap[3:]])


def _kinetic(inertia: Inertia, rotation: Array, velocity: Array, angular_velocity: Array) -> float:
    momentum = body_momentum(inertia, rotation, velocity, angular_velocity)
    return float(0.5 * (momentum[:3] @ velocity + momentum[3:] @ angular_velocity))


#: How a soft motion starts: from a state, or from an impact or a capture that is then part of its record.
Start = State | Impact | Caught


def begin(robot: Robot, start: Start, held: Sequence[str]) -> tuple[State, tuple[Impact, ...]]:
    """State at time zero, and the impacts at that instant which the record must have.

    A joint that is held must stand still. To stop it takes an impact, which nobody should get without asking for it.
    """
    impacts: tuple[Impact, ...] = ()
    if isinstance(start, Caught):
        if start.robot != robot:
            raise InputError(
                f"robot {robot.name!r} does not have {start.target.name!r} in its hand",
                place="start",
                hint="give the robot of the capture, caught.robot",
            )
        state, impacts = start.state, () if start.impact is None else (start.impact,)
        remedy = "catch with held=..., the same joints that are held afterwards"
    elif isinstance(start, Impact):
        state, impacts = start.state, (start,)
        remedy = "close the clutch on it too"
    elif isinstance(start, State):
        state, remedy = start, "start from close_clutch(robot, state, joints), which stops them and is recorded"
    else:
        raise InputError(
            f"is a {type(start).__name__}", place="start", hint="expected a State, an Impact or what catch returns"
        )
    state.check(robot)
    for name in held:
        rate = float(state.rates[robot.joint_index(name)])
        if rate != 0.0:
            raise InputError(
                f"joint {name!r} moves at {rate:.3g} {robot.joint(name).unit}/s but is held: an impact would stop it",
                place="start",
                hint=f"let it move (free=[{name!r}]), or {remedy}",
            )
    return state, tuple(replace(impact, time=0.0) for impact in impacts)
