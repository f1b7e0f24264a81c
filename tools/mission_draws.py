"""Missions drawn at random near their limits, and what comes of one: for the tools that vary one thing at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spacearm.errors import SpacearmError
from spacearm.mission.scenario import MissionFindings
from spacearm.model import Robot, catalogue
from spacearm.result import Certificate
from spacearm.study import Session
from spacearm.study.scenario import solve_document

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SERVICER = catalogue.load("servicer")
#: A mission is near its limits if its margin is nearer to zero than this.
NEAR = 0.3
#: Edges of targets, m, the small ones first.
SIZES = np.array([[1.0, 0.8, 0.6], [2.0, 1.2, 1.2], [4.0, 2.0, 2.0]])
#: Wheels and motors of the servicers, relative to those of the catalogue.
SERVICERS = ((1.0, 1.0), (0.3, 1.0), (1.0, 0.4))
#: Limits of the file, so far away that they play no part, and the keys of those that are then put near.
FAR = {"base_rate_deg": 60.0, "propellant": 100.0, "impulse": 1e4, "power": 1e4}
KEYS = {
    "base rate": "base_rate",
    "propellant out": "propellant",
    "catch impulse": "impulse",
    "power": "power",
    "clearance lost": "clearance",
}
STRATEGIES = ("matched", "passive", "biased", "coordinated", "impedance")
ACTUATORS = ("both", "both", "wheels", "thrusters", "arm")


def weaken(robot: Robot, wheels: float = 1.0, motors: float = 1.0) -> Robot:
    """The servicer with slower wheels, or with weaker and slower motors of its arm."""

    def change(name: str) -> Any:
        joint, limits = robot.joint(name), robot.joint(name).limits
        if name in robot.wheel_names:
            return replace(joint, limits=replace(limits, velocity=wheels * limits.velocity))
        return replace(joint, limits=replace(limits, effort=motors * limits.effort, velocity=motors * limits.velocity))

    return replace(robot, joints=tuple(change(name) for name in robot.joint_names))


class Mission(NamedTuple):
    """A mission to be flown: its file as tables, and how strong the servicer is, relative to that of the catalogue."""

    document: dict[str, Any]
    wheels: float = 1.0
    motors: float = 1.0

    def limit(self, name: str, value: float) -> Mission:
        """The same with another limit."""
        if name == "clearance":
            return self._replace(document=self.document | {name: value})
        given = {key: each for key, each in self.document["limits"].items() if not key.startswith(name)}
        return self._replace(document=self.document | {"limits": given | {name: value}})

    @property
    def words(self) -> str:
        target = self.document["target"]
        angular_rate = float(np.linalg.norm(target["tumble_deg"]))
        return (
            f"{self.document['strategy']:11s} {self.document['detumble']['actuator']:9s} {target['mass']:6.0f} kg "
            f"{angular_rate:4.2f} deg/s wheels {self.wheels:.2f} motors {self.motors:.2f}"
        )


class Flown(NamedTuple):
    """What came of a mission.

    Args:
        binding: stage and limit with the least margin.
        periods: of the laws, by stage, s.
        used: the most of each limit in any stage; the least, where that is what counts.
        decision: GO, NO GO or UNDECIDED, if it was asked for: the verdict, if the doubt about masses allows for one.
    """

    verdict: str  # go, no go, not sound, or error
    margin: float
    binding: str
    periods: dict[str, float]
    used: dict[str, float]
    decision: str = ""

    @property
    def words(self) -> str:
        return f"{self.decision or self.verdict} {self.margin:+.4f} {self.binding}"


def draw_mission(rng: np.random.Generator) -> Mission:
    """A target from 50 kg to 3 t and a servicer; limits of the file are far away."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for stage in ("identify", "decide", "eject"):
        document.pop(stage)
    mass = float(np.exp(rng.uniform(np.log(50.0), np.log(3000.0))))
    # Few shapes, for which code is compiled; mass nearer to the middle than evenly: any such moments are possible ones.
    size = SIZES[int(mass > 150.0) + int(mass > 800.0)]
    squares = size**2 * rng.uniform(0.7, 1.0, 3)
    # The hand can go with a grasp at some centimetres a second.
    fastest = 10.0 / size[0]
    angular_rate = rng.normal(size=3)
    angular_rate *= float(np.exp(rng.uniform(np.log(0.1), np.log(fastest)))) / np.linalg.norm(angular_rate)
    document |= {"strategy": str(rng.choice(STRATEGIES)), "clearance": 1e-3, "limits": dict(FAR)}
    document["target"] |= {
        "mass": mass,
        "com": [*map(float, rng.uniform(-0.05, 0.05, 3) * size)],
        "inertia": [*map(float, mass / 12.0 * (squares.sum() - squares))],
        "size": [*map(float, size)],
        "grasp": {"position": [-0.5 * float(size[0]), 0.0, 0.0], "rpy_deg": [0.0, -90.0, 0.0]},
        "tumble_deg": [*map(float, angular_rate)],
    }
    document["catch"]["stop_time"] = float(rng.choice([6.0, 8.0]))
    document["detumble"] |= {
        "actuator": str(rng.choice(ACTUATORS)),
        "duration": float(rng.choice([100.0, 200.0, 400.0])),
    }
    if rng.random() < 0.7:
        document.pop("stow")
    return Mission(document, *SERVICERS[rng.integers(len(SERVICERS))])


def fly_mission(mission: Mission, decide: bool = False) -> Flown:
    """The verdict; an error of the run is one, too. ``decide``: whether the doubt about masses is looked at."""
    robot = weaken(SERVICER, mission.wheels, mission.motors)
    try:
        found = solve_document(mission.document, Session(EXAMPLES, robots={"servicer": robot}))[1]
    except SpacearmError as error:
        return Flown("error", -np.inf, str(error), {}, {})
    assert isinstance(found, MissionFindings)
    periods: dict[str, float] = {}
    for log in found.run.commands:
        stage = next(each.stage for each in found.outcomes if each.end >= log.end - 1e-9)
        if log.law is not None and log.law.period is not None:
            periods.setdefault(stage, log.law.period)
    used: dict[str, float] = {}
    for limit in (limit for outcome in found.outcomes for limit in outcome.limits):
        used[limit.name] = (min if limit.least else max)(limit.used, used.get(limit.name, limit.used))
    verdict = ("go" if found.is_successful else "no go") if Certificate(found.certificate()).sound else "not sound"
    binding = f"{found.worst.stage}: {found.worst.binding_limit.name}"
    decision = ""
    if decide:
        decision = "UNDECIDED" if verdict == "not sound" or found.undecided() else verdict.upper()
    return Flown(verdict, found.worst.margin, binding, periods, used, decision)


def draw_near_limits(rng: np.random.Generator, only: str = "") -> Iterator[tuple[Mission, Flown]]:
    """Missions whose margin is near zero, without end; ``only`` those with this verdict.

    One limit of the file is put near what the mission uses of it, or the servicer's own limits decide.
    """
    while True:
        mission = draw_mission(rng)
        first = flown = fly_mission(mission)
        names = sorted(first.used.keys() & KEYS.keys())
        if first.verdict == "go" and names:
            name = names[rng.integers(len(names))]
            share = rng.uniform(*((1.02, 1.0 + NEAR) if only == "no go" else (1.0 - NEAR, 1.0 + NEAR)))
            least = name == "clearance lost"
            mission = mission.limit(KEYS[name], first.used[name] * (share if least else 1.0 / share))
            flown = fly_mission(mission)
        if abs(flown.margin) < NEAR and only in ("", flown.verdict):
            yield mission, flown
