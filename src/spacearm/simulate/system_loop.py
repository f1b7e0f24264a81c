"""Loops between systems of a world: two arms that hold one target, each system with equations and laws of its own.

A loop is a force element whose wrenches are not a function of the state but answer to all other forces; the solver
finds them last, by :mod:`spacearm.mechanics.system_loops`. :class:`~spacearm.simulate.close.Close` and
:class:`~spacearm.simulate.close.Open` add and remove it. Every other change keeps it closed
(:func:`~spacearm.simulate.changes.hold_system_loops`): the velocities that the change leaves are projected on those
that the loops allow, by impulses of the loops alone. SI units, world axes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import number, one_of
from spacearm.engine import Kernel
from spacearm.errors import InputError, error_context
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.structure import Keyed
from spacearm.mechanics.system_loops import LoopBetween, SystemSymbols, loop_rows, system_loop_terms, unit_axis
from spacearm.model import Pose
from spacearm.model.parts import unit_vector
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.simulate.elements import ElementAction, ElementView, ForceElement
from spacearm.simulate.loops import OPEN
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.motion import WorldMotion
    from spacearm.simulate.world import World


@dataclass(frozen=True, eq=False)
class SystemLoop(ForceElement):
    """A loop between frames of two systems.

    Args:
        first, second: frames of different systems, ``<system>/<frame>``.
        kind: ``weld``; ``point``: the second system keeps the point at ``placement`` at the first frame's origin;
            ``axis``: and turns about ``axis`` alone; ``distance``: the points stay ``distance`` apart.
        axis: of a hinge, in the axes of the first frame; z if omitted.
        placement: of the loop's end on the second frame.
        distance: m.
        name: ``<first>+<second>`` if omitted.
    """

    first: str
    second: str
    kind: Literal["weld", "point", "axis", "distance"] = "weld"
    axis: npt.ArrayLike | None = None
    placement: Pose = field(default_factory=Pose)
    distance: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"{self.first}+{self.second}")
        one_of(self.kind, ("weld", "point", "axis", "distance"), "kind", place=self.name)
        if self.axis is not None:
            object.__setattr__(self, "axis", unit_vector(self.axis, "axis of the loop"))
        number(self.distance, "distance", least=0.0, place=self.name)
        if (self.kind == "distance") != (self.distance > 0.0):
            raise InputError(
                f"distance is {self.distance:g}, kind {self.kind!r}", place=self.name,
                hint="expected a distance above zero with kind = 'distance', and only there",
            )  # fmt: skip

    @property
    def internal(self) -> bool:
        return True

    @property
    def binding(self) -> bool:
        return True

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        with error_context(self.name, fallback=True):
            found = [world.frame(self.first), world.frame(self.second)]
            if found[0][0] == found[1][0]:
                raise InputError(
                    f"both ends are frames of {found[0][0]!r}",
                    hint="expected frames of two systems: open the loop, and close it again within the one system",
                )
        return found

    def follow(self, new_owner: Callable[[str, str], tuple[str, str]]) -> SystemLoop:
        first, second = ("/".join(new_owner(*end.split("/", 1))) for end in (self.first, self.second))
        return replace(self, first=first, second=second)

    def numbers(self, world: World) -> Array:
        del world
        return np.concatenate([self.placement.translation, np.ravel(self.placement.rotation), [self.distance]])

    def resolve(self, world: World) -> LoopBetween:
        """The loop in the systems' numbers."""
        systems = [*world.systems]
        first, second = ((systems.index(system), frame) for system, frame in self.frames(world))
        return LoopBetween(self.kind, first, second, unit_axis(self.axis))  # type: ignore[arg-type]

    def structure(self, world: World) -> Hashable:
        frames = tuple((system, world.robot(system).frame(own)) for system, own in self.frames(world))
        return SystemLoop, frames, self.kind, unit_axis(self.axis)  # type: ignore[arg-type]

    def write(self, view: ElementView, world: World) -> ElementAction:
        systems = []
        for name in world.systems:
            at = view.layouts[name]
            own = (view.state[place] for place in (at.position, at.quaternion, at.joints, at.velocity))
            systems.append(SystemSymbols(view.trees[name], *own))
        rows = loop_rows(systems, self.resolve(world), view.numbers)
        # Of both ends: each system contributes by its own Jacobian.
        rate = sum((own @ systems[k].velocity for k, own in rows.jacobians.items()), ca.SX(0))
        # One that is closed the wrong way round has no residual either.
        gap = ca.if_else(rows.facing > 0, ca.mmax(ca.fabs(rows.residual)), 10.0)
        seen: dict[str, SX] = {f"{self.name}.gap": gap, f"{self.name}.rate": ca.mmax(ca.fabs(rate))}
        # What acts is found after all else: see Feedback.
        return ElementAction(dict.fromkeys(self.frames(world), ca.SX.zeros(6)), observations=seen)

    def check_start(self, world: World, seen: Mapping[str, float]) -> None:
        del world
        gap, rate = seen[f"{self.name}.gap"], seen[f"{self.name}.rate"]
        hint = "Close joins two frames in their present poses"
        if not gap <= OPEN:
            raise InputError(f"open by {gap:.3g} m or rad at the start", place=f"loop {self.name!r}", hint=hint)
        if not rate <= OPEN:
            raise InputError(f"opens at {rate:.3g} m/s or rad/s at the start", place=f"loop {self.name!r}", hint=hint)

    def forces(self, world: World, model: WorldMotion, states: Array, inputs: Array) -> Array:
        """Force and moment (T, 6) on the loop's end on the second frame, in the first frame's axes.

        Args:
            states: flat states of all systems (T, nx).
            inputs: of the motion kernel, as recorded (T, ...).
        """
        (system, frame), (other, end) = self.frames(world)
        rotations = []
        for name, own in ((system, frame), (other, end)):
            part = next(part for part in model.parts if part.name == name)
            robot = part.motion.robot
            rotations.append(frame_pose(robot, evaluate_bodies(robot, states[:, part.layout.whole]), own)[0])
        at = model.wrench(other, end, "world", self.name)
        force, moment = inputs[:, at : at + 3], inputs[:, at + 3 : at + 6]
        # The recorded moment is about the frame's origin, that of the loop about its end.
        moment = moment - np.cross(rotations[1] @ self.placement.translation, force)
        return np.concatenate([np.einsum("tij,ti->tj", rotations[0], each) for each in (force, moment)], axis=1)


def system_loops(world: World) -> list[SystemLoop]:
    """The loops between systems of a world."""
    return [element for element in world.elements if isinstance(element, SystemLoop)]


def evaluate_system_loops(world: World, state: Array) -> dict[str, Array]:
    """Residual, rate, Jacobian and first-frame map of all loops between systems at a flat state."""
    loops = system_loops(world)
    key = tuple(robot.structure for robot in world.systems.values()), tuple(each.structure(world) for each in loops)
    kernel = _terms_kernel(Keyed(key, world))
    numbers = np.concatenate([each.numbers(world) for each in loops])
    return dict(kernel({"state": state, "numbers": numbers}))


@lru_cache(maxsize=32)
def _terms_kernel(made: Keyed[World]) -> Kernel:
    world = made.value
    return Kernel(system_loop_terms([*world.systems.values()], [each.resolve(world) for each in system_loops(world)]))
