"""What happens in time in a loop of fixed steps, the same on the processor and on a GPU.

Time is cut into *intervals*, each of a whole number of equal steps. On each, inputs may be polynomials of the time
since its start, and a sampled law is asked at every ``hold``-th step. Random numbers of a law are functions of seed,
sample, time and channel (:mod:`spacearm.engine.noise`); ``moments`` are the times that they are drawn by.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.noise import AFTER, MOMENTS
from spacearm.typing import Array

#: Channels of random numbers of a law that has none.
NO_RANDOM_CHANNELS = np.zeros((0, 2), dtype=np.int64)


class Schedule(NamedTuple):
    """What happens in time.

    Args:
        counts: (intervals,) steps in each.
        steps: (intervals,) s.
        channels: inputs that are polynomials on each interval.
        coefficient: (cases, powers, intervals, numbers) of the channels in this order, lowest power first.
        reference: the same of what a sampled law reads when it is asked.
        hold: steps between two ticks of a law.
        ask: (intervals,) at which step of each the law is asked first; unless given, all steps are counted on.
        random_channels: (numbers, 2) channel of each random number, and whether it is drawn once.
        seed: of samples that have none of their own.
        draw: number of the first sample, by which it draws.
        start: s since the run's start.
    """

    counts: Any
    steps: Array
    channels: tuple[str, ...] = ()
    coefficient: Array = np.zeros((1, 1, 1, 0))
    reference: Array = np.zeros((1, 1, 1, 0))
    hold: int = 1
    ask: Any = None
    random_channels: Any = NO_RANDOM_CHANNELS
    seed: int = 0
    draw: int = 0
    start: float = 0.0

    @property
    def begins(self) -> Array:
        """Begin (intervals,) of each interval, s since the schedule's start."""
        return np.concatenate([[0.0], np.cumsum(self.steps * self.counts)[:-1]])

    @property
    def first_steps(self) -> Any:
        """Number of steps (intervals,) before each interval."""
        return np.concatenate([[0], np.cumsum(self.counts)[:-1]]).astype(np.int64)

    @property
    def law_steps(self) -> Any:
        """Step (intervals,) of each at which a law is asked first; not at all where it is ``hold`` or more."""
        if self.ask is not None:
            return np.asarray(self.ask, dtype=np.int64)
        return -self.first_steps % self.hold if self.hold > 1 else np.zeros(len(self.counts), dtype=np.int64)

    @property
    def moments(self) -> Any:
        """Times (ticks,) of the ticks of a law that draws random numbers, as whole numbers."""
        if not len(self.random_channels):
            return np.zeros(0, dtype=np.int64)
        interval = np.repeat(np.arange(len(self.counts)), self.counts)
        number = np.arange(interval.size) - self.first_steps[interval]
        asked = number % self.hold == self.law_steps[interval]
        times = (self.start + self.begins)[interval[asked]] + number[asked] * self.steps[interval[asked]]
        # Numbers are drawn by whole numbers: times of one tick that were added up in different ways differ by rounding.
        return np.floor(times * MOMENTS + AFTER).astype(np.int64)

    def hold_inputs(self, name: str, values: Array) -> Schedule:
        """The schedule with one more channel: an input that is constant, or constant on each of equally many steps.

        Args:
            values: (cases, 1 or count, size); with ``count``, no interval may have steps of two of them.
        """
        intervals = self.first_steps // (int(np.sum(self.counts)) // values.shape[1])
        table = values[:, None, intervals]
        if self.channels:
            # Constant on an interval: higher powers are zero.
            powers, old = self.coefficient.shape[1], self.coefficient.shape[3]
            cases = max(len(values), len(self.coefficient))
            joined = np.zeros((cases, powers, len(intervals), values.shape[2] + old))
            joined[:, :1, :, : values.shape[2]] = table
            joined[..., values.shape[2] :] = self.coefficient
            table = joined
        return self._replace(channels=(name, *self.channels), coefficient=table)
