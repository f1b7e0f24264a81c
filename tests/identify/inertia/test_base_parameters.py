"""Base parameters: what motion can tell in closed form, against numerical ranks of random motions on many robots."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.identify.inertia import base_parameters
from spacearm.identify.inertia.consistent import is_possible
from spacearm.identify.inertia.inertia_parameters import (
    labels,
    linear_of,
    placements,
    plain_jacobian,
    plain_of,
)
from spacearm.mechanics.reframe import transport
from spacearm.model import Inertia, Robot, catalogue
from support.identify_robots import ROBOTS
from support.random_robots import point_mass_inertia, random_robot

SAMPLES = 150
POPULATION = {
    **ROBOTS,
    "xu2017": catalogue.load("xu2017"),
    "wojtunik2023": catalogue.load("wojtunik2023"),
    **{
        f"random{seed}": random_robot(seed, 6, geometry=kind)
        for seed, kind in ((11, "skew"), (12, "aligned"), (13, "mixed"))
    },
    "rotors": random_robot(14, 4, rotors=0.8, prismatic=0.0),
    "massless": random_robot(15, 6, massless=0.5, tree=False),
}


def regressors(robot: Robot) -> tuple[np.ndarray, np.ndarray]:
    """Momentum and dynamics regressors of random motions, columns of equal size."""
    rng = np.random.default_rng(7)
    q = rng.normal(size=(SAMPLES, robot.n))
    v, a = rng.normal(size=(2, SAMPLES, 6 + robot.n))
    mechanics = Mechanics(robot)
    momentum, _ = mechanics.momentum_regressor(q, v)
    dynamics, _ = mechanics.dynamics_regressor(q, v, a)
    return momentum.reshape(-1, momentum.shape[-1]), dynamics.reshape(-1, dynamics.shape[-1])


def numerical_rank(matrix: np.ndarray) -> int:
    s = np.linalg.svd(matrix, compute_uv=False)
    return int(np.sum(s > 1e-10 * s[0]))


@pytest.mark.parametrize("name", POPULATION)
def test_rank_theory_holds_for_random_motions(name: str) -> None:
    robot = POPULATION[name]
    found = base_parameters(robot)
    revolute = sum(joint.kind == "revolute" for joint in robot.joints)
    expected = 10 * (robot.n + 1) - 3 * revolute - 6 * (robot.n - revolute)
    momentum, dynamics = regressors(robot)
    assert found.rank == expected
    assert numerical_rank(momentum) == expected
    assert numerical_rank(dynamics) == expected
    assert found.null.shape[1] == 10 * (robot.n + 1) - expected
    for matrix in (momentum, dynamics):
        assert np.abs(matrix @ found.null).max(initial=0.0) < 1e-12 * np.abs(matrix).max()


@pytest.mark.parametrize("name", POPULATION)
def test_combinations_carry_everything(name: str) -> None:
    robot = POPULATION[name]
    found = base_parameters(robot)
    assert np.allclose(found.combine @ found.lift, np.eye(found.rank), atol=1e-12)
    assert np.allclose(found.combine @ found.null, 0.0, atol=1e-12)
    if found.null.size:
        assert np.linalg.matrix_rank(found.null) == found.null.shape[1]
    momentum, _ = regressors(robot)
    inertia = robot.inertia_parameters.ravel()
    assert np.allclose(momentum @ found.lift @ (found.combine @ inertia), momentum @ inertia, atol=1e-11)


def test_words_of_the_paper_robot() -> None:
    robot = catalogue.load("xu2017")
    found = base_parameters(robot)
    text = found.describe()
    assert "70 inertia parameters, 52 identifiable combinations, 18 null directions" in text
    assert "link1 passes m, hz and Iyy to satellite through joint1" in text
    assert "hy*(link1) = hy(link1) - hz(link2) + 0.3 m(link3) - hz(link3) [kg m]" in text
    assert len(found.nulls) == 18
    assert "may belong to link6 or to link5" in found.nulls[-1].text
    sliding = base_parameters(ROBOTS["sliding"])
    assert any("passes its whole tensor" in words for words in sliding.passes)
    assert "Izz of link2 may belong to link2 or to link1" in " ".join(null.text for null in sliding.nulls)


def test_a_mass_on_the_axis_is_a_null_direction() -> None:
    robot = catalogue.load("xu2017")
    found = base_parameters(robot)
    i = robot.joint_index("joint3")
    for along in (0.0, 0.3, -1.1):
        vector = np.zeros((len(robot.bodies), 10))
        # One kilogram to the child, from the parent.
        vector[i + 1] = Inertia(1.0, along * robot.joints[i].axis).parameters
        vector[robot.parents[i]] = -transport(robot.joints[i].placement) @ vector[i + 1]
        assert np.abs(found.combine @ vector.ravel()).max() < 1e-13
        assert np.linalg.norm(vector) > 1.0


def test_transport_is_what_inertias_do() -> None:
    rng = np.random.default_rng(3)
    robot = ROBOTS["seven"]
    pose = placements(robot, rng.normal(size=7))[5]
    body = point_mass_inertia(rng, 5.0, 0.3, 0.4)
    assert np.allclose(transport(pose) @ body.parameters, body.transform(pose).parameters, rtol=1e-12)


def test_plain_form_and_its_derivative() -> None:
    linear = catalogue.load("xu2017").inertia_parameters[6]
    plain = plain_of(linear)
    assert plain[0] == 30.0
    assert np.allclose(plain[1:4], [-0.27, 0.0, 0.43])
    assert np.allclose(plain[4:], [2.398, 2.678, 1.405, -0.069, 0.013, 0.051])
    assert np.allclose(linear_of(plain), linear, rtol=1e-14)
    step = 1e-6
    differences = [(plain_of(linear + step * d) - plain_of(linear - step * d)) / (2 * step) for d in np.eye(10)]
    assert np.allclose(plain_jacobian(linear), np.stack(differences, axis=1), atol=1e-7)
    assert len(labels(catalogue.load("xu2017"))) == 70


def test_bodies_that_cannot_exist_are_seen() -> None:
    good = catalogue.load("xu2017").inertia_parameters[2]
    assert is_possible(good)
    thin = good.copy()
    thin[4] -= 3.0
    assert not is_possible(thin)
    light = good.copy()
    light[0] = -1.0
    assert not is_possible(light)
