"""An arm on an air-bearing table or on a rail, moved by MuJoCo on slides and hinges: spacearm made none of it.

The base floats in the x-y plane (two slides and a hinge) or slides along x. Link masses stand above the table and have
products of inertia, which only the table's reaction feels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import mujoco
import numpy as np

from spacearm.measure import Channel, Record
from spacearm.model import BaseConstraint, Body, Inertia, Joint, Pose, Robot, Thruster
from spacearm.simulate import Signal
from spacearm.typing import Array

Kind = Literal["planar", "rail"]
STEP, COUNT, FINE = 0.1, 201, 20
NOISE = {
    "position": 5e-4,
    "attitude": 2e-4,
    "velocity": 5e-4,
    "rate": 2e-4,
    "joint_position": 1e-4,
    "joint_rate": 5e-4,
}
#: Start, duration (s) of each thruster's firing.
FIRINGS = {"right": (2.0, 2.0), "up": (8.0, 3.0), "left": (14.0, 2.0)}


def table_robot(base: str | BaseConstraint = "planar", *, flat: bool = False, axes: Array | None = None) -> Robot:
    """Base, two links; thrusters push along x, along y beside the base's origin, and against x.

    ``flat``: all mass in the plane, so that the robot moves in it by itself; ``axes``: rotation of all frames alike.
    """
    turn = np.eye(3) if axes is None else axes
    keep = np.diag([1.0, 1.0, 0.0 if flat else 1.0])
    tensor = np.array([[0.3, 0.02, 0.01], [0.02, 0.4, -0.03], [0.01, -0.03, 0.5]])
    if flat:
        tensor[2, :2] = tensor[:2, 2] = 0.0

    def body(name: str, mass: float, com: list[float], size: float) -> Body:
        return Body(name, Inertia(mass, turn @ keep @ com, size * turn @ tensor @ turn.T))

    def joint(name: str, parent: str, child: str, at: list[float]) -> Joint:
        return Joint(name, "revolute", parent, child, axis=turn[:, 2], placement=Pose(translation=turn @ keep @ at))

    def thruster(name: str, at: list[float], along: list[float], force: float) -> Thruster:
        return Thruster(name, "hull", turn @ keep @ at, turn @ along, force)

    return Robot(
        "table",
        [
            body("hull", 12.0, [0.03, -0.02, 0.1], 1.0),
            body("upper", 2.0, [0.25, 0.02, 0.05], 0.08),
            body("fore", 1.5, [0.2, -0.03, -0.04], 0.06),
        ],
        [joint("shoulder", "hull", "upper", [0.15, 0.05, 0.2]), joint("elbow", "upper", "fore", [0.45, 0.0, 0.0])],
        thrusters=[
            thruster("right", [0.0, 0.05, 0.1], [1, 0, 0], 0.4),
            thruster("up", [0.1, 0.0, 0.1], [0, 1, 0], 0.3),
            thruster("left", [0.0, -0.05, 0.1], [-1, 0, 0], 0.4),
        ],
        base=base,
    )


@lru_cache(maxsize=4)
def table_motion(kind: Kind = "planar", pushed: bool = True, flat: bool = False) -> tuple[Array, Array]:
    """Positions and velocities (T, 5) or (T, 3): of the base along x, y and about z, or along x; then of the joints."""
    robot = table_robot(flat=flat)
    slides = "<joint name='x' type='slide' axis='1 0 0'/>"
    if kind == "planar":
        slides += "<joint name='y' type='slide' axis='0 1 0'/><joint name='yaw' type='hinge' axis='0 0 1'/>"

    def inertial(k: int) -> str:
        own = robot.bodies[k].inertia
        at, i = " ".join(map(str, own.com)), own.tensor
        six = f"{i[0, 0]} {i[1, 1]} {i[2, 2]} {i[0, 1]} {i[0, 2]} {i[1, 2]}"
        return f"<inertial pos='{at}' mass='{own.mass}' fullinertia='{six}'/>"

    places = [" ".join(map(str, joint.placement.translation)) for joint in robot.joints]
    spec = mujoco.MjSpec.from_string(f"""<mujoco><worldbody><body name='hull'>{inertial(0)}{slides}
        <body name='upper' pos='{places[0]}'>{inertial(1)}<joint name='shoulder' axis='0 0 1'/>
        <body name='fore' pos='{places[1]}'>{inertial(2)}<joint name='elbow' axis='0 0 1'/></body></body>
        </body></worldbody></mujoco>""")
    for thruster in robot.thrusters:
        spec.body("hull").add_site(name=thruster.name, pos=thruster.position)
        jet = spec.add_actuator(name=thruster.name, trntype=mujoco.mjtTrn.mjTRN_SITE, target=thruster.name)
        jet.gear = [*(thruster.force * np.array(thruster.direction)), 0, 0, 0]
    model = spec.compile()
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP / FINE
    data = mujoco.MjData(model)
    data.qpos[:3], data.qpos[-2:] = ([0.4, -0.1, 0.3] if kind == "planar" else [0.4, 0.0, 0.0]), [0.4, -0.7]
    data.qvel[0] = 0.01
    if kind == "planar":
        data.qvel[1:3] = -0.015, 0.02
    speeds, sizes, begin = 2 * np.pi * np.array([0.11, 0.17]), np.array([0.5, 0.8]), data.qpos[-2:].copy()
    positions, velocities = [], []
    for k in range(COUNT):
        positions.append(data.qpos.copy())
        velocities.append(data.qvel.copy())
        for i in range(FINE):
            t = (k * FINE + i) * STEP / FINE
            wanted = begin + sizes * (1.0 - np.cos(speeds * t))
            rates = sizes * speeds * np.sin(speeds * t)
            data.qfrc_applied[-2:] = 20.0 * (wanted - data.qpos[-2:]) + 8.0 * (rates - data.qvel[-2:])
            data.ctrl[:] = [pushed and s <= t + 1e-9 < s + d for s, d in FIRINGS.values()]
            mujoco.mj_step(model, data)
    return np.array(positions), np.array(velocities)


def table_record(
    kind: Kind = "planar", seed: int | None = 0, pushed: bool = True, flat: bool = False, noise: float = 1.0
) -> Record:
    """What sensors read in the plane or along the rail, and nothing else; without noise if ``seed`` is None."""
    q, v = table_motion(kind, pushed, flat)
    times, random = np.arange(COUNT) * STEP, np.random.default_rng(seed)
    along = 2 if kind == "planar" else 1
    read = {"position": q[:, :along], "velocity": v[:, :along], "joint_position": q[:, -2:], "joint_rate": v[:, -2:]}
    if kind == "planar":
        read |= {"attitude": q[:, 2:3], "rate": v[:, 2:3]}
    channels = {
        name: Channel(
            times,
            values + (0.0 if seed is None else random.normal(scale=noise * NOISE[name], size=values.shape)),
            sigma=noise * NOISE[name],
        )
        for name, values in read.items()
    }
    commands = {
        name: Signal(np.array([0.0, s, s + d, times[-1] + 1.0]), np.array([[0.0, 1.0, 0.0]]))
        for name, (s, d) in FIRINGS.items()
    }
    return Record(kind, channels, commands=commands if pushed else {})
