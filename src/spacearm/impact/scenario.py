"""The impact study from a scenario file: maps, collisions, configurations and grasp velocities of any robot.

Tables of the file come first, findings second. A file has cases (the modes of the joints during the impact); every
collision is computed in every case. The target is translated, not rotated, so that the contact frames meet. Equations
are in the other modules of the package; this module has only keys, places for errors, and rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm.errors import InputError, did_you_mean, error_context
from spacearm.impact._mass_map import CaseMap, map_cases, map_data, map_figures
from spacearm.impact.aftermath import scene_after
from spacearm.impact.collision import CONSERVED, Collision, VelocityJump, collide
from spacearm.impact.configuration_search import Impactor, Optimum, optimise_configuration
from spacearm.impact.contact import Convergence, contact_convergence
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.figures import convergence_curves
from spacearm.impact.floating import CONTACT, FloatingSystem, build_system, free_body, solid_ball
from spacearm.impact.grasp import GraspVelocity, grasp_velocity
from spacearm.impact.tensor import ImpactPoint, impact_point
from spacearm.model import Robot
from spacearm.model.rotations import rotation_matrices
from spacearm.model.toml_schema import BaseKey, Moments, Name, Number, Seed, Vector3, integer_between
from spacearm.result import Certificate, Check, Checks, Figure
from spacearm.scene import Scene, scene_of
from spacearm.simulate import State
from spacearm.study import Findings, ScenarioTable, Session, StudyFile, key, row
from spacearm.study.bases import BASE_MEANING, with_base
from spacearm.study.findings import NotedValue
from spacearm.study.keys import check_distinct
from spacearm.study.tables import InertiaTable, Numbers, Pair, StartTable, StateKeys, check_revolute
from spacearm.text_format import format_number
from spacearm.text_format import format_result as text_of
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

CROSS_CHECK = 1e-10


class JointModeKeys(ScenarioTable):
    """Modes of the joints during the impact."""

    locked: Name | list[Name] = key("none", '`"all"`, `"none"`, or names')
    resistance: Number | Numbers | dict[str, Number] = key(0.0, "one number, one for each joint, or by name; 0 to 1")


class JointConditionTable(JointModeKeys):
    """A case: modes of the joints during the impact."""

    name: Name


class MassMapTable(ScenarioTable):
    """Directions of the map: a circle in the plane normal to ``plane``, or all directions."""

    plane: Vector3 | None = key(None, "normal of a plane; of a planar base its own if omitted")
    directions: Annotated[int, integer_between(2, 1_000_000)] = key(721, "number of directions")


class StruckTargetTable(StateKeys, JointModeKeys):
    """The other system: a rigid body, or a robot. It is placed where the contact frames meet."""

    mass: Number | None = key(None, "of a body, kg")
    inertia: Moments | None = key(None, "inertia of a body about its mass centre, 3 or 6 numbers, kg m2")
    com: Vector3 | None = key(None, "mass centre of a body, m")
    contact_point: Vector3 | None = key(None, "point of a body that is struck, m")
    robot: Name | None = key(None, "a robot in place of a body")
    frame: Name | None = key(None, "frame of the robot that is struck")
    base: BaseKey | None = key(None, BASE_MEANING)

    def build(self, session: Session) -> FloatingSystem:
        """The system; its position is irrelevant."""
        if (self.robot is None) == (self.mass is None):
            raise InputError("is neither a body nor a robot", hint="give either mass and inertia, or robot and frame")
        if self.robot is not None:
            for name in ("inertia", "com", "contact_point"):
                if self.has_key(name):
                    raise InputError("applies to a body, but the target is a robot", place=name)
            robot = with_base(session.robot(self.robot, any_base=True, loops=True), self.base)
            if self.frame is None:
                raise InputError("is missing", place="frame", hint="the frame of the robot at the contact")
            with error_context("frame"):
                robot.frame(self.frame)
        else:
            if self.inertia is None:
                raise InputError("is missing", place="inertia", hint="three principal moments or six entries, kg m2")
            body = InertiaTable(**self.options("mass", "inertia", "com")).make()
            contact = self.contact_point or (0.0, 0.0, 0.0)
            free = free_body(body.mass, body.tensor, com=body.com, contact=contact, name="target")
            robot = with_base(free, self.base)
        return FloatingSystem.from_state(
            robot, self.frame or CONTACT, self.state(robot), **self.options("locked", "resistance")
        )


class FiniteContactTable(ScenarioTable):
    """The collision as contacts of finite stiffness."""

    frequencies: Numbers | None = key(None, "rad/s")
    stiffnesses: Numbers | None = key(None, "N/m")


class ImpactCollisionTable(ScenarioTable):
    """Robot and target collide, in every case."""

    name: Name
    kind: Literal["normal", "friction", "point", "grasp"] = key(
        "normal", "frictionless, by Coulomb's friction, without sliding, or rigid"
    )
    normal: Vector3 | None = key(None, "out of the target, into the robot; for kinds normal and friction")
    restitution: Number = key(0.0, "0 (plastic) to 1 (elastic)")
    friction: Number | None = key(None, "Coulomb's coefficient, for kind friction")
    hypothesis: Literal["energetic", "poisson", "newton", "contact"] = key(
        "energetic", "definition of restitution with friction; `contact`: that of a stiff contact in a run"
    )
    contact: FiniteContactTable | None = None


class OptimiseTable(ScenarioTable):
    """Search for the best configuration for an impact."""

    name: Name
    quantity: Literal["projected", "absolute", "base_rotation"] = key(
        "projected", "virtual mass, or rotation of the base"
    )
    goal: Literal["minimise", "maximise"] = key("minimise")
    direction: Vector3 = key(what="direction of the force on the robot")
    axes: Literal["world", "frame"] = key("world", "axes of the direction")
    speed: Number = key(1.0, "m/s")
    mass: Number = key(1.0, "mass of the striking body, kg")
    restitution: Number = 0.0
    case: Name | None = key(None, "name of the case; the first if omitted")
    vary: list[Name] | None = key(None, "joints that may move; all if omitted")
    bounds: dict[str, Pair] = key({}, "joint = [lower, upper] in place of its limits, rad or m")
    bounds_deg: dict[str, Pair] = key({}, "the same in degrees")
    restarts: Annotated[int, integer_between(1, 1_000_000)] = key(64, "searches")
    samples: Annotated[int, integer_between(1, 10_000_000)] = key(4096, "configurations to screen")
    seed: Seed = 0


class GraspVelocityTable(ScenarioTable):
    """Joint rates before a grasp that leave the base at rest."""

    name: Name
    case: Name | None = key(None, "name of the case; the first if omitted")
    still: Literal["angular", "linear", "all"] = key("angular", "velocity components of the base")
    measure: Literal["after", "jump"] = "after"
    floating: bool = key(True, "the base moves with the arm before the grasp")


class ImpactFile(StudyFile):
    """A robot struck at a frame."""

    frame: Name = key(what="frame that is struck")
    start: StartTable = key(StartTable(), "state at the impact; at rest in the zero configuration if omitted")
    case: list[JointConditionTable] = key(
        [
            JointConditionTable(name="free"),
            JointConditionTable(name="fixed", locked="all"),
            JointConditionTable(name="half", resistance=0.5),
        ],
        "cases; free, fixed and half if omitted",
        min_length=1,
    )
    map: MassMapTable = MassMapTable()
    target: StruckTargetTable | None = None
    collision: list[ImpactCollisionTable] = key([])
    optimise: list[OptimiseTable] = key([])
    grasp_velocity: list[GraspVelocityTable] = key([])

    def solve(self, session: Session) -> ImpactFindings:
        robot = self.load_robot(session, loops=True)
        with error_context("frame"):
            robot.frame(self.frame)
        for table in ("case", "collision", "optimise", "grasp_velocity"):
            check_distinct(getattr(self, table), table)
        with error_context("start"):
            state = self.start.state(robot)
        systems = {}
        for i, case in enumerate(self.case):
            with error_context(f"case[{i}]"):
                modes = case.options("locked", "resistance")
                systems[case.name] = FloatingSystem.from_state(robot, self.frame, state, **modes)
        target = None
        if self.target is not None:
            with error_context("target"):
                target = self.target.build(session)
        session.report_progress(0.0, "virtual masses over all directions")
        point = impact_point(robot, self.frame)
        return ImpactFindings(
            file=self,
            point=point,
            target=target,
            maps=map_cases(point, systems, self._plane(robot, state), self.map.directions),
            collision=self._collisions(session, systems, target),
            configuration=self._searches(session, systems),
            grasp_velocity=self._grasps(session, systems, target),
            cross_check=session.cross_check,
        )

    def _plane(self, robot: Robot, state: State) -> list[float] | None:
        """Normal of the plane of the map: across a table nothing gives way."""
        if self.map.plane is not None or robot.base.kind != "planar":
            return self.map.plane
        normal: list[float] = (rotation_matrices(state.quaternion) @ np.asarray(robot.base.axis)).tolist()
        return normal

    def _collisions(
        self, session: Session, systems: dict[str, FloatingSystem], target: FloatingSystem | None
    ) -> dict[str, dict[str, CollisionFindings]]:
        found: dict[str, dict[str, CollisionFindings]] = {}
        for i, entry in enumerate(self.collision):
            session.report_progress(0.3 + 0.3 * i / len(self.collision), f"collision {entry.name}")
            if target is None:
                raise InputError("there is no target to collide with", place="collision", hint="add a [target] table")
            options = entry.options("kind", "normal", "restitution", "friction", "hypothesis")
            # Sliding that stops or reverses is not a function of the jump alone: no closed form to converge to.
            if entry.contact is not None and entry.kind == "friction":
                raise InputError(
                    "a contact with friction needs a run of its own",
                    place=f"collision[{i}].contact",
                    hint="omit it; study = 'motion' has [[contact]], which tends to hypothesis = 'contact'",
                )
            found[entry.name] = {}
            for name, system in systems.items():
                # Cases share the state but not the modes of the joints: the target is placed again for each.
                other, contacts = target.move_to_contact(system), None
                with error_context(f"collision[{i}], case {name!r}"):
                    hit = collide(system, other, **options)
                    if entry.contact is not None:
                        law = entry.options("kind", "normal", "restitution")
                        contacts = contact_convergence(system, other, **entry.contact.options(), **law)
                found[entry.name][name] = CollisionFindings(hit=hit, first=system, second=other, contacts=contacts)
        return found

    def _searches(self, session: Session, systems: dict[str, FloatingSystem]) -> dict[str, SearchFindings]:
        found = {}
        for i, entry in enumerate(self.optimise):
            session.report_progress(0.6 + 0.3 * i / len(self.optimise), f"configuration {entry.name}")
            with error_context(f"optimise[{i}]"):
                system = _case(entry.case, systems)
                with error_context("bounds_deg"):
                    check_revolute(system.robot, entry.bounds_deg, "bounds")
                with error_context("direction"):
                    impactor = Impactor(**entry.options("direction", "axes", "speed", "mass", "restitution"))
                best = optimise_configuration(
                    system.robot,
                    self.frame,
                    impactor,
                    maximise=entry.goal == "maximise",
                    start=np.asarray(system.joints),
                    quaternion=np.asarray(system.base)[3:],
                    locked=system.modes.locked,
                    resistance=system.modes.resistance,
                    **entry.options("quantity", "vary", "bounds", "restarts", "samples", "seed"),
                )
                # The search works with a closed form for a hit along a normal; the collision at its result has a
                # certificate.
                hit = _hit_at(system, best.joints, impactor) if entry.quantity == "base_rotation" else None
            found[entry.name] = SearchFindings(table=entry, names=system.robot.joint_names, best=best, hit=hit)
        return found

    def _grasps(
        self, session: Session, systems: dict[str, FloatingSystem], target: FloatingSystem | None
    ) -> dict[str, GraspFindings]:
        found = {}
        for i, entry in enumerate(self.grasp_velocity):
            session.report_progress(0.9, f"grasp velocity {entry.name}")
            with error_context(f"grasp_velocity[{i}]"):
                if target is None:
                    raise InputError("there is no target to grasp", hint="add a [target] table")
                system = _case(entry.case, systems)
                options = entry.options("still", "measure", "floating")
                grasp = grasp_velocity(system, target.move_to_contact(system), **options)
            found[entry.name] = GraspFindings(table=entry, grasp=grasp)
        return found


def _case(name: str | None, systems: dict[str, FloatingSystem]) -> FloatingSystem:
    if name is None:
        return next(iter(systems.values()))
    if name not in systems:
        raise InputError(f"there is no case {name!r}", place="case", hint=did_you_mean(name, systems))
    return systems[name]


def _hit_at(system: FloatingSystem, joints: Array, hit: Impactor) -> Collision:
    """The impact of a search, on the robot at rest in the configuration that was found."""
    # At the origin and at rest: the search uses neither pose nor velocity of the base.
    base = np.concatenate([np.zeros(3), np.asarray(system.base)[3:]])
    struck = replace(system, joints=joints, base=base, velocity=None)
    along = np.array(hit.direction)
    if hit.axes == "frame":
        along = struck.point.mechanics.frame_pose(struck.frame, joints, base=base)[1] @ along
    striker = build_system(solid_ball(hit.mass), CONTACT, velocity=hit.speed * along).move_to_contact(struck)
    return collide(struck, striker, normal=along, restitution=hit.restitution)


class SystemJumpFindings(Findings):
    """One system after a collision, world axes."""

    jump: VelocityJump
    system: FloatingSystem

    base_velocity_after = row("m/s", "world axes", of=lambda a: a.velocity(a.jump.after)[:3])
    base_angular_velocity_after = row("rad/s", of=lambda a: NotedValue(a.velocity(a.jump.after)[3:], a.rotation_note()))
    contact_twist_after = row("m/s, rad/s", "world axes", of="jump.twist_after")
    joint_rates_after = row("rad/s, m/s", of=lambda a: a.jump.after[6:] if a.system.robot.n else None)
    joint_reaction_impulses = row("N m s, N s", "of locked and resisting joints", of=lambda a: a.reactions())

    def velocity(self, generalised: Array) -> Array:
        """Velocity and angular velocity of the base."""
        # Generalised velocities of the base are in base axes.
        rotation = rotation_matrices(np.asarray(self.system.base)[3:])
        return np.concatenate([rotation @ generalised[:3], rotation @ generalised[3:6]])

    def rotation_note(self) -> str:
        change = np.linalg.norm((self.velocity(self.jump.after) - self.velocity(self.jump.before))[3:])
        return f"world axes; jump of {text_of(float(change))} rad/s"

    def reactions(self) -> Array | None:
        modes = self.system.modes
        return self.jump.reaction if np.any(modes.locked) or np.any(modes.resistance) else None


class CollisionFindings(Findings):
    """A collision in one case."""

    hit: Collision
    first: FloatingSystem
    second: FloatingSystem
    contacts: Convergence | None

    impulse = row("N s, N m s", "on the robot at the contact, world axes", of="hit.impulse")
    energy_lost = row("J", of=lambda s: s.tabulate_energy_loss())
    slip_after = row(
        "m/s",
        of=lambda s: s.hit.sliding and NotedValue(s.hit.sliding.after, f"target along robot: it {s.hit.sliding.words}"),
    )
    momentum_before = row("N s, N m s", "of both, about the contact, world axes", of="hit.momentum_before")
    momentum_after = row("N s, N m s", of="hit.momentum_after")
    robot = row(of=lambda s: SystemJumpFindings(jump=s.hit.first, system=s.first))
    target = row(of=lambda s: SystemJumpFindings(jump=s.hit.second, system=s.second))
    contact_error = row(of=lambda s: s.contacts and _contact_error_row(s.contacts))

    def tabulate_energy_loss(self) -> dict[str, Any]:
        """Energy loss in total, in the contact and by the joints, with a note if they add energy: drives may,
        resistances may not.
        """
        hit, work = self.hit, float(self.hit.first.joint_work + self.hit.second.joint_work)
        # Anything below this fraction is rounding and does not count as energy added by joints.
        least = CONSERVED * float(np.maximum(hit.energy_before, hit.energy_after))
        note = "the joints add energy: locked ones that move are driven" if work > least else ""
        if float(hit.added_energy) > least:
            note = f"resisting joints add {float(hit.added_energy):.3g} J, so that this collision is not sound"
        whole = NotedValue(float(hit.energy_lost), f"of {float(hit.energy_before):.6g} J")
        return {"": whole, "contact": -float(hit.contact_work), "joints": NotedValue(0.0 - work, note)}


def _contact_error_row(contacts: Convergence) -> NotedValue:
    order = f"; order {contacts.order:.3f} in the duration" if np.isfinite(contacts.order) else ""
    return NotedValue(float(contacts.error[-1]), f"velocities after the contact, relative to the jump{order}")


class SearchFindings(Findings):
    """The configuration that a search found."""

    table: OptimiseTable
    names: tuple[str, ...]
    best: Optimum
    hit: Collision | None

    value = row(of=lambda s: NotedValue(s.best.value, s.screening_note(), s.best.unit))
    joints = row("rad, m", of=lambda s: NotedValue(s.best.joints, s.agreement_note()))
    at_limit = row(of=lambda s: [name for name, there in zip(s.names, s.best.at_limit, strict=True) if there])

    def screening_note(self) -> str:
        low, high = self.best.screened
        return f"{self.table.goal} {self.table.quantity}; screened configurations lie in {low:.4g} to {high:.4g}"

    def agreement_note(self) -> str:
        best = self.best
        # How many searches agree is the evidence there is for a global optimum.
        same = int(np.sum(np.abs(best.found - best.value) <= 1e-6 * max(abs(best.value), 1e-9)))
        return f"{same} of {len(best.found)} searches ended there"


class GraspFindings(Findings):
    """Rates before a grasp."""

    table: GraspVelocityTable
    grasp: GraspVelocity

    solved: ClassVar = {True: "the base can be left at rest", False: "the base cannot be left at rest: least squares"}
    joint_rates = row("rad/s, m/s", of=lambda g: NotedValue(g.grasp.rates, g.solved[bool(g.grasp.solvable)]))
    approach = row("m/s, rad/s", "hand relative to the target, world axes", of="grasp.approach")
    base = row(
        "m/s, rad/s", of=lambda g: NotedValue(g.grasp.base, f"{g.table.still} velocity of the base, {g.table.measure}")
    )
    rank = row("", "independent conditions that the rates can satisfy", of="grasp.rank")


class ImpactFindings(Findings):
    """Findings of a scenario of impacts."""

    file: ImpactFile
    point: ImpactPoint
    target: FloatingSystem | None
    maps: dict[str, CaseMap]
    collision: dict[str, dict[str, CollisionFindings]] = row()
    configuration: dict[str, SearchFindings] = row()
    grasp_velocity: dict[str, GraspFindings] = row()
    cross_check: bool

    virtual_mass = row(of="maps")
    psi = row("deg", of=lambda i: {n: {"largest": np.degrees(case.map.angle.max())} for n, case in i.maps.items()})
    tensor = row(
        "",
        "unequal resistances: G* is not symmetric, and not passive in general (Eq. 16 does not hold)",
        of=lambda i: {n: {"asymmetry": case.asymmetry} for n, case in i.maps.items() if case.asymmetry > 1e-9},
    )

    def title(self) -> str:
        return f"Impact on {self.point.robot.name}"

    def headline(self) -> str:
        if not self.maps:
            return ""
        least = min(float(case.ellipsoid.masses[-1]) for case in self.maps.values())
        most = max(float(case.ellipsoid.masses[0]) for case in self.maps.values())
        robot = self.point.robot
        return (
            f"Struck at {self.point.frame}, {robot.name} ({robot.mass:g} kg) acts like a mass of "
            f"{format_number(least, 3)} to {format_number(most, 3)} kg, depending on the "
            "direction and on how the joints are held."
        )

    def certificate(self) -> Mapping[str, Checks]:
        hits = {f"collision {a!r}, case {b!r}": s.hit for a, each in self.collision.items() for b, s in each.items()}
        hits |= {f"optimise {name!r}": s.hit for name, s in self.configuration.items() if s.hit is not None}
        hits |= {f"grasp velocity {name!r}": g.grasp.collision for name, g in self.grasp_velocity.items()}
        # One row for each kind of residual, the worst over all collisions: a file may have hundreds.
        found = Certificate.worst({name: hit.certificate for name, hit in hits.items()})
        if len(hits) == 1:
            found = Certificate({name: replace(c, note=f"{c.note}; {min(hits)}") for name, c in found.items()})
        return {**found, "cross_check": {"mujoco": self._mujoco()}} if self.cross_check else found

    def _mujoco(self) -> Check:
        worst = 0.0
        for case in self.maps.values():
            joints, base, modes = np.asarray(case.system.joints), np.asarray(case.system.base), case.system.modes
            # From another engine's mass matrix and Jacobian: nothing of the chain is shared.
            other = tensor_by_mujoco(
                self.point.robot, self.point.frame, joints, base=base, locked=modes.locked, resistance=modes.resistance
            )
            worst = max(worst, float(np.abs(case.tensor - other).max() / np.abs(other).max()))
        return Check(worst, CROSS_CHECK, "", "G* from MuJoCo's mass matrix and Jacobian, relative")

    def settings(self) -> Mapping[str, Any]:
        return {
            "frame": self.file.frame,
            "joints": np.asarray(next(iter(self.maps.values())).system.joints),
            "cases": {case.name: case.options("locked", "resistance") for case in self.file.case},
            "target": None if self.target is None else self.target.robot.name,
        }

    def data(self) -> xr.Dataset:
        return map_data(self.maps)

    def scene(self) -> Scene:
        """The seconds after the first collision, or the robot at the impact."""
        if not self.file.collision:
            system = next(iter(self.maps.values())).system
            return scene_of((system.robot, system.state))
        entry = self.file.collision[0]
        hits = {name: (s.hit, s.first, s.second) for name, s in self.collision[entry.name].items()}
        return scene_after(hits, welded=entry.kind == "grasp" and entry.restitution == 0.0)

    def figures(self) -> list[Figure]:
        found = map_figures(self.point, self.maps)
        for i, (name, cases) in enumerate(self.collision.items()):
            contacts = {case: struck.contacts for case, struck in cases.items() if struck.contacts is not None}
            if contacts:
                text = f"Collision {name!r} as a contact of finite stiffness: it tends to the jump."
                found.append(Figure(f"contact-{i + 1}", convergence_curves(contacts), text))
        return found
