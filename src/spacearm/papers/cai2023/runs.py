"""What the reproduction of Cai et al. (2023) computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from spacearm.ejection import (
    Ejection,
    EjectionConstraints,
    EjectionGoal,
    PlaneRegion,
    Rig,
    best_configuration,
    configuration_map,
    eject,
    eject_batch,
    equivalent_mass,
    monte_carlo,
)
from spacearm.ejection.configuration import BestConfiguration
from spacearm.ejection.montecarlo import EjectionSensitivity
from spacearm.model import Inertia, catalogue
from spacearm.model.parts import Friction
from spacearm.papers import Progress
from spacearm.papers.cai2023.damping import (
    DampingFit,
    EjectionTests,
    GridFit,
    fit_damping,
    grid_search,
    predict_tests,
    synthetic_tests,
)
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, ELSEWHERE, TABLE, measured_value, rig_of
from spacearm.papers.cai2023.segmented import SegmentedEjection, run_segment_algorithm
from spacearm.typing import Array

#: The satellite's deck, which the arm must not touch while it leaves, and the satellite that recoils, for the search.
DECK = PlaneRegion(np.array([0.0, 0.0, -0.1]), np.array([0.0, 0.0, 1.0]), "deck")
MARGIN = 0.05  # m, from the deck
SATELLITE = Inertia(500.0, np.array([0.0, 0.0, -0.5]), np.diag([80.0, 80.0, 80.0]))
RAIL_FRICTION = 40.0  # N, the highest that is looked at
GOALS = {"fastest": EjectionGoal(1.0, 0.0), "balanced": EjectionGoal(1.0, 1.0), "calmest": EjectionGoal(0.02, 1.0)}


@dataclass(frozen=True, eq=False)
class Cai2023Study:
    """Everything that was computed, for rows and figures."""

    rig: Rig
    printed: Rig
    full: dict[int, Ejection]
    segmented: dict[int, SegmentedEjection]
    locked: dict[int, Ejection]  # no joint can move
    damped: dict[tuple[int, float], Ejection]
    tests: EjectionTests
    grid: dict[str, GridFit]
    fit: DampingFit
    printed_grid: dict[str, GridFit]  # Eqs. 43, 44 with the tests of Table IV
    more_damping: Array  # (5,) velocity lost when the damping doubles, m/s
    space: Rig  # all seven joints, no table
    map: Any
    best: dict[str, BestConfiguration]
    spread: EjectionSensitivity
    recoil: Ejection
    elsewhere: dict[int, Ejection]  # other attitudes that meet Table III as well
    rough: RoughRail  # with friction of the rail, for Table IV
    printed_least: float  # kg, least joint-4-free mass of the printed arm over all attitudes


def compute(report: Progress) -> Cai2023Study:
    """Run everything."""
    rig, printed = rig_of("cai2023"), rig_of("cai2023_printed")
    report(0.0, "compiling")
    full, parts, locked = {}, {}, {}
    for number in ATTITUDES:
        report(0.02 * number, f"attitude {number}")
        full[number] = eject(rig, f"attitude{number}", keep_out=[DECK])
        parts[number] = run_segment_algorithm(rig, f"attitude{number}")
        locked[number] = eject(rig, f"attitude{number}", locked=rig.arm.joint_names, flight=0.1)
    report(0.15, "other dampings")
    damped = {
        (number, value): eject(rig.with_joints(damping=value), f"attitude{number}", flight=4.0)
        for value in (DAMPING, 5.0 * DAMPING, 10.0 * DAMPING)
        for number in (3, 4)
    }
    configurations = np.array([rig.arm.configuration(f"attitude{number}") for number in ATTITUDES])
    report(0.2, "damping identification")
    tests, grid, printed_grid = _damping(rig, configurations)
    velocities, _ = predict_tests(rig, configurations, [DAMPING, 2.0 * DAMPING])
    allowed = EjectionConstraints((DECK,), margin=MARGIN, limit_margin=float(np.radians(5.0)))
    report(0.3, "map of two joints")
    chart = configuration_map(
        rig, "joint2", "joint4", resolution=(61, 61), constraints=allowed, progress=_part(report, 0.3, 0.45)
    )
    space = Rig(catalogue.load("cai2023"), rig.device)
    best = _best(rig, space, allowed, report)
    report(0.78, "sensitivity of the fastest")
    spread = monte_carlo(rig, best["fastest"].joints, samples=2000, keep_out=[DECK], progress=_part(report, 0.78, 0.84))
    heavy = Rig(rig.arm, replace(rig.device, satellite=SATELLITE), rig.table)
    joints = np.random.default_rng(0).uniform(
        printed.arm.lower_limits, printed.arm.upper_limits, (200_000, printed.arm.n)
    )
    return Cai2023Study(
        rig=rig,
        printed=printed,
        full=full,
        segmented=parts,
        locked=locked,
        damped=damped,
        tests=tests,
        grid=grid,
        fit=fit_damping(rig, tests),
        printed_grid=printed_grid,
        more_damping=velocities[0] - velocities[1],
        space=space,
        map=chart,
        best=best,
        spread=spread,
        recoil=eject(heavy, "attitude2"),
        elsewhere={number: eject(rig, np.radians(joints)) for number, joints in ELSEWHERE.items()},
        rough=rough_rail(rig),
        printed_least=float(equivalent_mass(printed, joints, ["joint4"]).min()),
    )


def _damping(rig: Rig, configurations: Array) -> tuple[EjectionTests, dict[str, GridFit], dict[str, GridFit]]:
    """Eqs. 43, 44 with synthetic tests of attitudes 2 and 3, and with those of Table IV."""
    tests = synthetic_tests(rig, ["attitude2", "attitude3"], damping=DAMPING, repeats=5, seed=2023)
    velocities = np.array([[TABLE[n].test_velocity / 1e3] for n in (2, 3)])
    measured = EjectionTests(configurations[1:3], velocities, np.zeros((2, 1, 3)), 1, 1)
    grid, printed = {}, {}
    for model, steps in (("segmented", 20), ("full", 100)):
        grid[model] = grid_search(rig, tests, first=3.8, increment=0.2, steps=16, model=model)  # type: ignore[arg-type]
        printed[model] = grid_search(rig, measured, first=4.8, increment=0.2, steps=steps, model=model)  # type: ignore[arg-type]
    return tests, grid, printed


def _best(rig: Rig, space: Rig, allowed: EjectionConstraints, report: Progress) -> dict[str, BestConfiguration]:
    """By goal, on the table; and with all seven joints in space."""
    report(0.45, "best attitude")
    best = {}
    for k, (name, goal) in enumerate(GOALS.items()):
        part = _part(report, 0.45 + 0.09 * k, 0.54 + 0.09 * k)
        best[name] = best_configuration(rig, goal, constraints=allowed, samples=2048, progress=part)
    report(0.72, "best attitude of all seven joints in space")
    part = _part(report, 0.72, 0.78)
    best["space"] = best_configuration(
        space, GOALS["balanced"], constraints=allowed, samples=2048, keep=8, progress=part
    )
    return best


def _part(report: Progress, low: float, high: float) -> Callable[[int, int], None]:
    return lambda done, total: report(low + (high - low) * done / max(total, 1), f"{done} of {total} ejections")


# -- Table IV ---------------------------------------------------------------------------------------------------------
# The paper blames guiding stiffness, friction and lubrication of the device, supports and air lines (Sec. 5.2).
# Friction of the rail can be tried: one Coulomb friction for all five attitudes, by least squares on the measured
# velocities.


@dataclass(frozen=True, eq=False)
class RoughRail:
    """The five attitudes on a rail with the Coulomb friction that fits the measured velocities best."""

    friction: float  # N
    values: dict[int, dict[str, float]]  # attitude, quantity; in the paper's units and signs


def _run_on_rough_rail(rig: Rig, friction: float) -> dict[int, dict[str, float]]:
    rough = Rig(rig.arm, replace(rig.device, friction=Friction(friction, friction)), rig.table)
    runs = eject_batch(rough, [rig.arm.configuration(f"attitude{n}") for n in ATTITUDES], flight=0.01)
    joints = [rig.arm.joint_index(name) for name in ("joint2", "joint4")]
    variation: Array = runs.variation[:, joints] * DEGREE
    return {
        number: {
            "velocity": 1e3 * float(runs.velocity[i]),
            "joint2": -float(variation[i, 0]),
            "joint4": float(variation[i, 1]),
        }
        for i, number in enumerate(ATTITUDES)
    }


def rough_rail(rig: Rig) -> RoughRail:
    """Fit the friction of the rail to the measured velocities."""
    from scipy.optimize import minimize_scalar

    def misfit(friction: float) -> float:
        return spread(_run_on_rough_rail(rig, friction), ("velocity",))

    best = float(minimize_scalar(misfit, bounds=(0.0, RAIL_FRICTION), method="bounded", options={"xatol": 0.01}).x)
    return RoughRail(best, _run_on_rough_rail(rig, best))


def spread(values: Mapping[int, Mapping[str, float]], keys: tuple[str, ...]) -> float:
    """Root mean square of what lies between these values and the tests."""
    gaps = [values[number][key] - measured_value(number, key) for number in ATTITUDES for key in keys]
    return float(np.sqrt(np.mean(np.square(gaps))))
