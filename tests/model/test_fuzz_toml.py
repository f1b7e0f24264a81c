"""Whatever stands in a robot file, reading it gives a Robot or a ModelError, nothing else."""

from __future__ import annotations

import math
import random
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacearm.errors import ModelError
from spacearm.model import Robot, catalogue, load
from spacearm.model.toml_read import robot_from_toml
from spacearm.model.toml_write import toml_text

RICH = """
[robot]
name = "rich"
base = "base"

[[body]]
name = "base"
mass = 10.0
com = [0.1, 0.0, 0.0]
inertia = [3.0, 4.0, 5.0, 0.1, 0.2, 0.3]

[[body]]
name = "arm"
mass = 2.0
com = [0.5, 0.0, 0.0]
inertia = [0.1, 0.7, 0.7]
inertia_about = "origin"
inertia_axes = { rpy_deg = [0.0, 0.0, 5.0] }

[[joint]]
name = "slide"
kind = "prismatic"
parent = "base"
child = "arm"
axis = [0.0, 1.0, 0.0]
origin = { xyz = [1.0, 0.0, 0.0], quaternion = [0.6, 0.8, 0.0, 0.0] }
spring = { stiffness = 5.0, rest = 0.1 }
limits = { lower = -1.0, upper = inf, velocity = 2.0, effort = 3.0 }

[dh]
convention = "standard"
base = "arm"
origin = { rotation = [[0, 0, 1], [1, 0, 0], [0, 1, 0]] }

[[dh.row]]
joint = "shoulder"
body = "upper"
a = 0.4
alpha_deg = 90.0
d = 0.1
theta = 0.5
mass = 1.0
inertia = [0.1, 0.1, 0.1]
damping = 0.5
friction = { static = 4.0, coulomb = 2.0 }
rotor = { inertia = 1e-4, ratio = 100.0 }
transmission = { stiffness = 5.0, damping = 0.1, rest_deg = 1.0, motor_friction = { coulomb = 1.0 } }

[[frame]]
name = "hand"
body = "upper"
origin = { rpy = [0.1, 0.2, 0.3] }

[[thruster]]
name = "jet"
body = "upper"
position = [0.1, 0.2, 0.3]
direction = [0.0, 0.0, 1.0]
force = 2.0

[[coupling]]
name = "belt"
first = "shoulder"
second = "slide"
stiffness = 3.0
ratio = 2.0

[configurations]
out = [0.5, 0.2]

[configurations_deg]
bent = [0.5, 90.0, 80.0]

[provenance]
"arm.mass" = "weighed"
"""
SEEDS = [RICH, *(catalogue.text(name) for name in ("yoshida1992", "xu2017", "cai2023", "wojtunik2023", "zhang2020"))]
#: Values that a file may wrongly hold, written as TOML.
VALUES = [
    "0", "-1", "1e308", "-1e308", "5e-324", "1e200", "nan", "inf", "-inf", "true", '""', '"x"', "[]", "[[]]", "{}",
    "[1, 2, 3]", "[0, 0, 0]", "[1e200, 1e200, -1e200]", "[nan, 0, 0]", '["a", "b", "c"]', "1979-05-27", "07:32:00",
    "{ a = 1 }", "[{}]", '"base"', '"arm"', '"revolute"', '"prismatic"', "1" + "0" * 400, "0x_", "1__0", "'''",
    "{ xyz = [1e300, 0, 0] }", "{ rotation = [[1e200, 1e200, 0], [1e200, -1e200, 0], [0, 0, 1]] }",
    "{ stiffness = 1e308 }", "{ inertia = 1e-320, ratio = 1e300 }", "{ rpy_deg = [1e308, 0, 0] }",
]  # fmt: skip


def sound(text: str) -> bool:
    """Reads the text; anything but a Robot or a ModelError escapes and fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            robot = robot_from_toml(text)
        except ModelError as error:
            assert str(error)  # noqa: PT017
            return False
        assert isinstance(robot, Robot)
        assert all(map(math.isfinite, robot.inertia_parameters.ravel()))
        # what was accepted can be written, and what was written is accepted and the same
        assert robot_from_toml(toml_text(robot)) == robot
    return True


def test_seeds_are_sound():
    assert all(sound(seed) for seed in SEEDS)


@settings(max_examples=1500)
@given(st.randoms(use_true_random=False), st.sampled_from(SEEDS))
def test_changed_lines(chance: random.Random, seed: str):
    """Lines deleted, doubled, swapped, and values replaced: close to valid, so that the deeper checks are reached."""
    lines = seed.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        action = chance.randrange(5)
        if action == 0:
            del lines[at]
        elif action == 1:
            lines.insert(at, lines[chance.randrange(len(lines))])
        elif action == 2:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            keyed = [i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]
            at = chance.choice(keyed) if keyed else at
            key = lines[at].partition(" = ")[0]
            lines[at] = f"{key if action == 3 else key[:-1] + chance.choice('xyz_')} = {chance.choice(VALUES)}"
        if not lines:
            break
    sound("\n".join(lines))


@settings(max_examples=500)
@given(st.data(), st.sampled_from(SEEDS[:3]))
def test_flipped_bytes(tmp_path_factory, data, seed):
    raw = bytearray(seed.encode())
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "flipped.toml"
    path.write_bytes(bytes(raw))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert isinstance(load(path), Robot)
        except ModelError as error:
            assert error.file == path  # noqa: PT017


@settings(max_examples=400)
@given(st.integers(0, 10**6), st.sampled_from(SEEDS))
def test_cut_short(where, seed):
    sound(seed[: where % (len(seed) + 1)])


KEYS = sorted({line.partition(" = ")[0] for line in RICH.splitlines() if " = " in line})
TABLES = [
    "robot",
    "body",
    "joint",
    "dh",
    "dh.row",
    "frame",
    "thruster",
    "coupling",
    "configurations",
    "configurations_deg",
    "x",
]


@settings(max_examples=800)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(TABLES),
            st.booleans(),
            st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=6),
        ),
        max_size=6,
    )
)
def test_random_documents(tables):
    """Documents of known words in no sensible order."""
    text = []
    for name, double, entries in tables:
        text.append(f"[[{name}]]" if double else f"[{name}]")
        text += [f"{key} = {value}" for key, value in dict(entries).items()]
    sound("\n".join(text))


@settings(max_examples=400)
@given(st.text(max_size=200))
def test_random_text(text):
    sound(text)


@pytest.mark.parametrize("value", VALUES)
def test_every_bad_value_in_every_place(value):
    """Not random: each value once for each key of the rich file."""
    lines = RICH.splitlines()
    accepted = 0
    for at, line in enumerate(lines):
        if " = " in line:
            changed = [*lines[:at], f"{line.partition(' = ')[0]} = {value}", *lines[at + 1 :]]
            accepted += sound("\n".join(changed))
    assert accepted < 40  # of some 70 places
