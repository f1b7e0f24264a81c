"""Findings of a study: a dataclass whose fields become rows, with the checks, limits and pages that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, dataclass_transform

import numpy.typing as npt

from spacearm.model import Robot
from spacearm.result import Check, Checks, Figure, Limit, Row
from spacearm.simulate.run.dataset import label_dataset as dataset

__all__ = [
    "Findings",
    "IdentifiedRobotFile",
    "NotedValue",
    "dataset",
    "joint_values",
    "largest_difference",
    "make_rows",
    "mujoco_check",
    "row",
    "xyz",
]

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.scene import Scene
    from spacearm.simulate.check.crosscheck import CrossCheck


def row(unit: str = "", note: str = "", name: str | None = None, of: str | Callable[[Any], Any] | None = None) -> Any:
    """Declare a row of the result: a field of the findings or, with ``of``, a value computed from its fields.

    A value of None gives no row. A table (a mapping, or findings within findings) gives one row per entry,
    ``<field>.<entry>``; an entry with an empty name takes the name of the field.

    Args:
        unit, note: unit and note of the row; a :class:`NotedValue` overrides them.
        name: name of the row if it differs from the field's; if empty, it is omitted from the row's name.
        of: a function of the findings, or the path of an attribute such as ``run.time``.
    """
    about = {"unit": unit, "note": note}
    if of is None:
        return field(metadata={"row": about, "name": name})
    return _Computed(about, name, attrgetter(of) if isinstance(of, str) else of)


@dataclass
class _Computed:
    row: dict[str, str]
    name: str | None
    of: Callable[[Any], Any]

    def __get__(self, found: Any, kind: type | None = None) -> Any:
        # On the class it is its own description, on an instance the value: rows() needs the former.
        return self if found is None else self.of(found)


class NotedValue(NamedTuple):
    """A value with a note or a unit of its own."""

    value: Any
    note: str = ""
    unit: str = ""


def make_rows(found: Any, name: str = "", unit: str = "", note: str = "") -> Iterator[Row]:
    """Rows of findings, of a table or of a single value."""
    if isinstance(found, NotedValue):
        yield Row(name, found.value, found.unit or unit, note=found.note or note)
    elif isinstance(found, Mapping):
        for entry, value in found.items():
            yield from make_rows(value, _join_names(name, str(entry)), unit, note)
    # Findings within findings: names are joined by dots.
    elif isinstance(found, Findings):
        for own, (about, called) in found.rows().items():
            value = getattr(found, own)
            if value is not None:
                yield from make_rows(value, _join_names(name, own if called is None else called), **about)
    else:
        yield Row(name, found, unit, note=note)


def _join_names(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def xyz(vector: npt.ArrayLike, names: Sequence[str] = "xyz") -> dict[str, Any]:
    """Components of a vector by name."""
    return dict(zip(names, vector, strict=True))  # type: ignore[arg-type]


def joint_values(robot: Robot, values: npt.ArrayLike, per: str = "", note: str = "") -> dict[str, NotedValue]:
    """One value per joint with its unit, rad or m, followed by ``per``."""
    return {
        joint.name: NotedValue(value, note, joint.unit + per)
        for joint, value in zip(robot.joints, values, strict=True)  # type: ignore[arg-type]
    }


#: A cross-check with MuJoCo that differs by more than this, relative to the motion, makes a run unsound.
CROSS_CHECK_TOLERANCE = 1e-6


def mujoco_check(found: CrossCheck, tolerance: float = CROSS_CHECK_TOLERANCE) -> Check:
    """A cross-check with MuJoCo as an entry of the certificate."""
    # Not applicable is neither sound nor unsound: a missing cross-check must not look like a passed one.
    if not found.was_run:
        return Check.not_applicable(str(found), tolerance)
    return Check(found.largest, tolerance, "", str(found))


def largest_difference(checked: Check | None) -> NotedValue | None:
    """A cross-check as a row: the largest difference, or None with the reason; no row if there was no cross-check."""
    return None if checked is None else NotedValue(checked.value if checked.applies else None, checked.note)


@dataclass(frozen=True)
class IdentifiedRobotFile:
    """A robot file to be written with the results, if they are sound."""

    name: str
    text: Callable[[], str]
    obstacle: str = ""  # why the robot cannot be written


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(row, field))
class Findings:
    """Base class of findings: subclasses become frozen dataclasses, with fields made by :func:`row` and others.

    A study overrides the methods for what it has besides rows.
    """

    def __init_subclass__(cls) -> None:
        # Every subclass is a dataclass without a decorator of its own.
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    @classmethod
    def rows(cls) -> dict[str, tuple[dict[str, str], str | None]]:
        """Unit and note of each attribute that is a row, and its name if that differs from the attribute's."""
        own = fields(cls)  # type: ignore[arg-type]
        given = {f.name: (f.metadata["row"], f.metadata["name"]) for f in own if "row" in f.metadata}
        # Declared fields first, then computed ones: the order of the rows on the page.
        return given | {name: (c.row, c.name) for name, c in vars(cls).items() if isinstance(c, _Computed)}

    def title(self) -> str:
        """Title of the page, if the file has none."""
        return ""

    def headline(self) -> str:
        """The main finding, in one sentence."""
        return ""

    def summary(self) -> str:
        """Summary in a few sentences; blank lines separate paragraphs."""
        return ""

    def certificate(self) -> Mapping[str, Checks]:
        """Checks that decide whether the result is sound."""
        return {}

    def limits(self) -> Sequence[Limit]:
        """Limits that decide the verdict, the worst first."""
        return ()

    def decides(self) -> bool:
        """Whether the limits decide on a go."""
        return False

    def undecided(self) -> str:
        """Why they do not, though the numbers are sound; empty where they do."""
        return ""

    def settings(self) -> Mapping[str, Any]:
        """Settings of the study, besides the robot."""
        return {}

    def data(self) -> xr.Dataset | None:
        """Curves and maps as a dataset."""
        return None

    def figures(self) -> Sequence[Figure]:
        """Figures in reading order."""
        return ()

    def scene(self) -> Scene | None:
        """3-D scene of the study's runs."""
        return None

    def robot_file(self) -> IdentifiedRobotFile | None:
        """The robot that the study identified."""
        return None
