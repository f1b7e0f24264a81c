"""Integration methods."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spacearm.checks import number, positive
from spacearm.engine.solver import Options
from spacearm.errors import InputError, error_context, quote_text
from spacearm.typing import Array


@dataclass(frozen=True)
class RK4:
    """Classical Runge-Kutta with a fixed step (s), shortened so that whole steps fill each smooth interval."""

    step: float

    def __post_init__(self) -> None:
        positive(self.step, "step", unit="s", place="RK4")

    def options(self, atol: Array, max_steps: int, max_events: int) -> Options:
        return Options(0, float(self.step), 0.0, atol, math.inf, max_steps, max_events)

    @property
    # Not of the steps, which are fixed: the certificate takes them as the best accuracy of the velocities.
    def tolerances(self) -> tuple[float, float]:
        return 1e-10, 1e-12


@dataclass(frozen=True)
class Dopri853:
    """DOP853: order 8, error kept below ``atol + rtol * |state|`` in each step."""

    rtol: float = 1e-10
    atol: float = 1e-12
    max_step: float = math.inf

    def __post_init__(self) -> None:
        with error_context("Dopri853"):
            number(self.rtol, "rtol", least=1e-15, below=1.0)
            positive(self.atol, "atol")
            positive(self.max_step, "max_step", unit="s", infinite=True)

    def options(self, atol: Array, max_steps: int, max_events: int) -> Options:
        return Options(1, 0.0, float(self.rtol), atol, float(self.max_step), max_steps, max_events)

    @property
    def tolerances(self) -> tuple[float, float]:
        return self.rtol, self.atol


Method = RK4 | Dopri853


def as_method(method: Method | None) -> Method:
    """The given method; :class:`Dopri853` by default."""
    if method is None:
        return Dopri853()
    if not isinstance(method, Method):
        raise InputError(f"the method is {quote_text(method)}", place="method", hint="expected RK4(step) or Dopri853()")
    return method
