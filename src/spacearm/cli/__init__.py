"""The command line. Nothing heavy is imported before a command needs it: ``spacearm --help`` answers at once."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: 0 well, 1 failed, 2 bad input, 130 interrupted, 143 terminated."""
    from spacearm.cli.app import run_app

    return run_app(arguments)
