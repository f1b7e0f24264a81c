"""A target from a robot file is the rigid body that its parts are together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.missions import SHORT, flown, rows

from spacearm.errors import InputError

#: A stage with a nozzle on a braked gimbal, turned by 90 deg: its y axis is then the stage's -x axis.
STAGE = """
[robot]
name = "stage"
base = "hull"

[[body]]
name = "hull"
mass = 120.0
inertia = [28.0, 24.0, 20.0]
collision = [{ shape = "cylinder", size = [0.4, 1.0] }]

[[body]]
name = "nozzle"
mass = 30.0
com = [0.0, 0.1, 0.0]
inertia = [1.0, 2.0, 3.0]

[[joint]]
name = "gimbal"
kind = "revolute"
parent = "hull"
child = "nozzle"
origin = { xyz = [0.2, 0.0, 0.0] }
axis = [0, 0, 1]

[[frame]]
name = "ring"
body = "hull"
origin = { xyz = [-0.6, 0.0, 0.0], rpy_deg = [0, -90, 0] }

[configurations_deg]
parked = [90]
"""
QUICK = {**SHORT, "settle": None, "detumble": None, "catch__duration": 1.0, "clearance": None}
MOTION = {"closing_speed": 0.02, "tumble_deg": [2.0, -3.0, 1.5]}


def composite() -> dict[str, Any]:
    """The same by hand: masses, mass centres and inertias about their common mass centre."""
    masses, places = np.array([120.0, 30.0]), np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    # Turned by 90 deg about z, the nozzle's moments about x and y change places.
    own = np.array([np.diag([28.0, 24.0, 20.0]), np.diag([2.0, 1.0, 3.0])])
    centre = masses @ places / masses.sum()
    tensor = sum(
        inertia + mass * (r @ r * np.eye(3) - np.outer(r, r))
        for inertia, mass, r in zip(own, masses, places - centre, strict=True)
    )
    return {"mass": 150.0, "com": list(centre), "inertia": list(np.diag(np.asarray(tensor)))}


def test_it_moves_as_its_parts_together(tmp_path: Path) -> None:
    file = tmp_path / "stage.toml"
    file.write_text(STAGE)
    by_file = flown(**QUICK, target={
        **MOTION, "robot": str(file), "configuration": "parked", "grasp_frame": "ring",
    })  # fmt: skip
    grasp = {"position": [-0.6, 0.0, 0.0], "rpy_deg": [0.0, -90.0, 0.0]}
    by_hand = flown(**QUICK, target={**MOTION, **composite(), "grasp": grasp})
    assert by_file.is_successful
    for name, value in rows(by_hand).items():
        if isinstance(value, float):
            assert rows(by_file)[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
    assert by_file.flight.table.reference_robot.bodies[0].collisions[0].shape == "cylinder"


def test_a_target_without_mass_is_refused() -> None:
    with pytest.raises(InputError, match="target: mass: has no mass"):
        flown(**QUICK, target=MOTION)
