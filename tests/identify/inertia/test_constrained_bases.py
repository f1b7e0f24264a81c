"""Inertias from the momentum of a base in a plane or on a rail: MuJoCo's motion, a rotor in closed form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from scipy.stats import chi2

from spacearm.errors import InputError
from spacearm.identify.inertia import (
    Identification,
    Prior,
    command_phases,
    identify,
    prepare_record,
    run_experiment,
    start_state,
)
from spacearm.identify.inertia.base_parameters import momentum_parameters
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.measure import Channel, Record, make_sensors, record_run
from spacearm.mechanics.sensors import KINDS
from spacearm.model import BaseConstraint, Body, Inertia, Joint, Pose, Robot
from spacearm.model.appendages import Appendage, Mode, add_appendage
from spacearm.model.files import save
from spacearm.simulate import pulse, spline
from spacearm.study import run_scenario
from spacearm.typing import Array
from support.table import COUNT, NOISE, STEP, Kind, table_record, table_robot

#: A cyclic change of axes: what was along z is then along x.
CYCLE = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def truth(found: Identification, robot: Robot) -> Array:
    return np.asarray(found.problem.base_parameters.combine @ robot.inertia_parameters.ravel())


def wrong(robot: Robot) -> Robot:
    return robot.with_inertia_parameters(1.2 * robot.inertia_parameters)


def solid(record: Record, rotation: Array) -> Record:
    """The planar record as a laboratory's three axes have it, which are turned against the table's."""
    found = dict(record.channels)
    for name in ("position", "velocity"):
        flat = record.channels[name].values
        found[name] = replace(found[name], values=np.column_stack([flat, np.zeros(COUNT)]) @ rotation.T)
    yaw = Rotation.from_rotvec(np.outer(record["attitude"], [0.0, 0.0, 1.0]))
    turned = np.roll((Rotation.from_matrix(rotation) * yaw).as_quat(), 1, axis=1)
    found["attitude"] = replace(found["attitude"], values=turned)
    found["rate"] = replace(found["rate"], values=np.outer(record["rate"], [0.0, 0.0, 1.0]))
    return replace(record, channels=found)


def test_what_momentum_shows_in_a_plane_and_on_a_rail() -> None:
    """In the plane mass, two first moments and a moment of inertia of the base, and three numbers of each link, whose
    masses count at their joints; on a rail the mass and two first moments of each link."""
    names = momentum_parameters(table_robot()).names
    links = [f"{name}*({body})" for body in ("upper", "fore") for name in ("hx", "hy", "Izz")]
    assert names == ("m*(hull)", "hx*(hull)", "hy*(hull)", "Izz*(hull)", *links)
    on_rail = momentum_parameters(table_robot("rail")).names
    assert on_rail == ("m*(hull)", *(one for one in links if not one.startswith("I")))
    assert momentum_parameters(table_robot("free")).rank == 10 + 7 * 2


@pytest.mark.parametrize("kind", ["planar", "rail"])
def test_mujocos_motion_gives_the_inertias_that_made_it(kind: Kind) -> None:
    robot = table_robot(kind)
    found = identify(wrong(robot), [table_record(kind, None, noise=1e-4)], method="total")
    np.testing.assert_allclose(found.estimate.values, truth(found, robot), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["planar", "rail"])
def test_estimates_scatter_as_their_deviations_say(kind: Kind) -> None:
    robot, apart, rank = table_robot(kind), [], 0
    for seed in range(6):
        found = identify(wrong(robot), [table_record(kind, seed)])
        assert found.estimate.method == "output error"
        assert found.certificate().sound
        assert found.output_error is not None
        # Sensors along what does not move are none: position and velocity, in a plane with the turn and its rate.
        assert found.output_error.problem.samples <= COUNT * (6 if kind == "planar" else 2)
        away, rank = found.estimate.values - truth(found, robot), found.problem.rank
        assert found.estimate.covariance is not None
        apart.append(float(away @ np.linalg.solve(found.estimate.covariance, away)))
    low, high = chi2.ppf([1e-3, 0.999], 6 * rank)
    assert low < sum(apart) < high


def test_a_robot_in_space_that_moves_in_a_plane_shows_the_same() -> None:
    """All mass in one plane: what a table holds does not move anyway. In space the zeros across it count as readings,
    and chi-square says that they are none."""
    robot = table_robot(flat=True)
    record = prepare_record(robot, table_record(flat=True))
    free = wrong(robot).replace(base="free")
    on_table, in_space = identify(wrong(robot), [record]), identify(free, [replace(record, base=free.base)])
    assert on_table.output_error is not None
    assert in_space.output_error is not None
    first, second = on_table.output_error.estimate, in_space.output_error.estimate
    places = [second.names.index(name) for name in first.names]
    np.testing.assert_allclose(second.std[places], first.std, rtol=1e-9)
    assert np.abs((second.values[places] - first.values) / first.std).max() < 1e-6
    assert on_table.certificate().sound
    assert in_space.diagnosis.chi_square.ratio < 0.6


def test_a_rotor_in_closed_form() -> None:
    """From rest, I w + J (w + s) = 0: the base's moment of inertia from the wheel's and two rates."""
    wheel, base = 0.02, 0.37
    robot = Robot(
        "rotor",
        [
            Body("puck", Inertia(8.0, np.zeros(3), base * np.eye(3))),
            Body("wheel", Inertia(1.0, np.zeros(3), wheel * np.eye(3))),
        ],
        [Joint("axle", "revolute", "puck", "wheel", axis=[0, 0, 1])],
        base="planar",
    )
    times = np.linspace(0.0, 10.0, 101)
    spin, angle = 5.0 * (1.0 - np.cos(times)), 5.0 * (times - np.sin(times))
    share = -wheel / (base + wheel)
    still = np.zeros((101, 2))
    read = {
        "position": still, "velocity": still, "attitude": share * angle, "rate": share * spin,
        "joint_position": angle[:, None], "joint_rate": spin[:, None],
    }  # fmt: skip
    sigma = {name: 1e-6 * size for name, size in NOISE.items()}
    channels = {name: Channel(times, values, sigma=sigma[name]) for name, values in read.items()}
    nominal = robot.with_inertia_parameters(robot.inertia_parameters * [[1.5], [1.0]])
    for method in ("linear", "output-error"):
        record = prepare_record(nominal, Record("spin", channels), known_momentum=np.zeros(6))
        found = identify(nominal, [record], method=method, prior=Prior.from_known_bodies(nominal, ["wheel"]))
        number = found.known.number("puck", "Izz")
        # The mass centre is where the axle is to be; nothing pushes, so that the mass is not seen.
        assert number.value == pytest.approx(base, rel=1e-5), method
        assert number.source == "data", method
        assert found.known.number("puck", "mass").source == "undetermined"


@pytest.mark.parametrize("shifts", [1, 2])
def test_any_plane_of_the_base(shifts: int) -> None:
    """The same robot with its axes renamed: its columns are those of the other two axes, in their order."""
    axes = np.linalg.matrix_power(CYCLE, shifts)
    normal = BaseConstraint("planar", tuple(axes[:, 2]))
    robot, record, other = table_robot(), table_record(), table_robot(normal, axes=axes)
    channels = dict(record.channels)
    if shifts == 2:  # the old x is z, and y is x
        for name in ("position", "velocity"):
            channels[name] = replace(channels[name], values=channels[name].values[:, ::-1])
    first = identify(wrong(robot), [record])
    second = identify(wrong(other), [replace(record, channels=channels)])
    z = [(one.estimate.values - truth(one, r)) / one.estimate.std for one, r in ((first, robot), (second, other))]
    # The same numbers in another order, and first moments against an axis with the other sign.
    np.testing.assert_allclose(np.sort(np.abs(z[1])), np.sort(np.abs(z[0])), atol=1e-4)


def test_a_table_that_is_tilted_in_the_laboratorys_axes() -> None:
    """Three axes, quaternions, and noise across the table: what the table holds is not measured."""
    robot, flat = table_robot(), table_record()
    tilt = Rotation.from_rotvec([0.3, -0.4, 0.2]).as_matrix()
    record, plain = solid(flat, tilt), identify(wrong(robot), [flat])
    found = identify(wrong(robot), [record])
    np.testing.assert_allclose(found.estimate.std, plain.estimate.std, rtol=1e-6)
    np.testing.assert_allclose(found.estimate.values, plain.estimate.values, rtol=1e-7, atol=1e-9)
    # Noise along the normal, now and then missing, and invented or missing readings of the height.
    level = solid(flat, np.eye(3))
    for height in (np.full(COUNT, np.nan), np.random.default_rng(0).normal(scale=0.005, size=COUNT)):
        values = np.array(level["position"])
        values[:, 2] = height
        channels = {**level.channels, "position": replace(level.channels["position"], values=values)}
        again = identify(wrong(robot), [replace(level, channels=channels)])
        np.testing.assert_allclose(again.estimate.values, plain.estimate.values, rtol=1e-9)
        assert again.diagnosis.chi_square.freedom == plain.diagnosis.chi_square.freedom


def test_bases_that_do_not_fit_their_records() -> None:
    robot = table_robot()
    flat = solid(table_record(), np.eye(3))
    about_y = robot.replace(base=BaseConstraint("planar", (0.0, 1.0, 0.0)))
    with pytest.raises(
        InputError, match=r"attitude turns about other axes than the normal of its plane.* another axis"
    ):
        identify(about_y, [flat])
    values = flat["position"][:, [0, 2, 1]]
    swapped = {**flat.channels, "position": replace(flat.channels["position"], values=values)}
    with pytest.raises(InputError, match=r"moves across the plane by 0\.\d+ m .*order of columns"):
        identify(robot, [replace(flat, channels=swapped)])
    gone = np.where([True, False, True], flat["position"], np.nan)
    unread = {**flat.channels, "position": replace(flat.channels["position"], values=gone)}
    with pytest.raises(InputError, match=r"no sample has a position"):
        identify(robot, [replace(flat, channels=unread)])
    with pytest.raises(InputError, match=r"attitude turns though it is on a rail"):
        identify(robot.replace(base="rail"), [flat])
    with pytest.raises(InputError, match=r"is held, and shows no momentum .*identify_held_arm"):
        identify(robot.replace(base="held"), [flat])
    with pytest.raises(InputError, match=r"prepared for a base that is planar, and that of 'table' is free"):
        identify(robot.replace(base="free"), [prepare_record(robot, flat)])


@pytest.mark.parametrize("modal", [False, True])
def test_accelerometers_and_a_panel_on_a_table(modal: bool) -> None:
    """The predicted readings are those of a run, and their derivatives those by differences."""
    robot = table_robot()
    if modal:
        bend = Mode(1.2, (0.0, 1.0, 0.0), (0.0, 0.0, 0.6), 0.01)
        panel = Appendage("panel", Inertia(2.0, [0.4, 0.0, 0.1], 0.2 * np.eye(3)), (bend,))
        robot = add_appendage(robot, "hull", panel, Pose(translation=np.array([-0.2, 0.1, 0.3])))
    start, times = start_state(robot), np.linspace(0.0, 6.0, 5)
    commands = {"right": pulse(1.0, 1.0, 2.0), "up": pulse(1.0, 4.0, 1.0)}
    commands |= {
        "shoulder": spline(times, [0.0, 0.6, -0.4, 0.3, 0.0]),
        "elbow": spline(times, [0.0, -0.8, 0.5, 0.8, 0.0]),
    }
    run = run_experiment(robot, start, command_phases(robot, commands, 6.0), 0.05)
    kinds = [KINDS["accelerometer"](name="a", period=0.05), KINDS["angular_accelerometer"](name="b", period=0.05)]
    record = prepare_record(robot, record_run(run, [*make_sensors(period=0.05), *kinds], name="run"))
    record = replace(record, sigma={**record.sigma, "acceleration": 1e-3, "angular_acceleration": 1e-3})
    problem = OutputErrorProblem(robot, [record])
    data, x = problem.records[0], problem.guess

    def predict(x: Array) -> tuple[Array, Array]:
        thrust = np.zeros(len(data.thrusters))
        options = {"modes": problem.mode_errors(x)}
        residual, named, _ = data.columns(
            problem._start_at(0, x), problem.inertia(x), problem.base.lift, thrust, 0.0, **options
        )
        columns = np.concatenate([named["inertia"], named["start"][:, :, data.start_errors]], axis=2)
        # At the very end the joints' splines, and with them the accelerations, stop.
        return residual[:-1] * data.present[:-1], columns[:-1] * data.present[:-1, :, None]

    residual, columns = predict(x)
    assert data.present[:, 12:].any() != modal  # accelerations of modes are not known
    np.testing.assert_allclose(residual, 0.0, atol=1e-6 if modal else 1e-8)
    for k, size in enumerate(problem.sizes):
        step = 1e-5 * size * np.eye(x.size)[k]
        slope = (predict(x - step)[0] - predict(x + step)[0]) / (2e-5 * size)
        # Derivatives of a bending panel take steps of RK4 that are coarser than those of the motion.
        atol = (1e-3 if modal else 1e-5) * max(np.abs(slope).max(), 1e-9)
        np.testing.assert_allclose(columns[:, :, k], slope, rtol=0.0, atol=atol)


SCENARIO = """study = "inertia-identification"
robot = "table.toml"
base = "{base}"
[measurements]
file = "log.csv"
time = {{ column = "t" }}
[measurements.columns]
joint_position = {{ column = ["q1", "q2"], unit = "deg" }}
joint_rate = {{ column = ["w1", "w2"] }}
{columns}
[measurements.thruster_columns]
right = {{ column = "right" }}
up = {{ column = "up" }}
left = {{ column = "left" }}
"""
COLUMNS = {
    "planar": """position = { column = ["x", "y", "z"], unit = "mm" }
velocity = { column = ["vx", "vy"] }
attitude = { column = "yaw", unit = "deg" }
rate = { column = "yaw_rate" }""",
    "rail": """position = { column = "x", unit = "mm" }
velocity = { column = "vx" }""",
}


@pytest.mark.parametrize("kind", ["planar", "rail"])
def test_a_laboratorys_file(kind: Kind, tmp_path: Path) -> None:
    """Columns of what moves, in millimetres and degrees, a height that was never read, noise that nobody states."""
    robot, record = table_robot(), table_record(kind, 3)
    save(robot, tmp_path / "table.toml")
    times = np.arange(COUNT) * STEP
    table = {"t": times, "x": 1e3 * record["position"][:, 0], "vx": record["velocity"][:, 0]}
    if kind == "planar":
        table |= {"y": 1e3 * record["position"][:, 1], "z": np.full(COUNT, np.nan), "vy": record["velocity"][:, 1]}
        table |= {"yaw": np.rad2deg(record["attitude"][:, 0]), "yaw_rate": record["rate"][:, 0]}
    table |= {f"q{k + 1}": np.rad2deg(record["joint_position"][:, k]) for k in range(2)}
    table |= {f"w{k + 1}": record["joint_rate"][:, k] for k in range(2)}
    table |= {name: signal(times + 1e-9) for name, signal in record.commands.items()}
    rows = np.column_stack([*table.values()])
    np.savetxt(tmp_path / "log.csv", rows, delimiter=",", header=",".join(table), comments="")
    text = SCENARIO.format(base=kind, columns=COLUMNS[kind])
    (tmp_path / "case.toml").write_text(text)
    result = run_scenario(tmp_path / "case.toml")
    assert result.sound
    value = {row.quantity: row.value for row in result.rows}
    assert value["combination.m*(hull)"] == pytest.approx(15.5, abs=0.1)
    assert value["rank.total"] == (10 if kind == "planar" else 5)
    wrong_files = {
        "planar": [
            (
                text.replace('["x", "y", "z"]', '["x", "y", "z", "yaw"]'),
                "expected 3, or the 2 that the planar base leaves",
            ),
            (text.replace('"planar"', '"free"').replace('["x", "y", "z"]', '["x", "y"]'), 'on a table base = "planar"'),
        ],
        "rail": [(text.replace('"vx" }', '"vx" }\nattitude = { column = "x" }'), "the rail base does not turn")],
    }
    for changed, message in wrong_files[kind]:
        (tmp_path / "case.toml").write_text(changed)
        with pytest.raises(InputError, match=rf"has \d columns.*{message}"):
            run_scenario(tmp_path / "case.toml")
