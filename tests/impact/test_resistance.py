"""Eq. 10 can add energy, with equal resistances too: the collision is then not sound, and says so.

The case is found by trying, and its energies are written out for planar rods in NumPy, without spacearm.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacearm.impact import Collision, FloatingSystem, build_system, collide, simulate_contact, solid_ball
from spacearm.model import catalogue
from spacearm.result import Result
from spacearm.study import run_document
from spacearm.typing import Array

ROBOT = catalogue.load("yoshida1992")
NORMAL = np.array([np.cos(0.5), np.sin(0.5), 0.0])


def hit(rates: Array, mu: object = 0.5, restitution: float = 1.0) -> Collision:
    """A ball of 1 kg at 2 m/s strikes the chain's end, whose joints turn."""
    chain = build_system(ROBOT, "hand", joints="L", rates=rates, resistance=mu)  # type: ignore[arg-type]
    striker = build_system(solid_ball(1.0), "contact", velocity=2.0 * NORMAL).move_to_contact(chain)
    return collide(chain, striker, normal=NORMAL, restitution=restitution, apart="ignore")


def most_added() -> tuple[Array, Collision]:
    """The most that equal resistances of 0.5 add, over 400 pairs of joint rates."""
    rates = np.random.default_rng(0).uniform(-3.0, 3.0, (400, 2))
    found = hit(rates)
    worst = int(np.argmax(found.added_energy))
    return rates[worst], hit(rates[worst])


def rods(rates: Array, mu: float) -> tuple[float, float, float]:
    """Kinetic energy before and after an elastic hit and the joints' work, for (x, y, angle, q1, q2); L shape."""
    angles = np.array([0.0, 0.0, np.pi / 2])
    along = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    across = np.stack([-np.sin(angles), np.cos(angles)], axis=1)
    turns = np.array([[1.0, 0, 0], [1, 1, 0], [1, 1, 1]])  # which of (angle, q1, q2) turn which rod
    # a point is the base's middle less lengths[i] along rod i
    points = np.array([[0.0, 0, 0], [0.5, 0.5, 0], [0.5, 1, 0.5], [0.5, 1, 1]])
    jacobians = []
    for lengths in points:
        jacobian = np.zeros((2, 5))
        jacobian[:, :2] = np.eye(2)
        for i in range(3):
            jacobian[:, 2:] -= lengths[i] * np.outer(across[i], turns[i])
        jacobians.append(jacobian)
    hand = jacobians.pop()
    mass = sum(j.T @ j for j in jacobians)
    mass[2:, 2:] += turns.T @ turns / 12.0
    assert np.allclose(-points[3] @ along, [-1.5, -1.0])  # the struck end lies where the configuration puts it
    base, coupling = mass[:3, :3], mass[:3, 3:]
    reduced = hand[:, 3:] - hand[:, :3] @ np.linalg.solve(base, coupling)
    n = NORMAL[:2]
    torque = -mu * reduced.T @ n  # Eq. 10 for a unit impulse
    change = np.linalg.solve(mass, hand.T @ n + np.concatenate([np.zeros(3), torque]))
    before = np.concatenate([np.zeros(3), rates])
    closing = 2.0 - n @ hand @ before
    size = 2.0 * closing / (n @ hand @ change + 1.0)
    after = before + size * change
    energies = [0.5 * v @ mass @ v for v in (before, after)]
    work = 0.5 * size * torque @ (before + after)[3:]
    return float(energies[0] + 2.0), float(energies[1] + 0.5 * (2.0 - size) ** 2), float(work)


def test_equal_resistances_of_moving_joints_add_energy_and_are_not_sound() -> None:
    rates, found = most_added()
    before, after, work = rods(rates, 0.5)
    assert after - before > 0.1  # J, by the independent account
    assert work == pytest.approx(after - before, rel=1e-12)
    assert float(found.energy_before) == pytest.approx(before, rel=1e-12)
    assert float(found.energy_after) == pytest.approx(after, rel=1e-12)
    assert float(found.added_energy) == pytest.approx(work, rel=1e-12)
    assert not found.sound
    check = found.certificate["resistance_energy"]
    assert not check.sound
    assert "no resistance can" in check.note
    assert [name for name, each in found.certificate.items() if not each.sound] == ["resistance_energy"]


def test_a_batch_is_as_sound_as_its_worst_sample() -> None:
    rates, _ = most_added()
    at_rest = np.zeros(2)
    assert hit(at_rest).sound
    assert float(hit(at_rest).first.resistance_work) < 0.0
    assert not hit(np.stack([at_rest, rates])).sound


def test_unequal_resistances_that_add_energy_are_not_sound() -> None:
    robot = catalogue.load("xu2017")
    mu = {"joint1": 0.6, "joint2": 0.6, "joint3": 0.4, "joint4": 0.2, "joint5": 0.1, "joint6": 0.1}
    chain = FloatingSystem(robot, "hand", "normal", resistance=mu)
    striker = build_system(solid_ball(40.0, 0.5), "contact", velocity=[-0.05, 0, 0]).move_to_contact(chain)
    assert not collide(chain, striker, normal=[-1, 0, 0], restitution=1.0).sound


def test_a_drive_may_add_energy() -> None:
    """A locked joint that turns is driven: its work is no resistance's."""
    chain = build_system(ROBOT, "hand", joints="L", rates=[-2.0, 2.0], locked="all")
    striker = build_system(solid_ball(1.0), "contact", velocity=4.0 * NORMAL).move_to_contact(chain)
    found = collide(chain, striker, normal=NORMAL, restitution=1.0)
    assert abs(float(found.first.joint_work)) > 0.1
    assert float(found.first.resistance_work) == 0.0
    assert found.sound


def test_a_contact_in_time_adds_what_the_jump_adds() -> None:
    rates, found = most_added()
    chain = build_system(ROBOT, "hand", joints="L", rates=rates, resistance=0.5)
    striker = build_system(solid_ball(1.0, 0.5), "contact", velocity=2.0 * NORMAL).move_to_contact(chain)
    slow = simulate_contact(chain, striker, frequency=1e5, normal=NORMAL, restitution=1.0)
    assert slow.resistance_work == pytest.approx(float(found.added_energy), rel=1e-3)


def scenario(rates: Array) -> Result:
    document = {
        "study": "impact",
        "robot": "yoshida1992",
        "frame": "hand",
        "start": {"configuration": "L", "rates": rates.tolist()},
        "case": [{"name": "free"}, {"name": "half", "resistance": 0.5}],
        "map": {"plane": [0.0, 0.0, 1.0], "directions": 19},
        "target": {"mass": 1.0, "inertia": [0.1, 0.1, 0.1], "velocity": (2.0 * NORMAL).tolist()},
        "collision": [{"name": "elastic", "normal": NORMAL.tolist(), "restitution": 1.0}],
    }
    return run_document({"study": "impact", **document}, folder=Path())


def test_a_scenario_whose_resistance_adds_energy_is_not_sound_and_says_where() -> None:
    rates, _ = most_added()
    result = scenario(rates)
    assert not result.sound
    check = result.certificate["resistance_energy"]
    assert "collision 'elastic', case 'half'" in check.note
    rows = {row.quantity: row for row in result.rows}
    assert "not sound" in rows["collision.elastic.half.energy_lost.joints"].note
    assert rows["collision.elastic.free.energy_lost.joints"].note == ""
    assert scenario(np.zeros(2)).sound


@pytest.mark.parametrize(("axes", "direction"), [("world", [-1.0, 0.0, 0.0]), ("frame", [0.3, -1.0, 0.4])])
def test_a_configuration_whose_hit_gains_energy_is_not_sound(axes: str, direction: list[float]) -> None:
    """Unequal resistances, from rest: the configuration found has a hit to which its joints add."""
    search = {
        "name": "calm",
        "quantity": "base_rotation",
        "direction": direction,
        "axes": axes,
        "speed": 0.7,
        "mass": 8.0,
        "restitution": 1.0,
        "restarts": 4,
        "samples": 16,
        "vary": ["joint2", "joint3"],
        "bounds": {"joint2": [0.0, 0.3], "joint3": [-0.6, 0.0]},
    }
    unequal = {"joint1": 0.6, "joint2": 0.6, "joint3": 0.4, "joint4": 0.2, "joint5": 0.1, "joint6": 0.1}

    def found(resistance: object) -> tuple[Result, float]:
        document = {
            "study": "impact",
            "robot": "xu2017",
            "frame": "hand",
            "start": {"configuration": "normal"},
            "case": [{"name": "servo", "resistance": resistance}],
            "map": {"directions": 20},
            "optimise": [search],
        }
        result = run_document({"study": "impact", **document}, folder=Path())
        return result, {row.quantity: row for row in result.rows}["configuration.calm.value"].value

    result, value = found(unequal)
    assert value > 0.0
    assert not result.sound
    assert "optimise 'calm'" in result.certificate["resistance_energy"].note
    assert found(0.4)[0].sound
