"""Damaged MJCF gives a robot or a ModelError, never anything else, and never takes long."""

from __future__ import annotations

import time
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacearm.errors import ModelError
from spacearm.model import Robot
from spacearm.model.mjcf_read import robot_from_mjcf
from spacearm.model.notices import LossyConversion, RepairWarning
from spacearm.model.robot_import import Reading
from support.xml_damage import NASTY as ANY_NASTY
from support.xml_damage import damaged_text, damaged_tree

#: A robot with something of everything that is read.
RICH = """<mujoco model="rich">
  <compiler angle="degree" autolimits="true"/>
  <option density="0"><flag contact="disable"/></option>
  <default><joint damping="0.1"/><default class="arm"><geom type="capsule" size="0.05" mass="2"/></default></default>
  <asset><mesh name="tetra" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/></asset>
  <worldbody>
    <light/>
    <body name="table" pos="3 0 0"><geom size="1"/></body>
    <body name="bus" pos="0 0 2" euler="10 20 30"><freejoint name="root"/>
      <inertial pos="0 0 0.1" mass="20" diaginertia="1 2 2.5"/>
      <geom type="mesh" mesh="tetra"/>
      <site name="jet" pos="0 0 1" euler="0 90 0"/>
      <replicate count="2" euler="0 0 90"><site name="dock" pos="1 0 0"/></replicate>
      <body name="upper" pos="0.5 0.1 0" childclass="arm">
        <joint name="hinge" axis="1 2 0" pos="0.1 0.2 0.3" ref="30" armature="0.2" range="-90 90"/>
        <joint name="slide" type="slide" axis="0 1 1" stiffness="3" springref="0.1" frictionloss="0.2"/>
        <geom fromto="0 0 0 0.5 0 0.2"/>
        <frame pos="0.1 0 0"><body name="box" euler="0 0 50"><geom type="box" size="0.1 0.2 0.3"/></body></frame>
        <body name="lower" pos="0 1 0"><joint name="ball" type="ball" damping="1"/><geom fromto="0 0 0 0 0.5 0"/>
          <body name="hand" pos="0 0.5 0"><joint name="last" axis="1 0 0"/><geom type="sphere" size="0.1"/></body>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="belt" stiffness="5" damping="0.3"><joint joint="hinge" coef="2"/>
    <joint joint="last" coef="-3"/></fixed></tendon>
  <equality><joint name="mimic" joint1="last" joint2="hinge" polycoef="0 2 0 0 0"/></equality>
  <actuator>
    <motor name="drive" joint="hinge" ctrlrange="-2 2" gear="10"/>
    <position name="servo" joint="last" kp="3" forcerange="-1 1"/>
    <motor name="thruster" site="jet" gear="0 0 1 0 0 0" ctrlrange="0 4"/>
  </actuator>
  <keyframe><key name="home" qpos="0 0 2 1 0 0 0 0.1 0.2 1 0 0 0 0.4"/></keyframe>
</mujoco>
"""
NASTY = ANY_NASTY | st.sampled_from(
    [
        *(
            "hinge",
            "slide",
            "ball",
            "free",
            "bus",
            "upper",
            "last",
            "world",
            "base_vx",
            "1e30",
            "1e-30",
            "0 0 1",
            "1000000",
        ),
        *("<body/>", "<joint/>", "<freejoint/>", "<geom/>", "<site/>", "</body>", "</mujoco>", "<plugin/>"),
        *('<include file="x.xml"/>', '<attach body="bus" prefix="p"/>', '<replicate count="9999">', "<frame>"),
        *('<mesh file="/etc/passwd"/>', '<composite count="100 100 100"/>', '<size memory="1000G"/>'),
    ]
)
WRITABLE = NASTY.filter(lambda word: word.isprintable())
READINGS = st.sampled_from(
    [Reading(), Reading(repair=True), Reading(base="upper"), Reading(base="world", base_mass=1.0)]
)
#: Nothing in these models is large: whatever takes longer than this has lost its way, s.
LONGEST = 15.0


def robot_or_error(text, reading):
    start, refusal = time.monotonic(), ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", LossyConversion)
        warnings.simplefilter("ignore", RepairWarning)
        try:
            robot = robot_from_mjcf(text, "fuzz.xml", reading)
        except ModelError as error:
            refusal = str(error)
    assert time.monotonic() - start < LONGEST
    if refusal:
        assert refusal.startswith("fuzz.xml: ")
        assert "crashes" not in refusal
    else:
        assert isinstance(robot, Robot)


@pytest.mark.filterwarnings("ignore")
def test_the_undamaged_model_is_read():
    """Otherwise the rest would show nothing."""
    for reading, joints in ((Reading(), 6), (Reading(repair=True), 6), (Reading(base="upper"), 4)):
        assert robot_from_mjcf(RICH, reading=reading).n == joints


@settings(max_examples=250, deadline=None, derandomize=True)
@given(damaged_text(RICH, NASTY, 4), READINGS)
def test_damaged_text(text, reading):
    robot_or_error(text, reading)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(damaged_tree(RICH, WRITABLE | st.floats().map(repr), 4), READINGS)
def test_damaged_tree(text, reading):
    robot_or_error(text, reading)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_damaged_bytes(data):
    raw = bytearray(RICH.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    robot_or_error(bytes(raw), Reading())


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.binary(max_size=300) | st.text(max_size=300))
def test_anything(text):
    robot_or_error(text, Reading())
