"""Distances and gates between frames and shapes: as event functions, and at given states or along a run.

Signed gaps are those of :mod:`spacearm.mechanics.shapes`: positive apart, negative where shapes overlap, m. A pair with
several places counts by its least gap. Event functions change sign where a distance, a gap or a gate is passed, and the
integrator locates that instant. Most compiled functions are kept by what they depend on (structure, frames, numbers),
because compiling one takes far longer than evaluating it along a run. No force comes of anything here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import number, positive
from spacearm.engine import Kernel
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.shapes import Capsule, Cylinder, touches
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.structure import Keyed
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.contact import ShapeOnFrame
from spacearm.simulate.elements import ElementView, FrameMotion
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import Direction, EventFunction
from spacearm.simulate.world import World
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.run.run import Run

#: A pair of shapes.
Pair: TypeAlias = tuple[ShapeOnFrame, ShapeOnFrame]


def distance(
    world: World,
    first: str,
    second: str,
    value: float,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """Event: the distance between two frames' origins crosses ``value`` (m)."""

    def expression(a: FrameMotion, b: FrameMotion) -> SX:
        return ca.sqrt(ca.sumsqr(a.pose.origin - b.pose.origin)) - value

    kernel = _frame_event_kernel("distance", world, (first, second), (value,), expression)
    return EventFunction(kernel, (f"distance of {first} and {second}",), (direction,), (ends,))


def gate(
    world: World,
    first: str,
    second: str,
    distance: float,
    angle: float = np.pi,
    speed: float = np.inf,
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """Event: two frames come within a gate, in which all of these conditions hold.

    Args:
        distance: of their origins, m.
        angle: between the z axis of one and the negative z axis of the other, rad, at most pi.
        speed: of the second's origin relative to the first's, m/s.
    """
    place = f"gate of {first} and {second}"
    positive(distance, "distance", unit="m", place=place)
    number(angle, "angle", above=0.0, most=np.pi, unit="rad", place=place)
    number(speed, "speed", above=0.0, unit="m/s", infinite=True, place=place)

    def expression(a: FrameMotion, b: FrameMotion) -> SX:
        # The largest of normalised excesses: below zero where all conditions hold, and continuous, as an event function
        # has to be.
        over = ca.sqrt(ca.sumsqr(b.pose.origin - a.pose.origin)) / distance - 1
        if angle < np.pi:
            # Cosines, not angles: acos has an infinite slope where axes are aligned, near which gates are narrow.
            over = ca.fmax(over, np.cos(angle) + ca.dot(a.pose.rotation[:, 2], b.pose.rotation[:, 2]))
        if np.isfinite(speed):
            over = ca.fmax(over, ca.sqrt(ca.sumsqr(b.velocity - a.velocity)) / speed - 1)
        return over

    kernel = _frame_event_kernel("gate", world, (first, second), (distance, angle, speed), expression)
    return EventFunction(kernel, (place,), ("falling",), (ends,))


def clearance(
    world: World,
    first: ShapeOnFrame,
    second: ShapeOnFrame,
    value: float = 0.0,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """Event: the gap between two shapes crosses ``value`` (m), for keep-out and self-collision without a force."""
    view = ElementView(world.systems, 0, 0)
    gap = _gap(view, world, (first, second)) - value
    program = Program("clearance", {"state": view.state, "time": view.time}, {"gap": gap})
    name = f"clearance of {first.label} and {second.label}"
    return EventFunction(Kernel(program), (name,), (direction,), (ends,))


def _gap(view: ElementView, world: World, pair: Pair) -> SX:
    """The smallest gap of a pair."""
    a, b = (side.motion(view, world).pose for side in pair)
    return ca.mmin(ca.vertcat(*(touch.gap for touch in touches(pair[0].shape, a, pair[1].shape, b))))


def gaps(systems: World | Robot, pairs: Sequence[Pair], states: npt.ArrayLike) -> Array:
    """The gap of each pair of shapes, m: (T, P), negative where they overlap.

    Args:
        states: flat states (T, nx) of a world, all systems in sequence, or of its one robot; or configurations (T, n)
            of that robot, whose base then is at the origin.
    """
    world, rows = World.from_robots(systems), np.atleast_2d(np.asarray(states, dtype=np.float64))
    nx = [*world.layouts.values()][-1].stop
    if rows.shape[-1] != nx and len(world.systems) == 1:
        ((name, robot),) = world.systems.items()
        if rows.shape[-1] == robot.n:
            layout, configurations = world.layouts[name], rows
            rows = np.zeros((len(rows), nx))
            # Identity attitude at the origin: gaps of one robot do not depend on where its base is.
            rows[:, layout.quaternion.start], rows[:, layout.joints] = 1.0, configurations
    if rows.ndim != 2 or rows.shape[1] != nx:
        raise InputError(f"states have shape {rows.shape}", place="gaps", hint=f"expected (T, {nx})")
    if not pairs:
        return np.zeros((len(rows), 0))
    return np.asarray(gap_kernel(tuple(world.systems.items()), tuple(pairs))({"state": rows})["gaps"])


def collision_pairs(systems: World | Robot) -> list[Pair]:
    """All pairs of collision shapes that must not overlap: of two systems, and of bodies that no joint connects.

    Bodies connected by a sequence of joints with massless bodies between them count as connected. A cylinder is
    replaced by the capsule around it, which has a distance from more shapes.
    """
    return list(_own_pairs(systems)) if isinstance(systems, Robot) else _all_pairs(systems)


@lru_cache(maxsize=32)
def _own_pairs(robot: Robot) -> tuple[Pair, ...]:
    """Pairs of a robot's own shapes, cached so that what is compiled for them is found again."""
    return tuple(_all_pairs(World.from_robots(robot)))


def _all_pairs(world: World) -> list[Pair]:
    found: list[tuple[str, int, ShapeOnFrame]] = []
    for system, robot in world.systems.items():
        for index, body in enumerate(robot.bodies):
            for side in ShapeOnFrame.from_collision_shapes(world, world.label(system, body.name)):
                shape = side.shape
                if isinstance(shape, Cylinder):
                    shape = Capsule(shape.radius, shape.length)
                found.append((system, index, replace(side, shape=shape)))
    return [
        (a, b)
        for k, (first, i, a) in enumerate(found)
        for second, j, b in found[k + 1 :]
        if first != second or (i != j and not _are_connected(world.robot(first), i, j))
    ]


def _are_connected(robot: Robot, first: int, second: int) -> bool:
    """Whether only massless bodies lie between two bodies, the second of which is farther from the base."""
    # From the outer body towards the base, through massless bodies only (joints of several axes).
    at = robot.parents[second - 1]
    while at != first and at > 0 and robot.bodies[at].inertia.mass == 0.0:
        at = robot.parents[at - 1]
    return at == first


@dataclass(frozen=True, eq=False)
class ClearanceConstraint:
    """Shapes of one robot, or fixed to its base's frame, that a search over configurations keeps apart.

    Args:
        pairs: of shapes.
        margin: smallest gap, m.
    """

    robot: Robot
    pairs: Sequence[Pair]
    margin: float = 0.0

    def is_satisfied(self, configurations: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether every gap is at least the margin, for configurations (T, n)."""
        return np.asarray((gaps(self.robot, self.pairs, configurations) >= self.margin).all(axis=1))

    def shortfall(self, joints: Array, slack: float = 0.0) -> tuple[Array, Array]:
        """Sum of squares (...) of the shortfall of gaps from margin plus ``slack``, m2, and its gradient (..., n)."""
        found = _shortfall_kernel(self.robot, tuple(self.pairs))({"joints": joints, "margin": self.margin + slack})
        return found["shortfall"][..., 0], found["gradient"]


@lru_cache(maxsize=32)
def _shortfall_kernel(robot: Robot, pairs: tuple[Pair, ...]) -> Kernel:
    world = World.from_robots(robot)
    view, margin = ElementView(world.systems, 0, 0), ca.SX.sym("margin")
    layout = Layout(robot.n)
    at_rest = ca.SX.zeros(layout.size)
    joints, at_rest[layout.quaternion.start] = view.state[layout.joints], 1
    at_rest[layout.joints] = joints
    # Squares of the shortfall: zero with zero slope if all gaps suffice, so a search sees no kink.
    below = ca.vertcat(*(ca.fmax(margin - _gap(view, world, pair), 0) for pair in pairs))
    # Joints alone are inputs: shapes of one robot do not come nearer by a motion of its base.
    given = ca.SX.sym("joints", robot.n)
    value = ca.substitute(ca.sumsqr(below), view.state, ca.substitute(at_rest, joints, given))
    outputs = {"shortfall": value, "gradient": ca.densify(ca.gradient(value, given))}
    return Kernel(Program("shortfall", {"joints": given, "margin": margin}, outputs))


@lru_cache(maxsize=32)
def gap_kernel(systems: tuple[tuple[str, Robot], ...], pairs: tuple[Pair, ...]) -> Kernel:
    """Gaps (P, m) of pairs of shapes for flat states of a world of these systems."""
    world = World(dict(systems))
    view = ElementView(world.systems, 0, 0)
    found = ca.vertcat(*(_gap(view, world, pair) for pair in pairs))
    return Kernel(Program("gaps", {"state": view.state}, {"gaps": ca.densify(found)}))


@lru_cache(maxsize=32)
def base_gap_kernel(robot: Robot, pairs: tuple[Pair, ...]) -> Kernel:
    """Gaps (P, m) of a robot for joints, quaternion of the base and place of the mass centre (``centre``), with their
    derivatives by joints (P, n) and quaternion (P, 4): what a search along paths of a floating robot asks for."""
    world, layout = World.from_robots(robot), Layout(robot.n)
    view, plant = ElementView(world.systems, 0, 0), Plant(robot, robot_parameters(robot))
    joints, quaternion, centre = (ca.SX.sym(*each) for each in (("joints", robot.n), ("quaternion", 4), ("centre", 3)))
    state = ca.SX.zeros(layout.size)
    state[layout.quaternion], state[layout.joints] = quaternion, joints
    # The mass centre is given, not the base: of a floating robot only the mass centre moves in a known manner,
    # uniformly.
    state[layout.position] = centre - ca.substitute(plant.mass_centre, plant.state, state)
    found = ca.substitute(ca.vertcat(*(_gap(view, world, pair) for pair in pairs)), view.state, state)
    outputs = {"gaps": ca.densify(found)}
    outputs |= {"by_joints": ca.densify(ca.jacobian(found, joints))}
    outputs |= {"by_quaternion": ca.densify(ca.jacobian(found, quaternion))}
    inputs = {"joints": joints, "quaternion": quaternion, "centre": centre}
    return Kernel(Program("floating_gaps", inputs, outputs, frozenset({"by_joints", "by_quaternion"})))


@dataclass(frozen=True)
class NearestApproach:
    """The closest approach of several pairs of shapes during a run."""

    gap: float  # m; negative where they overlap
    pair: Pair
    time: float  # s


def nearest_approach(run: Run, pairs: Sequence[Pair]) -> NearestApproach:
    """The smallest gap of these pairs at the samples of a run in which the systems stay the same."""
    tracks = {track.name: track for track in run.tracks}
    if len(tracks) < len(run.tracks) or {*tracks} != {*run.world.systems} or not pairs:
        raise InputError(
            "there is no pair, or a system came or went during the run",
            place="nearest",
            hint="expected a pair, and a run without Attach, Detach or Separate",
        )
    states = np.concatenate([tracks[name].states for name in run.world.systems], axis=1)
    found = gaps(run.world, pairs, states)
    row, column = np.unravel_index(int(np.argmin(found)), found.shape)
    times = next(iter(tracks.values())).times
    return NearestApproach(float(found[row, column]), pairs[int(column)], float(times[row]))


Expression: TypeAlias = Callable[[FrameMotion, FrameMotion], SX]


def _frame_event_kernel(
    name: str, world: World, frames: Sequence[str], numbers: tuple[float, ...], expression: Expression
) -> Kernel:
    """An event function of two frames: ``expression``, which holds these numbers."""
    # The frame with its placement belongs to the key: a moved frame needs other code.
    places = [(system, world.robot(system).frame(own)) for system, own in map(world.frame, frames)]
    # Structures and not robots: a gate of a robot with other masses finds the same code.
    systems = tuple((each, robot.structure) for each, robot in world.systems.items())
    return _build_frame_event(Keyed((name, systems, tuple(places), numbers), (name, world, expression, places)))


@lru_cache(maxsize=64)
def _build_frame_event(made: Keyed[tuple[str, World, Expression, Any]]) -> Kernel:
    name, world, expression, places = made.value
    view = ElementView(world.systems, 0, 0)
    value = expression(*(view.frame(system, frame.name) for system, frame in places))
    return Kernel(Program(name, {"state": view.state, "time": view.time}, {"value": value}))
