"""Maps, the best attitude and its Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.ejection import (
    Constraints,
    Goal,
    Plane,
    Rig,
    Uncertainty,
    attitude_map,
    best_attitude,
    eject,
    eject_batch,
    equivalent_mass,
    monte_carlo,
)
from spacearm.errors import InputError

DECK = Plane(np.array([0.0, 0.0, -0.1]))


def test_a_map_holds_single_runs(rig: Rig) -> None:
    chart = attitude_map(rig, "joint2", "joint4", resolution=(5, 7), constraints=Constraints((DECK,)))
    assert chart["velocity"].shape == (5, 7)
    q2, q4 = float(chart["joint2"][3]), float(chart["joint4"][2])
    run = eject(rig, [q2, q4, 0.0])
    assert float(chart["velocity"][3, 2]) == pytest.approx(run.velocity, abs=1e-8)
    assert float(chart["tumbling"][3, 2]) == pytest.approx(np.linalg.norm(run.angular_velocity), abs=1e-8)
    assert float(chart["mass"][3, 2]) == pytest.approx(float(equivalent_mass(rig, [q2, q4, 0.0])))
    assert 0 < int(chart["allowed"].sum()) < 35
    with pytest.raises(InputError, match="different joints"):
        attitude_map(rig, "joint2", "joint2")


def test_the_best_is_better_than_every_sample_and_keeps_the_constraints(rig: Rig) -> None:
    rules = Constraints((DECK,), margin=0.05, limit_margin=0.1)
    best = best_attitude(rig, Goal(1.0, 1.0), constraints=rules, samples=256, keep=3, refine=25, flight=8.0, seed=3)
    assert best.score >= best.coarse_score
    assert np.all(np.diff(best.history) >= 0.0)
    assert rules.allowed(best.runs).all()
    assert np.all(best.joints >= rig.arm.lower_limits + 0.1 - 1e-12)
    assert np.all(best.joints <= rig.arm.upper_limits - 0.1 + 1e-12)
    assert best.runs.clearance[0] >= 0.05
    # An independent look at the neighbourhood finds nothing better by more than the search's own resolution.
    draw = np.random.default_rng(0)
    near = np.clip(
        best.joints + 0.03 * draw.standard_normal((100, 3)), rig.arm.lower_limits + 0.1, rig.arm.upper_limits - 0.1
    )
    runs = eject_batch(rig, near, keep_out=rules.keep_out, flight=8.0)
    score = np.where(rules.allowed(runs), Goal(1.0, 1.0).score(rig, runs), -np.inf)
    assert score.max() <= best.score + 0.02
    again = best_attitude(rig, Goal(1.0, 1.0), constraints=rules, samples=256, keep=3, refine=25, flight=8.0, seed=3)
    assert np.array_equal(best.joints, again.joints)


def test_goals_pull_apart(rig: Rig) -> None:
    fast = best_attitude(rig, Goal(1.0, 0.0), samples=256, refine=10, keep=2)
    calm = best_attitude(rig, Goal(0.0, 1.0), samples=256, refine=10, keep=2)
    assert fast.runs.velocity[0] > calm.runs.velocity[0]
    assert calm.runs.tumbling[0] < 0.01 < fast.runs.tumbling[0]


def test_a_search_over_some_joints_only(space: Rig) -> None:
    best = best_attitude(space, samples=64, joints=["joint2", "joint4"], at="attitude1", refine=4, keep=1, flight=5.0)
    other = [0, 2, 4, 5, 6]
    assert np.all(best.joints[other] == space.arm.posture("attitude1")[other])


def test_impossible_searches(rig: Rig) -> None:
    high = Plane(np.array([0.0, 0.0, 5.0]))
    with pytest.raises(InputError, match="none of 32 attitudes"):
        best_attitude(rig, constraints=Constraints((high,)), samples=32)
    with pytest.raises(InputError, match="weights"):
        Goal(-1.0, 0.0)


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
    found = monte_carlo(rig, "attitude1", samples=3, uncertainty=Uncertainty(0.0, 0.0, 0.0, 0.0))
    run = eject(rig, "attitude1")
    np.testing.assert_allclose(found.runs.velocity, run.velocity, atol=1e-8)


def test_each_cause_alone_has_its_share(rig: Rig) -> None:
    found = monte_carlo(rig, "attitude2", samples=200, uncertainty=Uncertainty(0.0, 0.0, 0.05, 0.0))
    assert found.shares["velocity"]["spring"] > 0.99
    with pytest.raises(InputError, match="friction is -1"):
        Uncertainty(friction=-1.0)
