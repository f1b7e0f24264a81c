"""Roll-outs on a GPU: transfer of arrays and launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.engine.cuda import GpuSchedule, RolloutVariant, roll_on_gpu
from spacearm.engine.device import cupy, is_device_array, to_cupy
from spacearm.engine.fixed_step import FixedStep
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.checks import flat_states
from spacearm.typing import Array

#: The loop, numbers for all samples, numbers of each: from overrides and the number of samples.
Ready = Callable[..., tuple[FixedStep, dict[str, Array], dict[str, Array]]]


def rollout_gpu(
    robot: Robot,
    starts: Any,
    schedule: GpuSchedule,
    every: int,
    forces: Any,
    overrides: Mapping[str, npt.ArrayLike] | None,
    ready: Ready,
    shape: RolloutVariant,
) -> tuple[Array, Any]:
    """States as :func:`spacearm.simulate.rollout` has them with ``device="gpu"``, and what an observer keeps."""
    from spacearm.simulate.ensemble.rollout import shape_forces, warn_of_bad_samples

    cp = cupy()
    there = is_device_array(starts)
    given = to_cupy(cp, starts) if there else starts
    single = given.ndim == 1 if there else np.ndim(starts) == 1
    states = _rows(cp, given, Layout(robot.n).size) if there else flat_states(starts, robot, "rollout")
    # Overrides are few numbers; those on the device are checked here like any others.
    here = {name: cp.asnumpy(v) if is_device_array(v) else v for name, v in (overrides or {}).items()}
    loop, common, each = ready(here, len(states))
    pushes = shape_forces(forces, len(states), int(np.sum(schedule.counts)), robot.dofs)
    found = roll_on_gpu(loop, shape, {"state": states} | each, common, schedule, every, force=pushes, there=there)
    # Counted on the device: results need not be copied to be checked.
    if found.bad:
        last = found.rows[:, -1]
        xp = cp if there else np
        warn_of_bad_samples(xp.flatnonzero(~xp.isfinite(last).all(axis=1)), len(states), depth=5)
    return (found.rows[0], found.ends[0]) if single else (found.rows, found.ends)


def _rows(cp: Any, states: Any, size: int) -> Any:
    if states.dtype not in (np.float64, np.float32) or states.ndim not in (1, 2) or states.shape[-1] != size:
        hint = f"expected float64 ({size},) or (B, {size})"
        raise InputError(f"starts are {states.dtype} {states.shape}", place="rollout", hint=hint)
    return cp.atleast_2d(states)
