"""URDF: what is read, what is refused and where it says so, and that writing reads back."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pinocchio
import pytest

from spacearm.errors import ModelError
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
    load,
)
from spacearm.model.notices import LossyConversion, NotExpressible
from spacearm.model.robot_import import Reading
from spacearm.model.urdf_read import read_urdf, robot_from_urdf
from spacearm.model.urdf_write import urdf_text
from support.numpy_kinematics import close_robots, frame_poses, mass_matrix, mass_properties, random_robot, turn
from support.urdf_text import ARM, INERTIAL


def test_reads_an_arm():
    robot = robot_from_urdf(ARM)
    assert robot.name == "arm"
    assert robot.body_names == ("base", "link1", "link2")
    j1, j2 = robot.joints
    assert (j1.kind, j1.damping, j1.friction) == ("revolute", 0.7, Friction(0.2, 0.2))
    assert j1.limits == Limits(-1, 2, 3, 5)
    expected = turn([0, 0, 1], 0.3) @ turn([0, 1, 0], 0.2) @ turn([1, 0, 0], 0.1)
    np.testing.assert_allclose(j1.placement.rotation, expected, atol=1e-15)
    np.testing.assert_array_equal(j1.placement.translation, [1, 2, 3])
    assert j2.kind == "prismatic"
    np.testing.assert_array_equal(j2.axis, [1, 0, 0])
    assert j2.limits == Limits()
    hand = robot.frame("hand")
    assert hand.body == "link2"
    np.testing.assert_array_equal(hand.placement.translation, [0, 0, 0.5])


def test_inertial_origin_is_turned():
    text = ARM.replace('xyz="0.1 0 0" rpy="0 0 0"', 'xyz="0.1 0 0" rpy="0.3 0.4 0.5"', 1).replace(
        'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"', 'ixx="1" ixy="0.1" ixz="0" iyy="2" iyz="0" izz="2.5"', 1
    )
    rotation = turn([0, 0, 1], 0.5) @ turn([0, 1, 0], 0.4) @ turn([1, 0, 0], 0.3)
    tensor = np.array([[1, 0.1, 0], [0.1, 2, 0], [0, 0, 2.5]])
    base = robot_from_urdf(text).bodies[0].inertia
    np.testing.assert_allclose(base.tensor, rotation @ tensor @ rotation.T, atol=1e-15)
    np.testing.assert_array_equal(base.com, [0.1, 0, 0])


def test_fixed_joints_in_a_row_are_fused():
    text = f"""<robot name="r"><link name="a">{INERTIAL}</link><link name="b">{INERTIAL}</link>
    <link name="c">{INERTIAL}</link><link name="d">{INERTIAL}</link>
    <joint name="bc" type="fixed"><parent link="b"/><child link="c"/><origin xyz="0 1 0" rpy="0 0 0.5"/></joint>
    <joint name="cd" type="continuous"><parent link="c"/><child link="d"/><origin xyz="0 0 1"/></joint>
    <joint name="ab" type="fixed"><parent link="a"/><child link="b"/><origin xyz="1 0 0" rpy="0.4 0 0"/></joint>
    </robot>"""
    robot = robot_from_urdf(text)
    assert robot.body_names == ("a", "d")
    assert {frame.name for frame in robot.frames} == {"b", "c"}
    loose = robot_from_urdf(text.replace('type="fixed"', 'type="continuous"'))
    for one, two in zip(mass_properties(robot, [0.3]), mass_properties(loose, [0, 0, 0.3]), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-12)


@pytest.mark.parametrize("kind", ["floating", "fixed"])
def test_world_root_is_left_out(kind):
    world = f'<link name="world"/><joint name="w" type="{kind}"><parent link="world"/><child link="base"/></joint>'
    robot = robot_from_urdf(ARM.replace("<transmission", world + "<transmission"))
    assert robot == robot_from_urdf(ARM)


@pytest.mark.parametrize("seed", range(12))
def test_round_trip(seed):
    robot = random_robot(seed, joints=6, massless=seed % 2 == 1)
    close_robots(robot_from_urdf(urdf_text(robot, strict=True)), robot)


@pytest.mark.parametrize("offset", [0.0, 1e-15, 1e-12, 1e-10, 1e-9, 3e-9, 1e-8, 1e-6, 1e-3])
@pytest.mark.parametrize("sign", [1, -1])
def test_round_trip_near_gimbal_lock(offset, sign):
    rotation = turn([0, 0, 1], 0.7) @ turn([0, 1, 0], sign * (np.pi / 2 - offset)) @ turn([1, 0, 0], -1.3)
    robot = Robot("r", (Body("base", Inertia(1.0)),), frames=(Frame("f", "base", Pose(rotation)),))
    back = robot_from_urdf(urdf_text(robot))
    np.testing.assert_allclose(back.frames[0].placement.rotation, rotation, atol=1e-14)


def test_round_trip_of_limits_and_friction():
    cases = [Limits(), Limits(-1, 1), Limits(lower=-2), Limits(upper=3), Limits(velocity=2), Limits(effort=4)]
    bodies = [Body("base", Inertia(1.0))] + [Body(f"b{i}", Inertia(1.0)) for i in range(2 * len(cases))]
    joints = [
        Joint(f"j{i}", kind, "base", f"b{i}", limits=limits, damping=0.1 * i, friction=Friction(i + 1.0, i + 1.0))
        for i, (kind, limits) in enumerate((k, c) for k in ("revolute", "prismatic") for c in cases)
    ]
    robot = Robot("r", tuple(bodies), tuple(joints))
    assert robot_from_urdf(urdf_text(robot, strict=True)) == robot


@pytest.mark.parametrize("seed", range(4))
def test_another_reader_sees_the_same_robot(seed):
    """Pinocchio's mass matrix from the written text, against plain NumPy on the robot."""
    robot = random_robot(seed, joints=5, massless=seed % 2 == 1)
    model = pinocchio.buildModelFromXML(urdf_text(robot), pinocchio.JointModelFreeFlyer())
    values = np.random.default_rng(seed).uniform(-1, 1, robot.n)
    q = pinocchio.neutral(model)
    order = list(range(6))
    for joint, value in zip(robot.joints, values, strict=True):
        index = model.getJointId(joint.name)
        start = model.idx_qs[index]
        q[start : start + model.nqs[index]] = [np.cos(value), np.sin(value)] if model.nqs[index] == 2 else value
        order.append(model.idx_vs[index])
    data = model.createData()
    full = pinocchio.crba(model, data, q)
    full = np.triu(full) + np.triu(full, 1).T
    np.testing.assert_allclose(full[np.ix_(order, order)], mass_matrix(robot, values), rtol=1e-11, atol=1e-11)
    for frame in robot.frames:
        pinocchio.framesForwardKinematics(model, data, q)
        placement = data.oMf[model.getFrameId(frame.name)]
        np.testing.assert_allclose(placement.homogeneous, frame_poses(robot, values)[frame.name], atol=1e-12)


def rich_robot():
    point = Inertia(1.0, tensor=np.eye(3))
    return Robot(
        "rich",
        (Body("base", point), Body("arm", point), Body("rotor", Inertia.massless())),
        (
            Joint("j", "revolute", "base", "arm", spring=Spring(3), friction=Friction(2, 1)),
            Joint("motor", "revolute", "base", "rotor", rotor=Rotor(0.1, 50)),
        ),
        frames=(Frame("tip", "arm"), Frame("shaft", "rotor")),
        thrusters=(Thruster("t", "base", np.zeros(3), [1, 0, 0], 3),),
        couplings=(Coupling("c", "j", "motor", 10),),
        configurations={"home": np.array([0.1, 0.2])},
    )


def test_losses_are_told():
    with pytest.warns(LossyConversion) as notes:
        text = urdf_text(rich_robot())
    note = "\n".join(str(warning.message) for warning in notes)
    for part in (
        "'j': its spring",
        "'j': static",
        "'motor'",
        "frame 'shaft'",
        "thruster 't'",
        "coupling 'c'",
        "'home'",
    ):
        assert part in note
    back = robot_from_urdf(text)
    assert back.body_names == ("base", "arm")
    assert [frame.name for frame in back.frames] == ["tip"]
    with pytest.raises(NotExpressible, match="coupling 'c'"):
        urdf_text(rich_robot(), strict=True)


def test_names_that_xml_must_escape():
    name = "a<b&\"c'é "
    robot = Robot(name.strip(), (Body(name.strip(), Inertia(1.0)),))
    assert robot_from_urdf(urdf_text(robot)) == robot


def test_fixed_joint_names_do_not_clash():
    inertia = Inertia(1.0)
    robot = Robot(
        "r", (Body("a", inertia), Body("b", inertia)), (Joint("f.fixed", "revolute", "a", "b"),), (Frame("f", "b"),)
    )
    assert robot_from_urdf(urdf_text(robot)) == robot


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>'
EXTERNAL = '<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/hostname">]><robot name="r"><link name="&a;"/></robot>'
DTD = '<!DOCTYPE robot SYSTEM "http://example.org/x.dtd"><robot name="r"/>'


@pytest.mark.parametrize("text", [BOMB, EXTERNAL, DTD])
def test_entities_are_refused(text):
    with pytest.raises(ModelError, match="entities are not read"):
        robot_from_urdf(text)


def change(old, new, count=1):
    assert old in ARM
    return ARM.replace(old, new, count)


BAD = {
    "not XML": ("<robot", "line 1"),
    "empty": ("", "line 1"),
    "other root": ("<mujoco/>", "expected <robot>"),
    "no name": (change('<robot name="arm">', "<robot>"), "robot: <robot> has no 'name'"),
    "xacro": (change("<gazebo/>", '<x:macro xmlns:x="http://www.ros.org/wiki/xacro"/>'), "xacro"),
    "odd type": (change('type="prismatic"', 'type="screw"'), "joint 'j2': joint type 'screw'"),
    "no type": (change('type="prismatic"', ""), "joint 'j2'"),
    "mimic": (change('<origin xyz="0 0 1"/>', '<mimic joint="j9"/>'), r"joint 'j2': follows joint 'j9'.*repair=True"),
    "axis": (change('axis xyz="0 0 1"', 'axis xyz="0 0 2"'), "joint 'j1': axis has length 2"),
    "axis zero": (change('axis xyz="0 0 1"', 'axis xyz="0 0 0"'), "joint 'j1': axis has length 0"),
    "axis count": (change('axis xyz="0 0 1"', 'axis xyz="0 1"'), "joint 'j1': axis.xyz has 2 numbers"),
    "text": (change('mass value="2"', 'mass value="heavy"'), "link 'base': mass.value is not a finite number"),
    "underscore": (change('mass value="2"', 'mass value="1_0"'), "not a finite number"),
    "nan": (change('mass value="2"', 'mass value="nan"'), "link 'base': mass.value is not a finite number"),
    "overflow": (change('mass value="2"', 'mass value="1e400"'), "link 'base': mass.value is 1e400"),
    "negative mass": (change('mass value="2"', 'mass value="-2"'), "link 'base': mass is -2"),
    "zero mass": (change('mass value="2"', 'mass value="0"'), "link 'base': mass is zero but"),
    "no mass": (change('<mass value="2"/>', ""), "link 'base': <inertial> has no <mass>"),
    "triangle": (change('ixx="1"', 'ixx="5"'), "link 'base': inertia breaks the triangle"),
    "no ixx": (change('ixx="1"', ""), "link 'base': <inertia> has no 'ixx'"),
    "nan origin": (change('xyz="1 2 3"', 'xyz="1 nan 3"'), "joint 'j1': origin.xyz"),
    "duplicate link": (change('name="link2"', 'name="link1"'), r"link\[1\] and link\[2\]: two are called 'link1'"),
    "duplicate joint": (change('name="j2"', 'name="j1"'), r"joint\[0\] and joint\[1\]: two are called 'j1'"),
    "unknown link": (change('child link="link2"', 'child link="lnk2"'), r"joint 'j2': there is no body 'lnk2' \(did"),
    "no parent": (change('<parent link="link1"/>', ""), "joint 'j2': <joint> has no <parent>"),
    "two parents": (change('<parent link="link1"/>', '<parent link="link1"/>' * 2), "joint 'j2': there are 2 <parent>"),
    "cycle": (change('<parent link="base"/>', '<parent link="link2"/>'), "cycle"),
    "fixed cycle": (
        change("<gazebo/>", '<joint name="g" type="fixed"><parent link="hand"/><child link="base"/></joint>'),
        "cycle",
    ),
    "fixed cycle alone": (
        change(
            "<gazebo/>",
            '<link name="p"/><link name="q"/><joint name="g" type="fixed"><parent link="p"/><child link="q"/></joint>'
            '<joint name="h" type="fixed"><parent link="q"/><child link="p"/></joint>',
        ),
        "joint 'g': the fixed joints form a cycle",
    ),
    "two roots": (change("<gazebo/>", f'<link name="other">{INERTIAL}</link>'), "disconnected: 'base', 'other'"),
    "two carriers": (
        change("<gazebo/>", '<joint name="g" type="fixed"><parent link="base"/><child link="hand"/></joint>'),
        "joint 'g': body 'hand' is already carried by joint 'grip'",
    ),
    "massless end": (
        change(f'<link name="link2">{INERTIAL}</link>', '<link name="link2"/>'),
        "joint 'j2'.*massless|massless",
    ),
    "limits": (change('lower="-1"', 'lower="3"'), "joint 'j1': lower limit 3 is above"),
    "no links": ('<robot name="r"/>', "no body"),
    "unknown encoding": ('<?xml version="1.0" encoding="nonsense"?><robot name="r"/>', "XML"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_its_place(case, tmp_path):
    text, message = BAD[case]
    path = tmp_path / "bad.urdf"
    path.write_text(text)
    with pytest.raises(ModelError, match=message) as caught:
        read_urdf(path)
    assert str(caught.value).startswith(str(path))


def test_unreadable_files(tmp_path):
    with pytest.raises(ModelError, match=r"none\.urdf: cannot be read"):
        read_urdf(tmp_path / "none.urdf")
    with pytest.raises(ModelError, match="cannot be read"):
        read_urdf(tmp_path)
    big = tmp_path / "big.urdf"
    big.write_bytes(b" " * (16 * 2**20 + 1))
    with pytest.raises(ModelError, match="larger than"):
        read_urdf(big)
    many = '<robot name="r">' + "".join(f'<link name="l{i}"/>' for i in range(1001)) + "</robot>"
    with pytest.raises(ModelError, match="1001 links"):
        robot_from_urdf(many)


def test_undecodable_bytes():
    with pytest.raises(ModelError):
        robot_from_urdf(b"\xff\xfe\xff<robot")
    with pytest.raises(ModelError):
        robot_from_urdf("<robot name='\ud800'/>")


def test_written_text_has_no_warning_when_nothing_is_lost():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        text = urdf_text(robot_from_urdf(ARM))
    assert re.search(r'<joint name="hand\.fixed" type="fixed">', text)


# -- what nobody knows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (
            "dynamics damping",
            "dinamics damping",
            "joint 'j1': element <dinamics> is unknown and is ignored (did you mean ",
        ),
        (
            "damping=",
            "dampin=",
            "joint 'j1': attribute 'dampin' of <dynamics> is unknown and is ignored (did you mean ",
        ),
        ('xyz="1 2 3"', 'xzy="1 2 3"', "joint 'j1': attribute 'xzy' of <origin> is unknown"),
        ("<gazebo/>", "<gzebo/>", "robot: element <gzebo> is unknown and is ignored (did you mean 'gazebo'?)"),
        ("<gazebo/>", "<jont name='x'/>", "robot: element <jont> is unknown and is ignored (did you mean 'joint'?)"),
        ("<inertial><origin", "<inertial><pose/><origin", "link 'base': element <pose> is unknown and is ignored"),
    ],
)
def test_unknown_elements_and_attributes_are_told_with_their_place(old, new, note, tmp_path):
    text = ARM.replace(old, new, 1)
    with pytest.warns(LossyConversion) as caught:
        robot_from_urdf(text)
    assert any(note in str(warning.message) for warning in caught)
    file = tmp_path / "arm.urdf"
    file.write_text(text)
    with pytest.warns(LossyConversion, match=re.escape(f"{file}: {note}")):
        read_urdf(file)


def test_what_is_known_to_say_nothing_about_the_motion_is_passed_over():
    more = (
        '<joint name="j2" type="prismatic"><calibration rising="0"/><safety_controller k_velocity="1"/>'
        '<limit lower="-1" upper="1" effort="1" velocity="1" jerk="3"/>'
    )
    text = ARM.replace('<joint name="j2" type="prismatic">', more)
    text = text.replace(
        "<gazebo/>", '<gazebo reference="base"><odd/></gazebo><ros2_control name="c"><odd/></ros2_control>'
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert robot_from_urdf(text).n == 2


# -- joints of several degrees of freedom, several robots in a file ---------------------------------------------------


def test_a_planar_joint_is_two_slides_and_a_turn():
    """Against Pinocchio's own planar joint: x, y and angle about z."""
    text = change('type="prismatic"', 'type="planar"').replace(
        '<origin xyz="0 0 1"/>', '<origin xyz="0 0 1" rpy="0.2 0.3 0.4"/><axis xyz="0 0 1"/>'
    )
    robot = robot_from_urdf(text)
    assert robot.joint_names == ("j1", "j2.x", "j2.y", "j2.turn")
    model = pinocchio.buildModelFromXML(text)
    data, values = model.createData(), [0.3, 0.5, -0.7, 1.1]
    q = np.array([0.3, 0.5, -0.7, np.cos(1.1), np.sin(1.1)])
    pinocchio.framesForwardKinematics(model, data, q)
    expected = data.oMf[model.getFrameId("hand")].homogeneous
    np.testing.assert_allclose(frame_poses(robot, values)["hand"], expected, atol=1e-13)


@pytest.mark.parametrize("axis", ["1 0 0", "0 1 0", "0.6 0 0.8", "0 0 2"])
def test_a_planar_joint_keeps_to_its_plane(axis):
    text = change('type="prismatic"', 'type="planar"').replace(
        '<origin xyz="0 0 1"/>', f'<origin xyz="0 0 1"/><axis xyz="{axis}"/>'
    )
    x, y, turning = robot_from_urdf(text).joints[1:]
    frame = np.column_stack([x.axis, y.axis, turning.axis])
    np.testing.assert_allclose(frame.T @ frame, np.eye(3), atol=1e-15)
    assert np.linalg.det(frame) > 0
    given = np.array([float(word) for word in axis.split()])
    np.testing.assert_allclose(turning.axis, given / np.linalg.norm(given), atol=1e-15)


@pytest.mark.parametrize(("kind", "count"), [("spherical", 3), ("floating", 6)])
def test_joints_with_three_and_six_degrees_of_freedom_reach_every_place(kind, count):
    text = change('type="prismatic"', f'type="{kind}"')
    with pytest.warns(LossyConversion, match=f"joint 'j2': a {kind} joint.* singular"):
        robot = robot_from_urdf(text)
    assert robot.n == 1 + count
    angles = [0.3, -0.4, 0.5]
    poses = frame_poses(robot, [0.0, *([1.0, 2.0, 3.0] if count == 6 else []), *angles])
    inner = np.linalg.inv(poses["link1"]) @ poses["link2"]
    expected = turn([1, 0, 0], 0.3) @ turn([0, 1, 0], -0.4) @ turn([0, 0, 1], 0.5)
    np.testing.assert_allclose(inner[:3, :3], expected, atol=1e-14)
    np.testing.assert_allclose(inner[:3, 3], [1, 2, 4] if count == 6 else [0, 0, 1], atol=1e-14)
    with pytest.raises(NotExpressible, match="singular"):
        robot_from_urdf(text, reading=Reading(strict=True))


TWO = f"""<robot name="two"><link name="world"/><link name="a">{INERTIAL}</link><link name="b">{INERTIAL}</link>
<link name="c">{INERTIAL}</link>
<joint name="wa" type="floating"><parent link="world"/><child link="a"/></joint>
<joint name="wb" type="floating"><parent link="world"/><child link="b"/></joint>
<joint name="bc" type="continuous"><parent link="b"/><child link="c"/></joint></robot>"""


def test_one_of_several_robots_is_chosen_by_its_base():
    with pytest.raises(ModelError, match=r"several bodies stand on 'world'.*'a', 'b'.*--base NAME"):
        robot_from_urdf(TWO)
    with pytest.warns(LossyConversion, match=r"link 'world', link 'a': is not beyond the base 'b', and is left out"):
        robot = robot_from_urdf(TWO, reading=Reading(base="b"))
    assert robot.body_names == ("b", "c")
    with pytest.raises(ModelError, match=r"base: there is no link 'd'"):
        robot_from_urdf(TWO, reading=Reading(base="d"))
    with pytest.warns(LossyConversion), pytest.raises(ModelError, match="disconnected"):
        robot_from_urdf(ARM.replace("<gazebo/>", f'<link name="o">{INERTIAL}</link><gzebo/>'))


def test_sdf_and_xacro_are_told_what_to_do(tmp_path):
    for name, text, note in (
        ("robot.sdf", "<sdf/>", "there is no <model>"),
        ("robot.urdf", "<sdf version='1.6'/>", "ends in .sdf"),
        ("robot.urdf", "<mujoco/>", "ends in .xml"),
        ("robot.urdf", '<robot name="r" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:x/></robot>', "ends in .xacro"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(ModelError, match=re.escape(note)):
            load(path)


def test_many_losses_of_a_kind_are_one_warning():
    text = ARM
    for name in range(40):
        text = text.replace(
            "<gazebo/>",
            f'<link name="x{name}"><odd/></link><joint name="f{name}" type="fixed">'
            f'<parent link="base"/><child link="x{name}"/></joint><gazebo/>',
            1,
        )
    with pytest.warns(LossyConversion) as notes:
        robot_from_urdf(text)
    assert len(notes) == 1
    assert "link 'x0', link 'x1'" in str(notes[0].message)
    assert "and 32 more: element <odd> is unknown and is ignored" in str(notes[0].message)
