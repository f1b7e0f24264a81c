"""``spacearm run`` and ``spacearm reproduce``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacearm.cli.terminal import end_with_parent, print_message, progress_bar, show, show_json
from spacearm.deadline import check_time
from spacearm.errors import InputError, SpacearmError, TimeLimitError
from spacearm.result import Result, Verdict

if TYPE_CHECKING:
    from rich.table import Table

    from spacearm.papers import Paper

COLOUR = {
    Verdict.AGREES: "green",
    Verdict.CONSISTENT: "cyan",
    Verdict.NO_EVIDENCE: "dim",
    Verdict.DIFFERS: "red",
    Verdict.FITTED: "yellow",
    Verdict.NOT_RECOVERABLE: "dim",
    Verdict.NEW: "blue",
}
#: Exit status of a sound run that violates limits: nothing failed, but scripts should not continue as if all were well.
LIMITS_BROKEN = 3
#: Exit status of sound missions whose margin is smaller than the doubt of the model.
UNDECIDED = 4
#: Polling interval of processes, s.
POLL = 0.1
#: Number of unsound results shown in a terminal; the page has all.
MOST_FAULTS = 5


def run_scenario(
    scenario: Path, out: Path, *, cross_check: bool, rows: int | None, json: bool, data: Path | None = None
) -> int:
    """Run one scenario and write its folder, completely or not at all."""
    from spacearm.report.folder import publish, study_in_folder
    from spacearm.report.write import write_files
    from spacearm.study import scenario as studies

    _refuse_paper(scenario)
    study = studies.read_study_name(scenario)
    # Before the run: a folder that cannot be written is reported at once.
    with _resume_work(scenario.name), publish(out, study) as staging:
        with progress_bar(scenario.name) as tick:
            result = studies.run_scenario(scenario, cross_check=cross_check, progress=tick, data=data)
        write_files(result, staging)
        older = study_in_folder(out)
    if older:
        print_message(f"{out}: older results were replaced", kind="note")
    return report_results([(result, out / "index.html")], rows=rows, json=json)


def _refuse_paper(scenario: Path) -> None:
    """An error where a paper's name stands in place of a file."""
    from spacearm.papers import PAPERS

    if str(scenario) in PAPERS and not scenario.exists():
        raise InputError(
            "there is no such file, but a paper of this name", file=scenario,
            hint=f"'spacearm reproduce {scenario} -o DIR' reproduces it; a scenario file ends in .toml",
        )  # fmt: skip


def reproduce_papers(
    names: Sequence[str], out: Path, *, cross_check: bool, fresh: bool, workers: int, rows: int | None, json: bool
) -> int:
    """Run papers, ``workers`` at a time; a failure does not stop the others, and finished ones are kept."""
    from spacearm.papers import select
    from spacearm.report.folder import INDEX, prepare
    from spacearm.report.write import IndexEntry, share_script, write_index

    papers = select(names)
    if len(papers) > 1:
        prepare(out, INDEX)
    for paper in papers:
        prepare(out / paper.name, paper.name)  # before the first run, which may take long
    ahead = _run_in_processes(papers, out, cross_check=cross_check, fresh=fresh, workers=workers)
    done: list[tuple[Result, Path]] = []
    entries: list[IndexEntry] = []
    failed = False
    for paper in papers:
        title = f"{paper.title} ({paper.authors}, {paper.year})"
        try:
            result = ahead.get(paper.name)
            if result is None:  # one process for all, or one whose process failed: its error appears here
                result = _reproduce(paper, out / paper.name, cross_check=cross_check, fresh=fresh)
            share_script(out)
        except (KeyboardInterrupt, TimeLimitError):
            if done:
                print_message(
                    f"{len(done)} of {len(papers)} papers are finished; the same command continues", kind="note"
                )
            raise
        except SpacearmError as error:
            print_message(f"{paper.name}: {error}")
            entries.append(IndexEntry(paper.name, title, missing=f"failed: {error}"))
            failed = True
            continue
        entries.append(IndexEntry(paper.name, title, result, f"{paper.name}/index.html"))
        done.append((result, out / paper.name / "index.html"))
    status = report_results(done, rows=rows, json=json)
    if done and len(papers) > 1:
        index = write_index(entries, out)
        if not json:
            show(f"index: {index}")
    return 1 if failed else status


def _run_in_processes(
    papers: Sequence[Paper], out: Path, *, cross_check: bool, fresh: bool, workers: int
) -> dict[str, Result]:
    """Results of the papers that processes of their own have reproduced, ``workers`` at a time, each into its folder.

    Papers that are already finished, and those whose process failed, are left to the caller.
    """
    from spacearm.engine.warm import warm_up
    from spacearm.report.reuse import input_digest, reusable_result

    origins = {paper.name: input_digest(paper.name, f"{cross_check=}") for paper in papers}
    waiting = [name for name in origins if fresh or reusable_result(out / name, origins[name]) is None]
    if workers < 2 or len(waiting) < 2:
        return {}
    warm_up()  # compiled once here, and not in every process
    count, running, results = len(waiting), dict[str, subprocess.Popen[bytes]](), dict[str, Result]()
    options = [*(["--cross-check"] if cross_check else []), *(["--fresh"] if fresh else [])]
    command = [sys.executable, "-m", "spacearm.cli", "reproduce", "--workers", "1", "-o", str(out), *options]
    try:
        with progress_bar("reproducing") as tick:
            while waiting or running:
                while waiting and len(running) < workers:
                    name = waiting.pop(0)
                    running[name] = subprocess.Popen(
                        [*command, name],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        preexec_fn=end_with_parent,  # noqa: PLW1509
                    )
                if tick is not None:
                    tick(1.0 - (len(waiting) + len(running)) / count, f"{', '.join(running)} of {count} papers")
                for name in [name for name, process in running.items() if process.poll() is not None]:
                    del running[name]
                    kept = reusable_result(out / name, origins[name])
                    if kept is not None:
                        results[name] = kept
                check_time()
                time.sleep(POLL)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return results


def _reproduce(paper: Paper, out: Path, *, cross_check: bool, fresh: bool) -> Result:
    """Run a paper and write its folder, unless the folder already holds its results."""
    from spacearm.report.folder import publish
    from spacearm.report.reuse import input_digest, reusable_result
    from spacearm.report.write import PLOTLY, write_files

    origin = input_digest(paper.name, f"{cross_check=}")
    kept = None if fresh else reusable_result(out, origin)
    if kept is not None:
        print_message(f"{paper.name}: already finished by this version, and kept (--fresh runs it again)", kind="note")
        return kept
    with nullcontext() if fresh else _resume_work(paper.name), publish(out, paper.name) as staging:
        with progress_bar(paper.name) as tick:
            result = paper.reproduce(cross_check=cross_check, progress=tick)
        write_files(result, staging, made_from=origin, plotly=f"../{PLOTLY}")
    return result


@contextmanager
def _resume_work(what: str) -> Iterator[None]:
    """Keep the finished parts of long work until all of it is done, reuse those of an interrupted call, and report
    both.
    """
    from spacearm.engine.checkpoints import keep_checkpoints
    from spacearm.report.reuse import input_digest

    try:
        with keep_checkpoints(input_digest()) as pieces:
            yield
    except (KeyboardInterrupt, SpacearmError):
        if pieces.keys:
            count = len(pieces.keys)
            kept = "1 finished part is" if count == 1 else f"{count} finished parts are"
            print_message(f"{what}: {kept} kept; the same command continues from there", kind="note")
        raise
    if pieces.found:
        print_message(f"{what}: continued from {pieces.found} finished parts of an interrupted run", kind="note")


def report_results(done: Sequence[tuple[Result, Path]], *, rows: int | None, json: bool) -> int:
    """Print results, each with this many rows (None: all).

    Returns 1 if one of them is not sound, else :data:`LIMITS_BROKEN` if one violates its limits, else
    :data:`UNDECIDED` if one is.
    """
    if json:
        show_json({"studies": [{**result.to_json(), "page": page} for result, page in done]})
    for result, page in done:
        if not json:
            show(*_verdict(result))
            if result.headline:
                show(result.headline)
            if result.rows:
                show(agreement_table(result, rows))
            more = 0 if rows is None else len(result.rows) - rows
            if more > 0:
                show(f"{more} more row{'s' if more > 1 else ''}: {page.parent / 'results.json'}, or --rows all")
            show(*_summary(result, page))
        if not result.sound:
            first, more = result.certificate.faults[:MOST_FAULTS], len(result.certificate.faults) - MOST_FAULTS
            notes = [*first, *([f"{more} more"] if more > 0 else [])]
            print_message(f"{result.study}: the run is not sound: {'; '.join(notes)}; see {page}")
    if not all(result.sound for result, _ in done):
        return 1
    if any(result.limits_broken and not result.undecided for result, _ in done):
        return LIMITS_BROKEN
    return UNDECIDED if any(result.undecided for result, _ in done) else 0


def _verdict(result: Result) -> Iterator[Any]:
    """Print go or no go, and every violated limit, before anything else."""
    from rich.text import Text

    if result.go:
        yield Text(result.decision, style={"GO": "bold green", "NO GO": "bold red"}.get(result.decision, "bold yellow"))
    for limit in result.limits_broken[:MOST_FAULTS]:
        yield Text(f"LIMITS BROKEN: {limit.words}", style="bold red")
    more = len(result.limits_broken) - MOST_FAULTS
    if more > 0:
        yield Text(f"LIMITS BROKEN: {more} more", style="bold red")


def agreement_table(result: Result, count: int | None = None) -> Table:
    """The table of agreement for a terminal: the most important rows, or all if ``count`` is None."""
    from rich.table import Table
    from rich.text import Text

    from spacearm.text_format import format_quantity
    from spacearm.text_format import format_result as text_of

    columns = ["quantity", "value", "paper", "unit", "verdict", "note"]
    if not result.has_paper:
        columns = ["quantity", "value", "unit", "note"]
    table = Table(title=Text(result.title or result.study), title_justify="left", header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in ("value", "paper") else "left")
    for row in result.rows if count is None else result.first_rows(count):
        value, unit = format_quantity(row.value, row.unit)
        cells = {
            "quantity": Text(row.quantity),
            "value": Text(value),
            "paper": Text(text_of(row.paper)),
            "unit": Text(unit),
            "verdict": Text(row.verdict.value, style=COLOUR[row.verdict]),
            "note": Text(row.note),
        }
        table.add_row(*(cells[column] for column in columns))
    return table


def _summary(result: Result, page: Path) -> list[Any]:
    counts = ", ".join(f"{number} {verdict.value}" for verdict, number in result.counts().items())
    return [f"{result.study}: {result.state}" + (f"; {counts}" if result.has_paper else ""), f"page: {page}", ""]


#: Number of differing rows shown in a terminal; the page has all.
MOST_ROWS = 30


def compare_folders(first: Path, second: Path, out: Path | None, fail_above: float | None, *, json: bool) -> int:
    """Print the differences between two folders of results, and write a page on request."""
    from rich.table import Table
    from rich.text import Text

    from spacearm.report.compare import compare_results, write_comparison
    from spacearm.text_format import format_percent
    from spacearm.text_format import format_result as text_of

    if fail_above is not None and not fail_above >= 0.0:
        raise InputError(f"--fail-above is {fail_above:g}", hint="expected a fraction of zero or more, such as 0.01")
    found = compare_results(first, second)
    written = None if out is None else write_comparison(found, out)
    if json:
        show_json({**found.to_json(), "page": written})
    else:
        for name, each in zip(found.names, found.both, strict=True):
            show(Text(f"{name}: {each.result.state}", style="bold red" if each.result.limits_broken else ""))
        table = Table(header_style="bold")
        for column in ("quantity", *found.names, "unit", "difference"):
            table.add_column(Text(column), justify="left" if column in ("quantity", "unit") else "right")
        for row in found.rows[:MOST_ROWS]:
            cells = (row.quantity, text_of(row.first), text_of(row.second), row.unit, format_percent(row.relative))
            table.add_row(*map(Text, cells))
        if found.rows:
            show(table)
        for check in found.checks:
            show(f"check {check.quantity} holds: {check.first or 'missing'} and {check.second or 'missing'}")
        more = len(found.rows) - MOST_ROWS
        shown = f" ({more} more are not shown)" if more > 0 else ""
        show(f"{len(found.rows)} rows differ{shown}, {found.equal} are equal to rounding")
        if written is not None:
            show(f"page: {written}")
    return 1 if fail_above is not None and (found.largest > fail_above or bool(found.checks)) else 0
