"""Ground identification from scenario files, in the formats that laboratories publish."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.ground.simulated import simulate_record
from spacearm.measure.formats import read_numbers
from spacearm.model import catalogue
from spacearm.result import Result
from spacearm.study import run_scenario
from spacearm.typing import Array
from support import ROOT

ROBOT = catalogue.load("yoshida1992")
HEAD = (
    'study = "ground-identification"\nrobot = "yoshida1992"\ngravity = [0.0, -9.81, 0.0]\n[estimate]\nrotors = false\n'
)
#: As a tensor of two columns in one file, as columns by name, and as bare numbers, joint after joint.
NPZ = """[[record]]
name = "npz"
file = "run.npz"
time = { column = "t", unit = "ms" }
columns = { joint_position = { column = "q", unit = "deg" }, torque = "tau" }
"""
CSV = """[[record]]
name = "csv"
step = 0.005
[record.columns]
joint_position = { file = "q.csv", column = ["a", "b"] }
torque = { file = "tau.csv", column = ["a", "b"] }
"""
TXT = """[[record]]
name = "txt"
time = { file = "t.txt" }
[record.columns]
joint_position = { file = "q.txt" }
torque = { file = "tau.txt" }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    record = simulate_record(ROBOT, "run", 10.0, gravity=(0.0, -9.81, 0.0), noise=0.05)
    t, q, tau = record.times, record["joint_position"], record["torque"]
    np.savez(folder / "run.npz", t=1e3 * t, q=np.degrees(q), tau=tau)

    def write(name: str, values: Array, head: str = "") -> None:
        lines = [",".join(f"{x:.17g}" for x in row) for row in np.atleast_2d(values)]
        (folder / name).write_text("\n".join(([head] if head else []) + lines) + "\n")

    write("q.csv", q, "a,b")
    write("tau.csv", tau, "a,b")
    for name, values in (("t", t), ("q", q), ("tau", tau)):
        write(f"{name}.txt", values.reshape(-1, 1))
    return folder


def run(folder: Path, text: str) -> Result:
    (folder / "case.toml").write_text(text)
    return run_scenario(folder / "case.toml")


def test_three_formats_of_one_record_give_the_same(folder: Path) -> None:
    results = [run(folder, HEAD + text) for text in (NPZ, CSV, TXT)]
    rows = [{row.quantity: row.value for row in result.rows} for result in results]
    names = [name for name in rows[0] if name.startswith(("combination.", "term."))]
    assert len(names) >= 6
    for other in rows[1:]:
        np.testing.assert_allclose([other[name] for name in names], [rows[0][name] for name in names], atol=1e-6)
    assert all(result.sound for result in results)
    # of two links in a plane: two first moments and one moment of inertia each
    assert rows[0]["rank.ground"] == 6
    assert rows[0]["rank.orbit"] - 6 == len([name for name in rows[0] if name.startswith("only_in_orbit.")])


def test_a_part_of_a_record_predicts_the_rest_and_the_robot_is_written(folder: Path) -> None:
    text = HEAD.replace("rotors = false\n", 'rotors = false\nwrite = "found.toml"\n')
    first = TXT.replace('"txt"', '"first"\nend = 6.0')
    result = run(folder, text + first + TXT.replace('"txt"', '"rest"\nstart = 6.0\nhold_out = true'))
    assert result.sound
    assert "found.toml" in result.files
    values = {row.quantity: row.value for row in result.rows}
    # noise of 0.05 N m, averaged over ten readings
    assert values["hold_out.rest.error.joint1"] == pytest.approx(0.05 / np.sqrt(10.0), rel=0.25)


def test_currents_beside_the_joints_own_encoders_and_a_name_with_a_space(folder: Path) -> None:
    """Gains of each motor, no ratios: half the torques in the file, and twice as much torque for each unit."""
    table = np.loadtxt(folder / "tau.csv", delimiter=",", skiprows=1) / [2.0, 4.0]
    np.savetxt(folder / "amps.csv", table, delimiter=",", header="a,b", comments="")
    plain = run(folder, HEAD + CSV)
    text = HEAD.replace("[estimate]", "[transmission]\ntorque = [2.0, 4.0]\n[estimate]")
    result = run(folder, text + CSV.replace('"csv"', '"by day: 40 s"').replace("tau.csv", "amps.csv"))
    assert result.sound
    assert "torque-by_day__40_s" in [figure.name for figure in result.figures]
    values = [{row.quantity: row.value for row in each.rows} for each in (plain, result)]
    names = [name for name in values[0] if name.startswith("combination.")]
    np.testing.assert_allclose([values[1][name] for name in names], [values[0][name] for name in names], rtol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ('"q.csv"', '"no.csv"', r"no\.csv: .*columns\.joint_position.*there is no such file"),
        ('["a", "b"] }\ntorque', '["a"] }\ntorque', r"columns\.joint_position.*no such column"),
        ("step = 0.005", "", r"record\[0\]: time: is missing"),
        ("torque =", "joint_rate =", r"'torque' is missing"),
        ('"csv"', '"csv"\nhold_out = true', "every record is held out"),
        ("[[record]]", '[transmission]\nratios = [1.0]\n[[record]]', r"transmission.*ratios"),
        ("rotors = false", 'rotors = false\nfriction = { wrist = ["viscous"] }', "no joint 'wrist'"),
        ("rotors = false", 'rotors = false\nwindow = 9.0', "record 'csv': is 10 s long"),
    ],
)  # fmt: skip
def test_errors_have_a_place(folder: Path, old: str, new: str, note: str) -> None:
    assert old in HEAD + CSV
    with pytest.raises(InputError, match=note):
        run(folder, (HEAD + CSV).replace(old, new, 1))


def test_numbers_of_a_text_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2,3\n# a remark\n\n4.5e0\n")
    np.testing.assert_array_equal(read_numbers(tmp_path / "a.txt"), [1.0, 2.0, 3.0, 4.5])
    (tmp_path / "b.txt").write_text("1\ntwo\n")
    with pytest.raises(InputError, match="'two' is not a number"):
        read_numbers(tmp_path / "b.txt")


@pytest.mark.parametrize("name", ["kuka-lwr4", "panda", "tx40"])
def test_scenarios_of_real_arms_are_read(name: str, tmp_path: Path) -> None:
    """Their measurements are elsewhere: without them the error names the file that is missing."""
    lab = shutil.copytree(ROOT / "examples" / "lab", tmp_path / "some" / "where" / "lab")
    with pytest.raises(InputError, match=r"there is no such file|there is no file"):
        run_scenario(lab / f"{name}.toml")
