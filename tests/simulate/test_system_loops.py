"""Loops between systems: closed forms, the same motion as one tree, MuJoCo, and changes that close, hold and open."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm import Body, Frame, Inertia, InputError, Load, Mechanics, Phase, State, World, cross_check, simulate
from spacearm.model import Friction, Joint, Robot
from spacearm.simulate import Attach, Close, Detach, Lock, Open, SetRates, SystemLoop
from spacearm.simulate.check.mujoco_model import MujocoModel
from support.linkages import at, dual_arm

PORT = "target/port"
LOOP = f"left hand+{PORT}"


def satellite(mass: float = 80.0, name: str = "target") -> Robot:
    body = Body("body", Inertia(mass, (0.05, 0.02, -0.03), mass * np.diag([0.1, 0.12, 0.09])))
    return Robot(name, (body,), (), (Frame("port", "body", at(0.1, 0.2, 0.3)), Frame("back", "body", at(-0.3, 0.1))))


def one_armed() -> Robot:
    bodies = (Body("bus", Inertia(100.0, tensor=10.0 * np.eye(3))), Body("arm", Inertia(5.0, (0.5, 0, 0), np.eye(3))))
    return Robot("arm", bodies, (Joint("q", "revolute", "bus", "arm", at(0.5)),), (Frame("hand", "arm", at(1.0)),))


def moving(robot: Robot, seed: int, place: tuple[float, ...] = (0.0, 0.0, 0.0)) -> State:
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    joints = np.array([0.3, -0.7, 0.2, 0.1, 0.8, -0.4])[: robot.n]
    return State(np.array(place), turn / np.linalg.norm(turn), joints, 0.2 * rng.normal(size=robot.dofs))


@pytest.fixture(scope="module")
def pair():
    arm, target = dual_arm(), satellite()
    start = State(np.zeros(3), moving(arm, 1).quaternion, *(getattr(moving(arm, 1), x) for x in ("joints", "velocity")))
    hand, _ = Mechanics(arm).frame_pose("left hand", start.joints, base=start.pose)
    return World({"servicer": arm, "target": target}), {"servicer": start, "target": moving(target, 2, tuple(hand))}


PUSH = {"left.q1": 0.5, "right.q0": -1.0}


@pytest.mark.parametrize("kind", ["weld", "axis"])
def test_it_moves_as_one_tree(pair, kind):
    """A target that is welded or pinned to a hand, as a part of the robot and as a system of its own."""
    world, start = pair
    grip = {"weld": Attach("target", "left hand"), "axis": Attach("target", "left hand", kind="pin")}[kind]
    stop, before, after = Lock("left.q0"), Phase(0.3), Phase(1.0, forces=PUSH)
    run = simulate(world, start, [before, Close("left hand", PORT, kind), after, stop, Phase(0.3), Open(LOOP), before])
    tree = simulate(world, start, [before, grip, after, stop, Phase(0.3), Detach("target"), before])
    assert run.sound
    assert run.certificate["loops"].value < 1e-10
    for name in world.systems:
        np.testing.assert_allclose(run.ends[name].vector, tree.ends[name].vector, atol=1e-10)
    for ours, theirs in zip(run.changes[:2], tree.changes[:2], strict=True):
        assert ours.lost == pytest.approx(theirs.lost, rel=1e-10)
    np.testing.assert_allclose(run.changes[0].changed.wrench, tree.changes[0].changed.wrench, atol=1e-11)
    assert run.changes[1].changed.impulse["servicer/left.q0"] == pytest.approx(
        tree.changes[1].changed.impulse["left.q0"], rel=1e-9
    )


def test_two_masses_on_a_rod():
    """Both circle about their mass centre: the rod pulls with mu w^2 d, whatever else."""

    def ball(name: str, mass: float) -> Robot:
        return Robot(name, (Body("ball", Inertia(mass, tensor=0.1 * np.eye(3))),))

    world = World({"a": ball("a", 2.0), "b": ball("b", 6.0)})
    still = np.array([1.0, 0.0, 0.0, 0.0])
    start = {
        "a": State(np.zeros(3), still, np.zeros(0), np.array([0.0, 0.3, 0.1, 0.2, 0.0, 0.0])),
        "b": State(np.array([2.0, 0.0, 0.0]), still, np.zeros(0), np.array([0.4, 1.5, 0.1, 0.0, 0.3, 0.0])),
    }
    run = simulate(world, start, [Close("a/ball", "b/ball", "distance"), Phase(10.0)], sample=0.5)
    assert run.sound
    # What was along the rod is lost, like that of a collision; the rest goes on.
    reduced, rate = 2.0 * 6.0 / 8.0, 1.2 / 2.0
    assert run.changes[0].lost == pytest.approx(0.5 * reduced * 0.4**2, rel=1e-12)
    np.testing.assert_allclose(run.changes[0].changed.wrench, [reduced * 0.4, 0, 0, 0, 0, 0], atol=1e-14)
    a, b = run.last_track("a"), run.last_track("b")
    np.testing.assert_allclose(
        np.linalg.norm(a.loop_forces["a/ball+b/ball"][:, :3], axis=1), reduced * rate**2 * 2.0, rtol=1e-9
    )
    apart = b.states[:, :3] - a.states[:, :3]
    angle = rate * a.times
    np.testing.assert_allclose(apart, 2.0 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1), atol=1e-9)


def test_plastic_impact_at_a_point():
    """Impulse of two free bodies at a point: (1/m + 1/M + ...)^-1 of the relative velocity (Keller 1986)."""
    first, second = satellite(30.0, "first"), satellite(50.0, "second")
    states = {"first": moving(first, 3), "second": moving(second, 4)}
    velocities, masses = [], []
    for name, robot in (("first", first), ("second", second)):
        state = states[name]
        shift = Mechanics(robot).frame_pose("port", state.joints, base=state.pose)[0]
        states[name] = state = State(-shift, state.quaternion, state.joints, state.velocity)
        turn = Mechanics(robot).frame_pose("port", state.joints, base=state.pose)[1]
        mass, arm = robot.mass, -turn @ (robot.bodies[0].inertia.com - np.array([0.1, 0.2, 0.3]))
        tensor = turn @ robot.bodies[0].inertia.tensor @ turn.T
        skew = np.cross(np.eye(3), arm)
        velocity, spin = turn @ state.velocity[:3], turn @ state.velocity[3:]
        velocities.append(velocity + np.cross(spin, turn @ np.array([0.1, 0.2, 0.3])))
        masses.append(np.eye(3) / mass - skew @ np.linalg.inv(tensor) @ skew)
    impulse = np.linalg.solve(masses[0] + masses[1], velocities[1] - velocities[0])
    run = simulate(
        World({"first": first, "second": second}), states, [Close("first/port", "second/port", "point"), Phase(0.1)]
    )
    assert run.sound
    np.testing.assert_allclose(run.changes[0].changed.wrench, [*impulse, 0, 0, 0], atol=1e-12)
    assert run.changes[0].lost == pytest.approx(0.5 * impulse @ (velocities[1] - velocities[0]), rel=1e-12)


@pytest.mark.parametrize("kind", ["weld", "point", "distance"])
def test_motion_agrees_with_mujocos_terms(pair, kind):
    """Mass matrices, bias forces and Jacobians of MuJoCo, the loop by Lagrange multipliers, DOP853 of SciPy."""
    world, start = pair
    run = simulate(world, start, [Phase(0.3), Close("left hand", PORT, kind), Phase(0.8, forces=PUSH)], sample=0.2)
    assert run.sound
    tracks = [run.last_track(name) for name in world.systems]
    models = [MujocoModel(robot) for robot in world.systems.values()]
    sizes = [13 + 2 * robot.n for robot in world.systems.values()]
    force = np.concatenate([[PUSH.get(name, 0.0) for name in robot.dof_names] for robot in world.systems.values()])
    first = [track.states[0] for track in tracks]

    def put(y: np.ndarray) -> list[np.ndarray]:
        parts = [y[: sizes[0]], y[sizes[0] :]]
        for model, own in zip(models, parts, strict=True):
            n = (own.size - 13) // 2
            own[3:7] /= np.linalg.norm(own[3:7])
            model.set_state(own[:3], own[3:7], own[7 : 7 + n], own[7 + n :])
        return parts

    put(np.concatenate(first))
    hand, port = models[0].frame_pose("left hand"), models[1].frame_pose("port")
    end = port.rotation.T @ (hand.translation - port.translation) if kind != "distance" else np.zeros(3)

    def rows() -> np.ndarray:
        """Of the end on the second frame, as the world sees it, less the same of the first."""
        a, b = models[0].frame_jacobian("left hand"), models[1].frame_jacobian("port")
        one, two = models[0].frame_pose("left hand"), models[1].frame_pose("port")
        arm = two.rotation @ end
        tip = b[:3] + np.cross(b[3:].T, arm).T
        if kind == "distance":
            gap = two.translation - one.translation
            return (gap @ np.hstack([-a[:3], tip]))[None]
        linear = np.hstack([-a[:3], tip])
        return np.vstack([linear, np.hstack([-a[3:], b[3:]])]) if kind == "weld" else linear

    def rate(_: float, y: np.ndarray) -> np.ndarray:
        y = y.copy()
        parts = put(y)
        velocity = np.concatenate([own[-6 - (own.size - 13) // 2 :] for own in parts])
        masses = [model.mass_matrix() for model in models]
        mass = np.zeros((velocity.size, velocity.size))
        mass[:12, :12], mass[12:, 12:] = masses
        bias, jacobian = np.concatenate([model.bias() for model in models]), rows()
        moved = np.concatenate([pose_rate(model, own) for model, own in zip(models, parts, strict=True)])
        slopes = []
        for step in (1e-3, 5e-4):
            ends = []
            for way in (step, -step):
                put(y + way * moved)
                ends.append(rows() @ velocity)
            slopes.append((ends[0] - ends[1]) / (2 * step))
        drift = (4 * slopes[1] - slopes[0]) / 3
        m, k = jacobian.shape[1], jacobian.shape[0]
        whole = np.block([[mass, -jacobian.T], [jacobian, np.zeros((k, k))]])
        found = np.linalg.solve(whole, np.concatenate([force - bias, -drift]))[:m]
        out, at_ = moved.copy(), 0
        for own, a in zip(parts, (found[:12], found[12:]), strict=True):
            n = (own.size - 13) // 2
            out[at_ + 7 + n : at_ + own.size] = a
            at_ += own.size
        return out

    def pose_rate(model: MujocoModel, own: np.ndarray) -> np.ndarray:
        n = (own.size - 13) // 2
        w, v, turn = own[3], own[4:7], 0.5 * own[10 + n : 13 + n]
        spin = [-v @ turn, *(w * turn + np.cross(v, turn))]
        return np.concatenate([model.rotation @ own[7 + n : 10 + n], spin, own[13 + n :], np.zeros(6 + n)])

    times = tracks[0].times - tracks[0].times[0]
    expected = solve_ivp(
        rate, (0, times[-1]), np.concatenate(first), method="DOP853", rtol=1e-11, atol=1e-12, t_eval=times
    )
    ours = np.hstack([track.states for track in tracks])
    np.testing.assert_allclose(ours, expected.y.T, atol=2e-9)


def test_mujocos_equality_converges_to_it_as_it_stiffens():
    """Two free bodies with ``connect``: MuJoCo's constraint is soft, and less so with smaller steps."""
    bodies = "".join(
        f'<body name="{name}" pos="{x} 0 0"><freejoint/><inertial pos="0 0 0" mass="{mass}" '
        f'diaginertia="{0.1 * mass} {0.2 * mass} {0.15 * mass}"/></body>'
        for name, x, mass in (("a", -0.5, 2.0), ("b", 0.5, 3.0))
    )
    rates = np.array([0.0, 0.0, 0.0, 0.5, -0.4, 0.3]), np.array([0.0, 0.0, 0.0, -0.2, 0.6, 0.1])
    # Linear velocities with which the common point rests.
    for own, arm in zip(rates, (0.5, -0.5), strict=True):
        own[:3] = -np.cross(own[3:], [arm, 0, 0])
    frames = (Frame("joint", "body", at(0.5)), Frame("joint", "body", at(-0.5)))
    systems = {
        name: Robot(name, (Body("body", Inertia(m, tensor=m * np.diag([0.1, 0.2, 0.15]))),), (), (frame,))
        for name, m, frame in (("a", 2.0, frames[0]), ("b", 3.0, frames[1]))
    }
    still = np.array([1.0, 0.0, 0.0, 0.0])
    start = {
        name: State(np.array([x, 0, 0]), still, np.zeros(0), rate)
        for name, x, rate in (("a", -0.5, rates[0]), ("b", 0.5, rates[1]))
    }
    world = World(systems, elements=(SystemLoop("a/joint", "b/joint", "point"),))
    run = simulate(world, start, 2.0)
    assert run.sound
    gaps = []
    for step in (2e-3, 1e-3, 5e-4):
        xml = (
            f'<mujoco><option gravity="0 0 0" integrator="RK4" timestep="{step}"/><worldbody>{bodies}</worldbody>'
            f'<equality><connect body1="a" body2="b" anchor="0.5 0 0" solref="{4 * step} 1" '
            'solimp="0.9999 0.9999 0.001"/></equality></mujoco>'
        )
        model = mujoco.MjModel.from_xml_string(xml)
        data = mujoco.MjData(model)
        data.qvel[:] = np.concatenate(rates)
        for _ in range(round(2.0 / step)):
            mujoco.mj_step(model, data)
        gaps.append(
            max(
                np.abs(data.qpos[:3] - run.ends["a"].position).max(),
                np.abs(data.qpos[7:10] - run.ends["b"].position).max(),
            )
        )
    assert gaps[0] > 1.8 * gaps[1] > 3.2 * gaps[2]
    assert gaps[2] < 1e-3


def test_a_target_is_handed_over():
    """From one robot's hand to another robot's, whose loop follows the target's frames from system to system."""
    arm, target, still = one_armed(), satellite(), np.array([1.0, 0.0, 0.0, 0.0])
    world = World({"one": arm, "two": arm, "target": target})
    states = {
        "one": State.at_rest(arm),
        "target": State(np.array([1.5, 0.0, 0.0]), still, np.zeros(0), np.array([0.1, 0, 0, 0, 0.02, 0.05])),
        "two": State(np.array([0.2, 3.0, 0.4]), still, np.array([-0.2]), np.full(7, 0.01)),
    }
    run = simulate(
        world, states,
        [
            Attach("target", "one/hand"), Phase(0.5, forces={"one/q": 2.0}),
            Close("two/hand", "one/port", "weld"), Phase(0.5), Detach("target"), Phase(0.5),
            SetRates({"two/q": 0.3}), Phase(0.2), Open("two/hand+one/port"), Phase(0.1),
        ],
    )  # fmt: skip
    assert run.sound, run.certificate
    assert [track.name for track in run.tracks[-3:]] == ["one", "two", "target"]
    (entry,) = [each for each in run.changes if "set to" in each.text]
    assert entry.lost < 0.0
    assert run.certificate["change_momentum"].value < 1e-12


def test_redundant_loops_between_systems(pair):
    """Both hands of a robot on one target, with brakes on: more constraints than freedoms."""
    world, start = pair
    locked = [f"servicer/{name}" for name in world.robot("servicer").joint_names]
    closed = [Lock(locked), Close("left hand", PORT), Close("right hand", "target/back")]
    run = simulate(world, start, [*closed, Phase(1.0)])
    once = simulate(world, start, [*closed[:2], Phase(1.0)])
    assert run.sound
    np.testing.assert_allclose(run.ends["target"].vector, once.ends["target"].vector, atol=1e-10)
    free = simulate(
        world, start, [Close("left hand", PORT), Close("right hand", "target/back"), Phase(1.0, forces=PUSH)]
    )
    assert free.sound
    assert free.certificate["loops"].value < 1e-10


def test_joining_systems_at_rest_is_sound():
    """Forces of rounding move nothing: there is no energy of which the ledger could lose a part."""
    arm = one_armed()
    above = State(np.array([0.3, 0.0, 0.5]), np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(1), np.zeros(7))
    world = World({"one": arm, "two": arm})
    assert simulate(world, {"one": State.at_rest(arm), "two": above}, [Close("one/hand", "two/hand"), Phase(1.0)]).sound


def test_dry_friction_feels_the_loop():
    """A hinge sticks until the target, pushed through the loop, overcomes its friction; then the torque moves both."""
    bodies = (Body("bus", Inertia(100.0, tensor=np.eye(3))), Body("arm", Inertia(1.0, (0.5, 0, 0), 0.1 * np.eye(3))))
    joint = Joint("hinge", "revolute", "bus", "arm", friction=Friction(2.0, 1.5))
    arm = Robot("arm", bodies, (joint,), (Frame("hand", "arm", at(1.0)),), base="held")
    ball = Robot("target", (Body("body", Inertia(10.0, tensor=0.2 * np.eye(3))),))
    still = np.array([1.0, 0.0, 0.0, 0.0])
    start = {"arm": State.at_rest(arm), "target": State(np.array([1.0, 0, 0]), still, np.zeros(0), np.zeros(6))}

    def push(force: float) -> Load:
        return Load("target/body", (0.0, force, 0.0, 0.0, 0.0, 0.0), "frame")

    run = simulate(
        World({"arm": arm, "target": ball}), start,
        [Close("hand", "target/body"), Phase(1.0, loads=[push(1.9)]), Phase(1.0, loads=[push(3.0)])],
    )  # fmt: skip
    assert run.sound
    track = run.last_track("arm")
    angle = track.states[:, 7]
    assert np.all(angle[track.times <= 1.0] == 0.0)
    # The force turns with the target: a constant moment about the hinge, less Coulomb's, on one rigid body.
    inertia = 0.1 + 1.0 * 0.5**2 + 0.2 + 10.0 * 1.0**2
    assert angle[-1] == pytest.approx(0.5 * (3.0 - 1.5) / inertia, rel=1e-8)


def test_refusals(pair):
    world, start = pair
    with pytest.raises(InputError, match="opens at"):
        simulate(world.replace(elements=(SystemLoop("servicer/left hand", "target/body", "point"),)), start, 0.1)
    off = SystemLoop("servicer/left hand", "target/body", "point", placement=at(0.1))
    with pytest.raises(InputError, match=r"open by 0\.0"):
        simulate(world.replace(elements=(off,)), start, 0.1)
    with pytest.raises(InputError, match="both ends are frames of 'servicer'"):
        simulate(world, start, [Close("left hand", PORT), Attach("target", "right hand"), Phase(0.1)])
    with pytest.raises(InputError, match="joined already"):
        simulate(world, start, [Close("left hand", PORT), Close("left hand", PORT), Phase(0.1)])
    with pytest.raises(InputError, match="no loop"):
        simulate(world, start, [Close("left hand", PORT), Open("left hand"), Phase(0.1)])
    with pytest.raises(InputError, match="expected a distance above zero"):
        SystemLoop("servicer/left hand", PORT, "distance")


def test_a_loop_that_closes_in_flight_is_checked_by_mujoco(pair):
    world, start = pair
    check = cross_check(simulate(world, start, [Close("left hand", PORT), Phase(0.1)]))
    assert not check.reason
    assert check.largest < 1e-10
