"""The end of a mission: decide what to do, stow the arm with its load, or eject the target and keep clear of it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from spacearm.control import point_to_point
from spacearm.errors import InputError
from spacearm.mission import _laws
from spacearm.mission._base_path import TargetMotion
from spacearm.mission._encounter import BODY, GRASP, STEP, TARGET, HandPoseSignals, fit_pose_signals
from spacearm.mission._flight import MissionFlight
from spacearm.mission._laws import WheelReference
from spacearm.mission._limits import LimitUsage, Positive
from spacearm.mission._outcomes import UNSETTLED
from spacearm.mission._review import list_requirements
from spacearm.mission._stages import Flown, GainKeys, StageTable
from spacearm.mission._station import BaseReference
from spacearm.model import Pose
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.model.toml_schema import Duration, Name, Number, Vector3
from spacearm.result import Limit, LimitKind
from spacearm.simulate import Bushing, Disconnect, Phase, Release, Signal, State, World, distance
from spacearm.simulate.changes import SPACEARM_TERMS, Change, ChangeResult, Terms
from spacearm.simulate.run.chain import Item
from spacearm.simulate.system_loop import SystemLoop
from spacearm.study import key
from spacearm.study.findings import NotedValue
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission._outcomes import StageOutcome
    from spacearm.mission._rendezvous import RendezvousTable

Verdict = Literal["go", "wait", "eject", "abort"]
SPRINGS = "springs"
#: Samples of a coast at most.
MOST_SAMPLES = 4000


class DecideTable(StageTable):
    """What is done with a target that was caught."""

    called: ClassVar[str] = "decide"

    margin: Positive | None = key(None, "least margin of all stages for a go")
    margins: dict[str, Number] = key({}, 'the same by the name of a limit, as `"torque limit" = 0.5`')
    mass: Positive | None = key(
        None, "largest mass for a go, kg; what was identified counts with two standard deviations"
    )
    wait: Duration | None = key(None, "s for which a stage that has not settled is flown once more")

    def judge(self, flight: MissionFlight) -> tuple[list[Limit], dict[str, Any]]:
        """The limits of the decision, once all stages have been flown."""
        if flight.file.stow is None:
            self.check_names(flight.outcomes)
        limits = self.judge_margins(flight.outcomes)
        mass = flight.table.assumed_robot.mass if flight.identified is None else flight.identified.mass
        # Two standard deviations on the heavy side.
        doubt = 0.0 if flight.identified is None else float(2.0 * flight.identified.std[0])
        if self.mass is not None:
            limits.append(Limit("too heavy", mass + doubt, self.mass, "kg", TARGET))
        return limits, {"mass": NotedValue(mass, "assumed" if flight.identified is None else "as identified", "kg")}

    def check_names(self, outcomes: Sequence[StageOutcome]) -> None:
        """An error where a margin is asked for of a limit that the mission does not have."""
        known = sorted(need.limit.name for need in list_requirements(outcomes, self))
        if unknown := [name for name in self.margins if name not in known]:
            hint = f"it has {', '.join(known)}"
            raise InputError(f"{unknown[0]!r} is not a limit of this mission", place="decide.margins", hint=hint)

    def judge_margins(self, outcomes: Sequence[StageOutcome]) -> list[Limit]:
        """The margin of these stages that is nearest to what the policy asks for, or less."""
        # A policy of zero is that the limit holds; that, and whether a limit is broken, the stages have judged.
        asked = [need for need in list_requirements(outcomes, self) if need.policy > 0.0 and need.limit.margin >= 0.0]
        if not asked:
            return []
        # By the share of the policy that is left: margins of limits with different policies are compared alike.
        need = min(asked, key=lambda each: (each.limit.margin - each.policy) / each.policy)
        whose = f"{need.stage}: {need.limit.name}"
        return [Limit("margin too small", need.limit.margin, need.policy, "", whose, least=True)]

    def verdict(self, failed: StageOutcome | None, waited: bool, can_eject: bool) -> Verdict:
        """After a stage that failed, or after all of them."""
        if failed is None:
            return "go"
        if failed.binding_limit.name == UNSETTLED and self.wait is not None and not waited:
            return "wait"
        return "eject" if can_eject else "abort"


class StowTable(GainKeys):
    """The arm takes the target to a configuration, with its inertia as it was identified; wheels steady the base."""

    called: ClassVar[str] = "stow"

    key_changes: ClassVar = {"hold": "it is called 'settle_time' now"}

    configuration: Name = key("stowed", "of the servicer")
    duration: Duration = key(40.0, "s")
    settle_time: Duration = key(10.0, "s in which it comes to rest there")
    error: Positive | None = key(None, "largest error of a joint at the end, rad; 0.5 deg if omitted")
    error_deg: Positive | None = None
    steady: Number = key(60.0, "of the wheels' law, N m s/rad")
    end_rate: Positive | None = key(None, "largest turning rate of the base at the end, rad/s")
    end_rate_deg: Positive | None = None
    end_attitude: Positive | None = key(None, "largest angle of the base from its attitude at time zero then, rad")
    end_attitude_deg: Positive | None = None
    end_wheel_speed: Positive | None = key(None, "largest speed of a wheel then, rad/s")

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        actuators, name = flight.actuators, flight.name
        index = actuators.index(actuators.arm)
        goal = np.asarray(actuators.robot.configuration(self.configuration))[index]
        yield from flight.brake()
        yield Release([flight.context.world.label(name, joint) for joint in actuators.arm])
        # With the load as identified: a law with the assumed load would track worse.
        paths, _ = point_to_point(flight.state.joints[index], goal, self.duration)
        law = _laws.track_joints(
            actuators,
            paths,
            load=flight.load,
            gains=self.gains,
            wheels=WheelReference(rate=self.steady),
            period=self.period,
        )
        phase = Phase(self.duration + self.settle_time, laws=law, name=self.called, sample=flight.sample_times())
        yield from flight.phase(usage, phase)
        given = self.si_value("error")
        most = np.radians(0.5) if given is None else float(given)
        # Judged at the end of the settling time.
        off = np.abs(flight.state.joints[index] - goal)
        k = int(np.argmax(off))
        limits = [Limit(UNSETTLED, float(off[k]), most, "rad", actuators.arm[k]), *self.end_limits(flight)]
        return limits, {"error": NotedValue(float(off[k]), "largest of a joint at the end", "rad")}

    def end_limits(self, flight: MissionFlight) -> Iterator[Limit]:
        """Limits of the final state that the file sets."""
        actuators, state = flight.actuators, flight.state
        speeds = np.abs(state.rates[actuators.index(actuators.wheels)])
        rate = float(np.linalg.norm(state.base_angular_velocity))
        ends: tuple[tuple[str, float, float | None, str, LimitKind], ...] = (
            ("end rate", rate, self.si_value("end_rate"), "rad/s", ""),
            ("end attitude", flight.base_rotation(), self.si_value("end_attitude"), "rad", ""),
            ("end wheel speed", float(speeds.max(initial=0.0)), self.end_wheel_speed, "rad/s", "wheel"),
        )
        for name, value, most, unit, kind in ends:
            if most is not None:
                yield Limit(name, value, float(most), unit, kind=kind)


class RetreatTable(GainKeys):
    """The arm goes back from a target that is not caught, or at an abort."""

    called: ClassVar[str] = "retreat"

    time: Number | None = key(None, "s, at which the approach is given up in any case, if nothing is caught by then")
    duration: Duration = key(20.0, "s")
    configuration: Name | None = key(None, "of the servicer, to which the arm goes; that of the start if omitted")
    distance: Positive = key(0.1, "least distance of hand and grasp at the end, m")
    escape_speed: Positive | None = key(
        None, "with `rendezvous`: speed at which the base leaves the target under thrusters, m/s; it floats if omitted"
    )
    escape_direction: Vector3 | None = key(
        None, "direction of that speed, world axes; away from the target's mass centre if omitted"
    )
    escape_time: Duration = key(30.0, "s in which the base reaches that speed and stops rotating")
    coast: Duration | None = key(None, "s of free motion afterwards, in which the distance of both is checked")
    safe_distance: Positive = key(1.0, "least distance of target and servicer while they coast, m")

    def check(self, rendezvous: RendezvousTable | None) -> None:
        """An error where keys would have no effect."""
        if self.escape_speed is not None and rendezvous is None:
            raise InputError(
                "no thruster acts before the touch", place="escape_speed", hint="expected a table 'rendezvous'"
            )
        if self.escape_direction is not None and not np.linalg.norm(self.escape_direction) > 0.0:
            raise InputError("is zero", place="escape_direction", hint="expected a direction")

    @property
    def longest(self) -> float:
        """Longest duration of the stage, s."""
        return max(self.duration, self.escape_time) + (self.coast or 0.0)

    def escape(self, flight: MissionFlight) -> BaseReference | None:
        """The base speeds up away from the target as it is known to move, and stops to rotate."""
        rendezvous = flight.file.rendezvous
        if self.escape_speed is None or rendezvous is None:
            return None
        state, now = flight.state, flight.context.time
        com = flight.table.assumed_robot.bodies[0].inertia.com
        target = TargetMotion.from_encounter(flight.seen, flight.table.grasp.pose(), com)
        centre, velocity = target.follow_centre(now)
        away = state.position - centre if self.escape_direction is None else np.array(self.escape_direction)
        goal = velocity + self.escape_speed * away / np.linalg.norm(away)
        path = plan_escape(state, goal, self.escape_time, max(self.duration, self.escape_time))
        return BaseReference(flight.base_control(), path, rendezvous.gains, flight.file.orbit or 0.0)

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        flight.zone = ""
        flight.look()
        yield from flight.release(flight.actuators.arm)
        actuators, state = flight.actuators, flight.state
        index = actuators.index(actuators.arm)
        goal = flight.start.joints if self.configuration is None else actuators.robot.configuration(self.configuration)
        goal = np.asarray(goal)[index]
        paths = [
            _plan_return(*each, self.duration)
            for each in zip(state.joints[index], state.rates[index], goal, strict=True)
        ]
        law = _laws.track_joints(
            actuators,
            paths,
            load=flight.load,
            gains=self.gains,
            wheels=flight.wheels(before_touch=True),
            period=self.period,
            base=(escape := self.escape(flight)),
        )
        lasts = self.duration if escape is None else max(self.duration, self.escape_time)
        yield from flight.phase(usage, Phase(lasts, laws=law, name=self.called))
        far, _, speed = flight.gap()
        limits = [Limit("too near", far, self.distance, "m", TARGET, least=True, time=flight.context.time)]
        numbers: dict[str, Any] = {
            "distance": NotedValue(far, "of hand and grasp, at the end", "m"),
            "speed": NotedValue(speed, "of the grasp from the hand then", "m/s"),
        }
        if self.coast is not None:
            usage.keep(limits)
            limits = [*limits, (yield from self.drift_off(flight, usage, self.coast))]
            numbers["coast"] = NotedValue(limits[-1].used, "least distance of target and servicer without thrust", "m")
        return limits, numbers

    def drift_off(self, flight: MissionFlight, usage: LimitUsage, duration: float) -> Generator[Item, None, Limit]:
        """Nothing acts any more; the least distance of the two."""
        yield from flight.brake()
        times = np.linspace(0.0, duration, min(MOST_SAMPLES, max(2, round(duration / flight.file.sample))) + 1)
        yield from flight.phase(usage, Phase(duration, name="coast", sample=times))
        return flight.judge_gap("safe distance", self.safe_distance)


def plan_escape(state: State, velocity: Array, duration: float, whole: float) -> HandPoseSignals:
    """Path of a base that comes to this velocity (world, m/s) in so many seconds, and stops to rotate."""
    from scipy.spatial.transform import Rotation

    times = np.arange(0.0, whole + 0.5 * STEP, STEP) if whole > 4.0 * STEP else np.linspace(0.0, whole, 5)
    initial = rotation_matrices(state.quaternion)
    first, angular_rate = initial @ state.velocity[:3], initial @ state.velocity[3:6]
    x = np.minimum(times / duration, 1.0)
    # The integral of the smooth step from 0 to x; after it the velocity stays.
    risen = duration * (x**6 - 3.0 * x**5 + 2.5 * x**4) + np.maximum(times - duration, 0.0)
    position = state.position + np.outer(times - risen, first) + np.outer(risen, velocity)
    # About a fixed axis in the world: the angular velocity falls to zero.
    rotation = Rotation.from_rotvec(np.outer(times - risen, angular_rate)) * Rotation.from_matrix(initial)
    return fit_pose_signals(times, position, rotation.as_quat(scalar_first=True))


def _plan_return(joint: float, rate: float, goal: float, duration: float) -> Signal:
    """Quintic from a moving joint to rest; accelerations are zero at both ends."""
    change, moved = goal - joint, rate * duration
    # Conditions at the end: x + v + a + b + c = goal, first and second derivatives zero; in shares of the duration.
    shape = [0.0, 10.0 * change - 6.0 * moved, -15.0 * change + 8.0 * moved, 6.0 * change - 3.0 * moved]
    start = [joint, rate]
    powers = np.array([*start, *(value / duration ** (k + 2) for k, value in enumerate(shape))])
    # It stays there.
    still = np.array([goal, *np.zeros(5)])
    return Signal(np.array([0.0, duration, duration + 1.0]), np.stack([powers, still], axis=1))


class EjectTable(StageTable):
    """Springs throw the target off; it has to get clear."""

    called: ClassVar[str] = "eject"

    energy: Positive = key(2.0, "of the springs, J")
    stroke: Positive = key(0.05, "m")
    duration: Duration = key(60.0, "s that it is watched")
    speed: Positive = key(0.02, "least speed at which hand and grasp part, m/s")
    clearance: Positive = key(0.5, "least distance of target and servicer at the end, m")

    def fly(self, flight: MissionFlight, usage: LimitUsage) -> Flown:
        yield from flight.brake()
        assert flight.caught is not None
        yield Unlatch(flight.name, flight.actuators.hand, self.energy, self.stroke)
        flight.caught = None
        near, _, _ = flight.gap()
        hand, grasp = f"{flight.name}/{flight.actuators.hand}", f"{TARGET}/{GRASP}"
        # The springs end where the grasp has moved by the stroke, whatever both rotate.
        apart = distance(flight.context.world, hand, grasp, near + self.stroke, "rising")
        # The target is watched to its end, whatever it comes near to: nothing could be done about it.
        yield Phase(30.0, event_function=apart, limits="ignore", name="springs", sample=flight.sample_times())
        closest = flight.clearance()
        yield Disconnect(SPRINGS)
        _, _, speed = flight.gap()
        yield Phase(self.duration, limits="ignore", name=self.called)
        closest += flight.clearance()
        gap, parts = flight.find_gaps(flight.context.samples[1])
        k = int(np.argmin(gap[-1]))
        away = Limit("clearance lost", float(gap[-1, k]), self.clearance, "m", f"{TARGET} and {parts[k]}", least=True)
        angular_rate = float(np.linalg.norm(flight.context.states[TARGET].base_angular_velocity))
        limits = [
            Limit("too slow", speed, self.speed, "m/s", TARGET, least=True),
            min(away, *closest, key=lambda limit: limit.margin) if closest else away,
        ]
        return limits, {
            "speed": NotedValue(speed, "of the grasp from the hand, as the springs end", "m/s"),
            "spin": NotedValue(angular_rate, "of the target", "rad/s"),
            "clearance": NotedValue(away.used, "at the end", "m"),
        }


@dataclass(frozen=True, eq=False)
class Unlatch(Change):
    """Undo a catch: the target is a system of its own again, and springs push it off along the hand's z axis.

    Nothing jumps by it: both go on as they move.

    Args:
        host: the servicer's system.
        hand: frame of the servicer that holds it.
        energy, stroke: of the springs, J and m: their force falls to zero along the stroke.
    """

    host: str
    hand: str
    energy: float
    stroke: float

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = SPACEARM_TERMS) -> ChangeResult:
        if TARGET in world.systems:
            return self._open(world, states, terms)
        joined, state = world.own_robot(self.host), states[self.host]
        # As they were caught, less the propellant that has gone since.
        servicer, target = next(each.robots for each in world.attachments if each.guest == TARGET)
        # The servicer's own joints among those of the joined robot.
        order = [joined.joint_index(name) for name in servicer.joint_names]
        velocity = np.concatenate([state.velocity[:6], state.rates[order]])
        rest = State(state.position, state.quaternion, state.joints[order], velocity)
        origin, rotation = terms.frame_pose(joined, state, BODY)
        # Rows of both vectors times the rotation matrix: from world axes into the target's own.
        twist = (terms.jacobian(joined, state, BODY) @ state.velocity).reshape(2, 3) @ rotation
        away = State(origin, quaternion_from_rotation(rotation), np.zeros(0), twist.ravel())
        springs = self._springs(terms.frame_pose(joined, state, self.hand), terms.frame_pose(target, away, GRASP))
        locked = tuple(f"{self.host}/{name}" for name in world.locked)
        after = World({self.host: servicer, TARGET: target}, locked).with_lasting([*world.elements, springs])
        return ChangeResult(after, {self.host: rest, TARGET: away}, f"{TARGET} let go")

    def _open(self, world: World, states: Mapping[str, State], terms: Terms) -> ChangeResult:
        """The same of a target that was a system of its own in the hand."""
        springs = self._springs(
            terms.frame_pose(world.own_robot(self.host), states[self.host], self.hand),
            terms.frame_pose(world.own_robot(TARGET), states[TARGET], GRASP),
        )
        kept = [element for element in world.elements if not isinstance(element, SystemLoop)]
        return ChangeResult(world.replace(elements=(*kept, springs)), states, f"{TARGET} let go")

    def _springs(self, hand: tuple[Array, Array], grasp: tuple[Array, Array]) -> Bushing:
        """Between hand and grasp at these places with these axes."""
        (place, axes), (end, facing) = hand, grasp
        # Rest of the spring: the present pose of the grasp in the hand, moved out by the stroke along z. Force and
        # energy at release follow: k stroke and k stroke^2 / 2.
        slack = Pose(axes.T @ facing, axes.T @ (end - place) + np.array([0.0, 0.0, self.stroke]))
        stiff = np.array([0.0, 0.0, 2.0 * self.energy / self.stroke**2, 0.0, 0.0, 0.0])
        return Bushing(f"{self.host}/{self.hand}", f"{TARGET}/{GRASP}", stiff, rest=slack, name=SPRINGS)
