"""The best configuration for an ejection: maps, and a search over the whole joint space on the true run.

Every candidate is a complete stick-slip run. A candidate is allowed when it leaves the rail, comes to stable flight,
keeps its clearance and reaches no joint limit.

Method: scrambled Sobol points over the joint ranges, then covariance matrix adaptation
(:func:`spacearm.optimise.evolve`) from the best of them that lie apart. No gradients: a joint that just holds or just
breaks loose makes scores jump, and a broken constraint is a cliff (score minus infinity). Populations work in the unit
box of the searched joints, so that a step is a share of a joint's range whatever its unit. The result is the best that
was seen; nothing proves that it is global, and ``peaks`` shows how many populations agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import non_negative, number, whole
from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import KeepOut
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.release import Release
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError
from spacearm.optimise import evolve
from spacearm.simulate.run.dataset import labelled
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int], None]
#: Populations start at least this far apart (share of a joint's range), so that they do not all climb the same hill.
_APART = 0.2


@dataclass(frozen=True)
class Goal:
    """What is wanted: ``velocity * v / v_whole - tumbling * (|omega| / (10 deg/s))^2``, the more the better.

    ``v_whole`` is the velocity of the arm as one rigid mass, so both parts are of the order of one; ``omega`` is the
    mean angular velocity of the stopped arm. The square has no edge at rest on which a search could get stuck.
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
        spin = runs.tumbling / np.radians(10.0)
        score: Array = self.velocity * runs.velocity / whole - self.tumbling * spin**2
        return score


@dataclass(frozen=True)
class Constraints:
    """What a configuration must keep.

    Args:
        keep_out: regions fixed to the satellite, from which every body keeps at least ``margin`` (m); so do bodies with
            collision shapes from one another.
        radii: of the bodies around their skeletons, m.
        respect_limits: no joint reaches a limit, from start to end.
        limit_margin: the configuration itself stays so far (rad or m) within the limits.
        stable: the joints stop within the run.
    """

    keep_out: Sequence[KeepOut] = ()
    margin: float = 0.0
    radii: Mapping[str, float] | float = 0.0
    respect_limits: bool = True
    limit_margin: float = 0.0
    stable: bool = True

    def __post_init__(self) -> None:
        number(self.margin, "margin", unit="m", place="constraints")
        non_negative(self.limit_margin, "limit_margin", unit="rad or m", place="constraints")

    def broken(self, runs: Ejections) -> dict[str, npt.NDArray[np.bool_]]:
        """Where each constraint is not kept (samples,), by its name of :data:`BROKEN`; a run may break several."""
        found = {
            "run": ~runs.sound,
            # A clearance that is NaN (a run that failed) counts as broken, an infinite one (nothing to touch) as kept.
            "clearance": ~(np.nan_to_num(runs.clearance, nan=-np.inf, posinf=np.inf) >= self.margin),
        }
        if self.respect_limits:
            found["limit"] = np.any(runs.hits, axis=1)
        if self.stable:
            found["stable"] = ~np.isfinite(runs.stable_time)
        return found

    def allowed(self, runs: Ejections) -> npt.NDArray[np.bool_]:
        """Where all of them are kept (samples,)."""
        return np.asarray(~np.any(list(self.broken(runs).values()), axis=0))


#: What it means that a constraint is not kept.
BROKEN = {
    "run": "the run is not sound",
    "clearance": "nearer than the margin",
    "limit": "a joint reaches its limit",
    "stable": "the joints do not stop in time",
}


@dataclass(frozen=True, eq=False)
class BestConfiguration:
    """Result of :func:`best_configuration`."""

    joints: Array  # (n,) rad or m
    score: float
    runs: Ejections  # of the winner, one sample
    coarse: Array  # (n,) the best of the samples before refinement
    coarse_score: float
    peaks: Array  # (populations,) score at which each population that was not merged into another ended
    samples: int
    allowed: float  # share of the samples that kept the constraints
    evaluated: int  # complete ejections in all
    history: Array = field(default_factory=lambda: np.zeros(0))  # best score after each generation


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


def sample_configurations(low: Array, high: Array, count: int, seed: int = 0) -> Array:
    """Scrambled Sobol points (count, n) in a box."""
    from scipy.stats import qmc

    free = np.flatnonzero(high > low)
    points = np.tile(low, (count, 1))
    if free.size and count:
        draw = qmc.Sobol(free.size, seed=seed)
        unit = draw.random_base2(int(np.ceil(np.log2(max(count, 2)))))[:count]
        points[:, free] = low[free] + unit * (high - low)[free]
    return points


def best_configuration(
    rig: Rig,
    goal: Goal | None = None,
    *,
    constraints: Constraints | None = None,
    samples: int = 4096,
    keep: int = 24,
    joints: Sequence[str] | None = None,
    at: npt.ArrayLike | str | None = None,
    release: Release | None = None,
    flight: float = 10.0,
    seed: int = 0,
    refine: int = 80,
    threads: int | None = None,
    progress: Progress | None = None,
) -> BestConfiguration:
    """Search the joint space by Sobol samples, then by populations that evolve from the best of them.

    Args:
        joints: those to search over; the others stay as in ``at`` (zero where left out).
        release: how the arm moves at the release, the same for all configurations.
        keep: from how many of the best samples, apart from each other, a population starts.
        refine: most generations (:func:`spacearm.optimise.evolve`); 0: the best sample.
    """
    goal, constraints = goal or Goal(), constraints or Constraints()
    for name, value, least in (("samples", samples, 1), ("keep", keep, 1), ("refine", refine, 0)):
        whole(value, name, least=least, place="best configuration")
    search = _Search(rig, goal, constraints, release, flight, threads, *_box(rig, constraints, joints, at))
    points = sample_configurations(search.low, search.high, samples, seed)
    score = search.run(points, progress)[0]
    allowed = float(np.isfinite(score).mean())
    if allowed == 0.0:
        raise InputError(
            f"none of {samples} configurations keeps the constraints",
            place="best configuration",
            hint="more samples, a smaller margin, or limits that may be reached",
        )
    first = int(score.argmax())
    found, worth = points[first].copy(), float(score[first])
    peaks: list[tuple[Array, float]] = []
    history: list[float] = []
    if search.moving.size and refine:
        starts = _apart(search.unit(points), score, keep)
        # First step: half the mean distance of the samples.
        step = 0.5 * samples ** (-1.0 / search.moving.size)
        peaks, history = evolve(search.judge, *starts, step=step, generations=refine, seed=seed)
    if peaks and peaks[0][1] > worth:
        found, worth = search.box(peaks[0][0][None])[0], peaks[0][1]
    return BestConfiguration(
        found,
        worth,
        search.run(found[None])[1],
        points[first].copy(),
        float(score[first]),
        np.array([peak for _, peak in peaks]),
        samples,
        allowed,
        samples + search.judged,
        np.array([score[first], *history]),
    )


def _box(
    rig: Rig, constraints: Constraints, joints: Sequence[str] | None, at: npt.ArrayLike | str | None
) -> tuple[Array, Array]:
    """Ranges to search (n,), as far within the limits as the constraints want; other joints as in ``at``."""
    low, high = joint_ranges(rig, joints)
    fixed = high <= low
    tight = ~fixed & (high - low < 2.0 * constraints.limit_margin)
    if tight.any():
        raise InputError(
            f"limit_margin {constraints.limit_margin:.6g} leaves {rig.arm.joint_names[int(tight.argmax())]!r} no range",
            place="best configuration",
            hint=f"expected at most {0.5 * (high - low)[~fixed].min():.6g}",
        )
    low, high = low + constraints.limit_margin, high - constraints.limit_margin
    # An empty range marks a joint that is not searched; _Search.moving reads it so.
    low[fixed] = high[fixed] = rig.configuration(at)[fixed]
    return low, high


@dataclass(eq=False)
class _Search:
    """Ejections from configurations in a box, and what they are worth."""

    rig: Rig
    goal: Goal
    constraints: Constraints
    release: Release | None
    flight: float
    threads: int | None
    low: Array
    high: Array
    judged: int = 0

    @property
    def moving(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.high > self.low)

    def unit(self, points: Array) -> Array:
        """Configurations as points of the unit box of those joints that are searched."""
        free = self.moving
        scaled: Array = (points[:, free] - self.low[free]) / (self.high - self.low)[free]
        return scaled

    def box(self, unit: Array) -> Array:
        """And back."""
        points, free = np.tile(self.low, (len(unit), 1)), self.moving
        points[:, free] += unit * (self.high - self.low)[free]
        return np.clip(points, self.low, self.high)

    def judge(self, unit: Array) -> Array:
        self.judged += len(unit)
        return self.run(self.box(unit))[0]

    def run(self, configurations: Array, told: Progress | None = None) -> tuple[Array, Ejections]:
        """Scores, minus infinity where a constraint is not kept, and the ejections."""
        runs = eject_batch(
            self.rig,
            configurations,
            release=self.release,
            flight=self.flight,
            keep_out=self.constraints.keep_out,
            radii=self.constraints.radii,
            threads=self.threads,
            progress=told,
        )
        return np.where(self.constraints.allowed(runs), self.goal.score(self.rig, runs), -np.inf), runs


def _apart(unit: Array, score: Array, keep: int) -> tuple[Array, Array]:
    """At most ``keep`` of the best allowed points (samples, m) of the unit box, apart from each other; their scores."""
    chosen: list[int] = []
    for i in np.argsort(-score, kind="stable"):
        if len(chosen) == keep or not np.isfinite(score[i]):
            break
        if all(np.abs(unit[i] - unit[j]).max() > _APART for j in chosen):
            chosen.append(int(i))
    return unit[chosen], score[chosen]


def configuration_map(
    rig: Rig,
    first: str,
    second: str,
    *,
    at: npt.ArrayLike | str | None = None,
    resolution: tuple[int, int] = (61, 61),
    release: Release | None = None,
    constraints: Constraints | None = None,
    flight: float = 10.0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Velocity, tumbling, equivalent mass and what is allowed over two joints' ranges; the others as in ``at``.

    ``broken_*`` say which constraint is not kept (:data:`BROKEN`).
    """
    constraints = constraints or Constraints()
    low, high = joint_ranges(rig, [first, second])
    axes = [rig.arm.joint_index(name) for name in (first, second)]
    if axes[0] == axes[1]:
        raise InputError(f"both are {first!r}", place="configuration map", hint="expected two different joints")
    if min(resolution) < 2:
        raise InputError(f"resolution is {resolution}", place="configuration map", hint="expected 2 or more each way")
    grids = [np.linspace(low[axis], high[axis], size) for axis, size in zip(axes, resolution, strict=True)]
    mesh = np.meshgrid(*grids, indexing="ij")
    points = np.tile(rig.configuration(at), (mesh[0].size, 1))
    for axis, values in zip(axes, mesh, strict=True):
        points[:, axis] = values.ravel()
    runs = eject_batch(
        rig,
        points,
        release=release,
        flight=flight,
        keep_out=constraints.keep_out,
        radii=constraints.radii,
        threads=threads,
        progress=progress,
    )

    def grid(values: Any, units: str, text: str) -> tuple[Any, ...]:
        return (first, second), np.asarray(values).reshape(mesh[0].shape), units, text

    along = zip((first, second), axes, grids, strict=True)
    return labelled(
        {name: ((name,), values, rig.arm.joints[axis].unit) for name, axis, values in along},
        {
            "velocity": grid(runs.velocity, "m/s", "ejection velocity"),
            "tumbling": grid(runs.tumbling, "rad/s", "size of the ejection angular velocity"),
            "time": grid(runs.time, "s", "ejection time"),
            "mass": grid(equivalent_mass(rig, points), "kg", "equivalent mass, all joints free"),
            "clearance": grid(runs.clearance, "m", "least clearance"),
            "allowed": grid(constraints.allowed(runs).astype(np.int8), "1", "1 where all constraints are kept"),
            **{
                f"broken_{name}": grid(where.astype(np.int8), "1", f"1 where {BROKEN[name]}")
                for name, where in constraints.broken(runs).items()
            },
        },
    )
