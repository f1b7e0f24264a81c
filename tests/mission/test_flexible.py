"""Servicers that bend and slosh: a mission with arrays and a tank, and one run with all that is no rigid tree."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacearm import SpacearmError, load, save
from spacearm.campaign._work import run_one
from spacearm.campaign.plan import CampaignPlan
from spacearm.engine import Mechanics
from spacearm.model import Body, Inertia, catalogue, edit
from spacearm.model.parts import STANDARD_GRAVITY
from spacearm.study import Session
from spacearm.study.findings import make_rows
from spacearm.study.scenario import run_document, solve_document, study_file
from support import ROOT

EXAMPLES = ROOT / "examples"


def test_modes_are_no_joints_of_the_arm() -> None:
    robot = load(EXAMPLES / "robots" / "flexible-servicer.toml")
    assert robot.mode_names[:4] == tuple(f"array_left.mode{k}" for k in range(1, 5))
    assert robot.mode_names[-2:] == ("oxidiser.slosh_x", "oxidiser.slosh_y")
    assert [name for name in robot.arm_names if name.startswith("left")] == [
        f"left {name}" for name in ("shoulder", "elbow", "wrist", "pull", "finger1", "finger2")
    ]
    assert len(robot.arm_names) + len(robot.mode_names) + len(robot.wheel_names) == robot.n


def test_rigid_and_flexible_parts_have_the_same_mass_properties() -> None:
    """What the map compares differs in flexibility alone."""
    rigid, soft = (load(EXAMPLES / "robots" / f"{name}-parts.toml") for name in ("rigid", "flexible"))
    assert rigid.n == 0
    found = Mechanics(soft).mass_matrix(np.zeros(soft.n))[:6, :6]
    np.testing.assert_allclose(found, Mechanics(rigid).mass_matrix(np.zeros(0)), atol=1e-6)


def test_a_mission_with_arrays_a_tank_two_arms_and_linkages() -> None:
    """The base's laws stop the tumble while arrays ring and propellant sloshes; momentum, energy and loops are kept."""
    data = tomllib.loads((EXAMPLES / "flexible-mission.toml").read_text())
    for stage in ("identify", "decide", "stow", "eject"):
        del data[stage]
    result = run_document(data, folder=EXAMPLES)
    assert result.sound
    assert result.certificate["loops"].value < 1e-10
    rows = {row.quantity: row.value for row in result.rows}
    assert rows["success"] == 1.0
    assert rows["margin"] > 0.05
    data["actuators"]["second_arm"] = []
    braked = {row.quantity: row.value for row in run_document(data, folder=EXAMPLES).rows}
    assert rows["approach.base_rotation"] < 0.3 * braked["approach.base_rotation"]
    figures = {figure.name: figure.caption for figure in result.figures}
    assert "fuel.slosh" in figures["modes-slides"] or "array" in figures["modes-slides"]


def test_a_mission_draws_propellant() -> None:
    """What thrusters spend in detumbling leaves the tank."""
    data = tomllib.loads((EXAMPLES / "flexible-mission.toml").read_text())
    for stage in ("identify", "decide", "stow", "eject"):
        del data[stage]
    data["detumble"]["actuator"], data["limits"]["propellant"] = "thrusters", 1.0
    session = Session(EXAMPLES)
    robot = session.robot(study_file(data).robot, loops=True)
    fed = robot.replace(thrusters=tuple(replace(part, tank="fuel") for part in robot.thrusters))
    data["robot"] = "fed"
    found = study_file(data).solve(replace(session, robots={"fed": fed}))
    assert found.run.sound
    assert [each.stage for each in found.outcomes][-1] == "detumble"
    changes = [entry.changed for entry in found.run.changes if "propellant" in entry.text]
    assert sum(each.exhaust[:, 0].sum() for each in changes) == pytest.approx(found.flight.spent, rel=1e-9)
    left = changes[-1].world.systems[robot.name].tanks[0].mass
    assert found.flight.spent > 1e-3
    assert left == pytest.approx(60.0 - found.flight.spent, rel=1e-12)


def finger_angle(slide: float) -> float:
    """Of the linkage grippers' fingers, rad: rods of sqrt(0.0032) m from the slide to levers of 20 mm, 60 mm aside."""
    # |(0.06 - 0.02 cos q, 0.04 - slide + 0.02 sin q)|^2 = 0.0032
    rise = 0.04 - slide
    a, b, c = 2.0 * 0.06 * 0.02, -2.0 * rise * 0.02, 0.06**2 + 0.02**2 + rise**2 - 0.0032
    return float(np.arccos(c / np.hypot(a, b)) + np.arctan2(b, a))


def gripper_body(slide: float) -> Inertia:
    """The gripper of robots/gripper.toml as one rigid body: the masses of its parts, and the angle of its fingers."""
    whole = Inertia(2.0, (0.0, 0.0, 0.05), np.diag([0.006, 0.006, 0.004]))
    whole += Inertia(0.2, (0.0, 0.0, 0.06 + slide), np.diag([1e-4] * 3))
    for side in (1.0, -1.0):
        s, c = side * np.sin(finger_angle(slide)), np.cos(finger_angle(slide))
        turn = np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])
        finger = turn @ np.diag([5e-4, 5e-4, 1e-4]) @ turn.T
        whole += Inertia(0.3, (side * 0.06 + 0.06 * s, 0.0, 0.1 + 0.06 * c), finger)
    return whole


@pytest.mark.parametrize("slide", [0.0, 0.02])
def test_a_linkage_is_rigid_where_what_drives_it_is_frozen(slide: float) -> None:
    frozen = Session(EXAMPLES).robot({"file": "robots/gripper.toml", "freeze": {"pull": slide}})
    assert frozen.n == 0
    assert not frozen.loops
    np.testing.assert_allclose(frozen.bodies[0].inertia.parameters, gripper_body(slide).parameters, atol=1e-12)


FROZEN = {"file": "robots/flexible-servicer.toml", "freeze": {"left pull": 0.01}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (FROZEN, "has closed loops: this study supports trees only.*freeze"),
        ({**FROZEN, "freeze": {"left pul": 0.0}}, "freeze: there is no joint 'left pul'"),
        ({**FROZEN, "freeze": {"left pull": 0.5}}, "freeze.*cannot be closed from there"),
        ({"file": FROZEN["file"], "freeze_deg": {"left pull": 0.5}}, "prismatic and cannot be given in degrees"),
    ],
)
def test_what_cannot_be_frozen_has_a_place(table: dict[str, object], message: str) -> None:
    with pytest.raises(SpacearmError, match=message):
        Session(EXAMPLES).robot(table)


def test_a_campaign_varies_a_robot_that_it_freezes(tmp_path: Path) -> None:
    gripper = EXAMPLES / "robots" / "gripper.toml"
    (tmp_path / "run.toml").write_text(
        f'study = "motion"\nrobot = {{ file = "{gripper}", freeze = {{ pull = 0.02 }} }}\n[start]\n'
        "angular_velocity = [0.0, 0.1, 0.0]\n[[phase]]\nduration = 1.0\n"
    )
    (tmp_path / "campaign.toml").write_text(
        'scenario = "run.toml"\nruns = 1\nrows = ["end.*"]\n'
        '[[vary]]\nkey = "robot.body[finger1].mass"\ndeviation = 0.01\n'
    )
    outcome = run_one(CampaignPlan.read(tmp_path / "campaign.toml"), 0, 0)
    assert outcome.status == "sound", outcome.reason
    assert not any(name.startswith("end.joint") for name in outcome.values)


def test_maps_and_missions_fly_linkage_grippers(tmp_path: Path) -> None:
    """The example's first cell flies as the same servicer with a gripper that is one rigid body."""
    map_file = tomllib.loads((EXAMPLES / "gripper-map.toml").read_text())
    case = map_file["axis"][0]["cases"]["open"]
    data = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for stage in map_file["without"]:
        del data[stage]
    linkage = run_document({**data, **case}, folder=EXAMPLES)
    body = Body("claw", gripper_body(0.02))
    servicer = edit.attach(catalogue.load("servicer"), "gripper", body)
    save(servicer, tmp_path / "rigid.toml")
    rigid = run_document({**data, "robot": str(tmp_path / "rigid.toml")}, folder=EXAMPLES)
    assert linkage.sound
    found, expected = ({row.quantity: row.value for row in result.rows} for result in (linkage, rigid))
    assert found["success"] == expected["success"] == 1.0
    assert found["margin"] == pytest.approx(expected["margin"], abs=1e-6)
    assert found["end.time"] == pytest.approx(expected["end.time"], abs=1e-6)
    # The cell of the open gripper that tumbles as in mission.toml.
    outcome = run_one(CampaignPlan.read(EXAMPLES / "gripper-map.toml", runs=1), 3, 0)
    assert outcome.status == "sound"


def test_a_servicer_catches_turns_and_burns() -> None:
    """Arrays, tanks, two arms with linkage grippers, a latch and propellant that is used, in one run."""
    document = tomllib.loads((EXAMPLES / "flexible-servicer.toml").read_text())
    _, found = solve_document(document, Session(EXAMPLES, False, lambda share, what: None, {}))
    run = found.whole
    assert run.sound
    left = run.last_track("servicer").robots[-1][1]
    used = 10.0 * 10.0 / (225.0 * STANDARD_GRAVITY)
    assert left.tanks[0].mass == pytest.approx(70.0 - used, rel=1e-12)
    end = dict(zip(left.joint_names, run.ends["servicer"].joints.tolist(), strict=True))
    # The slide draws both fingers alike, as far as the rods' directions allow; the other gripper rests.
    assert end["left finger1"] == pytest.approx(-end["left finger2"], rel=1e-3)
    start = dict(zip(left.joint_names, run.start["servicer"].joints.tolist(), strict=True))
    # The rod with the slide at 20 mm: 3 cos q - sin q = 1.5.
    assert start["left finger1"] == pytest.approx(np.arccos(1.5 / np.sqrt(10.0)) - np.arctan(1.0 / 3.0), abs=1e-12)
    assert 0.2 < end["left finger1"] < 0.6
    assert end["right finger1"] == pytest.approx(0.0, abs=1e-6)
    assert abs(end["oxidiser.slosh_x"]) > 1e-3
    assert run.certificate["loops"].value < 1e-9


CLAW = {"file": "robots/gripper.toml", "frame": "gripper", "prefix": "claw "}


def test_a_mission_with_a_linkage_gripper() -> None:
    """The linkage flies as it is, its joints held by brakes and its loops closed, to the last margin as if frozen."""
    data = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for stage in ("settle", "detumble", "identify", "decide", "stow", "eject"):
        data.pop(stage, None)
    data["robot"] = {"file": "servicer", "mount": [CLAW]}
    data["start"]["joints"] = {"claw pull": 0.01}
    found = solve_document(data, Session(EXAMPLES))[1]
    run = found.run
    assert run.sound
    assert run.certificate["loops"].value < 1e-12
    del data["start"]["joints"]
    data["robot"]["freeze"] = {"claw pull": 0.01}
    frozen = solve_document(data, Session(EXAMPLES))[1]
    numbers, rigid = ({row.quantity: row.value for row in make_rows(each)} for each in (found, frozen))
    assert numbers["catch.success"] == 1.0
    assert {name for name in numbers if "margin" in name} == {name for name in rigid if "margin" in name}
    for name, value in rigid.items():
        if isinstance(value, float):
            assert numbers[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name


def test_a_linkage_is_not_driven_by_a_mission() -> None:
    data = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    data["robot"] = {"file": "servicer", "mount": [CLAW]}
    data["actuators"]["arm"] = [*(f"joint{k}" for k in range(1, 8)), "claw pull"]
    with pytest.raises(SpacearmError, match=r"actuators.*'claw pull' is part of a closed loop.*brakes hold"):
        solve_document(data, Session(EXAMPLES))
