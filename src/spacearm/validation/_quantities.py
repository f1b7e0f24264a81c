"""Quantities of a run by name at given times, as a laboratory measures them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from spacearm.engine import mechanics_of
from spacearm.errors import InputError, did_you_mean
from spacearm.model import Robot
from spacearm.model.base import BASE_DOFS
from spacearm.model.layout import Layout
from spacearm.model.robot import BASE_POSITION, RATE_ENDING
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.simulate import Run, World
from spacearm.simulate.run.run import Track
from spacearm.simulate.world import SEPARATOR
from spacearm.typing import Array

YAW = "base_yaw"
#: Attitude of a base in space: world axes from base axes; the sign of all four is free.
ATTITUDE = ("base_qw", "base_qx", "base_qy", "base_qz")


def quantity_unit(world: World, name: str) -> str:
    """SI unit of a quantity; an error where no system has it."""
    system, own = _split_name(world, name)
    robot = world.robot(system)
    if own in BASE_POSITION:
        return "m"
    if own == YAW:
        return "rad"
    if own in ATTITUDE:
        return ""
    if own in BASE_DOFS:
        return "m/s" if BASE_DOFS.index(own) < 3 else "rad/s"
    if own in robot.joint_names:
        return robot.joint(own).unit
    if own.removesuffix(RATE_ENDING) in robot.joint_names:
        return f"{robot.joint(own.removesuffix(RATE_ENDING)).unit}/s"
    if own[-2:] in (".x", ".y", ".z") and own[:-2] in _frames(robot):
        return "m"
    rates = [joint + RATE_ENDING for joint in robot.joint_names]
    places = [f"{frame}.{axis}" for frame in _frames(robot) for axis in "xyz"]
    known = [*BASE_POSITION, YAW, *ATTITUDE, *BASE_DOFS, *robot.joint_names, *rates, *places]
    raise InputError(f"there is no quantity {name!r}", hint=did_you_mean(own, known))


def _frames(robot: Robot) -> list[str]:
    return [*(frame.name for frame in robot.frames), *robot.body_names]


def _split_name(world: World, name: str) -> tuple[str, str]:
    """System and own name of a quantity; the first system where none is named."""
    system, separator, own = name.partition(SEPARATOR)
    return (system, own) if separator and system in world.systems else (next(iter(world.systems)), name)


def read_quantity(run: Run, name: str, times: npt.ArrayLike) -> Array:
    """A quantity (T,) of a run at these of its sample times, SI; NaN where it was not there.

    ``base_x``, ``base_y``, ``base_z`` (world), ``base_yaw`` (rotation about the world's z, unwrapped), ``base_qw`` ...
    ``base_qz`` (quaternion, of either sign), ``base_vx`` ... ``base_wz`` (base axes), a joint, ``<joint>.rate``,
    ``<frame>.x`` ... (world); of another system than the first as ``<system>/<quantity>``. Poses of a system that was
    attached to another go on as a part of that.
    """
    wanted = np.asarray(times, dtype=np.float64)
    system, own = _split_name(run.world, name)
    found = np.full(wanted.shape, np.nan)
    frame, axis = run.world.robot(system).bodies[0].name, own
    if own[-2:] in (".x", ".y", ".z") and own not in run.world.robot(system).joint_names:
        # A frame's position is read like that of the base, from another frame.
        frame, axis = own[:-2], f"base_{own[-1]}"
    for rows, track, states in _rows_by_track(run, system, wanted):
        robot, layout = track.robot, Layout(track.robot.n)
        joint = own.removesuffix(RATE_ENDING)
        if axis in BASE_POSITION or axis == YAW or axis in ATTITUDE:
            # After an attachment the system is a part of its host: poses are still known there, base velocities are
            # not.
            if track.name == system or frame in _frames(robot):
                poses = states[:, : layout.joints.start]
                origin, rotation = mechanics_of(robot).frame_pose(frame, states[:, layout.joints], base=poses)
                if axis in ATTITUDE:
                    entry = ATTITUDE.index(axis)
                    found[rows] = [quaternion_from_rotation(own_rotation)[entry] for own_rotation in rotation]
                    continue
                # Yaw of the z-y-x sequence: rotation about the world's z axis, whatever the tilt.
                angle = np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])
                found[rows] = angle if axis == YAW else origin[:, BASE_POSITION.index(axis)]
        elif own in BASE_DOFS:
            if track.name == system:
                found[rows] = states[:, layout.speed(BASE_DOFS.index(own))]
        elif joint in robot.joint_names:
            index = robot.joint_index(joint)
            found[rows] = states[:, layout.joint(index) if own == joint else layout.speed(6 + index)]
    there = np.isfinite(found)
    if own == YAW:
        found[there] = np.unwrap(found[there])
    return found


def _rows_by_track(run: Run, system: str, times: Array) -> Iterator[tuple[npt.NDArray[np.intp], Track, Array]]:
    """Rows of the times that a track has samples at, the track, its states there; the system's own tracks last."""
    # Later ones overwrite earlier ones: its own track has precedence over the host's.
    for track in sorted(run.tracks, key=lambda each: each.name == system):
        nearest = np.clip(np.searchsorted(track.times, times), 0, track.times.size - 1)
        before = np.maximum(nearest - 1, 0)
        closer = np.abs(track.times[before] - times) < np.abs(track.times[nearest] - times)
        nearest = np.where(closer, before, nearest)
        # Readings are sample times of the run: nothing is interpolated, 1e-9 s covers rounding.
        rows = np.flatnonzero(np.abs(track.times[nearest] - times) <= 1e-9)
        if rows.size:
            yield rows, track, track.states[nearest[rows]]
