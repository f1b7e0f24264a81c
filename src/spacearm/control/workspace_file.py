"""The workspace study from a scenario file: reach, dynamic singularities and base disturbance, as maps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from spacearm import control
from spacearm.checks import check_name
from spacearm.control._workspace_figures import figures
from spacearm.control.maps import HandMap, JointMap, evaluate_arm, hand_map, joint_map, twist_rows
from spacearm.control.workspace import fixed_point_name, longest_reach
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.model.toml_schema import Name, Number
from spacearm.result import Check, Checks, Figure, Limit
from spacearm.study import Findings, Session, StudyFile, dataset, key, row
from spacearm.study.findings import NotedValue
from spacearm.study.limits import range_use, worst_first
from spacearm.study.tables import ConfigurationKeys, Count, Pair, check_revolute
from spacearm.text_format import format_number
from spacearm.typing import Array

#: Grid points for the search for singular configurations, by the number of joints.
SINGULAR_GRID = {1: 2001, 2: 181, 3: 41}


class WorkspaceFile(StudyFile, ConfigurationKeys):
    """Workspace of an arm."""

    needs_mujoco: ClassVar[bool] = False

    frame: Name | None = key(None, "frame whose workspace is mapped; the last frame of the robot if omitted")
    ranges: dict[str, Pair] | None = key(None, "joint = [lower, upper] of the moving joints, rad or m")
    ranges_deg: dict[str, Pair] | None = key(
        None, "the same in degrees; if both are omitted, all joints within their limits"
    )
    twist: list[Name] = key(["x", "y", "z"], "components of the frame's motion to consider: x, y, z, wx, wy, wz")
    across: list[Name] | None = key(None, "two joints of the joint map; the second and third if omitted")
    plane: list[Name] = key(["x", "z"], "axes of the position map, base axes from the mass centre")
    thickness: Number | None = key(None, "thickness of the slice, m; a tenth of the reach if omitted")
    samples: Count = key(40_000, "configurations of the position map")
    grid: Count = key(61, "points along each joint of the joint map")
    cells: Count = key(60, "cells of the position map along each axis")

    def solve(self, session: Session) -> WorkspaceFindings:
        """Map reach, dynamic singularities and disturbance of the base."""
        robot = self.load_robot(session)
        frame = robot.frames[-1].name if self.frame is None and robot.frames else self.frame or robot.bodies[-1].name
        with error_context("frame"):
            robot.frame(frame)
        ranges = self.find_ranges(robot)
        with error_context("twist"):
            rows = twist_rows(self.twist)
            if len(rows) > len(ranges) or not rows:
                raise InputError(
                    f"{len(ranges)} joints move, but {len(rows)} components are given",
                    hint="expected at least as many joints as components",
                )
        still = self.positions(robot)
        session.report_progress(0.1, "over joints")
        across = self.map_joint_pair([*ranges])
        over = joint_map(robot, frame, {n: ranges[n] for n in across}, rows, still, [*ranges], self.grid)
        session.report_progress(0.4, "over places")
        longest = longest_reach(robot, frame)
        # A slide without limits reaches without end; then a slice of 0.2 m.
        thick = self.thickness or 0.1 * (longest if math.isfinite(longest) else 2.0)
        places = hand_map(
            robot, frame, ranges, rows, still, axes=self.plane, thickness=thick, samples=self.samples, cells=self.cells
        )
        session.report_progress(0.8, "dynamic singularities")
        radii = None
        # The determinant needs as many joints as components, and a grid of more joints has too many points.
        if len(rows) == len(ranges) and len(ranges) in SINGULAR_GRID:
            count = SINGULAR_GRID[len(ranges)]
            radii = control.workspace(robot, frame, ranges, rows, count=count, configuration=still)
        return WorkspaceFindings(
            robot=robot, frame=frame, rows_of=rows, ranges=ranges, over=over, places=places, radii=radii
        )

    def find_ranges(self, robot: Robot) -> dict[str, tuple[float, float]]:
        """Moving joints and their ranges."""
        check_revolute(robot, self.ranges_deg or (), "ranges")
        given = self.si_value("ranges")
        if given is None:
            given = {}
            for joint in robot.joints:
                # Wheels turn without end, and modes swing: neither is a way to move the hand.
                if joint.name not in robot.arm_names:
                    continue
                wide = math.pi if joint.kind == "revolute" else math.inf
                # One revolution has all poses of a joint without limits; a slide without limits has no such range and
                # is refused below.
                given[joint.name] = (max(joint.limits.lower, -wide), min(joint.limits.upper, wide))
        with error_context("ranges"):
            for name, (low, high) in given.items():
                check_name(name, robot.joint_names, "joint", of=robot.name)
                if not (math.isfinite(low) and math.isfinite(high) and low < high):
                    raise InputError(f"joint {name!r} has the range {low:g} to {high:g}", hint="expected lower, upper")
            if len(given) < 2:
                raise InputError(f"{len(given)} joints move", hint="expected two or more")
        return {name: (float(low), float(high)) for name, (low, high) in given.items()}

    def map_joint_pair(self, names: list[str]) -> list[str]:
        """The two joints of the joint map."""
        if self.across is None:
            return names[1:3] if len(names) > 2 else names[:2]
        with error_context("across"):
            if len(set(self.across)) != 2:
                raise InputError(f"{len(self.across)} joints are given", hint="expected two different ones")
            return [check_name(name, names, "joint that moves") for name in self.across]


class WorkspaceFindings(Findings):
    """Findings of the workspace study."""

    robot: Robot
    frame: str
    rows_of: list[int]
    ranges: dict[str, tuple[float, float]]
    over: JointMap
    places: HandMap
    radii: control.Workspace | None

    nearest = row("m", name="reach.least", of=lambda r: NotedValue(r.reach[0], f"from {r.centre}"))
    farthest = row("m", name="reach.most", of=lambda r: NotedValue(r.reach[1], f"from {r.centre}"))
    singular = row(
        "m", "distances at which it can be singular", of=lambda r: {f"{k}.{n}": v for k, n, v in r.bands()} or None
    )
    manipulability = row("", "largest on the position map", of=lambda r: _extreme(r.places.manipulability, np.nanmax))
    disturbance = row(
        "rad/m",
        "rotation of the base per metre of hand motion, smallest over positions",
        of=lambda r: _extreme(r.places.cost, np.nanmin),
    )

    @property
    def centre(self) -> str:
        """The point from which distances are measured, in words: it stays in place while the joints move."""
        return fixed_point_name(self.robot)

    @property
    def active_joints(self) -> list[str]:
        """Joints that move."""
        return [*self.ranges]

    @property
    def reach(self) -> tuple[float, float]:
        """Distances from what stays in place that are reached."""
        low, high = self.places.reach
        return (low, high) if self.radii is None else (min(low, self.radii.reach[0]), max(high, self.radii.reach[1]))

    def bands(self) -> list[tuple[int, str, float]]:
        """Number, end and distance of each family of singular configurations."""
        found = [] if self.radii is None else list(enumerate(self.radii.singular, 1))
        return [(k, name, value) for k, band in found for name, value in zip(("low", "high"), band, strict=True)]

    def title(self) -> str:
        return f"Workspace of {self.robot.name}"

    def headline(self) -> str:
        low, high = self.reach
        span = f"{format_number(low, 3)} to {format_number(high, 3)} m"
        text = f"The frame {self.frame} reaches positions {span} from {self.centre}. "
        if self.radii is None:
            return text + "Dynamic singularities are shown on the maps."
        if not self.radii.singular:
            return text + "There is no dynamic singularity: the whole workspace is path-independent."
        ends = [value for _, _, value in self.bands()]
        return text + (
            f"Between {format_number(min(ends), 3)} and {format_number(max(ends), 3)} m it can be "
            "singular, depending "
            f"on the path; elsewhere the workspace is path-independent."
        )

    @property
    def motion(self) -> str:
        """The motion of the base meanwhile, in words."""
        kind = self.robot.base.kind
        moves = {"free": "floats", "planar": "floats in its plane", "rail": "slides on its rail"}
        return f"{moves[kind]} at zero momentum" if kind in moves else "is held"

    def summary(self) -> str:
        return (
            f"The joints {', '.join(self.active_joints)} move while the base of {self.robot.name} "
            f"({self.robot.mass:g} kg) {self.motion}. "
            f"Distances are from {self.centre}, which is fixed; positions are in base axes."
        )

    def certificate(self) -> Mapping[str, Checks]:
        checks: dict[str, Checks] = {}
        longest = longest_reach(self.robot, self.frame)
        if math.isfinite(longest):
            # From other equations than the maps': the virtual manipulator's links end to end.
            beyond = max(0.0, self.reach[1] - longest)
            checks["reach"] = Check(beyond, 1e-9, "m", "beyond the virtual manipulator's length")
        if self.radii is not None and len(self.radii.configurations):
            chosen = [self.robot.joint_index(name) for name in self.active_joints]
            worst = evaluate_arm(
                self.robot, self.frame, self.radii.configurations, self.rows_of, chosen
            ).condition.max()
            checks["singular"] = Check(float(worst), 1e-6, "", "smallest to largest singular value where singular")
        return checks

    def limits(self) -> list[Limit]:
        """Ranges of the maps compared with the joint limits."""
        found = []
        for name, (low, high) in self.ranges.items():
            joint = self.robot.joint(name)
            used, half = range_use(joint.limits.lower, joint.limits.upper, low, high)
            if np.isfinite(half):
                found.append(Limit("range", float(used), float(half), joint.unit, name, share=True))
        return worst_first(found)

    def data(self) -> Any:
        over, places = self.over, self.places
        first, second = (0.5 * (edges[1:] + edges[:-1]) for edges in places.edges)
        a, b = over.joints
        return dataset(
            {
                a: (a, over.values[0], "rad or m", "joint position"),
                b: (b, over.values[1], "rad or m", "joint position"),
                "first": ("first", first, "m", places.axes[0]),
                "second": ("second", second, "m", places.axes[1]),
            },
            {
                "joint_manipulability": (f"{a} {b}", over.measures.manipulability, "", "sqrt(det(J* J*^T))"),
                "joint_disturbance": (
                    f"{a} {b}",
                    over.measures.disturbance,
                    "1",
                    "angular velocity of the base for joint rates of norm 1",
                ),
                "configurations": ("first second", places.count, "1", "configurations that reach the cell"),
                "manipulability": ("first second", places.manipulability, "", "largest of them"),
                "disturbance": (
                    "first second",
                    places.cost,
                    "rad/m",
                    "smallest rotation of the base per metre of hand motion",
                ),
            },
        )

    def figures(self) -> list[Figure]:
        return list(figures(self.over, self.places, self.radii, self.robot))


def _extreme(values: Array, of: Any) -> float | None:
    return float(of(values)) if np.isfinite(values).any() else None
