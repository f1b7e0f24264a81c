"""The cache of compiled code: what somebody else could have put there is not run; only spacearm's own is deleted."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import casadi as ca
import pytest

from spacearm.engine import Kernel, cache
from spacearm.engine.loops import LoopCache
from spacearm.mechanics import Program


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPACEARM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_reported", set())
    return tmp_path / "cache"


def program(factor: float) -> Program:
    x = ca.SX.sym("x", 1)
    return Program("f", {"x": x}, {"y": factor * x})


def planted(folder: Path) -> tuple[Program, Path]:
    """A program, and its entry, which holds the code of another one, rightly signed under its own name."""
    wanted = program(2.0)
    Kernel(wanted).code(1)
    (entry,) = cache.entries()
    Kernel(program(666.0)).code(1)
    (other,) = set(cache.entries()) - {entry}
    entry.write_bytes(other.read_bytes())
    return wanted, entry


def test_folder_and_files_are_the_user_s_alone_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        Kernel(program(2.0)).code(1)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(modes) == 2
    assert set(modes.values()) == {0o600}


def test_code_of_another_program_under_this_one_s_name_is_not_run(folder: Path) -> None:
    wanted, entry = planted(folder)
    with pytest.warns(UserWarning, match=f"{entry.name}: is damaged, or spacearm did not write it; compiled anew"):
        code = (kernel := Kernel(wanted)).code(1)
    assert not code.from_cache
    assert kernel({"x": [3.0]})["y"][0] == 6.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Kernel(wanted).code(1).from_cache  # mended


def world_writable_folder(folder: Path, entry: Path) -> None:
    folder.chmod(0o777)


def group_writable_folder(folder: Path, entry: Path) -> None:
    folder.chmod(0o770)


def world_writable_entry(folder: Path, entry: Path) -> None:
    entry.chmod(0o606)


def linked_entry(folder: Path, entry: Path) -> None:
    entry.rename(folder.parent / "elsewhere.o")
    entry.symlink_to(folder.parent / "elsewhere.o")


def pipe_in_its_place(folder: Path, entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def readable_secret(folder: Path, entry: Path) -> None:
    (folder / cache.SECRET).chmod(0o644)


def other_secret(folder: Path, entry: Path) -> None:
    (folder / cache.SECRET).write_bytes(cache.MAGIC + bytes(32))


@pytest.mark.parametrize(
    ("harm", "note"),
    [
        (world_writable_folder, "can be written to by others; compiled code is neither kept nor taken"),
        (group_writable_folder, "can be written to by others; compiled code is neither kept nor taken"),
        (world_writable_entry, "can be written to by others; compiled anew"),
        (linked_entry, "is a link"),
        (pipe_in_its_place, "is not a file"),
        (readable_secret, "can be read by others"),
        (other_secret, "spacearm did not write it"),
    ],
)
def test_code_that_others_could_have_changed_is_not_taken(
    harm: Callable[[Path, Path], None], note: str, folder: Path
) -> None:
    Kernel(program(2.0)).code(1)
    (entry,) = cache.entries()
    assert Kernel(program(2.0)).code(1).from_cache
    harm(folder, entry)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        kernel = Kernel(program(2.0))
        assert not kernel.code(1).from_cache
        Kernel(program(2.0)).code(1)
    assert kernel({"x": [3.0]})["y"][0] == 6.0
    assert sum(note in str(warning.message) for warning in notes) == 1


def test_a_folder_or_entry_of_another_owner_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(program(2.0)).code(1)
    (entry,) = cache.entries()
    if os.geteuid() == 0:  # a real other owner
        os.chown(entry, 12345, -1)
        with pytest.warns(UserWarning, match="belongs to another user; compiled anew"):
            code = Kernel(program(2.0)).code(1)
        assert not code.from_cache
        assert Kernel(program(2.0)).code(1).from_cache
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # now all of it is another's
    cache._reported.clear()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.warns(UserWarning, match="belongs to another user; compiled code is neither kept nor taken"):
        code = Kernel(program(2.0)).code(1)
    assert not code.from_cache
    Kernel(program(3.0)).code(1)
    assert cache.clear() == {"kernel": 0, "loop": 0, "piece": 0}
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.trace,)


LOOP = """
from spacearm.engine.loops import compile_loop

@compile_loop
def double(x):
    return 2.0 * x

print(double(3.0), sum(double.stats.cache_hits.values()))
"""


def run_loop(tmp_path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (tmp_path / "module.py").write_text(LOOP)
    environment = {**os.environ, **environment, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "module.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )


def test_loops_are_kept_and_planted_ones_are_not_unpickled(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "exploded"
    assert run_loop(tmp_path, {}).stdout == "6.0 0\n"
    assert run_loop(tmp_path, {}).stdout == "6.0 1\n"
    (entry,) = cache.entries("loop")
    head = entry.read_bytes()[: len(cache.MAGIC) + 32]
    for data in (pickle.dumps(Bomb(trace)), head + pickle.dumps(Bomb(trace))):
        entry.write_bytes(data)
        entry.chmod(0o600)
        done = run_loop(tmp_path, {})
        assert done.stdout == "6.0 0\n"
        assert "spacearm did not write it" in done.stderr
    folder.chmod(0o777)
    assert run_loop(tmp_path, {}).stdout == "6.0 0\n"
    assert not trace.exists()


def test_numba_s_own_cache_is_not_used(folder: Path, tmp_path: Path) -> None:
    numba_folder = tmp_path / "numba"
    run_loop(tmp_path, {"NUMBA_CACHE_DIR": str(numba_folder)})
    assert not list(tmp_path.rglob("*.nb[ic]"))


def test_a_closure_is_not_cached_in_silence() -> None:
    factor = 2.0
    with pytest.raises(AssertionError):
        LoopCache(lambda x: factor * x)


def test_clear_removes_only_what_spacearm_wrote(folder: Path, tmp_path: Path) -> None:
    Kernel(program(2.0)).code(1)
    run_loop(tmp_path, {})
    (entry,) = cache.entries()
    (folder / (cache.WRITING + "dead")).write_bytes(cache.MAGIC)  # a process that was killed
    outside = tmp_path / "outside.o"
    outside.write_bytes(entry.read_bytes())
    kept = {"main.o": b"mine", f"{'a' * 64}.o": b"mine", "notes.loop": cache.MAGIC, cache.WRITING + "poem": b"mine"}
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    (folder / f"{'b' * 64}.o").symlink_to(outside)
    (folder / f"{'c' * 64}.o").mkdir()
    assert cache.clear() == {"kernel": 1, "loop": 1, "piece": 0}
    assert {path.name for path in folder.iterdir()} == {*kept, f"{'b' * 64}.o", f"{'c' * 64}.o"}
    assert outside.exists()


def test_processes_that_begin_together_agree_on_a_key(folder: Path) -> None:
    code = "import sys; from spacearm.engine import cache; cache.write(sys.argv[1] * 64, b'code')"
    names = "0123456789abcdef"
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in names]
    assert [process.wait() for process in running] == [0] * len(names)
    assert all(cache.read(name * 64) == b"code" for name in names)
    assert len(list(folder.iterdir())) == len(names) + 1
