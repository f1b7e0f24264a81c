"""Distances and gates between frames and shapes: as event functions, and at given states or along a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import number, positive
from spacearm.engine import Kernel
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.mechanics.shapes import touches
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.structure import Keyed
from spacearm.model import Robot
from spacearm.simulate.contact import On
from spacearm.simulate.elements import FrameMotion, View
from spacearm.simulate.phase import Direction, EventFunction
from spacearm.simulate.world import World
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.run import Run

#: Shapes whose distance is asked for.
Pair: TypeAlias = tuple[On, On]


def distance(
    world: World,
    first: str,
    second: str,
    value: float,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """The distance of two frames' origins goes through ``value`` (m)."""

    def expression(a: FrameMotion, b: FrameMotion) -> SX:
        return ca.sqrt(ca.sumsqr(a.pose.origin - b.pose.origin)) - value

    kernel = _kernel("distance", world, (first, second), (value,), expression)
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
    """Two frames come within a gate: all of these hold at once.

    Args:
        distance: of their origins, m.
        angle: between the z axis of one and the opposite of the other's, rad, at most pi.
        speed: of the second's origin relative to the first's, m/s.
    """
    place = f"gate of {first} and {second}"
    positive(distance, "distance", unit="m", place=place)
    number(angle, "angle", above=0.0, most=np.pi, unit="rad", place=place)
    number(speed, "speed", above=0.0, unit="m/s", infinite=True, place=place)

    def expression(a: FrameMotion, b: FrameMotion) -> SX:
        over = ca.sqrt(ca.sumsqr(b.pose.origin - a.pose.origin)) / distance - 1
        if angle < np.pi:
            over = ca.fmax(over, np.cos(angle) + ca.dot(a.pose.rotation[:, 2], b.pose.rotation[:, 2]))
        if np.isfinite(speed):
            over = ca.fmax(over, ca.sqrt(ca.sumsqr(b.velocity - a.velocity)) / speed - 1)
        return over

    kernel = _kernel("gate", world, (first, second), (distance, angle, speed), expression)
    return EventFunction(kernel, (place,), ("falling",), (ends,))


def clearance(
    world: World,
    first: On,
    second: On,
    value: float = 0.0,
    direction: Direction = "falling",
    ends: Literal["nothing", "phase", "run"] = "phase",
) -> EventFunction:
    """The gap between two shapes goes through ``value`` (m): keep-out and self-collision, without a force."""
    view = View(world.systems, 0, 0)
    gap = _gap(view, world, (first, second)) - value
    program = Program("clearance", {"state": view.state, "time": view.time}, {"gap": gap})
    name = f"clearance of {first.label} and {second.label}"
    return EventFunction(Kernel(program), (name,), (direction,), (ends,))


def _gap(view: View, world: World, pair: Pair) -> SX:
    """The least of a pair's gaps."""
    a, b = (side.motion(view, world).pose for side in pair)
    return ca.mmin(ca.vertcat(*(touch.gap for touch in touches(pair[0].shape, a, pair[1].shape, b))))


def gaps(systems: World | Robot, pairs: Sequence[Pair], states: npt.ArrayLike) -> Array:
    """The gap of each pair of shapes, m: (T, P), negative where they overlap.

    Args:
        states: flat states (T, nx) of a world, all systems one after the other, or of its one robot; or configurations
            (T, n) of that robot, whose base then lies at the origin.
    """
    world, rows = World.of(systems), np.atleast_2d(np.asarray(states, dtype=np.float64))
    nx = [*world.layouts.values()][-1].stop
    if rows.shape[-1] != nx and len(world.systems) == 1:
        ((name, robot),) = world.systems.items()
        if rows.shape[-1] == robot.n:
            layout, configurations = world.layouts[name], rows
            rows = np.zeros((len(rows), nx))
            rows[:, layout.quaternion.start], rows[:, layout.joints] = 1.0, configurations
    if rows.ndim != 2 or rows.shape[1] != nx:
        raise InputError(f"states have shape {rows.shape}", place="gaps", hint=f"expected (T, {nx})")
    if not pairs:
        return np.zeros((len(rows), 0))
    return np.asarray(_gaps(tuple(world.systems.items()), tuple(pairs))({"state": rows})["gaps"])


@lru_cache(maxsize=32)
def _gaps(systems: tuple[tuple[str, Robot], ...], pairs: tuple[Pair, ...]) -> Kernel:
    world = World(dict(systems))
    view = View(world.systems, 0, 0)
    found = ca.vertcat(*(_gap(view, world, pair) for pair in pairs))
    return Kernel(Program("gaps", {"state": view.state}, {"gaps": ca.densify(found)}))


@dataclass(frozen=True)
class Nearest:
    """Where two of the shapes of several pairs are nearest in the course of a run."""

    gap: float  # m; negative where they overlap
    pair: Pair
    time: float  # s


def nearest(run: Run, pairs: Sequence[Pair]) -> Nearest:
    """The smallest gap of these pairs at the samples of a run in which no system comes or goes."""
    tracks = {track.name: track for track in run.tracks}
    if len(tracks) < len(run.tracks) or {*tracks} != {*run.world.systems} or not pairs:
        raise InputError(
            "pairs, and systems that stay",
            place="nearest",
            hint="expected a pair, and a run without joins and partings",
        )
    states = np.concatenate([tracks[name].states for name in run.world.systems], axis=1)
    found = gaps(run.world, pairs, states)
    row, column = np.unravel_index(int(np.argmin(found)), found.shape)
    times = next(iter(tracks.values())).times
    return Nearest(float(found[row, column]), pairs[int(column)], float(times[row]))


Apart: TypeAlias = Callable[[FrameMotion, FrameMotion], SX]


def _kernel(name: str, world: World, frames: Sequence[str], numbers: tuple[float, ...], expression: Apart) -> Kernel:
    """An event function of two frames: ``expression``, which holds these numbers."""
    places = [(system, world.robot(system).frame(own)) for system, own in map(world.frame, frames)]
    systems = tuple((each, robot.structure) for each, robot in world.systems.items())
    return _shared(Keyed((name, systems, tuple(places), numbers), (name, world, expression, places)))


@lru_cache(maxsize=64)
def _shared(made: Keyed[tuple[str, World, Apart, Any]]) -> Kernel:
    name, world, expression, places = made.value
    view = View(world.systems, 0, 0)
    value = expression(*(view.frame(system, frame.name) for system, frame in places))
    return Kernel(Program(name, {"state": view.state, "time": view.time}, {"value": value}))
