"""No estimate is sound without a check of its residuals, by whatever method it was found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import MotionRecord, Prior, identify
from spacearm.measure import make_sensors
from spacearm.optimise.diagnose import diagnose
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.problem import Parameter
from support.experiments import experiment, read_experiment
from support.servicer import COUNT, NOISE, ROBOT, measured, nominal, servicer_motion

ALL = {**NOISE, "acceleration": 2e-4, "angular_acceleration": 2e-4, "joint_acceleration": 1e-3, "torque": 0.02}
PLACE = np.array([0.4, -0.3])


def still(*, known_momentum: bool = False, **velocities: object) -> MotionRecord:
    """An arm that is held, on a satellite at rest or with these velocities."""
    sensors = make_sensors(tuple(ALL), noise=ALL, period=0.2)
    done = experiment(ROBOT, 20.0, PLACE, **velocities)
    return read_experiment(ROBOT, done, sensors, "held", known_momentum=known_momentum)


@pytest.mark.parametrize("method", ["linear", "total", "consistent"])
def test_an_arm_that_is_held_by_its_drives_is_not_sound(method: str) -> None:
    """Torques of 5 and 2 N m and nothing that moves: no inertia explains them, and none is found."""
    record = still()
    holding = replace(record, readings={**record.readings, "torque": record.readings["torque"] + [5.0, 2.0]})
    for given in (holding.add_noise(0), replace(holding, sigma={})):
        found = identify(nominal(1.3), [given], method=method, kinds=("dynamics",))  # type: ignore[arg-type]
        checks = found.certificate()
        assert not checks["chi_square.held"].sound
        assert not checks["determined"].sound
        assert not checks.sound


def test_noise_in_the_regressor_makes_a_linear_estimate_not_sound() -> None:
    """A drift of 10 mm/s with a known momentum, read to 1 mm/s: least squares find too little mass, and said 1 kg."""
    record = still(base_velocity=(0.01, 0.0, 0.0), known_momentum=True).add_noise(0)
    prior = Prior.from_known_bodies(ROBOT, ["bus", "upper"])
    linear, total = (identify(nominal(1.3), [record], method=m, prior=prior) for m in ("linear", "total"))  # type: ignore[arg-type]
    assert linear.estimate.values[0] < 40.0 - 4.0 * linear.estimate.std[0]
    assert [name for name, check in linear.certificate().items() if not check.sound] == ["bias"]
    assert abs(total.estimate.values[0] - 40.0) < 4.0 * total.estimate.std[0]
    assert total.certificate().sound


def test_an_estimate_without_residuals_is_not_sound() -> None:
    nothing = Estimate((Parameter("m", 1.0),), np.ones(1), np.eye(1), 0.0, "guess")
    assert not diagnose(nothing).sound
    assert "nothing shows" in diagnose(nothing).certificate()["residuals"].note
    lost = replace(nothing, residuals={"data": {"a": np.full(30, np.nan)}})
    assert not diagnose(lost).sound
    one = replace(nothing, residuals={"data": {"a": np.zeros(1)}})
    assert "as many unknowns" in diagnose(one, 0).certificate()["residuals"].note


@pytest.mark.parametrize("method", [None, "linear", "total"])
def test_readings_that_are_all_missing(method: str | None) -> None:
    """A channel without any reading ended in errors of NumPy."""
    record = measured(servicer_motion(), 0).select_samples(slice(0, COUNT, 5))
    prior = Prior.from_known_bodies(ROBOT, ["bus", "upper"])
    lost = replace(record, readings={**record.readings, "velocity": np.nan * record.readings["velocity"]})
    if method is None:
        assert identify(nominal(1.3), [lost], prior=prior).estimate.values[0] == pytest.approx(40.0, abs=0.5)
    else:
        with pytest.raises(InputError, match="no sample has a reading of every channel"):
            identify(nominal(1.3), [lost], prior=prior, method=method)  # type: ignore[arg-type]
