"""Errors of linear algebra as messages about the input: matrices become singular by numbers that no experiment has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from spacearm.errors import SimulationError


@contextmanager
def solvable(place: str) -> Iterator[None]:
    """Context manager and decorator: an error of linear algebra becomes one that names ``place`` and likely causes."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise SimulationError(
            f"the equations cannot be solved: {str(error)[:1].lower()}{str(error)[1:]}",
            place=place,
            hint="noise, units or readings are far from usual sizes, or a sensor repeats what another one reads",
        ) from None
