"""Between a reader of robot files and the :class:`~spacearm.model.Robot`: raw numbers in, a robot or all problems out.

A reader hands its numbers to an :class:`RobotImport`. What cannot be is kept as a problem, and reading goes on with a
stand-in, so that one error lists all problems of the file; where the caller wants it, it is repaired and reported
instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.errors import InputError, ModelError, quote_text
from spacearm.model import _repair as mending
from spacearm.model._repair import Mimic
from spacearm.model.fuse import Weld, fuse
from spacearm.model.loops import Loop
from spacearm.model.notices import Losses, Repair, warn_of_repairs
from spacearm.model.parts import Body, Frame, Friction, Inertia, Joint, JointKind, Limits, Pose, finite
from spacearm.model.problems import Problems
from spacearm.model.robot import Robot, check_joint_name
from spacearm.typing import Array

T = TypeVar("T")
_ANY_BODY = Inertia(1.0, tensor=np.eye(3))
#: A kind of repair, of links; a base without mass has another rule.
RAISED = "an inertia without mass is kept and given a mass (radius of gyration 1 m)"
#: Inertia of a base without mass while its robot is read to be mounted; known by identity.
PLACEHOLDER = Inertia(1.0)
REPAIRABLE = "repair=True (--repair on the command line, repair = true in a file)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """How a robot file is read.

    Args:
        repair: replace impossible values by the nearest possible ones, and warn of each change.
        base: body to take as the base; what it does not carry is left out. Needed where several stand on the world.
        base_mass: mass (kg) of a base to which the file gives none: a ball of water, unless the file gives an inertia.
        outside: follow includes and meshes out of the file's folder.
        strict: refuse the file when anything of it would be lost.
        arguments: values of a xacro file's arguments, by name; kept as text.
        depth: how many robots it is mounted within; a robot that is mounted needs no mass of its base, and a base
            without mass then gets :data:`PLACEHOLDER`, which mounting takes away again.
    """

    repair: bool = False
    base: str | None = None
    base_mass: float | None = None
    outside: bool = False
    strict: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    depth: int = 0

    def __post_init__(self) -> None:
        if self.base_mass is not None:
            object.__setattr__(self, "base_mass", finite(self.base_mass, "base mass", above=0.0))
        texts = {name: _argument_text(value) for name, value in self.arguments.items()}
        object.__setattr__(self, "arguments", texts)

    def check_own(self, source: str | Path) -> None:
        """An error where spacearm's own file, or a robot of the catalogue, is to have another base."""
        if self.base is not None or self.base_mass is not None:
            hint = "a robot file says both itself"
            raise InputError("base and base mass are options for URDF and MJCF", file=source, hint=hint)
        self.check_no_arguments(source)

    def check_no_arguments(self, source: str | Path) -> None:
        """An error where a file that takes no arguments is given some."""
        if self.arguments:
            names = ", ".join(map(quote_text, self.arguments))
            raise InputError(f"takes no arguments, and is given {names}", file=source, hint="xacro files take them")


class RobotImport:
    """Collects the parts of one robot file, its problems, its repairs and what is lost of it.

    Args:
        source: the file, for warnings.
        reading: how the caller wants the file read.
        what: how the format calls a body, for messages.
    """

    def __init__(self, source: str, reading: Reading | None = None, *, what: str = "body") -> None:
        self.source, self.what = source, what
        self.reading = reading or Reading()
        self.losses = Losses(source, strict=self.reading.strict)
        self.problems = Problems()
        self.repairs: list[Repair] = []
        #: names that were changed, as they stand in the file
        self.renamed: dict[str, str] = {}
        #: bodies that had an inertia but no mass, with the mass that each was given
        self._raised: dict[str, float] = {}
        self._welds: list[Weld] = []

    # -- parts ----------------------------------------------------------------------------------------------------

    def note_repair(self, kind: str, place: str, change: str, size: float = 0.0) -> None:
        """Note a repair: the kind is a heading, the change says from what to what."""
        self.repairs.append(Repair(kind, place, change, size))

    def _make_or_substitute(self, place: str, make: Callable[[RobotImport], T], stand_in: T) -> T:
        """What ``make`` makes of raw numbers; where it cannot be, that is a problem, and a stand-in takes its place.

        ``make`` gets the intake to work with, and repairs where that one does: so the problem can say whether
        repairing would help.
        """
        try:
            return make(self)
        except ModelError as error:
            error.locate(place, fallback=True)
            if not self.reading.repair:
                with suppress(ModelError):
                    # Tried on an intake of its own, so that nothing of the attempt is noted here.
                    make(RobotImport(self.source, Reading(repair=True), what=self.what))
                    error.hint = "; ".join(part for part in (error.hint, f"{REPAIRABLE} takes the nearest") if part)
            self.problems.found.append(error)
        return stand_in

    def body(self, name: str, mass: float, tensor: npt.ArrayLike, pose: Pose | None = None) -> Body:
        """A body whose mass centre and principal frame lie at ``pose``; ``tensor`` (kg m2) is about the mass centre."""
        place, pose = f"{self.what} {name!r}", pose or Pose()

        def make(intake: RobotImport) -> Body:
            return Body(name, intake._inertia(name, place, mass, np.asarray(tensor)).transform(pose))

        return self._make_or_substitute(place, make, Body(name, _ANY_BODY))

    def _inertia(self, name: str, place: str, mass: float, tensor: Array) -> Inertia:
        try:
            return Inertia(mass, tensor=tensor)
        except ModelError:
            if not self.reading.repair:
                raise
        mass, nearest = finite(mass, "mass", least=0.0), np.asarray(tensor, dtype=np.float64)
        try:
            # With a mass of one, whether the tensor alone is possible: the mass is looked at afterwards.
            Inertia(1.0, tensor=nearest)
        except ModelError:
            given, nearest = nearest, mending.nearest_tensor(tensor)
            before, after = (np.linalg.eigvalsh(0.5 * (each + each.T)) for each in (given, nearest))
            size = float(np.linalg.norm(nearest - given)) / max(float(np.linalg.norm(given)), 1e-300)
            self.note_repair(
                "no body can have this inertia; replaced by the nearest (least squares) that one can have",
                place,
                f"principal moments {_format_values(before)} -> {_format_values(after)} kg m2, {100 * size:.2g} %",
                size,
            )
        if mass == 0.0 and np.any(nearest):
            mass = self._raised[name] = mending.lightest_mass(nearest)
            self.note_repair(RAISED, place, f"0 -> {mass:.3g} kg", mass)
        return Inertia(mass, tensor=nearest)

    def joint(
        self,
        name: str,
        kind: JointKind,
        parent: str,
        child: str,
        placement: Pose,
        axis: npt.ArrayLike,
        *,
        limits: Mapping[str, float] | None = None,
        damping: float = 0.0,
        friction: float = 0.0,
        **parts: Any,
    ) -> Joint:
        """A joint from raw numbers; ``parts`` as :class:`~spacearm.model.Joint` takes them."""
        place = f"joint {name!r}"

        def make(intake: RobotImport) -> Joint:
            dry = intake._resistance(place, "friction", friction)
            laws: dict[str, Any] = {
                "damping": intake._resistance(place, "damping", damping),
                "friction": Friction(dry, dry) if dry != 0.0 else None,
                "limits": intake._limits(place, limits or {}),
            }
            own, direction = intake._joint_name(name, place), intake._axis(place, axis)
            return Joint(own, kind, parent, child, placement, direction, **laws, **parts)

        return self._make_or_substitute(place, make, Joint(name, kind, parent, child, placement))

    def _joint_name(self, name: str, place: str) -> str:
        try:
            check_joint_name(name)
        except ModelError:
            if not self.reading.repair:
                raise
            new = f"{name}_joint"
            self.renamed[name] = new
            self.note_repair("a joint cannot have the name of another quantity of the state", place, f"now {new!r}")
            return new
        return name

    def _axis(self, place: str, axis: npt.ArrayLike) -> Array:
        array = np.asarray(axis, dtype=np.float64)
        length = float(np.linalg.norm(array)) if array.shape == (3,) else 0.0
        if self.reading.repair and math.isfinite(length) and length > 0.0 and abs(length - 1.0) > 1e-6:
            self.note_repair("the axis is scaled to length 1", place, f"length {length:.9g}", abs(length - 1.0))
            return array / length
        return array

    def _resistance(self, place: str, what: str, value: float) -> float:
        if self.reading.repair and value < 0.0:
            self.note_repair(f"negative {what} would drive its joint", place, f"{value:.6g} -> 0", -value)
            return 0.0
        return value

    def _limits(self, place: str, given: Mapping[str, float]) -> Limits:
        limits = dict(given)
        if self.reading.repair:
            lower, upper = limits.get("lower", -math.inf), limits.get("upper", math.inf)
            if lower > upper:
                kind = "a lower limit above the upper one is read as no limit"
                self.note_repair(kind, place, f"{lower:.6g} to {upper:.6g} left out")
                limits |= {"lower": -math.inf, "upper": math.inf}
            for key in ("velocity", "effort"):
                if limits.get(key, 0.0) < 0.0:
                    self.note_repair(
                        f"a negative {key} limit is read as no limit", place, f"{limits[key]:.6g} left out"
                    )
                    del limits[key]
        return Limits(**limits)

    # -- the robot ------------------------------------------------------------------------------------------------

    def robot(
        self,
        name: str,
        bodies: Sequence[Body],
        *,
        joints: Iterable[Joint] = (),
        welds: Iterable[Weld] = (),
        frames: Iterable[Frame] = (),
        mimics: Iterable[Mimic] = (),
        stacklevel: int = 4,
        **parts: Any,
    ) -> Robot:
        """The robot; all problems as one error; repairs and losses as warnings. ``parts`` as for :func:`fuse`."""
        joints, welds, mimics = list(joints), list(welds), list(mimics)
        robot: Robot | None = None
        with self.problems.collect_errors():
            bodies, joints, welds = self._subtree_of_base(bodies, joints, welds)
            self._welds = welds
            kept = {body.name for body in bodies}
            frames = [frame for frame in frames if frame.body in kept or self.reading.base is None]
            robot = fuse(name, bodies, joints=joints, welds=welds, frames=frames, mend=self._with_mass, **parts)
            robot = self._with_mimics(robot, mimics)
        self.raise_problems(stacklevel=stacklevel + 1)
        assert robot is not None
        self.losses.warn(stacklevel=stacklevel)
        warn_of_repairs(self.source, self.repairs, stacklevel=stacklevel)
        return robot

    def raise_problems(self, *, stacklevel: int = 3) -> None:
        """Raise the problems found so far, if any; what was not read is reported as well, since it may explain them."""
        if not self.problems.found:
            return
        for problem in self.problems.found:
            if problem.message == "the base has no mass":
                problem.hint = f"give it one by base_mass (--base-mass), or use {REPAIRABLE}"
        if not self.reading.strict:
            self.losses.warn(stacklevel=stacklevel + 1)
        self.problems.raise_all()

    def _subtree_of_base(
        self, bodies: Sequence[Body], joints: list[Joint], welds: list[Weld]
    ) -> tuple[Sequence[Body], list[Joint], list[Weld]]:
        """What the body chosen as the base carries; the rest is reported as lost."""
        base = self.reading.base
        if base is None:
            return bodies, joints, welds
        names = [body.name for body in bodies]
        checks.check_name(base, names, self.what, place="base", error=ModelError)
        inside: set[str] = {base}
        parts: list[Joint | Weld] = [*joints, *welds]
        # A closure and not a recursion: the parts may form a cycle, which the robot's own check reports.
        while more := {part.child for part in parts if part.parent in inside} - inside:
            inside |= more
        for body in bodies:
            if body.name not in inside:
                self.losses.add(f"{self.what} {body.name!r}", f"is not beyond the base {base!r}, and is left out")
        return (
            [body for body in bodies if body.name in inside],
            [joint for joint in joints if joint.parent in inside and joint.child != base],
            [weld for weld in welds if weld.parent in inside and weld.child != base],
        )

    def _with_mass(self, bodies: tuple[Body, ...], joints: tuple[Joint, ...]) -> tuple[Body, ...]:
        """Bodies with the base mass that the caller gives, and with stand-ins where repair needs them."""
        carried = {joint.child for joint in joints}
        roots = [body for body in bodies if body.name not in carried]
        if len(roots) != 1:
            return bodies  # no robot: its own check says so
        new = {body.name: body for body in bodies}
        base = roots[0].name
        # A base that the file leaves without mass is common: many arms are drawn on a table.
        given, rest = self.reading.base_mass, sum(body.inertia.mass for body in bodies if body.name != base)
        massless = self._is_massless_base(new[base])
        if given is not None and not massless:
            raise ModelError(
                f"the base has a mass of {new[base].inertia.mass:g} kg already",
                place=f"{self.what} {base!r}",
                hint="base_mass (--base-mass) is for a base without mass",
            )
        if given is not None:
            new[base] = mending.base_with_mass(new[base], given)
        elif massless and self.reading.depth:
            # Mounted somewhere later: its base's mass then does not matter.
            new[base] = replace(new[base], inertia=PLACEHOLDER)
            self._forget_base_mass(base)
        elif massless and self.reading.repair:
            mass = rest or mending.STAND_IN_BASE
            new[base] = mending.base_with_mass(new[base], mass)
            kind = "a base without mass is made as heavy as the rest, a ball of water unless the file gives an inertia"
            self._forget_base_mass(base)
            self.note_repair(f"{kind} (base_mass, --base-mass)", f"{self.what} {base!r}", f"0 -> {mass:.3g} kg", mass)
        if self.reading.repair:
            self._stand_in(new, joints)
        return tuple(new[body.name] for body in bodies)

    def _forget_base_mass(self, base: str) -> None:
        """Without the note that a base was given mass as a link is."""
        own = (RAISED, f"{self.what} {base!r}")
        self.repairs = [each for each in self.repairs if (each.kind, each.place) != own]

    def _is_massless_base(self, base: Body) -> bool:
        """Whether the file gives no mass to the base and to what is welded to it."""
        carrier = {weld.child: weld.parent for weld in self._welds}
        added = 0.0
        for raised, mass in self._raised.items():
            # Mass that repair has put on something welded to the base must not count as the file's.
            name = raised
            while name in carrier:  # a cycle of welds has ended in an error before
                name = carrier[name]
            added += mass if name == base.name else 0.0
        return base.inertia.mass <= added * (1.0 + 1e-12)

    def _stand_in(self, bodies: dict[str, Body], joints: tuple[Joint, ...]) -> None:
        """Balls of water in place of bodies whose joints nothing resists."""
        total = sum(body.inertia.mass for body in bodies.values())
        kind = "a joint that moves no mass gets a ball of water with 1/1000 of the robot's mass"
        mass = mending.STAND_IN_SHARE * total
        for name in mending.find_bodies_without_inertia(tuple(bodies.values()), joints):
            bodies[name] = replace(bodies[name], inertia=mending.water_ball(mass))
            self.note_repair(kind, f"{self.what} {name!r}", f"0 -> {mass:.3g} kg", mass)

    def _with_mimics(self, robot: Robot, mimics: list[Mimic]) -> Robot:
        """The robot whose joints follow others: rigidly, by gears; with repair by couplings, which leave a tree."""
        couplings, loops = list(robot.couplings), list(robot.loops)
        for each in mimics:
            joint, leader = (self.renamed.get(name, name) for name in (each.joint, each.leader))
            if joint not in robot.joint_names:
                continue  # left out with its body
            place = f"joint {joint!r}"
            if not self.reading.repair:
                if leader not in robot.joint_names or leader == joint or each.ratio == 0.0:
                    self.problems.add(
                        f"follows joint {leader!r} (mimic), which moves no other joint", place=place,
                        hint=f"{REPAIRABLE} leaves it free; or make the joint fixed",
                    )  # fmt: skip
                    continue
                name = each.name or f"{joint}.mimic"
                loops.append(Loop(name, "gear", joint, leader, ratio=each.ratio, offset=each.offset))
            elif leader not in robot.joint_names or leader == joint:
                kind = "a mimic joint without a leader that moves is left free"
                self.note_repair(kind, place, f"no joint {leader!r} to follow")
            else:
                couplings.append(mending.mimic_coupling(robot, replace(each, joint=joint, leader=leader)))
                offset = f" + {each.offset:g}" if each.offset else ""
                unit = f"{robot.joint(joint).force_unit}/{robot.joint(joint).unit}"
                self.note_repair(
                    "a mimic joint follows its leader by a spring and damper (100 Hz, critically damped)",
                    place,
                    f"{each.ratio:g} times joint {leader!r}{offset}, {couplings[-1].stiffness:.3g} {unit}",
                )
        if len(couplings) == len(robot.couplings) and len(loops) == len(robot.loops):
            return robot
        return robot.replace(couplings=tuple(couplings), loops=tuple(loops))


def row_of_joints(
    name: str, axes: Sequence[tuple[str, JointKind, npt.ArrayLike]], parent: str, child: str, placement: Pose
) -> tuple[list[Joint], list[Body]]:
    """A joint of several degrees of freedom as a row: ``axes`` are (ending, kind, axis), the parent's side first.

    The joints are called ``name.ending``, and between them are massless bodies ``name.ending.body``.
    """
    joints, between = [], []
    for index, (ending, kind, axis) in enumerate(axes):
        last = index == len(axes) - 1
        beyond = child if last else f"{name}.{ending}.body"
        joints.append(Joint(f"{name}.{ending}", kind, parent, beyond, placement, np.asarray(axis, dtype=np.float64)))
        if not last:
            between.append(Body(beyond, Inertia.massless()))
        # All further axes go through the origin of the first.
        parent, placement = beyond, Pose()
    return joints, between


def _argument_text(value: object) -> str:
    """As xacro reads it: ``true`` and ``false`` in small letters."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format_values(values: npt.ArrayLike) -> str:
    return ", ".join(f"{value:.4g}" for value in np.asarray(values))
