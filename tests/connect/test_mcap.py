"""MCAP files read by the format's own reader: bodies and joints are those of the run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from spacearm.connect import write_mcap
from spacearm.engine import Mechanics
from spacearm.simulate import Event, Phase, State, simulate
from support.random_robots import random_robot


def test_a_run_is_read_back_by_mcaps_own_reader(tmp_path: Path) -> None:
    reader = pytest.importorskip("mcap.reader", reason="MCAP IS NOT INSTALLED: its files were not read")
    robot = random_robot(4, 2)
    start = State([0.1, 0.2, 0.3], [1, 0, 0, 0], np.zeros(2), np.linspace(-0.2, 0.2, robot.dofs))
    first = robot.joint_names[0]
    phase = Phase(0.5, friction=False, limits="ignore", events=[Event(first, 0.02)])
    run = simulate(robot, start, phase, sample=0.1)
    file = write_mcap(run, tmp_path / "run.mcap")
    with file.open("rb") as stream:
        found = list(reader.make_reader(stream, validate_crcs=True).iter_messages())
    topics = [channel.topic for _, channel, _ in found]
    assert {*topics} == {"/tf", "/states/" + run.track.name} | ({"/log"} if run.events else set())
    assert run.events
    poses = [json.loads(message.data) for _, channel, message in found if channel.topic == "/tf"]
    times = [message.log_time for _, channel, message in found if channel.topic == "/tf"]
    np.testing.assert_allclose(np.array(times) / 1e9, run.times, atol=1e-9)
    last = {each["child_frame_id"]: each for each in poses[-1]["transforms"]}
    state = run.states[-1]
    origins, rotations = Mechanics(robot).body_poses(state[7:9], base=state[:7])
    for k, name in enumerate(robot.body_names):
        np.testing.assert_allclose([last[name]["translation"][axis] for axis in "xyz"], origins[k], atol=1e-12)
        turn = Rotation.from_quat([last[name]["rotation"][axis] for axis in "xyzw"])
        np.testing.assert_allclose(turn.as_matrix(), rotations[k], atol=1e-12)
    (schema, *_) = [schema for schema, channel, _ in found if channel.topic == "/tf"]
    assert (schema.name, schema.encoding) == ("foxglove.FrameTransforms", "jsonschema")
    states = [json.loads(message.data) for _, channel, message in found if channel.topic.startswith("/states")]
    assert states[-1][f"{first}.position"] == state[7]
