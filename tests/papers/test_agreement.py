"""The table of agreement: one rule for every verdict, and every claim has a finding."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from importlib.resources import files
from inspect import signature

import pytest

from spacearm.errors import InputError
from spacearm.papers import PAPERS, agreement
from spacearm.papers.agreement import Claim, build_finding, row_of
from spacearm.result import Row, Verdict

CLAIMS = {
    "near.{case}": Claim(printed=3.0, unit="kg", source="Sec. 1", tolerance=0.05, why="one decimal", note="{gap:+.2f}"),
    "fitted": Claim(printed=-2.0, relative=0.1, same_sign=True, verdict="fitted", note="{limit}{sign}"),
    "between": Claim(printed="between 1 and 2", above=1.0, below=2.0, note="in", differs="out by {value:g}"),
    "exact": Claim(printed=70),
    "lost": Claim(printed=2, verdict="not recoverable", note="no data"),
    "told": Claim(printed="faster", also={"more": "and {extra}"}, note="seen"),
    "ours": Claim(unit="s"),
    "arithmetic": Claim(printed=0.5, basis="printed", tolerance=0.05, note="of its own table"),
}


@pytest.fixture(autouse=True)
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paper with the claims above."""
    real = agreement.claims
    monkeypatch.setattr(agreement, "claims", lambda paper: CLAIMS if paper == "made-up" else real(paper))


def row(claim: str, value: object = None, **options: object) -> Row:
    return row_of("made-up", build_finding(claim, value, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("claim", "value", "verdict"),
    [
        ("fitted", -2.19, Verdict.FITTED),
        ("fitted", -2.3, Verdict.DIFFERS),
        ("between", 1.5, Verdict.AGREES),
        ("between", 1.0, Verdict.DIFFERS),
        ("between", 2.5, Verdict.DIFFERS),
        ("lost", 7, Verdict.NOT_RECOVERABLE),
        ("ours", 7.0, Verdict.NEW),
        ("arithmetic", 0.46, Verdict.CONSISTENT),
        ("arithmetic", 0.56, Verdict.DIFFERS),
    ],
)
def test_the_verdict_follows_from_the_claim(claim: str, value: float, verdict: Verdict) -> None:
    assert row(claim, value).verdict is verdict


def test_a_tolerance_decides_and_is_told_with_its_reason() -> None:
    found = row("near.{case}", 3.04, case="free")
    assert (found.quantity, found.paper, found.unit, found.source) == ("near.free", 3.0, "kg", "Sec. 1")
    assert found.verdict is Verdict.AGREES
    assert found.note == "+0.04; tolerance 0.05 kg: one decimal"
    assert row("near.{case}", 3.06, case="free").verdict is Verdict.DIFFERS
    assert row("near.{case}", 3.06, case="free", tolerance=0.1).verdict is Verdict.AGREES
    assert row("near.{case}", 3.06, case="free", printed=3.1).paper == 3.1


def test_without_tolerance_only_the_printed_value_agrees() -> None:
    assert row("exact", 70).verdict is Verdict.AGREES
    with pytest.raises(InputError, match="without a reason"):  # a difference must be explained
        row("exact", 69)


def test_whether_a_claim_agrees_or_is_consistent_follows_from_its_basis() -> None:
    for verdict in ("agrees", "consistent"):
        with pytest.raises(InputError, match=f"verdict is '{verdict}'.*give the basis"):
            Claim(printed=1.0, verdict=verdict)
    with pytest.raises(InputError, match=r"basis is 'guess'.*'runs' or 'printed'"):
        Claim(printed=1.0, basis="guess")


@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_arithmetic_among_printed_numbers_sees_no_run(paper: str) -> None:
    """It is found by a function without arguments, and what that finds has the basis "printed", and nothing else."""
    module = import_module(f"spacearm.papers.{paper}.claims")
    arithmetic = getattr(module, "arithmetic", lambda: ())
    assert not signature(arithmetic).parameters
    found = list(arithmetic())
    assert {finding.claim for finding in found} == {
        name for name, claim in agreement.claims(paper).items() if claim.basis == "printed"
    }
    verdicts = {row_of(paper, finding).verdict for finding in found}
    assert Verdict.AGREES not in verdicts
    if paper in ("cai2023", "wojtunik2023"):
        consistent = [finding for finding in found if row_of(paper, finding).verdict is Verdict.CONSISTENT]
        assert len(consistent) == {"cai2023": 12, "wojtunik2023": 10}[paper]


@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_every_figure_of_a_paper_is_accounted_for(paper: str) -> None:
    """Each number once, from 1 to the last, with ours that shows it or the reason why none does."""
    counts = {"yoshida1992": 6, "cai2023": 13, "zhang2020": 15, "xu2017": 13, "wojtunik2023": 9}
    own = agreement.page_figures(paper)
    numbers: list[int] = []
    for printed in own:
        first, *last = (int(number) for number in re.findall(r"\d+", printed.label))
        numbers += [first] if not last else range(first, last[0] + 1)
        assert printed.shows
        assert printed.here or printed.why
    assert sorted(set(numbers)) == list(range(1, counts[paper] + 1))
    captions = agreement.read_paper_file(paper, "page")["captions"]
    assert {name for printed in own for name in printed.here} <= set(captions)


def test_what_could_not_have_failed_is_no_evidence() -> None:
    assert row("between", 1.5, cannot_fail=True).verdict is Verdict.NO_EVIDENCE
    assert row("between", 3.0, cannot_fail=True).verdict is Verdict.DIFFERS


def test_a_finding_may_judge_and_add_remarks() -> None:
    assert row("told", 1, holds=True).verdict is Verdict.AGREES
    found = row("told", 1, holds=False, also=["more"], extra="slower")
    assert (found.verdict, found.note) == (Verdict.DIFFERS, "seen; and slower")
    assert row("between", 3.0).note == "out by 3"


def test_the_other_sign_is_no_fit_however_near() -> None:
    assert CLAIMS["fitted"].sign(-1.0) == ""
    small = Claim(printed=0.1, tolerance=0.5, same_sign=True, note="{sign}")
    assert small.holds(0.5)
    assert not small.holds(-0.1)
    assert small.sign(-0.1) == ", but not the paper's sign"
    assert small.sign(0.0) == ", but the paper has it move"


def test_every_claim_needs_a_finding_and_every_finding_a_claim() -> None:
    with pytest.raises(InputError, match=r"nothing was found for arithmetic, between, exact.*"):
        agreement.agreement("made-up", [build_finding("ours", 1.0)])
    with pytest.raises(InputError, match=r"no claim 'oars'.*did you mean 'ours'"):
        row("oars", 1.0)


@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_claims_of_the_papers_are_well_formed(paper: str) -> None:
    """Verdicts are known, and what is printed says where."""
    folder = files("spacearm.papers") / paper
    texts = tomllib.loads((folder / "claims.toml").read_text(encoding="utf-8"))
    assert texts
    for name, claim in agreement.claims(paper).items():
        assert claim.verdict_if_met in Verdict, name
        assert claim.printed is None or claim.source, name
