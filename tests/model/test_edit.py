"""Editing keeps what physics keeps: mass, mass centre, composite inertia, where frames lie; and names stay usable."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.model import Body, Coupling, Frame, Inertia, Joint, Limits, Pose, Robot, Rotor, Spring, Thruster, edit
from support.numpy_kinematics import (
    close_robots,
    frame_poses,
    mass_matrix,
    mass_properties,
    random_inertia,
    random_pose,
    random_robot,
)


def matrix(pose):
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = pose.rotation, pose.translation
    return result


def same_properties(one, two, tolerance=1e-12):
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * 100)


def combined(parts):
    """Mass properties of several rigid groups given as (mass, com, tensor) in one frame."""
    mass = sum(part[0] for part in parts)
    com = sum(part[0] * part[1] for part in parts) / mass
    tensor = sum(
        p[2] + p[0] * ((p[1] - com) @ (p[1] - com) * np.eye(3) - np.outer(p[1] - com, p[1] - com)) for p in parts
    )
    return mass, com, tensor


def seen_from(pose, properties):
    mass, com, tensor = properties
    return mass, pose[:3, :3] @ com + pose[:3, 3], pose[:3, :3] @ tensor @ pose[:3, :3].T


@pytest.mark.parametrize("seed", range(10))
def test_attached_body_adds_its_mass_where_it_is(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, passive=True)
    body, place = Body("target", random_inertia(rng)), random_pose(rng)
    new = edit.attach(robot, "frame1", body, place)
    q = rng.uniform(-1, 1, robot.n)
    at = frame_poses(robot, q)["frame1"] @ matrix(place)
    alone = (body.inertia.mass, body.inertia.com, body.inertia.tensor)
    same_properties(mass_properties(new, q), combined([mass_properties(robot, q), seen_from(at, alone)]))
    np.testing.assert_allclose(frame_poses(new, q)["target"], at, atol=1e-12)
    assert new.joints == robot.joints
    assert new.body_names == robot.body_names


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("by_joint", [False, True])
def test_attached_robot_keeps_its_own_motion(seed, by_joint):
    rng = np.random.default_rng(seed)
    robot, other = random_robot(seed, passive=True), random_robot(seed + 100, joints=3, passive=True)
    place = random_pose(rng)
    q, q_other, move = rng.uniform(-1, 1, robot.n), rng.uniform(-1, 1, other.n), rng.uniform(-1, 1)
    at = frame_poses(robot, q)["frame2"] @ matrix(place)
    if by_joint:
        hinge = Joint("hinge", "prismatic", "?", "?", place, [0, 1, 0])
        new = edit.attach_by_joint(robot, "frame2", other, hinge, prefix="other.")
        at = at @ matrix(Pose(translation=[0, move, 0]))
        q_other_named = {"hinge": move}
    else:
        new = edit.attach(robot, "frame2", other, place, prefix="other.")
        q_other_named = {}
    q_named = dict(zip(robot.joint_names, q, strict=True)) | q_other_named
    q_named |= {f"other.{name}": value for name, value in zip(other.joint_names, q_other, strict=True)}
    q_new = [q_named[name] for name in new.joint_names]
    expected = combined([mass_properties(robot, q), seen_from(at, mass_properties(other, q_other))])
    same_properties(mass_properties(new, q_new), expected)
    poses = frame_poses(new, q_new)
    for name, pose in frame_poses(other, q_other).items():
        np.testing.assert_allclose(poses[f"other.{name}"], at @ pose, atol=1e-12)
    assert {c.name for c in new.couplings} == {"c", "other.c"}
    thruster, old = new.thruster("other.t"), other.thruster("t")
    mine, theirs = poses[thruster.body], at @ frame_poses(other, q_other)[old.body]
    np.testing.assert_allclose(mine[:3, :3] @ thruster.direction, theirs[:3, :3] @ old.direction, atol=1e-12)
    np.testing.assert_allclose(mine @ [*thruster.position, 1], theirs @ [*old.position, 1], atol=1e-12)


def test_name_clashes_suggest_a_prefix():
    robot = random_robot(1)
    with pytest.raises(ModelError, match=r"already has a body or frame 'base'.*prefix"):
        edit.attach(robot, "frame0", robot)
    with pytest.raises(ModelError, match="already has a body or frame 'frame0'"):
        edit.attach(robot, "frame1", Body("frame0", Inertia(1.0)))
    with pytest.raises(ModelError, match="already has a joint 'joint0'"):
        edit.attach_by_joint(robot, "base", Body("x", Inertia(1.0)), Joint("joint0", "revolute", "", ""))
    with pytest.raises(ModelError, match=r"no frame 'fram0'.*did you mean 'frame0'"):
        edit.attach(robot, "fram0", Body("x", Inertia(1.0)))
    twice = edit.attach(robot, "frame0", robot, prefix="b.")
    assert twice.n == 2 * robot.n


def test_configurations_of_attached_robots():
    inertia = Inertia(1.0)
    one = Robot(
        "one",
        (Body("a", inertia), Body("b", inertia)),
        (Joint("j", "revolute", "a", "b"),),
        configurations={"home": [0.5], "x": [1]},
    )
    new = edit.attach(one, "b", one.replace(configurations={"home": [0.7], "y": [2]}), prefix="p.")
    assert {key: list(value) for key, value in new.configurations.items()} == {"home": [0.5, 0.7], "x": [1.0, 0.0]}


@pytest.mark.parametrize("seed", range(10))
def test_detach_and_attach_again(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, passive=True, rotors=True).replace(couplings=())
    name = robot.joint_names[rng.integers(robot.n)]
    rest, part = edit.detach(robot, name)
    cut = robot.joint(name)
    assert part.bodies[0].name == cut.child
    assert set(rest.body_names) | set(part.body_names) == set(robot.body_names)
    assert rest.mass + part.mass == pytest.approx(robot.mass, rel=1e-14)
    back = edit.attach_by_joint(rest, cut.parent, part, cut)
    order = [back.joint_index(joint) for joint in robot.joint_names]
    assert tuple(back.joints[i] for i in order) == robot.joints
    assert {body.name: body for body in back.bodies} == {body.name: body for body in robot.bodies}
    assert {frame.name: frame for frame in back.frames} == {frame.name: frame for frame in robot.frames}
    assert back.thrusters == robot.thrusters


def test_detach_releases_couplings_across_the_cut():
    robot = random_robot(3, joints=4)
    a, b, c, d = robot.joint_names
    robot = robot.replace(couplings=(Coupling("cd", c, d, 1.0), Coupling("ab", a, b, 1.0)))
    last = robot.joints[-1].name
    rest, part = edit.detach(robot, last)
    assert [coupling.name for coupling in rest.couplings] == ["ab"]
    assert part.couplings == ()


@pytest.mark.parametrize("seed", range(12))
def test_freeze_keeps_mass_properties_and_frames(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, joints=6, passive=True, massless=seed % 2 == 0)
    q = rng.uniform(-1, 1, robot.n)
    names = [name for name in robot.joint_names if rng.random() < 0.5] or [robot.joint_names[0]]
    frozen = edit.freeze(robot, {name: q[robot.joint_index(name)] for name in names})
    assert frozen.n == robot.n - len(names)
    for _ in range(3):
        for i, name in enumerate(robot.joint_names):
            if name not in names:
                q[i] = rng.uniform(-1, 1)
        q_frozen = [q[robot.joint_index(name)] for name in frozen.joint_names]
        same_properties(mass_properties(frozen, q_frozen), mass_properties(robot, q))
        old, new = frame_poses(robot, q), frame_poses(frozen, q_frozen)
        assert old.keys() == new.keys()
        for name in old:
            np.testing.assert_allclose(new[name], old[name], atol=1e-12)
        kept = [*range(6), *(6 + robot.joint_index(name) for name in frozen.joint_names)]
        np.testing.assert_allclose(
            mass_matrix(frozen, q_frozen), mass_matrix(robot, q)[np.ix_(kept, kept)], rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("seed", range(6))
def test_freeze_keeps_the_inertia_of_stopped_rotors(seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, rotors=True)
    q = rng.uniform(-1, 1, robot.n)
    frozen = edit.freeze(robot, dict(zip(robot.joint_names, q, strict=True)))
    assert any(joint.rotor for joint in robot.joints)
    np.testing.assert_allclose(mass_matrix(frozen, []), mass_matrix(robot, q)[:6, :6], rtol=1e-12, atol=1e-12)
    same_properties(mass_properties(edit.freeze(robot, robot.joint_names), [])[:2], mass_properties(robot, 0 * q)[:2])


@pytest.mark.parametrize("held", ["j", "k"])
def test_freeze_turns_a_coupling_into_a_spring(held):
    inertia = Inertia(1.0, tensor=np.eye(3))
    coupling = Coupling("c", "j", "k", 3.0, 0.5, 2.5, 0.4)
    robot = Robot(
        "r",
        (Body("a", inertia), Body("b", inertia), Body("c", inertia)),
        (
            Joint("j", "revolute", "a", "b", spring=Spring(2.0, 0.1), damping=0.2),
            Joint("k", "prismatic", "a", "c", spring=Spring(1.0, -0.3), damping=0.1),
        ),
        couplings=(coupling,),
        configurations={"p": [0.1, 0.2]},
    )

    def force(q, rates):
        f = -coupling.stiffness * (q[0] - coupling.ratio * q[1] - coupling.rest)
        f -= coupling.damping * (rates[0] - coupling.ratio * rates[1])
        return [
            -joint.spring.stiffness * (q[i] - joint.spring.rest)
            - joint.damping * rates[i]
            + (f, -coupling.ratio * f)[i]
            for i, joint in enumerate(robot.joints)
        ]

    free = 1 if held == "j" else 0
    frozen = edit.freeze(robot, {held: 0.7})
    joint = frozen.joints[0]
    for value, rate in ((0.3, -0.2), (-1.0, 0.4), (0.0, 1.0)):
        q, rates = np.full(2, 0.7), np.zeros(2)
        q[free], rates[free] = value, rate
        here = -joint.spring.stiffness * (value - joint.spring.rest) - joint.damping * rate
        assert here == pytest.approx(force(q, rates)[free], abs=1e-12)
    assert frozen.couplings == ()
    assert list(frozen.configurations["p"]) == [(0.1, 0.2)[free]]
    assert edit.freeze(robot, ["j", "k"]).couplings == ()


def test_freeze_names_what_is_wrong():
    robot = random_robot(2)
    with pytest.raises(ModelError, match="no joint 'joint9'"):
        edit.freeze(robot, ["joint9"])
    with pytest.raises(ModelError, match="position of joint 'joint0' is nan"):
        edit.freeze(robot, {"joint0": np.nan})


def test_replace_inertias():
    robot = random_robot(4)
    new = edit.replace_inertias(robot, {"body1": Inertia(9.0)})
    assert new.body("body1").inertia == Inertia(9.0)
    assert [b for b in new.bodies if b.name != "body1"] == [b for b in robot.bodies if b.name != "body1"]
    with pytest.raises(ModelError, match="no body 'bdy1'"):
        edit.replace_inertias(robot, {"bdy1": Inertia(1.0)})


SIX = [
    edit.Axis(way, kind, Spring(5.0, 0.1), 0.2, Limits(-1, 1)) for kind in ("prismatic", "revolute") for way in "xyz"
]


@pytest.mark.parametrize("where", ["after", "before", "instead"])
@pytest.mark.parametrize("seed", range(4))
def test_split_joint_at_rest_is_the_old_robot(where, seed):
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, rotors=True)
    name = robot.joint_names[seed % robot.n]
    new = edit.split_joint(robot, name, SIX, where=where)
    assert new.n == robot.n + (5 if where == "instead" else 6)
    q = rng.uniform(-1, 1, robot.n)
    if where == "instead":
        q[robot.joint_index(name)] = 0.0
    named = dict(zip(robot.joint_names, q, strict=True))
    q_new = [named.get(joint, 0.0) for joint in new.joint_names]
    old, now = frame_poses(robot, q), frame_poses(new, q_new)
    for frame in old:
        np.testing.assert_allclose(now[frame], old[frame], atol=1e-12)
    same_properties(mass_properties(new, q_new), mass_properties(robot, q))
    soft = new.joint(f"{name}.rotation_y")
    assert (soft.spring, soft.damping, soft.limits) == (Spring(5.0, 0.1), 0.2, Limits(-1, 1))
    if where != "instead":
        kept = [*range(6), *(6 + new.joint_index(joint) for joint in robot.joint_names)]
        np.testing.assert_allclose(
            mass_matrix(new, q_new)[np.ix_(kept, kept)], mass_matrix(robot, q), rtol=1e-11, atol=1e-11
        )


def test_split_joint_moves_along_its_axes():
    inertia = Inertia(1.0)
    robot = Robot(
        "r", (Body("a", inertia), Body("b", inertia)), (Joint("j", "revolute", "a", "b", Pose(translation=[1, 0, 0])),)
    )
    new = edit.split_joint(robot, "j", [edit.Axis("x", "prismatic"), edit.Axis([0.6, 0.8, 0], "prismatic")])
    assert new.joint_names == ("j", "j.slide_x", "j.slide")
    assert new.body_names == ("a", "j.body", "j.slide_x.body", "b")
    place = frame_poses(new, [np.pi / 2, 0.5, 1.0])["b"][:3, 3]
    np.testing.assert_allclose(place, [1 - 0.8, 0.5 + 0.6, 0], atol=1e-15)
    before = edit.split_joint(robot, "j", [edit.Axis("x", "prismatic")] * 2, where="before")
    assert before.joint_names == ("j.slide_x", "j.slide_x2", "j")
    np.testing.assert_allclose(frame_poses(before, [0.5, 1.0, np.pi / 2])["b"][:3, 3], [2.5, 0, 0], atol=1e-15)
    with pytest.raises(ModelError, match="axis has length 2"):
        edit.split_joint(robot, "j", [edit.Axis([2, 0, 0], "revolute")])
    with pytest.raises(ModelError, match="axis direction is 'w'"):
        edit.split_joint(robot, "j", [edit.Axis("w", "revolute")])
    with pytest.raises(ModelError, match="no axis"):
        edit.split_joint(robot, "j", [])


def test_other_things_than_parts_are_told():
    robot = random_robot(4)
    target = Body("target", Inertia(1.0, tensor=np.eye(3)))
    for call, note in (
        (lambda: edit.attach(robot, "frame1", None), "what is attached is None .expected a Robot"),
        (lambda: edit.attach(robot, "frame1", target, [0, 0, 1]), "placement is .0, 0, 1. .expected a Pose or None"),
        (lambda: edit.attach_by_joint(robot, "frame1", target, "j"), "joint is 'j' .expected a Joint"),
        (lambda: edit.split_joint(robot, "joint0", ["x"]), r"axes\[0\] is 'x' .expected an Axis"),
    ):
        with pytest.raises(ModelError, match=note):
            call()
    assert edit.freeze(robot, "joint0") == edit.freeze(robot, ["joint0"])
    soft = edit.Axis("x", "prismatic")
    assert edit.split_joint(robot, "joint0", soft) == edit.split_joint(robot, "joint0", [soft])


def test_a_joint_can_be_split_again():
    inertia = Inertia(1.0, tensor=np.eye(3))
    robot = Robot("r", (Body("a", inertia), Body("b", inertia)), (Joint("j", "revolute", "a", "b"),))
    soft = [edit.Axis("x", "prismatic", Spring(5.0)), edit.Axis("y", "revolute", Spring(2.0))]
    twice = edit.split_joint(edit.split_joint(robot, "j", soft), "j", soft)
    assert twice.joint_names == ("j", "j.slide_x2", "j.rotation_y2", "j.slide_x", "j.rotation_y")
    assert twice.body_names == ("a", "j.body2", "j.slide_x2.body", "j.body", "j.slide_x.body", "b")
    thrice = edit.split_joint(twice, "j", soft[:1], where="before")
    assert thrice.joint_names[:2] == ("j.slide_x3", "j")
    framed = edit.split_joint(robot.replace(frames=(Frame("j.body", "b"),)), "j", soft[:1])
    assert framed.body_names == ("a", "j.body2", "b")


def test_flexible_joint():
    inertia = Inertia(1.0, tensor=np.eye(3))
    robot = Robot(
        "r",
        (Body("a", inertia), Body("b", inertia)),
        (Joint("j", "revolute", "a", "b", rotor=Rotor(1e-3, 100)),),
        configurations={"home": [0.4]},
    )
    new = edit.make_flexible(robot, "j", 50.0, 0.3)
    assert new.joint_names == ("j", "j.motor")
    assert new.joint("j").rotor is None
    assert new.joint("j.motor").rotor == Rotor(1e-3, 100)
    assert new.couplings == (Coupling("j.transmission", "j", "j.motor", 50.0, 0.3),)
    assert list(new.configurations["home"]) == [0.4, 0.4]
    rigid = np.array([[1, 0], [0, 1], [0, 1]])  # both joints moving as one is the rigid geared joint
    select = np.block([[np.eye(6), np.zeros((6, 1))], [np.zeros((2, 6)), rigid[1:, 1:]]])
    np.testing.assert_allclose(
        select.T @ mass_matrix(new, [0.3, 0.3]) @ select, mass_matrix(robot, [0.3]), rtol=1e-13, atol=1e-13
    )
    with pytest.raises(ModelError, match="needs a rotor"):
        edit.make_flexible(edit.make_flexible(robot, "j", 1.0), "j", 1.0)
    with pytest.raises(ModelError, match=r"joint 'j.*stiffness is -1"):
        edit.make_flexible(robot, "j", -1.0)


def test_rename_and_prefix():
    robot = random_robot(5, passive=True)
    new = edit.rename(robot, {"base": "bus", "joint0": "shoulder", "frame0": "eye", "c": "cc", "t": "tt"})
    assert new.bodies[0].name == "bus"
    assert new.couplings[0].first == "shoulder"
    assert edit.rename(new, {"bus": "base", "shoulder": "joint0", "eye": "frame0", "cc": "c", "tt": "t"}) == robot
    with pytest.raises(ModelError, match="no part 'bas'"):
        edit.rename(robot, {"bas": "x"})
    with pytest.raises(ModelError, match="two are called"):
        edit.rename(robot, {"base": "body0"})
    front = edit.prefix_names(robot, "p.")
    assert all(part.name.startswith("p.") for part in (*front.bodies, *front.joints, *front.frames, *front.thrusters))
    close_robots(edit.rename(front, {p.name: p.name[2:] for p in (*front.bodies, *front.joints, *front.frames)}), robot)


def test_frames_on_frames_after_two_captures():
    robot = Robot("r", (Body("base", Inertia(1.0)),), frames=(Frame("hand", "base", Pose(translation=[1, 0, 0])),))
    once = edit.attach(robot, "hand", Body("target", Inertia(2.0)), Pose(translation=[0, 1, 0]))
    twice = edit.attach(once, "target", Body("tip", Inertia(3.0)), Pose(translation=[0, 0, 1]))
    np.testing.assert_array_equal(twice.frame("tip").placement.translation, [1, 1, 1])
    assert twice.body_names == ("base",)
    assert twice.mass == 6.0
    assert Thruster("t", "base", [0, 0, 0], [1, 0, 0], 1.0) not in twice.thrusters
