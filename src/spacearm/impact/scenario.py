"""The impact study from a scenario file: maps, collisions, configurations and grasp velocities of any robot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from spacearm.errors import InputError, did_you_mean
from spacearm.impact.collision import CONSERVED, Collision, Jump, collide
from spacearm.impact.configuration_search import Impactor, optimise_configuration
from spacearm.impact.contact import contact_convergence
from spacearm.impact.crosscheck import tensor_by_mujoco
from spacearm.impact.figures import convergence_curves
from spacearm.impact.floating import CONTACT, FloatingSystem, ball, flying, free_body
from spacearm.impact.grasp import grasp_velocity
from spacearm.impact.scenario_map import CaseMap, map_cases, map_data, map_figures, map_rows
from spacearm.impact.scenario_schema import CaseTable, GraspVelocityTable, ImpactFile, OptimiseTable, StateKeys
from spacearm.impact.tensor import impact_point
from spacearm.model import Robot
from spacearm.model.document import at, find_robot, validated
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy, rotation_matrices
from spacearm.result import Certificate, Check, Figure, Result, Row
from spacearm.typing import Array

CROSS_CHECK = 1e-10


def run(
    document: dict[str, Any],
    *,
    folder: Path,
    cross_check: bool = False,
    progress: Callable[[float, str], None] | None = None,
) -> Result:
    """Run the study that a scenario file describes."""
    return _Scenario(validated(ImpactFile, document), folder).run(cross_check, progress or (lambda _f, _w: None))


class _Scenario:
    def __init__(self, file: ImpactFile, folder: Path) -> None:
        self.file = file
        with at("robot"):
            self.robot = find_robot(file.robot, folder)
        with at("frame"):
            self.robot.frame(file.frame)
        self.point = impact_point(self.robot, file.frame)
        self._unique("case", [case.name for case in file.case])
        self._unique("collision", [entry.name for entry in file.collision])
        self._unique("optimise", [entry.name for entry in file.optimise])
        self._unique("grasp_velocity", [entry.name for entry in file.grasp_velocity])
        self.systems = {}
        for i, case in enumerate(file.case):
            with at("start"):
                state = _state(self.robot, file.start)
            with at(f"case[{i}]"):
                self.systems[case.name] = flying(
                    self.robot, file.frame, position=file.start.position, **state, **_modes(case)
                )
        self.target = None if file.target is None else self._target(folder)
        self.rows: list[Row] = []
        self.figures: list[Figure] = []
        self.certificate: dict[str, Check] = {}

    def _unique(self, table: str, names: list[str]) -> None:
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"two are called {name!r}", place=table)

    def _case(self, name: str | None) -> FloatingSystem:
        if name is None:
            return next(iter(self.systems.values()))
        if name not in self.systems:
            raise InputError(f"there is no case {name!r}", place="case", hint=did_you_mean(name, self.systems))
        return self.systems[name]

    def _target(self, folder: Path) -> FloatingSystem:
        table = self.file.target
        assert table is not None
        with at("target"):
            if (table.robot is None) == (table.mass is None):
                raise InputError(
                    "is neither a body nor a robot", hint="give either mass and inertia, or robot and frame"
                )
            if table.robot is not None:
                for key in ("inertia", "com", "contact"):
                    if getattr(table, key) is not None:
                        raise InputError("belongs to a body, but the target is a robot", place=key)
                with at("robot"):
                    robot = find_robot(table.robot, folder)
                if table.frame is None:
                    raise InputError("is missing", place="frame", hint="where on the robot the contact is")
                frame = table.frame
                with at("frame"):
                    robot.frame(frame)
            else:
                if table.inertia is None:
                    raise InputError(
                        "is missing", place="inertia", hint="three principal moments or six entries, kg m2"
                    )
                assert table.mass is not None
                com, contact = table.com or (0.0, 0.0, 0.0), table.contact or (0.0, 0.0, 0.0)
                robot = free_body(table.mass, _tensor(table.inertia), com=com, contact=contact, name="target")
                frame = table.frame or CONTACT
            state = _state(robot, table)
            return flying(robot, frame, **state, locked=table.locked, resistance=_plain(table.resistance))

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self, cross_check: bool, say: Callable[[float, str], None]) -> Result:
        file = self.file
        say(0.0, "virtual masses over all directions")
        maps = map_cases(self.point, self.systems, file.map)
        self.rows += map_rows(maps)
        self.figures += map_figures(self.point, maps)
        self._collisions(say)
        for i, search in enumerate(file.optimise):
            say(0.6 + 0.3 * i / len(file.optimise), f"configuration {search.name}")
            with at(f"optimise[{i}]"):
                self._optimise(search)
        for i, entry in enumerate(file.grasp_velocity):
            say(0.9, f"grasp velocity {entry.name}")
            with at(f"grasp_velocity[{i}]"):
                self._grasp_velocity(entry)
        if cross_check:
            self.certificate["cross_check.mujoco"] = self._mujoco(maps)
        return Result(
            "impact",
            rows=self.rows,
            certificate=Certificate(self.certificate),
            settings={
                "robot": self.robot.name,
                "frame": file.frame,
                "joints": np.asarray(next(iter(self.systems.values())).joints),
                "cases": {case.name: {"locked": case.locked, "resistance": case.resistance} for case in file.case},
                "target": None if self.target is None else self.target.robot.name,
            },
            data=map_data(maps),
            figures=self.figures,
            title=file.title or f"Impact on {self.robot.name}",
        )

    def _collisions(self, say: Callable[[float, str], None]) -> None:
        file = self.file
        if file.collision and self.target is None:
            raise InputError("there is no target to collide with", place="collision", hint="add a [target] table")
        for i, entry in enumerate(file.collision):
            say(0.3 + 0.3 * i / len(file.collision), f"collision {entry.name}")
            stiffening = {}
            for name, system in self.systems.items():
                assert self.target is not None
                other = self.target.meeting(system)
                options: dict[str, Any] = {
                    "kind": entry.kind, "normal": entry.normal, "restitution": entry.restitution,
                }  # fmt: skip
                with at(f"collision[{i}], case {name!r}"):
                    hit = collide(system, other, **options)
                    if entry.contact is not None:
                        stiffening[name] = contact_convergence(
                            system, other, entry.contact.frequencies, stiffnesses=entry.contact.stiffnesses, **options
                        )
                self.rows += _collision_rows(f"collision.{entry.name}.{name}", hit, system, other)
                self._certify(hit, f"collision {entry.name!r}, case {name!r}")
            if stiffening:
                self.figures.append(
                    Figure(
                        f"contact-{i + 1}",
                        convergence_curves(stiffening),
                        f"Collision {entry.name!r} as a contact of finite stiffness: it tends to the jump.",
                    )
                )
                for name, case in stiffening.items():
                    note = "velocities after the contact, relative to the jump"
                    note += f"; order {case.order:.3f} in the duration" if np.isfinite(case.order) else ""
                    self.rows.append(
                        Row(f"collision.{entry.name}.{name}.contact_error", float(case.error[-1]), "", note=note)
                    )

    def _certify(self, hit: Collision, where: str) -> None:
        """The worst of all collisions goes into the certificate, with the place where it is."""
        for name, check in hit.certificate.items():
            known = self.certificate.get(name)
            if known is None or check.worse_than(known):
                self.certificate[name] = replace(check, note=f"{check.note}; worst: {where}")

    def _optimise(self, search: OptimiseTable) -> None:
        system = self._case(search.case)
        for name in search.bounds_deg:
            if name in search.bounds:
                raise InputError(f"of joint {name!r} are also in 'bounds_deg'", place="bounds")
            if self.robot.joints[self.robot.joint_index(name)].kind == "prismatic":
                raise InputError(f"joint {name!r} is a slide", place="bounds_deg", hint="give 'bounds' in m")
        ranges = {name: _pair(name, pair) for name, pair in search.bounds.items()}
        ranges |= {name: _pair(name, pair, np.pi / 180.0) for name, pair in search.bounds_deg.items()}
        with at("direction"):
            x, y, z = search.direction
            hit = Impactor((x, y, z), search.axes, search.speed, search.mass, search.restitution)
        best = optimise_configuration(
            self.robot, self.file.frame, hit, quantity=search.quantity, maximise=search.goal == "maximise",
            start=np.asarray(system.joints), vary=search.vary, bounds=ranges, quaternion=np.asarray(system.base)[3:],
            locked=system.modes.locked, resistance=system.modes.resistance, restarts=search.restarts,
            samples=search.samples, seed=search.seed,
        )  # fmt: skip
        if search.quantity == "base_rotation":
            self._certify(_hit_at(system, best.joints, hit), f"optimise {search.name!r}")
        name = f"configuration.{search.name}"
        low, high = best.screened
        spread = f"{search.goal} {search.quantity}; screened configurations lie in {low:.4g} to {high:.4g}"
        same = int(np.sum(np.abs(best.found - best.value) <= 1e-6 * max(abs(best.value), 1e-9)))
        self.rows += [
            Row(f"{name}.value", best.value, best.unit, note=spread),
            Row(f"{name}.joints", best.joints, "rad, m", note=f"{same} of {len(best.found)} searches ended there"),
            Row(f"{name}.at_limit", [j for j, at in zip(self.robot.joint_names, best.at_limit, strict=True) if at]),
        ]

    def _grasp_velocity(self, entry: GraspVelocityTable) -> None:
        if self.target is None:
            raise InputError("there is no target to grasp", hint="add a [target] table")
        system = self._case(entry.case)
        found = grasp_velocity(
            system, self.target.meeting(system), still=entry.still, measure=entry.measure, floating=entry.floating
        )
        self._certify(found.collision, f"grasp velocity {entry.name!r}")
        name = f"grasp_velocity.{entry.name}"
        note = "the base can be left still" if found.solvable else "the base cannot be left still: least squares"
        self.rows += [
            Row(f"{name}.joint_rates", found.rates, "rad/s, m/s", note=note),
            Row(f"{name}.approach", found.approach, "m/s, rad/s", note="hand relative to the target, world axes"),
            Row(f"{name}.base", found.base, "m/s, rad/s", note=f"{entry.still} velocity of the base, {entry.measure}"),
            Row(f"{name}.rank", found.rank, "", note="independent conditions that the rates can serve"),
        ]

    def _mujoco(self, maps: dict[str, CaseMap]) -> Check:
        worst = 0.0
        for name, case in maps.items():
            system = self.systems[name]
            other = tensor_by_mujoco(
                self.robot, self.file.frame, np.asarray(system.joints), base=np.asarray(system.base),
                locked=system.modes.locked, resistance=system.modes.resistance,
            )  # fmt: skip
            worst = max(worst, float(np.abs(case.tensor - other).max() / np.abs(other).max()))
        return Check(worst, CROSS_CHECK, "", "G* from MuJoCo's mass matrix and Jacobian, relative")


def _hit_at(system: FloatingSystem, joints: Array, hit: Impactor) -> Collision:
    """The hit of a search, on the robot at rest in the configuration that was found."""
    base = np.concatenate([np.zeros(3), np.asarray(system.base)[3:]])
    struck = FloatingSystem(
        system.robot, system.frame, joints, base, None, system.modes.locked, system.modes.resistance
    )
    along = np.array(hit.direction)
    if hit.axes == "frame":
        along = struck.point.mechanics.frame_pose(struck.frame, joints, base=base)[1] @ along
    striker = flying(ball(hit.mass), CONTACT, velocity=hit.speed * along).meeting(struck)
    return collide(struck, striker, normal=along, restitution=hit.restitution)


# -- reading ----------------------------------------------------------------------------------------------------------


def _modes(case: CaseTable) -> dict[str, Any]:
    return {"locked": case.locked, "resistance": _plain(case.resistance)}


def _plain(resistance: Any) -> Any:
    return dict(resistance) if isinstance(resistance, dict) else resistance


def _pair(name: str, pair: list[float], factor: float = 1.0) -> tuple[float, float]:
    if len(pair) != 2:
        raise InputError(f"has {len(pair)} numbers", place=f"bounds.{name}", hint="expected lower and upper")
    return pair[0] * factor, pair[1] * factor


def _tensor(moments: list[float]) -> Array:
    if len(moments) == 3:
        return np.diag(moments)
    xx, yy, zz, xy, xz, yz = moments
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _one(table: StateKeys, *keys: str) -> tuple[str, Any] | None:
    given = [(key, getattr(table, key)) for key in keys if getattr(table, key) is not None]
    if len(given) > 1:
        raise InputError(f"{given[0][0]!r} and {given[1][0]!r} are both given", hint="expected one of them")
    return given[0] if given else None


def _no_slides(robot: Robot, key: str) -> None:
    """Degrees of all joints at once make sense only where all of them turn."""
    if any(joint.kind == "prismatic" for joint in robot.joints):
        raise InputError("some joints are slides", place=key, hint=f"give '{key.removesuffix('_deg')}', in rad and m")


def _angles(table: StateKeys, key: str) -> Array | None:
    given = _one(table, key, f"{key}_deg")
    if given is None:
        return None
    return np.radians(given[1]) if given[0].endswith("_deg") else np.asarray(given[1], dtype=np.float64)


def _state(robot: Robot, table: StateKeys) -> dict[str, Any]:
    """Arguments of :func:`flying` but for the position."""
    attitude, configuration = _one(table, "quaternion", "rpy_deg"), _one(table, "configuration", "joints", "joints_deg")
    quaternion: Any = (1.0, 0.0, 0.0, 0.0)
    if attitude is not None:
        quaternion = np.asarray(attitude[1], dtype=np.float64)
        if attitude[0] == "rpy_deg":
            quaternion = quaternion_from_rotation(rotation_from_rpy(np.radians(attitude[1])))
        elif abs(np.linalg.norm(quaternion) - 1.0) > 1e-6:
            raise InputError("is not of unit length", place="quaternion", hint="expected w, x, y, z with norm 1")
    joints: Any = configuration[1] if configuration is not None else None
    if configuration is not None and configuration[0] != "configuration":
        joints = (
            np.radians(configuration[1])
            if configuration[0] == "joints_deg"
            else np.asarray(configuration[1], dtype=np.float64)
        )
        if configuration[0] == "joints_deg":
            _no_slides(robot, "joints_deg")
    if table.rates_deg is not None:
        _no_slides(robot, "rates_deg")
    turning = _angles(table, "angular_velocity")
    return {
        "joints": joints,
        "rates": _angles(table, "rates"),
        "quaternion": quaternion,
        "velocity": table.velocity,
        "angular_velocity": (0.0, 0.0, 0.0) if turning is None else turning,
    }


# -- rows -------------------------------------------------------------------------------------------------------------


def _collision_rows(name: str, hit: Collision, first: FloatingSystem, second: FloatingSystem) -> list[Row]:
    work = float(hit.first.joint_work + hit.second.joint_work)
    rows = [
        Row(f"{name}.impulse", hit.impulse, "N s, N m s", note="on the robot at the contact, world axes"),
        Row(f"{name}.energy_lost", float(hit.energy_lost), "J", note=f"of {float(hit.energy_before):.6g} J"),
        Row(f"{name}.energy_lost.contact", -float(hit.contact_work), "J"),
        Row(f"{name}.energy_lost.joints", 0.0 - work, "J", note=_work_note(hit)),
        Row(
            f"{name}.momentum_before", hit.momentum_before, "N s, N m s", note="of both, about the contact, world axes"
        ),
        Row(f"{name}.momentum_after", hit.momentum_after, "N s, N m s"),
    ]
    for who, jump, system in (("robot", hit.first, first), ("target", hit.second, second)):
        rows += _velocity_rows(f"{name}.{who}", jump, system)
    return rows


def _work_note(hit: Collision) -> str:
    """Why joints add energy, when they do: drives may, resistances may not."""
    least = CONSERVED * float(np.maximum(hit.energy_before, hit.energy_after))
    if float(hit.energy_added) > least:
        return f"resisting joints add {float(hit.energy_added):.3g} J, so that this collision is not sound"
    if float(hit.first.joint_work + hit.second.joint_work) > least:
        return "the joints add energy: locked ones that move are driven"
    return ""


def _velocity_rows(name: str, jump: Jump, system: FloatingSystem) -> list[Row]:
    turn = rotation_matrices(np.asarray(system.base)[3:])
    before, after = (np.concatenate([turn @ v[:3], turn @ v[3:6]]) for v in (jump.before, jump.after))
    change = float(np.linalg.norm((after - before)[3:]))
    rows = [
        Row(f"{name}.base_velocity_after", after[:3], "m/s", note="world axes"),
        Row(f"{name}.base_angular_velocity_after", after[3:], "rad/s", note=f"world axes; jump of {change:.6g} rad/s"),
        Row(f"{name}.contact_twist_after", jump.twist_after, "m/s, rad/s", note="world axes"),
    ]
    if system.robot.n:
        rows.append(Row(f"{name}.joint_rates_after", jump.after[6:], "rad/s, m/s"))
        if np.any(system.modes.locked) or np.any(system.modes.resistance):
            rows.append(
                Row(
                    f"{name}.joint_reaction_impulses",
                    jump.reaction,
                    "N m s, N s",
                    note="of locked and resisting joints",
                )
            )
    return rows
