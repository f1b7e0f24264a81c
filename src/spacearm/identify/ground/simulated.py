"""Made-up records of a held arm, to see beforehand what a motion would tell."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spacearm.checks import non_negative, positive
from spacearm.errors import InputError
from spacearm.identify.ground.held_base import torque_regressor
from spacearm.measure import Record
from spacearm.model import Robot

#: Frequencies of the motion, Hz, and sizes relative to the first.
HARMONICS = ((0.2, 1.0), (0.46, 0.5), (0.74, 0.3))
#: More samples than this are a slip of the pen.
MOST_SAMPLES = 1_000_000


def simulate_record(
    robot: Robot,
    name: str,
    duration: float,
    *,
    gravity: npt.ArrayLike = (0.0, 0.0, -9.81),
    step: float = 0.005,
    amplitude: float = 1.0,
    noise: float = 0.1,
    seed: int = 0,
) -> Record:
    """A record of all joints in motion, with torques by the robot's own inertias, rotors and friction.

    Args:
        duration, step: s.
        amplitude: of the slowest of three sines, rad or m.
        noise: standard deviation of a torque reading, N m or N.
    """
    count = positive(duration, "duration", unit="s") / positive(step, "step", unit="s")
    if count > MOST_SAMPLES:
        raise InputError(f"{duration:g} s every {step:g} s are too many samples", hint=f"at most {MOST_SAMPLES}")
    random = np.random.default_rng(seed)
    times = step * np.arange(int(count) + 1)
    position, rate, acceleration = np.zeros((3, times.size, robot.n))
    for frequency, share in HARMONICS:
        w = 2.0 * np.pi * frequency
        angle = w * times[:, None] + random.uniform(0.0, 2.0 * np.pi, robot.n)
        size = amplitude * share
        # Sines, so that rates and accelerations are exact and no differences.
        position, rate = position + size * np.sin(angle), rate + size * w * np.cos(angle)
        acceleration = acceleration - size * w**2 * np.sin(angle)
    matrix, rotors = torque_regressor(robot, position, rate, acceleration, np.asarray(gravity))
    damping = np.array([joint.damping for joint in robot.joints])
    dry = np.array([0.0 if joint.friction is None else joint.friction.coulomb for joint in robot.joints])
    torque = matrix @ robot.inertia_parameters.ravel() + rotors + damping * rate + dry * np.sign(rate)
    torque = torque + non_negative(noise, "noise") * random.standard_normal(torque.shape)
    units = {"joint_position": "rad", "torque": "N m"}
    return Record.from_columns(name, times, {"joint_position": position, "torque": torque}, units=units)
