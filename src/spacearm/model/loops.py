"""Closed loops: a loop joins two frames that a robot's tree of joints does not join, or makes two joints a gear."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from spacearm import checks
from spacearm.checks import check_fields
from spacearm.errors import ModelError, quote_text
from spacearm.model.parts import Part, finite, unit_vector
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.model.robot import Robot

LoopKind: TypeAlias = Literal["point", "axis", "weld", "distance", "gear"]
LOOP_KINDS: tuple[LoopKind, ...] = ("point", "axis", "weld", "distance", "gear")
#: The axis of a hinge where none is given.
DEFAULT_AXIS = (0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Part):
    """A constraint that closes a loop of a robot.

    Args:
        name: of the loop.
        kind: ``point``: the origins of both frames coincide; ``axis``: and so does ``axis``, a hinge; ``weld``: and all
            axes; ``distance``: the origins stay ``distance`` apart, a massless rod with ball joints; ``gear``: joint
            positions keep ``q[first] = ratio * q[second] + offset``.
        first, second: frames or bodies; of a gear, joints.
        axis: unit vector, the same in the axes of both frames; z if omitted.
        distance: m.
        ratio, offset: of a gear.
    """

    name: str
    kind: LoopKind
    first: str
    second: str
    axis: Array | None = None
    distance: float = 0.0
    ratio: float = 1.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        self._expect_text("name", "first", "second")
        checks.one_of(self.kind, LOOP_KINDS, "kind", place=f"loop {quote_text(self.name)}", error=ModelError)
        check_fields(self, finite, "distance", least=0.0)
        check_fields(self, finite, "ratio", "offset")
        if self.first == self.second:
            raise ModelError(f"joins {quote_text(self.first)} to itself")
        if self.kind == "axis":
            object.__setattr__(self, "axis", unit_vector(DEFAULT_AXIS if self.axis is None else self.axis, "axis"))
        own = {"axis": ("axis",), "distance": ("distance",), "gear": ("ratio", "offset")}.get(self.kind, ())
        plain = {"axis": None, "distance": 0.0, "ratio": 1.0, "offset": 0.0}
        for key, value in plain.items():
            if key not in own and (getattr(self, key) is not None if value is None else getattr(self, key) != value):
                raise ModelError(f"{key!r} does not apply to a loop of kind {self.kind!r}", hint="leave it out")
        if self.kind == "distance" and not self.distance > 0.0:
            raise ModelError("distance is zero", hint="expected more than zero; kind = 'point' joins two points")
        if self.kind == "gear" and self.ratio == 0.0:
            raise ModelError("ratio is zero", hint="expected another number; to hold a joint, lock it")

    @property
    def joins_frames(self) -> bool:
        """Whether it joins frames, not joints."""
        return self.kind != "gear"

    @property
    def hinge(self) -> Array:
        """The axis of a hinge."""
        return cast(Array, self.axis)


def is_frozen(robot: Robot, loop: Loop, held: Set[str]) -> bool:
    """Whether all joints that a loop constrains are among those that are frozen; an error for one joint of a gear."""
    if loop.joins_frames:
        # Joints that only one of both paths has are those of the loop: what both share moves its ends alike.
        paths = [robot.path(robot.body_index(robot.frame(end).body)) for end in (loop.first, loop.second)]
        return {robot.joints[i].name for i in {*paths[0]} ^ {*paths[1]}} <= held
    around = {loop.first, loop.second}
    if len(around & held) == 1:
        raise ModelError(f"gear {loop.name!r} holds {loop.first!r} and {loop.second!r}", hint="freeze both")
    return around <= held


def scale_loop(robot: Robot, loop: Loop, length: float) -> Loop:
    """The loop of a similar robot, all lengths times ``length``."""
    if loop.joins_frames:
        return replace(loop, distance=length * loop.distance)
    # Angles stay, lengths scale: a ratio between two joints of one kind is the same, between an angle and a length not.
    first, second = (1.0 if robot.joint(end).kind == "revolute" else length for end in (loop.first, loop.second))
    return replace(loop, ratio=loop.ratio * first / second, offset=first * loop.offset)
