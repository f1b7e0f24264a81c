"""Score tests of what a fit may lack: delayed or biased sensors, friction, nonlinear springs, wrong torques.

Each suspect is a column of derivatives (T, channels) that the fit does not have. How much it would explain of the
residuals is C. R. Rao's score test (1948): chi-square with one degree of freedom if the suspect is absent. The test
needs no new fit, but it sees only the neighbourhood of the present one.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from spacearm.identify.fit import Score, score_tests
from spacearm.identify.joint.input_errors import InputErrors
from spacearm.identify.joint.laws import SPECIFICATION, JointLaw
from spacearm.identify.joint.measured import BASE
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.nuisances import JOINT_KEYS, JOINT_NUISANCES
from spacearm.typing import Array

#: No nuisance is estimated or tested.
OFF: Final[dict[str, Literal["off", "test", "estimate"]]] = dict.fromkeys(JOINT_KEYS, "off")


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
