"""Runs as MCAP files, which Foxglove and other robotics viewers open. Needs the extra ``mcap``.

Channels, as JSON with Foxglove's schemas where these exist: ``/tf`` (poses of all bodies in the world),
``/states/NAME`` (joint positions, rates, and velocity of the base by name) and ``/log`` (events). Times are those of
the run from the epoch 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from spacearm.engine import Mechanics
from spacearm.errors import InputError
from spacearm.model.files import write_atomically
from spacearm.model.layout import Layout
from spacearm.model.rotations import quaternion_from_rotation
from spacearm.simulate import Run
from spacearm.simulate.run.run import Track

_TIME = {"type": "object", "properties": {"sec": {"type": "integer"}, "nsec": {"type": "integer"}}}
_VECTOR = {"type": "object", "properties": {axis: {"type": "number"} for axis in "xyz"}}
_QUATERNION = {"type": "object", "properties": {axis: {"type": "number"} for axis in "xyzw"}}
_TRANSFORM = {
    "title": "foxglove.FrameTransform",
    "type": "object",
    "properties": {
        "timestamp": _TIME,
        "parent_frame_id": {"type": "string"},
        "child_frame_id": {"type": "string"},
        "translation": _VECTOR,
        "rotation": _QUATERNION,
    },
}
#: Schemas by name, as JSON Schema.
_SCHEMAS: dict[str, dict[str, Any]] = {
    "foxglove.FrameTransforms": {
        "title": "foxglove.FrameTransforms",
        "type": "object",
        "properties": {"transforms": {"type": "array", "items": _TRANSFORM}},
    },
    "foxglove.Log": {
        "title": "foxglove.Log",
        "type": "object",
        "properties": {
            "timestamp": _TIME,
            "level": {"type": "integer"},
            "message": {"type": "string"},
            "name": {"type": "string"},
        },
    },
}
_INFO = 2  # foxglove.Log


def write_mcap(run: Run, path: str | Path) -> Path:
    """Write a run as an MCAP file: poses of all bodies, joints and base, events."""
    if find_spec("mcap") is None:
        raise InputError("the mcap package is not installed", place="MCAP", hint="pip install 'spacearm[mcap]'")
    from mcap.writer import CompressionType, Writer

    buffer = BytesIO()
    writer: Any = Writer(buffer, compression=CompressionType.ZSTD)
    writer.start(profile="", library="spacearm")
    several = len({track.name for track in run.tracks}) > 1
    messages: list[tuple[int, str, str, dict[str, Any]]] = []
    for track in run.tracks:
        messages += _track_messages(track, several)
    for event in run.events:
        at = round(event.time * 1e9)
        notes = {"timestamp": _stamp(at), "level": _INFO, "message": f"{event.kind}: {event.name}", "name": "run"}
        messages.append((at, "/log", "foxglove.Log", notes))
    channels: dict[str, int] = {}
    # By time over all tracks: readers expect a log whose times do not go back.
    for number, (at, topic, schema, content) in enumerate(sorted(messages, key=lambda each: each[0])):
        if topic not in channels:
            kind = json.dumps(_SCHEMAS.get(schema) or _numbers_schema(schema, content)).encode()
            known = writer.register_schema(name=schema, encoding="jsonschema", data=kind)
            channels[topic] = writer.register_channel(schema_id=known, topic=topic, message_encoding="json")
        data = json.dumps(content, allow_nan=False).encode()
        writer.add_message(channel_id=channels[topic], log_time=at, publish_time=at, data=data, sequence=number)
    writer.finish()
    write_atomically(Path(path), buffer.getvalue())
    return Path(path)


def _track_messages(track: Track, several: bool) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """Time (ns), topic, schema and content."""
    robot, layout = track.robot, Layout(track.robot.n)
    base = track.states[:, :7]
    origins, rotations = Mechanics(robot).body_poses(track.states[:, layout.joints], base=base)
    prefix = f"{track.name}/" if several else ""
    for row, time in enumerate(track.times):
        at = round(float(time) * 1e9)
        transforms = []
        for name, origin, rotation in zip(robot.body_names, origins[row], rotations[row], strict=True):
            attitude = dict(zip("wxyz", quaternion_from_rotation(rotation).tolist(), strict=True))
            place = dict(zip("xyz", origin.tolist(), strict=True))
            own = {"timestamp": _stamp(at), "parent_frame_id": "world", "child_frame_id": prefix + name}
            transforms.append({**own, "translation": place, "rotation": attitude})
        yield at, "/tf", "foxglove.FrameTransforms", {"transforms": transforms}
        state = track.states[row]
        content = {
            f"{name}.position": value
            for name, value in zip(robot.joint_names, state[layout.joints].tolist(), strict=True)
        }
        velocities = zip(robot.dof_names, state[layout.velocity].tolist(), strict=True)
        yield (
            at,
            f"/states/{track.name}",
            f"spacearm.{track.name}",
            content | {f"{name}.velocity": v for name, v in velocities},
        )


def _stamp(at: int) -> dict[str, int]:
    return {"sec": at // 10**9, "nsec": at % 10**9}


def _numbers_schema(title: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "type": "object", "properties": {name: {"type": "number"} for name in content}}
