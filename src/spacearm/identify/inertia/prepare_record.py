"""A record of any origin as the equations of inertia take it: on one clock, with the wrench of what was commanded.

Runs, tables of a laboratory and simulated experiments are all :class:`spacearm.measure.Record` s. Here their channels,
which may have been read at different rates, come to the times of the slowest one by splines, and commands become
forces: a thruster's level, steady from break to break of its signal, is a wrench on the base; a joint's path gives its
acceleration. Noise that a channel does not state is taken from the scatter of its readings, and joints without a
command that are seen to move are not taken as locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from spacearm import measure
from spacearm.checks import array
from spacearm.errors import InputError, error_context
from spacearm.identify.inertia._constrained_readings import complete_channels, constrain_readings
from spacearm.identify.inertia._encoders import detect_moving_joints
from spacearm.identify.inertia._modal_motion import driven_indices
from spacearm.identify.inertia.readings import BASE_CHANNELS, MotionRecord
from spacearm.measure.attitude import to_quaternions
from spacearm.measure.channels import CHANNELS, TYPICAL_NOISE
from spacearm.measure.clean import noise_from_scatter
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.simulate.loads import thrust_wrench
from spacearm.typing import Array

#: Instants closer than this are the same, s: sums of durations are rounded.
SAME = 1e-9


def prepare_record(
    robot: Robot, record: measure.Record, *, known_momentum: npt.ArrayLike | None = None
) -> MotionRecord:
    """The record of an experiment with this robot.

    Channels are those of :mod:`spacearm.measure.channels`; others are left alone. Where they were read at different
    times, those of the channel with the fewest readings count, and splines through the others. Noise that is not known
    is taken from the scatter of the readings. Commands are levels of thrusters, steady from break to break, and paths
    of joints; joints without one that are seen to move are not taken as locked. Channels of joints may leave out modes.

    Of a base in a plane or on a rail only what moves need be measured: of a position its columns along them, of an
    attitude one angle.

    Args:
        known_momentum: momentum and angular momentum (6,) at the start about the world's origin, world axes, where they
            need not be estimated; zeros of a robot that was at rest.
    """
    with error_context(record.place):
        used = record.select([name for name in record.channels if name in CHANNELS])
        if not used.channels:
            raise InputError("has no channel that shows inertias", hint="expected some of " + ", ".join(CHANNELS))
        used, clock = complete_channels(robot.base, used), _common_times(used)
        readings = {}
        for name, channel in used.channels.items():
            # The slowest channel has the clock: readings are interpolated between finer ones, not invented between
            # coarse ones.
            own = channel if np.array_equal(channel.times, clock) else channel.resample(clock, "spline")
            size = CHANNELS[name].size or robot.n
            values = to_quaternions(own.values, record.source or None) if name == "attitude" else own.values
            if CHANNELS[name].size is None and robot.mode_names:
                values = _with_modes(robot, name, values)
            readings[name] = array(values, repr(name), (clock.size, 4 if name == "attitude" else size), finite=False)
        commands = {name: signal.shift(-float(clock[0])) for name, signal in record.commands.items()}
        # From zero: powers of dates would lose digits.
        times = clock - clock[0]
        thrusters, edges = _thruster_wrenches(robot, times, commands)
        made = MotionRecord(
            name=record.name,
            times=times,
            readings=readings,
            mount=_common_mount(used),
            wrench=np.sum([np.zeros((times.size, 6)), *thrusters.values()], axis=0),
            edges=edges,
            thrusters=thrusters,
            joint_acceleration=None,
            moving=tuple(joint in commands for joint in robot.joint_names),
            sigma={},
            known_momentum=None if known_momentum is None else array(known_momentum, "known_momentum", (6,)),
        )
        made = constrain_readings(made, robot.base)
        return _complete(robot, made, used, {n: s for n, s in commands.items() if n in robot.joint_names})


def _with_modes(robot: Robot, name: str, values: Array) -> Array:
    """Readings of all joints, of those that are no modes if so many were read: modes are then at rest in them."""
    driven = driven_indices(robot)
    if values.shape[-1] != len(driven):
        return values
    full = np.zeros((*values.shape[:-1], robot.n))
    if name == "joint_position":
        full += [0.0 if joint.spring is None else joint.spring.rest for joint in robot.joints]
    full[..., driven] = values
    return full


def _thruster_wrenches(
    robot: Robot, times: Array, commands: Mapping[str, Signal]
) -> tuple[dict[str, Array], tuple[float, ...]]:
    """Wrench (T, 6) at the samples of each thruster that fires, and the times (s) at which any switches.

    A sample belongs to the interval that begins there, the last one to that which ends.
    """
    duration, names = float(times[-1]), [part.name for part in robot.thrusters]
    levels = {name: signal for name, signal in commands.items() if name in names}
    firings = {name: firing_intervals(name, signal, duration) for name, signal in levels.items()}
    firings = {name: intervals for name, intervals in firings.items() if intervals}
    edges = np.array(join_edges(firings.values(), duration))
    # A switch at a sample is at that very sample, without the rounding of sums of durations.
    nearest = times[np.abs(edges[:, None] - times).argmin(axis=1)]
    edges = np.where(np.abs(nearest - edges) < SAME, nearest, edges)
    # A hair inside the interval that each sample stands for: a level that switches there is unambiguous.
    inside = np.append(times[:-1] + SAME, times[-1] - SAME)
    found = {}
    for name, intervals in firings.items():
        level = np.zeros(times.size)
        for start, end, value in intervals:
            level[(inside > start) & (inside < end)] = value
            if not np.any((times >= start - SAME) & (times < end - SAME)):
                raise InputError(
                    f"thruster {name!r} fires between two samples, from {start:g} s to {end:g} s",
                    hint="sample more often: its impulse would be lost",
                )
        found[name] = level[:, None] * wrench_of(robot, name)
    return found, tuple(edges.tolist())


def firing_intervals(thruster: str, level: Signal, duration: float) -> list[tuple[float, float, float]]:
    """Start, end (s) and level of each interval within ``duration`` in which a thruster fires."""
    with error_context(f"command {thruster!r}"):
        if np.any(level.coefficients[1:] != 0.0):
            raise InputError("changes between its breaks", hint="expected levels that hold from break to break")
        inner = level.breaks[(level.breaks > SAME) & (level.breaks < duration - SAME)]
        found: list[tuple[float, float, float]] = []
        for low, high in pairwise([0.0, *inner.tolist(), duration]):
            value = float(level(0.5 * (low + high)))
            if not 0.0 <= value <= 1.0 + 1e-9:
                raise InputError(f"is {value:g}", hint="expected a level from 0 to 1")
            if found and found[-1][1] == low and abs(found[-1][2] - value) <= 1e-12:
                # A break at which nothing changes, as where another thruster begins a phase, is not a switch.
                found[-1] = found[-1][0], high, found[-1][2]
            elif value > 0.0:
                found.append((low, high, value))
        return found


def join_edges(firings: Iterable[Sequence[tuple[float, float, float]]], duration: float) -> list[float]:
    """Times (s) at which any thruster switches, with the start and the end, each once."""
    edges = [0.0]
    for time in sorted({time for intervals in firings for start, end, _ in intervals for time in (start, end)}):
        if edges[-1] + SAME < time < duration - SAME:
            edges.append(time)
    return [*edges, float(duration)]


def wrench_of(robot: Robot, thruster: str) -> Array:
    """Wrench (6,) of a thruster at full thrust at the base's origin, base axes; it must sit on the base."""
    part = robot.thruster(thruster)
    if part.body != robot.bodies[0].name:
        raise InputError(f"sits on {part.body!r}", place=f"thruster {thruster!r}", hint="expected the base")
    return thrust_wrench(robot, thruster)


def _complete(robot: Robot, made: MotionRecord, used: measure.Record, paths: Mapping[str, Signal]) -> MotionRecord:
    """With deviations, and accelerations of the joints where they are commanded."""
    sigma, unknown = {}, []
    for name, channel in used.channels.items():
        # One deviation for a channel: the mean of the variances, where each reading states its own.
        size = np.sqrt(np.mean(np.square(channel.sigma)))
        sigma[name] = float(size) if np.isfinite(size) else 0.0
        unknown += [name] if not np.isfinite(size) else []
    acceleration = np.zeros((made.times.size, robot.n))
    for name, path in paths.items():
        acceleration[:, robot.joint_index(name)] = path.derivative().derivative()(made.times)
    made = replace(
        made,
        sigma=sigma,
        bias_sigma={name: channel.spread for name, channel in used.channels.items() if channel.spread > 0.0},
        joint_acceleration=acceleration,
    )
    made = estimate_noise(made, unknown) if unknown else made
    if "joint_position" not in made.readings:
        return made
    # Readings tell which joints move: one without a planned path is not taken as locked.
    seen = detect_moving_joints(made.readings["joint_position"], made.sigma["joint_position"])
    moving = tuple(plan or move for plan, move in zip(made.moving, seen, strict=True))
    return replace(made, moving=moving, joint_acceleration=acceleration if moving == made.moving else None)


def estimate_noise(record: MotionRecord, channels: Sequence[str]) -> MotionRecord:
    """With the noise of these channels from the scatter of their readings, over all components together."""
    sigma, doubt, unresolved = dict(record.sigma), {}, []
    for name in channels:
        # A rotation moves a quaternion by half its angle, along three of four directions.
        rotates, values = name == "attitude", record.readings[name]
        freedom = len(record.moving_parts(name)) if rotates else 0
        if name in BASE_CHANNELS and not rotates:
            values = values[:, record.moving_parts(name)]
        found = noise_from_scatter(record.times, values, freedom, record.edges)
        sigma[name] = float(np.sqrt(found.variance)) * (2.0 if rotates else 1.0) or TYPICAL_NOISE[name]
        doubt[name] = float(np.sqrt(2.0 / found.independent)) if found.independent else 0.0
        unresolved += [] if found.resolved else [name]
    return replace(record, sigma=sigma, estimated=doubt, unresolved=tuple(unresolved))


def _common_mount(record: measure.Record) -> Array:
    """The point of the base at which its sensors are mounted (base frame, m)."""
    mounts = {channel.mount for channel in record.channels.values() if channel.mount is not None}
    if len(mounts) > 1:
        raise InputError("its sensors are mounted at different points", hint="expected one mount for all")
    return np.array(next(iter(mounts), (0.0, 0.0, 0.0)))


def _common_times(record: measure.Record) -> Array:
    """Times of the channel with the fewest readings, within the span of all."""
    channels = record.channels.values()
    times = min((channel.times for channel in channels), key=len)
    low, high = max(c.times[0] for c in channels), min(c.times[-1] for c in channels)
    kept = times[(times >= low) & (times <= high)]
    if kept.size < 2:
        raise InputError("its channels have no time in common", hint="Record.align finds the shift of a clock")
    return np.asarray(kept)
