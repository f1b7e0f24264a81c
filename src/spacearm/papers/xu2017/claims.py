"""What Xu 2017 claims in words or by arithmetic, each as a row with a verdict."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from spacearm.model.rotations import rotation_matrices
from spacearm.papers.xu2017 import data as paper
from spacearm.papers.xu2017.runs import Case, Exact, StartConfigurations
from spacearm.result import Row, Verdict
from spacearm.typing import Array

#: Sec. 5.6 assumes that the base turns no faster, rad/s.
RATE = 0.03


def conclusions(cases: dict[str, Case], theory_rank: int) -> list[Row]:
    """Conclusions 1 to 5 of Sec. 6, from what the data determine in each case."""
    turning, all_of_it = cases["attitude_only"], cases["all_unknown"]
    joints, base, arm, target = (cases[name] for name in ("joints_only", "base_known", "arm_known", "target_only"))
    single = cases["single_body_turned"]
    gained = sum(
        cases[name].undetermined - cases[f"{name}_fired"].undetermined
        for name in ("base_known", "arm_known", "target_only")
    )
    return [
        Row.claim(
            "conclusion1.rank_without_orbital_manoeuvres", turning.rank, joints.rank, "Sec. 6, 1",
            turning.rank < all_of_it.rank,
            "the paper: orbital manoeuvres and accelerations are needed. Moments without force and joint motions, "
            f"read without accelerometers, already determine all {theory_rank} combinations that any motion can; "
            f"only joint motions alone ({joints.rank}) miss the common factor of all masses",
        ),
        Row.claim(
            "conclusion1.determined_numbers", all_of_it.data, 70, "Abstract, Sec. 6, 1", all_of_it.data == 70,
            f"single numbers that orbital manoeuvres, accelerations and joint motions determine without a prior; the "
            f"other {all_of_it.undetermined} appear only in combinations",
        ),
        Row.claim(
            "conclusion2.tensor_entries", single.data, 6, "Sec. 6, 2", single.data == 6,
            "entries of the locked robot's tensor about its mass centre that attitude manoeuvres determine; they do so "
            "with no body's mass and mass centre known, so the premise is not needed",
        ),
        Row.claim(
            "conclusion3.base_known.undetermined", base.undetermined, 0, "Sec. 6, 3", base.undetermined == 0,
            f"numbers that stay undetermined when the base is known: {base.null} null directions between the links "
            "remain, as a known base takes away only the three at the first joint",
        ),
        Row.claim(
            "conclusion3.arm_known.undetermined", arm.undetermined, 0, "Sec. 6, 3", arm.undetermined == 0,
            "numbers that stay undetermined when the whole arm is known: the base's ten follow from joint motions",
        ),
        Row.claim(
            "conclusion4.target.undetermined", target.undetermined, 0, "Sec. 6, 4", target.undetermined == 0,
            "numbers that stay undetermined when all but the last body are known, from the motion of joint 6 alone",
        ),
        Row.claim(
            "conclusion5.gained_by_firings", gained, 0, "Sec. 6, 5", gained == 0,
            "further numbers that thruster firings determine in the cases of conclusions 3 and 4; case 2 burns fuel "
            "for its attitude manoeuvres all the same, unless wheels turn the satellite",
        ),
    ]  # fmt: skip


def orders(case: Exact) -> Row:
    """Sec. 3.1: the joints may be unlocked in either order."""
    gaps = np.abs(case.recursion.values - case.backwards.values) / np.maximum(np.abs(case.truth), case.sizes)
    return Row(
        "claim.order", float(gaps.max()), "", 0.0, "Sec. 3.1",
        Verdict.NO_EVIDENCE if gaps.max() <= 1e-9 else Verdict.DIFFERS,
        "largest relative difference of the combinations, joints 1 to 6 against 6 to 1; each joint's step takes the "
        "single body and its own motion, and no other joint's result, so the order cannot matter",
    )  # fmt: skip


def sensitivity(case: Exact) -> list[Row]:
    """Sec. 5.6: how strongly angular momentum depends on the base's tensor while joint 1 moves as printed."""
    record = case.records[1]
    rotation = rotation_matrices(record.channel("attitude"))
    spin = np.einsum("tij,tj->ti", rotation, record.channel("rate"))
    rate = float(np.linalg.norm(spin, axis=1).max())
    found = np.abs(tensor_coefficients(rotation, spin)).max(axis=0)
    moments, products = float(found[:, [0, 3, 5]].max()), float(found[:, [1, 2, 4]].max())
    # the sharp bound: the largest coefficient of any attitude and any angular velocity of this size
    quarter = np.sqrt(0.5)
    turned = np.array([[quarter, quarter, 0.0], [-quarter, quarter, 0.0], [0.0, 0.0, 1.0]])
    reached = float(np.abs(tensor_coefficients(turned, np.array([RATE, 0.0, 0.0]))[:, [1, 2, 4]]).max())
    follows = "largest over joint 1's motion; it follows from the rate and cannot exceed the bound"
    return [
        Row.claim("sensitivity.base_rate", rate, RATE, "Sec. 5.6", rate <= RATE,
               "largest in the motion of Table 5; agrees when at most what the paper assumes", "rad/s"),
        Row("sensitivity.K_moments", moments, "rad/s", RATE, "Eq. 75", Verdict.NO_EVIDENCE, follows),
        Row("sensitivity.K_products", products, "rad/s", 2 * RATE, "Eq. 75", Verdict.NO_EVIDENCE, follows),
        Row.claim("sensitivity.K_products.bound", reached, 2 * RATE, "Eq. 75", abs(reached - 2 * RATE) < 1e-12,
               "least bound that holds: a coefficient is a sum of two products, at most the rate itself by "
               "Cauchy-Schwarz, and that is reached; twice the rate is not sharp", "rad/s"),
    ]  # fmt: skip


def percentages() -> list[Row]:
    """Tables 6 to 12: per cent recomputed from the tables' own columns; a row for each that does not fit."""
    rows, fitting = [], 0
    for (body, symbol), (error, printed) in paper.ERRORS.items():
        k = paper.SYMBOLS.index(symbol)
        true, found = float(paper.THEORETIC[body][k]), float(paper.IDENTIFIED[body][k])
        size, slack = abs(found - true), 5e-4  # the identified column has three decimals
        if float(error) <= slack or size == 0.0:  # the error column says more
            size, slack = float(error), _half_unit(error)
        percent, claimed = 100.0 * size / abs(true), float(printed)
        if abs(percent - claimed) <= 100.0 * slack / abs(true) + _half_unit(printed):
            fitting += 1
            continue
        note = f"misprint: {size:.2g} of {abs(true):g} is {percent:.2g} %; the error column says {error}"
        rows.append(Row(f"percent.B{body}.{symbol}", percent, "%", claimed, f"Table {6 + body}", Verdict.DIFFERS, note))
    count = len(paper.ERRORS)
    note = "percentages of Tables 6 to 12 that fit the tables' own columns within their rounding"
    return [Row.claim("percent.fitting", fitting, count, "Tables 6 to 12", fitting == count, note), *rows]


def _half_unit(text: str) -> float:
    """Half a unit of the last printed digit."""
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0**exponent


def start_configurations(found: StartConfigurations) -> list[Row]:
    """Sec. 5.5 with the paper's own tables, from many start configurations, since its own is not printed."""
    rows = []
    for name, claimed in paper.VALIDATION.items():
        unit = "m" if name == "base_position" else "rad"
        values, kept = found.tables[name], found.kept[name]
        reached = int(np.sum(values >= claimed))
        note = (
            f"largest difference under Table 13's torques between Tables 6 to 12 and Table 1, over {values.size} "
            f"start configurations at rest: {reached} of them reach the paper's number"
        )
        verdict = Verdict.DIFFERS
        if reached:
            verdict, note = Verdict.NOT_RECOVERABLE, f"{note}; the paper's own start is not printed"
        rows.append(
            Row(f"validation.paper_tables.{name}", float(values.max()), unit, claimed, "Sec. 5.5", verdict, note)
        )
        rows.append(
            Row(f"validation.paper_tables.b_kept.{name}", float(kept.max()), unit,
                note="the same where b_i is kept while a_i errs, so that the joints move as well: "
                f"{int(np.sum(kept >= claimed))} of {kept.size} reach the paper's number, the median is "
                f"{float(np.median(kept)):.2g} {unit}")
        )  # fmt: skip
    return rows


def tensor_coefficients(rotation: Array, spin: Array) -> Array:
    """K1 ... K18 of Eq. 72 for rotation matrices (..., 3, 3) and world angular velocities (..., 3): (..., 3, 6).

    Columns are Ixx, Ixy, Ixz, Iyy, Iyz, Izz in the paper's order.
    """
    a, s = rotation, np.einsum("...ji,...j->...i", rotation, spin)
    columns = [
        a[..., :, 0] * s[..., None, 0],
        a[..., :, 1] * s[..., None, 0] + a[..., :, 0] * s[..., None, 1],
        a[..., :, 2] * s[..., None, 0] + a[..., :, 0] * s[..., None, 2],
        a[..., :, 1] * s[..., None, 1],
        a[..., :, 2] * s[..., None, 1] + a[..., :, 1] * s[..., None, 2],
        a[..., :, 2] * s[..., None, 2],
    ]
    return np.stack(columns, axis=-1)
