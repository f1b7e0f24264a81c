"""A short benchmark of this machine: ``spacearm bench``. The long one, beside other engines, is ``make bench``."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spacearm.engine._batch import default_threads
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols
from spacearm.engine.kernel import Kernel
from spacearm.engine.machine import host
from spacearm.engine.schedule import Schedule
from spacearm.engine.sensitivity import TangentRollout
from spacearm.mechanics import build
from spacearm.mechanics.motion import motion_program
from spacearm.model import Limits, Robot, catalogue
from spacearm.model.layout import Layout
from spacearm.typing import Array

#: Step of the roll-outs, s.
STEP = 1e-3


def plain(robot: Robot) -> Robot:
    """The robot without friction, dampers, springs and limits: what every engine can do."""
    joints = tuple(replace(j, friction=None, damping=0.0, spring=None, limits=Limits()) for j in robot.joints)
    return replace(robot, joints=joints)


def arm() -> Robot:
    """A real arm of 7 revolute joints on a floating base, from a Denavit-Hartenberg table: the catalogue's cai2023."""
    return plain(catalogue.load("cai2023"))


def states(robot: Robot, count: int, seed: int = 2) -> Array:
    """Random states (count, 13 + 2 n): any attitude, angles to 1 rad, rates about 0.3 rad/s."""
    rng = np.random.default_rng(seed)
    quaternion = rng.normal(size=(count, 4))
    quaternion /= np.linalg.norm(quaternion, axis=1, keepdims=True)
    return np.hstack(
        [
            rng.normal(size=(count, 3)),
            quaternion,
            rng.uniform(-1.0, 1.0, size=(count, robot.n)),
            0.1 * rng.normal(size=(count, 3)),
            0.3 * rng.normal(size=(count, 3 + robot.n)),
        ]
    )


class Rollouts:
    """RK4 roll-outs of free motion through the motion program, whose modes, forces and inertias are runtime inputs."""

    def __init__(self, robot: Robot) -> None:
        program = motion_program(robot, ledger=False)
        rate = replace(program, outputs={"rate": program.outputs["rate"]})
        # As in simulate.rollout: what is the same for all samples is computed once for all lanes.
        self._loop = FixedStep(
            StepSymbols(rate), uniform=[name for name in program.inputs if name not in ("state", "force")]
        )
        self._robot = {"inertia": robot.inertia_parameters.ravel(), "rotor": robot.rotor_inertias}

    def run(self, starts: Array, count: int) -> Array:
        """Last states (B, nx) after ``count`` steps from ``starts``, on one thread; a single state without lanes."""
        width = 1 if len(starts) == 1 else host().lanes
        schedule = Schedule([count], np.array([STEP]))
        samples = Ensemble(self._loop, schedule, self._robot, {"state": starts}, every=count, width=width, threads=1)
        found: Array = samples.run().rows[:, 0]
        return found


class Batches:
    """Forward dynamics of many states at once, through :class:`~spacearm.engine.Kernel`."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.kernel = Kernel(build(robot, "forward_dynamics"))

    def inputs(self, samples: Array) -> dict[str, Array]:
        n = self.robot.n
        return {
            "joints": np.ascontiguousarray(samples[:, Layout(n).joints]),
            "velocity": np.ascontiguousarray(samples[:, Layout(n).velocity]),
            "force": np.zeros((len(samples), 6 + n)),
            "inertia": self.robot.inertia_parameters.ravel(),
        }

    def run(self, inputs: dict[str, Array], threads: int = 1, out: Array | None = None) -> Array:
        given = None if out is None else {"acceleration": out}
        return self.kernel(inputs, threads=threads, out=given)["acceleration"]


class Sensitivities:
    """Roll-outs with their exact derivatives by the 10 inertia parameters of the last body."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot

    @cached_property
    def rollout(self) -> TangentRollout:
        last = 10 * self.robot.n
        absent = ("drive", "mode", "friction", "stiffness", "rest", "damping")  # the robot has none of them
        return TangentRollout(self.robot, {"inertia": range(last, last + 10)}, zero=absent)

    def run(self, start: Array, count: int, step: float = STEP) -> Array:
        """Derivatives (nx, 10) of the last state."""
        inputs: dict[str, npt.ArrayLike] = {
            "state": start,
            "inertia": self.robot.inertia_parameters,
            "rotor": self.robot.rotor_inertias,
        }
        last: Array = self.rollout(inputs, step, count, every=count).derivatives[-1]
        return last


def best(task: Callable[[], object], rounds: int = 7) -> float:
    """Shortest time of a call, s; the first call does not count."""
    task()
    found = []
    # The shortest: anything else that runs on the machine only makes it longer.
    for _ in range(rounds):
        start = time.perf_counter()
        task()
        found.append(time.perf_counter() - start)
    return min(found)


@contextmanager
def empty_cache() -> Iterator[None]:
    """Kernels are compiled anew inside, and kept in a folder that goes away."""
    before = os.environ.get("SPACEARM_CACHE")
    with tempfile.TemporaryDirectory(prefix="spacearm-bench-") as folder:
        os.environ["SPACEARM_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["SPACEARM_CACHE"]
            else:
                os.environ["SPACEARM_CACHE"] = before


def run(progress: Callable[[float, str], None] | None = None) -> list[tuple[str, float, str]]:
    """Rows (what, value, unit) for a floating base with 7 revolute joints; a few seconds."""

    def report_part(part: float, what: str) -> None:
        if progress is not None:
            progress(part, what)

    robot = arm()
    rows: list[tuple[str, float, str]] = [("vector lanes", float(host().lanes), "float64")]
    report_part(0.0, "compiling the loops, where this is their first use")
    samples = states(robot, 16384)
    warm = Rollouts(robot)
    warm.run(samples[:8], 1)
    warm.run(samples[:1], 1)

    report_part(0.2, "first call")
    with empty_cache():
        for what in ("compiled", "from the cache"):
            start = time.perf_counter()
            Rollouts(robot).run(samples[:1], 1)
            rows.append((f"first call for a new robot, {what}", time.perf_counter() - start, "s"))
    report_part(0.4, "one trajectory")
    rows.append(
        (
            "one trajectory, RK4, modes at run time",
            best(lambda: warm.run(samples[:1], 2000)) / 8000 * 1e9,
            "ns/evaluation",
        )
    )
    report_part(0.5, "roll-outs")
    rows.append(
        (
            "512 roll-outs, RK4, modes at run time, 1 thread",
            best(lambda: warm.run(samples[:512], 20)) / 40960 * 1e9,
            "ns/evaluation",
        )
    )
    batches = Batches(robot)
    inputs = batches.inputs(samples)
    many = default_threads()
    for threads in dict.fromkeys((1, many)):
        report_part(0.6 if threads == 1 else 0.7, "batches")
        seconds = best(lambda threads=threads: batches.run(inputs, threads))  # type: ignore[misc]
        label = f"forward dynamics, batch of {len(samples)}, {threads} thread{'s' if threads > 1 else ''}"
        rows.append((label, seconds / len(samples) * 1e9, "ns/evaluation"))
    report_part(0.8, "sensitivities")
    sensitivities = Sensitivities(robot)
    rows.append(("200 steps with 10 exact sensitivities", best(lambda: sensitivities.run(samples[0], 200)) * 1e3, "ms"))
    report_part(1.0, "done")
    return rows
