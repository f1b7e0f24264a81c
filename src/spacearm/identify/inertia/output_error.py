"""Output-error estimation of inertias: every sample of every channel is compared with a predicted motion.

Unknowns x (p,), in this order: base parameters (r), nuisances that are estimated, and for each record the errors of its
initial state (12: position in world axes, rotation in base axes, linear and angular momentum in world axes; 6 where the
momentum is known; of a constrained base those that can be). :mod:`spacearm.identify.inertia._base_motion` integrates
the base's motion from them, along the measured joint paths and under the known wrench;
:mod:`spacearm.identify.inertia._record_prediction` turns it into residuals (T, rows), measured minus predicted, and
derivatives of the prediction (T, rows, p).

Errors of the encoders are errors of the input: each moves the predicted pose at all later samples, so that the raw
residuals are correlated over time. The innovations of a Kalman filter (:mod:`spacearm.identify._whitening`) remove this
from residuals and derivatives alike. Least squares on the white rows is then, to first order in the encoders' errors,
the maximum-likelihood estimate, and the inverse of its normal matrix the Cramer-Rao bound.

A fault that is not estimated (a delay, a bias, another thrust) is one more column of derivatives: it is tested by how
much the fit would gain from it (C. R. Rao's score test, 1948). Forces that nobody states are not modelled as process
noise: their effect grows along a record, which can be cut into shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from spacearm.checks import check_name, non_negative
from spacearm.errors import InputError, did_you_mean
from spacearm.identify._fit import Score, score_tests
from spacearm.identify._nuisances import INERTIA_NUISANCES
from spacearm.identify._whitening import ErrorModel
from spacearm.identify.inertia._base_motion import BaseMotion, BrokenOffError, ModeErrors
from spacearm.identify.inertia._modal_motion import ModalSprings
from spacearm.identify.inertia._record_prediction import PriorSummary, RecordPrediction, displace_state
from spacearm.identify.inertia.base_parameters import BaseParameters, momentum_parameters
from spacearm.identify.inertia.inertia_parameters import known_inertia_numbers, typical_sizes
from spacearm.identify.inertia.readings import MotionRecord, attitude_difference, moving_parts, record_labels
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.measure.clean import Mask, find_outliers, truncated_squares
from spacearm.model import Robot
from spacearm.optimise.consider import ConsiderParameters, FixedNumber
from spacearm.optimise.diagnose import spectral_peak
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

#: Names of the twelve errors of a start, and their units.
START = (*(f"{name}.{axis}" for name in ("position", "rotation", "P", "L") for axis in "xyz"),)
START_UNITS = (*["m"] * 3, *["rad"] * 3, *["N s"] * 3, *["N m s"] * 3)
START_SCALES = (0.01, 1e-3, 1.0, 1.0)
#: Deviation of where modes are at first (m or rad) that stands for not knowing it.
BENT = 1.0
#: Cycles that a mode may be ahead of its prediction by the end of the first span that is fitted.
COHERENT = 0.15
#: Frequencies that nobody states a deviation of are known to this share.
GUESSED = 0.05
#: A prediction whose attitude is further from three readings than this (rad), with so many between, lost the motion.
LOST, SPARSE = 0.1, 3
#: Name of what moves and is not modelled.
RHYTHM = "rhythm"
#: Part of a step that shows its first order.
SHORT = 1e-4


class OutputErrorProblem(Problem):
    """Inertias, nuisances and initial states of the records as a least-squares problem with white residuals.

    Args:
        robot: geometry, and the inertias to start from.
        records: of the experiments, each with the noise of its channels.
        bodies: bodies whose inertias are estimated; those of the others are known. All, if omitted.
        estimate: names of :data:`.INERTIA_NUISANCES` to estimate besides, or name to the standard deviation of a prior
            about zero; the others can be tested (:meth:`scores`).
        prior: of the inertias; numbers that it knows exactly are not unknowns, and ``bodies`` is not given.
        arrival: summary of earlier samples of the one record; nothing but inertias is estimated then.
    """

    def __init__(
        self,
        robot: Robot,
        records: Sequence[MotionRecord],
        bodies: Sequence[str] | None = None,
        estimate: Mapping[str, float] | Sequence[str] = (),
        prior: Prior | None = None,
        arrival: PriorSummary | None = None,
    ) -> None:
        assumed = dict(estimate) if isinstance(estimate, Mapping) else dict.fromkeys(estimate, np.inf)
        self.assumed: Mapping[str, float] = assumed
        for name in assumed:
            if name not in INERTIA_NUISANCES:
                raise InputError(f"there is no {name!r}", place="estimate", hint=did_you_mean(name, INERTIA_NUISANCES))
        if bodies is not None:
            rest = [name for name in robot.body_names if robot.body_index(name) not in map(robot.body_index, bodies)]
            prior = Prior.from_known_bodies(robot, rest)
        self.robot, self.prior, self.nuisances = robot, prior, tuple(assumed)
        self.base: BaseParameters = momentum_parameters(robot, self._exact_inertias)
        self.nominal = robot.inertia_parameters.ravel().copy()
        if prior is not None:
            # Numbers that are known exactly are the prior's, which may differ from those of the robot file.
            self.nominal[list(self._exact_inertias)] = prior.mean[list(self._exact_inertias)]
        self.records = [RecordPrediction(robot, record, arrival) for record in records]
        #: Readings of each record that are left out as too far from their prediction.
        self.outliers: list[Mask] = [np.zeros_like(data.present) for data in self.records]
        self._isolated = list(self.outliers)
        #: What they take away from the square sum of noise, in which some of them may have been.
        self.truncated = 0.0
        self.thrusters = tuple(dict.fromkeys(name for data in self.records for name in data.thrusters))
        for name in assumed:
            if not self._is_observable(name):
                hint = f"expected {INERTIA_NUISANCES[name].channel!r} with its noise, and the joints' accelerations"
                if INERTIA_NUISANCES[name].modal:
                    hint = f"robot {robot.name!r} has no modes: appendages, booms and tanks have some"
                raise InputError(f"no record can show {name!r}", place="estimate", hint=hint)
        self._starts = [data.start(self.nominal) for data in self.records]
        # Two caches: estimators ask for residuals and derivatives at the same x one after the other (_last), and
        # outliers are rejected without any change of x, which needs the filter again but not the motion (_kept).
        self._last: tuple[bytes, list[tuple[Array, Array]]] | None = None
        self._kept: dict[int, tuple[bytes, Array, ErrorModel | None]] = {}
        self.zero = self.base.combine @ self.nominal
        self._count = self.base.rank
        labels = record_labels([data.record for data in self.records])
        errors = [
            own for label, data in zip(labels, self.records, strict=True) for own in self._start_parameters(label, data)
        ]
        unknowns = [*self.base.unknowns(self.zero), *self._others(assumed), *errors]
        super().__init__(unknowns, self._blocks_of(labels), name=f"inertias of {robot.name}")

    def _others(self, assumed: Mapping[str, float]) -> list[Parameter]:
        found = []
        for name, deviation in assumed.items():
            own = INERTIA_NUISANCES[name]
            # Nuisances that are numbers of a thruster or joint are labelled by it, the others by their component.
            rotations = tuple(f"{thruster}.{axis}" for thruster in self.thrusters for axis in "xyz")
            names = {-3: rotations, -1: self.thrusters, 0: self.robot.joint_names}
            inner = self.robot.mode_names if own.modal else names.get(own.size, tuple(map(str, range(own.size))))
            prior = (0.0, float(deviation)) if np.isfinite(deviation) else None
            several = len(inner) > 1 or own.modal
            texts = [f"{name}[{inner[i]}]" if several else name for i in self._parts(name)]
            found += [Parameter(text, 0.0, own.unit, scale=own.scale, prior=prior) for text in texts]
        return found

    def _start_parameters(self, label: str, data: RecordPrediction) -> list[Parameter]:
        """Errors of a record's start."""
        found = [
            Parameter(f"{label}.{name}", 0.0, unit, scale=START_SCALES[k // 3])
            for k, (name, unit) in enumerate(zip(START, START_UNITS, strict=True))
        ]
        if data.modes:
            springs = ModalSprings(self.robot)
            joints = [self.robot.joints[i] for i in data.modes]
            turns = [joint.kind == "revolute" for joint in joints]
            # A prior far beyond any deflection: a mode that a record does not show stays where it is.
            found += [
                Parameter(f"{label}.{joint.name}", 0.0, "rad" if turn else "m", scale=0.01, prior=(0.0, BENT))
                for joint, turn in zip(joints, turns, strict=True)
            ]
            speeds = springs.inertias(self.nominal) * springs.frequency * BENT
            found += [
                Parameter(f"{label}.P({joint.name})", 0.0, unit, scale=0.01 * speed, prior=(0.0, float(speed)))
                for joint, unit, speed in zip(
                    joints, ["N m s" if turn else "N s" for turn in turns], speeds, strict=True
                )
            ]
        return [found[i] for i in data.start_errors]

    def size(self, name: str) -> int:
        """How many numbers a nuisance is."""
        return len(self._parts(name))

    def _parts(self, name: str) -> list[int]:
        """Which of a nuisance's numbers count: all, but for those along which a constrained base does not move."""
        own = INERTIA_NUISANCES[name]
        if own.modal:
            return list(range(len(self.robot.mode_names)))
        if own.size == 0:
            return list(range(self.robot.n))
        each = moving_parts(self.robot.base, own.along) if own.along else list(range(abs(own.size)))
        many = len(self.thrusters) if own.size < 0 else 1
        return [-own.size * k + i if own.size < 0 else i for k in range(many) for i in each]

    def inertia(self, x: Array) -> Array:
        """All inertias (10 (n + 1)) at unknowns ``x``."""
        # Null directions keep their nominal values: no motion depends on them.
        return np.asarray(self.nominal + self.base.lift @ (x[: self._count] - self.zero))

    # -- residuals ------------------------------------------------------------------------------------------------

    def _blocks_of(self, labels: Sequence[str]) -> tuple[Block, ...]:
        made = []
        for i, data in enumerate(self.records):
            axes = {"torque": self.robot.joint_names}
            channels = tuple(f"{name}.{axis}" for name in data.rows for axis in axes.get(name, "xyz"))
            residual: Callable[[Array], Array] = partial(self._residual, i)
            made.append(Block(residual, partial(self._jacobian, i), 1.0, None, labels[i], channels))
            if (old := data.arrival) is not None:
                # Samples dropped earlier remain as rows that are linear in x. `partial` binds `old` now: a plain
                # closure would see the loop's last value.
                misfit = partial(lambda old, x: old.right + old.root @ (x - old.x), old)
                made.append(Block(misfit, partial(lambda old, x: old.root, old), 1.0, None, "earlier samples"))
        return tuple(made)

    def _residual(self, index: int, x: Array) -> Array:
        return self.compute_white_residuals(x)[index][0]

    def _jacobian(self, index: int, x: Array) -> Array:
        columns = self.compute_white_residuals(x)[index][1]
        # Residuals are measured minus predicted, the columns derivatives of the prediction: hence the sign.
        return -columns.reshape(-1, columns.shape[2])

    def rows(self, x: Array) -> tuple[Array, Array]:
        """White residuals (m,) of all records in the order of time, and their derivatives (m, p)."""
        count = sum(data.present.size for data in self.records)
        return self.residual_vector(x)[:count], self.residual_jacobian(x)[:count]

    def compute_white_residuals(self, x: Array) -> list[tuple[Array, Array]]:
        """White residuals (T, rows) of each record and the prediction's derivatives (T, rows, p)."""
        key = self._key(x)
        if self._last is None or self._last[0] != key:
            self._last = key, [self.whiten_record(i, x) for i in range(len(self.records))]
        return self._last[1]

    def whiten_records(self, x: Array, tested: Sequence[str], more: Array) -> list[tuple[Array, Array]]:
        """The same with further columns, as in :meth:`whiten_record`."""
        white = [self.whiten_record(i, x, tested=tested, more=more) for i in range(len(self.records))]
        self._last = self._key(x), [(rows, columns[:, :, : len(self.parameters)]) for rows, columns in white]
        return white

    def _key(self, x: Array) -> bytes:
        # The rejection of outliers changes the rows at the same x, so the mask belongs to the key.
        present = b"".join(data.present.tobytes() for data in self.records)
        return np.asarray(x, dtype=np.float64).tobytes() + present

    def whiten_record(
        self,
        index: int,
        x: Array,
        *,
        tested: Sequence[str] = (),
        more: Array | None = None,
        motion: BaseMotion | None = None,
    ) -> tuple[Array, Array]:
        """Of one record; ``tested`` nuisances and inertias along ``more`` (10 (n + 1), k) as further columns."""
        plain = not tested and more is None and motion is None
        key, kept = np.asarray(x, dtype=np.float64).tobytes(), self._kept.get(index)
        if plain and kept is not None and kept[0] == key:
            _, whole, model = kept
        else:
            whole, model = self._columns(index, x, tested, more, motion)
            if plain:  # other readings may be left out along the same motion
                self._kept[index] = key, whole, model
        present = self.records[index].present
        # NaN makes the cost infinite: a search steps back from inertias with which no motion exists, instead of
        # failing.
        usable = model is not None and np.all(np.isfinite(whole))
        white = model.whiten_columns(whole, present) if model is not None and usable else np.full_like(whole, np.nan)
        return white[:, :, 0], white[:, :, 1:]

    def _columns(
        self, index: int, x: Array, tested: Sequence[str], more: Array | None, motion: BaseMotion | None
    ) -> tuple[Array, ErrorModel | None]:
        """Residuals and derivatives (T, rows, 1 + p) before they are made white; no model where the motion breaks."""
        data, start, inertia = self.records[index], self._start_at(index, x), self.inertia(x)
        directions = self.base.lift if more is None else np.concatenate([self.base.lift, more], axis=1)
        thrust, delay = self._input_errors(data, x)
        try:
            # Columns of wrenches cost a propagation each along the record: only those that are asked for.
            pushes = [name for name in (*self.nuisances, *tested) if INERTIA_NUISANCES[name].pushes]
            modes = self.mode_errors(x)
            residual, named, model = data.columns(start, inertia, directions, thrust, delay, motion, pushes, modes)
        except BrokenOffError:
            count = len(self.parameters) + sum(map(self.size, tested)) + (0 if more is None else more.shape[1])
            return np.full((*data.present.shape, 1 + count), np.nan), None
        # A record has columns of its own thrusters alone; the unknowns are those of all records.
        for name in ("thrusters", "thrust_direction"):
            if name in named:
                named[name] = self._all_thrusters(data, named[name], -INERTIA_NUISANCES[name].size)
        for name in (*self.nuisances, *tested):
            if INERTIA_NUISANCES[name].along:
                named[name] = named[name][:, :, self._parts(name)]
        named["inertia"], extra = np.split(named["inertia"], [self._count], axis=2)
        whole = np.zeros((*residual.shape, 1 + len(self.parameters)))
        columns = whole[:, :, 1:]
        columns[:, :, : self._count] = named["inertia"]
        # Most nuisances are small and enter to first order, as derivative times value. Scales of the thrust, the common
        # delay and modes have already changed the predicted motion and must not be subtracted again.
        for name in self.nuisances:
            columns[:, :, self.place(name)] = named[name]
            # These enter as they are, not by their derivative.
            if name not in ("thrust", "thrusters", "delay", "mode_frequency", "mode_damping"):
                residual = residual - named[name] @ x[self.place(name)]
        # The initial state of one record has no effect on the others: their columns stay zero.
        columns[:, :, self._start_place(index)] = named["start"][:, :, data.start_errors]
        whole[:, :, 0] = residual
        further = [*(named[name] for name in tested), extra]
        return (np.concatenate([whole, *further], axis=2) if tested or more is not None else whole), model

    def _input_errors(self, data: RecordPrediction, x: Array) -> tuple[Array, float]:
        """The scales of a record's thrusters less one, and the delay."""
        thrust = np.zeros(len(data.thrusters))
        if "thrust" in self.nuisances:
            thrust = thrust + x[self.place("thrust")]
        if "thrusters" in self.nuisances:
            thrust = thrust + x[self.place("thrusters")][[self.thrusters.index(name) for name in data.thrusters]]
        return thrust, float(x[self.place("delay")][0]) if "delay" in self.nuisances else 0.0

    def mode_errors(self, x: Array) -> ModeErrors | None:
        """How far frequencies and damping ratios are from the robot's; None without modes."""
        count = len(self.robot.mode_names)
        if not count:
            return None
        names = ("mode_frequency", "mode_damping")
        return ModeErrors(*(x[self.place(name)] if name in self.nuisances else np.zeros(count) for name in names))

    def _all_thrusters(self, data: RecordPrediction, columns: Array, each: int) -> Array:
        """Columns of a record's own thrusters, ``each`` of one, among those of all."""
        full = np.zeros((*columns.shape[:2], len(self.thrusters), each))
        for k, name in enumerate(data.thrusters):
            full[:, :, self.thrusters.index(name)] = columns[:, :, each * k : each * (k + 1)]
        return full.reshape(*columns.shape[:2], -1)

    def place(self, nuisance: str) -> slice:
        """Where a nuisance stands among the unknowns."""
        before = self.nuisances[: self.nuisances.index(nuisance)]
        at = self._count + sum(self.size(name) for name in before)
        return slice(at, at + self.size(nuisance))

    def _start_place(self, index: int) -> slice:
        at = len(self.parameters) - sum(len(data.start_errors) for data in self.records[index:])
        return slice(at, at + len(self.records[index].start_errors))

    def _start_at(self, index: int, x: Array) -> Array:
        arrival = self.records[index].arrival
        if arrival is not None:
            return displace_state(arrival.state, arrival.by @ (x - arrival.x))
        error = np.zeros(self.records[index].errors)
        error[list(self.records[index].start_errors)] = x[self._start_place(index)]
        return displace_state(self._starts[index], error)

    def start_unknowns(self, values: Array) -> Array:
        """Unknowns (p,) with these base parameters, and starts as the first readings then have them."""
        x = self.guess.copy()
        x[: self._count] = values
        for index, data in enumerate(self.records):
            # The twist is measured, the momentum follows from it and from the inertias: other inertias need another
            # initial momentum, or the prediction leaves the first readings at once.
            apart = (data.start(self.inertia(x)) - self._starts[index])[1:]
            for place, error in enumerate(data.start_errors):
                if error in data.momentum_errors:
                    x[self._start_place(index)][place] = apart[error]
        return x

    def apply_step(self, x: Array, change: Array) -> Array:
        """Unknowns after a step along which the twists of the starts change as its first order has it.

        A step of the momentum itself would, with another inertia, start a body that turns fast with quite another rate.
        """
        trial = x + change
        if "mode_damping" in self.nuisances:
            place = self.place("mode_damping")
            trial[place] = np.maximum(trial[place], self._least_damping())
        for i, data in enumerate(self.records):
            if data.record.known_momentum is None and data.arrival is None:
                # Directional derivative of the initial twist along the step, by a short forward difference.
                now, soon = (data.speeds(self._start_at(i, at), self.inertia(at)) for at in (x, x + SHORT * change))
                start, errors = self._start_at(i, trial), data.momentum_errors
                # The momentum that gives this twist with the new inertias; its error is an unknown.
                momentum = data.momentum(start, now + (soon - now) / SHORT, self.inertia(trial))
                places = [data.start_errors.index(error) for error in errors]
                trial[self._start_place(i)][places] += momentum[data.moving] - start[[1 + error for error in errors]]
        return trial

    def summarise_samples(self, x: Array, last: int) -> PriorSummary:
        """What the samples of the one record before ``last`` say, for a problem of those from there on."""
        return self.records[0].summarise_samples(x, self._start_at(0, x), self.inertia(x), self.base.lift, last)

    def count_tracked_samples(self, x: Array) -> list[int]:
        """How many samples of each record pass before the predicted attitude is far from the one that is read."""
        found = []
        for i, data in enumerate(self.records):
            start, (thrust, _) = self._start_at(i, x), self._input_errors(data, x)
            # Nodes between samples belong to the derivatives alone.
            states = data.motion.run(start, self.inertia(x), 1.0 + thrust, self.mode_errors(x))
            attitude = states[data.motion.at_samples, 3:7]
            read = data.record.readings["attitude"]
            away = np.linalg.norm(attitude_difference(attitude, read), axis=1)
            lost = np.flatnonzero(np.isfinite(read).all(axis=1) & ~(away < LOST))
            # Three bad readings within a few samples are needed: single ones may be outliers.
            lost = lost[:-2][lost[2:] - lost[:-2] <= 2 * SPARSE] if lost.size > 2 else lost[:0]
            found.append(int(lost[0]) if lost.size else data.record.times.size)
        return found

    def _least_damping(self) -> Array:
        """Changes of the damping ratios (k,) with which modes grow by no more than a factor e over the longest record:
        noise may make a ratio near zero negative, but the prediction must not run away."""
        springs = ModalSprings(self.robot)
        longest = max(float(np.ptp(data.record.times)) for data in self.records)
        return np.asarray(-1.0 / (springs.frequency * longest) - springs.ratio)

    def count_coherent_samples(self) -> list[int]:
        """How many samples of each record pass before a mode whose frequency is looked for may be out of step with its
        prediction; all where none is."""
        doubt = self.assumed.get("mode_frequency", 0.0)
        if not doubt or not self.robot.mode_names:
            return [data.record.times.size for data in self.records]
        hertz = float(ModalSprings(self.robot).frequency.max()) / (2.0 * np.pi)
        span = COHERENT / (hertz * (doubt if np.isfinite(doubt) else GUESSED))
        return [int(np.sum(data.record.times - data.record.times[0] <= span)) for data in self.records]

    def predict_channels(self, x: Array) -> list[Mapping[str, Array]]:
        """What each record's channels should read: (T, 3), quaternions (T, 4)."""
        modes = self.mode_errors(x)
        return [
            data.predict_channels(self._start_at(i, x), self.inertia(x), *self._input_errors(data, x), modes)
            for i, data in enumerate(self.records)
        ]

    # -- what else ------------------------------------------------------------------------------------------------

    @cached_property
    def testable(self) -> tuple[str, ...]:
        """Nuisances that are not estimated and that these records could show."""
        # With one thruster, its own scale and the common scale are the same column.
        alike = ("thrusters",) if len(self.thrusters) < 2 else ()
        return tuple(
            n
            for n in INERTIA_NUISANCES
            if n not in (*self.nuisances, *alike) and self.size(n) and self._is_observable(n)
        )

    def _is_observable(self, nuisance: str) -> bool:
        """Whether a record has the channel that shows it, or the robot what it is about."""
        channel = INERTIA_NUISANCES[nuisance].channel
        if INERTIA_NUISANCES[nuisance].modal:
            return bool(self.robot.mode_names)
        return not channel or any(channel in data.rows for data in self.records)

    def scores(self, x: Array, names: Sequence[str] | None = None, known: bool = True) -> tuple[Score, ...]:
        """How much what is not estimated would improve the fit at its optimum ``x``.

        ``names``: nuisances to test, all that can be when not given; ``known``: test known bodies' inertias too.
        """
        tested = [name for name in self.testable if names is None or name in names]
        bodies = self._known_directions() if known else {}
        more = np.concatenate([np.zeros((self.nominal.size, 0)), *bodies.values()], axis=1)
        white = self.whiten_records(x, tested, more)
        residual = np.concatenate([rows.ravel() for rows, _ in white])
        columns = np.concatenate([part.reshape(-1, part.shape[2]) for _, part in white])
        # Errors of fixed numbers are among the noise of the fit, so they must be among that of its tests too: otherwise
        # the tests would report faults which the stated uncertainty explains.
        residual, columns = self.whiten_joined_rows(residual), self.whiten_joined_rows(columns)
        at = len(self.parameters)
        sizes = {name: (self.size(name), INERTIA_NUISANCES[name].advice) for name in tested} | {
            name: (part.shape[1], f"{name} does not have the inertia that is taken as known")
            for name, part in bodies.items()
        }
        ends = at + np.cumsum([count for count, _ in sizes.values()])[:-1]
        groups = dict(zip(sizes, np.split(columns, [at, *ends], axis=1)[1:], strict=True)) if sizes else {}
        remedies = dict.fromkeys(bodies, "do not take it as known")
        found = [
            Score(
                name,
                gain,
                freedom,
                sizes[name][1],
                remedies.get(name, f"estimate {name!r}"),
                body=name in bodies,
                doubt=self.noise_variance_std,
            )
            for name, gain, freedom, _ in score_tests(residual, columns[:, :at], groups)
        ]
        return tuple(found)

    @property
    def noise_variance_std(self) -> float:
        """Relative standard deviation of the variances of the noise, where they are estimates: the largest."""
        return max((value for data in self.records for value in data.record.estimated.values()), default=0.0)

    def dominant_frequency(self, x: Array) -> Score | None:
        """The frequency at which the residuals of one record move together most; None of records that are too short."""
        found: list[Score] = []
        for data, white in zip(self.records, self.block_residuals(x), strict=False):
            peak = spectral_peak(np.where(data.present, white, 0.0)[:, data.present.any(axis=0)])
            if peak is not None:
                hertz = peak.frequency / float(np.median(np.diff(data.record.times)))
                advice = f"something that is not modelled moves at about {hertz:.2g} Hz"
                # The largest of many ordinates is large by chance: the p-value is multiplied by their number.
                trials = peak.trials * len(self.records)
                remedy = (
                    "a mode of a panel or of fuel, or a force that comes and goes: give the robot's file the mode "
                    "([[appendage]], [[tank]]), or hold it still"
                )
                doubt = self.noise_variance_std
                found.append(Score(RHYTHM, peak.statistic, peak.freedom, advice, remedy, trials, doubt=doubt))
        return min(found, key=lambda one: one.p_value, default=None)

    def consider_parameters(self, x: Array, deviations: Mapping[str, float]) -> ConsiderParameters | None:
        """Fixed numbers with these standard deviations, linearised at unknowns ``x``; None where none has an effect.

        ``deviations``: of nuisances that are not estimated, in their units; of known bodies' inertias by the body's
        name, or of all others by ``nominal``, as shares of each number's typical size.
        """
        allowed = (*INERTIA_NUISANCES, *self.robot.body_names, "nominal")
        for name, value in deviations.items():
            check_name(name, allowed, "fixed number", place="consider")
            non_negative(value, name, place="consider")
        tested = [name for name in self.testable if deviations.get(name, 0.0) > 0.0]
        # Directions, thruster by thruster or joint by joint, are independent numbers with the same deviation.
        numbers = [
            FixedNumber(p.name, float(deviations[name]), p.unit)
            for name in tested
            for p in self._others({name: np.inf})
        ]
        inertias = known_inertia_numbers(self.robot, self._exact_inertias, deviations)
        numbers += inertias.values()
        more = np.eye(self.nominal.size)[:, list(inertias)]
        white, count = self.whiten_records(x, tested, more), len(self.parameters)
        columns = np.concatenate([part.reshape(-1, part.shape[2])[:, count:] for _, part in white])
        return ConsiderParameters.from_derivatives(numbers, -columns)

    @property
    def _exact_inertias(self) -> tuple[int, ...]:
        """Places of the inertias that are known."""
        return () if self.prior is None else self.prior.exact

    def _known_directions(self) -> dict[str, Array]:
        """Directions (10 (n + 1), k) of the numbers that are known, by body."""
        known = np.zeros(self.nominal.size, dtype=bool)
        known[list(self._exact_inertias)] = True
        unit, scale = np.eye(self.nominal.size), typical_sizes(self.robot)
        places = {name: 10 * k + np.flatnonzero(known[10 * k : 10 * k + 10])
                  for k, name in enumerate(self.robot.body_names)}  # fmt: skip
        return {name: unit[:, place] * scale[place] for name, place in places.items() if place.size}

    def correct_paths(self, x: Array) -> bool:
        """Take derivatives of robots with modes along the most likely paths of the joints at ``x``; whether there are
        any."""
        found = False
        self.compute_white_residuals(x)
        for i, data in enumerate(self.records):
            _, whole, model = self._kept[i]
            if data.modes and np.any(data.path.variance) and model is not None and np.all(np.isfinite(whole)):
                data.correct_path(model.estimate_inputs(whole[:, :, 0], data.present))
                found = True
        if found:
            self._last, self._kept = None, {}
        return found

    def hide_isolated_readings(self) -> None:
        """Leave out readings that their neighbours contradict, until :meth:`reject_outliers` judges them: a search that
        starts with them may end so far off that good readings seem wrong."""
        self._isolated = [data.find_isolated_readings() for data in self.records]
        for data, isolated in zip(self.records, self._isolated, strict=True):
            data.present = data.present & ~isolated

    def reject_outliers(self, x: Array, *, adapt: bool = True) -> int:
        """Leave out readings that are far from their prediction; how many this changes.

        ``adapt``: nearer ones too, in channels that have outliers for certain.
        """
        self.compute_white_residuals(x)
        found: list[Mask] = []
        truncated, changed = 0.0, 0
        for i, data in enumerate(self.records):
            _, whole, model = self._kept[i]
            # The filter runs anew for each trial mask: an outlier that stays in would shift the innovations of the
            # samples after it, and good readings would be rejected with it.
            if model is None or not np.all(np.isfinite(whole)):
                return 0
            given: Mask = data.present | self.outliers[i] | self._isolated[i]
            judge = partial(_deviations, model, whole[:, :, :1])
            found.append(find_outliers(judge, given, adapt=adapt, known=self.outliers[i]))
            if found[-1].any():
                truncated += truncated_squares(judge, given, found[-1])
        # All records or none: the masks are set only when every record could be judged.
        for data, known, isolated, far in zip(self.records, self.outliers, self._isolated, found, strict=True):
            before, data.present = data.present, (data.present | known | isolated) & ~far
            changed += int(np.sum(before != data.present))
        self.outliers, self.truncated = found, truncated
        self._isolated = [np.zeros_like(far) for far in found]
        return changed

    @property
    def samples(self) -> int:
        """Number of readings that count."""
        return sum(int(data.present.sum()) for data in self.records)


def _deviations(model: ErrorModel, residual: Array, kept: Mask) -> Array:
    """White residuals (T, rows) of the readings that count; those that do not are not predicted."""
    return np.where(kept, np.abs(model.whiten_columns(residual, kept)[:, :, 0]), np.inf)
