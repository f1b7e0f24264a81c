"""Scenario files of the soft-capture study: what they can say, and what they say when they are wrong."""

import json
from pathlib import Path

import pytest

from spacearm.errors import InputError, SimulationError
from spacearm.report import write_result
from spacearm.scenarios import run_scenario

EXAMPLE = Path(__file__).parents[1] / "examples" / "capture.toml"
HIT = """
study = "capture"
robot = "zhang2020"
duration = 2.0

[[hit]]
frame = "hand"
force = [50, 0, 50]
"""


def _run(tmp_path, text, **options):
    path = tmp_path / "case.toml"
    path.write_text(text)
    return run_scenario(path, **options)


def test_example_runs_and_is_sound(tmp_path):
    text = EXAMPLE.read_text().replace("runs = 4096", "runs = 256")
    result = _run(tmp_path, text, cross_check=True)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    assert rows["capture.lost"] > 0.0
    assert rows["clutch.rigid.2"] > 1.0
    assert rows["cross_check.largest"] < 1e-6
    assert rows["design.knee.settling"] > 0.0
    page = write_result(result, tmp_path / "out")
    assert page.exists()
    saved = json.loads((tmp_path / "out" / "results.json").read_text())
    assert saved["study"] == "capture"


def test_soft_joints_contact_and_on_off(tmp_path):
    text = """
study = "capture"
robot = "xu2017"
duration = 2.0
hand = "hand"
free = []

[[soft]]
joint = "joint3"
turn_x = { stiffness = 300, damping = 20, travel = 0.5 }
turn_y = { stiffness = 300, damping = 20, travel = [-0.5, 0.6] }
slide_z = { stiffness = 2000, damping = 50, preload = 1.0 }

[start]
velocity = [0, 0, 0.01]

[target]
mass = 10
inertia = [1, 1, 1]
velocity = [0, 0.02, -0.05]
spin = [0, 0.05, 0]
contact = { stiffness = 5000, damping = 100 }

[on_off]
on = 40
"""
    robot_frames = _frames("xu2017")
    result = _run(tmp_path, text.replace('hand = "hand"', f'hand = "{robot_frames[-1]}"'))
    assert result.sound
    names = {row.quantity for row in result.rows}
    assert "deformation.joint3.turn_x.peak" in names
    assert "deformation.contact.slide_x.peak" in names


def _frames(name):
    from spacearm.model import catalogue

    robot = catalogue.load(name)
    return [*robot.body_names, *(frame.name for frame in robot.frames)]


def test_plain_hit_with_clutch_and_table(tmp_path):
    more = """
profile = "table"
duration = 0.1
times = [0.0, 0.05, 0.1]
values = [0.0, 1.0, 0.0]
start = 0.2

[[clutch]]
mode = "rigid"
until = { force = 5.0, delay = 0.01 }

[[clutch]]
mode = "soft"
"""
    result = _run(tmp_path, HIT + more)
    rows = {row.quantity: row.value for row in result.rows}
    assert 0.2 < rows["clutch.soft.2"] < 0.25


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("frame =", "fram ="), "hit[0]", "frame"),
        (('"hand"', '"paw"'), "hit[0]", "paw"),
        (("duration = 2.0", "duration = -2.0"), "cushion", "-2"),
        (('"zhang2020"', '"zhang2021"'), "robot", "did you mean 'zhang2020"),
        (('"zhang2020"', '"xu2017"'), "soft", "no soft joint"),
        (("duration = 2.0", "damping = -1.0"), "joint", "damping is -1"),
        (("duration = 2.0", "travel = 'sometimes'"), "travel", "sometimes|error"),
        (("[[hit]]", "[[soft]]\njoint = 'joint1.turn_x'\nturn_z = { stiffness = -3 }\n[[hit]]"), "soft[0]", "-3"),
        (("[[hit]]", "[[soft]]\njoint = 'elbow'\nturn_z = { stiffness = 3 }\n[[hit]]"), "soft[0]", "elbow"),
        (("[[hit]]", "[[clutch]]\nmode = 'rigid'\nuntil = { }\n[[hit]]"), "clutch[0]", "one way"),
        (("[[hit]]", "[[clutch]]\nmode = 'rigid'\nuntil = { time = 1.0 }\n[[hit]]"), "clutch", "last has none"),
        (("[[hit]]", "[on_off]\non = -1\n[[hit]]"), "on_off", "-1"),
        (("[[hit]]", "[target]\nmass = 0\n[[hit]]"), "target", "mass"),
        (("[[hit]]", "[design]\nstiffness = [0.0, 3.0]\nruns = 64\n[[hit]]"), "design", "above zero"),
        (("[[hit]]", "[settling]\nfraction = 0.0\n[[hit]]"), "settling", "above zero"),
        (("force = [50, 0, 50]", "profile = 'table'"), "hit[0]", "times"),
    ],
)
def test_errors_have_a_place(tmp_path, change, place, words):
    old, new = change
    assert old in HIT
    with pytest.raises(InputError, match=words.replace("[", r"\[")) as caught:
        _run(tmp_path, HIT.replace(old, new, 1))
    assert place in str(caught.value)
    assert caught.value.file is not None


def test_nothing_happens_is_an_error(tmp_path):
    with pytest.raises(InputError, match="nothing happens"):
        _run(tmp_path, 'study = "capture"\nrobot = "zhang2020"\n')


def test_travel_is_an_error_or_a_row(tmp_path):
    soft = "[[soft]]\njoint = 'joint1.slide_z'\nwhere = 'instead'\nslide_z = { stiffness = 40, travel = 0.01 }\n[[hit]]"
    text = HIT.replace("[[hit]]", soft)
    with pytest.raises(SimulationError, match=r"exceeded at t = 0\.\d+ s"):
        _run(tmp_path, text)
    result = _run(tmp_path, text.replace("duration = 2.0", 'duration = 2.0\ntravel = "report"'))
    rows = {row.quantity: row for row in result.rows}
    assert 0.0 < rows["travel.joint1.slide_z.slide_z.exceeded"].value < 2.0
