"""From readings of a motion that MuJoCo integrated to numbers with their origin, and what is not called sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia import (
    InertiaProblem,
    MotionRecord,
    Prior,
    TargetFilter,
    base_parameters,
    identify,
    prepare_record,
    read_record,
    write_record,
)
from spacearm.identify.inertia._encoders import detect_moving_joints, joint_path
from spacearm.identify.inertia._writeback import build_identified_robot
from spacearm.identify.inertia.consistent import impossible_bodies
from spacearm.identify.inertia.identifiability import assess_information
from spacearm.identify.inertia.identify import Identification
from spacearm.identify.inertia.online import track_target
from spacearm.identify.inertia.standard_parameters import ParameterSource
from spacearm.measure import make_sensors
from spacearm.model import Inertia, Robot, Rotor, Thruster, catalogue, save
from spacearm.model.edit import replace_inertias
from spacearm.optimise.information import Information
from spacearm.study import run_document
from support.experiments import one_joint, read_experiment
from support.servicer import (
    COUNT,
    FIRINGS,
    NOISE,
    ROBOT,
    STEP,
    Motion,
    measured,
    nominal,
    sensor_tables,
    servicer_motion,
)

TRUTH = ROBOT.inertia_parameters[2]
KNOWN = Prior.from_known_bodies(ROBOT, ["bus", "upper"])


@pytest.fixture(scope="module")
def motion() -> Motion:
    return servicer_motion()


def off(found: Any, truth: Any = TRUTH) -> float:
    """Largest error in standard deviations."""
    size = len(truth)
    return float(np.abs((found.estimate.values[:size] - truth) / found.estimate.std[:size]).max())


def test_known_bodies_leave_the_ten_numbers_of_the_last() -> None:
    robot = catalogue.load("xu2017")
    base = base_parameters(robot, tuple(range(60)))
    assert base.names == tuple(f"{k}(link6)" for k in ("m", "hx", "hy", "hz", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz"))
    pair = base_parameters(robot, tuple(range(50)))
    assert (pair.rank, pair.unknown) == (17, 20)  # three may belong to either
    whole = base_parameters(robot)
    assert np.linalg.matrix_rank(whole.combine[:, 50:]) == 17
    np.testing.assert_allclose(pair.combine @ pair.lift, np.eye(17), atol=1e-12)
    np.testing.assert_allclose(whole.combine @ pair.null, 0.0, atol=1e-9)


@pytest.mark.parametrize("factor", [3.0, 1.0 / 3.0])
def test_a_captured_body_from_a_poor_drawing(factor: float, motion: Motion) -> None:
    found = identify(nominal(factor), [measured(motion, 3)], prior=KNOWN)
    assert found.estimate.method == "output error"
    best = identify(ROBOT, [measured(motion, 3)], prior=KNOWN)
    assert np.abs((found.estimate.values - best.estimate.values) / best.estimate.std).max() < 1e-2
    assert found.certificate().sound
    assert not found.suspects
    assert found.samples == {"orbit": f"all {COUNT} samples, {12 * COUNT} numbers of {12 * COUNT} read"}
    assert found.known.number("held", "mass").source is ParameterSource.DATA
    assert found.known.number("held", "mass").std < 0.02
    assert off(found) < 4.0


def test_all_bodies_unknown_are_told_as_combinations(motion: Motion) -> None:
    found = identify(nominal(1.3), [measured(motion, 4)])
    truth = base_parameters(ROBOT).combine @ ROBOT.inertia_parameters.ravel()
    known = np.isfinite(found.estimate.std)
    assert found.information.rank == 24 == truth.size
    assert np.abs((found.estimate.values - truth) / found.estimate.std)[known].max() < 4.5
    assert found.known.number("bus", "mass").source is ParameterSource.UNDETERMINED


def test_wrong_known_bodies_and_beliefs_are_not_sound(motion: Motion) -> None:
    """The bus is 3 % heavier than what is taken as known; the held body is believed to 1 % and is 30 % off."""
    inertia = ROBOT.inertia_parameters.copy()
    inertia[0] *= 1.03
    heavy = ROBOT.with_inertia_parameters(inertia)
    found = identify(heavy, [measured(motion, 1)], prior=Prior.from_known_bodies(heavy, ["bus", "upper"]))
    assert not found.certificate().sound
    assert "bus" in [one.name for one in found.suspects]
    wrong = nominal(1.3)
    sure = Prior(wrong.inertia_parameters.ravel(), np.repeat([0.0, 0.0, 0.01], 10) * 40.0, "drawing")
    found = identify(wrong, [measured(motion, 1)], prior=sure)
    assert not found.certificate()["score.prior"].sound
    assert "prior" in [one.name for one in found.suspects]


def test_encoders_that_fail_now_and_then(motion: Motion) -> None:
    record, rng = measured(motion, 5), np.random.default_rng(1)
    joints, rates = (record.readings[name].copy() for name in ("joint_position", "joint_rate"))
    joints[rng.random(COUNT) < 0.01] += 5e-3
    joints[rng.random(COUNT) < 0.02] = np.nan
    rates[rng.random(COUNT) < 0.01] += 0.2
    bad = replace(record, readings={**record.readings, "joint_position": joints, "joint_rate": rates})
    path = joint_path(bad)
    assert path.missing > 5
    assert path.outliers >= 10
    assert np.abs(path.joints - motion[1][:, 7:]).max() < 1e-3
    found = identify(nominal(1.3), [bad], prior=KNOWN)
    assert found.certificate().sound
    assert off(found) < 4.0
    assert "far off, replaced" in found.samples["orbit"]
    smooth = joint_path(record)
    assert (smooth.missing, smooth.outliers) == (0, 0)


def test_a_bad_encoder_reading_at_the_end_and_a_small_one_in_a_rate(motion: Motion) -> None:
    """Neighbours of a bad end were replaced one after the other; rates were judged by positions alone."""
    record = measured(motion, 5)
    joints, rates = (record.readings[name].copy() for name in ("joint_position", "joint_rate"))
    joints[0, 0] += 100.0 * NOISE["joint_position"]
    joints[-1, 1] += 100.0 * NOISE["joint_position"]
    rates[100, 1] += 25.0 * NOISE["joint_rate"]
    path = joint_path(replace(record, readings={**record.readings, "joint_position": joints, "joint_rate": rates}))
    assert path.outliers == 3
    away = np.abs(path.rates - motion[2][:, 6:]) / np.sqrt(path.variance[:, 2:])
    assert away.max() < 5.0
    assert (np.abs(path.joints - motion[1][:, 7:]) / np.sqrt(path.variance[:, :2])).max() < 5.0


def test_single_thrusters_have_their_own_scale(motion: Motion) -> None:
    """One of six is 5 % stronger than stated; its scale comes out, and the belief of 2 % in each counts."""
    record = measured(motion, 6)
    parts = {}
    for k, (start, length, *_) in enumerate(FIRINGS):
        on = (record.times + 1e-9 >= start) & (record.times + 1e-9 < start + length)
        parts[f"jet{k}"] = np.where(on[:, None], record.wrench, 0.0) / (1.05 if k == 2 else 1.0)
    stated = replace(record, wrench=np.sum(list(parts.values()), axis=0), thrusters=parts)
    blind = identify(nominal(1.3), [stated], prior=KNOWN)
    assert not blind.certificate().sound
    assert {"thrust", "thrusters"} & {one.name for one in blind.suspects}
    found = identify(nominal(1.3), [stated], prior=KNOWN, estimate={"thrusters": 0.02})
    assert found.certificate().sound
    assert found.estimate["thrusters[jet2]"] == pytest.approx(0.05, abs=4 * found.estimate.std[12])
    assert off(found) < 4.0


def test_directions_that_are_not_seen_have_no_negative_size() -> None:
    """Eigenvalues of a singular matrix are zero to the last digit only: some are negative."""
    base = base_parameters(ROBOT)
    rises = np.array([-1e-18, *np.ones(base.rank - 1)])
    with np.errstate(invalid="raise"):
        seen = assess_information(Information(np.zeros(base.rank), np.ones(base.rank), rises, np.eye(base.rank)), base)
    assert (seen.rank, seen.stages[-1].singular[-1]) == (base.rank - 1, 0.0)


def test_rotors_do_not_tell_the_scale() -> None:
    """Without forces all inertias may be multiplied by one factor; small rotors of known inertia do not change that."""
    joints = [replace(joint, rotor=Rotor(1e-5, 50.0)) for joint in ROBOT.joints]
    robot = ROBOT.replace(joints=joints)
    record = measured(servicer_motion(False, robot), 1, thrust=0.0)
    light = robot.with_inertia_parameters(0.85 * robot.inertia_parameters)
    truth = base_parameters(robot).combine @ robot.inertia_parameters.ravel()
    for method in ("output-error", "total"):
        found = identify(light, [record], method=method)  # type: ignore[arg-type]
        known = np.isfinite(found.estimate.std)
        assert np.abs((found.estimate.values - truth) / found.estimate.std)[known].max(initial=0.0) < 4.5
        assert not known[0]  # the mass of the whole robot


def test_free_floating_with_a_known_bus_covers() -> None:
    motion = servicer_motion(False)
    errors = []
    for seed in range(10):
        found = identify(nominal(2.0), [measured(motion, seed, thrust=0.0)], prior=KNOWN)
        errors.append((found.estimate.values - TRUTH) / found.estimate.std)
    assert np.mean(np.abs(errors) < 1.96) > 0.88
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) < 1.25


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_total_estimation_of_a_target_forgets_the_guess(factor: float) -> None:
    """Only the last joint moves, other bodies are known, nothing is noisy."""
    robot = catalogue.load("xu2017")
    sensors = make_sensors(period=0.5, noise=dict.fromkeys(NOISE, 1e-5))
    swing = np.arange(9) * 2.5, np.deg2rad([0, 15, 30, 15, 0, -15, -30, -15, 0])
    record = read_experiment(robot, one_joint(robot, "joint6", swing, "normal"), sensors)
    inertia = robot.inertia_parameters.copy()
    inertia[-1] *= factor
    guess = robot.with_inertia_parameters(inertia)
    found = identify(guess, [record], method="total", prior=Prior.from_known_bodies(guess, robot.body_names[:-1]))
    notes = np.isfinite(found.estimate.std)
    assert notes.any()
    gap = (found.estimate.values - robot.inertia_parameters[-1])[notes]
    assert np.abs(gap / found.estimate.std[notes]).max() < 0.05


def test_the_target_is_followed_with_thrusters(motion: Motion) -> None:
    ends = [track_target(nominal(2.0), "held", measured(motion, seed), chunk=251)[-1] for seed in range(8)]
    errors = np.array([(state.values - TRUTH) / state.std for state in ends])
    assert np.mean(np.abs(errors) < 1.96) > 0.86
    assert ends[0].std[0] < 0.02


def white_deviations(found: Identification) -> np.ndarray:
    """Of the held body's ten numbers, by white noise alone."""
    assert found.output_error is not None
    return np.sqrt(np.diag(found.output_error.covariance)[:10])


def test_segments_leave_no_room_for_forces_that_nobody_states() -> None:
    """A drag of 0.05 N over 20 s: in one piece the result is wrong, not sound, and the force is named; estimated, it
    comes out. In pieces of 2 s residuals no longer show it, but its score does, and stretches scatter more than the
    covariance allows; in pieces of 1 s the numbers are right."""
    record, known = measured(servicer_motion(drag=0.05), 0), Prior.from_known_bodies(nominal(1.3), ["bus", "upper"])
    once = identify(nominal(1.3), [record], prior=known)
    assert not once.certificate().sound
    assert np.abs((once.estimate.values - TRUTH) / white_deviations(once)).max() > 6.0
    assert once.suspects[0].name == "external_force"
    notes = identify(nominal(1.3), [record], prior=known, estimate=["external_force"])
    assert notes.certificate().sound
    assert notes.estimate.values[10:] == pytest.approx([0.05, 0.0, 0.0], abs=2e-3)
    some = identify(nominal(1.3), [record], prior=known, segment=2.0)
    checks = some.certificate()
    assert {"score.external_force", "overconfidence"} <= {name for name, check in checks.items() if not check.sound}
    assert all(check.sound for name, check in checks.items() if name.startswith(("chi_square", "whiteness")))
    assert some.suspects[0].name == "external_force"
    assert len(some.samples) == 10
    assert np.sqrt(np.mean(((some.estimate.values - TRUTH) / white_deviations(some)) ** 2)) > 2.0
    assert np.all(some.estimate.std >= white_deviations(some))  # the larger of two counts
    assert white_deviations(once)[0] < white_deviations(some)[0] < 10.0 * white_deviations(once)[0]
    often = identify(nominal(1.3), [record], prior=known, segment=1.0)
    failed = [name for name, check in often.certificate().items() if not check.sound]
    assert all(name.startswith("score.external") for name in failed)  # the force is still there, and does no harm
    assert np.abs((often.estimate.values - TRUTH) / often.estimate.std).max() < 3.0
    with pytest.raises(InputError, match="these records cannot be cut"):
        identify(nominal(1.3), [record], method="total", segment=2.0)


def test_the_target_is_followed_without_keeping_all_samples(motion: Motion) -> None:
    """Samples that were dropped count as if they had been kept; MuJoCo's motion, thrusters and encoder noise."""
    for seed, kept in ((0, 100), (1, 60), (2, 200)):
        record = measured(motion, seed)
        watch = TargetFilter(nominal(2.0), "held", kept=kept)
        for first in range(0, COUNT, 50):
            state = watch.update(record.select_samples(slice(first, first + 50)))
        assert watch.samples == COUNT
        assert watch._record is not None
        assert watch._record.times.size <= kept + 50
        whole = track_target(nominal(2.0), "held", record, chunk=COUNT)[-1]
        assert np.abs((state.values - whole.values) / whole.std).max() < 0.3
        assert state.std == pytest.approx(whole.std, rel=0.05)


def test_locked_joints_are_not_taken_as_moving_by_noise(motion: Motion) -> None:
    """Total estimation too takes the rates of locked joints as zero, not as what is read."""
    rng = np.random.default_rng(0)
    still = rng.normal(size=(COUNT, 2)) * NOISE["joint_position"]
    assert detect_moving_joints(still, NOISE["joint_position"]) == (False, False)
    assert detect_moving_joints(measured(motion, 0).readings["joint_position"], NOISE["joint_position"]) == (True, True)
    record = replace(measured(motion, None), moving=(False, False))
    assert not record.joint_rates().any()


# -- from files -------------------------------------------------------------------------------------------------------


def write(record: MotionRecord, robot: Robot, folder: Path) -> None:
    save(robot, folder / "servicer.toml")
    write_record(record, robot, folder / "orbit.csv")


def jets() -> list[Thruster]:
    return [Thruster(f"jet{k}", "bus", p, f / np.linalg.norm(f), 10.0) for k, (_, _, f, p) in enumerate(FIRINGS)]


def test_a_list_of_columns_is_enough(motion: Motion, tmp_path: Path) -> None:
    """Cells are missing, times are irregular, thrusters stand in columns; nothing says which joints move."""
    robot = nominal(1.3).replace(thrusters=jets())
    record, rng = measured(motion, 7), np.random.default_rng(2)
    readings = {name: values.copy() for name, values in record.readings.items()}
    for name in ("position", "attitude", "velocity", "rate"):
        readings[name][rng.random(COUNT) < 0.05] = np.nan
    kept = np.sort(
        np.r_[
            0,
            1 + rng.permutation(COUNT - 1)[: COUNT - 20],
            *(np.searchsorted(record.times, [s - 1e-9, s + d - 1e-9]) for s, d, *_ in FIRINGS),
        ]
    )
    record = replace(record, readings=readings).select_samples(np.unique(kept))
    write(record, robot, tmp_path)
    text = (tmp_path / "orbit.csv").read_text().splitlines()
    for k, (start, length, *_) in enumerate(FIRINGS):
        on = (record.times + 1e-9 >= start) & (record.times + 1e-9 < start + length)
        text = [text[0] + f",jet{k}", *(f"{line},{int(fires)}" for line, fires in zip(text[1:], on, strict=True))]
    (tmp_path / "orbit.csv").write_text("\n".join(text).replace("nan", "") + "\n")
    levels = {f"jet{k}": {"column": f"jet{k}"} for k in range(6)}
    data = {
        "study": "inertia-identification",
        "robot": "servicer.toml",
        "sensor": sensor_tables(NOISE),
        "measurements": {"file": "orbit.csv", "thruster_columns": levels},
        # all that is not estimated is as the robot file has it
        "nominal": {"sd": 0, "thrust": 0, "thrusters": 0, "thrust_direction": 0, "encoder_offset": 0, "mount": 0},
        "estimate": {
            "unknown_bodies": ["held"],
            "write": "found.toml",
            "nuisances": {"rate_bias": True, "mount": False},
        },
    }
    result = run_document(data, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    assert result.sound, result.certificate.faults
    assert rows["held.mass"].value == pytest.approx(40.0, abs=0.05)
    assert rows["rank.total"].value == 10
    assert "10 combinations of 10 unknown" in result.summary
    assert "all " in str(rows["samples.measurements"].value)
    assert abs(rows["nuisance.rate_bias[0]"].value) < 1e-4
    assert "found.toml" in result.files
    assert {"measured-measurements-rate", "residual-measurements-rate"} <= {figure.name for figure in result.figures}
    assert "score.mount" not in result.certificate
    assert "score.delay" in result.certificate
    del data["sensor"]  # the noise, too, stands in the file
    result = run_document(data, folder=tmp_path)
    rows = {row.quantity: row for row in result.rows}
    assert result.sound, result.certificate.faults
    assert rows["held.mass"].value == pytest.approx(40.0, abs=0.05)
    std = float(rows["held.mass"].note.split("+-")[1].split()[0])
    assert abs(rows["held.mass"].value - 40.0) < 4.0 * std < 0.08
    for name, sigma in NOISE.items():
        assert rows[f"noise.measurements.{name}"].value == pytest.approx(sigma, rel=0.1)
        assert "scatter of the readings" in rows[f"noise.measurements.{name}"].note
    assert result.settings["noise"]["rate"] == rows["noise.measurements.rate"].value
    data["sensor"] = sensor_tables({name: sigma for name, sigma in NOISE.items() if name != "rate"})
    found = {row.quantity for row in run_document(data, folder=tmp_path).rows if row.quantity.startswith("noise.")}
    assert found == {"noise.measurements.rate"}


def test_a_late_sensor_is_not_sound_from_a_file_and_the_cause_is_named(motion: Motion, tmp_path: Path) -> None:
    record, times = measured(motion, 8), motion[0]
    readings = dict(record.readings)
    for name in ("position", "velocity", "rate"):
        values = readings[name]
        readings[name] = np.stack([np.interp(times - 0.02, times, column) for column in values.T], axis=1)
    write(replace(record, readings=readings), nominal(1.3).replace(thrusters=jets()), tmp_path)
    fires = [{"name": f"jet{k}", "on": [[start, start + length]]} for k, (start, length, *_) in enumerate(FIRINGS)]
    data = {
        "study": "inertia-identification",
        "robot": "servicer.toml",
        "sensor": sensor_tables(NOISE),
        "measurements": {"file": "orbit.csv", "thruster": fires},
        "estimate": {"unknown_bodies": ["held"]},
    }
    for _ in range(2):  # with the noise stated, and without
        result = run_document(data, folder=tmp_path)
        assert not result.sound
        assert "late" in result.summary
        assert "suspected.delay" in {row.quantity for row in result.rows}
        data.pop("sensor", None)
    assert "No thruster is told" not in result.summary
    del data["measurements"]["thruster"]  # type: ignore[attr-defined]
    result = run_document(data, folder=tmp_path)
    assert not result.sound
    assert "No thruster is told to fire in measurements: if one did, give thruster" in result.summary


def test_estimated_noise_leaves_the_chi_square_its_level(motion: Motion, tmp_path: Path) -> None:
    """Over seeds the check holds; a model that misses the readings by as much as their noise fails it."""
    sensors = make_sensors(period=STEP, noise={})
    ratios = []
    for seed in range(6):
        path = write_record(stated := measured(motion, seed), ROBOT, tmp_path / "orbit.csv")
        record = prepare_record(ROBOT, read_record(path, ROBOT, sensors, estimate_noise=True))
        record = replace(record, wrench=stated.wrench, thrusters=stated.thrusters, edges=stated.edges)
        check = identify(ROBOT, [record], prior=KNOWN, test=()).certificate()["chi_square.orbit"]
        assert check.sound
        ratios.append(check.value / check.tolerance)
        wide = replace(record, sigma={name: 0.8 * sigma for name, sigma in record.sigma.items()})
        assert not identify(ROBOT, [wide], prior=KNOWN, test=()).certificate()["chi_square.orbit"].sound
    assert np.std(ratios) < 0.5


def test_methods_and_filter_and_design_from_files(motion: Motion, tmp_path: Path) -> None:
    write(measured(motion, 9), nominal(1.3).replace(thrusters=jets()), tmp_path)
    fires = [{"name": f"jet{k}", "on": [[start, start + length]]} for k, (start, length, *_) in enumerate(FIRINGS)]
    plan = {"motions": 1, "duration": 6.0, "pulses": 2, "candidates": 2, "refinements": 1, "clearance": 0.2}
    data = {
        "study": "inertia-identification",
        "robot": "servicer.toml",
        "sensor": sensor_tables(NOISE),
        "sensors": {"sample": 0.1},
        "measurements": {"file": "orbit.csv", "thruster": fires},
        "estimate": {"unknown_bodies": ["held"], "known_mass_centre": []},
        "target": {"body": "held", "every": 250},
        "design": {**plan, "joints": [0.4, -0.3]},
    }
    rows = {row.quantity: row for row in run_document(data, folder=tmp_path).rows}
    assert rows["target.measurements.m"].value == pytest.approx(40.0, abs=0.1)
    assert 0.0 < rows["design.deviation.m(held)"].value < 40.0
    assert rows["design.uses.clearance"].value >= 0.2
    data["estimate"] = {"unknown_bodies": ["held"], "known_mass_centre": ["held"], "method": "total"}
    del data["target"], data["design"]
    rows = {row.quantity: row for row in run_document(data, folder=tmp_path).rows}
    assert "supplied by the prior" in rows["held.mass"].note
    assert len(InertiaProblem(ROBOT, [measured(motion, 9)], prior=KNOWN).names) == 16


@pytest.mark.parametrize(
    ("channel", "factor", "question"),
    [
        ("joint_rate", 180.0 / np.pi, "joint rates are 57.3 times .*: are the joint rates in degrees"),
        ("joint_position", 180.0 / np.pi, "joint rates are 1 / 57.3 of .*: are the joint positions in degrees"),
        ("rate", 180.0 / np.pi, "rates of the base are 57.* times .*: are the rates of the base in degrees"),
    ],
)
def test_degrees_are_asked_about(channel: str, factor: float, question: str, motion: Motion) -> None:
    record = measured(motion, 1)
    for method in (None, "linear"):
        given = replace(record, readings={**record.readings, channel: record.readings[channel] * factor})
        with pytest.raises(InputError, match=question):
            identify(nominal(1.3), [given], prior=KNOWN, method=method)  # type: ignore[arg-type]


def test_an_estimate_that_is_no_body_is_a_finding() -> None:
    """A rod: noise leaves it a moment below zero. That ended in an error of the robot, or was sound."""
    rod = Inertia(40.0, [0.05, -0.1, 0.4], np.diag([6.0, 6.0, 1e-5]))
    robot = replace_inertias(ROBOT, {"held": rod})
    prior = Prior.from_known_bodies(robot, ["bus", "upper"])
    motion = servicer_motion(robot=robot)
    found = [identify(robot, [measured(motion, seed)], prior=prior) for seed in range(3)]
    thin = [one for one in found if one.impossible]
    assert thin
    for one in thin:
        assert [*one.impossible] == ["held"]
        assert "kg m2" in one.impossible["held"]
        assert not one.certificate()["possible.held"].sound
        with pytest.raises(InputError, match="no possible body"):
            build_identified_robot(one.known, one.inertia)
    point = np.concatenate([ROBOT.inertia_parameters[:2].ravel(), [1e-12, 1e3, 0, 0, 0, 1e18, 1e18, 0, 0, 0]])
    assert [*impossible_bodies(ROBOT, point)] == ["held"]
