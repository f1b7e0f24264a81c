"""An arm on a held base, made with MuJoCo: what joint torques tell, how surely, and when it is not sound.

MuJoCo's dry friction changes its sign where rate and acceleration balance by a time constant; here it is 20 us.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from spacearm.errors import InputError
from spacearm.identify.ground import flight_only_parameters, held_base_parameters, identify_held_arm
from spacearm.identify.ground._transmission import convert_motors
from spacearm.identify.inertia import base_parameters, identify
from spacearm.measure import Record
from spacearm.measure.channels import CHANNELS
from spacearm.model import Robot, load
from spacearm.typing import Array

ARM = """
<mujoco>
  <compiler angle="radian" inertiafromgeom="false"/>
  <option gravity="0 0 -9.81" timestep="1e-5"/>
  <default><joint solreffriction="2e-5 1"/></default>
  <worldbody>
    <body name="pedestal">
      <inertial pos="0 0 0.1" mass="20" diaginertia="0.3 0.3 0.2"/>
      <body name="shoulder" pos="0 0 0.3">
        <inertial pos="0.02 -0.01 0.05" mass="3" fullinertia="0.03 0.025 0.02 0.001 -0.002 0.0015"/>
        <joint name="yaw" axis="0 0 1" armature="0.2" damping="0.8" frictionloss="1.5"/>
        <body name="upper" pos="0 0 0.1">
          <inertial pos="0.2 0.01 -0.02" mass="2.5" fullinertia="0.01 0.05 0.05 0.002 -0.001 0.001"/>
          <joint name="lift" axis="0 1 0" armature="0.15" damping="0.6" frictionloss="1.0"/>
          <body name="fore" pos="0.4 0 0">
            <inertial pos="0.15 0.005 0.01" mass="1.2" fullinertia="0.004 0.02 0.02 0.001 0.0005 -0.001"/>
            <joint name="elbow" axis="0 1 0" armature="0.05" damping="0.3" frictionloss="0.4"/>
          </body>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
NAMES = ("yaw", "lift", "elbow")
FRICTION = {"coulomb": (1.5, 1.0, 0.4), "viscous": (0.8, 0.6, 0.3), "rotor": (0.2, 0.15, 0.05)}
OFFSET = np.array([0.1, -0.2, 0.05])


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Robot:
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(ARM)
    return load(path)


@cache
def torques(text: str, phase: float, duration: float = 30.0) -> tuple[Array, Array, Array]:
    """Times, positions and MuJoCo's inverse dynamics along a motion of three harmonics, sampled at 400 Hz."""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    times = np.arange(0.0, duration, 0.0025)
    random = np.random.default_rng(int(10 * phase))
    position, rate, acceleration = np.zeros((3, times.size, 3))
    for harmonic in (1.0, 2.3, 3.7):
        w = 2.0 * np.pi * 0.25 * harmonic
        angle = w * times[:, None] + random.uniform(0, 2 * np.pi, 3)
        size = np.array([0.8, 0.6, 0.7]) / harmonic
        position += size * np.sin(angle)
        rate += size * w * np.cos(angle)
        acceleration -= size * w**2 * np.sin(angle)
    found = np.zeros_like(position)
    for k in range(times.size):
        data.qpos[:], data.qvel[:], data.qacc[:] = position[k], rate[k], acceleration[k]
        mujoco.mj_inverse(model, data)
        found[k] = data.qfrc_inverse
    return times, position, found


def record(seed: int, phase: float = 0.0, text: str = ARM, noise: float = 0.2) -> Record:
    times, position, torque = torques(text, phase)
    random = np.random.default_rng(seed)
    measured = torque + OFFSET + noise * random.standard_normal(torque.shape)
    read = position + 1e-6 * random.standard_normal(position.shape)
    return Record.from_columns(f"run{phase:g}", times, {"joint_position": read, "torque": measured})


def guess(robot: Robot) -> Robot:
    """A drawing that is off by 30 %."""
    return robot.with_inertia_parameters(1.3 * robot.inertia_parameters)


def test_estimates_lie_within_their_intervals(robot: Robot) -> None:
    inside, total = 0, 0
    base = held_base_parameters(robot)
    truth = dict(zip(base.names, base.combine @ robot.inertia_parameters.ravel(), strict=True))
    # the first two rotors rotate as their links do about their axes: torques show only the sums
    truth["Izz*(shoulder)"] += FRICTION["rotor"][0]
    truth["Iyy*(upper)"] += FRICTION["rotor"][1]
    for term, values in FRICTION.items():
        truth |= {f"{term}.{name}": value for name, value in zip(NAMES, values, strict=True)}
    truth |= {f"offset.{name}": value for name, value in zip(NAMES, OFFSET, strict=True)}
    for seed in range(3):
        found = identify_held_arm(guess(robot), [record(seed)], hold_out=[record(9, 1.0)])
        assert found.certificate().sound, found.certificate().faults
        low, high = found.estimate.interval()
        for name, a, b in zip(found.estimate.names, low, high, strict=True):
            inside, total = inside + (a <= truth[name] <= b), total + 1
        # noise of 0.2 N m, averaged over 20 readings
        held = found.predictions[-1]
        assert held.held_out
        assert np.all(held.rms < 0.06)
        assert not found.impossible
    assert not {"rotor.yaw", "rotor.lift"} & set(found.estimate.names)
    assert inside >= 0.9 * total
    again = found.robot
    assert again.joints[1].damping == pytest.approx(0.6, abs=0.05)
    assert again.joints[1].friction is not None
    assert again.joints[1].friction.coulomb == pytest.approx(1.0, abs=0.1)


def test_base_parameters_are_as_many_as_the_rank_of_pinocchios_regressor(robot: Robot) -> None:
    model, at = pin.Model(), 0
    model.gravity.linear[:] = [0.0, 0.0, -9.81]
    for joint in robot.joints:  # a chain
        place = pin.SE3(joint.placement.rotation, joint.placement.translation)
        at = model.addJoint(at, pin.JointModelRevoluteUnaligned(joint.axis), place, joint.name)
    data, random = model.createData(), np.random.default_rng(5)
    rows = [pin.computeJointTorqueRegressor(model, data, *random.normal(size=(3, 3))).copy() for _ in range(40)]
    assert np.linalg.matrix_rank(np.concatenate(rows), tol=1e-8) == held_base_parameters(robot).rank


@pytest.mark.parametrize("what", ["friction", "known body", "other load"])
def test_a_wrong_model_is_not_sound(robot: Robot, what: str) -> None:
    heavy = ARM.replace('mass="1.2"', 'mass="1.6"')
    if what == "friction":  # Coulomb friction is in the data alone
        found = identify_held_arm(robot, [record(1)], friction=("viscous",))
    elif what == "known body":  # a mass that the model does not have
        found = identify_held_arm(robot, [record(1, text=heavy)], known_bodies=["fore"])
    else:  # the arm carries more when it is tested than when it was identified
        found = identify_held_arm(robot, [record(1)], hold_out=[record(2, 1.0, heavy)])
    certificate = found.certificate()
    assert not certificate.sound
    kind = "hold_out" if what == "other load" else "whiteness"
    assert any(name.startswith(kind) and not check.sound for name, check in certificate.items())
    if what == "friction":
        assert found.suspects[0].name.startswith("coulomb")


def test_what_the_ground_does_not_show(robot: Robot) -> None:
    hidden = {p.name for p in flight_only_parameters(robot)}
    whole = base_parameters(robot)
    # all ten numbers of the whole robot as seen from its base need a base that moves
    assert {p.name for p in whole.parameters if p.body == "pedestal"} <= hidden
    assert not any(p.name in hidden for p in whole.parameters if p.body == "fore")
    held = held_base_parameters(robot)
    assert np.allclose(held.combine @ held.lift, np.eye(held.rank), atol=1e-9)
    assert np.allclose(held.combine @ held.null, 0.0, atol=1e-9)
    assert held.rank + held.null.shape[1] == 10 * len(robot.bodies)


def test_an_allowance_is_a_check_that_can_fail(robot: Robot) -> None:
    found = identify_held_arm(robot, [record(1)], friction=("viscous",), allowance=0.5)
    assert found.certificate().sound
    assert not replace(found, allowance=0.01).certificate().sound


def test_a_torque_sensor_that_reads_too_much_shows_beside_a_known_body(robot: Robot) -> None:
    given = record(3)
    torque = given["torque"] * np.array([1.0, 1.05, 1.0])
    wrong = Record.from_columns("run", given.times, {"joint_position": given["joint_position"], "torque": torque})
    bodies = ["shoulder", "upper", "fore"]
    found = identify_held_arm(robot, [wrong], known_bodies=bodies, gain=0.2).estimate
    # what the reading must be multiplied by to give the torque
    assert 1.0 + found["gain.lift"] == pytest.approx(1.0 / 1.05, abs=4.0 * found.std[found.names.index("gain.lift")])
    assert found["gain.elbow"] == pytest.approx(0.0, abs=4.0 * found.std[found.names.index("gain.elbow")])
    assert found.std[found.names.index("gain.lift")] < 0.01


def test_motors_behind_gears_give_the_same_as_joints(robot: Robot) -> None:
    joints = record(5)
    ratios = np.array([[100.0, 0.0, 0.0], [0.0, -80.0, 0.0], [0.0, 50.0, 50.0]])
    zero = np.array([0.0, 0.3, -0.2])
    motors = Record.from_columns(
        "motors",
        joints.times,
        {
            "joint_position": (joints["joint_position"] - zero) @ ratios.T,
            "torque": joints["torque"] @ np.linalg.inv(ratios) / 0.04,
        },
    )
    back = convert_motors(robot, motors, ratios, zero, 0.04)
    np.testing.assert_allclose(back["joint_position"], joints["joint_position"], atol=1e-12)
    np.testing.assert_allclose(back["torque"], joints["torque"], atol=1e-12)


def test_records_that_do_not_fit_are_refused(robot: Robot) -> None:
    good = record(1)
    short = Record.from_columns("short", good.times[:50], {n: good[n][:50] for n in ("joint_position", "torque")})
    with pytest.raises(InputError, match=r"'short'.*is 0.1225 s long"):
        identify_held_arm(robot, [short])
    two = Record.from_columns(
        "two", good.times, {"joint_position": good["joint_position"], "torque": good["torque"][:, :2]}
    )
    with pytest.raises(InputError, match=r"'torque' has 2 columns .expected 3"):
        identify_held_arm(robot, [two])
    with pytest.raises(InputError, match=r"'torque'.*was not measured"):
        identify_held_arm(robot, [good.select(["joint_position"])])
    with pytest.raises(InputError, match=r"window of 0.001 s"):
        identify_held_arm(robot, [good], window=0.001)
    with pytest.raises(InputError, match=r"no joint 'wrist'"):
        identify_held_arm(robot, [good], friction={"wrist": ("viscous",)})


@pytest.mark.parametrize("method", ["linear", "total"])
def test_a_held_arm_taken_as_floating_is_not_sound(robot: Robot, method: Literal["linear", "total"]) -> None:
    """With a base that is taken as free and without gravity no masses fit: residuals say so, whatever the method."""
    given = record(1)
    some, still = slice(None, None, 60), np.zeros((given.times[::60].size, 3))
    rate = np.gradient(given["joint_position"], given.times, axis=0)
    acceleration = np.gradient(rate, given.times, axis=0)
    values = {"rate": still, "acceleration": still, "angular_acceleration": still, "joint_rate": rate[some],
              "joint_position": given["joint_position"][some], "joint_acceleration": acceleration[some],
              "torque": given["torque"][some]}  # fmt: skip
    units = {name: CHANNELS[name].unit for name in values}
    floating = Record.from_columns("held", given.times[some], values, units=units)
    certificate = identify(robot, [floating], method=method, kinds=["dynamics"]).certificate()
    assert not certificate.sound
    assert not certificate["chi_square.held"].sound
