"""A mission in an orbit identifies its target there too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.support.missions import flown, rows


def test_what_is_identified_in_an_orbit_is_within_its_deviations() -> None:
    """The orbit is ten times as fast as a low one: taken for none, the same record gives a wrong mass."""
    mission = flown(orbit=0.01, stow=None, eject=None)
    assert mission.run.sound
    found = mission.flight.identified
    assert found is not None
    assert found.converged
    truth = np.array([150.0, 0.02, -0.01, 0.0, 28.0, 24.0, 20.0, 0.0, 0.0, 0.0])
    assert np.all(np.abs(found.plain - truth) < 4.0 * found.std)
    assert abs(rows(mission)["identify.chi_square"] - 1.0) < 0.1
    known = mission.flight.identification
    assert known is not None
    blind = replace(known, clean=replace(known.clean, orbit=0.0)).repeat(1)
    assert abs(blind.mass - 150.0) > 10.0 * found.std[0]
