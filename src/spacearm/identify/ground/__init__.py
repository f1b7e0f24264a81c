"""Identification of an arm on a held base with gravity: inertias, friction, rotors and torque sensors from torques.

Start with :func:`held_base_parameters` (what torques can show) and :func:`identify_held_arm`;
:func:`flight_only_parameters` lists what is left for the orbit.
"""

from spacearm.identify.ground.held_base import flight_only_parameters, held_base_parameters
from spacearm.identify.ground.identify import HeldArmIdentification, identify_held_arm
from spacearm.identify.ground.simulated import simulate_record

__all__ = [
    "HeldArmIdentification",
    "flight_only_parameters",
    "held_base_parameters",
    "identify_held_arm",
    "simulate_record",
]
