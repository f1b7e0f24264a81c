"""Batches give what single runs give, for any number of threads, with numbers of their own for each sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spacearm.ejection import BoxRegion, Ejection, PlaneRegion, Rig, SeparationDevice, eject, eject_batch
from spacearm.ejection.batch import coast_satellite
from spacearm.ejection.rail import ARM, SATELLITE
from spacearm.errors import InputError
from spacearm.model import Friction, Inertia, Limits, Spring
from spacearm.simulate import Dopri853, Phase, Separate, State, World, simulate

LIMITS = Limits(np.radians(-51.0), 0.0)
LOCKED = ("joint2", "joint4", "joint6")
DECK = PlaneRegion(np.array([0.0, 0.0, -0.1]))
WALL = BoxRegion(np.array([-2.0, -1.0, -0.5]), np.array([-0.3, 1.0, 0.6]))


def many(rig: Rig, count: int = 40, seed: int = 0) -> np.ndarray:
    low, high = 0.95 * rig.arm.lower_limits, 0.95 * rig.arm.upper_limits - 0.02
    return np.random.default_rng(seed).uniform(low, high, (count, rig.arm.n))


def test_a_batch_is_what_single_runs_are(rig: Rig, runs: dict[int, Ejection]) -> None:
    batch = eject_batch(rig, [rig.arm.configuration(f"attitude{n}") for n in range(1, 6)])
    assert batch.sound.all()
    assert not batch.failures
    for k, run in enumerate(runs.values()):
        assert batch.time[k] == pytest.approx(run.time, abs=1e-9)
        assert batch.velocity[k] == pytest.approx(run.velocity, abs=1e-8)
        np.testing.assert_allclose(batch.variation[k], run.variation, atol=1e-8)
        np.testing.assert_allclose(batch.final_variation[k], run.final_variation, atol=1e-7)
        np.testing.assert_allclose(batch.angular_velocity[k], run.angular_velocity, atol=1e-8)
        np.testing.assert_allclose(batch.stop_times[k], list(run.stop_times.values()), atol=1e-7)
        assert batch.hits[k].tolist() == [any(h.joint == name for h in run.hits) for name in rig.arm.joint_names]


def test_space_with_a_satellite_and_a_rough_rail(space: Rig) -> None:
    satellite = Inertia(400.0, np.array([0.1, 0.05, -0.5]), np.diag([60.0, 70.0, 80.0]))
    device = SeparationDevice(812.7, 0.086, 2, friction=Friction(5.0, 3.0), damping=2.0, satellite=satellite)
    rig = Rig(space.arm, device)
    joints = many(rig, 6, seed=3)
    batch = eject_batch(rig, joints, keep_out=[DECK, WALL], samples=200, flight=6.0)
    for k in range(6):
        run = eject(rig, joints[k], keep_out=[DECK, WALL], flight=6.0)
        assert batch.velocity[k] == pytest.approx(run.velocity, abs=1e-7)
        np.testing.assert_allclose(batch.angular_velocity[k], run.angular_velocity, atol=1e-6)
        speed, angular_rate = run.recoil
        assert np.linalg.norm(batch.recoil[k, 3:]) == pytest.approx(np.linalg.norm(angular_rate), abs=1e-7)
        assert np.linalg.norm(batch.recoil[k, :3]) == pytest.approx(np.linalg.norm(speed), abs=1e-7)
        assert run.clearance is not None
        assert batch.clearance[k] == pytest.approx(run.clearance.least, abs=5e-3)


def test_threads_and_neighbours_do_not_matter(rig: Rig) -> None:
    joints = many(rig, 600, seed=1)
    one, two = eject_batch(rig, joints, threads=1), eject_batch(rig, joints, threads=2)
    alone = eject_batch(rig, joints[137:138])
    for name in ("time", "velocity", "final_variation", "angular_velocity", "stop_times"):
        first = getattr(one, name)
        assert np.array_equal(first, getattr(two, name))
        assert np.array_equal(first[137:138], getattr(alone, name))


def test_overrides_are_the_robot_that_has_these_numbers(rig: Rig) -> None:
    joints = rig.arm.configuration("attitude2")
    factor = np.array([0.7, 1.0, 1.6])
    batch = eject_batch(
        rig,
        joints,
        overrides={
            "static": factor[:, None] * np.full(3, 4.0),
            "coulomb": factor[:, None] * np.full(3, 2.0),
            "damping": factor[:, None] * np.full(3, 5.4),
            "stiffness": factor * rig.device.total_stiffness,
            "compression": np.array([0.086, 0.09, 0.1]),
            "inertia": factor[:, None, None] * rig.arm.inertia_parameters,
        },
    )
    for k, (f, preload) in enumerate(zip(factor, (0.086, 0.09, 0.1), strict=True)):
        parts = tuple(replace(j, damping=5.4 * f, friction=Friction(4.0 * f, 2.0 * f)) for j in rig.arm.joints)
        arm = rig.arm.with_inertia_parameters(f * rig.arm.inertia_parameters).replace(joints=parts)
        run = eject(Rig(arm, SeparationDevice(812.7 * f, 0.086, 2, compression=preload), "y"), joints)
        assert batch.time[k] == pytest.approx(run.time, abs=1e-8)
        assert batch.velocity[k] == pytest.approx(run.velocity, abs=1e-8)
        np.testing.assert_allclose(batch.final_variation[k], run.final_variation, atol=1e-7)


def test_failures_are_told_and_touch_no_other(rig: Rig) -> None:
    rough = Rig(rig.arm, SeparationDevice(812.7, 0.086, 2, friction=Friction(72.0, 69.0)), "y")
    joints = rig.arm.configuration("attitude1")
    stiffness = np.array([1.0, 1.2]) * rough.device.total_stiffness
    batch = eject_batch(rough, joints, overrides={"stiffness": stiffness})
    # Coulomb friction times the stroke is what the springs give in the first case only up to a part of the way.
    assert batch.sound.tolist() == [False, True]
    assert batch.failures == {0: "the arm does not leave the rail"}
    assert np.isnan(batch.velocity[0])
    assert batch.velocity[1] > 0.0


def test_locked_joints_and_progress(rig: Rig) -> None:
    notes: list[tuple[int, int]] = []
    batch = eject_batch(
        rig,
        many(rig, 600),
        locked=rig.arm.joint_names,
        flight=0.1,
        progress=lambda done, total: notes.append((done, total)),
    )
    np.testing.assert_allclose(batch.time, rig.device.quarter_period(rig.arm.mass), rtol=1e-9)
    assert np.all(batch.final_variation == 0.0)
    assert notes[-1] == (600, 600)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"statik": np.ones(3)}, "no parameter 'statik'"),
        ({"static": np.ones(4)}, "shape"),
        ({"damping": -np.ones(3)}, "is -1"),
        ({"stiffness": 0.0}, "stiffness is 0"),
        ({"compression": 0.01}, "at least"),
        ({"stiffness": np.array([np.nan])}, "finite"),
        ({"static": np.ones((2, 3)), "damping": np.ones((3, 3))}, "samples"),
    ],
)
def test_wrong_overrides(rig: Rig, overrides: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        eject_batch(rig, rig.arm.configuration("attitude1"), overrides=overrides)  # type: ignore[arg-type]


def test_an_empty_batch(rig: Rig) -> None:
    assert eject_batch(rig, np.zeros((0, 3))).velocity.shape == (0,)


@pytest.mark.parametrize("table", [None, "y"])
def test_the_satellite_coasts_as_a_run_says(rig: Rig, table: str | None) -> None:
    satellite = Inertia(
        100.0, np.array([0.2, -0.1, -0.4]), np.array([[9.0, 1.0, 0.5], [1.0, 14.0, 0.0], [0.5, 0.0, 18.0]])
    )
    own = Rig(rig.arm, SeparationDevice(812.7, 0.086, 2, satellite=satellite), table)  # type: ignore[arg-type]
    angular_rate = [0.0, 0.7, 0.0] if table else [0.4, 0.7, -0.3]
    start = State(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(0), np.array([0.1, 0.0, -0.2, *angular_rate]))
    times = np.array([0.0, 0.5, 2.0, 5.0])
    run = simulate(
        own.satellite, start, Phase(5.0, locked=own.out_of_plane), method=Dopri853(1e-11, 1e-13), sample=times
    )
    found = coast_satellite(own, start.vector[None], times)[0]
    np.testing.assert_allclose(found, run.states[:4], atol=1e-7)


def test_soft_springs_and_heavy_arms_are_given_their_time(rig: Rig) -> None:
    """A sample a million times softer or heavier than the rig leaves the rail too, a thousand times later."""
    joints = np.zeros(3)
    stiffness = np.array([1e-6, 1.0]) * rig.device.total_stiffness
    soft = eject_batch(rig, joints, overrides={"stiffness": stiffness}, flight=0.1)
    assert soft.sound.all()
    assert soft.time[0] == pytest.approx(rig.device.quarter_period(rig.arm.mass) * 1e3, rel=1e-6)  # no joint gives way
    weak = eject_batch(rig, joints, overrides={"spring": np.array([1e-6, 1.0])}, flight=0.1)
    np.testing.assert_array_equal(weak.time, soft.time)  # equal springs: the factor is one on the stiffness
    heavy = eject_batch(rig, joints, overrides={"inertia": 1e6 * rig.arm.inertia_parameters}, flight=0.1, locked=LOCKED)
    assert heavy.time[0] == pytest.approx(rig.device.quarter_period(1e6 * rig.arm.mass), rel=1e-6)


def test_instants_of_the_clearance_are_a_whole_number(rig: Rig) -> None:
    for samples in (-1, 1.5):
        with pytest.raises(InputError, match="samples is"):
            eject_batch(rig, np.zeros(3), keep_out=[DECK], samples=samples)  # type: ignore[arg-type]


def test_a_run_separates_as_the_rig_does(space: Rig) -> None:
    """On a slanted rail, for any state; an error in the base's velocity would show in nothing but the clearance."""
    direction = np.array([1.0, -2.0, 2.0]) / 3.0
    rig = Rig(space.arm, SeparationDevice(812.7, 0.086, 2, direction=direction))
    states = np.random.default_rng(6).standard_normal((5, 13 + 2 * 8))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    for state in states:
        world, start = World({SATELLITE: rig.mounted_robot}), {SATELLITE: State.from_vector(state)}
        found = Separate(rig.rail, ARM).apply(world, start).states
        for name, vector in zip((ARM, SATELLITE), rig.split(state), strict=True):
            vector[3:7] *= np.sign(vector[3] * found[name].quaternion[0])  # a quaternion's sign says nothing
            np.testing.assert_allclose(found[name].vector, vector, rtol=1e-13, atol=1e-13)


def test_a_limit_that_is_passed_and_left_again_is_a_hit(rig: Rig) -> None:
    """A spring in the elbow takes it back: at separation and at the end it is within its limits."""
    elbow = replace(
        rig.arm.joint("joint4"), friction=None, damping=20.0, spring=Spring(200.0, np.radians(-45.0)), limits=LIMITS
    )
    arm = rig.arm.replace(joints=tuple(elbow if j.name == "joint4" else j for j in rig.arm.joints))
    own, joints = Rig(arm, rig.device, "y"), rig.arm.configuration("attitude2")
    run, batch = eject(own, joints, flight=6.0), eject_batch(own, joints, flight=6.0)
    for position in (run.variation[1] + joints[1], run.final_variation[1] + joints[1]):
        assert LIMITS.lower < position < LIMITS.upper
    assert [hit.joint for hit in run.hits] == ["joint4"]
    assert batch.hits[0].tolist() == [False, True, False]


def test_a_joint_that_stops_twice_has_stopped_at_the_later_time(rig: Rig) -> None:
    """The elbow stops on the rail, breaks loose where the rail ends, and stops again."""
    rough, joints = rig.with_joints(friction=Friction(12.0, 11.0)), np.radians([-36.0, -85.0, 75.0])
    run = eject(rough, joints, flight=2.0)
    sticks = [event.time for event in run.events if (event.kind, event.name) == ("stick", "joint4")]
    assert len(sticks) == 2
    assert sticks[0] < run.time < sticks[1] == run.stop_times["joint4"]
    assert eject_batch(rough, joints, flight=2.0).stop_times[0, 1] == pytest.approx(sticks[1], abs=1e-7)
