"""Kill writers of results at every step and at random instants: never old and new side by side, nothing left behind.

    python tools/kill_writers.py --count 200 --seed 1           # whole runs, as spacearm run makes them
    python tools/kill_writers.py --count 500 --seed 1 --small   # a few small files instead, many kills in little time

In each trial a folder gets results A, then a process that writes results B there is killed (SIGKILL): in one half of
the trials at a random instant, in the other right before a random one of its file operations, the renames among them.
What then stands in the folder must be A or B and, where one step can make the difference, all of it. The next call
must leave exactly its own results, the user's own files, and nothing else. The exit status is 1 when anything else was
found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacearm.cli import main as spacearm
from spacearm.report import _swap
from spacearm.report.folder import INDEX, publish

Files = dict[str, str]
Writer = Callable[[str, Path], None]
#: Python's audit events of operations on files, each before it happens.
STEPS = {
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.chmod",
    "os.scandir",
    "os.listdir",
    "shutil.rmtree",
    "open",
}
GOLDEN = 0.6180339887498949
SCENARIO = """
robot = "yoshida1992"
title = "{which}"
sample = {sample}
[start]
rates = [0.1, {rate}]
[[phase]]
duration = 1.0
"""


@dataclass(frozen=True)
class Layout:
    """How the output folder lies."""

    name: str
    out: str = "out"
    notes: tuple[str, ...] = ()  # the user's own files
    first: bool = True  # older results are there
    link: bool = False  # the name is a link to another folder
    exchange: bool = True  # the file system can exchange folders
    inside: bool = False  # it is the working folder
    whole: bool = True  # one step makes the difference


LAYOUTS = (
    Layout("older results"),
    Layout("among other files", notes=("notes.txt", "figures/mine.html", "plots/deep/x.txt"), whole=False),
    Layout("new", first=False),
    Layout("new and deep", out="a/b/out", first=False),
    Layout("through a link", link=True),
    Layout("without exchange", exchange=False, whole=False),
    Layout("the working folder", inside=True, whole=False),
)


def whole_runs(folder: Path) -> Writer:
    """Runs from the command line, of two scenarios in this folder."""
    for which, sample, rate in (("A", 0.1, 0.2), ("B", 0.05, 0.3)):
        (folder / f"{which}.toml").write_text(SCENARIO.format(which=which, sample=sample, rate=rate))

    def whole_run(which: str, out: Path) -> None:
        if spacearm(["run", str(folder / f"{which}.toml"), "-o", str(out)]) != 0:
            raise RuntimeError("the run failed")

    return whole_run


def small_write(which: str, out: Path) -> None:
    """A few small files of which some have the same name in A and B, and some do not."""
    names = ["index.html", "data.nc", "figures/both.html", f"figures/{which}.html", f"{which}/only.txt", "results.json"]
    with publish(out, "small") as staging:
        for name in names:
            (staging / name).parent.mkdir(exist_ok=True)
            (staging / name).write_text(f"{which} {name}")
        table = {"study": "small", "version": which, "rows": [], "files": names}
        (staging / "results.json").write_text(json.dumps(table))


def small_index(which: str, out: Path) -> None:
    """The index over several studies, among the folders of the studies."""
    with publish(out, INDEX) as staging:
        (staging / "index.html").write_text(which)
        (staging / "summary.json").write_text(json.dumps({"studies": [], "which": which}))


def contents(folder: Path) -> Files:
    """What a user sees there: names and digests, without hidden work folders."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    shown = [path for path in paths if not any(part.startswith(".spacearm-") for part in path.parts)]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in shown}


def in_child(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Do this in a process of its own, killed after so many seconds; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            work()
            status = 0
        finally:
            os._exit(status)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def stepping(write: Callable[[], None], root: Path, kill_at: int, counter: Path | None = None) -> Callable[[], None]:
    """The same work, killed right before its ``kill_at``-th operation on files below ``root``; counts them all."""

    def work() -> None:
        done, inside = 0, str(root)

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal done
            if event in STEPS and any(inside in os.fsdecode(a) for a in arguments if isinstance(a, str | bytes | Path)):
                done += 1
                if done == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        write()
        if counter is not None:
            counter.write_text(str(done))

    return work


class Trials:
    """Trials of one writer."""

    def __init__(self, write: Writer, layouts: tuple[Layout, ...], seed: int) -> None:
        self.write, self.layouts, self.random = write, layouts, random.Random(seed)
        self.faults: list[str] = []
        self.found: Counter[str] = Counter()
        self.steps: dict[str, int] = {}
        with tempfile.TemporaryDirectory(prefix="spacearm-kills-") as folder:
            for which in "AB":  # the first also imports and compiles what the processes to be killed inherit
                began = time.monotonic()
                write(which, Path(folder) / which)
                self.seconds = time.monotonic() - began
            self.expected = {which: contents(Path(folder) / which) for which in "AB"}
        if self.expected["A"] == self.expected["B"]:
            raise RuntimeError("A and B are the same")

    def run(self, count: int) -> int:
        """Make so many trials, print what was found, and return the number of faults."""
        for number in range(count):
            self.trial(number)
        print(self.write.__name__, dict(sorted(self.found.items())))
        for fault in self.faults:
            print("FAULT", fault)
        return len(self.faults)

    def trial(self, number: int) -> None:
        layout = self.layouts[number % len(self.layouts)]
        turn = number // len(self.layouts)
        with tempfile.TemporaryDirectory(prefix="spacearm-kills-") as folder:
            root = Path(folder).resolve()
            out = root / layout.out
            place = self._prepare(layout, root, out)
            notes = contents(place) if place.exists() else {}
            write = self._writer(layout, out)
            if layout.first and in_child(lambda: write("A")):
                self.faults.append(f"{number} ({layout.name}): the first call failed")
                return
            self._kill(turn, layout, root, lambda: write("B"))
            self._judge(number, layout, {name: what for name, what in contents(place).items() if name not in notes})
            after = "AB"[turn // 2 % 2]
            if in_child(lambda: write(after)):
                self.faults.append(f"{number} ({layout.name}): the next call failed")
            elif contents(place) != {**notes, **self.expected[after]}:
                self.faults.append(f"{number} ({layout.name}): the next call left {sorted(contents(place))}")
            left = list(root.rglob(".spacearm-*"))
            if left:
                self.faults.append(f"{number} ({layout.name}): left behind: {left}")

    def _prepare(self, layout: Layout, root: Path, out: Path) -> Path:
        place = root / "elsewhere" / "real" if layout.link else out
        if layout.link:
            place.parent.mkdir()
            out.symlink_to(place)
        for note in layout.notes:
            (place / note).parent.mkdir(parents=True, exist_ok=True)
            (place / note).write_text("mine")
        return place

    def _writer(self, layout: Layout, out: Path) -> Callable[[str], None]:
        def write(which: str) -> None:
            if not layout.exchange:
                _swap._exchange = lambda *_: False
            if layout.inside:
                out.mkdir(exist_ok=True)
                os.chdir(out)
            self.write(which, out)

        return write

    def _kill(self, turn: int, layout: Layout, root: Path, write: Callable[[], None]) -> None:
        if turn % 2:
            status, kind = in_child(write, self.random.uniform(0.0, 1.3 * self.seconds)), "at an instant"
        else:
            # evenly over all steps, however few trials there are
            share = (0.5 + turn // 2 * GOLDEN) % 1.0
            status, kind = in_child(stepping(write, root, 1 + int(share * self._steps(layout)))), "before a step"
        self.found[f"killed {kind}" if status == -signal.SIGKILL else f"not killed, {kind}"] += 1

    def _steps(self, layout: Layout) -> int:
        """How many operations on files a writer makes."""
        if layout.name not in self.steps:
            with tempfile.TemporaryDirectory(prefix="spacearm-kills-") as folder:
                root = Path(folder).resolve()
                self._prepare(layout, root, root / layout.out)
                write = self._writer(layout, root / layout.out)
                if layout.first:
                    in_child(lambda: write("A"))
                counter = root / "steps"
                in_child(stepping(lambda: write("B"), root, 0, counter))
                self.steps[layout.name] = int(counter.read_text())
        return self.steps[layout.name]

    def _judge(self, number: int, layout: Layout, seen: Files) -> None:
        complete = [which for which in "AB" if seen == self.expected[which]]
        part = [which for which in "AB" if seen.items() <= self.expected[which].items()]
        if complete:
            self.found[f"then {complete[0]}"] += 1
        elif not seen and not layout.first:
            self.found["then nothing yet"] += 1
        elif part and not layout.whole:
            self.found["then a part of one of them"] += 1
        else:
            self.faults.append(f"{number} ({layout.name}): after the kill stood {sorted(seen)}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true")
    chosen = parser.parse_args(arguments)
    # Pages carry the minute at which they were written: trials compare what is written in different minutes.
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    with tempfile.TemporaryDirectory(prefix="spacearm-kills-") as folder:
        if chosen.small:
            index = Layout("index", notes=("xu2017/index.html", "notes.txt"), whole=False)
            trials = [Trials(small_write, LAYOUTS, chosen.seed), Trials(small_index, (index,), chosen.seed)]
            shares = [chosen.count - chosen.count // 8, chosen.count // 8]
        else:
            trials, shares = [Trials(whole_runs(Path(folder)), LAYOUTS, chosen.seed)], [chosen.count]
        return min(1, sum(each.run(share) for each, share in zip(trials, shares, strict=True)))


if __name__ == "__main__":
    sys.exit(main())
