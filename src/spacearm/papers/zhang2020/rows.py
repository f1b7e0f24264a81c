"""The table of agreement with Zhang et al. (2020), Sec. 5, and the facts that depend on no length.

The paper prints no lengths and no criterion of settling. A number that hangs on ours is *not recoverable*; a claim is
judged where it holds or fails for any of them.
"""

from __future__ import annotations

import numpy as np

from spacearm.capture import Modes, Outcome, Settling
from spacearm.papers.zhang2020.data import (
    BASE_IZ,
    BASE_MASS,
    CRITERION,
    DAMPINGS,
    FORCE,
    MOMENT,
    PULSE,
    SEGMENT_IZ,
    SEGMENT_MASS,
    SINGLE,
    STIFFNESS,
    closed_modes,
)
from spacearm.papers.zhang2020.runs import AXIAL, BENDING, Runs, across, base_peak, largest_slide, peak_loads
from spacearm.result import Check, Row, Verdict

SIX = "Sec. 5.2, Fig. 12"
UNITS = {"fz": "N", "mz": "N m"}
PLACES = ("fx", "fy", "fz", "mx", "my", "mz")
SOFTER = "soft joints reduce the base's instability"
NO_LENGTH = "depends on no length"


def rows_of(runs: Runs, found: Modes) -> list[Row]:
    """All rows but those of the design."""
    return [
        *_mode_rows(found),
        *_final_rows(runs),
        *_decoupling_rows(runs),
        *_settling_rows(runs),
        *_transmitted_rows(runs),
        *_rigid_rows(runs),
        *_base_rows(runs),
        *_lateral_rows(runs),
    ]


# -- what depends on no length ----------------------------------------------------------------------------------------


def _finals(runs: Runs) -> dict[str, tuple[float, float]]:
    """Velocity along (m/s) or rate about (rad/s) the arm at the end, and what momentum gives."""
    whole = {"fz": BASE_MASS + 2 * SEGMENT_MASS, "mz": BASE_IZ + 2 * SEGMENT_IZ}
    size = {"fz": FORCE * PULSE, "mz": MOMENT * PULSE}
    ends = {"fz": runs.ends["fz"].base_velocity, "mz": runs.ends["mz"].base_rate}
    return {hit: (float(ends[hit][-1, 2]), size[hit] / whole[hit]) for hit in AXIAL}


def _shares(runs: Runs) -> dict[str, tuple[float, float]]:
    """Largest axial load that a rigid arm passes on to the base, and the base's share of the inertia times 50."""
    parts = {"fz": BASE_MASS / (BASE_MASS + 2 * SEGMENT_MASS), "mz": BASE_IZ / (BASE_IZ + 2 * SEGMENT_IZ)}
    return {
        hit: (float(peak_loads(runs.axial[hit, "rigid"])[SINGLE[hit][1]]), 50.0 * part) for hit, part in parts.items()
    }


def facts(runs: Runs, found: Modes) -> dict[str, Check]:
    """Closed forms that hold for any lengths: the certificate has them."""
    closed = closed_modes()
    pairs = {
        "axial_modes": [
            pair
            for name, axis in (("z_line", "slide_z"), ("z_angle", "turn_z"))
            for pair in zip(found.of(axis), closed[name], strict=True)
        ],
        "final_velocities": list(_finals(runs).values()),
        "rigid_shares": list(_shares(runs).values()),
    }
    notes = {
        "axial_modes": (1e-10, "slide and twist modes against those of three bodies in a row"),
        "final_velocities": (1e-8, "base velocity and rate 900 s after an axial hit against momentum over inertia"),
        "rigid_shares": (1e-10, "axial loads through a rigid arm against the base's share of the inertia"),
    }
    return {
        name: Check(
            max(abs(value / exact - 1.0) for value, exact in pairs[name]), allowed, "", f"{note}, relative; {NO_LENGTH}"
        )
        for name, (allowed, note) in notes.items()
    }


def _mode_rows(found: Modes) -> list[Row]:
    closed, rows = closed_modes(), []
    for name, axis in (("z_line", "slide_z"), ("z_angle", "turn_z")):
        for number, (value, exact) in enumerate(zip(found.of(axis), closed[name], strict=True), 1):
            note = f"closed form for three bodies in a row: {exact:.9g} rad/s (difference {abs(value - exact):.1e}); "
            rows.append(Row(f"modes.{name}.{number}", value, "rad/s", note=note + NO_LENGTH))
    return rows


def _final_rows(runs: Runs) -> list[Row]:
    (velocity, exact_v), (rate, exact_w) = _finals(runs).values()
    momentum = runs.ends["fz"].shares().total[0][-1, 2]
    return [
        Row("final.base_velocity_z", velocity, "m/s",
            note=f"after the z-line hit, 900 s; momentum gives 0.5 N s / 216 kg = {exact_v:.9g} m/s "
                 f"(difference {abs(velocity - exact_v):.1e}); {NO_LENGTH}"),
        Row("final.base_rate_z", rate, "rad/s",
            note=f"after the z-angle hit, 900 s; momentum gives 0.5 N m s / 71.7 kg m2 = {exact_w:.9g} rad/s "
                 f"(difference {abs(rate - exact_w):.1e}); {NO_LENGTH}"),
        Row("final.momentum_z", float(momentum), "N s", "absorbed by the dampers", "Sec. 5.2", Verdict.DIFFERS,
            "all of the hit's 0.5 N s is still there after 900 s: dampers are inside the system and take energy, never "
            f"momentum; {NO_LENGTH}"),
    ]  # fmt: skip


# -- Sec. 5.1 ---------------------------------------------------------------------------------------------------------


def forbidden(outcome: Outcome, allowed: str) -> dict[str, float]:
    """Largest deformation of each axis (both joints) other than ``allowed``: m or rad."""
    largest: dict[str, float] = {}
    for name in outcome.axes:
        axis = name.rpartition(".")[2]
        if axis != allowed:
            largest[axis] = max(largest.get(axis, 0.0), float(np.abs(outcome.joint(name)).max()))
    return largest


def _decoupling_rows(runs: Runs) -> list[Row]:
    """Each single hit deforms one axis only, says Sec. 5.1."""
    source, rows = "Sec. 5.1, Fig. 10", []
    usual = largest_slide(runs.singles["fz"])
    for hit in ("fx", "my", "fy", "mx", "fz", "mz"):
        allowed = SINGLE[hit][0]
        cross = forbidden(runs.singles[hit], allowed)
        slide = cross.pop("slide_z", None)
        turns = max(cross.values())
        plane = "moves in a plane" if hit in BENDING else "moves along and about one line"
        rows.append(
            Row(f"decoupling.{hit}.turns", turns, "rad", 0.0, source,
                Verdict.DIFFERS if turns else Verdict.NO_EVIDENCE,
                f"only {allowed} is allowed; a straight arm (as taken here) that is struck so {plane}, by symmetry, "
                "whatever its lengths and springs")
        )  # fmt: skip
        if slide is None:
            continue
        if hit in BENDING:
            part = 100 * slide / usual
            other = ", with ".join(f"{text}: {100 * arm.stretch(hit):.2g} %" for text, arm in runs.others.items())
            note = (
                "bending stretches it to second order, with any lengths: not zero. By how much hangs on them: "
                f"{part:.2g} % of what a hit along the arm gives, with {other}; whether Fig. 10 would show it is not "
                "recoverable"
            )
            rows.append(Row(f"decoupling.{hit}.slide", slide, "m", 0.0, source, Verdict.DIFFERS, note))
        else:
            verdict, note = Verdict.NO_EVIDENCE, "a turn about the arm's own line stretches nothing, by symmetry"
            if slide:
                verdict, note = Verdict.DIFFERS, "a turn about the arm's own line should stretch nothing"
            rows.append(Row(f"decoupling.{hit}.slide", slide, "m", 0.0, source, verdict, note))
    return rows


# -- Sec. 5.2: settling -----------------------------------------------------------------------------------------------


def _settling_rows(runs: Runs) -> list[Row]:
    parts = (0.1, 0.05, 0.02)
    times = {name: [outcome.settling_time(Settling(part)) for part in parts] for name, outcome in runs.long.items()}
    left = {
        name: float(np.exp(-time * DAMPINGS[name] / (2.0 * STIFFNESS) * closed_modes()["z_line"][0] ** 2))
        for name, time in (("damping1", 50.0), ("damping5", 20.0))
    }

    def said(name: str) -> str:
        return f"to 10 %: {times[name][0]:.1f} s, to 5 %: {times[name][1]:.1f} s, to 2 %: {times[name][2]:.1f} s"

    everywhere = [runs.long["damping1"], *(arm.slow for arm in runs.others.values())]
    slow = all(outcome.settling_time(Settling(part)) > 50.0 for outcome in everywhere for part in parts)
    quicker = all(five < one for one, five in zip(times["damping1"], times["damping5"], strict=True))
    energies = runs.six["undamped"].energies
    kept = float(energies["kinetic"][-1] + energies["elastic"][-1])
    other = ", with ".join(f"{text}: {arm.settling:.1f} s" for text, arm in runs.others.items())
    return [
        Row("settling.undamped", runs.six["undamped"].settling_time(CRITERION), "s", "long-term oscillation", SIX,
            Verdict.NO_EVIDENCE, f"nothing can take energy where there is no damper: {kept:.3g} J stay"),
        Row("settling.damping1", times["damping1"][1], "s", "more than 50", SIX,
            Verdict.AGREES if slow else Verdict.DIFFERS,
            f"criterion: {CRITERION}; {said('damping1')}; agrees when above 50 s for each of them, with other lengths "
            f"too. The slow z-line mode, which {NO_LENGTH}, still has {100 * left['damping1']:.0f} % at 50 s"),
        Row("settling.damping5", times["damping5"][1], "s", "within 20", SIX, Verdict.NOT_RECOVERABLE,
            f"the paper gives no criterion: {said('damping5')}; the slow z-line mode, which {NO_LENGTH}, has "
            f"{100 * left['damping5']:.1f} % left at 20 s. Lengths matter, too: to 5 % with {other}"),
        Row("settling.order", [times["damping1"][1], times["damping5"][1]], "s", "faster with more damping", SIX,
            Verdict.AGREES if quicker else Verdict.DIFFERS,
            "agrees when damping 5 settles before damping 1 to 10, 5 and 2 %"),
    ]  # fmt: skip


# -- Sec. 5.2: loads --------------------------------------------------------------------------------------------------


def _transmitted_rows(runs: Runs) -> list[Row]:
    rows = []
    for hit in AXIAL:
        column, unit = SINGLE[hit][1], UNITS[hit]
        rigid = _shares(runs)[hit][0]
        for name in DAMPINGS:
            value = float(peak_loads(runs.axial[hit, name])[column])
            together = float(peak_loads(runs.six[name])[column])
            rows.append(
                Row(f"transmitted.{hit}.{name}", value, unit, "smaller than through a rigid arm", "Sec. 5.2, Fig. 13",
                    Verdict.AGREES if value < rigid else Verdict.DIFFERS,
                    f"largest load on the base in its own single hit of 50 {unit}, and so its acceleration; agrees "
                    f"when below the rigid arm's {rigid:.4g} {unit}; {NO_LENGTH}; in the six-dimensional hit "
                    f"{together:.4g} {unit}")
            )  # fmt: skip
    return rows


def _rigid_rows(runs: Runs) -> list[Row]:
    """The base gets all of the 50 N and 50 N m through a rigid arm, says Sec. 5.2."""
    rows = []
    for hit, (value, share) in _shares(runs).items():
        unit = UNITS[hit]
        note = f"the base's share of the inertia, {share:.6g} {unit}, not all of it; {NO_LENGTH}"
        rows.append(
            Row.compare(f"rigid.base_share.{hit}", value, 50.0, unit=unit, source="Sec. 5.2", relative=0.01, note=note)
        )
    loads = peak_loads(runs.six["rigid"])
    others = {text: peak_loads(arm.rigid) for text, arm in runs.others.items()}
    for k, place in enumerate(PLACES):
        if place in AXIAL:
            continue
        unit = "N" if k < 3 else "N m"
        sizes = [float(loads[k]), *(float(other[k]) for other in others.values())]
        note = "in the six-dimensional hit; hangs on the lengths: with " + ", with ".join(
            f"{text}: {other[k]:.3g} {unit}" for text, other in others.items()
        )
        if min(sizes) > 50.0:
            note += "; above 50 with each of them: the arm is a lever"
        rows.append(
            Row(f"rigid.six.{place}", sizes[0], unit, 50.0, "Sec. 5.2", Verdict.NOT_RECOVERABLE, note)
        )  # fmt: skip
    return rows


# -- Sec. 5.2: the base -----------------------------------------------------------------------------------------------


def _base_rows(runs: Runs) -> list[Row]:
    """Whether soft joints calm the base, as abstract and conclusion have it."""
    rows = []
    for hit, unit in (("fz", "m/s"), ("mz", "rad/s")):
        peaks = {name: base_peak(runs.axial[hit, name])[hit == "mz"] for name in ("rigid", *DAMPINGS)}
        rows.append(Row(f"base_peak.{hit}.rigid", peaks["rigid"], unit, note=f"of the single hit; {NO_LENGTH}"))
        for name in DAMPINGS:
            calmer = peaks[name] < peaks["rigid"]
            note = f"agrees when below the rigid arm's {peaks['rigid']:.4g} {unit}; {NO_LENGTH}"
            if not calmer:
                note = (
                    f"{peaks[name] / peaks['rigid']:.2f} times the rigid arm's {peaks['rigid']:.4g} {unit}: a soft arm "
                    f"swings, and the base with it; what it lowers is the load, hence the acceleration; {NO_LENGTH}"
                )
            rows.append(
                Row(f"base_peak.{hit}.{name}", peaks[name], unit, SOFTER, "Abstract",
                    Verdict.AGREES if calmer else Verdict.DIFFERS, note)
            )  # fmt: skip
    for k, (what, unit) in enumerate((("velocity", "m/s"), ("rate", "rad/s"))):
        soft, rigid = (base_peak(runs.six[name])[k] for name in ("damping5", "rigid"))
        pairs = {text: (base_peak(arm.soft)[k], base_peak(arm.rigid)[k]) for text, arm in runs.others.items()}
        higher = all(one > two for one, two in [(soft, rigid), *pairs.values()])
        note = (
            f"six-dimensional hit, damping 5, first 60 s; rigid: {rigid:.4g} {unit}. Hangs on the lengths: with "
            + ", with ".join(f"{text}: {one:.4g} against {two:.4g} {unit}" for text, (one, two) in pairs.items())
            + ("; higher than rigid with each of them" if higher else "")
        )
        rows.append(Row(f"base_peak.six.{what}", soft, unit, SOFTER, "Abstract", Verdict.NOT_RECOVERABLE, note))
    return [*rows, _turning_row(runs)]


def _turning_row(runs: Runs) -> Row:
    outcome = runs.long["damping5"]
    late = outcome.times >= outcome.times[-1] - 20.0
    shake = float(np.linalg.norm(outcome.shake[late, :3], axis=1).max())
    velocity = outcome.base_velocity[late]
    change = float(np.linalg.norm(velocity - velocity[-1], axis=1).max())
    rate = float(np.linalg.norm(outcome.base_rate[-1]))
    return Row(
        "base_velocity.six.late_change", change, "m/s", "stabilised", SIX,
        Verdict.DIFFERS if change > 10.0 * shake else Verdict.AGREES,
        f"of the base's velocity in the last 20 of {outcome.times[-1]:g} s, damping 5, where the vibration is below "
        f"{shake:.1e} m/s: the hit leaves the whole body turning ({rate:.3g} rad/s), so that no damper makes this "
        "velocity constant. How fast hangs on the lengths",
    )  # fmt: skip


def _lateral_rows(runs: Runs) -> list[Row]:
    four, six = across(runs.six["damping5"]), across(runs.general)
    other = ", with ".join(f"{text}: {across(arm.soft):.3g} N" for text, arm in runs.others.items())
    return [
        Row("six.lateral_force.four_axes", four, "N", "buffered in any direction", "Sec. 5.1", Verdict.DIFFERS,
            "largest force across the arm on the base in the six-dimensional hit, damping 5: without slides along x "
            "and y it passes during the pulse itself; Fig. 13 does not show it. How much hangs on the lengths: with "
            f"{other}"),
        Row("six.lateral_force.six_axes", six, "N",
            note="the same with the general joint of Sec. 4, slides along x and y as along z"),
    ]  # fmt: skip
