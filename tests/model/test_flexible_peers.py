"""Flexible spacecraft against Lagrange's equations, with the cases of Basilisk's own tests, and beams in closed form.

The equations of motion are derived here from the positions of the masses alone: Lagrange's in the plane, those of
Boltzmann and Hamel in space, differentiated by CasADi and integrated by SciPy. Numbers of the cases are those of
Basilisk's unit tests (AVSLab/basilisk, ISC licence, src/simulation/dynamics: test_hingedRigidBodyStateEffector.py,
test_linearSpringMassDamper.py, test_sphericalPendulum.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import eigh
from scipy.optimize import brentq

from spacearm import Body, Dopri853, Inertia, Joint, Load, Phase, Pose, Robot, State, simulate
from spacearm.engine import Mechanics
from spacearm.model import Spring
from spacearm.model.appendages import add_appendage, cantilever_roots, make_boom
from spacearm.model.rotations import rotation_from_rpy
from spacearm.simulate.signals import pulse
from spacearm.typing import Array

EXACT = Dopri853(1e-13, 1e-14)


def frequencies(robot: Robot, *, held: bool = False) -> Array:
    """Angular frequencies about rest, of the free robot or with a base that is held."""
    mass, first = Mechanics(robot).mass_matrix(np.zeros(robot.n)), 6 if held else 0
    stiffness = np.zeros_like(mass)
    for i, joint in enumerate(robot.joints):
        stiffness[6 + i, 6 + i] = 0.0 if joint.spring is None else joint.spring.stiffness
    squares = eigh(stiffness[first:, first:], mass[first:, first:], eigvals_only=True)
    return np.sqrt(np.maximum(squares, 0.0))


# -- Basilisk's cases -------------------------------------------------------------------------------------------------

HINGES = {"left": (0.5, 1.0), "right": (-0.5, 1.0)}
#: Force on the hub in its own axes (N), the x at which it acts (m), and from when to when (s).
PUSHES = [((0.2, 0.7), 0.05, 0.0, 5.0), ((0.0, 1.0), -0.03, 11.0, 18.0)]


def hinged_panels() -> Robot:
    panel = Inertia(100.0, [1.5, 0.0, 0.0], np.diag([100.0, 50.0, 50.0]))
    bodies, joints = [Body("hub", Inertia(750.0, tensor=np.diag([900.0, 800.0, 600.0])))], []
    for name, (x, y) in HINGES.items():
        away = rotation_from_rpy([0.0, 0.0, 0.0 if x > 0 else math.pi])
        bodies.append(Body(name, panel))
        joints.append(
            Joint(name, "revolute", "hub", name, Pose(away, [x, y, 0.0]), spring=Spring(5000.0), damping=75.0)
        )
    return Robot("hub and panels", tuple(bodies), tuple(joints))


def lagrange_panels() -> Callable[[float, Array], Array]:
    """Rate of (x, y, theta, hinge angles, their rates), from kinetic and potential energy."""
    q, rate, push = ca.SX.sym("q", 5), ca.SX.sym("rate", 5), ca.SX.sym("push", 3)
    kinetic = 0.5 * 750.0 * (rate[0] ** 2 + rate[1] ** 2) + 0.5 * 600.0 * rate[2] ** 2
    potential = dissipation = ca.SX(0)
    c, s = ca.cos(q[2]), ca.sin(q[2])
    for k, (x, y) in enumerate(HINGES.values()):
        angle = q[2] + q[3 + k]
        side = math.copysign(1.5, x)
        place = ca.vertcat(q[0] + c * x - s * y + side * ca.cos(angle), q[1] + s * x + c * y + side * ca.sin(angle))
        velocity = ca.jtimes(place, q, rate)
        kinetic += 0.5 * 100.0 * ca.dot(velocity, velocity) + 0.5 * 50.0 * (rate[2] + rate[3 + k]) ** 2
        potential += 0.5 * 5000.0 * q[3 + k] ** 2
        dissipation += 0.5 * 75.0 * rate[3 + k] ** 2
    momentum = ca.gradient(kinetic, rate)
    force = ca.vertcat(c * push[0] - s * push[1], s * push[0] + c * push[1], push[2], 0, 0)
    right = ca.gradient(kinetic - potential, q) - ca.gradient(dissipation, rate) + force
    right -= ca.jtimes(momentum, q, rate)
    rates = ca.Function("rates", [q, rate, push], [rate, ca.solve(ca.jacobian(momentum, rate), right)])

    def found(t: float, y: Array) -> Array:
        acting = np.zeros(3)
        for (fx, fy), arm, begin, end in PUSHES:
            if begin <= t < end:
                acting = np.array([fx, fy, arm * fy])
        return np.concatenate([np.asarray(each).ravel() for each in rates(y[:5], y[5:], acting)])

    return found


def test_a_hub_with_two_hinged_panels_as_basilisk_has_it() -> None:
    """Pushed, left alone, pushed again, left alone: 20 s against Lagrange's equations, 1e-10."""
    times = np.linspace(0.0, 20.0, 201)
    y, lagrange = np.zeros(10), lagrange_panels()
    expected = [y]
    for begin, end in ((0.0, 5.0), (5.0, 11.0), (11.0, 18.0), (18.0, 20.0)):
        inside = times[(times > begin + 1e-9) & (times <= end + 1e-9)]
        # The middle of the span decides which push acts: a solver's last stage lies on its end.
        part = solve_ivp(
            lambda t, y, middle=0.5 * (begin + end), rates=lagrange: rates(middle, y),
            (begin, end), y, "DOP853", inside, rtol=1e-13, atol=1e-14,
        )  # fmt: skip
        expected += list(part.y.T)
        y = part.y[:, -1]
    robot = hinged_panels()
    loads = []
    for force, arm, begin, end in PUSHES:
        entries = [*force, 0.0, 0.0, 0.0, arm * force[1]]
        loads.append(Load("hub", tuple(pulse(each, begin, end - begin) for each in entries), "frame"))
    run = simulate(robot, State.at_rest(robot), Phase(20.0, loads=loads, sample=0.1), method=EXACT)
    assert run.sound
    states = run.tracks[0].states
    quaternion = states[:, 3:7]
    angle = 2.0 * np.arctan2(quaternion[:, 3], quaternion[:, 0])
    ours = np.column_stack([states[:, 0], states[:, 1], angle, states[:, 7:9]])
    np.testing.assert_allclose(ours, np.array(expected)[:, :5], atol=1e-10)
    assert np.abs(ours[:, 2]).max() > 0.003


def boltzmann_hamel(
    place: Callable[[ca.SX], list[tuple[float, ca.SX]]], potential: Callable[[ca.SX], ca.SX], damping: Array,
    mass: float, com: Array, tensor: Array, n: int,
) -> Callable[[float, Array], Array]:  # fmt: skip
    """Rate of (angular velocity, velocity, coordinates, their rates) of a hub with point masses, all in its axes."""
    q, rate, omega, velocity = (ca.SX.sym(name, size) for name, size in (("q", n), ("r", n), ("w", 3), ("v", 3)))
    centre = ca.DM(com)
    hub = velocity + ca.cross(omega, centre)
    kinetic = 0.5 * mass * ca.dot(hub, hub) + 0.5 * ca.bilin(ca.DM(tensor), omega, omega)
    for each, at in place(q):
        moving = velocity + ca.cross(omega, at) + ca.jtimes(at, q, rate)
        kinetic += 0.5 * each * ca.dot(moving, moving)
    speeds = ca.vertcat(omega, velocity, rate)
    momentum = ca.gradient(kinetic, speeds)
    angular, linear = momentum[:3], momentum[3:6]
    right = ca.vertcat(
        -ca.cross(omega, angular) - ca.cross(velocity, linear),
        -ca.cross(omega, linear),
        ca.gradient(kinetic, q) - ca.gradient(potential(q), q) - ca.DM(damping) * rate,
    )
    right -= ca.jtimes(momentum, q, rate)
    solved = ca.solve(ca.jacobian(momentum, speeds), right)
    program = ca.Function("rates", [omega, velocity, q, rate], [solved[:6], rate, solved[6:]])

    def found(t: float, y: Array) -> Array:
        del t
        return np.concatenate([np.asarray(each).ravel() for each in program(y[:3], y[3:6], y[6 : 6 + n], y[6 + n :])])

    return found


@pytest.mark.parametrize("damping", [(0.0, 0.0, 0.0), (15.0, 17.0, 11.0)])
def test_springs_and_masses_as_basilisk_has_them(damping: tuple[float, ...]) -> None:
    """Basilisk checks what is conserved; here every coordinate is compared for its 2.5 s."""
    third = math.sqrt(3.0) / 3.0
    axes = np.array([[third, third, third], [third, -third, -third], [-third, -third, third]])
    places = np.array([[0.1, 0.0, -0.1], [0.0, 0.0, 0.1], [-0.1, 0.0, 0.1]])
    masses, start, tensor = (10.0, 20.0, 15.0), np.array([0.05, -0.025, -0.015]), np.diag([900.0, 800.0, 600.0])
    omega, velocity = np.array([0.1, -0.1, 0.1]), np.array([0.1, -5.0, 0.3])
    bodies = [Body("hub", Inertia(750.0, tensor=tensor)), *(Body(f"m{k}", Inertia(masses[k])) for k in range(3))]
    joints = [
        Joint(f"m{k}", "prismatic", "hub", f"m{k}", Pose(translation=places[k]), axes[k], Spring(100.0), damping[k])
        for k in range(3)
    ]
    robot = Robot("slosh", tuple(bodies), tuple(joints))
    state = State(np.zeros(3), np.array([1.0, 0, 0, 0]), start, np.concatenate([velocity, omega, np.zeros(3)]))
    run = simulate(robot, state, Phase(2.5, sample=0.05), method=EXACT)
    assert run.sound

    def place(q: ca.SX) -> list[tuple[float, ca.SX]]:
        return [(masses[k], ca.DM(places[k]) + q[k] * ca.DM(axes[k])) for k in range(3)]

    equations = boltzmann_hamel(place, lambda q: 50.0 * ca.dot(q, q), np.array(damping), 750.0, np.zeros(3), tensor, 3)
    y = np.concatenate([omega, velocity, start, np.zeros(3)])
    times = run.tracks[0].times
    exact = solve_ivp(equations, (0.0, 2.5), y, "DOP853", times, rtol=1e-13, atol=1e-14).y.T
    states = run.tracks[0].states
    np.testing.assert_allclose(states[:, 7:10], exact[:, 6:9], atol=1e-10)
    np.testing.assert_allclose(states[:, 13:16], exact[:, :3], atol=1e-10)
    assert np.abs(states[-1, 7:10] - start).max() > 0.005


def test_two_spherical_pendulums_as_basilisk_has_them() -> None:
    half = math.sqrt(0.5)
    frames = [np.array([[half, 0.0, half], [0.0, 1.0, 0.0], [-half, 0.0, half]]).T, np.eye(3)]
    lengths, masses, hub, com = (0.3, 0.4), (20.0, 40.0), 1500.0, np.array([1.0, 0.5, 0.1])
    tensor, omega = np.diag([900.0, 800.0, 600.0]), np.array([1.0, 0.5, 0.1])
    rates = np.array([0.01, 0.05, 0.1, 0.5])
    bodies, joints = [Body("hub", Inertia(hub, com, tensor))], []
    for k, (frame, length, mass) in enumerate(zip(frames, lengths, masses, strict=True)):
        bodies += [Body(f"phi{k}", Inertia.massless()), Body(f"theta{k}", Inertia(mass, [length, 0.0, 0.0]))]
        pivot = Pose(frame, [0.1, 0.1, 0.1])
        joints.append(Joint(f"phi{k}", "revolute", "hub", f"phi{k}", pivot))
        joints.append(Joint(f"theta{k}", "revolute", f"phi{k}", f"theta{k}", axis=[0.0, 1.0, 0.0]))
    robot = Robot("pendulums", tuple(bodies), tuple(joints))
    state = State(np.zeros(3), np.array([1.0, 0, 0, 0]), np.zeros(4), np.concatenate([np.zeros(3), omega, rates]))
    run = simulate(robot, state, Phase(10.0, sample=0.1), method=EXACT)
    assert run.sound

    def place(q: ca.SX) -> list[tuple[float, ca.SX]]:
        found = []
        for k in range(2):
            phi, theta = q[2 * k], q[2 * k + 1]
            along = ca.vertcat(ca.cos(phi) * ca.cos(theta), ca.sin(phi) * ca.cos(theta), -ca.sin(theta))
            found.append((masses[k], 0.1 + lengths[k] * ca.DM(frames[k]) @ along))
        return found

    equations = boltzmann_hamel(place, lambda _: ca.SX(0), np.zeros(4), hub, com, tensor, 4)
    y = np.concatenate([omega, np.zeros(7), rates])
    times = run.tracks[0].times
    exact = solve_ivp(equations, (0.0, 10.0), y, "DOP853", times, rtol=1e-13, atol=1e-14).y.T
    np.testing.assert_allclose(run.tracks[0].states[:, 7:11], exact[:, 6:10], atol=1e-9)
    assert np.ptp(exact[:, 6:10]) > 1.0


# -- beams in closed form ---------------------------------------------------------------------------------------------

LENGTH, PANEL, FLEXURAL = 5.0, 20.0, 900.0
UNIT = math.sqrt(FLEXURAL / (PANEL * LENGTH**3))


def with_panels(hub: Inertia, modes: int) -> Robot:
    robot = Robot("hub", (Body("bus", hub),), ())
    for name, yaw in (("left", 0.0), ("right", math.pi)):
        boom = make_boom(name, LENGTH, PANEL, (math.inf, FLEXURAL), modes=modes, damping=0.0)
        robot = add_appendage(robot, "bus", boom, Pose(rotation_from_rpy([0.0, 0.0, yaw])))
    return robot


def closed_form(mass: float, inertia: float, count: int) -> tuple[Array, Array]:
    """Angular frequencies of a hub with two clamped Euler-Bernoulli panels: symmetric and antisymmetric ones.

    w = a cos bx + e cosh bx + s sin bx + d sinh bx in units of the panel's length, free at its end. The hub's inertia
    balances the third or second derivative at both roots; determinants have no poles.
    """

    def symmetric(b: float) -> float:
        c, n, ch, sh = math.cos(b), math.sin(b), math.cosh(b), math.sinh(b)
        # No slope at the root, d = -s. The hub: m omega^2 w = 2 EI w3, w3 = b^3 (d - s) the third derivative.
        ratio = mass / PANEL
        equations = np.array([[-c, ch, -n - sh], [n, sh, -c - ch], [ratio * b, ratio * b, 4.0]])
        return float(np.linalg.det(equations)) / ch

    def antisymmetric(b: float) -> float:
        c, n, ch, sh = math.cos(b), math.sin(b), math.cosh(b), math.sinh(b)
        # No deflection at the root, e = -a. The hub: I omega^2 w1 = -2 EI w2, w1 = b (s + d), w2 = b^2 (e - a).
        ratio = inertia / (PANEL * LENGTH**2)
        equations = np.array([[-c - ch, -n, sh], [n - sh, -c, ch], [-4.0, ratio * b**3, ratio * b**3]])
        return float(np.linalg.det(equations)) / ch

    found = []
    for balance in (symmetric, antisymmetric):
        grid = np.linspace(0.5, 40.0, 4001)
        values = [balance(b) for b in grid]
        pairs = zip(grid, grid[1:], values, values[1:], strict=False)
        roots = [brentq(balance, x, y, xtol=1e-14) for x, y, f, g in pairs if f * g < 0.0]
        found.append(np.array(roots[:count]) ** 2 * UNIT)
    return found[0], found[1]


def test_a_hub_with_two_panels_has_the_closed_form_s_frequencies() -> None:
    """Constrained modes exactly; unconstrained ones with an error that falls with the fifth power of their number."""
    hub = Inertia(300.0, tensor=np.diag([50.0, 40.0, 40.0]))
    held = frequencies(with_panels(hub, 16), held=True)
    np.testing.assert_allclose(held[::2], cantilever_roots(16) ** 2 * UNIT, rtol=1e-10)
    exact = np.concatenate(closed_form(300.0, 40.0, 4))
    errors = []
    for modes in (4, 8, 16):
        found = frequencies(with_panels(hub, modes))
        errors.append(np.abs(found[:, None] / exact - 1.0).min(axis=0))
    assert errors[2].max() < 1e-8
    assert np.all(errors[1] < errors[0] / 20)
    assert np.all(errors[2] < errors[1] / 20)


def test_two_panels_without_a_hub_are_a_free_beam() -> None:
    roots = [brentq(lambda x: math.cos(x) - 1.0 / math.cosh(x), n * math.pi, (n + 1) * math.pi) for n in range(1, 5)]
    exact = np.array(roots) ** 2 * math.sqrt(FLEXURAL / (2.0 * PANEL * (2.0 * LENGTH) ** 3))
    np.testing.assert_allclose(roots[0], 4.730040744862704, rtol=1e-12)
    errors = []
    for modes in (12, 24):
        found = frequencies(with_panels(Inertia(1e-9, tensor=1e-12 * np.eye(3)), modes))
        errors.append(np.abs(found[:, None] / exact - 1.0).min(axis=0))
    # Nothing but the panels themselves to hold their roots: the hardest case for modes with held roots.
    assert errors[1][:2].max() < 1e-8
    assert errors[1].max() < 2e-7
    assert np.all(errors[1] < errors[0] / 20)


def rigid_pieces(count: int) -> Robot:
    """A cantilever along x of equal rigid pieces; between two of them a spring as stiff as the beam between middles."""
    h, mass = LENGTH / count, PANEL / count
    inertia = Inertia(mass, [0.5 * h, 0.0, 0.0], mass * h**2 / 12.0 * np.diag([0.0, 1.0, 1.0]))
    joints = [
        Joint(
            f"j{k}", "revolute", f"p{k - 1}" if k else "root", f"p{k}", Pose(translation=[h if k else 0.0, 0.0, 0.0]),
            np.array([0.0, 1.0, 0.0]), Spring(FLEXURAL / h if k else 2.0 * FLEXURAL / h),
        )
        for k in range(count)
    ]  # fmt: skip
    bodies = (Body("root", Inertia(1.0, tensor=np.eye(3))), *(Body(f"p{k}", inertia) for k in range(count)))
    return Robot("pieces", bodies, tuple(joints))


def test_a_cantilever_of_forty_rigid_pieces_is_the_boom() -> None:
    """Its error falls with the square of the number; without the leading error it is the boom's to 2e-6."""
    exact = cantilever_roots(3) ** 2 * UNIT
    coarse, fine = (frequencies(rigid_pieces(count), held=True)[:3] for count in (20, 40))
    assert np.abs(fine / exact - 1.0).max() < 5e-3
    np.testing.assert_allclose((exact - coarse) / (exact - fine), 4.0, rtol=0.03)
    np.testing.assert_allclose((4.0 * fine - coarse) / 3.0, exact, rtol=2e-5)
