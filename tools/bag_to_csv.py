"""Joint states of a ROS 2 bag as CSV: ``python tools/bag_to_csv.py BAG.db3 OUT.csv [TOPIC]``.

A bag of rosbag2's default storage is an SQLite file of messages in CDR. Columns: ``bag`` and ``stamp`` (s; of the
recorder, and of the message), then ``position.JOINT``, ``velocity.JOINT``, ``effort.JOINT`` as far as the messages
have them. Nothing of ROS is needed.
"""

from __future__ import annotations

import sqlite3
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

KIND = "sensor_msgs/msg/JointState"
PARTS = ("position", "velocity", "effort")


class Message:
    """Reads one little-endian CDR message from its beginning."""

    def __init__(self, data: bytes) -> None:
        if data[:2] != b"\x00\x01":
            raise SystemExit("the messages are not little-endian CDR")
        self.data, self.place = data, 4

    def take(self, form: str, size: int) -> tuple[float, ...]:
        """Numbers of one form, each aligned to its size; alignment counts from behind the four bytes of the head."""
        count = len(form) if not form[0].isdigit() else 1
        self.place = 4 + -(-(self.place - 4) // size) * size if count else self.place
        found = struct.unpack_from("<" + form, self.data, self.place)
        self.place += struct.calcsize("<" + form)
        return found

    def text(self) -> str:
        (size,) = self.take("I", 4)
        start, self.place = self.place, self.place + int(size)
        return self.data[start : self.place].rstrip(b"\0").decode()

    def numbers(self) -> tuple[float, ...]:
        (size,) = self.take("I", 4)
        return self.take(f"{int(size)}d", 8) if size else ()


def read_joint_state(data: bytes) -> tuple[float, list[str], list[tuple[float, ...]]]:
    """Stamp (s), names, and positions, rates and efforts of a ``sensor_msgs/msg/JointState``."""
    message = Message(data)
    seconds, nanoseconds = message.take("iI", 4)
    message.text()
    (count,) = message.take("I", 4)
    names = [message.text() for _ in range(int(count))]
    return seconds + 1e-9 * nanoseconds, names, [message.numbers() for _ in PARTS]


def rows(bag: Path, topic: str) -> Iterator[str]:
    """Lines of the CSV file."""
    with sqlite3.connect(f"file:{bag}?mode=ro", uri=True) as content:
        topics = {name: key for key, name in content.execute("select id, name from topics where type = ?", (KIND,))}
        if not topics or (topic and topic not in topics):
            raise SystemExit(f"no topic {topic or KIND!r}; joint states: {', '.join(topics) or 'none'}")
        key = topics[topic or next(iter(topics))]
        query = "select timestamp, data from messages where topic_id = ? order by timestamp"
        known: list[str] = []
        for time, data in content.execute(query, (key,)):
            stamp, names, parts = read_joint_state(data)
            if not known:
                known = names
                filled = [part for part, values in zip(PARTS, parts, strict=True) if values]
                yield ",".join(["bag", "stamp", *(f"{part}.{name}" for part in filled for name in names)])
            # Drivers may change the order of the joints from message to message.
            order = [names.index(name) for name in known]
            values = [repr(part[k]) for part in parts if part for k in order]
            yield f"{time // 10**9}.{time % 10**9:09d},{stamp:.9f}," + ",".join(values)


def main() -> None:
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    try:
        lines = list(rows(Path(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else ""))
    except (sqlite3.Error, struct.error, ValueError) as error:
        raise SystemExit(f"{sys.argv[1]} cannot be read as a ROS 2 bag: {error}") from None
    Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
    print(f"{len(lines) - 1} rows in {sys.argv[2]}")


if __name__ == "__main__":
    main()
