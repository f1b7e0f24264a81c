"""The least-squares problem of a set of joint tests, with exact derivatives, for any estimator.

For test k with readings y_k(t) the residual is r_k = W_k (h(x_k(t; p, o_k)) + b_k - y_k): x_k is the forward model's
state (:mod:`~spacearm.identify.joint.forward`), p the parameters common to all tests, o_k the start offsets and b_k the
biases of this test. W_k whitens: first the noise of each sample (a Cholesky factor of its covariance over the
channels), then, where inputs were measured, what their errors do to the residuals over time
(:mod:`~spacearm.identify.joint._input_errors`, :mod:`~spacearm.identify.joint.paths`). With known noise the cost is
half a chi-square; with unknown noise its size is estimated from the residuals.

Shapes: rows are (T, channels), derivatives (T, channels, directions), flat ones (T channels, p). Derivatives are those
of the integrated tangent equations, except by the sensors' delay, which is a central difference. Missing readings are
NaN in the data and zero rows in the problem. SI units, angles in rad; base channels in world axes.

Errors of the inputs are linearised about given values and stay fixed during a search; the caller iterates.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from spacearm.checks import check_name, check_not_empty, number, unique
from spacearm.errors import InputError, SimulationError, did_you_mean
from spacearm.identify.joint._input_errors import InputErrors, input_errors
from spacearm.identify.joint._programs import Drive, Setup
from spacearm.identify.joint._start_values import check_start, start_values
from spacearm.identify.joint.flexible_joints import flexible_joints
from spacearm.identify.joint.forward import Accuracy, Forward, ForwardResponse
from spacearm.identify.joint.laws import REACH, SPECIFICATION, JointLaw
from spacearm.identify.joint.measured import BASE, JointTest, attitude
from spacearm.identify.joint.paths import PathErrors, SmoothedPath, add_signals, path_errors, smooth_path
from spacearm.identify.joint.sampling import Weighting, delay_response, weights
from spacearm.measure.clean import Mask
from spacearm.measure.units import ask_about_degrees
from spacearm.model import Robot
from spacearm.optimise.information import Information
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.simulate import Signal
from spacearm.typing import Array

#: Samples in one piece of the smooth correction added to measured torques: slow against the noise of single readings.
SLOW = 25
Bounds = Mapping[str, tuple[float, float]]


class JointProblem(Problem):
    """Residuals of a set of tests, one block each, as a function of named parameters.

    Common parameters are ``<joint>.<parameter>``; each test has its own ``<test>.<joint>.offset`` and, when asked for,
    ``<test>.<joint>.offset_rate``, and ``<test>.<channel>.bias`` of its biased channels. Residuals are whitened by the
    tests' noise.
    """

    def __init__(
        self,
        robot: Robot,
        tests: Sequence[JointTest],
        *,
        drive: Drive = "motor_angle",
        law: JointLaw | None = None,
        bounds: Bounds | None = None,
        guess: Mapping[str, float] | None = None,
        fixed: Mapping[str, float] | None = None,
        offset_rate: bool = False,
        weighting: Weighting | None = None,
        reference_inertia: float | None = None,
        accuracy: Accuracy | None = None,
        delay: bool = False,
    ) -> None:
        # Kept to build the same problem of other tests or with another drive (with_tests).
        self._options: dict[str, Any] = {"law": law, "bounds": bounds, "guess": guess, "fixed": fixed, "delay": delay,
                                         "offset_rate": offset_rate, "weighting": weighting, "accuracy": accuracy,
                                         "reference_inertia": reference_inertia}  # fmt: skip
        self.late = delay
        self.tests = tuple(tests)
        check_not_empty(self.tests, "test", place="identification")
        unique([test.name for test in self.tests], "test", place="identification")
        self.robot, self.weighting = robot, weighting
        drive = self._arrange(drive)
        pose = any(test.shows_base for test in self.tests)
        self.setup = Setup(robot, drive, law or JointLaw(), pose, reference_inertia)
        # Unknown noise is one common factor from the residuals; beside tests of known noise it would have no meaning.
        if len({test.noise is None for test in self.tests}) > 1:
            raise InputError("some tests have noise and some have none", place="identification")
        self.smoothed: list[dict[tuple[Literal["path", "torque"], str], SmoothedPath]] = [{} for _ in self.tests]
        self.path_errors: list[PathErrors | InputErrors | None] = [None] * len(self.tests)
        self.forwards = [self._forward(k, test, accuracy) for k, test in enumerate(self.tests)]
        self._white = tuple(test.whitener() for test in self.tests)
        # The torques as they were read: corrections (_centre_torques) always start from them, never from earlier
        # corrections.
        self._present, self._read = tuple(test.present for test in self.tests), list(self.smoothed)
        self._weight = [weights(weighting, test) for test in self.tests]
        self._revolutions = [
            self._whole_revolutions(test, run) for test, run in zip(self.tests, self.forwards, strict=True)
        ]
        self._each = (1 + offset_rate) * len(self.setup.flexible)  # parameters that each test has of its own
        self.biases = [(k, channel) for k, test in enumerate(self.tests) for channel in test.biases]
        self.all_names = self._all_names(("offset", "offset_rate") if offset_rate else ("offset",))
        bounds, guess, fixed = bounds or {}, guess or {}, fixed or {}
        super().__init__(self._unknowns(bounds, guess, fixed), name="flexible joints")
        self.free = [self.all_names.index(name) for name in self.names]
        # Free parameters are zero here and overwritten by complete().
        self._held = np.array([float(_look_up_parameter(fixed, name, 0.0)) for name in self.all_names])
        check_start(self, {"fixed": fixed, "guess": guess, "bounds": bounds})

    def _arrange(self, drive: Drive) -> Drive:
        """The drive, with the tests made ready for it.

        A motor on its encoder's path has that encoder as an input, not as a measurement. Where its torque is measured
        too, the torque is the input and the encoder the measurement: no path has to be differentiated twice.
        """
        motors = {f.name: self.robot.joint_names[f.motor] for f in flexible_joints(self.robot)}
        if drive != "motor_angle":
            return drive
        # Comparing a prescribed motor with its own encoder would count the reading twice.
        kept = [tuple(c for c in test.measured if c not in motors.values()) for test in self.tests]
        self.tests = tuple(t.select_channels(names) if names else t for t, names in zip(self.tests, kept, strict=True))
        # Exact or smoothed paths are differentiated safely; only plain readings make the torque the better input.
        if all(
            not test.smooth and all(f"{j}.torque" in test.measured and m not in test.paths for j, m in motors.items())
            for test in self.tests
        ):
            self.tests = tuple(test.with_torque_inputs(motors) for test in self.tests)
            return "torque"
        return drive

    def _all_names(self, starts: Sequence[str]) -> tuple[str, ...]:
        own = [f"{t.name}.{f.name}.{word}" for t in self.tests for word in starts for f in self.setup.flexible]
        biases = [f"{self.tests[k].name}.{channel}.bias" for k, channel in self.biases]
        return (*self.setup.parameters, *own, *biases, *(["sensors.delay"] if self.late else []))

    @property
    def _first_bias(self) -> int:
        return len(self.all_names) - len(self.biases) - self.late

    @property
    def offset_rate(self) -> bool:
        """Whether the spring's rate at the start of each test is unknown."""
        return bool(self._options["offset_rate"])

    def may_lag(self, channel: str) -> bool:
        """Whether a channel's sensor may be late against the encoders: those of links and base."""
        return channel in BASE or channel in {f.name for f in self.setup.flexible}

    def late_slopes(self, x: Array, test: int) -> Array:
        """Derivatives (T, channels) of the prediction by the delay of the sensors."""
        late = float(self.complete(x)[-1]) if self.late else 0.0
        values = self.outputs(x, test, self.respond(x, test))[0]
        # Small against a sample, over which the interpolating spline is smooth, and large against rounding.
        step = 1e-3 * float(np.median(np.diff(self.forwards[test].times)))
        high, low = (delay_response(self, test, late + away, values, {})[0] for away in (step, -step))
        return np.stack([(high[channel] - low[channel]) / (2.0 * step) for channel in values], axis=1)

    @property
    def noise_known(self) -> bool:
        return self._white[0] is not None

    @property
    def blocks(self) -> tuple[Block, ...]:
        sigma = 1.0 if self.noise_known else None
        return tuple(
            Block(partial(self._residual, k), partial(self._jacobian, k), sigma, None, test.name, tuple(test.measured))
            for k, test in enumerate(self.tests)
        )

    # -- set-up -------------------------------------------------------------------------------------------------

    def _forward(self, index: int, test: JointTest, accuracy: Accuracy | None) -> Forward:
        setup, names = self.setup, self.robot.joint_names
        links = {f.name for f in setup.flexible}
        for channel in test.measured:
            allowed = {*links, *(names[f.motor] for f in setup.flexible), *BASE, *(f"{x}.torque" for x in links)}
            if channel not in allowed:
                raise InputError(f"cannot be compared with channel {channel!r}", place=f"test {test.name!r}",
                                 hint=did_you_mean(channel, allowed))  # fmt: skip
        # Motors are needed under every drive: as paths, or for their position and rate at the start.
        needed = {*setup.paths, *(f.motor for f in setup.flexible)}
        given: dict[tuple[Literal["path", "torque"], str], Signal | SmoothedPath] = {
            ("path", names[i]): test.path(names[i]) for i in sorted(needed)
        }
        if setup.drive == "torque":
            given |= {("torque", f.name): test.torque(f.name) for f in setup.flexible}
        self.smoothed[index] = {key: path for key, path in given.items() if isinstance(path, SmoothedPath)}
        plain = {key: path.signal if isinstance(path, SmoothedPath) else path for key, path in given.items()}
        return Forward(setup, {joint: path for (kind, joint), path in plain.items() if kind == "path"},
                       test.time - test.time[0],
                       torques={joint: path for (kind, joint), path in plain.items() if kind == "torque"},
                       base_velocity=test.base_velocity, base_pose=test.base_pose, accuracy=accuracy)  # fmt: skip

    def _unknowns(self, bounds: Bounds, guess: Mapping[str, float], fixed: Mapping[str, float]) -> list[Parameter]:
        for what, given in (("bounds", bounds), ("guess", guess), ("fixed", fixed)):
            for name in given:
                check_name(name, (*self.all_names, *SPECIFICATION), "parameter", place=what)
        guesses = start_values(self, not ({"stiffness", f"{self.setup.flexible[0].name}.stiffness"} & {*guess, *fixed}))
        result = []
        for name in self.all_names:
            held = _look_up_parameter(fixed, name, None)
            if held is not None:
                number(held, repr(name), place="fixed")
                continue
            short = name.rsplit(".", 1)[-1]
            unit, low, high, _, size = SPECIFICATION[short]
            unit = "m" if name.endswith(tuple(f"{channel}.bias" for channel in BASE[:3])) else unit
            start = _look_up_parameter(guess, name, None)
            # Unbounded from above by nature. A box of REACH around all that is known keeps a search away from joints so
            # stiff that they cannot be integrated.
            if short in ("motor_inertia", "stiffness"):
                about = [value for value in (guesses[name], start) if value and value > 0.0] or [1.0]
                low, high = min(about) / REACH, max(about) * REACH
            low, high = _look_up_parameter(bounds, name, (low, high))
            if not low < high:
                raise InputError(f"lower bound {low:g} is not below upper bound {high:g}", place=f"bounds of {name!r}",
                                 hint="expected (lower, upper)")  # fmt: skip
            # A start on a bound would leave no descent direction in a bounded search.
            if start is None:
                room = 1e-3 * min(high - low, size)
                start = float(np.clip(guesses[name], low + room, high - room))
            result.append(Parameter(name, float(start), unit, low, high, max(size, 0.01 * abs(float(start)))))
        if not result:
            raise InputError("every parameter is fixed", place="identification")
        return result

    def _whole_revolutions(self, test: JointTest, forward: Forward) -> dict[str, float]:
        """Multiples of 2 pi (rad) by which readings of links and motors differ from the motors' paths."""
        found = {}
        for f in self.setup.flexible:
            # Encoders may count from another full revolution than vision; the median is safe against outliers.
            motor = self.robot.joint_names[f.motor]
            path = forward.paths[motor](forward.times)
            for channel, expected in ((f.name, f.ratio * path + f.rest), (motor, path)):
                if channel in test.measured:
                    changes = np.diff(test.measured[channel]), np.diff(expected)
                    ask_about_degrees(
                        *changes, (f"angles of {channel}", "readings of its motor"), f"test {test.name!r}"
                    )
                    away = float(np.nanmedian(test.measured[channel] - expected))
                    found[channel] = 2.0 * np.pi * round(away / (2.0 * np.pi))
        return found

    def deflection(self, test: int, joint: str) -> Array | None:
        """Measured link angle minus where the spring would be relaxed, or None where it is not measured."""
        measured, forward = self.tests[test].measured, self.forwards[test]
        if joint not in measured:
            return None
        (f,) = [f for f in self.setup.flexible if f.name == joint]
        motor = forward.paths[self.robot.joint_names[f.motor]](forward.times)
        found: Array = measured[joint] - self._revolutions[test][joint] - f.ratio * motor - f.rest
        return found

    def configuration(self, test: int) -> Array:
        """Joint angles at a test's start, springs relaxed."""
        paths = self.forwards[test].paths
        q = np.array([float(paths[name](0.0)) if name in paths else 0.0 for name in self.robot.joint_names])
        for f in self.setup.flexible:
            q[f.link] = f.ratio * q[f.motor] + f.rest
        return q

    # -- evaluation ---------------------------------------------------------------------------------------------

    def complete(self, x: Array) -> Array:
        """Values of all parameters from those of the free ones."""
        full = self._held.copy()
        full[self.free] = x
        return full

    def values(self, x: Array) -> dict[str, dict[str, float]]:
        """``values[joint][parameter]`` of the common parameters, fixed ones included."""
        found: dict[str, dict[str, float]] = {f.name: {} for f in self.setup.flexible}
        for name, value in zip(self.setup.parameters, self.complete(x), strict=False):
            joint, parameter = name.rsplit(".", 1)
            found[joint][parameter] = float(value)
        return found

    def split(self, full: Array, test: int) -> tuple[Array, Array, Array]:
        """Common parameters, offsets and offset rates of one test."""
        common, count = len(self.setup.parameters), len(self.setup.flexible)
        each = self._each
        own = full[common + test * each : common + (test + 1) * each]
        rate = own[count:] if each > count else np.zeros(count)
        return full[:common], own[:count], rate

    def respond(
        self, x: Array, test: int, derivatives: bool = False, forward: Forward | None = None
    ) -> ForwardResponse:
        """One test's states at the values ``x`` of the free parameters; ``forward``: with other paths."""
        parameters, offset, rate = self.split(self.complete(x), test)
        # Each stiff candidate costs thousands of steps: fail with a reason instead of searching for hours.
        if self.forwards[test].is_exhausted:
            raise SimulationError(
                "the search stays among values for which the joints are far too stiff for the samples",
                place=f"test {self.tests[test].name!r}",
                hint="give closer start values, or bounds with more motor inertia and less damping and stiffness",
            )
        return (forward or self.forwards[test])(parameters, offset, rate, derivatives=derivatives)

    def outputs(
        self,
        x: Array,
        test: int,
        response: ForwardResponse,
        forward: Forward | None = None,
        parameters: Array | None = None,
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Measured channels of a response (T,), and their derivatives (T, directions) where it has them.

        ``parameters``: of the set-up, where they are not those at ``x``.
        """
        setup, names = self.setup, self.robot.joint_names
        run = forward or self.forwards[test]
        values: dict[str, Array] = {}
        slopes: dict[str, Array] = {}
        torque: tuple[Array, Array | None] | None = None
        for channel in self.tests[test].measured:
            if channel in names:
                joint = names.index(channel)
                # A prescribed joint shows its own input: no parameter moves it.
                if joint not in setup.free:
                    values[channel] = run.paths[channel](run.times)
                    slopes[channel] = np.zeros((values[channel].size, len(setup.directions)))
                    continue
                at = setup.places["joints"].start + setup.free.index(joint)
            elif channel in BASE[:3]:
                at = setup.places["position"].start + BASE.index(channel)
            elif channel in BASE:
                # Rotation vector from the quaternion, with the chain rule through both.
                axis = BASE.index(channel) - 3
                place, slopes_of = setup.places["quaternion"], response.derivatives
                moved = None if slopes_of is None else slopes_of[:, place]
                values[channel], slope = attitude(response.states[:, place], moved, axis)
                if slope is not None:
                    slopes[channel] = slope
                continue
            else:
                # One call gives the torques of all motors: reused by the other torque channels.
                if torque is None:
                    own = self.split(self.complete(x), test)[0] if parameters is None else parameters
                    torque = run.torque(response, own)
                k = [f"{f.name}.torque" for f in setup.flexible].index(channel)
                values[channel] = torque[0][:, k]
                if torque[1] is not None:
                    slopes[channel] = torque[1][:, k]
                continue
            values[channel] = response.states[:, at]
            if response.derivatives is not None:
                slopes[channel] = response.derivatives[:, at]
        return values, slopes

    def compute_raw_residuals(
        self, x: Array, test: int, *, derivatives: bool = False, forward: Forward | None = None
    ) -> tuple[Array, Array | None]:
        """Model minus measurement (T, channels) of one test, and derivatives (T, channels, directions)."""
        values, slopes = self.outputs(x, test, self.respond(x, test, derivatives, forward), forward)
        measured = self.tests[test].measured
        # Before biases: a constant is the same at any time, and model time is what is delayed.
        if self.late:
            values, slopes = delay_response(self, test, float(self.complete(x)[-1]), values, slopes)
        first_bias, full = self._first_bias, self.complete(x)
        biases = {channel: full[first_bias + b] for b, (k, channel) in enumerate(self.biases) if k == test}
        columns = []
        for channel, seen in measured.items():
            difference = values[channel] + biases.get(channel, 0.0) - seen
            columns.append(difference + self._revolutions[test].get(channel, 0.0))
        moved = np.stack([slopes[channel] for channel in measured], axis=1) if derivatives else None
        return np.stack(columns, axis=1), moved

    def whiten_samples(self, test: int, rows: Array) -> Array:
        """Rows (T, channels, ...) with the noise of each sample made independent and of unit size."""
        white, there = self._white[test], self._present[test]
        # Zero before whitening; the whitener of such a sample has no cross terms (JointTest.whitener), so nothing
        # leaks.
        if not there.all():
            rows = np.where(there.reshape(*there.shape, *[1] * (rows.ndim - 2)), rows, 0.0)
        return rows if white is None else np.einsum("tij,tj...->ti...", white, rows)

    def sample_whitener(self, test: int) -> Array:
        """Matrices (T, channels, channels) that :meth:`whiten_samples` multiplies by."""
        white = self._white[test]
        count, channels = self._present[test].shape
        return np.broadcast_to(np.eye(channels), (count, channels, channels)) if white is None else white

    def whiten_rows(self, test: int, rows: Array, weighted: bool = True) -> Array:
        """Rows (T, channels, ...) with all noise, that of the paths too, made independent; then weighted in time."""
        rows = self.whiten_samples(test, rows)
        errors = self.path_errors[test]
        if errors is not None:
            rows = errors.whiten_rows(rows)
        return rows * self._weight[test].reshape(-1, *[1] * (rows.ndim - 1)) if weighted else rows

    def _residual(self, test: int, x: Array, weighted: bool = True) -> Array:
        """Whitened residuals (T, channels) of one test."""
        return self.whiten_rows(test, self.compute_misfit(x, test), weighted)

    def compute_misfit(self, x: Array, test: int) -> Array:
        """Prediction minus measurement (T, channels), corrected for the known deviation of the nominal inputs."""
        errors, rows = self.path_errors[test], self.compute_raw_residuals(x, test)[0]
        return rows if errors is None else np.asarray(rows + errors.shift)

    def compute_residuals(self, x: Array) -> list[Array]:
        """Whitened residuals (T, channels) of each test, whatever its weights in time."""
        return self.whiten_blocks([self._residual(k, x, weighted=False) for k in range(len(self.tests))])

    def compute_jacobian(self, x: Array) -> Array:
        """Derivatives of :meth:`compute_residuals`, flat."""
        # A copy without time weights: diagnostics judge all samples alike.
        found = copy.copy(self)
        found._weight = [np.ones_like(weight) for weight in self._weight]
        return self.whiten_joined_rows(np.concatenate([found._jacobian(k, x) for k in range(len(self.tests))]))

    def variance(self, x: Array) -> float:
        """Variance of the samples' noise, estimated from the residuals if it is not stated; otherwise 1."""
        if self.noise_known:
            return 1.0
        r = np.concatenate([rows.ravel() for rows in self.compute_residuals(x)])
        return float(r @ r) / max(self.freedom, 1)

    @property
    def freedom(self) -> int:
        """Readings less the numbers that are fitted to them."""
        unknown = sum(errors.unknown for errors in self.path_errors if errors is not None)
        return self.readings - len(self.free) - unknown

    @property
    def readings(self) -> int:
        """Number of readings that the model is compared with."""
        return sum(int(there.sum()) for there in self._present)

    def residuals_by_channel(self, x: Array) -> dict[str, dict[str, Array]]:
        """White residuals by test and channel, those of missing readings left out."""
        found = self.rows_by_channel(self.compute_residuals(x))
        for k, test in enumerate(self.tests):
            own = zip(found[test.name].items(), self._present[k].T, strict=True)
            found[test.name] = {channel: rows[there] for (channel, rows), there in own}
        return found

    def _jacobian(self, test: int, x: Array) -> Array:
        """Derivatives (T channels, p) of one test's residuals by the free parameters."""
        common, each, first_bias = len(self.setup.parameters), self._each, self._first_bias
        moved = self.compute_raw_residuals(x, test, derivatives=True)[1]
        assert moved is not None
        channels = list(self.tests[test].measured)
        own = [(b, channels.index(channel)) for b, (k, channel) in enumerate(self.biases) if k == test]
        constant = np.broadcast_to(np.eye(len(channels))[:, [c for _, c in own]], (*moved.shape[:2], len(own)))
        # Whitening is linear, so derivatives are whitened exactly like residuals.
        rows = self.whiten_rows(test, moved).reshape(-1, len(self.setup.directions))
        block = np.zeros((len(rows), len(self.all_names)))
        block[:, :common] = rows[:, :common]
        # The offsets of other tests do not move this test: their columns stay zero.
        block[:, common + test * each : common + (test + 1) * each] = rows[:, common : common + each]
        if own:
            block[:, [first_bias + b for b, _ in own]] = self.whiten_rows(test, constant).reshape(len(block), -1)
        if self.late:
            block[:, -1] = self.whiten_rows(test, self.late_slopes(x, test)).ravel()
        # A candidate whose derivatives cannot be followed to the end (very stiff) must not stop a search.
        return np.nan_to_num(block[:, self.free], nan=0.0, posinf=0.0, neginf=0.0)

    def with_path_errors(self, x: Array) -> JointProblem:
        """The problem with the errors of measured inputs among the noise, linearised about the values ``x``."""
        found = copy.copy(self)
        # _centre_torques replaces entries: the list must not be shared with this problem.
        found.smoothed = list(self.smoothed)
        found.forwards = [found._centre_torques(x, k) for k in range(len(self.tests))]
        found.path_errors = [found._errors_of_inputs(x, k) for k in range(len(self.tests))]
        return found

    def _errors_of_inputs(self, x: Array, test: int) -> PathErrors | InputErrors | None:
        smooth = self.tests[test].smooth and self.setup.drive != "torque"
        return path_errors(self, x, test) if smooth else input_errors(self, x, test)

    def without_readings(self, test: int, bad: Mask, x: Array) -> JointProblem:
        """The same without some of a test's measured readings (T, channels); ``x``: as in :meth:`with_path_errors`."""
        if not bad.any():
            return self
        found, own = copy.copy(self), self.tests[test]
        rows = {name: np.where(bad[:, k], np.nan, row) for k, (name, row) in enumerate(own.measured.items())}
        own = replace(own, measured=rows)
        for name, value in (("tests", own), ("_white", own.whitener()), ("_present", own.present)):
            whole = getattr(self, name)
            setattr(found, name, (*whole[:test], value, *whole[test + 1 :]))
        found.path_errors = list(self.path_errors)
        found.path_errors[test] = found._errors_of_inputs(x, test)
        return found

    @property
    def has_exact_inputs(self) -> bool:
        """Whether no input's errors are linearised about values."""
        return not any(isinstance(errors, InputErrors) for errors in self.path_errors)

    def with_motor_paths(self) -> JointProblem:
        """The same with motors on their encoders' paths and their torques as measurements, where these were read."""
        # A torque given as an exact signal has no readings to compare with.
        read = all(not isinstance(torque, Signal) for test in self.tests for torque in test.torques.values())
        if self.setup.drive != "torque" or not read:
            return self
        motors = {f.name: self.robot.joint_names[f.motor] for f in self.setup.flexible}
        return self.with_tests(
            [replace(test.with_motor_paths(motors), smooth=True) for test in self.tests], "motor_angle"
        )

    def with_tests(self, tests: Sequence[JointTest], drive: Drive | None = None) -> JointProblem:
        """The same of other tests, or with another drive."""
        return JointProblem(self.robot, tests, drive=drive or self.setup.drive, **self._options)

    def _centre_torques(self, x: Array, test: int) -> Forward:
        """A test's forward model with torques that keep the motors near their encoders' paths at values ``x``.

        Under torques as they were read, motors would drift away from what was seen. What is added is smooth.
        """
        run = self.forwards[test]
        if not all(("torque", f.name) in self.smoothed[test] for f in self.setup.flexible):
            return run
        parameters, offset, rate = self.split(self.complete(x), test)
        # With the motors prescribed on their encoders' paths, the model states which torques they needed at these
        # values.
        held = run.with_setup(replace(self.setup, drive="motor_angle"))
        torque = held.torque(held(parameters, offset, rate), parameters)[0]
        if not np.all(np.isfinite(torque)):
            return run
        found = copy.copy(self.smoothed[test])
        for k, f in enumerate(self.setup.flexible):
            read = self._read[test]["torque", f.name].signal
            away = torque[:, k] - read(run.times)
            # Only slow pieces are added; the readings' white errors remain to be explained by their noise.
            line = add_signals(read, smooth_path(run.times, away, pieces=max(1, away.size // SLOW)))
            run = run.with_input("torque", f.name, line)
            found["torque", f.name] = replace(found["torque", f.name], signal=line)
        self.smoothed[test] = found
        return run

    def with_paper_cost(self) -> JointProblem:
        """Eq. 24 in place of the likelihood: residuals as they are, rad; only time weights are left."""
        found = copy.copy(self)
        found._white, found.path_errors = (None,) * len(self.tests), [None] * len(self.tests)
        # Estimators without derivatives call the cost itself: it must be the paper's, too.
        found.cost = lambda xs: np.array([self.paper_cost(x) for x in xs])
        return found

    def paper_cost(self, x: Array) -> float:
        """Eq. 24: the plain sum of squares of the angle errors, rad2; weighted in time where that is wanted."""
        rows = self.with_paper_cost().residual_vector(x)
        total = float(rows @ rows)
        return total if np.isfinite(total) else float("inf")

    def covariance(self, noise: JointProblem, x: Array) -> Array:
        """Covariance (p, p) at ``x`` of the least-squares estimate of this problem under the noise of another.

        That is this problem itself, or the same tests with all their noise where this one takes the paths as exact, has
        weights in time, or Eq. 24's plain residuals. What the data do not determine has an infinite variance.
        """
        undetermined = ~np.isfinite(np.diag(Information.from_problem(self, x).covariance))
        # Scaled by typical sizes, so that the cutoff of small singular values does not depend on units.
        gain = np.linalg.pinv(self.residual_jacobian(x) * self.sizes, rcond=1e-10) * self.sizes[:, None]
        ends = np.cumsum([test.time.size * len(test.measured) for test in self.tests])[:-1]
        # The estimate is linear in the residuals: its covariance is gain C gain^T, with C = L L^T from the full noise.
        parts = [self._noise_seen(noise, k, rows) for k, rows in enumerate(np.split(gain.T, ends))]
        spread = np.concatenate(parts)
        full: Array = (spread.T @ spread) * noise.variance(x)
        full[undetermined, :] = 0.0
        full[:, undetermined] = 0.0
        full[undetermined, undetermined] = np.inf
        return full

    def _noise_seen(self, noise: JointProblem, test: int, rows: Array) -> Array:
        """Transpose of the map from independent unit noise to this model's residuals, on rows (m, p) of one test.

        ``noise`` is this model, or the one that knows the whole noise where this one takes less of it into account.
        """
        channels = len(self.tests[test].measured)
        # Transposes of the operations of whiten_rows, in reverse order: weights first, then the colouring.
        rows = rows * np.repeat(self._weight[test], channels)[:, None]
        own = noise._white[test]
        if self._white[test] is None and own is not None:
            per_sample = rows.reshape(-1, channels, rows.shape[1])
            rows = np.einsum("tji,tjp->tip", np.linalg.inv(own), per_sample).reshape(rows.shape)
        errors = noise.path_errors[test]
        if errors is None or self.path_errors[test] is not None:
            return rows
        return errors.colour_rows(rows.reshape(-1, channels, rows.shape[1])).reshape(rows.shape)


def _look_up_parameter(given: Mapping[str, Any], name: str, default: Any) -> Any:
    """The entry of a parameter: by its full name, or by its kind."""
    return given.get(name, given.get(name.rsplit(".", 1)[1], default))
