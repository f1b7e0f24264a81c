"""Stability of a sampled loop: its poles, linear about a state, and the longest period for which it is stable.

Between ticks the motion is x' = A x + B u with the commands u held (zero-order hold); at a tick the law reads the state
and its memory m: u = C x + D m, and E x + F m is its memory at the next tick. With the exact transition of a period,
exp([[A, B], [0, 0]] T), this is one linear map from tick to tick. Its eigenvalues are the poles: the loop is stable
where none is larger than 1 (G. F. Franklin, J. D. Powell and M. L. Workman, Digital Control of Dynamic Systems, 3rd
ed., 1998). Conserved motion (a floating base that drifts, a wheel that runs on) has poles at exactly 1.

x are the displacements of the degrees of freedom that move (those of a base along and about its own axes), then their
rates. A to F are central differences of the compiled motion and of the compiled law: nothing is compiled anew. They
hold near the state; from a state at rest that the references hold, they are those of a time-invariant system. Left
out: thrusters (on or off), force elements of the world (contacts, orbits), dry friction, random numbers.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.law import Law, PreparedLaw, PythonLaw, common_period
from spacearm.simulate.motion import WorldMotion, load_frames, world_motion
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.prepare import prepare
from spacearm.simulate.world import States, World
from spacearm.typing import Array

#: 1/s: poles that grow no faster are those of conserved motion, moved by rounding.
SLOWEST_GROWTH = 0.01
#: rad, m, rad/s or m/s: half the interval of the central differences.
DIFFERENCE = 1e-5
#: How much shorter the shortest period is that a search for a stable one looks at, and how many it looks at on the way.
SHORTEST_SHARE, SEARCHED = 1e-3, 25


@dataclass(frozen=True, eq=False)
class LinearLoop:
    """A sampled loop, linear about a state; the matrices of :mod:`spacearm.control.loop_stability`.

    Args:
        period: s, of the law.
        motion, drive: A (states, states) and B (states, commands).
        gain, recall: C (commands, states) and D (commands, memory).
        store, keep: E (memory, states) and F (memory, memory).
        names: degrees of freedom of the states: displacements in this order, then rates.
    """

    period: float
    motion: Array
    drive: Array
    gain: Array
    recall: Array
    store: Array
    keep: Array
    names: tuple[str, ...]

    def closed_rates(self) -> Array:
        """Rates (states,), 1/s, complex: eigenvalues of the loop that is sampled without pause."""
        return np.asarray(np.linalg.eigvals(self.motion + self.drive @ self.gain))

    def transition(self, period: float | None = None) -> Array:
        """The map (states + memory, states + memory) from one tick to the next; at another period if given.

        The law's memory is counted in ticks: another period leaves D, E and F as they are.
        """
        from scipy.linalg import expm

        states, commands = self.drive.shape
        held = np.zeros((states + commands, states + commands))
        held[:states, :states], held[:states, states:] = self.motion, self.drive
        moved = expm(held * (self.period if period is None else period))
        free, forced = moved[:states, :states], moved[:states, states:]
        return np.block([[free + forced @ self.gain, forced @ self.recall], [self.store, self.keep]])

    def poles(self, period: float | None = None) -> Array:
        """Eigenvalues of :meth:`transition`, the largest first."""
        found = np.linalg.eigvals(self.transition(period))
        return np.asarray(found[np.argsort(-np.abs(found), kind="stable")])

    def largest_pole(self, period: float | None = None) -> float:
        """The largest magnitude of a pole; infinite where the transition overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            moved = self.transition(period)
        return float(np.abs(np.linalg.eigvals(moved)).max()) if np.all(np.isfinite(moved)) else math.inf

    def is_stable(self, period: float | None = None) -> bool:
        """Whether nothing grows from tick to tick faster than ``SLOWEST_GROWTH``."""
        every = self.period if period is None else period
        largest = self.largest_pole(every)  # compared by logarithms, since a period from a file may be any number
        return largest <= 1.0 or math.log(largest) <= SLOWEST_GROWTH * every

    def stable_period(self, longest: float | None = None) -> float:
        """The longest period, s, up to ``longest`` (the law's own unless given), below which the loop is stable.

        0.0 where it is not stable at a thousandth of that either: then the law itself is at fault, not its period.
        """
        most = self.period if longest is None else longest
        # From short to long: some loops are unstable in a range of periods and stable beyond it.
        periods = most * np.geomspace(SHORTEST_SHARE, 1.0, SEARCHED)
        stable = 0.0
        for tried in periods:
            if not self.is_stable(float(tried)):
                break
            stable = float(tried)
        else:
            return most
        if not stable:
            return 0.0
        unstable = float(tried)
        while unstable / stable > 1.02:
            middle = math.sqrt(stable * unstable)
            stable, unstable = (middle, unstable) if self.is_stable(middle) else (stable, middle)
        return stable

    def describe_instability(self) -> str:
        """Period, largest pole and stable periods in words; "" where the loop is stable."""
        if self.is_stable():
            return ""
        below = self.stable_period()
        mend = f"stable below {below:.2g} s" if below else "not stable at shorter periods either"
        return f"control loop unstable at {self.period:.3g} s; largest pole {self.largest_pole():.4g}; {mend}"


def linearise_loop(robot: Robot | World, state: States, phase: Phase) -> LinearLoop:
    """The loop of a phase's sampled laws, linear about a state, with the references of the phase's start.

    Args:
        robot: one robot, or a world of several systems; what it locks and what the phase locks or drives does not move.
        state: of the robot, or of each system.
        phase: with one law, or several of one period.
    """
    world = World.from_robots(robot)
    _check_laws(phase)
    model = world_motion(world, load_frames(world, [phase]))
    prepared = prepare(model, world, phase, 0)
    assert prepared.law is not None
    law, vector = prepared.law, world.flat(state)
    # A law's own drives move, though their acceleration is given; other driven degrees of freedom do not deviate.
    commanded = {int(place) - model.code.drive for place in law.target}
    moving = [i for i in range(len(model.dof_names)) if i not in prepared.driven or i in commanded]
    accelerate, command = _motion_of(model, world, law, prepared.driven), _law_of(law)
    memory = law.enter(None).start
    answer, count, actions = command(vector, memory), len(moving), law.target.size
    held, speeds = answer[:actions], model.code.speed[moving]
    motion, drive = np.zeros((2 * count, 2 * count)), np.zeros((2 * count, actions))
    law_matrix = np.zeros((answer.size, 2 * count + memory.size))
    motion[:count, count:] = np.eye(count)
    motion[:count, :count] = _transport(model, vector, moving)
    for k in range(2 * count):
        ahead, behind = (_shift(model, vector, moving, k, step) for step in (DIFFERENCE, -DIFFERENCE))
        motion[count:, k] = (accelerate(ahead, held) - accelerate(behind, held))[speeds] / (2.0 * DIFFERENCE)
        law_matrix[:, k] = (command(ahead, memory) - command(behind, memory)) / (2.0 * DIFFERENCE)
    for k, unit in enumerate(np.eye(memory.size)):
        column, finer = (
            (command(vector, memory + step * unit) - command(vector, memory - step * unit)) / (2.0 * step)
            for step in (DIFFERENCE, 0.1 * DIFFERENCE)
        )
        # Counters of ticks and pulses switch: a jump grows as its interval shrinks, and has no linear gain.
        law_matrix[:, 2 * count + k] = np.where(np.abs(finer - column) > 0.5 * np.abs(finer), 0.0, column)
    # Accelerations are linear in forces: the difference is that of a usual force, for the sake of rounding.
    for k, step in enumerate(np.eye(actions)):
        drive[count:, k] = (accelerate(vector, held + step) - accelerate(vector, held - step))[speeds] / 2.0
    for part in law.laws_by_system:
        thrust = [kind == "wrench" for kind, _, _ in part.program.actions]
        law_matrix[part.places("action")[thrust]] = 0.0
    (gain, recall), (store, keep) = (
        np.split(rows, [2 * count], axis=1) for rows in np.split(law_matrix, [actions], axis=0)
    )
    names = tuple(model.dof_names[i] for i in moving)
    return LinearLoop(float(law.law.period or 0.0), motion, drive, gain, recall, store, keep, names)


def _check_laws(phase: Phase) -> None:
    """An :class:`InputError` where the loop is none of a sampled law with one period."""
    laws: tuple[Law, ...] = tuple(phase.laws) if not isinstance(phase.laws, Law) else (phase.laws,)
    if not laws:
        raise InputError("has no law", place=phase.place, hint="expected a sampled law")
    for law in laws:
        if law.period is None or isinstance(law, PythonLaw):
            raise InputError(
                "has no poles from tick to tick", place=law.place, hint="expected an expression with a period"
            )
        if law.resolution is not None or any(sensor.resolution for sensor in law.sensors):
            raise InputError("is quantised: it has no derivative", place=law.place, hint="leave out its resolution")
    _, every = common_period([law.period for law in laws], phase.place)
    if any(count > 1 for count in every):
        raise InputError("has laws of several periods", place=phase.place, hint="expected one period")


def _motion_of(
    model: WorldMotion, world: World, law: PreparedLaw, driven: tuple[int, ...]
) -> Callable[[Array, Array], Array]:
    """Rates (nx) of the flat state under commands, by the compiled motion."""
    inp, out = model.input(world.parameters), np.zeros(model.kernel.n_out)
    inp[model.code.mode + np.array(driven, dtype=np.int64)] = 1.0
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(model.code.address)

    def accelerate(state: Array, commands: Array) -> Array:
        inp[: model.nx] = state
        inp[law.target] = commands
        kernel(inp.ctypes.data, out.ctypes.data)
        return out[: model.nx].copy()

    return accelerate


def _law_of(law: PreparedLaw) -> Callable[[Array, Array], Array]:
    """Commands, and the memory of the next tick, by the compiled law with the references of the phase's start."""
    entered = law.enter(None)
    inp, out = entered.inp, entered.out
    inp[law.reference.target] = law.reference.coefficient[0, 0]
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entered.address)
    first, last = entered.memory[0], entered.memory[0] + entered.memory[1]

    def command(state: Array, memory: Array) -> Array:
        inp[: law.size] = state[law.first : law.first + law.size]
        inp[first:last] = memory
        kernel(inp.ctypes.data, out.ctypes.data)
        return out[: law.target.size + memory.size].copy()

    return command


def _shift(model: WorldMotion, state: Array, moving: list[int], k: int, step: float) -> Array:
    """The flat state with one of the states of the linear loop changed: a displacement, or a rate."""
    if k < len(moving):
        return _displace(model, state, moving[k], step)
    moved = state.copy()
    moved[model.code.speed[moving[k - len(moving)]]] += step
    return moved


def _displace(model: WorldMotion, state: Array, dof: int, step: float) -> Array:
    """The flat state with one degree of freedom displaced; those of a base along and about its own axes."""
    moved, place = state.copy(), model.positions[dof]
    if place >= 0:
        moved[place] += step
        return moved
    part = next(part for part in model.parts if part.dofs.start <= dof < part.dofs.stop)
    axis, at = dof - part.dofs.start, part.layout
    if axis < 3:
        moved[at.position] += step * rotation_matrices(state[at.quaternion])[:, axis]
        return moved
    w, v = state[at.quaternion][0], state[at.quaternion][1:]
    half = 0.5 * step * np.eye(3)[axis - 3]
    rotated = np.concatenate([[w - v @ half], v + w * half + np.cross(v, half)])
    moved[at.quaternion] = rotated / np.linalg.norm(rotated)
    return moved


def _transport(model: WorldMotion, state: Array, moving: list[int]) -> Array:
    """How displacements change by the motion itself: those of a moving base are counted in axes that move with it."""
    whole = np.zeros((len(model.dof_names), len(model.dof_names)))
    for part in model.parts:
        velocity = state[part.layout.velocity][:6]
        linear, angular = (skew(each) for each in (velocity[:3], velocity[3:]))
        first = part.dofs.start
        # With the pose g and its twist n, (g exp(d))' = g exp(d) (n + dn) gives d' = dn - [n, d].
        whole[first : first + 6, first : first + 6] = -np.block([[angular, linear], [np.zeros((3, 3)), angular]])
    return whole[np.ix_(moving, moving)]
