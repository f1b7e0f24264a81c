"""Choice of springs and dampers: the trade-off between the effect of a load on the base and its duration.

Designs are points of the unit cube: stiffness of each axis on a logarithmic scale within its range, damping on a
linear one, since it may be zero. A multi-objective search (:mod:`spacearm.optimise.pareto`) proposes them; every
design is run in every load case (:mod:`spacearm.capture.evaluate`), in fixed steps and vectorised. Designs that leave
their travel or do not settle are infinitely bad in all objectives, which needs no weight for a penalty.

All designs take the same step, that of the stiffest and most strongly damped corner, from its modes: otherwise a soft
design might look better because it was integrated more finely. RK4 damps its highest frequency by less than 1 % a
second and is stable there. Designs of the front can be run again with adaptive steps and events (``verify``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from spacearm.capture.capture_run import CaptureRun, SettlingCriterion
from spacearm.capture.capture_simulation import simulate_capture
from spacearm.capture.evaluate import Evaluator, Law, LoadCase, Responses
from spacearm.capture.modes import modes
from spacearm.capture.soft_joints import find_cushioning_axes
from spacearm.checks import array, check_name, check_not_empty, number, unique
from spacearm.engine.checkpoints import checkpoint
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.optimise.pareto import pareto_search
from spacearm.typing import Array

Range = tuple[float, float]
Ranges = Range | Mapping[str, Range]
#: Largest product of step and highest frequency (of the stiffest design): RK4 then loses under 1 % of that mode per
#: second.
STEP_TIMES_FREQUENCY = 0.6
#: Largest product of step and fastest decay: RK4 is stable up to 2.78.
STEP_TIMES_DECAY = 1.5
MOST_STEPS = 200_000
#: Runs between two selections.
LARGEST_BATCH = 16_384


@dataclass(frozen=True, eq=False)
class DesignFront:
    """Designs that no other design beats in all objectives.

    Args:
        axes: joint names of the soft axes.
        objectives: names; see :meth:`spacearm.capture.evaluate.Responses.select_objective`.
        stiffness, damping: (F, axes).
        values: (F, objectives) over all cases (expected or worst).
        sampled: (designs, objectives) of all feasible designs that were tried.
        runs: number of runs computed.
        law: switching law of the dampers.
    """

    axes: tuple[str, ...]
    objectives: tuple[str, ...]
    stiffness: Array
    damping: Array
    values: Array
    sampled: Array
    runs: int
    law: Law
    evaluator: Evaluator

    def best(self, objective: str) -> int:
        """Index of the design that is best in this objective."""
        column = self.objectives.index(check_name(objective, self.objectives, "objective", of="the front"))
        return int(np.argmin(self.values[:, column]))

    def knee(self) -> int:
        """Index of the design closest to the best value of all objectives, each scaled to its range on the front."""
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        scaled = (self.values - low) / np.where(high > low, high - low, 1.0)
        return int(np.argmin(np.linalg.norm(scaled, axis=1)))

    def design(self, index: int) -> tuple[dict[str, float], dict[str, float]]:
        """Stiffness and damping by axis."""
        return (
            dict(zip(self.axes, map(float, self.stiffness[index]), strict=True)),
            dict(zip(self.axes, map(float, self.damping[index]), strict=True)),
        )

    def verify(self, indices: Sequence[int]) -> float:
        """Largest relative difference between these designs' values (all cases) and adaptive runs; constant dampers
        only.

        Infinite if a design does not settle there.
        """
        if self.law != "constant":
            raise InputError("only constant dampers can be verified", place="front")
        worst = 0.0
        for index in indices:
            stiffness, damping = self.design(index)
            responses = self.evaluator(self.stiffness[[index]], self.damping[[index]])
            for c, case in enumerate(self.evaluator.cases):
                outcome = simulate_capture(
                    self.evaluator.robot, self.evaluator.start(case), case.loads, duration=self.evaluator.duration,
                    stiffness=stiffness, damping=damping, free=self.evaluator.free, travel="report", sample=0.01,
                )  # fmt: skip
                for name in self.objectives:
                    exact = _measure(name, outcome, self.evaluator.settling)
                    found = float(responses.select_objective(name)[0, c])
                    gap = abs(found - exact)
                    if not math.isfinite(gap):  # one settles, the other does not
                        return math.inf
                    worst = max(worst, gap / exact if exact else gap)
        return worst


def _measure(objective: str, outcome: CaptureRun, settling: SettlingCriterion) -> float:
    if objective == "settling":
        return outcome.settling_time(settling)
    if objective == "base_rate":
        return float(np.linalg.norm(outcome.base_rate, axis=1).max())
    if objective in ("force", "moment"):
        part = outcome.base_wrench[:, :3] if objective == "force" else outcome.base_wrench[:, 3:]
        return float(np.linalg.norm(part, axis=1).max())
    return float(np.abs(outcome.base_wrench[:, ("fx", "fy", "fz", "mx", "my", "mz").index(objective)]).max())


def design(
    robot: Robot,
    cases: Sequence[LoadCase],
    *,
    stiffness: Ranges,
    damping: Ranges = (0.0, 5.0),
    objectives: Sequence[str] = ("base_rate", "moment", "settling"),
    over: Literal["expected", "worst"] = "expected",
    runs: int = 20_480,
    law: Law = "constant",
    off: float = 0.0,
    settling: SettlingCriterion | None = None,
    duration: float = 40.0,
    step: float = 0.05,
    ties: Sequence[Sequence[str]] = (),
    free: Sequence[str] = (),
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> DesignFront:
    """Pareto front of stiffness and damping of every soft axis within hardware ranges.

    Args:
        cases: loads or captures with their probabilities.
        stiffness: (low, high) for all soft axes, or by axis name: N/m or N m/rad, low above zero.
        damping: likewise, N s/m or N m s/rad.
        objectives: quantities to minimise: ``base_rate``, ``force``, ``moment``, ``fx`` ... ``mz``, ``settling``.
        over: compare by the probability-weighted mean over cases, or by the worst of them.
        runs: number of runs to compute, designs times cases.
        law: ``constant`` dampers, or switched ``balance`` or ``skyhook``; ``off`` is then the lower damping.
        settling: criterion; designs that do not settle within ``duration`` in every case are rejected.
        ties: groups of axes that share one stiffness and one damping.
        free: joints other than soft axes that may move; all others are held.
        seed: of the search; the same seed gives the same front.
    """
    axes = find_cushioning_axes(robot)
    if not axes:
        raise InputError(f"robot {robot.name!r} has no soft joint", place="design", hint="use capture.soften")
    low_k, high_k = _ranges("stiffness", stiffness, axes, above_zero=True)
    low_d, high_d = _ranges("damping", damping, axes, above_zero=False)
    evaluator = Evaluator(robot, cases, duration, step, settling or SettlingCriterion(), law, off, free)
    # One step for all designs, that of the stiffest corner, so that errors are comparable and no design looks better
    # because it was integrated more coarsely.
    evaluator = replace(evaluator, step=_step(evaluator, axes, high_k, high_d))
    weights = np.array([case.probability for case in cases])
    members = _tie_axes(axes, ties)
    count = len(set(members))
    names = tuple(objectives)
    check_not_empty(names, "objective", place="design")
    unique(names, "objective", place="design")
    limits = np.array([[robot.joint(a).limits.lower, robot.joint(a).limits.upper] for a in axes])

    def decode(unit: Array) -> tuple[Array, Array]:
        spring, damper = unit[:, :count][:, members], unit[:, count:][:, members]
        # Stiffness on a logarithmic scale (ranges span decades), damping on a linear one, since it may be zero.
        return low_k * (high_k / low_k) ** spring, low_d + (high_d - low_d) * damper

    def evaluate(unit: Array) -> Array:
        designs = decode(unit)
        responses = Responses(**checkpoint("designs", (evaluator, *designs), lambda: vars(evaluator(*designs))))
        values = _values(responses, names, weights, over)
        travel = responses.travel[..., evaluator.axes]
        fits = np.all((travel[:, :, 0] >= limits[:, 0]) & (travel[:, :, 1] <= limits[:, 1]), axis=(1, 2))
        good = fits & np.all(np.isfinite(values), axis=1) & np.all(np.isfinite(responses.settling), axis=1)
        # Infeasible designs are infinitely bad in every objective: never on the front, and no penalty weight to choose.
        return np.where(good[:, None], values, np.inf)

    # Rounded up: ``runs`` counts runs, the search counts designs.
    wanted = max(-(-runs // len(cases)), 64)
    batch = max(min(wanted // 4, LARGEST_BATCH // len(cases)), 32)
    found = pareto_search(evaluate, 2 * count, count=wanted, batch=batch, seed=seed, progress=progress)
    if not len(found.points):
        raise InputError(
            "no design settles in time within its travel",
            place="design",
            hint="try wider ranges, more travel, a longer duration or a weaker settling criterion",
        )
    springs, dampers = decode(found.points)
    return DesignFront(
        axes, names, springs, dampers, found.values, found.sampled, found.tried * len(cases), law, evaluator
    )


def _step(evaluator: Evaluator, axes: Sequence[str], stiffness: Array, damping: Array) -> float:
    """Step (s) with which RK4 resolves the fastest mode of the stiffest design and stays stable with the strongest
    dampers, in every case.
    """
    chosen = evaluator.step
    for case in evaluator.cases:
        found = modes(
            evaluator.robot,
            evaluator.start(case).joints,
            held=evaluator.held,
            stiffness=dict(zip(axes, stiffness, strict=True)),
            damping=dict(zip(axes, damping, strict=True)),
        )
        chosen = min(
            chosen,
            STEP_TIMES_FREQUENCY / max(float(found.frequency[-1]), 1e-9),
            STEP_TIMES_DECAY / max(float(found.decay.max()), 1e-9),
        )
    if evaluator.duration / chosen > MOST_STEPS:
        raise InputError(
            f"the stiffest design needs steps of {chosen:.1g} s, {evaluator.duration / chosen:.1g} of them",
            place="design",
            hint="try narrower ranges, a softer contact, or a shorter duration",
        )
    return chosen


def _values(responses: Responses, objectives: Sequence[str], weights: Array, over: str) -> Array:
    """(designs, objectives) from all cases."""
    columns = []
    for name in objectives:
        each = responses.select_objective(name)
        columns.append(each.max(axis=1) if over == "worst" else each @ (weights / weights.sum()))
    return np.stack(columns, axis=1)


def _ranges(what: str, given: Ranges, axes: Sequence[str], *, above_zero: bool) -> tuple[Array, Array]:
    table = dict(given) if isinstance(given, Mapping) else dict.fromkeys(axes, given)
    least: dict[str, Any] = {"above" if above_zero else "least": 0.0}
    with error_context(f"range of {what}"):
        for name in table:
            check_name(name, axes, "soft axis")
        missing = [name for name in axes if name not in table]
        if missing:
            raise InputError(f"axis {missing[0]!r} has none", hint="give one for every soft axis")
        pairs = np.array([array(table[name], name, (2,), **least) for name in axes])
        for name, (low, high) in zip(axes, pairs, strict=True):
            number(low, f"lower end for {name!r}", most=high)
    return pairs[:, 0], pairs[:, 1]


def _tie_axes(axes: Sequence[str], ties: Sequence[Sequence[str]]) -> list[int]:
    """Index of each axis's design variable."""
    group: dict[str, str] = {}
    for tie in ties:
        group |= {check_name(name, axes, "soft axis", place="ties"): tie[0] for name in tie}
    heads = list(dict.fromkeys(group.get(name, name) for name in axes))
    return [heads.index(group.get(name, name)) for name in axes]
