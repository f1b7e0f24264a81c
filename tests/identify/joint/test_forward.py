"""The forward model: against plain runs of the engine, against differences, by conservation laws; paths; speed."""

from __future__ import annotations

import numpy as np
import pytest

from spacearm.errors import InputError
from spacearm.identify.joint import JointLaw, simulate_reference
from spacearm.identify.joint._programs import Setup
from spacearm.identify.joint.flexible_joints import write_joint_values
from spacearm.identify.joint.forward import Accuracy, Forward
from spacearm.identify.joint.paths import smooth_path
from spacearm.model import Robot, catalogue
from spacearm.simulate import Phase, Signal, State, simulate, spline
from support.simulated_joint_tests import (
    ACCELERATION,
    DEGREE,
    FRAME,
    START,
    TEST2,
    TIMES,
    paper_paths,
    printed,
    quadratic,
    spatial_arm,
    truth,
)

VALUES = np.array([*TEST2.values()])
OFFSET = np.array([2.8 * DEGREE])
FINE = Accuracy(1e-12, 1e-14)


def plain_run(robot: Robot, paths: dict[str, Signal], offsets: dict[str, float], **phase: object) -> np.ndarray:
    joints = np.array([float(paths[name](0.0)) if name in paths else 0.0 for name in robot.joint_names])
    for joint, offset in offsets.items():
        joints[robot.joint_index(joint)] = joints[robot.joint_index(f"{joint}.motor")] + offset
    rates = [float(paths[n].derivative()(0.0)) if n in paths else 0.0 for n in robot.joint_names]
    for joint in offsets:
        rates[robot.joint_index(joint)] = rates[robot.joint_index(f"{joint}.motor")]
    start = State.from_velocities(robot, joints, rates)
    return simulate(robot, start, Phase(10.0, **{"driven": paths, **phase}), sample=TIMES).states  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wojtunik2023_printed", "wojtunik2023"])
def test_prescribed_motor_moves_as_in_a_plain_run(name: str) -> None:
    robot = catalogue.load(name)
    states = plain_run(robot, paper_paths(), {"joint1": OFFSET[0]})
    found = truth(robot)
    n = robot.n
    assert np.abs(found.joints - states[:, 7 : 7 + n]).max() < 1e-9
    assert np.abs(found.base - states[:, :7]).max() < 1e-9
    assert np.abs(found.velocity - states[:, 7 + n :]).max() < 1e-9


def test_two_flexible_joints_in_space_move_as_in_a_plain_run() -> None:
    robot = spatial_arm()
    paths = {
        "joint1.motor": quadratic(10.0, 1.0),
        "joint2": spline([0.0, 4.0, 10.0], [0.0, 0.4, -0.2]),
        "joint3.motor": quadratic(-20.0, -0.8),
    }
    states = plain_run(robot, paths, {"joint1": 0.03, "joint3": -0.02})
    found = simulate_reference(robot, FRAME, {"joint1": {"offset": 0.03}, "joint3": {"offset": -0.02}}, paths, TIMES)
    assert np.abs(found.joints - states[:, 7 : 7 + robot.n]).max() < 1e-8
    assert np.abs(found.base - states[:, :7]).max() < 1e-8
    assert np.ptp(found.base[:, 4:], axis=0).min() > 1e-4  # it does turn about all axes


@pytest.mark.parametrize(("name", "ratio"), [("wojtunik2023_printed", 1.0), ("wojtunik2023", 100.0)])
def test_the_base_turns_as_momentum_says(name: str, ratio: float) -> None:
    """No momentum at the start, so none later: the base's rates from the joints' rates alone, in the plane, by hand."""
    mass, inertia = [58.69, 2.81, 2.82, 4.64], [2.42, 0.0637, 0.0635, 0.0515]
    centre = np.array([[0.1362, -0.0017], [0.1340, -0.0005], [0.1511, 0.0004]])
    found = truth(catalogue.load(name))
    rotor = 3.3 / ratio**2
    left = np.array([[0.0, -1.0], [1.0, 0.0]])  # turns a vector by a right angle
    for k in range(0, 501, 50):
        angles, rates = found.joints[k, [0, 2, 3]], found.velocity[k, [6, 8, 9]]
        motor = found.velocity[k, 7]
        total = np.diag([mass[0], mass[0], inertia[0] + rotor])  # times (vx, vy, w) of the base, base axes
        moved = np.array([0.0, 0.0, rotor * ratio * motor])  # momentum by the joints alone
        joint, heading, joints = np.array([0.337, -0.001]), 0.0, []
        for i in range(3):
            heading += angles[i]
            c, s = np.cos(heading), np.sin(heading)
            turn = np.array([[c, -s], [s, c]])
            joints.append(joint)
            com = joint + turn @ centre[i]
            speed = sum((rates[j] * left @ (com - joints[j]) for j in range(i + 1)), np.zeros(2))
            carried = np.column_stack([np.eye(2), left @ com])
            arm = np.array([-com[1], com[0]])
            total += mass[i + 1] * np.vstack([carried, arm @ carried])
            total[2, 2] += inertia[i + 1]
            moved += np.append(mass[i + 1] * speed, mass[i + 1] * arm @ speed + inertia[i + 1] * rates[: i + 1].sum())
            joint = joint + turn @ np.array([[0.449, 0.449, 0.310][i], 0.0])
        assert np.abs(np.linalg.solve(total, -moved) - found.velocity[k, [0, 1, 5]]).max() < 1e-10


def test_known_torque_moves_as_in_a_plain_run() -> None:
    robot = printed()
    torque = spline([0.0, 3.0, 6.0, 10.0], [0.0, 0.08, -0.05, 0.02])
    paths = paper_paths()
    driven = {name: path for name, path in paths.items() if name != "joint1.motor"}
    states = plain_run(robot, paths, {"joint1": OFFSET[0]}, driven=driven, forces={"joint1.motor": torque})
    forward = Forward(Setup(robot, "torque"), paths, TIMES, torques={"joint1": torque}, accuracy=FINE)
    found = forward(VALUES, OFFSET).states[:, :2]
    assert np.abs(found - states[:, [7, 8]]).max() < 1e-9


def test_rigid_torque_is_that_of_a_run_with_rigid_joints() -> None:
    """The torque that the program finds inside, against the drive's reaction of a plain run with all joints driven."""
    robot = printed()
    paths = {**paper_paths(), "joint1": paper_paths()["joint1.motor"]}
    start = State.at_rest(robot, [float(paths[name](0.0)) for name in robot.joint_names])
    run = simulate(robot, start, Phase(10.0, driven=paths), sample=TIMES)
    reaction = run.data["reaction"].values
    expected = reaction[:, 6 + robot.joint_index("joint1")] + reaction[:, 6 + robot.joint_index("joint1.motor")]
    forward = Forward(Setup(robot, "rigid_torque"), paper_paths(), TIMES, accuracy=FINE)
    found, _ = forward.torque(forward(VALUES, OFFSET), VALUES)
    assert np.abs(found[:, 0] - expected).max() < 1e-9


ALL = {
    "cubic_stiffness": 150.0, "play": 3e-3, "motor_damping": 0.05, "motor_coulomb": 0.02, "motor_static": 0.03,
    "motor_bristle": 4e-3, "spring_coulomb": 0.02, "spring_static": 0.03, "spring_bristle": 5e-3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("drive", "law"),
    [
        ("motor_angle", JointLaw(cubic=True, spring="stribeck")),
        ("torque", JointLaw(motor="lugre", spring="lugre", play=True, motor_damping=True)),
        ("torque", JointLaw(motor="stribeck", spring="coulomb")),
        ("rigid_torque", JointLaw(cubic=True, motor="coulomb")),
    ],
)
def test_derivatives_are_exact(drive: str, law: JointLaw) -> None:
    """Against central differences of a finer run, for every state and direction, torque included."""
    robot = printed()
    setup = Setup(robot, drive, law, pose=True)  # type: ignore[arg-type]
    torque = {"joint1": spline([0.0, 5.0, 10.0], [0.02, 0.05, 0.0])} if drive == "torque" else None
    coarse = Forward(setup, paper_paths(), TIMES[:251], torques=torque, accuracy=Accuracy(1e-9, 1e-11))
    fine = Forward(setup, paper_paths(), TIMES[:251], torques=torque, accuracy=Accuracy(1e-13, 1e-15))
    at = np.array([*({**TEST2, **ALL}[name] for name in law.parameters), OFFSET[0], 0.01])

    def run(x: np.ndarray, forward: Forward, derivatives: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        response = forward(x[:-2], x[-2:-1], x[-1:], derivatives=derivatives)
        values, slopes = forward.torque(response, x[:-2])
        rows = np.concatenate([response.states, values], axis=1)
        if response.derivatives is None or slopes is None:
            return rows, None
        return rows, np.concatenate([response.derivatives, slopes], axis=1)

    _, slopes = run(at, coarse, True)
    assert slopes is not None
    for k in range(at.size):
        step = 1e-5 * max(abs(at[k]), 1e-2)
        high, low = at.copy(), at.copy()
        high[k], low[k] = at[k] + step, at[k] - step
        expected = (run(high, fine)[0] - run(low, fine)[0]) / (2.0 * step)
        assert np.abs(slopes[:, :, k] - expected).max() < 2e-5 * max(np.abs(expected).max(), 1e-2), setup.directions[k]


def test_energy_is_kept_without_damping() -> None:
    held = {joint: quadratic(START[joint], 0.0) for joint in START}
    values = {"joint1": {**TEST2, "damping": 0.0, "offset": OFFSET[0]}}
    found = simulate_reference(printed(), FRAME, values, held, TIMES, accuracy=Accuracy(1e-8, 1e-10))
    assert np.ptp(found.energy) < 1e-6 * found.energy[0]
    damped = simulate_reference(printed(), FRAME, {"joint1": {**TEST2, "offset": OFFSET[0]}}, held, TIMES)
    assert damped.energy[-1] < 0.5 * damped.energy[0]


def test_accuracy_is_what_was_asked_for() -> None:
    robot = printed()
    for rtol in (1e-6, 1e-8):
        coarse = Forward(Setup(robot), paper_paths(), TIMES, accuracy=Accuracy(rtol, 0.01 * rtol))(VALUES, OFFSET)
        fine = Forward(Setup(robot), paper_paths(), TIMES, accuracy=FINE)(VALUES, OFFSET)
        assert np.abs(coarse.states - fine.states).max() < 10.0 * rtol


def test_missing_inputs_are_told() -> None:
    paths = paper_paths()
    with pytest.raises(InputError, match="'joint3' has no encoder data"):
        Forward(Setup(printed()), {k: v for k, v in paths.items() if k != "joint3"}, TIMES)
    with pytest.raises(InputError, match="torque of 'joint1' is not given"):
        Forward(Setup(printed(), "torque"), paths, TIMES)
    with pytest.raises(InputError, match=r"no flexible joint.*edit\.make_flexible"):
        Setup(catalogue.load("xu2017")).parameters  # noqa: B018
    with pytest.raises(InputError, match="drive is 'speed'"):
        Setup(printed(), "speed")  # type: ignore[arg-type]


# -- paths ----------------------------------------------------------------------------------------------------------


def test_a_path_from_noisy_readings_has_few_pieces_and_a_small_acceleration_error() -> None:
    rng = np.random.default_rng(0)
    exact = paper_paths()["joint2"]
    path = smooth_path(TIMES, exact(TIMES) + 1e-4 * rng.standard_normal(TIMES.size), sigma=1e-4, from_rest=True)
    assert path.breaks.size <= 3
    assert path.derivative()(0.0) == pytest.approx(0.0, abs=1e-12)
    bend = path.derivative().derivative()(TIMES[20:-20])
    assert np.abs(bend - ACCELERATION["joint2"] * DEGREE).max() < 1e-3


def test_a_path_follows_what_moves_faster_and_irregular_times() -> None:
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0.0, 10.0, 600))
    path = smooth_path(times, np.sin(3.0 * times))
    assert np.abs(path(times - times[0]) - np.sin(3.0 * times)).max() < 1e-7
    noisy = smooth_path(times, np.sin(3.0 * times) + 1e-3 * rng.standard_normal(times.size), sigma=1e-3)
    assert 5 < noisy.breaks.size < 40
    error = noisy(times - times[0]) - np.sin(3.0 * times)
    assert np.sqrt(np.mean(error**2)) < 4e-4
    assert np.abs(error).max() < 4e-3  # at the ends


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        ([0.0, 1.0], [0.0, 1.0], "expected at least 3"),
        ([0.0, 1.0, 1.0], [0.0, 1.0, 2.0], "expected increasing values"),
        ([0.0, 1.0, 2.0], [0.0, np.nan, 2.0], "has gaps and only 2 readings"),
        ([0.0, 1.0, 2.0], [0.0, np.inf, 2.0], "is not a finite number"),
    ],
)
def test_paths_refuse_what_they_cannot_use(times: list[float], values: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        smooth_path(times, values)


def test_values_written_back_into_the_robot_are_those_of_the_model() -> None:
    robot = write_joint_values(
        catalogue.load("wojtunik2023"), {"joint1": {"motor_inertia": 4.0, "stiffness": 7.0, "damping": 0.1}}
    )
    states = plain_run(robot, paper_paths(), {"joint1": OFFSET[0]})
    found = truth(catalogue.load("wojtunik2023"), {"motor_inertia": 4.0, "stiffness": 7.0, "damping": 0.1})
    assert np.abs(found.joints - states[:, 7:11]).max() < 1e-9
