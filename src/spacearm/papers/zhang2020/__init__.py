"""X. Zhang, S. Xu, C. Jia, G. Wang, M. Chu, "Generalized Modeling of Soft-Capture Manipulator with Novel Soft-Contact
Joints" (2020): a base with two soft-contact joints, struck at the end of its arm.

The paper gives no segment lengths or centroids; those of the catalogue are taken (see there), and :func:`robot` makes
the same arm with others. What does not depend on them is marked so in the notes.
"""

from __future__ import annotations

from typing import Any

from spacearm.capture import CaptureRun, modes, simulate_capture
from spacearm.capture.modes import Modes
from spacearm.model import Robot, catalogue
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, checks, page, settings
from spacearm.papers.zhang2020.claims import findings
from spacearm.papers.zhang2020.data import (
    CRITERION,
    DAMPINGS,
    NAME,
    robot,
    six_hit,
)
from spacearm.papers.zhang2020.figures import build_figures
from spacearm.papers.zhang2020.runs import (
    DAMPING_RANGE,
    OBJECTIVES,
    SETTLED,
    STIFFNESS_RANGE,
    DesignRuns,
    Zhang2020Runs,
    axial_modes,
    final_velocities,
    rigid_shares,
    run_all,
    study_design,
)
from spacearm.result import Certificate, Check, Result
from spacearm.scene import scene_of
from spacearm.simulate import State

__all__ = [
    "robot",
]

CROSS_CHECK_TOLERANCE = 1e-6


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """All cases of Sec. 5, the claims made about them, and the design of better dampers."""
    report = progress or (lambda fraction, what: None)
    arm = catalogue.load("zhang2020")
    runs, found = run_all(arm, report), modes(arm)
    report(0.5, "designing dampers")
    designed = study_design(arm, six_hit(), progress=lambda part: report(0.5 + 0.35 * part, "designing dampers"))
    outcomes = {**runs.list_outcomes(), "six.on_off": designed.switched}
    certificate = Certificate.worst({name: outcome.certificate for name, outcome in outcomes.items()})
    certificate |= checks(NAME, {**_facts(runs, found), "design_against_adaptive": designed.verified})
    if cross_check:
        report(0.88, "cross-checking with MuJoCo")
        certificate |= cross_checks(arm)
    report(0.95, "figures")
    return Result(
        NAME,
        agreement(NAME, findings(runs, found, designed)),
        certificate,
        _settings(designed, runs.six),
        runs.six["damping5"].dataset(),
        build_figures(runs.singles, runs.six, designed),
        scene=scene_of({"damping 5": runs.six["damping5"], "rigid": runs.six["rigid"]}, frames=400),
        **page(NAME, **_summary(runs, designed)),
    )


def cross_checks(arm: Robot, duration: float = 20.0) -> dict[str, Check]:
    """The six-dimensional hit in MuJoCo's dynamics: undamped, damping 1 and 5."""
    found = {}
    for name, damping in DAMPINGS.items():
        outcome = simulate_capture(
            arm, State.at_rest(arm), [six_hit()], duration=duration, damping=damping, sample=0.05
        )
        check = outcome.cross_check()
        found[f"mujoco.{name}"] = Check(check.largest, CROSS_CHECK_TOLERANCE, "", str(check))
    return found


def _facts(runs: Zhang2020Runs, found: Modes) -> dict[str, list[float]]:
    """How far closed forms that hold for any lengths are missed."""
    pairs = {
        "axial_modes": axial_modes(found).values(),
        "final_velocities": final_velocities(runs).values(),
        "rigid_shares": rigid_shares(runs).values(),
    }
    return {name: [abs(value / exact - 1.0) for value, exact in both] for name, both in pairs.items()}


def _settings(designed: DesignRuns, six: dict[str, CaptureRun]) -> dict[str, Any]:
    front = designed.front
    design = {"stiffness range": STIFFNESS_RANGE, "damping range": DAMPING_RANGE, "runs": front.runs}
    design |= {"designs on the front": len(front.values), "RK4 step [s]": front.evaluator.step}
    computed = {
        "settling criterion": str(CRITERION),
        "design": {**design, "settled": str(SETTLED), "seed": 0},
        "absorbed energy [J], damping 5, 60 s": six["damping5"].absorbed_energy(),
        "steps of a 60 s run": {name: outcome.steps for name, outcome in six.items()},
    }
    return settings(NAME, **computed)


def _summary(runs: Zhang2020Runs, designed: DesignRuns) -> dict[str, Any]:
    """The numbers of the summary."""
    soft, stiff = (1e3 * abs(runs.axial["fz", n].base_velocity[:, 2]).max() for n in ("damping5", "rigid"))
    slow, quick = (runs.long[name].settling_time(CRITERION) for name in ("damping1", "damping5"))
    front = designed.front
    best = [designed.gains(front.best(name))[k] for k, name in enumerate(OBJECTIVES)]
    facts = {"soft": soft, "stiff": stiff, "slow": slow, "quick": quick, "runs": front.runs}
    return facts | {"best": best, "knee": designed.gains(front.knee())}
