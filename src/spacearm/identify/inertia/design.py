"""Design of the experiment: joint motions and firings that leave the least uncertainty within limits.

A candidate is simulated on the nominal robot, its information about the base parameters computed with the sensors'
noise, and its uncertainty measured: D-optimal, the mean log deviation in typical sizes, or A-optimal, the root mean
square deviation. Without a prior it is the information of the momentum at each sample, which is quick; with one, that
of all samples of all channels (the bound of the output error). Joint paths are splines whose inner nodes are free,
thrusters fire in pulses; candidates that break a limit are penalised. A seeded random search keeps the best, then
changes it step by step; one that is interrupted goes on from the candidates that it has tried
(:mod:`spacearm.engine.checkpoints`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import non_negative, positive
from spacearm.engine.checkpoints import checkpoint
from spacearm.errors import InputError
from spacearm.identify.inertia.experiments import command_phases, run_experiment, start_state
from spacearm.identify.inertia.inertia_parameters import placements
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.output_error_fit import predict_information
from spacearm.identify.inertia.prepare_record import firing_intervals, prepare_record
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.regression import fit_total
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.measure.sensors import phase_commands, record_run, shared_period
from spacearm.mechanics.sensors import Sensor
from spacearm.model import Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.optimise.information import Information
from spacearm.simulate import Dopri853, Phase, Signal, State, collision_pairs, gaps, pulse, spline
from spacearm.typing import Array

Criterion = Literal["D", "A"]
#: Where it starts, and what is done.
Experiment = tuple[State, Sequence[Phase]]
#: Design needs no exact motion.
QUICK = Dopri853(rtol=1e-8, atol=1e-10)
#: Places along a path at which its limits are looked at.
FINE = 2001
#: Candidates are many: each that took this long, s, is kept for a search that is interrupted.
WORTH_KEEPING = 0.01


@dataclass(frozen=True, eq=False)
class ExperimentLimits:
    """What an experiment may use.

    Args:
        angle: largest excursion of a joint from its configuration, rad or m.
        rate: largest joint rate, rad/s or m/s.
        attitude: largest turn of the base from its start, rad.
        impulse: most thruster impulse (thrust times time summed, N s): fuel.
        time: total duration of all experiments, s.
        clearance: least distance of the outermost bodies (frame and mass centre) from the base's origin, m.
        margin: least gap between collision shapes of the robot, m.

    The robot's own limits of its joints, where it has some, count too.
    """

    angle: float = np.deg2rad(30.0)
    rate: float = np.deg2rad(6.0)
    attitude: float = np.deg2rad(30.0)
    impulse: float = np.inf
    time: float = np.inf
    clearance: float = 0.0
    margin: float = 0.0

    def __post_init__(self) -> None:
        for name in ("angle", "rate", "attitude", "time"):
            positive(getattr(self, name), name, infinite=True, place="limits")
        for name in ("impulse", "clearance"):
            non_negative(getattr(self, name), name, infinite=True, place="limits")


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """Experiments, each a state and phases, with their uncertainty."""

    experiments: tuple[Experiment, ...]
    score: float
    deviations: Array  # (r,) claimed standard deviations in typical sizes
    usage: Mapping[str, float] = field(default_factory=dict)
    history: Array = field(default_factory=lambda: np.zeros(0))
    evaluations: int = 0


def information_of(robot: Robot, records: Sequence[MotionRecord], prior: Prior | None = None) -> Information:
    """Information of noise-free records under their sensors' noise, on this robot.

    With a prior it is that of all samples of all channels, the bound of :class:`.OutputErrorProblem`, and of what is
    believed before; without, that of the momentum at each sample.
    """
    if prior is None:
        return fit_total(InertiaProblem(robot, records), iterations=1).information
    return predict_information(OutputErrorProblem(robot, records, prior=prior))


def score(information: Information, criterion: Criterion) -> float:
    """Smaller is better: mean log10 deviation (D) or root mean square deviation (A), in typical sizes; infinite where
    nothing is determined."""
    if not information.rises.size or not information.rises[-1] > 0.0:
        return float("inf")
    # Directions that are not shown count as very bad, not as infinitely so: candidates must stay comparable.
    rises = np.maximum(information.rises, 1e-16 * information.rises[-1])
    # D: the volume of the confidence ellipsoid (by direction, in decades). A: the mean variance, that is the worst
    # directions.
    if criterion == "D":
        return float(-0.5 * np.mean(np.log10(rises)))
    return float(np.sqrt(np.mean(1.0 / rises)))


def usage(robot: Robot, experiments: Sequence[Experiment], records: Sequence[MotionRecord]) -> dict[str, float]:
    """Largest angle, rate and attitude, impulse and time of the experiments, by the names of the limits."""
    angle = rate = attitude = impulse = beyond = time = 0.0
    near = gap = np.inf
    for experiment, record in zip(experiments, records, strict=True):
        duration, paths, firings = _read_phases(robot, experiment)
        fine = np.linspace(0.0, duration, FINE)  # samples are too far apart to see the peaks
        for name, path in paths.items():
            begin = experiment[0].joints[robot.joint_index(name)]
            angle = max(angle, float(np.abs(path(fine) - begin).max()))
            rate = max(rate, float(np.abs(path.derivative()(fine)).max()))
        beyond = max(beyond, _joint_limit_excess(robot, paths, fine))
        own, between = _nearest(robot, experiment[0].joints, paths, duration)
        near, gap = min(near, own), min(gap, between)
        # The angle from the first attitude: arccos of half the trace of the relative rotation less one.
        rotation = rotation_matrices(record.channel("attitude"))
        trace = np.einsum("ij,tij->t", rotation[0], rotation)
        attitude = max(attitude, float(np.arccos(np.clip(0.5 * (trace - 1.0), -1.0, 1.0)).max()))
        impulse += sum(robot.thruster(name).force * level * (end - start) for name, start, end, level in firings)
        time += duration
    used = {"angle": angle, "rate": rate, "attitude": attitude, "impulse": impulse, "time": time}
    return used | {"joint_limits": beyond, "clearance": near} | ({"margin": gap} if np.isfinite(gap) else {})


def _read_phases(
    robot: Robot, experiment: Experiment
) -> tuple[float, dict[str, Signal], list[tuple[str, float, float, float]]]:
    """Duration (s) of an experiment, paths of its joints, and its firings: thruster, start, end, level."""
    _, phases = experiment
    ends = np.cumsum([phase.duration for phase in phases])
    commands = phase_commands(robot, zip(phases, [0.0, *ends[:-1]], strict=True))
    duration = float(ends[-1])
    firings = [
        (part.name, *interval)
        for part in robot.thrusters
        if part.name in commands
        for interval in firing_intervals(part.name, commands[part.name], duration)
    ]
    return duration, {name: commands[name] for name in robot.joint_names if name in commands}, firings


def describe_experiment(robot: Robot, experiment: Experiment) -> str:
    """An experiment in one line: how long it lasts, what moves and what fires."""
    duration, _, firings = _read_phases(robot, experiment)
    start, phases = experiment
    words = []
    # The first phase has the whole path; its inner breaks are the nodes.
    for name, path in phases[0].driven.items():
        nodes, slides = path.breaks[1:-1], robot.joint(name).kind == "prismatic"
        begin = start.joints[robot.joint_index(name)]
        # Rounding is not an excursion.
        relative = np.where(np.abs(path(nodes) - begin) > 1e-12, path(nodes) - begin, 0.0)
        values = relative if slides else np.rad2deg(relative)
        at, times = (", ".join(f"{value:.4g}" for value in part) for part in (values, nodes))
        words.append(f"{name} through {at} {'m' if slides else 'deg'} at {times} s")
    words += [f"{name} fires from {begin:.4g} s to {end:.4g} s" for name, begin, end, _ in firings]
    return f"{duration:g} s: {'; '.join(words)}"


def _joint_limit_excess(robot: Robot, paths: Mapping[str, Signal], fine: Array) -> float:
    """The largest share of its own range, or of its own rate, by which a joint leaves it."""
    worst = 0.0
    for name, path in paths.items():
        own = robot.joint(name).limits
        q, r = path(fine), float(np.abs(path.derivative()(fine)).max())
        room = own.upper - own.lower
        out = max(float(q.max()) - own.upper, own.lower - float(q.min()))
        fast = r / own.velocity - 1.0 if own.velocity > 0.0 else r
        worst = max(worst, out / room if np.isfinite(room) and room > 0 else out, fast)
    return worst if np.isfinite(worst) else 0.0


def _nearest(robot: Robot, begin: Array, paths: Mapping[str, Signal], duration: float) -> tuple[float, float]:
    """The least distance of the outermost bodies from the base's origin, and the least gap of collision shapes, m."""
    outer = [k for k in range(len(robot.bodies)) if k not in robot.parents]
    if not robot.n:
        return float("inf"), float("inf")
    times = np.linspace(0.0, duration, 61)
    q = np.tile(begin, (times.size, 1))
    for name, path in paths.items():
        q[:, robot.joint_index(name)] = path(times)
    found = [
        np.linalg.norm(pose.translation + pose.rotation @ point)
        for row in q
        for pose, body in [(placements(robot, row)[k], robot.bodies[k]) for k in outer]
        for point in (np.zeros(3), body.inertia.com)
    ]
    return float(min(found)), float(gaps(robot, collision_pairs(robot), q).min(initial=np.inf))


def limit_excess(used: Mapping[str, float], limits: ExperimentLimits) -> dict[str, float]:
    """Excess of the experiments over the limits that they break, as shares; margins in their own unit."""
    over = {
        name: _relative_excess(used[name], getattr(limits, name))
        for name in ("angle", "rate", "attitude", "impulse", "time")
    }
    over |= {"joint_limits": used["joint_limits"], "clearance": limits.clearance / max(used["clearance"], 1e-9) - 1.0}
    over["margin"] = limits.margin - used.get("margin", np.inf)
    return {name: value for name, value in over.items() if value > 1e-9}


def _relative_excess(used: float, limit: float) -> float:
    """By which share of a limit what is used goes beyond it; all of it where nothing may be used."""
    return used / limit - 1.0 if limit > 0.0 else used


def evaluate(
    robot: Robot,
    experiments: Sequence[Experiment],
    sensors: Sequence[Sensor],
    criterion: Criterion = "D",
    prior: Prior | None = None,
) -> ExperimentPlan:
    """Uncertainty of given experiments: what a design is compared with."""
    period = shared_period(sensors)
    runs = [run_experiment(robot, *each, period, method=QUICK, ledger=False) for each in experiments]
    records = [prepare_record(robot, record_run(run, sensors)) for run in runs]
    information = information_of(robot, records, prior)
    return ExperimentPlan(
        tuple(experiments),
        score(information, criterion),
        information.std / information.sizes,
        usage(robot, experiments, records),
        evaluations=1,
    )


def design(
    robot: Robot,
    configuration: npt.ArrayLike | str,
    sensors: Sequence[Sensor],
    limits: ExperimentLimits,
    *,
    motions: int = 2,
    duration: float = 60.0,
    inner_nodes: int = 7,
    pulses: int = 6,
    criterion: Criterion = "D",
    prior: Prior | None = None,
    candidates: int = 12,
    refinements: int = 40,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> ExperimentPlan:
    """Choose motions of all joints and thruster pulses within limits.

    Args:
        motions: number of experiments; in each all joints move at once.
        duration: of each, s; motions * duration must not exceed the limit of time.
        inner_nodes: free spline nodes of each joint; a path starts and ends at rest in the configuration.
        pulses: thruster pulses in the first experiment, which gives the scale; the others float freely.
        prior: what is known before, such as all bodies but a captured one (``Prior.from_known_bodies``). The
            uncertainty is then that of the others by all samples of all channels; a belief counts as well.
        candidates: random starts.
        refinements: changes tried on the best.
    """
    place = "design of experiments"
    if motions * duration > limits.time * (1 + 1e-9):
        raise InputError(f"{motions} motions of {duration:g} s take longer than {limits.time:g} s", place=place)
    times = np.linspace(0.0, duration, inner_nodes + 2)
    shape = (motions, robot.n, inner_nodes), pulses if robot.thrusters else 0
    search = _CandidateSearch(
        robot, configuration, limits, times, shared_period(sensors), *shape, np.random.default_rng(seed)
    )
    best_cost, best, best_genes = np.inf, None, search.draw()
    history, total = [], candidates + refinements
    for step in range(total):
        # Random candidates first, then ever smaller changes of the best: the score has many local minima.
        share = (step - candidates) / max(refinements, 1)
        genes = search.draw() if step < candidates else search.vary(best_genes, 0.5 - 0.4 * share)
        plan = _evaluate_once(robot, search.experiments(genes), sensors, criterion, prior)
        # Limits as a penalty: a search may pass through candidates that break one. With criterion D a tenth of a limit
        # weighs as much as a decade of the mean deviation.
        cost = plan.score + 10.0 * sum(limit_excess(plan.usage, limits).values())
        if cost < best_cost:
            best_cost, best, best_genes = cost, plan, genes
        history.append(best_cost)
        if progress is not None:
            progress((step + 1) / total, "designing the experiment")
    if best is None:
        hint = "unknown bodies, sensors that show them, and joints or thrusters that move them"
        raise InputError(f"no candidate of {total} determines anything", place=place, hint=f"expected {hint}")
    over = limit_excess(best.usage, limits)
    if over:
        hint = "allow more candidates, or a wider limit"
        raise InputError(f"no candidate of {total} keeps the limit of {', '.join(over)}", place=place, hint=hint)
    return replace(best, history=np.array(history), evaluations=total)


def _evaluate_once(
    robot: Robot,
    experiments: Sequence[Experiment],
    sensors: Sequence[Sensor],
    criterion: Criterion,
    prior: Prior | None,
) -> ExperimentPlan:
    """A candidate of a search, which is known again when the search was interrupted."""

    def compute() -> dict[str, npt.NDArray[Any]]:
        plan = evaluate(robot, experiments, sensors, criterion, prior)
        used = {"limits": np.array([*plan.usage]), "usage": np.array([*plan.usage.values()])}
        return {"score": np.array(plan.score), "deviations": plan.deviations, **used}

    inputs = robot, experiments, sensors, criterion, prior, QUICK
    found = checkpoint("candidate", inputs, compute, least_seconds=WORTH_KEEPING)
    used = dict(zip(found["limits"].tolist(), found["usage"].tolist(), strict=True))
    return ExperimentPlan(tuple(experiments), float(found["score"]), found["deviations"], used, evaluations=1)


class _Genes(NamedTuple):
    """A candidate: spline nodes (motions, joints, inner) and pulses (pulses, 3): thruster, start, width."""

    nodes: Array
    pulses: Array


@dataclass(frozen=True, eq=False)
class _CandidateSearch:
    """Draws and changes candidates."""

    robot: Robot
    configuration: npt.ArrayLike | str
    limits: ExperimentLimits
    times: Array  # of the spline's nodes, ends included
    grid: float  # s, on which thrusters switch
    shape: tuple[int, int, int]
    pulses: int
    rng: np.random.Generator

    def draw(self) -> _Genes:
        rng, thrusters, duration = self.rng, len(self.robot.thrusters), float(self.times[-1])
        nodes = self._scale_to_limits(rng.normal(size=self.shape) * self.limits.angle)
        raw = np.column_stack(
            [
                rng.integers(0, max(thrusters, 1), self.pulses),
                rng.uniform(0.0, 0.9 * duration, self.pulses),
                rng.uniform(0.03, 0.1, self.pulses) * duration * rng.uniform(0.2, 1.0),
            ]
        )
        return _Genes(nodes, raw)

    def vary(self, genes: _Genes, size: float) -> _Genes:
        rng = self.rng
        # Some three of ten nodes at a time: where all change at once, hardly any change is for the better.
        change = rng.normal(size=genes.nodes.shape) * (rng.random(genes.nodes.shape) < 0.3)
        nodes = self._scale_to_limits(genes.nodes + size * self.limits.angle * change)
        raw = genes.pulses.copy()
        for row in raw:
            if rng.random() < 0.3:
                row[0] = rng.integers(0, len(self.robot.thrusters))
            if rng.random() < 0.3:
                row[1:] += rng.normal(size=2) * size * np.array([0.2, 0.05]) * float(self.times[-1])
        return _Genes(nodes, raw)

    def _scale_to_limits(self, nodes: Array) -> Array:
        """Nodes that keep to the limits of angle and rate: a clamped spline overshoots its chords by less."""
        limits, padded = self.limits, np.pad(nodes, ((0, 0), (0, 0), (1, 1)))
        steep = np.abs(np.diff(padded, axis=-1)).max(axis=-1, keepdims=True) / (self.times[1] - self.times[0])
        peak = np.abs(nodes).max(axis=-1, keepdims=True)
        factor = np.minimum(0.8 * limits.angle / np.maximum(peak, 1e-12), 0.5 * limits.rate / np.maximum(steep, 1e-12))
        return np.asarray(nodes * np.minimum(factor, 1.0))

    def experiments(self, genes: _Genes) -> list[Experiment]:
        """A candidate's experiments; pulses snap to the sampling grid and are shortened to the fuel that is left."""
        duration, left, grid = float(self.times[-1]), self.limits.impulse, self.grid
        levels: dict[str, Signal] = {}
        taken: list[tuple[str, float, float]] = []
        for index, start, width in genes.pulses:
            thruster = self.robot.thrusters[int(index)]
            begin = float(np.clip(np.round(start / grid), 0, np.floor(0.9 * duration / grid)) * grid)
            # Switches on the sampling grid, and four samples at least: then the impulse is integrated exactly.
            most = min(duration - begin, left / thruster.force if thruster.force > 0.0 else np.inf)
            long = float(np.floor(np.clip(width, 4 * grid, most) / grid) * grid)
            # A thruster that already fires cannot fire more.
            busy = any(name == thruster.name and begin < end and begin + long > low for name, low, end in taken)
            if long >= 4 * grid and not busy:
                taken.append((thruster.name, begin, begin + long))
                level = pulse(1.0, begin, long)
                levels[thruster.name] = levels[thruster.name] + level if thruster.name in levels else level
                left -= long * thruster.force
        state = start_state(self.robot, self.configuration)
        found: list[Experiment] = []
        for k, part in enumerate(genes.nodes):
            names = zip(self.robot.joint_names, part, state.joints, strict=True)
            paths = {name: spline(self.times, np.pad(own, 1) + begin) for name, own, begin in names}
            found.append((state, command_phases(self.robot, paths if k else paths | levels, duration)))
        return found
