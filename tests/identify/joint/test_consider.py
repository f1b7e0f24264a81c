"""Joints whose surroundings are not as the robot file has them, on data by SciPy (support.joint_physics)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.joint import JointFit, identify_joints
from support.joint_physics import CASES, Case, Plant, camera_record, joint_test

SOFT, STIFF = CASES["soft"], replace(CASES["k8000"], times=CASES["k8000"].times[:401], truths={})


def fitted(case: Case, plant: Plant, **consider: float) -> JointFit:
    """A fit of data of another plant with the robot of a case; the joint itself is the same."""
    other = replace(case, plant=plant)
    test = joint_test(other, other.truth("motor_angle"), 4, "motor_angle")
    return identify_joints(case.plant.robot(), [test], warn=False, consider=consider)


def errors(case: Case, fit: JointFit) -> np.ndarray:
    """Of motor inertia, stiffness and damping, in standard deviations."""
    plant = case.plant
    return (fit.estimate.values[:3] - [plant.motor_inertia, plant.stiffness, plant.damping]) / fit.estimate.std[:3]


HEAVY = replace(STIFF.plant, mass=(80.0, 6.0, 4.2), inertia=(8.0, 0.5, 0.315))
ROUGH = replace(SOFT.plant, hysteresis=0.003)


@pytest.mark.parametrize(
    ("case", "plant", "consider"),
    [
        (STIFF, HEAVY, {"link2": 0.05}),
        (SOFT, ROUGH, {"hysteresis": 0.005}),
    ],
    ids=["heavy link", "hysteresis"],
)
def test_what_was_outside_is_within_the_interval(case: Case, plant: Plant, consider: dict[str, float]) -> None:
    before, found = fitted(case, plant), fitted(case, plant, **consider)
    assert np.abs(errors(case, before)).max() > 4.0
    assert np.abs(errors(case, found)).max() < 3.0
    assert found.sound
    assert found.consider_shares


def test_a_stiffness_is_no_less_certain_than_the_inertia_behind_it() -> None:
    """The data give the frequency, stiffness over inertia: both inertias of the arm known to 3 % leave no more."""
    exact, found = (fitted(SOFT, SOFT.plant, nominal=share) for share in (0.0, 0.03))
    assert exact.model.consider is None
    assert exact.std("stiffness") < 0.002 * 5.1
    assert 0.01 * 5.1 < found.std("stiffness") < 0.06 * 5.1
    assert found["stiffness"] == pytest.approx(5.1, abs=3.0 * found.std("stiffness"))
    twice = fitted(SOFT, SOFT.plant, nominal=0.06)
    assert twice.std("stiffness") == pytest.approx(2.0 * found.std("stiffness"), rel=0.1)


def test_a_gear_ratio_left_at_one() -> None:
    """Data show the motor's inertia over the ratio: 600 deviations off, or, with a ratio in doubt, not determined."""
    plant = replace(SOFT.plant, ratio=100.0)
    before, found = fitted(SOFT, plant), fitted(SOFT, plant, gear=1.0)
    assert abs(errors(SOFT, before)[0]) > 100.0
    assert np.isinf(found.std("motor_inertia"))
    assert np.abs(errors(SOFT, found)[1:]).max() < 3.0
    assert any("motor_inertia is not determined" in remark for remark in found.remarks)


def test_a_gear_ratio_left_at_one_in_a_record() -> None:
    """A record that a script hands over is one of a machine: a ratio of 1 counts as left out there too."""
    plant = replace(SOFT.plant, ratio=100.0)
    other = replace(SOFT, plant=plant)
    record, chain = camera_record(other, other.truth("motor_angle"), 4, "motor_angle")
    exact, found = (
        identify_joints(SOFT.plant.robot(), [record], chain=chain, warn=False, consider=consider)
        for consider in ({}, None)
    )
    assert exact.sound
    assert abs(errors(SOFT, exact)[0]) > 20.0
    assert np.isinf(found.std("motor_inertia"))
    assert np.abs(errors(SOFT, found)[1:]).max() < 3.0
    assert any("motor_inertia is not determined" in remark for remark in found.remarks)
    # Where the robot file has the ratio, nothing is left out.
    geared = identify_joints(plant.robot(), [record], chain=chain, warn=False)
    assert np.isfinite(geared.std("motor_inertia"))


def test_a_number_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="link7"):
        fitted(SOFT, SOFT.plant, link7=0.1)
