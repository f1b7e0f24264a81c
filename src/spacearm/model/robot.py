"""The robot: an immutable tree of rigid bodies on a floating base, and the loops that close it.

``bodies[0]`` is the base; ``bodies[i + 1]`` is the child of ``joints[i]``, and a joint stands after the joint that
carries its parent. The generalised velocity is (base linear velocity, base angular velocity, joint rates), the first
two in base axes: 6 + n degrees of freedom.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import ModelError, did_you_mean, error_context, quote_text
from spacearm.model.base import BASE_DOFS, BaseConstraint
from spacearm.model.loops import Loop
from spacearm.model.parts import Body, Coupling, Frame, Inertia, Joint, Pose, Thruster, expect, read_only_array
from spacearm.model.problems import Problems
from spacearm.model.slosh import Tank
from spacearm.text_format import html_table
from spacearm.typing import Array

#: Names of the base's position in events; no joint may take them, nor end in ``.rate`` (the rate of a joint).
BASE_POSITION = ("base_x", "base_y", "base_z")
RATE_ENDING = ".rate"
#: How joints of modes and of slosh are called.
_MODE = re.compile(r"\.(mode\d+|slosh_[xy])$")
#: The kinds of parts, by the field of :class:`Robot` that holds them.
PART_KINDS: Mapping[str, type] = {
    "bodies": Body,
    "joints": Joint,
    "frames": Frame,
    "thrusters": Thruster,
    "couplings": Coupling,
    "loops": Loop,
    "tanks": Tank,
}


@dataclass(frozen=True, eq=False)
class Robot:
    """A tree of bodies and one-degree-of-freedom joints on a base with six degrees of freedom.

    The order in which bodies and joints are given does not matter; they are sorted so that parents come first.
    ``configurations`` are named joint positions (n numbers each). Body names are frames too. ``base`` says how the base
    may move in runs: a word (``free``, ``planar``, ``rail``, ``held``) or a :class:`BaseConstraint`. ``loops`` join
    what the tree of joints leaves apart. ``tanks`` tell which liquids bodies hold already: see :func:`add_tank
    <spacearm.model.tanks.add_tank>`.
    """

    name: str
    bodies: tuple[Body, ...]
    joints: tuple[Joint, ...] = ()
    frames: tuple[Frame, ...] = ()
    thrusters: tuple[Thruster, ...] = ()
    couplings: tuple[Coupling, ...] = ()
    configurations: Mapping[str, Array] = field(default_factory=dict)
    base: BaseConstraint = field(default_factory=BaseConstraint)
    loops: tuple[Loop, ...] = ()
    tanks: tuple[Tank, ...] = ()

    def __post_init__(self) -> None:
        for key, kind in PART_KINDS.items():
            # A text or a mapping is iterable too, and would be taken apart into letters or keys.
            given = getattr(self, key)
            if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
                raise ModelError(f"{key} is {quote_text(given)}", hint=f"expected a sequence of {kind.__name__}")
            parts = tuple(given)
            for index, part in enumerate(parts):
                expect(part, kind, f"{key}[{index}]")
            object.__setattr__(self, key, parts)
        # Names before the tree: an error about the tree can then name its parts.
        _check_names(self)
        bodies, joints = _sort_tree(self.bodies, self.joints)
        object.__setattr__(self, "configurations", _sort_configurations(self.configurations, self.joints, joints))
        object.__setattr__(self, "bodies", bodies)
        object.__setattr__(self, "joints", joints)
        object.__setattr__(self, "base", BaseConstraint.from_word(self.base))
        _check_mass(self)

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        if not isinstance(other, Robot):
            return NotImplemented
        # Hashes are kept: robots that differ, as those of missions do, are mostly told apart by them.
        return (
            hash(self) == hash(other)
            and all(getattr(self, key) == getattr(other, key) for key in ("name", "base", *PART_KINDS))
            and self.configurations.keys() == other.configurations.keys()
            and all(np.array_equal(self.configurations[key], other.configurations[key]) for key in self.configurations)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: what is cached by robot is looked up in every run."""
        return hash((self.name, self.bodies, self.joints))

    @cached_property
    def structure(self) -> tuple[Any, ...]:
        """Names, tree, axes, placements, gear ratios: where equal, equations differ in numbers that are inputs only."""
        joints = [
            (joint.name, joint.kind, joint.parent, joint.child, joint.placement.rotation.tobytes(),
             joint.placement.translation.tobytes(), joint.axis.tobytes(),
             None if joint.rotor is None else joint.rotor.ratio)
            for joint in self.joints
        ]  # fmt: skip
        couplings = tuple((part.first, part.second) for part in self.couplings)
        loops = tuple(
            (loop, *((self.frame(loop.first), self.frame(loop.second)) if loop.joins_frames else ()))
            for loop in self.loops
        )
        return self.body_names, tuple(joints), couplings, loops

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        """Copies and pickles go through the constructor: checked, read-only, without what was computed meanwhile."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return type(self), tuple({**values, "configurations": dict(self.configurations)}.values())

    def __repr__(self) -> str:
        return f"Robot({self.name!r}, {len(self.bodies)} bodies, {self.n} joints, {self.mass:g} kg)"

    def _repr_html_(self) -> str:
        rows = [(self.bodies[0].name, self.bodies[0].inertia.mass, "", "base", "")]
        for joint in self.joints:
            limits = joint.limits
            bounded = limits is not None and limits.upper - limits.lower < math.inf
            scale, sign = (math.degrees(1.0), "deg") if joint.kind == "revolute" else (1.0, "m")
            interval = f"{limits.lower * scale:.4g} to {limits.upper * scale:.4g} {sign}" if limits and bounded else ""
            mass = self.bodies[self.body_index(joint.child)].inertia.mass
            rows.append((joint.child, mass, joint.parent, f"{joint.name} ({joint.kind})", interval))
        note = f"{self.name}: {self.mass:g} kg, {self.dofs} degrees of freedom"
        return html_table(("body", "kg", "carried by", "joint", "range"), rows, note)

    # -- counting -----------------------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def dofs(self) -> int:
        """Number of degrees of freedom: six of the base and one of each joint."""
        return 6 + len(self.joints)

    @cached_property
    def dof_names(self) -> tuple[str, ...]:
        return (*BASE_DOFS, *self.joint_names)

    @cached_property
    def joint_names(self) -> tuple[str, ...]:
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def wheel_names(self) -> tuple[str, ...]:
        """Joints that are reaction wheels: a rotor without a spring, and beyond it nothing that has mass."""
        carriers = {joint.parent for joint in self.joints}
        # A wheel's mass is its carrier's; what has mass of its own beyond a joint is a link.
        massless = {body.name for body in self.bodies if body.inertia.mass == 0.0}
        # A motor behind a spring looks like a wheel, but its momentum goes to the joint that it drives.
        coupled = {name for part in self.couplings for name in (part.first, part.second)}
        coupled |= {name for loop in self.loops for name in (loop.first, loop.second)}
        return tuple(
            joint.name
            for joint in self.joints
            if joint.rotor is not None
            and joint.kind == "revolute"
            and joint.spring is None
            and joint.child in massless - carriers
            and joint.name not in coupled
        )

    @cached_property
    def mode_names(self) -> tuple[str, ...]:
        """Joints of modes and of slosh, on springs: nobody drives them or holds them."""
        return tuple(
            joint.name for joint in self.joints if joint.spring is not None and _MODE.search(joint.name) is not None
        )

    @cached_property
    def arm_names(self) -> tuple[str, ...]:
        """Joints that are neither wheels nor those of modes."""
        others = {*self.wheel_names, *self.mode_names}
        return tuple(name for name in self.joint_names if name not in others)

    @cached_property
    def body_names(self) -> tuple[str, ...]:
        return tuple(body.name for body in self.bodies)

    @property
    def mass(self) -> float:
        """Mass of everything, kg."""
        return float(sum(body.inertia.mass for body in self.bodies))

    # -- finding ------------------------------------------------------------------------------------------------

    def body_index(self, name: str) -> int:
        return _index(self.body_names, name, "body")

    def joint_index(self, name: str) -> int:
        return _index(self.joint_names, name, "joint")

    def dof_index(self, name: str) -> int:
        return _index(self.dof_names, name, "degree of freedom")

    def body(self, name: str) -> Body:
        return self.bodies[self.body_index(name)]

    def joint(self, name: str) -> Joint:
        return self.joints[self.joint_index(name)]

    def frame(self, name: str) -> Frame:
        """The frame of this name; a body's name stands for its own frame."""
        for frame in self.frames:
            if frame.name == name:
                return frame
        if name in self.body_names:
            # A frame of its own is made, since bodies have none: equal frames compare equal.
            return Frame(name, name, Pose())
        raise self._no_such_part("frame", name, (*(frame.name for frame in self.frames), *self.body_names))

    def thruster(self, name: str) -> Thruster:
        return self.thrusters[_index(tuple(thruster.name for thruster in self.thrusters), name, "thruster")]

    def configuration(self, name: str) -> Array:
        """Joint positions of this name; ``zero`` always exists and is all zeros."""
        if name in self.configurations:
            return self.configurations[name]
        if name == "zero":
            return np.zeros(self.n)
        raise self._no_such_part("configuration", name, (*self.configurations, "zero"))

    def _no_such_part(self, what: str, name: str, names: Iterable[str]) -> ModelError:
        return ModelError(
            f"robot {quote_text(self.name)} has no {what} {quote_text(name)}", hint=did_you_mean(name, names)
        )

    # -- the tree -----------------------------------------------------------------------------------------------

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """For each joint, the index of the body that carries it."""
        index = {name: i for i, name in enumerate(self.body_names)}
        return tuple(index[joint.parent] for joint in self.joints)

    def path(self, body: int) -> tuple[int, ...]:
        """Joints from the base to this body."""
        chain: list[int] = []
        while body:
            chain.append(body - 1)
            body = self.parents[body - 1]
        return tuple(reversed(chain))

    def children(self, body: str) -> Iterator[Joint]:
        """The joints that this body carries."""
        return (joint for joint in self.joints if joint.parent == body)

    def subtree(self, body: str) -> tuple[str, ...]:
        """Names of this body and of every body beyond it."""
        names = [body] if body in self.body_names else [self.bodies[self.body_index(body)].name]
        for joint in self.joints:
            if joint.parent in names:
                names.append(joint.child)
        return tuple(names)

    @cached_property
    def inertia_parameters(self) -> Array:
        """The ten inertia parameters of every body, (n + 1, 10): see :attr:`Inertia.parameters`."""
        return _read_only([_inertia_parameters(body.inertia) for body in self.bodies])

    @cached_property
    def rotor_inertias(self) -> Array:
        """Axial inertia of every rotor, kg m2, in the order of the joints that have one."""
        return _read_only([joint.rotor.inertia for joint in self.joints if joint.rotor is not None])

    @cached_property
    def lower_limits(self) -> Array:
        return _read_only([joint.limits.lower for joint in self.joints])

    @cached_property
    def upper_limits(self) -> Array:
        return _read_only([joint.limits.upper for joint in self.joints])

    def replace(self, **changes: object) -> Robot:
        """A copy with other fields, checked as a new robot is."""
        return replace(self, **changes)  # type: ignore[arg-type]

    def with_inertia_parameters(self, parameters: npt.ArrayLike) -> Robot:
        """A copy with other inertias, (n + 1, 10) parameters in the order of ``bodies``."""
        array = read_only_array(parameters, (len(self.bodies), 10), "inertia parameters")
        bodies = []
        for body, row in zip(self.bodies, array, strict=True):
            with error_context(f"body {body.name!r}"):
                bodies.append(replace(body, inertia=Inertia.from_parameters(row)))
        return self.replace(bodies=tuple(bodies))


def _read_only(rows: Sequence[Any]) -> Array:
    """Limits may be infinite, so this is not :func:`read_only_array`."""
    array = np.array(rows, dtype=np.float64)
    array.setflags(write=False)
    return array


def _sort_configurations(
    configurations: Mapping[str, Array], given: tuple[Joint, ...], joints: tuple[Joint, ...]
) -> Mapping[str, Array]:
    """Configurations whose numbers follow the order ``given``, checked and put into the order of ``joints``."""
    if not isinstance(configurations, Mapping):
        raise ModelError(
            f"configurations is {type(configurations).__name__}", hint="expected a mapping from name to joint positions"
        )
    place = {joint.name: index for index, joint in enumerate(given)}
    order = [place[joint.name] for joint in joints]
    result = {}
    for name, values in configurations.items():
        _check_name(name, "configuration")
        with error_context(f"configuration {quote_text(name)}"):
            array = read_only_array(values, (len(joints),), "configuration")
        if name == "zero" and np.any(array):
            raise ModelError(
                "this name belongs to the configuration in which all joints are at zero",
                place="configuration 'zero'",
                hint="choose another name",
            )
        # Positions are stored by number: they follow the joints into the tree's order.
        result[name] = read_only_array(array[order], (len(joints),), "configuration")
    return MappingProxyType(result)


def _index(names: tuple[str, ...], name: str, what: str) -> int:
    try:
        return names.index(name)
    except ValueError:
        return names.index(checks.check_name(name, names, what, error=ModelError))


def check_unique(names: Iterable[str], what: str, *, places: Sequence[str] = (), hint: str = "") -> None:
    """Names that occur once; ``places`` says where each of them stands, ``what[index]`` if it is not given."""
    problems = Problems()
    first: dict[str, str] = {}
    for index, name in enumerate(names):
        place = places[index] if places else f"{what}[{index}]"
        if name in first:
            problems.add(f"two are called {quote_text(name)}", place=f"{first[name]} and {place}", hint=hint)
        first.setdefault(name, place)
    problems.raise_all()


def free_name(name: str, taken: set[str], separator: str = "") -> str:
    """``name``, or the first numbered form of it (from 2) that is not taken; it is taken from then on."""
    choice, count = name, 1
    while choice in taken:
        count += 1
        choice = f"{name}{separator}{count}"
    taken.add(choice)
    return choice


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name != "" and name == name.strip() and name.isprintable()


def _check_name(name: object, what: str) -> None:
    """A name is text that can be printed, written to any file and typed again."""
    if not _is_name(name):
        raise ModelError(
            f"{quote_text(name)} is not a name", place=what, hint="expected printable text without blanks at its ends"
        )


def check_joint_name(name: str, place: object = "") -> None:
    """A joint must not be called like another quantity of the state."""
    with error_context(place or f"joint {quote_text(name)}"):
        if name in BASE_DOFS:
            raise ModelError("this name belongs to the base's own degrees of freedom")
        if name in BASE_POSITION:
            raise ModelError("this name belongs to the base's position")
        if name.endswith(RATE_ENDING):
            raise ModelError(
                f"a name that ends in {RATE_ENDING!r} means the rate of a joint", hint="choose another name"
            )


@lru_cache(maxsize=1024)
def _inertia_parameters(inertia: Inertia) -> tuple[float, ...]:
    """Kept for each body: a robot with another target in its hand has all other bodies of the one before."""
    return tuple(inertia.parameters.tolist())


def _check_names(robot: Robot) -> None:
    _check_name(robot.name, "robot")
    bodies, joints, frames = robot.bodies, robot.joints, robot.frames
    groups: dict[str, Sequence[Any]] = {"body": bodies, "joint": joints, "frame": frames}
    groups |= {"thruster": robot.thrusters, "coupling": robot.couplings, "loop": robot.loops, "tank": robot.tanks}
    problems = Problems()
    for what, parts in groups.items():
        names = [part.name for part in parts]
        for name in names:
            if not _is_name(name):
                with problems.collect_errors():
                    _check_name(name, what)
        if what != "frame":
            with problems.collect_errors():
                check_unique(names, what)
    problems.raise_all()
    # Only with valid names: whether two are equal is asked of text.
    places = [f"body[{i}]" for i in range(len(bodies))] + [f"frame[{i}]" for i in range(len(frames))]
    with problems.collect_errors():
        hint = "frames and bodies share one set of names"
        names = [*(body.name for body in bodies), *(frame.name for frame in frames)]
        check_unique(names, "frame", places=places, hint=hint)
    for joint in joints:
        with problems.collect_errors():
            check_joint_name(joint.name)
    if not bodies:
        problems.add("robot has no body", place=f"robot {quote_text(robot.name)}", hint="expected at least a base")
    _check_references(robot, problems)
    problems.raise_all()


#: Fields by which parts refer to others: kind of part, its fields, kind referred to.
_REFERENCES = (
    ("joint", ("parent", "child"), "body"),
    ("frame", ("body",), "body"),
    ("thruster", ("body",), "body"),
    ("coupling", ("first", "second"), "joint"),
)


def _check_references(robot: Robot, problems: Problems) -> None:
    """Every body and joint that a part refers to is there."""
    known = {"body": {body.name for body in robot.bodies}, "joint": {joint.name for joint in robot.joints}}
    for kind, keys, target in _REFERENCES:
        for part in getattr(robot, f"{kind}s"):
            for key in keys:
                if getattr(part, key) not in known[target]:
                    with problems.collect_errors(f"{kind} {quote_text(part.name)}"):
                        checks.check_name(getattr(part, key), known[target], target, error=ModelError)
    frames = {frame.name: frame.body for frame in robot.frames} | {name: name for name in known["body"]}
    tanks = {tank.name for tank in robot.tanks}
    for thruster in robot.thrusters:
        if thruster.tank:
            with problems.collect_errors(f"thruster {quote_text(thruster.name)}"):
                checks.check_name(thruster.tank, tanks, "tank", error=ModelError)
    for loop in robot.loops:
        with problems.collect_errors(f"loop {quote_text(loop.name)}"):
            names, what = (frames.keys(), "frame") if loop.joins_frames else (known["joint"], "joint")
            for end in (loop.first, loop.second):
                checks.check_name(end, names, what, error=ModelError)
            if loop.joins_frames and frames[loop.first] == frames[loop.second]:
                raise ModelError(
                    f"{quote_text(loop.first)} and {quote_text(loop.second)} lie on one body",
                    hint="expected frames of two bodies",
                )


def _sort_tree(bodies: tuple[Body, ...], joints: tuple[Joint, ...]) -> tuple[tuple[Body, ...], tuple[Joint, ...]]:
    """Bodies and joints with parents first, otherwise in the order given; anything but one tree is an error."""
    problems = Problems()
    carrier: dict[str, Joint] = {}
    for joint in joints:
        if joint.parent == joint.child:
            problems.add(f"joins body {quote_text(joint.child)} to itself", place=f"joint {quote_text(joint.name)}")
        if joint.child in carrier:
            problems.add(
                f"body {quote_text(joint.child)} is already carried by joint {quote_text(carrier[joint.child].name)}",
                place=f"joint {quote_text(joint.name)}",
                hint="a tree has one joint for each body; close a loop with [[loop]]",
            )
        carrier[joint.child] = joint
    problems.raise_all()
    roots = [body.name for body in bodies if body.name not in carrier]
    # Joints that form a ring leave no body without a carrier.
    if not roots:
        raise ModelError("the joints form a cycle: no body is the base", place=f"joint {quote_text(joints[0].name)}")
    if len(roots) > 1:
        raise ModelError(
            f"the tree is disconnected: {', '.join(map(repr, roots))} are carried by no joint",
            hint="expected one base; join the others to it",
        )
    carried: dict[str, list[int]] = {}
    for index, joint in enumerate(joints):
        carried.setdefault(joint.parent, []).append(index)
    ordered: list[Joint] = []
    ready = carried.get(roots[0], [])
    heapify(ready)  # of all joints whose parent is placed, the one given first comes next
    while ready:
        joint = joints[heappop(ready)]
        ordered.append(joint)
        for index in carried.get(joint.child, ()):
            heappush(ready, index)
    if len(ordered) < len(joints):
        placed = {joint.name for joint in ordered}
        lost = [joint.name for joint in joints if joint.name not in placed]
        raise ModelError(
            f"the joints {', '.join(map(repr, lost))} form a cycle apart from the base",
            place=f"joint {quote_text(lost[0])}",
        )
    by_name = {body.name: body for body in bodies}
    return (by_name[roots[0]], *(by_name[joint.child] for joint in ordered)), tuple(ordered)


def bodies_with_mass(bodies: Iterable[Body], joints: Iterable[Joint]) -> set[str]:
    """Names of the bodies that have mass or carry a body with mass, however far beyond."""
    carrier = {joint.child: joint.parent for joint in joints}
    heavy: set[str] = set()
    for body in bodies:
        name = body.name if body.inertia.mass > 0.0 else None
        # From each heavy body up to the base, as far as nobody came before: linear in the number of bodies.
        while name is not None and name not in heavy:
            heavy.add(name)
            name = carrier.get(name)
    return heavy


def _check_mass(robot: Robot) -> None:
    """Every degree of freedom needs something to move: mass or a rotor."""
    problems = Problems()
    base = robot.bodies[0]
    if base.inertia.mass <= 0.0:
        problems.add("the base has no mass", place=f"body {quote_text(base.name)}", hint="expected more than zero")
    heavy = bodies_with_mass(robot.bodies, robot.joints)
    for joint in robot.joints:
        if joint.child not in heavy and joint.rotor is None:
            problems.add(
                f"body {quote_text(joint.child)} and all beyond it are massless, so nothing resists this joint",
                place=f"joint {quote_text(joint.name)}",
                hint="give the chain's end a mass, or the joint a rotor",
            )
    problems.raise_all()
