"""Tasks for learners: reach, capture of a tumbling target, detumbling; any number of samples at a time.

A task is the physics, the sensors and the judgement; environments around it (:mod:`spacearm.connect.environments`)
speak a learner's interface. What an action commands, what is observed and what is judged are expressions, written like
laws and compiled. Motion is RK4 with a fixed step (:class:`spacearm.VectorSimulator`), in vector lanes of the processor
or in threads of a GPU, with the servo in the same kernel. Each sample is computed alone: on the processor its episode
has the same bits whether it runs alone or among many.

The arm is driven by a rate servo: with the effective inertia H* = H_aa - H_ar H_rr^-1 H_ra of its joints, the base and
all else reacting, the torques are H* (wanted - rate) / time constant, within the limits of effort. Hand velocities
become joint rates by the damped inverse of the generalized Jacobian (Umetani and Yoshida, IEEE Trans. Robotics and
Automation 5(3), 1989).

A reward is progress: with the potential P = sum of log(1 + value / limit) over what is judged, so that each margin
counts relative to itself, a step is worth the decrease of P, less a price of time and of effort. The sum of decreases
depends on an episode's start and end alone, as in potential-based shaping (Ng, Harada, Russell, ICML 1999). With -P as
the reward of a step, whoever fails early would be spared the rest: learners then learn to fail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import casadi as ca
import numpy as np

from spacearm import checks
from spacearm.connect._sensor_reader import SensorReader
from spacearm.engine import Kernel, Mechanics
from spacearm.engine.device import Device
from spacearm.errors import InputError
from spacearm.mechanics.kinematics import base_pose
from spacearm.mechanics.linear import solve_symmetric
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.sensors import Encoder, Gyro, Sensor, Tachometer
from spacearm.mechanics.spatial import SX
from spacearm.model import Body, Inertia, Robot, catalogue, edit
from spacearm.model.layout import Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.ensemble.vector_simulator import Servo, VectorSimulator
from spacearm.simulate.loads import thrust_wrench
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: s: time constant of the rate servo, and of its damping near singularities (m/s per rad/s, squared).
SERVO, DAMPING = 0.2, 1e-3
#: What success and failure are worth, in units of the potential.
BONUS, PENALTY = 5.0, 5.0
#: 1/s: price of time.
TIME = 0.02
#: Largest rate times step that RK4 takes with room to spare (2.8 is its limit).
STABLE = 1.5
Action = Literal["hand_velocity", "joint_rates"]


def _rigid_servicer() -> Robot:
    """The catalogue's servicer with its soft wrist locked, as its clutch does until something is caught."""
    return edit.freeze(catalogue.load("servicer"), ["slide", "swing"])


def _length(vector: SX) -> SX:
    return ca.sqrt(ca.sumsqr(vector))


class Draws:
    """Random numbers of samples that begin, each from a generator of its own."""

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = tuple(generators)

    def __len__(self) -> int:
        return len(self._generators)

    def uniform(self, size: int, most: float = 1.0) -> Array:
        """Uniform random numbers (B, size) from -most to most."""
        return most * (2.0 * np.array([each.random(size) for each in self._generators]) - 1.0)

    def normal(self, size: int) -> Array:
        """Random numbers (B, size) of the standard normal distribution."""
        return np.array([each.standard_normal(size) for each in self._generators])


@dataclass(frozen=True)
class ArmServo:
    """Torques (6 + n) by which the arm follows wanted rates, or wanted velocities of the hand, base axes.

    Args:
        arm: places of its joints.
        rate, effort: their limits.
        hand: the frame that moves; "" where actions are joint rates.
        speed: m/s, largest velocity that an action asks of the hand along an axis.
    """

    arm: tuple[int, ...]
    rate: tuple[float, ...]
    effort: tuple[float, ...]
    hand: str = ""
    speed: float = 1.0

    def __call__(self, plant: Plant, action: SX) -> SX:
        limits = ca.SX(ca.DM(self.rate))
        wanted = self._rates(plant, action) if self.hand else action * limits
        own = [6 + i for i in self.arm]
        others = [i for i in range(plant.robot.dofs) if i not in own]
        # What the arm has to move while all else gives way: the Schur complement of the mass matrix.
        matrix = plant.mass_matrix
        across = matrix[others, own]
        effective = matrix[own, own] - across.T @ solve_symmetric(matrix[others, others], across)
        effort = ca.SX(ca.DM(self.effort))
        forces = ca.SX.zeros(plant.robot.dofs)
        # First order in the wanted rate, whatever the configuration: the effective inertia scales the gain.
        torques = effective @ ((wanted - plant.velocity[own]) / SERVO)
        forces[own] = ca.fmin(ca.fmax(torques, -effort), effort)
        return forces

    def _rates(self, plant: Plant, action: SX) -> SX:
        """Joint rates for a velocity of the hand, shortened as a whole to the limits so that its direction stays."""
        velocity = plant.base.rotation @ (self.speed * action)
        jacobian = plant.generalized_jacobian(self.hand)[:3, list(self.arm)]
        # Damped least squares: near a singularity rates stay finite, and the hand lags instead.
        square = jacobian @ jacobian.T + DAMPING * ca.SX.eye(3)
        rates = jacobian.T @ solve_symmetric(square, velocity)
        share = ca.SX(1.0)
        for k, limit in enumerate(self.rate):
            share = ca.fmax(share, ca.fabs(rates[k]) / limit)
        return rates / share


@dataclass(frozen=True)
class ThrusterServo:
    """Forces (6 + n) of thrusters on the base: a level of -1 is off, of 1 full thrust. The arm is held at rest.

    Args:
        wrenches: force and moment of each at full thrust, at the origin of the base, base axes.
        hold: of the arm.
    """

    wrenches: tuple[tuple[float, ...], ...]
    hold: ArmServo

    def __call__(self, plant: Plant, action: SX) -> SX:
        forces = self.hold(plant, ca.SX.zeros(len(self.hold.arm)))
        forces[:6] = ca.SX(ca.DM(np.array(self.wrenches).T)) @ (0.5 * (action + 1.0))
        return forces


class Task(ABC):
    """A robot, what is commanded, what is sensed and what is judged.

    Args:
        robot: the catalogue's servicer by default; no dry friction, which roll-outs do not have.
        sensors: what is observed of the robot, with their noise.
        dispersion: standard deviation of the masses and inertias, as a share; drawn anew for each episode.
        period: s between two actions.
        step: s, of the integration; ``period`` is a multiple of it.
        duration: s of an episode.
    """

    #: Numbers of the state that a sample has beside the robot's, set by :meth:`draw`.
    extra_size = 0
    #: Numbers that are observed beside the sensors' readings, and the standard deviation of their noise.
    relative_size, relative_noise = 0, 0.0
    #: 1/s: price of the largest effort.
    effort_price = 0.01

    def __init__(
        self,
        robot: Robot | None = None,
        *,
        sensors: Sequence[Sensor] | None = None,
        dispersion: float = 0.05,
        period: float = 0.5,
        step: float = 0.025,
        duration: float = 60.0,
        hand: str = "hand",
    ) -> None:
        self.robot = _rigid_servicer() if robot is None else robot
        place = type(self).__name__
        self.period = checks.positive(period, "period", unit="s", place=place)
        self.duration = checks.positive(duration, "duration", unit="s", place=place)
        self.step = checks.positive(step, "step", unit="s", place=place)
        self.dispersion = checks.number(dispersion, "dispersion", least=0.0, below=0.3, place=place)
        self._count = round(period / step)
        #: Times in a period at which the servo reads the state anew.
        self.ticks = 2 if self._count < 8 else self._count // 4
        if self._count < 2 or self._count % 2 or abs(self._count * step - period) > 1e-9 * period:
            raise InputError(
                f"step is {step:g} s", place=place, hint=f"expected {period:g} s divided by an even number"
            )
        # The servo must be asked at whole steps: the next smaller number of ticks that divides the period.
        while self._count % self.ticks:
            self.ticks -= 1
        self.hand = self.robot.frame(hand).name
        self.layout, self.mechanics = Layout(self.robot.n), Mechanics(self.robot)
        #: Joints that the arm moves: those with a limit of effort on the way to the hand.
        path = self._path(self.robot.frame(hand).body)
        self.arm = [i for i in path if np.isfinite(self.robot.joints[i].limits.effort)]
        limits = [self.robot.joints[i].limits for i in self.arm]
        self.effort = np.array([limit.effort for limit in limits])
        self.rate = np.array([min(limit.velocity, 0.5) for limit in limits])
        self.range = np.array([(limit.lower, limit.upper) for limit in limits]).reshape(-1, 2)
        self._check_step(place)
        default = (
            Encoder(noise=1e-4, joints=self._names),
            Tachometer(noise=1e-4, joints=self._names),
            Gyro(noise=1e-5),
        )
        self.reader = SensorReader(self.robot, default if sensors is None else sensors)

    def _check_step(self, place: str) -> None:
        """RK4 diverges where a spring or damper is faster than its step."""
        joints = self.robot.configuration("ready" if "ready" in self.robot.configurations else "zero")
        own = robot_parameters(self.robot)
        # Acceleration of each joint for a unit force, all others free: the fastest that its spring can swing.
        response = np.diag(np.linalg.inv(self.mechanics.mass_matrix(joints)))
        for i, joint in enumerate(self.robot.joints):
            fastest = max(own["damping"][6 + i] * response[6 + i], np.sqrt(own["stiffness"][i] * response[6 + i]))
            if fastest * self.step > STABLE:
                hint = f"expected a step below {STABLE / fastest:.2g} s, or edit.freeze(robot, [joint])"
                raise InputError(f"step of {self.step:g} s is too long for the spring or damper of {joint.name!r}",
                                 place=place, hint=hint)  # fmt: skip

    @property
    def _names(self) -> list[str]:
        return [self.robot.joint_names[i] for i in self.arm]

    def _path(self, body: str) -> list[int]:
        found, at = [], self.robot.body_index(body)
        while at:
            found.append(at - 1)
            at = self.robot.parents[at - 1]
        return found[::-1]

    # -- what a task defines --------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def servo(self) -> Servo:
        """Forces on all degrees of freedom for an action, whose numbers are from -1 to 1."""

    @abstractmethod
    def draw(self, draws: Draws) -> tuple[Array, Array]:
        """Starts of episodes: flat states of the robot (B, 13 + 2 n), and the rest of the samples (B, extra_size)."""

    @abstractmethod
    def judge(self, plant: Plant, extra: SX) -> dict[str, tuple[SX, float]]:
        """Values of a sample that are to become small, and their limits, by name."""

    def observe(self, plant: Plant, extra: SX) -> SX:
        """The observation of a target (relative_size), each number of the order of 1."""
        del plant, extra
        return ca.SX(0, 1)

    def spend(self, actions: Array) -> Array:
        """Share (B,) of what actions (B, size) may use."""
        return _mean(actions**2)

    def simulate_extra(self, extra: Array, device: Device = "cpu") -> VectorSimulator | None:
        """The simulator of what else moves in the samples, one step a period; None where nothing does."""
        del extra, device
        return None

    # -- what all do ----------------------------------------------------------------------------------------------

    @property
    def observation_size(self) -> int:
        """Numbers of an observation."""
        return self.reader.size + self.relative_size

    @cached_property
    def limits(self) -> dict[str, float]:
        """Limit of each value that is judged."""
        plant = Plant(self.robot, robot_parameters(self.robot))
        return {name: limit for name, (_, limit) in self.judge(plant, ca.SX.sym("extra", self.extra_size)).items()}

    @cached_property
    def _look(self) -> Kernel:
        """What is observed, shares of the limits, and how far joints are beyond their range."""
        plant, extra = Plant(self.robot, robot_parameters(self.robot)), ca.SX.sym("extra", self.extra_size)
        shares = [value / limit for value, limit in self.judge(plant, extra).values()]
        beyond = ca.SX(-1.0)
        for i, (lower, upper) in zip(self.arm, self.range, strict=True):
            beyond = ca.fmax(beyond, ca.fmax(lower - plant.joints[i], plant.joints[i] - upper))
        outputs = {"share": ca.vertcat(*shares), "beyond": beyond}
        if self.relative_size:
            outputs["relative"] = self.observe(plant, extra)
        inputs = {"state": plant.state} | ({"extra": extra} if self.extra_size else {})
        return Kernel(Program("look", inputs, {name: ca.densify(value) for name, value in outputs.items()}))

    def look(self, states: Array, extra: Array) -> dict[str, Array]:
        """``share`` (B, values) of the limits, ``relative`` (B, size) and ``beyond`` (B,), rad or m, of samples."""
        found = self._look({"state": states} | ({"extra": extra} if self.extra_size else {}))
        count = len(states)
        return {name: v.reshape(count) if name == "beyond" else v.reshape(count, -1) for name, v in found.items()}

    @cached_property
    def _forces(self) -> Kernel:
        plant, action = Plant(self.robot, robot_parameters(self.robot)), ca.SX.sym("action", self.servo.size)
        forces = ca.densify(self.servo.build(plant, action))
        return Kernel(Program("servo", {"state": plant.state, "action": action}, {"force": forces}))

    def forces(self, actions: Array, states: Array) -> Array:
        """Generalised forces (B, 6 + n) of the servo at these states."""
        found: Array = self._forces({"state": states, "action": actions})["force"].reshape(len(states), -1)
        return found

    def draw_inertia(self, draws: Draws) -> Array:
        """Inertia parameters of all bodies (B, 10 bodies), each body scaled by one factor: it stays a body."""
        # Three deviations at most: a factor near zero would make a body too light for the step.
        scale = 1.0 + self.dispersion * np.clip(draws.normal(len(self.robot.bodies)), -3.0, 3.0)
        own = robot_parameters(self.robot)["inertia"].reshape(-1, 10)
        return (own * scale[..., None]).reshape(len(draws), -1)

    def simulate(self, states: Array, inertia: Array, device: Device = "cpu") -> VectorSimulator:
        """The simulator of the robots, from states (B, 13 + 2 n) and inertia parameters (B, 10 bodies)."""
        return VectorSimulator(
            self.robot, states, forces=self.robot.dof_names, period=self._count * self.step, steps=self._count,
            servo=self.servo, overrides={"inertia": inertia}, threads=1, ignore_friction=True, device=device,
        )  # fmt: skip

    def hold_arm(self) -> ArmServo:
        """The servo that follows joint rates."""
        return ArmServo(tuple(self.arm), tuple(self.rate.tolist()), tuple(self.effort.tolist()))

    def hand_motion(self, states: Array) -> tuple[Array, Array]:
        """Position and velocity (B, 3) of the hand, world axes."""
        joints, base = states[:, self.layout.joints], states[:, :7]
        origin, _ = self.mechanics.frame_pose(self.hand, joints, base=base)
        twist = self.mechanics.frame_velocity(self.hand, joints, states[:, self.layout.velocity], base=base)
        return origin, twist[:, :3]

    def start_states(self, draws: Draws, spread: float, base_rate: float) -> Array:
        """Random states (B, 13 + 2 n) near the configuration ``ready``, with some angular velocity of the base."""
        states = np.zeros((len(draws), self.layout.size))
        states[:, self.layout.quaternion] = 1.0, 0.0, 0.0, 0.0
        named = self.robot.configurations
        joints = np.array(self.robot.configuration("ready" if "ready" in named else "zero"), dtype=np.float64)
        joints = np.tile(joints, (len(draws), 1))
        joints[:, self.arm] += draws.uniform(len(self.arm), spread)
        # Not on a limit: an episode must not fail at its first step.
        joints[:, self.arm] = np.clip(joints[:, self.arm], self.range[:, 0] + 0.05, self.range[:, 1] - 0.05)
        states[:, self.layout.joints] = joints
        states[:, self.layout.angular_velocity] = base_rate * draws.normal(3)
        return states


def _mean(values: Array) -> Array:
    """Over the last axis, one by one: the same bits for any number of samples."""
    mean: Array = sum(values.T[1:], values[:, 0]) / values.shape[1]
    return mean


class Reach(Task):
    """Bring the hand to a point and to rest there, while the base floats.

    Args:
        action: ``hand_velocity`` (3, base axes) or ``joint_rates`` of the arm.
        speed: m/s, largest velocity that an action can ask of the hand.
        within, rest: m and m/s: the limits.
        camera: m and dm/s, standard deviation of what is observed of the target.
    """

    relative_size = 9
    extra_size = 6

    def __init__(
        self,
        robot: Robot | None = None,
        *,
        action: Action = "hand_velocity",
        speed: float = 0.15,
        within: float = 0.03,
        rest: float = 0.02,
        camera: float = 1e-3,
        **options: Any,
    ) -> None:
        super().__init__(robot, **options)
        if not self.arm:
            raise InputError("no joint between base and hand has an effort limit", place=type(self).__name__)
        self.action = checks.one_of(action, ("hand_velocity", "joint_rates"), "action", place=type(self).__name__)
        self.speed = checks.positive(speed, "speed", unit="m/s")
        self.within, self.rest = checks.positive(within, "within", unit="m"), checks.positive(rest, "rest", unit="m/s")
        self.relative_noise = checks.non_negative(camera, "camera", unit="m")

    @property
    def servo(self) -> Servo:
        follow, hold = self.hold_arm(), self._count // self.ticks
        if self.action == "joint_rates":
            return Servo(follow, len(self.arm), hold)
        return Servo(ArmServo(follow.arm, follow.rate, follow.effort, self.hand, self.speed), 3, hold)

    def draw(self, draws: Draws) -> tuple[Array, Array]:
        """The target is where the hand would be in another configuration near the first."""
        states = self.start_states(draws, 0.2, 1e-3)
        points, _ = self.hand_motion(self.start_states(draws, 0.5, 0.0))
        return states, np.hstack([points, np.zeros_like(points)])

    def target_motion(self, extra: SX) -> tuple[SX, SX]:
        """Position and velocity (3) of the point to reach, world axes."""
        return extra[:3], extra[3:6]

    def _errors(self, plant: Plant, extra: SX) -> tuple[SX, SX]:
        """From the hand to the target: position and velocity (3), world axes."""
        point, velocity = self.target_motion(extra)
        return point - plant.pose(self.hand).origin, velocity - plant.twist(self.hand)[:3]

    def observe(self, plant: Plant, extra: SX) -> SX:
        """Position (m) and velocity (dm/s) of the target from the hand, velocity of the hand (dm/s); base axes."""
        away, slip = self._errors(plant, extra)
        seen = (away, 10.0 * slip, 10.0 * plant.twist(self.hand)[:3])
        return ca.vertcat(*(plant.base.rotation.T @ each for each in seen))

    def judge(self, plant: Plant, extra: SX) -> dict[str, tuple[SX, float]]:
        away, slip = map(_length, self._errors(plant, extra))
        return {"distance": (away, self.within), "speed": (slip, self.rest)}


class CaptureTumbling(Reach):
    """Bring the hand to a grapple point of a tumbling target, and to its velocity.

    The target moves free of forces: the hand meets it, contact is not part of the task. The hand's attitude is free.

    Args:
        target: a rigid body; 120 kg by default.
        grapple: m, grapple point in the target's frame.
        tumble: rad/s, largest angular velocity of the target about each axis.
        action, speed, within, rest, camera: as for :class:`Reach`.
    """

    extra_size = 13

    def __init__(
        self,
        robot: Robot | None = None,
        *,
        target: Inertia | None = None,
        grapple: Sequence[float] = (0.0, 0.0, 0.5),
        tumble: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(robot, **options)
        inertia = Inertia(120.0, np.zeros(3), np.diag([14.0, 18.0, 11.0])) if target is None else target
        self.target = Robot("target", (Body("target", inertia),), ())
        self.grapple = checks.array(grapple, "grapple", (3,), place="CaptureTumbling")
        self.tumble = checks.non_negative(tumble, "tumble", unit="rad/s", place="CaptureTumbling")

    def draw(self, draws: Draws) -> tuple[Array, Array]:
        """The grapple point begins within reach, and its mean velocity is small."""
        states, points = super().draw(draws)
        extra = np.zeros((len(draws), 13))
        attitude = draws.normal(4)
        # Four normal numbers, scaled: attitudes without a preferred direction.
        extra[:, 3:7] = attitude / np.linalg.norm(attitude, axis=1, keepdims=True)
        extra[:, :3] = points[:, :3] - rotation_matrices(extra[:, 3:7]) @ self.grapple
        extra[:, 10:13] = draws.uniform(3, self.tumble)
        return states, extra

    def target_motion(self, extra: SX) -> tuple[SX, SX]:
        pose, arm = base_pose(extra[:3], extra[3:7]), ca.SX(ca.DM(self.grapple))
        velocity = extra[7:10] + ca.cross(extra[10:13], arm)
        return pose.origin + pose.rotation @ arm, pose.rotation @ velocity

    def simulate_extra(self, extra: Array, device: Device = "cpu") -> VectorSimulator:
        return VectorSimulator(
            self.target, extra, period=self._count * self.step, steps=self._count, threads=1, device=device
        )


class Detumble(Task):
    """Stop a tumbling satellite by its thrusters, with little propellant, while its arm is held.

    Args:
        tumble: rad/s, standard deviation of the angular velocity about each axis at the start.
        rest: rad/s: the limit.
    """

    effort_price = 0.05

    def __init__(self, robot: Robot | None = None, *, tumble: float = 0.1, rest: float = 0.005, **options: Any) -> None:
        super().__init__(robot, **options)
        base = self.robot.body_names[0]
        self.thrusters = [each.name for each in self.robot.thrusters if each.body == base]
        if not self.thrusters:
            raise InputError("the base has no thrusters", place="Detumble", hint='expected a robot such as "servicer"')
        self.tumble, self.rest = checks.positive(tumble, "tumble"), checks.positive(rest, "rest")
        #: Force and moment (thrusters, 6) of each at full thrust, at the origin of the base.
        self.wrenches = np.array([thrust_wrench(self.robot, name) for name in self.thrusters])

    @property
    def servo(self) -> Servo:
        wrenches = tuple(tuple(row) for row in self.wrenches.tolist())
        return Servo(ThrusterServo(wrenches, self.hold_arm()), len(self.thrusters), self._count // self.ticks)

    def draw(self, draws: Draws) -> tuple[Array, Array]:
        return self.start_states(draws, 0.2, self.tumble), np.zeros((len(draws), 0))

    def judge(self, plant: Plant, extra: SX) -> dict[str, tuple[SX, float]]:
        del extra
        return {"rate": (_length(plant.angular_velocity), self.rest)}

    def spend(self, actions: Array) -> Array:
        # Thrust is propellant: linear in the level, not squared as efforts are.
        return _mean(0.5 * (actions + 1.0))


#: Tasks by the names of their environments.
TASKS: dict[str, type[Task]] = {"Reach": Reach, "CaptureTumbling": CaptureTumbling, "Detumble": Detumble}
