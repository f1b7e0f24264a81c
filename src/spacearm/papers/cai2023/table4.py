"""The surrogate beside the air-table tests of Table IV, and whether friction of the rail explains the differences.

The paper blames guiding stiffness, friction and lubrication of the device, supports and air lines (Sec. 5.2). Friction
of the rail can be tried: one Coulomb friction for all five attitudes, by least squares on the measured velocities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spacearm.ejection import Ejection, Rig, eject_batch
from spacearm.model.parts import Friction
from spacearm.papers.cai2023.data import ATTITUDES, DEGREE, TABLE, UNITS, in_paper_signs, judged
from spacearm.result import Row, Verdict
from spacearm.typing import Array

#: The largest errors between theory and test that the paper itself reports (Sec. 5.2); of the theory's velocity.
TOLERANCES = {"velocity": (0.0, 0.077), "joint2": (0.56, 0.0), "joint4": (0.78, 0.0)}
_KEYS = tuple(TOLERANCES)
_HIGHEST = 40.0  # N of rail friction that is looked at


@dataclass(frozen=True, eq=False)
class Rough:
    """The five attitudes on a rail with the Coulomb friction that fits the measured velocities best."""

    friction: float  # N
    values: dict[int, dict[str, float]]  # attitude, quantity; in the paper's units and signs


def measured(number: int) -> dict[str, float]:
    """Table IV, joint 4 of attitude 4 with the sign of Table III."""
    found = {key: float(getattr(TABLE[number], f"test_{key}")) for key in _KEYS}
    return found | ({"joint4": -found["joint4"]} if number == 4 else {})


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
    gaps = [values[number][key] - measured(number)[key] for number in ATTITUDES for key in keys]
    return float(np.sqrt(np.mean(np.square(gaps))))


def rows(full: Mapping[int, Ejection], rough: Rough) -> list[Row]:
    """The full run beside the tests; where it is outside, what ADAMS and a rough rail have to do with it."""
    smooth = {number: in_paper_signs(full[number]) for number in ATTITUDES}
    found = [_row(number, key, smooth[number][key], rough) for number in ATTITUDES for key in _KEYS]
    adams = {number: {key: getattr(TABLE[number], key)[1] for key in _KEYS} for number in ATTITUDES}
    found.append(
        Row(
            "test.rail_friction",
            rough.friction,
            "N",
            note="one Coulomb friction of the rail for all five attitudes, least squares on the velocities of Table IV",
        )
    )
    for name, unit, keys, reading in (
        ("velocity", "mm/s", ("velocity",), "it can account for most of them"),
        ("joints", "deg", ("joint2", "joint4"), "it does not account for them"),
    ):
        note = (
            f"between full run and tests; {spread(rough.values, keys):.3g} {unit} with that friction: {reading}; "
            f"ADAMS has {spread(adams, keys):.3g}"
        )
        found.append(Row(f"test.{name}.rms", spread(smooth, keys), unit, note=note))
    return found


def _row(number: int, key: str, value: float, rough: Rough) -> Row:
    absolute, relative = TOLERANCES[key]
    theory, adams = getattr(TABLE[number], key)
    paper, unit, test = getattr(TABLE[number], f"test_{key}"), UNITS[key], measured(number)[key]
    limit = absolute + relative * abs(theory)
    verdict, sign = judged(value, test, limit)
    note = f"{value - test:+.3g} {unit}, allowed {limit:.3g} (the paper's largest error between theory and test){sign}"
    if verdict is Verdict.DIFFERS:
        note += (
            f"; of it {value - adams:+.2g} between this run and ADAMS, {adams - test:+.2g} between ADAMS and the test; "
            f"{rough.values[number][key] - test:+.2g} on a rail with {rough.friction:.1f} N of friction"
        )
    if paper != test:
        verdict = Verdict.DIFFERS
        note = f"Table IV prints theory and test with the sign that Table III does not have; against {test:g}: {note}"
    return Row(f"attitude{number}.test.{key}", value, unit, paper, "Table IV, test", verdict, note)
