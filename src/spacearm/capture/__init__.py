"""Soft capture: compliant joints that absorb the impact (Zhang et al. 2020)."""

from spacearm.capture.capture_run import CaptureRun, SettlingCriterion
from spacearm.capture.capture_simulation import simulate_capture
from spacearm.capture.clutch import SwitchAtOverload, SwitchAtTime
from spacearm.capture.design import DesignFront, design
from spacearm.capture.evaluate import Evaluator, LoadCase
from spacearm.capture.modes import modes
from spacearm.capture.momentum_budget import momentum_budget
from spacearm.capture.plastic_impact import close_clutch
from spacearm.capture.semiactive import OnOff
from spacearm.capture.soft_joints import SoftAxis, SoftJoint, soft_joints, soften
from spacearm.capture.target import Approach, Target, catch, catch_softly

__all__ = [
    "Approach",
    "CaptureRun",
    "DesignFront",
    "Evaluator",
    "LoadCase",
    "OnOff",
    "SettlingCriterion",
    "SoftAxis",
    "SoftJoint",
    "SwitchAtOverload",
    "SwitchAtTime",
    "Target",
    "catch",
    "catch_softly",
    "close_clutch",
    "design",
    "modes",
    "momentum_budget",
    "simulate_capture",
    "soft_joints",
    "soften",
]
