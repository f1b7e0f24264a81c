"""What the reproduction of Zhang et al. (2020) computes.

Beside the paper's hits: the same with other lengths, closed forms that no length enters, springs and dampers chosen for
the six-dimensional hit, and on-off dampers of the same range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spacearm.capture import CaptureRun, OnOff, SettlingCriterion, simulate_capture
from spacearm.capture.clutch import ClutchMode
from spacearm.capture.design import DesignFront, design
from spacearm.capture.evaluate import Evaluator, LoadCase
from spacearm.capture.modes import Modes
from spacearm.model import Robot, catalogue
from spacearm.papers.zhang2020.data import (
    BASE_IZ,
    BASE_MASS,
    CRITERION,
    DAMPINGS,
    OTHER_LENGTHS,
    PLACES,
    PRINTED,
    SEGMENT_IZ,
    SEGMENT_MASS,
    SINGLE,
    STIFFNESS,
    closed_form_modes,
    robot,
    single_hit,
    six_hit,
)
from spacearm.simulate import Load, State
from spacearm.typing import Array

RIGID = ClutchMode("rigid")
#: Hits in which no length plays a part.
AXIAL = ("fz", "mz")
#: Hits that bend the arm.
BENDING = ("fx", "my", "fy", "mx")

#: Objectives of the design and their units.
OBJECTIVES = {"base_rate": "rad/s", "moment": "N m", "settling": "s"}
STIFFNESS_RANGE = (4.0, 160.0)  # N/m and N m/rad: a tenth to four times the paper's
DAMPING_RANGE = (0.0, 5.0)  # N s/m and N m s/rad: the paper's damper
DESIGN_RUNS = 20_480
#: Settled, in absolute terms, so that designs with different peaks compare: about 1 % of what the hit does.
SETTLED = SettlingCriterion(0.0, 2e-4, 2e-4)
SWEEP = np.geomspace(0.5, 100.0, 40)  # N s/m, N m s/rad
LAWS = {"constant": "constant", "on-off, balance": "balance", "on-off, skyhook": "skyhook"}


@dataclass(frozen=True, eq=False)
class OtherLengths:
    """The same arm with other lengths: what hangs on them."""

    singles: dict[str, CaptureRun]
    rigid: CaptureRun
    slow: CaptureRun  # damping 1
    soft: CaptureRun  # damping 5

    @cached_property
    def settling_time(self) -> float:
        """Settling time, s, after the six-dimensional hit with damping 5."""
        return self.soft.settling_time(CRITERION)

    def slide_ratio(self, hit: str) -> float:
        """Largest forbidden z slide in a hit, relative to that of a hit along the arm."""
        return largest_slide(self.singles[hit]) / largest_slide(self.singles["fz"])


@dataclass(frozen=True, eq=False)
class Zhang2020Runs:
    """Outcomes by hit and mode.

    Attributes:
        singles: Sec. 5.1, each hit alone.
        halves: the hits that bend the arm with half the load.
        six: Sec. 5.2, everything at once: rigid, undamped, damping 1 and 5; 60 s.
        long: the same until it has settled.
        axial: by hit along (``fz``) or about (``mz``) the arm and mode; ``rigid`` among them.
        ends: the axial hits for 900 s.
        general: the six-dimensional hit on the general joint of six axes.
        others: other lengths, by their text.
    """

    singles: dict[str, CaptureRun]
    halves: dict[str, CaptureRun]
    six: dict[str, CaptureRun]
    long: dict[str, CaptureRun]
    axial: dict[tuple[str, str], CaptureRun]
    ends: dict[str, CaptureRun]
    general: CaptureRun
    others: dict[str, OtherLengths]

    def list_outcomes(self) -> dict[str, CaptureRun]:
        """Every outcome by a name, for the certificate."""
        found = {f"single.{name}": outcome for name, outcome in self.singles.items()}
        found |= {f"single.{name}.half": outcome for name, outcome in self.halves.items()}
        found |= {f"six.{name}": outcome for name, outcome in self.six.items()}
        found |= {f"six.{name}.long": outcome for name, outcome in self.long.items()}
        found |= {f"{hit}.{name}": outcome for (hit, name), outcome in self.axial.items()}
        found |= {f"{hit}.end": outcome for hit, outcome in self.ends.items()}
        for text, other in self.others.items():
            found |= {f"{text}, {name}": outcome for name, outcome in other.singles.items()}
            found |= {f"{text}, rigid": other.rigid, f"{text}, damping1": other.slow, f"{text}, damping5": other.soft}
        return {**found, "six.six_axes": self.general}


def run_all(arm: Robot, report: Callable[[float, str], None]) -> Zhang2020Runs:
    """Everything but the design."""
    start, blow = State.at_rest(arm), [six_hit()]
    report(0.05, "single hits")
    singles = {name: simulate_capture(arm, start, [single_hit(name)], duration=60.0, sample=0.05) for name in SINGLE}
    halves = {
        name: simulate_capture(arm, start, [single_hit(name, 0.5)], duration=60.0, sample=0.05) for name in BENDING
    }
    report(0.2, "six-dimensional hit")
    six = {"rigid": simulate_capture(arm, start, blow, duration=60.0, modes=RIGID, sample=0.05)}
    six |= {n: simulate_capture(arm, start, blow, duration=60.0, damping=d, sample=0.05) for n, d in DAMPINGS.items()}
    times = {"damping1": 400.0, "damping5": 120.0}  # s
    long = {
        n: simulate_capture(arm, start, blow, duration=t, damping=DAMPINGS[n], sample=0.05) for n, t in times.items()
    }
    axial = {}
    for hit in AXIAL:
        axial[hit, "rigid"] = simulate_capture(arm, start, [single_hit(hit)], duration=1.0, modes=RIGID, sample=0.0025)
        for name, damping in DAMPINGS.items():
            axial[hit, name] = simulate_capture(
                arm, start, [single_hit(hit)], duration=60.0, damping=damping, sample=0.005
            )
    ends = {hit: simulate_capture(arm, start, [single_hit(hit)], duration=900.0, sample=10.0) for hit in AXIAL}
    six_axes = catalogue.load("zhang2020_six_axis")
    general = simulate_capture(six_axes, State.at_rest(six_axes), blow, duration=60.0, damping=5.0, sample=0.02)
    report(0.4, "other lengths")
    others = {f"e0 = {e0:g} m, L = {length:g} m": _elsewhere(e0, length) for e0, length in OTHER_LENGTHS}
    return Zhang2020Runs(singles, halves, six, long, axial, ends, general, others)


def _elsewhere(offset: float, length: float) -> OtherLengths:
    arm = robot(offset, length)
    start, blow = State.at_rest(arm), [six_hit()]
    return OtherLengths(
        {
            hit: simulate_capture(arm, start, [single_hit(hit)], duration=20.0, sample=0.05)
            for hit in (*BENDING, "fz")
        },
        simulate_capture(arm, start, blow, duration=60.0, modes=RIGID, sample=0.05),
        simulate_capture(arm, start, blow, duration=120.0, damping=1.0, sample=0.05),
        simulate_capture(arm, start, blow, duration=120.0, damping=5.0, sample=0.05),
    )  # fmt: skip


def largest_slide(outcome: CaptureRun) -> float:
    """Largest slide of both joints along the arm, m."""
    return max(float(np.abs(outcome.joint(f"joint{k}.slide_z")).max()) for k in (1, 2))


def peak_loads(outcome: CaptureRun) -> Array:
    """Largest load on the base by component (6), N and N m, base axes."""
    return np.asarray(np.abs(outcome.base_wrench).max(axis=0))


def largest_lateral_force(outcome: CaptureRun) -> float:
    """Largest force on the base across the arm, N."""
    return float(np.linalg.norm(outcome.base_wrench[:, :2], axis=1).max())


def base_peak(outcome: CaptureRun) -> tuple[float, float]:
    """Largest velocity (m/s) and rate (rad/s) of the base in the first 60 s: afterwards the whole body just turns."""
    early = outcome.times <= 60.0
    series = outcome.base_velocity[early], outcome.base_rate[early]
    velocity, rate = (float(np.linalg.norm(each, axis=1).max()) for each in series)
    return velocity, rate


# -- what depends on no length ----------------------------------------------------------------------------------------


def axial_modes(found: Modes) -> dict[tuple[str, int], tuple[float, float]]:
    """Slide and twist modes (rad/s) by name and number, and their closed forms."""
    closed, both = closed_form_modes(), {}
    for name, axis in (("z_line", "slide_z"), ("z_angle", "rotation_z")):
        for number, pair in enumerate(zip(found.select_frequencies(axis), closed[name], strict=True), 1):
            both[name, number] = pair
    return both


def final_velocities(runs: Zhang2020Runs) -> dict[str, tuple[float, float]]:
    """Velocity along (m/s) or rate about (rad/s) the arm at the end, and what momentum gives."""
    whole = {"fz": BASE_MASS + 2 * SEGMENT_MASS, "mz": BASE_IZ + 2 * SEGMENT_IZ}
    size = {"fz": PRINTED["force"] * PRINTED["pulse"], "mz": PRINTED["moment"] * PRINTED["pulse"]}
    ends = {"fz": runs.ends["fz"].base_velocity, "mz": runs.ends["mz"].base_rate}
    return {hit: (float(ends[hit][-1, 2]), size[hit] / whole[hit]) for hit in AXIAL}


def rigid_shares(runs: Zhang2020Runs) -> dict[str, tuple[float, float]]:
    """Largest axial load that a rigid arm passes on to the base, and the base's share of the inertia times 50."""
    parts = {"fz": BASE_MASS / (BASE_MASS + 2 * SEGMENT_MASS), "mz": BASE_IZ / (BASE_IZ + 2 * SEGMENT_IZ)}
    loads = {hit: peak_loads(runs.axial[hit, "rigid"])[PLACES.index(hit)] for hit in AXIAL}
    return {hit: (float(loads[hit]), 50.0 * part) for hit, part in parts.items()}


def load_bound(hit: str, damping: float) -> float:
    """The most that spring and damper can load the base with in an axial hit, N or N m: by the energy of the hit.

    The hit gives the struck segment at most J²/2m. No spring can hold more, and no two bodies can have more in their
    motion against each other.
    """
    base, segment = (BASE_MASS, SEGMENT_MASS) if hit == "fz" else (BASE_IZ, SEGMENT_IZ)
    impulse = PRINTED["force" if hit == "fz" else "moment"] * PRINTED["pulse"]
    reduced = base * segment / (base + segment)
    return float(impulse / np.sqrt(segment) * (np.sqrt(STIFFNESS) + damping / np.sqrt(reduced)))


# -- design -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DesignRuns:
    """What the design found.

    Args:
        front: constant dampers.
        reference: objectives of the paper's dampers: damping 1, damping 5, and on-off between 0 and 5.
        sweep: by law, objectives (dampings, 3) over equal dampings at the paper's stiffness.
        switched: the event-driven run of the on-off (balance) law 0..5.
        verified: largest relative difference of front members from adaptive runs.
    """

    front: DesignFront
    reference: dict[str, Array]
    sweep: dict[str, Array]
    switched: CaptureRun
    verified: float

    def gains(self, index: int) -> list[float]:
        """What a design of the front takes off the objectives of damping 5, %."""
        return [
            float(100 * (1 - v / w)) for v, w in zip(self.front.values[index], self.reference["damping5"], strict=True)
        ]


def study_design(arm: Robot, hit: Load, progress: Callable[[float], None] | None = None) -> DesignRuns:
    """Front, references and sweeps for one hit."""
    cases = [LoadCase((hit,), name="six-dimensional")]
    front = design(
        arm, cases, stiffness=STIFFNESS_RANGE, damping=DAMPING_RANGE, objectives=tuple(OBJECTIVES), runs=DESIGN_RUNS,
        settling=SETTLED, progress=progress,
    )  # fmt: skip
    count = front.stiffness.shape[1]
    reference: dict[str, Array] = {}
    sweep: dict[str, Array] = {}
    for name, law in LAWS.items():
        evaluator = Evaluator(arm, cases, 200.0, 0.02, SETTLED, law)  # type: ignore[arg-type]
        sizes = np.concatenate([[1.0, 5.0], SWEEP])
        verdicts = evaluator(np.full((sizes.size, count), STIFFNESS), np.repeat(sizes[:, None], count, axis=1))
        values = np.stack([verdicts.select_objective(objective)[:, 0] for objective in OBJECTIVES], axis=1)
        sweep[name] = values[2:]
        if law == "constant":
            reference |= {"damping1": values[0], "damping5": values[1]}
        else:
            reference[law] = values[1]
    start = State.at_rest(arm)
    switched = simulate_capture(arm, start, [hit], duration=60.0, damping=OnOff(5.0, 0.0), sample=0.05)
    chosen = [front.knee(), *(front.best(name) for name in OBJECTIVES)]
    return DesignRuns(front, reference, sweep, switched, front.verify(chosen))
