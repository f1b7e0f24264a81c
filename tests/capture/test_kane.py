"""The engine against Kane's equations as the paper derives them (corrected), for random chains and states."""

import numpy as np
import pytest

from spacearm.capture import SoftAxis, SoftJoint, soften
from spacearm.capture.soft_joints import AXES
from spacearm.mechanics.motion import LoadFrame
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.simulate.motion import robot_motion
from support.kane import KaneChain, attitude, shafts, shafts_rate
from support.random_robots import point_mass_inertia

LOADS = (LoadFrame("hand", "frame"),)


def _chain(rng: np.random.Generator, joints: int) -> KaneChain:
    bodies = [point_mass_inertia(rng, rng.uniform(2.0, 50.0), 0.4, 0.2) for _ in range(joints + 1)]
    return KaneChain(
        np.array([body.mass for body in bodies]),
        np.array([body.tensor for body in bodies]),
        rng.normal(size=(joints + 1, 3)),
        np.array([body.com for body in bodies]),
        rng.uniform(5.0, 80.0, (joints, 2, 3)),
        rng.uniform(0.0, 5.0, (joints, 2, 3)),
    )


def _robot(chain: KaneChain, axes: tuple[str, ...]) -> Robot:
    """The same chain as a robot with soft joints."""
    count = len(chain.mass)
    bodies = [Body(f"segment{k}", Inertia(chain.mass[k], chain.centroid[k], chain.inertia[k])) for k in range(count)]
    joints = [
        Joint(f"joint{k}", "revolute", f"segment{k - 1}", f"segment{k}", Pose(np.eye(3), chain.end[k - 1]))
        for k in range(1, count)
    ]
    hand = Frame("hand", f"segment{count - 1}", Pose(np.eye(3), chain.end[-1]))
    robot = Robot("chain", tuple(bodies), tuple(joints), (hand,))
    for k in range(1, count):
        laws = {}
        for axis in axes:
            part, column = int(axis.startswith("rotation")), "xyz".index(axis[-1])
            laws[axis] = SoftAxis(chain.stiffness[k - 1, part, column], chain.damping[k - 1, part, column])
        robot = soften(robot, f"joint{k}", SoftJoint(**laws), where="instead")
    return robot


def _engine(robot, axes, s, theta, s_rate, theta_rate, wrench):
    """(s-double-dot, theta-double-dot) by the motion kernel, in Kane's coordinates."""
    count = len(s)
    rotation = attitude(theta[0])
    angular_velocity = shafts(theta[0]) @ theta_rate[0]
    q, rates = np.zeros(robot.n), np.zeros(robot.n)
    place = {}
    for k in range(1, count):
        for axis in axes:
            part, column = int(axis.startswith("rotation")), "xyz".index(axis[-1])
            index = robot.joint_index(f"joint{k}.{axis}")
            place[k, part, column] = index
            q[index] = (theta if part else s)[k, column]
            rates[index] = (theta_rate if part else s_rate)[k, column]
    velocity = np.concatenate([rotation.T @ s_rate[0], rotation.T @ angular_velocity, rates])
    state = np.concatenate([s[0], quaternion_from_rotation(rotation), q, velocity])
    model = robot_motion(robot, LOADS, False)
    given = model.input(model.parameters())
    given[model.kernel.inputs["state"]] = state
    given[model.kernel.inputs["wrench"]] = wrench
    inputs = {name: given[where] for name, where in model.kernel.inputs.items() if where.stop > where.start}
    change = model.kernel(inputs)["rate"][7 + robot.n :]
    sliding, angles = np.zeros((count, 3)), np.zeros((count, 3))
    # v = A^T s-dot, so s-double-dot = A v-dot + omega x s-dot; omega in world axes: omega-dot = A (d/dt of base axes).
    sliding[0] = rotation @ change[:3] + np.cross(angular_velocity, s_rate[0])
    turning = rotation @ change[3:6]
    angles[0] = np.linalg.solve(shafts(theta[0]), turning - shafts_rate(theta[0], theta_rate[0]) @ theta_rate[0])
    for (k, part, column), index in place.items():
        (angles if part else sliding)[k, column] = change[6 + index]
    return sliding, angles


@pytest.mark.parametrize("joints", [1, 2, 3, 4])
@pytest.mark.parametrize("axes", [AXES, ("slide_z", "rotation_x", "rotation_y", "rotation_z")], ids=["six", "four"])
def test_engine_agrees_with_kane(joints, axes):
    rng = np.random.default_rng(100 * joints + len(axes))
    chain = _chain(rng, joints)
    robot = _robot(chain, axes)
    free = np.ones((joints + 1, 2, 3), dtype=bool)
    free[1:, 0] = [f"slide_{way}" in axes for way in "xyz"]
    for _ in range(10):
        s, s_rate = rng.normal(size=(2, joints + 1, 3)) * free[:, 0]
        theta = rng.uniform(-1.0, 1.0, (joints + 1, 3))
        theta_rate = rng.normal(size=(joints + 1, 3))
        wrench = rng.normal(size=6) * 20.0
        ours = _engine(robot, axes, s, theta, s_rate, theta_rate, wrench)
        theirs = chain.acceleration(s, theta, s_rate, theta_rate, wrench[:3], wrench[3:], free)
        for mine, kane in zip(ours, theirs, strict=True):
            assert np.abs(mine - kane).max() < 1e-10 * max(1.0, np.abs(kane).max())


def test_shafts_are_the_axes_of_eq_4():
    rng = np.random.default_rng(1)
    theta, rate = rng.uniform(-1, 1, 3), rng.normal(size=3)
    step = 1e-6
    turned = (attitude(theta + step * rate) - attitude(theta - step * rate)) / (2 * step) @ attitude(theta).T
    omega = np.array([turned[2, 1], turned[0, 2], turned[1, 0]])
    np.testing.assert_allclose(shafts(theta) @ rate, omega, atol=1e-9)
    numeric = (shafts(theta + step * rate) - shafts(theta - step * rate)) / (2 * step)
    np.testing.assert_allclose(shafts_rate(theta, rate), numeric, atol=1e-9)
