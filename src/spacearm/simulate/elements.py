"""Force elements: forces on the systems of a world as functions of their states.

An element writes, on CasADi scalars, the wrenches and generalised forces that it exerts, the rate of its memory, event
functions, and the new memory when one of them crosses. All elements of a world form one program, which the solver
calls before the motion's and whose results it puts into the motion's inputs: samples, audit rows, balances and the
ledger include the effect of elements just like loads.

What is a number of an element (stiffness, friction) is an input of that program, what changes its expressions (kind,
frames) is its structure key: worlds with equal keys share compiled code. Memory is integrated with the state, with its
own absolute tolerances; it is what makes history possible: bristles of friction, an open or closed contact. Event
functions may depend on the rate of the state, which is known once the motion has been evaluated. Frames and forces
between elements and systems are in world axes, SI units.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np

from spacearm.engine import Kernel
from spacearm.engine.system import Feedback, make_feedback
from spacearm.mechanics import Program
from spacearm.mechanics.kinematics import SymbolicPose, base_pose, frame_jacobian, frame_pose
from spacearm.mechanics.motion import LoadFrame
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.structure import Keyed
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.world import World


@dataclass(frozen=True)
class FrameMotion:
    """Motion of a frame in the world: pose and twist at its origin, world axes."""

    pose: SymbolicPose
    velocity: SX  # m/s
    angular_velocity: SX  # rad/s


class ElementView:
    """Symbols for the expressions of an element: states, time, its memory and its parameters.

    ``rate`` is the time derivative of the whole state, for event functions only.
    """

    def __init__(self, systems: Mapping[str, Robot], memory: int, numbers: int) -> None:
        self.time, self.memory = ca.SX.sym("time", 1), ca.SX.sym("memory", memory)
        self.numbers = ca.SX.sym("numbers", numbers)
        self.layouts: dict[str, Layout] = {}
        self.trees = {name: Tree(robot) for name, robot in systems.items()}
        at = 0
        for name, robot in systems.items():
            self.layouts[name] = Layout(robot.n, at)
            at = self.layouts[name].stop
        self.state, self.rate = ca.SX.sym("state", at), ca.SX.sym("rate", at)
        self._frames: dict[tuple[str, str], FrameMotion] = {}

    def part(self, memory: slice, numbers: slice) -> ElementView:
        """The view of one element, with its own memory and parameters."""
        # Shallow: states and the cache of frames stay those of the whole world.
        own = copy.copy(self)
        own.memory, own.numbers = self.memory[memory], self.numbers[numbers]
        return own

    def frame(self, system: str, frame: str) -> FrameMotion:
        """Pose and motion of a frame."""
        key = system, frame
        # Several elements share the expressions of a frame: common subexpressions stay common in the program.
        if key not in self._frames:
            tree, at = self.trees[system], self.layouts[system]
            base = base_pose(self.state[at.position], self.state[at.quaternion])
            placements, part = tree.placements(self.state[at.joints]), tree.robot.frame(frame)
            twist = frame_jacobian(tree, placements, base, part) @ self.state[at.velocity]
            pose = frame_pose(tree, placements, base, part)
            self._frames[key] = FrameMotion(pose, twist[:3], twist[3:])
        return self._frames[key]

    def change(self, value: SX) -> SX:
        """Time derivative of an expression in the state, by ``rate``."""
        return ca.jtimes(value, self.state, self.rate)


@dataclass(frozen=True)
class ElementEvent:
    """An event function of an element, and the new memory after its crossing."""

    kind: str  # of what happens there
    name: str  # of the place where it does
    value: SX
    after: SX
    direction: int = -1  # +1 rising, -1 falling, 0 both


@dataclass(frozen=True)
class ElementAction:
    """Action of an element: its forces, memory rate, events and observed numbers.

    Args:
        wrenches: (system, frame) to force and moment at the frame's origin, world axes, N and N m.
        forces: (system, degree of freedom) to generalised force.
        rate: of the memory.
        events: event functions.
        observations: further numbers to report at steps, by name.
    """

    wrenches: Mapping[tuple[str, str], SX] = field(default_factory=dict)
    forces: Mapping[tuple[str, str], SX] = field(default_factory=dict)
    rate: SX = field(default_factory=lambda: ca.SX(0, 1))
    events: Sequence[ElementEvent] = ()
    observations: Mapping[str, SX] = field(default_factory=dict)


class ForceElement(ABC):
    """A force on systems of a world during their motion."""

    name: str
    smooth = True  # whether its forces are smooth between events; otherwise steps are controlled ten times as tightly

    @property
    def internal(self) -> bool:
        """Whether its forces act only between systems of the world, and add up to zero."""
        return False

    @property
    def binding(self) -> bool:
        """Whether it cannot just end when a change takes its frames away."""
        return False

    def follow(self, new_owner: Callable[[str, str], tuple[str, str]]) -> ForceElement:
        """The same where a change gave frames to other systems; ``new_owner`` maps (system, frame) to its new place."""
        del new_owner
        return self

    @abstractmethod
    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        """System and frame of every wrench that the element exerts; an error if the world does not have them."""

    @abstractmethod
    def numbers(self, world: World) -> Array:
        """Parameters of its expressions: the same program serves other values."""

    @abstractmethod
    def write(self, view: ElementView, world: World) -> ElementAction:
        """The element's wrenches and events as expressions."""

    def structure(self, world: World) -> Hashable:
        """Structure key: what :meth:`write` depends on besides the structure of the systems; equal keys share compiled
        code.

        By default, this very element and all robots.
        """
        return self, tuple(world.systems.items())

    def memory(self, world: World) -> Array:
        """Memory at the start."""
        del world
        return np.zeros(0)

    def scale(self, world: World) -> Array:
        """Absolute tolerance of each number of its memory; infinite if its error does not matter."""
        return np.full(self.memory(world).size, np.inf)

    def check_start(self, world: World, seen: Mapping[str, float]) -> None:
        """Raise an error if a run cannot start with these observed numbers."""
        del world, seen


def element_frames(world: World) -> list[tuple[str, LoadFrame]]:
    """System and frame of every wrench that an element exerts; each has its own place."""
    return [
        (system, LoadFrame(frame, "world", element.name))
        for element in world.elements
        for system, frame in element.frames(world)
    ]


@dataclass(frozen=True, eq=False)
class Elements:
    """The compiled elements of a world, for any parameters."""

    kernel: Kernel
    watch: Kernel | None
    jump: Kernel | None
    targets: tuple[tuple[str, ...], ...]  # (system, frame, name) of six numbers; (system, degree of freedom) of one
    memory: Array  # at the start
    places: Mapping[str, slice]  # of each element's memory
    scale: Array
    labels: tuple[tuple[str, str], ...]  # of what is watched: kind and name
    directions: tuple[int, ...]
    observe: Kernel | None

    @cached_property
    def n_in(self) -> int:
        """Size of the block after the motion kernel's input."""
        nx = self.kernel.program.inputs["state"].numel()
        return int(self.kernel.n_in + nx + 1)

    def input(self, world: World) -> Array:
        """The block: parameters of this world, everything else zero."""
        block = np.zeros(self.n_in)
        block[self.kernel.inputs["numbers"]] = np.concatenate([each.numbers(world) for each in world.elements])
        return block

    def observations(self, world: World, states: Array, times: Array, memory: Array) -> dict[str, Array]:
        """Observed numbers at flat states (T, nx), (T,) each."""
        if self.observe is None:
            return {}
        numbers = self.input(world)[self.kernel.inputs["numbers"]]
        given = {"state": states, "time": times[:, None], "memory": memory, "numbers": numbers}
        found = self.observe({name: value for name, value in given.items() if np.size(value)})
        return {name: value[:, 0] for name, value in found.items()}

    def tail(self, ny: int) -> slice:
        """Place of the memory in an integrated vector of this length."""
        return slice(ny - self.memory.size, ny)

    def begin(self, world: World, state: Array, time: float, known: Mapping[str, Array]) -> Array:
        """Memory at the start of a segment: from earlier elements of the same names, or the initial memory."""
        memory = self.memory.copy()
        seen = self.observations(world, state[None], np.array([time]), memory[None])
        first = {name: float(value[0]) for name, value in seen.items()}
        for element in world.elements:
            place = self.places[element.name]
            if element.name in known and known[element.name].size == place.stop - place.start:
                # An element that goes on through a change keeps its memory: an open contact is not touched anew.
                memory[place] = known[element.name]
            else:
                element.check_start(world, first)
        return memory

    def final_memory(self, y: Array) -> dict[str, Array]:
        """Memory of each element at the end of a segment, from the integrated vector."""
        own = y[self.tail(y.size)]
        return {name: own[place].copy() for name, place in self.places.items()}

    def feedback(self, first: int, target: Sequence[int], loops: Kernel | None, tied: Sequence[int]) -> Feedback:
        """The elements in the solver's terms, for a block that begins at ``first``; ``loops`` adds to ``tied``."""
        watch, jump, last = (0 if kernel is None else kernel.address(1) for kernel in (self.watch, self.jump, loops))
        size, address = len(self.directions), self.kernel.address(1)
        return make_feedback(first, address, target, self.memory.size, watch, size, jump, last, tied)


def elements_of(world: World) -> Elements | None:
    """All elements of a world as one program, or None if there are none."""
    if not world.elements:
        return None
    systems = tuple((name, robot.structure) for name, robot in world.systems.items())
    # Values are inputs; only their number is part of the program.
    sizes = tuple((element.name, element.numbers(world).size) for element in world.elements)
    return _elements(Keyed((systems, sizes, tuple(each.structure(world) for each in world.elements)), world))


@lru_cache(maxsize=64)
def _elements(made: Keyed[World]) -> Elements:
    world, elements = made.value, made.value.elements
    memories = [element.memory(world) for element in elements]
    sizes = [element.numbers(world).size for element in elements]
    view = ElementView(world.systems, sum(own.size for own in memories), sum(sizes))
    targets: list[tuple[str, ...]] = []
    outputs: list[SX] = []
    rates: list[SX] = []
    watched: list[tuple[int, ElementEvent]] = []
    observed: dict[str, SX] = {}
    places: dict[str, slice] = {}
    at = first = 0
    # Each element sees its own part of memory and numbers: it can be written without knowing of the others.
    for element, own, size in zip(elements, memories, sizes, strict=True):
        action = element.write(view.part(slice(at, at + own.size), slice(first, first + size)), world)
        frames = list(element.frames(world))
        targets += [(system, frame, element.name) for system, frame in frames]
        outputs += [action.wrenches[key] for key in frames]
        targets += list(action.forces)
        outputs += list(action.forces.values())
        rates.append(action.rate)
        watched += [(at, each) for each in action.events]
        observed |= action.observations
        places[element.name] = slice(at, at + own.size)
        at, first = at + own.size, first + size
    inputs = {"state": view.state, "time": view.time, "memory": view.memory, "numbers": view.numbers}
    results = {"actions": ca.densify(ca.vertcat(*outputs)), "memory_rate": ca.densify(ca.vertcat(*rates))}
    watch = jump = None
    if watched:
        values = ca.densify(ca.vertcat(*(each.value for _, each in watched)))
        watch = Kernel(Program("watch", inputs | {"rate": view.rate}, {"value": values}))
        number, after = ca.SX.sym("number", 1), view.memory
        # One jump program for all events: a chain of if_else over the number of the event that crossed.
        for k, (place, each) in enumerate(watched):
            new = ca.vertcat(view.memory[:place], each.after, view.memory[place + each.after.numel() :])
            after = ca.if_else(number == k, new, after)
        jump = Kernel(
            Program("jump", inputs | {"rate": view.rate, "number": number}, {"memory_after": ca.densify(after)})
        )
    return Elements(
        Kernel(Program("elements", inputs, results)),
        watch,
        jump,
        tuple(targets),
        np.concatenate(memories),
        places,
        np.concatenate([element.scale(world) for element in elements]),
        tuple((each.kind, each.name) for _, each in watched),
        tuple(each.direction for _, each in watched),
        Kernel(Program("observe", inputs, observed)) if observed else None,
    )
