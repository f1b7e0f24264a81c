"""Scenarios with several systems: contacts, latch, orbit, stops, and what is wrong with them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.model import Body, CollisionShape, Inertia, Pose, Robot, save
from spacearm.study.scenario import run_document
from support import ROOT

EXAMPLE = ROOT / "examples" / "probe-nozzle.toml"


def document(**changes: Any) -> dict[str, Any]:
    return {**tomllib.loads(EXAMPLE.read_text(encoding="utf-8")), **changes}


def test_a_probe_is_caught_in_a_nozzle() -> None:
    result = run_document(document(), folder=EXAMPLE.parent)
    rows = {row.quantity: row for row in result.rows}
    assert result.certificate.sound
    assert "third_law" in result.certificate
    assert rows["touch.probe.1.peak_force"].value > 0.0
    assert rows["touch.probe.1.impulse.x"].value > 0.0  # the target is pushed back
    assert any("target attached to hand; probe ended" in str(event) for event in result.settings["events"])
    caught = float(next(event for event in result.settings["events"] if "gate" in event).split()[0])
    last = max(name for name in rows if name.startswith("touch.probe.") and name.endswith(".start"))  # still closed
    lasting = rows[last.replace("start", "duration")].value
    assert lasting == pytest.approx(caught - rows[last].value, abs=1e-6)
    assert rows["end.time"].value == pytest.approx(caught + 5.0)


def test_a_target_is_held_softly() -> None:
    latch = {**document()["latch"], "stiffness": [2e3] * 3 + [300.0] * 3, "damping": [200.0] * 3 + [50.0] * 3}
    result = run_document(document(latch=latch), folder=EXAMPLE.parent)
    assert result.certificate.sound
    assert any("latch connects hand and target/nozzle" in str(event) for event in result.settings["events"])


@pytest.mark.parametrize("soft", [{}, {"stiffness": [2e3] * 3 + [300.0] * 3, "damping": [200.0] * 3 + [50.0] * 3}])
def test_a_target_is_let_go_again(soft: dict[str, Any]) -> None:
    phases = [*document()["phase"], {"name": "apart", "duration": 2.0}]
    latch = {**document()["latch"], **soft, "release": "apart"}
    result = run_document(document(latch=latch, phase=phases), folder=EXAMPLE.parent)
    assert result.certificate.sound
    ends = [event for event in result.settings["events"] if "target detached" in event or "latch removed" in event]
    assert len(ends) == 1
    with pytest.raises(InputError, match=r"latch.*release.*there is no phase 'apat'"):
        run_document(document(latch={**latch, "release": "apat"}, phase=phases), folder=EXAMPLE.parent)


def test_contacts_take_collision_shapes_from_robot_files(tmp_path: Path) -> None:
    shapes = [CollisionShape("sphere", np.array([0.1]), Pose(translation=np.array([0.0, y, 0.0]))) for y in (-0.2, 0.2)]
    base = Body("bus", Inertia(50.0, tensor=5.0 * np.eye(3)), (), tuple(shapes))
    save(Robot("pair", (base,), ()), tmp_path / "pair.toml")
    file = {
        "study": "motion",
        "robot": "pair.toml",
        "system": [
            {"name": "other", "robot": "pair.toml", "start": {"position": [0.5, 0, 0], "velocity": [-0.5, 0, 0]}}
        ],
        "contact": [
            {"name": "hit", "stiffness": 1e5, "first": {"frame": "pair/bus", "kind": "collision"},
             "second": {"frame": "other/bus", "kind": "collision"}}
        ],
        "phase": [{"duration": 1.0}],
    }  # fmt: skip
    rows = {row.quantity: row.value for row in run_document(file, folder=tmp_path).rows}
    starts = {name: value for name, value in rows.items() if name.startswith("touch") and name.endswith("start")}
    assert starts == pytest.approx({"touch.hit.1.1.start": 0.6, "touch.hit.4.2.start": 0.6})  # of four pairs two meet
    file["contact"][0]["second"] = {"frame": "target", "kind": "collision"}  # type: ignore[index]
    with pytest.raises(InputError, match=r"contact\[0\]: second: there is no frame 'target'"):
        run_document(file, folder=tmp_path)


def test_what_is_wrong_with_surroundings_is_told(tmp_path: Path) -> None:
    good = document()
    (contact,) = good["contact"]

    def notes(match: str, **changes: Any) -> None:
        with pytest.raises(InputError, match=match):
            run_document(document(**changes), folder=tmp_path)

    notes(r"there is no frame 'nose'", contact=[{**contact, "first": {**contact["first"], "frame": "nose"}}])
    notes(r"'radius' of a sphere is missing", contact=[{**contact, "first": {"frame": "hand", "kind": "sphere"}}])
    notes(r"'mouth' does not apply", contact=[{**contact, "first": {**contact["first"], "mouth": 1.0}}])
    notes(r"'hand' has no collision shapes", contact=[{**contact, "first": {"frame": "hand", "kind": "collision"}}])
    notes(r"'radius' does not apply", contact=[{**contact, "first": {**contact["first"], "kind": "collision"}}])
    notes(r"restitution", contact=[{**contact, "restitution": 2.0}])
    notes(r"a second system is called 'target'", system=[*good["system"], *good["system"]])
    notes(r"neither 'robot' nor 'body'", system=[{"name": "target"}])
    notes(r"there is no system 'debris'", latch={**good["latch"], "guest": "debris"})
    notes(r"latch.*stiffness", latch={**good["latch"], "stiffness": [1.0]})
    notes(r"contact: has 101 entries", contact=[contact] * 101)
    notes(r"penetration", contact=[{**contact, "first": {**contact["first"], "radius": 0.5}}])
    notes(r"has no limits|there is no joint", stops={"joints": ["elbow"], "stiffness": 1e4})
