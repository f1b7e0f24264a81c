"""Similar robots: of another size and mass, with the same motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spacearm.model.loops import scale_loop
from spacearm.model.parts import (
    Body,
    Coupling,
    Friction,
    Inertia,
    Joint,
    Limits,
    ModeShape,
    Pose,
    Rotor,
    Spring,
    Visual,
    finite,
)
from spacearm.model.robot import Robot
from spacearm.model.slosh import Tank


def scale(robot: Robot, length: float, mass: float | None = None) -> Robot:
    """A similar robot: all lengths times ``length``, all masses times ``mass`` (the cube of it: the same density).

    Forces, torques, springs, dampers, friction, rotors and limits are scaled with them, so that the robot moves through
    the same angles in the same time, and through paths of ``length`` times the size.
    """
    # Dimensions with the time kept: forces go as mass times length, torques and moments of inertia as mass times its
    # square, surface tension (force by length) as mass, gravity as length.
    length = finite(length, "length", above=0.0)
    mass = length**3 if mass is None else finite(mass, "mass", above=0.0)
    inertia = mass * length**2

    def scale_pose(pose: Pose) -> Pose:
        return Pose(pose.rotation, length * pose.translation)

    def scale_mode_shape(shape: ModeShape) -> ModeShape:
        # Of a unit of the joint's position: a slide's unit is a shorter share of a larger robot.
        unit = next((travel(joint) for joint in robot.joints if joint.name == shape.joint), 1.0)
        return ModeShape(shape.joint, length / unit * shape.translation, shape.rotation / unit)

    def scale_visual(visual: Visual) -> Visual:
        return replace(
            visual, size=length * visual.size, placement=scale_pose(visual.placement),
            mode_shapes=tuple(map(scale_mode_shape, visual.mode_shapes)),
        )  # fmt: skip

    def scale_body(body: Body) -> Body:
        old = body.inertia
        return replace(
            body,
            inertia=Inertia(mass * old.mass, length * old.com, inertia * old.tensor),
            visuals=tuple(map(scale_visual, body.visuals)),
            collisions=tuple(
                replace(each, size=length * each.size, placement=scale_pose(each.placement)) for each in body.collisions
            ),
        )

    def resistance(joint: Joint) -> float:
        """Factor on stiffness and damping: force for each metre, or torque for each radian."""
        return inertia if joint.kind == "revolute" else mass

    def travel(joint: Joint) -> float:
        return 1.0 if joint.kind == "revolute" else length

    def scale_joint(joint: Joint) -> Joint:
        ratio, stiff = travel(joint), resistance(joint)
        effort, limits = stiff * ratio, joint.limits
        spring, friction, rotor = joint.spring, joint.friction, joint.rotor
        return replace(
            joint,
            placement=scale_pose(joint.placement),
            damping=stiff * joint.damping,
            spring=spring and Spring(stiff * spring.stiffness, ratio * spring.rest),
            friction=friction and Friction(effort * friction.static, effort * friction.coulomb),
            rotor=rotor and Rotor(inertia * rotor.inertia, rotor.ratio / ratio),
            limits=Limits(ratio * limits.lower, ratio * limits.upper, ratio * limits.velocity, effort * limits.effort),
        )

    def scale_coupling(coupling: Coupling) -> Coupling:
        first, second = robot.joint(coupling.first), robot.joint(coupling.second)
        return replace(
            coupling,
            stiffness=resistance(first) * coupling.stiffness,
            damping=resistance(first) * coupling.damping,
            ratio=coupling.ratio * travel(first) / travel(second),
            rest=travel(first) * coupling.rest,
        )

    factors = np.array([travel(joint) for joint in robot.joints])
    return robot.replace(
        bodies=tuple(map(scale_body, robot.bodies)),
        joints=tuple(map(scale_joint, robot.joints)),
        frames=tuple(replace(frame, placement=scale_pose(frame.placement)) for frame in robot.frames),
        thrusters=tuple(
            replace(each, position=length * each.position, force=mass * length * each.force) for each in robot.thrusters
        ),
        couplings=tuple(map(scale_coupling, robot.couplings)),
        loops=tuple(scale_loop(robot, loop, length) for loop in robot.loops),
        tanks=tuple(_scale_tank(tank, length, mass) for tank in robot.tanks),
        configurations={key: factors * values for key, values in robot.configurations.items()},
    )


def _scale_tank(tank: Tank, length: float, mass: float) -> Tank:
    """A tank with the same frequencies."""
    return replace(
        tank, radius=length * tank.radius, mass=mass * tank.mass, density=mass / length**3 * tank.density,
        acceleration=length * tank.acceleration, surface_tension=mass * tank.surface_tension,
    )  # fmt: skip
