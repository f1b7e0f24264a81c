"""What a campaign runs: a scenario, axes that make cells, numbers that are dispersed in each cell, what is wanted.

Every dispersed number is a quantile: a point of the unit cube (random, Latin hypercube or Sobol, from the seed) gives
one share for each of them, and the inverse of its distribution the value. The points are the same in all cells (common
random numbers), so that differences between cells are due to the axes alone. A run is thus a function of the plan, its
cell and its number. Dispersed numbers are independent; correlations are not modelled. Keys name places in the scenario
or, after ``robot.``, in the robot's TOML text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from spacearm.errors import InputError, at, did_you_mean, quoted
from spacearm.model import Robot
from spacearm.model.document import find_robot, read_document, validated
from spacearm.model.toml_read import CAMPAIGN_FILE, SCENARIO_FILE, parse_toml, robot_from_tables
from spacearm.model.toml_schema import Name, Number, Seed, whole
from spacearm.model.toml_write import toml_text
from spacearm.study import Table, distinct
from spacearm.study import key as field  # tables here have a key called `key`
from spacearm.study.keys import refused
from spacearm.study.tables import Count
from spacearm.typing import Array

#: Runs of a campaign, all cells together.
MOST_RUNS = 10_000_000
#: Keys that begin so are the robot's, as in its TOML file; all others are the scenario's.
ROBOT = "robot."
_STEP = re.compile(r"([^.\[\]]+)|\[([^\[\]]+)\]|(\.)")


class VaryTable(Table):
    """A number that is dispersed: drawn anew in each run of a cell, and the same way in all cells."""

    uses: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "uniform": ("key", "low", "high", "relative"),
        "log-uniform": ("key", "low", "high", "relative"),
        "normal": ("key", "mean", "deviation", "low", "high", "relative"),
        "seed": ("key",),
    }

    key: Name = field(what="where it stands: `start.velocity[0]`, `load[blow].force[2]`, `robot.body[link3].mass`")
    kind: Literal["uniform", "log-uniform", "normal", "seed"] = field("normal", "distribution; `seed`: a whole number")
    low: Number | None = field(None, "least; of `normal` a bound")
    high: Number | None = field(None, "most; of `normal` a bound")
    mean: Number | None = field(None, "where left out, the scenario's own number")
    deviation: Number | None = field(None, "standard deviation")
    relative: bool = field(False, "low, high, mean and deviation are multiples of the scenario's own number")

    def model_post_init(self, context: Any, /) -> None:
        if self.kind in ("uniform", "log-uniform") and (self.low is None or self.high is None):
            raise refused(f"kind = {self.kind!r} needs 'low' and 'high'", "the range")
        if self.kind == "normal" and (self.deviation is None or not self.deviation > 0.0):
            raise refused("kind = 'normal' needs a 'deviation' above zero", "standard deviation")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise refused(f"low is {self.low:g} and high {self.high:g}", "expected low < high")
        if self.kind == "log-uniform" and not (self.low or 0.0) > 0.0:
            raise refused("kind = 'log-uniform' needs 'low' above zero", "it varies by factors")

    def value(self, share: float, own: Any) -> float | int:
        """The number at this share (0 to 1) of the distribution; ``own`` is the scenario's."""
        if self.kind == "seed":
            return int(share * 2**31)
        own_matters = self.relative or (self.kind == "normal" and self.mean is None)
        if own_matters and (not isinstance(own, int | float) or isinstance(own, bool)):
            raise InputError(f"is {quoted(own)} in the scenario", place=self.key, hint="expected a number there")
        scale = float(own) if self.relative else 1.0
        if self.kind == "normal":
            from scipy.special import ndtr, ndtri

            mean = self.mean if self.mean is not None else (1.0 if self.relative else float(own))
            assert self.deviation is not None
            low, high = -math.inf if self.low is None else self.low, math.inf if self.high is None else self.high
            # A truncated normal by its quantile: shares are spread over the part of the distribution between the
            # bounds, so that no run is rejected and stratified samples stay stratified.
            edges = [float(ndtr((edge - mean) / self.deviation)) for edge in (low, high)]
            found = mean + self.deviation * float(ndtri(edges[0] + share * (edges[1] - edges[0])))
            # Far in a tail ndtr is 0 or 1 to rounding and its inverse infinite: the bounds hold in any case.
            return scale * min(max(found, low), high)
        assert self.low is not None
        assert self.high is not None
        if self.kind == "log-uniform":
            return float(scale * self.low * (self.high / self.low) ** share)
        return scale * (self.low + share * (self.high - self.low))


class AxisTable(Table):
    """An axis of the map: every combination of all axes' values is a cell."""

    name: Name
    key: Name | None = field(None, "what it sets; of `cases`, none")
    values: list[Any] = field([], "numbers or texts, one for each step of the axis")
    cases: dict[str, dict[str, Any]] = field({}, "name = { key = value, ... }: several keys at once")

    def model_post_init(self, context: Any, /) -> None:
        if bool(self.cases) == (self.key is not None and bool(self.values)):
            raise refused("an axis needs 'key' and 'values', or 'cases'", "one of both")
        if self.cases and (self.key is not None or self.values):
            raise refused("both 'cases' and 'key' or 'values' are given", "expected one")

    @property
    def labels(self) -> list[Any]:
        return list(self.cases) if self.cases else self.values

    def settings(self, label: Any) -> dict[str, Any]:
        """Keys and their values at a step of the axis."""
        return self.cases[label] if self.cases else {str(self.key): label}


class RequireTable(Table):
    """What a run must keep to be a success, besides being sound."""

    row: Name = field(what="of the scenario's results")
    least: Number | None = None
    most: Number | None = None

    def margin(self, value: Any) -> float:
        """How far a value is inside, in units of the bounds (of itself where they are zero); less than zero outside."""
        if not isinstance(value, int | float) or not math.isfinite(value):
            return -math.inf
        gaps = [value - self.least] if self.least is not None else []
        gaps += [self.most - value] if self.most is not None else []
        scale = max(abs(self.least or 0.0), abs(self.most or 0.0)) or 1.0
        return min(gaps, default=math.inf) / scale


class StopTable(Table):
    """When a cell has been run often enough."""

    half_width: Number = field(what="of the confidence interval of the success rate (Wilson)")
    confidence: Number = 0.95
    least: Count = field(50, "runs in any case")


class CampaignFile(Table):
    """A scenario run many times."""

    scenario: Name = field(what="a scenario file, relative to this one")
    title: Name = field("", "head of the page")
    without: list[Name] = field([], "tables and keys of the scenario to leave out, such as its searches")
    fixed: dict[str, Any] = field({}, "key = value: other values than the scenario's, in all runs")
    runs: Annotated[int, whole(1, MOST_RUNS)] = field(1, "in each cell")
    sampling: Literal["random", "latin-hypercube", "sobol"] = field("latin-hypercube", "of dispersed numbers")
    seed: Seed = 0
    chunk: Annotated[int, whole(1, 100_000)] = field(50, "runs in one file")
    rows: list[Name] = field(["*"], "of the scenario's results, with * and ? as wildcards, that are kept")
    axis: list[AxisTable] = field([], "axes; without, there is one cell")
    vary: list[VaryTable] = field([], "dispersed numbers")
    require: list[RequireTable] = field([], "what makes a run a success, besides being sound")
    stop: StopTable | None = field(None, "all `runs` of each cell where left out")
    goal: Annotated[float, Field(gt=0.0, le=1.0)] = field(0.9, "success rate from which on a cell is a go")


class Plan:
    """A campaign's file with the scenario and the robot that it varies."""

    def __init__(self, file: CampaignFile, document: dict[str, Any], folder: Path, robot: str = "") -> None:
        self.file, self.document, self.folder, self.robot_text = file, document, folder, robot
        distinct(file.axis, "axis")
        distinct(file.vary, "vary", "key")
        for axis in file.axis:
            if axis.name in OWN_COLUMNS:
                raise InputError(
                    "this name belongs to a column of every campaign", place=f"axis {quoted(axis.name)}",
                    hint="choose another name",
                )  # fmt: skip
        if self.total > MOST_RUNS:
            raise InputError(f"has {self.total} runs", place="axis", hint=f"expected at most {MOST_RUNS} in all cells")
        if file.sampling == "sobol" and file.runs & (file.runs - 1):
            raise InputError(
                f"is {file.runs}",
                place="runs",
                hint="expected a power of two: only these Sobol points are balanced",
            )
        for cell in range(len(self.cells)):
            self.arranged(cell, 0)  # keys that are not there are told before anything runs

    def column(self, row: str) -> str:
        """The column of a row of the scenario: its name, after ``result.`` where the campaign has that column."""
        own = {*OWN_COLUMNS, *(axis.name for axis in self.file.axis), *(entry.key for entry in self.file.vary)}
        return f"result.{row}" if row in own else row

    @classmethod
    def read(cls, path: str | Path, runs: int | None = None) -> Plan:
        """From a file; errors have its name and the place. ``runs``: in each cell, in place of the file's."""
        path = Path(path)
        tables = read_document(path, 'scenario = "..." and [[vary]] tables', CAMPAIGN_FILE)
        tables |= {} if runs is None else {"runs": runs}
        with at(file=path):
            file = validated(CampaignFile, tables)
            scenario = path.parent / file.scenario
            if not scenario.is_file():
                raise InputError(f"there is no file {quoted(file.scenario)}", place="scenario")
            document = read_document(scenario, 'study = "..." and robot = "..."', SCENARIO_FILE)
            for k, name in enumerate(file.without):
                if name not in document:
                    hint = did_you_mean(name, document)
                    raise InputError(f"the scenario has no {quoted(name)}", place=f"without[{k}]", hint=hint)
                del document[name]
            keys = [*file.fixed, *(entry.key for entry in file.vary)]
            keys += [name for axis in file.axis for label in axis.labels for name in axis.settings(label)]
            robot = ""
            if any(name.startswith(ROBOT) for name in keys):
                with at("scenario"):
                    robot = toml_text(find_robot(str(document.get("robot", "")), scenario.parent))
            return cls(file, document, scenario.parent, robot)

    @property
    def scenario(self) -> Path:
        """Its file."""
        return self.folder / Path(self.file.scenario).name

    @cached_property
    def cells(self) -> list[dict[str, Any]]:
        """The label on each axis, by its name."""
        names = [axis.name for axis in self.file.axis]
        return [dict(zip(names, labels, strict=True)) for labels in product(*(axis.labels for axis in self.file.axis))]

    @property
    def total(self) -> int:
        return self.file.runs * math.prod(len(axis.labels) for axis in self.file.axis)

    @property
    def chunks(self) -> int:
        """In each cell."""
        return -(-self.file.runs // self.file.chunk)

    def numbers(self, chunk: int) -> range:
        """The runs of a chunk, counted within its cell."""
        return range(chunk * self.file.chunk, min((chunk + 1) * self.file.chunk, self.file.runs))

    @cached_property
    def shares(self) -> Array:
        """(runs, dispersed numbers) between 0 and 1: the same in every cell, so that only the axes differ."""
        from scipy.stats import qmc

        size, rng = (self.file.runs, len(self.file.vary)), np.random.default_rng(self.file.seed)
        if not size[1]:
            return np.zeros(size)
        if self.file.sampling == "random":
            return rng.random(size)
        if self.file.sampling == "sobol":
            return np.asarray(qmc.Sobol(size[1], rng=rng).random(size[0]), dtype=np.float64)
        return np.asarray(qmc.LatinHypercube(size[1], rng=rng).random(size[0]), dtype=np.float64)

    @cached_property
    def _robot_tables(self) -> dict[str, Any]:
        return parse_toml(self.robot_text, "")

    def arranged(self, cell: int, number: int) -> tuple[dict[str, Any], dict[str, Robot], dict[str, float]]:
        """The scenario of a run, its robot where that is varied, and the dispersed numbers by their keys."""
        whole = {"scenario": deepcopy(self.document)}
        if self.robot_text:
            whole["robot"] = deepcopy(self._robot_tables)
        with at("fixed"):
            for name, value in self.file.fixed.items():
                _put(*_root(whole, name), deepcopy(value))  # what is varied may be an entry of it
        for axis in self.file.axis:
            with at(f"axis {axis.name!r}"):
                for name, value in axis.settings(self.cells[cell][axis.name]).items():
                    _put(*_root(whole, name), deepcopy(value))
        drawn = {}
        for k, entry in enumerate(self.file.vary):
            with at(f"vary[{k}]"):
                root, name = _root(whole, entry.key)
                drawn[entry.key] = entry.value(float(self.shares[number, k]), _get(root, name))
                _put(root, name, drawn[entry.key])
        document = whole["scenario"]
        if not self.robot_text:
            return document, {}, drawn
        with at("robot"):
            return document, {document["robot"]: robot_from_tables(whole["robot"])}, drawn


def _root(whole: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    return (whole["robot"], name[len(ROBOT) :]) if name.startswith(ROBOT) else (whole["scenario"], name)


def _steps(name: str) -> list[str]:
    found = list(_STEP.finditer(name))
    if not found or "".join(step.group() for step in found) != name:
        raise InputError(f"{quoted(name)} is no key", hint="expected names with dots between, and [index] or [name]")
    return [step.group(1) or step.group(2) for step in found if step.group(3) is None]


def _within(place: Any, step: str, name: str) -> Any:
    """One step down: a key of a table, a number in a list, or the table in a list that has this name."""
    if isinstance(place, dict):
        if step not in place:
            raise InputError(f"there is no {quoted(step)} in {quoted(name)}", hint=did_you_mean(step, place))
        return place[step]
    return place[_index(place, step, name)]


def _index(place: Any, step: str, name: str) -> int:
    if not isinstance(place, list):
        raise InputError(f"{quoted(name)}: nothing is inside {quoted(place)}", hint="expected a table or a list")
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in place]
    if step in names:
        return names.index(step)
    if not step.isdecimal() or int(step) >= len(place):
        known = [str(each) for each in names if each is not None] or [str(k) for k in range(len(place))]
        raise InputError(f"there is no {quoted(step)} in {quoted(name)}", hint=did_you_mean(step, known))
    return int(step)


def _get(root: dict[str, Any], name: str) -> Any:
    """The value of a key; None where its table does not have it, but may."""
    *steps, last = _steps(name)
    place: Any = root
    for step in steps:
        place = _within(place, step, name)
    return place.get(last) if isinstance(place, dict) else place[_index(place, last, name)]


def _put(root: dict[str, Any], name: str, value: Any) -> None:
    *steps, last = _steps(name)
    place: Any = root
    for step in steps:
        place = _within(place, step, name)
    if isinstance(place, dict):
        place[last] = value
    else:
        place[_index(place, last, name)] = value


def wilson(successes: int, runs: int, confidence: float) -> tuple[float, float]:
    """Confidence interval of a success rate (E. B. Wilson, 1927)."""
    from scipy.special import ndtri

    if runs == 0:
        return 0.0, 1.0
    z = float(ndtri(0.5 + 0.5 * confidence))
    rate, spread = successes / runs, z * z / runs
    # Unlike rate +- z sqrt(rate (1 - rate) / n) it keeps a width at rates of 0 and 1, where a stop would otherwise come
    # at once.
    middle = (rate + 0.5 * spread) / (1.0 + spread)
    half = z * math.sqrt(rate * (1.0 - rate) / runs + 0.25 * spread / runs) / (1.0 + spread)
    return (0.0 if successes == 0 else middle - half), (1.0 if successes == runs else middle + half)


#: Columns of every campaign, before those of the scenario's rows.
OWN_COLUMNS = ("cell", "run", "status", "success", "margin", "binding", "reason")


def flat_rows(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Numbers of results by name; of vectors each entry with its place behind the name."""
    for name, value in values.items():
        found = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(found, Sequence) and not isinstance(found, str):
            yield from flat_rows({f"{name}.{k}": entry for k, entry in enumerate(found)})
        elif isinstance(found, bool | int | float):
            yield name, float(found)
