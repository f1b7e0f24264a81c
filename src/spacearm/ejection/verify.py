"""Verification of an ejection with MuJoCo's dynamics, as the paper used ADAMS.

With dry friction the recorded sequence of events is replayed (:mod:`spacearm.simulate.check.crosscheck`); that the
sequence is correct is shown by the friction laws (:func:`friction_laws`).
"""

from __future__ import annotations

import numpy as np

from spacearm.ejection.rig import Rig
from spacearm.ejection.run import Ejection
from spacearm.result import Check
from spacearm.simulate.check.crosscheck import CrossCheck, cross_check

#: Excess of dry friction over its laws that rounding may cause, relative to static friction.
FRICTION_TOLERANCE = 1e-9


def check_in_mujoco(ejection: Ejection, *, friction: bool = True) -> CrossCheck:
    """Differences on the rail and, across the separation, in flight; ``friction`` as in the run."""
    return cross_check(ejection.run, friction="replay" if friction else "ignore")


def friction_laws(ejection: Ejection) -> float:
    """Largest violation of the dry-friction laws at any sample, relative to the joint's static friction; 0 is correct.

    A stuck joint holds at most its static friction; a slipping one is opposed by exactly its Coulomb friction.
    """
    worst = 0.0
    for run in (ejection.rail, ejection.flight):
        data = run.data
        for joint in run.robot.joints:
            if joint.friction is None or joint.friction.static == 0.0:
                continue
            rate = data["joint_velocity"].sel(joint=joint.name).values
            held = data["reaction"].sel(dof=joint.name).values
            drag = data["friction"].sel(dof=joint.name).values
            still = data["mode"].sel(dof=joint.name).values == 1
            over = np.where(
                still, np.abs(held) - joint.friction.static, np.abs(drag + np.sign(rate) * joint.friction.coulomb)
            )
            # The first instant of slip has no direction yet.
            over = np.where(~still & (rate == 0.0), 0.0, over)
            worst = max(worst, float(over.max(initial=0.0)) / joint.friction.static)
    return worst


def friction_check(ejection: Ejection) -> Check:
    """:func:`friction_laws` as a check of the certificate."""
    meaning = "excess of dry friction over its own laws, relative to static friction"
    joints = [joint for run in (ejection.rail, ejection.flight) for joint in run.robot.joints]
    if not any(joint.friction is not None and joint.friction.static > 0.0 for joint in joints):
        return Check.not_applicable(f"no joint has dry friction; {meaning}", FRICTION_TOLERANCE)
    return Check(friction_laws(ejection), FRICTION_TOLERANCE, "", meaning)


def frictionless(rig: Rig) -> Rig:
    """The rig without dry friction, damping kept: the case that MuJoCo can express on its own."""
    return rig.with_joints(friction=None)
