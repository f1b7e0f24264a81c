"""Limits of a mission: what may be used in every stage, how much of it a stage used, and when it broke first.

Every stage is held against all limits: torque, range and rate of the arm's joints (braked ones too), travel of the soft
joints, speed of the wheels, and what the table ``limits`` of the file names. Ranges, rates and the base's rate are
watched by event functions of the run, torques of laws at their ticks, those of brakes and the power at all steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import casadi as ca
import numpy as np

from spacearm.control.attitude import propellant_mass
from spacearm.engine import Kernel
from spacearm.mechanics import Program
from spacearm.mechanics.spatial import SX
from spacearm.mission._laws import Actuators
from spacearm.mission._motion import wheel_momentum_at_rate
from spacearm.model import Pose, Robot
from spacearm.model.layout import Layout
from spacearm.model.toml_schema import positive_number
from spacearm.result import LIMIT_SLACK, Limit, LimitKind
from spacearm.simulate import RunContext
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.elements import ElementView
from spacearm.simulate.phase import EventFunction
from spacearm.simulate.run.chain import DriveMaxima
from spacearm.study import ScenarioTable, key
from spacearm.study.limits import range_use
from spacearm.typing import Array

#: A number that something is divided by.
Positive = Annotated[float, positive_number(1e-12)]
TARGET, GRASP = "target", "grasp"
#: A phase that has broken a limit is flown on to see how much would have been needed: up to so many times the limit.
MOST_USE = 2.0
WHEEL_SATURATED = "wheel saturated"
#: Number of the wheels' gain on the momentum that they carry, among their references.
CARRY = 2


class MissionLimitsTable(ScenarioTable):
    """Limits that hold in every stage, besides those of the servicer's joints and wheels in its robot file."""

    base_rate: Positive | None = key(None, "largest turning rate of the base, rad/s")
    base_rate_deg: Positive | None = None
    impulse: Positive | None = key(None, "largest impulse on the hand at the catch, N s")
    contact_force: Positive | None = key(None, "largest force of a contact of `touch.contact`, N")
    power: Positive | None = key(None, "largest power of all motors of the arm together, W")
    propellant: Positive | None = key(None, "that there is, kg")
    time: Positive | None = key(None, "that all stages may take together, s")


@dataclass(frozen=True, eq=False)
class Use:
    """Use of one limit by a part in a phase: values (T,) at times (T,), s; ``crossing``: first break, s."""

    what: str
    unit: str
    limit: float
    times: Array
    values: Array
    crossing: float | None = None
    kind: LimitKind = ""
    most: float | None = None  # of the values, where it is known

    @property
    def largest(self) -> float:
        """Of the values."""
        return float(self.values.max(initial=0.0)) if self.most is None else self.most

    @property
    def first_break(self) -> float:
        """Time, s, at which the limit is first broken; infinite where it is kept."""
        over = np.flatnonzero(self.values > self.limit * (1.0 + LIMIT_SLACK))
        sampled = float(self.times[over[0]]) if over.size else np.inf
        return sampled if self.crossing is None else min(self.crossing, sampled)

    def order(self, name: str) -> tuple[float, float]:
        """That of its limit: see :func:`order_limits`."""
        most = self.largest
        # As a rule all is well, and only the nearest of many limits is asked for more than its margin.
        if self.crossing is None and most <= self.limit:
            return math.inf, (self.limit - most) / self.limit
        return order_limits(self.judge(name))

    def judge(self, name: str) -> Limit:
        """The most that was used; a break between samples counts as just beyond."""
        most = self.largest
        # An event may have located a break between two samples that are both within the limit.
        kept = self.crossing is None and most <= self.limit
        first = np.inf if kept else self.first_break
        if np.isfinite(first):
            most = max(most, self.limit * (1.0 + 2.0 * LIMIT_SLACK))
        nearest = float(self.times[int(np.argmax(self.values))]) if self.values.size else None
        time = first if np.isfinite(first) else nearest
        return Limit(name, most, self.limit, self.unit, self.what, time=time, kind=self.kind)


def judge_uses(name: str, uses: Iterable[Use]) -> list[Limit]:
    """Of all parts the one that broke its limit first, else the one that is nearest to it; parts without one are left
    out."""
    nearest: tuple[tuple[float, float], Use] | None = None
    for use in (each for each in uses if 0.0 < each.limit < math.inf):
        order = use.order(name)
        if nearest is None or order < nearest[0]:
            nearest = order, use
    return [] if nearest is None else [nearest[1].judge(name)]


def order_limits(limit: Limit) -> tuple[float, float]:
    """Broken limits by time, then the others by margin."""
    return (limit.time or 0.0, limit.margin) if limit.is_broken else (np.inf, limit.margin)


class LimitUsage:
    """Use of all limits by a stage, phase by phase.

    Args:
        spent: propellant that earlier stages have spent, kg.
    """

    def __init__(self, actuators: Actuators, table: MissionLimitsTable, spent: float = 0.0) -> None:
        self.actuators, self.table, self.spent = actuators, table, spent
        self.base_rate, self.propellant = 0.0, 0.0
        self.found: dict[str, Limit] = {}

    @property
    def limits(self) -> list[Limit]:
        """Each limit over the phases so far: its first break, or its least margin."""
        return list(self.found.values())

    def keep(self, limits: Iterable[Limit]) -> list[Limit]:
        """Take these into account; those that are broken, the first one first."""
        broken = []
        for limit in limits:
            # Over all phases of a stage: the first break, or else the least margin.
            self.found[limit.name] = min(limit, self.found.get(limit.name, limit), key=order_limits)
            broken += [limit] if limit.is_broken else []
        return sorted(broken, key=order_limits)

    def add(self, context: RunContext, near: Sequence[Limit] = ()) -> list[Limit]:
        """The phase before; the limits that it broke, the first one first.

        Args:
            near: how near the target came.
        """
        times, states = context.samples
        name, at = self.actuators.robot.name, Layout(self.actuators.robot.n)
        rows = states[name]
        # Reversed, so that the first crossing of each name remains.
        crossed = {event.name: event.time for event in reversed(context.events) if event.kind == "function"}
        logs, rates = context.commands, np.abs(rows[:, at.rates])
        rate = np.linalg.norm(rows[:, at.angular_velocity], axis=1)
        self.base_rate = max(self.base_rate, float(rate.max()))
        peaks = context.peaks[name]
        found = [
            *judge_uses("torque limit", self._torques(peaks, logs)),
            *judge_uses("rate limit", self._rates(times, rates, logs, crossed)),
            *judge_uses("range limit", self.travel(times, rows[:, at.joints], self.actuators.arm, crossed)),
            *judge_uses("travel exceeded", self.travel(times, rows[:, at.joints], self.actuators.soft, crossed)),
            *judge_uses(WHEEL_SATURATED, self._wheels(context, times, rows)),
            *near,
            *self._power(peaks),
            *self._propellant(context.time, logs),
        ]
        most = self.table.si_value("base_rate")
        if most is not None:
            found += judge_uses("base rate", [Use("", "rad/s", float(most), times, rate, crossed.get("base rate"))])
        if self.table.time is not None:
            late = self.table.time if context.time > self.table.time else None
            found += judge_uses(
                "time", [Use("", "s", self.table.time, np.array([context.time]), np.array([context.time]), late)]
            )
        return self.keep(found)

    def _torques(self, peaks: DriveMaxima, logs: Sequence[CommandLog]) -> Iterable[Use]:
        """Torques that laws asked for, before they were cut; of joints on given paths and of brakes, what they give."""
        commanded = {name: (log, k) for log in logs for k, name in enumerate(log.limited)}
        # All at once; a margin's least is the largest that was wanted.
        least = {id(log): log.margins.min(axis=0, initial=np.inf) for log in logs}
        largest = peaks.forces.max(axis=0, initial=0.0)
        names = (*self.actuators.arm, *self.actuators.braked_joints)
        for name, k in zip(names, self.actuators.index(names), strict=True):
            joint = self.actuators.robot.joint(name)
            unit, most = "N m" if joint.unit == "rad" else "N", joint.limits.effort
            if name in commanded:
                log, number = commanded[name]
                # The margin before saturation: what the law wanted, even where the actuator gave less.
                wanted = float(np.maximum(most - least[id(log)][number], 0.0))  # keeps a NaN
                yield Use(name, unit, most, log.times, most - log.margins[:, number], most=wanted)
            else:
                used = float(largest[6 + k])
                yield Use(name, unit, most, peaks.force_times[:, 6 + k], peaks.forces[:, 6 + k], most=used)

    def _rates(
        self, times: Array, rates: Array, logs: Sequence[CommandLog], crossed: Mapping[str, float]
    ) -> Iterable[Use]:
        cuts, largest = _rate_cuts(logs), rates.max(axis=0, initial=0.0).tolist()
        for name, k in zip(self.actuators.arm, self.actuators.index(self.actuators.arm), strict=True):
            joint = self.actuators.robot.joint(name)
            first = min(
                (each[key] for each, key in ((crossed, f"rate limit of {name}"), (cuts, name)) if key in each),
                default=None,
            )
            yield Use(name, f"{joint.unit}/s", joint.limits.velocity, times, rates[:, k], first, most=largest[k])

    def travel(self, times: Array, joints: Array, names: Sequence[str], crossed: Mapping[str, float]) -> Iterable[Use]:
        robot, chosen = self.actuators.robot, self.actuators.index(names)
        own = joints[:, chosen]
        used, half = range_use(robot.lower_limits[chosen], robot.upper_limits[chosen], own, own)
        largest = used.max(axis=0, initial=0.0).tolist()
        for name, limit, values, most in zip(names, half, used.T, largest, strict=True):
            first = crossed.get(f"range limit of {name}")
            yield Use(name, robot.joint(name).unit, float(limit), times, values, first, "stop", most)

    def _wheels(self, context: RunContext, times: Array, rows: Array) -> Iterable[Use]:
        """Speeds; where a wheel has come to its limit, the speed that it would have needed.

        It follows from the momentum, not from the torques of a run in which the wheel was saturated: the speed at which
        the wheel would hold what the wheels have to hold, if that came to lie along its axis.
        """
        logs, actuators = context.commands, self.actuators
        cuts, rates = _rate_cuts(logs), np.abs(rows[:, Layout(actuators.robot.n).rates])
        shares = np.linalg.norm(actuators.shares, axis=1) / actuators.rotors if actuators.wheels else ()
        for name, k, share in zip(actuators.wheels, actuators.index(actuators.wheels), shares, strict=True):
            most, values, first = actuators.robot.joint(name).limits.velocity, rates[:, k], cuts.get(name)
            if first is None and values.max() > most * (1.0 - LIMIT_SLACK):
                first = float(times[int(np.argmax(values))])
            # A saturated wheel stays at its limit: how far it is overloaded does not show in its speed.
            if first is not None:
                later = times >= times[max(int(np.searchsorted(times, first)) - 1, 0)]
                needed = float(share * self._wheel_demand(context, times[later]).max())
                values = np.append(values[:-1], max(values[-1], needed))
            yield Use(name, "rad/s", most, times, values, first, "wheel")

    def _wheel_demand(self, context: RunContext, times: Array) -> Array:
        """Sizes (T,) of the momentum that the wheels have to hold at these samples, N m s.

        It is what they have once the base turns as its law wants it to, and what a law lets them carry besides.
        """
        turning, carried = np.zeros((times.size, 3)), np.zeros(times.size)
        for log in context.commands:
            signals = {} if log.law is None else log.law.signals
            since = times - log.begin
            if "base_rate" in signals:
                turning = np.stack([signal(since) for signal in signals["base_rate"]], axis=1)
            if "momentum" in signals and signals["wheels"][CARRY](0.0) > 0.0:
                wanted = np.stack([signal(since) for signal in signals["momentum"]], axis=1)
                carried = np.linalg.norm(wanted, axis=1)
        rows = {name: each[np.searchsorted(context.samples[0], times)] for name, each in context.samples[1].items()}
        held = wheel_momentum_at_rate(context.world, self.actuators, rows, turning)
        return np.asarray(np.maximum(np.linalg.norm(held, axis=1), carried))

    def _power(self, peaks: DriveMaxima) -> Iterable[Limit]:
        if self.table.power is None:
            return ()
        return judge_uses("power", [Use("", "W", self.table.power, peaks.power_times, peaks.powers)])

    def _propellant(self, now: float, logs: Sequence[CommandLog]) -> Iterable[Limit]:
        found = self.spend(0.0, np.array([now]), np.zeros(1))
        for log in logs:
            spent, robot = propellant_mass(self.actuators.robot, log), self.actuators.robot
            if spent > 0.0:
                flows = sum(log[part.name] * part.mass_flow for part in robot.thrusters if part.name in log.names)
                # Commands are held from tick to tick: the flow is constant in between.
                edges = np.append(log.times, log.end)
                so_far = np.append(0.0, np.cumsum(np.diff(edges) * flows))
                found += self.spend(spent, edges, so_far)
        return found

    def spend(self, mass: float, times: Array, so_far: Array) -> list[Limit]:
        """Propellant (kg) of a phase, and how much of it had been spent at these times (s)."""
        before = self.spent + self.propellant
        self.propellant += mass
        most = self.table.propellant
        if most is None:
            return []
        first = float(np.interp(most - before, so_far, times)) if before + mass > most * (1.0 + LIMIT_SLACK) else None
        total = before + np.minimum(so_far, mass)
        total[-1] = before + mass
        return judge_uses("propellant out", [Use("", "kg", most, times, total, first)])


def _rate_cuts(logs: Sequence[CommandLog]) -> dict[str, float]:
    """When drives first met their rate limit between ticks, s."""
    found: dict[str, float] = {}
    for log in logs:
        for time, number, _ in log.cuts:
            name = log.names[int(number)]
            found[name] = min(float(time), found.get(name, np.inf))
    return found


# -- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EndCondition:
    """Condition that ends a phase of a stage: an expression of the state that falls below zero.

    Args:
        kind: ``latch``: distance, angle and speed of hand and grasp are all within ``numbers`` (m, rad, m/s);
            ``base``, ``hand``: it rotates slower than ``numbers`` (rad/s); ``soft joints``: each is slower than its
            rate in ``numbers``.
        grasp: frame on the target's body, of a latch.
        at_once: whether it also ends a phase at whose start it holds.
    """

    kind: str
    numbers: tuple[float, ...]
    grasp: Pose | None = None
    at_once: bool = True

    def expression(self, actuators: Actuators, view: ElementView) -> SX:
        name, at = actuators.robot.name, Layout(actuators.robot.n)
        if self.kind == "base":
            return ca.norm_2(view.state[at.angular_velocity]) / self.numbers[0] - 1.0
        if self.kind == "soft joints":
            # The largest share of all: one event when the last joint comes to rest.
            rates = view.state[at.rates][actuators.index(actuators.soft)]
            return ca.mmax(ca.fabs(rates / ca.DM(self.numbers))) - 1.0
        hand = view.frame(name, actuators.hand)
        if self.kind == "hand":
            return ca.norm_2(hand.angular_velocity) / self.numbers[0] - 1.0
        grasp, (near, angle, speed) = view.frame(TARGET, GRASP), self.numbers
        over = ca.norm_2(grasp.pose.origin - hand.pose.origin) / near - 1.0
        # Cosines: the arc cosine has an infinite slope where the axes are aligned.
        over = ca.fmax(over, np.cos(angle) + ca.dot(hand.pose.rotation[:, 2], grasp.pose.rotation[:, 2]))
        return ca.fmax(over, ca.norm_2(grasp.velocity - hand.velocity) / speed - 1.0)


@lru_cache(maxsize=64)
def limit_events(
    actuators: Actuators, base_rate: float | None, guest: Robot | None, until: EndCondition | None, goes_on: bool
) -> EventFunction:
    """Events of a phase: its end, and the crossings of ranges, rates and the base's rate.

    Args:
        guest: what stands for the target, where that is a system of its own; its inertia is not used.
        goes_on: whether the phase goes on however far a limit is exceeded; else it ends at ``MOST_USE`` times it.
    """
    robot, at = actuators.robot, Layout(actuators.robot.n)
    systems = {robot.name: robot}
    if guest is not None:
        systems[TARGET] = guest
    view = ElementView(systems, 0, 0)
    shares: dict[str, SX] = {}
    # The latch depends on where the grasp is, which campaigns vary: the less is compiled with it, the better.
    watched = () if until is not None and until.kind == "latch" else (*actuators.arm, *actuators.soft)
    for name in watched:
        bounds, k = robot.joint(name).limits, robot.joint_index(name)
        q, rate = view.state[at.joints][k], view.state[at.rates][k]
        if 0.0 < bounds.velocity < np.inf and name in actuators.arm:
            # A drive that is cut off at its limit stays there: its law reports that; only what is beyond counts.
            shares[f"rate limit of {name}"] = ca.fabs(rate) / (bounds.velocity * (1.0 + 1e-6))
        if np.isfinite(bounds.upper - bounds.lower) and bounds.upper > bounds.lower:
            # One event for both ends of a range: the distance from its middle, as a share of half the range.
            middle, half = 0.5 * (bounds.upper + bounds.lower), 0.5 * (bounds.upper - bounds.lower)
            shares[f"range limit of {name}"] = ca.fabs(q - middle) / (half * (1.0 + LIMIT_SLACK))
        elif np.isfinite(bounds.upper) or np.isfinite(bounds.lower):
            beyond = q - bounds.upper if np.isfinite(bounds.upper) else bounds.lower - q
            shares[f"range limit of {name}"] = 1.0 + beyond - LIMIT_SLACK
    if base_rate is not None and watched:
        shares["base rate"] = ca.norm_2(view.state[at.angular_velocity]) / (base_rate * (1.0 + LIMIT_SLACK))
    events = [(name, share - 1.0, "rising", "nothing", -1) for name, share in shares.items()]
    if shares and not goes_on:
        # A run far beyond its limits may be violent and take very many steps: its outcome is known already.
        most = ca.mmax(ca.vertcat(*shares.values()))
        events.append(("far beyond a limit", most - MOST_USE, "rising", "phase", -1))
    if until is not None:
        # A stated side of +1: a condition that holds at the start counts as a crossing at once.
        side = 1 if until.at_once else 0
        events.append((until.kind, until.expression(actuators, view), "falling", "phase", side))
    names, values, directions, ends, before = zip(*events, strict=True)
    program = Program("limits", {"state": view.state, "time": view.time}, {"over": ca.vertcat(*values)})
    return EventFunction(Kernel(program), names, directions, ends, before)


@dataclass(frozen=True, eq=False)
class Break:
    """The first limits that a phase of a mission broke: its number among the phases, when (s), and which."""

    phase: int
    time: float
    limits: tuple[Limit, ...]

    @classmethod
    def first_of(cls, phase: int, broken: Sequence[Limit]) -> Break:
        """The break of those limits (``broken``, in order of time) that broke together with the first."""
        time = broken[0].time or 0.0
        return cls(phase, time, tuple(limit for limit in broken if (limit.time or 0.0) <= time + 1e-9))


class LimitBroken(Exception):
    """A limit is broken: the stage ends here."""
