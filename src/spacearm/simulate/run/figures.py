"""Figures of a run: base, joints and wheels with their limits, drives, momentum, the hand, energies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from spacearm.figures import COLOURS, MOST_CURVES, NEAR, add_curve, limit_lines, lines, panels
from spacearm.model import Robot
from spacearm.result import RPM, Figure
from spacearm.simulate.bodies import centre_motion, evaluate_bodies, frame_pose
from spacearm.simulate.overrides import robot_parameters
from spacearm.typing import Array

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from spacearm.simulate.run.run import Run

DEGREE = 180.0 / np.pi
#: Momentum has only the accuracy of the integrator: rounding is taken as this many times the usual.
ERRORS = 100.0


def figures(run: Run) -> Iterator[Figure]:
    """Figures in reading order: the base first."""
    data, robot = run.data, run.robot
    rotated, quaternion = DEGREE * data["base_attitude"].values, data["base_quaternion"].values
    names = ("roll", "pitch", "yaw")
    # The vector part first: its entries have the colours of the angles about the same axes.
    parts = {"attitude [deg]": (names, rotated, DEGREE), "quaternion": ("xyzw", np.roll(quaternion, -1, axis=1), 1.0)}
    plot = _panels(run.times, parts)
    yield Figure(
        "attitude",
        _phases(plot, run),
        "Attitude of the base: roll, pitch, yaw (rotations in the order z, y, x) and quaternion.",
    )
    yield from _joints(run)
    if robot.wheel_names:
        plot = wheel_panels(robot, run.times, data["joint_velocity"].values)
        yield Figure("wheels", _phases(plot, run), WHEELS)
    if run.commands:
        yield from _commands(run)
    place, speed = 1e3 * data["base_position"].values, 1e3 * data["base_velocity"].values
    bodies = evaluate_bodies(robot, run.states)
    # Scale for rounding: a curve far below the fastest motion of any body is drawn as zero, not as noise.
    fastest = float(np.linalg.norm(bodies.velocity, axis=2).max(initial=0.0))
    rotating = float(np.linalg.norm(bodies.angular_velocity, axis=2).max(initial=0.0))
    parts = {"position [mm]": ("xyz", place, 1e3), "velocity [mm/s]": ("xyz", speed, 1e3 * fastest)}
    plot = _phases(_panels(run.times, parts), run)
    yield Figure("base", plot, "Position and velocity of the base's origin, world axes.")
    rate = DEGREE * data["base_angular_velocity"].values
    name = hand_frame(robot)
    # From the bodies evaluated already: kinematics of all samples are computed once.
    path = frame_pose(robot, bodies, name)[1]
    parts = {
        "angular velocity of the base [deg/s]": ("xyz", rate, DEGREE * rotating),
        f"path of {name} [m]": ("xyz", path, 1.0),
    }
    plot = _phases(_panels(run.times, parts), run)
    yield Figure("rate-and-hand", plot, f"Angular velocity of the base and position of {name}, world axes.")
    linear, angular = momentum(run)
    moved = ERRORS * robot.mass * fastest
    parts = {
        "linear [N s]": ("xyz", linear, moved),
        "angular about the mass centre [N m s]": ("xyz", angular, moved * _size(bodies.origin)),
    }
    plot = _phases(_panels(run.times, parts), run)
    yield Figure("momentum", plot, "Momentum of all bodies, world axes; only external loads change it.")
    energies = [str(name) for name in data.data_vars if str(name).startswith("energy_")]
    if energies:
        plot = lines(data, energies, y="energy")
        for trace in plot.data:
            trace.name = trace.name.removeprefix("energy_")
            # Energies that are zero throughout stay in the legend, so that the reader sees that they were considered.
            trace.visible = True if np.any(np.asarray(trace.y)) else "legendonly"
        yield Figure("energy", _phases(plot, run), "Energies, and dissipation and work since the start.")


def hand_frame(robot: Robot) -> str:
    """The frame whose path is shown: the last one of the robot, or its last body."""
    return robot.frames[-1].name if robot.frames else robot.bodies[-1].name


def momentum(run: Run) -> tuple[Array, Array]:
    """Linear (T, 3) and angular momentum about the mass centre, world axes."""
    given, states, parts = run.world.overrides.get(run.track.name), run.states, []
    robots = run.track.robots or ((0, run.robot),)
    ends = [*(first for first, _ in robots[1:]), len(states)]
    for (first, robot), end in zip(robots, ends, strict=True):
        numbers = robot_parameters(robot, given)
        seen = centre_motion(robot, states[first:end], numbers["inertia"], numbers["rotor"])
        parts.append((seen.mass * seen.velocity, seen.sums.angular))
    linear, angular = (np.concatenate(each) for each in zip(*parts, strict=True))
    return linear, angular


def _size(origins: Array) -> float:
    """Largest distance of bodies from the base, m; at least 1, for quantities about mass centres."""
    return max(1.0, float(np.linalg.norm(origins - origins[:, :1], axis=2).max(initial=0.0)))


#: Titles of panels with the names, curves (T, names) and magnitude of what they show: see
#: :func:`~spacearm.figures.add_curve`.
Parts: TypeAlias = Mapping[str, tuple[Sequence[str], Array, float]]


def _panels(times: Array, parts: Parts) -> go.Figure:
    """Panels in a row, one for each group of curves."""
    figure = panels(list(parts), height=400, spacing=0.09)
    for column, (names, values, scale) in enumerate(parts.values(), 1):
        for k, name in enumerate(names):
            style: dict[str, Any] = {"colour": k, "legendgroup": name}
            shown = column == 1 or names != next(iter(parts.values()))[0]
            add_curve(figure, times, values[:, k], name, scale=scale, **style, showlegend=shown, row=1, col=column)
    figure.update_xaxes(title_text="time [s]")
    return figure


def _phases(figure: go.Figure, run: Run) -> go.Figure:
    for start in run.phase_starts[1:]:
        figure.add_vline(x=start, line={"dash": "dot", "width": 1, "color": COLOURS[7]})
    return figure


class Group(NamedTuple):
    """Joints of one unit that fit into one figure."""

    suffix: str  # of the figure's name
    joints: list[int]  # numbers
    unit: str
    scale: float  # of the unit, from rad or m
    effort: str  # effort of the drives, with its unit


def joint_groups(robot: Robot, names: Sequence[str] | None = None) -> list[Group]:
    """Joints (by default all but wheels and modes) by unit, at most eight in a group."""
    chosen = robot.arm_names if names is None else names
    units = (("rad", "deg", DEGREE, "torques [N m]", ""), ("m", "mm", 1e3, "forces [N]", "-slides"))
    found = []
    for own, unit, scale, effort, suffix in units:
        index = [robot.joint_index(name) for name in chosen if robot.joint(name).unit == own]
        for number, first in enumerate(range(0, len(index), MOST_CURVES), 1):
            more = f"-{number}" if number > 1 else ""
            found.append(Group(f"{suffix}{more}", index[first : first + MOST_CURVES], unit, scale, effort))
    return found


def joint_panels(robot: Robot, group: Group, times: Array, positions: Array, rates: Array) -> tuple[go.Figure, str]:
    """Positions and rates (T, n), rad or m, of a group of joints with the limits that are close, and a caption."""
    joints = [robot.joints[k] for k in group.joints]
    names, limits = [joint.name for joint in joints], [joint.limits for joint in joints]
    bounds = np.array([[limit.lower, limit.upper] for limit in limits]) * group.scale
    fastest = np.array([limit.velocity for limit in limits]) * group.scale
    position, rate = (values[:, group.joints] * group.scale for values in (positions, rates))
    parts = {
        f"joint positions [{group.unit}]": (names, position, group.scale),
        f"rates [{group.unit}/s]": (names, rate, float(np.abs(rates).max(initial=0.0)) * group.scale),
    }
    plot = _panels(times, parts)
    colours = range(len(joints))
    near = limit_lines(plot, bounds, position, colours)
    near += limit_lines(plot, np.stack([-fastest, fastest], 1), rate, colours, column=2)
    use = {name: _range_share(position[:, k], bounds[k]) for k, name in enumerate(names)}
    return plot, f"Joint positions and rates. {_range_use_text('range', use)} {_limits_caption(near, bounds, fastest)}"


def _joints(run: Run) -> Iterator[Figure]:
    """Positions and rates, then efforts of the drives, each with the limits that are close."""
    data, robot, groups = run.data, run.robot, joint_groups(run.robot)
    for group in groups:
        curves = data["joint_position"].values, data["joint_velocity"].values
        plot, text = joint_panels(robot, group, run.times, *curves)
        yield Figure(f"joints{group.suffix}", _phases(plot, run), text)
    for figure in mode_figures(robot, run.times, data["joint_position"].values):
        yield replace(figure, plot=_phases(figure.plot, run))
    torque = (data["force"] + data["reaction"]).values[:, 6:]
    for group in groups:
        given, names = torque[:, group.joints], [robot.joint_names[k] for k in group.joints]
        if not given.any():  # nothing drives them
            continue
        most = np.array([robot.joints[k].limits.effort for k in group.joints])
        bounds = np.stack([-most, most], 1)
        plot = _panels(run.times, {f"drive {group.effort}": (names, given, float(np.abs(torque).max(initial=0.0)))})
        near = limit_lines(plot, bounds, given, range(len(names)))
        use = {name: _range_share(given[:, k], bounds[k]) for k, name in enumerate(names)}
        notes = f"{_range_use_text(group.effort.partition('s [')[0], use)} {_limits_caption(near, most)}"
        text = f"Efforts of drives and brakes; zero while a joint is free. {notes}"
        yield Figure(f"drives{group.suffix}", _phases(plot, run), text)


def mode_figures(robot: Robot, times: Array, positions: Array) -> Iterator[Figure]:
    """Coordinates of appendages' modes and of slosh (T, n), by unit: what bends, what moves in tanks."""
    for group in joint_groups(robot, robot.mode_names):
        names, values = [robot.joint_names[k] for k in group.joints], positions[:, group.joints] * group.scale
        sizes = np.abs(values).max(axis=0, initial=0.0)
        largest = int(np.argmax(sizes))
        plot = _panels(times, {f"modes [{group.unit}]": (names, values, group.scale)})
        text = (
            "Modes of appendages and slosh: displacement of their equivalent masses. The largest is "
            f"{names[largest]} with {sizes[largest]:.3g} {group.unit}."
        )
        yield Figure(f"modes{group.suffix}", plot, text)


WHEELS = "Speed of the wheels relative to the bus, and the momentum that they store. Dashed: limits."


def wheel_panels(robot: Robot, times: Array, rates: Array) -> go.Figure:
    """Speed and stored momentum of the wheels against their limits, for joint rates (T, n), rad/s."""
    wheels = [robot.joint(name) for name in robot.wheel_names]
    index = [robot.joint_index(wheel.name) for wheel in wheels]
    inertia = np.array([wheel.rotor.inertia * wheel.rotor.ratio for wheel in wheels if wheel.rotor is not None])
    most = np.array([wheel.limits.velocity for wheel in wheels])
    values, names, size = rates[:, index], list(robot.wheel_names), float(np.abs(rates).max(initial=0.0))
    parts = {
        "speed [rpm]": (names, RPM * values, RPM * size),
        "stored momentum [N m s]": (names, values * inertia, float(inertia.max()) * size),
    }
    plot = _panels(times, parts)
    for column, limit in ((1, RPM * most), (2, most * inertia)):
        # wheels with the same limit: it is drawn once, in a neutral colour
        for one in sorted({float(value) for value in limit if np.isfinite(value)}):
            for end in (-one, one):
                plot.add_hline(y=end, line={"dash": "dash", "width": 1, "color": COLOURS[7]}, row=1, col=column)
    return plot


def _commands(run: Run) -> Iterator[Figure]:
    """Commands of sampled laws, by unit, with the limits of the actuators that are close."""
    # Wheels apart from joints of the same unit: their torques are far smaller.
    kinds: dict[tuple[str, bool], list[str]] = {}
    for log in run.commands:
        for name, unit in zip(log.names, log.units, strict=True):
            known = kinds.setdefault((unit, name in run.robot.wheel_names), [])
            known += [log.label(name)] * (log.label(name) not in known)
    met = [event for event in run.events_of("saturation") if event.value > 0.0]
    notes = "No command reached a limit of its actuator."
    if met:
        often = {name: sum(event.name == name for event in met) for name in dict.fromkeys(event.name for event in met)}
        listed = ", ".join(f"{name} {count} times" if count > 1 else f"{name} once" for name, count in often.items())
        notes = f"Commands reached the limit of their actuator: {listed}, first {met[0].name} at {met[0].time:.4g} s."
    parts = [
        (unit, names[first : first + MOST_CURVES])
        for (unit, _), names in kinds.items()
        for first in range(0, len(names), MOST_CURVES)
    ]
    for number, (unit, names) in enumerate(parts, 1):
        plot, near = _command_figure(run, unit, names)
        text = f"Commands of laws, held from tick to tick. {notes}{' Dashed: limits.' if near else ''}"
        yield Figure(f"commands-{number}" if number > 1 else "commands", _phases(plot, run), text)


def _command_figure(run: Run, unit: str, names: Sequence[str]) -> tuple[go.Figure, int]:
    """Commands of these actuators, and the number of limits drawn."""
    plot = panels([f"commands [{unit}]" if unit != "1" else "thrusters on"], height=400)
    shown, near = set(), 0
    for log in run.commands:
        for own in log.names:
            since, values = log.command_steps(own)
            name = log.label(own)
            if name not in names:
                continue
            times, held, colour = np.append(since, log.end), np.append(values, values[-1:]), names.index(name)
            look: dict[str, Any] = {"colour": colour, "legendgroup": name, "showlegend": name not in shown}
            add_curve(plot, times, held, name, **look, scale=0.0, line={"shape": "hv"}, row=1, col=1)
            shown.add(name)
            if own in log.limited and own in run.robot.joint_names and log.system in ("", run.robot.name):
                most = run.robot.joint(own).limits.effort
                near += limit_lines(plot, [(-most, most)], values, [colour])
    plot.update_xaxes(title_text="time [s]")
    return plot, near


def _range_share(values: Array, bounds: Array) -> float:
    """Fraction of its range that a joint uses, measured from the middle; 0 without limits."""
    half = 0.5 * (bounds[1] - bounds[0])
    return float(np.abs(values - bounds.mean()).max() / half) if 0.0 < half < np.inf else 0.0


def _range_use_text(what: str, shares: dict[str, float]) -> str:
    name = max(shares, key=lambda name: shares[name])
    return f"{name} uses most of its {what}: {100 * shares[name]:.0f} %." if shares[name] else ""


def _limits_caption(near: int, *limits: Array) -> str:
    if not any(np.isfinite(limit).any() for limit in limits):
        return "The robot has no such limits."
    return "Dashed: limits." if near else f"All limits are more than {NEAR:g} times as far."
