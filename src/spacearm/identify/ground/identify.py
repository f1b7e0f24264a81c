"""Inertias, friction, rotors and torque sensors of an arm on a held base, from joint motion and torques.

1. Weighted least squares on window means: each joint's equations are divided by the standard deviation of their own
   residuals, the maximum likelihood estimate for white torque noise of unknown size (M. Gautier, Ph. Poignet, Control
   Engineering Practice 9, 2001). Weights and values are found in alternation.
2. The width of the change of sign of friction is the only nonlinear number of a joint: a grid first, then Gauss-Newton
   steps in its logarithm. The load of load-dependent friction is the rigid torque of the last estimate.
3. The most likely inertias among those that bodies can have, with friction not below zero, replace the values
   (:mod:`spacearm.identify.inertia.possible_bodies`).
4. Real friction leaves residuals that are not white. Standard deviations are widened by the scatter of the scores of
   blocks of consecutive windows (the sandwich covariance of P. J. Huber 1967, with blocks for correlation in time).

Noise of the joint motion in the regressor is not counted: positions are smoothed first, and on the ground their noise
is small against the motion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2
from scipy.stats import t as student

from spacearm.checks import array, check_name, check_not_empty, non_negative
from spacearm.identify._fit import Score, score_tests, solvable
from spacearm.identify.ground._torque_model import FrictionTerm, PositionTerm, TorqueModel
from spacearm.identify.ground._windows import Windows, average_record
from spacearm.identify.inertia.consistent import impossible_bodies
from spacearm.identify.inertia.possible_bodies import fit_possible_bodies
from spacearm.measure import Record
from spacearm.model import Robot
from spacearm.model.parts import Friction, Rotor
from spacearm.optimise.diagnose import LEVEL, whiteness
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.information import Information, eliminate
from spacearm.optimise.problem import Parameter
from spacearm.result import Certificate, Check
from spacearm.typing import Array

#: Rounds in which weights, loads and the widths of the friction's change of sign are found anew.
ROUNDS = 4
#: Widths that are tried, as shares of a joint's largest rate.
WIDTHS = np.geomspace(2e-3, 0.2, 8)
#: Typical sizes by which what the data do not determine may differ from the first guess.
VAGUE = 1.0
#: Blocks of consecutive windows whose scatter widens the intervals.
BLOCKS = 24
#: Terms that residuals are tested for, in words.
CANDIDATES: dict[str, str] = {
    "coulomb": "Coulomb friction",
    "viscous": "viscous friction",
    "stribeck": "the Stribeck effect",
    "cubic": "friction by the third power of the rate",
    "load": "friction that grows with the load",
    "delay": "torques that came late or early",
    "spring": "a spring or a cable",
    "sine": "a torque that repeats with each revolution (sine)",
    "cosine": "a torque that repeats with each revolution (cosine)",
}
#: Gear ratio of rotors in a written robot whose file has none: their inertia counts at the joint.
RATIO = 100.0


@dataclass(frozen=True, eq=False)
class TorquePrediction:
    """Torques (W, n) of a record in windows, N m or N: measured, and predicted from the motion alone."""

    name: str
    held_out: bool
    times: Array
    measured: Array
    predicted: Array

    @property
    def residual(self) -> Array:
        return np.asarray(self.measured - self.predicted)

    @property
    def rms(self) -> Array:
        """Root mean square (n,) of the errors."""
        return np.asarray(np.sqrt(np.mean(self.residual**2, axis=0)))

    @property
    def share(self) -> Array:
        """``rms`` as a share of the root mean square of the torque itself (n,)."""
        return np.asarray(self.rms / np.maximum(np.sqrt(np.mean(self.measured**2, axis=0)), 1e-300))


@dataclass(frozen=True, eq=False)
class HeldArmIdentification:
    """Result of the identification of an arm on a held base from joint torques.

    Args:
        model: the terms of the torques.
        estimate: base parameters, rotors, friction, sensors, as physically possible bodies have them; the standard
            deviations hold for residuals that are not white.
        linear: the same by weighted least squares alone, with the widths of the friction's change of sign.
        inertia: (10(n + 1)) a complete set for simulation.
        widths: rad/s, of each joint's change of the friction's sign.
        deviations: (n,) standard deviation of each joint's equations, N m.
        widening: factor on the white-noise standard deviation of each entry of ``linear``.
        predictions: of every record, those that were held out last.
        allowance: share of each joint's torque that the model may leave, as the user states it; None: residuals must be
            white.
    """

    model: TorqueModel
    estimate: Estimate
    linear: Estimate
    inertia: Array
    widths: Mapping[str, float]
    deviations: Array
    widening: Array
    predictions: tuple[TorquePrediction, ...]
    suspects: tuple[Score, ...]
    allowance: float | None = None

    @property
    def robot(self) -> Robot:
        """The arm with identified inertias, viscous and Coulomb friction and rotors."""
        values = dict(zip(self.estimate.names, self.estimate.values, strict=True))
        joints = []
        for joint in self.model.robot.joints:
            coulomb, damping = (max(values.get(f"{term}.{joint.name}", 0.0), 0.0) for term in ("coulomb", "viscous"))
            rotor = joint.rotor if not self.model.rotors else None
            if (inertia := values.get(f"rotor.{joint.name}", 0.0)) > 0.0 and joint.kind == "revolute":
                ratio = RATIO if joint.rotor is None else joint.rotor.ratio
                rotor = Rotor(inertia / ratio**2, ratio)
            friction = Friction(coulomb, coulomb) if coulomb > 0.0 else None
            joints.append(replace(joint, damping=damping, friction=friction, rotor=rotor))
        return self.model.robot.replace(joints=tuple(joints)).with_inertia_parameters(self.inertia.reshape(-1, 10))

    @cached_property
    def impossible(self) -> dict[str, str]:
        """Bodies that cannot have the inertias that were found, each with the reason."""
        return impossible_bodies(self.model.robot, self.inertia)

    def certificate(self) -> Certificate:
        """Checks that decide whether the estimate is sound; residuals are always among them."""
        names = self.model.robot.joint_names
        used = [one for one in self.predictions if not one.held_out]
        checks = {
            "converged": Check.from_condition(self.estimate.has_converged, str(self.estimate.reason)),
            "possible": Check.from_condition(not self.impossible, "; ".join(self.impossible.values())),
        }
        # A stated allowance replaces the tests for white noise, which real friction never passes.
        if self.allowance is not None:
            note = "rms of the residual, share of the joint's rms torque; the file allows so much"
            for one in self.predictions:
                kind = "hold_out" if one.held_out else "residual"
                for name, share in zip(names, one.share, strict=True):
                    checks[f"{kind}.{one.name}.{name}"] = Check(float(share), self.allowance, "", note)
            return Certificate(checks)
        # Bonferroni: one test for each record and joint.
        least = LEVEL / (len(used) * len(names))
        for one in used:
            for name, row in zip(names, one.residual.T, strict=True):
                p = whiteness(row).p_value
                note = "1 - p of Ljung and Box's test; 'allowance' states what the model may leave"
                checks[f"whiteness.{one.name}.{name}"] = Check(1.0 - p, 1.0 - least, "", note)
        # If the model is right, the constraint moves the estimate by chance alone.
        rise = 2.0 * self.estimate.cost
        most = float(chi2.isf(LEVEL, self.linear.values.size))
        note = "rise of chi-square where only possible bodies and positive friction are allowed"
        checks["physical"] = Check(rise, most, "", note)
        for one in self.predictions:
            if one.held_out:
                for name, p in zip(names, self._hold_out_chance(one, used), strict=True):
                    note = "1 - p that the errors are no larger than those of the records that were used"
                    checks[f"hold_out.{one.name}.{name}"] = Check(1.0 - p, 1.0 - LEVEL / len(names), "", note)
        return Certificate(checks)

    def _hold_out_chance(self, held: TorquePrediction, used: Sequence[TorquePrediction]) -> list[float]:
        """How often chance alone makes the errors (n,) of a record that was not used as large as they are.

        Welch's test of the mean squares of blocks: blocks are nearly independent where residuals are coloured, and the
        logarithm makes the skewed distribution of a mean square nearly normal.
        """
        own = [np.log(part) for part in _block_squares([held.residual])]
        others = [np.log(part) for part in _block_squares([one.residual for one in used])]
        found = []
        for a, b in zip(own, others, strict=True):
            va, vb = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
            # The degrees of freedom of Welch and Satterthwaite, for two variances that differ.
            freedom = (va + vb) ** 2 / (va**2 / (a.size - 1) + vb**2 / (b.size - 1))
            found.append(float(student.sf((a.mean() - b.mean()) / np.sqrt(va + vb), freedom)))
        return found


def _block_squares(residuals: Sequence[Array]) -> list[Array]:
    """Mean squares of blocks of each joint's residuals: n arrays (blocks,)."""
    length = max(min(sum(map(len, residuals)) // BLOCKS, min(map(len, residuals)) // 6), 1)
    blocks = [one[: len(one) // length * length].reshape(-1, length, one.shape[1]) for one in residuals]
    means = np.concatenate([np.mean(part**2, axis=1) for part in blocks])
    return list(np.maximum(means, 1e-300).T)


@solvable("ground identification")
def identify_held_arm(
    robot: Robot,
    records: Sequence[Record],
    *,
    hold_out: Sequence[Record] = (),
    gravity: npt.ArrayLike = (0.0, 0.0, -9.81),
    friction: Sequence[FrictionTerm] | Mapping[str, Sequence[FrictionTerm]] = ("coulomb", "viscous"),
    rotors: bool = True,
    offset: bool = True,
    gain: float = 0.0,
    couplings: Mapping[str, npt.ArrayLike] | None = None,
    known_bodies: Sequence[str] = (),
    position: Sequence[PositionTerm] = (),
    link_side: bool = False,
    window: float = 0.05,
    allowance: float | None = None,
) -> HeldArmIdentification:
    """Identify an arm on a held base from joint positions and torques.

    Args:
        robot: geometry and first guess of the inertias.
        records: with channels ``joint_position`` and ``torque`` (T, n); ``joint_rate`` and ``joint_acceleration`` are
            used where they are there.
        hold_out: records that are only predicted.
        gravity: (3,) m/s2, base axes.
        friction: terms for all joints, or joint = terms: ``coulomb``, ``viscous``, ``stribeck``, ``cubic``, ``load``.
        rotors: estimate rotor inertias; else those of the robot count.
        offset: estimate an offset of each torque sensor.
        gain: standard deviation of each torque sensor's factor about one; 0: exact.
        couplings: name to the speeds (n,), by each joint, of a further rotor with friction (a motor of two joints).
        known_bodies: bodies whose inertias are known.
        position: torques by a joint's angle alone, of cables and sensors: ``spring``, ``sine``, ``cosine``.
        link_side: the torque sensors sit behind the gears; friction terms may then have either sign.
        window: s, over which torques and equations are averaged.
        allowance: share of each joint's rms torque that the model may leave unexplained; None: none but white noise.
    """
    check_not_empty(records, "record", place="ground identification")
    non_negative(gain, "gain", place="ground identification")
    pull = array(gravity, "gravity", (3,), place="ground identification")
    made = {name: array(row, f"coupling {name!r}", (robot.n,)) for name, row in (couplings or {}).items()}
    if isinstance(friction, Mapping):
        for joint in friction:
            check_name(joint, (*robot.joint_names, *made), "joint", place="friction")
    model = TorqueModel(
        robot, pull, friction, rotors, offset, gain, made, tuple(known_bodies), tuple(position), link_side
    )
    used = [average_record(robot, record, window) for record in records]
    fit = _Fit(model, used)
    fit.solve()
    estimate, widening = fit.refine()
    held = [average_record(robot, record, window) for record in hold_out]
    predictions = [fit.predict(one, estimate.values) for one in used]
    predictions += [replace(fit.predict(one, estimate.values), held_out=True) for one in held]
    return HeldArmIdentification(
        model, estimate, fit.linear(widening), np.asarray(estimate.extra["inertia"]), dict(fit.widths), fit.sigma,
        widening, tuple(predictions), fit.suspects(estimate.values), allowance,
    )  # fmt: skip


class _Fit:
    """Weighted least squares of the records' windows."""

    def __init__(self, model: TorqueModel, used: Sequence[Windows]) -> None:
        self.model, self.used = model, used
        parts = [model.inertia_columns(one) for one in used]
        self.target = np.concatenate([one.torque - known for one, (_, known) in zip(used, parts, strict=True)])
        self.known = np.concatenate([known for _, known in parts])
        self.load = np.concatenate([one.torque for one in used])
        # First weights: as if the model explained nothing.
        self.sigma = np.maximum(np.sqrt(np.mean(self.target**2, axis=0)), 1e-9)
        rates = np.concatenate([one.motion.rate for one in used])
        self.fastest = {axis: max(float(np.abs(rates @ d).max()), 1e-9) for axis, d in model.axes.items()}
        # A first guess only: the grid follows.
        self.widths = {axis: 0.02 * rate for axis, rate in self.fastest.items()}
        self.shaped = [axis for axis in model.axes if set(model.terms(axis)) & {"coulomb", "stribeck", "load"}]
        self.places = {
            axis: [k for k, p in enumerate(model.parameters) if p.name.partition(".")[2] == axis and p in model.others]
            for axis in model.axes
        }
        self.sizes = np.array([p.size for p in model.parameters])
        self.x = np.zeros(len(model.parameters))
        own = np.concatenate([columns for columns, _ in parts])
        self.columns = np.concatenate([own, np.zeros((*self.target.shape, len(model.others)))], axis=-1)
        for axis in model.axes:
            # Only a joint's own columns depend on its width and load; the inertias' are computed once.
            self.columns[..., self.places[axis]] = self.axis_columns(axis)

    def split(self, values: Array) -> list[Array]:
        """Rows of all windows by record."""
        return np.split(values, np.cumsum([len(one.times) for one in self.used])[:-1])

    def axis_columns(self, axis: str, width: float | None = None) -> Array:
        """Columns (W, n, k) of a joint's or coupling's own terms, with another width than the one in use."""
        pairs = list(zip(self.used, self.split(self.load), strict=True))
        wide = self.widths[axis] if width is None else width
        names = [self.model.parameters[k].name.partition(".")[0] for k in self.places[axis]]
        found = [np.concatenate([self.model.column(o, n, axis, wide, load) for o, load in pairs]) for n in names]
        return np.stack(found, axis=-1) if found else np.zeros((*self.target.shape, 0))

    def set_width(self, axis: str, width: float) -> None:
        self.widths[axis] = width
        self.columns[..., self.places[axis]] = self.axis_columns(axis)

    def solve(self) -> None:
        """Find values, weights, loads and widths by turns, each with the others fixed."""
        self._least_squares()
        # The cost has several minima in a width: a grid finds the right one, Gauss-Newton refines it.
        for axis in self.shaped:
            self._try_widths(axis)
        for _ in range(ROUNDS):
            self._least_squares()
            self._improve_widths()
            self.load = self._rigid_torque()
            for axis in self.model.axes:
                self.set_width(axis, self.widths[axis])
        self._least_squares()

    def _white(self, columns: Array) -> Array:
        """Columns (W, n, k) as rows (W n, k) in deviations of their joint's residuals."""
        return np.asarray((columns / self.sigma[:, None]).reshape(-1, columns.shape[-1]))

    def _least_squares(self) -> None:
        """Values, and the weights that their residuals give."""
        priors = {k: p.prior for k, p in enumerate(self.model.parameters) if p.prior is not None}
        extra = np.zeros((len(priors), self.x.size))
        for row, (k, (_, doubt)) in zip(extra, priors.items(), strict=True):
            row[k] = 1.0 / doubt
        aim = [mean / doubt for mean, doubt in priors.values()]
        # Values need weights and weights residuals; three rounds suffice, as `solve` comes back here.
        for _ in range(3):
            rows = np.concatenate([self._white(self.columns), extra]) * self.sizes
            right = np.concatenate([(self.target / self.sigma).ravel(), aim])
            # Minimum norm where columns depend on each other: no value runs away along a null direction.
            q, r = np.linalg.qr(rows)
            self.x = self.sizes * np.linalg.lstsq(r, q.T @ right, rcond=1e-10)[0]
            left = self.target - self.columns @ self.x
            self.sigma = np.maximum(np.sqrt(np.mean(left**2, axis=0)), 1e-12 * (1.0 + np.abs(self.target).max()))

    def _rigid_torque(self) -> Array:
        """What the joints carry (W, n) without friction and offsets."""
        rank = self.model.base.rank
        return np.asarray(self.columns[..., :rank] @ self.x[:rank] + self.known)

    def _try_widths(self, axis: str) -> None:
        """The best width of a grid, all else fitted anew with each."""
        rows, right = self._white(self.columns) * self.sizes, (self.target / self.sigma).ravel()
        # All other columns are projected out once (variable projection), so each width costs a small fit alone.
        basis, _ = np.linalg.qr(np.delete(rows, self.places[axis], axis=1))
        rest = right - basis @ (basis.T @ right)
        best = (np.inf, self.widths[axis])
        for width in WIDTHS * self.fastest[axis]:
            own = self._white(self.axis_columns(axis, float(width)))
            own = own - basis @ (basis.T @ own)
            left = rest - own @ np.linalg.lstsq(own, rest, rcond=None)[0]
            best = min(best, (float(left @ left), float(width)))
        self.set_width(axis, best[1])

    def _width_columns(self) -> Array:
        """Derivatives (W, n, k) of the torque by the logarithms of the widths."""
        found, step = [], 0.05
        for axis in self.shaped:
            middle, own = self.widths[axis], self.x[self.places[axis]]
            high, low = (self.axis_columns(axis, middle * float(np.exp(sign * step))) for sign in (1.0, -1.0))
            found.append((high - low) @ own / (2.0 * step))
        return np.stack(found, axis=-1) if found else np.zeros((*self.target.shape, 0))

    def _improve_widths(self) -> None:
        """One Gauss-Newton step of all widths."""
        if not self.shaped:
            return
        rows = self._white(np.concatenate([self.columns, self._width_columns()], axis=-1))
        right = ((self.target - self.columns @ self.x) / self.sigma).ravel()
        scale = np.maximum(np.linalg.norm(rows, axis=0), 1e-300)
        # Widths and all linear values step together; only the widths are kept, the values are solved for exactly next.
        step = np.linalg.lstsq(rows / scale, right, rcond=1e-9)[0] / scale
        # Bounded steps within the grid: a width beyond it is not determined by the data.
        for axis, change in zip(self.shaped, np.clip(step[self.x.size :], -0.5, 0.5), strict=True):
            low, high = WIDTHS[[0, -1]] * self.fastest[axis]
            self.set_width(axis, float(np.clip(self.widths[axis] * np.exp(change), low, high)))

    @cached_property
    def jacobian(self) -> tuple[Array, Array]:
        """White derivatives (W, n, p + k) by all that was found, widths last, and residuals (W, n)."""
        left = (self.columns @ self.x - self.target) / self.sigma
        return np.concatenate([self.columns, self._width_columns()], axis=-1) / self.sigma[:, None], left

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """With the widths, as logarithms of shares of the value found."""
        return (*self.model.parameters, *(Parameter(f"width.{axis}", 0.0, "", scale=1.0) for axis in self.shaped))

    @cached_property
    def information(self) -> Information:
        """About all that was found."""
        jacobian, left = self.jacobian
        flat = jacobian.reshape(-1, jacobian.shape[-1])
        # unknowns of each joint's own weights are as many as joints: counted as unknowns, like the rest
        freedom = max(left.size - flat.shape[1] - self.model.robot.n, 1) / left.size
        matrix = freedom * flat.T @ flat
        for k, p in enumerate(self.parameters):
            if p.prior is not None:
                matrix[k, k] += 1.0 / p.prior[1] ** 2
        values = np.concatenate([self.x, np.zeros(len(self.shaped))])
        return Information.from_matrix(values, matrix, np.array([p.size for p in self.parameters]))

    def widening_factors(self) -> Array:
        """Factor (p + k,) on the standard deviations for what blocks of windows say by themselves; at least one."""
        information, (jacobian, left) = self.information, self.jacobian
        seen = information.identifiable
        half = information.vectors[:, seen] / np.sqrt(information.rises[seen]) * information.sizes[:, None]
        covariance = half @ half.T
        length = max(len(left) // BLOCKS, 1)
        moves = []
        for part, rest in zip(self.split(jacobian), self.split(left), strict=True):
            # A block's score times the covariance: how far that block alone would move the values.
            for start in range(0, len(rest), length):
                one = slice(start, start + length)
                moves.append(covariance @ np.einsum("wnp,wn->p", part[one], rest[one]))
        # Sandwich with blocks; the factor corrects for the mean that the fit has removed.
        spread = np.sum(np.square(moves), axis=0) * len(moves) / max(len(moves) - 1, 1)
        own = np.maximum(np.diagonal(covariance), 1e-300)
        return np.asarray(np.sqrt(np.maximum(spread / own, 1.0)))

    def linear(self, widening: Array) -> Estimate:
        """The estimate by least squares alone."""
        left = self.jacobian[1]
        covariance = self.information.covariance * widening[:, None] * widening
        cost = 0.5 * float(np.sum(left**2))
        return Estimate(
            self.parameters, self.information.values, covariance, cost, "weighted least squares",
            information=self.information,
        )  # fmt: skip

    def refine(self) -> tuple[Estimate, Array]:
        """The most likely possible bodies, friction not below zero; and the factors of :meth:`widening`."""
        model, widening = self.model, self.widening_factors()
        count = len(model.parameters)
        # Put together again from its eigenvectors, in the parameters' own units, since elimination needs the whole
        # matrix.
        matrix = self.information.vectors * self.information.rises @ self.information.vectors.T
        full = matrix / self.information.sizes[:, None] / self.information.sizes
        # Widths are eliminated, not fixed: their uncertainty stays in the information about the rest.
        notes = Information.from_matrix(self.x, eliminate(full, count), self.sizes)
        found = fit_possible_bodies(notes, model.base, [replace(p, prior=None) for p in model.others], vague=VAGUE)
        assert found.covariance is not None
        factor = widening[:count]
        return replace(found, covariance=found.covariance * factor[:, None] * factor), widening

    def predict(self, windows: Windows, values: Array) -> TorquePrediction:
        """Torques of a record from its motion."""
        own, known = self.model.inertia_columns(windows)
        load = own @ values[: self.model.base.rank] + known
        columns = np.concatenate([own, self.model.other_columns(windows, self.widths, load)], axis=-1)
        return TorquePrediction(windows.name, False, windows.times, windows.torque, columns @ values + known)

    def suspects(self, values: Array) -> tuple[Score, ...]:
        """What the residuals of each joint show besides, the most telling first."""
        jacobian, _ = self.jacobian
        # Residuals of the constrained values: what they leave is what the robot file will leave.
        left = (self.columns @ values - self.target) / self.sigma
        tested, words = {}, {}
        loads = self.split(self.load)
        pairs = list(zip(self.used, loads, strict=True))
        names = {p.name for p in self.model.parameters}
        for axis, direction in self.model.axes.items():
            width = self.widths[axis]
            for term, text in CANDIDATES.items():
                if f"{term}.{axis}" in names:
                    continue
                parts = [
                    # A delay dt of the torques is, to first order, dt times their rate of change.
                    one.rise * direction if term == "delay" else self.model.column(one, term, axis, width, load)
                    for one, load in pairs
                ]
                tested[f"{term}.{axis}"], words[f"{term}.{axis}"] = np.concatenate(parts), text
        blocks = {name: (block / self.sigma).reshape(-1, 1) for name, block in tested.items()}
        flat = jacobian.reshape(-1, jacobian.shape[-1])
        found = [
            Score(
                name,
                statistic,
                freedom,
                words[name],
                what=words[name],
                size=float("nan") if sizes is None else float(sizes[0]),
            )
            for name, statistic, freedom, sizes in score_tests(left.ravel(), flat, blocks)
        ]
        # Bonferroni over all candidates.
        seen = [one for one in found if one.p_value * len(found) < LEVEL]
        return tuple(sorted(seen, key=lambda one: -one.statistic))
