"""A spring and damper in six axes between two frames, and the changes that fit it and take it away: a soft latch."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array
from spacearm.errors import InputError, at, did_you_mean
from spacearm.mechanics.spatial import SX
from spacearm.model import Pose
from spacearm.simulate.changes import OWN, Change, Changed, Terms
from spacearm.simulate.elements import Action, ForceElement, View
from spacearm.simulate.state import State
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.simulate.world import World


def rotation_vector(rotation: SX) -> SX:
    """Axis times angle (rad, below pi) of a rotation matrix."""
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

    With the second frame's place and attitude in the first, less those of ``rest``, and their rates: forces
    ``-stiffness * place - damping * rate`` along the first's axes on the second frame's origin, moments likewise, with
    the rotation vector as attitude. The first gets the opposite.

    Args:
        first, second: frames of different bodies.
        stiffness, damping: six numbers: N/m and N m/rad, N s/m and N m s/rad.
        rest: pose of the second frame in the first where springs are slack.
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
        with at(self.name, fallback=True):
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

    def write(self, view: View, world: World) -> Action:
        keys = [world.frame(self.first), world.frame(self.second)]
        a, b = (view.frame(*key) for key in keys)
        x, turn = view.numbers, a.pose.rotation
        rest = ca.reshape(x[15:24], 3, 3).T
        arm = b.pose.origin - a.pose.origin
        # Rates as the first frame, which turns, sees them.
        drift = turn.T @ (b.velocity - a.velocity - ca.cross(a.angular_velocity, arm))
        spin = turn.T @ (b.angular_velocity - a.angular_velocity)
        relative = turn.T @ b.pose.rotation @ rest.T
        stretch = ca.vertcat(turn.T @ arm - x[12:15], rotation_vector(relative))
        pull = -x[:6] * stretch - x[6:12] * ca.vertcat(drift, spin)
        # Opposite wrenches at the same point, the second frame's origin: nothing is gained in sum.
        force, moment = turn @ pull[:3], turn @ pull[3:]
        return Action({keys[0]: -ca.vertcat(force, moment + ca.cross(arm, force)), keys[1]: ca.vertcat(force, moment)})


@dataclass(frozen=True, eq=False)
class Connect(Change):
    """Fit a bushing between two frames as they are now: a latch that holds softly. Nothing jumps by it."""

    bushing: Bushing

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        poses = []
        for system, frame in self.bushing.frames(world):
            poses.append(terms.frame_pose(world.own_robot(system), states[system], frame))
        (p1, r1), (p2, r2) = poses
        fitted = replace(self.bushing, rest=Pose(r1.T @ r2, r1.T @ (p2 - p1)))
        after = world.replace(elements=(*world.elements, fitted))
        return Changed(after, states, f"{self.bushing.name} connects {self.bushing.first} and {self.bushing.second}")


@dataclass(frozen=True, eq=False)
class Disconnect(Change):
    """Take a force element away; what it stores is gone with it."""

    name: str

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        del terms
        rest = tuple(element for element in world.elements if element.name != self.name)
        if len(rest) == len(world.elements):
            known = [element.name for element in world.elements]
            raise InputError(f"there is no {self.name!r}", place="disconnect", hint=did_you_mean(self.name, known))
        return Changed(world.replace(elements=rest), states, f"{self.name} taken away")
