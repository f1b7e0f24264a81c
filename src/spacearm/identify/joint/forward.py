"""The forward model of a test: one fast run of its equations of motion with exact derivatives.

The tangents dx/dp of parameters and start values are integrated with the state as one vector (forward sensitivity
equations: A. C. Hindmarsh et al., ACM Trans. Math. Softw. 31, 2005) under the same step-size control, so that residuals
and their derivatives belong to the same discretisation to within the tolerance. State and programs are those of
:mod:`spacearm.identify.joint._programs`.

The engine's adaptive loop runs on these kernels: no events, no friction with sticking, no controllers. A motion that
cannot be followed gives NaN, and budgets of work bound what a search may spend on stiff candidates: joints so stiff
that no sample shows their oscillation would otherwise take most of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import check_increasing
from spacearm.engine import Kernel
from spacearm.engine.phase import make_solver_phase, make_system
from spacearm.engine.signals import merge
from spacearm.engine.solver import EndReason, Options
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError, SimulationError
from spacearm.identify.joint._programs import Setup, programs
from spacearm.simulate import Signal
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

#: Joints that samples can show take about one step a sample. What takes more steps a sample than the first number is
#: stiff; more than the second, or than the third in all, and the motion is given up.
STIFF_PER_SAMPLE, MOST_PER_SAMPLE, MOST_STEPS = 10, 50, 200_000
#: Steps that every motion may take in any case, and that one test's stiff motions may take together.
SPARE_STEPS, MOST_STIFF = 1000, 1_000_000


#: Work that one search may take in any case, and for each sample: steps times numbers that are integrated, and what
#: each motion costs besides. The hardest search of the papers' cases takes 4e7 to 7e7, by the processor's rounding.
LEAST_WORK, WORK_PER_SAMPLE, WORK_PER_MOTION = 1.5e8, 2e4, 1.2e4
#: Work that a search by derivatives usually takes for each sample, and what a processor does in a second.
USUAL_WORK, WORK_PER_SECOND = 4e3, 3e6


@dataclass
class StepBudget:
    """Work that a search may still do, in the units of ``LEAST_WORK``."""

    left: float


_WORK: ContextVar[StepBudget | None] = ContextVar("work", default=None)


@contextmanager
def work_limit(samples: int, times: float = 1.0) -> Iterator[None]:
    """Context that limits the work of all motions run in it; beyond the limit they raise a :class:`SimulationError`.

    ``samples``: of all tests together; ``times``: multiple of what a search with derivatives may take. The limit is a
    context variable, so that it reaches every motion without an argument in each call; an inner context has its own.
    """
    token = _WORK.set(StepBudget(times * (LEAST_WORK + WORK_PER_SAMPLE * samples)))
    try:
        yield
    finally:
        _WORK.reset(token)


@dataclass(frozen=True)
class Accuracy:
    """Local error of a step: ``atol + rtol * |state|`` (rad, rad/s, m, m/s)."""

    rtol: float = 1e-8
    atol: float = 1e-10


class ForwardResponse(NamedTuple):
    """States (T, size) at the sample times, and their derivatives (T, size, directions) or None."""

    states: Array
    derivatives: Array | None


class _Loop:
    """Buffers and constants of one kernel in the engine's loop."""

    def __init__(self, kernel: Kernel, channels: list[tuple[int, Array, Array]], times: Array, accuracy: Accuracy):
        nx = kernel.inputs["state"].stop
        shift = {"path": kernel.inputs["path"].start, "torque": kernel.inputs["torque"].start}
        # Channels know their entry within "path" (at >= 0) or "torque" (at < 0); the loop wants places in the whole
        # input.
        placed = [(shift["path"] + at if at >= 0 else shift["torque"] - at - 1, b, c) for at, b, c in channels]
        signals = merge(placed, float(times[-1]))
        system = make_system(make_code(kernel.address(1), nx, nx), np.zeros(kernel.n_in), kernel.n_out, signals)
        # Samples cannot show oscillations much faster than themselves: more steps than this mean a useless candidate.
        most = min(SPARE_STEPS + MOST_PER_SAMPLE * times.size, MOST_STEPS)
        options = Options(1, 0.0, accuracy.rtol, np.full(nx, accuracy.atol), float("inf"), most, 1)
        self.stage = make_solver_phase(system, options, times)
        self.times = np.array(times)
        self.at = kernel.inputs["parameters"]

    def run(self, start: Array, parameters: Array) -> tuple[Array, EndReason, float]:
        work, record = self.stage.system.work, self.stage.record
        work.inp[self.at] = parameters
        # Buffers are reused by every motion; callers copy what they keep.
        reason = self.stage.run(start)
        record.times[:] = self.times
        # The last sample lies on the end of the last step.
        record.y[int(record.counts[0]) :] = work.y if reason == EndReason.FINISHED else np.nan
        return record.y, reason, float(self.stage.progress.now[0])


class Forward:
    """The forward model on one test's inputs.

    Args:
        paths: joint name to path, the clock starting with the test; every joint of ``setup.paths``, and with
            ``torque`` the motors' too, for their start.
        torques: flexible joint's name to the motor's known torque (N m); only with the drive ``torque``.
        times: sample times, s, the first being 0.
        base_velocity: base's linear and angular velocity at the start (6), base axes.
        base_pose: base's position and quaternion at the start (7).
    """

    def __init__(
        self,
        setup: Setup,
        paths: Mapping[str, Signal],
        times: npt.ArrayLike,
        *,
        torques: Mapping[str, Signal] | None = None,
        base_velocity: npt.ArrayLike = (0.0,) * 6,
        base_pose: npt.ArrayLike = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
        accuracy: Accuracy | None = None,
    ) -> None:
        self.setup = setup
        self.times = check_increasing(times, "sample times", count=2, start=0.0, place="forward model")
        self.accuracy = accuracy or Accuracy()
        self.evaluations = 0
        self.stiff = 0  # steps of motions that are stiff, beyond what is usual
        self.torques = dict(torques or {})
        names = setup.robot.joint_names
        needed = {*setup.paths, *(f.motor for f in setup.flexible)}
        for joint in needed:
            if names[joint] not in paths:
                raise InputError(
                    f"joint {names[joint]!r} has no encoder data", place="forward model",
                    hint="every joint but the flexible links needs its measured angle",
                )  # fmt: skip
            angles = np.zeros((self.times.size, setup.robot.n))
            angles[:, joint] = paths[names[joint]](self.times)
            check_angles(setup.robot, angles, "forward model")
        self._channels: list[tuple[int, Array, Array]] = []  # entry of path, or -1 - entry of torque
        for k, joint in enumerate(setup.paths):
            path = paths[names[joint]]
            rate = path.derivative()
            # Position, rate and acceleration as three channels: the derivatives of piecewise polynomials are exact.
            for entry, signal in enumerate((path, rate, rate.derivative())):
                self._channels.append((3 * k + entry, signal.breaks, signal.coefficients))
        if setup.drive == "torque":
            for k, f in enumerate(setup.flexible):
                if torques is None or f.name not in torques:
                    raise InputError(f"the torque of {f.name!r} is not given", place="forward model")
                self._channels.append((-1 - k, torques[f.name].breaks, torques[f.name].coefficients))
        self._base = np.concatenate([np.asarray(base_velocity, float), np.asarray(base_pose, float)])
        starts = [(float(paths[names[f.motor]](0.0)), float(paths[names[f.motor]].derivative()(0.0)))
                  for f in setup.flexible]  # fmt: skip
        self._motors = np.array(starts)
        self.paths = dict(paths)
        self._loops: dict[bool, _Loop] = {}

    def with_input(self, kind: Literal["path", "torque"], joint: str, signal: Signal) -> Forward:
        """The same with another path of a joint, or another torque of a flexible joint's motor."""
        changed = {joint: signal}
        return Forward(
            self.setup,
            {**self.paths, **(changed if kind == "path" else {})},
            self.times,
            torques={**self.torques, **(changed if kind == "torque" else {})},
            base_velocity=self._base[:6],
            base_pose=self._base[6:],
            accuracy=self.accuracy,
        )

    def with_setup(self, setup: Setup) -> Forward:
        """The same with another set-up."""
        return Forward(setup, self.paths, self.times, torques=self.torques, base_velocity=self._base[:6],
                       base_pose=self._base[6:], accuracy=self.accuracy)  # fmt: skip

    @property
    def is_exhausted(self) -> bool:
        """Whether stiff motions have taken so many steps that a search goes nowhere."""
        return self.stiff > MOST_STIFF + SPARE_STEPS * self.times.size

    def _run(self, loop: _Loop, start: Array, parameters: Array) -> Array:
        rows = loop.run(start, parameters)[0]
        counts = loop.stage.record.counts
        # Ten samples more for the first steps, in which the step size is found.
        usual = STIFF_PER_SAMPLE * (self.times.size + 10)
        steps = int(counts[2] + counts[3])
        self.stiff += max(steps - usual, 0)
        if (work := _WORK.get()) is not None:
            work.left -= steps * start.size + WORK_PER_MOTION
            if work.left < 0.0:
                raise SimulationError(
                    "the search does not end within its budget of steps",
                    place="identification",
                    hint="units, columns or noise may be wrong; else give start values and bounds nearer to the truth",
                )
        return rows

    def _loop(self, derivatives: bool) -> _Loop:
        if derivatives not in self._loops:
            ensure_loops()
            # Compiled on first use: many problems are built and never differentiated.
            code = programs(self.setup)
            kernel = code.tangent if derivatives else code.plain
            self._loops[derivatives] = _Loop(kernel, self._channels, self.times, self.accuracy)
        return self._loops[derivatives]

    def start(self, offset: Array, rate: Array) -> Array:
        """State at the start for these offsets (rad) and their rates (rad/s), link minus motor."""
        setup, count = self.setup, len(self.setup.flexible)
        y = np.zeros(setup.size)
        joints, velocity = y[setup.places["joints"]], y[setup.places["velocity"]]
        ratio = np.array([f.ratio for f in setup.flexible])
        # Offsets count from the relaxed spring: small numbers near zero, whatever the joint's angle.
        joints[:count] = ratio * self._motors[:, 0] + [f.rest for f in setup.flexible] + offset
        velocity[:6] = self._base[:6]
        velocity[6 : 6 + count] = ratio * self._motors[:, 1] + rate
        if setup.drive != "motor_angle":
            joints[count:], velocity[6 + count :] = self._motors[:, 0], self._motors[:, 1]
        y[setup.places["reference"]] = self._base[:6][
            : setup.places["reference"].stop - setup.places["reference"].start
        ]
        if setup.pose:
            y[setup.places["position"]], y[setup.places["quaternion"]] = self._base[6:9], self._base[9:13]
        return y

    def __call__(
        self, parameters: Array, offset: Array, rate: Array | None = None, *, derivatives: bool = False
    ) -> ForwardResponse:
        """Integrate once; what cannot be reached (an unstable candidate) is NaN.

        Args:
            parameters: values of ``setup.parameters``.
            offset, rate: of every flexible joint at the start.
        """
        setup, count = self.setup, len(self.setup.flexible)
        loop = self._loop(derivatives)
        y = self.start(offset, np.zeros(count) if rate is None else rate)
        self.evaluations += 1
        if not derivatives:
            return ForwardResponse(self._run(loop, y, parameters).copy(), None)
        many, size = len(setup.directions), setup.size
        # Initial tangents: parameters do not move the start; an offset moves its link's angle, its rate the link's
        # rate.
        moved = np.zeros((many, size))
        first = len(setup.parameters)
        for i in range(count):
            moved[first + i, setup.places["joints"].start + i] = 1.0
            moved[first + count + i, setup.places["velocity"].start + 6 + i] = 1.0
        rows = self._run(loop, np.concatenate([y, moved.ravel()]), parameters)
        tangents = rows[:, size:].reshape(-1, many, size).transpose(0, 2, 1)
        return ForwardResponse(rows[:, :size].copy(), np.ascontiguousarray(tangents))

    def inputs(self) -> tuple[Array, Array]:
        """Paths (T, 3 for each joint) and torques (T, flexible joints) at the sample times."""
        setup = self.setup
        path = np.zeros((self.times.size, 3 * len(setup.paths)))
        torque = np.zeros((self.times.size, len(setup.flexible) if setup.drive == "torque" else 0))
        for at, breaks, coefficients in self._channels:
            values = Signal(breaks, coefficients)(self.times)
            if at >= 0:
                path[:, at] = values
            else:
                torque[:, -at - 1] = values
        return path, torque

    def slopes(self, states: Array, parameters: Array) -> Array:
        """Derivatives (T, size, size + inputs) of the states' rates by states, paths and torques, at the samples."""
        path, torque = self.inputs()
        arrays = {"state": states, "path": path, "torque": torque, "parameters": np.asarray(parameters, float)}
        flat = programs(self.setup).slopes(arrays)["out"]
        return flat.reshape(states.shape[0], -1, self.setup.size).transpose(0, 2, 1)

    def torque(self, response: ForwardResponse, parameters: Array) -> tuple[Array, Array | None]:
        """Torque at every motor (T, flexible joints), and its derivatives along all directions."""
        code, count = programs(self.setup), len(self.setup.flexible)
        path, torque = self.inputs()
        arrays = {"path": path, "torque": torque, "parameters": np.asarray(parameters, float)}
        if response.derivatives is None:
            return code.torque({"state": response.states, **arrays})["out"], None
        # Into the order in which the program stacks tangents: direction by direction.
        moved = response.derivatives.transpose(0, 2, 1).reshape(self.times.size, -1)
        out = code.torque_tangent({"state": np.concatenate([response.states, moved], axis=1), **arrays})["out"]
        return out[:, :count], out[:, count:].reshape(self.times.size, -1, count).transpose(0, 2, 1)
