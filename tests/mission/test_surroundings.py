"""What acts in a mission and what is measured of it: orbit, contact, clearance, momentum, each computed otherwise."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import lsq_linear
from tests.mission.test_failures import CONTACT, LATE
from tests.support.brute_force import momentum_about_base, rotation_of
from tests.support.missions import EXAMPLES, SHORT, flown
from tests.support.numpy_kinematics import body_poses

from spacearm.errors import InputError
from spacearm.mission._clearance import compute_gaps
from spacearm.mission._encounter import MissionTargetTable
from spacearm.mission._laws import Actuators
from spacearm.mission.scenario import MissionFindings
from spacearm.model import catalogue
from spacearm.simulate.run.run import Track
from spacearm.typing import Array

RATE = 0.0011  # rad/s, of a low orbit


def pose_of(state: Array) -> Array:
    """4 x 4, of a flat state's base."""
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = rotation_of(state[3:7]), state[:3]
    return found


def test_the_target_drifts_as_hill_says() -> None:
    """Its mass centre from the start on, by the closed form of Clohessy and Wiltshire, up to the touch."""
    mission = flown(**SHORT, orbit=RATE, target__drift=[0.0, 0.01, -0.005], approach__duration=60.0)
    assert mission.is_successful
    assert mission.run.sound
    track = next(each for each in mission.run.tracks if each.name == "target")
    com = track.robot.bodies[0].inertia.com
    centres = np.array([state[:3] + rotation_of(state[3:7]) @ com for state in track.states])
    start = track.states[0]
    speed = rotation_of(start[3:7]) @ (start[7:10] + np.cross(start[10:13], com))
    (x, y, z), (u, v, w), t = centres[0], speed, track.times
    s, c, n = np.sin(RATE * t), np.cos(RATE * t), RATE
    closed = [
        (4 - 3 * c) * x + s / n * u + 2 / n * (1 - c) * v,
        6 * (s - n * t) * x + y - 2 / n * (1 - c) * u + (4 * s / n - 3 * t) * v,
        z * c + w / n * s,
    ]
    np.testing.assert_allclose(centres, np.array(closed).T, atol=1e-9)
    straight = centres[0] + np.outer(t, speed)
    assert np.abs(straight - centres).max() > 0.01  # it does drift


def test_a_contact_pushes_before_the_latch_closes() -> None:
    """Until then the plate has taken just what the target's momentum lost; without it, the target flies on freely."""
    mission = flown(**SHORT, touch__contact=[CONTACT], approach__period=0.1, **LATE)
    assert mission.is_successful
    assert mission.run.sound
    kinds = [event.kind for event in mission.run.events]
    assert kinds.index("touch") < kinds.index("function") < kinds.index("change")
    track = next(each for each in mission.run.tracks if each.name == "target")
    com, ends = track.robot.bodies[0].inertia.com, track.states[[0, -1]]
    before, after = (rotation_of(s[3:7]) @ (s[7:10] + np.cross(s[10:13], com)) for s in ends)
    pushed = 150.0 * (after - before)
    (touch,) = mission.run.touches
    np.testing.assert_allclose(touch.impulse, pushed, atol=1e-7 * np.linalg.norm(pushed))
    assert np.linalg.norm(pushed) > 0.1  # N s


def test_wrong_sides_of_a_contact_are_told_with_their_place() -> None:
    with pytest.raises(InputError, match=r"touch\.contact\[0\]: first: frame: .* has no collision shapes"):
        flown(**SHORT, touch__contact=[CONTACT | {"first": {"frame": "servicer/hand", "kind": "collision"}}])
    with pytest.raises(InputError, match="arm/hand"):
        flown(**SHORT, touch__contact=[CONTACT | {"first": {**CONTACT["first"], "frame": "arm/hand"}}])


def gap(mission: MissionFindings, track: Track, row: int, target: Array) -> float:
    """Least distance of the target's box from the line in link 4, less that link's radius: by least squares."""
    robot, state = track.robot, track.states[row]
    link = body_poses(robot, state[7 : 7 + robot.n], pose_of(state))["link4"]
    box = target.copy()
    box[:3, 3] += box[:3, :3] @ mission.flight.table.reference_robot.bodies[0].inertia.com
    ends = [(link @ [0.0, y, 0.0, 1.0])[:3] for y in (-0.7, 0.0)]
    matrix = np.column_stack([box[:3, :3], ends[0] - ends[1]])
    half = 0.5 * np.array([1.2, 1.0, 0.8])
    found = lsq_linear(matrix, ends[0] - box[:3, 3], bounds=([*-half, 0.0], [*half, 1.0]), tol=1e-14, method="bvls")
    return float(np.sqrt(2.0 * found.cost)) - 0.06


def test_clearances_are_those_of_the_shapes() -> None:
    """Link 4 is the nearest; before the catch from two systems, afterwards from one."""
    mission = flown(**SHORT, sample=1.0, catch__mode="rigid")
    outcomes = {each.stage: each for each in mission.outcomes}
    arms = [track for track in mission.run.tracks if track.name == "servicer"]
    alone = next(track for track in mission.run.tracks if track.name == "target")
    before = [gap(mission, arms[0], k, pose_of(state)) for k, state in enumerate(alone.states)]
    after = []
    for track in arms[1:]:
        inside = (track.times <= outcomes["catch"].end) & (track.times >= outcomes["catch"].begin)
        for row in np.flatnonzero(inside):
            state = track.states[row]
            frame, place = track.robot.frame("target body"), np.eye(4)
            place[:3, :3], place[:3, 3] = frame.placement.rotation, frame.placement.translation
            held = body_poses(track.robot, state[7 : 7 + track.robot.n], pose_of(state))[frame.body] @ place
            after.append(gap(mission, track, row, held))
    for stage, found in (("approach", before), ("catch", after)):
        (limit,) = [each for each in outcomes[stage].limits if each.name == "clearance lost"]
        assert limit.what == "target and link4"
        assert limit.used == pytest.approx(min(found), abs=1e-7)
    assert np.ptp(before) > 0.1


def test_without_shapes_two_balls_keep_apart(tmp_path: Path) -> None:
    lines = catalogue.text("servicer").replace("collision = [\n", "visual_of_old = [\n").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("collision"))
    head, _, rest = text.partition("visual_of_old = [")
    (tmp_path / "balls.toml").write_text(head + rest.partition("\n]\n")[2])
    mission = flown(**SHORT, robot=str(tmp_path / "balls.toml"), bus_radius=0.8, sample=1.0)
    (limit,) = [each for each in mission.outcomes[0].limits if each.name == "clearance lost"]
    by_name = {track.name: track for track in reversed(mission.run.tracks)}
    com = by_name["target"].robot.bodies[0].inertia.com
    centres = np.array([state[:3] + rotation_of(state[3:7]) @ com for state in by_name["target"].states])
    far = np.linalg.norm(centres - by_name["servicer"].states[: len(centres), :3], axis=1)
    assert limit.used == pytest.approx(far.min() - 0.8 - 0.5 * np.linalg.norm([1.2, 1.0, 0.8]), abs=1e-9)


def momentum(track: Track, row: int) -> Array:
    """(6) of a system about the world's origin: linear, angular; bodies and wheels one by one."""
    robot, state = track.robot, track.states[row]
    turn = rotation_of(state[3:7])
    inside = momentum_about_base(robot, state[7 : 7 + robot.n], state[7 + robot.n :])
    linear, angular = turn @ inside[:3], turn @ inside[3:]
    return np.array([*linear, *angular + np.cross(state[:3], linear)])


def firings(mission: MissionFindings) -> list[tuple[str, float, float, float]]:
    """Thruster, from, until, level: what laws commanded, and what the file fires while the target is weighed."""
    found = []
    for log in mission.run.commands:
        edges = np.append(log.times, log.end)
        for name in (name for name in log.names if name.startswith("thruster")):
            found += [(name, a, b, level) for a, b, level in zip(edges, edges[1:], log[name], strict=False) if level]
    begin = next((each.begin for each in mission.outcomes if each.stage == "identify"), 0.0)
    for fired in mission.flight.file.identify.thruster if mission.flight.file.identify else ():
        found += [(fired.name, begin + a, begin + b, 1.0) for a, b in fired.on or ()]
    return found


def test_momentum_of_all_with_exhaust_and_wheels() -> None:
    """From the states alone: bodies and wheels hold what they had at the start and what thrusters have pushed since."""
    mission = flown(sample=0.01, identify__sensors={"sample": 0.05, "seed": 1}, detumble__actuator="thrusters")
    tracks = [each for each in mission.run.tracks if each.name == "servicer"]
    times = np.concatenate([each.times for each in tracks])
    poses = np.concatenate([each.states[:, :7] for each in tracks])
    kept = np.append(np.diff(times) > 1e-9, True)
    turns = np.array([rotation_of(pose[3:7]) for pose in poses])
    speeds = np.concatenate([each.states[:, 7 + each.robot.n : 13 + each.robot.n] for each in tracks])
    velocity, angular_rate = (np.einsum("tij,tj->ti", turns, speeds[:, part]) for part in (slice(3), slice(3, 6)))
    place = CubicHermiteSpline(times[kept], poses[kept, :3], velocity[kept])
    rates = np.cross(angular_rate[:, None], turns.transpose(0, 2, 1)).transpose(0, 2, 1)  # of the base's axes
    axes = CubicHermiteSpline(times[kept], turns[kept], rates[kept])
    fired = firings(mission)
    assert len({name for name, *_ in fired}) > 6
    nodes, weights = np.polynomial.legendre.leggauss(4)

    def pushed(until: float) -> Array:
        total = np.zeros(6)
        for name, begin, end, level in fired:
            part = mission.flight.actuators.robot.thruster(name)
            cuts = np.unique(np.clip([begin, *times[(times > begin) & (times < end)], end], None, until))
            at = (0.5 * np.diff(cuts)[:, None] * (nodes + 1) + cuts[:-1, None]).ravel()
            force = level * part.force * axes(at) @ part.direction
            point = place(at) + axes(at) @ part.position
            size = (0.5 * np.diff(cuts)[:, None] * weights).ravel()
            total += [*size @ force, *size @ np.cross(point, force)]
        return total

    first = {track.name: track for track in reversed(mission.run.tracks)}
    start = momentum(first["servicer"], 0) + momentum(first["target"], 0)
    scale = np.abs(start).max()
    checked = 0
    for track in tracks[1:]:
        for row in (0, len(track.times) // 2, -1):
            expected = start + pushed(float(track.times[row]))
            np.testing.assert_allclose(momentum(track, row), expected, rtol=0.0, atol=1e-8 * scale)
            checked += 1
    assert checked > 6
    assert np.abs(pushed(mission.run.end_time)).max() > 1.0


def test_a_target_with_collision_shapes_keeps_away_by_these() -> None:
    """A ball on a boom, off the mass centre: its centre from the nearest point of the bus's box, by hand."""
    document = tomllib.loads((EXAMPLES / "mission.toml").read_text())["target"]
    ball = {"shape": "sphere", "size": [0.2], "origin": {"xyz": [0.0, 3.0, 0.0]}}
    table = MissionTargetTable.model_validate(document | {"collision": [ball, {"shape": "ring", "size": [0.3, 0.01]}]})
    robot = catalogue.load("servicer")
    actuators = Actuators(robot, "hand", (), ())
    rest = np.zeros((2, 13 + 2 * robot.n))
    rest[:, 3] = 1.0
    half = math.sqrt(0.5)  # a quarter turn about z: the boom points along -x
    target = np.array([[9.0, 0.0, 0.0, half, 0.0, 0.0, half], [9.0, 0.5, 0.0, 1.0, 0.0, 0.0, 0.0]])
    found, names = compute_gaps(actuators, table, 0.0, rest, target)
    assert names[0] == robot.bodies[0].name
    # the bus has edges of 1.0, 1.0 and 1.2 m about the origin; the ball is at (6, 0, 0) and at (9, 3.5, 0)
    np.testing.assert_allclose(found[:, 0], [6.0 - 0.5 - 0.2, math.hypot(8.5, 3.0) - 0.2], atol=1e-12)
