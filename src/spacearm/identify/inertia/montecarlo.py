"""Monte Carlo: the same experiments with other noise, to see whether estimates scatter as their covariance claims.

The records are those of perfect sensors; repetition k of record e gets noise from a random stream of its own, whatever
chunks the repetitions are solved in, so results do not depend on how the work was cut. Momentum equations of many
repetitions are solved together, as leading axes of the same arrays, from the estimate without noise: three steps of
total estimation are enough from there. Output-error fits are repeated one by one.

What is compared: errors over claimed deviations (1 in root mean square, 95 % within 1.96), scatter found over scatter
claimed for each parameter, and chi-square by degree of freedom. Directions that the records do not show are held at the
same values in all repetitions and have no claim to be tested.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spacearm.checks import integer
from spacearm.engine.checkpoints import checkpoint
from spacearm.errors import InputError
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.output_error_fit import fit_output_error
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.regression import find_undetermined_directions, fit_total
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class MonteCarlo:
    """Errors of every repetition in claimed standard deviations, (repetitions, r); NaN where nothing is claimed."""

    names: tuple[str, ...]
    errors: Array
    values: Array
    claimed: Array  # (repetitions, r) standard deviations
    chi_square: Array  # (repetitions,) over its degrees of freedom
    seconds: float

    @property
    def coverage(self) -> float:
        """Share of all errors within the 95 % intervals."""
        # Errors of one repetition are correlated: the share is right on average, its own scatter larger than binomial.
        known = self.errors[np.isfinite(self.errors)]
        return float(np.mean(np.abs(known) <= 1.959964))

    @property
    def coverage_each(self) -> Array:
        """The same for each parameter; NaN for one that is not determined."""
        inside = np.where(np.isfinite(self.errors), np.abs(self.errors) <= 1.959964, np.nan)
        return np.asarray(np.mean(inside, axis=0))

    @property
    def largest(self) -> float:
        """Largest error in standard deviations."""
        return float(np.nanmax(np.abs(self.errors)))

    @property
    def ratio(self) -> Array:
        """Scatter found over scatter claimed, for each parameter."""
        # Variances are averaged, not deviations: the mean of deviations would be too small.
        return np.asarray(self.values.std(axis=0, ddof=1) / np.sqrt(np.mean(self.claimed**2, axis=0)))


def monte_carlo(
    problem: InertiaProblem,
    truth: Array,
    repetitions: int = 200,
    seed: int = 0,
    *,
    chunk: int = 25,
    iterations: int = 3,
) -> MonteCarlo:
    """Repeat the experiment with seeded noise.

    Args:
        problem: records without noise that state their sensors' deviations.
        truth: base parameters of the robot that was simulated.
        chunk: repetitions solved at once (memory).
    """
    integer(repetitions, "repetitions", least=1, place="Monte Carlo")
    if problem.assumes_noise:
        raise InputError("the records state no noise", place="Monte Carlo", hint="give the sensors' noise")
    begin = time.perf_counter()
    # Without noise: which directions are held must not depend on the noise of a repetition.
    held = find_undetermined_directions(problem)
    start = fit_total(problem, held=held).information.values

    def repeat(first: int, count: int) -> dict[str, Array]:
        drawn = [_draw_noise(record, seed, i, first, count) for i, record in enumerate(problem.records)]
        fit = fit_total(
            InertiaProblem(problem.robot, drawn, problem.kinds), start=start, iterations=iterations, held=held
        )
        chi = np.asarray(2.0 * fit.cost / fit.freedom)
        return {"values": fit.information.values, "claimed": fit.information.std, "chi": chi}

    inputs = problem.robot, problem.records, problem.kinds, seed, iterations
    done = []
    for first in range(0, repetitions, chunk):
        span = first, min(chunk, repetitions - first)
        done.append(checkpoint("repetitions", (*inputs, *span), partial(repeat, *span)))
    estimates, deviations, chi = (np.concatenate([part[name] for part in done]) for name in done[0])
    if not np.any(np.isfinite(deviations)):
        raise InputError(
            "the records determine no parameter",
            place="Monte Carlo",
            hint="expected an experiment in which something moves",
        )
    return MonteCarlo(
        problem.base_parameters.names,
        np.where(np.isfinite(deviations), (estimates - truth) / deviations, np.nan),
        estimates,
        deviations,
        chi,
        time.perf_counter() - begin,
    )


def repeat_output_error(
    problem: OutputErrorProblem, clean: Sequence[MotionRecord], truth: Array, repetitions: int = 20, seed: int = 0
) -> MonteCarlo:
    """The same with all samples of all channels: ``clean`` are the problem's records without noise."""
    integer(repetitions, "repetitions", least=1, place="Monte Carlo")
    begin, rank = time.perf_counter(), problem.base.rank
    values, claimed, chi = np.empty((repetitions, rank)), np.empty((repetitions, rank)), np.empty(repetitions)
    for k in range(repetitions):
        drawn = [record.add_noise([seed, i, k]) for i, record in enumerate(clean)]
        fit = fit_output_error(OutputErrorProblem(problem.robot, drawn, None, problem.assumed, problem.prior))
        values[k], claimed[k] = fit.information.values, fit.information.std
        chi[k] = 2.0 * fit.cost / fit.freedom
    errors = np.where(np.isfinite(claimed), (values - truth) / claimed, np.nan)
    return MonteCarlo(problem.base.names, errors, values, claimed, chi, time.perf_counter() - begin)


def _draw_noise(record: MotionRecord, seed: int, experiment: int, first: int, count: int) -> MotionRecord:
    """Repetition k of experiment e has its own random stream, whatever the chunks are."""
    _, sigma = record.deviations()
    streams = [np.random.default_rng([seed, experiment, first + k]) for k in range(count)]
    noise = np.stack([rng.normal(size=(record.times.size, sigma.size)) for rng in streams])
    return record.add_errors(noise * sigma)
