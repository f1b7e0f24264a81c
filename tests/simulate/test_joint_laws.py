"""Friction with bristles, hysteresis and backlash of joints, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm import Body, InputError, Joint, Phase, State, World, simulate
from spacearm.model import Coupling, Inertia, Pose, Robot, Rotor, Spring
from spacearm.simulate import Backlash, BoucWen, LuGre, spline, table

INERTIA = 0.5


def wheel(**joint: object) -> Robot:
    """A held base with a disc of 0.5 kg m2 on a hinge."""
    disc = Body("disc", Inertia(1.0, tensor=np.diag([0.3, 0.3, INERTIA])))
    hinge = Joint("hinge", "revolute", "base", "disc", Pose(), **joint)  # type: ignore[arg-type]
    return Robot("wheel", (Body("base", Inertia(10.0, tensor=np.eye(3))), disc), (hinge,), base="held")


def world_of(robot: Robot, *laws: object) -> World:
    return World({robot.name: robot}, elements=laws)  # type: ignore[arg-type]


def driven_force(law: object, path: object, duration: float, samples: int = 41) -> tuple[np.ndarray, np.ndarray]:
    """Positions, and the law's force, along a driven path."""
    robot = wheel()
    start = State.at_rest(robot)
    velocity = start.velocity.copy()
    velocity[6] = path.derivative()(0.0)  # type: ignore[attr-defined]
    run = simulate(
        world_of(robot, law), State(start.position, start.quaternion, start.joints, velocity),
        Phase(duration, driven={"hinge": path}), sample=np.linspace(0.0, duration, samples),
    )  # fmt: skip
    return run.states[:, 7], run.data["force"].values[:, 6]


def line(rate: float) -> object:
    """A path of constant rate."""
    return table([-1.0, 2.0], [-rate, 2.0 * rate])


@pytest.mark.parametrize(("sharpness", "closed"), [(1.0, lambda u: 1.0 - np.exp(-u)), (2.0, np.tanh)])
def test_hysteresis_loads_as_in_closed_form(sharpness, closed):
    law = BoucWen("hinge", stiffness=40.0, displacement=0.1, elastic=0.2, sharpness=sharpness)
    ramp = line(0.5)
    x, force = driven_force(law, ramp, 1.0)
    np.testing.assert_allclose(force, -(0.2 * 40.0 * x + 0.8 * 4.0 * closed(x / 0.1)), atol=1e-8)


def test_hysteresis_unloads_linearly():
    """From saturation back with the first stiffness, for a shape of one half."""
    law = BoucWen("hinge", stiffness=40.0, displacement=0.1)
    times = np.linspace(0.0, 3.0, 61)
    x, force = driven_force(law, spline(times, 3.0 * np.sin(0.5 * np.pi * times) ** 2 / 2.0), 1.5, 301)
    top = int(np.argmax(x))
    back = slice(top + 1, top + 1 + int(np.count_nonzero(x[top + 1 :] > x[top] - 0.095)))
    assert back.stop - back.start > 5
    np.testing.assert_allclose(force[back] - force[top], -40.0 * (x[back] - x[top]), atol=1e-5)


def test_lugre_slides_on_stribecks_curve():
    law = LuGre("hinge", coulomb=1.0, static=1.5, stribeck=0.1, stiffness=1e4, damping=5.0, viscous=0.3)
    for rate in (0.02, 0.1, 0.5):
        _, force = driven_force(law, line(rate), 1.0)
        steady = 1.0 + 0.5 * np.exp(-((rate / 0.1) ** 2)) + 0.3 * rate
        assert force[-1] == pytest.approx(-steady, rel=1e-7)


def test_lugre_by_scipy():
    """A spring drags the disc through stick and slip."""
    robot = wheel(spring=Spring(2.0, 1.0))
    law = LuGre("hinge", coulomb=1.0, static=1.4, stribeck=0.05, stiffness=500.0, damping=2.0, viscous=0.1)

    def rate(_: float, y: np.ndarray) -> list[float]:
        q, v, z = y
        curve = 1.0 + 0.4 * np.exp(-((v / 0.05) ** 2))
        slip = v - 500.0 * abs(v) * z / curve
        friction = 500.0 * z + 2.0 * slip + 0.1 * v
        return [v, (-2.0 * (q - 1.0) - friction) / INERTIA, slip]

    expected = solve_ivp(rate, (0.0, 5.0), [0.0, 0.0, 0.0], method="Radau", rtol=1e-10, atol=1e-13)
    run = simulate(world_of(robot, law), State.at_rest(robot), 5.0)
    assert run.sound
    assert run.end.joints[0] == pytest.approx(expected.y[0, -1], abs=1e-8)
    assert run.end.rates[0] == pytest.approx(expected.y[1, -1], abs=1e-8)
    # It sticks in the end, with the bristles bent by what is left of the spring.
    assert abs(run.end.rates[0]) < 1e-4
    assert run.end.joints[0] > 0.1


def flexible() -> Robot:
    """A disc and its motor on one axis."""
    robot = wheel()
    motor = Joint("motor", "revolute", "base", "rotor", Pose(), rotor=Rotor(0.01, 5.0))
    return Robot(
        "drive",
        (*robot.bodies, Body("rotor", Inertia.massless())),
        (*robot.joints, motor),
        couplings=(Coupling("gear", "hinge", "motor", 0.0),),
        base="held",
    )


def test_backlash_by_scipy():
    """The disc flies through the gap and is thrown back by the flanks."""
    robot = flexible().replace(couplings=())
    law = Backlash("hinge", "motor", gap=0.2, stiffness=300.0, damping=0.5)

    def rate(_: float, y: np.ndarray) -> list[float]:
        q, m, v, w = y
        d, dd, force = q - m, v - w, 0.0
        if d > 0.1:
            force = -max(300.0 * (d - 0.1) + 0.5 * dd, 0.0)
        elif d < -0.1:
            force = max(-300.0 * (d + 0.1) - 0.5 * dd, 0.0)
        return [v, w, force / INERTIA, -force / 0.25]

    # Small steps: SciPy does not know where the flanks are.
    expected = solve_ivp(rate, (0.0, 3.0), [0.0, 0.0, 0.4, 0.0], method="RK45", rtol=1e-10, atol=1e-12, max_step=2e-4)
    start = State.at_rest(robot)
    velocity = start.velocity.copy()
    velocity[robot.dof_index("hinge")] = 0.4
    run = simulate(world_of(robot, law), State(start.position, start.quaternion, start.joints, velocity), 3.0)
    assert run.sound
    at = [robot.joint_index("hinge"), robot.joint_index("motor")]
    np.testing.assert_allclose(run.end.joints[at], expected.y[:2, -1], atol=2e-6)
    # The first flank is met where uniform motion has crossed half the gap.
    first = run.events_of("flank")[0]
    assert first.time == pytest.approx(0.1 / 0.4, abs=1e-9)


def test_friction_of_a_gear_grows_with_what_it_transmits():
    robot = flexible().replace(couplings=(Coupling("gear", "hinge", "motor", 100.0),))
    law = LuGre("motor", coulomb=0.2, stiffness=1e4, load=0.1)
    # The motor turns slowly against the disc, which is held at -0.05 rad from it: 5 N m.
    start = State.at_rest(robot, {"hinge": 0.3})
    ramp = spline([0.0, 0.5, 1.0], [0.0, 0.05, 0.1])
    velocity = start.velocity.copy()
    velocity[robot.dof_index("motor")] = ramp.derivative()(0.0)
    begin = State(start.position, start.quaternion, start.joints, velocity)
    run = simulate(world_of(robot, law), begin, Phase(1.0, driven={"motor": ramp}, locked=["hinge"]))
    force = run.data["force"].values[:, robot.dof_index("motor")]
    twist = 0.3 - run.states[:, 7 + robot.joint_index("motor")]
    np.testing.assert_allclose(force[100:], -(0.2 + 0.1 * 100.0 * twist[100:]), rtol=2e-3)
    with pytest.raises(InputError, match="has no coupling"):
        world_of(wheel(), LuGre("hinge", coulomb=0.2, load=0.1))


def test_errors():
    with pytest.raises(InputError, match=r"friction of hinge: static"):
        LuGre("hinge", coulomb=1.0, static=0.5)
    with pytest.raises(InputError, match="sharpness"):
        BoucWen("hinge", 1.0, 1.0, sharpness=0.5)
    with pytest.raises(InputError, match="both joints are 'a'"):
        Backlash("a", "a", 0.1, 1.0)
    with pytest.raises(InputError, match="there is no joint 'nowhere'"):
        world_of(wheel(), LuGre("nowhere", coulomb=1.0))
