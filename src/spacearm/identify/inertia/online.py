"""A grasped target's ten parameters while data arrive: after every few samples, with what is known until then.

The rest of the robot is known. Each update takes the samples that came and goes on from the last estimate by the steps
of :func:`.fit_output_error`: thrusters may fire, all channels count, the start and the errors of the encoders are part
of it, and the covariance is that of all samples so far. The latest samples are kept as they are. What older ones say is
kept as an :class:`.PriorSummary`, linearised at the estimate of the time when they were dropped: memory, and the cost
of an update, do not grow (C. V. Rao, J. B. Rawlings and D. Q. Mayne, Constrained state estimation for nonlinear
discrete-time systems, IEEE Trans. Automatic Control 48(2), 2003).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.checks import integer, non_negative
from spacearm.errors import InputError
from spacearm.identify.inertia._record_prediction import PriorSummary
from spacearm.identify.inertia.inertia_parameters import LINEAR, LINEAR_UNITS, typical_sizes
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.output_error_fit import fit_output_error
from spacearm.identify.inertia.readings import FEWEST, MotionRecord
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.model import Robot
from spacearm.typing import Array

#: Latest samples that are kept, where nobody says how many.
KEPT = 1000


@dataclass(frozen=True, eq=False)
class TargetState:
    """What is known of the target at a time: linear parameters (10,) and covariance (10, 10)."""

    time: float
    values: Array
    covariance: Array

    @property
    def std(self) -> Array:
        return np.sqrt(np.diag(self.covariance))


class TargetFilter:
    """Estimates the ten linear parameters of one body (in its own frame) from arriving samples.

    Args:
        robot: all other bodies with their true inertias; those of ``body`` are the first guess.
        body: the body that holds the target.
        relative: deviation of the first guess in typical sizes.
        kept: latest samples that are kept as they are, at most; half of them are dropped at a time.
    """

    names = LINEAR
    units = LINEAR_UNITS

    def __init__(self, robot: Robot, body: str, *, relative: float = 1.0, kept: int = KEPT) -> None:
        place = 10 * robot.body_index(body)
        own = slice(place, place + 10)
        non_negative(relative, "relative", place="target filter")
        self.kept = integer(kept, "kept", least=2 * FEWEST, place="target filter")
        # Zero for all other bodies: what is known exactly is no unknown, and only ten numbers are left.
        sigma = np.zeros(10 * len(robot.bodies))
        sigma[own] = max(relative, 1e-9) * typical_sizes(robot)[own]
        self.robot, self.prior = robot, Prior(robot.inertia_parameters.ravel().copy(), sigma, "first guess")
        self._state = TargetState(0.0, robot.inertia_parameters.ravel()[own].copy(), np.diag(sigma[own] ** 2))
        self._record: MotionRecord | None = None
        self._start: Array | None = None
        self._arrival: PriorSummary | None = None
        #: Samples taken so far.
        self.samples = 0

    @property
    def time(self) -> float:
        """Time of the last sample, s."""
        return self._state.time

    def update(self, record: MotionRecord) -> TargetState:
        """Take in the samples of a record (one or many) that come after those taken before."""
        if record.batch:
            raise InputError("has repetitions", place=record.place, hint="expected one")
        if not any(sigma > 0 for sigma in record.sigma.values()):
            raise InputError("states no noise", place=record.place, hint="the filter weights samples by their noise")
        self._record = record if self._record is None else self._record.append(record)
        self.samples += record.times.size
        self._state = TargetState(float(record.times[-1]), self._state.values, self._state.covariance)
        # Each fit starts where the last one ended: a few steps are enough, and the search cannot fall into another
        # minimum.
        if self.samples >= FEWEST:
            problem = OutputErrorProblem(self.robot, [self._record], prior=self.prior, arrival=self._arrival)
            fit = fit_output_error(problem, self._start, judge=False)
            self._start = fit.x
            self._state = TargetState(self._state.time, fit.x[:10], fit.covariance[:10, :10])
            # Half at a time: the summary is linear about the estimate of now, so that samples are dropped seldom, and
            # late.
            if self._record.times.size > self.kept:
                last = self._record.times.size - self.kept // 2
                self._arrival = problem.summarise_samples(fit.x, last)
                self._record = self._record.select_samples(slice(last, None))
        return self._state

    def state(self) -> TargetState:
        """Estimate and covariance now."""
        return self._state


def track_target(robot: Robot, body: str, record: MotionRecord, chunk: int = 10, **options: Any) -> list[TargetState]:
    """The filter's states over a record, ``chunk`` samples at a time, the first before any data."""
    integer(chunk, "chunk", least=1, place="target filter")
    watch = TargetFilter(robot, body, **options)
    states = [watch.state()]
    for first in range(0, record.times.size, chunk):
        states.append(watch.update(record.select_samples(slice(first, first + chunk))))
    return states
