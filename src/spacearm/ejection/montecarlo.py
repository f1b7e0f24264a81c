"""Monte Carlo of one ejection: random friction, damping, springs and masses; percentiles of the results.

Every sample is a complete stick-slip run (:mod:`spacearm.ejection.batch`) with its own log-normal factors of mean one,
which stay positive. Random numbers are drawn completely and in one order, so that a seed gives the same samples
whichever deviations are zero. A body's ten inertia parameters share one factor, which keeps it possible.

Percentiles are those of the sound runs with a finite result; ``failed`` counts the others. Shares of the variance come
from one linear regression on the logarithms of all factors: a first-order sensitivity. Its ``rest`` is the nonlinear
part, including interactions; it is not an estimate of Sobol's total indices. The configuration itself is not varied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import KeepOut
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import Rig
from spacearm.typing import Array

PERCENTILES = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)
QUANTITIES = {
    "velocity": "m/s",
    "tumbling": "rad/s",
    "time": "s",
    "stable_time": "s",
}


@dataclass(frozen=True)
class EjectionUncertainty:
    """Relative standard deviations. Friction and damping are random per joint, masses per body.

    Friction, damping and masses are log-normal (they stay positive), the springs' stiffness is common to all springs.
    """

    friction: float = 0.3
    damping: float = 0.2
    spring: float = 0.03
    mass: float = 0.02

    def __post_init__(self) -> None:
        hint = "expected a relative deviation, 0 to 3"
        names = ("friction", "damping", "spring", "mass")
        checks.check_fields(self, checks.number, *names, least=0.0, below=3.0, place="uncertainty", hint=hint)


@dataclass(frozen=True, eq=False)
class EjectionSensitivity:
    """Result of :func:`monte_carlo`."""

    runs: Ejections
    factors: dict[str, Array]  # (S,) mean logarithm of the factors of each group
    percentiles: dict[str, dict[float, float]]  # quantity, percentile
    worst: dict[str, float]  # least velocity, largest tumbling, latest times
    shares: dict[str, dict[str, float]]  # quantity, group: fraction of the variance explained by the group
    hit_share: dict[str, float]  # joint: fraction of the samples in which it reached a limit
    failed: int

    def row(self, quantity: str) -> dict[float, float]:
        return self.percentiles[quantity]


def _log_normal(draw: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Array:
    """Factors with mean one and this relative standard deviation."""
    # exp(N(-sigma^2 / 2, sigma^2)) has mean one and variance exp(sigma^2) - 1.
    sigma = np.sqrt(np.log1p(deviation**2))
    return np.asarray(np.exp(sigma * draw.standard_normal(shape) - 0.5 * sigma**2))


def monte_carlo(
    rig: Rig,
    joints: npt.ArrayLike | str,
    *,
    uncertainty: EjectionUncertainty | None = None,
    samples: int = 2000,
    seed: int = 0,
    release: ReleaseState | None = None,
    flight: float = 10.0,
    keep_out: Sequence[KeepOut] = (),
    radii: Mapping[str, float] | float = 0.0,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> EjectionSensitivity:
    """Complete ejections from one configuration with random friction, damping, springs and masses."""
    spread = uncertainty or EjectionUncertainty()
    checks.integer(samples, "samples", least=2, place="Monte Carlo")
    configuration = rig.configuration(joints)
    arm, n = rig.arm, rig.arm.n
    draw = np.random.default_rng(seed)
    # Always drawn in this order and completely, so that a seed gives the same numbers whichever deviations are zero.
    friction = _log_normal(draw, spread.friction, (samples, n))
    damping = _log_normal(draw, spread.damping, (samples, n))
    spring = _log_normal(draw, spread.spring, (samples,))
    mass = _log_normal(draw, spread.mass, (samples, n + 1))
    frictions = [joint.friction for joint in arm.joints]
    static = np.array([0.0 if f is None else f.static for f in frictions])
    coulomb = np.array([0.0 if f is None else f.coulomb for f in frictions])
    runs = eject_batch(
        rig,
        configuration,
        release=release,
        overrides={
            "static": friction * static,
            "coulomb": friction * coulomb,
            "damping": damping * np.array([joint.damping for joint in arm.joints]),
            "spring": spring,
            # All ten parameters by one factor: a heavier body of the same shape, which stays physically consistent.
            "inertia": mass[..., None] * arm.inertia_parameters,
        },
        flight=flight,
        keep_out=keep_out,
        radii=radii,
        threads=threads,
        progress=progress,
    )
    factors = {
        "friction": np.log(friction),
        "damping": np.log(damping),
        "spring": np.log(spring)[:, None],
        "mass": np.log(mass),
    }
    names = dict(QUANTITIES)
    if keep_out:
        names["clearance"] = "m"
    # A run that failed has no velocity: it is counted, and left out of percentiles.
    good = runs.sound
    found = {name: runs.tumble_rate if name == "tumbling" else getattr(runs, name) for name in names}
    values = {name: value[good] for name, value in found.items()}
    finite = {name: value[np.isfinite(value)] for name, value in values.items()}
    return EjectionSensitivity(
        runs,
        {name: value.mean(axis=1) for name, value in factors.items()},
        {
            name: dict(zip(PERCENTILES, np.percentile(value, PERCENTILES).tolist(), strict=True))
            for name, value in finite.items()
            if value.size
        },
        {
            name: float(value.min() if name in ("velocity", "clearance") else value.max())
            for name, value in finite.items()
            if value.size
        },
        {name: _shares(found[name], factors, good) for name in ("velocity", "tumbling")},
        dict(zip(arm.joint_names, runs.hits[good].mean(axis=0).tolist(), strict=True)),
        int((~good).sum()),
    )


def _shares(value: Array, factors: dict[str, Array], good: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Fractions of the variance explained by a linear regression on each group's factors; the rest is nonlinear."""
    kept = good & np.isfinite(value)
    y = value[kept] - value[kept].mean()
    total = float(y @ y)
    # Centred: the regression has no constant, and shares are of the variance.
    columns = np.concatenate([part[kept] - part[kept].mean(axis=0) for part in factors.values()], axis=1)
    if total == 0.0 or not len(y):
        return dict.fromkeys((*factors, "rest"), 0.0)
    # All groups in one regression: fitted one by one, groups that happen to be correlated would each claim the same
    # part.
    weights = np.linalg.lstsq(columns, y, rcond=None)[0]
    shares, at = {}, 0
    for name, part in factors.items():
        explained = columns[:, at : at + part.shape[1]] @ weights[at : at + part.shape[1]]
        # Covariance with the result: the shares add up to R^2 exactly, also where the sampled factors are slightly
        # correlated.
        shares[name] = float(explained @ y) / total
        at += part.shape[1]
    shares["rest"] = 1.0 - sum(shares.values())
    return shares
