"""``spacearm check``, ``convert``, ``mount``, ``bus`` and ``catalogue``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from spacearm.cli.terminal import print_message, show, show_json
from spacearm.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.tree import Tree

    from spacearm.model import Joint, Robot
    from spacearm.model.notices import RepairWarning
    from spacearm.model.robot_import import Reading
    from spacearm.model.wheels import WheelSet


#: Bodies deeper in the tree stand below one another, each with its parent's name.
MOST_INDENTED = 16


# -- check ----------------------------------------------------------------------------------------------------------


def check_robot(name: str, *, reading: Reading, out: Path | None, json: bool) -> int:
    """Print a robot; a degree of freedom without inertia is reported, but is not an error: it may be driven."""
    from spacearm.model.massless import massless_dofs, massless_message

    if out is not None and not reading.repair:
        raise InputError("there is nothing to write without --repair", file=out, hint="convert writes other formats")
    robot, notes = _read(name, reading)
    if out is not None:
        notes.losses += _write(robot, name, out, strict=reading.strict, comments=notes.changes())
    weightless = massless_dofs(robot)
    notes.print_all()
    if json:
        show_json({**description(robot), "weightless_dofs": weightless, **notes.as_json()})
    else:
        show(robot_tree(robot), *part_tables(robot), _totals(robot))
    if weightless:
        print_message(f"{massless_message(weightless)}; it can be locked or driven, not left free", kind="warning")
    return 0


@dataclass
class _RobotNotices:
    """Messages from reading and writing a robot: warnings, losses and repairs."""

    warning_messages: list[str]
    losses: list[str]
    repairs: list[RepairWarning]

    def collect_warnings(self, caught: Iterable[warnings.WarningMessage]) -> None:
        """Add these warnings."""
        from spacearm.model.notices import LossyConversion, RepairWarning

        for warning in caught:
            if isinstance(warning.message, RepairWarning):
                self.repairs.append(warning.message)
            elif issubclass(warning.category, LossyConversion):
                self.losses.append(str(warning.message))
            else:
                self.warning_messages.append(str(warning.message))

    def lists(self) -> tuple[list[Any], ...]:
        return self.warning_messages, self.losses, self.repairs

    def changes(self) -> list[str]:
        """Every single repair, for the file that is written."""
        lines = [f"{each.place}: {each.change} ({each.kind})" for notes in self.repairs for each in notes.repairs]
        return ["Repaired:", *lines] if lines else []

    def as_json(self) -> dict[str, Any]:
        return {
            "lost": self.losses,
            "repairs": [
                {"kind": each.kind, "place": each.place, "change": each.change}
                for notes in self.repairs
                for each in notes.repairs
            ],
        }

    def print_all(self) -> None:
        for kind, messages in (("warning", self.warning_messages), ("lost", self.losses), ("repaired", self.repairs)):
            for message in messages:
                print_message(str(message).replace("repaired: ", "", 1), kind=kind)


def _read(name: str, reading: Reading) -> tuple[Robot, _RobotNotices]:
    """The robot, and the messages about it."""
    from spacearm.model.mounts import find_robot

    notes = _RobotNotices([], [], [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            robot = find_robot(name, reading=reading)
        except InputError:
            notes.collect_warnings(caught)  # unread parts may explain the error
            notes.print_all()
            raise
    notes.collect_warnings(caught)
    return robot, notes


def read_robot(name: str, reading: Reading) -> Robot:
    """The robot; messages about it are printed."""
    robot, notes = _read(name, reading)
    notes.print_all()
    return robot


def _write(robot: Robot, source: str, target: Path, *, strict: bool, comments: Iterable[str] = ()) -> list[str]:
    """Write the robot; returns what the target's format cannot represent, or raises an error if ``strict``."""
    from spacearm.model import files

    if target.exists() and Path(source).exists() and target.samefile(source):
        raise InputError("source and target are the same file", file=target)
    kind = files.file_format(target)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        text = files.robot_text(robot, kind, comments, target.absolute().parent)
    lost = [str(warning.message) for warning in caught]
    if strict and lost:
        raise InputError("; ".join(lost), file=target, hint="without --strict this is a warning")
    files.write_atomically(target, text)
    return lost


def description(robot: Robot) -> dict[str, Any]:
    """A robot as plain values, SI units, for ``check --json``."""
    return {
        "name": robot.name,
        "mass": robot.mass,
        "dofs": robot.dofs,
        "dof_names": list(robot.dof_names),
        "bodies": [
            {"name": body.name, "mass": body.inertia.mass, "com": body.inertia.com, "inertia": body.inertia.tensor}
            for body in robot.bodies
        ],
        "joints": [
            {
                "name": joint.name,
                "kind": joint.kind,
                "parent": joint.parent,
                "child": joint.child,
                "axis": joint.axis,
                "passive": passive_laws(joint),
            }
            for joint in robot.joints
        ],
        "frames": [
            {
                "name": frame.name,
                "body": frame.body,
                "rotation": frame.placement.rotation,
                "translation": frame.placement.translation,
            }
            for frame in robot.frames
        ],
        "thrusters": [
            {
                "name": thruster.name,
                "body": thruster.body,
                "position": thruster.position,
                "direction": thruster.direction,
                "force": thruster.force,
            }
            for thruster in robot.thrusters
        ],
        "couplings": [
            {"name": coupling.name, "first": coupling.first, "second": coupling.second} for coupling in robot.couplings
        ],
        "configurations": dict(robot.configurations),
    }


def passive_laws(joint: Joint) -> list[str]:
    """Passive laws of a joint, one text each."""
    force = joint.force_unit
    laws = []
    if joint.spring is not None:
        laws.append(f"spring {joint.spring.stiffness:g} {force}/{joint.unit}")
    if joint.damping:
        laws.append(f"damper {joint.damping:g} {force} s/{joint.unit}")
    if joint.friction is not None:
        laws.append(f"friction {joint.friction.static:g}/{joint.friction.coulomb:g} {force}")
    if joint.rotor is not None:
        laws.append(f"rotor {joint.rotor.inertia:g} kg m2, ratio {joint.rotor.ratio:g}")
    return laws


def robot_tree(robot: Robot) -> Tree:
    """Bodies and joints from the base outwards."""
    from rich.text import Text
    from rich.tree import Tree

    def mass(body: str) -> tuple[str, str]:
        value = robot.body(body).inertia.mass
        return (f"{value:g} kg", "cyan") if value else ("massless", "dim")

    base = robot.bodies[0].name
    root = Tree(Text.assemble((base, "bold"), "  ", mass(base), ("  base, 6 degrees of freedom", "dim")))
    places, depth = {base: root}, {base: 0}  # places: under which the children of a body stand
    for joint in robot.joints:
        laws = "".join(f"; {law}" for law in passive_laws(joint))
        place, above = places[joint.parent], depth[joint.parent]
        own = f"  on {joint.name} ({joint.kind}{laws})" + f" of {joint.parent}" * (above >= MOST_INDENTED)
        node = place.add(Text.assemble((joint.child, "bold"), "  ", mass(joint.child), (own, "dim")))
        depth[joint.child] = above + 1
        places[joint.child] = node if above + 1 < MOST_INDENTED else place
    return root


def part_tables(robot: Robot) -> list[Table]:
    """Tables of frames, thrusters, couplings and configurations, if there are any."""
    from rich.table import Table

    tables = []

    def table(title: str, *columns: str, rows: list[tuple[str, ...]]) -> None:
        if rows:
            made = Table(*columns, title=title, title_justify="left", title_style="bold", header_style="dim", box=None)
            for row in rows:
                made.add_row(*(_escape_markup(cell) for cell in row))
            tables.append(made)

    table(
        "Frames",
        "name",
        "body",
        "position [m]",
        rows=[(frame.name, frame.body, _vector(frame.placement.translation)) for frame in robot.frames],
    )
    table(
        "Thrusters",
        "name",
        "body",
        "position [m]",
        "force direction",
        "force [N]",
        rows=[
            (each.name, each.body, _vector(each.position), _vector(each.direction), f"{each.force:g}")
            for each in robot.thrusters
        ],
    )
    table(
        "Couplings",
        "name",
        "between",
        "stiffness",
        "damping",
        rows=[
            (each.name, f"{each.first}, {each.second}", f"{each.stiffness:g}", f"{each.damping:g}")
            for each in robot.couplings
        ],
    )
    table(
        "Configurations",
        "name",
        "joints [rad, m]",
        rows=[(name, _vector(values)) for name, values in robot.configurations.items()],
    )
    return tables


def _totals(robot: Robot) -> str:
    massless = sum(body.inertia.mass == 0.0 for body in robot.bodies)
    kinds = [joint.kind for joint in robot.joints]
    joints = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("revolute", "prismatic") if kind in kinds) or "none"
    return (
        f"{robot.name}: {len(robot.bodies)} bodies ({massless} massless), {robot.n} joints ({joints}), "
        f"{robot.dofs} degrees of freedom, {robot.mass:g} kg"
    )


def _escape_markup(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _vector(values: Any) -> str:
    return "(" + ", ".join(f"{value:.6g}" for value in values) + ")"


# -- convert --------------------------------------------------------------------------------------------------------


def convert_robot(source: str, target: Path, *, reading: Reading, json: bool) -> int:
    """Write ``source`` as ``target``; with strict reading, anything lost is an error and nothing is written."""
    from spacearm.model.files import file_format

    file_format(target)  # before anything is read
    robot, notes = _read(source, reading)
    if reading.strict and notes.warning_messages:
        raise InputError("; ".join(notes.warning_messages), file=target, hint="without --strict this is a warning")
    notes.losses += _write(robot, source, target, strict=reading.strict, comments=notes.changes())
    if json:
        notes.losses += notes.warning_messages
        show_json({"source": source, "target": target, "robot": robot.name, **notes.as_json()})
        return 0
    notes.print_all()
    show(f"{target}: {robot.name}, {len(robot.bodies)} bodies, {robot.n} joints, {robot.mass:g} kg")
    return 0


# -- mount and bus --------------------------------------------------------------------------------------------------


def mount_robot(
    carrier: str,
    arm: str,
    target: Path,
    *,
    reading: Reading,
    base: str | None,
    arguments: dict[str, str],
    scale_factor: float | None,
    pose: tuple[tuple[float, float, float], tuple[float, float, float]],
    frame: str | None,
    prefix: str,
    name: str | None,
    base_inertia: bool,
    json: bool,
) -> int:
    """Write the robot ``carrier`` with ``arm`` mounted on it; ``pose`` is a position (m) and roll, pitch, yaw (deg)."""
    import numpy as np

    from spacearm.errors import error_context
    from spacearm.model import edit
    from spacearm.model.files import file_format
    from spacearm.model.parts import Pose
    from spacearm.model.robot_import import PLACEHOLDER
    from spacearm.model.rotations import rotation_from_rpy
    from spacearm.model.similarity import scale

    file_format(target)
    host, notes = _read(carrier, reading)
    guest, more = _read(arm, replace(reading, base=base, arguments=arguments, depth=1))
    for mine, theirs in zip(notes.lists(), more.lists(), strict=True):
        mine.extend(theirs)
    kept = base_inertia and guest.bodies[0].inertia is not PLACEHOLDER
    placement = Pose(rotation_from_rpy(np.deg2rad(pose[1])), np.array(pose[0]))
    with error_context(f"mounting {Path(arm).name}"):
        if scale_factor is not None:
            guest = scale(guest, scale_factor)
        robot = edit.mount(host, guest, placement, frame=frame, prefix=prefix, base_inertia=kept)
        if name is not None:
            robot = robot.replace(name=name)
    if target.exists() and Path(arm).exists() and target.samefile(arm):
        raise InputError("source and target are the same file", file=target)
    notes.losses += _write(robot, carrier, target, strict=reading.strict, comments=notes.changes())
    if json:
        show_json({"target": target, **description(robot), **notes.as_json()})
        return 0
    notes.print_all()
    show(f"{target}: {robot.name}, {len(robot.bodies)} bodies, {robot.n} joints, {robot.mass:g} kg")
    return 0


def write_bus(
    target: Path,
    mass: float,
    size: tuple[float, float, float],
    wheels: WheelSet | None,
    thrusters: Literal[0, 12, 16],
    name: str,
) -> int:
    """Write a plausible satellite."""
    from spacearm.model.bus import make_bus
    from spacearm.model.files import save

    if target.exists():
        raise InputError("the file already exists", file=target, hint="bus does not overwrite files; choose another -o")
    robot = make_bus(mass, size, name=name, wheels=wheels, thrusters=thrusters)
    save(
        robot, target, comments=["A box of uniform density; wheels and thrusters of plausible sizes, by spacearm bus."]
    )
    show(f"{target}: {robot.name}, {robot.n} wheels, {len(robot.thrusters)} thrusters, {robot.mass:g} kg")
    show(f"\nmount an arm: spacearm mount {target} ARM --frame plus_z --prefix arm_ -o servicer.toml")
    return 0


# -- catalogue ------------------------------------------------------------------------------------------------------


def list_catalogue(*, json: bool) -> int:
    from rich.table import Table

    from spacearm.model import catalogue

    robots = {name: catalogue.load(name) for name in catalogue.names()}
    if json:
        show_json(
            [
                {"name": name, "mass": robot.mass, "dofs": robot.dofs, "joints": robot.n}
                for name, robot in robots.items()
            ]
        )
        return 0
    table = Table("name", "bodies", "joints", "mass [kg]", "configurations", box=None, header_style="bold")
    for column in table.columns[1:4]:
        column.justify = "right"
    for name, robot in robots.items():
        table.add_row(
            _escape_markup(name),
            str(len(robot.bodies)),
            str(robot.n),
            f"{robot.mass:g}",
            _escape_markup(", ".join(robot.configurations)),
        )
    show(table)
    return 0


def show_catalogue(name: str) -> int:
    from spacearm.model import catalogue

    text = catalogue.text(name)
    print(text, end="" if text.endswith("\n") else "\n")
    return 0
