"""The arm on its rail: one run for each piece of the springs' force curve, joined; and what the rail has to carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from spacearm.ejection.device import Piece
from spacearm.ejection.release import Release
from spacearm.ejection.rig import Rig
from spacearm.engine import mechanics_of
from spacearm.errors import SimulationError
from spacearm.model.layout import Layout
from spacearm.model.robot import BASE_DOFS
from spacearm.result import Certificate
from spacearm.simulate import Dopri853, Event, Phase, Run, State, Track, simulate
from spacearm.simulate.bodies import elastic_energy
from spacearm.simulate.ledger import Ledger
from spacearm.simulate.motion import robot_parameters
from spacearm.typing import Array

#: The arm must have left the rail within so many quarter periods of the whole arm as one mass.
PATIENCE = 20.0


@dataclass(frozen=True, eq=False)
class Stretch:
    """The rail, or a piece of it: the run, and what it was told beyond the robot."""

    run: Run
    start: State
    overrides: dict[str, Array]
    forces: dict[str, float]
    accelerations: dict[str, float]
    locked: tuple[str, ...]


def spring_of(rig: Rig, piece: Piece) -> tuple[dict[str, Array], dict[str, float]]:
    """Overrides and forces with which the mounted robot has the springs' force of a piece."""
    if rig.device.linear:
        return {}, {}
    own = robot_parameters(rig.mounted)
    stiffness, rest = own["stiffness"].copy(), own["rest"].copy()
    stiffness[0], rest[0] = (0.0, 0.0) if piece.constant else piece.spring
    return {"stiffness": stiffness, "rest": rest}, {rig.rail: piece.force} if piece.constant else {}


def base_on_rail(rig: Rig, turning: bool) -> tuple[tuple[str, ...], dict[str, float]]:
    """Freedoms of the satellite that are locked, and those that are kept at their velocity, on the rail."""
    if rig.device.heavy and turning:
        return (), dict.fromkeys(BASE_DOFS, 0.0)
    return rig.locked_on_rail, {}


def slide(
    rig: Rig, joints: Array, release: Release, solver: Dopri853, friction: bool, limits: Any, locked: Sequence[str]
) -> tuple[Stretch, ...]:
    """The arm from its release to the end of the rail."""
    quarter = rig.device.quarter_period(rig.arm.mass)
    held, kept = base_on_rail(rig, release.turning)
    state, found, time = release.start(rig, joints), [], 0.0
    for piece in rig.device.pieces:
        overrides, forces = spring_of(rig, piece)
        phase = Phase(
            PATIENCE * quarter,
            until=Event(rig.rail, piece.end, "rising"),
            locked=(*held, *locked),
            accelerations=kept,
            forces=forces,
            friction=friction,
            limits=limits,
            name="on the rail",
        )
        run = simulate(rig.mounted, state, phase, method=solver, sample=quarter / 400.0, overrides=overrides)
        found.append(Stretch(run, state, overrides, forces, kept, (*held, *locked)))
        time += run.end_time
        left = run.end is not None and any(e.kind == "event" and e.name == rig.rail for e in run.events)
        if not left or run.end is None:
            raise SimulationError(
                f"the arm does not leave the rail: {run.reason.text} at t = {time:.6g} s",
                place="ejection",
                hint="a joint limit that ends the run, or friction of the rail, stops it",
            )
        state = run.end
    return tuple(found)


def joined(rig: Rig, stretches: Sequence[Stretch]) -> Run:
    """The pieces as one run; its elastic energy is that which the springs still give off along the rail."""
    first = stretches[0].run
    if rig.device.linear:
        return first
    runs = [stretch.run for stretch in stretches]
    offsets = np.cumsum([0.0, *(run.end_time for run in runs)])
    kept = [slice(0 if k == 0 else 1, None) for k in range(len(runs))]
    nx = first.model.nx
    integrated, before = [], np.zeros(first.integrated.shape[1] - nx)
    for run, rows in zip(runs, kept, strict=True):
        part = run.integrated[rows].copy()
        part[:, nx:] += before
        before = run.integrated[-1, nx:] + before
        integrated.append(part)
    whole = np.concatenate(integrated)
    ledger = _ledger(rig, stretches, kept, whole[:, :nx])
    at = [replace(event, time=event.time + t) for run, t in zip(runs, offsets, strict=False) for event in run.events]
    inner = [event for event in at if event.kind != "event" or event.name != rig.rail or event.time == offsets[-1]]
    return replace(
        runs[-1],
        end_time=float(offsets[-1]),
        events=tuple(inner),
        stats=type(first.stats)(*(sum(values) for values in zip(*(_values(run.stats) for run in runs), strict=True))),
        certificate=Certificate.worst({f"stretch {k + 1}": run.certificate or {} for k, run in enumerate(runs)}),
        phase_starts=(0.0,),
        tracks=(_track(runs, kept, offsets, whole, ledger),),
        ledger=ledger,
    )


def _track(runs: Sequence[Run], kept: Sequence[slice], offsets: Array, whole: Array, ledger: Ledger) -> Track:
    return replace(
        runs[-1].track,
        times=np.concatenate([run.times[r] + t for run, r, t in zip(runs, kept, offsets, strict=False)]),
        integrated=whole,
        inputs=np.concatenate([run.inputs[r] for run, r in zip(runs, kept, strict=True)]),
        outputs=np.concatenate([run.outputs[r] for run, r in zip(runs, kept, strict=True)]),
        stuck=np.concatenate([run.stuck[r] for run, r in zip(runs, kept, strict=True)]),
        ledger=ledger,
    )


def _values(part: Any) -> list[Any]:
    return [getattr(part, each.name) for each in fields(part)]


def _ledger(rig: Rig, stretches: Sequence[Stretch], kept: Sequence[slice], states: Array) -> Ledger:
    """Energies of all pieces; what the springs give is elastic, also where it was a constant force."""
    own = robot_parameters(rig.mounted)
    rest = own["stiffness"].copy()
    rest[0] = 0.0  # the rail's springs are added as they are
    elastic = elastic_energy(rig.mounted, states, rest, own["rest"], own["coupling"])
    parts: dict[str, list[Array]] = {each.name: [] for each in fields(Ledger) if each.name not in ("lost", "entries")}
    before = dict.fromkeys(("damping", "coupling", "friction", "drive", "load"), 0.0)
    for stretch, rows in zip(stretches, kept, strict=True):
        ledger = stretch.run.ledger
        assert ledger is not None
        pushed = stretch.forces.get(rig.rail, 0.0) * (stretch.run.states[:, 7] - stretch.run.states[0, 7])
        for name, since in before.items():
            values = getattr(ledger, name) - (pushed if name == "drive" else 0.0) + since
            parts[name].append(values[rows])
            before[name] = float(values[-1])
        parts["kinetic"].append(ledger.kinetic[rows])
    joint: dict[str, Any] = {name: np.concatenate(values) for name, values in parts.items() if name != "elastic"}
    return Ledger(elastic=elastic + rig.device.stored(states[:, 7]), lost=np.zeros(len(states)), **joint)


def rail_loads(rig: Rig, run: Run) -> tuple[Array, Array]:
    """Force across the rail (T, 3) and moment (T, 3) about the arm's base, base axes: what the rail exerts on the arm.

    The whole wrench on the arm's base, by inverse dynamics of the arm alone, without what springs and friction give
    along the rail.
    """
    n, direction = rig.arm.n, rig.device.direction
    arm, _ = rig.split(run.states)
    change = run.outputs[:, run.model.nx - run.robot.dofs : run.model.nx]
    velocity = run.states[:, Layout(n + 1).velocity]
    travel, speed = run.states[:, 7:8] * direction, velocity[:, 6:7] * direction
    linear = change[:, :3] + np.cross(change[:, 3:6], travel) + np.cross(velocity[:, 3:6], speed)
    linear = linear + change[:, 6:7] * direction
    acceleration = np.concatenate([linear, change[:, 3:6], change[:, 7:]], axis=1)
    wrench = mechanics_of(rig.arm).inverse_dynamics(arm[:, Layout(n).joints], arm[:, Layout(n).velocity], acceleration)[
        :, :6
    ]
    force = wrench[:, :3] - (wrench[:, :3] @ direction)[:, None] * direction
    return force, wrench[:, 3:] - rig.device.moment(run.states[:, 7])
