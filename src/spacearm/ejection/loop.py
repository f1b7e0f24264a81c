"""Complete ejections one after the other inside a compiled loop: rail, separation, flight. Knows offsets only."""

from __future__ import annotations

from typing import Any, NamedTuple

from spacearm.engine.friction import begin
from spacearm.engine.loops import compiled
from spacearm.engine.phase import Stage
from spacearm.engine.solver import restart, solve
from spacearm.typing import Array


class Table(NamedTuple):
    """Parameters of the samples: one row for each, or one row for all."""

    rail: Array  # the kernel's input from the inertias on, for the mounted arm
    flight: Array  # the same for the arm alone
    rail_static: Array  # friction of the contacts of each stage
    rail_coulomb: Array
    flight_static: Array
    flight_coulomb: Array
    pieces: Array  # (B or 1, P, 3): end of each piece of the springs' curve, m, its stiffness and rest; P 0: one spring


class Found(NamedTuple):
    """What is kept of each sample."""

    separation: Array  # (B, nx) state of the mounted arm as it leaves
    end: Array  # (B, nx) state of the arm at the end
    time: Array  # (B,) s on the rail
    reason: Any  # (B, 2) int64 of each phase
    stop: Array  # (B, contacts in flight) last time at which each stopped, s since the release; 0: never moved
    hit: Any  # (B, n) int8: 1 where a joint reached a limit
    events: Any  # (B,) int64
    evaluations: Any  # (B,) int64
    samples: Array  # (B, S, nx) states of the arm in flight at the sample times, the end state after the end


@compiled
def _load(stage: Stage, row: Array, static: Array, coulomb: Array) -> None:
    """Parameters of a sample into the kernel's input, and a clean record."""
    system = stage.system
    first = system.code.record
    for i in range(row.size):
        system.work.inp[first + i] = row[i]
    for i in range(static.size):
        system.friction.static[i] = static[i]
        system.friction.coulomb[i] = coulomb[i]
    for i in range(stage.record.counts.size):
        stage.record.counts[i] = 0
    system.work.count[0] = 0


@compiled
def _run(stage: Stage, stop: Any) -> int:
    """The phase from the state in its memory; why it ended."""
    begin(stage.system)
    restart(stage.options, stage.progress)
    return int(solve(stage.system, stage.options, stage.progress, stage.record, stage.audit, stop))


@compiled
def _separate(rail: Array, n: int, direction: Array, arm: Array) -> None:
    """State of the mounted arm (n + 1 joints, the rail first) as state of the arm alone: see ``Rig.split``."""
    w, x, y, z = rail[3], rail[4], rail[5], rail[6]
    q, at = rail[7], 8 + n
    speed = rail[at + 6]
    dx, dy, dz = direction[0] * q, direction[1] * q, direction[2] * q
    arm[0] = rail[0] + (1 - 2 * (y * y + z * z)) * dx + 2 * (x * y - w * z) * dy + 2 * (x * z + w * y) * dz
    arm[1] = rail[1] + 2 * (x * y + w * z) * dx + (1 - 2 * (x * x + z * z)) * dy + 2 * (y * z - w * x) * dz
    arm[2] = rail[2] + 2 * (x * z - w * y) * dx + 2 * (y * z + w * x) * dy + (1 - 2 * (x * x + y * y)) * dz
    for i in range(4):
        arm[3 + i] = rail[3 + i]
    for i in range(n):
        arm[7 + i] = rail[8 + i]
        arm[13 + n + i] = rail[at + 7 + i]
    wx, wy, wz = rail[at + 3], rail[at + 4], rail[at + 5]
    arm[7 + n] = rail[at] + wy * dz - wz * dy + direction[0] * speed
    arm[8 + n] = rail[at + 1] + wz * dx - wx * dz + direction[1] * speed
    arm[9 + n] = rail[at + 2] + wx * dy - wy * dx + direction[2] * speed
    for i in range(3):
        arm[10 + n + i] = rail[at + 3 + i]


@compiled
def _read(stage: Stage, first: int, shift: int, offset: float, found: Found, sample: int) -> None:
    """Stops and limits from the log. The arm's joints start at contact ``first``, joint ``shift`` of the stage."""
    rows = min(stage.record.counts[1], stage.record.log.shape[0])
    for row in range(rows):
        kind = int(stage.record.log[row, 1])
        number = int(stage.record.log[row, 2])
        if kind == 1:
            for i in range(first, stage.system.friction.dof.size):
                if stage.system.friction.dof[i] == number:
                    found.stop[sample, i - first] = offset + stage.record.log[row, 0]
        elif kind == 4:
            joint = stage.system.events.component[number] - 7 - shift
            if joint >= 0:
                found.hit[sample, joint] = 1
    found.events[sample] += stage.record.counts[1]


@compiled
def eject_many(
    rail: Stage,
    flight: Stage,
    rail_contacts: int,
    direction: Array,
    joints: Array,
    start: Array,
    table: Table,
    spring: Any,
    first: int,
    last: int,
    found: Found,
    stop: Any,
) -> int:
    """Samples ``first`` to ``last`` of configurations ``joints`` (B, n) with velocities ``start`` (B, 7 + n); how many.

    ``spring``: places of the rail's stiffness and rest in the kernel's input. ``rail_contacts``: 1 where the rail has
    dry friction, so that the joints' contacts come after it.
    """
    n = joints.shape[1]
    for b in range(first, last):
        if stop[0] != 0:
            return b - first
        one = b if table.rail.shape[0] > 1 else 0
        _load(
            rail,
            table.rail[one],
            table.rail_static[b if table.rail_static.shape[0] > 1 else 0],
            table.rail_coulomb[b if table.rail_coulomb.shape[0] > 1 else 0],
        )
        y = rail.system.work.y
        for i in range(rail.system.code.ny):
            y[i] = 0.0
        y[3] = 1.0
        for i in range(n):
            y[8 + i] = joints[b, i]
        for i in range(7 + n):
            y[8 + n + i] = start[b, i]
        curve = table.pieces[b if table.pieces.shape[0] > 1 else 0]
        time, code = 0.0, 1
        for piece in range(max(curve.shape[0], 1)):
            if curve.shape[0] > 0:
                rail.system.events.value[0] = curve[piece, 0]
                rail.system.work.inp[spring[0]] = curve[piece, 1]
                rail.system.work.inp[spring[1]] = curve[piece, 2]
                rail.record.counts[1] = 0
            code = _run(rail, stop)
            _read(rail, rail_contacts, 1, time, found, b)
            time += rail.progress.now[0]
            if code != 1:
                break
        found.evaluations[b] += rail.system.work.count[0]
        for i in range(rail.system.code.nx):
            found.separation[b, i] = y[i]
        found.time[b] = time
        found.reason[b, 0] = code
        if code != 1:
            found.reason[b, 1] = -1
            continue
        one = b if table.flight.shape[0] > 1 else 0
        _load(
            flight,
            table.flight[one],
            table.flight_static[b if table.flight_static.shape[0] > 1 else 0],
            table.flight_coulomb[b if table.flight_coulomb.shape[0] > 1 else 0],
        )
        _separate(y, n, direction, flight.system.work.y)
        code = _run(flight, stop)
        found.reason[b, 1] = code
        nx = flight.system.code.nx
        for i in range(nx):
            found.end[b, i] = flight.system.work.y[i]
        for s in range(found.samples.shape[1]):
            kept = s < flight.record.counts[0]
            for i in range(nx):
                found.samples[b, s, i] = flight.record.y[s, i] if kept else flight.system.work.y[i]
        _read(flight, 0, 0, time, found, b)
        found.evaluations[b] += flight.system.work.count[0]
    return last - first
