"""Identification near a point on a circular orbit: the motion in axes that do not rotate, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.identify.inertia._base_motion import BaseMotion, MotionInputs
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.model import Body, Inertia, Robot
from spacearm.typing import Array

RATE = 0.01  # rad/s, ten times that of a low orbit
BODY = Robot("body", (Body("body", Inertia(30.0, np.array([0.1, 0.2, -0.3]), np.diag([4.0, 5.0, 3.0]))),), ())
TIMES = np.linspace(0.0, 60.0, 601)


def move(start: Array, inertia: Array) -> Array:
    """States (T, 13) of the body at the times."""
    none = np.zeros((TIMES.size, 0))
    inputs = MotionInputs(TIMES, none, none, np.array([0.0, TIMES[-1]]), np.zeros((0, 1, 6)), RATE)
    return BaseMotion(BODY, inputs).run(start, inertia)[::2].copy()


def start_at(position: Array, velocity: Array, turning: Array) -> Array:
    """Pose and momentum of the body with its mass centre here, moving so (axes that do not rotate)."""
    com, mass = BODY.bodies[0].inertia.com, BODY.mass
    own = BODY.bodies[0].inertia.tensor @ turning
    return np.concatenate(
        [position - com, [1.0, 0.0, 0.0, 0.0], mass * velocity, own + np.cross(position, mass * velocity)]
    )


def test_the_mass_centre_moves_as_clohessy_and_wiltshire_say() -> None:
    place, speed = np.array([5.0, -8.0, 3.0]), np.array([0.02, 0.01, -0.03])
    up = np.array([0.0, 0.0, RATE])
    start = start_at(place, speed + np.cross(up, place), np.array([0.1, -0.05, 0.2]))
    states = move(start, BODY.inertia_parameters.ravel())
    body = Rotation.from_quat(states[:, 3:7], scalar_first=True)
    back = Rotation.from_rotvec(-np.outer(TIMES, up))
    centres = back.apply(states[:, :3] + body.apply(BODY.bodies[0].inertia.com.copy()))
    s, c, n, t = np.sin(RATE * TIMES), np.cos(RATE * TIMES), RATE, TIMES
    (x, y, z), (u, v, w) = place, speed
    closed = [
        (4 - 3 * c) * x + s / n * u + 2 / n * (1 - c) * v,
        6 * (s - n * t) * x + y - 2 / n * (1 - c) * u + (4 * s / n - 3 * t) * v,
        z * c + w / n * s,
    ]
    np.testing.assert_allclose(centres, np.array(closed).T, atol=1e-7)


def test_the_angular_momentum_changes_by_the_gravity_gradient() -> None:
    """3 n^2 u x I u about the mass centre, u away from the Earth, integrated over the motion."""
    start = start_at(np.zeros(3), np.zeros(3), np.array([0.02, 0.01, -0.03]))
    states = move(start, BODY.inertia_parameters.ravel())
    body = Rotation.from_quat(states[:, 3:7], scalar_first=True).as_matrix()
    tensor = body @ BODY.bodies[0].inertia.tensor @ np.swapaxes(body, 1, 2)
    away = np.column_stack([np.cos(RATE * TIMES), np.sin(RATE * TIMES), 0.0 * TIMES])
    moment = 3.0 * RATE**2 * np.cross(away, np.einsum("tij,tj->ti", tensor, away))
    steps = (moment[:-2:2] + 4.0 * moment[1:-1:2] + moment[2::2]) * (TIMES[1] / 3.0)  # Simpson's rule
    gained = states[2::2, 10:] - states[0, 10:]
    np.testing.assert_allclose(gained, np.cumsum(steps, axis=0), atol=2e-6 * np.abs(gained).max())
    assert np.abs(gained).max() > 0.003


def test_derivatives_are_those_of_differences() -> None:
    inertia = BODY.inertia_parameters.ravel()
    start = start_at(np.array([5.0, -8.0, 3.0]), np.array([0.02, 0.01, -0.03]), np.array([0.1, -0.05, 0.2]))
    none = np.zeros((TIMES.size, 0))
    inputs = MotionInputs(TIMES, none, none, np.array([0.0, TIMES[-1]]), np.zeros((0, 1, 6)), RATE)
    moved = BaseMotion(BODY, inputs).linearise(start, inertia, np.eye(10))
    errors = np.zeros((12, 22))
    errors[:, :12] = np.eye(12)
    for across, forced in zip(moved.across, moved.forced, strict=True):
        errors = across @ errors
        errors[:, 12:] += forced
    for column in [0, 1, 2, 6, 9, 10, *range(12, 22)]:
        ends = []
        for sign in (1.0, -1.0):
            own, by = start.copy(), np.zeros(10)
            if column < 3:
                own[column] += sign * 1e-5
            elif column < 12:
                own[column + 1] += sign * 1e-5
            else:
                by[column - 12] = sign * 1e-5
            ends.append(move(own, inertia + by)[-1])
        slope = (ends[0] - ends[1]) / 2e-5
        rows = [0, 1, 2, 7, 8, 9, 10, 11, 12]  # the quaternion is no column of errors
        found = errors[[0, 1, 2, 6, 7, 8, 9, 10, 11], column]
        np.testing.assert_allclose(found, slope[rows], atol=1e-5 * (1.0 + np.abs(slope).max()))


def test_readings_leave_the_rotating_axes() -> None:
    """A body that rests in them moves on a circle about the origin and rotates with the orbit."""
    count = TIMES.size
    rest = {
        "position": np.broadcast_to([4.0, 0.0, 1.0], (count, 3)),
        "attitude": np.broadcast_to([1.0, 0.0, 0.0, 0.0], (count, 4)),
        "velocity": np.zeros((count, 3)),
        "rate": np.zeros((count, 3)),
    }
    zeros = np.zeros((count, 6))
    record = MotionRecord("rest", TIMES, rest, np.zeros(3), zeros, (0.0, 60.0), None, (), dict.fromkeys(rest, 1e-3))
    found = replace(record, name="other").remove_orbital_rotation(RATE)
    angle = RATE * TIMES
    circle = np.column_stack([4.0 * np.cos(angle), 4.0 * np.sin(angle), np.ones(count)])
    np.testing.assert_allclose(found.readings["position"], circle, atol=1e-14)
    np.testing.assert_allclose(found.readings["velocity"], np.gradient(circle, TIMES, axis=0, edge_order=2), atol=2e-5)
    np.testing.assert_allclose(found.readings["rate"], np.broadcast_to([0.0, 0.0, RATE], (count, 3)), atol=1e-15)
    np.testing.assert_allclose(found.readings["attitude"][:, 3], np.sin(0.5 * angle), atol=1e-14)
    assert found.orbit == RATE
