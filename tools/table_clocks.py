"""Clocks of the recordings of Carleton University's air-bearing table: stamps of poses, delay of joint angles.

    python tools/table_clocks.py "SPOT/Projects/Kirk_Phase3/Saved Data"

Reads the recordings of examples/lab/spot-capture.toml in a clone of github:Kirkados/SPOT until 0.1 s before the flag:
what follows a catch takes no part. Poses are renewed at 10 Hz. Printed are, by recording, how many stamps are early or
late by more than 20 ms; how much the target's yaw, which turns steadily, is off a smooth curve where stamps are even
(median of third differences, in ms of its turning); and the time by which joint angles are used later than their stamps
say if the base's yaw, less what the joints' motion does to it without outer forces, is to be smoothest.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.io import loadmat

import spacearm
from spacearm.engine import mechanics_of
from spacearm.measure.files import even_times
from spacearm.typing import Array

LAB = Path(__file__).parents[1] / "examples" / "lab"
PACE = 0.1
#: s before the flag; delays that are tried, s; a third difference (rad) beyond which a reading is at a firing.
BEFORE, UNTIL, DELAYS, FAR = 12.0, 0.1, np.arange(-0.1, 0.151, 0.005), 3e-3
#: Third differences of white noise are larger by this factor.
THIRD = np.sqrt(20.0)


def new_readings(packet: Array, part: slice, *, dropout: bool = False) -> tuple[Array, Array]:
    """Stamps and values of a part of the packet where it changes."""
    rows = packet[packet[:, 0] > 5.0]
    if dropout:
        rows = rows[np.all(np.abs(rows[:, part] + np.pi) > 1e-3, axis=1) & np.all(rows[:, part] != 0.0, axis=1)]
    new = np.append(True, np.any(np.diff(rows[:, part], axis=0) != 0.0, axis=1))
    return rows[new, 0], rows[new, part]


def third_differences(times: Array, values: Array) -> Array:
    """Of four readings with even steps, divided so that white noise keeps its size."""
    even = np.abs(np.diff(times) - PACE) < 6e-3
    return np.diff(values, 3)[even[2:] & even[1:-1] & even[:-2]] / THIRD


def induced_yaw(times: Array, angles: Array) -> tuple[Array, Array]:
    """Fine times and the yaw of the free base that the joints' motion causes while momentum is zero."""
    mechanics = mechanics_of(spacearm.load(LAB / "robots" / "spot-chaser.toml"))
    path, fine = CubicSpline(times, angles), np.arange(times[0], times[-1], 0.02)
    matrices = np.array([mechanics.mass_matrix(q) for q in path(fine)])
    plane = [0, 1, 5]
    base = np.linalg.solve(matrices[:, plane][:, :, plane], matrices[:, plane][:, :, 6:] @ path(fine, 1)[:, :, None])
    rate = -base[:, 2, 0]
    return fine, np.append(0.0, np.cumsum(0.01 * (rate[1:] + rate[:-1])))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder 'Saved Data' of the clone")
    folder = parser.parse_args().data
    found = []
    for entry in tomllib.loads((LAB / "spot-capture.toml").read_text())["record"]:
        packet, flag = loadmat(folder / entry["file"])["rt_dataPacket"], entry["begin"] + 0.5
        stamps, target = new_readings(packet, slice(24, 27))
        near = (stamps > flag - BEFORE) & (stamps < flag - UNTIL)
        turn = np.unwrap(target[near, 2])
        jitter = 1.4826 * np.median(np.abs(third_differences(stamps[near], turn)))
        rate = abs(np.median(np.diff(turn))) / PACE
        moved = np.mean(np.abs(stamps - even_times(stamps, PACE))[near] > 0.02)
        clock, base = new_readings(packet, slice(4, 7))
        clock = even_times(clock, PACE)
        joint_clock, joints = new_readings(packet, slice(74, 77), dropout=True)
        joint_clock = even_times(joint_clock, PACE)
        own = (joint_clock > flag - BEFORE - 1.0) & (joint_clock < flag + 1.0)
        fine, induced = induced_yaw(joint_clock[own], joints[own])
        rows = (clock > flag - BEFORE) & (clock < flag - UNTIL)
        yaw = np.unwrap(base[rows, 2])
        left = [third_differences(clock[rows], yaw - np.interp(clock[rows] - late, fine, induced)) for late in DELAYS]
        squares = np.array([np.mean(np.minimum(each, FAR / THIRD) ** 2) for each in map(np.abs, left)])
        found.append((float(DELAYS[squares.argmin()]), squares / squares.min()))
        best, without = (1e3 * np.sqrt(each) for each in (squares.min(), squares[np.argmin(np.abs(DELAYS))]))
        print(f"{entry['name']:32} {1e2 * moved:3.0f} % of the stamps moved; {1e3 * jitter / rate:4.1f} ms; "
              f"joints {1e3 * found[-1][0]:.0f} ms, yaw {best:.2f} mrad ({without:.2f} at 0)", flush=True)  # fmt: skip
    delays = np.array([late for late, _ in found])
    common = float(DELAYS[np.sum([squares for _, squares in found], axis=0).argmin()])
    told = [1e3 * each for each in (delays.mean(), delays.std(ddof=1), common)]
    print("joints: mean {:.0f} ms, scatter {:.0f} ms, one for all {:.0f} ms".format(*told))


if __name__ == "__main__":
    main()
