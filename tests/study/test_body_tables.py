"""Rigid bodies of scenario files: how they are drawn, and the shapes by which they touch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.errors import InputError, SpacearmError
from spacearm.mission._encounter import MissionTargetTable
from spacearm.model import catalogue
from spacearm.model.document import validate_tables
from spacearm.study import run_document
from spacearm.study.tables import ShapedBodyTable

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
BODY = {
    "mass": 2.0,
    "inertia": [0.2, 0.2, 0.2],
    "visual": [{"shape": "sphere", "size": 0.3, "colour": "#336699"}],
    "collision": [{"shape": "sphere", "size": [0.3]}],
}


def test_a_further_system_has_visuals_and_collision_shapes() -> None:
    """A ball at 1 m/s meets a heavy one of the same size: they touch when their centres are two radii apart."""
    heavy = {**BODY, "mass": 2e6, "inertia": [2e5, 2e5, 2e5]}
    tables = {
        "study": "motion",
        "robot": "xu2017",
        "start": {"position": [0.0, 0.0, 50.0]},
        "system": [
            {"name": "ball", "body": BODY, "start": {"velocity": [1.0, 0.0, 0.0]}},
            {"name": "wall", "body": heavy, "start": {"position": [1.0, 0.0, 0.0]}},
        ],
        "contact": [
            {
                "first": {"frame": "ball/body", "kind": "collision"},
                "second": {"frame": "wall/body", "kind": "collision"},
                "stiffness": 1e5,
            }
        ],
        "phase": [{"duration": 0.6}],
    }
    result = run_document(tables, folder=Path())
    start = next(
        row.value for row in result.rows if row.quantity.startswith("touch") and row.quantity.endswith("start")
    )
    assert start == pytest.approx(1.0 - 0.6, rel=1e-6)
    shapes = [body.shapes for actor in result.scene.views[0].actors for body in actor.bodies if body.name == "body"]
    assert shapes[0][0].visual.shape == "sphere"
    assert shapes[0][0].colour == "#336699"


def test_a_target_is_drawn_with_its_visuals_and_a_box_without(tmp_path: Path) -> None:
    (tmp_path / "stage.obj").write_text(TETRAHEDRON)
    mesh = {"shape": "mesh", "mesh": "stage.obj"}
    table = validate_tables(MissionTargetTable, {**BODY, "visual": [mesh]}).locate_meshes(tmp_path)
    (visual,) = table.reference_robot.bodies[0].visuals
    assert visual.mesh == str(tmp_path / "stage.obj")
    assert len(table.reference_robot.bodies[0].collisions) == 1
    plain = validate_tables(MissionTargetTable, {"mass": 2.0, "inertia": [0.2, 0.2, 0.2], "size": [1.0, 2.0, 3.0]})
    (box,) = plain.reference_robot.bodies[0].visuals
    np.testing.assert_array_equal(box.size, [1.0, 2.0, 3.0])


def test_a_captured_target_keeps_its_visuals() -> None:
    robot = catalogue.load("zhang2020")
    tables = {
        "study": "capture",
        "robot": "zhang2020",
        "duration": 0.1,
        "hand": robot.frames[-1].name,
        "target": {**BODY, "collision": [], "velocity": [0.0, 0.0, -0.01]},
    }
    result = run_document(tables, folder=Path())
    shown = [s.visual.shape for a in result.scene.views[0].actors for b in a.bodies for s in b.shapes]
    assert "sphere" in shown


@pytest.mark.parametrize(
    "change",
    [
        {"visual": [{"shape": "box"}]},
        {"visual": [{"shape": "pyramid", "size": [1.0]}]},
        {"collision": [{"shape": "box", "size": [1.0]}]},
        {"visual": [{"shape": "sphere", "size": [-1.0]}]},
    ],
)
def test_shapes_that_cannot_be_are_told_with_their_place(change: dict[str, object]) -> None:
    with pytest.raises((InputError, SpacearmError), match=r"visual|collision"):
        validate_tables(ShapedBodyTable, {**BODY, **change}).body_of("ball", "body")
