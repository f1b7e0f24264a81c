"""The flight of the segmented algorithm (Cai et al. 2023, Eqs. 31 to 34 and 38 to 42), in the plane and in space.

Joints move as in the paper: inertias as at separation, dry friction of constant sign, joints stopping one after
another. The base then follows from the conserved momentum and angular momentum, with the inertia of each configuration:
Eqs. 38, 39 without their constant inertia. In the paper's plane the angular momentum has one direction. In space it is
fixed in the world and so rotates in the base's axes as the base rotates: the base's attitude is integrated too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.ejection.rig import Rig
from spacearm.ejection.tumble import mean_angular_velocity, moment_of_momentum
from spacearm.model.rotations import rotation_matrices
from spacearm.papers.cai2023.response import ArmModel, JointResponse, coast_travel, energy_lost, first_stop
from spacearm.typing import Array

#: Smallest and largest number of steps in an interval between two stops, and the largest rotation of the base in one,
#: rad.
_STEPS, _LONGEST_ROTATION = (32, 4096), 0.03
#: A viscous joint without dry friction never stops; it is followed for this many time constants.
_CONSTANTS = 16.0


@dataclass(frozen=True, eq=False)
class SegmentedFlight:
    """Result of :func:`fly`; axes of the base before the ejection."""

    joints: Array  # (n,) after the last stop; NaN for a joint that nothing stops
    stops: Array  # (n,) s
    loss: float  # J, to friction and damping since the release
    angular_rate: Array  # (3,) rad/s, mean angular velocity of the stopped arm, Eq. 42
    turning: float  # J, kinetic energy of that rotation
    times: Array  # (T,) s
    velocity: Array  # (T, 3) m/s of the base's origin, Eqs. 38, 39
    positions: Array  # (T, n) of the joints


class _Base:
    """The base of an arm without external forces: twist from momentum, and attitude over time."""

    def __init__(self, rig: Rig, arm: ArmModel, joints: Array, velocity: Array) -> None:
        self.free, self.mechanics = rig.free_base, arm.mechanics
        matrix = arm.mechanics.mass_matrix(joints)
        self.linear = matrix[:3] @ velocity
        self.angular, _ = moment_of_momentum(matrix, velocity)
        self.quaternion = np.array([1.0, 0.0, 0.0, 0.0])

    def twist(self, matrix: Array, rates: Array, quaternion: Array) -> Array:
        """Velocity and angular velocity (6,) in base axes with this mass matrix and these joint rates."""
        back = rotation_matrices(quaternion / np.linalg.norm(quaternion)).T
        linear = back @ self.linear
        centre = np.array([matrix[1, 5], matrix[2, 3], matrix[0, 4]]) / matrix[0, 0]
        # Momentum about the base's origin in base axes, less the joints' share, is H_b times the base's twist.
        momentum = np.concatenate([linear, back @ self.angular + np.cross(centre, linear)]) - matrix[:6, 6:] @ rates
        found = np.zeros(6)
        found[self.free] = np.linalg.solve(matrix[np.ix_(self.free, self.free)], momentum[self.free])
        return found

    def follow(self, times: Array, joints: Array, rates: Array) -> Array:
        """Velocities (S, 3) in the initial axes at the steps of an interval, from instants twice as dense (2 S + 1)."""
        matrices = self.mechanics.mass_matrix(joints)

        # Classical RK4 for the attitude alone: mass matrices and joint rates are known at ends and middles of steps.
        def integrate_rotation(k: int, quaternion: Array) -> Array:
            angular_rate = self.twist(matrices[k], rates[k], quaternion)[3:]
            scalar, vector = quaternion[0], quaternion[1:]
            return 0.5 * np.concatenate(
                [[-vector @ angular_rate], scalar * angular_rate + np.cross(vector, angular_rate)]
            )

        found = []
        for k in range(0, len(times) - 1, 2):
            h, q = times[k + 2] - times[k], self.quaternion
            one = integrate_rotation(k, q)
            two = integrate_rotation(k + 1, q + 0.5 * h * one)
            three = integrate_rotation(k + 1, q + 0.5 * h * two)
            four = integrate_rotation(k + 2, q + h * three)
            q = q + h / 6.0 * (one + 2.0 * two + 2.0 * three + four)
            self.quaternion = q / np.linalg.norm(q)
            twist = self.twist(matrices[k + 2], rates[k + 2], self.quaternion)
            found.append(rotation_matrices(self.quaternion) @ twist[:3])
        return np.array(found)


def fly(
    rig: Rig, arm: ArmModel, joints: Array, rates: Array, velocity: float, time: float, loss: float
) -> SegmentedFlight:
    """Flight from separation at ``time`` with these joints, rates and rail velocity; ``loss`` until then, J."""
    n, free = rig.arm.n, rig.free_base
    matrix = arm.mechanics.mass_matrix(joints)
    base, mixed = matrix[np.ix_(free, free)], matrix[np.ix_(free, range(6, 6 + n))]
    theta = matrix[6:, 6:] - mixed.T @ np.linalg.solve(base, mixed)
    moved = _Base(rig, arm, joints, np.concatenate([velocity * arm.direction, np.zeros(3), rates]))
    q, rate, t = joints.copy(), rates.copy(), time
    slip = np.where(rate != 0.0, np.sign(rate), 0.0)
    stops = np.zeros(n)
    found: list[tuple[Array, Array, Array]] = []
    while slip.any():
        moving = np.flatnonzero(slip)
        dry = bool(np.any(arm.coulomb[moving] > 0.0))
        part = theta[np.ix_(moving, moving)]
        if not dry and np.any(arm.damping[moving] <= 0.0):
            stops[moving], q[moving] = np.inf, np.nan
            break
        force = -slip[moving] * arm.coulomb[moving]
        response = JointResponse(part, arm.damping[moving], force, np.zeros(moving.size), 0.0, t, rate[moving])
        if dry:
            # Dry friction alone would stop it within this time.
            span = 2.0 * float(np.linalg.norm(part @ rate[moving])) / float(arm.coulomb[moving].max()) + 1e-6
            end, which = first_stop(response, slip[moving], t, t + span)
        else:
            end, which = t + _CONSTANTS / float(response.beta.min()), -1
        loss += energy_lost(arm, response, moving, slip, t, end)
        found.append(_sample_response(moved, response, moving, q, end))
        q[moving] += response.travel(end) if dry else coast_travel(theta, arm.damping, rate, moving)
        rate[moving] = response.rate(end)
        t = end
        if not dry:
            stops[moving] = np.inf
            break
        if which >= 0:
            joint = moving[which]
            rate[joint] = slip[joint] = 0.0
            stops[joint] = end
    return _build_stable_flight(rig, arm, moved, joints, q, stops, loss, found)


def _sample_response(
    moved: _Base, response: JointResponse, moving: npt.NDArray[np.intp], joints: Array, end: float
) -> tuple[Array, Array, Array]:
    """(times, base velocities, joint positions) from the response's start to ``end``; updates the base."""
    start, n = response.t0, joints.size

    def evaluate(t: float) -> tuple[Array, Array]:
        position, rate = joints.copy(), np.zeros(n)
        position[moving] += response.travel(t)
        rate[moving] = response.rate(t)
        return position, rate

    position, rate = evaluate(start)
    angular_rate = np.linalg.norm(moved.twist(moved.mechanics.mass_matrix(position), rate, moved.quaternion)[3:])
    steps = int(np.clip(np.ceil(angular_rate * (end - start) / _LONGEST_ROTATION), *_STEPS))
    times = np.linspace(start, end, 2 * steps + 1)
    positions, rates = (np.array(rows) for rows in zip(*(evaluate(float(t)) for t in times), strict=True))
    return times[2::2], moved.follow(times, positions, rates), positions[2::2]


def _build_stable_flight(
    rig: Rig,
    arm: ArmModel,
    moved: _Base,
    joints: Array,
    final: Array,
    stops: Array,
    loss: float,
    found: list[tuple[Array, Array, Array]],
) -> SegmentedFlight:
    """Stable flight: Eq. 42 with the inertia of the stopped arm and the angular momentum in its axes."""
    where = np.where(np.isfinite(final), final, joints)
    rotation = rotation_matrices(moved.quaternion)
    angular = rotation.T @ moved.angular
    _, inertia = moment_of_momentum(arm.mechanics.mass_matrix(where), np.zeros(6 + rig.arm.n))
    angular_rate = mean_angular_velocity(rig, angular, inertia)
    n = rig.arm.n
    empty = (np.zeros(0), np.zeros((0, 3)), np.zeros((0, n)))
    times, velocity, positions = (np.concatenate(parts) for parts in zip(empty, *found, strict=True))
    # Half of w . L: for the mean as at every instant.
    return SegmentedFlight(
        final, stops, loss, rotation @ angular_rate, 0.5 * float(angular_rate @ angular), times, velocity, positions
    )
