"""Changes between two phases: each maps a world and its state to the next world and the state in it.

An impulse is momentum that constraints exchange in no time. What is free keeps its generalised momentum; springs,
dampers and friction are finite forces and have no part in it. Kinetic energy that is lost becomes heat in whatever
stopped the motion. Numbers come from *terms* (mass matrix, poses, Jacobians), by default spacearm's own; the
cross-check applies the same changes with MuJoCo's.

Method: with H the mass matrix, v and v+ the velocities before and after, H (v+ - v) = impulse. Free degrees of freedom
get no impulse, held ones get a velocity: :func:`redistribute` solves the free rows for v+ and reads the impulse from
the others. Attaching two systems projects both momenta on the velocities of the joined one (a plastic impact, first^T
H1 v1 + second^T H2 v2). Positions never change. Generalised velocity (6 + n): base axes, then joint rates; SI units.
Restitution is not modelled here: that is a contact's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, did_you_mean
from spacearm.model import Pose, Robot, edit
from spacearm.model.parts import skew
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.state import State
from spacearm.simulate.world import SEPARATOR, Attachment, World
from spacearm.typing import Array


class Terms(Protocol):
    """What a change needs to know of a robot in a state."""

    def mass_matrix(self, robot: Robot, state: State) -> Array:
        """(6 + n, 6 + n)."""

    def frame_pose(self, robot: Robot, state: State, frame: str) -> tuple[Array, Array]:
        """Origin and rotation matrix in the world."""

    def jacobian(self, robot: Robot, state: State, frame: str) -> Array:
        """(6, 6 + n) from generalised velocity to the frame's twist, world axes."""


class OwnTerms:
    """By spacearm's mechanics."""

    def mass_matrix(self, robot: Robot, state: State) -> Array:
        return mechanics_of(robot).mass_matrix(state.joints)

    def frame_pose(self, robot: Robot, state: State, frame: str) -> tuple[Array, Array]:
        return mechanics_of(robot).frame_pose(frame, state.joints, base=state.pose)

    def jacobian(self, robot: Robot, state: State, frame: str) -> Array:
        return mechanics_of(robot).jacobian(frame, state.joints, base=state.pose)


OWN = OwnTerms()


@dataclass(frozen=True, eq=False)
class Changed:
    """What a change has made of a world and its state.

    Args:
        text: what happened, in words.
        lost: kinetic energy that is gone, J, by the change's own terms.
        impulse: on every degree of freedom that was stopped or held, by its name before, N s or N m s.
        wrench: impulse on the frame at which systems were joined (force, moment), world axes, N s and N m s.
        external: sum of the impulses on the bases' own degrees of freedom (force, moment about ``point``), world axes.
    """

    world: World
    states: Mapping[str, State]
    text: str
    lost: float = 0.0
    impulse: Mapping[str, float] = field(default_factory=dict)
    wrench: Array = field(default_factory=lambda: np.zeros(6))
    external: Array = field(default_factory=lambda: np.zeros(6))
    point: Array = field(default_factory=lambda: np.zeros(3))


class Change(ABC):
    """A map of world and state that ends one phase and begins the next."""

    @abstractmethod
    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        """The next world and the state in it."""


def redistribute(mass: Array, momentum: Array, velocity: Array, held: Sequence[int]) -> tuple[Array, Array]:
    """(velocity, impulse) in which all but ``held`` have this generalised momentum.

    Those that are held have the velocities given for them; the impulse that this takes is zero for all others.
    """
    free = np.setdiff1d(np.arange(velocity.size), held)
    stuck = np.setdiff1d(np.arange(velocity.size), free)
    after = velocity.copy()
    known = momentum[free] - mass[np.ix_(free, stuck)] @ velocity[stuck]
    after[free] = np.linalg.solve(mass[np.ix_(free, free)], known)
    impulse = np.zeros(velocity.size)
    impulse[stuck] = (mass @ after - momentum)[stuck]
    return after, impulse


def _kinetic(mass: Array, velocity: Array) -> float:
    return float(0.5 * velocity @ mass @ velocity)


def _moved(state: State, velocity: Array) -> State:
    return State(state.position, state.quaternion, state.joints, velocity)


def _from_outside(state: State, impulse: Array) -> Array:
    """The impulse (6) on a base's own degrees of freedom in world axes, at the base."""
    return np.asarray((rotation_matrices(state.quaternion) @ impulse[:6].reshape(2, 3, 1)).ravel())


def _parted(robot: Robot, whole: State, parts: Mapping[str, tuple[Robot, str]], terms: Terms) -> dict[str, State]:
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
            twist = terms.jacobian(robot, whole, base) @ whole.velocity
            velocity = np.concatenate([rotation.T @ twist[:3], rotation.T @ twist[3:]])
            quaternion = quaternion_from_rotation(rotation)
        index = [robot.joint_index(prefix + own) for own in part.joint_names]
        found[name] = State(position, quaternion, whole.joints[index], np.concatenate([velocity, whole.rates[index]]))
    return found


def _held(world: World, system: str, names: Sequence[str]) -> list[int]:
    """Degrees of freedom of a system that the world locks or that are named."""
    robot, chosen = world.robot(system), [*world.locked, *names]
    return sorted({robot.dof_index(own) for owner, own in map(world.dof, chosen) if owner == system})


def _ended(before: World, after: World) -> str:
    """In words, the force elements that a change has ended."""
    gone = [element.name for element in before.elements if element not in after.elements]
    return f"; {', '.join(gone)} ended" if gone else ""


def _names(given: Sequence[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, eq=False)
class Lock(Change):
    """Stop degrees of freedom of one or several systems at once, and keep them locked; what is free takes it up.

    Args:
        dofs: names of degrees of freedom.
        held: others that keep their velocity through it: joints that stiff drives move.
    """

    dofs: Sequence[str] | str
    held: Sequence[str] | str = ()

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        chosen = [world.dof(name) for name in _names(self.dofs)]
        new, lost, impulses = dict(states), 0.0, dict[str, float]()
        external, point = np.zeros(6), np.zeros(3)
        for system in dict.fromkeys(owner for owner, _ in chosen):
            robot, state = world.own_robot(system), states[system]
            wanted = state.velocity.copy()
            wanted[[robot.dof_index(own) for owner, own in chosen if owner == system]] = 0.0
            if np.array_equal(wanted, state.velocity):
                continue
            held = _held(world, system, (*_names(self.dofs), *_names(self.held)))
            mass = terms.mass_matrix(robot, state)
            velocity, impulse = redistribute(mass, mass @ state.velocity, wanted, held)
            lost += _kinetic(mass, state.velocity) - _kinetic(mass, velocity)
            impulses |= {world.label(system, robot.dof_names[i]): float(impulse[i]) for i in held}
            outside = _from_outside(state, impulse)
            if not external.any():
                point = state.position
            # Moments of several systems are added about one point, the first base that was pushed.
            external += [*outside[:3], *outside[3:] + np.cross(state.position - point, outside[:3])]
            new[system] = _moved(state, velocity)
        after = world.replace(locked=(*world.locked, *_names(self.dofs)))
        text = f"{', '.join(_names(self.dofs))} locked"
        return Changed(after, new, text, lost, impulses, external=external, point=point)


@dataclass(frozen=True, eq=False)
class Release(Change):
    """Let locked degrees of freedom move again."""

    dofs: Sequence[str] | str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        del terms
        chosen = [world.label(*world.dof(name)) for name in _names(self.dofs)]
        for name in chosen:
            if name not in world.locked:
                raise InputError(f"{name!r} is not locked", place="release", hint=f"locked: {list(world.locked)}")
        rest = tuple(name for name in world.locked if name not in chosen)
        return Changed(world.replace(locked=rest), states, f"{', '.join(chosen)} released")


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

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        del terms
        overrides = {system: dict(values) for system, values in world.overrides.items()}
        told = []
        for each in fields(self):
            for joint, value in getattr(self, each.name).items():
                system, own = world.joint(joint)
                robot, numbers = world.robot(system), overrides.setdefault(system, {})
                now = robot_parameters(robot, numbers)[each.name].copy()
                now[now.size - robot.n + robot.joint_index(own)] = value
                numbers[each.name] = now
                told.append(f"{each.name} of {joint} {value:g}")
        for system, numbers in overrides.items():
            robot_parameters(world.robot(system), numbers)  # static friction not below Coulomb's, and so on
        return Changed(world.replace(overrides=overrides), states, ", ".join(told) or "nothing switched")


@dataclass(frozen=True, eq=False)
class Attach(Change):
    """Join a system rigidly, by its base, to a frame of another: where they are, in one plastic impact.

    Args:
        guest: the system that is attached; its joints, frames and thrusters become the other system's.
        frame: what it is attached to.
        held: degrees of freedom that keep their velocity through it: joints that stiff drives move.
        prefix: in front of the names of the guest's parts, where both systems have parts of one name.
    """

    guest: str
    frame: str
    held: Sequence[str] | str = ()
    prefix: str = ""

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        host, frame = world.frame(self.frame)
        if host == self.guest:
            raise InputError(
                f"{self.frame!r} is a frame of {host!r} itself", place="attach", hint="expected one of another system"
            )
        ours, theirs = world.own_robot(host), world.own_robot(self.guest)
        a, b = states[host], states[self.guest]
        if any(i < 6 for i in _held(world, self.guest, _names(self.held))):
            raise InputError(
                f"the base of {self.guest!r} is held from outside", place="attach", hint="attach the other system to it"
            )
        origin, rotation = terms.frame_pose(ours, a, frame)
        turn = rotation_matrices(b.quaternion)
        placement = Pose(rotation.T @ turn, rotation.T @ (b.position - origin))
        joined = edit.attach(ours, frame, theirs, placement, prefix=self.prefix)
        names = [*ours.joint_names, *(self.prefix + name for name in theirs.joint_names)]
        order = [names.index(name) for name in joined.joint_names]
        joints, rates = np.concatenate([a.joints, b.joints])[order], np.concatenate([a.rates, b.rates])[order]
        before = State(a.position, a.quaternion, joints, np.concatenate([a.velocity[:6], rates]))
        # Velocities of both by that of the joined system.
        first = np.zeros((ours.dofs, joined.dofs))
        second = np.zeros((theirs.dofs, joined.dofs))
        first[:6, :6] = np.eye(6)
        for k, place in enumerate(order):
            own, row = (first, 6 + place) if place < ours.n else (second, 6 + place - ours.n)
            own[row, 6 + k] = 1.0
        twist = terms.jacobian(ours, a, frame) @ first
        # From the host's frame to the origin of the guest's base, then into its axes: the guest's base moves as a part
        # of the host.
        twist[:3] -= skew(b.position - origin) @ twist[3:]
        second[:6] = np.concatenate([turn.T @ twist[:3], turn.T @ twist[3:]])
        masses = terms.mass_matrix(ours, a), terms.mass_matrix(theirs, b)
        momentum = first.T @ masses[0] @ a.velocity + second.T @ masses[1] @ b.velocity
        held = _held(world, host, _names(self.held))
        stuck = [i if i < 6 else 6 + joined.joint_index(ours.joint_names[i - 6]) for i in held]
        theirs_held = _held(world, self.guest, _names(self.held))
        stuck += [6 + joined.joint_index(self.prefix + theirs.joint_names[i - 6]) for i in theirs_held]
        mass = terms.mass_matrix(joined, before)
        velocity, impulse = redistribute(mass, momentum, before.velocity, stuck)
        state = _moved(before, velocity)
        lost = _kinetic(masses[0], a.velocity) + _kinetic(masses[1], b.velocity) - _kinetic(mass, velocity)
        pushed = (masses[1] @ (b.velocity - second @ velocity))[:6].reshape(2, 3) @ turn.T  # at the guest's base
        wrench = np.concatenate([pushed[0], pushed[1] + np.cross(b.position - origin, pushed[0])])
        after = self._world(world, host, joined)
        labels = {after.label(host, joined.dof_names[i]): float(impulse[i]) for i in stuck}
        outside = _from_outside(a, impulse)
        text = f"{self.guest} attached to {self.frame}{_ended(world, after)}"
        left = {name: state if name == host else states[name] for name in after.systems}
        return Changed(after, left, text, lost, labels, wrench, outside, a.position)

    def _world(self, world: World, host: str, joined: Robot) -> World:
        """Without the guest, and with its locked joints as the host's."""
        systems = {name: joined if name == host else robot for name, robot in world.systems.items()}
        del systems[self.guest]
        locked = []
        for owner, own in map(world.dof, world.locked):
            part = (host, self.prefix + own) if owner == self.guest else (owner, own)
            locked.append(part[1] if len(systems) == 1 else SEPARATOR.join(part))
        rest = {name: values for name, values in world.overrides.items() if name not in (host, self.guest)}
        both = world.own_robot(host), world.own_robot(self.guest)
        attached = Attachment(host, self.guest, both, joined, self.prefix)
        after = World(systems, tuple(locked), rest, world.loads, attachments=(*world.attachments, attached))
        return after.with_lasting(world.elements)


@dataclass(frozen=True, eq=False)
class Detach(Change):
    """Part what :class:`Attach` has joined: both go on as they move, each a system of its own again.

    What was attached later to the same system has to go first. Contacts that ended with the joining do not come back.

    Args:
        guest: the system that was attached.
    """

    guest: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        attached = self._attachment(world)
        host, (ours, theirs) = attached.host, attached.robots
        parts = {host: (ours, ""), self.guest: (theirs, attached.prefix)}
        new = {**states, **_parted(world.own_robot(host), states[host], parts, terms)}
        systems = {**world.systems, host: ours, self.guest: theirs}
        locked = []
        for owner, own in map(world.dof, world.locked):
            gone = owner == host and own not in ours.dof_names
            locked.append(SEPARATOR.join((self.guest, own.removeprefix(attached.prefix)) if gone else (owner, own)))
        numbers = {name: values for name, values in world.overrides.items() if name != host}
        others = tuple(each for each in world.attachments if each is not attached)
        after = World(systems, tuple(locked), numbers, world.loads, attachments=others).with_lasting(world.elements)
        return Changed(after, new, f"{self.guest} detached{_ended(world, after)}")

    def _attachment(self, world: World) -> Attachment:
        """What joined it, if that can be undone as things are."""
        found = next((each for each in reversed(world.attachments) if each.guest == self.guest), None)
        if found is None:
            hint = did_you_mean(self.guest, [each.guest for each in world.attachments]) or "Attach comes first"
            raise InputError(f"{self.guest!r} is not attached to anything", place="detach", hint=hint)
        # Identity, not equality: only the very robot that Attach made can be taken apart as it was put together.
        if world.systems.get(found.host) is not found.joined:
            raise InputError(
                f"{found.host!r} has changed since {self.guest!r} was attached to it", place="detach",
                hint="first detach what came later; a system that was cut (Separate) cannot be parted so",
            )  # fmt: skip
        if world.overrides.get(found.host):
            raise InputError(
                f"springs or friction of {found.host!r} were switched since {self.guest!r} was attached to it",
                place="detach", hint="switch them before Attach, or after Detach",
            )  # fmt: skip
        return found


@dataclass(frozen=True, eq=False)
class Separate(Change):
    """Cut a joint: what it carries becomes a system of its own and goes on as it moves.

    The joint's spring and damper are gone; what the spring stored then is booked as lost. Its rotor stays with the
    parent body and comes to rest in it: what it turned faster is an impulse on the parent, a plastic impact.

    Args:
        joint: that is cut.
        name: of the new system.
    """

    joint: str
    name: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        system, own = world.joint(self.joint)
        if self.name in world.systems:
            raise InputError(f"there is a system {self.name!r} already", place="separate", hint="choose another name")
        robot, state = world.own_robot(system), states[system]
        rest, away = edit.detach(robot, own, keep_rotor=True)
        new = {**states, **_parted(robot, state, {system: (rest, ""), self.name: (away, "")}, terms)}
        systems = {**world.systems, system: rest, self.name: away}
        locked = []
        for owner, part in map(world.dof, world.locked):
            gone = owner == system and part in away.joint_names
            if (owner, part) != (system, own):
                locked.append(f"{self.name if gone else owner}{SEPARATOR}{part}")
        values = {name: numbers for name, numbers in world.overrides.items() if name != system}
        after = World(systems, tuple(locked), values, world.loads, attachments=world.attachments)
        after = after.with_lasting(world.elements)
        text = f"{self.name} separated at {self.joint}{_ended(world, after)}"
        cut, rate = robot.joint(own), state.rates[robot.joint_index(own)]
        if cut.rotor is None or rate == 0.0:
            return Changed(after, new, text)
        # The rotor's spin against its parent goes to the parent.
        mass, left = terms.mass_matrix(rest, new[system]), new[system]
        turn = terms.frame_pose(rest, left, cut.parent)[1] @ cut.placement.rotation
        spin = turn @ cut.axis * cut.rotor.inertia * cut.rotor.ratio * rate
        momentum = mass @ left.velocity + terms.jacobian(rest, left, cut.parent)[3:].T @ spin
        held = _held(after, system, ())
        velocity, impulse = redistribute(mass, momentum, left.velocity, held)
        new[system] = _moved(left, velocity)
        lost = _kinetic(terms.mass_matrix(robot, state), state.velocity) - _kinetic(mass, velocity)
        lost -= _kinetic(terms.mass_matrix(away, new[self.name]), new[self.name].velocity)
        impulses = {after.label(system, rest.dof_names[i]): float(impulse[i]) for i in held}
        return Changed(after, new, text, lost, impulses, external=_from_outside(left, impulse), point=left.position)
