"""Experiments, sensors, records: what is read, how errors enter, files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.identify.inertia import (
    InertiaProblem,
    MotionRecord,
    base_parameters,
    command_phases,
    prepare_record,
    read_record,
    run_experiment,
    start_state,
    write_record,
)
from spacearm.identify.inertia.design import Experiment
from spacearm.identify.inertia.equations import Equations, inverse_factor
from spacearm.identify.inertia.prepare_record import firing_intervals
from spacearm.identify.inertia.regression import fit_total
from spacearm.identify.inertia.validate import attitude_difference
from spacearm.measure import Column, make_sensors
from spacearm.measure.channels import CHANNELS
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Signal, pulse, spline
from support.experiments import experiment, one_joint, read_experiment
from support.identify_robots import ROBOTS

ROBOT = ROBOTS["two-arms"]
NODES = np.linspace(0.0, 12.0, 5), np.array([0.0, 0.4, -0.3, 0.5, 0.0])
ALL = tuple(CHANNELS)
MOUNT = np.array([0.1, -0.2, 0.3])
FIRINGS = [("t0", 0.0, 4.0, 1.0), ("t3", 4.0, 8.0, 0.5), ("t7", 6.0, 12.0, 1.0)]
START = {"base_velocity": (0.01, -0.02, 0.03), "base_angular_velocity": (0.02, 0.01, -0.03)}


def free(firings: Sequence[tuple[str, float, float, float]] = ()) -> Experiment:
    return experiment(ROBOT, 12.0, nodes={"joint1": NODES, "joint4": NODES}, firings=firings, **START)


PUSH, FREE = free(FIRINGS), free()
#: What is commanded in PUSH.
COMMANDS = {name: spline(*NODES) for name in ("joint1", "joint4")} | {
    name: pulse(level, begin, end - begin) for name, begin, end, level in FIRINGS
}


def read(done: Experiment, interval: float = 0.5, channels: tuple[str, ...] = ALL) -> MotionRecord:
    return read_experiment(ROBOT, done, make_sensors(channels, mount=MOUNT, period=interval))


def test_readings_obey_momentum_and_dynamics() -> None:
    record = read(PUSH, 0.1)
    equations = Equations(ROBOT, ("momentum", "dynamics"))
    linear = equations.linear(record)
    gap = linear.matrix @ ROBOT.inertia_parameters.ravel() - linear.known
    start = gap[0, :6]
    assert np.abs(gap[:, :6] - start).max() < 1e-6  # nodes of the paths lie inside firings
    assert np.abs(gap[:, 6:]).max() < 1e-11
    origin, quaternion, _ = record.pose()
    base = np.concatenate([origin, quaternion], axis=1)
    momentum = Mechanics(ROBOT).momentum(record.channel("joint_position"), record.velocity(), base=base)
    assert np.allclose(momentum[0], start, atol=1e-12)
    assert np.abs(momentum - momentum[0]).max() > 1.0  # thrusters did push


def test_sensors_at_the_mount_differ_from_those_at_the_origin() -> None:
    near, far = read(FREE), read_experiment(ROBOT, FREE, make_sensors(ALL, period=0.5, noise={}))
    rotation = rotation_matrices(far.channel("attitude"))
    assert np.allclose(near.channel("position"), far.channel("position") + rotation @ MOUNT, atol=1e-12)
    times = near.times
    fine = read(FREE, 0.004)
    slope = np.gradient(fine.channel("velocity"), fine.times, axis=0)
    measured = np.einsum("tij,tj->ti", rotation_matrices(fine.channel("attitude")), fine.channel("acceleration"))
    smooth = np.abs(fine.times[:, None] - NODES[0]).min(axis=1) > 0.01  # the jerk jumps at nodes
    assert np.allclose(slope[smooth], measured[smooth], atol=3e-6)
    assert times.size == 25


@pytest.mark.parametrize("kinds", [("momentum",), ("dynamics",), ("momentum", "dynamics")])
def test_slopes_by_differences(kinds: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    record = read(FREE, 1.0)
    _, sigma = record.deviations()
    record = record.add_errors(rng.normal(size=(record.times.size, sigma.size)) * 1e-3)
    equations = Equations(ROBOT, kinds)  # type: ignore[arg-type]
    inertia = ROBOT.inertia_parameters.ravel()
    slopes = equations.slopes(record, inertia)
    step = 1e-6
    for k in range(sigma.size):
        change = np.zeros((record.times.size, sigma.size))
        change[:, k] = step

        def gap(sign: float, change: np.ndarray = change) -> np.ndarray:
            linear = equations.linear(record.add_errors(sign * change))
            return linear.matrix @ inertia - linear.known

        assert np.allclose(slopes[..., k], (gap(1.0) - gap(-1.0)) / (2 * step), atol=1e-7), k


def test_impulse_slopes_by_differences() -> None:
    record = read(PUSH, 1.0)
    _, sigma = record.deviations()
    equations = Equations(ROBOT)
    slopes, parts = equations.impulse_slopes(record)
    rng = np.random.default_rng(1)
    errors = rng.normal(size=(record.times.size, sigma.size)) * 1e-6
    moved = (record.add_errors(errors).impulse() - record.add_errors(-errors).impulse()) / 2
    span = np.concatenate([index for index, _ in parts])
    weights = np.concatenate([weight for _, weight in parts], axis=1)
    expected = weights @ np.einsum("smy,sy->sm", slopes, errors[span])
    assert np.allclose(moved, expected, atol=1e-12)


def test_switches_between_samples_are_integrated() -> None:
    record = read(free([("t0", 0.0, 3.3, 1.0), ("t3", 3.3, 7.7, 1.0)]), 0.2)
    linear = Equations(ROBOT).linear(record)
    gap = linear.matrix @ ROBOT.inertia_parameters.ravel() - linear.known
    assert np.abs(gap - gap[0]).max() < 2e-5


def test_a_sample_at_a_switch_belongs_to_the_phase_that_begins() -> None:
    """Sums of durations are rounded: 0.1 + 0.2 s is later than the sample at 0.3 s."""
    phases = command_phases(ROBOT, {"t0": pulse(1.0, 0.1, 0.2), "t3": pulse(1.0, 0.3, 0.4)}, 1.0)
    sensors = make_sensors((*ALL,), mount=MOUNT, period=0.1, noise={})
    start = start_state(ROBOT)
    record = read_experiment(ROBOT, (start, phases), sensors)
    linear = Equations(ROBOT, ("dynamics",)).linear(record)
    assert np.abs(linear.matrix @ ROBOT.inertia_parameters.ravel() - linear.known).max() < 1e-11
    fires = [sorted(load.source for load in phase.loads) for phase in phases]
    assert fires == [[], ["t0"], ["t3"], []]
    for (low, high), names in zip(pairwise([0.0, 0.1, 0.3, 0.7, 1.0]), fires, strict=True):
        inside = (record.times > low - 1e-9) & (record.times < high - 1e-9)
        for name in ("t0", "t3"):
            assert np.any(record.thrusters[name][inside], axis=1).tolist() == [name in names] * int(inside.sum())


def test_a_level_that_is_cut_into_phases_is_one_firing() -> None:
    commands = {"t0": pulse(1.0, 0.0, 10.0), "t3": pulse(0.5, 4.0, 2.0)}
    record = read_experiment(ROBOT, (start_state(ROBOT), command_phases(ROBOT, commands, 12.0)), make_sensors())
    assert record.edges == (0.0, 4.0, 6.0, 10.0, 12.0)
    level = Signal(np.array([0.0, 1.0, 2.0]), np.array([[0.25, 0.25]]))
    assert firing_intervals("t0", level, 2.0) == [(0.0, 2.0, 0.25)]


def test_small_factors() -> None:
    rng = np.random.default_rng(2)
    half = rng.normal(size=(4, 5, 6, 9))
    matrices = half @ np.swapaxes(half, -1, -2)
    found = inverse_factor(matrices)
    assert np.allclose(found @ matrices @ np.swapaxes(found, -1, -2), np.eye(6), atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        inverse_factor(-matrices)


def test_unknown_initial_momentum_is_found() -> None:
    experiments = [PUSH, *(one_joint(ROBOT, name, NODES) for name in ROBOT.joint_names)]
    sensors = make_sensors(mount=MOUNT, period=0.25)
    records = [read_experiment(ROBOT, each, sensors) for each in experiments]
    fit = fit_total(InertiaProblem(ROBOT, records))
    true = Equations(ROBOT).linear(records[0])
    start = (true.matrix @ ROBOT.inertia_parameters.ravel() - true.known)[0]
    assert np.allclose(fit.momenta[:6], start, atol=1e-4)
    assert np.abs(start[3:]).max() > 0.1


def test_sensor_bias_is_estimated_when_asked() -> None:
    bias = np.array([4e-4, -3e-4, 5e-4])
    sensors = make_sensors(mount=MOUNT, period=0.25, bias={"rate": bias}, spread={"rate": 1e-3})
    experiments = [PUSH, *(one_joint(ROBOT, name, NODES) for name in ROBOT.joint_names)]
    clean = [read_experiment(ROBOT, each, sensors) for each in experiments]
    records = [record.add_noise([4, k]) for k, record in enumerate(clean)]
    truth = base_parameters(ROBOT).combine @ ROBOT.inertia_parameters.ravel()
    honest = fit_total(InertiaProblem(ROBOT, records))
    blind = fit_total(InertiaProblem(ROBOT, [replace(record, bias_sigma={}) for record in records]))
    assert np.allclose(honest.biases, bias, atol=1e-4)
    assert np.abs((honest.information.values - truth) / honest.information.std).max() < 4.5
    assert np.abs((blind.information.values - truth) / blind.information.std).max() > 10.0


def test_files_give_the_same_record(tmp_path: Path) -> None:
    sensors = make_sensors(mount=MOUNT, period=0.5)
    record = read_experiment(ROBOT, PUSH, sensors)
    path = write_record(record, ROBOT, tmp_path / "push.csv")
    again = prepare_record(ROBOT, read_record(path, ROBOT, sensors, commands=COMMANDS))
    for name in record.readings:
        assert np.allclose(again.readings[name], record.readings[name], atol=1e-15)
    assert np.allclose(again.wrench, record.wrench)
    assert np.allclose(again.impulse(), record.impulse(), atol=1e-12)


def test_files_serve_the_dynamics_equations_too(tmp_path: Path) -> None:
    sensors = make_sensors(ALL, mount=MOUNT, period=0.5)
    path = write_record(read_experiment(ROBOT, PUSH, sensors), ROBOT, tmp_path / "push.csv")
    again = prepare_record(ROBOT, read_record(path, ROBOT, sensors, commands=COMMANDS))
    linear = Equations(ROBOT, ("dynamics",)).linear(again)
    assert np.abs(linear.matrix @ ROBOT.inertia_parameters.ravel() - linear.known).max() < 1e-10


def test_files_with_units_and_angles(tmp_path: Path) -> None:
    sensors = make_sensors(("attitude", "rate"), mount=MOUNT, period=0.5)
    record = read_experiment(ROBOT, FREE, sensors)
    rotation = rotation_matrices(record.channel("attitude"))
    angles = np.stack(
        [
            np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0]),
            np.arcsin(-rotation[:, 2, 0]),
            np.arctan2(rotation[:, 2, 1], rotation[:, 2, 2]),
        ],
        axis=1,
    )
    table = np.column_stack([1e3 * record.times, np.rad2deg(angles), np.rad2deg(record.channel("rate"))])
    names = ["ms", "alpha", "beta", "gamma", "wx", "wy", "wz"]
    path = tmp_path / "angles.csv"
    path.write_text(",".join(names) + "\n" + "\n".join(",".join(f"{x:.15g}" for x in row) for row in table))
    columns = {"attitude": Column(("alpha", "beta", "gamma"), "deg"), "rate": Column(("wx", "wy", "wz"), "deg/s")}
    again = prepare_record(ROBOT, read_record(path, ROBOT, sensors, columns, time=Column("ms", "ms")))
    assert np.allclose(again.readings["rate"], record.readings["rate"], atol=1e-12)
    assert np.abs(attitude_difference(record.channel("attitude"), again.channel("attitude"))).max() < 1e-9
    with pytest.raises(InputError, match="expected a unit of rad/s"):
        read_record(path, ROBOT, sensors, {**columns, "rate": Column(("wx", "wy", "wz"), "mm")}, time="ms")
    with pytest.raises(InputError, match="'rate' has 2 columns"):
        read_record(path, ROBOT, sensors, {"rate": Column(("wx", "wy"), "deg/s")}, time="ms")
    with pytest.raises(InputError, match="did you mean 'rate'"):
        read_record(path, ROBOT, sensors, {"rates": Column(("wx",), "deg/s")}, time="ms")


def test_what_experiments_refuse() -> None:
    with pytest.raises(InputError, match="there is no joint or thruster 'joint9'"):
        command_phases(ROBOT, {"joint9": spline(*NODES)}, 12.0)
    with pytest.raises(InputError, match=r"'t0'.* is 2.*from 0 to 1"):
        command_phases(ROBOT, {"t0": pulse(2.0, 0.0, 5.0)}, 12.0)
    with pytest.raises(InputError, match="hold from break to break"):
        command_phases(ROBOT, {"t0": spline([0.0, 5.0], [0.0, 1.0])}, 12.0)
    with pytest.raises(InputError, match="two samples or more"):
        run_experiment(ROBOT, *FREE, 13.0)
    with pytest.raises(InputError, match="did you mean 'rate'"):
        make_sensors(noise={"rates": 1.0})
    with pytest.raises(InputError, match="was not measured"):
        Equations(ROBOT).linear(read(FREE, channels=("rate", "joint_position", "joint_rate")))
    with pytest.raises(InputError, match="no record"):
        InertiaProblem(ROBOT, ())
