"""Damping identification: the truth of synthetic tests is recovered, with an honest uncertainty."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.ejection import Rig
from spacearm.errors import InputError
from spacearm.papers.cai2023.damping import fit_damping, grid_search, synthetic_tests

BOTH = ["attitude2", "attitude3"]


def test_without_noise_both_ways_find_the_truth(rig: Rig) -> None:
    tests = synthetic_tests(rig, BOTH, damping=5.4, velocity_noise=1e-7, angle_noise=1e-7, repeats=2)
    fit = fit_damping(rig, tests, start=3.0)
    assert fit["damping"][0] == pytest.approx(5.4, abs=1e-3)
    assert grid_search(rig, tests, model="full").damping == pytest.approx(5.4)
    pair = fit_damping(rig, tests, with_coulomb=True)
    assert pair["coulomb"][0] == pytest.approx(2.0, abs=1e-3)


def test_the_segmented_algorithm_puts_its_own_error_into_the_damping(rig: Rig) -> None:
    tests = synthetic_tests(rig, BOTH, damping=5.4, velocity_noise=1e-6, repeats=1)
    found = grid_search(rig, tests, first=1.8, increment=0.2, steps=26)
    assert found.cost.shape == (26,)
    assert abs(found.damping - 5.4) > 0.5


def test_the_interval_is_honest(rig: Rig) -> None:
    """Of 40 experiments about 95 % hold the truth; with repeats the deviation falls as 1 / sqrt(repeats)."""
    intervals = [fit_damping(rig, synthetic_tests(rig, BOTH, damping=5.4, seed=k)).interval[0] for k in range(40)]
    assert np.mean([low <= 5.4 <= high for low, high in intervals]) >= 0.85
    few, many = (
        fit_damping(rig, synthetic_tests(rig, BOTH, damping=5.4, repeats=q, seed=7))["damping"][1] for q in (2, 18)
    )
    assert few / many == pytest.approx(3.0, rel=0.05)


def test_joint_variations_add_information(rig: Rig) -> None:
    tests = synthetic_tests(rig, BOTH, damping=5.4, angle_noise=float(np.radians(0.01)))
    whole, part = fit_damping(rig, tests), fit_damping(rig, tests, use="velocity")
    assert whole["damping"][1] < 0.8 * part["damping"][1]
    assert 0.3 < whole.misfit < 2.0


def test_wrong_requests(rig: Rig) -> None:
    with pytest.raises(InputError, match="repeats"):
        synthetic_tests(rig, BOTH, damping=5.4, repeats=0)
    tests = synthetic_tests(rig, BOTH, damping=5.4)
    with pytest.raises(InputError, match="steps"):
        grid_search(rig, tests, steps=0)
    with pytest.raises(InputError, match="dry friction"):
        fit_damping(rig.with_joints(friction=None), tests, with_coulomb=True)
    for noise in (-1.0, np.nan):
        with pytest.raises(InputError, match="noise is"):
            synthetic_tests(rig, BOTH, damping=5.4, velocity_noise=noise)
    with pytest.raises(InputError, match="no configuration"):
        synthetic_tests(rig, [], damping=5.4)
    with pytest.raises(InputError, match="start is"):
        fit_damping(rig, tests, start=0.0)
    with pytest.raises(InputError, match="no noise"):
        fit_damping(rig, synthetic_tests(rig, BOTH, damping=5.4, angle_noise=0.0))
