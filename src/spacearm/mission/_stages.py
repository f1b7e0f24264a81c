"""The stages of a mission up to the tumble's end: tables of its file, each with the phases and changes that it flies.

A stage's ``fly`` is a generator of phases and changes; what it returns are its limits and its own numbers.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from spacearm.control import Law
from spacearm.control.attitude import axis_torques, thruster_pulses
from spacearm.errors import InputError, error_context
from spacearm.mechanics.constraints import loop_joints
from spacearm.mechanics.tree import Tree
from spacearm.mission import _laws
from spacearm.mission._encounter import GRASP, TARGET, plan_carried_path
from spacearm.mission._flight import MissionFlight
from spacearm.mission._laws import Actuators, WheelReference, make_actuators
from spacearm.mission._limits import EndCondition, LimitUsage, Positive
from spacearm.mission._loop_check import UnstableLoop, choose_pulse_period, pulse_length
from spacearm.mission._outcomes import UNSETTLED
from spacearm.model import Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.model.toml_schema import Duration, Name
from spacearm.result import Limit
from spacearm.simulate import Attach, Close, Phase, Release, Signal, constant
from spacearm.simulate.run.chain import Item
from spacearm.study import ScenarioTable, key
from spacearm.study.findings import NotedValue
from spacearm.typing import Array

#: What a stage gives while it is flown, and what it returns.
Flown: TypeAlias = Generator[Item, None, tuple[list[Limit], dict[str, Any]]]
DEGREE = np.pi / 180.0
#: Share of the wheels' momentum that may be left in the bodies when they are at rest.
LEFT_SHARE = 0.1
#: The rate that counts as rest is lowered to this share of the file's at most.
SLOWEST = 1e-3
#: Pulses that are so many times as long as the shortest one of the thrusters are the fault of the law's period.
COARSE = 1.5
#: 1/s, of the wheels' loop on the rate of the whole.
BANDWIDTH = 0.2


class StageTable(ScenarioTable):
    """A stage."""

    called: ClassVar[str] = ""

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        """Its phases and changes; what they use goes into ``usage``, and what comes back are its own limits."""
        raise NotImplementedError


class GainKeys(StageTable):
    """How stiff the arm's loop is."""

    stiffness: Positive = key(0.5, "of the error, 1/s2")
    damping: Positive = key(1.4, "of its rate, 1/s")
    period: Duration | None = key(None, "s between ticks of the law; chosen from the loaded loop if omitted")

    @property
    def gains(self) -> tuple[float, float]:
        return self.stiffness, self.damping


class CatchTable(GainKeys):
    """Servicer and target become one; the arm comes to rest against the bus."""

    called: ClassVar[str] = "catch"

    key_changes: ClassVar = {
        "stop": "it is called 'stop_time' now",
        "base_rate": "it is 'base_rate' in [limits] now, for all stages",
        "base_rate_deg": "it is 'base_rate_deg' in [limits] now, for all stages",
    }

    mode: Literal["rigid", "soft"] = key("soft", "whether the clutch lets the soft joints go at the touch")
    duration: Duration = key(20.0, "s")
    stop_time: Duration = key(8.0, "s in which the arm comes to rest")

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        actuators, limits = flight.actuators, list[Limit]()
        flight.zone = ""
        flight.caught = flight.held = flight.catch_pose()
        host, before = flight.name, flight.context.states[TARGET]
        # Released before the impact, so that the soft joints take it up.
        if self.mode == "soft" and actuators.soft:
            yield Release([f"{host}/{name}" for name in actuators.soft])
        # With its free joints the target stays a system of its own, welded to the hand: the laws' robot is unchanged.
        grasp = f"{host}/{actuators.hand}"
        yield Close(grasp, f"{TARGET}/{GRASP}") if flight.table.has_free_joints else Attach(TARGET, grasp)
        # Just after the plastic impact, before any law acts.
        rate, impulse = float(np.linalg.norm(flight.state.base_angular_velocity)), flight.impulse_on_target(before)
        if flight.file.limits.impulse is not None:
            limits.append(Limit("catch impulse", impulse, flight.file.limits.impulse, "N s", time=flight.context.time))
        yield from flight.phase(usage, Phase(self.duration, laws=self.law(flight), name=self.called), known=limits)
        return limits, {
            "impulse": NotedValue(impulse, "on the hand", "N s"),
            "base_rate": {
                "": NotedValue(rate, "of the base, just after", "rad/s"),
                "peak": NotedValue(usage.base_rate, "while the arm came to rest", "rad/s"),
            },
        }

    def law(self, flight: MissionFlight) -> Law:
        """The arm stops; by impedance, the hand keeps its attitude in the world and goes with the mass centre."""
        detumble = flight.file.detumble
        if detumble is not None and detumble.actuator == "arm":
            return self.carry_law(flight, None, self.duration)
        if flight.strategy == "impedance":
            place, rotation, drift = flight.hand()
            # With the common mass centre: holding a fixed point would push the whole system.
            position = [Signal(np.array([0.0, 1.0]), np.array([[p], [v]])) for p, v in zip(place, drift, strict=True)]
            still = [*map(constant, rotation)], [constant(0.0)] * 3
            return _laws.track_hand_pose(flight.actuators, position, *still, load=flight.load, gains=self.gains,
                              wheels=flight.wheels(), period=self.period)  # fmt: skip
        return self.stop_law(flight)

    def carry_law(self, flight: MissionFlight, moment: float | None, duration: float) -> Law:
        """The hand carries the target: it tumbles on, or a moment of this size (N m) stops it."""
        assert flight.caught is not None
        _, _, drift = flight.hand()
        path = plan_carried_path(
            flight.table.assumed_robot,
            flight.target_state(),
            flight.caught,
            drift,
            moment=moment,
            stop=self.stop_time,
            duration=duration,
        )
        return _laws.track_hand_pose(
            flight.actuators,
            path.position,
            path.quaternion,
            path.angular_velocity,
            load=flight.load,
            gains=self.gains,
            wheels=flight.wheels(),
            period=self.period,
        )

    def stop_law(self, flight: MissionFlight) -> Law:
        """The arm's joints come to rest on parabolas."""
        actuators, state = flight.actuators, flight.state
        index = actuators.index(actuators.arm)
        paths = _plan_stop(state.joints[index], state.rates[index], self.stop_time)
        return _laws.track_joints(
            actuators, paths, load=flight.load, gains=self.gains, wheels=flight.wheels(), period=self.period
        )


def _plan_stop(joints: Array, rates: Array, stop: float) -> list[Signal]:
    """Paths that come to rest at a constant rate."""
    found = []
    for q, rate in zip(joints, rates, strict=True):
        # Coefficients by power, lowest first, of two pieces: a parabola to rest, then constant.
        pieces = [[q, q + 0.5 * rate * stop], [rate, 0.0], [-0.5 * rate / stop, 0.0]]
        found.append(Signal(np.array([0.0, stop, 2.0 * stop]), np.array(pieces)))
    return found


class SettleTable(StageTable):
    """The arm stops against the bus and is braked, the soft joints come to rest; then their clutch closes."""

    called: ClassVar[str] = "settle"

    duration: Duration = key(60.0, "s at most, once the arm is braked")
    rate: Positive | None = key(None, "of joints that turn, rad/s, at which they are at rest; 0.05 deg/s if omitted")
    rate_deg: Positive | None = None
    slide: Positive = key(1e-3, "of joints that slide, m/s")

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        actuators = flight.actuators
        given, caught = self.si_value("rate"), flight.file.catch
        turning = 0.05 * DEGREE if given is None else float(given)
        # A moving joint cannot be braked without an impulse: it is stopped on a path first.
        arm = np.abs(flight.state.rates[actuators.index(actuators.arm)])
        if np.any(arm > turning):
            law = caught.stop_law(flight)
            yield from flight.phase(usage, Phase(2.0 * caught.stop_time, laws=law, name="stop"))
        yield from flight.brake(actuators.arm)
        begin, wheels = flight.context.time, flight.wheels()
        held = (_laws.stop_base(actuators, wheels=wheels, period=caught.period, band=None),) if actuators.wheels else ()
        limits = list[Limit]()
        if flight.is_clutch_open:
            bounds = actuators.rest_rates(turning, self.slide)
            until = EndCondition("soft joints", tuple(bounds))
            yield from flight.phase(usage, Phase(self.duration, laws=held, name=self.called), until)
            rates = np.abs(flight.state.rates[actuators.index(actuators.soft)])
            limits = _rest_limits(float(np.max(rates / bounds)), 1.0, flight.context.time - begin, self.duration)
        # Brakes would stop moving soft joints by an impulse: they close at rest only.
        if not limits or limits[0].margin >= 0.0:
            yield from flight.brake()
        rate = float(np.linalg.norm(flight.state.base_angular_velocity))
        return limits, {"base_rate": NotedValue(rate, "of the base, at the end", "rad/s")}


class DetumbleTable(StageTable):
    """The tumble is taken away: by wheels and thrusters from all, the arm braked, or by the arm from the target."""

    called: ClassVar[str] = "detumble"

    key_changes: ClassVar = {
        "by": "it is called 'actuator' now",
        "propellant": "it is 'propellant' in [limits] now, for all stages",
    }

    actuator: Literal["wheels", "thrusters", "both", "arm"] = key(
        "both", "who takes the momentum; `arm`: right after the catch, before all settles"
    )
    duration: Duration = key(300.0, "s at most")
    rate: Positive | None = key(
        None, "of the base (by the arm: of the target), rad/s, at which it is at rest; 0.1 deg/s if omitted"
    )
    rate_deg: Positive | None = None
    damping: Positive | None = key(
        None, "of the wheels' law, N m s/rad; if omitted, 0.2 1/s times the largest moment of inertia of all"
    )
    moment: Positive = key(0.5, "by the arm: on the target, N m")
    period: Duration | None = key(
        None, "s between ticks of the law, chosen if omitted; of the arm's law it is that of the catch"
    )

    def check(self, robot: Robot) -> None:
        """Raise an error if the servicer lacks the actuators."""
        if self.actuator in ("wheels", "both") and not robot.wheel_names:
            raise InputError(
                f"is {self.actuator!r}, but the servicer has no wheels", place="actuator", hint="thrusters"
            )
        if self.actuator in ("thrusters", "both"):
            with error_context("actuator"):
                thruster_pulses(robot)

    @property
    def slow(self) -> float:
        """rad/s."""
        given = self.si_value("rate")
        return 0.1 * DEGREE if given is None else float(given)

    def detumble_by_arm(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        """The hand carries the target as the moment stops it, until its angular velocity is that of rest."""
        caught, begin = flight.file.catch, flight.context.time
        guess, now = flight.table.assumed_robot, flight.target_state()
        # Momentum over moment is the shortest time, since the moment is opposed to the momentum.
        spinning = float(np.linalg.norm(guess.bodies[0].inertia.tensor @ now.velocity[3:6]))
        law = caught.carry_law(flight, self.moment, self.duration)
        phase = Phase(self.duration, laws=law, name=self.called)
        yield from flight.phase(usage, phase, EndCondition("hand", (self.slow,)))
        rate = float(np.linalg.norm(flight.target_state().base_angular_velocity))
        limits = _rest_limits(rate, self.slow, flight.context.time - begin, self.duration)
        return [*limits, *flight.momentum_limits()], {
            "momentum": NotedValue(spinning, "of the target, to be taken, about its mass centre", "N m s"),
            "shortest": NotedValue(spinning / self.moment, "that the moment takes", "s"),
            "target_rate": NotedValue(rate, "of the target, at the end", "rad/s"),
        }

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        if self.actuator == "arm":
            return (yield from self.detumble_by_arm(flight, usage))
        yield from flight.brake()
        actuators, begin = flight.actuators, flight.context.time
        before, end = flight.momentum(), self.end_rate(flight)
        phase = Phase(self.duration, laws=self.law(flight, end), name=self.called)
        yield from flight.phase(usage, phase, EndCondition("base", (end,)), known=self.pulse_limits(flight, end))
        if self.actuator == "both" and any(limit.is_broken for limit in flight.momentum_limits()):
            yield from self.unload_wheels(flight, usage, end, begin + self.duration)
        rate = float(np.linalg.norm(flight.state.base_angular_velocity))
        limits = _rest_limits(rate, end, flight.context.time - begin, self.duration)
        # What the bodies still have, without the wheels.
        inside = flight.momentum() - actuators.wheel_momentum(flight.state.rates)
        return [*limits, *flight.momentum_limits()], {
            "momentum": NotedValue(float(np.linalg.norm(before)), "to be taken, about the mass centre", "N m s"),
            "left": NotedValue(float(np.linalg.norm(inside)), "in the bodies, at the end", "N m s"),
            "stored": NotedValue(
                float(np.linalg.norm(actuators.wheel_momentum(flight.state.rates))), "in the wheels then", "N m s"
            ),
            "base_rate": NotedValue(rate, "of the base, at the end", "rad/s"),
            "propellant": NotedValue(usage.propellant, "spent", "kg"),
        }

    def unload_wheels(self, flight: MissionFlight, usage: LimitUsage, end: float, last: float) -> Iterator[Item]:
        """Thrusters take what the wheels of a base at rest hold beyond their share, until this time (s) at most."""
        torque = float(np.abs(axis_torques(flight.actuators.robot)).max(axis=0).min())
        beyond = float(np.abs(flight.momentum()).max()) - _laws.WHEEL_SHARE * flight.actuators.held_momentum
        # Twice the time that the thrusters need: the wheels follow them.
        left = last - flight.context.time
        lasts = min(left, 2.0 * beyond / torque)
        if lasts > 0.0:
            law = self.law(flight, end)
            yield from flight.phase(usage, Phase(lasts, laws=law, name="unload"))
            if left > lasts:
                phase = Phase(left - lasts, laws=self.law(flight, end), name=self.called)
                yield from flight.phase(usage, phase, EndCondition("base", (end,)))

    def end_rate(self, flight: MissionFlight) -> float:
        """rad/s, at which the base is at rest: `rate`, or so slow that the wheels hold what the bodies still have.

        It is halved as often as needed: one of few numbers, for which code is compiled.
        """
        most = LEFT_SHARE * flight.actuators.held_momentum
        rate, moment = self.slow, flight.largest_moment()
        # Thrusters alone come no nearer to rest than by one pulse.
        finest = self.pulse_rate(flight) * pulse_length(flight.actuators.robot) if self.actuator == "thrusters" else 0.0
        # A large target at the usual rate may carry more than the wheels can take up when the arm stops it.
        while 0.0 < most < moment * rate and rate > self.slow * SLOWEST and rate > 2.0 * finest:
            rate *= 0.5
        return rate

    def law(self, flight: MissionFlight, slow: float) -> Law:
        """Wheels and thrusters stop the base.

        Both together: thrusters take the momentum that is beyond the share of the wheels. Where the dead band of the
        thrusters lies does not depend on the rate that counts as rest, but for thrusters alone.
        """
        actuators = flight.actuators
        damping = BANDWIDTH * flight.largest_moment() if self.damping is None else self.damping
        wheels = WheelReference(rate=damping) if self.actuator != "thrusters" else WheelReference()
        if self.actuator == "both":
            band = min(_laws.WHEEL_SHARE * actuators.held_momentum, 1e9)
            return _laws.stop_base(actuators, wheels=wheels, period=self.period, band=band, load=flight.load)
        if self.actuator == "wheels":
            return _laws.stop_base(actuators, wheels=wheels, period=self.period, band=None)
        # Thrusters alone must get below the rate that counts as rest, so their dead band lies inside it.
        longest = choose_pulse_period(actuators.robot, self.pulse_rate(flight), 0.5 * slow)
        return _laws.stop_base(actuators, wheels=wheels, period=self.period, band=0.5 * slow, longest=longest)

    def pulse_rate(self, flight: MissionFlight) -> float:
        """Largest angular acceleration of the base, rad/s2, by thrusters that fire about one axis."""
        rotation = rotation_matrices(flight.state.quaternion)
        moment = rotation.T @ flight.central_inertia() @ rotation
        return float(np.abs(np.linalg.solve(moment, axis_torques(flight.actuators.robot))).max())

    def pulse_limits(self, flight: MissionFlight, slow: float) -> list[Limit]:
        """A period at which one pulse passes the whole dead band, though the thrusters can give much shorter ones."""
        robot, now = flight.actuators.robot, float(np.linalg.norm(flight.state.base_angular_velocity))
        if self.actuator != "thrusters" or self.period is None or now <= slow:
            return []
        rate = self.pulse_rate(flight)
        shortest, pulse = pulse_length(robot), pulse_length(robot, self.period)
        # The dead band is half the rate of rest to either side.
        if pulse * rate <= slow or pulse <= COARSE * shortest:
            return []
        stable = max(slow / rate, shortest)
        time = flight.context.time
        return [
            UnstableLoop(
                "control loop unstable", pulse / stable, 1.0, time=time, period=self.period, stable=stable, pulses=True
            )
        ]


def _rest_limits(rate: float, slow: float, lasted: float, most: float) -> list[Limit]:
    """Limit on coming to rest: the time used if it is at rest, else the rate relative to that of rest."""
    if rate <= slow * (1.0 + 1e-6):
        return [Limit(UNSETTLED, lasted, most, "s")]
    return [Limit(UNSETTLED, rate / slow, 1.0, "of the rate at rest")]


#: N m s/rad, of the wheels that hold the base's attitude; 1/s, of the same with a target. The hand holds the target
#: still in the world while the bus moves: below 0.04 1/s that loop swings up.
ATTITUDE_RATE, LOADED_BANDWIDTH = 60.0, 0.05


class WheelsTable(ScenarioTable):
    """How the wheels' loops are set while something is approached and caught."""

    key_changes: ClassVar = {"carry": "it is called 'momentum_gain' now"}

    attitude: Positive = key(10.0, "strategy `coordinated`: on the base's attitude, N m/rad")
    rate: Positive | None = key(
        None,
        "strategy `coordinated`: on the base's angular velocity, N m s/rad; if omitted 60, and with a target 0.05 1/s "
        "times the largest moment of inertia of all, if that is more",
    )
    preload: Duration = key(15.0, "strategy `biased`: s before the planned touch in which they take it up")
    momentum_gain: Positive = key(0.3, "strategy `biased`: how fast the wheels come to the momentum they carry, 1/s")

    def choose_rate(self, moment: float) -> float:
        """Gain on the base's angular velocity, N m s/rad, with this largest moment of inertia of all, kg m2."""
        return max(ATTITUDE_RATE, LOADED_BANDWIDTH * moment) if self.rate is None else self.rate


class ActuatorTable(ScenarioTable):
    """Who does what on the servicer."""

    key_changes: ClassVar = {"soft": "it is called 'soft_joints' now"}

    hand: Name = key("hand", "frame that grasps")
    arm: list[Name] | None = key(
        None, "joints of the arm, others are locked; all but wheels, modes, soft ones if left out"
    )
    soft_joints: list[Name] = key([], "joints on springs that a clutch holds until something is caught")
    second_arm: list[Name] = key(
        [], "joints of a second arm that keeps the base from turning until the touch; held by brakes if omitted"
    )

    def check(self, strategy: str, by_arm: bool, kept: bool) -> None:
        """An error where a second arm would have nothing to do."""
        if self.second_arm and (strategy not in ("passive", "matched") or by_arm or kept):
            raise InputError(
                "helps with strategy 'passive' or 'matched', without 'rendezvous.keep' and detumbling by the arm",
                place="second_arm",
                hint="leave it out: brakes hold the second arm",
            )

    def build(self, robot: Robot) -> Actuators:
        """The roles of this robot's joints. Linkages are nobody's: brakes hold their joints."""
        robot.frame(self.hand)
        tree = Tree(robot)
        tied = {robot.joint_names[i] for loop in robot.loops for i in loop_joints(tree, loop)[1]}
        soft = tuple(robot.joint(name).name for name in self.soft_joints)
        # A joint on a spring cannot follow computed torques as a driven joint does.
        able = [name for name in robot.arm_names if name not in (*soft, *tied)]
        sprung = [name for name in able if robot.joint(name).spring is not None]
        if sprung and self.arm is None:
            raise InputError(
                f"joint {sprung[0]!r} has a spring and would be driven as a joint of the arm",
                hint="expected it in 'soft_joints', or a list 'arm' of the joints that are driven; others are locked",
            )
        second = tuple(robot.joint(name).name for name in self.second_arm)
        if second and (len(set(second)) < 3 or any(robot.joint(name).spring is not None for name in second)):
            raise InputError(
                f"{', '.join(second)} cannot keep the base from turning about all axes",
                place="second_arm",
                hint="expected three joints or more, without springs",
            )
        first = able if self.arm is None else [robot.joint(name).name for name in self.arm]
        arm = (*(name for name in first if name not in second), *second)
        if bound := [name for name in (*arm, *soft) if name in tied]:
            raise InputError(
                f"joint {bound[0]!r} is part of a closed loop, whose motion a mission's laws and plans do not know",
                hint="leave it out: brakes hold the joints of linkages throughout",
            )
        return make_actuators(robot, self.hand, arm, soft, second)
