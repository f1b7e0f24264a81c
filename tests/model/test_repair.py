"""Repair of robots that cannot exist: the nearest that can, told with what changed; all problems in one error."""

from __future__ import annotations

import itertools
import re
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

from spacearm.errors import ModelError
from spacearm.model import Inertia, Pose
from spacearm.model._repair import LARGEST_GYRATION, nearest_tensor, water_ball
from spacearm.model.notices import RepairWarning
from spacearm.model.robot_import import Reading, RobotImport
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.urdf_read import read_urdf, robot_from_urdf

REPAIR = Reading(repair=True)


def repaired(text, **options):
    """The robot of a URDF text, and the warnings of its repair."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        robot = robot_from_urdf(text, reading=Reading(repair=True, **options))
    return robot, [warning.message for warning in notes if isinstance(warning.message, RepairWarning)]


def inertial(mass=2.0, moments=(1.0, 1.0, 1.0), products=(0.0, 0.0, 0.0)):
    xx, yy, zz = moments
    xy, xz, yz = products
    return (
        f'<inertial><mass value="{mass!r}"/><inertia ixx="{xx!r}" ixy="{xy!r}" ixz="{xz!r}" iyy="{yy!r}" '
        f'iyz="{yz!r}" izz="{zz!r}"/></inertial>'
    )


def arm(*links, joint=""):
    """A chain of links l0, l1, ... on revolute joints j1, j2, ...; each link is its <inertial>."""
    bodies = "".join(f'<link name="l{i}">{link}</link>' for i, link in enumerate(links))
    joints = "".join(
        f'<joint name="j{i}" type="revolute"><parent link="l{i - 1}"/><child link="l{i}"/>'
        f'<origin xyz="0 0.3 1"/>{joint}</joint>'
        for i in range(1, len(links))
    )
    return f'<robot name="arm">{bodies}{joints}</robot>'


@pytest.mark.parametrize("name", ['name=""', 'name=" "', ""])
def test_a_robot_without_a_name_gets_the_files(name, tmp_path):
    file = tmp_path / "some arm.urdf"
    file.write_text(arm(inertial()).replace('name="arm"', name))
    with pytest.raises(ModelError, match=r"some arm\.urdf: robot: <robot> has no 'name' .*--repair"):
        read_urdf(file)
    with pytest.warns(RepairWarning, match="is called 'some arm'"):
        assert read_urdf(file, REPAIR).name == "some arm"


@pytest.mark.parametrize("end", ["\0", "\n\0\0\n"])
def test_nul_bytes_after_the_end_are_left_out(end):
    text = arm(inertial(), inertial())
    for given in (text + end, (text + end).encode()):
        with pytest.raises(ModelError, match=r"NUL bytes after the end .*--repair"):
            robot_from_urdf(given)
        robot, notes = repaired(given)
        assert robot == robot_from_urdf(text)
        assert ["NUL" in str(each) for each in notes] == [True]
    wide = f'<?xml version="1.0" encoding="utf-16"?>{text}'.encode("utf-16")
    assert robot_from_urdf(wide) == robot_from_urdf(text)  # every other byte of which is NUL
    with pytest.raises(ModelError, match="not well-formed"):
        robot_from_urdf(text.replace("l1", "l\0"), reading=REPAIR)


# -- the nearest inertia ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_tensor_is_the_least_squares_solution(seed):
    """Against a general optimiser over second-moment matrices L L^T: a tensor of a body is tr(S) 1 - S."""
    rng = np.random.default_rng(seed)
    tensor = rng.normal(size=(3, 3))
    tensor = tensor + tensor.T
    nearest = nearest_tensor(tensor)
    Inertia(1.0, tensor=nearest)

    def distance(entries):
        lower = np.zeros((3, 3))
        lower[np.tril_indices(3)] = entries
        second = lower @ lower.T
        return float(np.sum((np.trace(second) * np.eye(3) - second - tensor) ** 2))

    best = min(minimize(distance, rng.normal(size=6), method="BFGS", options={"gtol": 1e-10}).fun for _ in range(6))
    assert np.sum((nearest - tensor) ** 2) == pytest.approx(best, rel=1e-5, abs=1e-9)


def test_a_tensor_that_a_body_can_have_stays():
    tensor = np.array([[2.0, 0.1, 0.2], [0.1, 2.5, -0.3], [0.2, -0.3, 3.0]])
    np.testing.assert_allclose(nearest_tensor(tensor), tensor, rtol=1e-14)
    np.testing.assert_allclose(nearest_tensor(np.diag([1.0, 1.0, 3.0])), np.diag([4, 4, 8]) / 3, rtol=1e-14)
    np.testing.assert_array_equal(nearest_tensor(np.diag([-1e-35, -1e-35, -1e-35])), np.zeros((3, 3)))


# -- all problems at once ---------------------------------------------------------------------------------------------


def test_one_error_tells_every_problem_of_a_file():
    text = arm(
        inertial(moments=(1.0, 1.0, 5.0)),
        inertial(mass=-3.0),
        inertial(mass=0.0),
        inertial().replace('"2.0"', '"heavy"'),
        joint='<axis xyz="0 0 2"/>',
    )
    with pytest.raises(ModelError) as caught:
        robot_from_urdf(text, "arm.urdf")
    note = str(caught.value)
    assert note.startswith("arm.urdf: 7 problems\n")
    for part in (
        "link 'l0': inertia breaks the triangle inequality: 1 + 1 < 5",
        "link 'l1': mass is -3",
        "link 'l2': mass is zero but the inertia is not",
        "link 'l3': mass.value is not a finite number",
        "joint 'j1': axis has length 2",
        "joint 'j2': axis has length 2",
        "joint 'j3': axis has length 2",
    ):
        assert note.count(part) == 1
    assert len(note.splitlines()) == 9  # the three axes have one remedy, said once
    assert note.count("expected a unit vector") == 1


def test_problems_of_the_tree_are_told_together():
    text = arm(inertial(), inertial(), inertial())
    text = text.replace('parent link="l0"', 'parent link="l9"').replace('parent link="l1"', 'parent link="l8"')
    with pytest.raises(ModelError, match=r"(?s)joint 'j1': there is no body 'l9'.*joint 'j2': there is no body 'l8'"):
        robot_from_urdf(text)
    with pytest.raises(ModelError, match=r"(?s)link 'l0'|body 'l0': the base has no mass.*base_mass.*joint 'j1'"):
        robot_from_urdf(arm("", ""))


def test_a_robot_file_tells_all_its_problems_too():
    text = """[robot]
name = "r"
[[body]]
name = "a"
mass = 1
inertia = [1, 1, 5]
[[body]]
name = "b"
mass = -1
inertia = [1, 1, 1]
[[joint]]
name = "j"
kind = "revolute"
parent = "a"
child = "b"
axis = [0, 0, 2]
"""
    with pytest.raises(ModelError) as caught:
        robot_from_toml(text)
    note = str(caught.value)
    for part in ("3 problems", "triangle inequality", "mass is -1", "axis has length 2"):
        assert part in note


def test_a_file_that_is_no_robot_does_not_fill_the_screen():
    links = "".join(f'<link name="l{i}">{inertial(mass=-1.0)}</link>' for i in range(500))
    with pytest.raises(ModelError, match="501 problems, of which these are the first 100") as caught:
        robot_from_urdf(f'<robot name="r">{links}</robot>')
    assert len(str(caught.value).splitlines()) == 102


@pytest.mark.parametrize(
    ("products", "asked"), [((0.0, 0.0, 0.0), False), ((0.0, 0.0, 0.4), False), ((0.9, 0.9, 0.9), True)]
)
def test_the_sign_of_products_is_asked_for_only_where_it_would_help(products, asked):
    """With (xy, xz, yz) = 0.9 the moments are (1.1, 1.1, 3.8); with -0.9 they are (0.2, 2.9, 2.9): a body."""
    moments = (2.0, 2.0, 2.0) if any(products) and asked else (1.0, 1.0, 5.0)
    with pytest.raises(ModelError, match="triangle inequality") as caught:
        robot_from_urdf(arm(inertial(moments=moments, products=products)))
    assert ("wrong sign" in str(caught.value)) is asked
    assert "repair=True" in str(caught.value)


# -- repairs ----------------------------------------------------------------------------------------------------------


def test_one_warning_for_each_kind_of_repair_says_what_changed_and_by_how_much():
    links = [inertial(), *itertools.repeat(inertial(moments=(1.0, 1.0, 3.0)), 10)]
    robot, notes = repaired(arm(*links, joint='<axis xyz="0 0 0.999968"/>'))
    inertias, axes = notes
    assert re.search(r"link 'l1': principal moments 1, 1, 3 -> 1.333, 1.333, 2.667 kg m2, 17 %", str(inertias))
    assert "and 4 more" in str(inertias)
    assert len(inertias.repairs) == 10
    assert "joint 'j1': length 0.999968" in str(axes)
    np.testing.assert_allclose(robot.body("l10").inertia.tensor, np.diag([4, 4, 8]) / 3, rtol=1e-14)
    np.testing.assert_array_equal(robot.joints[0].axis, [0, 0, 1])


def test_what_needs_no_repair_is_read_as_ever():
    text = arm(inertial(), inertial())
    robot, notes = repaired(text)
    assert notes == []
    assert robot == robot_from_urdf(text)


def test_an_inertia_without_mass_is_kept():
    robot, notes = repaired(arm(inertial(), inertial(mass=0.0, moments=(1.0, 2.0, 2.0))))
    body = robot.body("l1").inertia
    np.testing.assert_allclose(body.tensor, np.diag([1.0, 2.0, 2.0]))
    assert body.mass == pytest.approx(2.0 / LARGEST_GYRATION**2)
    assert "link 'l1': 0 -> 2 kg" in str(notes[0])


def test_noise_instead_of_zero_is_no_moment():
    robot, notes = repaired(arm(inertial(), inertial(moments=(-1e-35, -1e-35, -2e-35))))
    np.testing.assert_array_equal(robot.body("l1").inertia.tensor, np.zeros((3, 3)))
    assert len(notes) == 1


def test_a_robot_without_masses_gets_stand_ins():
    robot, notes = repaired(arm("", "", ""))
    assert [body.inertia.mass for body in robot.bodies] == [1.0, 1e-3, 1e-3]
    assert robot.bodies[0].inertia == water_ball(1.0)
    assert ["base_mass" in str(each) for each in notes] == [True, False]
    radius = (1e-3 / (4.0 / 3.0 * np.pi * 1000.0)) ** (1.0 / 3.0)
    np.testing.assert_allclose(robot.body("l1").inertia.tensor, 0.4e-3 * radius**2 * np.eye(3))


def test_a_base_that_stands_in_is_as_heavy_as_the_rest():
    robot, notes = repaired(arm("", inertial(mass=3.0), inertial(mass=4.0)))
    assert robot.bodies[0].inertia == water_ball(7.0)
    assert "link 'l0': 0 -> 7 kg" in str(notes[0])


def test_a_massless_body_between_stays_massless():
    robot, notes = repaired(arm(inertial(), "", inertial()))
    assert notes == []
    assert robot.body("l1").inertia.mass == 0.0


@pytest.mark.parametrize("repair", [True, False])
def test_base_mass(repair):
    text = arm("", inertial())
    robot = robot_from_urdf(text, reading=Reading(repair=repair, base_mass=40.0))
    assert robot.bodies[0].inertia == water_ball(40.0)
    kept = arm(inertial(mass=0.0), inertial())
    if repair:
        heavy, _ = repaired(kept, base_mass=40.0)
        np.testing.assert_array_equal(heavy.bodies[0].inertia.tensor, np.eye(3))
        assert heavy.bodies[0].inertia.mass == 40.0
    with pytest.raises(ModelError, match=r"link 'l0': the base has a mass of 2 kg already"):
        robot_from_urdf(arm(inertial(), inertial()), reading=Reading(repair=repair, base_mass=40.0))
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ModelError, match="base mass"):
            Reading(base_mass=wrong)


@pytest.mark.parametrize(
    ("joint", "note"),
    [
        ('<limit lower="1" upper="-1"/>', "1 to -1 left out"),
        ('<limit velocity="-2"/>', "-2 left out"),
        ('<dynamics damping="-0.5"/>', "-0.5 -> 0"),
        ('<dynamics friction="-0.5"/>', "-0.5 -> 0"),
        ('<axis xyz="0 0 1"/><axis xyz="1 0 0"/>', "1 left out"),
    ],
)
def test_joints_are_repaired(joint, note):
    text = arm(inertial(), inertial(), joint=joint)
    with pytest.raises(ModelError, match="joint 'j1'"):
        robot_from_urdf(text)
    robot, notes = repaired(text)
    assert len(notes) == 1
    assert f"joint 'j1': {note}" in str(notes[0])
    plain = robot_from_urdf(arm(inertial(), inertial())).joints[0]
    assert robot.joints[0].limits == plain.limits
    assert (robot.joints[0].damping, robot.joints[0].friction) == (0.0, None)


def test_names_of_the_state_are_changed():
    text = arm(inertial(), inertial(), inertial()).replace('"j1"', '"base_x"')
    text = text.replace('"/></joint></robot>', '"/><mimic joint="base_x"/></joint></robot>')
    robot, notes = repaired(text)
    assert robot.joint_names == ("base_x_joint", "j2")
    assert robot.couplings[0].second == "base_x_joint"
    assert "now 'base_x_joint'" in str(notes[0])


def test_what_cannot_be_repaired_is_still_an_error():
    for text, message in (
        (arm(inertial(mass=-1.0)), "mass is -1"),
        (arm(inertial(), inertial(), joint='<axis xyz="0 0 0"/>'), "axis has length 0"),
    ):
        with pytest.raises(ModelError, match=message) as caught:
            repaired(text)
        assert "repair=True" not in str(caught.value)


def test_an_intake_serves_any_format():
    intake = RobotImport("file", REPAIR)
    base = intake.body("hub", 3.0, np.diag([1.0, 1.0, 3.0]), Pose(translation=np.array([0.0, 0.0, 1.0])))
    with pytest.warns(RepairWarning, match="file: repaired: .*body 'hub': principal moments"):
        robot = intake.robot("r", [base])
    np.testing.assert_array_equal(robot.bodies[0].inertia.com, [0, 0, 1])


# -- mimic joints -----------------------------------------------------------------------------------------------------


def wheels(multiplier=-2.0, offset=0.1):
    """Two balanced wheels (axial inertia 0.5 kg m2) on a hub that is free to turn: the same in every configuration."""
    hub, wheel = inertial(mass=10.0, moments=(3.0, 3.0, 3.0)), inertial(mass=1.0, moments=(0.4, 0.4, 0.5))
    text = f'<robot name="r"><link name="hub">{hub}</link>'
    for name, x, mimic in (
        ("a", 1.0, ""),
        ("b", -1.0, f'<mimic joint="a" multiplier="{multiplier}" offset="{offset}"/>'),
    ):
        text += (
            f'<link name="{name}.body">{wheel}</link><joint name="{name}" type="continuous"><parent link="hub"/>'
            f'<child link="{name}.body"/><origin xyz="{x} 0 0"/><axis xyz="0 0 1"/>{mimic}</joint>'
        )
    return text + "</robot>"


def test_a_mimic_joint_becomes_a_coupling_of_100_hz():
    robot, notes = repaired(wheels())
    (coupling,) = robot.couplings
    assert (coupling.first, coupling.second, coupling.ratio, coupling.rest) == ("b", "a", -2.0, 0.1)
    # turning about z: hub 3 + 2 wheels (1 kg at 1 m, 0.5 kg m2 each) = 6, coupled with each wheel by 0.5
    mass = np.array([[6.0, 0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.0, 0.5]])
    gradient = np.array([0.0, 2.0, 1.0])  # of q_b + 2 q_a
    effective = 1.0 / (gradient @ np.linalg.solve(mass, gradient))
    assert coupling.stiffness == pytest.approx(effective * (2 * np.pi * 100.0) ** 2, rel=1e-9)
    assert coupling.damping == pytest.approx(2 * effective * 2 * np.pi * 100.0, rel=1e-9)
    assert re.search(r"joint 'b': -2 times joint 'a' \+ 0\.1, .* N m/rad", str(notes[0]))


def test_the_follower_follows():
    """Free motion from rest, released with the follower where it belongs: MuJoCo's tendon holds it there."""
    import mujoco

    from spacearm.model.mjcf_write import mjcf_text

    robot, _ = repaired(wheels(offset=0.0))
    model = mujoco.MjModel.from_xml_string(mjcf_text(robot))
    model.opt.timestep = 1e-4
    data = mujoco.MjData(model)
    a, b = (int(model.joint(name).qposadr[0]) for name in "ab")
    data.qfrc_applied[int(model.joint("a").dofadr[0])] = 0.3
    for _ in range(5000):
        mujoco.mj_step(model, data)
    assert abs(data.qpos[a]) > 0.01
    assert data.qpos[b] == pytest.approx(-2.0 * data.qpos[a], abs=1e-5)


def test_a_joint_that_mimics_nothing_is_free():
    for leader in ("none", "b"):
        robot, notes = repaired(wheels().replace('mimic joint="a"', f'mimic joint="{leader}"'))
        assert robot.couplings == ()
        assert f"no joint {leader!r} to follow" in str(notes[0])


def test_one_rule_for_a_base_without_mass_whether_the_file_gives_it_an_inertia_or_not():
    """An inertia of 0.05, 0.06, 0.03 kg m2 gave 0.06 kg to a base, and none gave it the mass of the rest."""
    rest = (inertial(mass=3.0), inertial(mass=4.0))
    bare, _ = repaired(arm("", *rest))
    robot, notes = repaired(arm(inertial(mass=0.0, moments=(0.05, 0.06, 0.03)), *rest))
    assert bare.bodies[0].inertia.mass == robot.bodies[0].inertia.mass == 7.0
    np.testing.assert_allclose(robot.bodies[0].inertia.tensor, np.diag([0.05, 0.06, 0.03]))
    assert [each.change for warning in notes for each in warning.repairs] == ["0 -> 7 kg"]


def test_a_light_base_with_a_mass_of_its_own_keeps_it():
    robot, _ = repaired(arm(inertial(mass=0.5), inertial(mass=0.0, moments=(1.0, 2.0, 2.0))))
    assert robot.bodies[0].inertia.mass == 0.5
