"""Robot files: what the keys mean, writing that reads back equal, the documentation."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

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
    load,
    save,
    toml_schema,
)
from spacearm.model.base import BASE_DOFS
from spacearm.model.robot import BASE_POSITION, RATE_ENDING
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.toml_write import toml_text
from support import ROOT
from support.robot_files import ARM, BASE, ELBOW, SLIDE, fault


def elbow(lines: str) -> Joint:
    return robot_from_toml(BASE + ARM + ELBOW + lines).joint("elbow")


def test_smallest_file():
    robot = robot_from_toml(BASE)
    assert robot == Robot("r", (Body("base", Inertia(10.0, np.zeros(3), np.eye(3))),))


def test_every_joint_key():
    joint = elbow(
        """
        axis = [0, 1, 0]
        origin = { xyz = [1, 2, 3], rpy_deg = [90, 0, 0] }
        spring = { stiffness = 5, rest_deg = 180 }
        damping = 0.25
        friction = { static = 4, coulomb = 2 }
        limits = { lower_deg = -90, upper = 2, velocity_deg = 180, effort = 7 }
        rotor = { inertia = 1e-4, ratio = 100 }
        """
    )
    assert joint == Joint(
        "elbow",
        "revolute",
        "base",
        "arm",
        Pose(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), np.array([1, 2, 3])),
        np.array([0, 1, 0]),
        Spring(5, math.pi),
        0.25,
        Friction(4, 2),
        Limits(-math.pi / 2, 2, math.pi, 7),
        Rotor(1e-4, 100),
    )


def test_defaults():
    joint = elbow("")
    assert joint == Joint("elbow", "revolute", "base", "arm", Pose(), np.array([0, 0, 1]))
    assert elbow("friction = { coulomb = 2 }").friction == Friction(2, 2)
    assert elbow("limits = { upper = inf, velocity = 3 }").limits == Limits(velocity=3)


@pytest.mark.parametrize(
    ("key", "rotation"),
    [
        ("rpy = [0.1, 0.2, 0.3]", rotation_from_rpy([0.1, 0.2, 0.3])),
        ("rpy_deg = [0, 0, 90]", [[0, -1, 0], [1, 0, 0], [0, 0, 1]]),
        ("quaternion = [0.6, 0.8, 0, 0]", rotation_from_quaternion([0.6, 0.8, 0, 0])),
        ("rotation = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]", [[0, 0, 1], [1, 0, 0], [0, 1, 0]]),
    ],
)
def test_forms_of_a_rotation(key, rotation):
    assert np.array_equal(elbow(f"origin = {{ {key} }}").placement.rotation, rotation)


def test_products_of_inertia_are_tensor_entries_in_the_order_xy_xz_yz():
    robot = robot_from_toml(BASE.replace("[1, 1, 1]", "[3, 4, 5, 0.1, 0.2, 0.3]"))
    assert robot.bodies[0].inertia.tensor.tolist() == [[3, 0.1, 0.2], [0.1, 4, 0.3], [0.2, 0.3, 5]]


def test_inertia_about_the_origin():
    """A point mass of 2 kg at (0.5, 0, 0) and a ball of 0.1 kg m2: about the origin, 0.5 kg m2 more across x."""
    text = BASE + ARM.replace("[0.1, 0.2, 0.2]", '[0.1, 0.6, 0.6]\ninertia_about = "origin"') + ELBOW
    np.testing.assert_allclose(robot_from_toml(text).body("arm").inertia.tensor, 0.1 * np.eye(3), atol=1e-16)


def test_inertia_axes():
    """Turned by 90 deg about z, what is along x in the inertia's axes lies along y in the body's."""
    text = BASE + ARM + "inertia_axes = { rpy_deg = [0, 0, 90] }\n" + ELBOW
    body = robot_from_toml(text).body("arm")
    assert np.array_equal(body.inertia.tensor, np.diag([0.2, 0.1, 0.2]))
    assert body.inertia.com.tolist() == [0.5, 0, 0]
    about = text.replace("[0.1, 0.2, 0.2]", '[0.1, 0.7, 0.6]\ninertia_about = "origin"')
    # about the origin, body axes: diag(0.7, 0.1, 0.6); less 2 kg at 0.5 m along x that leaves a moment below zero
    assert "negative principal moment -0.4" in fault(about)


def test_transmission_becomes_motor_massless_body_and_coupling():
    robot = robot_from_toml(
        BASE
        + ARM
        + ELBOW
        + "origin = { xyz = [1, 0, 0] }\ndamping = 0.5\nrotor = { inertia = 1e-4, ratio = 100 }\n"
        + "transmission = { stiffness = 5, damping = 0.4, rest = 0.1, motor_damping = 0.2,"
        + " motor_friction = { coulomb = 1 } }\n"
        + "[configurations]\nbent = [0.3]\ntwisted = [0.3, 0.2]\n"
    )
    motor = Joint(
        "elbow.motor",
        "revolute",
        "base",
        "elbow.motor",
        Pose(np.eye(3), np.array([1, 0, 0])),
        damping=0.2,
        friction=Friction(1, 1),
        rotor=Rotor(1e-4, 100),
    )
    assert robot.joint_names == ("elbow", "elbow.motor")
    assert robot.joint("elbow.motor") == motor
    assert robot.joint("elbow").rotor is None
    assert robot.joint("elbow").damping == 0.5
    assert robot.body("elbow.motor").inertia == Inertia.massless()
    assert robot.couplings == (Coupling("elbow.transmission", "elbow", "elbow.motor", 5, 0.4, 1, 0.1),)
    assert robot.configuration("bent").tolist() == [0.3, 0.3]
    assert robot.configuration("twisted").tolist() == [0.3, 0.2]


def test_order_in_the_file_does_not_matter_and_configurations_follow_the_file():
    wrist = ELBOW.replace('"elbow"', '"wrist"').replace('"base"', '"arm"').replace('child = "arm"', 'child = "hand"')
    hand = ARM.replace('"arm"', '"hand"')
    robot = robot_from_toml(wrist + hand + ELBOW + ARM + BASE + "[configurations_deg]\nbent = [90, 180]\n")
    assert robot.joint_names == ("elbow", "wrist")
    assert robot.configuration("bent").tolist() == [math.pi, math.pi / 2]


def test_frame_thruster_coupling_configuration():
    robot = robot_from_toml(
        BASE
        + ARM
        + SLIDE
        + '[[frame]]\nname = "eye"\nbody = "arm"\norigin = { xyz = [0, 0, 1] }\n'
        + '[[thruster]]\nname = "t"\nbody = "base"\nposition = [1, 0, 0]\ndirection = [0, 0, 1]\nforce = 2\n'
        + '[[body]]\nname = "end"\nmass = 1\ninertia = [1, 1, 1]\n'
        + '[[joint]]\nname = "turn"\nkind = "revolute"\nparent = "arm"\nchild = "end"\n'
        + '[[coupling]]\nname = "c"\nfirst = "turn"\nsecond = "elbow"\nstiffness = 3\nratio = 2\nrest_deg = 180\n'
        + "[configurations_deg]\nout = [0.5, 90]\n[provenance]\nmass = { source = 'scale', day = 2024-05-01 }\n"
    )
    assert robot.frame("eye") == Frame("eye", "arm", Pose(np.eye(3), np.array([0, 0, 1])))
    assert robot.thruster("t") == Thruster("t", "base", np.array([1, 0, 0]), np.array([0, 0, 1]), 2)
    assert robot.couplings == (Coupling("c", "turn", "elbow", 3, 0, 2, math.pi),)
    assert robot.configuration("out").tolist() == [0.5, math.pi / 2]  # a slide's position stays in m


number = st.floats(-1e6, 1e6)

positive = st.floats(1e-9, 1e6)

# Hypothesis tries words that it finds in the source: those that mean something else are no names.
names = st.text(min_size=1, max_size=8).filter(
    lambda t: (
        t == t.strip()
        and t.isprintable()
        and t != "zero"
        and t not in (*BASE_DOFS, *BASE_POSITION)
        and not t.endswith(RATE_ENDING)
    )
)


@st.composite
def vectors(draw):
    return np.array([draw(number) for _ in range(3)])


@st.composite
def directions(draw):
    exact = st.sampled_from([[1.0, 0, 0], [0, -1.0, 0], [0, 0, 1.0], [0.6, 0, 0.8]])
    skew = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1)
    v = np.array(draw(st.one_of(exact, skew)))
    return v / np.linalg.norm(v)


@st.composite
def poses(draw):
    degrees = st.lists(st.integers(-180, 180), min_size=3, max_size=3).map(lambda d: rotation_from_rpy(np.deg2rad(d)))
    quaternions = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda v: np.linalg.norm(v) > 0.1)
    rotation = draw(st.one_of(st.just(np.eye(3)), degrees, quaternions.map(rotation_from_quaternion)))
    return Pose(rotation, draw(vectors()))


@st.composite
def inertias(draw):
    points = np.array([draw(vectors()) for _ in range(4)]) * 1e-3
    spread = points.T @ points
    tensor = np.trace(spread) * np.eye(3) - spread + 1e-6 * np.eye(3)
    return Inertia(draw(positive), draw(vectors()), 0.5 * (tensor + tensor.T))


@st.composite
def joints(draw, name, parent, child):
    kind = draw(st.sampled_from(["revolute", "prismatic"]))
    coulomb = draw(st.floats(0, 100))
    optional = lambda strategy: draw(st.one_of(st.none(), strategy))  # noqa: E731
    lower = draw(st.floats(-12, 12))
    return Joint(
        name,
        kind,
        parent,
        child,
        draw(poses()),
        draw(directions()),
        optional(st.builds(Spring, st.floats(0, 1e6), st.floats(-10, 10))),
        draw(st.floats(0, 1e3)),
        optional(st.builds(Friction, st.floats(coulomb, 200), st.just(coulomb))),
        draw(st.one_of(st.just(Limits()), st.builds(Limits, st.just(lower), st.floats(lower, 12), positive, positive))),
        optional(st.builds(Rotor, positive, positive)) if kind == "revolute" else None,
    )


@st.composite
def robots(draw):
    n = draw(st.integers(0, 5))
    part = draw(st.lists(names, min_size=3 * n + 6, max_size=3 * n + 6, unique=True))
    take = iter(part)
    title = next(take)
    bodies = [Body(next(take), draw(inertias())) for _ in range(n + 1)]
    chain = [draw(joints(next(take), bodies[draw(st.integers(0, i))].name, bodies[i + 1].name)) for i in range(n)]
    frames = [Frame(next(take), bodies[-1].name, draw(poses()))] if draw(st.booleans()) else []
    thrusters = [Thruster(next(take), bodies[0].name, draw(vectors()), draw(directions()), draw(positive))]
    couplings = []
    if n > 1:
        couplings = [
            Coupling(
                next(take), chain[0].name, chain[1].name, draw(positive), 0.5, draw(number), draw(st.floats(-9, 9))
            )
        ]
    configurations = {next(take): [draw(st.floats(-10, 10)) for _ in range(n)]}
    return Robot(title, bodies, chain, frames, thrusters, couplings, configurations)


@settings(max_examples=150)
@given(robots())
def test_what_is_written_reads_back_equal(robot):
    text = toml_text(robot, ["a comment"])
    again = robot_from_toml(text)
    assert again == robot
    assert hash(again) == hash(robot)
    assert toml_text(again, ["a comment"]) == text


@pytest.mark.parametrize("name", catalogue.names())
def test_catalogue_reads_back_equal(name, tmp_path):
    robot = catalogue.load(name)
    assert load(save(robot, tmp_path / "robot.toml")) == robot


def test_rotations_are_written_readably_where_that_is_exact():
    text = toml_text(robot_from_toml(BASE + ARM + ELBOW + "origin = { rpy_deg = [90, 0, -45] }"))
    assert "origin = { rpy_deg = [90.0, 0.0, -45.0] }" in text
    assert "rotation" not in text


PAGE = (ROOT / "docs" / "robot-file.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
def test_examples_of_the_documentation_are_sound(block):
    robot = robot_from_toml(block)
    assert robot.n >= 2


def test_documentation_names_every_key():
    tables = [item for item in vars(toml_schema).values() if isinstance(item, type) and issubclass(item, BaseModel)]
    known = {key for table in tables for key in table.model_fields}
    assert {"mass", "rest_deg", "motor_friction", "convention", "quaternion", "velocity_deg"} <= known
    assert [key for key in sorted(known) if not re.search(rf"[`.\[]{key}[`\]]", PAGE)] == []


def test_documentation_names_every_catalogue_entry():
    assert [name for name in catalogue.names() if f"`{name}`" not in PAGE] == []
