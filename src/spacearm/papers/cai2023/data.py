"""The rig of Cai et al. (2023) and its tables, from ``printed.toml``; in the paper's units and signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.ejection import Ejection, Rig, SeparationDevice, reduce_to_plane
from spacearm.model import catalogue
from spacearm.papers.agreement import read_paper_file
from spacearm.papers.cai2023.segmented import SegmentedEjection

NAME = "cai2023"
PRINTED = read_paper_file(NAME)
#: Joints that the air table holds, and the freedoms that it leaves.
FROZEN = ("joint1", "joint3", "joint5", "joint7")
DAMPING: float = PRINTED["damping"]  # N m s/rad
DEGREE = 180.0 / np.pi
UNITS = {"time": "s", "velocity": "mm/s", "joint2": "deg", "joint4": "deg", "angular_velocity": "deg/s"}
#: Other attitudes (q2, q4, q6 in this model's signs, deg) that meet all of Table III, its angular velocity as well.
ELSEWHERE = {1: (42.0, -144.0, 0.0), 5: (-2.5, -0.5, 0.0)}


@dataclass(frozen=True)
class PrintedRow:
    """A row of Table III (theory and ADAMS simulation) with its companions in Table IV (test)."""

    space: float  # kg
    plane: float
    joint4_free: float
    time: list[float]  # s, (theory, simulation)
    velocity: list[float]  # mm/s
    angular_velocity: float  # deg/s
    joint2: list[float]  # deg
    joint4: list[float]
    test_velocity: float
    test_joint2: float
    test_joint4: float

    def test(self, key: str) -> float:
        """Table IV as printed."""
        return float(getattr(self, f"test_{key}"))


TABLE = {number: PrintedRow(**row) for number, row in enumerate(PRINTED["attitudes"], 1)}
ATTITUDES = tuple(TABLE)


def rig_of(name: str) -> Rig:
    """The arm of this catalogue entry on the air table: joints 1, 3, 5, 7 frozen, motion in the x-z plane."""
    return Rig(reduce_to_plane(catalogue.load(name), FROZEN), SeparationDevice(**PRINTED["device"]), table="y")


def convert_to_paper_signs(run: Ejection | SegmentedEjection) -> dict[str, float]:
    """The five quantities of Table III in the paper's units and signs."""
    joints = run.rig.arm.joint_names
    variation = run.variation * DEGREE
    return {
        "time": run.time,
        "velocity": 1e3 * run.velocity,
        "joint2": -float(variation[joints.index("joint2")]),
        "joint4": float(variation[joints.index("joint4")]),
        "angular_velocity": -float(run.angular_velocity[1]) * DEGREE,
    }


def measured_value(number: int, key: str) -> float:
    """Table IV, joint 4 of attitude 4 with the sign of Table III."""
    value = TABLE[number].test(key)
    return -value if (number, key) == (4, "joint4") else value


def list_by_attitude(values: dict[int, float], style: str, unit: str) -> str:
    """Values by attitude, in words."""
    return ", ".join(f"{number}: {value:{style}} {unit}" for number, value in values.items())
