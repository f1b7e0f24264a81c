"""The end of a mission: decide what to do, stow the arm with its load, or throw the target off and keep clear of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from spacearm.control import point_to_point
from spacearm.mission import laws
from spacearm.mission.encounter import BODY, GRASP, TARGET
from spacearm.mission.flight import UNSETTLED, Flight, Use
from spacearm.mission.laws import Wheels
from spacearm.mission.stages import Flown, GainKeys, Positive, StageTable
from spacearm.model import Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.model.toml_schema import Duration, Name, Number
from spacearm.result import Limit
from spacearm.simulate import Bushing, Change, Disconnect, Phase, Release, State, World, distance
from spacearm.simulate.changes import OWN, Changed, Terms
from spacearm.study import Noted, key

if TYPE_CHECKING:
    from spacearm.mission.flight import Outcome

Verdict = Literal["go", "wait", "eject", "abort"]
SPRINGS = "springs"


class DecideTable(StageTable):
    """What is done with a target that was caught."""

    called: ClassVar[str] = "decide"

    margin: Positive | None = key(None, "least margin of all stages for a go")
    mass: Positive | None = key(None, "largest mass for a go, kg; what was weighed counts with two standard deviations")
    wait: Duration | None = key(None, "s for which a stage that has not settled is flown once more")

    def judge(self, flight: Flight) -> tuple[list[Limit], dict[str, Any]]:
        """Its own limits, once all stages have been flown."""
        limits = []
        worst = min(flight.outcomes, key=lambda outcome: outcome.margin)
        if self.margin:
            limits.append(Limit("margin too small", worst.margin, self.margin, "", worst.stage, least=True))
        mass = flight.table.guess.mass if flight.weighed is None else flight.weighed.mass
        # Two standard deviations on the heavy side.
        doubt = 0.0 if flight.weighed is None else float(2.0 * flight.weighed.std[0])
        if self.mass is not None:
            limits.append(Limit("too heavy", mass + doubt, self.mass, "kg", TARGET))
        return limits, {"mass": Noted(mass, "believed" if flight.weighed is None else "as weighed", "kg")}

    def verdict(self, failed: Outcome | None, waited: bool, can_eject: bool) -> Verdict:
        """After a stage that failed, or after all of them."""
        if failed is None:
            return "go"
        if failed.binding.name == UNSETTLED and self.wait is not None and not waited:
            return "wait"
        return "eject" if can_eject else "abort"


class StowTable(GainKeys):
    """The arm takes the target to a configuration, with its inertia as it was weighed; wheels steady the base."""

    called: ClassVar[str] = "stow"

    configuration: Name = key("stowed", "of the servicer")
    duration: Duration = key(40.0, "s")
    hold: Duration = key(10.0, "s in which it comes to rest there")
    error: Positive | None = key(None, "largest error of a joint at the end, rad; 0.5 deg where left out")
    error_deg: Positive | None = None
    steady: Number = key(60.0, "of the wheels' law, N m s/rad")

    def fly(self, flight: Flight) -> Flown:
        crew, use, name = flight.crew, Use(flight.crew), flight.name
        index = crew.index(crew.arm)
        goal = np.asarray(crew.robot.configuration(self.configuration))[index]
        yield from flight.brake()
        yield Release([flight.here.world.label(name, joint) for joint in crew.arm])
        paths, _ = point_to_point(flight.state.joints[index], goal, self.duration)
        law = laws.hold(crew, paths, load=flight.load, gains=self.gains, wheels=Wheels(rate=self.steady),
                        period=self.period)  # fmt: skip
        phase = Phase(self.duration + self.hold, laws=law, limits="ignore", name=self.called, sample=flight.sampled())
        yield from flight.phase(use, phase)
        given = self.si("error")
        most = np.radians(0.5) if given is None else float(given)
        off = np.abs(flight.state.joints[index] - goal)
        k = int(np.argmax(off))
        limits = [Limit(UNSETTLED, float(off[k]), most, "rad", crew.arm[k]), *use.arm(), *use.wheels()]
        return limits, {"error": Noted(float(off[k]), "largest of a joint at the end", "rad")}


class EjectTable(StageTable):
    """Springs throw the target off; it has to get clear."""

    called: ClassVar[str] = "eject"

    energy: Positive = key(2.0, "of the springs, J")
    stroke: Positive = key(0.05, "m")
    duration: Duration = key(60.0, "s that it is watched")
    speed: Positive = key(0.02, "least speed at which hand and grasp part, m/s")
    clearance: Positive = key(0.5, "least distance of target and servicer at the end, m")

    def fly(self, flight: Flight) -> Flown:
        use = Use(flight.crew)
        yield from flight.brake()
        assert flight.caught is not None
        yield Unlatch(flight.name, flight.crew.robot, flight.table.made, flight.crew.hand, self.energy, self.stroke)
        flight.caught = None
        near, _, _ = flight.gap()
        hand, grasp = f"{flight.name}/{flight.crew.hand}", f"{TARGET}/{GRASP}"
        apart = distance(flight.here.world, hand, grasp, near + self.stroke, "rising")
        yield from flight.phase(
            use, Phase(30.0, event_function=apart, limits="ignore", name="springs", sample=flight.sampled())
        )
        yield Disconnect(SPRINGS)
        _, _, speed = flight.gap()
        yield from flight.phase(use, Phase(self.duration, limits="ignore", name=self.called))
        gap, parts = flight.apart()
        k = int(np.argmin(gap[-1]))
        away = Limit("clearance lost", float(gap[-1, k]), self.clearance, "m", f"{TARGET} and {parts[k]}", least=True)
        spin = float(np.linalg.norm(flight.here.states[TARGET].base_angular_velocity))
        limits = [
            Limit("too slow", speed, self.speed, "m/s", TARGET, least=True),
            min(away, *use.near, key=lambda limit: limit.margin) if use.near else away,
        ]
        return limits, {
            "speed": Noted(speed, "of the grasp from the hand, as the springs end", "m/s"),
            "spin": Noted(spin, "of the target", "rad/s"),
            "clearance": Noted(away.used, "at the end", "m"),
        }


@dataclass(frozen=True, eq=False)
class Unlatch(Change):
    """Undo a catch: the target is a system of its own again, and springs push it off along the hand's z axis.

    Nothing jumps by it: both go on as they move.

    Args:
        host, robot: the servicer's system, and the robot that it is without the target.
        target: robot that the target is.
        hand: frame of the servicer that holds it.
        energy, stroke: of the springs, J and m: their force falls to zero along the stroke.
    """

    host: str
    robot: Robot
    target: Robot
    hand: str
    energy: float
    stroke: float

    def apply(self, world: World, states: Mapping[str, State], terms: Terms = OWN) -> Changed:
        joined, state = world.own_robot(self.host), states[self.host]
        order = [joined.joint_index(name) for name in self.robot.joint_names]
        velocity = np.concatenate([state.velocity[:6], state.rates[order]])
        rest = State(state.position, state.quaternion, state.joints[order], velocity)
        origin, turn = terms.frame_pose(joined, state, BODY)
        twist = (terms.jacobian(joined, state, BODY) @ state.velocity).reshape(2, 3) @ turn
        away = State(origin, quaternion_from_rotation(turn), np.zeros(0), twist.ravel())
        place, axes = terms.frame_pose(joined, state, self.hand)
        grasp, facing = terms.frame_pose(self.target, away, GRASP)
        # Rest of the spring: the present pose of the grasp in the hand, moved out by the stroke along z. Force and
        # energy at release follow: k stroke and k stroke^2 / 2.
        slack = Pose(axes.T @ facing, axes.T @ (grasp - place) + np.array([0.0, 0.0, self.stroke]))
        stiff = np.array([0.0, 0.0, 2.0 * self.energy / self.stroke**2, 0.0, 0.0, 0.0])
        springs = Bushing(f"{self.host}/{self.hand}", f"{TARGET}/{GRASP}", stiff, rest=slack, name=SPRINGS)
        locked = tuple(f"{self.host}/{name}" for name in world.locked)
        after = World({self.host: self.robot, TARGET: self.target}, locked).with_lasting([*world.elements, springs])
        return Changed(after, {self.host: rest, TARGET: away}, f"{TARGET} let go")
