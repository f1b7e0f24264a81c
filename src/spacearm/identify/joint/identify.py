"""Identification of flexible joints: from tests to values with uncertainty, diagnostics and likely causes of a misfit.

Sequence: outliers are removed by their neighbours alone; a search finds the minimum with inputs taken as exact; other
stiffnesses are tried where that fit is poor; the inputs' errors are linearised about it and the search repeated until
nothing moves; readings far from the fit are removed and the fit repeated; uncertain fixed numbers are added to the
noise; the result is diagnosed, and where its residuals are not noise, each nuisance (bias, delay, friction) is
estimated separately to find what would explain them. Each stage has its own limit of work, so that data with wrong
units or columns end with an error and a reason, not with hours of search.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from spacearm.checks import check_name, one_of
from spacearm.errors import InputError, SimulationError
from spacearm.identify._fit import Score, solvable
from spacearm.identify._nuisances import JOINT_KEYS
from spacearm.identify.joint._consider import fit_with_fixed_numbers
from spacearm.identify.joint._outliers import reject_far_readings, reject_outliers
from spacearm.identify.joint._programs import Drive
from spacearm.identify.joint.flexible_joints import flexible_joints
from spacearm.identify.joint.forward import USUAL_WORK, WORK_PER_SECOND, Accuracy, work_limit
from spacearm.identify.joint.joint_fit import JointFit, assess
from spacearm.identify.joint.laws import JointLaw
from spacearm.identify.joint.measured import BASE, JointTest, prepare_test
from spacearm.identify.joint.measurement_chain import MeasurementChain
from spacearm.identify.joint.misfit import score_of
from spacearm.identify.joint.problem import Bounds, JointProblem
from spacearm.identify.joint.sampling import Weighting
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.optimise.diagnose import LEVEL
from spacearm.optimise.estimate import Estimate, Estimator, StopReason
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.multistart import MultiStart
from spacearm.optimise.nelder_mead import NelderMead
from spacearm.optimise.posterior import Posterior, Profile, profile, sample

#: The errors of inputs are linearised anew so often, until nothing moves by more than this share of its deviation.
ROUNDS, SETTLED = 8, 0.01
#: Mean squared residual above which the model is taken as wrong, and evaluations of later searches in that case.
HOPELESS, SHORT = 10.0, 100
#: A fit whose mean squared residual is above this may have started in the wrong valley: then other stiffnesses are
#: tried, as these multiples.
POOR, FACTORS = 1.5, 10.0 ** np.linspace(-2.5, 2.5, 31)


#: Work of searches without derivatives, or from many starts, and of the one for the cause of a misfit, as multiples of
#: what a search by derivatives may take.
PATIENCE, CAUSES = 10.0, 0.7


class IdentifiabilityWarning(UserWarning):
    """The data, or the set-up, do not determine a parameter, or determine a wrong one."""


class DataWarning(UserWarning):
    """The data are usable but poor: shorter than a period of the oscillation, for example."""


NuisanceUse = Literal["off", "test", "estimate"]
Method = Literal["levenberg_marquardt", "nelder_mead", "multi_start"]


#: The estimators by name, with settings that suit flexible joints.
ESTIMATORS: dict[str, Estimator] = {
    "levenberg_marquardt": LeastSquares(),
    "nelder_mead": NelderMead(max_evaluations=10_000, spread=1.0, restarts=3),
    "multi_start": MultiStart(starts=12),
}


def estimator_of(method: Method | Estimator) -> Estimator:
    """An estimator, or the one of this name."""
    if not isinstance(method, str):
        return method
    return ESTIMATORS[one_of(method, ESTIMATORS, "method", place="identification")]


def predict_search_time(samples: int, method: Method | Estimator) -> float:
    """About how long a search takes on one core, s."""
    times = 1.0 if isinstance(estimator_of(method), LeastSquares) else PATIENCE
    return times * USUAL_WORK * samples / WORK_PER_SECOND


@solvable("identification")
def identify_joints(
    robot: Robot,
    tests: Sequence[JointTest | Record],
    *,
    chain: MeasurementChain | None = None,
    drive: Drive = "motor_angle",
    law: JointLaw | None = None,
    method: Method | Estimator = "levenberg_marquardt",
    cost: Literal["likelihood", "paper"] = "likelihood",
    bounds: Bounds | None = None,
    guess: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    offset_rate: bool = False,
    weighting: Weighting | None = None,
    reference_inertia: float | None = None,
    accuracy: Accuracy | None = None,
    nuisances: Mapping[str, NuisanceUse] | None = None,
    consider: Mapping[str, float] | None = None,
    warn: bool = True,
) -> JointFit:
    """Find motor inertia, stiffness and damping of the flexible joints, and every test's start offset.

    Args:
        tests: records, of files or of runs, or what :func:`.prepare_test` makes of them. Several share the joints'
            parameters; each has its own offset.
        chain: how a record shows the flexible joints' angles; needed for records alone.
        drive: how the model's motors move. ``motor_angle`` (default) prescribes the measured angle and is right
            whatever moves the motor; ``torque`` needs the torque that really acted; ``rigid_torque`` is the paper's.
        law: friction and other laws beyond spring and damper.
        method: a name or any estimator of :mod:`spacearm.identify`.
        cost: the likelihood, or Eq. 24 of the paper, which compares the flexible joints' angles only, all alike.
        bounds: by full name (``joint1.stiffness``) or by kind (``stiffness``); from robot and data where not given.
        guess, fixed: start values, and values that are not to be identified; by full name or by kind.
        offset_rate: the spring's rate at the start is unknown too.
        weighting: weights over time, for example :func:`weight_early_samples`.
        nuisances: ``delay`` of the links' and base's sensors, their ``bias``, ``friction`` of motors under a torque:
            ``estimate`` them with the rest, ``test`` whether they would improve the fit (default), or leave them
            ``off``.
        consider: standard deviations of numbers that are not estimated (:func:`.consider_parameters`): ``nominal``
            inertias, ``gear`` ratios, ``hysteresis`` of springs, and others. What the data leave open about them
            widens every interval. Counted for the most likely values alone: least squares without weights, of tests
            that state their noise. If omitted, all are exact but for the gear ratios of records: one of 1 counts as
            left out, as in scenario files, and its motor's inertia is not determined without a torque; ``{}``: there
            is no gear. Scenario files have the defaults of their ``[nominal]`` table.
        warn: warn about what is not determined.

    Readings that their neighbours do not bear out are left out, unless paths are ``smooth``.
    """
    began = time.perf_counter()
    one_of(cost, ("likelihood", "paper"), "cost", place="identification")
    how = _resolve_nuisances(nuisances or {})
    if consider is None and any(isinstance(test, Record) for test in tests):
        # A robot file without a gear has a ratio of 1; a motor that really turns as slowly as its joint is rare.
        consider = {"gear_of_one": 1.0}
    # Before any fit, because a single bad reading bends a least-squares fit towards itself.
    chosen, outliers = _prepare_tests(robot, [_as_test(test, chain, drive) for test in tests], cost)
    # The same problem with other nuisances is built again when a misfit is to be explained.
    build = partial(
        _problem, robot, chosen, law=law or JointLaw(), drive=drive, bounds=bounds, guess=guess, fixed=fixed,
        offset_rate=offset_rate, weighting=weighting, reference_inertia=reference_inertia, accuracy=accuracy,
    )  # fmt: skip
    model, estimator = build(how), estimator_of(method)
    samples = sum(test.time.size for test in chosen)
    with work_limit(samples, 1.0 if isinstance(estimator, LeastSquares) else PATIENCE):
        try:
            model, estimate, exact, far = _fit_without_outliers(model, estimator, cost == "paper")
        # A search that strays is often a sign of wrong data: the error then names the likely cause.
        except SimulationError as stray:
            with work_limit(samples, CAUSES):
                tested = _find_explanation(model, np.inf, how, build, estimator) if cost == "likelihood" else ()
            stray.hint += "".join(f"; suspected: {one.advice}" for one in tested)
            raise
        # Considered numbers are a statement about likelihood: they mean nothing for other costs or weights.
        if consider and exact is not None and model.noise_known and weighting is None and drive != "rigid_torque":
            with work_limit(samples):
                model, estimate = fit_with_fixed_numbers(model, estimate, consider)
        tested_too = exact and drive != "rigid_torque"
        ignored = tuple(name for name, what in how.items() if what == "off") if tested_too else None
        with work_limit(samples):
            fit = assess(model, estimate, time.perf_counter() - began, ignored, outliers + far)
        if ignored is not None and _lacks_explanation(fit):
            with work_limit(samples, CAUSES):
                fit = fit.with_suspects(_find_explanation(model, estimate.cost, how, build, estimator))
    if warn:
        for text in fit.remarks:
            kind = DataWarning if text.startswith("data") else IdentifiabilityWarning
            warnings.warn(text, kind, stacklevel=3)  # of the caller, past the decorator
    return fit


def _resolve_nuisances(nuisances: Mapping[str, NuisanceUse]) -> dict[str, NuisanceUse]:
    """Choice (off, test, estimate) for every nuisance, checked; ``test`` by default."""
    how: dict[str, NuisanceUse] = {**dict.fromkeys(JOINT_KEYS, "test"), **nuisances}
    for name, what in how.items():
        check_name(name, JOINT_KEYS, "nuisance", place="nuisances")
        one_of(what, get_args(NuisanceUse), name, place="nuisances")
    return how


def _problem(
    robot: Robot, tests: Sequence[JointTest], how: Mapping[str, str], *, law: JointLaw, **options: Any
) -> JointProblem:
    """The problem with those nuisances that are to be estimated."""
    if how["bias"] == "estimate":
        seen = {*BASE, *(f.name for f in flexible_joints(robot))}
        tests = [replace(test, biases=tuple(c for c in test.measured if c in seen)) for test in tests]
    if how["friction"] == "estimate" and law.motor == "none":
        law = replace(law, motor="coulomb")
    return JointProblem(robot, tests, law=law, delay=how["delay"] == "estimate", **options)


def _fit_without_outliers(
    model: JointProblem, estimator: Estimator, plain: bool
) -> tuple[JointProblem, Estimate, LeastSquares | None, int]:
    """Result of :func:`_search_estimate` without readings that are far from the fit, and the number of these."""
    model, estimate, exact = _search_estimate(model, estimator, plain)
    for forward in model.forwards:  # the first search is over; later ones count by themselves
        forward.stiff = 0
    if exact is None or not model.noise_known or any(test.smooth for test in model.tests):
        return model, estimate, exact, 0
    # What follows a search has work of its own: one that used up almost all of its own has still come to its end.
    with work_limit(sum(test.time.size for test in model.tests)):
        model, estimate, far = _drop_outliers(model, estimate, exact)
    return model, estimate, exact, far


def _lacks_explanation(fit: JointFit) -> bool:
    """Whether a fit is not sound, and none of its suspects alone would bring the residuals down to the noise.

    Scores look at the neighbourhood of a fit. Where a search has strayed they name nothing, or the wrong thing.
    """
    wrong = {name for name, check in fit.certificate.items() if not check.sound}
    if wrong <= {"on_bounds"} or not fit.model.noise_known:  # residuals are as they should be: there is nothing to find
        return False
    best = max(fit.suspects, key=lambda one: one.statistic, default=None)
    # No suspect is significant: the linear score tests see no cause, so a search has to look for one.
    if best is None or best.p_value * len(fit.suspects) >= LEVEL:
        return True
    return fit.chi2 - best.statistic / max(fit.model.freedom, 1) > fit.diagnosis.chi_square.bounds()[1]


def _find_explanation(
    model: JointProblem, cost: float, how: Mapping[str, str], build: Callable[..., JointProblem], estimator: Estimator
) -> tuple[Score, ...]:
    """The nuisance to test that lowers the cost most when it is estimated with the rest, beyond what chance does.

    The most promising is fitted first; where it leaves no more than noise, no other is.
    """
    from scipy.stats import chi2

    off = {name: "off" if what == "test" else what for name, what in how.items()}
    before = best = float(np.nan_to_num(cost, nan=np.inf))
    found: tuple[Score, ...] = ()
    for other in _rank_problems([
        build({**off, nuisance: "estimate"}) for nuisance in ("bias", "delay", "friction")
        if how[nuisance] == "test" and (nuisance != "friction" or model.setup.drive == "torque")
    ]):  # fmt: skip
        try:
            fitted, estimate, _, _ = _fit_without_outliers(other, estimator, False)
        except SimulationError:
            continue
        values, std = estimate.values, estimate.std
        new = [k for k, name in enumerate(estimate.names) if name not in model.names]
        # Likelihood-ratio test: twice the drop of the cost is chi-square with the number of new parameters.
        enough = 0.5 * chi2.isf(LEVEL / len(JOINT_KEYS), max(len(new), 1))
        if new and estimate.has_converged and estimate.cost < min(best, before - enough):
            k = max(new, key=lambda i: abs(values[i]) / std[i])
            word = estimate.names[k].removeprefix(f"{model.tests[0].name}.")
            best = estimate.cost
            found = (score_of(word, float(values[k] / std[k]) ** 2, float(values[k]), estimate.units[k]),)
            if 2.0 * best < chi2.isf(LEVEL, max(fitted.freedom, 1)):
                break
    return found


def _rank_problems(models: Sequence[JointProblem]) -> list[JointProblem]:
    """Problems in the order of what a search leaves that takes the inputs as exact."""
    # Short searches with exact inputs are cheap and order the candidates well enough.
    quick = [_try_estimate(model.with_motor_paths(), LeastSquares(max_evaluations=100)) for model in models]
    costs = [np.inf if one is None else float(np.nan_to_num(one.cost, nan=np.inf)) for one in quick]
    return [models[k] for k in np.argsort(costs, kind="stable")]


def _search_estimate(
    model: JointProblem, estimator: Estimator, plain: bool
) -> tuple[JointProblem, Estimate, LeastSquares | None]:
    """The problem with the errors of its inputs, its estimate, and the estimator if that maximises the likelihood."""
    used = model.with_paper_cost() if plain else model
    polish = estimator.estimator or LeastSquares() if isinstance(estimator, MultiStart) else estimator
    exact = None if plain or not isinstance(polish, LeastSquares) else polish
    # Motors on their paths cannot drift away under wrong parameters: a far wider basin of attraction than torques.
    first = used.with_motor_paths() if exact else used
    estimate = estimator.solve(first)
    if exact is not None and model.setup.drive != "rigid_torque":
        estimate = _search_other_minima(first, estimate, exact)
    model = model.with_path_errors(estimate.values)
    if exact is not None and any(model.path_errors):
        model, estimate = _iterate_errors(model, estimate, exact)
        used = model
    if estimate.covariance is not None:
        estimate = replace(estimate, covariance=used.covariance(model, estimate.values))
    return model, estimate, exact


def _drop_outliers(
    model: JointProblem, estimate: Estimate, estimator: LeastSquares
) -> tuple[JointProblem, Estimate, int]:
    """Problem and estimate without readings that are far from the fit, and how many these were."""
    total = 0
    for _ in range(ROUNDS):
        cut, count = reject_far_readings(model, estimate.values)
        if not count:
            break
        total += count
        model, estimate = _iterate_errors(cut.with_path_errors(estimate.values), estimate, estimator)
        estimate = replace(estimate, covariance=model.covariance(model, estimate.values))
    return model, estimate, total


def _as_test(given: JointTest | Record, chain: MeasurementChain | None, drive: Drive) -> JointTest:
    if isinstance(given, JointTest):
        return given
    if chain is None:
        hint = "chain=MeasurementChain(robot, frame, sensors)"
        raise InputError("a record needs a measurement chain", place=given.place, hint=hint)
    return prepare_test(given, chain, torque="known" if drive == "torque" else "measured")


def _prepare_tests(robot: Robot, tests: Sequence[JointTest], cost: str) -> tuple[list[JointTest], int]:
    """The tests as they are compared, and how many readings were left out of them."""
    if cost == "paper":
        return [_angles_only(robot, test) for test in tests], 0
    cut = [(test, 0) if test.smooth else reject_outliers(test) for test in tests]
    return [test for test, _ in cut], sum(count for _, count in cut)


def _angles_only(robot: Robot, test: JointTest) -> JointTest:
    """The test with the angles of the flexible joints only, which Eq. 24 compares."""
    links = [f.name for f in flexible_joints(robot)]
    kept = tuple(channel for channel in test.measured if channel in links)
    if not kept:
        raise InputError("no flexible joint's angle is measured", place=f"test {test.name!r}",
                         hint="Eq. 24 (cost='paper') compares nothing else")  # fmt: skip
    return test.select_channels(kept)


def _search_other_minima(model: JointProblem, found: Estimate, estimator: LeastSquares) -> Estimate:
    """The best of an estimate and, where it is poor, of searches from other stiffnesses.

    A stiffness that is far too high or too low loses the phase of the oscillation, and a search from there stays where
    the damping hides it.
    """
    if model.noise_known and 2.0 * found.cost <= POOR * max(model.freedom, 1):
        return found
    starts = np.repeat(model.guess[None], FACTORS.size, axis=0)
    for k, name in enumerate(model.names):
        # Damping grows with the root of the stiffness: the damping ratio stays the same over the scan.
        power = {"stiffness": 1.0, "damping": 0.5}.get(name.rsplit(".", 1)[1], 0.0)
        starts[:, k] *= FACTORS**power
    starts = np.clip(starts, model.lower, model.upper)
    costs = np.nan_to_num(model.costs(starts), nan=np.inf)
    # Local minima of the scanned costs, best first; a search from each of the three best is enough in practice.
    valleys = [k for k in np.argsort(costs) if costs[k] == costs[max(k - 1, 0) : k + 2].min() < np.inf]
    tried = [one for k in valleys[:3] if (one := _try_estimate(model.with_guess(starts[k]), estimator)) is not None]
    return min([found, *tried], key=lambda one: one.cost if np.isfinite(one.cost) else np.inf)


def _try_estimate(model: JointProblem, estimator: LeastSquares) -> Estimate | None:
    """The estimate of a search; None where it strays among joints too stiff to integrate, without an error."""
    before = [forward.stiff for forward in model.forwards]
    try:
        return estimator.solve(model)
    except SimulationError:
        for forward, steps in zip(model.forwards, before, strict=True):
            forward.stiff = steps
        return None


def _iterate_errors(model: JointProblem, estimate: Estimate, estimator: LeastSquares) -> tuple[JointProblem, Estimate]:
    """Problem and estimate with the errors of inputs among the noise, linearised about that estimate.

    Where residuals stay far larger than the noise, its exact size does not matter: searches are short, and end when
    linearising anew brings nothing.
    """
    least, most = np.inf, estimator
    for last in range(ROUNDS):
        before = estimate.values
        estimate = _refit(model, estimate, most)
        # In units of the standard deviations; the minimum with 1e300 keeps infinite ones (undetermined) comparable.
        settled = np.all(np.abs(estimate.values - before) <= SETTLED * np.minimum(estimate.std, 1e300))
        if model.has_exact_inputs or settled or last == ROUNDS - 1:
            break
        if model.noise_known and 2.0 * estimate.cost > HOPELESS * max(model.freedom, 1):
            # A misfit this large is an error of model or data: better linearisation will not cure it.
            if last and estimate.cost > 0.9 * least:
                break
            most = replace(estimator, max_evaluations=min(estimator.max_evaluations, SHORT))
        least = min(least, estimate.cost)
        model = model.with_path_errors(estimate.values)
    return model, estimate


def _refit(model: JointProblem, first: Estimate, estimator: LeastSquares) -> Estimate:
    """The estimate once more, with the paths' errors among the noise."""
    # From the first estimate: the covariance of the noise changed, the minimum moved little.
    second = _try_estimate(model.with_guess(first.values), estimator)
    if second is None:
        return replace(first, reason=StopReason.STALLED)
    return replace(
        second,
        evaluations=first.evaluations + second.evaluations,
        iterations=first.iterations + second.iterations,
        reason=second.reason if first.has_converged else first.reason,
        history=first.history,
        seconds=first.seconds + second.seconds,
        method=first.method,
        extra=first.extra,
    )


def profile_likelihood(fit: JointFit, name: str, *, span: float = 3.0, points: int = 11) -> Profile:
    """The profile of one parameter over ``+-span`` standard deviations, every other parameter fitted anew."""
    return profile(fit.model, fit.estimate, fit.estimate.names[fit._index(name)], span=span, points=points)


def sample_posterior(
    fit: JointFit, *, walkers: int | None = None, steps: int = 200, burn: int = 40, seed: int = 0
) -> Posterior:
    """Samples of the parameters given the data; see :func:`spacearm.optimise.sample`."""
    return sample(fit.model, fit.estimate, walkers=walkers, steps=steps, burn=burn, seed=seed)
