"""Roll-outs on a GPU: arrays there and back, kernels kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.cuda import NOTHING, GpuRollout, RolloutSource, Timetable
from spacearm.engine.device import cupy, is_device_array, on_device
from spacearm.engine.fixed_step import FixedStep
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.checks import flat_states
from spacearm.typing import Array

#: The loop, numbers for all samples, numbers of each: from overrides and the number of samples.
Ready = Callable[..., tuple[FixedStep, dict[str, Array], dict[str, Array]]]


@lru_cache(maxsize=16)
def _compiled(loop: FixedStep, each: tuple[str, ...], real: str) -> GpuRollout:
    return GpuRollout(RolloutSource(loop, each, real=real))


def rollout_gpu(
    robot: Robot,
    starts: Any,
    step: float,
    count: int,
    every: int,
    forces: Any,
    overrides: Mapping[str, npt.ArrayLike] | None,
    precision: str,
    ready: Ready,
    timetable: Timetable = NOTHING,
) -> Array:
    """As :func:`spacearm.simulate.rollout` with ``device="gpu"``."""
    from spacearm.simulate.rollout import tell_bad

    cp = cupy()
    there = is_device_array(starts)
    given = on_device(cp, starts) if there else starts
    single = given.ndim == 1 if there else np.ndim(starts) == 1
    states = _rows(cp, given, Layout(robot.n).size) if there else flat_states(starts, robot, "rollout")
    # Overrides are few numbers; those on the device are checked here like any others.
    here = {name: cp.asnumpy(v) if is_device_array(v) else v for name, v in (overrides or {}).items()}
    loop, common, each = ready(here, len(states))
    own = {"state": states} | {name: value for name, value in each.items() if name in loop.inputs}
    found = loop.stage.derive({**common, **own})
    common |= {name: value for name, value in found.items() if name in loop.uniform}
    own |= {name: value for name, value in found.items() if name not in loop.uniform}
    kernel = _compiled(loop, tuple(own), "double" if precision == "float64" else "float")
    pushes = _pushes(cp, forces, len(states), count, robot.dofs)
    result = kernel.run(own, common, pushes, step, count, every, timetable, there=there)
    last, xp = result[:, -1], cp if there else np
    if not xp.isfinite(last).all():  # all at once is far faster than row by row
        tell_bad(xp.flatnonzero(~xp.isfinite(last).all(axis=1)), len(states))
    found_states: Array = result[0] if single else result
    return found_states


def timetable(edges: Array, table: Array, step: float, count: int, hold: int) -> Timetable:
    """The pieces of a law's references, and when they begin, summed up as the processor does."""
    begins = np.concatenate([[0.0], np.cumsum(step * np.diff(np.append(edges, count)))[:-1]])
    return Timetable(edges.astype(np.int64), begins, np.ascontiguousarray(table[0]), hold)


def _rows(cp: Any, states: Any, size: int) -> Any:
    if states.dtype not in (np.float64, np.float32) or states.ndim not in (1, 2) or states.shape[-1] != size:
        hint = f"expected float64 ({size},) or (B, {size})"
        raise InputError(f"starts are {states.dtype} {states.shape}", place="rollout", hint=hint)
    return cp.atleast_2d(states)


def _pushes(cp: Any, forces: Any, size: int, count: int, dofs: int) -> Any:
    from spacearm.simulate.rollout import shaped_forces

    if forces is None or not is_device_array(forces):
        return shaped_forces(forces, size, count, dofs)
    return shaped_forces(on_device(cp, forces), size, count, dofs)
