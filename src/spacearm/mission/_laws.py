"""Control laws of a mission, compiled once for a robot: gains, paths and the load in the hand are inputs at run time.

So a mission with another target, another strategy or other gains runs the same compiled code.

The hand follows a pose by resolved acceleration on the generalized Jacobian (Umetani and Yoshida, 1989), which contains
the base's reaction by momentum conservation; joint torques are those of inverse dynamics of the floating robot with the
commanded accelerations (computed torque). Wheels have a separate law: a PD on the base's attitude, or a first-order
law on the momentum that they store; their torques enter the arm's dynamics as known forces. Frames: hand pose, twist
and errors in world axes; wheel torques and momenta in base axes. SI units. Near dynamic singularities the inverse is
damped at the expense of tracking. Laws are sampled; between ticks commands are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import casadi as ca
import numpy as np

from spacearm.control import Commands, Law, Plant
from spacearm.control.attitude import fire_thrusters, thruster_pulses, warn_of_partial_levels
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.plant import damped_inverse
from spacearm.mechanics.spatial import SX, rotation_matrix
from spacearm.mission._station import BaseControl, BaseReference, command_base
from spacearm.model import Pose, Robot
from spacearm.simulate import Signal, constant
from spacearm.typing import Array

#: Damping of the inverse near dynamic singularities, and the manipulability below which it sets in.
SINGULAR = (0.02, 0.05)
#: Share of the wheels' momentum that is used where thrusters can take the rest.
WHEEL_SHARE = 0.5
#: 1/s, with which motion of the arm dies out that does not move the hand.
SELF_MOTION = 0.5
#: The same of a second arm that keeps the base from turning.
SECOND_SINGULAR = (1e-4, 1e-3)
#: 1/s, with which a second arm takes the base's rotation away.
STEADY_BASE = 0.5
#: s, longest periods that are chosen for the arm's laws and for those of the base.
LONGEST_PERIOD, LONGEST_BASE_PERIOD = 0.1, 0.2


@dataclass(frozen=True)
class Actuators:
    """Roles of the servicer's joints (arm, soft joints, wheels) and its hand; equal roles share compiled laws.

    ``arm``: all joints that laws drive; those among them that are in ``second`` are those of a second arm.
    """

    robot: Robot
    hand: str
    arm: tuple[str, ...]
    soft: tuple[str, ...]
    second: tuple[str, ...] = ()

    @property
    def gripper(self) -> str:
        """The body that carries the hand, and with it whatever is caught."""
        return self.robot.frame(self.hand).body

    @property
    def wheels(self) -> tuple[str, ...]:
        return self.robot.wheel_names

    @cached_property
    def braked_joints(self) -> tuple[str, ...]:
        """Joints that brakes hold throughout, of a second arm, say; what is locked on a spring has no brake."""
        used = {*self.arm, *self.soft, *self.wheels}
        joints = (joint for joint in self.robot.joints if joint.name not in used)
        return tuple(joint.name for joint in joints if joint.spring is None)

    @cached_property
    def axes(self) -> Array:
        """Axes (3, wheels) of the reaction wheels in the base's frame."""
        joints = [self.robot.joint(name) for name in self.wheels]
        return np.array([joint.placement.rotation @ joint.axis for joint in joints]).T.reshape(3, -1)

    @cached_property
    def shares(self) -> Array:
        """(wheels, 3) share of each wheel in a torque or a momentum about each axis: the least norm."""
        return np.asarray(np.linalg.pinv(self.axes))

    @cached_property
    def rotors(self) -> Array:
        """Axial inertias (wheels,) of the wheels, kg m2."""
        found = [self.robot.joint(name).rotor for name in self.wheels]
        return np.array([rotor.inertia * rotor.ratio for rotor in found if rotor is not None])

    @cached_property
    def wrist(self) -> tuple[str, Pose]:
        """The body that carries the soft joints before the hand, and the hand's pose in it with these at zero."""
        body, place = self.gripper, self.robot.frame(self.hand).placement
        while (joint := next((each for each in self.robot.joints if each.child == body), None)) is not None:
            if joint.name not in self.soft:
                break
            body, place = joint.parent, joint.placement @ place
        return body, place

    def index(self, names: Sequence[str]) -> list[int]:
        return [self.robot.joint_index(name) for name in names]

    def rest_rates(self, turning: float, sliding: float) -> list[float]:
        """Rate of rest of each soft joint: ``turning`` (rad/s) or ``sliding`` (m/s)."""
        return [turning if self.robot.joint(name).unit == "rad" else sliding for name in self.soft]

    def wheel_speeds(self, momentum: Array) -> Array:
        """Speeds (wheels,), rad/s, at which the wheels hold this momentum (3,), base axes, N m s: least-norm shares."""
        return np.asarray(self.shares @ momentum / self.rotors) if self.wheels else np.zeros(0)

    @property
    def wheel_capacities(self) -> Array:
        """Momentum (wheels,) that each wheel holds at its largest speed, N m s; infinite where it has no limit."""
        return np.asarray(self.rotors * [self.robot.joint(name).limits.velocity for name in self.wheels])

    @property
    def held_momentum(self) -> float:
        """About each axis of the base, whatever the wheels hold about the others, N m s."""
        if not self.wheels:
            return 0.0
        # Worst case over all directions: the row sums bound what one wheel gets from a unit of momentum on every axis.
        return float(np.min(self.wheel_capacities / np.abs(self.shares).sum(axis=1)))

    def wheel_momentum(self, rates: Array) -> Array:
        """Momentum (..., 3) of the wheels relative to the bus, base axes, for joint rates (..., n)."""
        return np.asarray((rates[..., self.index(self.wheels)] * self.rotors) @ self.axes.T)


@lru_cache(maxsize=16)
def make_actuators(
    robot: Robot, hand: str, arm: tuple[str, ...], soft: tuple[str, ...], second: tuple[str, ...]
) -> Actuators:
    """The same for all missions of a servicer, with what follows from them."""
    return Actuators(robot, hand, arm, soft, second)


@dataclass(frozen=True)
class WheelReference:
    """Task of the wheels: hold an attitude, damp the base's rate, store a momentum.

    Args:
        attitude, rate: N m/rad and N m s/rad, on the base's attitude error and angular velocity.
        carry: 1/s, with which the wheels' momentum comes to ``momentum`` (three signals, world axes, N m s).
        aim: quaternion of the base.
    """

    attitude: float = 0.0
    rate: float = 0.0
    carry: float = 0.0
    momentum: Sequence[Any] = (0.0, 0.0, 0.0)
    aim: Sequence[float] = (1.0, 0.0, 0.0, 0.0)

    def references(self) -> dict[str, Any]:
        gains = [constant(value) for value in (self.attitude, self.rate, self.carry, *self.aim)]
        return {"wheels": gains, "momentum": list(self.momentum)}


def _wheel_torques(plant: Plant, actuators: Actuators) -> dict[str, SX]:
    """Torques on the wheels, as :class:`WheelReference` asks for, whatever their motors can give."""
    if not actuators.wheels:
        return {}
    gains, rotation = plant.reference("wheels").value, plant.base.rotation
    target = rotation_matrix(gains[3:7])
    # 0.5 sum r_k x t_k is sin(angle) times the axis from the attitude to its aim: no quaternion sign to choose.
    apart = rotation.T @ sum((ca.cross(rotation[:, k], target[:, k]) for k in range(3)), ca.SX.zeros(3))
    on_base = 0.5 * gains[0] * apart - gains[1] * plant.angular_velocity
    axes, rates = ca.SX(ca.DM(actuators.axes)), plant.rates[actuators.index(actuators.wheels)]
    carried = axes @ (ca.SX(ca.DM(actuators.rotors)) * rates)
    short = rotation.T @ plant.reference("momentum").value - carried
    # What acts on the base acts on the wheels with the opposite sign; least-norm distribution for more than three
    # wheels.
    torque = ca.SX(ca.DM(actuators.shares)) @ (gains[2] * short - on_base)
    return plant.values_by_name(torque, actuators.wheels)


def _limit_speeds(plant: Plant, actuators: Actuators, torques: Mapping[str, SX]) -> dict[str, SX]:
    """The same torques, but none that would make a wheel faster that has the share of its speed that may be used."""
    held = {}
    for name, torque in torques.items():
        rate, most = (
            plant.rates[actuators.robot.joint_index(name)],
            WHEEL_SHARE * actuators.robot.joint(name).limits.velocity,
        )
        # Only torques that speed the wheel up are cut: it may always be slowed down.
        full = ca.logic_and(ca.fabs(rate) > most, rate * torque > 0.0)
        held[name] = ca.if_else(full, 0.0, torque) if np.isfinite(most) else torque
    return held


def _wheel_forces(actuators: Actuators, wheels: Mapping[str, SX]) -> SX:
    """Torques on the wheels, within their motors' limits, among the forces (6 + n) on all degrees of freedom."""
    found = ca.SX.zeros(actuators.robot.dofs)
    for name, torque in wheels.items():
        most = actuators.robot.joint(name).limits.effort
        found[actuators.robot.dof_index(name)] = ca.fmax(ca.fmin(torque, most), -most)
    return found


@dataclass(frozen=True)
class _BaseCommands:
    """Commands of the base's actuators: known disturbances of the arm."""

    fired: Commands
    wheels: Mapping[str, SX]
    forces: SX  # (6 + n)


def _command_base(plant: Plant, actuators: Actuators, control: BaseControl | None) -> _BaseCommands:
    """The base on its path, where it has one (``control``); else the wheels alone, as their reference asks for."""
    if control is None:
        wheels = _wheel_torques(plant, actuators)
        return _BaseCommands(Commands(), wheels, _wheel_forces(actuators, wheels))
    fired, wheels, wrench = command_base(plant, actuators, control)
    forces = _wheel_forces(actuators, wheels)
    forces[:6] += wrench
    return _BaseCommands(fired, wheels, forces)


def _commands(plant: Plant, actuators: Actuators, accelerations: SX, base: _BaseCommands) -> Commands:
    """Torques that accelerate the arm so while the base's actuators act and other joints are free."""
    # The arm driven, the rest free, the base's actuators acting: the reactions of this motion are the arm's torques.
    wanted = plant.values_by_name(accelerations, actuators.arm)
    found = plant.respond(wanted, base.forces)
    free = [actuators.robot.dof_index(name) for name in actuators.soft if name not in plant.known_accelerations]
    lead = plant.reference("lead").value
    if free:
        # Torques that cancel the forces of springs and dampers are held while these change. Without those of half a
        # period later, the soft joints lose their damping to the delay.
        forces = base.forces + ca.SX(0)
        forces[free] += lead * plant.time_derivative(plant.passive[free], found.acceleration)
        found = plant.respond(wanted, forces)
    torques = found.reaction[6:]
    arm = plant.values_by_name(torques[actuators.index(actuators.arm)], actuators.arm)
    return replace(base.fired, forces=arm | dict(base.wheels))


@lru_cache(maxsize=16)
def _build_tracking(actuators: Actuators, control: BaseControl | None) -> Callable[[Plant], Commands]:
    def build(plant: Plant) -> Commands:
        # The model in the law has the assumed load; the world has the true one.
        plant = plant.with_inertia(actuators.gripper, plant.reference("load").value)
        # The arm cannot accelerate what lies behind free soft joints along their axes: it moves the body before them,
        # as if the hand were fixed to it.
        is_soft = any(name not in plant.known_accelerations for name in actuators.soft)
        body, hand = actuators.wrist if is_soft else (actuators.hand, Pose())
        plant.pose(actuators.hand)  # whose placement the program depends on in either case
        pose, arm = plant.pose(body), actuators.index(actuators.arm)
        place, angular_rate, gains = (
            plant.reference("position"),
            plant.reference("spin"),
            plant.reference("gains").value,
        )
        target = rotation_matrix(plant.reference("quaternion").value) @ ca.DM(hand.rotation.T)
        # The reference is the hand's; the controlled body is in front of the soft joints, offset by this lever.
        lever = -(target @ ca.DM(hand.translation))
        velocity = place.rate + ca.cross(angular_rate.value, lever)
        acceleration = (
            place.acceleration
            + ca.cross(angular_rate.rate, lever)
            + ca.cross(angular_rate.value, ca.cross(angular_rate.value, lever))
        )
        apart = sum((ca.cross(pose.rotation[:, k], target[:, k]) for k in range(3)), ca.SX.zeros(3))
        # Axis times sine of the angle, as everywhere: no angle is taken out of a rotation.
        error = ca.vertcat(place.value + lever - pose.origin, 0.5 * apart)
        slip = ca.vertcat(velocity, angular_rate.value) - plant.twist(body)
        # Computed before the arm's demand, in which they are a known disturbance.
        base = _command_base(plant, actuators, control)
        # Acceleration of the body with arm accelerations of zero: velocity products, wheels and thrusters by the base.
        drift = plant.drift(body, actuators.arm, base.forces)
        asked = ca.vertcat(acceleration, angular_rate.rate) + gains[1] * slip + gains[0] * error - drift
        matrix, rates = plant.generalized_jacobian(body, actuators.arm), plant.rates[arm]
        # Damping in the null space only: joint rates are damped by -c qd, and what that would do to the hand, c J* qd,
        # is added to its demand beforehand.
        if actuators.second:
            still = plant.respond(dict.fromkeys(actuators.arm, ca.SX(0)), base.forces)
            accelerations = _share_with_second_arm(plant, actuators, matrix, asked, still.acceleration[3:6])
            return _commands(plant, actuators, accelerations, base)
        asked += SELF_MOTION * (matrix @ rates)
        accelerations = damped_inverse(matrix, asked, *SINGULAR) - SELF_MOTION * rates
        return _commands(plant, actuators, accelerations, base)

    return build


def _share_with_second_arm(plant: Plant, actuators: Actuators, matrix: SX, asked: SX, still: SX) -> SX:
    """Accelerations of both arms: the first one moves the hand, the second one keeps the base from turning.

    With G the base's angular acceleration by those of the joints: the second arm cancels what the first one does to the
    base, a2 = G2^+ (w - still - G1 a1), and the first one counts on that (K. Yoshida, R. Kurazume and Y. Umetani, Dual
    arm coordination in space free-flying robot, ICRA 1991).

    Args:
        matrix: of the hand's acceleration (6, joints) by those of the joints, the base free.
        asked: acceleration (6) of the hand beyond that with still joints.
        still: angular acceleration (3) of the base with still joints.
    """
    first = [k for k, name in enumerate(actuators.arm) if name not in actuators.second]
    second = [k for k, name in enumerate(actuators.arm) if name in actuators.second]
    rates = plant.rates[actuators.index(actuators.arm)]
    turning = ca.densify(plant.response(actuators.arm))[3:6, :]
    inverse = damped_inverse(turning[:, second], ca.SX.eye(3), *SECOND_SINGULAR)
    # With still joints the base would turn as the momentum of all asks for: that remains.
    whole = plant.mass_matrix
    mixed = whole[:3, 3:6]
    inertia = whole[3:6, 3:6] - mixed.T @ solve_symmetric(whole[:3, :3], mixed)
    wheels = ca.SX.zeros(3)
    if actuators.wheels:
        wheels = ca.SX(ca.DM(actuators.axes * actuators.rotors)) @ plant.rates[actuators.index(actuators.wheels)]
    steady = solve_symmetric(inertia, plant.base.rotation.T @ plant.momentum[3:6] - wheels)
    wanted = -STEADY_BASE * (plant.angular_velocity - steady) - still
    reduced = matrix[:, first] - matrix[:, second] @ inverse @ turning[:, first]
    own = asked - matrix[:, second] @ (inverse @ wanted) + SELF_MOTION * (reduced @ rates[first])
    moving = damped_inverse(reduced, own, *SINGULAR) - SELF_MOTION * rates[first]
    # The second arm's own motion that does not turn the base dies out.
    idle = rates[second] - inverse @ (turning[:, second] @ rates[second])
    found = ca.SX.zeros(len(actuators.arm))
    found[first], found[second] = moving, inverse @ (wanted - turning[:, first] @ moving) - SELF_MOTION * idle
    return found


@lru_cache(maxsize=16)
def _build_holding(actuators: Actuators, control: BaseControl | None) -> Callable[[Plant], Commands]:
    def build(plant: Plant) -> Commands:
        plant = plant.with_inertia(actuators.gripper, plant.reference("load").value)
        arm = actuators.index(actuators.arm)
        wanted, gains = plant.reference("joints"), plant.reference("gains").value
        error, slip = wanted.value - plant.joints[arm], wanted.rate - plant.rates[arm]
        asked = wanted.acceleration + gains[1] * slip + gains[0] * error
        return _commands(plant, actuators, asked, _command_base(plant, actuators, control))

    return build


@lru_cache(maxsize=16)
def _build_base(actuators: Actuators, control: BaseControl) -> Callable[[Plant], Commands]:
    def build(plant: Plant) -> Commands:
        base = _command_base(plant, actuators, control)
        return replace(base.fired, forces=dict(base.wheels))

    return build


@lru_cache(maxsize=16)
def _build_stopping(actuators: Actuators, thrusters: bool, momentum: bool) -> Callable[[Plant], Commands]:
    names, table = thruster_pulses(actuators.robot) if thrusters else ((), np.zeros((6, 0)))
    warn_of_partial_levels(actuators.robot, names, table, "stop")

    def build(plant: Plant) -> Commands:
        wheels = _wheel_torques(plant, actuators)
        if not thrusters:
            return Commands(wheels)
        # Thrusters act against the base's rate, or with a load against the whole angular momentum.
        line = -plant.angular_velocity
        if momentum:
            loaded = plant.with_inertia(actuators.gripper, plant.reference("load").value)
            line = -(plant.base.rotation.T @ loaded.momentum[3:6])
            wheels = _limit_speeds(plant, actuators, wheels)
        fired = fire_thrusters(plant.robot, names, table, line, plant.reference("band").value)
        return Commands(wheels, thrusters=fired)

    return build


def _numbers(load: Array, gains: tuple[float, float], wheels: WheelReference | None) -> dict[str, Any]:
    """References of a law of the arm besides its path: load, gains and wheels."""
    found = {"load": [*map(constant, load)], "gains": [*map(constant, gains)], "lead": [constant(0.0)]}
    return found if wheels is None else found | wheels.references()


class OpenPeriodLaw(Law):
    """A law whose period is chosen before it acts, from its loop; the one that it has is the longest."""


def _law(
    build: Callable[[Plant], Commands],
    name: str,
    actuators: Actuators,
    period: float | None,
    references: Mapping[str, Any],
    longest: float = LONGEST_PERIOD,
) -> Law:
    kind = Law if period else OpenPeriodLaw
    return _law_without_references(kind, build, period or longest, actuators.robot, name).replace(references=references)


@lru_cache(maxsize=64)
def _law_without_references(
    kind: type[Law], build: Callable[[Plant], Commands], period: float, robot: Robot, name: str
) -> Law:
    """Made once: the key of its program is kept by those with references."""
    # closed: build depends on the actuators and the plant only, so that laws with other numbers share one program.
    found = kind(build, period, model=robot, system=robot.name, name=name, closed=True)
    _ = found.fixed_key
    return found


def track_hand_pose(
    actuators: Actuators,
    position: Sequence[Signal],
    quaternion: Sequence[Signal],
    angular_rate: Sequence[Signal],
    *,
    load: Array,
    gains: tuple[float, float],
    wheels: WheelReference,
    period: float | None,
    base: BaseReference | None = None,
) -> Law:
    """The hand follows a pose in the world, by the generalized Jacobian and computed torques.

    Args:
        position, quaternion, spin: signals: m, world; hand to world; angular velocity, world axes, rad/s.
        load: ten inertia parameters that are assumed for the gripper with what it holds.
        gains: 1/s2 and 1/s, of the pose's error and its rate.
        period: s between ticks; None: chosen from the loop.
        base: path of the base under thrusters, in place of ``wheels``.
    """
    references = {"position": position, "quaternion": quaternion, "spin": angular_rate}
    references |= _numbers(load, gains, wheels) if base is None else _numbers(load, gains, None) | base.references()
    build = _build_tracking(actuators, None if base is None else base.control)
    return _law(build, "track", actuators, period, references)


def track_joints(
    actuators: Actuators,
    joints: Sequence[Signal],
    *,
    load: Array,
    gains: tuple[float, float],
    wheels: WheelReference,
    period: float | None,
    base: BaseReference | None = None,
) -> Law:
    """The arm's joints follow paths by computed torques; the base too, where it has a path (``base``)."""
    references: dict[str, Any] = {"joints": joints}
    references |= _numbers(load, gains, wheels) if base is None else _numbers(load, gains, None) | base.references()
    build = _build_holding(actuators, None if base is None else base.control)
    return _law(build, "hold", actuators, period, references)


def track_base(actuators: Actuators, base: BaseReference, period: float | None) -> Law:
    """The base follows a path under thrusters, the arm braked."""
    return _law(_build_base(actuators, base.control), "base", actuators, period, base.references())


def stop_base(
    actuators: Actuators,
    *,
    wheels: WheelReference,
    period: float | None,
    band: float | None,
    load: Array | None = None,
    longest: float = LONGEST_BASE_PERIOD,
) -> Law:
    """Wheels take the base's rate away, and thrusters fire about each axis on which a quantity is beyond ``band``.

    It is the base's rate (rad/s); with ``load``, the ten inertia parameters that the gripper is assumed to have with
    what it holds, it is the angular momentum of all (N m s), wheels included: so thrusters unload them too. A period
    that is open is ``longest`` (s) at most.
    """
    references = wheels.references() | ({} if band is None else {"band": [constant(band)]})
    references |= {} if load is None else {"load": [*map(constant, load)]}
    build = _build_stopping(actuators, band is not None, load is not None)
    return _law(build, "stop", actuators, period, references, longest)
