"""The loops of a mission's sampled laws: whether each is stable with the load attached, and which period it is given.

A loop is linear about the phase's configuration at rest, with references that hold it there: a time-invariant system,
in which no command is at a limit. Its poles are those of the target as it is, with the law's model of it. So a loop
that is unstable because of its period or because of its model is found before it is flown, and is reported as the
cause of what follows; torques of such a flight say nothing about the motors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from spacearm.control import Law, LinearLoop, linearise_loop
from spacearm.control.loop_stability import linearise_reference
from spacearm.engine import mechanics_of
from spacearm.mechanics.sensors import Sensor
from spacearm.mechanics.structure import Keyed
from spacearm.mission._encounter import TARGET
from spacearm.mission._laws import Actuators, OpenPeriodLaw
from spacearm.mission._motion import is_held_as_system
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.result import Limit
from spacearm.simulate import Phase, State, World, constant
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

#: Periods to choose from, s: few, because each is a program of its own.
PERIODS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
#: Samples in the shortest time constant of the closed loop, and how many times the chosen period must be stable.
SAMPLES, RESERVE = 20.0, 4.0
#: Share of the damping ratio of the continuous loop that the sampled one keeps at a chosen period.
KEPT = 0.9
#: Where less than this share is kept, the period is named as the cause of what follows.
LEAST_KEPT = 0.5
#: 1/s: slower poles are those of conserved motion.
STILL = 2e-2
#: s, by which a law looks ahead for its derivative; its commands are linear in that.
LEAD = 0.01


@dataclass(frozen=True, slots=True)
class UnstableLoop(Limit):
    """A control loop that is unstable: the largest pole, of which 1 is the most; no limit of the hardware.

    Args:
        period: s, of the law.
        stable: s, below which it is stable; 0: at no period.
        pulses: whether pulses of thrusters, which last whole periods, pass their dead band.
    """

    period: float = 0.0
    stable: float = 0.0
    pulses: bool = False

    @property
    def words(self) -> str:
        if self.pulses:
            return (
                f"{self.name} at {self.period:.3g} s; one pulse of the thrusters passes their dead band; it does not "
                f"below {self.stable:.2g} s"
            )
        mend = f"stable below {self.stable:.2g} s" if self.stable else "not stable at shorter periods either"
        return f"{self.name} at {self.period:.3g} s; largest pole {self.used:.4g}; {mend}"


@dataclass(frozen=True, slots=True)
class CoarseLoop(Limit):
    """A stable control loop that loses its damping by being sampled: the share lost, of which a half is the most.

    It counts as the cause of limits that its phase breaks, and not by itself.

    Args:
        period: s, of the law.
        fine: s, below which half the damping is kept.
        ratios: least damping ratios, sampled and continuous.
    """

    period: float = 0.0
    fine: float = 0.0
    ratios: tuple[float, float] = (0.0, 0.0)

    @property
    def words(self) -> str:
        sampled, continuous = self.ratios
        return (
            f"{self.name} at {self.period:.3g} s; its damping ratio is {sampled:.2g} instead of {continuous:.2g}; at "
            f"least half of that below {self.fine:.2g} s"
        )


def check_loop(
    actuators: Actuators, world: World, states: Mapping[str, State], phase: Phase, time: float
) -> tuple[Phase, list[Limit]]:
    """The phase with the period chosen where it is open, and a limit where its loop is unstable.

    ``time``: s, when the phase begins.
    """
    laws = [phase.laws] if isinstance(phase.laws, Law) else [*phase.laws]
    if not laws:
        return phase, []
    (law,) = laws
    loop = _linearise_at_rest(actuators, world, states, phase, law)
    period = choose_period(loop, law.sensors) if isinstance(law, OpenPeriodLaw) else loop.period
    flown = replace(phase, laws=law.replace(period=period, references=_lead(law, 0.5 * period)))
    if loop.is_stable(period):
        return flown, _judge_sampling(loop, period, time)
    stable, pole = loop.stable_period(period), loop.largest_pole(period)
    return flown, [UnstableLoop("control loop unstable", pole, 1.0, time=time, period=period, stable=stable)]


def _judge_sampling(loop: LinearLoop, period: float, time: float) -> list[Limit]:
    """A limit where this stable loop keeps less than half of its damping."""
    continuous, sampled = damping_ratio(loop.closed_rates()), sampled_damping(loop, period)
    if continuous <= 0.0 or sampled >= LEAST_KEPT * continuous:
        return []
    tried = period * np.geomspace(1e-3, 1.0, 40)
    # From short to long, up to the first one that is too coarse.
    bad = next(k for k, each in enumerate(tried) if sampled_damping(loop, float(each)) < LEAST_KEPT * continuous)
    lost, ratios = 1.0 - sampled / continuous, (sampled, continuous)
    fine = float(tried[max(bad - 1, 0)])
    most = 1.0 - LEAST_KEPT
    return [CoarseLoop("control loop too coarse", lost, most, time=time, period=period, fine=fine, ratios=ratios)]


def choose_period(loop: LinearLoop, sensors: Sequence[Sensor] = ()) -> float:
    """The longest of ``PERIODS`` that samples the loop well, is well inside its stable range and keeps its damping, s.

    Where none does, the longest that samples it well and is stable. Periods and delays of sensors are whole numbers
    of it.
    """
    # Of the continuous closed loop: its shortest time constant sets the sampling.
    rates = loop.closed_rates()
    fastest, damped = float(np.abs(rates).max()), KEPT * damping_ratio(rates)
    longest = min(loop.period, 1.0 / (SAMPLES * max(fastest, 1e-9)))
    spans = [span for sensor in sensors for span in (sensor.period, sensor.delay) if span]
    fitting = [period for period in PERIODS if all(_is_whole(span / period) for span in spans)] or [*PERIODS]
    tried = [period for period in fitting if period <= longest] or [fitting[-1]]
    # Longest first: fewer ticks, less computing.
    for period in tried:
        if loop.is_stable(period) and loop.is_stable(RESERVE * period) and sampled_damping(loop, period) >= damped:
            return period
    return next((period for period in tried if loop.is_stable(period)), tried[0])


def damping_ratio(rates: Array) -> float:
    """The least of these complex rates, 1/s, but for those of conserved motion."""
    # Damping ratio of a pole s: -Re s / |s|. Poles at zero have none.
    moving = rates[np.abs(rates) > STILL]
    return float(np.min(-moving.real / np.abs(moving), initial=1.0))


def sampled_damping(loop: LinearLoop, period: float) -> float:
    """The least damping ratio of the sampled loop, from the logarithms of its poles."""
    poles = loop.poles(period).astype(np.complex128)
    # z = exp(s T): logarithms of the sampled poles are rates again, comparable with the continuous ones.
    return damping_ratio(np.log(poles[np.abs(poles) > 1e-12]) / period)


def pulse_length(robot: Robot, period: float = 0.0) -> float:
    """Shortest pulse of all thrusters, s; with a law of this period one of whole periods."""
    shortest = max(part.minimum_pulse for part in robot.thrusters)
    return max(1, math.ceil(shortest / period - 1e-9)) * period if period else shortest


def choose_pulse_period(robot: Robot, rate: float, band: float) -> float:
    """The longest of ``PERIODS`` at which a pulse changes the rate by no more than ``band``, or the least there is, s.

    ``rate``: rad/s2, how fast thrusters that fire change it.
    """
    fine = [period for period in PERIODS if pulse_length(robot, period) * rate <= band]
    return fine[0] if fine else min(PERIODS, key=lambda period: (pulse_length(robot, period), -period))


def _is_whole(ratio: float) -> bool:
    return ratio > 0.5 and abs(ratio - round(ratio)) < 1e-6


def _lead(law: Law, lead: float) -> dict[str, Any]:
    """References of a law that looks ahead by so much (s) when it cancels the forces of free soft joints."""
    return {**law.references, "lead": [constant(lead)]} if "lead" in law.references else dict(law.references)


@dataclass(frozen=True, eq=False)
class LeadingLoop(LinearLoop):
    """A loop whose law looks ahead by half its period.

    Args:
        rise: change of ``gain`` (commands, states) by a second of looking ahead.
    """

    rise: Array = field(default_factory=lambda: np.zeros(0))

    def transition(self, period: float | None = None) -> Array:
        every = self.period if period is None else period
        # Torques held over a period lag by half of it on average: the law looks ahead by as much.
        ahead = replace(self, gain=self.gain + 0.5 * every * self.rise)
        return super(LeadingLoop, ahead).transition(every)


def _linearise_at_rest(
    actuators: Actuators, world: World, states: Mapping[str, State], phase: Phase, law: Law
) -> LinearLoop:
    """The servicer's loop in a phase, everything at rest where it is; a free target is not part of it."""
    name = actuators.robot.name
    robot, state = world.own_robot(name), states[name]
    locked = tuple(joint for joint in robot.joint_names if world.label(name, joint) in world.locked)
    # About rest: velocity terms would make the loop time-varying. Springs that are deflected are not at rest either:
    # joints on them swing about where the spring is slack, and so does what their forces add to the loop.
    joints = state.joints.copy()
    for joint in robot.joints:
        if joint.name in actuators.soft and joint.name not in locked:
            joints[robot.joint_index(joint.name)] = 0.0 if joint.spring is None else joint.spring.rest
        elif joint.spring is not None and joint.name not in (*locked, *actuators.arm):
            joints[robot.joint_index(joint.name)] = joint.spring.rest  # modes and liquids
    still = replace(state, joints=joints, velocity=np.zeros_like(state.velocity))
    # References that hold the present pose make it an equilibrium of the loop.
    held = law.replace(references={**_lead(law, 0.0), **_hold(actuators, robot, still, law)})
    alone = World({name: robot}, locked)
    at_rest = Phase(phase.duration, laws=held, limits="ignore")
    leads = "lead" in law.references and not all(joint in locked for joint in actuators.soft)
    if is_held_as_system(world):
        loop, rise = _linearise(alone, still, at_rest, leads)
        loop = _add_target(loop, actuators, robot, still, world.own_robot(TARGET), states)
        rise = _spread_gain(rise, loop.gain.shape[1]) if leads else rise
        return _leading(loop, rise)
    signals = tuple(
        (signal.breaks.tobytes(), signal.coefficients.tobytes()) for each in held.signals.values() for signal in each
    )
    key = robot, locked, still.vector.tobytes(), held.fixed_key, held.period, tuple(held.references), signals
    return _kept_loop(Keyed((key, held.model, leads), (alone, still, at_rest, leads)))


@lru_cache(maxsize=16)
def _kept_loop(made: Keyed[tuple[World, State, Phase, bool]]) -> LinearLoop:
    """Kept with its poles: the loop of an empty hand at the start is that of many missions."""
    return _leading(*_linearise(*made.value))


def _linearise(world: World, state: State, phase: Phase, leads: bool) -> tuple[LinearLoop, Array]:
    """The loop, and how it changes with looking ahead, for a law that ``leads``."""
    if leads:
        return linearise_reference(world, state, phase, "lead", LEAD)
    return linearise_loop(world, state, phase), np.zeros(0)


def _leading(loop: LinearLoop, rise: Array) -> LinearLoop:
    """The loop of a law that looks ahead, if it does."""
    if not rise.size:
        return loop
    return LeadingLoop(**{each.name: getattr(loop, each.name) for each in fields(loop)}, rise=rise)


def _add_target(
    loop: LinearLoop, actuators: Actuators, robot: Robot, state: State, guest: Robot, states: Mapping[str, State]
) -> LinearLoop:
    """The loop of a servicer whose hand holds a target with free joints; laws do not know of these.

    At rest, with M the mass matrix of the servicer, f(x, u) the forces that its own linear motion stands for, M2, K2,
    D2 those of the target and v2 = S (v, rates of its joints) the velocity of a body that is a part of the hand:
    (M + S^T M2 S) (dv, joints'') = f - S^T (K2 x2 + D2 v2). Springs of both are slack.
    """
    name, count, more = actuators.robot.name, len(loop.names), guest.n
    moving = [robot.dof_names.index(each) for each in loop.names]
    jacobian = mechanics_of(robot).jacobian(actuators.hand, state.joints, base=state.pose)[:, moving]
    # The grasp's body in the hand as it is now, and the hand where it is with slack springs of the servicer.
    now, held = states[name], states[TARGET]
    origin, axes = mechanics_of(robot).frame_pose(actuators.hand, now.joints, base=now.pose)
    _, turn = mechanics_of(robot).frame_pose(actuators.hand, state.joints, base=state.pose)
    arm = turn @ axes.T @ (held.position - origin)
    attitude = turn @ axes.T @ rotation_matrices(held.quaternion)
    shift = np.zeros((6 + more, count + more))
    shift[:3, :count] = attitude.T @ (jacobian[:3] - skew(arm) @ jacobian[3:])
    shift[3:6, :count] = attitude.T @ jacobian[3:]
    shift[6:, count:] = np.eye(more)
    numbers = robot_parameters(guest)
    slack = numbers["rest"]
    own = mechanics_of(robot).mass_matrix(state.joints)[np.ix_(moving, moving)]
    mass = shift.T @ mechanics_of(guest).mass_matrix(slack) @ shift
    mass[:count, :count] += own
    # Forces of the servicer alone by states and commands, then those of the target's springs and dampers.
    size = count + more
    force = np.zeros((size, 2 * size))
    for half in (0, 1):
        force[:count, half * size : half * size + count] = own @ loop.motion[count:, half * count : (half + 1) * count]
    joints = slice(count, size)
    force[joints, joints] -= np.diag(numbers["stiffness"])
    force[joints, size + count :] -= np.diag(numbers["damping"][6:])
    motion = np.zeros((2 * size, 2 * size))
    motion[:size, size:] = np.eye(size)
    motion[:count, :count] = loop.motion[:count, :count]
    motion[size:] = np.linalg.solve(mass, force)
    drive = np.zeros((2 * size, loop.drive.shape[1]))
    drive[size:] = np.linalg.solve(mass, np.concatenate([own @ loop.drive[count:], np.zeros((more, drive.shape[1]))]))
    store = _spread_gain(loop.store, 2 * size)
    names = (*loop.names, *guest.joint_names)
    return replace(loop, motion=motion, drive=drive, gain=_spread_gain(loop.gain, 2 * size), store=store, names=names)


def _spread_gain(gain: Array, size: int) -> Array:
    """Gains (rows, size) on a state that also has the coordinates and rates of joints that nothing reads."""
    half, count = size // 2, gain.shape[1] // 2
    found = np.zeros((gain.shape[0], size))
    found[:, :count], found[:, half : half + count] = gain[:, :count], gain[:, count:]
    return found


def _hold(actuators: Actuators, robot: Robot, state: State, law: Law) -> dict[str, list[Any]]:
    """References of a law with which the servicer rests as it is."""
    held: dict[str, Any] = {
        "joints": state.joints[actuators.index(actuators.arm)],
        "spin": np.zeros(3),
        "momentum": np.zeros(3),
        "base_position": state.position,
        "base_quaternion": state.quaternion,
        "base_rate": np.zeros(3),
    }
    if "position" in law.references:
        rotation, origin = frame_pose(robot, evaluate_bodies(robot, state.vector[None]), actuators.hand)
        held |= {"position": origin[0], "quaternion": quaternion_from_rotation(rotation[0])}
    if "wheels" in law.signals:
        gains = [signal(0.0) for signal in law.signals["wheels"]]
        held["wheels"] = [*gains[:3], *state.quaternion]
    return {name: [*map(constant, map(float, values))] for name, values in held.items() if name in law.references}
