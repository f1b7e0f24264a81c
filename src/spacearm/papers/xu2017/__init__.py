"""Xu, Hu, Zhang, Liang (2017): on-orbit identification of inertia parameters by simple equivalent dynamics.

The paper identifies the equivalent single body from thruster firings, then two bodies for each joint, by a particle
swarm, and says that all inertia parameters of all bodies follow. Its experiments are run here on its robot, its costs
searched by a swarm and solved by least squares, and what they can and cannot tell is worked out: 52 of 70 combinations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spacearm.model import catalogue
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, page
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.claims import findings
from spacearm.papers.xu2017.data import NAME
from spacearm.papers.xu2017.figures import dataset, drawn
from spacearm.papers.xu2017.runs import Exact, Study, compute
from spacearm.result import Certificate, Check, Result

EXACTNESS = 1e-9


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run the paper's experiments and write its table of agreement."""
    tell = progress or (lambda fraction, what: None)
    study = compute(catalogue.load("xu2017"), tell)
    certificate = _certificate(study)
    if cross_check:
        tell(0.9, "cross-check with MuJoCo")
        certificate |= {"mujoco": _cross_check(study.exact)}
    tell(1.0, "done")
    return Result(
        NAME,
        agreement(NAME, findings(study)),
        certificate,
        _settings(),
        dataset(study),
        drawn(study),
        **page(NAME, **_summary(study)),
    )


def _certificate(study: Study) -> Certificate:
    case, noise = study.exact, study.noisy
    drifts = {
        name: max(record.certificate[name].value for record in case.records)
        for name in ("linear_momentum", "angular_momentum", "energy")
    }
    drift = "largest relative drift in the seven experiments"
    checks = {f"experiments.{name}": Check(value, 1e-10, "", drift) for name, value in drifts.items()}
    sound = Check.that(all(record.sound for record in case.records), "every run keeps its laws")
    ranks = float(case.identifiability.rank - case.base_parameters.rank)
    twin, error = max(study.validation.twin.largest().values()), float(np.abs(noise.errors).max())
    exact = case.error(case.linear.estimate.values)
    return Certificate(checks) | {
        "experiments.all_sound": sound,
        "base_parameters": Check(exact, EXACTNESS, "", "noise-free, relative, start 15 % wrong"),
        "recursion": Check(case.error(case.recursion.values), EXACTNESS),
        "rank_theory": Check(ranks, 0.0, "", "numerical rank minus that of the closed form"),
        "null_twin": Check(twin, 1e-9, "", "largest difference of motions in null directions (m, rad)"),
        "noise_errors": Check(error, 4.0, "", "standard deviations, one noisy run"),
        "coverage": Check(noise.monte_carlo.coverage - 0.94, 0.04, "", "coverage of 95 % intervals minus 0.94"),
    }


def _cross_check(case: Exact) -> dict[str, Check]:
    """The paper's experiments once more with MuJoCo's dynamics."""
    from spacearm.simulate.crosscheck import cross_check

    found: dict[str, Check] = {}
    for experiment in paper.experiments(case.robot)[:2]:
        run = experiment.run(case.robot, np.arange(0.0, 60.1, 1.0))
        result = cross_check(run)
        found[experiment.name] = (
            Check(result.largest, 1e-8, "", "largest relative difference to MuJoCo")
            if result.expressed
            else Check.not_applicable(result.reason)
        )
    return found


def _settings() -> dict[str, Any]:
    return {
        "robot": "xu2017",
        "configuration": "normal: (0, 34, -53, 0, 18, 0) deg",
        "sensor_mount": [float(x) for x in paper.MOUNT],
        "sampling": "0.1 s exact, 1 s noisy",
        "noise": dict(paper.sensors().noise),
        "start": "all inertias 15 % too large",
        "swarm": "40 particles, 1500 (single body) and 2000 (two bodies) iterations, inertia 0.729, pulls 1.494, "
        "bounds 50 % and 0.3 m about the start; the paper prints none of these",
        "seeds": {"noise": 2017, "swarm": 1, "design": 3, "null_twin": 0},
        "corrections": [
            "b4z = -0.350 m (Table 1)",
            "Table 2 rows 7 to 10 repaired",
            "Table 5 node 4 added",
            "Eqs. 29, 30: arm of the thruster",
            "Eq. 34: v_s-dot",
            "Eqs. 35, 36: omega-dot in the first cross product",
            "Eqs. 41, 42: M r_g, indices 0 and 1",
            "Eq. 50: m0 v0 + m1 v1",
        ],
    }


def _summary(study: Study) -> dict[str, Any]:
    """What the summary tells in numbers."""
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
