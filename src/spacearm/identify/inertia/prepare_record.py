"""A record of any origin as the equations of inertia take it: on one clock, with the wrench of what was commanded.

Runs, tables of a laboratory and simulated experiments are all :class:`spacearm.measure.Record` s. Here their channels,
which may have been read at different rates, come to the times of the slowest one by splines, and commands become
forces: a thruster's level, steady from break to break of its signal, is a wrench on the base; a joint's path gives its
acceleration. Noise that a channel does not state is taken from the scatter of its readings, and joints without a
command that are seen to move are not taken as locked.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from spacearm import measure
from spacearm.checks import array
from spacearm.errors import InputError, error_context
from spacearm.identify.inertia.experiment import Experiment, ThrusterFiring
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.record_files import set_moving, set_noise
from spacearm.measure.attitude import to_quaternions
from spacearm.measure.channels import CHANNELS
from spacearm.model import Robot
from spacearm.simulate import Signal
from spacearm.typing import Array


def prepare_record(robot: Robot, record: measure.Record, *, known_momentum: bool = False) -> MotionRecord:
    """The record of an experiment with this robot.

    Channels are those of :mod:`spacearm.measure.channels`; others are left alone. Where they were read at different
    times, those of the channel with the fewest readings count, and splines through the others. Noise that is not known
    is taken from the scatter of the readings. Commands are levels of thrusters, steady from break to break, and paths
    of joints; joints without one that are seen to move are not taken as locked.

    Args:
        known_momentum: the robot was at rest at first.
    """
    with error_context(record.place):
        used = record.select([name for name in record.channels if name in CHANNELS])
        if not used.channels:
            raise InputError("has no channel that shows inertias", hint="expected some of " + ", ".join(CHANNELS))
        times = _common_times(used)
        readings = {}
        for name, channel in used.channels.items():
            own = channel if np.array_equal(channel.times, times) else channel.resample(times, "spline")
            size = CHANNELS[name].size or robot.n
            values = to_quaternions(own.values, record.source or None) if name == "attitude" else own.values
            readings[name] = array(values, repr(name), (times.size, 4 if name == "attitude" else size), finite=False)
        begin = float(times[0])
        duration = float(times[-1] - begin)
        commands = {name: signal.shift(-begin) for name, signal in record.commands.items()}
        thrusters = [part.name for part in robot.thrusters]
        firings = [
            one for name, signal in commands.items() if name in thrusters for one in _firings(name, signal, duration)
        ]
        doing = Experiment(record.name, duration, np.zeros(robot.n), {}, firings, known_momentum=known_momentum)
        made = doing.record(robot, (), times - begin, readings)
        return _complete(robot, made, used, {n: s for n, s in commands.items() if n in robot.joint_names})


def _complete(robot: Robot, made: MotionRecord, used: measure.Record, paths: dict[str, Signal]) -> MotionRecord:
    """With deviations, mounting point, and which joints move how."""
    sigma, unknown = {}, []
    for name, channel in used.channels.items():
        size = np.sqrt(np.mean(np.square(channel.sigma)))
        sigma[name] = float(size) if np.isfinite(size) else 0.0
        unknown += [name] if not np.isfinite(size) else []
    mounts = {channel.mount for channel in used.channels.values() if channel.mount is not None}
    if len(mounts) > 1:
        raise InputError("its sensors are mounted at different points", hint="expected one mount for all")
    acceleration = np.zeros((made.times.size, robot.n))
    for name, path in paths.items():
        acceleration[:, robot.joint_index(name)] = path.derivative().derivative()(made.times)
    made = replace(
        made,
        mount=np.array(next(iter(mounts), (0.0, 0.0, 0.0))),
        sigma=sigma,
        bias_sigma={name: channel.spread for name, channel in used.channels.items() if channel.spread > 0.0},
        joint_acceleration=acceleration,
        moving=tuple(joint in paths for joint in robot.joint_names),
    )
    made = set_noise(made, unknown) if unknown else made
    return set_moving(made) if "joint_position" in made.readings else made


def _common_times(record: measure.Record) -> Array:
    """Times of the channel with the fewest readings, within the span of all."""
    channels = record.channels.values()
    times = min((channel.times for channel in channels), key=len)
    low, high = max(c.times[0] for c in channels), min(c.times[-1] for c in channels)
    kept = times[(times >= low) & (times <= high)]
    if kept.size < 2:
        raise InputError("its channels have no time in common", hint="Record.align finds the shift of a clock")
    return np.asarray(kept)


def _firings(name: str, signal: Signal, duration: float) -> list[ThrusterFiring]:
    """Intervals in which a thruster fires at a steady level."""
    with error_context(f"command {name!r}"):
        if np.any(signal.coefficients[1:] != 0.0):
            raise InputError("changes between its breaks", hint="expected levels that hold from break to break")
        inner = signal.breaks[(signal.breaks > 0.0) & (signal.breaks < duration)]
        found = []
        for low, high in pairwise([0.0, *inner, duration]):
            level = float(signal(0.5 * (low + high)))
            if not 0.0 <= level <= 1.0 + 1e-9:
                raise InputError(f"is {level:g}", hint="expected a level from 0 to 1")
            if level > 0.0:
                found.append(ThrusterFiring(name, float(low), float(high), level))
        return found
