"""What a study found: a dataclass whose fields say what they are, and the rows, checks and pages made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, dataclass_transform

import numpy.typing as npt

from spacearm.model import Robot
from spacearm.result import Check, Checks, Figure, Limit, Row
from spacearm.simulate.run.dataset import labelled as dataset

__all__ = [
    "Findings", "Noted", "RobotFile", "agreement", "by_joint", "dataset", "largest", "row", "rows_of", "xyz",
]  # fmt: skip

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.scene import Scene
    from spacearm.simulate.check.crosscheck import CrossCheck


def row(unit: str = "", note: str = "", name: str | None = None, of: str | Callable[[Any], Any] | None = None) -> Any:
    """What is a row of the result: a field of the findings or, with ``of``, what is computed from its fields.

    None is no row. A table (a mapping, or findings within findings) gives a row for each entry, ``<field>.<entry>``; an
    entry without a name is the field's own.

    Args:
        unit, note: of the row; a :class:`Noted` value has its own.
        name: where it is not the field's; empty, it is left out.
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
        return self if found is None else self.of(found)


class Noted(NamedTuple):
    """A value with a note or a unit of its own."""

    value: Any
    note: str = ""
    unit: str = ""


def rows_of(found: Any, name: str = "", unit: str = "", note: str = "") -> Iterator[Row]:
    """The rows of findings, of a table or of a single value."""
    if isinstance(found, Noted):
        yield Row(name, found.value, found.unit or unit, note=found.note or note)
    elif isinstance(found, Mapping):
        for entry, value in found.items():
            yield from rows_of(value, _joined(name, str(entry)), unit, note)
    elif isinstance(found, Findings):
        for own, (about, called) in found.rows().items():
            value = getattr(found, own)
            if value is not None:
                yield from rows_of(value, _joined(name, own if called is None else called), **about)
    else:
        yield Row(name, found, unit, note=note)


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def xyz(vector: npt.ArrayLike, names: Sequence[str] = "xyz") -> dict[str, Any]:
    """Components of a vector by name."""
    return dict(zip(names, vector, strict=True))  # type: ignore[arg-type]


def by_joint(robot: Robot, values: npt.ArrayLike, per: str = "", note: str = "") -> dict[str, Noted]:
    """A number for each joint in its unit, rad or m, with ``per`` behind it."""
    return {
        joint.name: Noted(value, note, joint.unit + per)
        for joint, value in zip(robot.joints, values, strict=True)  # type: ignore[arg-type]
    }


#: A cross-check with MuJoCo that differs by more than this, relative to the motion, makes a run unsound.
CROSS_CHECK_TOLERANCE = 1e-6


def agreement(found: CrossCheck, tolerance: float = CROSS_CHECK_TOLERANCE) -> Check:
    """A cross-check with MuJoCo as an entry of the certificate."""
    if not found.expressed:
        return Check.not_applicable(str(found), tolerance)
    return Check(found.largest, tolerance, "", str(found))


def largest(checked: Check | None) -> Noted | None:
    """A cross-check as a row: the largest difference, or None with the reason; no row where there was none."""
    return None if checked is None else Noted(checked.value if checked.applies else None, checked.note)


@dataclass(frozen=True)
class RobotFile:
    """A robot to be written beside the results, if they are sound."""

    name: str
    text: Callable[[], str]
    obstacle: str = ""  # why there can be no such robot


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(row, field))
class Findings:
    """Base of what a study finds: its subclasses are dataclasses, with fields made by :func:`row` and others.

    A study overrides what it has besides rows; all else is left out.
    """

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True, eq=False)(cls)

    @classmethod
    def rows(cls) -> dict[str, tuple[dict[str, str], str | None]]:
        """Unit and note, and the name where it is another, of each attribute that is a row."""
        own = fields(cls)  # type: ignore[arg-type]
        given = {f.name: (f.metadata["row"], f.metadata["name"]) for f in own if "row" in f.metadata}
        return given | {name: (c.row, c.name) for name, c in vars(cls).items() if isinstance(c, _Computed)}

    def title(self) -> str:
        """Head of the page, where the file has none."""
        return ""

    def headline(self) -> str:
        """What was found, in one sentence."""
        return ""

    def summary(self) -> str:
        """A few sentences, blank lines between paragraphs."""
        return ""

    def certificate(self) -> Mapping[str, Checks]:
        """Checks that decide whether the result is sound."""
        return {}

    def limits(self) -> Sequence[Limit]:
        """Limits that decide the verdict, the worst first."""
        return ()

    def settings(self) -> Mapping[str, Any]:
        """What was chosen, besides the robot."""
        return {}

    def data(self) -> xr.Dataset | None:
        """Curves and maps."""
        return None

    def figures(self) -> Sequence[Figure]:
        """In the order in which they are to be read."""
        return ()

    def scene(self) -> Scene | None:
        """What the study's runs look like."""
        return None

    def robot_file(self) -> RobotFile | None:
        """A robot that the study identified."""
        return None
