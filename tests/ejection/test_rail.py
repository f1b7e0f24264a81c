"""Springs one by one: force curves, unequal ones, ones that are spent on the way; and what the rail carries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from spacearm.ejection import Rig, SeparationDevice, SeparationSpring, eject, eject_batch, monte_carlo
from spacearm.ejection.verify import check_in_mujoco
from spacearm.errors import InputError
from spacearm.model import Body, Friction, Inertia, Robot

STROKE = 0.086
#: A constant push, one that falls with the travel, and one that rises; N over m.
CURVE = ((0.0, 90.0), (0.02, 90.0), (0.05, 140.0), (0.07, 30.0), (0.086, 0.0))


def payload(com: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Robot:
    return Robot("payload", (Body("payload", Inertia(20.0, np.array(com), np.diag([1.0, 1.2, 0.7]))),))


def test_equal_springs_one_by_one_are_the_linear_device(rig: Rig) -> None:
    """Spent exactly at the end, and with a preload that is left."""
    for compression in (STROKE, 0.1):
        whole = Rig(rig.arm, SeparationDevice(812.7, STROKE, 2, compression=compression), "y")
        single = [SeparationSpring(812.7, compression), SeparationSpring(812.7, compression)]
        apart = Rig(rig.arm, SeparationDevice(stroke=STROKE, springs=single), "y")
        one, other = (eject(each, "attitude2", flight=4.0) for each in (whole, apart))
        assert other.sound
        assert other.time == pytest.approx(one.time, rel=1e-11)
        assert other.velocity == pytest.approx(one.velocity, rel=1e-11)
        np.testing.assert_allclose(other.final_variation, one.final_variation, atol=1e-10)
        assert other.ledger["springs"] == pytest.approx(whole.device.energy, rel=1e-12)
        assert apart.device.energy == pytest.approx(whole.device.energy, rel=1e-12)


def test_a_mass_on_two_unequal_springs_has_a_closed_form() -> None:
    """Both push until the short one is spent, then the other alone: two arcs of two oscillations."""
    k, c, mass = np.array([900.0, 400.0]), np.array([0.03, 0.12]), 20.0
    device = SeparationDevice(stroke=STROKE, springs=[SeparationSpring(a, b) for a, b in zip(k, c, strict=True)])
    both, rest = k.sum(), k @ c / k.sum()
    first = np.arccos((rest - c[0]) / rest) / np.sqrt(both / mass)
    speed = np.sqrt(both / mass * (rest**2 - (rest - c[0]) ** 2))
    omega = np.sqrt(k[1] / mass)
    reach = np.hypot(c[1] - c[0], speed / omega)
    start, end = (np.arcsin((z - c[1]) / reach) for z in (c[0], STROKE))
    run = eject(Rig(payload(), device), [], flight=1.0)
    assert run.time == pytest.approx(first + (end - start) / omega, rel=1e-10)
    assert run.velocity == pytest.approx(omega * reach * np.cos(end), rel=1e-10)
    assert run.sound
    batch = eject_batch(Rig(payload(), device), np.zeros((1, 0)), flight=1.0)
    assert batch.time[0] == pytest.approx(run.time, rel=1e-7)
    assert batch.velocity[0] == pytest.approx(run.velocity, rel=1e-7)


def test_a_curve_against_scipy() -> None:
    """Flat, rising and falling: the force of the table, integrated by SciPy piece by piece; its area is the energy."""
    table = np.array(CURVE)
    device = SeparationDevice(stroke=STROKE, springs=[SeparationSpring(curve=CURVE)])
    assert device.energy == pytest.approx(np.trapezoid(table[:, 1], table[:, 0]), rel=1e-14)
    state, time = np.array([0.0, 0.0]), 0.0
    for edge in table[1:, 0]:

        def reached(_: float, y: np.ndarray, edge: float = edge) -> float:
            return float(y[0] - edge)

        reached.terminal, reached.direction = True, 1.0  # type: ignore[attr-defined]
        part = solve_ivp(
            lambda _, y: [y[1], np.interp(y[0], table[:, 0], table[:, 1]) / 20.0],
            (0.0, 2.0),
            state,
            events=reached,
            rtol=1e-12,
            atol=1e-14,
            max_step=0.02,
        )
        state, time = np.array([edge, part.y[1, -1]]), time + part.t[-1]
    run = eject(Rig(payload(), device), [], flight=0.5)
    assert run.time == pytest.approx(time, rel=1e-9)
    assert run.velocity == pytest.approx(state[1], rel=1e-10)
    assert run.velocity == pytest.approx(np.sqrt(2.0 * device.energy / 20.0), rel=1e-10)
    assert run.sound
    assert run.ledger["springs"] == pytest.approx(device.energy, rel=1e-12)
    batch = eject_batch(Rig(payload(), device), np.zeros((1, 0)), flight=0.5)
    assert batch.time[0] == pytest.approx(time, rel=1e-7)


def test_a_curve_on_the_arm_with_friction(rig: Rig) -> None:
    """Stick-slip, friction of the rail and a satellite that recoils: ledger, batch and MuJoCo agree."""
    falling = [(0.0, 150.0), (0.03, 60.0), (0.06, 60.0), (0.086, 10.0)]
    springs = [SeparationSpring(curve=falling), SeparationSpring(300.0, 0.05, position=np.array([0.1, 0.0, 0.0]))]
    heavy = Inertia(500.0, np.array([0.0, 0.0, -0.5]), np.diag([80.0, 80.0, 80.0]))
    device = SeparationDevice(stroke=STROKE, springs=springs, friction=Friction(3.0, 2.0), satellite=heavy)
    own = Rig(rig.arm, device, "y")
    run = eject(own, "attitude2", flight=4.0)
    assert run.sound
    assert abs(run.ledger["residual"]) < 1e-9
    found = check_in_mujoco(run)
    assert found.was_run
    assert found.largest < 1e-7
    batch = eject_batch(own, run.start, flight=4.0)
    assert batch.velocity[0] == pytest.approx(run.velocity, rel=1e-7)
    np.testing.assert_allclose(batch.variation[0], run.variation, atol=1e-8)
    np.testing.assert_allclose(batch.angular_velocity[0], run.angular_velocity, atol=1e-7)
    assert list(batch.stop_times[0]) == pytest.approx(list(run.stop_times.values()), abs=1e-6)


@pytest.mark.parametrize("com", [(0.0, 0.0, 0.0), (0.05, -0.02, 0.3)])
def test_the_rail_carries_the_moment_of_unequal_springs_off_the_mass_centre(com: tuple[float, float, float]) -> None:
    """A rigid body on a rail along z: M = c x F - sum r_i x F_i, nothing across."""
    places, k = ((0.1, 0.02, 0.0), (-0.1, 0.0, 0.0)), (900.0, 700.0)
    springs = [SeparationSpring(a, STROKE, position=np.array(p)) for a, p in zip(k, places, strict=True)]
    run = eject(Rig(payload(com), SeparationDevice(stroke=STROKE, springs=springs)), [], flight=0.5)
    data = run.data.sel(time=slice(0.0, run.time))
    left = STROKE - data["position"].sel(axis="z").values
    forces = np.array([[0.0, 0.0, a] for a in k]) * left[:, None, None]
    moment = np.cross(com, forces.sum(axis=1)) - np.cross(places, forces).sum(axis=1)
    np.testing.assert_allclose(data["rail_moment"].values, moment, atol=1e-9)
    np.testing.assert_allclose(data["rail_force"].values, 0.0, atol=1e-9)
    assert np.all(run.data["rail_moment"].sel(time=slice(run.time + 0.01, None)) == 0.0)


def test_samples_scale_the_whole_curve(rig: Rig) -> None:
    device = SeparationDevice(stroke=STROKE, springs=[SeparationSpring(curve=CURVE)])
    own = Rig(rig.arm, device, "y")
    factors = np.array([0.7, 1.0, 1.3])
    batch = eject_batch(own, rig.arm.configuration("attitude1"), overrides={"spring": factors}, flight=1.0)
    for factor, velocity in zip(factors, batch.velocity, strict=True):
        scaled = [SeparationSpring(curve=[(z, factor * f) for z, f in CURVE])]
        run = eject(Rig(rig.arm, SeparationDevice(stroke=STROKE, springs=scaled), "y"), "attitude1", flight=1.0)
        assert velocity == pytest.approx(run.velocity, rel=1e-7)
    for name in ("stiffness", "compression"):
        with pytest.raises(InputError, match=f"no common {name}"):
            eject_batch(own, rig.arm.configuration("attitude1"), overrides={name: 1000.0})
    with pytest.raises(InputError, match="not above zero"):
        eject_batch(own, rig.arm.configuration("attitude1"), overrides={"spring": 0.0})
    found = monte_carlo(own, "attitude1", samples=20, flight=2.0)
    assert found.runs.velocity.std() > 0.0


def test_bad_springs() -> None:
    cases = {
        "has no force": {},
        "both a curve and a stiffness": {"stiffness": 1.0, "compression": 1.0, "curve": CURVE},
        "has no compression": {"stiffness": 1.0},
        "two or more points": {"curve": [1.0, 2.0]},
        "curve[0, 1] is nan": {"curve": [(0.0, np.nan), (1.0, 2.0)]},
        "travel of the curve starts at 0.1": {"curve": [(0.1, 5.0), (0.2, 0.0)]},
        "force of the curve[1] is -1": {"curve": [(0.0, 5.0), (0.2, -1.0)]},
    }
    for text, keys in cases.items():
        with pytest.raises(InputError) as caught:
            SeparationSpring(**keys)  # type: ignore[arg-type]
        assert text in f"{caught.value} {caught.value.hint}"
    good = SeparationSpring(800.0, STROKE)
    devices = {
        "stroke is 0 (expected more than 0 and at most 1000 m)": {"springs": [good]},
        "springs are not a list of SeparationSpring": {"stroke": STROKE, "springs": []},
        "springs are not a list": {"stroke": STROKE, "springs": [800.0]},
        "stiffness is given in addition to": {"stroke": STROKE, "springs": [good], "stiffness": 1.0},
        "the rail at 0.086 m": {"stroke": STROKE, "springs": [SeparationSpring(curve=[(0.0, 5.0), (0.01, 4.0)])]},
        "have no stiffness": {"stroke": STROKE},
        "do not push at the start": {
            "stroke": STROKE,
            "springs": [SeparationSpring(curve=[(0.0, 0.0), (0.05, 9.0), (0.1, 0.0)])],
        },
        "holds the springs' 68.8": {"stroke": STROKE, "springs": [good], "friction": Friction(100.0, 1.0)},
    }
    for text, keys in devices.items():
        with pytest.raises(InputError) as caught:
            SeparationDevice(**keys)  # type: ignore[arg-type]
        assert text in f"{caught.value} {caught.value.hint}"
