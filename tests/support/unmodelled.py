"""Records by MuJoCo of a servicer whose dynamics, clocks or thrusters differ from what identification is told."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from spacearm.identify.inertia import MotionRecord
from spacearm.model import Inertia, Robot, Thruster
from spacearm.model.edit import replace_inertias
from spacearm.model.mjcf_write import mjcf_text
from spacearm.typing import Array
from support.servicer import COUNT, FINE, FIRINGS, ROBOT, STEP, measured, nominal

#: Fault to what identification must name first.
FAULTS = {
    "lag": "thrust_lag",
    "late encoders": "encoder_delay",
    "turned jet": "thrust_direction",
    "panel": "rhythm",
    "slosh": "rhythm",
    "torque": "external_torque",
}
LAG, LATE, TURN, TORQUE = 0.05, 0.02, np.deg2rad([0.0, 4.0, 3.0]), np.array([0.02, -0.03, 0.05])
#: A panel on the bus: mass (kg), length (m), frequency with the bus held (Hz); it is bent a little at first (rad).
PANEL, LENGTH, HERTZ, BENT = 6.0, 1.5, 5.6, 5e-3
#: Fuel in the bus that swings along y: mass (kg), place of rest (m), moment of inertia (kg m2), frequency (Hz).
FUEL, TANK, LUMP, SWINGS = 12.0, np.array([0.1, 0.2, -0.3]), 0.05, 0.2
JETS = tuple(Thruster(f"jet{k}", "bus", point, force / 10.0, 10.0) for k, (_, _, force, point) in enumerate(FIRINGS))


def faulty(fault: str, seed: int) -> tuple[MotionRecord, Robot]:
    """A noisy record with this fault, and the robot that identification is given."""
    motion = _motion(fault)
    record = measured(motion, None)
    parts = {}
    for (start, length, force, point), jet in zip(FIRINGS, JETS, strict=True):
        on = (record.times + 1e-9 >= start) & (record.times + 1e-9 < start + length)
        parts[jet.name] = np.where(on[:, None], np.concatenate([force, np.cross(point, force)]), 0.0)
    if fault == "late encoders":
        times, then = motion[0], motion[0] - LATE
        late = {"joint_position": motion[1][:, 7:9], "joint_rate": motion[2][:, 6:8]}
        readings = {
            name: np.stack([np.interp(then, times, column) for column in rows.T], axis=1) for name, rows in late.items()
        }
        record = replace(record, readings={**record.readings, **readings})
    robot = nominal(1.3).replace(thrusters=JETS)
    if fault == "panel":
        robot = replace_inertias(robot, {"bus": _bus_with(PANEL, [0.5 + 0.5 * LENGTH, 0.0, 0.0], _plate())})
    if fault == "slosh":
        robot = replace_inertias(robot, {"bus": _bus_with(FUEL, TANK, np.full(3, LUMP))})
    return replace(record, thrusters=parts).add_noise(seed), robot


def _bus_with(extra: float, centre: npt.ArrayLike, moments: Array) -> Inertia:
    """The bus and what moves on it as one rigid body."""
    bus, place = ROBOT.bodies[0].inertia, np.asarray(centre)
    mass = bus.mass + extra
    com = (bus.mass * bus.com + extra * place) / mass
    tensor = bus.tensor + np.diag(moments)
    for m, away in ((bus.mass, bus.com - com), (extra, place - com)):
        tensor = tensor + m * (away @ away * np.eye(3) - np.outer(away, away))
    return Inertia(mass, com, tensor)


def _plate() -> Array:
    return PANEL / 12.0 * np.array([1.0, LENGTH**2, LENGTH**2 + 1.0])


def _motion(fault: str) -> tuple[Array, Array, Array]:
    spec = mujoco.MjSpec.from_string(mjcf_text(ROBOT))
    for k, (_, _, force, point) in enumerate(FIRINGS):
        turned = Rotation.from_rotvec(TURN).apply(force) if fault == "turned jet" and k == 3 else force
        spec.body("bus").add_site(name=f"jet{k}", pos=point)
        jet = spec.add_actuator(name=f"jet{k}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=f"jet{k}")
        jet.gear = [*turned, 0, 0, 0]
    if fault == "panel":
        body = spec.body("bus").add_body(name="panel", pos=[0.5, 0.0, 0.0])
        body.mass, body.ipos, body.inertia, body.explicitinertial = PANEL, [0.5 * LENGTH, 0, 0], _plate(), True
        about = _plate()[1] + PANEL * (0.5 * LENGTH) ** 2
        bend = body.add_joint(name="bend", type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 1, 0])
        bend.stiffness[0] = about * (2.0 * np.pi * HERTZ) ** 2
        bend.damping[0] = 1e-3 * about * 2.0 * np.pi * HERTZ
    if fault == "slosh":
        body = spec.body("bus").add_body(name="fuel", pos=TANK)
        body.mass, body.ipos, body.inertia, body.explicitinertial = FUEL, [0.0] * 3, [LUMP] * 3, True
        swing = body.add_joint(name="swing", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 1, 0])
        swing.stiffness[0], swing.damping[0] = FUEL * (2.0 * np.pi * SWINGS) ** 2, 0.02 * FUEL * 2.0 * np.pi * SWINGS
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP / FINE
    model.opt.gravity[:] = 0.0
    data = mujoco.MjData(model)
    arm = [model.joint(name).qposadr[0] for name in ROBOT.joint_names]
    rates = [model.joint(name).dofadr[0] for name in ROBOT.joint_names]
    attitude = np.array([1.0, 0.1, -0.05, 0.2])
    data.qpos[:7] = [0.3, -0.2, 0.1, *(attitude / np.linalg.norm(attitude))]
    data.qpos[arm], data.qvel[:6] = [0.4, -0.3], [0.004, -0.003, 0.002, 0.001, -0.002, 0.0015]
    if fault == "panel":
        data.qpos[model.joint("bend").qposadr[0]] = BENT
    speeds, sizes, begin = 2 * np.pi * np.array([0.13, 0.19]), np.array([0.3, 0.4]), data.qpos[arm].copy()
    q, v, step = np.empty((COUNT, 9)), np.empty((COUNT, 8)), STEP / FINE
    thrust = np.zeros(len(FIRINGS))
    for k in range(COUNT):
        q[k], v[k] = data.qpos[[*range(7), *arm]], data.qvel[[*range(6), *rates]]
        for i in range(FINE):
            t = (k * FINE + i) * step
            wanted, speed = begin + sizes * (1.0 - np.cos(speeds * t)), sizes * speeds * np.sin(speeds * t)
            data.qfrc_applied[rates] = 2e3 * (wanted - data.qpos[arm]) + 4e2 * (speed - data.qvel[rates])
            data.qfrc_applied[3:6] = TORQUE if fault == "torque" else 0.0
            notes = np.array([float(s <= t + 1e-9 < s + d) for s, d, _, _ in FIRINGS])
            thrust = thrust + (1.0 - np.exp(-step / LAG)) * (notes - thrust) if fault == "lag" else notes
            data.ctrl[-len(FIRINGS) :] = thrust
            mujoco.mj_step(model, data)
    return np.arange(COUNT) * STEP, q, v
