"""Damaged URDF gives a robot or a ModelError, never anything else."""

from __future__ import annotations

import warnings
import xml.etree.ElementTree as ET

from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacearm.errors import ModelError
from spacearm.model import Robot
from spacearm.model.notices import LossyConversion, RepairWarning
from spacearm.model.robot_import import Reading
from spacearm.model.urdf_read import robot_from_urdf
from spacearm.model.urdf_write import urdf_text
from support.urdf_text import ARM
from support.xml_damage import NASTY as ANY_NASTY
from support.xml_damage import damaged_text, damaged_tree

NASTY = ANY_NASTY | st.sampled_from(
    [
        *("base", "link1", "hand", "j1", "world", "base_vx", "fixed", "floating", "planar", "continuous", "revolute"),
        *("<link/>", "<joint/>", "<inertial/>", "<origin/>", "<mimic/>", "</robot>", "<robot>"),
    ]
)
WRITABLE = NASTY.filter(lambda word: word.isprintable())
VALUES = sorted({value for element in ET.fromstring(ARM).iter() for value in element.attrib.values()})


def repaired_or_error(text):
    """Repair gives a robot that is sound by itself, or says why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LossyConversion)
        warnings.simplefilter("ignore", RepairWarning)
        try:
            return robot_from_urdf(text, file="fuzz.urdf", reading=Reading(repair=True))
        except ModelError as error:
            refusal = str(error)
    assert refusal.startswith("fuzz.urdf: ")
    return None


def robot_or_error(text):
    repaired = repaired_or_error(text)
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
    assert repaired == robot
    with warnings.catch_warnings():
        warnings.simplefilter("error", LossyConversion)
        assert urdf_text(robot).endswith("</robot>\n")


@settings(max_examples=400, deadline=None, derandomize=True)
@given(damaged_text(ARM, NASTY, 4))
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
