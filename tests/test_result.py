"""The results contract: rows, verdicts, certificate, strict JSON."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import spacearm
from spacearm.errors import InputError
from spacearm.report._page import render_result
from spacearm.result import Certificate, Check, Figure, Limit, Result, Row, Verdict, json_value
from spacearm.study.findings import IdentifiedRobotFile
from spacearm.study.scenario import with_robot
from spacearm.text_format import format_quantity


def test_results_json_has_exactly_the_contract_s_keys() -> None:
    row = Row("virtual_mass.fixed.peak", 3.0, "kg", 3.0, "Sec. 6", Verdict.AGREES)
    result = Result("yoshida1992", [row], Certificate({"momentum": Check(1e-12, 1e-9)}), {"seed": 1})
    assert result.to_json() == {
        "study": "yoshida1992",
        "version": spacearm.__version__,
        "rows": [
            {
                "quantity": "virtual_mass.fixed.peak",
                "value": 3.0,
                "unit": "kg",
                "paper": 3.0,
                "source": "Sec. 6",
                "verdict": "agrees",
                "note": "",
            }
        ],
        "verdict": {"limits": "no limits", "words": "no limits", "each": []},
        "certificate": {
            "momentum": {"value": 1e-12, "tolerance": 1e-9, "unit": "", "sound": True, "note": ""},
            "sound": True,
        },
        "settings": {"seed": 1},
    }


def test_verdicts_are_those_of_the_contract() -> None:
    assert {verdict.value for verdict in Verdict} == {
        "agrees",
        "consistent",
        "no evidence",
        "differs",
        "fitted",
        "not recoverable",
        "new",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"quantity": "", "value": 1.0}, "no quantity"),
        ({"quantity": "a", "verdict": "aggrees"}, "expected one of agrees, consistent, no evidence, differs"),
        ({"quantity": "a", "value": 1.0, "verdict": "agrees"}, "paper's value is missing"),
        ({"quantity": "a", "value": 1.0, "paper": 2.0, "verdict": "differs"}, "without a reason"),
        ({"quantity": "a", "verdict": "not recoverable"}, "without a reason"),
        ({"quantity": "a", "value": 1.0, "paper": 1.0, "verdict": "no evidence"}, "without a reason"),
        ({"quantity": "a", "value": 1.0, "verdict": "no evidence", "note": "always"}, "paper's value is missing"),
    ],
)
def test_row_refuses_what_says_nothing(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Row(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "verdict"), [(3.0, "agrees"), (3.03, "agrees"), (3.04, "differs"), (math.nan, "differs")]
)
def test_compare_follows_the_tolerance(value: float, verdict: str) -> None:
    row = Row.compare("m", value, 3.0, unit="kg", relative=0.01)
    assert row.verdict == verdict
    assert bool(row.note) == (verdict == "differs")


@pytest.mark.parametrize("value", [math.nan, math.inf, 1.0000001e-9, -2e-9])
def test_check_does_not_hold_beyond_its_tolerance_or_without_a_number(value: float) -> None:
    assert not Check(value, 1e-9).sound


def test_one_failed_check_at_any_depth_makes_a_result_unsound() -> None:
    good = {"a": Check(0.0, 1.0), "runs": {"first": {"energy": Check(0.0, 1.0)}, "next": {"energy": Check(1.0, 1.0)}}}
    assert Result("s", certificate=Certificate(good)).sound
    bad = Certificate({**good, "runs": {"next": {"energy": Check(1.1, 1.0)}}})
    assert not Result("s", certificate=bad).sound
    assert list(bad) == ["a", "runs.next.energy"]
    assert Result("s", certificate=bad).to_json()["certificate"]["sound"] is False  # type: ignore[index,call-overload]


def test_a_certificate_takes_checks_only() -> None:
    for entry in (False, {"value": 1.0, "tolerance": 2.0}, "not cross-checked", [Check(0.0, 1.0)]):
        with pytest.raises(InputError, match=r"runs\.\S* is .*expected a Check"):
            Certificate({"runs": {"x": entry}})  # type: ignore[dict-item]


def test_the_worst_of_several_certificates() -> None:
    """By value, a NaN worse than any number, and what does not apply better than what does."""
    parts = {
        "one": Certificate({"energy": Check(-2e-9, 1e-8, "", "drift"), "path": Check.not_applicable("none")}),
        "two": Certificate({"energy": Check(1e-9, 1e-8, "", "drift"), "path": Check(0.0, 1.0)}),
    }
    worst = Certificate.worst(parts)
    assert worst["energy"] == Check(-2e-9, 1e-8, "", "drift; worst of 2: one")
    assert worst["path"].applies
    assert Certificate.worst({"one": parts["one"]}) == parts["one"]
    broken = {"three": Certificate({"energy": Check(math.nan, 1e-8)})}
    for order in ({**parts, **broken}, {**broken, **parts}):
        assert not Certificate.worst(order).sound


def test_faults_are_told_in_words() -> None:
    found = Certificate(
        {
            "energy": Check(1.0, 1e-9, "J"),
            "end": Check.from_condition(False, "more steps than allowed"),
            "path": Check(0.0, 1.0),
        }
    )
    assert found.faults == ["energy is 1 J and exceeds its tolerance 1e-09", "end: more steps than allowed"]
    near = Certificate({"whiteness": Check(1.0, 0.9999)})
    assert near.faults == ["whiteness is 1 and exceeds its tolerance 0.9999"]


def test_duplicates_are_refused() -> None:
    with pytest.raises(InputError, match="two rows have the quantity 'a'"):
        Result("s", [Row("a"), Row("a")])
    with pytest.raises(InputError, match="'f'"):
        Result("s", figures=[Figure("f", None), Figure("f", None)])


@pytest.mark.parametrize("name", ["", "../x", "a b", "a/b", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"])
def test_figure_name_is_a_safe_file_name(name: str) -> None:
    with pytest.raises(InputError, match="not a name for a figure"):
        Figure(name, None)


def test_counts_leave_out_verdicts_without_rows() -> None:
    rows = [Row("a"), Row("b"), Row("c", 1.0, paper=1.0, verdict=Verdict.FITTED)]
    assert Result("s", rows).counts() == {Verdict.FITTED: 1, Verdict.NEW: 2}
    assert Result("s", rows).has_paper
    assert not Result("s", rows[:2]).has_paper


def test_first_rows_are_those_that_differ_then_those_that_agree() -> None:
    verdicts = [Verdict.AGREES, Verdict.NEW, Verdict.DIFFERS, Verdict.AGREES]
    rows = [Row(f"r{k}", 1.0, paper=1.0, verdict=v, note="why") for k, v in enumerate(verdicts)]
    assert [row.quantity for row in Result("paper", rows).first_rows(3)] == ["r2", "r0", "r3"]


def test_first_rows_come_from_every_part() -> None:
    names = ["hit.a", "hit.b", "hit.c", "mass.a", "mass.b", "psi"]
    result = Result("plain", [Row(name, 1.0) for name in names])
    assert [row.quantity for row in result.first_rows(4)] == ["hit.a", "hit.b", "mass.a", "psi"]
    assert result.first_rows(9) == list(result.rows)


def test_rounding_in_a_list_is_zero() -> None:
    assert format_quantity([1.0, -1.3606e-17, 0.0], "N s") == ("(1, 0, 0)", "N s")
    assert format_quantity(math.inf, "s") == ("never", "")
    assert Limit("not settled", 1.137e-13, 60.0, "s").words == "not settled: 0 s, at most 60"


def test_plain_understands_numpy_paths_and_enumerations() -> None:
    value = {
        "array": np.array([[1.0, np.nan], [np.inf, -np.inf]]),
        "scalar": np.float64(0.5),
        "integer": np.int64(3),
        "flag": np.bool_(True),
        "path": Path("a/b"),
        "verdict": Verdict.NEW,
        "tuple": (1, None),
    }
    assert json_value(value) == {
        "array": [[1.0, "NaN"], ["Infinity", "-Infinity"]],
        "scalar": 0.5,
        "integer": 3,
        "flag": True,
        "path": "a/b",
        "verdict": "new",
        "tuple": [1, None],
    }


def test_plain_refuses_what_json_cannot_hold() -> None:
    with pytest.raises(InputError, match="complex has no place"):
        json_value({"z": 1j})


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_plain_is_strict_json_for_any_nested_value(value: object) -> None:
    text = json.dumps(json_value(value), allow_nan=False)
    assert json.loads(text) == json_value(value)


def test_a_check_that_does_not_apply_is_neither_passed_nor_failed() -> None:
    nothing = Check.not_applicable("nothing moves", 1e-8)
    written = nothing.to_json()
    assert (written["value"], written["sound"]) == (None, None)
    whole = Certificate({"energy": nothing, "quaternion": Check(0.0, 1e-12)})
    assert whole.sound
    back = Certificate.from_json(whole.to_json())["energy"]  # also when it comes back from results.json
    assert (back.applies, back.verdict, back.note) == (False, "not applicable", "nothing moves")
    assert not Result("run", certificate=Certificate({"energy": nothing, "bad": Check(1.0, 1e-8)})).sound
    assert not Result("run", certificate=Certificate({"computed": Check(float("nan"), 1e-8)})).sound


def test_the_page_says_not_applicable() -> None:
    result = Result("run", certificate=Certificate({"energy": Check.not_applicable("nothing moves", 1e-8)}))
    page = render_result(result, {}, plotly="", data=False)
    row = page[page.index(">Energy<") :].partition("</tr>")[0]
    assert ">not applicable</span>" in row
    assert "nothing moves" in row
    assert ">yes<" not in row
    assert "nan" not in row


def test_a_robot_is_written_only_with_a_sound_result() -> None:
    good = Result("s", certificate=Certificate({"end": Check.from_condition(True, "")}))
    bad = Result("s", certificate=Certificate({"end": Check.from_condition(False, "stopped")}), summary="Found.")
    assert with_robot(good, IdentifiedRobotFile("r.toml", lambda: "text")).files == {"r.toml": "text"}
    for result, obstacle in ((bad, ""), (good, "no such body")):
        without = with_robot(result, IdentifiedRobotFile("r.toml", lambda: pytest.fail("made all the same"), obstacle))
        assert not without.files
        assert without.settings["written"] == ""
        assert "r.toml was not written" in without.rows[-1].note
        assert "r.toml was not written" in without.summary
