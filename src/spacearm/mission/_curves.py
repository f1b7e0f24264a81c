"""Curves of a mission from start to end: what is needed to compute it again from its file of data.

Motion and drives of the servicer, motion of the target before, in and after the hand, distances of both, and every
pulse of a thruster. World axes unless a name says otherwise; SI units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from spacearm.mission._clearance import compute_gaps, target_poses
from spacearm.mission._encounter import TARGET
from spacearm.mission._flight import MissionFlight
from spacearm.mission._outcomes import StageOutcome
from spacearm.model.layout import BASE_POSE, QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.simulate import Run
from spacearm.simulate.bodies import evaluate_bodies
from spacearm.simulate.run.run import Track
from spacearm.study import dataset
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr


def mission_curves(run: Run, flight: MissionFlight, outcomes: Sequence[StageOutcome]) -> xr.Dataset:
    """The servicer and the target from start to end, whether the hand holds it or not."""
    actuators, tracks = flight.actuators, [track for track in run.tracks if track.name == flight.name]
    # The servicer changes its structure at the catch (a new track), but keeps its own joints and their order.
    times, states = (np.concatenate([getattr(track, what) for track in tracks]) for what in ("times", "states"))
    drives = np.concatenate([_drives(track) for track in tracks])
    at, rotation = Layout(actuators.robot.n), rotation_matrices(states[:, QUATERNION])
    velocity, angular_rate = (
        np.einsum("tij,tj->ti", rotation, states[:, p]) for p in (at.linear_velocity, at.angular_velocity)
    )
    stored = np.einsum("tij,tj->ti", rotation, actuators.wheel_momentum(states[:, at.rates]))
    target = _target_motion(run, flight, tracks)
    own = [track for track in run.tracks if track.name == TARGET] if flight.table.has_free_joints else []
    joints = np.concatenate([track.states for track in own]) if own else target[:, :BASE_POSE]
    gaps, parts = compute_gaps(actuators, flight.table, flight.file.bus_radius, states, joints)
    place = Layout(flight.table.reference_robot.n)
    pulses, world = [*_pulses(run, flight)], "world axes"
    thrusters = [name for name, *_ in pulses]
    begins, ends, levels = (np.array([pulse[k] for pulse in pulses], dtype=np.float64) for k in (1, 2, 3))
    return dataset(
        {
            "time": ("time", times, "s", "since the start"),
            "axis": [*"xyz"],
            "component": [*"wxyz"],
            "joint": [*actuators.robot.joint_names],
            **({"target_joint": [*flight.table.reference_robot.joint_names]} if own else {}),
            "part": parts,
            "stage": [outcome.stage for outcome in outcomes],
            "pulse": np.arange(len(pulses)),
        },
        {
            "base_position": ("time axis", states[:, :3], "m", "of the bus"),
            "base_quaternion": ("time component", states[:, QUATERNION], "1", "bus to world, w x y z"),
            "base_velocity": ("time axis", velocity, "m/s", f"of the bus, {world}"),
            "base_angular_velocity": ("time axis", angular_rate, "rad/s", f"of the bus, {world}"),
            "wheel_momentum": ("time axis", stored, "N m s", f"of the wheels relative to the bus, {world}"),
            "joint_position": ("time joint", states[:, at.joints], "rad or m", "of the servicer's joints"),
            "joint_velocity": ("time joint", states[:, at.rates], "rad/s or m/s", "of the servicer's joints"),
            "joint_force": ("time joint", drives[:, 6:], "N m or N", "of motors and brakes of the servicer's joints"),
            "target_position": ("time axis", target[:, :3], "m", "of the target's frame"),
            "target_quaternion": ("time component", target[:, QUATERNION], "1", "target to world, w x y z"),
            "target_angular_velocity": ("time axis", target[:, BASE_POSE:], "rad/s", f"of the target, {world}"),
            **(
                {
                    "target_joint_position": (
                        "time target_joint",
                        joints[:, place.joints],
                        "rad or m",
                        "of free joints",
                    ),
                    "target_joint_velocity": (
                        "time target_joint",
                        joints[:, place.rates],
                        "rad/s or m/s",
                        "of free joints",
                    ),
                }
                if own
                else {}
            ),
            "gap": ("time part", gaps, "m", "from the target to parts of the servicer"),
            "stage_begin": ("stage", np.array([outcome.begin for outcome in outcomes]), "s", "of a stage"),
            "stage_end": ("stage", np.array([outcome.end for outcome in outcomes]), "s", "of a stage"),
            "pulse_thruster": ("pulse", np.array(thrusters, dtype=str), "", "thruster that fired"),
            "pulse_begin": ("pulse", begins, "s", "of a pulse"),
            "pulse_end": ("pulse", ends, "s", "of a pulse"),
            "pulse_level": ("pulse", levels, "1", "thrust as a share of full thrust"),
        },
    )


def _drives(track: Track) -> Array:
    """Forces (T, 6 + n) of drives, and of what holds braked joints."""
    first, places = track.model.code.reaction, track.model.kernel.inputs
    reaction = track.outputs[:, first : first + track.robot.dofs]
    return np.asarray(track.inputs[:, places["force"]] + reaction)


def _target_motion(run: Run, flight: MissionFlight, tracks: Sequence[Track]) -> Array:
    """Position, quaternion and angular velocity (T, 10) of the target at the samples of these tracks."""
    free = [track for track in run.tracks if track.name == TARGET]
    found, used = [], dict.fromkeys(map(id, free), 0)
    for track in tracks:
        # A free target is recorded at the same times as the servicer, though in one track where that has several.
        count, own = track.times.size, None
        for each in free:
            first = used[id(each)]
            if np.array_equal(each.times[first : first + count], track.times):
                own, used[id(each)] = each.states[first : first + count], first + count
                break
        rows = np.full((count, BASE_POSE + 3), np.nan)
        if own is not None:
            rows[:, :BASE_POSE] = own[:, :BASE_POSE]
            angular_rate = own[:, Layout.from_size(own.shape[1]).angular_velocity]
            rows[:, BASE_POSE:] = np.einsum("tij,tj->ti", rotation_matrices(own[:, QUATERNION]), angular_rate)
        elif flight.held is not None:
            robot = flight.actuators.robot
            rows[:, :BASE_POSE] = target_poses(flight.actuators, flight.held, track.states)
            # Held rigidly, the target rotates with the gripper.
            bodies = evaluate_bodies(robot, track.states)
            rows[:, BASE_POSE:] = bodies.angular_velocity[:, robot.body_index(flight.actuators.gripper)]
        found.append(rows)
    return np.concatenate(found)


def _pulses(run: Run, flight: MissionFlight) -> Iterator[tuple[str, float, float, float]]:
    """Thruster, begin and end (s), level of each pulse, by laws and in the identification."""
    known = {part.name for part in flight.actuators.robot.thrusters}
    for log in run.commands:
        for name in log.names:
            if name not in known:
                continue
            times, values = log.command_steps(name)
            edges = np.append(times, log.end)
            # Ticks at which the level stays are one pulse.
            starts = np.flatnonzero(np.diff(values, prepend=0.0))
            for k, first in enumerate(starts):
                if values[first] != 0.0:
                    last = starts[k + 1] if k + 1 < len(starts) else len(values)
                    yield name, float(edges[first]), float(edges[last]), float(values[first])
    yield from flight.firings
