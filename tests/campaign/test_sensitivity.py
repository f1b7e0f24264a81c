"""Sensitivities and bounds of a campaign against functions and distributions with known ones."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

from spacearm.campaign import report, run_campaign
from spacearm.campaign._sensitivity import rank_inputs
from spacearm.campaign._tolerance import least_runs, tolerance_bound
from support.campaigns import CAMPAIGN, SCENARIO, plan_of


def test_the_indices_of_ishigami() -> None:
    """sin x1 + 7 sin^2 x2 + 0.1 x3^4 sin x1 on -pi to pi: first-order 0.3139, 0.4424, 0; the rest is an interaction."""
    shares = np.asarray(qmc.LatinHypercube(3, rng=np.random.default_rng(1)).random(2000))
    x = math.pi * (2.0 * shares - 1.0)
    y = np.sin(x[:, 0]) + 7.0 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    a, b = 7.0, 0.1
    variance = 0.5 + a**2 / 8.0 + b * math.pi**4 / 5.0 + b**2 * math.pi**8 / 18.0
    truth = {"x1": 0.5 * (1.0 + b * math.pi**4 / 5.0) ** 2 / variance, "x2": a**2 / 8.0 / variance, "x3": 0.0}
    found = rank_inputs(["x1", "x2", "x3"], shares, y, np.zeros(2000))
    assert [each.key for each in found] == ["x2", "x1", "x3"]
    for each in found:
        low, high = each.index_interval
        assert each.index == pytest.approx(truth[each.key], abs=0.03)
        assert low <= truth[each.key] <= high
        assert high - low < 0.12


def test_intervals_cover_the_indices_of_a_linear_function() -> None:
    """y = sum a x + noise: index a^2 / (sum a^2 + 12 s^2); two cells with offsets of their own, which play no part."""
    slopes, noise, rng = np.array([3.0, -2.0, 0.0]), 0.5, np.random.default_rng(7)
    truth = slopes**2 / (np.sum(slopes**2) + 12.0 * noise**2)
    cells = np.repeat([0, 1], 100)
    inside, means, signs = 0, np.zeros(3), np.zeros(3)
    for _ in range(30):
        shares = rng.random((200, 3))
        y = shares @ slopes + noise * rng.normal(size=200) + 50.0 * cells
        for each in rank_inputs(list("abc"), shares, y, cells):
            k = "abc".index(each.key)
            inside += each.index_interval[0] <= truth[k] <= each.index_interval[1]
            means[k] += each.index / 30
            signs[k] += each.rank / 30
    assert inside >= 80  # of 90: 85.5 and 2.1 for a coverage of 95 %, and some of it is the same noise
    np.testing.assert_allclose(means, truth, atol=0.02)  # no bias, with noise or without
    assert signs[0] > 0.6
    assert signs[1] < -0.4
    assert abs(signs[2]) < 0.05


def test_too_few_runs_say_nothing() -> None:
    rng = np.random.default_rng(0)
    shares = rng.random((12, 3))
    assert rank_inputs(list("abc"), shares, shares[:, 0], np.zeros(12)) == []
    assert rank_inputs(list("abc"), rng.random((50, 3)), np.ones(50), np.zeros(50)) == []
    assert rank_inputs([], np.zeros((50, 0)), rng.random(50), np.zeros(50)) == []


# -- order statistics --------------------------------------------------------------------------------------------


def test_sample_sizes_are_wilks() -> None:
    """The table of order statistics that is in use: 59 runs for 95/95, 93 for the second largest, 124 for the third."""
    assert least_runs(0.95, 0.95) == 59
    assert least_runs(0.997, 0.95) == math.ceil(math.log(0.05) / math.log(0.997)) == 998
    for runs, rank in ((59, 1), (92, 1), (93, 2), (123, 2), (124, 3)):
        assert tolerance_bound(np.arange(float(runs)), "upper", 0.95, 0.95).rank == rank
    short = tolerance_bound(np.arange(58.0), "upper", 0.95, 0.95)
    assert (short.value, short.rank) == (57.0, 1)
    assert 1.0 - short.share**58 == pytest.approx(0.95)


def test_bounds_hold_as_often_as_stated() -> None:
    """Probability that the share below the bound is at least p: of order statistic m of n it is a beta distribution."""
    for runs in (998, 1500, 3000):
        found = tolerance_bound(np.arange(float(runs)), "upper", 0.997, 0.95)
        place = runs + 1 - found.rank
        assert stats.beta(place, runs + 1 - place).sf(0.997) >= 0.95
        assert stats.beta(place - 1, runs + 2 - place).sf(0.997) < 0.95  # the next would not do
        lower = tolerance_bound(np.arange(float(runs)), "lower", 0.997, 0.95)
        assert (lower.value, lower.rank) == (found.rank - 1.0, found.rank)


# -- on the page -------------------------------------------------------------------------------------------------


def test_the_report_names_what_drives_the_energy_lost(tmp_path: Path) -> None:
    """The energy lost is proportional to 1 - e^2: the restitution drives it, and the rod's mass hardly does."""
    (tmp_path / "blow.toml").write_text(SCENARIO)
    text = CAMPAIGN.replace("runs = 12", "runs = 40").replace("most = 0.3", "most = 0.05")
    head, axis, rest = text.partition("[[axis]]")
    text = head + rest.partition("[[vary]]")[1] + rest.partition("[[vary]]")[2]
    assert axis
    result = report(run_campaign(plan_of(tmp_path, text), tmp_path / "out"))
    rows = {row.quantity: row for row in result.rows}
    restitution, mass = "collision[blow].restitution", "robot.body[rod2].mass"
    assert rows[f"sensitivity.margin.{restitution}"].value > 0.8
    assert rows[f"sensitivity.success.{restitution}"].value > 0.4
    assert rows[f"sensitivity.margin.{mass}"].value < 0.1
    assert rows[f"regression.margin.{restitution}"].value > 0.9  # less is lost: more margin
    assert "sensitivity" in [figure.name for figure in result.figures]
    lost = "collision.blow.free.energy_lost"
    table = [row.value for row in result.rows if row.quantity == f"{lost}.upper"]
    assert len(table) == 1
    assert "998 runs" in rows[f"{lost}.upper"].note
    assert rows["margin.lower"].value == pytest.approx((0.05 - table[0]) / 0.05)
