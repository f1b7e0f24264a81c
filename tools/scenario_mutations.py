"""Scenarios with seeded damage: numbers at their extremes, wrong types, keys that lack or are too many, odd names."""

from __future__ import annotations

import copy
import datetime
import functools
import json
import random
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
#: Examples run for seconds; these numbers make them short, so that many can be run.
SHORT: dict[str, dict[str, Any]] = {
    "capture": {"duration": 1.0, "design": None},
    "ejection": {"flight": 0.5, "map": None, "search": None, "monte_carlo": None},
    "impact": {"map": {"directions": 30}, "optimise": None},
    "impact-grasp": {"map": {"directions": 30}, "optimise": None},
    "tumble": {},
    "mission": {
        "limits": {"base_rate_deg": 9.0},
        "approach": {"duration": 6.0, "match": 4.0, "reach": 0.05, "period": 0.25},
        "catch": {"duration": 1.0, "stop_time": 1.0, "period": 0.25},
        "settle": {"duration": 20.0, "rate_deg": 0.5},
        "stow": {"duration": 10.0, "settle_time": 1.0, "error_deg": 9.0},
        "eject": {"energy": 2.0, "duration": 10.0},
    },
    "mission-slosh": {
        "limits": {"base_rate_deg": 9.0},
        "approach": {"duration": 6.0, "match": 4.0, "reach": 0.05, "period": 0.25},
        "catch": {"duration": 1.0, "stop_time": 1.0, "period": 0.25},
        "settle": {"duration": 20.0, "rate_deg": 0.5},
        "stow": {"duration": 10.0, "settle_time": 1.0, "error_deg": 9.0},
    },
    "closed-loop": {},
    "inspection": {},
    "plans": {},
    "servo": {},
    "probe-nozzle": {},
    "workspace": {},
    "measured-joint": {},
    "identify-captured": {"design": None},
}

#: Keys that ask for work: a longer run, more of them, finer steps. What takes long after one of them changed was asked.
WORK = {
    "directions", "duration", "end", "flight", "interval", "keep", "max_step", "rate", "refine", "resolution",
    "restarts", "rtol", "atol", "runs", "sample", "samples", "segment", "start", "step", "time", "times", "width",
    "wait", "hold", "period", "settle_time", "method", "profiles", "select", "frequency", "frequencies", "equations",
    "experiment", "test",
}  # fmt: skip

EXTREMES: list[Any] = [
    0, 0.0, -0.0, -1, -1.0, 1, 2, 3, 1e-12, -1e-12, 1e-300, 5e-324, 1e-6, 1e3, 1e6, -1e6, 1e9, 1e15, 1e16, -1e16, 1e20,
    1e30, 1e100, 1e154, 1e200, 1e300, -1e300, 1.7e308, float("inf"), float("-inf"), float("nan"), 2**31, 2**32,
    2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30, 10**400, -5, 7, 0.5, 10**9,
]  # fmt: skip
TEXTS = [
    "", " ", "x", "all", "none", "zero", "hand", "joint1", "joint2", "joint99", "joint1.rate", "base_vx", "base_wz",
    "link1", "satellite", "typical", "a/b", "../x.toml", "/dev/zero", "/dev/null", ".", "..", "\x00",
    "\x1b[31mred\x1b[0m",
    "\u202eabc", "é", "日本語", "\U0001f680", "\ufeff", "a\nb", "[bold]x[/bold]", "<b>x</b>", "%s {0} {x}", "x" * 300,
    "x" * 70000, "nan", "1e5", "motion", "impact", "capture", "yoshida1992", "xu2017", "cai2023", "zhang2020",
    "wojtunik2023", "rk4", "dopri853", "linear", "cubic", "total", "consistent", "multi_start", "nelder_mead", "point",
    "grasp", "normal", "skyhook", "before", "instead", "error", "stop", "worst", "lugre", "stribeck", "torque",
    "measured", "paper", "case.toml", "momentum", "dynamics", "settling", "base_rate",
]  # fmt: skip
OTHERS: list[Any] = [
    True, False, [], {}, [[]], [{}], {"a": 1}, [1, 2], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], ["x"],
    [None], datetime.date(2024, 2, 29), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), datetime.time(23, 59, 59),
    [1e300, 1e300, 1e300], [float("inf")] * 3, "text", 5, -1, 1e-300,
]  # fmt: skip
ENDINGS = ["_deg", "_mm", "s", "_", "x"]

Path_ = tuple[Any, ...]


@functools.cache
def starts() -> list[tuple[str, dict[str, Any]]]:
    """The scenarios that damage starts from."""
    found = [(file.stem, tomllib.loads(file.read_text())) for file in sorted((HERE / "scenarios").glob("*.toml"))]
    for name, shorter in SHORT.items():
        document = tomllib.loads((HERE.parent / "examples" / f"{name}.toml").read_text())
        document.update(shorter)
        for test in document.get("test", ()):  # the scenario is run from another folder
            if "file" in test:
                test["file"] = str(HERE.parent / "examples" / test["file"])
        target = document.get("target")
        if isinstance(target, dict) and "robot" in target:
            target["robot"] = str(HERE.parent / "examples" / target["robot"])
            target["free_joints"] = ["slosh_y", "slosh_z"]
        found.append((name, {key: value for key, value in document.items() if value is not None}))
    for file in sorted((HERE.parent / "src/spacearm/study/starters").glob("*.toml")):
        if file.stem != "mission":  # the example is a shorter one
            document = tomllib.loads(file.read_text())
            if "file" in document:  # the scenario is run from another folder
                document["file"] = str(file.parent / document["file"])
            for body in document.get("body", ()):
                body["files"] = [str(file.parent / each) for each in body["files"]]
            found.append((f"starter-{file.stem}", document))
    return found


def chosen(start: str) -> list[tuple[str, dict[str, Any]]]:
    """One of them by its name; all where it is empty."""
    return [each for each in starts() if start in ("", each[0])]


def mutated(seed: int, number: int, start: str = "") -> tuple[bytes, list[str], bool]:
    """The file, what was done to it, and whether it asks for more work than the start did.

    ``start`` is the scenario that damage starts from; any where empty.
    """
    chance = random.Random(f"{seed} {number}")
    name, document = chance.choice(chosen(start))
    document = copy.deepcopy(document)
    changes, greedy = [name], False
    gentle = chance.random() < 0.5
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        change, key = _rescale(chance, document) if gentle else _damage(chance, document)
        changes.append(change)
        greedy = greedy or key in WORK
    raw = written(document)
    if not gentle and chance.random() < 0.06:
        change, raw = _damage_text(chance, raw)
        changes.append(change)
        greedy = True
    return raw, changes, greedy


# -- on the tables ----------------------------------------------------------------------------------------------------


#: Damage is done no deeper than this: the list of all places in thousands of entries, each hundreds of steps down,
#: takes gigabytes.
DEEPEST = 40


def _places(node: Any, path: Path_ = ()) -> list[Path_]:
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    if len(path) == DEEPEST:
        return found
    for key, child in items:
        found += _places(child, (*path, key))
    return found


def _get(document: Any, path: Path_) -> Any:
    for part in path:
        document = document[part]
    return document


def _damage(chance: random.Random, document: dict[str, Any]) -> tuple[str, str]:
    """Change one place; what was done, and the key that it was done to."""
    places = _places(document)
    if not places:
        return "empty", ""
    path = chance.choice(places)
    holder, last = _get(document, path[:-1]), path[-1]
    value = holder[last]
    key = next((part for part in reversed(path) if isinstance(part, str)), "")
    shown = ".".join(map(str, path))
    number = isinstance(value, int | float) and not isinstance(value, bool)
    action = chance.random()
    if number and action < 0.7:
        new = _other_number(chance, value)
        holder[last] = new
        return f"{shown} = {_short(new)}", key
    if isinstance(value, str) and action < 0.5:
        holder[last] = new = chance.choice(TEXTS)
        return f"{shown} = {_short(new)}", key
    if isinstance(value, bool) and action < 0.6:
        holder[last] = not value
        return f"{shown} = {not value}", key
    if isinstance(value, list) and action < 0.5:
        return f"{shown}: {_lengthen(chance, value)}", key
    return f"{shown}: {_restructure(chance, document, holder, last)}", key


def _rescale(chance: random.Random, document: dict[str, Any]) -> tuple[str, str]:
    """Change a number within what may pass the checks of a file: most other damage is refused before anything runs."""
    numbers = [path for path in _places(document) if type(_get(document, path)) in (int, float)]
    path = chance.choice(numbers)
    holder, last = _get(document, path[:-1]), path[-1]
    value = holder[last]
    factor = chance.choice((-1.0, 0.0, 0.01, 0.1, 0.3, 0.9, 1.1, 3.0, 10.0, 100.0, 1e4, 1e-4, 1e-8, 1e8))
    new = value * factor if value else chance.choice((0.1, -0.1, 1.0, -3.0, 1e-9, 1e3))
    holder[last] = int(new) if isinstance(value, int) else new
    key = next(part for part in reversed(path) if isinstance(part, str))
    return f"{'.'.join(map(str, path))} = {holder[last]:g}", key


def _other_number(chance: random.Random, value: float) -> Any:
    if chance.random() < 0.3:
        return value * chance.choice((-1, 2, 10, 0.1, 1e3, 1e-3, 1e6, 1e-6, 1.0001, 1e12))
    new = chance.choice(EXTREMES)
    if isinstance(value, int) and isinstance(new, float) and chance.random() < 0.7 and abs(new) < 1e300:
        return int(new)
    return new


def _lengthen(chance: random.Random, value: list[Any]) -> str:
    action = chance.randrange(7)
    if action == 0:
        value.clear()
        return "emptied"
    if action == 1 and value:
        value.pop(chance.randrange(len(value)))
        return "one less"
    if action == 2 and value:
        value.append(copy.deepcopy(chance.choice(value)))
        return "one twice"
    if action == 3 and value:
        value.reverse()
        return "reversed"
    if action == 4 and value and not isinstance(value[0], dict):
        value *= chance.choice((2, 100, 20000))
        return f"{len(value)} entries"
    if action == 5 and value:
        chance.shuffle(value)
        return "shuffled"
    value.append(copy.deepcopy(chance.choice([*OTHERS, *EXTREMES])))
    return "another appended"


def _restructure(chance: random.Random, document: dict[str, Any], holder: Any, last: Any) -> str:
    action = chance.randrange(8)
    if action == 0:
        del holder[last]
        return "deleted"
    if action == 1 and isinstance(last, str):
        holder[last[:-1] if chance.random() < 0.5 else last + chance.choice(ENDINGS)] = holder.pop(last)
        return "renamed"
    if action == 2:
        table = holder if isinstance(holder, dict) else document
        new = chance.choice([*TEXTS, "a" * 5000, "a.b.c"])
        table[new] = chance.choice(EXTREMES)
        return f"key {_short(new)} added"
    if action == 3:
        for _ in range(chance.choice((1, 2, 40, 300))):
            holder[last] = {"a": holder[last]} if chance.random() < 0.5 else [holder[last]]
        return "nested"
    if action in (4, 5):
        return _borrow(chance, document, holder)
    holder[last] = copy.deepcopy(chance.choice([*OTHERS, *EXTREMES, *TEXTS]))
    return f"= {_short(holder[last])}"


def _borrow(chance: random.Random, document: dict[str, Any], holder: Any) -> str:
    """A key with its value out of another scenario of the study, or of any."""
    others = [other for _, other in starts() if other.get("study") == document.get("study") or chance.random() < 0.2]
    other = chance.choice(others or [starts()[0][1]])
    path = chance.choice(_places(other))
    keys = [part for part in path if isinstance(part, str)]
    target = holder if isinstance(holder, dict) and len(path) > 1 else document
    target[keys[-1]] = copy.deepcopy(_get(other, path))
    return f"{'.'.join(map(str, path))} borrowed"


# -- on the text ------------------------------------------------------------------------------------------------------


def _damage_text(chance: random.Random, raw: bytes) -> tuple[str, bytes]:
    action = chance.randrange(8)
    if action == 0:
        many = chance.choice((3, 33, 1000, 20000))
        return f"dotted key of {many}", b".".join([b"a"] * many) + b" = 1\n" + raw
    if action == 1:
        many = chance.choice((3, 100, 5000))
        return f"{many} brackets", raw + b"z = " + b"[" * many + b"]" * many + b"\n"
    if action == 2:
        at = chance.randrange(len(raw) + 1)
        return f"cut at {at}", raw[:at]
    if action == 3:
        return "integer of 10000 digits", raw + b"z = " + b"9" * 10000 + b"\n"
    if action == 4:
        return "tables", raw + b"[" + b".".join([b'"a b"'] * chance.choice((2, 500))) + b"]\nx = 1\n"
    if action == 5:
        return "an array of 100000", raw + b"z = [" + b"1, " * 100000 + b"]\n"
    damaged = bytearray(raw or b" ")
    for _ in range(chance.randint(1, 6)):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    return "flipped bits", bytes(damaged)


# -- writing ----------------------------------------------------------------------------------------------------------


def written(document: dict[str, Any]) -> bytes:
    """A document as TOML, one line for each key of the file."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * limit)  # several nestings may lie in each other; what reads the file keeps its own limit
    try:
        return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in document.items()).encode()
    finally:
        sys.setrecursionlimit(limit)


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a long integer"
    return text if len(text) < 40 else text[:37] + "..."


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else _escaped(text)


def _escaped(text: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float):
        return str(value) if isinstance(value, float) or abs(value) < 10**300 else "9" * 401
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_text(key)} = {_value(child)}" for key, child in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return "nan" if value is None else value.isoformat()
