"""The search of :mod:`spacearm.identify.free_flight.identify`, and how certain its result is.

Unknowns x, in this order: the numbers of the device (``DEVICE``: logarithm of the wheel's inertia over its nominal
one, scale errors and cross-axis sensitivities of the gyro, tilt of the wheel, delay of its speed), then for each body
its tensor about the common mass centre (6) and the drag of the air (3), as shares of a typical inertia. The rates at
which a flight begins are unknowns as well; a QR factorisation of their columns removes them flight by flight, so that
the normal matrix has the common numbers only.

Residuals are gyro readings less rates predicted by Euler's equations (:mod:`spacearm.identify.free_flight.tumbling`),
rad/s; data sheets and known bodies are further rows. The search takes Gauss-Newton steps with Levenberg's and
Marquardt's damping (K. Levenberg 1944, D. W. Marquardt 1963). Derivatives are forward differences: all flights and all
directions are lanes of one prediction.

Residuals are not white, so their number says little about the error. Deviations come from what the estimate loses
without each flight in turn (the jackknife of J. W. Tukey, 1958), with Student's t for few flights; the larger of these
and those by white noise counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from scipy.stats import t as student

from spacearm.errors import InputError
from spacearm.identify.free_flight.flights import SUBSTEPS
from spacearm.identify.free_flight.flown_bodies import (
    DEVICE,
    BodyEstimate,
    DeviceDoubt,
    FlownBody,
    FreeFlightIdentification,
)
from spacearm.identify.free_flight.tumbling import (
    point_tensor,
    predict_rates,
    regress_tensor,
    six_numbers,
    symmetric,
)
from spacearm.typing import Array

#: Numbers of a body: its tensor, and the drag of the air, as shares of a typical inertia.
OWN, DRAG = 9, 0.01
#: Fewer flights of a body than this are cut into intervals, so many together, whose scatter is judged.
FEW, BLOCKS = 4, 8
#: Steps of the search.
STEPS = 30
#: Forward differences, in the units of the numbers.
SHORT = 1e-6
#: A change of the cost (relative) below which the search has converged.
SMALL = 1e-7


@dataclass(eq=False)
class FlightFit:
    bodies: Sequence[FlownBody]
    axis: Array
    nominal: float
    device_mass: float
    doubt: DeviceDoubt
    with_drag: bool
    converged: bool = False
    arms: list[Array | None] = field(default_factory=list)
    arm_sd: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.axis = self.axis / np.linalg.norm(self.axis)
        # Two directions across the wheel's axis, in which it may be tilted; the coordinate axis furthest from it makes
        # them well defined.
        away = np.eye(3)[int(np.argmin(np.abs(self.axis)))]
        first = np.cross(self.axis, away)
        self.sideways = np.array([first / np.linalg.norm(first), np.cross(self.axis, first / np.linalg.norm(first))])
        alone = [k for k, body in enumerate(self.bodies) if body.mass == 0.0]
        if len(alone) > 1:
            raise InputError("two bodies have no mass", place="body", hint="expected one: the device alone")
        self.alone = alone[0] if alone else None
        self.flights = [(k, flight) for k, body in enumerate(self.bodies) for flight in body.flights]
        self.count = len(DEVICE) + OWN * len(self.bodies)
        self.x = np.zeros(self.count)
        self.units = np.zeros(len(self.bodies))
        for k, body in enumerate(self.bodies):
            parts = [
                regress_tensor(one.rate, self.nominal * one.wheel_speed(one.times.size, 0.0)[:: 2 * SUBSTEPS],
                               self.axis, one.step)
                for one in body.flights
            ]  # fmt: skip
            # The median over flights: a start that one bad flight cannot spoil.
            start = self._make_possible(np.median(parts, axis=0))
            self.units[k] = start[:3].mean()
            self.x[self.own(k)][:6] = start / self.units[k]
        self.starts = [one.rate[0].copy() for _, one in self.flights]
        self.sigma = np.full((len(self.bodies), 3), 0.03)
        self.arms, self.arm_sd = [None] * len(self.bodies), [np.zeros(3) for _ in self.bodies]
        self.locate_mass_centres()

    @staticmethod
    def _make_possible(numbers: Array) -> Array:
        """The nearest positive tensor: noise must not make a start singular."""
        values, vectors = np.linalg.eigh(symmetric(numbers))
        values = np.clip(np.abs(values), 0.05 * np.abs(values).max(), None)
        return six_numbers(vectors * values @ vectors.T)

    def own(self, k: int) -> slice:
        """Places of a body's numbers."""
        return slice(len(DEVICE) + OWN * k, len(DEVICE) + OWN * (k + 1))

    # -- prediction -----------------------------------------------------------------------------------------------

    def predict(self, flights: Sequence[int], device: Array, own: Array, starts: Array) -> list[Array]:
        """Gyro readings (T, 3) of lanes: a flight each, with its numbers (B, ...)."""
        # Values that are none would be sought forever: LAPACK's singular values do not end with them.
        if not all(np.isfinite(each).all() for each in (device, own, starts)):
            raise np.linalg.LinAlgError("numbers are not finite")
        longest = max(self.flights[i][1].times.size for i in flights)
        step = self.flights[flights[0]][1].step
        # The logarithm keeps the wheel's inertia above zero, and its error is a relative one.
        inertia = self.nominal * np.exp(device[:, 0])
        # Lanes of one flight share the wheel's speed: only the delay changes it.
        speeds: dict[tuple[int, float], Array] = {}
        for i, late in zip(flights, device[:, 9].tolist(), strict=True):
            if (i, late) not in speeds:
                speeds[i, late] = self.flights[i][1].wheel_speed(longest, late)
        lanes = zip(flights, device[:, 9].tolist(), strict=True)
        wheel = inertia[:, None] * np.stack([speeds[lane] for lane in lanes])
        axis = self.axis + device[:, 7:9] @ self.sideways
        axis /= np.linalg.norm(axis, axis=1, keepdims=True)
        units = np.array([self.units[self.flights[i][0]] for i in flights])[:, None]
        rates = predict_rates(symmetric(own[:, :6] * units), axis, DRAG * own[:, 6:] * units, starts, wheel, step)
        # Sensitivities about one: scales on the diagonal, cross-axis beside it.
        seen = rates + rates * device[:, None, 1:4] + self._cross_sensitivity(rates, device[:, None, 4:7])
        return [one[: self.flights[i][1].times.size] for i, one in zip(flights, seen, strict=True)]

    @staticmethod
    def _cross_sensitivity(rate: Array, cross: Array) -> Array:
        x, y, z = np.moveaxis(rate, -1, 0)
        xy, xz, yz = np.moveaxis(np.broadcast_to(cross, rate.shape), -1, 0)
        return np.stack([xy * y + xz * z, xy * x + yz * z, xz * x + yz * y], axis=-1)

    def residuals(self, x: Array, starts: Sequence[Array]) -> list[Array]:
        """Measured less predicted (T, 3) of each flight, rad/s."""
        index = list(range(len(self.flights)))
        own = np.stack([x[self.own(k)] for k, _ in self.flights])
        device = np.broadcast_to(x[: len(DEVICE)], (len(index), len(DEVICE)))
        found = self.predict(index, device, own, np.stack(starts))
        return [one.rate - seen for (_, one), seen in zip(self.flights, found, strict=True)]

    def derivatives(self, x: Array, starts: Sequence[Array]) -> list[tuple[Array, Array]]:
        """White residuals (m,) of each flight and derivatives (m, device + own + 3) of the prediction."""
        many, size = len(self.flights), len(DEVICE) + OWN + 3
        parts = [(x[: len(DEVICE)], x[self.own(k)], start) for (k, _), start in zip(self.flights, starts, strict=True)]
        base = np.stack([np.concatenate(part) for part in parts])
        lanes = np.repeat(base[:, None, :], size + 1, axis=1)
        # Lane 0 is the point itself, each other lane one number further on.
        lanes[:, 1:] += SHORT * np.eye(size)
        flat = lanes.reshape(-1, size)
        index = np.repeat(np.arange(many), size + 1).tolist()
        cut = len(DEVICE)
        seen = self.predict(index, flat[:, :cut], flat[:, cut : cut + OWN], flat[:, cut + OWN :])
        found = []
        for i, (k, flight) in enumerate(self.flights):
            own = np.stack(seen[i * (size + 1) : (i + 1) * (size + 1)])
            white = ((flight.rate - own[0]) / self.sigma[k]).ravel()
            slopes = ((own[1:] - own[0]) / SHORT / self.sigma[k]).reshape(size, -1).T
            if not self.with_drag:
                slopes[:, cut + 6 : cut + OWN] = 0.0
            found.append((white, slopes))
        return found

    # -- search ---------------------------------------------------------------------------------------------------

    def calibrations(self, x: Array) -> Array:
        """Residuals of what is known: the device's numbers, tensors of known bodies; in deviations."""
        rows = [-x[: len(DEVICE)] / self.doubt.deviations]
        for k, body in enumerate(self.bodies):
            if body.known is not None:
                away = six_numbers(body.known) - self.body_tensor(k, x)
                size = np.trace(body.known) / 3.0 * body.known_sd
                deviation = np.sqrt(size**2 + np.sum((self._by_arm(k) * self._arm_doubt(k)) ** 2, axis=1))
                rows.append(away / deviation)
        # Without drag its numbers stay at zero.
        if not self.with_drag:
            rows += [-x[self.own(k)][6:] for k in range(len(self.bodies))]
        return np.concatenate(rows)

    def _calibration_slopes(self, x: Array) -> Array:
        base = self.calibrations(x)
        columns = [(self.calibrations(x + SHORT * unit) - base) / SHORT for unit in np.eye(self.count)]
        return np.stack(columns, axis=1)

    def cost(self, x: Array, starts: Sequence[Array]) -> float:
        parts = [
            np.sum((one / self.sigma[k]) ** 2)
            for (k, _), one in zip(self.flights, self.residuals(x, starts), strict=True)
        ]
        total = float(sum(parts) + np.sum(self.calibrations(x) ** 2))
        return total if np.isfinite(total) else np.inf

    def search(self) -> None:
        """Damped Gauss-Newton steps until the cost no longer falls."""
        # Slight damping from the start: scale of the gyro, wheel and tensors are nearly proportional to each other.
        damping, self.converged = 1e-4, False
        before = self.cost(self.x, self.starts)
        for _ in range(STEPS):
            reduced = self.reduce()
            normal, right = self.stack(reduced)
            # The start rates follow the change of the common numbers exactly, by the rows that were eliminated.
            while damping < 1e8:
                damped = normal + damping * np.diag(np.diag(normal) + 1e-12)
                change = np.asarray(np.linalg.solve(damped, right), np.float64)
                starts = [
                    start + one.start(change[one.places]) for start, one in zip(self.starts, reduced, strict=True)
                ]
                after = self.cost(self.x + change, starts)
                if after < before:
                    break
                damping *= 10.0
            if not after < before:
                self.converged = True
                return
            self.x, self.starts, damping = self.x + change, starts, max(damping / 10.0, 1e-12)
            small, before = before - after < SMALL * after, after
            if small:
                self.converged = True
                return

    def reduce(self) -> list[_Reduced]:
        """Each flight without its start rates."""
        found = []
        for (k, _), (white, slopes) in zip(self.flights, self.derivatives(self.x, self.starts), strict=True):
            places = np.concatenate([np.arange(len(DEVICE)), np.arange(self.own(k).start, self.own(k).stop)])
            # What is orthogonal to the start's three columns does not depend on the start.
            q, r = np.linalg.qr(slopes[:, -3:])
            shared = slopes[:, :-3]
            found.append(_Reduced(places, white - q @ (q.T @ white), shared - q @ (q.T @ shared), q, r, white, shared))
        return found

    def stack(self, reduced: Sequence[_Reduced]) -> tuple[Array, Array]:
        """Normal matrix (p, p) and right side of the common numbers."""
        normal, right = np.zeros((self.count, self.count)), np.zeros(self.count)
        for one in reduced:
            normal[np.ix_(one.places, one.places)] += one.slopes.T @ one.slopes
            right[one.places] += one.slopes.T @ one.white
        slopes = self._calibration_slopes(self.x)
        return normal + slopes.T @ slopes, right - slopes.T @ self.calibrations(self.x)

    def estimate_noise(self) -> None:
        """Standard deviations (bodies, 3) from the residuals themselves."""
        rows = self.residuals(self.x, self.starts)
        for k in range(len(self.bodies)):
            own = np.concatenate([row for (j, _), row in zip(self.flights, rows, strict=True) if j == k])
            self.sigma[k] = np.maximum(np.sqrt(np.mean(own**2, axis=0)), 1e-6)

    # -- mass centres and attached bodies ----------------------------------------------------------------------------

    def locate_mass_centres(self) -> None:
        """Mass centres (3,) from the sensor's place, m: accelerations of a point of a free body tell its arm.

        a = -(dw/dt x c + w x (w x c)), linear in c, with predicted rates.
        """
        rows = self.residuals(self.x, self.starts)
        for k in range(len(self.bodies)):
            found = []
            for (j, flight), row in zip(self.flights, rows, strict=True):
                if j != k or flight.acceleration is None:
                    continue
                rate = flight.rate - row
                slope = np.gradient(rate, flight.step, axis=0)
                # Differences of the first and last two samples are one-sided: they are left out.
                matrix = -(_cross_matrices(slope) + _cross_matrices(rate) @ _cross_matrices(rate))[2:-2]
                found.append((matrix.reshape(-1, 3), flight.acceleration[2:-2].ravel()))
            if not found:
                continue
            normal = np.sum([m.T @ m for m, _ in found], axis=0)
            arm = np.asarray(np.linalg.solve(normal, np.sum([m.T @ a for m, a in found], axis=0)), np.float64)
            # The jackknife here too: each flight's pull on the common estimate.
            moves = np.array([np.linalg.solve(normal, m.T @ (a - m @ arm)) for m, a in found])
            self.arms[k], self.arm_sd[k] = arm, np.sqrt(np.sum(moves**2, axis=0))

    def body_tensor(self, k: int, x: Array) -> Array:
        """Tensor (6,) of what is attached, about its own mass centre; of all where it cannot be parted."""
        # Tensors about a common point add up: what is attached is the whole less the device and less what both have by
        # their distance (Steiner with the reduced mass).
        whole = x[self.own(k)][:6] * self.units[k]
        arm = self._arm(k)
        if arm is None or self.alone is None:
            return np.asarray(whole)
        device = x[self.own(self.alone)][:6] * self.units[self.alone]
        return np.asarray(whole - device - six_numbers(point_tensor(self._reduced_mass(k), arm)))

    def _arm(self, k: int) -> Array | None:
        """From the device's mass centre to the common one, m; None of the device alone and without accelerometers."""
        if self.alone is None or k == self.alone:
            return None
        one, other = self.arms[k], self.arms[self.alone]
        return None if one is None or other is None else np.asarray(one - other)

    def _reduced_mass(self, k: int) -> float:
        # m_d s^2 + m_b r^2 with r = m_d / m_b s, where s is the device's distance from the common mass centre.
        return self.device_mass * (1.0 + self.device_mass / self.bodies[k].mass)

    def _by_arm(self, k: int) -> Array:
        """Derivative (6, 3) of the attached tensor by the arm."""
        arm = self._arm(k)
        if arm is None:
            return np.zeros((6, 3))
        mass, step = self._reduced_mass(k), 1e-6 * np.eye(3)
        # Quadratic in the arm: central differences are exact.
        sides = [point_tensor(mass, arm + one) - point_tensor(mass, arm - one) for one in step]
        return -np.stack([six_numbers(one) / 2e-6 for one in sides], axis=1)

    def _arm_doubt(self, k: int) -> Array:
        other = np.zeros(3) if self.alone is None else self.arm_sd[self.alone]
        return np.sqrt(self.doubt.arm**2 + self.arm_sd[k] ** 2 + other**2)

    # -- results --------------------------------------------------------------------------------------------------

    def summarise(self) -> FreeFlightIdentification:
        reduced = self.reduce()
        normal, _ = self.stack(reduced)
        inverse = np.linalg.inv(normal + 1e-12 * np.diag(np.diag(normal) + 1.0))
        # What the estimate loses without one flight, by its own rows; the known numbers are not flights.
        clusters = [part for (k, _), one in zip(self.flights, reduced, strict=True) for part in self._cut(k, one)]
        moves = np.zeros((len(clusters), self.count))
        for i, (places, slopes, white) in enumerate(clusters):
            rest = normal.copy()
            rest[np.ix_(places, places)] -= slopes.T @ slopes
            right = np.zeros(self.count)
            right[places] = slopes.T @ white
            moves[i] = np.linalg.lstsq(rest, right, rcond=1e-12)[0]
        beliefs = inverse @ self._calibration_slopes(self.x).T
        rows = self.residuals(self.x, self.starts)
        singles = self._single_flights()
        bodies, widening = [], []
        for k, body in enumerate(self.bodies):
            index = [i for i, (j, _) in enumerate(self.flights) if j == k]
            own = np.stack([self._slope_of_body(k, unit) for unit in np.eye(self.count)], axis=1)
            white = own @ inverse @ own.T
            # Losses without each flight, and what the uncertain data sheets contribute.
            robust = (own @ moves.T) @ (own @ moves.T).T + (own @ beliefs) @ (own @ beliefs).T
            trials = max(len(index), BLOCKS if len(index) < FEW else 0)
            # Deviations are those with which a normal interval has the length of Student's: readers multiply by 1.96.
            factor = float(student.isf(0.025, trials - 1) / norm.isf(0.025))
            arms = self._by_arm(k) * self._arm_doubt(k)
            wide = np.maximum(factor * np.sqrt(np.diag(robust) / np.diag(white)), 1.0)
            # The robust covariance itself where it is the larger: entries of a tensor share the wheel's scale.
            scale = wide / np.maximum(np.sqrt(np.diag(robust) / np.diag(white)), 1e-300)
            covariance = robust * np.outer(scale, scale) + arms @ arms.T
            widening.append(np.sqrt(np.diag(covariance) / np.diag(white)))
            centre, doubt = self._centre(k)
            numbers, left = self.x[self.own(k)] * self.units[k], [rows[i] for i in index]
            shown = [self.flights[i][1].rate - rows[i] for i in index]
            single = np.stack([singles[i] for i in index])
            deviation = np.sqrt(np.diag(white))
            bodies.append(
                BodyEstimate(
                    body, self.body_tensor(k, self.x), covariance, deviation, numbers[:6], centre, doubt,
                    DRAG * numbers[6:], single, left, shown,
                )
            )  # fmt: skip
        own_sd = np.sqrt(np.sum(moves**2, axis=0) + np.sum(beliefs**2, axis=1))
        device = dict(zip(DEVICE, self.x[: len(DEVICE)].tolist(), strict=True))
        device["wheel_inertia"] = float(self.nominal * np.exp(self.x[0]))
        deviations = dict(zip(DEVICE, own_sd[: len(DEVICE)].tolist(), strict=True))
        deviations["wheel_inertia"] *= device["wheel_inertia"]
        return FreeFlightIdentification(device, deviations, bodies, self.converged, np.array(widening))

    def _cut(self, k: int, one: _Reduced) -> list[tuple[npt.NDArray[np.intp], Array, Array]]:
        """Independent parts of a flight's rows: all of it, or intervals where a body has few flights."""
        own = len(self.bodies[k].flights)
        count = 1 if own >= FEW else -(-BLOCKS // own)
        slopes, white = np.array_split(one.slopes, count), np.array_split(one.white, count)
        return [(one.places, a, b) for a, b in zip(slopes, white, strict=True)]

    def _slope_of_body(self, k: int, unit: Array) -> Array:
        """Derivative (6,): the tensor is linear in the numbers."""
        return self.body_tensor(k, self.x + unit) - self.body_tensor(k, self.x)

    def _centre(self, k: int) -> tuple[Array | None, Array | None]:
        """Mass centre of what is attached, from the sensor, and its deviation."""
        arm = self.arms[k]
        if arm is None:
            return None, None
        if self.alone is None or k == self.alone or self.arms[self.alone] is None:
            return arm, np.hypot(self.doubt.arm, self.arm_sd[k])
        mass, device = self.bodies[k].mass, self.device_mass
        other = np.asarray(self.arms[self.alone])
        # The mass centre of body and device together less the device's own share: (M + m) c = M c_body + m c_device.
        share = (mass + device) / mass
        centre = share * arm - device / mass * other
        own = share * np.hypot(self.doubt.arm, self.arm_sd[k])
        return centre, np.hypot(own, device / mass * np.hypot(self.doubt.arm, self.arm_sd[self.alone]))

    def _single_flights(self) -> list[Array]:
        """Attached tensors (6,) by one flight each: device and drag as found from all."""
        x, found = self.x, []
        own, starts = np.stack([x[self.own(k)] for k, _ in self.flights]), np.stack(self.starts)
        index = list(range(len(self.flights)))
        device = np.broadcast_to(x[: len(DEVICE)], (len(index), len(DEVICE)))
        for _ in range(8):
            base = self.predict(index, device, own, starts)
            slopes = []
            for column in range(9):
                more, begun = own.copy(), starts.copy()
                if column < 6:
                    more[:, column] += SHORT
                else:
                    begun[:, column - 6] += SHORT
                slopes.append(self.predict(index, device, more, begun))
            for i, (k, flight) in enumerate(self.flights):
                rows = np.stack([(s[i] - base[i]).ravel() / SHORT for s in slopes], axis=1)
                weights = 1.0 / np.tile(self.sigma[k], flight.times.size)
                left = (flight.rate - base[i]).ravel() * weights
                if not (np.isfinite(rows).all() and np.isfinite(left).all()):
                    raise np.linalg.LinAlgError("the prediction is not finite")
                change = np.linalg.lstsq(rows * weights[:, None], left, rcond=None)[0]
                # One flight alone may hardly show some entry: a bounded step keeps its tensor possible.
                own[i, :6] += np.clip(change[:6], -0.2, 0.2)
                starts[i] += change[6:]
        for i, (k, _) in enumerate(self.flights):
            trial = x.copy()
            trial[self.own(k)] = own[i]
            if k == self.alone:
                found.append(own[i, :6] * self.units[k])
            else:
                found.append(self.body_tensor(k, trial))
        return found


@dataclass(frozen=True, eq=False)
class _Reduced:
    """A flight's white residuals (m,) and derivatives (m, device + own), with and without its start rates."""

    places: npt.NDArray[np.intp]
    white: Array
    slopes: Array
    q: Array
    r: Array
    whole_white: Array
    whole_slopes: Array

    def start(self, change: Array) -> Array:
        """Change of the start rates (3,) that belongs to one of the common numbers."""
        return np.asarray(np.linalg.solve(self.r, self.q.T @ (self.whole_white - self.whole_slopes @ change)))


def _cross_matrices(vectors: Array) -> Array:
    """Matrices (T, 3, 3) of v x."""
    x, y, z = vectors.T
    zero = np.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
