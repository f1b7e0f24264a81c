"""Tables of plans in a scenario file: joint paths that phases drive or laws follow.

A plan starts at the start of the run or at the end of another plan, never at a state that a run has yet to reach: plans
are made before the run, so that errors in them appear at once and all phases can be prepared together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import PrivateAttr

from spacearm import control
from spacearm.checks import check_name
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.model.toml_schema import Name, Number, Vector3, Vector4
from spacearm.simulate import Signal, State
from spacearm.study import Findings, ScenarioTable, key, row
from spacearm.study.keys import check_distinct
from spacearm.study.signal_tables import SignalTable
from spacearm.study.surroundings import ContactShapeTable
from spacearm.study.tables import ConfigurationKeys
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.motion.scenario import PhaseTable

_ALL = ("name", "after", "duration", "minimum_time", "limits", "clearance")
_CONFIGURATION = ("configuration", "joints")
_HAND = ("frame", "attitude", "rpy", "hold_attitude")
_FollowsPlan = TypeVar("_FollowsPlan", bound=ScenarioTable)


class ClearanceTable(ScenarioTable):
    """Two shapes that a plan keeps apart, and the smallest gap."""

    key_changes: ClassVar = {"least": "it is 'minimum_gap' now"}

    first: ContactShapeTable
    second: ContactShapeTable
    minimum_gap: Number = key(0.0, "m")


class PlanTable(ConfigurationKeys):
    """A plan: joint paths from the start of the run or from the end of another plan."""

    key_changes: ClassVar = {
        "way": "it is 'displacement' now",
        "through": "it is 'waypoints' now",
        "attitudes": "it is 'waypoint_attitudes' now",
        "fastest": "it is 'minimum_time' now",
        "still_base": "it is 'hold_base_attitude' now",
        "clear": "it is 'clearance' now",
    }
    either: ClassVar = (("goal", "displacement"), ("attitude", "rpy", "rpy_deg"))
    uses: ClassVar = {
        "point_to_point": (*_ALL, *_CONFIGURATION),
        "reactionless": (*_ALL, *_CONFIGURATION),
        "least_disturbance": (*_ALL, *_CONFIGURATION, "measure"),
        "reach": (*_ALL, *_HAND, "goal", "displacement"),
        "hand_line": (*_ALL, *_HAND, "goal", "displacement", "hold_base_attitude"),
        "hand_spline": (
            *_ALL,
            "frame",
            "times",
            "waypoints",
            "waypoint_attitudes",
            "hold_attitude",
            "hold_base_attitude",
        ),
    }

    name: Name = key(what="name that phases and laws refer to")
    kind: Literal["point_to_point", "hand_line", "hand_spline", "reach", "reactionless", "least_disturbance"]
    after: Name | None = key(None, "plan at whose end this one starts; the start of the run if omitted")
    duration: Number | None = key(None, "s; for point_to_point, the shortest within joint rates if omitted")
    minimum_time: bool = key(
        False, "the same path in the shortest time within the rate and effort limits of the joints"
    )
    limits: Literal["check", "ignore"] = key("check", "whether a plan that violates joint limits is an error")
    frame: Name | None = key(None, "frame that the plan moves")
    goal: Vector3 | None = key(None, "position of the frame at the end, m, world")
    displacement: Vector3 | None = key(
        None, "displacement of the frame from its position at the start of the plan, m, world"
    )
    attitude: Vector4 | None = key(None, "attitude of the frame at the end: quaternion w, x, y, z")
    rpy: Vector3 | None = key(None, "the same as roll, pitch, yaw about fixed axes")
    rpy_deg: Vector3 | None = None
    hold_attitude: bool = key(True, "the frame keeps its attitude if none is given; otherwise its attitude is free")
    hold_base_attitude: bool = key(False, "the base keeps its attitude during the plan")
    times: list[Number] | None = key(None, "times of the waypoints, s")
    waypoints: list[Vector3] | None = key(None, "positions of the frame at the waypoints, m, world")
    waypoint_attitudes: list[Vector4] | None = key(None, "attitudes of the frame at the waypoints: quaternions")
    measure: Literal["end", "path"] = key(
        "end", "disturbance measure: rotation of the base at the end, or integral of its squared rate along the path"
    )
    clearance: list[ClearanceTable] = key(
        [], "shapes to keep apart: least_disturbance avoids them; for the other kinds a violation is an error"
    )

    def make_plan(self, robot: Robot, start: State) -> control.JointPlan:
        """The plan of this robot from this state."""
        plan = self._build_plan(robot, start)
        # Before the checks: scaling time changes rates and efforts, not the path.
        if self.minimum_time:
            plan = control.minimise_duration(plan)
        # Of the final path, after its time has been scaled.
        if self.limits == "check":
            plan.check()
        for k, pair in enumerate(self.clearance):
            with error_context(f"clearance[{k}]"):
                plan.clearance([(pair.first.make(), pair.second.make())], pair.minimum_gap)
        return plan

    def _build_plan(self, robot: Robot, start: State) -> control.JointPlan:
        if self.kind == "point_to_point":
            return control.JointPlan.from_endpoints(robot, start, self.positions_of(robot, start), self.duration)
        if self.kind == "hand_spline":
            times, waypoints = self._require_key("times"), self._require_key("waypoints")
            # The frame's path first, then joint paths that follow it with the base floating (or held).
            path = control.hand_spline(
                robot,
                start,
                self._frame(robot),
                times,
                waypoints,
                self.waypoint_attitudes,
                hold_attitude=self.hold_attitude,
            )
            return control.follow_line(robot, start, path, hold_base_attitude=self.hold_base_attitude)
        lasting = self._require_key("duration")
        if self.kind == "reactionless":
            return control.reactionless(robot, start, self.positions_of(robot, start), lasting)
        if self.kind == "least_disturbance":
            goal = self.positions_of(robot, start)
            # The only kind that can avoid shapes: they are constraints of its search. All kinds are checked afterwards.
            clear = [((pair.first.make(), pair.second.make()), pair.minimum_gap) for pair in self.clearance]
            return control.least_disturbance(robot, start, goal, lasting, measure=self.measure, clear=clear)
        frame, goal = self._frame(robot), self._goal(robot, start)
        if self.kind == "reach":
            return control.reach(robot, start, frame, goal, self._attitude(robot, start), duration=lasting)
        attitude, hold = self._explicit_attitude(), self.hold_attitude
        line = control.hand_line(robot, start, frame, goal, attitude, duration=lasting, hold_attitude=hold)
        return control.follow_line(robot, start, line, hold_base_attitude=self.hold_base_attitude)

    def positions_of(self, robot: Robot, start: State) -> Array:
        """Configuration at the end; joints that are not named keep their positions."""
        # A full configuration leaves nothing open; single joints start from where the plan begins.
        return self.positions(robot, None if self.configuration is not None else start.joints)

    def _require_key(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise InputError(f"{name!r} is missing", hint=f"kind = {self.kind!r} needs it")
        return value

    def _frame(self, robot: Robot) -> str:
        with error_context("frame"):
            return robot.frame(self._require_key("frame")).name

    def _goal(self, robot: Robot, start: State) -> Array:
        if self.displacement is None:
            return np.array(self._require_key("goal"))
        # From the start of the plan, not of the run.
        current: Array = mechanics_of(robot).frame_pose(self._frame(robot), start.joints, base=start.pose)[0]
        return np.asarray(current + np.array(self.displacement))

    def _explicit_attitude(self) -> Any:
        angles = self.si_value("rpy")
        return self.attitude if angles is None else quaternion_from_rotation(rotation_from_rpy(angles))

    def _attitude(self, robot: Robot, start: State) -> Any:
        """Attitude of the frame at the end: as given, as at the start, or None."""
        # ``None`` leaves the attitude free, which gives the search more configurations.
        if self._explicit_attitude() is not None or not self.hold_attitude:
            return self._explicit_attitude()
        current = mechanics_of(robot).frame_pose(self._frame(robot), start.joints, base=start.pose)[1]
        return quaternion_from_rotation(current)


class PlannedSignal(SignalTable):
    """A path of a plan that takes the place of a path in the file."""

    _path: Signal = PrivateAttr()

    def make(self) -> Signal:
        return self._path

    @classmethod
    def joint_signals(cls, plan: control.JointPlan) -> dict[str, SignalTable]:
        """Planned signal of each joint."""
        found: dict[str, SignalTable] = {}
        for name, path in plan.signals.items():
            # A table without keys that stands for a signal: phases treat both alike.
            found[name] = made = cls()
            made._path = path
        return found


def plans_of(tables: Sequence[PlanTable], robot: Robot, start: State) -> dict[str, control.JointPlan]:
    """Plans of a file by name."""
    check_distinct([*tables], "plan")
    found: dict[str, control.JointPlan] = {}
    for k, table in enumerate(tables):
        with error_context(f"plan[{k}] {table.name!r}"):
            # Plans are chained in the order of the file: a plan can only follow one above it.
            begin = start if table.after is None else found[check_name(table.after, found, "plan", place="after")].end
            found[table.name] = table.make_plan(robot, begin)
    return found


def with_plans(phase: PhaseTable, plans: Mapping[str, control.JointPlan]) -> PhaseTable:
    """A phase whose joints or laws follow the plans that it names."""
    laws = []
    for k, law in enumerate(phase.law):
        with error_context(f"law[{k}]"):
            if law.plan is not None and law.frame is not None:
                # A law in Cartesian space follows the frame's path, not the joint paths, so that errors are those of
                # the hand.
                laws.append(law.follow_path(plans[check_name(law.plan, plans, "plan", place="plan")].hand(law.frame)))
            else:
                laws.append(_follow_plan(law, "reference", plans))
    phase = phase.model_copy(update={"law": laws})
    # A plan that outlasts its phase would be cut off on the way.
    followed = [name for name in (phase.plan, *(law.plan for law in laws)) if name is not None]
    for name in followed:
        # 1e-9: durations are decimal numbers.
        if plans[check_name(name, plans, "plan", place="plan")].duration > phase.duration * (1.0 + 1e-9):
            lasting = plans[name].duration
            raise InputError(f"lasts {phase.duration:g} s, plan {name!r} {lasting:.6g} s", place="duration")
    return _follow_plan(phase, "driven", plans)


def _follow_plan(table: _FollowsPlan, place: str, plans: Mapping[str, control.JointPlan]) -> _FollowsPlan:
    """A table with the paths of its plan added; paths that it has itself take precedence."""
    name = getattr(table, "plan", None)
    if name is None:
        return table
    paths = PlannedSignal.joint_signals(plans[check_name(name, plans, "plan", place="plan")])
    # A locked or held joint cannot follow the plan as well.
    still = set(getattr(table, "locked", ())) | set(getattr(table, "held", ()))
    own = {joint: path for joint, path in paths.items() if joint not in still}
    # The table's own paths override those of the plan.
    return table.model_copy(update={place: own | getattr(table, place)})


class PlanFindings(Findings):
    """Findings of a plan in the file."""

    plan: control.JointPlan

    duration = row("s", of=lambda p: p.plan.duration)
    base_rotation = row("rad", "rotation of the base at its end", of=lambda p: p.plan.base_rotation)
