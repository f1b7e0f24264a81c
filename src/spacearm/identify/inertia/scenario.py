"""Inertia identification from a scenario file: simulated or measured experiments in, numbers with their origin out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.consistent import possible as possible_body
from spacearm.identify.inertia.experiment import Experiment, Firing, Nodes, measure
from spacearm.identify.inertia.figures import figures
from spacearm.identify.inertia.identifiability import Identifiability, identifiability
from spacearm.identify.inertia.identify import Identification, identify, thinned
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_files import Channel, read_record
from spacearm.identify.inertia.schema import ExperimentTable, PathTable, Scenario, SensorTable
from spacearm.identify.inertia.sensors import MOMENTUM_CHANNELS, TYPICAL_NOISE, Sensors
from spacearm.identify.inertia.standard_parameters import Prior, Source
from spacearm.identify.inertia.validate import Comparison, HoldOut, Torque, compare_models, hold_out, hold_out_record
from spacearm.identify.inertia.writeback import identified_text
from spacearm.identify.measurements import Column
from spacearm.identify.written import with_robot
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.result import Certificate, Check, Result, Row

#: Of one experiment: more is a slip of the pen, and would fill the memory.
MOST_SAMPLES = 1_000_000


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run a scenario with ``study = "inertia-identification"``."""
    tell = progress or (lambda share, what: None)
    plan = validated(Scenario, document)
    with at("robot"):
        drawing = find_robot(plan.robot, folder)
    real = _real(plan, drawing, folder)
    sensors = _sensors(plan.sensors)
    experiments = [_experiment(table) for table in plan.experiment]
    for k, experiment in enumerate(experiments):
        if experiment.duration > MOST_SAMPLES * sensors.interval:
            raise InputError(
                f"{experiment.duration:g} s every {sensors.interval:g} s are too many samples",
                place=f"experiment[{k}].duration",
                hint=f"expected at most {MOST_SAMPLES}",
            )
    _distinct([experiment.name for experiment in experiments], "experiment")
    used = [k for k, table in enumerate(plan.experiment) if not table.hold_out]
    if not used:
        raise InputError("every experiment is held out", place="experiment", hint="at least one must be used")
    clean: list[Record] = []
    drawn: list[Record] = []
    for k in used:
        table, experiment = plan.experiment[k], experiments[k]
        tell(0.3 * k / len(experiments), f"experiment {experiment.name}")
        with at(f"experiment[{k}]"):
            planned = measure(real, experiment, sensors)
        clean.append(planned)
        if table.file is None:
            drawn.append(planned.biased(sensors).noisy([plan.sensors.seed, k]))
        else:
            drawn.append(_read(table, experiment, sensors, drawing, folder))
    tell(0.4, "identifiability")
    kinds = tuple(plan.estimate.equations)
    possible = identifiability(InertiaProblem(drawing, clean, kinds))
    tell(0.5, "estimate")
    prior = _prior(plan, drawing)
    found = identify(drawing, drawn, method=plan.estimate.method, kinds=kinds, prior=prior)
    simulated = all(plan.experiment[k].file is None for k in used)
    truth = found.problem.base_parameters.combine @ real.inertia_parameters.ravel() if simulated else None
    carlo = None
    if plan.monte_carlo is not None:
        tell(0.6, "Monte Carlo")
        carlo = monte_carlo(
            InertiaProblem(drawing, thinned(clean), kinds),
            found.problem.base_parameters.combine @ real.inertia_parameters.ravel(),
            plan.monte_carlo.repetitions,
            plan.monte_carlo.seed,
        )
    tell(0.9, "validation")
    rows = zip(drawing.bodies, found.inertia.reshape(-1, 10), strict=True)
    able = all(possible_body(row) or body.inertia.mass == 0 for body, row in rows)
    comparison = _validate(plan, real, found) if able else None
    held = [
        _hold_out(plan, k, experiments[k], sensors, drawing, real, found, folder, able)
        for k, table in enumerate(plan.experiment)
        if table.hold_out
    ]
    certificate = _certificate(clean, found, truth, carlo)
    if cross_check:
        tell(0.95, "cross-check with MuJoCo")
        certificate |= {"mujoco": {experiments[k].name: _cross_check(real, experiments[k]) for k in used}}
    tell(1.0, "done")
    result = Result(
        "inertia-identification",
        [
            *_rows(possible, found, truth, carlo, [one for one in held if one is not None]),
            *_validation_rows(plan, comparison, simulated, able),
        ],
        certificate,
        {
            "robot": plan.robot,
            "experiments": [record.name for record in drawn],
            "method": found.estimate.method,
            "equations": list(kinds),
            "noise": {name: sensors.sigma(name) for name in sensors.channels},
            "prior": "none" if prior is None else prior.source,
            "passes": list(found.problem.base_parameters.passes),
        },
        figures=figures(possible, found, carlo),
        title=plan.title or f"Inertia identification of {drawing.name}",
        summary=_summary(possible, found),
    )
    name = plan.estimate.write
    if name is None:
        return result
    names, method = [record.name for record in drawn], found.estimate.method
    return with_robot(
        result,
        name,
        lambda: identified_text(found.known, name, inertia=found.inertia, records=names, method=method),
        "" if able else "the identified inertias belong to no possible body",
    )


def _real(plan: Scenario, drawing: Robot, folder: Path) -> Robot:
    """The robot that is simulated: another file, or the drawing with scaled inertias."""
    with at("real"):
        robot = drawing if plan.real is None else find_robot(plan.real, folder)
    if robot.joint_names != drawing.joint_names or robot.body_names != drawing.body_names:
        raise InputError("has other bodies or joints than the drawing", place="real", hint="expected the same names")
    if plan.real_scale != 1.0:
        robot = robot.with_inertia_parameters(robot.inertia_parameters * plan.real_scale)
    return robot


def _sensors(table: SensorTable) -> Sensors:
    noise: dict[str, float] = {}
    if table.noise == "typical":
        noise = dict(TYPICAL_NOISE)
    elif isinstance(table.noise, dict):
        noise = {str(name): float(value) for name, value in table.noise.items()}
    channels = tuple(table.channels) if table.channels is not None else MOMENTUM_CHANNELS
    return Sensors(
        np.array(table.mount),
        table.interval,
        channels,
        noise,
        {str(name): np.array(value) for name, value in table.bias.items()},
        {str(name): float(value) for name, value in table.bias_sigma.items()},
    )


def _nodes(table: PathTable, place: str) -> Nodes:
    if (table.positions is None) == (table.positions_deg is None):
        raise InputError("give positions or positions_deg", place=f"{place}, path of {table.joint!r}")
    if table.positions is not None:
        return Nodes(np.array(table.times), np.array(table.positions))
    assert table.positions_deg is not None
    return Nodes(np.array(table.times), np.deg2rad(table.positions_deg))


def _experiment(table: ExperimentTable) -> Experiment:
    place = f"experiment {table.name!r}"
    _distinct([path.joint for path in table.path], f"{place}, path")
    return Experiment(
        table.name,
        table.duration,
        table.configuration,
        {path.joint: _nodes(path, place) for path in table.path},
        [Firing(f.thruster, f.start, f.end, f.level) for f in table.firing],
        tuple(table.base_velocity),
        tuple(table.base_angular_velocity),
        table.known_momentum,
    )


def _read(table: ExperimentTable, experiment: Experiment, sensors: Sensors, robot: Robot, folder: Path) -> Record:
    assert table.file is not None
    columns = None
    if table.columns is not None:
        columns = {str(name): Channel(tuple(c.names), c.unit, c.unwrap) for name, c in table.columns.items()}
    path = folder / table.file
    try:
        return read_record(
            path,
            robot,
            experiment,
            sensors,
            columns,
            time=Column(table.time.name, table.time.unit),
            missing=table.missing,
            gaps=table.gaps,
        )
    except InputError as error:
        raise error if error.file is not None else error.in_file(path) from None


def _prior(plan: Scenario, drawing: Robot) -> Prior | None:
    table = plan.estimate
    if table.prior is None and not table.known_bodies:
        return None
    known = Prior.known_bodies(drawing, table.known_bodies, f"{', '.join(table.known_bodies)} known")
    if table.prior is None:
        return known
    whole = Prior.from_robot(drawing, table.prior, f"drawing {plan.robot} with {100 * table.prior:g} % deviation")
    return Prior(whole.mean, np.minimum(whole.sigma, known.sigma), whole.source)


def _validate(plan: Scenario, real: Robot, found: Identification) -> Comparison | None:
    table = plan.validation
    if table is None:
        return None
    torques = [Torque(t.joint, t.amplitude, t.frequency, t.phase) for t in table.torque]
    return compare_models(real, found.inertia, torques, table.duration, table.configuration)


def _rows(
    possible: Identifiability,
    found: Identification,
    truth: Any,
    carlo: MonteCarlo | None,
    held: list[HoldOut],
) -> list[Row]:
    rows = [Row(f"rank.after.{stage.experiment}", stage.rank) for stage in possible.stages]
    rows.append(
        Row("rank.total", possible.rank, note=f"{possible.base_parameters.rank} could be determined by any motion")
    )
    rows.append(Row("null.dimension", possible.null_dimension))
    rows.append(Row("rank.condition", possible.stages[-1].condition))
    estimate = found.estimate
    for k, name in enumerate(estimate.names):
        note = f"standard deviation {estimate.std[k]:.3g}; {found.problem.base_parameters.parameters[k].formula}"
        if not np.isfinite(estimate.std[k]):
            rows.append(Row(f"combination.{name}", None, estimate.units[k], note="not determined by these experiments"))
            continue
        rows.append(Row(f"combination.{name}", float(estimate.values[k]), estimate.units[k], note=note))
    for number in found.known.numbers:
        value = None if number.source is Source.UNDETERMINED else number.value
        rows.append(Row(f"{number.body}.{number.symbol}", value, number.unit, note=number.text.split(":")[-1].strip()))
    if truth is not None:
        errors = (estimate.values - truth) / estimate.std
        rows.append(Row("error.largest", float(np.nanmax(np.abs(errors))), "standard deviations"))
    if carlo is not None:
        rows.append(Row("noise.coverage", carlo.coverage, note=f"of 95 % intervals, {len(carlo.values)} repetitions"))
        rows.append(Row("noise.chi_square", float(carlo.chi_square.mean()), note="per degree of freedom"))
    for one in held:
        rows.append(Row(f"hold_out.{one.experiment}.base_rate", one.base_rate, "rad/s", note="root mean square"))
        rows.append(Row(f"hold_out.{one.experiment}.base_velocity", one.base_velocity, "m/s", note="root mean square"))
    return rows


def _validation_rows(plan: Scenario, comparison: Comparison | None, simulated: bool, able: bool) -> list[Row]:
    if not able and (plan.validation is not None or any(table.hold_out for table in plan.experiment)):
        note = "the identified inertias belong to no possible body and cannot be simulated: use method = 'consistent'"
        return [Row("validation.possible", False, note=note)]
    if comparison is None:
        return []
    note = "against the simulated robot"
    if not simulated:
        note = "against the drawing" if plan.real is None else f"against {plan.real}"
        note += ", not against the measured robot, whose inertias nobody knows"
    return [
        Row(f"validation.{name}", largest, "m" if name == "base_position" else "rad", note=note)
        for name, largest in comparison.largest().items()
    ]


def _hold_out(
    plan: Scenario,
    k: int,
    experiment: Experiment,
    sensors: Sensors,
    drawing: Robot,
    real: Robot,
    found: Identification,
    folder: Path,
    able: bool,
) -> HoldOut | None:
    """Prediction of an experiment that was not used: measured, when it has a file, or simulated."""
    table = plan.experiment[k]
    if table.file is not None:
        return hold_out_record(drawing, found.inertia, _read(table, experiment, sensors, drawing, folder))
    return hold_out(real, found.inertia, experiment, sensors) if able else None


def _distinct(names: list[str], what: str) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{twice[0]!r} stands twice", place=what, hint="expected different names")


def _certificate(clean: list[Record], found: Identification, truth: Any, carlo: MonteCarlo | None) -> Certificate:
    checks = {"simulations": Check(float(sum(not record.sound for record in clean)), 0.0, "", "runs that broke a law")}
    if found.fit is not None:
        spread = 6.0 * np.sqrt(2.0 / max(found.fit.freedom, 1)) + 0.05
        checks["chi_square"] = (
            Check(2.0 * float(found.fit.cost) / max(found.fit.freedom, 1) - 1.0, float(spread), "", "minus 1")
            if not found.problem.assumed_noise
            else Check.not_applicable("no noise stated")
        )
    if truth is not None and found.fit is not None and not found.problem.assumed_noise:
        errors = (found.estimate.values - truth) / found.estimate.std
        checks["errors"] = Check(float(np.nanmax(np.abs(errors))), 5.0, "", "largest error in standard deviations")
    if carlo is not None:
        checks["coverage"] = Check(carlo.coverage - 0.94, 0.04, "", "coverage of 95 % intervals minus 0.94")
    return Certificate(checks)


def _cross_check(real: Robot, experiment: Experiment) -> Check:
    """The simulated motion once more with MuJoCo's dynamics."""
    from spacearm.simulate.crosscheck import cross_check

    times = np.linspace(0.0, experiment.duration, 31)
    outcome = cross_check(experiment.run(real, times))
    if not outcome.expressed:
        return Check.not_applicable(outcome.reason)
    return Check(outcome.largest, 1e-8, "", "largest relative difference to MuJoCo")


def _summary(possible: Identifiability, found: Identification) -> str:
    counts = found.known.counts()
    whole = possible.base_parameters
    text = (
        f"The experiments determine {possible.rank} combinations of {whole.combine.shape[1]} inertia "
        f"parameters; any motion "
        f"could determine {whole.rank}. Of the single numbers {counts['data']} come from the data, "
        f"{counts['prior']} from "
        f"the prior, {counts['undetermined']} stay undetermined."
    )
    if possible.missing_words:
        text += " Not seen by these experiments: " + "; ".join(possible.missing_words[:3]) + "."
    return text
