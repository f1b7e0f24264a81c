"""Equations that are linear in the inertias and hold at every sample, and how reading errors enter them.

Momentum (6 rows, N s and N m s): the momentum of all bodies, world axes about the world's origin, equals the initial
momentum plus the impulse of known forces. Dynamics (6 rows, or 6 + n with measured torques; N and N m, base axes): the
forces that the motion needs equal the known ones; this takes accelerations, but no position, attitude or velocity
(a uniform velocity changes no force). Both are linear in the ten parameters of each body (mass, first moments, tensor
about the body's origin): ``matrix (T, m, 10(n + 1)) @ inertias = known (T, m)``.

The regressor is made of readings, so noise is in the matrix too. To first order the gap of the equations is
``slopes @ errors`` with slopes (T, m, ny) by the ny readings of a sample, and its covariance gives the weights of every
estimator. Attitude errors are rotation vectors in base axes, R exp(skew(error)).

A known wrench is carried into the world by measured attitudes and positions, so its impulse sums the errors of all
earlier samples. Records with firings therefore have one dense covariance (T m, T m), others one block at each sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.checks import check_not_empty, one_of
from spacearm.engine import mechanics_of
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.typing import Array

Kind = Literal["momentum", "dynamics"]
#: In the order of their rows.
KINDS: tuple[Kind, ...] = ("momentum", "dynamics")
MOMENTUM = ("Px", "Py", "Pz", "Lx", "Ly", "Lz")
FORCE = ("Fx", "Fy", "Fz", "Mx", "My", "Mz")


@dataclass(frozen=True, eq=False)
class LinearEquations:
    """``matrix @ inertias = known (+ initial momentum)`` at each sample: (..., T, m, 10(n + 1)) and (..., T, m)."""

    matrix: Array
    known: Array
    momentum_rows: slice

    def free_momentum(self) -> Array:
        """Columns (..., T, m, rows of momentum) of an unknown initial momentum on the known side."""
        size = self.momentum_rows.stop
        full = np.zeros((*self.known.shape, size))
        full[..., self.momentum_rows, :] = np.eye(size)
        return full


class Equations:
    """The chosen equations of one robot's geometry.

    Of a base in a plane or on a rail those rows count along which it moves: table and rail take the rest. Measured
    torques count for free bases alone, since gravity acts on joints that move out of the plane.
    """

    def __init__(self, robot: Robot, kinds: Sequence[Kind] = ("momentum",)) -> None:
        check_not_empty(kinds, "kind of equations")
        for kind in kinds:
            one_of(kind, KINDS, "kind of equations")
        self.robot = robot
        self.kinds = tuple(dict.fromkeys(kinds))
        self.mechanics = mechanics_of(robot)
        self.moving = robot.base.moving_indices

    def row_names(self, record: MotionRecord) -> tuple[str, ...]:
        """Names of the equations at each sample."""
        names = [MOMENTUM[i] for i in self.moving] if "momentum" in self.kinds else []
        if "dynamics" in self.kinds:
            names += [FORCE[i] for i in self.moving]
            names += self.robot.joint_names if self._uses_torques(record) else ()
        return tuple(names)

    def _uses_torques(self, record: MotionRecord) -> bool:
        return "torque" in record.readings and self.robot.base.is_free

    def linear(self, record: MotionRecord) -> LinearEquations:
        """Matrix and known side at the record's readings."""
        parts = [getattr(self, f"_{kind}")(record) for kind in KINDS if kind in self.kinds]
        matrices, knowns = zip(*parts, strict=True)
        rows = slice(0, len(self.moving) if "momentum" in self.kinds else 0)
        return LinearEquations(np.concatenate(matrices, axis=-2), np.concatenate(knowns, axis=-1), rows)

    def _joints(self, record: MotionRecord) -> Array:
        return record.channel("joint_position") if self.robot.n else np.zeros((*record.channel("rate").shape[:-1], 0))

    def _momentum(self, record: MotionRecord) -> tuple[Array, Array]:
        origin, _, rotation = record.pose()
        matrix, offset = self.mechanics.momentum_regressor(self._joints(record), record.velocity())
        # Regressor and offset (rotors) go into world axes together; angular parts move to the world's origin by p x.
        both = np.concatenate([matrix, offset[..., None]], axis=-1)
        linear = rotation @ both[..., :3, :]
        angular = rotation @ both[..., 3:, :] + skew(origin) @ linear
        world = np.concatenate([linear, angular], axis=-2)
        known = record.impulse() - world[..., -1]
        if record.known_momentum is not None:
            known = known + record.known_momentum
        return world[..., self.moving, :-1], known[..., self.moving]

    def _dynamics(self, record: MotionRecord) -> tuple[Array, Array]:
        matrix, offset = self.mechanics.dynamics_regressor(
            self._joints(record), record.velocity(), record.acceleration()
        )
        # Base axes: a thruster's wrench is constant there while it fires.
        known = np.broadcast_to(record.wrench, (*offset.shape[:-1], 6))
        if self._uses_torques(record):
            return matrix, np.concatenate([known, record.readings["torque"]], axis=-1) - offset
        # Without torque sensors the rows of the joints would need unknown drive torques: only the base's rows are left.
        return matrix[..., self.moving, :], (known - offset[..., :6])[..., self.moving]

    # -- how reading errors enter ---------------------------------------------------------------------------------

    def slopes(self, record: MotionRecord, inertia: Array) -> Array:
        """Derivative (..., T, m, ny) of ``matrix @ inertia - known`` by errors of the readings
        (:meth:`MotionRecord.add_errors`).

        Errors of earlier samples enter later ones through the impulse: see :meth:`impulse_slopes`.
        """
        blocks = [getattr(self, f"_{kind}_slopes")(record, inertia) for kind in KINDS if kind in self.kinds]
        return np.concatenate(blocks, axis=-2)

    def impulse_slopes(self, record: MotionRecord) -> tuple[Array, list[tuple[npt.NDArray[np.intp], Array]]]:
        """Derivatives of the impulse by reading errors.

        Returns slopes (..., s, rows of momentum, ny) for the samples of all firing intervals in order, and for each
        interval its samples and quadrature weights (T, s).
        """
        origin, _, rotation = record.pose()
        places, sigma = record.deviations()
        slopes, parts = [], []
        for wrench, span, weights in record.quadrature():
            axes, place = rotation[..., span, :, :], origin[..., span, :]
            force = np.einsum("...ij,j->...i", axes, wrench[:3])
            full = np.zeros((*place.shape[:-1], 6, sigma.size))
            # origin = position - R mount, and R becomes R exp(skew(error)): d(R f) = -R skew(f) error.
            by_attitude = -axes @ skew(np.broadcast_to(wrench[:3], place.shape))
            full[..., :3, places["attitude"]] = by_attitude
            full[..., 3:, places["position"]] = -skew(force)
            full[..., 3:, places["attitude"]] = (
                skew(place) @ by_attitude
                - axes @ skew(np.broadcast_to(wrench[3:], place.shape))
                - skew(force) @ axes @ skew(np.broadcast_to(record.mount, place.shape))
            )
            slopes.append(full[..., self.moving, :])
            parts.append((span, weights))
        return np.concatenate(slopes, axis=-3), parts

    def _inertia(self, inertia: Array, shape: tuple[int, ...]) -> Array:
        return np.broadcast_to(inertia[..., None, :], (*shape, inertia.shape[-1]))

    def _velocity_by_reading(self, record: MotionRecord) -> dict[str, Array]:
        """Derivative (..., T, 6, size) of the base's part of the velocity by each channel."""
        angular_rate = record.channel("rate")
        shape = angular_rate.shape[:-1]
        by: dict[str, Array] = {"rate": np.zeros((*shape, 6, 3))}
        by["rate"][..., 3:, :] = np.eye(3)
        if "velocity" in record.readings:
            _, _, rotation = record.pose()
            inverse = np.swapaxes(rotation, -1, -2)
            seen = np.einsum("...ij,...j->...i", inverse, record.readings["velocity"])
            # v = R^T v_read - omega x mount, so d(v) = mount x d(omega), and the attitude rotates what was read.
            by["rate"][..., :3, :] = skew(np.broadcast_to(record.mount, angular_rate.shape))
            by["velocity"] = np.concatenate([inverse, np.zeros_like(inverse)], axis=-2)
            by["attitude"] = np.concatenate([skew(seen), np.zeros_like(inverse)], axis=-2)
        return by

    def _momentum_slopes(self, record: MotionRecord, inertia: Array) -> Array:
        origin, quaternion, rotation = record.pose()
        joints, velocity = self._joints(record), record.velocity()
        shape, n = velocity.shape[:-1], self.robot.n
        wrt = ("position", "quaternion", "joints", "velocity") if n else ("position", "quaternion", "velocity")
        kernel = self.mechanics.derivative("momentum", "momentum", *wrt)
        base = np.concatenate([origin, quaternion], axis=-1)
        # Readings are unit quaternions only up to rounding, and the kernel takes them as exact.
        base[..., 3:] /= np.linalg.norm(base[..., 3:], axis=-1, keepdims=True)
        result = self.mechanics.evaluate(
            kernel, base, joints=joints, velocity=velocity, point=np.zeros(3), inertia=self._inertia(inertia, shape)
        )
        by = {name: result[f"d_momentum_d_{name}"].reshape(*shape, 6, -1) for name in wrt}
        places, sigma = record.deviations()
        full = np.zeros((*shape, 6, sigma.size))
        full[..., places["position"]] = by["position"]
        w, v = quaternion[..., :1, None], quaternion[..., 1:]
        # dq = q * (0, error) / 2: quaternion derivative by a rotation in base axes; and the origin shifts with the
        # mount.
        tangent = 0.5 * np.concatenate([-v[..., None, :], w * np.eye(3) + skew(v)], axis=-2)
        full[..., places["attitude"]] = by["quaternion"] @ tangent + by["position"] @ rotation @ skew(
            np.broadcast_to(record.mount, origin.shape)
        )
        for name, part in self._velocity_by_reading(record).items():
            full[..., places[name]] += by["velocity"][..., :6] @ part
        if n:
            full[..., places["joint_position"]] = by["joints"]
            if "joint_rate" in places:
                # The rate of a locked joint is not read but zero.
                full[..., places["joint_rate"]] = by["velocity"][..., 6:] * record.moving
        return full[..., self.moving, :]

    def _dynamics_slopes(self, record: MotionRecord, inertia: Array) -> Array:
        joints, velocity, acceleration = self._joints(record), record.velocity(), record.acceleration()
        shape, n = velocity.shape[:-1], self.robot.n
        wrt = ("joints", "velocity", "acceleration") if n else ("velocity", "acceleration")
        kernel = self.mechanics.derivative("inverse_dynamics", "force", *wrt)
        result = self.mechanics.evaluate(
            kernel, joints=joints, velocity=velocity, acceleration=acceleration, inertia=self._inertia(inertia, shape)
        )
        by = {name: result[f"d_force_d_{name}"].reshape(*shape, 6 + n, -1) for name in wrt}
        places, sigma = record.deviations()
        rows = [*self.moving, *(range(6, 6 + n) if self._uses_torques(record) else ())]
        full = np.zeros((*shape, 6 + n, sigma.size))
        angular_rate = record.channel("rate")
        seen = velocity[..., :3] + np.cross(angular_rate, record.mount)
        # The base's acceleration as component derivative: a_read - omega x v_read - alpha x mount, differentiated term
        # by term.
        steady = by["acceleration"][..., :3]
        for name, part in self._velocity_by_reading(record).items():
            full[..., places[name]] += by["velocity"][..., :6] @ part
        full[..., places["rate"]] += steady @ skew(seen)
        if "velocity" in places:
            inverse = np.swapaxes(record.pose()[2], -1, -2)
            full[..., places["velocity"]] -= steady @ skew(angular_rate) @ inverse
            full[..., places["attitude"]] -= steady @ skew(angular_rate) @ skew(seen)
        full[..., places["acceleration"]] += steady
        mount = skew(np.broadcast_to(record.mount, angular_rate.shape))
        full[..., places["angular_acceleration"]] += by["acceleration"][..., 3:6] + steady @ mount
        if n:
            full[..., places["joint_position"]] += by["joints"]
            if "joint_rate" in places:
                full[..., places["joint_rate"]] += by["velocity"][..., 6:] * record.moving
        if "joint_acceleration" in places:
            full[..., places["joint_acceleration"]] += by["acceleration"][..., 6:] * record.moving
        if "torque" in places:
            # Measured torques stand on the known side.
            full[..., 6:, places["torque"]] -= np.eye(n)
        return full[..., rows, :]


def inverse_factor(matrices: Array) -> Array:
    """Inverse of the lower Cholesky factor of symmetric positive matrices (..., m, m): it whitens.

    Column by column, vectorised over the matrices: a library call for each 6 x 6 matrix costs more than its arithmetic.
    """
    m = matrices.shape[-1]
    a = np.ascontiguousarray(np.moveaxis(matrices, (-2, -1), (0, 1)))  # (m, m, ...)
    factor = np.zeros_like(a)
    inverse = np.zeros_like(a)
    for j in range(m):
        pivot = a[j, j] - np.sum(factor[j, :j] ** 2, axis=0)
        # Not `pivot <= 0`: a NaN must fail as well.
        if not np.all(pivot > 0):
            raise np.linalg.LinAlgError("matrix is not positive definite")
        scale = 1.0 / np.sqrt(pivot)
        factor[j, j] = pivot * scale
        for i in range(j + 1, m):
            factor[i, j] = (a[i, j] - np.sum(factor[i, :j] * factor[j, :j], axis=0)) * scale
        inverse[j, j] = scale
        for k in range(j):
            inverse[j, k] = -scale * np.sum(factor[j, k:j] * inverse[k:j, k], axis=0)
    return np.ascontiguousarray(np.moveaxis(inverse, (0, 1), (-2, -1)))


def _regularise(covariance: Array) -> Array:
    """A row that no reading error enters (a locked joint without noise) must not divide by zero."""
    m = range(covariance.shape[-1])
    # Relative for scale, absolute for rows of zeros.
    covariance[..., m, m] *= 1.0 + 1e-12
    covariance[..., m, m] += 1e-30
    return covariance


def own_whitener(spread: Array) -> Array:
    """Matrices (..., T, m, m) that whiten each sample's equations, from slopes times deviations (..., T, m, ny)."""
    return inverse_factor(_regularise(spread @ np.swapaxes(spread, -1, -2)))


class EquationWeights:
    """The covariance of a record's equations under reading errors: whitens columns, and gives the errors back.

    Errors of one sample enter only its own equations, unless a known wrench is carried into the world by the readings:
    its impulse sums earlier errors, and all samples of such a record hang together.
    """

    def __init__(self, equations: Equations, adjusted: MotionRecord, slopes: Array, sigma: Array) -> None:
        self.slopes, self.sigma = slopes, sigma
        self.batch, self.count, self.rows = slopes.shape[:-3], slopes.shape[-3], slopes.shape[-2]
        self.by_reading: Array | None = None
        # Dense only where it must be: the factorisation costs the cube of T m.
        if "momentum" in equations.kinds and np.any(adjusted.wrench):
            self.by_reading, parts = equations.impulse_slopes(adjusted)
            self.span = np.concatenate([index for index, _ in parts])
            self.weights = np.concatenate([weight for _, weight in parts], axis=1)
            # Repetitions differ by noise only, and so, to first order, do not their covariances: one serves all.
            first = (0,) * len(self.batch)
            dense = self._dense(slopes[first] * sigma, self.by_reading[first] * sigma)
            self.factor: Array = np.linalg.cholesky(_regularise(dense)).astype(np.float64)
            return
        self.factor = own_whitener(slopes * sigma)

    def _dense(self, spread: Array, impulse: Array) -> Array:
        """Covariance (T m, T m) of one repetition: own errors, impulse errors, and what they share."""
        count, rows, weights = self.count, self.rows, self.weights
        full = np.zeros((count, rows, count, rows))
        own = np.arange(count)
        full[own, :, own, :] = spread @ np.swapaxes(spread, -1, -2)
        # The same reading errors enter a sample's own momentum and the impulse of all later samples, with opposite
        # sign.
        crossed = spread[self.span] @ np.swapaxes(impulse, -1, -2)  # (s, m, rows of momentum)
        size = crossed.shape[-1]
        for s, k in enumerate(self.span):
            block = np.einsum("t,mj->mtj", weights[:, s], crossed[s])  # (m, T, rows of momentum)
            full[k, :, :, :size] -= block
            full[:, :size, k, :] -= block.transpose(1, 2, 0)
        # A sample at a switch belongs to two firing intervals: the same errors, correlated.
        same = self.span[:, None] == self.span
        pair = np.einsum("smy,rky->smrk", impulse, impulse) * same[:, None, :, None]
        full[:, :size, :, :size] += np.einsum("ts,smrk,ur->tmuk", weights, pair, weights, optimize=True)
        return full.reshape(count * rows, count * rows)

    def whiten(self, columns: Array) -> Array:
        """Columns (..., T, m, c) of the equations, whitened and flattened to (..., T m, c)."""
        flat = (*self.batch, self.count * self.rows, columns.shape[-1])
        if self.by_reading is None:
            return (self.factor @ columns).reshape(flat)
        return _lower_solve(self.factor, columns.reshape(flat))

    def errors(self, white: Array) -> Array:
        """Most likely reading errors (..., T, ny), times minus one, for whitened misclosures (..., T m)."""
        if self.by_reading is None:
            parts = white.reshape(*self.batch, self.count, self.rows)
            # sigma^2 D^T C^-1 gap: the least-squares errors that close the equations.
            pulled = np.einsum("...km,...k->...m", self.factor, parts)
            return np.asarray(self.sigma**2 * np.einsum("...my,...m->...y", self.slopes, pulled))
        flat = _lower_solve(self.factor, white[..., None], transposed=True)[..., 0]
        pulled = flat.reshape(*self.batch, self.count, self.rows)
        result = np.einsum("...my,...m->...y", self.slopes, pulled)
        # Transpose of the quadrature: gaps of all later samples act back on the readings within a firing.
        summed = np.einsum("ts,...tm->...sm", self.weights, pulled[..., : self.by_reading.shape[-2]])
        back = np.einsum("...smy,...sm->...sy", self.by_reading, summed)
        for s, k in enumerate(self.span):
            result[..., k, :] -= back[..., s, :]
        return np.asarray(self.sigma**2 * result)

    def propagate_errors(self, errors: Array) -> Array:
        """Change (..., T, m) of the equations by reading errors (..., T, ny)."""
        result = np.einsum("...my,...y->...m", self.slopes, errors)
        if self.by_reading is not None:
            impulse = np.einsum("...smy,...sy->...sm", self.by_reading, errors[..., self.span, :])
            result[..., : impulse.shape[-1]] -= np.einsum("ts,...sm->...tm", self.weights, impulse)
        return np.asarray(result)


def _lower_solve(factor: Array, right: Array, transposed: bool = False) -> Array:
    """``factor`` (or its transpose) solved for (..., rows, columns), all columns in one call."""
    from scipy.linalg import solve_triangular

    # Repetitions become further columns of one solve with one factor.
    rows, columns = right.shape[-2:]
    side = np.moveaxis(right, -2, 0).reshape(rows, -1)
    solved = solve_triangular(factor, side, lower=True, trans=1 if transposed else 0, check_finite=False)
    return np.moveaxis(np.asarray(solved).reshape(rows, *right.shape[:-2], columns), 0, -2)
