"""Plan of a campaign: a scenario, axes that make cells, numbers that are dispersed in each cell, requirements.

Every dispersed number is a quantile: a point of the unit cube (random, Latin hypercube or Sobol, from the seed) gives
one share for each of them, and the inverse of its distribution the value. The points are the same in all cells (common
random numbers), so that differences between cells are due to the axes alone. A run is thus a function of the plan, its
cell and its number. Dispersed numbers are independent; correlations are not modelled. Keys name places in the scenario
or, after ``robot.``, in the robot's TOML text.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from spacearm.errors import InputError, did_you_mean, error_context, quote_text
from spacearm.model import Robot
from spacearm.model.document import read_document, validate_tables
from spacearm.model.mounts import assemble_robot
from spacearm.model.toml_read import CAMPAIGN_FILE, SCENARIO_FILE, robot_from_tables
from spacearm.model.toml_schema import Name, Number, Seed, integer_between
from spacearm.model.toml_write import toml_text
from spacearm.study import ScenarioTable
from spacearm.study import key as field  # tables here have a key called `key`
from spacearm.study.document_keys import ROBOT, find_root, get_key, parse_robot, put_key
from spacearm.study.keys import RobotTable, check_distinct, validation_error
from spacearm.study.tables import Count
from spacearm.typing import Array

#: Runs of a campaign, all cells together.
MOST_RUNS = 10_000_000


class VaryTable(ScenarioTable):
    """A number that is dispersed: drawn for each run of a cell, with the same draws in all cells."""

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
    mean: Number | None = field(None, "if omitted, the scenario's own number")
    deviation: Number | None = field(None, "standard deviation")
    relative: bool = field(False, "low, high, mean and deviation are multiples of the scenario's own number")

    def model_post_init(self, context: Any, /) -> None:
        if self.kind in ("uniform", "log-uniform") and (self.low is None or self.high is None):
            raise validation_error(f"kind = {self.kind!r} needs 'low' and 'high'", "the range")
        if self.kind == "normal" and (self.deviation is None or not self.deviation > 0.0):
            raise validation_error("kind = 'normal' needs a 'deviation' above zero", "standard deviation")
        if self.low is not None and self.high is not None and not self.low < self.high:
            raise validation_error(f"low is {self.low:g} and high {self.high:g}", "expected low < high")
        if self.kind == "log-uniform" and not (self.low or 0.0) > 0.0:
            raise validation_error("kind = 'log-uniform' needs 'low' above zero", "it varies by factors")

    def value(self, share: float, own: Any) -> float | int:
        """The number at this share (0 to 1) of the distribution; ``own`` is the scenario's."""
        if self.kind == "seed":
            # A seed is drawn like any number: reproducible from the campaign's seed.
            return int(share * 2**31)
        own_matters = self.relative or (self.kind == "normal" and self.mean is None)
        if own_matters and (not isinstance(own, int | float) or isinstance(own, bool)):
            raise InputError(f"is {quote_text(own)} in the scenario", place=self.key, hint="expected a number there")
        # Relative bounds and deviations are multiples of the scenario's own value.
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


class CampaignAxisTable(ScenarioTable):
    """An axis of the map: every combination of all axes' values is a cell."""

    name: Name
    key: Name | None = field(None, "what it sets; of `cases`, none")
    values: list[Any] = field([], "numbers or texts, one for each step of the axis")
    cases: dict[str, dict[str, Any]] = field({}, "name = { key = value, ... }: several keys at once")

    def model_post_init(self, context: Any, /) -> None:
        if bool(self.cases) == (self.key is not None and bool(self.values)):
            raise validation_error("an axis needs 'key' and 'values', or 'cases'", "one of both")
        if self.cases and (self.key is not None or self.values):
            raise validation_error("both 'cases' and 'key' or 'values' are given", "expected one")

    @property
    def labels(self) -> list[Any]:
        return list(self.cases) if self.cases else self.values

    def settings(self, label: Any) -> dict[str, Any]:
        """Keys and their values at a step of the axis."""
        return self.cases[label] if self.cases else {str(self.key): label}


class RequireTable(ScenarioTable):
    """What a run must keep to be a success, besides being sound."""

    row: Name = field(what="of the scenario's results")
    least: Number | None = None
    most: Number | None = None

    def margin(self, value: Any) -> float:
        """Distance of a value inside its bounds, relative to them (absolute where they are zero); negative outside."""
        if not isinstance(value, int | float) or not math.isfinite(value):
            # A missing row counts as missed by any amount: a run that ended early must not look successful.
            return -math.inf
        gaps = [value - self.least] if self.least is not None else []
        gaps += [self.most - value] if self.most is not None else []
        # Margins of different rows become comparable.
        scale = max(abs(self.least or 0.0), abs(self.most or 0.0)) or 1.0
        return min(gaps, default=math.inf) / scale


class StopTable(ScenarioTable):
    """When a cell has been run often enough: as soon as it is a go or a no go, or with `half_width`."""

    key_changes: ClassVar[Mapping[str, str]] = {"confidence": "it is a key of the campaign now, outside of [stop]"}

    half_width: Annotated[float, Field(gt=0.0)] | None = field(
        None, "when the interval of the success rate is at most so wide to either side"
    )
    least: Count = field(50, "runs in any case; without `half_width` a cell is judged then, at twice as many, ...")


class WorstCaseTable(ScenarioTable):
    """A search for the smallest margin within the dispersions, cell by cell, after the runs."""

    runs: Annotated[int, integer_between(2, 1_000_000)] = field(200, "of the search in each cell, at most")
    share: Annotated[float, Field(gt=0.0, lt=1.0)] = field(
        0.9973, "of each distribution, about its middle, that is searched; 0.9973: of a normal, 3 standard deviations"
    )
    seed: Seed = field(0, "of the search")


class CampaignFile(ScenarioTable):
    """A scenario run many times."""

    scenario: Name = field(what="a scenario file, relative to this one")
    title: Name = field("", "head of the page")
    without: list[Name] = field([], "tables and keys of the scenario to leave out, such as its searches")
    fixed: dict[str, Any] = field({}, "key = value: other values than the scenario's, in all runs")
    runs: Annotated[int, integer_between(1, MOST_RUNS)] = field(1, "in each cell")
    sampling: Literal["random", "latin-hypercube", "sobol"] = field("latin-hypercube", "of dispersed numbers")
    seed: Seed = 0
    chunk: Annotated[int, integer_between(1, 100_000)] = field(50, "runs in one file")
    rows: list[Name] = field(["*"], "of the scenario's results, with * and ? as wildcards, that are kept")
    axis: list[CampaignAxisTable] = field([], "axes; without, there is one cell")
    vary: list[VaryTable] = field([], "dispersed numbers")
    require: list[RequireTable] = field([], "what makes a run a success, besides being sound")
    stop: StopTable | None = field(None, "all `runs` of each cell if omitted")
    worst_case: WorstCaseTable | None = field(None, "a search for the worst case in each cell, after the runs")
    goal: Annotated[float, Field(gt=0.0, lt=1.0)] = field(
        0.9, "success rate: a cell is a go if its interval lies at or above it, a no go if below, else undecided"
    )
    confidence: Annotated[float, Field(gt=0.0, lt=1.0)] = field(0.95, "of the intervals (Wilson)")


class CampaignPlan:
    """A campaign's file with the scenario and the robot that it varies."""

    def __init__(self, file: CampaignFile, document: dict[str, Any], folder: Path, robot: str = "") -> None:
        self.file, self.document, self.folder, self.robot_text = file, document, folder, robot
        check_distinct(file.axis, "axis")
        check_distinct(file.vary, "vary", "key")
        for axis in file.axis:
            if axis.name in OWN_COLUMNS:
                raise InputError(
                    "this name belongs to a column of every campaign", place=f"axis {quote_text(axis.name)}",
                    hint="choose another name",
                )  # fmt: skip
        if self.total > MOST_RUNS:
            raise InputError(f"has {self.total} runs", place="axis", hint=f"expected at most {MOST_RUNS} in all cells")
        if file.worst_case is not None and all(entry.kind == "seed" for entry in file.vary):
            raise InputError("has nothing to search", place="worst_case", hint="expected [[vary]] tables")
        if file.sampling == "sobol" and file.runs & (file.runs - 1):
            raise InputError(
                f"is {file.runs}",
                place="runs",
                hint="expected a power of two: only these Sobol points are balanced",
            )
        for cell in range(len(self.cells)):
            self.build_scenario(cell, 0)  # keys that are not there are reported before anything runs

    def column(self, row: str) -> str:
        """The column of a row of the scenario: its name, after ``result.`` where the campaign has that column."""
        own = {*OWN_COLUMNS, *(axis.name for axis in self.file.axis), *(entry.key for entry in self.file.vary)}
        return f"result.{row}" if row in own else row

    @classmethod
    def read(cls, path: str | Path, runs: int | None = None) -> CampaignPlan:
        """The plan from a file; errors have its name and the place. ``runs``: in each cell, in place of the file's."""
        path = Path(path)
        tables = read_document(path, 'scenario = "..." and [[vary]] tables', CAMPAIGN_FILE)
        tables |= {} if runs is None else {"runs": runs}
        with error_context(file=path):
            file = validate_tables(CampaignFile, tables)
            scenario = path.parent / file.scenario
            if not os.path.isfile(scenario):  # false for a name that no file can have, too
                raise InputError(f"there is no file {quote_text(file.scenario)}", place="scenario")
            document = read_document(scenario, 'study = "..." and robot = "..."', SCENARIO_FILE)
            for k, name in enumerate(file.without):
                if name not in document:
                    hint = did_you_mean(name, document)
                    raise InputError(f"the scenario has no {quote_text(name)}", place=f"without[{k}]", hint=hint)
                del document[name]
            keys = [*file.fixed, *(entry.key for entry in file.vary)]
            keys += [name for axis in file.axis for label in axis.labels for name in axis.settings(label)]
            robot = ""
            if any(name.startswith(ROBOT) for name in keys):
                with error_context("scenario"):
                    source = RobotTable.from_key(document.get("robot", ""))
                    # As text with all mounts: chunks on other machines need no robot file.
                    robot = toml_text(assemble_robot(source, scenario.parent))
                    frozen = source.model_dump(include={"freeze", "freeze_deg"}, exclude_none=True)
                    document["robot"] = {"file": source.file} | frozen
            return cls(file, document, scenario.parent, robot)

    @property
    def scenario(self) -> Path:
        """The campaign's file."""
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
        """Number of chunks in each cell."""
        return -(-self.file.runs // self.file.chunk)

    def numbers(self, chunk: int) -> range:
        """The runs of a chunk, counted within its cell."""
        return range(chunk * self.file.chunk, min((chunk + 1) * self.file.chunk, self.file.runs))

    @cached_property
    def shares(self) -> Array:
        """Quantiles (runs, dispersed numbers) between 0 and 1: the same in every cell, so that only the axes differ."""
        from scipy.stats import qmc

        size, rng = (self.file.runs, len(self.file.vary)), np.random.default_rng(self.file.seed)
        if not size[1]:
            return np.zeros(size)
        if self.file.sampling == "random":
            return rng.random(size)
        if self.file.sampling == "sobol":
            return np.asarray(qmc.Sobol(size[1], rng=rng).random(size[0]), dtype=np.float64)
        # One point in each of n equal parts of every number: less scatter of means than random points.
        return np.asarray(qmc.LatinHypercube(size[1], rng=rng).random(size[0]), dtype=np.float64)

    def with_shares(self, shares: Array) -> CampaignPlan:
        """The same campaign with these points (runs, dispersed numbers), one in each chunk, as the runs of a cell."""
        found = copy(self)
        found.file = self.file.model_copy(update={"runs": len(shares), "chunk": 1})
        found.__dict__["shares"] = shares
        return found

    @cached_property
    def _robot_tables(self) -> dict[str, Any]:
        return parse_robot(self.robot_text)

    def build_scenario(self, cell: int, number: int) -> tuple[dict[str, Any], dict[str, Robot], dict[str, float]]:
        """The scenario of a run, its robot where that is varied, and the dispersed numbers by their keys."""
        # Runs must not share tables: each changes its own copy.
        whole = {"scenario": deepcopy(self.document)}
        if self.robot_text:
            whole["robot"] = deepcopy(self._robot_tables)
        with error_context("fixed"):
            for name, value in self.file.fixed.items():
                put_key(*find_root(whole, name), deepcopy(value))  # what is varied may be an entry of it
        # Order: fixed, then axes, then dispersed numbers, whose mean may be what an axis has set.
        for axis in self.file.axis:
            with error_context(f"axis {axis.name!r}"):
                for name, value in axis.settings(self.cells[cell][axis.name]).items():
                    put_key(*find_root(whole, name), deepcopy(value))
        drawn = {}
        for k, entry in enumerate(self.file.vary):
            with error_context(f"vary[{k}]"):
                root, name = find_root(whole, entry.key)
                drawn[entry.key] = entry.value(float(self.shares[number, k]), get_key(root, name))
                put_key(root, name, drawn[entry.key])
        document = whole["scenario"]
        if not self.robot_text:
            return document, {}, drawn
        with error_context("robot"):
            name = RobotTable.from_key(document["robot"]).file
            return document, {name: robot_from_tables(whole["robot"])}, drawn


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
