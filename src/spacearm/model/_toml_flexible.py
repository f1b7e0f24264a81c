"""Tables of flexible parts as parts of a robot: appendages, booms, tanks."""

from __future__ import annotations

from pathlib import Path

from spacearm import checks
from spacearm.errors import ModelError
from spacearm.model._finite_elements import read_finite_elements
from spacearm.model.appendages import Appendage, Mode, add_appendage, make_boom, reduce_elements
from spacearm.model.parts import Pose
from spacearm.model.robot import Robot
from spacearm.model.slosh import Tank
from spacearm.model.tanks import add_tank
from spacearm.model.toml_errors import Place
from spacearm.model.toml_schema import AppendageTable, BoomTable, TankTable
from spacearm.model.toml_values import inertia_of


def extend_by_appendage(robot: Robot, table: AppendageTable, pose: Pose, place: Place, *, folder: Path | None) -> Robot:
    """The robot with an appendage, whose matrices, if it has some, lie in ``folder``."""
    given = {"mode": table.mode or None, "matrices": table.matrices}
    if checks.check_exclusive(given, place=str(place), error=ModelError) is None:
        raise ModelError("'mode' is missing", hint="expected modes, or matrices = { file = ..., interface = [...] }")
    if table.matrices is None:
        if "mass" not in table.model_fields_set:
            raise ModelError("'mass' is missing", hint="give that of the rigid appendage, with com and inertia")
        modes = tuple(Mode(mode.frequency, mode.translation, mode.rotation, mode.damping) for mode in table.mode)
        return add_appendage(robot, table.body, Appendage(table.name, inertia_of(table, place), modes), pose)
    for key in ("mass", "com", "inertia", "inertia_about", "inertia_axes"):
        if key in table.model_fields_set:
            raise ModelError(f"{key!r} does not apply", hint="the matrices have the mass")
    own = table.matrices
    elements = read_finite_elements((folder or Path()) / own.file)
    found = reduce_elements(table.name, elements, own.interface, damping=own.damping, share=own.share, most=own.most)
    return add_appendage(robot, table.body, found, pose)


def extend_by_boom(robot: Robot, table: BoomTable, pose: Pose, _: Place) -> Robot:
    """The robot with a boom."""
    stiffness, torsion = (table.stiffness_y, table.stiffness_z), table.torsion
    twist = None if torsion is None else (torsion.stiffness, torsion.inertia)
    boom = make_boom(
        table.name,
        table.length,
        table.mass,
        stiffness,
        modes=table.modes,
        damping=table.damping,
        torsion=twist,
        width=table.width,
    )
    return add_appendage(robot, table.body, boom, pose)


def extend_by_tank(robot: Robot, table: TankTable, pose: Pose, place: Place) -> Robot:
    """The robot with a tank; with what it is told of a tank whose liquid its bodies hold already."""
    tank = Tank(**table.model_dump(exclude={"body", "origin", "included"}))
    if not table.included:
        if table.body is None:
            raise ModelError("'body' is missing", place=str(place))
        return add_tank(robot, table.body, tank, pose)
    for name in (f"{table.name}.slosh_x", f"{table.name}.slosh_y"):
        checks.check_name(name, robot.joint_names, "joint", of=f"robot {robot.name!r}", error=ModelError)
    robot.frame(table.name)
    return robot.replace(tanks=(*robot.tanks, tank))
