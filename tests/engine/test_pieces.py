"""Pieces of long work: an interrupted run goes on, with the same numbers as one that was not interrupted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.capture import evaluate
from spacearm.cli import main
from spacearm.ejection import batch
from spacearm.engine import cache, checkpoints
from spacearm.engine.checkpoints import checkpoint, digest, keep_checkpoints
from spacearm.identify.inertia import montecarlo
from spacearm.model import catalogue
from support import ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of one's own that keeps every piece, however short."""
    monkeypatch.setattr(checkpoints, "LEAST_SECONDS", 0.0)
    monkeypatch.setenv("SPACEARM_CACHE", str(tmp_path / "cache"))


def interrupted(program: str, inputs: object) -> None:
    """One piece is finished, then comes Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt), keep_checkpoints(program):
        checkpoint("p", inputs, lambda: {"x": np.zeros(1)})
        raise KeyboardInterrupt


def test_pieces_are_used_until_the_work_is_done(kept: None) -> None:
    calls: list[int] = []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return {"x": np.arange(3.0), "y": np.array(["a"])}

    def work(stop: bool) -> dict[str, Any]:
        with keep_checkpoints("program") as found:
            arrays = checkpoint("p", ("inputs", 1.0), compute)
            assert found.found == (len(calls) == 1 and not first)
            if stop:
                raise KeyboardInterrupt
        return arrays

    first = True
    with pytest.raises(KeyboardInterrupt):
        work(True)
    first = False
    arrays = work(False)
    assert len(calls) == 1
    np.testing.assert_array_equal(arrays["x"], np.arange(3.0))
    assert arrays["y"].tolist() == ["a"]
    assert cache.entries("piece") == []
    work(False)
    assert len(calls) == 2  # what was finished as a whole is computed again when asked for
    checkpoint("p", ("inputs", 1.0), compute)
    assert cache.entries("piece") == []  # outside of such work nothing is kept


def test_another_program_or_input_does_not_find_it(kept: None) -> None:
    robot = catalogue.load("yoshida1992")
    for count, (program, inputs) in enumerate(
        [("a", robot), ("b", robot), ("a", catalogue.load("xu2017")), ("a", (robot,)), ("a", [robot]), ("a", robot)]
    ):
        interrupted(program, inputs)
        assert len(cache.entries("piece")) == min(count + 1, 5)


def test_old_pieces_are_removed(kept: None, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted("a", 1)
    assert len(cache.entries("piece")) == 1
    monkeypatch.setattr(checkpoints, "LONGEST_KEPT", -1.0)
    with keep_checkpoints("b"):
        assert cache.entries("piece") == []


@dataclass
class Pair:
    a: Any
    b: Any


def test_digests_tell_apart_what_is_different() -> None:
    values: list[Any] = [
        None, True, 1, 1.0, "1", b"1", (1,), [1], [[1]], {"1": 1}, Pair(1, 2), Pair(2, 1), Pair((1, 2), None),
        np.array([1]), np.array([1.0]), np.array([[1.0]]), np.float64(1.0), 0.0, -0.0, ("a", "bc"), ("ab", "c"),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    with pytest.raises(TypeError, match="function has no digest"):
        digest([test_old_pieces_are_removed])


def test_inputs_without_a_digest_are_computed_and_not_kept(kept: None) -> None:
    interrupted("a", lambda: None)
    assert cache.entries("piece") == []


def stopped_after(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The same, interrupted (Ctrl-C) at the call after ``count`` ones."""
    calls = 0

    def called(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > count:
            raise KeyboardInterrupt
        return function(*arguments, **options)

    return called


@pytest.mark.parametrize(
    ("example", "smaller", "owner", "name", "stop"),
    [
        ("ejection", {"[31, 31]": "[3, 3]", "samples = 1024": "samples = 32", "= 500": "= 20"}, batch, "run_chunks", 1),
        ("capture", {"runs = 4096": "runs = 256"}, evaluate.Evaluator, "__call__", 2),
        ("identify-inertia", {"samples = 40": "samples = 26"}, montecarlo, "fit_total", 2),
    ],
)
def test_an_interrupted_run_goes_on_with_the_same_numbers(
    example: str,
    smaller: dict[str, str],
    owner: Any,
    name: str,
    stop: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(checkpoints, "LEAST_SECONDS", 0.0)
    text = (EXAMPLES / f"{example}.toml").read_text()
    for old, new in smaller.items():
        assert old in text
        text = text.replace(old, new)
    file = tmp_path / f"{example}.toml"
    file.write_text(text)
    command = ["run", str(file), "-o", str(tmp_path / "out")]
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopped_after(getattr(owner, name), stop))
        assert main(command) == 130
    assert "kept; the same command continues from there" in capsys.readouterr().err
    assert main(command) == 0
    resumed = capsys.readouterr().err
    assert "continued from" in resumed
    assert main(["run", str(file), "-o", str(tmp_path / "whole")]) == 0
    assert "continued from" not in capsys.readouterr().err
    whole, gone_on = (json.loads((tmp_path / out / "results.json").read_text())["rows"] for out in ("whole", "out"))
    assert gone_on == whole
