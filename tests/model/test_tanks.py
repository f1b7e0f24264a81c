"""Slosh: limits of the closed form, mass properties of the liquid, frequencies of a free spacecraft."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import jvp

from spacearm import model
from spacearm.engine import Mechanics
from spacearm.errors import InputError, ModelError
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.rotations import rotation_from_rpy
from spacearm.model.slosh import BESSEL_ROOT, Tank, sphere_mode
from spacearm.model.tanks import add_tank, drain_tank
from spacearm.typing import Array
from support.slosh_elements import slosh_mode

HUB = Robot("hub", (Body("bus", Inertia(400.0, np.zeros(3), np.diag([60.0, 80.0, 70.0]))),), ())
WATER = {"density": 998.0, "surface_tension": 0.0728}


def test_the_root_is_bessel_s() -> None:
    assert jvp(1, BESSEL_ROOT) == pytest.approx(0.0, abs=1e-15)


def test_shallow_and_deep_tanks_have_their_limits() -> None:
    """A deep tank sloshes as deep water: k g / R; its mass is 2 / (k (k^2 - 1)) of a column of height R. A shallow one
    is a wave with the speed sqrt(g h), and moves 2 / (k^2 - 1) of its mass."""
    k, r = BESSEL_ROOT, 0.4
    deep = Tank("deep", r, 998.0 * math.pi * r**2 * 4.0, 998.0, 9.81)
    assert (2 * math.pi * deep.frequency) ** 2 == pytest.approx(9.81 * k / r, rel=1e-6)
    assert deep.slosh_mass == pytest.approx(998.0 * math.pi * r**3 * 2.0 / (k * (k**2 - 1.0)), rel=1e-6)
    assert deep.height - deep.slosh_height == pytest.approx(2.0 * r / k, rel=1e-6)
    shallow = Tank("shallow", r, 998.0 * math.pi * r**2 * 4e-4, 998.0, 9.81)
    assert 2 * math.pi * shallow.frequency == pytest.approx(k / r * math.sqrt(9.81 * shallow.height), rel=1e-5)
    assert shallow.slosh_mass == pytest.approx(shallow.mass * 2.0 / (k**2 - 1.0), rel=1e-5)


def test_without_weight_the_surface_tension_holds_it() -> None:
    tank = Tank("t", 0.3, 60.0, **WATER)
    capillary = 0.0728 * BESSEL_ROOT**3 / (998.0 * 0.3**3) * math.tanh(BESSEL_ROOT * tank.height / 0.3)
    assert tank.bond_number == 0.0
    assert (2 * math.pi * tank.frequency) ** 2 == pytest.approx(capillary)
    with pytest.raises(ModelError, match="nothing holds the surface"):
        Tank("t", 0.3, 60.0, 998.0)


def test_at_rest_the_liquid_is_a_rigid_cylinder() -> None:
    tank, place = (
        Tank("t", 0.3, 90.0, acceleration=0.02, **WATER),
        Pose(rotation_from_rpy([0.3, -0.2, 0.5]), [0.2, 0.1, 0.4]),
    )
    robot = add_tank(HUB, "bus", tank, place)
    h, across = tank.height, 90.0 * (3 * 0.09 + tank.height**2) / 12.0
    liquid = Inertia(90.0, np.array([0, 0, h / 2]), np.diag([across, across, 45.0 * 0.09])).transform(place)
    welded = Mechanics(Robot("whole", (Body("bus", HUB.bodies[0].inertia + liquid),), ()))
    found = Mechanics(robot).mass_matrix(np.zeros(2))
    np.testing.assert_allclose(found[:6, :6], welded.mass_matrix(np.zeros(0)), rtol=1e-12, atol=1e-11)
    assert robot.joint_names == ("t.slosh_x", "t.slosh_y")


def test_a_free_spacecraft_sloshes_faster() -> None:
    """A mass on a spring beside a free one, both through the common mass centre: w^2 (1 + m / (M - m))."""
    tank = Tank("t", 0.3, 90.0, acceleration=0.02, **WATER)
    robot = add_tank(HUB, "bus", tank, Pose(translation=np.array([0.0, 0.0, -tank.slosh_height])))
    # The rest of the liquid is moved so that all mass centres lie in the slosh mass's plane.
    inertia = robot.bodies[0].inertia
    robot = Robot(
        "centred",
        (Body(robot.bodies[0].name, Inertia(inertia.mass, np.zeros(3), inertia.tensor)), *robot.bodies[1:]),
        robot.joints,
    )
    mass = Mechanics(robot).mass_matrix(np.zeros(2))
    slide, spring = mass[6:, 6:] - mass[6:, :6] @ np.linalg.solve(mass[:6, :6], mass[:6, 6:]), robot.joints[0].spring
    assert spring is not None
    m = tank.slosh_mass
    free = spring.stiffness / slide[0, 0]
    assert free == pytest.approx((2 * math.pi * tank.frequency) ** 2 * (1 + m / (490.0 - m)), rel=1e-12)


FILE = """
robot.name = "sat"
[[body]]
name = "bus"
mass = 400.0
inertia = [60.0, 80.0, 70.0]
[[boom]]
name = "array"
body = "bus"
origin = { xyz = [0.5, 0.0, 0.0] }
length = 4.0
mass = 12.0
stiffness_z = 300.0
modes = 2
[[tank]]
name = "fuel"
body = "bus"
radius = 0.3
mass = 80.0
density = 1010.0
surface_tension = 0.066
[configurations]
"""


def test_a_robot_file_has_booms_and_tanks(tmp_path: Path) -> None:
    file = tmp_path / "sat.toml"
    file.write_text(FILE)
    robot = model.load(file)
    assert robot.joint_names == ("array.mode1", "array.mode2", "fuel.slosh_x", "fuel.slosh_y")
    assert robot.mass == pytest.approx(492.0)
    model.save(robot, tmp_path / "again.toml")
    assert model.load(tmp_path / "again.toml") == robot


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("surface_tension = 0.066", "", r"tank\[0\] \('fuel'\).*nothing holds the surface"),
        ("radius = 0.3", "radius = -1", r"tank\[0\].*radius is -1"),
        ("modes = 2", "modes = 100000", r"there are 0 joints and 300002 modes"),
        ('name = "fuel"', 'name = "array"', r"tank\[0\].*already has a body or frame 'array'"),
        ("stiffness_z = 300.0", "stiffness_z = 0", r"boom\[0\].*stiffness is 0"),
    ],
)
def test_what_is_wrong_with_them_has_a_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "sat.toml"
    file.write_text(FILE.replace(old, new))
    with pytest.raises(InputError, match=message):
        model.load(file)


#: w^2 R / g of a sphere's first lateral mode by the depth over the radius: P. McIver, J. Fluid Mechanics 201 (1989).
MCIVER = {0.2: 1.07232, 0.4: 1.15826, 0.6: 1.26251, 0.8: 1.39239, 1.0: 1.56016, 1.2: 1.78818, 1.4: 2.12320}


def test_a_sphere_sloshes_as_published() -> None:
    """McIver's eigenvalues; a puddle is a pendulum of the sphere's radius that swings as a whole."""
    for depth, value in MCIVER.items():
        assert sphere_mode(depth)[0] == pytest.approx(value, rel=1e-4)
    square, mass = sphere_mode(0.01)
    assert square == pytest.approx(1.0, abs=5e-3)
    assert mass == pytest.approx(math.pi * 0.01**2 * (3.0 - 0.01) / 3.0, rel=5e-3)


@pytest.mark.parametrize(
    ("depth", "most"), [(0.2, 1e-6), (0.6, 1e-6), (1.0, 5e-6), (1.2, 2e-5), (1.4, 2e-4), (1.6, 1e-3), (1.8, 5e-3)]
)
def test_a_sphere_sloshes_as_finite_elements_do(depth: float, most: float) -> None:
    """Frequency and mass, by elements that share nothing with the harmonic polynomials."""
    largest = math.acos(1.0 - depth)

    def wall(share: Array) -> Array:
        return np.column_stack([np.sin(largest * share), 1.0 - np.cos(largest * share)])

    assert sphere_mode(depth) == pytest.approx(slosh_mode(wall, depth), rel=most)


@pytest.mark.parametrize("depth", [0.3, 1.0])
def test_a_cylinder_sloshes_as_finite_elements_do(depth: float) -> None:
    tank = Tank("t", 1.0, math.pi * depth, 1.0, 1.0)

    def wall(share: Array) -> Array:
        length = share * (1.0 + depth)
        return np.column_stack([np.minimum(length, 1.0), np.maximum(length - 1.0, 0.0)])

    square, mass = slosh_mode(wall, depth, 40)
    assert (2.0 * math.pi * tank.frequency) ** 2 == pytest.approx(square, rel=5e-5)
    assert tank.slosh_mass == pytest.approx(mass, rel=5e-5)


def test_a_half_full_sphere() -> None:
    radius, density = 0.5, 1000.0
    tank = Tank("t", radius, 2.0 / 3.0 * math.pi * radius**3 * density, density, 2.0, shape="sphere")
    assert tank.height == pytest.approx(radius, rel=1e-12)
    # NASA SP-106's chart: 0.58 of a half-full sphere's liquid.
    assert tank.slosh_mass / tank.mass == pytest.approx(0.58, abs=0.005)
    assert tank.radius - tank.slosh_height == pytest.approx(tank.pendulum_length, rel=1e-12)
    solid = tank.liquid
    assert solid.com[2] == pytest.approx(5.0 / 8.0 * radius, rel=1e-12)
    assert solid.tensor[2, 2] == pytest.approx(0.4 * tank.mass * radius**2, rel=1e-12)
    assert solid.tensor[0, 0] == pytest.approx(83.0 / 320.0 * tank.mass * radius**2, rel=1e-12)


def test_a_sphere_without_weight_needs_its_frequency() -> None:
    with pytest.raises(ModelError, match="Bond number 0"):
        Tank("t", 0.4, 60.0, **WATER, shape="sphere")
    with pytest.raises(ModelError, match="do not fit"):
        Tank("t", 0.1, 60.0, 998.0, 1.0, shape="sphere")
    tank = Tank("t", 0.4, 60.0, **WATER, shape="sphere", slosh_frequency=0.01)
    assert tank.frequency == 0.01
    assert tank.slosh_height == 0.4


def test_the_pendulum_has_the_frequency() -> None:
    tank = Tank("t", 0.3, 60.0, 998.0, 3.0)
    assert (2 * math.pi * tank.frequency) ** 2 == pytest.approx(3.0 / tank.pendulum_length, rel=1e-12)
    assert drain_tank(add_tank(HUB, "bus", tank), "t", 20.0).mass == pytest.approx(440.0)
