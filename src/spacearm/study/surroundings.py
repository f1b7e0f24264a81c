"""What else is in the world of a run: further systems, contacts between shapes, stops, gravity, an orbit, a latch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import ClassVar, Literal

import numpy as np

from spacearm.checks import known
from spacearm.errors import InputError
from spacearm.mechanics import shapes
from spacearm.model import Frame, Pose, Robot
from spacearm.model.document import at
from spacearm.model.rotations import rotation_from_rpy
from spacearm.model.toml_schema import Name, Number, Vector3
from spacearm.simulate import (
    Attach,
    Bushing,
    Change,
    Connect,
    Contact,
    Detach,
    Disconnect,
    ForceElement,
    Gravity,
    Here,
    JointStops,
    On,
    Orbit,
    Phase,
    World,
    gate,
)
from spacearm.simulate.run.chain import Item, Phases
from spacearm.study import Session, Table, key
from spacearm.study.tables import ShapedBodyTable, StartTable

#: Systems and contacts that a file may have: all are one program.
MOST = 100


class PlacedKeys(Table):
    """Where something lies."""

    position: Vector3 = key([0.0, 0.0, 0.0], "m")
    rpy: Vector3 | None = key(None, "roll, pitch, yaw about fixed axes, rad")
    rpy_deg: Vector3 | None = None

    def pose(self) -> Pose:
        turn = self.si("rpy")
        return Pose(np.eye(3) if turn is None else rotation_from_rpy(turn), np.array(self.position))


class FrameTable(PlacedKeys):
    """A frame on a rigid body."""

    name: Name


class SystemTable(Table):
    """A further system: a robot, or a rigid body."""

    either: ClassVar = (("robot", "body"),)

    name: Name = key(what="in front of its parts' names: `<name>/<part>`")
    robot: Name | None = key(None, "a robot file, relative to the scenario, or a name of the catalogue")
    body: ShapedBodyTable | None = key(None, "a rigid body instead, called `body`")
    frame: list[FrameTable] = key([], "frames on that body")
    start: StartTable = key(StartTable(), "state at time zero")

    def made(self, session: Session) -> Robot:
        """The robot."""
        if self.robot is not None:
            if self.frame:
                raise InputError("frames of a robot stand in its file", place="frame", hint="give them there")
            return session.robot(self.robot)
        if self.body is None:
            raise InputError("neither 'robot' nor 'body' is given", hint="expected one")
        frames = tuple(Frame(each.name, "body", each.pose()) for each in self.frame)
        body = self.body.located(session.folder).body_of("body", "body", self.name)
        return Robot(self.name, (body,), (), frames)


class SideTable(PlacedKeys):
    """A shape on a frame, or fixed in the world."""

    uses: ClassVar = {
        name: (*(each.name for each in fields(kind)), "frame", "position", "rpy")
        for name, kind in shapes.SHAPES.items()
    } | {"collision": ("frame",)}

    frame: Name | None = key(None, "of a system; without it the shape is fixed in the world, at `position` and `rpy`")
    kind: Literal["sphere", "plane", "disc", "capsule", "cylinder", "box", "cone", "hole", "ring", "collision"] = key(
        what="its shape; `collision`: all those that the frame's body has in its robot file"
    )
    radius: Number | None = key(None, "m; of a ring, of its middle line")
    length: Number | None = key(None, "along z, m; of a cone from throat to mouth")
    x: Number | None = key(None, "edge of a box, m")
    y: Number | None = key(None, "the same")
    z: Number | None = key(None, "the same")
    throat: Number | None = key(None, "radius of a cone at z = 0, m")
    mouth: Number | None = key(None, "radius of a cone at z = length, m")
    depth: Number | None = key(None, "of a hole, m")
    tube: Number | None = key(None, "half the thickness of a ring, m")

    def sides(self, world: World) -> list[On]:
        """One shape, or all that a body has in its file."""
        if self.kind != "collision":
            return [self.make()]
        found = [] if self.frame is None else On.collision(world, self.frame)
        if not found:
            raise InputError(
                f"{self.frame or 'the world'!r} has no collision shapes",
                place="frame",
                hint="expected a body with some",
            )
        return found

    def make(self) -> On:
        kind = shapes.SHAPES[self.kind]
        sizes = {each.name: getattr(self, each.name) for each in fields(kind)}
        for name, size in sizes.items():
            if size is None:
                raise InputError(f"{name!r} of a {self.kind} is missing", hint=f"expected {', '.join(sizes)}, in m")
        if self.frame is not None and (self.given("position") or self.si("rpy") is not None):
            raise InputError("both a frame and a place in the world are given", hint="expected one")
        return On(self.pose() if self.frame is None else self.frame, kind(**sizes))


class ContactTable(Table):
    """Two shapes that may touch."""

    name: Name = key("", "in events and results")
    first: SideTable
    second: SideTable
    stiffness: Number = key(what="N/m; of law hertz N/m^1.5")
    restitution: Number = key(1.0, "0 to 1")
    friction: Number = key(0.0, "Coulomb's coefficient")
    law: Literal["linear", "hertz"] = key("linear")
    tangential: Number | None = key(None, "stiffness while surfaces stick, N/m; 20 times a linear one where left out")
    patch: Number = key(0.0, "effective radius of friction about the normal, m; a point has none")
    slowest: Number = key(1e-3, "m/s; slower touches do not bounce")

    def contacts(self, world: World) -> list[Contact]:
        """One contact, or one for each pair of collision shapes, with a number behind its name."""
        law = self.options("stiffness", "restitution", "friction", "law", "tangential", "patch", "slowest")
        sides = []
        for which, side in (("first", self.first), ("second", self.second)):
            with at(which):
                sides.append(side.sides(world))
        pairs = [(a, b) for a in sides[0] for b in sides[1]]
        if len(pairs) == 1:
            return [Contact(*pairs[0], **law, name=self.name)]
        name = self.name or f"{pairs[0][0].label}-{pairs[0][1].label}"
        return [Contact(*pair, **law, name=f"{name}.{k + 1}") for k, pair in enumerate(pairs)]


class StopsTable(Table):
    """Stops at joint limits."""

    joints: list[Name] = key(what="joints with limits")
    stiffness: Number = key(what="N m/rad or N/m")
    restitution: Number = key(0.0, "0 to 1")

    def make(self) -> JointStops:
        return JointStops(self.joints, self.stiffness, self.restitution)


class LatchTable(Table):
    """A system is caught when a frame comes within a gate: both are one from then on, or held softly."""

    guest: Name = key(what="the system that is caught")
    frame: Name = key(what="what it is attached to")
    at: Name = key(what="frame of the guest that has to be within the gate")
    distance: Number = key(what="m")
    angle: Number | None = key(None, "between the z axis of one frame and the opposite of the other's, rad")
    angle_deg: Number | None = None
    speed: Number = key(math.inf, "m/s")
    stiffness: list[Number] | None = key(None, "a soft latch: along and about x, y, z of `frame`, N/m and N m/rad")
    damping: list[Number] = key([0.0] * 6, "of a soft latch, N s/m and N m s/rad")
    release: Name | None = key(None, "name of the phase before which it is let go again")

    def change(self) -> Change:
        """What happens at the catch."""
        if self.stiffness is None:
            return Attach(self.guest, self.frame)
        return Connect(Bushing(self.frame, self.at, self.stiffness, self.damping, name="latch"))

    def chain(self, world: World, phases: Sequence[Phase]) -> Phases:
        """The phases, with the catch between them: the phase that it ends is cut short, the others follow."""
        angle = self.si("angle")
        with at("latch"):
            caught = gate(world, self.frame, self.at, self.distance, math.pi if angle is None else angle, self.speed)
            world.robot(self.guest)
            change, parting = self.change(), Detach(self.guest) if self.stiffness is None else Disconnect("latch")
            if self.release is not None:
                known(self.release, [phase.name for phase in phases if phase.name], "phase", place="release")

        def items(here: Here) -> Iterator[Item]:
            latched = over = False
            for phase in phases:
                if latched and not over and phase.name == self.release:
                    over = True
                    yield parting
                yield phase if latched else replace(phase, event_function=caught)
                if not latched and any(event.name == caught.names[0] for event in here.events):
                    latched = True
                    yield change

        return items


class SurroundingsKeys(Table):
    """What else is in the world."""

    system: list[SystemTable] = key([], "further systems")
    contact: list[ContactTable] = key([], "shapes that may touch")
    stops: StopsTable | None = key(None, "stops at joint limits")
    gravity: Vector3 | None = key(None, "uniform field, world axes, m/s2: for tests on the ground")
    orbit: Number | None = key(None, "mean motion of a circular orbit, rad/s; axes: x radial, y along it, z normal")
    latch: LatchTable | None = key(None, "a system is caught")

    def elements(self, world: World) -> list[ForceElement]:
        """Force elements of the world."""
        for name, given in (("system", self.system), ("contact", self.contact)):
            if len(given) > MOST:
                raise InputError(f"has {len(given)} entries", place=name, hint=f"expected at most {MOST}")
        found: list[ForceElement] = []
        for k, table in enumerate(self.contact):
            with at(f"contact[{k}]"):
                found += table.contacts(world)
        if self.stops is not None:
            with at("stops"):
                found.append(self.stops.make())
        if self.gravity is not None:
            found.append(Gravity(self.gravity))
        if self.orbit is not None:
            found.append(Orbit(self.orbit))
        return found
