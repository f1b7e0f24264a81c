"""The classical Runge-Kutta method of order 4 with a fixed step: inside runs, and as a lean loop for roll-outs.

W. Kutta, Beitrag zur naeherungsweisen Integration totaler Differentialgleichungen, Z. Math. Phys. 46 (1901).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import compiled
from spacearm.engine.plant import Plant, Work, rates
from spacearm.engine.signals import Signals
from spacearm.typing import Array


@compiled
def rk4_step(plant: Plant, signals: Signals, piece: int, t: float, h: float, work: Work, result: Array) -> None:
    """One step from ``work.y`` at ``t``, whose rate is in ``work.k[0]``, to ``result`` at ``t + h``."""
    y, k, y_try = work.y, work.k, work.y_try
    size = y.size
    for stage in range(1, k.shape[0] - 12):  # 1, 2, 3; a constant bound would be unrolled
        part = h if stage == 3 else 0.5 * h
        for i in range(size):
            y_try[i] = y[i] + part * k[stage - 1, i]
        rates(plant, signals, piece, t + part, y_try, work, k[stage])
    for i in range(size):
        result[i] = y[i] + h / 6.0 * (k[0, i] + 2.0 * (k[1, i] + k[2, i]) + k[3, i])


@compiled
def rollout_lanes(
    address: int,
    lanes: int,
    sizes: Any,
    inputs: Array,
    force: Array,
    starts: Array,
    step: float,
    count: int,
    every: int,
    first: int,
    last: int,
    result: Array,
) -> None:
    """Roll out samples ``first`` to ``last`` in groups of ``lanes``, RK4, forces held over each step.

    Args:
        sizes: (nx, offset of the force in the input, nv, n_in, n_out).
        inputs: (B or 1, n_in), what else the kernel reads.
        force: (B or 1, count or 1, nv); of no width: as in ``inputs``.
        starts: (B, nx).
        every: states are kept after each ``every`` steps.
        result: (B, count // every, nx).
    """
    nx, at_force, nv, n_in, n_out = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    inp = np.empty(n_in * lanes)
    out = np.empty(n_out * lanes)
    y = np.empty(nx * lanes)
    total = np.empty(nx * lanes)
    size = nx * lanes
    for group in range(first, last, lanes):
        for lane in range(lanes):
            # A group that is not full repeats its last sample: lanes do not see each other.
            sample = min(group + lane, last - 1)
            row = sample if inputs.shape[0] > 1 else 0
            for i in range(n_in):
                inp[i * lanes + lane] = inputs[row, i]
            for i in range(nx):
                y[i * lanes + lane] = starts[sample, i]
        for n in range(count):
            if force.shape[2] > 0 and (n == 0 or force.shape[1] > 1):
                for lane in range(lanes):
                    sample = min(group + lane, last - 1)
                    row = sample if force.shape[0] > 1 else 0
                    column = n if force.shape[1] > 1 else 0
                    for j in range(nv):
                        inp[(at_force + j) * lanes + lane] = force[row, column, j]
            for i in range(size):
                inp[i] = y[i]
            call_kernel(address, inp, out)
            for i in range(size):
                total[i] = out[i]
                inp[i] = y[i] + 0.5 * step * out[i]
            call_kernel(address, inp, out)
            for i in range(size):
                total[i] += 2.0 * out[i]
                inp[i] = y[i] + 0.5 * step * out[i]
            call_kernel(address, inp, out)
            for i in range(size):
                total[i] += 2.0 * out[i]
                inp[i] = y[i] + step * out[i]
            call_kernel(address, inp, out)
            for i in range(size):
                y[i] += step / 6.0 * (total[i] + out[i])
            for lane in range(lanes):
                square = 0.0
                for i in range(3, 7):
                    square += y[i * lanes + lane] ** 2
                scale = 1.0 / np.sqrt(square)
                for i in range(3, 7):
                    y[i * lanes + lane] *= scale
            if (n + 1) % every == 0:
                for lane in range(min(lanes, last - group)):
                    for i in range(nx):
                        result[group + lane, (n + 1) // every - 1, i] = y[i * lanes + lane]
