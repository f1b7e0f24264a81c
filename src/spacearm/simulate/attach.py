"""Changes that join two systems and separate them again: a rigid grasp, a rotating pin, a release.

Method: attaching projects both momenta on the velocities of the joined system (a plastic impact): with ``first`` and
``second`` the maps from its velocity to those of host and guest, the joined one has the momentum first^T H1 v1 +
second^T H2 v2, and what is free in it keeps that (:func:`~spacearm.simulate.changes.redistribute`). Impulses inside
the joint do no work on motions that it allows. Kinetic energy is lost and booked, never gained. The impulse on the
host is what the guest's base gave away.

A pin is a revolute joint whose child the guest's base is welded to. Detaching is exact: both keep their motion, and
each has the robot that it was, because the attachment remembers both. Poses at the instant decide where the guest
sits; nothing is moved to fit. World axes, SI units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import instance, number, one_of
from spacearm.errors import InputError, did_you_mean
from spacearm.model import Friction, Joint, Pose, Robot, Spring, edit
from spacearm.model.base import BASE_DOFS
from spacearm.model.parts import skew, unit_vector
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.changes import (
    SPACEARM_TERMS,
    Change,
    ChangeResult,
    Terms,
    base_impulse,
    describe_ended_elements,
    find_held,
    kinetic_energy,
    name_tuple,
    redistribute,
    replace_velocity,
    split_state,
)
from spacearm.simulate.state import State
from spacearm.simulate.world import SEPARATOR, Attachment, World
from spacearm.typing import Array

#: Directions (and speeds, m/s or rad/s) that differ by less count as equal when a constrained base is attached.
PARALLEL = 1e-9


@dataclass(frozen=True, eq=False)
class Pin:
    """A grasp that holds a point and lets the guest rotate about an axis.

    Args:
        axis: in the axes of the frame that it is attached to.
        stiffness, damping: of a torsional spring that is relaxed when it is attached, N m/rad and N m s/rad.
        friction: Coulomb torque at which it slips, N m; ``static``: torque at which it breaks loose, the same if
            omitted.
    """

    axis: npt.ArrayLike = (0.0, 0.0, 1.0)
    stiffness: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    static: float | None = None

    def __post_init__(self) -> None:
        unit_vector(self.axis, "axis of the pin")
        for what in ("stiffness", "damping", "friction"):
            number(getattr(self, what), what, least=0.0, place="pin")
        if self.static is not None:
            number(self.static, "static", least=self.friction, place="pin")

    @property
    def unit_axis(self) -> Array:
        return unit_vector(self.axis, "axis of the pin")

    def joint(self, name: str) -> Joint:
        """The joint of the pin, without its bodies."""
        static = self.friction if self.static is None else self.static
        laws = {
            "spring": Spring(self.stiffness) if self.stiffness > 0.0 else None,
            "friction": Friction(static, self.friction) if static > 0.0 else None,
        }
        return Joint(name, "revolute", "", "", axis=self.unit_axis, damping=self.damping, **laws)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Attach(Change):
    """Join a system by its base to a frame of another, in their present poses, by a plastic impact.

    A guest with a constrained base can be attached only if the host moves it as its own base permits: both planar with
    the same normal, and the joints of the host's arm along that normal. The joined system has the host's base.

    Args:
        guest: the system that is attached; its joints, frames and thrusters become the other system's.
        frame: frame to which it is attached.
        held: degrees of freedom that keep their velocity in the impact: joints moved by stiff drives.
        prefix: prefix of the names of the guest's parts, if both systems have parts of the same name.
        kind: ``rigid``, or ``pin``: the guest may rotate about ``pin``'s axis through the frame's origin. The pin is a
            joint of the joined system, called ``<guest>.pin``, at zero now; :class:`Lock` makes the grasp rigid later.
        pin: properties of the pin: axis (frame axes), spring, damping, friction (the torque at which it slips).
    """

    guest: str
    frame: str
    held: Sequence[str] | str = ()
    prefix: str = ""
    kind: Literal["rigid", "pin"] = "rigid"
    pin: Pin = field(default_factory=Pin)

    def __post_init__(self) -> None:
        one_of(self.kind, ("rigid", "pin"), "kind", place="attach")
        instance(self.pin, Pin, "pin", place="attach")

    @property
    def pin_name(self) -> str:
        """Name of the joint between both; empty if they are rigidly joined."""
        return f"{self.guest}.pin" if self.kind == "pin" else ""

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        host, frame = world.frame(self.frame)
        if host == self.guest:
            raise InputError(
                f"{self.frame!r} is a frame of {host!r} itself", place="attach",
                hint="expected one of another system; Close joins two frames of one",
            )  # fmt: skip
        ours, theirs = world.own_robot(host), world.own_robot(self.guest)
        a, b = states[host], states[self.guest]
        origin, rotation = terms.frame_pose(ours, a, frame)
        axes = rotation_matrices(b.quaternion)
        # Where the guest's base is now, in the frame's axes: it is joined in its present pose.
        placement = Pose(rotation.T @ axes, rotation.T @ (b.position - origin))
        pinned = self.kind == "pin"
        if pinned:
            link = self.pin.joint(self.pin_name)
            joined = edit.attach_by_joint(ours, frame, theirs, link, prefix=self.prefix, placement=placement)
        else:
            joined = edit.attach(ours, frame, theirs, placement, prefix=self.prefix)
        names = [*ours.joint_names, *(self.prefix + name for name in theirs.joint_names), self.pin_name]
        # Joints of the joined robot in its own order, looked up among (host, guest, pin).
        order = [names.index(name) for name in joined.joint_names]
        joints, rates = np.array([*a.joints, *b.joints, 0.0])[order], np.array([*a.rates, *b.rates, 0.0])[order]
        before = State(a.position, a.quaternion, joints, np.concatenate([a.velocity[:6], rates]))
        # Velocities of both from that of the joined system.
        first = np.zeros((ours.dofs, joined.dofs))
        second = np.zeros((theirs.dofs, joined.dofs))
        first[:6, :6] = np.eye(6)
        for k, place in enumerate(order):
            if names[place] != self.pin_name:
                own, row = (first, 6 + place) if place < ours.n else (second, 6 + place - ours.n)
                own[row, 6 + k] = 1.0
        # Twist of the host's frame for velocities of the joined system, world axes.
        twist = terms.jacobian(ours, a, frame) @ first
        if pinned:
            # The pin passes through the frame's origin: it adds rotation, no velocity there.
            twist[3:, 6 + joined.joint_index(self.pin_name)] = rotation @ self.pin.unit_axis
        # From the host's frame to the origin of the guest's base, then into its axes: the guest's base moves as a part
        # of the host.
        twist[:3] -= skew(b.position - origin) @ twist[3:]
        second[:6] = np.concatenate([axes.T @ twist[:3], axes.T @ twist[3:]])
        masses = terms.mass_matrix(ours, a), terms.mass_matrix(theirs, b)
        # Momentum is conserved in every direction that the joined system can move in.
        momentum = first.T @ masses[0] @ a.velocity + second.T @ masses[1] @ b.velocity
        held = find_held(world, host, name_tuple(self.held))
        stuck = [i if i < 6 else 6 + joined.joint_index(ours.joint_names[i - 6]) for i in held]
        theirs_held = find_held(world, self.guest, name_tuple(self.held))
        stuck += [6 + joined.joint_index(self.prefix + theirs.joint_names[i - 6]) for i in theirs_held if i >= 6]
        # Permanently locked ones only: joints held by drives may move later and then move the guest.
        still = [i if i < 6 else 6 + joined.joint_index(ours.joint_names[i - 6]) for i in find_held(world, host, ())]
        self._check_base(b, second, [i for i in theirs_held if i < 6], still)
        mass = terms.mass_matrix(joined, before)
        loops = terms.loop_jacobian(joined, before)
        velocity, impulse = redistribute(mass, momentum, before.velocity, stuck, loops)
        state = replace_velocity(before, velocity)
        lost = (
            kinetic_energy(masses[0], a.velocity)
            + kinetic_energy(masses[1], b.velocity)
            - kinetic_energy(mass, velocity)
        )
        # Impulse on the host: momentum that the guest's base gave away, in world axes.
        pushed = (masses[1] @ (b.velocity - second @ velocity))[:6].reshape(2, 3) @ axes.T  # at the guest's base
        wrench = np.concatenate([pushed[0], pushed[1] + np.cross(b.position - origin, pushed[0])])
        after = self._world(world, host, joined)
        labels = {after.label(host, joined.dof_names[i]): float(impulse[i]) for i in stuck}
        outside = base_impulse(a, impulse)
        text = (
            f"{self.guest} {'pinned' if pinned else 'attached'} to {self.frame}{describe_ended_elements(world, after)}"
        )
        left = {name: state if name == host else states[name] for name in after.systems}
        return ChangeResult(after, left, text, lost, labels, wrench, outside, a.position)

    def _check_base(self, guest: State, motion: Array, bound: Sequence[int], still: Sequence[int]) -> None:
        """Raise an error if the host could move the guest's base against its constraints ``bound``.

        ``motion`` maps the velocity of the joined system, in which ``still`` is permanently locked, to that of the
        guest.
        """
        free = np.setdiff1d(np.arange(motion.shape[1]), still)
        slip = np.abs(motion[np.ix_(np.array(bound, dtype=np.intp), free)]).max(initial=0.0)
        # If all rotations are about one normal, what is zero now stays zero in every configuration.
        if slip > PARALLEL or np.abs(guest.velocity[[*bound]]).max(initial=0.0) > PARALLEL:
            raise InputError(
                f"the base of {self.guest!r} is held externally, but its host would move it",
                place="attach",
                hint="attach the other system to it, or give both the same kind of base and the same normal",
            )

    def _world(self, world: World, host: str, joined: Robot) -> World:
        """The world without the guest, whose locked joints become the host's."""
        systems = {name: joined if name == host else robot for name, robot in world.systems.items()}
        del systems[self.guest]
        locked, bound = [], []
        for owner, own in map(world.dof, world.locked):
            # The guest has no base of its own any more; kept for Detach.
            if owner == self.guest and own in BASE_DOFS:
                bound.append(own)
                continue
            part = (host, self.prefix + own) if owner == self.guest else (owner, own)
            locked.append(part[1] if len(systems) == 1 else SEPARATOR.join(part))
        rest = {name: values for name, values in world.overrides.items() if name not in (host, self.guest)}
        both = world.own_robot(host), world.own_robot(self.guest)
        attached = Attachment(host, self.guest, both, joined, self.prefix, self.pin_name, tuple(bound))
        after = World(systems, tuple(locked), rest, world.loads, attachments=(*world.attachments, attached))

        def new_owner(system: str, own: str) -> tuple[str, str]:
            return (host, self.prefix + own) if system == self.guest else (system, own)

        return after.with_lasting(world.elements, new_owner)


@dataclass(frozen=True, eq=False)
class Detach(Change):
    """Separate what :class:`Attach` has joined: both keep their motion, each a system of its own again.

    Systems attached later to the same system have to be detached first. Contacts that ended with the attachment do not
    return.

    Args:
        guest: the system that was attached.
    """

    guest: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        attached = self._attachment(world)
        host, (ours, theirs) = attached.host, attached.robots
        parts = {host: (ours, ""), self.guest: (theirs, attached.prefix)}
        # No impulse acts: each part goes on with the velocity that it has as a part of the whole.
        new = {**states, **split_state(world.own_robot(host), states[host], parts, terms)}
        systems = {**world.systems, host: ours, self.guest: theirs}
        locked = [SEPARATOR.join((self.guest, own)) for own in attached.locked]
        for owner, own in map(world.dof, world.locked):
            if (owner, own) == (host, attached.pin):
                continue
            gone = owner == host and own not in ours.dof_names
            locked.append(SEPARATOR.join((self.guest, own.removeprefix(attached.prefix)) if gone else (owner, own)))
        numbers = {name: values for name, values in world.overrides.items() if name != host}
        others = tuple(each for each in world.attachments if each is not attached)
        guests = {attached.prefix + own: own for own in (*(frame.name for frame in theirs.frames), *theirs.body_names)}

        def new_owner(system: str, own: str) -> tuple[str, str]:
            return (self.guest, guests[own]) if system == host and own in guests else (system, own)

        after = World(systems, tuple(locked), numbers, world.loads, attachments=others)
        after = after.with_lasting(world.elements, new_owner)
        return ChangeResult(after, new, f"{self.guest} detached{describe_ended_elements(world, after)}")

    def _attachment(self, world: World) -> Attachment:
        """The attachment to undo, if it can be undone in the present world."""
        found = next((each for each in reversed(world.attachments) if each.guest == self.guest), None)
        if found is None:
            hint = did_you_mean(self.guest, [each.guest for each in world.attachments]) or "use Attach first"
            raise InputError(f"{self.guest!r} is not attached to anything", place="detach", hint=hint)
        # Identity, not equality: only the very robot that Attach made can be taken apart as it was put together.
        if world.systems.get(found.host) is not found.joined:
            raise InputError(
                f"{found.host!r} has changed since {self.guest!r} was attached to it", place="detach",
                hint="first detach what was attached later; a system that Separate has cut cannot be detached",
            )  # fmt: skip
        if world.overrides.get(found.host):
            raise InputError(
                f"springs or friction of {found.host!r} were switched since {self.guest!r} was attached to it",
                place="detach", hint="switch them before Attach, or after Detach",
            )  # fmt: skip
        return found
