"""Go, no go, undecided: what few runs allow to say, and how often that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from spacearm.campaign import Store, report, run_campaign
from spacearm.campaign.decide import cell_verdict, interval_confidence, is_finished, looks
from spacearm.campaign.plan import CampaignFile
from spacearm.errors import InputError
from support.campaigns import CAMPAIGN, SCENARIO, files, plan_of

STOP = "[stop]\nleast = 4\n"


def file_of(**keys: Any) -> CampaignFile:
    return CampaignFile.model_validate({"scenario": "x.toml", **keys})


def test_four_of_four_is_undecided() -> None:
    """All of n succeed: the lower bound is n / (n + z^2), which reaches 0.9 from n = 9 z^2 = 34.6 on."""
    file = file_of(runs=1000, goal=0.9)
    assert [cell_verdict(file, n, n) for n in (0, 4, 34, 35)] == ["undecided", "undecided", "undecided", "go"]
    # None of n: the upper bound is z^2 / (n + z^2), below 0.9 from n = z^2 / 9 = 0.43 on.
    assert cell_verdict(file, 0, 1) == "no go"
    assert cell_verdict(file_of(runs=9, goal=0.1), 0, 34) == "undecided"
    assert cell_verdict(file_of(runs=9, goal=0.1), 0, 35) == "no go"
    with pytest.raises(ValueError, match="less than 1"):
        file_of(goal=1.0)  # no number of runs shows it


def test_looks_double_and_share_the_error() -> None:
    file = file_of(runs=100, chunk=5, stop={"least": 8})
    assert looks(file) == [10, 20, 40, 80, 100]
    assert interval_confidence(file) == pytest.approx(0.99)
    assert looks(file_of(runs=100)) == looks(file_of(runs=100, stop={"half_width": 0.1})) == [100]


def wrong(file: CampaignFile, rate: float, verdict: str) -> float:
    """Probability that a cell of this success rate ever ends with this verdict: exact, over all sequences of runs."""
    share, ended, before = {0: 1.0}, 0.0, 0
    for runs in looks(file):
        more = stats.binom(runs - before, rate).pmf(range(runs - before + 1))
        after: dict[int, float] = {}
        for good, chance in share.items():
            for added, step in enumerate(more):
                after[good + added] = after.get(good + added, 0.0) + chance * float(step)
        ended += sum(chance for good, chance in after.items() if cell_verdict(file, good, runs) == verdict)
        share = {good: chance for good, chance in after.items() if cell_verdict(file, good, runs) == "undecided"}
        before = runs
    return ended


def test_cells_that_end_when_they_are_decided_err_as_seldom_as_stated() -> None:
    """A cell at the goal is called a go in at most 2.5 % of campaigns, and either in at most 5 %; were it judged at
    95 % at each of these looks, it would be three times as often."""
    for goal in (0.5, 0.9):
        file = file_of(runs=256, chunk=8, goal=goal, stop={"least": 8})
        plain = file.model_copy(update={"confidence": 1.0 - (1.0 - file.confidence) * len(looks(file))})
        assert wrong(file, goal, "go") < 0.025
        assert wrong(file, goal, "go") + wrong(file, goal, "no go") < 0.05
        assert wrong(plain, goal, "go") + wrong(plain, goal, "no go") > 0.15


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "blow.toml").write_text(SCENARIO)
    return tmp_path


def test_runs_are_added_where_a_cell_is_undecided_however_many_work(place: Path) -> None:
    """Energy is lost with the square of the speed and falls with the restitution: about 44 % of the runs of cell 1
    succeed, all or none of the others."""
    text = CAMPAIGN.replace("runs = 12", "runs = 16\ngoal = 0.5").replace(
        'key = "target.mass"', 'key = "target.velocity[1]"'
    )
    text = text.replace("values = [0.5, 2.0]", "values = [1.0, 2.0, 20.0]")
    plan = plan_of(place, text + STOP)
    one = files(run_campaign(plan, place / "one").folder)
    rows = {row.quantity: row.value for row in report(Store.open(place / "one")).rows}
    table = Store.open(place / "one").read().to_pydict()
    runs = [table["cell"].count(cell) for cell in range(3)]
    good = [int(np.sum(np.array(table["success"])[np.array(table["cell"]) == cell])) for cell in range(3)]
    for cell in range(3):
        assert rows[f"verdict.cell{cell}"] == cell_verdict(plan.file, good[cell], runs[cell])
        assert runs[cell] in looks(plan.file)
    assert rows["verdict.cell0"] == "go"
    assert rows["verdict.cell2"] == "no go"
    assert max(runs) == runs[1] > max(runs[0], runs[2])
    assert report(Store.open(place / "one")).certificate.sound
    # Jobs of an array, and a call that was killed: the same bytes.
    for k in (1, 0):
        run_campaign(plan, place / "array", part=(k, 2))
    assert files(run_campaign(plan, place / "array").folder) == one
    store = run_campaign(plan, place / "killed")
    for name in ("runs-000000-000000.parquet", "runs-000001-000001.parquet"):
        (store.folder / name).unlink()
    assert not report(store).certificate.sound  # some are missing, and that is told
    assert files(run_campaign(plan, place / "killed").folder) == one


def test_the_old_key_is_told(place: Path) -> None:
    with pytest.raises(InputError, match=r"stop.*unknown key 'confidence'.*key of the campaign"):
        plan_of(place, CAMPAIGN + "[stop]\nhalf_width = 0.1\nconfidence = 0.9\n")


def test_a_width_that_is_asked_for_ends_a_cell() -> None:
    file = file_of(runs=1000, chunk=10, stop={"half_width": 0.1, "least": 20})
    assert not is_finished(file, 0, 10)
    assert is_finished(file, 0, 20) == (stats.binomtest(0, 20).proportion_ci(method="wilson").high <= 0.2)
    assert is_finished(file, 500, 1000)
