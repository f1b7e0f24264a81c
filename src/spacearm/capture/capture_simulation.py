"""Soft-capture simulation, one run of phases and changes: approach, contact, clutch modes, loads, semi-active damping.

A soft capture is hybrid: smooth motion between instants at which the equations change. Each smooth part is a phase of
:func:`~spacearm.simulate.simulate`, each instant a change of the world: a target that is attached (a plastic impact),
a clutch that closes (an impact of its own) or opens, a damper that is switched. Instants that depend on the motion are
roots of event functions, which the solver locates to rounding (:mod:`spacearm.capture.clutch`,
:mod:`spacearm.capture.semiactive`); those that are known in advance are the ends of phases.

The schedule is a generator: it yields the next phase or change when it knows how the last one ended, so that no list
of switching times is needed beforehand. The start or end of a load also ends an interval of the record, which then has
both sides of the jump; the certificate follows the impulse of a load step by step.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.capture.capture_run import CaptureRun
from spacearm.capture.clutch import (
    SOFT,
    ClutchMode,
    SwitchAtOverload,
    SwitchAtRest,
    SwitchAtTime,
    clutch_modes,
    overload_event,
    rest_event,
)
from spacearm.capture.modes import check_stiffness
from spacearm.capture.plastic_impact import ROBOT, PlasticImpact
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import find_cushioning_axes, find_held_joints
from spacearm.capture.target import Approach, CaughtTarget, Start, relative_twist, start_state
from spacearm.checks import check_name, non_negative, one_of, positive
from spacearm.engine.solver import EndReason
from spacearm.errors import SimulationError
from spacearm.model import Robot
from spacearm.simulate import (
    Attach,
    CertificateWarning,
    Dopri853,
    Load,
    Lock,
    Phase,
    Release,
    RunContext,
    RunWarning,
    State,
    Switch,
    World,
    simulate,
)
from spacearm.simulate.changes import SPACEARM_TERMS, Change, ChangeResult, Terms
from spacearm.simulate.methods import Method
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.phase import EventFunction
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

#: The absolute tolerance (m, rad, m/s, rad/s) lets impulses down to 1e-5 N s keep their energy to 1e-8.
METHOD = Dopri853(rtol=1e-11, atol=1e-15)
#: Shortest phase, s: anything closer to a switch belongs to the next phase.
SHORTEST = 1e-12
#: An axis at rest is checked again after this time, s.
LOOK_AGAIN = 0.1
#: How often on-off dampers may switch: a fixed number, plus a number per remaining second.
SPARE_SWITCHES, SWITCHES_PER_SECOND = 1000, 100
#: Phases and changes in sequence; whether an event function ended the last phase.
Steps: TypeAlias = Generator[Phase | Change, None, bool]


def simulate_capture(
    robot: Robot,
    start: Start,
    loads: Sequence[Load] = (),
    *,
    duration: float = 60.0,
    modes: ClutchMode | Sequence[ClutchMode] = SOFT,
    damping: float | Mapping[str, float] | OnOff | None = None,
    stiffness: Mapping[str, float] | None = None,
    free: Sequence[str] = (),
    travel: Literal["error", "report"] = "error",
    sample: float | npt.ArrayLike = 0.02,
    method: Method | None = None,
) -> CaptureRun:
    """Simulate a robot with soft joints.

    Args:
        start: state at time zero; an impact (:func:`close_clutch`) or a capture (:func:`catch`) that leads to it; or an
            :class:`Approach` that ends with a capture. All of them become part of the record. Joints that are held must
            be at rest.
        loads: one or several, as :meth:`Load.pulse`, in time since the start of the run.
        duration: s.
        modes: modes of the clutch, which acts on all soft axes together, except those of a soft contact. After an
            approach the first mode begins at contact; until then the clutch is closed.
        damping: damping of the soft axes, overriding their own: one number (not for a soft contact), numbers by name,
            or an on-off law.
        stiffness: stiffness of soft axes by name, overriding their own.
        free: joints other than soft axes that may move; all others are held by their drives.
        travel: an axis beyond its travel is an error, or an event in the record (``exceeded``).
        sample: interval or times of the samples, s.

    Raises:
        SimulationError: a soft axis left its travel (with the time), or the run failed.
        InputError: unknown frames or joints, negative stiffness or damping.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept (``sound`` is false).
    """
    one_of(travel, ("error", "report"), "travel")
    positive(duration, "duration", place="simulate_capture", unit="s")
    for name in free:
        check_name(name, robot.joint_names, "joint", place="free")
    law = damping if isinstance(damping, OnOff) else None
    axes = find_cushioning_axes(robot)
    numbers = _overrides(robot, axes, None if isinstance(damping, OnOff) else damping, stiffness)
    schedule = _CaptureSchedule(
        robot, start, tuple(Phase(duration, loads=loads).loads), duration, clutch_modes(modes), law, free
    )
    world, states = schedule.build_start(numbers)
    switched = {name: max(law.damping_when_on(name), law.off) for name in axes} if law is not None else {}
    # Under load the certificate follows every step, which costs memory: the check counts these steps separately.
    loaded = sum(
        max(0.0, min(end, duration) - max(0.0, begin)) for begin, end in (load.span for load in schedule.loads)
    )
    # Refused before the run: an explicit method on a stiff design would only be slow, not wrong, and nobody could see
    # why.
    check_stiffness(robot, schedule.configuration, schedule.held, numbers, switched, duration, loaded)
    with warnings.catch_warnings():
        # Travel, certificate and a failed run are handled below.
        warnings.simplefilter("ignore", RunWarning)
        warnings.simplefilter("ignore", CertificateWarning)
        run = simulate(world, states, schedule, duration=duration, method=method or METHOD, sample=sample)
    if run.ends is None or run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT):
        raise SimulationError(
            f"the run failed at t = {run.end_time:.6g} s: {run.reason.text}",
            place=f"robot {robot.name!r}",
            hint="try a weaker load, a softer contact, less damping, or a shorter run",
        )
    outcome = CaptureRun(run, tuple(schedule.switches), start if isinstance(start, CaughtTarget) else schedule.caught)
    _report(outcome, travel)
    return outcome


def _report(outcome: CaptureRun, travel: str) -> None:
    """Warn of failed checks; an axis beyond its travel is an error unless it is only to be reported."""
    if not outcome.sound:
        bad = "; ".join(outcome.certificate.faults)
        warnings.warn(f"conservation check failed: {bad}", CertificateWarning, stacklevel=3)
    if travel == "error" and outcome.travel_violations:
        first = outcome.travel_violations[0]
        raise SimulationError(
            f"travel of {first.joint!r} is exceeded at t = {first.time:.6g} s: it passes "
            f"{first.limit:g} {first.unit} "
            f"and reaches {first.reached:.6g} {first.unit}",
            place=f"robot {outcome.robot.name!r}",
            hint="more travel, stiffness or damping; or travel='report' to continue",
        )


def _overrides(
    robot: Robot,
    axes: Sequence[str],
    damping: float | Mapping[str, float] | None,
    stiffness: Mapping[str, float] | None,
) -> dict[str, Array]:
    """Values that override the robot's own, as for :func:`~spacearm.simulate.simulate`."""
    if damping is not None and not isinstance(damping, Mapping):
        damping = dict.fromkeys(axes, damping)
    chosen: dict[str, Array] = {}
    for what, given in (("damping", damping), ("stiffness", stiffness)):
        if given is None:
            continue
        values = robot_parameters(robot)[what].copy()
        for name, value in given.items():
            check_name(name, robot.joint_names, "joint", place=what)
            # Counted from the end: damping has six entries of the base first (6 + n), stiffness has none (n).
            values[robot.joint_index(name) - robot.n] = non_negative(value, what, place=f"joint {name!r}")
        chosen[what] = values
    return chosen


class _Boundary(Change):
    """The start or end of a load, of which the record has both sides."""

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        del terms
        return ChangeResult(world, states, "a load begins or ends")


@dataclass(eq=False)
class _CaptureSchedule:
    """Phases and changes of a soft-capture run, each chosen when the previous one is over."""

    robot: Robot
    start: Start
    loads: tuple[Load, ...]
    duration: float
    modes: tuple[ClutchMode, ...]
    law: OnOff | None
    free: Sequence[str]
    switches: list[tuple[float, str]] = field(default_factory=list)
    caught: CaughtTarget | None = None

    def __post_init__(self) -> None:
        self.axes = find_cushioning_axes(self.robot)
        compliant = self.start.compliant if isinstance(self.start, Approach) else ()
        self.held = find_held_joints(self.robot, (*self.free, *compliant))

    @property
    def paths(self) -> dict[str, object]:
        """Paths of the joints that are driven throughout."""
        driven = self.start.driven if isinstance(self.start, Approach) else {}
        return {name: path for name, path in driven.items() if name in self.held}

    def build_start(self, numbers: Mapping[str, Array]) -> tuple[World, dict[str, State]]:
        """World and initial states, with these values overriding the robot's own."""
        start, frames = self.start, tuple(dict.fromkeys(load.place for load in self.loads))
        options = {"overrides": {ROBOT: numbers} if numbers else {}, "loads": frames}
        if isinstance(start, Approach):
            start.check(self.robot)
            positive(self.duration - start.duration, "time left after contact", place="approach", unit="s")
            target = start.target
            self.configuration = start.state.joints
            states = {ROBOT: start.state, target.name: start.target_start(self.robot, self.loads)}
            return World({ROBOT: self.robot, target.name: target.body}, **options), states  # type: ignore[arg-type]
        # Motion caused by a capture is not stopped in the same instant; elsewhere a clutch may close on moving axes.
        rigid = isinstance(start, CaughtTarget) and self.modes[0].kind == "rigid"
        state = start_state(self.robot, start, (*self.held, *self.axes) if rigid else self.held)
        self.configuration = state.joints
        impact = start.impact if isinstance(start, CaughtTarget) else start
        if isinstance(impact, PlasticImpact):
            return impact.world.replace(**options), dict(impact.states)
        return World({ROBOT: self.robot}, **options), {ROBOT: state}  # type: ignore[arg-type]

    def __call__(self, context: RunContext) -> Iterator[Phase | Change]:
        """All phases and changes until the end of the run."""
        yield from self._contact(context)
        for number, mode in enumerate(self.modes, 1):
            if self.duration - context.time <= SHORTEST:
                break
            if isinstance(mode.until, SwitchAtTime) and mode.until.time <= context.time + SHORTEST:
                raise SimulationError(
                    f"mode {number} ({mode.kind}) ends at {mode.until.time:g} s, but mode {number - 1} lasts until "
                    f"{context.time:.6g} s",
                    place="clutch",
                    hint="times count from the start of the run: give a later one, or another condition",
                )
            # Recorded before the lock or release that carries it out, so that both have the same time.
            self.switches.append((context.time, mode.kind))
            yield from self._clutch(context, mode.kind)
            end = mode.until.time if isinstance(mode.until, SwitchAtTime) else self.duration
            yield from (self._rigid if mode.kind == "rigid" else self._soft)(context, min(end, self.duration), mode)

    def _contact(self, context: RunContext) -> Iterator[Phase | Change]:
        """The events before the soft motion: an immediate impact, or an approach that ends with a capture."""
        start = self.start
        impact = start.impact if isinstance(start, CaughtTarget) else start
        if isinstance(impact, PlasticImpact):
            yield impact.change
        if not isinstance(start, Approach):
            return
        # Until contact the clutch is closed: soft axes are locked too, whatever the first mode.
        locked = [name for name in self.robot.joint_names if name not in start.driven]
        yield from self._phases(context, start.duration, None, locked=locked, driven=start.driven)
        rigid = self.axes if self.modes[0].kind == "rigid" else ()
        impact = PlasticImpact(
            context.world, context.states, Attach(start.target.name, start.hand, (*self.held, *rigid))
        )
        yield impact.change
        before, target = impact.states[ROBOT], start.target
        relative = relative_twist(self.robot, before, target, start.hand)
        self.caught = CaughtTarget(impact.robot, context.state, start.hand, target, impact, relative, target.inertia)
        if start.compliant:
            joined, soft = context.world.robot(ROBOT), start.compliant.items()
            yield Switch(
                stiffness={name: axis.stiffness for name, axis in soft},
                # A drive yields where it happens to be: the spring's rest position is set there, so that no force
                # jumps.
                rest={name: context.state.joints[joined.joint_index(name)] + axis.rest for name, axis in soft},
                damping={name: axis.damping for name, axis in soft},
            )

    def _clutch(self, context: RunContext, kind: str) -> Iterator[Change]:
        """Lock the soft axes (stopping those that move by an impact), or release them."""
        closed = [name for name in self.axes if name in context.world.locked]
        if kind == "rigid" and len(closed) < len(self.axes):
            yield Lock(self.axes, self.held)
        elif kind == "soft" and closed:
            yield Release(closed)

    def _phases(
        self,
        context: RunContext,
        end: float,
        function: EventFunction | None,
        *,
        locked: Sequence[str] | None = None,
        driven: Mapping[str, object] | None = None,
    ) -> Steps:
        """Phases until this time, or until the event function ends one."""
        while end - context.time > SHORTEST:
            cut = min(end, self._next_edge(context.time))
            yield self._phase(context.time, cut, event_function=function, locked=locked, driven=driven)
            if _ends_by_event(context):
                return True
            if end - context.time > SHORTEST:
                yield _Boundary()
        return False

    def _phase(
        self,
        begin: float,
        end: float,
        *,
        locked: Sequence[str] | None = None,
        driven: Mapping[str, object] | None = None,
        **more: object,
    ) -> Phase:
        paths = self.paths if driven is None else driven
        shifted = {name: as_signal(path, f"path of {name!r}").shift(-begin) for name, path in paths.items()}
        # A load that is over or still to come becomes zero: the same kernel, but no external load.
        loads = [load.clip_to_phase(begin, end, SHORTEST) for load in self.loads]
        held = [name for name in self.held if name not in paths] if locked is None else locked
        return Phase(end - begin, locked=held, driven=shifted, loads=loads, **more)  # type: ignore[arg-type]

    def _next_edge(self, time: float) -> float:
        """Time of the next start or end of a load, s."""
        edges = [edge for load in self.loads for edge in load.span if edge > time + SHORTEST]
        return min(edges, default=np.inf)

    def _rigid(self, context: RunContext, end: float, mode: ClutchMode) -> Iterator[Phase | Change]:
        """Rigid mode: all soft axes locked in their positions."""
        until = mode.until
        function = None
        if isinstance(until, SwitchAtOverload):
            function = overload_event(context.world, self.axes, until, self.loads)
        if (yield from self._phases(context, end, function)) and isinstance(until, SwitchAtOverload):
            yield from self._phases(context, min(self.duration, context.time + until.delay), None)

    def _soft(self, context: RunContext, end: float, mode: ClutchMode) -> Iterator[Phase | Change]:
        """Soft mode: all soft axes free; with an on-off law dampers switch whenever a spring or a rate crosses zero."""
        held = (*self.held, *context.world.locked)
        function = None
        if isinstance(mode.until, SwitchAtRest):
            function = rest_event(context.world, self.axes, held, mode.until, context.state.joints)
        if self.law is None:
            yield from self._phases(context, end, function)
            return
        robot, count, most = context.world.robot(ROBOT), 0, SPARE_SWITCHES + SWITCHES_PER_SECOND * (end - context.time)
        while end - context.time > SHORTEST:
            count += 1
            if count > most:
                raise SimulationError(
                    f"dampers have switched {count} times until t = {context.time:.3g} s of {self.duration:g} s: "
                    "a spring oscillates too fast for an on-off law",
                    place=f"robot {robot.name!r}",
                    hint="a softer contact or softer axes, constant damping, or a shorter run",
                )
            state = context.state
            # For an axis at rest, rounding would cross all switching surfaces at once: it would switch forever.
            moving = [name for name in self.axes if self.law.moves(robot, name, state)]
            cut = min(end, self._next_edge(context.time))
            if len(moving) < len(self.axes):
                cut = min(cut, context.time + LOOK_AGAIN)  # an axis at rest is not monitored, but checked again soon
            yield Switch(damping=self.law.damping(robot, self.axes, state))
            yield self._phase(context.time, cut, until=self.law.events(robot, moving), event_function=function)
            if _ends_by_event(context):
                break


def _ends_by_event(context: RunContext) -> bool:
    """Whether an event function has ended the last phase."""
    return any(event.kind == "function" for event in context.events)


__all__ = ["simulate_capture"]
