"""Plans in a scenario file: paths of the joints that phases drive or laws follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import PrivateAttr

from spacearm import control
from spacearm.checks import known
from spacearm.engine.mechanics import mechanics_of
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.document import at
from spacearm.model.rotations import quaternion_from_rotation, rotation_from_rpy
from spacearm.model.toml_schema import Name, Number, Vector3, Vector4
from spacearm.simulate import Signal, State
from spacearm.study import Findings, Table, distinct, key, row
from spacearm.study.signal_tables import SignalTable
from spacearm.study.surroundings import SideTable
from spacearm.study.tables import ConfigurationKeys
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.motion.scenario import PhaseTable

_ALL = ("name", "after", "duration", "fastest", "limits", "clear")
_CONFIGURATION = ("configuration", "joints")
_HAND = ("frame", "attitude", "rpy", "hold_attitude")
_Follows = TypeVar("_Follows", bound=Table)


class ClearTable(Table):
    """Two shapes that a plan keeps apart."""

    first: SideTable
    second: SideTable
    least: Number = key(0.0, "m")


class PlanTable(ConfigurationKeys):
    """A plan: joint paths from the start of the run, or from the end of another plan."""

    either: ClassVar = (("goal", "way"), ("attitude", "rpy", "rpy_deg"))
    uses: ClassVar = {
        "point_to_point": (*_ALL, *_CONFIGURATION),
        "reactionless": (*_ALL, *_CONFIGURATION),
        "least_disturbance": (*_ALL, *_CONFIGURATION, "measure"),
        "reach": (*_ALL, *_HAND, "goal", "way"),
        "hand_line": (*_ALL, *_HAND, "goal", "way", "still_base"),
        "hand_spline": (*_ALL, "frame", "times", "through", "attitudes", "hold_attitude", "still_base"),
    }

    name: Name = key(what="by which phases and laws call it")
    kind: Literal["point_to_point", "hand_line", "hand_spline", "reach", "reactionless", "least_disturbance"]
    after: Name | None = key(None, "plan at whose end it starts; the run's start where left out")
    duration: Number | None = key(None, "s; of point_to_point the shortest within joint rates where left out")
    fastest: bool = key(False, "the same way in the shortest time within rates and forces of the joints")
    limits: Literal["check", "ignore"] = key("check", "whether a plan that breaks joint limits is an error")
    frame: Name | None = key(None, "that is moved")
    goal: Vector3 | None = key(None, "of the frame at the end, m, world")
    way: Vector3 | None = key(None, "the same from where the frame is at the plan's start")
    attitude: Vector4 | None = key(None, "of the frame at the end: quaternion w, x, y, z")
    rpy: Vector3 | None = key(None, "the same as roll, pitch, yaw about fixed axes")
    rpy_deg: Vector3 | None = None
    hold_attitude: bool = key(True, "the frame keeps its attitude where none is given; else it is left to itself")
    still_base: bool = key(False, "the base does not turn meanwhile")
    times: list[Number] | None = key(None, "of the way points, s")
    through: list[Vector3] | None = key(None, "positions of the frame there, m, world")
    attitudes: list[Vector4] | None = key(None, "of the frame there: quaternions")
    measure: Literal["end", "way"] = key("end", "disturbance: turn of the base at the end, or squared rate on the way")
    clear: list[ClearTable] = key(
        [], "shapes that are kept apart: least_disturbance goes round them, the others are an error where they do not"
    )

    def of(self, robot: Robot, start: State) -> control.JointPlan:
        """The plan of this robot from this state on."""
        plan = self._made(robot, start)
        if self.fastest:
            plan = control.fastest(plan)
        if self.limits == "check":
            plan.check()
        for k, pair in enumerate(self.clear):
            with at(f"clear[{k}]"):
                plan.clearance([(pair.first.make(), pair.second.make())], pair.least)
        return plan

    def _made(self, robot: Robot, start: State) -> control.JointPlan:
        if self.kind == "point_to_point":
            return control.JointPlan.between(robot, start, self.positions_of(robot, start), self.duration)
        if self.kind == "hand_spline":
            times, through = self._needed("times"), self._needed("through")
            path = control.hand_spline(
                robot, start, self._frame(robot), times, through, self.attitudes, hold_attitude=self.hold_attitude
            )
            return control.follow_line(robot, start, path, still_base=self.still_base)
        lasting = self._needed("duration")
        if self.kind == "reactionless":
            return control.reactionless(robot, start, self.positions_of(robot, start), lasting)
        if self.kind == "least_disturbance":
            goal = self.positions_of(robot, start)
            clear = [((pair.first.make(), pair.second.make()), pair.least) for pair in self.clear]
            return control.least_disturbance(robot, start, goal, lasting, measure=self.measure, clear=clear)
        frame, goal = self._frame(robot), self._goal(robot, start)
        if self.kind == "reach":
            return control.reach(robot, start, frame, goal, self._attitude(robot, start), duration=lasting)
        attitude, hold = self._turned(), self.hold_attitude
        line = control.hand_line(robot, start, frame, goal, attitude, duration=lasting, hold_attitude=hold)
        return control.follow_line(robot, start, line, still_base=self.still_base)

    def positions_of(self, robot: Robot, start: State) -> Array:
        """The configuration at the end; joints that are not named stay."""
        return self.positions(robot, None if self.configuration is not None else start.joints)

    def _needed(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None:
            raise InputError(f"{name!r} is missing", hint=f"kind = {self.kind!r} needs it")
        return value

    def _frame(self, robot: Robot) -> str:
        with at("frame"):
            return robot.frame(self._needed("frame")).name

    def _goal(self, robot: Robot, start: State) -> Array:
        if self.way is None:
            return np.array(self._needed("goal"))
        here: Array = mechanics_of(robot).frame_pose(self._frame(robot), start.joints, base=start.pose)[0]
        return np.asarray(here + np.array(self.way))

    def _turned(self) -> Any:
        turn = self.si("rpy")
        return self.attitude if turn is None else quaternion_from_rotation(rotation_from_rpy(turn))

    def _attitude(self, robot: Robot, start: State) -> Any:
        """Of a pose that is reached: as given, as it is, or none."""
        if self._turned() is not None or not self.hold_attitude:
            return self._turned()
        here = mechanics_of(robot).frame_pose(self._frame(robot), start.joints, base=start.pose)[1]
        return quaternion_from_rotation(here)


class PlannedSignal(SignalTable):
    """A path of a plan, in the place of one of the file."""

    _path: Signal = PrivateAttr()

    def make(self) -> Signal:
        return self._path

    @classmethod
    def each(cls, plan: control.JointPlan) -> dict[str, SignalTable]:
        """Of each joint."""
        found: dict[str, SignalTable] = {}
        for name, path in plan.signals.items():
            found[name] = made = cls()
            made._path = path
        return found


def plans_of(tables: Sequence[PlanTable], robot: Robot, start: State) -> dict[str, control.JointPlan]:
    """The plans of a file, by name."""
    distinct([*tables], "plan")
    found: dict[str, control.JointPlan] = {}
    for k, table in enumerate(tables):
        with at(f"plan[{k}] {table.name!r}"):
            begin = start if table.after is None else found[known(table.after, found, "plan", place="after")].end
            found[table.name] = table.of(robot, begin)
    return found


def with_plans(phase: PhaseTable, plans: Mapping[str, control.JointPlan]) -> PhaseTable:
    """A phase whose joints, or laws, follow the plans that it names."""
    laws = []
    for k, law in enumerate(phase.law):
        with at(f"law[{k}]"):
            if law.plan is not None and law.frame is not None:
                laws.append(law.following(plans[known(law.plan, plans, "plan", place="plan")].hand(law.frame)))
            else:
                laws.append(_following(law, "reference", plans))
    phase = phase.model_copy(update={"law": laws})
    followed = [name for name in (phase.plan, *(law.plan for law in laws)) if name is not None]
    for name in followed:
        if plans[known(name, plans, "plan", place="plan")].duration > phase.duration * (1.0 + 1e-9):
            lasting = plans[name].duration
            raise InputError(f"lasts {phase.duration:g} s, plan {name!r} {lasting:.6g} s", place="duration")
    return _following(phase, "driven", plans)


def _following(table: _Follows, place: str, plans: Mapping[str, control.JointPlan]) -> _Follows:
    """A table with the paths of its plan in this place; what it has there itself goes first."""
    name = getattr(table, "plan", None)
    if name is None:
        return table
    paths = PlannedSignal.each(plans[known(name, plans, "plan", place="plan")])
    still = set(getattr(table, "locked", ())) | set(getattr(table, "held", ()))
    own = {joint: path for joint, path in paths.items() if joint not in still}
    return table.model_copy(update={place: own | getattr(table, place)})


class PlanFindings(Findings):
    """A plan of the file."""

    plan: control.JointPlan

    duration = row("s", of=lambda p: p.plan.duration)
    base_turn = row("rad", "by which the base has turned at its end", of=lambda p: p.plan.turn)
