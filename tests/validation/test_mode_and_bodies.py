"""Inertia of a held body and the mode of a panel from one record, made by MuJoCo: a panel on a sprung hinge."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.study import run_scenario
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
#: Numbers of the held body and of the mode with their doubt, and the truth.
STIFFNESS, VISCOSITY = "robot.joint[panel.mode1].spring.stiffness", "robot.joint[panel.mode1].damping"
NUMBERS = {
    "robot.body[held].mass": (5.0, HELD[0]),
    **{f"robot.body[held].com[{i}]": (0.1, HELD[1][i]) for i in range(3)},
    **{f"robot.body[held].inertia[{i}]": (0.5, HELD[2][i]) for i in range(6)},
}


def write_files(folder: Path, seed: int) -> None:
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
    names = ["time", *(name for group in CHANNELS.values() for name in group)]
    np.savetxt(folder / "orbit.csv", np.hstack(columns), delimiter=",", header=",".join(names), comments="")
    jets = "".join(
        f'[[thruster]]\nname = "jet{k}"\nbody = "bus"\nposition = {place.tolist()}\n'
        f"direction = {(force / 10.0).tolist()}\nforce = 10.0\n"
        for k, (_, _, force, place) in enumerate(FIRINGS)
    )
    (folder / "servicer.toml").write_text(ROBOT + jets)


def scenario(first: Array) -> str:
    """The file of the study; ``first`` are the first readings, at which the start begins to be looked for."""
    position, attitude, velocity, rate = np.split(first, [3, 7, 10])
    rpy = Rotation.from_quat(attitude, scalar_first=True).as_euler("xyz")
    axes = Rotation.from_quat(attitude, scalar_first=True)
    start = {"position": position, "rpy": rpy, "velocity": axes.apply(velocity), "angular_velocity": axes.apply(rate)}
    doubts = {"position": 0.01, "rpy": 1e-3, "velocity": 5e-3, "angular_velocity": 1e-3}
    fires = ", ".join(f'{{ name = "jet{k}", on = [[{s}, {s + d}]] }}' for k, (s, d, _, _) in enumerate(FIRINGS))
    modes = {"joints": 0.002, "rates": 0.05}
    numbers = {key: sd for key, (sd, _) in NUMBERS.items()} | {STIFFNESS: 25.0, VISCOSITY: 0.15}
    numbers |= {f"start.{name}[{i}]": doubts[name] for name in start for i in range(3)}
    numbers |= {f"start.{name}[panel.mode1]": sd for name, sd in modes.items()}
    halves = {"attitude": 0.5}  # entries of a quaternion move by half the angle
    quantities = [(name, channel) for channel, names in CHANNELS.items() for name in names]
    return "\n".join(
        [
            'study = "validation"\nrobot = "servicer.toml"\nfile = "orbit.csv"\nrelax = false',
            "fit = 9.5\nfit_parts = [1.5, 4.0]\n[start]",
            *(f"{name} = {values.tolist()}" for name, values in start.items()),
            *(f'{name} = {{ "panel.mode1" = 0.0 }}' for name in modes),
            f'[[phase]]\nduration = {STEP * (COUNT - 1)}\nlocked = ["wrist"]\nthruster = [{fires}]',
            *(
                f'[[channel]]\nquantity = "{name}"\ncolumn = "{name}"\nsd = {SD[channel] * halves.get(channel, 1.0)}'
                for name, channel in quantities
            ),
            *(f'[[uncertain]]\nkey = "{key}"\nsd = {sd}' for key, sd in numbers.items()),
        ]
    )


def fitted(folder: Path, seed: int) -> tuple[dict[str, float], dict[str, float], bool]:
    """Errors and deviations by key, and whether the result is sound."""
    write_files(folder, seed)
    first = np.loadtxt(folder / "orbit.csv", delimiter=",", skiprows=1, max_rows=1)[1:]
    (folder / "lab.toml").write_text(scenario(first))
    found = run_scenario(folder / "lab.toml")
    rows = {row.quantity: row.value for row in found.rows}
    # The equivalent mass of the mode on its spring, see Appendage.
    moved, rate = (PANEL * LENGTH / 2) ** 2 / ABOUT, 2.0 * np.pi * FREQUENCY
    truth = {key: value for key, (_, value) in NUMBERS.items()}
    truth |= {STIFFNESS: moved * rate**2, VISCOSITY: 2.0 * DAMPING * moved * rate}
    off = {key: rows[f"uncertain.{key}.value"] - value for key, value in truth.items()}
    return off, {key: rows[f"uncertain.{key}.sd"] for key in truth}, found.sound


def test_bodies_and_a_mode_from_one_record(tmp_path: Path) -> None:
    """All ten numbers of the held body, frequency and damping; as one rigid body with the bus, the panel makes the
    residuals ring, and nothing would be sound."""
    off, deviations, sound = fitted(tmp_path, 0)
    assert sound
    far = {key: off[key] / deviations[key] for key in off}
    assert max(map(abs, far.values())) < 3.5, far
    assert deviations["robot.body[held].mass"] < 0.1
    assert deviations[STIFFNESS] < 2e-4 * 2131.7  # 1e-4 of the frequency
    assert deviations[VISCOSITY] < 0.02 * 0.4524
