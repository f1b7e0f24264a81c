"""Releases that do not start at rest: tumbling satellites, joints that turn; against SciPy and MuJoCo."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.ejection import Ejection, PlaneRegion, ReleaseState, Rig, SeparationDevice, eject, eject_batch
from spacearm.ejection.verify import check_in_mujoco, friction_check, friction_laws, frictionless
from spacearm.errors import InputError
from spacearm.model import Body, Inertia, Robot

HEAVY = Inertia(500.0, np.array([0.1, 0.0, -0.5]), np.diag([80.0, 110.0, 70.0]))


def test_a_body_from_a_turning_heavy_satellite_against_scipy() -> None:
    """On a rail along z that turns about y through a pivot: z'' = (K / m) (c - z) + w^2 (z - z_pivot)."""
    mass, k, stroke, angular_rate, pivot = 20.0, 1600.0, 0.08, 0.4, np.array([0.2, 0.0, -0.7])
    com = np.array([0.05, 0.0, 0.1])
    body = Robot("payload", (Body("payload", Inertia(mass, com, np.diag([1.0, 1.2, 0.7]))),))
    device = SeparationDevice(k, stroke, pivot=pivot)

    def motion(_: float, y: np.ndarray) -> list[float]:
        return [y[1], k / mass * (stroke - y[0]) + angular_rate**2 * (y[0] + com[2] - pivot[2])]

    def gone(_: float, y: np.ndarray) -> float:
        return float(y[0] - stroke)

    gone.terminal = True  # type: ignore[attr-defined]
    exact = solve_ivp(motion, (0.0, 2.0), [0.0, 0.0], events=gone, rtol=1e-12, atol=1e-14)
    run = eject(Rig(body, device), [], release=ReleaseState(angular_velocity=[0.0, angular_rate, 0.0]), flight=3.0)
    assert run.time == pytest.approx(exact.t[-1], rel=1e-9)
    assert run.velocity == pytest.approx(exact.y[1, -1], rel=1e-9)
    assert run.sound
    # It leaves with the satellite's spin, and its mass centre with the rail's velocity and that of the turning point.
    np.testing.assert_allclose(run.angular_velocity, [0.0, angular_rate, 0.0], atol=1e-9)
    angle = angular_rate * run.time
    turn = np.array([[np.cos(angle), 0.0, np.sin(angle)], [0.0, 1.0, 0.0], [-np.sin(angle), 0.0, np.cos(angle)]])
    lever = np.array([0.0, 0.0, stroke]) + com - pivot
    speed = turn @ (np.array([0.0, 0.0, run.velocity]) + np.cross([0.0, angular_rate, 0.0], lever))
    np.testing.assert_allclose(run.drift_velocity, speed, atol=1e-9)
    batch = eject_batch(
        Rig(body, device), np.zeros((1, 0)), release=ReleaseState(angular_velocity=[0.0, angular_rate, 0.0]), flight=3.0
    )
    assert batch.velocity[0] == pytest.approx(run.velocity, rel=1e-7)


@pytest.mark.parametrize("satellite", [None, HEAVY])
def test_a_tumbling_release_in_mujoco(space: Rig, satellite: Inertia | None) -> None:
    """All seven joints stick and slip, some move already: MuJoCo has the same motion, momenta and energies are kept."""
    device = replace(space.device, satellite=satellite, pivot=None if satellite else np.array([0.3, 0.1, -0.8]))
    own = Rig(space.arm, device)
    release = ReleaseState(rates=[0.0, 0.05, 0.0, -0.1, 0.0, 0.2, 0.0], angular_velocity=[0.05, -0.12, 0.2])
    run = eject(own, "attitude2", release=release, flight=5.0)
    assert run.sound
    assert friction_laws(run) < 1e-9
    assert check_in_mujoco(run).largest < 1e-7
    batch = eject_batch(own, run.start, release=release, flight=5.0)
    assert batch.velocity[0] == pytest.approx(run.velocity, rel=1e-6)
    np.testing.assert_allclose(batch.variation[0], run.variation, atol=1e-7)
    np.testing.assert_allclose(batch.angular_velocity[0], run.angular_velocity, atol=1e-6)
    rest = eject(own, "attitude2", flight=5.0)
    assert np.linalg.norm(run.angular_velocity - rest.angular_velocity) > 0.1


def test_nothing_is_lost_between_arm_and_satellite(space: Rig) -> None:
    """Momenta of arm and satellite after the ejection are those before: body by body, from the release's numbers."""
    own = Rig(space.arm, replace(space.device, satellite=HEAVY))
    angular_rate = np.array([0.05, -0.12, 0.2])
    run = eject(own, "attitude1", release=ReleaseState(angular_velocity=angular_rate), flight=5.0)
    arm, satellite = run.rig.arm, run.satellite
    assert satellite is not None
    speed, turn = run.recoil
    centre = run.satellite.states[0, :3] + _rotation(run.satellite.states[0, 3:7]) @ HEAVY.com  # type: ignore[union-attr]
    carried = HEAVY.mass * (speed + np.cross(turn, centre - run.satellite.states[0, :3]))  # type: ignore[union-attr]
    np.testing.assert_allclose(carried + arm.mass * run.drift_velocity, 0.0, atol=1e-9)


def _rotation(quaternion: np.ndarray) -> np.ndarray:
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternion, scalar_first=True).as_matrix()


def test_joints_that_move_bring_their_energy(rig: Rig) -> None:
    rate = 0.3
    run = eject(rig, "attitude1", release=ReleaseState(rates=[0.0, 0.0, rate]), flight=1.0)
    assert run.ledger["kinetic_at_release"] == pytest.approx(0.5 * carried_inertia(rig, 2) * rate**2, rel=1e-9)
    assert abs(run.ledger["residual"]) < 1e-9
    with pytest.raises(InputError, match="'joint4' is locked but moves"):
        eject(rig, "attitude1", release=ReleaseState(rates=[0.0, 0.1, 0.0]), locked=["joint4"])
    with pytest.raises(InputError, match="is locked but moves"):
        eject_batch(rig, run.start, release=ReleaseState(rates=[0.0, 0.1, 0.0]), locked=["joint4"])


def carried_inertia(rig: Rig, joint: int) -> float:
    """Inertia of what one joint carries, about its axis: by the parallel-axis theorem."""
    part = rig.arm.joints[joint]
    body = rig.arm.bodies[joint + 1].inertia
    lever = body.com - (body.com @ part.axis) * part.axis
    return float(part.axis @ body.tensor @ part.axis + body.mass * lever @ lever)


def test_on_the_table_it_turns_in_the_plane(rig: Rig) -> None:
    run = eject(rig, "attitude2", release=ReleaseState(angular_velocity=[0.0, 0.1, 0.0]), flight=4.0)
    assert run.sound
    assert np.all(run.flight.data["base_position"].sel(axis="y") == 0.0)
    with pytest.raises(InputError, match="leaves the table"):
        eject(rig, "attitude2", release=ReleaseState(angular_velocity=[0.1, 0.0, 0.0]))


def test_regions_turn_with_the_satellite() -> None:
    """A point thrown off along z under a ceiling that turns away: the distance is that in the satellite's frame."""
    body = Robot("payload", (Body("payload", Inertia(20.0, np.zeros(3), np.diag([1.0, 1.2, 0.7]))),))
    pivot, w = np.array([0.0, 0.0, -0.5]), 0.3
    own = Rig(body, SeparationDevice(1600.0, 0.08, pivot=pivot))
    ceiling = PlaneRegion(np.array([0.0, 0.0, 5.0]), np.array([0.0, 0.0, -1.0]))
    release = ReleaseState(angular_velocity=[0.0, w, 0.0])
    run = eject(own, [], release=release, keep_out=[ceiling], flight=3.0)
    times, places = run.data["time"].values, run.data["position"].values - pivot
    height = pivot[2] + np.sin(w * times) * places[:, 0] + np.cos(w * times) * places[:, 2]
    assert run.clearance is not None
    assert run.clearance.least == pytest.approx(5.0 - height.max(), abs=1e-9)
    batch = eject_batch(own, np.zeros((1, 0)), release=release, keep_out=[ceiling], flight=3.0, samples=200)
    assert batch.clearance[0] == pytest.approx(run.clearance.least, abs=1e-3)


def test_a_release_for_each_sample(rig: Rig) -> None:
    spins = np.array([[0.0, w, 0.0] for w in (-0.1, 0.0, 0.2)])
    rates = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, -0.2, 0.0]])
    start = rig.arm.configuration("attitude2")
    batch = eject_batch(rig, start, release=ReleaseState(rates, spins), flight=2.0)
    for i in range(3):
        run = eject(rig, start, release=ReleaseState(rates[i], spins[i]), flight=2.0)
        assert batch.velocity[i] == pytest.approx(run.velocity, rel=1e-6)
    with pytest.raises(InputError, match="'configurations' has 2 samples, others have 3"):
        eject_batch(rig, np.stack([start, start]), release=ReleaseState(angular_velocity=spins))


def test_bad_releases(rig: Rig) -> None:
    for text, release in {
        "rates has 2 numbers": ReleaseState(rates=[0.0, 0.0]),
        "angular_velocity has 1 numbers": ReleaseState(angular_velocity=[0.1]),
        "angular_velocity[1] is nan": ReleaseState(angular_velocity=[0.0, np.nan, 0.0]),
        "rates is not an array of numbers": ReleaseState(rates=["fast"]),
    }.items():
        with pytest.raises(InputError) as caught:
            eject(rig, "attitude1", release=release)
        assert text in str(caught.value)
    with pytest.raises(InputError, match="has a pivot"):
        SeparationDevice(800.0, 0.08, satellite=HEAVY, pivot=np.zeros(3))


def test_friction_without_friction_is_not_called_right(space: Rig) -> None:
    smooth = frictionless(space)
    runs = SimpleNamespace(rail=SimpleNamespace(robot=smooth.mounted_robot), flight=SimpleNamespace(robot=smooth.arm))
    check = friction_check(cast(Ejection, runs))
    assert check.verdict == "not applicable"
    assert check.note.startswith("no joint has dry friction")
