"""Identification: the known truth comes back; set-ups, searches, weights, warnings and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.joint import (
    DataWarning,
    IdentifiabilityWarning,
    JointLaw,
    JointProblem,
    MeasurementChain,
    identify_joints,
    profile_likelihood,
    simulate_reference,
    weight_early_samples,
)
from spacearm.identify.joint.flexible_joints import write_joint_values
from spacearm.identify.joint.identify import estimator_of
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.misfit import OFF
from spacearm.identify.joint.paths import path_errors, smooth_path, smooth_with_errors
from spacearm.mechanics.sensors import Encoder, TorqueSensor
from spacearm.model import catalogue
from spacearm.optimise import Block, NelderMead, Parameter, Problem
from spacearm.optimise.information import covariance_at
from spacearm.simulate import spline
from support.simulated_joint_tests import (
    DEGREE,
    ENCODER,
    FRAME,
    NOISE,
    START,
    TEST2,
    TIMES,
    observe,
    paper_paths,
    printed,
    quadratic,
    seen,
    spatial_arm,
    truth,
)

RIGHT = np.array([*TEST2.values(), 2.8 * DEGREE])
FAR = {"motor_inertia": 5.0, "stiffness": 8.0, "damping": 0.1}


def known_torque_test(seed: int | None) -> JointTest:
    """A twin whose motor is moved by a known torque."""
    robot = printed()
    torque = spline([0.0, 2.0, 5.0, 8.0, 10.0], [0.1, 0.05, 0.08, 0.02, 0.03])
    values = {"joint1": {**TEST2, "offset": 2.8 * DEGREE}}
    found = simulate_reference(robot, FRAME, values, paper_paths(), TIMES, drive="torque", torques={"joint1": torque})
    test = observe(found, None if seed is None else np.random.default_rng(seed))
    rng = np.random.default_rng(0 if seed is None else seed)
    motor = found.joints[:, 1] + (0.0 if seed is None else ENCODER) * rng.standard_normal(TIMES.size)
    angle = test.select_channels(("joint1",)).with_channel("joint1.motor", motor, ENCODER)
    return replace(angle, torques={"joint1": torque}, paths=paper_paths())


@pytest.mark.parametrize("name", ["wojtunik2023_printed", "wojtunik2023"])
def test_all_four_values_come_back_without_noise(name: str) -> None:
    robot = catalogue.load(name)
    fit = identify_joints(robot, [seen(robot)], guess=FAR, warn=False)
    assert fit.estimate.has_converged
    assert np.abs(fit.estimate.values / RIGHT - 1.0).max() < 1e-6


def test_all_four_values_come_back_from_the_angle_alone() -> None:
    robot = printed()
    fit = identify_joints(robot, [seen(robot).select_channels(("joint1",))], guess=FAR, warn=False)
    assert np.abs(fit.estimate.values / RIGHT - 1.0).max() < 1e-6


def test_all_four_values_come_back_with_a_known_torque() -> None:
    fit = identify_joints(printed(), [known_torque_test(None)], drive="torque", guess=FAR, warn=False)
    assert np.abs(fit.estimate.values / RIGHT - 1.0).max() < 1e-6


def test_with_noise_the_values_lie_within_four_standard_deviations() -> None:
    robot = printed()
    for seed in range(4):
        fit = identify_joints(robot, [seen(robot, seed)], warn=False)
        assert np.abs((fit.estimate.values - RIGHT) / fit.estimate.std).max() < 4.0
        assert fit.chi2 == pytest.approx(1.0, abs=0.2)
        assert all(one.p_value > 1e-4 for one in fit.whiteness["test"].values())
        known = identify_joints(robot, [known_torque_test(seed)], drive="torque", warn=False)
        assert np.abs((known.estimate.values - RIGHT) / known.estimate.std).max() < 4.0


def test_the_noise_of_the_encoders_reaches_the_standard_deviations() -> None:
    """Encoders as poor as the camera: paths made of their readings are wrong, and the angle holds the same noise."""
    robot, loud = printed(), [Encoder(noise=1e-3)]
    found, chain = truth(robot), MeasurementChain(robot, FRAME, loud)
    errors = []
    for seed in range(60):
        test = observe(found, np.random.default_rng([4, seed]), chain=chain)
        fit = identify_joints(robot, [test], nuisances=OFF, warn=False)
        errors.append((fit.estimate.values - RIGHT) / fit.estimate.std)
        assert fit.chi2 == pytest.approx(1.0, abs=0.25)
    assert np.std(errors, axis=0) == pytest.approx(1.0, abs=0.35)  # the offset's was 2.2 with paths taken as exact
    one = profile_likelihood(fit, "offset", points=7)
    assert one.interval[1] - one.interval[0] == pytest.approx(2.0 * 1.96 * fit.std("offset"), rel=0.05)


def test_the_covariance_of_residuals_is_what_repeated_readings_show() -> None:
    """Residuals at the true values, over many noises: along the paths' deviations their variance is as told."""
    robot, loud = printed(), [Encoder(noise=1e-3)]
    found, chain = truth(robot), MeasurementChain(robot, FRAME, loud)
    notes, rows = np.zeros(0), []
    for seed in range(300):
        test = observe(found, np.random.default_rng([5, seed]), chain=chain)
        test = replace(test, paths={n: smooth_path(TIMES, v, sigma=1e-3, from_rest=True, pieces=1)
                                    for n, v in test.encoders.items()})  # fmt: skip
        model = JointProblem(robot, [test])
        if seed == 0:
            same = {
                n: smooth_with_errors(TIMES, v, sigma=1e-3, from_rest=True, pieces=1) for n, v in test.encoders.items()
            }
            model.smoothed[0] = {("path", n): path for n, path in same.items()}
            errors = path_errors(model, RIGHT, 0)
            assert errors is not None
            notes = 1.0 + errors.gain
        rows.append(errors.basis.T @ model.residual_vector(RIGHT))
    assert np.var(rows, axis=0) == pytest.approx(notes, rel=0.35)
    assert notes.max() > 3.0
    assert notes.min() < 0.7


def test_the_jacobian_of_the_residuals_is_exact() -> None:
    robot = printed()
    tests = [replace(seen(robot, 1, "a"), biases=("attitude.z",)), seen(robot, 2, "b", offset=-1.0)]
    model = JointProblem(robot, tests, offset_rate=True, weighting=weight_early_samples(4.0))
    x = np.array([p.guess for p in model.parameters])
    exact = model.residual_jacobian(x)
    for k, parameter in enumerate(model.parameters):
        step = 1e-5 * parameter.size
        high, low = x.copy(), x.copy()
        high[k] += step
        low[k] -= step
        expected = (model.residual_vector(high) - model.residual_vector(low)) / (2.0 * step)
        assert np.abs(exact[:, k] - expected).max() < 1e-4 * max(np.abs(expected).max(), 1.0), parameter.name


def test_the_motors_torque_as_a_measurement_makes_a_geared_motor_known() -> None:
    """Behind a gear the motor hardly pushes the base: its inertia shows only in its torque."""
    robot = catalogue.load("wojtunik2023")
    found = truth(robot)
    rng = np.random.default_rng(4)
    without = identify_joints(robot, [observe(found, rng).select_channels(("joint1",))], warn=False)
    test = observe(
        found, np.random.default_rng(4), torque=True, chain=MeasurementChain(robot, FRAME, [TorqueSensor(noise=1e-3)])
    )
    assert "joint1.torque" in test.measured
    fit = identify_joints(robot, [test], warn=False)
    assert without.std("motor_inertia") > 1.0
    assert fit.std("motor_inertia") < 0.02
    assert abs(fit["motor_inertia"] - 3.3) < 4.0 * fit.std("motor_inertia")


def test_several_tests_share_the_joint_and_have_their_own_offsets() -> None:
    robot = printed()
    offsets = (1.0, 2.8, -0.2, -0.8, 0.5)
    tests = [seen(robot, 10 + k, f"test{k}", offset=offset) for k, offset in enumerate(offsets)]
    fit = identify_joints(robot, tests, warn=False)
    right = np.array([*TEST2.values(), *(offset * DEGREE for offset in offsets)])
    assert np.abs((fit.estimate.values - right) / fit.estimate.std).max() < 4.0
    single = identify_joints(robot, tests[:1], warn=False)
    assert fit.std("joint1.stiffness") < 0.5 * single.std("joint1.stiffness")
    with pytest.raises(InputError, match="ambiguous"):
        fit["offset"]


def test_two_flexible_joints_in_space() -> None:
    robot = spatial_arm()
    paths = {
        "joint1.motor": quadratic(10.0, 1.0), "joint2": quadratic(30.0, 0.5), "joint3.motor": quadratic(-20.0, -0.8)
    }  # fmt: skip
    values = {"joint1": {"offset": 0.04}, "joint3": {"offset": -0.03}}
    found = simulate_reference(robot, FRAME, values, paths, TIMES)
    test = observe(found, None)
    guess = {"joint1.stiffness": 5.4, "joint3.stiffness": 4.3, "joint1.damping": 0.1, "joint3.damping": 0.2}
    fixed = {"joint1.motor_inertia": 1.28, "joint3.motor_inertia": 0.3}
    fit = identify_joints(robot, [test], guess=guess, fixed=fixed, warn=False)
    expected = {"joint1.stiffness": 6.0, "joint1.damping": 0.2, "joint3.stiffness": 4.0, "joint3.damping": 0.1}
    for name, value in expected.items():
        assert fit[name] == pytest.approx(value, rel=1e-6), name
    assert fit["test.joint3.offset"] == pytest.approx(-0.03, rel=1e-6)


# -- set-ups --------------------------------------------------------------------------------------------------------


def test_rigid_torque_fits_perfectly_and_is_wrong() -> None:
    robot = printed()
    angle = seen(robot, 5).select_channels(("joint1",))
    with pytest.warns(IdentifiabilityWarning, match="rigid inverse dynamics"):
        fit = identify_joints(robot, [angle], drive="rigid_torque")
    assert fit.chi2 == pytest.approx(1.0, abs=0.15)
    assert fit["motor_inertia"] > 2.0 * 3.3
    assert fit["stiffness"] > 1.3 * 5.1
    assert abs(fit["motor_inertia"] - 3.3) > 50.0 * fit.std("motor_inertia")
    sound = identify_joints(robot, [angle], warn=False)
    assert abs(sound["motor_inertia"] - 3.3) < 4.0 * sound.std("motor_inertia")
    assert abs(sound["stiffness"] - 5.1) < 4.0 * sound.std("stiffness")


def test_rigid_torque_is_right_where_it_really_acted() -> None:
    """The bias comes from the real motor's tracking: a twin that is driven by that torque gives its values back."""
    robot = printed()
    values = {"joint1": {**TEST2, "offset": 2.8 * DEGREE}}
    found = simulate_reference(robot, FRAME, values, paper_paths(), TIMES, drive="rigid_torque")
    test = replace(observe(found, None), paths=paper_paths())
    fit = identify_joints(robot, [test], drive="rigid_torque", guess=FAR, warn=False)
    assert np.abs(fit.estimate.values / RIGHT - 1.0).max() < 1e-6


def test_an_undetermined_motor_inertia_is_told() -> None:
    robot = catalogue.load("wojtunik2023")
    angle = seen(robot, 5).select_channels(("joint1",))
    with pytest.warns(IdentifiabilityWarning, match="motor_inertia.*measure the base's attitude or the motor's torque"):
        identify_joints(robot, [angle])


def test_friction_of_a_prescribed_motor_is_not_determined() -> None:
    robot = printed()
    with pytest.warns(IdentifiabilityWarning, match="motor_coulomb is not determined"):
        fit = identify_joints(robot, [seen(robot, 1)], law=JointLaw(motor="coulomb"))
    assert np.isinf(fit.std("motor_coulomb"))
    assert np.isfinite(fit.std("stiffness"))


def test_what_is_not_determined_stays_so_under_early_weights() -> None:
    robot = printed()
    with pytest.warns(IdentifiabilityWarning, match="motor_coulomb is not determined"):
        fit = identify_joints(
            robot, [seen(robot, 1)], law=JointLaw(motor="coulomb"), weighting=weight_early_samples(3.0)
        )
    assert np.isinf(fit.std("motor_coulomb"))
    assert np.isfinite(fit.std("stiffness"))


def test_a_small_offset_means_a_large_uncertainty() -> None:
    robot = printed()
    sd = []
    for offset in (0.1, 0.3, 1.0, 3.0):
        model = JointProblem(robot, [seen(robot, offset=offset)])
        x = np.array([*TEST2.values(), offset * DEGREE])
        sd.append(np.sqrt(np.diag(covariance_at(model, x)))[1:3])
    falling = np.array(sd)
    assert np.all(np.diff(falling, axis=0) < 0)
    assert falling[0, 1] > 10.0 * falling[-1, 1]


# -- estimators -----------------------------------------------------------------------------------------------------


def test_nelder_mead_with_the_papers_cost_agrees_with_levenberg_marquardt() -> None:
    robot = printed()
    angle = seen(robot, 6).select_channels(("joint1",))
    simplex = identify_joints(robot, [angle], method=NelderMead(spread=1.0, tolerance=1e-9), cost="paper", warn=False)
    marquardt = identify_joints(robot, [angle], warn=False)
    assert np.abs((simplex.estimate.values - marquardt.estimate.values) / marquardt.estimate.std).max() < 0.2
    assert simplex.estimate.evaluations > 5 * marquardt.estimate.evaluations
    model = simplex.model
    x = simplex.estimate.values
    assert model.paper_cost(x) == pytest.approx(
        float(np.sum(model.compute_raw_residuals(x, 0)[0] ** 2)), rel=1e-12
    )  # Eq. 24


def test_the_papers_cost_looks_at_the_angle_only_and_says_what_that_costs() -> None:
    """The base's attitude is not in Eq. 24, so the standard deviations must not draw on it."""
    robot = printed()
    both = seen(robot, 6)
    marquardt = identify_joints(robot, [both.select_channels(("joint1",))], warn=False)
    for method in (NelderMead(spread=1.0, tolerance=1e-9), "levenberg_marquardt"):
        fit = identify_joints(robot, [both], method=method, cost="paper", warn=False)  # type: ignore[arg-type]
        assert fit.estimate.std == pytest.approx(marquardt.estimate.std, rel=0.05)
        assert np.abs((fit.estimate.values - marquardt.estimate.values) / marquardt.estimate.std).max() < 0.3
    sooner = identify_joints(robot, [both], cost="paper", weighting=weight_early_samples(1.0), warn=False)
    assert sooner.std("stiffness") > 1.5 * fit.std("stiffness")
    with pytest.raises(InputError, match="no flexible joint's angle is measured"):
        identify_joints(robot, [both.select_channels(("attitude.z",))], cost="paper")


def test_values_are_held_by_kind_as_by_name() -> None:
    robot = printed()
    test = seen(robot, 6)
    by_kind = identify_joints(robot, [test], fixed={"stiffness": 5.2}, warn=False)
    by_name = identify_joints(robot, [test], fixed={"joint1.stiffness": 5.2}, warn=False)
    assert "joint1.stiffness" not in by_kind.estimate.names
    assert by_kind.values["joint1"]["stiffness"] == 5.2
    assert np.array_equal(by_kind.estimate.values, by_name.estimate.values)
    with pytest.raises(InputError, match="stiffness' is nan"):
        identify_joints(robot, [test], fixed={"stiffness": float("nan")})


def test_nelder_mead_stalls_at_zero_damping_and_a_start_from_the_period_cures_it() -> None:
    robot = printed()
    own = {"motor_inertia": 4.5, "stiffness": 8.3, "damping": 0.1}
    angle = seen(robot, 7, values=own, offset=0.5).select_channels(("joint1",))
    simplex = NelderMead(spread=0.3, tolerance=1e-7, uncertainty=False)
    start = {"motor_inertia": 5.2, "stiffness": 22.0, "damping": 0.1}
    stalled = identify_joints(robot, [angle], method=simplex, cost="paper", guess=start, warn=False)
    assert stalled["damping"] < 1e-6
    assert "joint1.damping" in stalled.parameters_at_bounds
    assert stalled["stiffness"] > 10.0
    start.pop("stiffness")
    cured = identify_joints(robot, [angle], method=simplex, cost="paper", guess=start, warn=False)
    assert cured["damping"] == pytest.approx(0.1, abs=0.08)
    assert cured["stiffness"] == pytest.approx(8.3, abs=1.0)
    assert cured.model.paper_cost(cured.estimate.values) < 0.1 * stalled.model.paper_cost(stalled.estimate.values)


def test_many_starts_find_the_global_minimum() -> None:
    robot = printed()
    test = seen(robot, 8)
    bounds = {"motor_inertia": (0.5, 20.0), "stiffness": (0.5, 40.0), "damping": (0.0, 2.0)}
    fit = identify_joints(robot, [test], method="multi_start", bounds=bounds, guess={"stiffness": 35.0}, warn=False)
    assert np.abs((fit.estimate.values - RIGHT) / fit.estimate.std).max() < 4.0
    assert 0.0 < fit.estimate.extra["agree"] <= 1.0


def test_early_weights_forgive_what_comes_later() -> None:
    """A disturbance in the second half moves the plain fit more than the weighted one; its error is told honestly."""
    robot = printed()
    clean = seen(robot, 9)
    shifted = dict(clean.measured)
    shifted["joint1"] = shifted["joint1"] + np.where(TIMES > 6.0, 3e-3 * np.sin(2.0 * TIMES), 0.0)
    test = replace(clean, measured=shifted)
    plain = identify_joints(robot, [test], warn=False)
    weighted = identify_joints(robot, [test], weighting=weight_early_samples(1.5), warn=False)
    assert abs(weighted["damping"] - 0.4) < abs(plain["damping"] - 0.4)
    errors, notes = [], []
    found, chain = truth(robot), MeasurementChain(robot, FRAME, NOISE)
    for seed in range(20):
        again = observe(found, np.random.default_rng(seed), chain=chain)
        fit = identify_joints(robot, [again], weighting=weight_early_samples(2.0), nuisances=OFF, warn=False)
        errors.append(fit["stiffness"] - 5.1)
        notes.append(fit.std("stiffness"))
    assert np.std(errors) == pytest.approx(np.mean(notes), rel=0.4)


def test_unknown_noise_is_taken_from_the_residuals() -> None:
    robot = printed()
    test = seen(robot, 11).select_channels(("joint1",))
    known = identify_joints(robot, [test], warn=False)
    unknown = identify_joints(robot, [replace(test, noise=None)], warn=False)
    assert np.isnan(unknown.chi2)
    assert unknown.estimate.values == pytest.approx(known.estimate.values, rel=0.05)
    assert unknown.estimate.std == pytest.approx(known.estimate.std, rel=0.15)


def test_an_unknown_start_of_the_base_is_identified_with_the_rest() -> None:
    """The start attitude is known only by one noisy reading: taken as exact it would shift everything."""
    robot = printed()
    found, chain = truth(robot), MeasurementChain(robot, FRAME, NOISE)
    wrong = 0
    for seed in range(6):
        test = observe(found, np.random.default_rng(seed), chain=chain, start_known=False)
        assert test.biases == ("attitude.z",)
        fit = identify_joints(robot, [test], warn=False)
        right = np.array([*RIGHT, 0.0 - 2.0 * np.arctan2(test.base_pose[6], test.base_pose[3])])
        assert np.abs((fit.estimate.values - right) / fit.estimate.std).max() < 4.0
        taken = identify_joints(robot, [replace(test, biases=())], warn=False)
        wrong += int(np.abs((taken.estimate.values - RIGHT) / taken.estimate.std).max() > 4.0)
    assert wrong >= 3
    with pytest.raises(InputError, match=r"bias of 'position\.x', which is not measured"):
        replace(test, biases=("position.x",))


def test_an_unknown_start_rate_can_be_identified_too() -> None:
    robot = printed()
    values = {"joint1": {**TEST2, "offset": 2.0 * DEGREE, "offset_rate": 0.05}}
    test = observe(simulate_reference(robot, FRAME, values, paper_paths(), TIMES), None)
    fit = identify_joints(robot, [test], offset_rate=True, warn=False)
    assert fit["offset_rate"] == pytest.approx(0.05, rel=1e-6)
    assert fit["stiffness"] == pytest.approx(5.1, rel=1e-6)


# -- data and errors ------------------------------------------------------------------------------------------------


def test_irregular_sampling_is_accepted() -> None:
    robot = printed()
    rng = np.random.default_rng(2)
    times = np.concatenate([[0.0], np.sort(rng.uniform(0.0, 10.0, 400))])
    found = simulate_reference(robot, FRAME, {"joint1": {**TEST2, "offset": 2.8 * DEGREE}}, paper_paths(), times)
    fit = identify_joints(robot, [observe(found, None)], guess=FAR, warn=False)
    assert np.abs(fit.estimate.values / RIGHT - 1.0).max() < 1e-6


def test_a_start_time_other_than_zero_changes_nothing() -> None:
    robot = printed()
    test = seen(robot, 3)
    fit, later = (identify_joints(robot, [replace(test, time=test.time + s)], warn=False) for s in (0.0, 1e4))
    assert later.estimate.values == pytest.approx(fit.estimate.values, rel=1e-6)


def test_readings_a_full_turn_away_change_nothing() -> None:
    robot = printed()
    test = seen(robot, 3)
    turned = {k: v + (2.0 * np.pi if k == "joint1" else 0.0) for k, v in test.measured.items()}
    fit = identify_joints(robot, [test], warn=False)
    other = identify_joints(robot, [replace(test, measured=turned)], warn=False)
    # Readings lose three bits by the turn, and a search may end a step earlier where steps no longer matter.
    assert np.all(np.abs(other.estimate.values - fit.estimate.values) < 1e-4 * fit.estimate.std)


def test_data_shorter_than_a_period_are_told() -> None:
    robot = printed()
    found = simulate_reference(robot, FRAME, {"joint1": {**TEST2, "offset": 2.8 * DEGREE}}, paper_paths(), TIMES[:120])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentifiabilityWarning)
        with pytest.warns(DataWarning, match="less than a period of the oscillation"):
            identify_joints(robot, [observe(found, np.random.default_rng(1))])


def test_a_model_that_lacks_something_is_told() -> None:
    robot = printed()
    test = seen(robot, 1, values={"spring_coulomb": 0.05}, law=JointLaw(spring="coulomb"))
    with pytest.warns(IdentifiabilityWarning, match="the model lacks something"):
        fit = identify_joints(robot, [test])
    assert not fit.whiteness["test"]["joint1"].white


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"stiffness": (10.0, 1.0)}}, "lower bound 10 is not below upper bound 1"),
        ({"bounds": {"stifness": (1.0, 2.0)}}, "there is no parameter 'stifness'"),
        ({"guess": {"stiffness": -5.0}}, "guess -5 is not within"),
        ({"method": "simplex"}, "method is 'simplex'"),
        ({"cost": "squares"}, "cost is 'squares'"),
        ({"drive": "torque"}, "torque of 'joint1' is not given"),
    ],
)
def test_wrong_input_is_told(options: dict[str, object], message: str) -> None:
    robot = printed()
    with pytest.raises(InputError, match=message):
        identify_joints(robot, [seen(robot)], **options)  # type: ignore[arg-type]


def test_wrong_tests_are_told() -> None:
    robot = printed()
    test = seen(robot)
    with pytest.raises(InputError, match="given twice"):
        identify_joints(robot, [test, test])
    with pytest.raises(InputError, match="cannot be compared with channel 'joint2'"):
        identify_joints(robot, [replace(test.select_channels(("joint1",)), noise=None, measured={"joint2": test.time})])
    with pytest.raises(InputError, match="noise is not positive definite"):
        JointTest("t", test.time, test.encoders, {"joint1": test.measured["joint1"]}, np.array([0.0]))
    with pytest.raises(InputError, match="no encoder data"):
        identify_joints(robot, [replace(test, encoders={"joint2": test.encoders["joint2"]})])
    with pytest.raises(InputError, match="decay is 0"):
        weight_early_samples(0.0)


@pytest.mark.parametrize("weights", [lambda t: -t, lambda t: t * np.nan, lambda t: 0.0 * t, lambda t: np.ones(3)])
def test_unusable_weights_are_told(weights: Callable[[np.ndarray], np.ndarray]) -> None:
    with pytest.raises(InputError, match="weights of test 'test' are not usable"):
        identify_joints(printed(), [seen(printed())], weighting=weights)


def test_a_value_on_its_bound_is_told() -> None:
    robot = printed()
    with pytest.warns(IdentifiabilityWarning, match="stiffness ended on its bound 6 N m/rad"):
        fit = identify_joints(robot, [seen(robot, 1)], bounds={"stiffness": (6.0, 9.0)})
    assert fit.parameters_at_bounds == ("joint1.stiffness",)


def test_damping_of_the_motor_in_the_robot_is_not_counted_twice() -> None:
    """What was identified is written into the robot; identified again it is the same, not what is left over."""
    law = JointLaw(motor_damping=True)
    torque = {"joint1": spline([0.0, 2.0, 5.0, 8.0, 10.0], [0.3, -0.2, 0.25, -0.3, 0.1])}
    held = {joint: quadratic(start, 0.0) for joint, start in START.items()}
    own = {**TEST2, "motor_damping": 0.1}
    values = {"joint1": {**own, "offset": 2.0 * DEGREE}}
    found = []
    for robot in (printed(), write_joint_values(printed(), {"joint1": own})):
        motion = simulate_reference(robot, FRAME, values, held, TIMES, drive="torque", law=law, torques=torque)
        found.append(motion.joints)
    assert np.abs(found[1] - found[0]).max() < 1e-12


def test_paths_may_be_given_exactly() -> None:
    robot = printed()
    test = replace(seen(robot, 3), paths={"joint2": smooth_path(TIMES, paper_paths()["joint2"](TIMES))})
    assert identify_joints(robot, [test], warn=False)["stiffness"] == pytest.approx(5.1, abs=0.03)


def test_a_simplex_that_never_settles_is_stopped() -> None:
    """Where the minimum lies beyond a bound, 20,000 evaluations of a joint took longer than anybody waits for."""
    rng = np.random.default_rng(1)
    restless = Problem(
        [Parameter(name, 0.5, lower=0.0, upper=1.0) for name in "ab"],
        Block(lambda x: x),
        cost=lambda xs: rng.random(len(xs)) * np.exp(rng.normal(0.0, 20.0, len(xs))),
    )
    assert estimator_of("nelder_mead").solve(restless).evaluations <= 10_010
