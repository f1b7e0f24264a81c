"""Accelerations of a chaser that coasts on Carleton University's air-bearing table, thrusters off, before any catch.

    python tools/coasting.py "SPOT/Projects/Kirk_Phase3/Saved Data"

Reads all recordings of a clone of github:Kirkados/SPOT. Wherever the chaser's thrusters are off for three seconds or
more and nothing was caught yet, the motion of its mass centre and its yaw have constant accelerations (least squares).
Printed are these, their mean, and their scatter within a place on the table: what force and moment on a coasting body
differ by from record to record. These are the doubts of ``[[push]]`` in examples/lab/spot-capture.toml. The target
floats without thrust from 5.6 to 9.9 s of each recording. The last lines are the table and the target's bearings on
the days of the captures: accelerations of both bodies by a tilt, a quadratic height of the table and a force that turns
with the target, and what each leaves of a recording that took no part in the fit. What follows a catch takes no part.
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
#: Time in which both bodies float, s; days of the captures; larger accelerations (m/s2, rad/s2) are pushes.
FLOAT, DAYS, LARGEST = (5.6, 9.9), ("2021_8_30", "2021_8_31"), (2e-3, 3e-3)


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


def chaser_motion(rows: Array) -> Array:
    """Mass centre and yaw (T, 3) of the chaser."""
    mechanics = mechanics_of(spacearm.load(LAB / "robots" / "spot-chaser.toml"))
    poses = np.zeros((len(rows), 7))
    poses[:, :2] = rows[:, 4:6]
    poses[:, 3:] = [quaternion_from_rotation(rotation_from_rpy([0.0, 0.0, yaw])) for yaw in rows[:, 6]]
    return np.column_stack([mechanics.centre_of_mass(rows[:, 74:77], base=poses)[:, :2], np.unwrap(rows[:, 6])])


def accelerations(times: Array, values: Array) -> tuple[Array, Array, float]:
    """Pose (3,) in the middle, its accelerations (3,), and the largest rms residual of the place, m."""
    time = times - times.mean()
    design = np.column_stack([np.ones_like(time), time, 0.5 * time**2])
    solution = np.linalg.lstsq(design, values, rcond=None)[0]
    return solution[0], solution[2], float((values - design @ solution)[:, :2].std(axis=0).max())


def new_rows(packet: Array, part: slice) -> Array:
    """Rows with another pose: they come in pairs with the same one."""
    changed = np.any(np.diff(packet[:, part], axis=0) != 0.0, axis=1) & (np.diff(packet[:, 0]) > 0.02)
    return packet[np.append(True, changed)]


def design_rows(body: str, pose: Array, curved: bool, bearing: bool) -> Array:
    """Accelerations (2, n) by a unit of tilt x, y; gradient xx, xy, yy; the target's own force x, y over its mass."""
    (x, y, yaw), found = pose, [np.eye(2)]
    if curved:
        found.append(np.array([[x, y, 0.0], [0.0, x, y]]))
    if bearing:
        found.append((body == "target") * rotation_from_rpy([0.0, 0.0, yaw])[:2, :2])
    return np.hstack(found)


def print_table(pieces: list[tuple[str, str, Array, Array]]) -> None:
    """Fits of the table to pieces: recording, body, pose, acceleration."""
    own = [each for each in pieces if any(day in each[0] for day in DAYS)
           and np.hypot(*each[3][:2]) < LARGEST[0] and abs(each[3][2]) < LARGEST[1]]  # fmt: skip
    names, bodies = np.array([each[0] for each in own]), np.array([each[1] for each in own])
    measured = np.array([each[3][:2] for each in own])
    for curved, bearing in ((False, False), (True, False), (False, True), (True, True)):
        design = np.array([design_rows(body, pose, curved, bearing) for _, body, pose, _ in own])

        def solve(rows: Array, design: Array = design) -> Array:
            flat = design[rows].reshape(-1, design.shape[2])
            return np.linalg.lstsq(flat, measured[rows].ravel(), rcond=None)[0]

        left = np.zeros_like(measured)
        for name in set(names):
            left[names == name] = (measured - design @ solve(names != name))[names == name]
        rms = {body: 1e3 * np.sqrt((left[bodies == body] ** 2).mean(axis=0)) for body in ("chaser", "target")}
        told = ", ".join(f"{body} {each.round(2)}" for body, each in rms.items())
        what = "tilt" + ", gradient" * curved + ", force of the target's bearings" * bearing
        found = solve(np.full(len(own), True))
        # Residuals of one recording have causes in common: each counts as one draw.
        pulls = [np.einsum("nij,ni->j", design[names == name], (measured - design @ found)[names == name])
                 for name in set(names)]  # fmt: skip
        inverse = np.linalg.inv(np.einsum("nij,nik->jk", design, design))
        errors = np.sqrt(np.diag(inverse @ np.einsum("nj,nk->jk", pulls, pulls) @ inverse))
        print(f"{what}: {np.round(1e3 * found, 3)}e-3, standard errors {np.round(1e3 * errors, 3)}e-3; "
              f"left of others, mm/s2: {told}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, help="folder 'Saved Data' of the clone")
    folder = parser.parse_args().data
    records = tomllib.loads((LAB / "spot-capture.toml").read_text())["record"]
    catches = {entry["file"]: entry["begin"] for entry in records}
    places, found, pieces = [], [], []
    for path in sorted(folder.glob("*/*stitched.mat")):
        packet = loadmat(path)["rt_dataPacket"]
        if packet.shape[1] != 92:
            continue
        name = path.parent.name
        theirs = new_rows(packet, slice(24, 27))
        theirs = theirs[(theirs[:, 0] > FLOAT[0]) & (theirs[:, 0] < FLOAT[1]) & (np.abs(theirs[:, 24]) > 0.05)]
        if len(theirs) > 15:
            values = np.column_stack([theirs[:, 24:26], np.unwrap(theirs[:, 26])])
            pose, own, left = accelerations(theirs[:, 0], values)
            if left < PUSHED:
                pieces.append((name, "target", pose, own))
        # -pi in a joint is a reading that was dropped.
        packet = new_rows(packet, slice(4, 7))
        packet = packet[np.all(np.abs(packet[:, 74:77] + np.pi) > 1e-3, axis=1)]
        for rows in coasting_pieces(packet, catches.get(str(path.relative_to(folder)), np.inf)):
            pose, own, left = accelerations(rows[:, 0], chaser_motion(rows))
            place = pose[:2]
            note = "pushed, left out" if left > PUSHED else ""
            print(f"{name:60} {rows[0, 0]:5.1f} to {rows[-1, 0]:5.1f} s at {place.round(2)} m: "
                  f"{np.round(1e3 * own, 2)} mm/s2, mrad/s2 {note}")  # fmt: skip
            if not note:
                places.append(tuple(np.round(place / PLACE).astype(int)))
                found.append(own)
                pieces.append((name, "chaser", pose, own))
    values, spread, freedom = 1e3 * np.array(found), np.zeros(3), 0
    for place in dict.fromkeys(places):
        own = values[[each == place for each in places]]
        spread, freedom = spread + ((own - own.mean(axis=0)) ** 2).sum(axis=0), freedom + len(own) - 1
    print(f"{len(values)} pieces: mean {values.mean(axis=0).round(2)}, scatter {values.std(axis=0, ddof=1).round(2)}, "
          f"within a place {np.sqrt(spread / freedom).round(2)} ({freedom} degrees of freedom)")  # fmt: skip
    print_table(pieces)


if __name__ == "__main__":
    main()
