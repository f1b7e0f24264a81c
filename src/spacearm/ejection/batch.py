"""Many complete ejections: configurations, and friction, damping, springs and inertias per sample, multithreaded.

Each sample is the same event-driven run with exact stick-slip as :func:`spacearm.ejection.eject`, without ledger and
curves, at a tolerance that suits searches and statistics. Results do not depend on the number of threads.

Samples go through each phase in one compiled loop (:mod:`spacearm.simulate.ensemble.phase_batch`): the rail, a phase
for each segment of the springs' force curve, then the flight. Between the two states are mapped for all samples at
once, as the separation maps one. A sample that does not reach the end of a phase keeps its reason and is left alone
from there on; its results are NaN. Satellites coast in fixed steps, vectorised, since nothing acts on them. Samples
along the first axis, world axes, SI units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection._parameters import EjectionParameters, count_samples
from spacearm.ejection.clearance import KeepOut, Skeleton, clearance, skeleton
from spacearm.ejection.rail import base_on_rail, phase_on_rail
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import LIMIT_SLACK, Rig
from spacearm.ejection.tumble import mean_angular_velocity, moment_of_momentum
from spacearm.engine import mechanics_of
from spacearm.engine.checkpoints import checkpoint
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols
from spacearm.engine.phase import SampleEnds
from spacearm.engine.schedule import Schedule
from spacearm.engine.solver import EndReason
from spacearm.engine.threads import run_chunks
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.mechanics.motion import motion_program
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Dopri853, Phase, collision_pairs
from spacearm.simulate.ensemble.phase_batch import PhaseBatch
from spacearm.typing import Array

#: Local errors far below the uncertainty of friction and springs.
METHOD = Dopri853(rtol=1e-8, atol=1e-10)
CHUNK = 256
#: Largest rotation of a coasting satellite in one step, rad: fourth order, so errors stay below 1e-8 rad per
#: revolution.
LONGEST_ROTATION = 0.02


@dataclass(frozen=True, eq=False)
class Ejections:
    """Results of :func:`eject_batch`, samples along the first axis; NaN for a failed run."""

    joints: Array  # (B, n) configurations before, rad or m
    time: Array  # (B,) ejection time, s
    velocity: Array  # (B,) relative to the satellite along the rail, m/s
    variation: Array  # (B, n) at separation, rad or m
    final_variation: Array  # (B, n) at the end
    angular_velocity: Array  # (B, 3) mean of the stopped arm, rad/s, world axes: see spacearm.ejection.tumble
    stop_times: Array  # (B, n) s; 0 never moved, infinity still moves
    hits: npt.NDArray[np.bool_]  # (B, n) joint reached a limit
    clearance: Array  # (B,) smallest signed distance of any body, m; infinite without keep-out regions
    recoil: Array  # (B, 6) twist of the satellite at separation, its own axes
    reason: npt.NDArray[np.int64]  # (B, 2) of rail and flight, see Reason
    evaluations: npt.NDArray[np.int64]  # (B,)

    @property
    def tumble_rate(self) -> Array:
        """Magnitude of the ejection angular velocity (B,), rad/s."""
        size: Array = np.linalg.norm(self.angular_velocity, axis=-1)
        return size

    @property
    def stable_time(self) -> Array:
        """Time at which the last joint stopped (B,), s."""
        return np.asarray(np.maximum(self.time, self.stop_times.max(axis=-1, initial=0.0)))

    @property
    def sound(self) -> npt.NDArray[np.bool_]:
        """Samples that left the rail and reached the end of the flight."""
        left = self.reason[:, 0] == EndReason.TERMINAL_EVENT
        return np.asarray(left & (self.reason[:, 1] == EndReason.FINISHED))

    @property
    def failures(self) -> dict[int, str]:
        """Index and reason of every sample that did not."""
        found = {}
        for i in np.flatnonzero(~self.sound):
            first, second = (int(code) for code in self.reason[i])
            if first == EndReason.FINISHED:
                found[int(i)] = "the arm does not leave the rail"
            else:
                found[int(i)] = EndReason(first if first != EndReason.TERMINAL_EVENT else second).text
        return found


def eject_batch(
    rig: Rig,
    joints: npt.ArrayLike,
    *,
    release: ReleaseState | None = None,
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
    """Eject the arm from every configuration.

    Args:
        joints: configurations (B, n) or, with overrides or a release for each sample, one configuration (n,).
        release: motion of the arm at the release, for all samples or for each; at rest if omitted.
        overrides: values that replace the rig's own, for all samples or with a first axis of length B: ``static``,
            ``coulomb`` (friction, n joints), ``damping`` (n joints), ``inertia`` (n + 1 bodies, 10), ``spring`` (factor
            on the force of all springs), and of equal springs ``stiffness`` (of all together, N/m) and ``compression``
            (m).
        flight: length of each run after separation, s.
        keep_out: regions, fixed to the satellite, from which the clearance is reported; it includes clearances between
            collision shapes of the arm.
        samples: instants of the flight at which the clearance is evaluated, besides start and separation.
        progress: called with (done, total) from the calling thread. Ctrl-C stops all threads soon.
    """
    configurations = np.atleast_2d(np.ascontiguousarray(joints, dtype=np.float64))
    given = {name: np.asarray(value, dtype=np.float64) for name, value in (overrides or {}).items()}
    moving = release or ReleaseState()
    rates, angular_rate = moving.check_rates(rig)
    started = {name: len(part) for name, part in (("rates", rates), ("spin", angular_rate)) if part.ndim == 2}
    count = count_samples(rig, configurations, given, started)
    rig.check_configurations(configurations)
    configurations = np.ascontiguousarray(np.broadcast_to(configurations, (count, rig.arm.n)))
    checks.positive(flight, "flight", unit="s", place="batch")
    checks.integer(samples, "samples", least=0, place="batch")
    solver = METHOD if method is None else method
    parameters = EjectionParameters.from_overrides(rig, given)
    # Denser at first, while joints move and the arm is close.
    near = bool(keep_out) or bool(collision_pairs(rig.arm))
    # Quadratic: half of the instants lie in the first quarter of the flight.
    instants = flight * np.linspace(0.0, 1.0, samples + 1)[1:] ** 2 if near else np.zeros(0)
    held = [rig.arm.joint_index(name) for name in locked]
    if np.any(rates[..., held] != 0.0):
        raise InputError(f"a joint of {list(locked)} is locked but moves", place="release", hint="expected rates of 0")
    begin = np.zeros((count, Layout(rig.arm.n + 1).size))
    begin[:, 3] = 1.0
    begin[:, Layout(rig.arm.n + 1).joints][:, 1:] = configurations
    begin[:, Layout(rig.arm.n + 1).velocity] = moving.velocity(rig, configurations, parameters.mounted.get("inertia"))
    found = _empty(rig, configurations)
    stop = np.zeros(1, dtype=np.uint8)
    ensure_loops("solver", "samples", "lanes")
    # Compiled and laid out once; threads share them and write to separate rows.
    intervals = _build_phases(rig, solver, flight, tuple(locked), parameters, moving.is_rotating)
    bones = skeleton(rig.arm, radii) if near else None

    def work(first: int) -> int:
        chosen = slice(first, min(first + CHUNK, count))
        leaving, end, passed = _fly(rig, intervals, begin[chosen], chosen, instants, found, stop)
        found.angular_velocity[chosen] = _mean_angular_velocity(rig, end, parameters.bodies(chosen))
        if bones is not None:
            found.clearance[chosen] = _nearest(rig, configurations[chosen], leaving, passed, instants, keep_out, bones)
        return chosen.stop - chosen.start

    def compute() -> dict[str, Any]:
        run_chunks(work, range(0, count, CHUNK), count, threads=threads, stop=stop, progress=progress)
        bad = ~found.sound
        for name in ("time", "velocity", "variation", "final_variation", "stop_times", "recoil", "clearance"):
            getattr(found, name)[bad] = np.nan
        found.angular_velocity[bad] = np.nan
        return vars(found)

    inputs = (rig, configurations, begin, moving.is_rotating, given, flight, solver, locked, keep_out, radii, samples)
    return Ejections(**checkpoint("ejections", inputs, compute))


def _empty(rig: Rig, configurations: Array) -> Ejections:
    """Arrays for the results."""
    count, n = configurations.shape

    def unset(*shape: int) -> Array:
        return np.full((count, *shape), np.nan)

    return Ejections(
        configurations,
        time=unset(),
        velocity=unset(),
        variation=unset(n),
        final_variation=unset(n),
        angular_velocity=unset(3),
        stop_times=np.zeros((count, n)),
        hits=np.zeros((count, n), dtype=bool),
        clearance=np.full(count, np.inf),
        recoil=unset(6),
        reason=np.full((count, 2), int(EndReason.INTERRUPTED), dtype=np.int64),
        evaluations=np.zeros(count, dtype=np.int64),
    )


def _build_phases(
    rig: Rig, solver: Dopri853, flight: float, locked: tuple[str, ...], given: EjectionParameters, rotating: bool
) -> list[PhaseBatch]:
    """Phases on the rail, one for each segment of the springs' force curve, and the flight."""
    held, kept = base_on_rail(rig, rotating)
    found = []
    for k, segment in enumerate(rig.device.segments):
        phase = phase_on_rail(rig, given.quarter, segment, locked=(*held, *locked), accelerations=kept)
        found.append(PhaseBatch(rig.mounted_robot, phase, solver, given.select_segment(rig, k)))
    free = Phase(flight, locked=(*rig.out_of_plane, *locked), name="flight")
    return [*found, PhaseBatch(rig.arm, free, solver, given.arm, 1)]


def _fly(
    rig: Rig, intervals: Sequence[PhaseBatch], begin: Array, chosen: slice, instants: Array, found: Ejections, stop: Any
) -> tuple[Array, Array, Array]:
    """Samples through all phases: states as they leave the rail, at the end of the flight, and at instants of it."""
    states, running = begin, np.ones(len(begin), dtype=np.bool_)
    time = np.zeros(len(begin))
    for interval in intervals[:-1]:
        ends = interval.run(states, chosen, running, np.zeros(0), stop)
        _record_events(rig, interval, ends, chosen, time, found, 1)
        found.reason[chosen, 0] = np.where(running, ends.reason, found.reason[chosen, 0])
        time, states = time + ends.time, ends.state
        # A sample that did not reach the end of a segment is not continued; its reason remains that of the segment.
        running = running & (ends.reason == EndReason.TERMINAL_EVENT)
    rail, at = Layout(rig.arm.n + 1), Layout(rig.arm.n)  # the rail is joint 0
    leaving = states
    found.time[chosen], found.velocity[chosen] = time, leaving[:, rail.speed(6)]
    found.variation[chosen] = leaving[:, rail.joints][:, 1:] - found.joints[chosen]
    found.recoil[chosen] = leaving[:, rail.base_velocity]
    ends = intervals[-1].run(rig.split(leaving)[0], chosen, running, instants, stop)
    _record_events(rig, intervals[-1], ends, chosen, time, found, 0)
    found.reason[chosen, 1] = np.where(running, ends.reason, -1)
    found.final_variation[chosen] = ends.state[:, at.joints] - found.joints[chosen]
    found.stop_times[chosen][ends.state[:, at.rates] != 0.0] = np.inf
    # A joint that started at its limit and went beyond has no crossing.
    for positions in (leaving[:, rail.joints][:, 1:], ends.state[:, at.joints]):
        outside = (positions < rig.arm.lower_limits - LIMIT_SLACK) | (positions > rig.arm.upper_limits + LIMIT_SLACK)
        found.hits[chosen] |= outside & running[:, None]
    end = np.where(running[:, None], ends.state, np.nan)
    return leaving, end, ends.samples


def _record_events(
    rig: Rig, interval: PhaseBatch, ends: SampleEnds, chosen: slice, time: Array, found: Ejections, shift: int
) -> None:
    """Stops, limits and evaluations of a phase; the arm's joints are ``shift`` later in its robot."""
    for k, dof in enumerate(interval.frictional):
        joint = int(dof) - 6 - shift
        if joint >= 0:
            stopped = ~np.isnan(ends.stick[:, k])
            found.stop_times[chosen, joint][stopped] = (time + ends.stick[:, k])[stopped]
    for k, (kind, name, _) in enumerate(interval.prepared.labels):
        if kind == "limit" and name in rig.arm.joint_names:
            found.hits[chosen, rig.arm.joint_index(name)] |= ends.crossed[:, k]
    found.evaluations[chosen] += ends.evaluations


def _nearest(
    rig: Rig,
    joints: Array,
    leaving: Array,
    passed: Array,
    instants: Array,
    regions: Sequence[KeepOut],
    bones: Skeleton,
) -> Array:
    """Smallest clearance (B,) over start, separation and the instants of the flight."""
    count, nx = len(joints), Layout(rig.arm.n).size
    before = np.zeros((count, nx))
    before[:, 3] = 1.0
    before[:, Layout(rig.arm.n).joints] = joints
    arm, carrier = rig.split(leaving)
    states = np.concatenate([before[:, None], arm[:, None], passed], axis=1)
    satellite = None
    rotating = bool(np.any(carrier[:, Layout(0).angular_velocity] != 0.0))
    if rotating or not rig.device.heavy:
        still = np.zeros((count, 1, 13))
        still[..., 3] = 1.0
        moved = coast_satellite(rig, carrier, instants)
        satellite = np.concatenate([still, carrier[:, None], moved], axis=1).reshape(-1, 13)
    distance = clearance(rig.arm, states.reshape(-1, nx), regions, bones, satellite)
    nearest: Array = distance.reshape(count, -1).min(axis=1)
    return nearest


def coast_satellite(rig: Rig, states: Array, times: Array) -> Array:
    """States (B, T, 13) of the satellite at increasing times (s) after separation in ``states`` (B, 13).

    It is free, except for the constraints of a table; an infinitely heavy satellite keeps its rate.
    """
    steps = np.diff(times, prepend=0.0)
    rate = np.abs(states[:, Layout(0).angular_velocity]).max(initial=0.0)
    # Steps by the fastest sample: all of them share one grid.
    counts = np.maximum(1, np.ceil(steps * rate / LONGEST_ROTATION)).astype(np.int64)
    # An infinitely heavy satellite keeps its rate: driven at zero acceleration.
    held = BASE_DOFS if rig.device.heavy else rig.out_of_plane
    mode = np.array([float(name in held) for name in BASE_DOFS])
    common = {"inertia": rig.satellite.inertia_parameters.ravel(), "mode": mode}
    schedule = Schedule(counts, steps / counts)
    found: Array = Ensemble(_coast_loop(rig.satellite), schedule, common, {"state": states}, every=0).run().rows
    return found


@lru_cache(maxsize=8)
def _coast_loop(satellite: Robot) -> FixedStep:
    program = motion_program(satellite, (), ledger=False)
    idle = ("force", "drive", "friction", "stiffness", "rest", "damping", "coupling")
    free = replace(program, name="coast", outputs={"rate": program.outputs["rate"]}).with_zeros(idle)
    return FixedStep(StepSymbols(free), uniform=[name for name in free.inputs if name != "state"])


def _mean_angular_velocity(rig: Rig, ends: Array, inertia: Array | None) -> Array:
    """Mean angular velocity (B, 3) from the last states (B, nx), world axes; NaN for a run that failed."""
    n = rig.arm.n
    angular_rate = np.full((len(ends), 3), np.nan)
    good = np.isfinite(ends).all(axis=1)
    if not good.any():
        return angular_rate
    ends = ends[good]
    own = inertia if inertia is None or len(inertia) == 1 else inertia[good]
    matrix = mechanics_of(rig.arm).mass_matrix(ends[:, Layout(n).joints], inertia=own)
    angular, tensor = moment_of_momentum(matrix, ends[:, Layout(n).velocity])
    angular_rate[good] = np.einsum(
        "bij,bj->bi", rotation_matrices(ends[:, QUATERNION]), mean_angular_velocity(rig, angular, tensor)
    )
    return angular_rate
