"""Propellant that thrusters use: liquid leaves a tank between two phases, and takes its momentum along.

Method: within a phase masses are constant, and the thrust is a load. Between phases the mass dm = impulse / (specific
impulse times standard gravity) leaves. It is taken from the tank as it moves there, flows through straight pipes that
are fixed to the tank, and leaves the nozzle with the velocity that the nozzle has; its speed against the nozzle is the
thrust. With p the momentum of what is missing in the tank, e that which the exhaust and the steady flow take
(:func:`~spacearm.simulate.changes.exhaust_impulse`) and J of the body that carries the tank,

    H' (v' - v) = J^T (p + e),        momenta and moments about the base,

with H' the mass matrix afterwards: the reaction of the pipes. For fuel at the mass centre that is Thomson's jet damping
(Introduction to space dynamics, 1961). Left out is what it takes to start and to stop the flow: while a thruster fires,
the velocity is off by the flow times the length of its pipes over the mass of all, and the position by what that adds
up to. Half of a phase's propellant leaves before it and half after it, so that the error of a burn falls with the
square of its pieces; where laws command thrusters, all of it leaves afterwards. SI units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from spacearm.checks import number, positive
from spacearm.errors import InputError
from spacearm.model import Robot, Thruster
from spacearm.model.rotations import rotation_matrices
from spacearm.model.tanks import drain_tank
from spacearm.simulate.changes import (
    SPACEARM_TERMS,
    Change,
    ChangeResult,
    Terms,
    base_impulse,
    exhaust_impulse,
    find_held,
    kinetic_energy,
    name_tuple,
    redistribute,
    replace_velocity,
)
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.motion import laws_of
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.chain import Item, Phases, RunContext, as_items
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Mass that leaves at once, as a share of the robot's: longer burns are divided.
SHARE = 1e-3
#: Pieces of a phase at most.
MOST_PIECES = 1000
#: Iterations for the velocity in the middle of a change; each gains the share that leaves, some three digits.
MIDPOINT = 4


@dataclass(frozen=True, eq=False)
class UsePropellant(Change):
    """Take propellant out of tanks, as their thrusters have used it.

    Args:
        used: thruster to mass, kg; it comes from the thruster's tank.
        held: degrees of freedom that keep their velocity through it: joints that brakes or stiff drives hold.
    """

    used: Mapping[str, float]
    held: Sequence[str] | str = ()

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        found, lost, exhaust = dict(states), 0.0, []
        impulses, external, point = dict[str, float](), np.zeros(6), np.zeros(3)
        after, texts = world, []
        for system, used in self._by_system(world).items():
            robot, state = world.own_robot(system), found[system]
            drained = _drain(robot, used)
            held = find_held(world, system, name_tuple(self.held))
            before, mass = terms.mass_matrix(robot, state), terms.mass_matrix(drained, state)
            loops, velocity = terms.loop_jacobian(drained, state), state.velocity
            # Nozzle and tank move in between: with the mean of before and after, errors fall with the square.
            for _ in range(MIDPOINT):
                middle = replace_velocity(state, 0.5 * (state.velocity + velocity))
                jets, push = _flow(robot, state, middle, used, terms)
                velocity, impulse = redistribute(mass, mass @ state.velocity + push, state.velocity, held, loops)
            lost += kinetic_energy(before, state.velocity) - kinetic_energy(mass, velocity)
            impulses |= {world.label(system, robot.dof_names[i]): float(impulse[i]) for i in held}
            outside = base_impulse(state, impulse)
            if not external.any():
                point = state.position
            external += [*outside[:3], *outside[3:] + np.cross(state.position - point, outside[:3])]
            found[system] = replace_velocity(state, velocity)
            after = _drain_robot(after, system, drained, used)
            exhaust.append(jets)
            texts += [f"{1e3 * mass:.4g} g of propellant used by {name}" for name, mass in used.items()]
        gone = np.concatenate([np.zeros((0, 13)), *exhaust])
        return ChangeResult(
            after, found, ", ".join(texts), lost, impulses, external=external, point=point, exhaust=gone
        )

    def _by_system(self, world: World) -> dict[str, dict[str, float]]:
        """The masses of each system's thrusters that have a tank."""
        found: dict[str, dict[str, float]] = {}
        for name, given in self.used.items():
            mass = number(given, f"mass used by {name!r}", least=0.0, place="use propellant")
            system, own = world.thruster(name)
            if not world.robot(system).thruster(own).tank:
                raise InputError(f"{name!r} has no tank", place="use propellant", hint="name one in its key 'tank'")
            if mass > 0.0:
                found.setdefault(system, {})[own] = mass
        return found


def _drain(robot: Robot, used: Mapping[str, float]) -> Robot:
    for name, mass in used.items():
        robot = drain_tank(robot, robot.thruster(name).tank, mass)
    return robot


def _flow(robot: Robot, state: State, middle: State, used: Mapping[str, float], terms: Terms) -> tuple[Array, Array]:
    """What leaves (K, 13) with the velocities in the middle of it, and the generalised impulse (6 + n) on the tanks'
    bodies."""
    rotation, mass = rotation_matrices(state.quaternion), terms.mass_matrix(robot, state)
    rows, push, rest = [], np.zeros(robot.dofs), robot
    for name, gone in used.items():
        part = robot.thruster(name)
        rest = drain_tank(rest, part.tank, gone)
        less = terms.mass_matrix(rest, state)
        # What the tank loses is a rigid point at its place: its mass matrix is the difference.
        missing = mass - less
        mass = less
        # Momentum about the base, world axes; first moments stand in the mass matrix as m [c x].
        momentum = (missing @ state.velocity)[:6].reshape(2, 3) @ rotation.T
        moments = missing[3:6, :3] / gone
        place = state.position + rotation @ np.array([moments[2, 1], moments[0, 2], moments[1, 0]])
        own = rotation @ (missing @ middle.velocity)[:3] / gone
        row = np.concatenate([[gone], *_nozzle(robot, middle, part, terms), place, own])
        wrench = momentum.ravel() + exhaust_impulse(row[None], state.position, np.zeros(3))
        body = robot.frame(part.tank).body
        origin, _ = terms.frame_pose(robot, state, body)
        # From the base's origin to the tank body's, through whose Jacobian it acts.
        wrench[3:] -= np.cross(origin - state.position, wrench[:3])
        push += terms.jacobian(robot, state, body).T @ wrench
        rows.append(row)
    return np.array(rows), push


def _nozzle(robot: Robot, state: State, part: Thruster, terms: Terms) -> tuple[Array, Array]:
    """Place and velocity of a thruster."""
    origin, rotation = terms.frame_pose(robot, state, part.body)
    twist, arm = terms.jacobian(robot, state, part.body) @ state.velocity, rotation @ part.position
    return origin + arm, twist[:3] + np.cross(twist[3:], arm)


def _drain_robot(world: World, system: str, drained: Robot, used: Mapping[str, float]) -> World:
    """The world with the drained robot; what was joined into it comes apart as drained too."""
    known = {id(world.systems[system]): drained}
    taken: dict[str, float] = {}
    for name, mass in used.items():
        tank = world.systems[system].thruster(name).tank
        taken[tank] = taken.get(tank, 0.0) + mass

    def follow(robot: Robot, prefix: str) -> Robot:
        # By identity, as attachments know their robots: the same one drains once.
        if id(robot) not in known:
            own, found = {tank.name for tank in robot.tanks}, robot
            for tank, mass in taken.items():
                if tank.startswith(prefix) and tank.removeprefix(prefix) in own:
                    found = drain_tank(found, tank.removeprefix(prefix), mass)
            known[id(robot)] = found
        return known[id(robot)]

    attachments = []
    for each in world.attachments:
        if each.host == system:
            host, guest = each.robots
            robots = follow(host, ""), follow(guest, each.prefix)
            attachments.append(replace(each, joined=follow(each.joined, ""), robots=robots))
        else:
            attachments.append(each)
    overrides = {name: values for name, values in world.overrides.items() if name != system}
    systems = {**world.systems, system: drained}
    return world.replace(systems=systems, overrides=overrides, attachments=tuple(attachments))


# -- schedules -------------------------------------------------------------------------------------------------------


def draws_propellant(world: World) -> bool:
    """Whether a thruster takes propellant out of a tank."""
    return any(part.tank and part.mass_flow for robot in world.systems.values() for part in robot.thrusters)


def find_fed_thrusters(world: World, phases: Iterable[Phase]) -> list[str]:
    """Thrusters that fire in some phase, as loads or by a law, and draw from a tank."""
    found: dict[str, None] = {}
    for phase in phases:
        found |= dict.fromkeys(_used_by_loads(phase, world))
        for system, law in laws_of(world, phase):
            fed = {part.name for part in world.robot(system).thrusters if part.tank and part.mass_flow}
            found |= dict.fromkeys(
                world.label(system, name) for name in law.commands_of(world.robot(system)) if name in fed
            )
    return [*found]


def with_propellant(phases: Phases) -> Phases:
    """The same phases and changes, in which thrusters draw from their tanks."""
    items = as_items(phases)
    return lambda context: use_propellant(items(context) if callable(items) else items, context)


def use_propellant(items: Iterable[Item], context: RunContext, share: float = SHARE) -> Iterator[Item]:
    """A schedule in which thrusters that have a tank draw from it; phases and changes as they come.

    ``simulate(robot, start, lambda context: use_propellant(phases, context))``. A phase whose thrusters fire as loads,
    and in which nothing else happens in time, is divided so that no more than ``share`` of the system's mass leaves at
    once.
    """
    positive(share, "share", below=1.0)
    for item in items:
        if not isinstance(item, Phase):
            yield item
            continue
        for piece in _divide(item, context.world, share):
            # What brakes and drives hold keeps its rate through the loss of mass: they take up what that needs.
            known, held = _used_by_loads(piece, context.world), (*piece.locked, *piece.driven, *piece.accelerations)
            if known:
                # Half before and half after: masses are then right in the middle, and errors of second order.
                yield UsePropellant({name: 0.5 * mass for name, mass in known.items()}, held)
            begin = context.time
            yield piece
            lasted = (context.time - begin) / piece.duration
            used = {name: (lasted - 0.5) * mass for name, mass in known.items()}
            # An event ended it: what was taken beforehand may have been too much.
            if lasted < 1.0 - 1e-12:
                used = _rest_of_early_end(piece, context, context.time - begin, known)
            for log in context.commands:
                for name, mass in _used_by_log(log, context.world).items():
                    used[name] = used.get(name, 0.0) + mass
            used = {name: mass for name, mass in used.items() if mass > 0.0}
            if used:
                yield UsePropellant(used, held)


def _divide(phase: Phase, world: World, share: float) -> list[Phase]:
    """Pieces of a phase between which propellant leaves; itself where that is little, or where more happens in it."""
    used = _used_by_loads(phase, world)
    plain = not (phase.until or phase.laws or phase.driven or phase.accelerations or phase.forces or phase.events)
    # Only a plain burn is divided: in a phase with laws, events or paths a cut would restart what happens in it.
    largest = max((mass / world.robot(world.thruster(name)[0]).mass for name, mass in used.items()), default=0.0)
    count = min(math.ceil(largest / share), MOST_PIECES)
    if count <= 1 or not plain or phase.event_function is not None or phase.sample is not None:
        return [phase]
    edges = np.linspace(0.0, phase.duration, count + 1).tolist()
    return [
        replace(
            phase, duration=end - begin, loads=tuple(load.clip_to_phase(begin, end) for load in phase.loads),
            name=phase.name if k == 0 else f"{phase.name} {k + 1}".strip(),
        )
        for k, (begin, end) in enumerate(pairwise(edges))
    ]  # fmt: skip


def _used_by_loads(phase: Phase, world: World) -> dict[str, float]:
    """Propellant of the thrusters that fire as loads, from their signals, by thruster."""
    return _used_until(phase, world, phase.duration)


def _used_until(phase: Phase, world: World, end: float) -> dict[str, float]:
    found: dict[str, float] = {}
    for load in phase.loads:
        if not load.source:
            continue
        system, own = world.thruster(load.source)
        part = world.robot(system).thruster(own)
        if not part.tank or not part.mass_flow:
            continue
        # The level from the largest component of the force: all have the same profile.
        axis = int(np.argmax(np.abs(part.direction)))
        entry = load.wrench[axis].window(end) if end > 0.0 else None
        level = 0.0 if entry is None else entry.integral / (part.force * part.direction[axis])
        label = world.label(system, own)
        found[label] = found.get(label, 0.0) + level * part.mass_flow
    return {name: mass for name, mass in found.items() if mass > 0.0}


def _rest_of_early_end(
    phase: Phase, context: RunContext, lasted: float, known: Mapping[str, float]
) -> dict[str, float]:
    """What is still to leave after a phase that an event ended; half of the whole has left before it."""
    whole = _used_until(phase, context.world, lasted)
    return {name: max(whole.get(name, 0.0) - 0.5 * mass, 0.0) for name, mass in known.items()}


def _used_by_log(log: CommandLog, world: World) -> dict[str, float]:
    """Propellant of the thrusters that a law commanded."""
    found = {}
    for name in log.names:
        label = log.label(name)
        thrusters = {t.name: t for robot in world.systems.values() for t in robot.thrusters}
        if name not in thrusters:
            continue
        system, own = world.thruster(label)
        part = world.robot(system).thruster(own)
        if part.tank and part.mass_flow:
            times, levels = log.command_steps(name)
            mass = part.mass_flow * float(np.diff(np.append(times, log.end)) @ levels)
            if mass > 0.0:
                found[label] = mass
    return found
