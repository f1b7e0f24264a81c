"""How a run is integrated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spacearm.engine.solver import Options
from spacearm.errors import InputError, quoted
from spacearm.simulate.checks import number
from spacearm.typing import Array


@dataclass(frozen=True)
class RK4:
    """Classical Runge-Kutta with a fixed step (s); shortened so that whole steps fill each smooth stretch."""

    step: float

    def __post_init__(self) -> None:
        step = number(self.step, "step of RK4", "expected seconds above zero")
        if not (math.isfinite(step) and step > 0):
            raise InputError(f"step is {self.step}", place="RK4", hint="expected seconds above zero")

    def options(self, atol: Array, max_steps: int, max_events: int) -> Options:
        return Options(0, float(self.step), 0.0, atol, math.inf, max_steps, max_events)

    @property
    def tolerances(self) -> tuple[float, float]:
        return 1e-10, 1e-12


@dataclass(frozen=True)
class Dopri853:
    """DOP853: order 8, error kept below ``atol + rtol * |state|`` in each step."""

    rtol: float = 1e-10
    atol: float = 1e-12
    max_step: float = math.inf

    def __post_init__(self) -> None:
        for name in ("rtol", "atol", "max_step"):
            number(getattr(self, name), f"{name} of Dopri853")
        if not (1e-15 <= self.rtol < 1 and 0 < self.atol < math.inf):
            raise InputError(
                f"rtol {self.rtol}, atol {self.atol}",
                place="Dopri853",
                hint="expected rtol in [1e-15, 1) and atol above zero",
            )
        if not self.max_step > 0:
            raise InputError(f"max_step is {self.max_step}", place="Dopri853", hint="expected seconds above zero")

    def options(self, atol: Array, max_steps: int, max_events: int) -> Options:
        return Options(1, 0.0, float(self.rtol), atol, float(self.max_step), max_steps, max_events)

    @property
    def tolerances(self) -> tuple[float, float]:
        return self.rtol, self.atol


Method = RK4 | Dopri853


def as_method(method: Method | None) -> Method:
    """The method given; :class:`Dopri853` where none is."""
    if method is None:
        return Dopri853()
    if not isinstance(method, Method):
        raise InputError(f"the method is {quoted(method)}", place="method", hint="expected RK4(step) or Dopri853()")
    return method
