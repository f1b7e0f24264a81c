"""Joint states of a ROS 2 bag that this file writes, by the rules of CDR (OMG, formal/02-06-51, 15.3)."""

from __future__ import annotations

import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

from spacearm.measure import Column, read_record

TOOL = Path(__file__).parents[2] / "tools" / "bag_to_csv.py"


def joint_state(stamp: tuple[int, int], names: list[str], *parts: list[float]) -> bytes:
    """A ``sensor_msgs/msg/JointState``: each number at a multiple of its own size behind the head."""
    data = struct.pack("<iI", *stamp)

    def padded(data: bytes, size: int) -> bytes:
        return data + b"\0" * (-len(data) % size)

    for text in ("world", None, *names):
        data = padded(data, 4)
        data += (
            struct.pack("<I", len(names)) if text is None else struct.pack("<I", len(text) + 1) + text.encode() + b"\0"
        )
    for numbers in parts:
        data = padded(data, 4) + struct.pack("<I", len(numbers))
        if numbers:
            data = padded(data, 8) + struct.pack(f"<{len(numbers)}d", *numbers)
    return b"\0\1\0\0" + data


def test_joint_states_of_a_bag_become_columns(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db3") as bag:
        bag.execute("create table topics (id integer primary key, name text, type text, serialization_format text)")
        bag.execute("create table messages (id integer primary key, topic_id integer, timestamp integer, data blob)")
        bag.execute("insert into topics values (1, '/tf', 'tf2_msgs/msg/TFMessage', 'cdr')")
        bag.execute("insert into topics values (2, '/joint_states', 'sensor_msgs/msg/JointState', 'cdr')")
        bag.execute("insert into messages values (1, 1, 0, x'00010000')")
        for k in range(5):
            names, states = ["pan", "lift_1"], [0.1 * k, -1.0 + k]
            # Drivers may change the order of the joints.
            if k % 2:
                names, states = names[::-1], states[::-1]
            data = joint_state((1763570000, 10**8 * k), names, states, [], [10.0 * value for value in states])
            bag.execute("insert into messages values (?, 2, ?, ?)", (k + 2, 1763570000 * 10**9 + 10**8 * k + 5, data))
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path / "a.db3", tmp_path / "a.csv"], check=True, capture_output=True
    )
    assert b"5 rows" in done.stdout
    clock = Column("stamp", from_first=True)
    read = read_record(tmp_path / "a.csv", {"q": "position.lift_1", "tau": "effort.pan"}, time=clock)
    assert np.allclose(read.times, 0.1 * np.arange(5), atol=1e-6)
    assert np.allclose(read["q"], np.arange(5) - 1.0)
    assert np.allclose(read["tau"], np.arange(5))
    (tmp_path / "no.db3").write_text("time,q\n0,1\n")
    command = [sys.executable, TOOL, tmp_path / "no.db3", tmp_path / "b.csv"]
    failed = subprocess.run(command, check=False, capture_output=True)
    assert failed.returncode == 1
    assert b"cannot be read as a ROS 2 bag" in failed.stderr
    assert b"Traceback" not in failed.stderr
