"""One motion of the forward model, fast: the engine's adaptive loop on this room's own kernels, without any ceremony.

The exact derivatives are integrated together with the motion, under the same error control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spacearm.checks import rising
from spacearm.engine import Kernel
from spacearm.engine.phase import make_stage, make_system, run_stage
from spacearm.engine.signals import merge
from spacearm.engine.solver import Options, Reason
from spacearm.engine.system import make_code
from spacearm.engine.warm import ensure_loops
from spacearm.errors import InputError
from spacearm.identify.joint.forward_model import Setup, programs
from spacearm.simulate import Signal
from spacearm.simulate.checks import check_angles
from spacearm.typing import Array

#: Joints that samples can show take about one step a sample. What takes more steps a sample than the first number is
#: stiff; more than the second, or than the third in all, and the motion is given up.
STIFF_PER_SAMPLE, MOST_PER_SAMPLE, MOST_STEPS = 10, 50, 200_000
#: Steps that every motion may take in any case, and that one test's stiff motions may take together.
SPARE_STEPS, MOST_STIFF = 1000, 1_000_000


@dataclass(frozen=True)
class Accuracy:
    """Local error of a step: ``atol + rtol * |state|`` (rad, rad/s, m, m/s)."""

    rtol: float = 1e-8
    atol: float = 1e-10


class Response(NamedTuple):
    """States (T, size) at the sample times, and their derivatives (T, size, directions) or None."""

    states: Array
    derivatives: Array | None


class _Loop:
    """Buffers and constants of one kernel in the engine's loop."""

    def __init__(self, kernel: Kernel, channels: list[tuple[int, Array, Array]], times: Array, accuracy: Accuracy):
        nx = kernel.inputs["state"].stop
        shift = {"path": kernel.inputs["path"].start, "torque": kernel.inputs["torque"].start}
        placed = [(shift["path"] + at if at >= 0 else shift["torque"] - at - 1, b, c) for at, b, c in channels]
        signals = merge(placed, float(times[-1]))
        system = make_system(make_code(kernel.address(1), nx, nx), np.zeros(kernel.n_in), kernel.n_out, signals)
        most = min(SPARE_STEPS + MOST_PER_SAMPLE * times.size, MOST_STEPS)
        options = Options(1, 0.0, accuracy.rtol, np.full(nx, accuracy.atol), float("inf"), most, 1)
        self.stage = make_stage(system, options, times)
        self.times = np.array(times)
        self.at = kernel.inputs["parameters"]

    def run(self, start: Array, parameters: Array) -> tuple[Array, Reason, float]:
        work, record = self.stage.system.work, self.stage.record
        work.inp[self.at] = parameters
        reason = run_stage(self.stage, start)
        record.times[:] = self.times
        # The last sample lies on the end of the last step.
        record.y[int(record.counts[0]) :] = work.y if reason == Reason.FINISHED else np.nan
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
        self.times = rising(times, "sample times", count=2, start=0.0, place="forward model")
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

    def changed(self, kind: Literal["path", "torque"], joint: str, signal: Signal) -> Forward:
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

    @property
    def exhausted(self) -> bool:
        """Whether stiff motions have taken so many steps that a search goes nowhere."""
        return self.stiff > MOST_STIFF + SPARE_STEPS * self.times.size

    def _run(self, loop: _Loop, start: Array, parameters: Array) -> Array:
        rows = loop.run(start, parameters)[0]
        counts = loop.stage.record.counts
        usual = STIFF_PER_SAMPLE * (self.times.size + 10)
        self.stiff += max(int(counts[2] + counts[3]) - usual, 0)
        return rows

    def _loop(self, derivatives: bool) -> _Loop:
        if derivatives not in self._loops:
            ensure_loops()
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
    ) -> Response:
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
            return Response(self._run(loop, y, parameters).copy(), None)
        many, size = len(setup.directions), setup.size
        moved = np.zeros((many, size))
        first = len(setup.parameters)
        for i in range(count):
            moved[first + i, setup.places["joints"].start + i] = 1.0
            moved[first + count + i, setup.places["velocity"].start + 6 + i] = 1.0
        rows = self._run(loop, np.concatenate([y, moved.ravel()]), parameters)
        tangents = rows[:, size:].reshape(-1, many, size).transpose(0, 2, 1)
        return Response(rows[:, :size].copy(), np.ascontiguousarray(tangents))

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

    def torque(self, response: Response, parameters: Array) -> tuple[Array, Array | None]:
        """Torque at every motor (T, flexible joints), and its derivatives along all directions."""
        code, count = programs(self.setup), len(self.setup.flexible)
        path, torque = self.inputs()
        arrays = {"path": path, "torque": torque, "parameters": np.asarray(parameters, float)}
        if response.derivatives is None:
            return code.torque({"state": response.states, **arrays})["out"], None
        moved = response.derivatives.transpose(0, 2, 1).reshape(self.times.size, -1)
        out = code.torque_tangent({"state": np.concatenate([response.states, moved], axis=1), **arrays})["out"]
        return out[:, :count], out[:, count:].reshape(self.times.size, -1, count).transpose(0, 2, 1)
