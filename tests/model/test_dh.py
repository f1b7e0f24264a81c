"""DH tables against products of 4 x 4 matrices written out as in the textbooks, for random tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spacearm.errors import ModelError
from spacearm.model._dh import DhRow, dh_links
from spacearm.model.parts import Pose
from spacearm.model.toml_read import robot_from_toml


def craig_matrix(a: float, alpha: float, d: float, theta: float) -> np.ndarray:
    """Craig, Introduction to Robotics, eq. 3.6, entry by entry."""
    ca, sa, ct, st = math.cos(alpha), math.sin(alpha), math.cos(theta), math.sin(theta)
    return np.array(
        [
            [ct, -st, 0, a],
            [st * ca, ct * ca, -sa, -sa * d],
            [st * sa, ct * sa, ca, ca * d],
            [0, 0, 0, 1],
        ]
    )


def standard_matrix(a: float, alpha: float, d: float, theta: float) -> np.ndarray:
    """Spong, Robot Modeling and Control, eq. 3.10, entry by entry."""
    ca, sa, ct, st = math.cos(alpha), math.sin(alpha), math.cos(theta), math.sin(theta)
    return np.array(
        [
            [ct, -st * ca, st * sa, a * ct],
            [st, ct * ca, -ct * sa, a * st],
            [0, sa, ca, d],
            [0, 0, 0, 1],
        ]
    )


MATRIX = {"craig": craig_matrix, "standard": standard_matrix}


def matrix(pose: Pose) -> np.ndarray:
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = pose.rotation, pose.translation
    return result


def turned(axis: np.ndarray, angle: float) -> np.ndarray:
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    result = np.eye(4)
    result[:3, :3] += math.sin(angle) * k + (1 - math.cos(angle)) * k @ k
    return result


def moved(joint, q: float) -> np.ndarray:
    if joint.kind == "revolute":
        return turned(joint.axis, q)
    result = np.eye(4)
    result[:3, 3] = q * joint.axis
    return result


def random_table(rng: np.random.Generator) -> list[dict]:
    rows = []
    for _ in range(rng.integers(1, 8)):
        spread = rng.normal(size=(3, 3))
        points = spread @ spread.T
        rows.append(
            {
                "a": rng.uniform(-1, 1),
                "alpha": rng.uniform(-3, 3),
                "d": rng.uniform(-1, 1),
                "theta": rng.uniform(-3, 3),
                "kind": str(rng.choice(["revolute", "prismatic"])),
                "mass": rng.uniform(0.1, 5),
                "com": rng.normal(size=3),
                "tensor": np.trace(points) * np.eye(3) - points,
            }
        )
    return rows


def table_text(rows: list[dict], convention: str) -> str:
    lines = ['[robot]\nname = "chain"', '[[body]]\nname = "base"\nmass = 3.0\ninertia = [1, 1, 1]']
    lines.append(
        f'[dh]\nconvention = "{convention}"\nbase = "base"\n'
        "origin = { xyz = [0.1, -0.2, 0.3], rpy = [0.2, 0.4, -0.7] }"
    )
    for index, row in enumerate(rows, 1):
        t = row["tensor"]
        moments = [float(v) for v in (t[0, 0], t[1, 1], t[2, 2], t[0, 1], t[0, 2], t[1, 2])]
        lines.append(f'[[dh.row]]\njoint = "j{index}"\nbody = "l{index}"\nkind = "{row["kind"]}"')
        lines.append("\n".join(f"{key} = {float(row[key])!r}" for key in ("a", "alpha", "d", "theta", "mass")))
        lines.append(f"com = {[float(v) for v in row['com']]}\ninertia = {moments}")
    last = f"l{len(rows)}"
    lines.append(f'[[frame]]\nname = "hand"\nbody = "{last}"\norigin = {{ xyz = [0.3, 0.2, 0.1] }}')
    lines.append(
        f'[[thruster]]\nname = "t"\nbody = "{last}"\nposition = [0.0, 0.5, 0.0]\ndirection = [1, 0, 0]\nforce = 2'
    )
    return "\n".join(lines)


@pytest.mark.parametrize("convention", ["craig", "standard"])
@pytest.mark.parametrize("seed", range(25))
def test_table_gives_the_product_of_its_matrices(convention, seed):
    rng = np.random.default_rng(seed)
    rows = random_table(rng)
    robot = robot_from_toml(table_text(rows, convention))
    q = rng.uniform(-2, 2, size=robot.n)

    reference = turned(np.array([0, 0, 1.0]), -0.7) @ turned(np.array([0, 1.0, 0]), 0.4)
    reference = reference @ turned(np.array([1.0, 0, 0]), 0.2)
    reference[:3, 3] = [0.1, -0.2, 0.3]
    ours = np.eye(4)
    for row, joint, body, value in zip(rows, robot.joints, robot.bodies[1:], q, strict=True):
        theta = row["theta"] + (value if row["kind"] == "revolute" else 0.0)
        d = row["d"] + (value if row["kind"] == "prismatic" else 0.0)
        before = reference
        reference = reference @ MATRIX[convention](row["a"], row["alpha"], d, theta)
        ours = ours @ matrix(joint.placement) @ moved(joint, value)
        # the joint axis: of this frame in Craig's convention, of the frame before in the standard one
        axis = (reference if convention == "craig" else before)[:3, 2]
        np.testing.assert_allclose(ours[:3, :3] @ joint.axis, axis, atol=1e-13)
        # centroid and inertia are given in the table's link frame
        com = reference[:3, :3] @ row["com"] + reference[:3, 3]
        np.testing.assert_allclose(ours[:3, :3] @ body.inertia.com + ours[:3, 3], com, atol=1e-12)
        tensor = reference[:3, :3] @ row["tensor"] @ reference[:3, :3].T
        np.testing.assert_allclose(ours[:3, :3] @ body.inertia.tensor @ ours[:3, :3].T, tensor, atol=1e-11)

    hand = ours @ matrix(robot.frame("hand").placement)
    np.testing.assert_allclose(hand[:3, 3], (reference @ [0.3, 0.2, 0.1, 1])[:3], atol=1e-12)
    np.testing.assert_allclose(hand[:3, :3], reference[:3, :3], atol=1e-12)
    thruster = robot.thruster("t")
    place = ours @ [*thruster.position, 1.0]
    np.testing.assert_allclose(place, reference @ [0.0, 0.5, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(ours[:3, :3] @ thruster.direction, reference[:3, 0], atol=1e-12)


def test_degrees_and_right_angles_are_exact():
    """cos(90 deg) is 0, not 6e-17, so a right-angled table gives right-angled placements."""
    links = dh_links([DhRow(alpha=math.radians(90), theta=math.radians(180), d=1.0)], "craig")
    assert links[0].placement == Pose(np.array([[-1, 0, 0], [0, 0, -1], [0, -1, 0]]), np.array([0, -1, 0]))


def test_joint_on_a_standard_link_is_placed_in_the_link_frame():
    text = table_text(random_table(np.random.default_rng(3)), "standard")
    robot = robot_from_toml(
        text + '\n[[body]]\nname = "tool"\nmass = 1\ninertia = [1, 1, 1]\n[[joint]]\nname = "grip"\nkind = "revolute"\n'
        f'parent = "{robot_from_toml(text).bodies[-1].name}"\nchild = "tool"\norigin = {{ xyz = [0.3, 0.2, 0.1] }}\n'
    )
    assert robot.joint("grip").placement == robot.frame("hand").placement


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("alpha = 90.0", "dh.row[0].alpha ('j1'): angle is 90 rad (for degrees use 'alpha_deg')"),
        ("theta = -180.0", "dh.row[0].theta ('j1'): angle is -180 rad (for degrees use 'theta_deg')"),
        (
            "alpha_degrees = 90.0",
            "dh.row[0].alpha_degrees ('j1'): unknown key 'alpha_degrees' (did you mean 'alpha_deg'?",
        ),
        ("alpha = 1.0\nalpha_deg = 90.0", "dh.row[0] ('j1'): both 'alpha' and 'alpha_deg' are given"),
        ('kind = "ball"', "dh.row[0].kind ('j1'): value is 'ball' (expected 'revolute' or 'prismatic'"),
    ],
)
def test_bad_row(line, note):
    text = '[robot]\nname = "r"\n[[body]]\nname = "b"\nmass = 1\ninertia = [1, 1, 1]\n[dh]\nconvention = "craig"\n'
    text += f'base = "b"\n[[dh.row]]\njoint = "j1"\nbody = "l1"\nmass = 1\ninertia = [1, 1, 1]\n{line}\n'
    with pytest.raises(ModelError) as caught:
        robot_from_toml(text)
    assert note in str(caught.value)


def test_unknown_convention_and_numbers_that_are_none():
    with pytest.raises(ModelError, match="convention is 'paul'"):
        dh_links([DhRow()], "paul")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="alpha is nan"):
        DhRow(alpha=math.nan)


def test_two_arms():
    """[[dh]] in double brackets: one table for each arm."""
    arm = '[[dh]]\nconvention = "craig"\nbase = "b"\norigin = {{ xyz = [{0}, 0, 0] }}\n'
    arm += '[[dh.row]]\njoint = "j{0}"\nbody = "l{0}"\nmass = 1\ninertia = [1, 1, 1]\nd = 0.5\n'
    text = '[robot]\nname = "r"\n[[body]]\nname = "b"\nmass = 1\ninertia = [1, 1, 1]\n' + arm.format(1) + arm.format(2)
    robot = robot_from_toml(text)
    assert [joint.parent for joint in robot.joints] == ["b", "b"]
    assert robot.joint("j2").placement.translation.tolist() == [2.0, 0.0, 0.5]
    with pytest.raises(ModelError) as caught:
        robot_from_toml(text.replace("d = 0.5", "alpha = 90", 2))
    for place in ("dh[0].row[0].alpha ('j1')", "dh[1].row[0].alpha ('j2')"):
        assert f"{place}: angle is 90 rad" in str(caught.value)
