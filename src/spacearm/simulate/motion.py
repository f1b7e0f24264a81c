"""The motion kernel of a robot with the numbers that it needs, and a phase made ready for the loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.engine import Kernel
from spacearm.engine.events import ROUNDING
from spacearm.engine.friction import begin
from spacearm.engine.phase import Functions, Level, make_events
from spacearm.engine.signals import Signals, merge
from spacearm.engine.system import Code, System, Work, make_code, make_friction
from spacearm.errors import InputError, ModelError, did_you_mean
from spacearm.mechanics import LoadFrame, motion_program
from spacearm.mechanics.tree import rotor_inertias
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.weightless import check_weightless
from spacearm.simulate.checks import mapping, numbers
from spacearm.simulate.phase import DIRECTIONS, Phase
from spacearm.simulate.signals import Signal, as_signal
from spacearm.typing import Array

#: A rate (rad/s, m/s) or position below this counts as met where a joint is locked or starts on a path.
MEETS = 1e-9
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
    at = Layout(robot.n)
    code = make_code(
        kernel.address(1),
        at.size,
        kernel.outputs["reaction"].start,
        range(at.velocity.start, at.velocity.stop),
        [at.quaternion.start],
        drive=kernel.inputs["drive"].start,
        mode=kernel.inputs["mode"].start,
        friction=kernel.inputs["friction"].start,
        reaction=kernel.outputs["reaction"].start,
        record=kernel.inputs["inertia"].start,
    )
    return Motion(robot, loads, ledger, kernel, code)


def load_frames(phases: Sequence[Phase]) -> tuple[LoadFrame, ...]:
    """Every place that a wrench acts on in any of the phases, once."""
    return tuple(dict.fromkeys(load.place for phase in phases for load in phase.loads))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A phase in the loop's terms; the same for all samples of a batch."""

    phase: Phase
    place: str
    signals: Signals
    driven: tuple[int, ...]  # degrees of freedom whose motion is given
    locked: tuple[int, ...]
    paths: tuple[tuple[int, Signal], ...]  # joint index and path
    levels: tuple[Level, ...]
    labels: tuple[tuple[str, str, str], ...]  # kind, name, what ends: of each level and gauge output
    pushed: bool  # whether the base or a frame is acted on from outside


def prepare(model: Motion, phase: Phase, number: int) -> Prepared:
    """Check a phase against the robot and merge its signals."""
    robot, inputs, at = model.robot, model.kernel.inputs, Layout(model.robot.n)
    place = phase.numbered(number)

    def dof(name: str, what: str) -> int:
        if name not in robot.dof_names:
            raise InputError(
                f"{what}: there is no degree of freedom {name!r}",
                place=place,
                hint=did_you_mean(name, robot.dof_names),
            )
        return robot.dof_index(name)

    channels: list[tuple[int, Array, Array]] = []

    def channel(target: int, signal: Signal, what: str) -> None:
        if not signal.finite:
            raise InputError(f"{what} holds numbers that are not finite", place=place)
        channels.append((target, signal.breaks, signal.coefficients))

    locked = tuple(dof(name, "locked") for name in phase.locked)
    paths = []
    given = list(locked)
    for name, path in phase.driven.items():
        index = dof(name, "driven")
        if index < 6:
            raise InputError(
                f"the base cannot follow a path in {name!r}", place=place, hint="give its acceleration instead"
            )
        signal = as_signal(path, f"{place}, path of {name!r}")
        value_jump, rate_jump = signal.jumps(0.0, phase.duration)
        if value_jump > MEETS or rate_jump > MEETS:
            raise InputError(
                f"the path of {name!r} jumps by {value_jump:.3g} in position and {rate_jump:.3g} in rate",
                place=place,
                hint="expected a path with continuous rate, for example simulate.spline(times, values)",
            )
        rate = signal.derivative()
        channel(at.joint(index - 6), signal, f"path of {name!r}")
        channel(at.speed(index), rate, f"path of {name!r}")
        channel(inputs["drive"].start + index, rate.derivative(), f"path of {name!r}")
        paths.append((index - 6, signal))
        given.append(index)
    for name, value in phase.accelerations.items():
        index = dof(name, "accelerations")
        channel(inputs["drive"].start + index, as_signal(value, f"{place}, acceleration of {name!r}"), name)
        given.append(index)
    for index in given:
        if given.count(index) > 1:
            raise InputError(
                f"{robot.dof_names[index]!r} is driven in two ways", place=place, hint="locked, driven or accelerations"
            )
    for name, value in phase.forces.items():
        channel(inputs["force"].start + dof(name, "forces"), as_signal(value, f"{place}, force on {name!r}"), name)
    sums: dict[int, Signal] = {}
    for load in phase.loads:
        robot.frame(load.frame)
        first = inputs["wrench"].start + 6 * model.loads.index(load.place)
        for target, signal in enumerate(load.wrench, first):
            if np.any(signal.coefficients != 0.0):
                sums[target] = sums[target] + signal if target in sums else signal
    for target, signal in sums.items():
        channel(target, signal, "a load")

    try:
        components = [crossing.component(robot) for crossing in phase.watched]
    except InputError as error:
        error.place = f"{place}: {error.place}"
        raise
    levels = [
        Level(component, c.value, DIRECTIONS[c.direction], c.ends != "nothing")
        for component, c in zip(components, phase.watched, strict=True)
    ]
    labels = [("event", c.quantity, c.ends) for c in phase.watched]
    if phase.limits != "ignore":
        stops = phase.limits == "stop"
        for i, joint in enumerate(robot.joints):
            for bound, direction in ((joint.limits.lower, -1), (joint.limits.upper, 1)):
                if np.isfinite(bound):
                    levels.append(Level(at.joint(i), bound, direction, stops, -direction))
                    labels.append(("limit", joint.name, "run" if stops else "nothing"))
    if phase.event_function is not None:
        fits = (model.nx + 1, model.nx + 1 + model.kernel.n_out)
        if phase.event_function.kernel.n_in not in fits:
            raise InputError(
                f"the event function takes {phase.event_function.kernel.n_in} numbers",
                place=place,
                hint=f"expected the state and the time: {fits[0]}; or these and the motion's output: {fits[1]}",
            )
        labels += [
            ("function", name, ends)
            for name, ends in zip(phase.event_function.names, phase.event_function.ends, strict=True)
        ]
    return Prepared(
        phase,
        place,
        merge(channels, float(phase.duration)),
        tuple(given),
        locked,
        tuple(paths),
        tuple(levels),
        tuple(labels),
        bool(sums) or any(index < 6 for index in given) or any(name.startswith("base_") for name in phase.forces),
    )


def check_resisted(prepared: Iterable[Prepared], robot: Robot, overrides: Mapping[str, npt.ArrayLike] | None) -> None:
    """A :class:`ModelError` where a phase leaves a degree of freedom free that nothing resists.

    One with dry friction may rest for the whole phase; if it slips, the run itself ends. So does it with overrides that
    take the inertia away: only the robot's own numbers are judged beforehand.
    """
    if {"inertia", "rotor", "static_friction"} & {*(overrides or ())}:
        return
    for each in prepared:
        sticky = [joint.name for joint in robot.joints if each.phase.friction and joint.friction is not None]
        try:
            check_weightless(robot, [*(robot.dof_names[index] for index in each.driven), *sticky])
        except ModelError as error:
            error.place = f"{each.place}: {error.place}"
            raise


#: The side on which each watched function was when a phase ended; see :func:`last_sides`.
Sides: TypeAlias = Mapping[tuple[Any, ...], int]


def _watched_keys(prepared: Prepared) -> list[tuple[Any, ...]]:
    """What tells each level and gauge output of a phase from others, in other phases too."""
    keys: list[tuple[Any, ...]] = [(level.component, level.value) for level in prepared.levels]
    if prepared.phase.event_function is not None:
        keys += [
            ("function", id(prepared.phase.event_function.kernel), i)
            for i in range(len(prepared.phase.event_function.names))
        ]
    return keys


def last_sides(prepared: Prepared, system: System) -> Sides:
    """Where the watched functions of a phase are at its end."""
    signs = system.events.sign[system.friction.dof.size :]
    return dict(zip(_watched_keys(prepared), (int(sign) for sign in signs), strict=True))


def starting_sides(prepared: Prepared, y: Array, before: Sides | None) -> list[int]:
    """The side from which each watched function of a phase starts, 0 where its value decides.

    ``y`` is the state (13 + 2 n), ``before`` what :func:`last_sides` gave for the phase before; None for the first.

    What the phase before watched goes on from there, else a gauge may tell the side it comes from. A limit that is
    exceeded, though no phase has reported it, or though it now ends the run, counts as not yet crossed: it is found at
    once. On the bound itself a joint is inside, unless only rounding has put it beyond.
    """
    keys = _watched_keys(prepared)
    known = before if before is not None else {}
    gauge = prepared.phase.event_function
    own = [0] * len(prepared.levels) + list(gauge.before if gauge is not None else ())
    result = [known.get(key, side) for key, side in zip(keys, own, strict=True)]
    paths = dict(prepared.paths)
    at = Layout.of_size(y.size)
    for k, level in enumerate(prepared.levels):
        if not level.inside or (keys[k] in known and not level.terminal):
            continue
        joint = level.component - at.joints.start
        position, rate = y[level.component], y[at.rates][joint]
        if joint in paths:
            position, rate = paths[joint](0.0), paths[joint].derivative()(0.0)
        beyond = -level.inside * (position - level.value)
        slack = ROUNDING * (abs(position) + abs(level.value))
        if beyond > slack:
            result[k] = level.inside if before is not None else 0
        elif beyond >= -slack:
            rounded = beyond > 0.0 and not -level.inside * rate > 0.0
            result[k] = -level.inside if rounded else level.inside
        else:
            result[k] = 0
    return result


def check_limits(robot: Robot, joints: Array, phase: Phase) -> str:
    """Why a start at these positions lies outside limits that the phase watches; empty if it does not.

    Limits are watched for crossings, so a start beyond one would pass unseen. Where it should stop the run, that is
    an error.
    """
    if phase.limits == "ignore":
        return ""
    for joint, position in zip(robot.joints, joints, strict=True):
        if position < joint.limits.lower or position > joint.limits.upper:
            text = f"starts at {position:.6g}, outside its limits {joint.limits.lower:g} to {joint.limits.upper:g}"
            if phase.limits == "stop":
                raise InputError(text, place=f"joint {joint.name!r}", hint="start inside, or set limits='ignore'")
            return f"joint {joint.name!r} {text}"
    return ""


def enter(
    model: Motion,
    prepared: Prepared,
    work: Work,
    parameters: Mapping[str, Array],
    time: float,
    sides: Sequence[int] = (),
) -> System:
    """The system of a phase that begins now: modes set, the state on paths and locks (or an error that says why not).

    ``sides``: see :func:`starting_sides`.
    """
    robot, code, at = model.robot, model.code, Layout(model.robot.n)
    y, inp = work.y, work.inp
    velocities = y[at.velocity]
    inputs = model.kernel.inputs
    for name in ("force", "drive", "mode", "friction", "wrench"):
        inp[inputs[name]] = 0.0
    for index in prepared.driven:
        inp[code.mode + index] = 1.0
    for index in prepared.locked:
        rate = velocities[index]
        if not abs(rate) <= MEETS and np.isfinite(rate):
            raise InputError(
                f"{robot.dof_names[index]!r} is locked while it moves at {rate:.6g} per second",
                place=prepared.place,
                hint="stopping it takes an impulse: let it come to rest, or start it at rest",
            )
        velocities[index] = 0.0
    for joint, path in prepared.paths:
        position, rate = path(0.0), path.derivative()(0.0)
        here = y[at.joint(joint)]
        gap, jump = abs(here - position), abs(velocities[6 + joint] - rate)
        if gap > MEETS * (1.0 + abs(position)) or jump > MEETS * (1.0 + abs(rate)):
            raise InputError(
                f"joint {robot.joint_names[joint]!r} is at {here:.9g} with rate {velocities[6 + joint]:.6g}, "
                f"its path starts at {position:.9g} with rate {rate:.6g}",
                place=prepared.place,
                hint="a jump takes an impulse: let the path start where the joint is",
            )
    rubbing = [j for j in range(robot.dofs) if j not in prepared.driven] if prepared.phase.friction else []
    friction = make_friction(rubbing, parameters["static_friction"][rubbing], parameters["coulomb_friction"][rubbing])
    gauge = prepared.phase.event_function
    functions = None
    if gauge is not None:
        functions = Functions(
            gauge.kernel.address(1),
            gauge.kernel.n_in,
            [DIRECTIONS[d] for d in gauge.directions],
            [ends != "nothing" for ends in gauge.ends],
        )
    events = make_events(code, friction, prepared.levels, functions, time, sides)
    system = System(code, prepared.signals, friction, events, work)
    begin(system)
    return system


def path_values(prepared: Prepared, times: Array) -> list[tuple[int, Any, Any]]:
    """(joint, position, rate) of every path at these times since the phase's start."""
    return [(joint, path(times), path.derivative()(times)) for joint, path in prepared.paths]
