"""Random numbers for sensors: each is a function of seed, sample, time and channel, in whatever order it is asked for.

A channel is a hash of the names of a system and of a sensor, and of the entry of its reading. Time is that of the run,
in units of 2^-24 s. So a sensor's numbers depend neither on phases nor on other sensors.

Integers are hashed by SplitMix64: G. Steele, D. Lea, C. Flood, Fast splittable pseudorandom number generators,
OOPSLA 2014. Normal numbers follow from pairs of uniform ones by Box and Muller, Ann. Math. Statist. 29 (1958).
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np

from spacearm.engine.loops import compile_inner, compile_loop
from spacearm.typing import Array

_STEP, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_A, _B, _C, _HALF, _ONE = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)
#: In place of a moment: numbers that are drawn once.
ONCE = -1
#: Moments in a second.
MOMENTS = 2.0**24
#: Added before rounding down: ticks of usual periods are far from an edge, so that rounding of times changes no moment.
AFTER = 0.381966


def channel_key(system: str, sensor: str, entry: int) -> int:
    """The channel of one number of a sensor's reading, as a signed integer of 64 bits."""
    found = hashlib.blake2b("\0".join((system, sensor, str(entry))).encode(), digest_size=8)
    return int.from_bytes(found.digest(), "little", signed=True)


@compile_inner
def moment(t: float) -> int:
    """The time of a run, s, as a whole number (exact: the factor is a power of two)."""
    return math.floor(t * MOMENTS + AFTER)


@compile_inner
def mix_bits(number: Any) -> Any:
    """SplitMix64's hash of an unsigned integer."""
    x = number + _STEP
    x = (x ^ (x >> _A)) * _FIRST
    x = (x ^ (x >> _B)) * _SECOND
    return x ^ (x >> _C)


@compile_inner
def normal(seed: int, sample: int, at: int, channel: int) -> float:
    """A number of the standard normal distribution; ``at`` is a moment, or ``ONCE``."""
    # One hash after the other, each with the next number: a change of any one bit changes all bits of the key, while
    # sums of seed and sample would repeat each other's numbers.
    key = mix_bits(
        mix_bits(mix_bits(mix_bits(np.uint64(seed)) ^ np.uint64(sample)) ^ np.uint64(at)) ^ np.uint64(channel)
    )
    first = mix_bits(key) >> _HALF
    second = mix_bits(key ^ _ONE) >> _HALF
    # 53 bits, the digits of a double; one more in the logarithm, which has no value at zero.
    size = math.sqrt(-2.0 * math.log((float(first) + 1.0) * 2.0**-53))
    return size * math.cos(2.0 * math.pi * float(second) * 2.0**-53)


@compile_inner
def draw(drawn: Any, seed: int, sample: int, at: int, pitch: int, inp: Array, first: int) -> None:
    """The numbers of a moment into every ``pitch``-th place of ``inp`` from ``first`` on.

    ``drawn``: (numbers, 2) channel of each, and whether it is drawn once.
    """
    for i in range(drawn.shape[0]):
        inp[first + pitch * i] = normal(seed, sample, ONCE if drawn[i, 1] else at, drawn[i, 0])


@compile_loop
def draw_series(seed: int, sample: int, times: Array, channel: int) -> Array:
    """The numbers of a channel at these times (T,), s: what a law of the same seed draws."""
    found = np.empty(times.size)
    for i in range(times.size):
        found[i] = normal(seed, sample, moment(times[i]), channel)
    return found


@compile_loop
def draw_once(seed: int, sample: int, channel: int) -> float:
    """The number of a channel that is drawn once for a run."""
    return normal(seed, sample, ONCE, channel)
