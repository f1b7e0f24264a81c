"""One ejection in its three phases (the paper's Fig. 4): on the rail, free flight while joints slip, stable flight.

The full nonlinear motion with exact stick-slip: joints may stop, start again and break each other loose. None of the
approximations of Cai et al. (2023) is used; they are in :mod:`spacearm.papers.cai2023.segmented`.

On the rail satellite and arm are one robot, with the rail as a prismatic joint between them and the springs' force as
piecewise linear in its travel, a phase for each piece. At its end the rail is cut
(:class:`~spacearm.simulate.Separate`), and both fly on by themselves. An infinitely heavy satellite is a base that is
locked, or rotates about its pivot at a given rate; the work that it then does is booked, so that the ledger closes
over the whole run: energy at release and of the springs = kinetic + friction + damping. The angular velocity of a
result is the mean over time of the stopped arm (:mod:`spacearm.ejection.tumble`), because the instantaneous one
depends on when one looks. World axes, SI units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from spacearm import checks
from spacearm.ejection.clearance import KeepOut, clearance, skeleton
from spacearm.ejection.rail import (
    ARM,
    PATIENCE,
    SATELLITE,
    base_on_rail,
    build_phases,
    constant_spring_work,
    elastic_on_rail,
    rail_loads,
)
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import LIMIT_SLACK, Rig
from spacearm.ejection.tumble import mean_angular_velocity, moment_of_momentum
from spacearm.engine import mechanics_of
from spacearm.engine.solver import EndReason
from spacearm.errors import InputError, SimulationError
from spacearm.model import Robot
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.result import Certificate, Check, Checks
from spacearm.simulate import Dopri853, Run, State, World, collision_pairs, simulate
from spacearm.simulate.bodies import evaluate_bodies, momentum
from spacearm.simulate.run.dataset import label_dataset
from spacearm.simulate.run.run import Track
from spacearm.simulate.run.segment import Occurrence
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr

#: Integration of a single run: an energy ledger to 1e-9 and momenta to 1e-10 need more than the default.
METHOD = Dopri853(rtol=1e-13, atol=1e-15)
#: Largest number of steps of a run; a few thousand are usual. More indicates dampers or speeds unlike those of an
#: ejection device.
MOST_STEPS = 200_000
LEDGER_TOLERANCE, MOMENTUM_TOLERANCE = 1e-9, 1e-10


@dataclass(frozen=True)
class LimitReached:
    """A joint that reached a limit: time (s), joint, and position (rad or m)."""

    time: float
    joint: str
    value: float


@dataclass(frozen=True)
class Clearance:
    """Smallest signed distance of each body from the keep-out regions over the whole run (m), and its time (s)."""

    distance: dict[str, float]
    time: dict[str, float]
    start: dict[str, float]  # distance before the ejection

    @property
    def least(self) -> float:
        return min(self.distance.values())


@dataclass(frozen=True, eq=False)
class Ejection:
    """Result of :func:`eject`. Vectors are in world axes: the arm's base axes before the ejection."""

    rig: Rig
    start: Array  # (n,) joint positions before, rad or m
    run: Run
    clearance: Clearance | None
    release: ReleaseState

    @property
    def rail(self) -> Track:
        """Run of satellite and arm until they separate."""
        return self.run.tracks[0]

    @property
    def flight(self) -> Track:
        """Run of the arm after separation."""
        return self.run.last_track(ARM)

    @property
    def satellite(self) -> Track | None:
        """Run of the satellite after separation; None if it is infinitely heavy."""
        return None if self.rig.device.heavy else self.run.last_track(SATELLITE)

    @property
    def time(self) -> float:
        """Ejection time: from release to the end of the rail, s."""
        return self.run.changes[-1].time

    @property
    def separation(self) -> State:
        """State of the arm as it leaves the rail."""
        return State.from_vector(self.flight.states[0])

    @property
    def velocity(self) -> float:
        """Ejection velocity: of the arm's base relative to the satellite along the rail as it leaves, m/s."""
        return float(self.rail.end.rates[0])

    @property
    def variation(self) -> Array:
        """Joint variations at separation (n,), rad or m."""
        return self.rail.end.joints[1:] - self.start

    @property
    def final_variation(self) -> Array:
        """Joint variations at the end of the run (n,), rad or m."""
        return self.flight.end.joints - self.start

    @property
    def angular_velocity(self) -> Array:
        """Ejection angular velocity (3,), rad/s: mean over time of the stopped arm (:mod:`spacearm.ejection.tumble`).

        It does not depend on the length of the flight once the joints have stopped; ``data`` has the instantaneous
        value.
        """
        state = self.flight.end
        matrix = mechanics_of(self.rig.arm).mass_matrix(state.joints)
        angular, inertia = moment_of_momentum(matrix, state.velocity)
        return rotation_matrices(state.quaternion) @ mean_angular_velocity(self.rig, angular, inertia)

    @property
    def events(self) -> tuple[Occurrence, ...]:
        """Events, with times from the release."""
        last = self.run.changes[-1].phase
        found = []
        for event in self.run.events:
            if event.kind in ("timeout", "change") or (event.kind == "event" and event.phase < last):
                continue
            name = event.name.removeprefix(f"{ARM}/")
            found.append(Occurrence(event.time, event.kind, name, event.value, int(event.phase > last)))
        return tuple(found)

    @property
    def stop_times(self) -> dict[str, float]:
        """Time at which each joint finally stopped, s; 0 if it never moved, infinity if it still moves."""
        times = dict.fromkeys(self.rig.arm.joint_names, 0.0)
        for event in self.events:
            if event.kind == "stick" and event.name in times:
                times[event.name] = event.time
        for name, rate in zip(self.rig.arm.joint_names, self.flight.end.rates, strict=True):
            if rate != 0.0:
                times[name] = np.inf
        return times

    @property
    def stable_time(self) -> float:
        """Time at which the last joint stopped and stable flight began, s; infinity if it did not."""
        return max(self.time, *self.stop_times.values(), 0.0)

    @property
    def stable(self) -> bool:
        return bool(np.isfinite(self.stable_time))

    @cached_property
    def hits(self) -> tuple[LimitReached, ...]:
        """Joint limits reached: crossings, and joints that went beyond the limit at which they started."""
        found = [LimitReached(event.time, event.name, event.value) for event in self.events if event.kind == "limit"]
        # Crossings are events; a joint that starts on its limit and goes beyond crosses nothing and is found in the
        # samples.
        states = np.concatenate([self.rig.split(self.rail.states)[0], self.flight.states])
        times = np.concatenate([self.rail.times, self.flight.times])
        for i, joint in enumerate(self.rig.arm.joints):
            for bound, sign in ((joint.limits.lower, -1.0), (joint.limits.upper, 1.0)):
                beyond = np.flatnonzero(sign * (states[:, Layout(self.rig.arm.n).joint(i)] - bound) > LIMIT_SLACK)
                if beyond.size and not any(hit.joint == joint.name and hit.value == bound for hit in found):
                    found.append(LimitReached(float(times[beyond[0]]), joint.name, bound))
        return tuple(sorted(found, key=lambda hit: hit.time))

    @property
    def drift_velocity(self) -> Array:
        """Velocity of the arm's mass centre after separation (3,), m/s."""
        arm, states = self.rig.arm, self.flight.states[-1:]
        sums = momentum(arm, evaluate_bodies(arm, states), states, arm.inertia_parameters, arm.rotor_inertias)
        velocity: Array = sums.linear[0] / arm.mass
        return velocity

    @property
    def recoil(self) -> tuple[Array, Array]:
        """Velocity of the satellite's frame (m/s) and angular velocity (rad/s) at separation; zero if it is heavy."""
        state = State.from_vector(self.rig.split(self.rail.end.vector)[1])
        return state.base_velocity, state.base_angular_velocity

    @cached_property
    def ledger(self) -> dict[str, float]:
        """Energies, J: supplied by the springs, and their distribution at the end of the run."""
        rail, flight = self.rail.ledger, self.flight.ledger
        assert rail is not None
        assert flight is not None
        # An infinitely heavy satellite that rotates does work on the arm; the body that represents it has its own
        # energy.
        idle = _idle(self.rig, self.run.start[SATELLITE])
        # The rail's springs by their own curve: in the run a constant force is a drive, whose work is not elastic
        # energy.
        stored = elastic_on_rail(self.rig, self.rail.states[[0, -1]])
        account = {
            "kinetic_at_release": float(rail.kinetic[0]) - idle,
            "satellite_work": float(rail.drive[-1]) - constant_spring_work(self.rig),
            "springs": float(stored[0] - stored[1]),
            "kinetic_at_separation": float(rail.kinetic[-1]) - idle,
            "friction_on_rail": float(rail.friction[-1]),
            "damping_on_rail": float(rail.damping[-1]),
            "kinetic": float(flight.kinetic[-1]),
            "elastic": float(flight.elastic[-1] - flight.elastic[0]),
            "friction": float(rail.friction[-1] + flight.friction[-1]),
            "damping": float(rail.damping[-1] + flight.damping[-1] + rail.coupling[-1] + flight.coupling[-1]),
        }
        carrier = None if self.satellite is None else self.satellite.ledger
        account["satellite"] = 0.0 if carrier is None else float(carrier.kinetic[-1])
        spent = sum(account[name] for name in ("kinetic", "elastic", "friction", "damping", "satellite"))
        given = sum(account[name] for name in ("springs", "kinetic_at_release", "satellite_work"))
        account["residual"] = given - spent
        return account

    @cached_property
    def certificate(self) -> Certificate:
        """Residuals of the whole run: energy from springs to stable flight, momentum after separation, constraints."""
        checks: dict[str, Checks] = {
            "ledger": Check(
                self.ledger["residual"] / max(self.ledger["springs"] + self.ledger["kinetic_at_release"], 1e-300),
                LEDGER_TOLERANCE,
                "",
                "energy at release and of the springs - kinetic - friction - damping over the whole run, relative to "
                "the first two",
            ),
            "momentum": Check(
                self._momentum_drift(),
                MOMENTUM_TOLERANCE,
                "",
                "drift of momentum, linear and about the mass centre, in free flight, relative to the bodies' shares",
            ),
        }
        return Certificate({**checks, "run": self.run.certificate or {}})

    @property
    def sound(self) -> bool:
        """Whether every residual is within its tolerance."""
        return self.certificate.sound

    def _momentum_drift(self) -> float:
        """Momentum of the arm, and about its mass centre, in the directions that are not constrained."""
        arm, normal = self.rig.arm, self.rig.table
        states = self.flight.states.copy()
        # About the mass centre: after a long drift r x p about the world's origin would drown the angular momentum in
        # rounding.
        states[:, :3] -= _mass_centre(arm, states)
        sums = momentum(arm, evaluate_bodies(arm, states), states, arm.inertia_parameters, arm.rotor_inertias)
        flat = [i for i in range(3) if normal is None or i != "xyz".index(normal)]
        axial = [i for i in range(3) if normal is None or i == "xyz".index(normal)]
        # On a table momentum is kept only in the plane and about its normal.
        drift = 0.0
        for value, scale, axes in ((sums.linear, sums.linear_scale, flat), (sums.angular, sums.angular_scale, axial)):
            gap = np.linalg.norm((value - value[0])[:, axes], axis=1).max()
            drift = max(drift, float(gap / scale.max()) if gap > 0.0 else 0.0)
        return drift

    @cached_property
    def data(self) -> xr.Dataset:
        """Curves of the whole run over time."""
        return curves(self)


def _mass_centre(robot: Robot, states: Array) -> Array:
    """Mass centre (T, 3) in the world."""
    bodies = evaluate_bodies(robot, states)
    first = robot.inertia_parameters[:, 1:4]
    moments = np.einsum("tbij,bj->ti", bodies.rotation, first)
    moments += np.einsum("tbi,b->ti", bodies.origin, robot.inertia_parameters[:, 0])
    centre: Array = moments / robot.mass
    return centre


def eject(
    rig: Rig,
    joints: npt.ArrayLike | str | None = None,
    *,
    release: ReleaseState | None = None,
    flight: float = 10.0,
    method: Dopri853 | None = None,
    limits: Literal["report", "stop", "ignore"] = "report",
    friction: bool = True,
    locked: Sequence[str] = (),
    keep_out: Sequence[KeepOut] = (),
    radii: Mapping[str, float] | float = 0.0,
    sample: float | None = None,
) -> Ejection:
    """Eject the arm.

    Args:
        joints: configuration before the ejection (n,), or a configuration's name.
        release: motion at the release; at rest if omitted.
        flight: length of the run after separation, s; long enough for the joints to stop.
        limits: whether joint limits that are reached are reported, end the run as well, or are ignored.
        friction: whether the dry friction of joints and rail acts.
        locked: joints that do not move at all.
        keep_out: regions fixed to the satellite from which the clearance of every body is reported.
        radii: of the bodies around their skeletons, m (see :mod:`spacearm.ejection.clearance`).
        sample: interval of the samples in flight, s; 1000 intervals if omitted.
    """
    checks.positive(flight, "flight", unit="s", place="ejection")
    start = rig.configuration(joints)
    for name in locked:
        rig.arm.joint_index(name)
    solver = METHOD if method is None else method
    moving = release or ReleaseState()
    for name, rate in zip(rig.arm.joint_names, moving.check_rates(rig)[0], strict=True):
        if name in locked and rate:
            raise InputError(f"{name!r} is locked but moves at {rate:g}", place="release", hint="expected a rate of 0")
    # What a table or an infinitely heavy satellite does not allow is locked, and counts as a constraint.
    held, _ = base_on_rail(rig, moving.is_rotating)
    items = build_phases(
        rig, moving.is_rotating, flight, flight / 1000.0 if sample is None else sample, locked, friction, limits
    )
    # An arm that friction holds on the rail would never end its phase: patience in quarter periods of its own springs.
    longest = PATIENCE * rig.device.quarter_period(rig.arm.mass) * len(rig.device.segments) + flight
    world = World({SATELLITE: rig.mounted_robot}, locked=held)
    run = simulate(world, moving.start(rig, start), items, duration=longest, method=solver, max_steps=MOST_STEPS)
    if ARM not in {track.name for track in run.tracks}:
        raise SimulationError(
            f"the arm does not leave the rail: {run.why} at t = {run.end_time:.6g} s",
            place="ejection",
            hint="a joint limit that ends the run, or friction of the rail, stops it",
        )
    if run.ends is None or run.reason not in (EndReason.FINISHED, EndReason.TERMINAL_EVENT):
        raise SimulationError(f"the flight ended at t = {run.end_time:.6g} s: {run.why}", place="ejection")
    near = _clearance(rig, run, keep_out, radii) if keep_out or collision_pairs(rig.arm) else None
    return Ejection(rig, start, run, near, moving)


def _idle(rig: Rig, start: State) -> float:
    """Kinetic energy (J) of the body that represents an infinitely heavy satellite: constant, and excluded from the
    ledger.
    """
    if not rig.device.heavy:
        return 0.0
    stand = rig.mounted_robot.bodies[0].inertia
    linear, angular = start.velocity[:3], start.velocity[3:6]
    return float(0.5 * (stand.mass * linear @ linear + angular @ stand.tensor @ angular))


def _clearance(rig: Rig, run: Run, keep_out: Sequence[KeepOut], radii: Mapping[str, float] | float) -> Clearance:
    first, second = run.tracks[0], run.last_track(ARM)
    arm, carrier = rig.split(first.states)
    later = run.last_track(SATELLITE).states
    states = np.concatenate([arm, second.states])
    times = np.concatenate([first.times, second.times])
    distance = clearance(rig.arm, states, keep_out, skeleton(rig.arm, radii), np.concatenate([carrier, later]))
    at = distance.argmin(axis=0)
    names = rig.arm.body_names
    return Clearance(
        {name: float(distance[at[b], b]) for b, name in enumerate(names)},
        {name: float(times[at[b]]) for b, name in enumerate(names)},
        {name: float(distance[0, b]) for b, name in enumerate(names)},
    )


def curves(ejection: Ejection) -> xr.Dataset:
    """Rail and flight on one time axis: base velocity and angular velocity (world axes), joints, energies."""
    rig, rail, flight = ejection.rig, ejection.rail, ejection.flight
    at = Layout(rig.arm.n)
    # The separation is the last instant on the rail and the first of the flight: it is taken once.
    arm = np.concatenate([rig.split(rail.states)[0], flight.states[1:]])
    rotation = rotation_matrices(arm[:, QUATERNION])
    velocity, angular_rate = (
        np.einsum("tij,tj->ti", rotation, arm[:, part]) for part in (at.linear_velocity, at.angular_velocity)
    )
    variation = arm[:, at.joints] - ejection.start
    force, moment = (np.concatenate([part, np.zeros((len(flight.times) - 1, 3))]) for part in rail_loads(rig, rail))
    across = "force of the rail on the arm across the rail, axes of the arm's base"

    def energy(name: str) -> Array:
        # What was dissipated on the rail stays so; energies that depend on the state begin anew with the arm alone.
        before, after = getattr(rail.ledger, name), getattr(flight.ledger, name)[1:]
        before = elastic_on_rail(rig, rail.states) if name == "elastic" else before
        return np.concatenate([before, (before[-1] if name in ("damping", "friction") else 0.0) + after])

    return label_dataset(
        {
            "time": ("time", np.concatenate([rail.times, flight.times[1:]]), "s", "time since release"),
            "axis": ["x", "y", "z"],
            "joint": list(rig.arm.joint_names),
        },
        {
            "velocity": ("time", velocity @ rig.device.direction, "m/s", "velocity of the arm's base along the rail"),
            "base_velocity": ("time axis", velocity, "m/s", "velocity of the arm's base, world axes"),
            "angular_velocity": ("time axis", angular_rate, "rad/s", "angular velocity of the arm's base, world axes"),
            "position": ("time axis", arm[:, :3], "m", "origin of the arm's base in the world"),
            "variation": ("time joint", variation, "rad or m", "joint variation"),
            "rate": ("time joint", arm[:, at.rates], "rad/s or m/s", "joint rate"),
            "rail_force": ("time axis", force, "N", across),
            "rail_moment": ("time axis", moment, "N m", "moment of the rail about its origin"),
            "energy_kinetic": ("time", energy("kinetic"), "J", "kinetic energy (in flight: of the arm)"),
            "energy_elastic": ("time", energy("elastic"), "J", "energy in the springs"),
            "energy_damping": ("time", energy("damping"), "J", "energy dissipated by damping"),
            "energy_friction": ("time", energy("friction"), "J", "energy dissipated by dry friction"),
        },
        separation_time=ejection.time,
        stable_time=ejection.stable_time,
    )
