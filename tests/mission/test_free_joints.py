"""Targets whose parts move on free joints: before the catch, in the hand, in the poles of the loop."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from tests.support.missions import EXAMPLES, SHORT, flown, rows

from spacearm.control import linearise_loop
from spacearm.errors import InputError
from spacearm.mission import _loop_check as loop_check
from spacearm.mission._clearance import compute_gaps
from spacearm.mission._encounter import GRASP, TARGET
from spacearm.mission.scenario import MissionFindings
from spacearm.model import Pose, Robot, edit
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Phase, State
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.typing import Array

STAGE = str(EXAMPLES / "robots" / "stage.toml")
MOTION = {"closing_speed": 0.02, "tumble_deg": [2.0, -3.0, 1.5]}
SLOSHING = {
    **MOTION,
    "robot": STAGE,
    "grasp_frame": "ring",
    "joints_deg": {"slosh_y": 8.0},
    "rates_deg": {"slosh_z": 3.0},
}
QUICK = {**SHORT, "settle": None, "detumble": None, "catch__duration": 4.0, "catch__stop_time": 4.0}


@lru_cache(maxsize=1)
def caught() -> MissionFindings:
    return flown(**QUICK, target=SLOSHING, catch__period=0.02, cross_check=True)


def state_at(mission: MissionFindings, name: str, time: float, *, last: bool = True) -> State:
    """The last (or the first) sample of a system at this time."""
    found = [
        row
        for track in mission.run.tracks
        if track.name == name
        for row in track.states[np.abs(track.times - time) < 1e-9]
    ]
    return State.from_vector(found[-1 if last else 0])


def join(mission: MissionFindings, state: State, target: State) -> tuple[Robot, State]:
    """Servicer and target as one tree, made of their poses, and its state."""
    flight = mission.flight
    robot, guest = flight.actuators.robot, flight.table.reference_robot
    model = set_model(robot, state)
    hand = model.frame_pose("hand")
    turn = rotation_matrices(target.quaternion)
    place = Pose(hand.rotation.T @ turn, hand.rotation.T @ (target.position - hand.translation))
    joined = edit.attach(robot, "hand", guest, place)
    joints = dict(zip((*robot.joint_names, *guest.joint_names), (*state.joints, *target.joints), strict=True))
    rates = dict(zip((*robot.joint_names, *guest.joint_names), (*state.rates, *target.rates), strict=True))
    velocity = np.concatenate([state.velocity[:6], [rates[name] for name in joined.joint_names]])
    return joined, State(state.position, state.quaternion, np.array([joints[n] for n in joined.joint_names]), velocity)


def set_model(robot: Robot, state: State) -> MujocoModel:
    model = MujocoModel(robot)
    model.set_state(state.position, state.quaternion, state.joints, state.velocity)
    return model


def fly_mujoco(robot: Robot, state: State, force: Any, edges: Array, held: tuple[str, ...] = ()) -> State:
    """A robot by MuJoCo's mass matrix and forces, with constant forces between these times; ``held`` do not move."""
    model = MujocoModel(robot)
    free = [i for i, name in enumerate(robot.dof_names) if name not in held]

    def rate(vector: Array, push: Array) -> Array:
        quaternion, joints, velocity = np.split(vector[3:], [4, 4 + robot.n])
        quaternion = quaternion / np.linalg.norm(quaternion)
        model.set_state(vector[:3], quaternion, joints, velocity)
        found = np.zeros(robot.dofs)
        total = push + model.passive() - model.bias()
        found[free] = np.linalg.solve(model.mass_matrix()[np.ix_(free, free)], total[free])
        w, v, spin = quaternion[0], quaternion[1:], velocity[3:6]
        change = 0.5 * np.concatenate([[-v @ spin], w * spin + np.cross(v, spin)])
        return np.concatenate([rotation_matrices(quaternion) @ velocity[:3], change, velocity[6:], found])

    vector = state.vector
    for k in range(len(edges) - 1):
        push = force(k)
        solved = solve_ivp(
            lambda _, y, p=push: rate(y, p), edges[k : k + 2], vector, method="DOP853", rtol=1e-11, atol=1e-12
        )  # type: ignore[misc]
        vector = solved.y[:, -1]
        vector[3:7] /= np.linalg.norm(vector[3:7])
    return State.from_vector(vector)


def test_before_the_catch_it_moves_as_in_mujoco() -> None:
    """From time zero, with joints as the file says, to the touch, where the body moves as the file says."""
    mission = caught()
    met, robot = mission.flight.met, mission.flight.table.reference_robot
    assert robot.joint_names == ("target.slosh_y", "target.slosh_z")
    np.testing.assert_allclose(np.degrees(met.start.joints), [8.0, 0.0])
    np.testing.assert_allclose(np.degrees(met.start.rates), [0.0, 3.0])
    time = mission.outcomes[0].end
    edges = np.linspace(0.0, time, 4)
    end = fly_mujoco(robot, met.start, lambda k: np.zeros(robot.dofs), edges)
    ours = state_at(mission, TARGET, time, last=False)
    np.testing.assert_allclose(ours.vector, end.vector, atol=1e-8)
    assert np.abs(ours.joints).max() > np.radians(0.5)
    turned = fly_mujoco(robot, end, lambda k: np.zeros(robot.dofs), np.array([time, met.meeting]))
    model = set_model(robot, turned)
    turn = rotation_matrices(turned.quaternion)
    np.testing.assert_allclose(turn @ turned.velocity[3:6], np.radians(MOTION["tumble_deg"]), atol=1e-7)
    momentum = model.momentum()[:3]
    assert np.linalg.norm(momentum) == pytest.approx(150.0 * 0.02, rel=1e-6)


def test_the_catch_and_what_follows_are_those_of_one_tree_in_mujoco() -> None:
    """The plastic impact by MuJoCo's mass matrices, then the commands of the flight on MuJoCo's model of both."""
    mission = caught()
    assert mission.run.sound
    robot, guest = mission.flight.actuators.robot, mission.flight.table.reference_robot
    (catch,) = [outcome for outcome in mission.outcomes if outcome.stage == "catch"]
    pair = [state_at(mission, name, catch.begin, last=False) for name in (robot.name, TARGET)]
    joined, before = join(mission, *pair)
    whole, one, two = set_model(joined, before), set_model(robot, pair[0]), set_model(guest, pair[1])
    # Velocities of both from that of the joined tree.
    first, second = np.zeros((robot.dofs, joined.dofs)), np.zeros((guest.dofs, joined.dofs))
    first[:6, :6] = np.eye(6)
    for rows_of, own in ((first, robot), (second, guest)):
        for name in own.joint_names:
            rows_of[6 + own.joint_index(name), 6 + joined.joint_index(name)] = 1.0
    turn = rotation_matrices(pair[1].quaternion)
    jacobian = whole.frame_jacobian(guest.bodies[0].name)
    second[:3], second[3:6] = turn.T @ jacobian[:3], turn.T @ jacobian[3:]
    push = first.T @ one.mass_matrix() @ pair[0].velocity + second.T @ two.mass_matrix() @ pair[1].velocity
    velocity = np.linalg.solve(whole.mass_matrix(), push)
    after = [state_at(mission, name, catch.begin) for name in (robot.name, TARGET)]
    np.testing.assert_allclose(after[0].velocity, first @ velocity, atol=1e-9)
    np.testing.assert_allclose(after[1].velocity, second @ velocity, atol=1e-9)
    # Commands are held from tick to tick.
    start = State(before.position, before.quaternion, before.joints, velocity)
    log = [log for log in mission.run.commands if abs(log.begin - catch.begin) < 1e-9][-1]
    count = 50
    edges = np.append(log.times[:count], log.times[count])
    places = [joined.dof_index(name) for name in log.names]

    def force(k: int) -> Array:
        found = np.zeros(joined.dofs)
        found[places] = log.values[k]
        return found

    end = fly_mujoco(joined, start, force, edges)
    ours = join(mission, *(state_at(mission, name, float(edges[-1])) for name in (robot.name, TARGET)))[1]
    np.testing.assert_allclose(ours.vector, end.vector, atol=2e-8)
    # The propellant moves in the hand.
    assert np.abs(after[1].joints - ours.joints[[joined.joint_index(n) for n in guest.joint_names]]).max() > 1e-3


def test_the_whole_flight_is_that_of_mujoco() -> None:
    """In closed loop, before the catch as two robots, after it as one tree, whose joints are those of both."""
    checked = caught().checked
    assert checked is not None
    assert checked.applies
    assert checked.value < 1e-8


def test_poles_of_the_loop_have_the_free_joints_in_them() -> None:
    """Against the tree of both: accelerations of MuJoCo under small displacements, rates and commands."""
    mission = caught()
    flight = mission.flight
    robot, guest = flight.actuators.robot, flight.table.reference_robot
    (catch,) = [outcome for outcome in mission.outcomes if outcome.stage == "catch"]
    states = {name: state_at(mission, name, catch.begin) for name in (robot.name, TARGET)}
    world = flight.context.world
    log = [log for log in mission.run.commands if abs(log.begin - catch.begin) < 1e-9][-1]
    assert log.law is not None
    loop = loop_check._linearise_at_rest(flight.actuators, world, states, Phase(1.0, laws=log.law), log.law)
    assert loop.names[-2:] == guest.joint_names
    # At rest, with slack springs.
    still = [State(s.position, s.quaternion, s.joints.copy(), np.zeros_like(s.velocity)) for s in states.values()]
    joined, state = join(mission, *still)
    slack = state.joints.copy()
    slack[[joined.joint_index(name) for name in (*flight.actuators.soft, *guest.joint_names)]] = 0.0
    model = set_model(joined, State(state.position, state.quaternion, slack, state.velocity))
    index = [joined.dof_index(name) for name in loop.names]
    size = len(index)
    mass = model.mass_matrix()[np.ix_(index, index)]
    stiffness, damping = np.zeros(joined.dofs), np.zeros(joined.dofs)
    for joint in joined.joints:
        at = joined.dof_index(joint.name)
        stiffness[at] = 0.0 if joint.spring is None else joint.spring.stiffness
        damping[at] = joint.damping
    drive = np.linalg.solve(mass, np.eye(joined.dofs)[index][:, [joined.dof_index(name) for name in log.names]])
    np.testing.assert_allclose(loop.motion[size:, :size], -np.linalg.solve(mass, np.diag(stiffness[index])), atol=1e-6)
    np.testing.assert_allclose(loop.motion[size:, size:], -np.linalg.solve(mass, np.diag(damping[index])), atol=1e-6)
    np.testing.assert_allclose(loop.drive[size:], drive, atol=1e-7)
    # The law reads nothing of the free joints.
    assert not np.any(loop.gain[:, [size - 2, size - 1, 2 * size - 2, 2 * size - 1]])
    assert loop.is_stable(0.02)
    alone = linearise_loop(robot, states[robot.name], Phase(1.0, laws=log.law))
    assert len(alone.names) == size - 2


def test_momentum_of_all_is_that_of_both() -> None:
    """What the mission counts as angular momentum stays, with wheels alone, from the catch to the end."""
    mission = flown(**SHORT, target=SLOSHING, detumble__actuator="wheels")
    assert mission.run.sound
    assert mission.is_successful
    found = rows(mission)
    after = [found[f"budget.{stage}.momentum"] for stage in ("catch", "settle", "detumble")]
    np.testing.assert_allclose(after, found["detumble.momentum"], rtol=1e-7)
    data = mission.data()
    assert list(data["target_joint"].values) == ["target.slosh_y", "target.slosh_z"]
    assert np.abs(data["target_joint_position"].values).max() > np.radians(3.0)


def test_braked_joints_are_one_body_with_the_hull() -> None:
    """With no joint free the target is the rigid body of before; distances of resting parts are the same."""
    rigid = flown(**QUICK, target={**SLOSHING, "rates_deg": None, "free_joints": []})
    assert not rigid.flight.table.has_free_joints
    assert rigid.flight.table.rigid_robot.bodies[0].inertia.parameters == pytest.approx(
        caught().flight.table.rigid_robot.bodies[0].inertia.parameters
    )
    flight, start = caught().flight, caught().flight.met.start
    states = flight.start.vector[None]
    own, names = compute_gaps(flight.actuators, flight.table, 0.0, states, start.vector[None])
    other, _ = compute_gaps(flight.actuators, rigid.flight.table, 0.0, states, start.vector[None][:, :7])
    by_part = {name: own[0, [k for k, each in enumerate(names) if each == name]].min() for name in names}
    assert min(by_part.values()) == pytest.approx(other.min(), abs=1e-9)


def test_an_identification_that_does_not_fit_is_no_go() -> None:
    """Slosh is no part of the model: its deviations alone would call a wrong mass certain."""
    mission = flown(target=SLOSHING, stow=None, eject=None)
    worst = mission.worst
    assert (worst.stage, worst.binding_limit.name) == ("identify", "poor fit")
    found = rows(mission)
    assert found["identify.chi_square"] > 5.0
    assert found["identify.error"] > 5.0


def test_springs_throw_it_off() -> None:
    mission = flown(**{**SHORT, "eject": {}, "decide": {"mass": 100.0}}, target=SLOSHING, clearance=None)
    assert mission.run.sound
    assert [outcome.stage for outcome in mission.outcomes][-1] == "eject"
    assert mission.outcomes[-1].success
    # Energy of the springs is that of the relative motion of hand and grasp, and of what swings.
    assert rows(mission)["eject.speed"] > 0.1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"free_joints": ["sloshy"]}, "target: .*sloshy"),
        ({"rates": {"gimbal": 0.1}}, "target: rates: joint 'gimbal' is braked .expected free ones: slosh_y, slosh_z"),
        ({"grasp_frame": "propellant"}, "target: grasp_frame: frame 'propellant' is on 'propellant', which moves"),
    ],
)
def test_wrong_keys_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        flown(**QUICK, target={**SLOSHING, **changes})


def test_contacts_are_refused(tmp_path: Path) -> None:
    pair = {"first": {"frame": "servicer/hand", "kind": "sphere", "radius": 0.01},
            "second": {"frame": f"target/{GRASP}", "kind": "plane"}, "stiffness": 1e4}  # fmt: skip
    with pytest.raises(InputError, match=r"touch\.contact: is not supported with free joints of the target"):
        flown(**QUICK, target=SLOSHING, touch__contact=[pair])
