"""Contacts between shapes on frames of a world, and joint stops: force elements with a law of their own.

An element turns geometry (:mod:`spacearm.mechanics.shapes`) and a force law (:mod:`spacearm.mechanics.contact`) into
wrenches on frames, rates of its memory and event functions. The hybrid automaton of a place has the states open, stuck
and slipping; touch, release, settle, slip and stick are its transitions, each an event function whose crossing the
integrator locates and after which the memory jumps. Nothing is decided between events, so forces have no hidden steps.

World axes, SI units. Memory of all places of an element lies in one row, place after place; works and impulses stand
behind the law's own numbers and are integrated with them, for the ledger. Broad-phase search is left out: pairs are
named by the user, and every place is evaluated in every stage.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import casadi as ca
import numpy as np

from spacearm.checks import non_negative, number, one_of, positive
from spacearm.errors import InputError, error_context, quote_text
from spacearm.mechanics.contact import (
    OPEN,
    SETTLED,
    ContactForces,
    ContactLaw,
    contact_forces,
    contact_torsion,
    damping_number,
)
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.shapes import SHAPES, Shape, Touch, touches
from spacearm.mechanics.spatial import SX, constant
from spacearm.model import CollisionShape, Pose, Visual
from spacearm.simulate.elements import ElementAction, ElementEvent, ElementView, ForceElement, FrameMotion
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.world import World

#: An initial penetration up to this counts as a touch, m.
ROUNDING = 1e-9
#: A touch begins at this penetration, m, so that of several simultaneous touches none is lost by rounding, and none
#: chatters.
GRAZE = 1e-12
#: Default ratio of the tangential to the normal stiffness of a linear law: so high that impacts are those of rigid
#: bodies within a percent. Elastic bodies have between 2/3 and 1 (R. D. Mindlin, J. Applied Mechanics 16, 1949).
TANGENTIAL_SHARE = 20.0


@dataclass(frozen=True, eq=False)
class ShapeOnFrame:
    """A shape on a frame of a system, or at a pose fixed in the world.

    ``placement`` is the pose of the shape in the frame.
    """

    frame: str | Pose
    shape: Shape
    placement: Pose = field(default_factory=Pose)

    def __post_init__(self) -> None:
        if not isinstance(self.frame, str | Pose):
            raise InputError(
                f"{quote_text(self.frame)} is not a frame", place="contact", hint="expected a name, or a Pose"
            )
        if not isinstance(self.shape, Shape):
            raise InputError(
                f"{quote_text(self.shape)} is not a shape", place="contact", hint="expected Sphere(radius) ..."
            )

    @property
    def label(self) -> str:
        return self.frame if isinstance(self.frame, str) else self.shape.kind

    @classmethod
    def from_visuals(cls, world: World, body: str) -> list[ShapeOnFrame]:
        """Visual shapes of a body that are spheres, capsules, cylinders or boxes."""
        return cls._from_parts(world, body, "visuals")

    @classmethod
    def from_collision_shapes(cls, world: World, body: str) -> list[ShapeOnFrame]:
        """Collision shapes of a body from its robot's file."""
        return cls._from_parts(world, body, "collisions")

    @classmethod
    def _from_parts(cls, world: World, body: str, which: str) -> list[ShapeOnFrame]:
        system, own = world.frame(body)
        robot, frame = world.robot(system), world.robot(system).frame(own)
        given: Sequence[Visual | CollisionShape] = getattr(robot.bodies[robot.body_index(frame.body)], which)
        return [
            cls(body, SHAPES[each.shape](*map(float, each.size)), frame.placement.inverse() @ each.placement)
            for each in given
            if each.shape in SHAPES
        ]

    def structure(self, world: World) -> Hashable:
        """Structure key: the shape, with the frame's placement on its body."""
        frame = self.frame
        if isinstance(frame, str):
            system, own = world.frame(frame)
            return system, world.robot(system).frame(own), self.shape, self.placement
        return frame, self.shape, self.placement

    def motion(self, view: ElementView, world: World) -> FrameMotion:
        """Pose and motion of the shape."""
        rotation, shift = constant(self.placement.rotation), constant(self.placement.translation)
        still = SymbolicPose(ca.SX.eye(3), ca.SX.zeros(3))
        if isinstance(self.frame, Pose):
            still = SymbolicPose(constant(self.frame.rotation), constant(self.frame.translation))
        seen = FrameMotion(still, ca.SX.zeros(3), ca.SX.zeros(3))
        if isinstance(self.frame, str):
            seen = view.frame(*world.frame(self.frame))
        # Velocity of the shape's origin: that of the frame plus the rotation about it.
        arm = seen.pose.rotation @ shift
        pose = SymbolicPose(seen.pose.rotation @ rotation, seen.pose.origin + arm)
        return FrameMotion(pose, seen.velocity + ca.cross(seen.angular_velocity, arm), seen.angular_velocity)


class ContactElement(ForceElement):
    """Common base of contacts and stops: places that open and close, each with its own memory.

    Memory of each place: state, chi, settling time, with friction the displacement or direction (3), with torsion its
    state and twist or sense; then work put in, J: of the normal force, with friction also of friction; and for contacts
    the impulse on the second body (3), N s.
    """

    stiffness: float
    restitution: float
    slowest: float
    friction: float
    law: str
    tangential: float | None
    patch: float
    unit = "m"
    smooth = False

    def _check(self) -> None:
        with error_context(self.name, fallback=True):
            positive(self.stiffness, "stiffness")
            number(self.restitution, "restitution", least=0.0, most=1.0)
            positive(self.slowest, "slowest", unit="m/s")
            non_negative(self.friction, "friction")
            one_of(self.law, ("linear", "hertz"), "law")
            if self.tangential is not None:
                positive(self.tangential, "tangential", unit="N/m")
            elif self.friction and self.law == "hertz":
                raise InputError("a Hertz contact has friction", hint="expected its tangential stiffness, N/m")
            non_negative(self.patch, "patch", unit="m")
            if self.patch and not self.friction:
                raise InputError(
                    f"the patch of {self.patch:g} m has no friction", hint="expected a coefficient as well"
                )

    @property
    def _law_size(self) -> int:
        """Size of the law's part of a place's memory."""
        return (8 if self.patch else 6) if self.friction else 3

    @property
    def _memory_size(self) -> int:
        """Size of a place's memory."""
        return self._law_size + (5 if self.friction else 4)

    def mass(self, world: World) -> float:
        """Mass for the damping of a settled touch: the reduced mass of both bodies, kg; an inertia for stops."""
        raise NotImplementedError

    def numbers(self, world: World) -> Array:
        own = [self.stiffness, damping_number(self.restitution), self.slowest, self.mass(world)]
        if self.friction:
            own += [
                self.friction,
                self.tangential or TANGENTIAL_SHARE * self.stiffness,
                float(self.tangential is None),
                *[self.patch][: bool(self.patch)],
            ]
        return np.array(own)

    def _law(self, view: ElementView) -> ContactLaw:
        stiffness, *rest = ca.vertsplit(view.numbers)
        return ContactLaw(stiffness, self.law == "hertz", *rest)

    def places(self, world: World) -> Sequence[str]:
        """Names of the places that may touch."""
        raise NotImplementedError

    def memory(self, world: World) -> Array:
        return np.zeros(len(self.places(world)) * self._memory_size)

    def check_start(self, world: World, seen: Mapping[str, float]) -> None:
        for place in self.places(world):
            depth = -seen[f"{place}.gap"]
            if not depth <= ROUNDING:
                raise InputError(
                    f"starts with a penetration of {depth:.3g} {self.unit}",
                    place=place,
                    hint="expected shapes apart, or touching",
                )

    def scale(self, world: World) -> Array:
        own = np.full(self._memory_size, np.inf)
        # Elastic displacements are micrometres: the state's own tolerance would not resolve them. The rest of the
        # memory is constant between events, or only booked, and does not control the step.
        own[3 : self._law_size] = 1e-14
        own[6 : self._law_size : 2] = np.inf  # the state of torsion
        return np.tile(own, len(self.places(world)))

    def _place(
        self, view: ElementView, name: str, index: int, touch: Touch, velocity: SX, angular_rate: SX | None = None
    ) -> tuple[ContactForces, SX, SX, list[ElementEvent]]:
        """Forces, moment about the normal, rate of the memory, and event functions of one place."""
        size, each = self._law_size, self._memory_size
        whole = view.memory
        own = whole[index * each : (index + 1) * each]
        # At most six numbers: state, chi, settling time and tangential part; torsion has its own two behind.
        found = contact_forces(self._law(view), touch, velocity, view.time, own[: min(size, 6)])
        push = found.size * touch.normal + found.tangential
        # Work put in by the bodies, positive while the surfaces approach.
        works = [-found.size * ca.dot(touch.normal, velocity)]
        if self.friction:
            works.append(-ca.dot(found.tangential, found.slip))
        state, closes, moment = own[0], -ca.dot(touch.normal, velocity), ca.SX(0)
        twist = None
        if angular_rate is not None and self.patch:
            twist = contact_torsion(self._law(view), touch, closes, found.size, own[1], angular_rate, own[6:8])
            moment = twist.moment
            works[1] -= moment * angular_rate
            found = replace(found, stored=found.stored + twist.stored, touched=ca.vertcat(found.touched, twist.touched))
        rate = ca.vertcat(found.rate, *([] if twist is None else [twist.rate]), *works, push)

        def watch(kind: str, label: str, when: SX, value: SX, memory: SX, first: int = 0) -> ElementEvent:
            # Simultaneous events are processed in sequence: a place that is open by then neither sticks nor slips.
            at = index * each + first
            after = ca.if_else(when, memory, own[first : first + memory.numel()])
            # The jump is a map of the whole memory, of which it changes one place.
            every = ca.vertcat(whole[:at], after, whole[at + memory.numel() :])
            # 1 if the transition is not possible: no crossing of zero, and no event.
            return ElementEvent(kind, label, ca.if_else(when, value, 1), every)

        # Works and impulses behind the law's part go on: they are the account of the whole run.
        opened = ca.vertcat(OPEN, ca.SX.zeros(size - 1))
        # A touch while the surfaces separate (a graze) stays open.
        touched = ca.if_else(closes > 0, found.touched, opened)
        watched = [
            watch("touch", name, state < 0.5, touch.gap + GRAZE, touched),
            watch("release", name, state > 0.5, -touch.gap, opened),
            watch("settle", name, ca.logic_and(state > 0.5, own[1] >= 0), own[2] - view.time, ca.SX(SETTLED), 1),
        ]
        if self.friction:
            assert found.radius is not None
            # u . v - dR/dt: below zero the displacement would have to shrink faster than R does, and surfaces stick
            # again.
            shrink = ca.dot(own[3:6], found.slip) - view.change(found.radius)
            watched.append(watch("slip", name, ca.logic_and(state > 0.5, state < 1.5), found.strength, found.slipped))
            watched.append(watch("stick", name, state > 1.5, shrink, found.stuck))
        if twist is not None:
            label, mode = f"{name} torsion", own[6]
            shrink = own[7] * angular_rate - view.change(twist.radius)
            holds = ca.logic_and(mode > 0.5, mode < 1.5)
            watched.append(watch("slip", label, holds, twist.strength, twist.slipped, 6))
            watched.append(watch("stick", label, mode > 1.5, shrink, twist.stuck, 6))
        return found, moment, rate, watched

    def _observe_touch(self, name: str, touch: Touch, velocity: SX, found: ContactForces) -> dict[str, SX]:
        closing = -ca.dot(touch.normal, velocity)
        seen = {"gap": touch.gap, "normal": found.size, "closing": closing, "stored": found.stored}
        return {f"{name}.{what}": value for what, value in seen.items()}

    def touch_account(self, memory: Array, place: int) -> Array:
        """State, works of normal and tangential force (J) and impulse (3) of a place, from rows of the memory."""
        own = memory[:, place * self._memory_size : (place + 1) * self._memory_size]
        works = own[:, self._law_size : -3]
        return np.concatenate([own[:, :1], works, np.zeros((len(own), 2 - works.shape[1])), own[:, -3:]], axis=1)


@dataclass(frozen=True, eq=False)
class Contact(ContactElement):
    """Two shapes that may touch.

    Args:
        first, second: shapes on frames. See :data:`spacearm.mechanics.shapes.PAIRS` for the supported pairs.
        stiffness: N/m; N/m^1.5 with the law ``hertz``.
        restitution: from 0 to 1, of a touch at any speed above ``slowest``.
        friction: Coulomb's coefficient; 0 for none.
        law: ``linear`` or ``hertz``.
        tangential: stiffness while surfaces stick, N/m. By default 20 times the linear one, with a damper: impacts are
            then those of rigid bodies.
        patch: effective radius of friction about the normal, m: 2/3 of the radius of a disc with uniform pressure, 0
            for a point, which has none.
        slowest: m/s; a slower touch does not rebound.
        name: name of the contact in events, data and results.
    """

    first: ShapeOnFrame
    second: ShapeOnFrame
    stiffness: float
    restitution: float = 1.0
    friction: float = 0.0
    law: Literal["linear", "hertz"] = "linear"
    tangential: float | None = None
    slowest: float = 1e-3
    name: str = ""
    patch: float = 0.0

    def __post_init__(self) -> None:
        for side in (self.first, self.second):
            if not isinstance(side, ShapeOnFrame):
                raise InputError(
                    f"{quote_text(side)} is not a shape on a frame",
                    place="contact",
                    hint="expected ShapeOnFrame(frame, shape)",
                )
        object.__setattr__(self, "name", self.name or f"{self.first.label}-{self.second.label}")
        self._check()
        with error_context(self.name, fallback=True):
            none = SymbolicPose(ca.SX.eye(3), ca.SX.zeros(3))
            count = len(touches(self.first.shape, none, self.second.shape, none))
            if not any(isinstance(side.frame, str) for side in (self.first, self.second)):
                raise InputError("both shapes are fixed in the world", hint="expected a frame of a system")
        object.__setattr__(self, "_count", count)

    def places(self, world: World) -> Sequence[str]:
        del world
        count: int = self._count  # type: ignore[attr-defined]
        return [self.name] if count == 1 else [f"{self.name} {k + 1}" for k in range(count)]

    def mass(self, world: World) -> float:
        own = [
            _mass(world, *world.frame(side.frame)) for side in (self.first, self.second) if isinstance(side.frame, str)
        ]
        # A shape fixed in the world has infinite mass and no term.
        return 1.0 / sum(1.0 / mass for mass in own)

    @property
    def internal(self) -> bool:
        return all(isinstance(side.frame, str) for side in (self.first, self.second))

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        sides = [side.frame for side in (self.first, self.second)]
        with error_context(self.name, fallback=True):
            found = [world.frame(frame) for frame in sides if isinstance(frame, str)]
            if len(set(found)) < len(found):
                raise InputError(f"both shapes are on frame {sides[0]!r}", hint="expected two frames")
        return found

    def structure(self, world: World) -> Hashable:
        sides = (side.structure(world) for side in (self.first, self.second))
        law = self.law, bool(self.friction), bool(self.patch)
        return (Contact, *law, *sides) if type(self) is Contact else super().structure(world)

    def write(self, view: ElementView, world: World) -> ElementAction:
        a, b = self.first.motion(view, world), self.second.motion(view, world)
        origins = [_origin(side, view, world) for side in (self.first, self.second)]
        rates: list[SX] = []
        watched: list[ElementEvent] = []
        observed: dict[str, SX] = {}
        wrenches = [ca.SX.zeros(6), ca.SX.zeros(6)]
        found = touches(self.first.shape, a.pose, self.second.shape, b.pose)
        for k, (name, touch) in enumerate(zip(self.places(world), found, strict=True)):
            # Velocities of the material points that touch, not of the shapes' origins: rotation alone can close or
            # slide.
            speeds = [m.velocity + ca.cross(m.angular_velocity, touch.point - m.pose.origin) for m in (a, b)]
            # Of the second shape relative to the first, at the point of contact.
            velocity = speeds[1] - speeds[0]
            angular_rate = ca.dot(touch.normal, b.angular_velocity - a.angular_velocity)
            acting, moment, rate, events = self._place(view, name, k, touch, velocity, angular_rate)
            push = acting.size * touch.normal + acting.tangential
            for i, sign in enumerate((-1, 1)):
                # Both wrenches at the same point: action and reaction cancel to rounding (check third_law).
                couple = ca.cross(touch.point - origins[i], push) + moment * touch.normal
                wrenches[i] += sign * ca.vertcat(push, couple)
            rates.append(rate)
            watched += events
            observed |= self._observe_touch(name, touch, velocity, acting)
        sides = zip((self.first, self.second), wrenches, strict=True)
        by_frame = {world.frame(side.frame): wrench for side, wrench in sides if isinstance(side.frame, str)}
        return ElementAction(by_frame, {}, ca.vertcat(*rates), watched, observed)


def _mass(world: World, system: str, frame: str) -> float:
    """Mass of the body that carries a frame, kg; if it has none, of the next body towards the base that has."""
    robot = world.robot(system)
    masses = world.parameters[list(world.systems).index(system)]["inertia"].reshape(-1, 10)[:, 0]
    body = robot.body_index(robot.frame(frame).body)
    # A massless body (a joint of two axes, say) moves with the body that carries it.
    while body > 0 and not masses[body] > 0.0:
        body = robot.body_index(robot.joints[body - 1].parent)
    return float(masses[body]) if masses[body] > 0.0 else float(masses.sum())


def _origin(side: ShapeOnFrame, view: ElementView, world: World) -> SX:
    """Point of application of the wrench on a side: its frame's origin; arbitrary for a fixed shape."""
    return view.frame(*world.frame(side.frame)).pose.origin if isinstance(side.frame, str) else ca.SX.zeros(3)


@dataclass(frozen=True, eq=False)
class JointStops(ContactElement):
    """Stops at the limits of joints.

    Args:
        joints: names of joints with limits.
        stiffness: N m/rad or N/m.
        restitution, slowest: as for :class:`Contact`; of the joint's rate, rad/s or m/s.
    """

    joints: Sequence[str]
    stiffness: float
    restitution: float = 0.0
    slowest: float = 1e-3
    name: str = "stops"
    friction = 0.0
    law = "linear"
    tangential = None
    patch = 0.0
    unit = "rad or m"

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", (self.joints,) if isinstance(self.joints, str) else tuple(self.joints))
        self._check()

    def _stops(self, world: World) -> list[tuple[str, str, float, int]]:
        """System, joint, limit, and the direction in which it is reached."""
        found = []
        for name in self.joints:
            with error_context(self.name, fallback=True):
                system, own = world.joint(name)
            limits = world.robot(system).joint(own).limits
            sides = [(system, own, bound, sign) for bound, sign in ((limits.lower, -1), (limits.upper, 1))]
            found += [side for side in sides if np.isfinite(side[2])]
            if not np.isfinite([limits.lower, limits.upper]).any():
                raise InputError(f"joint {name!r} has no limits", place=self.name, hint="omit it, or give it limits")
        return found

    def places(self, world: World) -> Sequence[str]:
        return [f"{world.label(s, own)} {'upper' if sign > 0 else 'lower'}" for s, own, _, sign in self._stops(world)]

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        self._stops(world)
        return ()

    def structure(self, world: World) -> Hashable:
        stops = tuple((system, own, sign) for system, own, _, sign in self._stops(world))
        return (JointStops, stops) if type(self) is JointStops else super().structure(world)

    def mass(self, world: World) -> float:
        """Smallest inertia of the bodies that the joints carry, about their axes, kg m2 or kg."""
        found = []
        for system, own, _, _ in self._stops(world):
            robot = world.robot(system)
            index = robot.joint_index(own)
            axis, joint = np.asarray(robot.joints[index].axis), robot.joints[index]
            row = world.parameters[list(world.systems).index(system)]["inertia"].reshape(-1, 10)[index + 1]
            # Ten inertia parameters: mass, first moment (3), xx, yy, zz, xy, xz, yz.
            tensor = row[[[4, 7, 8], [7, 5, 9], [8, 9, 6]]]
            inertia = float(axis @ tensor @ axis) if joint.kind == "revolute" else float(row[0])
            found += [inertia] if inertia > 0.0 else []
        return min(found, default=1.0)

    def numbers(self, world: World) -> Array:
        return np.concatenate([super().numbers(world), [bound for _, _, bound, _ in self._stops(world)]])

    def _law(self, view: ElementView) -> ContactLaw:
        stiffness, damping, slowest, mass = ca.vertsplit(view.numbers[:4])
        return ContactLaw(stiffness, False, damping, slowest, mass)

    def write(self, view: ElementView, world: World) -> ElementAction:
        rates: list[SX] = []
        watched: list[ElementEvent] = []
        observed: dict[str, SX] = {}
        pushes: dict[tuple[str, str], SX] = {}
        for k, (name, (system, own, _, sign)) in enumerate(zip(self.places(world), self._stops(world), strict=True)):
            index, layout = world.robot(system).joint_index(own), view.layouts[system]
            q, speed = view.state[layout.joint(index)], view.state[layout.speed(6 + index)]
            x = ca.SX([1, 0, 0])  # along which the joint moves away from its stop
            touch = Touch(sign * (view.numbers[4 + k] - q), ca.SX.zeros(3), x)
            velocity = -sign * speed * x
            acting, _, rate, events = self._place(view, name, k, touch, velocity)
            rates.append(rate)
            watched += events
            observed |= self._observe_touch(name, touch, velocity, acting)
            pushes[system, own] = pushes.get((system, own), 0) - sign * acting.size
        return ElementAction({}, pushes, ca.vertcat(*rates), watched, observed)
