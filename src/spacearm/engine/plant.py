"""What a loop knows of a robot: the address of its kernel and a few offsets; and one evaluation of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import compiled
from spacearm.engine.signals import Signals, fill, value
from spacearm.typing import Array


class Plant(NamedTuple):
    """Offsets of a motion kernel (see :func:`spacearm.mechanics.motion.motion_program`).

    The integrated vector ``y`` is (state, energies): ``nx`` and ``ny - nx`` numbers, whose time derivative is the
    kernel's output ``out[:ny]``. Velocities are ``y[nx - nv : nx]``, the quaternion ``y[3:7]`` where ``quaternion``.
    """

    address: int
    nx: int
    ny: int
    nv: int
    drive: int  # offset of the prescribed accelerations in the input
    mode: int
    friction: int
    reaction: int  # offset of the reactions in the output
    record: int  # length of the input's prefix that samples keep
    quaternion: bool = True


class Work(NamedTuple):
    """Memory of one run, so that the loops allocate nothing."""

    inp: Array  # the kernel's input; what no loop writes (inertias, modes, ...) stays as given
    out: Array
    k: Array  # (16, ny): stages
    dense: Array  # (7, ny): interpolant of the last step
    y: Array  # state at the step's start
    y_new: Array
    y_try: Array
    dy: Array
    count: Any  # (1,) int64: kernel evaluations
    pause: Array  # (9,) where a phase goes on that was left to have its audit rows taken; the first is 0 if none was


def make_work(inp: Array, n_out: int, ny: int) -> Work:
    def zeros(*shape: int) -> Array:
        return np.zeros(shape)

    return Work(
        np.array(inp, dtype=np.float64),
        zeros(n_out),
        zeros(16, ny),
        zeros(7, ny),
        zeros(ny),
        zeros(ny),
        zeros(ny),
        zeros(ny),
        np.zeros(1, dtype=np.int64),
        zeros(9),
    )


@compiled
def rates(plant: Plant, signals: Signals, piece: int, t: float, y: Array, work: Work, dy: Array) -> None:
    """``dy = dy/dt`` at ``t`` (s since the phase's start). Path channels overwrite position and rate in the state."""
    inp, out = work.inp, work.out
    nx = plant.nx
    for i in range(nx):
        inp[i] = y[i]
    fill(signals, piece, t, inp)
    call_kernel(plant.address, inp, out)
    work.count[0] += 1
    for i in range(plant.ny):
        dy[i] = out[i]
    # A driven degree of freedom gets the given acceleration to the last bit, so that a stuck one stays at zero.
    for j in range(plant.nv):
        if inp[plant.mode + j] != 0.0:
            dy[nx - plant.nv + j] = inp[plant.drive + j]


@compiled
def project(plant: Plant, signals: Signals, piece: int, t: float, y: Array) -> None:
    """Put ``y`` back where it belongs: quaternion to length one, driven joints on their paths."""
    if plant.quaternion:
        norm = np.sqrt(y[3] * y[3] + y[4] * y[4] + y[5] * y[5] + y[6] * y[6])
        for i in range(3, 7):
            y[i] /= norm
    for channel in range(signals.target.size):
        if signals.target[channel] < plant.nx:
            y[signals.target[channel]] = value(signals, piece, channel, t)
