"""Many designs of the same soft joints under the same cases: peaks, travel and settling of each, by RK4 in lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np

from spacearm.capture.hit import Hit, as_hits
from spacearm.capture.impulse import check_joints
from spacearm.capture.lanes import judge_lanes
from spacearm.capture.output import LATEST, Settling
from spacearm.capture.programs import WATCHED, watch_program
from spacearm.capture.softjoint import cushioning_axes, driven_joints, relaxed
from spacearm.capture.start import Start, begin
from spacearm.engine import Kernel
from spacearm.engine.machine import host
from spacearm.engine.signals import merge
from spacearm.errors import InputError
from spacearm.mechanics import LoadFrame, motion_program
from spacearm.mechanics.tree import rotor_inertias
from spacearm.model import Robot
from spacearm.simulate import State
from spacearm.simulate.motion import load_frames, motion
from spacearm.simulate.phase import Phase
from spacearm.simulate.threads import spread
from spacearm.typing import Array

#: Samples that a thread takes at a time; a multiple of every lane width.
CHUNK = 256
_SHARED = ("force", "drive", "mode", "friction", "inertia", "rotor", "rest", "coupling")
LAWS = {"constant": 0, "balance": 1, "skyhook": 2}
Law = Literal["constant", "balance", "skyhook"]


@dataclass(frozen=True, eq=False)
class Case:
    """A way in which the robot is struck, and how likely it is.

    Args:
        hits: one pulse or several; none for a capture, where ``start`` says it all.
        start: state at time zero, or a capture or impact that leads to it, as for :func:`~spacearm.capture.cushion`;
            at rest with springs relaxed when left out.
        probability: weight among all cases.
        name: for tables.
    """

    hits: tuple[Hit, ...] = ()
    start: Start | None = None
    probability: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hits", as_hits(self.hits))
        if not (math.isfinite(self.probability) and self.probability > 0.0):
            raise InputError(f"probability is {self.probability}", place="case", hint="expected more than zero")


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What each design did in each case.

    Args:
        peaks: (B, cases, 9) largest base rate (rad/s), force and moment on the base (N, N m: sizes, then x, y, z of
            each, base axes), at steps.
        travel: (B, cases, 2, n) lowest and highest joint positions.
        settling: (B, cases) s; infinite when not settled within the run.
    """

    peaks: Array
    travel: Array
    settling: Array

    def of(self, objective: str) -> Array:
        """(B, cases) of ``base_rate``, ``force``, ``moment``, ``fx`` ... ``mz`` or ``settling``."""
        if objective == "settling":
            return self.settling
        names = WATCHED[:9]
        if objective not in names:
            from spacearm.errors import did_you_mean

            raise InputError(f"there is no objective {objective!r}", hint=did_you_mean(objective, (*names, "settling")))
        return self.peaks[..., names.index(objective)]


@dataclass(eq=False)
class Judge:
    """A robot, its cases and how long each is followed; called with designs.

    Args:
        robot: with soft joints. Designs are of all soft axes but those of a contact.
        cases: ways of being struck.
        duration: s.
        step: largest step of RK4, s.
        settling: criterion for all cases.
        law: how dampers switch; ``constant``: they do not.
        off: damping of dampers that are off, at most what they have when on.
        free: joints other than soft axes that may move, without dry friction; all others are held.
    """

    robot: Robot
    cases: Sequence[Case]
    duration: float = 40.0
    step: float = 0.04
    settling: Settling = field(default_factory=Settling)
    law: Law = "constant"
    off: float = 0.0
    free: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.cases:
            raise InputError("there is no case", place="design", hint="expected one or more")
        if self.law not in LAWS:
            raise InputError(f"law is {self.law!r}", place="design", hint=f"expected one of {', '.join(LAWS)}")
        if not (self.duration > 0.0 and self.step > 0.0):
            raise InputError(f"duration {self.duration} s, step {self.step} s", place="design")
        if not (math.isfinite(self.off) and self.off >= 0.0):
            raise InputError(f"off is {self.off}", place="design", hint="expected a damping from zero on")
        check_joints(self.robot, self.free, "free")
        for name in self.free:
            if self.robot.joint(name).friction is not None:
                raise InputError(f"joint {name!r} has dry friction", place="free", hint="designs are judged without")
        self._phases = [Phase(self.duration, loads=[hit.load(self.robot) for hit in case.hits]) for case in self.cases]
        self.loads = load_frames(self._phases)
        self._model = motion(self.robot, self.loads, False)
        self._grid()
        self.axes = np.array([self.robot.joint_index(name) for name in cushioning_axes(self.robot)], dtype=np.int64)
        self.held = driven_joints(self.robot, self.free)
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
        table = np.zeros((degree, pieces, len(self.cases) * width))
        for column, target in enumerate(merged.target):
            table[:, :, target] += merged.coefficient[:, :, column]
        by_case = table.reshape(degree, pieces, len(self.cases), width)
        self._wrench = np.ascontiguousarray(np.moveaxis(by_case, 2, 0))
        self._breaks = merged.breaks
        self._counts = np.ceil(np.diff(merged.breaks) / self.step - 1e-9).astype(np.int64).clip(1)

    def start(self, case: Case) -> State:
        """The case's state at time zero."""
        if case.start is None:
            return State.at_rest(self.robot, relaxed(self.robot))
        return begin(self.robot, case.start, self.held)[0]

    def __call__(
        self,
        stiffness: Array,
        damping: Array,
        *,
        threads: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Verdicts:
        """Designs (B, soft axes each): N/m or N m/rad, N s/m or N m s/rad (on, when dampers switch)."""
        robot, model, cases = self.robot, self._model, len(self.cases)
        size = len(stiffness)
        for name, array in (("stiffness", stiffness), ("damping", damping)):
            if array.shape != (size, self.axes.size) or not np.all(array >= 0.0) or not np.all(np.isfinite(array)):
                raise InputError(
                    f"{name} must be ({size}, {self.axes.size}) numbers from zero on", place="design", hint=""
                )
        places, n = model.kernel.inputs, robot.n
        inputs = np.repeat(model.input(model.parameters())[None], size, axis=0)
        inputs[:, places["stiffness"].start + self.axes] = stiffness
        inputs[:, places["damping"].start + 6 + self.axes] = damping
        for name in self.held:
            inputs[:, places["mode"].start + robot.dof_index(name)] = 1.0
        off = np.minimum(np.full((size, n), self.off), inputs[:, places["damping"]][:, 6:])
        inputs = np.repeat(inputs, cases, axis=0)
        off = np.repeat(off, cases, axis=0)
        starts = np.tile(np.stack([start.vector for start in self._starts]), (size, 1))
        which = np.tile(np.arange(cases, dtype=np.int64), size)
        motion_kernel, watch_kernel = _kernels(robot, self.loads)
        width = host().lanes
        watch_in = watch_kernel.inputs
        constants = np.zeros(watch_kernel.n_in)
        constants[watch_in["inertia"]] = robot.inertia_parameters.ravel()
        constants[watch_in["rotor"]] = rotor_inertias(robot)
        sizes = (
            model.nx, robot.dofs, motion_kernel.n_in, motion_kernel.n_out, places["wrench"].start, 6 * len(self.loads),
            places["damping"].start + 6, places["rest"].start, watch_kernel.n_in, len(WATCHED), n,
        )  # fmt: skip
        bound = self.settling
        bounds = np.tile(np.array([bound.fraction, bound.velocity, bound.rate]), (cases, 1))
        total = size * cases
        peaks, travel = np.empty((total, len(WATCHED))), np.empty((total, 2, n))
        settled = np.empty((total, 2))
        addresses = motion_kernel.address(width), watch_kernel.address(width)

        def work(first: int) -> int:
            last = min(first + CHUNK, total)
            judge_lanes(
                *addresses, width, sizes, inputs, constants, starts, which, self._breaks, self._counts, self._wrench,
                off, self.axes, LAWS[self.law], bounds, first, last, peaks, travel, settled,
            )  # fmt: skip
            return last - first

        spread(work, range(0, total, CHUNK), total, threads=threads, progress=progress)
        latest = settled.max(axis=1)
        late = latest > LATEST * self.duration
        return Verdicts(
            peaks.reshape(size, cases, -1)[..., :9],
            travel.reshape(size, cases, 2, n),
            np.where(late, np.inf, latest).reshape(size, cases),
        )


@lru_cache(maxsize=8)
def _kernels(robot: Robot, loads: tuple[LoadFrame, ...]) -> tuple[Kernel, Kernel]:
    return (
        Kernel(motion_program(robot, loads, ledger=False), uniform=_SHARED),
        Kernel(watch_program(robot, loads), uniform=("inertia", "rotor")),
    )
