"""Robot files: what the keys mean, every fault with its place and remedy, writing that reads back equal."""

from __future__ import annotations

import math
import os
import re
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

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
    load,
    save,
    toml_schema,
)
from spacearm.model.files import file_format, robot_text
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy
from spacearm.model.toml import UnitWarning, robot_from_toml, toml_text

BASE = '[robot]\nname = "r"\n[[body]]\nname = "base"\nmass = 10\ninertia = [1, 1, 1]\n'
ARM = '[[body]]\nname = "arm"\nmass = 2\ncom = [0.5, 0, 0]\ninertia = [0.1, 0.2, 0.2]\n'
ELBOW = '[[joint]]\nname = "elbow"\nkind = "revolute"\nparent = "base"\nchild = "arm"\n'
SLIDE = ELBOW.replace("revolute", "prismatic")


def elbow(lines: str) -> Joint:
    return robot_from_toml(BASE + ARM + ELBOW + lines).joint("elbow")


def fault(text: str) -> str:
    with pytest.raises(ModelError) as caught:
        robot_from_toml(text)
    return str(caught.value)


# -- what the keys mean ---------------------------------------------------------------------------------------------


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
        + "[postures]\nbent = [0.3]\ntwisted = [0.3, 0.2]\n"
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
    assert robot.posture("bent").tolist() == [0.3, 0.3]
    assert robot.posture("twisted").tolist() == [0.3, 0.2]


def test_order_in_the_file_does_not_matter_and_postures_follow_the_file():
    wrist = ELBOW.replace('"elbow"', '"wrist"').replace('"base"', '"arm"').replace('child = "arm"', 'child = "hand"')
    hand = ARM.replace('"arm"', '"hand"')
    robot = robot_from_toml(wrist + hand + ELBOW + ARM + BASE + "[postures_deg]\nbent = [90, 180]\n")
    assert robot.joint_names == ("elbow", "wrist")
    assert robot.posture("bent").tolist() == [math.pi, math.pi / 2]


def test_frame_thruster_coupling_posture():
    robot = robot_from_toml(
        BASE
        + ARM
        + SLIDE
        + '[[frame]]\nname = "eye"\nbody = "arm"\norigin = { xyz = [0, 0, 1] }\n'
        + '[[thruster]]\nname = "t"\nbody = "base"\nposition = [1, 0, 0]\ndirection = [0, 0, 1]\nforce = 2\n'
        + '[[body]]\nname = "end"\nmass = 1\ninertia = [1, 1, 1]\n'
        + '[[joint]]\nname = "turn"\nkind = "revolute"\nparent = "arm"\nchild = "end"\n'
        + '[[coupling]]\nname = "c"\nfirst = "turn"\nsecond = "elbow"\nstiffness = 3\nratio = 2\nrest_deg = 180\n'
        + "[postures_deg]\nout = [0.5, 90]\n[provenance]\nmass = { source = 'scale', day = 2024-05-01 }\n"
    )
    assert robot.frame("eye") == Frame("eye", "arm", Pose(np.eye(3), np.array([0, 0, 1])))
    assert robot.thruster("t") == Thruster("t", "base", np.array([1, 0, 0]), np.array([0, 0, 1]), 2)
    assert robot.couplings == (Coupling("c", "turn", "elbow", 3, 0, 2, math.pi),)
    assert robot.posture("out").tolist() == [0.5, math.pi / 2]  # a slide's position stays in m


# -- every fault with its place -------------------------------------------------------------------------------------

FAULTS = {
    "syntax": ("[robot\n", "line 1, column 7: is not TOML"),
    "syntax, later line": (BASE + "mass =\n", "line 7, column 7: is not TOML: Invalid value"),
    "key twice": (BASE + "mass = 1\n", "is not TOML: Cannot overwrite a value"),
    "empty": ("", "file is empty"),
    "blank": ("  \n\t\n", "file is empty"),
    "only a comment": ("# robot\n", "robot: 'robot' is missing"),
    "nested too deeply": ("a = " + "[" * 100_000, "is not TOML: nested too deeply"),
    "huge integer": (BASE.replace("mass = 10", "mass = 1" + "0" * 400), "body[0].mass ('base'): number is too large"),
    "unreadable integer": (BASE.replace("mass = 10", "mass = 1" + "0" * 5000), "is not TOML: "),
    "no body": ('[robot]\nname = "r"\n', "body: 'body' is missing"),
    "empty body list": ('body = []\n[robot]\nname = "r"\n', "body: there is no 'body' (expected at least one)"),
    "single brackets": (
        '[robot]\nname = "r"\n[body]\nname = "b"\n',
        "body: {'name': 'b'} is not a list (expected [[body]] in double brackets)",
    ),
    "unknown table": (BASE + "[[jiont]]\n", "jiont: unknown key 'jiont' (did you mean 'joint'?)"),
    "unknown key": (BASE + "mas = 1\n", "body[0].mas ('base'): unknown key 'mas' (did you mean 'mass'?)"),
    "unknown key of a joint": (
        BASE + ARM + ELBOW + "axsi = [1, 0, 0]\n",
        "joint[0].axsi ('elbow'): unknown key 'axsi' (did you mean 'axis'?)",
    ),
    "unknown key within": (
        BASE + ARM + ELBOW + "origin = { xyx = [1, 0, 0] }\n",
        "joint[0].origin.xyx ('elbow'): unknown key 'xyx' (did you mean 'xyz'?)",
    ),
    "unit in a key": (
        BASE.replace("mass = 10", "mass_g = 10"),
        "body[0].mass_g ('base'): unknown key 'mass_g' (did you mean 'mass'? values are in SI units",
    ),
    "unit of an angle": (
        BASE + ARM + ELBOW + "spring = { stiffness = 1, rest_degrees = 3 }\n",
        "joint[0].spring.rest_degrees ('elbow'): unknown key 'rest_degrees' (did you mean 'rest_deg'?)",
    ),
    "missing key": (BASE.replace("mass = 10\n", ""), "body[0].mass ('base'): 'mass' is missing"),
    "missing inertia": (
        BASE.replace("inertia = [1, 1, 1]\n", ""),
        "body[0] ('base'): 'inertia' is missing (give [Ixx, Iyy, Izz]; [0, 0, 0] is a point mass)",
    ),
    "text for a number": (
        BASE.replace("mass = 10", 'mass = "10"'),
        "body[0].mass ('base'): '10' is not a number (expected a number without quotes)",
    ),
    "boolean for a number": (BASE.replace("mass = 10", "mass = true"), "body[0].mass ('base'): True is not a number"),
    "date for a number": (BASE.replace("mass = 10", "mass = 2024-01-01"), "is not a number"),
    "number for text": (BASE.replace('"base"', "3"), "body[0].name: 3 is not text (expected text in quotes)"),
    "number for a table": (
        BASE + ARM + ELBOW + "origin = 3\n",
        "joint[0].origin ('elbow'): 3 is not a table (expected { key = value, ... })",
    ),
    "number for a list": (
        BASE + ARM + ELBOW + "axis = 3\n",
        "joint[0].axis ('elbow'): 3 is not a list (expected 3 numbers in brackets)",
    ),
    "wrong length": (
        BASE + ARM + ELBOW + "axis = [1, 0]\n",
        "joint[0].axis ('elbow'): list has length 2 (expected 3 numbers in brackets)",
    ),
    "wrong length of moments": (
        BASE.replace("[1, 1, 1]", "[1, 1, 1, 0]"),
        "body[0].inertia ('base'): list has length 4 (expected 3 or 6 numbers in brackets)",
    ),
    "wrong number of rows": (
        BASE + ARM + ELBOW + "origin = { rotation = [[1, 0, 0]] }\n",
        "joint[0].origin.rotation ('elbow'): list has length 1 (expected 3 rows in brackets)",
    ),
    "text in a list": (
        BASE + ARM + ELBOW + 'axis = [1, "0", 0]\n',
        "joint[0].axis[1] ('elbow'): '0' is not a number",
    ),
    "nan": (BASE.replace("mass = 10", "mass = nan"), "body[0].mass ('base'): value is nan (expected a number)"),
    "inf": (BASE.replace("mass = 10", "mass = inf"), "body[0].mass ('base'): value is inf (expected a finite number)"),
    "nan in a list": (BASE.replace("[1, 1, 1]", "[1, nan, 1]"), "body[0].inertia[1] ('base'): value is nan"),
    "nan in a posture": (BASE + ARM + ELBOW + "[postures]\nx = [nan]\n", "postures.x[0]: value is nan"),
    "nan limit": (BASE + ARM + ELBOW + "limits = { upper = nan }\n", "joint[0].limits.upper ('elbow'): value is nan"),
    "limit at the wrong end": (
        BASE + ARM + ELBOW + "limits = { upper = -inf }\n",
        "joint[0].limits ('elbow'): upper limit is -inf",
    ),
    "negative mass": (
        BASE.replace("mass = 10", "mass = -10"),
        "body[0].mass ('base'): mass is -10 (expected at least 0)",
    ),
    "massless base": (BASE.replace("mass = 10\ninertia = [1, 1, 1]", "mass = 0"), "body 'base': the base has no mass"),
    "mass zero, inertia not": (
        BASE + ARM.replace("mass = 2", "mass = 0") + ELBOW,
        "body[1].inertia ('arm'): mass is zero but the inertia is not",
    ),
    "triangle inequality": (
        BASE.replace("[1, 1, 1]", "[1, 1, 3]"),
        "body[0].inertia ('base'): inertia breaks the triangle inequality: 1 + 1 < 3 kg m2",
    ),
    "negative moment": (BASE.replace("[1, 1, 1]", "[1, 1, -1]"), "inertia has a negative principal moment -1 kg m2"),
    "axis not of length 1": (
        BASE + ARM + ELBOW + "axis = [1, 1, 0]\n",
        "joint[0].axis ('elbow'): axis has length 1.41421 (expected a unit vector)",
    ),
    "zero axis": (BASE + ARM + ELBOW + "axis = [0, 0, 0]\n", "joint[0].axis ('elbow'): axis has length 0"),
    "thruster's direction": (
        BASE + '[[thruster]]\nname = "t"\nbody = "base"\nposition = [0, 0, 0]\ndirection = [2, 0, 0]\nforce = 1\n',
        "thruster[0].direction ('t'): direction has length 2",
    ),
    "no rotation": (
        BASE + ARM + ELBOW + "origin = { rotation = [[1, 0, 0], [0, 1, 0], [0, 0, 2]] }\n",
        "joint[0].origin.rotation ('elbow'): rotation is not a rotation matrix",
    ),
    "reflection": (
        BASE + ARM + ELBOW + "origin = { rotation = [[1, 0, 0], [0, 1, 0], [0, 0, -1]] }\n",
        "joint[0].origin.rotation ('elbow'): rotation is not a rotation matrix",
    ),
    "rotation near overflow": (
        BASE + ARM + ELBOW + "origin = { rotation = [[1e200, -1e200, 0], [1e200, 1e200, 0], [0, 0, 1]] }\n",
        "joint[0].origin.rotation ('elbow'): rotation holds 1e+200 (expected at most 1e+30",
    ),
    "quaternion": (
        BASE + ARM + ELBOW + "origin = { quaternion = [1, 1, 0, 0] }\n",
        "joint[0].origin.quaternion ('elbow'): quaternion has length 1.41421",
    ),
    "two forms of a rotation": (
        BASE + ARM + ELBOW + "origin = { rpy = [0, 0, 1], rpy_deg = [0, 0, 90] }\n",
        "joint[0].origin ('elbow'): both 'rpy' and 'rpy_deg' are given (expected one of them)",
    ),
    "two forms of an angle": (
        BASE + ARM + ELBOW + "limits = { lower = -1, lower_deg = -90 }\n",
        "joint[0].limits ('elbow'): both 'lower' and 'lower_deg' are given",
    ),
    "degrees as rpy": (
        BASE + ARM + ELBOW + "origin = { rpy = [0, 0, 90] }\n",
        "joint[0].origin.rpy ('elbow'): angle is 90 rad (for degrees use 'rpy_deg')",
    ),
    "degrees of a slide": (
        BASE + ARM + SLIDE + "limits = { lower_deg = -90 }\n",
        "joint[0].limits ('elbow'): 'lower_deg' is given for a prismatic joint (use 'lower', in m)",
    ),
    "degrees of a slide's spring": (
        BASE + ARM + SLIDE + "spring = { stiffness = 1, rest_deg = 3 }\n",
        "joint[0].spring ('elbow'): 'rest_deg' is given for a prismatic joint (use 'rest', in m)",
    ),
    "limits crossed": (
        BASE + ARM + ELBOW + "limits = { lower = 1, upper = -1 }\n",
        "joint[0].limits ('elbow'): lower limit 1 is above upper limit -1",
    ),
    "negative effort": (
        BASE + ARM + ELBOW + "limits = { effort = -1 }\n",
        "joint[0].limits ('elbow'): effort limit is -1 (expected at least 0)",
    ),
    "negative stiffness": (
        BASE + ARM + ELBOW + "spring = { stiffness = -1 }\n",
        "joint[0].spring ('elbow'): stiffness is -1 (expected at least 0)",
    ),
    "negative damping": (BASE + ARM + ELBOW + "damping = -1\n", "joint[0] ('elbow'): damping is -1"),
    "static below coulomb": (
        BASE + ARM + ELBOW + "friction = { static = 1, coulomb = 2 }\n",
        "joint[0].friction ('elbow'): static friction 1 is below Coulomb friction 2",
    ),
    "rotor of no inertia": (
        BASE + ARM + ELBOW + "rotor = { inertia = 0 }\n",
        "joint[0].rotor ('elbow'): rotor inertia is 0 (expected more than 0)",
    ),
    "rotor of a slide": (
        BASE + ARM + SLIDE + "rotor = { inertia = 1 }\n",
        "joint[0] ('elbow'): a prismatic joint cannot carry a rotor",
    ),
    "transmission without rotor": (
        BASE + ARM + ELBOW + "transmission = { stiffness = 1 }\n",
        "joint[0].transmission ('elbow'): a transmission needs a rotor",
    ),
    "kind": (
        BASE + ARM + ELBOW.replace("revolute", "hinge"),
        "joint[0].kind ('elbow'): value is 'hinge' (expected 'revolute' or 'prismatic'",
    ),
    "unknown parent": (
        BASE + ARM + ELBOW.replace('"base"', '"bace"'),
        "joint 'elbow': there is no body 'bace' (did you mean 'base'?)",
    ),
    "body twice": (BASE + ARM + ARM + ELBOW, "body[1] and body[2]: two are called 'arm'"),
    "joint twice": (BASE + ARM + ELBOW + ELBOW, "joint[0] and joint[1]: two are called 'elbow'"),
    "carried twice": (
        BASE + ARM + ELBOW + ELBOW.replace('"elbow"', '"other"'),
        "joint 'other': body 'arm' is already carried by joint 'elbow'",
    ),
    "cycle": (
        BASE
        + ARM
        + ELBOW
        + ELBOW.replace('"elbow"', '"o"').replace('"base"', '"arm"').replace('child = "arm"', 'child = "base"'),
        "joint 'elbow': the joints form a cycle",
    ),
    "disconnected": (BASE + ARM, "the tree is disconnected: 'base', 'arm' are carried by no joint"),
    "massless end": (
        BASE + '[[body]]\nname = "arm"\nmass = 0\n' + ELBOW,
        "joint 'elbow': body 'arm' and all beyond it are massless",
    ),
    "frame on nothing": (
        BASE + '[[frame]]\nname = "f"\nbody = "bse"\n',
        "frame 'f': there is no body 'bse' (did you mean 'base'?)",
    ),
    "body of a row named as another": (
        BASE
        + '[dh]\nconvention = "craig"\nbase = "base"\n'
        + '[[dh.row]]\njoint = "j"\nbody = "base"\nmass = 1\ninertia = [1, 1, 1]',
        "body[0] and dh.row[0]: two are called 'base'",
    ),
    "motor named as another joint": (
        BASE
        + ARM
        + ARM.replace("arm", "hand")
        + ELBOW
        + "rotor = { inertia = 1 }\ntransmission = { stiffness = 1 }\n"
        + ELBOW.replace("elbow", "elbow.motor").replace("arm", "hand"),
        "joint[0].transmission and joint[1]: two are called 'elbow.motor'",
    ),
    "joint named as a rate": (
        BASE + ARM + ELBOW.replace("elbow", "elbow.rate"),
        "joint[0] ('elbow.rate'): a name that ends in '.rate'",
    ),
    "another zero": (BASE + ARM + ELBOW + "[postures]\nzero = [1]\n", "posture 'zero': this name belongs"),
    "frame named as a body": (
        BASE + '[[frame]]\nname = "base"\nbody = "base"\n',
        "body[0] and frame[0]: two are called 'base'",
    ),
    "coupling of nothing": (
        BASE + ARM + ELBOW + '[[coupling]]\nname = "c"\nfirst = "elbow"\nsecond = "elbw"\nstiffness = 1\n',
        "coupling 'c': there is no joint 'elbw' (did you mean 'elbow'?)",
    ),
    "coupling with itself": (
        BASE + ARM + ELBOW + '[[coupling]]\nname = "c"\nfirst = "elbow"\nsecond = "elbow"\nstiffness = 1\n',
        "coupling[0] ('c'): couples joint 'elbow' with itself",
    ),
    "posture's length": (
        BASE + ARM + ELBOW + "[postures]\nbent = [1, 2]\n",
        "postures.bent: list has length 2 (expected 1 numbers, one for each joint)",
    ),
    "posture twice": (
        BASE + ARM + ELBOW + "[postures]\nbent = [1]\n[postures_deg]\nbent = [90]\n",
        "postures_deg.bent: this posture is given twice",
    ),
    "name with blanks": (BASE.replace('"base"', '" base"'), "body: ' base' is not a name"),
    "name that cannot be printed": (BASE.replace('"base"', '"a\\u0007"'), "is not a name"),
    "robot's name": (BASE.replace('name = "r"', 'name = ""'), "robot: '' is not a name"),
    "joint named as a base dof": (
        BASE + ARM + ELBOW.replace('"elbow"', '"base_vx"'),
        "joint[0] ('base_vx'): this name belongs to the base's own degrees of freedom",
    ),
    "other base": (
        BASE.replace('name = "r"', 'name = "r"\nbase = "arm"') + ARM + ELBOW,
        "robot.base: base is 'arm', but the tree stands on 'base'",
    ),
    "too many joints": (
        "\n".join(["joint = [", *['{name="a",kind="revolute",parent="b",child="c"},'] * 2001, "]", BASE]),
        "joint: there are 2001 joints (expected at most 2000)",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault(case):
    text, said = FAULTS[case]
    assert said in fault(text)


def test_several_faults_are_counted():
    assert fault(BASE.replace("mass = 10", 'mas = "1"\ncmo = 3')).endswith("2 more after this)")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("limits = { lower = -180, upper = 1 }", "joint[0].limits.lower ('elbow'): angle is -180 rad"),
        ("spring = { stiffness = 1, rest = 90 }", "(for degrees use 'rest_deg')"),
        ("[postures]\nbent = [90]", "postures.bent: angle is 90 rad (for degrees use 'postures_deg')"),
    ],
)
def test_angles_that_look_like_degrees(lines, said):
    with pytest.warns(UnitWarning) as caught:
        robot_from_toml(BASE + ARM + ELBOW + lines)
    assert said in str(caught[0].message)


def test_long_slides_and_fast_joints_are_not_doubted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot_from_toml(BASE + ARM + SLIDE + "limits = { lower = -180, upper = 90 }\n[postures]\nout = [50]\n")
        elbow("limits = { velocity = 100 }")


# -- files ----------------------------------------------------------------------------------------------------------


def test_file_and_place_are_named(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(BASE.replace("mass = 10", "mass = -1"))
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: body[0].mass ('base'): mass is -1 (expected at least 0)"
    assert caught.value.file == path


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load(path) == robot_from_toml(BASE)


def _make(path, kind):
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "not UTF-8":
        path.write_bytes(b'[robot]\nname = "\xff"\n')
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(17 * 2**20)
    elif kind == "empty":
        path.touch()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("missing", "there is no such file"),
        ("folder", "is a folder"),
        ("pipe", "is not a plain file"),
        ("not UTF-8", "byte 16 is not UTF-8 text"),
        ("binary", "byte 128 is not UTF-8 text"),
        ("huge", "is larger than 16 MB"),
        ("empty", "file is empty"),
    ],
)
def test_files_that_are_none(tmp_path, kind, said):
    path = tmp_path / "robot.toml"
    _make(path, kind)
    with pytest.raises(ModelError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("path", ["a\0b.toml", "a" * 5000 + ".toml", "tests/test_toml.py/robot.toml"])
def test_names_that_no_file_can_have(path):
    with pytest.raises(ModelError):
        load(path)


def test_unreadable_file(tmp_path, monkeypatch):
    path = tmp_path / "robot.toml"
    path.write_text(BASE)

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(ModelError, match="cannot be read: Permission denied"):
        load(path)


@pytest.mark.parametrize("name", ["robot.yaml", "robot", "robot.toml.bak"])
def test_unknown_ending(tmp_path, name):
    with pytest.raises(ModelError, match=r"\.toml, \.urdf, \.xml, \.mjcf"):
        load(tmp_path / name)
    with pytest.raises(ModelError):
        save(robot_from_toml(BASE), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_endings():
    assert [file_format(f"a{e}") for e in (".toml", ".TOML", ".urdf", ".xml", ".mjcf")] == [
        "toml",
        "toml",
        "urdf",
        "mjcf",
        "mjcf",
    ]
    with pytest.raises(InputError, match="there is no format 'yaml'"):
        robot_text(robot_from_toml(BASE), "yaml")


def test_save_replaces_whole_files_and_keeps_their_permissions(tmp_path):
    path = tmp_path / "r.toml"
    robot = robot_from_toml(BASE)
    assert save(robot, path) == path
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask
    path.chmod(0o640)
    save(robot, path, comments=["second"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text().startswith("# second\n")
    assert load(path) == robot
    assert list(tmp_path.iterdir()) == [path]


def test_failed_save_leaves_everything_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "r.toml"
    path.write_text("precious")
    robot = robot_from_toml(BASE)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        save(robot, path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]
    monkeypatch.undo()
    with pytest.raises(InputError, match="cannot be written"):
        save(robot, tmp_path / "nowhere" / "r.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        save(robot, tmp_path / "folder.toml")


def test_comments_cannot_break_the_file():
    robot = robot_from_toml(BASE)
    text = toml_text(robot, ["identified from run 3", "mass = 7\n[robot]\r\nname = 'x'", "bell \a, nul \0, tab \t", ""])
    assert robot_from_toml(text) == robot
    assert text.startswith("# identified from run 3\n# mass = 7\n# [robot]\n# name = 'x'\n# bell \\x07, nul \\x00, tab")


@pytest.mark.filterwarnings("ignore::spacearm.model.lossy.LossyConversion")
@pytest.mark.parametrize("ending", ["urdf", "xml"])
def test_comments_of_xml_files(tmp_path, ending):
    robot = catalogue.load("xu2017")
    comments = ["--> <robot/> <!-- a ---- b -", "\a\0 second & third"]
    plain = load(save(robot, tmp_path / f"plain.{ending}"))
    path = save(robot, tmp_path / f"told.{ending}", comments=comments)
    assert load(path) == plain
    assert "second & third" in path.read_text(encoding="utf-8")


# -- writing reads back equal ---------------------------------------------------------------------------------------

number = st.floats(-1e6, 1e6)
positive = st.floats(1e-9, 1e6)
names = st.text(min_size=1, max_size=8).filter(
    lambda t: t == t.strip() and t.isprintable() and not t.startswith("base_") and t != "zero"
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
    postures = {next(take): [draw(st.floats(-10, 10)) for _ in range(n)]}
    return Robot(title, bodies, chain, frames, thrusters, couplings, postures)


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


# -- the documentation ----------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parent.parent / "docs" / "robot-file.md").read_text(encoding="utf-8")


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


def test_a_whole_file_in_place_of_its_path_is_told_in_one_short_line():
    text = (BASE + ARM + ELBOW) * 50
    for name in (text, text + ".toml", "x" * 5000 + ".toml", "x" * 5000 + ".urdf", "x" * 5000 + ".xml"):
        with pytest.raises(InputError) as caught:
            load(name)
        assert len(str(caught.value)) < 300
        assert "\n" not in str(caught.value)
