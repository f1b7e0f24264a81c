"""Many complete ejections: configurations, and friction, damping, springs and inertias for each sample, over threads.

Each sample is the same event-driven run with exact stick-slip as :func:`spacearm.ejection.eject`, without ledger and
curves, at a tolerance that suits searches and statistics. Results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.ejection.clearance import KeepOut, Skeleton, clearance, skeleton
from spacearm.ejection.coast import coast
from spacearm.ejection.loop import Found, eject_many
from spacearm.ejection.parameters import Parameters, count_samples
from spacearm.ejection.rail import PATIENCE, base_on_rail
from spacearm.ejection.release import Release
from spacearm.ejection.rig import LIMIT_SLACK, Rig
from spacearm.ejection.tumble import mean_spin, moment_of_momentum
from spacearm.engine import mechanics_of
from spacearm.engine.phase import Stage, make_stage
from spacearm.engine.pieces import piece
from spacearm.engine.solver import Reason
from spacearm.engine.system import make_work
from spacearm.engine.warm import ensure_loops, say
from spacearm.errors import InputError
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Dopri853, Event, Phase
from spacearm.simulate.motion import WorldMotion, load_frames, robot_parameters, world_motion
from spacearm.simulate.prepare import Prepared, enter, prepare
from spacearm.simulate.threads import spread
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Local errors far below what friction and springs are known to.
METHOD = Dopri853(rtol=1e-8, atol=1e-10)
CHUNK = 256
MAX_EVENTS, MAX_STEPS = 500, 100_000


@dataclass(frozen=True, eq=False)
class Ejections:
    """Results of :func:`eject_batch`, samples along the first axis; NaN where a run failed."""

    joints: Array  # (B, n) configurations before, rad or m
    time: Array  # (B,) ejection time, s
    velocity: Array  # (B,) against the satellite along the rail, m/s
    variation: Array  # (B, n) at separation, rad or m
    final_variation: Array  # (B, n) at the end
    angular_velocity: Array  # (B, 3) mean of the stopped arm, rad/s, world axes: see spacearm.ejection.tumble
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
        return np.asarray(np.maximum(self.time, self.stop_times.max(axis=-1, initial=0.0)))

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Which samples left the rail and came to the end of the flight."""
        left = self.reason[:, 0] == Reason.TERMINAL_EVENT
        return np.asarray(left & (self.reason[:, 1] == Reason.FINISHED))

    @property
    def failures(self) -> dict[int, str]:
        """Index and reason of every sample that did not."""
        found = {}
        for i in np.flatnonzero(~self.sound):
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
    release: Release | None = None,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    flight: float = 10.0,
    method: Dopri853 | None = None,
    locked: Sequence[str] = (),
    keep_out: Sequence[KeepOut] = (),
    radii: Mapping[str, float] | float = 0.0,
    samples: int = 24,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Ejections:
    """Throw the arm off from every configuration.

    Args:
        joints: configurations (B, n) or, with overrides or a release for each sample, one configuration (n,).
        release: how the arm moves at the release, for all samples or for each; at rest where left out.
        overrides: numbers in place of the rig's own, for all samples or with a first axis of length B: ``static``,
            ``coulomb`` (friction, n joints), ``damping`` (n joints), ``inertia`` (n + 1 bodies, 10), ``spring``
            (factor on the force of all springs), and of equal springs ``stiffness`` (of all together, N/m) and
            ``compression`` (m).
        flight: length of each run after separation, s.
        keep_out: regions, fixed to the satellite, from which the clearance is told.
        samples: instants of the flight at which the clearance is looked at, besides start and separation.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    configurations = np.atleast_2d(np.ascontiguousarray(joints, dtype=np.float64))
    given = {name: np.asarray(value, dtype=np.float64) for name, value in (overrides or {}).items()}
    moving = release or Release()
    rates, spin = moving.checked(rig)
    started = {name: len(part) for name, part in (("rates", rates), ("spin", spin)) if part.ndim == 2}
    count = count_samples(rig, configurations, given, started)
    rig.check_configurations(configurations)
    configurations = np.ascontiguousarray(np.broadcast_to(configurations, (count, rig.arm.n)))
    if not (np.isfinite(flight) and flight > 0.0):
        raise InputError(f"flight lasts {flight} s", place="batch", hint="expected seconds above zero")
    if isinstance(samples, bool) or not isinstance(samples, Integral) or samples < 0:
        raise InputError(f"samples is {samples!r}", place="batch", hint="expected a whole number, 0 or more")
    solver = METHOD if method is None else method
    parameters = Parameters.of(rig, given)
    # Denser at first: joints move, and the arm is near.
    instants = flight * np.linspace(0.0, 1.0, samples + 1)[1:] ** 2 if keep_out else np.zeros(0)
    held = [rig.arm.joint_index(name) for name in locked]
    if np.any(rates[..., held] != 0.0):
        raise InputError(f"a joint of {list(locked)} is locked but moves", place="release", hint="expected rates of 0")
    plan = _Plan(rig, solver, flight, tuple(locked), parameters, moving.turning)
    start = moving.velocity(rig, configurations, parameters.mounted)
    start = np.ascontiguousarray(np.broadcast_to(start, (count, 7 + rig.arm.n)))
    found = _room(rig, count, plan, 0)
    near, spin = np.full(count, np.inf), np.full((count, 3), np.nan)
    stop = np.zeros(1, dtype=np.uint8)
    ensure_loops()
    bones = skeleton(rig.arm, radii) if keep_out else None
    direction = np.array(rig.device.direction)

    def work(first: int) -> int:
        last = min(first + CHUNK, count)
        rail, carry = plan.rail.stage(np.zeros(0)), plan.flight.stage(instants)
        part = _room(rig, last - first, plan, instants.size)
        rows = parameters.rows(first, last, plan.contacts)
        own, begin = configurations[first:last], start[first:last]
        done = int(
            eject_many(rail, carry, plan.rubbing, direction, own, begin, rows, plan.spring, 0, last - first, part, stop)
        )
        for name in ("separation", "end", "time", "reason", "stop", "hit", "events", "evaluations"):
            getattr(found, name)[first:last] = getattr(part, name)
        spin[first:last] = _spin(rig, part.end, parameters.bodies(first, last))
        if bones is not None:
            near[first:last] = _nearest(rig, own, part, instants, keep_out, bones)
        return done

    # Once on this thread, so that the loop is compiled (and this is announced) before threads want it.
    with announced_compilation("compiling the ejection loop (once on this machine) ..."):
        empty = _room(rig, 0, plan, instants.size)
        rows = parameters.rows(0, 0, plan.contacts)
        legs = plan.rail.stage(np.zeros(0)), plan.flight.stage(instants)
        eject_many(*legs, plan.rubbing, direction, configurations[:0], start[:0], rows, plan.spring, 0, 0, empty, stop)

    def compute() -> dict[str, Any]:
        spread(work, range(0, count, CHUNK), count, threads=threads, stop=stop, progress=progress)
        return vars(_result(rig, configurations, found, spin, near, plan))

    inputs = (rig, configurations, start, moving.turning, given, flight, solver, locked, keep_out, radii, samples)
    return Ejections(**piece("ejections", inputs, compute))


@contextmanager
def announced_compilation(text: str) -> Iterator[None]:
    """Says ``text`` on standard error when Numba really compiles something inside."""
    from numba.core import event

    class Listener(event.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            del event
            if not self.told:
                say(text)
            self.told = True

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield


# -- the stages --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Leg:
    """One phase, ready to be given memory."""

    model: WorldMotion
    prepared: Prepared
    solver: Dopri853
    parameters: Mapping[str, Array]

    def stage(self, instants: Array) -> Stage:
        code = self.model.code
        work = make_work(self.model.input([self.parameters]), self.model.kernel.n_out, code.ny)
        work.y[3] = 1.0
        system = enter(self.model, self.prepared, work, [self.parameters], 0.0)
        options = self.solver.options(np.full(code.ny, self.solver.tolerances[1]), MAX_STEPS, MAX_EVENTS)
        return make_stage(system, options, instants)


class _Plan:
    """Both phases of a rig in the loop's terms."""

    def __init__(
        self, rig: Rig, solver: Dopri853, flight: float, locked: tuple[str, ...], given: Parameters, turning: bool
    ) -> None:
        worlds = World.of(rig.mounted), World.of(rig.arm)
        mounted, arm = (world_motion(world, load_frames(world, ()), False) for world in worlds)
        # Contacts of all samples: where any has friction. The numbers are the sample's own.
        static, coulomb = given.static.max(axis=0), given.coulomb.max(axis=0)
        held = [rig.arm.joint_index(name) for name in locked]
        self.contacts = [i for i in range(rig.arm.n) if static[i] > 0.0 and i not in held]
        self.rubbing = 1 if given.rail_friction[0] > 0.0 else 0
        own, alone = robot_parameters(rig.mounted), robot_parameters(rig.arm)
        for name, values, slide in (
            ("static_friction", static, given.rail_friction[0]),
            ("coulomb_friction", coulomb, given.rail_friction[1]),
        ):
            own[name] = np.concatenate([np.zeros(6), [slide], values])
            alone[name] = np.concatenate([np.zeros(6), values])
        until = Event(rig.rail, rig.device.stroke, "rising")
        held_base, kept = base_on_rail(rig, turning)
        on_rail = Phase(
            PATIENCE * given.quarter,
            until=until,
            locked=(*held_base, *locked),
            accelerations=kept,
            name="on the rail",
        )
        inputs = mounted.kernel.inputs
        self.spring = np.array([inputs["stiffness"].start, inputs["rest"].start])  # of the rail, joint 0
        free = Phase(flight, locked=(*rig.out_of_plane, *locked), name="flight")
        self.rail = _Leg(mounted, prepare(mounted, worlds[0], on_rail, 0), solver, own)
        self.flight = _Leg(arm, prepare(arm, worlds[1], free, 1), solver, alone)


def _room(rig: Rig, count: int, plan: _Plan, instants: int) -> Found:
    n, nx = rig.arm.n, Layout(rig.arm.n).size
    return Found(
        np.full((count, nx + 2), np.nan),
        np.full((count, nx), np.nan),
        np.full(count, np.nan),
        np.full((count, 2), int(Reason.INTERRUPTED), dtype=np.int64),
        np.zeros((count, len(plan.contacts))),
        np.zeros((count, n), dtype=np.int8),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, instants, nx)),
    )


def _nearest(
    rig: Rig, joints: Array, part: Found, instants: Array, regions: Sequence[KeepOut], bones: Skeleton
) -> Array:
    """Least clearance (B,) over start, separation and the instants of the flight."""
    count, nx = part.end.shape
    before = np.zeros((count, nx))
    before[:, 3] = 1.0
    before[:, Layout(rig.arm.n).joints] = joints
    leaving, carrier = rig.split(part.separation)
    states = np.concatenate([before[:, None], leaving[:, None], part.samples], axis=1)
    satellite = None
    turning = bool(np.any(carrier[:, 10:13] != 0.0))
    if turning or not rig.device.heavy:
        still = np.zeros((count, 1, 13))
        still[..., 3] = 1.0
        moved = coast(rig, carrier, instants)
        satellite = np.concatenate([still, carrier[:, None], moved], axis=1).reshape(-1, 13)
    distance = clearance(rig.arm, states.reshape(-1, nx), regions, bones, satellite)
    nearest: Array = distance.reshape(count, -1).min(axis=1)
    return nearest


def _spin(rig: Rig, ends: Array, inertia: Array | None) -> Array:
    """Mean angular velocity (B, 3) from the last states (B, nx), world axes; NaN for a run that failed."""
    n = rig.arm.n
    spin = np.full((len(ends), 3), np.nan)
    good = np.isfinite(ends).all(axis=1)
    if not good.any():
        return spin
    ends = ends[good]
    own = inertia if inertia is None or len(inertia) == 1 else inertia[good]
    matrix = mechanics_of(rig.arm).mass_matrix(ends[:, Layout(n).joints], inertia=own)
    angular, tensor = moment_of_momentum(matrix, ends[:, Layout(n).velocity])
    spin[good] = np.einsum("bij,bj->bi", rotation_matrices(ends[:, QUATERNION]), mean_spin(rig, angular, tensor))
    return spin


def _result(rig: Rig, joints: Array, found: Found, spin: Array, near: Array, plan: _Plan) -> Ejections:
    n = rig.arm.n
    rail = Layout(n + 1)  # on the rail, which is joint 0
    bad = (found.reason[:, 0] != Reason.TERMINAL_EVENT) | (found.reason[:, 1] != Reason.FINISHED)
    for array in (found.separation, found.end, found.time):
        array[bad] = np.nan
    stops = np.zeros((len(joints), n))
    stops[:, plan.contacts] = found.stop
    stops[found.end[:, Layout(n).rates] != 0.0] = np.inf
    stops[bad] = np.nan
    near[bad] = spin[bad] = np.nan
    hits = found.hit.astype(bool)
    # A joint that stood at its limit and went beyond makes no crossing.
    for positions in (found.separation[:, rail.joints][:, 1:], found.end[:, Layout(n).joints]):
        hits |= (positions < rig.arm.lower_limits - LIMIT_SLACK) | (positions > rig.arm.upper_limits + LIMIT_SLACK)
    return Ejections(
        joints,
        found.time,
        found.separation[:, 14 + n].copy(),
        found.separation[:, rail.joints][:, 1:] - joints,
        found.end[:, Layout(n).joints] - joints,
        spin,
        stops,
        hits,
        near,
        found.separation[:, rail.base_velocity].copy(),
        found.reason,
        found.evaluations,
    )
