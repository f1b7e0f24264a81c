"""How often correct models are called not sound where noise is taken from the scatter of the readings.

    python tools/scatter_noise.py 60

MuJoCo flies robots of random inertias, written as MJCF, along random joint motions in free flight. The readings (pose
and angular velocity of the base, positions and rates of the joints) get noise whose size nobody states; record length,
rate and noise vary by a factor of three, four and twenty-five. Each record is identified from a nominal model whose
inertias are up to 10 % wrong. Printed are the checks that do not hold, the share of the 95 % intervals that hold the
truth, and how many of the same records are still called sound when their gyro's readings are 100 ms late.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import mujoco
import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.identify.inertia import base_parameters, identify, read_record
from spacearm.measure import Column
from spacearm.model import Robot, load
from spacearm.typing import Array

#: Standard deviations of position (m), attitude (rad), angular velocity (rad/s), joint position and joint rate.
NOISE = (1e-3, 5e-4, 2e-4, 1e-4, 3e-4)
STEP, LATE = 1e-3, 0.1
#: Standard deviations of an interval that holds 95 %.
WIDTH = 1.959964


def inertial(rng: np.random.Generator, mass: float, size: float) -> str:
    """MJCF of a body's random inertia."""
    moments = rng.uniform(0.6, 1.0, 3) * mass * size**2 / 3.0
    entries = {"pos": rng.uniform(-0.1, 0.1, 3) * size, "quat": rng.normal(size=4), "diaginertia": moments}
    text = " ".join(f'{name}="{" ".join(f"{v:.9g}" for v in values)}"' for name, values in entries.items())
    return f'<inertial mass="{mass:.9g}" {text}/>'


def write_robot(rng: np.random.Generator, count: int) -> str:
    """MJCF of a floating base with an arm of so many hinges, each with a motor."""
    text, motors = f'<body name="base"><freejoint/>{inertial(rng, rng.uniform(40.0, 150.0), 0.7)}', ""
    for k in range(count):
        place, axis = ("0.5 0 0.2" if k == 0 else "0.6 0 0"), np.eye(3, dtype=int)[rng.integers(3)]
        text += (
            f'<body name="link{k + 1}" pos="{place}"><joint name="joint{k + 1}" axis="{axis[0]} {axis[1]} {axis[2]}"/>'
        )
        text += inertial(rng, rng.uniform(3.0, 15.0), 0.4)
        motors += f'<motor joint="joint{k + 1}"/>'
    option = f'<option gravity="0 0 0" timestep="{STEP}" integrator="RK4"/>'
    bodies = f"<worldbody>{text}{'</body>' * (count + 1)}</worldbody>"
    return f"<mujoco>{option}{bodies}<actuator>{motors}</actuator></mujoco>"


def fly(rng: np.random.Generator, text: str, count: int) -> Array:
    """Rows (T, 11 + 2 n): time, position, quaternion, angular velocity (body axes), joint positions and rates."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    size, pulse, shift = (rng.uniform(*r, (count, 2)) for r in ((0.3, 1.0), (0.2, 1.2), (0.0, 6.28)))
    data.qpos[7:], data.qvel[6:] = np.sum(size * np.sin(shift), 1), np.sum(size * pulse * np.cos(shift), 1)
    data.qvel[:6] = rng.normal(0.0, 0.02, 6)
    every, rows = round(float(rng.choice([0.05, 0.1, 0.2])) / STEP), []
    for k in range(round(rng.uniform(20.0, 60.0) / STEP) + 1):
        if k % every == 0:
            rows.append(np.concatenate([[k * STEP], data.qpos[:7], data.qvel[3:6], data.qpos[7:], data.qvel[6:]]))
        phase = pulse * data.time + shift
        wanted, rate = np.sum(size * np.sin(phase), 1), np.sum(size * pulse * np.cos(phase), 1)
        data.ctrl[:] = 120.0 * (wanted - data.qpos[7:]) + 54.0 * (rate - data.qvel[6:])
        mujoco.mj_step(model, data)
    return np.array(rows)


def add_noise(rng: np.random.Generator, rows: Array, count: int) -> Array:
    """The readings: rows with noise."""
    sizes = 10.0 ** rng.uniform(-0.7, 0.7) * np.array(NOISE)
    read = rows.copy()
    for sigma, columns in zip(sizes, ((1, 4), None, (8, 11), (11, 11 + count), (11 + count, None)), strict=True):
        if columns is not None:
            read[:, slice(*columns)] += rng.normal(0.0, sigma, read[:, slice(*columns)].shape)
        else:
            error = Rotation.from_rotvec(rng.normal(0.0, sigma, (len(read), 3)))
            attitude = Rotation.from_quat(np.roll(read[:, 4:8], -1, axis=1)) * error
            read[:, 4:8] = np.roll(attitude.as_quat(), 1, axis=1)
    return read


def judge(folder: Path, robot: Robot, read: Array) -> tuple[dict[str, str], Array]:
    """Checks that do not hold, and the errors of the base parameters in standard deviations."""
    joints = robot.joint_names
    groups = {"position": ("m", "xyz"), "attitude": ("", "wxyz"), "rate": ("rad/s", "xyz"),
              "joint_position": ("rad", joints), "joint_rate": ("rad/s", joints)}  # fmt: skip
    columns = {name: Column(tuple(f"{name}.{part}" for part in parts), unit) for name, (unit, parts) in groups.items()}
    header = ",".join(["time", *(part for column in columns.values() for part in column.names)])
    np.savetxt(folder / "r.csv", read, delimiter=",", header=header, comments="", fmt="%.12g")
    # Nothing pushes, so that no record tells the scale of all inertias: the nominal model has the right total mass.
    inertia = np.random.default_rng(len(read)).uniform(0.9, 1.1, (robot.n + 1, 1)) * robot.inertia_parameters
    nominal = robot.with_inertia_parameters(inertia * robot.mass / inertia[:, 0].sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = identify(nominal, [read_record(folder / "r.csv", robot, [], columns, estimate_noise=True)])
        faults = {name: check.note for name, check in found.certificate().items() if not check.sound}
    truth = base_parameters(robot).combine @ robot.inertia_parameters.ravel()
    known = np.isfinite(found.estimate.std) & (found.estimate.std > 0.0)
    return faults, ((found.estimate.values - truth) / found.estimate.std)[known]


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    unsound, late, errors = 0, 0, []
    for seed in range(count):
        rng, joints = np.random.default_rng([seed, 26]), 2 + seed % 2
        with tempfile.TemporaryDirectory() as name:
            folder, text = Path(name), write_robot(rng, joints)
            (folder / "robot.xml").write_text(text, encoding="utf-8")
            read = add_noise(rng, fly(rng, text, joints), joints)
            robot = load(folder / "robot.xml")
            faults, own = judge(folder, robot, read)
            delayed = read.copy()
            for column in (8, 9, 10):
                delayed[:, column] = np.interp(read[:, 0] - LATE, read[:, 0], read[:, column])
            late += not judge(folder, robot, delayed)[0]
        errors.append(own)
        unsound += bool(faults)
        print(f"{seed}: {len(read)} samples, {faults or 'sound'}", flush=True)
    inside = np.mean(np.abs(np.concatenate(errors)) < WIDTH)
    print(f"{unsound} of {count} correct records are called not sound; {100.0 * inside:.1f} % of the intervals hold")
    print(f"{late} of {count} records with a late gyro are called sound")
    return 0 if unsound <= 0.05 * count and 0.9 < inside < 0.98 else 1


if __name__ == "__main__":
    sys.exit(main())
