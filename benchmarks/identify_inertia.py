"""Inertia identification of the paper's robot: least squares beside the particle swarm, and repetitions per second."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from spacearm.identify.inertia import (
    InertiaProblem,
    LinearLeastSquares,
    base_parameters,
    identify,
    monte_carlo,
    run_experiment,
)
from spacearm.identify.inertia.regression import fit_total
from spacearm.measure import make_sensors
from spacearm.model import catalogue
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.equivalent import single_body_problem
from spacearm.papers.xu2017.swarm import ParticleSwarm


def main() -> list[dict[str, Any]]:
    """Print a table; rows of what was timed."""
    robot = catalogue.load("xu2017")
    wrong = robot.with_inertia_parameters(paper.WRONG * robot.inertia_parameters)
    truth = base_parameters(robot).combine @ robot.inertia_parameters.ravel()
    experiments = paper.experiments(robot)
    for experiment in [*experiments.values()][:2]:
        run_experiment(robot, *experiment, 0.1)  # machine code is made once
    rows: list[dict[str, Any]] = []

    def timed(name: str, call: Any, note: Any) -> Any:
        begin = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - begin
        rows.append({"what": name, "seconds": seconds, "note": note(result)})
        print(f"{name:42} {seconds:9.3f} s   {rows[-1]['note']}")
        return result

    records = timed(
        "simulate 7 experiments of 60 s at 10 Hz",
        lambda: [paper.read_experiment(robot, *experiment, paper.sensors()) for experiment in experiments.items()],
        lambda found: f"{sum(record.times.size for record in found)} samples",
    )
    both = ("momentum", "dynamics")
    timed(
        "identify 7 bodies, least squares",
        lambda: identify(wrong, records, method="linear", kinds=both),
        lambda found: f"largest error {np.abs(found.estimate.values - truth).max():.1e}",
    )
    timed(
        "the regression alone",
        lambda: LinearLeastSquares().solve(InertiaProblem(wrong, records, both)),
        lambda found: f"{sum(r.size for rows in found.residuals.values() for r in rows.values())} equations",
    )
    problem = single_body_problem(wrong, records[0].thin(5), robot.configuration(paper.POSTURE))
    timed(
        "single body by particle swarm (Eq. 37)",
        lambda: ParticleSwarm(40, 1500, seed=1, uncertainty=False).solve(problem),
        lambda found: f"{found.evaluations} evaluations, cost {found.cost:.1e}",
    )
    sensors = make_sensors(mount=paper.MOUNT, period=1.0)
    clean = [paper.read_experiment(robot, *experiment, sensors) for experiment in experiments.items()]
    timed(
        "weighted total estimation, 1 Hz",
        lambda: fit_total(InertiaProblem(wrong, [record.add_noise(k) for k, record in enumerate(clean)])),
        lambda found: f"{found.iterations} iterations, chi square {2 * float(found.cost) / found.freedom:.3f}",
    )
    timed(
        "Monte Carlo, 200 repetitions",
        lambda: monte_carlo(InertiaProblem(wrong, clean), truth, 200),
        lambda found: f"coverage {found.coverage:.3f}, {200 / found.seconds:.0f} repetitions/s",
    )
    return rows


if __name__ == "__main__":
    main()
