"""The equations of one phase as flat memory, and their evaluation: :func:`rates` and :func:`project`.

A :class:`System` holds machine code by its address, offsets of all quantities in flat arrays of doubles, inputs as
polynomials of time, dry friction, watched events, force elements and a control law. Named tuples of arrays and numbers,
and no classes, because compiled loops take them apart without a cost and one compilation serves all robots.

The integrated vector ``y`` (ny,) is (state, energies, memory of a continuous law, memory of force elements). The state
holds positions, quaternions (w, x, y, z) and velocities, at the places that :class:`MotionKernelCode` lists; velocities
of bases are linear and angular, in base axes, m/s and rad/s. One evaluation of the rates copies the state into the
motion kernel's input, adds inputs of that time, then the law's actions, then forces of force elements, and calls the
kernel.
All work memory is shared: a call overwrites ``work.inp`` and ``work.out``, which readers after it rely on.

Dry friction is not regularised: a stuck joint is driven at zero acceleration (``mode`` 1), a slipping one has a
constant friction force, see :mod:`spacearm.engine.friction`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from spacearm.engine._call import call_kernel
from spacearm.engine.law import SolverLaw, evaluate_law, no_law
from spacearm.engine.loops import compile_inner
from spacearm.engine.signals import Signals, fill, value
from spacearm.typing import Array


class MotionKernelCode(NamedTuple):
    """A motion kernel and its offsets (see :func:`spacearm.mechanics.motion.motion_program`).

    The integrated vector ``y`` is (state, energies, memory of a continuous law, memory of force elements): ``ny``
    numbers. The time derivative of the first ``moved`` of them is the kernel's output ``out[:moved]``.
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
    moved: int


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


class Feedback(NamedTuple):
    """Forces that follow from the state: what force elements put into the motion kernel's input.

    Its kernels read a block of ``work.inp`` behind the motion kernel's own input: state (nx), time (absolute, s),
    memory, numbers, then, for ``watch`` and ``jump``, the rate of the state (nx), and for ``jump`` the number of the
    function that has crossed. Memory stands at the end of ``y``.
    """

    address: int  # out: a number for each target, which is added there, and the rate of the memory; 0 for none
    first: int  # where the block begins
    memory: int  # how many numbers
    target: Any  # int64: index in the motion kernel's input; several may share one
    out: Array
    watch: int  # event functions of (state, time, memory, numbers, rate); 0 for none
    watched: int  # how many
    jump: int  # out: the memory after such an event
    loops: int  # out: wrenches that keep loops between systems, from the whole of ``work.inp``; 0 for none
    tied: Any  # int64: index in the motion kernel's input of each of these numbers
    wrench: Array


class SolverMemory(NamedTuple):
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


def make_feedback(
    first: int = 0,
    address: int = 0,
    target: Any = (),
    memory: int = 0,
    watch: int = 0,
    watched: int = 0,
    jump: int = 0,
    loops: int = 0,
    tied: Any = (),
) -> Feedback:
    """Feedback whose block begins at ``first`` of the input; by itself none."""
    places, ends = np.array(target, dtype=np.int64), np.array(tied, dtype=np.int64)
    out = np.zeros(places.size + memory)
    return Feedback(address, first, memory, places, out, watch, watched, jump, loops, ends, np.zeros(ends.size))


#: Stages of the implicit method.
STAGES = 5


class ImplicitMemory(NamedTuple):
    """Memory of the implicit method; ``index`` is empty where it is not used."""

    index: Any  # (n,) int64: components of y on which rates depend and which have a rate
    tolerance: Array  # (n,) absolute
    given: Any  # (n,) bool: rests, or follows a path, for the whole phase; places of the state are those in y
    held: Any  # (n,) bool: the same now, with what sticks by dry friction
    position: Any  # (nv,) int64: place in y of each joint's position, -1 for bases
    base: Any  # (bases, 2) int64: where quaternion and velocity begin in y, of each that moves freely
    start: Array  # (ny,) y with the velocities of bases in world axes
    rate: Array  # (ny,) its rate
    trial: Array  # (ny,)
    rotation: Array  # (9,) rotation of a base
    z: Array  # (5, ny) stages less the start
    f: Array  # (5, ny) rates at the stages
    own: Array  # (5, ny) stages less y, velocities in base axes
    jacobian: Array  # (n, n)
    lower: Array  # (n, n) factors of the real system
    pairs: Any  # (2, n, n) complex128: of the complex ones
    pivot: Any  # (3, n) int64
    right: Array  # (n,)
    rights: Any  # (2, n) complex128
    error: Array  # (n,)
    # rtol; step of the factors; step of the interpolant, 0: none; whether it ends at y; Jacobian, 0: none, 1: of y,
    # 2: of a step before; rate of convergence; fastest rate when the explicit method gave up, 1/s
    note: Array
    address: int  # of the method's code, which only phases that may be stiff have; else 0
    task: Array  # (5,) what it is asked to do, piece, time, step; its answer


def make_implicit_memory(
    ny: int = 0,
    index: Any = (),
    tolerance: Any = (),
    rtol: float = 0.0,
    base: Any = (),
    given: Any = (),
    position: Any = (),
    address: int = 0,
) -> ImplicitMemory:
    """For these components, those at ``given`` being known; by itself without any."""
    places = np.array(index, dtype=np.int64)
    n = places.size
    known = np.zeros(n, dtype=np.bool_)
    known[list(given)] = True
    return ImplicitMemory(
        places,
        np.array(tolerance, dtype=np.float64),
        known,
        known.copy(),
        np.array(position, dtype=np.int64),
        np.array(base, dtype=np.int64).reshape(-1, 2),
        np.zeros(ny),
        np.zeros(ny),
        np.zeros(ny),
        np.zeros(9),
        np.zeros((STAGES, ny)),
        np.zeros((STAGES, ny)),
        np.zeros((STAGES, ny)),
        np.zeros((n, n)),
        np.zeros((n, n)),
        np.zeros((2, n, n), dtype=np.complex128),
        np.zeros((3, n), dtype=np.int64),
        np.zeros(n),
        np.zeros((2, n), dtype=np.complex128),
        np.zeros(n),
        np.array([rtol, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
        address,
        np.zeros(5),
    )


class System(NamedTuple):
    """One phase: its equations and the memory to solve them in. Time is counted from the phase's start."""

    code: MotionKernelCode
    signals: Signals
    friction: DryFriction
    events: Events
    work: SolverMemory
    feedback: Feedback = make_feedback()
    law: SolverLaw = no_law()
    stiff: ImplicitMemory = make_implicit_memory()


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
) -> MotionKernelCode:
    """The code of a kernel; without degrees of freedom (``speed``) nothing can be driven and nothing sticks."""
    places = np.array(speed, dtype=np.int64), np.array(quaternion, dtype=np.int64)
    return MotionKernelCode(address, nx, ny, *places, drive, mode, friction, reaction, record, ny)


def make_solver_memory(inp: Array, n_out: int, ny: int) -> SolverMemory:
    def state_zeros(*shape: int) -> Array:
        return np.zeros(shape)

    return SolverMemory(
        np.array(inp, dtype=np.float64),
        state_zeros(n_out),
        state_zeros(16, ny),
        state_zeros(7, ny),
        state_zeros(ny),
        state_zeros(ny),
        state_zeros(ny),
        state_zeros(ny),
        np.zeros(1, dtype=np.int64),
    )


def make_friction(dof: Any = (), static: Any = (), coulomb: Any = ()) -> DryFriction:
    """For these degrees of freedom; those without any dry friction are left out."""
    dofs = np.asarray(dof, dtype=np.int64)
    stick = np.asarray(static, dtype=np.float64)
    slide = np.asarray(coulomb, dtype=np.float64)
    kept = stick > 0.0
    return DryFriction(dofs[kept], stick[kept], slide[kept], np.zeros(int(kept.sum()), dtype=np.int64))


@compile_inner
def fill_feedback_input(system: System, t: float, y: Array) -> None:
    """State, time and memory to the feedback's kernels; the state as signals have it."""
    code, inp, at = system.code, system.work.inp, system.feedback.first
    for i in range(code.nx):
        inp[at + i] = inp[i]
    inp[at + code.nx] = system.events.offset + t
    for i in range(system.feedback.memory):
        inp[at + code.nx + 1 + i] = y[code.ny - system.feedback.memory + i]


@compile_inner
def _add_feedback(system: System, t: float, y: Array) -> None:
    """What force elements add to the motion kernel's input, and the rate of their memory."""
    feedback, inp = system.feedback, system.work.inp
    fill_feedback_input(system, t, y)
    call_kernel(feedback.address, inp[feedback.first :], feedback.out)
    for i in range(feedback.target.size):
        inp[feedback.target[i]] += feedback.out[i]
    if feedback.loops != 0:
        # Last: what keeps loops between systems answers to all other forces.
        call_kernel(feedback.loops, inp, feedback.wrench)
        for i in range(feedback.tied.size):
            inp[feedback.tied[i]] += feedback.wrench[i]


@compile_inner
def feedback_events(system: System, piece: int, t: float, y: Array, g: Array) -> None:
    """The feedback's event functions; ``work.dy`` is overwritten."""
    code, inp, feedback = system.code, system.work.inp, system.feedback
    rates(system, piece, t, y, system.work.dy)
    for i in range(code.nx):
        inp[inp.size - code.nx - 1 + i] = system.work.dy[i]
    call_kernel(feedback.watch, inp[feedback.first :], g)


@compile_inner
def apply_memory_jump(system: System, piece: int, t: float, y: Array, number: int) -> None:
    """The memory in ``y`` after event function ``number`` of the feedback has crossed; ``work.dy`` is overwritten."""
    code, inp, feedback = system.code, system.work.inp, system.feedback
    rates(system, piece, t, y, system.work.dy)
    for i in range(code.nx):
        inp[inp.size - code.nx - 1 + i] = system.work.dy[i]
    # The kernel of jumps knows by this number which event it was.
    inp[inp.size - 1] = number
    memory = feedback.out[feedback.target.size :]
    call_kernel(feedback.jump, inp[feedback.first :], memory)
    for i in range(feedback.memory):
        y[code.ny - feedback.memory + i] = memory[i]


@compile_inner
def rates(system: System, piece: int, t: float, y: Array, dy: Array) -> None:
    """``dy = dy/dt`` at ``t``. Path channels overwrite position and rate in the state; a law adds to the inputs."""
    begin_rates(system, piece, t, y)
    call_kernel(system.code.address, system.work.inp, system.work.out)
    end_rates(system, dy)


@compile_inner
def begin_rates(system: System, piece: int, t: float, y: Array) -> None:
    """:func:`rates` up to the motion kernel: its input is complete in ``work.inp``."""
    code, inp, feedback, law = system.code, system.work.inp, system.feedback, system.law
    for i in range(code.nx):
        inp[i] = y[i]
    # Laws and force elements add to inputs, and several may share one: begin from zero, then signals (which set), then
    # what is added.
    for target in feedback.target:
        inp[target] = 0.0
    for target in law.target:
        inp[target] = 0.0
    fill(system.signals, piece, t, inp)
    # A sampled law keeps the answer of its last tick in law.out; a continuous one is asked at every rate.
    if law.target.size > 0 and law.period == 0.0:
        evaluate_law(law, piece, t, y, inp)
    for i in range(law.target.size):
        inp[law.target[i]] += law.out[i]
    if feedback.address != 0:
        _add_feedback(system, t, y)


@compile_inner
def end_rates(system: System, dy: Array) -> None:
    """:func:`rates` from the motion kernel's output on, which is in ``work.out``."""
    code, inp, out, feedback, law = system.code, system.work.inp, system.work.out, system.feedback, system.law
    system.work.count[0] += 1
    # The rate of y in parts: from the motion kernel, from the law, from the force elements.
    for i in range(code.moved):
        dy[i] = out[i]
    remembered = code.ny - feedback.memory
    for i in range(code.moved, remembered):
        dy[i] = law.out[law.target.size + i - code.moved] if i < law.memory_start + law.memory[1] else 0.0
    for i in range(feedback.memory):
        dy[remembered + i] = feedback.out[feedback.target.size + i]
    # A driven degree of freedom gets the given acceleration to the last bit, so that a stuck one stays at zero.
    for j in range(code.speed.size):
        if inp[code.mode + j] != 0.0:
            dy[code.speed[j]] = inp[code.drive + j]


@compile_inner
def project(system: System, piece: int, t: float, y: Array) -> None:
    """Put ``y`` back where it belongs: quaternions to length one, driven joints on their paths."""
    # Integration leaves the unit sphere by its error only; dividing by the norm keeps the order of the method.
    for at in system.code.quaternion:
        norm = np.sqrt(y[at] * y[at] + y[at + 1] * y[at + 1] + y[at + 2] * y[at + 2] + y[at + 3] * y[at + 3])
        for i in range(at, at + 4):
            y[i] /= norm
    signals = system.signals
    for channel in range(signals.target.size):
        # Targets within the state are positions and velocities of path-driven joints: their values are known exactly.
        if signals.target[channel] < system.code.nx:
            y[signals.target[channel]] = value(signals, piece, channel, t)


@compile_inner
def finite(y: Array) -> bool:
    # One test for all: infinity and NaN survive in the sum.
    total = 0.0
    for i in range(y.size):
        total += abs(y[i])
    return bool(np.isfinite(total))
