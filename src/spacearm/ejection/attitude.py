"""The best attitude for an ejection: maps, a search over the whole joint space, refinement on the true run.

Every candidate is a complete stick-slip run. A candidate is allowed when it leaves the rail, comes to stable flight,
keeps its clearance and reaches no joint limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import KeepOut
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int], None]
#: Steps of the refinement end below this share of a joint's range.
_FINEST = 1e-4


@dataclass(frozen=True)
class Goal:
    """What is wanted: ``velocity * v / v_whole - tumbling * |omega| / (10 deg/s)``, the more the better.

    ``v_whole`` is the velocity of the arm as one rigid mass, so both parts are of the order of one.
    """

    velocity: float = 1.0
    tumbling: float = 0.0

    def __post_init__(self) -> None:
        if not (self.velocity >= 0.0 and self.tumbling >= 0.0 and 0.0 < self.velocity + self.tumbling < np.inf):
            raise InputError(
                f"weights are {self.velocity} and {self.tumbling}", place="goal", hint="expected 0 or more, not both 0"
            )

    def score(self, rig: Rig, runs: Ejections) -> Array:
        whole = float(np.sqrt(2.0 * rig.device.energy / rig.arm.mass))
        score: Array = self.velocity * runs.velocity / whole - self.tumbling * runs.tumbling / np.radians(10.0)
        return score


@dataclass(frozen=True)
class Constraints:
    """What an attitude must keep.

    Args:
        keep_out: regions fixed to the satellite, from which every body keeps at least ``margin`` (m).
        radii: of the bodies around their skeletons, m.
        respect_limits: no joint reaches a limit, from start to end.
        limit_margin: the attitude itself stays so far (rad or m) within the limits.
        stable: the joints stop within the run.
    """

    keep_out: Sequence[KeepOut] = ()
    margin: float = 0.0
    radii: Mapping[str, float] | float = 0.0
    respect_limits: bool = True
    limit_margin: float = 0.0
    stable: bool = True

    def __post_init__(self) -> None:
        if not np.isfinite(self.margin):
            raise InputError(f"margin is {self.margin} m", place="constraints", hint="expected a finite number")
        if not 0.0 <= self.limit_margin < np.inf:
            raise InputError(
                f"limit_margin is {self.limit_margin}", place="constraints", hint="expected rad or m, 0 or more"
            )

    def allowed(self, runs: Ejections) -> npt.NDArray[np.bool_]:
        kept = runs.ok.copy()
        if self.keep_out:
            kept &= np.nan_to_num(runs.clearance, nan=-np.inf) >= self.margin
        if self.respect_limits:
            kept &= ~runs.hits.any(axis=1)
        if self.stable:
            kept &= np.isfinite(runs.stable_time)
        return kept


@dataclass(frozen=True, eq=False)
class BestAttitude:
    """Result of :func:`best_attitude`."""

    joints: Array  # (n,) rad or m
    score: float
    runs: Ejections  # of the winner, one sample
    coarse: Array  # (n,) the best of the samples before refinement
    coarse_score: float
    samples: int
    allowed: float  # share of the samples that kept the constraints
    evaluated: int  # complete ejections in all
    history: Array = field(default_factory=lambda: np.zeros(0))  # best score after each refinement step


def joint_ranges(rig: Rig, joints: Sequence[str] | None = None) -> tuple[Array, Array]:
    """Ranges to search (n,): limits, half a turn either way for a revolute joint without; fixed joints have none."""
    low, high = rig.arm.lower_limits.copy(), rig.arm.upper_limits.copy()
    kept = range(rig.arm.n) if joints is None else {rig.arm.joint_index(name) for name in joints}
    for i, joint in enumerate(rig.arm.joints):
        if i not in kept:
            low[i] = high[i] = 0.0
        elif not (np.isfinite(low[i]) and np.isfinite(high[i])):
            if joint.kind == "prismatic":
                raise InputError("has no limits to search within", place=f"joint {joint.name!r}", hint="give it limits")
            low[i], high[i] = max(low[i], -np.pi), min(high[i], np.pi)
    return low, high


def sample_attitudes(low: Array, high: Array, count: int, seed: int = 0) -> Array:
    """Scrambled Sobol points (count, n) in a box."""
    from scipy.stats import qmc

    free = np.flatnonzero(high > low)
    points = np.tile(low, (count, 1))
    if free.size and count:
        draw = qmc.Sobol(free.size, seed=seed)
        unit = draw.random_base2(int(np.ceil(np.log2(max(count, 2)))))[:count]
        points[:, free] = low[free] + unit * (high - low)[free]
    return points


def best_attitude(
    rig: Rig,
    goal: Goal | None = None,
    *,
    constraints: Constraints | None = None,
    samples: int = 20_000,
    keep: int = 6,
    joints: Sequence[str] | None = None,
    at: npt.ArrayLike | str | None = None,
    flight: float = 10.0,
    seed: int = 0,
    refine: int = 60,
    threads: int | None = None,
    progress: Progress | None = None,
) -> BestAttitude:
    """Search the joint space by Sobol samples, then refine the best by a compass search on the true run.

    Args:
        joints: those to search over; the others stay as in ``at`` (zero where left out).
        keep: how many of the best samples are refined.
        refine: most steps of the refinement; a step tries both ways along every joint, and halves where none is better.
    """
    goal, constraints = goal or Goal(), constraints or Constraints()
    if samples < 1 or keep < 1 or refine < 0:
        raise InputError(
            f"samples is {samples}, keep {keep}, refine {refine}",
            place="best attitude",
            hint="expected 1 or more, 1 or more, 0 or more",
        )
    low, high = joint_ranges(rig, joints)
    base = rig.attitude(at)
    fixed = high <= low
    tight = ~fixed & (high - low < 2.0 * constraints.limit_margin)
    if tight.any():
        raise InputError(
            f"limit_margin {constraints.limit_margin:.6g} leaves {rig.arm.joint_names[int(tight.argmax())]!r} no range",
            place="best attitude",
            hint=f"expected at most {0.5 * (high - low)[~fixed].min():.6g}",
        )
    low, high = low + constraints.limit_margin, high - constraints.limit_margin
    low[fixed] = high[fixed] = base[fixed]
    points = sample_attitudes(low, high, samples, seed)

    def run(attitudes: Array, told: Progress | None = None) -> tuple[Array, Ejections]:
        runs = eject_batch(
            rig,
            attitudes,
            flight=flight,
            keep_out=constraints.keep_out,
            radii=constraints.radii,
            threads=threads,
            progress=told,
        )
        return np.where(constraints.allowed(runs), goal.score(rig, runs), -np.inf), runs

    score = run(points, progress)[0]
    allowed = float(np.isfinite(score).mean())
    if allowed == 0.0:
        raise InputError(
            f"none of {samples} attitudes keeps the constraints",
            place="best attitude",
            hint="more samples, a smaller margin, or limits that may be reached",
        )
    order = np.argsort(-score, kind="stable")[:keep]
    front = points[order[np.isfinite(score[order])]]
    worth = score[order[np.isfinite(score[order])]]
    coarse, coarse_score = front[0].copy(), float(worth[0])
    moving = np.flatnonzero(high > low)
    # First step: the mean distance of the samples.
    step = np.full(len(front), max(samples, 1) ** (-1.0 / max(moving.size, 1)))
    evaluated, history = samples, [coarse_score]
    for _ in range(refine):
        if not moving.size or np.all(step < _FINEST):
            break
        trial = _compass(front, step, low, high, moving)
        value, _ = run(trial.reshape(-1, rig.arm.n))
        evaluated += value.size
        value = value.reshape(len(front), -1)
        better = value.argmax(axis=1)
        for i, choice in enumerate(better):
            if value[i, choice] > worth[i]:
                front[i], worth[i] = trial[i, choice], value[i, choice]
            else:
                step[i] *= 0.5
        history.append(float(worth.max()))
    winner = int(worth.argmax())
    final = run(front[winner : winner + 1])[1]
    return BestAttitude(
        front[winner].copy(),
        float(worth[winner]),
        final,
        coarse,
        coarse_score,
        samples,
        allowed,
        evaluated,
        np.array(history),
    )


def _compass(front: Array, step: Array, low: Array, high: Array, moving: npt.NDArray[np.intp]) -> Array:
    """Both ways along every free joint from each point, kept in the box: (points, 2 m, n)."""
    trial = np.repeat(front[:, None], 2 * moving.size, axis=1)
    for k, joint in enumerate(moving):
        reach = step * (high - low)[joint]
        trial[:, 2 * k, joint] += reach
        trial[:, 2 * k + 1, joint] -= reach
    return np.clip(trial, low, high)


def attitude_map(
    rig: Rig,
    first: str,
    second: str,
    *,
    at: npt.ArrayLike | str | None = None,
    resolution: tuple[int, int] = (61, 61),
    constraints: Constraints | None = None,
    flight: float = 10.0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Velocity, tumbling, equivalent mass and what is allowed over two joints' ranges; the others as in ``at``."""
    import xarray as xr

    constraints = constraints or Constraints()
    low, high = joint_ranges(rig, [first, second])
    axes = [rig.arm.joint_index(name) for name in (first, second)]
    if axes[0] == axes[1]:
        raise InputError(f"both are {first!r}", place="attitude map", hint="expected two different joints")
    if min(resolution) < 2:
        raise InputError(f"resolution is {resolution}", place="attitude map", hint="expected 2 or more each way")
    grids = [np.linspace(low[axis], high[axis], size) for axis, size in zip(axes, resolution, strict=True)]
    mesh = np.meshgrid(*grids, indexing="ij")
    points = np.tile(rig.attitude(at), (mesh[0].size, 1))
    for axis, values in zip(axes, mesh, strict=True):
        points[:, axis] = values.ravel()
    runs = eject_batch(
        rig,
        points,
        flight=flight,
        keep_out=constraints.keep_out,
        radii=constraints.radii,
        threads=threads,
        progress=progress,
    )
    shape = mesh[0].shape

    def grid(values: Any, units: str, text: str) -> tuple[tuple[str, str], Array, dict[str, str]]:
        return (first, second), np.asarray(values).reshape(shape), {"units": units, "long_name": text}

    return xr.Dataset(
        {
            "velocity": grid(runs.velocity, "m/s", "ejection velocity"),
            "tumbling": grid(runs.tumbling, "rad/s", "size of the ejection angular velocity"),
            "time": grid(runs.time, "s", "ejection time"),
            "mass": grid(equivalent_mass(rig, points), "kg", "equivalent mass, all joints free"),
            "clearance": grid(runs.clearance, "m", "least clearance"),
            "allowed": grid(constraints.allowed(runs).astype(np.int8), "1", "1 where all constraints are kept"),
        },
        coords={
            first: (first, grids[0], {"units": rig.arm.joints[axes[0]].unit}),
            second: (second, grids[1], {"units": rig.arm.joints[axes[1]].unit}),
        },
    )
