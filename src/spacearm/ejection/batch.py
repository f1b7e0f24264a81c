"""Many complete ejections: attitudes, and friction, damping, springs and inertias for each sample, over threads.

Each sample is the same event-driven run with exact stick-slip as :func:`spacearm.ejection.eject`, without ledger and
curves, at a tolerance that suits searches and statistics. Results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.ejection.clearance import KeepOut, clearance, skeleton
from spacearm.ejection.coast import coast
from spacearm.ejection.loop import Found, Stage, Table, eject_many
from spacearm.ejection.mass import mounted_inertia
from spacearm.ejection.rig import LIMIT_SLACK, RAIL, Rig
from spacearm.ejection.run import PATIENCE
from spacearm.engine.batch import default_threads
from spacearm.engine.phase import make_audit, make_record
from spacearm.engine.plant import make_work
from spacearm.engine.run import Reason
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, did_you_mean
from spacearm.model.parts import Array
from spacearm.simulate import Adaptive, Crossing, Phase
from spacearm.simulate.motion import Motion, Prepared, enter, motion, prepare
from spacearm.simulate.state import rotation_of

#: Local errors far below what friction and springs are known to.
METHOD = Adaptive(rtol=1e-8, atol=1e-10)
CHUNK = 256
MAX_EVENTS, MAX_STEPS = 500, 100_000
#: What a sample may have of its own, with its shape: n joints, b bodies of the arm.
OVERRIDES = ("static", "coulomb", "damping", "inertia", "stiffness", "compression")


@dataclass(frozen=True, eq=False)
class Ejections:
    """Results of :func:`eject_batch`, samples along the first axis; NaN where a run failed."""

    joints: Array  # (B, n) attitudes before, rad or m
    time: Array  # (B,) ejection time, s
    velocity: Array  # (B,) against the satellite along the rail, m/s
    variation: Array  # (B, n) at separation, rad or m
    final_variation: Array  # (B, n) at the end
    angular_velocity: Array  # (B, 3) at the end, rad/s, world axes
    stop_times: Array  # (B, n) s; 0 never moved, infinity still moves
    hits: npt.NDArray[np.bool_]  # (B, n) joint reached a limit
    clearance: Array  # (B,) least signed distance of any body, m; infinite without keep-out regions
    recoil: Array  # (B, 6) twist of the satellite at separation, its own axes
    reason: npt.NDArray[np.int64]  # (B, 2) of rail and flight, see Reason
    evaluations: npt.NDArray[np.int64]  # (B,)

    @property
    def tumbling(self) -> Array:
        """Size of the ejection angular velocity (B,), rad/s."""
        size: Array = np.linalg.norm(self.angular_velocity, axis=-1)
        return size

    @property
    def stable_time(self) -> Array:
        """When the last joint stopped (B,), s."""
        return np.maximum(self.time, self.stop_times.max(axis=-1, initial=0.0))

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Which samples left the rail and came to the end of the flight."""
        left = self.reason[:, 0] == Reason.TERMINAL_EVENT
        return left & (self.reason[:, 1] == Reason.FINISHED)

    @property
    def failures(self) -> dict[int, str]:
        """Index and reason of every sample that did not."""
        found = {}
        for i in np.flatnonzero(~self.ok):
            first, second = (int(code) for code in self.reason[i])
            if first == Reason.FINISHED:
                found[int(i)] = "the arm does not leave the rail"
            else:
                found[int(i)] = Reason(first if first != Reason.TERMINAL_EVENT else second).text
        return found


def eject_batch(
    rig: Rig,
    joints: npt.ArrayLike,
    *,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    flight: float = 10.0,
    method: Adaptive | None = None,
    locked: Sequence[str] = (),
    keep_out: Sequence[KeepOut] = (),
    radii: Mapping[str, float] | float = 0.0,
    samples: int = 24,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ejections:
    """Throw the arm off from every attitude.

    Args:
        joints: attitudes (B, n) or, with overrides for each sample, one attitude (n,).
        overrides: numbers in place of the rig's own, for all samples or with a first axis of length B: ``static``,
            ``coulomb`` (friction, n joints), ``damping`` (n joints), ``inertia`` (n + 1 bodies, 10), ``stiffness`` (all
            springs together, N/m), ``compression`` (m).
        flight: length of each run after separation, s.
        keep_out: regions, fixed to the satellite, from which the clearance is told.
        samples: instants of the flight at which the clearance is looked at, besides start and separation.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    attitudes = np.atleast_2d(np.ascontiguousarray(joints, dtype=np.float64))
    given = {name: np.asarray(value, dtype=np.float64) for name, value in (overrides or {}).items()}
    count = _count(rig, attitudes, given)
    rig.check_attitudes(attitudes)
    attitudes = np.ascontiguousarray(np.broadcast_to(attitudes, (count, rig.arm.n)))
    solver = METHOD if method is None else method
    table = _table(rig, given)
    # Denser at first: joints move, and the arm is near.
    instants = flight * np.linspace(0.0, 1.0, samples + 1)[1:] ** 2 if keep_out else np.zeros(0)
    plan = _Plan(rig, solver, flight, tuple(locked), table)
    found = _room(rig, count, plan, 0)
    near = np.full(count, np.inf)
    stop = np.zeros(1, dtype=np.uint8)
    ensure_loops()
    bones = skeleton(rig.arm, radii) if keep_out else None
    direction = np.array(rig.device.direction)

    def work(first: int) -> int:
        last = min(first + CHUNK, count)
        rail, carry = plan.rail.stage(np.zeros(0)), plan.flight.stage(instants)
        part = _room(rig, last - first, plan, instants.size)
        rows = table.part(first, last)
        own = attitudes[first:last]
        done = int(eject_many(rail, carry, plan.rubbing, direction, own, rows, 0, last - first, part, stop))
        for name in ("separation", "end", "time", "reason", "stop", "hit", "events", "evaluations"):
            getattr(found, name)[first:last] = getattr(part, name)
        if bones is not None:
            near[first:last] = _nearest(rig, own, part, instants, keep_out, bones)
        return done

    _spread(work, range(0, count, CHUNK), count, threads or default_threads(), stop, progress)
    return _result(rig, attitudes, found, near, plan)


def _spread(
    work: Callable[[int], int],
    firsts: Sequence[int],
    total: int,
    threads: int,
    stop: npt.NDArray[np.uint8],
    progress: Callable[[int, int], None] | None,
) -> None:
    """All chunks over threads; an error or Ctrl-C stops the others."""
    done = 0
    if not firsts:
        return
    with ThreadPoolExecutor(max(1, min(threads, len(firsts)))) as pool:
        waiting = {pool.submit(work, first) for first in firsts}
        try:
            while waiting:
                ready, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                for future in ready:
                    done += future.result()
                if ready and progress is not None:
                    progress(done, total)
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=True, cancel_futures=True)
            raise


# -- parameters --------------------------------------------------------------------------------------------------


def _shapes(rig: Rig) -> dict[str, tuple[int, ...]]:
    n = rig.arm.n
    joints = dict.fromkeys(("static", "coulomb", "damping"), (n,))
    return {**joints, "inertia": (n + 1, 10), "stiffness": (), "compression": ()}


def _count(rig: Rig, attitudes: Array, given: Mapping[str, Array]) -> int:
    """How many samples the attitudes and the overrides make together."""
    shapes = _shapes(rig)
    sizes = {"attitudes": len(attitudes)}
    if attitudes.ndim != 2:
        raise InputError(f"attitudes have shape {attitudes.shape}", place="batch", hint=f"expected (B, {rig.arm.n})")
    for name, value in given.items():
        if name not in shapes:
            raise InputError(f"there is no parameter {name!r}", place="overrides", hint=did_you_mean(name, shapes))
        shape = shapes[name]
        if value.shape[value.ndim - len(shape) :] != shape or value.ndim > len(shape) + 1:
            raise InputError(f"{name!r} has shape {value.shape}", place="overrides", hint=f"expected (B, *{shape})")
        if not np.all(np.isfinite(value)):
            raise InputError(f"{name!r} holds numbers that are not finite", place="overrides")
        if value.ndim > len(shape):
            sizes[name] = len(value)
    count = max(sizes.values()) if 0 not in sizes.values() else 0
    for name, size in sizes.items():
        if size not in (1, count):
            raise InputError(f"{name!r} has {size} samples, others have {count}", place="batch")
    return count


@dataclass(frozen=True, eq=False)
class _Rows:
    """Parameters of all samples in the loop's order."""

    values: Table

    def part(self, first: int, last: int) -> Table:
        return Table(*(np.ascontiguousarray(a if len(a) == 1 else a[first:last]) for a in self.values))


def _table(rig: Rig, given: Mapping[str, Array]) -> _Rows:
    n, device = rig.arm.n, rig.device
    mounted, arm = motion(rig.mounted, (), False), motion(rig.arm, (), False)
    rows = {name: np.atleast_2d(value.reshape(*value.shape[:-2], -1)) if name == "inertia" else value for name, value in given.items()}
    for name in ("stiffness", "compression"):
        if name in rows:
            rows[name] = rows[name].reshape(-1, 1)
    rail: dict[str, Array] = {}
    free: dict[str, Array] = {}
    if "inertia" in rows:
        free["inertia"], rail["inertia"] = rows["inertia"], mounted_inertia(rig, rows["inertia"])
    own, alone = mounted.parameters(), arm.parameters()
    if "damping" in rows:
        damping = np.atleast_2d(rows["damping"])
        if np.any(damping < 0.0):
            raise InputError("damping is negative", place="overrides")
        free["damping"] = np.concatenate([np.zeros((len(damping), 6)), damping], axis=1)
        rail["damping"] = np.concatenate([np.zeros((len(damping), 6)), np.full((len(damping), 1), device.damping), damping], axis=1)
    for name, key in (("stiffness", "stiffness"), ("compression", "rest")):
        if name in rows:
            if np.any(rows[name] <= 0.0) or (name == "compression" and np.any(rows[name] < device.stroke)):
                raise InputError(
                    f"{name} is {rows[name].min():g}", place="overrides", hint="expected above zero, at least the stroke"
                )
            rail[key] = np.repeat(own[key][None], len(rows[name]), axis=0)
            rail[key][:, :1] = rows[name]
    static, coulomb = (
        np.atleast_2d(rows.get(name, alone[key][6:]))
        for name, key in (("static", "static_friction"), ("coulomb", "coulomb_friction"))
    )
    if np.any(coulomb < 0.0) or np.any(static < coulomb):
        raise InputError(
            "static friction is below Coulomb friction, or one is negative",
            place="overrides",
            hint="expected static >= coulomb >= 0",
        )
    grip = device.friction
    extra = (np.full((1, 1), 0.0 if grip is None else grip.static), np.full((1, 1), 0.0 if grip is None else grip.coulomb))
    whole = [np.concatenate([np.repeat(e, len(a), axis=0), a], axis=1) for e, a in zip(extra, (static, coulomb), strict=True)]
    del n
    return _Rows(Table(_tail(mounted, own, rail), _tail(arm, alone, free), whole[0], whole[1], static, coulomb))


def _tail(model: Motion, own: Mapping[str, Array], changes: Mapping[str, Array]) -> Array:
    """The kernel's input from the inertias on: one row, or one for each sample."""
    first, inputs = model.plant.record, model.kernel.inputs
    count = max((len(value) for value in changes.values()), default=1)
    tail = np.zeros((count, model.kernel.n_in - first))
    for name, place in inputs.items():
        if place.start >= first and place.stop > place.start:
            tail[:, place.start - first : place.stop - first] = changes.get(name, own[name])
    return tail


# -- the stages --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Leg:
    """One phase, ready to be given memory."""

    model: Motion
    prepared: Prepared
    solver: Adaptive
    parameters: Mapping[str, Array]

    def stage(self, instants: Array) -> Stage:
        plant = self.model.plant
        work = make_work(self.model.input(self.parameters), self.model.kernel.n_out, plant.ny)
        work.y[3] = 1.0
        contact, events = enter(self.model, self.prepared, work.y, work.inp, self.parameters, 0.0)
        record = make_record(instants, plant, self.model.kernel.n_out, full=False, max_events=MAX_EVENTS + 100)
        options = self.solver.options(MAX_STEPS, MAX_EVENTS)
        _, atol = self.solver.tolerances
        scale = np.full(plant.ny, atol)
        return Stage(plant, self.prepared.signals, contact, events, options, scale, work, record, make_audit(plant))


class _Plan:
    """Both phases of a rig in the loop's terms."""

    def __init__(self, rig: Rig, solver: Adaptive, flight: float, locked: tuple[str, ...], rows: _Rows) -> None:
        table = rows.values
        mounted, arm = motion(rig.mounted, (), False), motion(rig.arm, (), False)
        # Contacts of all samples: where any has friction. The numbers are the sample's own.
        static, coulomb = table.flight_static.max(axis=0), table.flight_coulomb.max(axis=0)
        held = [rig.arm.joint_index(name) for name in locked]
        self.rubbing = 0 if rig.device.friction is None else 1
        self.contacts = np.array([i for i in range(rig.arm.n) if static[i] > 0.0 and i not in held], dtype=np.int64)
        grip = rig.device.friction
        first = np.array([0.0 if grip is None else grip.static]), np.array([0.0 if grip is None else grip.coulomb])
        base = np.zeros(6)
        own, alone = dict(mounted.parameters()), dict(arm.parameters())
        own |= {
            "static_friction": np.concatenate([base, first[0], static]),
            "coulomb_friction": np.concatenate([base, first[1], coulomb]),
        }
        alone |= {
            "static_friction": np.concatenate([base, static]),
            "coulomb_friction": np.concatenate([base, coulomb]),
        }
        patience = PATIENCE * rig.device.quarter_period(rig.arm.mass)
        until = Crossing(RAIL, rig.device.stroke, "rising")
        on_rail = Phase(patience, until=until, locked=(*rig.locked_on_rail, *locked), name="on the rail")
        free = Phase(flight, locked=(*rig.out_of_plane, *locked), name="flight")
        self.rail = _Leg(mounted, prepare(mounted, on_rail, 0), solver, own)
        self.flight = _Leg(arm, prepare(arm, free, 1), solver, alone)
        kept = list(self.contacts)
        both = [*range(self.rubbing), *(1 + i for i in kept)]
        values = table._replace(
            rail_static=table.rail_static[:, both] if self.rubbing else table.rail_static[:, [1 + i for i in kept]],
            rail_coulomb=table.rail_coulomb[:, both] if self.rubbing else table.rail_coulomb[:, [1 + i for i in kept]],
            flight_static=table.flight_static[:, kept],
            flight_coulomb=table.flight_coulomb[:, kept],
        )
        object.__setattr__(rows, "values", values)


def _room(rig: Rig, count: int, plan: _Plan, instants: int) -> Found:
    n, nx = rig.arm.n, 13 + 2 * rig.arm.n
    return Found(
        np.full((count, nx + 2), np.nan),
        np.full((count, nx), np.nan),
        np.full(count, np.nan),
        np.full((count, 2), int(Reason.INTERRUPTED), dtype=np.int64),
        np.zeros((count, plan.contacts.size)),
        np.zeros((count, n), dtype=np.int8),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, instants, nx)),
    )


def _nearest(rig: Rig, joints: Array, part: Found, instants: Array, regions: Sequence[KeepOut], bones: object) -> Array:
    """Least clearance (B,) over start, separation and the instants of the flight."""
    count, nx = part.end.shape
    before = np.zeros((count, nx))
    before[:, 3] = 1.0
    before[:, 7 : 7 + rig.arm.n] = joints
    leaving, carrier = rig.split(part.separation)
    states = np.concatenate([before[:, None], leaving[:, None], part.samples], axis=1)
    satellite = None
    if not rig.device.heavy:
        still = np.zeros((count, 1, 13))
        still[..., 3] = 1.0
        moved = coast(rig, carrier, instants)
        satellite = np.concatenate([still, carrier[:, None], moved], axis=1).reshape(-1, 13)
    distance = clearance(rig.arm, states.reshape(-1, nx), regions, bones, satellite)  # type: ignore[arg-type]
    nearest: Array = distance.reshape(count, -1).min(axis=1)
    return nearest


def _result(rig: Rig, joints: Array, found: Found, near: Array, plan: _Plan) -> Ejections:
    n = rig.arm.n
    bad = (found.reason[:, 0] != Reason.TERMINAL_EVENT) | (found.reason[:, 1] != Reason.FINISHED)
    for array in (found.separation, found.end, found.time):
        array[bad] = np.nan
    stops = np.zeros((len(joints), n))
    stops[:, plan.contacts] = found.stop
    stops[found.end[:, 13 + n :] != 0.0] = np.inf
    stops[bad] = np.nan
    near[bad] = np.nan
    spin = np.einsum("bij,bj->bi", rotation_of(found.end[:, 3:7]), found.end[:, 10 + n : 13 + n])
    hits = found.hit.astype(bool)
    # A joint that stood at its limit and went beyond makes no crossing.
    for positions in (found.separation[:, 8 : 8 + n], found.end[:, 7 : 7 + n]):
        hits |= (positions < rig.arm.lower_limits - LIMIT_SLACK) | (positions > rig.arm.upper_limits + LIMIT_SLACK)
    return Ejections(
        joints,
        found.time,
        found.separation[:, 14 + n].copy(),
        found.separation[:, 8 : 8 + n] - joints,
        found.end[:, 7 : 7 + n] - joints,
        spin,
        stops,
        hits,
        near,
        found.separation[:, 8 + n : 14 + n].copy(),
        found.reason,
        found.evaluations,
    )
