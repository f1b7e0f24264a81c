"""The five attitudes on a rail with friction, beside the air-table tests of Table IV.

The paper blames guiding stiffness, friction and lubrication of the device, supports and air lines (Sec. 5.2). Friction
of the rail can be tried: one Coulomb friction for all five attitudes, by least squares on the measured velocities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spacearm.ejection import Rig, eject_batch
from spacearm.model.parts import Friction
from spacearm.papers.cai2023.data import ATTITUDES, DEGREE, measured
from spacearm.typing import Array

_HIGHEST = 40.0  # N of rail friction that is looked at


@dataclass(frozen=True, eq=False)
class Rough:
    """The five attitudes on a rail with the Coulomb friction that fits the measured velocities best."""

    friction: float  # N
    values: dict[int, dict[str, float]]  # attitude, quantity; in the paper's units and signs


def _on_a_rough_rail(rig: Rig, friction: float) -> dict[int, dict[str, float]]:
    rough = Rig(rig.arm, replace(rig.device, friction=Friction(friction, friction)), rig.table)
    runs = eject_batch(rough, [rig.arm.configuration(f"attitude{n}") for n in ATTITUDES], flight=0.01)
    joints = [rig.arm.joint_index(name) for name in ("joint2", "joint4")]
    turned: Array = runs.variation[:, joints] * DEGREE
    return {
        number: {
            "velocity": 1e3 * float(runs.velocity[i]),
            "joint2": -float(turned[i, 0]),
            "joint4": float(turned[i, 1]),
        }
        for i, number in enumerate(ATTITUDES)
    }


def rough_rail(rig: Rig) -> Rough:
    """Fit the friction of the rail to the measured velocities."""
    from scipy.optimize import minimize_scalar

    def misfit(friction: float) -> float:
        return spread(_on_a_rough_rail(rig, friction), ("velocity",))

    best = float(minimize_scalar(misfit, bounds=(0.0, _HIGHEST), method="bounded", options={"xatol": 0.01}).x)
    return Rough(best, _on_a_rough_rail(rig, best))


def spread(values: Mapping[int, Mapping[str, float]], keys: tuple[str, ...]) -> float:
    """Root mean square of what lies between these values and the tests."""
    gaps = [values[number][key] - measured(number, key) for number in ATTITUDES for key in keys]
    return float(np.sqrt(np.mean(np.square(gaps))))
