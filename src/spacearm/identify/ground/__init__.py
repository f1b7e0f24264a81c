"""Identification of an arm on a held base with gravity: inertias, friction, rotors and torque sensors from torques.

Start with :func:`held_base_parameters` (what torques can show) and :func:`identify_held_arm`;
:func:`flight_only_parameters` lists what is left for the orbit.
"""

from spacearm.identify.ground.held_base import flight_only_parameters, held_base_parameters
from spacearm.identify.ground.identify import HeldArmIdentification, TorquePrediction, identify_held_arm
from spacearm.identify.ground.torque_model import TorqueModel
from spacearm.identify.ground.transmission import convert_motors

__all__ = [
    "HeldArmIdentification",
    "TorqueModel",
    "TorquePrediction",
    "convert_motors",
    "flight_only_parameters",
    "held_base_parameters",
    "identify_held_arm",
]
