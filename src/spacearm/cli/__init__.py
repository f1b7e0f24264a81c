"""The command line. Heavy modules are imported only when a command needs them: ``spacearm --help`` answers at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status: see ``docs/cli.md``."""
    # Matrices here are small: idle BLAS threads, which busy-wait, take time from those that work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from spacearm.cli.terminal import open_streams

        open_streams()
        from spacearm.cli.app import run_app

        return run_app(arguments)
    except KeyboardInterrupt:  # while modules were imported, or on the very last lines
        print("error: interrupted", file=sys.stderr)
        return 130
