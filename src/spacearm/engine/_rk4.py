"""The classical Runge-Kutta method of order 4 with a fixed step, inside runs.

W. Kutta, Beitrag zur naeherungsweisen Integration totaler Differentialgleichungen, Z. Math. Phys. 46 (1901).
"""

from __future__ import annotations

from spacearm.engine.loops import compile_inner
from spacearm.engine.system import System, rates
from spacearm.typing import Array


@compile_inner
def rk4_step(system: System, piece: int, t: float, h: float, result: Array) -> None:
    """One step from ``work.y`` at ``t``, whose rate is in ``work.k[0]``, to ``result`` at ``t + h``."""
    y, k, y_try = system.work.y, system.work.k, system.work.y_try
    size = y.size
    for stage in range(1, k.shape[0] - 12):  # 1, 2, 3; a constant bound would be unrolled
        part = h if stage == 3 else 0.5 * h
        for i in range(size):
            y_try[i] = y[i] + part * k[stage - 1, i]
        rates(system, piece, t + part, y_try, k[stage])
    for i in range(size):
        result[i] = y[i] + h / 6.0 * (k[0, i] + 2.0 * (k[1, i] + k[2, i]) + k[3, i])
