"""Hybrid dynamics, free or driven per degree of freedom, against a dense constrained solve on Pinocchio's terms."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.model import Robot
from support.motion import MODES, MotionInputs, expected_motion, random_mode
from support.population import BLOCKS, difference, member, member_state
from support.random_robots import random_robot, random_state

TOLERANCE = 1e-10


def loads_of(robot: Robot) -> tuple[LoadFrame, ...]:
    """Every frame is loaded: the first in world axes, the others in their own."""
    return tuple(LoadFrame(frame.name, "frame" if k else "world") for k, frame in enumerate(robot.frames))


def check(robot: Robot, seed: int, *, where: str) -> None:
    """All outputs of the motion program for every kind of mode, from CasADi's own interpreter."""
    loads = loads_of(robot)
    own_axes = [load.frame for load in loads if load.axes == "frame"]
    program = motion_program(robot, loads).inline_derived_inputs()
    rng = np.random.default_rng([seed, 5])
    for kind in MODES:
        state = random_state(robot, rng)
        given = MotionInputs.draw(robot, rng, random_mode(robot, rng, kind), frame_axes=own_axes)
        expected = expected_motion(robot, state, given)
        result = np.array(program.function(given.flat(robot, state))).ravel()
        assert result.size == expected.flat.size
        ends = np.cumsum([expected.rate.size, expected.power.size])
        rate, power, reaction = np.split(result, ends)
        assert difference(rate, expected.rate) < TOLERANCE, f"rate, {kind}, {where}"
        assert difference(power, expected.power) < TOLERANCE, f"power, {kind}, {where}"
        assert difference(reaction, expected.reaction) < TOLERANCE, f"reaction, {kind}, {where}"
        driven = given.mode > 0.5
        np.testing.assert_array_equal(rate[-robot.dofs :][driven], given.drive[driven])
        np.testing.assert_array_equal(reaction[~driven], 0.0)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_population(block: range) -> None:
    for index in block:
        check(member(index), index, where=f"robot {index}")


@pytest.mark.parametrize("seed", range(12))
def test_flexible_joints(seed: int) -> None:
    """Motors on massless bodies beside their links, geared and coupled to them."""
    robot = random_robot(seed, 2 + seed % 5, flexible=0.7, prismatic=0.1, geometry="mixed")
    check(robot, seed, where=f"seed {seed}")


def test_without_ledger_the_rest_is_the_same() -> None:
    robot = member(40)
    state, rng = member_state(40)
    given = MotionInputs.draw(robot, rng, random_mode(robot, rng, "mixed"), frame_axes=["frame2"])
    full = np.array(
        motion_program(robot, loads_of(robot)).inline_derived_inputs().function(given.flat(robot, state))
    ).ravel()
    lean = motion_program(robot, loads_of(robot), ledger=False).inline_derived_inputs()
    short = np.array(lean.function(given.flat(robot, state))).ravel()
    size = 13 + 2 * robot.n
    np.testing.assert_allclose(short[:size], full[:size], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(short[size:], full[-robot.dofs :], rtol=1e-13, atol=1e-13)


def test_inertias_and_rotors_are_run_time_inputs() -> None:
    """A program made for one robot serves another of the same geometry."""
    robot = random_robot(3, 5, rotors=0.8)
    rng = np.random.default_rng(3)
    other = robot.with_inertia_parameters(robot.inertia_parameters * rng.uniform(0.5, 2.0, size=(6, 1)))
    state = random_state(robot, rng)
    given = MotionInputs.draw(robot, rng, random_mode(robot, rng, "mixed"), frame_axes=["frame2"])
    result = np.array(
        motion_program(robot, loads_of(robot)).inline_derived_inputs().function(given.flat(other, state))
    ).ravel()
    assert difference(result, expected_motion(other, state, given).flat) < TOLERANCE
    assert difference(result, expected_motion(robot, state, given).flat) > 1e-3


def test_two_loads_on_one_body_add_up() -> None:
    robot = random_robot(9, 3, tree=False)
    name = robot.frames[0].name
    rng = np.random.default_rng(9)
    state = random_state(robot, rng)
    given = MotionInputs.draw(robot, rng, random_mode(robot, rng, "free"))
    given.wrench = {name: given.wrench[name]}
    single = np.array(
        motion_program(robot, (LoadFrame(name),), ledger=False)
        .inline_derived_inputs()
        .function(given.flat(robot, state))
    ).ravel()
    wrench = given.wrench[name]
    given.wrench = {"a": 0.25 * wrench, "b": 0.75 * wrench}
    double = motion_program(robot, (LoadFrame(name), LoadFrame(name)), ledger=False).inline_derived_inputs()
    assert difference(np.array(double.function(given.flat(robot, state))).ravel(), single) < 1e-13
