"""Virtual masses: the paper's example in closed form, maps against ellipsoids, batches against single calls."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.impact import even_sphere, impact_point, mass_ellipsoid, virtual_mass
from spacearm.impact.virtual_mass import circle, plane_basis, sphere
from spacearm.model import catalogue

CASES = {"fixed": {"locked": "all"}, "free": {}, "half": {"resistance": 0.5}}


@pytest.mark.parametrize(
    ("case", "heavy", "direction", "light"),
    [("fixed", 3.0, np.degrees(np.arctan2(5.0, 4.0)), 0.95), ("free", 9 / 7, 90.0, 9 / 28)],
)
def test_the_papers_chain_in_closed_form(case: str, heavy: float, direction: float, light: float) -> None:
    tensor = impact_point(catalogue.load("yoshida1992"), "hand").tensor("L", **CASES[case])
    ellipse = mass_ellipsoid(tensor, (0, 0, 1))
    np.testing.assert_allclose(ellipse.masses, [heavy, light], rtol=1e-12)
    x, y = ellipse.axes[:2, 0]
    assert np.degrees(np.arctan2(y, x)) % 180 == pytest.approx(direction, abs=1e-9)


def test_half_resistance_lies_between_everywhere_and_psi_vanishes_at_every_peak() -> None:
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    angles, directions = circle(3601, half=True)
    maps = {name: virtual_mass(point.acceleration(directions, "L", **kw), directions) for name, kw in CASES.items()}
    assert np.all(maps["free"].absolute < maps["half"].absolute)
    assert np.all(maps["half"].absolute < maps["fixed"].absolute)
    for name, found in maps.items():
        ellipse = mass_ellipsoid(point.tensor("L", **CASES[name]), (0, 0, 1))
        peak = virtual_mass(point.acceleration(ellipse.axes[:, 0], "L", **CASES[name]), ellipse.axes[:, 0])
        assert peak.angle == pytest.approx(0.0, abs=1e-12)
        assert peak.absolute == pytest.approx(ellipse.masses[0], rel=1e-12)
        assert found.absolute.max() == pytest.approx(ellipse.masses[0], rel=1e-5)
        signed = found.signed_angle((0, 0, 1))
        assert np.sum(np.diff(np.sign(signed)) != 0) >= 1
        assert np.abs(signed).max() < np.pi / 2
    assert 51.35 < np.degrees(angles[maps["half"].absolute.argmax()]) < 90.0


@pytest.mark.parametrize("case", CASES)
def test_psi_is_counted_from_force_to_acceleration(case: str) -> None:
    """As angles in the plane: that of the acceleration less that of the force, positive from x towards y."""
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    angles, directions = circle(37, half=True)
    a = directions @ point.tensor("L", **CASES[case])[:3, :3].T
    found = virtual_mass(point.acceleration(directions, "L", **CASES[case]), directions)
    want = (np.arctan2(a[:, 1], a[:, 0]) - angles + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(found.signed_angle((0, 0, 1)), want, atol=1e-12)
    np.testing.assert_allclose(found.signed_angle((0, 0, -1)), -want, atol=1e-12)
    assert want.min() < -0.4
    assert want.max() > 0.4


def test_between_everywhere_is_a_law_for_the_projected_mass_only() -> None:
    """The paper says that half resistance always lies between. Its own chain, bent otherwise, is a counterexample."""
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    rng = np.random.default_rng(0)
    joints, angle = rng.uniform(-np.pi, np.pi, (20000, 2)), rng.uniform(0.0, np.pi, 20000)
    n = np.stack([np.cos(angle), np.sin(angle), 0.0 * angle], axis=-1)
    free, half, fixed = (virtual_mass(point.acceleration(n, joints, resistance=mu), n) for mu in (0.0, 0.5, 1.0))
    assert np.all(free.projected <= half.projected * (1 + 1e-12))
    assert np.all(half.projected <= fixed.projected * (1 + 1e-12))
    beyond = half.absolute > 1.01 * np.maximum(free.absolute, fixed.absolute)
    assert 0.001 < beyond.mean() < 0.05
    assert np.any(free.absolute > 1.01 * fixed.absolute)


def test_masses_are_force_over_acceleration_and_not_what_equation_18_prints() -> None:
    point = impact_point(catalogue.load("xu2017"), "hand")
    block = point.tensor("normal")[:3, :3]
    n = even_sphere(50)
    found = virtual_mass(point.acceleration(n, "normal"), n)
    a = n @ block.T
    np.testing.assert_allclose(found.absolute, 1 / np.linalg.norm(a, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(found.projected, 1 / np.sum(a * n, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(found.absolute, found.projected * np.cos(found.angle), rtol=1e-10)
    k = a / np.linalg.norm(a, axis=-1, keepdims=True)
    printed = 1 / np.einsum("ni,ij,nj->n", k, block, k)
    assert np.abs(printed / found.absolute - 1).max() > 0.05
    assert np.all(found.projected >= found.absolute * (1 - 1e-12))


def test_the_ellipsoid_bounds_every_map_and_is_the_polar_curve() -> None:
    point = impact_point(catalogue.load("cai2023"), "hand")
    for options in ({}, {"resistance": np.linspace(0, 0.6, 7)}):
        tensor = point.tensor("attitude1", **options)
        ellipsoid = mass_ellipsoid(tensor)
        _, _, n = sphere(181, 361)
        found = virtual_mass(point.acceleration(n, "attitude1", **options), n)
        assert found.absolute.max() <= ellipsoid.masses[0] * (1 + 1e-12)
        assert found.absolute.max() == pytest.approx(ellipsoid.masses[0], rel=1e-3)
        assert found.absolute.min() == pytest.approx(ellipsoid.masses[2], rel=1e-3)
        # m_a n lies on the ellipsoid: |diag(1 / masses) axes^T m_a n| = 1
        on = (found.absolute[..., None] * n) @ ellipsoid.axes / ellipsoid.masses
        np.testing.assert_allclose(np.linalg.norm(on, axis=-1), 1.0, rtol=1e-10)
        carried = tensor[:3, :3] @ ellipsoid.axes * ellipsoid.masses
        np.testing.assert_allclose(carried, ellipsoid.acceleration_axes, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"resistance": [0.9, 0.1, 0.6, 0.0, 0.3, 0.8]}])
def test_an_ellipse_in_a_tilted_plane_is_the_map_over_that_plane(options: dict[str, object]) -> None:
    """Of a robot that does not keep to the plane: the acceleration leaves it, and counts as a whole."""
    point = impact_point(catalogue.load("xu2017"), "hand")
    tensor = point.tensor("normal", **options)
    normal = np.array([1.0, 2.0, -0.5])
    ellipse = mass_ellipsoid(tensor, normal)
    _, directions = circle(7201, normal, half=True)
    found = virtual_mass(point.acceleration(directions, "normal", **options), directions).absolute
    np.testing.assert_allclose([found.max(), found.min()], ellipse.masses, rtol=1e-6)
    assert np.all(found <= ellipse.masses[0] * (1 + 1e-12))
    assert np.all(found >= ellipse.masses[1] * (1 - 1e-12))
    carried = tensor[:3, :3] @ ellipse.axes * ellipse.masses
    np.testing.assert_allclose(carried, ellipse.acceleration_axes, atol=1e-9)
    assert np.abs(normal @ ellipse.acceleration_axes).max() > 0.01
    points = ellipse.surface()
    assert np.abs(points @ normal).max() < 1e-9
    assert np.linalg.norm(points, axis=-1).max() == pytest.approx(ellipse.masses[0], rel=1e-12)
    with pytest.raises(InputError, match="single curve"):
        mass_ellipsoid(tensor).surface()
    with pytest.raises(InputError, match=r"tensor.*expected"):
        mass_ellipsoid(np.eye(2))
    with pytest.raises(InputError, match=r"tensor.*finite"):
        mass_ellipsoid(np.full((6, 6), np.nan))


def test_many_configurations_at_once_are_the_single_ones() -> None:
    point = impact_point(catalogue.load("xu2017"), "hand")
    rng = np.random.default_rng(4)
    joints, n = rng.uniform(-2, 2, (500, 6)), even_sphere(500)
    a = point.acceleration(n, joints, resistance=0.25)
    for i in range(0, 500, 83):
        np.testing.assert_allclose(a[i], point.tensor(joints[i], resistance=0.25)[:3, :3] @ n[i], rtol=1e-11)


def test_directions() -> None:
    angles, n = circle(5)
    np.testing.assert_allclose(np.degrees(angles), [0, 90, 180, 270, 360])
    np.testing.assert_allclose(n[1], [0, 1, 0], atol=1e-15)
    for normal in np.eye(3):
        basis = plane_basis(normal)
        np.testing.assert_allclose(np.cross(basis[:, 0], basis[:, 1]), normal, atol=1e-15)
    _, _, grid = sphere(7, 9)
    assert grid.shape == (7, 9, 3)
    even = even_sphere(2000)
    np.testing.assert_allclose(np.linalg.norm(even, axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(even.mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(even.T @ even / 2000, np.eye(3) / 3, atol=1e-3)


@pytest.mark.parametrize("wrong", [[0, 0, 0], [np.nan, 0, 1], [np.inf, 0, 0], [[0, 0, 1], [0, 0, 0]], [1, 2], 3.0, "x"])
def test_a_direction_must_be_one(wrong: object) -> None:
    with pytest.raises(InputError, match="direction"):
        impact_point(catalogue.load("yoshida1992"), "hand").acceleration(wrong, "L")  # type: ignore[arg-type]


def test_tiny_and_huge_directions_are_directions() -> None:
    point = impact_point(catalogue.load("yoshida1992"), "hand")
    want = point.acceleration([0, 3, 4], "L")
    for factor in (1e-200, 1e-310, 1e200):
        np.testing.assert_allclose(point.acceleration(np.array([0, 3, 4]) * factor, "L"), want, rtol=1e-9)


def test_too_few_directions() -> None:
    for make in (circle, even_sphere):
        with pytest.raises(InputError, match="number of directions"):
            make(1)
