"""A fixed-step roll-out together with its exact derivatives, direction by direction in vector lanes.

The motion itself is the same in every lane and is computed once, as a scalar; only its derivative along each direction
takes a lane. This is forward differentiation of the RK4 steps: exact derivatives of the numbers that the steps give.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm.engine.batch import Table
from spacearm.engine.call import call_kernel
from spacearm.engine.kernel import Kernel, NonFiniteWarning, numbers
from spacearm.engine.loops import compiled
from spacearm.engine.machine import host
from spacearm.errors import InputError, did_you_mean
from spacearm.mechanics.motion import LoadFrame, motion_tangent
from spacearm.mechanics.program import Program
from spacearm.model import Robot
from spacearm.model.parts import UNIT_TOLERANCE
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
        program = _stage(motion)
        self.inputs = tuple(name for name in motion.inputs if not name.startswith("d_"))
        varying = {name for name in program.inputs if name.startswith("d_")}
        self.kernel = Kernel(program, tuple(name for name in program.inputs if name not in varying), in_place=True)
        self.parameters = sum(motion.inputs[f"d_{name}"].numel() for name in wrt)

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
        if not (np.ndim(step) == 0 and np.isfinite(numbers(step, "step"))):
            raise InputError(f"step {step}", hint="expected a finite number, s")
        if not (isinstance(count, int | np.integer) and count >= 0):
            raise InputError(f"count {count}", hint="expected a whole number of steps")
        if not (isinstance(every, int | np.integer) and 1 <= every <= max(count, 1)):
            raise InputError(f"every {every}", hint="expected a whole number of steps, 1 to count")
        seeds, moved = self._directions(directions, start_tangent)
        many, nx = moved.shape
        given = {name: self._given(name, value) for name, value in inputs.items()}
        for name in ("state", "inertia"):
            if name not in given:
                raise InputError(f"{name!r} is missing")
        # Two registers for each number at most, the directions evenly over the passes.
        passes = max(1, -(-many // (2 * host().lanes)))
        width = max(1, -(-many // passes))
        at = self.kernel.offsets(width)
        places = np.array([at[name] for name in ("total", "d_total", "part", "weight", "state", "d_state")])
        address = self.kernel.address(width)
        records = count // every
        states, found = np.empty((records, nx)), []
        for first in range(0, max(many, 1), width):
            room = np.zeros(self.kernel.room(width))
            for name, flat in given.items():
                room[at[name] : at[name] + flat.size] = flat
            varying = np.vstack([moved[first : first + width].T, seeds[first : first + width].T])
            rows = room[at["d_state"] : at["d_state"] + len(varying) * width].reshape(-1, width)  # one behind the other
            rows[:, : varying.shape[1]] = varying
            lanes = np.empty((records, nx, width))
            _roll(address, width, room, places, float(step), int(every), states, lanes.reshape(records, nx * width))
            found.append(lanes[:, :, : varying.shape[1]])
        derivatives = found[0] if len(found) == 1 else np.concatenate(found, axis=2)
        if records and not (np.isfinite(states[-1]).all() and np.isfinite(derivatives[-1]).all()):
            finite = np.isfinite(states).all(axis=1) & np.isfinite(derivatives).all(axis=(1, 2))
            message = f"roll-out: numbers that are not finite after step {(int(np.argmin(finite)) + 1) * every}"
            warnings.warn(message, NonFiniteWarning, stacklevel=2)
        return Sensitivity(states, derivatives)

    def _directions(self, directions: npt.ArrayLike | None, start_tangent: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Changes of the parameters (directions, parameters) and of the start state (directions, nx), checked."""
        alone = np.eye(self.parameters)
        seeds = alone if directions is None else np.atleast_2d(numbers(directions, "directions"))
        if seeds.ndim != 2 or seeds.shape[1] != self.parameters:
            raise InputError(f"directions have shape {seeds.shape}", hint=f"expected (directions, {self.parameters})")
        shape = (len(seeds), self.kernel.program.inputs["state"].numel())
        still = np.zeros(shape)
        moved = still if start_tangent is None else np.atleast_2d(numbers(start_tangent, "start_tangent"))
        if moved.shape != shape:
            raise InputError(
                f"start_tangent has shape {moved.shape}", hint=f"expected {shape}, a row for each direction"
            )
        return seeds, moved

    def _given(self, name: str, value: npt.ArrayLike) -> Array:
        """An input of the motion program, checked and flat."""
        if name not in self.inputs:
            raise InputError(f"the motion program has no input {name!r}", hint=did_you_mean(name, self.inputs))
        rows = np.atleast_1d(numbers(value, name))
        size = self.kernel.program.inputs[name].numel()
        if rows.ndim > 2 or rows.size != size or rows.shape[-1] not in (size, _ROW.get(name, size)):
            raise InputError(f"{name!r} has shape {np.shape(value)}", hint=f"expected {size} numbers")
        flat = rows.ravel()
        if name in self.zero and flat.any():
            raise InputError(f"{name!r} was said to be zero", hint="leave it out of 'zero'")
        if name == "mode" and not np.all((flat == 0) | (flat == 1)):
            raise InputError("mode has entries other than 0 and 1", hint="expected 0 (free) or 1 (driven) for each dof")
        if name == "state" and abs(np.linalg.norm(flat[3:7]) - 1) > UNIT_TOLERANCE:  # a NaN is not
            raise InputError("base quaternion is not of unit length", hint="expected w, x, y, z with norm 1")
        return flat


#: Numbers of one body, load or coupling, where an input has several of these and may be given as a matrix.
_ROW = {"inertia": 10, "wrench": 6, "coupling": 4}


def _stage(motion: Program) -> Program:
    """One stage of RK4 as a program in place: the rate at state + part * slope, and the weighted sum of rates.

    Its outputs are new values of inputs, so that a loop runs it on one array and does no sums of its own.
    """
    state, d_state = motion.inputs["state"], motion.inputs["d_state"]
    slope, total, d_slope, d_total = (ca.SX.sym(name, state.numel()) for name in _SLOPES)
    part, weight = ca.SX.sym("part"), ca.SX.sym("weight")
    rate, d_rate = ca.substitute(
        [motion.outputs["rate"], motion.outputs["d_rate"]],
        [state, d_state],
        [state + part * slope, d_state + part * d_slope],
    )
    new = (rate, total + weight * rate, d_rate, d_total + weight * d_rate)
    slopes = dict(zip(_SLOPES, (slope, total, d_slope, d_total), strict=True))
    inputs = {**slopes, "part": part, "weight": weight, **motion.inputs}
    # What has a number for each lane first, so that it begins together.
    inputs = dict(sorted(inputs.items(), key=lambda item: not item[0].startswith("d_")))
    return Program("motion_stage", inputs, {name: ca.densify(value) for name, value in zip(_SLOPES, new, strict=True)})


_SLOPES = ("slope", "total", "d_slope", "d_total")


@compiled
def _roll(
    address: int, width: int, room: Array, places: Table, step: float, every: int, states: Array, derivatives: Array
) -> None:
    """RK4 on the state and on its derivatives (``width`` lanes), in one pass; ``room`` as the stage wants it."""
    total, d_total, part, weight, state, d_state = places
    records, nx = states.shape
    for n in range(records * every):
        room[total : total + nx] = 0.0
        room[d_total : d_total + nx * width] = 0.0
        for stage in range(4):
            room[part] = 0.0 if stage == 0 else step if stage == 3 else 0.5 * step
            room[weight] = 1.0 if stage in (0, 3) else 2.0
            call_kernel(address, room, room)
        for i in range(nx):
            room[state + i] += step / 6.0 * room[total + i]
        for i in range(nx * width):
            room[d_state + i] += step / 6.0 * room[d_total + i]
        _normalise(room[state + 3 : state + 7], room[d_state + 3 * width : d_state + 7 * width], width)
        if (n + 1) % every:
            continue
        row = n // every
        for i in range(nx):
            states[row, i] = room[state + i]
        for i in range(nx * width):
            derivatives[row, i] = room[d_state + i]


@compiled
def _normalise(quaternion: Array, derivatives: Array, width: int) -> None:
    """Bring the quaternion back to unit length, and its derivatives with it."""
    scale = 1.0 / np.sqrt(quaternion[0] ** 2 + quaternion[1] ** 2 + quaternion[2] ** 2 + quaternion[3] ** 2)
    for i in range(4):
        quaternion[i] *= scale
    for lane in range(width):
        along = 0.0
        for i in range(4):
            along += quaternion[i] * derivatives[i * width + lane]
        for i in range(4):
            k = i * width + lane
            derivatives[k] = scale * (derivatives[k] - quaternion[i] * along)
