"""Other contents of the world: further systems, contacts between shapes, stops, gravity, an orbit, a latch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, replace
from typing import Annotated, ClassVar, Literal

import numpy as np

from spacearm.checks import check_name
from spacearm.errors import InputError, error_context
from spacearm.mechanics import shapes
from spacearm.model import Frame, Pose, Robot
from spacearm.model.rotations import rotation_from_rpy
from spacearm.model.toml_schema import BaseKey, Name, Number, Vector3
from spacearm.simulate import (
    Attach,
    Backlash,
    BoucWen,
    Bushing,
    Close,
    Connect,
    Contact,
    Detach,
    Disconnect,
    Drag,
    Gravity,
    JointStops,
    Lock,
    LuGre,
    Orbit,
    Phase,
    Pin,
    RunContext,
    ShapeOnFrame,
    World,
    gate,
)
from spacearm.simulate.changes import Change
from spacearm.simulate.elements import ForceElement
from spacearm.simulate.joint_laws import JointElement
from spacearm.simulate.run.chain import Item, Phases
from spacearm.study import ScenarioTable, Session, key
from spacearm.study.bases import BASE_MEANING, with_base
from spacearm.study.keys import RobotTable
from spacearm.study.tables import ShapedBodyTable, StartTable

#: Largest number of systems and of contacts in a file: they are all compiled into one program.
MOST = 100


class PoseKeys(ScenarioTable):
    """A pose."""

    position: Vector3 = key([0.0, 0.0, 0.0], "m")
    rpy: Vector3 | None = key(None, "roll, pitch, yaw about fixed axes, rad")
    rpy_deg: Vector3 | None = None

    def pose(self) -> Pose:
        rotation = self.si_value("rpy")
        return Pose(np.eye(3) if rotation is None else rotation_from_rpy(rotation), np.array(self.position))


class BodyFrameTable(PoseKeys):
    """A frame on a rigid body."""

    name: Name


class SystemTable(ScenarioTable):
    """A further system: a robot, or a rigid body."""

    either: ClassVar = (("robot", "body"),)

    name: Name = key(what="prefix of its part names: `<name>/<part>`")
    robot: RobotTable | None = key(None, "robot file, relative to the scenario, or a name in the catalogue; or a table")
    body: ShapedBodyTable | None = key(None, "a rigid body in place of a robot; its name is `body`")
    frame: list[BodyFrameTable] = key([], "frames on that body")
    base: BaseKey | None = key(None, BASE_MEANING)
    start: StartTable = key(StartTable(), "state at time zero")

    def make_robot(self, session: Session) -> Robot:
        """The robot, or the rigid body as one."""
        if self.robot is not None:
            # Frames are a part of a robot file, where other studies find them too.
            if self.frame:
                raise InputError("frames of a robot belong in its file", place="frame", hint="define them there")
            return with_base(session.robot(self.robot, any_base=True, loops=True), self.base)
        if self.body is None:
            raise InputError("neither 'robot' nor 'body' is given", hint="expected one")
        frames = tuple(Frame(each.name, "body", each.pose()) for each in self.frame)
        body = self.body.locate_meshes(session.folder).body_of("body", "body", self.name)
        return with_base(Robot(self.name, (body,), (), frames), self.base)


class ContactShapeTable(PoseKeys):
    """A shape on a frame, or fixed in the world."""

    uses: ClassVar = {
        name: (*(each.name for each in fields(kind)), "frame", "position", "rpy")
        for name, kind in shapes.SHAPES.items()
    } | {"collision": ("frame",)}

    frame: Name | None = key(
        None, "frame of a system; if omitted, the shape is fixed in the world at `position` and `rpy`"
    )
    kind: Literal["sphere", "plane", "disc", "capsule", "cylinder", "box", "cone", "hole", "ring", "collision"] = key(
        what="shape; `collision`: all collision shapes of the frame's body in its robot file"
    )
    radius: Number | None = key(None, "m; of a ring, radius of its centre line")
    length: Number | None = key(None, "along z, m; of a cone, from throat to mouth")
    x: Number | None = key(None, "edge of a box along x, m")
    y: Number | None = key(None, "edge of a box along y, m")
    z: Number | None = key(None, "edge of a box along z, m")
    throat: Number | None = key(None, "radius of a cone at z = 0, m")
    mouth: Number | None = key(None, "radius of a cone at z = length, m")
    depth: Number | None = key(None, "depth of a hole, m")
    tube: Number | None = key(None, "half the thickness of a ring, m")

    def contact_shapes(self, world: World) -> list[ShapeOnFrame]:
        """The shape, or all collision shapes that a body has in its file."""
        if self.kind != "collision":
            return [self.make()]
        found = [] if self.frame is None else ShapeOnFrame.from_collision_shapes(world, self.frame)
        if not found:
            raise InputError(
                f"{self.frame or 'the world'!r} has no collision shapes",
                place="frame",
                hint="expected a body that has some",
            )
        return found

    def make(self) -> ShapeOnFrame:
        kind = shapes.SHAPES[self.kind]
        sizes = {each.name: getattr(self, each.name) for each in fields(kind)}
        for name, size in sizes.items():
            if size is None:
                raise InputError(f"{name!r} of a {self.kind} is missing", hint=f"expected {', '.join(sizes)}, in m")
        # A shape on a frame is placed by that frame.
        if self.frame is not None and (self.has_key("position") or self.si_value("rpy") is not None):
            raise InputError("both a frame and a pose in the world are given", hint="expected one")
        return ShapeOnFrame(self.pose() if self.frame is None else self.frame, kind(**sizes))


class ContactPairTable(ScenarioTable):
    """Two shapes that may touch."""

    name: Name = key("", "name in events and results")
    first: ContactShapeTable
    second: ContactShapeTable
    stiffness: Number = key(what="N/m; for law hertz N/m^1.5")
    restitution: Number = key(1.0, "0 to 1")
    friction: Number = key(0.0, "Coulomb's coefficient")
    law: Literal["linear", "hertz"] = key("linear")
    tangential: Number | None = key(
        None, "tangential stiffness while surfaces stick, N/m; 20 times the linear stiffness if omitted"
    )
    patch: Number = key(0.0, "effective radius for torsional friction about the normal, m; zero for a point contact")
    slowest: Number = key(1e-3, "m/s; slower impacts do not rebound")

    def contacts(self, world: World) -> list[Contact]:
        """The contact, or one for each pair of collision shapes, numbered."""
        law = self.options("stiffness", "restitution", "friction", "law", "tangential", "patch", "slowest")
        sides = []
        for which, side in (("first", self.first), ("second", self.second)):
            with error_context(which):
                sides.append(side.contact_shapes(world))
        # Collision shapes of two bodies: every one may touch every other.
        pairs = [(a, b) for a in sides[0] for b in sides[1]]
        if len(pairs) == 1:
            return [Contact(*pairs[0], **law, name=self.name)]
        name = self.name or f"{pairs[0][0].label}-{pairs[0][1].label}"
        return [Contact(*pair, **law, name=f"{name}.{k + 1}") for k, pair in enumerate(pairs)]


class StopsTable(ScenarioTable):
    """Stops at joint limits."""

    joints: list[Name] = key(what="joints with limits")
    stiffness: Number = key(what="N m/rad or N/m")
    restitution: Number = key(0.0, "0 to 1")

    def make(self) -> JointStops:
        return JointStops(self.joints, self.stiffness, self.restitution)


class JointElementTable(ScenarioTable):
    """Friction with bristles, hysteresis or backlash of a joint; keys that a kind does not have are errors."""

    kind: Literal["lugre", "bouc-wen", "backlash"] = key(what="the law")
    joint: Name = key(what="on which it acts; of a backlash the first")
    second: Name | None = key(None, "of a backlash: the other joint, the motor's")
    coulomb: Number | None = key(None, "lugre: force while sliding fast, N m or N")
    static: Number | None = key(None, "lugre: force at which it breaks loose; `coulomb` if omitted")
    stribeck: Number | None = key(None, "lugre: rate at which Stribeck's curve has fallen by 63 %; 0.01 rad/s or m/s")
    stiffness: Number | None = key(None, "of bristles (lugre, 1e4), of the first loading, of a flank; N m/rad or N/m")
    damping: Number | None = key(None, "of bristles, or of a flank; N m s/rad or N s/m")
    viscous: Number | None = key(None, "lugre: N m s/rad or N s/m")
    load: Number | None = key(None, "lugre: friction for each N m that the joint's coupling transmits")
    displacement: Number | None = key(None, "bouc-wen: at which it yields, rad or m")
    elastic: Number | None = key(None, "bouc-wen: share of the stiffness that remains, 0 to 1")
    sharpness: Number | None = key(None, "bouc-wen: exponent, at least 1")
    shape: Number | None = key(None, "bouc-wen: 0 to 1, one half for linear unloading")
    rest: Number | None = key(None, "bouc-wen: where it is relaxed, rad or m")
    gap: Number | None = key(None, "backlash: of both flanks, rad or m")
    ratio: Number | None = key(None, "backlash: of the gear")
    name: Name = key("", "in messages and events; of the joint if omitted")

    def make(self) -> JointElement:
        made: dict[str, type[JointElement]] = {"lugre": LuGre, "bouc-wen": BoucWen, "backlash": Backlash}
        law = made[self.kind]
        # Keys of all kinds stand in one table: those that this kind does not have are refused below.
        given = self.model_dump(exclude_none=True, exclude={"kind", "joint"})
        given["first" if law is Backlash else "joint"] = self.joint
        known = {each.name: each for each in fields(law)}  # type: ignore[arg-type]
        for name in given:
            if name not in known:
                raise InputError(f"{name!r} does not apply to {self.kind!r}", hint="leave it out")
        for name, each in known.items():
            if each.default is MISSING and each.default_factory is MISSING and name not in given:
                raise InputError(f"{name!r} is missing", hint=f"{self.kind!r} needs it")
        return law(**given)


class HoldTable(ScenarioTable):
    """A loop between frames of two systems, as they stand at time zero."""

    first: Name = key(what="frame; a body's name is its frame")
    second: Name = key(what="frame of another system")
    kind: Literal["weld", "point", "axis", "distance"] = key(
        "weld", "`point`: ball joint at the first frame's origin; `axis`: hinge there; `distance`: a massless rod"
    )
    axis: Vector3 | None = key(None, "of a hinge, in the axes of `first`; z if omitted")

    def change(self, world: World) -> Close:
        """The change that closes it."""
        if world.frame(self.first)[0] == world.frame(self.second)[0]:
            raise InputError("both frames are of one system", hint="its own loops belong in its robot file")
        return Close(self.first, self.second, self.kind, self.axis)


class DragTable(ScenarioTable):
    """Viscous drag on a frame, against its velocity in the world."""

    frame: Name = key(what="frame on which it acts; a body's name is its frame")
    linear: Number = key(0.0, "N s/m")
    angular: Number = key(0.0, "N m s/rad")
    name: Name = key("", "in messages; `drag` and its number if omitted")

    def element(self, number: int) -> Drag:
        """The force element; ``number`` is its place in the file."""
        return Drag(self.frame, self.linear, self.angular, self.name or f"drag{number}")


class PinTable(ScenarioTable):
    """A grasp that holds a point and lets the guest rotate about an axis."""

    axis: Vector3 = key([0.0, 0.0, 1.0], "in the axes of the latch's `frame`")
    stiffness: Number = key(0.0, "stiffness of a torsional spring that is relaxed at the capture, N m/rad")
    damping: Number = key(0.0, "N m s/rad")
    friction: Number = key(0.0, "torque at which it slips, N m")
    static: Number | None = key(None, "torque at which it breaks loose, N m; as `friction` if omitted")
    lock: Name | None = key(None, "name of the phase before which it is locked: both are rigidly joined from then on")

    def make(self) -> Pin:
        with error_context("pin"):
            return Pin(self.axis, self.stiffness, self.damping, self.friction, self.static)


class LatchTable(ScenarioTable):
    """Captures a system when a frame comes within a gate, and holds it rigidly, by a pin, or by spring and damper."""

    either: ClassVar = (("stiffness", "pin"),)

    guest: Name = key(what="the captured system")
    frame: Name = key(what="frame to which it is attached")
    at: Name = key(what="frame of the guest that must enter the gate")
    distance: Number = key(what="m")
    angle: Number | None = key(
        None, "largest angle between the z axis of one frame and the negative z axis of the other, rad"
    )
    angle_deg: Number | None = None
    speed: Number = key(math.inf, "m/s")
    stiffness: list[Number] | None = key(
        None, "stiffness of a compliant latch along and about x, y, z of `frame`, N/m and N m/rad"
    )
    damping: list[Number] = key([0.0] * 6, "damping of a compliant latch, N s/m and N m s/rad")
    pin: PinTable | None = key(None, "a latch that lets the guest rotate: its joint is `<guest>.pin`")
    release: Name | None = key(None, "name of the phase before which it is released")

    def change(self) -> Change:
        """The change of the world at the capture."""
        if self.pin is not None:
            return Attach(self.guest, self.frame, kind="pin", pin=self.pin.make())
        if self.stiffness is None:
            return Attach(self.guest, self.frame)
        return Connect(Bushing(self.frame, self.at, self.stiffness, self.damping, name="latch"))

    def chain(self, world: World, phases: Sequence[Phase]) -> Phases:
        """The phases, with the capture between them: it ends a phase early, and the remaining phases follow."""
        angle = self.si_value("angle")
        with error_context("latch"):
            caught = gate(world, self.frame, self.at, self.distance, math.pi if angle is None else angle, self.speed)
            # An unknown guest is an error now, not when the gate is reached.
            world.robot(self.guest)
            # A rigid or pinned guest is detached, a compliant latch is removed as a force element.
            change, parting = self.change(), Detach(self.guest) if self.stiffness is None else Disconnect("latch")
            lock = None if self.pin is None else self.pin.lock
            for place, name in (("release", self.release), ("pin.lock", lock)):
                if name is not None:
                    check_name(name, [phase.name for phase in phases if phase.name], "phase", place=place)

        def items(context: RunContext) -> Iterator[Item]:
            # State of the latch while the run goes on: the generator is resumed after each phase.
            latched = over = locked = False
            for phase in phases:
                if latched and not (over or locked) and lock is not None and phase.name == lock:
                    locked = True
                    yield Lock(f"{self.guest}.pin")
                if latched and not over and phase.name == self.release:
                    over = True
                    yield parting
                # The gate ends a phase; once latched it must not end another.
                yield phase if latched else replace(phase, event_function=caught)
                # The phase may have ended by its own event or time instead.
                if not latched and any(event.name == caught.names[0] for event in context.events):
                    latched = True
                    yield change

        return items


class SurroundingsKeys(ScenarioTable):
    """Other contents of the world."""

    system: list[SystemTable] = key([], "further systems")
    contact: list[ContactPairTable] = key([], "shapes that may touch")
    stops: StopsTable | None = key(None, "stops at joint limits")
    gravity: Vector3 | None = key(
        None, "uniform gravity, world axes, m/s2, for tests on the ground; in the plane of a planar base, its tilt"
    )
    gravity_gradient: Annotated[list[Number], key(min_length=6, max_length=6)] | None = key(
        None,
        "xx, yy, zz, xy, xz, yz of its symmetric gradient, 1/s2, `gravity` then being that at the world's origin: of a "
        "table of height h, -g times the second derivatives of h",
    )
    joint_law: list[JointElementTable] = key([], "friction with bristles, hysteresis and backlash of joints")
    drag: list[DragTable] = key([], "viscous drag on frames")
    orbit: Number | None = key(None, "mean motion of a circular orbit, rad/s; axes: x radial, y along-track, z normal")
    latch: LatchTable | None = key(None, "captures a system")

    def elements(self, world: World) -> list[ForceElement]:
        """Force elements of the world."""
        lists: dict[str, Sequence[object]] = {
            "system": self.system,
            "contact": self.contact,
            "drag": self.drag,
            "joint_law": self.joint_law,
        }
        for name, given in lists.items():
            # Compile time grows with the program: a slip in a generated file would run for hours.
            if len(given) > MOST:
                raise InputError(f"has {len(given)} entries", place=name, hint=f"expected at most {MOST}")
        found: list[ForceElement] = []
        for k, table in enumerate(self.contact):
            with error_context(f"contact[{k}]"):
                found += table.contacts(world)
        if self.stops is not None:
            with error_context("stops"):
                found.append(self.stops.make())
        for k, law in enumerate(self.joint_law):
            with error_context(f"joint_law[{k}]"):
                found.append(law.make())
        if self.gravity is not None or self.gravity_gradient is not None:
            found.append(Gravity(self.gravity or [0.0, 0.0, 0.0], gradient=self.gravity_gradient))
        if self.orbit is not None:
            found.append(Orbit(self.orbit))
        for k, drag in enumerate(self.drag):
            with error_context(f"drag[{k}]"):
                found.append(drag.element(k + 1))
        return found
