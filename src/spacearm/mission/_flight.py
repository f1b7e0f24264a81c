"""Flight of a mission: data shared by its stages, their use of limits, and the outcome of each stage.

A mission is one run whose phases are chosen while it goes on: every stage is a generator that yields phases and changes
and reads the state that they led to. ``MissionFlight`` holds what passes from stage to stage (what was caught, what was
estimated of it, propellant), ``LimitUsage`` has how much of each limit a stage took, and ``StageOutcome`` makes margins
of this.

A stage ends where its first limit breaks. When and how far a limit breaks is known once the phase has been flown; so
the mission is then flown again (``breaks``) and the phase ends at that time. The limit keeps what the whole phase would
have used: the margin shows how much more would have been needed.

World axes unless a name says base axes; SI units. Laws know the target as assumed or as estimated (``load``), never as
it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.control import Law
from spacearm.mission._base_path import TargetMotion, plan_base_path
from spacearm.mission._clearance import compute_gaps, target_poses
from spacearm.mission._encounter import (
    BODY,
    GRASP,
    TARGET,
    Encounter,
    HandPlan,
    HandPoseSignals,
    plan_hand_path,
    plan_hand_with_base,
    rigid_state,
    smooth_step,
)
from spacearm.mission._failures import PartFailures
from spacearm.mission._laws import Actuators, WheelReference
from spacearm.mission._limits import Break, EndCondition, LimitBroken, LimitUsage, limit_events
from spacearm.mission._loop_check import CoarseLoop, check_loop
from spacearm.mission._motion import (
    angular_momentum,
    combined_angular_momentum,
    compute_frame_motion,
    is_held_as_system,
)
from spacearm.mission._navigation import TargetNavigation
from spacearm.mission._nearest import States, find_least, limit_least
from spacearm.mission._outcomes import StageOutcome
from spacearm.mission._review import BudgetEntry
from spacearm.mission._station import BaseControl, BaseReference
from spacearm.mission._zones import Zone, judge_zones
from spacearm.model import Pose, Robot, edit
from spacearm.model.layout import BASE_POSE
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.result import Limit
from spacearm.simulate import Lock, Phase, Release, RunContext, State, spline
from spacearm.simulate.bodies import centre_motion, cross, evaluate_bodies, frame_pose, inertia_about
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.run.chain import Item
from spacearm.simulate.run.touches import TouchRecord
from spacearm.study.findings import NotedValue
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission._finish import DecideTable
    from spacearm.mission._identify_target import IdentifiedLoad, LoadIdentification
    from spacearm.mission._stages import StageTable
    from spacearm.mission.scenario import MissionFile


#: s, of a phase whose limit breaks at its very start.
SHORTEST = 1e-6


class MissionFlight:
    """Data that the stages of a mission share while it is flown."""

    def __init__(
        self,
        file: MissionFile,
        actuators: Actuators,
        servicer: State,
        met: Encounter,
        breaks: Sequence[Break] = (),
    ) -> None:
        self.breaks = {each.phase: each for each in breaks}
        self.found_break: Break | None = None  # one that is not among them
        self._starts: list[float] = []  # of the phases, s
        self.file, self.actuators, self.met = file, actuators, met
        self.strategy, self.table = file.strategy, file.target
        #: The target's motion before the catch, as it is known: the truth without a camera.
        self.seen = met
        self._path: HandPoseSignals | None = None
        self.approach_period: float | None = None  # s, of the law of the approach, once it has been chosen
        self.navigation: TargetNavigation | None = None
        if file.navigation.camera is not None:
            self.navigation = TargetNavigation(
                file.navigation.camera, file.target, met, file.navigation.seed, file.orbit
            )
            self.seen = self.navigation.predict(0.0)
        self.sensors = file.navigation.sensors()
        self.failures = PartFailures(file.failure, actuators)
        self.start = servicer
        #: When the approach of the hand begins, s, and the servicer then.
        self.begin, self.begin_state = file.begin, servicer
        self.zone: Zone = ""
        self._base_path: HandPoseSignals | None = None
        self.outcomes: list[StageOutcome] = []
        self.budget: list[BudgetEntry] = []  # at the end of each stage
        self.identification: LoadIdentification | None = None
        self.identified: IdentifiedLoad | None = None  # what was found of the target
        self.spent = 0.0  # kg of propellant
        self.caught: Pose | None = None  # target's frame in the hand's
        self.held: Pose | None = None  # the same, also after it was let go
        self.firings: list[tuple[str, float, float, float]] = []  # of the identification: thruster, s, s, level
        self._assumed_robot: tuple[Pose, Robot] | None = None
        self._momentum: tuple[State, Array] | None = None  # with the state that it is of
        self.verdict = ""
        self.context: RunContext

    @property
    def name(self) -> str:
        return self.actuators.robot.name

    @property
    def state(self) -> State:
        """The servicer's state."""
        return self.context.states[self.name]

    def fly(self, context: RunContext) -> Iterator[Item]:
        """Stage after stage; after one that fails, and at the end, it is decided what is done."""
        self.context = context
        try:
            yield from self._fly()
        except LimitBroken:
            assert self.found_break is not None  # it is flown again

    def _fly(self) -> Iterator[Item]:
        failed, waited = None, False
        for stage in self.file.stages():
            failed = yield from self._stage(stage)
            decide = self.file.decide
            if decide and self.caught and failed and self._verdict(failed, waited) == "wait":
                waited = True
                # The stage is flown once more from where it is; only the second attempt counts.
                self.outcomes.pop()
                self.budget.pop()
                failed = yield from self._stage(stage.model_copy(update={"duration": decide.wait}))
            if self.is_aborted or (failed and not (self.file.continue_after_limit and self._can_go_on(stage))):
                break
        if self.caught is None and self.file.retreat is not None:
            self.verdict = "abort"
            yield from self._stage(self.file.retreat)
            return
        if self.file.decide is None or self.caught is None:
            return
        failed = next((each for each in self.outcomes if not each.success), None)
        begin = self.context.time
        # A failed stage decides by itself; the decision's own limits are looked at only where all stages held theirs.
        limits, numbers = self.file.decide.judge(self) if failed is None else ([failed.binding_limit], {})
        decided = StageOutcome("decide", begin, begin, limits, numbers)
        failed = failed if failed is not None or decided.success else decided
        self.verdict = self._verdict(failed, waited=True)
        numbers["verdict"] = NotedValue(
            self.verdict, "" if failed is None else f"{failed.stage}: {failed.binding_limit.words}"
        )
        self.outcomes.append(decided)
        last = {"go": self.file.stow, "eject": self.file.eject}.get(self.verdict)
        if last is not None:
            yield from self._stage(last)
        if self.verdict == "go" and last is not None:
            self._judge_policy(self.file.decide)

    def _judge_policy(self, decide: DecideTable) -> None:
        """The margins of the last stage, which is flown after the decision, against the policy."""
        decide.check_names(self.outcomes)
        last = self.outcomes[-1]
        short = [limit for limit in decide.judge_margins([last]) if limit.is_broken]
        if short:
            self.outcomes[-1] = replace(last, limits=[*last.limits, replace(short[0], time=last.end)])

    @property
    def abort_time(self) -> float:
        """Time, s, at which the approach is given up; infinite without an abort."""
        retreat = self.file.retreat
        return np.inf if retreat is None or retreat.time is None else retreat.time

    @property
    def is_aborted(self) -> bool:
        """Whether the approach has been given up; after the catch it is too late."""
        return self.caught is None and self.context.time > self.abort_time - SHORTEST

    def _verdict(self, failed: StageOutcome | None, waited: bool) -> str:
        decide = self.file.decide
        return "abort" if decide is None else decide.verdict(failed, waited, self.file.eject is not None)

    def _stage(self, stage: StageTable) -> Generator[Item, None, StageOutcome | None]:
        """Fly a stage; its outcome where it failed."""
        begin, usage = self.context.time, LimitUsage(self.actuators, self.file.limits, self.spent)
        numbers: dict[str, Any] = {}
        try:
            own, numbers = yield from stage.fly(self, usage)
            usage.keep(limit if limit.time is not None else replace(limit, time=self.context.time) for limit in own)
        except LimitBroken:
            if self.found_break is not None:
                raise
        self.spent += usage.propellant
        self.outcomes.append(StageOutcome(stage.called, begin, self.context.time, usage.limits, numbers))
        total = float(np.linalg.norm(self.momentum()))
        stored = float(np.linalg.norm(self.actuators.wheel_momentum(self.state.rates)))
        self.budget.append(BudgetEntry(stage.called, self.context.time, total, stored, self.spent))
        return None if self.outcomes[-1].success else self.outcomes[-1]

    def sample_times(self) -> Array:
        """Times of samples from now on, s, after a stage that had its own."""
        return np.arange(0.0, self.file.longest, self.file.sample)

    def phase(
        self,
        usage: LimitUsage,
        phase: Phase,
        until: EndCondition | None = None,
        known: Sequence[Limit] = (),
        *,
        is_checked: bool = False,
    ) -> Iterator[Item]:
        """A phase up to its end or to this condition, and what it takes; :class:`LimitBroken` where that is too much.

        ``known`` are limits whose use is known before the phase is flown. The period of its law is chosen where that
        is open, unless its loop ``is_checked``.
        """
        # Phases are numbered in the order of flight: the same numbers when the mission is flown again.
        number, begin, goes_on = len(self._starts), self.context.time, self.file.continue_after_limit
        self._starts.append(begin)
        rate, guest = self.file.limits.si_value("base_rate"), None
        if TARGET in self.context.world.systems:
            guest = self.table.stand_in(None if until is None else until.grasp)
        events = limit_events(self.actuators, None if rate is None else float(rate), guest, until, goes_on)
        # Before it is flown: an unstable loop is then reported as the cause, not as a list of broken limits.
        phase, loops = self._with_sensors(phase), list[Limit]()
        if not is_checked:
            phase, loops = check_loop(self.actuators, self.context.world, self.context.states, phase, begin)
        # A loop that has lost much of its damping is stable: the cause of broken limits only where there are any.
        coarse = [limit for limit in loops if isinstance(limit, CoarseLoop)]
        unstable = [limit for limit in loops if limit not in coarse]
        # After the check: a part that fails is not a fault of the loop.
        phase = self.failures.fail_laws(phase, begin)
        end = self.breaks.get(number)
        lasts = phase.duration if end is None else max(end.time - begin, SHORTEST)
        yield replace(phase, duration=lasts, event_function=events, limits="ignore")
        near = [*self.clearance(), *judge_zones(self)]
        broken = usage.add(self.context, [*known, *unstable, *near])
        if not unstable and any(limit not in known for limit in broken):
            broken = [*usage.keep(coarse), *broken]
        if end is not None:
            usage.found |= {limit.name: limit for limit in end.limits}
            raise LimitBroken
        if broken and not goes_on:
            self.found_break = Break.first_of(number, broken)
            raise LimitBroken

    def _with_sensors(self, phase: Phase) -> Phase:
        """The phase with laws that read the servicer's sensors."""
        if not self.sensors:
            return phase
        laws = (phase.laws,) if isinstance(phase.laws, Law) else phase.laws
        seed = self.file.navigation.seed
        return replace(phase, laws=tuple(law.replace(sensors=self.sensors, seed=seed) for law in laws))

    def look(self) -> None:
        """What is known of the target's motion, from all readings so far."""
        if self.navigation is not None:
            self.seen, self._path, self._base_path = self.navigation.predict(self.context.time), None, None

    def plan_path(self, plan: HandPlan) -> HandPoseSignals:
        """The path of the hand to the grasp, from time zero on, as the target is known to move."""
        if self._path is None:
            rendezvous = self.file.rendezvous
            planner = plan_hand_path if rendezvous is None or not rendezvous.keep else plan_hand_with_base
            self._path = planner(self.seen, self.actuators, self.begin_state, plan, self.begin)
        return self._path

    def base_control(self) -> BaseControl:
        """What moves the base."""
        assert self.file.rendezvous is not None
        return self.file.rendezvous.control(self.actuators, self.start)

    def base_reference(self) -> BaseReference | None:
        """The path of the base under thrusters before the touch, from now on; None where it floats."""
        rendezvous = self.file.rendezvous
        if rendezvous is None or not (rendezvous.keep or self.context.time < self.begin - SHORTEST):
            return None
        if self._base_path is None:
            com = self.table.assumed_robot.bodies[0].inertia.com
            target = TargetMotion.from_encounter(self.seen, self.table.grasp.pose(), com)
            self._base_path = plan_base_path(target, rendezvous.hold_points(self), self.start)
        path = self._base_path.shift_start(self.context.time)
        return BaseReference(self.base_control(), path, rendezvous.gains, self.file.orbit or 0.0)

    def judge_contacts(self, touches: Sequence[TouchRecord]) -> None:
        """Forces of contacts, which are known once all has been flown, against their limit."""
        most = self.file.limits.contact_force
        if most is None:
            return
        for touch in touches:
            limit = Limit("contact force", touch.peak_force, most, "N", touch.contact, time=touch.start)
            # Contacts are known after the run: the touch belongs to the stage during which it began.
            k = next(k for k, each in enumerate(self.outcomes) if touch.start <= each.end)
            outcome = self.outcomes[k]
            if limit.is_broken and not self.breaks and not self.file.continue_after_limit:
                number = int(np.searchsorted(self._starts, touch.start, side="right")) - 1
                self.found_break = Break(number, touch.start, (limit,))
                return
            if limit.name not in [each.name for each in outcome.limits]:
                self.outcomes[k] = replace(outcome, limits=[*outcome.limits, limit])

    def _can_go_on(self, stage: StageTable) -> bool:
        """Whether what follows a stage that has failed can be flown."""
        return self.caught is not None or stage in (self.file.rendezvous, self.file.approach)

    # -- wheels and loads -------------------------------------------------------------------------------------------

    @property
    def load(self) -> Array:
        """Ten inertia parameters of the gripper with what it holds, as identified, or as assumed before that."""
        if self.identified is not None:
            return self.identified.load
        robot = self.actuators.robot if self.caught is None else self.assumed_robot()
        return np.asarray(robot.inertia_parameters[robot.body_index(self.actuators.gripper)])

    def central_inertia(self) -> Array:
        """Inertia (3, 3) of all about the mass centre, as it is assumed now, world axes, kg m2."""
        robot, numbers = self.actuators.robot, robot_parameters(self.actuators.robot)
        inertia = numbers["inertia"].reshape(-1, 10).copy()
        inertia[robot.body_index(self.actuators.gripper)] = self.load
        bodies = evaluate_bodies(robot, self.state.vector[None])
        mass, moment, tensor = inertia_about(robot, bodies, inertia, numbers["rotor"])
        centre = moment[0] / mass
        # Steiner: from the world's origin to the mass centre.
        return np.asarray(tensor[0] - mass * (centre @ centre * np.eye(3) - np.outer(centre, centre)))

    def largest_moment(self) -> float:
        """Largest principal moment of inertia of all about the mass centre, as it is assumed now, kg m2."""
        return float(np.linalg.eigvalsh(self.central_inertia())[-1])

    def momentum_limits(self) -> list[Limit]:
        """Limit of the remaining momentum, of bodies and wheels together, by what the wheels can hold."""
        actuators = self.actuators
        # If all of it went into the wheels: what each would have to hold.
        shares = np.abs(actuators.wheel_speeds(self.momentum())) * actuators.rotors
        left = [
            Limit("momentum left", float(share), float(most), "N m s", name)
            for name, share, most in zip(actuators.wheels, shares, actuators.wheel_capacities, strict=True)
            if 0.0 < most < np.inf
        ]
        return sorted(left, key=lambda limit: limit.margin)[:1]

    def assumed_robot(self) -> Robot:
        """The servicer with the target as it is assumed to be before its inertia is identified."""
        assert self.caught is not None
        if self.table.assumed is None and TARGET not in self.context.world.systems:
            return self.context.world.own_robot(self.name)  # joined at the catch
        # Cached by the very pose of the catch: assembling a robot compiles new programs.
        if self._assumed_robot is None or self._assumed_robot[0] is not self.caught:
            self._assumed_robot = (
                self.caught,
                edit.attach(self.actuators.robot, self.actuators.hand, self.table.assumed_robot, self.caught),
            )
        return self._assumed_robot[1]

    def wheels(self, before_touch: bool = False) -> WheelReference:
        """Reference of the wheels from the approach until all has settled, by the strategy."""
        pick, met = self.file.wheels, self.seen
        if not self.actuators.wheels:
            return WheelReference()
        if self.strategy == "coordinated":
            rate = pick.choose_rate(0.0 if self.caught is None else self.largest_moment())
            return WheelReference(pick.attitude, rate, aim=tuple(self.start.quaternion))
        if self.strategy == "biased" and before_touch:
            # Taken up before the touch on a smooth path: the base then rotates against the wheels slowly, and the arm's
            # law sees no step.
            rise = smooth_step((met.times - met.meeting + pick.preload) / pick.preload)
            paths = [spline(met.times, size * rise).shift(-self.context.time) for size in self.preload]
            return WheelReference(carry=pick.momentum_gain, momentum=paths)
        if self.strategy == "biased":
            return WheelReference(carry=pick.momentum_gain, momentum=self.preload)
        return WheelReference()

    @property
    def preload(self) -> tuple[float, ...]:
        """Angular momentum (world axes, N m s) about the common mass centre that the target will bring."""
        robot, target = self.actuators.robot, rigid_state(self.seen.start)
        rows = self.start.vector[None], target.vector[None]
        return tuple(map(float, combined_angular_momentum(robot, rows[0], self.table.assumed_robot, rows[1])[0]))

    @property
    def is_clutch_open(self) -> bool:
        """Whether the soft joints' clutch is open."""
        world = self.context.world
        return any(world.label(self.name, name) not in world.locked for name in self.actuators.soft)

    def brake(self, joints: Sequence[str] | None = None) -> Iterator[Item]:
        """Lock these joints, or all but the wheels, as far as they are not locked yet."""
        world, names = self.context.world, joints or [*self.actuators.arm, *self.actuators.soft]
        # A change without effect would still add an entry to the ledger.
        loose = [name for name in names if world.label(self.name, name) not in world.locked]
        if loose:
            yield Lock(loose)

    def release(self, joints: Sequence[str]) -> Iterator[Item]:
        """Release these joints, as far as they are locked."""
        world = self.context.world
        held = [label for name in joints if (label := world.label(self.name, name)) in world.locked]
        if held:
            yield Release(held)

    def target_state(self) -> State:
        """The target in the hand, as a body of its own."""
        assert self.caught is not None
        if TARGET in self.context.states:
            return rigid_state(self.context.states[TARGET])
        # By sums over the bodies: programs of the joined robot would be compiled for each pose of the catch.
        origin, rotation, velocity, angular_rate = compute_frame_motion(
            self.context.world.own_robot(self.name), self.state, BODY
        )
        return State(
            origin,
            quaternion_from_rotation(rotation),
            np.zeros(0),
            np.concatenate([velocity @ rotation, angular_rate @ rotation]),
        )

    def hand(self) -> tuple[Array, Array, Array]:
        """Position and quaternion of the hand, and velocity of the mass centre of all: world."""
        robot, state = self.context.world.own_robot(self.name), self.state
        numbers = robot_parameters(robot)
        rotation, origin = frame_pose(robot, evaluate_bodies(robot, state.vector[None]), self.actuators.hand)
        seen = centre_motion(robot, state.vector[None], numbers["inertia"], numbers["rotor"])
        velocity = seen.velocity[0]
        if is_held_as_system(self.context.world):
            mass, other = self.table.reference_robot.mass, self._target_velocity(self.context.states[TARGET])
            velocity = (seen.mass * velocity + mass * other) / (seen.mass + mass)
        return origin[0], quaternion_from_rotation(rotation[0]), velocity

    def _target_velocity(self, state: State) -> Array:
        """Velocity (3,) of the target's mass centre in a state of its own, world, m/s."""
        robot = self.table.reference_robot
        numbers = robot_parameters(robot)
        return np.asarray(centre_motion(robot, state.vector[None], numbers["inertia"], numbers["rotor"]).velocity[0])

    # -- what is seen -----------------------------------------------------------------------------------------------

    def momentum(self) -> Array:
        """Angular momentum (3,) of the servicer, and what it holds, about its mass centre, base axes, N m s."""
        robot, state = self.context.world.own_robot(self.name), self.state
        # At the end of a phase it is asked for several times: a state is replaced and never written into.
        if self._momentum is None or self._momentum[0] is not state:
            if is_held_as_system(self.context.world):
                guest, other = self.table.reference_robot, self.context.states[TARGET]
                found = combined_angular_momentum(robot, state.vector[None], guest, other.vector[None])[0]
            else:
                found = angular_momentum(robot, state.vector[None])[0]
            self._momentum = state, np.asarray(rotation_matrices(state.quaternion).T @ found)
        return self._momentum[1]

    def base_rotation(self, since: State | None = None) -> float:
        """Angle of the base's attitude from that of an earlier state, or at time zero, rad."""
        before = (since or self.start).quaternion
        return float(2.0 * np.arccos(min(1.0, abs(float(self.state.quaternion @ before)))))

    def impulse_on_target(self, before: State) -> float:
        """Impulse of the catch on the target, N s, from the target's state before it."""
        if TARGET in self.context.states:
            change = self._target_velocity(self.context.states[TARGET]) - self._target_velocity(before)
            return float(self.table.reference_robot.mass * np.linalg.norm(change))
        centre, now = self.table.mass_centre, self.target_state()
        # Velocity of the mass centre before and after: mass times its change is the impulse.
        moving = [
            rotation_matrices(each.quaternion) @ (each.velocity[:3] + cross(each.velocity[3:6], centre))
            for each in (before, now)
        ]
        return float(self.table.reference_robot.mass * np.linalg.norm(moving[1] - moving[0]))

    def gap(self) -> tuple[float, float, float]:
        """Distance (m), angle of the axes (rad) and relative speed (m/s) of hand and grasp, now."""
        world, states = self.context.world, self.context.states
        (p, r, v, _), (q, s, w, _) = (
            compute_frame_motion(world.robot(system), states[system], frame)
            for system, frame in ((self.name, self.actuators.hand), (TARGET, GRASP))
        )
        # Hand and grasp face each other: their z axes are opposed when aligned.
        cosine = float(np.clip(-r[:, 2] @ s[:, 2], -1.0, 1.0))
        return float(np.linalg.norm(q - p)), float(np.arccos(cosine)), float(np.linalg.norm(w - v))

    def clearance(self) -> list[Limit]:
        """Least distance of target and servicer in the phase before, against what is wanted."""
        wanted = self.file.clearance
        if wanted is None:
            return []
        return [self.judge_gap("clearance lost", wanted)]

    def judge_gap(self, name: str, wanted: float) -> Limit:
        """A limit on the least distance (m) of target and servicer in the phase before, also between samples."""
        parts: list[str] = []

        def measure(states: States) -> Array:
            gaps, parts[:] = self.find_gaps(states)
            return gaps

        times, gaps = find_least(*self.context.samples, measure, wanted)
        _, k = np.unravel_index(int(np.argmin(gaps)), gaps.shape)
        return limit_least(name, gaps.min(axis=1), wanted, "m", f"{TARGET} and {parts[k]}", times)

    def find_gaps(self, states: States) -> tuple[Array, list[str]]:
        """Gaps (T, P) of the target and parts of the servicer in these states, m, and these parts' names."""
        track = states[TARGET] if self.table.has_free_joints else self.target_track(states)
        return compute_gaps(self.actuators, self.table, self.file.bus_radius, states[self.name], track)

    def target_track(self, states: States) -> Array:
        """Positions and quaternions (T, 7) of the target's frame in these states."""
        if TARGET in states:
            # Free: its own track; caught: from the hand that holds it.
            return states[TARGET][:, :BASE_POSE]
        assert self.caught is not None
        return target_poses(self.actuators, self.caught, states[self.name])

    def catch_pose(self) -> Pose:
        """The target's frame in the hand's, now."""
        world, states = self.context.world, self.context.states
        robot, target = world.robot(self.name), states[TARGET]
        rotation, origin = frame_pose(
            robot, evaluate_bodies(robot, states[self.name].vector[None]), self.actuators.hand
        )
        inward = rotation[0].T
        return Pose(inward @ rotation_matrices(target.quaternion), inward @ (target.position - origin[0]))
