"""Many designs of the same soft joints under the same cases: peaks, travel and settling of each, by vectorised RK4.

A search needs tens of thousands of runs, and only a few numbers of each. So all designs take the same fixed steps of
classical RK4, several at a time in vector lanes (or one per GPU thread), and an observer updates peaks, travel and
settling at every step: no history is kept. The grid of steps has a node at every edge of every load, so that no step
crosses a jump. Results do not depend on the number of threads or lanes.

Arrays: designs (B, soft axes); samples are designs times cases, with the case index varying fastest. Fixed steps have
no error control: :mod:`spacearm.capture.design` chooses the step from the fastest mode, and ``DesignFront.verify``
compares with adaptive runs. Peaks are those at steps, not between them. Impacts and clutch modes are not included: a
case starts after them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import casadi as ca
import numpy as np

from spacearm.capture.base_response import OBJECTIVES, objective_sizes, skyhook_speed
from spacearm.capture.capture_run import LATEST, SettlingCriterion
from spacearm.capture.soft_joints import find_cushioning_axes, find_held_joints, relax_soft_axes
from spacearm.capture.target import Start, start_state
from spacearm.checks import array, check_fields, check_name, check_not_empty, non_negative, one_of, positive
from spacearm.engine.device import Device, as_native_array, cupy, is_device_array
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols, Update
from spacearm.engine.schedule import Schedule
from spacearm.engine.signals import merge
from spacearm.errors import InputError, error_context
from spacearm.mechanics.motion import LoadFrame, motion_program
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate import Load, State
from spacearm.simulate.motion import robot_motion
from spacearm.simulate.phase import Phase
from spacearm.typing import Array

#: Samples that a thread processes at a time; a multiple of every lane width.
CHUNK = 256
_SHARED = ("force", "drive", "mode", "friction", "inertia", "rotor", "rest", "coupling")
LAWS = ("constant", "balance", "skyhook")
Law = Literal["constant", "balance", "skyhook"]


@dataclass(frozen=True, eq=False)
class LoadCase:
    """A load case of the robot, and its probability.

    Args:
        loads: one or several, as :meth:`Load.pulse`; none for a capture, which ``start`` fully describes.
        start: state at time zero, or a capture or impact that leads to it, as for
            :func:`~spacearm.capture.simulate_capture`; at rest with springs relaxed if omitted.
        probability: weight among all cases.
        name: for tables.
    """

    loads: Sequence[Load] = ()
    start: Start | None = None
    probability: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "loads", Phase(1.0, loads=self.loads).loads)
        check_fields(self, positive, "probability", place="case")


@dataclass(frozen=True, eq=False)
class Responses:
    """Response of each design in each case.

    Args:
        peaks: (B, cases, 9) largest base rate (rad/s), force and moment on the base (N, N m: sizes, then x, y, z of
            each, base axes), at steps.
        travel: (B, cases, 2, n) lowest and highest joint positions.
        settling: (B, cases) s; infinite when not settled within the run.
    """

    peaks: Array
    travel: Array
    settling: Array

    def select_objective(self, objective: str) -> Array:
        """Values (B, cases) of one of ``base_rate``, ``force``, ``moment``, ``fx`` ... ``mz`` or ``settling``."""
        if objective == "settling":
            return self.settling
        names = OBJECTIVES[:9]
        return self.peaks[..., names.index(check_name(objective, names, "objective"))]


@dataclass(eq=False)
class Evaluator:
    """A robot, its load cases and the duration of each; called with designs.

    Args:
        robot: robot with soft joints. Designs comprise all soft axes except those of a contact.
        cases: load cases.
        duration: s.
        step: largest step of RK4, s.
        settling: criterion for all cases.
        law: switching law of the dampers; ``constant``: they do not switch.
        off: damping of dampers that are off, at most their damping when on.
        free: joints other than soft axes that may move, without dry friction; all others are held.
        device: "gpu" gives each design and case a thread of an NVIDIA GPU, with the same bits.
    """

    robot: Robot
    cases: Sequence[LoadCase]
    duration: float = 40.0
    step: float = 0.04
    settling: SettlingCriterion = field(default_factory=SettlingCriterion)
    law: Law = "constant"
    off: float = 0.0
    free: Sequence[str] = ()
    device: Device = "cpu"

    def __post_init__(self) -> None:
        with error_context("design"):
            check_not_empty(self.cases, "case")
            one_of(self.device, ("cpu", "gpu"), "device")
            one_of(self.law, LAWS, "law")
            positive(self.duration, "duration", unit="s")
            positive(self.step, "step", unit="s")
            non_negative(self.off, "off")
        for name in self.free:
            check_name(name, self.robot.joint_names, "joint", place="free")
            if self.robot.joint(name).friction is not None:
                raise InputError(
                    f"joint {name!r} has dry friction", place="free", hint="designs are evaluated without friction"
                )
        self._phases = [Phase(self.duration, loads=case.loads) for case in self.cases]
        self.loads = tuple(dict.fromkeys(load.place for phase in self._phases for load in phase.loads))
        # Without a ledger: a search compares peaks, and its front is verified by runs that have one.
        self._model = robot_motion(self.robot, self.loads, False)
        self._grid()
        self.axes = np.array(
            [self.robot.joint_index(name) for name in find_cushioning_axes(self.robot)], dtype=np.int64
        )
        self.held = find_held_joints(self.robot, self.free)
        self._starts = [self.start(case) for case in self.cases]

    def _grid(self) -> None:
        """Wrenches of all cases on one grid of edges."""
        channels = []
        width = 6 * len(self.loads)
        for c, phase in enumerate(self._phases):
            for load in phase.loads:
                at = 6 * self.loads.index(load.place)
                channels += [(c * width + at + k, s.breaks, s.coefficients) for k, s in enumerate(load.wrench)]
        merged = merge(channels, self.duration)
        degree, pieces = merged.coefficient.shape[:2]
        # Signals of all cases on one set of breaks: lanes of different cases then take the same steps.
        table = np.zeros((degree, pieces, len(self.cases) * width))
        for column, target in enumerate(merged.target):
            table[:, :, target] += merged.coefficient[:, :, column]
        by_case = table.reshape(degree, pieces, len(self.cases), width)
        self._wrench = np.ascontiguousarray(np.moveaxis(by_case, 2, 0))
        self._breaks = merged.breaks
        # Whole steps in each segment; the small number keeps rounding from adding one.
        self._counts = np.ceil(np.diff(merged.breaks) / self.step - 1e-9).astype(np.int64).clip(1)

    def start(self, case: LoadCase) -> State:
        """The case's state at time zero."""
        if case.start is None:
            return State.at_rest(self.robot, relax_soft_axes(self.robot))
        return start_state(self.robot, case.start, self.held)

    def __call__(
        self,
        stiffness: Array,
        damping: Array,
        *,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Responses:
        """Designs (B, soft axes each): N/m or N m/rad, N s/m or N m s/rad (on, when dampers switch).

        Arrays on a GPU (CuPy's, or anything with DLPack) are processed there without being checked, and so are the
        responses.
        """
        robot, model, cases = self.robot, self._model, len(self.cases)
        there = is_device_array(stiffness) or is_device_array(damping)
        xp: Any = cupy() if there else np
        stiffness, damping = (xp.asarray(as_native_array(own)) for own in (stiffness, damping))
        size = len(stiffness)
        for name, given in (("stiffness", stiffness), ("damping", damping)):
            # For arrays on a GPU, only the shape is checked.
            shaped = np.broadcast_to(0.0, given.shape) if there else given
            array(shaped, name, (size, self.axes.size), least=0.0, place="design")
        common = model.parameters()
        springs, dampers = (xp.repeat(xp.asarray(common[n])[None], size, axis=0) for n in ("stiffness", "damping"))
        axes = xp.asarray(self.axes)
        springs[:, axes], dampers[:, 6 + axes] = stiffness, damping
        each = {"stiffness": springs, "damping": dampers}
        if self.law != "constant":
            # Off is never above on: a stronger damper "off" than "on" would reverse the law.
            each |= {"on": dampers[:, 6:], "off": np.minimum(self.off, dampers[:, 6:])}
        each = {name: xp.repeat(own, cases, axis=0) for name, own in each.items()}
        # Design by design, cases inside: neighbouring lanes have different cases and the same steps.
        each["state"] = np.tile(np.stack([start.vector for start in self._starts]), (size, 1))
        which = np.tile(np.arange(cases, dtype=np.int64), size)
        mode = np.zeros(robot.dofs)
        mode[[robot.dof_index(name) for name in (*self.held, *robot.base.locked_dofs)]] = 1.0
        loop = _loop(robot, self.loads, self.law, tuple(self.axes.tolist()), self.settling)
        fixed = {name: value for name, value in common.items() if name in loop.inputs and name not in each}
        schedule = Schedule(
            self._counts,
            np.diff(self._breaks) / self._counts,
            ("wrench",) if self.loads else (),
            self._wrench,
        )
        samples = Ensemble(
            loop,
            schedule,
            fixed | _initial_values(robot, mode),
            each,
            case=which,
            kept=_KEPT,
            device=self.device,
            there=there,
            threads=threads,
            chunk=CHUNK,
        )
        found = samples.run(progress).ends
        ends = np.cumsum([loop.size(name) for name in _KEPT]).tolist()
        peaks, low, high, settled, late = (found[:, a:b] for a, b in pairwise((0, *ends)))
        # Two vibrations are monitored, linear and angular: both must have settled.
        latest = np.where(late != 0.0, np.inf, settled).max(axis=1)
        return Responses(
            peaks.reshape(size, cases, -1)[..., :9],
            np.stack([low, high], axis=1).reshape(size, cases, 2, robot.n),
            np.where(latest > LATEST * self.duration, np.inf, latest).reshape(size, cases),
        )


#: Values that the observer keeps of a run.
_KEPT = ("peaks", "low", "high", "settled", "late")


def _initial_values(robot: Robot, mode: Array) -> dict[str, Array]:
    """Inputs and memory at the start, before the first observation."""
    return {"mode": mode, "low": np.full(robot.n, np.inf), "high": np.full(robot.n, -np.inf)}


def _observer(robot: Robot, loads: tuple[LoadFrame, ...], symbols: StepSymbols, settling: SettlingCriterion) -> Update:
    """Observer of peaks, travel, and the time since which the vibration of the base has stayed below its level."""
    at = Layout(robot.n)
    sizes = {
        "peaks": len(OBJECTIVES),
        "low": robot.n,
        "high": robot.n,
        "settled": 2,
        "late": 2,
        "before": 2,
        "looked": 1,
    }
    memory = {name: ca.SX.sym(name, count) for name, count in sizes.items()}
    # What the objectives are written over, by the loop's own symbols.
    known = {name: symbols.inputs[name] for name in ("state", "wrench", "inertia", "rotor")}
    seen = objective_sizes(robot, loads, {**known, "acceleration": symbols.rate[at.velocity]})
    joints, time = symbols.state[at.joints], symbols.inputs["time"]
    peaks = ca.fmax(memory["peaks"], seen)
    base_vibration = seen[-2:]
    # Relative to the peak so far: exact once the largest value has passed, which it has at the end of the run.
    level = ca.fmax(settling.fraction * peaks[-2:], ca.DM([settling.velocity, settling.rate]))
    below = base_vibration <= level  # false for NaN too
    old = memory["before"]
    # Linear interpolation between two steps, as last_above does with samples: settling times do not jump by a step from
    # design to design, which a search would see as noise.
    share = ca.if_else(old > base_vibration, (old - level) / (old - base_vibration), 1)
    since = time - (1 - ca.fmin(ca.fmax(share, 0), 1)) * (time - memory["looked"])
    new = {
        "peaks": peaks,
        "low": ca.fmin(memory["low"], joints),
        "high": ca.fmax(memory["high"], joints),
        "settled": ca.if_else(memory["late"], since, memory["settled"]),
        "late": ca.if_else(below, 0, 1),
        "before": base_vibration,
        "looked": time,
    }
    return Update(new, memory)


def _damper_switching(robot: Robot, symbols: StepSymbols, law: Law, axes: tuple[int, ...]) -> Update | None:
    """Switching of dampers, which are on while they oppose the quantity that the law follows."""
    if law == "constant":
        return None
    memory = {name: ca.SX.sym(name, robot.n) for name in ("on", "off")}
    at, x = Layout(robot.n), symbols.inputs
    lead = symbols.state[at.joints] - x["rest"] if law == "balance" else skyhook_speed(robot, x)
    # Both laws have one form: on where the rate is opposed to what is followed, the spring's deflection (balance) or
    # the parent's speed relative to the united body (skyhook).
    opposed = lead * symbols.state[at.rates] < 0
    damping = ca.SX(x["damping"])
    for j in axes:
        damping[6 + j] = ca.if_else(opposed[j], memory["on"][j], memory["off"][j])
    return Update({"damping": damping}, memory)


@lru_cache(maxsize=8)
def _loop(
    robot: Robot, loads: tuple[LoadFrame, ...], law: Law, axes: tuple[int, ...], settling: SettlingCriterion
) -> FixedStep:
    motion = motion_program(robot, loads, ledger=False)
    symbols = StepSymbols(replace(motion, outputs={"rate": motion.outputs["rate"]}))
    return FixedStep(
        symbols,
        uniform=_SHARED,
        law=_damper_switching(robot, symbols, law, axes),
        observer=_observer(robot, loads, symbols, settling),
    )
