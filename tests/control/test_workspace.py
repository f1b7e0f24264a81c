"""Questions of the workspace, against plain formulas and brute force."""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import quad_vec, simpson
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation
from tests.support.arms import arm, tumbling
from tests.support.numpy_kinematics import frame_poses

from spacearm import Mechanics, control
from spacearm.control.workspace import base_disturbance
from spacearm.errors import InputError
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot
from spacearm.simulate import Phase, State, simulate, spline

MASS, INERTIA, BASE_ARM = (40.0, 4.0, 3.0), (6.0, 0.333, 0.25), 0.5


def planar() -> Robot:
    """A free base with two links of 1 m about z."""
    bodies, joints = [Body("base", Inertia(MASS[0], [0, 0, 0], np.diag([6.0, 6.0, INERTIA[0]])))], []
    for i in range(2):
        tensor = np.diag([0.3, 0.3, INERTIA[i + 1]])
        bodies.append(Body(f"link{i}", Inertia(MASS[i + 1], [0.5, 0, 0], tensor)))
        place = Pose(np.eye(3), [BASE_ARM if i == 0 else 1.0, 0, 0])
        joints.append(Joint(f"q{i}", "revolute", bodies[i].name, f"link{i}", place))
    return Robot("planar", tuple(bodies), tuple(joints), (Frame("hand", "link1", Pose(np.eye(3), [1.0, 0, 0])),))


def planar_jacobian(q: np.ndarray) -> tuple[np.ndarray, float]:
    """(2, 2) generalized Jacobian in the plane, and the hand's distance from the mass centre."""
    jacobian, _, radius = planar_motion(q)
    return jacobian, radius


def planar_motion(q: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(2, 2) generalized Jacobian, -Hb^-1 Hbm (3, 2) of the base, and the hand's distance from the mass centre.

    Written from the definition: zero momentum of three bodies, solved for the base.
    """
    angle = np.array([0.0, q[0], q[0] + q[1]])
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    shoulder = np.array([BASE_ARM, 0.0])
    elbow = shoulder + along[1]
    centre = np.array([[0.0, 0.0], shoulder + 0.5 * along[1], elbow + 0.5 * along[2]])
    hand = elbow + along[2]
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])

    def velocities(state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the centres, spins, hand: for base velocity (2), base spin, joint rates (2)."""
        v, w = state[:2], np.array([state[2], state[2] + state[3], state[2] + state[3] + state[4]])
        at_shoulder = v + w[0] * turn @ shoulder
        at_elbow = at_shoulder + w[1] * across[1]
        speeds = np.array([v, at_shoulder + 0.5 * w[1] * across[1], at_elbow + 0.5 * w[2] * across[2]])
        return speeds, w, at_elbow + w[2] * across[2]

    columns = np.eye(5)
    momentum = np.zeros((3, 5))
    hands = np.zeros((2, 5))
    for k in range(5):
        speeds, spins, hands[:, k] = velocities(columns[k])
        momentum[:2, k] = np.array(MASS) @ speeds
        angular_rate = sum(
            MASS[b] * float(np.linalg.det([centre[b], speeds[b]])) + INERTIA[b] * spins[b] for b in range(3)
        )
        momentum[2, k] = angular_rate
    base = -np.linalg.solve(momentum[:, :3], momentum[:, 3:])
    mean = np.array(MASS) @ centre / sum(MASS)
    return hands[:, 3:] + hands[:, :3] @ base, base, float(np.linalg.norm(hand - mean))


def test_singular_radii_of_a_planar_arm_by_brute_force():
    robot = planar()
    found = control.workspace(robot, "hand", {"q0": (-np.pi, np.pi), "q1": (0.3, np.pi)}, rows=(0, 1), count=25)
    # Brute force: the determinant on a grid, and where it changes sign its root.
    radii = []
    for q0 in np.linspace(-np.pi, np.pi, 25):
        line = np.linspace(0.3, np.pi, 120)

        def determinant(q1: float, q0: float = q0) -> float:
            return float(np.linalg.det(planar_jacobian(np.array([q0, q1]))[0]))

        values = np.array([determinant(q1) for q1 in line])
        for k in np.flatnonzero(np.signbit(values[1:]) != np.signbit(values[:-1])):
            radii.append(planar_jacobian(np.array([q0, brentq(determinant, line[k], line[k + 1], xtol=1e-14)]))[1])
    assert len(radii) == len(found.radii) > 8
    low, high = min(bound[0] for bound in found.singular), max(bound[1] for bound in found.singular)
    np.testing.assert_allclose([low, high], [min(radii), max(radii)], atol=1e-6)
    assert not found.path_independent(0.5 * (low + high))
    assert found.path_independent(0.5 * (high + found.reach[1]))
    assert not found.path_independent(found.reach[1] + 0.1)
    # Singular there, to the last digits, by the formula of this file.
    for q in found.configurations:
        assert abs(np.linalg.det(planar_jacobian(q)[0])) < 1e-12


def test_virtual_manipulator_leads_from_the_mass_centre_to_the_hand():
    robot = arm(7)
    links = control.virtual_manipulator(robot, "hand")
    for seed in range(5):
        state = tumbling(robot, seed)
        poses = frame_poses(robot, state.joints)
        turn = Rotation.from_quat(np.roll(state.quaternion, -1)).as_matrix()
        chain = sum(poses[name][:3, :3] @ vector for name, vector in links.items())
        mechanics = Mechanics(robot)
        hand = mechanics.frame_pose("hand", state.joints, base=state.pose)[0]
        centre = mechanics.centre_of_mass(state.joints, base=state.pose)
        np.testing.assert_allclose(turn @ chain, hand - centre, atol=1e-12)


def test_a_closed_loop_of_the_joints_turns_the_base_and_back():
    """In the plane the base turns by the line integral of -Hb^-1 Hbm; backwards by as much the other way."""
    robot, duration = planar(), 10.0
    circle = [0.3, 0.8, 0.9, 1.1]  # centres and radii, rad

    def rates(t: float) -> tuple[np.ndarray, np.ndarray]:
        s, ds = t / duration, 1.0 / duration
        phase, speed = 2 * np.pi * (3 * s**2 - 2 * s**3), 2 * np.pi * (6 * s - 6 * s**2) * ds
        q = np.array([circle[0] + circle[2] * np.cos(phase), circle[1] + circle[3] * np.sin(phase)])
        return q, speed * np.array([-circle[2] * np.sin(phase), circle[3] * np.cos(phase)])

    def turn(t: float) -> np.ndarray:
        q, rate = rates(t)
        np.testing.assert_allclose(base_disturbance(robot, q)[5], planar_motion(q)[1][2], atol=1e-12)
        return planar_motion(q)[1][2] @ rate

    expected = float(quad_vec(turn, 0.0, duration, epsabs=1e-12)[0])
    assert abs(expected) > 0.05
    times = np.linspace(0.0, duration, 801)
    table = np.array([rates(t)[0] for t in times])

    for sign in (1, -1):
        paths = {f"q{i}": spline(times, table[::sign, i]) for i in range(2)}
        run = simulate(robot, State.at_rest(robot, table[0]), Phase(duration, driven=paths))
        assert run.sound
        angle = 2 * np.arctan2(run.states[-1, 6], run.states[-1, 3])
        assert angle == pytest.approx(sign * expected, abs=1e-8)


def test_a_closed_loop_of_the_hand_turns_the_base_and_back():
    """The hand goes round a circle by a law, then round it backwards: the base has turned by the line integral of
    -Hb^-1 Hbm over the joints' path, and back."""
    robot, duration = planar(), 10.0
    start = State.at_rest(robot, [-0.6, 1.6])
    hand = Mechanics(robot).frame_pose("hand", start.joints)[0]
    s = np.linspace(0.0, 1.0, 401)
    angle = 2 * np.pi * (10 * s**3 - 15 * s**4 + 6 * s**5)
    circle = hand[:, None] + 0.2 * np.stack([np.cos(angle) - 1.0, np.sin(angle), 0 * angle])

    def law(sign: int) -> control.Law:
        def build(plant: control.Plant) -> control.Commands:
            wanted, rate, acceleration = plant.reference("hand")
            at, twist = plant.pose("hand").origin[:2], plant.twist("hand")[:2]
            asked = acceleration + 8.0 * (rate - twist) + 16.0 * (wanted - at) - plant.drift("hand")[:2]
            (a, b), (c, d) = (ca.horzsplit(row) for row in ca.vertsplit(plant.generalized_jacobian("hand")[:2, :]))
            area, (x, y) = a * d - b * c, ca.vertsplit(asked)
            return control.Commands(accelerations={"q0": (d * x - b * y) / area, "q1": (a * y - c * x) / area})

        paths = [spline(duration * s, circle[k][::sign]) for k in range(2)]
        return control.Law(build, period=None, references={"hand": paths})

    times = np.linspace(0.0, duration, 401)
    there = simulate(robot, start, Phase(duration, laws=law(1)), sample=times)
    back = simulate(robot, there.end, Phase(duration, laws=law(-1)), sample=times)
    turns = []
    for run in (there, back):
        assert run.sound
        rates = [planar_motion(row[7:9])[1][2] @ row[15:17] for row in run.states]
        turned = 2 * np.arctan2(run.states[[0, -1], 6], run.states[[0, -1], 3])
        turns.append(float(np.diff(turned)[0]))
        assert turns[-1] == pytest.approx(float(simpson(rates, x=times)), abs=1e-7)
    assert abs(turns[0]) > 0.01
    assert turns[1] == pytest.approx(-turns[0], abs=1e-7)


def test_manipulability_is_zero_at_the_singular_configurations():
    robot = planar()
    found = control.workspace(robot, "hand", {"q0": (-3.0, 3.0), "q1": (0.3, np.pi)}, rows=(0, 1), count=21)
    at_them = control.dynamic_manipulability(robot, "hand", found.configurations, rows=(0, 1))
    assert at_them.max() < 1e-6
    assert control.dynamic_manipulability(robot, "hand", [0.4, 1.2], rows=(0, 1)) > 0.1
    with pytest.raises(InputError, match="2 joints cannot move a frame in 6 directions"):
        control.dynamic_manipulability(robot, "hand", [0.4, 1.2])
    with pytest.raises(InputError, match="as many joints as rows"):
        control.workspace(robot, "hand", {"q0": (0.0, 1.0)}, rows=(0, 1))


def test_a_slide_has_no_virtual_manipulator():
    slide = Joint("x", "prismatic", "base", "block")
    bodies = (Body("base", Inertia(1.0, tensor=np.eye(3))), Body("block", Inertia(1.0, tensor=np.eye(3))))
    with pytest.raises(InputError, match="prismatic"):
        control.virtual_manipulator(Robot("slider", bodies, (slide,)), "block")
