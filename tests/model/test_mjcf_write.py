"""Writing MJCF: the written file moves in MuJoCo as the robot does, or what is lost is told."""

from __future__ import annotations

import warnings

import mujoco
import numpy as np
import pytest

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
from spacearm.model._mujoco_state import mujoco_state, spacearm_state
from spacearm.model.mjcf_write import mjcf_text
from spacearm.model.notices import LossyConversion, NotExpressible
from support.mjcf import (
    assert_same_motion,
    dof_map,
    loaded,
    placed,
    random_state,
    rotation_of,
    two_links,
)
from support.numpy_kinematics import body_poses, mass_matrix, random_pose, random_robot, turn


@pytest.mark.parametrize("name", catalogue.names())
def test_catalogue_robots(name):
    """Every robot of the papers moves the same in MuJoCo, but for a drive that weighs more than its satellite."""
    robot = catalogue.load(name)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        model, _ = loaded(robot)
    rough = any("only an armature" in str(warning.message) for warning in notes)
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
    robot = edit.make_flexible(two_links(), "j", 500.0, 2.0, Rotor(1e-3, ratio))
    robot = edit.make_flexible(robot, "k", 300.0, 1.0, Rotor(2e-4, ratio))
    model, _ = loaded(robot, strict=True)
    assert model.nv == robot.dofs
    assert_same_motion(robot, model, 5)


def test_flexible_joint_beyond_expression_is_told():
    """The drive still loads, as an armature on a body that weighs next to nothing."""
    robot = edit.make_flexible(two_links(), "j", 1.0, rotor=Rotor(1e-3, 0.5))
    with pytest.warns(LossyConversion, match=r"joint 'j\.motor'.*gear ratio is between 0 and 1"):
        model, _ = loaded(robot)
    assert model.nv == robot.dofs
    assert model.dof_armature[model.joint("j.motor").dofadr[0]] == pytest.approx(2.5e-4)
    heavy = edit.make_flexible(two_links(), "j", 1.0, rotor=Rotor(100.0, 1.0))
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


def test_a_body_called_world_gets_another_name():
    robot = edit.rename(two_links(), {"base": "world"})
    with pytest.warns(LossyConversion, match=r"body 'world': is called 'world\.body'"):
        text = mjcf_text(robot)
    model = mujoco.MjModel.from_xml_string(text)
    assert [model.body(i).name for i in range(model.nbody)] == ["world", "world.body", *robot.body_names[1:]]


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
    with pytest.warns(LossyConversion) as notes:
        model, _ = loaded(robot)
    note = " ".join(str(warning.message) for warning in notes)
    assert all(word in note for word in ("soft", "static friction", "velocity limit"))
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


def test_a_free_flight_goes_the_same_way():
    """Momentum-driven motion of a flexible, geared robot: MuJoCo's acceleration solves this robot's equations."""
    robot = edit.make_flexible(two_links(), "j", 500.0, 2.0, Rotor(1e-3, 50.0))
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
