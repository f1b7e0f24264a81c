"""All runs of the reproduction of Zhang et al. (2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.capture import Mode, Outcome, cushion
from spacearm.model import Robot, catalogue
from spacearm.papers.zhang2020.data import CRITERION, DAMPINGS, OTHER_LENGTHS, SINGLE, robot, single_hit, six_hit
from spacearm.simulate import State
from spacearm.typing import Array

RIGID = Mode("rigid")
#: Hits in which no length plays a part.
AXIAL = ("fz", "mz")
#: Hits that bend the arm.
BENDING = ("fx", "my", "fy", "mx")


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """The same arm with other lengths: what hangs on them."""

    singles: dict[str, Outcome]
    rigid: Outcome
    slow: Outcome  # damping 1
    soft: Outcome  # damping 5

    @cached_property
    def settling(self) -> float:
        """s, six-dimensional hit, damping 5."""
        return self.soft.settling_time(CRITERION)

    def stretch(self, hit: str) -> float:
        """Largest forbidden z slide in a hit, relative to that of a hit along the arm."""
        return largest_slide(self.singles[hit]) / largest_slide(self.singles["fz"])


@dataclass(frozen=True, eq=False)
class Runs:
    """Outcomes by hit and mode.

    Attributes:
        singles: Sec. 5.1, each hit alone.
        six: Sec. 5.2, everything at once: rigid, undamped, damping 1 and 5; 60 s.
        long: the same until it has settled.
        axial: by hit along (``fz``) or about (``mz``) the arm and mode; ``rigid`` among them.
        ends: the axial hits for 900 s.
        general: the six-dimensional hit on the general joint of six axes.
        others: other lengths, by their text.
    """

    singles: dict[str, Outcome]
    six: dict[str, Outcome]
    long: dict[str, Outcome]
    axial: dict[tuple[str, str], Outcome]
    ends: dict[str, Outcome]
    general: Outcome
    others: dict[str, Elsewhere]

    def named(self) -> dict[str, Outcome]:
        """Every outcome by a name, for the certificate."""
        found = {f"single.{name}": outcome for name, outcome in self.singles.items()}
        found |= {f"six.{name}": outcome for name, outcome in self.six.items()}
        found |= {f"six.{name}.long": outcome for name, outcome in self.long.items()}
        found |= {f"{hit}.{name}": outcome for (hit, name), outcome in self.axial.items()}
        found |= {f"{hit}.end": outcome for hit, outcome in self.ends.items()}
        for text, other in self.others.items():
            found |= {f"{text}, {name}": outcome for name, outcome in other.singles.items()}
            found |= {f"{text}, rigid": other.rigid, f"{text}, damping1": other.slow, f"{text}, damping5": other.soft}
        return {**found, "six.six_axes": self.general}


def run_all(arm: Robot, tell: Callable[[float, str], None]) -> Runs:
    """Everything but the design."""
    start, blow = State.at_rest(arm), [six_hit()]
    tell(0.05, "single hits")
    singles = {name: cushion(arm, start, [single_hit(name)], duration=60.0, sample=0.05) for name in SINGLE}
    tell(0.2, "six-dimensional hit")
    six = {"rigid": cushion(arm, start, blow, duration=60.0, modes=RIGID, sample=0.05)}
    six |= {n: cushion(arm, start, blow, duration=60.0, damping=d, sample=0.05) for n, d in DAMPINGS.items()}
    times = {"damping1": 400.0, "damping5": 120.0}  # s
    long = {n: cushion(arm, start, blow, duration=t, damping=DAMPINGS[n], sample=0.05) for n, t in times.items()}
    axial = {}
    for hit in AXIAL:
        axial[hit, "rigid"] = cushion(arm, start, [single_hit(hit)], duration=1.0, modes=RIGID, sample=0.0025)
        for name, damping in DAMPINGS.items():
            axial[hit, name] = cushion(arm, start, [single_hit(hit)], duration=60.0, damping=damping, sample=0.005)
    ends = {hit: cushion(arm, start, [single_hit(hit)], duration=900.0, sample=10.0) for hit in AXIAL}
    six_axes = catalogue.load("zhang2020_six_axis")
    general = cushion(six_axes, State.at_rest(six_axes), blow, duration=60.0, damping=5.0, sample=0.02)
    tell(0.4, "other lengths")
    others = {f"e0 = {e0:g} m, L = {length:g} m": _elsewhere(e0, length) for e0, length in OTHER_LENGTHS}
    return Runs(singles, six, long, axial, ends, general, others)


def _elsewhere(offset: float, length: float) -> Elsewhere:
    arm = robot(offset, length)
    start, blow = State.at_rest(arm), [six_hit()]
    return Elsewhere(
        {
            hit: cushion(arm, start, [single_hit(hit)], duration=20.0, sample=0.05)
            for hit in (*BENDING, "fz")
        },
        cushion(arm, start, blow, duration=60.0, modes=RIGID, sample=0.05),
        cushion(arm, start, blow, duration=120.0, damping=1.0, sample=0.05),
        cushion(arm, start, blow, duration=120.0, damping=5.0, sample=0.05),
    )  # fmt: skip


def largest_slide(outcome: Outcome) -> float:
    """Of both joints along the arm, m."""
    return max(float(np.abs(outcome.joint(f"joint{k}.slide_z")).max()) for k in (1, 2))


def peak_loads(outcome: Outcome) -> Array:
    """Largest load on the base by component (6), N and N m, base axes."""
    return np.asarray(np.abs(outcome.to_base).max(axis=0))


def across(outcome: Outcome) -> float:
    """Largest force on the base across the arm, N."""
    return float(np.linalg.norm(outcome.to_base[:, :2], axis=1).max())


def base_peak(outcome: Outcome) -> tuple[float, float]:
    """Largest velocity (m/s) and rate (rad/s) of the base in the first 60 s: afterwards the whole body just turns."""
    early = outcome.times <= 60.0
    series = outcome.base_velocity[early], outcome.base_rate[early]
    velocity, rate = (float(np.linalg.norm(each, axis=1).max()) for each in series)
    return velocity, rate
