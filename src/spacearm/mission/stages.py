"""The stages of a mission up to the tumble's end: tables of its file, each with the phases and changes that it flies.

A stage's ``fly`` is a generator of phases and changes; what it returns are its limits and its own numbers.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import casadi as ca
import numpy as np

from spacearm.control import Law
from spacearm.control.attitude import thruster_pulses
from spacearm.engine import Kernel
from spacearm.errors import InputError, at
from spacearm.mechanics import Program
from spacearm.mission import laws
from spacearm.mission.encounter import GRASP, TARGET, carried_way, hand_way
from spacearm.mission.flight import UNSETTLED, Flight, Use, worlds
from spacearm.mission.laws import Crew, Wheels
from spacearm.model import Body, Frame, Inertia, Pose, Robot
from spacearm.model.layout import Layout
from spacearm.model.toml_schema import Duration, Name, Number, above_zero
from spacearm.result import Limit
from spacearm.simulate import Attach, EventFunction, Phase, Release, Signal, World, constant, distance
from spacearm.simulate.elements import View
from spacearm.simulate.run.chain import Item
from spacearm.study import Noted, Table, key
from spacearm.study.surroundings import ContactTable
from spacearm.typing import Array

#: What a stage gives while it is flown, and what it returns.
Flown: TypeAlias = Generator[Item, None, tuple[list[Limit], dict[str, Any]]]
DEGREE = np.pi / 180.0
#: A number that something is divided by.
Positive = Annotated[float, above_zero(1e-12)]


class StageTable(Table):
    """A stage."""

    called: ClassVar[str] = ""

    def fly(self, flight: Flight) -> Flown:
        """Its phases and changes."""
        raise NotImplementedError


class GainKeys(StageTable):
    """How stiff the arm's loop is."""

    stiffness: Positive = key(0.5, "of the error, 1/s2")
    damping: Positive = key(1.4, "of its rate, 1/s")
    period: Duration = key(0.1, "s between ticks of the law; 0.5 s are a whole number of them")

    @property
    def gains(self) -> tuple[float, float]:
        return self.stiffness, self.damping


class ApproachTable(GainKeys):
    """The hand goes to the grasp point."""

    called: ClassVar[str] = "approach"

    duration: Duration = key(30.0, "s until the planned touch, a multiple of 0.5 s")
    reach: Positive = key(0.3, "how far ahead of the hand the target is met, m, where `target.meet` is not given")
    match: Duration = key(8.0, "s before the touch in which the hand takes up the motion of the grasp")
    closing: Number = key(0.02, "m/s, with which a hand that goes with the grasp comes nearer")

    def law(self, flight: Flight) -> Law:
        """The hand on its way; `passive` it waits where the grasp will be."""
        # A passive hand waits at the meeting point; all others take up the grasp's motion.
        match = 0.0 if flight.strategy == "passive" else min(self.match, self.duration)
        way = hand_way(flight.met, flight.crew, flight.start, match, self.closing).after(flight.here.time)
        return laws.track(
            flight.crew,
            way.position,
            way.quaternion,
            way.spin,
            load=flight.load,
            gains=self.gains,
            wheels=flight.wheels(before_touch=True),
            period=self.period,
        )

    def fly(self, flight: Flight) -> Flown:
        use, gate = Use(flight.crew), flight.file.touch.gate(flight)
        yield from flight.phase(
            use, Phase(self.duration, laws=self.law(flight), event_function=gate, limits="ignore", name=self.called)
        )
        limits = [*use.arm(), *use.wheels()]
        turned = 2.0 * np.arccos(min(1.0, abs(float(flight.state.quaternion @ flight.start.quaternion))))
        far, _, _ = flight.gap()
        return limits, {
            "distance": Noted(far, "of hand and grasp, at the end", "m"),
            "base_turn": Noted(turned, "of the base meanwhile", "rad"),
        }


class TouchTable(StageTable):
    """The hand is at the grasp: the latch closes there."""

    called: ClassVar[str] = "touch"

    wait: Duration = key(5.0, "how long the hand goes on after the planned touch, s, a multiple of 0.5 s")
    distance: Positive = key(0.03, "at which the latch closes, m")
    angle: Positive | None = key(None, "largest angle between the axes then, rad; 10 deg where left out")
    angle_deg: Positive | None = None
    speed: Positive = key(0.1, "largest relative speed then, m/s")
    contact: list[ContactTable] = key([], "shapes of hand and target that may touch before the latch closes")

    @property
    def steepest(self) -> float:
        """rad."""
        given = self.si("angle")
        return 10.0 * DEGREE if given is None else float(given)

    def gate(self, flight: Flight) -> EventFunction:
        return _gate(flight.crew, flight.table.grasp.pose(), self.distance)

    def fly(self, flight: Flight) -> Flown:
        use, touched, meanwhile = Use(flight.crew), _touched(flight), list[Limit]()
        # The approach may have ended at the gate already: then the latch closes at once.
        if flight.gap()[0] > self.distance * (1.0 + 1e-9):
            law, gate = flight.file.approach.law(flight), self.gate(flight)
            wait = max(flight.met.times[-1] - flight.here.time, 0.01)
            phase = Phase(wait, laws=law, event_function=gate, limits="ignore", name=self.called)
            yield from flight.phase(use, phase)
            touched, meanwhile = touched or _touched(flight), [*use.arm(), *use.wheels()]
        far, angle, speed = flight.gap()
        numbers = {"distance": Noted(far, "", "m"), "angle": Noted(angle, "", "rad"), "speed": Noted(speed, "", "m/s")}
        if far > self.distance * (1.0 + 1e-6):
            return [Limit("contact lost" if touched else "missed", far, self.distance, "m"), *meanwhile], numbers
        return [
            Limit("misaligned", angle, self.steepest, "rad"),
            Limit("touch speed", speed, self.speed, "m/s"),
            *meanwhile,
        ], numbers


def _touched(flight: Flight) -> bool:
    """Whether shapes have touched in the phase before."""
    return any(event.kind == "touch" for event in flight.here.events)


@lru_cache(maxsize=16)
def _gate(crew: Crew, grasp: Pose, near: float) -> EventFunction:
    """The hand comes as near to the grasp; the same for any target with a grasp there."""
    body = Body("body", Inertia(1.0, tensor=np.eye(3)))
    world = worlds(crew, Robot(TARGET, (body,), (), (Frame(GRASP, "body", grasp),)))
    return distance(world, f"{crew.robot.name}/{crew.hand}", f"{TARGET}/{GRASP}", near)


class CatchTable(GainKeys):
    """Servicer and target become one; the arm comes to rest against the bus."""

    called: ClassVar[str] = "catch"

    period: Duration = key(0.05, "s between ticks of the law")
    mode: Literal["rigid", "soft"] = key("soft", "whether the clutch lets the soft joints go at the touch")
    duration: Duration = key(20.0, "s")
    stop: Duration = key(8.0, "s in which the arm comes to rest")
    base_rate: Positive | None = key(None, "largest turning rate of the base, rad/s")
    base_rate_deg: Positive | None = None

    def fly(self, flight: Flight) -> Flown:
        crew, use = flight.crew, Use(flight.crew)
        flight.caught = flight.catch_pose()
        host = flight.name
        if self.mode == "soft" and crew.soft:
            yield Release([f"{host}/{name}" for name in crew.soft])
        yield Attach(TARGET, f"{host}/{crew.hand}")
        rate = float(np.linalg.norm(flight.state.base_angular_velocity))
        law = self.law(flight)
        yield from flight.phase(use, Phase(self.duration, laws=law, limits="ignore", name=self.called))
        limits, most = [*use.arm(), *use.soft(), *use.wheels()], self.si("base_rate")
        if most is not None:
            limits.append(Limit("base rate", use.base_rate, float(most), "rad/s"))
        return limits, {
            "base_rate": {
                "": Noted(rate, "of the base, just after", "rad/s"),
                "peak": Noted(use.base_rate, "while the arm came to rest", "rad/s"),
            }
        }

    def law(self, flight: Flight) -> Law:
        """The arm stops; by impedance, the hand keeps its attitude in the world and goes with the mass centre."""
        detumble = flight.file.detumble
        if detumble is not None and detumble.by == "arm":
            return self.carrying(flight, None, self.duration)
        if flight.strategy == "impedance":
            place, turn, drift = flight.hand()
            position = [Signal(np.array([0.0, 1.0]), np.array([[p], [v]])) for p, v in zip(place, drift, strict=True)]
            still = [*map(constant, turn)], [constant(0.0)] * 3
            return laws.track(flight.crew, position, *still, load=flight.load, gains=self.gains,
                              wheels=flight.wheels(), period=self.period)  # fmt: skip
        return self.stopping(flight)

    def carrying(self, flight: Flight, moment: float | None, duration: float) -> Law:
        """The hand carries the target: it tumbles on, or a moment of this size (N m) stops it."""
        assert flight.caught is not None
        _, _, drift = flight.hand()
        way = carried_way(
            flight.table.guess,
            flight.carried(),
            flight.caught,
            drift,
            moment=moment,
            stop=self.stop,
            duration=duration,
        )
        return laws.track(flight.crew, way.position, way.quaternion, way.spin, load=flight.load, gains=self.gains,
                          wheels=flight.wheels(), period=self.period)  # fmt: skip

    def stopping(self, flight: Flight) -> Law:
        """The arm's joints come to rest on parabolas."""
        crew, state = flight.crew, flight.state
        index = crew.index(crew.arm)
        paths = _stopping(state.joints[index], state.rates[index], self.stop)
        return laws.hold(crew, paths, load=flight.load, gains=self.gains, wheels=flight.wheels(), period=self.period)


def _stopping(joints: Array, rates: Array, stop: float) -> list[Signal]:
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
    rate: Positive | None = key(
        None, "of joints that turn, rad/s, at which they are at rest; 0.05 deg/s where left out"
    )
    rate_deg: Positive | None = None
    slide: Positive = key(1e-3, "of joints that slide, m/s")

    def fly(self, flight: Flight) -> Flown:
        crew, use = flight.crew, Use(flight.crew)
        given, caught = self.si("rate"), flight.file.catch
        turning = 0.05 * DEGREE if given is None else float(given)
        arm = np.abs(flight.state.rates[crew.index(crew.arm)])
        if np.any(arm > turning):
            law = caught.stopping(flight)
            yield from flight.phase(use, Phase(2.0 * caught.stop, laws=law, limits="ignore", name="stop"))
        yield from flight.brake(crew.arm)
        begin, wheels = flight.here.time, flight.wheels()
        rest: dict[str, Any] = {"limits": "ignore", "name": self.called}
        if crew.wheels:
            rest["laws"] = laws.stop(crew, wheels=wheels, period=caught.period, band=None)
        limits = list[Limit]()
        if flight.loose:
            until = _at_rest(crew, turning, self.slide)
            yield from flight.phase(use, Phase(self.duration, event_function=until, **rest))
            rates, bounds = np.abs(flight.state.rates[crew.index(crew.soft)]), crew.slow(turning, self.slide)
            limits = _settled(float(np.max(rates / bounds)), 1.0, flight.here.time - begin, self.duration)
        if not limits or limits[0].margin >= 0.0:
            yield from flight.brake()
        rate = float(np.linalg.norm(flight.state.base_angular_velocity))
        limits += [*use.arm(), *use.soft(), *use.wheels()]
        return limits, {"base_rate": Noted(rate, "of the base, at the end", "rad/s")}


class DetumbleTable(StageTable):
    """The tumble is taken away: by wheels and thrusters from all, the arm braked, or by the arm from the target."""

    called: ClassVar[str] = "detumble"

    by: Literal["wheels", "thrusters", "both", "arm"] = key(
        "both", "who takes the momentum; `arm`: right after the catch, before all settles"
    )
    duration: Duration = key(300.0, "s at most")
    rate: Positive | None = key(
        None, "of the base (by the arm: of the target), rad/s, at which it is at rest; 0.1 deg/s where left out"
    )
    rate_deg: Positive | None = None
    damping: Positive = key(60.0, "of the wheels' law, N m s/rad")
    propellant: Positive | None = key(None, "that there is, kg")
    moment: Positive = key(0.5, "by the arm: on the target, N m")
    period: Duration = key(0.2, "s between ticks of the law; of the arm's law it is that of the catch")

    def check(self, robot: Robot) -> None:
        """That the servicer has what this takes."""
        if self.by in ("wheels", "both") and not robot.wheel_names:
            raise InputError(f"is {self.by!r}, but the servicer has no wheels", place="by", hint="thrusters")
        if self.by in ("thrusters", "both"):
            with at("by"):
                thruster_pulses(robot)

    @property
    def slow(self) -> float:
        """rad/s."""
        given = self.si("rate")
        return 0.1 * DEGREE if given is None else float(given)

    def by_arm(self, flight: Flight) -> Flown:
        """The hand carries the target as the moment stops it, until it turns no faster than at rest."""
        use, caught, begin = Use(flight.crew), flight.file.catch, flight.here.time
        guess, now = flight.table.guess, flight.carried()
        spinning = float(np.linalg.norm(guess.bodies[0].inertia.tensor @ now.velocity[3:6]))
        law = caught.carrying(flight, self.moment, self.duration)
        until = _hand_slow(flight.here.world, flight.name, flight.crew.hand, self.slow)
        phase = Phase(self.duration, laws=law, event_function=until, limits="ignore", name=self.called)
        yield from flight.phase(use, phase)
        rate = float(np.linalg.norm(flight.carried().base_angular_velocity))
        limits = _settled(rate, self.slow, flight.here.time - begin, self.duration)
        return [*limits, *use.arm(), *use.soft(), *use.wheels()], {
            "momentum": Noted(spinning, "of the target, to be taken, about its mass centre", "N m s"),
            "shortest": Noted(spinning / self.moment, "that the moment takes", "s"),
            "target_rate": Noted(rate, "of the target, at the end", "rad/s"),
        }

    def fly(self, flight: Flight) -> Flown:
        if self.by == "arm":
            return (yield from self.by_arm(flight))
        yield from flight.brake()
        crew, use, begin, slow = flight.crew, Use(flight.crew), flight.here.time, self.slow
        before = flight.momentum()
        wheels = Wheels(rate=self.damping) if self.by != "thrusters" else Wheels()
        # Thrusters alone must get below the rate that counts as rest, so their dead band lies inside it.
        band = None if self.by == "wheels" else slow * (0.5 if self.by == "thrusters" else 1.0)
        law = laws.stop(crew, wheels=wheels, period=self.period, band=band)
        until = _slow(crew.robot.n, slow)
        yield from flight.phase(
            use, Phase(self.duration, laws=law, event_function=until, limits="ignore", name=self.called)
        )
        flight.spent += use.propellant
        rate = float(np.linalg.norm(flight.state.base_angular_velocity))
        limits = _settled(rate, slow, flight.here.time - begin, self.duration)
        # What the wheels have not taken yet: it still counts against their speed limit, or a mission that ends early
        # would look better than one that finishes.
        left = flight.momentum() - crew.stored(flight.state.rates)
        limits += use.wheels(left if self.by == "wheels" else 0.0)
        if self.propellant is not None and self.by != "wheels":
            limits.append(Limit("propellant out", flight.spent, self.propellant, "kg"))
        return limits, {
            "momentum": Noted(float(np.linalg.norm(before)), "to be taken, about the mass centre", "N m s"),
            "stored": Noted(float(np.linalg.norm(crew.stored(flight.state.rates))), "in the wheels then", "N m s"),
            "base_rate": Noted(rate, "of the base, at the end", "rad/s"),
            "propellant": Noted(use.propellant, "spent", "kg"),
        }


def _settled(rate: float, slow: float, lasted: float, most: float) -> list[Limit]:
    """At rest in time, or not at rest: of the time that there was, or of the rate that counts as rest."""
    if rate <= slow * (1.0 + 1e-6):
        return [Limit(UNSETTLED, lasted, most, "s")]
    return [Limit(UNSETTLED, rate / slow, 1.0, "of the rate at rest")]


@lru_cache(maxsize=16)
def _slow(n: int, rate: float) -> EventFunction:
    """The base turns slower than this."""
    state, time = ca.SX.sym("state", Layout(n).size), ca.SX.sym("time")
    spin = ca.sqrt(ca.sumsqr(state[Layout(n).angular_velocity]))
    program = Program("slow", {"state": state, "time": time}, {"over": spin / rate - 1.0})
    return EventFunction(Kernel(program), ("base at rest",), ("falling",), ("phase",), (1,))


def _hand_slow(world: World, system: str, hand: str, rate: float) -> EventFunction:
    """What the hand holds turns slower than this."""
    view = View(world.systems, 0, 0)
    spin = view.frame(system, hand).angular_velocity
    value = ca.sqrt(ca.sumsqr(spin)) / rate - 1.0
    program = Program("hand_slow", {"state": view.state, "time": view.time}, {"over": value})
    return EventFunction(Kernel(program), ("target at rest",), ("falling",), ("phase",))


@lru_cache(maxsize=16)
def _at_rest(crew: Crew, turning: float, sliding: float) -> EventFunction:
    """The soft joints are slower than these rates, all at once."""
    at = Layout(crew.robot.n)
    state, time = ca.SX.sym("state", at.size), ca.SX.sym("time")
    rates = state[at.rates][crew.index(crew.soft)] / ca.DM(crew.slow(turning, sliding))
    program = Program("at_rest", {"state": state, "time": time}, {"over": ca.mmax(ca.fabs(rates)) - 1.0})
    return EventFunction(Kernel(program), ("joints at rest",), ("falling",), ("phase",), (1,))


class WheelsTable(Table):
    """How the wheels' loops are set while something is approached and caught."""

    attitude: Positive = key(10.0, "strategy `coordinated`: on the base's attitude, N m/rad")
    rate: Positive = key(60.0, "strategy `coordinated`: on the base's angular velocity, N m s/rad")
    preload: Duration = key(15.0, "strategy `biased`: s before the planned touch in which they take it up")
    carry: Positive = key(0.3, "strategy `biased`: how fast the wheels come to the momentum they carry, 1/s")


class CrewTable(Table):
    """Who does what on the servicer."""

    hand: Name = key("hand", "frame that grasps")
    arm: list[Name] | None = key(None, "joints of the arm, others are locked; all but wheels and soft ones if left out")
    soft: list[Name] = key([], "joints on springs that a clutch holds until something is caught")

    def of(self, robot: Robot) -> Crew:
        robot.frame(self.hand)
        soft = tuple(robot.joint(name).name for name in self.soft)
        rest = [name for name in robot.joint_names if name not in (*soft, *robot.wheel_names)]
        return Crew(
            robot, self.hand, tuple(rest if self.arm is None else [robot.joint(n).name for n in self.arm]), soft
        )
