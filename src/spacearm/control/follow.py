"""Joint paths on the floating base by integrating rates: along a path of the hand, and without rotating the base.

Momentum is conserved, so joint rates and the initial momentum determine the motion of the base. A path of the hand, or
a desired motion of the joints, is followed by integrating rates; timing and rest at the ends are those of the path.

State of the integration: base pose (position, quaternion w x y z) and joints, no velocities. At each instant rates
solve J* q' = velocity of the path + PULL * error - drift, in the least-squares sense nearest to desired rates, by a
singular value decomposition; DOP853 (SciPy) integrates them, and the term with PULL keeps errors of integration from
adding up. Paths come back as cubic pieces through samples with their rates.

World axes for the hand, base axes for the reaction map; SI units. Joint limits and forces are ignored: check the plan.
A path through a dynamic singularity stops there with an error and is not bent round it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, positive
from spacearm.control.plans import SAMPLES, STILL, HandPath, JointPlan, hermite, point_to_point, quintic
from spacearm.control.workspace import longest_reach
from spacearm.engine import Kernel
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.mechanics import Program
from spacearm.mechanics.dynamics import lock_base
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.spatial import SX, quaternion_rate
from spacearm.model import Robot
from spacearm.model.layout import BASE_POSE, QUATERNION
from spacearm.simulate import Signal, State
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

#: 1/s, rate at which integration errors decay.
FEEDBACK_GAIN = 2.0
#: Ratio of smallest to largest singular value below which a Jacobian counts as singular.
SINGULAR = 1e-4
#: Evaluations after which an integration is aborted.
MOST = 50_000


_Rates = Callable[[float, dict[str, Any]], Array]


class _Stop(Exception):
    """The path cannot be followed beyond this time."""


@lru_cache(maxsize=32)
def _rates(robot: Robot, frame: str) -> Kernel:
    """Effect of joint rates on frame, base and angular momentum, and the motion due to the momentum alone."""
    plant = Plant(robot, robot_parameters(robot))
    # Generalised momentum H (v, q') is known: its base rows give v for any joint rates. Two parts: what the joints move
    # the base by, and the drift that the momentum alone causes.
    matrix, pose, momentum = lock_base(robot, plant.mass_matrix), plant.pose(frame), ca.SX.sym("momentum", 6)
    # At zero momentum the base moves so that its share cancels that of the joints.
    base = -solve_symmetric(matrix[:6, :6], matrix[:6, 6:])
    # Given about the mass centre, wanted at the base's origin, where the mass matrix has its rows.
    about = momentum[3:] + ca.cross(plant.mass_centre - plant.position, momentum[:3])
    own = ca.vertcat(plant.base.rotation.T @ momentum[:3], plant.base.rotation.T @ about)
    own[robot.base.locked_indices] = 0
    drift = solve_symmetric(matrix[:6, :6], own)

    def base_rate(velocity: SX) -> SX:
        return ca.vertcat(plant.base.rotation @ velocity[:3], quaternion_rate(plant.quaternion, velocity[3:]))

    outputs = {
        "hand": plant.generalized_jacobian(frame),
        "pose": ca.densify(ca.horzcat(*(base_rate(base[:, i]) for i in range(robot.n)))),
        "reaction": ca.densify(plant.reaction_map()),
        "origin": pose.origin,
        "rotation": pose.rotation,
        "pose_drift": base_rate(drift),
        "hand_drift": plant.jacobian(frame)[:, :6] @ drift,
    }
    vectors = {"origin", "pose_drift", "hand_drift"}
    inputs = {"state": plant.state, "momentum": momentum}
    return Kernel(Program("plan_rates", inputs, outputs, frozenset(outputs) - vectors))


def check_still(robot: Robot, start: State, what: str) -> None:
    """Raise an error if the robot moves."""
    if np.any(np.abs(start.velocity) > STILL):
        hint = "expected a start at rest; laws such as resolved_acceleration take any momentum"
        raise InputError("the robot moves at the start", place=what, hint=hint)
    start.check(robot)


def _integrate_rates(
    robot: Robot,
    start: State,
    frame: str,
    duration: float,
    rates: Callable[[float, dict[str, Any]], Array],
    samples: int,
) -> tuple[dict[str, Signal], Array, Array]:
    """Joint paths from their rates, and frame positions at the sample times; raises :class:`_Stop` if it cannot
    continue.
    """
    from scipy.integrate import solve_ivp

    kernel, still = _rates(robot, frame), np.zeros(6 + robot.n)
    momentum = mechanics_of(robot).momentum(start.joints, start.velocity, base=start.pose, about="com")
    asked = 0

    def slope(t: float, y: Array) -> Array:
        nonlocal asked
        asked += 1
        # Near a singularity steps become ever shorter: rather an error than an endless search.
        if asked > MOST:
            raise _Stop(t)
        pose = np.concatenate([y, still])
        # Stages of a step leave the unit sphere slightly; the mechanics takes unit quaternions.
        pose[QUATERNION] /= np.linalg.norm(pose[QUATERNION])
        seen = kernel({"state": pose, "momentum": momentum})
        speed = rates(t, seen)
        return np.concatenate([seen["pose"] @ speed + seen["pose_drift"], speed])

    times = np.linspace(0.0, duration, samples + 1)
    begin = np.concatenate([start.pose, start.joints])
    # max_step: a path that starts at rest would otherwise let the first steps grow across its whole rise.
    found = solve_ivp(
        slope, (0.0, duration), begin, method="DOP853", t_eval=times, rtol=1e-11, atol=1e-12, max_step=duration / 40
    )
    states = np.hstack([found.y.T, np.tile(still, (len(times), 1))])
    every = kernel({"state": states, "momentum": momentum})
    speeds = np.array([rates(t, {name: part[k] for name, part in every.items()}) for k, t in enumerate(times)])
    joints = found.y[BASE_POSE:]
    return (
        {name: hermite(times, joints[i], speeds[:, i]) for i, name in enumerate(robot.joint_names)},
        times,
        every["origin"],
    )


def _solve_rates(matrix: Array, right: Array, wished: Array, time: float) -> Array:
    """Rates closest to the desired ones that satisfy ``matrix @ rates = right``."""
    left, sizes, rightward = np.linalg.svd(matrix, full_matrices=False)
    # Near a singular direction the path can still be followed if it needs no motion along it: only then is it dropped.
    lost = sizes <= SINGULAR * sizes[0]
    missing = left.T @ (right - matrix @ wished)
    if np.any(np.abs(missing[lost]) > 1e-6 * max(1.0, float(np.linalg.norm(right)))):
        raise _Stop(time)
    change: Array = rightward.T @ np.where(lost, 0.0, missing / np.where(lost, 1.0, sizes))
    return wished + change


def follow_line(
    robot: Robot,
    start: State,
    path: HandPath,
    *,
    hold_base_attitude: bool = False,
    samples: int = SAMPLES,
    tolerance: float = 1e-6,
) -> JointPlan:
    """Inverse kinematics on the floating base: joint paths that take the hand along a path.

    On a floating base the joint positions that reach a pose depend on the path taken, so the path is integrated with
    the generalized Jacobian (least joint rates) while the base moves freely. From a moving start the momentum is
    conserved, and joint rates that do not move the frame decay along the path.

    Args:
        hold_base_attitude: the base does not rotate meanwhile (reaction null space); needs three more joints.
        tolerance: m, largest deviation of the frame from its path.

    Raises:
        InputError: the path leads through a dynamic singularity or out of reach; the message states the time.
    """
    if hold_base_attitude:
        check_still(robot, start, "follow_line")
    start.check(robot)
    rows = 3 if path.attitude is None else 6
    position, fading = [as_signal(each, "position") for each in path.position], quintic(1.0, 0.0, path.duration)
    speeds = [each.derivative() for each in position]

    def command_twist(t: float, seen: dict[str, Any]) -> Array:
        error = np.array([each(t) for each in position]) - seen["origin"]
        # Feedback removes what integration errors leave: without it they would add up along the path.
        wanted: Array = np.array([each(t) for each in speeds]) + FEEDBACK_GAIN * error
        if path.attitude is None:
            return wanted
        target, angular_rate = path.attitude(t)
        # The rotation vector between the two attitudes, for small ones.
        apart = 0.5 * np.cross(seen["rotation"].T, target.T).sum(axis=0)
        return np.concatenate([wanted, angular_rate + FEEDBACK_GAIN * apart])

    def rates(t: float, seen: dict[str, Any]) -> Array:
        matrix, right = seen["hand"][:rows], command_twist(t, seen) - seen["hand_drift"][:rows]
        if hold_base_attitude:
            # Three more conditions: no angular reaction on the base.
            matrix, right = np.vstack([matrix, seen["reaction"]]), np.append(right, np.zeros(3))
        return _solve_rates(matrix, right, start.rates * fading(t), t)

    with error_context("follow_line"):
        try:
            signals, times, origin = _integrate_rates(robot, start, path.frame, path.duration, rates, samples)
        except _Stop as stop:
            raise InputError(
                f"frame {path.frame!r} cannot follow its path beyond {stop.args[0]:.4g} s of {path.duration:g} s",
                hint=_explain_failure(robot, start, path, hold_base_attitude),
            ) from None
        off = float(np.linalg.norm(np.stack([each(times) for each in position], axis=1) - origin, axis=1).max())
        if off > tolerance:
            raise InputError(f"frame {path.frame!r} deviates from its path by {off:.3g} m", hint="the path has jumps")
    return JointPlan(robot, start, signals, path.duration, off, path)


def _explain_failure(robot: Robot, start: State, path: HandPath, hold_base_attitude: bool) -> str:
    """Why a path cannot be followed: beyond reach, or a dynamic singularity."""
    mechanics, times = mechanics_of(robot), np.linspace(0.0, path.duration, 201)[:, None]
    linear = mechanics.momentum(start.joints, start.velocity, base=start.pose)[:3]
    centre = mechanics.centre_of_mass(start.joints, base=start.pose) + times * linear / robot.mass
    places = np.concatenate([as_signal(each, "position")(times) for each in path.position], axis=1)
    # The mass centre moves uniformly and no joint can move it: beyond the virtual manipulator's reach nothing can
    # follow.
    farthest, longest = float(np.linalg.norm(places - centre, axis=1).max()), longest_reach(robot, path.frame)
    if farthest > longest:
        return f"it goes {farthest:.4g} m from the mass centre; the arm reaches at most {longest:.4g} m"
    return "a dynamic singularity" + (" of the hand on a base that does not rotate" if hold_base_attitude else "")


def reactionless(
    robot: Robot, start: State, towards: npt.ArrayLike, duration: float, *, samples: int = SAMPLES
) -> JointPlan:
    """Joint paths that do not rotate the base, as close as possible to the straight path towards a configuration.

    Rates are those of the straight path, projected onto the null space of the reaction map (Nenchev, Yoshida,
    Vichitkulsawat, Uchiyama, IEEE Trans. Robotics and Automation 15(6), 1999). In general the configuration is not
    reached: :meth:`JointPlan.end` is where the plan ends. To move the hand to a given place, use ``follow_line(...,
    hold_base_attitude=True)``.
    """
    check_still(robot, start, "reactionless")
    with error_context("reactionless"):
        goal = array(towards, "towards", (robot.n,))
        paths, _ = point_to_point(start.joints, goal, positive(duration, "duration", unit="s"))
        wished = [each.derivative() for each in paths]

        def rates(t: float, seen: dict[str, Any]) -> Array:
            return _solve_rates(seen["reaction"], np.zeros(3), np.array([each(t) for each in wished]), t)

        try:
            signals, *_ = _integrate_rates(robot, start, robot.bodies[-1].name, duration, rates, samples)
        except _Stop as stop:
            raise InputError(f"the reaction map loses rank at {stop.args[0]:.4g} s") from None
        travel = max(abs(path(duration) - path(0.0)) for path in signals.values())
        if travel < 1e-6 * np.abs(goal - start.joints).max():
            raise InputError("no motion towards the goal keeps the base's attitude", hint="use least_disturbance")
    return JointPlan(robot, start, signals, duration)
