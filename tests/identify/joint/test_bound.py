"""The Cramér-Rao bound of a flexible joint, derived once more: three inertias on one axis, SciPy and differences.

Base, link and rotor turn about the axis through their mass centres. Nothing of spacearm is in the derivation: every
reading of an input is an unknown of its own, straight between samples, and the information about all unknowns together
is written down as one dense matrix.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from spacearm.identify.joint import JointProblem
from spacearm.identify.joint._programs import Drive
from spacearm.identify.joint.measured import JointTest
from spacearm.model import Pose, Robot
from spacearm.model.edit import make_flexible
from spacearm.model.parts import Body, Inertia, Joint, Rotor
from spacearm.optimise.information import covariance_at

Array = NDArray[np.float64]
BASE, LINK = 4.0, 1.2  # kg m2
RIGHT = np.array([0.8, 6.0, 0.3, 0.05])  # motor inertia, stiffness, damping, offset
TIMES = np.linspace(0.0, 6.0, 51)
SIGMA = {"joint1": 1e-3, "attitude.z": 5e-4, "encoder": 2e-4, "torque": 0.01}


def motor(t: Array) -> Array:
    """A path from rest."""
    return np.asarray(0.1 * (1.0 - np.cos(1.1 * t)) + 0.05 * (1.0 - np.cos(2.9 * t)))


def torque(t: Array) -> Array:
    return np.asarray(0.4 * np.sin(1.1 * t) + 0.3 * np.sin(2.9 * t))


def turned(values: Array, drive: Drive, errors: Array, start: float = 0.0) -> Array:
    """Link, base (and motor) angles (T, channels) where the input differs by ``errors`` (T,), straight between samples.

    Without momentum the base turns by -(LINK q + rotor m) / whole. With the motor on its path m the link's
    z = q - c m, c = rotor / (whole - LINK), has no m'' in its equation.
    """
    rotor, stiffness, damping, offset = values
    whole = BASE + LINK + rotor

    def error(t: float) -> tuple[float, float]:
        k = min(int(np.searchsorted(TIMES, t, side="right")) - 1, TIMES.size - 2)
        slope = (errors[k + 1] - errors[k]) / (TIMES[k + 1] - TIMES[k])
        return errors[k] + slope * (t - TIMES[k]), slope

    c = rotor / (whole - LINK)

    def led(t: float, y: Array) -> Array:
        away, slope = error(t)
        m, rate = float(motor(np.array(t))) + away, 0.11 * np.sin(1.1 * t) + 0.145 * np.sin(2.9 * t) + slope
        q, dq = y[0] + c * m, y[1] + c * rate
        return np.array([y[1], -(stiffness * (q - m) + damping * (dq - rate)) / (LINK * (1.0 - LINK / whole))])

    def pushed(t: float, y: Array) -> Array:
        pull = stiffness * (y[0] - y[2]) + damping * (y[1] - y[3])
        mass = np.array([[LINK - LINK**2 / whole, -LINK * rotor / whole],
                         [-LINK * rotor / whole, rotor - rotor**2 / whole]])  # fmt: skip
        ddq, ddm = np.linalg.solve(mass, [-pull, pull + float(torque(np.array(t))) + error(t)[0]])
        return np.array([y[1], ddq, y[3], ddm])

    options = {"method": "DOP853", "rtol": 1e-11, "atol": 1e-13}
    if drive == "motor_angle":
        m = motor(TIMES) + errors
        begin, parts = np.array([m[0] + offset - c * m[0], 0.0]), []
        for low, high in pairwise(TIMES):  # the path's error has a kink at every sample
            parts.append(begin[0])
            begin = solve_ivp(led, (low, np.nextafter(high, low)), begin, **options).y[:, -1]
        q = np.array([*parts, begin[0]]) + c * m
        base = -(LINK * (q - q[0]) + rotor * (m - m[0])) / whole
        return np.stack([q, base], axis=1)
    found = solve_ivp(
        pushed, (0.0, TIMES[-1]), [start + offset, 0.0, start, 0.0], t_eval=TIMES, max_step=0.05, **options
    )
    q, m = found.y[0], found.y[2]
    return np.stack([q, -(LINK * (q - q[0]) + rotor * (m - m[0])) / whole, m], axis=1)


def derived(drive: Drive) -> Array:
    """Standard deviations of the four values, all unknowns in one dense matrix."""
    none = np.zeros(TIMES.size)
    clean = turned(RIGHT, drive, none)
    columns = []
    for k in range(4):
        step = 1e-4 * RIGHT[k] * np.eye(4)[k]
        columns.append((turned(RIGHT + step, drive, none) - turned(RIGHT - step, drive, none)) / (2e-4 * RIGHT[k]))
    unit = 1e-3  # the motion is linear in the inputs
    columns += [(turned(RIGHT, drive, unit * row) - clean) / unit for row in np.eye(TIMES.size)]
    noise = np.array([SIGMA["joint1"], SIGMA["attitude.z"]])
    if drive == "torque":
        columns.append((turned(RIGHT, drive, none, unit) - clean) / unit)
        noise = np.append(noise, SIGMA["encoder"])
    rows = np.stack([(column / noise).ravel() for column in columns], axis=1)
    sizes = np.full(TIMES.size, SIGMA["encoder" if drive == "motor_angle" else "torque"])
    information = rows.T @ rows
    inputs = slice(4, 4 + TIMES.size)
    information[inputs, inputs] += np.diag(1.0 / sizes**2)
    return np.asarray(np.sqrt(np.diag(np.linalg.inv(information))[:4]))


def robot() -> Robot:
    bodies = [Body(name, Inertia(5.0, np.zeros(3), np.diag([0.6, 0.6, 1.0]) * value))
              for name, value in (("base", BASE), ("link", LINK))]  # fmt: skip
    joint = Joint("joint1", "revolute", "base", "link", Pose(np.eye(3), np.zeros(3)), np.array([0.0, 0.0, 1.0]))
    plain = Robot("axis", tuple(bodies), (joint,))
    return make_flexible(plain, "joint1", RIGHT[1], RIGHT[2], Rotor(RIGHT[0], 1.0))


@pytest.mark.parametrize("drive", ["motor_angle", "torque"])
def test_the_bound_is_that_of_a_dense_derivation(drive: Drive) -> None:
    read = turned(RIGHT, drive, np.zeros(TIMES.size))
    measured, more = {"joint1": read[:, 0], "attitude.z": read[:, 1]}, {}
    noise = [SIGMA["joint1"], SIGMA["attitude.z"]]
    path = motor(TIMES)
    if drive == "torque":
        path, measured["joint1.motor"] = read[:, 2], read[:, 2]
        noise.append(SIGMA["encoder"])
        more = {"torques": {"joint1": torque(TIMES)}, "torque_sigma": SIGMA["torque"]}
    test = JointTest("axis", TIMES, {"joint1.motor": path}, measured, np.array(noise), encoder_sigma=SIGMA["encoder"],
                     **more)  # fmt: skip
    model = JointProblem(robot(), [test], drive=drive).with_path_errors(RIGHT)
    bound = np.sqrt(np.diag(covariance_at(model, RIGHT)))
    assert bound == pytest.approx(derived(drive), rel=2e-3)
