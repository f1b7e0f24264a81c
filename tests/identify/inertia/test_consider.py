"""Numbers that are taken as known and are wrong, on motions that MuJoCo integrated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import MotionRecord, Prior, identify, write_record
from spacearm.identify.inertia.identify import Identification, Method
from spacearm.model import Inertia, save
from spacearm.model.edit import replace_inertias
from spacearm.study import run_document
from support.servicer import NOISE, ROBOT, measured, nominal, sensor_tables, servicer_motion

TRUTH = ROBOT.inertia_parameters[2]
KNOWN = Prior.from_known_bodies(ROBOT, ["bus", "upper"])
UPPER = ROBOT.bodies[1].inertia
ZERO = np.deg2rad(0.3)


HEAVY = replace_inertias(ROBOT, {"upper": Inertia(1.1 * UPPER.mass, UPPER.com, 1.1 * UPPER.tensor)})


def heavy() -> MotionRecord:
    """The upper link is 10 % heavier than its model."""
    return measured(servicer_motion(robot=HEAVY), 3)


def shifted() -> MotionRecord:
    """The zero of the last joint's encoder is off."""
    record = measured(servicer_motion(), 3)
    read = record.readings["joint_position"] + [0.0, ZERO]
    return replace(record, readings={**record.readings, "joint_position": read})


def errors(found: Identification) -> np.ndarray:
    """Of the held body's ten numbers, in standard deviations."""
    return (found.estimate.values - TRUTH) / found.estimate.std


def test_a_heavy_link_is_within_the_interval() -> None:
    """10 % heavier: the held body's mass was 139 white-noise deviations off, and is within them with the doubt
    stated."""
    before = identify(nominal(1.3), [heavy()], prior=KNOWN)
    assert before.output_error is not None
    white = np.sqrt(np.diag(before.output_error.covariance)[:10])
    assert np.abs((before.estimate.values - TRUTH) / white).max() > 100.0
    found = identify(nominal(1.3), [heavy()], prior=KNOWN, consider={"upper": 0.1})
    assert found.certificate().sound
    assert np.abs(errors(found)).max() < 3.0
    assert found.consider_shares[0].number.name.endswith("(upper)")
    assert 0.1 < found.consider_shares[0].share <= 1.0


def test_an_encoders_zero_is_within_the_interval() -> None:
    """It looked sound before. The data determine it, so that intervals hardly grow."""
    before = identify(nominal(1.3), [shifted()], prior=KNOWN)
    assert before.certificate().sound
    assert np.abs(errors(before)).max() > 30.0
    found = identify(nominal(1.3), [shifted()], prior=KNOWN, consider={"encoder_offset": ZERO})
    assert found.certificate().sound
    assert np.abs(errors(found)).max() < 3.5


def test_low_thrust_with_all_bodies_unknown_is_within_the_interval() -> None:
    """3 % low: nothing but the thrust gives the scale of all inertias. Their interval has its 3 %, and no more."""
    record = measured(servicer_motion(), 3, thrust=1.0 / 0.97)
    before, found = (identify(ROBOT, [record], consider=doubt) for doubt in ({}, {"thrust": 0.03}))
    truth = found.problem.base_parameters.combine @ ROBOT.inertia_parameters.ravel()
    far = [np.abs((one.estimate.values - truth) / one.estimate.std).max() for one in (before, found)]
    assert before.certificate().sound
    assert found.certificate().sound
    assert far[0] > 30.0
    assert far[1] < 3.0
    explained = np.hypot(before.estimate.std, 0.031 * np.abs(found.estimate.values))
    assert np.all(found.estimate.std <= 1.02 * explained)
    assert found.consider_shares[0].number.name == "thrust"
    assert found.consider_shares[0].share > 0.9


@pytest.mark.parametrize("method", ["total", "linear"])
def test_equations_at_single_samples_count_them_too(method: Method) -> None:
    """A thrust 3 % low with all bodies unknown, and a link 10 % heavier, without noise: nothing but doubt is left."""
    low = replace(measured(servicer_motion(), None, thrust=1.0 / 0.97).thin(4), known_momentum=None)
    found = identify(ROBOT, [low], method=method, consider={"thrust": 0.03})
    truth = found.problem.base_parameters.combine @ ROBOT.inertia_parameters.ravel()
    assert found.estimate.std[0] == pytest.approx(0.03 * found.estimate.values[0], rel=0.1)
    there = np.abs(truth) > 0.1
    assert np.nanmax(np.abs((found.estimate.values - truth) / found.estimate.std)[there]) < 1.1
    heavier = measured(servicer_motion(robot=HEAVY), None).thin(4)
    for share, least, most in ((0.0, 3.0, np.inf), (0.1, 0.0, 3.0)):
        found = identify(ROBOT, [heavier], method=method, prior=KNOWN, consider={"upper": share})
        assert least < np.abs(errors(found)).max() < most


def test_effects_are_those_of_refits() -> None:
    """Brute force: the link's mass moved by one part in a hundred, and all fitted anew; effects go with the doubt."""
    record, mean = measured(servicer_motion(), 3), ROBOT.inertia_parameters.ravel()
    moved = []
    for factor in (1.01, 0.99):
        other = mean.copy()
        other[10] *= factor
        moved.append(identify(ROBOT, [record], prior=replace(KNOWN, mean=other)).estimate.values)
    slope = (moved[0] - moved[1]) / (0.02 * UPPER.mass)
    for share in (1e-7, 2e-7):  # so small that the data add nothing
        fit = identify(ROBOT, [record], prior=KNOWN, consider={"upper": share}).output_error
        assert fit is not None
        effects = {number.name: effect for number, effect in fit.consider_effects.items()}
        np.testing.assert_allclose(effects["m(upper)"][:10] / (share * UPPER.mass), slope, atol=0.02 * abs(slope).max())


def test_zero_doubt_is_what_it_was() -> None:
    record = heavy()
    first = identify(ROBOT, [record], prior=KNOWN)
    second = identify(ROBOT, [record], prior=KNOWN, consider={"nominal": 0.0, "thrust": 0.0, "mount": 0.0})
    np.testing.assert_array_equal(first.estimate.values, second.estimate.values)
    np.testing.assert_array_equal(first.estimate.std, second.estimate.std)
    assert second.consider_shares == ()


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="thrust"):
        identify(ROBOT, [measured(servicer_motion(), 3)], consider={"trust": 0.1})
    with pytest.raises(InputError, match="nominal"):
        identify(ROBOT, [measured(servicer_motion(), 3)], consider={"nominal": -0.1})


def test_a_scenario_has_doubts_and_names_what_matters_most(tmp_path: Path) -> None:
    save(nominal(1.3), tmp_path / "robot.toml")
    write_record(measured(servicer_motion(pushed=False, robot=HEAVY), 2), ROBOT, tmp_path / "orbit.csv")
    document = {
        "study": "inertia-identification",
        "robot": "robot.toml",
        "estimate": {"unknown_bodies": ["held"]},
        "nominal": {"body": {"upper": 0.1}},
        "sensor": sensor_tables(NOISE),
        "measurements": {"file": "orbit.csv"},
    }
    result = run_document(document, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    assert rows["held.mass"].value == pytest.approx(40.0, abs=4.0)
    fixed = [row for row in result.rows if row.quantity.startswith("fixed.")]
    assert fixed
    assert "of the variance of" in fixed[0].note
    assert "matters most" in result.summary
