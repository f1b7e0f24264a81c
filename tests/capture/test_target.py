"""An arm that moves to its target, catches it and gives way: driven before contact, soft after it, in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spacearm.capture import (
    Approach,
    CaptureRun,
    SoftAxis,
    SoftJoint,
    SwitchAtOverload,
    Target,
    simulate_capture,
    soften,
)
from spacearm.capture.clutch import ClutchMode
from spacearm.capture.soft_joints import soft_axes
from spacearm.errors import InputError
from spacearm.impact import FloatingSystem, collide
from spacearm.model import Inertia, catalogue
from spacearm.simulate import Load, Signal, State, spline
from support import brute_force

ARM = soften(
    catalogue.load("xu2017"), "joint3", SoftJoint(rotation_x=SoftAxis(300.0, 20.0), rotation_y=SoftAxis(300.0, 20.0))
)
SOFT = soft_axes(ARM)
DRIVES = tuple(name for name in ARM.joint_names if name not in SOFT)
START = State.from_velocities(
    ARM,
    [0.0 if name in SOFT else 0.05 * k for k, name in enumerate(ARM.joint_names)],
    base_velocity=(0.01, 0.0, -0.02),
    base_angular_velocity=(0.0, 0.01, 0.02),
)
TARGET = Target(
    Inertia(40.0, np.array([0.1, 0.0, 0.2]), np.diag([4.0, 5.0, 6.0])), (-0.05, 0.02, 0.01), (0.02, 0.0, 0.1)
)
CONTACT = 2.0  # s
GIVES_WAY = SoftAxis(200.0, 15.0)


def path(joint: str, times: list[float], turns: list[float]) -> Signal:
    """From where the joint stands at the start."""
    return spline(times, START.joints[ARM.joint_index(joint)] + np.array(turns))


PATHS = {
    "joint2": path("joint2", [0.0, 2.0, 4.0], [0.0, 0.2, 0.5]),  # moves at contact
    "joint5": path("joint5", [0.0, 3.0], [0.0, -0.3]),
}
APPROACH = Approach(START, TARGET, CONTACT, PATHS, {"joint2": GIVES_WAY})


@pytest.fixture(scope="module")
def run() -> CaptureRun:
    return simulate_capture(ARM, APPROACH, Load.pulse("hand", (0.0, 4.0, 0.0), start=3.0), duration=6.0, sample=0.02)


def test_it_is_one_sound_run(run: CaptureRun) -> None:
    assert run.sound
    assert [(track.name, track.times[0], track.times[-1]) for track in run.run.tracks] == [
        ("robot", 0.0, CONTACT),
        ("target", 0.0, CONTACT),
        ("robot", CONTACT, 6.0),
    ]
    ledger = run.run.ledger
    assert ledger is not None
    np.testing.assert_allclose(ledger.balance, ledger.balance[0], atol=1e-9 * ledger.scale)
    assert ledger.lost[-1] == pytest.approx(run.impacts[0].lost)


def test_joints_follow_their_paths_and_give_way_at_contact(run: CaptureRun) -> None:
    before = run.run.tracks[0]
    for name, signal in PATHS.items():
        np.testing.assert_allclose(before.states[:, 7 + ARM.joint_index(name)], signal(before.times), atol=1e-14)
    locked = [7 + ARM.joint_index(name) for name in ARM.joint_names if name not in PATHS]
    np.testing.assert_array_equal(np.ptp(before.states[:, locked], axis=0), 0.0)
    np.testing.assert_allclose(run.joint("joint5"), PATHS["joint5"](run.times), atol=1e-14)  # goes on
    assert np.ptp(run.joint("joint1")) == 0.0
    assert np.abs(run.joint("joint2") - PATHS["joint2"](run.times)).max() > 0.01
    assert min(np.abs(run.joint(name)).max() for name in SOFT) > 1e-4


def test_a_joint_that_has_given_way_carries_its_spring_and_damper(run: CaptureRun) -> None:
    """About its axis; it rests where it was at contact."""
    i, rest = run.robot.joint_index("joint2"), PATHS["joint2"](CONTACT)
    joint = run.robot.joints[i]
    own = GIVES_WAY.stiffness * (run.joint("joint2") - rest) + GIVES_WAY.damping * run.states[:, 13 + run.robot.n + i]
    axis = joint.placement.rotation @ joint.axis
    np.testing.assert_allclose(run.joint_wrenches[:, i, 3:] @ axis, own, atol=1e-9)


def test_the_state_after_the_impact_is_the_closed_form(run: CaptureRun) -> None:
    """By the generalised momentum of everything that is free, and by the compliance of the two systems."""
    before, target = (State.from_vector(track.states[-1]) for track in run.run.tracks[:2])
    after = run.states[0, 7 + ARM.n :]
    held = [name for name in DRIVES if name != "joint2"]
    # Held joints keep their rates, driven ones too.
    stuck = [ARM.dof_index(name) for name in held]
    np.testing.assert_array_equal(after[stuck], before.velocity[stuck])
    assert abs(before.velocity[ARM.dof_index("joint5")]) > 0.1
    system = FloatingSystem.from_state(ARM, "hand", before, locked=held)
    body = FloatingSystem.from_state(TARGET.body, "target", target)
    np.testing.assert_allclose(after, collide(system, body, kind="grasp").first.after, atol=1e-11)
    mass, joined = brute_force.mass_matrix(ARM, before.joints), brute_force.mass_matrix(run.robot, before.joints)
    jacobian = system.point.mechanics.jacobian("hand", before.joints, base=before.pose)
    brought = body.momentum()
    free = [i for i in range(ARM.dofs) if i not in stuck]
    wanted = mass @ before.velocity + jacobian.T @ brought
    np.testing.assert_allclose((joined @ after)[free], wanted[free], atol=1e-11)


def test_mujoco_agrees_from_the_approach_to_the_end(run: CaptureRun) -> None:
    check = run.cross_check()
    assert check.was_run
    assert check.largest < 1e-8


def test_the_target_comes_to_the_hand_by_itself(run: CaptureRun) -> None:
    before, target = (State.from_vector(track.states[-1]) for track in run.run.tracks[:2])
    hand = FloatingSystem.from_state(ARM, "hand", before)
    body = FloatingSystem.from_state(TARGET.body, "target", target)
    np.testing.assert_allclose(body.contact_point, hand.contact_point, atol=1e-10)
    np.testing.assert_allclose(body.twist, [*TARGET.velocity, *TARGET.angular_velocity], atol=1e-10)
    assert set(run.momentum_budget().linear) == {"base", "arm", "target"}


def test_the_clutch_may_stay_closed_until_the_contact_is_felt() -> None:
    sensed = [ClutchMode("rigid", SwitchAtOverload(force=1.0, moment=0.05, delay=0.05)), ClutchMode("soft")]
    found = simulate_capture(ARM, APPROACH, duration=4.0, modes=sensed, sample=0.02)
    assert found.sound
    assert [kind for _, kind in found.switches] == ["rigid", "soft"]
    opened = found.switches[1][0]
    assert CONTACT + 0.05 <= opened < 3.0
    closed = found.times < opened
    assert np.abs(np.stack([found.joint(name) for name in SOFT])[:, closed]).max() == 0.0
    assert np.abs(found.joint(SOFT[0])).max() > 1e-5


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"driven": {"elbow": 0.0}}, "approach.*driven.*no joint 'elbow'"),
        ({"compliant": {"joint3.rotation_x": GIVES_WAY}}, "compliant.*'joint3.rotation_x' is a soft axis"),
        ({"hand": "paw"}, "no frame 'paw'"),
        ({"duration": 0.0}, "duration is 0"),
        ({"duration": 10.0}, "time left after contact"),
        (
            {"driven": {"joint2": path("joint2", [0.0, 1.0], [0.1, 0.2])}},
            "let the path start at the joint's position and rate",
        ),
    ],
)
def test_what_cannot_be_an_approach(given: dict[str, Any], words: str) -> None:
    options = {"state": START, "target": TARGET, "duration": CONTACT, **given}
    with pytest.raises(InputError, match=words):
        simulate_capture(ARM, Approach(**options), duration=6.0)
