"""Joints identified from data that spacearm did not make: the equations of support.joint_physics, solved by SciPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.identify.joint import Drive, JointFit, JointTest, identify_joints
from support.joint_physics import CASES, Case, Truth

DRIVES: tuple[Drive, ...] = ("motor_angle", "torque")


def joint_test(
    case: Case, truth: Truth, seed: int | None, drive: Drive, channels: tuple[str, ...] = ("joint1", "base_rz"),
    **more: Any,
) -> JointTest:  # fmt: skip
    """Readings as a test; with a torque the motor's encoder is compared."""
    read = truth.readings(seed, case.sigma, channels)
    if drive == "torque":
        channels = (*channels, "joint1.motor")
        more = {"torques": {"joint1": read["joint1.torque"]}, "torque_sigma": case.sigma["joint1.torque"], **more}
    noise = np.array([case.sigma[name] for name in channels])
    encoders = {name: read[name] for name in ("joint1.motor", "joint2")}
    measured = {name: read[name] for name in channels}
    options = {"encoder_sigma": case.sigma["joint1.motor"], **more}
    return JointTest(f"seed {seed}", truth.times, encoders, measured, noise, **options)


def errors(case: Case, fit: JointFit) -> np.ndarray:
    """Errors of motor inertia, stiffness, damping and offset in standard deviations."""
    plant = case.plant
    right = np.array([plant.motor_inertia, plant.stiffness, plant.damping, case.offset])
    return (fit.estimate.values[:4] - right) / fit.estimate.std[:4]


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("name", CASES)
def test_readings_without_noise_give_the_truth(name: str, drive: Drive) -> None:
    """With a torque, damping and offset came out 7 deviations off: the start was taken from a spline, as exact."""
    case = CASES[name]
    fit = identify_joints(
        case.plant.robot(), [joint_test(case, case.truth(drive), None, drive)], drive=drive, warn=False
    )
    assert np.abs(errors(case, fit)).max() < 0.3
    assert fit.chi2 < 1e-2


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("name", CASES)
def test_noise_of_inputs_and_outputs_is_accounted_for(name: str, drive: Drive) -> None:
    """Torque noise of 0.05 N m put the motor's inertia 9 deviations off; stiffnesses above 100 ended on a bound."""
    case = CASES[name]
    squares = []
    for seed in (1, 2):
        test = joint_test(case, case.truth(drive), seed, drive)
        fit = identify_joints(case.plant.robot(), [test], drive=drive, warn=False)
        assert not fit.at_bounds
        low, high = fit.diagnosis.chi_square.bounds(1e-4)
        assert low < fit.chi2 < high
        squares.append(errors(case, fit) ** 2)
    assert np.max(squares) < 3.5**2


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("name", ["soft", "k8000"])
def test_a_robot_file_wrong_by_ten_changes_nothing(name: str, factor: float, drive: Drive) -> None:
    case = CASES[name]
    own = {key: factor * getattr(case.plant, key) for key in ("stiffness", "damping", "motor_inertia")}
    test = joint_test(case, case.truth(drive), 1, drive)
    right = identify_joints(case.plant.robot(), [test], drive=drive, warn=False)
    fit = identify_joints(
        case.plant.robot(**own), [test], drive=drive, guess={"stiffness": own["stiffness"]}, warn=False
    )
    assert np.abs((fit.estimate.values - right.estimate.values) / right.estimate.std).max() < 0.05


def test_a_measured_torque_counts_as_one_that_drives() -> None:
    """Angle and torque measured: the same data either way, and the same result."""
    case = CASES["k8000"]
    truth = case.truth("torque")
    driven = identify_joints(case.plant.robot(), [joint_test(case, truth, 3, "torque")], drive="torque", warn=False)
    held = joint_test(case, truth, 3, "motor_angle").with_channel(
        "joint1.torque", truth.readings(3, case.sigma)["joint1.torque"], case.sigma["joint1.torque"]
    )
    fit = identify_joints(case.plant.robot(), [held], warn=False)
    assert fit.estimate.values == pytest.approx(driven.estimate.values, rel=1e-6)
    assert fit.estimate.std == pytest.approx(driven.estimate.std, rel=1e-4)


def test_missing_readings_and_irregular_times_are_no_harm() -> None:
    case = CASES["k8000"]
    rng = np.random.default_rng(5)
    times = np.sort(np.concatenate([[0.0], rng.uniform(0.0, 3.0, 600)]))
    for drive in DRIVES:
        irregular = replace(case, times=times, truths={})
        test = joint_test(irregular, irregular.truth(drive), 4, drive)
        gappy = {name: np.where(rng.random(times.size) < 0.05, np.nan, row) for name, row in test.measured.items()}
        fit = identify_joints(case.plant.robot(), [replace(test, measured=gappy)], drive=drive, warn=False)
        assert np.abs(errors(case, fit)).max() < 3.5
        low, high = fit.diagnosis.chi_square.bounds(1e-4)
        assert low < fit.chi2 < high
