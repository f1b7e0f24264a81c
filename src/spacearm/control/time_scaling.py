"""The fastest timing of a joint path within limits of rate, acceleration and force, on a floating base.

Along a path q(s) from rest, at zero momentum, drive forces are a(s) s'' + b(s) s'^2: linear in s'' and x = s'^2. On a
grid with constant s'' between points, the largest x from which the end can still be met is found backwards, then the
path is run through as fast as that allows: time-optimal up to the grid (H. Pham, Q.-C. Pham, IEEE Trans. Robotics
34(3), 2018).

Positions q (K + 1, n) at equal lengths of the path, derivatives by the length s (rad and m are mixed in it: s is a
parameter, not a distance); forces N or N m, on a base that reacts at zero momentum. Each interval gives linear rows
alpha u + beta x <= gamma in u = s'' and x = s'^2, at both of its ends. Two variables per interval make every linear
program small enough for a closed form: no solver is called. Springs, dampers and friction would make forces depend on
time too; they are left out of the optimum and checked in a run.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from spacearm.checks import integer, numbers
from spacearm.control.follow import check_still
from spacearm.control.plans import JointPlan
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.typing import Array

#: How often a plan may be slowed down to correct for the grid, springs and dampers.
ROUNDS = 6


def minimise_duration(plan: JointPlan, acceleration: npt.ArrayLike = math.inf, *, grid: int = 200) -> JointPlan:
    """The same joint path in the shortest time within the limits of rate and force (effort).

    Springs, dampers and friction of the joints are not part of the optimum: if a run with them violates a limit, the
    whole plan is slowed down until it does not.

    Args:
        acceleration: largest joint accelerations, one for all or each.
        grid: intervals of the path.
    """
    robot = plan.robot
    check_still(robot, plan.start, "minimise_duration")
    with error_context("minimise_duration"):
        most = np.array(np.broadcast_to(numbers(acceleration, "acceleration"), (robot.n,)))
        rates, forces = (np.array([getattr(j.limits, what) for j in robot.joints]) for what in ("velocity", "effort"))
        step, path = _geometry(plan, integer(grid, "grid", least=10, most=5000))
        if not np.isfinite(np.concatenate([rates, forces, most])).any():
            raise InputError("no joint has a limit of rate or force", hint="give them in the robot, or an acceleration")
        rows = _IntervalLimits(robot, path, step, forces, most)
        slope = np.abs(path[1])
        top = np.min(np.where(slope > 1e-12, (rates / np.maximum(slope, 1e-12)) ** 2, np.inf), axis=1)
        speed = _profile(rows, top, step)
    found = _apply_timing(plan, path, step, speed)
    for _ in range(ROUNDS):
        over = _slowdown_factor(found, rates, forces)
        if over <= 1.0 + 1e-9:
            return found
        found = found.scale_time(over * (1.0 + 1e-6))
    raise InputError(
        "the path violates limits at any speed",
        place="minimise_duration",
        hint="its springs alone need more than the drives give",
    )


def _geometry(plan: JointPlan, count: int) -> tuple[float, list[Array]]:
    """Length of an interval, and the path by its own length: positions, first to third derivatives (count + 1, n)."""
    from scipy.interpolate import CubicSpline

    times = np.linspace(0.0, plan.duration, 20 * count + 1)
    joints = np.stack([path(times) for path in plan.paths], axis=1)
    length = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(joints, axis=0), axis=1)))
    if not length[-1] > 0.0:
        raise InputError("no joint moves")
    # A path that pauses has several times at one length: interpolation needs rising lengths.
    moving = np.append(True, np.diff(length) > 1e-12 * length[-1])
    # Equal lengths, not equal times: a path from rest to rest hardly moves near its ends, where grid points would be
    # wasted.
    even = np.linspace(0.0, length[-1], count + 1)
    when, gone = np.interp(even, length[moving], times[moving]), CubicSpline(times, length)
    for _ in range(4):  # Newton's method; at its ends, where the path is at rest, nothing moves
        rate = gone(when, 1)
        when = np.clip(when - np.where(rate > 0.0, (gone(when) - even) / np.maximum(rate, 1e-300), 0.0), 0, times[-1])
    when[[0, -1]] = times[[0, -1]]
    points = np.stack([path(when) for path in plan.paths], axis=1)
    spline = CubicSpline(even, points)
    return float(even[1]), [spline(even, order) for order in range(4)]


class _IntervalLimits:
    """Limits at both ends of each interval: alpha u + beta x <= gamma, u = s'' on it and x = s'^2 at its start."""

    def __init__(self, robot: Robot, path: list[Array], step: float, forces: Array, most: Array) -> None:
        joints, slope, bend, _ = path
        mechanics = mechanics_of(robot)
        base, mixed, arm = mechanics.mass_blocks(joints)
        # Zero momentum gives the base's velocity for unit s': -Hb^-1 Hbm q'.
        rates = np.concatenate([-_solve_base_motion(base, mixed, slope), slope], axis=1)
        bias = mechanics.bias(joints, rates)
        # The base's acceleration for s' = 1 and s'' = 0: what keeps the momentum zero as the arm's shape changes.
        moved = -np.linalg.solve(base, (np.einsum("kij,kj->ki", mixed, bend) + bias[:, :6])[..., None])[..., 0]
        linear = np.einsum("kij,kj->ki", arm, slope) - np.einsum(
            "kij,ki->kj", mixed, _solve_base_motion(base, mixed, slope)
        )
        square = np.einsum("kij,kj->ki", arm, bend) + np.einsum("kij,ki->kj", mixed, moved) + bias[:, 6:]
        by_u, by_x = np.hstack([linear, slope]), np.hstack([square, bend])
        limit = np.concatenate([forces, most])
        keep = np.isfinite(limit)
        by_u, by_x, limit = by_u[:, keep], by_x[:, keep], limit[keep]
        # x at the interval's end is x + 2 step u (constant u): its row is one in u and x of the start.
        alpha = np.hstack([by_u[:-1], by_u[1:] + 2 * step * by_x[1:]])
        beta = np.hstack([by_x[:-1], by_x[1:]])
        self.alpha, self.beta = np.hstack([alpha, -alpha]), np.hstack([beta, -beta])
        self.gamma = np.tile(limit, 4)

    def interval_rows(self, k: int, step: float, most: float) -> tuple[Array, Array, Array]:
        """Rows of an interval, with 0 <= x + 2 step u <= most, as upper and lower bounds of u (value, slope by x), and
        the largest x of rows without u.
        """
        alpha = np.append(self.alpha[k], [2 * step, -2 * step])
        beta, gamma = np.append(self.beta[k], [1.0, -1.0]), np.append(self.gamma, [most, 0.0])
        # Rows without u bound x alone: dividing by their coefficient would make any u possible or none.
        size = np.abs(alpha) > 1e-13
        value, slope = gamma[size] / alpha[size], beta[size] / alpha[size]
        upper = alpha[size] > 0
        plain = ~size & (beta > 1e-13)
        return (
            np.stack([value[upper], slope[upper]]),
            np.stack([value[~upper], slope[~upper]]),
            (gamma[plain] / beta[plain]).min(initial=np.inf),
        )


def _solve_base_motion(base: Array, mixed: Array, slope: Array) -> Array:
    """Hb^-1 Hbm q' at all points."""
    return np.asarray(np.linalg.solve(base, np.einsum("kij,kj->ki", mixed, slope)[..., None])[..., 0])


def _profile(rows: _IntervalLimits, top: Array, step: float) -> Array:
    """s' at the grid points: a backward pass bounds what can still be stopped, a forward pass maximises it."""
    count = len(top) - 1
    bound = np.zeros(count + 1)
    for k in range(count - 1, -1, -1):
        above, below, plain = rows.interval_rows(k, step, bound[k + 1])
        # Every lower bound of u stays below every upper one: with u gone, rows in x alone.
        slope = above[1][:, None] - below[1]
        room = above[0][:, None] - below[0]
        steep = slope > 1e-13
        bound[k] = max(0.0, min(top[k], plain, float((room[steep] / slope[steep]).min(initial=np.inf))))
        if not np.isfinite(bound[k]):
            raise InputError(
                "no limit applies to the path", hint="expected a limit of rate or force of a joint that moves"
            )
    # Forwards the largest u each time: greedy is optimal, because bound keeps every later interval feasible.
    squared = np.zeros(count + 1)
    for k in range(count):
        above, _, _ = rows.interval_rows(k, step, bound[k + 1])
        u = float((above[0] - above[1] * squared[k]).min())
        squared[k + 1] = min(max(squared[k] + 2 * step * u, 0.0), bound[k + 1])
    if np.any(squared[1:-1] <= 0.0):
        where = int(np.flatnonzero(squared[1:-1] <= 0.0)[0]) + 1
        raise InputError(
            f"the limits stop the path after {100 * where / count:.3g} % of its length", hint="raise the limits"
        )
    return np.sqrt(squared)


def _apply_timing(plan: JointPlan, path: list[Array], step: float, speed: Array) -> JointPlan:
    """The path with this timing: cubic segments in s composed with s(t), which is quadratic on each."""
    v, w = speed[:-1], speed[1:]
    # s'^2 is linear in s at constant s'', so that an interval takes its length over the mean of both speeds.
    lasting = 2 * step / (v + w)
    # s(t) = v t + half t^2 on an interval, composed with a cubic in s: exactly a polynomial of degree six.
    half = 0.5 * (w - v) / lasting
    edges = np.append(0.0, np.cumsum(lasting))
    signals = {}
    for i, name in enumerate(plan.robot.joint_names):
        c0, c1, c2, c3 = (part[:-1, i] / math.factorial(order) for order, part in enumerate(path))
        pieces = np.stack([
            c0,
            c1 * v,
            c1 * half + c2 * v**2,
            2 * c2 * v * half + c3 * v**3,
            c2 * half**2 + 3 * c3 * v**2 * half,
            3 * c3 * v * half**2,
            c3 * half**3,
        ])  # fmt: skip
        still = np.append(path[0][-1, i], np.zeros(6))
        signals[name] = Signal(np.append(edges, 2 * edges[-1]), np.column_stack([pieces, still]))
    return JointPlan(plan.robot, plan.start, signals, float(edges[-1]), plan.error)


def _slowdown_factor(plan: JointPlan, rates: Array, forces: Array) -> float:
    """Factor by which a plan must be slowed down to respect these limits, according to its run."""
    data = plan.run.data
    rate = np.abs(data["joint_velocity"].values) / rates
    force = np.abs(data["reaction"].values[:, 6:]) / forces
    # Rates fall with the factor, forces with its square.
    return float(max(rate.max(), math.sqrt(force.max())))
