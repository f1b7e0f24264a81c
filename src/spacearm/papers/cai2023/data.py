"""What Cai et al. (2023) print: Tables III and IV, and the device; in the paper's units and signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spacearm.ejection import Device, Ejection, Rig, Segmented, planar
from spacearm.model import catalogue
from spacearm.result import Verdict

#: Joints that the air table holds, and the freedoms that it leaves.
FROZEN = ("joint1", "joint3", "joint5", "joint7")
ATTITUDES = (1, 2, 3, 4, 5)
STIFFNESS, SPRINGS, STROKE = 812.7, 2, 0.086  # N/m of one spring, two in parallel, m (Sec. 4.1)
DAMPING = 5.4  # N m s/rad, after the correction of Sec. 5.2


@dataclass(frozen=True)
class Printed:
    """A row of Table III (theory and ADAMS simulation) with its companions in Table IV (test)."""

    space: float  # kg
    plane: float
    joint4_free: float
    time: tuple[float, float]  # s, (theory, simulation)
    velocity: tuple[float, float]  # mm/s
    angular_velocity: float  # deg/s
    joint2: tuple[float, float]  # deg
    joint4: tuple[float, float]
    test_velocity: float
    test_joint2: float
    test_joint4: float


_COLUMNS = (
    # attitude 1
    (26.93, 48.73, 53.47, (0.272, 0.275), (478.1, 463.1), -9.45,
     (-0.75, -0.67), (-4.36, -4.2), 446.8, -0.92, -3.81),
    # attitude 2
    (21.89, 33.05, 83.74, (0.225, 0.23), (573.8, 564.7), 4.95,
     (-4.48, -4.36), (-6.75, -6.61), 540.6, -4.99, -7.53),
    # attitude 3
    (19.06, 33.76, 53.45, (0.228, 0.234), (562.5, 546.3), -4.82,
     (-2.68, -2.63), (-4.57, -4.39), 534.3, -3.24, -4.09),
    # attitude 4
    (25.31, 44.95, 56.47, (0.261, 0.265), (494.4, 489.6), -13.4,
     (1.48, 1.41), (-1.63, -1.73), 456.2, 1.8, 1.92),
    # attitude 5
    (48.73, 84.87, 85.91, (0.359, 0.352), (377.2, 370.3), -0.72,
     (0.22, 0.14), (0.28, 0.16), 364.2, 0.31, 0.31),
)  # fmt: skip
TABLE = {number: Printed(*row) for number, row in zip(ATTITUDES, _COLUMNS, strict=True)}

#: Other attitudes (q2, q4, q6 in this model's signs, deg) that meet all of Table III, its angular velocity as well.
ELSEWHERE = {1: (42.0, -144.0, 0.0), 5: (-2.5, -0.5, 0.0)}
UNITS = {"time": "s", "velocity": "mm/s", "joint2": "deg", "joint4": "deg", "angular_velocity": "deg/s"}
DEGREE = 180.0 / np.pi

#: Total mass as the text has it, Sec. 4.2, kg.
TOTAL = 116.1

#: Inertias of Table II as printed: Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centroid, kg mm2.
INERTIAS = {
    "base": (8.70e3, 8.71e3, 7.29e3, 82.8, 0.0, 60.4),
    "link 1": (8.69e3, 7.60e3, 6.34e3, 0.0, -1.40e3, 0.0),
    "link 2": (2.00e6, 1.12e5, 1.96e6, -4.47e3, 1.41e5, 6.60e2),
    "link 3": (4.11e4, 8.63e4, 1.01e5, -1.80e4, -4.25e3, -1.39e4),
    "link 4": (3.30e4, 1.93e4, 2.12e4, -2.99e2, 1.24e4, 2.71e2),
    "link 5": (1.99e6, 1.94e6, 9.08e4, -6.71e2, -2.11e5, 1.33e3),
    "link 6": (3.32e4, 3.84e4, 2.86e4, 28.71, 2.67e3, -112.73),
    "link 7": (5.69e4, 4.29e4, 3.32e4, -48.42, 5.51e2, -42.55),
}
#: Errors of the velocities in Table IV as printed, %.
VELOCITY_ERRORS = {1: 6.5, 2: 5.8, 3: 5.4, 4: 7.7, 5: 3.4}


def rig_of(name: str) -> Rig:
    """The arm of this catalogue entry on the air table: joints 1, 3, 5, 7 frozen, motion in the x-z plane."""
    return Rig(planar(catalogue.load(name), FROZEN), Device(STIFFNESS, STROKE, SPRINGS), table="y")


def in_paper_signs(run: Ejection | Segmented) -> dict[str, float]:
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


def judged(value: float, paper: float, limit: float) -> tuple[Verdict, str]:
    """``fitted`` within the limit and with the paper's sign, else ``differs``; what to say of the sign."""
    same = bool(np.sign(value) == np.sign(paper))
    verdict = Verdict.FITTED if same and abs(value - paper) <= limit else Verdict.DIFFERS
    return verdict, "" if same else ", but not the paper's sign" if value else ", but the paper has it move"
