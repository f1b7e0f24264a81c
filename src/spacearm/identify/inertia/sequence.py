"""The paper's sequence as estimators behind the common interface: by least squares, or by its particle swarm.

Both take a task whose records are one with all joints locked (thruster firings) and, for each joint, one in which it
alone moves, all at one configuration.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.equations import Kind
from spacearm.identify.inertia.equivalent import lump_single, lump_two, recursion, two_robot
from spacearm.identify.inertia.parameters import linear_of, placements, transport
from spacearm.identify.inertia.record import Record
from spacearm.identify.inertia.swarm_costs import single_body_problem, to_plain, two_body_problem
from spacearm.identify.inertia.task import Task
from spacearm.identify.inertia.total import fit_total
from spacearm.optimise.problem import Estimate, Reason
from spacearm.optimise.swarm import ParticleSwarm
from spacearm.typing import Array


def sorted_records(task: Task) -> tuple[Record, dict[str, Record], Array]:
    """The record with all joints locked, those of single joints by name, and the configuration that they share."""
    locked: list[Record] = []
    joints: dict[str, Record] = {}
    for record in task.records:
        moving = np.flatnonzero(record.moving)
        if moving.size == 0:
            locked.append(record)
        elif moving.size == 1:
            joints[task.robot.joint_names[int(moving[0])]] = record
        else:
            raise InputError("several joints move", place=record.place, hint="the sequence takes one joint at a time")
    missing = [name for name in task.robot.joint_names if name not in joints]
    if len(locked) != 1 or missing:
        raise InputError(
            f"{len(locked)} records with all joints locked, none for {', '.join(missing) or 'no joint'}",
            place="sequence of equivalent bodies",
            hint="expected one with all joints locked and one for each joint",
        )
    configuration = np.asarray(locked[0].channel("joint_position"))[0] if task.robot.n else np.zeros(0)
    return locked[0], joints, configuration


def _deviations(task: Task, values: Array) -> Array:
    """What the sensors' noise makes of these data, however the values were found."""
    return fit_total(task, start=values, iterations=1).information.covariance


@dataclass(frozen=True)
class Recursive:
    """Single body, then one joint after the other (``order``, or as numbered), by weighted least squares."""

    order: tuple[str, ...] | None = None
    single_kinds: tuple[Kind, ...] = ("momentum",)

    def solve(self, task: Task) -> Estimate:
        locked, joints, configuration = sorted_records(task)
        found = recursion(task.robot, locked, joints, configuration, single_kinds=self.single_kinds, order=self.order)
        return found.estimate()


@dataclass(frozen=True)
class SwarmSequence:
    """The paper's method: Eq. 37, then Eq. 52 for each joint, by a particle swarm.

    Its deviations are those of the data under the sensors' noise: the swarm itself has none. Numbers in null directions
    come from its bounds and seed and are not part of the estimate.
    """

    swarm: ParticleSwarm = field(default_factory=lambda: ParticleSwarm(40, 1500, uncertainty=False))
    span: float = 0.5
    reach: float = 0.3

    def solve(self, task: Task) -> Estimate:
        begin = time.perf_counter()
        locked, joints, configuration = sorted_records(task)
        robot, whole = task.robot, task.base_parameters
        swarm = replace(self.swarm, uncertainty=False)
        bounds = {"span": self.span, "reach": self.reach}
        single = swarm.solve(single_body_problem(robot, locked, configuration, **bounds))
        body = linear_of(to_plain(single.values))
        rows, values, parts = [lump_single(robot, configuration) @ whole.lift], [body], {"single": single}
        for name, record in joints.items():
            found = swarm.solve(two_body_problem(robot, record, configuration, name, body, **bounds))
            parts[name] = found
            pair = two_robot(robot, configuration, name)
            small = base_parameters(pair)
            first = linear_of(to_plain(found.values))
            child = placements(pair, [float(configuration[robot.joint_index(name)])])[1]
            both = np.concatenate([first, transport(child.inverse()) @ (body - first)])
            values.append((small.combine @ both)[10:])
            rows.append((small.combine @ lump_two(robot, configuration, name) @ whole.lift)[10:])
        solution = np.linalg.solve(np.concatenate(rows), np.concatenate(values))
        seconds = time.perf_counter() - begin
        return Estimate(
            whole.names,
            whole.units,
            solution,
            _deviations(task, solution),
            float(sum(part.cost for part in parts.values())),
            sum(part.evaluations for part in parts.values()),
            sum(part.iterations for part in parts.values()),
            Reason.CONVERGED if all(part.cost < 1e-6 for part in parts.values()) else Reason.LIMIT,
            single.history,
            seconds,
            "particle swarm on equivalent bodies",
            {"parts": parts},
        )
