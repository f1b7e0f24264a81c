"""What was found for each claim of ``claims.toml``: Cai et al. (2023).

Some statements can be held against the paper's own tables: such a row is consistent or differs by arithmetic alone and
says nothing of the surrogate. The others need a run: the surrogate was fitted to Table III, so what holds is fitted.
``tests/papers/test_cai2023_reasons.py`` holds the reasons that the notes give for differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from spacearm.ejection import Ejection, equivalent_mass
from spacearm.ejection.mass import joint_free_bound
from spacearm.engine import Mechanics
from spacearm.model import catalogue
from spacearm.papers.agreement import Claim, Finding, build_finding, row_of
from spacearm.papers.cai2023.data import (
    ATTITUDES,
    DAMPING,
    DEGREE,
    NAME,
    PRINTED,
    TABLE,
    UNITS,
    convert_to_paper_signs,
    list_by_attitude,
    measured_value,
)
from spacearm.papers.cai2023.runs import Cai2023Study, RoughRail, spread
from spacearm.result import Verdict

#: Rows of Table III whose difference has a reason of its own: attitude, method, quantity.
REASONS = {(5, "full", "joint4"), (5, "segmented", "joint4")} | {
    (2, "segmented", key) for key in ("velocity", "joint4", "angular_velocity")
}
#: The largest errors between theory and test that the paper itself reports (Sec. 5.2); of the theory's velocity.
TEST_TOLERANCES = {"velocity": (0.0, 0.077), "joint2": (0.56, 0.0), "joint4": (0.78, 0.0)}


def findings(study: Cai2023Study) -> Iterator[Finding]:
    """All of them, in the order of the table."""
    yield from _table_findings(study)
    for number in ATTITUDES:
        yield from masses(study.full[number], number, f"attitude{number}")
        yield build_finding("attitude{number}.mass.space", number=number, printed=TABLE[number].space)
        yield from _both_methods(study, number)
    for number in study.elsewhere:
        yield _elsewhere(study, number)
    yield from tests(study.full, study.rough)
    yield from _separation_findings(study)
    yield from arithmetic()
    yield from _mass_findings(study)
    yield from _method_findings(study)
    yield from _damping_findings(study)
    yield from _extension_findings(study)


# -- Tables III and IV ------------------------------------------------------------------------------------------------


def _table_findings(study: Cai2023Study) -> Iterator[Finding]:
    rig = study.printed
    bound, smallest = joint_free_bound(rig, "joint4"), min(row.joint4_free for row in TABLE.values())
    straight = float(equivalent_mass(rig, rig.arm.configuration("zero")))
    yield build_finding("printed.mass.plane.straight", straight, printed=TABLE[5].plane)
    bounded = {"holds": smallest >= bound, "least": study.printed_least}
    yield build_finding("printed.mass.joint4_free.lower_bound", bound, printed=smallest, **bounded)
    yield build_finding("surrogate.mass.total", study.rig.arm.mass)


def masses(run: Ejection, number: int, name: str) -> Iterator[Finding]:
    """Both masses of Table III at the attitude from which this run started."""
    for key, free in (("plane", None), ("joint4_free", ["joint4"])):
        mass = float(equivalent_mass(run.rig, run.start, free))
        yield build_finding("{name}.mass.{key}", mass, name=name, key=key, printed=getattr(TABLE[number], key))


def columns(values: Mapping[str, float], number: int, name: str, kind: str, **facts: Any) -> Iterator[Finding]:
    """The five quantities of one method beside its column of Table III, the other column as a note."""
    labels = ("theory", "ADAMS")
    ours, other = (1, 0) if kind == "full" else (0, 1)
    for key, value in values.items():
        note = getattr(TABLE[number], key)
        place = {"name": name, "kind": kind}
        if key == "angular_velocity":
            also = ["elsewhere"] if facts else []
            own = {"printed": note, **facts}
        else:
            also, own = [], {"printed": note[ours], "column": labels[ours], "other": labels[other]}
            own["other_value"] = note[other]
        if (number, kind, key) in REASONS:
            also.append(f"{kind}{number}")
        yield build_finding(f"{{name}}.{{kind}}.{key}", value, also=also, **place, **own)


def _both_methods(study: Cai2023Study, number: int) -> Iterator[Finding]:
    facts: dict[str, Any] = {}
    if number in study.elsewhere:
        where, there = _where(study, number)
        facts = {"where": where, "there": there}
    for kind, run in (("full", study.full[number]), ("segmented", study.segmented[number])):
        yield from columns(convert_to_paper_signs(run), number, f"attitude{number}", kind, **facts)


def _where(study: Cai2023Study, number: int) -> tuple[str, float]:
    """The other attitude in the paper's signs, and its angular velocity there, deg/s."""
    run = study.elsewhere[number]
    q2, q4, q6 = run.start * DEGREE
    return f"q2, q4, q6 = {-q2:g}, {q4:g}, {q6:g} deg", convert_to_paper_signs(run)["angular_velocity"]


def _elsewhere(study: Cai2023Study, number: int) -> Finding:
    """That an attitude as good as the given one has the paper's angular velocity: the reason of that difference."""
    run, name = study.elsewhere[number], f"attitude{number}.elsewhere"
    *checked, angular_rate = [*masses(run, number, name), *columns(convert_to_paper_signs(run), number, name, "full")]
    rows = [row_of(NAME, finding) for finding in checked]
    outside = ", ".join(row.quantity for row in rows if row.verdict is not Verdict.FITTED)
    where, value = _where(study, number)
    facts = {"where": where, "but": f" but {outside}" if outside else "", **angular_rate.own}
    return build_finding("attitude{number}.elsewhere.angular_velocity", value, number=number, **facts)


def tests(full: Mapping[int, Ejection], rough: RoughRail) -> Iterator[Finding]:
    """The full run beside the tests; where it is outside, what ADAMS and a rough rail have to do with it."""
    smooth = {number: convert_to_paper_signs(full[number]) for number in ATTITUDES}
    for number in ATTITUDES:
        for key in TEST_TOLERANCES:
            yield _test(number, key, smooth[number][key], rough)
    yield build_finding("test.rail_friction", rough.friction)
    adams = {number: {key: getattr(TABLE[number], key)[1] for key in TEST_TOLERANCES} for number in ATTITUDES}
    for name, keys in (("velocity", ("velocity",)), ("joints", ("joint2", "joint4"))):
        others = {"rough": spread(rough.values, keys), "adams": spread(adams, keys)}
        yield build_finding(f"test.{name}.rms", spread(smooth, keys), **others)


def _test(number: int, key: str, value: float, rough: RoughRail) -> Finding:
    absolute, relative = TEST_TOLERANCES[key]
    theory, adams = getattr(TABLE[number], key)
    note, test = TABLE[number].test(key), measured_value(number, key)
    # Relative errors are of the theory's value, as in the paper; relative to the test they would be others.
    near = Claim(printed=test, tolerance=absolute + relative * abs(theory), same_sign=True)
    misprint = ["misprint"] if note != test else []
    also = misprint if near.holds(value) else ["outside", *misprint]
    return build_finding(
        "attitude{number}.test.{key}",
        value,
        printed=note,
        unit=UNITS[key],
        holds=near.holds(value) and not misprint,
        also=also,
        number=number,
        key=key,
        test=test,
        gap_to_test=value - test,
        allowed_gap=near.allowed_difference(),
        sign_of_test=near.sign(value),
        to_adams=value - adams,
        adams_to_test=adams - test,
        rough=rough.values[number][key] - test,
        friction=rough.friction,
    )


def _separation_findings(study: Cai2023Study) -> Iterator[Finding]:
    for number in ATTITUDES:
        run, parts = study.full[number], study.segmented[number]
        hits = ", ".join(f"{hit.joint} reaches its limit at {hit.time:.2f} s" for hit in run.hits)
        last, drift = float(run.final_variation[1]) * DEGREE, 1e3 * np.linalg.norm(run.drift_velocity)
        yield build_finding("attitude{number}.full.stable_time", run.stable_time, number=number)
        yield build_finding(
            "attitude{number}.full.final.joint4", last, number=number, limits=hits or "no joint limit reached"
        )
        yield build_finding("attitude{number}.segmented.stable_time", parts.stable_time, number=number)
        stable = 1e3 * parts.stable_velocity
        yield build_finding("attitude{number}.segmented.stable_velocity", stable, number=number, drift=drift)


# -- what the paper says of its own tables ----------------------------------------------------------------------------


def arithmetic() -> Iterator[Finding]:
    """What needs the paper's printed numbers alone."""
    yield from _percentage_findings()
    yield from _test_error_findings()
    yield from _misprints()


def _largest(pairs: Iterable[Sequence[float]]) -> float:
    """Largest of |theory - simulation| / simulation, %."""
    return max(100.0 * abs(theory / simulation - 1.0) for theory, simulation in pairs)


def _order(values: dict[int, float]) -> str:
    return ", ".join(str(number) for number in sorted(values, key=lambda number: values[number]))


def _times(claim: str, times: Sequence[float]) -> Finding:
    """Whether ejections last as long as Sec. 3.2 says."""
    least, most = min(times), max(times)
    return build_finding(claim, [least, most], holds=least >= 0.2 and most <= 0.4)


def _percentage_findings() -> Iterator[Finding]:
    """Percentages and orderings that Table III itself must bear out."""
    rows = TABLE.values()
    yield build_finding("claim.table3.time_error", _largest(row.time for row in rows))
    yield _times("claim.table3.times", [time for row in rows for time in row.time])
    yield build_finding("claim.table3.velocity_error", _largest(row.velocity for row in rows))
    speeds, heavy = {n: -TABLE[n].velocity[1] for n in TABLE}, {n: TABLE[n].plane for n in TABLE}
    yield build_finding("claim.table3.velocities_follow_masses", _order(speeds), printed=_order(heavy))
    yield build_finding("claim.straight_is_rigid", TABLE[5].plane / PRINTED["total_mass"])
    yield build_finding(
        "claim.table3.theory_above_adams", sum(theory > adams for theory, adams in (r.velocity for r in rows))
    )


def _test_error_findings() -> Iterator[Finding]:
    """Errors of theory against test, relative to the theory as the paper takes them."""
    errors = {n: 100.0 * (1.0 - row.test_velocity / row.velocity[0]) for n, row in TABLE.items()}
    for n, note in zip(ATTITUDES, PRINTED["velocity_errors"], strict=True):
        also = ["misprint"] if n == 3 else []
        yield build_finding(
            "claim.table4.attitude{number}.velocity_error", errors[n], number=n, printed=note, also=also
        )
    yield build_finding("claim.table4.velocity_error", max(errors.values()))
    for joint in ("joint2", "joint4"):  # sizes: joint 4 of attitude 4 has another sign than in Table III
        gaps = [abs(abs(getattr(row, joint)[0]) - abs(row.test(joint))) for row in TABLE.values()]
        yield build_finding(f"claim.table4.{joint}_error", max(gaps))
    order = _order(errors).split(", ")
    yield build_finding("claim.table4.extremes", f"largest {order[-1]}, smallest {order[0]}")


def _breaks(moments: list[float], exchanged: bool) -> bool:
    """Whether no body can have this inertia: a principal moment exceeds the sum of the others."""
    xx, yy, zz, xy, xz, yz = moments
    # Whether the table has only exchanged two columns of products of inertia.
    if exchanged:
        xz, yz = yz, xz
    least, middle, most = np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    return bool(least <= 0.0 or most > (least + middle) * (1.0 + 1e-12))


def _misprints() -> Iterator[Finding]:
    """What the tables cannot mean as they are printed."""
    yield build_finding("printed.mass.total", catalogue.load("cai2023_printed").mass, printed=PRINTED["total_mass"])
    broken = {kind: [n for n, m in PRINTED["inertias"].items() if _breaks(m, kind)] for kind in (False, True)}
    words = {"printed_so": ", ".join(broken[False]), "exchanged": ", ".join(broken[True]) or "none"}
    yield build_finding("printed.inertia.impossible", len(broken[False]), **words)
    device = PRINTED["device"]
    stiffness = device["springs"] * device["stiffness"]
    # Attitude 5 is straight: the whole arm moves as one, so its kinetic energy follows from mass and velocity alone.
    needed = 0.5 * TABLE[5].plane * (1e-3 * TABLE[5].velocity[0]) ** 2
    stored = 0.5 * stiffness * device["stroke"] ** 2
    yield build_finding("printed.energy.attitude5", stored, printed=needed, holds=needed <= stored)
    # The quarter of a period in which a free spring drives this mass from rest to its full speed.
    quarter = 0.5 * np.pi * np.sqrt(TABLE[1].plane / stiffness)
    yield build_finding("printed.mass.twice", printed=TABLE[5].space, quarter=quarter)
    theory = [TABLE[n].velocity[0] - TABLE[n].test_velocity for n in (2, 3)]
    yield build_finding("claim.damping.minimum", min(theory), holds=min(theory) <= 0.0, theory=theory)


# -- what the paper says in words, tried on the surrogate -------------------------------------------------------------


def _mass_findings(study: Cai2023Study) -> Iterator[Finding]:
    """Which attitude is lightest, which is most eccentric."""
    configurations = {n: study.rig.arm.configuration(f"attitude{n}") for n in ATTITUDES}
    plane = {n: float(equivalent_mass(study.rig, q)) for n, q in configurations.items()}
    arm = study.space.arm
    space = {n: float(equivalent_mass(study.space, arm.configuration(f"attitude{n}"))) for n in ATTITUDES}
    mechanics = Mechanics(study.rig.arm)
    centres = {n: 1e3 * float(mechanics.centre_of_mass(q)[0]) for n, q in configurations.items()}
    yield build_finding("claim.lightest.plane", min(plane, key=plane.__getitem__), masses=sorted(plane.values()))
    yield build_finding(
        "claim.lightest.space", min(space, key=space.__getitem__), masses=list_by_attitude(space, ".1f", "kg")
    )
    yield build_finding(
        "claim.most_eccentric",
        max(centres, key=lambda n: abs(centres[n])),
        centres=list_by_attitude(centres, ".0f", "mm"),
    )


def _method_findings(study: Cai2023Study) -> Iterator[Finding]:
    """Statements about both methods, on the surrogate."""
    full = {n: convert_to_paper_signs(study.full[n]) for n in ATTITUDES}
    parts = {n: convert_to_paper_signs(study.segmented[n]) for n in ATTITUDES}
    yield build_finding(
        "claim.theory_above_simulation", sum(parts[n]["velocity"] > full[n]["velocity"] for n in ATTITUDES)
    )
    for key in ("time", "velocity"):
        yield build_finding(f"claim.segmented.{key}_error", _largest((parts[n][key], full[n][key]) for n in ATTITUDES))
    heavy = {n: float(equivalent_mass(study.rig, study.full[n].start)) for n in ATTITUDES}
    speeds = {n: -full[n]["velocity"] for n in ATTITUDES}
    yield build_finding("claim.velocities_follow_masses", _order(speeds), printed=_order(heavy))
    yield _times("claim.times", [full[n]["time"] for n in ATTITUDES])
    yield from _locked_joint_findings(study)
    stops = {n: [study.full[n].stop_times[joint] for joint in ("joint2", "joint4")] for n in ATTITUDES}
    moving = [n for n in ATTITUDES if min(stops[n]) > study.full[n].time]
    yield build_finding("claim.joints_turn_after_separation", len(moving), moving=", ".join(map(str, moving)))


def _locked_joint_findings(study: Cai2023Study) -> Iterator[Finding]:
    """Sec. 5.2: with all joints locked no joint turns and the arm does not deflect."""
    rotation = max(float(np.abs(run.final_variation).max()) for run in study.locked.values())
    angular_rate = {name: max(float(np.linalg.norm(run.angular_velocity)) for run in runs.values()) * DEGREE
            for name, runs in (("locked", study.locked), ("free", study.full))}  # fmt: skip
    yield build_finding("claim.locked.variation", rotation * DEGREE)
    yield build_finding("claim.locked.angular_velocity", angular_rate["locked"], free=angular_rate["free"])


def _damping_findings(study: Cai2023Study) -> Iterator[Finding]:
    """Sec. 5.2: what damping does, and whether Eq. 43 can give 5.4."""
    lead, usual = (
        1e3 * (study.damped[4, value].velocity - study.damped[3, value].velocity) for value in (10.0 * DAMPING, DAMPING)
    )
    yield build_finding("claim.tenfold_damping", lead, holds=lead > 0.0 > usual, usual=usual)
    lost = dict(zip(ATTITUDES, (1e3 * study.more_damping).tolist(), strict=True))
    most = sorted(sorted(lost, key=lambda n: -lost[n])[:2])
    yield build_finding(
        "claim.damping_matters_most", ", ".join(map(str, most)), lost=list_by_attitude(lost, ".1f", "mm/s")
    )
    for model, text in (("segmented", "segmented algorithm"), ("full", "full run")):
        found = study.printed_grid[model].damping
        yield build_finding("claim.damping.eq43.{model}", found, model=model, text=text, printed=DAMPING)


# -- beyond the paper -------------------------------------------------------------------------------------------------


def _extension_findings(study: Cai2023Study) -> Iterator[Finding]:
    value, deviation = study.fit["damping"]
    low, high = study.fit.interval[0]
    yield build_finding("damping.grid.segmented", study.grid["segmented"].damping)
    yield build_finding("damping.grid.full", study.grid["full"].damping)
    yield build_finding("damping.least_squares", value, deviation=deviation, low=low, high=high)
    for name, best in study.best.items():
        joints = best.joints * DEGREE
        where = f"at q2, q4, q6 = {-joints[0]:.1f}, {joints[1]:.1f}, {joints[2]:.1f} deg"
        if name == "space":  # the model's own signs: there are more joints than the paper's plane has
            where = "all seven joints, weighted as 'balanced': q = " + ", ".join(f"{q:.0f}" for q in joints) + " deg"
        yield build_finding("best.{name}.velocity", 1e3 * float(best.runs.velocity[0]), name=name, where=where)
        yield build_finding("best.{name}.angular_velocity", float(best.runs.tumble_rate[0]) * DEGREE, name=name)
    drawn = study.spread
    for key, scale, unit in (("velocity", 1e3, "mm/s"), ("tumbling", DEGREE, "deg/s")):
        for level in (5.0, 50.0, 95.0):
            value, also = scale * drawn.percentiles[key][level], ["spread"] if level == 5.0 else []
            yield build_finding(
                "best.fastest.{key}.percentile{level:g}", value, key=key, level=level, unit=unit, also=also
            )
    count = drawn.runs.time.size
    yield build_finding("best.fastest.velocity.worst", 1e3 * drawn.worst["velocity"], count=count)
    yield build_finding("best.fastest.tumbling.worst", DEGREE * drawn.worst["tumbling"], count=count)
    yield build_finding("best.fastest.clearance.worst", drawn.worst["clearance"], count=count)
    yield build_finding("best.fastest.limit_share", max(drawn.hit_share.values()))
    speed, angular_rate = study.recoil.recoil
    yield build_finding("recoil.velocity", 1e3 * study.recoil.velocity)
    yield build_finding("recoil.satellite.velocity", 1e3 * float(np.linalg.norm(speed)))
    yield build_finding("recoil.satellite.angular_velocity", float(np.linalg.norm(angular_rate)) * DEGREE)
