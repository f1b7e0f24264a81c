"""A fixed-step roll-out together with its exact derivatives, direction by direction in vector lanes.

The motion itself is the same in every lane and is computed once, as a scalar; only its derivative along each direction
takes a lane. This is forward differentiation of the RK4 steps: exact derivatives of the numbers that the steps give.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.checks import UNIT_TOLERANCE
from spacearm.engine.fixed_step import FixedStep, Room, roll
from spacearm.engine.kernel import NonFiniteWarning
from spacearm.engine.machine import host
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame, motion_tangent
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION
from spacearm.typing import Array


class Sensitivity(NamedTuple):
    """States (rows, nx) after each recorded step, and their derivatives (rows, nx, directions)."""

    states: Array
    derivatives: Array


class TangentRollout:
    """Roll-outs of a robot with derivatives along inputs of its motion program.

    Args:
        wrt: names of inputs (``inertia``, ``damping``, ...) and which of their entries vary (None: all). The start
            state may vary too, through ``start_tangent`` of a call.
        zero: inputs that are zero in every call, for example ``mode`` and ``drive`` where all is free: shorter code.
    """

    def __init__(
        self,
        robot: Robot,
        wrt: Mapping[str, Sequence[int] | None],
        loads: tuple[LoadFrame, ...] = (),
        zero: Collection[str] = (),
    ) -> None:
        if "state" in wrt:
            raise InputError("the state is no parameter", hint="give start_tangent in place of it")
        both = [name for name in zero if name in wrt]
        if both:
            raise InputError(f"{both[0]!r} cannot both vary and be zero")
        self.zero = frozenset(zero)
        motion = motion_tangent(robot, {"state": None, **wrt}, loads).with_zeros(zero)
        self.inputs = tuple(name for name in motion.inputs if not name.startswith("d_"))
        # The motion is the same in every lane; only its derivatives take one each.
        room = Room(motion)
        self.loop = FixedStep(room, uniform=[name for name in room.inputs if "d_" not in name])
        self.sizes = {name: int(motion.inputs[name].numel()) for name in motion.inputs}
        self.seeds = tuple(f"d_{name}" for name in wrt)
        self.parameters = sum(self.sizes[name] for name in self.seeds)

    def __call__(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        step: float,
        count: int,
        *,
        directions: npt.ArrayLike | None = None,
        start_tangent: npt.ArrayLike | None = None,
        every: int = 1,
    ) -> Sensitivity:
        """Roll out ``count`` steps from ``inputs["state"]``.

        Args:
            inputs: the motion program's inputs; but for ``state`` and ``inertia``, those that are missing are zero.
            directions: (directions, parameters) changes of the parameters; without it, each by itself.
            start_tangent: (directions, nx) changes of the start state; without it, none.
            every: rows are recorded after every so many steps, ``count // every`` of them.

        Numbers that are not finite are reported by a :class:`~spacearm.engine.NonFiniteWarning`.
        """
        step = checks.number(step, "step")
        count = checks.whole(count, "count", least=0)
        every = checks.whole(every, "every", least=1, most=max(count, 1))
        seeds, moved = self._directions(directions, start_tangent)
        many, nx = moved.shape
        given = {name: self._given(name, value) for name, value in inputs.items()}
        for name in ("state", "inertia"):
            if name not in given:
                raise InputError(f"{name!r} is missing")
        # Two registers for each number at most, the directions evenly over the passes.
        passes = max(1, -(-many // (2 * host().lanes)))
        width = max(1, -(-many // passes))
        loop, code, records = self.loop, self.loop.code(width), count // every
        course = loop.course(width, float(step), [count], every=int(every))
        recorded = np.array([[loop.place("state", width), nx], [loop.place("d_state", width), nx * width]])
        one = np.zeros(width, dtype=np.int64)
        states, found = np.empty((records, nx)), []
        for first in range(0, max(many, 1), width):
            room = loop.fresh(width, given)
            varying = np.hstack([moved[first : first + width], seeds[first : first + width]])
            start = 0
            for name in ("d_state", *self.seeds):
                size, at = self.sizes[name], loop.place(name, width)
                lanes = room[at : at + size * width].reshape(size, width)
                lanes[:, : len(varying)] = varying[:, start : start + size].T
                start += size
            rows = np.empty((records, nx + nx * width))
            if records:
                roll(code, course, one, room, recorded, rows)
            states = rows[:, :nx].copy()
            found.append(rows[:, nx:].reshape(records, nx, width)[:, :, : len(varying)])
        derivatives = found[0] if len(found) == 1 else np.concatenate(found, axis=2)
        if records and not (np.isfinite(states[-1]).all() and np.isfinite(derivatives[-1]).all()):
            finite = np.isfinite(states).all(axis=1) & np.isfinite(derivatives).all(axis=(1, 2))
            message = f"roll-out: numbers that are not finite after step {(int(np.argmin(finite)) + 1) * every}"
            warnings.warn(message, NonFiniteWarning, stacklevel=2)
        return Sensitivity(states, derivatives)

    def _directions(self, directions: npt.ArrayLike | None, start_tangent: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Changes of the parameters (directions, parameters) and of the start state (directions, nx), checked."""
        alone = np.eye(self.parameters)
        rows = alone if directions is None else np.atleast_2d(checks.numbers(directions, "directions"))
        seeds = checks.array(rows, "directions", ("directions", self.parameters), finite=False)
        shape = (len(seeds), self.sizes["state"])
        still = np.zeros(shape)
        moved = still if start_tangent is None else np.atleast_2d(checks.numbers(start_tangent, "start_tangent"))
        checks.array(moved, "start_tangent", shape, finite=False)
        return seeds, moved

    def _given(self, name: str, value: npt.ArrayLike) -> Array:
        """An input of the motion program, checked and flat."""
        checks.known(name, self.inputs, "input", of="the motion program")
        rows = np.atleast_1d(checks.numbers(value, name))
        size = self.sizes[name]
        if rows.ndim > 2 or rows.size != size or rows.shape[-1] not in (size, _ROW.get(name, size)):
            raise InputError(f"{name!r} has shape {np.shape(value)}", hint=f"expected {size} numbers")
        flat = rows.ravel()
        if name in self.zero and flat.any():
            raise InputError(f"{name!r} was said to be zero", hint="leave it out of 'zero'")
        if name == "mode" and not np.all((flat == 0) | (flat == 1)):
            raise InputError("mode has entries other than 0 and 1", hint="expected 0 (free) or 1 (driven) for each dof")
        if name == "state" and abs(np.linalg.norm(flat[QUATERNION]) - 1) > UNIT_TOLERANCE:  # a NaN is not
            raise InputError("base quaternion is not of unit length", hint="expected w, x, y, z with norm 1")
        return flat


#: Numbers of one body, load or coupling, where an input has several of these and may be given as a matrix.
_ROW = {"inertia": 10, "wrench": 6, "coupling": 4}
