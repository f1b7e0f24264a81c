"""Changes that close a loop of a system and open it again: a second hand takes hold of what the first one has.

Method: closing is a plastic impact. The loop's Jacobian J joins those that are closed already, and what is free keeps
its momentum but for impulses J^T f, which bring J v to zero (:func:`~spacearm.simulate.changes.redistribute`). Energy
is lost and booked; the momentum of the whole is kept, since the impulses are equal and opposite. Both frames stay
where they are: the loop is made to fit them, by a frame of the second body where the first one is, so that it is
closed to rounding and no position has to be corrected.

Between frames of one system the loop becomes part of the robot, and so of its motion program; between two systems it
is a force element (:class:`~spacearm.simulate.system_loop.SystemLoop`), and both keep their names and laws. SI units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import one_of
from spacearm.errors import InputError, did_you_mean
from spacearm.model import Frame, Loop, Pose, Robot
from spacearm.model.parts import unit_vector
from spacearm.simulate.changes import (
    SPACEARM_TERMS,
    Change,
    ChangeResult,
    Terms,
    base_impulse,
    find_held,
    hold_system_loops,
    kinetic_energy,
    name_tuple,
    redistribute,
    replace_velocity,
)
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import SystemLoop, system_loops
from spacearm.simulate.world import World


@dataclass(frozen=True, eq=False)
class Close(Change):
    """Join two frames in their present poses, by a plastic impact.

    Two arms of one robot on one target: :class:`Attach` gives the target to the first hand, and this the second hand to
    the target, which by then is a part of the same system. Frames of two systems are joined by a
    :class:`SystemLoop`, and the systems keep their names and laws: two robots on one target.

    Args:
        first, second: frames. The loop is called ``<first>+<second>``.
        kind: ``weld``; ``point``: the second body keeps the point that is at the first frame's origin now; ``axis``:
            and turns about ``axis`` alone; ``distance``: the origins keep their distance.
        axis: of a hinge, in the axes of the first frame; z if omitted.
        held: degrees of freedom that keep their velocity in the impact: joints moved by stiff drives.
    """

    first: str
    second: str
    kind: Literal["weld", "point", "axis", "distance"] = "weld"
    axis: npt.ArrayLike | None = None
    held: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        one_of(self.kind, ("weld", "point", "axis", "distance"), "kind", place="close")
        if self.axis is not None:
            unit_vector(self.axis, "axis of the loop")

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        (system, first), (other, second) = world.frame(self.first), world.frame(self.second)
        if system != other:
            return self._close_between(world, states, terms)
        robot, state = world.own_robot(system), states[system]
        closed = self._join(robot, state, first, second, terms)
        mass, stuck = terms.mass_matrix(robot, state), find_held(world, system, name_tuple(self.held))
        # Of the new loop and of those that are closed already: the impact must not open these.
        loops = terms.loop_jacobian(closed, state)
        velocity, impulse = redistribute(mass, mass @ state.velocity, state.velocity, stuck, loops)
        lost = kinetic_energy(mass, state.velocity) - kinetic_energy(mass, velocity)
        labels = {world.label(system, robot.dof_names[i]): float(impulse[i]) for i in stuck}
        after = _replace_robot(world, system, closed)
        left = {**states, system: replace_velocity(state, velocity)}
        text = f"{self.second} joined to {self.first}"
        outside = base_impulse(state, impulse)
        return ChangeResult(after, left, text, lost, labels, external=outside, point=state.position)

    def _close_between(self, world: World, states: Mapping[str, State], terms: Terms) -> ChangeResult:
        """A loop between two systems, which stay systems of their own."""
        ends = [world.frame(self.first), world.frame(self.second)]
        (p1, r1), (p2, r2) = (
            terms.frame_pose(world.own_robot(system), states[system], frame) for system, frame in ends
        )
        one, two = (world.label(*end) for end in ends)
        name = f"{self.first}+{self.second}"
        if name in {element.name for element in world.elements}:
            raise InputError(
                f"{self.first!r} and {self.second!r} are joined already", place="close", hint="use Open first"
            )
        if self.kind == "distance":
            loop = SystemLoop(one, two, self.kind, distance=float(np.linalg.norm(p2 - p1)), name=name)
        else:
            # Its end on the second frame is where the first frame is: the loop is closed to rounding.
            placement = Pose(r2.T @ r1, r2.T @ (p1 - p2))
            axis = self.axis if self.kind == "axis" else None
            loop = SystemLoop(one, two, self.kind, axis=axis, placement=placement, name=name)
        after = world.replace(elements=(*world.elements, loop))
        joined = ChangeResult(after, states, f"{self.second} joined to {self.first}", point=states[ends[0][0]].position)
        return hold_system_loops(joined, self.held_names, terms, struck=name)

    def _join(self, robot: Robot, state: State, first: str, second: str, terms: Terms) -> Robot:
        """The robot with the loop, made to fit."""
        (p1, r1), (p2, r2) = (terms.frame_pose(robot, state, end) for end in (first, second))
        name = f"{first}+{second}"
        if name in {loop.name for loop in robot.loops}:
            raise InputError(f"{first!r} and {second!r} are joined already", place="close", hint="use Open first")
        if self.kind == "distance":
            loop = Loop(name, self.kind, first, second, distance=float(np.linalg.norm(p2 - p1)))
            return robot.replace(loops=(*robot.loops, loop))
        # A frame of the second body where the first frame is: the loop is closed to rounding.
        own = robot.frame(second)
        end = Frame(f"{name}.end", own.body, own.placement @ Pose(r2.T @ r1, r2.T @ (p1 - p2)))
        axis = None if self.axis is None else unit_vector(self.axis, "axis of the loop")
        loop = Loop(name, self.kind, first, end.name, axis=axis if self.kind == "axis" else None)
        return robot.replace(frames=(*robot.frames, end), loops=(*robot.loops, loop))


@dataclass(frozen=True, eq=False)
class Open(Change):
    """Open a loop; both ends go on as they move.

    Args:
        loop: its name: after :class:`Close` that is ``<first>+<second>``, without the system's name.
    """

    loop: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        del terms
        if any(loop.name == self.loop for loop in system_loops(world)):
            rest = tuple(element for element in world.elements if element.name != self.loop)
            return ChangeResult(world.replace(elements=rest), states, f"{self.loop} opened")
        known = {loop.name: name for name, robot in world.systems.items() for loop in robot.loops}
        if self.loop not in known:
            raise InputError(
                f"there is no loop {self.loop!r}",
                place="open",
                hint=did_you_mean(self.loop, [*known, *(loop.name for loop in system_loops(world))])
                or "use Close first",
            )
        system = known[self.loop]
        robot = world.own_robot(system)
        # The frame that Close made goes too, so that the same frames can be joined again.
        frames = tuple(frame for frame in robot.frames if frame.name != f"{self.loop}.end")
        opened = robot.replace(loops=tuple(each for each in robot.loops if each.name != self.loop), frames=frames)
        return ChangeResult(_replace_robot(world, system, opened), states, f"{self.loop} opened")


def _replace_robot(world: World, system: str, robot: Robot) -> World:
    """The world with another robot of the same degrees of freedom; what was attached to it stays so."""
    attachments = tuple(
        replace(each, joined=robot) if each.joined is world.systems[system] else each for each in world.attachments
    )
    # The robot has its overrides as its own numbers by now; left in the world they would count for another set of
    # bodies.
    overrides = {name: values for name, values in world.overrides.items() if name != system}
    return world.replace(systems={**world.systems, system: robot}, overrides=overrides, attachments=attachments)
