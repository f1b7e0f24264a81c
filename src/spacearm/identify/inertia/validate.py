"""Validation as in Sec. 5.5: the same drive torques on two models, and how far their motions part.

Sensitivity as in Sec. 5.6: how much momentum changes with each inertia parameter. The paper's K1 ... K18 (Eqs. 68 to
75) are entries of the momentum regressor in world axes: dP/dm_b is the velocity of the body, dL/dI_b turns its angular
velocity. Here they are taken for every body of any robot, over a whole record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.consistent import is_possible
from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.experiments import EXACT, run_experiment
from spacearm.identify.inertia.readings import MotionRecord, attitude_difference
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.simulate import Dopri853, Phase, Signal, State, approximate, simulate, simulate_batch
from spacearm.typing import Array


@dataclass(frozen=True, slots=True)
class SineTorque:
    """Drive torque (N m) or force (N) of a joint: ``amplitude * sin(frequency t + phase)``."""

    joint: str
    amplitude: float
    frequency: float  # rad/s
    phase: float = 0.0


def _sine(torque: SineTorque, t: Array) -> Array:
    return np.asarray(torque.amplitude * np.sin(torque.frequency * t + torque.phase))


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Differences of two models over time under the same torques."""

    times: Array
    base_position: Array  # (..., T, 3) m, world
    base_attitude: Array  # (..., T, 3) rad, rotation vector between the two
    joints: Array  # (..., T, n) rad or m

    def largest_each(self) -> dict[str, Array]:
        """Largest difference by name, of each run where there are several."""
        gaps = {"base_position": self.base_position, "base_attitude": self.base_attitude, "joint_angle": self.joints}
        return {name: np.abs(gap).max(axis=(-2, -1), initial=0.0) for name, gap in gaps.items()}

    def largest(self) -> dict[str, float]:
        return {name: float(value) for name, value in self.largest_each().items()}


def _forces(robot: Robot, torques: Sequence[SineTorque], duration: float) -> dict[str, Signal]:
    forces = {}
    for torque in torques:
        robot.joint(torque.joint)
        forces[torque.joint] = approximate(partial(_sine, torque), 0.0, duration, tolerance=1e-12)
    return forces


def _compare_states(times: Array, real: Array, other: Array, n: int) -> ModelComparison:
    """Of states (..., 13 + 2 n)."""
    joints = Layout(n).joints
    rotation = attitude_difference(real[..., QUATERNION], other[..., QUATERNION])
    return ModelComparison(times, other[..., :3] - real[..., :3], rotation, other[..., joints] - real[..., joints])


def compare_models(
    robot: Robot,
    identified: Array,
    torques: Sequence[SineTorque],
    duration: float,
    configuration: npt.ArrayLike | str,
    *,
    samples: int = 201,
    method: Dopri853 = EXACT,
) -> ModelComparison:
    """Real and identified inertias (10(n + 1)) under the same torques from rest."""
    times = np.linspace(0.0, duration, samples)
    joints = robot.configuration(configuration) if isinstance(configuration, str) else np.asarray(configuration)
    # The mass centre at the world's origin: differences then do not depend on where the base is.
    start = State.at_rest(robot, configuration, position=-mechanics_of(robot).centre_of_mass(joints))
    phase = Phase(duration, forces=_forces(robot, torques, duration), limits="ignore")
    real, other = (
        simulate(robot, start, phase, sample=times, method=method, overrides=overrides).states
        for overrides in (None, {"inertia": np.asarray(identified).ravel()})
    )
    return _compare_states(times, real, other, robot.n)


def largest_differences(
    real: Robot,
    other: Robot,
    torques: Sequence[SineTorque],
    duration: float,
    starts: npt.ArrayLike,
    *,
    samples: int = 41,
) -> dict[str, Array]:
    """Largest difference of two robots' motions from rest at many start configurations (B, n): name to (B,).

    The names are those of :meth:`ModelComparison.largest`. The robots may differ in geometry, too.
    """
    times = np.linspace(0.0, duration, samples)
    phase = Phase(duration, forces=_forces(real, torques, duration), limits="ignore")
    first, second = (
        simulate_batch(
            robot,
            [State.at_rest(robot, joints).vector for joints in np.atleast_2d(starts)],
            phase,
            sample=times,
            method=Dopri853(1e-11, 1e-13),
        ).states
        for robot in (real, other)
    )
    return _compare_states(times, first, second, real.n).largest_each()


@dataclass(frozen=True, slots=True)
class HoldOutError:
    """Prediction error of an experiment that was not used: root mean square over samples."""

    experiment: str
    base_velocity: float  # m/s
    base_rate: float  # rad/s


def predict_held_out(
    robot: Robot, identified: Array, start: State, phases: Sequence[Phase], period: float, *, name: str = ""
) -> HoldOutError:
    """How well identified inertias (10(n + 1)) predict the base's motion in an experiment that did not serve to find
    them, by samples every ``period`` s."""
    columns = Layout(robot.n).base_velocity
    runs = (run_experiment(robot, start, phases, period, inertia=inertia) for inertia in (None, identified))
    first, second = (run.track.states[:, columns] for run in runs)
    return HoldOutError(name, _rms(second[:, :3] - first[:, :3]), _rms(second[:, 3:] - first[:, 3:]))


def _rms(gap: Array) -> float:
    return float(np.sqrt(np.mean(np.sum(gap**2, axis=-1))))


def hold_out_record(robot: Robot, identified: Array, record: MotionRecord) -> HoldOutError:
    """The same for a measured experiment: how far its readings are from what momentum asks with these inertias.

    Velocity and rate of the base follow at each sample from the measured configuration, joint rates and impulse; the
    initial momentum, where it is unknown, is the one that fits best. The sensors' noise is part of the difference.
    """
    inertia = np.asarray(identified).ravel()
    equations = Equations(robot, ("momentum",))
    linear = equations.linear(record)
    gap = linear.matrix @ inertia - linear.known
    places, _ = record.deviations()
    # How momentum depends on velocity and rate of the base: solved for the readings that would fit.
    slopes = equations.slopes(record, inertia)
    base = np.concatenate([slopes[..., places["velocity"]], slopes[..., places["rate"]]], axis=-1)
    base = base[..., equations.moving]  # (T, moving, moving)
    change = np.linalg.solve(base, gap[..., None])[..., 0]
    if record.known_momentum is None:  # differences at all samples explained by one constant of each row
        unit = np.linalg.solve(base, np.broadcast_to(np.eye(base.shape[-1]), base.shape))
        start = np.linalg.lstsq(unit.reshape(-1, base.shape[-1]), change.reshape(-1), rcond=None)[0]
        change = change - unit @ start
    linear_count = sum(i < 3 for i in equations.moving)
    return HoldOutError(record.name, _rms(change[:, :linear_count]), _rms(change[:, linear_count:]))


def indistinguishable_robot(robot: Robot, fraction: float = 0.5, seed: int = 0) -> Array:
    """Inertias (10(n + 1)) of another robot that moves exactly alike: only null directions differ.

    One null direction after the other is followed, up to ``fraction`` of the step at which a body would stop being
    possible, so both robots can exist.
    """
    whole = base_parameters(robot)
    if not whole.null.shape[1]:
        raise InputError("a robot without joints has no null directions", place="null directions")
    rng = np.random.default_rng(seed)
    inertia = robot.inertia_parameters.ravel().copy()
    for k in rng.permutation(whole.null.shape[1]):
        change = whole.null[:, k] * rng.choice([-1.0, 1.0])
        low, high = 0.0, 1e-6
        # Doubling until a body becomes impossible, then bisection: the step's size is not known beforehand.
        while _all_possible(inertia + high * change) and high < 1e6:
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if _all_possible(inertia + middle * change) else (low, middle)
        inertia = inertia + fraction * low * change
    return inertia


def _all_possible(inertia: Array) -> bool:
    return all(is_possible(row) for row in inertia.reshape(-1, 10))
