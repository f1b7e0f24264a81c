"""The same ejections with MuJoCo's dynamics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.ejection import Ejection, Rig, SeparationDevice, eject
from spacearm.ejection.verify import check_in_mujoco, friction_laws
from spacearm.model import Friction, Inertia
from spacearm.simulate.run.run import Track


@pytest.mark.parametrize("number", range(1, 6))
@pytest.mark.parametrize("case", ["frictionless", "viscous", "replayed"])
def test_mujoco_agrees(rig: Rig, number: int, case: str) -> None:
    if case != "replayed":
        rig = rig.with_joints(friction=None, damping=0.0 if case == "frictionless" else None)
    run = eject(rig, f"attitude{number}", flight=3.0, sample=0.05)
    found = check_in_mujoco(run)
    assert found.was_run, found.reason
    assert found.largest < 1e-6, str(found)


def test_mujoco_agrees_in_space_with_a_satellite_and_a_rough_rail(space: Rig) -> None:
    satellite = Inertia(400.0, np.array([0.1, 0.05, -0.5]), np.diag([60.0, 70.0, 80.0]))
    device = SeparationDevice(812.7, 0.086, 2, friction=Friction(5.0, 3.0), damping=2.0, satellite=satellite)
    run = eject(Rig(space.arm, device), [0.3, 0.8, -0.4, -1.0, 0.5, 0.6, 0.1], flight=2.0, sample=0.05)
    assert check_in_mujoco(run).largest < 1e-6
    assert friction_laws(run) < 1e-9


def test_a_wrong_history_is_noticed(rig: Rig) -> None:
    """The comparison can fail: without friction's torques MuJoCo goes elsewhere."""
    run = eject(rig, "attitude2", flight=1.0, sample=0.05)
    assert check_in_mujoco(run, friction=False).largest > 1e-3


def tampered(ejection: Ejection, which: Track, **changes: Any) -> Ejection:
    tracks = tuple(replace(track, **changes) if track is which else track for track in ejection.run.tracks)
    return replace(ejection, run=replace(ejection.run, tracks=tracks))


def test_checks_can_fail(rig: Rig) -> None:
    """Samples that were tampered with: momentum, energy ledger and friction's laws notice."""
    run = eject(rig, "attitude2", flight=3.0)
    assert run.sound
    n = rig.arm.n
    states = run.flight.integrated.copy()
    states[-1, 9 + n] *= 1.0 + 1e-7  # the base's velocity along the rail
    wrong = tampered(run, run.flight, integrated=states)
    assert not wrong.certificate["momentum"].sound
    assert not wrong.sound
    assert run.flight.ledger is not None
    account = replace(run.flight.ledger, friction=run.flight.ledger.friction * (1.0 + 1e-7))
    wrong = tampered(run, run.flight, ledger=account)
    assert not wrong.certificate["ledger"].sound
    outputs = 10.0 * run.rail.outputs  # joint 6 holds a small part of its friction
    assert friction_laws(tampered(run, run.rail, outputs=outputs)) > 0.01
    lazy = tampered(run, run.rail, inputs=0.5 * run.rail.inputs)
    assert friction_laws(lazy) > 0.1
