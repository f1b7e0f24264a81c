"""Sensor readings of a run: the expressions that laws read, on recorded states, with their errors, as a record.

States between the samples of a run are cubics through states and rates at both ends (fourth order, no fit); a reading
that comes late shows an earlier state. Noise is a function of seed, sensor, entry and time, not of the order of calls:
a law that read the same sensor in the run, with the same seed, saw the same numbers. Efforts of joints are forces of
their drives, and the reactions of those that are locked or led along a path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import array, check_name, check_not_empty, unique
from spacearm.engine.noise import channel_key, draw_once, draw_series
from spacearm.errors import InputError, error_context
from spacearm.measure.channels import BY_CHANNEL, MOMENTUM_CHANNELS
from spacearm.measure.record import Channel, Record, splice
from spacearm.mechanics.sensors import MountedSensor, Sensor
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.simulate import Phase, Run, Signal, constant
from spacearm.simulate.loads import thrust_wrench
from spacearm.simulate.readings import Moments, read_moments
from spacearm.simulate.run.run import Track
from spacearm.simulate.run.segment import Segment
from spacearm.simulate.signals import as_signal
from spacearm.typing import Array

#: Times closer than this are the same, s.
SAME = 1e-9


def make_sensors(
    channels: Sequence[str] = MOMENTUM_CHANNELS,
    *,
    period: float | None = 0.1,
    mount: npt.ArrayLike = (0.0, 0.0, 0.0),
    noise: Mapping[str, npt.ArrayLike] | None = None,
    bias: Mapping[str, npt.ArrayLike] | None = None,
    spread: Mapping[str, npt.ArrayLike] | None = None,
) -> tuple[Sensor, ...]:
    """A sensor for each of these channels, all with the same period (s) and mounting point (base frame, m).

    ``noise``, ``bias`` and ``spread`` are by channel. Noise is that of typical sensors by default, and zero for a
    channel that it leaves out. Velocities are in world axes.
    """
    errors: dict[str, Mapping[str, npt.ArrayLike]] = {"bias": bias or {}, "spread": spread or {}}
    with error_context("sensors"):
        check_not_empty(channels, "measured channel", hint="expected some of " + ", ".join(BY_CHANNEL))
        if noise is not None:
            errors["noise"] = noise
        for name in (*channels, *(name for given in errors.values() for name in given)):
            check_name(name, BY_CHANNEL, "channel")
        unique(list(channels), "channel")
    found = []
    for name in channels:
        kind = BY_CHANNEL[name]
        options: dict[str, Any] = {what: given.get(name, 0.0) for what, given in errors.items()}
        if noise is None:
            options["noise"] = kind.typical
        if issubclass(kind, MountedSensor):
            options["mount"] = mount
        if name == "velocity":
            # Trackers measure velocities against the world, unlike sensors that are strapped to the body.
            options["axes"] = "world"
        found.append(kind(period=period, **options))
    return tuple(found)


def record_run(
    run: Run, sensors: Sequence[Sensor], *, system: str = "", seed: int | None = None, name: str = ""
) -> Record:
    """Record of these sensors for a run. A channel has the name of its quantity, or of its sensor if several measure
    it.

    Args:
        system: system of the sensors, if several took part.
        seed: of noise and of unknown biases: those of a law of this seed that reads the same sensors. None: none are
            drawn, and the record still holds the deviations.
        name: of the record; the system's if omitted.

    States between samples are those of the cubic that has the recorded rates at both ends. A reading that comes late
    shows the start until something else arrives. Commands are the paths of driven joints and the levels of thrusters; a
    run from a file has none.
    """
    track = run.last_track(system) if system else run.track
    keys = [sensor.channel for sensor in sensors]
    unique([sensor.name for sensor in sensors], "sensor")
    begin, end = float(track.times[0]), float(track.times[-1])
    channels = {}
    for sensor in sensors:
        times = track.times[np.append(np.diff(track.times) > 0.0, True)]  # of two at a change, the later sample
        # 1e-9: a duration of whole periods has its last reading in spite of rounding.
        if sensor.period is not None:
            times = begin + sensor.period * np.arange(int((end - begin) / sensor.period + 1e-9) + 1)
        with error_context(sensor.place):
            if times.size < 2:
                raise InputError(f"reads once in {end - begin:g} s", hint="expected a shorter period")
            # A late reading shows an earlier state; before the start there is none but the first.
            values = _read(track, sensor, np.maximum(times - sensor.delay, begin), system, seed)
        units = " or ".join(dict.fromkeys(sensor.entries(track.robot).values()))
        label = sensor.channel if keys.count(sensor.channel) == 1 else sensor.name
        point = np.asarray(sensor.mount, dtype=np.float64) if isinstance(sensor, MountedSensor) else None
        mount = None if point is None else (float(point[0]), float(point[1]), float(point[2]))
        spread = float(np.max(sensor.spread))
        channels[label] = Channel(times, values, units, _deviation(track.robot, sensor), spread, mount)
    return Record(name or track.name, channels, _commands(run, track))


def _commands(run: Run, track: Track) -> dict[str, Signal]:
    """Commands of the phases of a run to a robot."""
    segments = [step for step in run.steps if isinstance(step, Segment)]
    spans = [
        (prepared.phase, begin)
        for segment in segments
        for prepared, begin in zip(segment.prepared, segment.starts, strict=True)
    ]
    return phase_commands(track.robot, spans, track.name)


def phase_commands(robot: Robot, spans: Iterable[tuple[Phase, float]], system: str = "") -> dict[str, Signal]:
    """Commands of phases to a robot, as signals: paths of driven joints, levels of thrusters.

    A joint that is not driven in a phase stays where it was; a thruster that does not fire is at zero.

    Args:
        spans: phases with their starts, s.
        system: name of the robot's system, where several take part.
    """
    found: dict[str, Signal] = {}
    thrusters = [part.name for part in robot.thrusters]
    for phase, begin in spans:
        now: dict[str, Signal] = {}
        for label, path in phase.driven.items():
            joint = label.rpartition("/")[2]
            if joint in robot.joint_names and label in (joint, f"{system}/{joint}"):
                now[joint] = as_signal(path, joint).shift(begin)
        for load in phase.loads:
            if load.source and load.source in thrusters:
                full = thrust_wrench(robot, load.source)
                # All entries have the same level: the largest is divided with the least rounding.
                k = int(np.argmax(np.abs(full)))
                # A thruster without force shows no level.
                level = load.wrench[k].shift(begin) * float(1.0 / full[k] if full[k] else 0.0)
                now[load.source] = level if load.source not in now else now[load.source] + level
        for name in dict.fromkeys([*found, *now]):
            thruster = name not in robot.joint_names
            before = found.get(name, constant(0.0) if thruster else None)
            # Without a command a joint keeps its last position: its path goes on as a constant.
            own = now.get(name, constant(0.0 if thruster or before is None else float(before(begin))))
            found[name] = own if before is None or begin <= 0.0 else splice(before, own, begin)
    return found


def _read(track: Track, sensor: Sensor, times: Array, system: str, seed: int | None) -> Array:
    """Readings (T, entries) that show these times."""
    moments, size = _moments(track, times), sensor.size(track.robot)
    each = {
        what: np.broadcast_to(array(given, f"{what} of {sensor.channel!r}", (size,) if np.ndim(given) else ()), (size,))
        for what in ("noise", "bias", "spread")
        for given in [getattr(sensor, what)]
    }
    error = np.tile(each["bias"], (times.size, 1))
    for k in range(size):
        if seed is None:
            break
        # The same keys as in laws: a law and a record of the same seed see the same noise.
        key = channel_key(system, sensor.name, k)
        error[:, k] += each["spread"][k] * draw_once(seed, 0, key)
        if each["noise"][k]:
            error[:, k] += each["noise"][k] * draw_series(seed, 0, np.asarray(times, dtype=float), key)
    (values,) = read_moments(track.robot, [sensor], moments, [error])
    return sensor.resolution * np.floor(values / sensor.resolution + 0.5) if sensor.resolution else values


def _deviation(robot: Robot, sensor: Sensor) -> Array:
    """Standard deviation of a reading: one, or one for each entry; for a quaternion, that of small rotations, one."""
    noise = np.asarray(sensor.noise, dtype=np.float64)
    whole = not noise.ndim or sensor.size(robot) == len(sensor.entries(robot))
    return noise if whole else np.asarray(np.sqrt(np.mean(noise**2)))


def _moments(track: Track, times: Array) -> Moments:
    """A track at these times: states by cubics, what acts as at the sample before."""
    layout, model = Layout(track.robot.n), track.model
    t, y = track.times, track.states
    # A time at a sample is that sample: rounding must not show what acted at the one before.
    nearest = t[np.clip(np.searchsorted(t, times - SAME), 0, t.size - 1)]
    times = np.where(np.abs(nearest - times) < SAME, nearest, times)
    left = np.clip(np.searchsorted(t, times, side="right") - 1, 0, t.size - 1)
    right = np.minimum(left + 1, t.size - 1)
    width = np.where(right > left, t[right] - t[left], 1.0)
    s = np.where(right > left, (times - t[left]) / width, 0.0)[:, None]
    # State derivatives are recorded with the samples: a Hermite cubic is of fourth order without any fit.
    slope = track.outputs[:, : model.nx]
    states = (
        (1 + 2 * s) * (1 - s) ** 2 * y[left]
        + s**2 * (3 - 2 * s) * y[right]
        + width[:, None] * (s * (1 - s) ** 2 * slope[left] - s**2 * (1 - s) * slope[right])
    )
    states[:, QUATERNION] /= np.linalg.norm(states[:, QUATERNION], axis=1, keepdims=True)
    places, reaction = model.kernel.inputs, model.code.reaction
    # Reactions of driven and locked joints are efforts of their drives; those of sticking joints are friction.
    held = (track.inputs[:, places["mode"]] > 0.0) & ~track.stuck
    efforts = track.inputs[:, places["force"]] + np.where(
        held, track.outputs[:, reaction : reaction + track.robot.dofs], 0.0
    )
    wrenches = track.inputs[left][:, places["wrench"]].reshape(times.size, -1, 6) if model.loads else None
    change = slope[:, layout.velocity]
    # Linear: the derivative of the cubic's slope would jump at samples.
    acceleration = (1 - s) * change[left] + s * change[right]
    return Moments(states, acceleration, efforts[left][:, 6:], wrenches, tuple(model.loads))


def shared_period(sensors: Sequence[Sensor]) -> float:
    """The period of all these sensors, s."""
    periods = {sensor.period for sensor in sensors}
    if len(periods) != 1 or None in periods:
        raise InputError(
            "have different periods, or none", place="sensors", hint="expected the same period of all of them, s"
        )
    return float(next(iter(periods)) or 0.0)


def shared_mount(sensors: Sequence[Sensor]) -> Array:
    """The mounting point of all of these sensors that have one (base frame, m)."""
    mounts = [np.asarray(sensor.mount) for sensor in sensors if isinstance(sensor, MountedSensor)]
    for mount in mounts[1:]:
        if not np.array_equal(mount, mounts[0]):
            raise InputError("are mounted at different points", place="sensors", hint="expected one mount for all")
    return mounts[0] if mounts else np.zeros(3)


def numbers_by_channel(sensors: Sequence[Sensor], what: str) -> dict[str, float]:
    """``noise`` or ``spread`` of each channel that has one above zero; it must be one number for all entries."""
    found = {}
    for sensor in sensors:
        given = np.asarray(getattr(sensor, what), dtype=np.float64)
        if given.ndim:
            raise InputError(
                f"{what} has {given.size} numbers", place=sensor.place, hint="expected one for all entries"
            )
        if given > 0.0:
            found[sensor.channel] = float(given)
    return found
