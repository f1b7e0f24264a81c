"""Identification of flexible joints: tests in, values with uncertainty and diagnostics out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from spacearm.checks import known, one_of
from spacearm.errors import InputError, SimulationError
from spacearm.identify.fit import Score
from spacearm.identify.joint.flexible_joints import flexible_joints, with_values
from spacearm.identify.joint.forward import Accuracy, Drive, work_limit
from spacearm.identify.joint.laws import Law
from spacearm.identify.joint.measured import BASE, JointTest, joint_test_from_record
from spacearm.identify.joint.measurement_chain import Chain
from spacearm.identify.joint.outliers import without_far, without_outliers
from spacearm.identify.joint.problem import Bounds, JointProblem
from spacearm.identify.joint.remarks import misfits, remarks_on
from spacearm.identify.joint.sampling import Weighting
from spacearm.identify.joint.suspects import NUISANCES, score_of, suspects
from spacearm.identify.numerics import solvable
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.optimise.diagnose import LEVEL, Diagnosis, Whiteness, diagnose
from spacearm.optimise.estimate import Estimate, Estimator, Reason
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.multistart import MultiStart
from spacearm.optimise.nelder_mead import NelderMead
from spacearm.optimise.posterior import Posterior, Profile, profile, sample
from spacearm.result import Certificate, Check
from spacearm.typing import Array

#: The errors of inputs are linearised anew so often, until nothing moves by more than this share of its deviation.
ROUNDS, SETTLED = 8, 0.01
#: Mean squared residual of a fit that lacks something, and evaluations of the searches that go on from there.
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


Nuisance = Literal["off", "test", "estimate"]
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


@dataclass(frozen=True, eq=False)
class JointFit:
    """Identified values, and how far they can be trusted."""

    model: JointProblem
    diagnosis: Diagnosis
    remarks: tuple[str, ...]
    seconds: float
    suspects: tuple[Score, ...] = ()
    outliers: int = 0

    @property
    def certificate(self) -> Certificate:
        """Checks that a right model passes: convergence, bounds, size and whiteness of residuals, nothing suspected."""
        level = LEVEL / max(len(self.suspects), 1)
        doubts = {
            f"suspect.{one.name}": Check(1.0 - one.p_value, 1.0 - level, "", "1 - p of the score test")
            for one in self.suspects
        }
        return self.diagnosis.certificate() | doubts

    def suspecting(self, more: tuple[Score, ...]) -> JointFit:
        """The same with more suspects; they stand for those of the same name."""
        told, names = (f"suspected: {one.advice}" for one in more), {one.name for one in more}
        others = (one for one in self.suspects if one.name not in names)
        ranked = tuple(sorted((*more, *others), key=lambda one: -one.statistic))
        return replace(self, suspects=ranked, remarks=(*self.remarks, *told))

    @property
    def sound(self) -> bool:
        return self.certificate.sound

    @property
    def estimate(self) -> Estimate:
        return self.diagnosis.estimate

    @property
    def whiteness(self) -> dict[str, dict[str, Whiteness]]:
        """By test and channel."""
        return self.diagnosis.whiteness

    @property
    def chi2(self) -> float:
        """Sum of squared residuals in standard deviations, per degree of freedom; NaN with unknown noise."""
        return self.diagnosis.chi_square.ratio if self.model.noise_known else float("nan")

    def __getitem__(self, name: str) -> float:
        """A value by its full name, or by its last word where that is unique."""
        return float(self.estimate.values[self._index(name)])

    def std(self, name: str) -> float:
        return float(self.estimate.std[self._index(name)])

    def _index(self, name: str) -> int:
        names = self.estimate.names
        if name in names:
            return names.index(name)
        near = [i for i, full in enumerate(names) if full.rsplit(".", 1)[-1] == name]
        if len(near) != 1:
            raise InputError(f"{name!r} is {'ambiguous' if near else 'not known'}", place="fit", hint=", ".join(names))
        return near[0]

    @property
    def values(self) -> dict[str, dict[str, float]]:
        """``values[joint][parameter]`` of the common parameters, fixed ones included."""
        return self.model.values(self.estimate.values)

    def robot(self) -> Robot:
        """The robot with the identified values written into its joints."""
        return with_values(self.model.robot, self.values)

    def outputs(self, test: int) -> dict[str, Array]:
        """The fitted model in a test's measured channels."""
        x = self.estimate.values
        return self.model.outputs(x, test, self.model.respond(x, test))[0]

    @property
    def at_bounds(self) -> tuple[str, ...]:
        return self.diagnosis.on_bounds

    def summary(self) -> list[dict[str, Any]]:
        """Name, value, standard deviation, unit of every parameter."""
        e = self.estimate
        return [
            {"name": n, "value": float(v), "sd": float(s), "unit": u}
            for n, v, s, u in zip(e.names, e.values, e.std, e.units, strict=True)
        ]


@solvable("identification")
def identify_joints(
    robot: Robot,
    tests: Sequence[JointTest | Record],
    *,
    chain: Chain | None = None,
    drive: Drive = "motor_angle",
    law: Law | None = None,
    method: Method | Estimator = "levenberg_marquardt",
    cost: Literal["likelihood", "paper"] = "likelihood",
    bounds: Bounds | None = None,
    guess: Mapping[str, float] | None = None,
    fixed: Mapping[str, float] | None = None,
    offset_rate: bool = False,
    weighting: Weighting | None = None,
    reference_inertia: float | None = None,
    accuracy: Accuracy | None = None,
    nuisances: Mapping[str, Nuisance] | None = None,
    warn: bool = True,
) -> JointFit:
    """Find motor inertia, stiffness and damping of the flexible joints, and every test's start offset.

    Args:
        tests: several tests share the joints' parameters; each has its own offset. Records, of files or of runs, become
            tests by :func:`joint_test_from_record`.
        chain: how a record shows the flexible joints' angles; needed for records alone.
        drive: how the model's motors move. ``motor_angle`` (default) prescribes the measured angle and is right
            whatever moves the motor; ``torque`` needs the torque that really acted; ``rigid_torque`` is the paper's.
        law: friction and other laws beyond spring and damper.
        method: a name or any estimator of :mod:`spacearm.identify`.
        cost: the likelihood, or Eq. 24 of the paper, which compares the flexible joints' angles only, all alike.
        bounds: by full name (``joint1.stiffness``) or by kind (``stiffness``); from robot and data where not given.
        guess, fixed: start values, and values that are not to be identified; by full name or by kind.
        offset_rate: the spring's rate at the start is unknown too.
        weighting: weights over time, for example :func:`early`.
        nuisances: ``delay`` of the links' and base's sensors, their ``bias``, ``friction`` of motors under a torque:
            ``estimate`` them with the rest, ``test`` whether they would improve the fit (default), or leave them
            ``off``.
        warn: warn about what is not determined.

    Readings that their neighbours do not bear out are left out, unless paths are ``smooth``.
    """
    began = time.perf_counter()
    one_of(cost, ("likelihood", "paper"), "cost", place="identification")
    how = _asked(nuisances or {})
    chosen, outliers = _prepared(robot, [_as_test(test, chain, drive) for test in tests], cost)
    build = partial(
        _problem, robot, chosen, law=law or Law(), drive=drive, bounds=bounds, guess=guess, fixed=fixed,
        offset_rate=offset_rate, weighting=weighting, reference_inertia=reference_inertia, accuracy=accuracy,
    )  # fmt: skip
    model, estimator = build(how), estimator_of(method)
    samples = sum(test.time.size for test in chosen)
    with work_limit(samples, 1.0 if isinstance(estimator, LeastSquares) else PATIENCE):
        try:
            model, estimate, exact, far = _fitted(model, estimator, cost == "paper")
        except SimulationError as stray:
            with work_limit(samples, CAUSES):
                tested = _explained(model, np.inf, how, build, estimator) if cost == "likelihood" else ()
            stray.hint += "".join(f"; suspected: {one.advice}" for one in tested)
            raise
        tested_too = exact and drive != "rigid_torque"
        ignored = tuple(name for name, what in how.items() if what == "off") if tested_too else None
        with work_limit(samples):
            fit = assess(model, estimate, time.perf_counter() - began, ignored, outliers + far)
        if ignored is not None and _unexplained(fit):
            with work_limit(samples, CAUSES):
                fit = fit.suspecting(_explained(model, estimate.cost, how, build, estimator))
    if warn:
        for text in fit.remarks:
            kind = DataWarning if text.startswith("data") else IdentifiabilityWarning
            warnings.warn(text, kind, stacklevel=3)  # of the caller, past the decorator
    return fit


def _asked(nuisances: Mapping[str, Nuisance]) -> dict[str, Nuisance]:
    """What to do with every nuisance."""
    how: dict[str, Nuisance] = {**dict.fromkeys(NUISANCES, "test"), **nuisances}
    for name, what in how.items():
        known(name, NUISANCES, "nuisance", place="nuisances")
        one_of(what, get_args(Nuisance), name, place="nuisances")
    return how


def _problem(
    robot: Robot, tests: Sequence[JointTest], how: Mapping[str, str], *, law: Law, **options: Any
) -> JointProblem:
    """The problem with those nuisances that are to be estimated."""
    if how["bias"] == "estimate":
        seen = {*BASE, *(f.name for f in flexible_joints(robot))}
        tests = [replace(test, biases=tuple(c for c in test.measured if c in seen)) for test in tests]
    if how["friction"] == "estimate" and law.motor == "none":
        law = replace(law, motor="coulomb")
    return JointProblem(robot, tests, law=law, delay=how["delay"] == "estimate", **options)


def _fitted(
    model: JointProblem, estimator: Estimator, plain: bool
) -> tuple[JointProblem, Estimate, LeastSquares | None, int]:
    """As :func:`_searched`, without readings that are far from the fit, and how many these were."""
    model, estimate, exact = _searched(model, estimator, plain)
    for forward in model.forwards:  # the first search is over; later ones count by themselves
        forward.stiff = 0
    if exact is None or not model.noise_known or any(test.smooth for test in model.tests):
        return model, estimate, exact, 0
    # What follows a search has work of its own: one that used up almost all of its own has still come to its end.
    with work_limit(sum(test.time.size for test in model.tests)):
        model, estimate, far = _cleared(model, estimate, exact)
    return model, estimate, exact, far


def _unexplained(fit: JointFit) -> bool:
    """Whether a fit is not sound, and none of its suspects alone would bring the residuals down to the noise.

    Scores look at the neighbourhood of a fit. Where a search has strayed they name nothing, or the wrong thing.
    """
    wrong = {name for name, check in fit.certificate.items() if not check.sound}
    if wrong <= {"on_bounds"} or not fit.model.noise_known:  # residuals are as they should be: there is nothing to find
        return False
    best = max(fit.suspects, key=lambda one: one.statistic, default=None)
    if best is None or best.p_value * len(fit.suspects) >= LEVEL:
        return True
    return fit.chi2 - best.statistic / max(fit.model.freedom, 1) > fit.diagnosis.chi_square.bounds()[1]


def _explained(
    model: JointProblem, cost: float, how: Mapping[str, str], build: Callable[..., JointProblem], estimator: Estimator
) -> tuple[Score, ...]:
    """The nuisance to test that lowers the cost most when it is estimated with the rest, beyond what chance does.

    The most promising is fitted first; where it leaves no more than noise, no other is.
    """
    from scipy.stats import chi2

    off = {name: "off" if what == "test" else what for name, what in how.items()}
    before = best = float(np.nan_to_num(cost, nan=np.inf))
    found: tuple[Score, ...] = ()
    for other in _promising([
        build({**off, nuisance: "estimate"}) for nuisance in ("bias", "delay", "friction")
        if how[nuisance] == "test" and (nuisance != "friction" or model.setup.drive == "torque")
    ]):  # fmt: skip
        try:
            fitted, estimate, _, _ = _fitted(other, estimator, False)
        except SimulationError:
            continue
        values, std = estimate.values, estimate.std
        new = [k for k, name in enumerate(estimate.names) if name not in model.names]
        enough = 0.5 * chi2.isf(LEVEL / len(NUISANCES), max(len(new), 1))
        if new and estimate.converged and estimate.cost < min(best, before - enough):
            k = max(new, key=lambda i: abs(values[i]) / std[i])
            word = estimate.names[k].removeprefix(f"{model.tests[0].name}.")
            best = estimate.cost
            found = (score_of(word, float(values[k] / std[k]) ** 2, float(values[k]), estimate.units[k]),)
            if 2.0 * best < chi2.isf(LEVEL, max(fitted.freedom, 1)):
                break
    return found


def _promising(models: Sequence[JointProblem]) -> list[JointProblem]:
    """Problems in the order of what a search leaves that takes the inputs as exact."""
    quick = [_tried(model.held(), LeastSquares(max_evaluations=100)) for model in models]
    costs = [np.inf if one is None else float(np.nan_to_num(one.cost, nan=np.inf)) for one in quick]
    return [models[k] for k in np.argsort(costs, kind="stable")]


def _searched(
    model: JointProblem, estimator: Estimator, plain: bool
) -> tuple[JointProblem, Estimate, LeastSquares | None]:
    """The problem with the errors of its inputs, its estimate, and by what, where that is the most likely one."""
    used = model.plain() if plain else model
    polish = estimator.estimator or LeastSquares() if isinstance(estimator, MultiStart) else estimator
    exact = None if plain or not isinstance(polish, LeastSquares) else polish
    first = used.held() if exact else used
    estimate = estimator.solve(first)
    if exact is not None and model.setup.drive != "rigid_torque":
        estimate = _other_valleys(first, estimate, exact)
    model = model.with_path_errors(estimate.values)
    if exact is not None and any(model.path_errors):
        model, estimate = _settled(model, estimate, exact)
        used = model
    if estimate.covariance is not None:
        estimate = replace(estimate, covariance=used.covariance(model, estimate.values))
    return model, estimate, exact


def _cleared(model: JointProblem, estimate: Estimate, estimator: LeastSquares) -> tuple[JointProblem, Estimate, int]:
    """Problem and estimate without readings that are far from the fit, and how many these were."""
    total = 0
    for _ in range(ROUNDS):
        cut, count = without_far(model, estimate.values)
        if not count:
            break
        total += count
        model, estimate = _settled(cut.with_path_errors(estimate.values), estimate, estimator)
        estimate = replace(estimate, covariance=model.covariance(model, estimate.values))
    return model, estimate, total


def _as_test(given: JointTest | Record, chain: Chain | None, drive: Drive) -> JointTest:
    if isinstance(given, JointTest):
        return given
    if chain is None:
        hint = "chain=Chain(robot, frame, sensors)"
        raise InputError("a record needs a measurement chain", place=given.place, hint=hint)
    return joint_test_from_record(given.name, chain, given, torque="known" if drive == "torque" else "measured")


def _prepared(robot: Robot, tests: Sequence[JointTest], cost: str) -> tuple[list[JointTest], int]:
    """The tests as they are compared, and how many readings were left out of them."""
    if cost == "paper":
        return [_angles_only(robot, test) for test in tests], 0
    cut = [(test, 0) if test.smooth else without_outliers(test) for test in tests]
    return [test for test, _ in cut], sum(count for _, count in cut)


def _angles_only(robot: Robot, test: JointTest) -> JointTest:
    """What Eq. 24 looks at: the angles of the flexible joints."""
    links = [f.name for f in flexible_joints(robot)]
    kept = tuple(channel for channel in test.measured if channel in links)
    if not kept:
        raise InputError("no flexible joint's angle is measured", place=f"test {test.name!r}",
                         hint="Eq. 24 (cost='paper') compares nothing else")  # fmt: skip
    return test.channels(kept)


def _other_valleys(model: JointProblem, found: Estimate, estimator: LeastSquares) -> Estimate:
    """The best of an estimate and, where it is poor, of searches from other stiffnesses.

    A stiffness that is far too high or too low loses the phase of the oscillation, and a search from there stays where
    the damping hides it.
    """
    if model.noise_known and 2.0 * found.cost <= POOR * max(model.freedom, 1):
        return found
    starts = np.repeat(model.guess[None], FACTORS.size, axis=0)
    for k, name in enumerate(model.names):
        power = {"stiffness": 1.0, "damping": 0.5}.get(name.rsplit(".", 1)[1], 0.0)
        starts[:, k] *= FACTORS**power
    starts = np.clip(starts, model.lower, model.upper)
    costs = np.nan_to_num(model.costs(starts), nan=np.inf)
    valleys = [k for k in np.argsort(costs) if costs[k] == costs[max(k - 1, 0) : k + 2].min() < np.inf]
    tried = [one for k in valleys[:3] if (one := _tried(model.starting_at(starts[k]), estimator)) is not None]
    return min([found, *tried], key=lambda one: one.cost if np.isfinite(one.cost) else np.inf)


def _tried(model: JointProblem, estimator: LeastSquares) -> Estimate | None:
    """What a search finds; nothing where it strays among joints too stiff to follow, which ends this search alone."""
    before = [forward.stiff for forward in model.forwards]
    try:
        return estimator.solve(model)
    except SimulationError:
        for forward, steps in zip(model.forwards, before, strict=True):
            forward.stiff = steps
        return None


def _settled(model: JointProblem, estimate: Estimate, estimator: LeastSquares) -> tuple[JointProblem, Estimate]:
    """Problem and estimate with the errors of inputs among the noise, linearised about that estimate.

    Where residuals stay far larger than the noise, its exact size does not matter: searches are short, and end when
    linearising anew brings nothing.
    """
    least, most = np.inf, estimator
    for last in range(ROUNDS):
        before = estimate.values
        estimate = _again(model, estimate, most)
        settled = np.all(np.abs(estimate.values - before) <= SETTLED * np.minimum(estimate.std, 1e300))
        if model.smooth or settled or last == ROUNDS - 1:
            break
        if model.noise_known and 2.0 * estimate.cost > HOPELESS * max(model.freedom, 1):
            if last and estimate.cost > 0.9 * least:
                break
            most = replace(estimator, max_evaluations=min(estimator.max_evaluations, SHORT))
        least = min(least, estimate.cost)
        model = model.with_path_errors(estimate.values)
    return model, estimate


def _again(model: JointProblem, first: Estimate, estimator: LeastSquares) -> Estimate:
    """The estimate once more, with the paths' errors among the noise."""
    second = _tried(model.starting_at(first.values), estimator)
    if second is None:
        return replace(first, reason=Reason.STALLED)
    return replace(
        second,
        evaluations=first.evaluations + second.evaluations,
        iterations=first.iterations + second.iterations,
        reason=second.reason if first.converged else first.reason,
        history=first.history,
        seconds=first.seconds + second.seconds,
        method=first.method,
        extra=first.extra,
    )


def assess(
    model: JointProblem, estimate: Estimate, seconds: float, ignored: tuple[str, ...] | None = None, outliers: int = 0
) -> JointFit:
    """Diagnostics of an estimate: whiteness of residuals, what is not determined, what the set-up does.

    ``ignored``: of what may be wrong besides, what is not to be tested; None: nothing is.
    """
    residuals = model.named_residuals(estimate.values)
    found = diagnose(replace(estimate, residuals=residuals, noise_known=model.noise_known), max(model.freedom, 1))
    doubts: tuple[Score, ...] = ()
    if ignored is not None and len(ignored) < len(NUISANCES) and np.isfinite(estimate.cost):
        doubts = suspects(model, estimate.values, ignored)
    remarks = [*remarks_on(model, found), *misfits(model, found, doubts, outliers)]
    return JointFit(model, found, tuple(remarks), seconds, doubts, outliers)


def profile_likelihood(fit: JointFit, name: str, *, span: float = 3.0, points: int = 11) -> Profile:
    """The profile of one parameter over ``+-span`` standard deviations, every other parameter fitted anew."""
    return profile(fit.model, fit.estimate, fit.estimate.names[fit._index(name)], span=span, points=points)


def sample_posterior(
    fit: JointFit, *, walkers: int | None = None, steps: int = 200, burn: int = 40, seed: int = 0
) -> Posterior:
    """Samples of the parameters given the data; see :func:`spacearm.optimise.sample`."""
    return sample(fit.model, fit.estimate, walkers=walkers, steps=steps, burn=burn, seed=seed)
