"""Yoshida, Kurazume, Sashida, Umetani (1992): collision of free-floating links.

Sec. 6 of the paper: three uniform rods (1 m, 1 kg) on two revolute joints, struck at one end by a mass point that comes
from a direction theta in the plane. Fig. 6 shows the absolute virtual mass (a) and the angle psi between force and
acceleration (b) over theta, for free joints, fixed joints and half resistance. The figures are not in the text; what
the text says of them in words is compared here.
"""

from __future__ import annotations

from spacearm.impact import impact_point
from spacearm.impact.virtual_mass import circle
from spacearm.model import catalogue
from spacearm.papers import Progress
from spacearm.papers.agreement import agreement, page
from spacearm.papers.yoshida1992.claims import findings
from spacearm.papers.yoshida1992.configurations import (
    COUNT,
    SEED,
    find_configurations,
    random_configurations,
    summarise_fits,
    survey,
)
from spacearm.papers.yoshida1992.data import (
    CASES,
    DIRECTIONS,
    FREQUENCIES,
    HAND,
    NAME,
    PLANE,
    POSTURE,
    STRIKER_MASS,
    STRIKER_SPEED,
)
from spacearm.papers.yoshida1992.figures import build_figures, dataset
from spacearm.papers.yoshida1992.runs import certify, mujoco, run_case, run_contacts, run_grasps, simulate_hits
from spacearm.result import Certificate, Result
from spacearm.scene import scene_of

__all__: list[str] = []


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run Sec. 6 and compare."""
    say = progress or (lambda fraction, what: None)
    robot = catalogue.load("yoshida1992")
    point = impact_point(robot, HAND)
    angles, directions = circle(DIRECTIONS, PLANE, half=True)
    say(0.0, "virtual masses and hits over all directions")
    cases = {name: run_case(name, point, directions) for name in CASES}
    say(0.4, "grasps")
    grasps = run_grasps(robot)
    say(0.5, "contacts of finite stiffness")
    contacts = run_contacts(point)
    say(0.75, "which claims can fail")
    configurations = survey(point, random_configurations())
    fitting = summarise_fits(find_configurations(point), configurations)
    say(0.8, "checks")
    certificate = certify(point, cases, grasps, contacts)
    if cross_check:
        certificate |= mujoco(point, cases)
    say(0.9, "figures")
    return Result(
        NAME,
        rows=agreement(NAME, findings(point, cases, angles, configurations, fitting, contacts)),
        certificate=Certificate(certificate),
        settings={
            "robot": robot.name,
            "configuration": {
                name: float(value) for name, value in zip(robot.joint_names, robot.configuration(POSTURE), strict=True)
            },
            "frame": HAND,
            "directions": DIRECTIONS,
            "striker": {
                "mass_kg": STRIKER_MASS,
                "speed_m_s": STRIKER_SPEED,
                "note": "not given in the paper",
            },
            "contact_frequencies_rad_s": list(FREQUENCIES),
            "random_configurations": {"number": COUNT, "seed": SEED},
            "grid_of_configurations_deg": fitting["step"],
        },
        data=dataset(angles, cases, contacts),
        figures=build_figures(point, angles, cases, contacts),
        scene=scene_of(simulate_hits(point)),
        **page(NAME, **fitting),
    )
