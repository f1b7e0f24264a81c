"""Flexible joints: stiffness, damping, motor inertia and start offset from measured motion, with their uncertainty.

Data flow: sensors (:class:`MeasurementChain`, Eq. 21 of Wojtunik 2023) or a reference simulation
(:func:`simulate_reference`, :func:`observe`) give a :class:`JointTest`; :func:`identify_joints` makes a
:class:`JointFit` of one or several tests; :func:`profile_likelihood`, :func:`sample_posterior`, :func:`select_law`,
:func:`frequency_response` and :func:`hold_out` assess it. ``fit.robot()`` is the robot with the identified
joint.
"""

from spacearm.identify.joint.flexible_joints import change_gear
from spacearm.identify.joint.identify import (
    DataWarning,
    IdentifiabilityWarning,
    identify_joints,
    profile_likelihood,
    sample_posterior,
)
from spacearm.identify.joint.joint_fit import JointFit
from spacearm.identify.joint.laws import JointLaw
from spacearm.identify.joint.measured import JointTest, joint_test_from_record, joint_test_from_vision
from spacearm.identify.joint.measurement_chain import MeasurementChain
from spacearm.identify.joint.prediction import frequency_response, hold_out
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.reference_simulation import observe, simulate_reference
from spacearm.identify.joint.sampling import weight_early_samples
from spacearm.identify.joint.select import select_law

__all__ = [
    "DataWarning",
    "IdentifiabilityWarning",
    "JointFit",
    "JointLaw",
    "JointProblem",
    "JointTest",
    "MeasurementChain",
    "change_gear",
    "frequency_response",
    "hold_out",
    "identify_joints",
    "joint_test_from_record",
    "joint_test_from_vision",
    "observe",
    "profile_likelihood",
    "sample_posterior",
    "select_law",
    "simulate_reference",
    "weight_early_samples",
]
