"""Functions of time as piecewise polynomials: forces, wrenches, paths of joints.

One form serves all: pulses, tables and splines are polynomials exactly; a half-sine and functions of the user are cut
into pieces of degree 8, interpolated at Chebyshev's nodes and halved until each follows the function (L. N. Trefethen,
Approximation Theory and Approximation Practice, 2013). Compiled loops then evaluate a signal by Horner's scheme in the
time since its piece began: powers of absolute time would lose digits late in a run. Derivatives and integrals are
exact.

Time is counted from the start of the phase in which a signal is used. Signals are right-continuous, and breaks are the
only places where they or their derivatives jump: integrators end a step there, so that every step is smooth. The outer
pieces go on for ever; constructors put constant ones there. Values in SI units.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from spacearm.checks import numbers
from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.typing import Array

Ends: TypeAlias = Literal["clamped", "natural", "not-a-knot"]
#: Degree of the polynomials that approximate a given function: low, so that powers of time stay well-conditioned.
PIECE_DEGREE = 8
MOST_PIECES = 20000


@dataclass(frozen=True, eq=False)
class Signal:
    """``sum_d coefficients[d, p] * (t - breaks[p])**d`` on piece ``p``; the outer pieces go on for ever.

    Args:
        breaks: (pieces + 1,) s, rising.
        coefficients: (degree + 1, pieces), lowest power first.
    """

    breaks: Array
    coefficients: Array

    def __post_init__(self) -> None:
        breaks = np.array(self.breaks, dtype=np.float64)
        coefficients = np.array(self.coefficients, dtype=np.float64)
        if breaks.ndim != 1 or breaks.size < 2 or coefficients.ndim != 2 or coefficients.shape[1] != breaks.size - 1:
            raise InputError("breaks and coefficients do not fit together", place="signal")
        if not (np.isfinite(breaks).all() and (breaks[1:] > breaks[:-1]).all()):
            raise InputError("breaks must be finite and rise", place="signal")
        breaks.setflags(write=False)
        coefficients.setflags(write=False)
        object.__setattr__(self, "breaks", breaks)
        object.__setattr__(self, "coefficients", coefficients)

    def __repr__(self) -> str:
        if self.coefficients.size == 1:
            return f"Signal({self.coefficients[0, 0]:g})"
        return f"Signal({self.breaks[0]:g} to {self.breaks[-1]:g} s, {self.breaks.size - 1} pieces)"

    def __call__(self, time: npt.ArrayLike) -> Any:
        t = np.asarray(time, dtype=np.float64)
        # Inner breaks only: the outer pieces go on for ever.
        piece = np.searchsorted(self.breaks[1:-1], t, side="right")
        local = t - self.breaks[piece]
        value = np.zeros_like(t)
        for row in self.coefficients[::-1]:
            # Horner, in time since the piece's own start: powers of absolute time would lose digits late in a run.
            value = value * local + row[piece]
        return value if t.ndim else float(value)

    def derivative(self) -> Signal:
        """Rate of change, piece by piece (jumps are not seen)."""
        return self._rate

    @cached_property
    def _rate(self) -> Signal:
        if self.coefficients.shape[0] == 1:
            # Most references of laws are constants: they share one zero.
            own = self.breaks is _ZERO.breaks
            return _ZERO if own else self._with_coefficients(np.zeros_like(self.coefficients))
        powers = np.arange(1, self.coefficients.shape[0])[:, None]
        return self._with_coefficients(self.coefficients[1:] * powers)

    def _with_coefficients(self, coefficients: Array) -> Signal:
        """A signal on the same pieces, which need no second check."""
        # Without __post_init__: breaks are checked already, and this is called for every derivative.
        found = object.__new__(Signal)
        coefficients.setflags(write=False)
        object.__setattr__(found, "breaks", self.breaks)
        object.__setattr__(found, "coefficients", coefficients)
        return found

    def with_pieces(self, coefficients: Array) -> Signal:
        """A signal of these pieces (degree + 1, pieces - 2) between constant ones, on the breaks of this one."""
        return self._with_coefficients(_hold_values(self.breaks, coefficients))

    def shift(self, by: float) -> Signal:
        """The signal ``by`` seconds later."""
        return Signal(self.breaks + by, self.coefficients)

    def window(self, duration: float) -> Signal:
        """The same during [0, duration), zero outside."""
        inner = self.breaks[(self.breaks > 0.0) & (self.breaks < duration)]
        # The middle of an interval tells its piece: its ends lie on breaks, where rounding would decide.
        edges = np.array([0.0, *inner, duration])
        pieces = np.clip(np.searchsorted(self.breaks, 0.5 * (edges[1:] + edges[:-1])) - 1, 0, self.breaks.size - 2)
        polynomial = np.polynomial.Polynomial
        columns = []
        for left, piece in zip(edges[:-1], pieces, strict=True):
            # Taylor shift to the new left edge.
            moved = polynomial(self.coefficients[:, piece])(polynomial([left - self.breaks[piece], 1.0])).coef
            columns.append(np.pad(moved, (0, self.coefficients.shape[0] - moved.size)))
        return _zero_outside(Signal(edges, np.stack(columns, axis=1)))

    @property
    def span(self) -> tuple[float, float]:
        """First and last time between which it is not zero all along, s; outer pieces go on for ever."""
        acts = np.flatnonzero(np.any(self.coefficients != 0.0, axis=0))
        if not acts.size:
            return 0.0, 0.0
        first, last = acts[0], acts[-1] + 1
        return (
            -math.inf if first == 0 else float(self.breaks[first]),
            math.inf if last == self.breaks.size - 1 else float(self.breaks[last]),
        )

    @property
    def integral(self) -> float:
        """Over all time; infinite for what does not end."""
        if not np.all(np.isfinite(self.span)):
            return math.inf
        widths, powers = np.diff(self.breaks), np.arange(1, self.coefficients.shape[0] + 1)[:, None]
        return float(np.sum(self.coefficients * widths**powers / powers))

    def __mul__(self, factor: float) -> Signal:
        return self._with_coefficients(self.coefficients * float(factor))

    __rmul__ = __mul__

    def __neg__(self) -> Signal:
        return self * -1.0

    def __add__(self, other: Signal | float) -> Signal:
        from spacearm.engine.signals import merge

        second = as_signal(other, "signal")
        low = min(self.breaks[0], second.breaks[0])
        high = max(self.breaks[-1], second.breaks[-1])
        first = self.shift(-low)
        second = second.shift(-low)
        # Both from time zero on, as merge expects: shifted to the earlier start and back.
        merged = merge([(0, first.breaks, first.coefficients), (1, second.breaks, second.coefficients)], high - low)
        return Signal(merged.breaks + low, merged.coefficient.sum(axis=2))

    __radd__ = __add__

    @cached_property
    def finite(self) -> bool:
        return bool(np.isfinite(self.coefficients).all())

    def jumps(self, start: float, end: float) -> Array:
        """Largest jump of value and of rate at breaks inside (start, end), in this order."""
        # At a phase's own start and end a jump is a new start, not a jump during the motion.
        inside = [p for p in range(1, self.breaks.size - 1) if start < self.breaks[p] < end]
        largest = np.zeros(2)
        rate = self.derivative()
        for order, signal in enumerate((self, rate)):
            for p in inside:
                width = self.breaks[p] - self.breaks[p - 1]
                # Limit from the left against the first coefficient, the value from the right.
                left = np.polynomial.polynomial.polyval(width, signal.coefficients[:, p - 1])
                largest[order] = max(largest[order], abs(left - signal.coefficients[0, p]))
        return largest


def constant(value: float) -> Signal:
    """The same at all times."""
    # Zero and minus zero are equal, but not the same number.
    return _constant(float(value), math.copysign(1.0, value))


@lru_cache(maxsize=4096)
def _constant(value: float, sign: float) -> Signal:
    del sign
    # A number that is not finite is told by those who use it.
    found = _ZERO._with_coefficients(np.array([[value]]))
    found.__dict__["finite"] = math.isfinite(value)
    return found


_ZERO = Signal(np.array([0.0, 1.0]), np.zeros((1, 1)))


def _window(start: float, width: float, what: str) -> None:
    if not (math.isfinite(start) and math.isfinite(width) and width > 0):
        raise InputError(f"starts at {start} s and lasts {width} s", place=what, hint="expected a width above zero")


def pulse(height: float, start: float, width: float) -> Signal:
    """``height`` during [start, start + width), zero outside."""
    _window(start, width, "pulse")
    return Signal(np.array([start - 1.0, start, start + width, start + width + 1.0]), np.array([[0.0, height, 0.0]]))


def triangle(peak: float, start: float, width: float) -> Signal:
    """Rises from zero to ``peak`` in the middle of the window and falls back; zero outside."""
    _window(start, width, "triangle")
    slope = 2.0 * peak / width
    breaks = np.array([start - 1.0, start, start + 0.5 * width, start + width, start + width + 1.0])
    return Signal(breaks, np.array([[0.0, 0.0, peak, 0.0], [0.0, slope, -slope, 0.0]]))


def half_sine(peak: float, start: float, width: float) -> Signal:
    """``peak * sin(pi (t - start) / width)`` in the window, to 1e-12 of the peak; zero outside."""
    _window(start, width, "half sine")
    inner = approximate(lambda t: np.sin(np.pi * t / width), 0.0, width, tolerance=1e-13)
    return peak * _zero_outside(inner.shift(start))


def _zero_outside(signal: Signal) -> Signal:
    """Zero outside the signal's own breaks."""
    breaks = np.concatenate([[signal.breaks[0] - 1.0], signal.breaks, [signal.breaks[-1] + 1.0]])
    coefficients = np.zeros((signal.coefficients.shape[0], breaks.size - 1))
    coefficients[:, 1:-1] = signal.coefficients
    return Signal(breaks, coefficients)


def _hold_ends(signal: Signal) -> Signal:
    """The end values are kept before and after the signal's own breaks."""
    breaks = np.concatenate([[signal.breaks[0] - 1.0], signal.breaks, [signal.breaks[-1] + 1.0]])
    return Signal(breaks, _hold_values(breaks, signal.coefficients))


def _hold_values(breaks: Array, coefficients: Array) -> Array:
    """Coefficients with those of two constant pieces about them, of the end values; ``breaks`` are those of all."""
    found = np.zeros((coefficients.shape[0], breaks.size - 1))
    found[:, 1:-1] = coefficients
    found[0, 0] = coefficients[0, 0]
    found[0, -1] = np.polynomial.polynomial.polyval(breaks[-2] - breaks[-3], coefficients[:, -1])
    return found


def _nodes(times: npt.ArrayLike, values: npt.ArrayLike, what: str) -> tuple[Array, Array]:
    t, v = numbers(times, f"times of the {what}"), numbers(values, f"values of the {what}")
    if t.ndim != 1 or t.shape != v.shape or t.size < 2:
        raise InputError(f"has times {t.shape} and values {v.shape}", place=what, hint="expected two or more of each")
    if not (np.all(np.isfinite(t)) and np.all(np.isfinite(v))):
        raise InputError("holds numbers that are not finite", place=what)
    if np.any(np.diff(t) <= 0):
        raise InputError("times do not rise", place=what)
    return t, v


def table(times: npt.ArrayLike, values: npt.ArrayLike) -> Signal:
    """Straight lines between the nodes; the end values are kept outside."""
    t, v = _nodes(times, values, "table")
    return _hold_ends(Signal(t, np.stack([v[:-1], np.diff(v) / np.diff(t)])))


def steps(times: npt.ArrayLike, values: npt.ArrayLike) -> Signal:
    """Each value is held until the next node; the end values are kept outside."""
    t, v = _nodes(times, values, "steps")
    return _hold_ends(Signal(np.append(t, t[-1] + (t[-1] - t[-2])), v[None, :]))


def spline(times: npt.ArrayLike, values: npt.ArrayLike, ends: Ends = "clamped") -> Signal:
    """Cubic spline through the nodes; the end values are kept outside.

    ``clamped``: zero rate at both ends; ``natural``: zero second derivative there.
    """
    from scipy.interpolate import CubicSpline

    t, v = _nodes(times, values, "spline")
    if ends not in get_args(Ends):
        raise InputError(f"ends are {quote_text(ends)}", place="spline", hint=did_you_mean(str(ends), get_args(Ends)))
    return _hold_ends(from_ppoly(CubicSpline(t, v, bc_type=ends)))


def signals_of_splines(polynomial: Any) -> list[Signal]:
    """Signals from a ``scipy.interpolate.PPoly`` of several values (n,); the end values are kept outside."""
    # SciPy's highest power comes first.
    coefficients = np.asarray(polynomial.c, dtype=np.float64)[::-1]
    first = _hold_ends(Signal(np.asarray(polynomial.x), coefficients[:, :, 0]))
    return [first, *(first.with_pieces(each) for each in np.moveaxis(coefficients[:, :, 1:], 2, 0))]


def from_ppoly(polynomial: Any) -> Signal:
    """A signal from a ``scipy.interpolate.PPoly`` of one value; its outer pieces continue."""
    coefficients = np.asarray(polynomial.c, dtype=np.float64)
    if coefficients.ndim != 2:
        raise InputError(f"has values of shape {coefficients.shape[2:]}", place="PPoly", hint="expected one value")
    return Signal(np.asarray(polynomial.x), coefficients[::-1])


def approximate(
    function: Callable[[Array], npt.ArrayLike],
    start: float,
    end: float,
    *,
    tolerance: float = 1e-10,
    breaks: Sequence[float] = (),
) -> Signal:
    """Polynomial pieces that follow ``function`` (of an array of times, s) to ``tolerance``, halved until they do.

    ``breaks`` are times at which the function or a derivative jumps.
    """
    _window(start, end - start, "approximation")
    edges = [start, *sorted(b for b in breaks if start < b < end), end]
    # Chebyshev nodes: interpolation there is close to the best polynomial of this degree.
    nodes = np.cos(np.pi * (np.arange(PIECE_DEGREE + 1) + 0.5) / (PIECE_DEGREE + 1))
    # Between the nodes and almost up to the ends, where the error of an interpolant is largest; not on breaks.
    probes = 0.9999 * np.cos(np.pi * np.arange(4 * PIECE_DEGREE + 1) / (4 * PIECE_DEGREE))
    queue = list(itertools.pairwise(edges))[::-1]
    done: list[tuple[float, Array]] = []

    def values(times: Array) -> Array:
        result = numbers(function(times), "approximation, value of the function")
        if result.shape not in ((), times.shape):
            raise InputError(
                f"the function gives shape {result.shape} for times of shape {times.shape}",
                place="approximation",
                hint="expected one value for each time",
            )
        result = np.broadcast_to(result, times.shape)
        if not np.all(np.isfinite(result)):
            raise InputError("the function is not finite", place=f"approximation near t = {times[0]:.6g} s")
        return result

    while queue:
        low, high = queue.pop()
        half = 0.5 * (high - low)
        middle = low + half
        fit = np.polynomial.chebyshev.chebfit(nodes, values(middle + half * nodes), PIECE_DEGREE)
        error = np.abs(np.polynomial.chebyshev.chebval(probes, fit) - values(middle + half * probes)).max()
        # Halved rather than raised in degree: a kink is then enclosed by ever shorter intervals, and the rest keeps
        # long ones.
        if error > tolerance:
            if len(queue) + len(done) > MOST_PIECES or half < 1e-9 * (end - start):
                raise InputError(
                    f"does not come within {tolerance:g} of the function near t = {middle:.6g} s",
                    place="approximation",
                    hint="name the times at which it jumps in 'breaks', or allow a larger tolerance",
                )
            # The left half is on top of the stack: pieces come out in the order of time.
            queue += [(middle, high), (low, middle)]
            continue
        power = np.polynomial.Polynomial(np.polynomial.chebyshev.cheb2poly(fit))
        # From the variable on [-1, 1] to the time since the start of the piece.
        local = power(np.polynomial.Polynomial([-1.0, 1.0 / half])).coef
        done.append((low, np.pad(local, (0, PIECE_DEGREE + 1 - local.size))))
    return Signal(np.array([*(low for low, _ in done), end]), np.array([row for _, row in done]).T)


def as_signal(value: Any, place: str) -> Signal:
    """A number, a signal or a PPoly as a signal."""
    if isinstance(value, Signal):
        return value
    if hasattr(value, "c") and hasattr(value, "x"):
        return from_ppoly(value)
    if callable(value):
        raise InputError("is a function", place=place, hint="approximate it: simulate.approximate(...)")
    try:
        return constant(float(value))
    except (TypeError, ValueError):
        raise InputError(f"is {value!r}", place=place, hint="expected a number, a Signal or a PPoly") from None
