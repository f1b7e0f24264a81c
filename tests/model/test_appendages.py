"""Flexible appendages: the linear equations of the modes, beams in closed form, finite elements, MuJoCo."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import block_diag, eigh
from scipy.optimize import brentq

from spacearm import Phase, State, cross_check, simulate
from spacearm.engine import Mechanics
from spacearm.errors import ModelError
from spacearm.model import Body, Inertia, Pose, Robot
from spacearm.model.appendages import (
    Appendage,
    Mode,
    add_appendage,
    cantilever_roots,
    make_boom,
    reduce_fixed_interface,
)
from spacearm.model.rotations import rotation_from_rpy
from spacearm.simulate import rollout
from spacearm.study.scenario import run_scenario
from spacearm.typing import Array

HUB = Robot("hub", (Body("bus", Inertia(400.0, [0.02, -0.01, 0.03], np.diag([60.0, 80.0, 70.0]))),), ())


def free_squares(robot: Robot) -> Array:
    """Squared angular frequencies of the free robot about rest, from its mass matrix and springs."""
    mass = Mechanics(robot).mass_matrix(np.zeros(robot.n))
    stiffness = np.zeros_like(mass)
    for i, joint in enumerate(robot.joints):
        stiffness[6 + i, 6 + i] = 0.0 if joint.spring is None else joint.spring.stiffness
    return np.asarray(eigh(stiffness, mass, eigvals_only=True))


def test_the_mass_matrix_is_that_of_the_modal_equations() -> None:
    """Rigid block, participation and unit modal mass, for modes in several directions at a rotated root."""
    rng = np.random.default_rng(3)
    inertia = Inertia(30.0, [1.5, 0.1, 0.0], np.diag([2.0, 25.0, 26.0]))
    modes = [Mode(0.2, [0.0, 0.0, 4.0], [0.5, -7.0, 0.0]), Mode(0.3, [0.0, 3.0, 0.0], [0.2, 0.0, 5.0])]
    modes.append(Mode(0.9, [0.0, 0.0, 0.0], [1.1, 0.2, 0.1]))
    # Screws: bending with torsion about the same axis, and one that is nothing else.
    modes += [Mode(1.1, [0.0, 0.3, 2.0], [1.0, -2.0, 0.7]), Mode(1.4, [0.5, 0.0, 0.0], [0.6, 0.0, 0.0])]
    place = Pose(rotation_from_rpy(rng.normal(size=3)), [0.5, 0.4, -0.2])
    robot = add_appendage(HUB, "bus", Appendage("array", inertia, tuple(modes)), place)
    assert robot.joint_names == tuple(f"array.mode{k}" for k in range(1, 6))
    assert robot.wheel_names == ()
    found = Mechanics(robot).mass_matrix(np.zeros(5))
    welded = Mechanics(Robot("whole", (Body("bus", HUB.bodies[0].inertia + inertia.transform(place)),), ()))
    np.testing.assert_allclose(found[:6, :6], welded.mass_matrix(np.zeros(0)), rtol=1e-12, atol=1e-10)
    stiffness = np.array([joint.spring.stiffness for joint in robot.joints if joint.spring is not None])
    scale = np.sqrt(stiffness) / (2.0 * math.pi * np.array([mode.frequency for mode in modes]))
    np.testing.assert_allclose(found[6:, 6:] / np.outer(scale, scale), np.eye(5), atol=1e-12)
    rotation = place.rotation
    for k, mode in enumerate(modes):
        p, r = rotation @ mode.translation, rotation @ mode.rotation
        expected = np.concatenate([p, r + np.cross(place.translation, p)])
        np.testing.assert_allclose(found[:6, 6 + k] / scale[k], expected, rtol=1e-12, atol=1e-12)


def test_modes_that_bend_and_twist_at_once_agree_with_mujoco() -> None:
    """A spacecraft that tumbles while two such modes ring: slides with rotors like the nuts of ball screws."""
    inertia = Inertia(30.0, [1.5, 0.1, 0.0], np.diag([2.0, 25.0, 26.0]))
    modes = Mode(0.2, [0.0, 0.3, 4.0], [1.0, -7.0, 0.5]), Mode(1.4, [0.5, 0.0, 0.0], [0.6, 0.0, 0.0])
    robot = add_appendage(HUB, "bus", Appendage("array", inertia, modes))
    rates = [0.0, 0.0, 0.0, 0.1, -0.05, 0.2, 0.01, 0.02]
    run = simulate(robot, State(np.zeros(3), [1, 0, 0, 0], np.array([0.05, 0.0]), np.array(rates)), Phase(20.0))
    assert run.sound
    assert cross_check(run).largest < 1e-8


def test_a_clamped_beam_has_its_known_roots_and_moves_all_its_mass() -> None:
    np.testing.assert_allclose(cantilever_roots(3), [1.8751040687, 4.6940911330, 7.8547574382], rtol=1e-10)
    boom = make_boom("boom", 4.0, 12.0, (500.0, math.inf), modes=40)
    p = np.array([mode.translation for mode in boom.modes])
    r = np.array([mode.rotation for mode in boom.modes])
    # Completeness: the shares of all modes add up to the mass, the static moment and the inertia about the root.
    # Beyond mode 40 the squares are 4 m / ((n - 1/2) pi)^2, which add up to 4 m / (40 pi^2) to second order.
    assert (p[:, 1] ** 2).sum() + 12.0 * 4.0 / (40.0 * math.pi**2) == pytest.approx(12.0, rel=1e-5)
    assert (p[:, 1] * r[:, 2]).sum() == pytest.approx(12.0 * 2.0, rel=1e-4)
    assert (r[:, 2] ** 2).sum() == pytest.approx(12.0 * 16.0 / 3.0, rel=1e-6)


def beam_finite_elements(length: float, mass: float, flexural: float, count: int) -> tuple[Array, Array, Array]:
    """Mass, stiffness and rigid motions of a beam along x that bends along z: deflections and slopes."""
    h, line = length / count, mass / length
    k = flexural / h**3 * np.array([[12, 6 * h, -12, 6 * h], [6 * h, 4 * h**2, -6 * h, 2 * h**2],
                                    [-12, -6 * h, 12, -6 * h], [6 * h, 2 * h**2, -6 * h, 4 * h**2]])  # fmt: skip
    m = line * h / 420 * np.array([[156, 22 * h, 54, -13 * h], [22 * h, 4 * h**2, 13 * h, -3 * h**2],
                                   [54, 13 * h, 156, -22 * h], [-13 * h, -3 * h**2, -22 * h, 4 * h**2]])  # fmt: skip
    size = 2 * (count + 1)
    whole_m, whole_k = np.zeros((size, size)), np.zeros((size, size))
    for e in range(count):
        part = slice(2 * e, 2 * e + 4)
        whole_m[part, part] += m
        whole_k[part, part] += k
    x = np.linspace(0.0, length, count + 1)
    rigid = np.zeros((size, 6))
    rigid[0::2, 2] = 1.0
    rigid[0::2, 4], rigid[1::2, 4] = -x, -1.0  # a rotation about y lowers what lies along x
    return whole_m, whole_k, rigid


def hub_and_panels(mass: float, inertia: float, length: float, panel: float, flexural: float) -> float:
    """First angular frequency at which a hub with two panels rotates against them, by Euler and Bernoulli.

    A panel that is clamped to a hub rotating by theta has w(x) with w(0) = 0, w'(0) = theta and a free end. Its moment
    at the root balances the hub's inertia: 2 EI w''(0) = -omega^2 I theta (the panels' roots lie at the hub's centre).
    """
    del mass

    def balance(b: float) -> float:
        # w = a (cos - cosh) + s sin + d sinh with s + d = 1 / b (slope 1), free end: two equations for a, s, d.
        c, s, ch, sh = math.cos(b), math.sin(b), math.cosh(b), math.sinh(b)
        system = np.array([[-c - ch, -s, sh], [s - sh, -c, ch], [0.0, 1.0, 1.0]])
        a, _, _ = np.linalg.solve(system, [0.0, 0.0, 1.0 / b])
        bending = -2.0 * a * b**2 / length  # w''(0) for a unit slope at the root, x in units of the length
        square = b**4 * flexural / (panel * length**3)
        return 2.0 * flexural * bending + square * inertia

    b = brentq(balance, 1.9, 3.9)
    return b**2 * math.sqrt(flexural / (panel * length**3))


def test_a_hub_with_two_panels_has_the_closed_form_s_frequency() -> None:
    length, panel, flexural = 5.0, 20.0, 900.0
    hub = Robot("hub", (Body("bus", Inertia(300.0, tensor=np.diag([50.0, 40.0, 40.0]))),), ())
    exact = hub_and_panels(300.0, 40.0, length, panel, flexural)
    errors = []
    for modes in (2, 4, 8):
        robot = hub
        for name, yaw in (("left", 0.0), ("right", math.pi)):
            boom = make_boom(name, length, panel, (math.inf, flexural), modes=modes, damping=0.0)
            robot = add_appendage(robot, "bus", boom, Pose(rotation_from_rpy([0.0, 0.0, yaw])))
        found = np.sqrt(np.maximum(free_squares(robot), 0.0))
        errors.append(np.abs(found / exact - 1.0).min())
    assert errors[0] < 1e-3
    assert errors[1] < errors[0] / 8
    assert errors[2] < errors[1] / 8


def test_finite_elements_reduced_are_the_beam() -> None:
    length, mass, flexural = 3.0, 8.0, 200.0
    m, k, upward = beam_finite_elements(length, mass, flexural, 30)
    # Bending along y is that along z seen from another side; along x and about x it is rigid.
    sideways = np.zeros_like(upward)
    sideways[:, 1], sideways[:, 5] = upward[:, 2], -upward[:, 4]
    one, size = np.zeros((2, 6)), m.shape[0]
    one[0, 0], one[1, 3] = 1.0, 1.0
    matrices = (block_diag(m, m, np.diag([mass, 0.01])), block_diag(k, 4.0 * k, np.zeros((2, 2))))
    held = [0, 1, size, size + 1, 2 * size, 2 * size + 1]
    reduced = reduce_fixed_interface("panel", *matrices, np.vstack([upward, sideways, one]), held, share=0.9)
    boom = make_boom("boom", length, mass, (4.0 * flexural, flexural), modes=10)
    assert len(reduced.modes) > 4
    for ours in reduced.modes:
        beam = min(boom.modes, key=lambda mode: abs(mode.frequency / ours.frequency - 1.0))
        assert ours.frequency == pytest.approx(beam.frequency, rel=1e-4)
        np.testing.assert_allclose(np.abs(ours.participation), np.abs(beam.participation), rtol=1e-3, atol=1e-8)
    robot = add_appendage(HUB, "bus", reduced)
    assert robot.mass == pytest.approx(HUB.mass + mass)


def test_what_cannot_be_an_appendage_is_an_error() -> None:
    rod = Inertia(10.0, [1.0, 0.0, 0.0], np.diag([0.0, 3.0, 3.0]))
    with pytest.raises(ModelError, match="not a possible body"):
        add_appendage(HUB, "bus", Appendage("a", rod, (Mode(1.0, [0, 0, 30.0]),)))
    with pytest.raises(ModelError, match="carries no momentum"):
        add_appendage(HUB, "bus", Appendage("a", rod, (Mode(1.0),)))


def test_a_slew_leaves_the_arrays_ringing() -> None:
    """The example agrees with MuJoCo; both arrays bend alike; propellant on the axis rests."""
    result = run_scenario(Path(__file__).parents[2] / "examples" / "slew.toml", cross_check=True)
    assert result.sound
    rows = {row.quantity: row.value for row in result.rows}
    assert abs(rows["end.joint.array_left.mode1"]) > 1e-5
    assert rows["end.joint.array_left.mode1"] == pytest.approx(rows["end.joint.array_right.mode1"], rel=1e-6)
    assert rows["end.joint.fuel.slosh_x"] == pytest.approx(0.0, abs=1e-12)


def test_one_mode_alone_in_a_roll_out() -> None:
    """Two masses on a spring, in closed form: one sprung joint, whose stiffness no roll-out may leave out."""
    hub = Robot("hub", (Body("bus", Inertia(9.0, np.zeros(3), np.eye(3))),))
    robot = add_appendage(hub, "bus", Appendage("mass", Inertia(3.0, tensor=np.eye(3)), (Mode(0.5, [1.0, 0.0, 0.0]),)))
    start = State.at_rest(robot, [0.01])
    end = rollout(robot, start.vector, 1e-3, 1000).ravel()
    # The mode's mass of 1 kg against the 11 kg of the rest.
    rate = np.pi * np.sqrt(1.0 + 1.0 / 11.0)
    np.testing.assert_allclose(end[7], 0.01 * np.cos(rate), atol=1e-11)
