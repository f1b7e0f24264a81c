"""What was found for each claim of ``claims.toml``: Wojtunik et al. (2023).

Three kinds of rows: Table 2 from simulated experiments whose truth it is (does the method return what was put in?),
arithmetic among the paper's own numbers, and statements of Secs. 2, 5 and 6, tried under the settings that the paper
does not print. Where the outcome depends on these settings, the verdict is that it cannot be recovered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from spacearm.papers.agreement import Finding, build_finding, read_paper_file
from spacearm.papers.wojtunik2023.data import (
    AVERAGE,
    DEGREE,
    DEVIATION,
    NAME,
    OFFSETS,
    PRINTED,
    STATED_OFFSETS,
    TABLE2,
    UNITS,
)
from spacearm.papers.wojtunik2023.runs import (
    REPETITIONS,
    SIZES,
    DriveSetups,
    GearEffect,
    PaperFit,
    ReferenceTests,
    SimplexSearches,
    Wojtunik2023Study,
    gear,
    hessian,
    identifiability,
)


def findings(study: Wojtunik2023Study) -> Iterator[Finding]:
    """All of them, in the order of the table."""
    yield from _table(study.campaign)
    yield from arithmetic()
    yield from _tests(study.as_printed)
    yield from _offsets(study)
    yield from _friction(study)
    yield from _searches(study.searches)
    yield from _setups(study.setups)
    yield build_finding("hessian.J", hessian(study.campaign.robot))
    yield from _gear(gear())
    for setup, share in identifiability().items():
        yield build_finding("identifiability.{setup}.motor_inertia", share, setup=setup)
    yield from _certainty(study)
    yield from _use(study)


def _table(campaign: ReferenceTests) -> Iterator[Finding]:
    """What was put into the simulations comes back within four standard deviations, or the method is wrong."""
    for k, (fit, row) in enumerate(zip(campaign.fits, TABLE2, strict=True), 1):
        given = {**row, "offset": STATED_OFFSETS.get(k)}
        for name, unit in UNITS.items():
            scale = 1.0 / DEGREE if name == "offset" else 1.0
            value, sd = fit[name] * scale, fit.std(name) * scale
            place = {"number": k, "name": name, "unit": unit, "sd": sd}
            yield build_finding("test{number}.{name}.sd", sd, **place)
            if given[name] is None:
                yield build_finding("test{number}.offset", value, assumed=OFFSETS[k - 1], **place)
                continue
            # The tolerance is that of the estimate itself: four of its standard deviations.
            own = {"printed": given[name], "source": "Sec. 5" if name == "offset" else "Table 2", "tolerance": 4.0 * sd}
            unit_note = ["unit"] if name == "damping" and k == 1 else []
            yield build_finding("test{number}.{name}", value, also=unit_note, **own, **place)


def arithmetic() -> Iterator[Finding]:
    """What needs the paper's printed numbers alone."""
    yield from _table_statistics()
    yield from _magnitudes()


def _table_statistics() -> Iterator[Finding]:
    """Table 2's averages and standard deviations from its own five rows."""
    for name in AVERAGE:
        values = np.array([row[name] for row in TABLE2])
        for word, value, note in (
            ("mean", float(values.mean()), AVERAGE[name]),
            ("sd", float(values.std(ddof=1)), DEVIATION[name]),
        ):
            yield build_finding("table2.{word}.{name}", value, printed=note, word=word, name=name, unit=UNITS[name])


def _magnitudes() -> Iterator[Finding]:
    """Sec. 5: motor inertia against the links', stiffness against the CAD model's."""
    motors, links, cad = PRINTED["table2"]["motor_inertia"], PRINTED["link_inertia"], PRINTED["cad_stiffness"]
    for word, ratio in (("lowest", min(motors) / max(links)), ("highest", max(motors) / min(links))):
        yield build_finding("claim.motor_over_link.{word}", ratio, word=word)
    yield build_finding("claim.motor_inertia.same_order", max(motors) / min(motors))
    for k in (2, 4):
        yield build_finding("claim.cad_stiffness.test{number}", TABLE2[k - 1]["stiffness"] / cad, number=k, cad=cad)
    yield build_finding("claim.cad_stiffness.mean", AVERAGE["stiffness"] / cad, cad=cad)


def _tests(found: dict[str, list[PaperFit]]) -> Iterator[Finding]:
    """Sec. 5: in each test the flexible model is nearer to the experiment than the rigid reference.

    A fit that may choose a stiff spring can hardly be worse than a rigid joint.
    """
    for reading, text in read_paper_file(NAME, "page")["readings"].items():
        for k, one in enumerate(found[reading], 1):
            facts = {"setup": text, "chi2": one.fit.chi2, "inertia": one.fit["motor_inertia"]}
            ratio = one.rigid_rms / one.rms
            yield build_finding(
                "claim.flexible_over_rigid.{reading}.test{number}", ratio, reading=reading, number=k, **facts
            )
    ratios = [one.fit["stiffness"] / row["stiffness"] for one, row in zip(found["candidate"], TABLE2, strict=True)]
    yield build_finding(
        "claim.nonlinear_spring",
        float(np.std(ratios, ddof=1)),
        printed=DEVIATION["stiffness"] / AVERAGE["stiffness"],
        notes=", ".join(f"{ratio:.2f}" for ratio in ratios),
    )
    yield build_finding("claim.best_test")


def _offsets(study: Wojtunik2023Study) -> Iterator[Finding]:
    """Sec. 5: a higher start offset makes the values surer; whether it does can hang on accelerations not printed."""
    for name, ratios in study.ratios.items():
        high, low = (study.deviation_at(name, STATED_OFFSETS[test]) for test in (2, 3))
        # One ratio for each set of accelerations: true for all, for none, or dependent on what is not printed.
        kept, count = int(np.sum(ratios > 1.0)), ratios.size
        facts = {"count": count, "broken": count - kept, "least": ratios.min(), "sizes": SIZES}
        facts["verdict"] = "" if kept in (0, count) else "not recoverable"
        yield build_finding("claim.offset.{name}", low / high, holds=kept > 0, name=name, **facts)
    broken = np.any([ratios <= 1.0 for ratios in study.ratios.values()], axis=0)
    yield build_finding("claim.offset.broken", int(broken.sum()), count=broken.size)


def _friction(study: Wojtunik2023Study) -> Iterator[Finding]:
    """Sec. 5 and 6, the main conclusion: the damping scatters, so the friction of the spring is not linear."""
    searched = study.searches
    yield build_finding(
        "claim.nonlinear_friction",
        study.scatter["linear"],
        printed=DEVIATION["damping"] / AVERAGE["damping"],
        stribeck=study.scatter["stribeck"],
        stalled=sum(fit["damping"] < 1e-3 for fit in searched.stalled),
        starts=len(searched.starts),
    )


def _searches(found: SimplexSearches) -> Iterator[Finding]:
    yield build_finding("evaluations.nelder_mead", sum(fit.estimate.evaluations for fit in found.nelder_mead))
    yield build_finding("evaluations.levenberg_marquardt", sum(fit.estimate.evaluations for fit in found.marquardt))
    fourth, right = found.nelder_mead[3], found.marquardt[3]
    ends = {"damping": fourth["damping"], "inertia": fourth["motor_inertia"]}
    yield build_finding("stall.test4.nelder_mead.stiffness", fourth["stiffness"], **ends)
    yield build_finding("stall.test4.levenberg_marquardt.stiffness", right["stiffness"], truth=TABLE2[3]["stiffness"])
    yield build_finding("stall.starts", len(found.starts))
    yield build_finding("stall.nelder_mead", sum(fit["damping"] < 1e-3 for fit in found.stalled))
    yield build_finding("stall.nelder_mead_restarted", sum(fit["damping"] < 1e-3 for fit in found.restarted))
    yield build_finding("stall.cured", sum(fit["damping"] > 1e-3 for fit in found.cured))


def _setups(found: DriveSetups) -> Iterator[Finding]:
    for setup, fit in found.fits.items():
        for name in AVERAGE:
            truth = found.truth[name]
            facts = {"unit": UNITS[name], "identified": fit[name], "truth": truth, "sd": fit.std(name)}
            yield build_finding("bias.{setup}.{name}", fit[name] - truth, setup=setup, name=name, **facts)
        yield build_finding("bias.{setup}.chi2", fit.chi2, setup=setup)


def _gear(found: GearEffect) -> Iterator[Finding]:
    """Sec. 2: the rotor's inertia times the square of the gear ratio stands for a geared motor."""
    yield build_finding("gear.base_attitude.printed", found.printed)
    yield build_finding("gear.base_attitude.geared", found.geared)
    for block, share in found.shares.items():
        # J_C is the definition of the reflected inertia, so it holds in any case.
        yield build_finding("gear.{block}", share, block=block, also=[block], cannot_fail=block == "J_C")
    for pair, ratio in found.ratios.items():
        signs = "".join("+-"[sign < 0] for sign in (1, *pair))
        yield build_finding("gear.base_attitude.ratio.{signs}", ratio, signs=signs)


def _certainty(study: Wojtunik2023Study) -> Iterator[Finding]:
    fit = study.common.fit
    for one, name in zip(study.common.profiles, AVERAGE, strict=True):
        low, high = one.interval
        facts = {"unit": UNITS[name], "truth": AVERAGE[name], "sd": fit.std(one.name), "low": low, "high": high}
        yield build_finding("common.{name}", fit[one.name], name=name, **facts)
    yield build_finding("common.seconds", study.common.seconds)
    yield build_finding("posterior.effective_samples", study.common.posterior.effective)
    for name, share in zip(UNITS, study.covered, strict=True):
        yield build_finding("coverage.{name}", float(share), name=name, count=REPETITIONS)
    for name in AVERAGE:
        for offset in STATED_OFFSETS.values():
            yield build_finding(
                "offset_curve.{name}.{offset:g}deg", study.deviation_at(name, offset), name=name, offset=offset
            )


def _use(study: Wojtunik2023Study) -> Iterator[Finding]:
    for name, selection in study.selections.items():
        yield build_finding("law.truth_{name}", selection.chosen.name, name=name, reasons="; ".join(selection.reasons))
    response, held = study.use.response, study.use.hold_out
    yield build_finding("response.resonance", response.resonance, sd=response.resonance_sd)
    yield build_finding("hold_out.rms", held.rms / DEGREE)
    yield build_finding("hold_out.rigid_rms", held.rigid_rms / DEGREE)
    yield build_finding("hold_out.chi2", held.chi2)
