"""How much the thrust of a chaser on Carleton University's air-bearing table differs from what was commanded.

    python tools/thrust_noise.py "SPOT/Projects/Kirk_Phase3/Saved Data"

Reads the recordings of examples/lab/spot-capture.toml in a clone of github:Kirkados/SPOT, from 20 s before the
laboratory's flag until 0.2 s before it: what follows a catch takes no part. The mass centre moves with the commanded
force over the mass, with a scale and a delay, and with a random acceleration that is white while thrusters fire: its
size, and that of the readings, are those of greatest likelihood (a Kalman filter of place and velocity, by axis;
readings more than 4.5 deviations off are left out). The target's thrust was not recorded: all of its acceleration is
taken for random. In examples/lab/spot-capture.toml these are the deviations of pushes in three windows.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
from scipy.io import loadmat
from scipy.optimize import minimize

import spacearm
from spacearm.engine import mechanics_of
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.typing import Array

LAB = Path(__file__).parents[1] / "examples" / "lab"
#: s before the flag; the chaser turns while its arm is still for longer.
BEFORE, LONGER, UNTIL = 20.0, 45.0, 0.2
#: Square of the deviations beyond which a reading is left out, three in a row at most; gap, s, that ends a piece.
FAR, GAP = 20.0, 0.35


@numba.njit
def minus_log_likelihood(times: Array, place: Array, gain: Array, noise: float, random: float) -> float:
    """Of one record; ``gain`` (T,) is the velocity that the commanded force has given until each reading."""
    total, x, v, left = 0.0, place[0], 0.0, 0
    xx, xv, vv = 1.0, 0.0, 1.0
    first = 0
    for k in range(1, len(times)):
        dt = times[k] - times[k - 1]
        if dt > GAP or dt <= 0.0:
            x, v, xx, xv, vv, first = place[k], 0.0, 1.0, 0.0, 1.0, k
            continue
        kick, more = gain[k] - gain[k - 1], random**2 * dt
        x, v = x + v * dt + 0.5 * kick * dt, v + kick
        xx, xv, vv = xx + 2.0 * dt * xv + dt**2 * vv + more * dt**2 / 4.0, xv + dt * vv + more * dt / 2.0, vv + more
        scale, off = xx + noise**2, place[k] - x
        if k - first > 4:
            total += 0.5 * (np.log(scale) + min(off**2 / scale, FAR))
            left = left + 1 if off**2 / scale > FAR else 0
            if 0 < left < 4:
                continue
        a, b = xx / scale, xv / scale
        x, v = x + a * off, v + b * off
        xx, xv, vv = xx - a * xx, xv - a * xv, vv - b * xv
    return total


def fit(records: list[tuple[Array, Array, Array, Array]], mass: float, forced: bool) -> str:
    """The estimate for one axis as text; records are (times, places, times of commands, commands)."""

    def loss(x: Array) -> float:
        noise, random = np.exp(x[:2])
        scale, delay = (x[2], x[3]) if forced else (0.0, 0.0)
        if not (-14.0 < x[0] < -4.0 and -14.0 < x[1] < 0.0 and 0.3 < scale + (not forced) < 2.0 and -0.2 < delay < 0.6):
            return 1e9
        total = 0.0
        for times, places, clock, command in records:
            given = np.concatenate([[0.0], np.cumsum(command[:-1] * np.diff(clock))])
            gain = scale / mass * np.interp(times, clock + delay, given)
            total += minus_log_likelihood(times, places, gain, noise, random)
        return total

    starts = [[np.log(1e-4), np.log(size), *([1.0, 0.2] if forced else [])] for size in (1e-2, 3e-3)]
    best = min((minimize(loss, start, method="Nelder-Mead") for start in starts), key=lambda found: found.fun)
    noise, random = np.exp(best.x[:2])
    told = f", scale {best.x[2]:.2f}, delay {best.x[3]:.2f} s" if forced else ""
    return f"readings {1e3 * noise:.3f}e-3, random {1e3 * random:.2f}e-3 per root second, times {mass:g}: " \
           f"{1e3 * mass * random:.3g}e-3{told}"  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder 'Saved Data' of the clone")
    folder = parser.parse_args().data
    robot = spacearm.load(LAB / "robots" / "spot-chaser.toml")
    mechanics = mechanics_of(robot)
    axes: dict[str, list[tuple[Array, Array, Array, Array]]] = {}
    for entry in tomllib.loads((LAB / "spot-capture.toml").read_text())["record"]:
        if entry.get("hold_out"):
            continue
        packet = loadmat(folder / entry["file"])["rt_dataPacket"]
        clock, flag = packet[:, 0], entry["begin"] + 0.5
        fresh = (clock > flag - LONGER) & (clock < flag - UNTIL)
        apart: Callable[[slice], Array] = lambda part, packet=packet: np.append(  # noqa: E731
            True, np.any(np.diff(packet[:, part], axis=0) != 0.0, axis=1) & (np.diff(packet[:, 0]) > 0.02)
        )
        ours = packet[fresh & apart(slice(4, 7)) & np.all(np.abs(packet[:, 74:77] + np.pi) > 1e-3, axis=1)]
        poses = np.zeros((len(ours), 7))
        poses[:, :2] = ours[:, 4:6]
        poses[:, 3:] = [quaternion_from_rotation(rotation_from_rpy([0.0, 0.0, yaw])) for yaw in ours[:, 6]]
        centre = mechanics.centre_of_mass(ours[:, 74:77], base=poses)
        still = np.append(False, np.abs(np.diff(ours[:, 74:77], axis=0)).max(axis=1) < 5e-4)
        theirs = packet[fresh & (clock > flag - BEFORE) & apart(slice(24, 27))]
        late = ours[:, 0] > flag - BEFORE
        for k, axis in enumerate("xy"):
            axes.setdefault(f"chaser {axis}, m", []).append((ours[late, 0], centre[late, k], clock, packet[:, 1 + k]))
            axes.setdefault(f"target {axis}, m", []).append((theirs[:, 0], theirs[:, 24 + k], clock, packet[:, 1]))
        turn = np.unwrap(ours[:, 6])
        axes.setdefault("chaser yaw, rad", []).append((ours[still, 0], turn[still], clock, packet[:, 3]))
        axes.setdefault("target yaw, rad", []).append((theirs[:, 0], np.unwrap(theirs[:, 26]), clock, packet[:, 3]))
    weights = {"chaser x": robot.mass, "chaser yaw": 0.44, "target x": 12.039, "target yaw": 0.2257}
    for name, records in axes.items():
        weight = weights[name.partition(",")[0].replace(" y", " x") if "yaw" not in name else name.partition(",")[0]]
        print(f"{name}: {fit(records, weight, 'chaser' in name)}", flush=True)


if __name__ == "__main__":
    main()
