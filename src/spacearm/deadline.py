"""A limit on wall-clock time for whatever runs inside a block."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar

from spacearm.errors import InputError, TimeLimitError, quote_text

__all__ = ["time_limit"]

#: When the innermost limit of this thread is reached (seconds of the monotonic clock), and how long it is, s.
_limit: ContextVar[tuple[float, float]] = ContextVar("limit", default=(math.inf, math.inf))
#: What a signal has raised in the main thread, until the command ends.
_interruption: type[KeyboardInterrupt] | None = None


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Ends what runs inside the block with a :class:`~spacearm.errors.TimeLimitError` after so many seconds.

    In the main thread an alarm interrupts whatever Ctrl-C would interrupt, and in the same way. In another thread only
    loops that call :func:`check_time` end: runs in time and batches. Of nested limits the one that ends first holds.

    Args:
        seconds: None for no limit.
    """
    if seconds is None:
        yield
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise InputError(f"is {quote_text(seconds)}", place="time limit", hint="expected seconds above zero")
    token = _limit.set(min(_limit.get(), (time.monotonic() + seconds, float(seconds))))
    main = threading.current_thread() is threading.main_thread()
    try:
        with _alarm() if main else nullcontext():
            yield
    except SystemError as error:
        if isinstance(error.__cause__, TimeLimitError):  # it came up in machine code
            raise error.__cause__ from None
        raise
    finally:
        _limit.reset(token)


@contextmanager
def _alarm() -> Iterator[None]:
    """Rings once, when the limit is reached, and again for the limit around this one if that is reached too."""
    before = signal.signal(signal.SIGALRM, _raise_time_limit)
    began = time.monotonic()
    left = signal.setitimer(signal.ITIMER_REAL, max(_limit.get()[0] - began, 1e-6))[0]
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 1e-6))


def _raise_time_limit(*_: object) -> None:
    raise TimeLimitError(f"not finished within the time limit of {_limit.get()[1]:g} s")


def has_time_limit() -> bool:
    """Whether a limit holds here."""
    return _limit.get()[0] < math.inf


def forget_time_limit() -> None:
    """No limit holds here from now on: in a thread of its own, whose time somebody else looks at."""
    _limit.set((math.inf, math.inf))


def set_interruption(raised: type[KeyboardInterrupt] | None) -> None:
    """Note what a signal raises. A library may lose it: CasADi drops a third of those that come while it converts."""
    global _interruption  # noqa: PLW0603 (signals are the process's)
    _interruption = raised


def check_time() -> None:
    """Raises a :class:`~spacearm.errors.TimeLimitError` when the time is over, or an interruption that was lost."""
    if _interruption is not None and threading.current_thread() is threading.main_thread():
        raise _interruption
    if time.monotonic() >= _limit.get()[0]:
        _raise_time_limit()
