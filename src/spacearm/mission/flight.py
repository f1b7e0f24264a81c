"""A mission as it is flown: what its stages share, what they use up, and how each one ends.

A mission is one run whose phases are chosen while it goes on: every stage is a generator that yields phases and changes
and reads the state that they led to. ``Flight`` holds what passes from stage to stage (what was caught, what was
estimated of it, propellant), ``Use`` accumulates over the samples of a stage how much of each hardware limit it took,
and ``Outcome`` makes margins of this: 1 is unused, 0 is at the limit, below 0 is beyond. A stage
succeeds where the margin of its binding limit is not negative. Limits of range and rate do not change the motion: a
joint beyond its range goes on, and the margin is negative.

World axes unless a name says base axes; SI units. Peaks are those of samples, not of the continuous motion. Laws know
the target as assumed or as estimated (``load``), never as it is.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.control import CommandLog, propellant
from spacearm.engine import mechanics_of
from spacearm.mission.clearance import apart, held
from spacearm.mission.encounter import BODY, GRASP, TARGET, Encounter, smooth
from spacearm.mission.laws import Crew, Wheels
from spacearm.model import Pose, Robot, edit
from spacearm.model.layout import BASE_POSE, Layout
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.result import Limit
from spacearm.simulate import Here, Lock, Phase, State, World, spline
from spacearm.simulate.bodies import centred, frame_pose, move
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.run.chain import Item
from spacearm.study import Noted
from spacearm.study.limits import range_use
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission.scenario import MissionFile
    from spacearm.mission.stages import StageTable
    from spacearm.mission.weigh import Weighed, Weighing


#: How a limit is called that waiting may mend.
UNSETTLED = "not settled"


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a stage ended."""

    stage: str
    begin: float  # s
    end: float
    limits: Sequence[Limit]
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def binding(self) -> Limit:
        """The limit with the least margin; where one is exceeded, that it has not settled is but what follows."""
        causes = [limit for limit in self.limits if limit.margin < 0.0 and limit.name != UNSETTLED]
        return min(causes or self.limits, key=lambda limit: limit.margin, default=Limit("none", 0.0, 1.0))

    @property
    def margin(self) -> float:
        return self.binding.margin

    @property
    def success(self) -> bool:
        return self.margin >= 0.0

    def rows(self) -> dict[str, Any]:
        """By name: success, margins, then the stage's own numbers."""
        each = {limit.name.replace(" ", "_"): Noted(limit.margin, limit.words) for limit in self.limits}
        return {
            "success": Noted(int(self.success), "" if self.success else self.binding.words),
            "time": Noted(self.end - self.begin, "how long it lasted", "s"),
            "margin": {"": Noted(self.margin, f"least; {self.binding.words}"), **each},
            "binding": self.binding.name,
            **self.numbers,
        }


def _most(name: str, used: Array, limits: Array, parts: Sequence[str], units: Sequence[str]) -> list[Limit]:
    """The entry that is nearest to its limit; nothing where none has one."""
    bounded = np.isfinite(limits) & (limits > 0.0)
    if not np.any(bounded):
        return []
    # The inner where keeps the division clean for limits that are infinite or zero.
    share = np.where(bounded, used / np.where(bounded, limits, 1.0), -np.inf)
    k = int(np.argmax(share))
    return [Limit(name, float(used[k]), float(limits[k]), units[k], parts[k])]


class Use:
    """What a stage takes of the servicer's limits, phase by phase."""

    def __init__(self, crew: Crew) -> None:
        self.crew, n = crew, crew.robot.n
        self.lowest, self.highest = np.full(n, np.inf), np.full(n, -np.inf)
        self.rates, self.base_rate, self.propellant = np.zeros(n), 0.0, 0.0
        self.torques: dict[str, float] = {}  # least margin to the effort, N m
        self.near: list[Limit] = []  # how near the target came

    def add(self, here: Here) -> None:
        """The phase before."""
        _, states = here.samples
        rows, at = states[self.crew.robot.name], Layout(self.crew.robot.n)
        self.lowest = np.minimum(self.lowest, rows[:, at.joints].min(axis=0))
        self.highest = np.maximum(self.highest, rows[:, at.joints].max(axis=0))
        self.rates = np.maximum(self.rates, np.abs(rows[:, at.rates]).max(axis=0))
        self.base_rate = max(self.base_rate, float(np.linalg.norm(rows[:, at.angular_velocity], axis=1).max()))
        for log in here.commands:
            self._command(log)
        commanded = {name for log in here.commands for name in log.names}
        others = [name for name in self.crew.arm if name not in commanded]  # on given paths, or braked
        if others:
            # Joints on given paths have no command to read: their drive torque is the constraint force of the run.
            given = np.abs(here.drives[self.crew.robot.name][:, 6:]).max(axis=0, initial=0.0)
            for name, k in zip(others, self.crew.index(others), strict=True):
                room = self.crew.robot.joint(name).limits.effort - float(given[k])
                self.torques[name] = min(self.torques.get(name, np.inf), room)

    def _command(self, log: CommandLog) -> None:
        self.propellant += propellant(self.crew.robot, log)
        for name, margins in zip(log.limited, log.margins.T, strict=True):
            self.torques[name] = min(self.torques.get(name, np.inf), float(margins.min(initial=np.inf)))

    def arm(self) -> list[Limit]:
        """Torque asked for, rate and range of the arm's joints, and how near the target came to the rest."""
        crew, robot = self.crew, self.crew.robot
        bounds = [robot.joint(name).limits for name in crew.arm]
        effort = np.array([bound.effort for bound in bounds])
        asked = np.array(
            [bound.effort - self.torques.get(n, np.inf) for n, bound in zip(crew.arm, bounds, strict=True)]
        )
        units = [robot.joint(name).unit for name in crew.arm]
        drives = ["N m" if unit == "rad" else "N" for unit in units]
        found = _most("torque limit", np.nan_to_num(asked, nan=0.0, neginf=0.0), effort, crew.arm, drives)
        speeds = np.array([bound.velocity for bound in bounds])
        rates = [f"{unit}/s" for unit in units]
        found += _most("rate limit", self.rates[crew.index(crew.arm)], speeds, crew.arm, rates)
        return [*found, *self._travel("range limit", crew.arm), *self.near]

    def soft(self) -> list[Limit]:
        """Travel of the soft joints."""
        return self._travel("travel exceeded", self.crew.soft)

    def _travel(self, name: str, joints: Sequence[str]) -> list[Limit]:
        index, each = self.crew.index(joints), [self.crew.robot.joint(joint) for joint in joints]
        low, high = (np.array([getattr(joint.limits, side) for joint in each]) for side in ("lower", "upper"))
        used, room = range_use(low, high, self.lowest[index], self.highest[index])
        return _most(name, used, room, joints, [joint.unit for joint in each])

    def wheels(self, still_to_take: Array | float = 0.0) -> list[Limit]:
        """Speeds of the wheels, with a momentum (3,), base axes, that they would still have to take."""
        crew = self.crew
        # Least-norm share of each wheel, as the wheels' law distributes torque.
        more = np.linalg.pinv(crew.axes) @ np.broadcast_to(still_to_take, 3) if crew.wheels else np.zeros(0)
        speeds = np.array([crew.robot.joint(name).limits.velocity for name in crew.wheels])
        # Sizes are added: the remaining momentum may come on top of the fastest speed so far. On the safe side.
        used = self.rates[crew.index(crew.wheels)] + np.abs(more) / crew.rotors
        return _most("wheel saturated", used, speeds, crew.wheels, ["rad/s"] * len(speeds))


class Flight:
    """What the stages of a mission share while it is flown."""

    def __init__(self, file: MissionFile, crew: Crew, servicer: State, met: Encounter) -> None:
        self.file, self.crew, self.met = file, crew, met
        self.strategy, self.table = file.strategy, file.target
        self.start = servicer
        self.outcomes: list[Outcome] = []
        self.weighing: Weighing | None = None
        self.weighed: Weighed | None = None  # what was found of the target
        self.spent = 0.0  # kg of propellant
        self.caught: Pose | None = None  # target's frame in the hand's
        self._believed: tuple[Pose, Robot] | None = None
        self.verdict = ""
        self.here: Here

    @property
    def name(self) -> str:
        return self.crew.robot.name

    @property
    def state(self) -> State:
        """The servicer's."""
        return self.here.states[self.name]

    def fly(self, here: Here) -> Iterator[Item]:
        """Stage after stage; after one that fails, and at the end, it is decided what is done."""
        self.here, failed, waited = here, None, False
        for stage in self.file.stages():
            failed = yield from self._stage(stage)
            decide = self.file.decide
            if decide and self.caught and failed and self._verdict(failed, waited) == "wait":
                waited = True
                # The stage is flown once more from where it is; only the second attempt counts.
                self.outcomes.pop()
                failed = yield from self._stage(stage.model_copy(update={"duration": decide.wait}))
            if failed is not None:
                break
        if self.file.decide is None or self.caught is None:
            return
        begin = here.time
        # A failed stage decides by itself; the decision's own limits are looked at only where all stages held theirs.
        limits, numbers = self.file.decide.judge(self) if failed is None else ([failed.binding], {})
        decided = Outcome("decide", begin, begin, limits, numbers)
        failed = failed if failed is not None or decided.success else decided
        self.verdict = self._verdict(failed, waited=True)
        numbers["verdict"] = Noted(self.verdict, "" if failed is None else f"{failed.stage}: {failed.binding.words}")
        self.outcomes.append(decided)
        last = {"go": self.file.stow, "eject": self.file.eject}.get(self.verdict)
        if last is not None:
            yield from self._stage(last)

    def _verdict(self, failed: Outcome | None, waited: bool) -> str:
        decide = self.file.decide
        return "abort" if decide is None else decide.verdict(failed, waited, self.file.eject is not None)

    def _stage(self, stage: StageTable) -> Generator[Item, None, Outcome | None]:
        """Fly a stage; its outcome where it failed."""
        begin = self.here.time
        limits, numbers = yield from stage.fly(self)
        self.outcomes.append(Outcome(stage.called, begin, self.here.time, limits, numbers))
        return None if self.outcomes[-1].success else self.outcomes[-1]

    def sampled(self) -> Array:
        """Times of samples from now on, s, after a stage that had its own."""
        return np.arange(0.0, self.file.longest, self.file.sample)

    def phase(self, use: Use, phase: Phase) -> Iterator[Item]:
        """A phase, and what it takes."""
        yield phase
        use.add(self.here)
        use.near = sorted([*use.near, *self.clearance()], key=lambda limit: limit.margin)[:1]

    # -- wheels and loads -------------------------------------------------------------------------------------------

    @property
    def load(self) -> Array:
        """Ten inertia parameters that the gripper is believed to have, with what it holds."""
        if self.weighed is not None:
            return self.weighed.load
        robot = self.crew.robot if self.caught is None else self.believed()
        return np.asarray(robot.inertia_parameters[robot.body_index(self.crew.gripper)])

    def believed(self) -> Robot:
        """The servicer with the target as it is believed to be before it is weighed."""
        assert self.caught is not None
        if self._believed is None or self._believed[0] is not self.caught:
            self._believed = self.caught, edit.attach(self.crew.robot, self.crew.hand, self.table.guess, self.caught)
        return self._believed[1]

    def wheels(self, before_touch: bool = False) -> Wheels:
        """What the wheels do from the approach until all has settled, by the strategy."""
        pick, met = self.file.wheels, self.met
        if not self.crew.wheels:
            return Wheels()
        if self.strategy == "coordinated":
            return Wheels(pick.attitude, pick.rate, aim=tuple(self.start.quaternion))
        if self.strategy == "biased" and before_touch:
            # Taken up before the touch on a smooth path: the base then rotates against the wheels slowly, and the arm's
            # law sees no step.
            rise = smooth((met.times - met.meeting + pick.preload) / pick.preload)
            paths = [spline(met.times, size * rise).shifted(-self.here.time) for size in self.preload]
            return Wheels(carry=pick.carry, momentum=paths)
        if self.strategy == "biased":
            return Wheels(carry=pick.carry, momentum=self.preload)
        return Wheels()

    @property
    def preload(self) -> tuple[float, ...]:
        """Angular momentum (world axes, N m s) about the common mass centre that the target will bring."""
        return tuple(map(float, brought(self.crew.robot, self.start, self.table.guess, self.met.start)))

    @property
    def loose(self) -> bool:
        """Whether the soft joints' clutch is open."""
        world = self.here.world
        return any(world.label(self.name, name) not in world.locked for name in self.crew.soft)

    def brake(self, joints: Sequence[str] | None = None) -> Iterator[Item]:
        """Lock these joints, or all but the wheels, as far as they are not locked yet."""
        world, names = self.here.world, joints or [*self.crew.arm, *self.crew.soft]
        loose = [name for name in names if world.label(self.name, name) not in world.locked]
        if loose:
            yield Lock(loose)

    def carried(self) -> State:
        """The target in the hand, as a body of its own."""
        assert self.caught is not None
        robot, state = self.here.world.own_robot(self.name), self.state
        mechanics = mechanics_of(robot)
        origin, turn = mechanics.frame_pose(BODY, state.joints, base=state.pose)
        twist = mechanics.jacobian(BODY, state.joints, base=state.pose) @ state.velocity
        return State(
            origin,
            quaternion_from_rotation(turn),
            np.zeros(0),
            np.concatenate([turn.T @ twist[:3], turn.T @ twist[3:]]),
        )

    def hand(self) -> tuple[Array, Array, Array]:
        """Position and quaternion of the hand, and velocity of the mass centre of all: world."""
        robot, state = self.here.world.own_robot(self.name), self.state
        numbers = robot_parameters(robot)
        rotation, origin = frame_pose(robot, move(robot, state.vector[None]), self.crew.hand)
        seen = centred(robot, state.vector[None], numbers["inertia"], numbers["rotor"])
        return origin[0], quaternion_from_rotation(rotation[0]), seen.velocity[0]

    # -- what is seen -----------------------------------------------------------------------------------------------

    def momentum(self) -> Array:
        """Angular momentum (3,) of the servicer, and what it holds, about its mass centre, base axes, N m s."""
        robot, state = self.here.world.own_robot(self.name), self.state
        numbers = robot_parameters(robot)
        seen = centred(robot, state.vector[None], numbers["inertia"], numbers["rotor"])
        return np.asarray(rotation_matrices(state.quaternion).T @ seen.sums.angular[0])

    def gap(self) -> tuple[float, float, float]:
        """Distance (m), angle of the axes (rad) and relative speed (m/s) of hand and grasp, now."""
        world, states = self.here.world, self.here.states
        found = []
        for system, frame in ((self.name, self.crew.hand), (TARGET, GRASP)):
            robot, vector = world.robot(system), states[system].vector[None]
            bodies = move(robot, vector)
            rotation, origin = frame_pose(robot, bodies, frame)
            k = robot.body_index(robot.frame(frame).body)
            velocity = bodies.velocity[0, k] + np.cross(bodies.angular_velocity[0, k], origin[0] - bodies.origin[0, k])
            found.append((origin[0], rotation[0], velocity))
        (p, r, v), (q, s, w) = found
        # Hand and grasp face each other: their z axes are opposed when aligned.
        cosine = float(np.clip(-r[:, 2] @ s[:, 2], -1.0, 1.0))
        return float(np.linalg.norm(q - p)), float(np.arccos(cosine)), float(np.linalg.norm(w - v))

    def clearance(self) -> list[Limit]:
        """Least distance of target and servicer in the phase before, against what is wanted."""
        wanted = self.file.clearance
        if wanted is None:
            return []
        far, parts = self.apart()
        _, k = np.unravel_index(int(np.argmin(far)), far.shape)
        return [Limit("clearance lost", float(far.min()), wanted, "m", f"{TARGET} and {parts[k]}", least=True)]

    def apart(self) -> tuple[Array, list[str]]:
        """Gaps (T, P) of the target and parts of the servicer in the phase before, m, and these parts' names."""
        _, states = self.here.samples
        rows = states[self.name]
        if TARGET in states:
            target = states[TARGET][:, :BASE_POSE]
        else:
            assert self.caught is not None
            target = held(self.crew, self.caught, rows)
        return apart(self.crew, self.table, self.file.bus_radius, rows, target)

    def catch_pose(self) -> Pose:
        """The target's frame in the hand's, now."""
        world, states = self.here.world, self.here.states
        robot, target = world.robot(self.name), states[TARGET]
        rotation, origin = frame_pose(robot, move(robot, states[self.name].vector[None]), self.crew.hand)
        turn = rotation[0].T
        return Pose(turn @ rotation_matrices(target.quaternion), turn @ (target.position - origin[0]))


def brought(robot: Robot, state: State, guest: Robot, moving: State) -> Array:
    """Angular momentum (3,) of both about their common mass centre, world axes, N m s."""
    seen = []
    for each, own in ((robot, state), (guest, moving)):
        numbers = robot_parameters(each)
        seen.append(centred(each, own.vector[None], numbers["inertia"], numbers["rotor"]))
    a, b = seen
    # Koenig: own angular momenta, plus that of the relative motion with the reduced mass.
    reduced = a.mass * b.mass / (a.mass + b.mass)
    way = moving.position + b.centre[0] - state.position - a.centre[0]
    apart = np.cross(way, b.velocity[0] - a.velocity[0])
    return np.asarray(a.sums.angular[0] + b.sums.angular[0] + reduced * apart)


def worlds(crew: Crew, target: Robot) -> World:
    """Servicer and target, the soft joints held by their clutch, and joints that belong to nobody locked."""
    name, used = crew.robot.name, (*crew.arm, *crew.wheels)
    still = tuple(f"{name}/{joint}" for joint in crew.robot.joint_names if joint not in used)
    return World({name: crew.robot, TARGET: target}, still)
