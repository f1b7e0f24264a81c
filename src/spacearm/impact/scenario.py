"""The impact study from a scenario file: maps, collisions, configurations and grasp velocities of any robot.

Tables of the file in the first half, what is reported in the second. A file has cases (what the joints do while the
robot is struck); every collision is computed in every case. The target is moved, not rotated, so that the contact
frames meet. Equations are in the other modules of the package; here are only keys, places for errors, and rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.impact.aftermath import scene_after
from spacearm.impact.collision import CONSERVED, Collision, Jump, collide
from spacearm.impact.configuration_search import Impactor, Optimum, optimise_configuration
from spacearm.impact.contact import Convergence, contact_convergence
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.figures import convergence_curves
from spacearm.impact.floating import CONTACT, FloatingSystem, ball, flying, free_body
from spacearm.impact.grasp import GraspVelocity, grasp_velocity
from spacearm.impact.mass_map import CaseMap, map_cases, map_data, map_figures
from spacearm.impact.tensor import ImpactPoint, impact_point
from spacearm.model.document import at
from spacearm.model.rotations import rotation_matrices
from spacearm.model.toml_schema import Moments, Name, Number, Seed, Vector3, whole
from spacearm.result import Certificate, Check, Checks, Figure
from spacearm.scene import Scene, scene_of
from spacearm.study import Findings, Noted, Session, StudyFile, Table, distinct, key, row
from spacearm.study.tables import InertiaTable, Numbers, Pair, StartTable, StateKeys, check_turns
from spacearm.typing import Array
from spacearm.words import number
from spacearm.words import result as text_of

if TYPE_CHECKING:
    import xarray as xr

CROSS_CHECK = 1e-10


class JointModeKeys(Table):
    """What the joints do during the impact."""

    locked: Name | list[Name] = key("none", '`"all"`, `"none"`, or names')
    resistance: Number | Numbers | dict[str, Number] = key(0.0, "one number, one for each joint, or by name; 0 to 1")


class CaseTable(JointModeKeys):
    """One way in which the joints may act."""

    name: Name


class MapTable(Table):
    """Directions to map: a circle in the plane across ``plane``, or all of them."""

    plane: Vector3 | None = key(None, "normal of a plane")
    directions: Annotated[int, whole(2, 1_000_000)] = key(721, "how many")


class TargetTable(StateKeys, JointModeKeys):
    """The other system: a rigid body, or a robot. It is put where the contact frames meet."""

    mass: Number | None = key(None, "of a body, kg")
    inertia: Moments | None = key(None, "of a body about its mass centre, 3 or 6 numbers, kg m2")
    com: Vector3 | None = key(None, "its mass centre, m")
    contact_point: Vector3 | None = key(None, "where it is struck, m")
    robot: Name | None = key(None, "a robot in place of a body")
    frame: Name | None = key(None, "where the robot is struck")

    def of(self, session: Session) -> FloatingSystem:
        """The system; its position does not matter."""
        if (self.robot is None) == (self.mass is None):
            raise InputError("is neither a body nor a robot", hint="give either mass and inertia, or robot and frame")
        if self.robot is not None:
            for name in ("inertia", "com", "contact_point"):
                if self.given(name):
                    raise InputError("belongs to a body, but the target is a robot", place=name)
            robot = session.robot(self.robot)
            if self.frame is None:
                raise InputError("is missing", place="frame", hint="where on the robot the contact is")
            with at("frame"):
                robot.frame(self.frame)
        else:
            if self.inertia is None:
                raise InputError("is missing", place="inertia", hint="three principal moments or six entries, kg m2")
            body = InertiaTable(**self.options("mass", "inertia", "com")).make()
            contact = self.contact_point or (0.0, 0.0, 0.0)
            robot = free_body(body.mass, body.tensor, com=body.com, contact=contact, name="target")
        return FloatingSystem.at(
            robot, self.frame or CONTACT, self.state(robot), **self.options("locked", "resistance")
        )


class ContactTable(Table):
    """The collision as contacts of finite stiffness."""

    frequencies: Numbers | None = key(None, "rad/s")
    stiffnesses: Numbers | None = key(None, "N/m")


class CollisionTable(Table):
    """Robot and target collide, in every case."""

    name: Name
    kind: Literal["normal", "friction", "point", "grasp"] = key(
        "normal", "frictionless, by Coulomb's friction, without sliding, or rigid"
    )
    normal: Vector3 | None = key(None, "out of the target, into the robot; of kinds normal and friction")
    restitution: Number = key(0.0, "0 (plastic) to 1 (elastic)")
    friction: Number | None = key(None, "Coulomb's coefficient, of kind friction")
    hypothesis: Literal["energetic", "poisson", "newton", "contact"] = key(
        "energetic", "what restitution means with friction; `contact`: as a stiff contact of a run has it"
    )
    contact: ContactTable | None = None


class OptimiseTable(Table):
    """The configuration that takes a blow best."""

    name: Name
    quantity: Literal["projected", "absolute", "base_rotation"] = key("projected", "virtual mass, or turn of the base")
    goal: Literal["minimise", "maximise"] = key("minimise")
    direction: Vector3 = key(what="of the force on the robot")
    axes: Literal["world", "frame"] = key("world", "of the direction")
    speed: Number = key(1.0, "m/s")
    mass: Number = key(1.0, "of what strikes, kg")
    restitution: Number = 0.0
    case: Name | None = key(None, "the first where left out")
    vary: list[Name] | None = key(None, "joints that may move; all where left out")
    bounds: dict[str, Pair] = key({}, "joint = [lower, upper] in place of its limits, rad or m")
    bounds_deg: dict[str, Pair] = key({}, "the same in degrees")
    restarts: Annotated[int, whole(1, 1_000_000)] = key(64, "searches")
    samples: Annotated[int, whole(1, 10_000_000)] = key(4096, "configurations that are screened")
    seed: Seed = 0


class GraspVelocityTable(Table):
    """Joint rates before a grasp that leave the base still."""

    name: Name
    case: Name | None = key(None, "the first where left out")
    still: Literal["angular", "linear", "all"] = key("angular", "velocity of the base")
    measure: Literal["after", "jump"] = "after"
    floating: bool = key(True, "the base moves with the arm before the grasp")


class ImpactFile(StudyFile):
    """A robot struck at a frame."""

    frame: Name = key(what="that is struck")
    start: StartTable = key(StartTable(), "at rest in the zero configuration where left out")
    case: list[CaseTable] = key(
        [CaseTable(name="free"), CaseTable(name="fixed", locked="all"), CaseTable(name="half", resistance=0.5)],
        "free, fixed and half where left out",
        min_length=1,
    )
    map: MapTable = MapTable()
    target: TargetTable | None = None
    collision: list[CollisionTable] = key([])
    optimise: list[OptimiseTable] = key([])
    grasp_velocity: list[GraspVelocityTable] = key([])

    def solve(self, session: Session) -> Impact:
        robot = session.robot(self.robot)
        with at("frame"):
            robot.frame(self.frame)
        for table in ("case", "collision", "optimise", "grasp_velocity"):
            distinct(getattr(self, table), table)
        with at("start"):
            state = self.start.state(robot)
        systems = {}
        for i, case in enumerate(self.case):
            with at(f"case[{i}]"):
                modes = case.options("locked", "resistance")
                systems[case.name] = FloatingSystem.at(robot, self.frame, state, **modes)
        target = None
        if self.target is not None:
            with at("target"):
                target = self.target.of(session)
        session.tell(0.0, "virtual masses over all directions")
        point = impact_point(robot, self.frame)
        return Impact(
            file=self,
            point=point,
            target=target,
            maps=map_cases(point, systems, self.map.plane, self.map.directions),
            collision=self._collisions(session, systems, target),
            configuration=self._searches(session, systems),
            grasp_velocity=self._grasps(session, systems, target),
            cross_check=session.cross_check,
        )

    def _collisions(
        self, session: Session, systems: dict[str, FloatingSystem], target: FloatingSystem | None
    ) -> dict[str, dict[str, Struck]]:
        found: dict[str, dict[str, Struck]] = {}
        for i, entry in enumerate(self.collision):
            session.tell(0.3 + 0.3 * i / len(self.collision), f"collision {entry.name}")
            if target is None:
                raise InputError("there is no target to collide with", place="collision", hint="add a [target] table")
            options = entry.options("kind", "normal", "restitution", "friction", "hypothesis")
            if entry.contact is not None and entry.kind == "friction":
                raise InputError(
                    "a contact with friction is a run of its own",
                    place=f"collision[{i}].contact",
                    hint="leave it out; study = 'motion' has [[contact]], which tends to hypothesis = 'contact'",
                )
            found[entry.name] = {}
            for name, system in systems.items():
                # Cases share the state but not the modes of the joints: the target is placed anew for each.
                other, contacts = target.meeting(system), None
                with at(f"collision[{i}], case {name!r}"):
                    hit = collide(system, other, **options)
                    if entry.contact is not None:
                        law = entry.options("kind", "normal", "restitution")
                        contacts = contact_convergence(system, other, **entry.contact.options(), **law)
                found[entry.name][name] = Struck(hit=hit, first=system, second=other, contacts=contacts)
        return found

    def _searches(self, session: Session, systems: dict[str, FloatingSystem]) -> dict[str, Searched]:
        found = {}
        for i, entry in enumerate(self.optimise):
            session.tell(0.6 + 0.3 * i / len(self.optimise), f"configuration {entry.name}")
            with at(f"optimise[{i}]"):
                system = _case(entry.case, systems)
                with at("bounds_deg"):
                    check_turns(system.robot, entry.bounds_deg, "bounds")
                with at("direction"):
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
                turned = _hit_at(system, best.joints, impactor) if entry.quantity == "base_rotation" else None
            found[entry.name] = Searched(table=entry, names=system.robot.joint_names, best=best, hit=turned)
        return found

    def _grasps(
        self, session: Session, systems: dict[str, FloatingSystem], target: FloatingSystem | None
    ) -> dict[str, Grasped]:
        found = {}
        for i, entry in enumerate(self.grasp_velocity):
            session.tell(0.9, f"grasp velocity {entry.name}")
            with at(f"grasp_velocity[{i}]"):
                if target is None:
                    raise InputError("there is no target to grasp", hint="add a [target] table")
                system = _case(entry.case, systems)
                options = entry.options("still", "measure", "floating")
                grasp = grasp_velocity(system, target.meeting(system), **options)
            found[entry.name] = Grasped(table=entry, grasp=grasp)
        return found


def _case(name: str | None, systems: dict[str, FloatingSystem]) -> FloatingSystem:
    if name is None:
        return next(iter(systems.values()))
    if name not in systems:
        raise InputError(f"there is no case {name!r}", place="case", hint=did_you_mean(name, systems))
    return systems[name]


def _hit_at(system: FloatingSystem, joints: Array, hit: Impactor) -> Collision:
    """The blow of a search, on the robot at rest in the configuration that was found."""
    # At the origin and at rest: the search knows neither place nor velocity of the base.
    base = np.concatenate([np.zeros(3), np.asarray(system.base)[3:]])
    struck = replace(system, joints=joints, base=base, velocity=None)
    along = np.array(hit.direction)
    if hit.axes == "frame":
        along = struck.point.mechanics.frame_pose(struck.frame, joints, base=base)[1] @ along
    striker = flying(ball(hit.mass), CONTACT, velocity=hit.speed * along).meeting(struck)
    return collide(struck, striker, normal=along, restitution=hit.restitution)


class After(Findings):
    """One system after a collision, world axes."""

    jump: Jump
    system: FloatingSystem

    base_velocity_after = row("m/s", "world axes", of=lambda a: a.velocity(a.jump.after)[:3])
    base_angular_velocity_after = row("rad/s", of=lambda a: Noted(a.velocity(a.jump.after)[3:], a.turned()))
    contact_twist_after = row("m/s, rad/s", "world axes", of="jump.twist_after")
    joint_rates_after = row("rad/s, m/s", of=lambda a: a.jump.after[6:] if a.system.robot.n else None)
    joint_reaction_impulses = row("N m s, N s", "of locked and resisting joints", of=lambda a: a.reactions())

    def velocity(self, generalised: Array) -> Array:
        """Velocity and angular velocity of the base."""
        turn = rotation_matrices(np.asarray(self.system.base)[3:])
        return np.concatenate([turn @ generalised[:3], turn @ generalised[3:6]])

    def turned(self) -> str:
        change = np.linalg.norm((self.velocity(self.jump.after) - self.velocity(self.jump.before))[3:])
        return f"world axes; jump of {text_of(float(change))} rad/s"

    def reactions(self) -> Array | None:
        modes = self.system.modes
        return self.jump.reaction if np.any(modes.locked) or np.any(modes.resistance) else None


class Struck(Findings):
    """A collision in one case."""

    hit: Collision
    first: FloatingSystem
    second: FloatingSystem
    contacts: Convergence | None

    impulse = row("N s, N m s", "on the robot at the contact, world axes", of="hit.impulse")
    energy_lost = row("J", of=lambda s: s.lost())
    slip_after = row(
        "m/s",
        of=lambda s: s.hit.sliding and Noted(s.hit.sliding.after, f"target along robot: it {s.hit.sliding.words}"),
    )
    momentum_before = row("N s, N m s", "of both, about the contact, world axes", of="hit.momentum_before")
    momentum_after = row("N s, N m s", of="hit.momentum_after")
    robot = row(of=lambda s: After(jump=s.hit.first, system=s.first))
    target = row(of=lambda s: After(jump=s.hit.second, system=s.second))
    contact_error = row(of=lambda s: s.contacts and _converged(s.contacts))

    def lost(self) -> dict[str, Any]:
        """In all, in the contact, by the joints; with a word where they add energy: drives may, resistances may not."""
        hit, work = self.hit, float(self.hit.first.joint_work + self.hit.second.joint_work)
        # What is below this share is rounding and is not called energy that joints add.
        least = CONSERVED * float(np.maximum(hit.energy_before, hit.energy_after))
        note = "the joints add energy: locked ones that move are driven" if work > least else ""
        if float(hit.energy_added) > least:
            note = f"resisting joints add {float(hit.energy_added):.3g} J, so that this collision is not sound"
        whole = Noted(float(hit.energy_lost), f"of {float(hit.energy_before):.6g} J")
        return {"": whole, "contact": -float(hit.contact_work), "joints": Noted(0.0 - work, note)}


def _converged(contacts: Convergence) -> Noted:
    order = f"; order {contacts.order:.3f} in the duration" if np.isfinite(contacts.order) else ""
    return Noted(float(contacts.error[-1]), f"velocities after the contact, relative to the jump{order}")


class Searched(Findings):
    """The configuration that a search found."""

    table: OptimiseTable
    names: tuple[str, ...]
    best: Optimum
    hit: Collision | None

    value = row(of=lambda s: Noted(s.best.value, s.spread(), s.best.unit))
    joints = row("rad, m", of=lambda s: Noted(s.best.joints, s.agreeing()))
    at_limit = row(of=lambda s: [name for name, there in zip(s.names, s.best.at_limit, strict=True) if there])

    def spread(self) -> str:
        low, high = self.best.screened
        return f"{self.table.goal} {self.table.quantity}; screened configurations lie in {low:.4g} to {high:.4g}"

    def agreeing(self) -> str:
        best = self.best
        # How many searches agree is the evidence there is for a global optimum.
        same = int(np.sum(np.abs(best.found - best.value) <= 1e-6 * max(abs(best.value), 1e-9)))
        return f"{same} of {len(best.found)} searches ended there"


class Grasped(Findings):
    """Rates before a grasp."""

    table: GraspVelocityTable
    grasp: GraspVelocity

    solved: ClassVar = {True: "the base can be left still", False: "the base cannot be left still: least squares"}
    joint_rates = row("rad/s, m/s", of=lambda g: Noted(g.grasp.rates, g.solved[bool(g.grasp.solvable)]))
    approach = row("m/s, rad/s", "hand relative to the target, world axes", of="grasp.approach")
    base = row(
        "m/s, rad/s", of=lambda g: Noted(g.grasp.base, f"{g.table.still} velocity of the base, {g.table.measure}")
    )
    rank = row("", "independent conditions that the rates can serve", of="grasp.rank")


class Impact(Findings):
    """What a scenario of impacts gives."""

    file: ImpactFile
    point: ImpactPoint
    target: FloatingSystem | None
    maps: dict[str, CaseMap]
    collision: dict[str, dict[str, Struck]] = row()
    configuration: dict[str, Searched] = row()
    grasp_velocity: dict[str, Grasped] = row()
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
            f"Struck at {self.point.frame}, {robot.name} ({robot.mass:g} kg) acts like a mass of {number(least, 3)} to "
            f"{number(most, 3)} kg: it depends on the direction and on how the joints are held."
        )

    def certificate(self) -> Mapping[str, Checks]:
        hits = {f"collision {a!r}, case {b!r}": s.hit for a, each in self.collision.items() for b, s in each.items()}
        hits |= {f"optimise {name!r}": s.hit for name, s in self.configuration.items() if s.hit is not None}
        hits |= {f"grasp velocity {name!r}": g.grasp.collision for name, g in self.grasp_velocity.items()}
        # One row for each kind of residual, the worst of all collisions: a file may have hundreds.
        found = Certificate.worst({name: hit.certificate for name, hit in hits.items()})
        if len(hits) == 1:
            found = Certificate({name: replace(c, note=f"{c.note}; {min(hits)}") for name, c in found.items()})
        return {**found, "cross_check": {"mujoco": self._mujoco()}} if self.cross_check else found

    def _mujoco(self) -> Check:
        worst = 0.0
        for case in self.maps.values():
            joints, base, modes = np.asarray(case.system.joints), np.asarray(case.system.base), case.system.modes
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
        """The seconds after the first collision, or the robot as it is struck."""
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
