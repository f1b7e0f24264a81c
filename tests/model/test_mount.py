"""Robots mounted on robots, against MuJoCo's own attachment; robots of another size; sets of wheels and thrusters."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import mujoco
import numpy as np
import pytest

from spacearm.errors import ModelError, SpacearmError
from spacearm.model import Body, Inertia, Joint, Pose, Robot, Thruster, edit
from spacearm.model.bus import make_bus, thruster_places
from spacearm.model.files import load, save
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.model.similarity import scale
from spacearm.model.wheels import wheel_axes
from support.random_robots import RandomState, random_robot
from support.symbolic import Symbolic

ARM = """
<mujoco model="arm">
  <worldbody>
    <body name="root">
      {root}
      <body name="upper" pos="0.1 0 0.2" euler="20 0 0">
        <joint name="shoulder" axis="0 1 0" range="-2 2"/>
        <inertial pos="0.2 0.01 0" mass="4" fullinertia="0.02 0.2 0.21 0.003 0.001 0.002"/>
        <body name="lower" pos="0.5 0 0" euler="0 0 90">
          <joint name="elbow" axis="0 0 1"/>
          <inertial pos="0 0.3 0" mass="3" diaginertia="0.15 0.01 0.14"/>
          <site name="hand" pos="0 0.6 0"/>
        </body>
      </body>
    </body>
  </worldbody>
  <keyframe><key name="ready" qpos="0.4 -0.3"/></keyframe>
</mujoco>"""
HEAVY = ARM.format(root='<inertial pos="0 0 0.05" mass="2.5" diaginertia="0.02 0.02 0.03"/>')
LIGHT = ARM.format(root='<geom name="plate" type="box" size="0.1 0.1 0.01" mass="0"/>')
BUS = """
[robot]
name = "servicer"
[[body]]
name = "bus"
mass = 400.0
com = [0.05, 0.0, -0.02]
inertia = [60.0, 70.0, 80.0, 1.0, -2.0, 0.5]
[[frame]]
name = "deck"
body = "bus"
origin = { xyz = [0.0, 0.0, 0.5], rpy_deg = [0, 0, 30] }
[[mount]]
file = "arm.xml"
origin = { xyz = [0.4, 0.0, 0.5], rpy_deg = [0, 0, 90] }
prefix = "left_"
[[mount]]
file = "arm.xml"
frame = "deck"
origin = { xyz = [-0.4, 0.1, 0.0], rpy_deg = [10, 20, 0] }
prefix = "right_"
"""
BUS_IN_MUJOCO = """
<mujoco><worldbody><body name="bus"><freejoint/>
  <inertial pos="0.05 0 -0.02" mass="400" fullinertia="60 70 80 1 -2 0.5"/>
</body></worldbody></mujoco>"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "arm.xml").write_text(HEAVY)
    (tmp_path / "bus.toml").write_text(BUS)
    return tmp_path


def attached(arm: str, poses: dict[str, Pose]) -> mujoco.MjModel:
    """Two arms on the bus, put together by MuJoCo."""
    spec = mujoco.MjSpec.from_string(BUS_IN_MUJOCO)
    for prefix, pose in poses.items():
        quaternion = quaternion_from_rotation(pose.rotation)
        frame = spec.body("bus").add_frame(pos=pose.translation, quat=quaternion)
        frame.attach_body(mujoco.MjSpec.from_string(arm).body("root"), prefix, "")
    return spec.compile()


def poses() -> dict[str, Pose]:
    deck = Pose(rotation_from_rpy(np.deg2rad([0, 0, 30])), np.array([0.0, 0.0, 0.5]))
    right = Pose(rotation_from_rpy(np.deg2rad([10, 20, 0])), np.array([-0.4, 0.1, 0.0]))
    left = Pose(rotation_from_rpy(np.deg2rad([0, 0, 90])), np.array([0.4, 0.0, 0.5]))
    return {"left_": left, "right_": deck @ right}


def quiet_load(path: Path) -> Robot:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(path)


@pytest.mark.parametrize("arm", [HEAVY, LIGHT], ids=["heavy base", "base without mass"])
def test_mass_centre_inertia_and_momentum_are_those_of_mujocos_attachment(files: Path, arm: str) -> None:
    (files / "arm.xml").write_text(arm)
    robot = quiet_load(files / "bus.toml")
    reference = attached(arm, poses())
    assert robot.mass == pytest.approx(reference.body_subtreemass[0], rel=1e-14)
    rng = np.random.default_rng(1)
    quaternion = rng.normal(size=4)
    state = RandomState(
        rng.normal(size=3),
        quaternion / np.linalg.norm(quaternion),
        rng.normal(size=robot.n),
        rng.normal(size=robot.dofs),
    )
    got = Symbolic(robot, "momentum_at_centre", "centre", "kinetic_energy")(state)
    data = mujoco.MjData(reference)
    data.qpos[:7] = [*state.position, *state.quaternion]
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, state.quaternion)
    data.qvel[:6] = [*(turn.reshape(3, 3) @ state.velocity[:3]), *state.velocity[3:6]]
    for k, name in enumerate(robot.joint_names):
        number = reference.joint(name)
        data.qpos[number.qposadr[0]], data.qvel[number.dofadr[0]] = state.joints[k], state.velocity[6 + k]
    mujoco.mj_forward(reference, data)
    mujoco.mj_subtreeVel(reference, data)
    linear = reference.body_subtreemass[0] * data.subtree_linvel[0]
    np.testing.assert_allclose(got["centre"].ravel(), data.subtree_com[0], rtol=1e-12)
    np.testing.assert_allclose(got["momentum_at_centre"].ravel()[:3], linear, rtol=1e-12)
    np.testing.assert_allclose(got["momentum_at_centre"].ravel()[3:], data.subtree_angmom[0], rtol=1e-11)
    mujoco.mj_energyVel(reference, data)
    assert float(got["kinetic_energy"].ravel()[0]) == pytest.approx(data.energy[1], rel=1e-12)


def test_names_frames_and_configurations_of_the_whole(files: Path) -> None:
    text = BUS + '[[frame]]\nname = "tool"\nbody = "left_lower"\norigin = { xyz = [0, 0.7, 0] }\n'
    (files / "bus.toml").write_text(text + "[configurations]\nstow = [1.0, 2.0, 3.0, 4.0]\n")
    robot = quiet_load(files / "bus.toml")
    assert robot.joint_names == ("left_shoulder", "left_elbow", "right_shoulder", "right_elbow")
    assert robot.frame("tool").body == "left_lower"
    assert robot.frame("left_root").body == "bus"
    np.testing.assert_array_equal(robot.configuration("ready"), [0.4, -0.3, 0.4, -0.3])
    np.testing.assert_array_equal(robot.configuration("stow"), [1.0, 2.0, 3.0, 4.0])
    assert load(save(robot, files / "whole.toml")) == robot


def test_a_base_without_mass_adds_none_and_a_pedestal_can_be_left_out(files: Path) -> None:
    (files / "arm.xml").write_text(LIGHT)
    assert quiet_load(files / "bus.toml").mass == pytest.approx(414.0, rel=1e-15)
    (files / "arm.xml").write_text(HEAVY)
    assert quiet_load(files / "bus.toml").mass == pytest.approx(419.0, rel=1e-15)
    (files / "bus.toml").write_text(BUS.replace('prefix = "left_"', 'prefix = "left_"\nbase_inertia = false'))
    assert quiet_load(files / "bus.toml").mass == pytest.approx(416.5, rel=1e-15)


HOSTILE = {
    "no file": ('file = "nothing.urdf"', "mount[0]", "there is no file"),
    "a folder": ('file = "."', "mount[0]", ""),
    "no frame": ('file = "arm.xml"\nframe = "roof"', "mount[0]", "roof"),
    "the same names twice": ('file = "arm.xml"\n[[mount]]\nfile = "arm.xml"', "mount[1]", "give a prefix"),
    "control characters": ('file = "arm.xml"\nprefix = "a\\u0000"', "mount[0].prefix", "control characters"),
    "nan": ('file = "arm.xml"\nscale = nan', "mount[0].scale", "nan"),
    "negative size": ('file = "arm.xml"\nscale = -2.0', "mount[0]", "length"),
    "huge size": ('file = "arm.xml"\nscale = 1e29', "mount[0]", ""),
    "text for a switch": ('file = "arm.xml"\nrepair = "no"', "mount[0].repair", "boolean"),
    "no such part": ('file = "arm.xml"\nrename = { wrist = "x" }', "mount[0]", "wrist"),
    "itself": ('file = "bus.toml"', "mount[0]", "does a file mount itself"),
    "a zero byte": ('file = "a\\u0000b"', "mount[0].file", "control characters"),
    "unknown key": ('file = "arm.xml"\nat = [0, 0, 0]', "mount[0]", "unknown key 'at'"),
    "outside": ('file = "arm.xml"\noutside = true', "mount[0]", "unknown key 'outside'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_wrong_with_a_mount_is_told_with_its_place(files: Path, case: str) -> None:
    keys, place, words = HOSTILE[case]
    (files / "bus.toml").write_text(BUS.partition("[[mount]]")[0] + "[[mount]]\n" + keys + "\n")
    with pytest.raises(SpacearmError) as caught:
        quiet_load(files / "bus.toml")
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_many_mounts_are_refused(files: Path) -> None:
    (files / "bus.toml").write_text(BUS.partition("[[mount]]")[0] + '[[mount]]\nfile = "arm.xml"\n' * 33)
    with pytest.raises(ModelError, match="mount"):
        load(files / "bus.toml")


# -- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 4])
def test_a_robot_of_another_size_moves_through_the_same_angles(seed: int) -> None:
    """By dimensions: with time unchanged, forces grow as mass times length and torques as mass times length squared."""
    robot = random_robot(seed, 4, rotors=0.5, prismatic=0.5)
    length, mass = 2.5, 3.0
    other = scale(robot, length, mass)
    assert other.mass == pytest.approx(mass * robot.mass)
    rng = np.random.default_rng(seed)
    quaternion = rng.normal(size=4)
    slides = np.array([length if joint.kind == "prismatic" else 1.0 for joint in robot.joints])
    factors = np.concatenate([np.full(3, length), np.ones(3), slides])
    state = RandomState(
        rng.normal(size=3),
        quaternion / np.linalg.norm(quaternion),
        rng.normal(size=robot.n),
        rng.normal(size=robot.dofs),
    )
    larger = RandomState(length * state.position, state.quaternion, slides * state.joints, factors * state.velocity)
    force = rng.normal(size=robot.dofs)
    wrench = np.zeros(6 * len(robot.frames))
    found = Symbolic(robot, "acceleration")(state, force=force, wrench=wrench)["acceleration"]
    # Power of a generalised force is force times velocity, and grows as mass times length squared.
    scaled = mass * length**2 / factors * force
    again = Symbolic(other, "acceleration")(larger, force=scaled, wrench=wrench)["acceleration"]
    np.testing.assert_allclose(again.ravel(), factors * found.ravel(), rtol=1e-9, atol=1e-12)


def test_springs_limits_thrusters_and_couplings_are_scaled_alike() -> None:
    robot = scale(load("servicer"), 2.0)
    old = load("servicer")
    for before, after in zip(old.joints, robot.joints, strict=True):
        factor = 32.0 if before.kind == "revolute" else 16.0
        assert after.limits.effort == pytest.approx(factor * before.limits.effort)
        if before.spring is not None:
            assert after.spring is not None
            assert after.spring.stiffness == pytest.approx(
                (32.0 if before.kind == "revolute" else 8.0) * before.spring.stiffness
            )
    for jet, bigger in zip(old.thrusters, robot.thrusters, strict=True):
        assert bigger.force == pytest.approx(16.0 * jet.force)
        np.testing.assert_allclose(bigger.position, 2.0 * jet.position)


# -- sets of wheels and thrusters, buses -----------------------------------------------------------------------------


def test_a_pyramid_of_wheels_has_equal_momentum_along_all_axes() -> None:
    axes = wheel_axes("pyramid")
    np.testing.assert_allclose(axes.T @ axes, 4.0 / 3.0 * np.eye(3), atol=1e-15)
    steep = wheel_axes("pyramid", (1.0, 0.0, 0.0), math.radians(30.0))
    np.testing.assert_allclose(steep[:, 0], math.cos(math.radians(30.0)), rtol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(steep, axis=1), 1.0, rtol=1e-14)
    np.testing.assert_array_equal(wheel_axes("orthogonal"), np.eye(3))


@pytest.mark.parametrize("count", [12, 16])
def test_thrusters_of_a_set_give_every_force_and_torque_alone(count: int) -> None:
    from scipy.optimize import nnls

    places = thruster_places(count, (1.2, 1.0, 0.8))
    assert len({name for name, _, _ in places}) == count
    wrenches = np.array([[*way, *np.cross(where, way)] for _, where, way in places]).T
    for wrench in (*np.eye(6), *-np.eye(6)):
        _, miss = nnls(wrenches, wrench)
        assert miss < 1e-12


def test_a_bus_is_a_box_of_uniform_density() -> None:
    bus = make_bus(600.0, (1.0, 2.0, 3.0), thrusters=16)
    tensor = bus.bodies[0].inertia.tensor
    np.testing.assert_allclose(np.diag(tensor), 50.0 * np.array([13.0, 10.0, 5.0]))
    assert len(bus.thrusters) == 16
    for frame in bus.frames:
        outward = frame.placement.rotation[:, 2]
        np.testing.assert_allclose(frame.placement.translation, outward * np.array([0.5, 1.0, 1.5]), atol=1e-15)
        assert ("plus" in frame.name) == (outward["xyz".index(frame.name[-1])] > 0.5)
    # All wheels at full speed along the largest axis hold at least the momentum of the box at 0.1 rad/s.
    held = sum(joint.rotor.inertia * joint.limits.velocity * abs(joint.axis[0]) for joint in bus.joints if joint.rotor)
    assert held >= 0.1 * tensor[0, 0]
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ModelError, match="mass"):
            make_bus(wrong, (1, 1, 1))
        with pytest.raises(ModelError, match="size"):
            make_bus(1.0, (1, wrong, 1))


SETS = """
[[wheel]]
name = "w"
body = "bus"
set = "pyramid"
inertia = 0.01
[[thruster]]
name = "jet"
body = "bus"
set = 12
size = [1.0, 1.0, 1.0]
force = 2.0
"""


def test_sets_stand_in_one_table(files: Path) -> None:
    (files / "bus.toml").write_text(BUS.partition("[[mount]]")[0] + SETS)
    robot = load(files / "bus.toml")
    assert robot.joint_names == ("w1", "w2", "w3", "w4")
    np.testing.assert_allclose([joint.axis for joint in robot.joints], wheel_axes("pyramid"))
    assert len(robot.thrusters) == 12
    assert robot.thrusters[0].name == "jet_xp_yp"


WRONG_SETS = {
    "axis": (SETS.replace('set = "pyramid"\n', ""), "'axis' is missing"),
    "tilt": (SETS.replace('"pyramid"', '"orthogonal"\ntilt_deg = 20'), "'tilt' applies to the wheels of a pyramid"),
    "axis of three": (SETS.replace('"pyramid"', '"orthogonal"\naxis = [0, 0, 1]'), "'axis' does not apply"),
    "steep": (SETS.replace('"pyramid"', '"pyramid"\ntilt_deg = 120'), "right angle"),
    "ball": (SETS.replace('"pyramid"', '"ball"'), "'pyramid' or 'orthogonal'"),
    "thirteen": (SETS.replace("set = 12", "set = 13"), "12 or 16"),
    "no size": (SETS.replace("size = [1.0, 1.0, 1.0]\n", ""), "'size' is missing"),
    "flat": (SETS.replace("size = [1.0, 1.0, 1.0]", "size = [1.0, 0.0, 1.0]"), "size"),
    "direction": (SETS.replace("set = 12", "set = 12\ndirection = [1, 0, 0]"), "'direction' does not apply"),
    "position": (SETS.replace("set = 12\nsize = [1.0, 1.0, 1.0]", "direction = [1, 0, 0]"), "'position' is missing"),
}


@pytest.mark.parametrize("case", WRONG_SETS)
def test_wrong_sets_are_errors_with_their_place(files: Path, case: str) -> None:
    text, words = WRONG_SETS[case]
    (files / "bus.toml").write_text(BUS.partition("[[mount]]")[0] + text)
    with pytest.raises(ModelError) as caught:
        load(files / "bus.toml")
    assert words in str(caught.value)
    assert "wheel[0]" in str(caught.value) or "thruster[0]" in str(caught.value)


def test_parts_are_added_by_functions() -> None:
    bus = make_bus(100.0, (1, 1, 1), wheels=None, thrusters=0)
    arm = Robot("a", (Body("foot", Inertia(1.0)), Body("arm", Inertia(2.0))), (Joint("j", "revolute", "foot", "arm"),))
    both = edit.mount(bus, arm, frame="plus_x", prefix="a_")
    assert both.joint("a_j").parent == "bus"
    np.testing.assert_allclose(both.joint("a_j").placement.translation, [0.5, 0.0, 0.0])
    more = edit.add_parts(both, thrusters=[Thruster("jet", "a_arm", [0, 0, 0], [1, 0, 0], 1.0)])
    assert more.thrusters[0].body == "a_arm"
    with pytest.raises(ModelError, match="give a prefix"):
        edit.mount(edit.mount(bus, arm), arm)
