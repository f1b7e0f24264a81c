"""The motion kernels of a robot and of a world, with their parameters.

A world is one program: those of its robots in parallel, with all inputs of one name together. A :class:`SystemPart`
holds the columns of the common vectors that belong to a system, so that its rows can be read as if it had run alone:
certificate, energies and datasets are written for one robot and serve any number.

Integrated vector: states of all systems, energies, memory of continuous laws, memory of force elements. Laws of a
phase are combined for each system into one, since what one commands another may have to know. Kernels are cached by
structure (:mod:`spacearm.mechanics.structure`): robots and worlds that differ only in parameters share machine code,
and a robot that a change has made anew finds its program again. Frames that wrenches act on are part of the structure;
those that a world reserves come first, so that phases with other loads find it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from spacearm.engine import Kernel
from spacearm.engine.system import (
    Feedback,
    ImplicitMemory,
    MotionKernelCode,
    SolverMemory,
    make_code,
    make_feedback,
    make_implicit_memory,
    make_solver_memory,
)
from spacearm.errors import InputError, error_context
from spacearm.mechanics import Program
from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.mechanics.program import concatenate_programs
from spacearm.mechanics.structure import Keyed, structure
from spacearm.mechanics.system_loops import system_loop_program
from spacearm.model import Joint, Robot
from spacearm.model.layout import Layout
from spacearm.simulate.elements import Elements, element_frames, elements_of
from spacearm.simulate.law import Law, combine_laws
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import Phase
from spacearm.simulate.signals import as_signal
from spacearm.simulate.system_loop import system_loops
from spacearm.simulate.world import SEPARATOR, World
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class RobotMotion:
    """A robot's compiled right-hand side under a set of loads."""

    robot: Robot
    loads: tuple[LoadFrame, ...]
    ledger: bool
    kernel: Kernel
    code: MotionKernelCode

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its arguments: machine code belongs to one process."""
        return robot_motion, (self.robot, self.loads, self.ledger)

    @property
    def nx(self) -> int:
        return self.code.nx

    @property
    def energies(self) -> dict[str, slice]:
        """Places of the integrated energies in ``y``: drives, dampers, coupling dampers, dry friction, loads."""
        # Integrated behind the state, one after the other.
        dofs, at, places = self.robot.dofs, self.code.nx, {}
        # The order of the power outputs of the motion program.
        sizes = {
            "drive": dofs,
            "damping": dofs,
            "coupling": len(self.robot.couplings),
            "friction": dofs,
            "load": len(self.loads),
        }
        for name, size in sizes.items():
            places[name] = slice(at, at + size)
            at += size
        return places

    def parameters(self, overrides: Mapping[str, npt.ArrayLike] | None = None) -> dict[str, Array]:
        """The robot's own parameters, with some replaced."""
        return robot_parameters(self.robot, overrides)

    def input(self, parameters: Mapping[str, Array]) -> Array:
        """The kernel's flat input with these parameters; everything else zero."""
        inp = np.zeros(self.kernel.n_in)
        known = {**parameters, **self.kernel.derive(parameters)}
        for name, place in self.kernel.inputs.items():
            if name in known:
                inp[place] = known[name]
        return inp


def robot_motion(robot: Robot, loads: Sequence[LoadFrame] = (), ledger: bool = True) -> RobotMotion:
    """The motion kernel of a robot, compiled or from the cache, with the offsets that the loops need."""
    return _build_robot_motion(robot, tuple(loads), bool(ledger))


@lru_cache(maxsize=32)
def _build_robot_motion(robot: Robot, loads: tuple[LoadFrame, ...], ledger: bool) -> RobotMotion:
    # The structure, not the robot: robots that differ in numbers only share machine code.
    key = structure(robot, [load.frame for load in loads]), loads, ledger
    kernel = _kernel(Keyed((key,), lambda: [motion_program(robot, loads, ledger=ledger)]))
    code = _code(kernel, [Layout(robot.n)])
    return RobotMotion(robot, loads, ledger, kernel, code)


@lru_cache(maxsize=64)
def _kernel(made: Keyed[Callable[[], list[Program]]]) -> Kernel:
    """Kernel of several programs in parallel; worlds that differ only in their robots' parameters share it."""
    programs = made.value()
    return Kernel(concatenate_programs(programs) if len(programs) > 1 else programs[0])


def load_frames(world: World, phases: Iterable[Phase]) -> dict[str, tuple[LoadFrame, ...]]:
    """Frames of each system on which a wrench acts in any of the phases, or which the world reserves, each once."""
    found: dict[str, dict[LoadFrame, None]] = {name: {} for name in world.systems}
    chosen = [*phases]
    # Frames reserved by the world come first, so that later phases with other loads find their program again.
    places = [*world.loads, *(load.place for phase in chosen for load in phase.loads)]
    # Each frame once: several loads on it share six inputs of the program.
    for place in dict.fromkeys(places):
        system, own = world.frame(place.frame)
        found[system][LoadFrame(own, place.axes)] = None
    for system, frame in element_frames(world):
        found[system][frame] = None
    for system, law in (pair for phase in chosen for pair in laws_of(world, phase)):
        with error_context(law.place):
            found[system] |= dict.fromkeys(law.frames(world.robot(system)))
    return {name: tuple(frames) for name, frames in found.items()}


def law_memory(world: World, phases: Iterable[Phase]) -> int:
    """Largest memory that continuous laws of any of the phases have."""
    laws = [[(world.robot(system), law) for system, law in laws_of(world, phase)] for phase in phases]
    sizes = [sum(law.program(robot).memory.size for robot, law in own if law.period is None) for own in laws]
    return max(sizes, default=0)


def laws_of(world: World, phase: Phase) -> list[tuple[str, Law]]:
    """The laws of a phase by system; several laws of a system are combined."""
    found: dict[str, list[Law]] = {}
    for law in cast(tuple[Law, ...], phase.laws):
        if not law.system and len(world.systems) > 1:
            names = ", ".join(world.systems)
            raise InputError("does not state its system", place=law.place, hint=f"system: one of {names}")
        system = law.system or next(iter(world.systems))
        world.robot(system)
        found.setdefault(system, []).append(law)
    return [
        (name, _law_in(phase, world.robot(name), tuple(found[name]), list_prescribed_dofs(world, phase, name)))
        for name in world.systems
        if name in found
    ]


def list_prescribed_dofs(world: World, phase: Phase, system: str) -> tuple[tuple[str, str], ...]:
    """Degrees of freedom of a system that are locked, driven or accelerated in a phase: own name, and the phase's."""
    named = dict.fromkeys((*phase.locked, *world.locked, *phase.driven, *phase.accelerations))
    found = []
    for name in named:
        with suppress(InputError):  # an unknown name is reported when the phase is prepared
            owner, own = world.dof(name)
            found += [(own, name)] if owner == system else []
    return tuple(found)


@lru_cache(maxsize=256)
def _law_in(phase: Phase, robot: Robot, laws: tuple[Law, ...], given: tuple[tuple[str, str], ...]) -> Law:
    """Laws of one system as the single law of a phase, with the prescribed motion of the phase."""
    accelerations = {}
    for own, name in given:
        if name in phase.driven:
            accelerations[own] = as_signal(phase.driven[name], f"path of {name!r}").derivative().derivative()
        elif name in phase.accelerations:
            accelerations[own] = as_signal(phase.accelerations[name], f"acceleration of {name!r}")
    return combine_laws(laws).prescribe_dofs(robot, [own for own, _ in given], accelerations)


@dataclass(frozen=True, eq=False)
class SystemPart:
    """A system within a world's vectors. ``motion`` is that of its robot alone, for reading its rows."""

    name: str
    motion: RobotMotion
    layout: Layout
    dofs: slice  # among the degrees of freedom of all systems
    y: Any  # columns of the integrated vector (state, energies) that are its own
    inputs: Any  # of the recorded inputs
    outputs: Any  # of the kernel's outputs
    audit: Any  # of the audit rows

    def own_dofs(self, indices: Iterable[int]) -> list[int]:
        """Indices of its own degrees of freedom among those of the world, counted from its first."""
        return [index - self.dofs.start for index in indices if self.dofs.start <= index < self.dofs.stop]


@dataclass(frozen=True, eq=False)
class WorldMotion:
    """The compiled right-hand side of all systems of a world under a set of loads."""

    parts: tuple[SystemPart, ...]
    kernel: Kernel
    code: MotionKernelCode
    ledger: bool
    dof_names: tuple[str, ...]
    elements: Elements | None = None
    memory: int = 0  # largest memory of a continuous law
    loops: Kernel | None = None  # wrenches of loops between systems, for ``tied``: system, frame and name of each end
    tied: tuple[tuple[str, str, str], ...] = ()

    @property
    def nx(self) -> int:
        return self.code.nx

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Place in the state of each degree of freedom's position; -1 for those of a base."""
        return tuple(
            at for part in self.parts for at in (*[-1] * 6, *range(part.layout.joints.start, part.layout.joints.stop))
        )

    @cached_property
    def joints(self) -> tuple[tuple[int, Joint], ...]:
        """Every joint with its degree of freedom."""
        return tuple(
            (part.dofs.start + 6 + i, joint) for part in self.parts for i, joint in enumerate(part.motion.robot.joints)
        )

    def index(self, system: str, dof: str) -> int:
        """A degree of freedom among those of all systems."""
        part = next(part for part in self.parts if part.name == system)
        return int(part.dofs.start) + part.motion.robot.dof_index(dof)

    def wrench(self, system: str, frame: str, axes: str, by: str = "") -> int:
        """Start of the wrench on a frame in the kernel's input."""
        at = int(self.kernel.inputs["wrench"].start)
        for part in self.parts:
            if part.name == system:
                return at + 6 * part.motion.loads.index(LoadFrame(frame, axes, by))
            at += 6 * len(part.motion.loads)
        raise AssertionError(system)

    def work(self, world: World, state: Array, time: float, memory: Mapping[str, Array]) -> SolverMemory:
        """Memory of a run from this flat state, with the memory of force elements by name."""
        inp, elements = self.input(world.parameters), self.elements
        if elements is not None:
            inp = np.concatenate([inp, elements.input(world)])
        work = make_solver_memory(inp, self.kernel.n_out, self.code.ny)
        work.y[: self.nx] = state
        if elements is not None:
            work.y[elements.tail(self.code.ny)] = elements.begin(world, state, time, memory)
        return work

    def feedback(self) -> Feedback:
        """Feedback of force elements into the kernel's input, with memory for one run."""
        if self.elements is None:
            return make_feedback()
        target: list[int] = []
        for key in self.elements.targets:
            if len(key) == 3:
                first = self.wrench(key[0], key[1], "world", key[2])
                target += range(first, first + 6)
            else:
                target.append(self.kernel.inputs["force"].start + self.index(*key))
        tied: list[int] = []
        for system, frame, name in self.tied:
            first = self.wrench(system, frame, "world", name)
            tied += range(first, first + 6)
        return self.elements.feedback(self.kernel.n_in, target, self.loops, tied)

    def stiff(
        self, tolerance: Array, rtol: float, still: Sequence[int], paths: Sequence[int], bound: Any
    ) -> ImplicitMemory:
        """Memory of the implicit method: for the state and the memory of laws and force elements that acts back.

        Degrees of freedom that are locked (``still``) or follow paths are known; if one of a base is ``bound`` (driven,
        or with dry friction), the whole base stays in its own axes.
        """
        code = self.code
        behind = np.arange(code.moved, code.ny)
        # Energies act back on nothing, and memory without a tolerance is booked only: neither belongs in Newton's
        # system.
        index = np.concatenate([np.arange(code.nx), behind[np.isfinite(tolerance[behind])]])
        parts = [(part, {*range(part.dofs.start, part.dofs.start + 6)}) for part in self.parts]
        bases = [
            (part.layout.quaternion.start, part.layout.velocity.start) for part, own in parts if not own & {*bound}
        ]
        known = [int(code.speed[i]) for i in (*still, *paths)]
        # A known rate has a known position too: neither is solved for.
        known += [self.positions[i] for i in (*still, *paths) if self.positions[i] >= 0]
        # A base that is locked entirely has a known pose as well.
        for part, own in parts:
            if own <= {*still}:
                known += range(part.layout.start, part.layout.quaternion.stop)
        return make_implicit_memory(code.ny, index, tolerance[index], rtol, bases, known, self.positions)

    def with_loops(self, world: World) -> WorldMotion:
        """The same with the loops between its systems, if there are any."""
        loops = system_loops(world)
        if not loops or self.elements is None:
            return self
        # Their numbers stand where those of all force elements do: behind state, time and memory.
        places, at = [], 0
        for element in world.elements:
            size = element.numbers(world).size
            if element in loops:
                places.append(slice(at, at + size))
            at += size
        block = {"seen": self.nx, "time": 1, "memory": self.elements.memory.size, "numbers": at}
        systems = [(part.motion.robot, part.motion.loads) for part in self.parts]
        between = [loop.resolve(world) for loop in loops]
        key = (
            tuple((structure(robot, [load.frame for load in loads]), loads) for robot, loads in systems),
            tuple(loop.structure(world) for loop in loops), tuple(map(str, places)), tuple(block.items()),
        )  # fmt: skip
        kernel = _kernel(Keyed(key, lambda: [system_loop_program(systems, between, places, block)]))
        tied = tuple((*end, loop.name) for loop in loops for end in loop.frames(world))
        return replace(self, loops=kernel, tied=tied)

    def with_memory(self, elements: Elements | None, memory: int) -> WorldMotion:
        """The same with force elements, and space after the energies for the memory of elements and continuous laws."""
        size = memory + (0 if elements is None else elements.memory.size)
        code, parts = self.code._replace(ny=self.code.ny + size), self.parts
        if len(parts) == 1:
            parts = (replace(parts[0], y=slice(0, self.code.ny)),)
        return replace(self, elements=elements, code=code, parts=parts, memory=memory)

    def carries(self, frames: Mapping[str, tuple[LoadFrame, ...]], memory: int) -> bool:
        """Whether it has all these frames, and space for this much memory of continuous laws."""
        return memory <= self.memory and all({*frames[part.name]} <= {*part.motion.loads} for part in self.parts)

    def input(self, parameters: Sequence[Mapping[str, Array]]) -> Array:
        """The kernel's flat input with these parameters of each system; everything else zero."""
        inp = np.zeros(self.kernel.n_in)
        known = {name: np.concatenate([own[name] for own in parameters]) for name in parameters[0]}
        known |= self.kernel.derive(known)
        for name, place in self.kernel.inputs.items():
            if name in known:
                inp[place] = known[name]
        return inp


def _columns(sizes: Sequence[Mapping[str, int]]) -> list[npt.NDArray[np.int64]]:
    """Places of each part's numbers in a vector that holds every named block of all parts in sequence."""
    found: list[list[npt.NDArray[np.int64]]] = [[] for _ in sizes]
    at = 0
    for name in sizes[0]:
        for own, block in zip(found, sizes, strict=True):
            own.append(np.arange(at, at + block[name]))
            at += block[name]
    return [np.concatenate(own) for own in found]


def world_motion(
    world: World, loads: Mapping[str, tuple[LoadFrame, ...]], ledger: bool = True, memory: int = 0
) -> WorldMotion:
    """The motion kernel of a world, compiled or from the cache; ``memory``: size of a continuous law's memory."""
    model = _world_motion(tuple(world.systems.items()), tuple(loads[name] for name in world.systems), bool(ledger))
    elements = elements_of(world)
    return _extend_memory(model, elements, memory).with_loops(world) if elements or memory else model


@lru_cache(maxsize=32)
def _extend_memory(model: WorldMotion, elements: Elements | None, memory: int) -> WorldMotion:
    return model.with_memory(elements, memory)


@lru_cache(maxsize=32)
def _world_motion(
    systems: tuple[tuple[str, Robot], ...], loads: tuple[tuple[LoadFrame, ...], ...], ledger: bool
) -> WorldMotion:
    models = [robot_motion(robot, frames, ledger) for (_, robot), frames in zip(systems, loads, strict=True)]
    names = [name for name, _ in systems]
    # One system: its vectors are the world's, and slices in place of index arrays copy nothing.
    if len(models) == 1:
        model = models[0]
        every = slice(None)
        part = SystemPart(
            names[0], model, Layout(model.robot.n), slice(0, model.robot.dofs), every, every, every, every
        )
        return WorldMotion((part,), model.kernel, model.code, ledger, model.robot.dof_names)
    key = [(structure(m.robot, [load.frame for load in m.loads]), m.loads, ledger) for m in models]
    # Written again: systems of equal structure have one program, but each needs its own symbols.
    kernel = _kernel(Keyed(tuple(key), lambda: [motion_program(m.robot, m.loads, ledger=ledger) for m in models]))

    def sizes(model: RobotMotion, names: Iterable[str]) -> dict[str, int]:
        places = {**model.kernel.inputs, **model.kernel.outputs}
        return {name: places[name].stop - places[name].start for name in names}

    # Inputs before the parameters change in time and are recorded; parameters are constant in a segment.
    recorded = [name for name, place in kernel.inputs.items() if place.start < kernel.inputs["inertia"].start]
    # Reactions are outputs that are not integrated.
    integrated = [name for name in kernel.outputs if name != "reaction"]
    inputs = _columns([sizes(model, recorded) for model in models])
    outputs = _columns([sizes(model, kernel.outputs) for model in models])
    vectors = _columns([sizes(model, integrated) for model in models])
    audited = _columns([{"clock": 0, **sizes(model, [*recorded, "reaction", *integrated[1:]])} for model in models])
    # Audit rows begin with time and weight, which all systems share.
    clock = np.array([0, 1])
    parts, at, dof = [], 0, 0
    for k, (name, model) in enumerate(zip(names, models, strict=True)):
        layout = Layout(model.robot.n, at)
        audit = np.concatenate([clock, 2 + audited[k]])
        dofs = slice(dof, dof + model.robot.dofs)
        parts.append(SystemPart(name, model, layout, dofs, vectors[k], inputs[k], outputs[k], audit))
        at, dof = layout.stop, dofs.stop
    code = _code(kernel, [part.layout for part in parts])
    return WorldMotion(
        tuple(parts),
        kernel,
        code,
        ledger,
        tuple(f"{part.name}{SEPARATOR}{own}" for part in parts for own in part.motion.robot.dof_names),
    )


def _code(kernel: Kernel, layouts: Sequence[Layout]) -> MotionKernelCode:
    return make_code(
        kernel.address(1),
        layouts[-1].stop,
        kernel.outputs["reaction"].start,
        [place for at in layouts for place in range(at.velocity.start, at.velocity.stop)],
        [at.quaternion.start for at in layouts],
        drive=kernel.inputs["drive"].start,
        mode=kernel.inputs["mode"].start,
        friction=kernel.inputs["friction"].start,
        reaction=kernel.outputs["reaction"].start,
        record=kernel.inputs["inertia"].start,
    )
