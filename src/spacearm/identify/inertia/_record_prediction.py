"""Predicted readings of one record, and their derivatives by everything that may be wrong.

Rows of a sample's residual (measured minus predicted): position of the sensor (m, world axes), attitude (rotation
vector, rad, base axes), velocity of the sensor (m/s, world axes), angular velocity (rad/s, base axes); then, where they
were read and the joint accelerations are known, acceleration, angular acceleration and joint torques.

With x (12,) the errors of state and momentum, e those of the joint readings and z the parameters, the prediction is
linearised as y = seen x + direct e + given z, and x propagates from sample to sample by the matrices of
:class:`.LinearisedMotion`. Derivatives by the initial state, inertias, thrusters and other wrenches are propagated
together; those by what the sensors get wrong (biases, delays, misalignment) act on the sample alone. The errors e are
noise: they go to an :class:`.ErrorModel`, which whitens residuals and derivatives.

Modes of appendages and liquids are part of the motion (:mod:`spacearm.identify.inertia._modal_motion`): each has two
more errors of state and momentum, which are unknown at first, and nobody reads it.

A summary of earlier samples (:class:`PriorSummary`) can take the place of an unknown initial state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from spacearm.engine import mechanics_of
from spacearm.errors import InputError
from spacearm.identify._nuisances import INERTIA_NUISANCES
from spacearm.identify._whitening import ErrorModel
from spacearm.identify.inertia._base_motion import BaseMotion, LinearisedMotion, ModeErrors, MotionInputs, solve_along
from spacearm.identify.inertia._encoders import joint_path
from spacearm.identify.inertia._modal_motion import ModalMotion, mode_indices, rest_modes
from spacearm.identify.inertia._sensed_loads import (
    SENSED,
    ForceReadings,
    find_switch_samples,
    predict_force_readings,
)
from spacearm.identify.inertia.readings import BASE_CHANNELS, MotionRecord, attitude_difference, rotate_quaternion
from spacearm.measure.clean import Mask, row_outliers
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Channels that are predicted, and their rows in a sample's residual.
ROWS = MappingProxyType(
    {"position": slice(0, 3), "attitude": slice(3, 6), "velocity": slice(6, 9), "rate": slice(9, 12)}
)


@dataclass(frozen=True, eq=False)
class PriorSummary:
    """Summary of the samples before a record, linearised at unknowns ``x`` (p,): all that must be kept of them.

    State and momentum at the record's first sample are ``state`` (13,). A change of the unknowns moves them by ``by``
    (12, p), errors of that sample's joint readings by ``entered`` (12, m), and ``spread`` (12, 12) is the covariance
    besides. White residuals of the earlier samples are ``right + root (change)``.
    """

    x: Array
    state: Array
    by: Array
    spread: Array
    entered: Array
    root: Array
    right: Array


class RecordPrediction:
    """One record: its inputs, what is present, and its residuals with all derivatives."""

    def __init__(self, robot: Robot, record: MotionRecord, arrival: PriorSummary | None = None) -> None:
        if record.batch:
            raise InputError("has repetitions", place=record.place, hint="fit them one by one: Record.picked")
        for name in ("position", "attitude", *(("joint_position",) if robot.n else ())):
            record.channel(name)
        record = rest_modes(robot, record)
        self.robot, self.record, self.arrival, times = robot, record, arrival, record.times
        #: Modes, which nobody reads: their positions and momenta follow the base's in states and errors.
        self.modes = mode_indices(robot)
        self.path = joint_path(record)
        edges = np.array(record.edges)
        first = np.clip(np.searchsorted(times, edges[:-1] - 1e-9), 0, times.size - 1)
        # Without single thrusters the whole wrench is one, so that its scale can still be estimated.
        pushes = record.thrusters or ({"thrust": record.wrench} if np.any(record.wrench) else {})
        #: Names of the thrusters, in the order of their columns.
        self.thrusters = tuple(pushes)
        wrench = np.stack([part[first] for part in pushes.values()]) if pushes else np.zeros((0, first.size, 6))
        inputs = MotionInputs(times, self.path.joints, self.path.rates, edges, wrench, record.orbit)
        self.motion = self._make_motion(inputs)
        #: Along which derivatives are taken.
        self.along = self.motion
        #: Rows of each channel in a sample's residual.
        self.rows, self.accelerations, extra = _rows(record, modal=bool(self.modes))
        count = max(rows.stop for rows in self.rows.values())
        self.present, self.variance = np.zeros((times.size, count), dtype=bool), np.ones(count)
        moves = self.moving_rows = self._find_moving_rows(count)
        #: Of the joints' positions, rates and, where readings need them, accelerations.
        self.input_variance = np.concatenate([self.path.variance, extra], axis=1)
        for name, rows in self.rows.items():
            if name not in record.readings or not moves[rows].any():
                continue
            if not record.sigma.get(name, 0.0) > 0.0:
                raise InputError(f"the noise of {name!r} is not stated", place=record.place, hint="expected above zero")
            self.present[:, rows] = np.isfinite(record.readings[name]).all(axis=1, keepdims=True) & moves[rows]
            self.variance[rows] = record.sigma[name] ** 2
        # Near a switch the thrust is neither on nor off, and accelerations follow it at once.
        if self.accelerations is not None:
            blind = find_switch_samples(record) | ~np.isfinite(self.accelerations).all(axis=1)
            self.present[:, 12:] &= ~blind[:, None]
            self.accelerations = np.nan_to_num(self.accelerations)
        for name in ("position", "attitude"):
            if moves[ROWS[name]].any() and not self.present[:, ROWS[name]].any():
                raise InputError(f"no sample has a {name}", place=record.place)

    def _find_moving_rows(self, count: int) -> Mask:
        """Which of the rows can change: all, or those along which a constrained base moves."""
        moves = np.ones(count, dtype=bool)
        for name in self.rows.keys() & BASE_CHANNELS.keys():
            moves[self.rows[name]] = [i in self.record.moving_parts(name) for i in range(3)]
        return moves

    def find_isolated_readings(self) -> Mask:
        """Readings (T, rows) of the base that no smooth path through their neighbours explains."""
        found = np.zeros_like(self.present)
        for name, rows in ROWS.items():
            if name not in self.record.readings or not self.record.moving_parts(name):
                continue
            values, sigma = self.record.readings[name], self.record.sigma[name]
            if name == "attitude":
                # A quaternion and its negative are the same; its entries change by half the angle.
                signs = np.where(np.sum(values[1:] * values[:-1], axis=1) < 0.0, -1.0, 1.0)
                values, sigma = values * np.concatenate([[1.0], np.cumprod(signs)])[:, None], 0.5 * sigma
            far = [row_outliers(self.record.times, column, sigma, self.record.edges) for column in values.T]
            found[:, rows] = np.any(far, axis=0)[:, None]
        return found & self.present

    def _make_motion(self, inputs: MotionInputs) -> BaseMotion:
        return ModalMotion(self.robot, inputs) if self.modes else BaseMotion(self.robot, inputs)

    @property
    def errors(self) -> int:
        """Errors of a state: twelve, and two of each mode."""
        return 12 + 2 * len(self.modes)

    @property
    def start_errors(self) -> tuple[int, ...]:
        """Errors of the start that are looked for: all along which the base moves, but for a momentum that is known."""
        moving = self.robot.base.moving_indices
        known = () if self.record.known_momentum is None else range(6, 12)
        return tuple(i for i in range(self.errors) if i not in known and (i >= 12 or i % 6 in moving))

    @property
    def moving(self) -> list[int]:
        """Which momenta, of the base (6) and of the modes, make it move."""
        return [*self.robot.base.moving_indices, *range(6, 6 + len(self.modes))]

    @property
    def momentum_errors(self) -> tuple[int, ...]:
        """Indices of the errors that are momenta: of the base and of the modes."""
        return (*(6 + i for i in self.robot.base.moving_indices), *range(12 + len(self.modes), self.errors))

    def linearise_with_noise(self, seed: int) -> BaseMotion:
        """The motion along joint paths with an independent draw of the readings' noise added."""
        inputs = self.motion.inputs
        drawn = np.random.default_rng(seed).normal(size=self.path.variance.shape) * np.sqrt(self.path.variance)
        joints, rates = np.split(drawn, 2, axis=1)
        return self._make_motion(replace(inputs, joints=inputs.joints + joints, rates=inputs.rates + rates))

    def correct_path(self, errors: Array) -> None:
        """Take derivatives along the joints' path with these errors (T, 2 n) of its readings added.

        Noise of encoders shakes the predicted modes. It is counted as noise; but derivatives along a path with that
        noise would seem to tell a mode's frequency from it, and falsify values and deviations (errors in variables).
        """
        inputs, (joints, rates) = self.motion.inputs, np.split(errors, 2, axis=1)
        self.along = self._make_motion(replace(inputs, joints=inputs.joints + joints, rates=inputs.rates + rates))

    def start(self, inertia: Array) -> Array:
        """State and momentum at the first sample, from the first readings of each sensor alone."""
        record = self.record
        first = {name: self._first(name) for name in ROWS if name in record.readings}
        quaternion = first["attitude"] / np.linalg.norm(first["attitude"])
        rotation = rotation_matrices(quaternion)
        # The sensor sits at `mount`; the state is that of the base's origin.
        base = np.concatenate([first["position"] - rotation @ record.mount, quaternion])
        k = len(self.modes)
        # Modes are at rest at first: where they are is unknown, and small.
        start = np.concatenate([base, np.zeros(6), self.path.joints[0, list(self.modes)], np.zeros(k)])
        rate = first.get("rate", np.zeros(3))
        linear = rotation.T @ first.get("velocity", np.zeros(3)) - np.cross(rate, record.mount)
        momenta = self.momentum(start, np.concatenate([linear, rate, np.zeros(k)]), inertia)
        start[7:13] = momenta[:6] if record.known_momentum is None else record.known_momentum
        start[13 + k :] = momenta[6:]
        return start

    def momentum(self, start: Array, speeds: Array, inertia: Array) -> Array:
        """At the first sample in this state: the robot's momentum and that of each mode (..., 6 + k), with these twists
        of the base, base axes, and rates of modes (..., 6 + k)."""
        inputs, own, mechanics = self.motion.inputs, list(self.modes), mechanics_of(self.robot)
        joints, inertia = inputs.joints[0].copy(), inertia.reshape(-1, 10)
        joints[own] = start[13 : 13 + len(own)]
        rates = np.broadcast_to(inputs.rates[0], (*speeds.shape[:-1], self.robot.n)).copy()
        rates[..., own] = speeds[..., 6:]
        velocity = np.concatenate([speeds[..., :6], rates], axis=-1)
        whole = mechanics.momentum(joints, velocity, base=start[:7], inertia=inertia)
        if not own:
            return whole
        # A mode's momentum is its row of the generalised inertia: what an impulse along it would have to take away.
        matrix = mechanics.mass_matrix(joints, inertia=inertia)
        return np.concatenate([whole, velocity @ matrix[[6 + i for i in own]].T], axis=-1)

    def speeds(self, start: Array, inertia: Array) -> Array:
        """Twist of the base, base axes, and rates of the modes (6 + k,) of a state with its momenta: the inverse of
        :meth:`momentum`."""
        # Momenta are affine in the speeds: unit speeds and the rest give matrix and offset.
        size = 6 + len(self.modes)
        own = self.momentum(start, np.concatenate([np.zeros((1, size)), np.eye(size)]), inertia)
        k = len(self.modes)
        momenta = np.concatenate([start[7:13], start[13 + k :]])
        return solve_along(self.moving, (own[1:] - own[0]).T[None], (momenta - own[0])[None, :, None])[0, :, 0]

    def _first(self, name: str) -> Array:
        values = self.record.readings[name]
        whole = np.isfinite(values).all(axis=1)
        return np.asarray(values[np.argmax(whole)] if whole.any() else np.zeros(values.shape[1]))

    def columns(
        self,
        start: Array,
        inertia: Array,
        directions: Array,
        thrust: Array,
        delay: float,
        motion: BaseMotion | None = None,
        pushes: Sequence[str] = (),
        modes: ModeErrors | None = None,
    ) -> tuple[Array, dict[str, Array], ErrorModel]:
        """Residuals (T, rows), the prediction's derivatives (T, rows, ...) by name, and how errors are tied.

        ``pushes``: nuisances that are wrenches and whose derivatives are wanted.
        """
        errors, k = self.errors, len(self.modes)
        others = {name: self._others[name] for name in pushes}
        sizes = [len(mean) for mean, _ in others.values()]
        stacked = [np.concatenate(parts) for parts in zip(*others.values(), strict=True)]
        means, at_samples = stacked or (None, None)
        moved = (motion or self.along).linearise(start, inertia, directions, 1.0 + thrust, means, modes)
        if isinstance(self.motion, ModalMotion) and self.along is not self.motion:
            moved = self.motion.carry(moved, start, inertia, 1.0 + thrust, modes)
        n, count = self.robot.n, moved.states.shape[0]
        more = self._predict_forces(moved, inertia, directions, thrust)
        seen, direct, by_path, given = self._outputs(moved, more, at_samples)
        # An offset is the same error at both ends of every interval.
        offset = moved.before + moved.after
        # Joint readings that come late by dt: the true path is the reading plus its rate of change times dt.
        rates = self.motion.inputs.rates
        path = np.concatenate([rates, np.gradient(rates, self.record.times, axis=0)], axis=1)
        late = np.einsum("tij,tj->ti", moved.before, path[:-1]) + np.einsum("tij,tj->ti", moved.after, path[1:])
        # The path is the reading less its offset: hence the sign.
        forced = np.concatenate([moved.forced, -offset, late[:, :, None]], axis=2)
        total = seen @ self._errors(moved, forced)
        by_late = by_path[:, :, : 2 * n] @ path[:, :, None]
        direct_part = [direct @ moved.twist_parameters + given, -by_path[:, :, : 2 * n], by_late]
        # Besides through the state, parameters act on the twist of the same sample directly.
        total[:, :, errors:] += np.concatenate(direct_part, axis=2)
        widths = [errors, directions.shape[1], len(self.thrusters), *sizes, k, k, n, n]
        parts = np.split(total, np.cumsum(widths), axis=2)
        of_modes, of_joints = ("mode_frequency", "mode_damping"), ("encoder_offset", "joint_rate_bias", "encoder_delay")
        names = ("start", "inertia", "thrusters", *others, *of_modes, *of_joints)
        named = dict(zip(names, parts, strict=True))
        # One common scale moves all thrusters together.
        named["thrust"] = named["thrusters"].sum(axis=2, keepdims=True)
        # Joint accelerations enter the readings of a sample but not the motion of the base: no columns here.
        none = np.zeros((count - 1, errors, by_path.shape[2] - 2 * n))
        before, after = (np.concatenate([part, none], axis=2) for part in (moved.before, moved.after))
        before_it = () if self.arrival is None else (self.arrival.entered, self.arrival.spread)
        model = ErrorModel(moved.across, before, after, seen, by_path, self.input_variance, self.variance, *before_it)
        residual = self._residual(self._assemble_channels(moved, delay, more))
        return residual, named | self._differentiate_sensors(moved, more), model

    @cached_property
    def _others(self) -> dict[str, tuple[Array, Array]]:
        """Wrenches of unit nuisances: their means (k, T - 1, 6) between samples, and at the samples (k, T, 6)."""
        inputs, count = self.motion.inputs, self.record.times.size
        steps = np.diff(self.record.times)
        # A delay dt of the thrust takes away an impulse of (new - old) dt at each switch; divided by the interval, a
        # mean.
        changes = np.diff(inputs.wrench.sum(axis=0), axis=0)
        edges = inputs.edges[1:-1]
        late = np.zeros((1, count - 1, 6))
        place = np.searchsorted(self.record.times, edges + 1e-9) - 1
        inside = (place >= 0) & (place < count - 1)
        np.add.at(late[0], place[inside], -changes[inside] / steps[place[inside], None])
        # A steady force of the world rotates in base axes; the measured attitude is accurate enough for a derivative.
        read = np.flatnonzero(np.isfinite(self.record.readings["attitude"]).all(axis=1))
        nearest = read[np.abs(np.arange(count)[:, None] - read).argmin(axis=1)] if read.size < count else read
        world = np.zeros((3, count, 6))  # forces along the axes of the world, in those of the base
        world[:, :, :3] = np.moveaxis(rotation_matrices(self.record.readings["attitude"][nearest]), 1, 0)
        steady = np.repeat(np.eye(6)[3:, None, :], count, axis=1)
        tilts = replace(inputs, wrench=self._tilts())
        return {
            "thrust_lag": (late, np.zeros((1, count, 6))),  # readings of accelerations near switches are left out
            "thrust_direction": (tilts.mean_wrench(), tilts.wrench_at(self.record.times)),
            "external_force": (0.5 * (world[:, 1:] + world[:, :-1]), world),
            "external_torque": (steady[:, 1:], steady),
        }

    def _tilts(self) -> Array:
        """What unit turns about the base's axes change of each thruster's wrench (3 k, pieces, 6)."""
        places = {one.name: one.position for one in self.robot.thrusters}
        found = []
        for name, wrench in zip(self.thrusters, self.motion.inputs.wrench, strict=True):
            force, moment = wrench[:, :3], wrench[:, 3:]
            # Without a stated position, the foot of the force's line of action from the base's origin: f x m / f^2.
            size = np.maximum(np.sum(force**2, axis=1, keepdims=True), 1e-300)
            at = np.broadcast_to(places[name], force.shape) if name in places else np.cross(force, moment) / size
            for axis in np.eye(3):
                # The nozzle stays where it is and its force rotates: the moment changes by its arm.
                change = np.cross(axis, force)
                found.append(np.concatenate([change, np.cross(at, change)], axis=1))
        return np.array(found) if found else np.zeros((0, self.motion.inputs.edges.size - 1, 6))

    def _errors(self, moved: LinearisedMotion, forced: Array) -> Array:
        """The errors (T, errors, errors + parameters) at each sample by those of the start and by the parameters."""
        count = self.errors
        error = np.zeros((moved.states.shape[0], count, count + forced.shape[2]))
        error[0, :, :count] = np.eye(count)
        if self.arrival is not None:  # unknowns are the inertias, then the start of the samples before
            # The initial state is not an unknown: it hangs on the inertias and on the start of the dropped samples.
            inertias, start = np.split(self.arrival.by, [-len(self.start_errors)], axis=1)
            error[0, :, self.start_errors] = start.T
            error[0, :, count : count + inertias.shape[1]] = inertias
        # A recursion in time, all columns together.
        for k in range(error.shape[0] - 1):
            error[k + 1] = moved.across[k] @ error[k]
            error[k + 1, :, count:] += forced[k]
        return error

    def _predict_forces(
        self, moved: LinearisedMotion, inertia: Array, directions: Array, thrust: Array
    ) -> ForceReadings | None:
        """What accelerometers and torque sensors read, where there are any."""
        if self.accelerations is None:
            return None
        inputs = self.motion.inputs
        wrench = np.tensordot(1.0 + thrust, inputs.wrench_at(inputs.times), 1)
        path = inputs.joints, inputs.rates, self.accelerations
        return predict_force_readings(self.robot, self.record.mount, *path, moved.twist, wrench, inertia, directions)

    def predict_channels(
        self, start: Array, inertia: Array, thrust: Array, delay: float, modes: ModeErrors | None = None
    ) -> Mapping[str, Array]:
        """What each channel should read: (T, 3), quaternions (T, 4), torques (T, n)."""
        none = np.zeros((inertia.size, 0))
        moved = self.motion.linearise(start, inertia, none, 1.0 + thrust, modes=modes)
        return self._assemble_channels(moved, delay, self._predict_forces(moved, inertia, none, thrust))

    def summarise_samples(self, x: Array, start: Array, inertia: Array, directions: Array, last: int) -> PriorSummary:
        """What the samples before ``last`` say at unknowns ``x``: inertias along ``directions``, then the start."""
        thrust, count = np.zeros(len(self.thrusters)), directions.shape[1]
        residual, named, model = self.columns(start, inertia, directions, thrust, 0.0)
        moved = self.motion.linearise(start, inertia, directions, 1.0 + thrust)
        begin = named["start"][:, :, self.start_errors]
        columns = np.concatenate([residual[:, :, None], named["inertia"], begin], axis=2)[: last + 1]
        present = self.present[: last + 1].copy()
        # The sample `last` belongs to the next problem: its readings must not count twice, but the filter runs up to it
        # to give the state there.
        present[last] = False
        filtered = model.truncate(last).whitener(present)
        white, state = filtered.whiten_with_state(columns)
        offset = np.zeros((moved.forced.shape[0], self.errors, 2 * self.robot.n))
        error = self._errors(moved, np.concatenate([moved.forced, offset], axis=2))[last]
        # The filter's estimate of the state is linear in the residuals, whose derivatives are minus the columns: a
        # change of the unknowns moves it as well.
        by = np.concatenate([error[:, self.errors : self.errors + count], error[:, self.start_errors]], axis=1)
        by = by - state[:, 1:]
        rows = np.concatenate([-white[:, :, 1:], white[:, :, :1]], axis=2).reshape(-1, x.size + 1)
        if self.arrival is not None:
            old = self.arrival
            rows = np.concatenate([rows, np.column_stack([old.root, old.right + old.root @ (x - old.x)])])
        # All earlier rows, old and new, as one triangle: the memory does not grow.
        triangle = np.asarray(np.linalg.qr(rows, mode="r"))[: x.size]
        return PriorSummary(
            x,
            displace_state(moved.states[last], state[:, 0]),
            by,
            filtered.spread,
            model.after[last - 1],
            triangle[:, :-1],
            triangle[:, -1],
        )

    def _outputs(
        self, moved: LinearisedMotion, more: ForceReadings | None, others: Array | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """Derivatives of a sample's rows: by the twelve errors, the twist alone, the joints' path, the parameters.

        Those by the path are all there are, those by the parameters without what the twist hands on.
        """
        rotation, count = moved.rotation, moved.rotation.shape[0]
        arm = skew(np.broadcast_to(self.record.mount, (count, 3)))
        at_mount = moved.twist[:, :3] + np.cross(moved.twist[:, 3:], self.record.mount)
        direct = np.zeros((count, self.variance.size, 6))
        # Velocity of the sensor R (v + omega x mount), and omega itself.
        direct[:, 6:9, :3], direct[:, 6:9, 3:], direct[:, 9:12, 3:] = rotation, -rotation @ arm, np.eye(3)
        n, given = self.robot.n, np.zeros((count, self.variance.size, moved.twist_parameters.shape[2]))
        path = np.zeros((count, self.variance.size, self.input_variance.shape[1]))
        if more is not None:
            own = self._own
            acting = self.motion.inputs.wrench_at(self.record.times)
            pushes = np.moveaxis(acting if others is None else np.concatenate([acting, others]), 0, 2)
            by_path = (more.by_joints, more.by_rates, more.by_accelerations)
            direct[:, 12:], path[:, 12:] = more.by_twist[:, own], np.concatenate(by_path, axis=2)[:, own]
            given[:, 12:] = np.concatenate([more.by_inertia, more.by_wrench @ pushes], axis=2)[:, own]
        # Errors of the joint readings change the twist that belongs to a given momentum at once.
        path[:, :, : 2 * n] += direct @ moved.twist_joints
        seen = direct @ moved.twist_state
        # Position p + R mount; then the explicit rotation of the velocity, beside that through the twist.
        seen[:, :3, :3] += np.eye(3)
        seen[:, :3, 3:6] -= rotation @ arm
        seen[:, 3:6, 3:6] += np.eye(3)
        seen[:, 6:9, 3:6] -= rotation @ skew(at_mount)
        return seen, direct, path, given

    @property
    def _own(self) -> list[int]:
        """Which rows of :class:`ForceReadings` are read."""
        n = self.robot.n
        places = {"acceleration": range(3), "angular_acceleration": range(3, 6), "torque": range(6, 6 + n)}
        return [row for name in SENSED if name in self.rows for row in places[name]]

    def _velocity(self, moved: LinearisedMotion) -> Array:
        at_mount = moved.twist[:, :3] + np.cross(moved.twist[:, 3:], self.record.mount)
        return np.asarray(np.einsum("tij,tj->ti", moved.rotation, at_mount))

    def _assemble_channels(self, moved: LinearisedMotion, delay: float, more: ForceReadings | None) -> dict[str, Array]:
        times, rate, velocity = self.record.times, moved.twist[:, 3:], self._velocity(moved)
        position, attitude = moved.states[:, :3] + moved.rotation @ self.record.mount, moved.states[:, 3:7]
        if delay:
            # What is read now was so some time ago; half way back stands for the mean of what lies between.
            then, between = times - delay, times - 0.5 * delay
            attitude = rotate_quaternion(attitude, -delay * _interpolate(between, times, rate))
            position = position - delay * _interpolate(between, times, velocity)
            velocity, rate = _interpolate(then, times, velocity), _interpolate(then, times, rate)
        found = {"position": position, "attitude": attitude, "velocity": velocity, "rate": rate}
        if more is not None:
            base = _interpolate(times - delay, times, more.values[:, :6]) if delay else more.values[:, :6]
            found |= {"acceleration": base[:, :3], "angular_acceleration": base[:, 3:], "torque": more.values[:, 6:]}
        return {name: found[name] for name in self.rows}

    def _residual(self, predicted: Mapping[str, Array]) -> Array:
        record = self.record
        residual = np.zeros(self.present.shape)
        for name, values in predicted.items():
            if name in record.readings:
                read = record.readings[name]
                # A rotation vector, not a difference of quaternions: their sign is arbitrary.
                away = attitude_difference(values, read) if name == "attitude" else read - values
                residual[:, self.rows[name]] = np.where(np.isfinite(read).all(axis=1, keepdims=True), away, 0.0)
        return residual

    def _differentiate_sensors(self, moved: LinearisedMotion, more: ForceReadings | None) -> dict[str, Array]:
        """Derivatives by what the sensors themselves may get wrong."""
        rotation, rate, velocity = moved.rotation, moved.twist[:, 3:], self._velocity(moved)
        # By the motion itself:
        made = ("thrust", "mode_frequency", "mode_damping", "encoder_offset", "joint_rate_bias", "encoder_delay")
        sizes = {
            name: own.size or self.robot.n
            for name, own in INERTIA_NUISANCES.items()
            if own.size >= 0 and not own.pushes and name not in made
        }
        found = {name: np.zeros((*self.present.shape, size)) for name, size in sizes.items()}
        times = self.record.times
        # Reading late by dt is the value of dt ago: minus the rate of change of each channel.
        slopes = [np.gradient(values, times, axis=0) for values in (velocity, rate)]
        found["delay"][:, :12, 0] = -np.concatenate([velocity, rate, *slopes], axis=1)
        for name, rows in ROWS.items():
            found[f"{name}_delay"][:, rows] = found["delay"][:, rows]
        found["rate_bias"][:, 9:12] = found["velocity_bias"][:, 6:9] = found["attitude_bias"][:, 3:6] = np.eye(3)
        # By the lever arm: d(R mount) and R (omega x mount).
        found["mount"][:, :3], found["mount"][:, 6:9] = rotation, rotation @ skew(rate)
        found["misalignment"][:, 9:12] = skew(rate)
        for name in SENSED:
            if more is None or name not in self.rows:
                continue
            rows = self.rows[name]
            found[f"{name}_bias"][:, rows] = np.eye(rows.stop - rows.start)
            if name == "torque":
                rates = self.motion.inputs.rates * np.array(self.record.moving)
                slow = max(3.0 * self.record.sigma.get("joint_rate", 0.0), 1e-9)  # below it the sign is noise
                one = np.eye(self.robot.n)
                # A smooth sign: a jump at zero rate would make every noisy reading count as full friction.
                found["friction"][:, rows] = one * (rates / np.hypot(rates, slow))[:, None, :]
                found["damping"][:, rows] = one * rates[:, None, :]
            else:
                spun = more.values[:, 3:6]
                values = more.values[:, :3] if name == "acceleration" else spun
                found["delay"][:, rows, 0] = -np.gradient(values, times, axis=0)
                found["misalignment"][:, rows] = skew(values)
                if name == "acceleration":
                    found["acceleration_misalignment"][:, rows] = skew(values)
                    # Acceleration by the arm: alpha x r + omega x (omega x r).
                    found["mount"][:, rows] = skew(spun) + skew(rate) @ skew(rate)
        return found


def displace_state(state: Array, error: Array) -> Array:
    """State and momenta after the errors, which are one less: a rotation has three."""
    attitude = rotate_quaternion(state[3:7], error[3:6])
    return np.concatenate([state[:3] + error[:3], attitude / np.linalg.norm(attitude), state[7:] + error[6:]])


def _rows(record: MotionRecord, modal: bool) -> tuple[dict[str, slice], Array | None, Array]:
    """Rows of each channel; the joints' accelerations (T, n) and their variances, where channels need them.

    With modes there are none: nobody knows their accelerations beforehand.
    """
    rows, n, known = dict(ROWS), len(record.moving), None if modal else record.known_accelerations()
    for name in SENSED:
        size = n if name == "torque" else 3
        # Gravity, which no record states, acts on joints that move out of the plane of a table.
        usable = name != "torque" or record.base.is_free
        if usable and known is not None and size and name in record.readings and record.sigma.get(name, 0.0) > 0.0:
            last = max(part.stop for part in rows.values())
            rows[name] = slice(last, last + size)
    if known is None or len(rows) == len(ROWS):
        return rows, None, np.zeros((record.times.size, 0))
    return rows, *known


def _interpolate(instants: Array, times: Array, values: Array) -> Array:
    """Values (T, 3) at other instants, straight between samples: a thruster's start is a kink."""
    return np.stack([np.interp(instants, times, column) for column in values.T], axis=1)
