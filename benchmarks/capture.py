"""Soft capture: one run of the paper's arm, the Pareto front, on-off dampers; MuJoCo's own stepping beside it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.common import Row, show
from benchmarks.peers import Mujoco
from spacearm.capture import LoadCase, SettlingCriterion, design, simulate_capture
from spacearm.capture.evaluate import Evaluator
from spacearm.model import catalogue
from spacearm.papers.zhang2020.data import six_hit
from spacearm.simulate import Dopri853, Phase, State, simulate

LENGTH = 60.0  # s
STEP = 5e-3  # s, of MuJoCo's RK4


def best(call: Callable[[], object], rounds: int = 20, clock: Callable[[], float] = time.process_time) -> float:
    """Least time, s: of the processor for what runs on one thread, so that other work on the machine does not count."""
    call()
    times = []
    for _ in range(rounds):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)


def single() -> list[Row]:
    """A 60 s run of the two-joint arm after the six-dimensional hit, without and with ledger and certificate."""
    arm = catalogue.load("zhang2020")
    start = State.at_rest(arm)
    phase = Phase(LENGTH, loads=[six_hit()])
    rows = []
    for name, damping in (("undamped", 0.0), ("damping 1", 1.0), ("damping 5", 5.0)):
        overrides = {"damping": np.full(arm.n, damping)}

        def run(rtol: float, overrides: dict[str, np.ndarray] = overrides) -> object:
            method = Dopri853(rtol, 1e-2 * rtol)
            return simulate(arm, start, phase, overrides=overrides, method=method, ledger=False, sample=0.1)

        rows.append(Row(f"60 s, {name}, rtol 1e-8", 1e3 * best(lambda run=run: run(1e-8)), "ms", target=15.0))
        rows.append(Row(f"60 s, {name}, rtol 1e-10", 1e3 * best(lambda run=run: run(1e-10)), "ms", target=15.0))
    full = best(lambda: simulate_capture(arm, start, [six_hit()], duration=LENGTH, damping=5.0, sample=0.1), 10)
    rows.append(Row("60 s, damping 5, rtol 1e-11, ledger, certificate", 1e3 * full, "ms"))
    return rows


def beside() -> list[Row]:
    """The soft motion that follows the hit (no load) beside MuJoCo's RK4, both from the same state."""
    arm = catalogue.load("zhang2020")
    after = simulate_capture(arm, State.at_rest(arm), [six_hit()], duration=0.01, damping=5.0, sample=0.01)
    start = State.from_vector(after.states[-1])
    five = arm.replace(joints=tuple(_damped(joint, 5.0) for joint in arm.joints))
    peer = Mujoco(five, lean=False)
    full = peer.full(start.vector[None])[0]
    count = round(LENGTH / STEP)

    def theirs() -> None:
        peer.start(full, STEP)
        peer.run(count)

    def ours() -> object:
        return simulate(five, start, LENGTH, method=Dopri853(1e-8, 1e-10), ledger=False, sample=[LENGTH])

    theirs()
    run = simulate(five, start, LENGTH, sample=[LENGTH])
    assert run.end is not None
    gap = float(np.abs(peer.state() - run.end.vector).max())
    note = f"largest difference of the end states {gap:.1e}; adaptive, rtol 1e-8, against RK4 with {1e3 * STEP:g} ms"
    return [Row("60 s after the hit", 1e3 * best(ours), "ms", "mujoco", 1e3 * best(theirs, 5), note=note)]


def _damped(joint: object, damping: float) -> object:
    from dataclasses import replace

    return replace(joint, damping=damping)  # type: ignore[type-var]


def fronts(runs: int = 20_480) -> list[Row]:
    """The trade-off front of the reproduction, wall time with all threads; designs a second by law."""
    arm = catalogue.load("zhang2020")
    cases = [LoadCase((six_hit(),))]
    settled = SettlingCriterion(0.0, 2e-4, 2e-4)

    def front() -> object:
        return design(arm, cases, stiffness=(4.0, 160.0), runs=runs, settling=settled)

    front_time = best(front, 1, time.perf_counter)
    rows = [Row(f"Pareto front, {runs} runs of 40 s", front_time, "s", target=60.0)]
    springs, dampers = np.full((2048, 8), 40.0), np.full((2048, 8), 5.0)
    for law in ("constant", "balance", "skyhook"):
        evaluator = Evaluator(arm, cases, 40.0, 0.05, settled, law)
        seconds = best(lambda evaluator=evaluator: evaluator(springs, dampers), 2, time.perf_counter)
        rows.append(Row(f"one 40 s run of a batch, {law} dampers, all threads", 1e3 * seconds / 2048, "ms"))
    return rows


def main() -> list[Row]:
    """Run and print."""
    rows = show("capture: single runs", single())
    rows += show("capture: beside MuJoCo", beside())
    return rows + show("capture: designs", fronts())


if __name__ == "__main__":
    main()
