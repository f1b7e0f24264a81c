"""The kit of checks: what passes comes back converted, what does not is told with value, place and remedy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm import checks
from spacearm.errors import InputError, ModelError, error_context
from spacearm.model.problems import ModelErrors


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: checks.number("3", "mass", place="body 'a'"), "body 'a': mass is '3' (expected a finite number)"),
        (lambda: checks.number(True, "mass"), "mass is True (expected a finite number)"),
        (lambda: checks.number(None, "mass"), "mass is None (expected a finite number)"),
        (lambda: checks.number(10**400, "mass", least=0), "mass is 1000"),
        (lambda: checks.number(math.nan, "mass", most=1), "mass is nan (expected a finite number, at most 1)"),
        (
            lambda: checks.number(math.inf, "mass", above=0, unit="kg"),
            "mass is inf (expected a finite number, more than 0 kg)",
        ),
        (lambda: checks.number(3.5, "share", least=0, most=1), "share is 3.5 (expected 0 to 1)"),
        (lambda: checks.number(1, "share", above=0, below=1), "share is 1 (expected more than 0 and less than 1)"),
        (lambda: checks.positive(0, "time", unit="s"), "time is 0 (expected more than 0 s)"),
        (lambda: checks.non_negative(-1e-9, "time", unit="s"), "time is -1e-09 (expected at least 0 s)"),
        (lambda: checks.integer(2.5, "count", least=1), "count is 2.5 (expected a whole number, at least 1)"),
        (lambda: checks.integer(True, "count"), "count is True (expected a whole number)"),
        (lambda: checks.integer(9, "count", least=1, most=8), "count is 9 (expected a whole number, 1 to 8)"),
        (lambda: checks.numbers(["a"], "curve"), "curve is not an array of numbers"),
        (lambda: checks.numbers(["1", "2"], "curve"), "curve is not an array of numbers"),
        (lambda: checks.numbers([1j], "curve"), "curve is not an array of numbers"),
        (lambda: checks.array([1, 2], "spin", (3,)), "spin has 2 numbers (expected 3 numbers)"),
        (lambda: checks.array([[1], [2, 3]], "spin", (3,)), "spin is not an array of numbers (expected 3 numbers)"),
        (lambda: checks.array(1.0, "spin", (..., 3)), "spin has shape () (expected shape (..., 3))"),
        (lambda: checks.array([[1, 2]], "path", ("T", 3)), "path has shape (1, 2) (expected shape (T, 3))"),
        (lambda: checks.array([1, math.nan], "spin"), "spin[1] is nan (expected a finite number)"),
        (
            lambda: checks.array([[1, 2], [3, -4]], "rows", least=0, unit="N"),
            "rows[1, 1] is -4 (expected at least 0 N)",
        ),
        (lambda: checks.unit_vector([1, 0, 1], "axis"), "axis has length 1.41421 (expected a unit vector)"),
        (
            lambda: checks.unit_vector([[1, 0, 0, 0], [2, 0, 0, 0]], "attitude", ("T", 4), place="record"),
            "record: attitude has length 2 in row 1 (expected a unit quaternion w, x, y, z)",
        ),
        (lambda: checks.check_increasing([0, 1, 1]), "times[2] is 1, after 1 (expected increasing values)"),
        (lambda: checks.check_increasing([0.0], count=2), "times has 1 entries (expected at least 2)"),
        (lambda: checks.check_increasing([1.0, 2.0], start=0.0), "times starts at 1 (expected 0)"),
        (
            lambda: checks.check_name("elbw", ["elbow", "hip"], "joint"),
            "there is no joint 'elbw' (did you mean 'elbow'?)",
        ),
        (lambda: checks.check_name(3, ["a"], "joint", of="robot 'r'"), "robot 'r' has no joint 3 (known: a)"),
        (lambda: checks.one_of("hard", ("rigid", "soft"), "mode"), "mode is 'hard' (expected 'rigid' or 'soft')"),
        (lambda: checks.one_of(1, (True, False), "flag"), "flag is 1 (expected True or False)"),
        (lambda: checks.check_exclusive({"a": 1, "b": 2}), "both 'a' and 'b' are given (expected one of them)"),
        (lambda: checks.check_exclusive({"a": None, "b": None}, required=True), "'a' or 'b' is missing"),
        (
            lambda: checks.check_not_empty([], "case", place="design"),
            "design: there is no case (expected at least one)",
        ),
        (lambda: checks.unique(["a", "b", "a"], "joint"), "joint 'a' is given twice (expected different names)"),
        (lambda: checks.instance(3, str, "name"), "name is 3 (expected text)"),
        (lambda: checks.instance(3, Path, "file", optional=True), "file is 3 (expected a Path or None)"),
    ],
)
def test_what_does_not_pass(call: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(text)


def test_what_passes() -> None:
    found: list[Any] = [
        checks.number(np.float32(2), "a", above=1, below=3),
        checks.number(-math.inf, "a", infinite=True, most=0),
        checks.integer(np.int64(4), "a", least=4, most=4),
        checks.integer(4.0, "a"),
        checks.check_name("hip", {"hip": 1}, "joint"),
        checks.one_of("soft", ("rigid", "soft"), "mode"),
        checks.check_exclusive({"a": None, "b": 0}),
        checks.check_exclusive({"a": None}),
        checks.instance("x", str, "name"),
    ]
    assert found == [2.0, -math.inf, 4, 4, "hip", "soft", "b", None, "x"]
    assert [type(each) for each in found[:4]] == [float, float, int, int]
    assert checks.array([[1, 2], [3, 4]], "rows", (..., 2)).dtype == np.float64
    assert checks.array(np.zeros((5, 2, 3)), "rows", (..., 3)).shape == (5, 2, 3)
    assert checks.array([], "rows", ("T",), above=0).shape == (0,)
    assert np.isnan(checks.array([math.nan], "rows", finite=False, least=0)).all()
    assert checks.check_increasing([0, 0.5], start=0.0, count=2)[1] == 0.5
    checks.check_not_empty([1], "case")
    checks.unique(["a", "b"], "joint")


def test_an_array_that_is_one_is_not_copied() -> None:
    given = np.ones(3)
    assert checks.array(given, "spin", (3,)) is given


def test_the_error_is_of_the_class_asked_for() -> None:
    for check in (checks.number, checks.integer, checks.array, checks.unit_vector, checks.check_increasing):
        with pytest.raises(ModelError):
            check("x", "what", error=ModelError)


@dataclass(frozen=True)
class Ball:
    mass: float
    radius: float | None = None

    def __post_init__(self) -> None:
        checks.check_fields(self, checks.positive, "mass", place="ball")
        checks.check_fields(self, checks.positive, "radius", place="ball", optional=True, unit="m")


def test_fields_of_a_frozen_dataclass() -> None:
    assert isinstance(Ball(np.float64(1.0)).mass, float)
    assert Ball(1).radius is None
    with pytest.raises(InputError, match=r"ball: radius is -2 \(expected more than 0 m\)"):
        Ball(1, -2)


def test_places_nest_and_a_file_ends_them() -> None:
    with (
        pytest.raises(InputError) as caught,
        error_context("scenario", file="a.toml"),
        error_context("phase 2"),
        error_context("drive", fallback=True),
    ):
        checks.number("x", "value")
    assert str(caught.value) == "a.toml: scenario: phase 2: drive: value is 'x' (expected a finite number)"
    with (
        pytest.raises(InputError) as caught,
        error_context("robot", file="a.toml"),
        error_context("here", fallback=True),
    ):
        raise InputError("no", place="there", file="b.urdf")
    assert str(caught.value) == "b.urdf: there: no"
    with pytest.raises(InputError) as caught, error_context("here", fallback=True):
        raise InputError("no", place="there")
    assert str(caught.value) == "there: no"


def test_several_problems_get_the_place_together() -> None:
    with pytest.raises(ModelErrors) as caught, error_context("target", file="a.toml"):
        raise ModelErrors([ModelError("one", place="body 'a'"), ModelError("two")])
    assert str(caught.value) == "a.toml: target: 2 problems\n  body 'a': one\n  two"
