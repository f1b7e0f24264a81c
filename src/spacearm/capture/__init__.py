"""Soft capture: compliant joints that take the blow (Zhang et al. 2020)."""

from spacearm.capture.clutch import At, Felt, Mode, Settled
from spacearm.capture.cushion import cushion
from spacearm.capture.design import Front, design
from spacearm.capture.hit import Hit
from spacearm.capture.impulse import Impact, close_clutch
from spacearm.capture.judge import Case, Judge, Verdicts
from spacearm.capture.modes import Modes, modes
from spacearm.capture.output import Exceeded, Outcome, Settling
from spacearm.capture.semiactive import OnOff
from spacearm.capture.shares import Shares, momentum_shares
from spacearm.capture.softjoint import SoftAxis, SoftJoint, relaxed, soft_axes, soft_joints, soften
from spacearm.capture.target import Caught, Target, catch, catch_softly

__all__ = [
    "At",
    "Case",
    "Caught",
    "Exceeded",
    "Felt",
    "Front",
    "Hit",
    "Impact",
    "Judge",
    "Mode",
    "Modes",
    "OnOff",
    "Outcome",
    "Settled",
    "Settling",
    "Shares",
    "SoftAxis",
    "SoftJoint",
    "Target",
    "Verdicts",
    "catch",
    "catch_softly",
    "close_clutch",
    "cushion",
    "design",
    "modes",
    "momentum_shares",
    "relaxed",
    "soft_axes",
    "soft_joints",
    "soften",
]
