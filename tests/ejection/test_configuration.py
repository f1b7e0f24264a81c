"""Maps, the best configuration and its Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.ejection import (
    EjectionConstraints,
    EjectionGoal,
    EjectionUncertainty,
    PlaneRegion,
    Rig,
    best_configuration,
    configuration_map,
    eject,
    eject_batch,
    equivalent_mass,
    monte_carlo,
)
from spacearm.ejection.figures import map_caption, map_panels
from spacearm.ejection.montecarlo import _log_normal
from spacearm.errors import InputError
from spacearm.model import Inertia, Limits

DECK = PlaneRegion(np.array([0.0, 0.0, -0.1]))


def test_a_map_holds_single_runs(rig: Rig) -> None:
    chart = configuration_map(rig, "joint2", "joint4", resolution=(5, 7), constraints=EjectionConstraints((DECK,)))
    assert chart["velocity"].shape == (5, 7)
    q2, q4 = float(chart["joint2"][3]), float(chart["joint4"][2])
    run = eject(rig, [q2, q4, 0.0])
    assert float(chart["velocity"][3, 2]) == pytest.approx(run.velocity, abs=1e-8)
    assert float(chart["tumbling"][3, 2]) == pytest.approx(np.linalg.norm(run.angular_velocity), abs=1e-8)
    assert float(chart["mass"][3, 2]) == pytest.approx(float(equivalent_mass(rig, [q2, q4, 0.0])))
    assert 0 < int(chart["allowed"].sum()) < 35
    broken = np.any([chart[f"broken_{name}"] for name in ("run", "clearance", "limit", "stable")], axis=0)
    np.testing.assert_array_equal(chart["allowed"].values == 1, ~broken)
    with pytest.raises(InputError, match="different joints"):
        configuration_map(rig, "joint2", "joint2")


def test_the_best_is_better_than_every_sample_and_keeps_the_constraints(rig: Rig) -> None:
    rules = EjectionConstraints((DECK,), margin=0.05, limit_margin=0.1)
    best = best_configuration(
        rig, EjectionGoal(1.0, 1.0), constraints=rules, samples=256, keep=3, refine=40, flight=8.0, seed=3
    )
    assert best.score >= best.history[0]  # of the samples
    assert np.all(np.diff(best.history) >= 0.0)
    assert rules.find_admissible(best.runs).all()
    assert np.all(best.joints >= rig.arm.lower_limits + 0.1 - 1e-12)
    assert np.all(best.joints <= rig.arm.upper_limits - 0.1 + 1e-12)
    assert best.runs.clearance[0] >= 0.05
    # An independent look at the neighbourhood finds nothing better by more than the search's own resolution.
    draw = np.random.default_rng(0)
    near = np.clip(
        best.joints + 0.03 * draw.standard_normal((100, 3)), rig.arm.lower_limits + 0.1, rig.arm.upper_limits - 0.1
    )
    runs = eject_batch(rig, near, keep_out=rules.keep_out, flight=8.0)
    score = np.where(rules.find_admissible(runs), EjectionGoal(1.0, 1.0).score(rig, runs), -np.inf)
    assert score.max() <= best.score + 0.002
    again = best_configuration(
        rig, EjectionGoal(1.0, 1.0), constraints=rules, samples=256, keep=3, refine=40, flight=8.0, seed=3
    )
    assert np.array_equal(best.joints, again.joints)


def test_goals_pull_apart(rig: Rig) -> None:
    fast = best_configuration(rig, EjectionGoal(1.0, 0.0), samples=256, refine=10, keep=2)
    calm = best_configuration(rig, EjectionGoal(0.0, 1.0), samples=256, refine=10, keep=2)
    assert fast.runs.velocity[0] > calm.runs.velocity[0]
    assert calm.runs.tumble_rate[0] < 0.001 < fast.runs.tumble_rate[0]


def test_every_seed_finds_the_same_and_the_calmest_is_not_dominated(rig: Rig) -> None:
    """Ten seeds each, to 1 mm/s and 0.02 deg/s: at rest the goal is smooth, and no population stalls on a ridge."""
    rules = EjectionConstraints((DECK,), margin=0.05, limit_margin=float(np.radians(5.0)))
    found = {}
    for name, goal in {"calmest": EjectionGoal(0.02, 1.0), "balanced": EjectionGoal(1.0, 1.0)}.items():
        every = [
            best_configuration(rig, goal, constraints=rules, samples=256, keep=4, refine=70, flight=5.0, seed=seed)
            for seed in range(10)
        ]
        velocity = np.array([best.runs.velocity[0] for best in every])
        tumbling = np.degrees([best.runs.tumble_rate[0] for best in every])
        assert np.ptp(velocity) < 1e-3
        assert np.ptp(tumbling) < 0.02
        found[name] = velocity, tumbling
    fast, calm = found["balanced"], found["calmest"]
    assert calm[1].max() < fast[1].min()  # calmer ...
    assert calm[0].max() < fast[0].min()  # ... for less velocity: neither is worse in both respects


@pytest.mark.parametrize("satellite", [None, Inertia(500.0, np.array([0.0, 0.0, -0.5]), np.diag([80.0, 90.0, 70.0]))])
def test_tumbling_does_not_depend_on_the_length_of_the_flight(space: Rig, satellite: Inertia | None) -> None:
    """Nor on the instant at which one looks: it is the mean over time of what the angular velocity does."""
    own = Rig(space.arm, replace(space.device, satellite=satellite))
    joints = np.random.default_rng(0).uniform(space.arm.lower_limits, space.arm.upper_limits, (6, 7))
    short, long = (eject_batch(own, joints, flight=flight) for flight in (6.0, 17.3))
    assert np.all(short.stable_time < 6.0)
    np.testing.assert_allclose(short.angular_velocity, long.angular_velocity, atol=2e-8)
    for i in (0, 2):
        run = eject(own, joints[i], flight=40.0, limits="ignore")
        np.testing.assert_allclose(run.angular_velocity, long.angular_velocity[i], atol=2e-8)
        mean = np.linalg.norm(run.angular_velocity)
        angular_rate = run.data["angular_velocity"].sel(time=slice(run.stable_time, None)).values
        assert np.ptp(angular_rate, axis=0).max() > 0.1 * mean  # at the end of a run it would depend on its length
        # Along the angular momentum it is constant; the rest turns about that and averages out.
        along = angular_rate @ run.angular_velocity / mean
        np.testing.assert_allclose(along, mean, rtol=1e-8)


def test_a_search_over_some_joints_only(space: Rig) -> None:
    best = best_configuration(
        space, samples=64, joints=["joint2", "joint4"], at="attitude1", refine=4, keep=1, flight=5.0
    )
    other = [0, 2, 4, 5, 6]
    assert np.all(best.joints[other] == space.arm.configuration("attitude1")[other])


def test_impossible_searches(rig: Rig) -> None:
    high = PlaneRegion(np.array([0.0, 0.0, 5.0]))
    with pytest.raises(InputError, match="none of 32 configurations"):
        best_configuration(rig, constraints=EjectionConstraints((high,)), samples=32)
    for weights in ((-1.0, 0.0), (np.nan, 0.0), (np.inf, 0.0), (0.0, 0.0)):
        with pytest.raises(InputError, match="weights"):
            EjectionGoal(*weights)
    for numbers in ({"samples": 0}, {"samples": -3}, {"keep": 0}, {"refine": -1}):
        with pytest.raises(InputError, match=r"(samples|keep|refine) is"):
            best_configuration(rig, **{"samples": 4, **numbers})
    with pytest.raises(InputError, match="margin is nan"):
        EjectionConstraints((DECK,), margin=np.nan)
    with pytest.raises(InputError, match="limit_margin is -1"):
        EjectionConstraints(limit_margin=-1.0)


def test_a_margin_that_leaves_no_range_is_refused(rig: Rig) -> None:
    with pytest.raises(InputError, match=r"leaves 'joint2' no range") as caught:
        best_configuration(rig, constraints=EjectionConstraints(limit_margin=2.0), samples=4)
    assert "1.5708" in caught.value.hint


def test_a_slide_without_limits_may_stay_where_it_is(rig: Rig) -> None:
    joints = tuple(j if j.name != "joint6" else replace(j, kind="prismatic", limits=Limits()) for j in rig.arm.joints)
    own = Rig(rig.arm.replace(joints=joints), rig.device, None)
    chart = configuration_map(own, "joint2", "joint4", resolution=(2, 2), flight=0.1)
    assert np.all(np.isfinite(chart["velocity"].values))
    assert (
        best_configuration(
            own, joints=["joint2"], samples=4, refine=0, constraints=EjectionConstraints(stable=False)
        ).samples
        == 4
    )
    with pytest.raises(InputError, match="no limits to search within"):
        best_configuration(own, samples=4)


def test_monte_carlo(rig: Rig) -> None:
    found = monte_carlo(rig, "attitude2", samples=400, keep_out=[DECK], seed=5)
    levels = list(found.percentiles["velocity"].values())
    assert levels == sorted(levels)
    assert found.worst["velocity"] <= levels[0]
    assert found.worst["tumbling"] >= found.percentiles["tumbling"][99.0]
    assert sum(found.shares["velocity"].values()) == pytest.approx(1.0)
    # v is about sqrt(K / m): half the springs' 3 % must show.
    assert found.runs.velocity.std() / found.runs.velocity.mean() > 0.014
    again = monte_carlo(rig, "attitude2", samples=400, keep_out=[DECK], seed=5)
    assert np.array_equal(found.runs.velocity, again.runs.velocity)
    assert found.failed == 0


def test_no_uncertainty_is_the_nominal_run(rig: Rig) -> None:
    found = monte_carlo(rig, "attitude1", samples=3, uncertainty=EjectionUncertainty(0.0, 0.0, 0.0, 0.0))
    run = eject(rig, "attitude1")
    np.testing.assert_allclose(found.runs.velocity, run.velocity, atol=1e-8)


def test_each_cause_alone_has_its_share(rig: Rig) -> None:
    found = monte_carlo(rig, "attitude2", samples=200, uncertainty=EjectionUncertainty(0.0, 0.0, 0.05, 0.0))
    assert found.shares["velocity"]["spring"] > 0.99
    with pytest.raises(InputError, match="friction is -1"):
        EjectionUncertainty(friction=-1.0)


def test_the_clearance_of_a_monte_carlo_knows_the_radii(rig: Rig) -> None:
    thin, thick = (monte_carlo(rig, "attitude2", samples=5, keep_out=[DECK], radii=r, flight=1.0) for r in (0.0, 0.03))
    np.testing.assert_allclose(thin.runs.clearance - thick.runs.clearance, 0.03, atol=1e-12)


def test_what_is_allowed(rig: Rig) -> None:
    """Attitude 3 reaches the elbow's limit, and its joints move for 3.3 s."""
    runs = eject_batch(
        rig, [rig.arm.configuration("attitude2"), rig.arm.configuration("attitude3")], keep_out=[DECK], flight=5.0
    )
    assert EjectionConstraints().find_admissible(runs).tolist() == [True, False]
    assert EjectionConstraints(respect_limits=False).find_admissible(runs).tolist() == [True, True]
    near = float(runs.clearance.min())
    assert not EjectionConstraints((DECK,), margin=near + 0.01).find_admissible(runs).all()
    assert EjectionConstraints((DECK,), margin=near - 0.01, respect_limits=False).find_admissible(runs).all()
    short = eject_batch(rig, rig.arm.configuration("attitude2"), flight=0.5)
    assert EjectionConstraints().find_admissible(short).tolist() == [False]
    assert EjectionConstraints(stable=False).find_admissible(short).tolist() == [True]
    which = EjectionConstraints((DECK,), margin=near + 0.01).find_violations(runs)
    assert [name for name, where in which.items() if where[1]] == ["clearance", "limit"]
    assert [name for name, where in EjectionConstraints().find_violations(short).items() if where.any()] == ["stable"]


def test_a_map_of_forbidden_configurations_shows_velocities_and_the_reason(rig: Rig) -> None:
    """A margin that nothing keeps: every velocity is drawn, and the legend names the constraint."""
    rules = EjectionConstraints((DECK,), margin=50.0)
    chart = configuration_map(rig, "joint2", "joint4", resolution=(5, 7), constraints=rules)
    assert not chart["allowed"].any()
    figure = map_panels(chart, rig.arm, {"attitude 2": rig.arm.configuration("attitude2")})
    heat = [trace for trace in figure.data if trace.type == "heatmap"]
    assert all(np.isfinite(trace.z).all() for trace in heat)
    np.testing.assert_allclose(heat[0].z, 1e3 * chart["velocity"].values.T)
    legend = [trace.name for trace in figure.data if trace.type == "scatter" and trace.showlegend]
    assert legend[0] == "closer than the margin (35 of 35)"
    assert "0 of 35 configurations satisfy all constraints" in map_caption(chart)


def test_factors_have_mean_one_and_the_stated_deviation() -> None:
    found = _log_normal(np.random.default_rng(0), 0.5, (200_000,))
    assert found.mean() == pytest.approx(1.0, abs=0.006)
    assert found.std() == pytest.approx(0.5, abs=0.012)
    assert found.min() > 0.0


def test_the_best_keeps_off_a_wall_that_the_unconstrained_best_runs_into(rig: Rig) -> None:
    options: dict[str, Any] = {"samples": 128, "keep": 2, "refine": 20, "flight": 4.0, "seed": 1}
    free = best_configuration(rig, EjectionGoal(1.0, 1.0), constraints=EjectionConstraints(stable=False), **options)
    side = np.array([1.0, 0.0, 0.0])
    below = eject_batch(rig, free.joints[None], keep_out=(PlaneRegion(np.zeros(3), side),), flight=4.0).clearance[0]
    wall = PlaneRegion((below + 0.005) * side, side)  # 5 mm into what the free optimum needs
    assert eject_batch(rig, free.joints[None], keep_out=(wall,), flight=4.0).clearance[0] == pytest.approx(-0.005)
    best = best_configuration(
        rig, EjectionGoal(1.0, 1.0), constraints=EjectionConstraints((wall,), stable=False), **options
    )
    run = eject(rig, best.joints, keep_out=(wall,), flight=4.0)
    assert run.clearance is not None
    assert run.clearance.least >= -1e-6
    assert best.score < free.score
