"""Joints as they are: friction with bristles (LuGre), backlash, hysteresis (Bouc-Wen), as force elements.

A joint's own dry friction is Coulomb's, which sticks exactly and needs no stiffness. These laws have a memory that is
integrated with the state, so that what happens before sliding is there too.

- LuGre (Canudas de Wit, Olsson, Astrom and Lischinsky, IEEE Trans. Automatic Control 40(3), 1995): bristles of mean
  deflection z, z' = v - s0 |v| z / g(v), force s0 z + s1 z' + s2 v, Stribeck's curve g = c + (s - c) exp(-(v / vs)^2).
- Bouc-Wen (Wen, J. Engineering Mechanics Division ASCE 102(2), 1976), normalised: z' = (v - b |v| |z|^(n-1) z -
  (1 - b) v |z|^n) / Y, force a k q + (1 - a) k Y z. With n = 1 and a = 0 it is Dahl's law.
- Backlash: a gap between two joints, beyond it a spring and a damper that do not pull. The flanks are events, so that
  steps end on them.

Positions and forces are those of the joint: rad and N m, or m and N.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import casadi as ca
import numpy as np

from spacearm import checks
from spacearm.errors import InputError, error_context
from spacearm.mechanics.spatial import SX
from spacearm.simulate.elements import ElementAction, ElementEvent, ElementView, ForceElement
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Fraction of a memory's range to which it is integrated.
FINE = 1e-9


class JointElement(ForceElement):
    """A force on joints as a function of their positions and rates."""

    smooth = False
    name: str

    @property
    @abstractmethod
    def joints(self) -> tuple[str, ...]:
        """The joints that it acts on."""

    @property
    @abstractmethod
    def values(self) -> tuple[float, ...]:
        """Numbers of the law."""

    def places(self, world: World) -> list[tuple[str, str]]:
        """System and own name of its joints."""
        with error_context(self.name, fallback=True):
            return [world.joint(name) for name in self.joints]

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        self.places(world)
        return ()

    def numbers(self, world: World) -> Array:
        return np.array(self.values, dtype=np.float64)

    def structure(self, world: World) -> Hashable:
        places = tuple((system, world.robot(system).joint_index(own)) for system, own in self.places(world))
        return type(self), places

    def motion(self, view: ElementView, world: World) -> list[tuple[SX, SX]]:
        """Position and rate of each of its joints."""
        found = []
        for system, own in self.places(world):
            index, at = world.robot(system).joint_index(own), view.layouts[system]
            found.append((view.state[at.joint(index)], view.state[at.speed(6 + index)]))
        return found


@dataclass(frozen=True, eq=False)
class LuGre(JointElement):
    """Friction of a joint with bristles: it creeps before it slides, follows Stribeck's curve, and lags.

    It comes in addition to the joint's own damping and dry friction.

    Args:
        joint: on which it acts.
        coulomb: force while sliding fast, N or N m.
        static: force at which it breaks loose, the same if omitted.
        stribeck: rate at which the curve has fallen by 63 % from static to Coulomb friction, rad/s or m/s.
        stiffness: of the bristles, N m/rad or N/m.
        damping: of the bristles, N m s/rad or N s/m.
        viscous: N m s/rad or N s/m.
        load: friction for each N m that the joint's coupling transmits: that of a gear under load. It adds to Coulomb
            and static friction.
    """

    joint: str
    coulomb: float
    static: float | None = None
    stribeck: float = 0.01
    stiffness: float = 1e4
    damping: float = 0.0
    viscous: float = 0.0
    load: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"friction of {self.joint}")
        for key in ("coulomb", "stribeck", "stiffness"):
            checks.positive(getattr(self, key), key, place=self.name)
        for key in ("damping", "viscous", "load"):
            checks.non_negative(getattr(self, key), key, place=self.name)
        if self.static is not None:
            checks.number(self.static, "static", least=self.coulomb, place=self.name)

    @property
    def joints(self) -> tuple[str, ...]:
        return (self.joint,)

    @property
    def values(self) -> tuple[float, ...]:
        static = self.coulomb if self.static is None else self.static
        return (self.coulomb, static, self.stribeck, self.stiffness, self.damping, self.viscous, self.load)

    def memory(self, world: World) -> Array:
        del world
        return np.zeros(1)

    def scale(self, world: World) -> Array:
        del world
        # Bristles bend by at most Coulomb friction over stiffness: their range.
        return np.array([FINE * self.coulomb / self.stiffness])

    def _coupling(self, world: World) -> tuple[int, int, int] | None:
        """Number of the joint's coupling, and its two joints."""
        ((system, own),) = self.places(world)
        robot = world.robot(system)
        for k, part in enumerate(robot.couplings):
            if own in (part.first, part.second):
                # The first that has the joint: a gear's load is that of its own transmission.
                return k, robot.joint_index(part.first), robot.joint_index(part.second)
        raise InputError(
            f"joint {self.joint!r} has no coupling whose torque could load it",
            place=self.name,
            hint="give the joint a transmission, or load = 0",
        )

    def frames(self, world: World) -> Sequence[tuple[str, str]]:
        super().frames(world)
        if self.load > 0.0:
            self._coupling(world)
        return ()

    def numbers(self, world: World) -> Array:
        if self.load == 0.0:
            return super().numbers(world)
        ((system, _),) = self.places(world)
        found = self._coupling(world)
        assert found is not None
        own = world.parameters[list(world.systems).index(system)]["coupling"]
        return np.concatenate([super().numbers(world), own[4 * found[0] : 4 * found[0] + 4]])

    def structure(self, world: World) -> Hashable:
        return super().structure(world), None if self.load == 0.0 else self._coupling(world)

    def write(self, view: ElementView, world: World) -> ElementAction:
        ((system, own),) = self.places(world)
        ((_, rate),) = self.motion(view, world)
        coulomb, static, stribeck, stiffness, damping, viscous, load = ca.vertsplit(view.numbers[:7])
        more, z = ca.SX(0), view.memory[0]
        if self.load > 0.0:
            found = self._coupling(world)
            assert found is not None
            # The torque that the teeth carry follows from the coupling's deflection, a state: the load of this very
            # instant.
            spring, _, ratio, rest = ca.vertsplit(view.numbers[7:11])
            first, second = (view.state[view.layouts[system].joint(i)] for i in found[1:])
            # What the coupling's spring transmits; its damper's small part is left out.
            more = load * ca.fabs(spring * (first - ratio * second - rest))
        # Stribeck's curve g(v): sliding never starts below the level at which it breaks loose.
        curve = coulomb + more + (static - coulomb) * ca.exp(-((rate / stribeck) ** 2))
        # z' = v - s0 |v| z / g(v): bristles follow slow motions and saturate at g / s0 in fast ones.
        slip = rate - stiffness * ca.fabs(rate) * z / curve
        force = stiffness * z + damping * slip + viscous * rate
        return ElementAction(forces={(system, own): -force}, rate=ca.vertcat(slip))


@dataclass(frozen=True, eq=False)
class BoucWen(JointElement):
    """A joint's spring with hysteresis: cables, rubber, flexures that slip inside.

    Args:
        joint: on which it acts.
        stiffness: of the first loading, N m/rad or N/m.
        displacement: at which the loop yields, rad or m.
        elastic: share of the stiffness that remains after yielding, 0 to 1.
        sharpness: n, at least 1: how sharply it yields.
        shape: b, 0 to 1: share of the term that depends on the sign of the rate; one half makes unloading linear.
        rest: position at which it is relaxed.
    """

    joint: str
    stiffness: float
    displacement: float
    elastic: float = 0.0
    sharpness: float = 1.0
    shape: float = 0.5
    rest: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"hysteresis of {self.joint}")
        for key in ("stiffness", "displacement"):
            checks.positive(getattr(self, key), key, place=self.name)
        for key in ("elastic", "shape"):
            checks.number(getattr(self, key), key, least=0.0, most=1.0, place=self.name)
        checks.number(self.sharpness, "sharpness", least=1.0, place=self.name)
        checks.number(self.rest, "rest", place=self.name)

    @property
    def joints(self) -> tuple[str, ...]:
        return (self.joint,)

    @property
    def values(self) -> tuple[float, ...]:
        return (self.stiffness, self.displacement, self.elastic, self.sharpness, self.shape, self.rest)

    def memory(self, world: World) -> Array:
        del world
        return np.zeros(1)

    def scale(self, world: World) -> Array:
        del world
        return np.array([FINE])

    def write(self, view: ElementView, world: World) -> ElementAction:
        ((system, own),) = self.places(world)
        ((position, rate),) = self.motion(view, world)
        stiffness, displacement, elastic, sharpness, shape, rest = ca.vertsplit(view.numbers)
        z = view.memory[0]
        # |z|^n with the sign of z, finite with its derivative at zero.
        size = ca.fmax(ca.fabs(z), 1e-300) ** sharpness
        # The first term loads, the second makes loading and unloading differ, the third bounds |z| by one.
        # For |z| near one and a rate that goes on, the bracket is rate (1 - |z|^n): z stops at one. Reversed, the two
        # terms have opposite signs, and z falls back along another branch: that is the loop.
        slope = (rate - shape * ca.fabs(rate) * size * ca.sign(z) - (1 - shape) * rate * size) / displacement
        force = elastic * stiffness * (position - rest) + (1 - elastic) * stiffness * displacement * z
        return ElementAction(forces={(system, own): -force}, rate=ca.vertcat(slope))


@dataclass(frozen=True, eq=False)
class Backlash(JointElement):
    """A gear with play between a motor's joint and its link's: no force within the gap, a spring on the flanks.

    With the deflection ``d = q[first] - ratio * q[second]`` there is no force for ``|d| < gap / 2``. Beyond, a spring
    and a damper push it back and never pull.

    Args:
        first, second: joints of one system, or of two.
        gap: of both flanks, rad or m of the first joint.
        stiffness, damping: of a flank, N m/rad and N m s/rad, or N/m and N s/m.
        ratio: of the gear.
    """

    first: str
    second: str
    gap: float
    stiffness: float
    damping: float = 0.0
    ratio: float = 1.0
    name: str = ""
    kind: ClassVar[str] = "flank"

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or f"backlash of {self.first}")
        for key in ("gap", "stiffness"):
            checks.positive(getattr(self, key), key, place=self.name)
        checks.non_negative(self.damping, "damping", place=self.name)
        checks.number(self.ratio, "ratio", place=self.name)
        if self.first == self.second:
            raise InputError(f"both joints are {self.first!r}", place=self.name, hint="expected two joints")

    @property
    def joints(self) -> tuple[str, ...]:
        return (self.first, self.second)

    @property
    def values(self) -> tuple[float, ...]:
        return (self.gap, self.stiffness, self.damping, self.ratio)

    def write(self, view: ElementView, world: World) -> ElementAction:
        places = self.places(world)
        (one, fast), (two, slow) = self.motion(view, world)
        gap, stiffness, damping, ratio = ca.vertsplit(view.numbers)
        deflection, rate = one - ratio * two, fast - ratio * slow
        upper, lower = deflection - 0.5 * gap, -deflection - 0.5 * gap
        none = ca.SX(0, 1)
        # Flanks press and do not pull: a damper alone could hold a tooth that is leaving.
        push = ca.if_else(upper > 0, ca.fmax(stiffness * upper + damping * rate, 0), 0)
        pull = ca.if_else(lower > 0, ca.fmax(stiffness * lower - damping * rate, 0), 0)
        events = [
            # Both directions: force begins and ends with a kink, where a step must end.
            ElementEvent(self.kind, f"{self.name}, {side}", value, none, 0)
            for side, value in (("upper", upper), ("lower", lower))
        ]
        force = pull - push
        return ElementAction(forces={places[0]: force, places[1]: -ratio * force}, events=events)
