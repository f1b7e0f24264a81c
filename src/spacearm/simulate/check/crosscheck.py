"""Comparison of a run with MuJoCo's dynamics, integrated by SciPy.

MuJoCo gives kinematics, mass matrix, bias and passive forces at each instant
(:mod:`spacearm.simulate.check.mujoco_model`); SciPy's DOP853 integrates them, since MuJoCo's own time steps are too
coarse for a comparison to 1e-9. Locked and driven degrees of freedom have prescribed accelerations: their rows are
removed from the linear system of MuJoCo's mass matrix and bias. Changes use MuJoCo's mass matrices, poses and
Jacobians. None of spacearm's mechanics, kernels or loops takes part. Gravity is MuJoCo's own, drag that of its frame
velocities.

MuJoCo has only a regularised dry friction, which creeps. But between two events every joint either rests or slips under
a constant torque, and both can be expressed exactly: with ``friction="replay"`` the recorded sequence of events is
followed, stuck joints locked, slipping ones under their Coulomb torque. The comparison then covers the whole motion;
that the sequence is correct is shown by the friction laws. Commands of a sampled law are replayed likewise.

States are flat (13 + 2 n): position, quaternion, joints, velocity in base axes; SI units. Force elements other than
gravity and drag, and continuous laws, are not replayed: the result then says so and claims nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, ModelError, SimulationError
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import QUATERNION, Layout
from spacearm.simulate.check.mujoco_loops import loop_bias, loop_rows
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.fields import Drag, Gravity
from spacearm.simulate.loads import Load, thruster_load
from spacearm.simulate.motion import SystemPart, laws_of
from spacearm.simulate.phase import Phase
from spacearm.simulate.run.run import Run
from spacearm.simulate.run.segment import Occurrence, Segment
from spacearm.simulate.signals import Signal, as_signal
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Tolerance of the reference integration: well below the 1e-9 of a comparison.
RTOL, ATOL = 1e-12, 1e-13
#: Interval of progress reports: about a tenth of a second.
EVALUATIONS_PER_REPORT = 1000
#: A number of the state beyond this comes from a step that was far too large.
BEYOND = 1e9
#: Events closer together than this are replayed as one, s.
SAME_EVENT = 1e-9


@dataclass(frozen=True)
class CrossCheck:
    """Differences between two engines.

    Args:
        differences: largest difference at any sample: ``position`` (m), ``attitude`` (rad), ``joints`` (rad or m),
            ``velocity`` (m/s, base axes), ``angular_velocity`` (rad/s), ``rates`` (rad/s or m/s).
        relative: the same, each relative to the largest magnitude of the quantity in the run, the position to its
            change; magnitudes below 1e-3 (SI) count as 1e-3. An attitude stays an angle (rad).
        reason: why MuJoCo cannot express the case; empty if it was run.
        evaluations: number of evaluations of MuJoCo's dynamics.
    """

    differences: dict[str, float] = field(default_factory=dict)
    relative: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    evaluations: int = 0

    @property
    def was_run(self) -> bool:
        """Whether the case was run in MuJoCo."""
        return not self.reason

    @property
    def largest(self) -> float:
        """Largest relative difference; NaN when the case was not run."""
        return max(self.relative.values(), default=float("nan"))

    def merge_worst(self, other: CrossCheck) -> CrossCheck:
        """The larger differences of both."""

        def larger(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
            return {name: max(a.get(name, 0.0), b.get(name, 0.0)) for name in {**a, **b}}

        return CrossCheck(
            larger(self.differences, other.differences),
            larger(self.relative, other.relative),
            self.reason or other.reason,
            self.evaluations + other.evaluations,
        )

    def __str__(self) -> str:
        if self.reason:
            return f"not cross-checked: {self.reason}"
        parts = ", ".join(f"{name} {value:.1e}" for name, value in self.relative.items())
        return f"cross-check with MuJoCo: largest relative difference {self.largest:.1e} (relative: {parts})"


def cross_check(
    run: Run,
    *,
    world: World | Robot | None = None,
    friction: Literal["refuse", "replay", "ignore"] = "refuse",
    progress: Callable[[float, float], None] | None = None,
) -> CrossCheck:
    """Run the same phases in MuJoCo, changes included, and compare at the run's samples.

    A phase that an event ended ends at the same time. If MuJoCo cannot express the case, the result states why.

    Args:
        world: replaces the run's own, to test the effect of a wrong parameter.
        friction: whether dry friction is such a case, is replayed (see the module's text), or omitted.
        progress: called occasionally with the simulated seconds and those of the whole run; starts again for each
            system.
    """
    if not any(isinstance(step, Segment) for step in run.steps):
        raise InputError("the run was loaded or unpickled", place="cross-check", hint="run it again")
    if run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT):
        return CrossCheck(reason=f"the run did not finish: {run.reason.text}")
    acting = dict.fromkeys(each for step in run.steps if isinstance(step, Segment) for each in step.world.elements)
    others = [element.name for element in acting if not isinstance(element, Gravity | Drag)]
    if others:
        return CrossCheck(
            reason=f"force elements act on the systems, which the reference does not have: {', '.join(others)}"
        )
    found = CrossCheck()
    world, theirs = run.world if world is None else World.from_robots(world), dict(run.start)
    for step in run.steps:
        if not isinstance(step, Segment):
            # MuJoCo's own state goes through the change by MuJoCo's terms: errors are not reset to our state.
            changed = step.change.apply(world, theirs, MujocoTerms())
            world, theirs = changed.world, dict(changed.states)
            continue
        for part in step.model.parts:
            try:
                robot = world.own_robot(part.name)
            except ModelError as error:
                return CrossCheck(reason=f"the overrides are not a valid robot: {error}")
            own = world.parameters[[*world.systems].index(part.name)]
            reason = _obstacle(step, part, robot, own["static_friction"][:6], friction == "refuse")
            if reason:
                return CrossCheck(reason=reason)
            reference = _MujocoSimulation(
                step, part, robot, own["damping"][:6], friction == "replay", _gravity(step.world)
            )
            if progress is not None:
                reference.report = lambda time: progress(time, run.end_time)
            start = theirs[part.name]
            samples, theirs[part.name] = reference.run(start)
            ours = step.record.y[step.rows, part.layout.whole]
            found = found.merge_worst(
                CrossCheck(*compare_states(robot.n, ours, samples, start.position), "", reference.evaluations)
            )
    return found


def _gravity(world: World) -> Array:
    """Gravity, m/s2."""
    found = np.zeros(3)
    for element in world.elements:
        found += element.strength if isinstance(element, Gravity) else 0.0
    return found


def _obstacle(segment: Segment, part: SystemPart, robot: Robot, base: Array, joints: bool) -> str:
    """Why MuJoCo cannot express a segment; empty if it can.

    ``base`` is the static friction of the base's own six degrees of freedom, which only overrides can set; ``joints``:
    whether that of joints counts.
    """
    own = [joint.name for joint in robot.joints if joints and joint.friction is not None]
    rubbing = [*(BASE_DOFS[i] for i in np.flatnonzero(base)), *own]
    for prepared in segment.prepared:
        if prepared.law is not None and prepared.law.law.period is None:
            return f"{prepared.place}: a continuous law; only commands of a sampled law can be replayed"
        held = [robot.dof_names[i] for i in part.own_dofs(prepared.driven)]
        dry = [name for name in rubbing if name not in held]
        if prepared.phase.friction and dry:
            return (
                f"{prepared.place}: dry friction on {', '.join(dry)}; MuJoCo only has a regularised friction "
                "loss, which creeps where a joint should stick"
            )
    return ""


class MujocoTerms:
    """Terms of changes (:class:`~spacearm.simulate.changes.Terms`) by MuJoCo."""

    def _model_in_state(self, robot: Robot, state: State) -> MujocoModel:
        twin = _mujoco_model(robot)
        twin.set_state(state.position, state.quaternion, state.joints, state.velocity)
        return twin

    def mass_matrix(self, robot: Robot, state: State) -> Array:
        return self._model_in_state(robot, state).mass_matrix()

    def frame_pose(self, robot: Robot, state: State, frame: str) -> tuple[Array, Array]:
        pose = self._model_in_state(robot, state).frame_pose(frame)
        return pose.translation, pose.rotation

    def jacobian(self, robot: Robot, state: State, frame: str) -> Array:
        return self._model_in_state(robot, state).frame_jacobian(frame)

    def loop_jacobian(self, robot: Robot, state: State) -> Array:
        return loop_rows(self._model_in_state(robot, state), robot)


@lru_cache(maxsize=8)
def _mujoco_model(robot: Robot) -> MujocoModel:
    return MujocoModel(robot)


def compare_states(
    n: int, ours: Array, theirs: Array, origin: npt.ArrayLike = (0.0, 0.0, 0.0)
) -> tuple[dict[str, float], dict[str, float]]:
    """Largest differences of flat states (samples, 13 + 2 n), absolute and relative.

    ``origin`` is the reference point of the base's displacement: a large distance from the world's origin hides nothing
    except its rounding.
    """
    parts = {
        "position": slice(0, 3),
        "joints": Layout(n).joints,
        "velocity": Layout(n).linear_velocity,
        "angular_velocity": Layout(n).angular_velocity,
        "rates": Layout(n).rates,
    }
    differences, relative = {}, {}
    for name, part in parts.items():
        if part.stop > part.start:
            gap = float(np.abs(ours[:, part] - theirs[:, part]).max())
            size = float(np.abs(theirs[:, part]).max())
            if name == "position":
                # A position far from the origin is known to its rounding only: 1e-9 of the distance.
                size = max(float(np.abs(theirs[:, part] - np.asarray(origin)).max()), 1e-9 * size)
            differences[name], relative[name] = gap, gap / max(size, 1e-3)
    # The angle between two attitudes from the vector part of the quaternion between them; its sign does not matter.
    a, b = ours[:, QUATERNION], theirs[:, QUATERNION]
    vector = a[:, :1] * b[:, 1:] - b[:, :1] * a[:, 1:] - np.cross(a[:, 1:], b[:, 1:])
    differences["attitude"] = relative["attitude"] = float(2.0 * np.linalg.norm(vector, axis=1).max())
    return differences, relative


@dataclass(frozen=True)
class _Friction:
    """Dry friction from a time on (s since the phase's start): sticking degrees of freedom, and friction forces of
    slipping ones.
    """

    time: float
    stuck: frozenset[int]
    drag: Mapping[int, float]


class _Drive:
    """Prescribed motion and applied forces of one system in one phase, as signals."""

    def __init__(self, world: World, system: str, robot: Robot, phase: Phase, logs: Sequence[CommandLog] = ()) -> None:
        def signals_by_dof(given: Mapping[str, Any]) -> dict[int, Signal]:
            found = {world.dof(name): as_signal(value, name) for name, value in given.items()}
            return {robot.dof_index(own): signal for (owner, own), signal in found.items() if owner == system}

        self.paths = signals_by_dof(phase.driven)
        self.rates = {dof: path.derivative() for dof, path in self.paths.items()}
        self.accelerations = signals_by_dof(phase.accelerations)
        self.accelerations |= {dof: rate.derivative() for dof, rate in self.rates.items()}
        # Last: a lock overrides every other prescription.
        self.accelerations |= signals_by_dof(dict.fromkeys((*phase.locked, *world.locked), 0.0))
        self.forces = signals_by_dof(phase.forces)
        self.loads: list[Load] = []
        for load in phase.loads:
            owner, own = world.frame(load.frame)
            if owner == system:
                self.loads.append(replace(load, frame=own))
        for log in logs:
            self._command(log, robot)
        self.friction = [_Friction(0.0, frozenset(), {})]

    def _command(self, log: CommandLog, robot: Robot) -> None:
        """Commands of a sampled law, tick by tick, as signals."""
        given = () if log.law is None else log.law.acceleration_dofs(robot)
        for name in log.names:
            if name not in robot.dof_names:
                self.loads.append(thruster_load(robot, name, log.signal(name)))
                continue
            where = self.accelerations if name in given else self.forces
            dof, signal = robot.dof_index(name), log.signal(name)
            where[dof] = where[dof] + signal if dof in where else signal

    def breaks(self, duration: float) -> Array:
        signals = [*self.paths.values(), *self.accelerations.values(), *self.forces.values()]
        signals += [entry for load in self.loads for entry in load.wrench]
        edges = [signal.breaks for signal in signals] + [np.array([part.time for part in self.friction])]
        inner = np.unique(np.concatenate(edges))
        return np.concatenate([[0.0], inner[(inner > 0.0) & (inner < duration)], [duration]])


class _MujocoSimulation:
    """Simulates a system through a segment with MuJoCo's terms."""

    def __init__(
        self,
        segment: Segment,
        part: SystemPart,
        robot: Robot,
        base_damping: Array,
        replay: bool,
        gravity: npt.ArrayLike,
    ) -> None:
        self.segment, self.part, self.robot, self.replay = segment, part, robot, replay
        self.base_damping = base_damping
        self.twin = _mujoco_model(robot)
        self.twin.model.opt.gravity[:] = gravity
        self.evaluations = 0
        self.report: Callable[[float], None] = lambda time: None
        world = segment.world
        acting = [(world.frame(each.frame), each) for each in world.elements if isinstance(each, Drag)]
        self.drags = [(own, each) for (system, own), each in acting if system == part.name]
        self.begin = 0.0  # of the current phase, s
        self.slipping: dict[int, int] = {}  # direction of slip of each joint with dry friction; 0: stuck

    def run(self, start: State) -> tuple[Array, State]:
        """Flat states at the segment's samples, and at its end."""
        from scipy.integrate import solve_ivp

        segment = self.segment
        # The sample at the end may lie behind it by rounding.
        times = np.minimum(segment.record.times[segment.rows], segment.end_time)
        ends = [*segment.starts[1:], segment.end_time]
        y = start.vector.copy()
        samples = np.full((times.size, y.size), np.nan)
        for prepared, begin, end in zip(segment.prepared, segment.starts, ends, strict=True):
            self.begin = begin
            laws = [*laws_of(segment.world, prepared.phase)]
            own = [law for system, law in laws if system == self.part.name]
            logs = [log for log in segment.commands if log.phase == prepared.number and log.law in own]
            drive = _Drive(segment.world, self.part.name, self.robot, prepared.phase, logs)
            if self.replay and prepared.phase.friction:
                self._replay(drive, prepared.number, begin, y)
            rows = np.flatnonzero((times >= begin) & (times <= end))
            local = np.clip(times[rows] - begin, 0.0, end - begin)
            for low, high in pairwise(drive.breaks(end - begin)):
                # Integrated interval by interval between the breaks of all signals: a Runge-Kutta step across a break
                # would lose its order.
                pieces = _DriveInterval(drive, 0.5 * (low + high), self.robot.dofs)
                inside = (local >= low) & (local <= high)
                self._place(pieces, low, y)
                result = solve_ivp(
                    partial(self._rate, pieces),
                    (low, high),
                    y,
                    method="DOP853",
                    rtol=RTOL,
                    atol=ATOL,
                    # The end is always included; unique, because solve_ivp requires increasing times.
                    t_eval=np.unique(np.concatenate([local[inside], [high]])),
                )
                if not result.success:
                    raise SimulationError(f"MuJoCo's part of the cross-check stopped: {result.message}")
                for row, t in zip(rows[inside], local[inside], strict=True):
                    samples[row] = result.y[:, np.searchsorted(result.t, t)]
                    self._place(pieces, float(t), samples[row])
                y = result.y[:, -1].copy()
                self._place(pieces, high, y)
        return samples, State.from_vector(y)

    def _replay(self, drive: _Drive, number: int, begin: float, y: Array) -> None:
        """Add the recorded stick-slip of a phase to its drive."""
        at = Layout(self.robot.n)
        coulomb = {
            6 + i: joint.friction.coulomb
            for i, joint in enumerate(self.robot.joints)
            if joint.friction is not None and 6 + i not in drive.accelerations
        }
        # Whether a joint rests is known only where the run itself has set it to exactly zero.
        rates = (self.segment.start[self.part.layout.whole] if begin == self.segment.time else y)[at.velocity]
        # Carried over from the phase before; at first by the sign of the rate, zero being stuck.
        status = {dof: self.slipping.get(dof, int(np.sign(rates[dof]))) for dof in coulomb}
        names = {self.segment.model.dof_names[self.part.dofs.start + dof]: dof for dof in coulomb}

        def friction_from(time: float) -> _Friction:
            stuck = frozenset(dof for dof, way in status.items() if way == 0)
            return _Friction(time, stuck, {dof: -way * coulomb[dof] for dof, way in status.items() if way})

        history = [friction_from(0.0)]
        for event in _friction_events(self.segment.occurrences(), number):
            if event.name not in names:
                continue
            status[names[event.name]] = 0 if event.kind == "stick" else int(event.value)
            if event.time - begin - history[-1].time > SAME_EVENT:
                history.append(friction_from(event.time - begin))
            else:
                history[-1] = friction_from(history[-1].time)
        drive.friction, self.slipping = history, status

    def _place(self, pieces: _DriveInterval, t: float, y: Array) -> None:
        """Set driven joints to their paths and normalise the quaternion."""
        n = self.robot.n
        y[QUATERNION] /= np.linalg.norm(y[QUATERNION])
        for dof, (position, rate) in pieces.paths(t).items():
            y[Layout(n).joint(dof - 6)], y[Layout(n).speed(dof)] = position, rate

    def _rate(self, pieces: _DriveInterval, t: float, y: Array) -> Array:
        self.evaluations += 1
        if self.evaluations % EVALUATIONS_PER_REPORT == 0:
            self.report(self.begin + t)
        if not np.all(np.abs(y) < BEYOND):
            return np.full(y.size, np.nan)  # a step that is too large; the integrator takes a smaller one
        n, twin, drive = self.robot.n, self.twin, pieces.drive
        y = y.copy()
        self._place(pieces, t, y)
        quaternion, velocity = y[QUATERNION], y[Layout(n).velocity]
        twin.set_state(y[:3], quaternion, y[Layout(n).joints], velocity)
        force = twin.passive()
        force[:6] -= self.base_damping * velocity[:6]
        for dof, value in pieces.forces(t).items():
            force[dof] += value
        for load, wrench in zip(drive.loads, pieces.wrenches(t), strict=True):
            if load.axes == "frame":
                rotation = twin.frame_pose(load.frame).rotation
                force += twin.generalized_force(load.frame, (wrench.reshape(2, 3) @ rotation.T).ravel())
            else:
                force += twin.generalized_force(load.frame, wrench)
        for frame, drag in self.drags:
            twist = twin.frame_jacobian(frame) @ velocity
            force -= twin.generalized_force(frame, np.repeat([drag.linear, drag.angular], 3) * twist)
        acceleration = np.zeros(6 + n)
        for dof, value in pieces.accelerations(t).items():
            acceleration[dof] = value
        mass, free, driven = twin.mass_matrix(), pieces.free, pieces.driven
        # H_ff a_f = (tau - c)_f - H_fd a_d: rows of driven degrees of freedom are removed from the system.
        rest = (force - twin.bias())[free] - mass[np.ix_(free, driven)] @ acceleration[driven]
        inertia, linear = mass[np.ix_(free, free)], twin.rotation @ velocity[:3]
        acceleration[free] = np.linalg.solve(inertia, rest)
        if self.robot.loops:
            # Forces J^T f of closed loops, by J a = -(dJ/dt) v; of redundant ones the smallest.
            rows = loop_rows(twin, self.robot)
            lacking = -loop_bias(twin, self.robot, State.from_vector(y)) - rows @ acceleration
            give = np.linalg.solve(inertia, rows[:, free].T)
            acceleration[free] += give @ np.linalg.lstsq(rows[:, free] @ give, lacking, rcond=1e-12)[0]
        w, vector, turn = quaternion[0], quaternion[1:], 0.5 * velocity[3:6]
        return np.concatenate(
            [
                linear,
                [-vector @ turn],
                w * turn + np.cross(vector, turn),
                velocity[6:],
                acceleration,
            ]
        )


class _DriveInterval:
    """The signals of a drive on one smooth interval: each by the polynomial that applies at its middle."""

    def __init__(self, drive: _Drive, middle: float, dofs: int) -> None:
        self.drive = drive
        self._middle = middle
        self.friction = [part for part in drive.friction if part.time <= middle][-1]
        self.driven = np.array(sorted({*drive.accelerations, *self.friction.stuck}), dtype=int)
        self.free = np.setdiff1d(np.arange(dofs), self.driven)

    # The polynomial is chosen by the middle of the interval, never by t: at a break both neighbours contain t, and the
    # last stage of a step must use the one it began with.
    def _value(self, signal: Signal, t: float) -> float:
        piece = int(np.clip(np.searchsorted(signal.breaks, self._middle, side="right") - 1, 0, signal.breaks.size - 2))
        return float(np.polynomial.polynomial.polyval(t - signal.breaks[piece], signal.coefficients[:, piece]))

    def _values(self, signals: dict[int, Signal], t: float) -> dict[int, float]:
        return {dof: self._value(signal, t) for dof, signal in signals.items()}

    def forces(self, t: float) -> dict[int, float]:
        found = self._values(self.drive.forces, t)
        for dof, drag in self.friction.drag.items():
            found[dof] = found.get(dof, 0.0) + drag
        return found

    def accelerations(self, t: float) -> dict[int, float]:
        return self._values(self.drive.accelerations, t)

    def paths(self, t: float) -> dict[int, tuple[float, float]]:
        rates = self._values(self.drive.rates, t)
        return {dof: (value, rates[dof]) for dof, value in self._values(self.drive.paths, t).items()}

    def wrenches(self, t: float) -> list[Array]:
        return [np.array([self._value(entry, t) for entry in load.wrench]) for load in self.drive.loads]


def _friction_events(events: Iterable[Occurrence], phase: int) -> list[Occurrence]:
    return [event for event in events if event.phase == phase and event.kind in ("stick", "slip", "reverse")]
