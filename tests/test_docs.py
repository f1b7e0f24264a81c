"""What README and docs show is what happens: examples run, files and links exist, the picture is up to date."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import spacearm
from spacearm.cli import main
from spacearm.model import catalogue, save
from spacearm.model.notices import LossyConversion
from support import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]


def blocks(page: Path, language: str) -> list[tuple[str, str]]:
    """Code blocks of this language, each with the text block that follows directly, if any."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, flags=re.DOTALL | re.MULTILINE)
    return [(code, output) for code, output in found]


def test_the_readme_has_a_python_example_with_output() -> None:
    assert any(output for _, output in blocks(ROOT / "README.md", "python"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_fractions_and_roots_have_braces(page: Path) -> None:
    """Without them the converter to MathML sets one half times k as 12 over k, and says nothing."""
    found = re.findall(r"\\(?:[dt]?frac|sqrt)(?![a-z{\[]).{0,12}", page.read_text(encoding="utf-8"))
    assert not found


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_examples_run_and_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page's examples build on each other; the files ``arm.*`` that they speak of are a robot of the catalogue, and
    the examples lie beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    robot = catalogue.load("xu2017")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        for ending in ("toml", "urdf", "xml"):
            save(robot, f"arm.{ending}")
        names: dict[str, object] = {"__name__": "example"}
        for code, output in blocks(page, "python"):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, page.name, "exec"), names)
            if output:
                assert printed.getvalue() == output


def test_contributing_quotes_the_code_as_it_is() -> None:
    """Blocks marked ``py`` name a file in their first line; the rest, between lines of dots, is in that file."""
    quoted = [code.partition("\n") for code, _ in blocks(ROOT / "CONTRIBUTING.md", "py")]
    assert len(quoted) >= 4
    for head, _, code in quoted:
        text = (ROOT / head.removeprefix("# ")).read_text(encoding="utf-8")
        for part in code.split("...\n"):
            assert part in text, f"{head}: not in the file any more:\n{part}"


def commands(page: Path) -> list[tuple[list[str], list[str]]]:
    """``$ spacearm ...`` lines of a page with the lines shown below them."""
    found: list[tuple[list[str], list[str]]] = []
    for code, _ in blocks(page, "console"):
        for line in code.splitlines():
            if line.startswith("$ "):
                found.append((shlex.split(line[2:], comments=True), []))
            elif found and line != "...":
                found[-1][1].append(line)
    return [(words[1:], shown) for words, shown in found if words[0] == "spacearm"]


def test_laws_and_plans_of_the_tables_exist() -> None:
    """First words of the tables of docs/control.md, and methods of plans: four of these had older names."""
    from spacearm import control, measure

    text = (ROOT / "docs" / "control.md").read_text(encoding="utf-8")
    missing = []
    for title in ("Laws", "Sensors", "Plans"):
        section = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`[^|]*)\|", section, flags=re.MULTILINE)
        assert len(rows) >= 6
        for name in re.findall(r"`([A-Za-z_.]+)", re.sub(r"\(in files[^)]*\)", "", " ".join(rows))):
            home, _, method = name.partition(".")
            thing = getattr(control, home, getattr(measure, home, None))
            if thing is None or (method and not hasattr(thing, method)):
                missing.append(name)
    known = {*dir(control.JointPlan), *control.JointPlan.__dataclass_fields__}
    missing += [name for name in re.findall(r"\bplan\.(\w+)", text) if name not in known]
    assert missing == []


# A scenario or a paper takes long and has tests of its own.
SHORT = ("check", "catalogue", "convert", "cache", "--version")


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "cli.md"], ids=lambda page: page.name)
def test_commands_run_and_print_what_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for words, shown in commands(page):
        if words[0] not in SHORT:
            continue
        redirect = words.index(">") if ">" in words else len(words)
        assert main(words[:redirect]) == 0, words
        printed = capsys.readouterr().out
        for line in shown:
            assert line in printed.splitlines(), line
        if redirect < len(words):
            (tmp_path / words[-1]).write_text(printed, encoding="utf-8")
        ran += 1
    assert ran >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def module_of(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", index, flags=re.DOTALL | re.MULTILINE)
    entries = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    pages = [page.relative_to(ROOT / "docs").with_suffix("") for page in PAGES if (ROOT / "docs") in page.parents]
    lost = [str(page) for page in pages if not any(page.match(entry) for entry in entries)]
    assert lost == ["index"]


def test_the_diagram_of_packages_has_the_layers_of_the_import_rules() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    diagram = text.partition("## Packages")[2].partition("```text\n")[2].partition("```")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [re.findall(r"[a-z_]+", line) for line in layers]
    shown = [line[13:64] for line in diagram.splitlines()[1:]]
    assert [re.findall(r"[a-z_]+", line) for line in shown if re.search("[a-z]", line)] == names


@pytest.mark.parametrize("tex", [r"\cos \theta", r"\dot q_1 < \sin x", r"\max_i a_i", r"a \le b", r"\exp(-x) \ne 0"])
def test_formulas_with_named_entities_can_be_shown(tex: str) -> None:
    from docutils.utils.math import latex2mathml

    conf = module_of(ROOT / "docs" / "conf.py", "docs_conf")
    shown = conf.accents_on_their_letters(latex2mathml.tex2mathml(tex))
    assert shown.startswith("<math")
    assert not re.search(r"&(?!lt;|gt;|amp;)", shown)


def test_the_makefile_has_what_the_readme_promises() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {"reproduce", "test", "bench", "docs", "lint", "types", "clean", "help"} <= set(targets)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_constraints_are_plain_versions_and_cover_the_dependencies() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    for line in pins:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*==[A-Za-z0-9.+!]+", line), line
    names = {line.split("==")[0] for line in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == spacearm.__version__
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["verify"], *extras["dev"]]:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        assert name[0].lower().replace("_", "-") in names, requirement


def test_the_picture_is_what_its_script_draws() -> None:
    module = module_of(ROOT / "docs" / "figures" / "robots.py", "picture_of_robots")
    drawn, kept = module.picture(), (ROOT / "docs" / "_static" / "robots.svg").read_text(encoding="utf-8")
    number = re.compile(r"-?\d+\.\d+")
    assert number.sub("#", drawn) == number.sub("#", kept)
    for new, old in zip(number.findall(drawn), number.findall(kept), strict=True):
        assert float(new) == pytest.approx(float(old), abs=0.2)  # a fifth of a pixel
