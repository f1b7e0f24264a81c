"""Closed loops: control laws for the phases of a run."""

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
from spacearm.mechanics.law import Commands
from spacearm.mechanics.plant import Plant
from spacearm.simulate.law import CommandLog, Law, PythonLaw

__all__ = [
    "CommandLog",
    "Commands",
    "Law",
    "Plant",
    "PythonLaw",
    "Turning",
    "attitude_by_thrusters",
    "attitude_by_wheels",
    "computed_torque",
    "coordinated",
    "detumble",
    "impedance",
    "joint_pid",
    "propellant",
    "reaction_null_space",
    "resolved_acceleration",
    "resolved_rate",
    "thruster_pulses",
]
