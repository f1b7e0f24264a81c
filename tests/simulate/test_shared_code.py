"""Robots that differ in their numbers share compiled code: a campaign does not trace anew in each run."""

from __future__ import annotations

from importlib import import_module

import casadi as ca
import numpy as np
import pytest

import spacearm.engine.kernel
from spacearm import catalogue, control
from spacearm.engine import mechanics_of
from spacearm.mechanics.law import LawProgram
from spacearm.mechanics.shapes import Plane, Sphere
from spacearm.model import Body, Frame, Inertia, Pose, Robot
from spacearm.simulate import Attach, Contact, Phase, Run, ShapeOnFrame, State, World, gate, simulate
from spacearm.simulate.law import Law

ARM = catalogue.load("cai2023")
START = State.at_rest(ARM, "attitude1")
CACHED = {
    "engine.mechanics": ("_kernel", "mechanics_of"),
    "simulate.motion": ("_kernel", "_build_robot_motion", "_world_motion"),
    "simulate.elements": ("_elements",),
    "simulate.law": ("_build_program", "_program"),
    "simulate.distance": ("_build_frame_event",),
}


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of programs that are traced meanwhile."""
    found: list[str] = []
    own = spacearm.engine.kernel.trace

    def counted(function: object) -> object:
        found.append(function.name())  # type: ignore[attr-defined]
        return own(function)

    monkeypatch.setattr(spacearm.engine.kernel, "trace", counted)
    return found


def capture(mass: float, stiffness: float) -> Run:
    """A hand is servoed while a plate comes, is latched, and both are stopped by a law that knows the joined robot."""
    body = Body("plate", Inertia(mass, np.zeros(3), mass * np.eye(3) / 6))
    plate = Robot("plate", (body,), frames=(Frame("face", "plate", Pose(translation=np.array([0.0, 0.0, 0.1]))),))
    origin, _ = mechanics_of(ARM).frame_pose("hand", START.joints, base=START.pose)
    away = State.at_rest(plate, position=origin - [0.0, 0.0, 0.3]).vector
    away[9] = 0.1  # m/s, towards the hand
    ball = Contact(
        ShapeOnFrame("cai2023/hand", Sphere(0.03)), ShapeOnFrame("plate/face", Plane()), 1e4, 0.5, friction=0.1
    )
    world = World({"cai2023": ARM, "plate": plate}, elements=(ball,))
    hold = [float(q) for q in START.joints]
    servo = control.joint_pid(hold, stiffness, 0.2, system="cai2023", period=0.01)
    turn = control.detumble(5.0, period=0.01, system="cai2023")
    near = gate(world, "cai2023/hand", "plate/face", distance=0.05)
    latch, after = Attach("plate", "cai2023/hand"), Phase(1.0, laws=[servo, turn])
    phases = [Phase(3.0, laws=[servo], event_function=near), latch, after]
    return simulate(world, {"cai2023": START, "plate": State.from_vector(away)}, phases, sample=0.1)


def test_another_target_traces_nothing_and_has_its_own_motion(traced: list[str]) -> None:
    first = capture(150.0, 0.5)
    assert traced
    assert len(first.changes) == 1
    assert first.sound
    traced.clear()
    second = capture(170.0, 0.6)
    assert traced == []
    for package, names in CACHED.items():
        for name in names:
            getattr(import_module(f"spacearm.{package}"), name).cache_clear()
    fresh = capture(170.0, 0.6)
    assert traced
    end = [run.ends["cai2023"].vector for run in (first, second, fresh)]
    assert np.array_equal(end[1], end[2])
    assert not np.allclose(end[0], end[1])


def test_frames_of_a_law_are_its_own() -> None:
    """The same law at a frame of the same name that lies elsewhere is another program; other frames do not matter."""

    def program(shift: float, mass: float, gain: float) -> LawProgram:
        frame = ARM.frame("hand")
        moved = Frame("hand", frame.body, frame.placement @ Pose(translation=np.array([0.0, 0.0, shift])))
        robot = ARM.replace(
            frames=(*(each for each in ARM.frames if each.name != "hand"), moved, Frame(f"f{mass:g}", frame.body))
        ).with_inertia_parameters(mass * ARM.inertia_parameters)
        return control.resolved_rate("hand", [0.0, 0.0, 0.0], gain=gain, period=0.02).program(robot)

    assert program(0.0, 1.0, 1.0) is program(0.0, 2.0, 3.0)
    assert program(0.0, 1.0, 1.0) is not program(0.2, 1.0, 1.0)


def test_a_law_that_reads_more_than_it_encloses_is_not_shared() -> None:
    """Only laws that say so are: a function of one's own may read what changes."""
    strength = {"torque": 1.0}

    def push(plant: object) -> dict[str, ca.SX]:
        return {"base_wz": ca.SX(strength["torque"])}

    ends = []
    for torque in (1.0, 2.0):
        strength["torque"] = torque
        for closed in (False, True):  # it encloses a dictionary, which may change
            run = simulate(ARM, START, [Phase(1.0, laws=[Law(push, period=0.1, closed=closed)])])
            ends.append(run.end.velocity[5])
    assert ends[0] == ends[1] != ends[2] == ends[3]


def test_a_robot_may_be_in_a_world_twice() -> None:
    body = Robot("ball", (Body("ball", Inertia(2.0, np.zeros(3), np.eye(3))),))
    start = State.at_rest(body)
    moving = start.vector.copy()
    moving[7] = 0.5
    run = simulate({"a": body, "b": body}, {"a": start, "b": State.from_vector(moving)}, [Phase(2.0)])
    assert run.sound
    assert run.ends is not None
    assert [run.ends[name].position[0] for name in "ab"] == pytest.approx([0.0, 1.0], abs=1e-12)
