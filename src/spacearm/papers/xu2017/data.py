"""Numbers of Xu et al. (2017): tables as printed, and the experiments of Secs. 5.3 to 5.5.

Table 1 and the repaired Table 2 are the catalogue's robot ``xu2017``. Table 5 misses node 4 (0 deg at 30 s). Motions of
joints 2 to 6, PSO settings and bounds, the sensor's place and the start state of Sec. 5.5 are not printed: every joint
is given Table 5's motion about the normal configuration, the sensor sits at MOUNT, and Sec. 5.5 starts at rest.
"""

from __future__ import annotations

import numpy as np

from spacearm.identify.inertia import (
    CHANNELS,
    TYPICAL_NOISE,
    Experiment,
    Firing,
    Nodes,
    Sensors,
    Torque,
    one_joint,
)
from spacearm.model import Robot

POSTURE = "normal"
#: Table 3: thruster of each manoeuvre; each works 5 s.
FIRING_ORDER = (1, 7, 2, 8, 3, 11, 4, 12, 5, 9, 6, 10)
FIRING_TIME = 5.0  # s
#: Table 5 with the missing node.
NODE_TIMES = np.arange(9) * 7.5  # s
NODE_ANGLES = np.deg2rad([0.0, 15.0, 30.0, 15.0, 0.0, -15.0, -30.0, -15.0, 0.0])
MOUNT = np.array([0.1, -0.2, 0.3])  # m, base frame; not printed
#: Every channel but drive torques, which the paper does not measure.
MEASURED = tuple(name for name in CHANNELS if name != "torque")
#: Drawing's inertias from which everything starts: 15 % wrong.
WRONG = 1.15

#: Table 4, identified column: mass, r_cm, I_eq in the order of PLAIN.
TABLE4 = (475.999, 0.103, 0.007, 0.078, 65.460, 93.997, 66.931, -2.111, -25.195, -3.741)
#: Tables 6 to 12, theoretic and identified columns, bodies 0 to 6 in the order of PLAIN (mass, a, I).
THEORETIC = (
    (400, 0, 0, 0, 30, 28, 32, 0.260, 0.370, -0.290),
    (12, 0, 0, 0.150, 0.510, 0.510, 0.200, 0, 0, 0),
    (10, 0.270, 0, -0.251, 0.278, 1.811, 1.690, 0, 0.263, 0),
    (10, 0, 0, 0.150, 0.420, 0.420, 0.150, 0, 0, 0),
    (8, 0, 0, -0.350, 0.500, 0.500, 0.210, 0, 0, 0),
    (6, 0, -0.034, 0, 0.330, 0.172, 0.260, 0, 0, 0),
    (30, -0.270, 0, 0.430, 2.398, 2.678, 1.405, -0.069, 0.013, 0.051),
)
IDENTIFIED = (
    (399.9415, -5.22e-5, 1.39e-6, 2e-4, 30.117, 28.109, 31.993, 0.259, 0.335, -0.289),
    (12.010, 3.0e-4, -1.8e-14, 0.140, 0.523, 0.519, 0.196, 9.1e-11, 6.0e-4, -6.36e-9),
    (9.966, 0.272, -1.30e-13, -0.252, 0.285, 1.817, 1.689, 9.41e-9, 0.257, 5.1e-11),
    (10.007, -5.0e-4, 3.0e-15, 0.149, 0.414, 0.404, 0.141, 8.8e-13, 8.0e-4, -6.5e-13),
    (7.908, 1.0e-15, 1.4e-8, -0.346, 0.509, 0.501, 0.218, 6.5e-13, -4.7e-13, 1.4e-10),
    (6.069, -4.0e-15, -0.033, -1.9e-8, 0.323, 0.164, 0.261, -1.8e-13, -4.6e-14, 3.7e-9),
    (30.009, -0.270, -2.2e-8, 0.429, 2.395, 2.676, 1.405, -0.068, 0.014, 0.051),
)
#: The tables' symbols in the order of PLAIN.
SYMBOLS = ("mass", "ax", "ay", "az", "Ixx", "Iyy", "Izz", "Ixy", "Ixz", "Iyz")
#: Tables 6 to 12, error column as printed, by body and symbol: difference, and per cent of the theoretic value.
ERRORS: dict[tuple[int, str], tuple[str, str]] = {
    (0, "mass"): ("0.0585", "0.015"), (0, "Ixx"): ("0.117", "0.39"), (0, "Iyy"): ("0.109", "0.39"),
    (0, "Izz"): ("0.007", "0.022"), (0, "Ixy"): ("0.001", "0.38"), (0, "Ixz"): ("0.035", "9.5"),
    (0, "Iyz"): ("0.001", "0.34"),
    (1, "mass"): ("0.010", "0.083"), (1, "Ixx"): ("0.013", "2.5"), (1, "Iyy"): ("0.009", "1.8"),
    (1, "Izz"): ("0.004", "2"), (1, "az"): ("0.010", "6.7"),
    (2, "mass"): ("0.034", "0.34"), (2, "Ixx"): ("0.007", "2.5"), (2, "Iyy"): ("0.006", "0.32"),
    (2, "Izz"): ("0.001", "0.059"), (2, "Ixz"): ("0.006", "2.3"), (2, "ax"): ("0.002", "0.74"),
    (2, "az"): ("0.001", "0.39"),
    (3, "mass"): ("0.007", "0.07"), (3, "Ixx"): ("0.006", "1.4"), (3, "Iyy"): ("0.016", "3.8"),
    (3, "Izz"): ("0.009", "6.0"), (3, "az"): ("0.001", "0.067"),
    (4, "mass"): ("0.092", "1.2"), (4, "Ixx"): ("0.009", "1.8"), (4, "Iyy"): ("0.001", "0.2"),
    (4, "Izz"): ("0.008", "3.8"), (4, "az"): ("0.004", "1.1"),
    (5, "mass"): ("0.069", "1.2"), (5, "Ixx"): ("0.007", "2.1"), (5, "Iyy"): ("0.008", "4.6"),
    (5, "Izz"): ("0.001", "0.38"), (5, "ay"): ("0.001", "2.9"),
    (6, "mass"): ("0.009", "0.03"), (6, "Ixx"): ("0.003", "0.13"), (6, "Iyy"): ("0.002", "0.11"),
    (6, "Izz"): ("6.8e-4", "0.048"), (6, "Ixy"): ("5.0e-4", "7.2e-11"), (6, "Ixz"): ("0.001", "7.7"),
    (6, "Iyz"): ("2.0e-15", "7.4e-13"), (6, "ax"): ("8.4e-5", "3.1e-4"), (6, "az"): ("0.01", "2.3"),
}  # fmt: skip
#: Sec. 5.5: largest differences under the same torques.
VALIDATION = {"base_position": 3.31e-5, "base_attitude": 5.56e-4, "joint_angle": 7.96e-4}
#: Table 13.
AMPLITUDES = (1.5, -1.2, 1.0, 0.15, -0.1, 0.05)  # N m
FREQUENCIES = tuple(np.pi * k for k in (4.0, 3.0, 2.0, 2.0, 3.0, 4.0))  # rad/s
PHASES = tuple(np.pi * k for k in (0.0, 0.5, 1.0, 1.5, -0.5, -1.0))  # rad
VALIDATION_TIME = 2.0  # s


def sensors(interval: float = 0.1) -> Sensors:
    """All channels that the paper records, with typical noise stated for the weights."""
    return Sensors(MOUNT, interval, MEASURED, noise=TYPICAL_NOISE)


def experiments(robot: Robot) -> tuple[Experiment, ...]:
    """Table 3's firings with all joints locked, then one joint after the other with Table 5's motion."""
    firings = [
        Firing(f"thruster{number}", k * FIRING_TIME, (k + 1) * FIRING_TIME) for k, number in enumerate(FIRING_ORDER)
    ]
    nodes = Nodes(NODE_TIMES, NODE_ANGLES)
    return (
        Experiment("thrusters", FIRING_TIME * len(FIRING_ORDER), POSTURE, firings=firings),
        *(one_joint(robot, name, POSTURE, nodes) for name in robot.joint_names),
    )


def torques(robot: Robot) -> list[Torque]:
    """Table 13."""
    return [
        Torque(name, a, w, p) for name, a, w, p in zip(robot.joint_names, AMPLITUDES, FREQUENCIES, PHASES, strict=True)
    ]
