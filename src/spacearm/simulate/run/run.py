"""A run in time: phases in sequence, changes between them, with events, samples and a certificate.

:func:`simulate` checks what it is given, builds a :class:`~spacearm.simulate.run.chain.PhaseChain` and runs it to its
end in a thread that Ctrl-C and time limits can stop. The chain's segments (intervals with the same world) become the
tracks of a :class:`Run`, one for each system and segment; energies, events and the certificate are those of all
systems together.

World axes and SI units, except velocities of bases, which are in base axes as in the flat state. At a change there are
two samples of the same time, before and after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import positive
from spacearm.engine.solver import EndReason
from spacearm.engine.threads import interruptible
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, SimulationError, TimeLimitError, did_you_mean
from spacearm.model import Robot
from spacearm.model.files import write_atomically
from spacearm.result import Certificate, Figures
from spacearm.simulate.checks import LARGEST_ANGLE, check_angles
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.loops import loop_forces
from spacearm.simulate.methods import Method, as_method
from spacearm.simulate.motion import RobotMotion
from spacearm.simulate.phase import Phase, sample_times
from spacearm.simulate.run.certificate import TOLERANCE, CertificateWarning, certify
from spacearm.simulate.run.chain import MAX_EVENTS, ChainSettings, PhaseChain, Phases, as_items, first_phase
from spacearm.simulate.run.dataset import as_frame, dataset
from spacearm.simulate.run.ledger import Ledger, LedgerEntry, energy_ledger
from spacearm.simulate.run.prepare import check_limits
from spacearm.simulate.run.segment import Occurrence, Segment, Stats
from spacearm.simulate.run.touches import TouchRecord, collect_touches
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import system_loops
from spacearm.simulate.world import Overrides, States, World
from spacearm.text_format import html_table
from spacearm.typing import Array

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

#: Speed of light, m/s.
LIGHT = 299_792_458.0


class RunWarning(UserWarning):
    """A run ended early without a terminal event, or is unlikely to finish."""


@dataclass(frozen=True, eq=False)
class Track:
    """One system during a run, as long as its robot stays the same.

    A change leaves two samples at its instant: before and after.
    """

    name: str
    model: RobotMotion = field(repr=False)  # kernel and offsets of this robot alone, with which the samples are read
    times: Array
    integrated: Array = field(repr=False)  # (T, ny): flat state, then energies since the start
    inputs: Array = field(repr=False)  # (T, ...) the kernel's inputs that change in time
    outputs: Array = field(repr=False)  # (T, n_out) the kernel's outputs
    stuck: npt.NDArray[np.bool_] = field(repr=False)  # (T, 6 + n)
    ledger: Ledger | None = field(repr=False)
    attrs: Mapping[str, Any] = field(repr=False)
    #: Of each closed loop by name: force and moment (T, 6) on its second frame, in the first frame's axes, N and N m;
    #: of a gear (T, 1) on its first joint.
    loop_forces: Mapping[str, Array] = field(repr=False, default_factory=dict)
    #: Where the numbers of its robot changed on the way, as by propellant that is used: first sample and robot of each.
    robots: tuple[tuple[int, Robot], ...] = field(repr=False, default=())

    def __repr__(self) -> str:
        return f"Track({self.name}, {self.times[0]:g} to {self.times[-1]:g} s, {self.times.size} samples)"

    @property
    def robot(self) -> Robot:
        return self.model.robot

    @property
    def states(self) -> Array:
        """Flat states at the sample times (T, 13 + 2 n)."""
        return self.integrated[:, : self.model.nx]

    @property
    def end(self) -> State:
        """State at the last sample."""
        return State.from_vector(self.states[-1])

    @cached_property
    def data(self) -> xr.Dataset:
        """Samples with names and units."""
        samples = (self.times, self.integrated, self.inputs, self.outputs, self.stuck)
        return dataset(self.model, *samples, self.ledger, {"robot": self.robot.name, **self.attrs}, self.loop_forces)


@dataclass(frozen=True, eq=False)
class Run:
    """The result of :func:`simulate`.

    ``robot``, ``end``, ``times``, ``states``, ``data`` and the like are those of the only track of a run of one
    unchanged robot; for any other run, :meth:`last_track` gives the track of a system.
    """

    world: World  # at the start
    start: dict[str, State] = field(repr=False)  # of each system
    reason: EndReason
    why: str  # the reason as text, with its cause if known
    end_time: float
    events: tuple[Occurrence, ...]
    stats: Stats
    certificate: Certificate | None
    phase_starts: tuple[float, ...]
    tracks: tuple[Track, ...]
    ledger: Ledger | None = field(repr=False)  # energies of all systems, at the samples of all segments
    steps: tuple[Segment | LedgerEntry, ...] = field(repr=False)  # segments and changes in their order
    ends: dict[str, State] | None = field(repr=False)  # of each system at the end; None where one is not finite
    commands: tuple[CommandLog, ...] = field(repr=False, default=())  # of sampled laws, phase by phase

    def __repr__(self) -> str:
        samples = sum(track.times.size for track in self.tracks)
        state = f"{'' if self.sound else 'NOT '}sound"
        left = ", ".join(dict.fromkeys(event.name for event in self.events_of("limit")))
        state = f"LIMITS BROKEN: range of {left}; numerics {state}" if left else state
        return f"Run({self._what}, {self.end_time:g} s, {samples} samples, {state})"

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling, without segments, which hold machine code: the run cannot be cross-checked again."""
        return {**vars(self), "steps": self.changes}

    @property
    def _what(self) -> str:
        return " and ".join(dict.fromkeys(track.name for track in self.tracks))

    def _repr_html_(self) -> str:
        left = ", ".join(dict.fromkeys(event.name for event in self.events_of("limit")))
        events = [(f"{event.time:.4g} s", f"{event.kind}: {event.name}") for event in self.events[:8]]
        facts = [
            ("ended", f"after {self.end_time:g} s: {self.why}"),
            ("phases", ", ".join(f"from {start:g} s" for start in self.phase_starts)),
            ("sound", "no certificate" if self.certificate is None else "yes" if self.certificate.sound else "NO"),
            ("ranges of joints", f"BROKEN: {left}" if left else "kept where they were watched"),
            ("steps", f"{self.stats.steps}, {self.stats.evaluations} evaluations"),
        ]
        more = [("...", f"{len(self.events) - 8} more events")] if len(self.events) > 8 else []
        return html_table(("run", self._what), [*facts, *events, *more])

    def to_netcdf(self, path: str | Path) -> Path:
        """Write the run as NetCDF 4, with names and units; :func:`~spacearm.simulate.load_run` reads it."""
        from spacearm.simulate.run.run_file import save_run

        return save_run(self, path)

    def to_dataframe(self, system: str = "") -> pd.DataFrame:
        """Samples as a table: a row for each time (s), columns such as ``joint_position.joint1``, units in ``attrs``.

        ``system`` selects one if several took part.
        """
        return as_frame((self.last_track(system) if system else self.track).data)

    def to_csv(self, path: str | Path, system: str = "") -> Path:
        """Write the samples as CSV, with units after the names: ``time [s]``, ``base_position.x [m]``."""
        table = self.to_dataframe(system)
        units = table.attrs["units"]
        labelled = {name: f"{name} [{units[name]}]" if units[name] not in ("", "1") else name for name in table.columns}
        write_atomically(Path(path), table.rename(columns=labelled).to_csv(index_label="time [s]"))
        return Path(path)

    def plot(self, system: str = "") -> Any:
        """Figures of a run: base, joints, drives, momentum, energies. A notebook shows them without a network.

        They are those of the page that ``spacearm run`` writes; ``run.plot()[0].save("attitude.pdf")`` keeps one.
        """
        from spacearm.simulate.run.figures import figures

        one = self.extract_system(system) if system else self
        return Figures(figures(one))

    @property
    def sound(self) -> bool:
        """Whether it finished and conserved what it should conserve."""
        finished = self.reason in (EndReason.FINISHED, EndReason.TERMINAL_EVENT)
        return finished and (self.certificate is None or self.certificate.sound)

    @property
    def readings(self) -> xr.Dataset:
        """Readings of the sensors of sampled laws, and commands of the laws, at the ticks of all phases."""
        import xarray as xr

        phases: dict[int, list[xr.Dataset]] = {}
        for log in self.commands:
            phases.setdefault(log.phase, []).append(log.data().drop_attrs(deep=False))
        logs = [own[0] if len(own) == 1 else xr.merge(own, join="outer", compat="equals") for own in phases.values()]
        return xr.concat(logs, "time", join="outer", combine_attrs="override") if logs else xr.Dataset()

    @property
    def changes(self) -> tuple[LedgerEntry, ...]:
        """An entry of the ledger for each change."""
        return tuple(step for step in self.steps if isinstance(step, LedgerEntry))

    def last_track(self, system: str) -> Track:
        """The track of a system; if a change has altered its robot, the last one."""
        found = [track for track in self.tracks if track.name == system]
        if not found:
            names = {track.name: None for track in self.tracks}
            raise InputError(f"there is no system {system!r}", place="run", hint=did_you_mean(system, names))
        return found[-1]

    @property
    def track(self) -> Track:
        """The only track of the run; an error where there are several."""
        if len(self.tracks) != 1:
            names = ", ".join(dict.fromkeys(track.name for track in self.tracks))
            raise InputError("several systems took part", place="run", hint=f"expected run.last_track(system): {names}")
        return self.tracks[0]

    def extract_system(self, system: str) -> Run:
        """The run as seen by one system, last track; energies, events and certificate are those of all."""
        ends = {system: self.ends[system]} if self.ends is not None and system in self.ends else None
        return replace(self, tracks=(self.last_track(system),), ends=ends)

    @property
    def robot(self) -> Robot:
        return self.track.robot

    @property
    def end(self) -> State | None:
        """Final state of the only system; None if the state is not finite."""
        if self.ends is None:
            return None
        if len(self.ends) != 1:
            raise InputError("several systems took part", place="run", hint="expected run.ends[system]")
        (state,) = self.ends.values()
        return state

    @property
    def times(self) -> Array:
        return self.track.times

    @property
    def states(self) -> Array:
        """Flat states at the sample times (T, 13 + 2 n)."""
        return self.track.states

    @property
    def loop_forces(self) -> Mapping[str, Array]:
        """Forces of closed loops by name: see :class:`Track`."""
        return self.track.loop_forces

    @property
    def data(self) -> xr.Dataset:
        """Samples with names and units."""
        return self.track.data

    @cached_property
    def touches(self) -> tuple[TouchRecord, ...]:
        """Touches of contacts and stops, one entry for each; with a ledger only."""
        logs = [step.touches for step in self.steps if isinstance(step, Segment)]
        return collect_touches(logs, self.events, self.end_time)

    @property
    def saturation_shares(self) -> dict[str, float]:
        """Fraction of the time of sampled laws for which each actuator was at a limit of effort or rate, by name."""
        total: dict[str, float] = {}
        found: dict[str, float] = {}
        for log in self.commands:
            lasted = log.saturation_times()
            for name in log.names:
                label = log.label(name)
                total[label] = total.get(label, 0.0) + log.end - log.begin
                found[label] = found.get(label, 0.0) + lasted.get(name, 0.0)
        return {label: share / total[label] for label, share in found.items() if share > 0.0}

    def events_of(self, kind: str) -> tuple[Occurrence, ...]:
        return tuple(event for event in self.events if event.kind == kind)


def simulate(
    robot: Robot | World | Mapping[str, Robot],
    start: States,
    phases: Phases,
    *,
    duration: float | None = None,
    method: Method | None = None,
    sample: float | npt.ArrayLike | None = None,
    overrides: Overrides | None = None,
    ledger: bool = True,
    tolerance: float = TOLERANCE,
    max_steps: int | None = None,
    max_events: int = MAX_EVENTS,
    progress: Callable[[float, float], None] | None = None,
) -> Run:
    """Simulate a robot, or all systems of a world, in time.

    Args:
        robot: one robot, or a world of several systems.
        start: state at time zero; by system if there are several.
        phases: a duration (s) in which everything is free, a phase, or phases and changes in order. Or a function that
            gets a :class:`RunContext` and yields them one by one, depending on the state of the run.
        duration: expected duration of such a function, s, for samples and progress.
        method: :class:`Dopri853` (default) or :class:`RK4`.
        sample: interval (s) or times of the samples; the end of the run is always the last sample.
        overrides: values that replace the robot's own: ``inertia``, ``rotor``, ``stiffness``, ``rest``, ``damping``,
            ``coupling``, ``static_friction``, ``coulomb_friction``.
        ledger: integrate energies and issue a certificate.
        tolerance: relative error that the certificate allows.
        max_steps: largest number of steps; by default many times the number expected from the duration, the robot's
            springs and dampers and its initial motion.
        progress: called occasionally with (time reached, time of all phases), s, from the calling thread. Not called if
            :func:`simulate` itself runs in a thread other than the main one.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept.
        RunWarning: the run ended early, and ``why``; or a spring or damper is so fast that the method needs very many
            steps, or diverges with the given step.
    """
    world = World.from_robots(robot, overrides)
    items = as_items(phases)
    positive(tolerance, "tolerance", place="simulate")
    vector = world.flat(start)
    _check_speeds(world, vector)
    if not callable(items):
        duration = float(sum(item.duration for item in items if isinstance(item, Phase)))
        _check_start_limits(world, vector, first_phase(items))
    hint = "expected seconds above zero, for samples and progress"
    total = positive(duration, "duration", place="simulate", hint=hint)
    settings = ChainSettings(as_method(method), sample_times(sample, total), ledger, max_steps, max_events)
    chain = PhaseChain(world, vector, items, settings)
    # Warnings known before the run are given before it: it may take long.
    notes = len(chain.warnings)
    for text in chain.warnings:
        warnings.warn(text, RunWarning, stacklevel=2)
    ensure_loops()

    def watch() -> None:
        if progress is not None:
            progress(min(chain.now, total), total)

    try:
        interruptible(chain.run, watch)
    except TimeLimitError as error:
        error.place = error.place or f"run at t = {chain.now:.9g} s of {total:g} s"
        raise
    for text in chain.warnings[notes:]:
        warnings.warn(text, RunWarning, stacklevel=2)
    if not chain.segments:
        raise InputError("there is no phase", place="simulate", hint="expected at least one")
    return finish_run(world, vector, chain, tolerance)


def finish_run(world: World, start: Array, chain: PhaseChain, tolerance: float) -> Run:
    """The result of a chain that has come to its end: samples, events, ledger and certificate."""
    _check_angle_range(chain)
    return _result(world, start, chain, tolerance)


def _check_speeds(world: World, vector: Array) -> None:
    """Raise an error if a system starts faster than light."""
    for name, at in world.layouts.items():
        speed = float(np.linalg.norm(vector[at.velocity][:3]))
        if speed > LIGHT:
            raise InputError(
                f"system {name!r} starts at {speed:.3g} m/s, faster than light",
                place="simulate",
                hint=f"expected m/s, far below {LIGHT:.0e}: the mechanics are Newton's",
            )


def _check_start_limits(world: World, vector: Array, phase: Phase | None) -> None:
    """Check joint limits at the start: an error if they stop the run, else a warning."""
    for name, robot in world.systems.items():
        notes = "" if phase is None else check_limits(robot, vector[world.layouts[name].joints], phase)
        if notes:
            warnings.warn(notes, RunWarning, stacklevel=3)


def _check_angle_range(chain: PhaseChain) -> None:
    """Raise an error if a joint has rotated so far that its angle is no longer accurate."""
    for segment in chain.segments:
        for part in segment.model.parts:
            rows = segment.record.y[segment.rows, part.layout.joints]
            try:
                check_angles(part.motion.robot, rows)
            except InputError as error:
                far = int(np.argmax((np.abs(rows) > LARGEST_ANGLE).any(axis=1)))
                place = f"run at t = {segment.record.times[far]:.9g} s"
                raise SimulationError(error.message, place=place, hint=error.hint) from None


def _sample_times(segment: Segment) -> Array:
    """The requested times, where they agree up to rounding."""
    times = segment.record.times[segment.rows].copy()
    near = min(times.size, segment.wanted.size)
    # The solver's clock counts from the start of each phase: the sum may differ by rounding from what was asked.
    close = np.abs(times[:near] - segment.wanted[:near]) < 1e-9
    times[:near][close] = segment.wanted[:near][close]
    return times


def _accounts(chain: PhaseChain) -> list[list[Ledger]]:
    """Energies of every system in every segment."""
    found, gone = [], 0.0
    for step in chain.steps:
        if isinstance(step, LedgerEntry):
            # Losses of changes are booked from the next segment on.
            gone += step.lost
            continue
        y = step.record.y[step.rows]
        parts = zip(step.model.parts, step.parameters, strict=True)
        own = [energy_ledger(part.motion, values, y[:, part.y]) for part, values in parts]
        found.append([replace(account, lost=np.full(len(y), gone)) for account in own])
    return found


def _tracks(chain: PhaseChain, accounts: list[list[Ledger]], attrs: Mapping[str, Any]) -> list[Track]:
    """A track for each system and robot; energies continue from the preceding segment."""
    found: list[Track] = []
    before: dict[str, Track] = {}
    for index, segment in enumerate(chain.segments):
        rows, record, times = segment.rows, segment.record, _sample_times(segment)
        stuck = record.inp[rows, segment.model.kernel.inputs["mode"]] != 0.0
        for prepared, _, span in segment.spans:
            # Mode 1 also marks driven and locked degrees of freedom, which friction does not hold.
            stuck[span, list(prepared.driven)] = False
        going = {}
        for k, part in enumerate(segment.model.parts):
            track = Track(
                part.name,
                part.motion,
                times,
                record.y[rows][:, part.y],
                record.inp[rows][:, part.inputs],
                record.out[rows][:, part.outputs],
                stuck[:, part.dofs],
                accounts[index][k] if accounts else None,
                attrs,
                loop_forces(part.motion, record.inp[rows][:, part.inputs], segment.parameters[k])
                | _forces_between(segment, part.name),
            )
            # The same program, and the same robot but for its numbers: the track goes on.
            if part.name in before and _same_program(before[part.name].model, track.model):
                found.remove(before[part.name])
                track = _join_tracks(before[part.name], track)
            found.append(track)
            going[part.name] = track
        before = going
    return found


def _forces_between(segment: Segment, system: str) -> dict[str, Array]:
    """Forces of loops between systems at the samples, of those whose first frame is the system's."""
    world, rows, record = segment.world, segment.rows, segment.record
    own = [loop for loop in system_loops(world) if loop.frames(world)[0][0] == system]
    return {loop.name: loop.forces(world, segment.model, record.y[rows], record.inp[rows]) for loop in own}


def _same_program(first: RobotMotion, second: RobotMotion) -> bool:
    return first is second or (
        first.robot.tanks != second.robot.tanks
        and first.robot.structure == second.robot.structure
        and (first.loads, first.nx, first.kernel.inputs) == (second.loads, second.nx, second.kernel.inputs)
    )


def _join_tracks(first: Track, second: Track) -> Track:
    """One track from two successive ones."""
    robots = first.robots
    if first.robot != second.robot:
        robots = (*(robots or ((0, first.robot),)), (len(first.times), second.robot))
    nx = first.model.nx
    y = second.integrated.copy()
    # Energies of a segment count from its start; a track counts from the start of the run.
    y[:, nx:] += first.integrated[-1:, nx:].sum(axis=0)
    ledger = None
    if first.ledger is not None and second.ledger is not None:
        ledger = _join_ledgers(first.ledger, second.ledger)
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)])
        for name in ("times", "inputs", "outputs", "stuck")
    }
    forces = {name: np.concatenate([first.loop_forces[name], own]) for name, own in second.loop_forces.items()}
    integrated = np.concatenate([first.integrated, y])
    return replace(second, integrated=integrated, ledger=ledger, loop_forces=forces, robots=robots, **arrays)


def _join_ledgers(first: Ledger, second: Ledger) -> Ledger:
    """One ledger from two; dissipation and work continue from the end of the first."""
    parts: dict[str, Any] = {}
    for each in fields(Ledger):
        if each.name == "entries":
            continue
        a, b = getattr(first, each.name), getattr(second, each.name)
        # Stored energies are values of the moment, ``lost`` counts from the start of the run already.
        carried = a[-1] if each.name not in ("kinetic", "elastic", "lost") else 0.0
        parts[each.name] = np.concatenate([a, b + carried])
    return Ledger(**parts)


def _whole_ledger(accounts: list[list[Ledger]], entries: Sequence[LedgerEntry]) -> Ledger:
    """Energies of all systems over all segments."""
    whole: Ledger | None = None
    for own in accounts:
        names = [each.name for each in fields(Ledger) if each.name != "entries"]
        sums = {name: np.sum([getattr(part, name) for part in own], axis=0) for name in names}
        account = replace(own[0], **(sums | {"lost": own[0].lost}))
        whole = account if whole is None else _join_ledgers(whole, account)
    assert whole is not None
    return replace(whole, entries=tuple(entries))


def _result(world: World, start: Array, chain: PhaseChain, tolerance: float) -> Run:
    why = chain.why
    if chain.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT):
        warnings.warn(f"the run ended at t = {chain.time:.9g} s: {why}", RunWarning, stacklevel=3)
    accounts: list[list[Ledger]] = []
    whole = certificate = None
    if chain.settings.ledger and all(segment.record.counts[0] for segment in chain.segments):
        with np.errstate(over="ignore", invalid="ignore"):  # a failed run; its residuals are not numbers
            accounts = _accounts(chain)
            whole = _whole_ledger(accounts, chain.entries)
            certificate = certify(chain.segments, whole, tolerance, chain.settings.method.tolerances)
        if not certificate.sound:
            warnings.warn(f"conservation check failed: {certificate}", CertificateWarning, stacklevel=3)
    attrs: dict[str, Any] = {"reason": why}
    if certificate is not None:
        attrs["certificate"] = str(certificate)
    return Run(
        world,
        world.states(start),
        chain.reason,
        why,
        chain.time,
        chain.occurrences(),
        chain.stats,
        certificate,
        tuple(start for segment in chain.segments for start in segment.starts),
        tuple(_tracks(chain, accounts, attrs)),
        whole,
        tuple(chain.steps),
        chain.world.states(chain.vector) if np.all(np.isfinite(chain.vector)) else None,
        tuple(log for segment in chain.segments for log in segment.commands),
    )
