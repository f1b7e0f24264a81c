"""Small motions about a configuration at rest: mass matrix of what is free, natural frequencies, responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from spacearm.checks import array
from spacearm.engine import Mechanics
from spacearm.identify.joint.flexible_joints import flexible_joints
from spacearm.model import Robot
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Linear:
    """``mass x'' + damping x' + stiffness x = force`` with x = (links, motors) of the flexible joints, base eliminated.

    The base floats freely: its motion follows from zero momentum. All other joints are held.
    """

    names: tuple[str, ...]
    mass: Array
    damping: Array
    stiffness: Array

    @property
    def count(self) -> int:
        return len(self.names)

    def frequencies(self, motors_held: bool) -> Array:
        """Undamped natural frequencies, rad/s, rising; with motors held on their paths, or free."""
        size = self.count if motors_held else 2 * self.count
        if motors_held:
            mass, stiffness = self.mass[:size, :size], self.stiffness[:size, :size]
        else:
            mass, stiffness = self.mass, self.stiffness
        squares = np.linalg.eigvals(np.linalg.solve(mass, stiffness)).real
        found: Array = np.sqrt(np.sort(np.maximum(squares, 0.0)))
        return found if motors_held else found[found > 1e-5 * found[-1]]  # turning as a whole takes no spring

    def motor_to_link(self, frequency: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """Complex response (W, links, motors): link angle for a sinus of the motor angle; ``frequency`` in rad/s."""
        w = np.atleast_1d(np.asarray(frequency, dtype=np.float64))[:, None, None]
        n = self.count
        dynamic = -(w**2) * self.mass + 1j * w * self.damping + self.stiffness
        return np.asarray(np.linalg.solve(dynamic[:, :n, :n], -dynamic[:, :n, n:]))

    def torque_to(self, frequency: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """Complex response (W, 2 n, motors) of links and motors to a sinus of the motors' torque, rad/(N m)."""
        w = np.atleast_1d(np.asarray(frequency, dtype=np.float64))[:, None, None]
        n = self.count
        dynamic = -(w**2) * self.mass + 1j * w * self.damping + self.stiffness
        pick = np.zeros((2 * n, n))
        pick[n:] = np.eye(n)
        return np.asarray(np.linalg.solve(dynamic, np.broadcast_to(pick, (len(w), 2 * n, n))))


@lru_cache(maxsize=8)
def _mechanics(robot: Robot) -> Mechanics:
    return Mechanics(robot)


def linearise(robot: Robot, joints: npt.ArrayLike, values: Mapping[str, Mapping[str, float]] | None = None) -> Linear:
    """The robot about a configuration (n, rad) at rest, with its own joint values or ``values[joint][parameter]``."""
    configuration = array(joints, "joints", (robot.n,), place="linearise")
    flexible = flexible_joints(robot)
    own = [{**f.values, **(values or {}).get(f.name, {})} for f in flexible]
    rotors = {i: joint.rotor.inertia for i, joint in enumerate(robot.joints) if joint.rotor is not None}
    rotors |= {f.motor: one["motor_inertia"] / f.gear**2 for f, one in zip(flexible, own, strict=True)}
    mechanics = _mechanics(robot)
    inertias = np.array([rotors[i] for i in sorted(rotors)])
    full = mechanics.evaluate(mechanics.kernel("mass_matrix"), joints=configuration, rotor=inertias)["mass_matrix"]
    chosen = [6 + f.link for f in flexible] + [6 + f.motor for f in flexible]
    across = full[:6, chosen]
    mass = full[np.ix_(chosen, chosen)] - across.T @ np.linalg.solve(full[:6, :6], across)
    n = len(flexible)
    stiffness, damping = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, 2 * n))
    for i, (f, one) in enumerate(zip(flexible, own, strict=True)):
        lever = np.zeros(2 * n)
        lever[i], lever[n + i] = 1.0, -f.ratio
        stiffness += one["stiffness"] * np.outer(lever, lever)
        damping += one["damping"] * np.outer(lever, lever)
        for place, index in ((i, f.link), (n + i, f.motor)):
            joint = robot.joints[index]
            damping[place, place] += one.get("motor_damping", joint.damping) if place >= n else joint.damping
            stiffness[place, place] += 0.0 if joint.spring is None else joint.spring.stiffness
    return Linear(tuple(f.name for f in flexible), mass, damping, stiffness)
