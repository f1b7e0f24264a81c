"""Orbit and attitude of the systems of a run, in inertial axes and at absolute times.

A run's world is either a frame that falls freely without turning, or, with the element :class:`Orbit`, one that turns
with a circular orbit (x radial, y along it, z along its normal). With r the reference point, C the axes of the orbit
as columns and n its rate: position r + C x, velocity r' + C (v + n e_z x x), attitude C R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from spacearm import checks
from spacearm.errors import InputError, quote_text
from spacearm.model.files import write_atomically
from spacearm.model.layout import Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Run
from spacearm.simulate.fields import Orbit
from spacearm.typing import Array

#: Gravitational parameter of the Earth, m3/s2 (EGM2008).
EARTH = 3.986004415e14
#: Relative difference up to which the rate of a run's orbit is that of the orbit that is given.
SAME_RATE = 1e-3
#: Nanoseconds in a second.
_NANO = 1e9


@dataclass(frozen=True)
class CircularOrbit:
    """A circular orbit of the world's origin about a planet.

    Args:
        radius: from the planet's centre, m.
        inclination, node, start: rad; ``start`` is the angle from the node at the epoch.
        gravity: gravitational parameter of the planet, m3/s2.
    """

    radius: float = 6.778e6
    inclination: float = 0.0
    node: float = 0.0
    start: float = 0.0
    gravity: float = EARTH

    def __post_init__(self) -> None:
        for what in ("radius", "gravity"):
            checks.positive(getattr(self, what), what, place="orbit")
        for what in ("inclination", "node", "start"):
            checks.number(getattr(self, what), what, place="orbit")

    @property
    def rate(self) -> float:
        """Mean motion, rad/s."""
        return float(np.sqrt(self.gravity / self.radius**3))

    def axes(self, times: Array) -> Array:
        """Radial, along-track and normal direction as columns (T, 3, 3), inertial axes."""
        angle = self.start + self.rate * times
        c, s, zero = np.cos(angle), np.sin(angle), np.zeros_like(angle)
        in_plane = np.stack(
            [np.stack([c, -s, zero], 1), np.stack([s, c, zero], 1), np.stack([zero, zero, zero + 1], 1)], 1
        )
        ci, si, cn, sn = np.cos(self.inclination), np.sin(self.inclination), np.cos(self.node), np.sin(self.node)
        tilt = np.array([[1, 0, 0], [0, ci, -si], [0, si, ci]])
        node = np.array([[cn, -sn, 0], [sn, cn, 0], [0, 0, 1]])
        return np.asarray(node @ tilt @ in_plane)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Where a body is and how it points; what an ephemeris does not tell is None.

    Positions and velocities (T, 3) in m and m/s, quaternions (T, 4) w, x, y, z from the body to the frame, all in the
    axes of ``frame``; times (T,) in s from ``epoch``, which is ISO 8601.
    """

    name: str
    times: Array
    epoch: str = "2000-01-01T12:00:00"
    position: Array | None = field(default=None, repr=False)
    velocity: Array | None = field(default=None, repr=False)
    quaternion: Array | None = field(default=None, repr=False)
    frame: str = "EME2000"
    centre: str = "EARTH"
    time_system: str = "UTC"
    identity: str = ""  # of the object, by the field's catalogues; its name if empty
    body_frame: str = "SC_BODY_1"

    def __post_init__(self) -> None:
        place = f"trajectory {quote_text(self.name)}"
        for what in ("name", "epoch", "frame", "centre", "time_system", "identity", "body_frame"):
            check_word(getattr(self, what), what, place, empty=what == "identity")
        count = checks.array(self.times, "times", ("T",), place=place).size
        checks.check_increasing(self.times, "times", place=place)
        for what, size in (("position", 3), ("velocity", 3), ("quaternion", 4)):
            if getattr(self, what) is not None:
                object.__setattr__(self, what, checks.array(getattr(self, what), what, (count, size), place=place))
        if self.quaternion is not None:
            checks.unit_vector(self.quaternion, "quaternion", (count, 4), place=place)
        parse_time(self.epoch)

    @property
    def stamps(self) -> list[str]:
        """Absolute times, ISO 8601 to the nanosecond."""
        # In whole nanoseconds from the epoch: a date in seconds as a double has steps of 0.2 us.
        begin = parse_time(self.epoch)
        return [str(begin + np.timedelta64(round(float(time) * _NANO), "ns")) for time in self.times]


def parse_time(text: str) -> np.datetime64:
    """An absolute time of a file: calendar date, or year and day of the year."""
    plain = text.strip().removesuffix("Z")
    date, _, clock = plain.partition("T")
    parts = date.split("-")
    try:
        if len(parts) == 2 and len(parts[1]) == 3:
            day = np.datetime64(f"{parts[0]}-01-01", "D") + np.timedelta64(int(parts[1]) - 1, "D")
            plain = f"{day}T{clock}"
        found = np.datetime64(plain, "ns")
    except ValueError as error:
        raise InputError(
            f"time is {quote_text(text)}", hint="expected a time such as 2026-11-18T20:00:00.000"
        ) from error
    if np.isnat(found) or not clock:
        raise InputError(f"time is {quote_text(text)}", hint="expected a time such as 2026-11-18T20:00:00.000")
    return found


def check_word(value: object, what: str, place: str, *, empty: bool = False) -> str:
    """The text if it stands in one line, without blanks at its ends; an error otherwise."""
    if not isinstance(value, str) or not value.isprintable() or value.strip() != value or (not value and not empty):
        raise InputError(f"{what} is {quote_text(value)}", place=place, hint="expected text in one line")
    return value


def trajectories_of(
    run: Run, orbit: CircularOrbit | None = None, *, epoch: str = "2000-01-01T12:00:00", frame: str = "EME2000"
) -> list[Trajectory]:
    """Orbit and attitude of the base of every system of a run, on the orbit of its world's origin.

    A run with the element :class:`Orbit` is turned into inertial axes; its rate must be that of ``orbit``. Without
    ``orbit`` positions and attitudes are in the run's own world.
    """
    orbits = [element for element in run.world.elements if isinstance(element, Orbit)]
    if orbits and orbit is not None and abs(orbits[0].rate / orbit.rate - 1.0) > SAME_RATE:
        raise InputError(
            f"the orbit's rate is {orbit.rate:.6g} rad/s, the run's {orbits[0].rate:.6g} rad/s",
            place="orbit", hint=f"expected a radius of {(orbit.gravity / orbits[0].rate**2) ** (1 / 3):.6g} m",
        )  # fmt: skip
    found = []
    for name in dict.fromkeys(track.name for track in run.tracks):
        times = np.concatenate([track.times for track in run.tracks if track.name == name])
        states = [(track.states, Layout(track.robot.n)) for track in run.tracks if track.name == name]
        position = np.concatenate([rows[:, at.position] for rows, at in states])
        quaternion = np.concatenate([rows[:, at.quaternion] for rows, at in states])
        linear = np.concatenate([rows[:, at.velocity][:, :3] for rows, at in states])
        # Of two samples at a change the later is kept: files want times that increase.
        kept = np.append(np.diff(times) > 0.0, True)
        times, position, quaternion = times[kept], position[kept], quaternion[kept]
        velocity = np.einsum("tij,tj->ti", rotation_matrices(quaternion), linear[kept])
        if orbit is not None:
            position, velocity, quaternion = _place_on_orbit(orbit, bool(orbits), times, position, velocity, quaternion)
        found.append(Trajectory(name, times, epoch, position, velocity, quaternion, frame))
    return found


def _place_on_orbit(
    orbit: CircularOrbit, rotates: bool, times: Array, position: Array, velocity: Array, quaternion: Array
) -> tuple[Array, Array, Array]:
    axes = orbit.axes(times)
    centre, speed = orbit.radius * axes[:, :, 0], orbit.radius * orbit.rate * axes[:, :, 1]
    if not rotates:
        return centre + position, speed + velocity, quaternion
    # Velocities in rotating axes lack what the rotation of the axes itself adds.
    transport = np.cross([0.0, 0.0, orbit.rate], position)
    position, velocity = (np.einsum("tij,tj->ti", axes, each) for each in (position, velocity + transport))
    return centre + position, speed + velocity, _multiply(_quaternions(orbit, times), quaternion)


def _quaternions(orbit: CircularOrbit, times: Array) -> Array:
    """Of the orbit's axes: node about z, inclination about x, angle about z; continuous in time."""

    def about(axis: int, angle: Array) -> Array:
        found = np.zeros((angle.size, 4))
        found[:, 0], found[:, 1 + axis] = np.cos(angle / 2), np.sin(angle / 2)
        return found

    still = np.ones_like(times)
    angle = orbit.start + orbit.rate * times
    return _multiply(_multiply(about(2, orbit.node * still), about(0, orbit.inclination * still)), about(2, angle))


def _multiply(a: Array, b: Array) -> Array:
    """Hamilton products (T, 4), w first."""
    w = a[:, :1] * b[:, :1] - np.sum(a[:, 1:] * b[:, 1:], axis=1, keepdims=True)
    return np.hstack([w, a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])])


def write_trajectory_csv(trajectory: Trajectory, path: str | Path) -> Path:
    """Write a CSV file as mission tools report and read it: time, km, km/s, quaternion with the scalar last."""
    columns: dict[str, Sequence[object]] = {f"Time ({trajectory.time_system})": trajectory.stamps}
    for what, unit in (("position", "km"), ("velocity", "km/sec")):
        values = getattr(trajectory, what)
        if values is not None:
            names = "xyz" if what == "position" else ("vx", "vy", "vz")
            columns |= {f"{name} ({unit})": (values[:, k] / 1e3).tolist() for k, name in enumerate(names)}
    if trajectory.quaternion is not None:
        columns |= {f"q{k + 1}": trajectory.quaternion[:, (k + 1) % 4].tolist() for k in range(4)}
    rows = [",".join(f'"{name}"' for name in columns)]
    rows += [",".join(str(value) for value in row) for row in zip(*columns.values(), strict=True)]
    write_atomically(Path(path), "\n".join([*rows, ""]))
    return Path(path)
