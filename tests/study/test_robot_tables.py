"""A scenario's robot as a table: repaired, mounted on, with wheels and thrusters."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.study import Session
from spacearm.study.keys import RobotTable

IMPOSSIBLE = """<robot name="arm">
<link name="root"><inertial><mass value="5"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>
</inertial></link>
<link name="tip"><inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="3" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="j" type="revolute"><parent link="root"/><child link="tip"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="9" velocity="1"/></joint></robot>"""


def table(text: str) -> RobotTable:
    return RobotTable.from_key(tomllib.loads(text)["robot"])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_scenario_repairs_mounts_and_adds_wheels(tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(IMPOSSIBLE)
    session = Session(tmp_path)
    with pytest.raises(InputError, match=r"robot: .*arm.urdf: link 'tip'.*repair = true in a file"):
        session.robot("arm.urdf")
    fixed = session.robot(table('[robot]\nfile = "arm.urdf"\nrepair = true\n'))
    np.testing.assert_allclose(fixed.body("tip").inertia.tensor, np.diag([4.0, 4.0, 8.0]) / 3.0)
    text = """
[robot]
file = "xu2017"
rename = { satellite = "bus" }
[[robot.mount]]
file = "arm.urdf"
repair = true
prefix = "second_"
origin = { xyz = [0, 0, 1], rpy_deg = [0, 0, 90] }
[[robot.wheel]]
name = "wheel"
body = "bus"
set = "orthogonal"
inertia = 0.01
[[robot.thruster]]
name = "jet"
body = "bus"
set = 16
size = [1, 1, 1]
force = 1.0
"""
    base = session.robot("xu2017").bodies[0].name
    whole = session.robot(table(text.replace("satellite", base)))
    old = session.robot("xu2017")
    assert whole.mass == pytest.approx(old.mass + 7.0)
    assert {"second_j", "wheel1", "wheel2", "wheel3"} <= set(whole.joint_names)
    assert len(whole.thrusters) == len(old.thrusters) + 16
    np.testing.assert_allclose(whole.joint("second_j").placement.translation, [0, 0, 1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('robot = { file = "xu2017", mount = [{ file = "none.urdf" }] }', "robot: mount[0]: there is no file"),
        ('robot = { file = "xu2017", repairs = true }', "robot.repairs: unknown key 'repairs'"),
        ("robot = { repair = true }", "robot.file: 'file' is missing"),
        ("robot = 3", "robot: 3 is not"),
        (
            'robot = { file = "xu2017", wheel = [{ name = "w", body = "x", axis = [0, 0, 1], inertia = 1 }] }',
            "wheel[0]",
        ),
        ('robot = { file = "xu2017", base_mass = 3 }', "base and base mass are options for URDF and MJCF"),
    ],
)
def test_what_is_wrong_with_a_robots_table_has_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Session(tmp_path).robot(table(text))
    assert words in str(caught.value)
