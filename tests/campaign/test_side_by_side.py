"""Campaigns with vectorised runs: those of one by one, whatever else is in the batch, on the processor and on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.campaign import Store, run_campaign
from spacearm.campaign._work import run_cell_batches, run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.cli import main
from spacearm.errors import EngineError, InputError
from spacearm.simulate.ensemble.vectorised_phases import VectorisedError
from spacearm.simulate.ensemble.vectorised_runs import simulate_lanes
from spacearm.study import Session
from spacearm.study.scenario import VectorisedStudy, study_file
from support.cuda_as_c import as_gpu

#: A blow at the hand while sampled laws with noisy sensors and a delay hold two joints, then a coast with one locked.
LOOP = """
study = "motion"
robot = "yoshida1992"
seed = 0
method = { kind = "rk4", step = 0.004 }
[start]
joints = [0.3, 0.5]
angular_velocity = [0.0, 0.0, 0.01]
[[sensor]]
kind = "encoder"
noise = 1e-4
spread = 1e-4
[[sensor]]
kind = "gyro"
noise = 1e-4
[[phase]]
name = "hold"
duration = 0.533
forces.joint1 = { kind = "table", times = [0.0, 0.2], values = [0.0, 0.1] }
[[phase.law]]
kind = "joint_pid"
period = 0.01
delay = 0.01
stiffness = 4.0
damping = 2.0
integral = 0.5
reference.joint1 = { kind = "spline", times = [0.0, 0.4], values = [0.3, 0.4] }
reference.joint2 = { value = 0.5 }
[[phase.load]]
frame = "hand"
direction = [0.0, 1.0, 0.0]
force = { kind = "half-sine", value = 2.0, start = 0.1, width = 0.1017 }
[[phase]]
name = "coast"
duration = 0.3
[[phase.law]]
kind = "detumble"
torque = 0.05
continuous = true
sensors = []
[[phase.law]]
kind = "joint_pid"
stiffness = 0.1
damping = 0.05
integral = 0.02
continuous = true
sensors = []
reference.joint1 = { value = 0.3 }
reference.joint2 = { kind = "table", times = [0.0, 0.1], values = [0.5, 0.6] }
"""
CAMPAIGN = """
scenario = "loop.toml"
runs = 10
chunk = 4
sampling = "random"
[[vary]]
key = "start.angular_velocity[2]"
deviation = 0.01
[[vary]]
key = "seed"
kind = "seed"
[[vary]]
key = "phase[hold].law[0].stiffness"
deviation = 0.1
relative = true
[[vary]]
key = "phase[hold].law[0].reference.joint1.values[1]"
deviation = 0.05
[[vary]]
key = "phase[hold].load[0].force.value"
deviation = 0.3
relative = true
[[vary]]
key = "robot.body[rod2].mass"
deviation = 0.05
relative = true
[[require]]
row = "end.base_angular_velocity.z"
least = 0.0
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "loop.toml").write_text(LOOP)
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path


def plan_of(place: Path, scenario: str = LOOP, campaign: str = CAMPAIGN) -> CampaignPlan:
    (place / "loop.toml").write_text(scenario)
    (place / "campaign.toml").write_text(campaign)
    return CampaignPlan.read(place / "campaign.toml")


def lane_of(plan: CampaignPlan, number: int) -> VectorisedStudy:
    document, robots, _ = plan.build_scenario(0, number)
    return study_file(document).prepare_lane(Session(plan.folder, robots=robots))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("runs-*")}


def columns(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = Store.open(folder).read().to_pydict()
    return found


def test_runs_are_those_of_one_by_one(place: Path) -> None:
    plan = plan_of(place)
    assert None not in simulate_lanes([lane_of(plan, number).run for number in range(10)])  # none is made alone
    alone, beside = (columns(run_campaign(plan, place / str(d), device=d).folder) for d in (None, "cpu"))
    assert alone.keys() == beside.keys()
    assert len(set(alone["success"])) == 2
    scale = max(abs(value) for name, values in alone.items() if name.startswith("end.") for value in values)
    for name, values in alone.items():
        if name.startswith("end."):
            np.testing.assert_allclose(beside[name], values, rtol=0.0, atol=1e-13 * scale, err_msg=name)
        elif name not in ("margin", "reason"):
            assert beside[name] == values, name
    assert alone["status"] == ["sound"] * 10
    assert len(set(alone["end.joint.joint1"])) == 10


def test_company_and_chunks_do_not_matter(place: Path) -> None:
    plan = plan_of(place)
    store = run_campaign(plan, place / "whole", device="cpu")
    found = columns(store.folder)
    (single,) = run_cell_batches(plan, [(0, 7)], "cpu")
    assert [found[name][7] for name in single.values] == list(single.values.values())
    whole = files(store.folder)
    assert files(run_campaign(plan, place / "two", workers=2, device="cpu").folder) == whole
    # What a killed call leaves.
    killed = run_campaign(plan, place / "killed", device="cpu")
    for name in list(whole)[1:]:
        (killed.folder / name).unlink()
    (killed.folder / ".writing-x").write_text("half")
    assert files(run_campaign(plan, place / "killed", device="cpu").folder) == whole
    with pytest.raises(InputError, match="without a device"):
        run_campaign(plan, place / "killed")


def test_thrusters_locked_joints_and_driven_bases(place: Path) -> None:
    """What acts from outside, and what is held: the balances must see it, or every run would be made alone."""
    text = """
study = "motion"
robot = "xu2017"
method = { kind = "rk4", step = 0.02 }
[start]
configuration = "normal"
angular_velocity_deg = [0.5, -0.3, 0.2]
[[phase]]
duration = 2.0
locked = ["joint1", "joint2", "joint3", "joint4", "joint5", "joint6"]
[[phase.law]]
kind = "attitude_by_thrusters"
period = 0.1
dead_band = 0.001
rate_gain = 2.0
[[phase.load]]
frame = "hand"
axes = "frame"
direction = [1.0, 2.0, 0.0]
force = { kind = "pulse", value = 3.0, start = 0.55, width = 0.4 }
"""
    campaign = """
scenario = "loop.toml"
runs = 3
[[vary]]
key = "start.angular_velocity_deg[2]"
deviation = 0.05
"""
    plan = plan_of(place, text, campaign)
    assert simulate_lanes([lane_of(plan, 1).run]) != [None], "its balances do not hold"
    alone, beside = run_one(plan, 0, 1).values, run_cell_batches(plan, [(0, 1)], "cpu")[0].values
    np.testing.assert_allclose(list(beside.values()), list(alone.values()), rtol=0.0, atol=1e-13)


def test_a_run_that_breaks_down_is_told_as_alone(place: Path) -> None:
    """Gains with which the loop of some runs is unstable."""
    text = CAMPAIGN.replace("deviation = 0.1\nrelative = true", "kind = 'log-uniform'\nlow = 1e2\nhigh = 1e9", 1)
    plan = plan_of(place, campaign=text)
    places = [(0, number) for number in range(10)]
    beside = run_cell_batches(plan, places, "cpu")
    alone = [run_one(plan, *place) for place in places]
    notes = [(outcome.status, outcome.reason, outcome.binding) for outcome in beside]
    assert notes == [(outcome.status, outcome.reason, outcome.binding) for outcome in alone]
    assert {"not sound"} < {status for status, _, _ in notes}
    assert any("not a number" in reason or "expected at most 1e+09 rad" in reason for _, reason, _ in notes)


WRONG = {
    "until": ('duration = 0.3\n', 'duration = 0.3\nuntil = [{ quantity = "joint1" }]\n', "coast.*until"),
    "method": ('kind = "rk4", step = 0.004', 'kind = "dopri853"', "method.*adapts its steps"),
    "gravity": ('seed = 0\n', 'seed = 0\ngravity = [0.0, 0.0, -1.0]\n', "gravity: .*without gravity.*leave out"),
    "joint_law": (
        '[[phase]]\nname = "hold"',
        '[[joint_law]]\nkind = "lugre"\njoint = "joint1"\ncoulomb = 1.0\nstiffness = 1e3\n[[phase]]\nname = "hold"',
        "joint_law: a vectorised run has no laws of joints.*leave out 'joint_law', or run it without a device",
    ),
    "stop": ('duration = 0.3\n', 'duration = 0.3\nlimits = "stop"\n', "coast.*limits"),
    "force": ('kind = "gyro"\n', 'kind = "force_torque"\nframe = "hand"\n', "force_torque"),
    "study": ('study = "motion"', 'study = "workspace"', "study.*'workspace'"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_made_side_by_side_is_told_before_anything_is_written(place: Path, what: str) -> None:
    old, new, note = WRONG[what]
    assert old in LOOP
    text = LOOP.replace(old, new)
    campaign = CAMPAIGN
    if what == "study":
        text, campaign = 'study = "workspace"\nrobot = "yoshida1992"\nframe = "hand"\n', 'scenario = "loop.toml"\n'
    plan = plan_of(place, text, campaign)
    with pytest.raises(VectorisedError, match=note) as caught:
        run_campaign(plan, place / "out", device="cpu")
    assert "loop.toml" in str(caught.value)
    assert not (place / "out").exists()


def test_geometry_that_varies_is_told(place: Path) -> None:
    more = '[[vary]]\nkey = "robot.joint[joint2].origin.xyz[0]"\ndeviation = 0.01\n'
    plan = plan_of(place, campaign=CAMPAIGN.replace("runs = 10", "runs = 40") + more)
    with pytest.raises(VectorisedError, match="geometry"):
        run_cell_batches(plan, [(0, number) for number in range(40)], "cpu")


def test_command_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "run", str(place / "campaign.toml"), "-o", str(place / "out"), "--device", "cpu"]) == 0
    assert len(files(place / "out")) == 3
    assert (place / "out" / "index.html").is_file()
    assert main(["campaign", "replay", str(place / "out"), "3", "-o", str(place / "one")]) == 0


def test_without_a_gpu_the_error_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(EngineError, match="CuPy is not installed"):
        run_campaign(plan_of(place), place / "out", device="gpu")
    assert not (place / "out").exists()


@pytest.fixture(scope="module", params=["C", pytest.param("GPU", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with as_gpu(tmp_path_factory.mktemp("kernels")) if request.param == "C" else nullcontext():
        yield request.param


def test_on_a_gpu(place: Path, where: str) -> None:
    """The bytes of the processor's lanes; on a GPU noise comes of other logarithms."""
    plan = plan_of(place)
    here, there = (run_campaign(plan, place / device, device=device) for device in ("cpu", "gpu"))
    if where == "C":
        assert files(there.folder) == files(here.folder)
    ours, theirs = columns(here.folder), columns(there.folder)
    assert theirs["status"] == ours["status"]
    for name in (name for name in ours if name.startswith("end.")):
        np.testing.assert_allclose(theirs[name], ours[name], rtol=1e-9, atol=1e-12, err_msg=name)
