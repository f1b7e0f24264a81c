"""Fixed numbers of a joint test that are not exactly known (inertias, gear ratios, hysteresis): effect on the estimate.

"Consider" analysis: numbers that are neither estimated nor exact add noise to the residuals along their derivatives,
``r = J dp + C dn + e`` with dn of known covariance. The estimate then weights the data with both noises and its
covariance contains both (:mod:`spacearm.optimise.consider`). Derivatives C (T, channels) by each number are one-sided
differences of the prediction, or the columns of :mod:`~spacearm.identify.joint.misfit` for laws that the model lacks.

The problem is linearised about the estimate and iterated a few times; the numbers themselves are not estimated.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from spacearm.checks import check_name, non_negative
from spacearm.identify._nuisances import JOINT_NUISANCES
from spacearm.identify.inertia.inertia_parameters import known_inertia_numbers, typical_sizes
from spacearm.identify.joint._programs import Setup
from spacearm.identify.joint.flexible_joints import change_gear
from spacearm.identify.joint.misfit import fault_columns
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.sampling import delay_response
from spacearm.optimise.consider import ConsiderParameters, FixedNumber
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import Information
from spacearm.typing import Array

#: Steps of a number for its derivative, as a share of its size.
STEP = 1e-3
#: Fixed numbers are linearised anew so often, until a step is shorter than this many standard deviations.
ROUNDS, SETTLED = 8, 0.1
#: A gear ratio whose reciprocal may be off by this share is not known: no small error any more.
UNKNOWN_GEAR = 0.5


def fit_with_fixed_numbers(
    model: JointProblem, estimate: Estimate, deviations: Mapping[str, float]
) -> tuple[JointProblem, Estimate]:
    """Problem and estimate with the errors of fixed numbers among the noise, from an estimate without them.

    ``deviations``: as in :func:`consider_parameters`.
    """
    found, x = copy.copy(model), estimate.values
    for _ in range(ROUNDS):
        found.consider = consider_parameters(model, x, deviations)
        if found.consider is None:
            return model, estimate
        # Gauss-Newton with the enlarged noise, from an estimate that is already close: few steps, no damping needed
        # beyond the shortening below.
        residual, jacobian = found.residual_vector(x), found.residual_jacobian(x)
        step = -np.linalg.lstsq(jacobian * found.sizes, residual, rcond=1e-10)[0] * found.sizes
        new = _shorten(found, x, step, 0.5 * float(residual @ residual))
        # Length of the step in standard deviations of the residuals: independent of units.
        size, x = float(np.linalg.norm(jacobian @ (new - x))), new
        if size < SETTLED:
            break
    rest, information = found.residual_vector(x), Information.from_problem(found, x)
    covariance = information.covariance
    for k in _find_inertias_behind_gears(found, deviations):
        # Reported as not determined: the linear formula would give it a finite deviation that nothing supports.
        covariance[k], covariance[:, k], covariance[k, k] = 0.0, 0.0, np.inf
    cost = 0.5 * float(rest @ rest)
    return found, replace(estimate, values=x, cost=cost, information=information, covariance=covariance)


def _gear_deviation(deviations: Mapping[str, float], gear: float) -> float:
    """Standard deviation of the reciprocal of a joint's gear ratio, share."""
    return max(deviations.get("gear", 0.0), deviations.get("gear_of_one", 0.0) if gear == 1.0 else 0.0)


def _find_inertias_behind_gears(model: JointProblem, deviations: Mapping[str, float]) -> list[int]:
    """Places of motor inertias of which data show nothing but their ratio to a gear ratio that nobody knows.

    A motor on its encoder's path acts on the base with its inertia over the ratio; its torque, where it is measured or
    drives the motor, shows the inertia itself.
    """
    torque = any(channel.endswith(".torque") for test in model.tests for channel in test.measured)
    if torque or model.setup.drive != "motor_angle":
        return []
    unknown = [f.name for f in model.setup.flexible if _gear_deviation(deviations, f.gear) >= UNKNOWN_GEAR]
    return [k for k, name in enumerate(model.names) if name in {f"{joint}.motor_inertia" for joint in unknown}]


def _shorten(model: JointProblem, x: Array, step: Array, cost: float) -> Array:
    """Values after a step, shortened until the cost does not rise by more than rounding of its linear part."""
    for factor in (1.0, 0.5, 0.25, 0.125):
        new = np.clip(x + factor * step, model.lower, model.upper)
        rest = model.residual_vector(new)
        if 0.5 * float(rest @ rest) < cost + 0.5:
            return np.asarray(new)
    return x


def consider_parameters(model: JointProblem, x: Array, deviations: Mapping[str, float]) -> ConsiderParameters | None:
    """Fixed numbers with these standard deviations, linearised at values ``x``; None where none has an effect.

    ``deviations``: ``nominal``, or the name of a body: of inertias, share of each number's typical size; ``gear``: of
    the reciprocal of gear ratios, share (``gear_of_one``: of ratios of 1 alone); ``hysteresis``: of dry friction in
    springs, share of their largest torque; any of :data:`.JOINT_NUISANCES` that the law does not have, SI.
    """
    robot, place = model.robot, "consider"
    for name, value in deviations.items():
        check_name(
            name,
            ("nominal", "gear", "gear_of_one", "hysteresis", *robot.body_names, *JOINT_NUISANCES),
            "fixed number",
            place=place,
        )
        non_negative(value, name, place=place)
    numbers: dict[str, FixedNumber] = {}
    parts = [_columns(model, x, test, deviations, numbers) for test in range(len(model.tests))]
    if not numbers:
        return None
    rows = []
    for test, part in enumerate(parts):
        shape = model.tests[test].present.shape
        stacked = np.stack([part.get(name, np.zeros(shape)) for name in numbers], axis=2)
        rows.append(model.whiten_rows(test, stacked).reshape(-1, len(numbers)))
    return ConsiderParameters.from_derivatives(list(numbers.values()), np.concatenate(rows))


def _columns(
    model: JointProblem, x: Array, test: int, deviations: Mapping[str, float], numbers: dict[str, FixedNumber]
) -> dict[str, Array]:
    """Derivatives (T, channels) of one test's prediction by each fixed number; the numbers are added to ``numbers``."""
    robot, setup, found = model.robot, model.setup, {}
    nominal, sizes, rich = robot.inertia_parameters.ravel(), typical_sizes(robot), replace(setup, inertias=True)
    # Massless bodies are exact by construction: an error of their inertia means nothing.
    heavy = np.flatnonzero(np.repeat(robot.inertia_parameters[:, 0] > 0.0, 10)).tolist()
    inertias = known_inertia_numbers(robot, heavy, deviations)
    before = _predict(model, x, test, rich, nominal) if inertias else np.zeros(0)
    for k, number in inertias.items():
        changed = nominal.copy()
        changed[k] += STEP * sizes[k]
        numbers[number.name] = number
        found[number.name] = (_predict(model, x, test, rich, changed) - before) / (STEP * sizes[k])
    for f in setup.flexible:
        if not (share := _gear_deviation(deviations, f.gear)) > 0.0:
            continue
        # A change of the reciprocal by the share STEP; the load-side inertia stays, which is what is identified.
        other = replace(setup, robot=change_gear(robot, f.gear / (1.0 - STEP), f.name))
        name = f"{f.name}.gear"
        numbers[name] = FixedNumber(name, share, "of the reciprocal ratio")
        found[name] = (_predict(model, x, test, setup) - _predict(model, x, test, other)) / STEP
    words = {word for word in JOINT_NUISANCES if deviations.get(word, 0.0) > 0.0}
    share = deviations.get("hysteresis", 0.0)
    if share > 0.0 and setup.law.spring == "none":
        words |= {"spring_coulomb"}
    for name, column in fault_columns(model, x, test, ()).items() if words else ():
        owner, word = name.rsplit(".", 1)
        if word in words:
            size = deviations.get(word, 0.0)
            if word == "spring_coulomb" and share > 0.0:
                # Hysteresis is stated as a share of torque; dry friction needs N m, so the largest torque of the tests
                # sets it.
                size = max(size, share * _largest_torque(model, x, owner))
            numbers[name] = FixedNumber(name, float(size))
            found[name] = column
    return found


def _predict(model: JointProblem, x: Array, test: int, setup: Setup, inertia: Array | None = None) -> Array:
    """Channels (T, channels) of a test with another set-up, and with other inertias where it takes them."""
    other, run = copy.copy(model), model.forwards[test].with_setup(setup)
    other.setup = setup
    own, offset, rate = model.split(model.complete(x), test)
    own = own if inertia is None else np.concatenate([own, inertia])
    values = other.outputs(x, test, run(own, offset, rate), run, own)[0]
    if model.late:
        values = delay_response(model, test, float(model.complete(x)[-1]), values, {})[0]
    return np.stack(list(values.values()), axis=1)


def _largest_torque(model: JointProblem, x: Array, joint: str) -> float:
    """Largest torque of a joint's spring in any test, N m."""
    (k,) = [i for i, f in enumerate(model.setup.flexible) if f.name == joint]
    f, largest = model.setup.flexible[k], 0.0
    for test, run in enumerate(model.forwards):
        joints = model.respond(x, test).states[:, model.setup.places["joints"]]
        path = run.paths[model.robot.joint_names[f.motor]](run.times)
        motor = joints[:, model.setup.free.index(f.motor)] if f.motor in model.setup.free else path
        largest = max(largest, float(np.nanmax(np.abs(joints[:, k] - f.ratio * motor - f.rest))))
    return largest * model.values(x)[joint]["stiffness"]
