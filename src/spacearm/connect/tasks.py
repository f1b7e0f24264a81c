"""Tasks for learners: reach, capture of a tumbling target, detumbling; any number of samples at a time.

A task is the physics, the sensors and the judgement; environments around it (:mod:`spacearm.connect.environments`)
speak a learner's interface. Motion is RK4 with a fixed step (:class:`spacearm.VectorSimulator`), in vector lanes of the
processor or in threads of a GPU. Each sample is computed alone: on the processor its episode has the same bits whether
it runs alone or among many. What takes states computes where they are: arrays are NumPy's or CuPy's.

The arm is driven by a rate servo: with the effective inertia H* = H_aa - H_ar H_rr^-1 H_ra of its joints, the base and
all else reacting, the torques are H* (wanted - rate) / time constant, within the limits of effort. Hand velocities
become joint rates by the damped inverse of the generalized Jacobian (Umetani and Yoshida, IEEE Trans. Robotics and
Automation 5(3), 1989).

A reward is the negative sum of log(1 + value / limit) over what is judged, so that each margin counts relative to
itself, with a bonus where all limits hold and a penalty where a joint leaves its range.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.connect.sensor_reader import SensorReader
from spacearm.engine import Mechanics
from spacearm.engine.device import Device, array_module
from spacearm.errors import InputError
from spacearm.mechanics.sensors import Encoder, Gyro, Sensor, Tachometer
from spacearm.model import Body, Inertia, Robot, catalogue, edit
from spacearm.model.layout import Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.ensemble.vector_simulator import VectorSimulator
from spacearm.simulate.loads import thrust_wrench
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: s: time constant of the rate servo, and of its damping near singularities (m/s per rad/s, squared).
SERVO, DAMPING = 0.2, 1e-3
BONUS, PENALTY = 100.0, 100.0
#: Largest rate times step that RK4 takes with room to spare (2.8 is its limit).
STABLE = 1.5
Flags: TypeAlias = npt.NDArray[np.bool_]
Action = Literal["hand_velocity", "joint_rates"]


def _rigid_servicer() -> Robot:
    """The catalogue's servicer with its soft wrist locked, as its clutch does until something is caught."""
    return edit.freeze(catalogue.load("servicer"), ["slide", "swing"])


def _apply(matrices: Array, vectors: Array) -> Array:
    """Products (B, m) of matrices (B, m, n) and vectors (B, n), one by one: einsum has other bits for other B."""
    xp = array_module(vectors)
    found: Array = (xp.ascontiguousarray(matrices) @ xp.ascontiguousarray(vectors)[..., None])[..., 0]
    return found


def _length(vectors: Array) -> Array:
    """Lengths (B,) of vectors (B, 3); written out, since NumPy's sums have other bits for other numbers of rows."""
    x, y, z = vectors.T
    length: Array = np.sqrt(x * x + y * y + z * z)
    return length


class Judgement(NamedTuple):
    """What a step was worth: arrays (B,), and margins (1: nothing of the limit is used; below 0: broken) by name."""

    reward: Array
    success: Flags
    failure: Flags
    margins: dict[str, Array]


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

    #: Entries of the state that a sample has beside the robot's, set by :meth:`draw`.
    extra_size = 0

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
    def action_size(self) -> int:
        """Numbers of an action, each from -1 to 1."""

    @property
    def observation_size(self) -> int:
        """Numbers of an observation, each of the order of 1."""
        return self.reader.size + self.relative_size

    #: Numbers of the observation beside the sensors'.
    relative_size = 0

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """Start of an episode: the robot's flat state, and what else the sample has."""

    @abstractmethod
    def judge(self, states: Array, extra: Array, spent: Array) -> Judgement:
        """Samples after a step; ``spent``: mean share (B,) of what the action may use."""

    @abstractmethod
    def command(self, actions: Array, states: Array) -> tuple[Array, Array]:
        """Wanted joint rates of the arm (B, arm), and forces (B, 6) on the base, base axes."""

    def relative(self, states: Array, extra: Array) -> Array:
        """What is observed of a target (B, relative_size)."""
        del extra
        return states[:, :0]

    def simulate_extra(self, extra: Array, device: Device = "cpu") -> VectorSimulator | None:
        """What moves the rest of the samples, one step a period; nothing where it stands still."""
        del extra, device
        return None

    # -- what all do ----------------------------------------------------------------------------------------------

    def draw_inertia(self, rng: np.random.Generator) -> Array:
        """Inertia parameters of all bodies, each body scaled by one factor: it stays a body."""
        scale = 1.0 + self.dispersion * np.clip(rng.standard_normal(len(self.robot.bodies)), -3.0, 3.0)
        return np.ravel(robot_parameters(self.robot)["inertia"].reshape(-1, 10) * scale[:, None])

    def simulate(self, states: Array, inertia: Array, device: Device = "cpu") -> VectorSimulator:
        """What moves the robots, from these states (B, 13 + 2 n) and inertia parameters (B, 10 bodies)."""
        steps = self._count // self.ticks
        return VectorSimulator(
            self.robot, states, forces=self.robot.dof_names, period=steps * self.step, steps=steps,
            overrides={"inertia": inertia}, threads=1, ignore_friction=True, device=device,
        )  # fmt: skip

    def advance(self, actions: Array, simulator: VectorSimulator) -> None:
        """Move the robots by a period; the servo acts anew at each tick."""
        for _ in range(self.ticks):
            simulator.step(self.forces(actions, simulator.states))

    def forces(self, actions: Array, states: Array) -> Array:
        """Generalised forces (B, 6 + n) for these actions."""
        wanted, base = self.command(actions, states)
        forces: Array = array_module(states).zeros((len(states), self.robot.dofs))
        forces[:, :6] = base
        if self.arm:
            forces[:, [6 + i for i in self.arm]] = self._servo(wanted, states)
        return forces

    def _servo(self, wanted: Array, states: Array) -> Array:
        """Torques (B, arm)."""
        xp = array_module(states)
        matrix = self.mechanics.mass_matrix(states[:, self.layout.joints])
        arm = np.array([6 + i for i in self.arm])
        rest = np.setdiff1d(np.arange(self.robot.dofs), arm)
        own, others = xp.asarray(arm), xp.asarray(rest)
        across = xp.ascontiguousarray(matrix[:, others[:, None], own])
        inner = np.linalg.solve(xp.ascontiguousarray(matrix[:, others[:, None], others]), across)
        effective = matrix[:, own[:, None], own] - xp.ascontiguousarray(across.swapaxes(1, 2)) @ inner
        error = (wanted - states[:, self.layout.velocity][:, own]) / SERVO
        effort = xp.asarray(self.effort)
        torques: Array = np.clip(_apply(effective, error), -effort, effort)
        return torques

    def hand_jacobian(self, states: Array) -> Array:
        """Linear part (B, 3, arm) of the generalized Jacobian: hand's velocity, world axes, for rates of the arm."""
        base = states[:, :7]
        jacobian = self.mechanics.generalized_jacobian(self.hand, states[:, self.layout.joints], base=base)
        linear: Array = array_module(states).ascontiguousarray(jacobian[:, :3, self.arm])
        return linear

    def hand_motion(self, states: Array) -> tuple[Array, Array]:
        """Position and velocity (B, 3) of the hand, world axes."""
        joints, base = states[:, self.layout.joints], states[:, :7]
        origin, _ = self.mechanics.frame_pose(self.hand, joints, base=base)
        twist = self.mechanics.frame_velocity(self.hand, joints, states[:, self.layout.velocity], base=base)
        return origin, twist[:, :3]

    def rates_for(self, velocity: Array, states: Array) -> Array:
        """Joint rates (B, arm) for these velocities of the hand (B, 3), base axes, within the limits of rate."""
        world = _apply(rotation_matrices(states[:, self.layout.quaternion]), velocity)
        jacobian = self.hand_jacobian(states)
        xp = array_module(states)
        across = xp.ascontiguousarray(jacobian.swapaxes(1, 2))
        square = jacobian @ across + xp.asarray(DAMPING * np.eye(3))
        found = _apply(across, np.linalg.solve(square, world[..., None])[..., 0])
        # Shortened as a whole, so that the direction of the hand stays.
        rates: Array = found / np.maximum(1.0, np.max(np.abs(found) / xp.asarray(self.rate), axis=1, keepdims=True))
        return rates

    def out_of_range(self, states: Array) -> Flags:
        joints, (lower, upper) = states[:, self.layout.joints][:, self.arm], array_module(states).asarray(self.range.T)
        beyond: Flags = np.any((joints < lower) | (joints > upper), axis=1)
        return beyond

    def start_state(self, rng: np.random.Generator, spread: float, base_rate: float) -> Array:
        """At rest near the configuration ``ready``, with some angular velocity of the base."""
        state = np.zeros(self.layout.size)
        state[self.layout.quaternion] = 1.0, 0.0, 0.0, 0.0
        named = self.robot.configurations
        joints = np.array(self.robot.configuration("ready" if "ready" in named else "zero"), dtype=np.float64)
        joints[self.arm] += rng.uniform(-spread, spread, len(self.arm))
        joints[self.arm] = np.clip(joints[self.arm], self.range[:, 0] + 0.05, self.range[:, 1] - 0.05)
        state[self.layout.joints] = joints
        state[self.layout.angular_velocity] = base_rate * rng.standard_normal(3)
        return state

    def judge_limits(
        self, values: dict[str, tuple[Array, float]], states: Array, spent: Array, cost: float
    ) -> Judgement:
        """The reward of values (B,) with their limits."""
        shares = {name: value / limit for name, (value, limit) in values.items()}
        reward = -sum((np.log1p(share) for share in shares.values()), cost * spent)
        failure: Flags = self.out_of_range(states) | ~np.isfinite(states).all(axis=1)
        success: Flags = ~failure
        for share in shares.values():
            success = success & (share <= 1.0)
        reward = np.where(success, reward + BONUS, np.where(failure, reward - PENALTY, reward))
        return Judgement(np.nan_to_num(reward, nan=-PENALTY), success, failure, {k: 1.0 - v for k, v in shares.items()})


class Reach(Task):
    """Bring the hand to a point and to rest there, while the base floats.

    Args:
        action: ``hand_velocity`` (3, base axes) or ``joint_rates`` of the arm.
        speed: m/s, largest velocity that an action can ask of the hand.
        within, rest: m and m/s: the limits.
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
            raise InputError("no joint on the way to the hand has a limit of effort", place=type(self).__name__)
        self.action = checks.one_of(action, ("hand_velocity", "joint_rates"), "action", place=type(self).__name__)
        self.speed = checks.positive(speed, "speed", unit="m/s")
        self.within, self.rest = checks.positive(within, "within", unit="m"), checks.positive(rest, "rest", unit="m/s")
        self.camera = checks.non_negative(camera, "camera", unit="m")

    @property
    def action_size(self) -> int:
        return 3 if self.action == "hand_velocity" else len(self.arm)

    def command(self, actions: Array, states: Array) -> tuple[Array, Array]:
        xp = array_module(states)
        if self.action == "joint_rates":
            wanted = actions * xp.asarray(self.rate)
        else:
            wanted = self.rates_for(self.speed * actions, states)
        return wanted, xp.zeros((len(states), 6))

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """The target is where the hand would be in another configuration near the first."""
        state = self.start_state(rng, 0.2, 1e-3)
        other = self.start_state(rng, 0.5, 0.0)
        (point,), _ = self.hand_motion(other[None])
        return state, np.concatenate([point, np.zeros(3)])

    def target_motion(self, extra: Array) -> tuple[Array, Array]:
        """Position and velocity (B, 3) of the point to reach, world axes."""
        return extra[:, :3], extra[:, 3:6]

    def errors(self, states: Array, extra: Array) -> tuple[Array, Array]:
        """From the hand to the target: position and velocity (B, 3), world axes."""
        (hand, moving), (point, velocity) = self.hand_motion(states), self.target_motion(extra)
        return point - hand, velocity - moving

    def relative(self, states: Array, extra: Array) -> Array:
        """From the hand to the target: position (m) and velocity (dm/s); velocity of the hand (dm/s); base axes."""
        away, slip = self.errors(states, extra)
        inward = rotation_matrices(states[:, self.layout.quaternion]).swapaxes(1, 2)
        seen = (away, 10.0 * slip, 10.0 * self.hand_motion(states)[1])
        return np.hstack([_apply(inward, each) for each in seen])

    def judge(self, states: Array, extra: Array, spent: Array) -> Judgement:
        away, slip = map(_length, self.errors(states, extra))
        return self.judge_limits({"distance": (away, self.within), "speed": (slip, self.rest)}, states, spent, 0.1)


class CaptureTumbling(Reach):
    """Bring the hand to a grapple point of a tumbling target, and to its velocity.

    The target moves free of forces: the hand meets it, contact is not part of the task. The hand's attitude is free.

    Args:
        target: a rigid body; 120 kg by default.
        grapple: m, grapple point in the target's frame.
        tumble: rad/s, largest angular velocity of the target about each axis.
        action, speed, within, rest: as for :class:`Reach`.
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

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        """The grapple point begins within reach, and its mean velocity is small."""
        state, point = super().draw(rng)
        extra = np.zeros(13)
        turn = rng.standard_normal(4)
        extra[3:7] = turn / np.linalg.norm(turn)
        (rotation,) = rotation_matrices(extra[None, 3:7])
        extra[:3] = point[:3] - rotation @ self.grapple
        extra[10:13] = rng.uniform(-self.tumble, self.tumble, 3)
        return state, extra

    def target_motion(self, extra: Array) -> tuple[Array, Array]:
        rotation = rotation_matrices(extra[:, 3:7])
        arm = np.tile(array_module(extra).asarray(self.grapple), (len(extra), 1))
        velocity = extra[:, 7:10] + np.cross(extra[:, 10:13], arm)
        return extra[:, :3] + _apply(rotation, arm), _apply(rotation, velocity)

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
    def action_size(self) -> int:
        return len(self.thrusters)

    def command(self, actions: Array, states: Array) -> tuple[Array, Array]:
        """A level of -1 is off, of 1 full thrust."""
        xp = array_module(states)
        wrenches = np.tile(xp.asarray(self.wrenches.T), (len(states), 1, 1))
        return xp.zeros((len(states), len(self.arm))), _apply(wrenches, 0.5 * (actions + 1.0))

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        return self.start_state(rng, 0.2, self.tumble), np.zeros(0)

    def judge(self, states: Array, extra: Array, spent: Array) -> Judgement:
        rate = _length(states[:, self.layout.angular_velocity])
        return self.judge_limits({"rate": (rate, self.rest)}, states, spent, 0.5)


#: Tasks by the names of their environments.
TASKS: dict[str, type[Task]] = {"Reach": Reach, "CaptureTumbling": CaptureTumbling, "Detumble": Detumble}
