"""Flexible joints over many seeds of noise: errors against the Cramér-Rao bound, and how often intervals are right.

    python tools/joint_bound.py [--seeds 200] [--cases soft,k8000,k1e5,geared] [--drives motor_angle,torque]
    python tools/joint_bound.py --faults [all | delay,outliers] [--seeds 20]

Data come from the equations in ``tests/support/joint_physics.py``, solved by SciPy. The bound is that of the stated
model: joint paths and torque known by their noisy readings alone, start offset unknown. It is computed at the true
values, with the inputs as they really were.

With ``--faults`` something goes wrong in each test and nobody tells the fit. It must then be right, or not sound with
the cause among its suspects. Of values that are right, one in 370 lies beyond three deviations: those of all sound fits
together are counted against what chance has with one chance in a thousand, and none may lie beyond 4.5.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binom, norm

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from spacearm.errors import SimulationError
from spacearm.identify.joint import JointProblem, identify_joints
from spacearm.identify.joint._programs import Drive
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.misfit import OFF
from spacearm.optimise.information import covariance_at
from support.joint_physics import CASES, FAULTS, Case, joint_test, spoilt

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


@dataclass
class Faulty:
    """What became of the fits with one fault: errors of sound ones (deviations), and how many others named it."""

    errors: list[np.ndarray] = field(default_factory=list)
    named: int = 0
    lost: list[str] = field(default_factory=list)  # neither right nor with the cause named

    @property
    def wrong(self) -> bool:
        """Whether more of the sound fits' values lie beyond three deviations than chance has."""
        if not self.errors:
            return False
        values = np.abs(np.concatenate(self.errors))
        return bool(
            values.max() > 4.5 or binom.sf(int(np.sum(values > 3.0)) - 1, values.size, 2.0 * norm.sf(3.0)) < 1e-3
        )


def faulty(case: Case, drive: Drive, fault: str, seeds: int) -> Faulty:
    """Fits of tests with a fault."""
    found = Faulty()
    for seed in range(seeds):
        try:
            fit = identify_joints(case.plant.robot(), [spoilt(case, drive, seed, fault)], drive=drive, warn=False)
        except SimulationError as stray:
            notes = any(word.rsplit(".")[-1] in stray.hint for word in FAULTS[fault])
            found.named, found.lost = found.named + notes, found.lost + [f"seed {seed}: {stray}"] * (not notes)
            continue
        failed = [name for name, check in fit.certificate.items() if not check.sound]
        off = (fit.estimate.values[:4] - right(case)) / fit.estimate.std[:4]
        if fit.sound:
            found.errors.append(off)
        elif any(name.endswith(FAULTS[fault]) for name in failed if FAULTS[fault]):
            found.named += 1
        else:
            found.lost.append(f"seed {seed}: {', '.join(failed)}; largest error {np.abs(off).max():.1f} sd")
    return found


def show_faults(cases: list[str], drives: list[Drive], faults: list[str], seeds: int) -> None:
    for name, drive, fault in product(cases, drives, faults):
        found = faulty(CASES[name], drive, fault, seeds)
        largest = np.abs(np.concatenate(found.errors)).max() if found.errors else 0.0
        verdict = "SOUND AND WRONG" if found.wrong else "NOT NAMED" if found.lost else "ok"
        print(f"{name}, {drive}, {fault}: {verdict}; sound {len(found.errors)} (largest error {largest:.1f} sd), "
              f"not sound and named {found.named}, of {seeds}", *found.lost, sep="\n  ", flush=True)  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--drives", default="motor_angle,torque")
    parser.add_argument("--faults", nargs="?", const="all")
    given = parser.parse_args()
    if given.faults:
        faults = list(FAULTS) if given.faults == "all" else given.faults.split(",")
        show_faults(given.cases.split(","), given.drives.split(","), faults, given.seeds)
        return
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
