"""Kernels from the user's side: shapes, errors, threads, NaN, memory, the cache on disk, derivatives of roll-outs."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from spacearm.engine import Kernel, Mechanics, NonFiniteWarning, cache
from spacearm.engine.machine import host
from spacearm.engine.sensitivity import TangentRollout
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.mechanics.motion import LoadFrame, motion_program, motion_tangent
from spacearm.simulate import rollout
from support import ROOT
from support.random_robots import random_robot, random_state

ROBOT = random_robot(31, 5)
MECHANICS = Mechanics(ROBOT)
RNG = np.random.default_rng(31)


def samples(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 5)), rng.normal(size=(count, 11)), rng.normal(size=(count, 11))


def test_any_leading_shape_and_broadcasting() -> None:
    q, v, f = samples(12)
    flat = MECHANICS.forward_dynamics(q, v, f)
    shaped = MECHANICS.forward_dynamics(q.reshape(3, 4, 5), v.reshape(3, 4, 11), f.reshape(3, 4, 11))
    assert np.array_equal(shaped, flat.reshape(3, 4, 11))
    grid = MECHANICS.forward_dynamics(q[:3, None], v[None, :4], f[0])
    assert grid.shape == (3, 4, 11)
    assert np.array_equal(grid[2, 3], MECHANICS.forward_dynamics(q[2], v[3], f[0]))


def test_results_go_into_given_arrays() -> None:
    x = ca.SX.sym("x", 2)
    kernel = Kernel(Program("f", {"x": x}, {"y": 2 * x, "z": x @ x.T}))
    given = RNG.normal(size=(5, 2))
    y = np.full((5, 2), np.nan)
    found = kernel({"x": given}, out={"y": y})
    assert found["y"] is y
    np.testing.assert_array_equal(y, 2 * given)
    assert found["z"].shape == (5, 2, 2)
    for out, message in (
        ({"w": y}, "no output 'w'"),
        ({"y": np.empty((4, 2))}, r"out\['y'\] is float64 \(4, 2\)"),
        ({"y": np.empty((5, 2), np.float32)}, "is float32"),
        ({"y": [[0.0, 0.0]] * 5}, "is list"),
        ({"y": np.empty((2, 5)).T}, "not contiguous"),
        ({"y": given}, "memory of an input"),
        ({"y": (room := np.empty(25))[:10].reshape(5, 2), "z": room[5:].reshape(5, 2, 2)}, "memory of another result"),
    ):
        before = given.copy()
        with pytest.raises(InputError, match=message):
            kernel({"x": given}, out=out)  # type: ignore[arg-type]
        np.testing.assert_array_equal(given, before)


def test_an_empty_batch_gives_an_empty_result() -> None:
    assert MECHANICS.mass_matrix(np.empty((0, 5))).shape == (0, 11, 11)


def test_results_are_the_same_for_any_number_of_threads_and_any_position(monkeypatch: pytest.MonkeyPatch) -> None:
    q, v, f = samples(1003)
    kernel = MECHANICS.kernel("forward_dynamics", loads=())
    given = {"joints": q, "velocity": v, "force": f, "inertia": ROBOT.inertia_parameters}
    monkeypatch.setattr("spacearm.engine._batch.CHUNK", 8 * host().lanes)
    one = kernel(given, threads=1)["acceleration"]
    assert np.array_equal(kernel(given, threads=2)["acceleration"], one)
    order = np.random.default_rng(1).permutation(1003)
    moved = kernel({**given, "joints": q[order], "velocity": v[order], "force": f[order]})["acceleration"]
    assert np.array_equal(moved, one[order])
    for k in (0, 501, 1002):
        assert np.array_equal(MECHANICS.forward_dynamics(q[k], v[k], f[k]), one[k])


def test_a_nan_stays_in_its_sample_and_is_reported() -> None:
    q, v, f = samples(100)
    clean = MECHANICS.forward_dynamics(q, v, f)
    q[41, 2] = np.nan
    with pytest.warns(NonFiniteWarning, match=r"1 of 100 samples .* first at index \(41,\)"):
        spoilt = MECHANICS.forward_dynamics(q, v, f)
    assert np.isnan(spoilt[41]).any()
    assert np.array_equal(np.delete(spoilt, 41, 0), np.delete(clean, 41, 0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"joints": np.zeros(4)}, r"'joints' has shape \(4,\).*expected \(\.\.\., 5\)"),
        ({"joints": np.zeros((2, 5)), "inertia": np.ones((3, 6, 10))}, "do not fit together"),
        ({"joints": ["a"] * 5}, "not an array of numbers"),
        ({"joints": np.full(5, 1j)}, "not an array of numbers"),
        ({"joints": 1.0}, r"shape \(\)"),
        ({}, "'joints' is missing"),
        ({"joints": np.zeros(5), "joint": np.zeros(5)}, "no input 'joint'.*did you mean 'joints'"),
    ],
)
def test_wrong_arrays_are_named(arguments: dict[str, object], message: str) -> None:
    kernel = MECHANICS.kernel("mass_matrix")
    with pytest.raises(InputError, match=message):
        kernel({"inertia": ROBOT.inertia_parameters, **arguments})  # type: ignore[dict-item]


def test_wrong_names_are_told() -> None:
    with pytest.raises(InputError, match=r"no program 'mass_matrx'.*mass_matrix"):
        MECHANICS.kernel("mass_matrx")
    with pytest.raises(InputError, match="no output"):
        MECHANICS.derivative("mass_matrix", "matrix", "joints")
    with pytest.raises(InputError, match="unit quaternion"):
        MECHANICS.jacobian("frame1", np.zeros(5), base=[0, 0, 0, 2, 0, 0, 0])
    with pytest.raises(InputError, match=r"does not use 'wrench'.*'loads'"):
        MECHANICS.forward_dynamics(np.zeros(5), np.zeros(11), np.zeros(11), wrench=np.ones(6))
    with pytest.raises(InputError, match="other than 0 and 1"):
        MECHANICS.hybrid_dynamics(np.zeros(5), np.zeros(11), np.zeros(11), np.zeros(11), np.full(11, 0.5))
    with pytest.raises(InputError, match="no option 'frame'"):
        MECHANICS.kernel("mass_matrix", frame="frame1")
    with pytest.raises(InputError, match="needs the option 'frame'"):
        MECHANICS.kernel("jacobian")
    with pytest.raises(InputError, match="expected a point, 'origin' or 'com'"):
        MECHANICS.momentum(np.zeros(5), np.zeros(11), about="centre")


def test_a_million_states_need_no_more_memory_than_their_arrays() -> None:
    """Peak memory of a process, measured apart, grows by inputs and outputs and less than 64 MB beside them."""
    script = """
import resource, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from spacearm.simulate import rollout
from support.random_robots import random_robot
from spacearm.engine import Mechanics
robot = random_robot(31, 5)
mechanics = Mechanics(robot)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
mechanics.forward_dynamics(np.zeros((64, 5)), np.zeros((64, 11)), np.zeros(11))
rng = np.random.default_rng(0)
joints, velocity = rng.normal(size=(1_000_000, 5)), rng.normal(size=(1_000_000, 11))
before = peak()
result = mechanics.forward_dynamics(joints, velocity, np.zeros(11))
assert np.isfinite(result).all(where=True)
print(peak() - before - result.nbytes)
"""
    here = str(ROOT / "tests")
    done = subprocess.run([sys.executable, "-c", script, here], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 2**20


def test_object_code_is_kept_and_a_damaged_entry_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_reported", set())
    monkeypatch.setenv("SPACEARM_CACHE", str(tmp_path / "kernels"))
    x = ca.SX.sym("x", 2)
    program = Program("f", {"x": x}, {"y": x[0] * x[1] + 0.123456789})
    first = Kernel(program)
    assert not first.code(1).from_cache
    assert Kernel(program).code(1).from_cache
    (entry,) = cache.entries()
    entry.write_bytes(entry.read_bytes()[:-7])
    again = Kernel(program)
    with pytest.warns(UserWarning, match="is damaged"):
        assert not again.code(1).from_cache
    assert again({"x": [2.0, 3.0]})["y"][0] == first({"x": [2.0, 3.0]})["y"][0]
    assert cache.size() > 0
    gone = cache.clear()
    assert (gone["kernel"], gone["piece"]) == (1, 0)  # loops are kept there too, where this process has compiled any
    assert cache.entries() == []


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("SPACEARM_CACHE", str(blocked / "kernels"))
    x = ca.SX.sym("x", 1)
    assert Kernel(Program("f", {"x": x}, {"y": x + 1.25}))({"x": [1.0]})["y"][0] == 2.25


def test_forty_joints_compile_and_run() -> None:
    robot = random_robot(40, 40, geometry="aligned")
    mechanics = Mechanics(robot)
    q, v, f = RNG.normal(size=(3, 40)), RNG.normal(size=(3, 46)), RNG.normal(size=(3, 46))
    a = mechanics.forward_dynamics(q, v, f)
    mass, bias = mechanics.mass_matrix(q), mechanics.bias(q, v)
    residual = np.einsum("bij,bj->bi", mass, a) + bias - f
    assert np.abs(residual).max() < 1e-9 * np.abs(bias).max()


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_motion_tangent_equals_plain_differentiation(seed: int, free: bool) -> None:
    robot = random_robot(50 + seed, 4, geometry="mixed", rotors=0.4, passive=True)
    wrt: dict[str, list[int] | None] = dict.fromkeys(("state", "drive", "damping", "stiffness", "wrench", "rest"))
    wrt |= {"inertia": [3, 14, 27], "force": [7], "rotor": None}
    loads = (LoadFrame(robot.frames[0].name), LoadFrame(robot.frames[-1].name, "frame"))
    program = motion_program(robot, loads, ledger=False)
    plain, implicit = (
        program.tangent(wrt, ["rate"]),
        motion_tangent(robot, wrt, loads, free=free).inline_derived_inputs(),
    )
    assert list(plain.inputs) == list(implicit.inputs)
    rng = np.random.default_rng(seed)
    point = {name: rng.normal(size=symbol.numel()) for name, symbol in plain.inputs.items()}
    point["state"] = random_state(robot, rng).flat
    point["inertia"] = robot.inertia_parameters.ravel()
    point["rotor"] = np.array([joint.rotor.inertia for joint in robot.joints if joint.rotor is not None])
    point["mode"] = (rng.random(robot.dofs) < (0.0 if free else 0.3)).astype(float)
    row = np.concatenate([point[name] for name in plain.inputs])
    expected, got = np.array(plain.function(row)).ravel(), np.array(implicit.function(row)).ravel()
    assert np.abs(got - expected).max() < 1e-11 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("directions", [3, 11, 19])
def test_rollout_sensitivities_equal_differences(directions: int) -> None:
    robot = random_robot(61, 3)
    entries = [0, *range(30, 39), *range(10, 19)][:directions]
    tangent = TangentRollout(robot, {"inertia": entries})
    state = random_state(robot, np.random.default_rng(5)).flat
    inertia = robot.inertia_parameters.ravel()
    found = tangent({"state": state, "inertia": inertia}, 0.01, 40)
    plain = rollout(robot, state, 0.01, 40, every=1)
    np.testing.assert_allclose(found.states, plain, rtol=0, atol=1e-13 * np.abs(plain).max())
    assert found.derivatives.shape == (40, state.size, directions)
    some = tangent({"state": state, "inertia": inertia}, 0.01, 40, every=15)
    np.testing.assert_array_equal(some.states, found.states[[14, 29]])
    np.testing.assert_array_equal(some.derivatives, found.derivatives[[14, 29]])
    for every in (0, 41, 1.5):
        with pytest.raises(InputError, match="every"):
            tangent({"state": state, "inertia": inertia}, 0.01, 40, every=every)  # type: ignore[arg-type]
    for k in range(0, directions, 4):
        size = 1e-5 * max(1.0, abs(inertia[entries[k]]))
        ends = []
        for sign in (1, -1):
            moved = inertia.copy()
            moved[entries[k]] += sign * size
            ends.append(tangent({"state": state, "inertia": moved}, 0.01, 40).states)
        difference = (ends[0] - ends[1]) / (2 * size)
        scale = np.abs(found.derivatives[:, :, k]).max()
        assert np.abs(difference - found.derivatives[:, :, k]).max() < 1e-6 * max(scale, 1e-3)


def test_wrong_inputs_of_sensitivities_are_told() -> None:
    robot = random_robot(62, 2)
    tangent = TangentRollout(robot, {"inertia": [0]}, zero=["damping"])
    state, inertia = random_state(robot, np.random.default_rng(6)).flat, robot.inertia_parameters
    for inputs, message in (
        ({"sate": state}, "no input 'sate'"),
        ({"state": state[:-1]}, r"'state' has shape \(16,\).*expected 17"),
        ({"state": 2 * state}, "not of unit length"),
        ({"inertia": inertia}, "'state' is missing"),
        ({"state": state}, "'inertia' is missing"),
        ({"state": state, "inertia": inertia.T}, r"'inertia' has shape \(10, 3\)"),
        ({"state": state, "force": "much"}, "force is not an array of numbers"),
        ({"state": state, "mode": np.full(8, 0.7)}, "other than 0 and 1"),
        ({"state": state, "damping": np.ones(8)}, "was declared to be zero"),
    ):
        with pytest.raises(InputError, match=message):
            tangent(inputs, 0.01, 2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"directions": np.zeros((2, 4))}, r"directions has shape \(2, 4\).*expected shape \(directions, 3\)"),
        ({"directions": np.zeros((2, 3, 1))}, "directions has shape"),
        ({"directions": "all"}, "directions is not an array of numbers"),
        ({"start_tangent": np.zeros((17, 3))}, r"has shape \(17, 3\).*expected shape \(3, 17\)"),
        ({"start_tangent": np.zeros((1, 51))}, r"has shape \(1, 51\)"),
        ({"start_tangent": np.zeros((2, 17))}, r"has shape \(2, 17\)"),
        ({"step": np.nan}, "step is nan"),
        ({"step": [0.1, 0.2]}, "step"),
        ({"count": -1}, "count is -1"),
        ({"count": 2.5}, "count is 2.5"),
    ],
)
def test_wrong_directions_and_steps_are_told(wrong: dict[str, object], message: str) -> None:
    robot = random_robot(62, 2)
    tangent = TangentRollout(robot, {"inertia": [0, 1, 2]})
    state = random_state(robot, np.random.default_rng(6)).flat
    with pytest.raises(InputError, match=message):
        tangent(**{"inputs": {"state": state, "inertia": robot.inertia_parameters}, "step": 0.01, "count": 2, **wrong})


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        ({"inertai": None}, "no input 'inertai'.*did you mean 'inertia'"),
        ({"inertia": [30]}, "0 to 29"),
        ({"inertia": [-1]}, "0 to 29"),
        ({"inertia": [4, 4]}, "different"),
        ({"inertia": [0.5]}, "whole"),
        ({"inertia": [True, False]}, "whole"),
    ],
)
def test_wrong_parameters_of_sensitivities_are_told(wrt: dict[str, list[int] | None], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TangentRollout(random_robot(62, 2), wrt)


@pytest.mark.parametrize("directions", [0, 1, 9, 17])
def test_any_number_of_directions_is_a_sum_of_single_ones(directions: int) -> None:
    robot = random_robot(62, 2, rotors=0.5)
    load = LoadFrame(robot.frames[0].name)
    tangent = TangentRollout(robot, {"inertia": None, "wrench": None}, (load,))
    rng = np.random.default_rng(directions)
    given = {
        "state": random_state(robot, rng).flat,
        "inertia": robot.inertia_parameters,
        "rotor": robot.rotor_inertias,
        "wrench": rng.normal(size=(1, 6)),
        "mode": [0, 0, 1, 0, 0, 0, 0, 1],
        "drive": rng.normal(size=8),
    }
    single = tangent(given, 0.02, 8)
    along = rng.normal(size=(directions, 36))
    found = tangent(given, 0.02, 8, directions=along)
    assert np.array_equal(found.states, single.states)
    expected = single.derivatives @ along.T
    assert found.derivatives.shape == expected.shape == (8, 17, directions)
    assert np.abs(found.derivatives - expected).max(initial=0) < 1e-13 * np.abs(single.derivatives).max()


def test_a_kernel_in_place_is_refused_where_it_would_spoil_memory() -> None:
    a, s = ca.SX.sym("a", 2), ca.SX.sym("s", 1)
    inputs = {"a": a, "s": s}
    for outputs in ({"z": a}, {"s": a}, {"a": s}):
        with pytest.raises(InputError, match="cannot be written over an input of its size"):
            Kernel(Program("f", inputs, outputs), in_place=True)
    kernel = Kernel(Program("f", inputs, {"a": a + s}), uniform=("s",), in_place=True)
    with pytest.raises(InputError, match="writes over its inputs"):
        kernel({"a": np.ones((3, 2)), "s": [1.0]})


def test_an_input_that_is_uniform_by_the_kernel_may_not_vary() -> None:
    a, s = ca.SX.sym("a", 1), ca.SX.sym("s", 1)
    kernel = Kernel(Program("f", {"a": a, "s": s}, {"y": a * s}), uniform=("s",))
    np.testing.assert_array_equal(kernel({"a": [[1.0], [2.0]], "s": [3.0]})["y"], [[3.0], [6.0]])
    with pytest.raises(InputError, match="'s' must be the same for all samples"):
        kernel({"a": [[1.0], [2.0]], "s": [[3.0], [4.0]]})


def test_sensitivities_to_the_start_are_those_of_the_motion() -> None:
    robot = random_robot(62, 2)
    tangent = TangentRollout(robot, {"inertia": [0]})
    state = random_state(robot, np.random.default_rng(6)).flat
    given = {"state": state, "inertia": robot.inertia_parameters}
    shift = np.zeros((2, state.size))
    shift[0, 8] = 1.0  # second joint's position
    shift[1] = 0.3  # all at once, the quaternion's length too
    found = tangent(given, 0.02, 25, directions=np.zeros((2, 1)), start_tangent=shift)
    for k in range(2):
        ends = [tangent({**given, "state": state + sign * 1e-6 * shift[k]}, 0.02, 25).states for sign in (1, -1)]
        np.testing.assert_allclose(found.derivatives[:, :, k], (ends[0] - ends[1]) / 2e-6, atol=2e-7)
    along = np.einsum("ti,tik->tk", found.states[:, 3:7], found.derivatives[:, 3:7])
    assert np.abs(along).max() < 1e-15  # every state's quaternion has length one, whatever varies


def test_a_roll_out_that_leaves_all_bounds_is_reported() -> None:
    robot = random_robot(62, 2)
    tangent = TangentRollout(robot, {"inertia": [0]})
    state = random_state(robot, np.random.default_rng(6)).flat
    given = {"state": state, "inertia": robot.inertia_parameters}
    with pytest.warns(NonFiniteWarning, match="not finite after step 1$"):
        tangent({**given, "force": np.full(8, np.nan)}, 0.02, 3)
    with pytest.warns(NonFiniteWarning, match="after step 1$"):
        found = tangent(given, 0.02, 3, directions=[[1.0], [np.nan]])
    assert np.isfinite(found.states).all()
    assert np.isfinite(found.derivatives[:, :, 0]).all()


def test_a_body_without_joints_keeps_its_batch_shape() -> None:
    robot = random_robot(63, 1)
    alone = Mechanics(robot.replace(bodies=robot.bodies[:1], joints=(), frames=(), configurations={}))
    assert alone.mass_matrix(np.zeros((3, 0))).shape == (3, 6, 6)
    assert alone.forward_dynamics(np.zeros(0), np.ones((4, 6)), np.ones(6)).shape == (4, 6)
    own = alone.robot.inertia_parameters
    assert alone.mass_matrix(np.zeros(0), inertia=own).shape == (6, 6)
    assert alone.mass_matrix(np.zeros(0), inertia=np.repeat(own, 4, axis=0)).shape == (4, 6, 6)


def test_without_a_home_nothing_is_kept_and_all_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SPACEARM_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    x = ca.SX.sym("x", 1)
    assert Kernel(Program("f", {"x": x}, {"y": x + 2.5}))({"x": [1.0]})["y"][0] == 3.5
    assert cache.entries() == []


def test_threads_that_first_call_a_kernel_together_share_its_code() -> None:
    """Code that a second thread made anew would be unloaded while the first one runs it."""
    x = ca.SX.sym("x", 3)
    for k in range(20):
        kernel = Kernel(Program("f", {"x": x}, {"y": ca.sin(x) * (k + 0.5)}))
        given = np.random.default_rng(k).normal(size=(20_000, 3))
        start = threading.Barrier(8)

        def call(kernel: Kernel = kernel, given: np.ndarray = given, start: threading.Barrier = start) -> np.ndarray:
            start.wait()
            return kernel({"x": given}, threads=1)["y"]

        with ThreadPoolExecutor(8) as pool:
            found = [future.result() for future in [pool.submit(call) for _ in range(8)]]
        assert len(kernel._code) == 1
        for each in found:
            np.testing.assert_allclose(each, np.sin(given) * (k + 0.5), atol=1e-14)
