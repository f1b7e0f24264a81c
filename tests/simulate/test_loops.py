"""Runs with closed loops: Lagrange's equation, published references, MuJoCo, drift, and changes that close and open."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm import (
    Body,
    Dopri853,
    Frame,
    Inertia,
    InputError,
    Joint,
    Mechanics,
    Phase,
    State,
    World,
    cross_check,
    simulate,
)
from spacearm.model import Loop, Robot
from spacearm.model.mjcf_write import mjcf_text
from spacearm.simulate import RK4, Attach, Close, Detach, Gravity, Lock, Open, close_loops, close_state
from spacearm.simulate.loops import loop_gap
from support.linkages import BARS, at, dual_arm, four_bar, reduced_inertia, solve_four_bar

START = {"crank": 0.9, "coupler": -0.6, "rocker": 1.2}


def moving(robot: Robot, rate: float = 1.5, **base: float) -> State:
    """The linkage with its crank at 0.9 rad in motion."""
    state = State.at_rest(robot, {key: value for key, value in START.items() if key in robot.joint_names})
    velocity = state.velocity.copy()
    velocity[robot.dof_index("crank")] = rate
    for name, value in base.items():
        velocity[robot.dof_index(name)] = value
    return close_state(robot, State(state.position, state.quaternion, state.joints, velocity), held=["crank"])


def test_four_bar_by_lagrange():
    """One angle: (I rate^2 / 2)' = torque rate, with Freudenstein's positions."""
    robot = four_bar(base="held")
    state, torque, end = moving(robot), 0.02, 3.0

    def rate(_: float, y: np.ndarray) -> list[float]:
        step = 1e-5
        slope = (reduced_inertia(y[0] + step) - reduced_inertia(y[0] - step)) / (2 * step)
        return [y[1], (torque - 0.5 * slope * y[1] ** 2) / reduced_inertia(y[0])]

    expected = solve_ivp(rate, (0.0, end), [0.9, 1.5], method="DOP853", rtol=1e-12, atol=1e-13)
    run = simulate(robot, state, Phase(end, forces={"crank": torque}), sample=0.05)
    assert run.sound
    assert run.end.joints[0] == pytest.approx(expected.y[0, -1], abs=1e-9)
    assert run.end.rates[0] == pytest.approx(expected.y[1, -1], abs=1e-8)
    # Where coupler and rocker are follows in closed form, at every sample.
    for crank, coupler, rocker in run.states[:, 7:10]:
        absolute, angle = (value.real for value in solve_four_bar(complex(crank)))
        assert abs(np.exp(1j * (crank + coupler)) - np.exp(1j * absolute)) < 1e-9
        assert abs(np.exp(1j * rocker) - np.exp(1j * angle)) < 1e-9
    # The force on the rocker's end turns the rocker: r x F = I alpha about its pivot.
    acceleration = run.data["acceleration"].values[:, 6:]
    force, angles = run.loop_forces["bar"], run.states[:, 7:10]
    mass, centre, inertia = BARS["rocker"]
    turn = angles[:, 0] + angles[:, 1]
    pull = np.stack([np.cos(turn) * force[:, 0] - np.sin(turn) * force[:, 1],
                     np.sin(turn) * force[:, 0] + np.cos(turn) * force[:, 1]])  # fmt: skip
    moment = 0.3 * (np.cos(angles[:, 2]) * pull[1] - np.sin(angles[:, 2]) * pull[0])
    np.testing.assert_allclose(moment, (inertia + mass * centre**2) * acceleration[:, 2], atol=1e-9)


def test_double_four_bar_of_the_iftomm_benchmark():
    """A mechanism that passes positions in which all its bars lie in a line, against Exudyn.

    ``main/pythonDev/TestModels/fourBarMechanismIftomm.py`` gives the tip of the first bar after 10 s for halved steps:
    (0.3284573768, 0.9445187937) and, with twice the step, (0.3284552113, 0.9445195467); extrapolated here.
    """
    rod = Inertia(1.0, (0.5, 0.0, 0.0), np.diag([0.0, 1 / 12, 1 / 12]))
    bodies, joints = [Body("ground", Inertia(1.0, tensor=np.eye(3)))], []
    for name, parent, x in (("a", "ground", 0), ("ab", "a", 1), ("b", "ground", 1), ("bc", "b", 1), ("c", "ground", 2)):
        bodies.append(Body(name, rod))
        joints.append(Joint(name, "revolute", parent, name, at(float(x))))
    frames = tuple(Frame(f"{name} end", name, at(1.0)) for name in ("ab", "bc", "b", "c"))
    loops = (Loop("first", "axis", "ab end", "b end"), Loop("second", "axis", "bc end", "c end"))
    robot = Robot("double four-bar", tuple(bodies), tuple(joints), frames, base="held", loops=loops)
    angles, rates = {"a": 1, "ab": -1, "b": 1, "bc": -1, "c": 1}, {"a": -1, "ab": 1, "b": -1, "bc": 1, "c": -1}
    start = State.from_velocities(
        robot,
        np.array([0.5 * np.pi * angles[name] for name in robot.joint_names]),
        np.array([float(rates[name]) for name in robot.joint_names]),
    )
    run = simulate(World({"linkage": robot}, elements=(Gravity((0.0, -9.81, 0.0)),)), start, 10.0, sample=0.5)
    assert run.sound
    fine, coarse = np.array([0.3284573768, 0.9445187937]), np.array([0.3284552113, 0.9445195467])
    tip = np.array([np.cos(run.end.joints[0]), np.sin(run.end.joints[0])])
    np.testing.assert_allclose(tip, fine + (fine - coarse) / 3, atol=1e-7)


def test_mujoco_converges_to_it_as_its_constraints_stiffen():
    robot = four_bar("point", 1)
    state = moving(robot, base_vx=0.1, base_wy=0.2, q0=0.3)
    with pytest.warns(UserWarning, match="soft constraints"):
        text = mjcf_text(robot)
    gaps = []
    for step in (1e-3, 5e-4, 2.5e-4):
        soft = text.replace("<option ", f'<option integrator="RK4" timestep="{step}" ')
        soft = soft.replace("<connect ", f'<connect solref="{4 * step} 1" solimp="0.9999 0.9999 0.001" ')
        model = mujoco.MjModel.from_xml_string(soft)
        data = mujoco.MjData(model)
        order = [model.joint(name).qposadr[0] for name in robot.joint_names]
        data.qpos[3:7] = state.quaternion
        data.qpos[order] = state.joints
        data.qvel[:6] = state.velocity[:6]
        data.qvel[[model.joint(name).dofadr[0] for name in robot.joint_names]] = state.rates
        for _ in range(round(1.0 / step)):
            mujoco.mj_step(model, data)
        ours = simulate(robot, state, 1.0).end
        gaps.append(np.abs(data.qpos[order] - ours.joints).max())
    assert gaps[0] > 1.8 * gaps[1] > 3.2 * gaps[2]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize(("kind", "arm"), [("axis", 2), ("point", 0)])
def test_run_and_changes_agree_with_mujocos_terms(kind, arm):
    robot = four_bar(kind, arm)
    state = moving(robot, base_vy=0.2, base_wx=0.1)
    run = simulate(robot, state, [Phase(0.7, forces={"crank": 0.05}), Lock("crank"), Phase(0.3)], sample=0.1)
    assert run.sound
    assert run.changes[0].lost > 0.0
    assert cross_check(run).largest < 2e-9


def test_no_drift_in_an_hour():
    """5e-12 m with these tolerances; with a run's own mostly 1e-13 m, 5e-10 m at some samples between steps."""
    robot = four_bar("axis", 2)
    start = moving(robot, base_vx=0.1, base_wz=-0.2, q0=0.2, q1=0.3)
    run = simulate(robot, start, 3600.0, method=Dopri853(1e-12, 1e-14), sample=1.0)
    assert run.sound
    assert loop_gap(robot, run.states[:, 7:12]).max() < 1e-10
    assert run.certificate["energy"].value < 1e-10
    assert run.certificate["angular_momentum"].value < 1e-10
    plain = simulate(robot, start, 300.0, sample=1.0)
    assert plain.sound
    assert loop_gap(robot, plain.states[:, 7:12]).max() < 1e-9


def test_fixed_steps_keep_loops():
    robot = four_bar("axis", 1)
    run = simulate(robot, moving(robot), 20.0, method=RK4(1e-3), sample=1.0)
    assert run.sound
    assert loop_gap(robot, run.states[:, 7:11]).max() < 1e-9


def test_two_arms_on_one_target():
    """The target is caught, held by both hands, and let go; momentum stays, and MuJoCo's terms say the same."""
    servicer = dual_arm()
    start = State.at_rest(
        servicer, {"left.q0": 0.4, "left.q1": -0.9, "left.q2": 0.2, "right.q0": -0.4, "right.q1": 0.9}
    )
    hand, _ = Mechanics(servicer).frame_pose("left hand", start.joints)
    body = Body("target", Inertia(80.0, (0.1, 0.0, 0.0), np.diag([8.0, 9.0, 10.0])))
    drifting = State(
        hand + np.array([0.2, -0.3, 0.0]), [1.0, 0.0, 0.0, 0.0], [], [-0.05, 0.02, 0.01, 0.02, 0.03, -0.04]
    )
    world = World({"servicer": servicer, "target": Robot("target", (body,))})
    held = [Attach("target", "servicer/left hand"), Phase(0.5), Close("left hand", "right hand"), Phase(3.0)]
    items = [Phase(0.2), *held, Open("left hand+right hand"), Phase(0.2), Detach("target"), Phase(0.2)]
    run = simulate(world, {"servicer": start, "target": drifting}, items, sample=0.1)
    assert run.sound
    assert [entry.text for entry in run.changes][1:3] == [
        "right hand joined to left hand", "left hand+right hand opened",
    ]  # fmt: skip
    assert run.changes[1].lost > 0.0
    closed = next(track for track in run.tracks if track.loop_forces)
    # The hands stay as they took hold of each other.
    mechanics = Mechanics(servicer)
    gaps = []
    for row in closed.states:
        (p1, r1), (p2, r2) = (
            mechanics.frame_pose(name, row[7:13], base=row[:7]) for name in ("left hand", "right hand")
        )
        gaps.append(np.concatenate([r1.T @ (p2 - p1), (r1.T @ r2).ravel()]))
    assert np.ptp(np.array(gaps), axis=0).max() < 1e-9
    assert np.abs(closed.loop_forces["left hand+right hand"]).max() > 1e-3
    assert {track.name for track in run.tracks} == {"servicer", "target"}
    assert cross_check(run).largest < 1e-9


def test_a_plastic_impact_that_closes_a_loop_is_gauss_principle():
    """Of all velocities with J v = 0 the one after the impact is nearest in the metric of the mass matrix."""
    servicer = dual_arm()
    start = State.at_rest(servicer, {"left.q0": 0.4, "left.q1": -0.9, "right.q0": -0.4, "right.q1": 0.9})
    start = State(start.position, start.quaternion, start.joints, np.linspace(-0.5, 0.5, 12))
    change = Close("left hand", "right hand", kind="point").apply(World({"s": servicer}), {"s": start})
    after, mass = change.states["s"].velocity, Mechanics(servicer).mass_matrix(start.joints)
    left, right = (Mechanics(servicer).jacobian(f"{side} hand", start.joints) for side in ("left", "right"))
    point = Mechanics(servicer).frame_pose("left hand", start.joints)[0]
    arm = point - Mechanics(servicer).frame_pose("right hand", start.joints)[0]
    rows = right[:3] + np.cross(right[3:].T, arm).T - left[:3]
    np.testing.assert_allclose(rows @ after, 0.0, atol=1e-12)
    system = np.block([[mass, rows.T], [rows, np.zeros((3, 3))]])
    right_side = np.concatenate([mass @ start.velocity, np.zeros(3)])
    np.testing.assert_allclose(after, np.linalg.lstsq(system, right_side, rcond=None)[0][:12], atol=1e-10)


def test_configurations_that_close():
    robot = four_bar()
    q = close_loops(robot, {"crank": 0.9, "rocker": 1.0}, held=["crank"])
    coupler, rocker = (value.real for value in solve_four_bar(complex(0.9)))
    np.testing.assert_allclose(np.exp(1j * q), np.exp(1j * np.array([0.9, coupler - 0.9, rocker])), atol=1e-13)
    with pytest.raises(InputError, match="cannot be closed from there"):
        close_loops(robot, {"crank": 0.9, "rocker": 0.1}, held=["crank", "rocker"])
    state = State.at_rest(robot, {"crank": 0.9})
    with pytest.raises(InputError, match=r"are open by .* at the start.*close_state"):
        simulate(robot, state, 1.0)
    shut = close_state(robot, state, held=["crank"])
    opening = State(shut.position, shut.quaternion, shut.joints, np.eye(9)[7])
    with pytest.raises(InputError, match="open at"):
        simulate(robot, opening, 1.0)


def test_a_hand_on_a_loop_reaches_its_place():
    """Inverse kinematics: the loop with a further one, from the hand to where it is to be."""
    robot = four_bar("axis", 3)
    goal = Frame("goal", "base", at(0.1, 0.25, 1.0))
    reached = robot.replace(
        frames=(*robot.frames, goal), loops=(*robot.loops, Loop("reach", "point", "goal", "rocker end"))
    )
    q = close_loops(reached, START)
    hand, _ = Mechanics(robot).frame_pose("rocker end", q)
    np.testing.assert_allclose(hand, [0.1, 0.25, 1.0], atol=1e-12)
    assert loop_gap(robot, q) < 1e-12


def test_refusals():
    servicer = dual_arm()
    start = State.at_rest(servicer)
    world = World({"servicer": servicer, "target": Robot("target", (Body("target", Inertia(1.0, tensor=np.eye(3))),))})
    states = {"servicer": start, "target": State.at_rest(world.systems["target"])}
    with pytest.raises(InputError, match="there is no loop 'x'"):
        Open("x").apply(world, states)
    with pytest.raises(InputError, match="Close joins two frames of one"):
        Attach("servicer", "servicer/left hand").apply(world, states)
    linkage = four_bar("axis")
    with pytest.raises(InputError, match="closed loops cannot move like this"):
        Lock(["crank", "rocker"], held=["coupler"]).apply(World({"x": linkage}), {"x": moving(linkage)})
