"""Memory of laws: integrators and filters, carried from tick to tick or integrated with the state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm
from tests.support.arms import arm

from spacearm import control, simulate_batch
from spacearm.errors import InputError
from spacearm.model.base import BASE_DOFS
from spacearm.simulate import RK4, Dopri853, Phase, State, constant, simulate
from spacearm.simulate.ensemble.phase_batch import PhaseBatch

ROBOT = arm(1)
#: About the joint's axis, by Steiner, kg m2.
INERTIA = 0.04 + 4.0 * (0.02**2 + 0.03**2)
GOAL, KP, KD, KI = 0.3, 2.0, 0.4, 1.5
HELD = {"locked": BASE_DOFS, "limits": "ignore"}


def pid(period: float | None, **more: object) -> control.Law:
    return control.joint_pid([constant(GOAL)], KP, KD, KI, period=period, limited=False, **more)


def closed_form(times: np.ndarray) -> np.ndarray:
    """(T, 3) angle, rate and integral force of the loop on a fixed base: x' = A x with the constant 1 as fourth."""
    matrix = np.zeros((4, 4))
    matrix[0, 1] = 1.0
    matrix[1] = np.array([-KP, -KD, 1.0, KP * GOAL]) / INERTIA
    matrix[2] = [-KI, 0.0, 0.0, KI * GOAL]
    return np.array([expm(t * matrix)[:3, 3] for t in times])


def test_a_continuous_integrator_is_its_closed_form():
    found = simulate(ROBOT, State.at_rest(ROBOT), Phase(3.0, laws=pid(None), **HELD), sample=0.1)
    assert found.sound
    wanted = closed_form(found.times)
    np.testing.assert_allclose(found.states[:, [7, 14]], wanted[:, :2], atol=1e-9)
    assert np.abs(wanted[:, 2]).max() > 0.05  # the integral matters
    drive = found.data["force"].sel(dof="j0").values
    force = KP * (GOAL - wanted[:, 0]) - KD * wanted[:, 1] + wanted[:, 2]
    np.testing.assert_allclose(drive, force, atol=1e-8)


def test_a_continuous_memory_goes_on_over_phases_with_other_laws_between():
    """An integral of time: what it is in a later phase of the law, after one without and one with a greater memory."""

    def clock(size: int) -> control.Law:
        def build(plant: control.Plant) -> control.Commands:
            gone = plant.memory("gone", np.zeros(size))
            return control.Commands({"j0": 0.0 * gone[0]}, rates={"gone": 1.0}, events={"late": gone[0] - 0.75})

        return control.Law(build, period=None, name=f"clock of {size}")

    law, other = clock(2), clock(5)
    phases = [Phase(0.5, laws=each, **HELD) for each in (law, (), other, law)]
    found = simulate(ROBOT, State.at_rest(ROBOT), phases)
    assert found.sound
    (late,) = found.events_of("law")
    np.testing.assert_allclose(late.time, 1.75, atol=1e-9)


def test_a_sampled_integrator_comes_to_the_continuous_one():
    """Rates of a sampled law are steps of Euler: first order in the period."""

    def build(plant: control.Plant) -> control.Commands:
        pull = plant.memory("pull")
        error = GOAL - plant.joints
        return control.Commands({"j0": KP * error - KD * plant.rates + pull}, rates={"pull": KI * error})

    def end(period: float | None) -> np.ndarray:
        law = control.Law(build, period=period, limited=False)
        return simulate(ROBOT, State.at_rest(ROBOT), Phase(1.0, laws=law, **HELD)).states[-1, [7, 14]]

    exact = closed_form(np.array([1.0]))[0, :2]
    np.testing.assert_allclose(end(None), exact, atol=1e-9)
    errors = [np.abs(end(period) - exact).max() for period in (0.004, 0.002, 0.001)]
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 1.0, atol=0.1)
    # joint_pid steps the same way
    np.testing.assert_allclose(
        simulate(ROBOT, State.at_rest(ROBOT), Phase(1.0, laws=pid(0.002), **HELD)).states[-1, [7, 14]],
        end(0.002),
        atol=1e-13,
    )


def test_laws_that_act_together_keep_their_memories_apart():
    """A filter and an integrator under the same name."""

    def filtered(plant: control.Plant) -> control.Commands:
        memory = plant.memory("own", 1.0)
        return control.Commands({"j0": 0.01 * memory}, rates={"own": -memory / 0.5})

    def integral(plant: control.Plant) -> control.Commands:
        memory = plant.memory("own")
        return control.Commands({"base_wz": memory}, rates={"own": 0.02})

    t = 1.0
    # theta'' = 0.01 exp(-2 t) / I; the base is held, and its force is 0.02 t
    rate = 0.01 * 0.5 * (1 - np.exp(-2 * t)) / INERTIA
    for period, near in ((None, 1e-10), (1e-3, 1e-3)):
        laws = [control.Law(build, period=period) for build in (filtered, integral)]
        found = simulate(ROBOT, State.at_rest(ROBOT), Phase(t, laws=laws, **HELD))
        np.testing.assert_allclose(found.states[-1, 14], rate, rtol=near)
        force = found.data["force"].sel(dof="base_wz").values
        np.testing.assert_allclose(force, 0.02 * found.times, atol=1e-10 if period is None else 2.1e-5)


def test_windup_is_bounded():
    """The joint is held off its goal: the integral part rises to its bound and stays."""
    for period in (None, 0.01):
        law = pid(period, windup=0.2)
        found = simulate(ROBOT, State.at_rest(ROBOT), Phase(2.0, laws=law, **(HELD | {"locked": (*BASE_DOFS, "j0")})))
        force = found.data["force"].sel(dof="j0").values
        np.testing.assert_allclose(force[-1], KP * GOAL + 0.2, atol=1e-3 if period is None else 1e-12)
        assert force.max() <= KP * GOAL + 0.2 + 1e-3


def test_batches_and_fixed_steps_begin_with_a_fresh_memory():
    phase = Phase(1.0, laws=pid(None), **HELD)
    rows = np.repeat(State.at_rest(ROBOT).vector[None], 3, axis=0)
    exact = closed_form(np.array([1.0]))[0, :2]
    one, two = (simulate_batch(ROBOT, rows, phase, threads=k) for k in (1, 2))
    np.testing.assert_array_equal(one.end, two.end)
    np.testing.assert_allclose(one.end[:, [7, 14]], np.tile(exact, (3, 1)), atol=1e-8)
    batch = PhaseBatch(ROBOT, phase, Dopri853(), {})
    ends = batch.run(rows, slice(0, 3), np.ones(3, dtype=bool), np.zeros(0), np.zeros(1, dtype=np.uint8))
    np.testing.assert_allclose(ends.state[:, [7, 14]], np.tile(exact, (3, 1)), atol=1e-8)
    fixed = simulate(ROBOT, State.at_rest(ROBOT), phase, method=RK4(0.005), ledger=False)
    np.testing.assert_allclose(fixed.states[-1, [7, 14]], exact, atol=1e-6)


@pytest.mark.parametrize(
    ("period", "commands", "message"),
    [
        (None, {"memory": {"m": 1.0}}, "no next tick.*rates="),
        (0.1, {"memory": {"m": 1.0}, "rates": {"m": 1.0}}, "a next value and a rate"),
        (None, {"rates": {"n": 1.0}}, "no memory 'n'"),
        (0.1, {"rates": {"n": 1.0}}, "no memory 'n'"),
        (0.1, {"memory": {"m": np.zeros(3)}}, "3 numbers.*expected 2"),
    ],
)
def test_memory_that_cannot_be(period, commands, message):
    def build(plant: control.Plant) -> control.Commands:
        plant.memory("m", [0.0, 0.0])
        return control.Commands({"j0": 0.0}, **commands)

    with pytest.raises(InputError, match=message):
        simulate(ROBOT, State.at_rest(ROBOT), Phase(1.0, laws=control.Law(build, period=period), **HELD))
