"""Comparison of a prediction with readings: residuals, bands, and what the stated uncertainties explain.

Method: uncertain numbers x have standard deviations; with u = (x - x0) / sd, u is N(0, 1) beforehand. The prediction is
linearised by central differences in u. Readings of a first part may be fitted (Gauss and Newton, with the stated
deviations as priors); what is left of the covariance, P, is carried to the readings: their band has the variance
sigma^2 + J P J^T. Chi-square of the residuals is taken with that whole covariance, so that readings that err together
count as what they are. Where residuals of the fitted part are not white, the deviations of the fitted numbers are those
of a sandwich estimate; the test of Ljung and Box says whether what is left of the judged part looks white.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.optimise.diagnose import ChiSquare, Whiteness, whiteness
from spacearm.typing import Array

#: Half the distance of the two runs of a central difference, in standard deviations of the number.
STEP = 0.3
#: Two-sided 95 % of a normal distribution, in standard deviations.
WITHIN = 1.959963984540054
#: Steps of the fit, and the change, in standard deviations, at which it ends.
MOST_STEPS, SMALL_STEP = 40, 1e-2
#: Part of the sum of squares by which a last step may still change it.
FLAT = 1e-6
#: Bisections of a step to numbers that are impossible; information that holds a number at its bound.
MOST_HALVES, HELD = 8, 1e12
#: A step of more than this part of the one before it asks for new slopes, which are made so many times at most.
SLOW, MOST_SLOPES = 0.6, 4
#: Blocks of time from which the scatter of scores is estimated, at least.
FEWEST_BLOCKS = 8


@dataclass(frozen=True, eq=False)
class Readings:
    """Readings of one quantity: times (T,) s since the start of the run, values (T,) SI, their deviations."""

    unit: str
    times: Array
    values: Array
    sigma: Array | float


@dataclass(frozen=True, eq=False)
class ChannelComparison:
    """Measured and predicted values of one quantity, with the numbers fitted to the first part.

    Args:
        predicted: (T,).
        spread: (T,) standard deviation of the prediction, from the uncertain numbers.
        judged: (T,) whether a reading was left out of the fit.
        unexplained: (T,) what is left of the residuals with the uncertain numbers that fit these readings best, in
            standard deviations of a reading.
    """

    readings: Readings
    predicted: Array
    spread: Array
    judged: npt.NDArray[np.bool_]
    unexplained: Array

    @property
    def residual(self) -> Array:
        """Residuals (T,): measured less predicted."""
        return self.readings.values - self.predicted

    @property
    def band(self) -> Array:
        """Standard deviations (T,) of measured less predicted."""
        return np.asarray(np.hypot(self.spread, self.readings.sigma))

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(self.residual[self.judged] ** 2)))

    @property
    def end_z(self) -> float:
        """The last residual in standard deviations."""
        return float(self.residual[-1] / np.broadcast_to(self.band, self.residual.shape)[-1])

    @property
    def share_within(self) -> float:
        """Share of the readings within the 95 % band."""
        return float(np.mean((np.abs(self.residual) <= WITHIN * self.band)[self.judged]))

    @cached_property
    def whiteness(self) -> Whiteness:
        """Whiteness of the residuals that the uncertain numbers cannot explain."""
        return whiteness(self.unexplained[self.judged])


@dataclass(frozen=True, eq=False)
class Comparison:
    """A prediction beside its readings.

    Args:
        deviations: (N,) fitted numbers less the stated ones, in stated standard deviations.
        covariance: (N, N) of them, widened where the residuals of the fit are not white.
        shares: (N,) of the variance of the prediction at the last readings that each number alone gives.
        chi_square: of the residuals that were not fitted, with their whole covariance.
        curvature: largest part of a band that the linearised prediction is off by, one deviation away.
        widening: (N,) how many times wider than by white noise the deviations of the fitted numbers are taken.
        bounded: (N,) numbers that the fit left at a bound, beyond which nothing can be predicted.
        asked: (N,) as ``deviations``, as the judged readings have them too.
        numbers: of the difference of both, with the deviations that it may have.
    """

    channels: Mapping[str, ChannelComparison]
    deviations: Array
    covariance: Array
    shares: Array
    chi_square: ChiSquare
    curvature: float
    widening: Array
    rows: LinearRows
    bounded: npt.NDArray[np.bool_]
    asked: Array
    numbers: ChiSquare


@dataclass(frozen=True, eq=False)
class LinearRows:
    """All readings in units of their noise: residuals (R,), slopes (R, N) by the uncertain numbers, fitted or judged.

    Args:
        times: (R,) s.
        deviations: (N,) of the uncertain numbers at which it was linearised.
    """

    times: Array
    residual: Array
    slopes: Array
    late: npt.NDArray[np.bool_]
    deviations: Array


def sandwich_widening(rows: LinearRows, covariance: Array, prior: Array) -> Array:
    """Factors (N,), at least 1, by which fitted numbers scatter more than white noise would let them.

    The covariance of the scores is estimated from blocks of time in place of the noise's (a sandwich; H. White,
    Econometrica 48, 1980, with blocks as in W. K. Newey and K. D. West, 1987): errors that last for some readings no
    longer count as so many independent ones. Ones where there are fewer than ``FEWEST_BLOCKS`` blocks.
    """
    early = ~rows.late
    # By instants and not by readings: channels that are read together err together.
    clock = np.unique(rows.times[early])
    # Blocks of n^(1/3) instants grow with the record, and so does their number.
    length = max(int(np.ceil(clock.size ** (1.0 / 3.0))), 2)
    count = clock.size // length
    if count < FEWEST_BLOCKS:
        return np.ones(covariance.shape[0])
    number = np.minimum(np.searchsorted(clock, rows.times[early]) // length, count - 1)
    scores = np.zeros((count, covariance.shape[0]))
    np.add.at(scores, number, rows.slopes[early] * rows.residual[early][:, None])
    centred = scores - scores.mean(axis=0)
    meat = centred.T @ centred * count / (count - 1)
    # The priors are independent of the noise: their share of the covariance stays.
    robust = covariance @ (meat + prior) @ covariance
    return np.asarray(np.sqrt(np.maximum(np.diag(robust) / np.diag(covariance), 1.0)))


@dataclass(frozen=True, eq=False)
class Linearisation:
    """A prediction near some values of the uncertain numbers, in deviations of a reading.

    Args:
        deviations: (N,) of the numbers.
        middle: (R,) the prediction there; slopes, bends: (R, N) its first and half its second derivatives.
    """

    deviations: Array
    middle: Array
    slopes: Array
    bends: Array


@dataclass(frozen=True, eq=False)
class StackedReadings:
    """A model beside its readings, all channels stacked in deviations of a reading.

    Args:
        predict: values of each quantity at the times of its readings, by the uncertain numbers (N,) in standard
            deviations from what was stated.
        impacts: first and last time (s) that an uncertain impact may have: a reading in between has no derivative.
    """

    predict: Callable[[Array], Mapping[str, Array]]
    readings: Mapping[str, Readings]
    unknowns: int
    impacts: Sequence[tuple[float, float]] = ()

    @cached_property
    def sigma(self) -> Array:
        return np.concatenate([np.broadcast_to(own.sigma, own.times.shape) for own in self.readings.values()])

    @cached_property
    def times(self) -> Array:
        return np.concatenate([own.times for own in self.readings.values()])

    @cached_property
    def scaled_readings(self) -> Array:
        return np.asarray(np.concatenate([own.values for own in self.readings.values()]) / self.sigma)

    def values(self, u: Array) -> Array:
        """The prediction for these numbers."""
        found = self.predict(u)
        rows = np.concatenate([found[name] for name in self.readings])
        if not np.all(np.isfinite(rows)):
            bad = next(name for name in self.readings if not np.all(np.isfinite(found[name])))
            raise InputError(
                f"the run has no {bad!r} at the time of a reading",
                hint="expected phases that last until the last reading",
            )
        return np.asarray(rows / self.sigma)

    def _values_or_none(self, u: Array) -> Array | None:
        """The prediction for these numbers, None if they are impossible: a damping below zero."""
        try:
            return self.values(u)
        except InputError:
            return None

    def step_towards(self, u: Array, step: Array, middle: Array) -> tuple[Array, Array, bool]:
        """Numbers after a step, their prediction, and whether the step went on to impossible numbers and was cut there.

        ``middle``: the prediction before the step.
        """
        values = self._values_or_none(u + step)
        if values is not None:
            return u + step, values, False
        possible, impossible = 0.0, 1.0
        for _ in range(MOST_HALVES):
            share = 0.5 * (possible + impossible)
            values = self._values_or_none(u + share * step)
            if values is None:
                impossible = share
            else:
                possible, middle = share, values
        return u + possible * step, middle, True

    def bounded_numbers(self, u: Array, step: Array) -> npt.NDArray[np.bool_]:
        """(N,) numbers that are impossible after their own part of a step: they are at a bound."""
        alone = [self._values_or_none(u + row) is None for row in np.diag(step)]
        if not any(alone):
            self.values(u + step)  # its error says why
        return np.array(alone)

    def linearise(self, u: Array, progress: Callable[[float, float], None] | None = None) -> Linearisation:
        """Two runs for each number."""
        middle = self.values(u)
        slopes, bends = np.zeros((middle.size, self.unknowns)), np.zeros((middle.size, self.unknowns))
        for k, direction in enumerate(STEP * np.eye(self.unknowns)):
            # Central differences give the slope and, at no further cost, the curvature along each number.
            high, low = self._values_or_none(u + direction), self._values_or_none(u - direction)
            # Damping or friction near zero: there is no prediction on the other side.
            if low is None:
                high = self.values(u + direction) if high is None else high
                slopes[:, k] = (high - middle) / STEP
            elif high is None:
                slopes[:, k] = (middle - low) / STEP
            else:
                slopes[:, k], bends[:, k] = (high - low) / (2.0 * STEP), (high - 2.0 * middle + low) / (2.0 * STEP**2)
            if progress is not None:
                progress(k + 1, self.unknowns)
        return Linearisation(u, middle, slopes, bends)


def compare_prediction(
    predict: Callable[[Array], Mapping[str, Array]],
    readings: Mapping[str, Readings],
    unknowns: int,
    fit: float = 0.0,
    progress: Callable[[float, float], None] | None = None,
) -> Comparison:
    """A model beside its readings.

    Args:
        predict: values of each quantity at the times of its readings, by the uncertain numbers (N,) in standard
            deviations from what was stated.
        fit: readings up to this time (s) are fitted; those after it are judged.
    """
    stacked = StackedReadings(predict, readings, unknowns)
    return compare_by_linearisation(stacked, stacked.linearise(np.zeros(unknowns), progress), fit)


class _FittedNumbers(NamedTuple):
    """A fit: numbers (N,) in standard deviations, the prediction for them, its linearisation, their covariance, and
    those that are at a bound."""

    deviations: Array
    middle: Array
    linear: Linearisation
    covariance: Array
    bounded: npt.NDArray[np.bool_]


def _fit_numbers(
    stacked: StackedReadings, start: _FittedNumbers, early: npt.NDArray[np.bool_], centre: Array, information: Array
) -> _FittedNumbers | None:
    """Numbers fitted to the readings ``early`` (R,), from a start; none if the steps do not settle."""
    u, middle, linear, covariance, _ = start
    measured, bounded = stacked.scaled_readings, np.zeros(u.size, dtype=bool)

    def fit_cost(numbers: Array, values: Array) -> float:
        """What the fit minimises: squares of what is left, and of the way from the middle of the priors."""
        left, away = (measured - values)[early], numbers - centre
        return float(left @ left + away @ information @ away)

    before, renewed = np.inf, 0
    for _ in range(MOST_STEPS):
        own = linear.slopes[early]
        held = information + np.diag(HELD * bounded)
        # Posterior of a linear model: the stated deviations are a prior of that information in u.
        covariance = np.asarray(np.linalg.inv(own.T @ own + held), dtype=np.float64)
        # Gauss-Newton with the prior's gradient; slopes stay until they prove wrong, since they cost the most runs.
        step = covariance @ (own.T @ (measured - middle)[early] - information @ (u - centre))
        step = np.where(bounded, 0.0, step)
        # A step that is small beside what is left unknown changes nothing.
        size = float(np.abs(step / np.sqrt(np.diag(covariance))).max())
        if size < SMALL_STEP:
            return _FittedNumbers(u, middle, linear, covariance, bounded)
        before_step, cost = u, fit_cost(u, middle)
        found, values, cut = stacked.step_towards(u, step, middle)
        rise = fit_cost(found, values) - cost
        if not cut and rise > FLAT * cost:
            # Too far for these slopes: new ones where they are old, else a shorter step.
            if linear.deviations is not u and renewed < MOST_SLOPES:
                linear, before, renewed = stacked.linearise(u), np.inf, renewed + 1
                continue
            for _ in range(MOST_HALVES):
                step = 0.5 * step
                found, values, cut = stacked.step_towards(u, step, middle)
                rise = fit_cost(found, values) - cost
                if cut or rise <= 0.0:
                    break
            else:
                # Nothing on the way is better than here.
                return _FittedNumbers(u, middle, linear, covariance, bounded)
        u, middle = found, values
        if not cut and abs(rise) <= FLAT * cost:
            return _FittedNumbers(u, middle, linear, covariance, bounded)
        if cut:
            # At a bound (a friction of zero): the others are fitted on with these where they are.
            bounded |= stacked.bounded_numbers(before_step, step)
            before = np.inf
            continue
        # Predictions of contact or latching may bend: then around the new values.
        if size > SLOW * before and renewed < MOST_SLOPES:
            linear, before, renewed = stacked.linearise(u), np.inf, renewed + 1
            middle = linear.middle
        else:
            before = size
    return None


def compare_by_linearisation(
    stacked: StackedReadings,
    linear: Linearisation,
    fit: float = 0.0,
    *,
    parts: Sequence[float] = (),
    mean: Array | None = None,
    prior: Array | None = None,
) -> Comparison:
    """The comparison from a linearisation at hand, which is made anew where it does not hold.

    Args:
        parts: ends of shorter parts (s) that are fitted first, each from the fit before it: a vibration whose frequency
            is off is followed for a few of its periods only.
        mean, prior: (N,) and (N, N), means and covariance of the numbers beforehand; zeros and ones if omitted.
    """
    times, measured, readings = stacked.times, stacked.scaled_readings, stacked.readings
    unknowns = stacked.unknowns
    centre = np.zeros(unknowns) if mean is None else mean
    information = np.eye(unknowns) if prior is None else np.asarray(np.linalg.inv(prior), dtype=np.float64)
    # Judged readings must not have been fitted: otherwise agreement proves nothing.
    early = times <= fit
    if early.all():
        raise InputError(
            "all readings are fitted, none is left to judge", place="fit", hint=f"the last: {times.max():g} s"
        )
    covariance = np.asarray(np.linalg.inv(information), dtype=np.float64)
    middle = stacked.values(centre) if np.any(centre != linear.deviations) else linear.middle
    fitted = _FittedNumbers(centre, middle, linear, covariance, np.zeros(unknowns, dtype=bool))
    for end in (*parts, fit) if unknowns else ():
        if np.any(fitted.deviations != fitted.linear.deviations):
            linear = stacked.linearise(fitted.deviations)
            fitted = fitted._replace(middle=linear.middle, linear=linear)
        found = _fit_numbers(stacked, fitted, times <= end, centre, information)
        if found is None:
            raise InputError(
                f"the fit of the first {end:g} s does not settle", place="fit",
                hint="smaller deviations, a better start, a longer part, or shorter ones first (fit_parts)",
            )  # fmt: skip
        fitted = found
    u, middle, linear, covariance, bounded = fitted
    slopes, bends = linear.slopes, linear.bends
    if bounded.any():
        # A number at its bound is uncertain all the same.
        covariance = np.asarray(np.linalg.inv(slopes[early].T @ slopes[early] + information), dtype=np.float64)
    residual = measured - middle
    rows = LinearRows(times, residual, slopes, ~early, u)
    white = covariance
    widening = sandwich_widening(rows, covariance, information) if early.any() and unknowns else np.ones(unknowns)
    covariance = white * np.outer(widening, widening)
    spread = np.sqrt(np.einsum("ij,jk,ik->i", slopes, covariance, slopes))
    late = ~early
    own, left = slopes[late], residual[late]
    # r^T (1 + J P J^T)^-1 r without the large matrix (Woodbury); best: the numbers as all readings have them.
    best = np.linalg.solve(np.linalg.inv(covariance) + own.T @ own, own.T @ left)
    chi = ChiSquare(float(left @ left - left @ own @ best), float(left.size))
    # The numbers err in common for all readings: only what none of their values explains is tested for whiteness.
    unexplained = residual - slopes @ best
    # Second-order term at one posterior deviation, relative to the band: small where linearising is justified.
    bent = np.abs(bends) @ np.diag(covariance) / np.hypot(spread, 1.0)
    for begin, end in stacked.impacts:
        bent[(times >= begin) & (times <= end)] = 0.0
    channels, first, ends = {}, 0, []
    for name, each in readings.items():
        part = slice(first, first + each.times.size)
        ends.append(part.stop - 1)
        channels[name] = ChannelComparison(
            each, middle[part] * each.sigma, spread[part] * each.sigma, late[part], unexplained[part]
        )
        first = part.stop
    # Without correlations: a share of each number alone, normalised to their sum.
    power = slopes[ends] ** 2 * np.diag(covariance)
    shares = (power / np.maximum(power.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    bend = float(bent[late].max(initial=0.0))
    numbers = _ask_numbers(LinearRows(times, unexplained, slopes, early, u), covariance, np.asarray(best))
    return Comparison(channels, u, covariance, shares, chi, bend, widening, rows, bounded, u + best, numbers)


def _ask_numbers(rows: LinearRows, covariance: Array, change: Array) -> ChiSquare:
    """Chi-square of the change (N,) of the uncertain numbers that judged readings, ``~rows.late``, ask for.

    Thousands of readings hide it in their own chi-square: a number that is ten deviations off adds a hundred to them.
    """
    if not change.size:
        return ChiSquare(0.0, 0.0)
    prior, own = np.asarray(np.linalg.inv(covariance)), rows.slopes[~rows.late]
    after = np.asarray(np.linalg.inv(prior + own.T @ own))
    wider = sandwich_widening(rows, after, prior)
    # Readings that err together tell less than so many independent ones: what they add is no change of the numbers.
    doubt = covariance + after * (np.outer(wider, wider) - 1.0)
    # Numbers that the readings do not show do not count.
    freedom = float(np.trace(own.T @ own @ after))
    return ChiSquare(float(change @ np.linalg.solve(doubt, change)), max(freedom, 1.0))


def worst_channels(comparison: Comparison) -> Sequence[str]:
    """Names of the channels, that with the least share within its band first."""
    found = comparison.channels
    return sorted(found, key=lambda name: (found[name].share_within, -abs(found[name].end_z)))
