"""What else may be wrong with a fit: sensors that are late or have a bias, friction, a spring that is not linear.

Each is a column of derivatives that the fit does not have. How much it would explain of the residuals is C. R. Rao's
score test (1948): chi-square of one degree of freedom where it is not there.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from spacearm.identify.joint.input_errors import InputErrors
from spacearm.identify.joint.laws import SPECIFICATION, Law
from spacearm.identify.joint.measured import BASE
from spacearm.identify.joint.problem import JointProblem
from spacearm.typing import Array

#: Nuisances that can be estimated, tested or left alone.
NUISANCES = ("delay", "bias", "friction")
#: Nothing besides the joint.
OFF: Final[dict[str, Literal["off", "test", "estimate"]]] = dict.fromkeys(NUISANCES, "off")
_ADVICE = {
    "delay": ("the link's and base's readings are late against encoders and torques", 'nuisances.delay = "estimate"'),
    "bias": ("has a constant bias, or a sensor sits elsewhere", 'nuisances.bias = "estimate"'),
    "drift": ("drifts, as a gyro with a bias does when it is integrated", "a sensor without drift"),
    "motor_coulomb": ("the motor has dry friction", 'nuisances.friction = "estimate"'),
    "motor_damping": ("the motor has viscous friction", "law.motor_damping = true"),
    "spring_coulomb": ("the spring has dry friction", 'law.spring = "coulomb"'),
    "cubic_stiffness": ("the spring is not linear", "law.cubic = true"),
    "torque_bias": ("the torque has a constant bias", "a sensor that is calibrated"),
    "torque_scale": ("the torque is not the one stated", "a sensor that is calibrated"),
}


@dataclass(frozen=True, slots=True)
class Suspect:
    """Something that the model does not have: ``statistic`` of its score test, and about how large it would be."""

    name: str
    statistic: float
    size: float
    unit: str

    @property
    def p_value(self) -> float:
        """How often chance alone would explain as much."""
        from scipy.stats import chi2

        return float(chi2.sf(self.statistic, 1))

    @property
    def what(self) -> str:
        """In words."""
        channel, word = self.name.rsplit(".", 1)
        return (f"{channel} " if word in ("bias", "drift") else "") + _ADVICE[word][0]

    @property
    def advice(self) -> str:
        size = f"about {self.size:.2g} {self.unit}, {self.statistic**0.5:.1f} deviations"
        return f"{self.what} ({size}): try {_ADVICE[self.name.rsplit('.', 1)[-1]][1]}"


def suspects(model: JointProblem, x: Array, ignored: tuple[str, ...] = ()) -> tuple[Suspect, ...]:
    """Every suspect that these tests could show, at the optimum ``x``; the worst first."""
    if not all(np.all(np.isfinite(rows)) for rows in model.unweighted(x)):  # the motion cannot be followed
        return ()
    parts: list[dict[str, Array]] = [_columns(model, x, k, ignored) for k in range(len(model.tests))]
    names = sorted({name for part in parts for name in part})
    residual = np.concatenate([rows.ravel() for rows in model.unweighted(x)]) / np.sqrt(model.variance(x))
    jacobian = model.unweighted_jacobian(x) / np.sqrt(model.variance(x))
    lengths = np.linalg.norm(jacobian, axis=0)
    left, values, _ = np.linalg.svd(jacobian / np.where(lengths > 0.0, lengths, 1.0), full_matrices=False)
    basis = left[:, values > 1e-9 * max(float(values[0]), 1e-300)]
    residual = residual - basis @ (basis.T @ residual)
    found = []
    for name in names:
        rows = [part.get(name, np.zeros(test.present.shape)) for part, test in zip(parts, model.tests, strict=True)]
        white = [model.white(k, row, weighted=False).ravel() for k, row in enumerate(rows)]
        column = np.concatenate(white) / np.sqrt(model.variance(x))
        size = float(np.linalg.norm(column))
        column = column - basis @ (basis.T @ column)
        seen = float(column @ column)
        if seen > 1e-12 * size**2 and np.isfinite(seen) and seen > 0.0:
            along = float(column @ residual)
            word = name.rsplit(".", 1)[-1]
            own = {"torque_bias": "N m", "drift": "m/s" if name.startswith(BASE[:3]) else "rad/s"}
            unit = own.get(word) or SPECIFICATION.get(word, ("",))[0]
            found.append(Suspect(name, along**2 / seen, -along / seen, unit))
    return tuple(sorted(found, key=lambda one: -one.statistic))


def _columns(model: JointProblem, x: Array, test: int, ignored: tuple[str, ...]) -> dict[str, Array]:
    """Derivatives (T, channels) of one test's residuals by what the model does not have."""
    seen, run = model.tests[test], model.forwards[test]
    found: dict[str, Array] = {}
    if "delay" not in ignored and not model.late:
        found["sensors.delay"] = model.late_slopes(x, test)
    for k, channel in enumerate(seen.measured if "bias" not in ignored else ()):
        unit = np.broadcast_to(np.eye(len(seen.measured))[k], seen.present.shape)
        if channel not in seen.biases and model.delayed(channel):
            found[f"{channel}.bias"] = unit
        if channel in BASE:
            found[f"{channel}.drift"] = unit * run.times[:, None]
    errors = model.path_errors[test]
    if isinstance(errors, InputErrors):
        for i, (kind, joint) in enumerate(errors.inputs):
            if kind == "torque":
                readings = model.smoothed[test]["torque", joint].readings
                for word, row in (("torque_bias", np.ones(readings.size)), ("torque_scale", readings)):
                    found[f"{joint}.{word}"] = errors.moved(row[:, None] * np.eye(len(errors.inputs))[i])
    if any(channel.endswith(".torque") for channel in seen.measured):
        return found
    law, setup = _richer(model.setup.law, "friction" in ignored, model.setup.drive == "torque"), model.setup
    rich = copy.copy(model)
    rich.setup = replace(setup, law=law)
    own, (_, offset, rate) = model.values(x), model.split(model.complete(x), test)
    values = np.array([own[f.name].get(name, 0.0) for f in setup.flexible for name in law.parameters])
    response = run.under(rich.setup)(values, offset, rate, derivatives=True)
    slopes = rich.outputs(x, test, response)[1]
    for i, name in enumerate(rich.setup.parameters):
        if name not in setup.parameters:
            found[name] = np.nan_to_num(np.stack([slopes[channel][:, i] for channel in seen.measured], axis=1))
    return found


def _richer(law: Law, frictionless: bool, free: bool) -> Law:
    """The law with what it may lack."""
    more = {"cubic": True, "spring": "coulomb" if law.spring == "none" else law.spring}
    if free and not frictionless:
        more |= {"motor": "coulomb" if law.motor == "none" else law.motor, "motor_damping": True}
    return replace(law, **more)  # type: ignore[arg-type]
