"""A cart on a rail from files of another laboratory: odd columns, units, decimal commas, clocks of their own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.io import savemat

from spacearm.errors import InputError
from spacearm.study import run_scenario

PAGE = """study = "validation"
robot = "cart.toml"
base = "rail"
file = "Weg.csv"
time = { column = "Zeitstempel", unit = "ms", from_first = true }
fit = 4
measured_start = 0.5
relax = false
drag = [{ frame = "cart", linear = 0.5 }]
phase = [{ duration = 8 }]
channel = [{ quantity = "base_x", column = "Weg [cm]", unit = "cm", sd = 2e-4 }]
uncertain = [{ key = "drag[0].linear", sd = 0.5 }]
[[input]]
to = "load.cart.fx"
file = "kraft.mat"
column = "dat.F_mN"
unit = "mN"
time = { column = "dat.uhr", unit = "s", offset = -100.25 }
"""


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Files by SciPy: 3 kg under 0.6 sin(1.3 t) N with a drag of 0.8 N s/m."""
    times = np.arange(0.0, 9.0, 0.02)
    found = solve_ivp(
        lambda t, y: [y[1], (0.6 * np.sin(1.3 * t) - 0.8 * y[1]) / 3.0], (0.0, 9.0), [0.1, 0.05], t_eval=times,
        rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    read = 100.0 * found.y[0] + 0.02 * np.random.default_rng(0).normal(size=times.size)
    rows = [f"{1763570000000 + 1e3 * t:.0f};{x:.3f};ok".replace(".", ",") for t, x in zip(times, read, strict=True)]
    (tmp_path / "Weg.csv").write_text("# Prüfstand 3\nZeitstempel;Weg [cm];Bemerkung\n" + "\n".join(rows), "utf-8")
    clock = np.arange(-1.0, 10.0, 0.005)
    savemat(tmp_path / "kraft.mat", {"dat": {"uhr": clock + 100.25, "F_mN": 600.0 * np.sin(1.3 * clock)}})
    (tmp_path / "cart.toml").write_text(
        '[robot]\nname = "cart"\n[[body]]\nname = "cart"\nmass = 3.0\ninertia = [0.1, 0.1, 0.1]\n'
    )
    return tmp_path


def test_a_cart_on_a_rail_is_read_and_predicted(folder: Path) -> None:
    (folder / "page.toml").write_text(PAGE)
    result = run_scenario(folder / "page.toml")
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    assert abs(rows["uncertain.drag[0].linear.value"] - 0.8) < 4.0 * rows["uncertain.drag[0].linear.sd"]
    assert rows["uncertain.drag[0].linear.sd"] < 0.02


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dat.F_mN", "dat.F_N", r"kraft\.mat: column 'dat\.F_N'.*did you mean 'F_mN'"),
        (", offset = -100.25", "", r"input\[0\]: column 'dat\.F_mN'.*its clock has 99\.25 s to .*the run 0 s to 8 s"),
        ('unit = "mN"', 'unit = "mN m"', r"kraft\.mat: column 'dat\.F_mN'.*is in 'mN m' .*a unit of N\b"),
        ('unit = "cm"', 'unit = "ms"', r"Weg\.csv: column 'Weg \[cm\]'.*is in 'ms' .*a unit of m\b"),
        (", from_first = true", "", r"channel\[0\]: .*the file has 1763570000 s .*from_first"),
    ],
)
def test_errors_tell_column_unit_and_clock(old: str, new: str, message: str, folder: Path) -> None:
    assert old in PAGE
    (folder / "page.toml").write_text(PAGE.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        run_scenario(folder / "page.toml")


def test_a_reading_across_the_rail(folder: Path) -> None:
    """Noise where the rail holds the cart says where the rail is; motion there means another rail."""
    across = 'channel = [{ quantity = "base_y", column = "Weg [cm]", unit = "cm", sd = 2e-4 }, '
    (folder / "page.toml").write_text(PAGE.replace("channel = [", across))
    with pytest.raises(
        InputError, match=r"channel: 'base_y' changes by .* m/s at the start, but the base is rail, with axis"
    ):
        run_scenario(folder / "page.toml")
    lines = (folder / "Weg.csv").read_text("utf-8").splitlines()
    noise = 30.0 + 0.02 * np.random.default_rng(1).normal(size=len(lines) - 2)
    rows = [f"{line};{y:.3f}".replace(".", ",") for line, y in zip(lines[2:], noise, strict=True)]
    (folder / "Weg.csv").write_text("\n".join([lines[0], f"{lines[1]};quer", *rows]), "utf-8")
    (folder / "page.toml").write_text(PAGE.replace("channel = [", across.replace("Weg [cm]", "quer")))
    assert run_scenario(folder / "page.toml").sound


PUCK = """study = "validation"
robot = "cart.toml"
base = "planar"
file = "take.csv"
time = { column = "Frame", scale = 0.01, from_first = true }
fit = 2
measured_start = 1.0
relax = false
phase = [{ duration = 6 }]
channel = [
  { quantity = "base_x", column = "puck/Position/X", unit = "mm", sd = 1e-4 },
  { quantity = "base_y", column = "puck/Position/Z", unit = "mm", scale = -1, sd = 1e-4 },
  { quantity = "base_yaw", column = ["W", "Rotation/X", "Rotation/Z", "Rotation/Y"], scale = [1, 1, -1, 1], sd = 1e-3 },
]
"""


def test_a_yaw_is_read_from_the_quaternion_of_a_camera_whose_y_is_up(folder: Path) -> None:
    """A body that drifts and turns by 1.3 revolutions, with a gap, exported with names above the header."""
    rng = np.random.default_rng(3)
    times = np.arange(0.0, 6.5, 0.01)
    half = 0.5 * (0.4 + 1.3 * times + 1e-3 * rng.normal(size=times.size))
    x, y = (start + rate * times + 1e-4 * rng.normal(size=times.size) for start, rate in ((0.2, 0.03), (-0.1, 0.02)))
    rows = ["Version,1.2", 7 * ",puck", 4 * ",Rotation" + 3 * ",Position", "Frame,X,Y,Z,W,X,Y,Z"]
    for k in range(times.size):
        cells = [0.0, np.sin(half[k]), 0.0, np.cos(half[k]), 1e3 * x[k], 412.0, -1e3 * y[k]]
        rows.append(f"{k + 900}," + ",".join("" if 200 < k < 220 else f"{cell:.6f}" for cell in cells))
    (folder / "take.csv").write_text("\n".join(rows))
    (folder / "page.toml").write_text(PUCK)
    result = run_scenario(folder / "page.toml")
    found = {row.quantity: row.value for row in result.rows}
    assert result.sound
    assert found["uncertain.start.angular_velocity[2].value"] == pytest.approx(1.3, abs=3e-3)
    assert found["channel.base_yaw.rms"] == pytest.approx(1e-3, rel=0.2)
    (folder / "page.toml").write_text(PUCK.replace('["W", ', '["puck/Position/X", '))
    with pytest.raises(InputError, match=r"channel 'base_yaw': .*norm"):
        run_scenario(folder / "page.toml")


ELBOW = """[[body]]
name = "arm"
mass = 1.0
inertia = [0.1, 0.1, 0.1]
[[joint]]
name = "elbow"
kind = "revolute"
parent = "cart"
child = "arm"
axis = [0.0, 0.0, 1.0]
"""


def test_a_joint_whose_path_is_too_short_is_told_with_both_clocks(folder: Path) -> None:
    (folder / "cart.toml").write_text((folder / "cart.toml").read_text() + ELBOW)
    clock = np.arange(0.5, 10.0, 0.01)
    savemat(folder / "kraft.mat", {"dat": {"uhr": clock, "F_mN": np.sin(clock)}})
    page = PAGE.replace("load.cart.fx", "driven.elbow").replace('"mN"', '"rad"').replace(", offset = -100.25", "")
    (folder / "page.toml").write_text(page)
    message = r"input\[0\]: column 'dat\.F_mN' is a joint's path from 0\.5 s to 9\.99 s, .*0 s to 8 s"
    with pytest.raises(InputError, match=message):
        run_scenario(folder / "page.toml")


ARM_PAGE = """study = "validation"
robot = "cart.toml"
base = "planar"
file = "log.csv"
fit = 2
measured_start = 1.0
phase = [{ duration = 7 }]
channel = [
  { quantity = "base_x", column = "x", sd = 1e-4 },
  { quantity = "base_y", column = "y", sd = 1e-4 },
  { quantity = "base_yaw", column = "yaw", sd = 1e-4 },
]
input = [{ to = "driven.elbow", column = "angle", smooth = true }]
"""


def test_noise_of_a_path_is_smoothed_and_a_wrong_mass_is_the_first_suspect(folder: Path) -> None:
    """A body floats while its arm swings about the mass centre of both: its yaw by the conservation of momentum."""
    (folder / "cart.toml").write_text((folder / "cart.toml").read_text() + ELBOW)
    rng = np.random.default_rng(4)
    times = np.arange(0.0, 8.0, 0.01)
    angle = 0.6 * np.sin(1.1 * times)
    yaw = 0.3 - 0.5 * angle + 0.02 * times  # both have an inertia of 0.1
    columns = [times, 0.01 * times, 0.0 * times, yaw, angle]
    noise = [0.0, 1e-4, 1e-4, 1e-4, 3e-4]
    read = np.column_stack([own + sd * rng.normal(size=times.size) for own, sd in zip(columns, noise, strict=True)])
    np.savetxt(folder / "log.csv", read, delimiter=",", header="time,x,y,yaw,angle", comments="")
    (folder / "page.toml").write_text(ARM_PAGE)
    assert run_scenario(folder / "page.toml").sound
    (folder / "page.toml").write_text(ARM_PAGE.replace(", smooth = true", ""))
    assert not run_scenario(folder / "page.toml").sound
    (folder / "page.toml").write_text(ARM_PAGE)
    text = (folder / "cart.toml").read_text()
    (folder / "cart.toml").write_text(text.replace("[0.1, 0.1, 0.1]", "[0.11, 0.11, 0.11]", 1))
    wrong = run_scenario(folder / "page.toml")
    assert not wrong.sound
    found = {row.quantity: row.value for row in wrong.rows}
    first = next(name for name in found if name.startswith("relaxed."))
    assert first.startswith("relaxed.mass and inertia of ")
    # The motion shows the ratio of both only: either number explains it.
    assert abs(found["relaxed.mass and inertia of cart, factor less 1.value"]) == pytest.approx(0.1 / 1.1, rel=0.1)
