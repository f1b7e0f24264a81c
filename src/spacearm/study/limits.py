"""Limits of a robot's joints against what a run used of them: range, rate or speed, torque or force."""

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
    """How far joints go from the middle of their range, and how far they may; infinite where they have no range."""

    used: Array
    half: Array


def range_use(lower: npt.ArrayLike, upper: npt.ArrayLike, lowest: npt.ArrayLike, highest: npt.ArrayLike) -> RangeUse:
    """How joints that go from ``lowest`` to ``highest`` use their ranges ``lower`` to ``upper``; all (n,), rad or m.

    A range with one end counts from 1 rad or 1 m inside that end.
    """
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    left = np.minimum(high - np.asarray(highest), np.asarray(lowest) - low)
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
    """The limits of a robot's joints, the worst first; a joint without limits has none.

    Args:
        times: of the samples (T,), s.
        positions, rates: of the joints (T, n), rad or m.
        efforts: what drives give (T, n), N m or N. They count while a joint moves: what rests may be held by a brake.
        crossings: joint to the time (s) at which it first left its range, where that is known better than from samples.
        prefix: of the joints' names.
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
            called = "speed" if wheel else "rate"
            found.append(_limit(called, np.abs(rates[:, k]), bounds.velocity, times, f"{joint.unit}/s", name))
        if efforts is not None and 0.0 < bounds.effort < np.inf:
            called, unit = ("torque", "N m") if joint.unit == "rad" else ("force", "N")
            given = np.where(rates[:, k] != 0.0, np.abs(efforts[:, k]), 0.0)
            found.append(_limit(called, given, bounds.effort, times, unit, name))
    return worst_first(found)


def _limit(
    name: str, used: Array, limit: float, times: Array, unit: str, what: str, crossing: float | None = None
) -> Limit:
    """The most of ``used`` (T,) against a limit: when it was broken first, or when it was nearest."""
    most, over = float(np.max(used)), np.flatnonzero(used > limit * (1.0 + LIMIT_SLACK))
    time = float(times[over[0] if over.size else int(np.argmax(used))])
    if crossing is not None and most < limit * (1.0 - LIMIT_SLACK):
        most = limit * (1.0 + 2.0 * LIMIT_SLACK)  # between samples
    if crossing is not None and most > limit * (1.0 + LIMIT_SLACK):
        time = min(time, crossing) if over.size else crossing
    return Limit(name, most, limit, unit, what, time=time, share=True)


def worst_first(limits: Iterable[Limit]) -> list[Limit]:
    """Sorted by margin, each limit of each joint once: the worst of several tracks."""
    found: dict[tuple[str, str], Limit] = {}
    for limit in sorted(limits, key=lambda limit: limit.margin):
        found.setdefault((limit.name, limit.what), limit)
    return list(found.values())


def run_limits(run: Run) -> list[Limit]:
    """The limits of all joints of a run, the worst first; joints of further systems are called ``system/joint``."""
    crossed: dict[str, float] = {}
    for event in run.events_of("limit"):
        crossed.setdefault(event.name, event.time)
    return worst_first(
        limit for track in run.tracks for limit in _of_track(track, crossed, track.name != run.tracks[0].name)
    )


def _of_track(track: Track, crossed: Mapping[str, float], further: bool) -> Iterator[Limit]:
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
