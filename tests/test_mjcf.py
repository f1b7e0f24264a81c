"""MJCF against MuJoCo itself: the written file moves as the robot does, and reading gives the robot back."""

from __future__ import annotations

import builtins
import copy
import warnings
import xml.etree.ElementTree as ET
from contextlib import suppress

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numpy_kinematics import body_poses, frame_poses, mass_matrix, mass_properties, random_pose, random_robot, turn
from spacearm.errors import InputError, ModelError
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
    catalogue,
    edit,
)
from spacearm.model.lossy import LossyConversion, NotExpressible
from spacearm.model.mjcf import mjcf_text, mujoco_state, read_mjcf, robot_from_mjcf, spacearm_state


def random_state(robot, rng):
    quaternion = rng.normal(size=4)
    quaternion /= np.linalg.norm(quaternion)
    return rng.normal(size=3), quaternion, rng.uniform(-1, 1, robot.n), rng.normal(size=robot.dofs)


def rotation_of(quaternion):
    w, *v = quaternion
    angle = 2 * np.arctan2(np.linalg.norm(v), w)
    return turn(np.asarray(v) / np.linalg.norm(v), angle)


def loaded(robot, **options):
    model = mujoco.MjModel.from_xml_string(mjcf_text(robot, **options))
    return model, mujoco.MjData(model)


def placed(robot, model, data, state):
    data.qpos[:], data.qvel[:] = mujoco_state(robot, model, *state)
    mujoco.mj_forward(model, data)


def dof_map(robot, model, rotation):
    """Matrix that takes spacearm's generalised velocity to MuJoCo's, from the states' own conversion at unit rates."""
    columns = []
    for k in range(robot.dofs):
        unit = np.zeros(robot.dofs)
        unit[k] = 1.0
        columns.append(mujoco_state(robot, model, np.zeros(3), rotation, np.zeros(robot.n), unit)[1])
    return np.array(columns).T


def full_mass_matrix(model, data):
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, full, data.qM) if hasattr(data, "qM") else mujoco.mj_fullM(model, data, full)
    return full


def assert_same_motion(robot, model, seed, tolerance=1e-11):
    """Mass matrix, mass, mass centre, and where bodies and frames are, at a random state."""
    rng = np.random.default_rng(seed)
    data = mujoco.MjData(model)
    state = position, quaternion, q, _ = random_state(robot, rng)
    placed(robot, model, data, state)
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = rotation_of(quaternion), position
    mine = mass_matrix(robot, q)
    change = dof_map(robot, model, quaternion)
    theirs = change.T @ full_mass_matrix(model, data) @ change
    np.testing.assert_allclose(theirs, mine, rtol=tolerance, atol=tolerance * np.abs(mine).max())
    mass, com, _ = mass_properties(robot, q)
    np.testing.assert_allclose(data.subtree_com[0], base[:3, :3] @ com + position, atol=1e-12)
    assert model.body_mass.sum() == pytest.approx(mass, rel=1e-12)
    for name, pose in body_poses(robot, q, base).items():
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
        if index >= 0:
            np.testing.assert_allclose(data.xpos[index], pose[:3, 3], atol=1e-12)
            np.testing.assert_allclose(data.xmat[index].reshape(3, 3), pose[:3, :3], atol=1e-12)
    poses = frame_poses(robot, q)
    for frame in robot.frames:
        index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, frame.name)
        np.testing.assert_allclose(data.site_xpos[index], (base @ poses[frame.name])[:3, 3], atol=1e-12)
        np.testing.assert_allclose(data.site_xmat[index].reshape(3, 3), (base @ poses[frame.name])[:3, :3], atol=1e-12)


@pytest.mark.parametrize("name", catalogue.names())
def test_catalogue_robots(name):
    """Every robot of the papers moves the same in MuJoCo, but for a drive that weighs more than its satellite."""
    robot = catalogue.load(name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model, _ = loaded(robot)
    rough = any("only an armature" in str(warning.message) for warning in told)
    assert rough == (name == "wojtunik2023_printed")
    if not rough:
        on_model = [f for f in robot.frames if mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, f.name) >= 0]
        assert_same_motion(robot.replace(frames=tuple(on_model)), model, 7)


@pytest.mark.parametrize("seed", range(30))
def test_written_robot_moves_the_same(seed):
    """Trees, every third with rows of joints through massless bodies."""
    robot = random_robot(seed, joints=5, massless=seed % 3 == 1)
    model, _ = loaded(robot, strict=True)
    assert model.nv == robot.dofs
    np.testing.assert_array_equal(model.opt.gravity, 0)
    assert_same_motion(robot, model, seed)


@pytest.mark.parametrize("seed", range(15))
def test_geared_rotors_are_exact(seed):
    robot = random_robot(seed, joints=5, rotors=True)
    assert any(joint.rotor for joint in robot.joints)
    model, _ = loaded(robot, strict=True)
    assert_same_motion(robot, model, seed)


def stout(name, size=1.0):
    return Body(name, Inertia(10.0 * size, [0.1, 0.2, -0.1], size * np.diag([2.0, 2.5, 3.0])))


def two_links(**first):
    return Robot(
        "two",
        (stout("base", 5), stout("a"), stout("b")),
        (
            Joint(
                "j", "revolute", "base", "a", Pose(turn([0.6, 0.8, 0], 0.7), [0.1, 0.5, 0.2]), [0, 0.6, 0.8], **first
            ),
            Joint("k", "revolute", "a", "b", Pose(turn([0, 0.8, 0.6], -0.4), [0.5, 0, 0.2]), [0, 1, 0]),
        ),
    )


@pytest.mark.parametrize("ratio", [1.0, 1.5, 20.0, 100.0, -1.0, -30.0])
def test_rotor_ratios(ratio):
    robot = two_links(rotor=Rotor(1e-3, ratio))
    model, _ = loaded(robot, strict=True)
    assert_same_motion(robot, model, 3)


def test_rotor_that_breaks_the_triangle_borrows_inertia_across():
    """A child too slender for the axial inertia J r alone: inertia across the axis comes from the parent."""
    robot = two_links(rotor=Rotor(0.05, 60.0))
    child = robot.body("a").inertia
    alone = child.tensor + 3.0 * np.outer([0, 0.6, 0.8], [0, 0.6, 0.8])
    with pytest.raises(ModelError, match="triangle"):
        Inertia(child.mass, child.com, alone)
    model, _ = loaded(robot, strict=True)
    assert_same_motion(robot, model, 4)


@pytest.mark.parametrize("ratio", [0.5, 1e5])
def test_rotors_beyond_expression_are_told(ratio):
    robot = two_links(rotor=Rotor(0.01, ratio))
    with pytest.warns(LossyConversion, match="joint 'j': its rotor is only an armature"):
        model, _ = loaded(robot)
    assert model.dof_armature[6] == pytest.approx(0.01 * ratio**2)
    with pytest.raises(NotExpressible, match="only an armature"):
        mjcf_text(robot, strict=True)


@pytest.mark.parametrize("ratio", [1.0, 100.0])
def test_flexible_joints_are_exact(ratio):
    robot = edit.flexible(two_links(), "j", 500.0, 2.0, Rotor(1e-3, ratio))
    robot = edit.flexible(robot, "k", 300.0, 1.0, Rotor(2e-4, ratio))
    model, _ = loaded(robot, strict=True)
    assert model.nv == robot.dofs
    assert_same_motion(robot, model, 5)


def test_flexible_joint_beyond_expression_is_told():
    """The drive still loads, as an armature on a body that weighs next to nothing."""
    robot = edit.flexible(two_links(), "j", 1.0, rotor=Rotor(1e-3, 0.5))
    with pytest.warns(LossyConversion, match=r"joint 'j\.motor'.*gear ratio is between 0 and 1"):
        model, _ = loaded(robot)
    assert model.nv == robot.dofs
    assert model.dof_armature[model.joint("j.motor").dofadr[0]] == pytest.approx(2.5e-4)
    heavy = edit.flexible(two_links(), "j", 1.0, rotor=Rotor(100.0, 1.0))
    with pytest.raises(NotExpressible, match=r"joint 'j\.motor'.*body 'base' is too light"):
        mjcf_text(heavy, strict=True)


def test_what_mujoco_cannot_have():
    inertia = Inertia(1.0, tensor=np.eye(3))
    fork = Robot(
        "fork",
        (Body("base", inertia), Body("m", Inertia.massless()), Body("a", inertia), Body("b", inertia)),
        (Joint("i", "revolute", "base", "m"), Joint("j", "prismatic", "m", "a"), Joint("k", "prismatic", "m", "b")),
    )
    with pytest.raises(NotExpressible, match="body 'm': it is massless and carries 2 joints"):
        mjcf_text(fork)
    with pytest.raises(NotExpressible, match="'world'"):
        mjcf_text(edit.rename(two_links(), {"base": "world"}))


def test_frames_inside_a_row_are_told():
    robot = edit.split_joint(two_links(), "j", [edit.Axis(way, "prismatic", Spring(9.0)) for way in "xyz"])
    assert_same_motion(robot, loaded(robot, strict=True)[0], 1)
    robot = robot.replace(frames=(Frame("inside", "j.body"),))
    with pytest.warns(LossyConversion, match="frame 'inside'"):
        mjcf_text(robot)


def test_thin_and_point_bodies_load():
    rod = Inertia(1.0, tensor=np.diag([0.0, 1 / 12, 1 / 12]))
    plate = Inertia(1.0, tensor=turn([0.6, 0, 0.8], 0.3) @ np.diag([0.1, 0.2, 0.3]) @ turn([0.6, 0, 0.8], 0.3).T)
    robot = Robot(
        "thin",
        (Body("base", plate), Body("rod", rod), Body("point", Inertia(2.0, [1, 0, 0]))),
        (Joint("j", "revolute", "base", "rod"), Joint("k", "revolute", "rod", "point", Pose(translation=[1, 0, 0]))),
    )
    assert_same_motion(robot, loaded(robot, strict=True)[0], 2)


# -- passive laws ------------------------------------------------------------------------------------------------


def passive_forces(robot, q, rates):
    force = np.zeros(robot.n)
    for i, joint in enumerate(robot.joints):
        if joint.spring is not None:
            force[i] -= joint.spring.stiffness * (q[i] - joint.spring.rest)
        force[i] -= joint.damping * rates[i]
    for c in robot.couplings:
        i, j = robot.joint_index(c.first), robot.joint_index(c.second)
        f = -c.stiffness * (q[i] - c.ratio * q[j] - c.rest) - c.damping * (rates[i] - c.ratio * rates[j])
        force[i] += f
        force[j] -= c.ratio * f
    return force


@pytest.mark.parametrize("rest", [0.4, -1.0, -2.0, 0.0])
@pytest.mark.parametrize("seed", range(3))
def test_springs_dampers_and_couplings(seed, rest):
    robot = random_robot(seed, passive=True, massless=True)
    coupling = robot.couplings[0]
    robot = robot.replace(
        couplings=(Coupling("c", coupling.first, coupling.second, 3.0, 0.5, 2.5, rest),),
        joints=tuple(edit.replace(joint, friction=None) for joint in robot.joints),
    )
    model, data = loaded(robot, strict=True)
    state = random_state(robot, np.random.default_rng(seed))
    placed(robot, model, data, state)
    order = [6 + robot.joint_index(model.joint(j).name) for j in range(1, model.njnt)]
    expected = np.concatenate([np.zeros(6), passive_forces(robot, state[2], state[3][6:])])
    np.testing.assert_allclose(data.qfrc_passive, expected[[*range(6), *order]], rtol=1e-12, atol=1e-12)


def test_thrusters_push():
    robot = two_links().replace(thrusters=(Thruster("t", "a", [0.1, 0.2, 0.3], [0.6, 0, 0.8], 5.0),))
    model, data = loaded(robot, strict=True)
    state = _, quaternion, q, _ = random_state(robot, np.random.default_rng(0))
    data.ctrl[:] = 4.0
    placed(robot, model, data, state)
    pose = body_poses(robot, q)["a"]
    force = 4.0 * pose[:3, :3] @ [0.6, 0, 0.8]
    moment = np.cross((pose @ [0.1, 0.2, 0.3, 1])[:3], force)
    np.testing.assert_allclose(data.qfrc_actuator[:3], rotation_of(quaternion) @ force, atol=1e-12)
    np.testing.assert_allclose(data.qfrc_actuator[3:6], moment, atol=1e-12)


def test_limits_and_friction():
    robot = two_links(limits=Limits(-1.0, np.inf, velocity=2.0, effort=7.0), friction=Friction(3.0, 2.0))
    with pytest.warns(LossyConversion) as told:
        model, _ = loaded(robot)
    said = " ".join(str(warning.message) for warning in told)
    assert all(word in said for word in ("soft", "static friction", "velocity limit"))
    joint = model.joint("j")
    assert model.jnt_limited[joint.id] == 1
    assert joint.range[0] == -1.0
    assert joint.range[1] > 1e9
    assert model.dof_frictionloss[6] == 2.0
    np.testing.assert_array_equal(model.jnt_actfrcrange[joint.id], [-7, 7])


def test_states_convert_there_and_back():
    robot = random_robot(11, massless=True)
    model, data = loaded(robot)
    state = random_state(robot, np.random.default_rng(1))
    back = spacearm_state(robot, model, *mujoco_state(robot, model, *state))
    for one, two in zip(state, back, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-14)
    # the base's velocity in world axes is the rate of its position
    placed(robot, model, data, state)
    qpos = data.qpos.copy()
    mujoco.mj_integratePos(model, qpos, data.qvel, 1e-7)
    rate = (qpos[:3] - data.qpos[:3]) / 1e-7
    np.testing.assert_allclose(rate, rotation_of(state[1]) @ state[3][:3], atol=1e-6)
    with pytest.raises(InputError, match="no joint"):
        mujoco_state(two_links(), model, *state)


# -- reading -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(15))
def test_round_trip(seed):
    robot = random_robot(seed, passive=True, massless=seed % 3 == 1, rotors=seed % 3 == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        text = mjcf_text(robot)
    back = robot_from_mjcf(text, strict=True)
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
        twin = back.joint(joint.name)
        assert (twin.kind, twin.spring, twin.damping) == (joint.kind, joint.spring, joint.damping)
        assert (twin.limits, twin.friction) == (joint.limits, joint.friction)
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
        postures={"home": [0.5, 0.25]},
    )
    assert robot_from_mjcf(mjcf_text(robot, strict=True), strict=True) == robot


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
    with pytest.warns(LossyConversion) as told:
        robot = robot_from_mjcf(FOREIGN)
    said = " ".join(str(warning.message) for warning in told)
    assert all(word in said for word in ("scenery", "'mark'", "actuator 'm'"))
    assert robot.joint_names == ("hinge", "slide", "hinge2", "last")
    assert robot.frame("box").body == "arm"
    np.testing.assert_array_equal(robot.posture("home"), [0.1, 0.2, 0.3, 0.4])
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
    "ball": (minimal(CHILD.format('<joint name="b" type="ball"/>')), "joint 'b': a ball joint"),
    "arm on the world": (minimal('<joint name="h" type="hinge"/>'), "body 'base': its joints stand on the world"),
    "nothing": ("<mujoco/>", "no body"),
    "not MJCF": ("<robot/>", "expected <mujoco>"),
    "unknown element": ("<mujoco><wurld/></mujoco>", "MuJoCo refuses it"),
    "entity": ('<!DOCTYPE m [<!ENTITY a "b">]><mujoco model="&a;"/>', "entities are not read"),
    "include": ('<mujoco><include file="other.xml"/></mujoco>', "cannot refer to files"),
    "mesh": ('<mujoco><asset><mesh file="a.stl"/></asset></mujoco>', "cannot refer to files"),
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


WORDS = [
    "nan",
    "1e309",
    "-1",
    "0",
    "0 0 0",
    "1 2",
    "",
    "1e30",
    "1e-30",
    "hinge",
    "slide",
    "ball",
    "free",
    "bus",
    "0 0 1",
]


@st.composite
def damaged(draw):
    """A model after one to three accidents: other values, elements lost, doubled or elsewhere."""
    root = ET.fromstring(FOREIGN)
    for _ in range(draw(st.integers(1, 3))):
        elements = list(root.iter())
        element, other = draw(st.sampled_from(elements)), draw(st.sampled_from(elements))
        kind = draw(st.sampled_from(["value", "value", "value", "key", "lose", "double", "graft"]))
        if kind == "value" and element.attrib:
            element.set(draw(st.sampled_from(sorted(element.attrib))), draw(st.sampled_from(WORDS)))
        elif kind == "key" and element.attrib:
            del element.attrib[draw(st.sampled_from(sorted(element.attrib)))]
        elif kind == "lose" and len(element):
            element.remove(draw(st.sampled_from(list(element))))
        elif kind == "double" and len(element):
            element.append(copy.deepcopy(draw(st.sampled_from(list(element)))))
        elif kind == "graft":
            element.append(copy.deepcopy(other))
    return ET.tostring(root, encoding="unicode")


@settings(max_examples=250, deadline=None, derandomize=True)
@given(damaged())
def test_damaged_models(text):
    """A robot or a ModelError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LossyConversion)
        with suppress(ModelError):
            assert isinstance(robot_from_mjcf(text), Robot)


def test_nothing_is_written_beside_a_bad_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="NaN"):
        robot_from_mjcf(BAD["nan"][0])
    assert list(tmp_path.iterdir()) == []


def test_losses_of_reading_are_told():
    arm = CHILD.format('<joint name="s" type="slide" armature="1"/>')
    tendon = '<tendon><fixed name="t" stiffness="1"><joint joint="s" coef="1"/></fixed></tendon>'
    weld = '<equality><weld name="w" body1="base" body2="c"/></equality>'
    text = minimal(arm, tendon + weld)
    with pytest.warns(LossyConversion) as told:
        robot_from_mjcf(text)
    said = " ".join(str(warning.message) for warning in told)
    assert all(word in said for word in ("armature of a slide", "tendon 't'", "equality 'w'"))
    with pytest.raises(NotExpressible, match="armature of a slide"):
        robot_from_mjcf(text, strict=True)


def test_files_stay_in_their_folder(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "part.xml").write_text(minimal(""))
    main = folder / "main.xml"
    main.write_text('<mujoco><include file="part.xml"/></mujoco>')
    assert read_mjcf(main).body_names == ("base",)
    for reference in ("../x.xml", "/etc/hostname", "C:\\\\x.xml", "a/../../x.xml"):
        main.write_text(f'<mujoco><include file="{reference}"/></mujoco>')
        with pytest.raises(ModelError, match="outside the folder"):
            read_mjcf(main)
    main.write_text('<mujoco><compiler meshdir=".."/></mujoco>')
    with pytest.raises(ModelError, match="outside the folder"):
        read_mjcf(main)
    main.write_text('<mujoco><include file="main.xml"/></mujoco>')
    with pytest.raises(ModelError, match="nested too deeply"):
        read_mjcf(main)
    with pytest.raises(ModelError, match=r"none\.xml: cannot be read"):
        read_mjcf(folder / "none.xml")


def test_without_mujoco_the_error_says_how_to_get_it(monkeypatch):
    plain_import = builtins.__import__

    def no_mujoco(name, *rest, **more):
        if name == "mujoco":
            raise ImportError(name)
        return plain_import(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_mujoco)
    with pytest.raises(InputError, match=r"spacearm\[verify\]"):
        read_mjcf("x.xml")


def test_a_free_flight_goes_the_same_way():
    """Momentum-driven motion of a flexible, geared robot: MuJoCo's acceleration solves this robot's equations."""
    robot = edit.flexible(two_links(), "j", 500.0, 2.0, Rotor(1e-3, 50.0))
    robot = edit.attach(
        robot, "b", Body("target", Inertia(3.0, tensor=np.eye(3))), random_pose(np.random.default_rng(0))
    )
    model, data = loaded(robot, strict=True)
    state = random_state(robot, np.random.default_rng(2))
    state = (*state[:3], np.zeros(robot.dofs))  # at rest, so that only springs accelerate
    placed(robot, model, data, state)
    force = np.concatenate([np.zeros(6), passive_forces(robot, state[2], np.zeros(robot.n))])
    expected = np.linalg.solve(mass_matrix(robot, state[2]), force)
    change = dof_map(robot, model, state[1])
    np.testing.assert_allclose(np.linalg.solve(change, data.qacc), expected, rtol=1e-9, atol=1e-10)
