"""What the reproduction of Wojtunik et al. (2023) computes.

The paper's experiments are replaced by simulated ones with the joint of Table 2: known truth, noise and seeds.
On these: fits of each test, the paper's set-up against others (which of them is biased?), its search against
Levenberg-Marquardt (where does the simplex stall?), standard deviations over the start offset, coverage of intervals,
selection of a friction law, and what the identified joint predicts. Angles in rad, offsets in deg where a name says so;
inertia kg m2, stiffness N m/rad, damping N m s/rad.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from spacearm.engine import Mechanics
from spacearm.identify.joint import (
    JointFit,
    JointLaw,
    MeasurementChain,
    change_gear,
    frequency_response,
    hold_out,
    identify_joints,
    prepare_test,
    profile_likelihood,
    record_reference,
    sample_posterior,
    select_law,
    simulate_reference,
)
from spacearm.identify.joint.forward import Accuracy
from spacearm.identify.joint.measured import JointTest
from spacearm.identify.joint.misfit import OFF
from spacearm.identify.joint.paths import smooth_path
from spacearm.identify.joint.prediction import FrequencyResponse, HoldOutTest
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.reference_simulation import ReferenceReadings
from spacearm.identify.joint.select import Selection
from spacearm.mechanics.sensors import TorqueSensor
from spacearm.model import Robot, catalogue
from spacearm.model.edit import make_flexible
from spacearm.model.parts import Rotor
from spacearm.optimise import LeastSquares, NelderMead
from spacearm.optimise.information import covariance_at
from spacearm.optimise.posterior import Posterior, Profile
from spacearm.papers.wojtunik2023.data import (
    ACCELERATION,
    AVERAGE,
    BOUNDS,
    DEGREE,
    NEUTRAL,
    NOISE,
    OFFSETS,
    SEED,
    SENSORS,
    STATED_OFFSETS,
    TABLE2,
    motor_matrix,
    paths,
    times,
)
from spacearm.simulate import Signal
from spacearm.typing import Array

FRAME = "hand"
REPETITIONS = 200
TORQUE_SIGMA = 0.01  # N m, of a torque reading where one is compared


@dataclass(frozen=True, eq=False)
class ReferenceTests:
    """Five simulated tests, their truths and their fits."""

    robot: Robot
    truths: list[ReferenceReadings]
    tests: list[JointTest]
    fits: list[JointFit]


def _observe(
    truth: ReferenceReadings, chain: MeasurementChain, rng: np.random.Generator | None, name: str = "test", **how: bool
) -> JointTest:
    """Readings of a test whose joints were led along polynomials, with a base that starts where it is known to be."""
    record = record_reference(truth, chain, rng, name, **how)
    return prepare_test(record, chain, torque="measured", smooth=True, start_known=True, base_pose=truth.base[0])


def truth_of(
    robot: Robot,
    values: dict[str, float],
    offset_deg: float,
    law: JointLaw | None = None,
    given: dict[str, Signal] | None = None,
) -> ReferenceReadings:
    """A simulated test with this joint, led along these paths (default: with the accelerations that were assumed)."""
    along = paths() if given is None else given
    return simulate_reference(
        robot, FRAME, {"joint1": {**values, "offset": offset_deg * DEGREE}}, along, times(), law=law
    )


def _fit(robot: Robot, test: JointTest, **options: Any) -> JointFit:
    return identify_joints(robot, [test], warn=False, bounds=BOUNDS, nuisances=OFF, **options)


def campaign(robot: Robot, rows: Sequence[dict[str, float]], seed: int = SEED) -> ReferenceTests:
    """Simulated tests with these joint values, one after the other, and one fit for each."""
    chain = MeasurementChain(robot, FRAME, SENSORS)
    truths = [truth_of(robot, row, offset) for row, offset in zip(rows, OFFSETS, strict=True)]
    tests = [_observe(truth, chain, np.random.default_rng(seed + k), f"test{k + 1}") for k, truth in enumerate(truths)]
    return ReferenceTests(robot, truths, tests, [_fit(robot, test) for test in tests])


@dataclass(frozen=True)
class DriveSetups:
    """One simulated test fitted with three ways to move the model's motor.

    ``rigid_torque``: the rigid reference carries the candidate's motor inertia; ``rigid_torque_bare``: it has none.
    """

    truth: dict[str, float]
    fits: dict[str, JointFit]


def setups(
    robot: Robot, truth: ReferenceReadings, test: JointTest, as_printed: dict[str, list[PaperFit]]
) -> DriveSetups:
    """Test 2 with the torque known, with the motor's angle prescribed, with the torque of a rigid robot."""
    # The paper reads the joint's angle alone; the base's attitude is an addition.
    angle = test.select_channels(("joint1",))
    fits = {
        "motor_angle": _fit(robot, angle),
        "motor_angle_and_attitude": _fit(robot, test),
        "rigid_torque": as_printed["candidate"][1].fit,
        "rigid_torque_bare": as_printed["bare"][1].fit,
        "rigid_torque_and_attitude": _fit(robot, test, drive="rigid_torque"),
    }
    known = _add_torque_input(angle, test.encoders["joint1.motor"], truth)
    fits["torque"] = _fit(robot, known, drive="torque")
    return DriveSetups(dict(TABLE2[1]), fits)


@dataclass(frozen=True)
class PaperFit:
    """A test fitted as in the paper: root mean square error of the link's angle, and that of a rigid joint, rad."""

    fit: JointFit
    rms: float
    rigid_rms: float


def paper_fits(campaign: ReferenceTests) -> dict[str, list[PaperFit]]:
    """Every test with the torque of a rigid robot, by reading: with the candidate's motor inertia in it, or none."""
    found: dict[str, list[PaperFit]] = {}
    for reading, inertia in (("candidate", None), ("bare", 0.0)):
        found[reading] = []
        for test in campaign.tests:
            angle = test.select_channels(("joint1",))
            fit = _fit(campaign.robot, angle, drive="rigid_torque", reference_inertia=inertia)
            error, _ = fit.model.compute_raw_residuals(fit.estimate.values, 0)
            rigid = fit.model.deflection(0, "joint1")
            assert rigid is not None
            found[reading].append(PaperFit(fit, *(float(np.sqrt(np.mean(one**2))) for one in (error, rigid))))
    return found


def _add_torque_input(test: JointTest, motor: Array, truth: ReferenceReadings) -> JointTest:
    """A test whose motor angle is read, moved by the torque that held the motor on its path, as a smooth signal."""
    torque = smooth_path(truth.time, truth.torque[:, 0], pieces=128)
    return replace(test.with_channel("joint1.motor", motor, NOISE["encoder"]), torques={"joint1": torque})


@dataclass(frozen=True)
class SimplexSearches:
    """Nelder-Mead and Levenberg-Marquardt on Eq. 24 with the same start; and from many starts, on test 5."""

    nelder_mead: list[JointFit]
    marquardt: list[JointFit]
    starts: list[dict[str, float]]
    stalled: list[JointFit]  # Nelder-Mead from every start
    restarted: list[JointFit]  # from the first four of them, simplex opened again at its end
    cured: list[JointFit]  # Nelder-Mead with the stiffness that the oscillation's period gives


SIMPLEX = NelderMead(tolerance=1e-7, spread=0.3, uncertainty=False)


def searches(campaign: ReferenceTests) -> SimplexSearches:
    """Show where the simplex stalls at zero damping, and what cures it."""
    robot = campaign.robot
    angles = [test.select_channels(("joint1",)) for test in campaign.tests]
    simplex = NelderMead(tolerance=1e-7, spread=1.0, uncertainty=False)
    nelder = [_fit(robot, t, method=simplex, cost="paper", guess=NEUTRAL) for t in angles]
    marquardt = [_fit(robot, t, method=LeastSquares(), guess=NEUTRAL) for t in angles]
    rng = np.random.default_rng(SEED)
    starts = [
        {"motor_inertia": float(rng.uniform(1, 15)), "stiffness": float(rng.uniform(5, 30)),
         "damping": float(rng.uniform(0, 0.5))}
        for _ in range(8)
    ]  # fmt: skip
    fifth = angles[4]
    stalled = [_fit(robot, fifth, method=SIMPLEX, cost="paper", guess=s) for s in starts]
    again = NelderMead(tolerance=1e-7, spread=0.3, restarts=1, uncertainty=False)
    restarted = [_fit(robot, fifth, method=again, cost="paper", guess=s) for s in starts[:4]]
    # Without a given stiffness the fit estimates its start from the period of the oscillation.
    blind = [{name: value for name, value in start.items() if name != "stiffness"} for start in starts]
    cured = [_fit(robot, fifth, method=SIMPLEX, cost="paper", guess=s) for s in blind]
    return SimplexSearches(nelder, marquardt, starts, stalled, restarted, cured)


def offset_curve(robot: Robot, degrees: Array) -> dict[str, Array]:
    """Standard deviations, as shares of the values, over the start offset; from the angle alone and with attitude."""
    chain = MeasurementChain(robot, FRAME, SENSORS)
    result: dict[str, list[float]] = {}
    for offset in degrees:
        test = _observe(truth_of(robot, AVERAGE, float(offset)), chain, None)
        for label, chosen in (("angle", test.select_channels(("joint1",))), ("both", test)):
            for name, share in _deviations(robot, chosen, float(offset)).items():
                result.setdefault(f"{label}.{name}", []).append(share)
    return {name: np.array(values) for name, values in result.items()}


def _deviations(robot: Robot, test: JointTest, offset: float) -> dict[str, float]:
    """Standard deviations as shares of Table 2's averages, from one test that starts at this offset (deg)."""
    x = np.array([*AVERAGE.values(), offset * DEGREE])
    model = JointProblem(robot, [test], bounds=BOUNDS, guess={**AVERAGE, "offset": offset * DEGREE})
    sd = np.sqrt(np.diag(covariance_at(model.with_path_errors(x), x)))
    return {name: float(one / value) for name, value, one in zip(AVERAGE, x, sd, strict=False)}


#: Sizes of the accelerations, deg/s2, for which what the paper says of the offset is tried, with every choice of signs.
SIZES = (0.3, 0.6, 1.2)


def offset_ratios(robot: Robot) -> dict[str, Array]:
    """Standard deviation at test 3's offset over that at test 2's, by parameter: one for each set of accelerations."""
    chain, found = MeasurementChain(robot, FRAME, SENSORS), []
    # The paper prints no accelerations: all signs, three sizes.
    for size, signs in product(SIZES, product((1.0, -1.0), repeat=len(ACCELERATION))):
        given = paths({joint: size * sign for joint, sign in zip(ACCELERATION, signs, strict=True)})
        high, low = (
            _deviations(
                robot,
                _observe(truth_of(robot, AVERAGE, offset, given=given), chain, None).select_channels(("joint1",)),
                offset,
            )
            for offset in (STATED_OFFSETS[2], STATED_OFFSETS[3])
        )
        found.append([low[name] / high[name] for name in AVERAGE])
    return dict(zip(AVERAGE, np.array(found).T, strict=True))


def identifiability() -> dict[str, float]:
    """Standard deviation of the motor inertia as a share of it, test 2: by motor, set-up and channels."""
    printed, sensors = catalogue.load("wojtunik2023_printed"), [*SENSORS, TorqueSensor(noise=TORQUE_SIGMA)]
    found = {}
    for form, robot in (("printed", printed), ("geared", change_gear(printed, 100.0))):
        truth = truth_of(robot, TABLE2[1], OFFSETS[1])
        test = _observe(truth, MeasurementChain(robot, FRAME, sensors), None, torque=True)
        known = _add_torque_input(test.select_channels(("joint1",)), truth.joints[:, 1], truth)
        x = np.array([*TABLE2[1].values(), OFFSETS[1] * DEGREE])
        for name, drive, one in (
            ("motor_angle.angle", "motor_angle", test.select_channels(("joint1",))),
            ("motor_angle.angle_attitude", "motor_angle", test.select_channels(("joint1", "attitude.z"))),
            ("motor_angle.angle_torque", "motor_angle", test.select_channels(("joint1", "joint1.torque"))),
            ("torque.angle_motor", "torque", known),
        ):
            model = JointProblem(robot, [one], drive=drive, bounds=BOUNDS).with_path_errors(x)  # type: ignore[arg-type]
            found[f"{form}.{name}"] = float(np.sqrt(covariance_at(model, x)[0, 0]) / x[0])
    return found


def coverage(robot: Robot, repetitions: int) -> Array:
    """Share of the 95 % intervals that hold the truth of test 2 with fresh noise, by parameter."""
    chain = MeasurementChain(robot, FRAME, SENSORS)
    truth = truth_of(robot, TABLE2[1], OFFSETS[1])
    # The four parameters in the order of the estimate.
    right = np.array([*TABLE2[1].values(), OFFSETS[1] * DEGREE])
    errors = []
    for k in range(repetitions):
        test = _observe(truth, chain, np.random.default_rng([SEED, k]))
        fit = _fit(robot, test)
        errors.append((fit.estimate.values - right) / fit.estimate.std)
    return np.asarray(np.mean(np.abs(errors) < 1.959964, axis=0))


def noise_free(robot: Robot) -> float:
    """Largest relative error of the four values without noise, tests 1, 2, 3 and 5 (test 4 has no damping)."""
    worst = 0.0
    chain = MeasurementChain(robot, FRAME, SENSORS)
    for k in (0, 1, 2, 4):
        test = _observe(truth_of(robot, TABLE2[k], OFFSETS[k]), chain, None)
        fit = _fit(robot, test, accuracy=Accuracy(1e-10, 1e-12))
        right = np.array([*TABLE2[k].values(), OFFSETS[k] * DEGREE])
        worst = max(worst, float(np.max(np.abs(fit.estimate.values / right - 1.0))))
    return worst


def energy_drift(robot: Robot) -> float:
    """Relative drift of kinetic and elastic energy, joints held, b = 0, offset of test 2, over the test."""
    held = paths(dict.fromkeys(paths(), 0.0))
    values = {"joint1": {**TABLE2[1], "damping": 0.0, "offset": OFFSETS[1] * DEGREE}}
    truth = simulate_reference(robot, FRAME, values, held, times(), accuracy=Accuracy(1e-8, 1e-10))
    return float(np.ptp(truth.energy) / truth.energy[0])


def hessian(robot: Robot) -> float:
    """Largest difference between Eq. 17 and the Hessian of the motors' energy of a robot with three flexible joints."""
    inertias = np.array([3.3, 1.7, 0.9])
    for joint, inertia in (("joint2", inertias[1]), ("joint3", inertias[2])):
        robot = make_flexible(robot, joint, 5.0, 0.1, Rotor(float(inertia), 1.0))
    mechanics = Mechanics(robot)
    kernel = mechanics.kernel("mass_matrix")
    joints = np.random.default_rng(SEED).uniform(-2.0, 2.0, (20, robot.n))
    order = [5] + [6 + robot.joint_index(f"joint{i}{tail}") for tail in ("", ".motor") for i in (1, 2, 3)]
    full = mechanics.evaluate(kernel, joints=joints, rotor=inertias)["mass_matrix"]
    # The mass matrix is linear in the rotors' inertias: the difference is their part alone, at random configurations.
    bare = mechanics.evaluate(kernel, joints=joints, rotor=np.zeros(3))["mass_matrix"]
    part = (full - bare)[:, order][:, :, order]
    return float(np.max(np.abs(part - motor_matrix(inertias))))


@dataclass(frozen=True)
class CommonFit:
    """Five tests of one joint fitted at once, with everything that says how sure the values are."""

    fit: JointFit
    profiles: list[Profile]
    posterior: Posterior
    seconds: float


def common(robot: Robot) -> CommonFit:
    """Table 2's averages as the truth of all five tests."""
    chain = MeasurementChain(robot, FRAME, SENSORS)
    tests = [
        _observe(truth_of(robot, AVERAGE, offset), chain, np.random.default_rng([SEED, 5, k]), f"test{k + 1}")
        for k, offset in enumerate(OFFSETS)
    ]
    began = time.perf_counter()
    fit = identify_joints(robot, tests, bounds=BOUNDS, nuisances=OFF, warn=False)
    profiles = [profile_likelihood(fit, f"joint1.{name}", points=7) for name in AVERAGE]
    seconds = time.perf_counter() - began
    single = _fit(robot, tests[1])
    return CommonFit(fit, profiles, sample_posterior(single, steps=300, burn=50, seed=SEED), seconds)


#: Laws of simulated joints, N m: linear, and with Stribeck friction in the spring.
FRICTION_LAWS: tuple[tuple[str, JointLaw, dict[str, float]], ...] = (
    ("linear", JointLaw(), {}),
    ("stribeck", JointLaw(spring="stribeck"), {"spring_coulomb": 0.02, "spring_static": 0.05}),
)


def selections(robot: Robot) -> dict[str, Selection]:
    """Which law the data support when the truth is linear, and when it has Stribeck friction in the spring."""
    chain = MeasurementChain(robot, FRAME, SENSORS)
    laws = {"linear": JointLaw(), "cubic": JointLaw(cubic=True), "coulomb": JointLaw(spring="coulomb"),
            "stribeck": JointLaw(spring="stribeck")}  # fmt: skip
    found = {}
    for name, law, extra in FRICTION_LAWS:
        truth = truth_of(robot, {**TABLE2[1], **extra}, OFFSETS[1], law)
        test = _observe(truth, chain, np.random.default_rng([SEED, 7]))
        found[name] = select_law(robot, [test], laws, bounds=BOUNDS)
    return found


def damping_scatter(robot: Robot) -> dict[str, float]:
    """Standard deviation over mean of the damping that the paper's set-up finds in five tests of one joint, by law.

    The joint has Table 2's averages and, with the law ``stribeck``, dry friction in its spring, which the fit ignores.
    """
    chain, found = MeasurementChain(robot, FRAME, SENSORS), {}
    for name, law, extra in FRICTION_LAWS:
        values = []
        for k, offset in enumerate(OFFSETS):
            truth = truth_of(robot, {**AVERAGE, **extra}, offset, law)
            test = _observe(truth, chain, np.random.default_rng([SEED, 5, k]))
            values.append(_fit(robot, test.select_channels(("joint1",)), drive="rigid_torque")["damping"])
        found[name] = float(np.std(values, ddof=1) / np.mean(values))
    return found


@dataclass(frozen=True)
class JointPredictions:
    """What the identified joint of test 2 predicts."""

    response: FrequencyResponse
    hold_out: HoldOutTest
    test: JointTest


def use(robot: Robot, fit: JointFit) -> JointPredictions:
    """Frequency response of test 2's joint, and another motion: faster, other directions, another offset."""
    response = frequency_response(fit, np.geomspace(0.2, 20.0, 240), draws=100)[0]
    chain = MeasurementChain(robot, FRAME, SENSORS)
    other = paths({"joint1.motor": -1.0, "joint2": 0.8, "joint3": 0.4})
    truth = simulate_reference(robot, FRAME, {"joint1": {**TABLE2[1], "offset": -1.5 * DEGREE}}, other, times())
    test = _observe(truth, chain, np.random.default_rng([SEED, 9]), "hold-out")
    return JointPredictions(response, hold_out(fit, [test], bounds=BOUNDS)[0], test)


@dataclass(frozen=True)
class GearEffect:
    """Base attitude at the end of test 2, deg: printed slow motor, and the same motor behind its gear.

    ``ratios``: of the two, for each choice of the signs of joint 2's and joint 3's accelerations. ``shares``: entries
    of J_C, J_B and J_A (Eqs. 18 to 20) of the geared motor over its load-side inertia.
    """

    printed: float
    geared: float
    ratios: dict[tuple[int, int], float]
    shares: dict[str, float]


def gear() -> GearEffect:
    """The effect of the printed motor on the base, beside that of the geared one."""
    printed = catalogue.load("wojtunik2023_printed")
    values = {"joint1": {**TABLE2[1], "offset": OFFSETS[1] * DEGREE}}

    def attitude(robot: Robot, given: dict[str, Signal]) -> float:
        base = simulate_reference(robot, FRAME, values, given, times()).base[-1]
        return float(np.degrees(2.0 * np.arctan2(base[6], base[3])))

    both = (printed, change_gear(printed, 100.0))
    ratios = {}
    size = {joint: abs(value) for joint, value in ACCELERATION.items()}
    for second, third in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        motion = paths({**size, "joint2": second * size["joint2"], "joint3": third * size["joint3"]})
        slow, fast = (attitude(robot, motion) for robot in both)
        ratios[second, third] = slow / fast
    return GearEffect(attitude(both[0], paths()), attitude(both[1], paths()), ratios, _shares(both[1]))


def _shares(geared: Robot) -> dict[str, float]:
    """What the rotor adds to the mass matrix: motor with motor, base with motor, base with base."""
    mechanics = Mechanics(geared)
    kernel = mechanics.kernel("mass_matrix")
    (rotor,) = [joint.rotor for joint in geared.joints if joint.rotor is not None]
    with_it, without = (
        mechanics.evaluate(kernel, joints=np.zeros(geared.n), rotor=np.array([inertia]))["mass_matrix"]
        for inertia in (rotor.inertia, 0.0)
    )
    part = (with_it - without) / (rotor.inertia * rotor.ratio**2)
    base, motor = 5, 6 + geared.joint_index("joint1.motor")  # rotation about z, and the motor
    return {"J_C": float(part[motor, motor]), "J_B": float(part[base, motor]), "J_A": float(part[base, base])}


@dataclass(frozen=True, eq=False)
class Wojtunik2023Study:
    """Everything that was computed; ``offsets`` (deg) and ``curve`` as :func:`offset_curve` has them."""

    campaign: ReferenceTests
    setups: DriveSetups
    as_printed: dict[str, list[PaperFit]]
    searches: SimplexSearches
    offsets: Array
    curve: dict[str, Array]
    ratios: dict[str, Array]  # as offset_ratios has them
    scatter: dict[str, float]  # as damping_scatter has them
    common: CommonFit
    selections: dict[str, Selection]
    use: JointPredictions
    covered: Array  # share of the 95 % intervals that hold the truth, by parameter

    def deviation_at(self, name: str, offset: float) -> float:
        """Standard deviation over value from the angle alone, at a start offset (deg)."""
        return float(np.interp(offset, self.offsets, self.curve[f"angle.{name}"]))


def compute(robot: Robot, report: Callable[[float, str], None]) -> Wojtunik2023Study:
    """Run everything."""
    report(0.0, "five simulated tests")
    done = campaign(robot, TABLE2)
    report(0.1, "known torque, motor angle, rigid torque")
    as_printed = paper_fits(done)
    compared = setups(robot, done.truths[1], done.tests[1], as_printed)
    report(0.15, "Nelder-Mead and Levenberg-Marquardt")
    searched = searches(done)
    report(0.4, "start offsets")
    # Dense near zero, where deviations change fastest, and with the stated offsets among the points.
    degrees = np.union1d(np.sinh(np.linspace(-4.0, 4.0, 41)) * 5.0 / np.sinh(4.0), list(STATED_OFFSETS.values()))
    curve, ratios = offset_curve(robot, degrees), offset_ratios(robot)
    report(0.45, "five tests of one joint")
    together = common(robot)
    report(0.55, "which friction law")
    selected, scatter, used = selections(robot), damping_scatter(robot), use(robot, done.fits[1])
    report(0.65, f"coverage over {REPETITIONS} repetitions")
    covered = coverage(robot, REPETITIONS)
    return Wojtunik2023Study(
        done, compared, as_printed, searched, degrees, curve, ratios, scatter, together, selected, used, covered
    )
