"""What a study found: a dataclass whose fields say what they are, and the rows, checks and pages made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, dataclass_transform

import numpy.typing as npt

from spacearm.model import Robot
from spacearm.result import Check, Checks, Figure, Row

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.simulate.crosscheck import CrossCheck


def row(unit: str = "", note: str = "", name: str | None = None) -> Any:
    """A field of findings that is a row of the result; None is no row.

    A table (a mapping, or findings within findings) gives a row for each entry, ``<field>.<entry>``; an entry without a
    name is the field's own. ``name`` is the row's name where it is not the field's; empty, it is left out.
    """
    return field(metadata={"row": {"unit": unit, "note": note}, "name": name})


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
    elif is_dataclass(found):
        for each in fields(found):
            value = getattr(found, each.name)
            if "row" in each.metadata and value is not None:
                own = each.metadata["name"]
                yield from rows_of(value, _joined(name, each.name if own is None else own), **each.metadata["row"])
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

    def title(self) -> str:
        """Head of the page, where the file has none."""
        return ""

    def summary(self) -> str:
        """A few sentences, blank lines between paragraphs."""
        return ""

    def certificate(self) -> Mapping[str, Checks]:
        """Checks that decide whether the result is sound."""
        return {}

    def settings(self) -> Mapping[str, Any]:
        """What was chosen, besides the robot."""
        return {}

    def data(self) -> xr.Dataset | None:
        """Curves and maps."""
        return None

    def figures(self) -> Sequence[Figure]:
        """In the order in which they are to be read."""
        return ()

    def robot_file(self) -> RobotFile | None:
        """A robot that the study identified."""
        return None


def dataset(
    coords: Mapping[str, Any], variables: Mapping[str, tuple[str, Any, str, str]], attrs: Mapping[str, Any]
) -> xr.Dataset:
    """A dataset from variables (dimensions, values, unit, meaning); coordinates are lists, or such tuples too."""
    import numpy as np
    import xarray as xr

    def entry(dims: str, values: Any, unit: str, text: str) -> tuple[list[str], Any, dict[str, str]]:
        return dims.split(), np.ascontiguousarray(values), {"units": unit, "long_name": text}

    return xr.Dataset(
        {name: entry(*given) for name, given in variables.items()},
        {name: entry(*given) if isinstance(given, tuple) else given for name, given in coords.items()},
        dict(attrs),
    )
