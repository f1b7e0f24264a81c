"""The target is met: tables of a mission's file for the approach and the touch, each with the phases that it flies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import numpy as np

from spacearm.control import Law
from spacearm.mission import _laws
from spacearm.mission._encounter import GRID, HandPlan
from spacearm.mission._flight import MissionFlight
from spacearm.mission._limits import EndCondition, LimitUsage, Positive
from spacearm.mission._stages import DEGREE, Flown, GainKeys, StageTable
from spacearm.model.toml_schema import Duration, Number, integer_between
from spacearm.result import Limit
from spacearm.simulate import Phase
from spacearm.simulate.run.chain import Item
from spacearm.study import key
from spacearm.study.findings import NotedValue
from spacearm.study.surroundings import ContactPairTable

#: Share of the approach that the hand may take to come nearer once it goes with the grasp.
MOST_LEAD = 0.25
#: How often the latch may be tried.
Attempts = Annotated[int, integer_between(1, 10)]
#: A latch that closes at its limits is within them, but for rounding.
CLOSE = 1.0 + 1e-6
#: Share of a limit from which on the latch has waited for it.
WAITED = 1.0 - 1e-6
#: s, too short for a phase.
SOON = 1e-9


class MissionApproachTable(GainKeys):
    """The hand goes to the grasp point."""

    called: ClassVar[str] = "approach"

    key_changes: ClassVar = {"closing": "it is called 'closing_speed' now"}

    duration: Duration = key(30.0, "s until the planned touch, a multiple of 0.5 s")
    reach: Positive = key(
        0.3, "how far ahead of the hand the target is met, m, where `target.contact_point` is not given"
    )
    match: Duration = key(8.0, "s before the touch in which the hand takes up the motion of the grasp")
    closing_speed: Number = key(0.02, "m/s, with which a hand that goes with the grasp comes nearer")

    def plan(self, flight: MissionFlight) -> HandPlan:
        """The hand takes up the motion of the grasp before it comes as near as the latch closes; `passive` it waits."""
        touch = flight.file.touch
        if flight.strategy == "passive":
            return HandPlan(0.0, 0.0, 0.0)
        # The hand goes with the grasp where the latch can close, and comes nearer from there at the closing speed.
        lead = min(touch.distance / self.closing_speed, MOST_LEAD * self.duration) if self.closing_speed > 0.0 else 0.0
        match, again = min(self.match, self.duration - lead), touch.retry_time(self)
        retreats = [flight.met.meeting + touch.wait + k * again for k in range(touch.attempts - 1)]
        return HandPlan(match, lead, self.closing_speed, touch.retreat, tuple(retreats))

    def law(self, flight: MissionFlight, period: float | None = None) -> Law:
        """The law with which the hand follows its path; with the strategy `passive` it waits for the grasp."""
        path = flight.plan_path(self.plan(flight)).shift_start(flight.context.time)
        return _laws.track_hand_pose(
            flight.actuators,
            path.position,
            path.quaternion,
            path.angular_velocity,
            load=flight.load,
            gains=self.gains,
            wheels=flight.wheels(before_touch=True),
            period=self.period if period is None else period,
            base=flight.base_reference(),
        )

    def follow(
        self, flight: MissionFlight, usage: LimitUsage, duration: float, name: str, until: EndCondition | None = None
    ) -> Iterator[Item]:
        """The hand follows the grasp as it is known to move; the path is planned anew as readings arrive.

        It ends at the time of an abort.
        """
        camera, latest = flight.file.navigation.camera, flight.abort_time
        count = 1 if camera is None else max(1, round(duration / camera.update))
        for end in flight.context.time + duration / count * np.arange(1, count + 1):
            if flight.is_aborted:
                return
            flight.look()
            period = flight.approach_period
            phase = Phase(min(end, latest) - flight.context.time, laws=self.law(flight, period), name=name)
            yield from flight.phase(usage, phase, until, is_checked=period is not None)
            # The loop is that of the first interval, with an empty hand: it is checked and its period chosen once.
            flight.approach_period = next(
                (log.law.period for log in flight.context.commands if log.law is not None), None
            )
            if until is not None and flight.file.touch.is_closed(flight):
                return

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        if flight.file.rendezvous is not None:
            flight.begin_state, flight.zone = flight.state, "corridor"
            yield from flight.release(flight.actuators.arm)
        # The latch does not close before the hand goes with the grasp; that of a hand that waits, once it is there.
        ready = 0.5 * self.duration if flight.strategy == "passive" else self.duration - self.plan(flight).lead
        yield from self.follow(flight, usage, ready, self.called)
        if ready < self.duration and not flight.is_aborted:
            latch = None if flight.failures.failed_attempts else flight.file.touch.latch(flight)
            yield from self.follow(flight, usage, self.duration - ready, "closing", latch)
        far, _, _ = flight.gap()
        return [], {
            "distance": NotedValue(far, "of hand and grasp, at the end", "m"),
            "base_rotation": NotedValue(flight.base_rotation(flight.begin_state), "of the base meanwhile", "rad"),
        }


class TouchTable(StageTable):
    """The hand is at the grasp: the latch closes there."""

    called: ClassVar[str] = "touch"

    wait: Duration = key(5.0, "how long the hand stays at the grasp for the latch to close, s, a multiple of 0.5 s")
    attempts: Attempts = key(2, "how often it does so; before each further one the hand retreats and comes again")
    retreat: Positive = key(0.1, "how far it retreats, m, in half of `approach.match`")
    distance: Positive = key(0.03, "at which the latch closes, m")
    angle: Positive | None = key(None, "largest angle between the axes then, rad; 10 deg if omitted")
    angle_deg: Positive | None = None
    speed: Positive = key(0.1, "largest relative speed then, m/s; the latch closes where all three are kept")
    contact: list[ContactPairTable] = key([], "shapes of hand and target that may touch before the latch closes")

    @property
    def steepest(self) -> float:
        """Largest angle between the hand and the grasp, rad."""
        given = self.si_value("angle")
        return 10.0 * DEGREE if given is None else float(given)

    def retry_time(self, approach: MissionApproachTable) -> float:
        """Time, s, of a further attempt, in whole steps of the encounter's grid."""
        return GRID * math.ceil(approach.match / GRID) + self.wait

    def duration(self, approach: MissionApproachTable, strategy: str) -> float:
        """s after the planned touch that all attempts may take; a hand that waits has one."""
        return self.wait + (0 if strategy == "passive" else self.attempts - 1) * self.retry_time(approach)

    def latch(self, flight: MissionFlight) -> EndCondition:
        """The latch closes: distance, angle and speed are within their limits together."""
        return EndCondition("latch", (self.distance, self.steepest, self.speed), flight.table.grasp.pose())

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        touched = _has_touched(flight)
        # The approach may have ended at the latch already: then it closes at once.
        failed = flight.failures.failed_attempts
        if not flight.is_aborted and (failed or not self.is_closed(flight)):
            approach, end = flight.file.approach, max(flight.met.times[-1], flight.context.time + 0.01)
            # A latch that has failed may close when the hand has retreated and comes again.
            again = flight.met.meeting + self.wait + (failed - 1) * self.retry_time(approach) + 0.5 * approach.match
            if failed:
                yield from approach.follow(flight, usage, min(again, end) - flight.context.time, self.called)
            if (left := end - flight.context.time) > SOON:
                yield from approach.follow(flight, usage, left, self.called, self.latch(flight))
            touched = touched or _has_touched(flight)
        if flight.is_aborted:
            return [], {}
        far, angle, speed = flight.gap()
        # The first attempt includes the approach; each further one takes a retreat and a wait.
        late = flight.context.time - flight.met.meeting - self.wait
        numbers: dict[str, Any] = {
            "attempts": NotedValue(1 + max(0, math.ceil(late / self.retry_time(flight.file.approach) - 1e-9)), ""),
            "distance": NotedValue(far, "", "m"),
            "angle": NotedValue(angle, "", "rad"),
            "speed": NotedValue(speed, "", "m/s"),
        }
        if flight.navigation is not None:
            numbers["navigation"] = flight.navigation.rows(flight.context.time)
        if failed >= (tries := 1 if flight.strategy == "passive" else self.attempts):
            return [Limit("latch failed", float(failed + 1), float(tries), "attempts")], numbers
        if far > self.distance * CLOSE:
            return [Limit("contact lost" if touched else "missed", far, self.distance, "m")], numbers
        limits = [Limit("misaligned", angle, self.steepest, "rad"), Limit("touch speed", speed, self.speed, "m/s")]
        # A latch that has waited for one of them closes where that is at its limit, however good it would be later:
        # what is scarce then is time.
        met = [limit for limit in limits if limit.is_broken or limit.used < limit.limit * WAITED]
        if len(met) < len(limits):
            waited = max(flight.context.time - flight.met.meeting, 0.0)
            whole = self.duration(flight.file.approach, flight.strategy)
            met.append(Limit("latch wait", waited, whole, "s", time=flight.context.time))
        return met, numbers

    def is_closed(self, flight: MissionFlight) -> bool:
        """Whether distance, angle and speed are within their limits, or on them."""
        bounds = self.distance, self.steepest, self.speed
        return all(value <= most * CLOSE for value, most in zip(flight.gap(), bounds, strict=True))


def _has_touched(flight: MissionFlight) -> bool:
    """Whether shapes have touched in the phase before."""
    return any(event.kind == "touch" for event in flight.context.events)
