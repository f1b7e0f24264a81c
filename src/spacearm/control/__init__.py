"""Closed loops: control laws for the phases of a run, plans for them to follow, and where an arm can work."""

from spacearm.control.attitude import attitude_by_thrusters, attitude_by_wheels, detumble, fire, propellant
from spacearm.control.attitudes import AttitudeSpline, Turning
from spacearm.control.disturbance import least_disturbance, reach
from spacearm.control.follow import follow_line, reactionless
from spacearm.control.laws import (
    computed_torque,
    coordinated,
    impedance,
    joint_pid,
    reaction_null_space,
    resolved_acceleration,
    resolved_rate,
)
from spacearm.control.maps import hand_map, joint_map
from spacearm.control.modulation import PulseWidth, PulseWidthFrequency
from spacearm.control.plans import (
    HandPath,
    JointPlan,
    hand_line,
    hand_spline,
    point_to_point,
    quintic,
    stretched,
    within_limits,
)
from spacearm.control.time_scaling import fastest
from spacearm.control.workspace import (
    Workspace,
    base_disturbance,
    dynamic_manipulability,
    longest_reach,
    virtual_manipulator,
    workspace,
)
from spacearm.mechanics.law import Commands
from spacearm.mechanics.plant import Plant
from spacearm.mechanics.sensors import BasePosition, BaseVelocity, Encoder, ForceTorque, Gyro, Sensor, StarTracker
from spacearm.simulate.commands import CommandLog
from spacearm.simulate.law import Law, PythonLaw

__all__ = [
    "AttitudeSpline",
    "BasePosition",
    "BaseVelocity",
    "CommandLog",
    "Commands",
    "Encoder",
    "ForceTorque",
    "Gyro",
    "HandPath",
    "JointPlan",
    "Law",
    "Plant",
    "PulseWidth",
    "PulseWidthFrequency",
    "PythonLaw",
    "Sensor",
    "StarTracker",
    "Turning",
    "Workspace",
    "attitude_by_thrusters",
    "attitude_by_wheels",
    "base_disturbance",
    "computed_torque",
    "coordinated",
    "detumble",
    "dynamic_manipulability",
    "fastest",
    "fire",
    "follow_line",
    "hand_line",
    "hand_map",
    "hand_spline",
    "impedance",
    "joint_map",
    "joint_pid",
    "least_disturbance",
    "longest_reach",
    "point_to_point",
    "propellant",
    "quintic",
    "reach",
    "reaction_null_space",
    "reactionless",
    "resolved_acceleration",
    "resolved_rate",
    "stretched",
    "virtual_manipulator",
    "within_limits",
    "workspace",
]
