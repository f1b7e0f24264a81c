"""Closed loops: control laws for the phases of a run, plans for them to follow, and where an arm can work."""

from spacearm.control.attitude import attitude_by_thrusters, attitude_by_wheels, detumble, propellant, thruster_pulses
from spacearm.control.laws import (
    Turning,
    computed_torque,
    coordinated,
    impedance,
    joint_pid,
    reaction_null_space,
    resolved_acceleration,
    resolved_rate,
)
from spacearm.control.plans import (
    HandPath,
    JointPlan,
    follow_line,
    hand_line,
    point_to_point,
    quintic,
    stretched,
    trapezoid,
    within_limits,
)
from spacearm.control.workspace import (
    Workspace,
    base_disturbance,
    dynamic_manipulability,
    virtual_manipulator,
    workspace,
)
from spacearm.mechanics.law import Commands
from spacearm.mechanics.plant import Plant
from spacearm.simulate.law import CommandLog, Law, PythonLaw

__all__ = [
    "CommandLog",
    "Commands",
    "HandPath",
    "JointPlan",
    "Law",
    "Plant",
    "PythonLaw",
    "Turning",
    "Workspace",
    "attitude_by_thrusters",
    "attitude_by_wheels",
    "base_disturbance",
    "computed_torque",
    "coordinated",
    "detumble",
    "dynamic_manipulability",
    "follow_line",
    "hand_line",
    "impedance",
    "joint_pid",
    "point_to_point",
    "propellant",
    "quintic",
    "reaction_null_space",
    "resolved_acceleration",
    "resolved_rate",
    "stretched",
    "thruster_pulses",
    "trapezoid",
    "virtual_manipulator",
    "within_limits",
    "workspace",
]
