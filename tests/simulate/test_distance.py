"""Shapes that searches keep apart: an optimum does not pass through the bus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.inertia.design import ExperimentLimits, design, limit_excess, usage
from spacearm.impact.configuration_search import ConfigurationObjective, Impactor, optimise_configuration
from spacearm.measure import make_sensors
from spacearm.mechanics.shapes import Box, Capsule, Sphere
from spacearm.model import CollisionShape, Pose, Robot, catalogue
from spacearm.model.rotations import rotation_about
from spacearm.simulate import ShapeOnFrame, World, collision_pairs, gaps
from spacearm.simulate.distance import ClearanceConstraint
from support.experiments import one_joint, read_experiment

ALONG = Pose(rotation_about(np.array([0.0, 1.0, 0.0]), np.pi / 2), np.array([0.5, 0.0, 0.0]))  # z along a link's x


def solid(robot: Robot, shapes: Mapping[str, CollisionShape]) -> Robot:
    return robot.replace(
        bodies=tuple(replace(body, collisions=(shapes.get(body.name, ()))) for body in robot.bodies)  # type: ignore[arg-type]
    )


def chain() -> Robot:
    """Three rods of 1 m in a plane; the last must not pass through the first, which is the base."""
    robot = catalogue.load("yoshida1992")
    rod = CollisionShape("cylinder", np.array([0.05, 0.6]), ALONG)
    return solid(robot, dict.fromkeys(robot.body_names, rod))


def test_pairs_are_those_of_bodies_that_no_joint_connects() -> None:
    robot = chain()
    ((first, second),) = collision_pairs(robot)
    assert (first.frame, second.frame) == (robot.body_names[0], robot.body_names[2])
    assert first.shape == Capsule(0.05, 0.6)
    assert len(collision_pairs(World({"a": robot, "b": robot}))) == 2 + 9
    assert not collision_pairs(catalogue.load("yoshida1992"))


def test_the_softest_configuration_keeps_out_of_the_way() -> None:
    robot, hit = chain(), Impactor((0.0, 1.0, 0.0), mass=2.0)
    folded = {robot.joint_names[0]: (2.0, 4.2)}
    grid = np.stack(np.meshgrid(np.linspace(2.0, 4.2, 441), np.linspace(-np.pi, np.pi, 721)), axis=-1).reshape(-1, 2)
    values = ConfigurationObjective(robot, "hand", hit).value(grid)
    apart = gaps(robot, collision_pairs(robot), grid)[:, 0]
    through = optimise_configuration(robot, "hand", hit, samples=512, bounds=folded, margin=None)
    assert gaps(robot, collision_pairs(robot), through.joints)[0, 0] < -0.09
    assert through.value == pytest.approx(15.0 / 52.0)
    for margin in (0.0, 0.1):
        best = optimise_configuration(robot, "hand", hit, samples=512, bounds=folded, margin=margin)
        assert margin <= gaps(robot, collision_pairs(robot), best.joints)[0, 0] < margin + 1e-5
        least = values[apart >= margin].min()
        assert least * (1 - 2e-3) < best.value <= least * (1 + 1e-6)
        assert best.value > through.value
    wall = (
        ShapeOnFrame(robot.body_names[2], Sphere(0.05), Pose(translation=np.array([1.0, 0.0, 0.0]))),
        ShapeOnFrame(Pose(), Box(9, 9, 9)),
    )
    with pytest.raises(InputError, match="none of 64 configurations keeps all shapes 0 m apart"):
        optimise_configuration(robot, "hand", hit, samples=64, restarts=4, keep_out=[wall])


def test_the_shortfall_has_its_gradient() -> None:
    robot = chain()
    apart = ClearanceConstraint(robot, collision_pairs(robot), 0.2)
    joints = np.array([[2.9, 0.3], [0.1, 0.2], [2.9, -2.2]])
    value, gradient = apart.shortfall(joints)
    short = np.maximum(0.2 - gaps(robot, apart.pairs, joints)[:, 0], 0.0)
    np.testing.assert_allclose(value, short**2, rtol=1e-12)
    assert (value > 0.0).tolist() == (~apart.is_satisfied(joints)).tolist() == [True, False, True]
    for k in range(2):
        step = 1e-6 * np.eye(2)[k]
        rise = (apart.shortfall(joints + step)[0] - apart.shortfall(joints - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, k], rise, atol=1e-8)


def test_an_experiment_that_passes_through_the_robot_is_not_allowed() -> None:
    robot = chain()
    times = np.linspace(0.0, 10.0, 5)

    def used(angle: float) -> dict[str, float]:
        turned = one_joint(robot, robot.joint_names[0], (times, angle * np.array([0, 0.5, 1, 0.5, 0])))
        return usage(robot, [turned], [read_experiment(robot, turned, make_sensors(noise={}), ledger=False)])

    free = ExperimentLimits(angle=9.0, rate=9.0, attitude=9.0)
    assert used(1.0)["margin"] > 0.5
    assert not limit_excess(used(1.0), free)
    assert limit_excess(used(3.1), free)["margin"] > 0.0


def test_a_designed_experiment_goes_round_what_the_unconstrained_one_passes_through() -> None:
    robot, bare = chain(), catalogue.load("yoshida1992")
    limits = ExperimentLimits(angle=3.1, rate=9.0, attitude=99.0)
    options: dict[str, Any] = {"motions": 1, "duration": 10.0, "inner_nodes": 1, "candidates": 6, "refinements": 4}
    margin = {}
    for name, each in {"bare": bare, "solid": robot}.items():
        plan = design(each, [2.2, 0.0], make_sensors(noise={}), limits, **options)  # folded over the base
        records = [read_experiment(robot, one, make_sensors(noise={}), ledger=False) for one in plan.experiments]
        margin[name] = usage(robot, plan.experiments, records)["margin"]
    assert margin["bare"] < -0.05
    assert margin["solid"] >= 0.0
