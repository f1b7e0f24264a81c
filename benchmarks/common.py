"""Fair timing on a machine that others use too, and rows with a target."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from spacearm.engine.machine import host

#: Rounds of every comparison; ``python benchmarks --rounds N``.
ROUNDS = int(os.environ.get("SPACEARM_BENCH_ROUNDS", "30"))


@dataclass(frozen=True)
class Task:
    """Work to be timed: ``call`` does ``units`` of it, ``before`` prepares it and is not timed."""

    call: Callable[[], object]
    units: float = 1.0
    before: Callable[[], object] | None = None


@dataclass(frozen=True)
class Row:
    """One result. With a peer, ``ratio`` is the peer's value over ours and a target is the least ratio; without one,
    a target is the largest value."""

    what: str
    value: float
    unit: str
    peer: str = ""
    peer_value: float | None = None
    target: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.peer_value is None else self.peer_value / self.value

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.ratio is None else self.ratio >= self.target

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def alternate(tasks: Mapping[str, Task], rounds: int | None = None) -> dict[str, float]:
    """Best time of a unit of each task, s: all tasks in every round, so that a busy moment hits each of them.

    Time is the calling thread's own, so that a machine with other work does not count; tasks are to run on that thread
    and to last about as long as each other, since a long one finds no quiet moment where a short one does.
    """
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        if task.before is not None:
            task.before()
        task.call()
    gc.disable()
    try:
        for _ in range(rounds or ROUNDS):
            for name, task in tasks.items():
                if task.before is not None:
                    task.before()
                start = time.thread_time()
                task.call()
                found[name].append((time.thread_time() - start) / task.units)
    finally:
        gc.enable()
    return {name: min(values) for name, values in found.items()}


def show(title: str, rows: list[Row], notes: str = "") -> list[Row]:
    """Print rows as a table, and hand them back."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="dim")
    table.add_column("what")
    table.add_column("spacearm", justify="right")
    table.add_column("peer", justify="right")
    table.add_column("unit")
    table.add_column("beside")
    table.add_column("ratio", justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for row in rows:
        sign = "" if row.target is None else f"{'<' if row.ratio is None else '>='} {row.target:g}"
        table.add_row(
            row.what,
            f"{row.value:.4g}",
            "" if row.peer_value is None else f"{row.peer_value:.4g}",
            row.unit,
            row.peer,
            "" if row.ratio is None else f"{row.ratio:.1f}x",
            f"{sign}{'x' if sign and row.ratio is not None else ''}",
            {None: "", True: "[green]met[/]", False: "[red]not met[/]"}[row.met],
        )
    out = console()
    out.print(table)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        out.print(f"  {note}", markup=False)
    if notes:
        out.print(f"  {notes}", markup=False)
    out.print()
    return rows


def console() -> Console:
    out = Console(highlight=False, soft_wrap=True)
    if not out.is_terminal:
        out = Console(highlight=False, width=160)
    return out


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    found = {
        "processor": f"{model} ({host().name}, {host().lanes} lanes)",
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
    }
    for package in ("spacearm", "casadi", "numba", "llvmlite", "numpy", "mujoco", "pin"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
