"""Joint paths from encoder readings: missing and bad readings are replaced by an interpolation of their neighbours.

The base's motion needs position q (rad or m) and rate r of every joint at every sample (T, n), with variances. A
reading is predicted by the Hermite cubic through position and rate of the good samples on either side of it. How far
good readings lie from such predictions (a robust deviation: 1.4826 times the median, which is the standard deviation
of a normal distribution) shows at once noise and curvature of the path. It decides which readings are outliers, and is
the standard deviation of those that are replaced.

A path that bends suddenly, as at the start of a motion, is not an outlier: the change of acceleration among nearby
rates bounds how far it may be off. The first and last samples have neighbours on one side only and are checked first.
Good readings stay as they are, nothing is smoothed: their noise is known and is counted by the filter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.measure.clean import FAR, Mask, find_outliers
from spacearm.typing import Array

Places = npt.NDArray[np.intp]
#: A joint moves if its readings scatter by more than so many standard deviations of their noise.
MOVES = 1.5


@dataclass(frozen=True, eq=False)
class JointPath:
    """Positions and rates (T, n) that are complete, their variances (T, 2 n), and how many readings were replaced."""

    joints: Array
    rates: Array
    variance: Array
    missing: int
    outliers: int


def detect_moving_joints(positions: Array, sigma: float) -> tuple[bool, ...]:
    """Which joints' readings (T, n) differ by more than their noise."""
    counts = np.sum(np.isfinite(positions), axis=0)
    spread = np.nanstd(np.where(counts > 0, positions, 0.0), axis=0)
    # The scatter of few readings is itself uncertain, by about 1 / sqrt(2 T): a margin of several such deviations.
    room = 1.0 + 4.0 / np.sqrt(np.maximum(counts, 1))
    return tuple(bool(one) for one in spread > max(MOVES * sigma, 1e-9) * room)


def joint_path(record: MotionRecord) -> JointPath:
    """The path of a record's joints. A locked joint stays where it is, whatever noise its rates show."""
    moving = np.array(record.moving, dtype=bool)
    n, count = moving.size, record.times.size
    if not n:
        none = np.zeros((count, 0))
        return JointPath(none, none, none, 0, 0)
    joints = np.array(record.channel("joint_position"), dtype=np.float64)
    if not np.isfinite(joints).any(axis=0).all():
        raise InputError("a joint's position was never read", place=record.place)
    # A brake holds a locked joint: rate zero and mean position are exact, not measurements with noise.
    rates = np.where(moving, record.joint_rates(), 0.0)
    sigma = [record.sigma.get(name, 0.0) for name in ("joint_position", "joint_rate")]
    variance = np.concatenate([np.where(moving, s**2, 0.0) for s in sigma]) * np.ones((count, 1))
    joints = np.where(moving, joints, np.nanmean(joints, axis=0))
    missing = outliers = 0
    for j in np.flatnonzero(moving):
        bad, extra = _repair_readings(record.times, joints[:, j], rates[:, j], sigma)
        variance[:, j], variance[:, n + j] = variance[:, j] + extra[0], variance[:, n + j] + extra[1]
        missing, outliers = missing + bad[0], outliers + bad[1]
    return JointPath(joints, rates, variance, missing, outliers)


def _repair_readings(times: Array, q: Array, r: Array, sigma: list[float]) -> tuple[tuple[int, int], Array]:
    """Replace bad readings of one joint in place; how many were missing and far off, and variances (2, T) to add."""
    good = np.isfinite(q) & np.isfinite(r)
    missing, extra = int(np.sum(~good)), np.zeros((2, times.size))
    if good.sum() < 5:
        raise InputError("a moving joint was read less than five times", place="joint_position")
    # Ends first: a bad end makes its inner neighbours look bad, while the search inside never removes an end.
    edges = [_far_end(times, q, r, good, sigma, inward) for inward in (1, -1)]
    far = find_outliers(lambda kept: _deviations(times, q, r, kept[:, 0], sigma)[0][:, None], good[:, None])
    good &= ~far[:, 0]
    usual = _deviations(times, q, r, good, sigma)[1][:2]
    index, bad = np.flatnonzero(good), np.flatnonzero(~good)
    place = np.clip(np.searchsorted(index, bad), 1, index.size - 1)
    low, high = index[place - 1], index[place]
    q[bad], r[bad] = _interpolate_neighbours(times, q, r, bad, low, high)
    # The error of a Hermite cubic grows with the fourth power of the width of its gap.
    wide = np.maximum(np.max([high - low, bad - low, high - bad], axis=0) / 2.0, 1.0) ** 4
    extra[:, bad] = (usual[:, None] * wide) ** 2
    for near, bend in zip((index[0], index[-1]), edges, strict=True):  # extrapolation at constant rate
        out = bad[(bad < near) if near == index[0] else (bad > near)]
        h = times[out] - times[near]
        q[out], r[out] = q[near] + h * r[near], r[near]
        extra[:, out] = (usual[:, None] + bend * np.abs([0.5 * h**2, h]) + [usual[1] * np.abs(h), 0.0 * h]) ** 2
    return (missing, bad.size - missing), extra


def _deviations(times: Array, q: Array, r: Array, kept: Mask, sigma: list[float]) -> tuple[Array, Array]:
    """How far (T,) samples are from what the kept ones beside them predict, in deviations, and these deviations (3,).

    Of the position, of the rate by positions, and of the rate by rates, which is better where samples are dense.
    """
    index, away = np.flatnonzero(kept), np.where(kept, 0.0, np.inf)
    inner, low, high = index[1:-1], index[:-2], index[2:]
    # Rates are compared with the straight line between rates, too: slopes by positions amplify their noise by one over
    # the step.
    share = (times[inner] - times[low]) / (times[high] - times[low])
    between = r[low] + share * (r[high] - r[low])
    predicted = np.stack([*_interpolate_neighbours(times, q, r, inner, low, high), between])
    gaps = np.abs(predicted - [q[inner], r[inner], r[inner]])
    usual = np.maximum(1.4826 * np.median(gaps, axis=1), [*sigma, sigma[1]])
    # Where nearby rates show a change of acceleration, that much deviation is expected and no outlier.
    away[inner] = (gaps / np.maximum(usual[:, None] + _bound_curvature(times, r, index) / FAR, 1e-300)).max(axis=0)
    return away, usual


def _far_end(times: Array, q: Array, r: Array, good: Mask, sigma: list[float], inward: int) -> float:
    """Take bad readings at one end of a joint's path out of ``good``; how strongly the path is bent there, rad/s2.

    Inner readings next to a bad end look bad themselves, one after the other. Of a bad reading either the position or
    the rate is wrong; of a motion that starts at once, both are far from what the next readings say.
    """
    bend = 0.0
    for _ in range(3):
        end, *rest = np.flatnonzero(good)[::inward][:7]
        near = np.array(rest)
        # Median acceleration of the next samples, with a margin: how far a regular path may have bent in between.
        bend = 3.0 * float(np.median(np.abs(np.diff(r[near]) / np.diff(times[near]))))
        h = times[end] - times[near[:3]]
        away = np.abs([q[end] - q[near[:3]] - h * r[near[:3]], r[end] - r[near[:3]]])
        room = 2.0 * FAR * np.array(sigma)[:, None] + bend * np.abs([h**2, h]) + 1e-12
        far = np.median(away / room, axis=1) > 1.0
        # Both far off: a motion that starts at once. None: a good end. Fewer than eight: too few to judge.
        if far.all() or not far.any() or good.sum() < 8:
            break
        good[end] = False
    return bend


def _bound_curvature(times: Array, r: Array, index: Places) -> Array:
    """How far (3, inner samples) a change of acceleration among nearby rates may take position and rate away."""
    t, rate = times[index], r[index]
    around = np.clip(np.arange(1, index.size - 1)[:, None] + [-4, -3, -2, -1, 1, 2, 3, 4], 0, index.size - 1)
    bends = np.sort(np.diff(rate[around]) / np.maximum(np.diff(t[around]), 1e-12), axis=1)
    # Without the two largest and smallest: another bad reading nearby makes two differences large.
    change, h = bends[:, -3] - bends[:, 2], t[2:] - t[:-2]
    return np.stack([0.25 * change * h**2, change * h, 0.25 * change * h])


def _interpolate_neighbours(
    times: Array, q: Array, r: Array, at: Places, low: Places, high: Places
) -> tuple[Array, Array]:
    """Position and rate at samples ``at`` by the Hermite cubics from samples ``low`` to ``high``."""
    h = times[high] - times[low]
    s = (times[at] - times[low]) / h
    # Rates times the interval: the cubic is then one in s, from 0 to 1.
    a, b, u, v = q[low], q[high], h * r[low], h * r[high]
    value = a + s * (u + s * (3 * (b - a) - 2 * u - v + s * (2 * (a - b) + u + v)))
    slope = (u + s * (2 * (3 * (b - a) - 2 * u - v) + 3 * s * (2 * (a - b) + u + v))) / h
    return value, slope
