"""Learners' environments: Gymnasium's own checker, physics of ``simulate``, the same episodes alone and among many."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
import pytest

from spacearm.connect.tasks import BONUS, DAMPING, PENALTY, SERVO, TIME, CaptureTumbling, Detumble, Draws, Reach, Task
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


def draws(seed: int, count: int = 1) -> Draws:
    return Draws([np.random.default_rng([seed, k]) for k in range(count)])


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


@pytest.mark.parametrize("task", [Reach, Detumble])
def test_the_motion_is_that_of_simulate(task: type[Task]) -> None:
    """The servo's forces at its ticks, held in between, in a run of the same masses."""
    own, drawn = task(dispersion=0.1), draws(3)
    states, _ = own.draw(drawn)
    inertia = own.draw_inertia(drawn)
    actions = np.random.default_rng(3).uniform(-1.0, 1.0, (1, own.servo.size))
    expected, hold = states[0], own.servo.hold * own.step
    for _ in range(own.ticks):
        (force,) = own.forces(actions, expected[None])
        forces = {name: value for name, value in zip(own.robot.dof_names, force.tolist(), strict=True) if value}
        phase = Phase(hold, forces=forces, friction=False, limits="ignore")
        overrides = {"inertia": inertia.reshape(-1, 10)}
        expected = simulate(
            own.robot, State.from_vector(expected), phase, method=RK4(own.step), overrides=overrides, ledger=False
        ).states[-1]
    found = own.simulate(states, inertia).step(actions)[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert np.linalg.norm(found[own.layout.velocity] - states[0, own.layout.velocity]) > 1e-3


@pytest.mark.parametrize("action", ["hand_velocity", "joint_rates"])
def test_the_servo_is_its_formula(action: str) -> None:
    """In NumPy, by matrices of the mechanics: effective inertia, generalised Jacobian, limits."""
    task, rng = Reach(action=action), np.random.default_rng(8)  # type: ignore[arg-type]
    states, _ = task.draw(draws(8, 40))
    fast = np.logspace(-2.0, 1.0, 40)[:, None]  # some beyond the limits of effort
    states[:, task.layout.velocity] += fast * rng.standard_normal((40, task.robot.dofs))
    actions = rng.uniform(-1.0, 1.0, (40, task.servo.size))
    found, mechanics, arm = task.forces(actions, states), task.mechanics, [6 + i for i in task.arm]
    rest, cut = np.setdiff1d(np.arange(task.robot.dofs), arm), 0
    for state, asked, force in zip(states, actions, found, strict=True):
        joints, base = state[task.layout.joints], state[:7]
        if action == "joint_rates":
            wanted = asked * task.rate
        else:
            turn = mechanics.body_poses(joints, base=base)[1][0]
            jacobian = mechanics.generalized_jacobian("hand", joints, base=base)[:3, task.arm]
            square = jacobian @ jacobian.T + DAMPING * np.eye(3)
            wanted = jacobian.T @ np.linalg.solve(square, turn @ (task.speed * asked))
            wanted = wanted / max(1.0, np.max(np.abs(wanted) / task.rate))
        matrix = mechanics.mass_matrix(joints)
        across = np.linalg.solve(matrix[rest][:, rest], matrix[rest][:, arm])
        effective = matrix[arm][:, arm] - matrix[arm][:, rest] @ across
        torques = effective @ (wanted - state[task.layout.velocity][arm]) / SERVO
        cut += int(np.any(np.abs(torques) > task.effort))
        np.testing.assert_allclose(force[arm], np.clip(torques, -task.effort, task.effort), rtol=1e-9, atol=1e-9)
        assert not force[rest].any()
    assert 0 < cut < 40


def test_a_target_keeps_its_angular_momentum_and_tumbles() -> None:
    task = CaptureTumbling(tumble=0.3)
    _, extra = task.draw(draws(1))
    moments, rows = np.array([14.0, 18.0, 11.0]), [extra]
    target = task.simulate_extra(extra)
    for _ in range(40):
        rows.append(target.step(np.zeros((1, 0))).copy())
    from scipy.spatial.transform import Rotation

    momentum = [Rotation.from_quat(row[0, [4, 5, 6, 3]]).apply(moments * row[0, 10:13]) for row in rows]
    np.testing.assert_allclose(momentum, np.tile(momentum[0], (41, 1)), rtol=0, atol=1e-9)
    assert np.ptp([row[0, 10:13] for row in rows], axis=0).max() > 0.01
    # The grapple point's velocity is the slope of its place.
    symbol = ca.SX.sym("extra", 13)
    motion = ca.Function("motion", [symbol], list(task.target_motion(symbol)))
    points = np.array([motion(row[0])[0].full().ravel() for row in rows])
    velocity = motion(rows[20][0])[1].full().ravel()
    np.testing.assert_allclose((points[21] - points[19]) / (2 * task.period), velocity, rtol=0, atol=2e-3)


def test_the_hand_moves_as_it_is_asked() -> None:
    task = Reach(dispersion=0.0)
    states, _ = task.draw(draws(2))
    states[:, task.layout.velocity] = 0.0
    simulator, asked = task.simulate(states, task.draw_inertia(draws(2))), np.array([[0.3, -0.2, 0.1]])
    for _ in range(6):
        states = simulator.step(asked)
    turn = task.mechanics.body_poses(states[:, task.layout.joints], base=states[:, :7])[1][0, 0]
    np.testing.assert_allclose(turn.T @ task.hand_motion(states)[1][0], task.speed * asked[0], rtol=0, atol=2e-3)


def test_what_is_seen_and_judged_is_the_hands_motion_beside_the_targets() -> None:
    task = Reach()
    states, extra = task.draw(draws(4, 20))
    states[:, task.layout.velocity] += 0.05 * np.random.default_rng(0).standard_normal((20, task.robot.dofs))
    found, (hand, moving) = task.look(states, extra), task.hand_motion(states)
    turn = task.mechanics.body_poses(states[:, task.layout.joints], base=states[:, :7])[1][:, 0]
    away, slip = extra[:, :3] - hand, -moving
    seen = np.hstack([np.einsum("bji,bj->bi", turn, each) for each in (away, 10.0 * slip, 10.0 * moving)])
    np.testing.assert_allclose(found["relative"], seen, rtol=0, atol=1e-12)
    shares = np.array([np.linalg.norm(away, axis=1) / task.within, np.linalg.norm(slip, axis=1) / task.rest])
    np.testing.assert_allclose(found["share"].T, shares, rtol=1e-12)
    joints = states[:, task.layout.joints][:, task.arm]
    beyond = np.maximum(task.range[:, 0] - joints, joints - task.range[:, 1]).max(axis=1)
    np.testing.assert_allclose(found["beyond"], np.maximum(beyond, -1.0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_rewards_add_up_to_progress_less_the_price(name: str) -> None:
    """Over an episode: potential at its start less that at its end; success is where no margin is negative."""
    lanes, rng = many(name, 4, duration=4.0), np.random.default_rng(6)
    task, samples = lanes.unwrapped.task, lanes.unwrapped._samples
    lanes.reset(seed=3)

    def potential() -> Any:
        return np.log1p(task.look(samples.states, samples.extra)["share"]).sum(axis=1)

    before, total, paid = potential(), np.zeros(4), np.zeros(4)
    for _ in range(8):
        actions = rng.uniform(-1.0, 1.0, lanes.action_space.shape).astype(np.float32)
        _, reward, ended, late, info = lanes.step(actions)
        margins = np.array([value for key, value in info.items() if key.startswith("margin_")])
        assert np.array_equal(info["success"], np.all(margins >= 0.0, axis=0))
        assert not ended.any()
        total += reward
        used = 0.5 * (actions.astype(float) + 1.0) if name == "Detumble" else actions.astype(float) ** 2
        paid += task.period * (TIME + task.effort_price * used.mean(axis=1))
    assert late.all()
    np.testing.assert_allclose(total, before - potential() - paid, rtol=0, atol=1e-9)


def test_it_does_not_pay_to_end_an_episode_by_a_failure() -> None:
    """An arm driven out of its range earns less than one that stays where it is until time is over."""

    def earn(action: float) -> tuple[float, bool]:
        environment = single("Reach", action="joint_rates").unwrapped
        environment.reset(seed=2)
        total, ended, late = 0.0, False, False
        while not ended | late:
            _, reward, ended, late, _ = environment.step(np.full(7, action))
            total += reward
        return total, ended

    (idle, stays), (driven, fails) = earn(0.0), earn(1.0)
    assert (stays, fails) == (False, True)
    assert driven < idle - 0.5 * PENALTY
    assert idle > -BONUS


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


def test_the_ppo_example_runs(tmp_path: Path) -> None:
    """Two updates of few samples run and leave a page and a curve."""
    pytest.importorskip("torch", reason="PYTORCH IS NOT INSTALLED: examples/learn_capture_ppo.py was not run")
    file, page, curve = ROOT / "examples" / "learn_capture_ppo.py", tmp_path / "page.html", tmp_path / "curve.json"
    command = [sys.executable, str(file), "--environments", "8", "--updates", "2", "--steps", "4", "--unseen", "8"]
    done = subprocess.run(
        [*command, "--page", str(page), "--report", str(curve)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "before: 0 % of 8 captured"
    assert page.read_text(encoding="utf-8").count("capture") > 1
    assert [row["steps"] for row in json.loads(curve.read_text(encoding="utf-8"))] == [0, 64]


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
