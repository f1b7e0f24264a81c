"""Accelerations of a chaser that coasts on Carleton University's air-bearing table, thrusters off, before any catch.

    python tools/coasting.py "SPOT/Projects/Kirk_Phase3/Saved Data"

Reads all recordings of a clone of github:Kirkados/SPOT. Wherever the chaser's thrusters are off for three seconds or
more and nothing was caught yet, the motion of its mass centre and its yaw have constant accelerations (least squares).
Printed are these, their mean, and their scatter within a place on the table: what force and moment on a coasting body
differ by from record to record. These are the doubts of ``[[push]]`` in examples/lab/spot-capture.toml. What follows a
catch takes no part.
"""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

import numpy as np
from scipy.io import loadmat

import spacearm
from spacearm.engine import mechanics_of
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.typing import Array

LAB = Path(__file__).parents[1] / "examples" / "lab"
#: Shortest piece, s; what is cut off after a thruster closed; a residual (m) that shows a push by an edge or a hand.
SHORTEST, SETTLED, PUSHED = 3.0, 0.5, 1e-3
#: Size of a place, m.
PLACE = 0.4


def coasting_pieces(packet: Array, end: float) -> list[Array]:
    """Rows of each piece without thrust, until ``end`` (s)."""
    times = packet[:, 0]
    off = (np.abs(packet[:, 1:4]).max(axis=1) < 1e-6) & (packet[:, 83] < 0.5) & (times > 5.0) & (times < end - 0.5)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], off, [False]]).astype(int)))
    found = []
    for first, last in edges.reshape(-1, 2):
        rows = packet[first:last]
        if rows[-1, 0] - rows[0, 0] > SHORTEST:
            found.append(rows[(rows[:, 0] >= rows[0, 0] + SETTLED) & (rows[:, 0] <= rows[-1, 0] - 0.1)])
    return [rows for rows in found if len(rows) > 15]


def accelerations(rows: Array) -> tuple[Array, Array, float]:
    """Place (2,), accelerations (3,) of mass centre and yaw, and the largest rms residual of the place, m."""
    mechanics = mechanics_of(spacearm.load(LAB / "robots" / "spot-chaser.toml"))
    poses = np.zeros((len(rows), 7))
    poses[:, :2] = rows[:, 4:6]
    poses[:, 3:] = [quaternion_from_rotation(rotation_from_rpy([0.0, 0.0, yaw])) for yaw in rows[:, 6]]
    centre = mechanics.centre_of_mass(rows[:, 74:77], base=poses)[:, :2]
    values = np.column_stack([centre, np.unwrap(rows[:, 6])])
    time = rows[:, 0] - rows[:, 0].mean()
    design = np.column_stack([np.ones_like(time), time, 0.5 * time**2])
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    return solution[0, :2], solution[2], float((values - design @ solution)[:, :2].std(axis=0).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder 'Saved Data' of the clone")
    folder = parser.parse_args().data
    records = tomllib.loads((LAB / "spot-capture.toml").read_text())["record"]
    catches = {entry["file"]: entry["begin"] for entry in records}
    places, found = [], []
    for path in sorted(folder.glob("*/*stitched.mat")):
        packet = loadmat(path)["rt_dataPacket"]
        if packet.shape[1] != 92:
            continue
        # Rows come in pairs with the same pose; -pi in a joint is a reading that was dropped.
        new = np.append(True, np.any(np.diff(packet[:, 4:7], axis=0) != 0.0, axis=1) & (np.diff(packet[:, 0]) > 0.02))
        packet = packet[new & np.all(np.abs(packet[:, 74:77] + np.pi) > 1e-3, axis=1)]
        for rows in coasting_pieces(packet, catches.get(str(path.relative_to(folder)), np.inf)):
            place, own, left = accelerations(rows)
            note = "pushed, left out" if left > PUSHED else ""
            print(f"{path.parent.name:60} {rows[0, 0]:5.1f} to {rows[-1, 0]:5.1f} s at {place.round(2)} m: "
                  f"{np.round(1e3 * own, 2)} mm/s2, mrad/s2 {note}")  # fmt: skip
            if not note:
                places.append(tuple(np.round(place / PLACE).astype(int)))
                found.append(own)
    values, spread, freedom = 1e3 * np.array(found), np.zeros(3), 0
    for place in dict.fromkeys(places):
        own = values[[each == place for each in places]]
        spread, freedom = spread + ((own - own.mean(axis=0)) ** 2).sum(axis=0), freedom + len(own) - 1
    print(f"{len(values)} pieces: mean {values.mean(axis=0).round(2)}, scatter {values.std(axis=0, ddof=1).round(2)}, "
          f"within a place {np.sqrt(spread / freedom).round(2)} ({freedom} degrees of freedom)")  # fmt: skip


if __name__ == "__main__":
    main()
