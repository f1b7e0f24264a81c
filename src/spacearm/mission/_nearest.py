"""The least values that a phase comes to, also between its samples: distances, and what zones ask for.

Between two samples, poses and joints are the cubics through both with their velocities. Where the motion is smooth, the
error falls with the fourth power of the interval h; a jump of an acceleration by a, as at a tick of a law, leaves at
most a h^2 / 62. World axes, SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.result import LIMIT_SLACK, Limit
from spacearm.simulate.bodies import cross
from spacearm.typing import Array

#: Flat states (T, 13 + 2 n or more) of each system.
States: TypeAlias = Mapping[str, Array]
#: Parts of an interval that is looked into, and how often the two about the least are divided once more.
PARTS, ROUNDS = 8, 2
#: s, of two samples at one instant.
SAME_TIME = 1e-9
#: Values that are equal but for rounding, relative to the limit.
EQUAL = 1e-9


def find_least(
    times: Array,
    states: States,
    measure: Callable[[States], Array],
    limit: float,
    applies: Callable[[Array], npt.NDArray[np.bool_]] | None = None,
) -> tuple[Array, Array]:
    """Times (T,) and values (T, P) at the samples, and at more times where values may be least.

    Intervals are looked into where values, if they go on to fall as they do around there, come below ``limit`` or
    below the least of all samples.

    Args:
        measure: values (T, P) for states.
        applies: whether values count at these times; those of the given samples do. Intervals whose middle does not
            count are not looked into.
    """

    def middles() -> npt.NDArray[np.bool_]:
        count = times.size - 1
        return np.ones(count, dtype=bool) if applies is None else applies(0.5 * (times[1:] + times[:-1]))

    values = measure(states)
    found = values.min(axis=1)
    if times.size > 1:
        # The steepest of an interval and its neighbours.
        inside = middles()
        steps = np.where(inside, np.abs(np.diff(found)), 0.0)
        steepest = np.maximum(steps, np.maximum(np.append(steps[1:], 0.0), np.append(0.0, steps[:-1])))
        # Values above that are of no interest: they break no limit and are not the least.
        lowest = max(float(found.min()), limit) - EQUAL * max(abs(limit), 1e-3)
        # A dip between two samples is taken to be no deeper than the fall around them.
        at = np.flatnonzero(inside & (np.minimum(found[:-1], found[1:]) - steepest < lowest))
        for _ in range(1 + ROUNDS):
            if not at.size:
                break
            before = float(found.min())
            times, states, values = _divide(times, states, values, at, measure)
            found = values.min(axis=1)
            k = int(np.argmin(found))
            # A sample that stays the least has nothing lower beside it.
            at = np.arange(max(k - 1, 0), min(k + 1, times.size - 1)) if found[k] < before else at[:0]
            at = at[middles()[at]]
    return times, values


def limit_most(name: str, values: Array, limit: float, unit: str, what: str, times: Array) -> Limit:
    """A limit on the largest value, with the first time at which it is broken, or that at which it is nearest."""
    broken = np.flatnonzero(values > limit * (1.0 + LIMIT_SLACK))
    time = float(times[broken[0] if broken.size else int(np.argmax(values))])
    return Limit(name, float(values.max()), limit, unit, what, time=time)


def limit_least(name: str, values: Array, limit: float, unit: str, what: str, times: Array) -> Limit:
    """A limit on the least value, with the first time at which it is broken, or that at which it is nearest."""
    broken = np.flatnonzero(values < limit * (1.0 - LIMIT_SLACK))
    time = float(times[broken[0] if broken.size else int(np.argmin(values))])
    return Limit(name, float(values.min()), limit, unit, what, least=True, time=time)


def _divide(
    times: Array,
    states: States,
    values: Array,
    intervals: npt.NDArray[np.intp],
    measure: Callable[[States], Array],
) -> tuple[Array, States, Array]:
    """The same with points within these intervals."""
    # A phase may end at the time of its last sample.
    intervals = intervals[np.diff(times)[intervals] > SAME_TIME]
    share = np.arange(1, PARTS) / PARTS
    wanted = (times[intervals, None] + share * np.diff(times)[intervals, None]).ravel()
    rows = np.repeat(intervals, PARTS - 1)
    between = {name: interpolate_states(times, each, wanted, rows) for name, each in states.items()}
    order = np.argsort(np.concatenate([times, wanted]), kind="stable")

    def merge(given: Array, more: Array) -> Array:
        return np.asarray(np.concatenate([given, more])[order])

    merged = {name: merge(each, between[name]) for name, each in states.items()}
    return merge(times, wanted), merged, merge(values, measure(between))


def interpolate_states(times: Array, states: Array, wanted: Array, rows: npt.NDArray[np.intp]) -> Array:
    """States (K, 13 + 2 n) at times in the intervals that begin with the samples ``rows`` (K,).

    Velocities are between those of both samples in proportion to time.
    """
    at = Layout.from_size(states.shape[1])
    first, last = states[rows], states[rows + 1]
    length = (times[rows + 1] - times[rows])[:, None]
    x = (wanted - times[rows])[:, None] / length
    found = (1.0 - x) * first + x * last
    both = np.concatenate([first, last])
    # Base velocities are in base axes.
    velocity = np.einsum("tij,tj->ti", rotation_matrices(both[:, QUATERNION]), both[:, at.linear_velocity])
    turning = _quaternion_rates(both[:, QUATERNION], both[:, at.angular_velocity])
    rate = np.concatenate([velocity, turning, both[:, at.rates]], axis=1)
    place = slice(at.start, at.joints.stop)  # position, quaternion and joints, one behind the other
    # Hermite's cubic in x, 0 to 1: values p and q, slopes v and w.
    p, q, v, w = first[:, place], last[:, place], length * rate[: len(rows)], length * rate[len(rows) :]
    found[:, place] = p + x * (v + x * (3.0 * (q - p) - 2.0 * v - w + x * (2.0 * (p - q) + v + w)))
    found[:, QUATERNION] /= np.linalg.norm(found[:, QUATERNION], axis=1, keepdims=True)
    return found


def _quaternion_rates(quaternion: Array, angular_rate: Array) -> Array:
    """Rates (T, 4) of quaternions w, x, y, z for angular velocities (T, 3) in the body's axes."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    scalar = -np.sum(v * angular_rate, axis=1, keepdims=True)
    return 0.5 * np.concatenate([scalar, w * angular_rate + cross(v, angular_rate)], axis=1)
