"""Two folders of results against each other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from spacearm.cli.app import run_app
from spacearm.errors import InputError
from spacearm.figures import add_curve, new_figure
from spacearm.report import write_result
from spacearm.report.compare import compare_results, relative_difference, write_comparison
from spacearm.report.write import read_plots
from spacearm.result import Certificate, Check, Figure, Limit, Result, Row


def write(folder: Path, peak: float, used: float = 0.5, **more: object) -> Path:
    figure = new_figure(x="time", x_unit="s", y="rate", y_unit="deg/s")
    add_curve(figure, [0.0, 1.0], [0.0, peak], "x")
    rows = [Row("rate.peak", peak, "deg/s"), Row("mass", 3.0, "kg"), Row("noise", 1e-17), Row("binding", "rate limit")]
    fields: dict[str, object] = {
        "rows": rows,
        "certificate": Certificate({"momentum": Check(1e-12, 1e-9)}),
        "figures": [Figure("rates", figure)],
        "limits": [Limit("range", used, 1.0, "rad", "joint3", time=4.2, share=True)],
    }
    write_result(Result("demo", **{**fields, **more}), folder)  # type: ignore[arg-type]
    return folder


def test_rows_that_differ_come_with_their_relative_difference(tmp_path: Path) -> None:
    first = write(tmp_path / "first", 2.0)
    rows = [Row("rate.peak", 2.5, "deg/s"), Row("mass", 3.0, "kg"), Row("noise", 3e-17), Row("binding", "range limit")]
    found = compare_results(first, write(tmp_path / "second", 2.5, rows=rows))
    assert [(row.quantity, row.relative) for row in found.rows] == [("binding", math.inf), ("rate.peak", 0.2)]
    assert found.equal == 2
    assert found.names == ("first", "second")
    assert compare_results(first, first).largest == 0.0


@pytest.mark.parametrize(
    ("first", "second", "relative"),
    [
        (1.0, 1.0 + 1e-14, 0.0),
        (1.0, 2.0, 0.5),
        (-1.0, 1.0, 2.0),
        ([1.0, 4.0], [1.0, 5.0], 0.2),
        ("NaN", "NaN", 0.0),
        (1.0, "NaN", math.inf),
        ([1.0], [1.0, 2.0], math.inf),
        (None, 1.0, math.inf),
    ],
)
def test_differences_of_values(first: object, second: object, relative: float) -> None:
    assert relative_difference(first, second) == relative


def test_terminal_prints_verdicts_and_fails_only_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(write(tmp_path / "good", 2.0)), str(write(tmp_path / "bad", 2.2, used=2.15))]
    assert run_app(["compare", *folders]) == 0
    shown = capsys.readouterr().out
    assert "bad: LIMITS BROKEN: joint3 at 215 % of its range at 4.2 s; numerics sound" in shown
    assert "rate.peak" in shown
    assert "9.09 %" in shown
    assert run_app(["compare", *folders, "--fail-above", "0.5"]) == 1  # another verdict
    folders = [folders[0], str(write(tmp_path / "third", 2.2))]
    assert run_app(["compare", *folders, "--fail-above", "0.1"]) == 0
    assert run_app(["compare", *folders, "--fail-above", "0.09"]) == 1
    capsys.readouterr()
    assert run_app(["compare", *folders, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["largest"] == pytest.approx(0.2 / 2.2)
    assert run_app(["compare", *folders, "--fail-above", "-1"]) == 2


def test_page_has_the_curves_of_both_over_one_another(tmp_path: Path) -> None:
    unsound = Certificate({"momentum": Check(1.0, 1e-9)})
    folders = write(tmp_path / "a", 2.0), write(tmp_path / "b", 3.0, certificate=unsound)
    page = write_comparison(compare_results(*folders), tmp_path / "out")
    plot = json.loads(read_plots(page)["rates"])
    assert [(trace["line"]["dash"], trace.get("name")) for trace in plot["data"]] == [
        ("solid", "x"),
        ("dash", "x"),
        ("solid", "a"),
        ("dash", "b"),
    ]
    text = page.read_text(encoding="utf-8")
    assert "not sound" in text
    assert "Momentum</td><td>yes</td><td>no</td>" in text
    assert json.loads((tmp_path / "out" / "results.json").read_text())["study"] == "comparison"
    write_comparison(compare_results(*folders), tmp_path / "out")  # older ones are replaced


@pytest.mark.parametrize("content", ["", "{}", '{"study": 1, "rows": 2, "certificate": 3}', "[" * 2000])
def test_what_is_no_folder_of_results_is_a_clear_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad").mkdir()
    if content:
        (tmp_path / "bad" / "results.json").write_text(content)
    with pytest.raises(InputError, match=r"results"):
        compare_results(write(tmp_path / "good", 1.0), tmp_path / "bad")
