"""Whole runs side by side: phase after phase, each run judged by its balances of momentum and energy.

Runs that share what is compiled go through the phases together, in lanes (:mod:`spacearm.simulate.ensemble.lanes`). At
eight instants and at the end of each phase momentum, mass centre and energy are compared with what was integrated from
outside, all runs at once. A run that fails is not repaired but handed back as None, for an event-driven run to explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt

from spacearm.engine.device import Device
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.bodies import centred
from spacearm.simulate.checks import LARGEST_ANGLE
from spacearm.simulate.ensemble.lanes import ALONE, KIND, LanesError, Leg, roll
from spacearm.simulate.law import Law
from spacearm.simulate.motion import motion
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.ledger import ROUNDING, inner_energies
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Runs whose balances are looked at together.
_TOGETHER = 2048
#: Kinds of runs that may be mixed in any case, and else a quarter as many as there are runs: each is compiled.
MOST_KINDS = 8


@dataclass(frozen=True, eq=False)
class LaneRun:
    """A run in fixed steps, to be made beside others.

    Args:
        step: of :class:`~spacearm.simulate.RK4`, s.
        tolerance: relative error that balances of momentum and energy may show.
    """

    robot: Robot
    start: State
    phases: Sequence[Phase]
    step: float
    tolerance: float

    @cached_property
    def legs(self) -> tuple[Leg, ...]:
        starts = np.cumsum([0.0, *(float(phase.duration) for phase in self.phases)])
        return tuple(
            Leg(self.robot, phase, phase.numbered(k), self.step, float(start))
            for k, (phase, start) in enumerate(zip(self.phases, starts[:-1], strict=True))
        )

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What runs share that can be made in one go.

        Raises:
            LanesError: says what of it runs side by side do not know.
        """
        for leg in self.legs:
            leg.check()
        laws = [law for phase in self.phases for law in cast(tuple[Law, ...], phase.laws)]
        if len({*laws}) < len(laws):
            raise LanesError("a law goes on over phases: runs side by side do not know that", place="law", hint=ALONE)
        return tuple(leg.kind for leg in self.legs)


def run_side_by_side(
    runs: Sequence[LaneRun], *, device: Device = "cpu", threads: int | None = None
) -> list[State | None]:
    """The end of each run, with the same bits whatever runs are beside it.

    None for a run that is not finite, for which a balance does not hold as exactly as it should, or in which a drive
    meets its rate limit between ticks:
    :func:`~spacearm.simulate.simulate` says what became of it.

    Raises:
        LanesError: a run has what lanes do not know, or the runs differ in more than numbers.
    """
    kinds: dict[tuple[object, ...], list[int]] = {}
    for number, run in enumerate(runs):
        kinds.setdefault(run.kind, []).append(number)
    if len(kinds) > max(MOST_KINDS, len(runs) // 4):
        first, second = (runs[numbers[0]].legs for numbers in [*kinds.values()][:2])
        for one, other in zip(first, second, strict=False):
            differ = [name for name, a, b in zip(KIND, one.kind, other.kind, strict=True) if a != b]
            if differ:
                text = f"varies from run to run in what is compiled: {'; '.join(differ)}"
                hint = f"vary starts, inertias, springs, dampers, gains, seeds, sizes of signals; or {ALONE}"
                raise LanesError(text, place=one.place, hint=hint)
        raise LanesError("the number of phases varies from run to run", place="phase", hint=ALONE)
    ends: list[State | None] = [None] * len(runs)
    for numbers in kinds.values():
        found, sound = _run_kind([runs[k] for k in numbers], device, threads)
        for k, state in zip(np.array(numbers)[sound], found[sound], strict=True):
            ends[k] = State.from_vector(state)
    return ends


def _run_kind(runs: Sequence[LaneRun], device: Device, threads: int | None) -> tuple[Array, npt.NDArray[np.bool_]]:
    """States at the end (B, nx) of runs of one kind, and which of them are sound."""
    states = np.array([run.start.vector for run in runs])
    sound, robot = np.ones(len(runs), dtype=bool), runs[0].robot
    tolerance = np.array([run.tolerance for run in runs])
    for legs in zip(*(run.legs for run in runs), strict=True):
        still = Layout(robot.n).velocity.start + np.array([robot.dof_index(name) for name in legs[0].phase.locked], int)
        # Locked while it moves would take an impulse: not a run for lanes.
        sound &= ~np.any(states[:, still], axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            times, y, within = roll(legs, states, device, threads)
            sound &= within
            for first in range(0, len(runs), _TOGETHER):
                some = slice(first, first + _TOGETHER)
                sound[some] &= _kept(legs[some], states[some], times, y[some], tolerance[some])
        states = np.ascontiguousarray(y[:, -1, : states.shape[1]])
    return states, sound


def _kept(legs: Sequence[Leg], starts: Array, times: Array, y: Array, tolerance: Array) -> npt.NDArray[np.bool_]:
    """(B,) whether momentum, the mass centre's way and energy were kept, as a certificate has them.

    Scales are net instead of gross impulses, so that this judges more strictly.
    """
    first = legs[0]
    robot, (count, _, ny) = first.robot, y.shape
    nx = starts.shape[1]
    rows = np.zeros((count, len(times) + 1, ny))
    rows[:, 0, :nx], rows[:, 1:] = starts, y
    given = {name: np.array([leg.parameters[name] for leg in legs]) for name in first.parameters}
    own = {name: np.repeat(values, rows.shape[1], axis=0) for name, values in given.items()}
    flat = rows.reshape(-1, ny)
    model = motion(robot, first.frames)
    seen = centred(robot, flat[:, :nx], own["inertia"], own["rotor"])
    parts = inner_energies(model, own, flat, seen).reshape(*rows.shape[:2], -1)
    shape = rows.shape[:2]
    mass = np.asarray(seen.mass).reshape(shape)[:, :1] if np.ndim(seen.mass) else np.full((count, 1), seen.mass)
    velocity, centre = seen.velocity.reshape(*shape, 3), seen.centre.reshape(*shape, 3)
    angular = seen.sums.angular.reshape(*shape, 3)
    if first.outside:
        impulse, twist, way = (rows[:, :, ny - 9 + 3 * k : ny - 6 + 3 * k] for k in range(3))
        energy = {name: rows[:, :, place] for name, place in model.energies.items()}
        work = sum((energy[name][:, :, :6].sum(axis=2) * sign for name, sign in (("drive", 1), ("damping", -1))), 0.0)
        work = work + energy["load"].sum(axis=2)
        squared = (velocity**2).sum(axis=2)
        # Work in the world less what went into the motion of the mass centre: work in its frame.
        work = work - 0.5 * mass * (squared - squared[:, :1])
    else:
        impulse = twist = np.zeros((1, 1, 3))
        way = np.append(0.0, times)[None, :, None] * velocity[:, :1]
        work = np.zeros(shape)

    def largest(values: Array) -> Array:
        return np.asarray(np.abs(values).reshape(count, -1).max(axis=1))

    def length(vectors: Array) -> Array:
        return np.asarray(np.linalg.norm(np.broadcast_to(vectors, (count, *vectors.shape[1:])), axis=2).max(axis=1))

    weight, total = mass[:, 0], float(times[-1])
    speed, reach = length(velocity), largest(np.linalg.norm(seen.bodies.origin, axis=2))
    reach = np.where(reach > 0.0, reach, 1.0)
    kinetic = largest(seen.sums.kinetic)
    rms, noise = np.sqrt(2.0 * weight * kinetic), ROUNDING * weight * (speed + reach)
    pushes = largest(seen.sums.linear_scale) + rms + length(impulse)
    drift = parts.sum(axis=2) - parts[:, :1].sum(axis=2) - work
    moved = rows[:, :, :3] - rows[:, :1, :3] + centre - centre[:, :1] - way
    gaps = {
        "linear": (length(mass[:, :, None] * (velocity - velocity[:, :1]) - impulse), noise, pushes),
        "angular": (
            length(angular - angular[:, :1] - twist),
            noise * reach,
            largest(seen.sums.angular_scale) + length(twist),
        ),
        "way": (
            length(moved),
            ROUNDING * (largest(rows[:, :, :3]) + speed * total),
            reach + pushes / weight * total,
        ),
        "energy": (
            largest(drift),
            noise * (rms + noise) / weight,
            np.abs(parts).max(axis=1).sum(axis=1) + largest(work),
        ),
    }
    found = np.isfinite(y).all(axis=(1, 2)) & (largest(rows[:, :, Layout(robot.n).joints]) <= LARGEST_ANGLE)
    for residual, rounding, scale in gaps.values():
        found &= residual - rounding <= tolerance * scale
    return np.asarray(found)
