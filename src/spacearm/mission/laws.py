"""The laws of a mission, each written once for a robot: gains, paths and the load in the hand are numbers at run time.

So a mission with another target, another strategy or other gains runs the same compiled code.

The hand follows a pose by resolved acceleration on the generalized Jacobian (Umetani and Yoshida, 1989), which contains
the base's reaction by momentum conservation; joint torques are those of inverse dynamics of the floating robot with the
commanded accelerations (computed torque). Wheels have a separate law: a PD on the base's attitude, or a first-order
law on the momentum that they store; their torques enter the arm's dynamics as known forces. Frames: hand pose, twist
and errors in world axes; wheel torques and momenta in base axes. SI units. Near dynamic singularities the inverse is
damped and tracking gives way. Laws are sampled; between ticks commands are constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np

from spacearm.control import Commands, Law, Plant, fire
from spacearm.control.attitude import notice_partly_on, thruster_pulses
from spacearm.mechanics.plant import damped_inverse
from spacearm.mechanics.spatial import SX, rotation_matrix
from spacearm.model import Robot
from spacearm.simulate import Signal, constant
from spacearm.typing import Array

#: Damping of the inverse near dynamic singularities, and the manipulability below which it sets in.
SINGULAR = (0.02, 0.05)
#: 1/s, with which motion of the arm dies out that does not move the hand.
SELF_MOTION = 0.5


@dataclass(frozen=True)
class Crew:
    """Who does what on the servicer; the same crew has the same programs."""

    robot: Robot
    hand: str
    arm: tuple[str, ...]
    soft: tuple[str, ...]

    @property
    def gripper(self) -> str:
        """The body that carries the hand, and with it whatever is caught."""
        return self.robot.frame(self.hand).body

    @property
    def wheels(self) -> tuple[str, ...]:
        return self.robot.wheel_names

    @property
    def axes(self) -> Array:
        """(3, wheels) axes of the reaction wheels in the base's frame."""
        joints = [self.robot.joint(name) for name in self.wheels]
        return np.array([joint.placement.rotation @ joint.axis for joint in joints]).T.reshape(3, -1)

    @property
    def rotors(self) -> Array:
        """(wheels,) kg m2."""
        found = [self.robot.joint(name).rotor for name in self.wheels]
        return np.array([rotor.inertia * rotor.ratio for rotor in found if rotor is not None])

    def index(self, names: Sequence[str]) -> list[int]:
        return [self.robot.joint_index(name) for name in names]

    def slow(self, turning: float, sliding: float) -> list[float]:
        """Of each soft joint, one of these rates: rad/s, m/s."""
        return [turning if self.robot.joint(name).unit == "rad" else sliding for name in self.soft]

    def stored(self, rates: Array) -> Array:
        """Momentum (..., 3) of the wheels relative to the bus, base axes, for joint rates (..., n)."""
        return np.asarray((rates[..., self.index(self.wheels)] * self.rotors) @ self.axes.T)


@dataclass(frozen=True)
class Wheels:
    """What the wheels are for: hold an attitude, take away the base's rate, carry a momentum.

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


def _wheel_torques(plant: Plant, crew: Crew) -> dict[str, SX]:
    """Torques on the wheels, as :class:`Wheels` asks for."""
    if not crew.wheels:
        return {}
    gains, turn = plant.reference("wheels").value, plant.base.rotation
    target = rotation_matrix(gains[3:7])
    # 0.5 sum r_k x t_k is sin(angle) times the axis from the attitude to its aim: no quaternion sign to choose.
    apart = turn.T @ sum((ca.cross(turn[:, k], target[:, k]) for k in range(3)), ca.SX.zeros(3))
    on_base = 0.5 * gains[0] * apart - gains[1] * plant.angular_velocity
    axes, rates = ca.SX(ca.DM(crew.axes)), plant.rates[crew.index(crew.wheels)]
    carried = axes @ (ca.SX(ca.DM(crew.rotors)) * rates)
    short = turn.T @ plant.reference("momentum").value - carried
    # What acts on the base acts on the wheels with the opposite sign; least-norm distribution for more than three
    # wheels.
    torque = ca.SX(ca.DM(np.linalg.pinv(crew.axes))) @ (gains[2] * short - on_base)
    # within the motors' limits here already: the arm's torques take them for what acts
    most = [crew.robot.joint(name).limits.effort for name in crew.wheels]
    held = [ca.fmax(ca.fmin(torque[i], bound), -bound) for i, bound in enumerate(most)]
    return plant.named(ca.vertcat(*held), crew.wheels)


def _on_wheels(crew: Crew, wheels: Mapping[str, SX]) -> SX:
    """Torques on the wheels among the forces (6 + n) on all degrees of freedom."""
    found = ca.SX.zeros(crew.robot.dofs)
    for name, torque in wheels.items():
        found[crew.robot.dof_index(name)] = torque
    return found


def _commands(plant: Plant, crew: Crew, accelerations: SX, wheels: Mapping[str, SX]) -> Commands:
    """Torques that accelerate the arm so while the base floats, the wheels are driven and other joints are free."""
    torques = plant.respond(plant.named(accelerations, crew.arm), _on_wheels(crew, wheels)).reaction[6:]
    return Commands(plant.named(torques[crew.index(crew.arm)], crew.arm) | dict(wheels))


@lru_cache(maxsize=16)
def _tracking(crew: Crew) -> Callable[[Plant], Commands]:
    def build(plant: Plant) -> Commands:
        # The model in the law has the assumed load; the world has the true one.
        plant = plant.believing(crew.gripper, plant.reference("load").value)
        pose, arm = plant.pose(crew.hand), crew.index(crew.arm)
        place, spin, gains = plant.reference("position"), plant.reference("spin"), plant.reference("gains").value
        target = rotation_matrix(plant.reference("quaternion").value)
        apart = sum((ca.cross(pose.rotation[:, k], target[:, k]) for k in range(3)), ca.SX.zeros(3))
        error = ca.vertcat(place.value - pose.origin, 0.5 * apart)
        slip = ca.vertcat(place.rate, spin.value) - plant.twist(crew.hand)
        wheels = _wheel_torques(plant, crew)
        drift = plant.drift(crew.hand, crew.arm, _on_wheels(crew, wheels))
        asked = ca.vertcat(place.acceleration, spin.rate) + gains[1] * slip + gains[0] * error - drift
        matrix, rates = plant.generalized_jacobian(crew.hand, crew.arm), plant.rates[arm]
        # Damping in the null space only: joint rates are damped by -c qd, and what that would do to the hand, c J* qd,
        # is added to its demand beforehand.
        asked += SELF_MOTION * (matrix @ rates)
        accelerations = damped_inverse(matrix, asked, *SINGULAR) - SELF_MOTION * rates
        return _commands(plant, crew, accelerations, wheels)

    return build


@lru_cache(maxsize=16)
def _holding(crew: Crew) -> Callable[[Plant], Commands]:
    def build(plant: Plant) -> Commands:
        plant = plant.believing(crew.gripper, plant.reference("load").value)
        arm = crew.index(crew.arm)
        wanted, gains = plant.reference("joints"), plant.reference("gains").value
        error, slip = wanted.value - plant.joints[arm], wanted.rate - plant.rates[arm]
        asked = wanted.acceleration + gains[1] * slip + gains[0] * error
        return _commands(plant, crew, asked, _wheel_torques(plant, crew))

    return build


@lru_cache(maxsize=16)
def _stopping(crew: Crew, thrusters: bool) -> Callable[[Plant], Commands]:
    names, table = thruster_pulses(crew.robot) if thrusters else ((), np.zeros((6, 0)))
    notice_partly_on(crew.robot, names, table, "stop")

    def build(plant: Plant) -> Commands:
        wheels = _wheel_torques(plant, crew)
        if not thrusters:
            return Commands(wheels)
        band, spin = plant.reference("band").value, plant.angular_velocity
        return Commands(wheels, thrusters=fire(plant.robot, names, table, -spin, band))

    return build


def _numbers(load: Array, gains: tuple[float, float], wheels: Wheels) -> dict[str, Any]:
    """What a law of the arm is told besides its path."""
    return {"load": [*map(constant, load)], "gains": [*map(constant, gains)], **wheels.references()}


def _law(
    build: Callable[[Plant], Commands], name: str, crew: Crew, period: float, references: Mapping[str, Any]
) -> Law:
    robot = crew.robot
    return Law(build, period, references=references, model=robot, system=robot.name, name=name, closed=True)


def track(
    crew: Crew,
    position: Sequence[Signal],
    quaternion: Sequence[Signal],
    spin: Sequence[Signal],
    *,
    load: Array,
    gains: tuple[float, float],
    wheels: Wheels,
    period: float,
) -> Law:
    """The hand follows a pose in the world, by the generalized Jacobian and computed torques.

    Args:
        position, quaternion, spin: signals: m, world; hand to world; angular velocity, world axes, rad/s.
        load: ten inertia parameters that the gripper is believed to have, with what it holds.
        gains: 1/s2 and 1/s, of the pose's error and its rate.
    """
    references = {"position": position, "quaternion": quaternion, "spin": spin, **_numbers(load, gains, wheels)}
    return _law(_tracking(crew), "track", crew, period, references)


def hold(
    crew: Crew,
    joints: Sequence[Signal],
    *,
    load: Array,
    gains: tuple[float, float],
    wheels: Wheels,
    period: float,
) -> Law:
    """The arm's joints follow paths by computed torques."""
    references = {"joints": joints, **_numbers(load, gains, wheels)}
    return _law(_holding(crew), "hold", crew, period, references)


def stop(crew: Crew, *, wheels: Wheels, period: float, band: float | None) -> Law:
    """Wheels take the base's rate away; where it turns faster than ``band`` (rad/s) about an axis, thrusters fire."""
    references = wheels.references() | ({} if band is None else {"band": [constant(band)]})
    return _law(_stopping(crew, band is not None), "stop", crew, period, references)
