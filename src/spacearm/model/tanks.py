"""Tanks of a robot: the liquid of :mod:`spacearm.model.slosh` as a rigid part and a mass on two springs.

A robot keeps its tanks (:attr:`~spacearm.model.Robot.tanks`), so that what thrusters use can be taken from them
(:func:`drain_tank`). All that changes with the liquid are numbers that programs take as inputs: the slosh mass keeps
its joints, and its mass centre moves within its body.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spacearm.checks import check_name, non_negative
from spacearm.errors import ModelError, error_context
from spacearm.model.appendages import add_rigid_matrix, rigid_matrix
from spacearm.model.edit import Axis, attach, attach_by_joint, rename, replace_inertias, split_joint
from spacearm.model.parts import Body, Inertia, Joint, Pose, Spring
from spacearm.model.robot import Robot
from spacearm.model.slosh import Tank
from spacearm.typing import Array


def add_tank(robot: Robot, frame: str, tank: Tank, placement: Pose | None = None) -> Robot:
    """The robot with a tank and its liquid; ``placement`` is the tank's bottom, its axis along z, in ``frame``.

    The slosh mass ``<name>.slosh`` slides on the joints ``<name>.slosh_x`` and ``<name>.slosh_y`` (m).
    """
    with error_context(f"tank {tank.name!r}"):
        robot = attach(robot, frame, Body(tank.name, Inertia.massless()), placement)
        robot = add_rigid_matrix(robot, tank.name, _rigid_part(tank))
        spring = Spring(tank.stiffness)
        # A joint that the two slides take the place of; soft joints of a capture are called slide_x too, slosh is none.
        place = np.array([0.0, 0.0, tank.slosh_height])
        joint = Joint(tank.name, "prismatic", "", "", Pose(translation=place), axis=np.array([1.0, 0.0, 0.0]))
        robot = attach_by_joint(robot, tank.name, Body(f"{tank.name}.slosh", Inertia(tank.slosh_mass)), joint)
        axes = [Axis(axis, "prismatic", spring, tank.viscosity) for axis in "xy"]
        robot = split_joint(robot, tank.name, axes, where="instead")
        robot = rename(robot, {f"{tank.name}.slide_{axis}": f"{tank.name}.slosh_{axis}" for axis in "xy"})
        return robot.replace(tanks=(*robot.tanks, tank))


def _rigid_part(tank: Tank) -> Array:
    """Mass matrix (6, 6) about the bottom of what does not slosh."""
    place = np.array([0.0, 0.0, tank.slosh_height])
    return rigid_matrix(tank.liquid) - rigid_matrix(Inertia(tank.slosh_mass, place))


def drain_tank(robot: Robot, name: str, mass: float) -> Robot:
    """The robot with so much less liquid (kg) in one of its tanks; its structure stays the same.

    Frequency and damping ratio follow the liquid's height; a slosh frequency that is given stays.
    """
    tanks = {tank.name: tank for tank in robot.tanks}
    old = tanks[check_name(name, tanks, "tank", of=f"robot {robot.name!r}", error=ModelError)]
    with error_context(f"tank {name!r}"):
        used = non_negative(mass, "mass", unit="kg")
        if used >= old.mass:
            raise ModelError(f"has {old.mass:.6g} kg, and {used:.6g} kg are used", hint="a tank does not run empty")
        new = replace(old, mass=old.mass - used)
        # The difference, since other parts welded to the same body have been added to its inertia too.
        robot = add_rigid_matrix(robot, name, _rigid_part(new) - _rigid_part(old))
        body = robot.body(f"{name}.slosh")
        # The slides' place is part of the structure; along their normal the mass may lie anywhere in its body.
        rise = body.inertia.com + np.array([0.0, 0.0, new.slosh_height - old.slosh_height])
        robot = replace_inertias(robot, {body.name: Inertia(new.slosh_mass, rise)})
    return _with_springs(robot, new).replace(tanks=tuple(new if each is old else each for each in robot.tanks))


def _with_springs(robot: Robot, tank: Tank) -> Robot:
    names = {f"{tank.name}.slosh_{axis}" for axis in "xy"}
    spring, damping = Spring(tank.stiffness), tank.viscosity
    return robot.replace(
        joints=tuple(
            replace(joint, spring=spring, damping=damping) if joint.name in names else joint for joint in robot.joints
        )
    )
