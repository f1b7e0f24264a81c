"""Equivalent ejection mass against dense algebra, bounds and the paper's table."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.ejection import Rig, SeparationDevice, equivalent_mass, reduce_to_plane
from spacearm.ejection.mass import joint_free_bound
from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model import Inertia, catalogue

FROZEN = ("joint1", "joint3", "joint5", "joint7")
#: Table III: (plane, joint 4 free), kg.
TABLE = {1: (48.73, 53.47), 2: (33.05, 83.74), 3: (33.76, 53.45), 4: (44.95, 56.47), 5: (84.87, 85.91)}


@pytest.mark.parametrize("direction", [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (2.0, -1.0, 2.0)])
def test_any_rail_and_any_free_joints_against_the_dense_formula(direction: tuple[float, ...]) -> None:
    arm = catalogue.load("cai2023")
    unit = np.array(direction) / np.linalg.norm(direction)
    rig = Rig(arm, SeparationDevice(812.7, 0.086, 2, direction=unit))
    draw = np.random.default_rng(1)
    joints = draw.uniform(-1.5, 0.0, (40, 7))
    free = draw.integers(0, 2, (40, 7)).astype(float)
    matrix = Mechanics(arm).mass_matrix(joints)
    found = equivalent_mass(rig, joints, free)
    for k in range(40):
        kept = np.flatnonzero(free[k])
        coupling = matrix[k, 6:, :3] @ unit
        expected = arm.mass
        if kept.size:
            inner = matrix[k][np.ix_(6 + kept, 6 + kept)]
            expected -= coupling[kept] @ np.linalg.solve(inner, coupling[kept])
        assert found[k] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(equivalent_mass(rig, joints, []), arm.mass, rtol=1e-14)


def test_a_satellite_that_recoils_makes_the_reduced_mass() -> None:
    arm = catalogue.load("cai2023")
    satellite = Inertia(200.0, np.array([0.0, 0.1, -0.4]), np.diag([30.0, 35.0, 40.0]))
    rig = Rig(arm, SeparationDevice(812.7, 0.086, 2, satellite=satellite))
    joints = np.random.default_rng(2).uniform(-1.5, 0.0, (10, 7))
    matrix = Mechanics(rig.mounted_robot).mass_matrix(np.concatenate([np.zeros((10, 1)), joints], axis=1))
    expected = [1.0 / np.linalg.inv(part)[6, 6] for part in matrix]
    np.testing.assert_allclose(equivalent_mass(rig, joints), expected, rtol=1e-11)
    heavy = Rig(arm, SeparationDevice(812.7, 0.086, 2))
    assert np.all(equivalent_mass(rig, joints) < equivalent_mass(heavy, joints))


@pytest.mark.parametrize("number", range(1, 6))
def test_the_surrogate_has_the_masses_of_table_three(rig: Rig, number: int) -> None:
    joints = rig.arm.configuration(f"attitude{number}")
    plane, joint4 = TABLE[number]
    assert equivalent_mass(rig, joints) == pytest.approx(plane, rel=0.03)
    assert equivalent_mass(rig, joints, ["joint4"]) == pytest.approx(joint4, rel=0.003)


def test_the_printed_tables_cannot_give_table_three() -> None:
    rig = Rig(reduce_to_plane(catalogue.load("cai2023_printed"), FROZEN), SeparationDevice(812.7, 0.086, 2), "y")
    assert rig.arm.mass == pytest.approx(116.899, abs=1e-3)
    assert equivalent_mass(rig, rig.arm.configuration("zero")) == pytest.approx(116.2, abs=0.05)
    bound = joint_free_bound(rig, "joint4")
    assert bound == pytest.approx(69.8, abs=0.05)
    joints = np.random.default_rng(3).uniform(-np.pi, np.pi, (20_000, 3))
    masses = equivalent_mass(rig, joints, ["joint4"])
    assert masses.min() > bound > 57.0
    # The bound is sharp: it is met when all mass beyond the joint sits in one point across the rail.
    assert masses.min() < 1.15 * bound


def test_freeing_joints_never_makes_it_heavier(space: Rig) -> None:
    joints = np.random.default_rng(5).uniform(-1.5, 0.0, (200, 7))
    few, more = equivalent_mass(space, joints, ["joint2"]), equivalent_mass(space, joints, ["joint2", "joint4"])
    assert np.all(more <= few + 1e-9)
    assert np.all(few <= space.arm.mass + 1e-9)


def test_other_inertias_and_wrong_inputs(rig: Rig) -> None:
    joints = rig.arm.configuration("attitude2")
    twice = equivalent_mass(rig, joints, inertia=2.0 * rig.arm.inertia_parameters)
    assert twice == pytest.approx(2.0 * float(equivalent_mass(rig, joints)), rel=1e-12)
    assert equivalent_mass(rig, joints, "joint4") == equivalent_mass(rig, joints, ["joint4"])
    with pytest.raises(InputError, match="no joint 'joint5'"):
        equivalent_mass(rig, joints, ["joint5"])
    with pytest.raises(InputError, match="mask"):
        equivalent_mass(rig, joints, np.array([0.5, 1.0, 1.0]))
    with pytest.raises(InputError, match="shape"):
        equivalent_mass(rig, joints[:2])
