"""Certificates of random trees with everything on them: loads, paths, locks, springs, rotors, couplings, friction."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from spacearm.model import Friction, Robot
from spacearm.simulate import Load, Phase, Run, State, half_sine, pulse, simulate, spline
from support.random_robots import random_robot, random_state


def mixed_run(seed: int) -> Run:
    """Two phases with random modes; friction on some joints."""
    rng = np.random.default_rng(seed)
    robot = random_robot(seed, int(rng.integers(2, 7)), rotors=0.3, flexible=0.2, passive=True)
    coulomb = 10 ** rng.uniform(-1.5, 0.0)
    rubbing = set(rng.choice(robot.joint_names, size=min(2, robot.n), replace=False))
    robot = robot.replace(
        joints=tuple(
            replace(joint, friction=Friction(1.4 * coulomb, coulomb)) if joint.name in rubbing else joint
            for joint in robot.joints
        )
    )
    state = random_state(robot, rng, speed=0.3)
    velocity = state.velocity.copy()
    held = rng.choice(robot.n, size=2, replace=False)
    velocity[6 + held] = 0.0
    locked, driven = (robot.joint_names[i] for i in held)
    start = State(state.position, state.quaternion, state.joints, velocity)
    here = start.joints[robot.joint_index(driven)]
    frame = robot.frames[0].name
    load = Load.along(frame, rng.normal(size=3), half_sine(20.0 * rng.normal(), 0.1, 0.2))
    twist = Load.along(frame, rng.normal(size=3), pulse(2.0 * rng.normal(), 0.3, 0.3), axes="frame", moment=True)
    path = spline([0.0, 0.6, 1.0], [here, here + 0.3, here - 0.1])
    phases = [
        Phase(1.0, locked=[locked], driven={driven: path}, loads=[load, twist]),
        Phase(0.5, locked=[driven], loads=[twist], forces={locked: pulse(1.0, 0.1, 0.2)}),
    ]
    return simulate(robot, start, phases, sample=0.02)


@pytest.mark.parametrize("seed", range(12))
def test_random_robots_under_everything(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = mixed_run(seed)
    assert run.ok
    assert run.certificate is not None
    assert run.certificate["path"].value < 1e-12
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert run.certificate[name].value < 3e-9


def test_a_wrong_inertia_would_be_noticed() -> None:
    """The certificate is able to fail: judge a run by a robot that is one percent heavier in one link."""
    from spacearm.simulate.certificate import certify
    from spacearm.simulate.motion import motion

    robot = random_robot(3, 4, passive=False)
    state = random_state(robot, np.random.default_rng(3), speed=0.5)
    start = State(state.position, state.quaternion, state.joints, state.velocity)
    run = simulate(robot, start, 5.0)
    model = motion(robot, (), True)
    parameters = model.parameters()
    inputs, y = run._inputs, run._y
    assert certify(model, parameters, run.times, y, inputs, None, []).ok
    heavier: Robot = robot.with_inertia_parameters(
        robot.inertia_parameters * np.where(np.arange(len(robot.bodies)) == 2, 1.01, 1.0)[:, None]
    )
    wrong = certify(
        model, {**parameters, "inertia": heavier.inertia_parameters.ravel()}, run.times, y, inputs, None, []
    )
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert wrong[name].value > 1e-6
