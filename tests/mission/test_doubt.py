"""Verdicts and how well masses are known: undecided where a margin is smaller than what that doubt moves."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.support.missions import EXAMPLES, SHORT, flown, rows

from spacearm.cli import main
from spacearm.cli.studies import UNDECIDED
from spacearm.errors import InputError
from spacearm.mission.scenario import MissionFindings
from spacearm.report import _page
from spacearm.study.scenario import run_document

#: Of the example up to the end of the tumble.
INERTIA = [28.0, 24.0, 20.0]


@pytest.fixture(scope="module")
def impulse() -> float:
    """N s, of the example's catch."""
    return float(rows(flown(**SHORT))["catch.impulse"])


def with_margin(share: float, impulse: float, **changes: object) -> MissionFindings:
    """The example whose catch impulse has this margin."""
    return flown(**SHORT, limits__impulse=impulse / (1.0 - share), **changes)


def test_the_bodies_are_others_and_laws_do_not_know() -> None:
    """The same as a file whose target is heavier than its laws assume; and the servicer's laws keep their model."""
    mission = flown(**SHORT)
    other = mission.fly_with((1.0, 1.03))
    assumed = {"mass": 150.0, "com": [0.02, -0.01, 0.0], "inertia": INERTIA}
    heavier = [1.03 * moment for moment in INERTIA]
    written = flown(**SHORT, target__mass=1.03 * 150.0, target__inertia=heavier, target__assumed=assumed)
    assert other.worst.margin != mission.worst.margin
    mine, theirs = rows(other), rows(written)
    assert mine.keys() == theirs.keys()
    numbers = [name for name, value in mine.items() if isinstance(value, float)]
    assert len(numbers) > 60
    for name in numbers:
        assert mine[name] == pytest.approx(theirs[name], rel=1e-6, abs=1e-9), name
    third = mission.fly_with((0.97, 1.0))
    world, nominal = third.run.world, mission.flight.actuators.robot
    assert world.robot("servicer").mass == pytest.approx(0.97 * nominal.mass, rel=1e-12)
    assert {log.law.model.mass for log in third.run.commands if log.law is not None} == {nominal.mass}


def test_a_margin_within_the_doubt_is_undecided(impulse: float) -> None:
    """An impulse is about proportional to the mass: 3 % of mass are worth some 2 % of margin."""
    cases = {0.2: "", 0.05: "", 0.01: "the catch impulse has a margin of 1 %", -0.01: "lighter", -0.1: ""}
    for share, words in cases.items():
        mission = with_margin(share, impulse)
        assert mission.is_successful == (share > 0.0)
        assert (words in mission.undecided()) if words else not mission.undecided()
        assert ("Undecided: " in mission.headline()) == bool(words)
    assert with_margin(0.01, impulse, nominal={"sd": 0.0}).undecided() == ""
    assert with_margin(0.2, impulse, nominal={"sd": 0.3}).undecided()
    with pytest.raises(InputError, match=r"nominal: sd: is 0\.7 .expected a share from 0 to 0\.5"):
        flown(**SHORT, nominal={"sd": 0.7})


def test_terminal_page_and_numbers_say_so(tmp_path: Path, impulse: float, capsys: pytest.CaptureFixture[str]) -> None:
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for later in SHORT:
        del document[later]
    document["limits"]["impulse"] = impulse / 1.01
    result = run_document(document, folder=EXAMPLES)
    first, *others = _page.badges(result)
    assert (first.text, first.meaning) == ("UNDECIDED", result.undecided)
    # The limit that is broken without doubt about masses is not hidden, and nothing about limits is green.
    assert "LIMITS BROKEN: catch: catch impulse" in others[0].text
    assert [badge.style for badge in others if "limit" in badge.text.lower()] == ["not-recoverable"]
    (figure,) = [each for each in result.figures if each.name == "requirements"]
    assert "% mass" in "".join(figure.plot.data[0].header.values)
    text = "\n".join(
        line if not line.startswith("base_rate_deg") else f"{line}\nimpulse = {impulse / 0.99:.9g}"
        for line in (EXAMPLES / "mission.toml").read_text().split("[identify]")[0].splitlines()
    )
    (tmp_path / "mission.toml").write_text(text)
    assert main(["run", str(tmp_path / "mission.toml"), "-o", str(tmp_path / "out")]) == UNDECIDED
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("UNDECIDED Undecided: in catch, the catch impulse has a margin of 1 %")
    assert "mission: UNDECIDED; sound" in shown
    verdict = json.loads((tmp_path / "out" / "results.json").read_text())["verdict"]
    assert verdict["decision"] == "UNDECIDED"
    assert verdict["undecided"].startswith("in catch, the catch impulse has a margin of 1 %")


def test_heavier_bodies_are_let_go_as_they_were_caught() -> None:
    """An ejection put the file's masses in their place: 2 % of the mass vanished, which put the verdict in doubt."""
    mission = flown(decide__mass=140.0)
    other = mission.fly_with((1.03, 0.97))
    assert mission.outcomes[-1].stage == other.outcomes[-1].stage == "eject"
    assert other.is_sound
    world, nominal = other.run.world, mission.run.world
    assert world.robot("servicer").mass == pytest.approx(1.03 * nominal.robot("servicer").mass, rel=1e-12)
    assert world.robot("target").mass == pytest.approx(0.97 * nominal.robot("target").mass, rel=1e-12)


def test_a_policy_holds_in_the_last_stage_too() -> None:
    """It is flown after the decision; a margin there that the policy refuses was a go."""
    later = {"identify": None, "eject": None, "stow__end_attitude_deg": 200.0}
    kept = flown(**later)
    (end,) = [limit for limit in kept.outcomes[-1].limits if limit.name == "end attitude"]
    short = flown(**later, decide__margins={"end attitude": end.margin + 0.01})
    assert kept.is_successful
    assert not short.is_successful
    assert short.worst.stage == "stow"
    assert short.worst.binding_limit.name == "margin too small"
