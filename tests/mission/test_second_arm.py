"""A second arm, held by brakes that are judged, or keeping the base from turning: momentum, MuJoCo, limits."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.spatial.transform import Rotation
from tests.support.missions import EXAMPLES, SHORT

from spacearm.errors import InputError
from spacearm.mission.scenario import MissionFindings
from spacearm.model import Body, Inertia, Joint, Pose, Robot, catalogue, edit
from spacearm.model.parts import Limits
from spacearm.study import Session
from spacearm.study.findings import make_rows
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


# -- helping -----------------------------------------------------------


def two_arms(effort: float = 20.0) -> Robot:
    """A second arm of three joints about z, y and x, with links of 0.8 m."""
    names = ("second shoulder", "second elbow", "second wrist")
    parts = [Body("second base", Inertia(1.0, tensor=np.eye(3) * 0.01))]
    joints, place = [], Pose()
    for name, axis, com, mass in zip(
        names,
        np.eye(3)[[2, 1, 0]],
        ([-0.4, 0.0, 0.0], [-0.4, 0.0, 0.0], [0.0, 0.5, 0.3]),
        (6.0, 6.0, 14.0),
        strict=True,
    ):
        parts.append(Body(f"{name} link", Inertia(mass, np.array(com), np.eye(3) * 0.3)))
        limits = Limits(lower=-2.5, upper=2.5, velocity=0.5, effort=effort)
        joints.append(Joint(name, "revolute", parts[-2].name, parts[-1].name, place, axis, limits=limits))
        place = Pose(translation=np.array([-0.8, 0.0, 0.0]))
    arm = Robot("second", tuple(parts), tuple(joints))
    return edit.mount(
        catalogue.load("servicer"), arm, frame="bus", placement=Pose(translation=np.array([-0.5, 0.0, -0.3]))
    )


SECOND = ["second shoulder", "second elbow", "second wrist"]


def approach(robot: Robot, cross_check: bool = False, **changes: Any) -> MissionFindings:
    document: dict[str, Any] = tomllib.loads((EXAMPLES / "mission.toml").read_text()) | SHORT
    document |= {"settle": None, "detumble": None, "clearance": None} | changes
    document["catch"] |= {"duration": 5.0, "stop_time": 5.0}
    document["approach"] = {"duration": 40.0} | changes.get("approach", {})
    document["target"] |= {"tumble_deg": [1.0, -1.5, 0.75]}
    document["actuators"] |= {"arm": [f"joint{k}" for k in range(1, 8)]} | document.pop("roles", {})
    found = solve_document(document, Session(EXAMPLES, robots={"servicer": robot}, cross_check=cross_check))[1]
    assert isinstance(found, MissionFindings)
    return found


def test_a_second_arm_keeps_the_base_from_turning() -> None:
    """Without momentum of its own the servicer does not turn while one arm moves, and the hand arrives as before."""
    held, helping = (approach(two_arms(), roles=roles) for roles in ({}, {"second_arm": SECOND}))
    assert held.is_successful
    assert helping.is_successful, helping.headline()
    assert helping.run.sound
    turned = [make_rows_of(each)["approach.base_rotation"] for each in (held, helping)]
    assert turned[0] > np.radians(0.8)
    assert turned[1] < 0.1 * turned[0]
    for name in ("touch.distance", "touch.angle", "touch.speed"):
        assert make_rows_of(helping)[name] == pytest.approx(make_rows_of(held)[name], abs=5e-3)
    # It moves for that, and is stopped after the catch as the first one is.
    rates = helping.data()["joint_velocity"].sel(joint=SECOND).values
    assert np.abs(rates).max() > 0.02
    assert np.abs(rates[-1]).max() < 1e-3


def make_rows_of(mission: MissionFindings) -> dict[str, Any]:
    return {row.quantity: row.value for row in make_rows(mission)}


def test_a_second_arm_is_held_against_its_limits() -> None:
    """Its torque at the ticks is what a motor half as strong could not give."""
    strong = approach(two_arms(), roles={"second_arm": SECOND})
    logs = [log for log in strong.run.commands if SECOND[0] in log.names]
    most = {name: max(float(np.abs(log[name]).max()) for log in logs) for name in SECOND}
    weak = approach(two_arms(0.5 * max(most.values())), roles={"second_arm": SECOND})
    assert not weak.is_successful
    limit = weak.worst.binding_limit
    assert (limit.name, limit.what) == ("torque limit", max(most, key=lambda name: most[name]))


def test_mujoco_flies_both_arms_in_closed_loop() -> None:
    mission = approach(two_arms(), True, roles={"second_arm": SECOND}, approach={"duration": 6.0, "period": 0.1},
                       limits={}, continue_after_limit=True)  # fmt: skip
    assert mission.checked is not None
    assert mission.checked.applies
    assert mission.checked.value < 1e-8


@pytest.mark.parametrize(
    ("roles", "changes", "message"),
    [
        ({"second_arm": SECOND[:2]}, {}, "actuators: second_arm: .* cannot keep the base from turning about all axes"),
        ({"second_arm": SECOND}, {"strategy": "coordinated"}, "actuators: second_arm: helps with strategy 'passive'"),
    ],
)
def test_a_second_arm_that_cannot_help_is_told(roles: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        approach(two_arms(), roles=roles, **changes)
