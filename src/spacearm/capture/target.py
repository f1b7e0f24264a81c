"""A free-floating, tumbling target that the hand captures: plastically, or through a finite contact stiffness.

Plastic: at the touch hand and target become one body, by the impulses that momentum and the locked joints require; the
kinetic energy that is lost is booked. Finite: six soft axes between hand and target, massless bodies in between, act
as the contact's springs and dampers.

The target is a body of the joined robot from then on. Velocities of the target are given at the grasped point, world
axes, m/s and rad/s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from spacearm.capture.modes import check_inertia
from spacearm.capture.plastic_impact import ROBOT, PlasticImpact
from spacearm.capture.soft_joints import AXES, CONTACT, SoftAxis, SoftJoint, find_held_joints, soft_axes, soften
from spacearm.checks import array, check_fields, check_name, positive
from spacearm.engine import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.model import Body, Inertia, Joint, Pose, Robot, Visual, edit
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.scene.shapes import equivalent_box
from spacearm.simulate import Attach, Load, Phase, State, World, simulate
from spacearm.typing import Array

#: Distinguishes a target from the robot that holds it.
COLOUR = "#f0c68f"


@dataclass(frozen=True, eq=False)
class Target:
    """A target to capture.

    Args:
        inertia: in the target's own frame.
        velocity: of the grasped point at contact, world axes, m/s.
        angular_velocity: at contact, world axes, rad/s.
        placement: the target's frame in the hand's frame while it is held.
        name: of the body.
        visuals: visual shapes; the box of its inertia if there are none.
    """

    inertia: Inertia
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    angular_velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    placement: Pose = field(default_factory=Pose)
    name: str = "target"
    visuals: tuple[Visual, ...] = ()

    def __post_init__(self) -> None:
        for name in ("velocity", "angular_velocity"):
            vector = array(getattr(self, name), name, (3,), place="target")
            object.__setattr__(self, name, tuple(map(float, vector)))
        positive(self.inertia.mass, "mass", place="target", unit="kg")
        if self.name == ROBOT:
            raise InputError(f"name is {self.name!r}", place="target", hint="expected another one")

    @property
    def body(self) -> Robot:
        """The target as a system of its own; without visuals it is shown as the box of its inertia."""
        body = Body(self.name, self.inertia, self.visuals)
        # Something to see: a box of the same mass and moments.
        box = None if self.visuals else equivalent_box(body)
        return Robot(self.name, (body if box is None else replace(body, visuals=(replace(box, colour=COLOUR),)),))

    def contact_state(self, robot: Robot, state: State, hand: str) -> State:
        """Pose and motion of the target when this robot's hand touches it."""
        origin, rotation = mechanics_of(robot).frame_pose(hand, state.joints, base=state.pose)
        # Touching means that the grasped point is where the hand is, in the pose that was asked for.
        axes, arm = rotation @ self.placement.rotation, rotation @ self.placement.translation
        # Given at the grasped point; the state has it at the target's own origin.
        velocity = np.asarray(self.velocity) + np.cross(self.angular_velocity, arm)
        motion = np.concatenate([axes.T @ velocity, axes.T @ np.asarray(self.angular_velocity)])
        return State(origin + arm, quaternion_from_rotation(axes), np.zeros(0), motion)


@dataclass(frozen=True, eq=False)
class CaughtTarget:
    """The robot with the target in hand, and the state right after contact.

    Args:
        robot: the joined system.
        state: right after contact.
        hand: frame that captured it.
        target: the captured target; its frame in ``robot`` is named ``target.name``.
        impact: the plastic impact; None for a soft contact, where nothing is lost at once.
        relative: twist of the grasped point relative to the hand before contact, hand axes.
        inertia: of the target in the frame ``target.name`` of ``robot``.
    """

    robot: Robot
    state: State
    hand: str
    target: Target
    impact: PlasticImpact | None
    relative: Array
    inertia: Inertia

    @property
    def hand_impulse(self) -> Array:
        """Impulse of the target on the hand (N s, N m s), world axes, at the hand; zero for a soft contact."""
        return np.zeros(6) if self.impact is None else self.impact.entry.changed.wrench


def catch(
    robot: Robot, state: State, target: Target, hand: str = "hand", *, held: Sequence[str] | None = None
) -> CaughtTarget:
    """Plastic capture: hand and target have one velocity from contact on.

    ``held`` are joints that do not move in the impact: by default all but the soft axes, as in
    :func:`~spacearm.capture.simulate_capture`; including the soft axes for a clutch in rigid mode; excluding those that
    are ``free`` afterwards. All others take part freely, so soft joints protect the base from the first instant.
    """
    held = find_held_joints(robot) if held is None else held
    _check(robot, state, hand, held)
    # As two systems that are joined: the same change as in any run, with its ledger.
    world = World({ROBOT: robot, target.name: target.body})
    states = {ROBOT: state, target.name: target.contact_state(robot, state, hand)}
    impact = PlasticImpact(world, states, Attach(target.name, hand, held))
    joined = edit.attach(robot, hand, Body(target.name, target.inertia), target.placement)
    # Soft axes must move mass of their own, once they are free.
    check_inertia(joined, state.joints, held)
    relative = relative_twist(robot, state, target, hand)
    return CaughtTarget(impact.robot, impact.state, hand, target, impact, relative, target.inertia)


def catch_softly(
    robot: Robot,
    state: State,
    target: Target,
    contact: SoftJoint | SoftAxis,
    hand: str = "hand",
    *,
    held: Sequence[str] | None = None,
) -> CaughtTarget:
    """Capture through a finite contact stiffness: a soft joint ``contact`` between the hand and the target.

    Nothing jumps: the relative velocity before contact becomes the rates of the contact's axes. ``contact`` needs all
    six axes (one :class:`SoftAxis` may stand for all), since a rigid one could not take up its share. The grip does not
    open: it pulls as well as it pushes. ``held`` as for :func:`catch`: these joints must be at rest.
    """
    _check(robot, state, hand, find_held_joints(robot) if held is None else held)
    if isinstance(contact, SoftAxis):
        contact = SoftJoint(**dict.fromkeys(AXES, contact))
    missing = [name for name in AXES if name not in contact.axes]
    if missing:
        raise InputError(f"axis {missing[0]!r} is missing", place="contact", hint="expected all six axes")
    # Rates of the contact's axes are relative velocities: the touch itself changes no velocity and takes no energy.
    gap = relative_twist(robot, state, target, hand)
    # The contact's body is massless and at the hand; the target's frame keeps its placement relative to it.
    inertia = target.inertia.transform(target.placement)
    visuals = tuple(visual.transform(target.placement) for visual in target.body.bodies[0].visuals)
    bare = Joint(CONTACT, "revolute", "", "")
    joined = edit.attach_by_joint(robot, hand, Body(target.name, inertia, visuals), bare)
    joined = soften(joined, CONTACT, contact, where="instead")
    index = [joined.joint_index(name) for name in robot.joint_names]
    joints, rates = np.zeros(joined.n), np.zeros(joined.n)
    joints[index], rates[index] = state.joints, state.rates
    # Slides are followed by rotations about the same origin, so at zero the rates are the twist itself.
    for name, rate in zip(AXES, gap, strict=True):
        rates[joined.joint_index(f"{CONTACT}.{name}")] = rate
    new = State(state.position, state.quaternion, joints, np.concatenate([state.velocity[:6], rates]))
    return CaughtTarget(joined, new, hand, target, None, gap, inertia)


def _check(robot: Robot, state: State, hand: str, held: Sequence[str]) -> None:
    state.check(robot)
    for name in held:
        check_name(name, robot.joint_names, "joint", place="held")
        if state.rates[robot.joint_index(name)] != 0.0:
            raise InputError(f"joint {name!r} is held while it moves", place="held", hint="start it at rest")
    with error_context("hand"):
        robot.frame(hand)


def relative_twist(robot: Robot, state: State, target: Target, hand: str) -> Array:
    """Twist of the grasped point relative to the hand, hand axes."""
    mechanics = mechanics_of(robot)
    rotation = mechanics.frame_pose(hand, state.joints, base=state.pose)[1]
    twist = mechanics.frame_velocity(hand, state.joints, state.velocity, base=state.pose)
    gap = np.concatenate([target.velocity, target.angular_velocity]) - twist
    return np.concatenate([rotation.T @ gap[:3], rotation.T @ gap[3:]])


@dataclass(frozen=True, eq=False)
class Approach:
    """The arm moves to meet a target: joints follow paths until contact, while the clutch is closed.

    Args:
        state: at the start of the run.
        target: the target and its motion at contact, which ends the approach.
        duration: s until contact.
        driven: joint to path (position over time since the start of the run: a signal with continuous rate). After
            contact it continues. Joints without a path are held until contact.
        compliant: joints whose drives become compliant at contact, each with a spring and damper about its position
            then.
        hand: frame that catches.
    """

    state: State
    target: Target
    duration: float
    driven: Mapping[str, Any] = field(default_factory=dict)
    compliant: Mapping[str, SoftAxis] = field(default_factory=dict)
    hand: str = "hand"

    def __post_init__(self) -> None:
        check_fields(self, positive, "duration", place="approach", unit="s")

    def check(self, robot: Robot) -> None:
        """Check that the approach fits the robot."""
        self.state.check(robot)
        with error_context("approach"):
            robot.frame(self.hand)
            for what in ("driven", "compliant"):
                for name in getattr(self, what):
                    check_name(name, robot.joint_names, "joint", place=what)
                    if name in soft_axes(robot):
                        raise InputError(f"{name!r} is a soft axis", place=what, hint="the clutch controls it")

    def phase(self, robot: Robot, loads: Sequence[Load] = ()) -> Phase:
        """The phase until contact."""
        # The clutch is closed until contact: soft axes are among what is held.
        held = [name for name in robot.joint_names if name not in self.driven]
        return Phase(self.duration, locked=held, driven=self.driven, loads=loads, name="approach")

    def target_start(self, robot: Robot, loads: Sequence[Load] = ()) -> State:
        """The target's state at the start of the run: its free motion, integrated backwards from contact."""
        # Where the hand will be: the base moves with the arm, which no kinematics alone tells.
        reached = simulate(robot, self.state, self.phase(robot, loads), ledger=False, sample=[0.0]).end
        assert reached is not None
        contact = self.target.contact_state(robot, reached, self.hand)
        # Free motion is reversible: with reversed velocities, the motion from contact leads back to the start.
        back = State(contact.position, contact.quaternion, contact.joints, -contact.velocity)
        begin = simulate(self.target.body, back, self.duration, ledger=False, sample=[0.0]).end
        assert begin is not None
        return State(begin.position, begin.quaternion, begin.joints, -begin.velocity)


#: Start of a soft-capture run: a state, or an event that leads to it and becomes part of the record.
Start = State | PlasticImpact | CaughtTarget | Approach


def start_state(robot: Robot, start: Start, held: Iterable[str]) -> State:
    """State at time zero, after an impact or a capture at that instant.

    A joint that is held must be at rest. Stopping it takes an impact, which has to be requested explicitly.
    """
    if not isinstance(start, State | PlasticImpact | CaughtTarget):
        raise InputError(
            f"is a {type(start).__name__}",
            place="start",
            hint="expected a State, a PlasticImpact or the result of catch",
        )
    state = start if isinstance(start, State) else start.state
    remedy = "start from close_clutch(robot, state, joints), which stops them and is recorded"
    if isinstance(start, PlasticImpact):
        remedy = "close the clutch on it too"
    elif isinstance(start, CaughtTarget):
        remedy = "catch with held=..., the same joints that are held afterwards"
        if start.robot != robot:
            raise InputError(
                f"robot {robot.name!r} does not hold {start.target.name!r}",
                place="start",
                hint="give the robot of the capture, caught.robot",
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
    return state
