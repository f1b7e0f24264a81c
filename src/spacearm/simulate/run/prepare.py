"""Phases prepared for the solver: checked against the world, signals merged, events listed.

The solver knows numbered inputs, piecewise polynomials and sign changes, and no names. Here names become places: each
force, load, path or acceleration is a channel (input, breaks, coefficients); all channels are merged on one grid of
breaks so that the solver steps from break to break and never across one. A driven degree of freedom has mode 1; its
path's second derivative is its acceleration, and its position and rate are channels too, so that no drift builds up.

Events: levels of state components, joint limits, functions of the user, of force elements and of laws. Each has a sign;
:func:`initial_sides` decides the sign at the start of a phase, so that an event at the boundary of two phases is found
once: neither lost nor reported twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spacearm.engine.events import ROUNDING
from spacearm.engine.friction import begin
from spacearm.engine.loops import interpret
from spacearm.engine.phase import Functions, Level, make_events
from spacearm.engine.signals import Signals, merge
from spacearm.engine.system import SolverMemory, System, make_friction
from spacearm.errors import InputError, ModelError
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.massless import check_massless
from spacearm.simulate.motion import WorldMotion, laws_of
from spacearm.simulate.phase import DIRECTIONS, Phase
from spacearm.simulate.prepared_law import LawCarryOver, PreparedLaw, prepare_law
from spacearm.simulate.signals import Signal, as_signal
from spacearm.simulate.system_laws import combine_system_laws
from spacearm.simulate.world import World
from spacearm.typing import Array

#: A rate (rad/s, m/s) or position below this counts as equal when a joint is locked or starts on a path.
PATH_TOLERANCE = 1e-9


class RateBound(NamedTuple):
    """A level of a joint's rate at which its drive's command changes."""

    action: int
    level: Level
    name: str  # of the joint
    brake: float  # the command beyond it, at a level where braking ends; 0: a level where pushing ends


@dataclass(frozen=True, eq=False)
class PreparedPhase:
    """A phase in the loop's terms; the same for all samples of a batch. Degrees of freedom count over all systems."""

    phase: Phase
    number: int
    signals: Signals
    driven: tuple[int, ...]  # degrees of freedom whose motion is given
    locked: tuple[int, ...]
    paths: tuple[tuple[int, Signal], ...]  # degree of freedom and path
    levels: tuple[Level, ...]
    labels: tuple[tuple[str, str, str], ...]  # kind, name, what ends: of each level and event function
    pushed: bool  # whether there is an external action on a base or a frame
    law: PreparedLaw | None = None

    @property
    def place(self) -> str:
        return self.phase.place_in_run(self.number)

    @property
    def ends_early(self) -> bool:
        """Whether an event may end it."""
        return any(ends != "nothing" for _, _, ends in self.labels)


class _PhasePreparation:
    """Steps of :func:`prepare`, with their shared data."""

    def __init__(self, model: WorldMotion, world: World, phase: Phase, place: str) -> None:
        self.model, self.world, self.phase, self.place = model, world, phase, place
        self.inputs = model.kernel.inputs
        self.channels: list[tuple[int, Array, Array]] = []
        self.given: list[int] = []
        self.paths: list[tuple[int, Signal]] = []

    def dof(self, name: str, what: str) -> int:
        try:
            return self.model.index(*self.world.dof(name))
        except InputError as error:
            raise InputError(f"{what}: {error.message}", place=self.place, hint=error.hint) from None

    def channel(self, target: int, signal: Signal, what: str) -> None:
        if not signal.finite:
            raise InputError(f"{what} holds numbers that are not finite", place=self.place)
        self.channels.append((target, signal.breaks, signal.coefficients))

    def path(self, name: str, path: Any) -> None:
        index = self.dof(name, "driven")
        position, drive = self.model.positions[index], self.inputs["drive"].start + index
        if position < 0:
            raise InputError(
                f"the base cannot follow a path in {name!r}", place=self.place, hint="give its acceleration instead"
            )
        signal = as_signal(path, f"{self.place}, path of {name!r}")
        # A jump of a path or its rate would take an infinite force.
        value_jump, rate_jump = signal.jumps(0.0, self.phase.duration)
        if value_jump > PATH_TOLERANCE or rate_jump > PATH_TOLERANCE:
            raise InputError(
                f"the path of {name!r} jumps by {value_jump:.3g} in position and {rate_jump:.3g} in rate",
                place=self.place,
                hint="expected a path with continuous rate, for example simulate.spline(times, values)",
            )
        # Acceleration drives the dynamics; position and rate are overwritten from the path, so that no drift builds up.
        rate, what = signal.derivative(), f"path of {name!r}"
        self.channel(position, signal, what)
        self.channel(int(self.model.code.speed[index]), rate, what)
        self.channel(drive, rate.derivative(), what)
        self.paths.append((index, signal))
        self.given.append(index)

    def law(self) -> PreparedLaw | None:
        """The laws of the phase as one; the degrees of freedom that they accelerate are driven."""
        found, duration = [], float(self.phase.duration)
        for system, law in laws_of(self.world, self.phase):
            robot, layout = self.world.robot(system), self.world.layouts[system]
            loads = next(part.motion.loads for part in self.model.parts if part.name == system)
            target = partial(self._target, system)
            found.append((system, prepare_law(law, robot, layout, duration, self.place, target, loads)))
            self.given += [self.model.index(system, name) for name in law.acceleration_dofs(robot)]
        return combine_system_laws(found, self.place) if found else None

    def _target(self, system: str, kind: str, what: Any, entry: int) -> int:
        """Place in the motion kernel's input of an action of a system's law."""
        if kind == "wrench":
            return self.model.wrench(system, what.frame, what.axes, what.element) + entry
        return int(self.inputs[kind].start) + self.model.index(system, what)

    def motions(self) -> tuple[int, ...]:
        """Degrees of freedom that are locked, follow a path or are accelerated; returns the locked ones."""
        named = dict.fromkeys((*self.phase.locked, *self.world.locked))
        locked = tuple(dict.fromkeys(self.dof(name, "locked") for name in named))
        self.given += locked
        for name, path in self.phase.driven.items():
            self.path(name, path)
        for name, value in self.phase.accelerations.items():
            index = self.dof(name, "accelerations")
            signal = as_signal(value, f"{self.place}, acceleration of {name!r}")
            self.channel(self.inputs["drive"].start + index, signal, name)
            self.given.append(index)
        # All sources of prescribed motion (locks, paths, accelerations, laws) are in one list by now.
        for index in self.given:
            if self.given.count(index) > 1:
                raise InputError(
                    f"{self.model.dof_names[index]!r} is driven in two ways",
                    place=self.place,
                    hint="locked, driven or accelerations",
                )
        return locked

    def actions(self) -> bool:
        """Forces and loads; whether there is an external action."""
        outside = any(self.model.positions[index] < 0 for index in self.given)
        for name, value in self.phase.forces.items():
            index = self.dof(name, "forces")
            signal = as_signal(value, f"{self.place}, force on {name!r}")
            self.channel(self.inputs["force"].start + index, signal, name)
            outside = outside or self.model.positions[index] < 0
        # Loads on one frame are added symbolically: the solver has one channel for each entry.
        sums: dict[int, Signal] = {}
        for load in self.phase.loads:
            first = self.model.wrench(*self.world.frame(load.frame), load.axes)
            for target, signal in enumerate(load.wrench, first):
                if np.any(signal.coefficients != 0.0):
                    sums[target] = sums[target] + signal if target in sums else signal
        for target, signal in sums.items():
            self.channel(target, signal, "a load")
        return outside or bool(sums)

    def bounds(self, law: PreparedLaw) -> list[RateBound]:
        """Rate limits of a sampled law's commands."""
        found, joints = [], dict(self.model.joints)
        for part in law.laws_by_system:
            numbers = part.places("action") if part.law.limited and part.law.period is not None else ()
            # Rate limits cut a drive off between ticks: the solver must find the instant, hence a level and not a clip.
            targets = part.target.tolist()
            for number, target, (kind, name, _) in zip(numbers, targets, part.program.actions, strict=False):
                if kind == "wrench" or name in BASE_DOFS:
                    continue
                index = target - self.inputs[kind].start
                limits = joints[index].limits
                most = limits.velocity
                if math.isfinite(most):
                    at, label = int(self.model.code.speed[index]), self.model.dof_names[index]
                    # An acceleration that is commanded is exact, and how hard an unlimited drive brakes is unknown.
                    brakes = kind == "force" and 0.0 < limits.effort < math.inf
                    for sign in (-1, 1):
                        # Before the cut: of levels at one value, the next phase goes on with the last one's side.
                        if brakes:
                            back = Level(at, sign * most, -sign, False)
                            found.append(RateBound(int(number), back, label, -sign * limits.effort))
                        found.append(RateBound(int(number), Level(at, sign * most, sign, False), label, 0.0))
        return found

    def events(self, law: PreparedLaw | None) -> tuple[list[Level], list[tuple[str, str, str]], list[RateBound]]:
        """Monitored levels, labels of these and of the event functions, and the rate limits that levels represent."""
        phase, model = self.phase, self.model
        levels: list[Level] = []
        labels: list[tuple[str, str, str]] = []
        for event in phase.all_events:
            try:
                component = self.world.quantity(event.quantity)
            except InputError as error:
                raise InputError(error.message, place=f"{self.place}: {event.place}", hint=error.hint) from None
            levels.append(Level(component, event.value, DIRECTIONS[event.direction], event.ends != "nothing"))
            labels.append(("event", event.quantity, event.ends))
        if phase.limits != "ignore":
            stops = phase.limits == "stop"
            for index, joint in model.joints:
                for bound, direction in ((joint.limits.lower, -1), (joint.limits.upper, 1)):
                    if math.isfinite(bound):
                        # The last number is the side on which the joint is inside its limits.
                        levels.append(Level(model.positions[index], bound, direction, stops, -direction))
                        labels.append(("limit", model.dof_names[index], "run" if stops else "nothing"))
        bounds = [] if law is None else self.bounds(law)
        levels += [bound.level for bound in bounds]
        labels += [("rate limit", bound.name, "nothing") for bound in bounds]
        function = phase.event_function
        if function is not None:
            # Event functions may use accelerations and reactions as well, which cost an evaluation of the motion.
            fits = (model.code.nx + 1, model.code.nx + 1 + model.kernel.n_out)
            if function.kernel.n_in not in fits:
                raise InputError(
                    f"the event function takes {function.kernel.n_in} numbers",
                    place=self.place,
                    hint=f"expected the state and the time: {fits[0]}; or these and the motion's output: {fits[1]}",
                )
            labels += [("function", name, ends) for name, ends in zip(function.names, function.ends, strict=True)]
        if model.elements is not None:
            labels += [(kind, name, "nothing") for kind, name in model.elements.labels]
        return levels, labels, bounds


def prepare(model: WorldMotion, world: World, phase: Phase, number: int) -> PreparedPhase:
    """Check a phase against the world and merge its signals."""
    work = _PhasePreparation(model, world, phase, phase.place_in_run(number))
    # First: degrees of freedom that laws accelerate must be known before locks and paths are checked against them.
    law = work.law()
    locked = work.motions()
    pushed = work.actions()
    levels, labels, bounds = work.events(law)
    # References of the law are merged on the same grid and split off again: their breaks stop the solver too.
    signals, own = work.channels, len(work.channels)
    if law is not None:
        pushed = pushed or law.acts_from_outside
        labels += law.labels
        signals = signals + law.channels
    merged = merge(signals, float(phase.duration))
    if law is not None:
        # For every level, of which these are the last.
        others = len(levels) - len(bounds) if bounds else 0
        law = replace(
            law,
            reference=_columns(merged, slice(own, None)),
            bounds=np.array([-1] * others + [bound.action for bound in bounds], dtype=np.int64),
            brakes=np.array([0.0] * others + [bound.brake for bound in bounds], dtype=float),
        )
    return PreparedPhase(
        phase,
        number,
        _columns(merged, slice(0, own)),
        tuple(work.given),
        locked,
        tuple(work.paths),
        tuple(levels),
        tuple(labels),
        pushed,
        law,
    )


def prepare_loop(model: WorldMotion, world: World, phase: Phase) -> tuple[PreparedLaw, tuple[int, ...]]:
    """The laws of a phase as one, with their references alone, and the degrees of freedom whose motion is given."""
    work = _PhasePreparation(model, world, phase, phase.place)
    law = work.law()
    assert law is not None
    work.motions()
    return replace(law, reference=merge(law.channels, float(phase.duration))), tuple(work.given)


def _columns(signals: Signals, chosen: slice) -> Signals:
    """Some of the channels, on the same grid."""
    return Signals(
        signals.breaks, np.ascontiguousarray(signals.coefficient[:, :, chosen]), signals.target[chosen].copy()
    )


def check_free_inertia(prepared: PreparedPhase, model: WorldMotion, world: World) -> None:
    """Raise a :class:`ModelError` if a phase leaves a degree of freedom free that has no inertia.

    One with dry friction may rest for the whole phase; if it slips, the run itself ends. The same holds for overrides
    that remove the inertia: only the robots' own parameters are checked beforehand.
    """
    for part in model.parts:
        robot = part.motion.robot
        # Overrides may give inertia or friction to a joint that has none in its file.
        if {"inertia", "rotor", "static_friction"} & {*world.overrides.get(part.name, ())}:
            continue
        sticky = [joint.name for joint in robot.joints if prepared.phase.friction and joint.friction is not None]
        driven = [robot.dof_names[i] for i in part.own_dofs(prepared.driven)]
        try:
            check_massless(robot, [*driven, *sticky])
        except ModelError as error:
            error.place = f"{prepared.place}: {error.place}"
            raise


#: The side of each monitored function when a phase ended; see :func:`last_sides`.
Sides: TypeAlias = Mapping[tuple[Any, ...], int]


def _event_keys(prepared: PreparedPhase) -> list[tuple[Any, ...]]:
    """Keys that identify each level and event function of a phase, across phases too."""
    keys: list[tuple[Any, ...]] = [(level.component, level.value) for level in prepared.levels]
    function = prepared.phase.event_function
    if function is not None:
        # Identity of the kernel: the same function in the next phase continues its signs.
        keys += [("function", id(function.kernel), i) for i in range(len(function.names))]
    keys += [(kind, name) for kind, name, _ in prepared.labels[len(keys) :]]
    return keys


def last_sides(prepared: PreparedPhase, system: System) -> Sides:
    """Sides of the monitored functions of a phase at its end."""
    signs = system.events.sign[system.friction.dof.size :]
    return dict(zip(_event_keys(prepared), (int(sign) for sign in signs), strict=True))


def initial_sides(model: WorldMotion, prepared: PreparedPhase, y: Array, before: Sides | None) -> list[int]:
    """Starting side of each monitored function of a phase, 0 if its value decides.

    ``y`` is the flat state, ``before`` what :func:`last_sides` gave for the phase before; None for the first.

    Functions that the preceding phase monitored continue from there; otherwise an event function may state its side. A
    limit that is exceeded, but that no phase has reported or that now ends the run, counts as not yet crossed: it is
    found at once. On the bound itself a joint is inside, unless only rounding has put it beyond.
    """
    keys = _event_keys(prepared)
    known = before if before is not None else {}
    function = prepared.phase.event_function
    own = [0] * len(prepared.levels) + list(function.before if function is not None else ())
    own += [-direction for direction in model.elements.directions] if model.elements is not None else []
    own += [0] * (len(keys) - len(own))  # of a law: where their values are
    result = [known.get(key, side) for key, side in zip(keys, own, strict=True)]
    paths = dict(prepared.paths)
    for k, level in enumerate(prepared.levels):
        if not level.inside or (keys[k] in known and not level.terminal):
            continue
        index = model.positions.index(level.component)
        position, rate = y[level.component], y[model.code.speed[index]]
        if index in paths:
            position, rate = paths[index](0.0), paths[index].derivative()(0.0)
        beyond = -level.inside * (position - level.value)
        slack = ROUNDING * (abs(position) + abs(level.value))
        # At the start of a run the value decides (check_limits reports it); later the joint counts as inside, so that
        # the crossing is found at once.
        if beyond > slack:
            result[k] = level.inside if before is not None else 0
        elif beyond >= -slack:
            rounded = beyond > 0.0 and not -level.inside * rate > 0.0
            result[k] = -level.inside if rounded else level.inside
        else:
            result[k] = 0
    return result


def check_limits(robot: Robot, joints: Array, phase: Phase) -> str:
    """Why a start at these positions is outside limits that the phase monitors; empty if it is not.

    Limits are monitored for crossings, so a start beyond one would go unnoticed. If it should stop the run, that is an
    error.
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
    model: WorldMotion,
    prepared: PreparedPhase,
    work: SolverMemory,
    parameters: Sequence[Mapping[str, Array]],
    time: float,
    sides: Sequence[int] = (),
    carried: LawCarryOver | None = None,
    sample: int = 0,
) -> System:
    """The solver system of a phase that begins now: modes set, the state on paths and locks, or an error that states
    why not.

    ``sides``: see :func:`initial_sides`; ``carried``: state of the law from earlier phases; ``sample``: the index of
    the run among many.
    """
    code, names = model.code, model.dof_names
    y, inp = work.y, work.inp
    inputs = model.kernel.inputs
    # Inputs without a channel in this phase keep what was written last: clear them.
    for name in ("force", "drive", "mode", "friction", "wrench"):
        inp[inputs[name]] = 0.0
    for index in prepared.driven:
        inp[code.mode + index] = 1.0
    for index in prepared.locked:
        rate = y[code.speed[index]]
        if not abs(rate) <= PATH_TOLERANCE and np.isfinite(rate):
            raise InputError(
                f"{names[index]!r} is locked while it moves at {rate:.6g} per second",
                place=prepared.place,
                hint="stopping it takes an impulse: let it come to rest, start it at rest, or stop it with Lock",
            )
        # Exactly zero: a speed due to rounding would move a locked joint for the whole phase.
        y[code.speed[index]] = 0.0
    for index, path in prepared.paths:
        position, rate = path(0.0), path.derivative()(0.0)
        value, speed = y[model.positions[index]], y[code.speed[index]]
        gap, jump = abs(value - position), abs(speed - rate)
        if gap > PATH_TOLERANCE * (1.0 + abs(position)) or jump > PATH_TOLERANCE * (1.0 + abs(rate)):
            raise InputError(
                f"joint {names[index]!r} is at {value:.9g} with rate {speed:.6g}, "
                f"its path starts at {position:.9g} with rate {rate:.6g}",
                place=prepared.place,
                hint="a jump takes an impulse: let the path start at the joint's position and rate",
            )
    # A driven joint follows its path whatever its friction: only free ones can stick or slip.
    frictional = [j for j in range(len(names)) if j not in prepared.driven] if prepared.phase.friction else []
    static, coulomb = (
        np.concatenate([own[name] for own in parameters])[frictional]
        for name in ("static_friction", "coulomb_friction")
    )
    friction = make_friction(frictional, static, coulomb)
    function = prepared.phase.event_function
    functions = None
    if function is not None:
        functions = Functions(
            function.kernel.address(1),
            function.kernel.n_in,
            [DIRECTIONS[d] for d in function.directions],
            [ends != "nothing" for ends in function.ends],
        )
    watched = () if model.elements is None else model.elements.directions
    law = prepared.law
    asked = [] if law is None else law.event_outputs
    events = make_events(code, friction, prepared.levels, functions, time, sides, watched, asked)
    system = System(code, prepared.signals, friction, events, work, model.feedback())
    if law is not None:
        system = system._replace(law=law.enter(carried, time, sample, code.moved))
        y[code.moved : code.moved + law.memory_size] = system.law.start[: law.memory_size]
    # Decides which joints stick at the start, from forces at this very state.
    interpret(begin)(system)
    return system
