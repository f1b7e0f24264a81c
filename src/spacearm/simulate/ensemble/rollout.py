"""Roll-outs: vectorised fixed-step RK4 of one state or many; states at steps only.

For searches, learning and Monte Carlo: no events, no samples between steps, no ledger. The motion program is compiled
with everything that a roll-out cannot use set to zero, and evaluated for several samples at once, one in each lane of
the processor's vector registers, or one in each thread of a GPU. Chunks of samples go to threads; each sample is
computed alone, so results do not depend on the number of threads.

Forces are constant on each step or for all; a sampled law is evaluated every ``hold`` steps, a continuous one in every
stage (k = 1..4 at t, t + h/2, t + h/2, t + h). References are piecewise polynomials that switch at steps only.

States (B, nx) or (nx,): position 3, quaternion 4, joints n, velocity 6 + n; SI units. Dry friction needs events and is
rejected, or ignored on request; roll-outs have no contacts: use simulate_batch.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import integer, numbers, one_of, positive
from spacearm.engine import NonFiniteWarning
from spacearm.engine.device import Device, Precision, check_precision, cupy, is_device_array, to_cupy
from spacearm.engine.ensemble import Ensemble
from spacearm.engine.fixed_step import FixedStep, StepSymbols
from spacearm.engine.schedule import Schedule
from spacearm.errors import InputError, error_context
from spacearm.model import Robot
from spacearm.model.layout import Layout
from spacearm.model.massless import check_massless
from spacearm.simulate.checks import check_mapping, check_robot, flat_states
from spacearm.simulate.ensemble._observe import OBSERVED_INPUTS, Extremes, MotionObserver, Observe, motion_observer
from spacearm.simulate.ensemble.closed_motion import PASSIVE, close_motion, law_symbols, limit_rates, trim_motion
from spacearm.simulate.law import Law, PythonLaw
from spacearm.simulate.overrides import check_friction, check_mass, check_parameter, robot_parameters, with_base
from spacearm.simulate.signals import Signal
from spacearm.typing import Array

SHARED = ("inertia", "rotor", "stiffness", "rest", "damping", "coupling")


@lru_cache(maxsize=32)
def _loop(
    robot: Robot,
    varied: frozenset[str],
    each: frozenset[str],
    law: Law | None = None,
    watch: MotionObserver | None = None,
) -> FixedStep:
    """The closed loop of a robot and a law, with forces of the caller beside the law's.

    Args:
        varied: parameters that are not the robot's own.
        each: those that differ from sample to sample.
    """
    own = robot_parameters(robot)
    passive = {name: own[name] for name in PASSIVE if name not in varied}
    driven, frames = ((), ()) if law is None else (law.acceleration_dofs(robot), law.frames(robot))
    # What is zero for all samples (a spring that no joint has) is written as zero, so that products with it leave the
    # program.
    motion = trim_motion(robot, frames, driven, passive)
    motion = replace(motion, outputs={"rate": motion.outputs["rate"]})
    force, state = motion.inputs["force"], motion.inputs["state"]
    commands, inputs, update, memory_rate = {"force": force}, {"force": force}, None, None
    if law is not None:
        asked, more, update, memory_rate = law_symbols(law, robot, state, frames)
        commands, inputs = commands | asked, inputs | more
        if "force" in asked:
            # A continuous law acts in every stage: what it asks for at a rate limit is its own affair.
            bounded = law.commands_of(robot) if law.limited and law.period is not None else ()
            commands["force"] = force + limit_rates(asked["force"], state, robot, bounded)
    closed = close_motion(motion, robot, driven, commands, inputs)
    if memory_rate is not None:
        closed = replace(closed, outputs={**closed.outputs, "memory_rate": memory_rate})
    symbols = StepSymbols(closed)
    # Inputs that all samples share are read once for all lanes.
    uniform = [name for name in SHARED if name not in each]
    return FixedStep(symbols, uniform=uniform, law=update, observer=None if watch is None else watch.update(symbols))


def _timetable(law: Law | None, step: float, count: int, pieces: int) -> tuple[Array, Array]:
    """First steps of the intervals on which forces and references are smooth, and the references' polynomials there.

    A sampled law reads its references at steps only: an interval begins with the first step that is not before its
    break. A continuous law reads them within steps as well, so that a break must be at a step.
    """
    firsts = {k * (count // pieces): k * (count // pieces) * step for k in range(pieces)}
    signals = [] if law is None else [Signal(*channel) for channel in law.channels()]
    for time in sorted({time for signal in signals for time in signal.breaks[1:-1].tolist()}):
        # The first step not before the break; 1e-9 for a break that is on a step but for rounding.
        first = int(np.ceil(time / step - 1e-9))
        if 0 < first < count:
            if law is not None and law.period is None and abs(first * step - time) > 1e-9 * time:
                raise InputError(f"a reference has a break at {time:g} s, within a step", place=law.place,
                                 hint=f"choose a step that divides it instead of {step:g} s")  # fmt: skip
            firsts[first] = max(first * step, time)
    edges = sorted(firsts)
    at_edges, rows = np.array([firsts[edge] for edge in edges]), []
    degree = max((len(signal.coefficients) for signal in signals), default=1)
    # Taylor coefficients at each edge: the polynomial of an interval, shifted to the time since its first step.
    for power in range(degree):
        rows.append([signal(at_edges) / math.factorial(power) for signal in signals])
        signals = [signal.derivative() for signal in signals]
    table = np.array(rows).reshape(degree, len(signals), len(edges)).swapaxes(1, 2)
    return np.array(edges), table[None]


def _check_law(law: Law | None, step: float) -> int:
    """Number of steps between two ticks."""
    if law is None:
        return 1
    if isinstance(law, PythonLaw):
        raise InputError("is not an expression", place=law.place, hint="write it as one, or use simulate")
    if law.period is None:
        return 1
    hold = round(law.period / step)
    if hold < 1 or abs(law.period / step - hold) > 1e-9 * hold:
        raise InputError(f"its period of {law.period:g} s is not a multiple of the step of {step:g} s", place=law.place)
    return hold


def rollout(
    robot: Robot,
    starts: npt.ArrayLike,
    step: float,
    count: int,
    *,
    forces: npt.ArrayLike | None = None,
    law: Law | None = None,
    overrides: Mapping[str, npt.ArrayLike] | None = None,
    every: int | None = None,
    threads: int | None = None,
    ignore_friction: bool = False,
    progress: Callable[[int, int], None] | None = None,
    device: Device = "cpu",
    precision: Precision = "float64",
) -> Array:
    """States after every ``every`` steps (default: the last only): (count // every, nx) or (B, count // every, nx).

    Args:
        starts: flat states (nx,) or (B, nx): position 3, quaternion 4, joints n, velocity 6 + n.
        step: s.
        count: number of steps.
        forces: generalised forces, held over each step: (nv,), (B, nv) or (B or 1, count or 1, nv).
        law: law whose forces act in addition: sampled, with a period that is a multiple of the step, or continuous.
        overrides: parameters as in :func:`simulate`, each for all samples, or (B, size) for each.
        threads: results do not depend on their number.
        ignore_friction: roll-outs have no dry friction; a robot with dry friction needs this consent.
        device: "gpu" runs each sample in a thread of an NVIDIA GPU, with the same bits in float64. Starts, forces and
            overrides may then be arrays on the GPU (CuPy's, or anything with DLPack), and the result is CuPy's if
            ``starts`` is; arrays on the GPU are not checked for invalid numbers.
        precision: "float32", on the GPU only: twice as fast, errors of some 1e-6.
    """
    given = (forces, law, overrides, every, threads, ignore_friction, progress, device, precision)
    return _run_rollout(robot, starts, step, count, None, *given)[0]


def rollout_extremes(
    robot: Robot, starts: npt.ArrayLike, step: float, count: int, observe: Observe, **options: Any
) -> Extremes:
    """Roll out as :func:`rollout` does, with the smallest and largest values of the quantities that ``observe``
    gives.

    Args:
        observe: function from a :class:`~spacearm.control.Plant` to names and expressions, written like laws; they
            are evaluated at the start of each step and at the end, with the parameters of each sample. Keep the
            function: the compiled code is cached by it.
    """
    unknown = [name for name in options if name not in _OPTIONS]
    if unknown:
        raise InputError(f"there is no option {unknown[0]!r}", place="rollout", hint=f"there are {', '.join(_OPTIONS)}")
    check_robot(robot, "rollout")
    watch = motion_observer(robot, observe)
    return watch.split_extremes(*_run_rollout(robot, starts, step, count, watch, **_OPTIONS | options))


#: Options of a roll-out.
_OPTIONS: dict[str, Any] = dict.fromkeys(("forces", "law", "overrides", "every", "threads", "progress"))
_OPTIONS |= {"ignore_friction": False, "device": "cpu", "precision": "float64"}


def _run_rollout(
    robot: Robot,
    starts: npt.ArrayLike,
    step: float,
    count: int,
    watch: MotionObserver | None,
    forces: npt.ArrayLike | None,
    law: Law | None,
    overrides: Mapping[str, npt.ArrayLike] | None,
    every: int | None,
    threads: int | None,
    ignore_friction: bool,
    progress: Callable[[int, int], None] | None,
    device: Device,
    precision: Precision,
) -> tuple[Array, Any]:
    """States, and what an observer keeps."""
    check_robot(robot, "rollout")
    count, every = _lengths(step, count, every)
    hold, gpu = _check_law(law, step), _uses_gpu(device, precision)
    there = gpu and is_device_array(starts)
    if there:
        states, single = _device_rows(starts, Layout(robot.n).size)
    else:
        states, single = flat_states(starts, robot, "rollout"), np.ndim(starts) == 1
    size = len(states)
    # Overrides are few numbers; those on the device are checked here like any others.
    own = {name: cupy().asnumpy(v) if is_device_array(v) else v for name, v in (overrides or {}).items()}
    parameters, each = prepare_samples(robot, own, size, ignore_friction=ignore_friction)
    # By which parameters vary, not by their values: other numbers find compiled code.
    loop = _loop(robot, frozenset(own), frozenset(each), law, watch)
    if watch is not None:
        parameters = parameters | watch.start()
    if law is not None and "memory" in loop.inputs:
        parameters = parameters | {"memory": law.program(robot).memory}
    force = shape_forces(to_cupy(cupy(), forces) if is_device_array(forces) else forces, size, count, robot.dofs)
    # A GPU reads forces step by step; on the processor each is a piece, and so are pieces by which a law has its time.
    pieces = 1 if gpu and law is None else force.shape[1]
    samples = Ensemble(
        loop,
        _make_schedule(law, robot, float(step), count, pieces, hold),
        parameters,
        {"state": states, **each},
        every=every,
        held=("force", force),
        kept=() if watch is None else OBSERVED_INPUTS,
        device=device,
        precision=precision,
        there=there,
        threads=threads,
        # A single sample in the lanes of many would compute the others for nothing.
        width=1 if single else None,
    )
    rows, ends, bad = samples.run(progress)
    # A GPU counts bad samples there: its results need not be copied to be checked.
    if bad is None or bad:
        xp = cupy() if there else np
        _warn_of_bad_samples(xp.flatnonzero(~xp.isfinite(rows[:, -1]).all(axis=1)), size)
    return (rows[0], ends[0]) if single else (rows, ends)


def _device_rows(starts: Any, size: int) -> tuple[Any, bool]:
    """States (B, nx) on the GPU, as they are, and whether it is one without an axis for samples."""
    cp = cupy()
    states = to_cupy(cp, starts)
    if states.dtype not in (np.float64, np.float32) or states.ndim not in (1, 2) or states.shape[-1] != size:
        hint = f"expected float64 ({size},) or (B, {size})"
        raise InputError(f"starts are {states.dtype} {states.shape}", place="rollout", hint=hint)
    return cp.atleast_2d(states), states.ndim == 1


def _make_schedule(law: Law | None, robot: Robot, step: float, count: int, pieces: int, hold: int) -> Schedule:
    """Steps and references; on each of the ``pieces`` forces are constant."""
    edges, table = _timetable(law, step, count, pieces)
    counts = np.diff(np.append(edges, count))  # steps of each interval between edges
    # All steps are of the same length; edges only say where polynomials change.
    schedule = Schedule(counts, np.full(len(counts), step), hold=hold)
    if law is None:
        return schedule
    schedule = schedule._replace(random_channels=law.random_channels(robot), seed=law.seed, draw=law.draw)
    if law.period is None and table.size:  # its references are inputs of every stage, as forces are
        return schedule._replace(channels=("reference",), coefficient=table)
    return schedule._replace(reference=table)


def _warn_of_bad_samples(bad: Any, size: int) -> None:
    """Warn of samples, given by their indices, that are not finite at the end."""
    if bad.size:
        warnings.warn(
            f"rollout: {bad.size} of {size} samples ended in numbers that are not finite, the first at index "
            f"{int(bad[0])}",
            NonFiniteWarning,
            stacklevel=4,
        )


def _uses_gpu(device: str, precision: str) -> bool:
    """Whether it runs on the GPU, checked."""
    with error_context("rollout"):
        one_of(device, ("cpu", "gpu"), "device")
        check_precision(precision, device == "gpu")
    return device == "gpu"


def prepare_samples(
    robot: Robot,
    overrides: Mapping[str, npt.ArrayLike] | None,
    size: int,
    *,
    ignore_friction: bool,
    place: str = "rollout",
    locked: Collection[str] = (),
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Parameters for all samples, and those of each; raises an error if lanes do not support the robot."""
    common, each = split_overrides(robot, overrides, size)
    parameters = robot_parameters(robot, common)
    if not ignore_friction and np.any(each.get("static_friction", parameters["static_friction"]) > 0):
        raise InputError(
            f"robot {robot.name!r} has dry friction",
            place=place,
            hint="use simulate_batch, or pass ignore_friction=True",
        )
    if not robot.base.is_free and not {*robot.base.locked_dofs} <= {*locked}:
        raise InputError(
            f"the base of robot {robot.name!r} is {robot.base.kind}, but roll-outs support free bases only",
            place=place,
            hint="use simulate_batch",
        )
    # Given inertias are checked row by row: those of the robot then do not count.
    if not {"inertia", "rotor"} & {*(overrides or ())}:
        check_massless(robot, list(locked))
    return parameters, each


def _lengths(step: float, count: int, every: int | None) -> tuple[int, int]:
    """Numbers of steps, in total and between records."""
    with error_context("rollout"):
        count = integer(count, "count", least=1)
        positive(step, "step", unit="s")
        return count, count if every is None else integer(every, "every", least=1, most=count)


def shape_forces(forces: Any, size: int, count: int, dofs: int) -> Any:
    """Forces (B or 1, count or 1, nv), checked; (1, 1, 0) without any. Arrays on a GPU stay there."""
    if forces is None:
        return np.zeros((1, 1, 0))
    array = forces if hasattr(forces, "__cuda_array_interface__") else numbers(forces, "forces of the rollout")
    if array.ndim == 1:
        array = array[None, None]
    elif array.ndim == 2:
        array = array[:, None]
    fits = array.ndim == 3 and array.shape[0] in (1, size) and array.shape[1] in (1, count) and array.shape[2] == dofs
    if not fits:
        raise InputError(
            f"forces have shape {tuple(forces.shape) if hasattr(forces, 'shape') else np.shape(forces)}",
            place="rollout",
            hint=f"expected ({dofs},), ({size}, {dofs}) or ({size} or 1, {count} or 1, {dofs})",
        )
    return array


def split_overrides(
    robot: Robot, overrides: Mapping[str, npt.ArrayLike] | None, size: int
) -> tuple[dict[str, npt.ArrayLike], dict[str, Array]]:
    """Overrides for all samples, and those given for each sample as (B, size), checked row by row.

    Dampings and frictions may be given for the joints alone, (B, n): the base then has none.
    """
    common: dict[str, npt.ArrayLike] = {}
    each: dict[str, Array] = {}
    check_mapping(overrides or {}, "overrides", "parameter to numbers")
    if not overrides:
        return common, each
    own = robot_parameters(robot)
    for name, value in overrides.items():
        # As arrays first: lists of lists and arrays of any library are the same from here on.
        array = numbers(value, f"overrides, {name!r}")
        if array.ndim == 2 and len(array) == size:
            array = with_base(robot, name, array)
        rows = array.ndim > 1 and array.shape[0] == size and name in own and array.size == size * own[name].size
        # A table (k, 10) is one set of inertias of k bodies for all samples, not k samples.
        if rows and not (name == "inertia" and array.ndim == 2 and array.shape[1] == 10):
            each[name] = array.reshape(size, -1)
        else:
            common[name] = array
    frictions = ("static_friction", "coulomb_friction")
    if any(name in each for name in frictions):
        # One of the two may be the same for all: they are checked together, row by row.
        for name in frictions:
            if name not in each:
                same = check_parameter(robot, name, common.pop(name, own[name]), robot.dofs)
                each[name] = np.array(np.broadcast_to(same, (size, robot.dofs)))
        check_friction(*(each[name] for name in frictions))
    if "inertia" in each:
        check_mass(each["inertia"])
    robot_parameters(robot, common)  # names and sizes
    return common, each
