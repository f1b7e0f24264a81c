"""From runs and robots to scenes.

A view has one actor for each track of a run (a system between two changes of its structure) with the poses of all its
bodies (frames, bodies, 7: position, quaternion x y z w as browsers use it) in world axes, and what acts on it at the
same instants. Long runs are thinned to a number of frames; nothing is interpolated here, viewers do that. Loads are
evaluated from their signals, forces of elements and laws are read from the recorded inputs of the motion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spacearm.checks import number, numbers
from spacearm.errors import InputError, quote_text
from spacearm.model import Robot, Visual
from spacearm.model.layout import QUATERNION, Layout
from spacearm.model.rotations import rotation_matrices
from spacearm.scene._contact_visuals import contact_shapes
from spacearm.scene._flexible import quaternions_of, separate_flexible
from spacearm.scene.meshes import Meshes
from spacearm.scene.scene import (
    Scene,
    SceneBody,
    SceneForce,
    SceneJoint,
    SceneShape,
    SceneSystem,
    SceneView,
    TimelineMark,
)
from spacearm.scene.shapes import BodyShapes, body_shapes
from spacearm.simulate.bodies import evaluate_bodies, frame_pose
from spacearm.simulate.law import Law
from spacearm.simulate.motion import laws_of
from spacearm.simulate.run.run import Run, Track
from spacearm.simulate.run.segment import Segment
from spacearm.simulate.state import State
from spacearm.simulate.world import World
from spacearm.typing import Array

#: Of the systems, in their order: they stay apart for colour-blind readers, on light and dark ground.
COLOURS = ("#3a7ebf", "#e08a1e", "#1f9e77", "#c85a9e", "#8a6d3b", "#7f7f7f")
#: How much white is mixed into a system's colour for each role of a shape.
_WHITE_SHARES = {"base": 0.62, "link": 0.72, "joint": 0.0, "visual": 0.72}
#: A frame at the end of an arm.
_HAND = re.compile(r"hand|tool|tip|tcp|gripper|effector|\bee\b|\bend\b|flange", re.IGNORECASE)
MOST_MARKS = 300
#: Points of a path that a law follows.
GUIDE = 121


def scene_of(
    what: Any,
    *,
    title: str = "",
    hand: str | Sequence[str] | None = None,
    frames: int = 600,
    configuration: str = "",
    ghosts: Mapping[str, tuple[Robot, Any, Any]] | None = None,
) -> Scene:
    """The scene of a run, of a robot, or of several to choose from.

    Args:
        what: a :class:`~spacearm.simulate.Run`, or what has one as ``run``; a :class:`~spacearm.Robot`; a robot with a
            state or with joint positions, ``(robot, state)``, or with a history of states from elsewhere, ``(robot,
            times, states)``; or a table of these by name, of which one is shown at a time.
        title: shown in the scene; the robot's name if omitted.
        hand: frame or frames whose path is drawn; by itself the one whose name says that it is a hand.
        frames: samples of each system at most.
        configuration: of a robot, by name.
        ghosts: motions that are drawn translucent beside it, ``(robot, times, states)`` by the name in the legend: what
            was measured beside what was predicted.
    """
    number(frames, "frames", least=2)
    given = {"": what} if not isinstance(what, Mapping) else what
    if not given:
        raise InputError("there is nothing to show", place="scene")
    hands = None if hand is None else (hand,) if isinstance(hand, str) else tuple(hand)
    views = [_view(name, each, title, hands, int(frames), configuration) for name, each in given.items()]
    if ghosts:
        views = [_add_ghosts(view, ghosts, int(frames)) for view in views]
    return Scene(tuple(views))


def _add_ghosts(view: SceneView, ghosts: Mapping[str, tuple[Robot, Any, Any]], frames: int) -> SceneView:
    """The view with these motions as further systems, each in a colour of its own."""
    systems, actors, meshes = list(view.systems), list(view.actors), list(view.meshes)
    for name, motion in ghosts.items():
        own = _history_view(*motion, name, "", (), frames)
        number, first = len(systems), len(meshes)
        colour = COLOURS[number % len(COLOURS)]
        # Its meshes come after those of the view; its bodies are of one colour, whatever the robot's own colours are.
        bodies = tuple(
            replace(
                body, system=number, box=None,
                shapes=tuple(
                    replace(shape, colour=colour, mesh=shape.mesh + first if shape.mesh >= 0 else -1)
                    for shape in body.shapes
                ),
            )
            for body in own.actors[0].bodies
        )  # fmt: skip
        systems.append((name, colour))
        actors.append(replace(own.actors[0], system=number, bodies=bodies, joints=(), frames=(), paths=(), pushes=(),
                              ghost=True))  # fmt: skip
        meshes += own.meshes
    return replace(view, systems=tuple(systems), actors=tuple(actors), meshes=tuple(meshes))


def _view(
    name: str, what: Any, title: str, hands: tuple[str, ...] | None, frames: int, configuration: str
) -> SceneView:
    what = getattr(what, "run", what)
    if isinstance(what, Run):
        heading = title or ", ".join(dict.fromkeys(robot.name for robot in what.world.systems.values()))
        return _run_view(what, name, heading, hands, frames)
    if isinstance(what, tuple) and len(what) == 3:
        return _history_view(*what, name, title, hands, frames)
    robot, state = what if isinstance(what, tuple) and len(what) == 2 else (what, None)
    if not isinstance(robot, Robot):
        raise InputError(
            f"{quote_text(what)} is neither a run nor a robot", place="scene", hint="expected a Run or a Robot"
        )
    if not isinstance(state, State):
        joints = robot.configuration(configuration or "zero") if state is None else state
        state = State.at_rest(robot, joints=np.asarray(joints, dtype=np.float64))
    vector = state.check(robot).vector[None]
    colours = dict.fromkeys(robot.body_names, 0)
    meshes = Meshes()
    own = _thrusters(robot, 1), _hands(robot, hands)
    # A page moves the joints of what stands: its shapes stay on their bodies.
    actor = _actor(0, robot, np.zeros(1), vector, colours, *own, meshes, standing=True)
    actor = replace(actor, hinges=_hinges(robot, state.joints))
    return SceneView(name, title or robot.name, ((robot.name, COLOURS[0]),), (actor,), meshes=meshes.reduce_all())


def _hinges(robot: Robot, positions: Array) -> tuple[SceneJoint, ...]:
    """The joints of a robot that stands, to be moved on the page within their limits, or within half a turn or 1 m."""
    found = []
    for k, (joint, value) in enumerate(zip(robot.joints, positions.tolist(), strict=True)):
        wide = np.pi if joint.kind == "revolute" else 1.0
        low, high = joint.limits.lower, joint.limits.upper
        low = min(low if np.isfinite(low) else min(-wide, high - wide), value)
        high = max(high if np.isfinite(high) else max(wide, low + wide), value)
        parent = robot.body_index(joint.parent)
        found.append(SceneJoint(joint.name, parent, k + 1, joint.placement, joint.axis, joint.kind, low, high, value))
    return tuple(found)


def _history_view(
    robot: Robot, times: Any, states: Any, name: str, title: str, hands: tuple[str, ...] | None, frames: int
) -> SceneView:
    """What a robot did, by its states at these times (T,), flat (T, 13 + 2 n) or as a list of :class:`State`."""
    if not isinstance(robot, Robot):
        raise InputError(f"{quote_text(robot)} is not a robot", place="scene", hint="expected (robot, times, states)")
    rows = [state.check(robot).vector if isinstance(state, State) else state for state in states]
    given, history = numbers(times, "times"), numbers(rows, "states")
    if given.ndim != 1 or history.shape != (given.size, Layout(robot.n).size):
        expected = f"expected {given.size} times and states of {Layout(robot.n).size} numbers: position, quaternion, "
        raise InputError(f"states have the shape {history.shape}", place="states",
                         hint=f"{expected}joints, velocity of the base in its own axes, joint rates")  # fmt: skip
    if not given.size or not np.all(np.isfinite(history)) or not np.all(np.diff(given) >= 0.0):
        raise InputError("a history is empty, not finite, or goes back in time", place="times")
    history = np.array([State.from_vector(row).check(robot).vector for row in history])
    chosen = _select_samples(given, frames)
    colours, meshes = dict.fromkeys(robot.body_names, 0), Meshes()
    pushes = _thrusters(robot, chosen.size)
    actor = _actor(0, robot, given[chosen], history[chosen], colours, pushes, _hands(robot, hands), meshes)
    return SceneView(name, title or robot.name, ((robot.name, COLOURS[0]),), (actor,), meshes=meshes.reduce_all())


def _run_view(run: Run, name: str, title: str, hands: tuple[str, ...] | None, frames: int) -> SceneView:
    names = list(dict.fromkeys(track.name for track in run.tracks))
    owners = _owners(run.tracks, names)
    actors, meshes = [], Meshes()
    for track in run.tracks:
        rows = _select_samples(track.times, frames)
        times, states = track.times[rows], track.states[rows]
        pushes = (*_load_forces(run, track, times, states), *_element_forces(track, rows))
        of_system = owners | {body: owners.get(body, names.index(track.name)) for body in track.robot.body_names}
        system, own = names.index(track.name), _hands(track.robot, hands)
        touching = contact_shapes(_initial_world(run, track), track.name, track.robot)
        actor = _actor(system, track.robot, times, states, of_system, pushes, own, meshes, touching)
        actors.append(replace(actor, guides=_guides(run, track)))
    systems = tuple((_system_label(each, run), COLOURS[k % len(COLOURS)]) for k, each in enumerate(names))
    return SceneView(name, title, systems, tuple(actors), _marks(run), meshes.reduce_all())


def _initial_world(run: Run, track: Track) -> World | None:
    """The world in which a track begins; None of a run that was read from a file."""
    worlds = (step.world for step in run.steps if isinstance(step, Segment) and step.end_time > track.times[0])
    return next((world for world in worlds if world.systems.get(track.name) == track.robot), None)


def _system_label(system: str, run: Run) -> str:
    """A system's name; a robot's own where there is but one."""
    return run.tracks[0].robot.name if len({track.name for track in run.tracks}) == 1 else system


def _owners(tracks: Iterable[Track], names: list[str]) -> dict[str, int]:
    """For each body the system whose colour it has: the smallest that it ever belongs to, so that what was or will be
    apart is told apart."""
    best: dict[str, tuple[int, int]] = {}
    for track in tracks:
        for body in track.robot.body_names:
            rank = len(track.robot.bodies), names.index(track.name)
            best[body] = min(best.get(body, rank), rank)
    return {body: system for body, (_, system) in best.items()}


def _select_samples(times: Array, most: int) -> npt.NDArray[np.int64]:
    """Samples that are kept: all, or the nearest to even steps; the first and the last always."""
    if len(times) <= most:
        return np.arange(len(times))
    # Even in time and not in number: samples crowd at events.
    wanted = np.linspace(times[0], times[-1], most)
    return np.unique(np.concatenate([[0], np.searchsorted(times, wanted).clip(0, len(times) - 1), [len(times) - 1]]))


def _hands(robot: Robot, given: tuple[str, ...] | None) -> tuple[str, ...]:
    known = [frame.name for frame in robot.frames]
    if given is not None:
        return tuple(name for name in given if name in known or name in robot.body_names)
    if not robot.n:
        return ()
    found = [name for name in known if _HAND.search(name)]
    last = [frame.name for frame in robot.frames if frame.body == robot.bodies[-1].name]
    return tuple((found or last or [robot.bodies[-1].name])[-1:])


def _actor(
    system: int,
    robot: Robot,
    times: Array,
    states: Array,
    owners: Mapping[str, int],
    pushes: tuple[SceneForce, ...],
    hands: tuple[str, ...],
    meshes: Meshes,
    touching: Mapping[str, tuple[Visual, ...]] | None = None,
    *,
    standing: bool = False,
) -> SceneSystem:
    touching = touching or {}
    moved = evaluate_bodies(robot, states)
    poses = np.concatenate([moved.origin, quaternions_of(moved.rotation)], axis=2)
    missing = {visual.mesh for body in robot.bodies for visual in body.visuals if _mesh_missing(visual, meshes)}
    bodies = tuple(
        SceneBody(
            body.name,
            body.inertia.mass,
            body.inertia.com,
            owners[body.name],
            _scene_shapes(look, COLOURS[owners[body.name] % len(COLOURS)], meshes)
            + tuple(
                SceneShape(visual, COLOURS[owners[body.name] % len(COLOURS)]) for visual in touching.get(body.name, ())
            ),
            None if look.box is None else SceneShape(look.box),
        )
        for body, look in zip(robot.bodies, body_shapes(robot, missing), strict=True)
    )
    if not standing:
        bodies, poses = separate_flexible(robot, states, poses, bodies)
    at = {body: k for k, body in enumerate(robot.body_names)}
    return SceneSystem(
        system,
        times,
        poses,
        bodies,
        tuple((joint.name, k + 1, joint.axis) for k, joint in enumerate(robot.joints)),
        tuple((frame.name, at[frame.body], frame.placement) for frame in robot.frames),
        tuple((f.name, at[f.body], f.placement.translation) for f in map(robot.frame, hands)),
        pushes,
    )


def _mesh_missing(visual: Visual, meshes: Meshes) -> bool:
    return visual.shape == "mesh" and meshes.number(visual.mesh) < 0


def _scene_shapes(look: BodyShapes, colour: str, meshes: Meshes) -> tuple[SceneShape, ...]:
    return tuple(
        SceneShape(
            visual,
            visual.colour or _mix_with_white(colour, _WHITE_SHARES[role]),
            meshes.number(visual.mesh) if visual.shape == "mesh" else -1,
        )
        for role, visual in look.shapes
    )


def _mix_with_white(colour: str, white: float) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + white * (255 - part)):02x}" for part in parts)


# -- what acts and what happens --------------------------------------------------------------------------------------


def _wrenches(run: Run, track: Track, times: Array) -> dict[tuple[str, str, str], Array]:
    """What acts on a system at these times (T, 6), from the phases in which it was given: by source, frame and axes."""
    found: dict[tuple[str, str, str], Array] = {}
    for segment in run.steps:
        # A load of a later phase may act on a part that was attached meanwhile: a track shows one robot.
        if not isinstance(segment, Segment) or segment.world.systems.get(track.name) is not track.robot:
            continue
        spans = segment.spans
        ends = [*(begin for _, begin, _ in spans[1:]), segment.end_time]
        for (prepared, begin, _), end in zip(spans, ends, strict=True):
            # Half open, so that an instant on a boundary belongs to one phase; the last phase has its end.
            during = (times >= begin) & ((times < end) | (end == run.end_time))
            for load in prepared.phase.loads if during.any() else ():
                system, frame = segment.world.frame(load.frame)
                if system == track.name:
                    values = np.stack([entry(times - begin) for entry in load.wrench], axis=1) * during[:, None]
                    key = load.source or frame, frame, load.axes
                    found[key] = found.get(key, 0.0) + values
    return found


def _load_forces(run: Run, track: Track, times: Array, states: Array) -> tuple[SceneForce, ...]:
    """Loads and thrusters of a system."""
    robot = track.robot
    found: list[SceneForce] = []
    for (name, frame, axes), wrench in _wrenches(run, track, times).items():
        at = robot.frame(frame)
        body = robot.body_index(at.body)
        thruster = next((each for each in robot.thrusters if each.name == name), None)
        if thruster is not None and thruster.force > 0.0:
            # A thruster is shown by its plume, which has no scale of force: its level says how long.
            level = np.linalg.norm(wrench[:, :3], axis=1) / thruster.force
            found.append(SceneForce(name, body, "thruster", thruster.position, level[:, None], thruster.direction))
            continue
        # Arrows are in world axes; a wrench in frame axes is rotated with its frame.
        rotation = np.eye(3)[None] if axes == "world" else frame_pose(robot, evaluate_bodies(robot, states), frame)[0]
        for kind, part in (("force", wrench[:, :3]), ("moment", wrench[:, 3:])):
            if np.any(part):
                found.append(
                    SceneForce(name, body, kind, at.placement.translation, (rotation @ part[..., None])[..., 0])
                )
    found += _law_thrusters(run, track, times)
    fired = {push.name for push in found if push.kind == "thruster"}
    return *found, *(push for push in _thrusters(robot, len(times)) if push.name not in fired)


def _laws(run: Run, track: Track) -> Iterator[tuple[Law, float, float]]:
    """Laws of a system, with the times at which they begin and end to act."""
    for segment in run.steps:
        if isinstance(segment, Segment) and track.name in segment.world.systems:
            ends = [*segment.starts[1:], segment.end_time]
            for prepared, begin, end in zip(segment.prepared, segment.starts, ends, strict=True):
                for system, law in laws_of(segment.world, prepared.phase):
                    if system == track.name:
                        yield law, begin, end


def _law_thrusters(run: Run, track: Track, times: Array) -> Iterator[SceneForce]:
    """Thrusters as laws switched them."""
    acting = [law for law, _, _ in _laws(run, track)]
    for part in track.robot.thrusters:
        level = np.zeros(len(times))
        for log in (log for log in run.commands if log.law in acting and part.name in log.names):
            since, values = log.command_steps(part.name)
            during = (times >= since[0]) & (times <= log.end)
            # Commands are held between ticks: the last one at or before each frame.
            level[during] = values[np.searchsorted(since, times[during], side="right") - 1]
        if np.any(level):
            where = track.robot.body_index(part.body)
            yield SceneForce(part.name, where, "thruster", part.position, level[:, None], part.direction)


def _element_forces(track: Track, rows: npt.NDArray[np.int64]) -> Iterator[SceneForce]:
    """Forces of contacts and other force elements, and what laws and signals apply to the base."""
    robot, places, inputs = track.robot, track.model.kernel.inputs, track.inputs[rows]
    wrench = inputs[:, places["wrench"]].reshape(len(rows), -1, 6)
    rotation = rotation_matrices(track.states[rows][:, QUATERNION])
    base = inputs[:, places["force"]][:, :6].reshape(len(rows), 2, 3)
    for kind, part in (("force", base[:, 0]), ("moment", base[:, 1])):
        if np.any(part):
            yield SceneForce("on the base", 0, kind, np.zeros(3), np.einsum("tij,tj->ti", rotation, part))
    for k, load in enumerate(track.model.loads):
        if load.element and load.axes == "world" and np.any(wrench[:, k, :3]):
            frame = robot.frame(load.frame)
            yield SceneForce(
                load.element, robot.body_index(frame.body), "force", frame.placement.translation, wrench[:, k, :3]
            )


def _guides(run: Run, track: Track) -> tuple[tuple[str, Array], ...]:
    """Paths in the world that laws at a hand follow."""
    found = []
    for law, begin, end in _laws(run, track):
        for name, signals in law.signals.items():
            if name.rpartition(".")[2] == "position" and len(signals) == 3:
                times = np.linspace(0.0, end - begin, GUIDE)
                found.append((law.name, np.stack([signal(times) for signal in signals], axis=1)))
    return tuple(found)


def _thrusters(robot: Robot, samples: int) -> tuple[SceneForce, ...]:
    """The thrusters of a robot, none of which fires."""
    return tuple(
        SceneForce(
            each.name, robot.body_index(each.body), "thruster", each.position, np.zeros((samples, 1)), each.direction
        )
        for each in robot.thrusters
    )


def _marks(run: Run) -> tuple[TimelineMark, ...]:
    """Phases, changes and events in their order; where there are too many, friction's own are left out."""
    found = []
    for step in run.steps:
        if isinstance(step, Segment):
            for prepared, begin, _ in step.spans:
                found.append(TimelineMark(begin, prepared.phase.name or f"phase {prepared.number + 1}", "phase"))
        else:
            found.append(TimelineMark(step.time, step.text, "change"))
    if sum(mark.kind == "phase" for mark in found) == 1:
        found = [mark for mark in found if mark.kind != "phase"]
    events = [event for event in run.events if event.kind != "change"]
    # A joint that rattles has thousands of stick and slip events: they would hide all others.
    if len(events) > MOST_MARKS:
        events = [event for event in events if event.kind not in ("stick", "slip", "reverse")][:MOST_MARKS]
    found += [
        TimelineMark(event.time, f"{_WORDS.get(event.kind, event.kind)} {event.name}".strip()) for event in events
    ]
    return tuple(sorted(found[: 2 * MOST_MARKS], key=lambda mark: mark.time))


_WORDS = {
    "touch": "touches:",
    "release": "comes off:",
    "stick": "sticks:",
    "slip": "breaks loose:",
    "reverse": "turns back:",
    "limit": "limit:",
    "event": "event:",
    "function": "event:",
    "saturation": "limit of the drive:",
    "rate limit": "rate limit of the drive:",
    "law": "event:",
}
