"""Rotors with gear ratio: spinning bodies of their own on the joint's carrier, from the kinetic energy."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm import Mechanics, State, simulate
from spacearm.model import Body, Inertia, Joint, Pose, Robot, Rotor
from spacearm.simulate.check.mujoco_model import MujocoModel
from support import brute_force
from support.pinocchio_reference import PinocchioReference
from support.population import difference
from support.random_robots import random_robot, random_state
from support.symbolic import Symbolic

TOLERANCE = 1e-11
QUANTITIES = (
    "mass_matrix",
    "bias",
    "inverse_dynamics",
    "acceleration",
    "reaction",
    "momentum_at_base",
    "kinetic_energy",
)


@pytest.mark.parametrize("seed", range(36))
def test_against_first_principles(seed: int) -> None:
    """Mass matrix, bias, both dynamics, momentum and energy; rotors on every revolute joint."""
    robot = random_robot(
        seed,
        1 + seed % 7,
        tree=seed % 2 == 0,
        geometry=("skew", "aligned", "mixed")[seed % 3],  # type: ignore[arg-type]
        prismatic=0.2,
        rotors=1.0,
        flexible=0.5 if seed % 4 < 2 else 0.0,
    )
    rng = np.random.default_rng(seed)
    state = random_state(robot, rng)
    acceleration, force, drive = (rng.normal(size=robot.dofs) for _ in range(3))
    mode = (rng.random(robot.dofs) < 0.4).astype(float)
    mass, bias = brute_force.mass_matrix(robot, state.joints), brute_force.bias(robot, state.joints, state.velocity)
    got = Symbolic(robot, *QUANTITIES)(state, acceleration=acceleration, force=force, drive=drive, mode=mode)
    assert difference(got["mass_matrix"], mass) < TOLERANCE
    assert difference(got["bias"], bias) < TOLERANCE
    assert difference(got["inverse_dynamics"], mass @ acceleration + bias) < TOLERANCE
    expected, reaction = brute_force.hybrid_dynamics(mass, bias, force, drive, mode)
    assert difference(got["acceleration"], expected) < TOLERANCE
    assert difference(got["reaction"], reaction) < TOLERANCE
    momentum = brute_force.momentum_about_base(robot, state.joints, state.velocity)
    assert difference(got["momentum_at_base"], momentum) < TOLERANCE
    energy = 0.5 * state.velocity @ mass @ state.velocity
    assert difference(got["kinetic_energy"], [energy]) < TOLERANCE


def flywheel(ratio: float) -> Robot:
    """A satellite with a rotor about z that carries nothing else."""
    base = Body("base", Inertia(10.0, np.zeros(3), np.diag([2.0, 3.0, 4.0])))
    wheel = Joint("wheel", "revolute", "base", "disc", Pose(), np.array([0.0, 0.0, 1.0]), rotor=Rotor(0.05, ratio))
    return Robot("flywheel", (base, Body("disc", Inertia.massless())), (wheel,))


@pytest.mark.parametrize("ratio", [1.0, -30.0, 100.0])
def test_spinning_up_a_flywheel_turns_the_satellite_back(ratio: float) -> None:
    """In closed form: spin momentum 0.05 (ratio qd + wz), and the base's 4 wz against it."""
    robot = flywheel(ratio)
    state = random_state(robot, np.random.default_rng(0))
    rate = 7.0
    wz = -0.05 * ratio * rate / 4.05
    still = type(state)(state.position, state.quaternion, state.joints, np.array([0, 0, 0, 0, 0, wz, rate]))
    got = Symbolic(robot, *QUANTITIES)(still)
    np.testing.assert_allclose(got["momentum_at_base"], 0.0, atol=1e-14)
    np.testing.assert_allclose(got["mass_matrix"][5:, 5:], [[4.05, 0.05 * ratio], [0.05 * ratio, 0.05 * ratio**2]])


def test_gyroscopic_moment_of_a_spinning_rotor() -> None:
    """Turning the axis of a spin L about x takes the moment w x L from the base: (0, -wx L, 0)."""
    robot = flywheel(100.0)
    state = random_state(robot, np.random.default_rng(0))
    angular_rate = 0.05 * 100.0 * 3.0
    turning = type(state)(state.position, state.quaternion, state.joints, np.array([0, 0, 0, 0.2, 0, 0, 3.0]))
    np.testing.assert_allclose(
        Symbolic(robot, *QUANTITIES)(turning)["bias"], [0, 0, 0, 0, -0.2 * angular_rate, 0, 0], atol=1e-14
    )


def test_without_gear_and_carrier_it_is_plain_armature() -> None:
    """On a carrier that does not turn, a rotor is ratio**2 * inertia on its joint and nothing else."""
    bare = random_robot(5, 4, tree=False, prismatic=0.0)
    joints = list(bare.joints)
    first = joints[0]
    joints[0] = Joint(
        first.name, first.kind, first.parent, first.child, first.placement, first.axis, rotor=Rotor(1e-3, 50.0)
    )
    geared = bare.replace(joints=tuple(joints))
    state = random_state(bare, np.random.default_rng(5))
    gap = (
        Symbolic(geared, "mass_matrix")(state)["mass_matrix"][6:, 6:]
        - PinocchioReference(bare).mass_matrix(state)[6:, 6:]
    )
    expected = np.zeros((4, 4))
    expected[0, 0] = 2.5
    np.testing.assert_allclose(gap, expected, atol=1e-12)


def test_a_rotor_on_a_slide_is_a_ball_screw():
    """Against MuJoCo, which has the rotor as a body of its own on the carrier."""
    own = Inertia(2.0, (0.1, 0.05, 0.02), np.diag([0.3, 0.4, 0.5]))
    joints = (
        Joint("slide", "prismatic", "base", "carriage", Pose(np.eye(3), (0.1, 0.2, 0.3)), (0.6, 0.8, 0.0),
              rotor=Rotor(1e-3, 50.0)),
        Joint("hinge", "revolute", "carriage", "link", Pose(np.eye(3), (0.3, 0.0, 0.0)), rotor=Rotor(1e-3, -30.0)),
    )  # fmt: skip
    robot = Robot("screw", tuple(Body(name, own) for name in ("base", "carriage", "link")), joints)
    rng = np.random.default_rng(0)
    q, velocity, force = rng.normal(size=2), rng.normal(size=8), rng.normal(size=8)
    reference, mechanics = MujocoModel(robot), Mechanics(robot)
    reference.set_state(np.zeros(3), [1, 0, 0, 0], q, velocity)
    np.testing.assert_allclose(mechanics.mass_matrix(q), reference.mass_matrix(), atol=1e-13)
    np.testing.assert_allclose(mechanics.bias(q, velocity), reference.bias(), atol=1e-13)
    np.testing.assert_allclose(
        mechanics.forward_dynamics(q, velocity, force), reference.forward_dynamics(force), atol=1e-12
    )
    # Energy and momentum by the certificate's own formulas.
    assert simulate(robot, State(np.zeros(3), [1, 0, 0, 0], q, velocity), 2.0).sound
