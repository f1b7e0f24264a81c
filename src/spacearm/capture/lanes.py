"""Many soft motions at once: RK4 in vector lanes, judged while they run, so that nothing but the verdict is kept.

Each sample has its own springs, dampers, start and case (a set of pulses). Dampers may switch by an on-off law at the
start of each step. Compiled once, for any robot.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import compiled
from spacearm.typing import Array


@compiled
def judge_lanes(
    motion: int,
    watch: int,
    lanes: int,
    sizes: Any,
    inputs: Array,
    constants: Array,
    starts: Array,
    case: Any,
    breaks: Array,
    counts: Any,
    wrench: Array,
    off: Array,
    axes: Any,
    law: int,
    bounds: Array,
    first: int,
    last: int,
    peaks: Array,
    travel: Array,
    settled: Array,
) -> None:
    """Run samples ``first`` to ``last``.

    Args:
        motion: address of the motion kernel for ``lanes``.
        watch: address of the watch kernel (:func:`spacearm.capture.programs.watch_program`).
        sizes: nx, nv, motion inputs, motion outputs, offset and number of the wrench, offset of the joints' damping,
            offset of rest positions, watch inputs, number watched, number of joints.
        inputs: (B, motion inputs); its damping is that of dampers that are on.
        constants: (watch inputs,) what the watch kernel reads beside state, acceleration and wrench.
        starts: (B, nx).
        case: (B,) which wrench acts.
        breaks: (pieces + 1,) s, edges between which all wrenches are polynomials.
        counts: (pieces,) steps in each.
        wrench: (cases, degree + 1, pieces, number of the wrench), lowest power first.
        off: (B, joints) damping of dampers that are off.
        axes: joints whose dampers switch.
        law: 0 none, 1 balance, 2 skyhook.
        bounds: (cases, 3) settled below the fraction of the peak, or these velocity (m/s) and rate (rad/s).
        peaks: (B, watched) largest values at steps.
        travel: (B, 2, joints) lowest and highest positions.
        settled: (B, 2) times after which the last two watched numbers stay below; infinite when they do not.
    """
    nx, nv, n_in, n_out, at_wrench, n_wrench, at_damping, at_rest, w_in, watched, n = sizes
    inp = np.empty(n_in * lanes)
    out = np.empty(n_out * lanes)
    seen = np.empty(w_in * lanes)
    told = np.empty((watched + n) * lanes)
    y = np.empty(nx * lanes)
    total = np.empty(nx * lanes)
    before = np.empty(2 * lanes)
    size = nx * lanes
    degrees = wrench.shape[1]
    for i in range(w_in):
        for lane in range(lanes):
            seen[i * lanes + lane] = constants[i]
    for group in range(first, last, lanes):
        for lane in range(lanes):
            sample = min(group + lane, last - 1)
            for i in range(n_in):
                inp[i * lanes + lane] = inputs[sample, i]
            for i in range(nx):
                y[i * lanes + lane] = starts[sample, i]
            for i in range(watched):
                peaks[sample, i] = 0.0
            for j in range(n):
                travel[sample, 0, j] = np.inf
                travel[sample, 1, j] = -np.inf
            settled[sample, 0] = 0.0
            settled[sample, 1] = 0.0
        for i in range(2 * lanes):
            before[i] = 0.0
        step_before = 0.0
        for piece in range(counts.size):
            step = (breaks[piece + 1] - breaks[piece]) / counts[piece]
            for number in range(counts[piece] + 1):  # the last only looks: a pulse may end there
                t = number * step
                for stage in range(4):
                    local = t + (0.0 if stage == 0 else step if stage == 3 else 0.5 * step)
                    if stage < 2 or stage == 3:
                        for lane in range(lanes):
                            own = case[min(group + lane, last - 1)]
                            for i in range(n_wrench):
                                value = wrench[own, degrees - 1, piece, i]
                                for power in range(degrees - 2, -1, -1):
                                    value = value * local + wrench[own, power, piece, i]
                                inp[(at_wrench + i) * lanes + lane] = value
                    if stage == 0:
                        for i in range(size):
                            inp[i] = y[i]
                    elif stage == 3:
                        for i in range(size):
                            inp[i] = y[i] + step * out[i]
                    else:
                        for i in range(size):
                            inp[i] = y[i] + 0.5 * step * out[i]
                    if stage == 0:
                        for i in range(size):
                            seen[i] = y[i]
                        if law != 0:
                            if law == 2:
                                call_kernel(watch, seen, told)  # what it follows depends on the state alone
                            for k in range(axes.size):
                                j = axes[k]
                                for lane in range(lanes):
                                    sample = min(group + lane, last - 1)
                                    rate = y[(nx - n + j) * lanes + lane]
                                    if law == 1:
                                        lead = y[(7 + j) * lanes + lane] - inp[(at_rest + j) * lanes + lane]
                                    else:
                                        lead = told[(watched + j) * lanes + lane]
                                    inp[(at_damping + j) * lanes + lane] = (
                                        inputs[sample, at_damping + j] if lead * rate < 0.0 else off[sample, j]
                                    )
                    call_kernel(motion, inp, out)
                    if stage == 0:
                        for i in range(nv * lanes):
                            seen[size + i] = out[(nx - nv) * lanes + i]
                        for i in range(n_wrench * lanes):
                            seen[size + nv * lanes + i] = inp[at_wrench * lanes + i]
                        call_kernel(watch, seen, told)
                        now = breaks[piece] + t
                        for lane in range(min(lanes, last - group)):
                            sample = group + lane
                            for i in range(watched):
                                peaks[sample, i] = max(peaks[sample, i], told[i * lanes + lane])
                            for j in range(n):
                                place = y[(7 + j) * lanes + lane]
                                travel[sample, 0, j] = min(travel[sample, 0, j], place)
                                travel[sample, 1, j] = max(travel[sample, 1, j], place)
                            for part in range(2):
                                i = watched - 2 + part
                                value = told[i * lanes + lane]
                                level = max(bounds[case[sample], 0] * peaks[sample, i], bounds[case[sample], 1 + part])
                                if not value <= level:
                                    settled[sample, part] = np.inf
                                elif settled[sample, part] == np.inf:
                                    old = before[part * lanes + lane]
                                    share = (old - level) / (old - value) if old > value else 1.0
                                    settled[sample, part] = now - (1.0 - min(max(share, 0.0), 1.0)) * step_before
                                before[part * lanes + lane] = value
                        if number == counts[piece]:
                            break
                        for i in range(size):
                            total[i] = out[i]
                    elif stage < 3:
                        for i in range(size):
                            total[i] += 2.0 * out[i]
                    else:
                        for i in range(size):
                            y[i] += step / 6.0 * (total[i] + out[i])
                if number == counts[piece]:
                    break
                step_before = step
                for lane in range(lanes):
                    square = 0.0
                    for i in range(3, 7):
                        square += y[i * lanes + lane] ** 2
                    scale = 1.0 / np.sqrt(square)
                    for i in range(3, 7):
                        y[i * lanes + lane] *= scale
