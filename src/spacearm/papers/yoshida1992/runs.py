"""What the reproduction of Yoshida et al. (1992) computes: maps over directions, hits, grasps, contacts, checks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from spacearm.engine import Mechanics
from spacearm.impact import (
    Collision,
    FloatingSystem,
    ImpactPoint,
    MassEllipsoid,
    build_system,
    collide,
    impact_point,
    mass_ellipsoid,
    solid_ball,
    virtual_mass,
)
from spacearm.impact.aftermath import simulate_aftermath
from spacearm.impact.contact import Convergence, contact_convergence
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.virtual_mass import VirtualMass
from spacearm.mechanics.motion import LoadFrame
from spacearm.papers.agreement import checks
from spacearm.papers.yoshida1992.data import CASES, FREQUENCIES, HAND, NAME, PLANE, POSTURE, STRIKER_MASS, STRIKER_SPEED
from spacearm.result import Check
from spacearm.simulate import Run
from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class JointCondition:
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
        """Direction of the peak, deg, 0 to 180."""
        x, y = self.ellipse.axes[:2, 0]
        return float(np.degrees(np.arctan2(y, x)) % 180.0)

    @property
    def minimum_direction(self) -> float:
        x, y = self.ellipse.axes[:2, 1]
        # A direction and its opposite are the same; what rounds to 180 is 0.
        return float(np.round(np.degrees(np.arctan2(y, x)), 9) % 180.0)


def impulse_size(hit: Collision) -> Array:
    """N s, of every hit."""
    size: Array = np.linalg.norm(hit.impulse[:, :3], axis=-1)
    return size


def run_case(name: str, point: ImpactPoint, directions: Array) -> JointCondition:
    """Everything of one joint condition; the mass point hits along every direction."""
    modes = CASES[name]
    tensor = point.tensor(POSTURE, **modes)
    found = virtual_mass(point.acceleration(directions, POSTURE, **modes), directions)
    ellipse = mass_ellipsoid(tensor, PLANE)
    # The peak from the singular vectors and not from the sampled map, whose directions lie beside it.
    heavy = ellipse.axes[:, 0]
    peak = virtual_mass(point.acceleration(heavy, POSTURE, **modes), heavy)
    chain = FloatingSystem(point.robot, HAND, POSTURE, **modes)
    striker = build_system(solid_ball(STRIKER_MASS), "contact", velocity=STRIKER_SPEED * directions).move_to_contact(
        chain
    )
    hits = [collide(chain, striker, normal=directions, restitution=e) for e in (0.0, 1.0)]
    return JointCondition(name, tensor, found, found.signed_angle(PLANE), ellipse, peak, hits[0], hits[1])


def simulate_hits(point: ImpactPoint) -> dict[str, Run]:
    """The seconds after an elastic hit across the struck rod's end, for each joint condition."""
    found, along = {}, np.array([1.0, 0.0, 0.0])
    for name, modes in CASES.items():
        chain = FloatingSystem(point.robot, HAND, POSTURE, **modes)
        striker = build_system(solid_ball(STRIKER_MASS), "contact", velocity=STRIKER_SPEED * along).move_to_contact(
            chain
        )
        found[name] = simulate_aftermath(collide(chain, striker, normal=along, restitution=1.0), chain, striker)
    return found


def run_grasps(robot: Any) -> dict[str, Collision]:
    """Rigid grasps (six directions) of a passing ball, plastic and elastic."""
    grasps = {}
    for name, modes in CASES.items():
        chain = FloatingSystem(robot, HAND, POSTURE, **modes)
        target = build_system(
            solid_ball(STRIKER_MASS, 0.1), "contact", velocity=(0.3, -1.0, 0.1), angular_velocity=(0.1, 0.2, 0.5)
        )
        for kind, e in (("plastic", 0.0), ("elastic", 1.0)):
            grasps[f"{name}.{kind}"] = collide(chain, target.move_to_contact(chain), kind="grasp", restitution=e)
    return grasps


def run_contacts(point: ImpactPoint) -> dict[str, Convergence]:
    """The hit along 30 deg by springs of growing stiffness."""
    direction = (np.cos(np.pi / 6), np.sin(np.pi / 6), 0.0)
    # A large ball: while the contact lasts the force moves off its centre by a little and would spin a small one.
    striker = build_system(solid_ball(STRIKER_MASS, 0.5), "contact", velocity=STRIKER_SPEED * np.array(direction))
    found = {}
    for name, e in (("free", 0.0), ("free", 1.0), ("fixed", 0.5), ("half", 1.0)):
        chain = FloatingSystem(point.robot, HAND, POSTURE, **CASES[name])
        found[f"{name}, e = {e:g}"] = contact_convergence(
            chain, striker.move_to_contact(chain), FREQUENCIES, normal=direction, restitution=e
        )
    return found


# -- what the equations say ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LimitErrors:
    """Eqs. 13 to 15 beside forward dynamics of the same chain, largest difference relative to the largest entry.

    ``free``, ``fixed``: Eqs. 13 and 14. ``ground``: G* of chains whose farthest rod has ``masses`` (kg) against
    J H^-1 J^T of Eq. 15, the rod held; in the plane.
    """

    free: float
    fixed: float
    masses: tuple[float, ...]
    ground: tuple[float, ...]


def limits(point: ImpactPoint) -> LimitErrors:
    """Errors of the limits of Eqs. 13 to 15."""
    mechanics, joints = point.mechanics, point.configuration(POSTURE)
    base, coupling, arm = mechanics.mass_blocks(joints)
    jacobian = mechanics.jacobian(HAND, joints)
    carried = np.linalg.solve(base, coupling)
    own, inertia = jacobian[:, 6:] - jacobian[:, :6] @ carried, arm - coupling.T @ carried  # J*, H*
    # Built from masses and places alone, so that it shares no code with the tensor that it is compared with.
    united = _tensor_from_rods(point, joints)
    links = own @ np.linalg.solve(inertia, own.T)
    hold, go = np.ones(6), np.zeros(6)
    free, fixed, ground = (
        _accelerations_by_forward_dynamics(point, np.concatenate([held, modes]))
        for held, modes in ((go, np.zeros(2)), (go, np.ones(2)), (hold, np.zeros(2)))
    )
    masses, errors = (1e4, 1e6), []
    planar = np.ix_([0, 1, 5], [0, 1, 5])  # about their own length the rods have next to no inertia
    for mass in masses:
        heavy = point.robot.inertia_parameters.copy()
        heavy[0] *= mass / heavy[0, 0]
        tensor = impact_point(point.robot.with_inertia_parameters(heavy), HAND).tensor(POSTURE)
        errors.append(_difference(tensor[planar], ground[planar]))
    return LimitErrors(_difference(links + united, free), _difference(united, fixed), masses, tuple(errors))


def _difference(one: Array, two: Array) -> float:
    return float(np.abs(one - two).max() / np.abs(two).max())


def _tensor_from_rods(point: ImpactPoint, joints: Array) -> Array:
    """R_h M^-1 R_h^T of Eqs. 2, 4 and 9, from the rods' masses, tensors and places."""
    robot, mechanics = point.robot, point.mechanics
    origins, rotations = mechanics.body_poses(joints)
    centre = mechanics.centre_of_mass(joints)
    whole, inertia = np.zeros((6, 6)), np.zeros((3, 3))
    for body, origin, rotation in zip(robot.bodies, origins, rotations, strict=True):
        r = origin + rotation @ body.inertia.com - centre
        inertia += rotation @ body.inertia.tensor @ rotation.T + body.inertia.mass * (
            r @ r * np.eye(3) - np.outer(r, r)
        )
    whole[:3, :3], whole[3:, 3:] = robot.mass * np.eye(3), inertia
    x, y, z = mechanics.frame_pose(HAND, joints)[0] - centre
    reach = np.eye(6)
    reach[:3, 3:] = -np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(reach @ np.linalg.solve(whole, reach.T))


def _accelerations_by_forward_dynamics(point: ImpactPoint, mode: Array) -> Array:
    """Acceleration of the struck end (6) for unit wrenches there (6), as columns; ``mode`` as in hybrid dynamics."""
    joints, rest = point.configuration(POSTURE), np.zeros(point.robot.dofs)
    mechanics = Mechanics(point.robot)
    acceleration, _ = mechanics.hybrid_dynamics(
        joints, rest, rest, rest, mode, loads=(LoadFrame(HAND),), wrench=np.eye(6)
    )
    return np.swapaxes(mechanics.frame_acceleration(HAND, joints, rest, acceleration), -1, -2)


def elastic_by_equation_30(point: ImpactPoint) -> tuple[float, float]:
    """Relative velocity after over before by Eqs. 26 and 30, and the kinetic energy after over before."""
    chain, body = np.linalg.inv(point.tensor(POSTURE)), np.diag([STRIKER_MASS] * 3 + [1e-3] * 3)
    before = np.array([0.3, -1.0, 0.1, 0.1, 0.2, 0.5])
    hand = np.linalg.solve(body + chain, 2.0 * body @ before)  # Eq. 30, the chain at rest
    after = before - np.linalg.solve(body, chain @ hand)  # Eq. 26
    ratio = float((after - hand) @ before / (before @ before))
    energy = (after @ body @ after + hand @ chain @ hand) / (before @ body @ before)
    return ratio, float(energy)


# -- certificate ------------------------------------------------------------------------------------------------------


def certify(
    point: ImpactPoint,
    cases: dict[str, JointCondition],
    grasps: dict[str, Collision],
    contacts: dict[str, Convergence],
) -> dict[str, Check]:
    """Residuals of conservation laws, and of the tensor against hybrid forward dynamics."""
    hits = [hit for case in cases.values() for hit in (case.plastic, case.elastic)] + list(grasps.values())
    elastic = [cases[name].elastic for name in ("free", "fixed")] + [grasps[f"{n}.elastic"] for n in ("free", "fixed")]
    contacted = [run for case in contacts.values() for run in case.runs]
    residuals = {
        "momentum": [hit.momentum_residual for hit in hits],
        "elastic_energy": [np.abs(hit.energy_lost / hit.energy_before) for hit in elastic],
        "energy_account": [hit.energy_residual for hit in hits],
        "grasp_twists": [grasps[f"{name}.plastic"].contact_residual for name in CASES],
        "hybrid_dynamics": _difference_to_hybrid(point),
        "contact_limit": [case.error[-1] for case in contacts.values()],
        "contact_energy": [run.energy_residual for run in contacted],
        "contact_momentum": [run.momentum_residual for run in contacted],
    }
    resistance = max((hit.certificate["resistance_energy"] for hit in hits), key=lambda check: check.value)
    return {**checks(NAME, residuals, frequency=FREQUENCIES[-1]), "resistance_energy": resistance}


def _difference_to_hybrid(point: ImpactPoint) -> float:
    patterns = np.array(list(product((0.0, 1.0), repeat=point.robot.n)))
    mode = np.concatenate([np.zeros((len(patterns), 6)), patterns], axis=-1)[:, None]
    hand = _accelerations_by_forward_dynamics(point, mode)
    tensors = point.tensor(POSTURE, locked=patterns)
    return float(np.abs(tensors - hand).max() / np.abs(tensors).max())


def mujoco(point: ImpactPoint, cases: dict[str, JointCondition]) -> dict[str, Check]:
    """The tensors beside those from MuJoCo."""
    joints, residuals = point.configuration(POSTURE), []
    for name, case in cases.items():
        other = tensor_by_mujoco(point.robot, HAND, joints, **CASES[name])
        residuals.append(np.abs(case.tensor - other).max() / np.abs(other).max())
    return checks(NAME, {"cross_check.mujoco": residuals})
