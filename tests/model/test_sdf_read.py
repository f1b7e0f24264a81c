"""SDF: poses in any frame, axes, limits, defaults; masses and inertias as Drake reads them from the same file."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.errors import ModelError
from spacearm.model import load
from spacearm.model.notices import LossyConversion, NotExpressible
from spacearm.model.robot_import import Reading
from spacearm.model.sdf_read import robot_from_sdf

BODY = """<inertial><pose>0.02 -0.01 0.1 0.1 0.2 -0.3</pose><mass>{mass}</mass><inertia><ixx>0.05</ixx><ixy>0.002</ixy>
<ixz>-0.001</ixz><iyy>0.06</iyy><iyz>0.003</iyz><izz>0.04</izz></inertia></inertial>"""
#: Frames that depend on each other, in every way of SDF 1.10.
ARM = f"""<?xml version="1.0"?>
<sdf version="1.10"><model name="arm" canonical_link="bus">
  <pose>1 2 3 0 0 0</pose>
  <link name="bus">{BODY.format(mass=200)}
    <collision name="c"><geometry><box><size>1 1 1</size></box></geometry></collision>
    <sensor name="imu" type="imu"/></link>
  <frame name="mount" attached_to="bus"><pose degrees="true">0.5 0 0.2 0 45 90</pose></frame>
  <link name="upper"><pose relative_to="mount">0 0 0.1 0.3 0 0</pose>{BODY.format(mass=5)}
    <visual name="v"><pose>0 0 0.1 0 0 0</pose><geometry><cylinder><radius>0.05</radius><length>0.2</length></cylinder>
    </geometry><material><diffuse>0.2 0.4 0.6</diffuse></material></visual></link>
  <link name="fore"><pose relative_to="upper" rotation_format="quat_xyzw">0 0.1 0.4 0.1 -0.3 0.3 0.9</pose>
    {BODY.format(mass=3)}</link>
  <link name="slider"><pose relative_to="elbow">0.1 0.2 0.3 0.4 0.5 0.6</pose>{BODY.format(mass=1)}</link>
  <joint name="shoulder" type="revolute"><parent>mount</parent><child>upper</child>
    <pose relative_to="mount">0 0 0.05 0 0 0.2</pose>
    <axis><xyz expressed_in="__model__">0 1 0</xyz><limit><lower>-2</lower><upper>1.5</upper><effort>30</effort>
    <velocity>-1</velocity></limit><dynamics><damping>0.7</damping><friction>0.1</friction></dynamics></axis></joint>
  <joint name="elbow" type="revolute"><pose>0.01 0.02 0 0.1 0 0</pose><parent>upper</parent><child>fore</child>
    <axis><xyz>1 0 0</xyz><limit><lower>-1e16</lower><upper>inf</upper></limit></axis></joint>
  <joint name="slide" type="prismatic"><parent>fore</parent><child>slider</child>
    <axis><xyz expressed_in="mount">0.6 0 0.8</xyz><limit><lower>-0.1</lower><upper>0.3</upper></limit></axis></joint>
  <frame name="tool" attached_to="slider"><pose relative_to="fore">0 0 0.5 0 1 0</pose></frame>
</model></sdf>"""

#: Joints, velocity of the base, and from Drake 1.51: kinetic energy and place of the tool.
DRAKE: tuple[tuple[list[float], list[float], float, list[float]], ...] = (
    ([0.274, -0.46, -0.918], [-0.967, 0.627, 0.826, 0.213, 0.459, 0.087], 193.30174471516128,
     [0.8296759781205613, -0.5238266432060239, 0.7575930847324888]),
    ([0.87, 0.632, -0.995], [0.715, -0.933, 0.459, -0.649, 0.726, 0.083], 164.2429031173048,
     [1.1961413847693347, -0.508155342898861, 0.20035343418044918]),
    ([-0.401, -0.155, -0.943], [-0.751, 0.341, 0.294, 0.231, -0.233, 0.994], 86.21761516859729,
     [0.511958449151441, -0.5224608776829041, 0.891419827819066]),
    ([0.962, 0.371, 0.301], [0.377, -0.222, -0.73, 0.443, 0.051, -0.38], 81.34480676127403,
     [1.2376513591982596, 0.7665732237127926, 0.2254874970346327]),
)  # fmt: skip


def read(text: str, **options: bool):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        return robot_from_sdf(text, None, Reading(**options))  # type: ignore[arg-type]


def test_poses_axes_and_limits() -> None:
    robot = read(ARM)
    assert robot.body_names == ("bus", "upper", "fore", "slider")
    assert robot.joint_names == ("shoulder", "elbow", "slide")
    assert [joint.kind for joint in robot.joints] == ["revolute", "revolute", "prismatic"]
    shoulder, elbow, slide = (joint.limits for joint in robot.joints)
    assert (shoulder.lower, shoulder.upper, shoulder.effort, shoulder.velocity) == (-2.0, 1.5, 30.0, np.inf)
    assert (elbow.lower, elbow.upper) == (-np.inf, np.inf)
    assert (slide.lower, slide.upper) == (-0.1, 0.3)
    assert robot.joints[0].damping == 0.7
    assert robot.joints[0].friction is not None
    assert len(robot.bodies[1].visuals) == 1


def test_masses_and_frames_are_those_that_drake_reads(tmp_path: Path) -> None:
    """Kinetic energy and the tool's place at four states, from Drake 1.51 (pydrake) reading the same text.

    Energies do not depend on where bodies have their frames, which SDF and spacearm place differently.
    """
    robot = read(ARM)
    mechanics = Mechanics(robot)
    for joints, base, energy, tool in DRAKE:
        velocity = np.array([*base, 0.3, -0.2, 0.1])
        found = 0.5 * velocity @ mechanics.mass_matrix(joints) @ velocity
        np.testing.assert_allclose(found, energy, rtol=1e-12)
        place, _ = mechanics.frame_pose("tool", joints)
        np.testing.assert_allclose(place, tool, rtol=0, atol=1e-12)


def test_axes_of_older_versions() -> None:
    old = ARM.replace('version="1.10"', 'version="1.6"').replace(' expressed_in="mount"', "")
    found = {}
    for name, text in {
        "1.6": old,
        "1.6, model": old.replace("0.8</xyz>", "0.8</xyz><use_parent_model_frame>1</use_parent_model_frame>"),
        "1.4": old.replace('version="1.6"', 'version="1.4"'),
        "1.10": ARM.replace('expressed_in="mount"', 'expressed_in="__model__"'),
    }.items():  # fmt: skip
        found[name] = read(text).joints[2].axis
    np.testing.assert_allclose(found["1.6"], [0.6, 0.0, 0.8], atol=1e-15)
    for name in ("1.6, model", "1.4"):
        np.testing.assert_allclose(found[name], found["1.10"], atol=1e-15)
    assert np.abs(found["1.10"] - found["1.6"]).max() > 0.1


def test_defaults_and_what_is_left_out_are_told(tmp_path: Path) -> None:
    file = tmp_path / "free.sdf"
    shape = '<collision name="c"><geometry><plane/></geometry></collision>'
    model = f'<model name="m"><link name="a">{shape}</link><wind/></model>'
    file.write_text(f'<sdf version="1.7"><world name="w">{model}</world></sdf>')
    with pytest.warns(LossyConversion, match="SDF's default is taken: 1 kg") as found:
        robot = load(file)
    assert robot.bodies[0].inertia.mass == 1.0
    np.testing.assert_array_equal(robot.bodies[0].inertia.tensor, np.eye(3))
    text = " ".join(str(each.message) for each in found)
    assert "a shape <plane> is left out" in text
    assert "element <wind> is ignored" in text
    with pytest.raises(NotExpressible, match="default is taken"):
        load(file, strict=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name="elbow" type="revolute"', 'name="elbow" type="ball"', "joint 'elbow': joints of type 'ball' are not"),
        ('relative_to="mount">0 0 0.1', 'relative_to="elbow">0 0 0.1', "pose of .*depends on itself"),
        ("0.1 -0.3 0.3 0.9", "0.1 -0.3 0.3 0.8", "the quaternion of a pose has length 0.9"),
        ('relative_to="elbow"', 'relative_to="knee"', "there is no frame 'knee'"),
        ("<parent>fore</parent>", "<parent>four</parent>", "there is no link 'four'"),
        ("<parent>fore</parent>", "", "joint 'slide': has no <parent>"),
        ("<child>slider</child>", "<child>fore</child>", "link 'fore': 'elbow' and 'slide' both carry it"),
        ('<frame name="tool"', "<include/><frame name='tool'", "<include> in a model is not read"),
        ('<frame name="tool"', '<static>true</static><frame name="tool"', "a static model does not move"),
        ("<damping>0.7</damping>", "<spring_stiffness>4</spring_stiffness>", "a spring is not read"),
        ("0 0 0.1 0.3 0 0", "0 0 0.1 0.3 0", r"pose has 5 numbers"),
        ("0 0 0.1 0.3 0 0", "0 0 0.1 0.3 0 nan", "pose is not a finite number"),
        ("<lower>-2</lower>", "<lower>low</lower>", "joint 'shoulder'.*limit.lower is not a finite number"),
        ("<ixx>0.05</ixx>", "<ixx>5</ixx>", "link 'bus'"),
        ('name="fore"', 'name="upper"', "there are two of this name: 'upper'"),
        ("</model>", "</model><model name='b'/>", "there are 2 models: 'arm', 'b'"),
        ("<model", "<!DOCTYPE x><model", "not well-formed|document types"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        read(ARM.replace(old, new, 1))


def test_random_damage_is_an_error_or_a_robot() -> None:
    rng, words, failed = np.random.default_rng(0), re.split(r"(?<=>)", ARM), 0
    for _ in range(300):
        damaged = list(words)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(damaged)))
            damaged[at] = ("", damaged[int(rng.integers(len(damaged)))], damaged[at].replace("0", "9", 1))[
                rng.integers(3)
            ]
        try:
            read("".join(damaged))
        except ModelError:
            failed += 1
    assert 100 < failed < 300


def test_links_may_be_placed_one_in_the_other_many_times() -> None:
    """The last comes first, so that each pose waits for all others; 900 of them are more than Python's stack holds."""
    inertial = "<inertial><mass>1</mass></inertial>"
    links = [
        f'<link name="l{k}"><pose relative_to="l{k - 1}">0 0 0.1 0 0 0</pose>{inertial}</link>' for k in range(1, 900)
    ]
    ends = [
        f'<joint name="j{k}" type="fixed"><parent>l{k - 1}</parent><child>l{k}</child></joint>' for k in range(1, 900)
    ]
    text = "".join([*reversed(links), f'<link name="l0">{inertial}</link>', *ends])
    robot = robot_from_sdf(f'<sdf version="1.9"><model name="chain">{text}</model></sdf>')
    assert sum(body.inertia.mass for body in robot.bodies) == pytest.approx(900.0)
    frames = "".join(f'<frame name="f{k}" attached_to="l0"/>' for k in range(1000))
    with pytest.raises(ModelError, match="1001 links and frames"):
        robot_from_sdf(f'<sdf version="1.9"><model name="m"><link name="l0"/>{frames}</model></sdf>')
