"""Results of a soft-capture run: base, deformations, joint loads, settling, dampers, momentum.

A :class:`CaptureRun` is a view of a :class:`~spacearm.simulate.Run`: all numbers follow from its recorded states,
inputs and accelerations, nothing is integrated again. The wrenches that joints transmit come from inverse dynamics at
each sample, and so do not depend on the step.

The base of a free robot never comes to rest: it keeps the momentum of the capture. What settles is its vibration, the
velocity of the base less that of one rigid body with all the mass and momentum
(:mod:`spacearm.capture.base_response`). Settling is judged like a step response in control engineering, by a share of
the peak or a fixed bound, over the rest of the run. Shapes: samples first, (T, ...); world axes unless stated, SI
units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from spacearm.capture.base_response import output_program
from spacearm.capture.momentum_budget import MomentumBudget, momentum_budget
from spacearm.capture.plastic_impact import ROBOT
from spacearm.capture.soft_joints import soft_axes, soft_joints
from spacearm.engine import Kernel
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.result import Certificate
from spacearm.simulate import Run
from spacearm.simulate.run.ledger import LedgerEntry
from spacearm.simulate.run.run import Track
from spacearm.simulate.run.segment import Occurrence
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

    from spacearm.capture.target import CaughtTarget
    from spacearm.simulate.check.crosscheck import CrossCheck

#: Largest relative change of momentum in a sound run.
MOMENTUM_TOLERANCE = 1e-10
#: Fraction of a run by whose end a vibration must have settled: after a later settling it might grow again.
LATEST = 0.95
#: Longest run, in steps, that is cross-checked: it takes some minutes.
MOST_CHECKED_STEPS = 50_000
_ENERGIES = ("kinetic", "elastic", "damping", "coupling", "friction", "drive", "load")


@dataclass(frozen=True)
class TravelViolation:
    """A soft axis that left its travel: when it first did, and its largest excursion in the samples."""

    joint: str
    time: float
    limit: float
    reached: float
    unit: str


@dataclass(frozen=True)
class SettlingCriterion:
    """When a vibration counts as settled.

    The vibration of the base is its velocity less that of the united body with the same momentum, which keeps rotating
    (``CaptureRun.base_vibration``). It has settled when the magnitudes of its linear and angular part stay below
    ``fraction`` of their largest values, or below ``velocity`` (m/s) and ``rate`` (rad/s), whichever bound is larger,
    for at least the last twentieth of the run.
    """

    fraction: float = 0.05
    velocity: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        bounds = (self.fraction, self.velocity, self.rate)
        if not all(math.isfinite(bound) and bound >= 0.0 for bound in bounds) or max(bounds) == 0.0:
            raise InputError(f"bounds are {bounds}", place="settling", hint="expected one above zero")

    def time(self, times: Array, base_vibration: Array) -> float:
        """Time (s) after which both parts of ``base_vibration`` (T, 6) stay below their bounds; infinite if they do
        not.
        """
        sizes = np.linalg.norm(base_vibration[:, :3], axis=1), np.linalg.norm(base_vibration[:, 3:], axis=1)
        found = max(
            last_above(times, size, max(self.fraction * float(size.max()), bound))
            for size, bound in zip(sizes, (self.velocity, self.rate), strict=True)
        )
        # A vibration that settles at the very end may be between two swings.
        return found if found <= times[0] + LATEST * (times[-1] - times[0]) else math.inf

    def __str__(self) -> str:
        bounds = [f"{100 * self.fraction:g} % of their peaks"] if self.fraction else []
        if self.velocity or self.rate:
            bounds.append(f"{self.velocity:g} m/s and {self.rate:g} rad/s")
        return f"base velocity and rate, less the united body's, stay below {' or '.join(bounds)}"


def last_above(times: Array, values: Array, level: float) -> float:
    """Last time at which ``values`` fall below ``level``; infinite if they end above it, zero if never above."""
    above = np.flatnonzero(values > level)
    if not above.size:
        return 0.0
    last = int(above[-1])
    if last == len(values) - 1:
        return math.inf
    # Crossing of the level by linear interpolation, so that the time is not rounded to the next sample.
    fall = values[last] - values[last + 1]
    part = (values[last] - level) / fall if fall > 0.0 else 1.0
    return float(times[last] + part * (times[last + 1] - times[last]))


@dataclass(frozen=True, eq=False)
class CaptureRun:
    """A soft-capture run, sampled. The first axis of arrays is the sample.

    They describe the robot with its soft joints; before a capture at the end of an approach, the robot without its
    target and the target itself are tracks of ``run``.

    Args:
        run: the whole run, with its changes.
        switches: switches of the clutch: time (s) and mode.
        caught: the target captured at the start.
    """

    run: Run
    switches: tuple[tuple[float, str], ...] = ()
    caught: CaughtTarget | None = None

    @property
    def track(self) -> Track:
        return self.run.last_track(ROBOT)

    @property
    def robot(self) -> Robot:
        return self.track.robot

    @property
    def times(self) -> Array:
        """Times (T,), s; a switch of the clutch or of dampers, and the start or end of a load, has a sample on both
        sides.
        """
        return self.track.times

    @property
    def states(self) -> Array:
        """Flat states (T, 13 + 2 n)."""
        return self.track.states

    @property
    def acceleration(self) -> Array:
        """Rates (T, 6 + n) of the generalised velocity."""
        return self.track.outputs[:, Layout(self.robot.n).velocity]

    @property
    def reaction(self) -> Array:
        """Reactions of locked degrees of freedom (T, 6 + n), N or N m."""
        at = self.track.model.code.reaction
        return self.track.outputs[:, at : at + self.robot.dofs]

    @property
    def energies(self) -> dict[str, Array]:
        """Energies (T,), J: kinetic, elastic; damping, drive, load, ... since the start; losses in impacts."""
        ledger = self.track.ledger
        assert ledger is not None
        return {**{name: getattr(ledger, name) for name in _ENERGIES}, "impacts": ledger.lost}

    @property
    def damper_energy(self) -> Array:
        """Energy dissipated by each joint's damper since the start (T, n), J."""
        return self.track.integrated[:, self.track.model.energies["damping"]][:, 6:]

    @property
    def events(self) -> tuple[Occurrence, ...]:
        return self.run.events

    @property
    def impacts(self) -> tuple[LedgerEntry, ...]:
        """Changes in which something was stopped or captured."""
        return tuple(e for e in self.run.changes if e.changed.impulse or np.any(e.changed.wrench))

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate of the run; momentum must be conserved to 1e-10, and energy according to the whole ledger."""
        found = dict(self.run.certificate or {})
        if "ledger" in found:
            found["energy"] = found.pop("ledger")
        for name, check in found.items():
            if name.endswith("momentum") and check.applies:
                # Momentum is what a capture is about: stricter than runs in general.
                found[name] = replace(check, tolerance=MOMENTUM_TOLERANCE)
        return Certificate(found)

    @property
    def sound(self) -> bool:
        return self.certificate.sound

    @property
    def steps(self) -> int:
        """Steps of the integrator."""
        return self.run.stats.steps

    @property
    def axes(self) -> tuple[str, ...]:
        """Joint names of all soft axes."""
        return soft_axes(self.robot)

    # -- the base -----------------------------------------------------------------------------------------------

    @cached_property
    def base_velocity(self) -> Array:
        """Velocity of the base frame's origin, world axes (T, 3), m/s."""
        return self._rotate_to_world(Layout(self.robot.n).linear_velocity)

    @cached_property
    def base_rate(self) -> Array:
        """Angular velocity of the base, world axes (T, 3), rad/s."""
        return self._rotate_to_world(Layout(self.robot.n).angular_velocity)

    def _rotate_to_world(self, place: slice) -> Array:
        axes = rotation_matrices(self.states[:, QUATERNION])
        return np.asarray(np.einsum("tij,tj->ti", axes, self.states[:, place]))

    @cached_property
    def base_angles(self) -> Array:
        """Attitude of the base as Rot(x) Rot(y) Rot(z), the order of Eq. 2 (T, 3), rad."""
        r = rotation_matrices(self.states[:, QUATERNION])
        return np.stack(
            [
                np.arctan2(-r[:, 1, 2], r[:, 2, 2]),
                np.arcsin(np.clip(r[:, 0, 2], -1.0, 1.0)),
                np.arctan2(-r[:, 0, 1], r[:, 0, 0]),
            ],
            axis=1,
        )

    # -- the joints ---------------------------------------------------------------------------------------------

    def joint(self, name: str) -> Array:
        """Position of a joint (T,), m or rad; of a soft axis, its deformation."""
        return self.states[:, Layout(self.robot.n).joint(self.robot.joint_index(name))]

    @cached_property
    def _outputs(self) -> dict[str, Array]:
        model = self.track.model
        kernel = _output_kernel(self.robot, model.loads)
        given = {
            "state": self.states,
            "acceleration": self.acceleration,
            "wrench": self.track.inputs[:, model.kernel.inputs["wrench"]],
            "inertia": self.robot.inertia_parameters.ravel(),
            "rotor": self.robot.rotor_inertias,
        }
        return kernel({name: value for name, value in given.items() if name in kernel.inputs})

    @property
    def joint_wrenches(self) -> Array:
        """Force and moment that each joint transmits to its parent body (T, n, 6): N and N m, parent's axes, at the
        joint's origin.
        """
        return self._outputs["joint_wrenches"]

    @property
    def base_vibration(self) -> Array:
        """Base velocity less that of the united body with the same momentum (T, 6), base axes: m/s, rad/s."""
        return self._outputs["base_vibration"]

    def transmitted_wrench(self, joint: str) -> Array:
        """Wrench (T, 6) that a soft joint, or a single joint, transmits towards the base."""
        first = soft_joints(self.robot).get(joint, (joint,))[0]
        return self.joint_wrenches[:, self.robot.joint_index(first)]

    @property
    def base_wrench(self) -> Array:
        """Wrench (T, 6) of the joints on the base where the first is attached, base axes: N, N m."""
        return self._outputs["on_base"]

    @property
    def travel_violations(self) -> tuple[TravelViolation, ...]:
        """Soft axes that left their travel, or started outside it, in chronological order."""
        found: dict[str, TravelViolation] = {}
        passed = [(e.time, e.name, e.value) for e in self.events if e.kind == "limit" and e.name in self.axes]
        for name in self.axes:
            limits, begin = self.robot.joint(name).limits, float(self.joint(name)[0])
            if not limits.lower <= begin <= limits.upper:
                # An axis that starts outside crosses nothing, so it has no event.
                passed.insert(0, (float(self.times[0]), name, limits.lower if begin < limits.lower else limits.upper))
        for time, name, limit in passed:
            joint, series = self.robot.joint(name), self.joint(name)
            # The event is exact in time, samples in size: the larger of both is what was reached.
            upwards = limit == joint.limits.upper
            reached = max(float(series.max()), limit) if upwards else min(float(series.min()), limit)
            found.setdefault(name, TravelViolation(name, time, limit, reached, joint.unit))
        return tuple(found.values())

    # -- summary ------------------------------------------------------------------------------------------------

    def settling_time(self, criterion: SettlingCriterion | None = None) -> float:
        """Seconds until the base has settled by this criterion; infinite if it has not within the run."""
        return (criterion or SettlingCriterion()).time(self.times, self.base_vibration)

    def absorbed_energy(self) -> dict[str, float]:
        """Energy that each soft axis's damper has absorbed, J."""
        return {name: float(self.damper_energy[-1, self.robot.joint_index(name)]) for name in self.axes}

    def momentum_budget(self, caught: CaughtTarget | None = None) -> MomentumBudget:
        """Momentum of base, arm and target (``caught``, if the run did not start with it)."""
        return momentum_budget(self.robot, self.states, caught or self.caught)

    def cross_check(self) -> CrossCheck:
        """The same run with MuJoCo's dynamics, changes included."""
        from spacearm.simulate.check.crosscheck import CrossCheck, cross_check

        if self.steps > MOST_CHECKED_STEPS:
            return CrossCheck(reason=f"{self.steps} steps: too stiff for MuJoCo's dynamics called from Python")
        return cross_check(self.run)

    def dataset(self, caught: CaughtTarget | None = None) -> xr.Dataset:
        """All results with names and units."""
        from spacearm.capture._dataset import dataset

        return dataset(self, caught)


@lru_cache(maxsize=16)
def _output_kernel(robot: Robot, loads: tuple[LoadFrame, ...]) -> Kernel:
    return Kernel(output_program(robot, loads))
