"""How a run is integrated."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spacearm.engine.run import Options
from spacearm.errors import InputError


@dataclass(frozen=True)
class RK4:
    """Classical Runge-Kutta with a fixed step (s); shortened so that whole steps fill each smooth stretch."""

    step: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.step) and self.step > 0):
            raise InputError(f"step is {self.step}", place="RK4", hint="expected seconds above zero")

    def options(self, max_steps: int, max_events: int) -> Options:
        return Options(0, float(self.step), 0.0, math.inf, max_steps, max_events)

    @property
    def tolerances(self) -> tuple[float, float]:
        return 1e-10, 1e-12


@dataclass(frozen=True)
class Adaptive:
    """DOP853: order 8, error kept below ``atol + rtol * |state|`` in each step."""

    rtol: float = 1e-10
    atol: float = 1e-12
    max_step: float = math.inf

    def __post_init__(self) -> None:
        if not (1e-15 <= self.rtol < 1 and 0 < self.atol < math.inf):
            raise InputError(
                f"rtol {self.rtol}, atol {self.atol}",
                place="Adaptive",
                hint="expected rtol in [1e-15, 1) and atol above zero",
            )
        if not self.max_step > 0:
            raise InputError(f"max_step is {self.max_step}", place="Adaptive", hint="expected seconds above zero")

    def options(self, max_steps: int, max_events: int) -> Options:
        return Options(1, 0.0, float(self.rtol), float(self.max_step), max_steps, max_events)

    @property
    def tolerances(self) -> tuple[float, float]:
        return self.rtol, self.atol


Method = RK4 | Adaptive
