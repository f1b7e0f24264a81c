"""What an identified joint is worth and good for: profiles, samples, frequency response, hold-out, files."""

from __future__ import annotations

import csv
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError, SimulationError
from spacearm.identify._fit import solvable
from spacearm.identify.joint import (
    IdentifiabilityWarning,
    JointFit,
    MeasurementChain,
    forward,
    frequency_response,
    hold_out,
    identify_joints,
    prepare_test,
    profile_likelihood,
    sample_posterior,
    scenario,
    simulate_reference,
)
from spacearm.identify.joint.flexible_joints import linearise
from spacearm.identify.joint.reference_simulation import ReferenceReadings
from spacearm.measure import Column, read_record
from spacearm.model import catalogue, load, save
from spacearm.optimise import whiteness
from spacearm.simulate import RunWarning, approximate
from spacearm.study import run_scenario
from support import ROOT
from support.simulated_joint_tests import (
    DEGREE,
    FRAME,
    NOISE,
    START,
    TEST2,
    TIMES,
    observe,
    printed,
    quadratic,
    seen,
    truth,
)

EXAMPLE = ROOT / "examples" / "identify-joint.toml"


@pytest.fixture(scope="module")
def fit() -> JointFit:
    robot = printed()
    return identify_joints(robot, [seen(robot, 1)], warn=False)


def test_profiles_of_a_nearly_linear_problem_are_parabolas(fit: JointFit) -> None:
    for name in ("motor_inertia", "stiffness", "damping"):
        one = profile_likelihood(fit, name, points=7)
        z = (one.values - fit[name]) / fit.std(name)
        assert one.rise == pytest.approx(z**2, abs=0.05 * 9.0)
        low, high = one.interval
        assert low == pytest.approx(fit[name] - 1.96 * fit.std(name), abs=0.05 * fit.std(name))
        assert high == pytest.approx(fit[name] + 1.96 * fit.std(name), abs=0.05 * fit.std(name))


def test_profiles_show_what_a_covariance_cannot() -> None:
    """No damping: the interval is cut off by the bound on one side, where the profile does not rise enough."""
    robot = printed()
    test = seen(robot, 4, values={"damping": 0.003})
    found = identify_joints(robot, [test], warn=False)
    low, high = profile_likelihood(found, "damping", points=9).interval
    assert low == -np.inf or low >= 0.0
    assert high == pytest.approx(found["damping"] + 1.96 * found.std("damping"), rel=0.3)


def test_posterior_samples_have_the_spread_of_the_fit(fit: JointFit) -> None:
    found = sample_posterior(fit, steps=250, burn=30, seed=1)
    assert found.effective > 30
    assert 0.2 < found.acceptance < 0.9
    slack = 5.0 / np.sqrt(found.effective)
    assert np.abs((found.mean - fit.estimate.values) / fit.estimate.std).max() < slack
    assert found.std == pytest.approx(fit.estimate.std, rel=slack)
    low, high = found.interval()
    assert np.all(low < fit.estimate.values)
    assert np.all(high > fit.estimate.values)
    with pytest.raises(InputError, match="steps is 0"):
        sample_posterior(fit, steps=0)
    again = sample_posterior(fit, steps=5, burn=2, seed=3)
    assert np.array_equal(again.samples, sample_posterior(fit, steps=5, burn=2, seed=3).samples)


def test_whiteness_tells_noise_from_a_wave() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(500)
    assert whiteness(noise).white
    assert whiteness(noise).durbin_watson == pytest.approx(2.0, abs=0.3)
    assert not whiteness(noise + np.sin(np.arange(500) / 10.0)).white
    share = np.mean([whiteness(rng.standard_normal(400)).p_value < 0.05 for _ in range(400)])
    assert share == pytest.approx(0.05, abs=0.03)


# -- frequency response ---------------------------------------------------------------------------------------------


def test_the_resonance_is_that_of_a_free_oscillation() -> None:
    robot = printed()
    held = {joint: quadratic(START[joint], 0.0) for joint in START}
    times = np.linspace(0.0, 40.0, 4001)
    paths = {name: quadratic(START[name], 0.0, 40.0) for name in held}
    found = simulate_reference(
        robot, FRAME, {"joint1": {**TEST2, "damping": 0.0, "offset": 0.01 * DEGREE}}, paths, times
    )
    deflection = found.joints[:, 0] - found.joints[:, 1]
    rising = np.flatnonzero((deflection[:-1] < 0) & (deflection[1:] >= 0))
    crossings = times[rising] - deflection[rising] * 0.01 / (deflection[rising + 1] - deflection[rising])
    period = np.mean(np.diff(crossings))
    line = linearise(robot, found.joints[0], {"joint1": {**TEST2, "damping": 0.0}})
    assert 2.0 * np.pi / period == pytest.approx(line.frequencies(motors_held=True)[0], rel=1e-4)


def test_the_frequency_response_is_what_a_shaken_motor_gives() -> None:
    """A small sinus of the motor, after the start has died away: amplitude and phase of the link."""
    robot = printed()
    frequency, amplitude = 1.2, 0.05 * DEGREE
    start = START["joint1.motor"] * DEGREE
    paths = {name: quadratic(START[name], 0.0, 100.0) for name in START}
    paths["joint1.motor"] = approximate(
        lambda t: start + amplitude * np.sin(frequency * t), 0.0, 100.0, tolerance=1e-12
    )
    times = np.linspace(0.0, 100.0, 5001)
    found = simulate_reference(robot, FRAME, {"joint1": {**TEST2, "damping": 1.0}}, paths, times)
    late = times > 70.0
    basis = np.stack(
        [np.sin(frequency * times[late]), np.cos(frequency * times[late]), np.ones(late.sum()), times[late]], 1
    )
    sine, cosine = np.linalg.lstsq(basis, found.joints[late, 0], rcond=None)[0][:2]
    configuration = found.joints[0].copy()
    configuration[0] = configuration[1] = start
    line = linearise(robot, configuration, {"joint1": {**TEST2, "damping": 1.0}})
    expected = line.motor_to_link(frequency)[0, 0, 0]
    assert complex(sine, cosine) / amplitude == pytest.approx(complex(expected), rel=2e-3)


def test_the_band_of_the_response_holds_it(fit: JointFit) -> None:
    (one,) = frequency_response(fit, np.geomspace(0.3, 10.0, 40), draws=60)
    assert np.all(one.low <= one.magnitude * (1 + 1e-6))
    assert np.all(one.high >= one.magnitude * (1 - 1e-6))
    right = linearise(fit.model.robot, fit.model.configuration(0), {"joint1": TEST2}).frequencies(True)[0]
    assert abs(one.resonance - right) < 4.0 * one.resonance_sd


def test_one_flexible_joint_has_one_free_frequency() -> None:
    robot = catalogue.load("wojtunik2023")
    line = linearise(robot, robot.configuration("start"))
    assert line.frequencies(motors_held=False).size == 1


# -- hold-out, files ------------------------------------------------------------------------------------------------


def test_an_identified_joint_predicts_another_motion(fit: JointFit) -> None:
    robot = fit.model.robot
    paths = {"joint1.motor": quadratic(7.5, -1.0), "joint2": quadratic(-15.0, 0.8), "joint3": quadratic(-22.5, 0.4)}
    other = simulate_reference(robot, FRAME, {"joint1": {**TEST2, "offset": -1.5 * DEGREE}}, paths, TIMES)
    (found,) = hold_out(fit, [observe(other, np.random.default_rng(8), "other")])
    assert found.chi2 == pytest.approx(1.0, abs=0.2)
    assert found.rms < 0.2 * found.rigid_rms
    stiff = simulate_reference(
        robot, FRAME, {"joint1": {**TEST2, "stiffness": 6.0, "offset": -1.5 * DEGREE}}, paths, TIMES
    )
    (wrong,) = hold_out(fit, [observe(stiff, np.random.default_rng(8), "other")])
    assert wrong.chi2 > 2.0


def test_the_identified_joint_goes_into_a_robot_file(fit: JointFit, tmp_path: Path) -> None:
    for name in ("wojtunik2023_printed", "wojtunik2023"):
        robot = catalogue.load(name)
        found = identify_joints(robot, [seen(robot, 2)], warn=False)
        save(found.robot(), tmp_path / "arm.toml")
        again = load(tmp_path / "arm.toml")
        rotor, coupling = again.joint("joint1.motor").rotor, again.couplings[0]
        assert rotor is not None
        assert rotor.inertia * rotor.ratio**2 == pytest.approx(found["motor_inertia"], rel=1e-9)
        assert (coupling.stiffness, coupling.damping) == pytest.approx((found["stiffness"], found["damping"]), rel=1e-9)
        assert rotor.ratio == (1.0 if name.endswith("printed") else 100.0)


def write_csv(path: Path, found: ReferenceReadings, seed: int, torque: float | None = None) -> None:
    """Sensors as a laboratory would write them: degrees and millimetres, angles wrapped, one row missing."""
    rng, robot = np.random.default_rng(seed), found.robot
    noise = MeasurementChain(robot, FRAME, NOISE).noise
    columns = {"t_ms": 1e3 * found.time}
    for joint in ("joint1.motor", "joint2", "joint3"):
        reading = found.joints[:, robot.joint_index(joint)] + noise["joint_position"] * rng.standard_normal(TIMES.size)
        columns[joint] = np.degrees(reading)
    for who, pose, where, turn in (
        ("base", found.base, noise["position"], noise["attitude"]),
        ("hand", found.hand, noise["frame_position"], noise["frame_attitude"]),
    ):
        columns[f"{who}_x"] = 1e3 * (pose[:, 0] + where * rng.standard_normal(TIMES.size))
        columns[f"{who}_y"] = 1e3 * (pose[:, 1] + where * rng.standard_normal(TIMES.size))
        angle = 2.0 * np.arctan2(pose[:, 6], pose[:, 3]) + turn * rng.standard_normal(TIMES.size)
        columns[f"{who}_phi"] = (np.degrees(angle) + 180.0) % 360.0 - 180.0
    if torque is not None:
        columns["torque"] = found.torque[:, 0] + torque * rng.standard_normal(TIMES.size)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for i in range(TIMES.size):
            row = [f"{values[i]:.9g}" for values in columns.values()]
            writer.writerow(["nan" if i == 100 and k == 4 else cell for k, cell in enumerate(row)])


COLUMNS = """
[test.columns]
"joint1.motor" = { column = "joint1.motor", unit = "deg" }
joint2 = { column = "joint2", unit = "deg" }
joint3 = { column = "joint3", unit = "deg" }
position = { column = ["base_x", "base_y"], unit = "mm" }
attitude = { column = "base_phi", unit = "deg" }
frame_position = { column = ["hand_x", "hand_y"], unit = "mm" }
frame_attitude = { column = "hand_phi", unit = "deg" }
"""
SENSORS = """sensor = [
  { kind = "encoder", noise_deg = 0.00573 },
  { kind = "star_tracker", noise_deg = 0.0573 },
  { kind = "frame_attitude", frame = "hand", noise_deg = 0.0573 },
  { kind = "torque_sensor", noise = 0.01 },
]
"""
HEAD = 'study = "joint-identification"\nrobot = "wojtunik2023_printed"\nframe = "hand"\n'
FILE = 'name = "a"\nfile = "a.csv"\ntime = { column = "t_ms", unit = "ms" }\n'


def test_measured_files_give_the_same_as_arrays(tmp_path: Path) -> None:
    robot = printed()
    found = truth(robot)
    write_csv(tmp_path / "a.csv", found, 5)
    columns = {joint: Column(joint, "deg", unwrap=True) for joint in ("joint1.motor", "joint2", "joint3")}
    for whose, column in (("", "base"), ("frame_", "hand")):
        columns[f"{whose}position"] = Column((f"{column}_x", f"{column}_y"), "mm")
        columns[f"{whose}attitude"] = Column(f"{column}_phi", "deg", unwrap=True)
    data = read_record(tmp_path / "a.csv", columns, time=Column("t_ms", "ms"), missing="drop", gaps="keep")
    test = prepare_test(data, MeasurementChain(robot, FRAME, NOISE))
    with pytest.raises(InputError, match="needs a measurement chain"):
        identify_joints(robot, [data])
    fit = identify_joints(robot, [data], chain=MeasurementChain(robot, FRAME, NOISE), warn=False)
    right = np.array([*TEST2.values(), 2.8 * DEGREE])
    assert test.time.size == TIMES.size - 1
    assert fit.estimate.names[4:] == ("a.attitude.z.bias",)
    assert np.abs((fit.estimate.values[:4] - right) / fit.estimate.std[:4]).max() < 4.0
    (tmp_path / "s.toml").write_text(HEAD + "[[test]]\n" + FILE + 'missing = "drop"\n' + COLUMNS)
    result = run_scenario(tmp_path / "s.toml")
    rows = {row.quantity: row.value for row in result.rows}
    assert rows["joint1.stiffness"] == pytest.approx(fit["stiffness"], rel=0.01)
    # A ratio of 1 may be one that was left out: then the data show the inertia over the ratio, and nothing else of it.
    assert not np.isfinite(rows["joint1.motor_inertia.sd"])
    assert "state nominal.gear = 0" in result.summary
    (tmp_path / "s.toml").write_text(HEAD + "nominal.gear = 0\n[[test]]\n" + FILE + 'missing = "drop"\n' + COLUMNS)
    rows = {row.quantity: row.value for row in run_scenario(tmp_path / "s.toml").rows}
    assert rows["joint1.motor_inertia.sd"] < 0.2
    assert rows["joint1.motor_inertia"] == pytest.approx(3.3, abs=4.0 * rows["joint1.motor_inertia.sd"])


def test_known_torques_come_from_columns(tmp_path: Path) -> None:
    robot = printed()
    found = truth(robot)
    with (tmp_path / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "joint1", "joint1.motor", "joint2", "joint3", "torque"])
        writer.writerows(np.column_stack([TIMES, found.joints, found.torque]).tolist())
    columns = ["joint1", "joint1.motor", "joint2", "joint3"]
    text = "".join(f'"{c}" = {{ column = "{c}", unit = "rad" }}\n' for c in columns)
    text += '"joint1.torque" = { column = "torque", unit = "N m" }\n'
    head = HEAD + 'drive = "torque"\nangle = "measured"\n'
    (tmp_path / "s.toml").write_text(head + '[[test]]\nname = "a"\nfile = "a.csv"\n[test.columns]\n' + text)
    rows = {row.quantity: row.value for row in run_scenario(tmp_path / "s.toml").rows}
    assert rows["joint1.motor_inertia"] == pytest.approx(3.3, rel=1e-3)
    assert rows["joint1.stiffness"] == pytest.approx(5.1, rel=1e-3)


def test_a_measured_torque_is_compared_and_makes_a_geared_motor_known(tmp_path: Path) -> None:
    """The advice of the warning, followed in a file: with the torque's column the motor's inertia is determined."""
    robot = catalogue.load("wojtunik2023")
    found = truth(robot)
    write_csv(tmp_path / "a.csv", found, 5, torque=0.01)
    head = HEAD.replace("_printed", "") + "attitude = false\n" + SENSORS
    body = "[[test]]\n" + FILE + 'missing = "drop"\n' + COLUMNS
    sd = []
    for more in ("", '"joint1.torque" = { column = "torque", unit = "N m" }\n'):
        (tmp_path / "s.toml").write_text(head + body + more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = {row.quantity: row.value for row in run_scenario(tmp_path / "s.toml").rows}
        sd.append(rows["joint1.motor_inertia.sd"])
    assert sd[0] > 1.0
    assert sd[1] < 0.2
    assert abs(rows["joint1.motor_inertia"] - 3.3) < 4.0 * sd[1]
    assert rows["chi2"] == pytest.approx(1.0, abs=0.2)


def test_a_hold_out_has_the_fits_start_rate_and_forgives_missing_readings() -> None:
    """A spring that moves at first, and a second test with gaps: its rate was held at zero, its errors were NaN."""
    robot = printed()
    tests = [seen(robot, k, f"test{k}", values={"offset_rate": 5.0 * DEGREE}) for k in (1, 2)]
    fit = identify_joints(robot, tests[:1], offset_rate=True, warn=False)
    gone = tests[1].measured["joint1"].copy()
    gone[100:110] = np.nan
    (found,) = hold_out(fit, [replace(tests[1], measured={**tests[1].measured, "joint1": gone})])
    assert found.fit["offset_rate"] == pytest.approx(5.0 * DEGREE, rel=5e-3)
    assert found.chi2 == pytest.approx(1.0, abs=0.2)
    assert 0.0 < found.rms < 0.2 * found.rigid_rms


def test_a_hold_out_has_the_files_bounds_and_start_rate(tmp_path: Path) -> None:
    moved = TWIN.replace("offset_deg = 2.8", "offset_deg = 8.0, offset_rate = 0.05")
    second = moved.replace('name = "a"', 'name = "b"\nhold_out = true')
    (tmp_path / "s.toml").write_text(HEAD + "offset_rate = true\n[bounds]\noffset = [-0.3, 0.3]\n" + moved + second)
    rows = {row.quantity: row.value for row in run_scenario(tmp_path / "s.toml").rows}
    assert rows["hold_out.b.chi2"] == pytest.approx(1.0, abs=0.2)


# -- scenarios ------------------------------------------------------------------------------------------------------


def test_the_example_runs() -> None:
    result = run_scenario(EXAMPLE)
    rows = {row.quantity: row.value for row in result.rows}
    assert result.sound
    for name, value in TEST2.items():
        assert abs(rows[f"joint1.{name}"] - value) < 4.0 * rows[f"joint1.{name}.sd"]
    assert rows["law"] == "linear"
    assert result.headline.startswith("joint1 has stiffness 5.09 ± 0.11 N m/rad, damping 0.405")
    assert rows["hold_out.swing.rms"] < 0.2 * rows["hold_out.swing.rigid_rms"]
    assert "identified.toml" in result.files
    assert "The gear ratio of joint1 is 1: behind a gear" in result.summary
    drawn = ["test-1", "test-2", "channels-1", "channels-2", "profiles", "response"]
    assert [figure.name for figure in result.figures] == drawn


TWIN = """[[test]]
name = "a"
[test.simulation]
seed = 1
truth.joint1 = { stiffness = 5.1, damping = 0.4, motor_inertia = 3.3, offset_deg = 2.8 }
driven."joint1.motor" = { kind = "parabola", value_deg = 7.5, acceleration_deg = 0.6 }
"""


def test_profiles_leave_out_what_is_not_determined(tmp_path: Path) -> None:
    """Friction of a prescribed motor has no profile; the others are still drawn, and the advice fits."""
    path = tmp_path / "s.toml"
    path.write_text(HEAD + 'profiles = true\n[law]\nmotor = "coulomb"\n' + TWIN)
    with pytest.warns(IdentifiabilityWarning, match="motor_coulomb is not determined.*its torque"):
        rows = {row.quantity for row in run_scenario(path).rows}
    assert "joint1.stiffness.interval" in rows
    assert "joint1.motor_coulomb.interval" not in rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TWIN + "[bounds]\nstiffness = [5.0, 1.0]\n", "lower bound 5 is not below upper bound 1"),
        (TWIN.replace("stiffness =", "stifness ="), "there is no parameter 'stifness'"),
        (TWIN.replace("truth.joint1", "truth.joint2"), "'joint2' is not a flexible joint"),
        ('drive = "speed"\n' + TWIN, "drive"),
        ('metod = "multi_start"\n' + TWIN, "method"),
        ('[[test]]\nname = "a"\n', "needs either a file or a simulation"),
        (TWIN + "hold_out = true\n", "hold_out"),
        (TWIN.replace('name = "a"', 'name = "a"\nhold_out = true'), "every test is held out"),
        ('[select]\ncandidates = ["cubik"]\n' + TWIN, "there is no candidate 'cubik'"),
        (TWIN.replace("seed = 1", "seed = 1\nduration = 0.01"), "samples"),
        (TWIN.replace("seed = 1", "sample = 1e-9"), "duration 10 s every 1e-09 s is not usable"),
        (TWIN.replace("seed = 1", "seed = -1"), "seed"),
        ("[[test]]\n" + FILE + COLUMNS, "there is no such file"),
        ("[noise]\nencoder = 1e-4\n" + TWIN, r"each sensor has its own table now: \[\[sensor\]\]"),
        ("planar = true\n" + TWIN, "the columns say it"),
        ("[[test]]\n" + FILE + '[test.columns]\nbase_x = "x"\n', r"columns\.base_x: is an old name .it is position = "),
        ("[sensors.noise]\nencoder = 1e-4\n" + TWIN, r"each sensor has its own table now: \[\[sensor\]\]"),
    ],
)
def test_wrong_scenarios_are_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(HEAD + text)
    with pytest.raises(InputError, match=message) as caught:
        run_scenario(path)
    assert caught.value.file is not None


def test_long_searches_are_announced_before_they_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: object, **__: object) -> None:
        raise RuntimeError("the search has begun")

    monkeypatch.setattr(scenario, "identify_joints", search)
    long = TWIN.replace("seed = 1", "seed = 1\nduration = 200.0\nsample = 0.02")
    path = tmp_path / "s.toml"
    path.write_text(HEAD + 'method = "nelder_mead"\n' + long)
    words = "10001 samples: the search takes about 2 minutes; fewer samples are faster, as is method = 'levenberg_"
    with pytest.warns(RunWarning, match=words), pytest.raises(RuntimeError):
        run_scenario(path)
    path.write_text(HEAD + long)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RunWarning)
        with pytest.raises(RuntimeError, match="has begun"):
            run_scenario(path)


def test_a_search_that_goes_nowhere_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that were mixed up took 45 million steps times numbers; with a tenth of that it is an error in words."""
    robot = printed()
    test = seen(robot, 1)
    wrong = replace(test, measured={**test.measured, "joint1": test.measured["joint1"][::-1].copy()})
    monkeypatch.setattr(forward, "LEAST_WORK", 1e5)
    monkeypatch.setattr(forward, "WORK_PER_SAMPLE", 0.0)
    with pytest.raises(SimulationError, match="does not end within its budget of steps"):
        identify_joints(robot, [wrong], warn=False)
    with pytest.raises(SimulationError, match="x: the equations cannot be solved: singular matrix"), solvable("x"):
        np.linalg.inv(np.zeros((2, 2)))
