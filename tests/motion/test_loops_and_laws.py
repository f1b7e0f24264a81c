"""Motion scenarios with closed loops and with laws of joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm import InputError, Result
from spacearm.model.toml_write import toml_text
from spacearm.simulate import LuGre, State, World, close_loops, simulate
from spacearm.study import run_scenario
from support.linkages import four_bar


def run(folder: Path, text: str) -> Result:
    (folder / "linkage.toml").write_text(toml_text(four_bar("axis", base="held")))
    path = folder / "run.toml"
    path.write_text('study = "motion"\nrobot = "linkage.toml"\n' + text)
    return run_scenario(path)


START = "[start]\njoints = { crank = 0.9 }\nrates = { crank = 1.0 }\n[[phase]]\nduration = 0.5\n"


def test_a_file_closes_its_loops_and_the_law_acts(tmp_path: Path) -> None:
    law = '[[joint_law]]\nkind = "lugre"\njoint = "crank"\ncoulomb = 0.01\nstiffness = 50.0\n'
    result = run(tmp_path, START + law)
    assert result.certificate.sound
    robot = four_bar("axis", base="held")
    # The same by hand: from the configuration next to the one that is given, crank held.
    q = close_loops(robot, {"crank": 0.9}, held=["crank"])
    step = 1e-6
    ahead, behind = (close_loops(robot, q + way * np.eye(3)[0], held=["crank"]) for way in (step, -step))
    start = State([0, 0, 0], [1, 0, 0, 0], q, [*np.zeros(6), *((ahead - behind) / (2 * step))])
    world = World({"four-bar": robot}, elements=(LuGre("crank", coulomb=0.01, stiffness=50.0),))
    expected = simulate(world, start, 0.5).end.joints[0]
    (found,) = (row.value for row in result.rows if row.quantity == "end.joint.crank")
    assert found == pytest.approx(expected, abs=1e-7)


BAD = {
    "other kind's key": (
        'kind = "lugre"\njoint = "crank"\ncoulomb = 1.0\ngap = 1.0\n',
        "'gap' does not apply to 'lugre'",
    ),
    "missing": ('kind = "bouc-wen"\njoint = "crank"\nstiffness = 1.0\n', "'displacement' is missing"),
    "unknown joint": ('kind = "lugre"\njoint = "elbow"\ncoulomb = 1.0\n', "no joint 'elbow'"),
}


@pytest.mark.parametrize("case", BAD)
def test_faults_name_the_law(case: str, tmp_path: Path) -> None:
    text, message = BAD[case]
    with pytest.raises(InputError, match=message):
        run(tmp_path, START + "[[joint_law]]\n" + text)


PAIR = """
[[system]]
name = "target"
[system.body]
mass = 3.0
inertia = [0.3, 0.2, 0.25]
[system.start]
position = [0.3, 0.4, 0.1]
velocity = [0.1, 0.0, 0.05]
"""


def test_a_file_joins_two_systems(tmp_path: Path) -> None:
    loop = '[[loop]]\nfirst = "four-bar/rocker end"\nsecond = "target/body"\nkind = "point"\n'
    result = run(tmp_path, START + PAIR + loop)
    assert result.certificate.sound
    assert 0.0 < result.certificate["loops"].value < 1e-9
    free = run(tmp_path, START + PAIR)
    (held, alone) = (
        next(row.value for row in each.rows if row.quantity == "end.joint.crank") for each in (result, free)
    )
    assert abs(held - alone) > 0.01
    with pytest.raises(InputError, match=r"loop\[0\]: both frames are of one system"):
        run(tmp_path, START + PAIR + loop.replace("target/body", "four-bar/coupler"))
    with pytest.raises(InputError, match=r"loop\[0\].*there is no frame 'nobody'"):
        run(tmp_path, START + PAIR + loop.replace("target/body", "nobody"))
