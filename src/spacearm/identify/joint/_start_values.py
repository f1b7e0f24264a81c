"""Start values of a search where none are given: the robot's own, the oscillation's period, the first samples.

Stiffness is the critical one: off by a factor of ten, the model's oscillation loses phase with the data within a period
and the cost has many local minima. The period of the strongest spectral line and the linearised robot give it closely
enough for a single flexible joint: frequency^2 is proportional to stiffness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.joint.flexible_joints import linearise
from spacearm.identify.joint.laws import SPECIFICATION
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.joint.problem import JointProblem

#: How many times the inertia of the whole robot a motor may have.
HEAVY = 1e3


def start_values(model: JointProblem, period: bool) -> dict[str, float]:
    """Start values: the robot's own, stiffness from the oscillation's period, offsets from the first samples."""
    found: dict[str, float] = {}
    for f in model.setup.flexible:
        for name in model.setup.law.parameters:
            found[f"{f.name}.{name}"] = f.values.get(name, SPECIFICATION[name][3])
    for k, test in enumerate(model.tests):
        for f in model.setup.flexible:
            deflection = model.deflection(k, f.name)
            start = (
                SPECIFICATION["offset"][3]
                if deflection is None
                else float(np.mean(deflection[np.isfinite(deflection)][:3]))
            )
            found[f"{test.name}.{f.name}.offset"] = start
            found[f"{test.name}.{f.name}.offset_rate"] = 0.0
    for k, channel in model.biases:
        found[f"{model.tests[k].name}.{channel}.bias"] = 0.0
    found["sensors.delay"] = 0.0
    stiffness = _stiffness_from_period(model) if period else None
    if stiffness is not None:
        found[f"{model.setup.flexible[0].name}.stiffness"] = stiffness
    return found


def _stiffness_from_period(model: JointProblem) -> float | None:
    """Stiffness that gives the strongest oscillation its period (one flexible joint; motor held or free)."""
    if len(model.setup.flexible) != 1:
        return None
    (f,) = model.setup.flexible
    best: tuple[float, float] | None = None
    for index, forward in enumerate(model.forwards):
        deflection = model.deflection(index, f.name)
        if deflection is None:
            continue
        there = np.isfinite(deflection)
        t, deflection = forward.times[there], deflection[there]
        # A drift or an offset would be the strongest line of the spectrum.
        left = deflection - np.polynomial.Polynomial.fit(t, deflection, 1)(t)
        even = np.linspace(0.0, t[-1], 512)  # a guess only: interpolation does for irregular times
        power = np.abs(np.fft.rfft(np.interp(even, t, left), 4096)) ** 2
        grid = 2.0 * np.pi * np.fft.rfftfreq(4096, even[1])
        # Less than one period in the data is a trend, not an oscillation.
        power[grid < 2.0 * np.pi / t[-1]] = 0.0
        k = int(np.argmax(power))
        if best is None or power[k] > best[1]:
            best = float(grid[k]), float(power[k])
    if best is None or best[1] <= 0.0:
        return None
    line = linearise(model.robot, model.configuration(0), {f.name: {"stiffness": 1.0, "damping": 0.0}})
    unit = line.frequencies(model.setup.drive == "motor_angle")[-1]  # of a spring of 1 N m/rad
    return float((best[0] / unit) ** 2)


def check_start(model: JointProblem, given: Mapping[str, Mapping[str, object]]) -> None:
    """Raise an error if the motion with the start values cannot be integrated through every test; it names the cause.

    A search would not get away from such a start, but take long over it.
    """
    start = model.complete(model.guess)
    _check_motors(model, given)

    def can_simulate(full: Array, test: int) -> bool:
        return bool(np.all(np.isfinite(model.forwards[test](*model.split(full, test)).states[-1])))

    for k, test in enumerate(model.tests):
        if can_simulate(start, k):
            continue
        what = f"the model cannot be followed to the end of test {test.name!r}"
        why = f"too stiff for samples every {np.median(np.diff(test.time)):.3g} s, or unstable"
        # Each given value is exchanged in turn for the usual one: the first that helps is the one to blame.
        for table, values in given.items():
            for name, value in values.items():
                short = name.rsplit(".", 1)[-1]
                unit, usual = SPECIFICATION[short][0], SPECIFICATION[short][3]
                mine = [n == name or (name == short and n.endswith(f".{short}")) for n in model.all_names]
                if can_simulate(np.where(mine, usual, start), k):
                    raise InputError(f"is {value}, and {what}: {why}", place=f"{table}.{name}",
                                     hint=f"{usual:g} {unit} can be followed")  # fmt: skip
        raise InputError(f"{what} with the start values: {why}", place="guess",
                         hint="give other start values, or other speeds and edges of the law")  # fmt: skip


def _check_motors(model: JointProblem, given: Mapping[str, Mapping[str, object]]) -> None:
    """No motor that the caller states has far more inertia than the whole robot could have about any axis."""
    robot = model.robot
    # A generous upper bound: all bodies at the full length of the chain.
    reach = sum(float(np.linalg.norm(joint.placement.translation)) for joint in robot.joints)
    whole = 0.0
    for own in (body.inertia for body in robot.bodies):
        whole += float(np.trace(own.tensor)) + own.mass * (reach + float(np.linalg.norm(own.com))) ** 2
    for f in model.setup.flexible:
        for table in ("fixed", "guess"):
            values = given.get(table, {})
            value = values.get(f"{f.name}.motor_inertia", values.get("motor_inertia"))
            if isinstance(value, int | float) and value > HEAVY * f.ratio**2 * whole:
                what = f"is {value:g} kg m2, and the whole robot has {whole:.3g} at most about any axis"
                raise InputError(what, place=f"{table}.motor_inertia", hint="expected the rotor's, on the load side")
