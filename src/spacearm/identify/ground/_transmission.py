"""Records of motors converted to joints: gear ratios, motors that act on several joints, zeros of encoders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from spacearm.checks import array
from spacearm.errors import InputError
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.typing import Array


def convert_motors(
    robot: Robot, record: Record, ratios: npt.ArrayLike, zero: npt.ArrayLike = 0.0, torque: npt.ArrayLike = 1.0
) -> Record:
    """Convert a record of motor angles and torques into one of joint positions and torques.

    Args:
        ratios: (n, n), motor angles = ratios @ joint angles; or (n,), one ratio for each joint.
        zero: (n,) joint positions, rad or m, at which the motors read zero.
        torque: N m of a motor for each unit of the channel ``torque`` (N m/A of a current): one number or (n,).
    """
    matrix = _ratio_matrix(robot, ratios)
    inverse = np.linalg.inv(matrix)
    found = {}
    for name, channel in record.channels.items():
        if name == "torque":
            # Virtual work: with motor angles = R q, joint torques are R^T times motor torques (rows here).
            values = (channel.values * np.asarray(torque, dtype=np.float64)) @ matrix
        elif name in ("joint_position", "joint_rate", "joint_acceleration"):
            values = channel.values @ inverse.T
            if name == "joint_position":
                values = values + np.asarray(zero, dtype=np.float64)
        else:
            values = channel.values
        found[name] = replace(channel, values=values, sigma=np.nan)
    return replace(record, channels=found)


def _ratio_matrix(robot: Robot, ratios: npt.ArrayLike) -> Array:
    given = np.asarray(ratios, dtype=np.float64)
    matrix = np.diag(given) if given.shape == (robot.n,) else array(given, "ratios", (robot.n, robot.n))
    if not np.linalg.cond(matrix) < 1e9:
        raise InputError("cannot be inverted", place="ratios", hint="expected a motor for each joint")
    return matrix


def list_couplings(robot: Robot, ratios: npt.ArrayLike) -> dict[str, Array]:
    """Motors that several joints turn: ``motor of <joint>`` to their speeds (n,) by each joint, one by their own."""
    matrix = _ratio_matrix(robot, ratios)
    found = {}
    for k, (name, row) in enumerate(zip(robot.joint_names, matrix, strict=True)):
        if np.count_nonzero(row) > 1:
            # Speeds relative to the motor's own joint: inertia and friction then count at that joint.
            own = row[k] if row[k] != 0.0 else np.abs(row).max()
            found[f"motor of {name}"] = row / own
    return found
