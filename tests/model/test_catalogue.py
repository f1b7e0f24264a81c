"""The papers' robots against what the papers (as corrected) say of them, by NumPy formulas independent of spacearm."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.model import Inertia, Robot, Rotor, catalogue, load
from support.brute_force import body_poses, mass_matrix

ROBOTS = (
    "cai2023",
    "cai2023_printed",
    "servicer",
    "wojtunik2023",
    "wojtunik2023_printed",
    "xu2017",
    "yoshida1992",
    "zhang2020",
    "zhang2020_six_axis",
)


def single_body(robot: Robot, joints: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, mass centre and tensor about it of the robot frozen at this configuration, base axes."""
    masses, centres, tensors = [], [], []
    for body, (rotation, origin) in zip(robot.bodies, body_poses(robot, joints), strict=True):
        masses.append(body.inertia.mass)
        centres.append(origin + rotation @ body.inertia.com)
        tensors.append(rotation @ body.inertia.tensor @ rotation.T)
    mass = sum(masses)
    centre = sum(m * c for m, c in zip(masses, centres, strict=True)) / mass
    total = np.zeros((3, 3))
    for m, c, t in zip(masses, centres, tensors, strict=True):
        arm = c - centre
        total += t + m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return mass, centre, total


def ejection_mass(robot: Robot, joints: np.ndarray, free: tuple[str, ...]) -> float:
    """What the base weighs along its z when these joints are free and the base is held otherwise: M - h^T H^-1 h."""
    matrix = mass_matrix(robot, joints)
    index = [6 + robot.joint_index(name) for name in free]
    h = matrix[2, index]
    return float(matrix[2, 2] - h @ np.linalg.solve(matrix[np.ix_(index, index)], h))


def test_names():
    assert catalogue.names() == ROBOTS


@pytest.mark.parametrize("name", ROBOTS)
def test_each_is_sound(name):
    robot = catalogue.load(name)
    assert robot.name == name
    assert catalogue.load(name) is robot
    arm = [body.name for body in robot.bodies if not body.name.startswith("wheel")]
    assert robot.frame("hand").body == arm[-1]
    matrix = mass_matrix(robot, 0.1 * np.arange(robot.n))
    assert np.linalg.eigvalsh(matrix)[0] > 0
    # the file says where its numbers come from
    assert catalogue.text(name).startswith("# ")
    for configuration in robot.configurations.values():
        assert np.all(configuration >= robot.lower_limits)
        assert np.all(configuration <= robot.upper_limits)


def test_unknown_robot():
    with pytest.raises(ModelError, match="did you mean 'cai2023'"):
        catalogue.load("cai2032")
    with pytest.raises(ModelError, match="catalogue has no robot"):
        catalogue.load("../../etc/passwd")


# -- Yoshida 1992 ---------------------------------------------------------------------------------------------------


def test_yoshida_mass_centre_lies_at_51_degrees_from_the_struck_end():
    robot = catalogue.load("yoshida1992")
    joints = robot.configuration("L")
    mass, centre, _ = single_body(robot, joints)
    poses = body_poses(robot, joints)
    rotation, origin = poses[-1]
    hand = origin + rotation @ robot.frame("hand").placement.translation
    assert mass == 3.0
    x, y, z = centre - hand
    assert z == 0.0
    assert math.degrees(math.atan2(y, x)) == pytest.approx(51.34, abs=0.005)
    # the struck rod along 90 deg, the others along 0 deg, seen from the struck end
    np.testing.assert_allclose(origin - hand, [0, 1, 0], atol=1e-15)
    np.testing.assert_allclose(poses[0][1] - origin, [1.5, 0, 0], atol=1e-15)


def test_yoshida_virtual_masses_of_section_6():
    """Fixed joints: 3 kg along 51 deg. Free joints: the peak lies at 90 deg and well below 3 kg."""
    robot = catalogue.load("yoshida1992")
    joints = robot.configuration("L")
    matrix = mass_matrix(robot, joints)
    rotation, origin = body_poses(robot, joints)[-1]
    hand = origin + rotation @ robot.frame("hand").placement.translation
    jacobian = np.zeros((2, robot.dofs))
    jacobian[:, :2] = np.eye(2)
    jacobian[:, 5] = -hand[1], hand[0]
    for i, (_, place) in enumerate(body_poses(robot, joints)[1:]):
        jacobian[:, 6 + i] = -(hand - place)[1], (hand - place)[0]
    angles = np.radians(np.arange(0, 180.01, 0.1))
    normals = np.array([np.cos(angles), np.sin(angles)])

    def peak(dofs: list[int]) -> tuple[float, float]:
        j = jacobian[:, dofs]
        g = j @ np.linalg.solve(matrix[np.ix_(dofs, dofs)], j.T)
        masses = 1 / np.linalg.norm(g @ normals, axis=0)
        return float(masses.max()), float(np.degrees(angles[masses.argmax()]))

    fixed_mass, fixed_angle = peak([0, 1, 5])
    free_mass, free_angle = peak([0, 1, 5, 6, 7])
    assert fixed_mass == pytest.approx(3.0, abs=1e-4)
    assert fixed_angle == pytest.approx(51.3, abs=0.1)
    assert free_angle == pytest.approx(90.0, abs=0.11)
    assert free_mass < 2.0


# -- Cai 2023 -------------------------------------------------------------------------------------------------------

#: Table III: equivalent mass in the plane, and with joint 4 alone free, kg
TABLE_III = {1: (48.73, 53.47), 2: (33.05, 83.74), 3: (33.76, 53.45), 4: (44.95, 56.47), 5: (84.87, 85.91)}


def test_cai_printed_tables():
    robot = catalogue.load("cai2023_printed")
    assert robot.mass == pytest.approx(116.9, abs=0.05)
    poses = body_poses(robot, robot.configuration("attitude5"))
    # straight along +Z, but for the 150 mm beside joint 4: d1 + d3 + d5 + d7
    np.testing.assert_allclose(poses[-1][1], [0.15, 0, 0.25 + 1.8 + 2.28 + 0.28], atol=1e-15)
    np.testing.assert_allclose(poses[-1][0] @ [0, 0, 1], [0, 0, 1], atol=1e-15)
    # joints 2, 4, 6 all turn about one normal of the plane
    for index in (2, 4, 6):
        assert abs(poses[index][0][1, 2]) == 1.0


def test_cai_printed_tables_cannot_give_table_iii():
    robot = catalogue.load("cai2023_printed")
    straight = ejection_mass(robot, robot.configuration("attitude5"), ("joint2", "joint4", "joint6"))
    assert straight == pytest.approx(116.2, abs=0.05)
    # with joint 4 free, no pose weighs less than what is not beyond joint 4
    floor = robot.mass - sum(robot.body(f"link{i}").inertia.mass for i in range(4, 8))
    assert floor == pytest.approx(69.8, abs=0.05)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert ejection_mass(robot, rng.uniform(-3, 3, 7), ("joint4",)) > floor
    assert min(joint_4 for _, joint_4 in TABLE_III.values()) < floor


@pytest.mark.parametrize("attitude", TABLE_III)
def test_cai_surrogate_gives_table_iii(attitude):
    robot = catalogue.load("cai2023")
    joints = robot.configuration(f"attitude{attitude}")
    plane, joint_4 = TABLE_III[attitude]
    assert ejection_mass(robot, joints, ("joint2", "joint4", "joint6")) == pytest.approx(plane, rel=0.025)
    assert ejection_mass(robot, joints, ("joint4",)) == pytest.approx(joint_4, rel=0.005)


def test_cai_surrogate_differs_from_the_printed_arm_only_where_fitted():
    printed, fitted = catalogue.load("cai2023_printed"), catalogue.load("cai2023")
    assert fitted.mass == pytest.approx(86.0, abs=0.05)
    masses = {"base": 5.728, "link2": 14.593, "link3": 16.369, "link6": 12.035}
    for body, other in zip(printed.bodies, fitted.bodies, strict=True):
        assert other.inertia == Inertia(masses.get(body.name, body.inertia.mass), body.inertia.com, body.inertia.tensor)
    moved = [a.name for a, b in zip(printed.joints, fitted.joints, strict=True) if a.placement != b.placement]
    assert moved == ["joint3", "joint5"]
    assert fitted.joint("joint4").friction is not None
    assert (fitted.joint("joint4").friction.static, fitted.joint("joint4").friction.coulomb) == (4.0, 2.0)
    assert {joint.damping for joint in fitted.joints} == {5.4}


def test_cai_products_of_inertia_as_headed_belong_to_no_body():
    """The last two columns of Table II are exchanged in the file: as headed, three links cannot exist."""
    impossible = []
    for body in catalogue.load("cai2023_printed").bodies:
        tensor = body.inertia.tensor.copy()
        tensor[0, 2], tensor[1, 2] = tensor[1, 2], tensor[0, 2]
        tensor[2, 0], tensor[2, 1] = tensor[0, 2], tensor[1, 2]
        try:
            Inertia(body.inertia.mass, body.inertia.com, tensor)
        except ModelError as error:
            assert "triangle inequality" in str(error)  # noqa: PT017
            impossible.append(body.name)
    assert impossible == ["link2", "link4", "link5"]


# -- Zhang 2020 -----------------------------------------------------------------------------------------------------


def test_zhang_geometry_and_laws():
    robot = catalogue.load("zhang2020")
    assert robot.mass == 216.0
    assert robot.n == 8
    axes = ("slide_z", "rotation_x", "rotation_y", "rotation_z")
    assert robot.joint_names == tuple(f"joint{k}.{axis}" for k in (1, 2) for axis in axes)
    poses = body_poses(robot, np.zeros(8))
    assert [poses[robot.body_index(f"segment{k}")][1].tolist() for k in (1, 2)] == [[0, 0, 0.55], [0, 0, 1.3]]
    for joint in robot.joints:
        assert joint.spring is not None
        assert joint.spring.stiffness == 40.0
        assert joint.damping == (1.0 if joint.kind == "prismatic" else 5.0)
    hand = poses[-1][1] + robot.frame("hand").placement.translation
    assert hand.tolist() == [0, 0, 2.05]


def test_zhang_rotation_is_equation_2():
    """A = Rot(x) Rot(y) Rot(z), after the displacement in the axes of the segment before."""
    robot = catalogue.load("zhang2020_six_axis")
    assert robot.n == 12
    joints = np.zeros(12)
    joints[:6] = 0.1, 0.2, 0.3, 0.4, 0.5, 0.6
    (cx, cy, cz), (sx, sy, sz) = np.cos(joints[3:6]), np.sin(joints[3:6])
    rot_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    rot_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    rot_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    rotation, origin = body_poses(robot, joints)[robot.body_index("segment1")]
    np.testing.assert_allclose(rotation, rot_x @ rot_y @ rot_z, atol=1e-15)
    np.testing.assert_allclose(origin, [0.1, 0.2, 0.55 + 0.3], atol=1e-15)


def test_zhang_z_modes_do_not_depend_on_the_geometry():
    """Along z and about z the arm is three masses on two springs: a check of masses, inertias and stiffness."""
    robot = catalogue.load("zhang2020")
    matrix = mass_matrix(robot, np.zeros(8))
    for base, name, values in ((2, "slide_z", (200.0, 8.0, 8.0)), (5, "rotation_z", (66.7, 2.5, 2.5))):
        index = [base, *(6 + robot.joint_index(f"joint{k}.{name}") for k in (1, 2))]
        modes = np.linalg.eigvals(np.linalg.solve(matrix[np.ix_(index, index)], np.diag([0.0, 40.0, 40.0])))
        stiffness = 40.0 * np.array([[1, -1, 0], [-1, 2, -1], [0, -1, 1]])
        reference = np.linalg.eigvals(np.linalg.solve(np.diag(values), stiffness))
        np.testing.assert_allclose(np.sort(modes.real), np.sort(reference.real), atol=1e-12)


def test_zhang_six_axes_with_two_slides_locked_are_the_eight():
    four, six = catalogue.load("zhang2020"), catalogue.load("zhang2020_six_axis")
    keep = [*range(6), *(6 + six.joint_index(name) for name in four.joint_names)]
    joints = 0.1 * np.arange(1, 9)
    wide = np.zeros(12)
    wide[[six.joint_index(name) for name in four.joint_names]] = joints
    np.testing.assert_allclose(mass_matrix(six, wide)[np.ix_(keep, keep)], mass_matrix(four, joints), atol=1e-12)


# -- Xu 2017 --------------------------------------------------------------------------------------------------------


def test_xu_equivalent_single_body_is_table_4():
    robot = catalogue.load("xu2017")
    mass, centre, tensor = single_body(robot, robot.configuration("normal"))
    assert mass == 476.0
    np.testing.assert_allclose(centre, [0.103, 0.007, 0.078], rtol=0, atol=0.5e-3)
    table = [[65.460, -2.111, -25.195], [-2.111, 93.997, -3.741], [-25.195, -3.741, 66.931]]
    np.testing.assert_allclose(tensor, table, rtol=0, atol=0.025)


def test_xu_printed_b4_would_not_give_table_4():
    """With b4z = -0.700 as printed the mass centre is off by more than the table's rounding: the correction matters."""
    robot = catalogue.load("xu2017")
    joints = []
    for joint in robot.joints:
        if joint.name == "joint5":
            placement = type(joint.placement)(joint.placement.rotation, np.array([0, 0, -1.05]))
            joint = type(joint)(joint.name, joint.kind, joint.parent, joint.child, placement, joint.axis)  # noqa: PLW2901
        joints.append(joint)
    _, centre, _ = single_body(robot.replace(joints=tuple(joints)), robot.configuration("normal"))
    assert np.abs(centre - [0.103, 0.007, 0.078]).max() > 0.02


def test_xu_thrusters_span_all_directions_and_pairs_oppose():
    robot = catalogue.load("xu2017")
    assert len(robot.thrusters) == 12
    wrenches = {t.name: np.array([*t.direction, *np.cross(t.position, t.direction)]) for t in robot.thrusters}
    assert np.linalg.matrix_rank(np.array(list(wrenches.values()))) == 6
    for first, second in ((1, 7), (2, 8), (3, 11), (4, 12), (5, 9), (6, 10)):
        force = wrenches[f"thruster{first}"][:3] + wrenches[f"thruster{second}"][:3]
        assert not force.any()
    assert {thruster.force for thruster in robot.thrusters} == {2.0}


# -- Wojtunik 2023 --------------------------------------------------------------------------------------------------


def test_wojtunik_table_1():
    robot = catalogue.load("wojtunik2023")
    assert robot.joint_names == ("joint1", "joint1.motor", "joint2", "joint3")
    assert robot.mass == pytest.approx(58.69 + 2.81 + 2.82 + 4.64)
    assert np.rad2deg(robot.configuration("start")).tolist() == pytest.approx([7.5, 7.5, -15.0, -22.5])
    # Eq. 21 at the start: mounting point, then three lengths along the summed angles
    angles = np.cumsum(np.radians([7.5, -15.0, -22.5]))
    tip = np.array([0.337, -0.001]) + [0.449, 0.449, 0.310] @ np.array([np.cos(angles), np.sin(angles)]).T
    rotation, origin = body_poses(robot, robot.configuration("start"))[robot.body_index("link3")]
    hand = origin + rotation @ robot.frame("hand").placement.translation
    np.testing.assert_allclose(hand, [*tip, 0.0], atol=1e-15)


def test_wojtunik_motor_with_and_without_gear():
    """The motor's own inertia on the output side is I_m = N^2 J in both; its coupling to the base is smaller by N."""
    geared, printed = catalogue.load("wojtunik2023"), catalogue.load("wojtunik2023_printed")
    assert geared.joint("joint1.motor").rotor == Rotor(3.3e-4, 100.0)
    assert printed.joint("joint1.motor").rotor == Rotor(3.3, 1.0)
    assert geared.couplings == printed.couplings
    motor = 6 + geared.joint_index("joint1.motor")
    start = geared.configuration("start")
    a, b = mass_matrix(geared, start), mass_matrix(printed, start)
    assert a[motor, motor] == pytest.approx(3.3)
    assert b[motor, motor] == pytest.approx(3.3)
    assert a[5, motor] == pytest.approx(3.3 / 100)
    assert b[5, motor] == pytest.approx(3.3)
    assert b[5, 5] - a[5, 5] == pytest.approx(3.3 - 3.3e-4)


def test_load_takes_names_of_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load("xu2017") == catalogue.load("xu2017")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xu2017").write_text("not a robot")
    with pytest.raises(ModelError, match="has no ending"):  # a file of that name wins
        load("xu2017")
