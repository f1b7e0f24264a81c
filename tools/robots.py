"""Read every robot file of a folder, compare it with another engine, write it and read it back: one line a model.

    python tools/robots.py FOLDER [--jobs 2] [--states 20] [--no-repair] [--only TEXT] [--json FILE]

Each line says what became of the file (*read*, *repaired*, *refused* with the reason, *crashed*), the largest relative
difference to Pinocchio (URDF) or MuJoCo (MJCF) in mass matrix, bias, forward dynamics, Jacobians and momentum over
some random states, and which round trips (TOML, URDF, MJCF) keep the robot. A summary follows. Accelerations are
expected to agree to 1e-10; where the mass matrix is so ill-conditioned that doubles do not hold as many digits, the
force that the other engine needs for our acceleration has to be the force applied, to 1e-12 of the terms that it is
summed from. Such a line shows the condition number.

Where nothing was repaired, the other engine reads the file itself. A repaired URDF, and one of which Pinocchio's parser
complains that it skips parts, goes to Pinocchio as spacearm writes it, and the places of all frames are compared with
the file as it is. Every file is read in a process that may die or
hang without harm to the rest. The exit status is 1 when a difference is above 1e-10, a round trip fails or a process
dies.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np

from spacearm.errors import SpacearmError
from spacearm.mechanics.programs import build
from spacearm.model import Robot, load
from spacearm.model.files import file_format, robot_text
from spacearm.model.massless import joint_space_inertia, massless_dofs
from spacearm.model.notices import LossyConversion, RepairWarning
from spacearm.typing import Array

#: What must be met, relative to the largest entry.
AGREES = 1e-10
#: Where the condition number limits accelerations: how well the force must be met, relative to the terms of its sum.
BACKWARD = 1e-12
#: Round trips: TOML and URDF keep every number to this, MJCF the mass matrix (MuJoCo raises moments below 1e-14 kg m2).
KEPT = 1e-12
KEPT_MJCF = 1e-9
#: A file that takes longer (s) is given up.
PATIENCE = 240.0
#: Jacobians are compared at no more frames than this, the last ones.
MOST_FRAMES = 6
#: Of a file with many robots no more than this are read.
MOST_ROBOTS = 8

sys.path.insert(0, str(Path(__file__).parent))  # the other engines stand beside


@dataclass
class Line:
    """What became of one file."""

    file: str
    outcome: str = "refused"
    reason: str = ""
    #: whether the other engine reads the file with a free base; why not
    reference: str = ""
    compared: str = ""
    difference: float | None = None
    where: str = ""
    #: condition number of the mass matrix where it, and not the mechanics, limits the agreement; else 0
    condition: float = 0.0
    backward: float = np.inf
    round_trips: dict[str, str] = field(default_factory=dict)
    repairs: int = 0
    losses: int = 0
    #: what the other engine had to leave out to agree, and nobody told
    silent: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"{self.outcome:9}", self.file]
        if self.difference is not None:
            limited = f", condition {self.condition:.0e}, force met to {self.backward:.0e}" if self.condition else ""
            parts.append(f"{self.difference:.1e} {self.where} ({self.compared}{limited})")
        elif self.outcome in ("read", "repaired"):
            parts.append(f"not compared: {self.compared or self.reference}")
        if self.silent:
            parts.append(f"lost without a word: {', '.join(self.silent)}")
        failed = [f"{kind} {why}" for kind, why in self.round_trips.items() if why]
        if self.round_trips:
            parts.append("round trips: " + ("; ".join(failed) if failed else "all"))
        if self.outcome in ("refused", "crashed"):
            parts.append(self.reason)
            parts.append("the other engine reads it" if not self.reference else "so does the other engine")
        return "  ".join(parts)

    @property
    def agrees(self) -> bool:
        """Whether the largest difference is within what is asked, or within what the condition number leaves."""
        if self.difference is None or self.difference <= AGREES:
            return True
        return self.backward <= BACKWARD and self.difference <= np.finfo(float).eps * self.condition

    @property
    def good(self) -> bool:
        return self.agrees and not self.silent and not any(self.round_trips.values()) and self.outcome != "crashed"


# -- ours -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A state of a floating robot, and a force on it."""

    position: Array
    quaternion: Array
    joints: Array
    velocity: Array
    force: Array


def random_states(robot: Robot, count: int, seed: int = 1) -> Iterator[State]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        quaternion = rng.normal(size=4)
        yield State(
            rng.normal(size=3),
            quaternion / np.linalg.norm(quaternion),
            rng.uniform(-1.0, 1.0, robot.n),
            rng.normal(size=robot.dofs),
            rng.normal(size=robot.dofs),
        )


class Ours:
    """spacearm's mechanics through CasADi's interpreter: a compiled kernel for each of many robots takes too long."""

    def __init__(self, robot: Robot, frames: list[str]) -> None:
        self.robot = robot
        names = ("mass_matrix", "bias", "hybrid_dynamics", "momentum")
        self.programs = {name: build(robot, name).inline_derived_inputs() for name in names}
        self.programs |= {
            f"jacobian of {frame}": build(robot, "jacobian", frame=frame).inline_derived_inputs() for frame in frames
        }
        self.held = np.zeros(robot.dofs)
        self.held[[robot.dof_index(name) for name in massless_dofs(robot)]] = 1.0

    def __call__(self, state: State) -> dict[str, Array]:
        given = {
            **asdict(state),
            "inertia": self.robot.inertia_parameters.ravel(),
            "rotor": self.robot.rotor_inertias,
            "mode": self.held,
            "drive": np.zeros(self.robot.dofs),
            "point": np.zeros(3),
        }
        result = {}
        for name, program in self.programs.items():
            flat = np.concatenate([np.ravel(given[key]) for key in program.inputs])
            values = np.array(program.function(flat)).ravel()
            key = next(iter(program.outputs))
            shape = program.output_shape(key)
            result[name] = values[: int(np.prod(shape))].reshape(shape)
        result["forward dynamics"] = result.pop("hybrid_dynamics")
        return result


def poses(robot: Robot, joints: Array) -> dict[str, Array]:
    """Where the frames of all bodies, and all other frames, are in the base's: (4, 4) each."""
    from spacearm.model.fuse import joint_pose
    from spacearm.model.parts import Pose

    places = {robot.bodies[0].name: Pose()}
    for joint, value in zip(robot.joints, joints, strict=True):
        places[joint.child] = places[joint.parent] @ joint.placement @ joint_pose(joint.kind, joint.axis, float(value))
    places |= {frame.name: places[frame.body] @ frame.placement for frame in robot.frames}
    result = {}
    for name, pose in places.items():
        result[name] = np.eye(4)
        result[name][:3, :3], result[name][:3, 3] = pose.rotation, pose.translation
    return result


# -- what both need -------------------------------------------------------------------------------------------------


def passive_forces(robot: Robot, state: State) -> Array:
    """Springs, dampers and couplings of the robot, as generalised forces; those of repairs are not the file's."""
    rates, force = state.velocity[6:], np.zeros(robot.dofs)
    for index, joint in enumerate(robot.joints):
        spring = 0.0 if joint.spring is None else joint.spring.stiffness * (state.joints[index] - joint.spring.rest)
        force[6 + index] = -spring - joint.damping * rates[index]
    for each in robot.couplings:
        if each.name.endswith(".mimic"):
            continue
        one, two = robot.joint_index(each.first), robot.joint_index(each.second)
        bend = state.joints[one] - each.ratio * state.joints[two] - each.rest
        pull = -each.stiffness * bend - each.damping * (rates[one] - each.ratio * rates[two])
        force[6 + one] += pull
        force[6 + two] -= each.ratio * pull
    return force


def backward_error(state: State, acceleration: Array, expected: dict[str, Array], held: Array) -> tuple[float, float]:
    """Condition number of the mass matrix, and how far the force for this acceleration is from the one applied."""
    free = np.flatnonzero(held == 0.0)
    mass, bias = expected["mass_matrix"][np.ix_(free, free)], expected["bias"][free]
    force, acceleration = state.force[free], acceleration[free]
    terms = np.abs(mass) @ np.abs(acceleration) + np.abs(bias) + np.abs(force)
    gap = float(np.abs(mass @ acceleration + bias - force).max() / max(terms.max(), 1e-300))
    return float(np.linalg.cond(mass)), gap if np.isfinite(gap) else np.inf


# -- one file -------------------------------------------------------------------------------------------------------


def difference(value: Array, reference: Array, terms: float = 0.0) -> float:
    """Largest difference, relative to the reference's largest entry, or to the terms that it is summed from where these
    are larger and cancel; NaN counts as infinite."""
    if value.size == 0:
        return 0.0
    gap = float(np.abs(value - reference).max() / max(np.abs(reference).max(), terms, 1e-12))
    return gap if np.isfinite(gap) else np.inf


def examine_each(path: Path, shown: str, **options: Any) -> list[Line]:
    """A line for each robot of a file."""
    with warnings.catch_warnings(), contextlib.suppress(SpacearmError):
        warnings.simplefilter("ignore")
        if file_format(path) == "mjcf":
            from spacearm.model.mjcf_read import mjcf_bases

            bases = mjcf_bases(path, outside=True)
            if len(bases) > 1:
                return [examine(path, f"{shown} [{base}]", base=base, **options) for base in bases[:MOST_ROBOTS]]
    return [examine(path, shown, **options)]


def examine(path: Path, shown: str, *, repair: bool, states: int, base: str | None = None) -> Line:
    """All that is told about one robot of a file."""
    line = Line(shown)
    kind = file_format(path)
    engine, line.reference = _tried(lambda: _engine(path, kind))
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        try:
            robot = load(path, repair=repair, base=base, outside=True)
        except SpacearmError as error:
            line.reason = " ".join(str(error).replace(f"{path}: ", "").split())[:300]
            return line
    line.repairs = sum(len(each.message.repairs) for each in notes if isinstance(each.message, RepairWarning))
    lost = [str(each.message) for each in notes if issubclass(each.category, LossyConversion)]
    line.losses = len(lost)
    line.outcome = "repaired" if line.repairs else "read"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _compare(line, robot, engine, kind, states)
        if kind == "mjcf" and engine is not None:
            line.silent = [what for what in getattr(engine, "without", ()) if not any(what in text for text in lost)]
        # what a URDF cannot hold of an MJCF (rotors, springs) is no fault of the reader
        trips = ("toml", "mjcf") if kind == "mjcf" else ("toml", "urdf", "mjcf")
        line.round_trips = {each: _round_trip(robot, each) for each in trips}
    return line


def _engine(path: Path, kind: str) -> Any:
    if kind == "urdf":
        return _pinocchio(path.read_text(encoding="utf-8", errors="replace"))
    if kind == "mjcf":
        from mujoco_model import MujocoModel

        return MujocoModel(path)
    return None


def _pinocchio(text: str) -> Any:
    from pinocchio_model import PinocchioModel

    return PinocchioModel(text)


def _tried(make: Callable[[], Any]) -> tuple[Any, str]:
    """What is made, or why not."""
    try:
        return make(), ""
    except Exception as error:
        return None, " ".join(str(error).split())[:120] or type(error).__name__


def _compare(line: Line, robot: Robot, engine: Any, kind: str, states: int) -> None:
    gaps: dict[str, float] = {}
    backward: dict[float, tuple[float, float]] = {}
    original = engine
    line.compared = f"the file itself, {states} states"
    # repairs of an MJCF give the base mass or couple joints, which MuJoCo's own model follows
    why = "" if engine is not None and (kind == "mjcf" or not (line.repairs or engine.skipped)) else "repaired"
    if engine is not None and not why:
        _, why = _tried(lambda: engine.fit(robot))
    if why and kind == "urdf":
        line.compared = f"as written, {states} states"
        engine, failed = _tried(lambda: _pinocchio(robot_text(robot, "urdf")))
        _, unfit = _tried(lambda: engine.fit(robot))
        why = failed or unfit
    if why or engine is None:
        line.compared = why if engine is not None else line.reference
        return
    names = [frame.name for frame in robot.frames] + list(robot.body_names)
    frames = [name for name in names if kind == "urdf" or name in engine.frames()]
    if kind == "mjcf":
        robot = engine.comparable(robot)
    ours = Ours(robot, frames[-MOST_FRAMES:])
    for state in random_states(robot, states):
        got, expected = ours(state), engine(state, ours.held, frames[-MOST_FRAMES:])
        got["passive"] = passive_forces(robot, state)
        for name, reference in expected.items():
            # a bias is summed from products of momenta and speeds: that of an even ball is 0, but for their rounding
            momenta = np.abs(expected["mass_matrix"]) @ np.abs(state.velocity)
            terms = float(momenta.max() * np.abs(state.velocity).max()) if name == "bias" else 0.0
            quantity, gap = name.split(" of ")[0], difference(got[name], reference, terms)
            gaps[quantity] = max(gaps.get(quantity, 0.0), gap)
            if name == "forward dynamics":
                backward[gap] = backward_error(state, got[name], expected, ours.held)
        if kind == "urdf" and original is not None:
            mine, theirs = poses(robot, state.joints), original.poses(robot, state.joints)
            for name in mine.keys() & theirs.keys():
                gaps["poses"] = max(gaps.get("poses", 0.0), difference(mine[name], theirs[name]))
    other = max((name for name in gaps if name != "forward dynamics"), key=lambda name: gaps[name])
    line.where = max(gaps, key=lambda name: gaps[name]) if gaps[other] <= AGREES else other
    line.difference = gaps[line.where]
    if line.where == "forward dynamics" and line.difference > AGREES:
        line.condition, line.backward = backward[line.difference]


def _round_trip(robot: Robot, kind: str) -> str:
    """Why the robot does not survive being written and read back; empty if it does."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"robot.{'xml' if kind == 'mjcf' else kind}"
            path.write_text(robot_text(robot, kind), encoding="utf-8")
            back = load(path)
        if kind == "toml":
            return "" if back == robot else "reads back otherwise"
        if sorted(back.joint_names) != sorted(robot.joint_names):
            return "has other joints"
        order = [robot.dof_index(name) for name in back.dof_names]
        for state in random_states(robot, 3):
            kept = joint_space_inertia(back, state.joints[[i - 6 for i in order[6:]]])
            gap = difference(kept, joint_space_inertia(robot, state.joints)[np.ix_(order, order)])
            if gap > (KEPT_MJCF if kind == "mjcf" else KEPT):
                return f"changes the mass matrix by {gap:.1e}"
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return ""


# -- many files -----------------------------------------------------------------------------------------------------


def _serve(pipe: Any, options: dict[str, Any]) -> None:
    """A worker: files in, lines out. What libraries print is thrown away."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    while True:
        path, shown = pipe.recv()
        try:
            lines = examine_each(path, shown, **options)
        except Exception:
            lines = [Line(shown, "crashed", " ".join(traceback.format_exc(limit=-2).split())[-300:])]
        pipe.send(lines)


class Worker:
    """A process that examines files, replaced when it dies or hangs."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.process: Any = None

    def examine(self, path: Path, shown: str) -> list[Line]:
        context = multiprocessing.get_context("spawn")
        if self.process is None:
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs, self.options), daemon=True)
            self.process.start()
            theirs.close()
        with contextlib.suppress(EOFError, OSError):
            self.pipe.send((path, shown))
            if self.pipe.poll(PATIENCE):
                lines: list[Line] = self.pipe.recv()
                return lines
        dead = not self.process.is_alive()
        self.close()
        return [Line(shown, "crashed", "the process died" if dead else f"took more than {PATIENCE:g} s")]

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def examine_all(files: list[Path], folder: Path, jobs: int, options: dict[str, Any]) -> Iterator[Line]:
    """Lines in the order in which they are done."""
    waiting: Queue[Path] = Queue()
    done: Queue[list[Line]] = Queue()
    for path in files:
        waiting.put(path)

    def work() -> None:
        worker = Worker(options)
        with contextlib.suppress(Empty):
            while True:
                path = waiting.get_nowait()
                done.put(worker.examine(path, str(path.relative_to(folder))))
        worker.close()

    for _ in range(jobs):
        threading.Thread(target=work, daemon=True).start()
    for _ in files:
        yield from done.get()


def summary(lines: list[Line]) -> str:
    """How many were read, repaired and refused; agreement; round trips."""
    outcomes = Counter(line.outcome for line in lines)
    readable = [line for line in lines if not line.reference]
    loaded = [line for line in readable if line.outcome in ("read", "repaired")]
    compared = [line for line in lines if line.difference is not None]
    agree = [line for line in compared if line.difference is not None and line.difference <= AGREES]
    limited = [line for line in compared if line.agrees and line not in agree]
    trips = [line for line in lines if line.round_trips]
    whole = [line for line in trips if not any(line.round_trips.values())]
    share = 100.0 * len(loaded) / len(readable) if readable else 0.0
    return "\n".join(
        [
            f"{len(lines)} files: " + ", ".join(f"{count} {name}" for name, count in outcomes.most_common()),
            f"of {len(readable)} that the other engine reads, {len(loaded)} load ({share:.1f} %)",
            f"of {len(compared)} compared, {len(agree)} agree to {AGREES:g} "
            f"and {len(limited)} more to what the condition number leaves",
            f"of {len(trips)} that load, {len(whole)} survive all round trips",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--states", type=int, default=20, help="states for the comparison")
    parser.add_argument("--no-repair", action="store_true", help="read strictly")
    parser.add_argument("--only", default="", help="files with this text in their path")
    parser.add_argument("--endings", default=".urdf,.xml,.mjcf", help="which files are robots")
    parser.add_argument("--json", type=Path, help="all lines as JSON into this file")
    given = parser.parse_args()
    endings = tuple(given.endings.split(","))
    files = sorted(
        path
        for path in given.folder.rglob("*")
        if path.suffix.lower() in endings and path.is_file() and given.only in str(path)
    )
    lines = []
    options = {"repair": not given.no_repair, "states": given.states}
    for line in examine_all(files, given.folder, max(given.jobs, 1), options):
        print(line, flush=True)
        lines.append(line)
    print(summary(lines))
    if given.json:
        given.json.write_text(json.dumps([asdict(line) for line in lines], indent=1), encoding="utf-8")
    return 0 if all(line.good for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
