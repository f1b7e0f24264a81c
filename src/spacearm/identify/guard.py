"""Tables whose C libraries a damaged file can crash are read in a process of their own, with limits.

One process (:mod:`spacearm.identify.table_worker`) serves a whole session: see :mod:`spacearm.guarded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spacearm.errors import InputError
from spacearm.guarded import Crashed, Guarded, TooSlow
from spacearm.typing import Array

#: Time for one file: so many seconds, and one more for so many bytes of it.
SECONDS, BYTES_PER_SECOND = 15.0, 20e6
#: Memory for one file: so many bytes, and so many times its size.
BYTES, TIMES_SIZE = 1 << 30, 20
SERVICE = Guarded(Path(__file__).with_name("table_worker.py"))


def read_guarded(path: Path, kind: str, names: Sequence[str]) -> dict[str, Array]:
    """The named columns of a MATLAB, NetCDF-4 or Parquet file (``kind``), 1-D each.

    Raises:
        InputError: with file and place, whatever the file does to the library that reads it.
    """
    size = path.stat().st_size
    request = {"file": str(path.absolute()), "kind": kind, "names": list(names)}
    seconds, memory = SECONDS + size / BYTES_PER_SECOND, int(BYTES + TIMES_SIZE * size)
    try:
        answer, columns = SERVICE.ask(request, seconds=seconds, memory=memory)
    except OSError as error:
        why = f"no process could be started for it: {error.strerror}"
        raise InputError(f"cannot be read: {why}", file=path, place="header") from None
    except TooSlow as fault:
        raise InputError(
            "takes too long to read", file=path, place=fault.place, hint="the file is damaged, or must be split"
        ) from None
    except Crashed as fault:
        raise InputError(
            f"cannot be read: the library that reads it crashed ({fault})",
            file=path,
            place=fault.place or "header",
            hint="the file is damaged",
        ) from None
    if "error" in answer:
        raise InputError(answer["error"], file=path, place=answer["place"], hint=answer["hint"])
    found = zip(answer["names"], columns, strict=True)
    return {str(name): np.frombuffer(column, dtype="<f8").astype(np.float64) for name, column in found}
