"""Where the command line writes: results on stdout, progress and complaints on stderr.

Colours and progress bars appear on a terminal only; rich honours ``NO_COLOR``.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from spacearm.errors import SpacearmError
from spacearm.result import plain

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Progress = Callable[[float, str], None]

#: Columns when stdout is a pipe or a file, where rich would assume 80 and break tables.
PIPE_WIDTH = 140


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    class PipeAware(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with status 1; see run_app

    stream = sys.stderr if stderr else sys.stdout
    return PipeAware(file=stream, highlight=False, soft_wrap=stderr, width=None if stream.isatty() else PIPE_WIDTH)


def show(*things: RenderableType) -> None:
    """Print on stdout; text is taken as it is, without markup."""
    out = console()
    for thing in things:
        out.print(thing, markup=False)


def complain(text: str, *, kind: str = "error") -> None:
    """One message on stderr."""
    from rich.text import Text

    style = "bold red" if kind == "error" else "bold yellow"
    console(stderr=True).print(Text.assemble((f"{kind}: ", style), text))


@contextmanager
def told_warnings() -> Iterator[None]:
    """Python's warnings as messages of the command, without the source line that raised them.

    Which warnings are shown is left to Python (``-W``, ``PYTHONWARNINGS``).
    """

    def tell(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        # spacearm's own warnings are sentences; those of libraries say by their name what they are about
        own = category.__module__.partition(".")[0] == "spacearm" or category is UserWarning
        complain(str(message) if own else f"{category.__name__}: {message}", kind="warning")

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM): as Ctrl-C, but with another exit status."""


@contextmanager
def termination_cleans_up() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does, so that no unfinished folder is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show_json(value: Any) -> None:
    """Strict JSON on stdout."""
    print(json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False))


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A function for (fraction done, what is being done); None when stderr is no terminal."""
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


def room(module: str, what: str) -> ModuleType:
    """Import a module when a command needs it; one that this version lacks is a clear error."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise SpacearmError(f"this version of spacearm cannot {what} (it has no {error.name})") from error
