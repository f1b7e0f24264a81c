"""The key ``base`` in every study: against closed forms of bodies in a plane and of arms on the ground, and MuJoCo."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.identify.joint.flexible_joints import linearise
from spacearm.model import load
from spacearm.result import Result, Row
from spacearm.study import run_scenario
from spacearm.study.bases import UNSUITABLE
from spacearm.study.scenario import STUDIES, run_document
from support import ROOT

#: A hull with its mass centre beside and above the base's origin.
HULL = """[robot]
name = "hull"
[[body]]
name = "hull"
mass = 16.0
com = [0.1, 0.05, 0.3]
inertia = [0.7, 0.5, 0.3]
[[frame]]
name = "edge"
body = "hull"
origin = { xyz = [0.3, -0.2, 0.1] }
"""
#: Two links that turn about z.
ARM = """[robot]
name = "arm"
[[body]]
name = "hull"
mass = 5.0
inertia = [0.2, 0.2, 0.2]
[[body]]
name = "upper"
mass = 2.0
com = [0.25, 0.0, 0.0]
inertia = [0.01, 0.05, 0.05]
[[body]]
name = "fore"
mass = 1.0
com = [0.2, 0.0, 0.0]
inertia = [0.01, 0.02, 0.02]
[[joint]]
name = "shoulder"
kind = "revolute"
parent = "hull"
child = "upper"
origin = { xyz = [0.0, 0.0, 0.2] }
axis = [0, 0, 1]
[[joint]]
name = "elbow"
kind = "revolute"
parent = "upper"
child = "fore"
origin = { xyz = [0.5, 0.0, 0.0] }
axis = [0, 0, 1]
[[frame]]
name = "hand"
body = "fore"
origin = { xyz = [0.4, 0.0, 0.0] }
"""
STRIKE = """study = "impact"
robot = "robot.toml"
frame = "{frame}"
base = "{base}"
case = [{{ name = "free" }}]
start = {{ joints = {joints} }}
target = {{ mass = 2.0, inertia = [0.1, 0.1, 0.1], velocity = [-1.0, 0.2, 0.0] }}
collision = [{{ name = "blow", normal = [-1.0, 0.0, 0.0], restitution = 0.6, contact = {{ frequencies = [1e4] }} }}]
"""


def run(text: str, robot: str, folder: Path, **options: bool) -> Result:
    (folder / "robot.toml").write_text(robot)
    (folder / "case.toml").write_text(text)
    return run_scenario(folder / "case.toml", **options)


def write_starter(study: str, folder: Path) -> None:
    assert main(["init", study, "-o", str(folder)]) == 0


def row(result: Result, name: str) -> Row:
    return next(each for each in result.rows if each.quantity == name)


def starter(study: str, folder: Path, base: str) -> Path:
    """The starter of a study with this base."""
    write_starter(study, folder)
    path = folder / f"{study}.toml"
    text = re.sub(r"^base = .*\n", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(f'base = "{base}"\n{text}')
    return path


def test_a_body_on_a_table_is_as_heavy_as_a_plane_body(tmp_path: Path) -> None:
    """1/m + (r x n)^2 / I about the normal alone: the lever above the mass centre tips a free body, not this one."""
    found = run(STRIKE.format(frame="edge", base="planar", joints="[]"), HULL, tmp_path, cross_check=True)
    assert found.sound
    at_point = 1.0 / (1.0 / 16.0 + 0.25**2 / 0.3)
    impulse = (1.0 + 0.6) / (1.0 / at_point + 1.0 / 2.0)
    assert row(found, "collision.blow.free.impulse").value[0] == pytest.approx(-impulse, rel=1e-12)
    assert row(found, "collision.blow.free.robot.base_velocity_after").value[2] == 0.0
    free = run(STRIKE.format(frame="edge", base="free", joints="[]"), HULL, tmp_path)
    assert abs(row(free, "collision.blow.free.impulse").value[0] + impulse) > 0.05 * impulse


@pytest.mark.parametrize(("base", "mass"), [("held", None), ("rail", 8.0)])
def test_an_arm_that_is_struck_along_itself(base: str, mass: float | None, tmp_path: Path) -> None:
    """Straight along x: on a rail along x the joints do not move, and all 8 kg do; on the ground nothing gives way."""
    found = run(STRIKE.format(frame="hand", base=base, joints="[0.0, 0.0]"), ARM, tmp_path, cross_check=True)
    assert found.sound
    impulse = 1.6 / (0.5 + (0.0 if mass is None else 1.0 / mass))
    assert row(found, "collision.blow.free.impulse").value[0] == pytest.approx(-impulse, rel=1e-12)


def test_an_arm_on_the_ground_that_is_struck_across(tmp_path: Path) -> None:
    """Against H of the two links by hand: with the elbow at a right angle, n . J H^-1 J^T n."""
    found = run(STRIKE.format(frame="hand", base="held", joints="[0.0, 1.5707963267948966]"), ARM, tmp_path)
    # Hand at (0.5, 0.4): the rates move it along -x by 0.4 and 0.4.
    outer = 0.02 + 1.0 * 0.2**2
    matrix = np.array([[0.05 + 2.0 * 0.25**2 + 1.0 * 0.5**2 + outer, outer], [outer, outer]])
    push = np.array([-0.4, -0.4])
    impulse = 1.6 / (push @ np.linalg.solve(matrix, push) + 0.5)
    assert row(found, "collision.blow.free.impulse").value[0] == pytest.approx(-impulse, rel=1e-12)


def test_a_workspace_on_the_ground_is_that_of_the_links(tmp_path: Path) -> None:
    text = """study = "workspace"
robot = "robot.toml"
base = "held"
frame = "hand"
twist = ["x", "y"]
plane = ["x", "y"]
ranges_deg = { shoulder = [-180, 180], elbow = [-170, 170] }
thickness = 0.6
samples = 2000
grid = 41
cells = 20
"""
    found = run(text, ARM, tmp_path)
    assert found.sound
    # sqrt(det(J J^T)) = l1 l2 |sin(elbow)|, singular where the arm is straight; distances are from the base,
    # 0.2 m below.
    assert found.data is not None
    elbow = found.data["elbow"].values
    np.testing.assert_allclose(
        found.data["joint_manipulability"].values, np.tile(0.2 * np.abs(np.sin(elbow)), (41, 1)), atol=1e-12
    )
    assert row(found, "singular.1.high").value == pytest.approx(np.hypot(0.9, 0.2), rel=1e-9)
    assert row(found, "disturbance").value == 0.0
    assert "from the base's origin" in row(found, "reach.most").note
    # On a table the height of the arm above it does not matter; in space it tips the hull.
    level = ARM.replace("[0.0, 0.0, 0.2]", "[0.0, 0.0, 0.0]")
    seen = {
        (base, height): run(text.replace('"held"', f'"{base}"'), robot, tmp_path).data
        for base in ("free", "planar")
        for height, robot in (("above", ARM), ("level", level))
    }
    maps = {name: data["joint_manipulability"].values for name, data in seen.items() if data is not None}
    np.testing.assert_allclose(maps["planar", "above"], maps["free", "level"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(maps["planar", "level"], maps["free", "level"], rtol=1e-9, atol=1e-12)
    assert np.abs(maps["free", "above"] - maps["free", "level"]).max() > 1e-3


def test_an_ejection_on_a_planar_base_is_one_on_a_table(tmp_path: Path) -> None:
    write_starter("ejection", tmp_path)
    text = (tmp_path / "ejection.toml").read_text()
    assert 'table = "y"' in text
    on_table = run_scenario(tmp_path / "ejection.toml")
    planar = '\nbase = { kind = "planar", axis = [0, 1, 0] }'
    (tmp_path / "ejection.toml").write_text(text.replace('\ntable = "y"', planar))
    on_base = run_scenario(tmp_path / "ejection.toml")
    assert [row.value for row in on_base.rows] == [row.value for row in on_table.rows]
    (tmp_path / "ejection.toml").write_text(text.replace('\ntable = "y"', f'{planar}\ntable = "x"'))
    with pytest.raises(InputError, match=r"ejection.toml: table: is 'x', but the base is planar about 'y'"):
        run_scenario(tmp_path / "ejection.toml")


def test_a_mission_identifies_nothing_on_a_table() -> None:
    """It was flown, and the target that came out was a poor fit."""
    text = (ROOT / "examples" / "mission.toml").read_text()
    with pytest.raises(InputError, match=r"identify: finds the target from a momentum .* but the base is planar"):
        run_document(tomllib.loads(f'base = "planar"\n{text}'), folder=ROOT / "examples")


@pytest.mark.parametrize("study", ["capture", "mission"])
def test_captures_and_missions_on_a_table(study: str, tmp_path: Path) -> None:
    """MuJoCo flies the same capture; nothing leaves the plane."""
    found = run_scenario(starter(study, tmp_path, "planar"), cross_check=study == "capture")
    assert found.sound
    assert found.data is not None
    velocity = found.data["base_velocity"].values
    rate = found.data["base_rate" if study == "capture" else "base_angular_velocity"].values
    assert np.abs(velocity[:, :2]).max() > 1e-4
    assert np.abs(rate[:, 2]).max() > 1e-4
    assert not velocity[:, 2].any()
    assert not rate[:, :2].any()


def test_flexible_joints_on_a_bench(tmp_path: Path) -> None:
    """Base held: the motor's and the link's inertia against each other, w^2 = k (1 / I + 1 / J)."""
    write_starter("joint-identification", tmp_path)
    robot = load(next(path for path in tmp_path.glob("*.toml") if path.stem != "joint-identification"))
    values = {joint: {"motor_inertia": 3.3} for joint in linearise(robot, np.zeros(robot.n)).names}
    assert len(values) == 1
    held = robot.replace(base="held")
    model = linearise(held, np.zeros(robot.n), values)
    link = float(model.mass[0, 0])
    spring = float(model.stiffness[0, 0])
    (frequency,) = model.frequencies(motors_held=False)
    assert frequency**2 == pytest.approx(spring * (1.0 / link + 1.0 / 3.3), rel=1e-9)
    # The link's inertia about its joint, by Steiner's theorem from the bodies beyond it.
    assert link > linearise(robot, np.zeros(robot.n), values).mass[0, 0]


@pytest.mark.parametrize("study", [name for name, place in STUDIES.items() if place.startswith("spacearm.")])
def test_every_study_has_the_key_and_says_why_a_base_does_not_suit(study: str, tmp_path: Path) -> None:
    for base, (why, _) in UNSUITABLE.get(study, {}).items():
        (tmp_path / base).mkdir()
        with pytest.raises(InputError, match=rf"{study}\.toml: base: the base of .* is {base}, .*{why}"):
            run_scenario(starter(study, tmp_path / base, base))
    with pytest.raises(InputError, match=r"base\.kind: "):
        run_scenario(starter(study, tmp_path, "table"))
