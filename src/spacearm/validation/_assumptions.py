"""Assumptions that, if relaxed, explain what a prediction leaves: ranked, each with its estimate.

Method: a candidate is one more number, zero (or one) in the model: a delay, the tilt of a table, drag, a mass, a place.
Near the fitted prediction all readings are linear in it and in the uncertain numbers, which keep their priors; the
candidate has none. Its estimate is that of least squares, and its share is the part of the sum of squares that it takes
away. The deviations are widened by the square root of what is left for each reading: residuals that no candidate
explains are not white. A ranking is a lead, not a proof: candidates that move the same readings alike share the credit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.errors import SpacearmError
from spacearm.model.toml_write import toml_text
from spacearm.simulate.world import SEPARATOR
from spacearm.study.document_keys import ROBOT, parse_robot
from spacearm.text_format import format_number
from spacearm.typing import Array
from spacearm.validation._measured_run import MeasuredRun
from spacearm.validation.comparison import Comparison

#: A candidate whose step changes every reading by less, in its standard deviations, changes none.
LEAST_EFFECT = 1e-6


@dataclass(frozen=True)
class AssumptionCandidate:
    """An assumption that may be relaxed: what it is, the step (SI) for its slope, and how the tables change by it."""

    name: str
    unit: str
    step: float
    change: Callable[[dict[str, Any], float], None]


@dataclass(frozen=True)
class RelaxedAssumption:
    """An estimate of what was assumed to be zero, or of a change of what was stated.

    Args:
        share: of the sum of squares of all readings, which it takes away.
    """

    name: str
    unit: str
    value: float
    sd: float
    share: float

    def estimate(self) -> str:
        """The estimate with its deviation and unit."""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{format_number(self.value, 3)} ± {format_number(self.sd, 2)}{unit}"


def find_candidates(measured: MeasuredRun) -> Iterator[AssumptionCandidate]:
    """Assumptions of this scenario that may be relaxed and are not uncertain numbers of it already."""
    file = measured.file
    stated = {entry.key for entry in file.uncertain}
    systems = list(measured.world.systems)

    def add_gravity(axis: int) -> Callable[[dict[str, Any], float], None]:
        def change(tables: dict[str, Any], step: float) -> None:
            gravity = list(tables["scenario"].get("gravity") or [0.0, 0.0, 0.0])
            gravity[axis] += step
            tables["scenario"]["gravity"] = gravity

        return change

    def add_drag(frame: str, kind: str) -> Callable[[dict[str, Any], float], None]:
        def change(tables: dict[str, Any], step: float) -> None:
            own = {"frame": frame, kind: step, "name": f"relaxed {kind}"}
            tables["scenario"]["drag"] = [*tables["scenario"].get("drag", []), own]

        return change

    def add_moment(frame: str) -> Callable[[dict[str, Any], float], None]:
        def change(tables: dict[str, Any], step: float) -> None:
            own = {"frame": frame, "moment": [0.0, 0.0, step], "end": measured.duration + 1.0}
            tables["scenario"]["push"] = [*tables["scenario"].get("push", []), own]

        return change

    def add_to(place: str, number: int, name: str, before: float) -> Callable[[dict[str, Any], float], None]:
        def change(tables: dict[str, Any], step: float) -> None:
            own = tables["scenario"][place][number]
            own[name] = own.get(name, before) + step

        return change

    def add_delays(numbers: list[int], place: str) -> Callable[[dict[str, Any], float], None]:
        def change(tables: dict[str, Any], step: float) -> None:
            for number in numbers:
                own = tables["scenario"][place][number]
                own["delay"] = own.get("delay", 0.0) + step

        return change

    # An arm on a held base feels gravity along every axis; one that moves nothing is no candidate in the end.
    for axis, label in enumerate("xyz"):
        if f"gravity[{axis}]" not in stated:
            yield AssumptionCandidate(f"tilt or gravity along {label}", "m/s2", 1e-4, add_gravity(axis))
    caught = () if file.catch is None else (file.catch.guest,)
    for number, system in enumerate(systems):
        body = measured.world.robot(system).bodies[0].name
        frame = body if not number else f"{system}{SEPARATOR}{body}"
        if system not in caught:
            yield AssumptionCandidate(f"drag on {system}", "N s/m", 1e-2, add_drag(frame, "linear"))
            yield AssumptionCandidate(
                f"drag on the rotation of {system}", "N m s/rad", 1e-4, add_drag(frame, "angular")
            )
        # Air of the bearings: on a table, a body turns by a moment that nobody meant.
        pushed = [k for k, push in enumerate(file.push) if push.frame == frame]
        if measured.world.robot(system).base.kind == "planar" and not any(
            f"push[{k}].moment[2]" in stated for k in pushed
        ):
            yield AssumptionCandidate(f"steady moment on {system}", "N m", 1e-5, add_moment(frame))
    for number, entry in enumerate(file.input):
        if entry.target[0] != "driven" and f"input[{number}].scale" not in stated:
            yield AssumptionCandidate(f"scale of {entry.to}, less 1", "1", 0.03, add_to("input", number, "scale", 1.0))
    for kind, numbers in _inputs_by_kind(measured).items():
        if not any(f"input[{number}].delay" in stated for number in numbers):
            yield AssumptionCandidate(f"delay of {kind}", "s", 0.01, add_delays(numbers, "input"))
    for system, numbers in _channels_by_system(measured).items():
        if len(systems) > 1 and not any(f"channel[{number}].delay" in stated for number in numbers):
            yield AssumptionCandidate(f"delay of the readings of {system}", "s", 0.01, add_delays(numbers, "channel"))
    for k, table in enumerate(file.system):
        key = f"system[{table.name}].body.mass"
        own = file.model_dump(exclude_unset=True)["system"][k].get("body")
        if key not in stated and isinstance(own, dict) and "mass" in own:
            mass = float(own["mass"])

            def change(tables: dict[str, Any], step: float, k: int = k) -> None:
                tables["scenario"]["system"][k]["body"]["mass"] += step

            yield AssumptionCandidate(f"mass of {table.name}, change", "kg", 0.01 * mass, change)
    for number, part in enumerate(measured.robot.bodies):
        if part.inertia.mass > 0.0 and f"{ROBOT}body[{part.name}].mass" not in stated:
            yield AssumptionCandidate(
                f"mass and inertia of {part.name}, factor less 1", "1", 0.03, _scale_body(measured, number)
            )
    if file.catch is not None and "catch.time" not in stated:

        def move_catch(tables: dict[str, Any], step: float) -> None:
            tables["scenario"]["catch"]["time"] += step

        yield AssumptionCandidate("instant of the catch, change", "s", 0.01, move_catch)
    if file.catch is not None and file.catch.swing == "free" and file.catch.pin is not None:
        for name, unit, size in (
            ("friction", "N m", 1e-3),
            ("damping", "N m s/rad", 1e-3),
            ("stiffness", "N m/rad", 1e-3),
        ):
            if f"catch.pin.{name}" not in stated:

                def loosen(tables: dict[str, Any], step: float, name: str = name) -> None:
                    pin = tables["scenario"]["catch"]["pin"]
                    pin[name] = pin.get(name, 0.0) + step

                yield AssumptionCandidate(f"{name} of the grasp, change", unit, size, loosen)


def _scale_body(measured: MeasuredRun, number: int) -> Callable[[dict[str, Any], float], None]:
    """A change of all inertias of a body of the robot by the same factor."""

    def change(tables: dict[str, Any], step: float) -> None:
        if "robot" not in tables:
            # In place of its file, with all that is mounted on it.
            tables["robot"] = parse_robot(toml_text(measured.robot))
            tables["scenario"]["robot"] = measured.file.robot.file
        own = tables["robot"]["body"][number]
        own |= {"mass": own["mass"] * (1.0 + step), "inertia": [each * (1.0 + step) for each in own["inertia"]]}

    return change


def _inputs_by_kind(measured: MeasuredRun) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, entry in enumerate(measured.file.input):
        kind = "joint paths" if entry.target[0] == "driven" else "forces"
        found.setdefault(kind, []).append(number)
    return found


def _channels_by_system(measured: MeasuredRun) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, entry in enumerate(measured.file.channel):
        system, separator, _ = entry.quantity.partition(SEPARATOR)
        named = bool(separator) and system in measured.world.systems
        found.setdefault(system if named else next(iter(measured.world.systems)), []).append(number)
    return found


def relax_assumptions(measured: MeasuredRun, comparison: Comparison) -> list[RelaxedAssumption]:
    """Estimates of what was assumed, that which explains most first."""
    rows, stacked = comparison.rows, measured.stacked_readings
    base = measured.changed_tables(rows.deviations)
    middle = stacked.scaled_readings - rows.residual
    count = rows.slopes.shape[1]
    # All readings with the priors of the uncertain numbers as further rows.
    design = np.vstack([rows.slopes, np.eye(count)])
    target = np.concatenate([rows.residual, -rows.deviations])
    orthogonal, _ = np.linalg.qr(design) if count else (np.zeros((target.size, 0)), None)

    def project(vector: Array) -> Array:
        return np.asarray(vector - orthogonal @ (orthogonal.T @ vector))

    left = project(target)
    total = float(left @ left)
    found = []
    for candidate in find_candidates(measured):
        tables = deepcopy(base)
        try:
            candidate.change(tables, candidate.step)
            values = measured.read(*measured.run_tables(tables))
            slope = (
                np.concatenate([values[name] for name in stacked.readings]) / stacked.sigma - middle
            ) / candidate.step
        except SpacearmError:
            # A change that the scenario does not permit (a lock, a table of its own) is not a candidate.
            continue
        # What moves no reading (gravity on a free robot's joints) has the slope of rounding.
        if not np.all(np.isfinite(slope)) or np.abs(slope).max(initial=0.0) * candidate.step < LEAST_EFFECT:
            continue
        own = project(np.concatenate([slope, np.zeros(count)]))
        # What is left of the slope beside the uncertain numbers: only that can be told from them.
        power = float(own @ own)
        # What the uncertain numbers can do already is not news.
        if power <= 1e-6 * float(slope @ slope):
            continue
        value = float(own @ left) / power
        # By how much the sum of squares falls, relative to what the uncertain numbers leave of it.
        share = value**2 * power / max(total, 1e-300)
        rest = max(total * (1.0 - share), 0.0) / max(rows.residual.size - 1, 1)
        found.append(
            RelaxedAssumption(candidate.name, candidate.unit, value, float(np.sqrt(max(rest, 1.0) / power)), share)
        )
    return sorted(found, key=lambda each: -each.share)
