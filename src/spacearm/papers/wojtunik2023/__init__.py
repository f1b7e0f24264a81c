"""Wojtunik, Basmadji, Granosik, Seweryn (2023): parameters of a space manipulator's flexible joint.

The paper prints neither its raw data nor its noise nor the commanded accelerations, so the experiments here are
simulated: a robot with the joint of Table 2 moves, its sensors are read with noise, and the joint is identified from
them.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.model.files import robot_text
from spacearm.model.layout import Layout
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, checks, page, settings
from spacearm.papers.wojtunik2023.claims import findings
from spacearm.papers.wojtunik2023.data import (
    ACCELERATION,
    ASSUMED,
    DEGREE,
    DURATION,
    NAME,
    NEUTRAL,
    OFFSETS,
    RATE,
    SEED,
    STATED_OFFSETS,
    TABLE2,
    UNITS,
    paths,
    times,
)
from spacearm.papers.wojtunik2023.figures import build_figures, dataset
from spacearm.papers.wojtunik2023.runs import (
    ReferenceTests,
    Wojtunik2023Study,
    compute,
    energy_drift,
    hessian,
    noise_free,
)
from spacearm.result import Certificate, Check, Result
from spacearm.scene import scene_of
from spacearm.simulate import Phase, Run, State, simulate

__all__: list[str] = []


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Tables 2 and 3, Figures 4 to 8, and what the paper's set-up and search do to the values."""
    report = progress or (lambda fraction, what: None)
    study = compute(catalogue.load("wojtunik2023_printed"), report)
    report(0.95, "checks")
    certificate = _certificate(study)
    if cross_check:
        certificate |= {"mujoco": _mujoco()}
    identified = robot_text(study.campaign.fits[1].robot(), "toml", ("joint1 as identified from simulated test 2",))
    return Result(
        NAME,
        agreement(NAME, findings(study)),
        certificate,
        _settings(),
        dataset(study),
        build_figures(study),
        scene=scene_of(_plain_run(), title="test 2"),
        files={"identified.toml": identified, "tables.csv": _tables(study.campaign)},
        **page(NAME),
    )


def _tables(campaign: ReferenceTests) -> str:
    """Tables 2 and 3 for a spreadsheet: printed, identified, standard deviation."""
    lines = ["test,parameter,unit,printed,identified,standard deviation"]
    for k, fit in enumerate(campaign.fits, 1):
        for name, unit in UNITS.items():
            scale = 1.0 / DEGREE if name == "offset" else 1.0
            printed = STATED_OFFSETS.get(k, "") if name == "offset" else TABLE2[k - 1][name]
            lines.append(f"{k},{name},{unit},{printed},{fit[name] * scale:.6g},{fit.std(name) * scale:.3g}")
    return "\n".join(lines) + "\n"


def _settings() -> dict[str, Any]:
    motion = {"accelerations_deg_s2": ACCELERATION, "duration_s": DURATION, "rate_Hz": RATE}
    return settings(
        NAME,
        **motion,
        noise=ASSUMED["noise"],
        offsets_deg=list(OFFSETS),
        seed=SEED,
        neutral_start=NEUTRAL,
    )


def _certificate(study: Wojtunik2023Study) -> Certificate:
    robot = study.campaign.robot
    residuals = {
        "energy_drift": energy_drift(robot),
        "noise_free_recovery": noise_free(robot),
        "errors_in_sd": _largest_error(study.campaign),
        "hessian_J": hessian(robot),
        "forward_model": _difference_to_engine(study.campaign),
    }
    found = checks(NAME, residuals)
    for name, share in zip(UNITS, study.covered, strict=True):
        note = f"share {share:.3f} of 95 % intervals that hold the truth"
        found[f"coverage.{name}"] = Check(float(share) - 0.94, 0.04, "", note)
    return Certificate(found)


def _largest_error(campaign: ReferenceTests) -> float:
    worst = 0.0
    for fit, row, offset in zip(campaign.fits, TABLE2, OFFSETS, strict=True):
        right = np.array([*row.values(), offset * DEGREE])
        worst = max(worst, float(np.max(np.abs(fit.estimate.values - right) / fit.estimate.std)))
    return worst


def _plain_run() -> Run:
    """Test 2 as a plain run in time."""
    robot = catalogue.load("wojtunik2023_printed")  # it has test 2's joint
    given = paths()
    joints = np.array([float(given[name](0.0)) if name in given else 0.0 for name in robot.joint_names])
    joints[robot.joint_index("joint1")] = joints[robot.joint_index("joint1.motor")] + OFFSETS[1] * DEGREE
    return simulate(robot, State.at_rest(robot, joints), Phase(DURATION, driven=given), sample=times())


def _difference_to_engine(campaign: ReferenceTests) -> float:
    run, link = _plain_run(), campaign.robot.joint_index("joint1")
    own = run.states[:, Layout(campaign.robot.n).joint(link)]
    return float(np.max(np.abs(own - campaign.truths[1].joints[: len(own), link])))


def _mujoco() -> Check:
    from spacearm.simulate.check.crosscheck import cross_check

    try:
        found = cross_check(_plain_run())
    except ImportError as error:
        raise InputError(
            "MuJoCo is not installed", place="--cross-check", hint="pip install spacearm[verify]"
        ) from error
    if not found.was_run:
        warnings.warn(f"not cross-checked: {found.reason}", stacklevel=2)
        return Check.not_applicable(found.reason)
    return Check(found.largest, 1e-6, "", "largest relative difference of test 2 to MuJoCo")
