"""Thruster modulation: pulses whose widths, or widths and spacing, give a level on average.

A law commands thrusters by levels from 0 to 1; a modulation turns them into pulses on the law's ticks.

Two methods: pulse width (one pulse per window, the remainder carried over) and pulse-width pulse-frequency (a filter
and a trigger with hysteresis in a loop). Both keep their state as memory of the law, one number or two per thruster,
and are compiled with it. Pulses are whole periods of the law. Valve delay and the rise of thrust are not modelled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca

from spacearm.checks import positive
from spacearm.errors import InputError
from spacearm.mechanics.law import Commands, shortest_pulse
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX


@dataclass(frozen=True)
class PulseWidth:
    """Pulse-width modulation: one pulse in each window, with the width that the level asks for.

    Pulses last whole periods of the law. The remainder of rounding, and pulses below the shortest one of the thruster,
    are carried over to the next window: the impulse is never wrong by more than one such pulse.

    Args:
        window: s, a whole number of the law's periods.
    """

    window: float

    def __post_init__(self) -> None:
        positive(self.window, "window", unit="s", place="pulse width modulation")

    def commands(self, plant: Plant, levels: Mapping[str, SX]) -> Commands:
        """Thrusters on or off for these levels (0 to 1), which are read at the start of each window."""
        period = _period(plant)
        ticks = round(self.window / period)
        if ticks < 1 or abs(self.window / period - ticks) > 1e-9 * ticks:
            raise InputError(f"a window of {self.window:g} s is not a multiple of the period of {period:g} s")
        count = plant.memory("window", lasting=False)
        memory, on, start = {"window": ca.if_else(count >= ticks - 1, 0, count + 1)}, {}, count == 0
        for name, level in levels.items():
            # The width in ticks is kept until the next window, in which ``rest`` is what rounding has left over.
            width, rest = (
                plant.memory(f"width of {name}", lasting=False),
                plant.memory(f"rest of {name}", lasting=False),
            )
            least = shortest_pulse(plant, name)
            wanted = ticks * ca.fmax(ca.fmin(level, 1.0), 0.0) + rest
            whole = ca.fmax(ca.fmin(ca.floor(wanted + 0.5), ticks), 0.0)
            # Below the shortest pulse nothing is fired; the impulse waits in ``rest``.
            whole = ca.if_else(ca.logic_or(whole < least, level <= 0), 0.0, whole)
            now = ca.if_else(start, whole, width)
            # Bounded by a shortest pulse: an unbounded remainder would fire long after the level has dropped.
            left = ca.if_else(level <= 0, 0.0, ca.fmax(ca.fmin(wanted - whole, least), -least))
            memory |= {f"width of {name}": now, f"rest of {name}": ca.if_else(start, left, rest)}
            on[name] = ca.if_else(count < now, 1.0, 0.0)
        return Commands(thrusters=on, memory=memory)


@dataclass(frozen=True)
class PulseWidthFrequency:
    """Pulse-width pulse-frequency modulation: a first-order filter and a Schmitt trigger in a loop.

    The filter f' = (gain (level - on) - f) / time_constant drives the trigger, which goes on where f has come to
    ``on`` and off where it has fallen to ``off``; level - on is the level less what the thruster gives, 0 or 1. For a
    steady level u, pulses and the gaps between them last

        time_constant ln((on - gain (u - 1)) / (off - gain (u - 1))),
        time_constant ln((gain u - off) / (gain u - on)):

    B. Wie, Space Vehicle Dynamics and Control, AIAA 2008; T. D. Krovel, Optimal tuning of PWPF modulator for attitude
    control, NTNU 2005. Levels below ``on / gain`` give no pulse. Pulses and gaps last whole periods of the law.
    """

    gain: float = 4.5
    time_constant: float = 0.15
    on: float = 0.45
    off: float = 0.15

    def __post_init__(self) -> None:
        place = "pulse-width pulse-frequency modulation"
        for name in ("gain", "time_constant", "on"):
            positive(getattr(self, name), name, place=place)
        if not 0.0 <= self.off < self.on:
            raise InputError(
                f"switches off at {self.off:g} and on at {self.on:g}", place=place, hint="expected off < on"
            )
        if self.gain <= self.on:
            raise InputError(
                f"a gain of {self.gain:g} never reaches {self.on:g}", place=place, hint="expected a gain above 'on'"
            )

    def lengths(self, level: float) -> tuple[float, float]:
        """Length of pulses and of the gaps between them for a constant level, s; infinite if one does not end."""
        high, low = self.gain * level, self.gain * (level - 1.0)
        pulse = math.inf if low >= self.off else self.time_constant * math.log((self.on - low) / (self.off - low))
        gap = math.inf if high <= self.on else self.time_constant * math.log((high - self.off) / (high - self.on))
        return pulse, gap

    def commands(self, plant: Plant, levels: Mapping[str, SX]) -> Commands:
        """Thrusters on or off for these levels (0 to 1)."""
        # Exact for an input that is held over a period; an Euler step would shift the thresholds.
        share = math.exp(-_period(plant) / self.time_constant)
        memory, on = {}, {}
        for name, level in levels.items():
            held, before = (
                plant.memory(f"filter of {name}", lasting=False),
                plant.memory(f"trigger of {name}", lasting=False),
            )
            # Hysteresis: between the two thresholds the thruster stays as it was.
            now = ca.if_else(held >= self.on, 1.0, ca.if_else(held <= self.off, 0.0, before))
            memory[f"filter of {name}"] = share * held + (1.0 - share) * self.gain * (level - now)
            memory[f"trigger of {name}"] = now
            on[name] = now
        return Commands(thrusters=on, memory=memory)


Modulation = PulseWidth | PulseWidthFrequency


def _period(plant: Plant) -> float:
    if plant.period is None:
        raise InputError("a thruster is on or off: a continuous law cannot command it", hint="give it a period")
    return float(plant.period)
