"""How much of the difference from the file of the CBK planar robot is its authors' integrator.

    python tools/frozen_positions.py FOLDER [--halvings 4]

``FOLDER`` is a clone of github:FatinaBasmadji/space-robot-planar-case (MIT). The authors integrate velocities by the
method of Runge and Kutta of fourth order but hold positions and attitude at their values at the start of a step. The
same is done here with spacearm's forward dynamics. If that gives the file, the equations agree, and the rest of the
difference is the integrator's; with the positions held over half a step, a quarter ... it must shrink in proportion,
towards spacearm's own run.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.measure.formats import read_columns
from spacearm.model import Robot, load
from spacearm.simulate import Phase, State, simulate, steps
from spacearm.typing import Array

ROBOT = Path(__file__).parents[1] / "examples" / "lab" / "robots" / "cbk-planar.toml"
START = np.array([-1.0882, 0.7349, 1.9241])
STEP = 0.01


def integrate_frozen(robot: Robot, torques: Array, parts: int = 1) -> Array:
    """Joint rates (T + 1, 3) with positions that are held over ``parts``-ths of a step."""
    mechanics, h = mechanics_of(robot), STEP / parts
    # x, y, yaw of the base in the world, then the joints: velocities as the authors have them.
    q, v = np.concatenate([np.zeros(3), START]), np.zeros(6)
    found = [v[3:]]

    def acceleration(velocity: Array, torque: Array) -> Array:
        c, s = np.cos(q[2]), np.sin(q[2])
        to_world = np.array([[c, -s], [s, c]])
        base = np.zeros(9)
        base[:2], base[5], base[6:] = to_world.T @ velocity[:2], velocity[2], velocity[3:]
        rate = mechanics.forward_dynamics(q[3:], base, np.concatenate([np.zeros(6), torque]))
        # Base axes rotate: the rate of their components is not the acceleration in the world.
        moved = rate[:2] + velocity[2] * np.array([-base[1], base[0]])
        return np.concatenate([to_world @ moved, rate[5:]])

    for torque in torques:
        for _ in range(parts):
            k1 = h * acceleration(v, torque)
            k2 = h * acceleration(v + 0.5 * k1, torque)
            k3 = h * acceleration(v + 0.5 * k2, torque)
            k4 = h * acceleration(v + k3, torque)
            q = q + h * (v + (k1 + k2 + k3) / 6.0)
            v = v + (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
        found.append(v[3:])
    return np.array(found)


def integrate_exact(robot: Robot, torques: Array) -> Array:
    """Joint rates (T + 1, 3) of a run with the torques held over each step."""
    times = STEP * np.arange(len(torques) + 1)
    forces = {name: steps(times[:-1], torques[:, k]) for k, name in enumerate(robot.joint_names)}
    run = simulate(robot, State.at_rest(robot, joints=START), Phase(times[-1], forces=forces), sample=times)
    return np.asarray(run.states[np.searchsorted(run.times, times - 1e-9), -3:])


def read_rates(folder: Path) -> tuple[Array, Array]:
    """Torques (T, 3) that acted from each row on, and rates (T + 1, 3)."""
    files = (("control-torques.txt", range(8, 11)), ("joints-velocities.txt", range(3)))
    torques, rates = (
        np.column_stack([*read_columns(folder / name, [f"[{k}]" for k in columns])[0].values()])
        for name, columns in files
    )
    return torques[: len(rates) - 1], rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halvings", type=int, default=4)
    given = parser.parse_args()
    robot = load(ROBOT)
    torques, rates = read_rates(given.folder)
    exact = integrate_exact(robot, torques)

    def report(label: str, own: Array, other: Array) -> None:
        left = own - other
        print(f"{label:50s} rms {np.sqrt(np.mean(left**2)):.3e}  largest {np.abs(left).max():.3e} rad/s")

    report("file, spacearm's run", exact, rates)
    report("file, positions held as the authors do", integrate_frozen(robot, torques), rates)
    for k in range(given.halvings + 1):
        report(f"spacearm's run, positions held over 10 ms / {2**k}", integrate_frozen(robot, torques, 2**k), exact)


if __name__ == "__main__":
    main()
