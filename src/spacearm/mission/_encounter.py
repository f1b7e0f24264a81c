"""The target before capture: its motion up to the planned touch, and the path of the hand that meets it there.

The file gives the target's motion at the planned touch, since that is what a user wants to set. Its state at time zero
follows by integrating backwards. The hand's path is planned on the same grid of times: from its pose to that of the
grasp at the touch by a quintic in time, blended over ``match`` seconds into the grasp's own motion, so that position,
rate and acceleration are continuous. Rotations are blended as rotation vectors relative to the attitude at the touch.

Positions in m, world axes; rotations are body to world; quaternions w, x, y, z; angular velocities in world axes. No
obstacle is avoided and no joint limit looked at here: the stages measure both afterwards. The path assumes perfect
knowledge of the target's motion; what laws assume of its inertia is another matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import PrivateAttr

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, SimulationError
from spacearm.mission._laws import Actuators
from spacearm.model import Body, Frame, Inertia, Pose, Robot, Visual, edit
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.parts import symmetric_six
from spacearm.model.rotations import (
    quaternion_from_rotation,
    rotation_from_rpy,
    rotation_matrices,
    rpy_from_rotation,
)
from spacearm.model.toml_schema import Name, Number, Vector3
from spacearm.simulate import Orbit, Phase, Signal, State, World, simulate
from spacearm.simulate.bodies import centre_motion, cross
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import signals_of_splines
from spacearm.study import Session, key
from spacearm.study.keys import RobotTable
from spacearm.study.surroundings import PoseKeys
from spacearm.study.tables import ConfigurationKeys, JointNumbers, RigidBodyTable, ShapedBodyTable
from spacearm.typing import Array

TARGET, BODY, GRASP = "target", "target body", "grasp"
#: s between the points of a path: a whole number of periods of the laws.
GRID = 0.5
#: s between the points of a path that the target is carried on.
STEP = 0.1
#: Rounds of Newton's method for the target's start, its steps of the differences and where it ends, SI units.
MOST_ROUNDS, DIFFERENCE, MET = 12, 1e-5, 1e-8
#: The hand's frame against that of the grasp: z axes opposed, x axes alike.
FACING = np.diag([1.0, -1.0, -1.0])


class _Reversed(Orbit):
    """An orbit flown backwards."""

    @property
    def strength(self) -> Array:
        return -super().strength


class AssumedTargetTable(RigidBodyTable):
    """The model of the target that laws assume until it has been identified."""


class MissionTargetTable(ShapedBodyTable, ConfigurationKeys):
    """The target: its body, and how it moves at the planned instant of touch."""

    key_changes: ClassVar = {
        "meet": "it is called 'contact_point' now",
        "closing": "it is called 'closing_speed' now",
        "believed": "it is called 'assumed' now",
    }

    either: ClassVar = (("robot", "mass"), ("grasp", "grasp_frame"))

    robot: RobotTable | None = key(
        None, "robot file of the target, in place of `mass` to `collision`; joints that are not free are braked"
    )
    configuration: Name | None = key(None, "of that robot at time zero; all joints at zero if omitted")
    free_joints: list[Name] | None = key(
        None, "joints of that robot that stay free, with their springs and dampers; those on springs if omitted"
    )
    rates: JointNumbers | None = key(None, "rates of its free joints at time zero, by name; rad/s or m/s")
    rates_deg: JointNumbers | None = key(None, "the same in degrees")
    grasp_frame: Name | None = key(None, "frame of that robot to be grasped, in place of `grasp`")
    mass: Number = key(0.0, "kg; required without `robot`")
    grasp: PoseKeys = key(PoseKeys(), "frame to be grasped, on the body; its z axis points out, towards the hand")
    contact_point: Vector3 | None = key(
        None, "grasp point then, m, world; `approach.reach` ahead of where the hand will have drifted if omitted"
    )
    rpy: Vector3 | None = key(None, "attitude of the body then; the grasp faces the hand if omitted")
    rpy_deg: Vector3 | None = None
    closing_speed: Number = key(
        0.0, "speed of its mass centre then, m/s, along the hand's z axis towards the servicer, relative to its base"
    )
    drift: Vector3 = key([0.0, 0.0, 0.0], "velocity of its mass centre besides, m/s, relative to the servicer's base")
    tumble: Vector3 | None = key(None, "angular velocity then, world axes, rad/s")
    tumble_deg: Vector3 | None = None
    size: Vector3 = key(
        [1.0, 1.0, 1.0],
        "edges of a box about its mass centre, m: how it is drawn without `visual`, its shape without `collision`",
    )
    radius: Number | None = key(
        None,
        "of a ball about its mass centre that holds it, m: its shape for clearances, in place of the box",
    )
    assumed: AssumedTargetTable | None = key(None, "what laws take it for; what it is, if omitted")

    #: What the robot file's bodies are together, with the joints as they start.
    _body: Body | None = PrivateAttr(None)
    #: The robot of the file with its free joints, and their positions and rates at time zero.
    _robot: tuple[Robot, Array, Array] | None = PrivateAttr(None)

    @property
    def angular_velocity(self) -> Array:
        """Angular velocity at the planned instant of touch, world axes, rad/s."""
        given = self.si_value("tumble")
        return np.zeros(3) if given is None else np.asarray(given, dtype=np.float64)

    @property
    def ball(self) -> float:
        """Radius (m) of the ball that holds it."""
        return 0.5 * math.hypot(*self.size) if self.radius is None else self.radius

    def fuse_robot(self, session: Session) -> Self:
        """The same table with the robot of its file, as it is without one."""
        if self.robot is None:
            if not self.mass > 0.0:
                raise InputError("has no mass", place="mass", hint="expected 'mass' or 'robot'")
            return self
        robot = session.robot(self.robot)
        sprung = [joint.name for joint in robot.joints if joint.spring is not None]
        free = sprung if self.free_joints is None else [robot.joint(name).name for name in self.free_joints]
        positions, rates = self.positions(robot), self.joint_array(robot, "rates", np.zeros(robot.n))
        moving = [name for name, rate in zip(robot.joint_names, rates, strict=True) if rate and name not in free]
        if moving:
            raise InputError(
                f"joint {moving[0]!r} is braked", place="rates", hint=f"expected free ones: {', '.join(free) or 'none'}"
            )
        at = dict(zip(robot.joint_names, map(float, positions), strict=True))
        (body,) = edit.freeze(robot, at).bodies
        held = edit.freeze(robot, {name: place for name, place in at.items() if name not in free})
        if held.loops or held.couplings:
            raise InputError(
                "has closed loops or couplings of free joints",
                place="robot",
                hint="expected other 'free_joints', or 'freeze' for the joints of a linkage",
            )
        update: dict[str, Any] = {}
        if self.grasp_frame is not None:
            port = held.frame(self.grasp_frame)
            if port.body != held.bodies[0].name:
                raise InputError(
                    f"frame {self.grasp_frame!r} is on {port.body!r}, which moves on free joints",
                    place="grasp_frame",
                    hint=f"expected a frame of the base {held.bodies[0].name!r}; 'base' of the robot chooses another",
                )
            update["grasp"] = PoseKeys(
                position=list(port.placement.translation), rpy=list(rpy_from_rotation(port.placement.rotation))
            )
        found = self.model_copy(update=update)
        found._body = body
        if free:
            # Names of its parts differ from those of the servicer.
            parts = edit.prefix_names(held, f"{TARGET}.")
            frame = Frame(GRASP, parts.bodies[0].name, found.grasp.pose())
            index = [robot.joint_index(name) for name in held.joint_names]
            whole = parts.replace(name=TARGET, frames=(*parts.frames, frame))
            found._robot = _first_of_equal(whole), positions[index], rates[index]
        return found

    def scale_masses(self, factor: float) -> Self:
        """The same table of a target whose bodies are heavier by this factor; laws take it for what they did before."""
        known = self.assumed
        if known is None:
            nominal = self.rigid_robot.bodies[0].inertia
            known = AssumedTargetTable(
                mass=nominal.mass, com=list(nominal.com), inertia=list(symmetric_six(nominal.tensor))
            )
        fields = {name: getattr(self, name) for name in self.model_fields_set}
        found = type(self).model_construct(**(fields | {"assumed": known}))
        (found._body,) = edit.scale_masses(self.rigid_robot, factor).bodies
        if self._robot is not None:
            robot, positions, rates = self._robot
            found._robot = edit.scale_masses(robot, factor), positions, rates
        return found

    @property
    def has_free_joints(self) -> bool:
        """Whether parts of it move on free joints."""
        return self._robot is not None

    def make_robot(self, inertia: Inertia) -> Robot:
        """The body with its grasp, as a system; drawn as a box where it has no visuals."""
        box = Visual("box", np.array(self.size), Pose(translation=inertia.com), colour="#b08d57")
        body = self.body_of(BODY, "target", TARGET) if self._body is None else replace(self._body, name=BODY)
        frame = Frame(GRASP, BODY, self.grasp.pose())
        return Robot(TARGET, (replace(body, inertia=inertia, visuals=body.visuals or (box,)),), (), (frame,))

    @cached_property
    def rigid_robot(self) -> Robot:
        """The target as one rigid body; free joints are where they are at time zero."""
        return self.make_robot(self.inertia_of("target", TARGET) if self._body is None else self._body.inertia)

    @property
    def mass_centre(self) -> Array:
        """In its own frame (3,), m; with free joints as they are at time zero."""
        return self.rigid_robot.bodies[0].inertia.com

    @property
    def reference_robot(self) -> Robot:
        """The target as it is."""
        return self.rigid_robot if self._robot is None else self._robot[0]

    def stand_in(self, grasp: Pose | None) -> Robot:
        """A robot of unit masses for events that watch its grasp: targets of other masses share their code."""
        return make_point_target(grasp) if self._robot is None else self._unit_robot

    @cached_property
    def _unit_robot(self) -> Robot:
        assert self._robot is not None
        robot = self._robot[0]
        return robot.replace(bodies=tuple(Body(each.name, Inertia(1.0, tensor=np.eye(3))) for each in robot.bodies))

    @cached_property
    def assumed_robot(self) -> Robot:
        """The target as the laws assume it to be: one rigid body."""
        return (
            self.rigid_robot
            if self.assumed is None
            else self.make_robot(self.assumed.inertia_of("target.assumed", TARGET))
        )


@lru_cache(maxsize=16)
def _first_of_equal(robot: Robot) -> Robot:
    """The first of equal robots: what is cached by robot is found without comparing all their parts."""
    return robot


@lru_cache(maxsize=64)
def make_point_target(grasp: Pose | None) -> Robot:
    """A target of unit mass with this grasp."""
    body = Body("body", Inertia(1.0, tensor=np.eye(3)))
    return Robot(TARGET, (body,), (), (Frame(GRASP, "body", Pose() if grasp is None else grasp),))


@dataclass(frozen=True, eq=False)
class Encounter:
    """The target's motion up to ``end``, and its state at time zero; the touch is planned for ``meeting``, s."""

    start: State
    times: Array  # (T,)
    position: Array  # (T, 3) of the grasp point, m, world
    rotation: Array  # (T, 3, 3) of the hand that faces it
    angular_velocity: Array  # (T, 3) rad/s, world
    meeting: float


@dataclass(frozen=True, eq=False)
class TouchState:
    """The target at the planned instant of touch: its frame, velocity of its mass centre, angular velocity; world."""

    place: Array
    attitude: Array
    velocity: Array
    angular_velocity: Array


def find_touch_state(table: MissionTargetTable, actuators: Actuators, there: State, reach: float) -> TouchState:
    """The target ahead of the hand of a servicer that has drifted (``there``), or at its contact point."""
    origin, hand = mechanics_of(actuators.robot).frame_pose(actuators.hand, there.joints, base=there.pose)
    grasp, rpy = table.grasp.pose(), table.si_value("rpy")
    attitude = hand @ FACING @ grasp.rotation.T if rpy is None else rotation_from_rpy(rpy)
    # The grasp lies at the given place, so the target's origin lies back by the grasp's arm.
    place = (
        origin + reach * hand[:, 2] if table.contact_point is None else np.array(table.contact_point)
    ) - attitude @ grasp.translation
    along = rotation_matrices(there.quaternion) @ there.velocity[:3]
    velocity = along + np.array(table.drift) - table.closing_speed * hand[:, 2]
    return TouchState(place, attitude, velocity, table.angular_velocity)


def find_free_state(table: MissionTargetTable) -> TouchState:
    """The target that the servicer goes to: its mass centre at the world's origin, or by its contact point."""
    rpy, grasp = table.si_value("rpy"), table.grasp.pose()
    attitude = np.eye(3) if rpy is None else rotation_from_rpy(rpy)
    if table.closing_speed:
        raise InputError("does not apply in a rendezvous", place="closing_speed", hint="expected 'drift'")
    place = -attitude @ table.mass_centre
    if table.contact_point is not None:
        place = np.array(table.contact_point) - attitude @ grasp.translation
    return TouchState(place, attitude, np.array(table.drift), table.angular_velocity)


def simulate_encounter(
    table: MissionTargetTable, touch: TouchState, meeting: float, wait: float, orbit: float | None
) -> Encounter:
    """Run the target back from the touch to time zero, and on for as long as the hand may wait.

    Motion without torques is reversible: back in time it is the motion with all velocities reversed (and the orbit's
    rate, where there is one). With free joints, whose dampers are not, the state at time zero is sought.
    """
    if table.has_free_joints:
        return _simulate_flexible(table, touch, meeting, wait, orbit)
    robot = table.rigid_robot
    back, before = _simulate_free(robot, _touch_motion(table, touch, -1.0), meeting, orbit, -1.0)
    on, after = _simulate_free(robot, _touch_motion(table, touch, 1.0), wait, orbit)
    before = before[::-1].copy()
    at = Layout.from_size(before.shape[1])
    before[:, at.velocity] *= -1.0  # position and attitude as they are, velocities reversed
    states, times = np.concatenate([before, after[1:]]), np.concatenate([meeting - back[::-1], meeting + on[1:]])
    return _encounter_of(table, times, states, meeting)


def _touch_motion(table: MissionTargetTable, touch: TouchState, sign: float) -> State:
    """The target as one rigid body at the touch, or with all velocities reversed."""
    # The velocity is that of the mass centre, the state wants the frame's origin.
    velocity = touch.velocity - np.cross(touch.angular_velocity, touch.attitude @ table.mass_centre)
    return State.from_velocities(
        table.rigid_robot,
        position=touch.place,
        quaternion=quaternion_from_rotation(touch.attitude),
        base_velocity=sign * velocity,
        base_angular_velocity=sign * touch.angular_velocity,
    )


def _simulate_free(
    robot: Robot, state: State, duration: float, orbit: float | None, sign: float = 1.0
) -> tuple[Array, Array]:
    """Times (T,) and states (T, 13 + 2 n) of a target that nothing touches, on the grid of the path."""
    field = () if orbit is None else ((Orbit if sign > 0 else _Reversed)(orbit),)
    # Samples on the grid of the path, on which both parts meet at the touch.
    count = round(duration / GRID)
    run = simulate(
        World({TARGET: robot}, elements=field),
        state,
        duration,
        sample=np.linspace(0.0, duration, count + 1),
        ledger=False,
    )
    if run.times.size <= count:
        raise SimulationError(f"the target's own motion cannot be followed: {run.why}", hint="expected a slower motion")
    return run.times, run.states


def _encounter_of(table: MissionTargetTable, times: Array, states: Array, meeting: float) -> Encounter:
    grasp, at = table.grasp.pose(), Layout.from_size(states.shape[1])
    turns = rotation_matrices(states[:, at.quaternion])
    return Encounter(
        State.from_vector(states[0]),
        times,
        states[:, at.position] + turns @ grasp.translation,
        turns @ grasp.rotation @ FACING,
        np.einsum("tij,tj->ti", turns, states[:, at.angular_velocity]),
        meeting,
    )


def _simulate_flexible(
    table: MissionTargetTable, touch: TouchState, meeting: float, wait: float, orbit: float | None
) -> Encounter:
    """The target with free joints, which start as its file says, and whose body moves at the touch as it says.

    Newton's method over the body's pose and velocity at time zero, from those of the rigid body.
    """
    assert table._robot is not None
    robot, joints, rates = table._robot
    _, back = _simulate_free(table.rigid_robot, _touch_motion(table, touch, -1.0), meeting, orbit, -1.0)
    first = rigid_state(State.from_vector(back[-1]))
    guess = State(first.position, first.quaternion, joints, np.concatenate([-first.velocity[:6], rates]))
    found, error = guess, np.full(12, np.inf)
    for _ in range(MOST_ROUNDS):
        _, states = _simulate_free(robot, found, meeting, orbit)
        error = _touch_error(robot, touch, states[-1])
        if np.abs(error).max() < MET:
            break
        slope = np.empty((12, 12))
        for k, step in enumerate(DIFFERENCE * np.eye(12)):
            _, states = _simulate_free(robot, _displace(found, step), meeting, orbit)
            slope[:, k] = (_touch_error(robot, touch, states[-1]) - error) / DIFFERENCE
        # The least step where directions do not count: rounds that come to nothing are an error below.
        found = _displace(found, np.asarray(np.linalg.lstsq(slope, -error)[0], dtype=np.float64))
    else:
        raise SimulationError(
            f"no start of the target was found from which it moves at {meeting:g} s as the file says; it is off by "
            f"{np.abs(error).max():.2g}",
            hint="expected free joints that start nearer to rest, or a shorter approach",
        )
    times, states = _simulate_free(robot, found, meeting + wait, orbit)
    return _encounter_of(table, times, states, meeting)


def _touch_error(robot: Robot, touch: TouchState, vector: Array) -> Array:
    """Errors (12,) of a state at the touch: position, rotation, velocity of the mass centre, angular velocity."""
    from scipy.spatial.transform import Rotation

    state, numbers = State.from_vector(vector), robot_parameters(robot)
    turn = rotation_matrices(state.quaternion)
    seen = centre_motion(robot, vector[None], numbers["inertia"], numbers["rotor"])
    return np.concatenate([
        state.position - touch.place,
        Rotation.from_matrix(turn @ touch.attitude.T).as_rotvec(),
        seen.velocity[0] - touch.velocity,
        turn @ state.velocity[3:6] - touch.angular_velocity,
    ])  # fmt: skip


def _displace(state: State, step: Array) -> State:
    """The state with its body moved and turned (m, rad, world axes) and faster (m/s, rad/s, world axes)."""
    from scipy.spatial.transform import Rotation

    turn = rotation_matrices(state.quaternion)
    turned = Rotation.from_rotvec(step[3:6]).as_matrix() @ turn
    linear, angular = turn @ state.velocity[:3] + step[6:9], turn @ state.velocity[3:6] + step[9:]
    velocity = np.concatenate([linear @ turned, angular @ turned, state.rates])
    return State(state.position + step[:3], quaternion_from_rotation(turned), state.joints, velocity)


def rigid_state(state: State) -> State:
    """The state of a robot's body alone, without its joints."""
    return State(state.position, state.quaternion, np.zeros(0), state.velocity[:6])


def coast(robot: Robot, start: State, time: float, orbit: float | None) -> State:
    """The servicer after a time in which nothing acts and no joint moves, s."""
    if not np.any(start.velocity) and (orbit is None or not np.any(start.position)):
        return start
    world = World({robot.name: robot}, robot.joint_names, elements=() if orbit is None else (Orbit(orbit),))
    end = simulate(world, start, time, ledger=False).end
    assert end is not None
    return end


@dataclass(frozen=True, eq=False)
class HandPoseSignals:
    """Reference of the hand: signals of position, quaternion and angular velocity, world."""

    position: list[Signal]
    quaternion: list[Signal]
    angular_velocity: list[Signal]

    def shift_start(self, time: float) -> HandPoseSignals:
        """The same for a phase that begins later."""
        return HandPoseSignals(
            *([one.shift(-time) for one in part] for part in (self.position, self.quaternion, self.angular_velocity))
        )


def smooth_step(share: Array) -> Array:
    """Quintic from 0 to 1 with rate and acceleration zero at both ends."""
    x = np.clip(share, 0.0, 1.0)
    return np.asarray(x**3 * (10.0 - 15.0 * x + 6.0 * x**2))


@dataclass(frozen=True)
class HandPlan:
    """Timing of the hand's path to the grasp.

    Args:
        match: s in which it takes up the grasp's motion; 0: it waits where the grasp will be.
        lead: s before the planned touch at which it has done so; from there on it comes nearer at ``closing`` (m/s).
        retreats: times (s) at which it goes back by ``retreat`` (m) and, ``match`` s later, is at the grasp again.
    """

    match: float
    lead: float
    closing: float
    retreat: float = 0.0
    retreats: tuple[float, ...] = ()

    def offset(self, times: Array, meeting: float) -> Array:
        """Distance of the hand's goal ahead of the grasp, m."""
        offset = self.closing * np.maximum(meeting - times, 0.0)
        for begin in self.retreats:
            # Out and back on smooth steps: a tent function of time, rounded at its ends and tip.
            share = np.clip((times - begin) / self.match, 0.0, 1.0)
            offset = offset + self.retreat * smooth_step(1.0 - np.abs(2.0 * share - 1.0))
        return offset


def plan_hand_path(
    met: Encounter, actuators: Actuators, servicer: State, plan: HandPlan, begin: float = 0.0
) -> HandPoseSignals:
    """Path of the hand to the grasp at the touch, where it waits or moves with the grasp.

    ``servicer``: its state at ``begin``, s.
    """
    from scipy.spatial.transform import Rotation

    origin, hand = mechanics_of(actuators.robot).frame_pose(actuators.hand, servicer.joints, base=servicer.pose)
    # The grid contains the planned touch.
    at = int(np.argmin(np.abs(met.times - met.meeting)))
    ready, match = met.meeting - plan.lead, plan.match
    # Two blends: the first goes to where the grasp will be at the touch, the second takes up its motion. So the hand
    # does not chase a tumbling grasp all the way.
    going = smooth_step((met.times - begin) / (ready - begin))
    along = smooth_step((met.times - ready + match) / match) if match else np.zeros_like(going)
    # The goal runs ahead of the grasp along its axis and shrinks to it, so that the hand arrives at the closing speed.
    goal = met.position - plan.offset(met.times, met.meeting)[:, None] * met.rotation[:, :, 2]
    # In axes that drift with the base as it starts: the hand starts as it moves then.
    drift = np.outer(met.times - begin, rotation_matrices(servicer.quaternion) @ servicer.velocity[:3])
    there = met.position[at] - drift[at]
    position = origin + going[:, None] * (there - origin) + along[:, None] * (goal - drift - there) + drift
    # Rotation vectors from the start to the touch, and from the touch on: each scaled by its own blend.
    first = Rotation.from_matrix(hand.T @ met.rotation[at]).as_rotvec()
    further = Rotation.from_matrix(np.einsum("ji,tjk->tik", met.rotation[at], met.rotation)).as_rotvec()
    rotations = Rotation.from_matrix(hand) * Rotation.from_rotvec(going[:, None] * first)
    rotations = rotations * Rotation.from_rotvec(along[:, None] * further)
    return fit_pose_signals(met.times, position, rotations.as_quat(scalar_first=True))


def plan_hand_with_base(
    met: Encounter, actuators: Actuators, servicer: State, plan: HandPlan, begin: float
) -> HandPoseSignals:
    """Path of the hand to the grasp in axes that move with the target, as the base does.

    ``servicer``: its state at ``begin``, s.
    """
    from scipy.spatial.transform import Rotation

    origin, hand = mechanics_of(actuators.robot).frame_pose(actuators.hand, servicer.joints, base=servicer.pose)
    # The grid contains the beginning but for rounding.
    at = int(np.argmin(np.abs(met.times - begin)))
    # In the target's axes the base stands still and the grasp too: a straight line from hand to grasp.
    share = smooth_step((met.times - begin) / (met.meeting - plan.lead - begin))[:, None]
    first = met.rotation[at].T @ (origin - met.position[at])
    ahead = -plan.offset(met.times, met.meeting)[:, None] * np.array([0.0, 0.0, 1.0])
    position = met.position + np.einsum("tij,tj->ti", met.rotation, first + share * (ahead - first))
    turned = Rotation.from_matrix(met.rotation[at].T @ hand).as_rotvec()
    rotation = Rotation.from_matrix(met.rotation) * Rotation.from_rotvec((1.0 - share) * turned)
    return fit_pose_signals(met.times, position, rotation.as_quat(scalar_first=True))


def fit_pose_signals(times: Array, position: Array, quaternion: Array) -> HandPoseSignals:
    """Signals through places and attitudes at these times."""
    from scipy.interpolate import CubicSpline

    # q and -q are one attitude; splined through a sign change the path would pass zero. Signs are chosen so that
    # neighbours are alike.
    signs = np.cumprod(np.concatenate([[1.0], np.where(np.sum(quaternion[1:] * quaternion[:-1], axis=1) < 0, -1, 1)]))
    quaternion = quaternion * signs[:, None]
    pose = CubicSpline(times, np.concatenate([position, quaternion], axis=1))
    rate = pose.derivative()(times)[:, 3:]
    w, v = quaternion[:, :1], quaternion[:, 1:]
    # Vector part of 2 dq/dt q*: angular velocity in world axes, from the spline that the law's quaternion is close to,
    # so that both references agree.
    angular_rate = 2.0 * (w * rate[:, 1:] - rate[:, :1] * v - cross(rate[:, 1:], v))
    made = signals_of_splines(pose)
    return HandPoseSignals(made[:3], made[3:], signals_of_splines(CubicSpline(times, angular_rate)))


def plan_carried_path(
    guest: Robot, state: State, caught: Pose, drift: Array, *, moment: float | None, stop: float, duration: float
) -> HandPoseSignals:
    """The hand carries what it has caught so that a moment of this size (N m) stops its tumble in the shortest time.

    The moment is against the angular momentum, whose direction stays (F. Aghili, Coordination control of a free-flying
    manipulator and its base attitude to capture and detumble a noncooperative satellite, IROS 2009). Without one the
    target tumbles on. Its mass centre comes to the velocity ``drift`` evenly, in ``stop`` seconds.

    Args:
        guest, state: the nominal model of the target, and its state.
        caught: the target's frame in the hand's.
        duration: of the path, s; at its end, or before, the target is at rest.
    """
    from scipy.spatial.transform import Rotation

    from spacearm.control import detumble

    times = np.linspace(0.0, duration, max(int(np.ceil(duration / STEP)), 4) + 1)
    # Simulated with the target alone: the hand follows what a moment of this size would do to it.
    turning = Phase(duration, laws=() if moment is None else detumble(moment))
    run = simulate(World({TARGET: guest}), state, turning, sample=times, ledger=False)
    end = State.from_vector(run.states[-1]) if run.end is None else run.end
    # The run ends where the tumble ends; from there the attitude stays.
    still = np.broadcast_to(end.quaternion, (times.size - run.times.size, 4))
    quaternion = np.concatenate([run.states[:, QUATERNION], still])
    rotations, com = rotation_matrices(quaternion), guest.bodies[0].inertia.com
    begin = rotation_matrices(state.quaternion)
    velocity = begin @ (state.velocity[:3] + np.cross(state.velocity[3:6], com))
    braking = np.minimum(times, stop)
    centre = state.position + begin @ com + np.outer(times, drift)
    # Constant deceleration from velocity to drift: displacement t - t^2 / (2 stop), constant after stop.
    centre = centre + np.outer(braking - 0.5 * braking**2 / stop, velocity - drift)
    hand = rotations @ caught.rotation.T
    place = centre - rotations @ com - hand @ caught.translation
    return fit_pose_signals(times, place, Rotation.from_matrix(hand).as_quat(scalar_first=True))
