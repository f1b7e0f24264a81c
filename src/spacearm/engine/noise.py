"""Random numbers for sensors: each is a function of seed, sample, tick and channel, in whatever order it is asked for.

Integers are hashed by SplitMix64: G. Steele, D. Lea, C. Flood, Fast splittable pseudorandom number generators,
OOPSLA 2014. Normal numbers follow from pairs of uniform ones by Box and Muller, Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spacearm.engine.loops import lean
from spacearm.typing import Array

_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C, _HALF, _ONE = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)
#: In place of a tick: numbers that are drawn once.
ONCE = -1


@lean
def mixed(number: Any) -> Any:
    """SplitMix64's hash of an unsigned integer."""
    x = number + _STEP
    x = (x ^ (x >> _A)) * _FIRST
    x = (x ^ (x >> _B)) * _SECOND
    return x ^ (x >> _C)


@lean
def normal(seed: int, sample: int, tick: int, channel: int) -> float:
    """A number of the standard normal distribution."""
    key = mixed(mixed(mixed(np.uint64(seed)) ^ np.uint64(sample)) ^ np.uint64(tick))
    first = mixed(key ^ np.uint64(2 * channel)) >> _HALF
    second = mixed(key ^ np.uint64(2 * channel + 1)) >> _HALF
    size = math.sqrt(-2.0 * math.log((float(first) + 1.0) * 2.0**-53))
    return size * math.cos(2.0 * math.pi * float(second) * 2.0**-53)


@lean
def draw(noise: Any, seed: int, sample: int, tick: int, pitch: int, inp: Array, first: int) -> None:
    """The numbers of a tick, then those drawn once, into every ``pitch``-th place of ``inp`` from ``first`` on.

    ``noise``: how many at each tick, how many once.
    """
    for channel in range(noise[0] + noise[1]):
        at = tick if channel < noise[0] else ONCE
        inp[first + pitch * channel] = normal(seed, sample, at, channel)
