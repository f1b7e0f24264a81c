"""``device="gpu"`` gives the processor's bits: on a GPU (``make gpu``), and without one by kernels compiled as C."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from spacearm.capture import LoadCase, SettlingCriterion
from spacearm.capture.evaluate import Evaluator
from spacearm.control import Encoder, Gyro, computed_torque, joint_pid
from spacearm.engine import Mechanics, NonFiniteWarning
from spacearm.engine.sensitivity import TangentRollout
from spacearm.errors import EngineError, InputError
from spacearm.impact import (
    FloatingSystem,
    ImpactPoint,
    collide,
    effective_mass,
    extended_inertia_tensor,
    free_body,
    mass_ellipsoid,
    virtual_mass,
)
from spacearm.impact._mass_map import map_cases
from spacearm.mechanics.plant import Plant
from spacearm.model import Robot, catalogue, load
from spacearm.model.layout import Layout
from spacearm.papers.zhang2020.data import single_hit, six_hit
from spacearm.simulate import Load, Servo, State, VectorSimulator, close_state, rollout, rollout_extremes, spline
from spacearm.typing import Array
from support import ROOT
from support.cuda_as_c import as_gpu
from support.linkages import four_bar, solve_four_bar
from support.random_robots import random_robot, random_state


@pytest.fixture(scope="module", autouse=True, params=["C", pytest.param("GPU", marks=pytest.mark.gpu)])
def where(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with as_gpu(tmp_path_factory.mktemp("kernels")) if request.param == "C" else nullcontext():
        yield request.param


def batch(robot: Robot, count: int) -> Array:
    rng = np.random.default_rng(0)
    return np.array([random_state(robot, rng).flat for _ in range(count)])


@pytest.fixture(params=["aligned", "skew"])
def robot(request: pytest.FixtureRequest) -> Robot:
    return random_robot(4, 4, geometry=request.param, passive=True)


def test_steps_of_many_samples_have_the_processor_s_bits(robot: Robot) -> None:
    starts, rng = batch(robot, 20), np.random.default_rng(2)
    commands, mask = rng.normal(size=(3, 20, robot.n)), np.arange(20) < 5
    own = robot.inertia_parameters.ravel() * np.linspace(0.9, 1.1, 20)[:, None]
    given: dict[str, Any] = {"period": 0.01, "steps": 2, "ignore_friction": True, "overrides": {"inertia": own}}
    here, there = (VectorSimulator(robot, starts, device=device, **given) for device in ("cpu", "gpu"))
    for k, command in enumerate(commands):
        np.testing.assert_array_equal(np.array(there.step(command).tolist()), here.step(command))
        if k == 1:
            there.reset(mask, overrides={"inertia": own[:5] * 1.1})
            here.reset(mask, overrides={"inertia": own[:5] * 1.1})


def test_a_servo_in_the_kernel_has_the_processor_s_bits(robot: Robot) -> None:
    def build(plant: Plant, wanted: Any) -> Any:
        return plant.mass_matrix[6:, 6:] @ (wanted - plant.rates)

    starts, rng = batch(robot, 20), np.random.default_rng(2)
    given: dict[str, Any] = {"period": 0.02, "steps": 4, "ignore_friction": True, "servo": Servo(build, robot.n, 2)}
    here, there = (VectorSimulator(robot, starts, device=device, **given) for device in ("cpu", "gpu"))
    for command in rng.normal(size=(3, 20, robot.n)):
        np.testing.assert_array_equal(np.array(there.step(command).tolist()), here.step(command))


def test_bits_are_those_of_the_processor(robot: Robot) -> None:
    starts, rng = batch(robot, 100), np.random.default_rng(1)
    for forces in (None, rng.normal(size=robot.dofs), rng.normal(size=(100, 25, robot.dofs))):
        given: dict[str, Any] = {"forces": forces, "every": 5, "ignore_friction": True}
        here, there = (rollout(robot, starts, 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
        np.testing.assert_array_equal(there, here)


def test_loops_and_flexible_parts_have_the_processor_s_bits() -> None:
    """A linkage on an arm, and arrays with a sloshing tank: loops, modes and slosh are part of the same program."""
    linkage = four_bar("axis", 1)
    coupler, rocker = (angle.real for angle in solve_four_bar(complex(0.7)))
    closed = close_state(linkage, State.at_rest(linkage, [0.3, 0.7, coupler - 0.7, rocker]))
    satellite = load(ROOT / "examples" / "robots" / "satellite.toml")
    for flexible, start in ((linkage, closed), (satellite, State.at_rest(satellite))):
        forces = 0.1 * np.random.default_rng(3).normal(size=(20, 15, flexible.dofs))
        starts = np.tile(start.vector, (20, 1))
        given: dict[str, Any] = {"forces": forces, "every": 5, "ignore_friction": True}
        here, there = (rollout(flexible, starts, 0.01, 15, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
        np.testing.assert_array_equal(there, here)
        assert np.all(np.isfinite(np.asarray(here)))


def test_parameters_of_each_sample(robot: Robot) -> None:
    starts, rng = batch(robot, 40), np.random.default_rng(2)
    inertia = robot.inertia_parameters * rng.uniform(0.5, 2.0, size=(40, 1, 1))
    given: dict[str, Any] = {"overrides": {"inertia": inertia}, "ignore_friction": True}
    here, there = (rollout(robot, starts, 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
    np.testing.assert_array_equal(there, here)


def test_a_sample_does_not_depend_on_its_place(robot: Robot) -> None:
    starts = batch(robot, 200)
    every = rollout(robot, starts, 0.01, 10, device="gpu", ignore_friction=True)
    alone = rollout(robot, starts[131], 0.01, 10, device="gpu", ignore_friction=True)
    np.testing.assert_array_equal(every[131], alone)


def test_single_precision(robot: Robot) -> None:
    starts = batch(robot, 100)
    exact = rollout(robot, starts, 0.001, 25, ignore_friction=True)
    single = rollout(robot, starts, 0.001, 25, device="gpu", precision="float32", ignore_friction=True)
    assert single.dtype == np.float32
    assert 1e-9 < np.abs(single - exact).max() / np.abs(exact).max() < 1e-4


class Foreign:
    """Another library's array on the GPU, which speaks DLPack alone."""

    def __init__(self, array: Any, where: str) -> None:
        self.array, self.device = array, (1 if where == "C" else 2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        # A stand-in for CuPy lies in the processor's memory, and says otherwise when it is asked whether it is there.
        return (2, 0) if sys._getframe(1).f_code.co_name == "is_device_array" else self.device


def test_arrays_of_other_libraries(robot: Robot, where: str) -> None:
    """By DLPack in, and out again without a copy."""
    import cupy as cp

    starts, force = batch(robot, 10), np.ones((10, robot.dofs))
    there = [Foreign(cp.asarray(value), where) for value in (starts, force)]
    found = rollout(robot, there[0], 0.01, 5, forces=there[1], device="gpu", ignore_friction=True)
    assert hasattr(found, "__dlpack__")
    here = rollout(robot, starts, 0.01, 5, forces=force, ignore_friction=True)
    np.testing.assert_array_equal(cp.asnumpy(found), here)
    q = starts[:, Layout(robot.n).joints]
    matrix = Mechanics(robot).mass_matrix(Foreign(cp.asarray(q), where))
    np.testing.assert_array_equal(cp.asnumpy(matrix), Mechanics(robot).mass_matrix(q))


def test_arrays_on_the_gpu_stay_there(robot: Robot) -> None:
    import cupy as cp

    starts = batch(robot, 10)
    found = rollout(robot, cp.asarray(starts), 0.01, 5, device="gpu", ignore_friction=True)
    assert isinstance(found, cp.ndarray)
    here = rollout(robot, starts, 0.01, 5, ignore_friction=True)
    np.testing.assert_array_equal(cp.asnumpy(found), here)


def test_a_sample_that_is_not_finite_touches_no_other(robot: Robot) -> None:
    starts = batch(robot, 10)
    good = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    starts[3, 7] = np.nan
    with pytest.warns(NonFiniteWarning, match=r"1 of 10 samples .* the first at index 3"):
        found = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    assert not np.isfinite(found[3]).all()
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(good, 3, axis=0))


def test_a_law_in_the_loop_has_the_bits_of_the_processor(robot: Robot) -> None:
    rng = np.random.default_rng(3)
    paths = [spline(np.linspace(0.0, 0.2, 4), rng.normal(size=4)) for _ in range(robot.n)]
    knots = [spline(np.linspace(0.0, 0.2, 5), rng.normal(size=5)) for _ in range(robot.n)]  # at steps
    for law in (
        joint_pid(paths, 30.0, 5.0, integral=40.0, windup=0.5, period=0.02),
        computed_torque(paths, 100.0, 20.0, period=0.01),
        computed_torque(knots, 100.0, 20.0, period=None),
        joint_pid(knots, 30.0, 5.0, integral=40.0, period=None),
        joint_pid([0.1] * robot.n, 30.0, 5.0, integral=40.0, period=None),
    ):
        given: dict[str, Any] = {"law": law, "every": 5, "ignore_friction": True}
        here, there = (rollout(robot, batch(robot, 50), 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
        np.testing.assert_array_equal(there, here)


def test_batches_of_mechanics_have_the_bits_of_the_processor(robot: Robot) -> None:
    import cupy as cp

    states, at = batch(robot, 200), Layout(robot.n)
    q, v = states[:, at.joints], states[:, at.velocity]
    force, frame = np.ones((200, robot.dofs)), robot.frames[0].name
    here, there = Mechanics(robot), Mechanics(robot, device="gpu")
    inertia = robot.inertia_parameters * np.linspace(0.5, 2.0, 200)[:, None, None]
    for call in (
        lambda m, on: m.forward_dynamics(on(q), on(v), on(force)),
        lambda m, on: m.forward_dynamics(on(q), on(v), on(force), inertia=on(inertia)),
        lambda m, on: m.inverse_dynamics(on(q), on(v), on(v)),
        lambda m, on: m.mass_matrix(on(q)),
        lambda m, on: m.jacobian(frame, on(q), base=on(states[:, :7])),
    ):
        expected = call(here, np.asarray)
        np.testing.assert_array_equal(call(there, np.asarray), expected)
        found = call(here, cp.asarray)
        assert isinstance(found, cp.ndarray)
        np.testing.assert_array_equal(cp.asnumpy(found), expected)


def off(found: Any, exact: Array) -> float:
    """Largest difference, relative to the largest number of its sample."""
    axes = tuple(range(1, exact.ndim))
    return float((np.abs(found - exact).max(axis=axes) / np.abs(exact).max(axis=axes)).max())


def test_batches_in_single_precision(robot: Robot) -> None:
    """As docs/gpu.md has it: each result to 3e-6 of its largest number, what solves equations to 1e-4."""
    import cupy as cp

    states, at, frame = batch(robot, 2000), Layout(robot.n), robot.frames[0].name
    q, v = states[:, at.joints], states[:, at.velocity]
    double, single = Mechanics(robot), Mechanics(robot, device="gpu", precision="float32")
    for bound, call in (
        (3e-6, lambda m, on: m.mass_matrix(on(q))),
        (3e-6, lambda m, on: m.inverse_dynamics(on(q), on(v), on(v))),
        (3e-6, lambda m, on: m.jacobian(frame, on(q), base=on(states[:, :7]))),
        (1e-4, lambda m, on: m.forward_dynamics(on(q), on(v), on(np.ones_like(v)))),
    ):
        found, stays = call(single, np.asarray), call(single, lambda x: cp.asarray(x, dtype=np.float32))
        assert (found.dtype, stays.dtype) == (np.float32, np.float32)
        assert isinstance(stays, cp.ndarray)
        np.testing.assert_array_equal(cp.asnumpy(stays), found)
        assert 1e-8 < off(found, call(double, np.asarray)) < bound
    tensor = extended_inertia_tensor(robot, frame, q, device="gpu", precision="float32")
    assert 1e-8 < off(tensor, extended_inertia_tensor(robot, frame, q)) < 1e-4
    one = single.mass_matrix(q[0])
    np.testing.assert_array_equal(one, double.mass_matrix(q[0]).astype(np.float32))
    with pytest.raises(InputError, match="float32 needs device='gpu'"):
        Mechanics(robot, precision="float32").mass_matrix(q)


def test_a_batch_that_is_not_finite_is_told(robot: Robot) -> None:
    q = np.zeros((6, robot.n))
    q[4, 0] = np.nan
    with pytest.warns(NonFiniteWarning, match=r"1 of 6 samples .* the first at index \(4,\)"):
        found = Mechanics(robot, device="gpu").mass_matrix(q)
    np.testing.assert_array_equal(found[:4], Mechanics(robot).mass_matrix(q[:4]))


def test_tensors_and_virtual_masses(robot: Robot, where: str) -> None:
    import cupy as cp

    frame, q = robot.frames[0].name, batch(robot, 100)[:, Layout(robot.n).joints]
    np.testing.assert_array_equal(
        extended_inertia_tensor(robot, frame, q, device="gpu"), extended_inertia_tensor(robot, frame, q)
    )
    directions = np.random.default_rng(1).normal(size=(100, 3))
    point = ImpactPoint(robot, frame)
    here = virtual_mass(point.acceleration(directions, q), directions)
    there = virtual_mass(point.acceleration(cp.asarray(directions), cp.asarray(q)), cp.asarray(directions))
    # The length of a direction and the arc tangent are the libraries' own.
    np.testing.assert_allclose(cp.asnumpy(there.absolute), here.absolute, rtol=1e-13)
    np.testing.assert_allclose(cp.asnumpy(there.angle), here.angle, rtol=0, atol=1e-12)
    normal, tensor = [0.3, -0.2, 1.0], point.tensor(q)
    signed = cp.asnumpy(there.signed_angle(normal))
    np.testing.assert_allclose(signed, here.signed_angle(normal), rtol=0, atol=1e-12)
    for given in (None, normal):
        found, expected = mass_ellipsoid(cp.asarray(tensor), given), mass_ellipsoid(tensor, given)
        assert where == "C" or isinstance(found.masses, cp.ndarray)
        np.testing.assert_allclose(cp.asnumpy(found.masses), expected.masses, rtol=1e-11)
        along = np.abs(np.einsum("bik,bik->bk", cp.asnumpy(found.axes), expected.axes))
        np.testing.assert_allclose(along, 1.0, rtol=1e-9)


def test_effective_masses(robot: Robot) -> None:
    frame, q = robot.frames[0].name, batch(robot, 50)[:, Layout(robot.n).joints]
    ball = free_body(3.0, np.eye(3))
    other = FloatingSystem(ball, ball.bodies[0].name)
    given: dict[str, Any] = {"kind": "normal", "normal": [0.0, 0.6, 0.8]}
    here, there = (
        effective_mass(FloatingSystem(robot, frame, q, device=device), other, **given)  # type: ignore[arg-type]
        for device in ("cpu", "gpu")
    )
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("given", [{}, {"resistance": 0.3}, {"held": True, "locked": ["joint2"]}])
def test_effective_masses_of_arrays_on_the_gpu(robot: Robot, where: str, given: dict[str, Any]) -> None:
    """Theirs stay there, by DLPack in and out; what the other system has as NumPy is taken there."""
    import cupy as cp

    states, at = batch(robot, 20), Layout(robot.n)
    parts = [states[:, at.joints], states[:, :7], states[:, at.velocity]]
    frame, ball = robot.frames[0].name, free_body(3.0, np.eye(3))
    other = FloatingSystem(ball, ball.bodies[0].name)
    here = FloatingSystem(robot, frame, *parts, **given)
    there = FloatingSystem(robot, frame, *(Foreign(cp.asarray(part), where) for part in parts), **given)
    for options in ({"kind": "normal", "normal": [0.0, 0.6, 0.8]}, {"kind": "grasp"}):
        found, expected = (effective_mass(system, other, **options) for system in (there, here))  # type: ignore[arg-type]
        assert isinstance(found, cp.ndarray)
        np.testing.assert_allclose(cp.asnumpy(found), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    for value in (lambda s: s.twist, lambda s: s.kinetic_energy(), lambda s: s.momentum(), lambda s: s.lever):
        assert isinstance(value(there), cp.ndarray)
        np.testing.assert_allclose(cp.asnumpy(value(there)), value(here), rtol=1e-10, atol=1e-12)
    with pytest.raises(InputError, match="arrays are on the GPU"):
        collide(there, other, normal=[0.0, 0.0, 1.0])
    with pytest.raises(InputError, match=r"joints: is float64 \(20, 7\).*expected float64"):
        FloatingSystem(robot, frame, cp.asarray(parts[1]))


def test_a_direction_on_the_gpu_at_one_configuration(robot: Robot) -> None:
    import cupy as cp

    directions = np.random.default_rng(1).normal(size=(30, 3))
    point = ImpactPoint(robot, robot.frames[0].name)
    found = point.acceleration(cp.asarray(directions))
    assert isinstance(found, cp.ndarray)
    np.testing.assert_allclose(cp.asnumpy(found), point.acceleration(directions), rtol=1e-12)


def test_modes_on_the_gpu(robot: Robot) -> None:
    import cupy as cp

    states, at, rng = batch(robot, 20), Layout(robot.n), np.random.default_rng(2)
    given = [states[:, at.joints], states[:, at.velocity], *rng.normal(size=(2, 20, robot.dofs))]
    given.append(rng.integers(0, 2, size=(20, robot.dofs)).astype(float))
    expected, found = (Mechanics(robot).hybrid_dynamics(*map(on, given)) for on in (np.asarray, cp.asarray))
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(cp.asnumpy(one), two)


def test_noise_of_sensors(robot: Robot, where: str) -> None:
    """Each sample draws its own numbers. Logarithm and cosine are the libraries' own, and differ in the last place."""
    law = joint_pid(
        [0.0] * robot.n, 30.0, 5.0, period=0.02,
        sensors=[Encoder(noise=1e-3, spread=1e-2), Gyro(noise=1e-3, delay=0.02)], seed=5, draw=7,
    )  # fmt: skip
    given: dict[str, Any] = {"law": law, "every": 5, "ignore_friction": True}
    starts = np.tile(batch(robot, 1), (30, 1))
    here, there = (rollout(robot, starts, 0.01, 25, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
    assert np.abs(here[0] - here[1]).max() > 1e-6
    np.testing.assert_allclose(there, here, rtol=0, atol=1e-12 * np.abs(here).max() * (where == "GPU"))


def test_a_batch_larger_than_the_memory_is_split(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy as cp

    from spacearm.engine import device

    starts = batch(robot, 100)
    q = starts[:, Layout(robot.n).joints]
    law = joint_pid([0.0] * robot.n, 30.0, 5.0, period=0.01, sensors=[Encoder(noise=1e-3)])
    given: dict[str, Any] = {"device": "gpu", "law": law, "ignore_friction": True}
    whole = rollout(robot, starts, 0.01, 5, **given)
    monkeypatch.setattr(device, "_SMALL", 0)
    monkeypatch.setattr(device, "_SHARE", 1e-7)
    split = []
    asked = cp.cuda.runtime.memGetInfo
    monkeypatch.setattr(cp.cuda.runtime, "memGetInfo", lambda: split.append(1) or asked())
    np.testing.assert_array_equal(rollout(robot, starts, 0.01, 5, **given), whole)
    np.testing.assert_array_equal(Mechanics(robot, device="gpu").mass_matrix(q), Mechanics(robot).mass_matrix(q))
    assert len(split) == 2


def test_memory_that_is_not_there_after_all(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU is short of memory though it said otherwise: the batch is halved until it fits."""
    import cupy as cp

    starts, most, tried = batch(robot, 40), 15, []
    empty = cp.empty

    def scarce(shape: Any, *args: Any, **options: Any) -> Any:
        size = shape[0] if isinstance(shape, tuple) else shape
        tried.append(size)
        if size > most:
            raise cp.cuda.memory.OutOfMemoryError(0, 0, 0)
        return empty(shape, *args, **options)

    whole = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    monkeypatch.setattr(cp, "empty", scarce)
    found = rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    np.testing.assert_array_equal(found, whole)
    assert {40, 20, 10} <= {*tried}
    most = 0
    with pytest.raises(EngineError, match="a single sample does not fit"):
        rollout(robot, starts, 0.01, 5, device="gpu", ignore_friction=True)
    with pytest.raises(EngineError, match=r"results of .* GiB do not fit into memory.*pass NumPy arrays"):
        rollout(robot, cp.asarray(starts), 0.01, 5, device="gpu", ignore_friction=True)


def test_derivatives_of_rollouts() -> None:
    """A thread for each sample and direction; parameters of each sample."""
    import cupy as cp

    robot = random_robot(4, 2, geometry="skew", passive=True)
    tangent = TangentRollout(robot, {"inertia": [0, 11], "damping": [7]}, zero=["mode", "drive", "friction"])
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {"inertia": robot.inertia_parameters.ravel(), "rotor": robot.rotor_inertias}
    moved = rng.normal(size=(3, len(batch(robot, 1)[0])))
    for given in (
        {"state": batch(robot, 1)[0]},
        {"state": batch(robot, 3), "damping": rng.uniform(size=(3, robot.dofs))},
    ):
        for start in (None, moved):
            here, there = (
                tangent(inputs | given, 0.01, 6, start_tangent=start, every=2, device=device)  # type: ignore[arg-type]
                for device in ("cpu", "gpu")
            )
            np.testing.assert_array_equal(there.states, here.states)
            np.testing.assert_array_equal(there.derivatives, here.derivatives)
            stays = tangent(
                inputs | {name: cp.asarray(v) for name, v in given.items()}, 0.01, 6, start_tangent=start, every=2
            )
            assert isinstance(stays.derivatives, cp.ndarray)
            np.testing.assert_array_equal(cp.asnumpy(stays.derivatives), here.derivatives)
    one = tangent(inputs | {"state": batch(robot, 3)[1]}, 0.01, 6)
    many = tangent(inputs | {"state": batch(robot, 3)}, 0.01, 6)
    np.testing.assert_array_equal(many.derivatives[1], one.derivatives)


@pytest.mark.parametrize("law", ["constant", "balance", "skyhook"])
def test_designs_of_soft_joints(law: Any, where: str) -> None:
    """An observer, loads that are polynomials of time in each case, dampers that switch; arrays there stay there."""
    import cupy as cp

    robot = catalogue.load("zhang2020")
    late = Load.pulse("hand", (5.0, -3.0, 8.0), (1.0, 2.0, -1.0), 0.3, 0.4, "half-sine", axes="world")
    cases = [LoadCase((six_hit(),)), LoadCase((late, single_hit("mz")))]
    rng = np.random.default_rng(0)
    given: dict[str, Any] = {"duration": 2.0, "step": 0.02, "law": law, "settling": SettlingCriterion(0.1)}
    here, there = (Evaluator(robot, cases, device=device, **given) for device in ("cpu", "gpu"))  # type: ignore[arg-type]
    stiffness, damping = rng.uniform(10.0, 80.0, (9, here.axes.size)), rng.uniform(0.5, 5.0, (9, here.axes.size))
    expected, found = here(stiffness, damping), there(stiffness, damping)
    assert expected.peaks.min() > 0.0
    stays = here(Foreign(cp.asarray(stiffness), where), cp.asarray(damping))  # type: ignore[arg-type]
    for name in ("peaks", "travel", "settling"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert isinstance(getattr(stays, name), cp.ndarray)
        np.testing.assert_array_equal(cp.asnumpy(getattr(stays, name)), getattr(expected, name))
    with pytest.raises(InputError, match="damping"):
        here(cp.asarray(stiffness), cp.asarray(damping[:, 1:]))


def test_observers_of_rollouts() -> None:
    """Extremes over all steps are those of the recorded states; of a plant with the parameters of each sample."""
    robot = random_robot(4, 3, geometry="skew", passive=True)
    starts, frame = batch(robot, 20), robot.frames[0].name
    inertia = robot.inertia_parameters * np.linspace(0.5, 2.0, 20)[:, None, None]

    def observe(plant: Plant) -> dict[str, Any]:
        return {"joints": plant.joints, "hand": plant.pose(frame).origin, "momentum": plant.momentum}

    for law in (None, joint_pid([0.0] * robot.n, 3.0, 0.5, period=0.02)):
        given: dict[str, Any] = {"law": law, "overrides": {"inertia": inertia}, "ignore_friction": True, "every": 1}
        here, there = (
            rollout_extremes(robot, starts, 0.01, 10, observe, device=device, **given) for device in ("cpu", "gpu")
        )
        every = np.concatenate([starts[:, None], here.states], axis=1)
        q = every[..., Layout(robot.n).joints]
        np.testing.assert_array_equal(here.least["joints"], q.min(axis=1))
        np.testing.assert_array_equal(here.most["joints"], q.max(axis=1))
        hand = Mechanics(robot).frame_pose(frame, q, base=every[..., :7])[0]
        np.testing.assert_allclose(here.most["hand"], hand.max(axis=1), rtol=0, atol=1e-12)
        for name in ("joints", "hand", "momentum"):
            np.testing.assert_array_equal(there.least[name], here.least[name])
            np.testing.assert_array_equal(there.most[name], here.most[name])
        np.testing.assert_array_equal(here.states, rollout(robot, starts, 0.01, 10, **given))
    one = rollout_extremes(robot, starts[3], 0.01, 10, observe, ignore_friction=True, device="gpu")
    assert one.most["hand"].shape == (3,)
    with pytest.raises(InputError, match="no option 'evry'"):
        rollout_extremes(robot, starts, 0.01, 10, observe, evry=2)
    with pytest.raises(InputError, match="nothing is observed"):
        rollout_extremes(robot, starts, 0.01, 10, lambda plant: {})


def test_virtual_mass_maps_of_the_impact_study() -> None:
    """The maps of a scenario's cases, with a point whose batches run there."""
    robot = random_robot(3, 5, geometry="skew")
    frame = robot.bodies[-1].name
    systems = {"free": FloatingSystem(robot, frame, np.linspace(-0.4, 0.8, robot.n))}
    for plane in (None, [0.0, 0.0, 1.0]):
        points = ImpactPoint(robot, frame), ImpactPoint(robot, frame, device="gpu")
        here, there = (map_cases(point, systems, plane, 50)["free"] for point in points)
        np.testing.assert_array_equal(there.tensor, here.tensor)
        np.testing.assert_array_equal(there.map.absolute, here.map.absolute)
