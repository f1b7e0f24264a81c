"""Readings of a base that moves in a plane or along a rail.

What holds the base fixes which plane or rail of the world it is. The world's axes are turned so that the base's locked
degrees of freedom are those of the world as well: of position, attitude, velocity and rate the same components then
move. Along the others nothing is left to be measured: whatever a sensor shows there, or does not, is replaced by what
the constraint says, without error, and is no equation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spacearm.errors import InputError
from spacearm.identify.inertia.readings import BASE_CHANNELS, MotionRecord, moving_parts
from spacearm.measure import Channel, Record
from spacearm.measure.attitude import to_quaternions
from spacearm.model.base import BaseConstraint
from spacearm.model.parts import skew
from spacearm.model.rotations import rotation_matrices
from spacearm.typing import Array

#: A base that moves across its plane or rail by more than this (m, and as a share of its motion; rad) is another.
FAR, FAR_SHARE, TILTED = 0.01, 0.2, 0.1


def complete_channels(base: BaseConstraint, record: Record) -> Record:
    """The record with all components of the base's channels, zero where only those that move were measured."""
    if base.is_free:
        return record
    own = {name: _complete(base, name, channel) for name, channel in record.channels.items() if name in BASE_CHANNELS}
    return replace(record, channels={**record.channels, **own})


def _complete(base: BaseConstraint, name: str, channel: Channel) -> Channel:
    moving, rows = moving_parts(base, name), channel.values.reshape(channel.times.size, -1)
    sigma = np.broadcast_to(channel.sigma, channel.values.shape).reshape(rows.shape)
    if rows.shape[1] == 3 and name != "attitude":
        sigma = sigma[:, moving]
    if rows.shape[1] == len(moving) == 1 and name == "attitude":
        values = _turn(base, rows[:, 0])
    elif rows.shape[1] == len(moving):
        values = np.zeros((len(rows), 3))
        values[:, moving] = rows
    else:
        values = np.array(rows)
    if values.shape[1] == 3:
        # A column of nothing but NaN is a component that no sensor measures; angles are about z, y, x.
        order = [2, 1, 0] if name == "attitude" else [0, 1, 2]
        locked = [order[i] for i in range(3) if i not in moving]
        values[:, [i for i in locked if np.isnan(values[:, i]).all()]] = 0.0
    return replace(channel, values=values, sigma=np.sqrt(np.mean(np.square(sigma))) if sigma.size else 0.0)


def constrain_readings(record: MotionRecord, base: BaseConstraint) -> MotionRecord:
    """The record in world axes that fit the base's constraint, its readings exact along what does not move."""
    if base.is_free:
        return record
    readings = {name: np.array(values) for name, values in record.readings.items()}
    shape = record.times.size, 3
    if base.kind != "planar":  # without rotation there is nothing to measure
        readings.setdefault("attitude", np.broadcast_to([1.0, 0.0, 0.0, 0.0], (shape[0], 4)))
        readings.setdefault("rate", np.zeros(shape))
    axes = np.eye(3)
    if "attitude" in readings:
        axes, readings["attitude"] = _split_attitude(readings["attitude"], base, record.place)
    for name in ("position", "velocity"):
        if name in readings:
            readings[name] = _fill_locked(readings[name], axes, base) @ axes
    if "position" in readings:
        _check_position(readings["position"], base, record.place)
    for name in readings.keys() & BASE_CHANNELS.keys() - {"attitude"}:
        locked = [i for i in range(3) if i not in moving_parts(base, name)]
        readings[name][:, locked] = record.mount[locked] if name == "position" else 0.0
    momentum = record.known_momentum
    if momentum is not None:
        momentum = np.concatenate([axes.T @ momentum[:3], axes.T @ momentum[3:]])
    return replace(record, readings=readings, known_momentum=momentum, base=base)


def _turn(base: BaseConstraint, angle: Array) -> Array:
    """Quaternions (T, 4) of rotations (T,), rad, about the normal of the plane."""
    about_z = to_quaternions(angle)
    return np.concatenate([about_z[:, :1], about_z[:, 3:] * np.array(base.axis)], axis=1)


def _split_attitude(attitude: Array, base: BaseConstraint, place: str) -> tuple[Array, Array]:
    """Axes (3, 3) of the plane or rail in the world, and the attitudes (T, 4) that are left in them."""
    whole = np.isfinite(attitude).all(axis=1)
    if not whole.any():
        return np.eye(3), attitude
    rotation = rotation_matrices(attitude[whole])
    if base.kind == "planar":
        axes = _smallest_rotation(np.array(base.axis), np.mean(rotation @ np.array(base.axis), axis=0))
    else:
        # The nearest rotation to the mean of the matrices.
        u, _, v = np.linalg.svd(rotation.mean(axis=0))
        axes = u @ np.diag([1.0, 1.0, np.linalg.det(u @ v)]) @ v
    left = axes.T @ rotation
    locked = [i for i in range(3) if i not in moving_parts(base, "attitude")]
    if base.kind == "planar":
        tilt = np.linalg.norm((left @ np.array(base.axis))[:, locked], axis=1)
    else:
        tilt = np.arccos(np.clip(0.5 * (np.trace(left, axis1=1, axis2=2) - 1.0), -1.0, 1.0))
    if (size := float(np.sqrt(np.mean(tilt**2)))) > TILTED:
        what = "about other axes than the normal of its plane" if base.kind == "planar" else "though it is on a rail"
        hint = f"the base is {base.kind}, with axis {list(base.axis or ())}: another axis, order of columns or unit?"
        raise InputError(f"the attitude turns {what}, by {size:.2g} rad (rms)", place=place, hint=hint)
    found = np.full(attitude.shape, np.nan)
    if base.kind == "planar":
        # The rotation about the normal, whatever small tilt comes with it.
        normal, turned = np.array(base.axis), left - np.swapaxes(left, 1, 2)
        sine = np.stack([turned[:, 2, 1], turned[:, 0, 2], turned[:, 1, 0]], axis=1) @ normal
        cosine = np.trace(left, axis1=1, axis2=2) - (left @ normal) @ normal
        angle = np.arctan2(sine, cosine)
        found[whole] = _turn(base, np.unwrap(angle))
    else:
        found[whole] = [1.0, 0.0, 0.0, 0.0]
    return axes, found


def _smallest_rotation(start: Array, end: Array) -> Array:
    """Rotation matrix (3, 3) that takes one direction into another."""
    end = end / np.linalg.norm(end)
    across, along = np.cross(start, end), float(start @ end)
    if along < -0.999999:  # half a turn, about any axis across
        other = np.eye(3)[int(np.argmin(np.abs(start)))]
        return 2.0 * np.outer(other, other) - np.eye(3)
    return np.asarray(np.eye(3) + skew(across) + skew(across) @ skew(across) / (1.0 + along))


def _fill_locked(values: Array, axes: Array, base: BaseConstraint) -> Array:
    """Readings (T, 3) with the gaps of components that hardly move filled: turned axes would spread them."""
    found = np.array(values)
    for i in range(3):
        if i not in moving_parts(base, "position") and abs(axes[i, i]) > 0.99:
            found[np.isnan(found[:, i]), i] = np.nanmedian(found[:, i])
    return found


def _check_position(position: Array, base: BaseConstraint, place: str) -> None:
    """Refuse a base that leaves its plane or rail."""
    moving = moving_parts(base, "position")
    size = np.nanstd(position, axis=0)
    locked = [i for i in range(3) if i not in moving]
    across, along = float(np.max(size[locked], initial=0.0)), float(np.max(size[moving], initial=0.0))
    if across > max(FAR, FAR_SHARE * along):
        what = "across the plane" if base.kind == "planar" else "across the rail"
        raise InputError(
            f"the base moves {what} by {across:.2g} m (standard deviation), and along it by {along:.2g} m",
            place=place,
            hint=f"the base is {base.kind}, with axis {list(base.axis or ())}: another axis, order of columns or unit?",
        )
