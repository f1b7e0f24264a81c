"""Momentum and energy of a whole world through contacts and seams, from states by formulas of rigid bodies alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.spatial.transform import Rotation

from spacearm.errors import InputError
from spacearm.mechanics.shapes import Sphere
from spacearm.model import Body, Frame, Inertia, Joint, Pose, Robot, Spring
from spacearm.simulate import (
    Attach,
    Bushing,
    Connect,
    Contact,
    Detach,
    Disconnect,
    Dopri853,
    Phase,
    Run,
    ShapeOnFrame,
    State,
    Switch,
    World,
    simulate,
)

MASS = {"a": 20.0, "b": 5.0}
TENSOR = {"a": np.diag([2.0, 3.0, 2.5]), "b": np.diag([0.3, 0.2, 0.4])}
STIFFNESS, DAMPING = np.array([300.0, 500.0, 400.0, 30.0, 30.0, 30.0]), np.array([8.0, 5.0, 9.0, 1.0, 2.0, 1.5])
pytestmark = pytest.mark.filterwarnings("error")


def kept(body: str, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Linear and angular momentum about the origin (T, 6), kinetic energy (T,), and world twist of one body."""
    turn = Rotation.from_quat(states[:, [4, 5, 6, 3]])
    v, w = turn.apply(states[:, 7:10]), turn.apply(states[:, 10:13])
    angular_rate = turn.apply(states[:, 10:13] @ TENSOR[body])
    linear = MASS[body] * v
    angular = np.cross(states[:, :3], linear) + angular_rate
    energy = 0.5 * np.sum(linear * v, axis=1) + 0.5 * np.sum(angular_rate * w, axis=1)
    return np.hstack([linear, angular]), energy, np.hstack([v, w])


def world_run() -> Run:
    """Two bodies collide off their centres with friction, are held softly, let go, and welded."""
    robots = {
        name: Robot(name, (Body("body", Inertia(MASS[name], tensor=TENSOR[name])),), (),
                    (Frame("knob", "body", Pose(translation=np.array(at))),))
        for name, at in (("a", [0.4, 0.1, 0.0]), ("b", [-0.3, 0.0, 0.1]))
    }  # fmt: skip
    knobs = ShapeOnFrame("a/knob", Sphere(0.1)), ShapeOnFrame("b/knob", Sphere(0.1))
    world = World(robots, elements=(Contact(*knobs, 1e5, 0.6, 0.3, name="knobs"),))
    start = {
        "a": State.from_velocities(robots["a"], base_velocity=[0.1, 0.0, 0.05], base_angular_velocity=[0.0, 0.1, 0.0]),
        "b": State.from_velocities(robots["b"], position=[0.95, 0.1, 0.0], base_velocity=[-0.8, 0.2, 0.1]),
    }
    latch = Bushing("a/knob", "b/knob", STIFFNESS, DAMPING, name="latch")
    items = [
        Phase(0.5),
        Connect(latch),
        Phase(0.6),
        Disconnect("latch"),
        Phase(0.2),
        Attach("b", "a/body", prefix="b "),
        Phase(0.5),
    ]
    return simulate(world, start, items, sample=1e-3, method=Dopri853(rtol=1e-12, atol=1e-14))


def test_momentum_and_energy_of_a_world_through_touch_latch_release_and_weld() -> None:
    run = world_run()
    assert run.sound
    touches = [touch for touch in run.touches if touch.released]
    assert len(touches) == len(run.touches) >= 1
    assert sum(touch.by_friction for touch in touches) > 1e-3
    tracks = {name: [track for track in run.tracks if track.name == name] for name in ("a", "b")}
    assert [len(each) for each in tracks.values()] == [4, 3]  # a segment between seams each
    times = np.concatenate([track.times for track in tracks["b"]])
    alone = {name: np.concatenate([track.states for track in tracks[name][:3]]) for name in tracks}
    parts = {name: kept(name, alone[name]) for name in alone}
    momentum = parts["a"][0] + parts["b"][0]
    assert np.abs(momentum - momentum[0]).max() < 1e-10 * np.abs(momentum[0]).max()

    # The bushing, as its text says: what its dampers took, and what its springs hold where it is taken away.
    on = slice(tracks["b"][0].times.size, tracks["b"][0].times.size + tracks["b"][1].times.size)
    turns = {name: Rotation.from_quat(alone[name][on][:, [4, 5, 6, 3]]) for name in alone}
    arms = {"a": turns["a"].apply([0.4, 0.1, 0.0]), "b": turns["b"].apply([-0.3, 0.0, 0.1])}
    places = {name: alone[name][on][:, :3] + arms[name] for name in alone}
    speeds = {name: parts[name][2][on][:, :3] + np.cross(parts[name][2][on][:, 3:], arms[name]) for name in alone}
    apart, back = places["b"] - places["a"], turns["a"].inv()
    drift = back.apply(speeds["b"] - speeds["a"] - np.cross(parts["a"][2][on][:, 3:], apart))
    angular_rate = back.apply(parts["b"][2][on][:, 3:] - parts["a"][2][on][:, 3:])
    inside, relative = back.apply(apart), back * turns["b"]
    interval = np.append(inside[-1] - inside[0], (relative[-1] * relative[0].inv()).as_rotvec())
    stored = 0.5 * STIFFNESS @ interval**2
    damped = simpson(np.hstack([drift, angular_rate]) ** 2 @ DAMPING, x=times[on])
    lost = sum(touch.dissipated for touch in touches) + damped + stored
    energy = parts["a"][1] + parts["b"][1]
    assert energy[0] - energy[-1] == pytest.approx(lost, abs=1e-8 * energy[0])

    # Welded, both are one body with the momentum that there was, about the mass centre of both.
    end = {name: alone[name][-1] for name in alone}
    total = sum(MASS.values())
    centre = sum(MASS[name] * end[name][:3] for name in end) / total
    linear = momentum[-1, :3]
    tensor = np.zeros((3, 3))
    for name, state in end.items():
        turn, arm = Rotation.from_quat(state[[4, 5, 6, 3]]).as_matrix(), state[:3] - centre
        tensor += turn @ TENSOR[name] @ turn.T + MASS[name] * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    angular = momentum[-1, 3:] - np.cross(centre, linear)
    spin_after = np.linalg.solve(tensor, angular)
    after = 0.5 * linear @ linear / total + 0.5 * angular @ spin_after
    seam = run.changes[-1]
    assert seam.lost == pytest.approx(energy[-1] - after, abs=1e-8 * energy[0])
    one = tracks["a"][-1].states
    turn = Rotation.from_quat(one[:, [4, 5, 6, 3]])
    np.testing.assert_allclose(turn.apply(one[:, 10:13])[0], spin_after, atol=1e-10)
    arm = Rotation.from_quat(end["a"][[4, 5, 6, 3]]).inv().apply(centre - end["a"][:3])  # to the mass centre, axes of a
    speed = turn.apply(one[:, 7:10] + np.cross(one[:, 10:13], arm))
    np.testing.assert_allclose(speed, np.broadcast_to(linear / total, speed.shape), atol=1e-10)


def bodies() -> tuple[World, dict[str, State]]:
    """Both bodies, spinning and turned against one another."""
    robots = {name: Robot(name, (Body("body", Inertia(MASS[name], tensor=TENSOR[name])),), ()) for name in MASS}
    quaternion = Rotation.from_rotvec([0.4, -0.8, 0.3]).as_quat(scalar_first=True)
    start = {
        "a": State.from_velocities(robots["a"], base_velocity=[0.1, 0.0, 0.05], base_angular_velocity=[0.2, 0.1, -0.3]),
        "b": State.from_velocities(robots["b"], position=[0.9, 0.2, -0.4], quaternion=quaternion,
                          base_velocity=[-0.3, 0.2, 0.1], base_angular_velocity=[0.5, 0.0, 0.4]),
    }  # fmt: skip
    return World(robots), start


def test_what_was_welded_parts_again_as_it_moves() -> None:
    world, start = bodies()
    items = [Attach("b", "a/body", prefix="b "), Phase(2.0), Detach("b"), Phase(3.0)]
    run = simulate(world, start, items, sample=0.1, method=Dopri853(rtol=1e-12, atol=1e-14))
    assert run.sound
    a, b = (next(track.states for track in reversed(run.tracks) if track.name == name) for name in MASS)
    parts = [kept(name, states) for name, states in (("a", a), ("b", b))]
    begun = sum(kept(name, np.concatenate([s.pose, s.velocity])[None])[0][0] for name, s in start.items())
    momentum, energy = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    assert np.abs(momentum - begun).max() < 1e-10 * np.abs(begun).max()
    assert energy[0] == pytest.approx(sum(kept(n, np.concatenate([s.pose, s.velocity])[None])[1][0]
                                          for n, s in start.items()) - run.changes[0].lost, rel=1e-10)  # fmt: skip
    assert np.ptp(energy) < 1e-10 * energy[0]
    assert abs(run.changes[1].lost) < 1e-14 * energy[0]
    # Where the weld held it: the same place and attitude against the other as at the start, and a rigid velocity.
    turns = [Rotation.from_quat(states[0, [4, 5, 6, 3]]) for states in (a, b)]
    apart = turns[0].inv().apply(b[0, :3] - a[0, :3])
    np.testing.assert_allclose(apart, [0.9, 0.2, -0.4], atol=1e-10)
    np.testing.assert_allclose((turns[0].inv() * turns[1]).as_rotvec(), [0.4, -0.8, 0.3], atol=1e-10)
    twists = [part[2][0] for part in parts]
    np.testing.assert_allclose(twists[1][3:], twists[0][3:], atol=1e-10)
    np.testing.assert_allclose(twists[1][:3], twists[0][:3] + np.cross(twists[0][3:], b[0, :3] - a[0, :3]), atol=1e-10)


def test_parting_needs_a_weld_that_is_as_it_was() -> None:
    world, start = bodies()
    with pytest.raises(InputError, match="'b' is not attached to anything"):
        Detach("b").apply(world, start)
    joined = Attach("b", "a/body", prefix="b ").apply(world, start)
    other = joined.world.replace(systems={"a": joined.world.systems["a"].replace(name="a")})
    with pytest.raises(InputError, match="'a' has changed since 'b' was attached to it"):
        Detach("b").apply(other, joined.states)
    again = Detach("b").apply(joined.world, joined.states)
    assert list(again.world.systems) == ["a", "b"]
    assert not again.world.attachments


def test_parting_is_refused_where_springs_were_switched_since() -> None:
    world, start = bodies()
    hinge = Joint("hinge", "revolute", "body", "flap", spring=Spring(2.0))
    flap = Body("flap", Inertia(0.5, tensor=np.diag([0.1, 0.1, 0.15])))
    robot = Robot("a", (*world.systems["a"].bodies, flap), (hinge,))
    world, start = world.replace(systems={"a": robot, "b": world.systems["b"]}), {**start, "a": State.at_rest(robot)}
    stiffer = Switch(stiffness={"hinge": 5.0})
    joined = Attach("b", "a/body", prefix="b ").apply(world, start)
    with pytest.raises(InputError, match="springs or friction of 'a' were switched since 'b' was attached") as notes:
        Detach("b").apply(stiffer.apply(joined.world, joined.states).world, joined.states)
    assert notes.value.hint == "switch them before Attach, or after Detach"
    # What the hint says works: the spring that was switched before is the one that is left.
    switched = stiffer.apply(world, start)
    joined = Attach("b", "a/body", prefix="b ").apply(switched.world, switched.states)
    parted = Detach("b").apply(joined.world, joined.states)
    assert parted.world.own_robot("a").joint("hinge").spring == Spring(5.0)
