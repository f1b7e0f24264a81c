"""One phase of a run in time: steps, events, samples. Compiled once, for any robot.

Within a phase the inputs are piecewise polynomials and the set of watched events is fixed. Time here is counted from
the phase's start.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.dop853 import dop853_dense, dop853_error, first_step, hermite_dense
from spacearm.engine.events import (
    Events,
    crossed,
    locate,
    met_at_end,
    open_signs,
    scan,
    start_signs,
    take_step,
    trial,
    watched,
)
from spacearm.engine.friction import Contact, settle
from spacearm.engine.loops import compiled
from spacearm.engine.plant import Plant, Work, project, rates
from spacearm.engine.record import AUDIT_ROWS, Record, audit_step, log_event, samples_within
from spacearm.engine.signals import Signals
from spacearm.typing import Array

__all__ = ["EventKind", "Options", "Reason", "Record", "run_phase"]


#: What :func:`run_phase` returns in place of a reason when there is no room for more audit rows.
PAUSED = -1


class Reason(IntEnum):
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
    Reason.FINISHED: "finished",
    Reason.TERMINAL_EVENT: "a terminal event ended the run",
    Reason.TOO_MANY_EVENTS: "too many events: more than allowed in all, or a burst of them within 1e-8 s (chatter)",
    Reason.STEP_TOO_SMALL: "the step fell below the resolution of time: the tolerance cannot be met (a singularity, or "
    "a right-hand side that is not smooth between breaks)",
    Reason.NOT_FINITE: "the state or its rate became infinite or not a number",
    Reason.FRICTION_INDETERMINATE: "no consistent set of sticking and slipping joints was found",
    Reason.TOO_MANY_STEPS: "more steps than allowed",
    Reason.INTERRUPTED: "interrupted",
}


class EventKind(IntEnum):
    """What happened; ``value`` of the log is the slip's direction for friction, the level for a component."""

    STICK = 1  # a slipping joint stopped and stays
    SLIP = 2  # a resting joint broke loose
    REVERSE = 3  # a slipping joint went through zero speed without staying
    COMPONENT = 4
    FUNCTION = 5


class Options(NamedTuple):
    """How a phase is integrated."""

    method: int  # 0: RK4 with fixed step, 1: DOP853
    step: float  # RK4: the step; DOP853: the first step, 0 to choose it
    rtol: float
    max_step: float
    max_steps: int
    max_events: int


#: So many events within so short a time are chatter.
BURST_EVENTS = 100
BURST_TIME = 1e-8
#: Steps to an event that are no longer than this, one after the other, do not count as progress, s.
NO_PROGRESS = 1e-12
#: Joints that would stop within this time of each other stop together, s.
TOGETHER = 1e-12


@compiled
def _finite(y: Array) -> bool:
    total = 0.0
    for i in range(y.size):
        total += abs(y[i])
    return bool(np.isfinite(total))


@compiled
def _rest(
    plant: Plant,
    signals: Signals,
    piece: int,
    t: float,
    contact: Contact,
    events: Events,
    work: Work,
    record: Record,
    stopped: Any,
) -> bool:
    """Stop what has come to rest in ``work.y``, resolve friction, log what changed. Fresh ``work.k[0]`` follows."""
    count = contact.dof.size
    rate = work.k[12]
    before = contact.status.copy()
    for i in range(count):
        at = plant.nx - plant.nv + contact.dof[i]
        speed = contact.status[i] * work.y[at]
        if contact.status[i] != 0 and (
            stopped[i] or (speed > 0.0 and speed <= -contact.status[i] * rate[at] * TOGETHER)
        ):
            work.y[at] = 0.0
            contact.status[i] = 0
    if not settle(plant, signals, piece, t, work.y, contact, work):
        return False
    for i in range(count):
        at = plant.nx - plant.nv + contact.dof[i]
        now = contact.status[i]
        if before[i] == now and not (stopped[i] and now != 0):
            continue
        kind = 1 if now == 0 else (2 if before[i] == 0 else 3)
        log_event(record, events.offset + t, kind, contact.dof[i], float(now if now != 0 else before[i]))
    return True


@compiled
def _log_watched(number: int, t: float, events: Events, record: Record) -> bool:
    """Log that a watched function has crossed; whether that ends the phase."""
    kind = 4 if number < events.component.size else 5
    level = events.value[number] if kind == 4 else 0.0
    log_event(record, events.offset + t, kind, number, level)
    return bool(events.terminal[number])


@compiled
def _finish_step(
    method: int, plant: Plant, signals: Signals, piece: int, t: float, h: float, work: Work, dense: bool
) -> None:
    """Rate at the end of the step in ``k[12]``, and the interpolant if it is needed."""
    rates(plant, signals, piece, t + h, work.y_new, work, work.k[12])
    if dense:
        if method == 0:
            hermite_dense(h, work)
        else:
            dop853_dense(plant, signals, piece, t, h, work)


@compiled
def _first_event(
    method: int,
    plant: Plant,
    signals: Signals,
    piece: int,
    t: float,
    h: float,
    contact: Contact,
    events: Events,
    work: Work,
    g: Array,
) -> tuple[float, bool, int]:
    """(length after which the first event of the step has just happened or -1, whether trial steps were taken, which).

    The event functions at that instant are left in ``g``.
    """
    first, low, high = scan(plant, signals, piece, t, h, contact, events, work, g)
    if first < 0:
        return -1.0, False, -1
    found = locate(method, plant, signals, piece, t, first, low * h, high * h, contact, events, work, g)
    if found < 0.0 and high < 1.0:
        found = locate(method, plant, signals, piece, t, first, low * h, h, contact, events, work, g)
    if found < 0.0:
        return -1.0, True, -1
    # Another function may have crossed before that: find the earliest.
    for _ in range(g.size + 1):
        trial(method, plant, signals, piece, t, found, contact, events, work, g)
        other = -1
        for i in range(g.size):
            if i != first and crossed(events.sign[i], g[i], watched(contact, events, i)):
                other = i
                break
        if other < 0:
            break
        earlier = locate(method, plant, signals, piece, t, other, 0.0, found, contact, events, work, g)
        if earlier < 0.0 or earlier >= found - 1e-13:
            break
        found, first = earlier, other
    trial(method, plant, signals, piece, t, found, contact, events, work, g)
    return found, True, first


@compiled
def run_phase(
    plant: Plant,
    signals: Signals,
    contact: Contact,
    events: Events,
    options: Options,
    atol: Array,
    work: Work,
    record: Record,
    audit: Array,
    stop: Any,
) -> tuple[int, float, float]:
    """Integrate ``work.y`` over the grid of ``signals``: (reason, time reached, last step).

    ``contact.status`` and ``work.y`` hold the state at the start and are left at the end; ``stop[0]`` set from another
    thread ends the run. When ``audit`` is full, the reason is ``PAUSED``: the caller takes its ``record.counts[4]``
    rows, sets that count to zero and calls again with the same arguments.
    """
    audited = audit.shape[0] > 0
    y, y_new, k = work.y, work.y_new, work.k
    watching = contact.dof.size + events.direction.size > 0
    g = np.zeros(contact.dof.size + events.direction.size)
    stopped = np.zeros(contact.dof.size, dtype=np.bool_)
    limit = plant.nx if atol.size == plant.nx else plant.ny
    t = 0.0
    h = options.step
    old_error = 1e-4
    first_piece = 0
    bad = 0
    idle = 0
    opening = fresh = True
    pause = work.pause
    resumed = pause[0] != 0.0
    pause[0] = 0.0
    if resumed:
        t, h, old_error = pause[1], pause[2], pause[3]
        first_piece, bad, idle = int(pause[4]), int(pause[5]), int(pause[6])
        opening, fresh = pause[7] != 0.0, pause[8] != 0.0
    else:
        open_signs(contact, events)
    for piece in range(first_piece, signals.breaks.size - 1):
        end = signals.breaks[piece + 1]
        if not resumed:
            fresh = True
        resumed = False
        while t < end:
            record.now[0] = events.offset + t
            if stop[0] != 0:
                return 7, t, h
            if record.counts[2] + record.counts[3] >= options.max_steps:
                return 6, t, h
            if audited and record.counts[4] + AUDIT_ROWS > audit.shape[0]:
                pause[0], pause[1], pause[2], pause[3] = 1.0, t, h, old_error
                pause[4], pause[5], pause[6] = piece, bad, idle
                pause[7], pause[8] = 1.0 if opening else 0.0, 1.0 if fresh else 0.0
                return PAUSED, t, h
            if fresh:
                project(plant, signals, piece, t, y)
                for i in range(stopped.size):
                    stopped[i] = False
                for i in range(plant.ny):
                    k[12, i] = 0.0
                if not _finite(y):
                    return 4, t, h
                if contact.dof.size > 0 and not _rest(plant, signals, piece, t, contact, events, work, record, stopped):
                    return (5 if _finite(work.dy) else 4), t, h
                rates(plant, signals, piece, t, y, work, k[0])
                if not _finite(k[0]):
                    return 4, t, h
                if watching:
                    start_signs(plant, signals, piece, t, contact, events, work, opening)
                    opening = False
                if h <= 0.0:
                    h = first_step(plant, signals, piece, t, options.rtol, atol, work)
                fresh = False
            left = end - t
            if options.method == 0:
                parts = max(1.0, np.ceil(left / options.step - 1e-9))
                trial_h = left / parts
            else:
                trial_h = min(h, options.max_step)
                if trial_h >= left:
                    trial_h = left
                elif 2.0 * trial_h > left:
                    trial_h = 0.5 * left
            last = trial_h >= left
            take_step(options.method, plant, signals, piece, t, trial_h, work)
            if options.method != 0:
                error = dop853_error(trial_h, y[:limit], y_new[:limit], k, options.rtol, atol)
                if not error <= 1.0:
                    record.counts[3] += 1
                    if np.isfinite(error):
                        h = trial_h * max(0.2, 0.9 * error**-0.125)
                    else:
                        bad += 1
                        h = 0.1 * trial_h
                    if bad > 30:
                        return 4, t, h
                    if h < 4e-16 * (t + events.offset) or h < 1e-300:
                        return (4 if bad > 0 else 3), t, h
                    continue
                bad = 0
                # PI control after Hairer, Norsett, Wanner, Sec. IV.2: exponent 1/8 - 0.2 beta, beta = 0.04.
                factor = 0.9 * max(error, 1e-10) ** -0.117 * old_error**0.04
                old_error = max(error, 1e-4)
                h = max(h, trial_h * min(6.0, max(0.333, factor))) if last else trial_h * min(6.0, max(0.333, factor))
            project(plant, signals, piece, t + trial_h, y_new)
            if not _finite(y_new):
                return 4, t, h
            t_new = end if last else t + trial_h
            sampling = record.counts[0] < record.times.size and record.times[record.counts[0]] < events.offset + t_new
            dense = watching or sampling or audited
            _finish_step(options.method, plant, signals, piece, t, trial_h, work, dense)
            hit, first = -1.0, -1
            if watching:
                hit, tried, first = _first_event(
                    options.method, plant, signals, piece, t, trial_h, contact, events, work, g
                )
                if tried:
                    # Trial steps have used the stages: take the step once more, as far as it goes.
                    length = hit if hit >= 0.0 else trial_h
                    take_step(options.method, plant, signals, piece, t, length, work)
                    project(plant, signals, piece, t + length, y_new)
                    _finish_step(options.method, plant, signals, piece, t, length, work, sampling or audited)
            length = hit if hit >= 0.0 else trial_h
            if sampling:
                samples_within(plant, signals, piece, t, length, events.offset, work, record)
            if audited and length > 0.0:
                audit_step(plant, signals, piece, t, length, events.offset, work, audit, record)
            record.counts[2] += 1
            if hit < 0.0:
                t = t_new
                for i in range(plant.ny):
                    y[i] = y_new[i]
                    k[0, i] = k[12, i]
                if watching:
                    for i in range(g.size):
                        value = events.nodes[events.nodes.shape[0] - 1, i]
                        events.nodes[0, i] = value
                        if i >= contact.dof.size and value != 0.0:
                            events.sign[i] = 1 if value > 0.0 else -1
                idle = 0
                continue
            # An event: log it, change what it changes, go on from there.
            t = min(t + hit, end)
            for i in range(plant.ny):
                y[i] = y_new[i]
            ended = False
            first_log = record.counts[1]
            for i in range(g.size):
                spent = i == first or crossed(events.sign[i], g[i], watched(contact, events, i))
                if i < contact.dof.size:
                    stopped[i] = spent and contact.status[i] != 0
                    continue
                if spent:
                    number = i - contact.dof.size
                    ended = _log_watched(number, t, events, record) or ended
                # A stop may now put the state onto the level that it has crossed: where it goes from there is open.
                if spent:
                    events.sign[i] = 0
                elif g[i] != 0.0:
                    events.sign[i] = 1 if g[i] > 0.0 else -1
            if contact.dof.size > 0 and not _rest(plant, signals, piece, t, contact, events, work, record, stopped):
                return (5 if _finite(work.dy) else 4), t, h
            # Joints that stop together are set to rest a moment early: that too reaches a level at zero speed.
            for number in range(events.component.size):
                i = contact.dof.size + number
                if g[i] != 0.0 and y[events.component[number]] == events.value[number]:
                    if events.sign[i] != 0 and events.sign[i] * events.direction[number] <= 0:
                        ended = _log_watched(number, t, events, record) or ended
                    events.sign[i] = 0
            if ended:
                return 1, t, h
            idle = idle + 1 if hit <= NO_PROGRESS else 0
            logged = record.counts[1]
            if idle > BURST_EVENTS:
                return 2, t, h
            if logged >= options.max_events or logged > record.log.shape[0]:
                return 2, t, h
            burst = min(logged, record.log.shape[0]) - BURST_EVENTS
            if burst >= 0 and first_log < logged and record.log[logged - 1, 0] - record.log[burst, 0] < BURST_TIME:
                return 2, t, h
            rates(plant, signals, piece, t, y, work, k[0])
            if watching:
                start_signs(plant, signals, piece, t, contact, events, work, False)
    ended = False
    last_piece = signals.breaks.size - 2
    if events.direction.size > 0 and met_at_end(plant, signals, last_piece, t, contact, events, work, g) > 0:
        for i in range(contact.dof.size, g.size):
            if g[i] != 0.0:
                ended = _log_watched(i - contact.dof.size, t, events, record) or ended
    return (1 if ended else 0), t, h
