"""What a fit of flexible joints may lack, and remarks on it.

Suspects are delayed or biased sensors, friction, nonlinear springs, wrong torques: each is a column of derivatives
(T, channels) that the fit does not have. How much it would explain of the residuals is C. R. Rao's score test (1948):
chi-square with one degree of freedom if the suspect is absent. The test needs no new fit, but it sees only the
neighbourhood of the present one.

Remarks say in words what is not determined, what the residuals show, and what to try.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from spacearm.identify._fit import Score, score_tests
from spacearm.identify._nuisances import JOINT_KEYS, JOINT_NUISANCES
from spacearm.identify.joint._input_errors import InputErrors
from spacearm.identify.joint.flexible_joints import linearise
from spacearm.identify.joint.laws import SPECIFICATION, JointLaw
from spacearm.identify.joint.measured import BASE
from spacearm.identify.joint.problem import JointProblem
from spacearm.optimise.diagnose import LEVEL, Diagnosis
from spacearm.typing import Array

#: No nuisance is estimated or tested.
OFF: Final[dict[str, Literal["off", "test", "estimate"]]] = dict.fromkeys(JOINT_KEYS, "off")
#: A motor inertia or stiffness whose standard deviation is more than this share of it is not determined.
LOOSE = 0.5
#: Dry friction that would stick for more than this share of the samples is reported.
CREEP = 0.1


def score_of(name: str, statistic: float, size: float, unit: str) -> Score:
    """The score of one number, with its words."""
    channel, word = name.rsplit(".", 1)
    nuisance = JOINT_NUISANCES[word]
    what = (f"{channel} " if word in ("bias", "drift") else "") + nuisance.advice
    advice = f"{what} (about {size:.2g} {unit}, {statistic**0.5:.1f} deviations): try {nuisance.remedy}"
    return Score(name, statistic, 1, advice, what=what, size=size, unit=unit)


def suspects(model: JointProblem, x: Array, ignored: tuple[str, ...] = ()) -> tuple[Score, ...]:
    """Every suspect that these tests could show, at the optimum ``x``; the worst first."""
    if not all(np.all(np.isfinite(rows)) for rows in model.compute_residuals(x)):  # the motion cannot be followed
        return ()
    parts: list[dict[str, Array]] = [fault_columns(model, x, k, ignored) for k in range(len(model.tests))]
    names = sorted({name for part in parts for name in part})
    # In standard deviations: where noise is unknown, residuals carry its size.
    residual = np.concatenate([rows.ravel() for rows in model.compute_residuals(x)]) / np.sqrt(model.variance(x))
    jacobian = model.compute_jacobian(x) / np.sqrt(model.variance(x))
    tested = {}
    for name in names:
        rows = [part.get(name, np.zeros(test.present.shape)) for part, test in zip(parts, model.tests, strict=True)]
        white = [model.whiten_rows(k, row, weighted=False).ravel() for k, row in enumerate(rows)]
        tested[name] = model.whiten_joined_rows(np.concatenate(white))[:, None] / np.sqrt(model.variance(x))
    found = []
    for name, statistic, _, sizes in score_tests(residual, jacobian, tested):
        if sizes is not None:
            word = name.rsplit(".", 1)[-1]
            drift = ("m/s" if name.startswith(BASE[:3]) else "rad/s") if word == "drift" else ""
            unit = drift or JOINT_NUISANCES[word].unit or SPECIFICATION.get(word, ("",))[0]
            found.append(score_of(name, statistic, float(sizes[0]), unit))
    return tuple(sorted(found, key=lambda one: -one.statistic))


def fault_columns(model: JointProblem, x: Array, test: int, ignored: tuple[str, ...]) -> dict[str, Array]:
    """Derivatives (T, channels) of one test's residuals by what the model does not have."""
    seen, run = model.tests[test], model.forwards[test]
    found: dict[str, Array] = {}
    if "delay" not in ignored and not model.late:
        found["sensors.delay"] = model.late_slopes(x, test)
    for k, channel in enumerate(seen.measured if "bias" not in ignored else ()):
        unit = np.broadcast_to(np.eye(len(seen.measured))[k], seen.present.shape)
        if channel not in seen.biases and model.may_lag(channel):
            found[f"{channel}.bias"] = unit
        if channel in BASE:
            found[f"{channel}.drift"] = unit * run.times[:, None]
    # An error of a torque acts through the equations of motion: the linear error model propagates it.
    errors = model.path_errors[test]
    if isinstance(errors, InputErrors):
        for i, (kind, joint) in enumerate(errors.inputs):
            if kind == "torque":
                readings = model.smoothed[test]["torque", joint].readings
                for word, row in (("torque_bias", np.ones(readings.size)), ("torque_scale", readings)):
                    found[f"{joint}.{word}"] = errors.propagate(row[:, None] * np.eye(len(errors.inputs))[i])
    # Torque channels are predicted with the fitted law's parameters only: suspects of a richer law are left out.
    if any(channel.endswith(".torque") for channel in seen.measured):
        return found
    # The fitted law with its missing terms at zero: same motion, but with derivatives along the new terms.
    law, setup = _richer(model.setup.law, "friction" in ignored, model.setup.drive == "torque"), model.setup
    rich = copy.copy(model)
    rich.setup = replace(setup, law=law)
    own, (_, offset, rate) = model.values(x), model.split(model.complete(x), test)
    values = np.array([own[f.name].get(name, 0.0) for f in setup.flexible for name in law.parameters])
    response = run.with_setup(rich.setup)(values, offset, rate, derivatives=True)
    slopes = rich.outputs(x, test, response)[1]
    for i, name in enumerate(rich.setup.parameters):
        if name not in setup.parameters:
            found[name] = np.nan_to_num(np.stack([slopes[channel][:, i] for channel in seen.measured], axis=1))
    return found


def _richer(law: JointLaw, frictionless: bool, free: bool) -> JointLaw:
    """The law with the terms that it may lack."""
    more = {"cubic": True, "spring": "coulomb" if law.spring == "none" else law.spring}
    if free and not frictionless:
        more |= {"motor": "coulomb" if law.motor == "none" else law.motor, "motor_damping": True}
    return replace(law, **more)  # type: ignore[arg-type]


def remarks_on(model: JointProblem, diagnosis: Diagnosis) -> list[str]:
    """Remarks on parameters that are not determined, and on effects of the set-up."""
    found, estimate, drive = [], diagnosis.estimate, model.setup.drive
    if drive == "rigid_torque":
        found.append(_rigid_torque(model, estimate.values))
    for name, value, sd in zip(estimate.names, estimate.values, estimate.std, strict=True):
        short = name.rsplit(".", 1)[1]
        # Singular information: reported apart from a loose value, because no finite interval is true.
        if not np.isfinite(sd):
            found.append(f"{name} is not determined by these data with drive {drive!r}{_advice(model, short)}")
        # Offsets and damping may be zero: a share of them would mean nothing.
        elif short in ("motor_inertia", "stiffness") and sd > LOOSE * abs(value):
            text = f"{name} = {value:.3g} is known only to +-{sd:.2g} with drive {drive!r}"
            found.append(text + _advice(model, short))
    for parameter, value in zip(estimate.parameters, estimate.values, strict=True):
        if parameter.name in diagnosis.parameters_on_bounds:
            found.append(f"{parameter.name} ended on its bound {value:.4g} {parameter.unit}: it would go further")
    for first, second, correlation in diagnosis.strong_correlations:
        found.append(f"{first} and {second} cannot be told apart (correlation {correlation:.4f})")
    found += _find_creep(model, estimate.values)
    joints = model.values(estimate.values)
    for k, test in enumerate(model.tests):
        # The slowest mode decides how long a test must be: less than one period does not separate frequency from drift.
        lowest = linearise(model.robot, model.configuration(k), joints).frequencies(drive == "motor_angle")
        if lowest.size and lowest[0] > 0 and test.duration < 2.0 * np.pi / lowest[0]:
            found.append(
                f"data of test {test.name!r} last {test.duration:.3g} s, less than a period of the oscillation "
                f"({2.0 * np.pi / lowest[0]:.3g} s): frequency and damping are hardly seen"
            )
    return found


def misfits(model: JointProblem, diagnosis: Diagnosis, doubts: tuple[Score, ...], outliers: int) -> list[str]:
    """Remarks on residuals that contradict the model, with advice."""
    found = []
    chi2, (low, high) = diagnosis.chi_square.ratio, diagnosis.chi_square.bounds()
    if model.noise_known and chi2 > high:
        found.append(
            f"residuals are {np.sqrt(chi2):.2f} times as large as the noise explains: the model lacks something"
        )
    elif model.noise_known and chi2 < low:
        found.append(f"residuals are only {np.sqrt(chi2):.2f} times as large as the noise stated: it is less than that")
    found += [f"suspected: {one.advice}" for one in doubts if one.p_value < LEVEL / len(doubts)]
    if outliers:
        found.append(f"data: {outliers} readings that their neighbours do not bear out were left out")
    # Five deviations: in a million Gaussian readings less than one.
    far = sum(int((np.abs(rows) > 5.0).sum()) for own in diagnosis.estimate.residuals.values() for rows in own.values())
    if model.noise_known and far:
        found.append(f"data: {far} readings are more than 5 deviations from the model: outliers, or a wrong model")
    return found


def _find_creep(model: JointProblem, x: Array) -> list[str]:
    """Remarks on places where real dry friction would stick but the smooth law creeps."""
    setup, found = model.setup, []
    count = len(setup.flexible)
    for where in ("motor", "spring"):
        if getattr(setup.law, where) == "none" or (where == "motor" and setup.drive == "motor_angle"):
            continue
        for i, f in enumerate(setup.flexible):
            slow = []
            for k, forward in enumerate(model.forwards):
                rates = model.respond(x, k).states[:, setup.places["velocity"]][:, 6:]
                path = forward.paths[model.robot.joint_names[f.motor]].derivative()(forward.times)
                motor = path if setup.drive == "motor_angle" else rates[:, count + i]
                speed = motor if where == "motor" else rates[:, i] - f.ratio * motor
                # Below the slip speed the smooth law is a viscous damper: real friction would hold.
                slow.append(np.abs(speed) < setup.law.slip_speed)
            share = float(np.mean(np.concatenate(slow)))
            if share > CREEP:
                found.append(
                    f"friction in the {where} of {f.name} would hold it during {share:.0%} of the samples; here it "
                    f"creeps at up to {setup.law.slip_speed:g} rad/s, which biases the values: try a lower slip_speed"
                )
    return found


def _advice(model: JointProblem, parameter: str) -> str:
    if parameter.startswith("motor_") and parameter != "motor_inertia":
        prescribed = model.setup.drive == "motor_angle"
        return (
            "; the motor's friction shows only in its torque: measure it, or use drive='torque'" if prescribed else ""
        )
    if parameter != "motor_inertia":
        return "; a larger start offset excites it more"
    if model.setup.drive == "motor_angle":
        return "; measure the base's attitude or the motor's torque as well"
    return ""


def _rigid_torque(model: JointProblem, x: Array) -> str:
    """Remark on the deviation of the modelled motor from its encoder under the rigid torque."""
    worst = 0.0
    for k, test in enumerate(model.tests):
        states = model.respond(x, k).states[:, model.setup.places["joints"]]
        count = len(model.setup.flexible)
        for i, f in enumerate(model.setup.flexible):
            seen = model.forwards[k].paths[model.robot.joint_names[f.motor]](test.time - test.time[0])
            worst = max(worst, float(np.sqrt(np.mean((states[:, count + i] - seen) ** 2))))
    return (
        "the torque comes from rigid inverse dynamics: where the real motor tracks its trajectory the values are "
        f"biased, however well they fit. The modelled motor leaves its encoder by {np.degrees(worst):.3g} deg rms; "
        "drive='motor_angle' keeps it there"
    )
