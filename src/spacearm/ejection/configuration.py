"""The best configuration for an ejection: maps, and a search over the whole joint space with complete runs.

Every candidate is a complete stick-slip run. A candidate is admissible if it leaves the rail, reaches stable flight,
keeps its clearance and reaches no joint limit.

Method: scrambled Sobol points over the joint ranges, then covariance matrix adaptation
(:func:`spacearm.optimise.evolution.evolve`) from the best of them that lie apart. No gradients are used: a joint that
barely holds or barely breaks loose makes scores jump, and a violated constraint is a discontinuity (score minus
infinity). Populations work in the unit box of the searched joints, so that a step is a fraction of a joint's range,
independent of its unit. The result is the best candidate evaluated; nothing proves that it is global, and ``peaks``
shows how many populations agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import integer, non_negative, number
from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import KeepOut
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import Rig
from spacearm.errors import InputError
from spacearm.optimise.evolution import evolve
from spacearm.simulate.run.dataset import label_dataset
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[int, int], None]
#: Smallest distance between starting points of populations (fraction of a joint's range), so that they do not all
#: converge to the same optimum.
_APART = 0.2


@dataclass(frozen=True)
class EjectionGoal:
    """Score to maximise: ``velocity * v / v_whole - tumbling * (|omega| / (10 deg/s))^2``.

    ``v_whole`` is the velocity of the arm as one rigid mass, so both terms are of the order of one; ``omega`` is the
    mean angular velocity of the stopped arm. The square is smooth at rest, where a search could otherwise get stuck.
    """

    velocity: float = 1.0
    tumbling: float = 0.0

    def __post_init__(self) -> None:
        if not (self.velocity >= 0.0 and self.tumbling >= 0.0 and 0.0 < self.velocity + self.tumbling < np.inf):
            raise InputError(
                f"weights are {self.velocity} and {self.tumbling}", place="goal", hint="expected 0 or more, not both 0"
            )

    def score(self, rig: Rig, runs: Ejections) -> Array:
        # All of the energy of the springs in one rigid mass: a scale that is the same for all configurations.
        whole = float(np.sqrt(2.0 * rig.device.energy / rig.arm.mass))
        angular_rate = runs.tumble_rate / np.radians(10.0)
        score: Array = self.velocity * runs.velocity / whole - self.tumbling * angular_rate**2
        return score


@dataclass(frozen=True)
class EjectionConstraints:
    """Constraints on a configuration.

    Args:
        keep_out: regions fixed to the satellite, from which every body keeps at least ``margin`` (m), as do bodies with
            collision shapes from one another.
        radii: of the bodies around their skeletons, m.
        respect_limits: no joint reaches a limit, from start to end.
        limit_margin: smallest distance (rad or m) of the configuration itself from the limits.
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

    def find_violations(self, runs: Ejections) -> dict[str, npt.NDArray[np.bool_]]:
        """Samples that violate each constraint (samples,), by its name in :data:`BROKEN`; a run may violate several."""
        found = {
            "run": ~runs.sound,
            # A clearance that is NaN (a failed run) counts as a violation, an infinite one (nothing to touch) as
            # satisfied.
            "clearance": ~(np.nan_to_num(runs.clearance, nan=-np.inf, posinf=np.inf) >= self.margin),
        }
        if self.respect_limits:
            found["limit"] = np.any(runs.hits, axis=1)
        if self.stable:
            found["stable"] = ~np.isfinite(runs.stable_time)
        return found

    def find_admissible(self, runs: Ejections) -> npt.NDArray[np.bool_]:
        """Samples that satisfy all constraints (samples,)."""
        return np.asarray(~np.any(list(self.find_violations(runs).values()), axis=0))


#: Description of each violated constraint.
BROKEN = {
    "run": "the run is not sound",
    "clearance": "closer than the margin",
    "limit": "a joint reaches its limit",
    "stable": "the joints do not stop in time",
}


@dataclass(frozen=True, eq=False)
class BestConfiguration:
    """Result of :func:`best_configuration`."""

    joints: Array  # (n,) rad or m
    score: float
    runs: Ejections  # of the best configuration, one sample
    peaks: Array  # (populations,) score at which each population that was not merged into another ended
    samples: int
    allowed: float  # fraction of the samples that satisfied the constraints
    evaluated: int  # total number of complete ejections
    history: Array = field(default_factory=lambda: np.zeros(0))  # best score after each generation


def joint_ranges(rig: Rig, joints: Sequence[str] | None = None) -> tuple[Array, Array]:
    """Ranges to search (n,): limits, or half a revolution either way for an unlimited revolute joint; empty for fixed
    joints.
    """
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
        # Drawn in a power of two, in which Sobol points are balanced, and the first of them taken.
        draw = qmc.Sobol(free.size, seed=seed)
        unit = draw.random_base2(int(np.ceil(np.log2(max(count, 2)))))[:count]
        points[:, free] = low[free] + unit * (high - low)[free]
    return points


def best_configuration(
    rig: Rig,
    goal: EjectionGoal | None = None,
    *,
    constraints: EjectionConstraints | None = None,
    samples: int = 4096,
    keep: int = 24,
    joints: Sequence[str] | None = None,
    at: npt.ArrayLike | str | None = None,
    release: ReleaseState | None = None,
    flight: float = 10.0,
    seed: int = 0,
    refine: int = 80,
    threads: int | None = None,
    progress: Progress | None = None,
) -> BestConfiguration:
    """Search the joint space by Sobol samples, then by populations that evolve from the best of them.

    Args:
        joints: joints to search over; the others keep their positions in ``at`` (zero if omitted).
        release: motion of the arm at the release, the same for all configurations.
        keep: number of populations, which start from the best samples that lie apart.
        refine: largest number of generations of the evolution; 0: the best sample is returned.
    """
    goal, constraints = goal or EjectionGoal(), constraints or EjectionConstraints()
    for name, value, least in (("samples", samples, 1), ("keep", keep, 1), ("refine", refine, 0)):
        integer(value, name, least=least, place="best configuration")
    search = _ConfigurationSearch(rig, goal, constraints, release, flight, threads, *_box(rig, constraints, joints, at))
    points = sample_configurations(search.low, search.high, samples, seed)
    score = search.run(points, progress)[0]
    allowed = float(np.isfinite(score).mean())
    if allowed == 0.0:
        raise InputError(
            f"none of {samples} configurations satisfies the constraints",
            place="best configuration",
            hint="use more samples, a smaller margin, or limits that may be reached",
        )
    first = int(score.argmax())
    found, worth = points[first].copy(), float(score[first])
    peaks: list[tuple[Array, float]] = []
    history: list[float] = []
    if search.searched_joints.size and refine:
        starts = _select_distinct(search.to_unit_box(points), score, keep)
        # First step: half the mean distance of the samples.
        step = 0.5 * samples ** (-1.0 / search.searched_joints.size)
        peaks, history = evolve(search.judge, *starts, step=step, generations=refine, seed=seed)
    if peaks and peaks[0][1] > worth:
        found, worth = search.from_unit_box(peaks[0][0][None])[0], peaks[0][1]
    return BestConfiguration(
        found,
        worth,
        search.run(found[None])[1],
        np.array([peak for _, peak in peaks]),
        samples,
        allowed,
        samples + search.judged,
        np.array([score[first], *history]),
    )


def _box(
    rig: Rig, constraints: EjectionConstraints, joints: Sequence[str] | None, at: npt.ArrayLike | str | None
) -> tuple[Array, Array]:
    """Ranges to search (n,), within the limits by the margin of the constraints; other joints as in ``at``."""
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
    # An empty range marks a joint that is not searched; ``searched_joints`` reads it so.
    low[fixed] = high[fixed] = rig.configuration(at)[fixed]
    return low, high


@dataclass(eq=False)
class _ConfigurationSearch:
    """Ejections from configurations in a box, and their scores."""

    rig: Rig
    goal: EjectionGoal
    constraints: EjectionConstraints
    release: ReleaseState | None
    flight: float
    threads: int | None
    low: Array
    high: Array
    judged: int = 0

    @property
    def searched_joints(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.high > self.low)

    def to_unit_box(self, points: Array) -> Array:
        """Configurations as points of the unit box of the searched joints."""
        free = self.searched_joints
        scaled: Array = (points[:, free] - self.low[free]) / (self.high - self.low)[free]
        return scaled

    def from_unit_box(self, unit: Array) -> Array:
        """Configurations from points of the unit box."""
        points, free = np.tile(self.low, (len(unit), 1)), self.searched_joints
        points[:, free] += unit * (self.high - self.low)[free]
        return np.clip(points, self.low, self.high)

    def judge(self, unit: Array) -> Array:
        self.judged += len(unit)
        return self.run(self.from_unit_box(unit))[0]

    def run(self, configurations: Array, notes: Progress | None = None) -> tuple[Array, Ejections]:
        """Scores, minus infinity where a constraint is violated, and the ejections."""
        runs = eject_batch(
            self.rig,
            configurations,
            release=self.release,
            flight=self.flight,
            keep_out=self.constraints.keep_out,
            radii=self.constraints.radii,
            threads=self.threads,
            progress=notes,
        )
        return np.where(self.constraints.find_admissible(runs), self.goal.score(self.rig, runs), -np.inf), runs


def _select_distinct(unit: Array, score: Array, keep: int) -> tuple[Array, Array]:
    """At most ``keep`` of the best admissible points (samples, m) of the unit box that lie apart, and their scores."""
    chosen: list[int] = []
    for i in np.argsort(-score, kind="stable"):
        if len(chosen) == keep or not np.isfinite(score[i]):
            break
        # In the largest coordinate: far apart in one joint is another posture, however alike the others are.
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
    release: ReleaseState | None = None,
    constraints: EjectionConstraints | None = None,
    flight: float = 10.0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Velocity, tumbling, equivalent mass and admissibility over two joints' ranges; the others as in ``at``.

    ``broken_*`` mark the violated constraints (:data:`BROKEN`).
    """
    constraints = constraints or EjectionConstraints()
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
    return label_dataset(
        {name: ((name,), values, rig.arm.joints[axis].unit) for name, axis, values in along},
        {
            "velocity": grid(runs.velocity, "m/s", "ejection velocity"),
            "tumbling": grid(runs.tumble_rate, "rad/s", "magnitude of the ejection angular velocity"),
            "time": grid(runs.time, "s", "ejection time"),
            "mass": grid(equivalent_mass(rig, points), "kg", "equivalent mass, all joints free"),
            "clearance": grid(runs.clearance, "m", "smallest clearance"),
            "allowed": grid(
                constraints.find_admissible(runs).astype(np.int8), "1", "1 if all constraints are satisfied"
            ),
            **{
                f"broken_{name}": grid(where.astype(np.int8), "1", f"1 where {BROKEN[name]}")
                for name, where in constraints.find_violations(runs).items()
            },
        },
    )
