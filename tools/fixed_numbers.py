"""Six wrong fixed numbers: what each does to an estimate, and whether the interval holds the truth once it is doubted.

    python tools/fixed_numbers.py

The data are by MuJoCo (a servicer with a held body) and SciPy (an arm with a flexible joint), tests/support. Each is
identified with all fixed numbers exact, and with the doubt that its error is one standard deviation of. Printed are
the verdict, the largest error in standard deviations, and the widest interval as a share of what noise and the doubt
warrant: the deviation by noise and, in quadrature, how far the estimate moves when the doubted numbers do, each by its
deviation, with all else fitted anew (a share of at most 1.1 is right).

Exit status 1 if a case is sound and outside of three deviations, or wider than what is warranted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from spacearm.identify.inertia import MotionRecord, Prior, identify
from spacearm.identify.joint import JointFit, identify_joints
from spacearm.model import Inertia, Robot
from spacearm.model.edit import replace_inertias
from spacearm.typing import Array
from support.joint_physics import CASES, Case, Plant, camera_record, joint_test
from support.servicer import ROBOT, measured, servicer_motion

#: Standard deviations that an error may have, and the width that is warranted, as a share.
MOST, WIDEST = 3.0, 1.1


@dataclass(frozen=True)
class Outcome:
    """An estimate (N,), its standard deviations, and the verdict."""

    values: Array
    std: Array
    sound: bool


@dataclass(frozen=True)
class FixedCase:
    """A case: the truth, the estimate with and without the doubt, and with each doubted number one deviation away.

    Args:
        solve: the outcome with all numbers exact, or in doubt.
        moved: estimates with each doubted number changed by its deviation and all else fitted anew; None where the
            doubt leaves the number open.
    """

    name: str
    doubt: str
    truth: Array
    solve: Callable[[bool], Outcome]
    moved: Callable[[], list[Array]] | None

    def judge(self) -> tuple[str, bool]:
        """A line of the table, and whether it is right."""
        exact, found = self.solve(False), self.solve(True)
        known = np.isfinite(found.std)
        errors = [np.abs((one.values - self.truth) / one.std)[known].max() for one in (exact, found)]
        worst = np.abs((exact.values - self.truth) / exact.std).max()
        share = np.nan
        if self.moved is not None:
            effects = np.array([other - exact.values for other in self.moved()])
            warranted = np.sqrt(exact.std**2 + (effects**2).sum(axis=0))
            share = float((found.std / warranted)[known].max())
        right = not (found.sound and errors[1] > MOST) and not share > WIDEST
        width = "not determined" if not known.all() else f"{share:.2f}"
        verdicts = ["sound" if one.sound else "not sound" for one in (exact, found)]
        line = (
            f"{self.name:38} {verdicts[0]:>9} {worst:7.1f}   {self.doubt:26} {verdicts[1]:>9} {errors[1]:5.1f} "
            f"{width:>15}  {'' if right else 'WRONG'}"
        )
        return line.rstrip(), right


def inertia_cases() -> list[FixedCase]:
    """A link 10 % heavier, a thrust 3 % low with all bodies unknown, an encoder's zero off by 0.3 deg."""
    known, upper, zero = Prior.from_known_bodies(ROBOT, ["bus", "upper"]), ROBOT.bodies[1].inertia, np.deg2rad(0.3)
    heavy = replace_inertias(ROBOT, {"upper": Inertia(1.1 * upper.mass, upper.com, 1.1 * upper.tensor)})
    heavier, plain = measured(servicer_motion(robot=heavy), 3), measured(servicer_motion(), 3)
    low = measured(servicer_motion(), 3, thrust=1.0 / 0.97)

    def shift(record: MotionRecord, offset: list[float]) -> MotionRecord:
        read = record.readings["joint_position"] + offset
        return replace(record, readings={**record.readings, "joint_position": read})

    def solve(record: MotionRecord, prior: Prior | None, **doubts: float) -> Outcome:
        found = identify(ROBOT, [record], prior=prior, consider=doubts)
        return Outcome(found.estimate.values, found.estimate.std, found.certificate().sound)

    def move_link() -> list[Array]:
        # Each of the ten numbers by a share of its typical size, which is what a doubt about a body states.
        mean, found = ROBOT.inertia_parameters.ravel(), []
        length = float(np.sqrt(np.trace(upper.tensor) / upper.mass) + np.linalg.norm(upper.com))
        for k, size in enumerate([1.0, *[length] * 3, *[length**2] * 6]):
            other = mean.copy()
            other[10 + k] += 0.1 * upper.mass * size
            found.append(solve(heavier, replace(known, mean=other)).values)
        return found

    shifted, truth = shift(plain, [0.0, zero]), ROBOT.inertia_parameters[2]
    base = identify(ROBOT, [low]).problem.base_parameters.combine @ ROBOT.inertia_parameters.ravel()
    lower = measured(servicer_motion(), 3, thrust=1.0 / 0.97**2)
    return [
        FixedCase("link 10 % heavier", "inertias of the link 10 %", truth,
                  lambda doubted: solve(heavier, known, **({"upper": 0.1} if doubted else {})), move_link),
        FixedCase("thrust 3 % low, all bodies unknown", "thrust 3 %", base,
                  lambda doubted: solve(low, None, **({"thrust": 0.03} if doubted else {})),
                  lambda: [solve(lower, None).values]),
        FixedCase("encoder zero off by 0.3 deg", "zeros 0.3 deg", truth,
                  lambda doubted: solve(shifted, known, **({"encoder_offset": zero} if doubted else {})),
                  lambda: [solve(shift(shifted, list(zero * row)), known).values for row in np.eye(2)]),
    ]  # fmt: skip


def joint_cases() -> list[FixedCase]:
    """A link 5 % heavier, a small hysteresis, a gear ratio left at 1 in a record that a script hands over."""
    soft, stiff = CASES["soft"], replace(CASES["k8000"], times=CASES["k8000"].times[:401], truths={})
    heavy = replace(stiff.plant, mass=(80.0, 6.0, 4.2), inertia=(8.0, 0.5, 0.315))

    def numbers(plant: Plant) -> Array:
        return np.array([plant.motor_inertia, plant.stiffness, plant.damping])

    def outcome(fit: JointFit) -> Outcome:
        return Outcome(fit.estimate.values[:3], fit.estimate.std[:3], fit.sound)

    def solve(case: Case, plant: Plant, doubts: dict[str, float], robot: Robot | None = None) -> Outcome:
        other = replace(case, plant=plant)
        test = joint_test(other, other.truth("motor_angle"), 4, "motor_angle")
        return outcome(identify_joints(robot or case.plant.robot(), [test], warn=False, consider=doubts))

    def move_link() -> list[Array]:
        link, robot, found = stiff.plant.robot().bodies[2], stiff.plant.robot(), []
        own = link.inertia
        for mass, tensor in ((0.05 * own.mass, 0.0), (0.0, 0.05)):
            changed = Inertia(own.mass + mass, own.com, own.tensor * (1.0 + tensor))
            found.append(solve(stiff, heavy, {}, replace_inertias(robot, {link.name: changed})).values)
        return found

    rough = replace(soft.plant, hysteresis=0.003)
    geared = replace(soft.plant, ratio=100.0)
    other = replace(soft, plant=geared)
    record, chain = camera_record(other, other.truth("motor_angle"), 4, "motor_angle")
    return [
        FixedCase("link 5 % heavier (joint)", "inertias of the link 5 %", numbers(heavy),
                  lambda doubted: solve(stiff, heavy, {"link2": 0.05} if doubted else {}), move_link),
        FixedCase("hysteresis read as damping", "0.5 % of the spring", numbers(rough),
                  lambda doubted: solve(soft, rough, {"hysteresis": 0.005} if doubted else {}),
                  lambda: [solve(soft, replace(rough, hysteresis=0.008), {}).values]),
        FixedCase("gear ratio left at 1", "what a call does by itself", numbers(geared),
                  lambda doubted: outcome(identify_joints(soft.plant.robot(), [record], chain=chain, warn=False,
                                                          consider=None if doubted else {})), None),
    ]  # fmt: skip


def main() -> int:
    print(f"{'wrong':38} {'exact':>9} {'error':>7}   {'doubt':26} {'doubted':>9} {'error':>5} {'width':>15}")
    right = True
    for case in [*inertia_cases(), *joint_cases()]:
        line, good = case.judge()
        print(line, flush=True)
        right &= good
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
