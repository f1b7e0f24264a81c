"""What is looked at before a soft motion is run: whether it can be, in reasonable time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spacearm.capture.modes import modes
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.typing import Array

MAX_STEPS = 1_000_000
#: Steps while a hit acts: the certificate looks at each of them, with about 50 kB.
MAX_STEPS_IN_HITS = 50_000
MAX_SAMPLES = 1_000_000
#: Largest product of step and decay rate at which DOP853 is stable.
STABLE = 6.0
#: Product of step and frequency at which it follows an oscillation as closely as these runs do.
CLOSE = 0.35


def check_stiffness(
    robot: Robot,
    joints: Array,
    held: Sequence[str],
    overrides: Mapping[str, Array],
    switched: Mapping[str, float],
    duration: float,
    struck: float = 0.0,
) -> None:
    """An explicit integrator follows the fastest decay with short steps: say so before, not after hours.

    ``switched`` are the dampings of axes whose dampers are switched on; ``struck`` is how long hits act, s. An axis
    that moves no mass is an error, too.
    """
    dampers, springs = (
        dict(zip(robot.joint_names, overrides.get(name, ()), strict=False)) for name in ("damping", "stiffness")
    )
    found = modes(robot, joints, held=held, stiffness=springs, damping={**dampers, **switched})
    if not found.frequency.size:
        return
    fastest = int(np.argmax(np.maximum(found.decay, found.frequency)))
    decay, frequency = float(found.decay[fastest]), float(found.frequency[fastest])
    least, struck_steps = max(decay, frequency) * duration / STABLE, max(decay / STABLE, frequency / CLOSE) * struck
    for steps, length, most, what in (
        (least, duration, MAX_STEPS, "in"),
        (struck_steps, struck, MAX_STEPS_IN_HITS, "in hits of"),
    ):
        if steps > most:
            axis = found.joints[int(np.argmax(np.abs(found.shape[fastest])))]
            raise InputError(
                f"{axis!r} decays at {decay:.3g} per second and swings at {frequency:.3g} rad/s, which takes about "
                f"{steps:.1g} steps {what} {length:g} s",
                place=f"robot {robot.name!r}",
                hint="less stiffness or damping there, more inertia, a shorter time, or lock or leave out this axis",
            )


def check_samples(sample: object, duration: float) -> Array:
    """Times of the samples from an interval or from times, s."""
    try:
        array = np.asarray(sample, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if array.ndim == 0:
        if not (np.isfinite(array) and array > 0):
            raise InputError(f"sample interval is {sample}", place="cushion", hint="expected seconds above zero")
        count = int(np.floor(duration / array + 1e-9)) + 1
        if count > MAX_SAMPLES:
            raise InputError(f"{count:.2g} samples", place="cushion", hint=f"expected at most {MAX_SAMPLES}")
        return np.asarray(np.arange(count) * array)
    if array.ndim != 1 or not np.all(np.isfinite(array)) or np.any(array < 0.0) or np.any(np.diff(array) <= 0.0):
        raise InputError("sample times must be finite, from zero on, and rise", place="cushion")
    return array[array <= duration]
