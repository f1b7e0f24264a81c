"""Reproduction of Cai, Wang, Deng, Yang (2023): emergency ejection of a space manipulator on an air table.

The arm is a surrogate fitted to Table III, because Tables I and II cannot give that table; the proof is part of the
result. What lies within the stated tolerance is therefore called fitted, never validated. Signs are the paper's:
q2_paper = -q2, q4_paper = q4, omega_paper = -omega_y of the model.
"""

from __future__ import annotations

import numpy as np

from spacearm.ejection import Ejection, check_in_mujoco, eject, friction_check
from spacearm.ejection.batch import METHOD as BATCH
from spacearm.ejection.run import METHOD as SINGLE
from spacearm.model.rotations import rotation_matrices
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, page
from spacearm.papers.cai2023.claims import findings
from spacearm.papers.cai2023.data import ATTITUDES, DAMPING, DEGREE, NAME
from spacearm.papers.cai2023.runs import DECK, MARGIN, Study, compute
from spacearm.result import Certificate, Check, Result

CROSS_TOLERANCE = 1e-6


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """All rows, figures and the certificate; ``cross_check`` adds MuJoCo's."""
    tell = progress or (lambda fraction, what: None)
    study = compute(tell)
    certificate = _certificate(study)
    if cross_check:
        tell(0.85, "cross-check in MuJoCo")
        certificate |= _cross_checks(study)
    tell(0.95, "figures")
    from spacearm.papers.cai2023.figures import dataset, figures

    arm, device = study.rig.arm, study.rig.device
    settings = {
        "robot": "cai2023 (surrogate fitted to Table III), joints 1, 3, 5, 7 frozen, air table in the x-z plane",
        "springs": f"{device.springs} x {device.stiffness} N/m in parallel",
        "stroke_m": device.stroke,
        "static_friction_Nm": 4.0,
        "coulomb_friction_Nm": 2.0,
        "damping_Nms_per_rad": DAMPING,
        "configurations_deg": {str(n): (arm.configuration(f"attitude{n}") * DEGREE).tolist() for n in ATTITUDES},
        "segment_s": 0.02,
        "integrator": f"DOP853 with events, rtol {SINGLE.rtol:g} (single runs), {BATCH.rtol:g} (batches)",
    }
    rows = agreement(NAME, findings(study))
    return Result(NAME, rows, certificate, settings, dataset(study), figures(study), **page(NAME))


def _certificate(study: Study) -> Certificate:
    checks = {}
    for number, run in study.full.items():
        for name in ("ledger", "momentum"):
            checks[f"attitude{number}.{name}"] = run.certificate[name]
        checks[f"attitude{number}.friction"] = friction_check(run)
        checks[f"attitude{number}.run"] = Check.that(run.sound, "all residuals within tolerance")
    rig = study.rig
    locked = eject(rig, "attitude1", locked=rig.arm.joint_names, flight=0.1)
    exact = rig.device.quarter_period(rig.arm.mass)
    checks["locked.quarter_period"] = Check(
        locked.time / exact - 1.0, 1e-10, "", "all joints locked: time against pi/2 sqrt(M/K)"
    )
    winner = eject(rig, study.best["fastest"].joints, keep_out=[DECK])
    assert winner.clearance is not None
    checks["best.fastest.clearance"] = Check(
        max(0.0, MARGIN - winner.clearance.least), 1e-3, "m", "shortfall of clearance at the samples of a full run"
    )
    checks["recoil.momentum"] = Check(
        _recoil_momentum(study.recoil), 1e-10, "", "arm and satellite together have no momentum, relative to each"
    )
    checks["recoil.ledger"] = study.recoil.certificate["ledger"]
    return Certificate(checks)


def _recoil_momentum(run: Ejection) -> float:
    """Momentum of arm and satellite along the rail, which started at rest, relative to the arm's."""
    assert run.rig.device.satellite is not None
    assert run.satellite is not None
    speed, spin = run.recoil
    satellite = run.rig.device.satellite
    centre = rotation_matrices(run.satellite.states[0, 3:7]) @ satellite.com
    carrier = satellite.mass * (speed + np.cross(spin, centre))
    arm = run.rig.arm.mass * run.drift_velocity
    return float(np.linalg.norm((arm + carrier)[[0, 2]]) / np.linalg.norm(arm))


def _cross_checks(study: Study) -> dict[str, Check]:
    checks = {}
    cases = {
        "replayed": study.rig,
        "viscous": study.rig.with_joints(friction=None),
        "frictionless": study.rig.with_joints(friction=None, damping=0.0),
    }
    meaning = {
        "replayed": "full run against MuJoCo with the recorded sticks and slips: locks and constant torques",
        "viscous": "without dry friction",
        "frictionless": "without friction and damping",
    }
    for name, rig in cases.items():
        for number in ATTITUDES:
            run = eject(rig, f"attitude{number}", flight=4.0, sample=0.02)
            checks[f"mujoco.{name}.attitude{number}"] = Check(
                check_in_mujoco(run).largest, CROSS_TOLERANCE, "", f"largest relative difference, {meaning[name]}"
            )
    return checks
