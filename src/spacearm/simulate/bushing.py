"""A spring and damper in six axes between two frames, and the changes that add and remove it: a compliant latch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array
from spacearm.errors import InputError, did_you_mean, error_context
from spacearm.mechanics.spatial import SX
from spacearm.model import Pose
from spacearm.simulate.changes import SPACEARM_TERMS, Change, ChangeResult, Terms
from spacearm.simulate.elements import ElementAction, ElementView, ForceElement
from spacearm.simulate.state import State
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.world import World


def rotation_vector(rotation: SX) -> SX:
    """Axis times angle (rad, below pi) of a rotation matrix."""
    # The skew part of a rotation is axis times sine, its trace gives the cosine: atan2 of both keeps its digits at
    # small angles, where an arc cosine of the trace loses half of them.
    twice = ca.vertcat(
        rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]
    )
    sine, cosine = 0.5 * ca.sqrt(ca.sumsqr(twice) + 1e-200), 0.5 * (ca.trace(rotation) - 1)
    # angle / sine tends to 1; below 1e-8 it is 1 to rounding, and the quotient would be 0 / 0 at zero.
    small = sine < 1e-8
    factor = ca.if_else(small, 1, ca.atan2(sine, cosine) / ca.if_else(small, 1, sine))
    return 0.5 * factor * twice


@dataclass(frozen=True, eq=False)
class Bushing(ForceElement):
    """Springs and dampers along and about three axes between two frames.

    Displacement and rotation vector are those of the second frame in the first, relative to ``rest``: forces
    ``-stiffness * displacement - damping * rate`` act along the first's axes on the second frame's origin, moments
    likewise with the rotation vector. The first frame gets the opposite.

    Args:
        first, second: frames of different bodies.
        stiffness, damping: six numbers: N/m and N m/rad, N s/m and N m s/rad.
        rest: pose of the second frame in the first at which springs are relaxed.
    """

    first: str
    second: str
    stiffness: npt.ArrayLike
    damping: npt.ArrayLike = (0.0,) * 6
    rest: Pose = field(default_factory=Pose)
    name: str = "bushing"

    def __post_init__(self) -> None:
        for what in ("stiffness", "damping"):
            array(getattr(self, what), what, (6,), least=0.0, place=self.name)

    @property
    def internal(self) -> bool:
        return True

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        with error_context(self.name, fallback=True):
            found = [world.frame(self.first), world.frame(self.second)]
            if found[0] == found[1]:
                raise InputError(f"both ends are frame {self.first!r}", hint="expected two frames")
        return found

    def structure(self, world: World) -> Hashable:
        frames = tuple((system, world.robot(system).frame(own)) for system, own in self.frames(world))
        return (Bushing, frames) if type(self) is Bushing else super().structure(world)

    def numbers(self, world: World) -> Array:
        del world
        parts = (self.stiffness, self.damping, self.rest.translation, self.rest.rotation)
        return np.concatenate([np.ravel(part) for part in parts])

    def write(self, view: ElementView, world: World) -> ElementAction:
        keys = [world.frame(self.first), world.frame(self.second)]
        a, b = (view.frame(*key) for key in keys)
        x, rotation = view.numbers, a.pose.rotation
        rest = ca.reshape(x[15:24], 3, 3).T
        arm = b.pose.origin - a.pose.origin
        # Rates as seen in the first frame, which rotates.
        drift = rotation.T @ (b.velocity - a.velocity - ca.cross(a.angular_velocity, arm))
        angular_rate = rotation.T @ (b.angular_velocity - a.angular_velocity)
        # Deviation from the rest attitude, in the first frame's axes: zero rotation when the spring is relaxed.
        relative = rotation.T @ b.pose.rotation @ rest.T
        interval = ca.vertcat(rotation.T @ arm - x[12:15], rotation_vector(relative))
        pull = -x[:6] * interval - x[6:12] * ca.vertcat(drift, angular_rate)
        # Opposite wrenches at the same point, the second frame's origin: their sum is zero.
        force, moment = rotation @ pull[:3], rotation @ pull[3:]
        return ElementAction(
            {keys[0]: -ca.vertcat(force, moment + ca.cross(arm, force)), keys[1]: ca.vertcat(force, moment)}
        )


@dataclass(frozen=True, eq=False)
class Connect(Change):
    """Add a bushing between two frames in their present poses: a compliant latch. Nothing jumps."""

    bushing: Bushing

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        poses = []
        for system, frame in self.bushing.frames(world):
            poses.append(terms.frame_pose(world.own_robot(system), states[system], frame))
        (p1, r1), (p2, r2) = poses
        # Relaxed in the present pose: the latch closes without stored energy.
        fitted = replace(self.bushing, rest=Pose(r1.T @ r2, r1.T @ (p2 - p1)))
        after = world.replace(elements=(*world.elements, fitted))
        return ChangeResult(
            after, states, f"{self.bushing.name} connects {self.bushing.first} and {self.bushing.second}"
        )


@dataclass(frozen=True, eq=False)
class Disconnect(Change):
    """Remove a force element; its stored energy is lost."""

    name: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        del terms
        rest = tuple(element for element in world.elements if element.name != self.name)
        if len(rest) == len(world.elements):
            known = [element.name for element in world.elements]
            raise InputError(f"there is no {self.name!r}", place="disconnect", hint=did_you_mean(self.name, known))
        return ChangeResult(world.replace(elements=rest), states, f"{self.name} removed")
