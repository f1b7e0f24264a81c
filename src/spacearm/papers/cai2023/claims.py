"""What Cai et al. (2023) say in words, each as a row with a verdict.

Two kinds. Some statements can be held against the paper's own tables: such a row agrees or differs by arithmetic alone
and says nothing of the surrogate. The others need a run: the surrogate was fitted to Table III, so what holds is
fitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spacearm.ejection import equivalent_mass
from spacearm.engine import Mechanics
from spacearm.papers.cai2023.data import (
    ATTITUDES,
    DAMPING,
    INERTIAS,
    SPRINGS,
    STIFFNESS,
    STROKE,
    TABLE,
    TOTAL,
    VELOCITY_ERRORS,
    in_paper_signs,
)
from spacearm.result import Row, Verdict

if TYPE_CHECKING:
    from spacearm.papers.cai2023 import Study

_ARITHMETIC = "arithmetic on the printed tables alone"


def rows(study: Study) -> list[Row]:
    """All claims."""
    return [*_of_tables(), *_of_table_four(), *_misprints(), *_of_masses(study), *_of_runs(study), *_of_damping(study)]


def _arithmetic(
    quantity: str, value: float, paper: float, unit: str, source: str, half_digit: float, note: str = ""
) -> Row:
    """Agrees where the printed value is the rounded one."""
    holds = abs(value - paper) <= half_digit * (1.0 + 1e-9)
    text = f"{_ARITHMETIC}; {note}" if note else _ARITHMETIC
    return Row(quantity, value, unit, paper, source, Verdict.AGREES if holds else Verdict.DIFFERS, text)


def _held(quantity: str, value: object, paper: object, source: str, holds: bool, note: str, unit: str = "") -> Row:
    """A statement tried on the surrogate: fitted where it holds."""
    return Row(quantity, value, unit, paper, source, Verdict.FITTED if holds else Verdict.DIFFERS, note)


def _largest(pairs: list[tuple[float, float]]) -> float:
    """Largest of |theory - simulation| / simulation, %."""
    return max(100.0 * abs(theory / simulation - 1.0) for theory, simulation in pairs)


def _order(values: dict[int, float]) -> str:
    return ", ".join(str(number) for number in sorted(values, key=lambda number: values[number]))


def _of_tables() -> list[Row]:
    """Percentages and orderings that Table III itself must bear out."""
    masses = {n: TABLE[n].plane for n in ATTITUDES}
    speeds = {n: -TABLE[n].velocity[1] for n in ATTITUDES}
    times, velocities = [TABLE[n].time for n in ATTITUDES], [TABLE[n].velocity for n in ATTITUDES]
    above = sum(theory > adams for theory, adams in velocities)
    rigid = TABLE[5].plane / TOTAL
    return [
        _arithmetic("claim.table3.time_error", _largest(times), 2.6, "%", "Sec. 4.2", 0.05),
        _arithmetic("claim.table3.velocity_error", _largest(velocities), 3.2, "%", "Sec. 4.2", 0.05),
        Row(
            "claim.table3.velocities_follow_masses",
            _order(speeds),
            "",
            _order(masses),
            "Sec. 4.2",
            Verdict.AGREES if _order(speeds) == _order(masses) else Verdict.DIFFERS,
            f"{_ARITHMETIC}: attitudes from fastest to slowest, beside those from lightest to heaviest",
        ),
        Row(
            "claim.straight_is_rigid",
            rigid,
            "",
            1.0,
            "Sec. 4.2",
            Verdict.AGREES if abs(rigid - 1.0) < 0.05 else Verdict.DIFFERS,
            f"{_ARITHMETIC}: the straight arm's 84.87 kg is said to be roughly the overall mass, which is 116.1 kg",
        ),
        Row(
            "claim.table3.theory_above_adams",
            above,
            "of 5",
            None,
            "",
            Verdict.NEW,
            f"{_ARITHMETIC}: velocities in which the theory exceeds ADAMS",
        ),
    ]


def _of_table_four() -> list[Row]:
    """Errors of theory against test, relative to the theory as the paper takes them."""
    errors = {n: 100.0 * (1.0 - TABLE[n].test_velocity / TABLE[n].velocity[0]) for n in ATTITUDES}
    found = [
        _arithmetic(
            f"claim.table4.attitude{n}.velocity_error",
            errors[n],
            VELOCITY_ERRORS[n],
            "%",
            "Table IV",
            0.05,
            "28.2 / 562.5 is not 5.4 %" if n == 3 else "",
        )
        for n in ATTITUDES
    ]
    found.append(_arithmetic("claim.table4.velocity_error", max(errors.values()), 7.7, "%", "Sec. 5.2", 0.05))
    for joint, paper in (("joint2", 0.56), ("joint4", 0.78)):
        gaps = []
        for n in ATTITUDES:
            theory, test = getattr(TABLE[n], joint)[0], getattr(TABLE[n], f"test_{joint}")
            gaps.append(abs(abs(theory) - abs(test)))  # joint 4 of attitude 4 has another sign than in Table III
        found.append(_arithmetic(f"claim.table4.{joint}_error", max(gaps), paper, "deg", "Sec. 5.2", 0.005))
    order = _order(errors).split(", ")
    found.append(
        Row(
            "claim.table4.extremes",
            f"largest {order[-1]}, smallest {order[0]}",
            "",
            "largest 4, smallest 5",
            "Sec. 5.2",
            Verdict.AGREES if (order[-1], order[0]) == ("4", "5") else Verdict.DIFFERS,
            f"{_ARITHMETIC}: attitudes with the largest and the smallest velocity error",
        )
    )
    return found


def _breaks(moments: tuple[float, ...], exchanged: bool) -> bool:
    """Whether no body can have this inertia: a principal moment exceeds the sum of the others."""
    xx, yy, zz, xy, xz, yz = moments
    if exchanged:
        xz, yz = yz, xz
    least, middle, most = np.linalg.eigvalsh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    return bool(least <= 0.0 or most > (least + middle) * (1.0 + 1e-12))


def _misprints() -> list[Row]:
    """What the tables cannot mean as they are printed."""
    printed = [name for name, moments in INERTIAS.items() if _breaks(moments, exchanged=False)]
    turned = [name for name, moments in INERTIAS.items() if _breaks(moments, exchanged=True)]
    needed = 0.5 * TABLE[5].plane * (1e-3 * TABLE[5].velocity[0]) ** 2
    stored = 0.5 * SPRINGS * STIFFNESS * STROKE**2
    quarter = 0.5 * np.pi * np.sqrt(TABLE[1].plane / (SPRINGS * STIFFNESS))
    return [
        Row(
            "printed.inertia.impossible",
            len(printed),
            "bodies",
            0,
            "Table II",
            Verdict.DIFFERS if printed else Verdict.AGREES,
            f"no body can have the inertias of {', '.join(printed)}: they break the triangle inequality; with the last "
            f"two columns (Ixz, Iyz) exchanged, those of {', '.join(turned) or 'none'}",
        ),
        Row(
            "printed.energy.attitude5",
            stored,
            "J",
            needed,
            "Table III, theory",
            Verdict.DIFFERS if needed > stored else Verdict.AGREES,
            "the springs hold less than 84.87 kg at 377.2 mm/s have, friction not counted",
        ),
        Row(
            "printed.mass.twice",
            None,
            "kg",
            TABLE[5].space,
            "Table III",
            Verdict.NOT_RECOVERABLE,
            "48.73 stands for attitude 1 on the plane and for attitude 5 in space; a quarter period of "
            f"{quarter:.3f} s fits the printed time of the first, so the second is the likelier misprint; what it "
            "should be is not printed",
        ),
    ]


def _of_masses(study: Study) -> list[Row]:
    """Which attitude is lightest, which is most eccentric."""
    configurations = {n: study.rig.arm.configuration(f"attitude{n}") for n in ATTITUDES}
    plane = {n: float(equivalent_mass(study.rig, q)) for n, q in configurations.items()}
    arm = study.space.arm
    space = {n: float(equivalent_mass(study.space, arm.configuration(f"attitude{n}"))) for n in ATTITUDES}
    mechanics = Mechanics(study.rig.arm)
    centres = {n: float(mechanics.centre_of_mass(q)[0]) for n, q in configurations.items()}
    far = max(centres, key=lambda n: abs(centres[n]))
    lightest = min(plane, key=lambda n: plane[n])
    return [
        _held(
            "claim.lightest.plane",
            lightest,
            2,
            "Sec. 4.2",
            lightest == 2,
            f"attitude; {plane[2]:.1f} kg, next {sorted(plane.values())[1]:.1f} kg",
        ),
        Row(
            "claim.lightest.space",
            min(space, key=lambda n: space[n]),
            "",
            3,
            "Sec. 4.2",
            Verdict.NOT_RECOVERABLE,
            "attitude; the masses without air-floating supports are not printed; with them "
            + ", ".join(f"{n}: {space[n]:.1f} kg" for n in ATTITUDES),
        ),
        _held(
            "claim.most_eccentric",
            far,
            4,
            "Sec. 4.2",
            far == 4,
            "attitude; mass centre off the rail by " + ", ".join(f"{n}: {1e3 * centres[n]:.0f} mm" for n in ATTITUDES),
        ),
    ]


def _of_runs(study: Study) -> list[Row]:
    """Statements about both methods, on the surrogate."""
    full = {n: in_paper_signs(study.full[n]) for n in ATTITUDES}
    parts = {n: in_paper_signs(study.segmented[n]) for n in ATTITUDES}
    above = sum(parts[n]["velocity"] > full[n]["velocity"] for n in ATTITUDES)
    found = [
        Row(
            "claim.theory_above_simulation",
            above,
            "of 5",
            5,
            "Table III",
            Verdict.DIFFERS if above < 5 else Verdict.FITTED,
            "velocities in which the segmented algorithm exceeds the full run, as the paper's theory does ADAMS: here "
            "it leaves velocity terms out and its cosine force ends too early, so it gives less",
        )
    ]
    for key, paper in (("time", 2.6), ("velocity", 3.2)):
        value = _largest([(parts[n][key], full[n][key]) for n in ATTITUDES])
        found.append(
            _held(
                f"claim.segmented.{key}_error",
                value,
                paper,
                "Sec. 4.2",
                value <= paper + 0.05,
                "largest difference between segmented algorithm and full run; the paper says that it is at most this",
                "%",
            )
        )
    masses = {n: float(equivalent_mass(study.rig, study.full[n].start)) for n in ATTITUDES}
    speeds = {n: -full[n]["velocity"] for n in ATTITUDES}
    found.append(
        _held(
            "claim.velocities_follow_masses",
            _order(speeds),
            _order(masses),
            "Sec. 4.2",
            _order(speeds) == _order(masses),
            "attitudes of the full run from fastest to slowest, beside those from lightest to heaviest",
        )
    )
    moving = [
        n
        for n in ATTITUDES
        if all(study.full[n].stop_times[joint] > study.full[n].time for joint in ("joint2", "joint4"))
    ]
    found.append(
        _held(
            "claim.joints_turn_after_separation",
            len(moving),
            5,
            "Sec. 4.2",
            len(moving) == len(ATTITUDES),
            f"attitudes in which joints 2 and 4 both still turn: {', '.join(map(str, moving))}",
            "of 5",
        )
    )
    return found


def _of_damping(study: Study) -> list[Row]:
    """Sec. 5.2: what damping does, and whether Eq. 43 can give 5.4."""
    high = 10.0 * DAMPING
    lead = 1e3 * (study.damped[4, high].velocity - study.damped[3, high].velocity)
    usual = 1e3 * (study.damped[4, DAMPING].velocity - study.damped[3, DAMPING].velocity)
    lost = dict(zip(ATTITUDES, (1e3 * study.more_damping).tolist(), strict=True))
    most = sorted(sorted(lost, key=lambda n: -lost[n])[:2])
    theory = [TABLE[n].velocity[0] - TABLE[n].test_velocity for n in (2, 3)]
    found = [
        _held(
            "claim.tenfold_damping",
            lead,
            "above 0",
            "Sec. 5.2",
            lead > 0.0 > usual,
            f"velocity of attitude 4 less that of attitude 3 at ten times the damping; {usual:.1f} mm/s at 5.4",
            "mm/s",
        ),
        _held(
            "claim.damping_matters_most",
            ", ".join(map(str, most)),
            "2, 3",
            "Sec. 5.2",
            most == [2, 3],
            "attitudes; twice the damping takes " + ", ".join(f"{n}: {lost[n]:.1f} mm/s" for n in ATTITUDES),
        ),
        Row(
            "claim.damping.minimum",
            min(theory),
            "mm/s",
            0.0,
            "Eqs. 43, 44",
            Verdict.DIFFERS if min(theory) > 0.0 else Verdict.AGREES,
            f"at 5.4 N m s/rad the theory of Table IV exceeds both tests, by {theory[0]:.1f} and {theory[1]:.1f} mm/s, "
            "and more damping makes it slower: Eq. 43 falls beyond 5.4, which cannot be its minimum",
        ),
    ]
    for model, text in (("segmented", "segmented algorithm"), ("full", "full run")):
        found.append(
            Row(
                f"claim.damping.eq43.{model}",
                study.printed_grid[model].damping,
                "N m s/rad",
                DAMPING,
                "Sec. 5.2",
                Verdict.DIFFERS if abs(study.printed_grid[model].damping - DAMPING) > 0.1 else Verdict.FITTED,
                f"least of Eq. 43 with the tests of Table IV and the {text} of the surrogate, steps of 0.2",
            )
        )
    return found
