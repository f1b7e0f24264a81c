"""Beyond the paper: springs and dampers chosen for its six-dimensional hit, and on-off dampers of the same range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.capture import Hit, OnOff, Outcome, Settling, cushion
from spacearm.capture.design import Front, design
from spacearm.capture.judge import Case, Judge
from spacearm.model import Robot
from spacearm.result import Row
from spacearm.simulate import State
from spacearm.typing import Array

OBJECTIVES = ("base_rate", "moment", "settling")
STIFFNESS_RANGE = (4.0, 160.0)  # N/m and N m/rad: a tenth to four times the paper's
DAMPING_RANGE = (0.0, 5.0)  # N s/m and N m s/rad: the paper's damper
RUNS = 20_480
#: Settled, in absolute terms, so that designs with different peaks compare: about 1 % of what the hit does.
SETTLED = Settling(0.0, 2e-4, 2e-4)
SWEEP = np.geomspace(0.5, 100.0, 40)  # N s/m, N m s/rad
LAWS = {"constant": "constant", "on-off, balance": "balance", "on-off, skyhook": "skyhook"}


@dataclass(frozen=True, eq=False)
class Designed:
    """What the design found.

    Args:
        front: constant dampers.
        reference: objectives of the paper's dampers: damping 1, damping 5, and on-off between 0 and 5.
        sweep: by law, objectives (dampings, 3) over equal dampings at the paper's stiffness.
        switched: the event-driven run of the on-off (balance) law 0..5.
        verified: largest relative difference of front members from adaptive runs.
    """

    front: Front
    reference: dict[str, Array]
    sweep: dict[str, Array]
    switched: Outcome
    verified: float

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "stiffness range": STIFFNESS_RANGE,
            "damping range": DAMPING_RANGE,
            "runs": self.front.runs,
            "designs on the front": len(self.front.values),
            "RK4 step [s]": self.front.judge.step,
            "settled": str(SETTLED),
            "seed": 0,
        }

    @property
    def summary(self) -> str:
        five, front = self.reference["damping5"], self.front
        best = [front.values[front.best(name), k] for k, name in enumerate(OBJECTIVES)]
        knee = front.values[front.knee()]
        return (
            f"Beyond the paper, {front.runs} runs choose stiffness (4 to 160) and damping (0 to 5) of every axis. "
            "Against damping 5, single best designs cut the peak base rate by "
            f"{100 * (1 - best[0] / five[0]):.0f} %, the peak moment on the base by "
            f"{100 * (1 - best[1] / five[1]):.0f} % or the settling time by "
            f"{100 * (1 - best[2] / five[2]):.0f} %; the knee of the front cuts them by "
            f"{100 * (1 - knee[0] / five[0]):.0f}, {100 * (1 - knee[1] / five[1]):.0f} and "
            f"{100 * (1 - knee[2] / five[2]):.0f} % together. On-off switching within 0 to 5 beats damping 1 but not "
            "damping 5: these joints are lightly damped, so that more damping is better throughout. Above about "
            "20 N m s/rad, where a constant damper passes on more than the spring, switching lowers the peak moment, "
            "above 60 (skyhook) the settling time, nowhere the peak base rate; and the lowest peak moment of all is "
            "that of constant dampers of about 13."
        )


def study_design(arm: Robot, hit: Hit, progress: Callable[[float], None] | None = None) -> Designed:
    """Front, references and sweeps for one hit."""
    cases = [Case((hit,), name="six-dimensional")]
    front = design(
        arm, cases, stiffness=STIFFNESS_RANGE, damping=DAMPING_RANGE, objectives=OBJECTIVES, runs=RUNS,
        settling=SETTLED, progress=progress,
    )  # fmt: skip
    count = front.stiffness.shape[1]
    reference: dict[str, Array] = {}
    sweep: dict[str, Array] = {}
    for name, law in LAWS.items():
        judge = Judge(arm, cases, 200.0, 0.02, SETTLED, law)  # type: ignore[arg-type]
        sizes = np.concatenate([[1.0, 5.0], SWEEP])
        verdicts = judge(np.full((sizes.size, count), 40.0), np.repeat(sizes[:, None], count, axis=1))
        values = np.stack([verdicts.of(objective)[:, 0] for objective in OBJECTIVES], axis=1)
        sweep[name] = values[2:]
        if law == "constant":
            reference |= {"damping1": values[0], "damping5": values[1]}
        else:
            reference[law] = values[1]
    start = State.at_rest(arm)
    switched = cushion(arm, start, [hit], duration=60.0, damping=OnOff(5.0, 0.0), sample=0.05)
    chosen = [front.knee(), *(front.best(name) for name in OBJECTIVES)]
    return Designed(front, reference, sweep, switched, front.verify(chosen))


def design_rows(designed: Designed) -> list[Row]:
    """References, single best designs, the knee; in the objectives' units."""
    units = {"base_rate": "rad/s", "moment": "N m", "settling": "s"}
    front = designed.front
    rows = []
    for name, values in designed.reference.items():
        text = {
            "damping1": "stiffness 40, damping 1",
            "damping5": "stiffness 40, damping 5",
            "balance": "stiffness 40, dampers on (5) while an axis goes back to rest, else off (0)",
            "skyhook": "stiffness 40, dampers on (5) while they slow the inner body's vibration, else off (0)",
        }[name]
        head = name if name.startswith("damping") else f"on_off.{name}"
        note = f"{text}; {SETTLED}"
        rows += [
            Row(f"design.{head}.{o}", float(v), units[o], note=note) for o, v in zip(OBJECTIVES, values, strict=True)
        ]
    for label, index in [(f"best_{o}", front.best(o)) for o in OBJECTIVES] + [("knee", front.knee())]:
        springs, dampers = front.design(index)
        note = "; ".join(f"{a}: {springs[a]:.3g}, {dampers[a]:.2g}" for a in front.axes)
        rows += [
            Row(f"design.{label}.{o}", float(v), units[o], note=f"stiffness, damping of {note}" if k == 0 else "")
            for k, (o, v) in enumerate(zip(OBJECTIVES, front.values[index], strict=True))
        ]
    return rows
