"""Bases that are held, slide on a rail or float on a table, against MuJoCo's own root joints and closed forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.errors import InputError, ModelError
from spacearm.model import BaseConstraint, Body, Inertia, Joint, Pose, Robot, load, save
from spacearm.model.parts import Frame
from spacearm.model.rotations import quaternion_from_rotation, rotation_about, rotation_matrices
from spacearm.simulate import (
    RK4,
    Attach,
    Detach,
    Drag,
    Gravity,
    Lock,
    Phase,
    Pin,
    Release,
    SetRates,
    State,
    World,
    load_run,
    rollout,
    simulate,
)
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun, simulate_lanes
from spacearm.typing import Array
from support.worlds import TIGHT, sound

pytestmark = pytest.mark.filterwarnings("error")
#: Two links that move out of the plane of their base, on a base whose mass lies above its origin.
TENSOR = np.array([[0.8, 0.05, -0.1], [0.05, 1.1, 0.07], [-0.1, 0.07, 0.9]])
FIELD = (0.03, -0.02, -9.8)


def arm(base: str | BaseConstraint) -> Robot:
    upper = Inertia(1.5, np.array([0.2, 0.03, 0.1]), np.diag([0.02, 0.05, 0.04]))
    lower = Inertia(0.7, np.array([0.15, -0.02, -0.05]), np.diag([0.01, 0.02, 0.015]))
    bodies = (
        Body("hub", Inertia(6.0, np.array([0.05, -0.02, 0.3]), TENSOR)),
        Body("upper", upper),
        Body("lower", lower),
    )
    joints = (
        Joint("yaw", "revolute", "hub", "upper", Pose(np.eye(3), np.array([0.3, 0.0, 0.2])), (0.0, 0.0, 1.0)),
        Joint("pitch", "revolute", "upper", "lower", Pose(np.eye(3), np.array([0.4, 0.0, 0.0])), (0.0, 1.0, 0.0)),
    )
    return Robot("arm", bodies, joints, base=base)  # type: ignore[arg-type]


ROOTS = {
    "planar": '<joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/><joint type="hinge" axis="0 0 1"/>',
    "rail": '<joint type="slide" axis="1 0 0"/>',
    "held": "",
}


def mjcf(root: str, gravity: tuple[float, ...]) -> str:
    def inertial(part: Body) -> str:
        t = part.inertia.tensor
        six = [t[0, 0], t[1, 1], t[2, 2], t[0, 1], t[0, 2], t[1, 2]]
        numbers = " ".join(map(repr, map(float, six)))
        com = " ".join(map(repr, map(float, part.inertia.com)))
        return f'<inertial mass="{part.inertia.mass}" pos="{com}" fullinertia="{numbers}"/>'

    hub, upper, lower = map(inertial, arm("free").bodies)
    field = " ".join(map(str, gravity))
    return f"""<mujoco><compiler angle="radian" inertiafromgeom="false"/><option gravity="{field}"/><worldbody>
    <body>{hub}{root}<body pos="0.3 0 0.2">{upper}<joint name="yaw" type="hinge" axis="0 0 1"/>
    <body pos="0.4 0 0">{lower}<joint name="pitch" type="hinge" axis="0 1 0"/></body></body></body>
    </worldbody></mujoco>"""


@pytest.mark.parametrize("kind", [*ROOTS])
def test_constrained_bases_move_as_with_mujocos_root_joints(kind: str, tmp_path: Path) -> None:
    """Mass out of the plane, a joint that moves out of it, gravity: MuJoCo has the base's joints, and no others."""
    torque = {"yaw": 0.4, "pitch": -0.9}
    model = mujoco.MjModel.from_xml_string(mjcf(ROOTS[kind], FIELD))
    data, roots = mujoco.MjData(model), ROOTS[kind].count("<joint")
    first = {"planar": [0.2, -0.1, 0.5], "rail": [0.2], "held": []}[kind]

    def rate(_: float, y: Array) -> Array:
        data.qpos[:], data.qvel[:] = y[: model.nq], y[model.nq :]
        data.qfrc_applied[roots:] = [*torque.values()]
        mujoco.mj_forward(model, data)
        return np.concatenate([data.qvel, data.qacc])

    begin = np.array([*np.zeros(roots), 0.3, -0.4, *first, 0.1, 0.2])
    theirs = solve_ivp(rate, (0.0, 1.5), begin, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]

    robot = arm(kind)
    velocity = np.zeros(8)
    velocity[[0, 1, 5][: len(first)]] = first
    velocity[6:] = [0.1, 0.2]
    start = State(np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]), np.array([0.3, -0.4]), velocity)
    world = World({"arm": robot}, elements=(Gravity(FIELD),))
    run = sound(simulate(world, start, [Phase(1.5, forces=torque)], method=TIGHT))
    assert run.end is not None
    end = run.end
    place = [*end.position[:2], 2.0 * np.arctan2(end.quaternion[3], end.quaternion[0])][: len(first)]
    np.testing.assert_allclose([*place, *end.joints], theirs[: model.nq], rtol=0, atol=1e-9)
    np.testing.assert_allclose(end.rates, theirs[-2:], rtol=0, atol=1e-9)
    assert not np.any(end.position[len(first[:2]) :])
    assert cross_check(run).largest < 1e-9
    run.to_netcdf(tmp_path / "run.nc")
    assert load_run(tmp_path / "run.nc").world.robot("arm").base == robot.base


def test_a_table_carries_what_does_not_move() -> None:
    """The base's reaction on a level table is the weight, and the moment of its mass out of the plane's axis."""
    robot = Robot("puck", (Body("puck", Inertia(4.0, np.array([0.1, 0.0, 0.5]), 0.2 * np.eye(3))),), base="planar")  # type: ignore[arg-type]
    world = World({"puck": robot}, elements=(Gravity((0.0, 0.0, -9.8)),))
    run = sound(simulate(world, State.at_rest(robot), [Phase(0.5)]))
    reaction = run.data["reaction"].values[-1]
    np.testing.assert_allclose(reaction, [0.0, 0.0, 4.0 * 9.8, 0.0, -0.1 * 4.0 * 9.8, 0.0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("axis", [(0.0, 0.0, 1.0), (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)])
def test_an_inclined_plane(axis: tuple[float, float, float]) -> None:
    """x = g sin(angle) t^2 / 2 down any plane: its normal is the base's axis, as the attitude has it."""
    angle, normal = 0.2, np.array(axis)
    along = np.roll(np.abs(normal), 1)
    # Normal up, then tilted: what is along the slope points down it.
    up = np.stack([along, np.cross(normal, along), normal])
    tilt = rotation_about([0.0, 1.0, 0.0], angle) @ up
    inertia = Inertia(3.0, 0.4 * normal, np.diag([0.3, 0.2, 0.25]))
    robot = Robot("puck", (Body("puck", inertia),), base=BaseConstraint("planar", axis))
    world = World({"puck": robot}, elements=(Gravity((0.0, 0.0, -9.8)),))
    start = State.from_velocities(robot, quaternion=quaternion_from_rotation(tilt))
    run = sound(simulate(world, start, [Phase(1.0)], method=TIGHT))
    assert run.end is not None
    slope = np.array([np.cos(angle), 0.0, -np.sin(angle)])
    np.testing.assert_allclose(run.end.position, 0.5 * 9.8 * np.sin(angle) * slope, rtol=0, atol=1e-12)


def test_coasting_against_drag_and_down_a_tilt() -> None:
    """v = v0 exp(-c t / m) + m a / c (1 - exp(-c t / m)); the rotation likewise."""
    mass, inertia, c, d, tilt = 5.0, 0.3, 0.8, 0.05, 0.01
    robot = Robot("puck", (Body("puck", Inertia(mass, np.array([0, 0, 0.2]), inertia * np.eye(3))),), base="planar")  # type: ignore[arg-type]
    world = World({"puck": robot}, elements=(Gravity((tilt, 0.0, -9.8)), Drag("puck", c, d)))
    start = State.from_velocities(robot, base_velocity=[0.1, 0.2, 0.0], base_angular_velocity=[0.0, 0.0, 0.7])
    run = sound(simulate(world, start, [Phase(4.0)], method=TIGHT))
    assert run.end is not None
    fade, turning = np.exp(-c * 4.0 / mass), np.exp(-d * 4.0 / inertia)
    expected = [0.1 * fade + mass * tilt / c * (1.0 - fade), 0.2 * fade, 0.0]
    np.testing.assert_allclose(run.end.base_velocity, expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(run.end.base_angular_velocity, [0.0, 0.0, 0.7 * turning], rtol=0, atol=1e-11)
    assert cross_check(run).largest < 1e-9


def planar_body(name: str, mass: float, inertia: float, com: tuple[float, float, float], port: Any) -> Robot:
    """A body on a table; its ``port`` is where another may hold it."""
    frame = Frame(f"{name}.port", name, Pose(np.eye(3), np.array(port)))
    moments = Inertia(mass, np.array(com), np.diag([0.4, 0.5, inertia]))
    return Robot(name, (Body(name, moments),), (), (frame,), base="planar")  # type: ignore[arg-type]


def pair() -> tuple[World, dict[str, State]]:
    """Chaser and target on a table, masses at different heights, the target's port at the chaser's."""
    chaser = planar_body("chaser", 12.0, 0.3, (0.02, 0.01, 0.3), (0.4, 0.1, 0.2))
    target = planar_body("target", 8.0, 0.2, (-0.03, 0.0, 0.1), (-0.2, 0.05, 0.2))
    turn = rotation_about([0.0, 0.0, 1.0], 0.6)
    place = np.array([0.4, 0.1, 0.2]) - turn @ np.array([-0.2, 0.05, 0.2])
    start = {
        "chaser": State.from_velocities(chaser, base_velocity=[0.05, 0.0, 0.0], base_angular_velocity=[0.0, 0.0, 0.1]),
        "target": State.from_velocities(
            target,
            position=place,
            quaternion=quaternion_from_rotation(turn),
            base_velocity=[-0.02, 0.03, 0.0],
            base_angular_velocity=[0.0, 0.0, -0.4],
        ),
    }
    return World({"chaser": chaser, "target": target}), start


def planar_motion(robot: Robot, state: State) -> tuple[Array, Array, float, float, float]:
    """Mass centre and its velocity in the plane, angular velocity, mass, moment of inertia about the normal."""
    inner, w = robot.bodies[0].inertia, float(state.base_angular_velocity[2])
    arm = rotation_matrices(state.quaternion) @ inner.com
    velocity = state.base_velocity[:2] + w * np.array([-arm[1], arm[0]])
    return (state.position + arm)[:2], velocity, w, inner.mass, float(inner.tensor[2, 2])


def across(a: Array, b: Array) -> float:
    return float(a[0] * b[1] - a[1] * b[0])


def test_a_planar_capture_keeps_momentum_in_the_plane() -> None:
    """Masses lie at different heights: the table takes what acts out of the plane, and nothing in it."""
    world, start = pair()
    run = sound(simulate(world, start, [Attach("target", "chaser/chaser.port"), Phase(0.5)], method=TIGHT))
    parts = [planar_motion(world.robot(name), start[name]) for name in world.systems]
    total = sum(p[3] for p in parts)
    centre = sum(p[3] * p[0] for p in parts) / total
    velocity = sum(p[3] * p[1] for p in parts) / total
    angular_rate = sum(p[4] * p[2] + p[3] * across(p[0] - centre, p[1] - velocity) for p in parts)
    inertia = sum(p[4] + p[3] * (p[0] - centre) @ (p[0] - centre) for p in parts)
    after = State.from_vector(run.tracks[-1].states[0])
    w = angular_rate / inertia
    assert after.base_angular_velocity == pytest.approx([0.0, 0.0, w], abs=1e-13)
    arm = after.position[:2] - centre
    np.testing.assert_allclose(after.base_velocity[:2], velocity + w * np.array([-arm[1], arm[0]]), atol=1e-13)
    (entry,) = run.changes
    assert entry.changed.external[[0, 1, 5]] == pytest.approx(0.0, abs=1e-12)
    assert np.abs(entry.changed.external[[3, 4]]).max() > 1e-3
    np.testing.assert_allclose((entry.after - entry.before)[[0, 1, 5]], 0.0, atol=1e-12)
    assert cross_check(run).largest < 1e-9


def test_what_was_caught_on_a_table_stays_on_it_when_it_is_let_go() -> None:
    world, start = pair()
    chain = [Attach("target", "chaser/chaser.port"), Phase(0.5), Detach("target"), Phase(0.5)]
    run = sound(simulate(world, start, chain))
    assert run.ends is not None
    assert run.ends["target"].position[2] == pytest.approx(0.0, abs=1e-15)
    assert run.world.locked == world.locked


def test_a_constrained_guest_is_refused_where_its_host_would_move_it() -> None:
    world, start = pair()
    systems = dict(world.systems)
    for host in (systems["chaser"].replace(base="free"), systems["chaser"].replace(base="rail")):
        other = World({**systems, "chaser": host})
        if host.base.is_free:
            with pytest.raises(InputError, match="held externally"):
                Attach("target", "chaser/chaser.port").apply(other, start)
        else:
            Attach("target", "chaser/chaser.port").apply(other, start)
    tilted = State.from_velocities(systems["target"], quaternion=[0.8, 0.6, 0.0, 0.0])
    with pytest.raises(InputError, match="the same normal"):
        Attach("target", "chaser/chaser.port").apply(world, {**start, "target": tilted})
    robot = arm("planar")
    both = World({"arm": robot, "target": systems["target"]})
    states = {"arm": State.at_rest(robot), "target": State.at_rest(systems["target"])}
    Attach("target", "arm/upper").apply(both, states)
    with pytest.raises(InputError, match="its host would move it"):
        Attach("target", "arm/lower").apply(both, states)
    with pytest.raises(InputError, match="since the base is planar"):
        Release("base_vz").apply(World({"arm": robot}), {"arm": states["arm"]})


def test_two_bodies_pinned_at_a_point_and_locked_later() -> None:
    """The impulse at the pin by hand; then both rotate apart; locked, they have the angular velocity of one body."""
    world, start = pair()
    chain = [Attach("target", "chaser/chaser.port", kind="pin"), Phase(0.8), Lock("target.pin"), Phase(0.3)]
    run = sound(simulate(world, start, chain, method=TIGHT))
    point = np.array([0.4, 0.1])
    parts = [planar_motion(world.robot(name), start[name]) for name in world.systems]
    # Velocity of the pin's point on each body is v + w x r; an impulse J on the second, -J on the first.
    gap, mobility = np.zeros(2), np.zeros((2, 2))
    for sign, (centre, velocity, w, mass, inertia) in zip((1.0, -1.0), parts, strict=True):
        normal = np.array([-(point - centre)[1], (point - centre)[0]])
        gap += sign * (velocity + w * normal)
        mobility += np.eye(2) / mass + np.outer(normal, normal) / inertia
    impulse = np.linalg.solve(mobility, gap)
    rates = [
        w + sign * across(point - centre, impulse) / inertia
        for sign, (centre, _, w, _, inertia) in zip((-1.0, 1.0), parts, strict=True)
    ]
    pinned = State.from_vector(run.tracks[-1].states[0])
    entry, locked = run.changes
    assert entry.changed.wrench[:2] == pytest.approx(-impulse, abs=1e-13)  # on the chaser
    assert entry.changed.wrench[5] == pytest.approx(0.0, abs=1e-13)  # a pin takes no moment about its axis
    assert pinned.base_angular_velocity[2] == pytest.approx(rates[0], abs=1e-13)
    assert pinned.base_angular_velocity[2] + pinned.rates[0] == pytest.approx(rates[1], abs=1e-13)
    np.testing.assert_allclose((entry.after - entry.before)[[0, 1, 5]], 0.0, atol=1e-12)
    np.testing.assert_allclose((locked.after - locked.before)[[0, 1, 5]], 0.0, atol=1e-12)
    assert run.end is not None
    assert run.end.rates[0] == 0.0
    assert cross_check(run).largest < 1e-9


def coaxial(pin: Pin) -> tuple[World, dict[str, State], Attach]:
    """Two bodies on one axis, of which the second rotates: the pin goes through both mass centres."""
    chaser = planar_body("chaser", 12.0, 0.3, (0.0, 0.0, 0.3), (0.0, 0.0, 0.2))
    target = planar_body("target", 8.0, 0.2, (0.0, 0.0, 0.1), (0.0, 0.0, 0.2))
    start = {
        "chaser": State.at_rest(chaser),
        "target": State.from_velocities(target, base_angular_velocity=[0.0, 0.0, 0.5]),
    }
    return (
        World({"chaser": chaser, "target": target}),
        start,
        Attach("target", "chaser/chaser.port", kind="pin", pin=pin),
    )


def test_a_pin_slips_at_its_torque_and_then_holds() -> None:
    """The relative rate falls by T (1/I1 + 1/I2) a second, until both go on as one."""
    world, start, attach = coaxial(Pin(friction=0.04))
    run = sound(simulate(world, start, [attach, Phase(3.0)], method=TIGHT))
    lasts = 0.5 / (0.04 * (1.0 / 0.3 + 1.0 / 0.2))
    assert [event.time for event in run.events if event.kind == "stick"] == pytest.approx([lasts], abs=1e-9)
    assert run.end is not None
    assert run.end.base_angular_velocity[2] == pytest.approx(0.2 * 0.5 / 0.5, abs=1e-12)
    assert run.end.joints[0] == pytest.approx(0.5 * 0.5 * lasts, abs=1e-10)


def test_a_pin_with_a_torsional_spring_swings_at_its_frequency() -> None:
    world, start, attach = coaxial(Pin(stiffness=0.7))
    run = sound(simulate(world, start, [attach, Phase(2.0)], method=TIGHT))
    frequency = np.sqrt(0.7 * (1.0 / 0.3 + 1.0 / 0.2))
    assert run.end is not None
    assert run.end.joints[0] == pytest.approx(0.5 / frequency * np.sin(2.0 * frequency), abs=1e-10)


def test_a_change_sets_rates() -> None:
    """Without momentum, of a rate between both the share of the other's inertia is each one's own."""
    world, start, attach = coaxial(Pin())
    start["target"] = State.at_rest(world.robot("target"))
    run = sound(simulate(world, start, [attach, Phase(0.2), SetRates({"target.pin": 0.5}), Phase(0.4)], method=TIGHT))
    assert run.end is not None
    assert run.end.rates[0] == pytest.approx(0.5, abs=1e-12)
    assert run.end.base_angular_velocity[2] == pytest.approx(-0.5 * 0.2 / 0.5, abs=1e-12)
    assert run.changes[1].lost == pytest.approx(-0.5 * 0.5**2 * 0.3 * 0.2 / 0.5, abs=1e-12)
    assert cross_check(run).largest < 1e-9
    with pytest.raises(InputError, match="locked"):
        SetRates({"chaser/base_vz": 1.0}).apply(world, start)


def test_bases_in_robot_files(tmp_path: Path) -> None:
    for base in (BaseConstraint("planar", (0.0, -1.0, 0.0)), BaseConstraint("rail"), BaseConstraint("held")):
        robot = arm(base)
        save(robot, tmp_path / "arm.toml")
        assert load(tmp_path / "arm.toml") == robot
    assert BaseConstraint("rail").locked_dofs == ("base_vy", "base_vz", "base_wx", "base_wy", "base_wz")
    assert BaseConstraint("planar", (1.0, 0.0, 0.0)).locked_dofs == ("base_vx", "base_wy", "base_wz")
    assert arm("free") != arm("held")
    for wrong, text in ((("planar", (0.6, 0.8, 0.0)), "oblique"), (("held", (1.0, 0.0, 0.0)), "no axis")):
        with pytest.raises(ModelError, match=text):
            BaseConstraint(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="plannar"):
        arm("plannar")


def test_lanes_know_the_base() -> None:
    """Runs of fixed steps, vectorised, end where the same run ends alone; roll-outs say that they do not know it."""
    robot, phase = arm("planar"), Phase(0.5, forces={"yaw": 0.4, "pitch": -0.9})
    start = State.at_rest(robot, [0.3, -0.4])
    (end,) = simulate_lanes([VectorisedRun(robot, start, [phase], 0.01, 1e-6)])
    alone = simulate(robot, start, [phase], method=RK4(0.01), tolerance=1e-6).end
    assert end is not None
    assert alone is not None
    np.testing.assert_allclose(end.vector, alone.vector, rtol=0, atol=1e-12)
    assert np.abs(end.velocity[[0, 1, 5]]).min() > 1e-4
    assert not np.any(end.velocity[2:5])
    with pytest.raises(InputError, match="use simulate_batch"):
        rollout(robot, start.vector[None], 0.01, 10)
