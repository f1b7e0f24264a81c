"""Robot files: every fault with its place and remedy."""

from __future__ import annotations

import tracemalloc
import warnings

import pytest

from spacearm import Robot
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.toml_values import UnitWarning
from support.robot_files import ARM, BASE, ELBOW, SLIDE, fault

FAULTS = {
    "syntax": ("[robot\n", "line 1, column 7: is not TOML"),
    "syntax, later line": (BASE + "mass =\n", "line 7, column 7: is not TOML: Invalid value"),
    "key twice": (BASE + "mass = 1\n", "is not TOML: Cannot overwrite a value"),
    "empty": ("", "file is empty"),
    "blank": ("  \n\t\n", "file is empty"),
    "only a comment": ("# robot\n", "robot: 'robot' is missing"),
    "nested too deeply": ("a = " + "[" * 100_000, "is not TOML: nested too deeply"),
    "huge integer": (BASE.replace("mass = 10", "mass = 1" + "0" * 400), "body[0].mass ('base'): number is too large"),
    "unreadable integer": (BASE.replace("mass = 10", "mass = 1" + "0" * 5000), "a number has too many digits"),
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
    "nan in a configuration": (
        BASE + ARM + ELBOW + "[configurations]\nx = [nan]\n",
        "configurations.x[0]: value is nan",
    ),
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
        "joint[0].origin.rotation[0][0] ('elbow'): value is 1e+200",
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
    "another zero": (BASE + ARM + ELBOW + "[configurations]\nzero = [1]\n", "configuration 'zero': this name belongs"),
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
    "configuration's length": (
        BASE + ARM + ELBOW + "[configurations]\nbent = [1, 2]\n",
        "configurations.bent: list has length 2 (expected 1 numbers, one for each joint)",
    ),
    "configuration twice": (
        BASE + ARM + ELBOW + "[configurations]\nbent = [1]\n[configurations_deg]\nbent = [90]\n",
        "configurations_deg.bent: this configuration is given twice",
    ),
    "name with blanks": (BASE.replace('"base"', '" base"'), "body: ' base' is not a name"),
    "name that cannot be printed": (BASE.replace('"base"', '"a\\u0007"'), "holds control characters"),
    "robot's name": (BASE.replace('name = "r"', 'name = ""'), "robot: '' is not a name"),
    "joint named as a base dof": (
        BASE + ARM + ELBOW.replace('"elbow"', '"base_vx"'),
        "joint[0] ('base_vx'): this name belongs to the base's own degrees of freedom",
    ),
    "other base": (
        BASE.replace('name = "r"', 'name = "r"\nbase = "arm"') + ARM + ELBOW,
        "robot.base: base is 'arm', but the root of the tree is 'base'",
    ),
    "too many joints": (
        "\n".join(["joint = [", *['{name="a",kind="revolute",parent="b",child="c"},'] * 2001, "]", BASE]),
        "joint: there are 2001 joints (expected at most 2000)",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_fault(case):
    text, note = FAULTS[case]
    assert note in fault(text)


def test_several_faults_are_told_together():
    notes = fault(BASE.replace("mass = 10", 'mas = "1"\ncmo = 3'))
    assert [
        part in notes for part in ("3 problems", "unknown key 'mas'", "unknown key 'cmo'", "'mass' is missing")
    ] == [True] * 4


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("limits = { lower = -180, upper = 1 }", "joint[0].limits.lower ('elbow'): angle is -180 rad"),
        ("spring = { stiffness = 1, rest = 90 }", "(for degrees use 'rest_deg')"),
        (
            "[configurations]\nbent = [90]",
            "configurations.bent: angle is 90 rad (for degrees use 'configurations_deg')",
        ),
    ],
)
def test_angles_that_look_like_degrees(lines, note):
    with pytest.warns(UnitWarning) as caught:
        robot_from_toml(BASE + ARM + ELBOW + lines)
    assert note in str(caught[0].message)


def test_long_slides_and_fast_joints_are_not_doubted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robot_from_toml(BASE + ARM + SLIDE + "limits = { lower = -180, upper = 90 }\n[configurations]\nout = [50]\n")
        robot_from_toml(BASE + ARM + ELBOW + "limits = { velocity = 100 }")


def test_a_key_of_many_parts_takes_no_memory():
    """40 kB of key were 1.6 GB in tomllib."""
    for text in (
        ".".join("a" * 20_000) + " = 1\n",
        "[" + " . ".join(['"a b"'] * 20_000) + "]\nx = 1\n",
        "x = 1\n[[" + ".".join(["'a'"] * 20_000) + "]]\n",
    ):
        tracemalloc.start()
        try:
            note = fault(text)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "a key has more than 32 parts" in note
        assert note.startswith(f"line {2 if text.startswith('x') else 1}: ")
        assert peak < 20e6  # bytes


def test_dots_in_texts_and_comments_are_no_key():
    dots = ".".join("a" * 100)
    text = BASE + f'[provenance]\na = "{dots}"\n# {dots}\nb = """\n{dots}"""\nc = \'{dots}\'\n"{dots}" = 1\n'
    assert isinstance(robot_from_toml(text), Robot)


def test_depth_and_length_of_keys_are_bounded():
    assert "is nested more than 32 deep" in fault(BASE + "[provenance]\na = " + "[" * 40 + "]" * 40 + "\n")
    assert "a key has 300 characters" in fault(BASE + f"[provenance]\n{'a' * 300} = 1\n")
