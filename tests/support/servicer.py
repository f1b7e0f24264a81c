"""A servicer with a held body, moved by MuJoCo: data that spacearm did not make."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import mujoco
import numpy as np
from scipy.interpolate import CubicHermiteSpline

from spacearm.identify.inertia import MotionRecord
from spacearm.mechanics.sensors import KINDS
from spacearm.model import Body, Inertia, Joint, Pose, Robot
from spacearm.model.edit import replace_inertias
from spacearm.model.mjcf_write import mjcf_text
from spacearm.typing import Array

Motion = tuple[Array, Array, Array]
TARGET = Inertia(40.0, [0.05, -0.1, 0.4], np.array([[6.0, 0.4, -0.3], [0.4, 5.0, 0.2], [-0.3, 0.2, 4.0]]))
ROBOT = Robot(
    "servicer",
    [
        Body("bus", Inertia(200.0, [0.02, 0.0, -0.05], np.diag([40.0, 50.0, 45.0]))),
        Body("upper", Inertia(8.0, [0.0, 0.0, 0.4], np.diag([0.5, 0.5, 0.05]))),
        Body("held", TARGET),
    ],
    [
        Joint("shoulder", "revolute", "bus", "upper", axis=[0, 1, 0], placement=Pose(translation=[0.3, 0.1, 0.5])),
        Joint("wrist", "revolute", "upper", "held", axis=[1, 0, 0], placement=Pose(translation=[0.0, 0.0, 0.8])),
    ],
)
NOISE = {
    "position": 5e-3,
    "attitude": 1e-4,
    "velocity": 1e-3,
    "rate": 5e-5,
    "joint_position": 5e-5,
    "joint_rate": 5e-4,
}


def sensor_tables(noise: dict[str, float]) -> list[dict[str, object]]:
    """Tables of a scenario file for sensors with this noise, by channel."""
    kinds = {kind.channel: name for name, kind in KINDS.items()}
    return [{"kind": kinds[channel], "noise": sigma} for channel, sigma in noise.items()]


STEP, COUNT, FINE = 0.04, 501, 40
#: Start, duration (s), force and point of attack (base axes) of the firings.
FIRINGS = [
    (1.0 + 3.0 * k, 2.0, 10.0 * np.eye(3)[k % 3] * (-1.0) ** (k // 3), np.array([0.4, -0.3, 0.5])[[k % 3, 2, 0]])
    for k in range(6)
]


@lru_cache(maxsize=4)
def servicer_motion(pushed: bool = True, robot: Robot = ROBOT, drag: float = 0.0) -> Motion:
    """Times, positions and velocities by MuJoCo; its thrusters, if any fire, turn with the base inside every step.

    ``drag``: a force along x of the world, N, that no record states.
    """
    spec = mujoco.MjSpec.from_string(mjcf_text(robot))
    for k, (_, _, force, point) in enumerate(FIRINGS):
        spec.body("bus").add_site(name=f"jet{k}", pos=point)
        jet = spec.add_actuator(name=f"jet{k}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=f"jet{k}")
        jet.gear = [*force, 0, 0, 0]
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP / FINE
    model.opt.gravity[:] = 0.0
    data = mujoco.MjData(model)
    data.qpos[:9] = [
        0.3,
        -0.2,
        0.1,
        *(np.array([1.0, 0.1, -0.05, 0.2]) / np.linalg.norm([1.0, 0.1, -0.05, 0.2])),
        0.4,
        -0.3,
    ]
    data.qvel[:6] = [0.004, -0.003, 0.002, 0.001, -0.002, 0.0015]
    speeds, sizes, begin = 2 * np.pi * np.array([0.13, 0.19]), np.array([0.3, 0.4]), data.qpos[7:9].copy()
    positions, velocities = [], []
    for k in range(COUNT):
        positions.append(data.qpos.copy())
        velocities.append(data.qvel.copy())
        for i in range(FINE):
            t = (k * FINE + i) * STEP / FINE
            wanted = begin + sizes * (1.0 - np.cos(speeds * t))
            rates = sizes * speeds * np.sin(speeds * t)
            data.qfrc_applied[0] = drag
            data.qfrc_applied[6:] = 2e3 * (wanted - data.qpos[7:]) + 4e2 * (rates - data.qvel[6:])
            data.ctrl[-len(FIRINGS) :] = [float(pushed and s <= t + 1e-9 < s + d) for s, d, _, _ in FIRINGS]
            mujoco.mj_step(model, data)
    return np.arange(COUNT) * STEP, np.array(positions), np.array(velocities)


def measured(motion: Motion, seed: int | None, thrust: float = 1.0) -> MotionRecord:
    """What its sensors read; ``thrust`` is the one that is stated, zero where none fires."""
    times, q, v = motion
    readings = {
        "position": q[:, :3], "attitude": q[:, 3:7], "velocity": v[:, :3], "rate": v[:, 3:6],
        "joint_position": q[:, 7:], "joint_rate": v[:, 6:],
    }  # fmt: skip
    wrench = np.zeros((COUNT, 6))
    for start, length, force, point in FIRINGS:
        on = (times + 1e-9 >= start) & (times + 1e-9 < start + length)
        wrench[on] += thrust * np.concatenate([force, np.cross(point, force)])
    edges = sorted({0.0, float(times[-1]), *(s for s, *_ in FIRINGS), *(s + d for s, d, *_ in FIRINGS)})
    record = MotionRecord("orbit", times, readings, np.zeros(3), wrench, tuple(edges), None, (True, True), NOISE)
    return record if seed is None else record.add_noise(seed)


@lru_cache(maxsize=1)
def servicer_accelerations() -> tuple[Array, Array]:
    """Accelerations (T, 8) of the base (linear in world axes, angular in its own) and the joints, and torques."""
    times, q, v = servicer_motion()
    model = mujoco.MjModel.from_xml_string(mjcf_text(ROBOT))
    data = mujoco.MjData(model)
    model.opt.gravity[:] = 0.0
    speeds, sizes, begin = 2 * np.pi * np.array([0.13, 0.19]), np.array([0.3, 0.4]), q[0, 7:]
    found = []
    for t, here, velocity, wrench in zip(times, q, v, measured((times, q, v), None).wrench, strict=True):
        data.qpos[:], data.qvel[:] = here, velocity
        wanted = begin + sizes * (1.0 - np.cos(speeds * t)), sizes * speeds * np.sin(speeds * t)
        data.qfrc_applied[6:] = 2e3 * (wanted[0] - here[7:]) + 4e2 * (wanted[1] - velocity[6:])
        mujoco.mj_fwdPosition(model, data)
        data.qfrc_applied[:3], data.qfrc_applied[3:6] = data.xmat[1].reshape(3, 3) @ wrench[:3], wrench[3:]
        mujoco.mj_forward(model, data)
        found.append(np.concatenate([data.qacc, data.qfrc_applied[6:]]))
    return np.array(found)[:, :8], np.array(found)[:, 8:]


def with_accelerations(record: MotionRecord, mount: Array) -> MotionRecord:
    """A record of :func:`servicer_motion` without noise, read at ``mount``, with accelerations and torques."""
    times, q, v = servicer_motion()
    (moved, torque), rotation = servicer_accelerations(), np.empty((times.size, 3, 3))
    for matrix, attitude in zip(rotation, q[:, 3:7], strict=True):
        flat = np.empty(9)
        mujoco.mju_quat2Mat(flat, attitude)
        matrix[:] = flat.reshape(3, 3)
    turning = v[:, 3:6]
    swing = np.cross(moved[:, 3:6], mount) + np.cross(turning, np.cross(turning, mount))
    readings = {
        **record.readings,
        "position": q[:, :3] + rotation @ mount,
        "velocity": v[:, :3] + np.einsum("tij,tj->ti", rotation, np.cross(turning, mount)),
        "acceleration": np.einsum("tji,tj->ti", rotation, moved[:, :3]) + swing,
        "angular_acceleration": moved[:, 3:6],
        "joint_acceleration": moved[:, 6:],
        "torque": torque,
    }
    sigma = {**NOISE, "acceleration": 2e-4, "angular_acceleration": 2e-4, "joint_acceleration": 1e-3, "torque": 0.02}
    return replace(record, readings=readings, mount=mount, sigma=sigma)


def nominal(factor: float) -> Robot:
    """The held body wrong by this factor, its mass centre at the wrist."""
    return replace_inertias(ROBOT, {"held": Inertia(factor * TARGET.mass, np.zeros(3), factor * TARGET.tensor)})


def led_base(robot: Robot, start: Array, times: Array, joints: Array, rates: Array, steps: int = 3) -> Array:
    """Positions, quaternions, velocities, rates (T, 13) of a base whose joints are led along Hermite cubics.

    MuJoCo has the mass matrix and the velocity terms; the base's six equations are solved and integrated here (RK4).
    """
    model = mujoco.MjModel.from_xml_string(mjcf_text(robot))
    data, mass = mujoco.MjData(model), np.zeros((model.nv, model.nv))
    path = CubicHermiteSpline(times, joints, rates)
    step = np.repeat(np.diff(times) / steps, steps)
    begin = (times[:-1, None] + np.arange(steps) * np.diff(times)[:, None] / steps).ravel()
    # where cubics meet the acceleration jumps: both ends of a step belong to its own piece
    stages = np.stack([begin + 1e-9, begin + 0.5 * step, begin + step - 1e-9], axis=1)
    led = np.stack([path.derivative(k)(stages) if k else path(stages) for k in range(3)], axis=2)
    pushes = np.zeros((begin.size, 6))
    for start_time, length, force, point in FIRINGS:
        on = (stages[:, 1] >= start_time) & (stages[:, 1] < start_time + length)
        pushes[on] += np.concatenate([force, np.cross(point, force)])

    def rate(here: Array, y: Array, wrench: Array) -> Array:
        data.qpos[:7], data.qpos[7:], data.qvel[:6], data.qvel[6:] = y[:7], here[0], y[7:], here[1]
        mujoco.mj_fwdPosition(model, data)
        mujoco.mj_fwdVelocity(model, data)
        mujoco.mj_fullM(model, mass, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(model, data, mass)
        push = np.concatenate([data.xmat[1].reshape(3, 3) @ wrench[:3], wrench[3:]])
        force = push - data.qfrc_bias[:6] - mass[:6, 6:] @ here[2]
        (w, i, j, k), (x, y_, z) = y[3:7], y[10:]
        turned = [-i * x - j * y_ - k * z, w * x + j * z - k * y_, w * y_ + k * x - i * z, w * z + i * y_ - j * x]
        return np.concatenate([y[7:10], 0.5 * np.array(turned), np.linalg.solve(mass[:6, :6], force)])

    y, states = start, [start]
    for n, (h, (first, middle, last), push) in enumerate(zip(step, led, pushes, strict=True)):
        a = rate(first, y, push)
        b = rate(middle, y + 0.5 * h * a, push)
        c = rate(middle, y + 0.5 * h * b, push)
        y = y + h / 6 * (a + 2 * b + 2 * c + rate(last, y + h * c, push))
        y[3:7] /= np.linalg.norm(y[3:7])
        if (n + 1) % steps == 0:
            states.append(y)
    return np.array(states)
