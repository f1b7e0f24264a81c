"""Yoshida, Kurazume, Sashida, Umetani (1992): collision of free-floating links.

Sec. 6 of the paper: three uniform rods (1 m, 1 kg) on two revolute joints, struck at one end by a mass point that comes
from a direction theta in the plane. Fig. 6 shows the absolute virtual mass (a) and the angle psi between force and
acceleration (b) over theta, for free joints, fixed joints and half resistance. The figures are not in the text; what
the text says of them in words is compared here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from spacearm.engine import Mechanics
from spacearm.impact import (
    Collision,
    Convergence,
    ImpactPoint,
    MassEllipsoid,
    System,
    VirtualMass,
    ball,
    circle,
    collide,
    contact_convergence,
    flying,
    impact_point,
    mass_ellipsoid,
    virtual_mass,
)
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.mechanics import LoadFrame
from spacearm.model import catalogue
from spacearm.papers import Progress
from spacearm.papers.yoshida1992.configurations import COUNT, SEED, random_configurations, survey
from spacearm.papers.yoshida1992.data import (
    CASES,
    DIRECTIONS,
    FREQUENCIES,
    HAND,
    PLANE,
    POSTURE,
    STRIKER_MASS,
    STRIKER_SPEED,
)
from spacearm.papers.yoshida1992.figures import dataset, drawn
from spacearm.papers.yoshida1992.rows import claim_rows, configuration_row, contact_rows, mass_rows
from spacearm.result import Check, Result
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Case:
    """One joint condition: the map over theta, the ellipse, and the hits by the mass point."""

    name: str
    tensor: Array
    map: VirtualMass
    psi: Array  # rad, with sign
    ellipse: MassEllipsoid
    peak: VirtualMass
    plastic: Collision
    elastic: Collision

    @property
    def peak_direction(self) -> float:
        """deg, 0 to 180."""
        x, y = self.ellipse.axes[:2, 0]
        return float(np.degrees(np.arctan2(y, x)) % 180.0)

    @property
    def minimum_direction(self) -> float:
        x, y = self.ellipse.axes[:2, 1]
        # A direction and its opposite are the same; what rounds to 180 is 0.
        return float(np.round(np.degrees(np.arctan2(y, x)), 9) % 180.0)


def run_case(name: str, point: ImpactPoint, directions: Array) -> Case:
    """Everything of one joint condition; the mass point hits along every direction."""
    modes = CASES[name]
    tensor = point.tensor(POSTURE, **modes)
    found = virtual_mass(point.acceleration(directions, POSTURE, **modes), directions)
    ellipse = mass_ellipsoid(tensor, PLANE)
    heavy = ellipse.axes[:, 0]
    peak = virtual_mass(point.acceleration(heavy, POSTURE, **modes), heavy)
    chain = System(point.robot, HAND, POSTURE, **modes)
    striker = flying(ball(STRIKER_MASS), "contact", velocity=STRIKER_SPEED * directions).meeting(chain)
    hits = [collide(chain, striker, normal=directions, restitution=e) for e in (0.0, 1.0)]
    return Case(name, tensor, found, found.signed_angle(PLANE), ellipse, peak, hits[0], hits[1])


def reproduce(*, cross_check: bool = False, progress: Progress | None = None) -> Result:
    """Run Sec. 6 and compare."""
    say = progress or (lambda _fraction, _what: None)
    robot = catalogue.load("yoshida1992")
    point = impact_point(robot, HAND)
    angles, directions = circle(DIRECTIONS, PLANE, half=True)
    say(0.0, "virtual masses and hits over all directions")
    cases = {name: run_case(name, point, directions) for name in CASES}
    say(0.4, "grasps")
    grasps = run_grasps(robot)
    say(0.5, "contacts of finite stiffness")
    contacts = run_contacts(point)
    say(0.75, "which sentences can fail")
    configurations = survey(point, random_configurations())
    say(0.8, "checks")
    certificate = certify(point, cases, grasps, contacts)
    if cross_check:
        certificate["cross_check"] = {"mujoco": _mujoco(point, cases)}
    say(0.9, "figures")
    return Result(
        "yoshida1992",
        rows=[
            configuration_row(point),
            *mass_rows(cases, configurations),
            *claim_rows(point, cases, angles, configurations),
            *contact_rows(contacts),
        ],
        certificate=certificate,
        settings={
            "robot": robot.name,
            "configuration": {
                name: float(value) for name, value in zip(robot.joint_names, robot.configuration(POSTURE), strict=True)
            },
            "frame": HAND,
            "directions": DIRECTIONS,
            "striker": {"mass_kg": STRIKER_MASS, "speed_m_s": STRIKER_SPEED, "note": "not given in the paper"},
            "contact_frequencies_rad_s": list(FREQUENCIES),
            "random_configurations": {"number": COUNT, "seed": SEED},
        },
        data=dataset(angles, cases, contacts),
        figures=drawn(point, angles, cases, contacts),
        title="Yoshida 1992: collision of free-floating links",
        summary=SUMMARY,
    )


SUMMARY = """\
A chain of three rods floats freely and is struck at one end. How heavy it feels depends on the direction of the hit
and on what its joints do: fixed, it is one rigid body and feels its whole mass along the line through its mass
centre; free, it is heaviest along the struck rod and never feels even half its mass.

The configuration is read from the text: the struck rod along 90 deg, the other two in line along 0 deg. It is not the
only one that satisfies every sentence of Sec. 6, and most of these sentences hold in any configuration: true, but no
evidence. Those that can fail, and do not, are marked as agreement.

The absolute virtual mass is taken as |f| / |a| = 1 / |G11 n|; Eq. 18 as printed is another number. The sign of psi is
positive counter-clockwise, from force to acceleration."""


def run_grasps(robot: Any) -> dict[str, Collision]:
    """Rigid grasps (six directions) of a passing ball, plastic and elastic."""
    grasps = {}
    for name, modes in CASES.items():
        chain = System(robot, HAND, POSTURE, **modes)
        target = flying(ball(STRIKER_MASS, 0.1), "contact", velocity=(0.3, -1.0, 0.1), angular_velocity=(0.1, 0.2, 0.5))
        for kind, e in (("plastic", 0.0), ("elastic", 1.0)):
            grasps[f"{name}.{kind}"] = collide(chain, target.meeting(chain), kind="grasp", restitution=e)
    return grasps


def run_contacts(point: ImpactPoint) -> dict[str, Convergence]:
    """The hit along 30 deg by springs of growing stiffness."""
    direction = (np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0)
    # A large ball: while the contact lasts the force moves off its centre by a little and would spin a small one.
    striker = flying(ball(STRIKER_MASS, 0.5), "contact", velocity=STRIKER_SPEED * np.array(direction))
    found = {}
    for name, e in (("free", 0.0), ("free", 1.0), ("fixed", 0.5), ("half", 1.0)):
        chain = System(point.robot, HAND, POSTURE, **CASES[name])
        found[f"{name}, e = {e:g}"] = contact_convergence(
            chain, striker.meeting(chain), FREQUENCIES, normal=direction, restitution=e
        )
    return found


# -- certificate ------------------------------------------------------------------------------------------------------


def certify(
    point: ImpactPoint, cases: dict[str, Case], grasps: dict[str, Collision], contacts: dict[str, Convergence]
) -> dict[str, Any]:
    """Residuals of conservation laws, and of the tensor against hybrid forward dynamics."""
    hits = [hit for case in cases.values() for hit in (case.plastic, case.elastic)] + list(grasps.values())
    elastic = [cases[name].elastic for name in ("free", "fixed")] + [grasps[f"{n}.elastic"] for n in ("free", "fixed")]
    plastic = [grasps[f"{name}.plastic"] for name in CASES]
    apart = max(float(hit.contact_residual) for hit in plastic)
    return {
        "momentum": Check(
            max(float(np.max(hit.momentum_residual)) for hit in hits), 1e-12, "", "of every collision, relative"
        ),
        "elastic_energy": Check(
            max(float(np.max(np.abs(hit.energy_lost / hit.energy_before))) for hit in elastic),
            1e-12,
            "",
            "lost in elastic collisions with free or fixed joints, relative",
        ),
        "energy_account": Check(
            max(float(np.max(hit.energy_residual)) for hit in hits),
            1e-12,
            "",
            "kinetic energy that neither contact nor joints account for, relative",
        ),
        "resistance_energy": max((hit.checks()["resistance_energy"] for hit in hits), key=lambda check: check.value),
        "grasp_twists": Check(apart, 1e-12, "", "difference of contact twists after a plastic grasp, relative"),
        "hybrid_dynamics": Check(
            _against_hybrid(point), 1e-10, "", "G* against forward dynamics under unit wrenches, all mode patterns"
        ),
        "contact_limit": Check(
            max(float(case.error[-1]) for case in contacts.values()),
            1e-4,
            "",
            f"velocities after a contact of {FREQUENCIES[-1]:.0e} rad/s against the jump, relative",
        ),
        "contact_energy": Check(
            max(run.energy_residual for case in contacts.values() for run in case.runs), 1e-9, "", "relative"
        ),
        "contact_momentum": Check(
            max(run.momentum_residual for case in contacts.values() for run in case.runs), 1e-12, "", "relative"
        ),
    }


def _against_hybrid(point: ImpactPoint) -> float:
    robot, joints = point.robot, point.configuration(POSTURE)
    patterns = np.array(list(product((0.0, 1.0), repeat=robot.n)))
    mechanics, rest = Mechanics(robot), np.zeros(robot.dofs)
    mode = np.concatenate([np.zeros((len(patterns), 6)), patterns], axis=-1)[:, None]
    acceleration, _ = mechanics.hybrid_dynamics(
        joints, rest, rest, rest, mode, loads=(LoadFrame(HAND),), wrench=np.eye(6)
    )
    hand = np.swapaxes(mechanics.frame_acceleration(HAND, joints, rest, acceleration), -1, -2)
    tensors = point.tensor(POSTURE, locked=patterns)
    return float(np.abs(tensors - hand).max() / np.abs(tensors).max())


def _mujoco(point: ImpactPoint, cases: dict[str, Case]) -> Check:
    worst = 0.0
    for name, case in cases.items():
        other = tensor_by_mujoco(point.robot, HAND, point.configuration(POSTURE), **CASES[name])
        worst = max(worst, float(np.abs(case.tensor - other).max() / np.abs(other).max()))
    return Check(worst, 1e-10, "", "G* from MuJoCo's mass matrix and Jacobian, relative")
