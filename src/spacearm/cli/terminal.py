"""Output of the command line: results on stdout, progress and messages on stderr.

Colours and progress bars appear on a terminal only; rich honours ``NO_COLOR``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from spacearm.deadline import set_interruption
from spacearm.errors import CONTROLS, printable
from spacearm.result import json_value

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

Progress = Callable[[float, str], None]

#: Columns when stdout is a pipe or a file, where rich would assume 80 and break tables.
PIPE_WIDTH = 140
#: Rows of a table to print by default.
FEW_ROWS = 10
#: A second signal within this time (s) is ignored: it must not interrupt the clean-up that the first started.
GRACE = 3.0


def open_streams() -> None:
    """Give the process its three standard streams if the caller closed them, and make any text printable.

    A closed one becomes the null device: otherwise the next opened file would take its number and receive output meant
    for the terminal. Characters that the terminal's encoding lacks are written as escapes.
    """
    for number, mode in enumerate("rww"):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
        if number and getattr(sys, ("stdin", "stdout", "stderr")[number]) is None:
            setattr(sys, ("stdin", "stdout", "stderr")[number], open(number, mode, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # one that a test or a caller put there
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def silence(stream: Any) -> None:
    """Point a stream that can no longer be written to the null device, so that Python does not complain at exit."""
    with suppress(AttributeError, OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    class PipeAware(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with status 1; see run_app

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else segment._replace(text=printable(segment.text))

    stream = sys.stderr if stderr else sys.stdout
    return PipeAware(file=stream, highlight=False, soft_wrap=stderr, width=None if stream.isatty() else PIPE_WIDTH)


def show(*things: RenderableType) -> None:
    """Print on stdout; text is printed literally, without markup."""
    out = console()
    for thing in things:
        out.print(thing, markup=False)


def print_message(text: str, *, kind: str = "error") -> None:
    """Print a message on stderr; if nobody reads it any more, only the exit status reports it."""
    from rich.text import Text

    style = "bold red" if kind == "error" else "bold yellow"
    try:
        console(stderr=True).print(Text.assemble((f"{kind}: ", style), printable(text)))
    except OSError:
        silence(sys.stderr)


@contextmanager
def print_warnings() -> Iterator[None]:
    """Python's warnings as messages of the command, without the source line that raised them.

    Which warnings are shown is left to Python (``-W``, ``PYTHONWARNINGS``).
    """

    def print_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        # spacearm's own warnings are sentences; those of libraries say by their name what they are about
        own = category.__module__.partition(".")[0] == "spacearm" or category is UserWarning
        print_message(str(message) if own else f"{category.__name__}: {message}", kind="warning")

    with warnings.catch_warnings():
        warnings.showwarning = print_warning
        yield


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM): like Ctrl-C, but with another exit status."""


_interrupt_types = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}
_last_interrupt: tuple[float, type[KeyboardInterrupt] | None] = (
    -GRACE,
    None,
)  # when the last signal was heeded, and as what


def _raise_interrupt(number: int, _: FrameType | None) -> None:
    global _last_interrupt  # noqa: PLW0603 (signals are the process's)
    now = time.monotonic()
    if now - _last_interrupt[0] < GRACE:
        return
    ending = _interrupt_types[signal.Signals(number)]
    _last_interrupt = now, ending
    set_interruption(ending)
    raise ending


def last_interruption() -> type[KeyboardInterrupt] | None:
    """The signal that ended the command, if any: a library may have replaced its exception by another."""
    return _last_interrupt[1]


def _repeat_interrupt(unraisable: Any) -> None:
    """An interruption that came where Python drops exceptions (a finaliser, a callback of C) comes again later."""
    if not (isinstance(unraisable.exc_type, type) and issubclass(unraisable.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(unraisable)
        return
    number = signal.SIGTERM if issubclass(unraisable.exc_type, Terminated) else signal.SIGINT

    def send_signal() -> None:
        global _last_interrupt  # noqa: PLW0603
        _last_interrupt = -GRACE, None
        os.kill(os.getpid(), number)

    threading.Timer(0.01, send_signal).start()


@contextmanager
def handle_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end a command once, so that no unfinished folder is left behind, however often they arrive."""
    global _last_interrupt  # noqa: PLW0603
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _last_interrupt = -GRACE, None
    set_interruption(None)
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            before[number] = signal.signal(number, _raise_interrupt)
    hook, sys.unraisablehook = sys.unraisablehook, _repeat_interrupt
    try:
        yield
    finally:
        set_interruption(None)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with_parent() -> None:
    """Ask the kernel to end this process when its parent dies, even if killed; called in a new process, on Linux."""
    if sys.platform == "linux":
        import ctypes

        death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM)


def show_json(value: Any) -> None:
    """Strict JSON on stdout, in the terminal's encoding."""
    whole = (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")
    text = json.dumps(json_value(value), indent=2, allow_nan=False, ensure_ascii=not whole)
    print(CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A function of (fraction done, current activity); None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)

        def tick(fraction: float, text: str = "") -> None:
            bar.update(task, completed=fraction, description=f"{title}: {text}" if text else title)

        yield tick
