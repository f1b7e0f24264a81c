"""Damaged URDF gives a robot or a ModelError, never anything else."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacearm.errors import ModelError
from spacearm.model import Robot
from spacearm.model.lossy import LossyConversion
from spacearm.model.urdf import robot_from_urdf, urdf_text
from support.xml_damage import damaged_tree
from test_urdf import ARM

LINES = ARM.splitlines()
WORDS = ARM.replace('"', ' " ').replace("<", " < ").replace("/>", " /> ").split()
NASTY = st.sampled_from(
    [
        *("nan", "-inf", "1e309", "1e-320", "1e200", "-1", "0", "0 0 0", "1 2", "1_0", "0x10", "", " ", "\t", "\u0661"),
        *("base", "link1", "hand", "j1", "world", "base_vx", "fixed", "floating", "planar", "continuous", "revolute"),
        *(
            "&lt;",
            "&#0;",
            "&x;",
            "<!--",
            "]]>",
            "<![CDATA[",
            "<?xml?>",
            "<!DOCTYPE a>",
            "\x00",
            "\ud800",
            "é",
            "\u2028",
        ),
        *("<link/>", "<joint/>", "<inertial/>", "<origin/>", "<mimic/>", "</robot>", "<robot>", 'xmlns="urn:x"'),
    ]
)
WRITABLE = NASTY.filter(lambda word: word.isprintable())
VALUES = sorted({value for element in ET.fromstring(ARM).iter() for value in element.attrib.values()})


@st.composite
def damaged(draw):
    """The valid text after one to four accidents."""
    text = ARM
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["insert", "cut", "word", "value", "line", "swap"]))
        if kind == "insert":
            text = text[:place] + draw(NASTY | st.text(max_size=5)) + text[place:]
        elif kind == "cut":
            text = text[:place] + text[place + draw(st.integers(1, 200)) :]
        elif kind == "word":
            text = text.replace(draw(st.sampled_from(WORDS)), draw(NASTY | st.sampled_from(WORDS)), 1)
        elif kind == "value":
            start = text.find('="', place)
            end = text.find('"', start + 2)
            if 0 <= start < end:
                number = st.floats().map(repr)
                text = text[: start + 2] + draw(NASTY | number | st.text(max_size=6)) + text[end:]
        elif kind == "line":
            lines = text.split("\n")
            line = draw(st.integers(0, len(lines) - 1))
            text = "\n".join([*lines[:line], *([lines[line]] * draw(st.sampled_from([0, 2]))), *lines[line + 1 :]])
        else:
            one, two = draw(st.sampled_from(LINES)), draw(st.sampled_from(LINES))
            text = text.replace(one, "\x01").replace(two, one).replace("\x01", two)
    return text


def robot_or_error(text):
    refusal = ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LossyConversion)  # what is damaged may well be unknown
        try:
            robot = robot_from_urdf(text, file="fuzz.urdf")
        except ModelError as error:
            refusal = str(error)
    if refusal:
        assert refusal.startswith("fuzz.urdf: ")
        return
    assert isinstance(robot, Robot)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossyConversion)
        assert urdf_text(robot).endswith("</robot>\n")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(damaged())
@example(ARM)
@example(ARM.replace('mass value="2"', 'mass value="1e30"').replace('ixx="1"', 'ixx="1e30"'))
@example(ARM.replace('xyz="1 2 3"', 'xyz="1e30 1e30 1e30"').replace('rpy="0.1 0.2 0.3"', 'rpy="1e30 1e30 1e30"'))
@example(ARM.replace('xyz="0.1 0 0"', 'xyz="1e30 1e30 1e30"').replace('type="prismatic"', 'type="fixed"'))
@example(ARM.replace('mass value="2"', 'mass value="1e-320"').replace('type="prismatic"', 'type="fixed"'))
def test_damaged_text(text):
    robot_or_error(text)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(damaged_tree(ARM, WRITABLE | st.sampled_from(VALUES) | st.floats().map(repr), 4))
def test_damaged_tree(text):
    robot_or_error(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_damaged_bytes(data):
    raw = bytearray(ARM.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    robot_or_error(bytes(raw))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=300) | st.text(max_size=300))
def test_anything(text):
    robot_or_error(text)
