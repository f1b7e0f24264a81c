"""The robot and its parts: what they accept, what they refuse and how they say so, the order of the tree."""

from __future__ import annotations

import math

import numpy as np
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
)
from spacearm.model.parts import unit_vector
from spacearm.model.rotations import rotation_about, rotation_from_rpy

BALL = Inertia(2.0, np.zeros(3), 0.1 * np.eye(3))
X = np.array([1.0, 0.0, 0.0])


def body(name: str, inertia: Inertia = BALL) -> Body:
    return Body(name, inertia)


def hinge(name: str, parent: str, child: str, **more) -> Joint:
    return Joint(name, "revolute", parent, child, **more)


def refused(make, *args, **kwargs) -> str:
    with pytest.raises(ModelError) as caught:
        make(*args, **kwargs)
    return str(caught.value)


# -- parts ----------------------------------------------------------------------------------------------------------


def test_arrays_are_float64_copies_that_nobody_can_change():
    com = np.array([1, 2, 3])
    inertia = Inertia(1.0, com, np.eye(3))
    com[0] = 9
    assert inertia.com.tolist() == [1, 2, 3]
    assert inertia.com.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        inertia.com[0] = 9


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((-1.0,), "mass is -1 (expected at least 0)"),
        ((math.nan,), "mass is nan (expected a finite number)"),
        ((math.inf,), "mass is inf"),
        ((True,), "mass is True (expected a number)"),
        (("heavy",), "mass is not a number: 'heavy'"),
        ((10**400,), "mass is not a number"),
        ((1e40,), "mass is 1e+40 (expected at most 1e+30 in size)"),
        ((1.0, [0, 0]), "mass centre has shape (2,) (expected 3 numbers)"),
        ((1.0, [0, 0, math.nan]), "mass centre is not finite"),
        ((1.0, ["a", 0, 0]), "mass centre is not an array of numbers"),
        ((1.0, [0, 0, 0], np.eye(2)), "inertia has shape (2, 2)"),
        ((1.0, [0, 0, 0], [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), "inertia is not symmetric"),
        ((1.0, [0, 0, 0], np.diag([1, 1, 2.1])), "inertia breaks the triangle inequality: 1 + 1 < 2.1 kg m2"),
        ((1.0, [0, 0, 0], np.diag([1, 1, -0.1])), "inertia has a negative principal moment -0.1 kg m2"),
        ((0.0, [0, 0, 0], np.eye(3)), "mass is zero but the inertia is not"),
    ],
)
def test_impossible_inertias(arguments, said):
    assert said in refused(Inertia, *arguments)


def test_triangle_inequality_holds_in_principal_axes_and_at_its_edge():
    turn = rotation_from_rpy([0.3, 0.4, 0.5])
    assert Inertia(1.0, np.zeros(3), turn @ np.diag([1, 1, 2]) @ turn.T).mass == 1.0  # a disc
    assert "triangle" in refused(Inertia, 1.0, np.zeros(3), turn @ np.diag([1, 1, 2.01]) @ turn.T)


def test_inertia_parameters_move_and_add_up():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(5, 3))
    masses = rng.uniform(1, 2, 5)
    by_point = [Inertia(m, p, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True)]
    whole = by_point[0]
    for part in by_point[1:]:
        whole = whole + part
    about_origin = sum(m * (p @ p * np.eye(3) - np.outer(p, p)) for m, p in zip(masses, points, strict=True))
    np.testing.assert_allclose(whole.about_origin, about_origin, atol=1e-12)
    np.testing.assert_allclose(whole.parameters, sum(part.parameters for part in by_point), atol=1e-12)
    np.testing.assert_allclose(Inertia.from_parameters(whole.parameters).tensor, whole.tensor, atol=1e-12)
    pose = Pose(rotation_from_rpy([0.3, 0.4, 0.5]), np.array([1, 2, 3]))
    moved = [
        Inertia(m, pose.rotation @ p + pose.translation, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True)
    ]
    together = moved[0]
    for part in moved[1:]:
        together = together + part
    np.testing.assert_allclose(whole.moved(pose).parameters, together.parameters, atol=1e-11)


def test_poses_compose_and_invert():
    a = Pose(rotation_from_rpy([0.3, 0.4, 0.5]), np.array([1, 2, 3]))
    b = Pose(rotation_from_rpy([-1, 0.2, 2]), np.array([0, -1, 1]))
    point = np.array([0.3, 0.2, 0.1])
    ab = a @ b
    inner = b.rotation @ point + b.translation
    np.testing.assert_allclose(ab.rotation @ point + ab.translation, a.rotation @ inner + a.translation, atol=1e-15)
    back = a.inverse() @ a
    np.testing.assert_allclose(back.rotation, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(back.translation, 0, atol=1e-15)


@pytest.mark.parametrize("rotation", [2 * np.eye(3), np.diag([1, 1, -1]), np.ones((3, 3)), np.zeros((3, 3))])
def test_matrices_that_are_no_rotation(rotation):
    assert "rotation is not a rotation matrix" in refused(Pose, rotation)


def test_unit_vectors_are_stable():
    """Once of length 1 but for rounding, a vector is not changed again: files read back to the same axis."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        v = rng.normal(size=3)
        once = unit_vector(v / np.linalg.norm(v) * (1 + rng.uniform(-9e-7, 9e-7)), "axis")
        assert np.array_equal(unit_vector(once, "axis"), once)
        assert abs(np.linalg.norm(once) - 1) < 1e-15
    assert "axis has length 2 (expected a unit vector)" in refused(unit_vector, [2, 0, 0], "axis")
    assert "axis has length 0" in refused(unit_vector, [0, 0, 0], "axis")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Spring(-1), "stiffness is -1"),
        (lambda: Spring(1, math.nan), "rest is nan"),
        (lambda: Friction(1, 2), "static friction 1 is below Coulomb friction 2"),
        (lambda: Friction(-1, -1), "static friction is -1"),
        (lambda: Limits(1, -1), "lower limit 1 is above upper limit -1"),
        (lambda: Limits(math.nan), "lower limit is nan"),
        (lambda: Limits(lower=math.inf), "lower limit is inf"),
        (lambda: Limits(upper=-math.inf), "upper limit is -inf"),
        (lambda: Limits(upper="1"), "upper limit is '1'"),
        (lambda: Limits(effort=True), "effort limit is True"),
        (lambda: Limits(velocity=-1), "velocity limit is -1"),
        (lambda: Rotor(0), "rotor inertia is 0 (expected more than 0)"),
        (lambda: Rotor(1, 0), "gear ratio is zero"),
        (lambda: Joint("j", "ball", "a", "b"), "joint kind is 'ball'"),
        (lambda: Joint("j", "prismatic", "a", "b", rotor=Rotor(1)), "a prismatic joint cannot carry a rotor"),
        (lambda: hinge("j", "a", "b", axis=np.array([1, 1, 0])), "axis has length 1.41421"),
        (lambda: hinge("j", "a", "b", damping=-1), "damping is -1"),
        (lambda: Thruster("t", "a", [0, 0, 0], [0, 0, 2], 1), "thruster direction has length 2"),
        (lambda: Thruster("t", "a", [0, 0, 0], [0, 0, 1], -1), "thruster force is -1"),
        (lambda: Coupling("c", "a", "a", 1), "couples joint 'a' with itself"),
        (lambda: Coupling("c", "a", "b", -1), "stiffness is -1"),
    ],
)
def test_impossible_parts(make, said):
    assert said in refused(make)


def test_equal_parts_have_equal_hashes():
    def one(zero: float) -> Robot:
        placement = Pose(np.eye(3), np.array([zero, 1, 2]))
        return Robot("r", [body("a"), body("b")], [hinge("j", "a", "b", placement=placement)], [Frame("f", "b")])

    first, second = one(0.0), one(-0.0)
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second}) == 1
    assert first != one(1.0)
    assert first != "r"
    assert first.replace(postures={"up": [1]}) != first


# -- the tree -------------------------------------------------------------------------------------------------------


def tree() -> Robot:
    """a carries b and c, b carries d; given in no good order."""
    joints = [hinge("jd", "b", "d"), hinge("jc", "a", "c"), hinge("jb", "a", "b", limits=Limits(-1, 1))]
    bodies = [body("d"), body("c"), body("b"), body("a")]
    return Robot("tree", bodies, joints, [Frame("tip", "d")], postures={"up": [0.4, 0.3, 0.2]})


def test_parents_come_first_and_postures_follow():
    robot = tree()
    assert robot.body_names == ("a", "c", "b", "d")
    assert robot.joint_names == ("jc", "jb", "jd")
    assert robot.parents == (0, 0, 2)
    assert robot.posture("up").tolist() == [0.3, 0.2, 0.4]
    assert robot.posture("zero").tolist() == [0, 0, 0]
    assert robot.dofs == 9
    assert robot.dof_names[5:7] == ("base_wz", "jc")
    assert robot.subtree("b") == ("b", "d")
    assert [joint.name for joint in robot.children("a")] == ["jc", "jb"]
    assert robot.upper_limits.tolist() == [math.inf, 1, math.inf]
    assert robot.inertia_parameters.shape == (4, 10)
    # what is sorted stays as it is
    again = Robot("tree", robot.bodies, robot.joints, robot.frames, postures=robot.postures)
    assert again == robot


def test_sorting_keeps_the_given_order_where_it_can():
    """Among the joints whose parent is placed, the one given first comes next, whatever the depth."""
    joints = [hinge("j3", "b2", "b3"), hinge("j1", "b0", "b1"), hinge("j2", "b0", "b2"), hinge("j4", "b1", "b4")]
    robot = Robot("r", [body(f"b{i}") for i in range(5)], joints)
    assert robot.joint_names == ("j1", "j2", "j3", "j4")


def test_long_chains_are_sorted_fast():
    n = 3000
    joints = [hinge(f"j{i}", f"b{i}", f"b{i + 1}") for i in range(n)]
    robot = Robot("chain", [body(f"b{i}") for i in range(n + 1)], joints[::-1])
    assert robot.joint_names == tuple(f"j{i}" for i in range(n))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bodies": ()}, "robot 'tree': robot has no body"),
        ({"bodies": (body("a"), body("b"), body("b"), body("c"), body("d"))}, "body: two are called 'b'"),
        (
            {"joints": (hinge("jb", "a", "b"), hinge("jb", "a", "c"), hinge("jd", "b", "d"))},
            "joint: two are called 'jb'",
        ),
        ({"joints": (hinge("jb", "a", "b"),)}, "the tree is disconnected: 'a', 'c', 'd' are carried by no joint"),
        (
            {"joints": (hinge("jb", "a", "b"), hinge("jc", "d", "c"), hinge("jd", "c", "d"))},
            "joint 'jc': the joints 'jc', 'jd' form a cycle apart from the base",
        ),
        (
            {"joints": tuple(hinge(f"j{c}", p, c) for p, c in ("ab", "bc", "cd", "da"))},
            "the joints form a cycle: no body is the base",
        ),
        ({"joints": (hinge("j", "a", "a"), hinge("jb", "a", "b"))}, "joint 'j': joins body 'a' to itself"),
        (
            {"joints": (hinge("jb", "a", "b"), hinge("j2", "c", "b"), hinge("jc", "a", "c"), hinge("jd", "b", "d"))},
            "joint 'j2': body 'b' is already carried by joint 'jb'",
        ),
        ({"joints": (hinge("jb", "a", "bb"),)}, "joint 'jb': there is no body 'bb'"),
        ({"frames": (Frame("a", "b"),)}, "frame: two are called 'a' (frames and bodies share one set of names)"),
        ({"frames": (Frame("tip", "e"),)}, "frame 'tip': there is no body 'e'"),
        ({"thrusters": (Thruster("t", "e", X, X, 1),)}, "thruster 't': there is no body 'e'"),
        ({"couplings": (Coupling("c", "jb", "jx", 1),)}, "coupling 'c': there is no joint 'jx'"),
        ({"postures": {"up": [1, 2]}}, "posture 'up': posture has shape (2,) (expected 3 numbers)"),
        ({"postures": {"up": [1, 2, math.nan]}}, "posture 'up': posture is not finite"),
        ({"postures": {" up": [1, 2, 3]}}, "posture: ' up' is not a name"),
        ({"postures": [[1, 2, 3]]}, "postures is list (expected a mapping"),
        ({"name": ""}, "robot: '' is not a name"),
        ({"name": "a\nb"}, "robot: 'a\\nb' is not a name"),
        ({"name": "\ud800"}, "is not a name (expected printable text"),
        ({"name": None}, "robot: None is not a name"),
    ],
)
def test_impossible_robots(change, said):
    assert said in refused(tree().replace, **change)


def test_base_degrees_of_freedom_keep_their_names():
    assert "joint 'base_wx'" in refused(Robot, "r", [body("a"), body("b")], [hinge("base_wx", "a", "b")])


def test_something_must_resist_every_joint():
    ghost = body("g", Inertia.massless())
    assert "body 'g': the base has no mass" in refused(Robot, "r", [ghost])
    end = [body("a"), ghost]
    assert "joint 'j': body 'g' and all beyond it are massless" in refused(Robot, "r", end, [hinge("j", "a", "g")])
    with_rotor = Robot("r", end, [hinge("j", "a", "g", rotor=Rotor(1e-4, 100))])
    assert with_rotor.mass == 2.0
    chain = Robot("r", [body("a"), ghost, body("b")], [hinge("j", "a", "g"), hinge("k", "g", "b")])
    assert chain.n == 2


def test_looking_up_names():
    robot = tree()
    assert robot.frame("tip").body == "d"
    assert robot.frame("c") == Frame("c", "c", Pose())
    assert robot.joint("jb").child == "b"
    assert robot.dof_index("jb") == 7
    for call, name in (
        (robot.body, "e"),
        (robot.joint, "jbb"),
        (robot.frame, "top"),
        (robot.posture, "upp"),
        (robot.thruster, "t"),
        (robot.dof_index, "base_vw"),
        (robot.subtree, "e"),
    ):
        assert repr(name) in refused(call, name)
    assert "did you mean 'jb'?" in refused(robot.joint, "jbb")
    assert "did you mean 'up'?" in refused(robot.posture, "upp")


def test_other_inertias():
    robot = tree()
    parameters = robot.inertia_parameters.copy()
    parameters[2, 0] = 3.0
    heavier = robot.with_inertia_parameters(parameters)
    assert heavier.body("b").inertia.mass == 3.0
    assert robot.body("b").inertia.mass == 2.0
    parameters[2, 0] = -3.0
    assert "body 'b'" in refused(robot.with_inertia_parameters, parameters)
    assert "inertia parameters has shape" in refused(robot.with_inertia_parameters, parameters[:2])


def test_a_rounded_rotation_is_made_exact_and_an_exact_one_is_kept() -> None:
    turned = rotation_about([0.6, 0.0, 0.8], 0.7)
    assert np.array_equal(Pose(turned).rotation, turned)
    near = Pose(np.round(turned, 7)).rotation
    assert np.abs(near @ near.T - np.eye(3)).max() < 1e-15
    assert np.abs(near - turned).max() < 1e-7
