"""Motion of the base for given momentum and joint paths, and the propagation of errors along it.

The momentum of the whole robot, linear P and angular L about the world's origin (world axes), changes by the known
wrench alone. With the joints on their measured paths q(t) it gives the base's twist nu (base axes) at every instant,

    H_b nu = R^T (P, L - p x P) - H_bm dq/dt,

and integration gives the pose. H_b and H_bm are the base rows of the mass matrix; of a base in a plane or on a rail
those rows along which it moves, whose momenta the constraint does not change. Neither accelerations nor torques of
the joints enter, so friction and motors need no model; the price is that the joint paths are taken as they were read.

State (13,): position p (m, world axes), quaternion (scalar first), P (N s), L (N m s). Errors (12,): of p in world
axes, a rotation vector theta in base axes (R exp(skew(theta))), of P and of L. Joint paths are Hermite cubics through
position and rate at the samples; wrenches are constant between switching times.

The motion itself is integrated by RK4 with fixed steps. Its derivatives come from the variational equations, one RK4
step from sample to sample with coefficients at both ends and half way (nodes: 2 T - 1): they serve a Gauss-Newton
search and a covariance, and need less accuracy than the motion.

Near a point on a circular orbit, in axes that do not rotate, the rest of gravity acts too (W. H. Clohessy and R. S.
Wiltshire, J. Aerospace Sci. 27(9), 1960, before their axes rotate): :mod:`spacearm.identify.inertia._tide`. Its
derivatives by the joints' readings are left out: some 1e-6 of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import casadi as ca
import numpy as np

from spacearm.engine import mechanics_of
from spacearm.engine.kernel import Kernel
from spacearm.engine.phase import make_solver_phase, make_system
from spacearm.engine.signals import Signals
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.identify.inertia._tide import TideDerivatives, compute_tide, differentiate_tide
from spacearm.mechanics.dynamics import mass_matrix
from spacearm.mechanics.kinematics import SymbolicPose
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.momentum import momentum
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX, quaternion_rate, rotation_matrix
from spacearm.mechanics.structure import Keyed, structure
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: Longest step of the integration, s.
STEP = 0.05


def base_motion_program(robot: Robot, in_orbit: bool = False) -> Program:
    """Rate of (position, quaternion, P, L), and the base's twist (base axes).

    ``in_orbit``: with an input ``radial`` (2), mean motion times the direction away from the Earth in the x-y plane.
    """
    tree, n = Tree(robot), robot.n
    sizes = {"state": 13, "joints": n, "rates": n, "wrench": 6, "inertia": 10 * tree.bodies, "rotor": tree.rotors}
    sizes |= {"radial": 2} if in_orbit else {}
    x = {name: ca.SX.sym(name, size) for name, size in sizes.items()}
    position, quaternion, linear, angular = ca.vertsplit(x["state"], [0, 3, 7, 10, 13])
    rotation = rotation_matrix(quaternion)
    # Momentum about the base's origin in base axes: there the mass matrix depends on the joints alone.
    at_base = ca.vertcat(rotation.T @ linear, rotation.T @ (angular - ca.cross(position, linear)))
    by_joints = momentum(tree, x["joints"], ca.vertcat(ca.SX.zeros(6), x["rates"]), x["inertia"], x["rotor"]).stack()
    inertia = mass_matrix(tree, x["joints"], x["inertia"], x["rotor"])[:6, :6]
    moving = robot.base.moving_indices
    twist = ca.SX.zeros(6)
    twist[moving] = solve_symmetric(inertia[moving, moving], (at_base - by_joints)[moving])
    force, moment = known_wrench(x, SymbolicPose(rotation, position), inertia)
    rate = ca.vertcat(rotation @ twist[:3], quaternion_rate(quaternion, twist[3:]), force, moment)
    return Program("base_motion", x, {"rate": ca.densify(rate), "twist": ca.densify(twist)})


def known_wrench(x: Mapping[str, SX], base: SymbolicPose, inertia: SX) -> tuple[SX, SX]:
    """Force and moment about the world's origin, world axes: of the thrusters and, with an input ``radial``, of what an
    orbit leaves of gravity for a composite body with this inertia (6, 6)."""
    force = base.rotation @ x["wrench"][:3]
    moment = ca.cross(base.origin, force) + base.rotation @ x["wrench"][3:]
    if "radial" in x:
        tide = compute_tide(inertia, base, ca.vertcat(x["radial"], 0))
        force, moment = force + tide[:3], moment + tide[3:]
    return force, moment


@lru_cache(maxsize=16)
def _kernel(made: Keyed[tuple[Robot, bool]]) -> Kernel:
    return Kernel(base_motion_program(*made.value))


@dataclass(frozen=True, eq=False)
class MotionInputs:
    """Joint paths and the known wrench over time: cubics through readings, constants between switching times.

    ``times`` (T,) s; ``joints``, ``rates`` (T, n); ``wrench`` (k, pieces, 6) of each of k thrusters at the base's
    origin, base axes, between ``edges`` (pieces + 1,). ``orbit``: mean motion, rad/s; x is radial at time 0.
    """

    times: Array
    joints: Array
    rates: Array
    edges: Array
    wrench: Array
    orbit: float = 0.0

    def signals(self, kernel: Kernel) -> Signals:
        """For the solver: one grid of all samples and switching times."""
        start, stop = self.times[0], self.times[-1]
        # Steps of the solver end at samples (where the cubic changes) and at switches (where the wrench jumps): within
        # a step the right side is smooth and RK4 keeps its order. Switches at the ends or at a sample are not points of
        # their own.
        inner = self.edges[(self.edges > start + 1e-9) & (self.edges < stop - 1e-9)]
        near = np.abs(inner[:, None] - self.times).min(axis=1, initial=np.inf) > 1e-9
        breaks = np.sort(np.concatenate([self.times, inner[near]]))
        # The middle of a piece decides which cubic it belongs to: its ends would be ambiguous by rounding.
        middle = 0.5 * (breaks[:-1] + breaks[1:])
        piece = np.clip(np.searchsorted(self.times, middle) - 1, 0, self.times.size - 2)
        past = breaks[:-1] - self.times[piece]
        n = self.joints.shape[1]
        cubic = _shift_cubics(self._cubics()[:, piece], past)
        # The rate is the derivative of the same cubic: position and rate stay consistent between samples.
        rate = np.concatenate([cubic[1:] * np.array([1.0, 2.0, 3.0])[:, None, None], np.zeros((1, *cubic.shape[1:]))])
        force = np.zeros((4, middle.size, 6))  # filled in before every run, by the scales of the thrusters
        names = [*(["radial"] if self.orbit else []), "joints", "rates", "wrench"]
        target = np.concatenate([np.arange(kernel.inputs[name].start, kernel.inputs[name].stop) for name in names])
        parts = [*([self._radial(breaks)] if self.orbit else []), *([cubic, rate] if n else []), force]
        table = np.concatenate(parts, axis=2)
        return Signals(breaks - start, np.ascontiguousarray(table), target.astype(np.int64))

    def _radial(self, breaks: Array) -> Array:
        """Coefficients (4, pieces, 2) of mean motion times the direction away from the Earth, between these times."""
        n, angle = self.orbit, self.orbit * breaks[:-1]
        direction = np.column_stack([np.cos(angle), np.sin(angle)])
        ahead = np.column_stack([-direction[:, 1], direction[:, 0]])
        # Taylor: what is left out is (n h)^4 / 24 of it.
        return n * np.stack([direction, n * ahead, -0.5 * n**2 * direction, -(n**3) / 6.0 * ahead])

    def wrench_at(self, times: Array) -> Array:
        """(k, times, 6)."""
        # From the right: at a switching time the new wrench acts already; at the very end the last one still does.
        index, pieces = np.searchsorted(self.edges, times, side="right") - 1, self.wrench.shape[1]
        inside = (index >= 0) & (times <= self.edges[-1])
        return np.where(inside[:, None], self.wrench[:, np.clip(index, 0, pieces - 1)], 0.0)

    def mean_wrench(self) -> Array:
        """(k, T - 1, 6): the mean between samples."""
        # Overlap of every piece with every sampling interval, as a share of the interval.
        low, high = np.maximum(self.edges[:-1], self.times[:-1, None]), np.minimum(self.edges[1:], self.times[1:, None])
        share: Array = np.maximum(high - low, 0.0) / np.diff(self.times)[:, None]
        return share @ self.wrench

    def _cubics(self) -> Array:
        """Coefficients (4, T - 1, n), lowest power first, of the Hermite cubics between samples."""
        h = np.diff(self.times)[:, None]
        q, r = self.joints, self.rates
        slope = np.diff(q, axis=0) / h
        return np.stack([q[:-1], r[:-1], (3 * slope - 2 * r[:-1] - r[1:]) / h, (r[:-1] + r[1:] - 2 * slope) / h**2])

    def middle(self) -> tuple[Array, Array]:
        """Positions and rates (T - 1, n) half way between samples."""
        half, c = 0.5 * np.diff(self.times)[:, None], self._cubics()
        return c[0] + half * (c[1] + half * (c[2] + half * c[3])), c[1] + half * (2 * c[2] + half * 3 * c[3])


def _shift_cubics(cubics: Array, past: Array) -> Array:
    """The same cubics counted from ``past`` after their start."""
    a, b, c, d = cubics
    # By Taylor's formula, which is exact for cubics.
    s = past[:, None]
    return np.stack([a + s * (b + s * (c + s * d)), b + s * (2 * c + 3 * s * d), c + 3 * s * d, d])


@dataclass(frozen=True, eq=False)
class LinearisedMotion:
    """The motion at the samples, and how errors pass from sample to sample.

    With x the twelve errors, e = (positions, rates) those of the joints at a sample and z those of the parameters:
    x[k+1] = across[k] x[k] + before[k] e[k] + after[k] e[k+1] + forced[k] z. Twist errors at a sample are
    twist_state x + twist_joints e + twist_parameters z. Parameters are changes of the inertias along given directions,
    then the scales of the thrusters and of the other wrenches.
    """

    states: Array  # (T, 13)
    twist: Array  # (T, 6)
    rotation: Array  # (T, 3, 3)
    across: Array  # (T - 1, 12, 12)
    before: Array  # (T - 1, 12, 2 n)
    after: Array  # (T - 1, 12, 2 n)
    forced: Array  # (T - 1, 12, d + k)
    twist_state: Array  # (T, 6, 12)
    twist_joints: Array  # (T, 6, 2 n)
    twist_parameters: Array  # (T, 6, d + k)


@dataclass(frozen=True, eq=False)
class ModeErrors:
    """How far modes are from what the robot states: shares (k,) of their frequencies, and damping ratios (k,)."""

    frequency: Array
    damping: Array


class BrokenOffError(Exception):
    """The integration failed: no motion exists with these inertias, which no robot can have."""


class BaseMotion:
    """Integrates and linearises the base's motion along the inputs of one record; the compiled kernel is shared."""

    #: Longest step (s), numbers of the state, and steps of the variational equations from sample to sample.
    step, size, substeps = STEP, 13, 1

    def __init__(self, robot: Robot, inputs: MotionInputs) -> None:
        ensure_loops()
        self.robot, self.inputs = robot, inputs
        self.kernel = self._find_kernel()
        times = inputs.times
        # The variational equations need the state half way through each of their steps as well.
        parts = 2 * self.substeps
        nodes = np.empty(parts * (times.size - 1) + 1)
        nodes[::parts] = times
        for k in range(1, parts):
            nodes[k::parts] = (1.0 - k / parts) * times[:-1] + k / parts * times[1:]
        given = np.zeros(self.kernel.n_in)
        given[self.kernel.inputs["rotor"]] = robot.rotor_inertias
        system = make_system(
            make_code(self.kernel.address(1), self.size, self.size, quaternion=(3,)),
            given,
            self.kernel.n_out,
            inputs.signals(self.kernel),
        )
        # An upper bound on the number of steps: pieces that samples and switches cut, and those of the longest step.
        steps = 10 * times.size + int((times[-1] - times[0]) / self.step) + 1000
        options = Options(0, self.step, 0.0, np.zeros(self.size), float("inf"), steps, 1)
        breaks = system.signals.breaks + times[0]
        # Kept for each thruster: a run with other scales only sums them anew.
        self.wrench = inputs.wrench_at(0.5 * (breaks[:-1] + breaks[1:]))
        self.nodes = nodes - times[0]
        self.stage = make_solver_phase(system, options, self.nodes)

    def _find_kernel(self) -> Kernel:
        in_orbit = self.inputs.orbit != 0.0
        return _kernel(Keyed((structure(self.robot), in_orbit), (self.robot, in_orbit)))

    @property
    def at_samples(self) -> slice:
        """The samples among the nodes."""
        return slice(None, None, 2 * self.substeps)

    def run(self, start: Array, inertia: Array, thrust: Array | float = 1.0, modes: ModeErrors | None = None) -> Array:
        """States (nodes, 13) at the samples and half way through each step between, from the state at the first.

        ``thrust``: factor of all thrusters, or of each; ``modes``: of robots that have some. NaN where inertias that no
        robot can have break the motion off: a search must not go there.
        """
        work, record = self.stage.system.work, self.stage.record
        work.inp[self.kernel.inputs["inertia"]] = inertia
        scale = np.broadcast_to(thrust, self.wrench.shape[0])
        # Constant coefficient of the last six signals, the wrench; the higher ones stay zero.
        self.stage.system.signals.coefficient[0, :, -6:] = np.tensordot(scale, self.wrench, 1)
        reason = self.stage.run(start)
        record.times[:] = self.nodes
        # The last node is the end of the phase and is not recorded; after a failure all that is missing is NaN.
        record.y[int(record.counts[0]) :] = work.y if reason == EndReason.FINISHED else np.nan
        return record.y.copy()

    def linearise(
        self,
        start: Array,
        inertia: Array,
        directions: Array,
        thrust: Array | float = 1.0,
        others: Array | None = None,
        modes: ModeErrors | None = None,
    ) -> LinearisedMotion:
        """The motion from this state with these inertias (10 (n + 1)), and its derivatives.

        ``directions`` (10 (n + 1), d): changes of the inertias that derivatives are wanted for; ``others``
        (k', T - 1, 6): wrenches that do not act, means between samples, whose derivatives follow the thrusters'.
        """
        inputs, mechanics, n = self.inputs, mechanics_of(self.robot), self.robot.n
        nodes = self.run(start, inertia, thrust)
        if not np.all(np.isfinite(nodes)):
            raise BrokenOffError
        count = inputs.times.size
        q, r = np.empty((2, 2 * count - 1, n))
        q[::2], r[::2] = inputs.joints, inputs.rates
        q[1::2], r[1::2] = inputs.middle()
        own = np.broadcast_to(inertia.reshape(-1, 10), (*q.shape[:-1], n + 1, 10))
        matrix = mechanics.mass_matrix(q, inertia=own)
        rotation = rotation_matrices(nodes[:, 3:7])
        p, back = nodes[:, :3], np.swapaxes(rotation, 1, 2)
        # The same equation as in the kernel, for all nodes at once, to have its matrices for the derivatives.
        at_base = base_momentum(nodes, back)
        # Joint rates with the base at rest give H_bm dq/dt, rotors included.
        rest = np.concatenate([np.zeros((*q.shape[:-1], 6)), r], axis=-1)
        by_joints = mechanics.evaluate(mechanics.kernel("base_momentum"), joints=q, velocity=rest, inertia=own)[
            "momentum"
        ]
        moving = self.robot.base.moving_indices
        twist = solve_along(moving, matrix[:, :6, :6], (at_base - by_joints)[..., None])[..., 0]
        velocity = np.concatenate([twist, r], axis=1)
        # H_b nu + H_bm dq/dt is linear in the inertias: the regressor is its derivative.
        regressor = mechanics.momentum_regressor(q, velocity)[0] @ directions
        by_q = np.zeros((*q.shape[:-1], 6, 0))
        if n:
            kernel = mechanics.derivative("base_momentum", "momentum", "joints")
            by_q = mechanics.evaluate(kernel, joints=q, velocity=velocity, inertia=own)["d_momentum_d_joints"]
        # Implicit differentiation, H_b d(nu) = right side, by errors of the state, the joints, the inertias. One
        # factorisation serves all columns.
        by_state = differentiate_base_momentum(at_base, nodes, back)
        right = np.concatenate([by_state, -by_q, -matrix[:, :6, 6:], -regressor], axis=2)
        solved = solve_along(moving, matrix[:, :6, :6], right)
        by_state, by_path, by_inertia = np.split(solved, np.cumsum([12, 2 * n]), axis=2)
        tide = None
        if inputs.orbit:
            tide = differentiate_tide(mechanics, q, matrix, nodes, rotation, self._radial(), directions)
        parts = ErrorRates(rotation, p, twist, solved, tide)
        pushes, scale = self._wrenches(thrust, others)
        across, before, after, forced = _propagate_step(parts, np.diff(inputs.times), pushes, scale, n)
        # A wrench changes the momentum first: it has no direct effect on the twist.
        none = np.zeros((count, 6, pushes.shape[0]))
        return LinearisedMotion(
            nodes[::2],
            twist[::2],
            rotation[::2],
            across,
            before,
            after,
            forced,
            by_state[::2],
            by_path[::2],
            np.concatenate([by_inertia[::2], none], axis=2),
        )

    def _wrenches(self, thrust: Array | float, others: Array | None) -> tuple[Array, Array]:
        """Wrenches (k, T - 1, 6), means between samples, whose derivatives are wanted, and their factors (k,)."""
        pushes = self.inputs.mean_wrench()
        scale = np.broadcast_to(thrust, pushes.shape[0])
        if others is None:
            return pushes, scale
        return np.concatenate([pushes, others]), np.concatenate([scale, np.zeros(len(others))])

    def _radial(self) -> Array:
        """Mean motion times the direction away from the Earth at the nodes (nodes, 3)."""
        angle = self.inputs.orbit * (self.nodes + self.inputs.times[0])
        return self.inputs.orbit * np.column_stack([np.cos(angle), np.sin(angle), np.zeros(angle.size)])


def solve_along(moving: Sequence[int], matrix: Array, right: Array) -> Array:
    """Solutions (T, s, k) of equations (T, s, s) of those rows and columns that move, zero along the others."""
    found = np.zeros(right.shape)
    found[:, moving] = np.linalg.solve(matrix[:, moving][:, :, moving], right[:, moving])
    return found


def base_momentum(nodes: Array, back: Array) -> Array:
    """Momentum (T, 6) about the base's origin, base axes, of states (T, 13) whose axes these (T, 3, 3) lead back to."""
    p, linear, angular = nodes[:, :3], nodes[:, 7:10], nodes[:, 10:13]
    parts = [np.einsum("tij,tj->ti", back, linear), np.einsum("tij,tj->ti", back, angular - np.cross(p, linear))]
    return np.concatenate(parts, axis=1)


def differentiate_base_momentum(at_base: Array, nodes: Array, back: Array) -> Array:
    """Derivatives (T, 6, 12) of :func:`base_momentum` by the twelve errors."""
    found = np.zeros((*at_base.shape[:1], 6, 12))
    # With R -> R exp(skew(theta)): d(R^T a) = skew(R^T a) theta.
    found[:, :3, 3:6], found[:, 3:, 3:6] = skew(at_base[:, :3]), skew(at_base[:, 3:])
    found[:, :3, 6:9] = found[:, 3:, 9:] = back
    found[:, 3:, :3], found[:, 3:, 6:9] = back @ skew(nodes[:, 7:10]), -back @ skew(nodes[:, :3])
    return found


@dataclass(frozen=True, eq=False)
class ErrorRates:
    """Derivatives of the twist at the nodes, and their conversion into rates of the errors (twelve, or more)."""

    rotation: Array
    position: Array
    twist: Array
    solved: Array  # (nodes, 6, errors + 2 n + d) by the errors, the joints, the inertias
    tide: TideDerivatives | None = None
    errors: int = 12

    def evaluate(self, rows: slice, wrench: Array, thrust: Array) -> tuple[Array, Array, Array, Array | None]:
        """Rates (rows, errors, errors) by the errors themselves; those of the pose (rows, 6, ...) by the joints and
        inertias; those of the momentum (rows, 6, k) by the thrusters' scales, and in an orbit (rows, 6, d) by the
        inertias."""
        rotation, position = self.rotation[rows], self.position[rows]
        linear, rate = self.twist[rows, :3], self.twist[rows, 3:]
        force, moment = np.split(np.tensordot(thrust, wrench, 1), 2, axis=1)
        pushed = np.einsum("tij,tj->ti", rotation, force)
        each = np.einsum("tij,ktj->kti", rotation, wrench[..., :3])
        moments = np.cross(position, each) + np.einsum("tij,ktj->kti", rotation, wrench[..., 3:])
        pose, count = self.solved[rows].copy(), self.errors
        # Position errors are in world axes, the twist in base axes.
        pose[:, :3] = rotation @ pose[:, :3]
        state = np.zeros((rotation.shape[0], count, count))
        state[:, :6] = pose[:, :, :count]
        # d(R v) = R dv - R skew(v) theta, and theta' = d(omega) - omega x theta.
        state[:, :3, 3:6] -= rotation @ skew(linear)
        state[:, 3:6, 3:6] -= skew(rate)
        # The wrench is fixed to the base: a rotation error rotates its force and moment, a position error its moment
        # arm.
        by_rotation = -rotation @ skew(force)
        state[:, 6:9, 3:6] += by_rotation
        state[:, 9:12, 3:6] += skew(position) @ by_rotation - rotation @ skew(moment)
        state[:, 9:12, :3] -= skew(pushed)
        by_force = np.moveaxis(np.concatenate([each, moments], axis=2), 0, 2)
        if self.tide is None:
            return state, pose[:, :, count:], by_force, None
        state[:, 6:12, :6] += self.tide.by_pose[rows]
        return state, pose[:, :, count:], by_force, self.tide.by_inertia[rows]


def rk4_weights(step: Array, begin: Array, half: Array, end: Array) -> tuple[Array, Array, Array]:
    """One RK4 step of x' = A x + b with A (T, s, s) at its begin, half way and end: ``across``, ``first``, ``middle``.

    Written out, x1 = across x0 + first b(begin) + middle b(half) + h/6 b(end).
    """
    # RK4's four stages put into each other and sorted by x0 and b: for linear equations the weights of all intervals
    # are made at once, and a step is two products.
    one = np.eye(begin.shape[1])
    through = step * half @ (one + 0.5 * step * half)
    first = step / 6 * (one + through + 0.5 * step * end @ (through - step * half))
    middle = step / 6 * (4 * one + step * half + step * end @ (one + 0.5 * step * half))
    return one + first @ begin + middle @ half + step / 6 * end, first, middle


def _propagate_step(
    parts: ErrorRates, h: Array, wrench: Array, thrust: Array, n: int
) -> tuple[Array, Array, Array, Array]:
    """Transition matrices from sample to sample: one RK4 step of the linear variational equations x' = A x + b.

    The weights of b (12, 12) depend on A alone: each is computed once and multiplies the inputs of all columns.
    """
    nodes = (slice(0, -1, 2), slice(1, None, 2), slice(2, None, 2))
    begin, half, end = (parts.evaluate(rows, wrench, thrust) for rows in nodes)
    step = h[:, None, None]
    across, first, middle = rk4_weights(step, begin[0], half[0], end[0])

    def combine(weight: Array, by: Array, scale: Array, tide: Array | None) -> Array:
        found = np.concatenate([weight[:, :, :6] @ by, weight[:, :, 6:] @ scale], axis=2)
        if tide is not None:
            found[:, :, 2 * n : by.shape[2]] += weight[:, :, 6:] @ tide
        return found

    forced = combine(first, *begin[1:])
    before, after = forced[:, :, : 2 * n], np.zeros((h.size, 12, 2 * n))
    # Errors at the end of the interval enter by the last slope alone, and only the pose: hence the six rows.
    after[:, :6] = step / 6 * end[1][:, :, : 2 * n]
    by_middle = combine(middle, *half[1:])
    # The path half way, by readings at both ends (Hermite): q = (q0 + q1) / 2 + h (r0 - r1) / 8 and
    # r = 1.5 (q1 - q0) / h - (r0 + r1) / 4. Errors of the readings enter by the same weights.
    q, r, by_parameters = np.split(by_middle, [n, 2 * n], axis=2)
    before += np.concatenate([0.5 * q - 1.5 / step * r, step / 8 * q - 0.25 * r], axis=2)
    after += np.concatenate([0.5 * q + 1.5 / step * r, -step / 8 * q - 0.25 * r], axis=2)
    forced = forced[:, :, 2 * n :]
    forced += by_parameters
    count = forced.shape[2] - wrench.shape[0]
    forced[:, :6, :count] += step / 6 * end[1][:, :, 2 * n :]
    forced[:, 6:, count:] += step / 6 * end[2]
    if end[3] is not None:
        forced[:, 6:, :count] += step / 6 * end[3]
    return across, before, after, forced
