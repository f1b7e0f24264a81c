"""The robot and its parts: what they accept, what they refuse and how they say so, the order of the tree."""

from __future__ import annotations

import copy
import math
import pickle

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
    catalogue,
)
from spacearm.model.massless import check_massless, massless_dofs
from spacearm.model.parts import unit_vector
from spacearm.model.rotations import rotation_about, rotation_from_rpy
from support.numpy_kinematics import mass_matrix, random_robot

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
    ("arguments", "note"),
    [
        ((-1.0,), "mass is -1 (expected at least 0)"),
        ((math.nan,), "mass is nan (expected a finite number, at least 0)"),
        ((math.inf,), "mass is inf"),
        ((True,), "mass is True (expected a finite number, at least 0)"),
        (("heavy",), "mass is 'heavy' (expected a finite number, at least 0)"),
        ((10**400,), "mass is 1000"),
        ((1e40,), "mass is 1e+40 (expected at most 1e+30 in size)"),
        ((1.0, [0, 0]), "mass centre has 2 numbers (expected 3 numbers)"),
        ((1.0, [0, 0, math.nan]), "mass centre[2] is nan (expected a finite number)"),
        ((1.0, ["a", 0, 0]), "mass centre is not an array of numbers"),
        ((1.0, [0, 0, 0], np.eye(2)), "inertia has shape (2, 2)"),
        ((1.0, [0, 0, 0], [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]), "inertia is not symmetric"),
        ((1.0, [0, 0, 0], np.diag([1, 1, 2.1])), "inertia breaks the triangle inequality: 1 + 1 < 2.1 kg m2"),
        ((1.0, [0, 0, 0], np.diag([1, 1, -0.1])), "inertia has a negative principal moment -0.1 kg m2"),
        ((0.0, [0, 0, 0], np.eye(3)), "mass is zero but the inertia is not"),
    ],
)
def test_impossible_inertias(arguments, note):
    assert note in refused(Inertia, *arguments)


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
    np.testing.assert_allclose(whole.tensor_about_origin, about_origin, atol=1e-12)
    np.testing.assert_allclose(whole.parameters, sum(part.parameters for part in by_point), atol=1e-12)
    np.testing.assert_allclose(Inertia.from_parameters(whole.parameters).tensor, whole.tensor, atol=1e-12)
    pose = Pose(rotation_from_rpy([0.3, 0.4, 0.5]), np.array([1, 2, 3]))
    moved = [
        Inertia(m, pose.rotation @ p + pose.translation, np.zeros((3, 3))) for m, p in zip(masses, points, strict=True)
    ]
    together = moved[0]
    for part in moved[1:]:
        together = together + part
    np.testing.assert_allclose(whole.transform(pose).parameters, together.parameters, atol=1e-11)


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
    ("make", "note"),
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
        (lambda: hinge("j", "a", "b", axis=np.array([1, 1, 0])), "axis has length 1.41421"),
        (lambda: hinge("j", "a", "b", damping=-1), "damping is -1"),
        (lambda: Thruster("t", "a", [0, 0, 0], [0, 0, 2], 1), "thruster direction has length 2"),
        (lambda: Thruster("t", "a", [0, 0, 0], [0, 0, 1], -1), "thruster force is -1"),
        (lambda: Coupling("c", "a", "a", 1), "couples joint 'a' with itself"),
        (lambda: Coupling("c", "a", "b", -1), "stiffness is -1"),
        (lambda: Coupling("c", "a", 3, 1), "coupling second is 3 (expected text)"),
        (lambda: Limits(lower=None), "lower limit is None (expected a number"),
        (lambda: Limits(upper=[1, 2]), "upper limit is [1, 2] (expected a number"),
        (lambda: Body("x", 5), "inertia of body 'x' is 5 (expected an Inertia)"),
        (lambda: Body(5, BALL), "body name is 5 (expected text)"),
        (lambda: Frame("f", "a", 5), "placement of frame 'f' is 5 (expected a Pose)"),
        (lambda: Frame("f", 5), "frame body is 5 (expected text)"),
        (lambda: Thruster(None, "a", X, X, 1), "thruster name is None (expected text)"),
        (lambda: hinge("j", "a", 7), "joint child is 7 (expected text)"),
        (lambda: hinge("j", "a", "b", placement=5), "placement of joint 'j' is 5 (expected a Pose)"),
        (lambda: hinge("j", "a", "b", spring=5.0), "spring of joint 'j' is 5.0 (expected a Spring or None)"),
        (lambda: hinge("j", "a", "b", friction=1), "friction of joint 'j' is 1 (expected a Friction or None)"),
        (lambda: hinge("j", "a", "b", limits=None), "limits of joint 'j' is None (expected a Limits)"),
        (lambda: hinge("j", "a", "b", rotor=(1, 2)), "rotor of joint 'j' is (1, 2) (expected a Rotor or None)"),
        (lambda: Joint("j", ["revolute"], "a", "b"), "joint kind is ['revolute']"),
    ],
)
def test_impossible_parts(make, note):
    assert note in refused(make)


def test_robots_are_compared_by_their_hashes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes are kept: neither a robot and itself, nor robots that differ, are compared array by array."""

    def robot(mass: float) -> Robot:
        return Robot("one", (Body("base", Inertia(mass, tensor=np.eye(3))),))

    first, same, other = robot(1.0), robot(1.0), robot(2.0)
    assert first == same
    assert len({first, same, other}) == 2
    monkeypatch.setattr(np, "array_equal", lambda *_: pytest.fail("compared by arrays"))
    assert first == first  # noqa: PLR0124
    assert first != other
    assert first.bodies[0].inertia == first.bodies[0].inertia


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
    assert first.replace(configurations={"up": [1]}) != first


# -- the tree -------------------------------------------------------------------------------------------------------


def tree() -> Robot:
    """a carries b and c, b carries d; given in no good order."""
    joints = [hinge("jd", "b", "d"), hinge("jc", "a", "c"), hinge("jb", "a", "b", limits=Limits(-1, 1))]
    bodies = [body("d"), body("c"), body("b"), body("a")]
    return Robot("tree", bodies, joints, [Frame("tip", "d")], configurations={"up": [0.4, 0.3, 0.2]})


def test_parents_come_first_and_configurations_follow():
    robot = tree()
    assert robot.body_names == ("a", "c", "b", "d")
    assert robot.joint_names == ("jc", "jb", "jd")
    assert robot.parents == (0, 0, 2)
    assert robot.configuration("up").tolist() == [0.3, 0.2, 0.4]
    assert robot.configuration("zero").tolist() == [0, 0, 0]
    assert robot.dofs == 9
    assert robot.dof_names[5:7] == ("base_wz", "jc")
    assert robot.subtree("b") == ("b", "d")
    assert [joint.name for joint in robot.children("a")] == ["jc", "jb"]
    assert robot.upper_limits.tolist() == [math.inf, 1, math.inf]
    assert robot.inertia_parameters.shape == (4, 10)
    # what is sorted stays as it is
    again = Robot("tree", robot.bodies, robot.joints, robot.frames, configurations=robot.configurations)
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
    ("change", "note"),
    [
        ({"bodies": ()}, "robot 'tree': robot has no body"),
        (
            {"bodies": (body("a"), body("b"), body("b"), body("c"), body("d"))},
            "body[1] and body[2]: two are called 'b'",
        ),
        (
            {"joints": (hinge("jb", "a", "b"), hinge("jb", "a", "c"), hinge("jd", "b", "d"))},
            "joint[0] and joint[1]: two are called 'jb'",
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
        (
            {"frames": (Frame("tip", "b"), Frame("a", "b"))},
            "body[0] and frame[1]: two are called 'a' (frames and bodies share one set of names)",
        ),
        (
            {"configurations": {"zero": [0, 0, 0.1]}},
            "configuration 'zero': this name belongs to the configuration in which all joints",
        ),
        ({"bodies": 5}, "bodies is 5 (expected a sequence of Body)"),
        ({"bodies": "body"}, "bodies is 'body' (expected a sequence of Body)"),
        ({"bodies": (1,)}, "bodies[0] is 1 (expected a Body)"),
        ({"joints": (body("a"),)}, "joints[0] is Body("),
        ({"frames": ("tip",)}, "frames[0] is 'tip' (expected a Frame)"),
        ({"thrusters": None}, "thrusters is None (expected a sequence of Thruster)"),
        ({"couplings": ({},)}, "couplings[0] is {} (expected a Coupling)"),
        ({"frames": (Frame("tip", "e"),)}, "frame 'tip': there is no body 'e'"),
        ({"thrusters": (Thruster("t", "e", X, X, 1),)}, "thruster 't': there is no body 'e'"),
        ({"couplings": (Coupling("c", "jb", "jx", 1),)}, "coupling 'c': there is no joint 'jx'"),
        ({"configurations": {"up": [1, 2]}}, "configuration 'up': configuration has 2 numbers (expected 3 numbers)"),
        (
            {"configurations": {"up": [1, 2, math.nan]}},
            "configuration 'up': configuration[2] is nan (expected a finite number)",
        ),
        ({"configurations": {" up": [1, 2, 3]}}, "configuration: ' up' is not a name"),
        ({"configurations": [[1, 2, 3]]}, "configurations is list (expected a mapping"),
        ({"name": ""}, "robot: '' is not a name"),
        ({"name": "a\nb"}, "robot: 'a\\nb' is not a name"),
        ({"name": "\ud800"}, "is not a name (expected printable text"),
        ({"name": None}, "robot: None is not a name"),
    ],
)
def test_impossible_robots(change, note):
    assert note in refused(tree().replace, **change)


@pytest.mark.parametrize("name", ["base_wx", "base_x", "base_y", "base_z", "elbow.rate", ".rate"])
def test_names_of_other_quantities_are_reserved(name):
    assert f"joint {name!r}" in refused(Robot, "r", [body("a"), body("b")], [hinge(name, "a", "b")])


def test_zero_may_be_written_down_as_what_it_is():
    assert tree().replace(configurations={"zero": [0, -0.0, 0]}).configuration("zero").tolist() == [0, 0, 0]


def test_long_names_are_clipped_in_messages():
    long = "x" * 500
    for note in (refused(tree().joint, long), refused(tree().frame, long), refused(tree().configuration, long)):
        assert len(note) < 300
    assert len(refused(tree().replace, name="a\n" * 300)) < 300


# -- copies -----------------------------------------------------------------------------------------------------------


def everything() -> Robot:
    """One of every part, with numbers that rounding could spoil."""
    turned = rotation_from_rpy([0.3, 0.4, 0.5])
    placement = Pose(np.round(turned, 7), [0.1, 0.2, 0.3])
    link = Inertia(2.0, [0.1, 0, 0], turned @ np.diag([1, 1, 2]) @ turned.T)
    joint = hinge(
        "j",
        "a",
        "b",
        placement=placement,
        axis=np.round(turned[0], 8),
        spring=Spring(1.0),
        friction=Friction(2, 1),
        limits=Limits(-1, 2),
        rotor=Rotor(1e-4, 50),
    )
    return Robot(
        "r",
        [body("a"), body("b", link), body("c")],
        [joint, hinge("k", "a", "c")],
        [Frame("f", "b", placement)],
        [Thruster("t", "a", [1, 2, 3], np.round(turned[1], 8), 4)],
        [Coupling("s", "j", "k", 5.0)],
        {"up": [0.3, 0.4]},
    )


def arrays_of(robot: Robot) -> list[np.ndarray]:
    poses = [robot.joints[0].placement, robot.frames[0].placement]
    inertias = [each.inertia for each in robot.bodies]
    return [
        *(pose.rotation for pose in poses),
        *(pose.translation for pose in poses),
        *(inertia.com for inertia in inertias),
        *(inertia.tensor for inertia in inertias),
        robot.joints[0].axis,
        robot.thrusters[0].position,
        robot.thrusters[0].direction,
        robot.configurations["up"],
        robot.inertia_parameters,
        robot.lower_limits,
        robot.upper_limits,
    ]


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda part: pickle.loads(pickle.dumps(part))])
def test_robots_and_parts_can_be_copied_and_pickled_and_stay_read_only(way):
    robot = everything()
    assert robot.lower_limits.tolist() == [-1, -math.inf]  # computed once, and not carried along
    again = way(robot)
    assert again == robot
    assert hash(again) == hash(robot)
    assert not any(array.flags.writeable for array in [*arrays_of(robot), *arrays_of(again)])
    for part in (robot.bodies[1], robot.joints[0], robot.frames[0], robot.thrusters[0], robot.couplings[0]):
        assert way(part) == part
    with pytest.raises(TypeError):
        again.configurations["down"] = np.zeros(2)


# -- what nothing resists ---------------------------------------------------------------------------------------------

POINT = Inertia(1.0)
BASE_TURNS = ("base_wx", "base_wy", "base_wz")


@pytest.mark.parametrize("name", catalogue.names())
def test_catalogue_robots_have_inertia_everywhere(name):
    assert massless_dofs(catalogue.load(name)) == ()


@pytest.mark.parametrize(
    ("end", "axis", "expected"),
    [
        (POINT, [0, 0, 1], ("j",)),
        (Inertia(1.0, [0, 0, 0.7]), [0, 0, 1], ("j",)),  # on the axis, though not at its origin
        (Inertia(1.0, [0.1, 0, 0]), [0, 0, 1], ()),
        (Inertia(1.0, [0, 0, 0], np.diag([0, 0.02, 0.02])), [1, 0, 0], ("j",)),  # a thin rod
        (Inertia(1.0, [0, 0, 0], np.diag([0, 0.02, 0.02])), [0, 1, 0], ()),
        (Inertia(1e-9, [0, 0, 0], 1e-13 * np.eye(3)), [0, 0, 1], ()),  # light, but something
    ],
)
def test_a_joint_that_turns_nothing_is_found(end, axis, expected):
    placement = Pose(rotation_from_rpy([0.3, 0.4, 0.5]), [1, 2, 3])
    robot = Robot("r", [body("a"), body("b", end)], [hinge("j", "a", "b", axis=axis, placement=placement)])
    assert massless_dofs(robot) == expected
    assert massless_dofs(robot, driven=["j"]) == ()
    driven = robot.replace(joints=[hinge("j", "a", "b", axis=axis, rotor=Rotor(1e-6, 100))])
    assert massless_dofs(driven) == ()  # a rotor counts
    sliding = robot.replace(joints=[Joint("j", "prismatic", "a", "b", axis=axis)])
    assert massless_dofs(sliding) == ()


def test_a_base_that_is_a_point_is_found():
    assert massless_dofs(Robot("r", [body("a", POINT)])) == BASE_TURNS
    away = Inertia(1.0, [0, 0, 2.0])  # turns about its own mass centre in any direction: the base's origin moves along
    assert set(BASE_TURNS) <= set(massless_dofs(Robot("r", [body("a", away)])))
    # The joint can turn one way and the base the other: only together they move nothing.
    arm = Robot("r", [body("a", POINT), body("b")], [hinge("j", "a", "b", axis=[1, 0, 0])])
    assert massless_dofs(arm) == ("base_wx", "j")
    assert massless_dofs(arm, driven=["j"]) == ()
    with pytest.raises(ModelError, match="nothing resists 'base_wx', 'j'"):
        check_massless(arm)


def test_robots_with_a_regular_mass_matrix_have_none():
    rng = np.random.default_rng(3)
    for count in range(30):
        robot = random_robot(rng, 1 + count % 8)
        values = np.linalg.eigvalsh(mass_matrix(robot, rng.uniform(-1, 1, robot.n)))
        assert values[0] > 1e-9 * values[-1]
        assert massless_dofs(robot) == ()


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
        (robot.configuration, "upp"),
        (robot.thruster, "t"),
        (robot.dof_index, "base_vw"),
        (robot.subtree, "e"),
    ):
        assert repr(name) in refused(call, name)
    assert "did you mean 'jb'?" in refused(robot.joint, "jbb")
    assert "did you mean 'up'?" in refused(robot.configuration, "upp")


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
