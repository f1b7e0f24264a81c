"""Flexible joints: one cost evaluation beside SciPy's integrator, derivatives beside differences, whole fits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from benchmarks.common import Row, show
from spacearm.engine._call import call_kernel
from spacearm.engine.loops import compile_loop
from spacearm.identify.joint import (
    MeasurementChain,
    identify_joints,
    prepare_test,
    profile_likelihood,
    record_reference,
    sample_posterior,
)
from spacearm.identify.joint._programs import Setup, programs
from spacearm.identify.joint.forward import Accuracy, Forward
from spacearm.model import catalogue
from spacearm.papers.wojtunik2023 import runs
from spacearm.papers.wojtunik2023.data import AVERAGE, DEGREE, OFFSETS, SENSORS, TABLE2, paths, times

VALUES = np.array([*TABLE2[1].values()])
OFFSET = np.array([OFFSETS[1] * DEGREE])
ACCURACY = Accuracy(1e-8, 1e-10)


def best(call: Callable[[], object], rounds: int = 20) -> float:
    """Least wall time, s."""
    call()
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return min(took)


@compile_loop
def _evaluate(address: int, inputs: np.ndarray, out: np.ndarray) -> None:
    call_kernel(address, inputs, out)


def scipy_run() -> Callable[[], np.ndarray]:
    """The same motion by SciPy's DOP853 on the same machine code, accuracy and samples."""
    from scipy.integrate import solve_ivp

    setup = Setup(catalogue.load("wojtunik2023_printed"))
    kernel = programs(setup).plain
    address, inputs, out = kernel.address(1), np.zeros(kernel.n_in), np.zeros(kernel.n_out)
    inputs[kernel.inputs["parameters"]] = VALUES
    given = paths()
    chosen = [given[setup.robot.joint_names[joint]] for joint in setup.paths]
    first = kernel.inputs["path"].start
    rows = [signal.coefficients[:, 0] for signal in chosen]
    start = Forward(setup, given, times(), accuracy=ACCURACY).start(OFFSET, np.zeros(1))

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        inputs[: setup.size] = y
        for k, c in enumerate(rows):
            inputs[first + 3 * k : first + 3 * k + 3] = c[0] + t * (c[1] + t * c[2]), c[1] + 2.0 * c[2] * t, 2.0 * c[2]
        _evaluate(address, inputs, out)
        return out.copy()

    def run() -> np.ndarray:
        done = solve_ivp(rates, (0.0, 10.0), start, method="DOP853", t_eval=times(), rtol=1e-8, atol=1e-10)
        return np.asarray(done.y[0])

    return run


def evaluations() -> list[Row]:
    """One motion of 10 s at 50 Hz, adaptive, 1e-8."""
    robot = catalogue.load("wojtunik2023_printed")
    rows = []
    peer = scipy_run()
    forward = Forward(Setup(robot), paths(), times(), accuracy=ACCURACY)
    difference = float(np.max(np.abs(peer() - forward(VALUES, OFFSET).states[:, 0])))
    ours, theirs = best(lambda: forward(VALUES, OFFSET), 100), best(peer, 5)
    rows.append(
        Row("one cost evaluation, motor prescribed", 1e3 * ours, "ms", "SciPy DOP853, same kernel", 1e3 * theirs, 1.0,
            note=f"largest difference {difference:.0e} rad")
    )  # fmt: skip
    rows.append(Row("one cost evaluation, limit", 1e3 * ours, "ms", target=1.0))
    for drive in ("motor_angle", "rigid_torque"):
        model = Forward(Setup(robot, drive), paths(), times(), accuracy=ACCURACY)
        plain = best(lambda model=model: model(VALUES, OFFSET), 50)
        exact = best(lambda model=model: model(VALUES, OFFSET, derivatives=True), 50)
        rows.append(Row(f"with all five derivatives, {drive}", 1e3 * exact, "ms", "central differences", 10e3 * plain))
    return rows


def fits() -> list[Row]:
    """Whole identifications."""
    robot = catalogue.load("wojtunik2023_printed")
    chain = MeasurementChain(robot, runs.FRAME, SENSORS)
    tests = []
    for k, offset in enumerate(OFFSETS):
        truth, rng = runs.truth_of(robot, AVERAGE, offset), np.random.default_rng(k)
        record = record_reference(truth, chain, rng, f"test{k}")
        tests.append(prepare_test(record, chain, start_known=True, base_pose=truth.base[0]))
    one = best(lambda: identify_joints(robot, tests[:1], warn=False), 5)
    rows = [Row("one test, Levenberg-Marquardt, covariance, diagnostics", one, "s")]
    angle = tests[0].select_channels(("joint1",))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simplex = best(lambda: identify_joints(robot, [angle], method="nelder_mead", cost="paper", warn=False), 1)
    rows.append(Row("one test, Nelder-Mead, Eq. 24, three restarts", simplex, "s"))

    def full() -> None:
        fit = identify_joints(robot, tests, warn=False)
        for name in AVERAGE:
            profile_likelihood(fit, f"joint1.{name}", points=7)

    rows.append(Row("five tests at once, covariance, three profiles", best(full, 2), "s", target=5.0))
    fit = identify_joints(robot, tests[:1], warn=False)
    began = time.perf_counter()
    found = sample_posterior(fit, steps=200, burn=20)
    seconds = time.perf_counter() - began
    rows.append(
        Row("posterior, 200 steps of 12 walkers", seconds, "s", note=f"{found.effective:.0f} independent samples")
    )
    return rows


def main() -> list[Row]:
    """Run and print."""
    return [*show("flexible joints: evaluations", evaluations()), *show("flexible joints: fits", fits())]


if __name__ == "__main__":
    main()
