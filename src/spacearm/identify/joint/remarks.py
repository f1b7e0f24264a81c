"""Remarks on a fit of flexible joints: what is not determined, what the residuals show, and what to try."""

from __future__ import annotations

import numpy as np

from spacearm.identify.fit import Score
from spacearm.identify.joint.flexible_joints import linearise
from spacearm.identify.joint.problem import JointProblem
from spacearm.optimise.diagnose import LEVEL, Diagnosis
from spacearm.typing import Array

#: A motor inertia or stiffness whose standard deviation is more than this share of it is not determined.
LOOSE = 0.5
#: Dry friction that would stick for more than this share of the samples is reported.
CREEP = 0.1


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
