"""Configurations by gradient and grasp velocities."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError, ModelError
from spacearm.impact import (
    FloatingSystem,
    Impactor,
    build_system,
    collide,
    free_body,
    grasp_velocity,
    impact_point,
    optimise_configuration,
    solid_ball,
    virtual_mass,
)
from spacearm.impact.configuration_search import ConfigurationObjective, configuration_bounds
from spacearm.model import catalogue

QUANTITIES = ("projected", "absolute", "base_rotation")


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("axes", ["world", "frame"])
def test_gradients_are_central_differences(quantity: str, axes: str) -> None:
    robot = catalogue.load("xu2017")
    hit = Impactor((0.3, -1.0, 0.4), axes, speed=0.7, mass=8.0, restitution=0.3)  # type: ignore[arg-type]
    for modes in ({}, {"locked": ["joint3"]}, {"resistance": [0.1, 0.5, 0.0, 0.9, 0.3, 0.2]}):
        objective = ConfigurationObjective(robot, "hand", hit, quantity, **modes)  # type: ignore[arg-type]
        joints = np.random.default_rng(1).uniform(-1, 1, (5, 6))
        value, gradient = objective.value_and_gradient(joints)
        step = 1e-5 * np.eye(6)
        slope = (objective.value(joints[:, None] + step) - objective.value(joints[:, None] - step)) / 2e-5
        np.testing.assert_allclose(gradient, slope, atol=2e-8 * np.abs(value).max())
        np.testing.assert_allclose(objective.value(joints), value, rtol=1e-12)


def test_values_are_those_of_maps_and_collisions() -> None:
    robot = catalogue.load("xu2017")
    direction, joints = (0.3, -1.0, 0.4), np.random.default_rng(2).uniform(-1, 1, 6)
    hit = Impactor(direction, speed=0.7, mass=8.0, restitution=0.3)
    a = impact_point(robot, "hand").acceleration(direction, joints)
    found = virtual_mass(a, direction)
    assert ConfigurationObjective(robot, "hand", hit).value(joints) == pytest.approx(float(found.projected), rel=1e-12)
    assert ConfigurationObjective(robot, "hand", hit, "absolute").value(joints) == pytest.approx(
        float(found.absolute), rel=1e-12
    )
    chain = FloatingSystem(robot, "hand", joints)
    striker = build_system(solid_ball(8.0), "contact", velocity=0.7 * np.array(hit.direction)).move_to_contact(chain)
    jump = collide(chain, striker, normal=direction, restitution=0.3).first.change
    turn = ConfigurationObjective(robot, "hand", hit, "base_rotation").value(joints)
    assert turn == pytest.approx(float(np.linalg.norm(jump[3:6])), rel=1e-10)


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_direction_of_the_frame_turns_with_it(quantity: str) -> None:
    robot = catalogue.load("xu2017")
    joints, quaternion = np.random.default_rng(4).uniform(-1, 1, 6), np.array([0.6, 0.0, 0.48, 0.64])
    place = np.concatenate([np.zeros(3), quaternion])
    _, turn = impact_point(robot, "hand").mechanics.frame_pose("hand", joints, base=place)
    own = np.array([0.3, -1.0, 0.4])
    there = Impactor(tuple(own), "frame", mass=8.0)
    here = Impactor(tuple(turn @ own), mass=8.0)
    values = [
        ConfigurationObjective(robot, "hand", hit, quantity, quaternion=quaternion).value(joints)  # type: ignore[arg-type]
        for hit in (there, here)
    ]
    assert values[0] == pytest.approx(float(values[1]), rel=1e-12)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("maximise", [False, True])
def test_the_optimum_of_two_joints_is_that_of_a_dense_grid(quantity: str, maximise: bool) -> None:
    robot = catalogue.load("yoshida1992")
    hit = Impactor((0.2, 1.0, 0.0), mass=2.0)
    grid = np.stack(np.meshgrid(*[np.linspace(-np.pi, np.pi, 601)] * 2), axis=-1)
    values = ConfigurationObjective(robot, "hand", hit, quantity).value(grid)  # type: ignore[arg-type]
    best = optimise_configuration(robot, "hand", hit, quantity=quantity, maximise=maximise, samples=512)  # type: ignore[arg-type]
    if maximise:
        assert best.value >= values.max() * (1 - 1e-12)
        assert best.value == pytest.approx(values.max(), rel=1e-3)
    else:
        assert best.value <= values.min() + 1e-12
        assert best.value == pytest.approx(values.min(), abs=5e-3)
    if quantity != "base_rotation" or maximise:
        assert np.abs(best.gradient).max() < 1e-6 * best.value
    assert best.found[0] == pytest.approx(best.value, rel=1e-9, abs=1e-12)


def test_the_lightest_configuration_in_closed_form() -> None:
    """A straight chain of three rods, struck across its end: 15/52 kg."""
    best = optimise_configuration(catalogue.load("yoshida1992"), "hand", Impactor((0, 1, 0)), samples=256)
    assert best.value == pytest.approx(15.0 / 52.0, rel=1e-10)


def test_limits_hold_and_other_joints_stay() -> None:
    robot = catalogue.load("cai2023")
    best = optimise_configuration(robot, "hand", Impactor((0, 1, 0)), maximise=True, samples=1024, restarts=8)
    assert np.all(best.joints >= robot.lower_limits - 1e-12)
    assert np.all(best.joints <= robot.upper_limits + 1e-12)
    assert best.value >= best.screened[1]
    assert best.at_limit.any()
    # At a limit the gradient may point outwards, elsewhere it vanishes.
    assert np.abs(best.gradient[~best.at_limit]).max() < 1e-3 * best.value

    start = robot.configuration("attitude1")
    some = optimise_configuration(
        robot, "hand", Impactor((0, 1, 0)), start="attitude1", vary=["joint2", "joint4"], bounds={"joint2": (0.1, 0.5)},
        samples=256, restarts=4,
    )  # fmt: skip
    kept = [0, 2, 4, 5, 6]
    np.testing.assert_array_equal(some.joints[kept], start[kept])
    assert 0.1 <= some.joints[1] <= 0.5
    again = optimise_configuration(
        robot, "hand", Impactor((0, 1, 0)), start="attitude1", vary=["joint2", "joint4"], bounds={"joint2": (0.1, 0.5)},
        samples=256, restarts=4,
    )  # fmt: skip
    np.testing.assert_array_equal(some.joints, again.joints)


def test_slides_without_limits_may_stay_where_they_are() -> None:
    robot = catalogue.load("zhang2020")
    turning = [joint.name for joint in robot.joints if joint.kind == "revolute"][:2]
    best = optimise_configuration(robot, "hand", Impactor((1, 0, 0)), vary=turning, samples=64, restarts=4)
    kept = [robot.joint_index(joint.name) for joint in robot.joints if joint.name not in turning]
    np.testing.assert_array_equal(best.joints[kept], 0.0)
    with pytest.raises(InputError, match=r"prismatic joint .* has no limits"):
        optimise_configuration(robot, "hand", Impactor((1, 0, 0)), samples=64, restarts=4)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("samples", [8, 4096])
def test_a_pole_of_unequal_resistances_is_no_optimum(quantity: str, samples: int) -> None:
    """With few samples none shows the pole, and the search runs into it; with many, the screening does."""
    options = {"quantity": quantity, "resistance": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0], "samples": samples, "restarts": 8}
    hit = Impactor((0.837, -0.313, -0.449), mass=1000.0)
    with pytest.raises(InputError, match=r"resistance.*virtual mass.*476 kg.*not passive"):
        optimise_configuration(catalogue.load("xu2017"), "hand", hit, maximise=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"locked": ["joint2"]}, {"resistance": 0.7}])
def test_a_passive_arm_never_feels_heavier_than_it_is(options: dict[str, object]) -> None:
    robot = catalogue.load("xu2017")
    objective = ConfigurationObjective(robot, "hand", Impactor((0.2, 0.5, -1.0)), **options)  # type: ignore[arg-type]
    joints = np.random.default_rng(3).uniform(-np.pi, np.pi, (2000, 6))
    assert objective.compliance(joints).min() * robot.mass > 1.0
    np.testing.assert_allclose(objective.compliance(joints), 1.0 / objective.value(joints), rtol=1e-12)


def test_searches_refuse_nonsense() -> None:
    robot = catalogue.load("yoshida1992")
    for wrong, match in (
        ({"direction": (0, 0, 0)}, "no direction"),
        ({"direction": (0, 0, 1), "restitution": 1.5}, "restitution"),
        ({"direction": (0, 0, 1), "mass": 0.0}, "mass"),
        ({"direction": (0, 0, 1), "speed": 0.0}, "speed is"),
        ({"direction": (0, 0, 1), "axes": "moon"}, "axes"),
    ):
        with pytest.raises(InputError, match=match):
            Impactor(**wrong)  # type: ignore[arg-type]
    hit = Impactor((0, 1, 0))
    with pytest.raises(InputError, match="quantity"):
        optimise_configuration(robot, "hand", hit, quantity="weight")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no frame"):
        optimise_configuration(robot, "hnd", hit)
    with pytest.raises(InputError, match="restarts"):
        optimise_configuration(robot, "hand", hit, restarts=0)
    with pytest.raises(InputError, match="no joint that may move"):
        optimise_configuration(robot, "hand", hit, vary=[])
    with pytest.raises(ModelError, match="did you mean"):
        optimise_configuration(robot, "hand", hit, vary=["joint_1"])
    for start in ([1.0], [np.nan, 0.0]):
        with pytest.raises(InputError, match=r"start.*expected 2 finite numbers"):
            optimise_configuration(robot, "hand", hit, start=start)
    with pytest.raises(InputError, match="twice"):
        optimise_configuration(robot, "hand", hit, vary=["joint1", "joint1"])
    with pytest.raises(InputError, match="seed"):
        optimise_configuration(robot, "hand", hit, seed=-1)
    with pytest.raises(InputError, match="not varied"):
        optimise_configuration(robot, "hand", hit, vary=["joint2"], bounds={"joint1": (0.0, 1.0)})
    with pytest.raises(InputError, match="go from"):
        configuration_bounds(robot, {"joint1": (1.0, 0.0)})
    with pytest.raises(InputError, match="exceed its limits"):
        configuration_bounds(catalogue.load("cai2023"), {"joint4": (0.0, 1.0)})
    with pytest.raises(InputError, match=r"prismatic joint .* has no limits"):
        configuration_bounds(catalogue.load("zhang2020"))
    with pytest.raises(InputError, match="no joints"):
        optimise_configuration(free_body(1.0, [1, 1, 1]), "contact", hit)


# -- grasp velocity ---------------------------------------------------------------------------------------------------


def target_for(first: FloatingSystem) -> FloatingSystem:
    body = free_body(20.0, [3, 4, 5], contact=[0.3, 0.1, 0])
    return build_system(
        body, "contact", velocity=[-0.1, 0.05, 0.02], angular_velocity=[0.02, 0.05, -0.1]
    ).move_to_contact(first)


@pytest.mark.parametrize("still", ["angular", "linear", "all"])
@pytest.mark.parametrize("measure", ["after", "jump"])
@pytest.mark.parametrize("floating", [True, False])
def test_a_grasp_leaves_the_base_still(still: str, measure: str, floating: bool) -> None:
    first = build_system(catalogue.load("xu2017"), "hand", joints="normal", rates=[0.01, 0, 0, 0.02, 0, 0])
    second = target_for(first)
    found = grasp_velocity(first, second, still=still, measure=measure, floating=floating)  # type: ignore[arg-type]
    assert found.solvable
    hit = collide(first.with_velocity(found.velocity), second, kind="grasp")
    moved = hit.first.after if measure == "after" else hit.first.change
    rows = {"linear": slice(0, 3), "angular": slice(3, 6), "all": slice(0, 6)}[still]
    assert np.abs(moved[rows]).max() < 1e-13
    mechanics = first.point.mechanics
    if floating:  # no external force: the momentum is that of the plan
        np.testing.assert_allclose(
            mechanics.momentum(first.joints, found.velocity),
            mechanics.momentum(first.joints, first.velocity),
            atol=1e-13,
        )
    else:
        np.testing.assert_array_equal(found.velocity[:6], np.asarray(first.velocity)[:6])
    # Any motion along the freedom keeps the base still too, and no other rates are nearer to the plan.
    for k in range(found.freedom.shape[1]):
        assert abs((found.rates - np.asarray(first.velocity)[6:]) @ found.freedom[:, k]) < 1e-9
    np.testing.assert_allclose(found.approach, first.twist_at(found.velocity) - second.twist, atol=1e-13)


def test_a_chain_with_too_few_joints_says_that_it_cannot() -> None:
    first = build_system(catalogue.load("yoshida1992"), "hand", joints="L")
    found = grasp_velocity(first, target_for(first), still="angular")
    assert not found.solvable
    assert found.rank == 1
    assert found.residual > 1e-3


def test_locked_joints_leave_only_a_grasp_without_impulse() -> None:
    """With all joints locked the base keeps still exactly when the twists match: no impulse at all."""
    first = build_system(catalogue.load("cai2023"), "hand", joints="attitude1", locked="all")
    found = grasp_velocity(first, target_for(first), still="all", measure="jump")
    assert found.solvable
    assert np.abs(found.approach).max() < 1e-9
    assert np.abs(found.collision.impulse).max() < 1e-9


def test_grasp_velocity_refuses_nonsense() -> None:
    first = build_system(catalogue.load("xu2017"), "hand", joints="normal")
    second = target_for(first)
    for options, match in (
        ({"still": "calm"}, "still"),
        ({"measure": "before"}, "measure"),
        ({"kind": "normal"}, "kind"),
    ):
        with pytest.raises(InputError, match=match):
            grasp_velocity(first, second, **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no joints"):
        grasp_velocity(second, first)
    with pytest.raises(InputError, match="not a batch"):
        grasp_velocity(first.with_velocity(np.zeros((2, 12))), second)
