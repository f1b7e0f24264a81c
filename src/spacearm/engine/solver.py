"""One phase of a run: step, locate events, accept. Compiled once, for any system.

Within a phase the inputs are piecewise polynomials and the set of watched events is fixed. The loop goes from break to
break of the inputs, within a piece from tick to tick of a sampled law, and there in steps of the error control, so that
no step lies across a discontinuity whose time is known. Discontinuities whose time follows from the motion (stick and
slip, levels, jumps of the memory of force elements) are events: the step is cut there, the equations are changed, and
the integration starts anew from that instant.

Methods: RK4 with a fixed step, DOP853, and DOP853 with a change to Radau IIA while the motion is stiff. A step is
judged by its embedded error, root mean square over the components with a tolerance; its length follows the PI control
of Hairer and Wanner (Solving Ordinary Differential Equations II, Sec. IV.2).

Time here is counted from the phase's start, in s; logs and samples have absolute time (``events.offset`` added). The
integrated vector ``y`` (ny,) is that of :class:`spacearm.engine.system.MotionKernelCode`. The loop allocates nothing,
raises nothing and can be left and continued: all that it knows stands in its arguments, and why it returned is a
number. What a phase is made from, and what follows it, is decided by callers.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine._call import call_kernel
from spacearm.engine._dop853 import (
    begin_stage,
    dop853_error,
    dop853_interpolant,
    dop853_result,
    fastest_rate,
    first_step,
)
from spacearm.engine.block import ArgumentBlock
from spacearm.engine.events import (
    can_cross,
    finish_step,
    first_event,
    has_crossed,
    jump_memory,
    mark_events_at_end,
    open_memory_signs,
    open_signs,
    start_signs,
    take_step,
    watch_direction,
)
from spacearm.engine.friction import settle
from spacearm.engine.kernel import Kernel
from spacearm.engine.law import brake_actions, cut_action, evaluate_law, fill_law_input, is_due, next_tick, store_answer
from spacearm.engine.loops import CompiledEntry, compile_inner
from spacearm.engine.radau import ERROR, ask_radau, renew
from spacearm.engine.record import (
    AUDIT_ROWS,
    SampleRecord,
    begin_audit,
    keep_audit,
    keep_peaks,
    keep_sample,
    log_event,
    look_at_drives,
    next_sample,
    sample,
)
from spacearm.engine.system import System, begin_rates, end_rates, finite, project, rates
from spacearm.typing import Array


class EndReason(IntEnum):
    """Why a run ended."""

    FINISHED = 0
    TERMINAL_EVENT = 1
    TOO_MANY_EVENTS = 2
    STEP_TOO_SMALL = 3
    NOT_FINITE = 4
    FRICTION_INDETERMINATE = 5
    TOO_MANY_STEPS = 6
    INTERRUPTED = 7

    @property
    def text(self) -> str:
        return _REASONS[self]


_REASONS = {
    EndReason.FINISHED: "finished",
    EndReason.TERMINAL_EVENT: "a terminal event ended the run",
    EndReason.TOO_MANY_EVENTS: "too many events: more than allowed in all, or a burst of them within 1e-8 s (chatter)",
    EndReason.STEP_TOO_SMALL: "the step fell below the resolution of time: the tolerance cannot be met (a singularity, "
    "or a right-hand side that is not smooth between breaks)",
    EndReason.NOT_FINITE: "the state or its rate became infinite or not a number",
    EndReason.FRICTION_INDETERMINATE: "no consistent set of sticking and slipping joints was found",
    EndReason.TOO_MANY_STEPS: "more steps than allowed",
    EndReason.INTERRUPTED: "interrupted",
}

#: In place of a reason: there is no room for more audit rows.
PAUSED = -1
#: In place of a reason: the answer of a law is awaited that is a function outside the loop.
ASKED = -3
#: In place of a reason: go on.
_ON = -2
#: In place of a reason: an evaluation of the motion kernel is awaited.
NEEDED = -5
# What a phase does next, in ``progress.part``; above zero: what follows the evaluation of this stage of DOP853.
_START, _INTERVAL, _STEP, _END, _LOCATE, _SAMPLES, _SAMPLE, _AUDIT, _AUDITED, _CLOSE = (-k for k in range(10))
#: Largest turn, rad, in a step where angles are watched: the Gauss points of the audit follow a force that turns so far
#: to 1e-12.
MOST_TURN = 1.0

# The reasons as plain numbers, which compiled code can use.
_FINISHED, _TERMINAL, _EVENTS, _SMALL, _NOT_FINITE, _INDETERMINATE, _STEPS, _INTERRUPTED = (int(r) for r in EndReason)


class EventKind(IntEnum):
    """What happened; ``value`` of the log is the slip's direction for friction, the level for a component."""

    STICK = 1  # a slipping joint stopped and stays
    SLIP = 2  # a resting joint broke loose
    REVERSE = 3  # a slipping joint went through zero speed without staying
    COMPONENT = 4
    FUNCTION = 5


class Options(NamedTuple):
    """How a phase is integrated."""

    method: int  # 0: RK4 with fixed step, 1: DOP853, 2: DOP853, and Radau IIA where that is stiff
    step: float  # RK4: the step; DOP853: the first step, 0 to choose it
    rtol: float
    atol: Array  # (nx,) or (ny,): of all that the error control looks at
    max_step: float
    max_steps: int
    max_events: int
    #: int64: components of the state that are angles, which turn by at most ``MOST_TURN`` in a step.
    turns: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)


class Progress(NamedTuple):
    """Where a phase is, so that it can be left and gone on with."""

    now: Array  # time, step to try next, error of the step before
    # int64: piece, rejected steps in a row that were not finite, events in a row without progress, whether steps are
    # implicit now, steps that would be better off so, steps in a row that would not
    position: Any
    fresh: Any  # bool: the piece has just begun; the phase has just begun
    stopped: Any  # (f,) bool: friction that has just come to rest
    before: Any  # (f,) int64: its status before
    g: Array  # event functions
    # int64: what is next; whether others evaluate the motion kernel; of the step: whether event functions are looked
    # at, whether it has samples, which function has crossed, audit rows so far
    part: Any
    step: Array  # its length; where it has to end; length up to its event, or -1; time of the next sample


def make_progress(system: System, options: Options) -> Progress:
    """At the start of a phase."""
    frictions = system.friction.dof.size
    return Progress(
        np.array([0.0, options.step, 1e-4]),
        np.zeros(6, dtype=np.int64),
        np.ones(2, dtype=np.bool_),
        np.zeros(frictions, dtype=np.bool_),
        np.zeros(frictions, dtype=np.int64),
        np.zeros(frictions + system.events.direction.size),
        np.zeros(6, dtype=np.int64),
        np.zeros(4),
    )


@compile_inner
def restart(options: Options, progress: Progress) -> None:
    """Back to the start of a phase."""
    progress.now[0], progress.now[1], progress.now[2] = 0.0, options.step, 1e-4
    for i in range(progress.position.size):
        progress.position[i] = 0
    progress.fresh[0] = progress.fresh[1] = True
    progress.part[0] = _START


#: So many events within so short a time are chatter.
BURST_EVENTS = 100
BURST_TIME = 1e-8
#: Steps to an event that are no longer than this, one after the other, do not count as progress, s.
NO_PROGRESS = 1e-12
#: Step with which the adaptive method goes on after a jump of the memory of force elements, s.
AFTER_JUMP = 1e-9
#: What swings is resolved by steps of 0.15 to 0.4 of the time of the fastest rate. Longer ones do not follow it: they
#: are held back by it, by accuracy (1 to 2) or stability (6). After so many such steps the implicit method takes over,
#: until so many have been so short that explicit ones cost less.
STIFF, STIFF_STEPS, NOT_STIFF, NOT_STIFF_STEPS = 0.5, 40, 3.0, 10
#: A step as far as an event is another one than the whole that was judged: beyond this error both are taken anew.
LATE_ERROR = 10.0
#: Joints that would stop within this time of each other stop together, s.
TOGETHER = 1e-12


@compile_inner
def _go_on(progress: Progress, part: int) -> int:
    """With this part next."""
    progress.part[0] = part
    return _ON


@compile_inner
def _await(progress: Progress, part: int) -> int:
    """With this part when the motion kernel's output is there."""
    progress.part[0] = part
    return NEEDED


@compile_inner
def _resolve_rest(system: System, piece: int, t: float, progress: Progress, record: SampleRecord) -> int:
    """Stop what has come to rest in ``y``, resolve friction, log what changed. Fresh ``k[0]`` follows."""
    friction, work, stopped = system.friction, system.work, progress.stopped
    if friction.dof.size == 0:
        return _ON
    # Rate at the end of the step, before anything was stopped: it says when the other joints would stop.
    rate = work.k[12]
    before = progress.before
    for i in range(before.size):
        before[i] = friction.status[i]
    # Joints that stop at the same instant, as symmetric ones do, differ by rounding. Stopped one after the other, each
    # would need a step of next to no length in between.
    for i in range(friction.dof.size):
        at = system.code.speed[friction.dof[i]]
        speed = friction.status[i] * work.y[at]
        if friction.status[i] != 0 and (
            stopped[i] or (speed > 0.0 and speed <= -friction.status[i] * rate[at] * TOGETHER)
        ):
            work.y[at] = 0.0
            friction.status[i] = 0
    # Velocities are exactly zero now; which joints stay at rest is a question of forces alone.
    if not settle(system, piece, t, work.y):
        return _INDETERMINATE if finite(work.dy) else _NOT_FINITE
    for i in range(friction.dof.size):
        now = friction.status[i]
        # A joint that stopped and went on in its old direction at once is worth an event; one that was never stopped is
        # not.
        if before[i] == now and not (stopped[i] and now != 0):
            continue
        kind = 1 if now == 0 else (2 if before[i] == 0 else 3)
        log_event(record, system.events.offset + t, kind, friction.dof[i], float(now if now != 0 else before[i]))
    return _ON


@compile_inner
def _log_crossing(system: System, number: int, t: float, record: SampleRecord) -> bool:
    """Log that a watched function has crossed; whether that ends the phase. A drive is cut off at its rate limit."""
    events, law = system.events, system.law
    if (
        number < law.bounds.size
        and law.bounds[number] >= 0
        and not cut_action(law, number, t, events.direction[number])
    ):
        return False
    kind = 4 if number < events.component.size else 5
    level = events.value[number] if kind == 4 else 0.0
    log_event(record, events.offset + t, kind, number, level)
    return bool(events.terminal[number])


@compile_inner
def _begin_interval(system: System, progress: Progress, record: SampleRecord) -> int:
    """Start afresh where inputs may have jumped: state on its paths, friction, ready for the rate."""
    work, piece, t = system.work, progress.position[0], progress.now[0]
    # Inputs may have jumped: put path-driven joints on the path of the new piece first, all else depends on it.
    project(system, piece, t, work.y)
    for i in range(progress.stopped.size):
        progress.stopped[i] = False
    # No rate from before the jump may decide what stops together with what.
    for i in range(system.code.ny):
        work.k[12, i] = 0.0
    if not finite(work.y):
        return _NOT_FINITE
    code = _resolve_rest(system, piece, t, progress, record)
    if code != _ON:
        return code
    begin_rates(system, piece, t, work.y)
    return _await(progress, _INTERVAL)


@compile_inner
def _end_interval(system: System, options: Options, progress: Progress, record: SampleRecord) -> int:
    """The rate there, sides of the event functions, the first step."""
    work, piece, t = system.work, progress.position[0], progress.now[0]
    end_rates(system, work.k[0])
    if not finite(work.k[0]):
        return _NOT_FINITE
    look_at_drives(system, work.y, record.peaks)
    keep_peaks(system, t, record)
    if progress.g.size > 0:
        start_signs(system, piece, t, progress.fresh[1])
        progress.fresh[1] = False
    renew(system)
    # Else the step of the piece before is kept: breaks are many (each tick of a law is one), and a step that is too
    # long for the new piece is rejected by its error.
    if progress.now[1] <= 0.0:
        progress.now[1] = first_step(system, piece, t, options.rtol, options.atol)
    progress.fresh[0] = False
    return _go_on(progress, _STEP)


@compile_inner
def _method(options: Options, progress: Progress) -> int:
    """Of the next step: 0 RK4, 1 DOP853, 2 Radau IIA."""
    return options.method if options.method < 2 else 1 + progress.position[3]


@compile_inner
def _judge_stiffness(system: System, progress: Progress, h: float) -> None:
    """Change from the explicit to the implicit method, or back, after a step that was taken."""
    at, note = progress.position, system.stiff.note
    if at[3] == 0:
        rate = fastest_rate(system, h, system.stiff.tolerance, note[0])
        # A count, with a reset after six steps in a row that were not stiff, as in Hairer's codes: one estimate by
        # itself is too noisy to change the method for it.
        if h * rate > STIFF:
            at[4] += 1
            at[5] = 0
            if at[4] >= STIFF_STEPS:
                at[3], at[4] = 1, 0
                # No interpolant of its own and no Jacobian yet; the fastest rate is kept, since the implicit method has
                # no estimate of it by which to find the change back.
                note[2] = note[4] = 0.0
                note[6] = rate
        else:
            at[5] += 1
            if at[5] >= 6:
                at[4] = 0
    else:
        at[5] = at[5] + 1 if h * note[6] < NOT_STIFF else 0
        if at[5] >= NOT_STIFF_STEPS:
            at[3] = at[5] = 0


@compile_inner
def _length(options: Options, progress: Progress, left: float) -> float:
    """Length of the next step: equal parts of what is left of the piece, or what the error control asks for."""
    # Rounded up, so that no step exceeds the one that was asked for; 1e-9 keeps a ratio that is whole but for rounding.
    if options.method == 0:
        return float(left / max(1.0, np.ceil(left / options.step - 1e-9)))
    h = min(progress.now[1], options.max_step)
    if h >= left:
        return float(left)
    # Two equal steps rather than a long one and a remainder that may be tiny.
    return float(0.5 * left if 2.0 * h > left else h)


@compile_inner
def _error(system: System, options: Options, method: int, piece: int, t: float, h: float) -> float:
    """Error of the step that was taken against its tolerance: at most 1 is good."""
    work = system.work
    if method == 1:
        error = float(dop853_error(h, work, options.rtol, options.atol))
    else:
        error = float(ask_radau(system, ERROR, piece, t, h))
    turned = 0.0
    for k in range(options.turns.size):
        i = options.turns[k]
        turned = max(turned, abs(work.y_new[i] - work.y[i]))
    # To the eighth power, as an error grows with the step: one too long is shortened to the turn that is allowed.
    excess = (turned / MOST_TURN) ** 8
    # An error that is not a number stays one.
    return excess if error < excess else error


@compile_inner
def _begin_step(system: System, options: Options, progress: Progress, record: SampleRecord) -> int:
    """The length of the next step, and its first stage; methods other than DOP853 take the whole."""
    left = progress.step[1] - progress.now[0]
    h = progress.step[0] = _length(options, progress, left)
    piece, t, method = progress.position[0], progress.now[0], _method(options, progress)
    if method == 1:
        begin_stage(system, piece, t, h, 1)
        return _await(progress, 1)
    return _judge_step(system, options, progress, record, take_step(system, method, piece, t, h))


@compile_inner
def _next_stage(system: System, options: Options, progress: Progress, record: SampleRecord) -> int:
    """From a stage of DOP853 to the next one: of the step, or of its interpolant."""
    stage, work, piece, t, h = progress.part[0], system.work, progress.position[0], progress.now[0], progress.step[0]
    end_rates(system, work.k[stage])
    if stage == 11:
        dop853_result(work, h, work.y_new)
        return _judge_step(system, options, progress, record, True)
    if stage == 15:
        dop853_interpolant(h, work)
        return _go_on(progress, _LOCATE)
    begin_stage(system, piece, t, h, stage + 1)
    return _await(progress, stage + 1)


@compile_inner
def _judge_step(system: System, options: Options, progress: Progress, record: SampleRecord, converged: bool) -> int:
    """Judge the step to ``y_new``: on to the rate at its end, or again with another length."""
    work, piece, t, method = system.work, progress.position[0], progress.now[0], _method(options, progress)
    h, last = progress.step[0], _is_last(progress)
    if method != 0:
        error = _error(system, options, method, piece, t, h) if converged else np.inf
        # Exponent of h in the error estimates: DOP853's combined one, and Radau's embedded one of order 5.
        order = 8.0 if method == 1 else 6.0
        # Written so that NaN is a rejection too.
        if not error <= 1.0:
            record.counts[3] += 1
            if np.isfinite(error):
                progress.now[1] = h * max(0.2, 0.9 * error ** (-1.0 / order))
            # Newton did not converge with a Jacobian of an earlier step: the same length again with a new one.
            elif method == 2 and system.stiff.note[4] == 2.0:
                system.stiff.note[4] = 0.0
            # With a new Jacobian too: the step is too long for it.
            elif method == 2 and finite(work.y_new):
                progress.now[1] = 0.25 * h
            # Infinite or NaN: a stage has left the domain of the equations. Go back fast, and give up after thirty
            # times.
            else:
                progress.position[1] += 1
                progress.now[1] = 0.1 * h
            if progress.position[1] > 30:
                return _NOT_FINITE
            # Time would no longer change: 4e-16 is about two roundings of it.
            if progress.now[1] < 4e-16 * (t + system.events.offset) or progress.now[1] < 1e-300:
                return _NOT_FINITE if progress.position[1] > 0 else _SMALL
            return _go_on(progress, _START)
        progress.position[1] = 0
        # PI control after Hairer, Norsett, Wanner, Sec. IV.2: exponent 1/8 - 0.2 beta, beta = 0.04.
        power = -0.117 if method == 1 else -1.0 / order
        factor = 0.9 * max(error, 1e-10) ** power * (progress.now[2] ** 0.04 if method == 1 else 1.0)
        progress.now[2] = max(error, 1e-4)
        longer = h * min(6.0, max(0.333, factor))
        if method == 2:
            # The same length again keeps the factors of its equations.
            if 1.0 <= factor < 1.2:
                longer = h
            # The Jacobian is taken anew unless iterations converge at once.
            system.stiff.note[4] = 2.0 if system.stiff.note[5] < 1e-3 else 0.0
        # The last step of a piece was cut to fit: it must not shorten the next one.
        progress.now[1] = max(progress.now[1], longer) if last else longer
    # After the error was judged: the embedded formulas belong to the state before projection.
    project(system, piece, t + h, work.y_new)
    if not finite(work.y_new):
        return _NOT_FINITE
    # The rate at the end is needed by the interpolants and is the first stage of the next step.
    begin_rates(system, piece, t + h, work.y_new)
    return _await(progress, _END)


@compile_inner
def _is_last(progress: Progress) -> bool:
    """Whether the step goes to the end of the piece, or to the next tick."""
    return bool(progress.step[0] >= progress.step[1] - progress.now[0])


@compile_inner
def _t_new(progress: Progress) -> float:
    """The end of the step."""
    # The end itself, not a sum: breaks are met to the last bit, so that the next piece begins there.
    return float(progress.step[1] if _is_last(progress) else progress.now[0] + progress.step[0])


@compile_inner
def _end_step(system: System, options: Options, progress: Progress, record: SampleRecord, audit: Array) -> int:
    """The rate at the end of the step; whether the interpolant is needed, and its first stage."""
    piece, t, h, method = progress.position[0], progress.now[0], progress.step[0], _method(options, progress)
    end_rates(system, system.work.k[12])
    look_at_drives(system, system.work.y_new, record.peaks)
    # Most steps are far from any level: then neither the interpolant nor event functions are evaluated.
    watching = progress.g.size > 0 and can_cross(system, h)
    row = record.counts[0]
    sampling = row < record.times.size and record.times[row] < system.events.offset + _t_new(progress)
    progress.part[2], progress.part[3] = watching, sampling
    # Radau also needs its interpolant as the first guess of the next step.
    if watching or sampling or audit.shape[0] > 0 or method == 2:
        if method == 1:
            begin_stage(system, piece, t, h, 13)
            return _await(progress, 13)
        finish_step(system, method, piece, t, h)
    return _go_on(progress, _LOCATE)


@compile_inner
def _find_event(system: System, options: Options, progress: Progress, record: SampleRecord, audit: Array) -> int:
    """Locate the first event of the step: the step's length up to it, or -1, and which function it is."""
    piece, t, h, method = progress.position[0], progress.now[0], progress.step[0], _method(options, progress)
    progress.step[2], sampling = -1.0, progress.part[3] != 0
    if progress.part[2] != 0:
        hit, tried, first = first_event(system, method, piece, t, h, progress.g)
        if tried:
            # Trial steps have used the stages: take the step once more, as far as it goes.
            length = hit if hit >= 0.0 else h
            converged = take_step(system, method, piece, t, length)
            # The step to the event has other stages than the whole one, and its error has not been judged yet.
            if method != 0 and not (converged and _error(system, options, method, piece, t, length) <= LATE_ERROR):
                record.counts[3] += 1
                progress.now[1] = 0.25 * h
                if not progress.now[1] > 4e-16 * (t + system.events.offset):
                    return _SMALL
                return _go_on(progress, _START)
            project(system, piece, t + length, system.work.y_new)
            rates(system, piece, t + length, system.work.y_new, system.work.k[12])
            look_at_drives(system, system.work.y_new, record.peaks)
            if sampling or audit.shape[0] > 0 or method == 2:
                finish_step(system, method, piece, t, length)
        progress.step[2], progress.part[4] = hit, first
    progress.part[5] = 0
    return _go_on(progress, _SAMPLES if sampling else _AUDIT)


@compile_inner
def _reached(progress: Progress) -> float:
    """Length of the step: up to its event, or the whole."""
    return float(progress.step[2] if progress.step[2] >= 0.0 else progress.step[0])


@compile_inner
def _next_sample(system: System, progress: Progress, record: SampleRecord) -> int:
    """The next sample within the step. Those after the instant of the event belong to what follows it."""
    piece, t, length = progress.position[0], progress.now[0], _reached(progress)
    wanted = next_sample(system, piece, t, length, record)
    if wanted < 0.0:
        return _go_on(progress, _AUDIT)
    if record.inp.shape[0] > 0:
        progress.step[3] = wanted
        begin_rates(system, piece, wanted, system.work.y_try)
        return _await(progress, _SAMPLE)
    keep_sample(system, wanted, system.work.y_try, record)
    return _ON


@compile_inner
def _next_audit(system: System, options: Options, progress: Progress, audit: Array) -> int:
    """The next audit row of the step."""
    length = _reached(progress)
    if audit.shape[0] == 0 or length <= 0.0 or progress.part[5] == AUDIT_ROWS:
        return _go_on(progress, _CLOSE)
    point, method = progress.part[5], _method(options, progress)
    begin_audit(system, method, progress.position[0], progress.now[0], length, point)
    return _await(progress, _AUDITED)


@compile_inner
def _close_step(system: System, options: Options, progress: Progress, record: SampleRecord) -> int:
    """Go on from the end of the step, or from its event."""
    # After the samples: it belongs to the next one.
    keep_peaks(system, progress.now[0] + _reached(progress), record)
    record.counts[2] += 1
    if progress.step[2] >= 0.0:
        code = _handle_event(system, options, progress, record, progress.step[2], progress.part[4], progress.step[1])
    else:
        _accept(system, options, progress, progress.step[0], _t_new(progress), progress.part[2] != 0)
        code = _ON
    progress.part[0] = _START
    return code


@compile_inner
def _accept(system: System, options: Options, progress: Progress, h: float, t_new: float, watching: bool) -> None:
    """Go on from the end of a step in which nothing happened."""
    work, events = system.work, system.events
    if options.method == 2:
        system.stiff.note[3] = 1.0  # the interpolant ends where the next step begins
        _judge_stiffness(system, progress, h)
    progress.now[0] = t_new
    progress.position[2] = 0
    for i in range(system.code.ny):
        work.y[i] = work.y_new[i]
        work.k[0, i] = work.k[12, i]
    count, last = system.friction.dof.size, events.nodes.shape[0] - 1
    # Values at the end are those at the start of the next step. A function that is exactly zero keeps its old side: it
    # has not crossed yet.
    for i in range(progress.g.size):
        # Out of reach there are levels only.
        value = events.nodes[last, i] if watching else work.y[events.component[i]] - events.value[i]
        events.nodes[0, i] = value
        if i >= count and value != 0.0:
            events.sign[i] = 1 if value > 0.0 else -1


@compile_inner
def _log_crossings(system: System, progress: Progress, record: SampleRecord, first: int) -> bool:
    """Log what has crossed at an event, and on which side everything is now; whether the phase ends."""
    friction, events, g = system.friction, system.events, progress.g
    ended = False
    for i in range(g.size):
        spent = i == first or has_crossed(events.sign[i], g[i], watch_direction(system, i))
        if i < friction.dof.size:
            progress.stopped[i] = spent and friction.status[i] != 0
            continue
        # A stop may now put the state onto the level that it has crossed: where it goes from there is open.
        if spent:
            ended = _log_crossing(system, i - friction.dof.size, progress.now[0], record) or ended
            events.sign[i] = 0
        elif g[i] != 0.0:
            events.sign[i] = 1 if g[i] > 0.0 else -1
    return ended


@compile_inner
def _handle_event(
    system: System, options: Options, progress: Progress, record: SampleRecord, hit: float, first: int, end: float
) -> int:
    """An event: log it, change what it changes, go on from there."""
    work, events, piece = system.work, system.events, progress.position[0]
    t = progress.now[0] = min(progress.now[0] + hit, end)
    for i in range(system.code.ny):
        work.y[i] = work.y_new[i]
    first_log = record.counts[1]
    # Before _log_crossings, which overwrites the signs that say what has crossed.
    jumped = system.feedback.watched > 0 and jump_memory(system, piece, t, progress.g, first)
    ended = _log_crossings(system, progress, record, first)
    if jumped:
        open_memory_signs(system)
        # The equations are others now: with the step of before, stages may jump over all that is new in them.
        progress.now[1] = min(progress.now[1], AFTER_JUMP)
        progress.position[3] = progress.position[4] = 0
    code = _resolve_rest(system, piece, t, progress, record)
    if code != _ON:
        return code
    # Joints that stop together are set to rest a moment early: that too reaches a level at zero speed.
    for number in range(events.component.size):
        i = system.friction.dof.size + number
        if progress.g[i] != 0.0 and work.y[events.component[number]] == events.value[number]:
            if events.sign[i] != 0 and events.sign[i] * events.direction[number] <= 0:
                ended = _log_crossing(system, number, t, record) or ended
            events.sign[i] = 0
    if ended:
        return _TERMINAL
    # Zeno's case: events at ever shorter distances would be located one by one for ever. Both a count of events without
    # progress and a burst in the log end that.
    progress.position[2] = progress.position[2] + 1 if hit <= NO_PROGRESS else 0
    logged, capacity = record.counts[1], record.log.shape[0]
    if progress.position[2] > BURST_EVENTS or logged >= options.max_events or logged > capacity:
        return _EVENTS
    if system.law.counts[2] > system.law.cuts.shape[0]:
        return _EVENTS
    burst = min(logged, capacity) - BURST_EVENTS
    if burst >= 0 and first_log < logged and record.log[logged - 1, 0] - record.log[burst, 0] < BURST_TIME:
        return _EVENTS
    # The equations are others from here on: no rate, Jacobian or interpolant of before may be used.
    rates(system, piece, t, work.y, work.k[0])
    look_at_drives(system, work.y, record.peaks)
    keep_peaks(system, t, record)
    renew(system)
    start_signs(system, piece, t, False)
    return _ON


@compile_inner
def _tick(system: System, progress: Progress) -> int:
    """The answer of a law at a tick, from which on the inputs are others; go on, or ``ASKED``."""
    law, piece, t, work = system.law, progress.position[0], progress.now[0], system.work
    if law.wrench_places.size > 0:
        rates(system, piece, t, work.y, work.dy)  # what acts now, and not where a step last looked
    if law.address != 0:
        evaluate_law(law, piece, t, work.y, work.inp)
    # A law in Python cannot be called from here: its input is prepared, the caller answers and calls solve again.
    elif law.counts[1] == 0:
        fill_law_input(law, piece, t, work.y, work.inp)
        return ASKED
    store_answer(law, t)
    brake_actions(law, system.events, t, work.y)
    progress.fresh[0] = True
    return _ON


@compile_inner
def _end(system: System, progress: Progress, record: SampleRecord) -> int:
    """Events that are met at the very end of the phase."""
    ended = False
    # An event exactly at the end has not crossed yet, and the next phase may not watch it: here is the last chance.
    if (
        system.events.direction.size > 0
        and mark_events_at_end(system, progress.position[0] - 1, progress.now[0], progress.g) > 0
    ):
        for i in range(system.friction.dof.size, progress.g.size):
            if progress.g[i] != 0.0:
                ended = _log_crossing(system, i - system.friction.dof.size, progress.now[0], record) or ended
    return _TERMINAL if ended else _FINISHED


@compile_inner
def _start_step(
    system: System, options: Options, progress: Progress, record: SampleRecord, audit: Array, stop: Any
) -> int:
    """What comes before a step: the next piece, limits, the tick of a law, what follows a jump."""
    breaks = system.signals.breaks
    if progress.fresh[1]:
        open_signs(system)
    while progress.position[0] < breaks.size - 1 and not progress.now[0] < breaks[progress.position[0] + 1]:
        progress.position[0] += 1
        progress.fresh[0] = True
    if progress.position[0] >= breaks.size - 1:
        return _end(system, progress, record)
    record.now[0] = system.events.offset + progress.now[0]
    if stop[0] != 0:
        return _INTERRUPTED
    if record.counts[2] + record.counts[3] >= options.max_steps:
        return _STEPS
    # Before the step, so that all its audit rows fit.
    if audit.shape[0] > 0 and record.counts[4] + AUDIT_ROWS > audit.shape[0]:
        return PAUSED
    if is_due(system.law, progress.now[0]):
        code = _tick(system, progress)
        if code != _ON:
            return code
    progress.step[1] = next_tick(system.law, breaks[progress.position[0] + 1])
    return _begin_interval(system, progress, record) if progress.fresh[0] else _go_on(progress, _STEP)


@compile_inner
def proceed(system: System, options: Options, progress: Progress, record: SampleRecord, audit: Array, stop: Any) -> int:
    """Integrate ``work.y`` as far as the next evaluation of the motion kernel, ``NEEDED``, or to the end: why.

    The kernel's input is in ``work.inp``; who has put its output into ``work.out`` calls again.
    """
    while True:
        part = progress.part[0]
        if part > 0:
            code = _next_stage(system, options, progress, record)
        elif part == _START:
            code = _start_step(system, options, progress, record, audit, stop)
        elif part == _INTERVAL:
            code = _end_interval(system, options, progress, record)
        elif part == _STEP:
            code = _begin_step(system, options, progress, record)
        elif part == _END:
            code = _end_step(system, options, progress, record, audit)
        elif part == _LOCATE:
            code = _find_event(system, options, progress, record, audit)
        elif part == _SAMPLES:
            code = _next_sample(system, progress, record)
        elif part == _SAMPLE:
            end_rates(system, system.work.dy)
            keep_sample(system, progress.step[3], system.work.y_try, record)
            code = _go_on(progress, _SAMPLES)
        elif part == _AUDIT:
            code = _next_audit(system, options, progress, audit)
        elif part == _AUDITED:
            end_rates(system, system.work.dy)
            keep_audit(
                system, _method(options, progress), progress.now[0], _reached(progress), progress.part[5], audit, record
            )
            progress.part[5] += 1
            code = _go_on(progress, _AUDIT)
        else:
            code = _close_step(system, options, progress, record)
        if code != _ON:
            if code != NEEDED:
                progress.part[0] = _START
            return code


@compile_inner
def integrate(
    system: System, options: Options, progress: Progress, record: SampleRecord, audit: Array, stop: Any
) -> int:
    """Integrate ``work.y`` over the grid of ``signals``; why it ended, as a number of :class:`EndReason`.

    Friction's status and ``work.y`` hold the state at the start and are left at the end; ``stop[0]`` set from another
    thread ends the run. When ``audit`` is full, the result is ``PAUSED``: the caller takes its ``record.counts[4]``
    rows, sets that count to zero and calls again. When it is ``ASKED``, the caller puts the answer to ``law.inp`` into
    ``law.out``, sets ``law.counts[1]`` and calls again. Where ``progress.part[1]`` is set it is ``NEEDED`` before each
    evaluation of the motion kernel in a step, which others make: see :func:`proceed`.
    """
    while True:
        code = proceed(system, options, progress, record, audit, stop)
        if code != NEEDED or progress.part[1] != 0:
            return code
        call_kernel(system.code.address, system.work.inp, system.work.out)


class SolverCall(NamedTuple):
    """All that :func:`integrate` takes."""

    system: System
    options: Options
    progress: Progress
    record: SampleRecord
    audit: Array
    stop: Any  # (1,) uint8


@CompiledEntry
def integrate_call(call: Any) -> int:
    """:func:`integrate` for Python."""
    return integrate(call.system, call.options, call.progress, call.record, call.audit, call.stop)


@CompiledEntry
def sample_call(call: Any) -> int:
    sample(call.system, call.progress.position[0], call.progress.now[0], call.system.work.y, call.record)
    return 0


class BoundSolver:
    """:func:`integrate` with its arguments, ready to be called time and again.

    ``kernel`` is that of the motion, where phases of several runs may be flown side by side.
    """

    def __init__(self, call: SolverCall, kernel: Kernel | None = None) -> None:
        self.call, self.kernel, self.block = call, kernel, ArgumentBlock(call)
        self._integrate = integrate_call.bind(self.block)

    def __call__(self) -> int:
        fly = _pilot.get()
        return self.fly_alone() if fly is None else fly(self)

    def fly_alone(self) -> int:
        """The call itself, whoever flies what is called in this thread."""
        return self._integrate()

    def keep_sample(self, piece: int) -> None:
        """Keep the state as the next sample, at the end of a phase, which lies in this piece."""
        self.call.progress.position[0] = piece
        sample_call(self.block)


#: Who flies the phases that are called in this thread, beside those of other runs; none: each is called by itself.
_pilot: ContextVar[Callable[[BoundSolver], int] | None] = ContextVar("pilot", default=None)


def set_pilot(fly: Callable[[BoundSolver], int]) -> None:
    """From now on this flies all phases that are called in this thread."""
    _pilot.set(fly)


def bind_solver(
    system: System,
    options: Options,
    progress: Progress,
    record: SampleRecord,
    audit: Array,
    stop: Any,
    kernel: Kernel | None = None,
) -> BoundSolver:
    """:func:`integrate` with these arguments."""
    return BoundSolver(SolverCall(system, options, progress, record, audit, stop), kernel)
