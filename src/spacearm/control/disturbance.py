"""The base's attitude along joint paths, with exact derivatives, and searches that use them.

With no external force, angular momentum L about the mass centre and motion of the mass centre are constant: joint paths
give the base's angular velocity, I(q)^-1 (R^T L - K(q) q'), and its position follows from the mass centre. Paths are
linear in their coefficients, so that all of the mechanics is evaluated at all instants in one batch; what remains is
the attitude's own equation, by Runge-Kutta steps that are differentiated exactly.

On top of that: least squares over the coefficients (:func:`least_disturbance`) and over the configuration at the end
(:func:`reach`), both with derivatives of the discrete steps themselves, so that a search converges to rounding and not
to the error of a difference quotient. Angular velocity and I, K in base axes, L in world axes, R from base to world; SI
units. S steps have 2 S + 1 nodes: RK4 also evaluates the middle of each step. External forces, springs and drives are
not included: joints follow their paths exactly. Searches find local optima from several fixed starting points; no
global optimum is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, integer, number, one_of, positive, unit_vector
from spacearm.control.plans import JointPlan, quintic
from spacearm.control.workspace import longest_reach
from spacearm.engine import Kernel
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.mechanics import Program
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.plant import Plant
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_quaternion
from spacearm.simulate import Signal, State, gaps
from spacearm.simulate.distance import Pair, base_gap_kernel
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import from_ppoly
from spacearm.typing import Array

#: Runge-Kutta steps along a plan.
STEPS = 80
#: Starting paths tried for avoiding shapes, and iterations in which the gaps of each are corrected.
START_PATHS, ROUNDS = 8, 6
#: A gap that is too small by this, m, counts as much as the disturbance of the straight path.
MISSED = 1e-3


@lru_cache(maxsize=32)
def _angular_velocity_kernel(robot: Robot) -> Kernel:
    """Kernel for the base's angular velocity (base axes) and its derivatives by joints, rates and angular momentum."""
    plant = Plant(robot, robot_parameters(robot))
    momentum, matrix = ca.SX.sym("momentum", 3), plant.mass_matrix
    mixed = matrix[:3, 3:6]
    # Schur complement: eliminating the linear velocity moves moments from the base's origin to the mass centre.
    inertia = matrix[3:6, 3:6] - mixed.T @ solve_symmetric(matrix[:3, :3], mixed)
    angular_rate = solve_symmetric(inertia, momentum - plant.reaction_map() @ plant.rates)
    places = {"joints": plant.joints, "rates": plant.rates, "momentum": momentum}
    outputs = {"spin": angular_rate} | {name: ca.densify(ca.jacobian(angular_rate, by)) for name, by in places.items()}
    return Kernel(Program("base_spin", {"state": plant.state, "momentum": momentum}, outputs, frozenset(places)))


class AttitudeHistory(NamedTuple):
    """Quaternions (S + 1, 4) of the base after each step, and angular velocity (S + 1, 3); and their derivatives by the
    free coefficients (..., m)."""

    quaternion: Array
    angular_velocity: Array
    d_quaternion: Array
    d_angular_velocity: Array


class BaseAttitude:
    """The base's attitude along joint paths ``coefficients (n, C) @ basis (C,)``.

    Args:
        values, rates: (2 S + 1, C) of the basis at the ends and middles of S equal steps.
    """

    def __init__(self, robot: Robot, start: State, duration: float, values: Array, rates: Array) -> None:
        self.robot, self.start, self.duration = robot, start, duration
        self.values, self.rates = values, rates
        mechanics = mechanics_of(robot)
        linear, angular = np.split(mechanics.momentum(start.joints, start.velocity, base=start.pose, about="com"), 2)
        #: Angular momentum about the mass centre (world), the mass centre's velocity, and its position at the end.
        self.momentum, self.drift = angular, linear / robot.mass
        self.centre = mechanics.centre_of_mass(start.joints, base=start.pose) + duration * self.drift

    def _evaluate_nodes(self, coefficients: Array, momentum: Array) -> dict[str, Array]:
        """The base's angular velocity at all nodes, and its derivatives."""
        at = Layout(self.robot.n)
        state = np.zeros((len(self.values), at.size))
        state[:, at.quaternion.start] = 1.0
        state[:, at.joints] = self.values @ coefficients.T
        state[:, at.rates] = self.rates @ coefficients.T
        return _angular_velocity_kernel(self.robot)({"state": state, "momentum": momentum})

    def __call__(self, coefficients: Array, free: Sequence[tuple[int, int]]) -> AttitudeHistory:
        """Attitudes along the paths; ``free`` lists the entries (joint, column) to differentiate with respect to."""
        joints, columns = np.array(free, dtype=int).reshape(-1, 2).T
        # Angular velocity is affine in L: one batch for L = 0, and one for each axis of L (only where there is
        # momentum), give it for any attitude without another evaluation of the mechanics.
        still = self._evaluate_nodes(coefficients, np.zeros(3))
        held = bool(np.all(np.abs(self.momentum) <= 1e-14))
        by = still["joints"][:, :, joints] * self.values[:, None, columns]
        by = by + still["rates"][:, :, joints] * self.rates[:, None, columns]
        axes = (
            [] if held else [self._evaluate_nodes(coefficients, row)["joints"] - still["joints"] for row in np.eye(3)]
        )
        rotated = np.stack([each[:, :, joints] * self.values[:, None, columns] for each in axes], -1) if axes else None

        def slope(node: int, p: Array, dp: Array) -> tuple[Array, Array, Array, Array]:
            angular_rate, moved = still["spin"][node], by[node]
            if rotated is not None:
                inward, change = _world_to_base(p, self.momentum)
                # The momentum is constant in the world, so that the rate that it causes changes with the base's
                # attitude.
                angular_rate = angular_rate + still["momentum"][node] @ inward
                moved = moved + rotated[node] @ inward + still["momentum"][node] @ (change @ dp)
            # p' = xi w / 2 with the rate in base axes, and its derivative by the coefficients along with it.
            xi = _xi(p)
            return 0.5 * xi @ angular_rate, 0.5 * (_omega(angular_rate) @ dp + xi @ moved), angular_rate, moved

        steps = (len(self.values) - 1) // 2
        h, m = self.duration / steps, len(joints)
        p, dp = np.array(self.start.quaternion), np.zeros((4, m))
        found = AttitudeHistory(
            np.zeros((steps + 1, 4)), np.zeros((steps + 1, 3)), np.zeros((steps + 1, 4, m)), np.zeros((steps + 1, 3, m))
        )
        for k in range(steps + 1):
            a, da, angular_rate, moved = slope(2 * k, p, dp)
            for part, value in zip(found, (p, angular_rate, dp, moved), strict=True):
                part[k] = value
            if k == steps:
                break
            # Classical RK4 for value and derivative together: the derivative is that of the discrete map. The
            # quaternion is not normalised between steps, which keeps the map polynomial; its norm stays 1 to the error
            # of the steps.
            b, db, *_ = slope(2 * k + 1, p + 0.5 * h * a, dp + 0.5 * h * da)
            c, dc, *_ = slope(2 * k + 1, p + 0.5 * h * b, dp + 0.5 * h * db)
            d, dd, *_ = slope(2 * k + 2, p + h * c, dp + h * dc)
            p, dp = p + h / 6 * (a + 2 * b + 2 * c + d), dp + h / 6 * (da + 2 * db + 2 * dc + dd)
        return found


def _xi(p: Array) -> Array:
    """Matrix (4, 3): the quaternion's rate is half of it times the angular velocity in base axes."""
    w, x, y, z = p
    return np.array([[-x, -y, -z], [w, -z, y], [z, w, -x], [-y, x, w]])


def _omega(angular_rate: Array) -> Array:
    """(4, 4): the same rate as a linear map of the quaternion."""
    x, y, z = angular_rate
    return np.array([[0, -x, -y, -z], [x, 0, z, -y], [y, -z, 0, x], [z, y, -x, 0]])


def _world_to_base(p: Array, vector: Array) -> tuple[Array, Array]:
    """A vector of the world in base axes, and its derivative (3, 4) by the quaternion."""
    w, v = p[0], p[1:]
    cross = np.cross(v, vector)
    # R^T u for a unit quaternion, and |p|^2 R^T u for any: a polynomial, whose derivative by all four numbers is exact.
    value = (w * w - v @ v) * vector + 2 * (v @ vector) * v - 2 * w * cross
    by_v = 2 * (np.outer(v, vector) - np.outer(vector, v) + (v @ vector) * np.eye(3) + w * np.cross(np.eye(3), vector))
    return value, np.column_stack([2 * w * vector - 2 * cross, by_v])


# -- least disturbance ----------------------------------------------------------------------------------------------


def least_disturbance(
    robot: Robot,
    start: State,
    last: npt.ArrayLike,
    duration: float,
    *,
    measure: Literal["end", "path"] = "end",
    joints: Sequence[str] | None = None,
    pieces: int = 6,
    smoothness: float = 1e-2,
    clear: Sequence[tuple[Pair, float]] = (),
) -> JointPlan:
    """Joint paths from rest to rest that disturb the base's attitude least.

    Quintic splines whose inner coefficients are free, found by nonlinear least squares with exact derivatives. The
    coefficients are bounded by the joint position limits, which keeps the whole path within them.

    Args:
        last: configuration at the end.
        measure: ``end``, the rotation of the base at the end; ``path``, the integral of its squared angular velocity.
        joints: joints that may leave the straight path; all except reaction wheels by default.
        pieces: free coefficients of each joint.
        smoothness: weight of departures from the straight path, relative to the disturbance.
        clear: pairs of shapes, on frames of the robot or fixed in the world, and the smallest gap of each, m: the path
            avoids them. Gaps are kept along the whole path; raises an :class:`InputError` if no such path is found.
    """
    with error_context("least_disturbance"):
        goal = array(last, "last", (robot.n,))
        positive(duration, "duration", unit="s")
        one_of(measure, ("end", "path"), "measure")
        if np.any(np.abs(start.rates) > 0.0):
            raise InputError("joints move at the start", hint="expected joint rates of zero; the base may move")
        chosen = robot.arm_names if joints is None else joints
        free = [
            (robot.joint_index(name), 3 + k)
            for name in chosen
            for k in range(integer(pieces, "pieces", least=1, most=200))
        ]
        low, high = (np.array([getattr(j.limits, side) for j in robot.joints]) for side in ("lower", "upper"))
        for name, ends in (("start", start.joints), ("last", goal)):
            out = np.flatnonzero((ends < low - 1e-9) | (ends > high + 1e-9))
            if out.size:
                raise InputError(f"{name}: joint {robot.joint_names[out[0]]!r} is beyond its limits")
    spline = _Splines(duration, pieces)
    straight = spline.fit_straight(start.joints, goal)
    motion = BaseAttitude(robot, start, duration, *spline.basis())
    rows, columns = np.array(free, dtype=int).reshape(-1, 2).T
    begin, weight = straight[rows, columns], np.sqrt(motion.duration / STEPS)

    def evaluate_residuals(x: Array) -> tuple[Array, Array]:
        coefficients = straight.copy()
        coefficients[rows, columns] = x
        found = motion(coefficients, free)
        if measure == "end":
            # Xi(p0)^T p is the vector part of the relative quaternion: half the rotation vector for small angles, so
            # twice it is an angle; smooth at zero, where the angle itself is not.
            back = _xi(start.quaternion).T  # vector part of the rotation since the start, base axes
            value, change = 2.0 * back @ found.quaternion[-1], 2.0 * back @ found.d_quaternion[-1]
        else:
            value, change = (
                weight * found.angular_velocity.ravel(),
                weight * found.d_angular_velocity.reshape(-1, len(free)),
            )
        short, fall = keep(coefficients, found, free)
        values = np.concatenate([value, size * (x - begin), stiff * short])
        return values, np.vstack([change, size * np.eye(len(free)), stiff * fall])

    def build_plan(x: Array) -> JointPlan:
        straight[rows, columns] = x
        return JointPlan(robot, start, dict(zip(robot.joint_names, spline.signals(straight), strict=True)), duration)

    keep, size, stiff = _ClearanceTerm(motion, clear), 1.0, 0.0
    full = max(float(np.linalg.norm(evaluate_residuals(begin)[0])), 1e-12)
    # All three terms in units of the straight path's disturbance, so that weights mean the same for any robot. Where
    # that path hardly disturbs, a gap still counts: 0.01 rad at the least.
    size, stiff = smoothness * full, max(full, 1e-2) / MISSED
    # A fixed seed makes the result reproducible. The straight path is tried first.
    spread = np.random.default_rng(0).normal(0.0, 0.5, (START_PATHS, begin.size))
    spread[0] = 0.0
    for each in spread:
        x = np.clip(begin + each, low[rows] + 1e-9, high[rows] - 1e-9)
        for _ in range(ROUNDS):
            with error_context("least_disturbance"):
                x = _least_squares(evaluate_residuals, x, (low[rows], high[rows]), most=300).x if free else x
            if keep.is_met(plan := build_plan(x)):
                return plan
    raise InputError(
        f"no path found: {keep.nearest}", place="least_disturbance", hint="expected shapes that leave a path"
    )


class _ClearanceTerm:
    """Shortfall of the gaps between shapes along paths, with derivatives by the free coefficients."""

    def __init__(self, motion: BaseAttitude, clear: Sequence[tuple[Pair, float]]) -> None:
        self.motion, self.pairs = motion, tuple(pair for pair, _ in clear)
        self.least = np.array([number(least, "least", unit="m") for _, least in clear])
        #: Extra gap asked of the search: a penalty yields slightly, and the smallest gap may lie between samples.
        self.beyond = np.zeros_like(self.least)
        self.nearest, self._worst = "", -np.inf
        for pair, least in clear:
            gap = float(gaps(motion.robot, [pair], motion.start.vector)[0, 0])
            if gap < least:
                raise InputError(f"{_names(pair)} are {gap:.4g} m apart at the start", hint=f"expected {least:g} m")

    def __call__(
        self, coefficients: Array, found: AttitudeHistory, free: Sequence[tuple[int, int]]
    ) -> tuple[Array, Array]:
        if not self.pairs:
            return np.zeros(0), np.zeros((0, len(free)))
        motion, basis = self.motion, self.motion.values[::2]
        joints, columns = np.array(free, dtype=int).T
        before = np.linspace(motion.duration, 0.0, len(basis))
        # The base's position is not integrated: the mass centre moves uniformly, and base_gap_kernel puts the base
        # where the joints and its attitude have it then.
        centre = motion.centre - before[:, None] * motion.drift
        size = np.linalg.norm(found.quaternion, axis=1, keepdims=True)  # 1 but for the error of the steps
        given = {"joints": basis @ coefficients.T, "quaternion": found.quaternion / size, "centre": centre}
        seen = base_gap_kernel(motion.robot, self.pairs)(given)
        by = seen["by_joints"][:, :, joints] * basis[:, None, columns] + seen["by_quaternion"] @ found.d_quaternion
        short = self.least + self.beyond - seen["gaps"]
        return np.maximum(short, 0.0).ravel(), (-by * (short > 0.0)[:, :, None]).reshape(-1, len(free))

    def is_met(self, plan: JointPlan) -> bool:
        """Whether a plan keeps every gap in a run; if not, the next search asks for more."""
        every = [plan.clearance([pair]) for pair in self.pairs]
        lacking = self.least - np.array([each.gap for each in every])
        # A penalty leaves a small violation, and the smallest gap lies between samples: ask for a tenth more next time.
        self.beyond += np.where(lacking > 0.0, 1.1 * lacking + 1e-6, 0.0)
        if np.all(lacking <= 0.0):
            return True
        k = int(np.argmax(lacking))
        if -lacking[k] > self._worst:
            self._worst, at = -lacking[k], every[k]
            self.nearest = f"{_names(at.pair)} come within {at.gap:.4g} m at {at.time:.4g} s at best"
        return False


def _names(pair: Pair) -> str:
    return " and ".join(repr(side.label) for side in pair)


def _least_squares(
    seen: Callable[[Array], tuple[Array, Array]], begin: Array, bounds: tuple[Array, Array], most: int
) -> Any:
    """SciPy's least squares with residuals and Jacobian from one evaluation; lower and upper bounds may coincide.

    Raises an :class:`InputError` if the starting values are not finite.
    """
    from scipy.optimize import least_squares

    low, high = bounds
    # SciPy requires a start strictly inside: bounds that coincide are opened by 2e-9.
    meet = high - low < 4e-9
    middle = 0.5 * (np.where(meet, low, 0.0) + np.where(meet, high, 0.0))
    low, high = np.where(meet, middle - 2e-9, low), np.where(meet, middle + 2e-9, high)
    begin = np.clip(begin, low + 1e-9, high - 1e-9)
    # SciPy asks for residuals and Jacobian in two calls at the same point; one evaluation gives both.
    kept: dict[bytes, tuple[Array, Array]] = {}

    def evaluate_once(x: Array) -> tuple[Array, Array]:
        if x.tobytes() not in kept:
            kept.clear()
            kept[x.tobytes()] = seen(x)
        return kept[x.tobytes()]

    if not all(np.all(np.isfinite(part)) for part in evaluate_once(begin)):
        raise InputError(
            "the motion of the base along the joint paths is not finite",
            hint="expected joints, momentum and duration of ordinary magnitude, and mass that is not all on one line",
        )
    return least_squares(
        lambda x: evaluate_once(x)[0],
        begin,
        lambda x: np.nan_to_num(evaluate_once(x)[1], posinf=0.0, neginf=0.0),
        (low, high),
        xtol=1e-10,
        ftol=1e-8 if most > 100 else 1e-15,
        gtol=1e-15,
        max_nfev=most,
    )


class _Splines:
    """Quintic splines from rest to rest: three coefficients at each end equal the end position, the others are free."""

    def __init__(self, duration: float, free: int) -> None:
        inner = np.linspace(0.0, duration, free + 2)[1:-1] if free else np.zeros(0)
        self.duration, self.count = duration, free + 6
        self.knots = np.concatenate([np.zeros(6), inner, np.full(6, duration)])

    def _basis_at(self, times: Array, order: int) -> Array:
        from scipy.interpolate import BSpline

        return np.asarray(BSpline(self.knots, np.eye(self.count), 5).derivative(order)(times))

    def basis(self) -> tuple[Array, Array]:
        """Values and rates of all basis functions at the nodes of a :class:`BaseAttitude`."""
        times = np.linspace(0.0, self.duration, 2 * STEPS + 1)
        return self._basis_at(times, 0), self._basis_at(times, 1)

    def fit_straight(self, first: Array, last: Array) -> Array:
        """Coefficients (n, C) of the straight path, which is one of the splines."""
        times = np.linspace(0.0, self.duration, 4 * self.count)
        share = np.linalg.lstsq(self._basis_at(times, 0), quintic(0.0, 1.0, self.duration)(times), rcond=None)[0]
        # Exact ends: what least squares leaves at 1e-16 would be a rate at the end.
        share[:3], share[-3:] = 0.0, 1.0
        return np.asarray(first[:, None] + (last - first)[:, None] * share)

    def signals(self, coefficients: Array) -> list[Signal]:
        from scipy.interpolate import BSpline, PPoly

        found = []
        for row in coefficients:
            spline = PPoly.from_spline(BSpline(self.knots, row, 5))
            real = np.flatnonzero(np.diff(spline.x) > 0.0)
            pieces = np.column_stack([spline.c[:, real], [0.0] * 5 + [row[-1]]])
            breaks = np.append(spline.x[real], [self.duration, 2 * self.duration])
            found.append(from_ppoly(PPoly(pieces, breaks)))
        return found


# -- inverse kinematics ---------------------------------------------------------------------------------------------

#: A pose counts as reached within this, m and rad.
REACHED = 1e-9
#: Initial guesses in the search for the configuration that reaches a pose.
STARTS = 4


def reach(
    robot: Robot,
    start: State,
    frame: str,
    goal: npt.ArrayLike,
    attitude: npt.ArrayLike | None = None,
    *,
    duration: float,
) -> JointPlan:
    """Inverse kinematics on the floating base: the straight joint path that takes a frame to a pose in the world.

    Newton's method on the configuration at the end, with the derivative of the frame's pose there: the generalized
    Jacobian, and how the base's attitude depends on the whole path. The momentum is that of the start.

    Args:
        goal: m, world, at the end.
        attitude: quaternion (w, x, y, z) at the end; free by default.

    Raises:
        InputError: the pose is out of reach, beyond joint limits or beyond a dynamic singularity.
    """
    with error_context("reach"):
        target = array(goal, "goal", (3,))
        wanted = None if attitude is None else rotation_from_quaternion(unit_vector(attitude, "attitude", (4,)))
        positive(duration, "duration", unit="s")
        if np.any(np.abs(start.rates) > 0.0):
            raise InputError("joints move at the start", hint="expected joint rates of zero; the base may move")
        if not robot.n:
            raise InputError(f"{robot.name!r} has no joints", hint="expected an arm")
        share = quintic(0.0, 1.0, duration)
        times = np.linspace(0.0, duration, 2 * STEPS + 1)
        values, rates = np.asarray(share(times)), np.asarray(share.derivative()(times))
        motion = BaseAttitude(robot, start, duration, np.stack([1 - values, values], 1), np.stack([-rates, rates], 1))
        distance, longest = float(np.linalg.norm(target - motion.centre)), longest_reach(robot, frame)
        if distance > longest:
            raise InputError(
                f"goal is {distance:.4g} m from the mass centre",
                hint=f"frame {frame!r} reaches {longest:.4g} m at most",
            )
        ends = _GoalError(motion, frame, target, wanted)
        low, high = (np.array([getattr(j.limits, side) for j in robot.joints]) for side in ("lower", "upper"))
        spread = np.random.default_rng(0).normal(0.0, 0.5, (STARTS, robot.n))
        spread[0] = 0.0
        best: Any = None
        for each in spread:
            begin = np.clip(start.joints + each, low + 1e-9, high - 1e-9)
            found = _least_squares(ends, begin, (low, high), most=60)
            if best is None or found.cost < best.cost:
                best = found
            # The residual is zero where the pose is reached: a minimum above it is a local one, and the next start is
            # tried.
            if np.abs(best.fun).max() < REACHED:
                return JointPlan.from_endpoints(robot, start, best.x, duration)
        left, sizes = float(np.linalg.norm(best.fun[:3])), np.linalg.svd(best.jac, compute_uv=False)
        at_limit = [name for name, on in zip(robot.joint_names, best.active_mask, strict=True) if on]
        why = "it may be out of reach"
        if at_limit:
            why = f"joint {at_limit[0]!r} is at its limit"
        elif sizes[-1] < 1e-3 * sizes[0]:
            why = "the path ends at a dynamic singularity"
        raise InputError(f"frame {frame!r} gets no closer than {left:.3g} m", hint=why)


class _GoalError:
    """Distance of a frame from its goal at the end of a straight joint path, by the final configuration."""

    def __init__(self, motion: BaseAttitude, frame: str, goal: Array, attitude: Array | None) -> None:
        self.motion, self.frame, self.goal, self.attitude = motion, frame, goal, attitude
        self.free = [(i, 1) for i in range(motion.robot.n)]

    def __call__(self, joints: Array) -> tuple[Array, Array]:
        """Residuals (3 or 6) and their derivatives by the joints."""
        motion, mechanics, n = self.motion, mechanics_of(self.motion.robot), self.motion.robot.n
        found = motion(np.stack([motion.start.joints, joints], 1), self.free)
        p = found.quaternion[-1] / np.linalg.norm(found.quaternion[-1])
        # From the quaternion's derivative to a rotation vector's.
        rotated = 2.0 * _xi(p).T @ found.d_quaternion[-1]  # of the base, its axes
        own = mechanics.centre_of_mass(joints)
        # The mass centre's motion is given: the base's origin moves opposite to the effect of rotation and joints.
        moved = -np.cross(rotated.T, own).T - mechanics.mass_matrix(joints)[:3, 6:] / motion.robot.mass
        pose = np.concatenate([motion.centre - rotation_from_quaternion(p) @ own, p])
        origin, rotation = mechanics.frame_pose(self.frame, joints, base=pose)
        twist = mechanics.jacobian(self.frame, joints, base=pose) @ np.vstack([moved, rotated, np.eye(n)])
        if self.attitude is None:
            return origin - self.goal, twist[:3]
        relative = quaternion_from_rotation(rotation @ self.attitude.T)
        relative *= 1.0 if relative[0] >= 0.0 else -1.0  # the shorter rotation
        by_rotation = relative[0] * np.eye(3) + np.cross(np.eye(3), relative[1:]).T
        return np.append(origin - self.goal, 2.0 * relative[1:]), np.vstack([twist[:3], by_rotation @ twist[3:]])
