"""A fixed-step roll-out together with its exact derivatives, direction by direction in vector lanes.

This is forward differentiation of the RK4 steps: with the state x the loop carries along dx, the derivative of x along
one direction in the space of parameters and start states, by the chain rule through every stage and through the
projection of quaternions. The result is exact for the numbers that the steps give (no differences, no tolerance);
against the motion itself it has the discretisation error of the step, as the states have.

The motion is the same in every lane and is computed once, as a scalar; only the derivative along each direction takes a
lane. Directions (d, p) are combinations of the p parameters; results are (rows, nx, d). Derivatives of quaternions are
those of their four numbers, tangent to the unit sphere. Not done here: adjoint (reverse) differentiation, which pays
for many more parameters than lanes, and derivatives through events or dry friction, which a fixed step has none of.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.checks import UNIT_TOLERANCE
from spacearm.engine.device import Device, cupy, is_device_array, to_cupy
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols
from spacearm.engine.kernel import NonFiniteWarning
from spacearm.engine.machine import host
from spacearm.engine.schedule import Schedule
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame, motion_tangent
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION
from spacearm.typing import Array

_RECORDED = ("state", "d_state")


class RolloutSensitivity(NamedTuple):
    """States (rows, nx) after each recorded step, and their derivatives (rows, nx, directions); of a batch (B, ...)."""

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
            raise InputError("the state is not a parameter", hint="give start_tangent in place of it")
        both = [name for name in zero if name in wrt]
        if both:
            raise InputError(f"{both[0]!r} cannot both vary and be zero")
        self.zero = frozenset(zero)
        motion = motion_tangent(robot, {"state": None, **wrt}, loads, free="mode" in self.zero).with_zeros(zero)
        self.inputs = tuple(name for name in motion.inputs if not name.startswith("d_"))
        # The motion is the same in every lane; only its derivatives take one each.
        symbols = StepSymbols(motion)
        self.loop = FixedStep(symbols, uniform=[name for name in symbols.inputs if "d_" not in name])
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
        device: Device = "cpu",
    ) -> RolloutSensitivity:
        """Roll out ``count`` steps from ``inputs["state"]``.

        Args:
            inputs: the motion program's inputs; but for ``state`` and ``inertia``, those that are missing are zero.
                Those given as (B, size) differ from sample to sample of a batch.
            directions: (directions, parameters) changes of the parameters; without it, each by itself.
            start_tangent: (directions, nx) changes of the start state; without it, none.
            every: rows are recorded after every so many steps, ``count // every`` of them.
            device: "gpu" gives each sample and direction a thread of an NVIDIA GPU, with the same bits. Inputs there
                need no such word; where ``state`` is there, so are the results.

        Numbers that are not finite are reported by a :class:`~spacearm.engine.NonFiniteWarning`.
        """
        step = checks.number(step, "step")
        count = checks.integer(count, "count", least=0)
        every = checks.integer(every, "every", least=1, most=max(count, 1))
        checks.one_of(device, ("cpu", "gpu"), "device")
        seeds, moved = self._directions(directions, start_tangent)
        given = {name: self._check_input(name, value) for name, value in inputs.items()}
        for name in ("state", "inertia"):
            if name not in given:
                raise InputError(f"{name!r} is missing")
        sizes = {len(value) for value in given.values() if value.ndim == 2}
        if len(sizes) > 1:
            raise InputError(f"inputs are of batches of {', '.join(map(str, sorted(sizes)))}", hint="expected one size")
        size = max(sizes, default=1)
        schedule, nx = Schedule(np.array([count]), np.array([float(step)])), moved.shape[1]
        # Without directions one that goes nowhere: the states are wanted.
        changes = np.hstack([moved, seeds]) if len(moved) else np.zeros((1, nx + seeds.shape[1]))
        # Columns of a direction: the start's change, then that of each parameter.
        names = ("d_state", *self.seeds)
        edges = np.cumsum([self.sizes[name] for name in names])[:-1]
        along = dict(zip(names, np.split(changes, edges, axis=1), strict=True))
        if device == "gpu" or any(map(is_device_array, given.values())):
            rows = self._run_on_gpu(given, schedule, every, along, size)
        else:
            rows = self._run_samples(given, schedule, every, along)
        # The states are the same in all directions of a sample: take the first.
        states, derivatives = rows[:, 0, :, :nx], np.moveaxis(rows[..., nx:], 1, -1)[..., : len(moved)]
        # NaN stays: the last row tells of all before.
        if count // every and not (np.isfinite(states[:, -1]).all() and np.isfinite(derivatives[:, -1]).all()):
            finite = np.isfinite(states).all(axis=(0, 2)) & np.isfinite(derivatives).all(axis=(0, 2, 3))
            message = f"roll-out: numbers that are not finite after step {(int(np.argmin(finite)) + 1) * every}"
            warnings.warn(message, NonFiniteWarning, stacklevel=2)
        return RolloutSensitivity(states, derivatives) if sizes else RolloutSensitivity(states[0], derivatives[0])

    def _run_samples(
        self, given: Mapping[str, Array], schedule: Schedule, every: int, directions: Mapping[str, Array]
    ) -> Array:
        """Rows (B, directions, records, 2 nx) of states and derivatives: sample by sample, directions in lanes."""
        many = len(directions["d_state"])
        # Two registers for each number at most, the directions evenly over the passes.
        passes = -(-many // (2 * host().lanes))
        width = -(-many // passes)
        # What fills no register goes in one piece, whose size is a power of two: a piece costs as much as a register.
        rest = width % host().lanes
        width += (1 << (rest - 1).bit_length()) - rest if rest else 0
        found = []
        for k in range(max((len(value) for value in given.values() if value.ndim == 2), default=1)):
            own = {name: value[k] if value.ndim == 2 else value for name, value in given.items()}
            samples = Ensemble(
                self.loop, schedule, own, directions, every=every, recorded=_RECORDED, width=width, chunk=many
            )
            found.append(samples.run().rows)
        return np.stack(found)

    def _run_on_gpu(
        self, given: Mapping[str, Array], schedule: Schedule, every: int, directions: Mapping[str, Array], size: int
    ) -> Any:
        """The same with a thread for each sample and direction; where ``state`` is there, so are the rows."""
        cp, many = cupy(), len(directions["d_state"])
        # Sample by direction as one batch: all directions of a sample are neighbours.
        each: dict[str, Any] = {name: np.tile(rows, (size, 1)) for name, rows in directions.items()}
        common: dict[str, Array] = {}
        for name, value in given.items():
            if name == "state" or value.ndim == 2:
                xp = cp if is_device_array(value) else np
                each[name] = xp.repeat(xp.broadcast_to(value, (size, value.shape[-1])), many, axis=0)
            else:
                common[name] = cp.asnumpy(value)
        there = is_device_array(given["state"])
        samples = Ensemble(
            self.loop, schedule, common, each, every=every, recorded=_RECORDED, device="gpu", there=there
        )
        rows = samples.run().rows
        return rows.reshape(size, many, *rows.shape[1:])

    def _directions(self, directions: npt.ArrayLike | None, start_tangent: npt.ArrayLike | None) -> tuple[Array, Array]:
        """Changes of the parameters (directions, parameters) and of the start state (directions, nx), checked."""
        seeds = np.eye(self.parameters)
        if directions is not None:
            rows = np.atleast_2d(checks.numbers(directions, "directions"))
            seeds = checks.array(rows, "directions", ("directions", self.parameters), finite=False)
        shape = (len(seeds), self.sizes["state"])
        if start_tangent is None:
            return seeds, np.zeros(shape)
        moved = np.atleast_2d(checks.numbers(start_tangent, "start_tangent"))
        checks.array(moved, "start_tangent", shape, finite=False)
        return seeds, moved

    def _check_input(self, name: str, value: npt.ArrayLike) -> Array:
        """An input of the motion program, checked: flat, or (B, size)."""
        checks.check_name(name, self.inputs, "input", of="the motion program")
        there = is_device_array(value)
        rows: Any = to_cupy(cupy(), value) if there else np.atleast_1d(checks.numbers(value, name))
        size, row = self.sizes[name], _ROW.get(name, 0)
        if row and rows.ndim > 1 and rows.shape[-1] == row and rows.shape[-2] * row == size:
            rows = rows.reshape(*rows.shape[:-2], size)
        if rows.ndim > 2 or rows.shape[-1] != size:
            raise InputError(f"{name!r} has shape {np.shape(value)}", hint=f"expected {size} numbers")
        if there:  # not looked through
            return rows  # type: ignore[no-any-return]
        if name in self.zero and rows.any():
            raise InputError(f"{name!r} was declared to be zero", hint="leave it out of 'zero'")
        if name == "mode" and not np.all((rows == 0) | (rows == 1)):
            raise InputError("mode has entries other than 0 and 1", hint="expected 0 (free) or 1 (driven) for each dof")
        if name == "state" and not np.all(np.abs(np.linalg.norm(rows[..., QUATERNION], axis=-1) - 1) <= UNIT_TOLERANCE):
            raise InputError("base quaternion is not of unit length", hint="expected w, x, y, z with norm 1")
        return rows  # type: ignore[no-any-return]


#: Numbers of one body, load or coupling, where an input has several of these and may be given as a matrix.
_ROW = {"inertia": 10, "wrench": 6, "coupling": 4}
