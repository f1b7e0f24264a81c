"""Robots of foreign MJCF files: which of several, what stands on the world, what is kept of actuators, what is lost.

The numbers are compared with MuJoCo's own, which reads the files by itself (``tools/mujoco_model.py``).
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.model import load
from spacearm.model.mjcf_read import mjcf_bases, read_mjcf, robot_from_mjcf
from spacearm.model.mjcf_write import mjcf_text
from spacearm.model.notices import LossyConversion, NotExpressible
from spacearm.model.robot_import import Reading
from support import ROOT
from support.mjcf import random_state
from support.numpy_kinematics import mass_matrix

sys.path.insert(0, str(ROOT / "tools"))
from mujoco_model import MujocoModel

import robots as tool

INERTIAL = '<inertial pos="0.1 0.2 -0.1" mass="2" diaginertia="0.3 0.4 0.5"/>'
ARM = """<body name="{0}1" pos="0.3 0.1 0" euler="20 0 40">{1}
  <joint name="{0}a" axis="1 2 0" pos="0.1 0 0" armature="0.3"/>
  <body name="{0}2" pos="0 0.5 0">{1}<joint name="{0}b" type="slide" axis="0 1 1"/></body></body>"""


def written(tmp_path, text):
    path = tmp_path / "robot.xml"
    path.write_text(text)
    return path


def world(inside, after=""):
    return f"<mujoco><worldbody>{inside}</worldbody>{after}</mujoco>"


def free(name, inside="", joint="<freejoint/>"):
    return f'<body name="{name}" pos="0 1 2">{joint}{INERTIAL}{inside}</body>'


def notes(read):
    """(robot, what was lost)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robot = read()
    return robot, [str(each.message) for each in caught if issubclass(each.category, LossyConversion)]


def assert_agrees(path, robot, base_mass=None, states=5):
    """Mass matrix and what it moves, in MuJoCo and by plain NumPy from the robot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MuJoCo's, about moving bodies between models
        reference = MujocoModel(path)
        reference.fit(robot, base_mass)
    for seed in range(states):
        position, quaternion, q, velocity = random_state(robot, np.random.default_rng(seed))
        change, _ = reference.place(position, quaternion, q, velocity)
        theirs = change.T @ reference.full_mass_matrix() @ change
        np.testing.assert_allclose(mass_matrix(robot, q), theirs, rtol=0, atol=1e-11 * np.abs(theirs).max())
    return reference


# -- which robot ---------------------------------------------------------------------------------------------------


def test_each_of_several_free_bodies_is_a_robot(tmp_path):
    arms = [ARM.format(name, INERTIAL) for name in "lr"]
    path = written(
        tmp_path, world(free("one", arms[0]) + '<body name="table"><geom size="1"/></body>' + free("two", arms[1]))
    )
    assert mjcf_bases(path) == ("one", "two")
    with pytest.raises(ModelError, match=r"several bodies .*: 'one', 'two' \(choose one by base='one' \(--base"):
        read_mjcf(path)
    for name, joints in (("one", ("la", "lb")), ("two", ("ra", "rb"))):
        robot, lost = notes(lambda name=name: load(path, base=name))
        assert (robot.bodies[0].name, robot.joint_names) == (name, joints)
        assert len([each for each in lost if "is not part of the robot" in each and "'table'" in each]) == 1
        assert_agrees(path, robot)
    with pytest.raises(ModelError, match=r"no body 'onne' \(did you mean 'one'"):
        read_mjcf(path, Reading(base="onne"))


def test_a_robot_whose_joints_stand_on_the_world_needs_a_base(tmp_path):
    path = written(tmp_path, world('<body name="floor"><geom size="1"/></body>' + ARM.format("", INERTIAL)))
    with pytest.raises(
        ModelError, match=r"body '1': its joints are attached to the world.*base_mass \(--base-mass\).*base='1'"
    ):
        read_mjcf(path)
    robot, _ = notes(lambda: load(path, base_mass=7.0))
    assert (robot.bodies[0].name, robot.bodies[0].inertia.mass, robot.joint_names) == ("base", 7.0, ("a", "b"))
    assert_agrees(path, robot, base_mass=7.0)
    repaired, _ = notes(lambda: load(path, repair=True))
    assert_agrees(path, repaired, base_mass=repaired.bodies[0].inertia.mass)
    floating, lost = notes(lambda: load(path, base="1"))
    assert floating.joint_names == ("b",)
    assert any("body '1': is the base and floats; its joint is left out" in each for each in lost)
    assert_agrees(path, floating)


def test_two_arms_on_the_world_share_it_as_their_base(tmp_path):
    path = written(tmp_path, world(ARM.format("l", INERTIAL) + ARM.format("r", INERTIAL) + free("parcel")))
    robot, lost = notes(lambda: load(path, base="world", base_mass=3.0))
    assert robot.joint_names == ("la", "lb", "ra", "rb")
    assert any("'parcel'" in each and "not part" in each for each in lost)
    assert_agrees(path, robot, base_mass=3.0)
    one, _ = notes(lambda: load(path, base="l1"))
    assert one.joint_names == ("lb",)


def test_a_body_in_the_middle_can_be_the_base(tmp_path):
    path = written(tmp_path, world(free("one", ARM.format("", INERTIAL))))
    robot, _ = notes(lambda: load(path, base="1"))
    assert (robot.body_names, robot.joint_names) == (("1", "2"), ("b",))


def test_what_has_no_name_gets_one_that_is_free(tmp_path):
    child = f"<body><joint/>{INERTIAL}</body>"
    path = written(
        tmp_path,
        world(f'<body>{INERTIAL}<freejoint/>{child}<body name="body2"><joint name="joint1"/>{INERTIAL}</body></body>'),
    )
    robot, _ = notes(lambda: read_mjcf(path))
    assert robot.body_names == ("body1", "body22", "body2")
    assert robot.joint_names == ("joint12", "joint1")
    assert_agrees(path, robot)


def test_the_tool_finds_what_differs_and_what_was_not_told(tmp_path, monkeypatch):
    path = written(
        tmp_path, world(free("one", ARM.format("l", INERTIAL).replace("slide", 'slide" stiffness="1 1')) + free("two"))
    )
    first, second = tool.examine_each(path, "f", repair=False, states=3)
    assert (first.file, second.file) == ("f [one]", "f [two]")
    assert first.good
    assert second.good
    assert 0.0 < first.difference < 1e-12

    def other(given, **options):
        robot = read_mjcf(given, Reading(base=options["base"]))
        parameters = np.array(robot.inertia_parameters)
        parameters[1, 4:7] *= 1.0 + 1e-8
        return robot.with_inertia_parameters(parameters)

    monkeypatch.setattr(tool, "load", other)
    assert 1e-10 < tool.examine(path, "f", repair=False, states=3, base="one").difference < 1e-7
    monkeypatch.setattr(tool, "LossyConversion", FutureWarning)  # as if nothing had been told
    assert tool.examine(path, "f", repair=False, states=3, base="one").silent == ["non-linear"]


# -- joints --------------------------------------------------------------------------------------------------------


def test_a_ball_joint_is_three_joints(tmp_path):
    """The motion is MuJoCo's; the angles are not its coordinates, which is told."""
    ball = f'<body name="b" pos="0 0 1" euler="10 20 30"><joint name="s" type="ball" pos="0.1 0.2 0"/>{INERTIAL}</body>'
    key = '<keyframe><key name="k" qpos="0 1 2 1 0 0 0 0.5 0.5 0.5 0.5"/></keyframe>'
    path = written(tmp_path, world(free("base", ball), key))
    robot, lost = notes(lambda: read_mjcf(path))
    assert robot.joint_names == ("s.x", "s.y", "s.z")
    assert any("joint 's': a ball joint becomes three revolute joints" in each and "90 deg" in each for each in lost)
    reference = assert_agrees(path, robot)
    # the keyframe turns x to y to z; placed through the angles, the quaternion comes back
    reference.place(np.zeros(3), np.array([1.0, 0, 0, 0]), robot.configuration("k"), np.zeros(robot.dofs))
    np.testing.assert_allclose(reference.data.qpos[7:], [0.5, 0.5, 0.5, 0.5], atol=1e-15)
    with pytest.raises(NotExpressible, match="ball joint"):
        read_mjcf(path, Reading(strict=True))


def test_the_armature_of_a_free_joint_is_mass(tmp_path):
    joint = '<joint name="root" type="free" armature="0.7"/>'
    path = written(tmp_path, world(free("base", ARM.format("", INERTIAL), joint)))
    robot, lost = notes(lambda: read_mjcf(path))
    assert robot.bodies[0].inertia.mass == pytest.approx(2.7)
    assert any("joint 'root'" in each and "0.7 kg at its origin" in each for each in lost)
    assert_agrees(path, robot)


def test_an_armature_does_not_feel_its_carrier(tmp_path):
    """However light the carrier is."""
    light = '<inertial pos="0 0 0" mass="1e-6" diaginertia="1e-9 1e-9 1e-9"/>'
    rod = f'<body name="rod"><joint name="j" axis="0 0 1" armature="5"/>{light}</body>'
    path = written(tmp_path, world(f'<body name="base"><freejoint/>{light}{rod}</body>'))
    robot, _ = notes(lambda: read_mjcf(path))
    matrix = mass_matrix(robot, np.zeros(1))
    assert matrix[6, 6] == pytest.approx(5.0 + 1e-9, rel=1e-15)
    assert matrix[5, 6] == pytest.approx(1e-9, rel=1e-3)  # the rod's own moment alone


def test_the_armature_of_a_slide_is_kept(tmp_path):
    """As MuJoCo has it, and back in a file without a word."""
    path = written(tmp_path, world(free("base", ARM.format("l", INERTIAL).replace("slide", 'slide" armature="1.5'))))
    robot = read_mjcf(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    slide = next(j for j in range(model.njnt) if model.jnt_type[j] == mujoco.mjtJoint.mjJNT_SLIDE)
    plain = robot.replace(joints=tuple(replace(joint, rotor=None) for joint in robot.joints))
    at = robot.dof_index(model.joint(slide).name)
    difference = mass_matrix(robot, np.zeros(robot.n)) - mass_matrix(plain, np.zeros(robot.n))
    assert difference[at, at] == pytest.approx(1.5, rel=1e-12)
    assert np.abs(difference[at, :6]).max() < 1e-12
    again = robot_from_mjcf(mjcf_text(robot))
    assert again.joint(robot.joint_names[at - 6]).rotor.inertia == pytest.approx(robot.joints[at - 6].rotor.inertia)
    assert_agrees(path, robot)


def test_laws_that_are_switched_off_are_not_read():
    arm = '<body><joint name="j" stiffness="1" damping="2" frictionloss="3" range="-1 1"/>' + INERTIAL + "</body>"
    flags = '<option><flag spring="disable" damper="disable" frictionloss="disable" limit="disable"/></option>'
    plain, off = (robot_from_mjcf(world(free("base", arm), extra)).joint("j") for extra in ("", flags))
    assert (plain.spring.stiffness, plain.damping, plain.friction.coulomb, plain.limits.lower < 0) == (1, 2, 3, True)
    assert (off.spring, off.damping, off.friction, off.limits.lower) == (None, 0.0, None, -np.inf)


# -- actuators -------------------------------------------------------------------------------------------------------


def arm_with(actuators, joint="", before=""):
    arm = f'<body name="link"><joint name="j" {joint}/>{INERTIAL}<site name="jet" pos="0 0 1" euler="0 90 0"/></body>'
    return f"<mujoco>{before}<worldbody>{free('base', arm)}</worldbody><actuator>{actuators}</actuator></mujoco>"


@pytest.mark.parametrize(
    ("actuators", "joint", "effort"),
    [
        ('<motor joint="j" ctrlrange="-2 2" gear="10"/>', "", 20.0),
        ('<motor joint="j" ctrlrange="-2 2" gear="-10"/><motor joint="j" ctrlrange="-1 1"/>', "", 21.0),
        ('<motor joint="j" ctrlrange="-2 2" forcerange="-1.5 1.5"/>', "", 1.5),
        ('<motor joint="j" ctrlrange="-2 2"/>', 'actuatorfrcrange="-1 1"', 1.0),
        ('<motor joint="j"/>', "", np.inf),
        ('<motor joint="j"/><motor joint="j" ctrlrange="-1 1"/>', "", np.inf),
    ],
)
def test_motors_are_effort_limits_and_nothing_is_lost(actuators, joint, effort):
    robot = robot_from_mjcf(arm_with(actuators, joint), reading=Reading(strict=True))
    assert robot.joint("j").limits.effort == effort


@pytest.mark.parametrize(
    ("actuators", "effort", "lost"),
    [
        (
            '<position name="p" joint="j" kp="9" forcerange="-3 3"/>',
            3.0,
            "'p': its control law is left out; its largest force",
        ),
        ('<velocity name="p" joint="j" kv="9"/>', np.inf, "'p': its control law is left out"),
        ('<motor name="p" joint="j" ctrlrange="-1 4"/>', 4.0, "'p': has a different limit in each direction"),
        ('<general name="p" body="link"/>', np.inf, "'p': pushes neither a joint nor at a site"),
        ('<motor name="p" site="jet" gear="0 0 0 1 0 0"/>', np.inf, "'p': pushes neither a joint nor at a site"),
        ('<motor name="p" site="jet" gear="0 0 1e-320 0 0 0" ctrlrange="0 1"/>', np.inf, "'p': pushes neither"),
        ('<motor name="p" site="jet" gear="0 0 1 0 0 0"/>', np.inf, "'p': has no largest force"),
    ],
)
def test_what_is_lost_of_other_actuators_is_told(actuators, effort, lost):
    robot, note = notes(lambda: robot_from_mjcf(arm_with(actuators)))
    assert robot.joint("j").limits.effort == effort
    assert not robot.thrusters
    assert any(lost in each for each in note)


def test_actuators_at_sites_are_thrusters():
    text = arm_with(
        '<motor name="one" site="jet" gear="0 0 2 0 0 0" ctrlrange="0 3"/>'
        '<motor name="both" site="jet" gear="0 0 1 0 0 0.1" ctrlrange="-1 3"/>'
        '<motor name="hot" site="jet" gear="0 0 1 0 0 0" ctrlrange="1 3" forcerange="0 2"/>'
    )
    robot, lost = notes(lambda: robot_from_mjcf(text))
    # the site's z is the link's x; the joint has no offset, so the link's frame is MuJoCo's
    found = {each.name: (each.body, *np.round(each.direction, 12), each.force) for each in robot.thrusters}
    assert found == {
        "one": ("link", 1.0, 0.0, 0.0, 6.0),
        "both": ("link", 1.0, 0.0, 0.0, 3.0),
        "both.reverse": ("link", -1.0, 0.0, 0.0, 1.0),
        "hot": ("link", 1.0, 0.0, 0.0, 2.0),
    }
    note = " ".join(lost)
    assert all(
        word in note for word in ("'both': the torque beside", "'both': pushes both ways", "'hot': never shuts off")
    )
    assert "'one'" not in note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            arm_with('<motor name="m" site="jet" gear="0 0 1e200 0 0 0" ctrlrange="0 1"/>'),
            "actuator 'm': gear is 1e.200",
        ),
        (arm_with("", 'stiffness="1e200"'), "joint 'j': stiffness is 1e.200"),
        (world(free("base").replace("0 1 2", "0 1e200 2")), "body 'base': pos is 1e.200"),
    ],
)
def test_numbers_that_overflow_are_refused(text, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelError, match=message):
            robot_from_mjcf(text)


# -- losses ----------------------------------------------------------------------------------------------------------

SLIDER = (
    '<body name="c"><joint name="s" type="slide" {}/>'
    + INERTIAL
    + '<body name="d"><joint name="t"/>'
    + INERTIAL
    + "</body></body>"
)
LINKED = '<tendon><fixed name="x" {}><joint joint="s" coef="1"/><joint joint="t" coef="2"/></fixed></tendon>'
LOSSES = {
    "free damping": (free("base", "", '<joint name="f" type="free" damping="1"/>'), "", "joint 'f': damping, friction"),
    "free stiffness": (free("base", "", '<joint name="f" type="free" stiffness="1"/>'), "", "joint 'f': damping"),
    "tendon armature": (free("base", SLIDER), LINKED.format('armature="1"'), "tendon 'x': its armature"),
    "tendon limit": (free("base", SLIDER), LINKED.format('range="0 1"'), "tendon 'x': its length limits"),
    "tendon friction": (free("base", SLIDER), LINKED.format('frictionloss="1"'), "tendon 'x': its dry friction"),
    "slack tendon": (free("base", SLIDER), LINKED.format('stiffness="1" springlength="0 1"'), "'x': is not a spring"),
    "medium": (free("base"), '<option density="1.2"/>', "density and viscosity"),
    "weld": (free("base", SLIDER), '<equality><weld name="w" body1="c"/></equality>', "equality 'w': the weld"),
    "cubic": (
        free("base", SLIDER),
        '<equality><joint name="w" joint1="s" joint2="t" polycoef="0 1 2 0 0"/></equality>',
        "equality 'w': the joint constraint is left out",
    ),
    "gravity compensation": (
        free("base", "").replace('name="base"', 'name="base" gravcomp="1"'),
        "",
        "'base': gravity comp",
    ),
    "shapes": (free("base", '<geom size="1"/>'), "", "contact (1 shape): the forces of contacts are left out"),
    "excludes": (
        free("base", SLIDER),
        '<contact><exclude body1="base" body2="d"/></contact>',
        "contact (1 exclude): the forces",
    ),
    "velocities": (free("base"), '<keyframe><key name="k" qvel="1 0 0 0 0 0"/></keyframe>', "'k': its velocities"),
    "controls": (
        free("base", SLIDER),
        '<actuator><motor joint="t"/></actuator><keyframe><key name="k" ctrl="1"/></keyframe>',
        "keyframe 'k': its controls",
    ),
    "placed": (free("base"), '<keyframe><key name="k" qpos="9 0 0 1 0 0 0"/></keyframe>', "'k': where it places free"),
    "plugin": (
        free("base", SLIDER),
        '<extension><plugin plugin="mujoco.pid"/></extension>'
        '<actuator><plugin name="p" joint="s" plugin="mujoco.pid"/></actuator>',
        "plugin: is left out",
    ),
    "flexible body": (
        free("base", '<flexcomp name="f" type="grid" count="4 4 1" spacing="1 1 1" radius="0.1" dim="2"/>'),
        "",
        "flexible body: is left out",
    ),
}


@pytest.mark.parametrize("case", LOSSES)
def test_no_loss_without_a_word(case):
    inside, after, words = LOSSES[case]
    text = world(inside.format(""), after)
    _, lost = notes(lambda: robot_from_mjcf(text))
    assert len(lost) == 1
    assert words in lost[0]
    with pytest.raises(NotExpressible) as caught:
        robot_from_mjcf(text, reading=Reading(strict=True))
    assert words in str(caught.value)


def test_losses_are_grouped():
    arms = "".join(
        ARM.format(f"arm{i}", INERTIAL).replace('type="slide"', 'type="slide" springdamper="0 0" stiffness="1 1"')
        for i in range(30)
    )
    _, lost = notes(lambda: robot_from_mjcf(world(free("base", arms))))
    assert len(lost) == 1
    assert "and 22 more: the non-linear part of its spring or damper is left out" in lost[0]


def test_what_measures_only_is_not_a_loss():
    sensors = '<sensor><jointpos joint="t"/></sensor><tendon><fixed><joint joint="t" coef="1"/></fixed></tendon>'
    looks = '<light/><camera name="eye"/><site/>'
    robot_from_mjcf(world(free("base", looks + SLIDER.format("")), sensors), reading=Reading(strict=True))


def test_a_joint_that_follows_another_becomes_a_gear_or_by_repair_a_coupling():
    """MuJoCo's polynomial counts from the joints' ``ref``."""
    arm = SLIDER.format('ref="0.5"').replace('name="t"', 'name="t" ref="90"')
    after = '<equality><joint name="w" joint1="s" joint2="t" polycoef="0.25 2 0 0 0"/></equality>'
    robot, lost = notes(lambda: robot_from_mjcf(world(free("base", arm), after)))
    (gear,) = robot.loops
    assert (gear.kind, gear.first, gear.second, gear.ratio) == ("gear", "s", "t", 2.0)
    assert gear.offset == pytest.approx(0.75 - np.pi)
    assert not lost
    robot, lost = notes(lambda: robot_from_mjcf(world(free("base", arm), after), reading=Reading(repair=True)))
    (coupling,) = robot.couplings
    assert (coupling.first, coupling.second, coupling.ratio) == ("s", "t", 2.0)
    # s - 0.5 = 0.25 + 2 (t - pi / 2)
    assert coupling.rest == pytest.approx(0.75 - np.pi)
    assert not lost


def test_all_problems_are_told_at_once():
    """Here a joint whose name means something else, and springs that push away from their rest."""
    arm = SLIDER.format('stiffness="-2"').replace('name="t"', 'name="base_vx"')
    text = world(free("base", arm), LINKED.format('stiffness="-1"')).replace('joint="t"', 'joint="base_vx"')
    with pytest.raises(ModelError, match="3 problems") as caught:
        robot_from_mjcf(text)
    expected = ("joint 's': stiffness is -2", "joint 'base_vx': this name belongs", "tendon 'x': stiffness is -1")
    assert all(words in str(caught.value) for words in expected)


def test_keyframes_are_configurations_whatever_they_are_called():
    keys = '<keyframe><key qpos="0 1 2 1 0 0 0 3 4"/><key name="zero" qpos="0 1 2 1 0 0 0 5 6"/></keyframe>'
    robot = robot_from_mjcf(world(free("base", SLIDER.format("")), keys), reading=Reading(strict=True))
    assert {name: list(values) for name, values in robot.configurations.items()} == {"key0": [3, 4], "zero.key": [5, 6]}


# -- the tool that compares ----------------------------------------------------------------------------------------

BALL = '<body name="ball"><freejoint/><inertial pos="0 0 0" mass="0.01" diaginertia="1e5 1e5 1e5"/></body>'


@pytest.mark.parametrize("inside", [BALL, free("one", ARM.format("", INERTIAL))], ids=["ball", "arm"])
def test_the_tool_forgives_rounding_and_no_inertia_that_is_wrong_by_1e_8(tmp_path, inside):
    """The bias of an even ball is zero: what is left of it is rounding of terms of 1e5 N m."""
    path = written(tmp_path, world(inside))
    line = tool.examine(path, "right", repair=False, states=20)
    assert line.difference < 1e-13
    robot, _ = notes(lambda: load(path))
    for body in range(robot.n + 1):
        wrong = robot.inertia_parameters.copy()
        wrong[body, 4:] *= 1.0 + 1e-8
        line = tool.Line("wrong")
        tool._compare(line, robot.with_inertia_parameters(wrong), MujocoModel(path), "mjcf", 20)
        assert not line.agrees
        assert line.difference > 1e-9
