"""Flexible joints over many seeds of noise: errors against the Cramér-Rao bound, and how often intervals are right.

    python tools/joint_bound.py [--seeds 200] [--cases soft,k8000,k1e5,geared] [--drives motor_angle,torque]

Data come from the equations in ``tests/support/joint_physics.py``, solved by SciPy. The bound is that of the stated
model: joint paths and torque known by their noisy readings alone, start offset unknown. It is computed at the true
values, with the inputs as they really were.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from spacearm.identify.joint import Drive, JointProblem, JointTest, identify_joints
from spacearm.identify.joint.suspects import OFF
from spacearm.optimise import covariance_at
from support.joint_physics import CASES, Case, joint_test

NAMES = ("motor_inertia", "stiffness", "damping", "offset")


def right(case: Case) -> np.ndarray:
    """The true values."""
    plant = case.plant
    return np.array([plant.motor_inertia, plant.stiffness, plant.damping, case.offset])


def bound(case: Case, drive: Drive) -> np.ndarray:
    """Cramér-Rao bound: standard deviations at the truth, from readings without noise."""
    test: JointTest = joint_test(case, case.truth(drive), None, drive)
    model = JointProblem(case.plant.robot(), [test], drive=drive).with_path_errors(right(case))
    return np.sqrt(np.diag(covariance_at(model, right(case))))


def study(case: Case, drive: Drive, seeds: int) -> dict[str, np.ndarray | float]:
    """Root mean square errors over the bound, shares of 95 % intervals that hold the truth, and of sound fits."""
    errors, covered, sound, began = [], [], [], time.process_time()
    for seed in range(seeds):
        test = joint_test(case, case.truth(drive), seed, drive)
        fit = identify_joints(case.plant.robot(), [test], drive=drive, nuisances=OFF, warn=False)
        errors.append(fit.estimate.values - right(case))
        covered.append(np.abs(errors[-1]) < 1.959964 * fit.estimate.std)
        sound.append(fit.sound)
    least = bound(case, drive)
    return {
        "bound": least,
        "ratio": np.sqrt(np.mean(np.square(errors), axis=0)) / least,
        "coverage": np.mean(covered, axis=0),
        "sound": float(np.mean(sound)),
        "seconds": (time.process_time() - began) / seeds,
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--drives", default="motor_angle,torque")
    given = parser.parse_args()
    for name in given.cases.split(","):
        for drive in given.drives.split(","):
            found = study(CASES[name], drive, given.seeds)
            print(
                f"{name}, {drive}: {given.seeds} seeds, {found['seconds']:.2f} s a fit, sound {found['sound']:.3f}",
                flush=True,
            )
            for k, parameter in enumerate(NAMES):
                numbers = [found[key][k] for key in ("bound", "ratio", "coverage")]  # type: ignore[index]
                print(
                    "  {:<14} bound {:.4g}, rms / bound {:.3f}, coverage {:.3f}".format(parameter, *numbers), flush=True
                )


if __name__ == "__main__":
    main()
