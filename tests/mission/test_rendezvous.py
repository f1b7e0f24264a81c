"""The base goes to the target under thrusters: closed forms, pulses by hand, MuJoCo, zones, aborts."""

from __future__ import annotations

import tomllib
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.spatial.transform import Rotation
from tests.support.missions import EXAMPLES, fly_document, rows

from spacearm.errors import InputError
from spacearm.mission._base_path import HoldPoint, TargetMotion, plan_base_path
from spacearm.mission._rendezvous import RendezvousTable
from spacearm.mission._station import tabulate_levels
from spacearm.mission._zones import ellipsoid_distance, plume_angle, point_distance
from spacearm.mission.scenario import MissionFindings
from spacearm.model import CollisionShape, Inertia, Pose, catalogue
from spacearm.simulate import State
from spacearm.typing import Array

RATE = 0.0011  # rad/s, of a low orbit
HOLDS = [
    {"distance": 1.5, "path": "arc", "transfer": 120.0, "stay": 5.0},
    {"distance": 0.4, "transfer": 30.0, "stay": 5.0, "corridor": True},
]


def fly(cross_check: bool = False, **changes: Any) -> MissionFindings:
    """A short approach and catch from 4.5 m; other keys as ``target__mass = 3.0``."""
    document = tomllib.loads((EXAMPLES / "mission-approach.toml").read_text())
    for name in ("navigation", "retreat", "settle", "detumble", "orbit"):
        document.pop(name)
    document["start"]["position"] = [0.0, -4.5, 0.0]
    document["limits"]["base_rate_deg"] = 8.0
    document["rendezvous"] |= {"hold": HOLDS, "keep_out": [{"semi_axes": [1.5, 1.5, 1.5]}]}
    document["approach"]["duration"], document["catch"]["duration"] = 10.0, 2.0
    return fly_document(document, changes, cross_check=cross_check)


@lru_cache(maxsize=1)
def short() -> MissionFindings:
    return fly()


def outcome(mission: MissionFindings) -> str:
    return "go" if mission.is_successful else f"{mission.worst.stage}: {mission.worst.binding_limit.name}"


# -- the flight ------------------------------------------------------------


def test_it_goes_with_the_tumble_and_catches() -> None:
    """At the end of the rendezvous the bus moves as a point of the target does, and faces the grasp."""
    mission, found = short(), rows(short())
    assert outcome(mission) == "go"
    assert mission.run.sound
    assert [each.stage for each in mission.outcomes] == ["rendezvous", "approach", "touch", "catch"]
    assert found["rendezvous.distance"] == pytest.approx(0.4, abs=0.03)
    data = mission.data()
    data = data.isel(time=int(np.searchsorted(data["time"].values, 159.99)))
    turning, away = data["target_angular_velocity"].values, (data["base_position"] - data["target_position"]).values
    np.testing.assert_allclose(data["base_velocity"].values, np.cross(turning, away), atol=6e-3)
    np.testing.assert_allclose(data["base_angular_velocity"].values, turning, atol=2e-3)
    assert np.linalg.norm(np.cross(turning, away)) > 0.04
    assert found["touch.angle"] < np.radians(1.0)


def test_propellant_and_momentum_are_those_of_the_pulses() -> None:
    """By the pulses in the data: mass flow, and without an orbit the momentum that the servicer has gained."""
    mission, parts = short(), {part.name: part for part in catalogue.load("servicer").thrusters}
    data, track = mission.data(), mission.run.tracks[0]
    names = [str(name) for name in data["pulse_thruster"].values]
    lasted = (data["pulse_end"] - data["pulse_begin"]).values
    assert len(names) > 50
    spent = sum(parts[n].force * t / (parts[n].specific_impulse * 9.80665) for n, t in zip(names, lasted, strict=True))
    assert spent == pytest.approx(rows(mission)["budget.catch.propellant"], rel=1e-9)
    # Samples are dense against the rotation in a pulse: the bus turns by 1e-4 rad in it.
    turn = Rotation.from_quat(track.states[:, 3:7].copy(), scalar_first=True)
    before = data["pulse_end"].values <= track.times[-1]
    middle = 0.5 * (data["pulse_begin"] + data["pulse_end"]).values
    gained = np.zeros(3)
    for name, time, own, counts in zip(names, middle, lasted, before, strict=True):
        k = min(int(np.searchsorted(track.times, time)), len(track.times) - 1)
        gained += counts * own * parts[name].force * turn[k].apply(parts[name].direction.copy())
    mission_robot, end = mission.flight.actuators.robot, track.states[-1]
    from spacearm.engine import mechanics_of

    n = mission_robot.n
    base = np.concatenate([end[:3], end[3:7]])
    momentum = mechanics_of(mission_robot).momentum(end[7 : 7 + n], end[7 + n :], base=base)
    np.testing.assert_allclose(momentum[:3], gained, atol=0.02 * np.linalg.norm(gained) + 0.1)


def test_mujoco_flies_the_same_in_closed_loop() -> None:
    hold = [{"distance": 2.0, "path": "arc", "transfer": 20.0, "stay": 1.0},
            {"distance": 0.5, "transfer": 15.0, "stay": 1.0}]  # fmt: skip
    mission = fly(
        cross_check=True, start__position=[-3.5, -1.5, 0.0], rendezvous__hold=hold, rendezvous__position_error=1.0,
        rendezvous__keep_out=[], rendezvous__angle_error_deg=60.0, rendezvous__speed_error=1.0, approach__duration=4.0,
        continue_after_limit=True, rendezvous__period=0.1, approach__period=0.1,
    )  # fmt: skip
    assert [each.stage for each in mission.outcomes][:2] == ["rendezvous", "approach"]
    assert mission.checked is not None
    assert mission.checked.applies
    assert mission.checked.value < 1e-8


def test_plumes_are_judged_between_samples() -> None:
    """A record with few samples tells the same: what counts is where the target is while a thruster fires."""
    given: dict[str, Any] = {"plume": {"angle_deg": 0.5, "range": 1.2}, "rendezvous__period": 0.1}
    limits = [{limit.name: limit for limit in fly(**given, sample=sample).outcomes[0].limits} for sample in (0.1, 2.5)]
    fine, coarse = (each["plume"] for each in limits)
    assert coarse.used == pytest.approx(fine.used, abs=3e-4)
    # The first pulse that reaches the target, not the sample before it.
    early = [fly(**given | {"plume": {"range": 6.0}}, sample=sample).worst.binding_limit for sample in (0.1, 2.5)]
    assert [limit.name for limit in early] == ["plume"] * 2
    assert early[1].time == pytest.approx(early[0].time, abs=0.02)


def test_errors_at_a_hold_point_are_judged_between_samples() -> None:
    """A base that swings about its hold point, sampled beside the peaks: amplitudes by hand."""
    times, rate, swing, tilt = np.arange(0.0, 50.0, 2.0), 2.0 * np.pi / 20.0, 0.02, 0.03
    wave, speed = np.sin(rate * times), rate * np.cos(rate * times)
    target, base = np.zeros((2, times.size, 13))
    target[:, 3] = 1.0
    base[:, 0], base[:, 7] = 3.0 + swing * wave, swing * speed
    base[:, 3], base[:, 4], base[:, 10] = np.cos(0.5 * tilt * wave), np.sin(0.5 * tilt * wave), tilt * speed
    table = SimpleNamespace(assumed_robot=SimpleNamespace(bodies=[SimpleNamespace(inertia=Inertia(1.0))]))
    flight: Any = SimpleNamespace(
        name="servicer", table=table, context=SimpleNamespace(samples=(times, {"servicer": base, "target": target}))
    )
    hold = HoldPoint("target", Pose(translation=np.array([3.0, 0.0, 0.0])), 10.0, 50.0, False)
    _, (position, attitude, velocity) = RendezvousTable(hold=[])._judge_stay(flight, hold)
    assert np.abs(swing * wave).max() < 0.96 * swing
    assert position.used == pytest.approx(swing, rel=1e-3)
    assert attitude.used == pytest.approx(tilt, rel=1e-3)
    assert velocity.used == pytest.approx(swing * rate, rel=0.06)
    assert min(abs(position.time - peak) for peak in (5.0, 15.0, 25.0, 35.0, 45.0)) < 0.1  # type: ignore[operator]


def test_settings_do_not_change_the_verdict() -> None:
    """Half the period, other samples and tolerance: a go stays one, a no-go one, with the same limit first."""
    cases: list[dict[str, Any]] = [
        {},
        {"rendezvous__keep_out": [{"semi_axes": [4.0, 4.0, 4.0]}]},
        {"plume__range": 6.0},
    ]
    settings: list[dict[str, Any]] = [
        {"rendezvous__period": 0.05, "approach__period": 0.02},
        {"sample": 0.1, "tolerance": 1e-9},
    ]
    words = ["go", "rendezvous: keep-out volume", "rendezvous: plume"]
    for case, expected in zip(cases, words, strict=True):
        assert [outcome(fly(**case, **each)) for each in ({}, *settings)] == [expected] * 3


def test_worse_is_never_better() -> None:
    """Less propellant, a faster tumble: margins fall, and what is no go stays so."""
    enough = rows(short())["budget.catch.propellant"]
    margins = [fly(limits__propellant=share * enough).worst.margin for share in (1.01, 0.99)]
    assert margins[0] >= 0.0 > margins[1]
    spent, verdicts = [], []
    for factor in (1.0, 4.0):
        mission = fly(target__tumble_deg=[0.3 * factor, -1.0 * factor, 0.6 * factor], limits__propellant=10.0)
        spent.append(rows(mission)["budget.rendezvous.propellant"])
        verdicts.append(mission.is_successful)
    assert spent[0] < spent[1]
    assert verdicts == [True, False]


def test_thrusters_can_rotate_it_too() -> None:
    by_thrusters = fly(rendezvous__rotation="thrusters")
    assert outcome(by_thrusters) == "go"
    # The bus turns with the target: what it carries the wheels have not taken.
    assert rows(by_thrusters)["budget.rendezvous.wheels"] < 0.01
    assert rows(by_thrusters)["budget.rendezvous.momentum"] > 2.0


def test_a_base_that_floats_is_left_behind_by_a_tumble() -> None:
    """Without thrusters during the approach of the hand a slow target is caught, and a fast one no more."""
    slow, fast = (
        fly(rendezvous__keep=False, approach__duration=20.0, target__tumble_deg=tumble)
        for tumble in ([0.0, 0.2, 0.1], [0.3, -1.0, 0.6])
    )
    assert outcome(slow) == "go"
    assert fast.worst.stage == "approach"
    assert not fast.is_successful
    assert rows(slow)["budget.approach.propellant"] == rows(slow)["budget.rendezvous.propellant"]


def test_laws_act_on_what_a_camera_tells() -> None:
    """A bias of the camera moves the base by as much, and the verdict is by the truth."""
    camera = {"position_bias": [0.0, 0.0, 0.3], "position_start": 0.3, "update": 5.0}
    mission = fly(navigation={"camera": camera})
    assert outcome(mission) == "rendezvous: hold position"
    assert mission.worst.binding_limit.used == pytest.approx(0.3, abs=0.1)


# -- aborts ------------------------------------------------------------


def test_an_abort_coasts_as_clohessy_and_wiltshire_say() -> None:
    """From the end of the escape on, the mass centres of both by the closed form; the least distance judges it."""
    retreat = {"time": 140.0, "escape_speed": 0.1, "coast": 1500.0, "safe_distance": 1.0}
    mission = fly(orbit=RATE, retreat=retreat)
    assert mission.run.sound
    assert [each.stage for each in mission.outcomes] == ["rendezvous", "retreat"]
    assert outcome(mission) == "go"
    assert mission.outcomes[-1].begin == pytest.approx(140.0)
    from spacearm.simulate.bodies import centre_motion
    from spacearm.simulate.overrides import robot_parameters

    for name in ("servicer", "target"):
        track = [each for each in mission.run.tracks if each.name == name][-1]
        late = track.times >= mission.outcomes[-1].begin + 30.0
        states, numbers = track.states[late], robot_parameters(track.robot)
        seen = centre_motion(track.robot, states, numbers["inertia"], numbers["rotor"])
        centres = states[:, :3] + seen.centre
        (x, y, z), (u, v, w), t, n = centres[0], seen.velocity[0], track.times[late] - track.times[late][0], RATE
        s, c = np.sin(n * t), np.cos(n * t)
        closed = [
            (4 - 3 * c) * x + s / n * u + 2 / n * (1 - c) * v,
            6 * (s - n * t) * x + y - 2 / n * (1 - c) * u + (4 * s / n - 3 * t) * v,
            z * c + w / n * s,
        ]
        np.testing.assert_allclose(centres, np.array(closed).T, atol=1e-6)
    gaps = mission.data()["gap"].values[mission.data()["time"].values > mission.outcomes[-1].begin + 30.0 - 1e-6]
    assert rows(mission)["retreat.coast"] == pytest.approx(gaps.min(), abs=1e-6)


def test_an_escape_towards_the_target_is_no_go() -> None:
    """A push down from 8 m behind leads to the target by half an orbit later, 4 dv / n ahead; one up leads away."""
    retreat = {"time": 0.5, "escape_speed": 0.0023, "coast": 5000.0, "safe_distance": 3.0}
    down, up = (
        fly(orbit=RATE, start__position=[0.0, -8.0, 0.0], retreat={**retreat, "escape_direction": [sign, 0.0, 0.0]})
        for sign in (-1.0, 1.0)
    )
    assert outcome(down) == "retreat: safe distance"
    assert down.worst.binding_limit.used < 1.5
    assert outcome(up) == "go"
    far = np.linalg.norm(up.data()["base_position"].values, axis=1).max()
    assert far > 14.0  # the shortest pulses are a third of this push


# -- parts ------------------------------------------------------------


def spinning_target() -> TargetMotion:
    times = np.arange(0.0, 200.5, 0.5)
    rotation = Rotation.from_rotvec(np.outer(times, [0.0, 0.0, 0.03])).as_matrix()
    still = np.zeros((times.size, 3))
    return TargetMotion(times, still, rotation, still)


def path_of(holds: list[HoldPoint], start: Array) -> tuple[Array, Array, Array]:
    """Places in the target's axes, rotations there, speeds in the world."""
    target = spinning_target()
    state = State.from_velocities(catalogue.load("servicer"), position=start)
    path = plan_base_path(target, holds, state)
    place = np.stack([signal(target.times) for signal in path.position], axis=1)
    speed = np.stack([signal.derivative()(target.times) for signal in path.position], axis=1)
    own = Rotation.from_quat(
        np.stack([s(target.times) for s in path.quaternion], axis=1), scalar_first=True
    ).as_matrix()
    back = np.swapaxes(target.rotation, 1, 2)
    return np.einsum("tij,tj->ti", back, place), back @ own, speed


def test_a_path_ends_in_step_with_the_target() -> None:
    pose = Pose(Rotation.from_euler("z", 90, degrees=True).as_matrix(), np.array([0.0, 3.0, 1.0]))
    place, turn, speed = path_of([HoldPoint("target", pose, 120.0, 80.0, True)], np.array([8.0, 0.0, 0.0]))
    times = spinning_target().times
    np.testing.assert_allclose(place[times >= 120.0], np.broadcast_to([0.0, 3.0, 1.0], (161, 3)), atol=1e-12)
    np.testing.assert_allclose(turn[times >= 120.0], np.broadcast_to(pose.rotation, (161, 3, 3)), atol=1e-12)
    # An arc: the distance falls evenly with the share, from 8 m to its end.
    distance, share = np.linalg.norm(place, axis=1), np.clip(times / 120.0, 0.0, 1.0)
    share = share**3 * (10.0 - 15.0 * share + 6.0 * share**2)
    np.testing.assert_allclose(distance, 8.0 + share * (np.sqrt(10.0) - 8.0), atol=1e-9)
    assert np.linalg.norm(speed[0]) < 1e-6
    assert np.linalg.norm(np.diff(speed[:-1], 2, axis=0), axis=1).max() < 2e-3  # no jump of the velocity


def test_half_a_revolution_needs_a_hold_point_between() -> None:
    hold = HoldPoint("orbit", Pose(translation=np.array([-4.0, 0.0, 0.0])), 100.0, 10.0, True)
    with pytest.raises(InputError, match=r"rendezvous\.hold\[0\]: the arc about the target"):
        path_of([hold], np.array([8.0, 0.0, 0.0]))


def test_levels_give_one_force_or_torque_alone() -> None:
    robot, centre = catalogue.load("servicer"), (0.05, 0.0, 0.2)
    names, table = tabulate_levels(robot, centre, True)
    parts = [robot.thruster(name) for name in names]
    force = np.array([part.force * part.direction for part in parts])
    torque = np.cross(np.array([part.position for part in parts]) - centre, force)
    found = table @ np.concatenate([force, torque], axis=1)
    np.testing.assert_allclose(found, np.concatenate([np.eye(6), -np.eye(6)]), atol=1e-12)
    assert table.min() >= 0.0


def test_distances_from_an_ellipsoid_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        axes, turn, tilt = (Rotation.random(rng=rng).as_matrix() for _ in range(3))
        semi, half = rng.uniform(0.5, 4.0, 3), rng.uniform(0.1, 1.0, 3)
        centre, origin, shift = rng.normal(size=3), 4.0 * rng.normal(size=3), rng.normal(size=3)
        box = (Pose(tilt, shift), half)
        found = ellipsoid_distance(semi, axes[None], centre[None], turn[None], origin[None], box)[0]
        scaled = axes.T / semi[:, None]
        right = -scaled @ (origin + turn @ shift - centre)
        best = lsq_linear(scaled @ turn @ tilt, right, bounds=(-half, half), tol=1e-14)
        assert found == pytest.approx(np.sqrt(2.0 * best.cost), rel=1e-6, abs=1e-7)


def test_the_plume_is_a_cone() -> None:
    """A ball that is seen under an angle; a box by a dense cloud of its points."""
    axis, target = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    ball = (CollisionShape("sphere", np.array([0.5])),)
    for aside in (1.0, 2.0):
        nozzle = np.array([[-3.0, -aside, 0.0]])
        seen = np.arctan2(aside, 3.0) - np.arcsin(0.5 / np.hypot(3.0, aside))
        assert plume_angle(nozzle, axis, 10.0, target, ball)[0] == pytest.approx(seen, rel=1e-3)
    box = CollisionShape("box", np.array([1.0, 2.0, 0.6]), Pose(translation=np.array([0.2, 0.0, 0.1])))
    grid = np.stack(np.meshgrid(*(np.linspace(-0.5, 0.5, 101),) * 3), axis=-1).reshape(-1, 3)
    cloud = grid * box.size + box.placement.translation - np.array([-2.0, -2.5, 0.7])
    least = np.arccos((cloud[:, 0] / np.linalg.norm(cloud, axis=1)).max())
    found = plume_angle(np.array([[-2.0, -2.5, 0.7]]), axis, 10.0, target, (box,))[0]
    assert found == pytest.approx(least, rel=2e-3)
    assert plume_angle(np.array([[-2.0, -2.5, 0.7]]), -axis, 10.0, target, (box,))[0] == pytest.approx(0.5 * np.pi)
    for shape, point, far in (
        (CollisionShape("cylinder", np.array([0.5, 2.0])), [1.5, 0.0, 2.0], np.sqrt(2.0)),
        (CollisionShape("capsule", np.array([0.5, 2.0])), [0.0, 0.0, 2.0], 0.5),
    ):
        assert point_distance(shape, np.array(point)) == pytest.approx(far)


def test_wrong_tables_are_told_with_their_place() -> None:
    for changes, message in (
        ({"strategy": "biased"}, r"rendezvous: the hand does not follow the grasp in strategy 'biased'"),
        ({"rendezvous__hold": []}, "rendezvous: hold: is empty"),
        ({"rendezvous__hold": [{"transfer": 5.0}]}, r"rendezvous: hold\[0\]: has no position"),
        ({"rendezvous__hold": [{"distance": 1.0, "transfer": 5.2}]}, r"hold\[0\]: transfer: is 5\.2 s"),
        (
            {"rendezvous__hold": [{"position": [0, -4, 0], "frame": "orbit"}]},
            "the last hold point is not fixed to the target",
        ),
        ({"rendezvous__keep_out": [{"semi_axes": [1, 0, 1]}]}, r"keep_out\[0\]: semi_axes"),
        ({"rendezvous__corridor_deg": 90.0}, "rendezvous: corridor: is a right angle"),
        ({"start__position": [0.0, 0.0, 0.0]}, r"rendezvous\.hold\[0\]: the arc begins or ends at the target's mass"),
        ({"target__closing_speed": 0.02}, "target: closing_speed: does not apply in a rendezvous"),
        ({"rendezvous": None, "retreat": {"escape_speed": 0.1}}, "retreat: escape_speed: no thruster acts"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            fly(**changes)  # type: ignore[arg-type]
