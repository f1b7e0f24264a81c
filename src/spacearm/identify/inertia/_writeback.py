"""The identified robot as a file, with a record of what came from where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia._base_motion import ModeErrors
from spacearm.identify.inertia._modal_motion import set_modes
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.consistent import impossible_bodies
from spacearm.identify.inertia.standard_parameters import ParameterSource, StandardParameters
from spacearm.model import Robot, save
from spacearm.model.files import file_format, robot_text
from spacearm.typing import Array


def provenance(known: StandardParameters, records: Sequence[str] = (), method: str = "") -> list[str]:
    """Comment lines: data, method, prior, and the origin of each of the 10(n + 1) numbers."""
    counts = known.counts()
    lines = [
        f"Inertias identified from {len(records)} experiments: {', '.join(records)}."
        if records
        else "Inertias identified.",
        *([f"Method: {method}."] if method else []),
        f"Prior: {known.prior.source}." if known.prior is not None else "Prior: none.",
        f"Of {len(known.numbers)} numbers {counts['data']} are determined by the data, {counts['prior']} supplied by "
        f"the prior, {counts['undetermined']} undetermined.",
        "Undetermined numbers are not measured: only combinations with other bodies are. They are kept as in the robot "
        "that the search started from, changed so that the determined combinations hold.",
        *base_parameters(known.robot).passes,
    ]
    for number in known.numbers:
        if number.source is ParameterSource.UNDETERMINED:
            lines.append(f"{number.body}.{number.symbol}: undetermined")
        else:
            what = "data" if number.source is ParameterSource.DATA else "prior"
            lines.append(f"{number.body}.{number.symbol}: {what}, standard deviation {number.std:.3g} {number.unit}")
    return lines


def build_identified_robot(
    known: StandardParameters,
    inertia: Array | None = None,
    name: str | None = None,
    modes: ModeErrors | None = None,
) -> Robot:
    """The robot with identified inertias and modes; impossible bodies are an error (use the consistent estimator)."""
    rows = np.asarray(known.inertia if inertia is None else inertia).reshape(-1, 10)
    # A file with such a body would be refused when it is read: better to say so with the estimate at hand.
    for body, why in impossible_bodies(known.robot, rows).items():
        raise InputError(
            f"the identified inertia belongs to no possible body: {why}",
            place=f"body {body!r}",
            hint="use the physically consistent estimator, or a prior",
        )
    robot = set_modes(known.robot.with_inertia_parameters(rows), known.robot, modes)
    return robot if name is None else robot.replace(name=name)


def save_identified_robot(
    known: StandardParameters,
    path: str | Path,
    *,
    inertia: Array | None = None,
    records: Sequence[str] = (),
    method: str = "",
    modes: ModeErrors | None = None,
) -> Path:
    """Write the robot (TOML, URDF or MJCF by the file's ending) with its provenance as leading comments."""
    robot = build_identified_robot(known, inertia, modes=modes)
    return save(robot, path, comments=provenance(known, records, method))


def format_identified_robot(
    known: StandardParameters,
    name: str,
    *,
    inertia: Array | None = None,
    records: Sequence[str] = (),
    method: str = "",
    modes: ModeErrors | None = None,
) -> str:
    """The text that :func:`save_identified_robot` would write into a file of this name."""
    robot = build_identified_robot(known, inertia, modes=modes)
    return robot_text(robot, file_format(name), provenance(known, records, method))
