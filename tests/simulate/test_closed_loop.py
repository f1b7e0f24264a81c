"""The cross-check in closed loop: the laws of a run are called with MuJoCo's states."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.control import joint_pid
from spacearm.mechanics.sensors import Encoder, Gyro
from spacearm.model import Robot
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.methods import Dopri853
from spacearm.simulate.overrides import with_parameters
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.run import Run, simulate
from spacearm.simulate.state import State
from support.random_robots import random_robot, random_state

TIGHT = Dopri853(rtol=1e-12, atol=1e-13)
ROBOT = random_robot(4, 3)


def hold(integral: float = 0.0, **settings: object) -> Run:
    """Joints held for 3 s in two phases, of which the second begins between two ticks."""
    drawn = random_state(ROBOT, np.random.default_rng(1), speed=0.2)
    start = State(drawn.position, drawn.quaternion, drawn.joints, drawn.velocity)
    law = joint_pid(start.joints, 30.0, 12.0, integral, period=0.02, **settings)
    return simulate(ROBOT, start, [Phase(1.003, laws=law), Phase(2.0, laws=law)], method=TIGHT)


@pytest.mark.parametrize(
    "settings",
    [
        {"integral": 5.0, "delay": 0.04},
        {"sensors": [Encoder(noise=1e-3, smoothing=0.05), Gyro(noise=1e-3, delay=0.02)], "seed": 3},
    ],
)
def test_memory_delays_and_noise_go_the_same_way(settings: dict[str, object]) -> None:
    found = cross_check(hold(**settings), closed_loop=True)
    assert found.was_run
    assert found.largest < 1e-9, str(found)


def test_the_law_mends_what_a_wrong_model_spoils() -> None:
    """Of a robot with other masses the law still holds the joints; its recorded commands do not."""
    run = hold()
    other: Robot = with_parameters(ROBOT, {"inertia": 1.05 * np.asarray(ROBOT.inertia_parameters).ravel()})
    replayed, closed = (cross_check(run, world=other, closed_loop=loop) for loop in (False, True))
    assert replayed.differences["joints"] > 3.0 * closed.differences["joints"] > 1e-6
