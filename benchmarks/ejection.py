"""Ejections: 100 000 complete stick-slip runs, 1e6 equivalent masses, and one run beside MuJoCo's time steps."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import Row, console, show
from spacearm.ejection import Rig, SeparationDevice, eject_batch, equivalent_mass, reduce_to_plane
from spacearm.engine._batch import default_threads
from spacearm.model import catalogue

FROZEN = ("joint1", "joint3", "joint5", "joint7")
EJECTIONS, MASSES = 100_000, 1_000_000
FLIGHT = 10.0  # s after separation
STEP = 1e-3  # s, MuJoCo


def rigs() -> tuple[Rig, Rig]:
    """The arm of Cai et al. (2023) on its air table, and in space with all seven joints."""
    arm, device = catalogue.load("cai2023"), SeparationDevice(812.7, 0.086, 2)
    return Rig(reduce_to_plane(arm, FROZEN), device, "y"), Rig(arm, device)


def attitudes(rig: Rig, count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(rig.arm.lower_limits, rig.arm.upper_limits, (count, rig.arm.n))


def ejections(rig: Rig, count: int, label: str) -> tuple[float, float]:
    """(wall time, processor time) of complete ejections over all threads, with a progress bar."""
    from rich.progress import Progress

    joints = attitudes(rig, count)
    eject_batch(rig, joints[:512])  # compiles, and warms the caches
    with Progress(console=console(), transient=True) as bar:
        task = bar.add_task(label, total=count)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        wall, work = time.perf_counter(), time.process_time()
        runs = eject_batch(rig, joints, flight=FLIGHT, progress=report)
        wall, work = time.perf_counter() - wall, time.process_time() - work
    if not runs.sound.all():
        raise RuntimeError(f"{(~runs.sound).sum()} ejections failed: {next(iter(runs.failures.items()))}")
    return wall, work


def best(call: Callable[[], object], rounds: int = 3) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def mujoco_ejection(rig: Rig) -> float:
    """One ejection by MuJoCo's RK4 at 1 ms with its friction loss: rail and flight as one model, s."""
    import mujoco

    from spacearm.model.mjcf_write import mjcf_text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mujoco.MjModel.from_xml_string(mjcf_text(rig.mounted_robot))
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, STEP
    model.opt.gravity[:] = 0.0
    model.dof_frictionloss[7:] = 2.0
    data = mujoco.MjData(model)
    steps = int((FLIGHT + 0.25) / STEP)

    def run() -> None:
        mujoco.mj_resetData(model, data)
        for _ in range(steps):
            mujoco.mj_step(model, data)

    return best(run, 1)


def main() -> list[Row]:
    plane, space = rigs()
    threads = default_threads()
    wall, work = ejections(plane, EJECTIONS, "air table, 3 joints")
    single = best(lambda: eject_batch(plane, attitudes(plane, 256), threads=1)) / 256
    rows = [
        Row(
            f"{EJECTIONS:,} ejections, 3 joints",
            wall,
            "s",
            target=60.0,
            note=f"wall time on {threads} threads; processor time {work:.1f} s, {1e3 * work / EJECTIONS:.2f} ms each",
        ),
        Row("one of them", 1e3 * single, "ms", "MuJoCo RK4, 1 ms steps", 1e3 * mujoco_ejection(plane)),
    ]
    wall, work = ejections(space, EJECTIONS // 10, "space, 7 joints")
    rows.append(
        Row(f"{EJECTIONS // 10:,} ejections, 7 joints", wall, "s", note=f"7 joints: processor time {work:.1f} s")
    )
    for rig, what in ((plane, "3 joints"), (space, "7 joints")):
        joints = attitudes(rig, MASSES)
        equivalent_mass(rig, joints[:64])
        rows.append(
            Row(
                f"{MASSES:,} equivalent masses, {what}",
                best(lambda r=rig, q=joints: equivalent_mass(r, q)),
                "s",
                target=2.0,
            )  # type: ignore[misc]
        )
    return show("Ejection", rows, "Exact stick-slip, rail and 10 s of flight, float64.")


if __name__ == "__main__":
    main()
