"""Xu, Hu, Zhang, Liang (2017): on-orbit identification of inertia parameters by simple equivalent dynamics.

The paper identifies the equivalent single body from thruster firings, then two bodies for each joint, by a particle
swarm, and says that all inertia parameters of all bodies follow. Its experiments are run here on its robot, its costs
searched by a swarm and solved by least squares, and what they can and cannot tell is worked out: 52 of 70 combinations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spacearm.identify.inertia import run_experiment
from spacearm.measure.channels import TYPICAL_NOISE
from spacearm.model import Robot, catalogue
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, checks, page, settings
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.claims import findings
from spacearm.papers.xu2017.data import NAME
from spacearm.papers.xu2017.figures import build_figures, dataset
from spacearm.papers.xu2017.runs import NoiseFreeRuns, Xu2017Study, compute
from spacearm.result import Certificate, Check, Result
from spacearm.scene import scene_of
from spacearm.simulate import Run

__all__: list[str] = []


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run the paper's experiments and write its table of agreement."""
    report = progress or (lambda fraction, what: None)
    study = compute(catalogue.load("xu2017"), report)
    certificate = _certificate(study)
    if cross_check:
        report(0.9, "cross-check with MuJoCo")
        certificate |= {"mujoco": _cross_check(study.exact)}
    report(1.0, "done")
    return Result(
        NAME,
        agreement(NAME, findings(study)),
        certificate,
        settings(NAME, sensor_mount=[float(x) for x in paper.MOUNT], noise=dict(TYPICAL_NOISE)),
        dataset(study),
        build_figures(study),
        scene=scene_of(dict(_example_runs(study.exact.robot)), frames=300),
        **page(NAME, **_summary(study)),
    )


def _certificate(study: Xu2017Study) -> Certificate:
    case, noise = study.exact, study.noisy
    residuals = {
        f"experiments.{name}": [run.certificate[name].value for run in case.runs if run.certificate is not None]
        for name in ("linear_momentum", "angular_momentum", "energy")
    }
    residuals |= {
        "base_parameters": [case.error(case.linear.estimate.values)],
        "recursion": [case.error(case.recursion.values)],
        "rank_theory": [case.identifiability.rank - case.base_parameters.rank],
        "null_twin": list(study.validation.reference.largest().values()),
        "noise_errors": [np.abs(noise.errors).max()],
        "coverage": [noise.monte_carlo.coverage - 0.94],
    }
    sound = Check.from_condition(all(run.sound for run in case.runs), "every run keeps its laws")
    return Certificate({**checks(NAME, residuals), "experiments.all_sound": sound})


def _cross_check(case: NoiseFreeRuns) -> dict[str, Check]:
    """The paper's experiments once more with MuJoCo's dynamics."""
    from spacearm.simulate.check.crosscheck import cross_check

    found: dict[str, Check] = {}
    for name, run in _example_runs(case.robot):
        result = cross_check(run)
        found[name] = (
            Check(result.largest, 1e-8, "", "largest relative difference to MuJoCo")
            if result.was_run
            else Check.not_applicable(result.reason)
        )
    return found


def _example_runs(robot: Robot) -> Iterator[tuple[str, Run]]:
    """The first two of the paper's experiments as runs."""
    for name, experiment in [*paper.experiments(robot).items()][:2]:
        yield name, run_experiment(robot, *experiment, 1.0)


def _summary(study: Xu2017Study) -> dict[str, Any]:
    """The numbers of the summary."""
    case, swarm, carlo = study.exact, study.swarms, study.noisy.monte_carlo
    return {
        "rank": case.identifiability.rank,
        "size": 10 * len(case.robot.bodies),
        "null": case.identifiability.null_dimension,
        "data": case.known.counts()["data"],
        "lowest": min(swarm.masses),
        "highest": max(swarm.masses),
        "alike": max(swarm.seed_error),
        "coverage": 100 * carlo.coverage,
        "count": len(carlo.values),
    }
