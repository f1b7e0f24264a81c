"""Closed-loop control: control laws for the phases of a run, plans for them to follow, and the workspace of an arm."""

from spacearm.control.attitude import attitude_by_thrusters, attitude_by_wheels, detumble
from spacearm.control.attitude_paths import AttitudeRotation, AttitudeSpline
from spacearm.control.disturbance import least_disturbance, reach
from spacearm.control.follow import follow_line, reactionless
from spacearm.control.laws import (
    base_arm_coordination,
    computed_torque,
    impedance,
    joint_pid,
    reaction_null_space,
    resolved_acceleration,
    resolved_rate,
)
from spacearm.control.loop_stability import LinearLoop, linearise_loop
from spacearm.control.maps import hand_map, joint_map
from spacearm.control.modulation import PulseWidth, PulseWidthFrequency
from spacearm.control.plans import JointPlan, hand_line, hand_spline, point_to_point
from spacearm.control.time_scaling import minimise_duration
from spacearm.control.workspace import Workspace, dynamic_manipulability, virtual_manipulator, workspace
from spacearm.mechanics.law import Commands
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import BasePosition, BaseVelocity, Encoder, ForceTorque, Gyro, StarTracker
from spacearm.simulate.law import Law, PythonLaw

__all__ = [
    "AttitudeRotation",
    "AttitudeSpline",
    "BasePosition",
    "BaseVelocity",
    "Commands",
    "Encoder",
    "ForceTorque",
    "Gyro",
    "JointPlan",
    "Law",
    "LinearLoop",
    "Plant",
    "PulseWidth",
    "PulseWidthFrequency",
    "PythonLaw",
    "StarTracker",
    "Workspace",
    "attitude_by_thrusters",
    "attitude_by_wheels",
    "base_arm_coordination",
    "computed_torque",
    "detumble",
    "dynamic_manipulability",
    "follow_line",
    "hand_line",
    "hand_map",
    "hand_spline",
    "impedance",
    "joint_map",
    "joint_pid",
    "least_disturbance",
    "linearise_loop",
    "minimise_duration",
    "point_to_point",
    "reach",
    "reaction_null_space",
    "reactionless",
    "resolved_acceleration",
    "resolved_rate",
    "virtual_manipulator",
    "workspace",
]
