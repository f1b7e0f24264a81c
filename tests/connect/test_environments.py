"""Learners' environments: Gymnasium's own checker, physics of ``simulate``, the same episodes alone and among many."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacearm.connect.tasks import CaptureTumbling, Detumble, Reach, Task
from spacearm.errors import InputError
from spacearm.model import catalogue
from spacearm.simulate import RK4, Phase, State, simulate
from support import ROOT
from support.cuda_as_c import as_gpu

gymnasium = pytest.importorskip("gymnasium", reason="GYMNASIUM IS NOT INSTALLED: environments were not tested")
NAMES = ("Reach", "CaptureTumbling", "Detumble")


@pytest.fixture(scope="module", autouse=True)
def registered() -> None:
    import spacearm.connect.environments  # noqa: F401


def single(name: str, **options: object):  # type: ignore[no-untyped-def]
    return gymnasium.make(f"spacearm/{name}-v0", **options)


def many(name: str, count: int, **options: object):  # type: ignore[no-untyped-def]
    return gymnasium.make_vec(f"spacearm/{name}-v0", num_envs=count, vectorization_mode="vector_entry_point", **options)


@pytest.mark.parametrize("name", NAMES)
def test_gymnasiums_checker_finds_no_fault(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*value is -?infinity.*")  # readings have no bounds
        check_env(single(name).unwrapped)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_has_the_same_episode_alone_and_among_many(name: str) -> None:
    """Observations, rewards and ends to the last bit; the second episode too."""
    options = {"duration": 2.0}
    vector, rng = many(name, 3, **options), np.random.default_rng(0)
    seen, _ = vector.reset(seed=7)
    alone = [single(name, disable_env_checker=True, **options).unwrapped for _ in range(3)]
    first = [each.reset(seed=7 + k)[0] for k, each in enumerate(alone)]
    assert np.array_equal(seen, np.array(first))
    over = [False] * 3
    for _ in range(7):  # four steps are an episode
        actions = rng.uniform(-1.0, 1.0, (3, *alone[0].action_space.shape)).astype(np.float32)
        seen, reward, ended, late, info = vector.step(actions)
        for k, each in enumerate(alone):
            if over[k]:
                assert np.array_equal(seen[k], each.reset()[0])
                assert (reward[k], ended[k], late[k]) == (0.0, False, False)
                over[k] = False
                continue
            own, worth, own_end, own_late, margins = each.step(actions[k])
            assert np.array_equal(seen[k], own)
            assert (reward[k], ended[k], late[k]) == (worth, own_end, own_late)
            assert all(info[what][k] == margin for what, margin in margins.items())
            over[k] = own_end or own_late
    assert np.array_equal(vector.unwrapped.states, [each.state for each in alone])


def test_the_motion_is_that_of_simulate() -> None:
    """A detumbling step with an arm that is held: the same forces in a run of the same masses."""
    task = Detumble(dispersion=0.1)
    rng = np.random.default_rng(3)
    state, _ = task.draw(rng)
    inertia = task.draw_inertia(rng)
    actions = rng.uniform(-1.0, 1.0, (1, task.action_size))
    expected = state
    for _ in range(5):
        wanted, base = task.command(actions, expected[None])
        forces = dict(zip(task.robot.dof_names[:6], base[0].tolist(), strict=True))
        forces |= dict(
            zip([task.robot.joint_names[i] for i in task.arm], task._servo(wanted, expected[None])[0], strict=True)
        )
        phase = Phase(0.1, forces=forces, friction=False, limits="ignore")
        overrides = {"inertia": inertia.reshape(-1, 10)}
        expected = simulate(
            task.robot, State.from_vector(expected), phase, method=RK4(task.step), overrides=overrides, ledger=False
        ).states[-1]
    simulator = task.simulate(state[None], inertia[None])
    task.advance(actions, simulator)
    found = simulator.states[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.linalg.norm(found[task.layout.angular_velocity] - state[task.layout.angular_velocity]) > 1e-3


def test_a_target_keeps_its_angular_momentum_and_tumbles() -> None:
    task = CaptureTumbling(tumble=0.3)
    _, extra = task.draw(np.random.default_rng(1))
    moments, rows = np.array([14.0, 18.0, 11.0]), [extra[None]]
    target = task.simulate_extra(extra[None])
    for _ in range(40):
        rows.append(target.step(np.zeros((1, 0))).copy())
    from scipy.spatial.transform import Rotation

    momentum = [Rotation.from_quat(row[0, [4, 5, 6, 3]]).apply(moments * row[0, 10:13]) for row in rows]
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (41, 1)), rtol=0, atol=1e-9)
    assert np.ptp([row[0, 10:13] for row in rows], axis=0).max() > 0.01
    # The grapple point's velocity is the slope of its place.
    points = np.array([task.target_motion(row)[0][0] for row in rows])
    velocity = task.target_motion(rows[20])[1][0]
    np.testing.assert_allclose((points[21] - points[19]) / (2 * task.period), velocity, rtol=0, atol=2e-3)


def test_the_hand_moves_as_it_is_asked() -> None:
    task = Reach(dispersion=0.0)
    state, _ = task.draw(np.random.default_rng(2))
    state[task.layout.velocity] = 0.0
    inertia = task.draw_inertia(np.random.default_rng(2))[None]
    simulator, asked = task.simulate(state[None], inertia), np.array([[0.3, -0.2, 0.1]])
    for _ in range(6):
        task.advance(asked, simulator)
    states = simulator.states
    turn = task.mechanics.body_poses(states[:, task.layout.joints], base=states[:, :7])[1][0, 0]
    np.testing.assert_allclose(turn.T @ task.hand_motion(states)[1][0], task.speed * asked[0], rtol=0, atol=2e-3)


@pytest.mark.parametrize("task", [Reach, CaptureTumbling, Detumble])
def test_margins_and_rewards_say_the_same(task: type[Task]) -> None:
    """Success is where no margin is below zero, and a sample nearer to all limits is worth more."""
    own = task()
    rng = np.random.default_rng(4)
    drawn = [own.draw(rng) for _ in range(50)]
    states, extra = np.array([each[0] for each in drawn]), np.array([each[1] for each in drawn])
    judged = own.judge(states, extra, np.zeros(50))
    margins = np.array(list(judged.margins.values()))
    assert np.array_equal(judged.success, np.all(margins >= 0.0, axis=0) & ~judged.failure)
    np.testing.assert_allclose(judged.reward[~judged.success], -np.sum(np.log(2.0 - margins), axis=0)[~judged.success])
    states[:, own.layout.joints.start + own.arm[0]] = 4.0
    assert own.judge(states, extra, np.zeros(50)).failure.all()


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(InputError, match=r"too long for the spring or damper of 'swing'.*freeze"):
        Reach(catalogue.load("servicer"))
    with pytest.raises(InputError, match="the base has no thrusters"):
        Detumble(catalogue.load("yoshida1992"))
    with pytest.raises(InputError, match="divided by an even number"):
        Reach(step=0.3)
    with pytest.raises(InputError, match="did you mean"):
        single("Reach", task="Reech")


def test_the_example_runs_and_what_it_looks_for_is_there(tmp_path: Path) -> None:
    """Two generations run and leave a page; a policy of unit gains, which is within its reach, captures."""
    file, page = ROOT / "examples" / "learn_capture.py", tmp_path / "page.html"
    command = [sys.executable, str(file), "--generations", "2", "--episodes", "1", "--page", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, *generations, last = done.stdout.splitlines()
    assert first.startswith("before: reward -")
    assert first.endswith(" 0 % captured")
    assert [line.split(":")[0] for line in generations] == ["generation 1", "generation 2"]
    assert last.startswith("after: reward ")
    assert page.read_text(encoding="utf-8").count("capture") > 1
    spec = importlib.util.spec_from_file_location("learn_capture", file)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    lanes = many("CaptureTumbling", 16, period=1.0, within=0.05, rest=0.03)
    _, success, _ = example.fly(lanes, np.tile(np.hstack([np.eye(3)] * 3), (16, 1, 1)), 5)
    assert success.mean() > 0.8


@pytest.fixture(scope="module", params=["C", pytest.param("GPU", marks=pytest.mark.gpu)])
def device_module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """CuPy, or a stand-in whose kernels are compiled as C."""
    if request.param == "GPU":
        import cupy

        yield cupy
    else:
        with as_gpu(tmp_path_factory.mktemp("kernels")) as cp:
            yield cp


@pytest.mark.parametrize("name", NAMES)
def test_episodes_on_a_gpu_are_those_of_the_processor(name: str, device_module: Any) -> None:
    """States, rewards and ends: without noise in what decides them they do not know where they are computed."""
    options = {"duration": 2.0}
    here, there = (many(name, 3, device=device, **options) for device in ("cpu", "gpu"))
    seen, rng = [each.reset(seed=7)[0] for each in (here, there)], np.random.default_rng(0)
    assert hasattr(seen[1], "__cuda_array_interface__")
    assert seen[1].shape == seen[0].shape
    assert seen[1].dtype == np.float32
    for k in range(7):  # four steps are an episode
        actions = rng.uniform(-1.0, 1.0, here.action_space.shape).astype(np.float32)
        found = here.step(actions), there.step(device_module.asarray(actions) if k % 2 else actions)
        for own, other in zip(found[0][1:4], found[1][1:4], strict=True):
            assert hasattr(other, "__cuda_array_interface__")
            np.testing.assert_allclose(np.array(other.tolist()), own, rtol=1e-9, atol=1e-9)
        states = [np.array(each.unwrapped.states.tolist()) for each in (here, there)]
        np.testing.assert_allclose(states[1], states[0], rtol=0, atol=1e-10)
        # Noise of some 1e-4 and 1e-3 (camera) is all that differs.
        np.testing.assert_allclose(np.array(found[1][0].tolist()), found[0][0], rtol=0, atol=0.02)
    assert not np.array_equal(np.array(found[1][0].tolist()), found[0][0])
