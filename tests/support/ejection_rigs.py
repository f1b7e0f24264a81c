"""The surrogate of Cai et al. (2023) on its air table, and in space."""

from __future__ import annotations

import pytest

from spacearm.ejection import Ejection, Rig, SeparationDevice, eject, reduce_to_plane
from spacearm.model import catalogue

FROZEN = ("joint1", "joint3", "joint5", "joint7")


@pytest.fixture(scope="session")
def rig() -> Rig:
    return Rig(reduce_to_plane(catalogue.load("cai2023"), FROZEN), SeparationDevice(812.7, 0.086, 2), "y")


@pytest.fixture(scope="session")
def space() -> Rig:
    return Rig(catalogue.load("cai2023"), SeparationDevice(812.7, 0.086, 2))


@pytest.fixture(scope="session")
def runs(rig: Rig) -> dict[int, Ejection]:
    return {n: eject(rig, f"attitude{n}") for n in range(1, 6)}
