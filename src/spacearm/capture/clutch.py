"""The clutch: rigid transmission or soft cushioning, switched in time or by an event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spacearm.errors import InputError


@dataclass(frozen=True)
class At:
    """Switch at a time, s from the start of the run."""

    time: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time > 0.0):
            raise InputError(f"time is {self.time}", place="clutch", hint="expected seconds above zero")


@dataclass(frozen=True)
class Felt:
    """Switch ``delay`` (s) after contact is felt: a locked axis carries more than this, by clutch and spring together.

    Args:
        force: N, for axes that slide; infinite: not watched.
        moment: N m, for axes that turn.
        delay: s, what sensing and switching take.
    """

    force: float = math.inf
    moment: float = math.inf
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (self.force > 0.0 and self.moment > 0.0) or math.isinf(min(self.force, self.moment)):
            raise InputError(
                f"force {self.force} N, moment {self.moment} N m", place="clutch", hint="expected a level above zero"
            )
        if not (math.isfinite(self.delay) and self.delay >= 0.0):
            raise InputError(f"delay is {self.delay}", place="clutch", hint="expected seconds from zero on")


@dataclass(frozen=True)
class Settled:
    """Switch when the soft axes have come to rest: amplitudes of their rates below these, m/s and rad/s.

    The amplitude of an axis is that of a free oscillation with its present rate and acceleration; the axes' ratios to
    their limits are summed as squares. It is an event: what has been at rest all along has not come to rest.
    """

    slide: float = 1e-3
    turn: float = 1e-3

    def __post_init__(self) -> None:
        if not (0.0 < self.slide < math.inf and 0.0 < self.turn < math.inf):
            raise InputError(
                f"slide {self.slide} m/s, turn {self.turn} rad/s", place="clutch", hint="expected rates above zero"
            )


Switch = At | Felt | Settled


@dataclass(frozen=True)
class Mode:
    """One mode of the clutch and when it ends; the last one has no end."""

    kind: Literal["rigid", "soft"]
    until: Switch | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("rigid", "soft"):
            raise InputError(f"mode is {self.kind!r}", place="clutch", hint="expected 'rigid' or 'soft'")
        if self.kind == "soft" and isinstance(self.until, Felt):
            raise InputError("a soft axis does not wait to feel a contact", place="clutch", hint="use At or Settled")
        if self.kind == "rigid" and isinstance(self.until, Settled):
            raise InputError("a rigid axis is settled from the start", place="clutch", hint="use At or Felt")


SOFT = (Mode("soft"),)
RIGID = (Mode("rigid"),)


def checked(modes: Mode | Sequence[Mode]) -> tuple[Mode, ...]:
    """Modes in time; all but the last must end, and times must rise."""
    chosen = (modes,) if isinstance(modes, Mode) else tuple(modes)
    if not chosen:
        raise InputError("there is no mode", place="clutch", hint="expected one or more")
    last = -math.inf
    for number, mode in enumerate(chosen):
        if (mode.until is None) != (number == len(chosen) - 1):
            raise InputError(
                f"mode {number + 1} of {len(chosen)} {'has no end' if mode.until is None else 'ends'}",
                place="clutch",
                hint="every mode but the last needs 'until', the last has none",
            )
        if isinstance(mode.until, At):
            if mode.until.time <= last:
                raise InputError(f"switches at {mode.until.time:g} s, after {last:g} s", place="clutch")
            last = mode.until.time
    return chosen
