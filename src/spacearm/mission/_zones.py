"""Zones of an approach: keep-out ellipsoids, the corridor to the grasp, the exhaust of thrusters.

Keep-out: the least value of |D R^T (p - c)| over the points p of the servicer, with D the inverse semi-axes; 1 is the
surface. A collision shape counts as the box that encloses it; the least value over a box is found coordinate by
coordinate, which converges because the function is convex. Corridor: a cone about the grasp's z axis whose mouth at the
grasp is as wide as the latch reaches; the hand stays in it. Plume: the angle between the axis of a nozzle and the
nearest line to the target is asin of the least d(s) / s, with d(s) the target's distance from the point at s on the
axis. What the exhaust does there is not computed: it must not reach the target. All are looked at between samples too.
World axes, SI units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from spacearm.errors import InputError
from spacearm.mission._clearance import SOLIDS, shape_around, solid_shapes
from spacearm.mission._encounter import TARGET
from spacearm.mission._limits import Positive, order_limits
from spacearm.mission._nearest import SAME_TIME, States, find_least, interpolate_states, limit_least, limit_most
from spacearm.model import CollisionShape, Pose, Robot
from spacearm.model.layout import QUATERNION
from spacearm.model.rotations import quaternion_from_rotation, rotation_matrices
from spacearm.model.toml_schema import Vector3
from spacearm.result import Limit
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.study import ScenarioTable, key
from spacearm.typing import Array

if TYPE_CHECKING:
    from spacearm.mission._flight import MissionFlight

#: Points of a nozzle's axis, and the nearest one as a share of its range.
AXIS_POINTS, NEAREST = 200, 1e-3
#: Sweeps over the coordinates of a box, and the change (of semi-axes) at which they end.
SWEEPS, CONVERGED = 200, 1e-10
#: What is watched in a phase: the servicer outside the volumes, or the hand in the corridor.
Zone = Literal["", "keep-out", "corridor"]


class KeepOutZoneTable(ScenarioTable):
    """An ellipsoid that no part of the servicer may enter, except on the path to hold points with `corridor`."""

    semi_axes: Vector3 = key(what="along its axes, m; three equal ones make a sphere")
    centre: Vector3 | None = key(None, "in its frame, m; the target's mass centre if omitted")
    frame: Literal["target", "orbit"] = key(
        "target",
        "its axes: `target`: those of the target's body; `orbit`: world axes, `centre` from the target's mass centre",
    )

    def check(self) -> None:
        if min(self.semi_axes) <= 0.0:
            raise InputError(f"are {self.semi_axes}", place="semi_axes", hint="expected three lengths above zero, m")


class PlumeTable(ScenarioTable):
    """The exhaust of a thruster: a cone in which the target must not be while the thruster fires, in every stage."""

    angle: Positive | None = key(None, "half the cone's angle, rad; 30 deg if omitted")
    angle_deg: Positive | None = None
    range: Positive = key(10.0, "how far it reaches, m")

    @property
    def half_angle(self) -> float:
        """rad."""
        given = self.si_value("angle")
        return float(np.radians(30.0)) if given is None else float(given)


def judge_zones(flight: MissionFlight) -> Iterator[Limit]:
    """Limits of the zones in the phase before."""
    file = flight.file
    if file.plume is None and (file.rendezvous is None or not flight.zone):
        return
    if TARGET in flight.context.states and file.rendezvous is not None:
        if flight.zone == "keep-out":
            for k, volume in enumerate(file.rendezvous.keep_out):
                yield _judge_volume(flight, volume, f"volume {k + 1}")
        if flight.zone == "corridor" and (most := file.rendezvous.corridor_angle) is not None:
            yield _judge_corridor(flight, most)
    if file.plume is not None:
        yield from _judge_plumes(flight, file.plume)


# -- keep-out volumes -------------------------------------------------------------------------------------------------


def _judge_volume(flight: MissionFlight, volume: KeepOutZoneTable, name: str) -> Limit:
    times, values = find_least(*flight.context.samples, lambda states: _volume_distances(flight, volume, states), 1.0)
    return limit_least("keep-out volume", values.min(axis=1), 1.0, "of its semi-axes", name, times)


def _volume_distances(flight: MissionFlight, volume: KeepOutZoneTable, states: States) -> Array:
    """Scaled distances (T, shapes) of the servicer's shapes from the centre of a volume."""
    bodies, target = evaluate_bodies(flight.actuators.robot, states[flight.name]), flight.target_track(states)
    com, rotation = flight.table.mass_centre, rotation_matrices(target[:, QUATERNION])
    mass_centre = target[:, :3] + rotation @ com
    if volume.frame == "orbit":
        axes = np.broadcast_to(np.eye(3), rotation.shape)
        centre = mass_centre if volume.centre is None else mass_centre + np.array(volume.centre)
    else:
        axes, centre = (
            rotation,
            mass_centre if volume.centre is None else target[:, :3] + rotation @ np.array(volume.centre),
        )
    found = [
        ellipsoid_distance(
            np.array(volume.semi_axes), axes, centre, bodies.rotation[:, body], bodies.origin[:, body], box
        )
        for body, box in _boxes(flight.actuators.robot, flight.file.bus_radius)
    ]
    return np.stack(found, axis=1)


def _boxes(robot: Robot, radius: float) -> Iterator[tuple[int, tuple[Pose, Array]]]:
    """Each body with a box (pose in it, half edges) about one of its shapes; a servicer without any: its ball's box."""
    bare = True
    for number, body in enumerate(robot.bodies):
        for shape in body.collisions:
            if shape.shape in SOLIDS:
                bare = False
                yield number, (shape.placement, half_edges(shape))
    if bare:
        yield 0, (Pose(), np.full(3, radius))


def half_edges(shape: CollisionShape) -> Array:
    """Half edges (3,) of the box that encloses a shape, m."""
    size = shape.size
    if shape.shape == "box":
        return 0.5 * size
    if shape.shape == "sphere":
        return np.full(3, size[0])
    along = 0.5 * size[1] + (size[0] if shape.shape == "capsule" else 0.0)
    return np.array([size[0], size[0], along])


def ellipsoid_distance(
    semi_axes: Array, axes: Array, centre: Array, rotation: Array, origin: Array, box: tuple[Pose, Array]
) -> Array:
    """Least distance (T,) of boxes on a body from the centre of an ellipsoid, scaled by its semi-axes.

    Args:
        semi_axes: (3,) m.
        axes, centre: of the ellipsoid, (T, 3, 3) to world and (T, 3).
        rotation, origin: of the body, (T, 3, 3) and (T, 3).
        box: its pose in the body, and half edges (3,).
    """
    place, half = box
    # In axes scaled by the semi-axes the ellipsoid is a unit ball, and the box a parallelepiped: a linear image of
    # coordinates that are each within bounds of their own.
    scaled = np.swapaxes(axes, 1, 2) / semi_axes[:, None]
    matrix = scaled @ rotation @ place.rotation
    shift = np.einsum("tij,tj->ti", scaled, origin + rotation @ place.translation - centre)
    point, square = np.zeros_like(shift), np.sum(matrix**2, axis=1)
    for _ in range(SWEEPS):
        before = point.copy()
        for k in range(3):
            # The least value along one coordinate, the others as they are, cut at the box.
            rest = shift + np.einsum("tij,tj->ti", matrix, point) - matrix[:, :, k] * point[:, k, None]
            point[:, k] = np.clip(-np.sum(matrix[:, :, k] * rest, axis=1) / square[:, k], -half[k], half[k])
        if np.abs(np.einsum("tij,tj->ti", matrix, point - before)).max() < CONVERGED:
            break
    return np.asarray(np.linalg.norm(shift + np.einsum("tij,tj->ti", matrix, point), axis=1))


# -- corridor ---------------------------------------------------------------------------------------------------------


def _judge_corridor(flight: MissionFlight, most: float) -> Limit:
    # The largest angle: the least of its negative.
    times, values = find_least(
        *flight.context.samples, lambda states: -_corridor_angles(flight, most, states)[:, None], -most
    )
    return limit_most("corridor", -values[:, 0], most, "rad", flight.actuators.hand, times)


def _corridor_angles(flight: MissionFlight, most: float, states: States) -> Array:
    """Angles (T,) of the hand from the grasp's axis, rad, seen from the tip of the corridor's cone."""
    bodies, target = evaluate_bodies(flight.actuators.robot, states[flight.name]), flight.target_track(states)
    grasp, rotation = flight.table.grasp.pose(), rotation_matrices(target[:, QUATERNION])
    _, hand = frame_pose(flight.actuators.robot, bodies, flight.actuators.hand)
    # In axes of the grasp: z points out of the target.
    apart = np.einsum("tji,tj->ti", rotation @ grasp.rotation, hand - target[:, :3] - rotation @ grasp.translation)
    # The cone's tip lies behind the grasp, so that its mouth there is as wide as the latch reaches.
    along = apart[:, 2] + flight.file.touch.distance / np.tan(most)
    return np.asarray(np.arctan2(np.linalg.norm(apart[:, :2], axis=1), along))


# -- plumes -----------------------------------------------------------------------------------------------------------


def _judge_plumes(flight: MissionFlight, plume: PlumeTable) -> Iterator[Limit]:
    found = []
    for name, pulses in _pulses_of_phase(flight).items():
        times, states = _sample_pulses(*flight.context.samples, pulses)
        times, angles = find_least(
            times,
            states,
            lambda states, name=name: _plume_angles(flight, plume, name, states),  # type: ignore[misc]
            plume.half_angle,
            lambda middles, pulses=pulses: _is_firing(pulses, middles),  # type: ignore[misc]
        )
        found.append(limit_least("plume", angles[:, 0], plume.half_angle, "rad", f"{name} and {TARGET}", times))
    if found:
        yield min(found, key=order_limits)


def _plume_angles(flight: MissionFlight, plume: PlumeTable, thruster: str, states: States) -> Array:
    """Angles (T, 1), rad, between a thruster's axis and the nearest line to the target."""
    robot, target = flight.actuators.robot, flight.table.reference_robot
    part = robot.thruster(thruster)
    bodies, k = evaluate_bodies(robot, _own_rows(robot, states[flight.name])), robot.body_index(part.body)
    turn = bodies.rotation[:, k]
    nozzle, axis = bodies.origin[:, k] + turn @ part.position, -turn @ part.direction
    given = {number: shapes for number, body in enumerate(target.bodies) if (shapes := solid_shapes(body))}
    given = given or {0: (shape_around(flight.table, flight.table.mass_centre),)}
    if not flight.table.has_free_joints:
        return plume_angle(nozzle, axis, plume.range, flight.target_track(states), given[0])[:, None]
    parts = evaluate_bodies(target, states[TARGET])
    found = []
    for number, shapes in given.items():
        quaternion = np.array([quaternion_from_rotation(each) for each in parts.rotation[:, number]])
        track = np.concatenate([parts.origin[:, number], quaternion], axis=1)
        found.append(plume_angle(nozzle, axis, plume.range, track, shapes))
    return np.asarray(np.min(found, axis=0))[:, None]


def _own_rows(robot: Robot, rows: Array) -> Array:
    """Flat states (T, 13 + 2 n) of the servicer alone, for poses: its base and its own joints come first."""
    return np.concatenate([rows[:, : 7 + robot.n], np.zeros((len(rows), 6 + robot.n))], axis=1)


def _pulses_of_phase(flight: MissionFlight) -> dict[str, Array]:
    """Pulses (K, 2) of each thruster that fires in the phase before: from and until when, s, in their order."""
    known, found = {part.name for part in flight.actuators.robot.thrusters}, dict[str, list[tuple[float, float]]]()
    for log in flight.context.commands:
        for name in known.intersection(log.names):
            starts, levels = log.command_steps(name)
            ends = np.append(starts[1:], log.end)
            on = levels > 0.0
            found.setdefault(name, []).extend(zip(starts[on], ends[on], strict=True))
    for name, begin, end, _ in flight.firings:
        found.setdefault(name, []).append((begin, end))
    first, last = flight.context.samples[0][[0, -1]]
    clipped = {
        name: np.clip(np.array(sorted(each)).reshape(-1, 2), first, last) for name, each in sorted(found.items())
    }
    kept = {name: pulses[pulses[:, 1] - pulses[:, 0] > SAME_TIME] for name, pulses in clipped.items()}
    return {name: _join_pulses(pulses) for name, pulses in kept.items() if len(pulses)}


def _join_pulses(pulses: Array) -> Array:
    """Pulses (K, 2) without pauses between: ticks at which a thruster goes on firing are one."""
    paused = pulses[1:, 0] > pulses[:-1, 1] + SAME_TIME
    return np.stack([pulses[np.append(True, paused), 0], pulses[np.append(paused, True), 1]], axis=1)


def _is_firing(pulses: Array, times: Array) -> npt.NDArray[np.bool_]:
    """Whether these times (T,) lie within pulses (K, 2), which do not overlap, ends included."""
    before = np.searchsorted(pulses[:, 0], times, side="right") - 1
    return np.asarray((before >= 0) & (times <= pulses[np.maximum(before, 0), 1]))


def _sample_pulses(times: Array, states: States, pulses: Array) -> tuple[Array, States]:
    """Times and states within pulses: the samples there, and both ends of each pulse."""
    edges = np.unique(pulses)
    rows = np.clip(np.searchsorted(times, edges, side="right") - 1, 0, times.size - 2)
    # An edge at an instant of two samples, at an event, lies in an interval that has a length.
    rows = np.where(np.diff(times)[rows] > SAME_TIME, rows, np.maximum(rows - 1, 0))
    on = np.flatnonzero(_is_firing(pulses, times))
    found = np.concatenate([times[on], edges])
    order = np.argsort(found, kind="stable")
    merged = {
        name: np.concatenate([each[on], interpolate_states(times, each, edges, rows)])[order]
        for name, each in states.items()
    }
    return found[order], merged


def plume_angle(nozzle: Array, axis: Array, reach: float, target: Array, shapes: tuple[CollisionShape, ...]) -> Array:
    """Angle (T,), rad, between a nozzle's axis and the nearest line to the target: at most a right angle.

    Args:
        nozzle, axis: (T, 3) its place, and the direction of its exhaust.
        reach: m, beyond which the exhaust does nothing.
        target: (T, 7) position and quaternion of the target's frame.
        shapes: of the target.
    """
    # Even in the logarithm: what counts is d(s) / s, whose scale is s itself.
    along = np.geomspace(NEAREST * reach, reach, AXIS_POINTS)
    points = nozzle[:, None] + along[:, None] * axis[:, None]
    local = np.einsum("tji,tsj->tsi", rotation_matrices(target[:, QUATERNION]), points - target[:, None, :3])
    least = np.ones(len(nozzle))
    for shape in shapes:
        away = point_distance(shape, (local - shape.placement.translation) @ shape.placement.rotation)
        # A ball of radius d about the point at s is seen from the nozzle under asin(d / s): the largest cone that
        # touches nothing is the least of these.
        least = np.minimum(least, np.min(away / along, axis=1))
    return np.arcsin(least)


def point_distance(shape: CollisionShape, points: Array) -> Array:
    """Distance (...) of points (..., 3) in its own axes from a shape, m; 0 inside."""
    size = shape.size
    if shape.shape == "sphere":
        return np.asarray(np.maximum(np.linalg.norm(points, axis=-1) - size[0], 0.0))
    if shape.shape == "box":
        return np.asarray(np.linalg.norm(np.maximum(np.abs(points) - 0.5 * size, 0.0), axis=-1))
    # Cylinders and capsules lie along z: distances from the side, and from the nearer end.
    beside, beyond = np.linalg.norm(points[..., :2], axis=-1), np.maximum(np.abs(points[..., 2]) - 0.5 * size[1], 0.0)
    if shape.shape == "capsule":
        return np.asarray(np.maximum(np.hypot(beside, beyond) - size[0], 0.0))
    return np.asarray(np.hypot(np.maximum(beside - size[0], 0.0), beyond))
