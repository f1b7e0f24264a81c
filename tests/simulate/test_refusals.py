"""What runs in time refuse: each wrong thing with its place and what would be right, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from spacearm.errors import InputError, SimulationError
from spacearm.simulate import (
    RK4,
    Dopri853,
    Event,
    Load,
    Phase,
    State,
    approximate,
    rollout,
    simulate,
    simulate_batch,
    spline,
    table,
)
from support.arms import arm, tumbling

ARM: Any = arm(2)
START: Any = tumbling(ARM)
VECTOR: Any = START.vector
#: What is given wrongly has no type that fits.
no: Any = None
text: Any = "x"

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "robot": (lambda: simulate(text, START, 1.0), "simulate: the robot is 'x' .expected a Robot"),
    "batch of no robot": (lambda: simulate_batch(no, VECTOR, 1.0), "batch: the robot is None"),
    "rollout of no robot": (lambda: rollout(no, VECTOR, 1.0, 1), "rollout: the robot is None"),
    "memory": (
        lambda: simulate(ARM, START, 480.0, sample=1e-4),
        "sample: 4800002 samples of [0-9]+ numbers do not fit",
    ),
    "duration": (lambda: Phase(text), "phase: duration is 'x'"),
    "paths": (lambda: Phase(1.0, driven=["j0"]), "phase, driven: is .'j0'. .expected a mapping from degree"),  # type: ignore[arg-type]
    "forces": (lambda: Phase(1.0, forces=np.zeros(8)), "phase, forces: is array"),  # type: ignore[arg-type]
    "locked": (lambda: Phase(1.0, locked=[0]), "phase, locked: holds 0 .expected names"),  # type: ignore[list-item]
    "events": (lambda: Phase(1.0, events=["j0"]), "phase, events: holds 'j0' .expected Event"),  # type: ignore[list-item]
    "until": (lambda: Phase(1.0, until=text, name="p"), "phase 'p', until: holds 'x' .expected Event"),
    "loads": (lambda: Phase(1.0, loads=[1.0]), "phase, loads: holds 1.0 .expected Load"),  # type: ignore[list-item]
    "event_function": (lambda: Phase(1.0, event_function=text), "phase: the event function is 'x'"),
    "level": (lambda: Event("j0", text), "event of 'j0': value is 'x'"),
    "quantity": (
        lambda: simulate(ARM, START, [Phase(0.1), Phase(0.1, until=Event("j0.rat"))]),
        r"phase\[1\]: event of 'j0.rat': there is no quantity 'j0.rat' .did you mean 'j0.rate'",
    ),
    "method": (lambda: simulate(ARM, START, 1.0, method=text), r"method: the method is 'x' .expected RK4\(step\)"),
    "class of a method": (lambda: simulate_batch(ARM, VECTOR, 1.0, method=RK4), "method: the method is <class"),  # type: ignore[arg-type]
    "step": (lambda: RK4(text), "RK4: step is 'x'"),
    "rtol": (lambda: Dopri853(rtol=text), "Dopri853: rtol is 'x'"),
    "sample": (lambda: simulate(ARM, START, 1.0, sample=text), "sample is not an array of numbers"),
    "tolerance": (lambda: simulate(ARM, START, 1.0, tolerance=text), "tolerance is 'x'"),
    "overrides": (lambda: simulate(ARM, START, 1.0, overrides=text), "overrides: is 'x' .expected a mapping"),
    "override": (
        lambda: simulate_batch(ARM, VECTOR, 1.0, overrides={"damping": text}),
        "overrides, 'damping' is not an array of numbers",
    ),
    "masses": (
        lambda: simulate(ARM, START, 1.0, overrides={"inertia": 0.0 * ARM.inertia_parameters}),
        "overrides: the masses add up to 0 kg",
    ),
    "masses of one sample": (
        lambda: simulate_batch(
            ARM,
            np.stack([VECTOR] * 2),
            1.0,
            overrides={"inertia": np.multiply.outer([1.0, -1.0], ARM.inertia_parameters)},
        ),
        "overrides, sample 1: the masses add up to -57.7 kg",
    ),
    "starts": (lambda: rollout(ARM, text, 0.1, 1), "starts of the rollout is not an array of numbers"),
    "quaternion of a batch": (
        lambda: simulate_batch(ARM, np.stack([VECTOR, 2.0 * VECTOR]), 1.0),
        "batch, sample 1: base quaternion has norm 2",
    ),
    "quaternion of a roll-out": (lambda: rollout(ARM, np.zeros(17), 0.1, 1), "rollout, sample 0: base quaternion has"),
    "count": (lambda: rollout(ARM, VECTOR, 0.1, 2.5), "rollout: count is 2.5 .expected a whole number"),  # type: ignore[arg-type]
    "step of a roll-out": (lambda: rollout(ARM, VECTOR, text, 2), "rollout: step is 'x'"),
    "samples of a batch": (
        lambda: simulate_batch(ARM, VECTOR, 1.0, sample=[-1.0, 0.5]),
        "non-negative, and increasing",
    ),
    "joints": (lambda: State([0] * 3, [1, 0, 0, 0], [text, 0], [0] * 8), "joint positions is not an array"),  # type: ignore[arg-type]
    "direction": (lambda: Load.from_direction("hand", text, 1.0), "direction of the load on 'hand' is not an array"),
    "ends": (lambda: spline([0, 1], [0, 1], ends="clmped"), "ends are 'clmped' .did you mean 'clamped'"),  # type: ignore[arg-type]
    "table": (lambda: table(text, [1.0, 2.0]), "times of the table is not an array of numbers"),
    "function": (
        lambda: approximate(lambda t: np.zeros(3), 0.0, 1.0),
        r"approximation: the function gives shape \(3,\) for times of shape \(9,\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refusal(case: str) -> None:
    call, note = CASES[case]
    with pytest.raises(InputError, match=note):
        call()


def test_one_of_a_list_needs_no_list() -> None:
    crossing = Event("j1")
    phase = Phase(0.1, locked="j0", events=crossing, until=crossing, loads=Load.from_direction("hand", [1, 0, 0], 1.0))  # type: ignore[arg-type]
    assert phase.locked == ("j0",)
    assert phase.events == (crossing,)
    assert [c.ends for c in phase.all_events] == ["phase", "nothing"]
    assert len(phase.loads) == 1


def test_a_row_that_is_not_finite_is_no_wrong_quaternion() -> None:
    starts = np.stack([VECTOR, np.full(17, np.nan)])
    with pytest.warns(Warning, match="1 of 2 samples ended in numbers that are not finite, the first at index 1"):
        found = simulate_batch(ARM, starts, 0.01)
    assert list(found.sound) == [True, False]


def test_a_joint_that_turns_too_far_during_a_run_is_an_error() -> None:
    """After 1e9 rad a double knows the angle to 1e-7 rad only: no more of it is told as if it were known."""
    robot = arm(1)
    phase = Phase(10.0, locked=robot.dof_names[:6], accelerations={robot.joint_names[0]: 1e8}, limits="ignore")
    with pytest.raises(
        SimulationError, match=r"run at t = 4\.5 s: joint .* is at 1\.0125e\+09 rad .*at most 1e\+09 rad"
    ):
        simulate(robot, State.at_rest(robot), phase, method=RK4(0.05), sample=0.5, ledger=False)
