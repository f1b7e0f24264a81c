"""Figures of an approach under thrusters: the bus and the hand in the target's axes, the corridor, the propellant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from spacearm.figures import COLOURS, add_curve, limit_lines, new_figure, panels
from spacearm.mission._flight import MissionFlight
from spacearm.model.rotations import rotation_matrices
from spacearm.result import Figure
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.typing import Array

if TYPE_CHECKING:
    import xarray as xr


def approach_figures(data: xr.Dataset, flight: MissionFlight) -> Iterator[Figure]:
    """The path to the grasp, and the propellant of the whole mission."""
    rendezvous = flight.file.rendezvous
    if rendezvous is None:
        return
    free = next((each.end for each in flight.outcomes if each.stage == "touch"), flight.outcomes[-1].end)
    early = data.isel(time=np.flatnonzero(data["time"].values <= free))
    times, rotation = early["time"].values, rotation_matrices(early["target_quaternion"].values)
    place, grasp = early["target_position"].values, flight.table.grasp.pose()
    hand = _hand_places(early, flight)
    bus = np.einsum("tji,tj->ti", rotation, early["base_position"].values - place)
    apart = np.einsum("tji,tj->ti", rotation @ grasp.rotation, hand - place - rotation @ grasp.translation)
    plot = panels(["bus in the target's axes [m]", "hand from the grasp [m]"], height=400, spacing=0.12)
    for k, axis in enumerate("xyz"):
        add_curve(plot, times, bus[:, k], axis, colour=k, row=1, col=1)
    aside = np.linalg.norm(apart[:, :2], axis=1)
    add_curve(plot, apart[:, 2], aside, "hand", colour=3, row=1, col=2)
    # Of interest is the way from the first hold point before the grasp on.
    far = max(1.0, *(hold.distance or 0.0 for hold in rendezvous.hold))
    near = aside[np.abs(apart[:, 2]) <= far]
    wide = float(np.max(near, initial=flight.file.touch.distance))
    if (most := rendezvous.corridor_angle) is not None:
        edge = flight.file.touch.distance + np.array([0.0, far]) * np.tan(most)
        add_curve(plot, [0.0, far], edge, "corridor", colour=7, dash=1, row=1, col=2)
        wide = float(edge[1])
    plot.update_xaxes(range=[-0.05 * far, 1.1 * far], row=1, col=2)
    plot.update_yaxes(range=[0.0, 1.1 * wide], row=1, col=2)
    plot.update_xaxes(title_text="time [s]", row=1, col=1)
    plot.update_xaxes(title_text="along the grasp's axis [m]", row=1, col=2)
    plot.update_yaxes(title_text="beside it [m]", row=1, col=2)
    caption = "Left: where the lines are constant, the bus moves in step with the target. Right: path of the hand."
    yield Figure("rendezvous", plot, caption)
    edges, spent = _propellant(data, flight)
    plot = new_figure(x="time", x_unit="s", y="propellant", y_unit="kg", height=320)
    add_curve(plot, edges, spent, "spent", colour=0)
    if flight.file.limits.propellant is not None:
        limit_lines(plot, [(flight.file.limits.propellant,)], spent, [3])
    for outcome in flight.outcomes[1:]:
        plot.add_vline(x=outcome.begin, line={"dash": "dot", "width": 1, "color": COLOURS[7]})
    yield Figure("propellant", plot, "Propellant used by all thrusters. Dotted lines: a stage begins.")


def _hand_places(data: xr.Dataset, flight: MissionFlight) -> Array:
    """Places (T, 3) of the hand, m, world."""
    robot = flight.actuators.robot
    pose = [data["base_position"].values, data["base_quaternion"].values, data["joint_position"].values]
    states = np.concatenate([*pose, np.zeros((data.sizes["time"], 6 + robot.n))], axis=1)
    return frame_pose(robot, evaluate_bodies(robot, states), flight.actuators.hand)[1]


def _propellant(data: xr.Dataset, flight: MissionFlight) -> tuple[Array, Array]:
    """Times, s, and what has been spent by then, kg: straight in between."""
    parts = {part.name: part for part in flight.actuators.robot.thrusters}
    flows = [
        level * parts[str(name)].mass_flow
        for name, level in zip(data["pulse_thruster"].values, data["pulse_level"].values, strict=True)
    ]
    begin, end = data["pulse_begin"].values, data["pulse_end"].values
    edges = np.unique(np.concatenate([[0.0, float(data["time"].values[-1])], begin, end]))
    order = np.argsort(np.concatenate([begin, end]), kind="stable")
    changes, at = np.concatenate([flows, np.negative(flows)])[order], np.concatenate([begin, end])[order]
    rate = np.array([changes[: np.searchsorted(at, time, side="right")].sum() for time in edges])
    return edges, np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(edges))])
