"""Soft capture: compliant joints that take the blow (Zhang et al. 2020)."""

from spacearm.capture.capture_run import CaptureRun, Settling
from spacearm.capture.clutch import At, Felt
from spacearm.capture.cushion import cushion
from spacearm.capture.design import Front, design
from spacearm.capture.evaluate import Case, Evaluator
from spacearm.capture.modes import Modes, modes
from spacearm.capture.momentum_budget import MomentumBudget, momentum_budget
from spacearm.capture.plastic_impact import close_clutch
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import SoftAxis, SoftJoint, soft_joints, soften
from spacearm.capture.target import Approach, Target, catch, catch_softly

__all__ = [
    "Approach",
    "At",
    "CaptureRun",
    "Case",
    "Evaluator",
    "Felt",
    "Front",
    "Modes",
    "MomentumBudget",
    "OnOff",
    "Settling",
    "SoftAxis",
    "SoftJoint",
    "Target",
    "catch",
    "catch_softly",
    "close_clutch",
    "cushion",
    "design",
    "modes",
    "momentum_budget",
    "soft_joints",
    "soften",
]
