"""The rule for outliers on machines that it was not chosen on: what it blames in records as they are, and misses.

    python tools/outlier_rule.py --pendulum DIR --table DIR

``--pendulum``: ``results`` of a clone of github:dfki-ric-underactuated-lab/torque_limited_simple_pendulum, a motor with
a link on the ground. ``--table``: ``Saved Data`` of a clone of github:Kirkados/SPOT, a chaser under thrust on an
air-bearing table. Without them only joints of a made 7-joint arm are tried, at other rates and noises. One reading in
33 is moved by so many standard deviations of the noise. The last lines are the limits that a model's residuals meet:
how many of what was found is noise.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from scipy.io import loadmat

from spacearm.measure.clean import find_outliers, noise_from_scatter, row_outliers
from spacearm.typing import Array

SHARE, SIZES = 0.03, ((4, 6), (6, 10), (10, 30), (30, 300))
Row = tuple[Array, Array]


def pendulum(folder: Path) -> Iterator[tuple[str, list[Row]]]:
    for path in sorted(folder.rglob("data_measured*.csv")):
        data = np.genfromtxt(path, delimiter=",", names=True)
        new = np.append(True, np.diff(data["time"]) > 0.0)
        for name in ("position", "velocity"):
            yield f"{path.parent.name[-22:]} {name}", [(data["time"][new], data[name][new])]


def table(folder: Path) -> Iterator[tuple[str, list[Row]]]:
    rows: dict[str, list[Row]] = {"place": [], "yaw": []}
    for path in sorted(folder.glob("*/*stitched.mat"))[:12]:
        packet = loadmat(path)["rt_dataPacket"]
        if packet.shape[1] != 92:
            continue
        new = np.append(True, np.any(np.diff(packet[:, 4:7], axis=0) != 0.0, axis=1) & (np.diff(packet[:, 0]) > 0.02))
        packet = packet[new & (packet[:, 0] > 20.0) & (packet[:, 0] < 58.0)]
        rows["place"] += [(packet[:, 0], packet[:, column]) for column in (4, 5)]
        rows["yaw"].append((packet[:, 0], np.unwrap(packet[:, 6])))
    yield from rows.items()


def arm() -> Iterator[tuple[str, list[Row]]]:
    for rate, noise, step in ((1000.0, 2e-5, 0.0), (200.0, 5e-4, 0.0), (50.0, 1e-3, 0.0), (1000.0, 0.0, 1e-4)):
        rng, times, rows = np.random.default_rng(1), np.arange(0.0, 8.0, 1.0 / rate), []
        for _ in range(7):
            waves = [rng.normal() * np.sin(0.6 * np.pi * k * times + rng.uniform(0.0, 6.0)) for k in range(1, 6)]
            row = np.sum(waves, axis=0) / 3.0 + noise * rng.normal(size=times.size)
            rows.append((times, np.round(row / step) * step if step else row))
        yield f"7 joints, {rate:g} Hz, noise {noise:g}, step {step:g} rad", rows


def judge(name: str, rows: Iterable[Row]) -> None:
    rng, count, found = np.random.default_rng(1), 0, 0
    moved, missed = np.zeros((2, len(SIZES)))
    for times, row in rows:
        sigma = float(np.sqrt(noise_from_scatter(times, row[:, None]).variance))
        blamed = row_outliers(times, row, sigma)
        count, found = count + row.size, found + int(blamed.sum())
        for k, (low, high) in enumerate(SIZES):
            hit = (rng.random(row.size) < SHARE) & ~blamed
            off = hit * rng.choice([-1.0, 1.0], row.size) * rng.uniform(low, high, row.size)
            caught = row_outliers(times, row + off * sigma, sigma)
            moved[k], missed[k] = moved[k] + hit.sum(), missed[k] + (hit & ~caught).sum()
    shares = ", ".join(f"{low} to {high}: {100 * m / max(n, 1):.0f} %" for (low, high), n, m in
                       zip(SIZES, moved, missed, strict=True))  # fmt: skip
    print(f"{name}: {count} readings, blamed as they are {100 * found / count:.2f} %; missed {shares}", flush=True)


def rule(count: int, rows: int, share: float, repeats: int) -> None:
    wrong = found = missed = moved = 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        away = rng.normal(size=(count, rows))
        hit = rng.random(away.shape) < share
        away += hit * rng.choice([-1.0, 1.0], away.shape) * rng.uniform(4.0, 6.0, away.shape)
        bad = find_outliers(lambda kept, away=away: np.abs(away), np.ones(away.shape, dtype=bool), adapt=True)
        wrong, found = wrong + int((bad & ~hit).sum()), found + int(bad.sum())
        missed, moved = missed + int((hit & ~bad).sum()), moved + int(hit.sum())
    text = f"residuals, {count} readings of {rows} channels, {100 * share:g} % off by 4 to 6: noise is "
    print(f"{text}{100 * wrong / found:.1f} % of what is found, {100 * missed / moved:.1f} % are missed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pendulum", type=Path)
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    sources = [arm()]
    sources += [] if given.pendulum is None else [pendulum(given.pendulum)]
    sources += [] if given.table is None else [table(given.table)]
    for source in sources:
        for name, rows in source:
            judge(name, rows)
    for count, rows, repeats in ((60, 3, 60), (400, 3, 20), (8000, 7, 2)):
        for share in (0.01, 0.05):
            rule(count, rows, share, repeats)


if __name__ == "__main__":
    main()
