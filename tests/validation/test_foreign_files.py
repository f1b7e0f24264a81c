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
