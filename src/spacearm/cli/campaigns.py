"""``spacearm campaign``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spacearm.cli.terminal import print_message, progress_bar, show, show_json
from spacearm.errors import InputError

if TYPE_CHECKING:
    from spacearm.engine.device import Device


def run(
    file: Path,
    out: Path,
    *,
    workers: int,
    dask: str,
    part: str = "0/1",
    runs: int | None = None,
    device: Device | None = None,
    rows: int | None,
    json: bool,
) -> int:
    """Run the missing part of a campaign, then write its page."""
    from spacearm.campaign import Store, run_campaign
    from spacearm.campaign.plan import CampaignPlan

    share = _part(part)
    plan = CampaignPlan.read(file, runs)
    try:
        with progress_bar(file.name) as tick:
            store = run_campaign(plan, out, workers=workers, dask=dask, part=share, device=device, progress=tick)
    except KeyboardInterrupt:
        done = sum(1 for _ in Store(out).stored_chunks())
        print_message(f"{out}: {done} finished chunks are kept; the same command continues", kind="note")
        raise
    if share != (0, 1):
        show(f"part {part} is done: {sum(1 for _ in store.stored_chunks())} chunks in {out}")
        return 0
    return write_report(out, rows=rows, json=json)


def _part(text: str) -> tuple[int, int]:
    first, _, last = text.partition("/")
    if not (first.isdecimal() and last.isdecimal()):
        raise InputError(f"is {text!r}", place="--part", hint="expected K/N, K from 0 to N - 1")
    return int(first), int(last)


def status(folder: Path, *, json: bool) -> int:
    """Print the progress of a campaign."""
    from spacearm.campaign import Store
    from spacearm.campaign.decide import cell_verdict, rate_interval

    store = Store.open(folder)
    plan = store.plan
    cells = []
    for cell, labels in enumerate(plan.cells):
        counts = [store.successes(cell, chunk) for each, chunk in store.stored_chunks() if each == cell]
        good, runs = (sum(count) for count in zip(*counts, strict=True)) if counts else (0, 0)
        low, high = rate_interval(plan.file, good, runs)
        verdict = cell_verdict(plan.file, good, runs)
        cells.append(
            {"cell": cell, **labels, "runs": runs, "successes": good, "low": low, "high": high, "verdict": verdict}
        )
    done = sum(int(found["runs"]) for found in cells)
    if json:
        show_json({"runs": done, "most": plan.total, "cells": cells})
        return 0
    show(f"{done} of at most {plan.total} runs in {len(plan.cells)} cells")
    for found, labels in zip(cells, plan.cells, strict=True):
        where = ", ".join(f"{name} {label}" for name, label in labels.items()) or "all"
        rate = f"{found['successes']} of {found['runs']} succeed ({found['low']:.3f} to {found['high']:.3f})"
        show(f"  {where}: {found['verdict']}, {rate}")
    return 0


def write_report(folder: Path, *, rows: int | None, json: bool) -> int:
    """Write the page of a campaign next to its runs."""
    from spacearm.campaign import Store, report
    from spacearm.cli.studies import report_results
    from spacearm.report import write_result

    result = report(Store.open(folder))
    write_result(result, folder)
    return report_results([(result, folder / "index.html")], rows=rows, json=json)


def replay(folder: Path, cell: int, number: int, out: Path, *, rows: int | None, json: bool) -> int:
    """Repeat one run, and write its page."""
    from spacearm.campaign import Store
    from spacearm.cli.studies import report_results
    from spacearm.report.folder import publish
    from spacearm.report.write import write_files
    from spacearm.study import run_document

    plan = Store.open(folder).plan
    if not (0 <= cell < len(plan.cells) and 0 <= number < plan.file.runs):
        raise InputError(
            f"there is no run {number} in a cell {cell}",
            place="replay",
            hint=f"expected cells 0 to {len(plan.cells) - 1} and runs 0 to {plan.file.runs - 1}",
        )
    document, robots, _ = plan.build_scenario(cell, number)
    with publish(out, str(document.get("study", "motion"))) as staging:
        with progress_bar(f"run {number} of cell {cell}") as tick:
            result = run_document(document, folder=plan.folder, progress=tick, robots=robots)
        write_files(result, staging)
    return report_results([(result, out / "index.html")], rows=rows, json=json)
