"""Sensors in the loop: what laws read, against plain formulas; the same bits for a seed, whatever runs it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation
from tests.support.arms import arm
from tests.support.control import POSTURE, craft, quaternion_of, quintic, step_response, turned_by
from tests.support.cuda_as_c import as_gpu

from spacearm import Mechanics, control, rollout, simulate_batch
from spacearm.control import Encoder, ForceTorque, Gyro, StarTracker
from spacearm.errors import InputError
from spacearm.model import Limits
from spacearm.model.base import BASE_DOFS
from spacearm.scene import scene_of
from spacearm.simulate import RK4, Load, Phase, State, load_run, simulate
from spacearm.simulate.check.crosscheck import cross_check
from spacearm.simulate.ensemble.vectorised_runs import VectorisedRun, simulate_lanes
from spacearm.simulate.run.figures import figures

ROBOT = arm(7)
START = State.at_rest(ROBOT, POSTURE)
PLAN = [quintic(a, a + 0.3, 0.33) for a in POSTURE]
NOISY = [Encoder(noise=1e-3, spread=1e-3, resolution=1e-4), Gyro(noise=1e-3, bias=[1e-3, 0.0, 0.0])]
MASK = 2**64 - 1


def mixed(x: int) -> int:
    """SplitMix64 in plain integers."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def normal(seed: int, sample: int, time: float | None, sensor: str, entry: int, system: str = "") -> float:
    """By seed, sample, time in units of 2^-24 s (None: once), and a hash of the names."""
    name = hashlib.blake2b(f"{system}\0{sensor}\0{entry}".encode(), digest_size=8).digest()
    moment = -1 if time is None else math.floor(time * 2**24 + 0.381966)
    key = mixed(mixed(mixed(mixed(seed) ^ sample) ^ (moment & MASK)) ^ int.from_bytes(name, "little"))
    first, second = mixed(key) >> 11, mixed(key ^ 1) >> 11
    return float(np.sqrt(-2 * np.log((first + 1) * 2.0**-53)) * np.cos(2 * np.pi * second * 2.0**-53))


def pid(sensors: object = NOISY, **settings: object) -> control.Law:
    return control.joint_pid(PLAN, 4.0, 2.0, 1.0, period=0.01, limited=False, sensors=sensors, **settings)


def looked(sensors: object, duration: float = 0.1, start: State = START, period: float = 0.01, **options: object):
    """A run in which a law does nothing but read; and its log."""
    law = control.Law(lambda plant: {"j0": 0.0 * plant.time}, period=period, sensors=sensors)
    found = simulate(ROBOT, start, Phase(duration, laws=law, limits="ignore", **options), sample=period)
    return found, found.commands[0]


def test_random_numbers_are_those_of_the_hash_and_normal():
    _, log = looked([Encoder(noise=1.0, joints=["j0"]), Gyro(noise=2.0)], 50.0)
    gyro = np.stack([log.sensor_reading(f"gyro.w{axis}") for axis in "xyz"], axis=1)
    expected = [[2.0 * normal(0, 0, 0.01 * tick, "gyro", k) for k in range(3)] for tick in range(4)]
    np.testing.assert_allclose(gyro[:4], expected, rtol=1e-12)
    assert stats.kstest(gyro.ravel() / 2.0, "norm").pvalue > 0.01
    assert abs(np.corrcoef(gyro[:-1, 0], gyro[1:, 0])[0, 1]) < 0.05
    assert np.abs(np.corrcoef(gyro.T) - np.eye(3)).max() < 0.05


def read(sensors: object, phases: object, name: str, seed: int = 7, period: float = 0.01) -> np.ndarray:
    """What a sensor read in a run of these phases, each with a law object of its own."""
    found = []
    for duration in phases:
        law = control.Law(lambda plant: {"j0": 0.0 * plant.time}, period=period, sensors=sensors, seed=seed)
        found.append(Phase(duration, laws=law, limits="ignore"))
    run = simulate(ROBOT, START, found, sample=1.0, ledger=False)
    return np.concatenate([log.sensor_reading(name) for log in run.commands])


def test_noise_and_bias_of_a_sensor_do_not_depend_on_phases_or_other_sensors():
    gyro = Gyro(noise=1e-3, spread=1e-2)
    alone = read([gyro], [0.4], "gyro.wy")
    np.testing.assert_array_equal(read([gyro], [0.1, 0.3], "gyro.wy"), alone)
    others = [Encoder(noise=1e-3, spread=1.0), StarTracker(noise=1e-4)]
    np.testing.assert_array_equal(read([*others, gyro], [0.4], "gyro.wy"), alone)
    np.testing.assert_array_equal(read([gyro], [0.1, 0.3], "gyro.wy", period=0.02), alone[::2])
    assert np.abs(read([replace(gyro, name="other")], [0.4], "other.wy") - alone).min() > 0.0
    assert np.abs(read([gyro], [0.4], "gyro.wy", seed=8) - alone).min() > 0.0


def test_noise_is_white_and_independent_across_phases_and_sensors():
    """40 s in eight phases of the same law, two sensors: mean, variance, correlation in time and between all."""
    sensors = [Gyro(noise=1.0), Gyro(noise=1.0, name="second")]
    first, second = (read(sensors, [5.0] * 8, name) for name in ("gyro.wx", "second.wx"))
    count = len(first)
    assert count == 4000
    for values in (first, second):
        assert abs(values.mean()) < 3.5 / np.sqrt(count)
        assert abs(values.var() - 1.0) < 3.5 * np.sqrt(2.0 / count)
        assert stats.kstest(values, "norm").pvalue > 1e-3
        # Bartlett: correlations of white noise at any lag are normal with variance 1 / count.
        lags = [np.mean(values[:-lag] * values[lag:]) for lag in range(1, 21)]
        assert stats.chi2.sf(count * np.sum(np.square(lags)), 20) > 1e-3
    assert abs(np.mean(first * second)) < 3.5 / np.sqrt(count)
    phases = first.reshape(8, 500)
    between = (phases @ phases.T / 500)[np.triu_indices(8, 1)]
    assert stats.chi2.sf(500 * np.sum(between**2), 28) > 1e-3


def test_two_systems_have_noise_of_their_own():
    keys = {
        control.Law(lambda p: {"j0": 0.0 * p.time}, sensors=[Gyro(noise=1.0)], system=s).random_channels(ROBOT)[0, 0]
        for s in ("", "a", "b")
    }
    assert len(keys) == 3


def test_noise_in_lanes_is_that_of_the_run_in_every_phase(tmp_path):
    """Two phases, the second off the ticks of the first: lanes as a run in fixed steps, C of the GPU to the bit."""
    phases = [Phase(duration, laws=pid(seed=7), limits="ignore") for duration in (0.133, 0.2)]
    lane = VectorisedRun(ROBOT, START, phases, 0.005, 1e-6)
    (beside,) = simulate_lanes([lane])
    alone = simulate(ROBOT, START, phases, method=RK4(0.005)).states[-1]
    np.testing.assert_allclose(beside.vector, alone, rtol=0.0, atol=1e-13)
    with as_gpu(tmp_path):
        (there,) = simulate_lanes([lane], device="gpu")
    np.testing.assert_array_equal(there.vector, beside.vector)


def test_a_law_keeps_its_ticks_over_a_seam():
    """A joint at 1 rad/s read by an encoder: its rate is 1 whatever the phases, and commands act on over the seam."""
    robot = arm(1)
    start = State.from_velocities(robot, [0.0], [1.0])

    def build(plant: control.Plant) -> control.Commands:
        seen = {("rate", "rad/s"): plant.rates[0], ("at", "rad"): plant.joints[0]}
        return control.Commands({"j0": 1e-3 + 0.0 * plant.time}, readings=seen)

    def runs(durations: list[float], **between: object) -> object:
        law = control.Law(build, period=0.1, sensors=[Encoder()])
        held = {"locked": BASE_DOFS, "limits": "ignore"}
        return simulate(robot, start, [Phase(d, laws=law, **held) for d in durations])

    whole, cut = runs([1.0]), runs([0.405, 0.595])
    ticks = np.concatenate([log.times for log in cut.commands])
    np.testing.assert_allclose(ticks, 0.1 * np.arange(10), atol=1e-14)
    for name in ("rate", "at"):
        one, two = (np.concatenate([log.sensor_reading(name) for log in run.commands]) for run in (whole, cut))
        np.testing.assert_allclose(two, one, atol=1e-12)
    np.testing.assert_allclose(cut.states[-1], whole.states[-1], atol=1e-11)
    np.testing.assert_allclose(cut.commands[1].signal("j0")(0.0), 1e-3)
    assert cross_check(cut).largest < 1e-9
    assert cross_check(cut, closed_loop=True).largest < 1e-9


def test_a_phase_without_a_tick_is_recorded_and_shown():
    """A period of 0.1 s over a phase of 0.03 s: the command of before acts, and figures and files show it."""
    robot = arm(1)
    law = control.Law(lambda plant: {"j0": 1e-3 + 0.0 * plant.time}, period=0.1)
    phases = [Phase(duration, laws=law, limits="ignore") for duration in (0.11, 0.03, 0.2)]
    found = simulate(robot, State.at_rest(robot), phases)
    assert [len(log.times) for log in found.commands] == [2, 0, 2]
    np.testing.assert_allclose(found.commands[1].command_steps("j0"), [[0.11], [1e-3]])
    assert found.saturation_shares == {}
    assert found.readings.sizes["time"] == 4
    assert cross_check(found).largest < 1e-9
    assert cross_check(found, closed_loop=True).largest < 1e-9
    assert len([*figures(found)]) > 0
    assert scene_of(found) is not None


def test_sensors_begin_anew_after_a_pause():
    robot = arm(1)
    law = control.Law(
        lambda plant: control.Commands({"j0": 0.0 * plant.time}, readings={("rate", "rad/s"): plant.rates[0]}),
        period=0.1, sensors=[Encoder(delay=0.2)],
    )  # fmt: skip
    held = {"locked": BASE_DOFS, "limits": "ignore"}
    phases = [Phase(0.55, laws=law, **held), Phase(0.3, forces={"j0": 0.02}, **held), Phase(0.5, laws=law, **held)]
    found = simulate(robot, State.from_velocities(robot, [0.0], [1.0]), phases)
    now = found.states[-1, 14]
    assert now > 1.05
    np.testing.assert_allclose(found.commands[1].sensor_reading("rate"), now, rtol=1e-9)
    np.testing.assert_allclose(found.commands[1].times, 0.85 + 0.1 * np.arange(5), atol=1e-12)


def test_readings_are_late_coarse_biased_and_held():
    start = State.from_velocities(ROBOT, POSTURE, 0.3 * np.ones(7), base_angular_velocity=[0.1, -0.2, 0.3])
    sensor = Encoder(joints=["j2"], bias=0.05, resolution=0.01, period=0.03, delay=0.02)
    run, log = looked([sensor, Gyro(bias=[0.0, 0.0, 1.0])], 0.3, start)
    true = run.data["joint_position"].sel(joint="j2").values[:30]
    coarse = 0.01 * np.floor((true + 0.05) / 0.01 + 0.5)
    held = coarse[3 * (np.arange(30) // 3)]
    np.testing.assert_allclose(log.sensor_reading("encoder.j2"), np.append(held[[0, 0]], held[:-2]), atol=1e-12)
    np.testing.assert_allclose(log.sensor_reading("gyro.wz"), run.states[:30, 19] + 1.0, atol=1e-12)
    once = [looked([Gyro(spread=0.1)])[1].sensor_reading("gyro.wx") for _ in range(2)]
    np.testing.assert_array_equal(*once)
    assert np.ptp(once[0]) < 1e-12
    assert once[0][0] == pytest.approx(0.1 * normal(0, 0, None, "gyro", 0), rel=1e-9)


def test_rates_are_differences_of_positions():
    seen = []

    def law(plant: control.Plant) -> control.Commands:
        return control.Commands({"j0": 0.0 * plant.time}, readings={("rate", "rad/s"): plant.rates[3]})

    for sensor in (Encoder(period=0.02, resolution=1e-3, delay=0.01), Encoder(resolution=1e-3, smoothing=0.05)):
        start = State.from_velocities(ROBOT, POSTURE, 0.3 * np.ones(7))
        one = control.Law(law, period=0.01, sensors=sensor)
        run = simulate(ROBOT, start, Phase(0.3, laws=one, limits="ignore"), sample=0.01)
        seen.append(run.commands[0].sensor_reading("rate"))
    position = 1e-3 * np.floor(run.data["joint_position"].sel(joint="j3").values / 1e-3 + 0.5)[:30]
    slow = np.repeat(np.diff(position[::2]) / 0.02, 2)
    np.testing.assert_allclose(seen[0][3:], slow[: len(seen[0]) - 3], atol=1e-10)
    np.testing.assert_allclose(seen[0][:3], 0.3, atol=1e-12)
    rate, share = [0.3], 1 - np.exp(-0.01 / 0.05)
    for step in np.diff(position) / 0.01:
        rate.append(rate[-1] + share * (step - rate[-1]))
    np.testing.assert_allclose(seen[1], rate, atol=1e-10)


def test_a_star_tracker_turns_the_attitude():
    start = State.at_rest(ROBOT, POSTURE, quaternion=[0.8, 0.0, 0.36, 0.48])
    bias = np.array([2e-4, -1e-4, 3e-4])
    _, log = looked([StarTracker(bias=bias)], 0.02, start)
    read = Rotation.from_quat(np.roll(log.readings[0], -1))
    true = Rotation.from_quat([0.0, 0.36, 0.48, 0.8])
    np.testing.assert_allclose((true.inv() * read).as_rotvec(), bias, rtol=1e-6)


def test_perfect_sensors_change_nothing():
    perfect = [Encoder(joints=[]), Gyro(), StarTracker()]
    one, two = (simulate(ROBOT, START, Phase(0.5, laws=pid(each), limits="ignore")) for each in ((), perfect))
    np.testing.assert_allclose(two.states, one.states, atol=1e-13)


def test_a_force_sensor_feels_what_acts_on_its_body():
    """Loads in world and frame axes, at the hand and at the body's own frame, reduced to the hand by plain algebra."""
    body = ROBOT.frame("hand").body
    world, own = np.array([3.0, -2.0, 1.0, 0.1, 0.2, -0.1]), np.array([0.5, 1.0, -1.0, 0.3, 0.0, 0.2])
    loads = [Load("hand", tuple(world)), Load(body, tuple(own), "frame"), Load(ROBOT.bodies[0].name, (9.0,) * 6)]
    _, log = looked([ForceTorque(frame="hand", name="ft")], 0.05, loads=loads)
    mechanics = Mechanics(ROBOT)
    (at, turn), (there, other) = (mechanics.frame_pose(name, POSTURE) for name in ("hand", body))
    force, moment = world[:3] + other @ own[:3], world[3:] + other @ own[3:] + np.cross(there - at, other @ own[:3])
    expected = np.concatenate([turn.T @ force, turn.T @ moment])
    np.testing.assert_allclose(log.readings[0], expected, atol=1e-12)


def test_impedance_with_a_force_sensor_meets_its_closed_form():
    """The sampled loop with the measured force comes to the closed form with the period."""
    mass, damping, stiffness = 20.0, 60.0, 300.0
    origin, rotation = Mechanics(ROBOT).frame_pose("hand", POSTURE)
    force = np.array([3.0, -2.0, 1.0, 0.1, 0.2, -0.1])
    errors = []
    for period in (0.01, 0.005):
        law = control.impedance(
            "hand", list(origin), control.AttitudeRotation(quaternion_of(rotation)), mass=mass, damping=damping,
            stiffness=stiffness, force="measured", period=period, limited=False, sensors=[ForceTorque(frame="hand")],
        )  # fmt: skip
        found = simulate(ROBOT, START, Phase(0.7, laws=law, limits="ignore", loads=[Load("hand", tuple(force))]))
        hand = Mechanics(ROBOT).frame_pose("hand", found.states[:, 7:14], base=found.states[:, :7])[0]
        rise = 1 - step_response(found.times, mass, damping, stiffness)
        errors.append(np.abs(hand - origin - np.outer(rise, force[:3] / stiffness)).max())
    assert errors[0] < 2e-3 * np.linalg.norm(force[:3] / stiffness) * 10
    assert errors[1] < 0.6 * errors[0]


def test_a_noisy_loop_is_the_same_bit_for_bit_for_any_number_of_threads():
    rows = np.repeat(START.vector[None], 40, axis=0)
    phase = Phase(0.3, laws=pid(seed=7), limits="ignore")
    one, *others = (simulate_batch(ROBOT, rows, phase, threads=k).end for k in (1, 2, 4, 4))
    for other in others:
        np.testing.assert_array_equal(other, one)
    assert len(np.unique(one[:, 7])) == 40  # every sample has its own noise
    alone = simulate(ROBOT, START, Phase(0.3, laws=pid(seed=7, draw=17), limits="ignore"))
    np.testing.assert_allclose(alone.states[-1], one[17], atol=1e-8)
    other = simulate_batch(ROBOT, rows[:3], Phase(0.3, laws=pid(seed=8), limits="ignore")).end
    assert np.abs(other - one[:3]).max() > 1e-6
    # Lanes: the same numbers, the same bits for any number of threads and any company.
    many = np.repeat(START.vector[None], 2500, axis=0)
    rolled = [rollout(ROBOT, many, 0.005, 20, law=pid(seed=7), threads=k) for k in (1, 2, 4)]
    np.testing.assert_array_equal(rolled[1], rolled[0])
    np.testing.assert_array_equal(rolled[2], rolled[0])
    np.testing.assert_array_equal(rollout(ROBOT, many[0], 0.005, 20, law=pid(seed=7, draw=9))[0], rolled[0][9, 0])
    fixed = simulate(
        ROBOT, START, Phase(0.1, laws=pid(seed=7, draw=9), limits="ignore"), method=RK4(0.005), ledger=False
    )
    np.testing.assert_allclose(rolled[0][9, 0], fixed.states[-1], atol=1e-12)


def test_noise_goes_on_over_phases():
    law = control.joint_pid(POSTURE + 0.05, 4.0, 2.0, 1.0, period=0.01, limited=False, sensors=NOISY)
    once = simulate(ROBOT, START, Phase(0.2, laws=law, limits="ignore"))
    twice = simulate(ROBOT, START, [Phase(0.1, laws=law, limits="ignore")] * 2)
    np.testing.assert_allclose(twice.states[-1], once.states[-1], atol=1e-11)
    assert twice.readings["reading.encoder.j0"].size == 20
    assert (twice.readings["reading.encoder.j0"].units, twice.readings.attrs) == ("rad", {})


def test_wheels_hold_an_attitude_with_gyro_and_star_tracker():
    robot = craft()
    start = State.at_rest(robot, np.zeros(3), quaternion=[np.cos(0.05), 0.0, 0.0, np.sin(0.05)])
    sensors = [Gyro(noise=1e-4), StarTracker(noise=2e-4, period=0.5, delay=0.1)]
    law = control.attitude_by_wheels(stiffness=2.0, damping=12.0, period=0.1, sensors=sensors, seed=3)
    found = simulate(robot, start, Phase(120.0, laws=law))
    assert found.sound
    assert 1e-7 < turned_by(found)[-1] < 2e-3  # it gets there, as well as it knows


def test_a_law_believes_where_its_base_sensors_say_it_is():
    """A force on the base in proportion to its measured position and velocity: bias and noise show in the commands."""
    start = State.from_velocities(ROBOT, POSTURE, base_velocity=[0.2, -0.1, 0.3], position=[1.0, 2.0, 3.0])
    sensors = [control.BasePosition(bias=[0.1, 0.0, -0.2], noise=1e-2), control.BaseVelocity(bias=0.05, noise=1e-3)]

    def build(plant: control.Plant) -> dict:
        return {"base_vx": -plant.position[0], "base_vy": -plant.velocity[1], "base_vz": -plant.position[2]}

    law = control.Law(build, period=0.05, sensors=sensors, seed=3)
    found = simulate(ROBOT, start, Phase(0.5, laws=law, limits="ignore"), sample=0.05)
    (log,), states = found.commands, found.states[:10]
    position, velocity = states[:, :3], states[:, 14:17]
    drawn = np.array(
        [[normal(3, 0, 0.05 * tick, sensor.name, k) for sensor in sensors for k in range(3)] for tick in range(10)]
    )
    seen = position + [0.1, 0.0, -0.2] + 1e-2 * drawn[:, :3]
    np.testing.assert_allclose(log["base_vx"], -seen[:, 0], rtol=1e-9)
    np.testing.assert_allclose(log["base_vz"], -seen[:, 2], rtol=1e-9)
    np.testing.assert_allclose(log["base_vy"], -(velocity[:, 1] + 0.05 + 1e-3 * drawn[:, 4]), rtol=1e-9)
    np.testing.assert_allclose(log.sensor_reading("base_position.z"), seen[:, 2], rtol=1e-9)


def test_commands_and_readings_come_back_with_a_saved_run(tmp_path):
    import pickle

    robot = ROBOT.replace(joints=[replace(joint, limits=Limits(effort=0.5)) for joint in ROBOT.joints])
    law = pid().replace(limited=True)
    phases = [Phase(0.2, laws=law, limits="ignore"), Phase(0.1), Phase(0.1, laws=law, limits="ignore")]
    found = simulate(robot, START, phases)
    assert found.events_of("saturation")
    for back in (load_run(found.to_netcdf(tmp_path / "run.nc")), pickle.loads(pickle.dumps(found))):
        assert len(back.commands) == len(found.commands) == 2
        for new, old in zip(back.commands, found.commands, strict=True):
            assert (new.name, new.phase, new.names, new.units, new.limited, new.end, new.sensed) == (
                old.name, old.phase, old.names, old.units, old.limited, old.end, old.sensed,
            )  # fmt: skip
            for name in ("times", "values", "margins", "readings"):
                np.testing.assert_array_equal(getattr(new, name), getattr(old, name))
            assert new.saturations() == old.saturations()
            np.testing.assert_array_equal(new.signal("j3")(0.05), old.signal("j3")(0.05))
        assert back.readings.equals(found.readings)


def test_sensors_are_in_the_saved_run(tmp_path):
    import xarray as xr

    found = simulate(ROBOT, START, Phase(0.1, laws=pid(), limits="ignore"))
    with xr.open_dataset(found.to_netcdf(tmp_path / "run.nc"), group="law0", engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["reading.gyro.wy"], found.commands[0].sensor_reading("gyro.wy"))
        assert data["reading.gyro.wy"].units == "rad/s"
        assert data["command.j0"].units == "N m"


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda: pid([Encoder(joints=["elbow"])]), "elbow"),
        (lambda: pid([ForceTorque(frame="claw")]), "claw"),
        (lambda: pid([Gyro(noise=-1.0)]), "sensor 'gyro': noise"),
        (lambda: pid([Gyro(noise=[1.0, 2.0])]), "expected one or 3"),
        (lambda: pid([Gyro(spread=5e-324)]), "a number whose square can be computed"),
        (lambda: pid([Gyro(period=0.015)]), "not a whole number of the law's periods"),
        (lambda: pid([Gyro(delay=0.003)]), "delay of 0.003 s is not a whole number"),
        (lambda: pid([Gyro(), Gyro()]), "gyro"),
        (lambda: pid([StarTracker(resolution=1.0)]), "no resolution"),
        (lambda: pid(["gyro"]), "expected Encoder"),
        (lambda: pid(seed=-1), "seed"),
        (lambda: control.computed_torque(PLAN, 1.0, 1.0, period=None, sensors=[Gyro()]), "continuous"),
        (lambda: control.Law(lambda plant: {"j0": plant.wrench("hand")[0]}), "no force/torque sensor at 'hand'"),
    ],
)
def test_sensors_that_cannot_be(law, message):
    with pytest.raises(InputError, match=message):
        simulate(ROBOT, START, Phase(1.0, laws=law(), limits="ignore"))


def test_rollouts_feel_no_forces():
    with pytest.raises(InputError, match="roll-outs do not have"):
        rollout(ROBOT, START.vector, 0.005, 10, law=pid([ForceTorque(frame="hand")]))
