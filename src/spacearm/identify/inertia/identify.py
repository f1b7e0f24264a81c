"""From records to inertias in one call.

1. Records are prepared and their units checked; the method follows from what they contain, unless it is given.
2. ``output-error`` predicts the whole motion (:mod:`spacearm.identify.inertia.output_error`) and uses every sample. The
   others take momentum or dynamics at each sample by itself: ``total`` and ``consistent`` by weighted total least
   squares, ``linear`` by plain regression.
3. The result is stated as base parameters (what motion can determine), and as single numbers with their source: data,
   prior, or undetermined (:mod:`spacearm.identify.inertia.standard_parameters`).
4. :class:`Identification` judges it: size and whiteness of the residuals, score tests of what is not estimated, scatter
   between intervals of the data, physical possibility of each body, bias by noise in the regressor.

Where residuals of an output-error estimate are coloured, standard deviations by white noise are too small: the larger
of these and of the scatter between intervals of the data is stated (:meth:`Identification.widen_for_coloured_noise`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.stats import norm

from spacearm import measure
from spacearm.checks import check_not_empty, one_of
from spacearm.errors import InputError
from spacearm.identify._fit import ConsiderShare, Score, certify, name_interval, rank_shares, solvable, widen_deviations
from spacearm.identify.inertia._base_motion import ModeErrors
from spacearm.identify.inertia._modal_motion import ModalSprings
from spacearm.identify.inertia._record_prediction import ROWS
from spacearm.identify.inertia.consistent import ConsistentEstimator, impossible_bodies
from spacearm.identify.inertia.equations import Kind
from spacearm.identify.inertia.output_error import RHYTHM, OutputErrorProblem
from spacearm.identify.inertia.output_error_fit import OutputErrorFit, fit_output_error
from spacearm.identify.inertia.prepare_record import prepare_record
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalFit, TotalLeastSquares, fit_total
from spacearm.identify.inertia.standard_parameters import (
    ParameterSource,
    Prior,
    StandardParameters,
    standard_parameters,
)
from spacearm.model import Robot
from spacearm.optimise.diagnose import LEVEL, Diagnosis, diagnose
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import Direction, Information
from spacearm.optimise.overconfidence import Scatter, scatter
from spacearm.result import Certificate, Check
from spacearm.typing import Array

Method = Literal["output-error", "total", "linear", "consistent"]
#: Long records with firings are thinned to this many samples for weighted total estimation, whose cost grows with the
#: cube of their length (the impulse ties all samples together).
MOST_PUSHED = 200
#: Samples of a record where only deviations are wanted; they then are those of fewer samples, a little too large.
SAMPLED = 70
#: Steps of total estimation that show what noise in the regressor has done to an estimate of another kind.
CORRECTIONS = 6
#: Share of a misfit that its cause may leave: a score is that of a small fault.
REST = 0.05


@dataclass(frozen=True, slots=True)
class IdentifiedMode:
    """A mode with the base, the arm and other modes at rest: frequency (Hz) and damping ratio with deviations; zero
    where the robot's were taken."""

    name: str
    frequency: float
    frequency_std: float
    damping: float
    damping_std: float


@dataclass(frozen=True, eq=False)
class Identification:
    """Result of an identification, with the checks that judge it.

    ``estimate`` holds the base parameters with deviations, ``known`` every single number with its origin, ``inertia``
    (10(n + 1)) a complete set for simulation (physically possible with the method ``consistent``). ``output_error`` or
    ``fit`` has the details, by the method that was taken; ``tested`` are the nuisances that are to be tested; ``bias``
    is how far total estimation would move an estimate of another kind, in deviations. ``factors``: of the standard
    deviations, where the residuals are coloured and intervals of the data scatter more than white noise would.
    """

    problem: InertiaProblem
    estimate: Estimate
    information: Information
    known: StandardParameters
    inertia: Array
    weakest: tuple[Direction, ...]
    fit: TotalFit | None
    output_error: OutputErrorFit | None = None
    tested: tuple[str, ...] | None = None
    given: tuple[int, ...] = ()
    bias: float | None = None
    factors: Array | None = None

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """Size of each record's residuals against its confidence bounds, and their whiteness."""
        fit = self.fit if self.output_error is None else self.output_error
        # Chi-square is a mean over the channels: it is no less certain than the least certain noise among them.
        records = enumerate(self.problem.records)
        doubt = {self.problem.labels[k]: max(record.estimated.values(), default=0.0) for k, record in records}
        return diagnose(
            self.estimate,
            self._freedom if fit is None else fit.freedom,
            doubt,
            assumed=self.problem.assumes_noise,
            ties=self.output_error is None,  # equations share the errors of the impulse: their colour says little
        )

    @cached_property
    def impossible(self) -> dict[str, str]:
        """Bodies that cannot have the inertias that were found, each with the reason."""
        return impossible_bodies(self.known.robot, self.inertia)

    @property
    def _freedom(self) -> int:
        """Equations less the unknowns that they determine."""
        equations = sum(row.size for rows in self.estimate.residuals.values() for row in rows.values())
        return equations - self.information.rank - self.problem.momentum_count

    @cached_property
    def mode_errors(self) -> ModeErrors | None:
        """How far modes are from what the robot states; None without any, or of estimates that take them at rest."""
        return None if self.output_error is None else self.output_error.problem.mode_errors(self.output_error.x)

    @cached_property
    def modes(self) -> tuple[IdentifiedMode, ...]:
        """Modes of appendages and liquids as they were found."""
        errors, robot = self.mode_errors, self.problem.robot
        if errors is None:
            return ()
        springs = ModalSprings(robot)
        std = {one.name: float(sd) for one, sd in zip(self.estimate.parameters, self.estimate.std, strict=True)}
        frequency, damping = springs.frequencies_and_ratios(errors)
        stated = springs.frequency / (2.0 * np.pi)
        return tuple(
            IdentifiedMode(
                name,
                float(frequency[i] / (2.0 * np.pi)),
                float(stated[i]) * std.get(f"mode_frequency[{name}]", 0.0),
                float(damping[i]),
                std.get(f"mode_damping[{name}]", 0.0),
            )
            for i, name in enumerate(robot.mode_names)
        )

    @cached_property
    def scores(self) -> tuple[Score, ...]:
        """Score tests of other possible faults, each with its p-value (of an output-error estimate)."""
        fit = self.output_error
        if fit is None:
            return ()
        more = [one for one in (fit.prior_test, fit.problem.dominant_frequency(fit.x)) if one is not None]
        return (*more, *fit.problem.scores(fit.x, self.tested))

    @cached_property
    def scatter(self) -> Scatter | None:
        """Test whether estimates by intervals of the data scatter as the covariance predicts (output error alone)."""
        fit = self.output_error
        if fit is None:
            return None
        return scatter(
            *fit.problem.rows(fit.x), fit.covariance, fit.problem.base.rank, doubt=fit.problem.noise_variance_std
        )

    @property
    def interval(self) -> str:
        """Which standard deviations are stated, in words."""
        return name_interval(self.factors)

    def widen_for_coloured_noise(self) -> Identification:
        """The same with the larger of two standard deviations, by white noise and by the scatter between intervals of
        the data, where the residuals of an output-error estimate are coloured."""
        fit, seen = self.output_error, self.scatter
        covariance = self.estimate.covariance
        if fit is None or covariance is None:
            return self
        factors = widen_deviations(self.diagnosis, seen, *fit.problem.rows(fit.x), fit.covariance)
        if factors is None:
            return self
        factors = factors[: self.estimate.values.size]
        # Single numbers follow from the widened information, or they would keep the smaller deviations.
        information = self.information.widen(factors[: self.problem.rank])
        known = standard_parameters(information, self.known.robot, self.known.prior, self.problem.base_parameters)
        estimate = replace(self.estimate, covariance=covariance * np.outer(factors, factors), information=information)
        return replace(self, estimate=estimate, information=information, known=known, factors=factors)

    @cached_property
    def consider_shares(self) -> tuple[ConsiderShare, ...]:
        """Fixed numbers that are uncertain, each with the base parameter whose variance it makes most of; the largest
        share first."""
        fit = self.fit if self.output_error is None else self.output_error
        if fit is None:
            return ()
        std = self.estimate.std[: self.problem.rank]
        known = np.isfinite(std) & (std > 0.0)
        # Undetermined parameters have no variance to share.
        variance = np.where(known, std, np.inf) ** 2
        return rank_shares(self.problem.base_parameters.names, variance, fit.consider_effects)

    @cached_property
    def suspects(self) -> tuple[Score, ...]:
        """Suspected faults that chance does not explain, the most likely first.

        First what alone brings the residuals down to the noise, or nearly (scores are those of small faults); then a
        frequency at which they move; then the rest. A body's inertia comes after all else that explains as much: its
        ten numbers explain a little of everything. Of two causes the one with fewer numbers needs less to be as likely
        (G. Schwarz 1978).
        """
        # Bonferroni: as many tests as scores.
        found = [score for score in self.scores if score.p_value * len(self.scores) < LEVEL]
        total = self.diagnosis.chi_square
        # The bound of chi-square, with a little more where the misfit is large: scores are first order in the fault.
        high = total.freedom * total.bounds()[1] + REST * max(total.total - total.freedom, 0.0)

        def order(score: Score) -> tuple[int, bool, float]:
            enough = total.total - score.statistic <= high and score.name != RHYTHM
            gain = score.statistic - score.freedom * np.log(max(total.freedom, 2.0))
            return 0 if enough else 1 if score.name == RHYTHM else 2, score.body, -float(gain)

        return tuple(sorted(found, key=order))

    def certificate(self) -> Certificate:
        """Whether the estimate can be trusted: convergence, size and colour of the residuals, other suspects."""
        checks = certify(self.diagnosis, self.scores, self.scatter, self.interval)
        checks["determined"] = Check.from_condition(
            self.information.rank > 0, "the records determine no combination at all"
        )
        for body, why in self.impossible.items():
            own = [one.source for one in self.known.numbers if one.body == body]
            # Numbers that nothing determines keep their nominal values and say nothing against the data.
            if all(source is ParameterSource.DATA for source in own):
                checks[f"possible.{body}"] = Check.from_condition(False, f"{why}; use method 'consistent', or a prior")
        if self.bias is not None:
            # Two-sided normal quantile, Bonferroni over the determined combinations.
            most = float(norm.isf(0.5 * LEVEL / max(self.information.rank, 1)))
            note = "deviations by which total estimation, which counts noise in all readings, moves the values at most"
            checks["bias"] = Check(self.bias, most, "", note)
        left_out = 0 if self.output_error is None else self.output_error.outliers
        for k, record in enumerate(self.problem.records):
            name = f"chi_square.{self.problem.labels[k]}"
            if name in checks and left_out and checks[name].value > checks[name].tolerance:
                note = f"{checks[name].note}; {left_out} outliers were left out, and smaller ones may be among the rest"
                checks[name] = replace(checks[name], note=note)
            if record.estimated and name in checks:
                note = f"{checks[name].note}; noise of {', '.join(record.estimated)} estimated from its scatter"
                checks[name] = replace(checks[name], note=note)
        return Certificate(checks | self._noise_checks())

    def _noise_checks(self) -> dict[str, Check]:
        """Whether noise that was taken from scatter is that of the residuals, channel by channel: the mean over all
        channels hides one whose motion was taken for noise."""
        found: dict[str, Check] = {}
        squares = {} if self.output_error is None else self.output_error.channel_squares
        doubts = [record.estimated for record in self.problem.records]
        level = LEVEL / max(sum(map(len, doubts)), 1)
        for k, (record, doubt) in enumerate(zip(self.problem.records, doubts, strict=True)):
            label = self.problem.labels[k]
            for name in doubt:
                place = f"noise.{label}.{name}"
                if name in record.unresolved:
                    why = f"{name} was read too seldom: its scatter is that of the motion; state the noise"
                    found[place] = Check.from_condition(False, why)
                elif doubt[name] and (label, name) in squares:
                    chi_square = replace(squares[label, name], doubt=doubt[name])
                    low, high = chi_square.bounds(level)
                    note = f"mean square of the residuals, in noise from scatter, minus {0.5 * (low + high):.4g}"
                    if chi_square.ratio < low:
                        note += "; motion between readings was taken for noise, here or of the joints: state the noise"
                    found[place] = Check(chi_square.ratio - 0.5 * (low + high), 0.5 * (high - low), "", note)
        return found

    @property
    def samples(self) -> dict[str, str]:
        """Which samples of each record were used, in words."""
        if self.output_error is None:
            used = zip(self.problem.records, self.given, strict=True)
            return {a.name: f"{a.times.size} of {b} samples" for a, b in used}
        found = {}
        for data in self.output_error.problem.records:
            there = {name: rows for name, rows in data.rows.items() if name in data.record.readings}
            read = sum(
                int(data.moving_rows[rows].sum() * np.isfinite(data.record.readings[name]).all(axis=1).sum())
                for name, rows in there.items()
            )
            text = f"all {data.record.times.size} samples, {int(data.present.sum())} numbers of {read} read"
            if data.path.missing or data.path.outliers:
                text += f"; encoders: {data.path.missing} missing and {data.path.outliers} far off, replaced"
            path = ("joint_position", "joint_rate", *(() if data.accelerations is None else ("joint_acceleration",)))
            unused = [n for n in data.record.readings if n not in (*data.rows, *path)]
            if unused:
                text += f"; not used: {', '.join(unused)}"
            found[data.record.name] = text
        return found


def thin_records(records: Sequence[MotionRecord], most: int = MOST_PUSHED) -> tuple[MotionRecord, ...]:
    """Records with firings brought down to about ``most`` samples, keeping those at which thrusters switch."""
    return tuple(_thin_record(record, most) for record in records)


def _thin_record(record: MotionRecord, most: int) -> MotionRecord:
    if not np.any(record.wrench) or record.times.size <= most:
        return record
    least = int(np.ceil(record.times.size / most))
    edges = np.array([edge for edge in record.edges if edge <= record.times[-1] + 1e-9])
    # A spacing that hits every switch exactly integrates the impulse without extrapolation: worth up to 3 x fewer
    # samples.
    for every in range(least, 3 * least + 1):
        kept = record.times[::every]
        if np.abs(kept[:, None] - edges).min(axis=0).max() < 1e-9:
            return record.thin(every)
    return next(thin for every in range(least, 0, -1) if _keeps_pushes(record, thin := record.thin(every)))


def _keeps_pushes(record: MotionRecord, thin: MotionRecord) -> bool:
    """Whether every firing interval keeps a sample: the impulse of one without any would be lost."""
    return len(thin.quadrature()) == len(record.quadrature())


@solvable("identification")
def identify(
    robot: Robot,
    records: Sequence[MotionRecord | measure.Record],
    *,
    method: Method | None = None,
    kinds: Sequence[Kind] = ("momentum",),
    prior: Prior | None = None,
    estimate: Mapping[str, float] | Sequence[str] = (),
    test: Sequence[str] | None = None,
    segment: float | None = None,
    consider: Mapping[str, float] | None = None,
) -> Identification:
    """Identify inertias.

    Args:
        robot: geometry and first guess (the inertias of a nominal model; they may be wrong).
        records: of the experiments: read from files, of runs, or simulated.
        method: ``output-error`` (every sample of every channel, at the Cramer-Rao bound), ``total`` (momentum or forces
            at each sample by themselves, noise in all readings counted), ``linear`` (the same, for exact data),
            ``consistent`` (total, then only possible bodies). Without it ``output-error`` where the records allow it:
            one run each, with position, attitude, joints and their noise; else ``total``.
        kinds: equations of the methods other than ``output-error``.
        prior: normal prior of single numbers; those that it knows exactly are not estimated. Numbers in null directions
            stay undetermined where there is none.
        estimate: nuisances to estimate besides (:data:`.INERTIA_NUISANCES`), with ``output-error`` alone; biases that
            the records' sensors may have are among them.
        test: nuisances to test; all others when not given.
        segment: cut each record into pieces of about this length (s), each with a start of its own; ``output-error``
            alone. Forces that nobody states, such as drag, then add up within a piece and not over a long record.
        consider: standard deviations of numbers that are not estimated: of nuisances (:data:`.INERTIA_NUISANCES`) in
            their units, of the inertias of known bodies (``nominal``, or a body's name) as shares of their typical
            sizes. What the data do not determine of them widens every interval. None here, so that a script's estimate
            counts what the script states; scenario files have the defaults of their ``[nominal]`` table.
    """
    if robot.base.kind == "held":
        hint = "spacearm.identify.ground.identify_held_arm uses the torques of the joints"
        raise InputError(f"the base of {robot.name!r} is held, and shows no momentum", place="base", hint=hint)
    used = [record if isinstance(record, MotionRecord) else prepare_record(robot, record) for record in records]
    for record in used:
        record.check_units()
    if method is None:
        method = "output-error" if _allow_output_error(used, kinds) else "total"
    one_of(method, get_args(Method), "method", place="identification")
    if method == "output-error":
        if segment is not None:
            used = [piece for record in used for piece in record.split(segment)]
        return _output_error(robot, used, prior, estimate, test, consider)
    if estimate or segment is not None:
        what = "nuisances cannot be estimated from these records" if estimate else "these records cannot be cut"
        hint = "expected method 'output-error', position, attitude, joints and their noise"
        raise InputError(what, place="estimate" if estimate else "segment", hint=hint)
    fit: TotalFit | None = None
    bias: float | None = None
    given = tuple(record.times.size for record in used)
    used = [_complete(record) for record in used]
    if method == "linear":
        problem = InertiaProblem(robot, used, kinds, prior, consider)
        found = LinearLeastSquares().solve(problem)
        # The information of the data follows from the sensors' noise, not from how small the residuals happen to be:
        # one linearisation of total estimation at the values found, by few samples, gives it.
        few = InertiaProblem(robot, thin_records(used, most=SAMPLED), kinds, prior, consider)
        seen = fit_total(few, start=found.values, iterations=1, held=found.extra.get("not_identifiable"))
        information = seen.information.with_values(found.values)
        found = _attach_residuals(InertiaProblem(robot, thin_records(used), kinds, prior, consider), found)
        bias = None if problem.assumes_noise else _bias_of_thinning(problem, few, found)
    else:
        problem = InertiaProblem(robot, thin_records(used), kinds, prior, consider)
        found = TotalLeastSquares().solve(problem)
        fit = found.extra["fit"]
        information = fit.information
    base = problem.base_parameters
    known = standard_parameters(information, robot, prior, base)
    inertia = known.inertia
    if method == "consistent":
        assert fit is not None
        # Possible bodies are fitted with the fixed numbers exact; their uncertainty is added to the covariance after.
        found = _attach_residuals(problem, ConsistentEstimator(prior).refine(fit.exact, robot, base))
        moved = np.array([*fit.consider_effects.values()]).reshape(-1, base.rank)
        found = replace(found, covariance=found.covariance + moved.T @ moved)
        inertia = np.asarray(found.extra["inertia"])
        known = known.with_inertia(inertia)
    weakest = information.weakest(base.names)
    return Identification(problem, found, information, known, inertia, weakest, fit, given=given, bias=bias)


def _bias_of_thinning(problem: InertiaProblem, few: InertiaProblem, found: Estimate) -> float:
    """How far total estimation by ``few`` samples would move an estimate: the largest of all numbers, in deviations.

    It counts noise in the regressor, which biases others. By the same data the difference of two estimates has no
    larger variance than the worse of them (J. A. Hausman, Econometrica 46, 1978).
    """
    held = found.extra.get("not_identifiable")
    total = fit_total(few, start=found.values, iterations=CORRECTIONS, held=held).information
    # Hausman's argument needs the same data; after thinning the two estimates are only partly dependent.
    same = all(a is b for a, b in zip(problem.records, few.records, strict=True))
    spread = found.std if same else np.hypot(found.std, total.std)
    known = np.isfinite(spread) & (spread > 0.0)
    return float(np.max(np.abs(total.values - found.values)[known] / spread[known], initial=0.0))


def _attach_residuals(problem: InertiaProblem, found: Estimate) -> Estimate:
    """An estimate with its residuals in deviations of the sensors' noise, however it was found."""
    return replace(
        found, residuals=problem.rows_by_channel(problem.misfit(found.values)), noise_known=not problem.assumes_noise
    )


def _complete(record: MotionRecord) -> MotionRecord:
    """The samples of which every reading is there."""
    whole = np.all([np.isfinite(values).all(axis=-1) for values in record.readings.values()], axis=0)
    if not np.any(whole):
        empty = [name for name, values in record.readings.items() if not np.isfinite(values).any()]
        hint = f"leave {', '.join(empty)} out" if empty else "expected samples in which every channel was read"
        raise InputError("no sample has a reading of every channel", place=record.place, hint=hint)
    return record if np.all(whole) else record.select_samples(np.flatnonzero(whole))


def _allow_output_error(records: Sequence[MotionRecord], kinds: Sequence[Kind]) -> bool:
    """Whether each record is one run with all that the base's motion needs, and nothing is asked of forces."""
    return tuple(kinds) == ("momentum",) and all(
        not record.batch
        and {"position", "attitude"} <= record.readings.keys()
        and (not record.moving or "joint_position" in record.readings)
        and (not any(record.moving) or "joint_rate" in record.readings)
        and all(
            record.sigma.get(name, 0.0) > 0.0 for name in ROWS if name in record.readings and record.moving_parts(name)
        )
        for record in records
    )


#: Nuisance that a sensor's unknown bias is.
BIASES = {"rate": "rate_bias", "velocity": "velocity_bias", "attitude": "attitude_bias",
          "joint_position": "encoder_offset", "joint_rate": "joint_rate_bias", "acceleration": "acceleration_bias",
          "angular_acceleration": "angular_acceleration_bias", "torque": "torque_bias"}  # fmt: skip


def _output_error(
    robot: Robot,
    records: Sequence[MotionRecord],
    prior: Prior | None,
    estimate: Mapping[str, float] | Sequence[str],
    test: Sequence[str] | None,
    consider: Mapping[str, float] | None,
) -> Identification:
    check_not_empty(records, "record", place="identification")
    asked = dict(estimate) if isinstance(estimate, Mapping) else dict.fromkeys(estimate, np.inf)
    # A bias that the record's sensors may have is estimated with that prior, unless the caller states another.
    biases = {
        BIASES[name]: s for record in records for name, s in record.bias_sigma.items() if name in BIASES and s > 0
    }
    # Not solved: it gives names, base parameters and labels in the same form for all methods.
    whole = InertiaProblem(robot, records, prior=prior)
    problem = OutputErrorProblem(robot, records, estimate=biases | asked, prior=prior)
    fit = fit_output_error(problem, consider=consider)
    base = whole.base_parameters
    known = standard_parameters(fit.information, robot, prior, base)
    weakest = fit.information.weakest(base.names)
    tested = None if test is None else tuple(test)
    found = Identification(whole, fit.estimate, fit.information, known, known.inertia, weakest, None, fit, tested)
    return found.widen_for_coloured_noise()
