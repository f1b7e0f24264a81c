"""Laws at the hand and at the joints, against closed forms and MuJoCo."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.support.arms import arm
from tests.support.control import POSTURE, hand_path, quaternion_of, quintic, step_response, turned_by

from spacearm import Mechanics, control
from spacearm.errors import InputError
from spacearm.simulate import RK4, Load, Phase, State, constant, simulate, triangle
from spacearm.simulate.check.crosscheck import cross_check

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
ORIGIN, ROTATION = Mechanics(ROBOT).frame_pose("hand", POSTURE)
STILL = control.AttitudeRotation(quaternion_of(ROTATION))


def run(law: control.Law, duration: float, **options: object):
    return simulate(ROBOT, START, Phase(duration, laws=law, limits="ignore", **options))


@pytest.mark.parametrize("command", ["accelerations", "forces"])
def test_straight_hand_path_needs_the_generalized_jacobian(command):
    duration = 10.0
    path = [quintic(a, b, duration) for a, b in zip(ORIGIN, ORIGIN + np.array([0.15, -0.1, 0.2]), strict=True)]
    missed = {}
    for jacobian in ("generalized", "fixed-base"):
        law = control.resolved_acceleration("hand", path, STILL, jacobian=jacobian, command=command, period=None)
        found = run(law, duration)
        assert found.sound
        wanted = np.stack([signal(found.times) for signal in path], axis=1)
        missed[jacobian] = np.abs(hand_path(found) - wanted).max()
    assert missed["generalized"] < 1e-6
    assert missed["fixed-base"] > 0.03


def test_resolved_rate_follows_with_feedback_and_at_momentum():
    """A sampled rate loop on a robot that drifts and turns: the hand stays where it is told."""
    state = State.from_velocities(
        ROBOT, POSTURE, np.zeros(7), base_velocity=[0.01, 0, 0], base_angular_velocity=[0, 0.01, 0.01]
    )
    law = control.resolved_rate("hand", list(ORIGIN), STILL, gain=4.0, rate_gain=40.0, period=0.005, limited=False)
    found = simulate(ROBOT, state, Phase(4.0, laws=law, limits="ignore"))
    assert found.sound
    off = np.linalg.norm(hand_path(found) - ORIGIN, axis=1)
    assert off.max() < 2e-3  # of the start, which moves at 1 cm/s
    assert off[-1] < 3e-4


def test_reaction_null_space_keeps_the_attitude():
    wished = [constant(v) for v in (0.05, -0.04, 0.06, 0.03, -0.05, 0.04, 0.02)]
    found = run(control.reaction_null_space(wished, gain=2.0, period=None), 60.0)
    assert found.sound
    assert turned_by(found).max() < 1e-9
    assert np.abs(found.states[-1, 7:14] - POSTURE).max() > 1.0  # the arm did move
    free = run(control.computed_torque([quintic(a, a + 1.0, 60.0) for a in POSTURE], 1.0, 2.0, period=None), 60.0)
    assert turned_by(free).max() > 0.05  # and would have turned the base


def test_impedance_step_is_its_second_order_closed_form():
    mass, damping, stiffness = 20.0, 60.0, 300.0
    target = ORIGIN + np.array([0.05, 0.0, -0.03])
    law = control.impedance(
        "hand", list(target), STILL, mass=mass, damping=damping, stiffness=stiffness, period=None, limited=False
    )
    found = run(law, 3.0)
    decay = step_response(found.times, mass, damping, stiffness)
    np.testing.assert_allclose(hand_path(found), target + np.outer(decay, ORIGIN - target), atol=1e-8)
    # The same closed form for a force that the law measures.
    force = np.array([3.0, -2.0, 1.0, 0.1, 0.2, -0.1])
    law = control.impedance(
        "hand", list(ORIGIN), STILL, mass=mass, damping=damping, stiffness=stiffness, force=list(force), period=None,
        limited=False,
    )  # fmt: skip
    found = run(law, 0.7, loads=[Load("hand", tuple(force))])
    assert found.sound
    rise = 1 - step_response(found.times, mass, damping, stiffness)
    np.testing.assert_allclose(hand_path(found), ORIGIN + np.outer(rise, force[:3] / stiffness), atol=1e-8)


def coordinated_run(way: np.ndarray, duration: float = 8.0):
    """Hand and mass centre go the same way."""
    centre = Mechanics(ROBOT).centre_of_mass(POSTURE)
    law = control.base_arm_coordination(
        "hand", [quintic(a, a + b, duration) for a, b in zip(ORIGIN, way, strict=True)], STILL,
        centre=[quintic(a, a + b, duration) for a, b in zip(centre, way, strict=True)],
        stiffness=4.0, damping=4.0, centre_stiffness=4.0, centre_damping=4.0, momentum_gain=1.0, period=None,
        limited=False,
    )  # fmt: skip
    return run(law, duration)


def test_coordinated_thrust_moves_mass_centre_and_hand():
    mechanics = Mechanics(ROBOT)
    way = np.array([0.06, -0.04, 0.05])
    found = coordinated_run(way)
    assert found.sound
    end = found.end
    centre = mechanics.centre_of_mass(POSTURE)
    np.testing.assert_allclose(mechanics.centre_of_mass(end.joints, base=end.pose), centre + way, atol=1e-8)
    np.testing.assert_allclose(hand_path(found)[-1], ORIGIN + way, atol=1e-8)
    momentum = mechanics.momentum(end.joints, end.velocity, base=end.pose, about="com")
    np.testing.assert_allclose(momentum, 0.0, atol=1e-8)


def test_a_hand_that_comes_to_a_dynamic_singularity_is_told():
    """Hand and mass centre are drawn apart beyond what the arm can do: the reason says so; damping goes on.

    Until then the hand is on its path, so that it is the arm and not the law that fails.
    """
    centre, way = Mechanics(ROBOT).centre_of_mass(POSTURE), np.array([0.2, 0.1, 0.2])
    path, apart = (
        [quintic(a, b, 10.0) for a, b in zip(first, last, strict=True)]
        for first, last in ((ORIGIN, ORIGIN + way), (centre, centre - way))
    )
    gains = {"stiffness": 4.0, "damping": 4.0, "centre_stiffness": 1.0, "centre_damping": 2.0, "momentum_gain": 1.0}
    law = control.base_arm_coordination("hand", path, STILL, centre=apart, **gains, period=None, limited=False)
    with pytest.warns(UserWarning, match=r"ended at t = 3\.9\d* s: .* near a dynamic singularity of 'hand'"):
        found = simulate(ROBOT, START, Phase(10.0, laws=law, limits="ignore"), sample=0.01, max_steps=5000)
    notes = float(re.search(r"at t = (\S+) s the arm is near", found.why).group(1))
    assert 3.0 < notes < found.end_time
    before = found.times < notes
    wanted = np.stack([signal(found.times[before]) for signal in path], axis=1)
    assert np.abs(hand_path(found)[before] - wanted).max() < 1e-9
    end = Mechanics(ROBOT).generalized_jacobian("hand", found.states[-1, 7:14])
    assert np.linalg.cond(end) > 1e4  # singular indeed
    law = control.base_arm_coordination("hand", path, STILL, centre=apart, **gains, singular=(0.1, 0.05), limited=False)
    assert simulate(ROBOT, START, Phase(10.0, laws=law, limits="ignore")).sound


@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 100.0])
def test_a_law_that_translates_or_holds_the_robot_raises_no_false_alarm(size, monkeypatch):
    """All energy about the mass centre is rounding there; a share of 1e-9 of the common motion's is not."""
    from spacearm.simulate.run import ledger

    way = size * np.array([0.06, -0.04, 0.05])
    found = coordinated_run(way)
    assert found.sound, str(found.certificate)
    if size < 1.0:
        return
    own = ledger.inner_energy

    def leaking(model, parameters, y, motion):
        total, sizes = own(model, parameters, y, motion)
        return total + 5e-10 * motion.mass * np.sum(y[:, 14:17] ** 2, axis=1), sizes

    monkeypatch.setattr(ledger, "inner_energy", leaking)
    with pytest.warns(UserWarning, match="conservation"):
        assert not coordinated_run(way).certificate["energy"].sound


def test_sampled_loop_comes_to_the_continuous_one_with_order_one():
    """Zero-order hold lags by half a period: first order in the period."""
    duration = 2.0
    plan = [quintic(a, a + 0.3, duration) for a in POSTURE]

    def end(period: float | None) -> np.ndarray:
        law = control.computed_torque(plan, 20.0, 8.0, period=period, limited=False)
        state = State.from_velocities(ROBOT, POSTURE, 0.1 * np.ones(7))
        return simulate(ROBOT, state, Phase(duration, laws=law, limits="ignore")).states[-1]

    exact = end(None)
    errors = [np.abs(end(period) - exact).max() for period in (0.02, 0.01, 0.005)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 1.0, atol=0.15)


def test_replayed_commands_give_the_same_motion_in_mujoco():
    plan = [quintic(a, a + 0.2, 0.5) for a in POSTURE]
    law = control.computed_torque(plan, 20.0, 8.0, period=0.05, limited=False)
    found = simulate(ROBOT, START, Phase(0.5, laws=law, limits="ignore"), sample=0.1)
    (log,) = found.commands
    assert len(log.times) == 10
    forces = {name: log.signal(name) for name in log.names}
    again = simulate(ROBOT, START, Phase(0.5, forces=forces, limits="ignore"), sample=0.1)
    np.testing.assert_allclose(again.states, found.states, atol=1e-12)
    check = cross_check(again)
    assert check.largest < 1e-8
    assert cross_check(found).largest < 1e-8  # a run with a sampled law is replayed as it is


def test_fixed_steps_and_python_functions_give_the_same_loop():
    plan = [quintic(a, a + 0.2, 1.0) for a in POSTURE]
    law = control.joint_pid(plan, 4.0, 2.0, 1.0, period=0.02, limited=False)
    phase = Phase(1.0, laws=law, limits="ignore")
    adaptive, fixed = simulate(ROBOT, START, phase), simulate(ROBOT, START, phase, method=RK4(0.005))
    np.testing.assert_allclose(fixed.states[-1], adaptive.states[-1], atol=1e-6)
    pull = np.zeros(7)

    def own(time: float, state: State, references: dict) -> dict[str, float]:
        wanted, rate, _ = references["joints"]
        force = 4.0 * (wanted - state.joints) + 2.0 * (rate - state.rates) + pull
        pull[:] += 0.02 * (wanted - state.joints)
        return dict(zip(ROBOT.joint_names, force, strict=True))

    plain = control.PythonLaw(own, 0.02, references={"joints": plan}, forces=ROBOT.joint_names, limited=False)
    found = simulate(ROBOT, START, Phase(1.0, laws=plain, limits="ignore"))
    np.testing.assert_allclose(found.states[-1], adaptive.states[-1], atol=1e-12)
    np.testing.assert_allclose(found.commands[0].values, adaptive.commands[0].values, atol=1e-12)


def test_delay_shifts_and_quantisation_rounds_the_commands():
    plan = [quintic(a, a + 0.2, 1.0) for a in POSTURE]
    prompt = control.joint_pid(plan, 4.0, 2.0, period=0.05, limited=False)
    # The joints are held, so that the loop is open and commands depend on time alone.
    held = {"locked": ROBOT.joint_names, "limits": "ignore"}
    values = simulate(ROBOT, START, Phase(1.0, laws=prompt, **held)).commands[0].values
    late = simulate(ROBOT, START, Phase(1.0, laws=prompt.replace(delay=0.15), **held)).commands[0].values
    np.testing.assert_allclose(late[3:], values[:-3], atol=1e-15)
    assert not np.any(late[:3])
    coarse = simulate(ROBOT, START, Phase(1.0, laws=prompt.replace(resolution=0.25), **held)).commands[0].values
    np.testing.assert_allclose(coarse, 0.25 * np.floor(values / 0.25 + 0.5), atol=1e-15)


@pytest.mark.parametrize("period", [None, 0.01])
def test_saturation_is_an_event(period):
    """A torque that rises as time goes on is held at the limit, and both ends of that are told."""
    from spacearm.model import Limits

    robot = ROBOT.replace(joints=[*ROBOT.joints[:-1], _limited(ROBOT.joints[-1], Limits(effort=0.5))])

    def ramp(plant: control.Plant) -> dict:
        wanted = plant.reference("torque").value
        return {"j6": wanted}

    law = control.Law(ramp, period=period, references={"torque": triangle(1.0, 0.0, 2.0)})
    found = simulate(robot, State.at_rest(robot), Phase(2.0, laws=law, limits="ignore"))
    assert found.sound
    on, off = found.events_of("saturation")
    assert (on.name, off.name) == ("j6", "j6")
    np.testing.assert_allclose([on.time, off.time], [0.5, 1.5], atol=1e-9 if period is None else 0.0101)
    assert np.abs(found.data["force"].sel(dof="j6")).max() <= 0.5


def _limited(joint, limits):
    from dataclasses import replace

    return replace(joint, limits=limits)


def test_memory_goes_on_from_phase_to_phase():
    plan = [constant(a + 0.01) for a in POSTURE]
    law = control.joint_pid(plan, 1.0, 1.0, 0.5, period=0.01, limited=False)
    once = simulate(ROBOT, START, Phase(1.0, laws=law, limits="ignore"))
    twice = simulate(ROBOT, START, [Phase(0.5, laws=law, limits="ignore")] * 2)
    np.testing.assert_allclose(twice.states[-1], once.states[-1], atol=1e-11)


def test_a_loop_that_diverges_ends_with_its_reason_and_time():
    law = control.joint_pid([constant(a + 0.01) for a in POSTURE], 2000.0, 1.0, period=0.02, limited=False)
    with pytest.warns(UserWarning, match="the run ended at t = "):
        found = simulate(ROBOT, START, Phase(100.0, laws=law, limits="ignore"))
    assert not found.sound
    assert found.end_time < 100.0


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda: control.Law(lambda plant: {"elbow": 1.0}), "elbow"),
        (lambda: control.Law(lambda plant: {}), "commands nothing"),
        (lambda: control.Law(lambda plant: 3.0), "expected a mapping"),
        (lambda: control.Law(lambda plant: {"j0": plant.reference("x").value}), "reference"),
        (lambda: control.Law(lambda plant: plant.values_by_name(plant.joints[:3])), "3 numbers for 7"),
        (lambda: control.Law(lambda plant: control.Commands(thrusters={"main": 1.0}), period=None), "on or off"),
        (lambda: control.Law(lambda plant: {"j0": 1.0}, period=-1.0), "period"),
        (lambda: control.Law(lambda plant: {"j0": 1.0}, period=0.01, delay=0.005), "not a multiple of the period"),
        (lambda: control.Law(lambda plant: {"j0": 1.0}, period=1e-9), "longer period"),
        (lambda: control.joint_pid([0.0] * 6, 1.0, 1.0), "6 paths for 7 joints.*each of j0"),
        (lambda: control.attitude_by_wheels(stiffness=1.0, damping=1.0), "wheels"),
        (lambda: control.resolved_rate("claw", [0.0] * 3), "claw"),
    ],
)
def test_a_law_that_asks_for_what_there_is_not(law, message):
    with pytest.raises(InputError, match=message):
        run(law(), 1.0)
