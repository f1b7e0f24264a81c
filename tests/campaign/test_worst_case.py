"""The search for the worst case of a campaign: points that are known in closed form, resuming, what is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from spacearm.campaign import Store, report, run_campaign
from spacearm.cli import main
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.study import Findings, Session, StudyFile, key, row
from spacearm.study.scenario import STUDIES
from support.campaigns import CAMPAIGN, SCENARIO, plan_of


class BowlFile(StudyFile):
    """Two numbers, and a margin that is smallest at (0.7, -0.4), where it is -0.1."""

    x: float = key(0.0, "")
    y: float = key(0.0, "")

    def solve(self, session: Session) -> Bowl:
        return Bowl(x=self.x, y=self.y)


class Bowl(Findings):
    """Depth of a bowl with a narrow valley along a diagonal."""

    x: float
    y: float

    depth = row(of=lambda bowl: 20.0 * (bowl.x + bowl.y - 0.3) ** 2 + (bowl.x - bowl.y - 1.1) ** 2 - 0.1)


BOWL = """
scenario = "bowl.toml"
runs = 8
[[vary]]
key = "x"
deviation = 0.5
[[vary]]
key = "y"
deviation = 0.5
[[require]]
row = "depth"
least = 0.0
[worst_case]
runs = 400
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the scenario of the bowl."""
    monkeypatch.setitem(STUDIES, "bowl", f"{__name__}:BowlFile")
    (tmp_path / "bowl.toml").write_text('study = "bowl"\nrobot = "yoshida1992"\nx = 0.0\ny = 0.0\n')
    return tmp_path


def worst_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("worst-*")}


def test_it_finds_the_bottom_of_a_bowl(place: Path) -> None:
    """An interior worst point, in a valley across the axes, which eight runs do not come near."""
    plan = plan_of(place, BOWL)
    rows = {each.quantity: each.value for each in report(run_campaign(plan, place / "out")).rows}
    assert rows["worst.margin"] == pytest.approx(-0.1, abs=1e-3)
    np.testing.assert_allclose([rows["worst.x"], rows["worst.y"]], [0.7, -0.4], atol=0.03)
    assert rows["worst.run.margin"] > rows["worst.margin"]


def test_the_worst_blow_is_at_the_ends_of_both_distributions(tmp_path: Path) -> None:
    """Energy lost in a blow is mu v^2 (1 - e^2) / 2: the most at the least restitution and the heaviest rod."""
    (tmp_path / "blow.toml").write_text(SCENARIO)
    plan = plan_of(tmp_path, CAMPAIGN.replace("[0.5, 2.0]", "[2.0]") + "[worst_case]\nruns = 2\nshare = 0.99\n")
    result = report(run_campaign(plan, tmp_path / "out"))
    rows = {each.quantity: each.value for each in result.rows}
    assert rows["worst.collision[blow].restitution"] == pytest.approx(0.005, abs=1e-12)
    own = catalogue.load("yoshida1992")
    mass = own.bodies[own.body_index("rod2")].inertia.mass
    assert rows["worst.robot.body[rod2].mass"] == pytest.approx(stats.norm(mass, 0.05 * mass).ppf(0.995), rel=1e-9)
    assert rows["worst.margin"] < rows["worst.run.margin"]
    assert "worst case found within the middle 99 % of each dispersion" in result.summary
    assert any(figure.name == "worst-case" for figure in result.figures)
    assert worst_files(run_campaign(plan, tmp_path / "two", workers=2).folder) == worst_files(tmp_path / "out")


def test_it_goes_on_after_an_interruption(place: Path) -> None:
    plan = plan_of(place, BOWL)
    whole = worst_files(run_campaign(plan, place / "whole").folder)
    assert len(whole) > 4
    killed = run_campaign(plan, place / "killed").folder
    for name in sorted(whole)[-3:]:
        (killed / name).unlink()
    assert worst_files(run_campaign(plan, place / "killed").folder) == whole


def test_a_search_may_be_added_and_changed_without_the_runs(place: Path) -> None:
    plain, search = BOWL.split("[worst_case]", maxsplit=1)[0], "[worst_case]\nruns = 60\n"
    store = run_campaign(plan_of(place, plain), place / "out")
    before = {path.name: path.stat().st_mtime_ns for path in store.folder.glob("runs-*")}
    run_campaign(plan_of(place, plain + search), place / "out")
    assert {path.name: path.stat().st_mtime_ns for path in store.folder.glob("runs-*")} == before
    first = worst_files(place / "out")
    run_campaign(plan_of(place, plain + search + "share = 0.5\n"), place / "out")
    assert first
    assert worst_files(place / "out") != first
    assert Store.open(place / "out").plan.file.worst_case is not None
    run_campaign(plan_of(place, plain), place / "out")
    assert not worst_files(place / "out")


def test_the_terminal_names_it(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "campaign.toml").write_text(BOWL)
    assert main(["campaign", "run", str(place / "campaign.toml"), "-o", str(place / "out")]) == 0
    assert "Worst case found: margin -0.1 (depth)." in " ".join(capsys.readouterr().out.split())


def test_what_cannot_be_searched_is_said_before_the_runs(place: Path) -> None:
    with pytest.raises(InputError, match="nothing to search"):
        plan_of(place, BOWL.split("[[vary]]", maxsplit=1)[0] + "[worst_case]\n")
    without = BOWL.split("[[require]]", maxsplit=1)[0] + "[worst_case]\n"
    with pytest.raises(InputError, match="no margin that could be searched"):
        run_campaign(plan_of(place, without), place / "out")
    assert not (place / "out" / "campaign.json").exists()
