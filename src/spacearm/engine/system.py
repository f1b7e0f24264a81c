"""What the solver integrates: machine code, where everything stands, inputs in time, dry friction, what is watched."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine.call import call_kernel
from spacearm.engine.loops import lean
from spacearm.engine.signals import Signals, fill, value
from spacearm.typing import Array


class Code(NamedTuple):
    """A motion kernel and its offsets (see :func:`spacearm.mechanics.motion.motion_program`).

    The integrated vector ``y`` is (state, energies): ``nx`` and ``ny - nx`` numbers, whose time derivative is the
    kernel's output ``out[:ny]``.
    """

    address: int
    nx: int
    ny: int
    speed: Any  # (nv,) int64: place in y of each degree of freedom's velocity
    quaternion: Any  # int64: where quaternions begin in y
    drive: int  # offset of the prescribed accelerations in the input
    mode: int
    friction: int
    reaction: int  # offset of the reactions in the output
    record: int  # length of the input's prefix that samples keep


class DryFriction(NamedTuple):
    """The degrees of freedom with dry friction, and their state."""

    dof: Any  # (f,) int64
    static: Array  # (f,) N or N m, more than zero
    coulomb: Array  # (f,)
    status: Any  # (f,) int64: 0 stuck, +1 or -1 the direction of slip


class Events(NamedTuple):
    """What is watched besides friction. Components come first, then the outputs of the event kernel."""

    component: Any  # (c,) int64, index in y
    value: Array  # (c,) the level that is crossed
    address: int  # event kernel: in (state, time) or (state, time, motion kernel's output), out g; 0 for none
    direction: Any  # (c + g,) int64: +1 rising, -1 falling, 0 both
    terminal: Any  # (c + g,) bool: ends the phase
    inp: Array  # (nx + 1,) or (nx + 1 + n_out,)
    out: Array  # (g,)
    offset: float  # time of the phase's start, s
    nodes: Array  # (9, f + c + g): values at the points of the step
    sign: Any  # (f + c + g,) int64: side on which each function was last seen; 0: on none yet
    home: Any  # (c + g,) int64: side on which a function counts that is zero at the phase's start; 0: on none
    sides: Any  # (c + g,) int64: side on which the phase before left it, whatever it is now; 0: not watched there
    opening: Array  # (c + g,) values at the phase's start


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


class System(NamedTuple):
    """One phase: its equations and the memory to solve them in. Time is counted from the phase's start."""

    code: Code
    signals: Signals
    friction: DryFriction
    events: Events
    work: Work


def make_code(
    address: int,
    nx: int,
    ny: int,
    speed: Any = (),
    quaternion: Any = (),
    *,
    drive: int = 0,
    mode: int = 0,
    friction: int = 0,
    reaction: int = 0,
    record: int = 0,
) -> Code:
    """The code of a kernel; without degrees of freedom (``speed``) nothing can be driven and nothing sticks."""
    places = np.array(speed, dtype=np.int64), np.array(quaternion, dtype=np.int64)
    return Code(address, nx, ny, *places, drive, mode, friction, reaction, record)


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
    )


def make_friction(dof: Any = (), static: Any = (), coulomb: Any = ()) -> DryFriction:
    """For these degrees of freedom; those without any dry friction are left out."""
    dofs = np.asarray(dof, dtype=np.int64)
    stick = np.asarray(static, dtype=np.float64)
    slide = np.asarray(coulomb, dtype=np.float64)
    kept = stick > 0.0
    return DryFriction(dofs[kept], stick[kept], slide[kept], np.zeros(int(kept.sum()), dtype=np.int64))


@lean
def rates(system: System, piece: int, t: float, y: Array, dy: Array) -> None:
    """``dy = dy/dt`` at ``t``. Path channels overwrite position and rate in the state."""
    code, inp, out = system.code, system.work.inp, system.work.out
    for i in range(code.nx):
        inp[i] = y[i]
    fill(system.signals, piece, t, inp)
    call_kernel(code.address, inp, out)
    system.work.count[0] += 1
    for i in range(code.ny):
        dy[i] = out[i]
    # A driven degree of freedom gets the given acceleration to the last bit, so that a stuck one stays at zero.
    for j in range(code.speed.size):
        if inp[code.mode + j] != 0.0:
            dy[code.speed[j]] = inp[code.drive + j]


@lean
def project(system: System, piece: int, t: float, y: Array) -> None:
    """Put ``y`` back where it belongs: quaternions to length one, driven joints on their paths."""
    for at in system.code.quaternion:
        norm = np.sqrt(y[at] * y[at] + y[at + 1] * y[at + 1] + y[at + 2] * y[at + 2] + y[at + 3] * y[at + 3])
        for i in range(at, at + 4):
            y[i] /= norm
    signals = system.signals
    for channel in range(signals.target.size):
        if signals.target[channel] < system.code.nx:
            y[signals.target[channel]] = value(signals, piece, channel, t)


@lean
def finite(y: Array) -> bool:
    total = 0.0
    for i in range(y.size):
        total += abs(y[i])
    return bool(np.isfinite(total))
