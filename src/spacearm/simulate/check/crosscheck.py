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
that the sequence is correct is shown by the friction laws. Commands of a sampled law are replayed likewise, or its
program is called at each tick with MuJoCo's state (``closed_loop=True``).

States are flat (13 + 2 n): position, quaternion, joints, velocity in base axes; SI units. Force elements other than
gravity and drag, and continuous laws, are not replayed: the result then says so and claims nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from time import process_time
from typing import Literal

import numpy as np
import numpy.typing as npt

from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, ModelError, SimulationError
from spacearm.mechanics.constraints import loop_joints
from spacearm.mechanics.tree import Tree
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import QUATERNION, Layout
from spacearm.simulate.changes import hold_system_loops
from spacearm.simulate.check._closed_loop import Memory, TickedLaw, loop_obstacle
from spacearm.simulate.check._drive import DriveInterval, DriveSignals, FrictionState
from spacearm.simulate.check._joined_systems import JoinedSystems, obstacle
from spacearm.simulate.check.mujoco_loops import loop_bias, loop_rows
from spacearm.simulate.check.mujoco_model import MujocoModel
from spacearm.simulate.fields import Drag, Gravity
from spacearm.simulate.motion import SystemPart, laws_of
from spacearm.simulate.run.run import Run, RunWarning
from spacearm.simulate.run.segment import Occurrence, Segment
from spacearm.simulate.state import State
from spacearm.simulate.system_loop import SystemLoop
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Tolerance of the reference integration: well below the 1e-9 of a comparison.
RTOL, ATOL = 1e-12, 1e-13
#: s of processor time after which its end is foreseen, and from which on that is told.
TRIAL, LONG = 10.0, 60.0
#: s, the first step that is tried.
FIRST_STEP = 0.01
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
    closed_loop: bool = False,
    progress: Callable[[float, float], None] | None = None,
) -> CrossCheck:
    """Run the same phases in MuJoCo, changes included, and compare at the run's samples.

    A phase that an event ended ends at the same time. If MuJoCo cannot express the case, the result states why. Where
    small differences grow under recorded commands, compare in closed loop: the law damps them as in flight.

    Args:
        world: replaces the run's own, to test the effect of a wrong parameter.
        friction: whether dry friction is such a case, is replayed (see the module's text), or omitted.
        closed_loop: whether sampled laws are called with MuJoCo's states; else their recorded commands are replayed.
        progress: called occasionally with the simulated seconds and those of the whole run; starts again for each
            system.
    """
    if not any(isinstance(step, Segment) for step in run.steps):
        raise InputError("the run was loaded or unpickled", place="cross-check", hint="run it again")
    if run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT):
        return CrossCheck(reason=f"the run did not finish: {run.reason.text}")
    acting = dict.fromkeys(each for step in run.steps if isinstance(step, Segment) for each in step.world.elements)
    # MuJoCo's own gravity is the same everywhere.
    uniform = {each for each in acting if isinstance(each, Gravity) and each.gradient is None}
    others = [
        element.name for element in acting if element not in uniform and not isinstance(element, Drag | SystemLoop)
    ]
    if others:
        return CrossCheck(
            reason=f"force elements act on the systems, which the reference does not have: {', '.join(others)}"
        )
    # System by system: MuJoCo's model has one robot, of two systems that are welded together the tree of both.
    found, memory = CrossCheck(), Memory()
    report = _Progress()
    world, theirs = run.world if world is None else World.from_robots(world), dict(run.start)
    for step in run.steps:
        if not isinstance(step, Segment):
            # MuJoCo's own state goes through the change by MuJoCo's terms: errors are not reset to our state.
            terms = MujocoTerms()
            changed = hold_system_loops(step.change.apply(world, theirs, terms), step.change.held_names, terms)
            world, theirs = changed.world, dict(changed.states)
            continue
        try:
            if reason := obstacle(step, world):
                return CrossCheck(reason=reason)
            joined = JoinedSystems.of(world)
        except ModelError as error:
            return CrossCheck(reason=f"the overrides are not a valid robot: {error}")
        parts = {part.name: part for part in step.model.parts}
        for part in step.model.parts:
            try:
                robot = world.own_robot(part.name)
            except ModelError as error:
                return CrossCheck(reason=f"the overrides are not a valid robot: {error}")
            own = world.parameters[[*world.systems].index(part.name)]
            reason = _obstacle(step, part, robot, own["static_friction"][:6], friction == "refuse", closed_loop)
            if reason:
                return CrossCheck(reason=reason)
            # What hangs on the first system of a weld moves with it.
            if joined is not None and part.name == joined.second:
                continue
            both = joined if joined is not None and part.name == joined.first else None
            tree = robot if both is None else both.robot
            reference = _MujocoSimulation(
                step, part, tree, own["damping"][:6], friction == "replay", _gravity(step.world)
            )
            reference.memory = memory if closed_loop else None
            reference.report = partial(report, progress, run.end_time)
            starts = {name: theirs[name] for name in (part.name, *(() if both is None else (both.second,)))}
            samples, end = reference.run(both.join(*starts.values()) if both is not None else theirs[part.name])
            flown = (samples,) if both is None else both.split(samples, reference.mujoco_robot)
            ends = (end.vector[None],) if both is None else both.split(end.vector[None], reference.mujoco_robot)
            for name, rows, last in zip(starts, flown, ends, strict=True):
                theirs[name] = State.from_vector(last[0])
                ours, origin = step.record.y[step.rows, parts[name].layout.whole], starts[name].position
                apart = compare_states(world.own_robot(name).n, ours, rows, origin)
                found = found.merge_worst(CrossCheck(*apart, "", reference.evaluations))
                reference.evaluations = 0
    return found


class _Progress:
    """Reports how far the reference is, and warns once if it will take minutes."""

    def __init__(self) -> None:
        self.begin, self.is_told = process_time(), False

    def __call__(self, progress: Callable[[float, float], None] | None, whole: float, time: float) -> None:
        if progress is not None:
            progress(time, whole)
        taken = process_time() - self.begin
        if not self.is_told and taken > TRIAL and (total := taken * whole / max(time, 1e-9)) > LONG:
            self.is_told = True
            so_far = f"{time:.3g} s of {whole:.4g} s took {taken:.0f} s"
            text = f"the cross-check takes about {total / 60.0:.0f} min: {so_far}"
            warnings.warn(text, RunWarning, stacklevel=2)


def _gravity(world: World) -> Array:
    """Gravity, m/s2."""
    found = np.zeros(3)
    for element in world.elements:
        found += element.strength if isinstance(element, Gravity) else 0.0
    return found


def _obstacle(segment: Segment, part: SystemPart, robot: Robot, base: Array, joints: bool, closed_loop: bool) -> str:
    """Why MuJoCo cannot express a segment; empty if it can.

    ``base`` is the static friction of the base's own six degrees of freedom, which only overrides can set; ``joints``:
    whether that of joints counts.
    """
    own = [joint.name for joint in robot.joints if joints and joint.friction is not None]
    frictional = [*(BASE_DOFS[i] for i in np.flatnonzero(base)), *own]
    for prepared in segment.prepared:
        if prepared.law is not None and prepared.law.law.period is None:
            return f"{prepared.place}: a continuous law; only commands of a sampled law can be replayed"
        if closed_loop and prepared.law is not None and (why := loop_obstacle(prepared.law)):
            return f"{prepared.place}: {why}"
        held = [robot.dof_names[i] for i in part.own_dofs(prepared.driven)]
        dry = [name for name in frictional if name not in held]
        if prepared.phase.friction and dry:
            return (
                f"{prepared.place}: dry friction on {', '.join(dry)}; MuJoCo only has a regularised friction "
                "loss, which creeps where a joint should stick"
            )
    return ""


class MujocoTerms:
    """Terms of changes (:class:`~spacearm.simulate.changes.Terms`) by MuJoCo."""

    def _model_in_state(self, robot: Robot, state: State) -> MujocoModel:
        mujoco_robot = _mujoco_model(robot)
        mujoco_robot.set_state(state.position, state.quaternion, state.joints, state.velocity)
        return mujoco_robot

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
class _Wanted:
    """Samples that a phase fills: their rows, and times, s since the phase's start."""

    samples: Array
    rows: npt.NDArray[np.intp]
    times: Array


def _rate_margin(place: int, level: float, direction: int, t: float, y: Array) -> float:
    """What is left up to a level of a rate in this direction."""
    return float(direction * (level - y[place]))


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
        tree = Tree(robot)
        #: Degrees of freedom of joints in closed loops.
        self.tied = np.array([6 + i for loop in robot.loops for i in loop_joints(tree, loop)[1]], dtype=int)
        self.mujoco_robot = _mujoco_model(robot)
        self.mujoco_robot.model.opt.gravity[:] = gravity
        self.evaluations = 0
        self.report: Callable[[float], None] = lambda time: None
        world = segment.world
        acting = [(world.frame(each.frame), each) for each in world.elements if isinstance(each, Drag)]
        self.drags = [(own, each) for (system, own), each in acting if system == part.name]
        self.begin = 0.0  # of the current phase, s
        self.slipping: dict[int, int] = {}  # direction of slip of each joint with dry friction; 0: stuck
        self.memory: Memory | None = None  # of laws, in closed loop

    def run(self, start: State) -> tuple[Array, State]:
        """Flat states at the segment's samples, and at its end."""
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
            closed = self.memory is not None and prepared.law is not None and bool(own)
            drive = DriveSignals(segment.world, self.part.name, self.robot, prepared.phase, () if closed else logs)
            if self.replay and prepared.phase.friction:
                self._replay(drive, prepared.number, begin, y)
            rows = np.flatnonzero((times >= begin) & (times <= end))
            local = np.clip(times[rows] - begin, 0.0, end - begin)
            wanted = _Wanted(samples, rows, local)
            if closed:
                assert self.memory is not None
                assert prepared.law is not None
                law = TickedLaw(prepared.law, prepared.levels, self.robot, self.memory, begin)
                y = self._fly_law(law, drive, end - begin, y, wanted)
            else:
                _, y, _ = self._fly(drive, 0.0, end - begin, y, wanted)
        return samples, State.from_vector(y)

    def _fly_law(self, law: TickedLaw, drive: DriveSignals, duration: float, y: Array, wanted: _Wanted) -> Array:
        """The state at the end of a phase whose law is called with these states."""
        for low, high, due in law.intervals(duration):
            if due:
                law.tick(low, y)
            now = low
            while now < high:
                # A drive at its rate limit is off until the next tick, and so is one that has braked back to it.
                now, y, met = self._fly(drive.with_law(law), now, high, y, wanted, law.rate_bounds())
                if met is not None:
                    law.cut(met)
        law.leave(duration)
        return y

    def _fly(
        self,
        drive: DriveSignals,
        begin: float,
        end: float,
        y: Array,
        wanted: _Wanted,
        bounds: Mapping[int, tuple[int, float, int]] | None = None,
    ) -> tuple[float, Array, int | None]:
        """The time reached, the state then, and the number of the level (``bounds``) that a rate met there."""
        from scipy.integrate import solve_ivp

        watched = [(number, bound) for number, bound in (bounds or {}).items() if _rate_margin(*bound, 0.0, y) > 0.0]
        events = [partial(_rate_margin, *bound) for _, bound in watched]
        for event in events:
            event.terminal = True  # type: ignore[attr-defined]
        for low, high in pairwise(drive.breaks(begin, end)):
            # Integrated interval by interval between the breaks of all signals: a Runge-Kutta step across a break
            # would lose its order.
            pieces = DriveInterval(drive, 0.5 * (low + high), self.robot.dofs)
            inside = (wanted.times >= low) & (wanted.times <= high)
            between = (wanted.times[inside] > low) & (wanted.times[inside] < high)
            self._place(pieces, low, y)
            result = solve_ivp(
                partial(self._rate, pieces),
                (low, high),
                y,
                method="DOP853",
                rtol=RTOL,
                atol=ATOL,
                events=events or None,
                # From tick to tick one step is enough as a rule: to look for its size would cost two evaluations.
                first_step=min(high - low, FIRST_STEP),
                # Ends of steps, or the samples in between: then the end is included, and times must increase.
                t_eval=np.unique(np.concatenate([wanted.times[inside], [high]])) if between.any() else None,
            )
            if not result.success:
                raise SimulationError(f"MuJoCo's part of the cross-check stopped: {result.message}")
            met = next((k for k, found in enumerate(result.t_events or ()) if found.size), None)
            for row, t in zip(wanted.rows[inside], wanted.times[inside], strict=True):
                if t <= result.t[-1] if met is None else t < result.t_events[met][0]:
                    wanted.samples[row] = result.y[:, np.searchsorted(result.t, t)]
                    self._place(pieces, float(t), wanted.samples[row])
            if met is not None:
                time, y = float(result.t_events[met][0]), result.y_events[met][0].copy()
                self._place(pieces, time, y)
                return time, y, watched[met][0]
            y = result.y[:, -1].copy()
            self._place(pieces, high, y)
        return end, y, None

    def _replay(self, drive: DriveSignals, number: int, begin: float, y: Array) -> None:
        """Add the recorded stick-slip of a phase to its drive."""
        at = Layout(self.robot.n)
        # A slipping joint has a constant torque against its sense of slip, a stuck one is locked: both have no rate in
        # them, so that nothing depends on a regularisation.
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

        def friction_from(time: float) -> FrictionState:
            stuck = frozenset(dof for dof, sign in status.items() if sign == 0)
            return FrictionState(time, stuck, {dof: -sign * coulomb[dof] for dof, sign in status.items() if sign})

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

    def _place(self, pieces: DriveInterval, t: float, y: Array) -> None:
        """Set driven joints to their paths and normalise the quaternion."""
        n = self.robot.n
        y[QUATERNION] /= np.linalg.norm(y[QUATERNION])
        for dof, (position, rate) in pieces.paths(t).items():
            y[Layout(n).joint(dof - 6)], y[Layout(n).speed(dof)] = position, rate

    def _rate(self, pieces: DriveInterval, t: float, y: Array) -> Array:
        self.evaluations += 1
        if self.evaluations % EVALUATIONS_PER_REPORT == 0:
            self.report(self.begin + t)
        if not np.all(np.abs(y) < BEYOND):
            return np.full(y.size, np.nan)  # a step that is too large; the integrator takes a smaller one
        n, mujoco_robot, drive = self.robot.n, self.mujoco_robot, pieces.drive
        y = y.copy()
        self._place(pieces, t, y)
        quaternion, velocity = y[QUATERNION], y[Layout(n).velocity]
        mujoco_robot.set_state(y[:3], quaternion, y[Layout(n).joints], velocity)
        force = mujoco_robot.passive()
        force[:6] -= self.base_damping * velocity[:6]
        for dof, value in pieces.forces(t).items():
            force[dof] += value
        for load, wrench in zip(drive.loads, pieces.wrenches(t), strict=True):
            if load.axes == "frame":
                rotation = mujoco_robot.frame_pose(load.frame).rotation
                force += mujoco_robot.generalized_force(load.frame, (wrench.reshape(2, 3) @ rotation.T).ravel())
            else:
                force += mujoco_robot.generalized_force(load.frame, wrench)
        for frame, drag in self.drags:
            twist = mujoco_robot.frame_jacobian(frame) @ velocity
            force -= mujoco_robot.generalized_force(frame, np.repeat([drag.linear, drag.angular], 3) * twist)
        acceleration = np.zeros(6 + n)
        for dof, value in pieces.accelerations(t).items():
            acceleration[dof] = value
        mass, free, driven = mujoco_robot.mass_matrix(), pieces.free, pieces.driven
        # H_ff a_f = (tau - c)_f - H_fd a_d: rows of driven degrees of freedom are removed from the system.
        rest = (force - mujoco_robot.bias())[free] - mass[np.ix_(free, driven)] @ acceleration[driven]
        inertia, linear = mass[np.ix_(free, free)], mujoco_robot.rotation @ velocity[:3]
        acceleration[free] = np.linalg.solve(inertia, rest)
        # Loops of held joints give no force to the others, and their rates' differences would be noise alone.
        if np.isin(free, self.tied).any():
            # Forces J^T f of closed loops, by J a = -(dJ/dt) v; of redundant ones the smallest.
            rows = loop_rows(mujoco_robot, self.robot)
            lacking = -loop_bias(mujoco_robot, self.robot, State.from_vector(y)) - rows @ acceleration
            give = np.linalg.solve(inertia, rows[:, free].T)
            acceleration[free] += give @ np.linalg.lstsq(rows[:, free] @ give, lacking, rcond=1e-12)[0]
        w, vector, half = quaternion[0], quaternion[1:], 0.5 * velocity[3:6]
        return np.concatenate(
            [
                linear,
                [-vector @ half],
                w * half + np.cross(vector, half),
                velocity[6:],
                acceleration,
            ]
        )


def _friction_events(events: Iterable[Occurrence], phase: int) -> list[Occurrence]:
    return [event for event in events if event.phase == phase and event.kind in ("stick", "slip", "reverse")]
