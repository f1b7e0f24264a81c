"""The files that `make fast` leaves out."""

from __future__ import annotations

import re

from support import ROOT

TESTS = ROOT / "tests"


def test_the_list_of_slow_files_names_files_and_leaves_some_of_each_folder() -> None:
    """pytest ignores a path that is not there without a word: a renamed file would come back."""
    lines = (TESTS / "slow.txt").read_text(encoding="utf-8").splitlines()
    slow = [line for line in lines if not line.startswith("#")]
    assert slow == sorted(set(slow))
    assert [name for name in slow if not (ROOT / name).is_file()] == []
    quick = {file.relative_to(TESTS).parts[0] for file in TESTS.rglob("test_*.py")}
    left = {
        file.relative_to(TESTS).parts[0] for file in TESTS.rglob("test_*.py") if str(file.relative_to(ROOT)) not in slow
    }
    folders = {name for name in quick if not name.endswith(".py")}
    # Tests of exports compile C, each for seconds.
    assert folders - left <= {"tools", "export"}


def test_make_fast_reads_it() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^SLOW .*tests/slow\.txt", makefile, re.MULTILINE)
    assert re.search(r"pytest .*\$\(SLOW\)", makefile)
