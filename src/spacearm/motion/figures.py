"""Figures of a plain run: base, joints against their limits, drives, momentum, the hand, energies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spacearm.figures import COLOURS, curve, lines, panels
from spacearm.model import Robot
from spacearm.result import Figure
from spacearm.simulate import Run
from spacearm.simulate.bodies import centred, frame_pose, move
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go

DEGREE = 180.0 / np.pi
#: A limit is drawn where it is at most so many times the largest value: further off it would flatten the curves.
NEAR = 3.0


def figures(run: Run) -> Iterator[Figure]:
    """In the order in which they are read: the base first."""
    data, robot = run.data, run.robot
    turned, quaternion = DEGREE * data["base_attitude"].values, data["base_quaternion"].values
    names = ("roll", "pitch", "yaw")
    plot = _panels(run, {"attitude [deg]": (names, turned), "quaternion": ("wxyz", quaternion)})
    yield Figure(
        "attitude", plot, "Attitude of the base: roll, pitch, yaw (turned in the order z, y, x) and quaternion."
    )
    if robot.n:
        yield from _joints(run)
    if run.commands:
        yield _commands(run)
    place, speed = 1e3 * data["base_position"].values, 1e3 * data["base_velocity"].values
    plot = _panels(run, {"position [mm]": ("xyz", place), "velocity [mm/s]": ("xyz", speed)})
    yield Figure("base", plot, "Position and velocity of the base's origin, world axes.")
    rate = DEGREE * data["base_angular_velocity"].values
    name = hand(robot)
    path = frame_pose(robot, move(robot, run.states), name)[1]
    plot = _panels(run, {"angular velocity of the base [deg/s]": ("xyz", rate), f"path of {name} [m]": ("xyz", path)})
    yield Figure("rate-and-hand", plot, f"Angular velocity of the base and position of {name}, world axes.")
    linear, angular = momentum(run)
    parts = {"linear [N s]": ("xyz", linear), "angular about the mass centre [N m s]": ("xyz", angular)}
    yield Figure(
        "momentum", _panels(run, parts), "Momentum of all bodies, world axes; only loads from outside change it."
    )
    energies = [str(name) for name in data.data_vars if str(name).startswith("energy_")]
    if energies:
        plot = lines(data, energies, y="energy")
        for trace in plot.data:
            trace.name = trace.name.removeprefix("energy_")
            trace.visible = True if np.any(np.asarray(trace.y)) else "legendonly"
        yield Figure("energy", _phases(plot, run), "Where the energy is and where it went since the start.")


def hand(robot: Robot) -> str:
    """The frame whose path is shown: the last one of the robot, or its last body."""
    return robot.frames[-1].name if robot.frames else robot.bodies[-1].name


def momentum(run: Run) -> tuple[Array, Array]:
    """Linear (T, 3) and angular momentum about the mass centre, world axes."""
    given = run.world.overrides.get(run.track.name)
    numbers = robot_parameters(run.robot, given)
    seen = centred(run.robot, run.states, numbers["inertia"], numbers["rotor"])
    return seen.mass * seen.velocity, seen.sums.angular


def _panels(run: Run, parts: Mapping[str, tuple[Sequence[str], Array]]) -> go.Figure:
    """Curves side by side, one panel for each group, with the phases marked."""
    figure = panels(list(parts), height=400, spacing=0.09)
    for column, (names, values) in enumerate(parts.values(), 1):
        for k, name in enumerate(names):
            style: dict[str, Any] = {"colour": k + (column == 2 and names == "wxyz"), "legendgroup": name}
            shown = column == 1 or names != next(iter(parts.values()))[0]
            curve(figure, run.times, values[:, k], name, **style, showlegend=shown, row=1, col=column)
    figure.update_xaxes(title_text="time [s]")
    return _phases(figure, run)


def _phases(figure: go.Figure, run: Run) -> go.Figure:
    for start in run.phase_starts[1:]:
        figure.add_vline(x=start, line={"dash": "dot", "width": 1, "color": COLOURS[7]})
    return figure


def _joints(run: Run) -> Iterator[Figure]:
    """Positions and rates, then what the drives give, each with the limits that are near."""
    data, joints = run.data, run.robot.joints
    turning = np.array([joint.kind == "revolute" for joint in joints])
    scale = np.where(turning, DEGREE, 1e3)
    unit = "deg" if turning.all() else "mm" if not turning.any() else "deg or mm"
    limits = [joint.limits for joint in joints]
    bounds = np.array([[limit.lower, limit.upper] if limit else [-np.inf, np.inf] for limit in limits]) * scale[:, None]
    fastest = np.array([limit.velocity if limit else np.inf for limit in limits]) * scale
    strongest = np.array([limit.effort if limit else np.inf for limit in limits])
    position, rate = data["joint_position"].values * scale, data["joint_velocity"].values * scale
    torque = (data["force"] + data["reaction"]).values[:, 6:]
    names = run.robot.joint_names
    plot = _panels(run, {f"joint positions [{unit}]": (names, position), f"rates [{unit}/s]": (names, rate)})
    near = _limit_lines(plot, bounds, position, 1) + _limit_lines(plot, np.stack([-fastest, fastest], 1), rate, 2)
    use = {name: _share(position[:, k], bounds[k]) for k, name in enumerate(names)}
    yield Figure("joints", plot, f"Joint positions and rates. {_use('range', use)} {_dashed(near, bounds, fastest)}")
    sort = "torques [N m]" if turning.all() else "forces [N]" if not turning.any() else "torques and forces [N m or N]"
    plot = panels([f"drive {sort}"], height=400)
    for k, name in enumerate(names):
        curve(plot, run.times, torque[:, k], name, colour=k)
    plot.update_xaxes(title_text="time [s]")
    near = _limit_lines(plot, np.stack([-strongest, strongest], 1), torque, 1)
    use = {name: _share(torque[:, k], np.array([-strongest[k], strongest[k]])) for k, name in enumerate(names)}
    text = f"What drives and brakes give; zero where a joint is free. {_use('torque', use)} {_dashed(near, strongest)}"
    yield Figure("drives", _phases(plot, run), text)


def _commands(run: Run) -> Figure:
    """What sampled laws commanded, by unit, with the limits of the actuators that are near."""
    units = [*dict.fromkeys(unit for log in run.commands for unit in log.units)]
    names = [*dict.fromkeys(name for log in run.commands for name in log.names)]
    plot = panels([f"commands [{unit}]" if unit != "1" else "thrusters on" for unit in units], height=400, spacing=0.09)
    shown, near = set(), 0
    for log in run.commands:
        for name, unit, values in zip(log.names, log.units, log.values.T, strict=True):
            times, held = np.append(log.times, log.end), np.append(values, values[-1:])
            look: dict[str, Any] = {"colour": names.index(name), "legendgroup": name, "showlegend": name not in shown}
            curve(plot, times, held, name, **look, line={"shape": "hv"}, row=1, col=1 + units.index(unit))
            shown.add(name)
            if name in log.limited and name in run.robot.joint_names:
                most = run.robot.joint(name).limits.effort
                near += _limit_lines(plot, np.array([[-most, most]]), values, 1 + units.index(unit), names.index(name))
    plot.update_xaxes(title_text="time [s]")
    met = [event for event in run.events_of("saturation") if event.value > 0.0]
    text = "No command met a limit of its actuator."
    if met:
        often = {name: sum(event.name == name for event in met) for name in dict.fromkeys(event.name for event in met)}
        listed = ", ".join(f"{name} {count} times" if count > 1 else f"{name} once" for name, count in often.items())
        text = f"Commands met the limit of their actuator: {listed}, first {met[0].name} at {met[0].time:.4g} s."
    text = f"What laws commanded, held from tick to tick. {text}{' Dashed: limits.' if near else ''}"
    return Figure("commands", _phases(plot, run), text)


def _share(values: Array, bounds: Array) -> float:
    """How much of its range a joint uses, seen from the middle of it; 0 where it has no limits."""
    half = 0.5 * (bounds[1] - bounds[0])
    return float(np.abs(values - bounds.mean()).max() / half) if 0.0 < half < np.inf else 0.0


def _use(what: str, shares: dict[str, float]) -> str:
    name = max(shares, key=lambda name: shares[name])
    return f"Of its {what}, {name} uses most: {100 * shares[name]:.0f} %." if shares[name] else ""


def _dashed(near: int, *limits: Array) -> str:
    if not any(np.isfinite(limit).any() for limit in limits):
        return "The robot has no limits of these."
    return "Dashed: limits." if near else f"All limits are more than {NEAR:g} times as far."


def _limit_lines(plot: go.Figure, bounds: Array, values: Array, column: int, first: int = 0) -> int:
    """Draw the limits that are near, in the colours from ``first`` on; how many."""
    near = 0
    for k, pair in enumerate(bounds, first):
        for limit in pair:
            if np.isfinite(limit) and abs(limit) <= NEAR * max(np.abs(values).max(), 1e-12):
                line = {"dash": "dash", "width": 1, "color": COLOURS[k % len(COLOURS)]}
                plot.add_hline(y=limit, line=line, row=1, col=column)
                near += 1
    return near
