"""What an exported run takes besides its scenario, and what can be read from it.

Inputs are generalised forces, levels of thrusters and wrenches on frames; outputs are poses and velocities of frames,
the mass centre and momentum. Both are programs of their own, beside that of the motion: with the inputs at zero, the
motion keeps its bits.

Thrusters and wrenches act as ``force = sum J^T w``, with J the Jacobian (6, 6 + n) of the frame in world axes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from spacearm.engine.kernel import Kernel
from spacearm.mechanics.kinematics import frame_pose
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.program import Program
from spacearm.mechanics.spatial import SX
from spacearm.model import Robot
from spacearm.simulate.loads import thrust_wrench
from spacearm.simulate.overrides import robot_parameters

_WRENCH = ("fx", "fy", "fz", "mx", "my", "mz")


@dataclass(frozen=True)
class Port:
    """One number that goes in or comes out."""

    name: str
    unit: str
    description: str


@dataclass(frozen=True, eq=False)
class Ports:
    """Inputs and outputs of a robot's exported run."""

    robot: Robot

    def forces(self) -> Iterator[Port]:
        """The generalised force, added to the scenario's."""
        for name, unit in zip(self.robot.dof_names, self.force_units, strict=True):
            where = f"along {name[-1]} of the base" if name.startswith("base_v") else f"at {name}"
            where = f"about {name[-1]} of the base" if name.startswith("base_w") else where
            yield Port(f"force.{name}", unit, f"generalised force {where}, added to the scenario's")

    def thrusters(self) -> Iterator[Port]:
        for thruster in self.robot.thrusters:
            what = f"level of thruster {thruster.name}, 1: full thrust of {thruster.force:g} N"
            yield Port(f"thruster.{thruster.name}", "1", what)

    def wrenches(self) -> Iterator[Port]:
        for frame in self.robot.frames:
            for name in _WRENCH:
                what = "force" if name[0] == "f" else "moment"
                where = f"along {name[1]} of the world at the origin of {frame.name}"
                yield Port(f"wrench.{frame.name}.{name}", "N" if name[0] == "f" else "N.m", f"{what} {where}")

    def outputs(self) -> Iterator[Port]:
        """Names, units and meanings of the outputs, in their order."""
        for frame in self.robot.frames:
            own, of = frame.name, f"of frame {frame.name}"
            for axis in "xyz":
                yield Port(f"{own}.origin.{axis}", "m", f"origin {of}, {axis} of the world")
            for row in "xyz":
                for column in "xyz":
                    what = f"rotation {of} to the world: its {column} axis along {row} of the world"
                    yield Port(f"{own}.rotation.{row}{column}", "1", what)
            for axis in "xyz":
                yield Port(f"{own}.linear_velocity.{axis}", "m/s", f"velocity of the origin {of}, {axis} of the world")
            for axis in "xyz":
                yield Port(f"{own}.angular_velocity.{axis}", "rad/s", f"angular velocity {of}, {axis} of the world")
        for axis in "xyz":
            yield Port(f"mass_centre.{axis}", "m", f"mass centre of the whole robot, {axis} of the world")
        for axis in "xyz":
            yield Port(f"momentum.{axis}", "kg.m/s", f"linear momentum, {axis} of the world")
        for axis in "xyz":
            what = f"angular momentum about the mass centre, {axis} of the world"
            yield Port(f"angular_momentum.{axis}", "kg.m2/s", what)

    @property
    def force_units(self) -> list[str]:
        """Units of generalised forces, one for each degree of freedom."""
        joints = ["N" if joint.kind == "prismatic" else "N.m" for joint in self.robot.joints]
        return [*["N"] * 3, *["N.m"] * 3, *joints]

    @property
    def velocity_units(self) -> list[str]:
        """Units of generalised velocities."""
        joints = ["m/s" if joint.kind == "prismatic" else "rad/s" for joint in self.robot.joints]
        return [*["m/s"] * 3, *["rad/s"] * 3, *joints]

    def _plant(self) -> Plant:
        return Plant(self.robot, {name: value.size for name, value in robot_parameters(self.robot).items()})

    @cached_property
    def push(self) -> Kernel | None:
        """Generalised force (6 + n) of thrusters and wrenches in a state; None where there is neither."""
        robot = self.robot
        if not robot.thrusters and not robot.frames:
            return None
        plant = self._plant()
        level, wrench = ca.SX.sym("thruster", len(robot.thrusters)), ca.SX.sym("wrench", 6 * len(robot.frames))
        pushes = [(frame.name, wrench[6 * k : 6 * k + 6]) for k, frame in enumerate(robot.frames)]
        # Thrusters of one body as one wrench in its axes: one rotation and one Jacobian for all of them.
        for body in dict.fromkeys(thruster.body for thruster in robot.thrusters):
            own = [(k, each) for k, each in enumerate(robot.thrusters) if each.body == body]
            total = sum((level[k] * ca.SX(ca.DM(thrust_wrench(robot, each.name))) for k, each in own), ca.SX.zeros(6))
            rotation = frame_pose(
                plant.tree, plant.tree.placements(plant.joints), plant.base, robot.frame(body)
            ).rotation
            pushes.append((body, ca.vertcat(rotation @ total[:3], rotation @ total[3:])))
        force = sum((plant.jacobian(frame).T @ each for frame, each in pushes), ca.SX.zeros(robot.dofs))
        inputs = {"state": plant.state, "thruster": level, "wrench": wrench}
        return Kernel(Program("push", inputs, {"force": ca.densify(force)}))

    @cached_property
    def observe(self) -> Kernel:
        """The outputs in a state, one behind the other."""
        plant = self._plant()
        found: list[SX] = []
        for frame in self.robot.frames:
            pose = plant.pose(frame.name)
            found += [pose.origin, ca.vec(pose.rotation.T), plant.twist(frame.name)]
        found += [plant.mass_centre, plant.momentum]
        inputs = {"state": plant.state, "inertia": plant.inertia, "rotor": plant.rotor}
        return Kernel(Program("outputs", inputs, {"outputs": ca.densify(ca.vertcat(*found))}))
