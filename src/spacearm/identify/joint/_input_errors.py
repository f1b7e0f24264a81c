"""Effect of errors of measured inputs (motor encoders, measured torques) on the residuals, and its whitening.

Every reading of an input has an independent error, interpolated linearly between readings. The model is run along a
nominal input near the readings. Two deviations move it away from there by a small amount, given by the equations of
motion linearised along the run: the known difference between readings and nominal input (a shift of the prediction),
and the readings' unknown errors (noise that is correlated over time). The latter are process noise of a linear
time-varying system, so the innovations of a Kalman filter (:mod:`spacearm.identify._whitening`) are the whitened
residuals; no smoothness of the true input is assumed, unlike in :mod:`~spacearm.identify.joint.paths`.

With the state deviation x and the input deviation u, ``x' = A x + B0 u + B1 u' + B2 u''``. A piecewise linear u has
impulses of u'' at the samples, which make x jump. The filter's state is ``z = x - B2 u'``, which is continuous; between
samples u' is constant, and one matrix exponential per interval gives ``z_(k+1) = across z_k + before u_k + after
u_(k+1)``.

Shapes: A (T, size, size), B (T, size, inputs), outputs (T, channels, size); units of the state and of the inputs. A is
averaged over each interval, which is second order in the sample interval, like the interpolation itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spacearm.identify._whitening import ErrorModel, Whitener
from spacearm.identify.joint.forward import ForwardResponse
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.identify.joint.problem import JointProblem

#: A start that nothing is known of may be off by this many deviations of a reading, and at least this far (rad, rad/s).
UNKNOWN, AT_LEAST = 1e3, 1e-2
#: Terms of the exponential's series, for matrices that are halved until their entries are below one half.
TERMS = 8


@dataclass(frozen=True, eq=False)
class InputErrors:
    """Correlation of one test's residuals due to the errors of its inputs, linearised about some values.

    ``shift`` (T, channels): what the nominal input leaves out, to be added to the prediction. ``decorrelation``
    (T, c, c) takes residuals whitened with all their noise to ones whitened without that of the inputs. ``unknown``:
    numbers of the start that only the data determine.
    """

    whitener: Whitener
    decorrelation: Array
    shift: Array
    unknown: int
    inputs: tuple[tuple[str, str], ...]
    ties: ErrorModel
    out: Array

    def propagate(self, inputs: Array) -> Array:
        """Effect (T, c) of known deviations (T, m) of the inputs on the channels."""
        return _propagate_inputs(self.ties, self.out, inputs)

    def whiten_rows(self, rows: Array) -> Array:
        """Rows (T, c, ...) of sample-whitened residuals or derivatives, made white."""
        flat = rows.reshape(*rows.shape[:2], -1)
        return np.asarray(self.whitener.whiten_columns(self.decorrelation @ flat).reshape(rows.shape))

    def colour_rows(self, rows: Array) -> Array:
        """Rows (T, c, ...) times the transpose of the inverse of :meth:`whiten_rows`, as covariances need it."""
        flat = rows.reshape(*rows.shape[:2], -1)
        return self.whitener.colour_rows(np.linalg.inv(np.swapaxes(self.decorrelation, 1, 2)) @ flat).reshape(
            rows.shape
        )

    @property
    def log_determinant(self) -> float:
        change = float(np.sum(np.log(np.abs(np.linalg.det(self.decorrelation)))))
        return self.whitener.log_determinant - 2.0 * change


def input_errors(model: JointProblem, x: Array, test: int) -> InputErrors | None:
    """Error model about the values ``x``; None where every input is exact, or the motion cannot be followed."""
    setup, forward, seen = model.setup, model.forwards[test], model.tests[test]
    states = model.respond(x, test).states
    inputs = [(key, path) for key, path in model.smoothed[test].items() if _is_driving(model, key)]
    spread, unknown = _start(model, test)
    if (not inputs and not unknown) or not np.all(np.isfinite(states)):
        return None
    a, straight, by_rate, jump = _linear(model, test, x, states, [key for key, _ in inputs])
    # Two paths by which a reading's error enters besides the equations of motion: it moves the start state, and it is
    # part of channels that were computed with the same encoder.
    entered, share = np.zeros((setup.size, len(inputs))), np.zeros((*seen.present.shape, len(inputs)))
    for i, ((_, joint), _) in enumerate(inputs):
        for column, channel in enumerate(seen.measured):
            share[:, column, i] = seen.shares.get(channel, {}).get(joint, 0.0)
        for f in setup.flexible:  # the link's offset is counted from its motor
            if model.robot.joint_names[f.motor] == joint and setup.drive == "motor_angle":
                entered[setup.places["joints"].start + setup.free.index(f.link), i] = f.ratio
    # Identity tangents: the output function then returns its derivatives by the state itself.
    everywhere = np.broadcast_to(np.eye(setup.size), (states.shape[0], setup.size, setup.size))
    rows = model.outputs(x, test, ForwardResponse(states, everywhere))[1]
    out = np.stack([rows[channel] for channel in seen.measured], axis=1)
    # Unobservable states (such as the base position when only angles are measured) would make the filter slow and its
    # covariances grow for nothing.
    kept = _observable_states(a, out)
    out, entered, spread = out[:, :, kept], entered[kept], spread[np.ix_(kept, kept)]
    parts = (block[:, kept] for block in (a[:, :, kept], straight, by_rate, jump))
    across, before, after = _discrete(forward.times, *parts)
    # With unknown noise the residuals are in units of its size, and so must the inputs' variance be.
    scale = 1.0 if model.noise_known else 1.0 / max(model.variance(x), 1e-300)
    sigmas = [path.sigma * path.doubt for _, path in inputs] or [np.zeros(0)] * forward.times.size
    variance = np.reshape(np.transpose(sigmas), (forward.times.size, len(inputs))) ** 2 * scale
    # The filter must see each error once.
    white = _whiten_without_inputs(
        model, test, share, variance
    )  # an error of a reading that a channel was made with is in both
    # Known deviation of the readings from the nominal input: shifts the prediction, adds no noise.
    left = np.stack([path.readings - path.signal(forward.times) for _, path in inputs] or [forward.times], axis=1)
    ties = ErrorModel(across, before, after, white @ out, -white @ share, variance, np.ones(out.shape[1]), entered,
                      spread * scale)  # fmt: skip
    shift = _propagate_inputs(ties, out, left[:, : len(inputs)])
    own = model.sample_whitener(test)
    # From residuals whitened with the whole noise of a sample to those whitened without the share of the inputs.
    decorrelation, names = white @ np.linalg.inv(own), tuple(key for key, _ in inputs)
    return InputErrors(ties.whitener(seen.present), decorrelation, shift, unknown, names, ties, out)


def _linear(
    model: JointProblem, test: int, x: Array, states: Array, inputs: Sequence[tuple[str, str]]
) -> tuple[Array, Array, Array, Array]:
    """Derivatives (T, size, ...) of the states' rates: by states, and by inputs, their rates and accelerations."""
    setup, size = model.setup, model.setup.size
    slopes = model.forwards[test].slopes(states, model.split(model.complete(x), test)[0])
    a, by_path, by_torque = np.split(slopes, [size, size + 3 * len(setup.paths)], axis=2)
    powers = np.zeros((3, states.shape[0], size, len(inputs)))
    for i, (kind, joint) in enumerate(inputs):
        if kind == "torque":
            powers[0, :, :, i] = by_torque[:, :, [f.name for f in setup.flexible].index(joint)]
        else:
            k = setup.paths.index(model.robot.joint_names.index(joint))
            powers[..., i] = np.moveaxis(by_path[:, :, 3 * k : 3 * k + 3], 2, 0)
    return a, powers[0], powers[1], powers[2]


def _is_driving(model: JointProblem, key: tuple[str, str]) -> bool:
    """Whether an input moves the model throughout: the path of a motor that a torque drives gives its start only."""
    kind, joint = key
    return kind == "torque" or model.robot.joint_names.index(joint) in model.setup.paths


def _start(model: JointProblem, test: int) -> tuple[Array, int]:
    """Covariance of the state at the start, and how many numbers of it are unknown: motors that are not prescribed."""
    setup, seen = model.setup, model.tests[test]
    spread, unknown = np.zeros((setup.size, setup.size)), 0
    for i, f in enumerate(setup.flexible):
        path = model.smoothed[test].get(("path", model.robot.joint_names[f.motor]))
        # A prescribed motor starts on its path: its error is that of the first reading (``entered``).
        if path is None or setup.drive != "torque":
            continue
        steps = [(setup.places["joints"].start, UNKNOWN * path.sigma)]
        if not seen.from_rest:
            steps.append(
                (setup.places["velocity"].start + 6, UNKNOWN * path.sigma / float(seen.time[1] - seen.time[0]))
            )
        for first, size in steps:
            along = np.zeros(setup.size)
            # The motor is displaced and its link with it, because the spring's offset is counted from the motor.
            along[first + i], along[first + len(setup.flexible) + i] = f.ratio, 1.0
            spread += max(size, AT_LEAST) ** 2 * np.outer(along, along)
            unknown += 1
    return spread, unknown


def _observable_states(a: Array, out: Array) -> list[int]:
    """Indices of the states that the channels depend on, directly or through other states."""
    ties = np.abs(a).max(axis=0)
    # Structural zeros of the program carry rounding after averaging.
    ties = ties > 1e-12 * max(float(ties.max()), 1e-300)
    shown = np.abs(out).max(axis=(0, 1)) > 0.0
    # Closure: whatever feeds an observed state is observed, until nothing is added.
    while True:
        more = shown | (ties[shown].any(axis=0))
        if np.array_equal(more, shown):
            return [int(k) for k in np.flatnonzero(shown)]
        shown = more


def _discrete(times: Array, a: Array, straight: Array, by_rate: Array, jump: Array) -> tuple[Array, Array, Array]:
    """``across``, ``before`` and ``after`` of the filter from the linear equations at the samples."""
    size, many = a.shape[1], straight.shape[2]
    step = np.diff(times)[:, None, None]
    # C. F. Van Loan (IEEE Trans. Automatic Control 23(3), 1978): the exponential of an augmented matrix holds the
    # transition matrix and the integrals of the inputs' effect. Augmented state: (x, u, u'), with u' constant over the
    # interval.
    full = np.zeros((len(step), size + 2 * many, size + 2 * many))
    for part, block in ((slice(0, size), a), (slice(size, size + many), straight), (slice(size + many, None), by_rate)):
        full[:, :size, part] = 0.5 * (block[1:] + block[:-1]) * step
    full[:, size : size + many, size + many :] = np.eye(many) * step
    across, by_value, by_slope = np.split(_exponential(full)[:, :size], [size, size + many], axis=2)
    # B2 u' of both ends changes x into z and back: the jump terms of z = x - B2 u'.
    by_slope = (by_slope + across @ jump[:-1] - jump[1:]) / step
    return across, by_value - by_slope, by_slope


def _exponential(matrices: Array) -> Array:
    """Exponentials of many small matrices at once: balanced (stiffness stands beside rates), scaled, squared."""
    # Diagonal balancing (rows and columns of like size) before scaling and squaring: otherwise a stiffness of 1e6
    # beside rates of 1 would take twenty needless squarings, each of which loses accuracy.
    most, ratio = np.abs(matrices).max(axis=0), np.ones(matrices.shape[1])
    np.fill_diagonal(most, 0.0)
    for _ in range(8):
        now = most * ratio / ratio[:, None]
        rows, columns = now.sum(axis=1), now.sum(axis=0)
        ratio *= np.where((rows > 0.0) & (columns > 0.0), (rows / np.maximum(columns, 1e-300)) ** 0.25, 1.0)
    scaled = matrices * ratio / ratio[:, None]
    halvings = max(0, int(np.ceil(np.log2(2.0 * max(float(np.abs(scaled).sum(axis=2).max()), 0.5)))))
    scaled, one = scaled / 2.0**halvings, np.eye(ratio.size)
    # Taylor series by Horner's rule; with row sums below one half the remainder is below 1e-8.
    result = one + scaled / TERMS
    for k in range(TERMS - 1, 0, -1):
        result = one + scaled @ result / k
    for _ in range(halvings):
        result = result @ result
    return np.asarray(result * ratio[:, None] / ratio)


def _whiten_without_inputs(model: JointProblem, test: int, share: Array, variance: Array) -> Array:
    """Whiteners (T, c, c) of the channels' own noise, less what they hold of the inputs'."""
    own = model.sample_whitener(test)
    if not share.any():
        return own
    noise = np.linalg.inv(np.swapaxes(own, 1, 2) @ own)
    # The share of the inputs cannot exceed the whole noise; stated noises may be inconsistent, so the rest is kept
    # positive.
    least = 1e-6 * np.einsum("tii->ti", noise)
    left = noise - (share * variance[:, None]) @ np.swapaxes(share, 1, 2)
    np.einsum("tii->ti", left)[...] = np.maximum(np.einsum("tii->ti", left), least)
    return np.linalg.inv(np.linalg.cholesky(left))


def _propagate_inputs(ties: ErrorModel, out: Array, inputs: Array) -> Array:
    """Effect (T, c) of known deviations (T, m) of the inputs on the channels."""
    assert ties.entered is not None
    state, rows = ties.entered @ inputs[0], []
    for k in range(len(inputs)):
        rows.append(out[k] @ state)
        if k + 1 < len(inputs):
            # Between samples an input is interpolated: its values at both ends move the state.
            state = ties.across[k] @ state + ties.before[k] @ inputs[k] + ties.after[k] @ inputs[k + 1]
    return np.array(rows)
