"""Search for configurations: smallest or largest virtual mass, or smallest motion of the base in a collision.

Method: a multi-start search. The quantity and its exact gradient are one compiled kernel. Scrambled Sobol points over
the joint ranges are screened in one batch; from the best, and some others, bounded quasi-Newton searches
(:func:`spacearm.optimise.box_constrained.minimise_in_box`) run as one batch to local optima; the best of these is
returned. Collision shapes are kept apart by a quadratic penalty whose weight grows from search to search.

Joint positions (..., n) are in rad or m; directions are in world axes, or in those of the struck frame. The base's
attitude is given and not searched. A global optimum is not guaranteed: ``found`` lists the end of every search, which
shows how many agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Literal

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_fields, check_not_empty, integer, number, one_of, positive, unique
from spacearm.engine import Kernel, mechanics_of
from spacearm.errors import InputError
from spacearm.impact._generalized import Symbols, generalized_blocks
from spacearm.impact._joint_modes import JointModes, Locked, Resistance, normalise
from spacearm.mechanics import Program
from spacearm.mechanics.kinematics import base_pose, frame_pose
from spacearm.mechanics.spatial import SX
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.optimise.box_constrained import BoxedMinima, minimise_in_box
from spacearm.simulate import collision_pairs
from spacearm.simulate.distance import ClearanceConstraint, Pair
from spacearm.typing import Array

Quantity = Literal["projected", "absolute", "base_rotation"]
#: Increasing weights of the penalty on shapes that come too close, 1/m2; and the gap kept beyond the margin, m, so that
#: the small violation that a penalty leaves does not violate the margin.
STEEP, SLACK = (1e2, 1e4, 1e6, 1e8), 1e-6
QUANTITIES = {"projected": "kg", "absolute": "kg", "base_rotation": "rad/s"}


@dataclass(frozen=True)
class Impactor:
    """The striking body: its ``mass``, ``direction`` and ``speed``, and the ``restitution`` of its rebound.

    Args:
        direction: of the force on the robot, 3 numbers of any length.
        axes: ``world``, or ``frame``: the direction rotates with the struck frame, as when the hand faces its target.
        speed: relative to the frame, m/s.
        mass: of the striking body along the direction (its own virtual mass), kg; infinite for a wall.
        restitution: 0 to 1.
    """

    direction: tuple[float, float, float]
    axes: Literal["world", "frame"] = "world"
    speed: float = 1.0
    mass: float = 1.0
    restitution: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "direction", tuple(float(x) for x in normalise(self.direction)))
        one_of(self.axes, ("world", "frame"), "axes", place="impactor")
        check_fields(self, positive, "speed", place="impactor", unit="m/s")
        check_fields(self, positive, "mass", place="impactor", unit="kg", infinite=True)
        check_fields(self, number, "restitution", place="impactor", least=0.0, most=1.0)


@dataclass(frozen=True, eq=False)
class Optimum:
    """The best configuration found.

    Attributes:
        joints: positions (n), rad or m.
        value: the quantity there, in ``unit``.
        unit: kg or rad/s.
        gradient: gradient of the quantity over the varied joints; zero inside the limits, outward at a limit or where
            shapes would come closer than their margin.
        at_limit: for each joint, whether it is at a limit of its range.
        starts: values that each search started from, in the order of ``found``.
        found: values where each search ended, best first.
        screened: least and greatest value of all screened configurations.
        rounds: of evaluations of value and gradient, each of all searches at once.
    """

    joints: Array
    value: float
    unit: str
    gradient: Array
    at_limit: npt.NDArray[np.bool_]
    starts: Array
    found: Array
    screened: tuple[float, float]
    rounds: int


class ConfigurationObjective:
    """A quantity of a collision as a function of the joint positions, with its gradient, compiled; for configurations
    (..., n).
    """

    def __init__(
        self,
        robot: Robot,
        frame: str,
        impactor: Impactor,
        quantity: Quantity = "projected",
        *,
        quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
        locked: Locked = "none",
        resistance: Resistance = 0.0,
    ) -> None:
        one_of(quantity, QUANTITIES, "quantity")
        if robot.n == 0:
            raise InputError(f"robot {robot.name!r} has no joints", place="configuration")
        if robot.loops:
            hint = "compare configurations that close_loops gives, or loops = false"
            raise InputError(
                f"{robot.name!r} has closed loops; the search supports trees only", place="configuration", hint=hint
            )
        robot.frame(frame)
        self.robot, self.frame, self.quantity = robot, frame, quantity
        self._modes = JointModes.from_options(robot, locked, resistance)
        self._base = np.concatenate([np.zeros(3), np.asarray(quaternion, dtype=np.float64)])
        self._mechanics = mechanics_of(robot)
        self._value, self._gradient = _kernels(robot, frame, quantity, impactor.axes)
        # 1 / mass and not the mass: a wall has zero, without an exception.
        strength = [(1.0 + impactor.restitution) * impactor.speed, 1.0 / impactor.mass]
        self._impactor = {"direction": np.array(impactor.direction), "strength": np.array(strength)}

    @property
    def unit(self) -> str:
        return QUANTITIES[self.quantity]

    @property
    def is_squared(self) -> bool:
        """Whether the merit is the square of the quantity: a norm has no gradient at zero, its square has."""
        return self.quantity == "base_rotation"

    def value(self, joints: npt.ArrayLike) -> Array:
        """The quantity (...) at configurations (..., n)."""
        merit = self._evaluate(self._value, joints)["merit"][..., 0]
        return np.sqrt(merit) if self.is_squared else merit

    def value_and_gradient(self, joints: npt.ArrayLike) -> tuple[Array, Array]:
        """The quantity (...) and its gradient (..., n); zero gradient where a squared quantity is zero."""
        merit, slope = self.merit_and_gradient(joints)
        if not self.is_squared:
            return merit, slope
        value = np.sqrt(merit)
        return value, np.divide(slope, 2.0 * value[..., None], out=np.zeros_like(slope), where=value[..., None] > 0.0)

    def compliance(self, joints: npt.ArrayLike) -> Array:
        """n^T G11* n (...), 1/kg: at least one over the robot's mass, unless joints resist unequally."""
        return self._evaluate(self._value, joints)["compliance"][..., 0]

    def merit_and_gradient(self, joints: npt.ArrayLike) -> tuple[Array, Array]:
        """Objective of the searches: the quantity or its square (...), and the gradient (..., n)."""
        found = self._evaluate(self._gradient, joints)
        return found["merit"][..., 0], found["gradient"]

    def _evaluate(self, kernel: Kernel, joints: npt.ArrayLike) -> dict[str, Array]:
        modes = self._modes
        return self._mechanics.evaluate(
            kernel, self._base, joints=joints, locked=modes.locked, resistance=modes.resistance, **self._impactor
        )


@lru_cache(maxsize=64)
def _kernels(robot: Robot, frame: str, quantity: str, axes: str) -> tuple[Kernel, Kernel]:
    """The merit, and the merit with its gradient over the joints; the impactor is an input."""
    tree = Tree(robot)
    x = Symbols(tree)
    direction, strength = ca.SX.sym("direction", 3), ca.SX.sym("strength", 2)
    n: SX = direction
    if axes == "frame":
        base = base_pose(ca.SX.zeros(3), x.quaternion)
        # The direction then depends on the joints, and its derivative belongs to the gradient.
        n = frame_pose(tree, tree.placements(x.joints), base, robot.frame(frame)).rotation @ direction
    blocks = generalized_blocks(tree, x.joints, x.quaternion, x.inertia, x.rotor, frame)
    response = blocks.response(ca.vertcat(n, ca.SX.zeros(3)), x.locked, x.resistance)
    # One right-hand side instead of the whole tensor: G* n is all that the three quantities need.
    acceleration = response.twist[:3]
    compliance = ca.dot(n, acceleration)
    if quantity == "projected":
        merit = 1 / compliance
    elif quantity == "absolute":
        merit = 1 / ca.sqrt(ca.sumsqr(acceleration))
    else:
        # Along a normal: p = (1 + e) v / (n.G n + 1 / m), as in collision.py.
        impulse = strength[0] / (compliance + strength[1])
        merit = ca.sumsqr(response.base[3:] * impulse)
    inputs = x.collect_inputs(direction=direction, strength=strength)
    outputs = {"merit": ca.densify(merit), "compliance": ca.densify(compliance)}
    value = Program(f"impact_{quantity}", inputs, outputs)
    # Only the merit is differentiated. The compliance is an output for _check_passive and needs no gradient.
    slope = value.jacobian("merit", "joints").outputs["d_merit_d_joints"]
    both = Program(f"impact_{quantity}_gradient", inputs, {"merit": outputs["merit"], "gradient": slope.T})
    return Kernel(value), Kernel(both)


@dataclass(frozen=True, eq=False)
class ConfigurationBounds:
    """Joint ranges (n): ``lower`` and ``upper`` of the search, infinite where a joint rotates freely; ``first`` and
    ``last`` of the screening, a full revolution there.
    """

    lower: Array
    upper: Array
    first: Array
    last: Array


def configuration_bounds(
    robot: Robot, bounds: Mapping[str, tuple[float, float]] | None = None, vary: Sequence[str] | None = None
) -> ConfigurationBounds:
    """The joint limits, narrowed by ``bounds``. A varied prismatic joint needs both limits; others may be unlimited."""
    lower, upper = robot.lower_limits.copy(), robot.upper_limits.copy()
    for name, (low, high) in (bounds or {}).items():
        i = robot.joint_index(name)
        if vary is not None and name not in vary:
            raise InputError(f"of joint {name!r}, which is not varied", place="bounds", hint="add it to 'vary'")
        if not low <= high:
            raise InputError(f"of joint {name!r} go from {low:g} to {high:g}", place="bounds")
        if low < robot.lower_limits[i] or high > robot.upper_limits[i]:
            raise InputError(f"of joint {name!r} exceed its limits", place="bounds")
        lower[i], upper[i] = low, high
    first, last = lower.copy(), upper.copy()
    for i, joint in enumerate(robot.joints):
        below, above = np.isfinite(lower[i]), np.isfinite(upper[i])
        if below and above:
            continue
        if joint.kind == "prismatic" and (vary is None or joint.name in vary):
            raise InputError(f"prismatic joint {joint.name!r} has no limits", place="bounds", hint="give bounds for it")
        # A revolute joint with an open end is screened over one full revolution from its limit; the search itself may
        # go beyond; _Space.wrap_angles brings a joint without limits back.
        first[i] = lower[i] if below else (upper[i] - 2.0 * np.pi if above else -np.pi)
        last[i] = first[i] + 2.0 * np.pi
    return ConfigurationBounds(lower, upper, first, last)


def optimise_configuration(
    robot: Robot,
    frame: str,
    impactor: Impactor,
    *,
    quantity: Quantity = "projected",
    maximise: bool = False,
    start: npt.ArrayLike | str | None = None,
    vary: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    quaternion: npt.ArrayLike = (1.0, 0.0, 0.0, 0.0),
    locked: Locked = "none",
    resistance: Resistance = 0.0,
    restarts: int = 64,
    samples: int = 4096,
    seed: int = 0,
    margin: float | None = 0.0,
    keep_out: Sequence[Pair] = (),
) -> Optimum:
    """The configuration within the joint limits that minimises (or maximises) a quantity of a collision.

    Args:
        quantity: ``projected`` or ``absolute`` virtual mass, or ``base_rotation``: the magnitude of the jump of the
            base's angular velocity.
        start: positions of the joints that are not varied (and one more start of a search).
        vary: names of the joints that may move; all by default.
        bounds: ranges of joints, rad or m, in place of their limits.
        quaternion: attitude of the base.
        locked, resistance: modes of the joints during the collision.
        restarts: number of searches.
        samples: configurations screened beforehand.
        seed: of the screened configurations; the same seed gives the same result.
        margin: smallest gap, m, between the robot's own collision shapes; None if they may overlap.
        keep_out: further pairs of shapes with that gap, such as a link's and one fixed in the base's frame.
    """
    integer(restarts, "restarts", least=1, most=samples)
    integer(seed, "seed", least=0)
    objective = ConfigurationObjective(
        robot, frame, impactor, quantity, quaternion=quaternion, locked=locked, resistance=resistance
    )
    space = _Space(robot, start, vary, configuration_bounds(robot, bounds, vary))
    sign = -1.0 if maximise else 1.0
    places = space.sample_starts(samples, seed)
    apart = _clearance_constraint(robot, margin, keep_out)
    if apart is not None:
        places = places[apart.is_satisfied(space.full(places))]
        if not len(places):
            raise InputError(
                f"none of {samples} configurations keeps all shapes {apart.margin:g} m apart", place="margin"
            )
    values = objective.value(space.full(places))
    # A mass has its pole where the hand does not yield, a collision where both together do not.
    _check_passive(objective, space.full(places), -1.0 / impactor.mass if quantity == "base_rotation" else 0.0)
    chosen = _starts(sign * values, min(restarts, len(values)))
    # Merits of order one: the search's test for a pole is an absolute number, and the penalty's weights are meant for
    # this scale.
    scale = max(float(np.abs(values).max()), 1e-300) ** (2 if objective.is_squared else 1)

    def aim(part: Array) -> tuple[Array, Array]:
        merit, gradient = objective.merit_and_gradient(space.full(part))
        return sign * merit / scale, sign * gradient[..., space.free] / scale

    done = _minimise_from(aim, apart, space, places[chosen])
    points = done.points
    ends = objective.value(space.full(points))
    ranking = np.argsort(sign * ends, kind="stable")
    winner = space.wrap_angles(space.full(points[ranking[0]]))
    # Passive joints can only make the struck frame lighter than the whole robot moved as one mass, so n^T G11* n is at
    # least 1 / M; a winner below this has found the pole of a non-passive Eq. 10 and not an optimum.
    _check_passive(objective, winner, (1.0 - 1e-6) / robot.mass)
    value, gradient = objective.value_and_gradient(winner)
    return Optimum(
        winner,
        float(value),
        objective.unit,
        gradient[space.free],
        (winner <= space.bounds.lower + 1e-9) | (winner >= space.bounds.upper - 1e-9),
        values[chosen][ranking],
        ends[ranking],
        (float(values.min()), float(values.max())),
        done.rounds,
    )


def _clearance_constraint(robot: Robot, margin: float | None, keep_out: Sequence[Pair]) -> ClearanceConstraint | None:
    pairs = [*keep_out, *([] if margin is None else collision_pairs(robot))]
    return ClearanceConstraint(robot, pairs, margin or 0.0) if pairs else None


def _minimise_from(
    aim: Callable[[Array], tuple[Array, Array]], apart: ClearanceConstraint | None, space: _Space, starts: Array
) -> BoxedMinima:
    limits = space.bounds.lower[space.free], space.bounds.upper[space.free]
    done = minimise_in_box(aim, starts, *limits)
    if apart is None:
        return done
    # Continuation: each search starts where the one before ended. The steepest weight at once would make an
    # ill-conditioned valley along the edge of the margin, in which a quasi-Newton search crawls.
    for weight in STEEP:
        done = minimise_in_box(partial(_add_gap_penalty, aim, apart, space, weight), done.points, *limits)
    # A search that diverged keeps its starting point.
    kept = apart.is_satisfied(space.full(done.points))[:, None]
    return replace(done, points=np.where(kept, done.points, starts))


def _add_gap_penalty(
    aim: Callable[[Array], tuple[Array, Array]], apart: ClearanceConstraint, space: _Space, weight: float, part: Array
) -> tuple[Array, Array]:
    """The merit with a penalty on gaps below the margin."""
    merit, gradient = aim(part)
    short, slope = apart.shortfall(space.full(part), SLACK)
    return merit + weight * short, gradient + weight * slope[..., space.free]


class _Space:
    """The joints that vary, among all of them."""

    def __init__(
        self, robot: Robot, start: npt.ArrayLike | str | None, vary: Sequence[str] | None, bounds: ConfigurationBounds
    ) -> None:
        named = start is None or isinstance(start, str)
        given = robot.configuration(start or "zero") if named else start  # type: ignore[arg-type]
        self.given = array(given, "start", (robot.n,), hint=f"expected {robot.n} finite numbers")  # type: ignore[arg-type]
        names = robot.joint_names if vary is None else vary
        check_not_empty(names, "joint that may move", place="vary")
        unique(names, "joint", place="vary")
        self.free = np.array([robot.joint_index(name) for name in names], dtype=int)
        self.bounds = bounds

    def full(self, part: Array) -> Array:
        """Positions of all joints (..., n) from those that vary."""
        joints = np.array(np.broadcast_to(self.given, (*part.shape[:-1], self.given.size)))
        joints[..., self.free] = part
        return joints

    def sample_starts(self, samples: int, seed: int) -> Array:
        """Configurations spread over the ranges, and the start."""
        from scipy.stats import qmc

        low, high, first, last = (x[self.free] for x in vars(self.bounds).values())
        sobol = qmc.Sobol(self.free.size, seed=np.random.default_rng(seed))
        # Sobol points keep their even spread only in powers of two: rounded up, never cut.
        spread = sobol.random_base2(int(np.ceil(np.log2(samples))))
        return np.concatenate([first + (last - first) * spread, np.clip(self.given[self.free], low, high)[None]])

    def wrap_angles(self, joints: Array) -> Array:
        """Configuration with angles of unlimited joints wrapped to within half a revolution."""
        endless = np.zeros(joints.size, dtype=bool)
        endless[self.free] = (np.isinf(self.bounds.lower) & np.isinf(self.bounds.upper))[self.free]
        joints[endless] = np.remainder(joints[endless] + np.pi, 2.0 * np.pi) - np.pi
        return joints


def _starts(values: Array, restarts: int) -> npt.NDArray[np.int64]:
    """Starting points: most of them the best samples, some from everywhere, since the best sample need not be near the
    optimum.
    """
    order = np.argsort(values, kind="stable")
    best = max(1, (2 * restarts) // 3)
    rest = order[best :: max(1, (len(order) - best) // max(1, restarts - best))][: restarts - best]
    return np.concatenate([order[:best], rest])


def _check_passive(objective: ConfigurationObjective, joints: Array, least: float) -> None:
    """Raise an error if unequal resistances put a pole into a search, where the hand does not yield to a push or moves
    against it.
    """
    compliance = objective.compliance(joints)
    if not np.all(compliance > least):
        heavy = 1.0 / float(np.min(compliance)) if np.all(np.isfinite(compliance)) else np.nan
        raise InputError(
            f"in some configuration the virtual mass is {heavy:.4g} kg, of a robot of {objective.robot.mass:.4g} kg",
            place="resistance",
            hint="Eq. 10 with unequal resistances is not passive here; lock joints, or take one resistance for all",
        )
