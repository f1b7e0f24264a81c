"""Distances of skeletons from planes and boxes, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.ejection import BoxRegion, EjectionConstraints, PlaneRegion, Rig, clearance, eject, eject_batch
from spacearm.ejection.clearance import skeleton
from spacearm.errors import InputError
from spacearm.model import CollisionShape, Pose, Robot
from spacearm.simulate import collision_pairs, gaps
from spacearm.simulate.bodies import evaluate_bodies


def states_of(rig: Rig, count: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    states = draw.standard_normal((count, 13 + 2 * rig.arm.n))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    return states


def test_points_and_a_box() -> None:
    box = BoxRegion(np.zeros(3), np.array([2.0, 2.0, 2.0]))
    points = np.array([[3.0, 1.0, 1.0], [3.0, 3.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.9]])
    np.testing.assert_allclose(box.distance(points), [1.0, np.sqrt(2.0), -1.0, -0.1], atol=1e-12)


def test_lines_against_many_points_on_them(space: Rig) -> None:
    arm, states = space.arm, states_of(space, 12, 3)
    regions = [
        BoxRegion(np.array([-0.7, -0.2, -0.3]), np.array([0.4, 0.5, 0.6])),
        PlaneRegion(np.array([0.0, 0.0, -1.0])),
    ]
    bones = skeleton(arm, {"link3": 0.1})
    found = clearance(arm, states, regions, bones)
    bodies = evaluate_bodies(arm, states)
    share = np.linspace(0.0, 1.0, 4001)[:, None]
    for t in range(12):
        least = np.full(len(arm.bodies), np.inf)
        for body, end, radius in zip(bones.body, bones.end, bones.radius, strict=True):
            points = bodies.origin[t, body] + share * (bodies.rotation[t, body] @ end)
            least[body] = min([least[body], *(region.distance(points).min() - radius for region in regions)])
        np.testing.assert_allclose(found[t], least, atol=1e-3)
        assert np.all(found[t] <= least + 1e-9)


def test_regions_move_with_the_satellite(space: Rig) -> None:
    """Arm and satellite carried together through space: nothing changes."""
    states = states_of(space, 5, 4)
    satellite = np.zeros((5, 13))
    satellite[:, 3] = 1.0
    box = BoxRegion(np.array([-0.7, -0.2, -0.3]), np.array([0.4, 0.5, 0.6]))
    still = clearance(space.arm, states, [box], satellite=satellite)
    moved = states.copy()
    moved[:, :3] += [3.0, -1.0, 2.0]
    satellite[:, :3] += [3.0, -1.0, 2.0]
    np.testing.assert_allclose(clearance(space.arm, moved, [box], satellite=satellite), still, atol=1e-12)


def test_a_run_tells_the_least_clearance_of_each_body(rig: Rig) -> None:
    run = eject(rig, "attitude3", keep_out=[PlaneRegion(np.array([0.0, 0.0, -0.1]))], radii=0.02, flight=5.0)
    found = run.clearance
    assert found is not None
    assert set(found.distance) == set(rig.arm.body_names)
    assert found.distance["base"] == pytest.approx(0.08, abs=1e-12)
    assert found.time["base"] == 0.0
    assert all(found.distance[name] <= found.start[name] + 1e-12 for name in found.start)
    assert found.least == min(found.distance.values())


def solid(robot: Robot, radius: float) -> Robot:
    """With the lines of its skeleton as capsules."""
    bones, shapes = skeleton(robot, radius), dict[int, list[CollisionShape]]()
    for body, end in zip(bones.body, bones.end, strict=True):
        length = float(np.linalg.norm(end))
        axis = end / length
        across = np.linalg.svd(axis[None])[2][1]
        turn = Pose(np.stack([across, np.cross(axis, across), axis], axis=1), 0.5 * end)
        shapes.setdefault(body, []).append(CollisionShape("capsule", np.array([radius, length]), turn))
    bodies = (replace(body, collisions=tuple(shapes[k])) for k, body in enumerate(robot.bodies))
    return robot.replace(bodies=tuple(bodies))


def test_collision_shapes_count_in_place_of_the_skeleton_and_among_each_other(space: Rig) -> None:
    arm, states = solid(space.arm, 0.03), states_of(space, 12, 3)
    regions = [
        BoxRegion(np.array([-0.7, -0.2, -0.3]), np.array([0.4, 0.5, 0.6])),
        PlaneRegion(np.array([0.0, 0.0, -1.0])),
    ]
    expected = clearance(space.arm, states, regions, skeleton(space.arm, 0.03))
    pairs = collision_pairs(arm)
    between = gaps(arm, pairs, states)
    for column, pair in enumerate(pairs):
        for side in pair:
            body = arm.body_index(str(side.frame))
            expected[:, body] = np.minimum(expected[:, body], between[:, column])
    found = clearance(arm, states, regions)
    # Inside a box the depth is that of one point of what is inside.
    np.testing.assert_allclose(np.maximum(found, -0.03), np.maximum(expected, -0.03), atol=1e-9)
    assert (found < 0.0).any()
    rig = replace(space, arm=arm)
    low, high = (np.clip(limits, -3.0, 3.0) for limits in (arm.lower_limits, arm.upper_limits))
    runs = eject_batch(rig, low + (high - low) * (states[:, 7 : 7 + arm.n] % 1.0), flight=2.0)
    least = gaps(arm, pairs, runs.joints).min(axis=1)
    assert np.all(runs.clearance[runs.sound] <= least[runs.sound] + 1e-9)
    rules = EjectionConstraints(respect_limits=False, stable=False)
    near = float(np.median(runs.clearance))
    np.testing.assert_array_equal(
        replace(rules, margin=near).find_admissible(runs), runs.sound & (runs.clearance >= near)
    )


def test_wrong_regions_and_radii(rig: Rig) -> None:
    with pytest.raises(InputError, match="corner"):
        BoxRegion(np.zeros(3), np.array([1.0, 0.0, 1.0]))
    with pytest.raises(InputError, match="normal"):
        PlaneRegion(np.zeros(3), np.zeros(3))
    with pytest.raises(InputError, match="no body 'linkk'"):
        skeleton(rig.arm, {"linkk": 0.1})
    with pytest.raises(InputError, match="radius"):
        skeleton(rig.arm, -0.1)
