"""Soft motion in time: loads, clutch modes, semi-active damping, with one record of it all.

A run is a chain of stretches, each a :func:`spacearm.simulate.simulate` of its own with certificate; between them the
clutch may close (an impact, see :mod:`spacearm.capture.plastic_impact`), dampers switch, or a load begin or end: the
certificate follows the impulse of a load step by step, which nothing else needs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.capture.base_response import calm_program, load_program
from spacearm.capture.capture_run import CaptureRun, Stretch, assemble
from spacearm.capture.clutch import SOFT, At, Felt, Mode, Settled, checked
from spacearm.capture.modes import check_stiffness
from spacearm.capture.plastic_impact import Impact, check_joints, close_clutch
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import cushioning_axes, driven_joints
from spacearm.capture.target import Caught, Start, begin
from spacearm.engine import Kernel
from spacearm.errors import InputError, SimulationError, at
from spacearm.model import Robot
from spacearm.model.parts import finite
from spacearm.simulate import (
    CertificateWarning,
    Dopri853,
    EventFunction,
    Load,
    Phase,
    Reason,
    Run,
    RunWarning,
    State,
    simulate,
)
from spacearm.simulate.methods import Method
from spacearm.simulate.motion import motion
from spacearm.simulate.phase import sample_times
from spacearm.typing import Array

#: The absolute tolerance (m, rad, m/s, rad/s) lets impulses down to 1e-5 N s keep their energy to 1e-8.
METHOD = Dopri853(rtol=1e-11, atol=1e-15)
#: Shortest stretch, s: what is nearer to a switch than this belongs to the next one.
SHORTEST = 1e-12
#: An axis at rest is looked at again after this time, s.
LOOK_AGAIN = 0.1
#: How often on-off dampers may switch: so often in any case, and so often in each second that is left.
SPARE_SWITCHES, SWITCHES_PER_SECOND = 1000, 100


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
        start: state at time zero; or an impact (:func:`close_clutch`) or a capture (:func:`catch`) that leads to it
            and becomes part of the record. Joints that are held must stand still.
        loads: one or several, as :meth:`Load.pulse`, in time since the start of the run.
        duration: s.
        modes: of the clutch, which acts on all soft axes together, but not on those of a soft contact.
        damping: of the soft axes, in place of their own: one number (not for a soft contact), one for each named, or
            an on-off law.
        stiffness: of soft axes by name, in place of their own.
        free: joints other than soft axes that may move; all others are held by their drives.
        travel: a soft axis beyond its travel is an error, or an event in the outcome (``outcome.exceeded``).
        sample: interval or times of the samples, s.

    Raises:
        SimulationError: a soft axis left its travel (with the time), or the run broke down.
        InputError: unknown frames or joints, negative stiffness or damping.

    Warns:
        CertificateWarning: momentum, energy or a constraint was not kept (``outcome.sound`` is false).
    """
    if travel not in ("error", "report"):
        raise InputError(f"travel is {travel!r}", hint="expected 'error' or 'report'")
    if not (np.isfinite(duration) and duration > 0.0):
        raise InputError(f"lasts {duration} s", place="cushion", hint="expected seconds above zero")
    check_joints(robot, free, "free")
    axes, chosen = cushioning_axes(robot), checked(modes)
    held = driven_joints(robot, free)
    # What a capture sets in motion is not stopped in the same instant; elsewhere a clutch may close on moving axes.
    rigid = isinstance(start, Caught) and chosen[0].kind == "rigid"
    state, before = begin(robot, start, (*held, *axes) if rigid else held)
    chain = _Chain(
        robot,
        state,
        tuple(Phase(duration, loads=loads).loads),
        sample_times(sample, duration),
        held,
        method or METHOD,
        _overrides(robot, axes, None if isinstance(damping, OnOff) else damping, stiffness),
        duration,
        impacts=list(before),
    )
    switched = {name: max(damping.of(name), damping.off) for name in axes} if isinstance(damping, OnOff) else {}
    loaded = sum(max(0.0, min(end, duration) - max(0.0, start)) for start, end in (load.span for load in chain.loads))
    check_stiffness(robot, state.joints, chain.held, chain.overrides, switched, duration, loaded)
    chain.follow(chosen, axes, damping if isinstance(damping, OnOff) else None)
    outcome = assemble(robot, state, before, chain.stretches, chain.impacts, chain.switches)
    _judge(outcome, travel)
    return outcome


def _judge(outcome: CaptureRun, travel: str) -> None:
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
    """Arrays over all joints in place of the robot's own numbers."""
    if damping is not None and not isinstance(damping, Mapping):
        damping = dict.fromkeys(axes, damping)
    chosen: dict[str, Array] = {}
    for what, given in (("damping", damping), ("stiffness", stiffness)):
        if given is None:
            continue
        own = [joint.damping if what == "damping" else (joint.spring.stiffness if joint.spring else 0.0)
               for joint in robot.joints]  # fmt: skip
        values = np.array(own)
        for name, value in given.items():
            check_joints(robot, [name], what)
            with at(f"joint {name!r}", fallback=True):
                values[robot.joint_index(name)] = finite(value, what, least=0.0)
        chosen[what] = values
    return chosen


def _gauged(run: Run) -> bool:
    """Whether its gauge has ended a run."""
    return any(event.kind == "function" for event in run.events)


@dataclass(eq=False)
class _Chain:
    """Stretches one after the other."""

    robot: Robot
    state: State
    loads: tuple[Load, ...]
    grid: Array
    held: tuple[str, ...]
    method: Method
    overrides: dict[str, Array]
    duration: float
    time: float = 0.0
    stretches: list[Stretch] = field(default_factory=list)
    impacts: list[Impact] = field(default_factory=list)
    switches: list[tuple[float, str]] = field(default_factory=list)

    @property
    def left(self) -> float:
        return self.duration - self.time

    def follow(self, modes: Sequence[Mode], axes: Sequence[str], law: OnOff | None) -> None:
        """One mode of the clutch after the other, until the run is over."""
        for number, mode in enumerate(modes, 1):
            if self.left <= SHORTEST:
                break
            if isinstance(mode.until, At) and mode.until.time <= self.time + SHORTEST:
                raise SimulationError(
                    f"mode {number} ({mode.kind}) ends at {mode.until.time:g} s, but mode {number - 1} lasts until "
                    f"{self.time:.6g} s",
                    place="clutch",
                    hint="times count from the start of the run: a later one, or another way to end",
                )
            if mode.kind == "rigid":
                self.close((*self.held, *axes))
                self.rigid(mode.until, axes)
            elif law is not None:
                self.semi_active(mode.until, axes, law)
            else:
                self.soft(mode.until, axes)

    def close(self, joints: Sequence[str]) -> None:
        """Lock joints; what moves is stopped by an impact."""
        if not any(self.state.rates[self.robot.joint_index(name)] for name in joints):
            return
        impact = close_clutch(self.robot, self.state, joints, self.time)
        self.impacts.append(impact)
        self.state = impact.state

    def _phase(self, length: float, locked: Sequence[str], **more: object) -> Phase:
        # A load that is over or to come becomes zero: the same kernel, but nothing acts from outside.
        loads = [load.during(self.time, self.time + length, SHORTEST) for load in self.loads]
        return Phase(length, locked=(*self.held, *locked), loads=loads, **more)  # type: ignore[arg-type]

    def _go(self, phase: Phase, overrides: Mapping[str, Array] | None = None) -> Run:
        """Simulate a phase from here, and be at its end."""
        chosen = self.overrides if overrides is None else overrides
        samples = self._samples(phase.duration)
        with warnings.catch_warnings():
            # Travel and certificate are judged over the whole chain, a failure below.
            warnings.simplefilter("ignore", RunWarning)
            warnings.simplefilter("ignore", CertificateWarning)
            run = simulate(self.robot, self.state, phase, method=self.method, sample=samples, overrides=chosen)
        if run.end is None or run.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT):
            raise SimulationError(
                f"the run broke down at t = {self.time + run.end_time:.6g} s: {run.reason.text}",
                place=f"robot {self.robot.name!r}",
                hint="a weaker load, a softer contact, less damping, or a shorter run",
            )
        if run.end_time <= SHORTEST and _gauged(run):
            return run  # ended at once: no stretch
        self.stretches.append(Stretch(self.time, self.state, phase, chosen, run))
        self.time += run.end_time
        self.state = run.end
        return run

    def _stretch(self, length: float, locked: Sequence[str], gauge: EventFunction | None = None) -> bool:
        """Simulate for this long, or until the gauge ends it (true); a load that begins or ends is a stretch's end."""
        end = self.time + length
        while end - self.time > SHORTEST:
            cut = min(end, self._next_edge())
            run = self._go(self._phase(cut - self.time, locked, event_function=gauge))
            if _gauged(run):
                return True
            self.time = cut  # sums of stretches are no better than the times that were asked for
        return False

    def _next_edge(self) -> float:
        """When a load begins or ends next, s."""
        edges = [edge for load in self.loads for edge in load.span if edge > self.time + SHORTEST]
        return min(edges, default=np.inf)

    def _samples(self, length: float) -> Array:
        local = self.grid - self.time
        inside = local[(local > SHORTEST) & (local <= length + SHORTEST)]
        return np.concatenate([[0.0], inside])  # a stretch begins with a sample: its certificate starts there

    def soft(self, until: At | Felt | Settled | None, axes: Sequence[str]) -> None:
        """All soft axes free."""
        self.switches.append((self.time, "soft"))
        self._stretch(self._length(until), (), self._gauge(until, axes))

    def _length(self, until: At | Felt | Settled | None) -> float:
        return min(self.left, until.time - self.time) if isinstance(until, At) else self.left

    def _gauge(self, until: At | Felt | Settled | None, axes: Sequence[str]) -> EventFunction | None:
        """What ends a mode other than its time."""
        if isinstance(until, Settled):
            limits = until.slide, until.turn
            program = calm_program(self.robot, axes, self.held, limits, self.state.joints, self.overrides)
            return EventFunction(Kernel(program), ("settled",), ("falling",), ("phase",))
        if isinstance(until, Felt):
            model = motion(self.robot, tuple(dict.fromkeys(load.place for load in self.loads)))
            program = load_program(model, axes, (until.force, until.moment), self.overrides)
            # It comes from below: a load that is there at the start is felt at once.
            return EventFunction(Kernel(program), ("felt",), ("rising",), ("phase",), (-1,))
        return None

    def rigid(self, until: At | Felt | Settled | None, axes: Sequence[str]) -> None:
        """All soft axes locked where they are."""
        self.switches.append((self.time, "rigid"))
        felt = self._stretch(self._length(until), axes, self._gauge(until, axes))
        if felt and isinstance(until, Felt):
            self._stretch(min(self.left, until.delay), axes)

    def semi_active(self, until: At | Felt | Settled | None, axes: Sequence[str], law: OnOff) -> None:
        """Soft axes whose dampers switch whenever a spring or a rate goes through zero."""
        self.switches.append((self.time, "soft"))
        end = self.time + self._length(until)
        gauge = self._gauge(until, axes)
        most = len(self.stretches) + SPARE_SWITCHES + SWITCHES_PER_SECOND * self.left
        while end - self.time > SHORTEST:
            if len(self.stretches) > most:
                raise SimulationError(
                    f"dampers have switched {len(self.stretches)} times until t = {self.time:.3g} s of "
                    f"{self.duration:g} s: a spring swings too fast for an on-off law",
                    place=f"robot {self.robot.name!r}",
                    hint="a softer contact or softer axes, constant damping, or a shorter run",
                )
            moving = [name for name in axes if law.moves(self.robot, name, self.state)]
            length = min(end, self._next_edge()) - self.time
            if len(moving) < len(axes):
                length = min(length, LOOK_AGAIN)  # an axis at rest is not watched, but looked at again soon
            overrides = {**self.overrides, "damping": law.damping(self.robot, axes, self.state)}
            phase = self._phase(length, (), until=law.crossings(self.robot, moving), event_function=gauge)
            run = self._go(phase, overrides)
            if _gauged(run):
                break


__all__ = ["cushion"]
