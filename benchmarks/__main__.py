"""``python benchmarks [NAME...] [--rounds N] [--json FILE]``: run all parts, or those named."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

# As for the command line and for workers of campaigns: threads of BLAS that wait for each other double the processor
# time of missions, whose matrices are small. NumPy is imported later.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
HERE = Path(__file__).resolve().parent
#: What comes first, in this order; parts that are not named here follow.
ORDER = ("trajectory", "batch", "sensitivity", "growth", "startup", "memory")


def names() -> list[str]:
    """Parts: the files of this folder that define ``main``, found without importing them."""
    found = {
        path.stem
        for path in HERE.glob("*.py")
        if not path.stem.startswith("_") and "\ndef main(" in path.read_text(encoding="utf-8")
    }
    return [*(name for name in ORDER if name in found), *sorted(found.difference(ORDER))]


def load(name: str) -> ModuleType:
    if str(HERE.parent) not in sys.path:
        sys.path.insert(0, str(HERE.parent))
    return importlib.import_module(f"benchmarks.{name}")


def run(arguments: list[str] | None = None) -> int:
    parts = names()
    parser = argparse.ArgumentParser(prog="python benchmarks", description="Timings beside MuJoCo and Pinocchio.")
    parser.add_argument("part", nargs="*", help=f"one or more of: {', '.join(parts)}; all without it")
    parser.add_argument("--rounds", type=int, help="rounds of every comparison (30); the best of each engine counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE too")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.part if name not in parts]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(parts)}")
    if given.rounds:
        os.environ["SPACEARM_BENCH_ROUNDS"] = str(given.rounds)
    common = load("common")
    machine = common.machine()
    out = common.console()
    out.print(", ".join(f"{key} {value}" for key, value in machine.items()), markup=False, style="dim")
    out.print(
        "Best of all rounds, engines taking turns; time of one thread; evaluations of forward dynamics, float64.\n",
        style="dim",
    )
    results = {}
    for name in given.part or parts:
        rows = load(name).main() or []
        results[name] = [row.as_dict() if hasattr(row, "as_dict") else row for row in rows]
    judged = [row for rows in results.values() for row in rows if isinstance(row, dict) and row.get("met") is not None]
    missed = [row for row in judged if not row["met"]]
    if judged:
        out.print(f"{len(judged) - len(missed)} of {len(judged)} targets met" + (":" if missed else "."), style="bold")
    for row in missed:
        out.print(f"  not met: {row['what']} {row.get('peer') or ''}", markup=False)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine, "parts": results}, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run())
