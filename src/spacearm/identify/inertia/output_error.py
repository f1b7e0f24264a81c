"""Inertias from all samples of all channels: the motion is predicted, and ties the readings together over time.

The base's motion follows from the inertias, the state and momentum at the start, the joints' measured paths and the
known wrench (:mod:`spacearm.identify.inertia.base_motion`). What the encoders got wrong moves the prediction too; those
errors are marginalised by a filter (:mod:`spacearm.identify.whitening`). The residuals are then white, so that least
squares give the most likely inertias, with the covariance that the data allow: the Cramer-Rao bound.

What may be wrong besides the inertias (a delay, a bias, the thrust) is a column of derivatives more: it is estimated,
or tested by how much the fit would gain from it (C. R. Rao's score test, 1948).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.identify.fit import Score, score_tests
from spacearm.identify.inertia.base_motion import BaseMotion, BrokenOffError
from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.inertia_parameters import typical_sizes
from spacearm.identify.inertia.readings import Record, attitude_difference
from spacearm.identify.inertia.record_prediction import NUISANCES, Arrival, RecordPrediction, moved_state
from spacearm.identify.inertia.standard_parameters import Prior
from spacearm.identify.whitening import ErrorModel
from spacearm.measure.clean import Mask, find_outliers
from spacearm.model import Robot
from spacearm.optimise.diagnose import spectral_peak
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.typing import Array

__all__ = ["NUISANCES", "OutputErrorProblem"]

#: Names of the twelve errors of a start, and their units.
START = (*(f"{name}.{axis}" for name in ("position", "turn", "P", "L") for axis in "xyz"),)
START_UNITS = (*["m"] * 3, *["rad"] * 3, *["N s"] * 3, *["N m s"] * 3)
START_SCALES = (0.01, 1e-3, 1.0, 1.0)
#: A prediction whose attitude is further from three readings than this (rad), with so many between, lost the motion.
LOST, SPARSE = 0.1, 3
#: Name of what moves and is not modelled.
RHYTHM = "rhythm"
#: Part of a step that shows its first order.
SHORT = 1e-4


class OutputErrorProblem(Problem):
    """Inertias, nuisances and starts, as a problem for every estimator; its residuals are white.

    Args:
        robot: geometry, and the inertias to start from.
        records: of the experiments, each with the noise of its channels.
        bodies: whose inertias are looked for; those of the others are known. All, where left out.
        estimate: names of :data:`NUISANCES` to look for besides, or name to the standard deviation that it is believed
            to have about zero; the others can be tested (:meth:`scores`).
        prior: of the inertias; numbers that it knows exactly are no unknowns, and ``bodies`` is not given.
        arrival: what earlier samples of the one record say; nothing but inertias is looked for then.
    """

    def __init__(
        self,
        robot: Robot,
        records: Sequence[Record],
        bodies: Sequence[str] | None = None,
        estimate: Mapping[str, float] | Sequence[str] = (),
        prior: Prior | None = None,
        arrival: Arrival | None = None,
    ) -> None:
        believed = dict(estimate) if isinstance(estimate, Mapping) else dict.fromkeys(estimate, np.inf)
        self.believed: Mapping[str, float] = believed
        for name in believed:
            if name not in NUISANCES:
                raise InputError(f"there is no {name!r}", place="estimate", hint=did_you_mean(name, NUISANCES))
        if bodies is not None:
            rest = [name for name in robot.body_names if robot.body_index(name) not in map(robot.body_index, bodies)]
            prior = Prior.known_bodies(robot, rest)
        self.robot, self.prior, self.nuisances = robot, prior, tuple(believed)
        known = () if prior is None else prior.exact
        self.base: BaseParameters = base_parameters(robot, known)
        self.drawn = robot.inertia_parameters.ravel().copy()
        if prior is not None:
            self.drawn[list(known)] = prior.mean[list(known)]
        self.records = [RecordPrediction(robot, record, arrival) for record in records]
        self.thrusters = tuple(dict.fromkeys(name for data in self.records for name in data.thrusters))
        for name in believed:
            if not self._shown(name):
                hint = f"expected {NUISANCES[name].channel!r} with its noise, and the joints' accelerations"
                raise InputError(f"no record shows {name!r}", place="estimate", hint=hint)
        self._starts = [data.start(self.drawn) for data in self.records]
        self._last: tuple[bytes, list[tuple[Array, Array]]] | None = None
        self._kept: dict[int, tuple[bytes, Array, ErrorModel | None]] = {}
        self.zero = self.base.combine @ self.drawn
        self._count = self.base.rank
        super().__init__([*self._inertias(), *self._others(believed), *self._start_errors()], self._blocks_of(),
                         name=f"inertias of {robot.name}")  # fmt: skip

    def _inertias(self) -> list[Parameter]:
        sizes = (np.abs(self.base.combine) * typical_sizes(self.robot)).max(axis=1, initial=0.0)
        return [
            Parameter(p.name, float(guess), p.unit, scale=float(size))
            for p, guess, size in zip(self.base.parameters, self.zero, sizes, strict=True)
        ]

    def _others(self, believed: Mapping[str, float]) -> list[Parameter]:
        found = []
        for name, deviation in believed.items():
            own, many = NUISANCES[name], self.size(name)
            turns = tuple(f"{thruster}.{axis}" for thruster in self.thrusters for axis in "xyz")
            names = {-3: turns, -1: self.thrusters, 0: self.robot.joint_names}
            inner = names.get(own.size, tuple(map(str, range(many))))
            prior = (0.0, float(deviation)) if np.isfinite(deviation) else None
            texts = [f"{name}[{text}]" for text in inner] if many > 1 else [name]
            found += [Parameter(text, 0.0, own.unit, scale=own.scale, prior=prior) for text in texts[:many]]
        return found

    def _start_errors(self) -> list[Parameter]:
        names = [data.record.name for data in self.records]
        return [
            Parameter(f"{self._label(i, names)}.{name}", 0.0, unit, scale=START_SCALES[k // 3])
            for i, data in enumerate(self.records)
            for k, (name, unit) in enumerate(zip(START[: data.unknowns], START_UNITS, strict=False))
        ]

    @staticmethod
    def _label(index: int, names: Sequence[str]) -> str:
        return names[index] if names.count(names[index]) == 1 else f"{names[index]}#{index + 1}"

    def size(self, name: str) -> int:
        """How many numbers a nuisance is."""
        own = NUISANCES[name].size
        return own if own > 0 else -own * len(self.thrusters) if own < 0 else self.robot.n

    def inertia(self, x: Array) -> Array:
        """All inertias (10 (n + 1)) at unknowns ``x``."""
        return np.asarray(self.drawn + self.base.lift @ (x[: self._count] - self.zero))

    # -- residuals ------------------------------------------------------------------------------------------------

    def _blocks_of(self) -> tuple[Block, ...]:
        made, names = [], [data.record.name for data in self.records]
        for i, data in enumerate(self.records):
            axes = {"torque": self.robot.joint_names}
            channels = tuple(f"{name}.{axis}" for name in data.rows for axis in axes.get(name, "xyz"))
            residual: Callable[[Array], Array] = partial(self._residual, i)
            made.append(Block(residual, partial(self._jacobian, i), 1.0, None, self._label(i, names), channels))
            if (old := data.arrival) is not None:
                misfit = partial(lambda old, x: old.right + old.root @ (x - old.x), old)
                made.append(Block(misfit, partial(lambda old, x: old.root, old), 1.0, None, "earlier samples"))
        return tuple(made)

    def _residual(self, index: int, x: Array) -> Array:
        return self.white(x)[index][0]

    def _jacobian(self, index: int, x: Array) -> Array:
        columns = self.white(x)[index][1]
        return -columns.reshape(-1, columns.shape[2])

    def rows(self, x: Array) -> list[tuple[Array, Array]]:
        """White residuals (m,) of each record in the order of time, and their derivatives (m, p)."""
        return [(rows.ravel(), self._jacobian(i, x)) for i, (rows, _) in enumerate(self.white(x))]

    def white(self, x: Array) -> list[tuple[Array, Array]]:
        """White residuals (T, rows) of each record and the prediction's derivatives (T, rows, p)."""
        key = np.asarray(x, dtype=np.float64).tobytes() + b"".join(data.present.tobytes() for data in self.records)
        if self._last is None or self._last[0] != key:
            self._last = key, [self.white_of(i, x) for i in range(len(self.records))]
        return self._last[1]

    def white_of(
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
        usable = model is not None and np.all(np.isfinite(whole))
        white = model.white(whole, present) if model is not None and usable else np.full_like(whole, np.nan)
        return white[:, :, 0], white[:, :, 1:]

    def _columns(
        self, index: int, x: Array, tested: Sequence[str], more: Array | None, motion: BaseMotion | None
    ) -> tuple[Array, ErrorModel | None]:
        """Residuals and derivatives (T, rows, 1 + p) before they are made white; no model where the motion breaks."""
        data, start, inertia = self.records[index], self._start_at(index, x), self.inertia(x)
        directions = self.base.lift if more is None else np.concatenate([self.base.lift, more], axis=1)
        thrust, delay = self._entering(data, x)
        try:
            pushes = [name for name in (*self.nuisances, *tested) if NUISANCES[name].pushes]
            residual, named, model = data.columns(start, inertia, directions, thrust, delay, motion, pushes)
        except BrokenOffError:
            count = len(self.parameters) + sum(map(self.size, tested)) + (0 if more is None else more.shape[1])
            return np.full((*data.present.shape, 1 + count), np.nan), None
        for name in ("thrusters", "thrust_direction"):
            if name in named:
                named[name] = self._all_thrusters(data, named[name], -NUISANCES[name].size)
        named["inertia"], extra = np.split(named["inertia"], [self._count], axis=2)
        whole = np.zeros((*residual.shape, 1 + len(self.parameters)))
        columns = whole[:, :, 1:]
        columns[:, :, : self._count] = named["inertia"]
        for name in self.nuisances:
            columns[:, :, self.place(name)] = named[name]
            if name not in ("thrust", "thrusters", "delay"):  # they enter as they are, not by their derivative
                residual = residual - named[name] @ x[self.place(name)]
        columns[:, :, self._start_place(index)] = named["start"][:, :, : data.unknowns]
        whole[:, :, 0] = residual
        further = [*(named[name] for name in tested), extra]
        return (np.concatenate([whole, *further], axis=2) if tested or more is not None else whole), model

    def _entering(self, data: RecordPrediction, x: Array) -> tuple[Array, float]:
        """The scales of a record's thrusters less one, and the delay."""
        thrust = np.zeros(len(data.thrusters))
        if "thrust" in self.nuisances:
            thrust = thrust + x[self.place("thrust")]
        if "thrusters" in self.nuisances:
            thrust = thrust + x[self.place("thrusters")][[self.thrusters.index(name) for name in data.thrusters]]
        return thrust, float(x[self.place("delay")][0]) if "delay" in self.nuisances else 0.0

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
        at = len(self.parameters) - sum(data.unknowns for data in self.records[index:])
        return slice(at, at + self.records[index].unknowns)

    def _start_at(self, index: int, x: Array) -> Array:
        arrival = self.records[index].arrival
        if arrival is not None:
            return moved_state(arrival.state, arrival.by @ (x - arrival.x))
        error, own = np.zeros(12), x[self._start_place(index)]
        error[: own.size] = own
        return moved_state(self._starts[index], error)

    def started(self, values: Array) -> Array:
        """Unknowns (p,) with these base parameters, and starts as the first readings then have them."""
        x = self.guess.copy()
        x[: self._count] = values
        for index, data in enumerate(self.records):
            if data.unknowns == 12:
                x[self._start_place(index)][6:] = (data.start(self.inertia(x)) - self._starts[index])[7:]
        return x

    def stepped(self, x: Array, change: Array) -> Array:
        """Unknowns after a step along which the twists of the starts change as its first order has it.

        A step of the momentum itself would, with another inertia, start a body that turns fast with quite another rate.
        """
        trial = x + change
        for i, data in enumerate(self.records):
            if data.unknowns == 12 and data.arrival is None:
                now, soon = (data.twist(self._start_at(i, at), self.inertia(at)) for at in (x, x + SHORT * change))
                start = self._start_at(i, trial)
                momentum = data.momentum(start[:7], now + (soon - now) / SHORT, self.inertia(trial))
                trial[self._start_place(i)][6:] += momentum - start[7:]
        return trial

    def arriving(self, x: Array, last: int) -> Arrival:
        """What the samples of the one record before ``last`` say, for a problem of those from there on."""
        return self.records[0].arriving(x, self._start_at(0, x), self.inertia(x), self.base.lift, last)

    def followed(self, x: Array) -> list[int]:
        """How many samples of each record pass before the predicted attitude is far from the one that is read."""
        found = []
        for i, data in enumerate(self.records):
            start, (thrust, _) = self._start_at(i, x), self._entering(data, x)
            attitude = data.motion.run(start, self.inertia(x), 1.0 + thrust)[::2, 3:7]
            read = data.record.readings["attitude"]
            away = np.linalg.norm(attitude_difference(attitude, read), axis=1)
            lost = np.flatnonzero(np.isfinite(read).all(axis=1) & ~(away < LOST))
            # single readings may be far off
            lost = lost[:-2][lost[2:] - lost[:-2] <= 2 * SPARSE] if lost.size > 2 else lost[:0]
            found.append(int(lost[0]) if lost.size else data.record.times.size)
        return found

    def predicted(self, x: Array) -> list[Mapping[str, Array]]:
        """What each record's channels should read: (T, 3), quaternions (T, 4)."""
        return [
            data.predicted(self._start_at(i, x), self.inertia(x), *self._entering(data, x))
            for i, data in enumerate(self.records)
        ]

    # -- what else ------------------------------------------------------------------------------------------------

    @cached_property
    def testable(self) -> tuple[str, ...]:
        """Nuisances that are not estimated and that these records could show."""
        alike = ("thrusters",) if len(self.thrusters) < 2 else ()
        return tuple(n for n in NUISANCES if n not in (*self.nuisances, *alike) and self.size(n) and self._shown(n))

    def _shown(self, nuisance: str) -> bool:
        """Whether a record has the channel that shows it."""
        channel = NUISANCES[nuisance].channel
        return not channel or any(channel in data.rows for data in self.records)

    def scores(self, x: Array, names: Sequence[str] | None = None, known: bool = True) -> tuple[Score, ...]:
        """How much what is not estimated would improve the fit at its optimum ``x``.

        ``names``: nuisances to test, all that can be when not given; ``known``: test known bodies' inertias too.
        """
        tested = [name for name in self.testable if names is None or name in names]
        bodies = self._known_bodies() if known else {}
        more = np.concatenate([np.zeros((self.drawn.size, 0)), *bodies.values()], axis=1)
        white = [self.white_of(i, x, tested=tested, more=more) for i in range(len(self.records))]
        residual = np.concatenate([rows.ravel() for rows, _ in white])
        columns = np.concatenate([part.reshape(-1, part.shape[2]) for _, part in white])
        at = len(self.parameters)
        sizes = {name: (self.size(name), NUISANCES[name].advice) for name in tested} | {
            name: (part.shape[1], f"{name} does not have the inertia that is taken as known")
            for name, part in bodies.items()
        }
        ends = at + np.cumsum([count for count, _ in sizes.values()])[:-1]
        groups = dict(zip(sizes, np.split(columns, [at, *ends], axis=1)[1:], strict=True)) if sizes else {}
        found = [
            Score(name, gain, freedom, sizes[name][1], body=name in bodies, doubt=self.doubt)
            for name, gain, freedom, _ in score_tests(residual, columns[:, :at], groups)
        ]
        return tuple(found)

    @property
    def doubt(self) -> float:
        """Relative standard deviation of the variances of the noise, where they are estimates: the largest."""
        return max((value for data in self.records for value in data.record.estimated.values()), default=0.0)

    def rhythm(self, x: Array) -> Score | None:
        """The frequency at which the residuals of one record move together most; None of records that are too short."""
        found: list[Score] = []
        for data, (white, _) in zip(self.records, self.white(x), strict=True):
            peak = spectral_peak(np.where(data.present, white, 0.0)[:, data.present.any(axis=0)])
            if peak is not None:
                hertz = peak.frequency / float(np.median(np.diff(data.record.times)))
                advice = f"something that is not modelled moves at about {hertz:.2g} Hz"
                trials = peak.trials * len(self.records)
                found.append(Score(RHYTHM, peak.statistic, peak.freedom, advice, trials, doubt=self.doubt))
        return min(found, key=lambda one: one.p_value, default=None)

    def _known_bodies(self) -> dict[str, Array]:
        """Directions (10 (n + 1), k) of the numbers that are known, by body."""
        known = np.zeros(self.drawn.size, dtype=bool)
        known[list(() if self.prior is None else self.prior.exact)] = True
        unit, scale = np.eye(self.drawn.size), typical_sizes(self.robot)
        places = {name: 10 * k + np.flatnonzero(known[10 * k : 10 * k + 10])
                  for k, name in enumerate(self.robot.body_names)}  # fmt: skip
        return {name: unit[:, place] * scale[place] for name, place in places.items() if place.size}

    def without_outliers(self, x: Array) -> int:
        """Leave out readings that are far from their prediction; how many these are."""
        self.white(x)
        kept = []
        for i, data in enumerate(self.records):
            _, whole, model = self._kept[i]
            was: Mask = np.asarray(data.present, dtype=bool)
            if model is None or not np.all(np.isfinite(whole)):
                return 0
            kept.append(was & ~find_outliers(partial(_deviations, model, whole[:, :, :1]), was))
        count = self.samples
        for data, present in zip(self.records, kept, strict=True):
            data.present = present
        return count - self.samples

    @property
    def samples(self) -> int:
        """Readings that count."""
        return sum(int(data.present.sum()) for data in self.records)


def _deviations(model: ErrorModel, residual: Array, kept: Mask) -> Array:
    """White residuals (T, rows) of the readings that count; those that do not are not predicted."""
    return np.where(kept, np.abs(model.white(residual, kept)[:, :, 0]), np.inf)
