"""Flexible joints: stiffness, damping, motor inertia and start offset from measured motion, with their uncertainty.

Data flow: a file (:func:`spacearm.measure.read_record`) or a reference simulation (:func:`simulate_reference`,
:func:`record_reference`) gives a record; :func:`identify_joints` makes a :class:`JointFit` of one or several, with a
:class:`MeasurementChain` (Eq. 21 of Wojtunik 2023); :func:`profile_likelihood`, :func:`sample_posterior`,
:func:`select_law`, :func:`frequency_response` and :func:`hold_out` assess it. ``fit.robot()`` is the robot with the
identified joint.
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
from spacearm.identify.joint.measured import prepare_test
from spacearm.identify.joint.measurement_chain import MeasurementChain
from spacearm.identify.joint.prediction import frequency_response, hold_out
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.reference_simulation import record_reference, simulate_reference
from spacearm.identify.joint.sampling import weight_early_samples
from spacearm.identify.joint.select import select_law

__all__ = [
    "DataWarning",
    "IdentifiabilityWarning",
    "JointFit",
    "JointLaw",
    "JointProblem",
    "MeasurementChain",
    "change_gear",
    "frequency_response",
    "hold_out",
    "identify_joints",
    "prepare_test",
    "profile_likelihood",
    "record_reference",
    "sample_posterior",
    "select_law",
    "simulate_reference",
    "weight_early_samples",
]
