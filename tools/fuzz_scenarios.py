"""Runs thousands of damaged scenarios and reports every one that does not end as it should.

A scenario ends well in one of three ways: a result that can be written, an error that names file and place, or the time
limit, where the damage itself asked for more work. Everything else is a fault: a traceback, a crash, a hang, memory
without bound, an error that does not say where.

    python tools/fuzz_scenarios.py --count 20000 --seed 1 --workers 2
    python tools/fuzz_scenarios.py --show 1234           # prints one scenario of the same seed
    python tools/fuzz_scenarios.py --only 1234 1300      # runs some of them again
    python tools/fuzz_scenarios.py --start mission       # damages missions only

Scenario number k of a seed is always the same. Each starts from a file of ``tools/scenarios`` or ``examples``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from scenario_mutations import chosen, mutated, starts, written
from watched import Outcome, report, run_watched

#: A run may take this long, CPU seconds: what spacearm allows a run unasked. The machine may be busy meanwhile.
LONGEST = 60.0
#: Where the damage itself asks for more work, the run is ended after this, seconds.
PATIENCE = 3.0
#: Messages about a file as a whole, which have no other place.
WHOLE_FILE = ("file is empty", "is larger than", "is not TOML: nested too deeply", "is a folder", "is not a plain")
#: Address space of a worker, bytes: what needs more was not bounded.
MEMORY = 6 * 2**30


def prepare(start: str = "") -> None:
    """Once in each worker, before its first scenario."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    run_starts(start)


def run_starts(start: str = "") -> None:
    """What is not damaged runs; afterwards everything is compiled, and a short time limit is no limit on compiling."""
    from spacearm.study import run_scenario

    for name, document in chosen(start):
        with tempfile.TemporaryDirectory() as folder, blank_figures():
            file = Path(folder) / "case.toml"
            file.write_bytes(written(document))
            if not run_scenario(file).rows:
                raise RuntimeError(f"{name} gives no rows")


class Blank:
    """Stands for whatever plotly draws, which takes longer than most runs."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __getattr__(self, name: str) -> Blank:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> Blank:
        return self

    def __getitem__(self, _: object) -> Blank:
        return self

    def __iter__(self) -> Iterator[Blank]:
        return iter(())

    def __add__(self, _: object) -> Blank:
        return self

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __add__


@contextlib.contextmanager
def blank_figures() -> Iterator[None]:
    """Figures are asked for, but not made."""
    import plotly
    import plotly.graph_objects
    import plotly.subplots

    from spacearm.figures import template

    blank: Any = Blank()
    names = ("graph_objects", "subplots")
    real = {name: getattr(plotly, name) for name in names}
    try:
        for name in names:
            setattr(plotly, name, blank)
            sys.modules[f"plotly.{name}"] = blank
        yield
    finally:
        for name, module in real.items():
            setattr(plotly, name, module)
            sys.modules[f"plotly.{name}"] = module
        template.cache_clear()  # it may hold a blank one, which real figures cannot have


def judge(seed: int, number: int, start: str = "") -> Outcome:
    """Run one scenario in this process."""
    from spacearm.deadline import time_limit
    from spacearm.errors import SpacearmError, TimeLimitError
    from spacearm.report import write_result
    from spacearm.study import run_scenario

    text, changes, greedy = mutated(seed, number, start)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    file = folder / "case.toml"
    file.write_bytes(text)
    began = time.process_time()
    try:
        whole = number % 8 == 0
        busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
        with contextlib.redirect_stderr(io.StringIO()), time_limit(busy * (PATIENCE if greedy else 5 * LONGEST)):
            with contextlib.nullcontext() if whole else blank_figures():
                result = run_scenario(file)
            if whole:
                write_result(result, folder / "out")
            else:
                json.dumps(result.to_json(), allow_nan=False)
        kind, note = ("sound" if result.sound else "not sound"), ""
    except TimeLimitError as error:
        kind, note = ("ended as asked" if greedy else "FAULT: slow"), str(error)
    except SpacearmError as error:
        complete = error.file is not None and (error.place or error.message.startswith(WHOLE_FILE))
        kind, note = ("refused" if complete else "FAULT: no file or place"), f"{type(error).__name__}: {error}"
    except BaseException as error:
        kind, note = f"FAULT: {type(error).__name__}", traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        gc.collect()  # large results in cycles, after a thousand runs in one process, would fill its address space
    seconds = time.process_time() - began
    if seconds > LONGEST and not kind.startswith("FAULT") and not greedy:
        kind, note = "FAULT: slow", f"{seconds:.1f} s of CPU time"
    return Outcome(number, kind, note, seconds, "; ".join(changes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    names = [name for name, _ in starts()]
    parser.add_argument("--start", default="", choices=["", *names], help="damage this one only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, nargs="*", help="run these numbers")
    parser.add_argument("--show", type=int, help="print this scenario and end")
    parser.add_argument("--log", type=Path, help="write every outcome as a line of JSON")
    options = parser.parse_args()
    if options.show is not None:
        text, changes, _ = mutated(options.seed, options.show, options.start)
        sys.stdout.buffer.write(b"# " + "; ".join(changes).encode() + b"\n" + text)
        return 0
    numbers = options.only or range(options.first, options.first + options.count)
    if options.workers > 1:  # what is compiled is kept on disk, for all workers
        warming = multiprocessing.Process(target=run_starts, args=(options.start,))
        warming.start()
        warming.join()
        if warming.exitcode:
            return 1
    start = options.start
    outcomes = run_watched(
        lambda number: judge(options.seed, number, start), lambda: prepare(start), numbers, options.workers, 2 * LONGEST
    )
    return report(outcomes, options.log)


if __name__ == "__main__":
    sys.exit(main())
