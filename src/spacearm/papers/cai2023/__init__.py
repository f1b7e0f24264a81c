"""Reproduction of Cai, Wang, Deng, Yang (2023): emergency ejection of a space manipulator on an air table.

The arm is a surrogate fitted to Table III, because Tables I and II cannot give that table; the proof is part of the
result. What lies within the stated tolerance is therefore called fitted, never validated. Signs are the paper's:
q2_paper = -q2, q4_paper = q4, omega_paper = -omega_y of the model.
"""

from __future__ import annotations

import numpy as np

from spacearm.ejection import Ejection, eject
from spacearm.ejection.batch import METHOD as BATCH
from spacearm.ejection.run import METHOD as SINGLE
from spacearm.ejection.verify import check_in_mujoco, friction_check
from spacearm.model.rotations import rotation_matrices
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, checks, page, settings
from spacearm.papers.cai2023.claims import findings
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, NAME
from spacearm.papers.cai2023.runs import DECK, MARGIN, Cai2023Study, compute
from spacearm.result import Certificate, Check, Result

__all__: list[str] = []


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """All rows, figures and the certificate; ``cross_check`` adds MuJoCo's."""
    report = progress or (lambda fraction, what: None)
    study = compute(report)
    certificate = _certificate(study)
    if cross_check:
        report(0.85, "cross-check in MuJoCo")
        certificate |= _cross_checks(study)
    report(0.95, "figures")
    from spacearm.papers.cai2023.figures import dataset, figures, scene

    arm, device = study.rig.arm, study.rig.device
    computed = {
        "springs": f"{device.springs} x {device.stiffness} N/m in parallel",
        "stroke_m": device.stroke,
        "damping_Nms_per_rad": DAMPING,
        "configurations_deg": {str(n): (arm.configuration(f"attitude{n}") * DEGREE).tolist() for n in ATTITUDES},
        "integrator": f"DOP853 with events, rtol {SINGLE.rtol:g} (single runs), {BATCH.rtol:g} (batches)",
    }
    rows = agreement(NAME, findings(study))
    shown = {"figures": figures(study), "scene": scene(study), **page(NAME)}
    return Result(NAME, rows, certificate, settings(NAME, **computed), dataset(study), **shown)


def _certificate(study: Cai2023Study) -> Certificate:
    found = {}
    for number, run in study.full.items():
        for name in ("ledger", "momentum"):
            found[f"attitude{number}.{name}"] = run.certificate[name]
        found[f"attitude{number}.friction"] = friction_check(run)
        found[f"attitude{number}.run"] = Check.from_condition(run.sound, "all residuals within tolerance")
    rig = study.rig
    locked = study.locked[1]
    winner = eject(rig, study.best["fastest"].joints, keep_out=[DECK])
    assert winner.clearance is not None
    residuals = {
        "locked.quarter_period": locked.time / rig.device.quarter_period(rig.arm.mass) - 1.0,
        "best.fastest.clearance": max(0.0, MARGIN - winner.clearance.least),
        "recoil.momentum": _recoil_momentum(study.recoil),
    }
    return Certificate({**found, **checks(NAME, residuals), "recoil.ledger": study.recoil.certificate["ledger"]})


def _recoil_momentum(run: Ejection) -> float:
    """Momentum of arm and satellite along the rail, which started at rest, relative to the arm's."""
    assert run.rig.device.satellite is not None
    assert run.satellite is not None
    speed, angular_rate = run.recoil
    satellite = run.rig.device.satellite
    centre = rotation_matrices(run.satellite.states[0, 3:7]) @ satellite.com
    carrier = satellite.mass * (speed + np.cross(angular_rate, centre))
    arm = run.rig.arm.mass * run.drift_velocity
    return float(np.linalg.norm((arm + carrier)[[0, 2]]) / np.linalg.norm(arm))


def _cross_checks(study: Cai2023Study) -> dict[str, Check]:
    """The recorded sticks and slips as locks and constant torques, and runs without friction, in MuJoCo."""
    viscous = study.rig.with_joints(friction=None)
    cases = {"replayed": study.rig, "viscous": viscous, "frictionless": viscous.with_joints(damping=0.0)}
    found = {}
    for name, rig in cases.items():
        for number in ATTITUDES:
            run = eject(rig, f"attitude{number}", flight=4.0, sample=0.02)
            (check,) = checks(NAME, {f"mujoco.{name}": check_in_mujoco(run).largest}).values()
            found[f"mujoco.{name}.attitude{number}"] = check
    return found
