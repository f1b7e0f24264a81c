"""Inertia of a held body and the mode of a panel from one record, made by MuJoCo: a panel on a sprung hinge."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from spacearm.study import run_scenario
from spacearm.typing import Array
from support.panel_record import (
    ABOUT,
    CHANNELS,
    COUNT,
    DAMPING,
    FIRINGS,
    FREQUENCY,
    HELD,
    LENGTH,
    PANEL,
    SD,
    STEP,
    write_files,
)

#: Numbers of the held body and of the mode with their doubt, and the truth.
STIFFNESS, VISCOSITY = "robot.joint[panel.mode1].spring.stiffness", "robot.joint[panel.mode1].damping"
NUMBERS = {
    "robot.body[held].mass": (5.0, HELD[0]),
    **{f"robot.body[held].com[{i}]": (0.1, HELD[1][i]) for i in range(3)},
    **{f"robot.body[held].inertia[{i}]": (0.5, HELD[2][i]) for i in range(6)},
}


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
    first = np.loadtxt(folder / "orbit.csv", delimiter=",", skiprows=1, max_rows=1)[1:14]
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
