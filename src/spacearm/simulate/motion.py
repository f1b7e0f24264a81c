"""The motion kernels of a robot and of a world, with the numbers that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine import Kernel
from spacearm.engine.system import Code, make_code
from spacearm.errors import InputError, did_you_mean
from spacearm.mechanics import LoadFrame, motion_program
from spacearm.mechanics.program import beside
from spacearm.mechanics.tree import rotor_inertias
from spacearm.model import Friction, Joint, Robot, Rotor, Spring
from spacearm.model.layout import Layout
from spacearm.simulate.checks import mapping, numbers
from spacearm.simulate.phase import Phase
from spacearm.simulate.world import SEPARATOR, World
from spacearm.typing import Array

#: Inputs that a user may replace, for a run or for each sample of a batch; the last two belong to the loop.
PARAMETERS = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling", "static_friction", "coulomb_friction")


def robot_parameters(robot: Robot, overrides: Mapping[str, npt.ArrayLike] | None = None) -> dict[str, Array]:
    """The numbers of a robot that its kernel and the loops take as inputs, with some replaced; see ``PARAMETERS``."""
    springs = [joint.spring for joint in robot.joints]
    frictions = [joint.friction for joint in robot.joints]
    values: dict[str, Array] = {
        "inertia": robot.inertia_parameters.ravel(),
        "rotor": rotor_inertias(robot),
        "stiffness": np.array([0.0 if s is None else s.stiffness for s in springs]),
        "rest": np.array([0.0 if s is None else s.rest for s in springs]),
        "damping": np.array([0.0] * 6 + [joint.damping for joint in robot.joints]),
        "coupling": np.array(
            [[c.stiffness, c.damping, c.ratio, c.rest] for c in robot.couplings], dtype=np.float64
        ).ravel(),
        "static_friction": np.array([0.0] * 6 + [0.0 if f is None else f.static for f in frictions]),
        "coulomb_friction": np.array([0.0] * 6 + [0.0 if f is None else f.coulomb for f in frictions]),
    }
    mapping(overrides or {}, "overrides", "parameter to numbers")
    for name, value in (overrides or {}).items():
        if name not in values:
            raise InputError(f"there is no parameter {name!r}", place="overrides", hint=did_you_mean(name, values))
        values[name] = fitted(robot, name, value, values[name].size)
    check_friction(values["static_friction"], values["coulomb_friction"])
    check_mass(values["inertia"])
    return values


def with_base(robot: Robot, name: str, values: Array) -> Array:
    """Dampings and frictions (..., n) of the joints alone as those of all (..., 6 + n); the base then has none."""
    if not name.endswith(("friction", "damping")) or values.shape[-1:] != (robot.n,):
        return values
    return np.concatenate([np.zeros((*values.shape[:-1], 6)), values], axis=-1)


def fitted(robot: Robot, name: str, value: npt.ArrayLike, size: int) -> Array:
    """A parameter as its ``size`` numbers, or an error that says how many there should be."""
    array = with_base(robot, name, numbers(value, f"overrides, {name!r}").ravel())
    if array.size != size:
        raise InputError(f"{name!r} has {array.size} numbers", place="overrides", hint=f"expected {size}")
    return array


def check_friction(static: Array, coulomb: Array) -> None:
    """Static friction not below Coulomb friction, nor that below zero: in one set (dofs,) or in each row (B, dofs)."""
    bad = ~((static >= coulomb) & (coulomb >= 0.0))  # a NaN is bad
    if np.any(bad):
        where = f", sample {np.flatnonzero(bad.any(axis=-1))[0]}" if bad.ndim == 2 else ""
        raise InputError(
            "static friction is below Coulomb friction, or one is negative or not a number",
            place=f"overrides{where}",
            hint="static >= coulomb >= 0",
        )


def check_mass(inertia: Array) -> None:
    """A total mass above zero, in one set of parameters (10 bodies,) or in each row (B, 10 bodies)."""
    mass = inertia.reshape(*inertia.shape[:-1], -1, 10)[..., 0].sum(axis=-1)
    bad = np.flatnonzero(mass <= 0.0)  # a NaN is left to the run, which reports it
    if bad.size:
        where = f", sample {bad[0]}" if mass.ndim else ""
        raise InputError(
            f"the masses add up to {np.ravel(mass)[bad[0]]:g} kg",
            place=f"overrides{where}",
            hint="expected more than zero",
        )


def with_parameters(robot: Robot, parameters: Mapping[str, Array]) -> Robot:
    """The robot that has these numbers as its own; damping of the base's freedoms, which no robot has, is left out."""
    n, values = robot.n, dict(parameters)
    if "inertia" in values:
        robot = robot.with_inertia_parameters(values["inertia"].reshape(-1, 10))
    rotors = iter(values.get("rotor", ()))
    coupling = values.get("coupling", np.zeros(0)).reshape(-1, 4)
    joints = []
    for i, joint in enumerate(robot.joints):
        spring, friction = joint.spring or Spring(0.0), joint.friction or Friction(0.0, 0.0)
        stiffness = values["stiffness"][i] if "stiffness" in values else spring.stiffness
        rest = values["rest"][i] if "rest" in values else spring.rest
        static, coulomb = (
            values[name][values[name].size - n + i] if name in values else own
            for name, own in (("static_friction", friction.static), ("coulomb_friction", friction.coulomb))
        )
        rotor = joint.rotor
        if rotor is not None and "rotor" in values:
            rotor = Rotor(float(next(rotors)), rotor.ratio)
        joints.append(
            replace(
                joint,
                spring=Spring(float(stiffness), float(rest)) if stiffness else None,
                friction=Friction(float(static), float(coulomb)) if static > 0.0 else None,
                damping=float(values["damping"][values["damping"].size - n + i])
                if "damping" in values
                else joint.damping,
                rotor=rotor,
            )
        )
    couplings = [
        replace(part, stiffness=row[0], damping=row[1], ratio=row[2], rest=row[3])
        for part, row in zip(robot.couplings, coupling.tolist(), strict=False)
    ]
    return robot.replace(joints=tuple(joints), couplings=tuple(couplings) if couplings else robot.couplings)


@dataclass(frozen=True, eq=False)
class Motion:
    """A robot's compiled right-hand side under a set of loads."""

    robot: Robot
    loads: tuple[LoadFrame, ...]
    ledger: bool
    kernel: Kernel
    code: Code

    @property
    def nx(self) -> int:
        return self.code.nx

    @property
    def energies(self) -> dict[str, slice]:
        """Places of the integrated energies in ``y``: drives, dampers, coupling dampers, dry friction, loads."""
        dofs, at, places = self.robot.dofs, self.code.nx, {}
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
        """The robot's own numbers, with some replaced."""
        return robot_parameters(self.robot, overrides)

    def input(self, parameters: Mapping[str, Array]) -> Array:
        """The kernel's flat input with these parameters; everything else zero."""
        inp = np.zeros(self.kernel.n_in)
        for name, place in self.kernel.inputs.items():
            if name in parameters:
                inp[place] = parameters[name]
        return inp


def motion(robot: Robot, loads: Sequence[LoadFrame] = (), ledger: bool = True) -> Motion:
    """The motion kernel of a robot, compiled or from the cache, with the offsets that the loops need."""
    return _motion(robot, tuple(loads), bool(ledger))


@lru_cache(maxsize=32)
def _motion(robot: Robot, loads: tuple[LoadFrame, ...], ledger: bool) -> Motion:
    kernel = Kernel(motion_program(robot, loads, ledger=ledger))
    code = _code(kernel, [Layout(robot.n)])
    return Motion(robot, loads, ledger, kernel, code)


def load_frames(world: World, phases: Iterable[Phase]) -> dict[str, tuple[LoadFrame, ...]]:
    """For each system every frame that a wrench acts on in any of the phases, or is expected to by the world, once."""
    found: dict[str, dict[LoadFrame, None]] = {name: {} for name in world.systems}
    places = [*world.loads, *(load.place for phase in phases for load in phase.loads)]
    for place in dict.fromkeys(places):
        system, own = world.frame(place.frame)
        found[system][LoadFrame(own, place.axes)] = None
    return {name: tuple(frames) for name, frames in found.items()}


@dataclass(frozen=True, eq=False)
class Part:
    """A system within a world's vectors. ``motion`` is that of its robot alone, in whose terms its rows are read."""

    name: str
    motion: Motion
    at: Layout
    dofs: slice  # among the degrees of freedom of all systems
    y: Any  # columns of the integrated vector (state, energies) that are its own
    inputs: Any  # of the recorded inputs
    outputs: Any  # of the kernel's outputs
    audit: Any  # of the audit rows

    def own_dofs(self, indices: Iterable[int]) -> list[int]:
        """Those of its own among degrees of freedom of the world, counted from its first."""
        return [index - self.dofs.start for index in indices if self.dofs.start <= index < self.dofs.stop]


@dataclass(frozen=True, eq=False)
class WorldMotion:
    """The compiled right-hand side of all systems of a world under a set of loads."""

    parts: tuple[Part, ...]
    kernel: Kernel
    code: Code
    ledger: bool
    dof_names: tuple[str, ...]

    @property
    def nx(self) -> int:
        return self.code.nx

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Place in the state of each degree of freedom's position; -1 for those of a base."""
        return tuple(at for part in self.parts for at in (*[-1] * 6, *range(part.at.joints.start, part.at.joints.stop)))

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

    def wrench(self, system: str, frame: str, axes: str) -> int:
        """Where the wrench on a frame begins in the kernel's input."""
        at = int(self.kernel.inputs["wrench"].start)
        for part in self.parts:
            if part.name == system:
                return at + 6 * part.motion.loads.index(LoadFrame(frame, axes))
            at += 6 * len(part.motion.loads)
        raise AssertionError(system)

    def carries(self, frames: Mapping[str, tuple[LoadFrame, ...]]) -> bool:
        """Whether it knows all these frames."""
        return all({*frames[part.name]} <= {*part.motion.loads} for part in self.parts)

    def input(self, parameters: Sequence[Mapping[str, Array]]) -> Array:
        """The kernel's flat input with these parameters of each system; everything else zero."""
        inp = np.zeros(self.kernel.n_in)
        for name, place in self.kernel.inputs.items():
            if name in parameters[0]:
                inp[place] = np.concatenate([own[name] for own in parameters])
        return inp


def _columns(sizes: Sequence[Mapping[str, int]]) -> list[npt.NDArray[np.int64]]:
    """Where each part's numbers stand in a vector that holds every named block of all parts, one behind the other."""
    found: list[list[npt.NDArray[np.int64]]] = [[] for _ in sizes]
    at = 0
    for name in sizes[0]:
        for own, block in zip(found, sizes, strict=True):
            own.append(np.arange(at, at + block[name]))
            at += block[name]
    return [np.concatenate(own) for own in found]


def world_motion(world: World, loads: Mapping[str, tuple[LoadFrame, ...]], ledger: bool = True) -> WorldMotion:
    """The motion kernel of a world, compiled or from the cache."""
    return _world_motion(tuple(world.systems.items()), tuple(loads[name] for name in world.systems), bool(ledger))


@lru_cache(maxsize=32)
def _world_motion(
    systems: tuple[tuple[str, Robot], ...], loads: tuple[tuple[LoadFrame, ...], ...], ledger: bool
) -> WorldMotion:
    models = [motion(robot, frames, ledger) for (_, robot), frames in zip(systems, loads, strict=True)]
    names = [name for name, _ in systems]
    if len(models) == 1:
        model = models[0]
        every = slice(None)
        part = Part(names[0], model, Layout(model.robot.n), slice(0, model.robot.dofs), every, every, every, every)
        return WorldMotion((part,), model.kernel, model.code, ledger, model.robot.dof_names)
    kernel = Kernel(beside([model.kernel.program for model in models]))

    def sizes(model: Motion, names: Iterable[str]) -> dict[str, int]:
        places = {**model.kernel.inputs, **model.kernel.outputs}
        return {name: places[name].stop - places[name].start for name in names}

    recorded = [name for name, place in kernel.inputs.items() if place.start < kernel.inputs["inertia"].start]
    integrated = [name for name in kernel.outputs if name != "reaction"]
    inputs = _columns([sizes(model, recorded) for model in models])
    outputs = _columns([sizes(model, kernel.outputs) for model in models])
    vectors = _columns([sizes(model, integrated) for model in models])
    audited = _columns([{"clock": 0, **sizes(model, [*recorded, "reaction", *integrated[1:]])} for model in models])
    clock = np.array([0, 1])
    parts, at, dof = [], 0, 0
    for k, (name, model) in enumerate(zip(names, models, strict=True)):
        layout = Layout(model.robot.n, at)
        audit = np.concatenate([clock, 2 + audited[k]])
        dofs = slice(dof, dof + model.robot.dofs)
        parts.append(Part(name, model, layout, dofs, vectors[k], inputs[k], outputs[k], audit))
        at, dof = layout.stop, dofs.stop
    code = _code(kernel, [part.at for part in parts])
    return WorldMotion(
        tuple(parts),
        kernel,
        code,
        ledger,
        tuple(f"{part.name}{SEPARATOR}{own}" for part in parts for own in part.motion.robot.dof_names),
    )


def _code(kernel: Kernel, layouts: Sequence[Layout]) -> Code:
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
