"""The table of agreement with Yoshida et al. (1992), Sec. 6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.impact import Convergence, ImpactPoint, ball, collide, flying
from spacearm.papers.yoshida1992.configurations import Configurations, other_configuration
from spacearm.papers.yoshida1992.data import (
    DEGREE,
    DIRECTIONS,
    HAND,
    KILOGRAM,
    POSTURE,
    SECTION,
    STRIKER_MASS,
    STRIKER_SPEED,
    TOTAL_MASS,
    WITHIN_DEGREE,
    WITHIN_KILOGRAM,
    ZERO_ANGLE,
)
from spacearm.result import Row, Verdict
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.papers.yoshida1992 import Case


def _judged(
    quantity: str,
    value: Any,
    unit: str,
    paper: Any,
    holds: bool,
    measure: str,
    configurations: Configurations,
    note: str = "",
    claim: str = "it",
) -> Row:
    """A row for a sentence that can or cannot fail; which of the two, the random configurations tell.

    ``measure`` says when it holds, ``claim`` what was tried in other configurations.
    """
    verdict = Verdict.DIFFERS
    if holds:
        verdict = Verdict.NO_EVIDENCE if configurations.always(quantity) else Verdict.AGREES
    head = "holds" if verdict is Verdict.NO_EVIDENCE else "agrees"
    text = "; ".join(part for part in (note, f"{head} {measure}", f"{claim} {configurations.share(quantity)}") if part)
    return Row(quantity, value, unit, paper, SECTION, verdict, text)


def configuration_row(point: ImpactPoint) -> Row:
    """Fig. 5 is missing, and the text does not pin it down."""
    angles = np.degrees(point.configuration(POSTURE))
    note = (
        f"the figure is missing: an L is taken, struck rod along 90 deg, others along 0; {other_configuration(point)}"
    )
    return Row("configuration", angles, "deg", None, "Fig. 5", Verdict.NOT_RECOVERABLE, note)


def mass_rows(cases: dict[str, Case], configurations: Configurations) -> list[Row]:
    """The rows of Fig. 6 (a)."""
    free, fixed, half = (cases[name].ellipse.masses for name in ("free", "fixed", "half"))
    along, through, turned = (cases[name].peak_direction for name in ("free", "fixed", "half"))
    rows = [
        _judged(
            "virtual_mass.fixed.peak", fixed[0], "kg", TOTAL_MASS, abs(fixed[0] - TOTAL_MASS) <= KILOGRAM,
            WITHIN_KILOGRAM, configurations, "the whole mass: the force passes through the mass centre",
        ),
        _judged(
            "virtual_mass.fixed.peak_direction", through, "deg", 51.0, abs(through - 51.0) <= DEGREE,
            WITHIN_DEGREE, configurations, "exactly atan(5 / 4), where the configuration puts the mass centre",
            "that the peak points at the mass centre",
        ),
        _judged(
            "virtual_mass.free.peak", free[0], "kg", "much less than 3.0", bool(free[0] < 0.5 * TOTAL_MASS),
            "when below half of the total mass", configurations, "exactly 9/7",
        ),
        _judged(
            "virtual_mass.free.peak_direction", along, "deg", 90.0, abs(along - 90.0) <= DEGREE,
            WITHIN_DEGREE, configurations, "along the struck rod",
        ),
        _judged(
            "virtual_mass.half.peak", half[0], "kg", "between free and fixed", bool(free[0] < half[0] < fixed[0]),
            "when between the peaks of free and fixed joints", configurations,
        ),
        _judged(
            "virtual_mass.half.peak_direction", turned, "deg", "between 51 and 90", 51.0 < turned < 90.0,
            "when between 51 and 90 deg", configurations,
            claim="that it lies between the peaks of free and fixed joints",
        ),
    ]  # fmt: skip
    for name in ("fixed", "free", "half"):
        case = cases[name]
        note = f"at {case.minimum_direction:.2f} deg, across the peak; the text gives no number"
        rows.append(Row(f"virtual_mass.{name}.minimum", case.ellipse.masses[1], "kg", source="Fig. 6 (a)", note=note))
    return rows


def claim_rows(point: ImpactPoint, cases: dict[str, Case], angles: Array, configurations: Configurations) -> list[Row]:
    """What Sec. 6 says beside the peaks."""
    free, fixed, half = (cases[name].map.absolute for name in ("free", "fixed", "half"))
    between = bool(np.all((free < half) & (half < fixed)))
    centre = point.mechanics.centre_of_mass(point.configuration(POSTURE))
    arm = centre - point.mechanics.frame_pose(HAND, point.configuration(POSTURE))[0]
    rows = [
        Row(
            "mass_centre.direction", float(np.degrees(np.arctan2(arm[1], arm[0]))), "deg", 51.0, SECTION,
            Verdict.FITTED, "seen from the struck end: Fig. 5 is missing, and this number chose the configuration",
        ),
        _judged(
            "virtual_mass.half.between_everywhere", between, "", True, between,
            f"when free < half < fixed at all {DIRECTIONS} directions", configurations,
            "a law for the projected mass, not for this one",
        ),
    ]  # fmt: skip
    for name in ("fixed", "free", "half"):
        psi = float(np.degrees(cases[name].peak.angle))
        measure, note = f"when below {ZERO_ANGLE:g} deg", "G* of equal resistances is symmetric"
        rows.append(_judged(f"psi.{name}.at_peak", psi, "deg", 0.0, psi <= ZERO_ANGLE, measure, configurations, note))
        rows.append(
            Row(f"psi.{name}.largest", float(np.degrees(np.abs(cases[name].psi).max())), "deg", source="Fig. 6 (b)",
                note="the text gives no number"),
        )  # fmt: skip
    for name, said in (("fixed", 51.0), ("free", 90.0), ("half", "between 51 and 90")):
        size = np.linalg.norm(cases[name].elastic.impulse[:, :3], axis=-1)
        where = float(np.degrees(angles[size.argmax()]))
        agrees = abs(where - said) <= DEGREE if isinstance(said, float) else 51.0 < where < 90.0
        measure = WITHIN_DEGREE if isinstance(said, float) else f"when {said} deg"
        claim = "that the largest impulse comes where the virtual mass peaks"
        rows.append(
            _judged(f"impulse.{name}.peak_direction", where, "deg", said, agrees, measure, configurations, claim=claim)
        )
    return [*rows, *_energy_rows(point, cases)]


def _energy_rows(point: ImpactPoint, cases: dict[str, Case]) -> list[Row]:
    """What the paper's equations do that it does not say."""
    free = cases["free"].map.absolute
    k = cases["free"].map.acceleration * free[:, None]
    printed = 1.0 / np.einsum("ni,ij,nj->n", k, cases["free"].tensor[:3, :3], k)
    energy = cases["half"].elastic
    lost = float((energy.energy_lost / energy.energy_before).max())
    rates, gained, of = _largest_gain(point)
    return [
        Row(
            "virtual_mass.free.eq18_as_printed", float(np.abs(printed / free - 1.0).max()), "", None, "Eq. 18",
            note="largest relative difference between 1/(k^T G11 k), as printed, and the ratio |f|/|a| that it defines",
        ),
        Row(
            "energy.half.elastic.largest_loss", lost, "", source="Sec. 3",
            note="share of the kinetic energy that half-resisting joints take in an elastic hit from rest",
        ),
        Row(
            "energy.half.moving.largest_gain", gained, "J", source="Eq. 10",
            note=f"of {of:.3g} J: Eq. 10 is not passive. Joints with equal resistance that turn at {rates[0]:.2f} and "
            f"{rates[1]:.2f} rad/s add this to an elastic hit; the most of 400 random rates. Such a hit is not sound",
        ),
    ]  # fmt: skip


def _largest_gain(point: ImpactPoint) -> tuple[Array, float, float]:
    """Joint rates (rad/s) of 400 with which half resistance adds most to an elastic hit; energy added and before, J."""
    along = np.array([np.cos(0.5), np.sin(0.5), 0.0])
    rates = np.random.default_rng(0).uniform(-3.0, 3.0, (400, 2))
    chain = flying(point.robot, HAND, joints=POSTURE, rates=rates, resistance=0.5)
    striker = flying(ball(STRIKER_MASS), "contact", velocity=2.0 * STRIKER_SPEED * along).meeting(chain)
    hit = collide(chain, striker, normal=along, restitution=1.0, apart="ignore")
    most = int(np.argmax(hit.energy_added))
    return rates[most], float(hit.energy_added[most]), float(hit.energy_before[most])


def contact_rows(contacts: dict[str, Convergence]) -> list[Row]:
    """How finite-stiffness contacts tend to the jumps of Sec. 5."""
    return [
        Row(
            f"contact.{name.replace(', e = ', '.e')}.order", case.order, "", source="Sec. 5",
            note=f"error falls as duration^order, to {case.error[-1]:.1e} at {case.frequency[-1]:.0e} rad/s",
        )
        for name, case in contacts.items()
    ]  # fmt: skip
