"""Flexible joints from a scenario file: tests from files or twins, one fit, what it is worth."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.identify.data import Column, read_measurements
from spacearm.identify.joint.chain import Chain, SensorNoise
from spacearm.identify.joint.figures import fit_figure, profile_figure, response_figure
from spacearm.identify.joint.identify import JointFit, identify_joints, profile_likelihood
from spacearm.identify.joint.laws import SPECIFICATION, Law
from spacearm.identify.joint.measured import JointTest, joint_test_from_measurements
from spacearm.identify.joint.problem import early
from spacearm.identify.joint.response import frequency_response, hold_out
from spacearm.identify.joint.scenario_schema import JointFile, NoiseTable, PathTable, TestTable, law_options
from spacearm.identify.joint.select import CANDIDATES, select_law
from spacearm.identify.joint.twin import observe, twin
from spacearm.identify.written import with_robot
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.model.files import robot_text
from spacearm.result import Certificate, Check, Figure, Result, Row
from spacearm.simulate import Signal, spline

DEGREE = np.pi / 180.0
MOST_SAMPLES = 1_000_000  # of a twin: more is a slip of the pen, and would fill the memory


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run a joint-identification scenario; ``folder`` is where relative files are looked for."""
    file = validated(JointFile, document)
    tell = progress or (lambda fraction, what: None)
    with at("robot"):
        robot = find_robot(file.robot, folder)
    with at("frame"):
        robot.frame(file.frame)
    chain = Chain(robot, file.frame, sensor_noise(file.noise))
    tell(0.05, "reading the tests")
    tests, truths = [], {}
    for index, entry in enumerate(file.test):
        with at(f"test[{index}]"):
            tests.append(joint_test(robot, chain, file, entry, folder))
        if entry.twin is not None:
            truths[entry.name] = entry.twin.truth
    used = [t for t, entry in zip(tests, file.test, strict=True) if not entry.hold_out]
    kept = [t for t, entry in zip(tests, file.test, strict=True) if entry.hold_out]
    if not used:
        raise InputError("every test is held out", place="test", hint="leave hold_out away in one or more")
    options: dict[str, Any] = {
        "drive": file.drive,
        "bounds": {name: (low, high) for name, (low, high) in file.bounds.items()},
        "guess": file.guess,
        "fixed": file.fixed,
        "offset_rate": file.offset_rate,
    }
    tell(0.2, "fitting")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = identify_joints(
            robot, used, law=Law(**law_options(file.law)), method=file.method, cost=file.cost,
            weighting=None if file.weighting_decay is None else early(file.weighting_decay), **options,
        )  # fmt: skip
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    rows = _rows(fit, truths)
    figures = [Figure(f"test-{k + 1}", fit_figure(fit, k), f"Test {t.name!r}: link minus motor and residuals.")
               for k, t in enumerate(used)]  # fmt: skip
    if file.profiles:
        tell(0.5, "profile likelihoods")
        known = [n for n in fit.model.setup.parameters if n in fit.estimate.names and 0.0 < fit.std(n) < np.inf]
        profiles = [profile_likelihood(fit, name, points=7) for name in known]
        rows += [Row(f"{p.name}.interval", list(p.interval), note="95 %, profile likelihood") for p in profiles]
        figures.append(
            Figure("profiles", profile_figure(fit, profiles), "Profile likelihoods of the common parameters.")
        )
    if file.select is not None:
        tell(0.6, "which law")
        rows += _selection(robot, used, file, options)
    if kept:
        tell(0.8, "tests held out")
        for found in hold_out(fit, kept, offset_rate=file.offset_rate, bounds=_by_kind(options["bounds"])):
            rows.append(Row(f"hold_out.{found.test}.rms", found.rms / DEGREE, "deg", note="error of the link's angle"))
            rows.append(
                Row(f"hold_out.{found.test}.rigid_rms", found.rigid_rms / DEGREE, "deg", note="with a rigid joint")
            )
            rows.append(Row(f"hold_out.{found.test}.chi2", found.chi2, note="1 is a perfect model"))
    tell(0.9, "frequency response")
    responses = frequency_response(fit, np.geomspace(0.1, 100.0, 200))
    rows += [Row(f"{r.joint}.resonance", r.resonance, "rad/s", note=f"motor held; sd {r.resonance_sd:.2g}")
             for r in responses]  # fmt: skip
    figures.append(Figure("response", response_figure(responses), "Link angle for a sinus of the motor angle."))
    certificate = {"converged": Check.that(fit.estimate.converged, str(fit.estimate.reason))}
    if np.isfinite(fit.chi2):
        certificate["chi2"] = Check(fit.chi2, 4.0, "", "mean squared residual in standard deviations")
    if cross_check:
        certificate["cross_check"] = Check.not_applicable(
            "the forward model has no counterpart in MuJoCo; its tests hold it against plain runs"
        )
    summary = "\n\n".join(fit.remarks) or "Every parameter is determined by the data."
    result = Result(
        "joint-identification",
        rows,
        Certificate(certificate),
        {"robot": robot.name, "drive": file.drive, "method": fit.estimate.method, "law": fit.model.setup.law.name,
         "evaluations": fit.estimate.evaluations, "seconds": fit.seconds},
        None,
        figures,
        file.title or f"Flexible joints of {robot.name}",
        summary,
    )  # fmt: skip
    comments = ("joint values identified from measured motion",)
    return with_robot(result, "identified.toml", lambda: robot_text(fit.robot(), "toml", comments))


def _by_kind(bounds: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Bounds that hold for any test, not those of a test by its name."""
    return {name: pair for name, pair in bounds.items() if "." not in name}


def sensor_noise(table: NoiseTable) -> SensorNoise:
    return SensorNoise(
        table.encoder_deg * DEGREE, table.base_position, table.base_attitude_deg * DEGREE, table.hand_position,
        table.hand_attitude_deg * DEGREE, table.torque,
    )  # fmt: skip


def joint_test(robot: Robot, chain: Chain, file: JointFile, entry: TestTable, folder: Path) -> JointTest:
    """One test, from its file or its twin."""
    if (entry.file is None) == (entry.twin is None):
        raise InputError("needs either a file or a twin", hint='file = "..." or [test.twin]')
    if entry.twin is not None:
        return _twin_test(robot, chain, file, entry)
    path = folder / str(entry.file)
    try:
        return _measured_test(robot, chain, file, entry, path)
    except InputError as error:  # what is found out after reading is still the measured file's fault
        raise error if error.file is not None else error.in_file(path) from None


def _measured_test(robot: Robot, chain: Chain, file: JointFile, entry: TestTable, path: Path) -> JointTest:
    angles = {*robot.joint_names, "base_angle", "hand_angle"}
    columns = {key: Column(c.column, c.unit, unwrap=key in angles, offset=c.offset) for key, c in entry.columns.items()}
    data = read_measurements(
        path, columns, time=Column(entry.time.column, entry.time.unit or "s"),
        missing=entry.missing, gaps=entry.gaps,
    )  # fmt: skip
    torque: Literal["known", "measured"] = "known" if file.drive == "torque" else "measured"
    if file.angle == "measured":
        return joint_test_from_measurements(
            entry.name, chain, data, angle="measured", torque=torque, from_rest=entry.from_rest
        )
    return joint_test_from_measurements(
        entry.name,
        chain,
        data,
        plane=file.planar,
        method=file.angle,
        attitude=file.attitude,
        torque=torque,
        from_rest=entry.from_rest,
        start_known=entry.base_at_origin,
    )


def _twin_test(robot: Robot, chain: Chain, file: JointFile, entry: TestTable) -> JointTest:
    table = entry.twin
    assert table is not None
    links = {f.name for f in chain.flexible}
    for joint in table.truth:
        if joint not in links:
            raise InputError(f"{joint!r} is no flexible joint", place="twin.truth", hint=did_you_mean(joint, links))
        for name in table.truth[joint]:
            if name.removesuffix("_deg") not in SPECIFICATION:
                raise InputError(f"there is no parameter {name!r}", place=f"twin.truth.{joint}",
                                 hint=did_you_mean(name, SPECIFICATION))  # fmt: skip
    needed = [name for name in robot.joint_names if name not in links]
    for joint in table.motion:
        if joint not in needed:
            raise InputError(f"{joint!r} is not driven", place="twin.motion", hint=did_you_mean(joint, needed))
    truth = {
        joint: {n.removesuffix("_deg"): v * (DEGREE if n.endswith("_deg") else 1.0) for n, v in own.items()}
        for joint, own in table.truth.items()
    }
    paths = {joint: _path(table.motion.get(joint, PathTable()), table.duration) for joint in needed}
    count = round(table.duration * table.rate)
    if not 3 <= count <= MOST_SAMPLES:
        raise InputError(f"duration {table.duration:g} s at {table.rate:g} Hz is not usable", place="twin",
                         hint=f"expected 4 to {MOST_SAMPLES} samples")  # fmt: skip
    seen = twin(robot, file.frame, truth, paths, np.arange(count + 1) / table.rate, law=Law(**law_options(table.law)))
    rng = None if table.seed is None else np.random.default_rng(table.seed)
    method = "least_squares" if file.angle == "measured" else file.angle
    return observe(
        seen,
        file.frame,
        chain.noise,
        rng,
        entry.name,
        method=method,
        attitude=file.attitude,
        start_known=entry.base_at_origin,
        chain=chain,
    )


def _path(table: PathTable, duration: float) -> Signal:
    if table.times is not None or table.values_deg is not None:
        if table.times is None or table.values_deg is None or len(table.times) != len(table.values_deg):
            raise InputError("times and values_deg differ in number", place="twin.motion")
        return spline(table.times, np.asarray(table.values_deg) * DEGREE)
    row = np.array([[table.start_deg], [0.0], [0.5 * table.acceleration_deg]]) * DEGREE
    return Signal(np.array([0.0, duration]), row)


def _rows(fit: JointFit, truths: dict[str, dict[str, dict[str, float]]]) -> list[Row]:
    rows = []
    for one in fit.summary():
        name, unit, scale = one["name"], one["unit"], 1.0
        if unit.startswith("rad"):
            unit, scale = unit.replace("rad", "deg"), 1.0 / DEGREE
        note = "on a bound" if one["name"] in fit.at_bounds else ""
        joint, word = name.split(".")[0], name.rsplit(".", 1)[1]
        known = {own[joint][word] for own in truths.values() if word in own.get(joint, {})}
        if len(known) == 1 and word != "offset":
            note = ", ".join(filter(None, [note, f"twin: {known.pop() * scale:g}"]))
        rows.append(Row(name, one["value"] * scale, unit, note=note))
        rows.append(Row(f"{name}.sd", one["sd"] * scale, unit))
    rows.append(Row("chi2", fit.chi2, note="mean squared residual in standard deviations"))
    rows.append(Row("evaluations", fit.estimate.evaluations))
    names = list(fit.estimate.names)
    correlation = fit.estimate.correlation
    for i, j in zip(*np.triu_indices(len(fit.model.setup.parameters), 1), strict=True):
        if max(i, j) < len(names):
            rows.append(Row(f"correlation.{names[i]}.{names[j]}", float(correlation[i, j])))
    return rows


def _selection(robot: Robot, tests: list[JointTest], file: JointFile, options: dict[str, Any]) -> list[Row]:
    assert file.select is not None
    for name in file.select.candidates:
        if name not in CANDIDATES:
            raise InputError(f"there is no candidate {name!r}", place="select.candidates",
                             hint=did_you_mean(name, CANDIDATES))  # fmt: skip
    laws = {name: CANDIDATES[name] for name in file.select.candidates}
    found = select_law(robot, tests, laws, criterion=file.select.criterion, **options)
    rows = [Row("law", found.chosen.name, note="; ".join(found.reasons))]
    rows += [Row(f"law.{c.name}.{file.select.criterion}",
                 c.prediction if file.select.criterion == "cross_validation" else getattr(c, file.select.criterion))
             for c in found.candidates]  # fmt: skip
    return rows
