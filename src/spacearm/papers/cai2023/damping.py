"""Joint damping from ejection tests: the paper's grid search (Eqs. 43, 44) and a least squares with uncertainty.

The paper varies one damping B for all joints in steps of 0.2 N m s/rad, compares the computed ejection velocity with
the mean of the tests, and takes the best step: no uncertainty, no other measurement. The least squares here uses
velocities and joint variations of every test on the full stick-slip run, each weighted by its noise, and states the
uncertainty of B; Coulomb friction can be estimated with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.batch import eject_batch
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError, error_context
from spacearm.papers.cai2023.segmented import run_segment_algorithm
from spacearm.typing import Array

#: Joints coast for less; only what happens on the rail is measured here.
_FLIGHT = 0.01


@dataclass(frozen=True, eq=False)
class EjectionTests:
    """Ejection tests from several configurations, each repeated."""

    __test__ = False  # not a class of tests to pytest

    joints: Array  # (A, n) configurations, rad
    velocity: Array  # (A, q) m/s at separation
    variation: Array  # (A, q, n) rad at separation
    velocity_noise: float  # m/s, standard deviation of one measurement
    angle_noise: float  # rad

    @property
    def repeats(self) -> int:
        return int(self.velocity.shape[1])


def predict_tests(
    rig: Rig, joints: Array, damping: npt.ArrayLike, coulomb: npt.ArrayLike | None = None, threads: int | None = None
) -> tuple[Array, Array]:
    """Velocity (P, A) and joint variations (P, A, n) of the full run for P dampings (and Coulomb torques), all joints.

    Static friction keeps its ratio to Coulomb friction.
    """
    values = np.atleast_1d(np.asarray(damping, dtype=np.float64))
    configurations = np.atleast_2d(joints)
    n, count = rig.arm.n, len(configurations)
    # All dampings and configurations as one batch, the configuration running fastest.
    overrides: dict[str, Array] = {"damping": np.repeat(np.repeat(values[:, None], n, axis=1), count, axis=0)}
    if coulomb is not None:
        level = np.repeat(np.repeat(np.atleast_1d(np.asarray(coulomb, dtype=np.float64))[:, None], n, 1), count, axis=0)
        frictions = [joint.friction for joint in rig.arm.joints]
        ratio = np.array([1.0 if f is None or f.coulomb == 0.0 else f.static / f.coulomb for f in frictions])
        overrides |= {"coulomb": level, "static": level * ratio}
    run = eject_batch(
        rig, np.tile(configurations, (values.size, 1)), overrides=overrides, flight=_FLIGHT, threads=threads
    )
    return run.velocity.reshape(values.size, count), run.variation.reshape(values.size, count, n)


def synthetic_tests(
    rig: Rig,
    configurations: Sequence[npt.ArrayLike | str],
    *,
    damping: float,
    repeats: int = 5,
    velocity_noise: float = 0.003,
    angle_noise: float = float(np.radians(0.1)),
    seed: int = 0,
) -> EjectionTests:
    """Tests whose truth is known: the full run with this damping in every joint, plus Gaussian noise."""
    with error_context("synthetic tests"):
        checks.integer(repeats, "repeats", least=1)
        checks.check_not_empty(configurations, "configuration")
        checks.non_negative(velocity_noise, "velocity_noise", unit="m/s")
        checks.non_negative(angle_noise, "angle_noise", unit="rad")
    joints = np.array([rig.configuration(configuration) for configuration in configurations])
    velocity, variation = predict_tests(rig, joints, damping)
    draw = np.random.default_rng(seed)
    shape = (len(joints), repeats)
    return EjectionTests(
        joints,
        velocity[0][:, None] + velocity_noise * draw.standard_normal(shape),
        variation[0][:, None] + angle_noise * draw.standard_normal((*shape, rig.arm.n)),
        velocity_noise,
        angle_noise,
    )


@dataclass(frozen=True, eq=False)
class GridFit:
    """Eqs. 43, 44: the sum of squared velocity errors over a grid of dampings, and its least."""

    damping: float  # N m s/rad
    grid: Array  # (P,)
    cost: Array  # (P,) m2/s2


def grid_search(
    rig: Rig,
    tests: EjectionTests,
    *,
    first: float = 4.8,
    increment: float = 0.2,
    steps: int = 10,
    model: Literal["segmented", "full"] = "segmented",
) -> GridFit:
    """The paper's search: ``B_p = first + p * increment``, p = 1 ... steps.

    Args:
        model: what computes the velocity: the paper's segmented algorithm, or the full run.
    """
    checks.integer(steps, "steps", least=1, place="grid search")
    checks.positive(increment, "increment", place="grid search")
    grid = np.asarray(first + increment * np.arange(1, steps + 1), dtype=np.float64)
    if model == "segmented":
        velocity = np.array([[run_segment_algorithm(rig, q, damping=b).velocity for q in tests.joints] for b in grid])
    else:
        velocity = predict_tests(rig, tests.joints, grid)[0]
    cost = ((velocity - tests.velocity.mean(axis=1)) ** 2).sum(axis=1)
    return GridFit(float(grid[cost.argmin()]), grid, np.asarray(cost, dtype=np.float64))


@dataclass(frozen=True, eq=False)
class DampingFit:
    """Least squares: estimates with their standard deviations; ``names`` in the order of the arrays."""

    names: tuple[str, ...]
    values: Array
    deviation: Array  # standard deviations from the curvature of the sum of squares
    covariance: Array
    interval: Array  # (p, 2) at 95 %, Student's t
    misfit: float  # reduced chi-squared: about 1 when the noise is as stated and the model right
    evaluations: int

    def __getitem__(self, name: str) -> tuple[float, float]:
        """(estimate, standard deviation)."""
        index = self.names.index(name)
        return float(self.values[index]), float(self.deviation[index])


def fit_damping(
    rig: Rig,
    tests: EjectionTests,
    *,
    start: float = 4.8,
    with_coulomb: bool = False,
    use: Literal["all", "velocity"] = "all",
) -> DampingFit:
    """Damping (N m s/rad, the same in all joints), and on demand Coulomb friction (N m), from all tests at once.

    Args:
        use: velocities and joint variations, or velocities only as in the paper.
    """
    from scipy.optimize import least_squares
    from scipy.stats import t as student

    frictions = [joint.friction.coulomb for joint in rig.arm.joints if joint.friction is not None]
    if with_coulomb and not frictions:
        raise InputError("no joint has dry friction", place="damping fit", hint="fit the damping alone")
    checks.positive(start, "start", unit="N m s/rad", place="damping fit")
    if not (tests.velocity_noise > 0.0 and tests.angle_noise > 0.0):
        raise InputError(
            "the tests have no noise to weight them by", place="damping fit", hint="expected deviations above zero"
        )
    first = np.array([start, float(np.mean(frictions))]) if with_coulomb else np.array([start])
    names = ("damping", "coulomb") if with_coulomb else ("damping",)
    runs = 0

    def model(points: Array) -> Array:
        nonlocal runs
        runs += len(points) * len(tests.joints)
        velocity, variation = predict_tests(rig, tests.joints, points[:, 0], points[:, 1] if with_coulomb else None)
        parts = [(velocity[..., None] - tests.velocity).reshape(len(points), -1) / tests.velocity_noise]
        if use == "all":
            gap = variation[:, :, None, :] - tests.variation
            # A joint that no run moves tells nothing: it only measures its own noise.
            moved = np.abs(variation).max(axis=(0, 1)) > 0.0
            parts.append(gap[..., moved].reshape(len(points), -1) / tests.angle_noise)
        return np.concatenate(parts, axis=1)

    def residual(x: Array) -> Array:
        return np.asarray(model(x[None])[0])

    def jacobian(x: Array) -> Array:
        # Stick-slip runs are smooth in B apart from changes of the slip sequence; runs are accurate to 1e-8.
        h = 1e-3 * x
        both = model(np.concatenate([x + np.diag(h), x - np.diag(h)]))
        count = x.size
        return np.asarray(((both[:count] - both[count:]) / (2.0 * h[:, None])).T)

    # Bounded below: a negative damping would feed energy in, and the runs would not end.
    found = least_squares(residual, first, jac=jacobian, bounds=(1e-6, np.inf), x_scale=np.maximum(first, 1e-3))
    freedom = max(found.fun.size - found.x.size, 1)
    misfit = float(found.fun @ found.fun) / freedom
    # Residuals are scaled by the stated noise, so this is the covariance itself and is not rescaled by the misfit.
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    deviation = np.sqrt(np.diag(covariance))
    reach = float(student.ppf(0.975, freedom)) * deviation
    interval = np.stack([found.x - reach, found.x + reach], axis=1)
    return DampingFit(names, found.x, deviation, covariance, interval, misfit, runs)
