"""A record by MuJoCo of a bus with a panel on a sprung hinge that holds a body, and files for studies of it."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.typing import Array

#: A panel of 2 kg and 1.2 m on the bus: frequency with the bus held (Hz), damping ratio.
PANEL, LENGTH, FREQUENCY, DAMPING = 2.0, 1.2, 6.0, 0.004
PLATE = PANEL / 12.0 * np.array([1.0 + 4e-4, LENGTH**2 + 4e-4, LENGTH**2 + 1.0])  # kg m2, 1 m wide, 20 mm thick
ABOUT = PLATE[1] + PANEL * LENGTH**2 / 4.0  # about its hinge
HELD = 40.0, (0.05, -0.1, 0.4), (6.0, 5.0, 4.0, 0.4, -0.3, 0.2)  # kg, m, kg m2
BENT = 1e-3  # rad, at first
STEP, COUNT, FINE = 0.04, 251, 20
SD = {"position": 5e-3, "attitude": 1e-4, "velocity": 1e-3, "rate": 5e-5}
#: Start, duration (s), force and place (base axes) of the firings.
FIRINGS = [
    (0.4 + 1.4 * k, 1.0, 10.0 * np.eye(3)[k % 3] * (-1.0) ** (k // 3), np.array([0.4, -0.3, 0.5])[[k % 3, 2, 0]])
    for k in range(6)
]
MJCF = f"""
<mujoco><option integrator="RK4" timestep="{STEP / FINE}" gravity="0 0 0"/><worldbody><body name="bus"><freejoint/>
<inertial mass="60" pos="0.02 0 -0.05" diaginertia="6 7 5"/>
{"".join(f'<site name="jet{k}" pos="{" ".join(map(str, place))}"/>' for k, (_, _, _, place) in enumerate(FIRINGS))}
<body name="held" pos="0.3 0.1 0.5"><inertial mass="40" pos="0.05 -0.1 0.4" fullinertia="6 5 4 0.4 -0.3 0.2"/></body>
<body name="panel" pos="0.5 0 0"><inertial mass="{PANEL}" pos="{LENGTH / 2} 0 0"
 diaginertia="{PLATE[0]} {PLATE[1]} {PLATE[2]}"/>
<joint name="bend" type="hinge" axis="0 1 0" stiffness="{ABOUT * (2 * np.pi * FREQUENCY) ** 2}"
 damping="{2 * DAMPING * ABOUT * 2 * np.pi * FREQUENCY}"/></body></body></worldbody><actuator>
{"".join(f'<motor site="jet{k}" gear="{" ".join(map(str, each[2]))} 0 0 0"/>' for k, each in enumerate(FIRINGS))}
</actuator></mujoco>"""
#: The held body about 10 % off, the frequency 0.5 %, as from a spectrum.
ROBOT = f"""robot.name = "servicer"
[[body]]
name = "bus"
mass = 60.0
com = [0.02, 0.0, -0.05]
inertia = [6.0, 7.0, 5.0]
[[body]]
name = "held"
mass = 44.0
com = [0.0, 0.0, 0.45]
inertia = [5.5, 5.5, 4.5, 0.0, 0.0, 0.0]
[[joint]]
name = "wrist"
kind = "revolute"
parent = "bus"
child = "held"
origin = {{ xyz = [0.3, 0.1, 0.5] }}
[[appendage]]
name = "panel"
body = "bus"
origin = {{ xyz = [0.5, 0.0, 0.0] }}
mass = {PANEL}
com = [{LENGTH / 2}, 0.0, 0.0]
inertia = {PLATE.tolist()}
[[appendage.mode]]
frequency = 5.97
damping = 0.005
translation = [0.0, 0.0, {-PANEL * LENGTH / 2 / np.sqrt(ABOUT)}]
rotation = [0.0, {np.sqrt(ABOUT)}, 0.0]
"""
CHANNELS = {
    "position": ("base_x", "base_y", "base_z"),
    "attitude": ("base_qw", "base_qx", "base_qy", "base_qz"),
    "velocity": ("base_vx", "base_vy", "base_vz"),
    "rate": ("base_wx", "base_wy", "base_wz"),
}
#: Velocity along the world's axes.
WORLD = ("world_vx", "world_vy", "world_vz")


def write_files(folder: Path, seed: int) -> None:
    """Write ``orbit.csv`` and ``servicer.toml``, whose held body and mode are a little off."""
    model = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(model)
    data.qpos[3:7] = np.array([1.0, 0.1, -0.05, 0.2]) / np.linalg.norm([1.0, 0.1, -0.05, 0.2])
    data.qpos[7] = BENT
    data.qvel[:6] = [0.004, -0.003, 0.002, 0.01, -0.02, 0.015]
    q, v = np.empty((COUNT, 7)), np.empty((COUNT, 6))
    for k in range(COUNT):
        q[k], v[k] = data.qpos[:7], data.qvel[:6]
        for i in range(FINE):
            t = (k + i / FINE) * STEP
            data.ctrl[:] = [float(s <= t + 1e-9 < s + d) for s, d, _, _ in FIRINGS]
            mujoco.mj_step(model, data)
    rng = np.random.default_rng(seed)
    turned = Rotation.from_quat(q[:, 3:], scalar_first=True)
    read = turned * Rotation.from_rotvec(SD["attitude"] * rng.normal(size=(COUNT, 3)))
    columns: list[Array] = [
        STEP * np.arange(COUNT)[:, None],
        q[:, :3] + SD["position"] * rng.normal(size=(COUNT, 3)),
        read.as_quat(canonical=True, scalar_first=True),
        turned.inv().apply(v[:, :3]) + SD["velocity"] * rng.normal(size=(COUNT, 3)),
        v[:, 3:] + SD["rate"] * rng.normal(size=(COUNT, 3)),
    ]
    columns += [turned.apply(columns[3]), 1e-5 * rng.normal(size=(COUNT, 1))]
    names = ["time", *(name for group in CHANNELS.values() for name in group), *WORLD, "wrist"]
    np.savetxt(folder / "orbit.csv", np.hstack(columns), delimiter=",", header=",".join(names), comments="")
    jets = "".join(
        f'[[thruster]]\nname = "jet{k}"\nbody = "bus"\nposition = {place.tolist()}\n'
        f"direction = {(force / 10.0).tolist()}\nforce = 10.0\n"
        for k, (_, _, force, place) in enumerate(FIRINGS)
    )
    (folder / "servicer.toml").write_text(ROBOT + jets)
