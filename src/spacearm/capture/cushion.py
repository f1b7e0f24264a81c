"""Soft motion in time, one run of phases and changes: approach, contact, clutch modes, loads, semi-active damping.

Contact is a change of the world (a target is attached, drives give way to springs), and so is a clutch that closes (an
impact) or opens and a damper that switches. A load that begins or ends also ends a stretch of the record, which then
has both sides of its jump; the certificate follows the impulse of a load step by step, which nothing else needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm.capture.capture_run import CaptureRun
from spacearm.capture.clutch import SOFT, At, Felt, Mode, Settled, clutch_modes, felt, settled
from spacearm.capture.modes import check_stiffness
from spacearm.capture.plastic_impact import ROBOT, Impact
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import cushioning_axes, held_joints
from spacearm.capture.target import Approach, Caught, Start, relative_twist, start_state
from spacearm.checks import known, non_negative, one_of, positive
from spacearm.errors import SimulationError
from spacearm.model import Robot
from spacearm.simulate import (
    Attach,
    CertificateWarning,
    Change,
    Dopri853,
    EventFunction,
    Here,
    Load,
    Lock,
    Phase,
    Reason,
    Release,
    RunWarning,
    State,
    Switch,
    World,
    simulate,
)
from spacearm.simulate.changes import OWN, Changed, Terms
from spacearm.simulate.methods import Method
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

#: The absolute tolerance (m, rad, m/s, rad/s) lets impulses down to 1e-5 N s keep their energy to 1e-8.
METHOD = Dopri853(rtol=1e-11, atol=1e-15)
#: Shortest phase, s: what is nearer to a switch than this belongs to the next one.
SHORTEST = 1e-12
#: An axis at rest is looked at again after this time, s.
LOOK_AGAIN = 0.1
#: How often on-off dampers may switch: so often in any case, and so often in each second that is left.
SPARE_SWITCHES, SWITCHES_PER_SECOND = 1000, 100
#: Phases and changes, one after the other; whether an event function ended the last phase.
Steps: TypeAlias = Generator[Phase | Change, None, bool]


def cushion(
    robot: Robot,
    start: Start,
    loads: Sequence[Load] = (),
    *,
    duration: float = 60.0,
    modes: Mode | Sequence[Mode] = SOFT,
    damping: float | Mapping[str, float] | OnOff | None = None,
    stiffness: Mapping[str, float] | None = None,
    free: Sequence[str] = (),
    travel: Literal["error", "report"] = "error",
    sample: float | npt.ArrayLike = 0.02,
    method: Method | None = None,
) -> CaptureRun:
    """Run a robot with soft joints.

    Args:
        start: state at time zero; an impact (:func:`close_clutch`) or a capture (:func:`catch`) that leads to it; or an
            :class:`Approach` that ends with a capture. All of them become part of the record. Joints that are held
            must stand still.
        loads: one or several, as :meth:`Load.pulse`, in time since the start of the run.
        duration: s.
        modes: of the clutch, which acts on all soft axes together, but not on those of a soft contact. After an
            approach the first one begins at contact; until then the clutch is closed.
        damping: of the soft axes, in place of their own: one number (not for a soft contact), one for each named, or
            an on-off law.
        stiffness: of soft axes by name, in place of their own.
        free: joints other than soft axes that may move; all others are held by their drives.
        travel: a soft axis beyond its travel is an error, or an event in the record (``exceeded``).
        sample: interval or times of the samples, s.

    Raises:
        SimulationError: a soft axis left its travel (with the time), or the run broke down.
        InputError: unknown frames or joints, negative stiffness or damping.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept (``sound`` is false).
    """
    one_of(travel, ("error", "report"), "travel")
    positive(duration, "duration", place="cushion", unit="s")
    for name in free:
        known(name, robot.joint_names, "joint", place="free")
    law = damping if isinstance(damping, OnOff) else None
    axes = cushioning_axes(robot)
    numbers = _overrides(robot, axes, None if isinstance(damping, OnOff) else damping, stiffness)
    course = _Course(robot, start, tuple(Phase(duration, loads=loads).loads), duration, clutch_modes(modes), law, free)
    world, states = course.beginning(numbers)
    switched = {name: max(law.of(name), law.off) for name in axes} if law is not None else {}
    # Under load the certificate follows every step, which costs memory: the check counts these steps apart.
    loaded = sum(max(0.0, min(end, duration) - max(0.0, begin)) for begin, end in (load.span for load in course.loads))
    # Refused before the run: an explicit method on a stiff design would only be slow, not wrong, and nobody could see
    # why.
    check_stiffness(robot, course.configuration, course.held, numbers, switched, duration, loaded)
    with warnings.catch_warnings():
        # Travel and certificate are looked at below, and so is a run that broke down.
        warnings.simplefilter("ignore", RunWarning)
        warnings.simplefilter("ignore", CertificateWarning)
        run = simulate(world, states, course, duration=duration, method=method or METHOD, sample=sample)
    if run.ends is None or run.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT):
        raise SimulationError(
            f"the run broke down at t = {run.end_time:.6g} s: {run.reason.text}",
            place=f"robot {robot.name!r}",
            hint="a weaker load, a softer contact, less damping, or a shorter run",
        )
    outcome = CaptureRun(run, tuple(course.switches), start if isinstance(start, Caught) else course.caught)
    _report(outcome, travel)
    return outcome


def _report(outcome: CaptureRun, travel: str) -> None:
    """Warn of what was not kept; an axis beyond its travel is an error unless it is only to be reported."""
    if not outcome.sound:
        bad = "; ".join(outcome.certificate.faults)
        warnings.warn(f"conservation check failed: {bad}", CertificateWarning, stacklevel=3)
    if travel == "error" and outcome.exceeded:
        first = outcome.exceeded[0]
        raise SimulationError(
            f"travel of {first.joint!r} is exceeded at t = {first.time:.6g} s: it passes {first.limit:g} {first.unit} "
            f"and goes to {first.reached:.6g} {first.unit}",
            place=f"robot {outcome.robot.name!r}",
            hint="more travel, stiffness or damping; or travel='report' to go on",
        )


def _overrides(
    robot: Robot,
    axes: Sequence[str],
    damping: float | Mapping[str, float] | None,
    stiffness: Mapping[str, float] | None,
) -> dict[str, Array]:
    """Numbers in place of the robot's own, as for :func:`~spacearm.simulate.simulate`."""
    if damping is not None and not isinstance(damping, Mapping):
        damping = dict.fromkeys(axes, damping)
    chosen: dict[str, Array] = {}
    for what, given in (("damping", damping), ("stiffness", stiffness)):
        if given is None:
            continue
        values = robot_parameters(robot)[what].copy()
        for name, value in given.items():
            known(name, robot.joint_names, "joint", place=what)
            # Counted from the end: damping has six entries of the base in front (6 + n), stiffness has none (n).
            values[robot.joint_index(name) - robot.n] = non_negative(value, what, place=f"joint {name!r}")
        chosen[what] = values
    return chosen


class _Boundary(Change):
    """A load begins or ends: the record has both sides of its jump."""

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        del terms
        return Changed(world, states, "a load begins or ends")


@dataclass(eq=False)
class _Course:
    """The phases and changes of a soft motion, each chosen when the one before is over."""

    robot: Robot
    start: Start
    loads: tuple[Load, ...]
    duration: float
    modes: tuple[Mode, ...]
    law: OnOff | None
    free: Sequence[str]
    switches: list[tuple[float, str]] = field(default_factory=list)
    caught: Caught | None = None

    def __post_init__(self) -> None:
        self.axes = cushioning_axes(self.robot)
        compliant = self.start.compliant if isinstance(self.start, Approach) else ()
        self.held = held_joints(self.robot, (*self.free, *compliant))

    @property
    def paths(self) -> dict[str, object]:
        """Of joints that are driven all along."""
        driven = self.start.driven if isinstance(self.start, Approach) else {}
        return {name: path for name, path in driven.items() if name in self.held}

    def beginning(self, numbers: Mapping[str, Array]) -> tuple[World, dict[str, State]]:
        """The world and its states before anything happens, with these numbers in place of the robot's own."""
        start, frames = self.start, tuple(dict.fromkeys(load.place for load in self.loads))
        options = {"overrides": {ROBOT: numbers} if numbers else {}, "loads": frames}
        if isinstance(start, Approach):
            start.check(self.robot)
            positive(self.duration - start.duration, "time left after contact", place="approach", unit="s")
            target = start.target
            self.configuration = start.state.joints
            states = {ROBOT: start.state, target.name: start.target_start(self.robot, self.loads)}
            return World({ROBOT: self.robot, target.name: target.body}, **options), states  # type: ignore[arg-type]
        # What a capture sets in motion is not stopped in the same instant; elsewhere a clutch may close on moving axes.
        rigid = isinstance(start, Caught) and self.modes[0].kind == "rigid"
        state = start_state(self.robot, start, (*self.held, *self.axes) if rigid else self.held)
        self.configuration = state.joints
        impact = start.impact if isinstance(start, Caught) else start
        if isinstance(impact, Impact):
            return impact.world.replace(**options), dict(impact.states)
        return World({ROBOT: self.robot}, **options), {ROBOT: state}  # type: ignore[arg-type]

    def __call__(self, here: Here) -> Iterator[Phase | Change]:
        """All of it, until the run is over."""
        yield from self._contact(here)
        for number, mode in enumerate(self.modes, 1):
            if self.duration - here.time <= SHORTEST:
                break
            if isinstance(mode.until, At) and mode.until.time <= here.time + SHORTEST:
                raise SimulationError(
                    f"mode {number} ({mode.kind}) ends at {mode.until.time:g} s, but mode {number - 1} lasts until "
                    f"{here.time:.6g} s",
                    place="clutch",
                    hint="times count from the start of the run: a later one, or another way to end",
                )
            self.switches.append((here.time, mode.kind))
            yield from self._clutch(here, mode.kind)
            end = mode.until.time if isinstance(mode.until, At) else self.duration
            yield from (self._rigid if mode.kind == "rigid" else self._soft)(here, min(end, self.duration), mode)

    def _contact(self, here: Here) -> Iterator[Phase | Change]:
        """What leads to the soft motion: an impact at once, or an approach with a capture at its end."""
        start = self.start
        impact = start.impact if isinstance(start, Caught) else start
        if isinstance(impact, Impact):
            yield impact.change
        if not isinstance(start, Approach):
            return
        # Until contact the clutch is closed: soft axes are locked too, whatever the first mode.
        locked = [name for name in self.robot.joint_names if name not in start.driven]
        yield from self._phases(here, start.duration, None, locked=locked, driven=start.driven)
        rigid = self.axes if self.modes[0].kind == "rigid" else ()
        impact = Impact(here.world, here.states, Attach(start.target.name, start.hand, (*self.held, *rigid)))
        yield impact.change
        before, target = impact.states[ROBOT], start.target
        relative = relative_twist(self.robot, before, target, start.hand)
        self.caught = Caught(impact.robot, here.state, start.hand, target, impact, relative, target.inertia)
        if start.compliant:
            joined, soft = here.world.robot(ROBOT), start.compliant.items()
            yield Switch(
                stiffness={name: axis.stiffness for name, axis in soft},
                # A drive gives way where it happens to be: the spring's rest goes there, so no force jumps.
                rest={name: here.state.joints[joined.joint_index(name)] + axis.rest for name, axis in soft},
                damping={name: axis.damping for name, axis in soft},
            )

    def _clutch(self, here: Here, kind: str) -> Iterator[Change]:
        """Lock the soft axes (what moves is stopped by an impact), or let them go."""
        closed = [name for name in self.axes if name in here.world.locked]
        if kind == "rigid" and len(closed) < len(self.axes):
            yield Lock(self.axes, self.held)
        elif kind == "soft" and closed:
            yield Release(closed)

    def _phases(
        self,
        here: Here,
        end: float,
        function: EventFunction | None,
        *,
        locked: Sequence[str] | None = None,
        driven: Mapping[str, object] | None = None,
    ) -> Steps:
        """Until this time, or until the event function ends it."""
        while end - here.time > SHORTEST:
            cut = min(end, self._next_edge(here.time))
            yield self._phase(here.time, cut, event_function=function, locked=locked, driven=driven)
            if _ended(here):
                return True
            if end - here.time > SHORTEST:
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
        shifted = {name: as_signal(path, f"path of {name!r}").shifted(-begin) for name, path in paths.items()}
        # A load that is over or to come becomes zero: the same kernel, but nothing acts from outside.
        loads = [load.during(begin, end, SHORTEST) for load in self.loads]
        held = [name for name in self.held if name not in paths] if locked is None else locked
        return Phase(end - begin, locked=held, driven=shifted, loads=loads, **more)  # type: ignore[arg-type]

    def _next_edge(self, time: float) -> float:
        """When a load begins or ends next, s."""
        edges = [edge for load in self.loads for edge in load.span if edge > time + SHORTEST]
        return min(edges, default=np.inf)

    def _rigid(self, here: Here, end: float, mode: Mode) -> Iterator[Phase | Change]:
        """All soft axes locked where they are."""
        until = mode.until
        function = None
        if isinstance(until, Felt):
            function = felt(here.world, self.axes, until, self.loads)
        if (yield from self._phases(here, end, function)) and isinstance(until, Felt):
            yield from self._phases(here, min(self.duration, here.time + until.delay), None)

    def _soft(self, here: Here, end: float, mode: Mode) -> Iterator[Phase | Change]:
        """All soft axes free; with an on-off law dampers switch whenever a spring or a rate goes through zero."""
        held = (*self.held, *here.world.locked)
        function = None
        if isinstance(mode.until, Settled):
            function = settled(here.world, self.axes, held, mode.until, here.state.joints)
        if self.law is None:
            yield from self._phases(here, end, function)
            return
        robot, count, most = here.world.robot(ROBOT), 0, SPARE_SWITCHES + SWITCHES_PER_SECOND * (end - here.time)
        while end - here.time > SHORTEST:
            count += 1
            if count > most:
                raise SimulationError(
                    f"dampers have switched {count} times until t = {here.time:.3g} s of {self.duration:g} s: a spring "
                    "swings too fast for an on-off law",
                    place=f"robot {robot.name!r}",
                    hint="a softer contact or softer axes, constant damping, or a shorter run",
                )
            state = here.state
            # Switching surfaces of an axis at rest are all crossed at once by rounding: it would switch without end.
            moving = [name for name in self.axes if self.law.moves(robot, name, state)]
            cut = min(end, self._next_edge(here.time))
            if len(moving) < len(self.axes):
                cut = min(cut, here.time + LOOK_AGAIN)  # an axis at rest is not watched, but looked at again soon
            yield Switch(damping=self.law.damping(robot, self.axes, state))
            yield self._phase(here.time, cut, until=self.law.events(robot, moving), event_function=function)
            if _ended(here):
                break


def _ended(here: Here) -> bool:
    """Whether an event function has ended the last phase."""
    return any(event.kind == "function" for event in here.events)


__all__ = ["cushion"]
