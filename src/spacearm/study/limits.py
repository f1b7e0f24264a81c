"""Joint limits compared with their use in a run: range, rate, torque or force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.result import LIMIT_SLACK, Limit
from spacearm.simulate import Run
from spacearm.simulate.run.run import Track
from spacearm.typing import Array


class RangeUse(NamedTuple):
    """Largest excursion of joints from the middle of their range, and the permitted one; infinite without a range."""

    used: Array
    half: Array


def range_use(lower: npt.ArrayLike, upper: npt.ArrayLike, lowest: npt.ArrayLike, highest: npt.ArrayLike) -> RangeUse:
    """Use of the ranges ``lower`` to ``upper`` by joints that move from ``lowest`` to ``highest``; (n,), rad or m.

    For a range with one end, the excursion is measured from 1 rad or 1 m inside that end.
    """
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    # Room to the nearer end; used = half - room, so that the margin is the same at both ends.
    left = np.minimum(high - np.asarray(highest), np.asarray(lowest) - low)
    # A range without width would give infinite shares.
    half = np.where(np.isfinite(high - low), np.maximum(0.5 * (high - low), LIMIT_SLACK), 1.0)
    bounded = np.isfinite(low) | np.isfinite(high)
    return RangeUse(np.where(bounded, half - left, 0.0), np.where(bounded, half, np.inf))


def joint_limits(
    robot: Robot,
    times: Array,
    positions: Array,
    rates: Array,
    efforts: Array | None = None,
    *,
    crossings: Mapping[str, float] | None = None,
    prefix: str = "",
) -> list[Limit]:
    """Limits of a robot's joints, worst first; joints without limits are omitted.

    Args:
        times: times of the samples (T,), s.
        positions, rates: joint positions and rates (T, n), rad or m, rad/s or m/s.
        efforts: drive torques or forces (T, n), N m or N. They count only while a joint moves: at rest a brake may hold
            it.
        crossings: joint name to the time (s) at which it first left its range, if known more precisely than from
            samples.
        prefix: prefix of the joint names.
    """
    found: list[Limit] = []
    for k, joint in enumerate(robot.joints):
        bounds, name = joint.limits, f"{prefix}{joint.name}"
        wheel = joint.name in robot.wheel_names
        if np.isfinite(bounds.lower) or np.isfinite(bounds.upper):
            used, half = range_use(bounds.lower, bounds.upper, positions[:, k], positions[:, k])
            first = (crossings or {}).get(joint.name)
            found.append(_limit("range", used, float(half), times, joint.unit, name, first))
        if 0.0 < bounds.velocity < np.inf:
            # Names as users know them; both are joint rates.
            called = "speed" if wheel else "rate"
            found.append(_limit(called, np.abs(rates[:, k]), bounds.velocity, times, f"{joint.unit}/s", name))
        if efforts is not None and 0.0 < bounds.effort < np.inf:
            called, unit = ("torque", "N m") if joint.unit == "rad" else ("force", "N")
            # A braked joint has a rate of exactly zero.
            given = np.where(rates[:, k] != 0.0, np.abs(efforts[:, k]), 0.0)
            found.append(_limit(called, given, bounds.effort, times, unit, name))
    return worst_first(found)


def _limit(
    name: str, used: Array, limit: float, times: Array, unit: str, what: str, crossing: float | None = None
) -> Limit:
    """Largest value of ``used`` (T,) against a limit, with the time of the first violation or closest approach."""
    most, over = float(np.max(used)), np.flatnonzero(used > limit * (1.0 + LIMIT_SLACK))
    time = float(times[over[0] if over.size else int(np.argmax(used))])
    # An event has seen what the samples missed: the limit counts as just broken.
    if crossing is not None and most < limit * (1.0 - LIMIT_SLACK):
        most = limit * (1.0 + 2.0 * LIMIT_SLACK)  # between samples
    if crossing is not None and most > limit * (1.0 + LIMIT_SLACK):
        time = min(time, crossing) if over.size else crossing
    return Limit(name, most, limit, unit, what, time=time, share=True)


def worst_first(limits: Iterable[Limit]) -> list[Limit]:
    """Limits sorted by margin, with one entry per limit and joint: the worst of several tracks."""
    found: dict[tuple[str, str], Limit] = {}
    for limit in sorted(limits, key=lambda limit: limit.margin):
        # Sorted by margin before: the first of each is the worst.
        found.setdefault((limit.name, limit.what), limit)
    return list(found.values())


def run_limits(run: Run) -> list[Limit]:
    """Limits of all joints of a run, worst first; joints of further systems are named ``system/joint``."""
    crossed: dict[str, float] = {}
    # The first crossing of each joint: located by the solver, more exact than samples.
    for event in run.events_of("limit"):
        crossed.setdefault(event.name, event.time)
    return worst_first(
        limit for track in run.tracks for limit in _track_limits(track, crossed, track.name != run.tracks[0].name)
    )


def _track_limits(track: Track, crossed: Mapping[str, float], further: bool) -> Iterator[Limit]:
    robot, at = track.robot, Layout(track.robot.n)
    if not robot.n or not len(track.times):
        return
    data, prefix = track.data, f"{track.name}/" if further else ""
    own = {name: time for name in robot.joint_names if (time := crossed.get(f"{track.name}/{name}", crossed.get(name)))}
    yield from joint_limits(
        robot,
        track.times,
        track.states[:, at.joints],
        track.states[:, at.rates],
        (data["force"] + data["reaction"]).values[:, 6:],
        crossings=own,
        prefix=prefix,
    )
