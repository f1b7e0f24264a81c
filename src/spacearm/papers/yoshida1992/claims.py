"""What was found for each claim of ``claims.toml``: Yoshida et al. (1992), Sec. 6.

The paper's configuration is not printed and was fitted. So each sentence is also tried in random configurations of the
same chain: one that holds in all of them cannot fail, and is no evidence for this configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spacearm.impact import ImpactPoint, build_system, collide, solid_ball
from spacearm.impact.contact import Convergence
from spacearm.papers.agreement import Finding, build_finding
from spacearm.papers.yoshida1992.configurations import Configurations
from spacearm.papers.yoshida1992.data import DIRECTIONS, HAND, POSTURE, STRIKER_MASS, STRIKER_SPEED
from spacearm.papers.yoshida1992.runs import JointCondition, elastic_by_equation_30, impulse_size, limits
from spacearm.typing import Array

#: Joint rates with which half resistance is tried.
RATES = 400


def findings(
    point: ImpactPoint,
    cases: dict[str, JointCondition],
    angles: Array,
    configurations: Configurations,
    fitting: dict[str, Any],
    contacts: dict[str, Convergence],
) -> Iterator[Finding]:
    """All of them, in the order of the table."""

    def sentence(claim: str, value: Any, case: str = "", **more: Any) -> Finding:
        """One that can or cannot fail; which of the two, the random configurations tell."""
        name = claim.format(case=case)
        return build_finding(
            claim, value, cannot_fail=configurations.always(name), share=configurations.share(name), case=case, **more
        )

    yield build_finding("configuration", np.degrees(point.configuration(POSTURE)), **fitting)
    yield build_finding("configuration.fitting", fitting["count"], **fitting)
    free, fixed, half = (cases[name] for name in ("free", "fixed", "half"))
    for name, case in (("fixed", fixed), ("free", free), ("half", half)):
        peak = float(case.ellipse.masses[0])
        # For half resistance the paper gives an order and no number.
        between = bool(free.ellipse.masses[0] < peak < fixed.ellipse.masses[0]) if name == "half" else None
        yield sentence(f"virtual_mass.{name}.peak", peak, holds=between)
        yield sentence(f"virtual_mass.{name}.peak_direction", case.peak_direction)
    for name, case in (("fixed", fixed), ("free", free), ("half", half)):
        minimum, direction = case.ellipse.masses[1], case.minimum_direction
        yield build_finding("virtual_mass.{case}.minimum", minimum, case=name, direction=direction)
    joints = point.configuration(POSTURE)
    arm = point.mechanics.centre_of_mass(joints) - point.mechanics.frame_pose(HAND, joints)[0]
    yield build_finding("mass_centre.direction", float(np.degrees(np.arctan2(arm[1], arm[0]))))
    masses = [case.map.absolute for case in (free, half, fixed)]
    between = bool(np.all((masses[0] < masses[1]) & (masses[1] < masses[2])))
    yield sentence("virtual_mass.half.between_everywhere", between, count=DIRECTIONS)
    for name in ("fixed", "free", "half"):
        yield sentence("psi.{case}.at_peak", float(np.degrees(cases[name].peak.angle)), name)
        yield build_finding("psi.{case}.largest", float(np.degrees(np.abs(cases[name].psi).max())), case=name)
    for name, printed in (("fixed", 51.0), ("free", 90.0), ("half", None)):
        where = float(np.degrees(angles[impulse_size(cases[name].elastic).argmax()]))
        if printed is None:
            yield sentence("impulse.half.peak_direction", where)
        else:
            yield sentence("impulse.{case}.peak_direction", where, name, printed=printed)
    yield from _limits(point)
    yield from _energies(point, cases)
    for name, contact in contacts.items():
        hit = name.replace(", e = ", ".e")
        last = {"error": contact.error[-1], "frequency": contact.frequency[-1]}
        yield build_finding("contact.{case}.order", contact.order, case=hit, **last)


def _limits(point: ImpactPoint) -> Iterator[Finding]:
    """Eqs. 13 to 15, which the paper derives, and the sign of Eq. 29."""
    found = limits(point)
    yield build_finding("limit.eq13", found.free)
    yield build_finding("limit.eq14", found.fixed)
    (slow, fast), (near, far) = found.ground, found.masses
    order = np.log(slow / fast) / np.log(far / near)
    yield build_finding("limit.eq15", fast, tolerance=2.0 / far, mass=far, order=order)
    ratio, energy = elastic_by_equation_30(point)
    yield build_finding("eq29.sign", ratio, energy=energy)


def _energies(point: ImpactPoint, cases: dict[str, JointCondition]) -> Iterator[Finding]:
    """What the paper's equations do that it does not say."""
    free = cases["free"].map.absolute
    # Eq. 18 as printed, with k the unit vector of the acceleration.
    k = cases["free"].map.acceleration * free[:, None]
    printed = 1.0 / np.einsum("ni,ij,nj->n", k, cases["free"].tensor[:3, :3], k)
    yield build_finding("virtual_mass.free.eq18_as_printed", float(np.abs(printed / free - 1.0).max()))
    elastic = cases["half"].elastic
    yield build_finding("energy.half.elastic.largest_loss", float((elastic.energy_lost / elastic.energy_before).max()))
    # Joint rates with which half resistance adds most to an elastic hit.
    along = np.array([np.cos(0.5), np.sin(0.5), 0.0])
    rates = np.random.default_rng(0).uniform(-3.0, 3.0, (RATES, 2))
    chain = build_system(point.robot, HAND, joints=POSTURE, rates=rates, resistance=0.5)
    striker = build_system(solid_ball(STRIKER_MASS), "contact", velocity=2.0 * STRIKER_SPEED * along).move_to_contact(
        chain
    )
    hit = collide(chain, striker, normal=along, restitution=1.0, apart="ignore")
    most = int(np.argmax(hit.added_energy))
    gained, before = float(hit.added_energy[most]), float(hit.energy_before[most])
    yield build_finding("energy.half.moving.largest_gain", gained, before=before, rates=rates[most], count=RATES)
