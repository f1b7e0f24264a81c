"""Reading MJCF: round trips, foreign and bad models, what is lost."""

from __future__ import annotations

import sys
import warnings

import mujoco
import numpy as np
import pytest

from spacearm.errors import InputError, ModelError
from spacearm.model import (
    Frame,
    Joint,
    Pose,
    Robot,
    Spring,
)
from spacearm.model.mjcf_read import robot_from_mjcf
from spacearm.model.mjcf_write import mjcf_text
from spacearm.model.notices import LossyConversion, NotExpressible
from spacearm.model.robot_import import Reading
from support.mjcf import (
    dof_map,
    full_mass_matrix,
    placed,
    random_state,
    rotation_of,
    stout,
)
from support.numpy_kinematics import frame_poses, mass_matrix, random_robot


@pytest.mark.parametrize("seed", range(15))
def test_round_trip(seed):
    robot = random_robot(seed, passive=True, massless=seed % 3 == 1, rotors=seed % 3 == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        text = mjcf_text(robot)
    back = robot_from_mjcf(text, reading=Reading(strict=True))
    assert set(back.joint_names) == set(robot.joint_names)
    assert {f.name for f in back.frames} == {f.name for f in robot.frames}
    order = [back.joint_index(name) for name in robot.joint_names]
    rows = [*range(6), *(6 + i for i in order)]
    q = np.random.default_rng(seed).uniform(-1, 1, robot.n)
    q_back = np.empty(robot.n)
    q_back[order] = q
    mine = mass_matrix(robot, q)
    np.testing.assert_allclose(
        mass_matrix(back, q_back)[np.ix_(rows, rows)], mine, rtol=1e-9, atol=1e-9 * np.abs(mine).max()
    )
    for name, pose in frame_poses(back, q_back).items():
        if name in robot.body_names or not name.endswith(".body"):
            np.testing.assert_allclose(pose, frame_poses(robot, q)[name], atol=1e-12)
    for joint in robot.joints:
        reference = back.joint(joint.name)
        assert (reference.kind, reference.spring, reference.damping) == (joint.kind, joint.spring, joint.damping)
        assert (reference.limits, reference.friction) == (joint.limits, joint.friction)
    assert {c.name: c for c in back.couplings} == {c.name: c for c in robot.couplings}
    thruster, old = back.thruster("t"), robot.thruster("t")
    assert (thruster.body, thruster.force) == (old.body, old.force)
    np.testing.assert_allclose([*thruster.position, *thruster.direction], [*old.position, *old.direction], atol=1e-12)


def test_plain_robot_comes_back_equal():
    robot = Robot(
        "plain",
        (stout("base"), stout("a"), stout("b")),
        (Joint("j", "revolute", "base", "a", Pose(translation=[1, 0, 0])), Joint("k", "prismatic", "base", "b")),
        (Frame("f", "a", Pose(translation=[0, 1, 0])),),
        configurations={"home": [0.5, 0.25]},
    )
    assert robot_from_mjcf(mjcf_text(robot, strict=True), reading=Reading(strict=True)) == robot


FOREIGN = """
<mujoco model="foreign">
  <compiler angle="degree"/>
  <worldbody>
    <light/>
    <site name="mark" pos="1 2 3"/>
    <body name="scenery" pos="9 9 9"><geom size="1"/></body>
    <body name="bus" pos="0 0 2" euler="10 20 30"><freejoint/>
      <geom type="box" size="0.3 0.4 0.5" mass="20"/>
      <body name="arm" pos="0.5 0.1 0" euler="30 0 0">
        <joint name="hinge" type="hinge" pos="0.1 0.2 0.3" axis="1 2 0" ref="30" armature="0.2" range="-90 90"/>
        <joint name="slide" type="slide" pos="0.5 0 0" axis="0 1 1" ref="0.2"/>
        <joint name="hinge2" type="hinge" pos="-0.1 0.3 0" axis="0 0 1" damping="0.3" stiffness="2" springref="10"/>
        <geom type="capsule" size="0.05" fromto="0 0 0 0.5 0 0.2" mass="3"/>
        <site name="tip" pos="0.5 0 0.2" euler="0 40 0"/>
        <body name="box" pos="0.1 0 0" euler="0 0 50"><geom type="box" size="0.1 0.2 0.3" mass="2"/>
          <site name="eye" pos="0 0 1"/>
          <body pos="0 1 0"><joint name="last" axis="1 0 0" pos="0 0 0.1"/><geom size="0.1" mass="1"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="m" joint="hinge"/></actuator>
  <keyframe><key name="home" qpos="0 0 2 1 0 0 0 0.1 0.2 0.3 0.4"/></keyframe>
</mujoco>"""


def test_foreign_model_moves_the_same():
    """Offset anchors, several joints in a body, ref, bodies without joints, inertia from shapes, armature."""
    with pytest.warns(LossyConversion) as notes:
        robot = robot_from_mjcf(FOREIGN)
    note = " ".join(str(warning.message) for warning in notes)
    assert all(word in note for word in ("scenery", "'mark'", "contact"))
    assert robot.joint_names == ("hinge", "slide", "hinge2", "last")
    assert robot.frame("box").body == "arm"
    np.testing.assert_array_equal(robot.configuration("home"), [0.1, 0.2, 0.3, 0.4])
    assert robot.joint("hinge").limits.upper == pytest.approx(np.pi / 2)
    assert robot.joint("hinge2").spring == Spring(2.0, np.deg2rad(10))
    model = mujoco.MjModel.from_xml_string(FOREIGN)
    data = mujoco.MjData(model)
    for seed in range(5):
        state = position, quaternion, q, _ = random_state(robot, np.random.default_rng(seed))
        placed(robot, model, data, state)
        change = dof_map(robot, model, quaternion)
        theirs = change.T @ full_mass_matrix(model, data) @ change
        np.testing.assert_allclose(mass_matrix(robot, q), theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
        poses = frame_poses(robot, q)
        base = np.eye(4)
        base[:3, :3], base[:3, 3] = rotation_of(quaternion), position
        for name in ("tip", "eye"):
            np.testing.assert_allclose(data.site(name).xpos, (base @ poses[name])[:3, 3], atol=1e-12)
            np.testing.assert_allclose(data.site(name).xmat.reshape(3, 3), (base @ poses[name])[:3, :3], atol=1e-12)


def minimal(inside, after=""):
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    return f'<mujoco><worldbody><body name="base">{inertial}{inside}</body></worldbody>{after}</mujoco>'


CHILD = '<body name="c"><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>{}</body>'

BAD = {
    "arm on the world": (
        minimal('<joint name="h" type="hinge"/>'),
        "body 'base': its joints are attached",
    ),
    "nothing": ("<mujoco/>", "no body"),
    "not MJCF": ("<robot/>", "expected <mujoco>"),
    "unknown element": ("<mujoco><wurld/></mujoco>", "MuJoCo rejects the file"),
    "entity": ('<!DOCTYPE m [<!ENTITY a "b">]><mujoco model="&a;"/>', "entities are not read"),
    "include": ('<mujoco><include file="other.xml"/></mujoco>', "cannot refer to files"),
    "mesh": (
        '<mujoco><asset><mesh file="a.stl"/></asset><worldbody><body><geom type="mesh" mesh="a"/></body></worldbody>'
        "</mujoco>",
        "cannot refer to files",
    ),
    "nan": (FOREIGN.replace('pos="0 0 2"', 'pos="0 nan 2"'), "NaN"),
    "two robots": (
        "<mujoco><worldbody>" + "<body><freejoint/><geom size='1'/></body>" * 2 + "</worldbody></mujoco>",
        "several bodies",
    ),
    "massless base": ('<mujoco><worldbody><body name="base"/></worldbody></mujoco>', "base has no mass"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_models(case):
    text, message = BAD[case]
    with pytest.raises(ModelError, match=message) as caught:
        robot_from_mjcf(text, file="x.xml")
    assert str(caught.value).startswith("x.xml")


def test_nothing_is_written_beside_a_bad_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="NaN"):
        robot_from_mjcf(BAD["nan"][0])
    assert list(tmp_path.iterdir()) == []


def test_losses_of_reading_are_told():
    arm = CHILD.format('<joint name="s" type="slide" armature="1"/>')
    tendon = '<tendon><fixed name="t" stiffness="1"><joint joint="s" coef="1"/></fixed></tendon>'
    weld = '<equality><weld name="w" body1="c"/></equality>'
    text = minimal(arm, tendon + weld)
    with pytest.warns(LossyConversion) as notes:
        robot_from_mjcf(text)
    note = " ".join(str(warning.message) for warning in notes)
    assert all(word in note for word in ("tendon 't'", "equality 'w'"))
    with pytest.raises(NotExpressible, match="tendon 't'"):
        robot_from_mjcf(text, reading=Reading(strict=True))


def test_without_mujoco_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(InputError, match=r"spacearm\[verify\]"):
        robot_from_mjcf(minimal(""))


def test_tendons_and_motors_of_a_foreign_model_keep_their_sense():
    """Coefficients of a tendon scale its law; a motor on a turned site pushes along the site's own direction."""
    inertial = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
    text = f"""<mujoco><worldbody><body name="b"><freejoint/>{inertial}
      <site name="jet" pos="0 0 1" quat="0.5 0.5 0.5 0.5"/>
      <body name="c"><joint name="p" type="hinge" axis="0 0 1"/>{inertial}</body>
      <body name="d"><joint name="q" type="slide" axis="1 0 0"/>{inertial}</body></body></worldbody>
      <tendon><fixed name="t" stiffness="5" damping="0.3" springlength="0.8">
        <joint joint="p" coef="2"/><joint joint="q" coef="-3"/></fixed></tendon>
      <actuator><motor name="m" site="jet" gear="0 2 0 0 0 0" ctrlrange="0 4"/></actuator></mujoco>"""
    robot = robot_from_mjcf(text)
    # The tendon's length is 2 p - 3 q, so its force on p is -2 (5 (2 p - 3 q - 0.8) + 0.3 d/dt): see Coupling.
    (belt,) = robot.couplings
    assert (belt.first, belt.second) == ("p", "q")
    values = (belt.stiffness, belt.damping, belt.ratio, belt.rest)
    assert values == pytest.approx((20.0, 1.2, 1.5, 0.4), rel=1e-14)
    (jet,) = robot.thrusters
    assert jet.force == pytest.approx(8.0)
    np.testing.assert_allclose(jet.direction, [0.0, 0.0, 1.0], atol=1e-15)  # x to y to z to x
    np.testing.assert_allclose(jet.position, [0.0, 0.0, 1.0], atol=1e-15)
