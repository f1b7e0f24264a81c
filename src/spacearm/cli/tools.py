"""``spacearm bench``, ``spacearm cache`` and ``spacearm export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from spacearm.cli.terminal import progress_bar, show, show_json
from spacearm.errors import InputError

if TYPE_CHECKING:
    from spacearm.model.robot_import import Reading


def run_benchmark(*, json: bool) -> int:
    """Run :func:`spacearm.engine.benchmark.run` and print its rows (what, value, unit)."""
    from rich.table import Table

    from spacearm.engine import benchmark

    with progress_bar("bench") as tick:
        rows = list(benchmark.run(progress=tick))
    if json:
        show_json([{"what": what, "value": value, "unit": unit} for what, value, unit in rows])
        return 0
    table = Table("What", "Value", "Unit", box=None, header_style="bold")
    table.columns[1].justify = "right"
    for what, value, unit in rows:
        table.add_row(what, f"{value:.4g}", unit)
    show(table)
    return 0


def export_source(
    source: str,
    folder: Path | None,
    fmu: Path | None,
    step: float | None,
    fmi: Literal[2, 3],
    *,
    reading: Reading,
    json: bool,
) -> int:
    from spacearm.export import export_c, export_fmu
    from spacearm.export.free_motion import STEP
    from spacearm.export.source import read_source

    if folder is None and fmu is None:
        raise InputError("nothing to write", place="export", hint="expected --c DIR or --fmu FILE")
    robot, motion = read_source(source, step, None if folder else STEP, reading, tested=folder is not None)
    longest = STEP if step is None else step
    platforms = [] if fmu is None else export_fmu(motion or robot, fmu, step=longest, fmi=fmi)
    paths = [] if folder is None else export_c(robot, folder, motion=motion, step=longest)
    paths += [] if fmu is None else [fmu]
    if json:
        show_json({"files": paths, "platforms": platforms})
    else:
        show("\n".join(map(str, paths)) + (f"\nbinaries: {', '.join(platforms)}" if platforms else ""))
    return 0


def show_cache(*, json: bool) -> int:
    from spacearm.engine import cache

    count, size = {kind: len(cache.entries(kind)) for kind in cache.KINDS}, cache.size()
    if json:
        show_json({"path": cache.cache_dir(), **{f"{kind}s": number for kind, number in count.items()}, "bytes": size})
    else:
        show(f"{cache.cache_dir()}\n{_format_counts(count)}, {size / 1e6:.1f} MB")
    return 0


def clear_cache() -> int:
    from spacearm.engine import cache

    count = cache.clear()
    show(f"{cache.cache_dir()}: deleted {_format_counts(count)}")
    return 0


def _format_counts(count: dict[str, int]) -> str:
    return ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in count.items())
