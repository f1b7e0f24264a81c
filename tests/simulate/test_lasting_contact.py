"""Contacts that last: rolling, resting and sliding against closed forms, and what the certificate makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.mechanics.shapes import Box, Plane
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_about
from spacearm.simulate import Contact, Gravity, On, Run, State, World, simulate
from spacearm.simulate.certificate import CertificateWarning
from spacearm.simulate.ledger import Balance
from spacearm.typing import Array

G = 9.80665  # m/s2
EDGE, MASS = 0.2, 2.0  # of the block


def slope(angle: float) -> Pose:
    """A plane whose downhill direction is x turned by ``angle`` about y."""
    return Pose(rotation_about(np.array([0.0, 1.0, 0.0]), angle), np.zeros(3))


def block_on_slope(
    angle: float, duration: float, *, restitution: float = 0.3, friction: float = 0.0, stiffness: float = 1e6
) -> Run:
    """A cube of 2 kg that is put flat onto the slope."""
    block = Robot("block", (Body("body", Inertia(MASS, tensor=MASS * EDGE**2 / 6.0 * np.eye(3))),), ())
    place = slope(angle)
    sides = On("block/body", Box(EDGE, EDGE, EDGE)), On(place, Plane())
    floor = Contact(*sides, stiffness, restitution, friction, name="floor")
    world = World({"block": block}, elements=(Gravity(), floor))
    turn = place.rotation
    start = State(turn @ [0, 0, EDGE / 2], quaternion_from_rotation(turn), np.zeros(0), np.zeros(6))
    return simulate(world, {"block": start}, duration)


# -- certificate --------------------------------------------------------------------------------------------------


def test_moments_of_corners_that_cancel_are_no_false_alarm() -> None:
    """A cube slides down without friction and does not turn: each corner's moment is 0.2 N m, their sum nothing."""
    angle = 0.1
    run = block_on_slope(angle, 0.3)
    down = run.of("block").data["base_velocity"].values @ slope(angle).rotation[:, 0]
    np.testing.assert_allclose(down, G * np.sin(angle) * run.of("block").times, atol=1e-9)
    assert run.certificate is not None
    assert run.sound, str(run.certificate)


def test_a_cube_that_turns_by_itself_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same with an angular velocity that creeps by ten millionths of a radian per second squared."""
    add_steps = Balance.add_steps

    def turning_steps(balance: Balance, audit: Array) -> None:
        moved = audit.copy()
        moved[:, 2 + 11] += 1e-5 * audit[:, 0]
        add_steps(balance, moved)

    monkeypatch.setattr(Balance, "add_steps", turning_steps)
    with pytest.warns(CertificateWarning, match=r"angular_momentum \S+ \(EXCEEDS"):
        run = block_on_slope(0.1, 0.3)
    assert not run.sound
