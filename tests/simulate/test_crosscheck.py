"""The cross-check: runs of every kind agree with MuJoCo to 1e-9, errors are seen, and what cannot be said is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.model import Body, Friction, Inertia, Joint, Limits, Pose, Robot, Spring
from spacearm.simulate.check.crosscheck import CrossCheck, compare_states, cross_check
from spacearm.simulate.loads import Load
from spacearm.simulate.methods import RK4, Dopri853
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.overrides import with_parameters
from spacearm.simulate.phase import Event, Phase
from spacearm.simulate.run.run import Run, RunWarning, simulate
from spacearm.simulate.signals import half_sine, pulse, spline, triangle
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from support.random_robots import random_robot, random_state

TIGHT = Dopri853(rtol=1e-12, atol=1e-13)


def moving(robot: Robot, seed: int, still: Sequence[str] = ()) -> State:
    """A random state in which the named degrees of freedom rest."""
    drawn = random_state(robot, np.random.default_rng(seed), speed=0.3)
    velocity = drawn.velocity.copy()
    velocity[[robot.dof_index(name) for name in still]] = 0.0
    return State(drawn.position, drawn.quaternion, drawn.joints, velocity)


def both(
    robot: Robot,
    start: State,
    phases: Phase | Sequence[Phase] | float,
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> tuple[Run, CrossCheck]:
    run = simulate(robot, start, phases, method=options.pop("method", TIGHT), overrides=overrides, **options)
    return run, cross_check(run)


def check(result: tuple[Run, CrossCheck], tolerance: float = 1e-9) -> None:
    run, checked = result
    assert run.sound
    assert checked.was_run, checked.reason
    assert checked.evaluations > 20
    assert set(checked.differences) >= {"position", "attitude", "velocity", "angular_velocity"}
    assert checked.largest < tolerance, str(checked)


def test_tumbling_tree() -> None:
    robot = random_robot(1, 4)
    check(both(robot, moving(robot, 1), 3.0))


def test_springs_dampers_and_couplings() -> None:
    robot = random_robot(7, 3, passive=True, flexible=0.9, prismatic=0.2, geometry="mixed")
    assert robot.couplings
    assert any(joint.spring for joint in robot.joints)
    check(both(robot, moving(robot, 2), 1.0))


def test_rotors_and_massless_bodies() -> None:
    robot = random_robot(5, 5, tree=False, rotors=1.0, massless=0.5, prismatic=0.0)
    assert any(body.inertia.mass == 0.0 for body in robot.bodies)
    check(both(robot, moving(robot, 3), 1.0))


def test_pulses_on_frames_and_torques() -> None:
    """Loads in world and in frame axes with edges inside the run; two on one frame; torque on a joint and the base."""
    robot = random_robot(9, 3)
    phase = Phase(
        2.0,
        loads=(
            Load.from_direction("frame1", [1.0, 2.0, -1.0], pulse(20.0, 0.31, 0.2)),
            Load.from_direction("frame1", [0.0, 1.0, 0.0], half_sine(9.0, 0.4, 0.5)),
            Load.from_direction("frame2", [0.0, 1.0, 1.0], triangle(15.0, 0.5, 0.7), axes="frame"),
            Load.from_direction("frame2", [1.0, 0.0, 0.0], 0.5, axes="frame", moment=True),
        ),
        forces={robot.joint_names[0]: 0.8, "base_wy": pulse(-2.0, 1.0, 0.25), "base_vx": 3.0},
    )
    check(both(robot, moving(robot, 4), phase))


def test_driven_and_locked_joints_over_a_floating_base() -> None:
    robot = random_robot(11, 4, tree=False, prismatic=0.0)
    a, b, c, _ = robot.joint_names
    start = moving(robot, 5, still=robot.joint_names)
    q = start.joints
    path = spline([0.0, 0.7, 2.0], [q[0], q[0] + 0.6, q[0] - 0.4])
    phase = Phase(2.0, driven={a: path}, locked=[b], accelerations={c: 0.3})
    check(both(robot, start, phase))


def test_base_on_a_rail() -> None:
    """Five of the base's six directions locked, the sixth pushed."""
    robot = random_robot(13, 3)
    locked = ["base_vx", "base_vy", "base_wx", "base_wy", "base_wz"]
    start = moving(robot, 6, still=[*locked, "base_vz"])
    check(both(robot, start, Phase(1.5, locked=locked, forces={"base_vz": 5.0})))


def test_several_phases_one_ended_by_an_event() -> None:
    robot = random_robot(15, 2, tree=False, prismatic=0.0)
    first, second = robot.joint_names
    start = moving(robot, 7, still=[second])
    ahead = float(start.joints[0] + np.sign(start.rates[0]) * 0.1)
    phases = [
        Phase(20.0, until=Event(first, ahead), locked=[second]),
        Phase(0.8, forces={first: 0.5}),
    ]
    run, checked = both(robot, start, phases, sample=0.05)
    assert 0.0 < run.phase_starts[1] < 20.0
    check((run, checked))


def test_overrides() -> None:
    robot = random_robot(17, 3, passive=True, flexible=0.9, prismatic=0.0)
    own = robot_motion(robot).parameters()
    rng = np.random.default_rng(17)
    overrides = {
        name: own[name] * rng.uniform(0.8, 1.2)
        for name in ("inertia", "rotor", "stiffness", "coupling")
        if own[name].size
    }
    overrides["damping"] = rng.uniform(0.1, 0.5, size=robot.dofs)  # the base's too
    start = moving(robot, 8)
    check(both(robot, start, 0.7, overrides))
    # The same run held against the robot's own numbers is far off: the overrides did something.
    run = simulate(robot, start, 0.7, method=TIGHT, overrides=overrides)
    assert cross_check(run, world=robot).largest > 1e-3


def test_damping_for_joints_alone() -> None:
    robot = random_robot(19, 2, prismatic=0.0)
    check(both(robot, moving(robot, 9), 0.5, {"damping": [0.4, 0.7]}))


def test_a_coarse_run_is_seen_to_be_coarse() -> None:
    """RK4 with a long step differs by its own error, which falls sixteenfold with half the step."""
    robot = random_robot(21, 3)
    start = moving(robot, 10)
    gaps = []
    for step in (0.1, 0.05):
        run = simulate(robot, start, 2.0, method=RK4(step), tolerance=1.0, sample=0.5)
        gaps.append(cross_check(run).largest)
    assert 1e-9 < gaps[1] < gaps[0]
    assert 8.0 < gaps[0] / gaps[1] < 40.0


def test_a_wrong_robot_is_seen() -> None:
    """One per mille of one body's mass is not lost in the comparison."""
    robot = random_robot(23, 3)
    start = moving(robot, 11)
    run = simulate(robot, start, 1.0, method=TIGHT)
    wrong = robot.inertia_parameters.copy()
    wrong[-1] *= 1.001
    checked = cross_check(run, world=World.from_robots(robot, {"inertia": wrong}))
    assert 1e-7 < checked.largest < 1e-1


def slider(friction: Friction | None) -> Robot:
    base = Body("base", Inertia(10.0, np.zeros(3), np.eye(3)))
    block = Body("block", Inertia(1.0, np.zeros(3), 0.01 * np.eye(3)))
    joint = Joint("slide", "prismatic", "base", "block", Pose(), np.array([1.0, 0.0, 0.0]), friction=friction)
    return Robot("slider", (base, block), (joint,))


def test_dry_friction_is_refused_with_a_reason() -> None:
    robot = slider(Friction(2.0, 1.5))
    start = State(np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(1), np.array([0, 0, 0, 0, 0, 0, 1.0]))
    _, checked = both(robot, start, 0.5)
    assert not checked.was_run
    assert "dry friction on slide" in checked.reason
    assert "not cross-checked" in str(checked)
    assert np.isnan(checked.largest)
    # Without friction in the phase, or with the joint driven, the case can be expressed again.
    check(both(robot, start, Phase(0.5, friction=False)))
    check(both(robot, start, Phase(0.5, accelerations={"slide": -0.5})))
    _, added = both(slider(None), start, 0.5, {"static_friction": [1.0], "coulomb_friction": [0.5]})
    assert "dry friction" in added.reason
    base = np.array([0.5, 0, 0, 0, 0, 0, 0])
    _, railed = both(slider(None), start, 0.5, {"static_friction": base, "coulomb_friction": base})
    assert "dry friction on base_vx" in railed.reason


def test_a_run_that_broke_down_is_told_and_a_very_short_phase_is_compared() -> None:
    robot = slider(None)
    start = State(np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(1), np.array([0, 0, 0, 0, 0, 0, 1.0]))
    with pytest.warns(RunWarning, match="infinite"):
        _, broken = both(robot, start, Phase(0.5, forces={"slide": 1e300}))
    assert broken.reason.startswith("the run did not finish: the state or its rate became infinite")
    limited = robot.replace(joints=(replace(robot.joints[0], limits=Limits(upper=0.1)),))
    run, stopped = both(limited, start, [Phase(0.5, limits="ignore"), Phase(0.5, limits="stop")])
    assert run.end_time - run.phase_starts[1] < 1e-12  # ended at once
    check((run, stopped))


def test_impossible_overrides_are_refused_with_a_reason() -> None:
    robot = random_robot(25, 1, prismatic=0.0)
    start = moving(robot, 12)
    bad = robot.inertia_parameters.copy()
    bad[1, 4] = -0.5 * bad[1, 4]
    run = simulate(robot, start, 0.1, method=TIGHT)
    checked = cross_check(run, world=World.from_robots(robot, {"inertia": bad}))
    assert "are not a valid robot" in checked.reason


def test_closed_form_of_a_spring_between_two_masses() -> None:
    """MuJoCo's side alone against the textbook: reduced mass m = 10/11 kg, spring 40 N/m."""
    robot = slider(None)
    robot = robot.replace(joints=(replace(robot.joints[0], spring=Spring(40.0)),))
    start = State(np.zeros(3), np.array([1.0, 0, 0, 0]), np.array([0.1]), np.zeros(7))
    run, checked = both(robot, start, 3.0)
    check((run, checked))
    exact = 0.1 * np.cos(np.sqrt(40.0 * 11.0 / 10.0) * run.times)
    np.testing.assert_allclose(run.states[:, 7], exact, atol=1e-10)


def test_attitudes_are_compared_as_rotations() -> None:
    """The sign of a quaternion does not matter; an angle of 1e-9 is seen as 1e-9."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(5, 17))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    flipped = states.copy()
    flipped[:, 3:7] *= -1.0
    assert compare_states(2, flipped, states)[0]["attitude"] < 1e-15
    w, x, y, z = states[:, 3:7].T
    turned = states.copy()
    turned[:, 3:7] += 0.5e-9 * np.stack([-z, y, -x, w], axis=1)  # times (1, 0, 0, 1e-9 / 2)
    np.testing.assert_allclose(compare_states(2, turned, states)[0]["attitude"], 1e-9, rtol=1e-5)


def test_what_is_called_relative_is_relative() -> None:
    """Joints at 20 rad/s that differ by 1e-6 rad/s differ by 5e-8; the same at 7000 km from the origin."""
    theirs = np.zeros((3, 15))
    theirs[:, 3] = 1.0
    theirs[:, 0] = 7e6 + np.array([0.0, 1.0, 2.0])
    theirs[:, 14] = 20.0
    ours = theirs.copy()
    ours[1, 0] += 1e-3
    ours[2, 14] += 1e-6
    differences, relative = compare_states(1, ours, theirs, theirs[0, :3])
    assert differences["rates"] == pytest.approx(1e-6, rel=1e-6)
    assert relative["rates"] == pytest.approx(5e-8, rel=1e-6)
    assert relative["position"] == pytest.approx(5e-4, rel=1e-4)
    text = str(CrossCheck(differences, relative))
    assert "largest relative difference 5.0e-04 (relative: " in text
    assert "rates 5.0e-08" in text


def test_with_parameters_changes_what_it_should() -> None:
    robot = random_robot(27, 3, passive=True, flexible=1.0, prismatic=0.0)
    own = robot_motion(robot).parameters()
    changed = {name: 1.5 * value for name, value in own.items() if name != "inertia"}
    changed["inertia"] = 1.5 * own["inertia"]
    again = robot_motion(with_parameters(robot, changed)).parameters()
    for name, value in changed.items():
        active = np.ones(value.shape, dtype=bool) if name != "rest" else changed["stiffness"] > 0.0
        np.testing.assert_allclose(again[name][active], value[active], rtol=1e-12, atol=1e-12, err_msg=name)


def test_progress_goes_up_to_the_end() -> None:
    robot = random_robot(1, 4)
    run = simulate(robot, moving(robot, 1), 20.0, method=TIGHT)
    seen: list[tuple[float, float]] = []
    cross_check(run, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) >= 2
    assert {total for _, total in seen} == {20.0}
    assert all(0.0 <= done <= 20.0 for done, _ in seen)
    assert seen[-1][0] > seen[0][0]
