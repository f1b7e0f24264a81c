"""Control laws: each function gives a :class:`~spacearm.simulate.law.Law` for a phase.

All take the settings of a law as further keyword arguments: ``period`` (s; None: continuous), ``delay``,
``resolution``, ``limited``, ``model``, ``system``, ``name``.

A law is written as a CasADi expression over a plant: errors of a reference, an acceleration that lets them decay, and
the joint forces for that acceleration. The floating base enters in two places. The generalized Jacobian J* (Y. Umetani
and K. Yoshida, IEEE Trans. Robotics and Automation 5(3), 1989) maps joint accelerations to the hand's, the reaction of
the base included; the drift is what the hand does when the joints do not accelerate, whatever the momentum. Forces come
from hybrid dynamics (:meth:`Plant.respond`) with the chosen joints driven and the rest free: computed torque without
forming the inverse of the mass matrix.

Frames: paths of the hand in the world, base commands in base axes. Gains are inputs of the compiled law, so that laws
that differ in gains share code. Stability under delay, saturation or a wrong model is not proved here: run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, number, one_of, positive
from spacearm.control.attitude_paths import Attitude, references_of
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.mechanics.law import Commands
from spacearm.mechanics.plant import Plant, Reference, damped_inverse
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import Layout
from spacearm.simulate.law import Law
from spacearm.typing import Array

Jacobian = Literal["generalized", "fixed-base"]
#: rad/s or m/s: an arm that exceeds these rates is out of control.
RUNAWAY = 3.0
#: Fraction of its initial value below which the smallest singular value counts as near singular.
NEAR_SINGULAR = 0.5


def make_law(
    build: Callable[[Plant], Any],
    name: str,
    settings: dict[str, Any],
    gains: dict[str, npt.ArrayLike] | None = None,
    constants: dict[str, npt.ArrayLike] | None = None,
    **references: Any,
) -> Law:
    """A law with the given ``build`` function; it reads ``gains`` (non-negative) and ``constants`` from its plant."""
    given = {key: value for key, value in references.items() if value is not None}
    held = {key: array(value, key, least=0.0, place=name) for key, value in (gains or {}).items()} | (constants or {})
    fields: dict[str, Any] = {"name": name, "references": given, "constants": held, "closed": True}
    return Law(build, **(fields | settings))


def _arm(plant: Plant, joints: Sequence[str] | None) -> list[int]:
    """Indices of the chosen joints; all joints except reaction wheels and modes by default."""
    robot = plant.robot
    if joints is None:
        return [robot.joint_index(name) for name in robot.arm_names]
    return [robot.joint_index(name) for name in joints]


def _order_by_joint(
    joints: Sequence[str] | None, place: str, **given: Any
) -> tuple[Sequence[str] | None, dict[str, Any]]:
    """The joints of a law, and what was given by joint name (reference, gains) in their order."""
    named = {key: value for key, value in given.items() if isinstance(value, Mapping)}
    if joints is None and isinstance(given["reference"], Mapping):
        joints = tuple(given["reference"])
    if named and joints is None:
        hint = "give `joints` too, or the reference by joint name"
        raise InputError(f"{', '.join(named)} by joint name, but joints in no order", place=place, hint=hint)
    for key, value in named.items():
        assert joints is not None
        with error_context(place):
            for name in value:
                check_name(name, joints, "joint", of=key)
            for name in joints:
                if name not in value:
                    raise InputError(f"{key} has nothing for joint {name!r}", hint="expected one for each joint")
        given[key] = [value[name] for name in joints]
    return joints, given


def _joint_reference(plant: Plant, name: str, chosen: Sequence[int]) -> Reference:
    """A reference with one entry per joint."""
    found = plant.reference(name)
    if found.value.numel() != len(chosen):
        names = ", ".join(plant.robot.joint_names[i] for i in chosen)
        raise InputError(
            f"has {found.value.numel()} paths for {len(chosen)} joints", hint=f"expected one for each of {names}"
        )
    return found


def _forces_by_name(plant: Plant, chosen: Sequence[int], values: SX) -> dict[str, SX]:
    return plant.values_by_name(values, [plant.robot.joint_names[i] for i in chosen])


def _track_accelerations(plant: Plant, chosen: Sequence[int], accelerations: SX, force: SX | None = None) -> Commands:
    """Forces on the chosen joints for these accelerations, while an additional ``force`` (6 + n) acts."""
    asked = _forces_by_name(plant, chosen, accelerations)
    taken = plant.respond(asked, force).reaction[6:][chosen]
    # Other laws at the same tick may use the acceleration in place of the force: a shorter expression, and exact.
    expected = {name: value for name, value in asked.items() if name not in plant.known_accelerations}
    return Commands(_forces_by_name(plant, chosen, taken), expected=expected)


# -- joints --------------------------------------------------------------------------------------------------------


def joint_pid(
    reference: Sequence[Any] | Mapping[str, Any],
    stiffness: npt.ArrayLike | Mapping[str, float],
    damping: npt.ArrayLike | Mapping[str, float],
    integral: npt.ArrayLike | Mapping[str, float] = 0.0,
    joints: Sequence[str] | None = None,
    windup: float = np.inf,
    **settings: Any,
) -> Law:
    """Joint forces from the errors of joint positions and rates.

    Args:
        reference: a signal for each of the joints, in their order or by joint name.
        stiffness, damping, integral: force per position error, per rate error, per its integral; one for all joints, or
            as many as joints, or by joint name.
        joints: those of a reference by joint name, else all but reaction wheels, by default.
        windup: largest force of the integral part.
    """
    joints, given = _order_by_joint(
        joints, "joint_pid", reference=reference, stiffness=stiffness, damping=damping, integral=integral
    )
    reference = given.pop("reference")
    integrates = bool(np.any(np.asarray(given["integral"])))

    def build(plant: Plant) -> Commands:
        chosen = _arm(plant, joints)
        wanted, rate, _ = _joint_reference(plant, "joints", chosen)
        error = wanted - plant.joints[chosen]
        kp, kd, ki = (plant.constant(each, len(chosen)) for each in ("stiffness", "damping", "integral"))
        force = kp * error + kd * (rate - plant.rates[chosen])
        if not integrates:
            return Commands(_forces_by_name(plant, chosen, force))
        pull = plant.memory("integral", np.zeros(len(chosen)))
        forces = _forces_by_name(plant, chosen, force + pull)
        if plant.period is None:
            # Conditional integration: at the bound, only errors that reduce the integral are integrated.
            further = ca.logic_and(ca.fabs(pull) >= windup, pull * error > 0)
            return Commands(forces, rates={"integral": ca.if_else(further, 0, ki * error)})
        return Commands(
            forces, memory={"integral": ca.fmax(ca.fmin(pull + ki * plant.period * error, windup), -windup)}
        )

    return make_law(build, "joint_pid", settings, given, joints=reference)


def computed_torque(
    reference: Sequence[Any] | Mapping[str, Any],
    stiffness: npt.ArrayLike | Mapping[str, float],
    damping: npt.ArrayLike | Mapping[str, float],
    joints: Sequence[str] | None = None,
    held: Sequence[str] = (),
    **settings: Any,
) -> Law:
    """Joint forces that make the position errors decay like e'' + damping e' + stiffness e = 0, on a floating base.

    Args:
        reference: a signal for each of the joints, in their order or by joint name.
        stiffness, damping: 1/s2 and 1/s; one for all joints, or as many as joints, or by joint name.
        joints: those of a reference by joint name, else all but reaction wheels, by default.
        held: further joints that do not move, besides those that the phase locks.
    """
    joints, given = _order_by_joint(
        joints, "computed_torque", reference=reference, stiffness=stiffness, damping=damping
    )
    reference = given.pop("reference")

    def build(plant: Plant) -> Commands:
        chosen = _arm(plant, joints)
        wanted, rate, acceleration = _joint_reference(plant, "joints", chosen)
        kp, kd = (plant.constant(each, len(chosen)) for each in ("stiffness", "damping"))
        # The joints are driven with this acceleration in the law's model, base and other joints free: the reactions are
        # the forces that the drives must give. With a right model the error obeys e'' + kd e' + kp e = 0 exactly.
        error, slip = wanted - plant.joints[chosen], rate - plant.rates[chosen]
        return _track_accelerations(plant.lock_joints(held), chosen, acceleration + kd * slip + kp * error)

    return make_law(build, "computed_torque", settings, given, joints=reference)


# -- the hand ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Hand:
    """A frame and its reference, for Cartesian laws; rows are position, and attitude if given."""

    plant: Plant
    frame: str
    attitude_type: type[Attitude] | None

    @property
    def rows(self) -> int:
        return 3 if self.attitude_type is None else 6

    def error(self) -> SX:
        """Position error (m), and the attitude error's axis times its sine; world axes."""
        pose, wanted = self.plant.pose(self.frame), self.plant.reference("position").value
        error = wanted - pose.origin
        if self.attitude_type is None:
            return error
        target = self.attitude_type.rotation(self.plant)
        # Half the sum of n x n_d + s x s_d + a x a_d is axis times sine of the error angle (J. Y. S. Luh, M. W. Walker
        # and R. P. C. Paul, IEEE Trans. Automatic Control 25(3), 1980): no angle is extracted, and nothing is singular
        # below half a revolution.
        apart = sum((ca.cross(pose.rotation[:, k], target[:, k]) for k in range(3)), ca.SX.zeros(3))
        return ca.vertcat(error, 0.5 * apart)

    def reference_motion(self, order: int) -> SX:
        """Velocity (1) or acceleration (2) of the reference."""
        position = self.plant.reference("position")[order]
        if self.attitude_type is None:
            return position
        return ca.vertcat(position, self.attitude_type.motion(self.plant, order))

    def twist(self) -> SX:
        return self.plant.twist(self.frame)[: self.rows]

    def jacobian(self, chosen: Sequence[int], kind: Jacobian) -> SX:
        plant, names = self.plant, [self.plant.robot.joint_names[i] for i in chosen]
        if kind == "generalized":
            return plant.generalized_jacobian(self.frame, names)[: self.rows, :]
        return plant.jacobian(self.frame)[: self.rows, [6 + i for i in chosen]]

    def accelerations(
        self, chosen: Sequence[int], kind: Jacobian, asked: SX, singular: tuple[float, float], self_motion: float
    ) -> SX:
        """Accelerations of the chosen joints for this acceleration of the frame beyond its drift."""
        matrix, rates = self.jacobian(chosen, kind), self.plant.rates[chosen]
        # With a redundant arm the pseudo-inverse leaves rates in the null space of J as they are. -c q' damps them, and
        # c J q' inside the inverse takes back what this would do to the hand.
        if len(chosen) <= self.rows or not self_motion:
            return damped_inverse(matrix, asked, *singular)
        return damped_inverse(matrix, asked + self_motion * (matrix @ rates), *singular) - self_motion * rates

    def drift(self, chosen: Sequence[int], kind: Jacobian, force: SX | None = None) -> SX:
        """Acceleration of the frame when the chosen joints do not accelerate and a further ``force`` (6 + n) acts."""
        plant = self.plant
        if kind == "generalized":
            return plant.drift(self.frame, [plant.robot.joint_names[i] for i in chosen], force)[: self.rows]
        # J' q' of an arm on a base at rest.
        moving = plant.jacobian(self.frame)[:, 6:]
        return ca.jtimes(moving @ plant.rates, plant.joints, plant.rates)[: self.rows]


def _hand_law(
    build: Callable[[_Hand, list[int]], Any],
    name: str,
    frame: str,
    position: Sequence[Any],
    attitude: Attitude | None,
    joints: Sequence[str] | None,
    singular: tuple[float, float],
    settings: dict[str, Any],
    gains: dict[str, npt.ArrayLike],
    **references: Any,
) -> Law:
    kind = None if attitude is None else type(attitude)

    def build_hand_law(plant: Plant) -> Any:
        hand, chosen = _Hand(plant, frame, kind), _arm(plant, joints)
        # Joints that the phase itself moves or holds cannot follow the hand.
        able = [i for i in chosen if plant.robot.joint_names[i] not in plant.known_accelerations]
        if len(able) < hand.rows and not singular[0]:
            raise InputError(
                f"{len(able)} joints cannot move {frame!r} in {hand.rows} directions",
                hint="more joints, no attitude (three directions are left), or singular=(damping, near)",
            )
        return build(hand, chosen)

    def suspect(robot: Robot, times: Array, states: Array) -> str:
        return _explain_singularity(robot, frame, 3 if kind is None else 6, joints, times, states)

    constants = {} if attitude is None else attitude.constants
    own = {"suspect": suspect} | settings
    return make_law(
        build_hand_law, name, own, gains, constants, position=position, **references_of(attitude), **references
    )


def _explain_singularity(
    robot: Robot, frame: str, rows: int, joints: Sequence[str] | None, times: Array, states: Array
) -> str:
    """Where an arm was closest to a dynamic singularity before it went out of control, as text; empty if none."""
    at = Layout(robot.n)
    # A law that divides by a small singular value first moves the joints fast and then loses the hand.
    rates = np.abs(states[:, at.rates]).max(axis=1, initial=0.0)
    # Only states before the arm went out of control: what follows is not the cause.
    moved = states[: np.argmax(rates > RUNAWAY) if np.any(rates > RUNAWAY) else len(states)]
    if not len(moved):
        return ""
    names = robot.arm_names if joints is None else joints
    chosen = [robot.joint_index(name) for name in names]
    matrix = mechanics_of(robot).generalized_jacobian(frame, moved[:, at.joints], base=moved[:, at.pose])
    sizes = np.linalg.svd(matrix[:, :rows][:, :, chosen], compute_uv=False)[:, -1]
    k = int(np.argmin(sizes))
    if sizes[k] > NEAR_SINGULAR * sizes[0]:
        return ""
    return (
        f"; at t = {times[k]:.4g} s the arm is near a dynamic singularity of {frame!r} (smallest singular value "
        f"{sizes[k]:.2g}, {sizes[0]:.2g} at the phase's start): take another path, or singular=(...)"
    )


def resolved_acceleration(
    frame: str,
    position: Sequence[Any],
    attitude: Attitude | None = None,
    *,
    stiffness: npt.ArrayLike = 0.0,
    damping: npt.ArrayLike = 0.0,
    jacobian: Jacobian = "generalized",
    singular: tuple[float, float] = (0.0, 0.0),
    self_motion: float = 1.0,
    command: Literal["forces", "accelerations"] = "forces",
    joints: Sequence[str] | None = None,
    **settings: Any,
) -> Law:
    """A frame follows a path in the world while the base floats.

    Joint accelerations are J*^+ (acceleration of the path + damping * velocity error + stiffness * error - drift), with
    the generalized Jacobian J* (Umetani and Yoshida 1989). ``jacobian="fixed-base"`` assumes a fixed base.

    Args:
        position: three signals, m, world.
        attitude: free if omitted.
        stiffness, damping: 1/s2 and 1/s; one, or for each row (3, with an attitude 6).
        singular: damping of the inverse, and the manipulability sqrt(det(J J^T)) below which it is applied.
        self_motion: 1/s, decay rate of joint motion that does not move the frame.
        command: joint forces, or joint accelerations that are realised exactly.
    """
    one_of(jacobian, ("generalized", "fixed-base"), "jacobian")
    one_of(command, ("forces", "accelerations"), "command")

    def build(hand: _Hand, chosen: list[int]) -> Commands:
        kp, kd = (hand.plant.constant(each, hand.rows) for each in ("stiffness", "damping"))
        # The hand's acceleration is J* q'' + drift: what is asked of the joints is what the drift does not give
        # already.
        slip = hand.reference_motion(1) - hand.twist()
        asked = hand.reference_motion(2) + kd * slip + kp * hand.error() - hand.drift(chosen, jacobian)
        accelerations = hand.accelerations(chosen, jacobian, asked, singular, self_motion)
        if command == "accelerations":
            return Commands(accelerations=_forces_by_name(hand.plant, chosen, accelerations))
        return _track_accelerations(hand.plant, chosen, accelerations)

    gains = {"stiffness": stiffness, "damping": damping}
    return _hand_law(build, "resolved_acceleration", frame, position, attitude, joints, singular, settings, gains)


def resolved_rate(
    frame: str,
    position: Sequence[Any],
    attitude: Attitude | None = None,
    *,
    gain: npt.ArrayLike = 1.0,
    rate_gain: float = 10.0,
    jacobian: Jacobian = "generalized",
    singular: tuple[float, float] = (0.0, 0.0),
    joints: Sequence[str] | None = None,
    **settings: Any,
) -> Law:
    """A frame follows a path by joint rates J*^+ (velocity of the path + gain * error), tracked by a rate loop.

    Args:
        gain: 1/s, of the pose error; one or for each row.
        rate_gain: 1/s, of the rate loop (with the computed torques of the arm on its floating base).
        position, attitude, jacobian, singular: as for :func:`resolved_acceleration`.
    """
    one_of(jacobian, ("generalized", "fixed-base"), "jacobian")
    positive(rate_gain, "rate_gain", place="resolved_rate")

    def build(hand: _Hand, chosen: list[int]) -> Commands:
        plant, rates = hand.plant, hand.plant.rates[chosen]
        matrix = hand.jacobian(chosen, jacobian)
        asked = hand.reference_motion(1) + plant.constant("gain", hand.rows) * hand.error()
        if jacobian == "generalized":
            asked -= hand.twist() - matrix @ rates  # what the momentum and the other joints give to the hand
        return _track_accelerations(plant, chosen, rate_gain * (damped_inverse(matrix, asked, *singular) - rates))

    return _hand_law(build, "resolved_rate", frame, position, attitude, joints, singular, settings, {"gain": gain})


def impedance(
    frame: str,
    position: Sequence[Any],
    attitude: Attitude | None = None,
    *,
    mass: npt.ArrayLike,
    damping: npt.ArrayLike,
    stiffness: npt.ArrayLike,
    force: Sequence[Any] | Literal["measured"] | None = None,
    joints: Sequence[str] | None = None,
    singular: tuple[float, float] = (0.0, 0.0),
    self_motion: float = 1.0,
    **settings: Any,
) -> Law:
    """A frame responds like a mass on a spring and a damper: mass e'' + damping e' + stiffness e = -force.

    e is the reference less the frame's pose. N. Hogan, J. Dynamic Systems, Measurement, and Control 107(1), 1985, with
    the generalized Jacobian and the arm's computed torques on its floating base.

    Args:
        mass, damping, stiffness: kg, N s/m, N/m (rotation: kg m2, N m s/rad, N m/rad); one or for each row.
        force: wrench of the environment on the frame (world axes, one signal for each row), or "measured": by the law's
            force/torque sensor there. Without it the arm's own inertia acts on the environment in place of ``mass``.
    """

    sensed, measured = force is not None, isinstance(force, str)
    if measured:
        one_of(force, ("measured",), "force", place="impedance")

    def build(hand: _Hand, chosen: list[int]) -> Commands:
        plant = hand.plant
        # Without a measured force mass, damping and stiffness cannot all be chosen: the arm keeps its own inertia, and
        # only damping and stiffness per mass act.
        m, d, k = (plant.constant(each, hand.rows) for each in ("mass", "damping", "stiffness"))
        pull = d * (hand.reference_motion(1) - hand.twist()) + k * hand.error()
        if not sensed:
            asked = hand.reference_motion(2) + pull / m - hand.drift(chosen, "generalized")
            return _track_accelerations(
                plant, chosen, hand.accelerations(chosen, "generalized", asked, singular, self_motion)
            )
        wrench = plant.wrench(frame)[: hand.rows] if measured else plant.reference("force").value
        # The wrench accelerates base and arm too: its share is not commanded again, and the joints carry the rest.
        push = plant.jacobian(frame)[: hand.rows, :].T @ wrench
        asked = hand.reference_motion(2) + (pull + wrench) / m - hand.drift(chosen, "generalized", push)
        accelerations = hand.accelerations(chosen, "generalized", asked, singular, self_motion)
        commands = _track_accelerations(plant, chosen, accelerations, push)
        return replace(commands, measured=plant.values_by_name(push, plant.robot.dof_names))

    gains = {"mass": mass, "damping": damping, "stiffness": stiffness}
    return _hand_law(
        build,
        "impedance",
        frame,
        position,
        attitude,
        joints,
        singular,
        settings,
        gains,
        force=None if measured else force,
    )


def reaction_null_space(
    rates: Sequence[Any],
    gain: float = 1.0,
    joints: Sequence[str] | None = None,
    command: Literal["forces", "accelerations"] = "forces",
    **settings: Any,
) -> Law:
    """The arm follows desired joint rates as closely as it can without rotating the base.

    Joint rates are kept in the null space of the reaction map (Nenchev, Yoshida and others 1999); the base keeps its
    attitude where the angular momentum is zero.

    Args:
        rates: a signal for each joint, rad/s or m/s.
        gain: 1/s, rate at which joint rates approach the desired ones and constraint errors decay.
    """
    positive(gain, "gain", place="reaction_null_space")

    def build(plant: Plant) -> Commands:
        chosen = _arm(plant, joints)
        (wished, speed, _), now = _joint_reference(plant, "rates", chosen), plant.rates[chosen]
        names = [plant.robot.joint_names[i] for i in chosen]
        # Wheels commanded by another law are there to rotate the base: the arm does not cancel their effect.
        counted = [
            i
            for i, name in enumerate(plant.robot.joint_names)
            if not (
                name in plant.robot.wheel_names and (name in plant.other_forces or name in plant.known_accelerations)
            )
        ]
        carried = plant.reaction_map()[:, counted] @ plant.rates[counted]
        reaction = plant.reaction_map()[:, counted] @ plant.response(names)[[6 + i for i in counted], :]
        # Accelerations and not rates are chosen, since forces follow from them: the wished rates are approached.
        wanted = speed + gain * (wished - now)
        still = plant.respond(dict.fromkeys(names, ca.SX(0))).acceleration
        # The constraint K q' = 0 at the level of accelerations, with a term that lets its errors decay (after J.
        # Baumgarte, Computer Methods in Applied Mechanics and Engineering 1, 1972).
        violated = plant.time_derivative(carried, still) + gain * carried
        # The smallest change of the desired accelerations that satisfies the constraint.
        accelerations = wanted - damped_inverse(reaction, reaction @ wanted + violated)
        if command == "accelerations":
            return Commands(accelerations=_forces_by_name(plant, chosen, accelerations))
        return _track_accelerations(plant, chosen, accelerations)

    return make_law(build, "reaction_null_space", settings, rates=rates)


def base_arm_coordination(
    frame: str,
    position: Sequence[Any],
    attitude: Attitude | None = None,
    *,
    centre: Sequence[Any],
    stiffness: npt.ArrayLike,
    damping: npt.ArrayLike,
    centre_stiffness: float,
    centre_damping: float,
    momentum_gain: float,
    joints: Sequence[str] | None = None,
    singular: tuple[float, float] = (0.0, 0.0),
    self_motion: float = 1.0,
    **settings: Any,
) -> Law:
    """Thrust on the base controls the mass centre and the total angular momentum only; the arm moves the hand.

    Papadopoulos and Dubowsky, Coordinated manipulator/spacecraft motion control for space robotic systems, ICRA 1991.

    Args:
        centre: three signals, the path of the mass centre, m, world.
        centre_stiffness, centre_damping: 1/s2 and 1/s, of the mass centre's error.
        momentum_gain: 1/s, rate at which the angular momentum about the mass centre decays.
    """
    for name, value in (("centre_stiffness", centre_stiffness), ("centre_damping", centre_damping)):
        number(value, name, least=0.0, place="coordinated")

    def build(hand: _Hand, chosen: list[int]) -> Commands:
        plant, mass = hand.plant, hand.plant.mass
        wanted, speed, rise = plant.reference("centre")
        # Mass centre and angular momentum answer to outer forces alone: the arm cannot disturb this part of the law,
        # and the thrusters need not follow the arm's motion.
        lag = speed - plant.momentum[:3] / mass
        push = mass * (rise + centre_damping * lag + centre_stiffness * (wanted - plant.mass_centre))
        # The force acts at the base's origin, not at the mass centre: its moment about the latter is compensated.
        twist = -momentum_gain * plant.momentum[3:] + ca.cross(plant.mass_centre - plant.position, push)
        base = ca.vertcat(plant.base.rotation.T @ push, plant.base.rotation.T @ twist)
        kp, kd = (plant.constant(each, hand.rows) for each in ("stiffness", "damping"))
        asked = hand.reference_motion(2) + kd * (hand.reference_motion(1) - hand.twist()) + kp * hand.error()
        thrust = ca.vertcat(base, ca.SX.zeros(plant.robot.n))
        asked -= hand.drift(chosen, "generalized", thrust)
        accelerations = hand.accelerations(chosen, "generalized", asked, singular, self_motion)
        arm = _track_accelerations(plant, chosen, accelerations, thrust)
        return replace(arm, forces={**arm.forces, **plant.values_by_name(base, BASE_DOFS)})

    gains = {"stiffness": stiffness, "damping": damping}
    return _hand_law(build, "coordinated", frame, position, attitude, joints, singular, settings, gains, centre=centre)
