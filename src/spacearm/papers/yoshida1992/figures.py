"""Curves and figures of the reproduction of Yoshida et al. (1992)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spacearm.impact import ImpactPoint
from spacearm.impact.contact import Convergence
from spacearm.impact.figures import convergence_curves, direction_curves, ellipses_on_configuration
from spacearm.papers.agreement import figure
from spacearm.papers.yoshida1992.data import NAME
from spacearm.papers.yoshida1992.runs import JointCondition, impulse_size
from spacearm.result import Figure
from spacearm.typing import Array

NAMES = {"free": "free joints (μ = 0)", "fixed": "fixed joints (μ = 1)", "half": "half resistance (μ = 0.5)"}
THETA = "impulse direction θ"


def dataset(angles: Array, cases: dict[str, JointCondition], contacts: dict[str, Convergence]) -> Any:
    """The curves of Fig. 6, the hits over all directions, the contacts: an xarray Dataset."""
    import xarray

    def stack_cases(
        pick: Callable[[JointCondition], Array], unit: str, name: str
    ) -> tuple[list[str], Array, dict[str, str]]:
        return ["case", "theta"], np.stack([pick(case) for case in cases.values()]), {"units": unit, "long_name": name}

    errors = np.stack([case.error for case in contacts.values()])
    frequency = next(iter(contacts.values())).frequency
    return xarray.Dataset(
        {
            "absolute_mass": stack_cases(lambda case: case.map.absolute, "kg", "absolute virtual mass"),
            "projected_mass": stack_cases(lambda case: case.map.projected, "kg", "projected virtual mass"),
            "psi": stack_cases(lambda case: np.degrees(case.psi), "deg", "angle from force to acceleration"),
            "impulse_plastic": stack_cases(lambda case: impulse_size(case.plastic), "N s", "impulse of a plastic hit"),
            "impulse_elastic": stack_cases(lambda case: impulse_size(case.elastic), "N s", "impulse of an elastic hit"),
            "energy_lost_plastic": stack_cases(
                lambda case: case.plastic.energy_lost, "J", "energy lost in a plastic hit"
            ),
            "contact_error": (["contact", "frequency"], errors, {"units": "1", "long_name": "error of the velocities"}),
        },
        coords={
            "theta": ("theta", np.degrees(angles), {"units": "deg", "long_name": "direction of the impulse"}),
            "case": list(cases),
            "contact": list(contacts),
            "frequency": ("frequency", frequency, {"units": "rad/s", "long_name": "frequency of the contact"}),
        },
    )


def build_figures(
    point: ImpactPoint, angles: Array, cases: dict[str, JointCondition], contacts: dict[str, Convergence]
) -> list[Figure]:
    """Fig. 6 (a) and (b), the mass ellipses on the configuration, the impulses, the contacts."""
    named = {NAMES[name]: case for name, case in cases.items()}
    peaks = {name: (case.peak_direction, float(case.ellipse.masses[0])) for name, case in named.items()}
    masses = {name: case.map.absolute for name, case in named.items()}
    angle = {name: np.degrees(case.psi) for name, case in named.items()}
    impulses = {name: impulse_size(case.elastic) for name, case in named.items()}
    plots = {
        "configuration": _configuration(point, named),
        "fig6a": direction_curves(angles, masses, y="absolute virtual mass", y_unit="kg", peaks=peaks, x=THETA),
        "fig6b": direction_curves(angles, angle, y="angle ψ", y_unit="deg", x=THETA, zero_line=True),
        "impulse": direction_curves(angles, impulses, y="impulse", y_unit="N s", x=THETA),
        "contact": convergence_curves(contacts, {name: list(NAMES).index(name.partition(",")[0]) for name in contacts}),
    }
    return [figure(NAME, name, plot) for name, plot in plots.items()]


def _configuration(point: ImpactPoint, named: dict[str, JointCondition]) -> Any:
    joints = point.configuration("L")
    origins, rotations = point.mechanics.body_poses(joints)
    # A rod's frame: the base's at its middle, the others' at their joint; each rod lies along -x.
    starts = [origins[0] + rotations[0] @ [0.5, 0.0, 0.0], *origins[1:]]
    rods = [np.array([start, start - rotation[:, 0]]) for start, rotation in zip(starts, rotations, strict=True)]
    hand = point.mechanics.frame_pose(point.frame, joints)[0]
    marks = {"mass centre": point.mechanics.centre_of_mass(joints)}
    return ellipses_on_configuration(rods, hand, {name: case.ellipse for name, case in named.items()}, marks=marks)
