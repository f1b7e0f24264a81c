"""The same run once more with MuJoCo's dynamics, as the papers ran ADAMS beside their own programs.

MuJoCo gives kinematics, mass matrix, bias and passive forces at each instant (:mod:`spacearm.simulate.mujoco_twin`);
SciPy's DOP853 integrates them, since MuJoCo's own time steps are too coarse for a comparison to 1e-9. What is locked or
follows a path has its acceleration prescribed: those rows leave the linear system that MuJoCo's mass matrix and bias
make. Nothing of spacearm's mechanics, kernels or loops takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spacearm.engine.solver import Reason
from spacearm.errors import ModelError, SimulationError
from spacearm.model import Friction, Robot, Rotor, Spring
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.robot import BASE_DOFS
from spacearm.simulate.course import as_phases
from spacearm.simulate.mujoco_twin import MujocoTwin
from spacearm.simulate.phase import Phase
from spacearm.simulate.run import Run
from spacearm.simulate.signals import Signal, as_signal
from spacearm.simulate.state import State
from spacearm.typing import Array

#: Tolerance of the reference integration: well below the 1e-9 that a comparison should show.
RTOL, ATOL = 1e-12, 1e-13


@dataclass(frozen=True)
class CrossCheck:
    """How far two engines are apart.

    Args:
        differences: largest difference at any sample: ``position`` (m), ``attitude`` (rad), ``joints`` (rad or m),
            ``velocity`` (m/s, base axes), ``angular_velocity`` (rad/s), ``rates`` (rad/s or m/s).
        relative: the same, each relative to the largest size of the quantity in the run, the position to its change;
            sizes below 1e-3 (SI) count as 1e-3. An attitude stays an angle (rad).
        reason: why MuJoCo cannot express the case; empty when it was run.
        evaluations: of MuJoCo's dynamics.
    """

    differences: dict[str, float] = field(default_factory=dict)
    relative: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    evaluations: int = 0

    @property
    def expressed(self) -> bool:
        """Whether the case was run in MuJoCo."""
        return not self.reason

    @property
    def largest(self) -> float:
        """Largest relative difference; NaN when the case was not run."""
        return max(self.relative.values(), default=float("nan"))

    def __str__(self) -> str:
        if self.reason:
            return f"not cross-checked: {self.reason}"
        parts = ", ".join(f"{name} {value:.1e}" for name, value in self.relative.items())
        return f"cross-check with MuJoCo: largest relative difference {self.largest:.1e} (relative: {parts})"


def obstacle(robot: Robot, phases: Sequence[Phase], rubbing: Sequence[str] = ()) -> str:
    """Why MuJoCo cannot express a run of these phases; empty when it can.

    ``rubbing`` are degrees of freedom of the base with dry friction, which no robot has as its own.
    """
    for number, phase in enumerate(phases):
        if not phase.friction:
            continue
        held = {*phase.locked, *phase.driven, *phase.accelerations}
        dry = [name for name in (*rubbing, *_rubbing(robot)) if name not in held]
        if dry:
            return (
                f"{phase.numbered(number)}: dry friction on {', '.join(dry)}; MuJoCo only has a regularised friction "
                "loss, which creeps where a joint should stick"
            )
    return ""


def _rubbing(robot: Robot) -> list[str]:
    return [joint.name for joint in robot.joints if joint.friction is not None]


def cross_check(
    run: Run,
    start: State,
    phases: Phase | Sequence[Phase] | float,
    *,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
) -> CrossCheck:
    """Runs the same in MuJoCo and compares at the run's samples.

    ``start``, ``phases`` and ``overrides`` are what :func:`~spacearm.simulate.run.simulate` was given. A phase that an
    event ended ends here at the same time. Where MuJoCo cannot express the case, the result says why.
    """
    done = as_phases(phases)[: len(run.phase_starts)]
    given = {name: np.asarray(value, dtype=float).ravel() for name, value in (overrides or {}).items()}
    try:
        robot = with_parameters(run.robot, given)
    except ModelError as error:
        return CrossCheck(reason=f"the overrides make no robot: {error}")
    static = given.get("static_friction", np.zeros(0))
    rubbing = [BASE_DOFS[i] for i in np.flatnonzero(static[:6])] if static.size == robot.dofs else []
    reason = obstacle(robot, done, rubbing)
    if reason:
        return CrossCheck(reason=reason)
    if run.reason not in (Reason.FINISHED, Reason.TERMINAL_EVENT):
        return CrossCheck(reason=f"the run did not come to its end: {run.reason.text}")
    ends = np.array([*run.phase_starts[1:], run.end_time])
    reference = _Reference(robot, _base_damping(robot, given))
    theirs = reference.run(start.check(robot), done, ends, np.minimum(run.times, run.end_time))
    differences, relative = compare(robot.n, run.states, theirs, start.position)
    return CrossCheck(differences, relative, evaluations=reference.evaluations)


def with_parameters(robot: Robot, parameters: Mapping[str, Array]) -> Robot:
    """The robot that has these numbers as its own; damping of the base's freedoms, which no robot has, is left out."""
    n, values = robot.n, dict(parameters)
    if "inertia" in values:
        robot = robot.with_inertia_parameters(values["inertia"].reshape(-1, 10))
    rotors = iter(values.get("rotor", ()))
    coupling = values.get("coupling", np.zeros(0)).reshape(-1, 4)
    joints = []
    for i, joint in enumerate(robot.joints):
        spring, friction = joint.spring or Spring(0.0), joint.friction or Friction(0.0, 0.0)
        stiffness = values["stiffness"][i] if "stiffness" in values else spring.stiffness
        rest = values["rest"][i] if "rest" in values else spring.rest
        static, coulomb = (
            values[name][values[name].size - n + i] if name in values else own
            for name, own in (("static_friction", friction.static), ("coulomb_friction", friction.coulomb))
        )
        rotor = joint.rotor
        if rotor is not None and "rotor" in values:
            rotor = Rotor(float(next(rotors)), rotor.ratio)
        joints.append(
            replace(
                joint,
                spring=Spring(float(stiffness), float(rest)) if stiffness else None,
                friction=Friction(float(static), float(coulomb)) if static > 0.0 else None,
                damping=float(values["damping"][values["damping"].size - n + i])
                if "damping" in values
                else joint.damping,
                rotor=rotor,
            )
        )
    couplings = [
        replace(part, stiffness=row[0], damping=row[1], ratio=row[2], rest=row[3])
        for part, row in zip(robot.couplings, coupling.tolist(), strict=False)
    ]
    return robot.replace(joints=tuple(joints), couplings=tuple(couplings) if couplings else robot.couplings)


def _base_damping(robot: Robot, parameters: Mapping[str, Array]) -> Array:
    """Damping of the base's six velocities: applied by hand, since MuJoCo's free joint has it in world axes."""
    damping = parameters.get("damping", np.zeros(0))
    return damping[:6] if damping.size == robot.dofs else np.zeros(6)


def compare(
    n: int, ours: Array, theirs: Array, origin: npt.ArrayLike = (0.0, 0.0, 0.0)
) -> tuple[dict[str, float], dict[str, float]]:
    """Largest differences of flat states (samples, 13 + 2 n), absolute and relative.

    ``origin`` is the point that the base's way is counted from: a large distance from the world's origin hides nothing,
    but for the rounding that it brings.
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
                size = max(float(np.abs(theirs[:, part] - np.asarray(origin)).max()), 1e-9 * size)
            differences[name], relative[name] = gap, gap / max(size, 1e-3)
    # The angle between two attitudes from the vector part of the quaternion between them; its sign does not matter.
    a, b = ours[:, QUATERNION], theirs[:, QUATERNION]
    vector = a[:, :1] * b[:, 1:] - b[:, :1] * a[:, 1:] - np.cross(a[:, 1:], b[:, 1:])
    differences["attitude"] = relative["attitude"] = float(2.0 * np.linalg.norm(vector, axis=1).max())
    return differences, relative


class _Drive:
    """What is prescribed and applied in one phase, as signals."""

    def __init__(self, robot: Robot, phase: Phase) -> None:
        def named(given: dict[str, object]) -> dict[int, Signal]:
            return {robot.dof_index(name): as_signal(value, name) for name, value in given.items()}

        self.paths = named(dict(phase.driven))
        self.rates = {dof: path.derivative() for dof, path in self.paths.items()}
        self.accelerations = named(dict(phase.accelerations))
        self.accelerations |= {dof: rate.derivative() for dof, rate in self.rates.items()}
        self.accelerations |= named(dict.fromkeys(phase.locked, 0.0))
        self.forces = named(dict(phase.forces))
        self.loads = phase.loads
        self.driven = np.array(sorted(self.accelerations), dtype=int)
        self.free = np.setdiff1d(np.arange(robot.dofs), self.driven)

    def breaks(self, duration: float) -> Array:
        """Times of the phase between which everything is smooth."""
        signals = [*self.paths.values(), *self.accelerations.values(), *self.forces.values()]
        signals += [entry for load in self.loads for entry in load.wrench]
        inner = np.unique(np.concatenate([np.zeros(0), *(signal.breaks for signal in signals)]))
        return np.concatenate([[0.0], inner[(inner > 0.0) & (inner < duration)], [duration]])


class _Reference:
    """Runs phases with MuJoCo's terms."""

    def __init__(self, robot: Robot, base_damping: Array) -> None:
        self.robot = robot
        self.base_damping = base_damping
        self.twin = MujocoTwin(robot)
        self.evaluations = 0

    def run(self, start: State, phases: Sequence[Phase], ends: Array, times: Array) -> Array:
        """Flat states at ``times``."""
        from scipy.integrate import solve_ivp

        y = start.vector.copy()
        samples = np.full((times.size, y.size), np.nan)
        offset = 0.0
        for phase, end in zip(phases, ends, strict=False):
            drive = _Drive(self.robot, phase)
            duration = float(end) - offset
            rows = np.flatnonzero((times >= offset) & (times <= end))
            local = np.clip(times[rows] - offset, 0.0, duration)
            for low, high in pairwise(drive.breaks(duration)):
                pieces = _Pieces(drive, 0.5 * (low + high))
                inside = (local >= low) & (local <= high)
                self._place(pieces, low, y)
                result = solve_ivp(
                    partial(self._rate, pieces),
                    (low, high),
                    y,
                    method="DOP853",
                    rtol=RTOL,
                    atol=ATOL,
                    t_eval=np.unique(np.concatenate([local[inside], [high]])),
                )
                if not result.success:
                    raise SimulationError(f"MuJoCo's side of the cross-check stopped: {result.message}")
                for row, t in zip(rows[inside], local[inside], strict=True):
                    samples[row] = result.y[:, np.searchsorted(result.t, t)]
                    self._place(pieces, float(t), samples[row])
                y = result.y[:, -1].copy()
                self._place(pieces, high, y)
            offset = float(end)
        return samples

    def _place(self, pieces: _Pieces, t: float, y: Array) -> None:
        """Puts driven joints on their paths and the quaternion on the unit sphere."""
        n = self.robot.n
        y[QUATERNION] /= np.linalg.norm(y[QUATERNION])
        for dof, (position, rate) in pieces.paths(t).items():
            y[Layout(n).joint(dof - 6)], y[Layout(n).speed(dof)] = position, rate

    def _rate(self, pieces: _Pieces, t: float, y: Array) -> Array:
        self.evaluations += 1
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
        acceleration = np.zeros(6 + n)
        for dof, value in pieces.accelerations(t).items():
            acceleration[dof] = value
        mass, free, driven = twin.mass_matrix(), drive.free, drive.driven
        rest = (force - twin.bias())[free] - mass[np.ix_(free, driven)] @ acceleration[driven]
        acceleration[free] = np.linalg.solve(mass[np.ix_(free, free)], rest)
        w, vector, turn = quaternion[0], quaternion[1:], 0.5 * velocity[3:6]
        return np.concatenate(
            [
                twin.rotation @ velocity[:3],
                [-vector @ turn],
                w * turn + np.cross(vector, turn),
                velocity[6:],
                acceleration,
            ]
        )


class _Pieces:
    """The signals of a drive on one smooth stretch: each by the polynomial that holds in its middle."""

    def __init__(self, drive: _Drive, middle: float) -> None:
        self.drive = drive
        self._middle = middle

    def _value(self, signal: Signal, t: float) -> float:
        piece = int(np.clip(np.searchsorted(signal.breaks, self._middle, side="right") - 1, 0, signal.breaks.size - 2))
        return float(np.polynomial.polynomial.polyval(t - signal.breaks[piece], signal.coefficients[:, piece]))

    def _all(self, signals: dict[int, Signal], t: float) -> dict[int, float]:
        return {dof: self._value(signal, t) for dof, signal in signals.items()}

    def forces(self, t: float) -> dict[int, float]:
        return self._all(self.drive.forces, t)

    def accelerations(self, t: float) -> dict[int, float]:
        return self._all(self.drive.accelerations, t)

    def paths(self, t: float) -> dict[int, tuple[float, float]]:
        rates = self._all(self.drive.rates, t)
        return {dof: (value, rates[dof]) for dof, value in self._all(self.drive.paths, t).items()}

    def wrenches(self, t: float) -> list[Array]:
        return [np.array([self._value(entry, t) for entry in load.wrench]) for load in self.drive.loads]
