"""How the base of a robot may move: freely, in a plane, along a rail, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from spacearm import checks
from spacearm.errors import ModelError, quote_text
from spacearm.model.parts import unit_vector

BaseKind: TypeAlias = Literal["free", "planar", "rail", "held"]
BASE_KINDS: tuple[BaseKind, ...] = ("free", "planar", "rail", "held")
BASE_DOFS = ("base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz")
#: Where no axis is given: the normal of a plane is z, a rail lies along x.
DEFAULT_AXES: dict[BaseKind, tuple[float, float, float]] = {"planar": (0.0, 0.0, 1.0), "rail": (1.0, 0.0, 0.0)}


@dataclass(frozen=True)
class BaseConstraint:
    """How a base may move.

    Its velocities in base axes are what is constrained. So the start fixes which plane or rail of the world it is: the
    one through the base's origin, with ``axis`` as the base's attitude then has it.

    Args:
        kind: ``free`` (six degrees of freedom), ``planar`` (two translations and the rotation about the normal: an
            air-bearing table), ``rail`` (one translation) or ``held`` (none: an arm on the ground).
        axis: normal of the plane, or direction of the rail, in base axes: along x, y or z of the base. Left out, z
            and x.
    """

    kind: BaseKind = "free"
    axis: tuple[float, float, float] | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.kind, BASE_KINDS, "kind", place="base", error=ModelError)
        if self.kind not in DEFAULT_AXES:
            if self.axis is not None:
                raise ModelError(f"a base that is {self.kind} has no axis", place="base", hint="leave it out")
            return
        vector = unit_vector(DEFAULT_AXES[self.kind] if self.axis is None else cast(Any, self.axis), "axis of the base")
        if np.count_nonzero(vector) != 1:
            raise ModelError(
                f"axis {vector.tolist()} is oblique to the base's own axes",
                place="base",
                hint="expected x, y or z of the base; a tilted plane or rail comes from the attitude at the start",
            )
        object.__setattr__(self, "axis", tuple(vector.tolist()))

    @classmethod
    def from_word(cls, given: object) -> BaseConstraint:
        """The constraint itself, or that of its kind alone: ``planar``."""
        if isinstance(given, BaseConstraint):
            return given
        if not isinstance(given, str):
            raise ModelError(f"base is {quote_text(given)}", hint=f"expected {', '.join(BASE_KINDS)}")
        return cls(cast(BaseKind, given))

    @property
    def is_free(self) -> bool:
        return self.kind == "free"

    @property
    def locked_indices(self) -> list[int]:
        """Places of the degrees of freedom that do not move among the six of a base."""
        return [BASE_DOFS.index(name) for name in self.locked_dofs]

    @property
    def moving_indices(self) -> list[int]:
        """Places of the degrees of freedom that move among the six of a base."""
        locked = self.locked_indices
        return [i for i in range(len(BASE_DOFS)) if i not in locked]

    @property
    def locked_dofs(self) -> tuple[str, ...]:
        """Degrees of freedom of the base that do not move."""
        if self.axis is None:
            return () if self.is_free else BASE_DOFS
        along = int(np.flatnonzero(self.axis)[0])
        if self.kind == "rail":
            return tuple(name for i, name in enumerate(BASE_DOFS) if i != along)
        # Of a plane the translation along the normal, and rotations about the two other axes.
        return tuple(name for i, name in enumerate(BASE_DOFS) if (i == along if i < 3 else i - 3 != along))
