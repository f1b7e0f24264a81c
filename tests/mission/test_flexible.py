"""Servicers that bend and slosh: a mission with arrays and a tank, and one run with all that is no rigid tree."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import numpy as np
import pytest

from spacearm import load
from spacearm.engine import Mechanics
from spacearm.model.parts import STANDARD_GRAVITY
from spacearm.study import Session
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


def test_a_mission_with_arrays_and_a_tank() -> None:
    """The base's laws stop the tumble while arrays ring and propellant sloshes; momentum and energy are kept."""
    data = tomllib.loads((EXAMPLES / "flexible-mission.toml").read_text())
    for stage in ("identify", "decide", "stow", "eject"):
        del data[stage]
    result = run_document(data, folder=EXAMPLES)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    assert rows["success"] == 1.0
    assert rows["margin"] > 0.05
    figures = {figure.name: figure.caption for figure in result.figures}
    assert "fuel.slosh" in figures["modes-slides"] or "array" in figures["modes-slides"]


def test_a_mission_draws_propellant() -> None:
    """What thrusters spend in detumbling leaves the tank."""
    data = tomllib.loads((EXAMPLES / "flexible-mission.toml").read_text())
    for stage in ("identify", "decide", "stow", "eject"):
        del data[stage]
    data["detumble"]["actuator"], data["limits"]["propellant"] = "thrusters", 1.0
    session = Session(EXAMPLES)
    robot = session.robot(study_file(data).robot)
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
    assert end["left finger1"] > 0.2
    assert end["right finger1"] == pytest.approx(0.0, abs=1e-6)
    assert abs(end["oxidiser.slosh_x"]) > 1e-3
    assert run.certificate["loops"].value < 1e-9
