"""Whole runs, vectorised: phase after phase, each run checked by its balances of momentum and energy.

Runs that share compiled code go through the phases together, in lanes
(:mod:`spacearm.simulate.ensemble.vectorised_phases`). At eight instants and at the end of each phase momentum, mass
centre and energy are compared with the integrated external impulse and work, all runs at once. A run that fails is not
repaired but returned as None, for an event-driven run to explain.

A fixed step has no error estimate: the balances take its place. They are judged as a certificate judges a single run
(:func:`~spacearm.simulate.run.certificate.balance_errors`), with net instead of gross impulses, which is stricter.
Runs are grouped by structure key; if nearly every run had one of its own, each would be compiled, and that is an error
that names what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from spacearm.engine.device import Device
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.bodies import centre_motion
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.simulate.ensemble.vectorised_phases import (
    RUN_WITHOUT_DEVICE,
    STRUCTURE_PARTS,
    VectorisedError,
    VectorisedPhase,
    run_phases,
)
from spacearm.simulate.law import Law
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.certificate import balance_errors, judge
from spacearm.simulate.run.ledger import Centred, balance_gaps, inner_energies
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Runs whose balances are checked together.
_RUNS_TOGETHER = 2048
#: Structure keys that may always be mixed; beyond that, a quarter as many as there are runs: each is compiled.
MOST_GROUPS = 8


@dataclass(frozen=True, eq=False)
class VectorisedRun:
    """A run in fixed steps, to be vectorised with others.

    Args:
        step: of :class:`~spacearm.simulate.RK4`, s.
        tolerance: relative error permitted in the balances of momentum and energy.
    """

    robot: Robot
    start: State
    phases: Sequence[Phase]
    step: float
    tolerance: float

    @cached_property
    def batch_phases(self) -> tuple[VectorisedPhase, ...]:
        starts = np.cumsum([0.0, *(float(phase.duration) for phase in self.phases)])
        return tuple(
            VectorisedPhase(self.robot, self._with_base(phase), phase.place_in_run(k), self.step, float(start))
            for k, (phase, start) in enumerate(zip(self.phases, starts[:-1], strict=True))
        )

    def _with_base(self, phase: Phase) -> Phase:
        """The phase with the degrees of freedom that the robot's base does not have locked too."""
        return replace(phase, locked=tuple(dict.fromkeys((*phase.locked, *self.robot.base.locked_dofs))))

    @cached_property
    def structure_key(self) -> tuple[object, ...]:
        """Structure key that runs must share to be vectorised together.

        Raises:
            VectorisedError: states what vectorised runs do not support.
        """
        for interval in self.batch_phases:
            interval.check()
        laws = [law for phase in self.phases for law in cast(tuple[Law, ...], phase.laws)]
        if len({*laws}) < len(laws):
            raise VectorisedError(
                "a law continues over several phases, which vectorised runs do not support",
                place="law",
                hint=RUN_WITHOUT_DEVICE,
            )
        return tuple(interval.structure_key for interval in self.batch_phases)


def simulate_lanes(
    runs: Sequence[VectorisedRun], *, device: Device = "cpu", threads: int | None = None
) -> list[State | None]:
    """The end of each run, with the same bits whatever other runs are in the batch.

    None for a run that is not finite, whose balances are not accurate enough, or in which a drive reaches its rate
    limit between ticks: :func:`~spacearm.simulate.simulate` then explains it.

    Raises:
        VectorisedError: a run has something that vectorised runs do not support, or the runs differ in more than
            parameters.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run.structure_key, []).append(number)
    if len(groups) > max(MOST_GROUPS, len(runs) // 4):
        first, second = (runs[numbers[0]].batch_phases for numbers in [*groups.values()][:2])
        for one, other in zip(first, second, strict=False):
            differ = [
                name
                for name, a, b in zip(STRUCTURE_PARTS, one.structure_key, other.structure_key, strict=True)
                if a != b
            ]
            if differ:
                text = f"varies from run to run in what is compiled: {'; '.join(differ)}"
                hint = (
                    f"vary starts, inertias, springs, dampers, gains, seeds, sizes of signals; or {RUN_WITHOUT_DEVICE}"
                )
                raise VectorisedError(text, place=one.place, hint=hint)
        raise VectorisedError("the number of phases varies from run to run", place="phase", hint=RUN_WITHOUT_DEVICE)
    ends: list[State | None] = [None] * len(runs)
    for numbers in groups.values():
        found, sound = _run_group([runs[k] for k in numbers], device, threads)
        for k, state in zip(np.array(numbers)[sound], found[sound], strict=True):
            ends[k] = State.from_vector(state)
    return ends


def _run_group(
    runs: Sequence[VectorisedRun], device: Device, threads: int | None
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """States at the end (B, nx) of runs with one structure key, and which of them are sound."""
    states = np.array([run.start.vector for run in runs])
    sound, robot = np.ones(len(runs), dtype=bool), runs[0].robot
    tolerance = np.array([run.tolerance for run in runs])
    for intervals in zip(*(run.batch_phases for run in runs), strict=True):
        # Places of locked rates in the flat state.
        still = Layout(robot.n).velocity.start + np.array(
            [robot.dof_index(name) for name in intervals[0].phase.locked], int
        )
        # Locking a moving joint would take an impulse: not supported in a vectorised run.
        sound &= ~np.any(states[:, still], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            times, y, within = run_phases(intervals, states, device, threads)
            sound &= within
            for first in range(0, len(runs), _RUNS_TOGETHER):
                some = slice(first, first + _RUNS_TOGETHER)
                sound[some] &= _check_balances(intervals[some], states[some], times, y[some], tolerance[some])
        states = np.ascontiguousarray(y[:, -1, : states.shape[1]])
    return states, sound


def _check_balances(
    intervals: Sequence[VectorisedPhase], starts: Array, times: Array, y: Array, tolerance: Array
) -> npt.NDArray[np.bool_]:
    """(B,) whether momentum, the mass centre's path and energy were conserved, as a certificate judges them.

    Scales have net instead of gross impulses, so that this is stricter.
    """
    first = intervals[0]
    robot, (count, _, ny) = first.robot, y.shape
    nx = starts.shape[1]
    rows = np.zeros((count, len(times) + 1, ny))
    # The start is the reference of every balance: integrated energies and impulses are zero there.
    rows[:, 0, :nx], rows[:, 1:] = starts, y
    given = {name: np.array([interval.parameters[name] for interval in intervals]) for name in first.parameters}
    # Parameters of each run for each of its instants: all runs are then one batch of rows.
    own = {name: np.repeat(values, rows.shape[1], axis=0) for name, values in given.items()}
    flat = rows.reshape(-1, ny)
    model = robot_motion(robot, first.frames)
    # By the formulas of a certificate, which share nothing with the integrated program.
    seen = centre_motion(robot, flat[:, :nx], own["inertia"], own["rotor"])
    parts = inner_energies(model, own, flat, seen).reshape(*rows.shape[:2], -1)
    shape = rows.shape[:2]
    mass = np.asarray(seen.mass).reshape(shape)[:, :1] if np.ndim(seen.mass) else np.full((count, 1), seen.mass)
    velocity, centre = seen.velocity.reshape(*shape, 3), seen.centre.reshape(*shape, 3)
    angular = seen.sums.angular.reshape(*shape, 3)
    if first.has_external_action:
        impulse, twist, displacement = (rows[:, :, ny - 9 + 3 * k : ny - 6 + 3 * k] for k in range(3))
        energy = {name: rows[:, :, place] for name, place in model.energies.items()}
        work = sum((energy[name][:, :, :6].sum(axis=2) * sign for name, sign in (("drive", 1), ("damping", -1))), 0.0)
        work = work + energy["load"].sum(axis=2)
        squared = (velocity**2).sum(axis=2)
        # Work in the world less the change in the mass centre's kinetic energy: work in its frame.
        work = work - 0.5 * mass * (squared - squared[:, :1])
    else:
        impulse = twist = np.zeros((1, 1, 3))
        displacement = np.append(0.0, times)[None, :, None] * velocity[:, :1]
        work = np.zeros(shape)

    def largest(values: Array) -> Array:
        return np.asarray(np.abs(values).reshape(count, -1).max(axis=1))

    def length(vectors: Array) -> Array:
        return np.asarray(np.linalg.norm(np.broadcast_to(vectors, (count, *vectors.shape[1:])), axis=2).max(axis=1))

    now = Centred(rows[:, :, :3], centre, velocity, angular, parts.sum(axis=2))
    start = Centred(*(part[:, :1] for part in now))
    gaps = balance_gaps(mass[:, :, None], now, start, impulse, twist, displacement, work)
    sizes = {name: length(gap) if gap.ndim > 2 else largest(gap) for name, gap in gaps.items()}
    sizes |= {
        "speed": length(velocity),
        "distance": largest(rows[:, :, :3]),
        "kinetic": largest(seen.sums.kinetic),
        "linear_scale": largest(seen.sums.linear_scale),
        "angular_scale": largest(seen.sums.angular_scale),
        "inner": np.abs(parts).max(axis=1).sum(axis=1),
    }
    reach = largest(np.linalg.norm(seen.bodies.origin, axis=2))
    # A single body at its own centre has no reach: one metre, as in the certificate.
    reach = np.where(reach > 0.0, reach, 1.0)
    gross = length(impulse), length(twist), largest(work)
    # Angles beyond this range are no longer accurate: an event-driven run raises an error there.
    found = np.isfinite(y).all(axis=(1, 2)) & (largest(rows[:, :, Layout(robot.n).joints]) <= LARGEST_ANGLE)
    for error in balance_errors(sizes, mass[:, 0], reach, float(times[-1]), gross).values():
        value, reason = judge(error, tolerance)
        found &= (value <= tolerance) | (reason > 0)
    return np.asarray(found)
