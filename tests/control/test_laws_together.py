"""Several laws in one phase: of one robot, where they know one another, and of several systems."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import POSTURE, hand_path, quaternion_of, quintic, step_response

from spacearm import Mechanics, control
from spacearm.errors import InputError
from spacearm.model import Frame, Limits, Robot, wheel
from spacearm.model.base import BASE_DOFS
from spacearm.simulate import Load, Phase, State, World, constant, load_run, simulate
from spacearm.simulate.check.crosscheck import cross_check

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
ORIGIN, ROTATION = Mechanics(ROBOT).frame_pose("hand", POSTURE)


def line(first: np.ndarray, goal: np.ndarray, duration: float) -> list:
    return [quintic(a, a + b, duration) for a, b in zip(first, goal, strict=True)]


def missed(run, frame: str, path: list) -> float:
    wanted = np.stack([signal(run.times) for signal in path], axis=1)
    return float(np.abs(hand_path(run, frame) - wanted).max())


@pytest.mark.parametrize("kind", ["pid", "computed", "accelerations"])
def test_a_hand_stays_on_its_line_beside_a_law_of_the_other_joints(kind):
    """Whatever the other law is: forces of the state, forces that depend on the hand's law, or accelerations."""
    names, moved = ROBOT.joint_names, [0, 1, 2, 3, 5]
    joints, rest = [names[i] for i in moved], ["j4", "j6"]
    goals = [quintic(POSTURE[i], POSTURE[i] + 0.2, 4.0) for i in (4, 6)]
    continuous = {"period": None, "limited": False}
    other = {
        "pid": control.joint_pid(goals, 5.0, 5.0, joints=rest, **continuous),
        "computed": control.computed_torque(goals, 4.0, 4.0, joints=rest, **continuous),
        "accelerations": control.Law(
            lambda plant: control.Commands(accelerations=plant.values_by_name(0.03 - 0.1 * plant.rates[[4, 6]], rest)),
            **continuous,
        ),
    }[kind]
    path = line(ORIGIN, np.array([0.03, -0.02, 0.04]), 4.0)
    hand = control.resolved_acceleration("hand", path, joints=joints, period=None, limited=False)
    found = simulate(ROBOT, START, Phase(4.0, laws=[other, hand], limits="ignore"))
    assert found.sound
    assert missed(found, "hand", path) < 1e-10
    if kind == "computed":
        wanted = np.stack([goal(found.times) for goal in goals], axis=1)
        np.testing.assert_allclose(found.states[:, [11, 13]], wanted, atol=1e-10)


@pytest.mark.parametrize("first", ["hand", "rest"])
def test_laws_beside_an_impedance_know_of_the_force_that_it_measures(first):
    """The hand gives way as its closed form says, and the other joints stay on their paths under the same push."""
    names, moved = ROBOT.joint_names, [0, 1, 2, 3, 5]
    force, (mass, damping, stiffness) = np.array([0.0, 4.0, 0.0]), (4.0, 36.0, 100.0)
    goals = [quintic(POSTURE[i], POSTURE[i] - 0.1, 2.0) for i in (4, 6)]
    continuous = {"period": None, "limited": False}
    hand = control.impedance(
        "hand", list(ORIGIN), mass=mass, damping=damping, stiffness=stiffness, force=list(force),
        joints=[names[i] for i in moved], **continuous,
    )  # fmt: skip
    rest = control.computed_torque(goals, 4.0, 4.0, joints=["j4", "j6"], **continuous)
    laws = [hand, rest] if first == "hand" else [rest, hand]
    push = Load("hand", (*force, 0.0, 0.0, 0.0))
    found = simulate(ROBOT, START, Phase(2.0, laws=laws, loads=[push], limits="ignore"))
    assert found.sound
    rise = 1.0 - step_response(found.times, mass, damping, stiffness)
    np.testing.assert_allclose(hand_path(found), ORIGIN + np.outer(rise, force / stiffness), atol=1e-9)
    wanted = np.stack([goal(found.times) for goal in goals], axis=1)
    np.testing.assert_allclose(found.states[:, [11, 13]], wanted, atol=1e-9)


def with_wheels(robot: Robot) -> Robot:
    bodies, joints = [*robot.bodies], [*robot.joints]
    for i, name in enumerate("xyz"):
        body, joint = wheel(f"w{name}", "base", np.eye(3)[i], 0.02, 50.0, 6000.0)
        bodies.append(body)
        joints.append(joint)
    return replace(robot, bodies=tuple(bodies), joints=tuple(joints))


@pytest.mark.parametrize("order", [1, -1])
def test_an_arm_works_while_wheels_hold_the_base(order):
    """The hand is exact though the wheels act at a tenth of its rate, and the wheels hold the base."""
    robot = with_wheels(ROBOT)
    start = State.at_rest(robot, [*POSTURE, 0.0, 0.0, 0.0])
    path = line(ORIGIN, np.array([0.1, -0.05, 0.1]), 4.0)
    still = control.AttitudeRotation(quaternion_of(ROTATION))
    hand = control.resolved_acceleration("hand", path, still, period=None, limited=False)
    wheels = control.attitude_by_wheels(stiffness=300.0, damping=150.0, period=None, limited=False)
    found = simulate(robot, start, Phase(4.0, laws=[hand, wheels][::order], limits="ignore"))
    assert found.sound
    assert missed(found, "hand", path) < 1e-10
    alone = simulate(robot, start, Phase(4.0, laws=hand, limits="ignore"))
    turned = [2 * np.linalg.norm(run.states[:, 4:7], axis=1).max() for run in (found, alone)]
    assert turned[0] < 0.1 * turned[1]


def two_arms() -> Robot:
    """Two arms of five joints on one base."""
    one = arm(5)
    bodies, joints = [*one.bodies], [*one.joints]
    for body in one.bodies[1:]:
        bodies.append(replace(body, name=f"{body.name}b"))
    for k, joint in enumerate(one.joints):
        place = joint.placement
        if k == 0:
            place = replace(place, translation=np.array([-0.3, 0.1, -0.4]), rotation=np.diag([1.0, -1.0, -1.0]))
        parent = joint.parent if k == 0 else f"{joint.parent}b"
        joints.append(
            replace(joint, name=f"{joint.name}b", parent=parent, child=f"{joint.child}b", placement=place, rotor=None)
        )
    hand = one.frames[0]
    other = Frame("handb", f"{hand.body}b", hand.placement)
    return Robot("two", tuple(bodies), tuple(joints), (hand, other), one.thrusters)


@pytest.mark.parametrize("period", [None, 0.01])
def test_two_hands_of_one_robot_are_both_exact(period):
    """Each law counts on what the other commands. Sampled, both lag; the lag falls with the period."""
    robot = two_arms()
    posture = np.concatenate([POSTURE[:5], POSTURE[:5] * 0.8])
    start, mechanics = State.at_rest(robot, posture), Mechanics(robot)
    paths, laws = [], []
    for frame, joints in (("hand", robot.joint_names[:5]), ("handb", robot.joint_names[5:])):
        path = line(mechanics.frame_pose(frame, posture)[0], np.array([0.05, 0.04, -0.06]), 3.0)
        gains = {"stiffness": 25.0, "damping": 10.0} if period else {}
        law = control.resolved_acceleration(frame, path, joints=joints, period=period, limited=False, **gains)
        paths.append(path)
        laws.append(law)
    found = simulate(robot, start, Phase(3.0, laws=laws, limits="ignore"))
    assert found.sound
    for frame, path in zip(("hand", "handb"), paths, strict=True):
        assert missed(found, frame, path) < (1e-10 if period is None else 2e-4)


def test_two_laws_for_one_actuator():
    one, two = (control.joint_pid([0.0] * 2, 1.0, 1.0, joints=names) for names in (["j0", "j1"], ["j1", "j2"]))
    with pytest.raises(InputError, match="both command 'j1'"):
        simulate(ROBOT, START, Phase(1.0, laws=[one, two]))


SMALL = arm(3)
WORLD = World({"a": ROBOT, "b": SMALL})
STATES = {"a": START, "b": State.at_rest(SMALL, POSTURE[:3], position=[9.0, 0.0, 0.0])}


def alone(system: str, law: control.Law, *phases: float):
    own = law.replace(system="")
    found = [Phase(duration, laws=own, limits="ignore") for duration in phases]
    return simulate(WORLD.robot(system), STATES[system], found)


def test_laws_of_two_systems_act_as_each_does_alone(tmp_path):
    """With different periods, limits and memory, over two phases; logs are by system, and MuJoCo replays them."""
    plan = [quintic(a, a + 0.2, 0.5) for a in POSTURE]
    fast = control.joint_pid(plan, 4.0, 2.0, 1.0, period=0.01, limited=False, system="a")
    noisy = control.Encoder(resolution=1e-4, bias=1e-3)
    slow = control.joint_pid(plan[:3], 4.0, 2.0, 1.0, period=0.03, system="b", sensors=[noisy])
    phases = [Phase(0.3, laws=[fast, slow], limits="ignore"), Phase(0.3, laws=[slow, fast], limits="ignore")]
    found = simulate(WORLD, STATES, phases)
    assert found.sound
    for name, law in (("a", fast), ("b", slow)):
        own = alone(name, law, 0.3, 0.3)
        np.testing.assert_allclose(found.last_track(name).states[-1], own.states[-1], atol=1e-9)
        logs = [log for log in found.commands if log.system == name]
        for log, expected in zip(logs, own.commands, strict=True):
            np.testing.assert_allclose(log.times, expected.times, atol=1e-12)
            np.testing.assert_allclose(log.values, expected.values, atol=1e-7)
    assert cross_check(found).largest < 1e-7
    assert {"command.a.j6", "command.b.j2", "reading.b.encoder.j0"} <= {*map(str, found.readings)}
    again = load_run(found.to_netcdf(tmp_path / "run.nc"))
    np.testing.assert_allclose(again.commands[1].values, found.commands[1].values)


def test_a_slow_law_that_is_cut_off_returns_at_its_own_tick():
    """A constant torque up to the rate limit, beside a law that ticks ten times as often: closed form."""
    torque, rate, inertia = 0.1, 0.5, 0.04 + 4.0 * (0.02**2 + 0.03**2)
    one = arm(1)
    limited = replace(one, joints=(replace(one.joints[0], limits=Limits(effort=1.0, velocity=rate)),))
    world = World({"a": one, "b": limited})
    states = {"a": State.at_rest(one), "b": State.at_rest(limited, position=[9.0, 0.0, 0.0])}
    fast = control.Law(lambda plant: {"j0": 1e-3 + 0.0 * plant.time}, period=0.1, system="a", name="fast")
    # Pushes, and brakes from 2.5 s on, which it sees at its tick of 3 s.
    slow = control.Law(
        lambda plant: {"j0": ca.if_else(plant.time < 2.5, torque, -torque)}, period=1.0, system="b", name="slow"
    )
    held = [f"{name}/{dof}" for name in world.systems for dof in BASE_DOFS]
    found = simulate(world, states, Phase(3.2, laws=[fast, slow], locked=held, limits="ignore"), sample=0.02)
    assert found.sound
    (event,) = found.events_of("rate limit")
    assert event.time == pytest.approx(rate * inertia / torque, rel=1e-9)
    times = found.last_track("b").times
    expected = np.minimum(times * torque / inertia, rate) - np.maximum(times - 3.0, 0.0) * torque / inertia
    np.testing.assert_allclose(found.last_track("b").states[:, 14], expected, atol=1e-9)
    assert cross_check(found).largest < 1e-8


def test_continuous_laws_of_two_systems():
    goals = [constant(a + 0.01) for a in POSTURE]
    laws = [
        control.joint_pid(goals, 4.0, 4.0, 1.0, period=None, limited=False, system="a"),
        control.joint_pid(goals[:3], 4.0, 4.0, 2.0, period=None, limited=False, system="b"),
    ]
    found = simulate(WORLD, STATES, Phase(1.0, laws=laws, limits="ignore"))
    assert found.sound
    for law in laws:
        own = alone(law.system, law, 1.0)
        np.testing.assert_allclose(found.last_track(law.system).states[-1], own.states[-1], atol=1e-9)


def test_laws_of_two_systems_that_cannot_be():
    one = control.joint_pid([0.0] * 7, 1.0, 1.0, system="a", period=0.01)
    two = control.joint_pid([0.0] * 3, 1.0, 1.0, system="b", period=0.01)
    own = control.PythonLaw(lambda time, state, references: {"j0": 0.0}, 0.01, forces=["j0"], system="b")
    for other, message in (
        (two.replace(period=0.015), "periods that are not multiples"),
        (two.replace(period=None), "periods that are not multiples"),
        (two.replace(seed=1), "several seeds"),
        (two.replace(system=""), "does not state its system"),
        (own, "Python function acts alone"),
    ):
        with pytest.raises(InputError, match=message):
            simulate(WORLD, STATES, Phase(0.1, laws=[one, other], limits="ignore"))


def test_references_and_gains_by_joint_name() -> None:
    """The order of names does not matter; what names leave open is an error."""
    robot = arm(3)
    start = State.at_rest(robot, [0.1, -0.2, 0.3])
    goal, stiffness = {"j2": 0.5, "j0": -0.1}, {"j0": 3.0, "j2": 2.0}
    for law in (control.joint_pid, control.computed_torque):
        named = law(goal, stiffness, 1.5, period=0.05)
        plain = law([-0.1, 0.5], [3.0, 2.0], 1.5, joints=["j0", "j2"], period=0.05)
        ends = [simulate(robot, start, Phase(0.5, laws=each)).states[-1] for each in (named, plain)]
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-10)
        assert abs(ends[0][9] - 0.3) > 1e-3  # it moves
        with pytest.raises(InputError, match="damping has nothing for joint 'j2'"):
            law(goal, stiffness, {"j0": 1.0})
        with pytest.raises(InputError, match="stiffness has no joint 'j1'"):
            law(goal, {**stiffness, "j1": 1.0}, 1.0)
        with pytest.raises(InputError, match="give `joints` too"):
            law([0.0, 0.0, 0.0], {"j0": 1.0, "j1": 1.0, "j2": 1.0}, 1.0)


def test_errors_of_a_law_name_it_once() -> None:
    robot = arm(2)
    law = control.Law(lambda plant: {"elbow": 1.0 + 0.0 * plant.time}, period=0.1, name="mine")
    with pytest.raises(InputError) as caught:
        simulate(robot, State.at_rest(robot), Phase(0.5, laws=law))
    assert str(caught.value).count("law 'mine'") == 1
