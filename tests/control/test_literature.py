"""Cases of the literature on stopping a tumbling target, as far as what is printed gives them.

- F. Aghili, Coordination control of a free-flying manipulator and its base attitude to capture and detumble a
  noncooperative satellite, IROS 2009: the shortest time in which a moment of bounded size stops a tumbling body.
- Vyas 2022, detumbling by a planar three-link arm: base 100 kg and 66.66 kg m2, links of 10, 8 and 4 kg, target 50 kg
  and 3 kg m2 that turns at 5 deg/s, limits 2.5 N m (joints), 2 N and 0.5 N m (at the grasp). Lengths and inertias of
  the links, the configuration and the histories of the plan are not recoverable: uniform links of 1 m are taken, and
  what is checked holds for any.
- Turn of the base by closed loops of the joints (Vafa and Dubowsky 1990): see test_workspace.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from spacearm import Mechanics, control
from spacearm.control.workspace import base_disturbance
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot
from spacearm.simulate import Attach, Dopri853, Phase, Run, State, World, simulate

SPIN, TARGET_MASS, TARGET_INERTIA = np.deg2rad(5.0), 50.0, 3.0
LIMITS = 2.5, 2.0, 0.5  # N m of a joint, N and N m at the grasp


def test_no_moment_of_a_given_size_stops_a_tumbling_body_sooner() -> None:
    """Aghili's closed form: against the angular momentum, whose size then falls evenly, its direction being kept."""
    tensor, angular_rate, torque = np.diag([16.0, 25.0, 30.0]), np.array([0.05, -0.08, 0.03]), 0.4
    body = Robot("target", (Body("target", Inertia(500.0, np.zeros(3), tensor)),))
    start = State.from_velocities(body, np.zeros(0), base_angular_velocity=angular_rate)
    whole = np.linalg.norm(tensor @ angular_rate)
    run = simulate(body, start, Phase(20.0, laws=control.detumble(torque)), sample=0.1, method=Dopri853(1e-13, 1e-15))
    assert run.sound
    assert run.end_time == pytest.approx(whole / torque, abs=1.1e-8)  # the law leaves 1e-8 s of it
    momenta = Mechanics(body).momentum(run.states[:, 7:7], run.states[:, 7:], base=run.states[:, :7], about="com")[
        :, 3:
    ]
    np.testing.assert_allclose(
        momenta, np.outer(1.0 - run.times * torque / whole, tensor @ angular_rate), atol=1e-9 * whole
    )
    rates = run.states[:, 10:13]
    assert np.ptp(rates[:-1] / np.linalg.norm(rates[:-1], axis=1)[:, None], axis=0).max() > 0.01  # it does tumble


def servicer() -> Robot:
    """Base and three links about z, in a plane."""
    masses = (10.0, 8.0, 4.0)
    bodies, joints = [Body("base", Inertia(100.0, np.zeros(3), np.diag([66.66] * 3)))], []
    for i, mass in enumerate(masses):
        bodies.append(Body(f"link{i + 1}", Inertia(mass, [0.5, 0.0, 0.0], np.diag([0.01 * mass, *[mass / 12] * 2]))))
        place = Pose(np.eye(3), [0.5 if i == 0 else 1.0, 0.0, 0.0])
        joints.append(Joint(f"joint{i + 1}", "revolute", bodies[i].name, bodies[i + 1].name, place))
    return Robot("servicer", tuple(bodies), tuple(joints), (Frame("hand", "link3", Pose(np.eye(3), [1.0, 0.0, 0.0])),))


def stopped(duration: float) -> tuple[Run, float]:
    """The hand meets the target's motion, latches, and the arm comes to rest evenly; and what the latch lost, J."""
    arm, reach = servicer(), 0.4  # m from the grasped point to the target's mass centre
    target = Robot("target", (Body("target", Inertia(TARGET_MASS, np.zeros(3), np.diag([TARGET_INERTIA] * 3))),))
    joints = np.deg2rad([30.0, 40.0, -50.0])
    mechanics = Mechanics(arm)
    matrix = mechanics.generalized_jacobian("hand", joints)[[0, 1, 5]]
    hand, turn = mechanics.frame_pose("hand", joints)
    centre = hand + turn @ [reach, 0.0, 0.0]
    grasped = SPIN * np.cross([0.0, 0.0, 1.0], hand - centre)
    rates = np.linalg.solve(matrix, [grasped[0], grasped[1], SPIN])
    begin = State.at_rest(arm, joints)
    begin = State(begin.position, begin.quaternion, joints, [*base_disturbance(arm, joints) @ rates, *rates])
    spinning = State.from_velocities(target, np.zeros(0), position=centre, base_angular_velocity=[0.0, 0.0, SPIN])
    held = Phase(duration, accelerations={f"joint{i + 1}": -float(rate) / duration for i, rate in enumerate(rates)})
    world, states = World({"servicer": arm, "target": target}), {"servicer": begin, "target": spinning}
    run = simulate(world, states, [Attach("target", "servicer/hand"), held], sample=duration / 50)
    return run, run.changes[0].lost


def test_an_arm_detumbles_within_limits() -> None:
    """The latch at matched velocity loses nothing; momentum stays; the loads fall with the time that the arm takes."""
    run, lost = stopped(20.0)
    assert run.sound
    assert abs(lost) < 1e-12
    assert run.ends is not None
    end = run.ends["servicer"]
    np.testing.assert_allclose(end.rates, 0.0, atol=1e-12)
    robot = run.tracks[-1].robot
    # All that turned was the target: its spin is now shared by the whole, about the common mass centre.
    common = end.velocity[5]
    places, turns = Mechanics(robot).body_poses(end.joints)
    bodies = [(b.inertia, places[i] + turns[i] @ b.inertia.com, turns[i]) for i, b in enumerate(robot.bodies)]
    centre = sum(own.mass * place for own, place, _ in bodies) / robot.mass
    tensor = sum(
        (turn @ own.tensor @ turn.T)[2, 2] + own.mass * np.sum((place - centre)[:2] ** 2) for own, place, turn in bodies
    )
    assert common == pytest.approx(TARGET_INERTIA * SPIN / tensor, rel=1e-9)
    assert common < 0.05 * SPIN
    slow, quick = peak(run) / LIMITS, peak(stopped(1.0)[0]) / LIMITS
    assert slow.max() < 1.0
    assert quick.max() > 1.0


def peak(run: Run) -> np.ndarray:
    """Largest joint torque, and force and moment at the grasp, by Newton's and Euler's laws of the target alone."""
    track, states = run.tracks[-1], run.tracks[-1].states
    joints, velocity, base, mechanics = states[:, 7:10], states[:, 10:], states[:, :7], Mechanics(track.robot)
    moved = mechanics.frame_acceleration("target", joints, velocity, track.data["acceleration"].values, base=base)
    arm = mechanics.frame_pose("target", joints, base=base)[0] - mechanics.frame_pose("hand", joints, base=base)[0]
    force = TARGET_MASS * moved[:, :3]
    moment = TARGET_INERTIA * moved[:, 5] + np.cross(arm, force)[:, 2]
    torques = track.data["reaction"].values[:, 6:]
    return np.array([np.abs(torques).max(), np.linalg.norm(force, axis=1).max(), np.abs(moment).max()])
