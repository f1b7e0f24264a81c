"""Writers of results that are killed, find a full disk, another file system, a link, or each other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from spacearm.errors import InputError, SpacearmError
from spacearm.report import _swap, write_result
from spacearm.report import folder as report_folder
from spacearm.report.folder import publish
from spacearm.result import Result
from support import ROOT

KILLER = ROOT / "tools" / "kill_writers.py"
OLD, NEW = "old", "new"


def write(out: Path, text: str) -> None:
    """Results of two files; the one has another name in old and new results."""
    with publish(out, "demo") as staging:
        (staging / f"{text}.txt").write_text(text)
        table = f'{{"study": "demo", "version": "{text}", "rows": [], "files": ["{text}.txt", "results.json"]}}'
        (staging / "results.json").write_text(table)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_killed_writers_leave_old_or_new_results_and_nothing_else(tmp_path: Path) -> None:
    """The tool makes more of the same: see its text."""
    command = [sys.executable, str(KILLER), "--small", "--count", "72", "--seed", "3"]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed before a step" in done.stdout


def test_a_killed_run_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, str(KILLER), "--count", "2", "--seed", "3"]
    done = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_live_run_s_work_folder_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with publish(out, "demo") as staging:
        (staging / "half.txt").write_text("half")
        write(out, OLD)
        assert (staging / "half.txt").exists()
        other = tmp_path / ".spacearm-mine"
        other.mkdir()
    assert names(tmp_path) == [".spacearm-mine", "out", "out/half.txt", "out/old.txt", "out/results.json"]


def test_a_file_that_comes_just_before_the_exchange_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write(out, OLD)
    exchanged = []
    only = _swap._holds_only

    def late(folder: Path, listed: list[str]) -> bool:
        found = only(folder, listed)
        (folder / "late.txt").write_text("mine")
        exchanged.append(found)
        return found

    monkeypatch.setattr(_swap, "_holds_only", late)
    write(out, NEW)
    assert exchanged == [True]
    assert names(tmp_path) == ["out", "out/late.txt", "out/new.txt", "out/results.json"]


@pytest.mark.parametrize("step", ["rename", "replace", "unlink", "mkdir"])
def test_an_interruption_does_not_stop_the_swap_half_way(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C right after each kind of step: the results are there and nothing else."""
    out = tmp_path / "out"
    write(out, OLD)
    (out / "notes.txt").write_text("mine")
    plain = getattr(Path, step)

    def interrupted(path: Path, *arguments: object, **options: object) -> object:
        done = plain(path, *arguments, **options)
        if next(tmp_path.glob(".spacearm-*/plan"), None) or path.name == "plan":
            monkeypatch.setattr(Path, step, plain)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(Path, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(out, NEW)
    assert names(tmp_path) == ["out", "out/new.txt", "out/notes.txt", "out/results.json"]


def test_results_go_to_another_file_system_and_through_links(tmp_path: Path) -> None:
    far = Path("/dev/shm") / f"spacearm-test-{os.getpid()}"
    far.mkdir()
    try:
        (tmp_path / "link").symlink_to(far)
        (tmp_path / "dangling").symlink_to(far / "later")
        for text in (OLD, NEW):
            write(tmp_path / "link", text)
            write(tmp_path / "dangling", text)
        assert names(far) == ["later", "later/new.txt", "later/results.json", "new.txt", "results.json"]
        assert (tmp_path / "link").is_symlink()
        assert names(tmp_path) == ["dangling", "link"]
    finally:
        subprocess.run(["rm", "-r", str(far)], check=True)


def test_a_folder_whose_neighbourhood_is_closed_is_written_from_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a mount point, or a folder in one of another user: nothing can be made beside it."""
    out = tmp_path / "out"
    out.mkdir()
    plain = Path.mkdir

    def closed(path: Path, *arguments: int, **options: bool) -> None:
        if path.parent == tmp_path and not path.exists():
            raise PermissionError(13, "Permission denied", str(path))
        plain(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", closed)
    for text in (OLD, NEW):
        write(out, text)
    assert names(tmp_path) == ["out", "out/new.txt", "out/results.json"]


def test_a_finished_run_that_finds_no_place_is_kept_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    write(out, OLD)

    def fail(*_: object) -> bool:
        raise PermissionError(13, "Permission denied", str(out))

    with monkeypatch.context() as patch:
        patch.setattr(_swap, "_exchange", fail)
        with pytest.raises(SpacearmError, match=r"the results are complete in .*; the next run into this folder moves"):
            write(out, NEW)
    assert names(out) == ["old.txt", "results.json"]
    with pytest.raises(RuntimeError), publish(out, "demo"):
        raise RuntimeError
    assert names(tmp_path) == ["out", "out/new.txt", "out/results.json"]


FULL = """
import resource, sys
from pathlib import Path
import numpy as np, xarray as xr
from spacearm.report import write_result
from spacearm.result import Result
large = Result("demo", [], {}, data=xr.Dataset({"x": ("time", np.random.default_rng(0).normal(size=500_000))}))
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
write_result(large, Path(sys.argv[1]))
"""


def test_a_full_disk_is_an_error_and_the_older_results_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, OLD)
    done = subprocess.run([sys.executable, "-c", FULL, str(out)], capture_output=True, text=True, check=False)
    assert done.returncode == 1  # not a signal
    assert f"SpacearmError: {out}: cannot write the results there: File too large" in done.stderr
    assert names(tmp_path) == ["out", "out/old.txt", "out/results.json"]


def test_too_little_space_is_told_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_folder, "LEAST_SPACE", 1e30)
    with pytest.raises(InputError, match="MB are free on that disk"), publish(tmp_path / "out"):
        raise AssertionError
    assert names(tmp_path) == []


@pytest.mark.parametrize(("name", "what"), [("data.nc", "a file"), ("figures", "a folder")])
def test_what_cannot_be_replaced_is_told_before_the_run(name: str, what: str, tmp_path: Path) -> None:
    if what == "a file":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).symlink_to(tmp_path)
    with pytest.raises(InputError, match=f"{name} exists and is not {what}"), publish(tmp_path):
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_results_with_data_come_back_from_memory(tmp_path: Path) -> None:
    large = Result("demo", [], {}, data=xr.Dataset({"x": ("time", np.random.default_rng(0).normal(size=500_000))}))
    write_result(large, tmp_path / "out")
    with xr.open_dataset(tmp_path / "out" / "data.nc", engine="h5netcdf") as data:
        xr.testing.assert_identical(data.load(), large.data)
