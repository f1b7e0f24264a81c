"""Kinematics and mass properties of a robot in plain NumPy, by the definitions alone, and robots drawn at random.

Independent of spacearm's mechanics: Rodrigues' formula, positions, sums over bodies.
"""

from __future__ import annotations

import numpy as np

from spacearm.model import (
    Body,
    Coupling,
    Frame,
    Friction,
    Inertia,
    Joint,
    Limits,
    Pose,
    Robot,
    Rotor,
    Spring,
    Thruster,
)


def turn(axis, angle):
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def body_poses(robot, q, base=None):
    """4 x 4 poses by body name; the base at ``base`` (identity if not given)."""
    poses = {robot.bodies[0].name: np.eye(4) if base is None else base}
    for joint, value in zip(robot.joints, q, strict=True):
        place, move = np.eye(4), np.eye(4)
        place[:3, :3], place[:3, 3] = joint.placement.rotation, joint.placement.translation
        if joint.kind == "revolute":
            move[:3, :3] = turn(joint.axis, value)
        else:
            move[:3, 3] = joint.axis * value
        poses[joint.child] = poses[joint.parent] @ place @ move
    return poses


def frame_poses(robot, q):
    poses = body_poses(robot, q)
    for frame in robot.frames:
        place = np.eye(4)
        place[:3, :3], place[:3, 3] = frame.placement.rotation, frame.placement.translation
        poses[frame.name] = poses[frame.body] @ place
    return poses


def mass_properties(robot, q):
    """(mass, mass centre, tensor about it) of everything at this configuration, base axes; rotors not counted."""
    poses = body_poses(robot, q)
    mass = sum(body.inertia.mass for body in robot.bodies)
    coms = {b.name: poses[b.name][:3, :3] @ b.inertia.com + poses[b.name][:3, 3] for b in robot.bodies}
    com = sum(b.inertia.mass * coms[b.name] for b in robot.bodies) / mass
    tensor = np.zeros((3, 3))
    for body in robot.bodies:
        rotation, arm = poses[body.name][:3, :3], coms[body.name] - com
        tensor += rotation @ body.inertia.tensor @ rotation.T
        tensor += body.inertia.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return mass, com, tensor


def mass_matrix(robot, q):
    """The (6 + n) mass matrix, rotors included; base velocity of the base's origin, base axes."""
    poses, n = body_poses(robot, q), len(robot.joints)
    angular_rate = {robot.bodies[0].name: np.hstack([np.zeros((3, 3)), np.eye(3), np.zeros((3, n))])}
    speed = {robot.bodies[0].name: np.hstack([np.eye(3), np.zeros((3, 3 + n))])}

    def at(body, point):
        arm = point - poses[body][:3, 3]
        return speed[body] + np.cross(angular_rate[body].T, arm).T

    total = np.zeros((6 + n, 6 + n))
    for i, joint in enumerate(robot.joints):
        axis = poses[joint.child][:3, :3] @ joint.axis
        speed[joint.child] = at(joint.parent, poses[joint.child][:3, 3])
        angular_rate[joint.child] = angular_rate[joint.parent].copy()
        (angular_rate if joint.kind == "revolute" else speed)[joint.child][:, 6 + i] += axis
        if joint.rotor is not None:
            rate = poses[joint.parent][:3, :3] @ joint.placement.rotation @ joint.axis @ angular_rate[joint.parent]
            rate[6 + i] += joint.rotor.ratio
            total += joint.rotor.inertia * np.outer(rate, rate)
    for body in robot.bodies:
        pose = poses[body.name]
        linear = at(body.name, pose[:3, :3] @ body.inertia.com + pose[:3, 3])
        angular = pose[:3, :3].T @ angular_rate[body.name]
        total += body.inertia.mass * linear.T @ linear + angular.T @ body.inertia.tensor @ angular
    return total


# -- robots drawn at random --------------------------------------------------------------------------------------


def random_rotation(rng):
    axis = rng.normal(size=3)
    return turn(axis / np.linalg.norm(axis), rng.uniform(-3, 3))


def random_pose(rng):
    return Pose(random_rotation(rng), rng.uniform(-1, 1, 3))


def random_inertia(rng):
    points = rng.normal(size=(6, 3)) * rng.uniform(0.1, 0.5, 3)
    arms = points - points.mean(0)
    mass = rng.uniform(1, 20)
    tensor = mass / 6 * sum(a @ a * np.eye(3) - np.outer(a, a) for a in arms)
    return Inertia(mass, rng.uniform(-0.3, 0.3, 3), tensor)


def random_axis(rng):
    axis = rng.normal(size=3)
    return axis / np.linalg.norm(axis)


def random_robot(seed, joints=5, *, passive=False, massless=False, rotors=False, frames=True):
    """A tree with skew placements; ``massless`` puts rows of compliant axes into it."""
    rng = np.random.default_rng(seed)
    bodies, parts = [Body("base", random_inertia(rng))], []
    carriers = ["base"]
    for i in range(joints):
        parent = carriers[rng.integers(max(0, len(carriers) - 2), len(carriers))]
        row = int(rng.integers(1, 4)) if massless else 1
        for k in range(row):
            last = k == row - 1
            child = f"body{i}" if last else f"body{i}.{k}"
            kind = "revolute" if rng.random() < 0.7 else "prismatic"
            extra = {}
            if passive:
                extra = {
                    "spring": Spring(rng.uniform(1, 9), rng.uniform(-1, 1)) if rng.random() < 0.5 else None,
                    "damping": rng.uniform(0, 2),
                    "limits": Limits(-rng.uniform(1, 2), rng.uniform(1, 2), effort=rng.uniform(5, 9)),
                    "friction": Friction(0.3, 0.3) if rng.random() < 0.3 else None,
                }
            if rotors and kind == "revolute" and rng.random() < 0.7:
                extra["rotor"] = Rotor(rng.uniform(1e-5, 1e-4), rng.uniform(1, 100))
            name = f"joint{i}" if last else f"joint{i}.{k}"
            parts.append(Joint(name, kind, parent, child, random_pose(rng), random_axis(rng), **extra))
            bodies.append(Body(child, random_inertia(rng) if last else Inertia.massless()))
            parent = child
        carriers.append(parent)
    made = [Frame(f"frame{i}", carriers[rng.integers(len(carriers))], random_pose(rng)) for i in range(3)]
    couplings = []
    if passive and joints > 1:
        couplings = [Coupling("c", parts[0].name, parts[-1].name, 3.0, 0.5, 2.5, 0.4)]
    return Robot(
        f"random{seed}",
        tuple(bodies),
        tuple(parts),
        tuple(made) if frames else (),
        thrusters=(Thruster("t", carriers[-1], rng.uniform(-1, 1, 3), random_axis(rng), 5.0),) if passive else (),
        couplings=tuple(couplings),
    )


def close_robots(one, two, tolerance=1e-12):
    """Nothing differs by more than ``tolerance``: names, tree, numbers; passive laws exactly."""
    assert (one.name, one.body_names, one.joint_names) == (two.name, two.body_names, two.joint_names)
    assert [(f.name, f.body) for f in one.frames] == [(f.name, f.body) for f in two.frames]
    pairs = []
    for a, b in zip(one.bodies, two.bodies, strict=True):
        assert (a.inertia.mass == 0) == (b.inertia.mass == 0)
        pairs += [(a.inertia.parameters, b.inertia.parameters)]
    for a, b in zip(one.joints, two.joints, strict=True):
        assert (a.kind, a.parent, a.child, a.limits) == (b.kind, b.parent, b.child, b.limits)
        assert (a.damping, a.friction) == (b.damping, b.friction)
        pairs += [(a.axis, b.axis)]
    for a, b in zip((*one.joints, *one.frames), (*two.joints, *two.frames), strict=True):
        pairs += [(a.placement.rotation, b.placement.rotation), (a.placement.translation, b.placement.translation)]
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
