"""Many samples of one robot, step by step: commands in, states out, single samples set anew in between.

It is :func:`~spacearm.simulate.rollout`, standing still after each period: the same lanes, the same bits, with forces
that are given period by period. A sample's motion depends neither on the others nor on their number. As in roll-outs
there are no events, no contacts, no ledger and no dry friction; commands are bounded by the joints' efforts, and drives
at a joint's rate limit push no further, but do not brake.

A :class:`Servo` turns commands into forces within the period, in the same kernel as the motion: a period is one call,
however often the servo acts in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.engine.device import Device, Precision, check_precision, cupy, is_device_array, to_cupy, to_host
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols, Update
from spacearm.engine.schedule import Schedule
from spacearm.errors import InputError
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import Sensor
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.simulate.checks import check_robot, flat_states
from spacearm.simulate.ensemble.closed_motion import PASSIVE, close_motion, limit_rates, trim_motion
from spacearm.simulate.ensemble.rollout import SHARED, prepare_samples
from spacearm.simulate.overrides import robot_parameters
from spacearm.simulate.readings import state_readings
from spacearm.typing import Array

#: A period is a whole number of steps, up to this share of one.
WHOLE = 1e-9


@dataclass(frozen=True)
class Servo:
    """Forces from commands, evaluated anew several times in a period.

    Args:
        build: function of a :class:`~spacearm.control.Plant` with the robot's own numbers, and of the commands
            (size,), that returns the forces: an expression, written like a law. Equal functions share compiled code.
        size: how many numbers a command has.
        hold: integration steps over which forces are held; the steps of a period are a multiple.
    """

    build: Callable[[Plant, SX], SX]
    size: int
    hold: int = 1


@lru_cache(maxsize=32)
def _step_loop(
    robot: Robot,
    forces: tuple[str, ...],
    locked: tuple[str, ...],
    varied: frozenset[str],
    each: frozenset[str],
    servo: Servo | None = None,
) -> FixedStep:
    """A step of the motion with commands as an input, that are held over the period, or follow from a servo's."""
    own = robot_parameters(robot)
    motion = trim_motion(robot, (), locked, {name: own[name] for name in PASSIVE if name not in varied})
    motion = replace(motion, outputs={"rate": motion.outputs["rate"]})
    command = ca.SX.sym("command", len(forces))
    applied = ca.SX.zeros(robot.dofs)
    for k, name in enumerate(forces):
        dof = robot.dof_index(name)
        most = robot.joints[dof - 6].limits.effort if dof >= 6 else math.inf
        applied[dof] = ca.fmin(ca.fmax(command[k], -most), most) if math.isfinite(most) else command[k]
    given = {} if servo is None else {"given": ca.SX.sym("given", servo.size)}
    limited = limit_rates(applied, motion.inputs["state"], robot, forces)
    symbols = StepSymbols(close_motion(motion, robot, locked, {"force": limited}, {"command": command, **given}))
    uniform = [name for name in SHARED if name not in each]
    if servo is None:
        return FixedStep(symbols, uniform=uniform)
    plant = Plant(robot, own)
    answer = ca.SX(servo.build(plant, given["given"]))
    if answer.numel() != len(forces):
        raise InputError(f"the servo gives {answer.numel()} forces", place="VectorSimulator",
                         hint=f"expected {len(forces)}: {', '.join(forces)}")  # fmt: skip
    (answer,) = ca.substitute([ca.vec(answer)], [plant.state], [symbols.state])
    return FixedStep(symbols, uniform=uniform, law=Update({"command": answer}))


class VectorSimulator:
    """Many samples of one robot in time, step by step, in lanes of the processor or threads of a GPU.

    Args:
        robot: with a free base and without dry friction.
        starts: flat states (num_envs, nx), or one for all (nx,): position 3, quaternion 4, joints n, velocity 6 + n.
        num_envs: number of samples, if ``starts`` is one for all.
        forces: degrees of freedom that are commanded (N or N m); all joints that are not locked by default.
        period: s from step to step, over which commands are held.
        steps: integration steps (RK4) in a period.
        locked: degrees of freedom that do not move.
        servo: what makes forces of commands within the period; commands are forces without it.
        overrides: parameters as for :func:`~spacearm.simulate.rollout`, each for all samples or (num_envs, size).
        ignore_friction: consent to leave dry friction out.
        threads: results do not depend on their number.
        device: "gpu" keeps states on an NVIDIA GPU, as CuPy's arrays, which other libraries read by DLPack; commands
            may be arrays there. The same bits as on the processor in float64.
        precision: "float32" on a GPU only.
    """

    def __init__(
        self,
        robot: Robot,
        starts: npt.ArrayLike,
        num_envs: int | None = None,
        *,
        forces: Sequence[str] | None = None,
        period: float = 1e-3,
        steps: int = 1,
        locked: Sequence[str] = (),
        servo: Servo | None = None,
        overrides: Mapping[str, npt.ArrayLike] | None = None,
        ignore_friction: bool = False,
        threads: int | None = None,
        device: Device = "cpu",
        precision: Precision = "float64",
    ) -> None:
        place = "VectorSimulator"
        check_robot(robot, place)
        checks.one_of(device, ("cpu", "gpu"), "device", place=place)
        check_precision(precision, device == "gpu")
        self.robot, self.device = robot, device
        self.period = checks.positive(period, "period", unit="s", place=place)
        steps = checks.integer(steps, "steps", least=1, place=place)
        for name in (*locked, *(forces or ())):
            robot.dof_index(name)
        self.forces = tuple(n for n in robot.joint_names if n not in locked) if forces is None else tuple(forces)
        checks.unique(self.forces, "force")
        #: How many numbers a command has.
        self.command_size = len(self.forces) if servo is None else servo.size
        hold = 1 if servo is None else servo.hold
        if hold < 1 or steps % hold:
            raise InputError(
                f"the servo holds forces over {hold} steps", place=place, hint=f"expected a divisor of {steps}"
            )
        given = flat_states(starts, robot, place)
        if num_envs is not None and len(given) not in (1, num_envs):
            raise InputError(f"starts are {len(given)}", place=place, hint=f"expected one, or num_envs = {num_envs}")
        self.num_envs = len(given) if num_envs is None else checks.integer(num_envs, "num_envs", least=1, place=place)
        self._starts = np.array(np.broadcast_to(given, (self.num_envs, given.shape[1])))
        # What the base cannot do is locked too.
        self._locked = tuple(dict.fromkeys((*locked, *robot.base.locked_dofs)))
        # Inputs of all samples, and those of each.
        common, self._each = prepare_samples(
            robot, overrides, self.num_envs, ignore_friction=ignore_friction, place=place, locked=self._locked
        )
        varied = frozenset(overrides or ())
        self._loop = _step_loop(robot, self.forces, self._locked, varied, frozenset(self._each), servo)
        self._common = {name: value for name, value in common.items() if name in self._loop.inputs}
        # Copies: single rows are set anew.
        self._each = {name: np.array(value) for name, value in self._each.items() if name in self._loop.inputs}
        # A locked joint that moves would need an impulse to stop.
        self._check_still(self._starts)
        #: s since each sample's start, (num_envs,).
        self.times = np.zeros(self.num_envs)
        self._xp = cupy() if device == "gpu" else np
        commands = np.zeros((self.num_envs, self.command_size))
        self._input = "command" if servo is None else "given"
        self._samples = Ensemble(
            self._loop,
            Schedule(np.array([steps]), np.array([self.period / steps]), hold=hold),
            self._common | ({} if servo is None else {"command": np.zeros(len(self.forces))}),
            # On a GPU they stay there between steps.
            {"state": self._starts, self._input: commands} | {k: self._xp.asarray(v) for k, v in self._each.items()},
            every=steps,
            device=device,
            precision=precision,
            there=device == "gpu",
            threads=threads,
        )
        #: Flat states (num_envs, nx): always the same array, which the next step overwrites; on the device it is of.
        self.states: Array = self._xp.asarray(self._starts.copy(), dtype=precision)
        if device == "cpu":
            self.states = self._samples.rows[:, 0]
            self.states[:] = self._starts
        #: Values of each sample that were set anew since the last step.
        self._changed: dict[str, Any] = {}

    def step(self, commands: npt.ArrayLike) -> Array:
        """Go on by one period with these commands (num_envs, command_size) or (command_size,); the states then.

        Samples that come out of what numbers can hold are not finite from then on, until they are reset.
        """
        command = self._check_commands(commands)
        if self.device == "gpu":
            there = to_cupy(self._xp, command) if is_device_array(command) else self._xp.asarray(command)
            command = self._xp.broadcast_to(there, (self.num_envs, self.command_size))
        rows = self._samples.run(state=self.states, **{self._input: command}, **self._changed).rows
        self._changed = {}
        if self.device == "gpu":  # on the processor it records in ``states``
            self.states[:] = rows[:, 0]
        self.times += self.period
        return self.states

    def reset(
        self,
        mask: npt.ArrayLike | None = None,
        starts: npt.ArrayLike | None = None,
        overrides: Mapping[str, npt.ArrayLike] | None = None,
    ) -> Array:
        """Set samples anew; the states then.

        Args:
            mask: (num_envs,) which samples, as booleans; all by default.
            starts: their states (count, nx) or (nx,); those at the beginning by default.
            overrides: new values (count, size) of parameters that were given for each sample.
        """
        chosen = np.ones(self.num_envs, dtype=np.bool_) if mask is None else np.asarray(to_host(mask))
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_:
            raise InputError(
                f"mask is {chosen.dtype} {chosen.shape}", place="reset", hint=f"expected booleans ({self.num_envs},)"
            )
        rows = np.flatnonzero(chosen)
        # A copy, since rows are chosen by number: the starts themselves stay as they are.
        states = self._starts[rows]
        if starts is not None:
            given = flat_states(to_host(starts), self.robot, "reset")
            if len(given) not in (1, rows.size):
                raise InputError(f"starts are {len(given)}", place="reset", hint=f"expected one, or {rows.size}")
            states = np.array(np.broadcast_to(given, states.shape))
            self._check_still(states)
        for name in overrides or ():
            if name not in self._each:
                raise InputError(
                    f"{name!r} was not given for each sample", place="reset", hint=f"there are: {', '.join(self._each)}"
                )
        if overrides:
            same, new = prepare_samples(self.robot, overrides, rows.size, ignore_friction=True, place="reset")
            for name in overrides:
                self._each[name][rows] = new.get(name, same[name])
            changed = [name for name in overrides if name in self._loop.inputs]
            self._changed = {name: self._xp.asarray(self._each[name]) for name in changed}
        self.states[self._xp.asarray(rows)] = self._xp.asarray(states, dtype=self.states.dtype)
        self.times[rows] = 0.0
        return self.states

    def read(self, sensors: Sensor | Sequence[Sensor]) -> dict[str, Array]:
        """Present readings (num_envs, entries) of sensors of the state by name, with scale and bias, without noise."""
        listed = (sensors,) if isinstance(sensors, Sensor) else tuple(sensors)
        return state_readings(self.robot, listed).read(self.states)

    def _check_still(self, states: Array) -> None:
        still = Layout(self.robot.n).velocity.start + np.array([self.robot.dof_index(n) for n in self._locked], int)
        if np.any(states[:, still]):
            raise InputError("a locked degree of freedom moves at the start", place="VectorSimulator")

    def _check_commands(self, commands: Any) -> Any:
        shape = (self.num_envs, self.command_size)
        if is_device_array(commands):
            if self.device != "gpu":
                commands = to_host(commands)
            elif tuple(commands.shape) in (shape, shape[1:]):
                return commands
        array = checks.numbers(commands, "commands")
        if array.shape not in (shape, shape[1:]):
            raise InputError(f"commands have shape {array.shape}", place="step", hint=f"expected {shape}")
        if not np.isfinite(array).all():
            raise InputError("commands are not finite", place="step")
        return array
