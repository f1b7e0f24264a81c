"""Scenario files of the soft-capture study: what they can say, and what they say when they are wrong."""

import json
import tomllib

import pytest

from spacearm.errors import InputError, SimulationError
from spacearm.report import write_result
from spacearm.study import run_document, run_scenario
from support import ROOT

EXAMPLE = ROOT / "examples" / "capture.toml"
HIT = """
study = "capture"
robot = "zhang2020"
duration = 2.0

[[load]]
frame = "hand"
axes = "frame"
direction = [1, 0, 1]
force = { kind = "pulse", value = 70.71, start = 0, width = 0.01 }
"""
FORCE = HIT[HIT.index("force") :].strip()


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
rotation_x = { stiffness = 300, damping = 20, travel = 0.5 }
rotation_y = { stiffness = 300, damping = 20, travel = [-0.5, 0.6] }
slide_z = { stiffness = 2000, damping = 50, preload = 1.0 }

[start]
velocity = [0, 0, 0.01]

[target]
mass = 10
inertia = [1, 1, 1]
velocity = [0, 0.02, -0.05]
angular_velocity = [0, 0.05, 0]
contact = { stiffness = 5000, damping = 100 }

[on_off]
on = 40
"""
    robot_frames = _frames("xu2017")
    result = _run(tmp_path, text.replace('hand = "hand"', f'hand = "{robot_frames[-1]}"'))
    assert result.sound
    names = {row.quantity for row in result.rows}
    assert "deformation.joint3.rotation_x.peak" in names
    assert "deformation.contact.slide_x.peak" in names


def _frames(name):
    from spacearm.model import catalogue

    robot = catalogue.load(name)
    return [*robot.body_names, *(frame.name for frame in robot.frames)]


def test_plain_hit_with_clutch_and_table(tmp_path):
    more = """
[[clutch]]
mode = "rigid"
until = { force = 5.0, delay = 0.01 }

[[clutch]]
mode = "soft"
"""
    table = 'force = { kind = "table", times = [0.2, 0.25, 0.3], values = [0, 70.71, 0] }'
    result = _run(tmp_path, HIT.replace(FORCE, table) + more)
    rows = {row.quantity: row.value for row in result.rows}
    assert 0.2 < rows["clutch.soft.2"] < 0.25


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("frame =", "fram ="), "load[0]", "frame"),
        (('"hand"', '"paw"'), "load[0]", "paw"),
        (("duration = 2.0", "duration = -2.0"), "duration", "-2"),
        (('"zhang2020"', '"zhang2021"'), "robot", "did you mean 'zhang2020"),
        (('"zhang2020"', '"xu2017"'), "soft", "no soft joint"),
        (("duration = 2.0", "damping = -1.0"), "joint", "damping is -1"),
        (("duration = 2.0", "travel = 'sometimes'"), "travel", "sometimes|error"),
        (
            ("[[load]]", "[[soft]]\njoint = 'joint1.rotation_x'\nrotation_z = { stiffness = -3 }\n[[load]]"),
            "soft[0]",
            "-3",
        ),
        (("[[load]]", "[[soft]]\njoint = 'elbow'\nrotation_z = { stiffness = 3 }\n[[load]]"), "soft[0]", "elbow"),
        (("[[load]]", "[[clutch]]\nmode = 'rigid'\nuntil = { }\n[[load]]"), "clutch[0]", "one condition"),
        (("[[load]]", "[[clutch]]\nmode = 'rigid'\nuntil = { time = 1.0 }\n[[load]]"), "clutch", "last has none"),
        (("[[load]]", "[on_off]\non = -1\n[[load]]"), "on_off", "-1"),
        (("[[load]]", "[target]\nmass = 0\n[[load]]"), "target", "mass"),
        (("[[load]]", "[design]\nstiffness = [0.0, 3.0]\nruns = 64\n[[load]]"), "design", "more than 0"),
        (("[[load]]", "[settling]\nfraction = 0.0\n[[load]]"), "settling", "above zero"),
        ((FORCE, "force = { kind = 'table' }"), "load[0]", "times"),
        ((FORCE, "force = { kind = 'table', times = [], values = [] }"), "load[0]", "times"),
        (("start = 0,", "start = 2.0,"), "load[0]", "after the end of the run"),
        ((FORCE, ""), "load[0]", "neither 'force' nor 'moment'"),
        ((FORCE, "force = [50, 0, 50]"), "load[0].force", "the vector of a load is its 'direction'"),
        ((FORCE, f"{FORCE}\nprofile = 'half-sine'"), "load[0]", "it belongs to the signal now: axes = "),
        (
            ("[[load]]", "[[clutch]]\nmode = 'rigid'\nuntil = { time = 1.0, delay = 0.5 }\n[[load]]"),
            "clutch[0]",
            "'delay'",
        ),
        (
            ("[[load]]", "[[clutch]]\nmode = 'soft'\nuntil = { slide = 0.0, rotation = 1e-3 }\n[[load]]"),
            "clutch[0]",
            "slide is 0",
        ),
        (
            ("[[load]]", "[[clutch]]\nmode = 'rigid'\n[design]\nstiffness = [1, 9]\n[[load]]"),
            "design",
            "soft from the start",
        ),
        (("[[load]]", "[design]\nstiffness = [1, 9]\nlaw = 'balance'\noff = -1\n[[load]]"), "design", "off is -1"),
    ],
)
def test_errors_have_a_place(tmp_path, change, place, words):
    old, new = change
    assert old in HIT
    with pytest.raises(InputError, match=words.replace("[", r"\[")) as caught:
        _run(tmp_path, HIT.replace(old, new, 1))
    assert place in str(caught.value)
    assert caught.value.file is not None


def test_the_momentum_of_a_blow_is_its_impulse(tmp_path):
    blow = "force = { kind = 'table', times = [0.0, 0.1, 0.2], values = [0.0, 50.0, 0.0] }"
    text = HIT.replace('axes = "frame"\n', "").replace(FORCE, blow)
    rows = {row.quantity: row.value for row in _run(tmp_path, text).rows}
    assert rows["momentum.base.end"][2] + rows["momentum.arm.end"][2] == pytest.approx(50.0 * 0.1 / 2**0.5, rel=1e-9)


def test_the_clutch_closes_by_one_limit_for_both(tmp_path):
    text = HIT.replace("duration = 2.0", "duration = 60.0\ndamping = 15.0")
    modes = "[[clutch]]\nmode = 'soft'\nuntil = {{ {} }}\n[[clutch]]\nmode = 'rigid'\n"
    times = []
    for until in ("slide = 2e-3", "rotation = 2e-3", "slide = 2e-3, rotation = 2e-3"):
        rows = {row.quantity: row.value for row in _run(tmp_path, text + modes.format(until)).rows}
        times.append(rows["clutch.rigid.2"])
    assert times[0] == times[1] == times[2]
    assert 1.0 < times[0] < 60.0


def test_free_drives_are_free_in_designs_too(tmp_path):
    text = """
study = "capture"
robot = "xu2017"
duration = 3.0
free = ["joint2"]

[[soft]]
joint = "joint3"
rotation_x = { stiffness = 300, damping = 20 }

[[load]]
frame = "link6"
axes = "frame"
direction = [5, 3, -4]
force = { kind = "pulse", value = 7.07, start = 0, width = 0.1 }

[design]
stiffness = [300, 300]
damping = [20, 20]
objectives = ["base_rate"]
runs = 64
duration = 3.0
step = 0.005
settling = { fraction = 1.0 }
"""
    rows = {row.quantity: row.value for row in _run(tmp_path, text).rows}
    assert rows["design.knee.base_rate"] == pytest.approx(rows["base.rate.peak"], rel=1e-3)
    held = {row.quantity: row.value for row in _run(tmp_path, text.replace('free = ["joint2"]', "")).rows}
    assert abs(held["design.knee.base_rate"] / rows["design.knee.base_rate"] - 1.0) > 0.01


def test_nothing_happens_is_an_error(tmp_path):
    with pytest.raises(InputError, match="nothing happens"):
        _run(tmp_path, 'study = "capture"\nrobot = "zhang2020"\n')


def test_travel_is_an_error_or_a_row(tmp_path):
    soft = (
        "[[soft]]\njoint = 'joint1.slide_z'\nwhere = 'instead'\nslide_z = { stiffness = 40, travel = 0.01 }\n[[load]]"
    )
    text = HIT.replace("[[load]]", soft)
    with pytest.raises(SimulationError, match=r"exceeded at t = 0\.\d+ s"):
        _run(tmp_path, text)
    result = _run(tmp_path, text.replace("duration = 2.0", 'duration = 2.0\ntravel = "report"'))
    rows = {row.quantity: row for row in result.rows}
    assert 0.0 < rows["travel.joint1.slide_z.slide_z.exceeded"].value < 2.0


APPROACH = """
study = "capture"
robot = "xu2017"
duration = 3.0
sample = 0.1

[[soft]]
joint = "joint3"
rotation_x = { stiffness = 300, damping = 20 }

[target]
mass = 40.0
inertia = [4.0, 5.0, 6.0]
velocity = [-0.05, 0.02, 0.01]

[approach]
duration = 1.0
driven.joint2 = { kind = "spline", times = [0.0, 1.0, 2.0], values = [0.0, 0.1, 0.3] }
compliant.joint2 = { stiffness = 200, damping = 15 }
"""


def test_an_approach_is_part_of_the_run(tmp_path):
    result = _run(tmp_path, APPROACH, cross_check=True)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    assert rows["capture.lost"] > 0.0
    assert rows["cross_check.largest"] < 1e-6
    assert rows["clutch.soft.1"] == pytest.approx(1.0)
    assert rows["deformation.joint3.rotation_x.peak"] > 1e-4


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (("driven.joint2", "driven.elbow"), "approach", "elbow"),
        (("compliant.joint2", "compliant.elbow"), "approach", "elbow"),
        (("duration = 1.0", "duration = 4.0"), "approach", "time left after contact"),
        (("[approach]", "contact = { stiffness = 1e3 }\n[approach]"), "target: contact", "rigid grip"),
        (("[target]", "[[hit]]\nframe = 'hand'\n[target]"), "hit", "it is called 'load' now"),
    ],
)
def test_an_approach_that_cannot_be(tmp_path, change, place, words):
    with pytest.raises(InputError, match=words) as caught:
        _run(tmp_path, APPROACH.replace(*change))
    assert place in caught.value.place


def test_a_stiff_contact_can_be_cross_checked():
    """A first step that is far too long for it must not end the comparison."""
    folder = ROOT / "tools" / "scenarios"
    document = tomllib.loads((folder / "capture-target.toml").read_text(encoding="utf-8"))
    result = run_document({**document, "duration": 0.1}, folder=folder, cross_check=True)
    (row,) = (row for row in result.rows if row.quantity == "cross_check.largest")
    assert 0.0 < row.value < 1e-6
