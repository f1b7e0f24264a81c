"""Design of the experiment: joint motions and firings that leave the least uncertainty within limits.

A candidate is simulated on the nominal robot, its information about the base parameters computed with the sensors' noise,
and its uncertainty measured: D-optimal, the mean log deviation in typical sizes, or A-optimal, the root mean square
deviation. Joint paths are splines whose inner nodes are free; candidates that break a limit are penalised. A seeded random
search keeps the best, then changes it step by step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.identify.inertia.experiment import Experiment, Nodes, measure
from spacearm.identify.inertia.information import Information
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.sensors import Sensors
from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.total import fit_total
from spacearm.model import Robot
from spacearm.model.parts import Array
from spacearm.simulate import Adaptive
from spacearm.simulate.state import rotation_of

Criterion = Literal["D", "A"]
#: Design needs no exact motion.
QUICK = Adaptive(rtol=1e-8, atol=1e-10)


@dataclass(frozen=True, eq=False)
class Limits:
    """What an experiment may use.

    Args:
        angle: largest excursion of a joint from its posture, rad or m.
        rate: largest joint rate, rad/s or m/s.
        attitude: largest turn of the base from its start, rad.
        impulse: most thruster impulse (thrust times time summed, N s): fuel.
        time: total duration of all experiments, s.
    """

    angle: float = np.deg2rad(30.0)
    rate: float = np.deg2rad(6.0)
    attitude: float = np.deg2rad(30.0)
    impulse: float = np.inf
    time: float = np.inf


@dataclass(frozen=True, eq=False)
class Plan:
    """Experiments with their uncertainty."""

    experiments: tuple[Experiment, ...]
    score: float
    deviations: Array  # (r,) claimed standard deviations in typical sizes
    usage: Mapping[str, float] = field(default_factory=dict)
    history: Array = field(default_factory=lambda: np.zeros(0))
    evaluations: int = 0


def information_of(robot: Robot, records: Sequence[Record]) -> Information:
    """Information of noise-free records under their sensors' noise, on this robot."""
    return fit_total(Task(robot, tuple(records)), iterations=1).information


def score(information: Information, criterion: Criterion) -> float:
    """Smaller is better: mean log10 deviation (D) or root mean square deviation (A), in typical sizes."""
    values, _ = information.spectrum()
    floor = 1e-16 * values[-1]
    if criterion == "D":
        return float(-0.5 * np.mean(np.log10(np.maximum(values, floor))))
    return float(np.sqrt(np.mean(1.0 / np.maximum(values, floor))))


def usage(robot: Robot, experiments: Sequence[Experiment], records: Sequence[Record]) -> dict[str, float]:
    """What the experiments use of each limit: the largest angle, rate and turn, the impulse, the time."""
    angle = rate = turn = impulse = 0.0
    for experiment, record in zip(experiments, records, strict=True):
        q = record.channel("joint_position")
        angle = max(angle, float(np.abs(q - q[0]).max(initial=0.0)))
        rate = max(rate, float(np.abs(record.joint_rates()).max(initial=0.0)))
        rotation = rotation_of(record.channel("attitude"))
        trace = np.einsum("ij,tij->t", rotation[0], rotation)
        turn = max(turn, float(np.arccos(np.clip(0.5 * (trace - 1.0), -1.0, 1.0)).max()))
        impulse += sum(robot.thruster(f.thruster).force * f.level * (f.end - f.start) for f in experiment.firings)
    time = sum(experiment.duration for experiment in experiments)
    return {"angle": angle, "rate": rate, "attitude": turn, "impulse": impulse, "time": time}


def _excess(used: Mapping[str, float], limits: Limits) -> float:
    return sum(max(used[name] / getattr(limits, name) - 1.0, 0.0) for name in used if getattr(limits, name) < np.inf)


def evaluate(robot: Robot, experiments: Sequence[Experiment], sensors: Sensors, criterion: Criterion = "D") -> Plan:
    """Uncertainty of given experiments: what a design is compared with."""
    records = [measure(robot, experiment, sensors, method=QUICK) for experiment in experiments]
    information = information_of(robot, records)
    return Plan(
        tuple(experiments),
        score(information, criterion),
        information.std / information.sizes,
        usage(robot, experiments, records),
        evaluations=1,
    )


def design(
    robot: Robot,
    fixed: Sequence[Experiment],
    posture: npt.ArrayLike | str,
    sensors: Sensors,
    limits: Limits,
    *,
    motions: int = 2,
    duration: float = 60.0,
    inner_nodes: int = 7,
    criterion: Criterion = "D",
    candidates: int = 12,
    refinements: int = 40,
    seed: int = 0,
    progress: Callable[[float, str], None] | None = None,
) -> Plan:
    """Choose motions of all joints at once to go with ``fixed`` experiments (firings).

    Args:
        motions: number of motions.
        duration: of each, s.
        inner_nodes: free spline nodes of each joint; the path starts and ends at rest in the posture.
        candidates: random starts.
        refinements: changes tried on the best.
    """
    rng = np.random.default_rng(seed)
    done = [measure(robot, experiment, sensors, method=QUICK) for experiment in fixed]
    times = np.linspace(0.0, duration, inner_nodes + 2)
    count, joints = motions, robot.n

    def build(nodes: Array) -> list[Experiment]:
        experiments = []
        for k in range(count):
            paths = {
                name: Nodes(times, np.concatenate([[0.0], nodes[k, j], [0.0]]))
                for j, name in enumerate(robot.joint_names)
            }
            experiments.append(Experiment(f"motion{k + 1}", duration, posture, paths))
        return experiments

    def judge(nodes: Array) -> tuple[float, Plan]:
        experiments = build(nodes)
        records = [*done, *(measure(robot, experiment, sensors, method=QUICK) for experiment in experiments)]
        every = [*fixed, *experiments]
        used = usage(robot, every, records)
        information = information_of(robot, records)
        value = score(information, criterion)
        plan = Plan(tuple(every), value, information.std / information.sizes, used)
        return value + 10.0 * _excess(used, limits), plan

    def shrink(nodes: Array) -> Array:
        """Fit angle and rate limits: a clamped spline's rate is at most about 2.3 times its steepest chord."""
        padded = np.pad(nodes, ((0, 0), (0, 0), (1, 1)))
        steep = np.abs(np.diff(padded, axis=-1)).max(axis=-1, keepdims=True) / (times[1] - times[0])
        peak = np.abs(nodes).max(axis=-1, keepdims=True)
        factor = np.minimum(0.8 * limits.angle / np.maximum(peak, 1e-12), 0.5 * limits.rate / np.maximum(steep, 1e-12))
        return np.asarray(nodes * np.minimum(factor, 1.0))

    best_nodes = np.zeros((count, joints, inner_nodes))
    best_cost, best, history, evaluations = np.inf, None, [], 0
    total = candidates + refinements
    for step in range(total):
        if step < candidates:
            nodes = shrink(rng.normal(size=best_nodes.shape) * limits.angle)
        else:
            share = (step - candidates) / max(refinements - 1, 1)
            change = rng.normal(size=best_nodes.shape) * (rng.random(best_nodes.shape) < 0.3)
            nodes = shrink(best_nodes + (0.4 - 0.3 * share) * limits.angle * change)
        cost, plan = judge(nodes)
        evaluations += 1
        if cost < best_cost:
            best_cost, best, best_nodes = cost, plan, nodes
        history.append(best_cost)
        if progress is not None:
            progress((step + 1) / total, "designing the experiment")
    assert best is not None
    return replace(best, history=np.array(history), evaluations=evaluations)
