"""A servicer with a panel on a hinge and fuel on a slide, both sprung, moved by MuJoCo while its arm works."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import mujoco
import numpy as np

from spacearm.identify.inertia import MotionRecord
from spacearm.model import Inertia, Pose, Robot, Thruster
from spacearm.model.appendages import Appendage, Mode, add_appendage
from spacearm.model.mjcf_write import mjcf_text
from spacearm.typing import Array
from support.servicer import COUNT, FINE, FIRINGS, ROBOT, STEP, measured, nominal

#: A panel on the bus: mass (kg), length (m), where it is held; frequency with the bus held (Hz), damping ratio.
PANEL, LENGTH, ROOT, PANEL_MODE = 6.0, 1.5, (0.5, 0.0, 0.0), (5.6, 0.004)
PLATE = PANEL / 12.0 * np.array([1.0, LENGTH**2, LENGTH**2 + 1.0])  # kg m2
ABOUT = PLATE[1] + PANEL * (0.5 * LENGTH) ** 2  # about its hinge
#: Fuel that slides along y: mass (kg), place of rest (m), moment of inertia (kg m2); frequency (Hz), damping ratio.
FUEL, TANK, LUMP, FUEL_MODE = 12.0, (0.1, 0.2, -0.3), 0.05, (0.3, 0.02)
JETS = tuple(Thruster(f"jet{k}", "bus", point, force / 10.0, 10.0) for k, (_, _, force, point) in enumerate(FIRINGS))
#: Servos of the arm, stiff beside the panel: N m/rad, N m s/rad.
SERVO = 1e5, 3e3
#: Bend of the panel (rad) and place of the fuel (m) at first.
START = 2e-3, 0.02


def modal_robot(panel: tuple[float, float] = PANEL_MODE, fuel: tuple[float, float] = FUEL_MODE) -> Robot:
    """The robot with its two modes, frequency and damping ratio of each; the held body 30 % too heavy."""
    root = np.sqrt(ABOUT)
    bend = Mode(panel[0], (0.0, 0.0, -0.5 * PANEL * LENGTH / root), (0.0, root, 0.0), panel[1])
    array = Appendage("panel", Inertia(PANEL, [0.5 * LENGTH, 0.0, 0.0], np.diag(PLATE)), (bend,))
    slide = Mode(fuel[0], (0.0, np.sqrt(FUEL), 0.0), (0.0, 0.0, 0.0), fuel[1])
    liquid = Appendage("fuel", Inertia(FUEL, np.zeros(3), LUMP * np.eye(3)), (slide,))
    robot = add_appendage(nominal(1.3).replace(thrusters=JETS), "bus", array, Pose(translation=np.array(ROOT)))
    return add_appendage(robot, "bus", liquid, Pose(translation=np.array(TANK)))


@lru_cache(maxsize=1)
def _motion() -> tuple[Array, Array, Array]:
    spec = mujoco.MjSpec.from_string(mjcf_text(ROBOT))
    for k, (_, _, force, point) in enumerate(FIRINGS):
        spec.body("bus").add_site(name=f"jet{k}", pos=point)
        jet = spec.add_actuator(name=f"jet{k}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=f"jet{k}")
        jet.gear = [*force, 0, 0, 0]
    parts = (
        ("panel", ROOT, PANEL, [0.5 * LENGTH, 0, 0], PLATE, mujoco.mjtJoint.mjJNT_HINGE, ABOUT, PANEL_MODE),
        ("fuel", TANK, FUEL, [0.0] * 3, np.full(3, LUMP), mujoco.mjtJoint.mjJNT_SLIDE, FUEL, FUEL_MODE),
    )
    for name, place, mass, centre, moments, kind, modal, (hertz, ratio) in parts:
        body, speed = spec.body("bus").add_body(name=name, pos=place), 2.0 * np.pi * hertz
        body.mass, body.ipos, body.inertia, body.explicitinertial = mass, centre, moments, True
        joint = body.add_joint(name=name, type=kind, axis=[0, 1, 0])
        joint.stiffness[0], joint.damping[0] = modal * speed**2, 2.0 * ratio * modal * speed
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP / FINE
    model.opt.gravity[:] = 0.0
    data = mujoco.MjData(model)
    arm, rates = (
        [getattr(model.joint(name), which)[0] for name in ROBOT.joint_names] for which in ("qposadr", "dofadr")
    )
    attitude = np.array([1.0, 0.1, -0.05, 0.2])
    data.qpos[:7] = [0.3, -0.2, 0.1, *(attitude / np.linalg.norm(attitude))]
    data.qpos[arm], data.qvel[:6] = [0.4, -0.3], [0.004, -0.003, 0.002, 0.001, -0.002, 0.0015]
    data.qpos[[model.joint(name).qposadr[0] for name in ("panel", "fuel")]] = START
    speeds, sizes, begin = 2 * np.pi * np.array([0.13, 0.19]), np.array([0.3, 0.4]), data.qpos[arm].copy()
    q, v, step = np.empty((COUNT, 9)), np.empty((COUNT, 8)), STEP / FINE
    for k in range(COUNT):
        q[k], v[k] = data.qpos[[*range(7), *arm]], data.qvel[[*range(6), *rates]]
        for i in range(FINE):
            t = (k * FINE + i) * step
            wanted, speed = begin + sizes * (1.0 - np.cos(speeds * t)), sizes * speeds * np.sin(speeds * t)
            data.qfrc_applied[rates] = SERVO[0] * (wanted - data.qpos[arm]) + SERVO[1] * (speed - data.qvel[rates])
            data.ctrl[-len(FIRINGS) :] = [float(s <= t + 1e-9 < s + d) for s, d, _, _ in FIRINGS]
            mujoco.mj_step(model, data)
    return np.arange(COUNT) * STEP, q, v


def modal_record(seed: int, modes: int = 2) -> MotionRecord:
    """What its sensors read: none reads the modes, whose columns are zero."""
    record = measured(_motion(), None)
    parts = {}
    for (start, length, force, point), jet in zip(FIRINGS, JETS, strict=True):
        on = (record.times + 1e-9 >= start) & (record.times + 1e-9 < start + length)
        parts[jet.name] = np.where(on[:, None], np.concatenate([force, np.cross(point, force)]), 0.0)
    noisy = replace(record, thrusters=parts).add_noise(seed)
    readings, none = dict(noisy.readings), np.zeros((COUNT, modes))
    readings |= {name: np.hstack([readings[name], none]) for name in ("joint_position", "joint_rate")}
    return replace(noisy, readings=readings, moving=(*noisy.moving, *[False] * modes))
