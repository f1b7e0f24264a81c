"""Access to numbers in tables of a file by keys: ``start.velocity[0]``, ``load[blow].force[2]``,
``robot.body[link3].mass``.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

from spacearm.errors import InputError, did_you_mean, quote_text
from spacearm.model.toml_read import parse_toml

#: Keys that begin so are the robot's, as in its TOML file; all others are the scenario's.
ROBOT = "robot."
_STEP = re.compile(r"([^.\[\]]+)|\[([^\[\]]+)\]|(\.)")


def parse_robot(text: str) -> dict[str, Any]:
    """The tables of a robot as :func:`~spacearm.model.toml_write.toml_text` writes it, with what it leaves out as zero:
    mass centres and products of inertia may be changed."""
    tables = parse_toml(text, "")
    for body in tables.get("body", ()):
        if "inertia" in body:
            body["inertia"] = [*body["inertia"], 0.0, 0.0, 0.0][:6]
            body.setdefault("com", [0.0, 0.0, 0.0])
    return tables


def find_root(whole: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """The tables, ``scenario`` or ``robot`` of ``whole``, that a key belongs to, and the key within them."""
    # The robot of a scenario may be a file: its tables stand apart from the scenario's own.
    return (whole["robot"], name[len(ROBOT) :]) if name.startswith(ROBOT) else (whole["scenario"], name)


def _steps(name: str) -> list[str]:
    found = list(_STEP.finditer(name))
    # Nothing may be left over between the matches.
    if not found or "".join(step.group() for step in found) != name:
        raise InputError(
            f"{quote_text(name)} is not a key", hint="expected names separated by dots, with [index] or [name]"
        )
    return [step.group(1) or step.group(2) for step in found if step.group(3) is None]


def _descend(place: Any, step: str, name: str) -> Any:
    """One step down: a key of a table, a number in a list, or the table in a list that has this name."""
    if isinstance(place, dict):
        if step not in place:
            raise InputError(f"there is no {quote_text(step)} in {quote_text(name)}", hint=did_you_mean(step, place))
        return place[step]
    return place[_index(place, step, name)]


def _index(place: Any, step: str, name: str) -> int:
    if not isinstance(place, list):
        raise InputError(
            f"{quote_text(name)}: nothing is inside {quote_text(place)}", hint="expected a table or a list"
        )
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in place]
    # A name has precedence over an index: an entry may be called "1".
    if step in names:
        return names.index(step)
    if not step.isdecimal() or int(step) >= len(place):
        known = [str(each) for each in names if each is not None] or [str(k) for k in range(len(place))]
        raise InputError(f"there is no {quote_text(step)} in {quote_text(name)}", hint=did_you_mean(step, known))
    return int(step)


def get_key(root: dict[str, Any], name: str) -> Any:
    """The value of a key; None where its table does not have it, but may."""
    # The last step may be missing in a table: an optional key that the file leaves out.
    *steps, last = _steps(name)
    place: Any = root
    for step in steps:
        place = _descend(place, step, name)
    return place.get(last) if isinstance(place, dict) else place[_index(place, last, name)]


def put_key(root: dict[str, Any], name: str, value: Any) -> None:
    """Give a key this value."""
    *steps, last = _steps(name)
    place: Any = root
    for step in steps:
        place = _descend(place, step, name)
    if isinstance(place, dict):
        place[last] = value
    else:
        place[_index(place, last, name)] = value


def fill_key(root: dict[str, Any], defaults: dict[str, Any], name: str) -> None:
    """Give a key that the tables leave out its default, and what lies on the way to it too."""
    place: Any = root
    other: Any = defaults
    for step in _steps(name):
        if isinstance(place, dict):
            if step not in place:
                if not isinstance(other, dict) or other.get(step) is None:
                    return
                place[step] = deepcopy(other[step])
            place, other = place[step], other.get(step) if isinstance(other, dict) else None
        else:
            number = _index(place, step, name)
            place, other = place[number], other[number] if isinstance(other, list) else None
        if not isinstance(place, dict | list):
            return
