"""Changes between two phases: each maps a world and its state to the next world and the state in it.

An impulse is momentum that constraints exchange in no time. What is free keeps its generalised momentum; springs,
dampers and friction are finite forces and have no part in it. Kinetic energy that is lost becomes heat in whatever
stopped the motion. Numbers come from *terms* (mass matrix, poses, Jacobians), by default spacearm's own; the
cross-check applies the same changes with MuJoCo's.

Method: with H the mass matrix, v and v+ the velocities before and after, H (v+ - v) = impulse. Free degrees of freedom
get no impulse, held ones get a velocity: :func:`redistribute` solves the free rows for v+ and reads the impulse from
the others. Closed loops add J v+ = 0 with impulses J^T f of their own. Positions never change. Generalised velocity
(6 + n): base axes, then joint rates; SI units. Restitution is not modelled here: that is a contact's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import numpy as np

from spacearm.checks import number
from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.model import Robot, edit
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.simulate.bodies import cross
from spacearm.simulate.checks import check_mapping
from spacearm.simulate.loops import loop_terms
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import evaluate_system_loops, system_loops
from spacearm.simulate.world import SEPARATOR, World
from spacearm.typing import Array


class Terms(Protocol):
    """Terms of a robot's mechanics that a change needs."""

    def mass_matrix(self, robot: Robot, state: State) -> Array:
        """Generalised inertia (6 + n, 6 + n)."""

    def frame_pose(self, robot: Robot, state: State, frame: str) -> tuple[Array, Array]:
        """Origin and rotation matrix in the world."""

    def jacobian(self, robot: Robot, state: State, frame: str) -> Array:
        """Matrix (6, 6 + n) from generalised velocity to the frame's twist, world axes."""

    def loop_jacobian(self, robot: Robot, state: State) -> Array:
        """Matrix (m, 6 + n) from generalised velocity to the rates that closed loops keep at zero."""


class SpacearmTerms:
    """Terms computed by spacearm's own mechanics."""

    def mass_matrix(self, robot: Robot, state: State) -> Array:
        return mechanics_of(robot).mass_matrix(state.joints)

    def frame_pose(self, robot: Robot, state: State, frame: str) -> tuple[Array, Array]:
        return mechanics_of(robot).frame_pose(frame, state.joints, base=state.pose)

    def jacobian(self, robot: Robot, state: State, frame: str) -> Array:
        return mechanics_of(robot).jacobian(frame, state.joints, base=state.pose)

    def loop_jacobian(self, robot: Robot, state: State) -> Array:
        if not robot.loops:
            return np.zeros((0, robot.dofs))
        return np.pad(loop_terms(robot, state.joints).jacobian, ((0, 0), (6, 0)))


SPACEARM_TERMS = SpacearmTerms()


@dataclass(frozen=True, eq=False)
class ChangeResult:
    """Result of a change: the next world, the states in it, impulses and lost energy.

    Args:
        text: what happened, in words.
        lost: kinetic energy that is gone, J, by the change's own terms.
        impulse: on every degree of freedom that was stopped or held, by its name before, N s or N m s.
        wrench: impulse on the frame at which systems were joined (force, moment), world axes, N s and N m s.
        external: sum of the impulses on the bases' own degrees of freedom (force, moment about ``point``), world axes.
        exhaust: (K, 13) what leaves the world: mass (kg), place (m) and velocity (m/s) of the nozzle that it leaves,
            then of where it was taken from, world axes.
    """

    world: World
    states: Mapping[str, State]
    text: str
    lost: float = 0.0
    impulse: Mapping[str, float] = field(default_factory=dict)
    wrench: Array = field(default_factory=lambda: np.zeros(6))
    external: Array = field(default_factory=lambda: np.zeros(6))
    point: Array = field(default_factory=lambda: np.zeros(3))
    exhaust: Array = field(default_factory=lambda: np.zeros((0, 13)))


class Change(ABC):
    """A map of world and state that ends one phase and begins the next."""

    @property
    def held_names(self) -> tuple[str, ...]:
        """Degrees of freedom that keep their velocity through it."""
        return name_tuple(getattr(self, "held", ()))

    @abstractmethod
    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        """The next world and the state in it."""


def redistribute(
    mass: Array, momentum: Array, velocity: Array, held: Sequence[int], loops: Array | None = None
) -> tuple[Array, Array]:
    """Velocity and impulse after a jump: all but ``held`` have this momentum, but for impulses of closed loops.

    Those that are held have the velocities given for them; the impulse that this takes is zero for all others.

    Args:
        loops: (m, 6 + n) Jacobian of closed loops; rows may depend on each other.
    """
    return redistribute_with_loops(mass, momentum, velocity, held, loops)[:2]


def redistribute_with_loops(
    mass: Array, momentum: Array, velocity: Array, held: Sequence[int], loops: Array | None = None
) -> tuple[Array, Array, Array]:
    """:func:`redistribute`, and the impulses (m) of the loops' rows."""
    # H_ff v_f + H_fs v_s = p_f: the free rows of the momentum, with the held velocities known.
    is_free = np.ones(velocity.size, dtype=bool)
    is_free[list(held)] = False
    # Sorted and each once, whatever the names were given in.
    free, stuck = np.flatnonzero(is_free), np.flatnonzero(~is_free)
    after, impulse = velocity.copy(), np.zeros(velocity.size)
    known, inertia = momentum[free] - mass[np.ix_(free, stuck)] @ velocity[stuck], mass[np.ix_(free, free)]
    after[free] = np.linalg.solve(inertia, known)
    rows = np.zeros((0, velocity.size)) if loops is None else loops
    if not len(rows):
        impulse[stuck] = (mass @ after - momentum)[stuck]
        return after, impulse, np.zeros(0)
    # H_ff dv = J_f^T f with J (v + dv) = 0. Redundant rows share their impulses: the smallest ones are as good as any.
    give = np.linalg.solve(inertia, rows[:, free].T)
    pull, _, rank, _ = np.linalg.lstsq(rows[:, free] @ give, -(rows @ after), rcond=1e-12)
    after[free] += give @ pull
    left = float(np.abs(rows @ after).max(initial=0.0))
    if rank < len(rows) and left > 1e-9 * (1.0 + float(np.abs(after).max())):
        raise InputError(
            f"closed loops cannot move like this: {left:.3g} m/s or rad/s are left in them",
            hint="hold or stop fewer degrees of freedom, or to rates that the loops allow",
        )
    # What the held rows gained beyond the loops' impulses came from what holds them.
    impulse[stuck] = (mass @ after - momentum - rows.T @ pull)[stuck]
    return after, impulse, np.asarray(pull)


def exhaust_impulse(exhaust: Array, point: Array, velocity: Array) -> Array:
    """Impulse (6) on what remains, about a point that moves with this velocity, by what leaves: see ``ChangeResult``.

    With a and b the places of tank and nozzle and u their velocities, a mass m takes m u_b along. While it flows from a
    to b its momentum m (b - a) / time rotates with the pipe: m (u_b - u_a), with the moment m (a x u_b - b x u_a).
    """
    if not len(exhaust):
        return np.zeros(6)
    # Places and velocities relative to the point: momentum and moment are then those that remain when both move along.
    mass, parts = exhaust[:, :1], exhaust[:, 1:].reshape(-1, 4, 3)
    b, a = parts[:, 0] - point, parts[:, 2] - point
    ub, ua = parts[:, 1] - velocity, parts[:, 3] - velocity
    force = -mass * (2.0 * ub - ua)
    moment = mass * (np.cross(b, ua) - np.cross(a, ub) - np.cross(b, ub))
    return np.concatenate([force.sum(axis=0), moment.sum(axis=0)])


def block_diagonal(blocks: Sequence[Array]) -> Array:
    """Matrices along the diagonal; some may have no rows."""
    whole = np.zeros((sum(len(each) for each in blocks), sum(each.shape[1] for each in blocks)))
    row = column = 0
    for each in blocks:
        whole[row : row + len(each), column : column + each.shape[1]] = each
        row, column = row + len(each), column + each.shape[1]
    return whole


def kinetic_energy(mass: Array, velocity: Array) -> float:
    return float(0.5 * velocity @ mass @ velocity)


def replace_velocity(state: State, velocity: Array) -> State:
    return State(state.position, state.quaternion, state.joints, velocity)


def base_impulse(state: State, impulse: Array) -> Array:
    """The impulse (6) on a base's own degrees of freedom in world axes, at the base."""
    return np.asarray((rotation_matrices(state.quaternion) @ impulse[:6].reshape(2, 3, 1)).ravel())


def split_state(robot: Robot, whole: State, parts: Mapping[str, tuple[Robot, str]], terms: Terms) -> dict[str, State]:
    """The state in which each part of a robot goes on, as the whole has it.

    Args:
        parts: name to (robot, prefix that the names of its bodies and joints have in the whole).
    """
    found = {}
    for name, (part, prefix) in parts.items():
        base = prefix + part.bodies[0].name
        position, quaternion, velocity = whole.position, whole.quaternion, whole.velocity[:6]
        if base != robot.bodies[0].name:
            position, rotation = terms.frame_pose(robot, whole, base)
            # The part's base was a body within the chain: its pose and twist come from the whole, in its own axes.
            twist = terms.jacobian(robot, whole, base) @ whole.velocity
            velocity = np.concatenate([rotation.T @ twist[:3], rotation.T @ twist[3:]])
            quaternion = quaternion_from_rotation(rotation)
        # By name: the part has its joints in an order of its own.
        index = [robot.joint_index(prefix + own) for own in part.joint_names]
        found[name] = State(position, quaternion, whole.joints[index], np.concatenate([velocity, whole.rates[index]]))
    return found


def hold_system_loops(
    changed: ChangeResult, held: Sequence[str] = (), terms: Terms = SPACEARM_TERMS, struck: str = ""
) -> ChangeResult:
    """A change's result with the loops between systems kept closed, by impulses of the loops.

    Args:
        held: degrees of freedom that keep their velocity, besides those that got impulses in the change.
        struck: loop whose impulse on its first frame is the result's ``wrench``.
    """
    loops = system_loops(changed.world)
    if not loops:
        return changed
    world, states = changed.world, changed.states
    found = evaluate_system_loops(world, world.flat(states))
    robots = {name: world.own_robot(name) for name in world.systems}
    masses = [terms.mass_matrix(robot, states[name]) for name, robot in robots.items()]
    own = [terms.loop_jacobian(robot, states[name]) for name, robot in robots.items()]
    # All systems as one: a loop's impulse acts on both of its ends at once.
    mass, velocity = block_diagonal(masses), np.concatenate([states[name].velocity for name in robots])
    starts = dict(zip(robots, np.cumsum([0, *(robot.dofs for robot in robots.values())]).tolist(), strict=False))
    # What a change stopped stays stopped; other names may be those of parts that it gave to another system.
    chosen = []
    for name in (*held, *changed.impulse):
        with suppress(InputError):
            chosen.append(world.label(*world.dof(name)))
    stuck = [starts[name] + i for name in robots for i in find_held(world, name, chosen)]
    rows = np.concatenate([found["jacobian"], block_diagonal(own)])
    after, impulse, pull = redistribute_with_loops(mass, mass @ velocity, velocity, stuck, rows)
    new, impulses, external = dict(states), dict(changed.impulse), changed.external.copy()
    for name, robot in robots.items():
        place = slice(starts[name], starts[name] + robot.dofs)
        new[name] = replace_velocity(states[name], after[place])
        for i in (k - starts[name] for k in stuck if place.start <= k < place.stop):
            label = world.label(name, robot.dof_names[i])
            impulses[label] = impulses.get(label, 0.0) + float(impulse[place][i])
        outside = base_impulse(states[name], impulse[place])
        external += [*outside[:3], *outside[3:] + cross(states[name].position - changed.point, outside[:3])]
    wrench, at = changed.wrench, 0
    for loop in loops:
        # Rows of all loops one behind the other: as many as each takes away freedoms.
        size = {"weld": 6, "axis": 5, "point": 3, "distance": 1}[loop.kind]
        if loop.name == struck:
            wrench = found["first_map"][at : at + size].T @ pull[at : at + size]
        at += size
    lost = changed.lost + kinetic_energy(mass, velocity) - kinetic_energy(mass, after)
    return replace(changed, states=new, lost=lost, impulse=impulses, external=external, wrench=wrench)


def find_held(world: World, system: str, names: Sequence[str]) -> list[int]:
    """Degrees of freedom of a system that the world locks or that are named."""
    robot, chosen = world.robot(system), [*world.locked, *names]
    return sorted({robot.dof_index(own) for owner, own in map(world.dof, chosen) if owner == system})


def describe_ended_elements(before: World, after: World) -> str:
    """The force elements that a change has ended, as text."""
    gone = [element.name for element in before.elements if element not in after.elements]
    return f"; {', '.join(gone)} ended" if gone else ""


def name_tuple(given: Sequence[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _impose_rates(
    world: World, states: Mapping[str, State], rates: Mapping[str, float], held: Sequence[str], terms: Terms
) -> ChangeResult:
    """Give degrees of freedom these velocities at once, by impulses on them and on those that are held."""
    # By owner and own name: spellings with and without the system are the same.
    chosen = {world.dof(name): rate for name, rate in rates.items()}
    new, lost, impulses = dict(states), 0.0, dict[str, float]()
    external, point = np.zeros(6), np.zeros(3)
    for system in dict.fromkeys(owner for owner, _ in chosen):
        robot, state = world.own_robot(system), states[system]
        wanted = state.velocity.copy()
        for (owner, own), rate in chosen.items():
            if owner == system:
                wanted[robot.dof_index(own)] = rate
        # Nothing to do: avoids an impulse of rounding on a system that is at the wanted rates already.
        if np.array_equal(wanted, state.velocity):
            continue
        stuck = find_held(world, system, (*rates, *held))
        mass = terms.mass_matrix(robot, state)
        loops = terms.loop_jacobian(robot, state)
        velocity, impulse = redistribute(mass, mass @ state.velocity, wanted, stuck, loops)
        lost += kinetic_energy(mass, state.velocity) - kinetic_energy(mass, velocity)
        impulses |= {world.label(system, robot.dof_names[i]): float(impulse[i]) for i in stuck}
        outside = base_impulse(state, impulse)
        if not external.any():
            point = state.position
        # Moments of several systems are added about one point, the first base that was pushed.
        external += [*outside[:3], *outside[3:] + cross(state.position - point, outside[:3])]
        new[system] = replace_velocity(state, velocity)
    return ChangeResult(world, new, "", lost, impulses, external=external, point=point)


@dataclass(frozen=True, eq=False)
class Lock(Change):
    """Stop degrees of freedom of one or several systems at once, and keep them locked; what is free takes it up.

    Args:
        dofs: names of degrees of freedom.
        held: others that keep their velocity through it: joints that stiff drives move.
    """

    dofs: Sequence[str] | str
    held: Sequence[str] | str = ()

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        names = name_tuple(self.dofs)
        stopped = _impose_rates(world, states, dict.fromkeys(names, 0.0), name_tuple(self.held), terms)
        # Stopped first, locked then: the impulse of stopping is part of the change, not of the next phase.
        after = world.replace(locked=(*world.locked, *names))
        return replace(stopped, world=after, text=f"{', '.join(names)} locked")


@dataclass(frozen=True, eq=False)
class SetRates(Change):
    """Give degrees of freedom other velocities at once, by impulses of their drives; what is free takes it up.

    A base is pushed from outside. The energy that this takes is booked as lost, less than zero.

    Args:
        rates: degree of freedom to its velocity from now on, m/s or rad/s (base: base axes).
        held: others that keep their velocity through it: joints that stiff drives move.
    """

    rates: Mapping[str, float]
    held: Sequence[str] | str = ()

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        check_mapping(self.rates, "set rates", "degree of freedom to velocity")
        rates = {name: number(rate, f"rate of {name!r}", place="set rates") for name, rate in self.rates.items()}
        for name, rate in rates.items():
            if world.label(*world.dof(name)) in world.locked and rate != 0.0:
                raise InputError(f"{name!r} is locked", place="set rates", hint="release it first, or leave it out")
        found = _impose_rates(world, states, rates, name_tuple(self.held), terms)
        return replace(found, text=", ".join(f"{name} set to {rate:g} per second" for name, rate in rates.items()))


@dataclass(frozen=True, eq=False)
class Release(Change):
    """Let locked degrees of freedom move again."""

    dofs: Sequence[str] | str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        del terms
        chosen = [world.label(*world.dof(name)) for name in name_tuple(self.dofs)]
        for name in chosen:
            if name not in world.locked:
                raise InputError(f"{name!r} is not locked", place="release", hint=f"locked: {list(world.locked)}")
            if name in world.base_locks:
                kind = world.robot(world.dof(name)[0]).base.kind
                raise InputError(
                    f"{name!r} does not move, since the base is {kind}", place="release",
                    hint="give the robot a free base, and lock what is to be released later",
                )  # fmt: skip
        rest = tuple(name for name in world.locked if name not in chosen)
        return ChangeResult(world.replace(locked=rest), states, f"{', '.join(chosen)} released")


@dataclass(frozen=True, eq=False)
class Switch(Change):
    """Other numbers for springs, dampers and dry friction from now on; nothing moves by it.

    What springs store may jump by it: the ledger books that as lost (or, less than zero, as put in). Other drives and
    signals need no change: they are the next phase's.

    Args:
        stiffness, rest, damping, static_friction, coulomb_friction: joint to its new number.
    """

    stiffness: Mapping[str, float] = field(default_factory=dict)
    rest: Mapping[str, float] = field(default_factory=dict)
    damping: Mapping[str, float] = field(default_factory=dict)
    static_friction: Mapping[str, float] = field(default_factory=dict)
    coulomb_friction: Mapping[str, float] = field(default_factory=dict)

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        del terms
        overrides = {system: dict(values) for system, values in world.overrides.items()}
        notes = []
        for each in fields(self):
            for joint, value in getattr(self, each.name).items():
                system, own = world.joint(joint)
                robot, numbers = world.robot(system), overrides.setdefault(system, {})
                # From the overrides so far: an earlier switch of another joint stays.
                now = robot_parameters(robot, numbers)[each.name].copy()
                now[now.size - robot.n + robot.joint_index(own)] = value
                numbers[each.name] = now
                notes.append(f"{each.name} of {joint} {value:g}")
        for system, numbers in overrides.items():
            robot_parameters(world.robot(system), numbers)  # static friction not below Coulomb's, and so on
        return ChangeResult(world.replace(overrides=overrides), states, ", ".join(notes) or "nothing switched")


@dataclass(frozen=True, eq=False)
class Separate(Change):
    """Cut a joint: what it carries becomes a system of its own and goes on as it moves.

    The joint's spring and damper are gone; what the spring stored then is booked as lost. Its rotor stays with the
    parent body and comes to rest in it: its relative angular momentum is an impulse on the parent, a plastic impact.

    Args:
        joint: that is cut.
        name: of the new system.
    """

    joint: str
    name: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        system, own = world.joint(self.joint)
        if self.name in world.systems:
            raise InputError(f"there already is a system {self.name!r}", place="separate", hint="choose another name")
        robot, state = world.own_robot(system), states[system]
        # The rotor stays with the parent: its carrier.
        rest, away = edit.detach(robot, own, keep_rotor=True)
        new = {**states, **split_state(robot, state, {system: (rest, ""), self.name: (away, "")}, terms)}
        systems = {**world.systems, system: rest, self.name: away}
        locked = []
        for owner, part in map(world.dof, world.locked):
            gone = owner == system and part in away.joint_names
            # A lock of the joint that is cut is gone with the joint.
            if (owner, part) != (system, own):
                locked.append(f"{self.name if gone else owner}{SEPARATOR}{part}")
        values = {name: numbers for name, numbers in world.overrides.items() if name != system}
        after = World(systems, tuple(locked), values, world.loads, attachments=world.attachments)
        taken = {*(frame.name for frame in away.frames), *away.body_names}

        def new_owner(owner: str, part: str) -> tuple[str, str]:
            return (self.name, part) if owner == system and part in taken else (owner, part)

        after = after.with_lasting(world.elements, new_owner)
        text = f"{self.name} separated at {self.joint}{describe_ended_elements(world, after)}"
        cut, rate = robot.joint(own), state.rates[robot.joint_index(own)]
        if cut.rotor is None or rate == 0.0:
            return ChangeResult(after, new, text)
        # The rotor's spin against its parent goes to the parent.
        mass, left = terms.mass_matrix(rest, new[system]), new[system]
        rotation = terms.frame_pose(rest, left, cut.parent)[1] @ cut.placement.rotation
        angular_rate = rotation @ cut.axis * cut.rotor.inertia * cut.rotor.ratio * rate
        # Angular momentum as a generalised momentum: through the parent's angular Jacobian.
        momentum = mass @ left.velocity + terms.jacobian(rest, left, cut.parent)[3:].T @ angular_rate
        held = find_held(after, system, ())
        loops = terms.loop_jacobian(rest, left)
        velocity, impulse = redistribute(mass, momentum, left.velocity, held, loops)
        new[system] = replace_velocity(left, velocity)
        lost = kinetic_energy(terms.mass_matrix(robot, state), state.velocity) - kinetic_energy(mass, velocity)
        # Of the whole before, less both parts after.
        lost -= kinetic_energy(terms.mass_matrix(away, new[self.name]), new[self.name].velocity)
        impulses = {after.label(system, rest.dof_names[i]): float(impulse[i]) for i in held}
        return ChangeResult(after, new, text, lost, impulses, external=base_impulse(left, impulse), point=left.position)
