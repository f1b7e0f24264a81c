"""Closed loops against models of others: Exudyn's test models and Basilisk's two spacecraft on a rigid connection.

Exudyn (jgerstmayr/EXUDYN, main/pythonDev/TestModels) was run in version 1.13.6 with the models' own numbers, steps
halved two or three times, Newton's tolerances at 1e-10 or below. Its method is of second order: the numbers here are
the finest run's plus a third of the last difference.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm import Body, Dopri853, Frame, Inertia, Joint, Load, Phase, Pose, State, World, simulate
from spacearm.engine import Mechanics
from spacearm.model import Loop, Robot, Spring
from spacearm.model.rotations import rotation_from_quaternion, rotation_from_rpy
from spacearm.simulate import Close, Gravity, SystemLoop
from support.linkages import at

DOWN_Y, DOWN_Z = Gravity((0.0, -9.81, 0.0)), Gravity((0.0, 0.0, -9.81))
GROUND = Body("ground", Inertia(1.0, tensor=np.eye(3)))
STILL = np.array([1.0, 0.0, 0.0, 0.0])


def rod(name: str, mass: float, length: float) -> Body:
    moment = mass * length**2 / 12.0
    return Body(name, Inertia(mass, (0.5 * length, 0.0, 0.0), np.diag([0.0, moment, moment])))


def test_exudyns_four_bar() -> None:
    """fourBarMechanismTest.py: two masses on three rods whose given velocities stretch the second.

    Exudyn's first step makes them fit; here it is the plastic impact of a loop that closes. Displacements after 2 s.
    """

    def ball(name: str) -> Robot:
        return Robot(name, (Body("ball", Inertia(3.0, tensor=np.eye(3))),))

    pivots = Robot("ground", (GROUND,), (), (Frame("A", "ground"), Frame("D", "ground", at(4.0))), base="held")
    world = World({"ground": pivots, "B": ball("B"), "C": ball("C")}, elements=(DOWN_Y,))
    none = np.zeros(0)
    start = {
        "ground": State.at_rest(pivots),
        "B": State(np.array([0.0, 2.0, 0.0]), STILL, none, np.array([4.0, 0, 0, 0, 0, 0])),
        "C": State(np.array([4.0, 5.0, 0.0]), STILL, none, np.array([10.0, 0, 0, 0, 0, 0])),
    }
    rods = [Close(*ends, "distance") for ends in (("ground/A", "B/ball"), ("C/ball", "ground/D"), ("B/ball", "C/ball"))]
    run = simulate(world, start, [*rods, Phase(2.0)], method=Dopri853(1e-12, 1e-12))
    assert run.sound
    assert run.changes[2].lost > 10.0
    found = [*(run.ends["B"].position - [0.0, 2.0, 0.0])[:2], *(run.ends["C"].position - [4.0, 5.0, 0.0])[:2]]
    np.testing.assert_allclose(found, [1.964251317, -2.376452868, -1.907367929, -0.378101301], atol=4e-9)


@pytest.mark.parametrize(
    ("floating", "crank", "slider", "base"),
    [
        (False, 1.4527988230, -0.1051400130, None),
        (True, 1.4364014517, -0.1032108296, [2.275398734e-4, 1.779442908e-4, 2.55646562e-5]),
    ],
)
def test_exudyns_slider_crank(*, floating: bool, crank: float, slider: float, base: list[float] | None) -> None:
    """sliderCrankFloatingTest.py: a moment of 0.1 N m on the crank for 0.3 s, on ground or on a frame on springs."""
    bodies, joints, frame = [GROUND], [], "ground"
    if floating:
        for name, kind, axis in zip("xyz", ("prismatic", "prismatic", "revolute"), np.eye(3), strict=True):
            inertia = Inertia(2.0, tensor=np.eye(3)) if name == "z" else Inertia(0.0)
            bodies.append(Body(name, inertia))
            joints.append(Joint(name, kind, frame, name, axis=axis, spring=Spring(5000.0), damping=50.0))
            frame = name
    bodies += [rod("crank", 0.2, 0.1), rod("rod", 0.2, 0.3), Body("slider", Inertia(0.4, tensor=4e-4 * np.eye(3)))]
    joints += [
        Joint("crank", "revolute", frame, "crank"),
        Joint("rod", "revolute", "crank", "rod", at(0.1)),
        Joint("slider", "prismatic", frame, "slider", at(0.4), axis=[1.0, 0.0, 0.0]),
    ]
    ends = (Frame("rod end", "rod", at(0.3)), Frame("pin", "slider"))
    loops = (Loop("pin", "axis", "rod end", "pin"),)
    robot = Robot("slider-crank", tuple(bodies), tuple(joints), ends, base="held", loops=loops)
    turn = Load("crank", (0.0, 0.0, 0.0, 0.0, 0.0, 0.1))
    run = simulate(robot, State.at_rest(robot), Phase(0.3, loads=[turn]), method=Dopri853(1e-12, 1e-13))
    assert run.sound
    q = dict(zip(robot.joint_names, run.end.joints, strict=True))
    if base is None:
        assert q["slider"] == pytest.approx(slider, abs=1e-9)
    else:
        np.testing.assert_allclose([q["x"], q["y"], q["z"]], base, atol=1e-11)
        x, y = base[0] + np.cos(base[2]) * (0.4 + q["slider"]), base[1] + np.sin(base[2]) * (0.4 + q["slider"])
        np.testing.assert_allclose([x - 0.4, y], [slider, 1.85525787e-4], atol=1e-9)
    assert q["crank"] + q.get("z", 0.0) == pytest.approx(crank, abs=1e-9)


def test_exudyns_spatial_slider_crank() -> None:
    """sliderCrank3Dbenchmark.py: a crank about x, a slide along x, a rod between them, 1 s.

    Both ends of the rod are ball joints here and in the run of Exudyn: its model's universal joint is of another kind
    (JointGeneric with one rotation kept).
    """
    x_axis, crank, start = [1.0, 0.0, 0.0], 0.08, np.array([0.0, 0.1, 0.2])
    slide = np.array([np.sqrt(0.3**2 - 0.1**2 - 0.2**2), 0.0, 0.0])
    along = (slide - start) / 0.3
    # About the rod's own axis the tensor is 4e-4, across it 4e-3.
    tensor = 4e-3 * np.eye(3) - 3.6e-3 * np.outer(along, along)
    bodies = (
        GROUND,
        Body("crank", Inertia(0.12, (0.0, 0.0, 0.5 * crank), np.diag([1e-4, 1e-4, 1e-5]))),
        Body("slider", Inertia(2.0, tensor=1e-4 * np.eye(3))),
        Body("ring", Inertia(0.0)),
        Body("cross", Inertia(0.0)),
        Body("rod", Inertia(0.5, -0.15 * along, tensor)),
    )
    joints = (
        Joint("crank", "revolute", "ground", "crank", at(0.0, 0.1, 0.12), axis=x_axis),
        Joint("slider", "prismatic", "ground", "slider", at(*slide), axis=x_axis),
        Joint("x", "revolute", "slider", "ring", axis=x_axis),
        Joint("y", "revolute", "ring", "cross", axis=[0.0, 1.0, 0.0]),
        Joint("z", "revolute", "cross", "rod", axis=[0.0, 0.0, 1.0]),
    )
    ends = (Frame("rod end", "rod", Pose(np.eye(3), -0.3 * along)), Frame("pin", "crank", at(z=crank)))
    loops = (Loop("ball", "point", "rod end", "pin"),)
    robot = Robot("slider-crank", bodies, joints, ends, base="held", loops=loops)
    turning = State.from_velocities(robot, np.zeros(5), np.array([6.0, 0.24, 1.92, -0.96, 0.48]))
    world = World({"linkage": robot}, elements=(DOWN_Z,))
    run = simulate(world, turning, Phase(1.0), method=Dopri853(1e-12, 1e-13))
    assert run.sound
    assert slide[0] + run.end.joints[1] == pytest.approx(0.2081485838, abs=1e-9)
    assert run.end.rates[0] == pytest.approx(10.485868946, abs=4e-9)


def test_exudyns_bricard_mechanism() -> None:
    """bricardMechanism.py (IFToMM's benchmark): a ring of six hinges, one constraint redundant, 1 s."""
    moment = (1.0 + 0.01) / 12.0
    bar = Inertia(1.0, (0.5, 0.0, 0.0), np.diag([0.02 / 12.0, moment, moment]))
    half = 0.5 * np.pi
    points = np.array([[0, 0, 0], [1, 0, 0], [1, -1, 0], [1, -1, 1], [0, -1, 1], [0, 0, 1]], dtype=float)
    turns = [
        rotation_from_rpy(each) for each in ([0, 0, 0], [0, 0, -half], [0, -half, 0], [0, 0, 2 * half], [0, 0, half])
    ]
    axes = np.eye(3)[[1, 2, 0, 1, 2, 0]]
    bodies, joints, parent, place = [GROUND], [], "ground", Pose()
    for k, (point, turn) in enumerate(zip(points, turns, strict=False)):
        bodies.append(Body(f"bar{k}", bar))
        inner = place.rotation.T
        pose = Pose(inner @ turn, inner @ (point - place.translation))
        joints.append(Joint(f"hinge{k}", "revolute", parent, f"bar{k}", pose, axis=turn.T @ axes[k]))
        parent, place = f"bar{k}", Pose(turn, point)
    ends = (
        Frame("end", parent, Pose(place.rotation.T, place.rotation.T @ (points[5] - place.translation))),
        Frame("anchor", "ground", at(*points[5])),
    )
    loops = (Loop("last", "axis", "end", "anchor", axis=(1.0, 0.0, 0.0)),)
    robot = Robot("Bricard", tuple(bodies), tuple(joints), ends, base="held", loops=loops)
    world = World({"ring": robot}, elements=(DOWN_Y,))
    run = simulate(world, State.at_rest(robot), Phase(1.0), method=Dopri853(1e-12, 1e-13))
    assert run.sound
    found = [Mechanics(robot).frame_pose(name, run.end.joints)[0] for name in ("bar1", "bar2", "bar4")]
    expected = [
        [0.5105014612, 0.0, -0.8598768855],
        [0.2744813193, -0.8867079387, -0.4623300027],
        [0.0, -0.8867079387, 0.5376699973],
    ]
    np.testing.assert_allclose(found, expected, atol=2e-9)


def test_exudyns_heavy_top() -> None:
    """heavyTop.py: 150 rad/s about its axis, held at a point, 0.2 s; Exudyn, and Euler's equations in SciPy.

    The model's own reference (RK4 in MATLAB): -0.70828, 0.43878, 0.54573, 0.0894. After Terze, Mueller, Zlatar 2016.
    """
    mass, centre = 15.0, np.array([0.0, 1.0, 0.0])
    tensor = np.diag([0.234375, 0.46875, 0.234375])
    spin = np.array([0.0, 150.0, -4.61538])
    top = Robot("top", (Body("top", Inertia(mass, centre, tensor)),))
    ground = Robot("ground", (GROUND,), base="held")
    elements = (DOWN_Z, SystemLoop("ground/ground", "top/top", "point", name="tip"))
    start = State(np.zeros(3), STILL, np.zeros(0), np.concatenate([np.zeros(3), spin]))
    world = World({"top": top, "ground": ground}, elements=elements)
    run = simulate(world, {"top": start, "ground": State.at_rest(ground)}, Phase(0.2), method=Dopri853(1e-12, 1e-13))
    assert run.sound
    about = tensor + mass * (np.eye(3) - np.outer(centre, centre))

    def rates(_: float, y: np.ndarray) -> np.ndarray:
        w, x, y_, z = y[:4]
        wx, wy, wz = y[4:]
        turned = 0.5 * np.array(
            [-x * wx - y_ * wy - z * wz, w * wx + y_ * wz - z * wy, w * wy + z * wx - x * wz, w * wz + x * wy - y_ * wx]
        )
        pull = rotation_from_quaternion(y[:4]).T @ [0.0, 0.0, -9.81 * mass]
        moment = np.cross(centre, pull) - np.cross(y[4:], about @ y[4:])
        return np.concatenate([turned, np.linalg.solve(about, moment)])

    euler = solve_ivp(rates, (0.0, 0.2), np.concatenate([STILL, spin]), method="DOP853", rtol=1e-13, atol=1e-14).y[
        :, -1
    ]
    found = run.ends["top"].quaternion * np.sign(run.ends["top"].quaternion[0]) * np.sign(euler[0])
    np.testing.assert_allclose(found, euler[:4], atol=2e-9)
    np.testing.assert_allclose(run.ends["top"].velocity[3:], euler[4:], atol=1e-6)
    np.testing.assert_allclose(euler[:4], [-0.7082791529, 0.4387810881, 0.5457283962, 0.0893997528], atol=2e-9)


@pytest.mark.parametrize(
    ("spin", "seconds", "bound"), [((0.01, 0.01, 0.01), 1.0, 1e-12), ((0.2, -0.2, 0.0), 30.0, 1e-10)]
)
def test_basilisks_two_spacecraft_on_a_connection(
    spin: tuple[float, float, float], seconds: float, bound: float
) -> None:
    """test_ConstraintDynamicEffectorUnit.py: two hubs of 750 kg welded so that their mass centres are 0.3 m apart.

    Basilisk's bounds after its 1 s without gravity: 1e-12 of gap, attitude, angular momentum and energy. Both are one
    body with an axis of symmetry: about it or across it, it turns evenly while its mass centre goes straight on.
    """
    off = np.array([0.0, 0.0, 1.0])  # of the hubs' mass centres
    hub = Inertia(750.0, off, 600.0 * np.eye(3))
    along, turning = np.ones(3) / np.sqrt(3.0), np.array(spin)
    first = Robot("first", (Body("hub", hub),), (), (Frame("port", "hub", at(*(0.2 * along))),))
    second = Robot("second", (Body("hub", hub),), (), (Frame("port", "hub", at(*(-0.1 * along))),))
    places = {"first": np.ones(3) - 0.3 * along, "second": np.ones(3)}
    middle, velocity = np.ones(3) - 0.15 * along, np.ones(3)
    start = {
        name: State(x - off, STILL, np.zeros(0), [*velocity + np.cross(turning, x - off - middle), *turning])
        for name, x in places.items()
    }
    connection = SystemLoop("first/port", "second/port", "weld", name="connection")
    world = World({"first": first, "second": second}, elements=(connection,))
    run = simulate(world, start, Phase(seconds), sample=seconds / 20, method=Dopri853(1e-13, 1e-14))
    assert run.sound
    assert all(run.certificate[name].value < bound for name in ("loops", "energy", "angular_momentum"))
    rate = float(np.linalg.norm(turning))
    for name, x in places.items():
        track = run.last_track(name)
        angle = rate * track.times
        quaternions = np.column_stack([np.cos(angle / 2), np.outer(np.sin(angle / 2), turning / rate)])
        np.testing.assert_allclose(track.states[:, 3:7], quaternions, atol=bound)
        turns = [rotation_from_quaternion(q) for q in quaternions]
        paths = middle + np.outer(track.times, velocity) + np.array([turn @ (x - off - middle) for turn in turns])
        np.testing.assert_allclose(track.states[:, :3], paths, atol=bound)
