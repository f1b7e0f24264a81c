"""Contacts of finite stiffness tend to the jumps."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError, SimulationError
from spacearm.impact import (
    FloatingSystem,
    build_system,
    collide,
    effective_mass,
    free_body,
    simulate_contact,
    solid_ball,
)
from spacearm.impact.contact import contact_convergence
from spacearm.model import catalogue

UNEQUAL = [0.2, 0.4, 0.0, 0.5, 0.1, 0.3]


def pair(locked: object = "none", resistance: object = 0.0) -> tuple[FloatingSystem, FloatingSystem]:
    rng = np.random.default_rng(12)
    robot = catalogue.load("xu2017")
    joints, velocity = rng.uniform(-1, 1, 6), rng.normal(size=12) * 0.2
    first = FloatingSystem(robot, "hand", joints, velocity=velocity, locked=locked, resistance=resistance)  # type: ignore[arg-type]
    body = free_body(25.0, [3.0, 4.0, 5.0], contact=[0.3, 0.1, 0.0])
    return first, build_system(
        body, "contact", velocity=[0.3, -0.4, 0.2], angular_velocity=[0.2, 0.1, -0.3]
    ).move_to_contact(first)


@pytest.mark.parametrize("kind", ["normal", "point", "grasp"])
@pytest.mark.parametrize("restitution", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("modes", [{}, {"locked": ["joint2", "joint5"]}, {"resistance": 0.5}, {"resistance": UNEQUAL}])
def test_velocities_impulse_and_reactions_converge(kind: str, restitution: float, modes: dict[str, object]) -> None:
    first, second = pair(**modes)
    normal = (second.twist - first.twist)[:3] + 0.05 if kind == "normal" else None
    found = contact_convergence(
        first,
        second,
        [1e3, 1e4, 1e5],
        kind=kind,
        normal=normal,
        restitution=restitution,  # type: ignore[arg-type]
    )
    assert found.error[-1] < 2e-3
    assert found.error[1] / found.error[0] == pytest.approx(0.1, rel=0.15)
    assert found.error[2] / found.error[1] == pytest.approx(0.1, rel=0.05)
    assert 0.95 < found.order < 1.05
    assert found.impulse_error[-1] < 2e-3
    last = found.runs[-1]
    scale = max(np.abs(found.jump.first.reaction).max(), 1e-3)
    assert np.abs(last.first_reaction - found.jump.first.reaction).max() < 2e-3 * scale
    for run in found.runs:
        assert run.energy_residual < 1e-10
        assert run.momentum_residual < 1e-12
    assert last.contact_work == pytest.approx(
        float(found.jump.contact_work), abs=2e-3 * float(found.jump.energy_before)
    )


def test_a_ball_against_a_ball_is_half_a_sine() -> None:
    """Bodies that do not turn have no error but that of the integrator: duration, peak force and speeds are exact."""
    left, right = (
        build_system(solid_ball(2.0), "contact", velocity=[1.0, 0, 0]),
        build_system(solid_ball(3.0), "contact"),
    )
    stiffness, mass = 5e4, 6.0 / 5.0
    assert effective_mass(left, right, normal=[-1, 0, 0])[0, 0] == pytest.approx(mass)
    omega = np.sqrt(stiffness / mass)
    for e in (0.4, 1.0):
        run = simulate_contact(left, right, stiffness=stiffness, normal=[-1, 0, 0], restitution=e)
        assert run.duration == pytest.approx(0.5 * np.pi / omega * (1 + e), rel=1e-9)
        assert run.wrench[:, 0].min() == pytest.approx(-np.sqrt(stiffness * mass), rel=1e-9)
        jump = collide(left, right, normal=[-1, 0, 0], restitution=e)
        np.testing.assert_allclose(run.first, jump.first.after, atol=1e-9)
        np.testing.assert_allclose(run.second, jump.second.after, atol=1e-9)
        assert run.contact_work == pytest.approx(float(jump.contact_work), rel=1e-8, abs=1e-9)
    plastic = simulate_contact(left, right, stiffness=stiffness, normal=[-1, 0, 0])
    assert plastic.first[0] == pytest.approx(0.4, rel=1e-9)
    assert plastic.second[0] == pytest.approx(0.4, rel=1e-9)


def test_a_stiffness_is_a_frequency() -> None:
    first, second = pair()
    normal = (second.twist - first.twist)[:3]
    mass = effective_mass(first, second, normal=normal)[0, 0]
    one = simulate_contact(first, second, stiffness=1e7, normal=normal)
    two = simulate_contact(first, second, frequency=float(np.sqrt(1e7 / mass)), normal=normal)
    np.testing.assert_allclose(one.first, two.first, rtol=1e-12)
    found = contact_convergence(first, second, stiffnesses=[1e6, 1e8], normal=normal)
    np.testing.assert_allclose(found.stiffness, [1e6, 1e8], rtol=1e-12)


def test_even_a_soft_contact_conserves() -> None:
    first, second = pair(locked=["joint4"])
    run = simulate_contact(first, second, frequency=0.3, kind="grasp", restitution=0.8)
    assert run.duration > 1.0
    assert run.energy_residual < 1e-9
    assert run.momentum_residual < 1e-9


def test_the_least_restitution_is_given_back() -> None:
    """The rebound is e times the approach for any e, in a contact whose unloading lasts e times as long."""
    left, right = (
        build_system(solid_ball(2.0), "contact", velocity=[1.0, 0, 0]),
        build_system(solid_ball(3.0), "contact"),
    )
    for e in (1e-3, 1e-6, 1e-8, 1e-12):
        run = simulate_contact(left, right, frequency=1e4, normal=[-1, 0, 0], restitution=e)
        assert run.relative[-1, 0] / -run.relative[0, 0] == pytest.approx(e, rel=1e-6, abs=1e-15)
        assert run.duration == pytest.approx(0.5e-4 * np.pi * (1 + e), rel=1e-9)
    nothing = simulate_contact(left, right, frequency=1e4, normal=[-1, 0, 0], restitution=1e-200)
    assert abs(nothing.relative[-1, 0]) < 1e-9


def test_a_contact_too_soft_to_end_is_given_up() -> None:
    first, second = pair()
    with pytest.raises(SimulationError, match=r"does not end.*raise the frequency"):
        simulate_contact(first, second, frequency=1e-6, kind="grasp")


def test_what_is_refused() -> None:
    first, second = pair()
    normal = (second.twist - first.twist)[:3]
    with pytest.raises(InputError, match="'frequency' or 'stiffness' is missing"):
        simulate_contact(first, second, normal=normal)
    with pytest.raises(InputError, match="more than 0"):
        simulate_contact(first, second, normal=normal, stiffness=0.0)
    with pytest.raises(InputError, match="several directions"):
        simulate_contact(first, second, kind="grasp", stiffness=1e4)
    with pytest.raises(InputError, match="do not approach"):
        simulate_contact(first, second, normal=-normal, stiffness=1e4)
    with pytest.raises(InputError, match="'frequencies' or 'stiffnesses' is missing"):
        contact_convergence(first, second, normal=normal)
    for nothing in ({"frequencies": []}, {"stiffnesses": []}):
        with pytest.raises(InputError, match="one or more frequencies"):
            contact_convergence(first, second, normal=normal, **nothing)
    still = build_system(solid_ball(1.0), "contact")
    with pytest.raises(InputError, match="do not approach each other"):
        simulate_contact(still, still, frequency=1e3, kind="grasp")
    assert np.isnan(contact_convergence(first, second, [1e3, 1e3], normal=normal).order)
    many = build_system(solid_ball(1.0), "contact", velocity=[[1, 0, 0], [2, 0, 0]]).move_to_contact(first)
    with pytest.raises(InputError, match="not a batch"):
        simulate_contact(first, many, frequency=1e4, kind="grasp")
    with pytest.raises(InputError, match="not a batch"):
        simulate_contact(first, second, frequency=1e4, kind="grasp", restitution=[0.0, 1.0])  # type: ignore[arg-type]
