"""What was found for each claim of ``claims.toml``: Xu et al. (2017).

The paper says that all ten parameters of every body follow; the rank of the data says how many combinations do. A
printed number is compared only where the data determine it, and is otherwise not recoverable, whatever was printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from statistics import NormalDist

import numpy as np

from spacearm.identify.inertia.inertia_parameters import PLAIN, PLAIN_UNITS, plain_of
from spacearm.identify.inertia.standard_parameters import ParameterSource
from spacearm.model.rotations import rotation_matrices
from spacearm.papers.agreement import Finding, build_finding, read_paper_file
from spacearm.papers.xu2017.data import IDENTIFIED, NAME, PRINTED, SYMBOLS, THEORETIC, VALIDATION
from spacearm.papers.xu2017.runs import (
    ConclusionCase,
    ExtensionRuns,
    NoiseFreeRuns,
    NoisyRuns,
    StartConfigurations,
    Swarms,
    Validation,
    Xu2017Study,
)
from spacearm.typing import Array

#: Tolerances (mass, length, inertia; kg, m, kg m2) against Table 4, which is rounded to three decimals (Table 1's own
#: rounding included), and against Tables 6 to 12: the size of the paper's own errors there.
TABLE4_LIMITS = (2e-3, *[5.5e-4] * 3, *[0.025] * 6)
TABLE_LIMITS = (0.1, *[0.01] * 3, *[0.02] * 6)
#: Units of what Sec. 5.5 compares.
ERROR_UNITS = {"base_position": "m", "base_attitude": "rad", "joint_angle": "rad"}


def findings(study: Xu2017Study) -> Iterator[Finding]:
    """All of them, in the order of the table."""
    case = study.exact
    yield from _single_body(case)
    yield from _ranks(case)
    yield from _tables(case)
    yield from start_configurations(study.validation.starts)
    yield from _validation(study.validation)
    yield from _methods(case, study.swarms)
    yield from _sensitivity(case)
    yield from arithmetic()
    gaps = np.abs(case.recursion.values - case.backwards.values) / np.maximum(np.abs(case.truth), case.sizes)
    yield build_finding("claim.order", float(gaps.max()))
    yield from _conclusions(study.beyond.cases, case.base_parameters.rank)
    yield from _noise(study.noisy)
    yield from _extension_findings(study.beyond)


def _single_body(case: NoiseFreeRuns) -> Iterator[Finding]:
    """Table 4 from the recursion's first stage (thruster firings with all joints locked)."""
    values = plain_of(case.recursion.extra["stages"][0].values)
    names = ("mass", "rx", "ry", "rz", *PLAIN[4:])
    columns = zip(names, values, PRINTED["table4"], PLAIN_UNITS, TABLE4_LIMITS, strict=True)
    for name, value, note, unit, limit in columns:
        claim = "single_body.mass" if name == "mass" else "single_body.{name}"
        yield build_finding(claim, float(value), name=name, printed=note, unit=unit, tolerance=limit)


def _ranks(case: NoiseFreeRuns) -> Iterator[Finding]:
    first, *joints = case.identifiability.stages
    yield build_finding("rank.after.thrusters", first.rank)
    for k, stage in enumerate(joints, 2):
        yield build_finding("rank.after.{experiment}", stage.rank, printed=10 * k, experiment=stage.experiment)
    size = 10 * len(case.robot.bodies)
    yield build_finding("rank.total", case.identifiability.rank, printed=size, rank=case.base_parameters.rank)
    yield build_finding("null.dimension", case.identifiability.null_dimension)
    yield build_finding("rank.condition", joints[-1].condition)


def _tables(case: NoiseFreeRuns) -> Iterator[Finding]:
    """Tables 6 to 12: a number only where the data determine it."""
    for b, body in enumerate(case.robot.bodies):
        for k, (symbol, unit) in enumerate(zip(PLAIN, PLAIN_UNITS, strict=True)):
            number, prior = (known.number(body.name, symbol) for known in (case.known, case.with_prior))
            place = {"body": b, "symbol": SYMBOLS[k], "table": 6 + b, "unit": unit, "printed": float(IDENTIFIED[b, k])}
            if number.source is ParameterSource.DATA:
                limits = {"tolerance": TABLE_LIMITS[k], "also": ["determined"]}
                yield build_finding("B{body}.{symbol}", number.value, std=number.std, **limits, **place)
            else:
                facts = {"true": float(THEORETIC[b, k]), "prior": prior.value, "std": prior.std}
                lost = {"verdict": "not recoverable", "also": ["undetermined"]}
                yield build_finding("B{body}.{symbol}", **lost, **facts, **place)


def start_configurations(found: StartConfigurations) -> Iterator[Finding]:
    """Sec. 5.5 with the paper's own tables, from many start configurations, since its own is not printed."""
    for name, note in VALIDATION.items():
        place = {"name": name, "unit": ERROR_UNITS[name]}
        values, kept = found.tables[name], found.kept[name]
        reached = int(np.sum(values >= note))
        facts = {"printed": note, "count": values.size, "reached": reached, "also": ["start"] if reached else []}
        yield build_finding("validation.paper_tables.{name}", float(values.max()), holds=reached > 0, **place, **facts)
        facts = {"reached": int(np.sum(kept >= note)), "count": kept.size, "median": float(np.median(kept))}
        yield build_finding("validation.paper_tables.b_kept.{name}", float(kept.max()), **place, **facts)


def _validation(check: Validation) -> Iterator[Finding]:
    masses = check.indistinguishable_inertia.reshape(-1, 10)[:, 0]
    other = 100.0 * float(np.abs(masses / THEORETIC[:, 0] - 1.0).max())
    ours, tables, reference, wrong = (
        one.largest() for one in (check.identified, check.paper, check.reference, check.wrong)
    )
    for name, note in VALIDATION.items():
        place = {"name": name, "unit": ERROR_UNITS[name]}
        yield build_finding("validation.{name}", ours[name], printed=note, tables=tables[name], **place)
        yield build_finding("validation.null_twin.{name}", reference[name], other=other, **place)
        yield build_finding("validation.wrong.{name}", wrong[name], **place)
    held, blind = check.hold_out
    yield build_finding("hold_out.base_rate", held.base_rate)
    yield build_finding("hold_out.base_velocity", held.base_velocity)
    yield build_finding("hold_out.null_twin.base_rate", blind.base_rate)
    for b, mass in enumerate(masses):
        yield build_finding("validation.null_twin.mass{body}", float(mass), body=b, true=float(THEORETIC[b, 0]))


def _methods(case: NoiseFreeRuns, swarm: Swarms) -> Iterator[Finding]:
    yield build_finding("noise_free.error.least_squares", case.error(case.linear.estimate.values))
    yield build_finding("noise_free.error.recursion", case.error(case.recursion.values))
    yield build_finding("noise_free.error.recursion_back", case.error(case.backwards.values))
    yield build_finding("noise_free.error.swarm_single_body", float(np.abs(swarm.single_error).max()))
    yield build_finding("noise_free.error.combinations", max(swarm.combination_error.values()))
    yield build_finding("noise_free.error.swarm_mass", max(swarm.combination_value.values()))
    facts = {"count": len(swarm.seeds), "flat": max(one.cost for one in swarm.seeds), "alike": max(swarm.seed_error)}
    for name, value in (("lowest", min(swarm.masses)), ("highest", max(swarm.masses))):
        yield build_finding("swarm.mass.{name}", value, name=name, printed=float(IDENTIFIED[0, 0]), **facts)
    searches = [swarm.single, *swarm.two.values()]
    rise = max(0.0, *(float(np.diff(one.history).max()) for one in searches))
    yield build_finding("swarm.best_cost.increase", rise, count=len(searches))
    yield build_finding("time.simulate", case.simulate_seconds)
    yield build_finding("time.least_squares", case.identify_seconds)
    yield build_finding("time.recursion", case.recursion.seconds)
    yield build_finding("time.swarm", sum(one.seconds for one in searches))
    yield build_finding("evaluations.swarm", sum(one.evaluations for one in searches))


def _sensitivity(case: NoiseFreeRuns) -> Iterator[Finding]:
    """Sec. 5.6: how strongly angular momentum depends on the base's tensor while joint 1 moves as printed."""
    record, bound = case.records[1], PRINTED["base_rate"]
    rotation = rotation_matrices(record.channel("attitude"))
    angular_rate = np.einsum("tij,tj->ti", rotation, record.channel("rate"))
    rate = float(np.linalg.norm(angular_rate, axis=1).max())
    found = np.abs(tensor_coefficients(rotation, angular_rate)).max(axis=0)
    yield build_finding("sensitivity.base_rate", rate, printed=bound, holds=rate <= bound)
    yield build_finding("sensitivity.K_moments", float(found[:, [0, 3, 5]].max()), printed=bound)
    yield build_finding("sensitivity.K_products", float(found[:, [1, 2, 4]].max()), printed=2 * bound)
    # the sharp bound: the largest coefficient of any attitude and any angular velocity of this size
    half = np.sqrt(0.5)
    rotated = np.array([[half, half, 0.0], [-half, half, 0.0], [0.0, 0.0, 1.0]])
    reached = float(np.abs(tensor_coefficients(rotated, np.array([bound, 0.0, 0.0]))[:, [1, 2, 4]]).max())
    yield build_finding("sensitivity.K_products.bound", reached, printed=2 * bound)


def arithmetic() -> Iterator[Finding]:
    """What needs the paper's printed numbers alone: the percentages of Tables 6 to 12.

    They are recomputed from the tables' own columns; a row for each that does not fit.
    """
    wrong, count = [], 0
    for b in range(len(THEORETIC)):
        for symbol, (error, percentage) in PRINTED["errors"][f"B{b}"].items():
            k = SYMBOLS.index(symbol)
            true, count = abs(float(THEORETIC[b, k])), count + 1
            size, slack = abs(float(IDENTIFIED[b, k] - THEORETIC[b, k])), 5e-4  # the identified column has 3 decimals
            if float(error) <= slack or size == 0.0:  # the error column says more
                size, slack = float(error), _half_unit(error)
            percent, note = 100.0 * size / true, float(percentage)
            if abs(percent - note) <= 100.0 * slack / true + _half_unit(percentage):
                continue
            facts = {"table": 6 + b, "size": size, "true": true, "error": error}
            wrong.append(
                build_finding(
                    "percent.B{body}.{symbol}", percent, holds=False, body=b, symbol=symbol, printed=note, **facts
                )
            )
    yield build_finding("percent.fitting", count - len(wrong), printed=count)
    yield from wrong


def _half_unit(text: str) -> float:
    """Half a unit of the last printed digit."""
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0**exponent


def _conclusions(cases: dict[str, ConclusionCase], rank: int) -> Iterator[Finding]:
    """Conclusions 1 to 5 of Sec. 6, from what the data determine in each case."""
    attitude, whole, joints = (cases[name] for name in ("attitude_only", "all_unknown", "joints_only"))
    base, arm, target = (cases[name].undetermined for name in ("base_known", "arm_known", "target_only"))
    fired = sum(cases[f"{name}_fired"].undetermined for name in ("base_known", "arm_known", "target_only"))
    yield build_finding(
        "conclusion1.rank_without_orbital_manoeuvres",
        attitude.rank,
        printed=joints.rank,
        holds=attitude.rank < whole.rank,
        rank=rank,
    )
    yield build_finding("conclusion1.determined_numbers", whole.data, undetermined=whole.undetermined)
    yield build_finding("conclusion2.tensor_entries", cases["single_body_turned"].data)
    yield build_finding("conclusion3.base_known.undetermined", base, null=cases["base_known"].null)
    yield build_finding("conclusion3.arm_known.undetermined", arm)
    yield build_finding("conclusion4.target.undetermined", target)
    yield build_finding("conclusion5.gained_by_firings", base + arm + target - fired)


def _noise(noise: NoisyRuns) -> Iterator[Finding]:
    carlo, counts = noise.monte_carlo, noise.identification.known.counts()
    many = {"count": len(carlo.values), "parameters": carlo.errors.shape[1]}
    usual = NormalDist().inv_cdf(0.5 + 0.5 * 0.5 ** (1.0 / carlo.errors.size))
    yield build_finding("noise.largest_error", float(np.abs(noise.errors).max()))
    yield build_finding("noise.coverage", carlo.coverage, **many)
    yield build_finding("noise.coverage.lowest", float(carlo.coverage_each.min()))
    yield build_finding("noise.largest_error.all", carlo.largest, usual=usual, **many)
    yield build_finding("noise.scatter_ratio.{end}", float(carlo.ratio.min()), end="lowest")
    yield build_finding("noise.scatter_ratio.{end}", float(carlo.ratio.max()), end="highest")
    yield build_finding("noise.chi_square", float(carlo.chi_square.mean()))
    yield build_finding("noise.numbers.data", counts["data"])
    yield build_finding("noise.numbers.prior", counts["prior"])
    weakest = noise.identification.weakest[0]
    yield build_finding("noise.weakest", weakest.deviation, words=weakest.words)
    yield build_finding("time.monte_carlo", carlo.seconds)


def _extension_findings(more: ExtensionRuns) -> Iterator[Finding]:
    yield build_finding("design.gain", 10 ** (more.paper.score - more.designed.score))
    yield build_finding("design.worst_gain", float(more.paper.deviations.max() / more.designed.deviations.max()))
    units = {"time": "s", "impulse": "N s", "attitude": "rad", "angle": "rad", "rate": "rad/s"}
    for name, unit in units.items():
        yield build_finding(
            "design.{name}", more.designed.usage[name], name=name, unit=unit, old=more.paper.usage[name]
        )
    first, last, truth = more.target[0], more.target[-1], more.target_truth
    yield build_finding("online.mass", float(last.values[0]), true=truth[0])
    yield build_finding("online.mass.deviation", float(last.std[0]), first=first.std[0])
    yield build_finding("online.largest_error", float(np.abs((last.values - truth) / last.std).max()))
    for name, text in read_paper_file(NAME, "page")["cases"].items():
        case = more.cases[name]
        yield build_finding("case.{name}.rank", case.rank, name=name, text=text, case=case)


def tensor_coefficients(rotation: Array, angular_rate: Array) -> Array:
    """K1 ... K18 of Eq. 72 for rotation matrices (..., 3, 3) and world angular velocities (..., 3): (..., 3, 6).

    Columns are Ixx, Ixy, Ixz, Iyy, Iyz, Izz in the paper's order.
    """
    s = np.einsum("...ji,...j->...i", rotation, angular_rate)
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))

    def term(i: int, j: int) -> Array:
        return np.asarray(rotation[..., :, i] * s[..., None, j])

    return np.stack([term(i, j) + (term(j, i) if i != j else 0.0) for i, j in pairs], axis=-1)
