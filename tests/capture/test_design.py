"""Designs in lanes against adaptive runs; Pareto fronts; the search repeats itself and finds what is known."""

import casadi as ca
import numpy as np
import pytest

from spacearm.capture import (
    LoadCase,
    SettlingCriterion,
    SoftAxis,
    Target,
    catch,
    catch_softly,
    design,
    simulate_capture,
)
from spacearm.capture.base_response import skyhook_speed
from spacearm.capture.evaluate import Evaluator
from spacearm.capture.soft_joints import soft_axes
from spacearm.engine import Kernel, Mechanics
from spacearm.errors import InputError
from spacearm.mechanics import Program
from spacearm.model import Inertia, catalogue
from spacearm.optimise.pareto import find_front_rows
from spacearm.papers.zhang2020.data import single_hit, six_hit
from spacearm.simulate import Load, State
from spacearm.simulate.bodies import evaluate_bodies

ARM = catalogue.load("zhang2020")
REST = State.at_rest(ARM)


def test_lanes_agree_with_adaptive_runs():
    """Every watched number, for random designs, hits of several profiles at once, and a capture."""
    rng = np.random.default_rng(2)
    late = Load.pulse("hand", (5.0, -3.0, 8.0), (1.0, 2.0, -1.0), 0.3, 0.4, "half-sine", axes="world")
    cases = [LoadCase((six_hit(),)), LoadCase((late, single_hit("mz")))]
    evaluator = Evaluator(ARM, cases, duration=30.0, step=0.01, settling=SettlingCriterion(0.1))
    stiffness, damping = rng.uniform(10.0, 80.0, (3, 8)), rng.uniform(0.5, 5.0, (3, 8))
    responses = evaluator(stiffness, damping)
    axes = soft_axes(ARM)
    for b in range(3):
        for c, case in enumerate(cases):
            exact = simulate_capture(
                ARM, REST, case.loads, duration=30.0, sample=0.01, travel="report",
                stiffness=dict(zip(axes, stiffness[b], strict=True)), damping=dict(zip(axes, damping[b], strict=True)),
            )  # fmt: skip
            peaks = responses.peaks[b, c]
            assert peaks[0] == pytest.approx(np.linalg.norm(exact.base_rate, axis=1).max(), rel=1e-4)
            assert peaks[1] == pytest.approx(np.linalg.norm(exact.base_wrench[:, :3], axis=1).max(), rel=2e-3)
            assert peaks[2] == pytest.approx(np.linalg.norm(exact.base_wrench[:, 3:], axis=1).max(), rel=1e-3)
            np.testing.assert_allclose(peaks[3:], np.abs(exact.base_wrench).max(axis=0), rtol=5e-3)
            joints = exact.states[:, 7:15]
            np.testing.assert_allclose(responses.travel[b, c, 0], joints.min(axis=0), atol=2e-5)
            np.testing.assert_allclose(responses.travel[b, c, 1], joints.max(axis=0), atol=2e-5)
            assert responses.settling[b, c] == pytest.approx(exact.settling_time(SettlingCriterion(0.1)), abs=0.02)


def test_lanes_of_a_capture():
    target = Target(Inertia(20.0, np.array([0.0, 0.0, 0.2]), np.diag([1.0, 1.2, 0.8])), (0.0, 0.01, -0.05), (0.1, 0, 0))
    caught = catch(ARM, REST, target)
    evaluator = Evaluator(caught.robot, [LoadCase((), caught.state)], duration=10.0, step=0.02)
    responses = evaluator(np.full((1, 8), 40.0), np.full((1, 8), 5.0))
    exact = simulate_capture(caught.robot, caught.state, duration=10.0, damping=5.0, sample=0.01)
    assert responses.select_objective("base_rate")[0, 0] == pytest.approx(
        np.linalg.norm(exact.base_rate, axis=1).max(), rel=1e-4
    )
    assert responses.select_objective("fz")[0, 0] == pytest.approx(np.abs(exact.base_wrench[:, 2]).max(), rel=1e-3)


def test_lanes_do_not_depend_on_threads_or_neighbours():
    evaluator = Evaluator(ARM, [LoadCase((six_hit(),))], duration=2.0, step=0.05)
    rng = np.random.default_rng(0)
    stiffness, damping = rng.uniform(5.0, 100.0, (600, 8)), rng.uniform(0.0, 5.0, (600, 8))
    all_of_them = evaluator(stiffness, damping, threads=2)
    one = evaluator(stiffness, damping, threads=1)
    np.testing.assert_array_equal(all_of_them.peaks, one.peaks)
    few = evaluator(stiffness[301:306], damping[301:306])
    np.testing.assert_array_equal(few.peaks, all_of_them.peaks[301:306])
    np.testing.assert_array_equal(few.travel, all_of_them.travel[301:306])


def test_on_off_in_lanes_tends_to_the_event_driven_run():
    from spacearm.capture import OnOff

    exact = simulate_capture(ARM, REST, [six_hit()], duration=6.0, damping=OnOff(5.0, 0.0), sample=0.01)
    want = np.abs(exact.base_wrench[:, 3:]).max(axis=0)
    gaps = []
    for step in (0.02, 0.005):
        evaluator = Evaluator(ARM, [LoadCase((six_hit(),))], duration=6.0, step=step, law="balance")
        response = evaluator(np.full((1, 8), 40.0), np.full((1, 8), 5.0))
        gaps.append(np.abs(response.peaks[0, 0, 6:] - want).max())
    assert gaps[1] < 0.5 * gaps[0] + 1e-4
    assert gaps[1] < 2e-3 * want.max()


def test_skyhook_dampers_take_energy_from_the_base():
    """Compared with none, the base is calmer; with on equal to off, the law does not matter."""
    cases = [LoadCase((six_hit(),))]
    soft, hard = np.full((1, 8), 40.0), np.full((1, 8), 5.0)
    none = Evaluator(ARM, cases, duration=20.0, step=0.02)(soft, 0.0 * hard)
    sky = Evaluator(ARM, cases, duration=20.0, step=0.02, law="skyhook")(soft, hard)
    assert sky.select_objective("moment")[0, 0] < none.select_objective("moment")[0, 0]
    plain = Evaluator(ARM, cases, duration=5.0, step=0.02)(soft, hard)
    same = Evaluator(ARM, cases, duration=5.0, step=0.02, law="skyhook", off=5.0)(soft, hard)
    np.testing.assert_allclose(same.peaks, plain.peaks, rtol=1e-12)


def test_skyhook_follows_the_inner_body():
    """Speed of the parent body along each axis, beside the united body's: by plain sums over bodies."""
    robot = catalogue.load("zhang2020_six_axis")
    n, rng = robot.n, np.random.default_rng(6)
    state = State.from_velocities(robot, rng.normal(size=n) * 0.4, rng.normal(size=n)).vector
    state[7 + n : 13 + n] = rng.normal(size=6)
    sizes = {"state": 13 + 2 * n, "inertia": 10 * (n + 1), "rotor": 0}
    symbols = {name: ca.SX.sym(name, size) for name, size in sizes.items()}
    kernel = Kernel(Program("skyhook_speed", symbols, {"follow": skyhook_speed(robot, symbols)}))
    found = kernel({"state": state, "inertia": robot.inertia_parameters.ravel()})["follow"].ravel()
    base, coupling, _ = Mechanics(robot).mass_blocks(state[7 : 7 + n])
    alone = np.array(state)
    alone[7 + n : 13 + n] = -np.linalg.solve(base, coupling @ state[13 + n :])
    bodies = evaluate_bodies(robot, alone[None])
    for i, (joint, parent) in enumerate(zip(robot.joints, robot.parents, strict=True)):
        arm = bodies.origin[0, i + 1] - bodies.origin[0, parent]
        angular_velocity = bodies.angular_velocity[0, parent]
        speed = (
            angular_velocity
            if joint.kind == "revolute"
            else bodies.velocity[0, parent] + np.cross(angular_velocity, arm)
        )
        assert found[i] == pytest.approx(bodies.axis[0, i] @ speed, abs=1e-12)


def test_designs_are_judged_by_expectation_or_by_the_worst_case():
    cases = [LoadCase((six_hit(),), probability=3.0), LoadCase((single_hit("mz"),), probability=1.0)]
    given = {"stiffness": (40.0, 40.0), "damping": (5.0, 5.0), "objectives": ("base_rate",), "runs": 128}
    expected, worst = (design(ARM, cases, over=over, **given) for over in ("expected", "worst"))
    each = expected.evaluator(np.full((1, 8), 40.0), np.full((1, 8), 5.0)).select_objective("base_rate")[0]
    assert each[0] > 1.5 * each[1]
    assert expected.values.min() == pytest.approx(0.75 * each[0] + 0.25 * each[1], rel=1e-12)
    assert worst.values.min() == pytest.approx(each[0], rel=1e-12)


@pytest.fixture(scope="module")
def front():
    cases = [LoadCase((six_hit(),), probability=0.7), LoadCase((single_hit("mx"),), probability=0.3)]
    return design(
        ARM, cases, stiffness=(10.0, 120.0), runs=2048, duration=40.0, settling=SettlingCriterion(0.1), seed=3
    )


def test_front_is_a_front_within_its_ranges(front):
    assert front.runs >= 2048
    assert len(front.values) > 20
    assert len(find_front_rows(front.values)) == len(front.values)
    assert front.stiffness.min() >= 10.0
    assert front.stiffness.max() <= 120.0 + 1e-9
    assert front.damping.min() >= 0.0
    assert front.damping.max() <= 5.0
    # No sampled design beats one on the front.
    for row in front.values[:: max(1, len(front.values) // 20)]:
        assert not np.any(np.all(front.sampled <= row, axis=1) & np.any(front.sampled < row, axis=1))


def test_front_agrees_with_adaptive_runs(front):
    assert front.verify([front.knee(), front.best("settling")]) < 0.01


def test_front_is_better_than_the_paper_s_dampers(front):
    judged = front.evaluator(np.full((1, 8), 40.0), np.full((1, 8), 5.0))
    paper = [float(judged.select_objective(name)[0] @ np.array([0.7, 0.3])) for name in front.objectives]
    assert np.any(np.all(front.values < paper, axis=1))


def test_search_repeats_itself():
    def small(seed):
        return design(
            ARM, [LoadCase((single_hit("mz"),))], stiffness=(20.0, 60.0), runs=128, duration=20.0, seed=seed,
            objectives=("mz", "settling"),
        )  # fmt: skip

    first, again, other = small(1), small(1), small(2)
    np.testing.assert_array_equal(first.values, again.values)
    assert not np.array_equal(first.values[:3], other.values[:3])


def test_single_axis_design_finds_the_known_best():
    """A z-line hit: transmitted force falls with stiffness, so its best design is at the soft end."""
    found = design(
        ARM, [LoadCase((single_hit("fz"),))], stiffness=(20.0, 60.0), damping=(5.0, 5.0), runs=512, duration=60.0,
        objectives=("fz",), settling=SettlingCriterion(0.2),
        ties=[[f"joint{k}.{axis}" for k in (1, 2) for axis in ("slide_z", "rotation_x", "rotation_y", "rotation_z")]],
    )  # fmt: skip
    assert len(found.values) == 1
    np.testing.assert_allclose(found.stiffness, 20.0, rtol=1e-3)


def test_travel_limits_the_designs():
    from spacearm.model import Limits

    joints = [
        type(j)(**{**{f: getattr(j, f) for f in j.__dataclass_fields__}, "limits": Limits(-0.02, 0.02)})
        if j.name.endswith("slide_z") else j
        for j in ARM.joints
    ]  # fmt: skip
    tight = ARM.replace(joints=tuple(joints))
    found = design(
        tight, [LoadCase((single_hit("fz"),))], stiffness=(10.0, 100.0), runs=256, duration=60.0, objectives=("fz",),
        settling=SettlingCriterion(0.2),
    )  # fmt: skip
    response = found.evaluator(found.stiffness, found.damping)
    assert np.abs(response.travel[..., [0, 4]]).max() <= 0.02
    with pytest.raises(InputError, match="no design settles"):
        design(tight, [LoadCase((single_hit("fz"),))], stiffness=(1.0, 2.0), runs=64, duration=20.0, objectives=("fz",))


def test_design_with_a_soft_contact_leaves_the_contact_alone():
    target = Target(Inertia(20.0, np.array([0.0, 0.0, 0.2]), np.diag([1.0, 1.2, 0.8])), (0.0, 0.01, -0.05), (0.1, 0, 0))
    caught = catch_softly(ARM, REST, target, SoftAxis(2000.0, 60.0))
    cases = [LoadCase((), caught.state)]
    found = design(caught.robot, cases, stiffness=(20.0, 80.0), runs=64, duration=30.0, settling=SettlingCriterion(0.3))
    assert found.axes == soft_axes(ARM)
    assert found.evaluator.step < 0.05
    assert found.verify([found.knee()]) < 0.02
    stiff = catch_softly(ARM, REST, target, SoftAxis(1e9, 1e6))
    with pytest.raises(InputError, match="stiffest design"):
        design(stiff.robot, [LoadCase((), stiff.state)], stiffness=(20.0, 80.0), runs=64)


def test_objective_and_law_errors():
    with pytest.raises(InputError, match="did you mean 'moment'"):
        design(ARM, [LoadCase((six_hit(),))], stiffness=(10.0, 20.0), objectives=("momnt",), runs=64, duration=1.0)
    with pytest.raises(InputError, match="law"):
        Evaluator(ARM, [LoadCase((six_hit(),))], law="magic")
    with pytest.raises(InputError, match="ties"):
        design(ARM, [LoadCase((six_hit(),))], stiffness=(10.0, 20.0), ties=[["nothing"]], runs=64)
    with pytest.raises(InputError, match="no soft axis"):
        design(ARM, [LoadCase((six_hit(),))], stiffness={"nothing": (1.0, 2.0)}, runs=64)
