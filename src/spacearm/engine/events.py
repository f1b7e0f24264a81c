"""Events: the first instant within a step at which a friction state, a component or a function changes sign.

Event functions g (f + c + o + l,) in this order: f joints with dry friction (what is left of holding force, or the
speed in the direction of slip), c components of y less their levels, o outputs of event kernels (the user's, then those
of force elements), l numbers of a continuous law. A crossing is a change of sign against the side on which a function
was last seen (``events.sign``: -1, +1, 0 unknown), in the direction that is watched.

Two stages. :func:`scan` evaluates the functions on the interpolant of the step at nine points, and searches between
them where a function comes near zero and goes away again. :func:`locate` then finds the instant by real steps of trial
length from the step's start, so that it is as accurate as the method and not as its interpolant. The instant that is
returned is always just after the crossing: the sign has changed there, which makes the event's effect unambiguous.
Times are in s from the phase's start, bracketed to 1e-13 s.

Not found: two crossings of one function between neighbouring points where the values at the points show no minimum of
its distance from zero. What an event changes is decided in :mod:`spacearm.engine.solver`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.engine._call import call_kernel
from spacearm.engine._dop853 import dense_value, dop853_dense, dop853_step, hermite_dense
from spacearm.engine._rk4 import rk4_step
from spacearm.engine.friction import SLACK
from spacearm.engine.loops import compile_inner
from spacearm.engine.radau import DENSE_OUTPUT, STEP, ask_radau
from spacearm.engine.system import System, apply_memory_jump, feedback_events, project, rates
from spacearm.typing import Array

#: Points of a step at which signs are looked at: Chebyshev, denser at the ends.
NODES = 0.5 * (1.0 - np.cos(np.pi * np.arange(9) / 8.0))
#: Width, in seconds, to which the instant of an event is bracketed (and a few units in the last place of the time).
TIME_TOLERANCE = 1e-13
#: Share of a level (and of what is compared with it) that is rounding.
ROUNDING = 4e-16


@compile_inner
def event_values(system: System, piece: int, t: float, y: Array, g: Array) -> None:
    """Values of all event functions. Friction: what is left of holding force, or the speed in the slip's direction."""
    code, friction, events, work = system.code, system.friction, system.events, system.work
    count = friction.dof.size
    outputs = events.inp.size > code.nx + 1  # the event kernel reads what the motion kernel puts out
    laws = system.events.direction.size - events.component.size - events.out.size  # functions of a continuous law
    evaluated = outputs or laws > 0
    for i in range(count):
        evaluated = evaluated or friction.status[i] == 0
    # Reactions, kernel outputs and laws need the rates; levels and slipping joints do not, and an evaluation costs more
    # than all the rest here.
    if evaluated:
        rates(system, piece, t, y, work.dy)
    for i in range(count):
        j = friction.dof[i]
        if friction.status[i] == 0:
            # The same slack as in settle: what that has left at rest must not break loose again at once by rounding.
            g[i] = friction.static[i] * (1.0 + SLACK) - abs(work.out[code.reaction + j])
        else:
            g[i] = friction.status[i] * y[code.speed[j]]
    for i in range(events.component.size):
        g[count + i] = y[events.component[i]] - events.value[i]
    count += events.component.size
    own = events.out.size - system.feedback.watched
    if own > 0:
        for i in range(code.nx):
            events.inp[i] = y[i]
        events.inp[code.nx] = events.offset + t
        if outputs:
            for i in range(work.out.size):
                events.inp[code.nx + 1 + i] = work.out[i]
        call_kernel(events.address, events.inp, events.out)
    if system.feedback.watched > 0:
        feedback_events(system, piece, t, y, events.out[own:])
    for i in range(events.out.size):
        g[count + i] = events.out[i]
    count += events.out.size
    for i in range(laws):
        g[count + i] = system.law.out[system.law.watched + i]


@compile_inner
def has_crossed(before: int, value: float, direction: int) -> bool:
    """Whether a function that had the sign ``before`` has gone through zero in the direction watched."""
    return (before > 0 and value < 0.0 and direction <= 0) or (before < 0 and value > 0.0 and direction >= 0)


@compile_inner
def watch_direction(system: System, i: int) -> int:
    """The direction in which function ``i`` is watched; friction is spent when it falls."""
    count = system.friction.dof.size
    return -1 if i < count else system.events.direction[i - count]


@compile_inner
def open_signs(system: System) -> None:
    """Sides at the start of a phase: those that the phase before left, else still to be seen."""
    events, count = system.events, system.friction.dof.size
    for i in range(events.sides.size):
        events.sign[count + i] = events.sides[i]


@compile_inner
def start_signs(system: System, piece: int, t: float, opening: bool) -> None:
    """Set ``events.sign`` at the start of a smooth interval. Friction counts as not spent.

    A side that is known stays: a function that is zero at a break, or that rounding moves across zero there, has not
    crossed yet and must be found on the other side later.
    """
    events = system.events
    g = events.nodes[0]
    event_values(system, piece, t, system.work.y, g)
    count = system.friction.dof.size
    for i in range(g.size):
        if i < count:
            events.sign[i] = 1
        elif events.sign[i] == 0:
            events.sign[i] = 1 if g[i] > 0.0 else (-1 if g[i] < 0.0 else 0)
            if events.sign[i] == 0 and opening:
                events.sign[i] = events.home[i - count]
        if i >= count and opening:
            events.opening[i - count] = g[i]


@compile_inner
def mark_events_at_end(system: System, piece: int, t: float, g: Array) -> int:
    """How many watched functions have reached zero at the very end of a phase, ``work.y``; they are marked in ``g``.

    Reached is: zero, or (components only) so near that it would be zero within the width to which instants are
    bracketed. What has been there since the phase's start has not reached it. The side that is left is such that the
    next phase does not find the same again, whether it goes on or rests.
    """
    events, work = system.events, system.work
    event_values(system, piece, t, work.y, g)
    count = system.friction.dof.size
    width = TIME_TOLERANCE + ROUNDING * (abs(t) + abs(events.offset))
    found = 0
    for i in range(g.size):
        left = g[i]
        g[i] = 0.0
        sign = events.sign[i]
        # Friction is settled by the next phase; the other direction is not watched; what is across already was found
        # within the step.
        if i < count or sign == 0 or sign * events.direction[i - count] > 0 or sign * left < 0.0:
            continue
        slack = drift = 0.0
        if i - count < events.component.size:
            component = events.component[i - count]
            slack = ROUNDING * (abs(events.value[i - count]) + abs(work.y[component]))
            # A level that would be met within the width of the bracket is met: else it would depend on rounding whether
            # this phase finds it or the next.
            drift = width * work.k[0, component]
        if abs(events.opening[i - count]) > slack and sign * (left + drift) <= slack:
            g[i] = 1.0
            found += 1
            if sign * (left + drift) < 0.0:
                events.sign[i] = -sign
            elif left == 0.0:
                events.sign[i] = 0
    return found


@compile_inner
def jump_memory(system: System, piece: int, t: float, g: Array, first: int) -> bool:
    """The memory of force elements in ``work.y`` after what has crossed at an event; whether anything has."""
    events = system.events
    end = system.friction.dof.size + events.component.size + events.out.size
    before = end - system.feedback.watched
    changed = False
    for i in range(before, end):
        if i == first or has_crossed(events.sign[i], g[i], watch_direction(system, i)):
            apply_memory_jump(system, piece, t, system.work.y, i - before)
            changed = True
    return changed


@compile_inner
def open_memory_signs(system: System) -> None:
    """After a jump of the memory the event functions of force elements are others: their sides are still to be seen."""
    end = system.friction.dof.size + system.events.component.size + system.events.out.size
    for i in range(end - system.feedback.watched, end):
        system.events.sign[i] = 0


@compile_inner
def _interpolate_events(system: System, piece: int, t: float, h: float, theta: float, g: Array) -> None:
    """Event functions on the interpolant of the last step."""
    work = system.work
    dense_value(theta, work.y, work.dense, work.y_try)
    project(system, piece, t + theta * h, work.y_try)
    event_values(system, piece, t + theta * h, work.y_try, g)


@compile_inner
def _find_dip(system: System, piece: int, t: float, h: float, i: int, k: int, g: Array) -> float:
    """Fraction of the step at which function ``i`` is across zero between the points next to ``k``; -1 if nowhere.

    Its distance from zero is least at point ``k``, with one sign at all three points: it may have crossed twice.
    """
    nodes = system.events.nodes
    sign = 1.0 if nodes[k, i] > 0.0 else -1.0
    low, high = NODES[k - 1], NODES[k + 1]
    left, middle, right = sign * nodes[k - 1, i], sign * nodes[k, i], sign * nodes[k + 1, i]
    a, b = NODES[k] - low, high - NODES[k]
    slope_left, slope_right = (middle - left) / a, (right - middle) / b
    curvature = (slope_right - slope_left) / (a + b)
    slope = (slope_left * b + slope_right * a) / (a + b)
    # The parabola through the three points tells whether it is worth a search.
    if curvature <= 0.0 or middle - slope * slope / (4.0 * curvature) > 0.5 * middle:
        return -1.0
    # Golden section for the minimum; any negative value before that is enough.
    for _ in range(40):
        x1 = low + 0.381966 * (high - low)
        x2 = high - 0.381966 * (high - low)
        _interpolate_events(system, piece, t, h, x1, g)
        g1 = sign * g[i]
        if g1 < 0.0:
            return float(x1)
        _interpolate_events(system, piece, t, h, x2, g)
        g2 = sign * g[i]
        if g2 < 0.0:
            return float(x2)
        if g1 < g2:
            high = x2
        else:
            low = x1
        # A minimum is flat: closer than the root of the rounding its place has no meaning.
        if high - low < 1e-7:
            break
    return -1.0


@compile_inner
def _find_jump(system: System, piece: int, t: float, h: float, i: int, g: Array) -> float:
    """Fraction of the step at which function ``i``, put across zero by a jump of an input, still is; -1 if nowhere.

    It may be back before the first point that is looked at.
    """
    theta = NODES[1]
    for _ in range(40):
        _interpolate_events(system, piece, t, h, theta, g)
        if has_crossed(system.events.sign[i], g[i], watch_direction(system, i)):
            return float(theta)
        # An input that jumps and comes back at once may do so within any share of the step.
        theta *= 0.5
    return -1.0


@compile_inner
def _is_quiet(sign: Any, nodes: Array) -> bool:
    """Whether nothing can have crossed: all functions keep their side at all points, and none comes nearer within.

    Most steps are like that. Without branches, so that the functions are looked at several at a time.
    """
    last = nodes.shape[0] - 1
    found = 0
    for k in range(1, last + 1):
        for i in range(sign.size):
            found |= not sign[i] * nodes[k, i] > 0.0
    if found:
        return False
    for k in range(1, last):
        for i in range(sign.size):
            left, middle, right = abs(nodes[k - 1, i]), abs(nodes[k, i]), abs(nodes[k + 1, i])
            # All three alike: a function that does not change.
            found |= (middle <= left) & (middle <= right) & ((middle < left) | (middle < right))
    return found == 0


@compile_inner
def scan(system: System, piece: int, t: float, h: float, g: Array) -> tuple[int, float, float]:
    """(function, low, high): the first interval of the step, as fractions, in which one crosses; or (-1, 0, 0).

    ``work.dense`` holds the step's interpolant. Leaves ``events.sign`` at the step's start.
    """
    events = system.events
    nodes = events.nodes
    size = g.size
    points = nodes.shape[0]  # not NODES.size: a constant bound would be unrolled
    for k in range(1, points):
        _interpolate_events(system, piece, t, h, NODES[k], nodes[k])
    # What depends on inputs can jump at a break. Components are continuous there and friction has been settled: across
    # zero at the start they are so by rounding, and count as zero.
    outputs = system.friction.dof.size + events.component.size
    for i in range(size):
        if events.sign[i] * nodes[0, i] < 0.0:
            theta = _find_jump(system, piece, t, h, i, g) if i >= outputs else -1.0
            nodes[0, i] = 0.0
            if theta > 0.0:
                return i, 0.0, theta
    if _is_quiet(events.sign, nodes):
        return -1, 0.0, 0.0
    for k in range(1, points):
        for i in range(size):
            # The side before point k: a point at which the function is exactly zero leaves it as it was.
            m = k - 1
            while m > 0 and nodes[m, i] == 0.0:
                m -= 1
            before = events.sign[i] if m == 0 else (1 if nodes[m, i] > 0.0 else -1)
            direction = watch_direction(system, i)
            if has_crossed(before, nodes[k, i], direction):
                return i, NODES[k - 1], NODES[k]
            # No change of sign at the points, but a minimum of the distance: look between them.
            if k < points - 1 and before * nodes[k, i] > 0.0 and before * direction <= 0:
                left, middle, right = abs(nodes[k - 1, i]), abs(nodes[k, i]), abs(nodes[k + 1, i])
                if middle <= left and middle <= right and before * nodes[k + 1, i] > 0.0:
                    theta = _find_dip(system, piece, t, h, i, k, g)
                    if theta > 0.0:
                        return i, NODES[k - 1], theta
    return -1, 0.0, 0.0


@compile_inner
def take_step(system: System, method: int, piece: int, t: float, h: float) -> bool:
    """One step of a method from ``work.y`` with the rate ``work.k[0]`` to ``work.y_new``, not yet projected.

    Whether it came about: iterations of the implicit method may not converge.
    """
    if method == 0:
        rk4_step(system, piece, t, h, system.work.y_new)
    elif method == 1:
        dop853_step(system, piece, t, h, system.work.y_new)
    else:
        return bool(ask_radau(system, STEP, piece, t, h) != 0.0)
    return True


@compile_inner
def try_step(system: System, method: int, piece: int, t: float, h: float, g: Array) -> None:
    """A real step of length ``h`` to ``work.y_new`` and the event functions there."""
    take_step(system, method, piece, t, h)
    project(system, piece, t + h, system.work.y_new)
    event_values(system, piece, t + h, system.work.y_new, g)


@compile_inner
def locate(system: System, method: int, piece: int, t: float, i: int, low: float, high: float, g: Array) -> float:
    """Length of the step after which function ``i`` has just crossed, between ``low`` and ``high``; -1 if it does not.

    Bracketing with inverse quadratic steps: T. R. Chandrupatla, Adv. Eng. Software 28 (1997) 145.
    """
    events, direction = system.events, watch_direction(system, i)
    # The side that is left: with a direction it is given, and may have been reached within the step only.
    sign = -1.0 if direction > 0 else 1.0
    if direction == 0:
        sign = 1.0 if events.sign[i] > 0 else -1.0
        if events.sign[i] == 0:
            try_step(system, method, piece, t, low, g)
            sign = 1.0 if g[i] > 0.0 else -1.0
    # The interpolant has seen a crossing; the method itself decides. It may cross a little later, or not at all.
    try_step(system, method, piece, t, high, g)
    f_high = sign * g[i]
    if not f_high < 0.0:
        return -1.0
    f_low = 0.0
    if low > 0.0:
        try_step(system, method, piece, t, low, g)
        f_low = sign * g[i]
        # The method crosses even before: widen the bracket to the step's start.
        if f_low < 0.0:
            high, f_high, low = low, f_low, 0.0
    # Known from before. Its distance without the sign: zero at the start counts as not yet crossed.
    if low == 0.0:
        f_low = abs(events.nodes[0, i])
    tolerance = TIME_TOLERANCE + ROUNDING * (abs(t) + abs(events.offset))
    a, fa, b, fb = high, f_high, low, f_low
    c, fc = b, fb
    # a is the newest point, b the one across the root from it, c the one before: bisection first.
    share = 0.5
    for _ in range(100):
        x = a + share * (b - a)
        try_step(system, method, piece, t, x, g)
        fx = sign * g[i]
        if (fx < 0.0) == (fa < 0.0):
            c, fc = a, fa
        else:
            c, fc, b, fb = b, fb, a, fa
        a, fa = x, fx
        width = abs(b - a)
        if width <= tolerance:
            break
        least = 0.5 * tolerance / width
        xi = (a - b) / (c - b)
        phi = (fa - fb) / (fc - fb)
        share = 0.5
        # Inverse quadratic interpolation only where it is certain to be monotone on the bracket (Chandrupatla's
        # criterion).
        if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
            share = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        # At least half a tolerance from both ends, so that each trial shrinks the bracket.
        share = min(1.0 - least, max(least, share))
    # The end that is across: the event has happened there.
    return a if fa < 0.0 else b


@compile_inner
def first_event(system: System, method: int, piece: int, t: float, h: float, g: Array) -> tuple[float, bool, int]:
    """(length after which the first event of the step has just happened or -1, whether trial steps were taken, which).

    The event functions at that instant are left in ``g``.
    """
    first, low, high = scan(system, piece, t, h, g)
    if first < 0:
        return -1.0, False, -1
    found = locate(system, method, piece, t, first, low * h, high * h, g)
    # Interpolant and method may disagree about where: search the rest of the step before giving up.
    if found < 0.0 and high < 1.0:
        found = locate(system, method, piece, t, first, low * h, h, g)
    if found < 0.0:
        return -1.0, True, -1
    # Another function may have crossed before that: find the earliest.
    for _ in range(g.size + 1):
        try_step(system, method, piece, t, found, g)
        other = -1
        for i in range(g.size):
            if i != first and has_crossed(system.events.sign[i], g[i], watch_direction(system, i)):
                other = i
                break
        if other < 0:
            break
        # Bracketed by the start and the event found so far; ends when nothing else is across, at most once for each
        # function.
        earlier = locate(system, method, piece, t, other, 0.0, found, g)
        if earlier < 0.0 or earlier >= found - 1e-13:
            break
        found, first = earlier, other
    # Locating has left other values: end with state and functions at the instant itself.
    try_step(system, method, piece, t, found, g)
    return found, True, first


@compile_inner
def finish_step(system: System, method: int, piece: int, t: float, h: float) -> None:
    """The interpolant of the step that was taken, the rate at its end being in ``k[12]``."""
    if method == 0:
        hermite_dense(h, system.work)
    elif method == 1:
        dop853_dense(system, piece, t, h)
    else:
        ask_radau(system, DENSE_OUTPUT, piece, t, h)


@compile_inner
def can_cross(system: System, h: float) -> bool:
    """Whether anything can happen within the step: a level is left alone that its component is far from.

    Far is: further than the largest rate at any stage would carry the component in twice the time.
    """
    events, work = system.events, system.work
    count = system.friction.dof.size
    # Bounds are known for components only; anything else has to be looked at.
    if count > 0 or events.direction.size > events.component.size:
        return True
    for i in range(events.component.size):
        component = events.component[i]
        away = work.y[component] - events.value[i]
        # A side that is unknown, or a level just reached, is always looked at.
        if events.sign[i] == 0 or events.sign[i] * away <= 0.0:
            return True
        fastest = 0.0
        for stage in range(work.k.shape[0] - 3):
            fastest = max(fastest, abs(work.k[stage, component]))
        if not abs(away) > 2.0 * h * fastest:
            return True
    return False
