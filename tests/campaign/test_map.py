"""Maps of missions: what is in a cell, that its border moves as physics says, and that any run can be had again."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spacearm.campaign import Store, report, run_campaign
from spacearm.campaign._work import run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.campaign.report import cells_of
from spacearm.cli import main
from spacearm.cli.studies import LIMITS_BROKEN
from support import ROOT

HEAD = f"""
scenario = "{ROOT / "examples" / "mission.toml"}"
without = ["identify", "decide", "stow", "eject"]
rows = ["margin", "end.time"]
"""


def plan_of(folder: Path, text: str) -> CampaignPlan:
    (folder / "map.toml").write_text(HEAD + text)
    return CampaignPlan.read(folder / "map.toml")


def test_a_run_leaves_the_numbers_of_the_next_alone(tmp_path: Path) -> None:
    """Entries of a list that an axis or a fixed key sets are varied about that list, whatever ran before."""
    plan = plan_of(
        tmp_path,
        """
runs = 3
fixed = { "target.com" = [0.1, 0.2, 0.3] }
[[axis]]
name = "tumble"
cases."slow" = { "target.tumble_deg" = [1.0, -2.0, 0.5] }
[[vary]]
key = "target.tumble_deg[1]"
deviation = 0.1
relative = true
[[vary]]
key = "target.com[2]"
deviation = 0.01
""",
    )
    first = [plan.build_scenario(0, number)[2] for number in range(3)]
    assert [plan.build_scenario(0, number)[2] for number in range(3)] == first
    assert all(-3.0 < drawn["target.tumble_deg[1]"] < -1.0 for drawn in first)
    assert all(0.2 < drawn["target.com[2]"] < 0.4 for drawn in first)


def test_a_map_says_what_breaks_first_and_any_run_comes_back(tmp_path: Path) -> None:
    plan_of(
        tmp_path,
        """
runs = 9
[[axis]]
name = "target"
cases."150 kg" = { "target.mass" = 150.0 }
cases."2 t" = { "target.mass" = 2000.0, "target.inertia" = [1500.0, 1500.0, 500.0] }
[[axis]]
name = "strategy"
key = "strategy"
values = ["passive", "matched"]
[[vary]]
key = "target.mass"
deviation = 0.05
relative = true
""",
    )
    out = tmp_path / "out"
    assert main(["map", str(tmp_path / "map.toml"), "-o", str(out), "--runs", "2", "--workers", "1"]) == 0
    store = Store.open(out)
    table = store.read().to_pydict()
    rows = {row["quantity"]: row["value"] for row in json.loads((out / "results.json").read_text())["rows"]}
    assert rows["runs"] == 8
    assert rows["success.cell0"] == rows["success.cell1"] == 1.0  # light
    assert rows["success.cell2"] == 0.0  # the soft wrist is not for two tonnes
    assert rows["limit.cell2"] == table["binding"][4] == table["binding"][5]
    assert rows["margin.cell2"] == pytest.approx(np.mean(table["margin"][4:6]))
    low, high = rows["interval.cell0.low"], rows["interval.cell0.high"]
    assert (low, high) == pytest.approx((0.3424, 1.0), abs=1e-4)  # Wilson's, two of two
    figure = next(figure for figure in report(store).figures if figure.name == "map").plot
    words = json.dumps(figure.to_dict(), default=str)
    assert rows["limit.cell2"] in words.replace("<br>", " ")
    k = 5
    cell, number = table["cell"][k], table["run"][k]
    replay = ["campaign", "replay", str(out), str(number), "--cell", str(cell), "-o", str(tmp_path / "again")]
    assert main(replay) == LIMITS_BROKEN  # sound, but no go
    again = {row["quantity"]: row["value"] for row in json.loads((tmp_path / "again/results.json").read_text())["rows"]}
    assert again["margin"] == table["margin"][k]  # to the last bit
    assert again["end.time"] == table["end.time"][k]
    assert "scene" in (tmp_path / "again/index.html").read_text()


def test_missions_keep_all_their_rows_in_several_chunks(tmp_path: Path) -> None:
    """A mission has rows `success` and `margin` of its own: beside those of the campaign, as numbers in every chunk."""
    head = HEAD.replace('rows = ["margin", "end.time"]\n', "")
    text = 'runs = 2\nchunk = 1\n[[vary]]\nkey = "target.mass"\ndeviation = 0.01\nrelative = true\n'
    (tmp_path / "map.toml").write_text(head + text)
    store = run_campaign(CampaignPlan.read(tmp_path / "map.toml"), tmp_path / "out")
    table = store.read()
    assert table["success"].to_pylist() == [True, True]
    assert table["result.success"].to_pylist() == [1.0, 1.0]
    assert table["result.margin"].to_pylist() == table["margin"].to_pylist()
    assert {row.quantity: row.value for row in report(store).rows}["verdict"] == "undecided"


def go(plan: CampaignPlan) -> list[float]:
    """Margin of the one run of each cell."""
    found = [run_one(plan, cell, 0) for cell in range(len(plan.cells))]
    assert {outcome.status for outcome in found} == {"sound"}
    return [float(outcome.margin or 0.0) for outcome in found]


def wheels(speed: float) -> str:
    each = ", ".join(f'"robot.joint[wheel_{axis}].limits.velocity" = {speed}' for axis in "xyz")
    return f'cases."{speed:g} rad/s" = {{ {each} }}\n'


def test_larger_wheels_move_the_border_outwards(tmp_path: Path) -> None:
    """Wheels alone take the momentum: a wheel of twice the speed carries twice as much."""
    text = '[[axis]]\nname = "wheels"\n' + "".join(map(wheels, (20.0, 40.0, 80.0, 400.0)))
    fixed = 'fixed = { "detumble.actuator" = "wheels", "detumble.duration" = 400.0 }\n'
    margins = go(plan_of(tmp_path, fixed + text))
    assert margins[0] < 0.0 < margins[-1]
    assert all(a <= b for a, b in pairwise(margins))


def test_less_damping_moves_the_border_inwards(tmp_path: Path) -> None:
    """The wrist swings further, to its stops."""
    text = '[[axis]]\nname = "damping"\n'
    for share in (1.0, 0.1, 0.02):
        each = f'"robot.joint[slide].damping" = {80 * share}, "robot.joint[swing].damping" = {60 * share}'
        text += f'cases."{share:g}" = {{ strategy = "passive", {each} }}\n'
    margins = go(plan_of(tmp_path, text))
    assert margins[0] > 0.0 > margins[-1]
    assert all(a >= b for a, b in pairwise(margins))


def test_the_limit_of_a_cell_is_that_of_the_runs_that_fail(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "runs = 3\n")
    columns = {
        "cell": [0, 0, 0],
        "run": [0, 1, 2],
        "success": [True, False, False],
        "margin": [0.1, -0.3, None],
        "binding": ["catch: torque limit", "settle: not settled", ""],
        "status": ["sound", "sound", "failed"],
    }
    (cell,) = cells_of(plan, columns)
    assert (cell.runs, cell.rate, cell.binding) == (3, pytest.approx(1 / 3), "settle: not settled")
    assert cell.margin == pytest.approx(-0.1)
