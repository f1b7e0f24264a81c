"""What was found for each claim of ``claims.toml``: Zhang et al. (2020), Sec. 5, and the design beyond it.

The paper prints no segment lengths. So every statement is tried with other lengths too, and closed forms that no length
enters (modes along and about the arm's line, final velocities from momentum) stand beside the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from spacearm.capture import CaptureRun, SettlingCriterion
from spacearm.capture.modes import Modes
from spacearm.papers.agreement import Finding, build_finding
from spacearm.papers.zhang2020.data import CRITERION, DAMPINGS, PLACES, SINGLE, STIFFNESS, closed_form_modes
from spacearm.papers.zhang2020.runs import (
    AXIAL,
    BENDING,
    OBJECTIVES,
    SETTLED,
    DesignRuns,
    OtherLengths,
    Zhang2020Runs,
    axial_modes,
    base_peak,
    final_velocities,
    largest_lateral_force,
    largest_slide,
    load_bound,
    peak_loads,
    rigid_shares,
)

UNITS = {"fz": "N", "mz": "N m"}
#: How far from a quarter the slide of half a hit may be and still be of second order.
SQUARE = 0.01


def findings(runs: Zhang2020Runs, modes: Modes, designed: DesignRuns) -> Iterator[Finding]:
    """All of them, in the order of the table."""
    for (name, number), (value, exact) in axial_modes(modes).items():
        yield build_finding(
            "modes.{name}.{number}", value, name=name, number=number, exact=exact, off=abs(value - exact)
        )
    for claim, (value, exact) in zip(("base_velocity_z", "base_rate_z"), final_velocities(runs).values(), strict=True):
        yield build_finding(f"final.{claim}", value, exact=exact, off=abs(value - exact))
    yield build_finding("final.momentum_z", float(runs.ends["fz"].momentum_budget().total[0][-1, 2]))
    yield from _decoupling_findings(runs)
    yield from _settling_findings(runs)
    yield from _loads(runs)
    yield from _base(runs)
    four, six = largest_lateral_force(runs.six["damping5"]), largest_lateral_force(runs.general)
    others = _describe_other_lengths(runs, lambda arm: f"{largest_lateral_force(arm.soft):.3g} N")
    yield build_finding("six.lateral_force.four_axes", four, holds=four <= six, others=others)
    yield build_finding("six.lateral_force.six_axes", six)
    yield from _design(designed)


def _describe_other_lengths(runs: Zhang2020Runs, remarks: Callable[[OtherLengths], str]) -> str:
    """What arms with other lengths give, in words."""
    return ", ".join(f"with {text}: {remarks(arm)}" for text, arm in runs.others.items())


def largest_cross_deformation(outcome: CaptureRun, allowed: str) -> dict[str, float]:
    """Largest deformation of each axis (both joints) other than ``allowed``: m or rad."""
    largest: dict[str, float] = {}
    for name in outcome.axes:
        axis = name.rpartition(".")[2]
        if axis != allowed:
            largest[axis] = max(largest.get(axis, 0.0), float(np.abs(outcome.joint(name)).max()))
    return largest


def _decoupling_findings(runs: Zhang2020Runs) -> Iterator[Finding]:
    """Each single hit deforms one axis only, says Sec. 5.1."""
    usual = largest_slide(runs.singles["fz"])
    for hit in (*BENDING, *AXIAL):
        cross = largest_cross_deformation(runs.singles[hit], SINGLE[hit])
        slide = cross.pop("slide_z", None)
        plane = "in a plane" if hit in BENDING else "along and about one line"
        yield build_finding(
            "decoupling.{hit}.turns", max(cross.values()), hit=hit, allowed_axis=SINGLE[hit], plane=plane
        )
        if hit in BENDING and slide is not None:
            others = _describe_other_lengths(runs, lambda arm, hit=hit: f"{100 * arm.slide_ratio(hit):.2g} %")  # type: ignore[misc]
            # Half the hit, a quarter of the slide: then it is of second order, and the linear statement of the paper
            # stands.
            share = largest_slide(runs.halves[hit]) / slide
            facts = {"share": share, "part": 100 * slide / usual, "others": others}
            yield build_finding("decoupling.{hit}.slide", slide, holds=abs(share - 0.25) <= SQUARE, hit=hit, **facts)
        elif slide is not None:
            yield build_finding("decoupling.mz.slide", slide)


def _settling_findings(runs: Zhang2020Runs) -> Iterator[Finding]:
    parts = (0.1, 0.05, 0.02)
    times = {
        name: [outcome.settling_time(SettlingCriterion(part)) for part in parts] for name, outcome in runs.long.items()
    }
    remarks = {
        n: ", ".join(f"to {p:.0%}".replace("%", " %") + f": {t:.1f} s" for p, t in zip(parts, at, strict=True))
        for n, at in times.items()
    }
    # what is left of the slow z-line mode, %
    # Decay rate of a mode for a unit of damping that is proportional to stiffness: omega^2 b / (2 k).
    slow = closed_form_modes()["z_line"][0] ** 2 / (2.0 * STIFFNESS)
    left = {n: 100 * float(np.exp(-time * DAMPINGS[n] * slow)) for n, time in (("damping1", 50.0), ("damping5", 20.0))}
    energies = runs.six["undamped"].energies
    kept = float(energies["kinetic"][-1] + energies["elastic"][-1])
    yield build_finding("settling.undamped", runs.six["undamped"].settling_time(CRITERION), kept=kept)
    everywhere = [runs.long["damping1"], *(arm.slow for arm in runs.others.values())]
    above = all(outcome.settling_time(SettlingCriterion(part)) > 50.0 for outcome in everywhere for part in parts)
    one, five = times["damping1"], times["damping5"]
    facts = {"criterion": CRITERION, "times": remarks["damping1"], "left": left["damping1"]}
    yield build_finding("settling.damping1", one[1], holds=above, **facts)
    others = _describe_other_lengths(runs, lambda arm: f"{arm.settling_time:.1f} s")
    yield build_finding("settling.damping5", five[1], times=remarks["damping5"], left=left["damping5"], others=others)
    yield build_finding("settling.order", [one[1], five[1]], holds=all(b < a for a, b in zip(one, five, strict=True)))


def _loads(runs: Zhang2020Runs) -> Iterator[Finding]:
    """What reaches the base; through a rigid arm all of the 50 N and 50 N m, says Sec. 5.2."""
    shares = rigid_shares(runs)
    for hit in AXIAL:
        column, unit, rigid = PLACES.index(hit), UNITS[hit], shares[hit][0]
        for name in DAMPINGS:
            value = float(peak_loads(runs.axial[hit, name])[column])
            bound = load_bound(hit, DAMPINGS[name])
            facts = {"rigid": rigid, "together": float(peak_loads(runs.six[name])[column]), "bound": bound}
            # Where the bound from the hit's energy is below the rigid arm's load, no soft arm could fail.
            sure = {"holds": value <= min(bound, rigid), "cannot_fail": bound < rigid}
            yield build_finding("transmitted.{hit}.{name}", value, hit=hit, name=name, unit=unit, **sure, **facts)
        yield _convergence(runs, hit, column)
    for hit, (value, share) in shares.items():
        yield build_finding("rigid.base_share.{hit}", value, hit=hit, unit=UNITS[hit], share=share)
    for k, place in enumerate(PLACES):
        if place in AXIAL:
            continue
        unit = "N" if k < 3 else "N m"
        sizes = [float(peak_loads(one)[k]) for one in (runs.six["rigid"], *(arm.rigid for arm in runs.others.values()))]
        others = ", ".join(f"with {text}: {size:.3g} {unit}" for text, size in zip(runs.others, sizes[1:], strict=True))
        lever = ["lever"] if min(sizes) > 50.0 else []
        yield build_finding("rigid.six.{place}", sizes[0], place=place, unit=unit, others=others, also=lever)


def _convergence(runs: Zhang2020Runs, hit: str, column: int) -> Finding:
    """How fast force or moment on the base dies out."""
    left = {}
    for name in DAMPINGS:
        outcome = runs.axial[hit, name]
        load = np.abs(outcome.base_wrench[:, column])
        left[name] = float(load[outcome.times >= 50.0].max() / load.max())
    one, five, none = (left[name] for name in ("damping1", "damping5", "undamped"))
    slow = closed_form_modes()["z_line" if hit == "fz" else "z_angle"][0] ** 2 / (2.0 * STIFFNESS)
    closed = [float(np.exp(-50.0 * DAMPINGS[name] * slow)) for name in ("damping1", "damping5")]
    facts = {"what": "force" if hit == "fz" else "moment", "undamped": none, "closed": closed}
    return build_finding("convergence.{hit}", [one, five], holds=five < one < none, hit=hit, **facts)


def _base(runs: Zhang2020Runs) -> Iterator[Finding]:
    """Whether soft joints calm the base, as abstract and conclusion have it."""
    for k, (hit, unit) in enumerate((("fz", "m/s"), ("mz", "rad/s"))):
        rigid = base_peak(runs.axial[hit, "rigid"])[k]
        yield build_finding("base_peak.{hit}.rigid", rigid, hit=hit, unit=unit)
        for name in DAMPINGS:
            peak = base_peak(runs.axial[hit, name])[k]
            facts = {"hit": hit, "name": name, "unit": unit, "rigid": rigid, "ratio": peak / rigid}
            yield build_finding("base_peak.{hit}.{name}", peak, holds=peak < rigid, **facts)
    for k, (what, unit) in enumerate((("velocity", "m/s"), ("rate", "rad/s"))):
        soft, rigid = (base_peak(runs.six[name])[k] for name in ("damping5", "rigid"))
        pairs = {text: (base_peak(arm.soft)[k], base_peak(arm.rigid)[k]) for text, arm in runs.others.items()}
        higher = ["higher"] if all(one > two for one, two in [(soft, rigid), *pairs.values()]) else []
        others = ", ".join(f"with {text}: {a:.4g} against {b:.4g} {unit}" for text, (a, b) in pairs.items())
        yield build_finding("base_peak.six.{what}", soft, what=what, unit=unit, rigid=rigid, others=others, also=higher)
    outcome = runs.long["damping5"]
    late = outcome.times >= outcome.times[-1] - 20.0
    shake = float(np.linalg.norm(outcome.base_vibration[late, :3], axis=1).max())
    velocity = outcome.base_velocity[late]
    change = float(np.linalg.norm(velocity - velocity[-1], axis=1).max())
    facts = {"end": outcome.times[-1], "shake": shake, "rate": float(np.linalg.norm(outcome.base_rate[-1]))}
    yield build_finding("base_velocity.six.late_change", change, holds=change <= 10.0 * shake, **facts)


def _design(designed: DesignRuns) -> Iterator[Finding]:
    """References, single best designs, the knee; in the objectives' units."""
    front, rows = designed.front, []
    texts = {
        "damping1": "stiffness 40, damping 1",
        "damping5": "stiffness 40, damping 5",
        "balance": "stiffness 40, dampers on (5) while an axis goes back to rest, else off (0)",
        "skyhook": "stiffness 40, dampers on (5) while they slow the inner body's vibration, else off (0)",
    }
    for name, values in designed.reference.items():
        head = name if name.startswith("damping") else f"on_off.{name}"
        rows.append((head, values, [f"{texts[name]}; {SETTLED}"] * len(OBJECTIVES)))
    for label, index in [(f"best_{o}", front.best(o)) for o in OBJECTIVES] + [("knee", front.knee())]:
        springs, dampers = front.design(index)
        note = "; ".join(f"{a}: {springs[a]:.3g}, {dampers[a]:.2g}" for a in front.axes)
        rows.append((label, front.values[index], [f"stiffness, damping of {note}", "", ""]))
    for label, values, notes in rows:
        for (objective, unit), value, text in zip(OBJECTIVES.items(), values, notes, strict=True):
            facts = {"design": label, "objective": objective, "unit": unit, "text": text}
            yield build_finding("design.{design}.{objective}", float(value), **facts)
