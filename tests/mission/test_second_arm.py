"""A second arm that brakes hold: what they have to give is judged as the torques of the first one are."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation
from tests.support.missions import EXAMPLES, SHORT

from spacearm.mission.scenario import MissionFindings
from spacearm.model import Body, Inertia, Joint, Pose, Robot, catalogue, edit
from spacearm.model.parts import Limits
from spacearm.study import Session
from spacearm.study.scenario import solve_document

#: A mass at the end of a rod of 1.5 m, which hardly resists turning about itself, on a brake about y.
TIP, MASS = np.array([-1.5, 0.0, 0.0]), 20.0


def servicer(effort: float) -> Robot:
    tip = Body("second tip", Inertia(MASS, TIP, np.eye(3) * 1e-6))
    limits = Limits(lower=-1.0, upper=1.0, effort=effort)
    axis = np.array([0.0, 1.0, 0.0])
    shoulder = Joint("second shoulder", "revolute", "second base", "second tip", axis=axis, limits=limits)
    arm = Robot("second", (Body("second base", Inertia(1.0, tensor=np.eye(3) * 0.01)), tip),
                (shoulder,))  # fmt: skip
    return edit.mount(
        catalogue.load("servicer"), arm, frame="bus", placement=Pose(translation=np.array([-0.5, 0.0, -0.3]))
    )


def fly(effort: float, sample: float = 0.5) -> MissionFindings:
    document: dict[str, Any] = tomllib.loads((EXAMPLES / "mission.toml").read_text()) | SHORT | {"sample": sample}
    joints = [f"joint{k}" for k in range(1, 8)]
    document["actuators"] |= {"arm": joints}
    found = solve_document(document, Session(EXAMPLES, robots={"servicer": servicer(effort)}))[1]
    assert isinstance(found, MissionFindings)
    return found


def test_the_torque_of_its_brake_is_that_of_newton() -> None:
    """By the second derivative of the tip's place in the data, about the shoulder."""
    mission = fly(5.0)
    assert mission.is_successful
    data, steps = mission.data(), 0
    found = data["joint_force"].sel(joint="second shoulder").values
    for outcome in mission.outcomes:
        if outcome.stage not in ("approach", "detumble"):
            continue
        rows = np.flatnonzero((data["time"].values > outcome.begin) & (data["time"].values < outcome.end))
        times = data["time"].values[rows]
        rows, times = rows[np.append(True, np.diff(times) > 1e-3)], times[np.append(True, np.diff(times) > 1e-3)]
        turn = Rotation.from_quat(data["base_quaternion"].values[rows], scalar_first=True)
        place = data["base_position"].values[rows] + turn.apply(np.array([-0.5, 0.0, -0.3]) + TIP)
        force = MASS * CubicSpline(times, place)(times, 2)
        torque = np.einsum("ti,ti->t", turn.apply([0.0, 1.0, 0.0]), np.cross(turn.apply(TIP.copy()), force))
        if outcome.stage == "approach":
            np.testing.assert_allclose(found[rows][5:-5], torque[5:-5], atol=0.03 * np.abs(torque).max())
        steps += rows.size
        (limit,) = [each for each in outcome.limits if each.name == "torque limit"]
        assert limit.margin <= 1.0 - np.abs(found[rows]).max() / 5.0 + 1e-9
    assert steps > 50
    assert np.abs(found).max() > 0.05


def test_a_brake_that_slips_is_no_go() -> None:
    # Ticks of laws are samples too: the torque is largest at one.
    strong = fly(5.0, sample=0.01)
    most = float(np.abs(strong.data()["joint_force"].sel(joint="second shoulder").values).max())
    weak = fly(0.5 * most)
    assert not weak.is_successful
    limit = weak.worst.binding_limit
    assert (limit.name, limit.what) == ("torque limit", "second shoulder")
    assert limit.used <= most * (1.0 + 1e-6)
    assert limit.limit == pytest.approx(0.5 * most)
