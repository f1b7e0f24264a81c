"""Runs of whole robots: what they keep, what is driven and locked, what they refuse, samples, interruption."""

from __future__ import annotations

import _thread
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from spacearm.engine import Mechanics
from spacearm.engine.solver import EndReason
from spacearm.errors import InputError
from spacearm.model import Body, Coupling, Friction, Inertia, Joint, Pose, Robot, Rotor, Spring, Thruster, edit
from spacearm.simulate import (
    RK4,
    CertificateWarning,
    Dopri853,
    Event,
    Load,
    Phase,
    RunWarning,
    State,
    half_sine,
    pulse,
    simulate,
    spline,
    table,
    thruster_load,
    triangle,
    warm_up,
)
from spacearm.simulate.bodies import evaluate_bodies, momentum
from spacearm.simulate.run.chain import ChainSettings, PhaseChain
from spacearm.simulate.world import World
from support.arms import BASE_LOCKED, arm, slider, tumbling


def test_a_tumbling_arm_keeps_momentum_and_energy_for_100_seconds() -> None:
    robot = arm()
    run = simulate(robot, tumbling(robot), 100.0)
    assert run.reason == EndReason.FINISHED
    assert run.certificate is not None
    assert run.certificate.sound
    for name in ("linear_momentum", "angular_momentum", "energy"):
        assert run.certificate[name].value < 1e-9
    # and by the engine's own momentum, another formula on the same states
    states = run.states
    values = Mechanics(robot).momentum(states[:, 7:14], states[:, 14:], base=states[:, :7])
    np.testing.assert_allclose(values, np.broadcast_to(values[0], values.shape), atol=1e-9 * np.abs(values).max())


def test_body_sums_agree_with_the_compiled_mechanics() -> None:
    robot = arm(5)
    rng = np.random.default_rng(4)
    states = rng.normal(size=(20, 23))
    states[:, 3:7] /= np.linalg.norm(states[:, 3:7], axis=1, keepdims=True)
    sums = momentum(robot, evaluate_bodies(robot, states), states, robot.inertia_parameters, np.array([0.002]))
    mechanics = Mechanics(robot)
    expected = mechanics.momentum(states[:, 7:12], states[:, 12:], base=states[:, :7])
    np.testing.assert_allclose(np.hstack([sums.linear, sums.angular]), expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(sums.kinetic, mechanics.kinetic_energy(states[:, 7:12], states[:, 12:]), rtol=1e-12)


@pytest.mark.parametrize("method", [Dopri853(), RK4(2e-3)])
def test_loads_thrusters_dampers_springs_and_forces_balance(method: object) -> None:
    robot = arm(4, spring=Spring(3.0, 0.2), damping=0.4)
    phases = [
        Phase(
            0.7,
            loads=[
                Load.from_direction("hand", [1.0, 2.0, 0.5], half_sine(15.0, 0.1, 0.2)),
                Load("hand", (1.0, 0, 0, 0, table([0.0, 0.5], [0.0, 2.0]), 0.3), "frame"),
                thruster_load(robot, "main", pulse(1.0, 0.25, 0.31)),
            ],
            forces={"j1": triangle(3.0, 0.0, 0.5), "base_wz": 0.7, "base_vx": pulse(5.0, 0.3, 0.1)},
        ),
        Phase(0.5, forces={"j2": 1.0}),
    ]
    run = simulate(robot, tumbling(robot), phases, method=method, sample=0.05)  # type: ignore[arg-type]
    assert run.certificate is not None
    assert run.certificate.sound, str(run.certificate)
    assert run.certificate["linear_momentum"].value < 1e-9
    assert run.certificate["angular_momentum"].value < 1e-9
    assert run.times[-1] == pytest.approx(1.2)
    assert float(np.abs(run.data["energy_load"]).max()) > 0.1
    assert float(run.data["energy_damping"][-1]) > 0.0


def test_a_thruster_gives_its_impulse() -> None:
    robot = arm(1)
    run = simulate(robot, State.at_rest(robot), Phase(2.0, loads=[thruster_load(robot, "main", pulse(1.0, 0.5, 0.01))]))
    states = run.states[-1:]
    sums = momentum(robot, evaluate_bodies(robot, states), states, robot.inertia_parameters, np.zeros(0))
    np.testing.assert_allclose(sums.linear[0], 0.01 * 12.0 * np.array([0.0, 0.6, 0.8]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(sums.linear[0]), 0.12, rtol=1e-4)


def test_a_thruster_turns_by_its_lever() -> None:
    """Its short impulse gives the angular momentum lever x impulse about the origin of the base."""
    robot = arm(1)
    run = simulate(robot, State.at_rest(robot), Phase(1e-5, loads=thruster_load(robot, "main")))
    sums = momentum(robot, evaluate_bodies(robot, run.states), run.states, robot.inertia_parameters, np.zeros(0))
    impulse = 1e-5 * 12.0 * np.array([0.0, 0.6, 0.8])
    np.testing.assert_allclose(sums.angular[-1], np.cross([0.3, 0.1, -0.4], impulse), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("held", [["j0"], ["j1"], ["j0", "j2"], ["j0", "j1", "j2"]])
def test_a_robot_with_frozen_joints_moves_as_one_with_locked_joints(held: list[str]) -> None:
    """Frames, thrusters, rotors and couplings of the welded bodies included."""
    robot = arm(3)
    robot = robot.replace(
        thrusters=(*robot.thrusters, Thruster("side", "link1", [0.1, -0.2, 0.3], [0.6, 0.0, 0.8], 5.0)),
        couplings=(Coupling("belt", "j0", "j2", 3.0, 0.1, ratio=-2.0, rest=0.2),),
    )
    given = tumbling(robot)
    free = [i for i, name in enumerate(robot.joint_names) if name not in held]
    velocity = given.velocity.copy()
    velocity[[robot.dof_index(name) for name in held]] = 0.0
    start = State(given.position, given.quaternion, given.joints, velocity)
    frozen = edit.freeze(robot, {name: float(start.joints[robot.joint_index(name)]) for name in held})
    reduced = State(start.position, start.quaternion, start.joints[free], velocity[[*range(6), *(6 + i for i in free)]])

    def push(on: Robot) -> list[Load]:
        return [
            thruster_load(on, "side", pulse(1.0, 0.1, 0.3)),
            Load.from_direction("hand", [1, 2, 0], half_sine(3.0, 0.2, 0.2)),
        ]

    locked = simulate(robot, start, Phase(0.5, locked=held, loads=push(robot))).end
    welded = simulate(frozen, reduced, Phase(0.5, loads=push(frozen))).end
    assert locked is not None
    assert welded is not None
    for one, other in (
        (locked.position, welded.position),
        (locked.quaternion, welded.quaternion),
        (locked.joints[free], welded.joints),
        (locked.velocity[[*range(6), *(6 + i for i in free)]], welded.velocity),
    ):
        np.testing.assert_allclose(one, other, atol=1e-10)


def test_a_base_on_a_rail_is_held_by_reactions_that_balance() -> None:
    robot = arm(3)
    rail = [name for name in BASE_LOCKED if name != "base_vz"]
    start = State.from_velocities(robot, [0.3, -0.4, 0.5], [0.4, 0.2, -0.3])
    run = simulate(robot, start, Phase(3.0, locked=rail, accelerations={}, forces={"base_vz": pulse(20.0, 0.5, 0.5)}))
    assert run.certificate is not None
    assert run.certificate.sound, str(run.certificate)
    states = run.states
    assert np.all(states[:, :2] == 0.0)
    assert np.all(states[:, 3] == 1.0)
    assert np.all(states[:, 10:12] == 0.0)
    assert np.ptp(states[:, 2]) > 1e-2
    assert float(np.abs(run.data["reaction"].sel(dof="base_vx")).max()) > 1e-2


def test_a_flexible_joint_keeps_its_energy() -> None:
    bodies = (
        Body("base", Inertia(20.0, tensor=np.diag([2.0, 2.0, 3.0]))),
        Body("link", Inertia(3.0, [0.4, 0, 0], np.diag([0.01, 0.2, 0.2]))),
        Body("motor", Inertia.massless()),
    )
    joints = (
        Joint("link", "revolute", "base", "link", Pose(np.eye(3), [0.3, 0, 0])),
        Joint("motor", "revolute", "base", "motor", Pose(np.eye(3), [0.3, 0, 0]), rotor=Rotor(1e-4, 100.0)),
    )
    for damping in (0.0, 0.5):
        robot = Robot("flexible", bodies, joints, couplings=(Coupling("gear", "link", "motor", 200.0, damping),))
        run = simulate(robot, State.at_rest(robot, [0.1, 0.0]), Phase(5.0, forces={"motor": pulse(1.0, 1.0, 0.5)}))
        assert run.certificate is not None
        assert run.certificate.sound, str(run.certificate)
        assert run.certificate["energy"].value < 1e-9
        dissipated = float(run.data["energy_coupling"][-1])
        assert dissipated > 0.5 if damping else dissipated == 0.0


def test_a_coarse_run_says_so_loudly() -> None:
    robot = arm(3)
    with pytest.warns(CertificateWarning, match="EXCEEDS"):
        run = simulate(robot, tumbling(robot), 20.0, method=RK4(0.5))
    assert not run.sound
    assert run.certificate is not None
    assert not run.certificate["energy"].sound
    assert run.certificate.to_json()["sound"] is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert simulate(robot, tumbling(robot), 20.0, method=RK4(0.5), tolerance=1.0).sound


def test_a_driven_joint_keeps_its_path_while_the_base_floats() -> None:
    robot = arm(3)
    path = spline([0.0, 2.0, 3.0, 7.0], [0.2, 1.0, -0.5, 0.4])
    start = State.at_rest(robot, [0.1, 0.2, 0.3])
    run = simulate(
        robot, start, [Phase(8.0, driven={"j1": path}, locked=["j2"]), Phase(1.0, locked=["j1"])], sample=0.01
    )
    assert run.sound
    assert run.certificate is not None
    assert run.certificate["path"].value < 1e-12
    during = run.times < 8.0
    position = run.data["joint_position"].sel(joint="j1").values
    np.testing.assert_allclose(position[during], path(run.times[during]), atol=1e-12, rtol=0)
    rate = run.data["joint_velocity"].sel(joint="j1").values
    np.testing.assert_allclose(rate[during], path.derivative()(run.times[during]), atol=1e-12, rtol=0)
    assert np.all(rate[~during] == 0.0)
    assert np.all(run.data["joint_velocity"].sel(joint="j2").values[during] == 0.0)
    assert run.certificate["angular_momentum"].value < 1e-9  # nothing acts from outside: it stays zero
    assert float(np.abs(run.data["base_angular_velocity"]).max()) > 1e-2
    assert float(np.abs(run.data["reaction"].sel(dof="j1")).max()) > 1e-2


def test_prescribed_acceleration() -> None:
    robot = arm(2)
    run = simulate(robot, State.at_rest(robot), Phase(2.0, accelerations={"j0": 0.5, "base_wx": 0.1}))
    assert run.end is not None
    assert run.end.rates[0] == pytest.approx(1.0, abs=1e-12)
    assert run.end.velocity[3] == pytest.approx(0.2, abs=1e-12)
    assert run.sound


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (Phase(1.0, locked=["j0"]), "locked while it moves"),
        (Phase(1.0, driven={"j0": 0.3}), "its path starts at"),
        (Phase(1.0, driven={"j0": table([0.0, 0.5, 1.0], [0.0, 1.0, 0.0])}), "jumps"),
        (Phase(1.0, driven={"base_vx": 0.3}), "cannot follow a path"),
        (Phase(1.0, driven={"j9": 0.3}), "no degree of freedom"),
        (Phase(1.0, forces={"j": 0.3}), "no degree of freedom"),
        (Phase(1.0, forces={"j0": np.sin}), "is a function"),
        (Phase(1.0, forces={"j0": np.nan}), "not finite"),
        (Phase(1.0, locked=["j1"], accelerations={"j1": 1.0}), "two ways"),
        (Phase(1.0, loads=[Load("palm", (0,) * 6)]), "no frame"),
        (Phase(1.0, until=Event("j0.speed")), "no quantity"),
    ],
)
def test_phases_that_cannot_be_run(phase: Phase, message: str) -> None:
    robot = arm(2)
    start = State.from_velocities(robot, [0.1, 0.0], [0.5, 0.0])
    with pytest.raises(InputError, match=message):
        simulate(robot, start, phase)


def test_states_and_settings_that_are_refused() -> None:
    robot = arm(2)
    with pytest.raises(InputError, match="norm"):
        State([0, 0, 0], [1, 1, 0, 0], [0, 0], np.zeros(8))
    with pytest.raises(InputError, match="finite"):
        State.at_rest(robot, [0.0, np.nan])
    with pytest.raises(InputError, match="shape"):
        State.at_rest(robot, [0.0, 0.0, 0.0])
    with pytest.raises(InputError, match="joints"):
        simulate(arm(3), State.at_rest(robot), 1.0)
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(InputError, match="duration is"):
            Phase(bad)
    with pytest.raises(InputError, match="RK4"):
        RK4(0.0)
    with pytest.raises(InputError, match="rtol"):
        Dopri853(rtol=0.0)
    with pytest.raises(InputError, match="no parameter"):
        simulate(robot, State.at_rest(robot), 1.0, overrides={"mass": 1.0})
    with pytest.raises(InputError, match="sample"):
        simulate(robot, State.at_rest(robot), 1.0, sample=-1.0)
    state = tumbling(robot)
    np.testing.assert_allclose(state.base_velocity, [0.1, 0.2, -0.1], atol=1e-15)
    np.testing.assert_array_equal(State.from_vector(state.vector).vector, state.vector)


def test_a_rigid_body_without_joints() -> None:
    robot = Robot("body", (Body("base", Inertia(3.0, [0.1, 0, 0], np.diag([1.0, 2.0, 2.5]))),))
    start = State.from_velocities(robot, base_angular_velocity=[0.1, 1.0, 0.05])
    run = simulate(robot, start, 20.0)
    assert run.sound
    assert run.certificate is not None
    assert run.certificate["angular_momentum"].value < 1e-9


def test_a_run_that_breaks_down_gives_its_reason() -> None:
    robot = arm(2)
    with pytest.warns(RunWarning, match="more steps"):
        run = simulate(robot, tumbling(robot), 10.0, max_steps=5)
    assert run.reason == EndReason.TOO_MANY_STEPS
    assert not run.sound
    assert 0 < run.end_time < 10
    chain = PhaseChain(
        World.from_robots(robot), tumbling(robot).vector, 1.0, ChainSettings(Dopri853(), np.zeros(0), False)
    )
    stopped = chain.run(np.ones(1, dtype=np.uint8))
    assert stopped.reason == EndReason.INTERRUPTED
    assert stopped.time == 0.0


def test_a_step_that_is_far_too_long_blows_up_with_a_reason() -> None:
    robot = slider(spring=Spring(1e12))
    with pytest.warns((RunWarning, CertificateWarning)) as notes:
        run = simulate(robot, State.at_rest(robot, [0.1]), Phase(50.0, locked=BASE_LOCKED), method=RK4(0.1))
    assert run.reason == EndReason.NOT_FINITE
    assert {RunWarning, CertificateWarning} == {warning.category for warning in notes}
    assert run.end is not None  # the last state that was finite


def test_a_run_can_be_interrupted() -> None:
    robot = arm(7)
    simulate(robot, tumbling(robot), 1e-3)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulate(robot, tumbling(robot), 1e6, max_steps=10**9)
    assert time.perf_counter() - began < 10.0


def test_a_long_run_tells_how_far_it_is() -> None:
    notes: list[tuple[float, float]] = []
    robot = arm(7)
    run = simulate(
        robot, tumbling(robot), [Phase(3.0), Phase(1.0)], method=RK4(2e-5), progress=lambda *at: notes.append(at)
    )
    assert run.sound
    assert len(notes) > 1
    assert notes == sorted(notes)
    assert {total for _, total in notes} == {4.0}
    assert 0.0 < notes[-1][0] <= 4.0

    def give_up(*_: float) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        simulate(robot, tumbling(robot), 1e4, sample=0.02, max_steps=10**9, progress=give_up)


def test_the_dataset_has_names_and_units(tmp_path: Path) -> None:
    robot = arm(2)
    load = Load("hand", (0, 1.0, 0, 0, 0, 0), "frame")
    run = simulate(robot, tumbling(robot), Phase(1.0, loads=[load]), sample=[0.0, 0.25, 0.5, 1.0])
    data = run.data
    assert data["time"].values.tolist() == [0.0, 0.25, 0.5, 1.0]
    assert list(data["joint"].values) == ["j0", "j1"]
    assert list(data["dof"].values[:2]) == ["base_vx", "base_vy"]
    for name in data.data_vars:
        assert data[name].attrs["units"]
        assert data[name].attrs["long_name"]
    np.testing.assert_allclose(data["base_velocity"][0], [0.1, 0.2, -0.1], atol=1e-15)
    np.testing.assert_allclose(data["base_angular_velocity"][0], [0.2, -0.1, 0.3], atol=1e-15)
    assert data["wrench"].sel(load="hand (frame axes)", entry="fy").values.tolist() == [1.0] * 4
    force = Mechanics(robot).inverse_dynamics(
        run.states[:, 7:9],
        run.states[:, 9:],
        data["acceleration"].values,
        loads=(load.place,),
        wrench=data["wrench"].values[:, 0],
        base=run.states[:, :7],
    )
    np.testing.assert_allclose(force, 0.0, atol=1e-10)  # nothing but the load acts
    file = tmp_path / "run.nc"
    data.to_netcdf(file, engine="h5netcdf")
    with xr.open_dataset(file, engine="h5netcdf") as again:
        xr.testing.assert_identical(again.load(), data)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (0.1, np.arange(11) * 0.1),
        (0.3, [0.0, 0.3, 0.6, 0.3 * 3, 1.0]),
        (5.0, [0.0, 1.0]),
        ([], [1.0]),
        ([0.2], [0.2, 1.0]),
    ],
)
def test_samples_are_where_they_are_wanted(sample: object, expected: object) -> None:
    robot = slider()
    np.testing.assert_array_equal(simulate(robot, State.at_rest(robot), 1.0, sample=sample).times, expected)  # type: ignore[arg-type]


def test_samples_do_not_change_the_run() -> None:
    robot = arm(3, friction=Friction(0.5, 0.3))
    first = simulate(robot, tumbling(robot), 3.0, sample=[0.0])
    second = simulate(robot, tumbling(robot), 3.0, sample=1e-3)
    assert first.end is not None
    assert second.end is not None
    np.testing.assert_array_equal(first.end.vector, second.end.vector)
    assert len(second.times) == 3001


def test_loops_are_announced_only_when_they_are_compiled() -> None:
    warm_up()
    note: list[str] = []
    assert warm_up(note.append) < 1.0
    assert note == []
