"""Missions: closed forms of capture and detumbling, margins, strategies."""

from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from tests.support import ROOT

from spacearm.mission.scenario import Mission
from spacearm.study import Session, rows_of, solve_document

EXAMPLES = ROOT / "examples"


def flown(**changes: Any) -> Mission:
    """The example with other keys: ``target__mass = 3.0``."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())
    for name, value in changes.items():
        *path, last = name.split("__")
        table = document
        for part in path:
            table = table.setdefault(part, {})
        table[last] = value
    found = solve_document(document, Session(EXAMPLES))[1]
    assert isinstance(found, Mission)
    return found


def test_the_example_keeps_its_limits_and_its_momentum() -> None:
    mission = flown()
    assert mission.succeeded
    assert mission.run.certificate is not None
    assert all(check.value <= 1e-8 for name, check in mission.run.certificate.items() if "momentum" in name)
    rows = {one.quantity: one.value for one in rows_of(mission)}
    for stage in ("approach", "touch", "catch", "settle", "detumble"):
        assert 0.0 <= rows[f"{stage}.margin"] <= 1.0


def test_the_base_rate_after_a_biased_capture_vanishes() -> None:
    """Wheels that hold the angular momentum of all leave none for the rest, once the arm stands still."""
    rest = {"settle__rate_deg": 0.002, "settle__slide": 1e-5, "detumble": None}
    rates = {s: flown(strategy=s, **rest).run.ends for s in ("matched", "biased")}
    spin = {s: np.linalg.norm(ends["servicer"].base_angular_velocity) for s, ends in rates.items() if ends}
    assert spin["biased"] < 1e-3 * spin["matched"]


def test_wheels_hold_the_momentum_that_was_there(wheels_only: Mission) -> None:
    outcome = wheels_only.outcomes[-1]
    assert outcome.success
    assert outcome.numbers["propellant"].value == 0.0
    left = outcome.numbers["momentum"].value - outcome.numbers["stored"].value
    assert abs(left) < 0.02 * outcome.numbers["momentum"].value


@pytest.fixture(scope="module")
def wheels_only() -> Mission:
    return flown(detumble__by="wheels", detumble__rate_deg=0.002)
