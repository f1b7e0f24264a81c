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
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spacearm.engine.law import SolverLaw
from spacearm.errors import InputError
from spacearm.model import Robot
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate.law import Law, PythonLaw, common_period
from spacearm.simulate.motion import SystemPart, WorldMotion, load_frames, world_motion
from spacearm.simulate.phase import Phase
from spacearm.simulate.prepared_law import PreparedLaw
from spacearm.simulate.run.prepare import prepare_loop
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
        return self._closed_rates.copy()

    @cached_property
    def _closed_rates(self) -> Array:
        return np.asarray(np.linalg.eigvals(self.motion + self.drive @ self.gain))

    def transition(self, period: float | None = None) -> Array:
        """The map (states + memory, states + memory) from one tick to the next; at another period if given.

        The law's memory is counted in ticks: another period leaves D, E and F as they are.
        """
        from scipy.linalg import expm

        states, commands = self.drive.shape
        # One exponential gives both the free motion and the answer to held commands, and needs no inverse of A, which
        # is singular where anything drifts (C. F. Van Loan, IEEE Trans. Automatic Control 23(3), 1978).
        held = np.zeros((states + commands, states + commands))
        held[:states, :states], held[:states, states:] = self.motion, self.drive
        moved = expm(held * (self.period if period is None else period))
        free, forced = moved[:states, :states], moved[:states, states:]
        whole = np.empty((states + len(self.keep), states + len(self.keep)))
        whole[:states, :states], whole[:states, states:] = free + forced @ self.gain, forced @ self.recall
        whole[states:, :states], whole[states:, states:] = self.store, self.keep
        return whole

    @cached_property
    def _poles(self) -> dict[float, Any]:
        """Poles by period, as they are asked for."""
        return {}

    def poles(self, period: float | None = None) -> Array:
        """Eigenvalues of :meth:`transition`, the largest first; infinite where the transition overflows."""
        every = self.period if period is None else period
        if every not in self._poles:
            with np.errstate(over="ignore", invalid="ignore"):
                moved = self.transition(every)
            found = np.linalg.eigvals(moved) if np.all(np.isfinite(moved)) else np.full(len(moved), np.inf)
            self._poles[every] = found[np.argsort(-np.abs(found), kind="stable")]
        return np.asarray(self._poles[every])

    def largest_pole(self, period: float | None = None) -> float:
        """The largest magnitude of a pole; infinite where the transition overflows."""
        return float(np.abs(self.poles(period)[0]))

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
        # Bisection of the logarithm, to 2 %: a period is chosen with a margin, not to digits.
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
    return _Linearisation(robot, state, phase).loop


def linearise_reference(
    robot: Robot | World, state: States, phase: Phase, name: str, step: float
) -> tuple[LinearLoop, Array]:
    """The loop of a phase's only law, and the rate (commands, states) of its gain in a reference of one number.

    ``step``: of the forward difference.
    """
    work = _Linearisation(robot, state, phase)
    _, gain, *_ = work.linearise_law(name, step)
    return work.loop, (gain - work.loop.gain) / step


class _Linearisation:
    """Central differences of the motion and of the laws of a phase about a state."""

    def __init__(self, robot: Robot | World, state: States, phase: Phase) -> None:
        self.world = World.from_robots(robot)
        _check_laws(phase)
        self.model = model = world_motion(self.world, load_frames(self.world, [phase]))
        self.law, self.driven = prepare_loop(model, self.world, phase)
        self.vector = self.world.flat(state)
        # A law's own drives move, though their acceleration is given; other driven degrees of freedom do not deviate.
        commanded = {int(place) - model.code.drive for place in self.law.target}
        self.moving = [i for i in range(len(model.dof_names)) if i not in self.driven or i in commanded]
        # Pairs of states ahead and behind.
        self.shifted = _shift_states(model, self.vector, self.moving)

    @cached_property
    def loop(self) -> LinearLoop:
        model, law, count, actions = self.model, self.law, len(self.moving), self.law.target.size
        answer, gain, recall, store, keep = self.linearise_law()
        held, speeds = answer[:actions], model.code.speed[self.moving]
        motion, drive = np.zeros((2 * count, 2 * count)), np.zeros((2 * count, actions))
        motion[:count, count:] = np.eye(count)
        motion[:count, :count] = _transport(model, self.vector, self.moving)
        # Accelerations are linear in forces: the difference is that of a usual force, for the sake of rounding.
        forced = [held + step for unit in np.eye(actions) for step in (unit, -unit)]
        # The shifted states, then the state itself under pairs of commands.
        states = np.concatenate([self.shifted, np.tile(self.vector, (2 * actions, 1))])
        commands = np.array([held] * (4 * count) + forced).reshape(len(states), actions)
        rates = _evaluate_motion(model, self.world, law, self.driven, states, commands)[:, speeds]
        motion[count:] = ((rates[: 4 * count : 2] - rates[1 : 4 * count : 2]) / (2.0 * DIFFERENCE)).T
        drive[count:] = ((rates[4 * count :: 2] - rates[4 * count + 1 :: 2]) / 2.0).T
        names = tuple(model.dof_names[i] for i in self.moving)
        return LinearLoop(float(law.law.period or 0.0), motion, drive, gain, recall, store, keep, names)

    def linearise_law(self, name: str = "", value: float = 0.0) -> tuple[Array, Array, Array, Array, Array]:
        """The law's answer at the state, and the matrices C to F; with another value of a reference, if named."""
        law, count, actions = self.law, len(self.moving), self.law.target.size
        entered = law.enter(None)
        row, memory = entered.inp.copy(), entered.start
        row[law.reference.target] = law.reference.coefficient[0, 0]
        if name:
            row[law.reference_place(name)] = value
        answer = _evaluate_law(law, entered, row, self.vector[None], memory[None])[0]
        law_matrix = np.zeros((answer.size, 2 * count + memory.size))
        steps = [step * unit for unit in np.eye(memory.size) for step in (DIFFERENCE, 0.1 * DIFFERENCE)]
        memories = [memory] * (4 * count) + [memory + sign * step for step in steps for sign in (1.0, -1.0)]
        states = np.concatenate([self.shifted, np.tile(self.vector, (4 * memory.size, 1))])
        answers = _evaluate_law(law, entered, row, states, np.array(memories).reshape(len(states), memory.size))
        law_matrix[:, : 2 * count] = ((answers[: 4 * count : 2] - answers[1 : 4 * count : 2]) / (2.0 * DIFFERENCE)).T
        for k in range(memory.size):
            first = answers[4 * (count + k) :][:4]
            column, finer = (
                (first[2 * i] - first[2 * i + 1]) / (2.0 * step)
                for i, step in enumerate((DIFFERENCE, 0.1 * DIFFERENCE))
            )
            # Counters of ticks and pulses switch: a jump grows as its interval shrinks, and has no linear gain.
            law_matrix[:, 2 * count + k] = np.where(np.abs(finer - column) > 0.5 * np.abs(finer), 0.0, column)
        # Thrusters are on or off: a difference across their threshold would be a gain of any size.
        for part in law.laws_by_system:
            thrust = [kind == "wrench" for kind, _, _ in part.program.actions]
            law_matrix[part.places("action")[thrust]] = 0.0
        (gain, recall), (store, keep) = (
            np.split(rows, [2 * count], axis=1) for rows in np.split(law_matrix, [actions], axis=0)
        )
        return answer, gain, recall, store, keep


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


def _evaluate_motion(
    model: WorldMotion, world: World, law: PreparedLaw, driven: tuple[int, ...], states: Array, commands: Array
) -> Array:
    """Rates (B, nx) of flat states (B, nx) under commands (B, commands), by the compiled motion."""
    inp = np.tile(model.input(world.parameters), (len(states), 1))
    inp[:, model.code.mode + np.array(driven, dtype=np.int64)] = 1.0
    inp[:, : model.nx] = states
    inp[:, law.target] = commands
    return _call_kernel(model.code.address, inp, model.kernel.n_out)[:, : model.nx]


def _evaluate_law(law: PreparedLaw, entered: SolverLaw, row: Array, states: Array, memories: Array) -> Array:
    """Commands, and the memory of the next tick (B, ...), by the compiled law.

    ``row``: its input but for these; ``states``: flat (B, nx); ``memories``: of the law (B, memory).
    """
    inp = np.tile(row, (len(states), 1))
    inp[:, : law.size] = states[:, law.first : law.first + law.size]
    inp[:, entered.memory[0] : entered.memory[0] + entered.memory[1]] = memories
    return _call_kernel(entered.address, inp, entered.out.size)[:, : law.target.size + memories.shape[1]]


def _call_kernel(address: int, inp: Array, size: int) -> Array:
    """Outputs (B, size) of a kernel's machine code at flat inputs (B, inputs), row by row."""
    out = np.zeros((len(inp), size))
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    given, found = inp.ctypes.data, out.ctypes.data
    for k in range(len(inp)):
        kernel(given + k * inp.strides[0], found + k * out.strides[0])
    return out


def _shift_states(model: WorldMotion, state: Array, moving: list[int]) -> Array:
    """Flat states (4 B, nx) with one of the states of the linear loop ahead and behind: displacements, then rates."""
    # Ahead and behind: the error of a central difference is of second order in the step.
    steps, count = np.array([DIFFERENCE, -DIFFERENCE]), len(moving)
    found = np.tile(state, (4 * count, 1))
    bases = {dof: each for part in model.parts for dof, each in _displace_base(part, state, steps).items()}
    for k, dof in enumerate(moving):
        ahead = slice(2 * k, 2 * k + 2)
        place, moved = bases.get(dof, (model.positions[dof], state[model.positions[dof]] + steps))
        found[ahead, place] = moved
        found[2 * (count + k) : 2 * (count + k) + 2, model.code.speed[dof]] += steps
    return found


def _displace_base(part: SystemPart, state: Array, steps: Array) -> dict[int, tuple[slice, Array]]:
    """Position or quaternion (B, ...) of a base displaced along or about each of its own axes, by degree of freedom."""
    position, quaternion = part.layout.position, part.layout.quaternion
    axes, (w, *v) = rotation_matrices(state[quaternion]), state[quaternion]
    # q (1, d/2), column by column: small rotations about base axes, from the right because they are in base axes.
    change = 0.5 * np.concatenate([[np.negative(v)], w * np.eye(3) + skew(v)])
    turned = state[quaternion] + (steps[:, None, None] * change).transpose(2, 0, 1)
    turned /= np.linalg.norm(turned, axis=2, keepdims=True)
    found = {part.dofs.start + k: (position, state[position] + steps[:, None] * axes[:, k]) for k in range(3)}
    return found | {part.dofs.start + 3 + k: (quaternion, turned[k]) for k in range(3)}


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
