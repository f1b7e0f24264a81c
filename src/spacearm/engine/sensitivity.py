"""A fixed-step roll-out together with its exact derivatives, direction by direction in vector lanes.

The motion itself is the same in every lane and is computed once, as a scalar; only its derivative along each direction
takes a lane. This is forward differentiation of the RK4 steps: exact derivatives of the numbers that the steps give.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.engine.call import call_kernel
from spacearm.engine.kernel import Kernel
from spacearm.engine.loops import compiled
from spacearm.engine.machine import host
from spacearm.errors import InputError
from spacearm.mechanics.motion import LoadFrame, motion_program, motion_tangent
from spacearm.model import Robot
from spacearm.model.parts import Array


class Sensitivity(NamedTuple):
    """States (count, nx) after each step, and their derivatives (count, nx, directions)."""

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
        self.kernel = Kernel(
            motion_tangent(robot, {"state": None, **wrt}, loads).with_zeros(zero),
            uniform=tuple(motion_program(robot, loads, ledger=False).inputs),
        )
        self.seeds = [name for name in self.kernel.inputs if name.startswith("d_") and name != "d_state"]
        places = [self.kernel.inputs[name] for name in self.seeds]
        self.parameters = sum(place.stop - place.start for place in places)
        self._first_seed = places[0].start if places else self.kernel.n_in

    def __call__(
        self,
        inputs: Mapping[str, npt.ArrayLike],
        step: float,
        count: int,
        *,
        directions: npt.ArrayLike | None = None,
        start_tangent: npt.ArrayLike | None = None,
    ) -> Sensitivity:
        """Roll out ``count`` steps from ``inputs["state"]``.

        Args:
            inputs: the motion program's inputs; those that are missing are zero.
            directions: (directions, parameters) changes of the parameters; without it, each by itself.
            start_tangent: (directions, nx) changes of the start state; without it, none.
        """
        seeds = np.eye(self.parameters) if directions is None else np.atleast_2d(np.asarray(directions, float))
        if seeds.shape[1] != self.parameters:
            raise InputError(f"directions have {seeds.shape[1]} entries", hint=f"expected {self.parameters}")
        many = seeds.shape[0]
        nx = self.kernel.outputs["rate"].stop
        moved = np.zeros((many, nx)) if start_tangent is None else np.asarray(start_tangent, float).reshape(many, nx)
        flat = np.zeros(self.kernel.n_in)
        for name, value in inputs.items():
            if name not in self.kernel.inputs:
                raise InputError(f"the motion program has no input {name!r}")
            if name in self.zero and np.any(np.asarray(value)):
                raise InputError(f"{name!r} was said to be zero", hint="leave it out of 'zero'")
            flat[self.kernel.inputs[name]] = np.asarray(value, dtype=np.float64).ravel()
        lanes = host().lanes
        width = lanes if many <= lanes else 2 * lanes
        states = np.empty((count, nx))
        derivatives = np.empty((count, nx, many))
        for first in range(0, many, width):
            chosen = slice(first, min(first + width, many))
            _roll(
                self.kernel.address(width), width, flat, self._first_seed, self.kernel.inputs["d_state"].start,
                np.ascontiguousarray(seeds[chosen]), np.ascontiguousarray(moved[chosen]), float(step), int(count),
                self.kernel.n_out, states, derivatives[:, :, chosen],
            )  # fmt: skip
        return Sensitivity(states, derivatives)


@compiled
def _roll(
    address: int,
    width: int,
    flat: Array,
    at_seed: int,
    at_moved: int,
    seeds: Array,
    moved: Array,
    step: float,
    count: int,
    n_out: int,
    states: Array,
    derivatives: Array,
) -> None:
    """RK4 on the state (lane 0 of the uniform inputs) and on its derivatives (all lanes), in one pass."""
    nx, many = states.shape[1], seeds.shape[0]
    inp = np.zeros(flat.size * width)
    out = np.empty(n_out * width)
    for i in range(flat.size):
        inp[i * width] = flat[i]
    for lane in range(many):
        for i in range(seeds.shape[1]):
            inp[(at_seed + i) * width + lane] = seeds[lane, i]
    y, total = np.empty(nx), np.empty(nx)
    dy, d_total = np.zeros(nx * width), np.empty(nx * width)
    for i in range(nx):
        y[i] = flat[i]
        for lane in range(many):
            dy[i * width + lane] = moved[lane, i]
    rates = nx * width
    d_in = inp[at_moved * width : at_moved * width + rates]
    d_out = out[rates : 2 * rates]  # the derivatives' rates stand behind the rates in the output
    for n in range(count):
        for i in range(nx):
            inp[i * width] = y[i]
        for j in range(rates):
            d_in[j] = dy[j]
        call_kernel(address, inp, out)
        for i in range(nx):
            total[i] = out[i * width]
        for j in range(rates):
            d_total[j] = d_out[j]
        for stage in range(1, 4):
            part = step if stage == 3 else 0.5 * step
            weight = 1.0 if stage == 3 else 2.0
            for i in range(nx):
                inp[i * width] = y[i] + part * out[i * width]
            for j in range(rates):
                d_in[j] = dy[j] + part * d_out[j]
            call_kernel(address, inp, out)
            for i in range(nx):
                total[i] += weight * out[i * width]
            for j in range(rates):
                d_total[j] += weight * d_out[j]
        for i in range(nx):
            y[i] += step / 6.0 * total[i]
        for j in range(nx * width):
            dy[j] += step / 6.0 * d_total[j]
        _normalise(y, dy, width)
        for i in range(nx):
            states[n, i] = y[i]
            for lane in range(many):
                derivatives[n, i, lane] = dy[i * width + lane]


@compiled
def _normalise(y: Array, dy: Array, width: int) -> None:
    """Bring the quaternion back to unit length, and its derivatives with it."""
    scale = 1.0 / np.sqrt(y[3] ** 2 + y[4] ** 2 + y[5] ** 2 + y[6] ** 2)
    for i in range(3, 7):
        y[i] *= scale
    for lane in range(width):
        along = 0.0
        for i in range(3, 7):
            along += y[i] * dy[i * width + lane]
        for i in range(3, 7):
            dy[i * width + lane] = scale * (dy[i * width + lane] - y[i] * along)
