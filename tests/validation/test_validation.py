"""The prediction of measured runs, against closed forms and an independent program of the plane."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.signal import lfilter

from spacearm.errors import InputError
from spacearm.result import Result
from spacearm.scene.scene import SceneView
from spacearm.study import run_scenario
from spacearm.typing import Array
from spacearm.validation._assumptions import RelaxedAssumption
from spacearm.validation.comparison import Comparison, Readings, compare_prediction
from support.planar_capture import CHASER, CHASER_AND_TARGET, COORDINATES

TIMES = np.linspace(0.1, 5.0, 50)


def line(seed: int, slope: float = 0.0, fit: float = 0.0) -> Comparison:
    """x = 1 + u0 + (2 + u1) t, with both deviations drawn, read with noise of 0.1."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=2) + np.array([0.0, slope])
    measured = 1.0 + true[0] + (2.0 + true[1]) * TIMES + 0.1 * rng.normal(size=TIMES.size)
    readings = {"x": Readings("m", TIMES, measured, 0.1)}
    return compare_prediction(lambda u: {"x": 1.0 + u[0] + (2.0 + u[1]) * TIMES}, readings, 2, fit)


def test_bands_and_fitted_numbers_are_those_of_linear_regression() -> None:
    """Priors of one deviation, readings until 2 s: the posterior and its band in closed form."""
    found = line(3, fit=2.0)
    early = TIMES <= 2.0
    design = np.column_stack([np.ones(TIMES.size), TIMES])
    precision = np.eye(2) + design[early].T @ design[early] / 0.01
    measured = found.channels["x"].readings.values
    mean = np.linalg.solve(precision, design[early].T @ (measured - 1.0 - 2.0 * TIMES)[early] / 0.01)
    np.testing.assert_allclose(found.deviations, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.covariance, np.linalg.inv(precision), rtol=1e-9)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", design, np.linalg.inv(precision), design))
    np.testing.assert_allclose(found.channels["x"].spread, spread, rtol=1e-9)
    covariance = 0.01 * np.eye((~early).sum()) + design[~early] @ np.linalg.inv(precision) @ design[~early].T
    left = (measured - 1.0 - 2.0 * TIMES - design @ mean)[~early]
    assert found.chi_square.total == pytest.approx(float(left @ np.linalg.solve(covariance, left)), rel=1e-9)
    assert found.curvature < 1e-9


def test_a_friction_that_the_fit_drives_below_zero_stays_at_zero() -> None:
    """The other number is then that of the regression without friction; a start at zero has slopes on one side only."""
    rng = np.random.default_rng(5)
    measured = 1.3 - 0.3 * TIMES + 0.1 * rng.normal(size=TIMES.size)
    early = TIMES <= 3.0
    free = np.sum((measured - 1.0)[early] / 0.01) / (early.sum() / 0.01 + 1.0)
    for stated in (0.05, 0.0):

        def predict(u: Array, stated: float = stated) -> dict[str, Array]:
            friction = stated + 0.1 * u[1]
            if friction < 0.0:
                raise InputError(f"friction is {friction:g}", hint="expected at least 0")
            return {"x": 1.0 + u[0] + friction * TIMES}

        found = compare_prediction(predict, {"x": Readings("m", TIMES, measured, 0.1)}, 2, 3.0)
        assert found.bounded.tolist() == [False, True]
        assert 0.0 <= stated + 0.1 * found.deviations[1] < 3e-3
        assert found.deviations[0] == pytest.approx(free, abs=0.01)
        # What is known of it is still as uncertain as its readings leave it.
        assert 0.01 < 0.1 * np.sqrt(found.covariance[1, 1]) < 0.05

    def impossible(u: Array) -> dict[str, Array]:
        raise InputError("the mass is -1")

    with pytest.raises(InputError, match="mass"):
        compare_prediction(impossible, {"x": Readings("m", TIMES, measured, 0.1)}, 1, 3.0)


@pytest.mark.parametrize("fit", [0.0, 1.0])
def test_what_is_stated_holds_as_often_as_it_says(fit: float) -> None:
    """200 records of the very model: chi-square, z at the end, the share within the band, whiteness."""
    found = [line(seed, fit=fit) for seed in range(200)]
    ratios = [each.chi_square.ratio for each in found]
    freedom = found[0].chi_square.freedom
    assert np.mean(ratios) == pytest.approx(1.0, abs=4.0 * np.sqrt(2.0 / freedom / 200.0))
    z = np.array([each.channels["x"].end_z for each in found])
    assert np.mean(np.abs(z) <= 1.96) == pytest.approx(0.95, abs=0.06)
    assert np.std(z) == pytest.approx(1.0, abs=0.2)
    assert np.mean([each.channels["x"].share_within for each in found]) == pytest.approx(0.95, abs=0.05)
    assert np.mean([each.channels["x"].whiteness.white for each in found]) > 0.98


def test_what_was_not_stated_shows() -> None:
    """A slope eight deviations off is no chance: chi-square, and the last reading."""
    found = line(1, slope=8.0)
    assert found.chi_square.ratio > found.chi_square.bounds()[1]
    assert abs(found.channels["x"].end_z) > 4.0
    with pytest.raises(InputError, match="none is left to judge"):
        line(1, fit=5.0)


def test_a_number_that_is_off_shows_among_thousands_of_readings() -> None:
    """It adds the square of its deviations to chi-square, which hides them; 200 right records are not blamed."""

    def drag(seed: int, off: float, correlated: float = 0.0) -> Comparison:
        rng = np.random.default_rng(seed)
        times = np.linspace(0.0, 10.0, 4000)
        noise = rng.normal(size=(times.size,))
        if correlated:
            noise = lfilter([np.sqrt(1.0 - correlated**2)], [1.0, -correlated], noise)
        # One deviation of the number moves the end by three of a reading's.
        measured = 0.03 * (rng.normal() + off) * times + 0.1 * noise
        readings = {"x": Readings("m", times, measured, 0.1)}
        return compare_prediction(lambda u: {"x": 0.03 * u[0] * times}, readings, 1)

    found = drag(1, 8.0)
    assert found.chi_square.ratio < found.chi_square.bounds()[1]
    assert found.numbers.ratio > found.numbers.bounds()[1]
    assert found.asked[0] == pytest.approx(8.0, abs=2.5)
    for correlated in (0.0, 0.9):
        right = [drag(seed, 0.0, correlated).numbers for seed in range(200)]
        assert sum(each.ratio > each.bounds()[1] for each in right) <= 1
    # As a standard normal number has it.
    assert np.mean([drag(seed, 0.0).numbers.ratio for seed in range(200)]) == pytest.approx(1.0, abs=0.4)


START = np.array([0.0, 0.0, 0.0, 0.8, 0.0, 0.0, 0.0, 0.002, 0.01, -0.1, 0.0, 0.01])
SCENARIO = """study = "validation"
robot = "chaser.toml"
base = "planar"
file = "lab.csv"
begin = 5.0
fit = 3.0
gravity = [0.0, 0.0, -9.81]
drag = [{ frame = "hull", linear = 0.4 }, { frame = "body", linear = 0.4 }]
start = { velocity = [0.0, 0.002, 0.0], angular_velocity = [0.0, 0.0, 0.01] }
[latch]
guest = "target"
frame = "gripper"
at = "target/port"
distance = 0.05
pin = { damping = 0.02, lock = "locked" }
[[system]]
name = "target"
base = "planar"
body = { mass = 12.0, inertia = [0.2, 0.2, 0.2], com = [0.0, 0.0, 0.1] }
frame = [{ name = "port", position = [-0.15, 0.02, 0.0] }]
start = { position = [0.8, 0.0, 0.0], velocity = [-0.1, 0.0, 0.0], angular_velocity = [0.0, 0.0, 0.01] }
[[phase]]
duration = 20.0
[[phase]]
name = "pinned"
duration = 2.0
[[phase]]
name = "locked"
duration = 4.0
[[uncertain]]
key = "gravity[0]"
sd = 0.01
[[uncertain]]
key = "gravity[1]"
sd = 0.01
"""


def record(folder: Path, scenario: str, *, noise: tuple[float, float] = (5e-4, 1e-3), seed: int = 0) -> Result:
    """The capture, measured by the other program in mm and degrees on a clock that starts at 5 s, and predicted."""
    times = np.arange(0.0, 8.0, 0.1)
    rng = np.random.default_rng(seed)
    coordinates, caught = CHASER_AND_TARGET.motion(START, times)
    assert 3.0 < caught < 6.0
    sigma = np.array([noise[0], noise[0], noise[1]] * 2)
    read: Array = coordinates + sigma * rng.normal(size=coordinates.shape)
    scale = np.array([1e3, 1e3, np.degrees(1.0)] * 2)
    rows = [
        f"{t:.6f}," + ",".join(f"{value:.9f}" for value in row)
        for t, row in zip(times + 5.0, read * scale, strict=True)
    ]
    rows[30] = rows[30].rpartition(",")[0] + ","  # a reading that is missing
    (folder / "lab.csv").write_text("time,a,b,c,d,e,f\n" + "\n".join(rows) + "\n")
    (folder / "chaser.toml").write_text(CHASER)
    for name, column, unit, deviation in zip(COORDINATES, "abcdef", ("mm", "mm", "deg") * 2, sigma, strict=True):
        own = max(float(deviation), 1e-4)
        scenario += f'[[channel]]\nquantity = "{name}"\ncolumn = "{column}"\nunit = "{unit}"\nsd = {own}\n'
    (folder / "lab.toml").write_text(scenario)
    return run_scenario(folder / "lab.toml")


def assert_ghosts_are_what_was_measured(result: Result) -> None:
    """Translucent bodies at the places of the file, beside those of the prediction."""
    assert result.scene is not None
    view = result.scene.views[0]
    assert [name for name, _ in view.systems] == ["chaser", "target", "chaser, measured", "target, measured"]
    ghosts = {view.systems[actor.system][0]: actor for actor in view.actors if actor.ghost}
    assert len(ghosts) == 2
    assert result.data is not None
    for name, prefix in (("chaser", ""), ("target", "target_")):
        ghost = ghosts[f"{name}, measured"]
        for k, axis in enumerate("xy"):
            read = result.data[f"{prefix}base_{axis}_measured"]
            there = np.interp(ghost.times, read[f"time_{prefix}base_{axis}"], read)
            np.testing.assert_allclose(ghost.poses[:, 0, k], there, rtol=0, atol=1e-6)
    assert not any(actor.ghost for actor in view.actors if actor.system < 2)
    again = SceneView.from_data(view.data())
    assert [actor.ghost for actor in again.actors] == [actor.ghost for actor in view.actors]


def test_a_capture_on_a_tilted_table_is_predicted_from_its_approach(tmp_path: Path) -> None:
    """The tilt is fitted before the catch; pin, lock and the caught target's motion are predicted after it."""
    result = record(tmp_path, SCENARIO)
    assert result.sound, str(result.certificate)
    values = {row.quantity: row.value for row in result.rows}
    for k, tilt in enumerate(CHASER_AND_TARGET.tilt):
        assert abs(values[f"uncertain.gravity[{k}].value"] - tilt) < 3.5 * values[f"uncertain.gravity[{k}].sd"]
        assert values[f"uncertain.gravity[{k}].sd"] < 1e-3
    for name in COORDINATES:
        assert abs(values[f"channel.{name}.end.z"]) < 3.5
        assert values[f"channel.{name}.within"] > 0.8
    assert "chi-square" in result.headline
    assert result.data is not None
    assert result.data["target_base_yaw_measured"].size == 79
    assert_ghosts_are_what_was_measured(result)
    # Six channels, and momentum and energy of what was measured; the page unfolds the worst channels.
    names = [figure.name for figure in result.figures if figure.name != "relaxed"]
    assert names[6:] == ["momentum", "angular_momentum", "energy"]
    within = [values[f"channel.{name.replace('target_', 'target/')}.within"] for name in names[:6]]
    assert within == sorted(within)
    energy = result.figures[-1].plot.data[0].y
    assert energy[-1] < energy[0]


def test_without_noise_the_whole_chain_is_the_other_programs(tmp_path: Path) -> None:
    """Numbers as they are, nothing fitted: planar bases, drag, tilt, catch, pin, lock differ by the file's digits."""
    exact = SCENARIO.replace("gravity = [0.0, 0.0,", "gravity = [0.004, -0.003,").replace("fit = 3.0", "")
    result = record(tmp_path, exact.partition("[[uncertain]]")[0], noise=(0.0, 0.0))
    values = {row.quantity: row.value for row in result.rows}
    assert max(values[f"channel.{name}.rms"] for name in COORDINATES) < 2e-9


def test_a_wrong_model_is_not_sound(tmp_path: Path) -> None:
    """A target 40 % too light: the approach says nothing of it, what follows the catch does."""
    result = record(tmp_path, SCENARIO.replace("mass = 12.0", "mass = 7.0"))
    assert not result.sound
    assert "do not explain" in result.headline
    figure = result.figures[2]
    assert figure.name == "relaxed"
    bars = figure.plot.data[0]
    # Ranked, with the estimates of the rows, of which the headline has the first.
    assert list(bars.x) == sorted(bars.x, reverse=True)
    assert f"{bars.y[0]}: {bars.text[0]}" in result.headline
    values = {row.quantity: row.value for row in result.rows}
    assert list(bars.x) == pytest.approx([100.0 * values[f"relaxed.{name}.share"] for name in bars.y])


def test_a_table_that_is_not_flat_and_a_bearing_that_blows_to_one_side(tmp_path: Path) -> None:
    """A puck by SciPy: the file's gradient and the force that turns with it are right; in world axes they are not."""
    slope, force, rate = np.array([[-1e-4, 3e-4], [3e-4, 2e-4]]), np.array([2e-3, 1e-3]), 0.2

    def motion(t: float, y: Array) -> list[float]:
        c, s = np.cos(rate * t), np.sin(rate * t)
        pull = np.array([1e-4, -3e-4]) + slope @ y[:2] + np.array([[c, -s], [s, c]]) @ force / 12.0
        return [*y[2:], *pull]

    times = np.arange(0.0, 20.0, 0.1)
    place = solve_ivp(motion, (0.0, 20.0), [2.0, 1.0, 0.01, 0.0], t_eval=times, rtol=1e-10, atol=1e-12).y[:2]
    place = place + 5e-5 * np.random.default_rng(3).normal(size=place.shape)
    rows = "\n".join(f"{t:.2f},{x:.7f},{y:.7f},{rate * t:.7f}" for t, x, y in zip(times, *place, strict=True))
    (tmp_path / "log.csv").write_text(f"time,x,y,yaw\n{rows}\n")
    robot = '[robot]\nname = "puck"\n[[body]]\nname = "hull"\nmass = 12.0\ninertia = [0.2, 0.2, 0.2]\n'
    (tmp_path / "puck.toml").write_text(robot)
    text = (
        'study = "validation"\nrobot = "puck.toml"\nbase = "planar"\nfile = "log.csv"\nmeasured_start = 1.0\n'
        "fit = 4.0\nrelax = false\n"
        "gravity = [1e-4, -3e-4, 0.0]\ngravity_gradient = [-1e-4, 2e-4, 0.0, 3e-4, 0.0, 0.0]\n"
        '[[phase]]\nduration = 19.9\n[[push]]\nframe = "hull"\nforce = [2e-3, 1e-3, 0.0]\naxes = "frame"\nend = 20.0\n'
    )
    for name in ("x", "y", "yaw"):
        text += f'[[channel]]\nquantity = "base_{name}"\ncolumn = "{name}"\nsd = 5e-5\n'
    (tmp_path / "lab.toml").write_text(text)
    result = run_scenario(tmp_path / "lab.toml")
    assert result.sound, str(result.certificate)
    values = {row.quantity: row.value for row in result.rows}
    assert values["channel.base_x.rms"] < 3e-3
    # What is taken off the measured momentum is the same force.
    for name in ("linear", "angular"):
        assert values[f"balance.{name}"] < 3.0 * values[f"balance.{name}.sd"]
    (tmp_path / "lab.toml").write_text(text.replace('axes = "frame"', 'axes = "world"'))
    assert not run_scenario(tmp_path / "lab.toml").sound


def test_a_measured_swing_starts_at_the_angle_before_the_catch(tmp_path: Path) -> None:
    """A stiff pin stops the swing within a reading or two: only the readings before the catch say where it began."""
    table = replace(CHASER_AND_TARGET, drag=0.0, pin_damping=1.5, pinned=100.0)
    times = np.arange(0.0, 8.0, 0.1)
    start = np.array([0.0, 0.0, 0.0, 0.8, 0.0, -1.4, 0.0, 0.002, 0.01, -0.1, 0.0, 0.4])
    read, caught = table.motion(start, times)
    rows = [f"{t:.6f}," + ",".join(f"{value:.9f}" for value in row) for t, row in zip(times, read, strict=True)]
    (tmp_path / "lab.csv").write_text("time,a,b,c,d,e,f\n" + "\n".join(rows) + "\n")
    (tmp_path / "chaser.toml").write_text(CHASER)
    target = SCENARIO[SCENARIO.index("[[system]]") : SCENARIO.index("[[phase]]")]
    target = target.replace("[0.0, 0.0, 0.01] }", "[0.0, 0.0, 0.4], rpy = [0.0, 0.0, -1.4] }")
    text = (
        'study = "validation"\nrobot = "chaser.toml"\nbase = "planar"\nfile = "lab.csv"\nrelax = false\n'
        f"gravity = [{table.tilt[0]}, {table.tilt[1]}, 0.0]\n"
        "start = { velocity = [0.0, 0.002, 0.0], angular_velocity = [0.0, 0.0, 0.01] }\n"
        f'[catch]\nguest = "target"\nframe = "gripper"\ntime = {caught!r}\nfit = false\nswing = "measured"\n'
        + target + "[[phase]]\nduration = 7.8\n"
    )  # fmt: skip
    for name, column in zip(COORDINATES, "abcdef", strict=True):
        text += f'[[channel]]\nquantity = "{name}"\ncolumn = "{column}"\nsd = 1e-3\n'
    (tmp_path / "lab.toml").write_text(text)
    values = {row.quantity: row.value for row in run_scenario(tmp_path / "lab.toml").rows}
    for name in ("base_yaw", "target/base_yaw"):
        assert values[f"channel.{name}.rms"] < 1e-3


def test_a_moment_that_nobody_meant_is_found(tmp_path: Path) -> None:
    """A body on a table that turns ever faster by 1e-4 N m: its yaw in closed form, and no catch in the captions."""
    times = np.arange(0.0, 10.0, 0.1)
    yaw = 0.01 * times + 0.5 * 1e-4 / 0.2 * times**2 + 1e-4 * np.random.default_rng(2).normal(size=times.size)
    rows = "\n".join(f"{t:.2f},{0.0:.6f},{0.0:.6f},{angle:.9f}" for t, angle in zip(times, yaw, strict=True))
    (tmp_path / "log.csv").write_text(f"time,x,y,yaw\n{rows}\n")
    channels = "".join(
        f'[[channel]]\nquantity = "base_{name}"\ncolumn = "{name}"\nsd = 1e-4\n' for name in ("x", "y", "yaw")
    )
    robot = '[robot]\nname = "puck"\n[[body]]\nname = "hull"\nmass = 9.0\ninertia = [0.2, 0.2, 0.2]\n'
    (tmp_path / "puck.toml").write_text(robot)
    (tmp_path / "lab.toml").write_text(
        'study = "validation"\nrobot = "puck.toml"\nbase = "planar"\nfile = "log.csv"\nmeasured_start = 1.0\n'
        "fit = 2.0\n[[phase]]\nduration = 9.9\n" + channels
    )
    result = run_scenario(tmp_path / "lab.toml")
    assert not result.sound
    values = {row.quantity: row.value for row in result.rows}
    found, sd = (values[f"relaxed.steady moment on puck.{each}"] for each in ("value", "sd"))
    assert abs(found - 1e-4) < 3.5 * sd < 1e-5
    assert values["relaxed.steady moment on puck.share"] > 0.9
    assert not any("catch" in figure.caption for figure in result.figures)


def test_the_estimate_of_a_factor_keeps_its_last_digits() -> None:
    assert RelaxedAssumption("scale", "1", 0.511, 0.11, 0.3).estimate() == "0.511 ± 0.11"
    assert RelaxedAssumption("mass", "kg", 0.511, 0.11, 0.3).estimate() == "0.511 ± 0.11 kg"


def test_faults_of_the_file_are_told_with_their_place(tmp_path: Path) -> None:
    for old, new, text in (
        ("begin = 5.0", "begin = 50.0", r"channel\[0\].*the file has 5 s to 12.9 s"),
        ('key = "gravity[0]"', 'key = "gravity[7]"', r"uncertain\[0\]|gravity"),
        ('file = "lab.csv"', 'file = "lob.csv"', "lob.csv"),
        ("fit = 3.0", 'fit = 3.0\ninput = [{ to = "torque.joint1", column = "a" }]', r"input\[0\].*forces"),
        (
            "duration = 20.0",
            'duration = 20.0\nforces = { base_vx = 1.0 }\n[[input]]\nto = "forces.base_vx"\ncolumn = "a"',
            r"input\[0\].*phase\[0\] has",
        ),
        ("duration = 4.0", "duration = 0.1", "no 'base_x' at the time of a reading"),
    ):
        with pytest.raises(InputError, match=text):
            record(tmp_path, SCENARIO.replace(old, new))
    with pytest.raises(InputError, match="base_w"):
        record(tmp_path, SCENARIO + '[[channel]]\nquantity = "base_w"\ncolumn = "a"\nsd = 1.0\n')
