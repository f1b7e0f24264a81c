"""A world: named systems, what is locked in them, what acts on them, and their states as one flat vector.

The flat state has the systems' states one behind the other, in the order of ``systems``, each laid out by
:class:`~spacearm.model.layout.Layout`. A world is never changed: a change of a run (attach, separate, lock) makes a
new one, so that the states on both sides of the change can be judged against each other.

Names are resolved here and nowhere else: ``frame``, ``joint`` and ``dof`` take ``system/part`` or ``part`` and give
the system with the part's own name. A short name serves where one system only has such a part; in a world of several
systems labels are always full, so that equal locks are recognised however they were spelled. What was attached is
remembered with the robots as they were, which is what makes detaching exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.robot import BASE_POSITION, RATE_ENDING
from spacearm.simulate.checks import check_mapping
from spacearm.simulate.elements import ForceElement
from spacearm.simulate.overrides import robot_parameters, with_parameters
from spacearm.simulate.state import State
from spacearm.typing import Array

#: One state, or one for each system of a world.
States: TypeAlias = State | Mapping[str, State]
Overrides: TypeAlias = Mapping[str, npt.ArrayLike]
#: Between the name of a system and that of one of its parts.
SEPARATOR = "/"


@dataclass(frozen=True, eq=False)
class Attachment:
    """A system that was attached to another: what both were, and what they are together.

    ``pin`` is the joint between them, empty where they are rigidly joined; ``locked`` are the degrees of freedom of the
    guest's base that were locked, by their own names.
    """

    host: str
    guest: str
    robots: tuple[Robot, Robot]
    joined: Robot
    prefix: str
    pin: str = ""
    locked: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class World:
    """Named systems, each a robot, in the order of their blocks in the flat state.

    In a world of several systems a part is called ``<system>/<part>``; ``<part>`` alone serves where one system only
    has it.

    Args:
        systems: name to robot; each robot's ``base`` says how its base may move.
        locked: degrees of freedom that do not move in any phase, until they are released; those that the systems' bases
            do not have are added.
        overrides: system to numbers in place of its robot's own, as for :func:`~spacearm.simulate.simulate`.
        loads: frames that phases will push: one program then serves all of them.
        elements: what acts on the systems as they move: gravity, contacts, springs between them.
        attachments: systems that were attached to others, the latest last.
    """

    systems: Mapping[str, Robot]
    locked: tuple[str, ...] = ()
    overrides: Mapping[str, Overrides] = field(default_factory=dict)
    loads: tuple[LoadFrame, ...] = ()
    elements: tuple[ForceElement, ...] = ()
    attachments: tuple[Attachment, ...] = ()

    def __post_init__(self) -> None:
        check_mapping(self.systems, "world", "name to robot")
        if not self.systems:
            raise InputError("there is no system", place="world", hint="expected at least one robot")
        for name, robot in self.systems.items():
            if not isinstance(robot, Robot):
                raise InputError(
                    f"system {quote_text(name)} is {quote_text(robot)}", place="world", hint="expected a Robot"
                )
            # A single system needs no name: its parts are called by their own.
            if len(self.systems) > 1 and (not isinstance(name, str) or not name or SEPARATOR in name):
                raise InputError(
                    f"{quote_text(name)} is not a name", place="world", hint=f"expected text without {SEPARATOR}"
                )
        for name in self.overrides:
            self.robot(name)
        object.__setattr__(self, "systems", dict(self.systems))
        self._check_elements()
        # Labels in one form only: equal locks are recognised however they were spelled.
        named = [*(self.label(*self.dof(name)) for name in self.locked), *self.base_locks]
        object.__setattr__(self, "locked", tuple(dict.fromkeys(named)))

    def __repr__(self) -> str:
        parts = [f"{name} ({robot.n} joints)" for name, robot in self.systems.items()]
        parts += [f"{len(self.elements)} force elements"] * bool(self.elements)
        return f"World({', '.join(parts)})"

    def _check_elements(self) -> None:
        given = (self.elements,) if isinstance(self.elements, ForceElement) else tuple(self.elements)
        object.__setattr__(self, "elements", given)
        for element in given:
            if not isinstance(element, ForceElement):
                raise InputError(
                    f"{quote_text(element)} is not a force element", place="world", hint="expected a Contact ..."
                )
            if [each.name for each in given].count(element.name) > 1:
                raise InputError(f"several elements are called {element.name!r}", place="world", hint="give them names")
            # Raises an error for a frame that no system has.
            element.frames(self)

    @classmethod
    def from_robots(cls, robots: Robot | World | Mapping[str, Robot], overrides: Overrides | None = None) -> World:
        """A world as it is; one robot as a world of its own, with these overrides."""
        if isinstance(robots, Robot):
            return cls({robots.name: robots}, overrides={robots.name: overrides} if overrides else {})
        if not isinstance(robots, World | Mapping):
            raise InputError(
                f"the robot is {quote_text(robots)}", place="simulate", hint="expected a Robot, as load(file) gives it"
            )
        if overrides:
            raise InputError(
                "a world has overrides of its own", place="overrides", hint="give them to World(..., overrides=...)"
            )
        return robots if isinstance(robots, World) else cls(robots)

    def replace(self, **changes: object) -> World:
        """A copy with other fields."""
        return replace(self, **changes)  # type: ignore[arg-type]

    @property
    def smooth(self) -> bool:
        """Whether all forces are, between events."""
        return all(element.smooth for element in self.elements)

    @property
    def base_locks(self) -> tuple[str, ...]:
        """Degrees of freedom that the bases of its systems do not have: see :class:`~spacearm.model.BaseConstraint`."""
        return tuple(self.label(name, own) for name, robot in self.systems.items() for own in robot.base.locked_dofs)

    def with_lasting(
        self, elements: Sequence[ForceElement], new_owner: Callable[[str, str], tuple[str, str]] | None = None
    ) -> World:
        """World with those of these elements whose frames it has; ``new_owner``: see :meth:`ForceElement.follow`."""
        lasting = []
        for each in elements:
            element = each if new_owner is None else each.follow(new_owner)
            try:
                element.frames(self)
            except InputError:
                # A loop cannot just end: the systems that it holds would fly apart unnoticed.
                if element.binding:
                    raise
                continue
            lasting.append(element)
        return self.replace(elements=tuple(lasting))

    @cached_property
    def parameters(self) -> tuple[dict[str, Array], ...]:
        """The numbers of each system, with its overrides."""
        return tuple(robot_parameters(robot, self.overrides.get(name)) for name, robot in self.systems.items())

    def own_robot(self, system: str) -> Robot:
        """The robot of a system with its overrides as its own numbers."""
        robot, given = self.robot(system), self.overrides.get(system, {})
        return with_parameters(robot, {name: np.ravel(value) for name, value in given.items()}) if given else robot

    # -- names --------------------------------------------------------------------------------------------------

    def robot(self, system: str) -> Robot:
        if system not in self.systems:
            raise InputError(
                f"there is no system {quote_text(system)}", place="world", hint=did_you_mean(system, self.systems)
            )
        return self.systems[system]

    def label(self, system: str, part: str) -> str:
        """A part's name in this world."""
        return part if len(self.systems) == 1 else f"{system}{SEPARATOR}{part}"

    def _find(self, name: str, what: str, parts: Mapping[str, Sequence[str]]) -> tuple[str, str]:
        # A short name serves where only one system has it; a full name always does.
        found = [(system, name) for system, names in parts.items() if name in names]
        system, _, part = str(name).partition(SEPARATOR)
        if part in parts.get(system, ()):
            found.append((system, part))
        if len(found) == 1:
            return found[0]
        if found:
            hint = " or ".join(f"{owner}{SEPARATOR}{part}" for owner, part in found)
            raise InputError(f"several systems have a {what} {quote_text(name)}", hint=f"expected {hint}")
        known = [self.label(owner, part) for owner, names in parts.items() for part in names]
        raise InputError(f"there is no {what} {quote_text(name)}", hint=did_you_mean(str(name), known))

    def dof(self, name: str) -> tuple[str, str]:
        """System and own name of a degree of freedom."""
        if isinstance(name, str) and name in self._dofs:
            return self._dofs[name]
        found = self._find(name, "degree of freedom", {key: robot.dof_names for key, robot in self.systems.items()})
        self._dofs[name] = found
        return found

    @cached_property
    def _dofs(self) -> dict[str, tuple[str, str]]:
        """Degrees of freedom that have been looked up."""
        return {}

    def thruster(self, name: str) -> tuple[str, str]:
        """System and own name of a thruster."""
        thrusters = {key: [each.name for each in robot.thrusters] for key, robot in self.systems.items()}
        return self._find(name, "thruster", thrusters)

    def joint(self, name: str) -> tuple[str, str]:
        return self._find(name, "joint", {key: robot.joint_names for key, robot in self.systems.items()})

    def frame(self, name: str) -> tuple[str, str]:
        """System and own name of a frame; a body's name stands for its own frame."""
        frames = {
            key: [*(frame.name for frame in robot.frames), *robot.body_names] for key, robot in self.systems.items()
        }
        return self._find(name, "frame", frames)

    def quantity(self, name: str) -> int:
        """Place in the flat state of a joint's position, of ``<joint>.rate``, ``base_x`` ... or ``base_vx`` ..."""
        known: dict[str, dict[str, int]] = {}
        for system, robot in self.systems.items():
            at = self.layouts[system]
            known[system] = {own: at.position.start + i for i, own in enumerate(BASE_POSITION)}
            known[system] |= {own: at.speed(i) for i, own in enumerate(robot.dof_names[:6])}
            for i, own in enumerate(robot.joint_names):
                known[system] |= {own: at.joint(i), own + RATE_ENDING: at.speed(6 + i)}
        system, own = self._find(name, "quantity", {key: tuple(names) for key, names in known.items()})
        return known[system][own]

    # -- states -------------------------------------------------------------------------------------------------

    @cached_property
    def layouts(self) -> dict[str, Layout]:
        """Layout of each system's block in the flat state."""
        found: dict[str, Layout] = {}
        at = 0
        for name, robot in self.systems.items():
            found[name] = Layout(robot.n, at)
            at = found[name].stop
        return found

    def flat(self, states: States) -> Array:
        """The states of all systems as one vector."""
        if isinstance(states, State):
            if len(self.systems) > 1:
                raise InputError(
                    "the start is one State", place="world", hint=f"expected one for each of {', '.join(self.systems)}"
                )
            states = dict.fromkeys(self.systems, states)
        if not isinstance(states, Mapping):
            raise InputError(
                f"the start is {type(states).__name__}",
                place="simulate",
                hint="expected a State, as State.at_rest(robot)",
            )
        if {*states} != {*self.systems}:
            raise InputError(
                f"the start has states of {', '.join(map(str, states)) or 'nothing'}",
                place="world",
                hint=f"expected {', '.join(self.systems)}",
            )
        for name, state in states.items():
            if not isinstance(state, State):
                raise InputError(
                    f"the start of {name!r} is {quote_text(state)}", place="world", hint="expected a State"
                )
        return np.concatenate([states[name].check(robot).vector for name, robot in self.systems.items()])

    def states(self, vector: Array) -> dict[str, State]:
        """Each system's state from the one vector."""
        return {name: State.from_vector(vector[at.whole]) for name, at in self.layouts.items()}
