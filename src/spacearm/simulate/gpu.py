"""Roll-outs on a GPU: arrays there and back, kernels kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.cuda import GpuRollout, RolloutSource, cupy, is_device_array
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
) -> Array:
    """As :func:`spacearm.simulate.rollout` with ``device="gpu"``."""
    from spacearm.simulate.rollout import tell_bad

    cp = cupy()
    there = is_device_array(starts)
    given = _there(cp, starts) if there else starts
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
    result = kernel.run(own, common, pushes, step, count, every)
    last = result[:, -1]
    if not cp.isfinite(last).all():  # all at once is far faster than row by row
        tell_bad(cp.flatnonzero(~cp.isfinite(last).all(axis=1)), len(states))
    found_states: Array = result[0] if single else result
    return found_states if there else cp.asnumpy(found_states)


def _there(cp: Any, value: Any) -> Any:
    return cp.asarray(value) if hasattr(value, "__cuda_array_interface__") else cp.from_dlpack(value)


def _rows(cp: Any, states: Any, size: int) -> Any:
    if states.dtype not in (np.float64, np.float32) or states.ndim not in (1, 2) or states.shape[-1] != size:
        hint = f"expected float64 ({size},) or (B, {size})"
        raise InputError(f"starts are {states.dtype} {states.shape}", place="rollout", hint=hint)
    return cp.atleast_2d(states)


def _pushes(cp: Any, forces: Any, size: int, count: int, dofs: int) -> Any:
    from spacearm.simulate.rollout import shaped_forces

    if forces is None or not is_device_array(forces):
        return shaped_forces(forces, size, count, dofs)
    return shaped_forces(_there(cp, forces), size, count, dofs)
