"""The folder of a result: what is in it, that it needs no network, and that it appears whole or not at all."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from spacearm.errors import InputError
from spacearm.figures import COLOURS, add_curve, label, lines, new_figure
from spacearm.model import catalogue
from spacearm.report import write_result
from spacearm.report.folder import publish
from spacearm.report.reuse import input_digest, reusable_result
from spacearm.report.write import PLOTLY, IndexEntry, plot_json, share_script, write_files, write_index
from spacearm.result import Certificate, Check, Figure, Result, Row, Verdict
from spacearm.scene import scene_of
from spacearm.text_format import (
    format_quantity,
    format_uncertain,
    format_unit,
    format_value,
    humanise_name,
    label_setting,
)
from spacearm.text_format import format_result as result_text

HOSTILE = "</script><script>alert(1)</script> & <b>"


def dataset() -> xr.Dataset:
    time = np.linspace(0.0, 1.0, 5)
    return xr.Dataset(
        {
            "rate": (("time", "joint"), np.arange(10.0).reshape(5, 2), {"units": "rad/s", "long_name": "Joint rate"}),
            "energy": ("time", time**2, {"units": "J"}),
        },
        coords={"time": ("time", time, {"units": "s"}), "joint": ["shoulder", "elbow"]},
    )


def result(**changes: object) -> Result:
    data = dataset()
    fields: dict[str, object] = {
        "study": "demo",
        "rows": [
            Row.compare("mass.peak", 3.0, 3.0, unit="kg", source="Sec. 6"),
            Row("mass.free", float("nan"), "kg", 53.0, "Table III", Verdict.DIFFERS, HOSTILE),
        ],
        "certificate": Certificate({"momentum": Check(1e-12, 1e-9)}),
        "settings": {"step": 1e-3, "nested": {"seed": 7}},
        "data": data,
        "figures": [Figure("rates", lines(data, "rate", title=HOSTILE), HOSTILE)],
        "title": "A demonstration",
        "headline": "A chain feels its whole mass.",
    }
    return Result(**{**fields, **changes})  # type: ignore[arg-type]


class Page(HTMLParser):
    """Tags with attributes, and the visible text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data

    def links(self) -> list[str]:
        return [value for _, attrs in self.tags for key, value in attrs.items() if key in ("href", "src") and value]


def test_page_names_every_verdict_and_styles_it(tmp_path: Path) -> None:
    rows = [Row(f"row.{k}", 1.0, "kg", 1.0, "Sec. 1", verdict, "reason") for k, verdict in enumerate(Verdict)]
    page = write_result(result(rows=rows), tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    chips = {attrs["class"] for tag, attrs in Page(page).tags if tag == "span" and "chip" in (attrs.get("class") or "")}
    assert len(chips) == len(Verdict)
    for verdict in Verdict:
        assert f"1 {verdict.value}" in Page(page).text
        assert f".{verdict.value.replace(' ', '-')}" in text[: text.index("</style>")]


def test_folder_holds_what_the_contract_names(tmp_path: Path) -> None:
    page = write_result(result(), tmp_path / "out")
    assert page == tmp_path / "out" / "index.html"
    files = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert files == {"results.json", "data.nc", "index.html", "plotly.min.js"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_results_json_is_the_result_and_strict(tmp_path: Path) -> None:
    write_result(result(), tmp_path / "out")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = (tmp_path / "out" / "results.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=refuse)
    there = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert set(content.pop("files")) == there
    remark = [content.pop(name) for name in ("title", "headline", "made_from", "source")]
    assert remark == ["A demonstration", "A chain feels its whole mass.", "", ""]
    assert content == result().to_json()
    assert json.loads(text)["rows"][1]["value"] == "NaN"


def test_data_comes_back_with_names_and_units(tmp_path: Path) -> None:
    write_result(result(), tmp_path / "out")
    with xr.open_dataset(tmp_path / "out" / "data.nc", engine="h5netcdf") as data:
        xr.testing.assert_identical(data.load(), dataset())


def test_page_shows_everything_and_links_only_to_files_beside_it(tmp_path: Path) -> None:
    path = write_result(result(), tmp_path / "out")
    page = Page(path)
    for expected in ("A demonstration", "Mass, peak", "agrees", "Table III", "Momentum", "Nested, seed", HOSTILE):
        assert expected in page.text
    assert page.links()
    for link in page.links():
        assert link == "data:," or (path.parent / link).is_file(), link


def test_the_message_comes_before_the_tables_and_the_tables_are_folded_by_verdict(tmp_path: Path) -> None:
    names = ("first", "second", "third", "fourth")
    figures = [Figure(name, new_figure(), f"The {name} figure.") for name in names]
    path = write_result(result(figures=figures, summary="Why it is so."), tmp_path / "out")
    page = Page(path)
    order = ["A demonstration", "A chain feels its whole mass.", "1 agrees", "The first figure.", "Why it is so."]
    order += ["The second figure.", "Agreement with the paper", "Mass, free", "Mass, peak", "The fourth figure."]
    places = [page.text.index(text) for text in [*order, "Certificate", "Settings"]]
    assert places == sorted(places)
    assert sum(tag == "details" and "open" not in attrs for tag, attrs in page.tags) == 4
    assert [attrs["data-name"] for tag, attrs in page.tags if "data-name" in attrs] == [*names]


def test_a_scene_comes_first_and_has_a_file_of_its_own(tmp_path: Path) -> None:
    robot = catalogue.load("yoshida1992")
    path = write_result(result(scene=scene_of(robot), summary="Why it is so."), tmp_path / "out")
    assert "</html>" in (tmp_path / "out" / "scene.html").read_text(encoding="utf-8")
    page = path.read_text(encoding="utf-8")
    assert page.index('src="scene.html"') < page.index("Why it is so.") < page.index('id="rates"')


def test_one_script_serves_all_folders_of_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with publish(tmp_path / name, "demo") as staging:
            write_files(result(), staging, plotly=f"../{PLOTLY}")
        script = share_script(tmp_path)
        inside = {path.name for path in (tmp_path / name).iterdir()}
        assert inside == {"results.json", "data.nc", "index.html"}
        assert f"../{PLOTLY}" in Page(tmp_path / name / "index.html").links()
    assert script.stat().st_size > 1_000_000
    script.write_text("of an older version")
    assert share_script(tmp_path).stat().st_size > 1_000_000


def test_figures_have_the_numbers_in_single_precision() -> None:
    """On a logarithmic axis: elsewhere what is small beside the largest number is drawn as zero."""
    values = np.random.default_rng(1).uniform(1.0, 9.0, size=1000) * 10.0 ** np.arange(-20, 20, 0.04)
    plot = new_figure().update_yaxes(type="log")
    plot.add_scatter(y=values)
    seen = json.loads(plot_json(Figure("a", plot)))["data"][0]["y"]
    assert seen["dtype"] == "f4"
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(seen["bdata"]), "<f4"), values, rtol=1e-7)


def test_curves_are_compressed(tmp_path: Path) -> None:
    flat = xr.Dataset({"rate": ("time", np.zeros(100_000))})
    write_result(result(data=flat), tmp_path / "out")
    assert (tmp_path / "out" / "data.nc").stat().st_size < 20_000


def test_hostile_text_cannot_leave_its_place(tmp_path: Path) -> None:
    text = write_result(result(), tmp_path / "out").read_text(encoding="utf-8")
    assert "<script>alert" not in text
    (inside,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, flags=re.DOTALL)
    assert json.loads(inside)["layout"]["title"]["text"].replace("&lt;", "<") == HOSTILE


def test_an_unsound_run_says_so_first(tmp_path: Path) -> None:
    good = Page(write_result(result(), tmp_path / "good")).text
    bad = Page(write_result(result(certificate=Certificate({"energy": Check(1.0, 1e-9)})), tmp_path / "bad")).text
    assert "This run is not sound" in bad
    assert bad.index("not sound") < bad.index("Mass, peak")
    assert "not sound" not in good
    assert "no certificate" in Page(write_result(result(certificate=Certificate()), tmp_path / "none")).text


def test_without_data_and_figures_neither_is_written(tmp_path: Path) -> None:
    write_result(result(data=None, figures=()), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "results.json"]


def test_further_files_are_written_and_linked(tmp_path: Path) -> None:
    page = Page(write_result(result(files={"robot.toml": "name = 1\n"}), tmp_path / "out"))
    assert (tmp_path / "out" / "robot.toml").read_text(encoding="utf-8") == "name = 1\n"
    assert "robot.toml" in page.links()


def test_the_same_result_gives_the_same_page(tmp_path: Path) -> None:
    first, second = (write_result(result(), tmp_path / name).read_bytes() for name in "ab")
    assert first == second


def test_nothing_is_left_when_writing_fails(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no place in results"):
        write_result(result(settings={"z": 1j}), tmp_path / "new" / "out")
    assert list(tmp_path.iterdir()) == []


def test_publish_keeps_other_files_and_the_old_ones_on_error(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    old = '{"study": "x", "version": "0", "rows": []}'
    (folder / "results.json").write_text(old)

    def fail_halfway() -> None:
        with publish(folder) as staging:
            (staging / "results.json").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert (folder / "results.json").read_text() == old
    with publish(folder) as staging:
        (staging / "results.json").write_text("new")
        (staging / "figures").mkdir()
        (staging / "figures" / "a.html").write_text("a")
    assert (folder / "results.json").read_text() == "new"
    assert (folder / "notes.txt").read_text() == "mine"
    assert (folder / "figures" / "a.html").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_publish_refuses_a_folder_with_a_page_of_another_origin(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with (
        pytest.raises(InputError, match=r"index\.html exists, and spacearm did not write it"),
        publish(tmp_path) as staging,
    ):
        (staging / "index.html").write_text("new")
    assert (tmp_path / "index.html").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]


def test_publish_refuses_a_file_and_makes_no_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file, not a folder"), publish(tmp_path / "file"):
        pass
    with publish(tmp_path / "empty"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_index_over_several_studies(tmp_path: Path) -> None:
    done = result()
    write_result(done, tmp_path / "demo")
    entries = [
        IndexEntry("demo", "Title of demo", done, "demo/index.html"),
        IndexEntry("cai2023", "Ejection", missing="not part of this version"),
    ]
    page = Page(write_index(entries, tmp_path))
    assert [link for link in page.links() if link != "data:,"] == ["plotly.min.js", "demo/index.html"]
    (picture,) = re.findall(
        r'<script type="application/json"[^>]*>(.*?)</script>', (tmp_path / "index.html").read_text()
    )
    assert json.loads(picture)["layout"]["title"]["text"].replace("&lt;", "<") == HOSTILE
    for expected in ("Title of demo", "1 agrees", "1 differs", "Ejection", "not run", "not part of this version"):
        assert expected in page.text
    studies = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["studies"]
    assert [(study["study"], study["sound"]) for study in studies] == [("demo", True), ("cai2023", None)]


def test_kept_results_say_the_same_as_new_ones(tmp_path: Path) -> None:
    with publish(tmp_path / "out", "demo") as staging:
        write_files(result(), staging, made_from="this")
    kept = reusable_result(tmp_path / "out", "this")
    assert kept is not None
    assert kept.to_json() == result().to_json()
    assert (kept.title, kept.counts(), kept.sound) == ("A demonstration", result().counts(), True)


def test_what_was_made_from_something_else_or_is_damaged_or_not_sound_is_not_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert reusable_result(out, "") is None
    for certificate, made, wanted in (({}, "this", "that"), ({"energy": Check(1.0, 1e-9)}, "this", "this")):
        with publish(out, "demo") as staging:
            write_files(result(certificate=certificate), staging, made_from=made)
        assert reusable_result(out, wanted) is None
    write_result(result(), out)
    assert reusable_result(out, "") is not None
    (out / "data.nc").unlink()
    assert reusable_result(out, "") is None
    for text in ('{"made_from": "", "files": [], "rows": [1], "certificate": {}, "settings": {}}', "[]", '{"rows": 1}'):
        (out / "results.json").write_text(text)
        assert reusable_result(out, "") is None


def test_settings_count_for_what_a_result_is_made_from() -> None:
    assert input_digest("a", "b") == input_digest("a", "b") != input_digest("ab")


def test_lines_have_labels_units_and_one_curve_for_each_name() -> None:
    figure = lines(dataset(), "rate")
    assert [trace.name for trace in figure.data] == ["shoulder", "elbow"]
    np.testing.assert_array_equal(figure.data[1].y, dataset()["rate"].values[:, 1])
    assert figure.layout.xaxis.title.text == "time [s]"
    assert figure.layout.yaxis.title.text == "Joint rate [rad/s]"
    assert tuple(figure.layout.template.layout.colorway) == COLOURS


def test_lines_refuse_unknown_names_and_mixed_units() -> None:
    with pytest.raises(InputError, match="did you mean 'energy'"):
        lines(dataset(), "enrgy")
    with pytest.raises(InputError, match="different units: J, rad/s"):
        lines(dataset(), ["rate", "energy"])


def test_labels() -> None:
    assert label("Mass", "kg") == "Mass [kg]"
    assert label("Ratio") == "Ratio"
    assert new_figure(x="Angle", x_unit="deg").layout.xaxis.title.text == "Angle [deg]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (True, "yes"),
        (3.0, "3"),
        (-0.5, "\N{MINUS SIGN}0.5"),
        (1.5e-12, "1.5\N{MULTIPLICATION SIGN}10⁻¹²"),
        (123456.7, "123457"),
        (0.123456789, "0.12346"),
        (np.float64(2.5), "2.5"),
        (np.array([1.0, 2.0]), "(1, 2)"),
        (list(range(20)), "20 values"),
        (float("nan"), "nan"),
        ("text", "text"),
    ],
)
def test_show(value: object, text: str) -> None:
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("value", "deviation", "text"),
    [
        (103.00214, 0.0028, "103.0021 ± 0.0028"),
        (-0.5, 0.12, "\N{MINUS SIGN}0.50 ± 0.12"),
        (8012.3, 34.0, "8012 ± 34"),
        (123456.0, 3400.0, "123456 ± 3400"),
        (2.0, float("inf"), "2"),
        (1e-9, 2e-11, f"{format_value(1e-9)} ± {format_value(2e-11)}"),
    ],
)
def test_a_value_with_its_deviation(value: float, deviation: float, text: str) -> None:
    assert format_uncertain(value, deviation) == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("virtual_mass.free.peak", "Virtual mass, free, peak"),
        ("test1.stiffness.sd", "Test 1, stiffness, standard deviation"),
        ("contact.free.e0", "Contact, free joints, plastic"),
        ("end.time", "Time at the end"),
    ],
)
def test_names_in_words(name: str, text: str) -> None:
    assert (
        humanise_name(name, {"contact.free": "contact, free joints", "e0": "plastic", "end.time": "time at the end"})
        == text
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("stroke_m", ("Stroke", "m")),
        ("striker.speed_m_s", ("Striker, speed", "m/s")),
        ("duration [s]", ("Duration", "s")),
        ("seed", ("Seed", "")),
    ],
)
def test_settings_with_units(name: str, words: tuple[str, str]) -> None:
    assert label_setting(name) == words


def test_rounding_about_zero_is_zero_and_units_are_raised() -> None:
    assert [result_text(value) for value in (5e-15, -1e-13, 1e-9, 0)] == ["0", "0", "1\N{MULTIPLICATION SIGN}10⁻⁹", "0"]
    assert [format_unit(text) for text in ("kg m2", "rad/s2", "1", "N m s/rad")] == ["kg m²", "rad/s²", "", "N m s/rad"]


def test_tables_show_ten_rows_and_fold_the_rest(tmp_path: Path) -> None:
    rows = [Row(f"joint.angle{k}", float(k), "rad") for k in range(25)]
    text = write_result(result(rows=rows), tmp_path / "out").read_text(encoding="utf-8")
    first, folded = text.split("15 more rows")
    assert first.count("<tr><td") == 10
    assert "Joint, angle9" in first
    assert "Joint, angle24" in folded


def test_page_says_when_by_which_version_and_from_what_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write_result(result(source="tumble.toml"), tmp_path / "one")
    text = (tmp_path / "one" / "index.html").read_text(encoding="utf-8")
    assert re.search(r"tumble\.toml, 2023-11-14 22:13 UTC, spacearm \d", text)
    # what scripts compare has no date
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    write_result(result(source="tumble.toml"), tmp_path / "two")
    one, two = ((tmp_path / name / "results.json").read_bytes() for name in ("one", "two"))
    assert one == two


def test_what_never_happens_is_never_and_not_infinite_seconds(tmp_path: Path) -> None:
    rows = [Row("settling", float("inf"), "s"), Row("range", float("inf"), "rad"), Row("mass", 1.0, "kg m2")]
    page = Page(write_result(result(rows=rows), tmp_path / "out"))
    assert "never" in page.text
    assert "unbounded" in page.text
    assert "inf" not in page.text.split()
    assert format_quantity(1.0, "kg m2") == ("1", "kg m²")


def test_labels_of_axes_are_short_and_have_one_unit() -> None:
    time = ("time", np.linspace(0.0, 1.0, 3), {"units": "s"})
    angles = {
        "units": "rad",
        "long_name": "roll, pitch, yaw of the base: world from base is Rz(yaw) Ry(pitch) Rx(roll)",
    }
    data = xr.Dataset(
        {
            "base_attitude": (("time", "angle"), np.ones((3, 3)), angles),
            "joint_position": (
                ("time", "joint"),
                np.ones((3, 2)),
                {"units": "rad or m", "long_name": "joint positions"},
            ),
        },
        {"time": time, "joint": ["swing", "slide"], "joint_unit": ("joint", ["rad", "m"])},
    )
    assert lines(data, "base_attitude").layout.yaxis.title.text == "Base attitude [rad]"
    both = lines(data, "joint_position")
    assert [note.text for note in both.layout.annotations] == ["joint positions [rad]", "joint positions [m]"]
    assert [(trace.name, trace.xaxis) for trace in both.data] == [("swing", "x"), ("slide", "x2")]
    one = lines(data.isel(joint=[0]), "joint_position")
    assert one.layout.yaxis.title.text == "joint positions [rad]"


def test_rounding_is_drawn_as_zero() -> None:
    figure = new_figure()
    add_curve(figure, [0.0, 1.0], [3e-13, -2e-13], scale=1.0)
    add_curve(figure, [0.0, 1.0], [1.0, 1e-14], scale=0.0)
    add_curve(figure, [0.0, 1.0], [3e-13, -2e-13], scale=0.0)
    assert [list(trace.y) for trace in figure.data] == [[0.0, 0.0], [1.0, 0.0], [3e-13, -2e-13]]
