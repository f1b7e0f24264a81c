"""Which sentences of Sec. 6 can fail: each is tried in random configurations of the chain.

A sentence that holds in all of them is true, but says nothing for the configuration of Fig. 5, which is missing.
Sentences are put without the numbers of one configuration: "at 51 deg" is "where the mass centre lies", "at 90 deg" is
"along the struck rod". All configurations have the struck rod along 90 deg, as Sec. 6 has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spacearm.impact import ImpactPoint
from spacearm.impact.virtual_mass import circle
from spacearm.papers.agreement import claims
from spacearm.papers.yoshida1992.data import CASES, HAND, NAME, PLANE, STRIKER_MASS
from spacearm.typing import Array

COUNT, SEED = 1500, 0
#: Directions of a survey's maps: half a degree apart.
DIRECTIONS = 361
#: Step (deg) of the grid of joint angles on which configurations that fit Sec. 6 are counted.
STEP = 2.0
ROD = 90.0  # deg
DEGREE = claims(NAME)["virtual_mass.free.peak_direction"].allowed_difference()
MASS_CENTRE: float = claims(NAME)["mass_centre.direction"].printed  # deg


@dataclass(frozen=True, eq=False)
class Configurations:
    """The chain in configurations (N, 2) with the struck rod along 90 deg; angles in deg, 0 to 180, but for ``centre``.

    Attributes:
        peak, direction: of the absolute virtual mass by case (N,), kg and deg.
        centre: direction of the mass centre from the struck end (N,), -180 to 180.
        holds: by sentence (the rows' names), where it holds (N,).
    """

    peak: dict[str, Array]
    direction: dict[str, Array]
    centre: Array
    holds: dict[str, Array]

    def always(self, sentence: str) -> bool:
        return bool(np.all(self.holds[sentence]))

    def share(self, sentence: str) -> str:
        """In words, the share of configurations in which a sentence holds."""
        holds = self.holds[sentence]
        if holds.all():
            return f"holds in every one of {holds.size} random configurations, so it is no evidence for this one"
        return f"holds in {100 * holds.mean():.0f} % of {holds.size} random configurations"


def random_configurations() -> Array:
    """Joint angles (COUNT, 2), rad."""
    return np.random.default_rng(SEED).uniform(-np.pi, np.pi, (COUNT, 2))


def survey(point: ImpactPoint, joints: Array) -> Configurations:
    """Every sentence in every configuration (N, 2), rad."""
    base = _base(joints)
    _, directions = circle(DIRECTIONS, PLANE, half=True)
    n = directions[:, :2]
    angles = np.degrees(np.arctan2(n[:, 1], n[:, 0]))
    peak, direction, maps, psi, struck = {}, {}, {}, {}, {}
    for name, modes in CASES.items():
        block = point.tensor(joints, base=base, **modes)[:, :2, :2]
        # Singular values and not eigenvalues: whether force and acceleration agree at the peak is to come out.
        _, values, right = np.linalg.svd(block)
        peak[name], heavy = 1.0 / values[:, 1], right[:, 1]
        direction[name] = np.degrees(np.arctan2(heavy[:, 1], heavy[:, 0])) % 180.0
        yields = np.einsum("pij,pj->pi", block, heavy)
        # Angle by arctan2 of cross and dot product: an arc cosine near 1 would lose half the digits.
        across = heavy[:, 0] * yields[:, 1] - heavy[:, 1] * yields[:, 0]
        psi[name] = np.degrees(np.arctan2(np.abs(across), np.einsum("pi,pi->p", heavy, yields)))
        maps[name] = 1.0 / np.linalg.norm(np.einsum("pij,dj->pdi", block, n), axis=-1)
        # Up to the factor (1 + e) v, which is the same for all directions.
        impulse = 1.0 / (np.einsum("di,pij,dj->pd", n, block, n) + 1.0 / STRIKER_MASS)
        struck[name] = angles[impulse.argmax(axis=1)]
    centre = _centre(point, joints)
    free, fixed, half = (peak[name] for name in ("free", "fixed", "half"))
    whole, zero = claims(NAME)["virtual_mass.fixed.peak"], claims(NAME)["psi.{case}.at_peak"]
    holds = {
        "virtual_mass.fixed.peak": np.abs(fixed - whole.printed) <= whole.allowed_difference(),
        "virtual_mass.fixed.peak_direction": line_angle(direction["fixed"], centre) <= DEGREE,
        "virtual_mass.free.peak": free < 0.5 * whole.printed,
        "virtual_mass.free.peak_direction": line_angle(direction["free"], ROD) <= DEGREE,
        "virtual_mass.half.peak": (free < half) & (half < fixed),
        "virtual_mass.half.peak_direction": _is_between(direction["half"], direction["fixed"], direction["free"]),
        "virtual_mass.half.between_everywhere": np.all(
            (maps["free"] < maps["half"]) & (maps["half"] < maps["fixed"]), axis=1
        ),
    }
    for name in CASES:
        holds[f"psi.{name}.at_peak"] = psi[name] <= zero.tolerance
        holds[f"impulse.{name}.peak_direction"] = line_angle(struck[name], direction[name]) <= DEGREE
    return Configurations(peak, direction, centre, holds)


def summarise_fits(fitting: Array, found: Configurations) -> dict[str, Any]:
    """How many configurations fit (N, 2), and how often the sentences hold that can fail, for notes and the page."""
    q1 = fitting[:, 0]
    shares = {"light": "virtual_mass.free.peak", "between": "virtual_mass.half.between_everywhere"}
    facts = {name: 100.0 * float(found.holds[sentence].mean()) for name, sentence in shares.items()}
    return {"count": len(q1), "step": STEP, "lowest": q1.min(), "highest": q1.max(), **facts}


def _base(joints: Array) -> Array:
    """Pose of the base (N, 7) with which the struck rod lies along 90 deg."""
    tilt = 0.5 * (np.radians(ROD) - joints.sum(axis=-1))
    base = np.zeros((len(joints), 7))
    base[:, 3], base[:, 6] = np.cos(tilt), np.sin(tilt)
    return base


def _centre(point: ImpactPoint, joints: Array) -> Array:
    """Direction of the mass centre from the struck end (N,), deg."""
    base = _base(joints)
    hand = point.mechanics.frame_pose(HAND, joints, base=base)[0]
    arm = point.mechanics.centre_of_mass(joints, base=base) - hand
    return np.asarray(np.degrees(np.arctan2(arm[:, 1], arm[:, 0])))


def line_angle(one: Array | float, two: Array | float) -> Array:
    """Angle between two lines (deg): a line and its opposite are the same."""
    return np.asarray(np.abs((np.asarray(one) - two + 90.0) % 180.0 - 90.0))


def _is_between(line: Array, one: Array, two: Array) -> Array:
    """Whether a line lies in the smaller angle between two others."""
    return np.asarray(np.abs(line_angle(line, one) + line_angle(line, two) - line_angle(one, two)) <= 1e-9)


def find_configurations(point: ImpactPoint) -> Array:
    """Joint angles (N, 2), deg, of a grid of :data:`STEP` that satisfy every sentence of Sec. 6, 51 deg among them."""
    axis = np.arange(-180.0, 180.0, STEP)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    # Where the mass centre lies is quickly said; only what passes is surveyed.
    near = grid[np.abs(_centre(point, np.radians(grid)) - MASS_CENTRE) <= DEGREE]
    found = survey(point, np.radians(near))
    half = found.direction["half"]
    fits = np.all(list(found.holds.values()), axis=0) & (half > MASS_CENTRE) & (half < ROD)
    return np.asarray(near[fits])
