"""Flexible joints: stiffness, damping, motor inertia and start offset from measured motion, with their uncertainty.

The way of the data: sensors (:class:`Chain`, Eq. 21 of Wojtunik 2023) or a twin experiment (:func:`twin`,
:func:`observe`) give a :class:`JointTest`; :func:`identify_joints` makes a :class:`JointFit` of one or several tests;
:func:`profile_likelihood`, :func:`sample_posterior`, :func:`select_law`, :func:`frequency_response` and
:func:`hold_out` say what it is worth. ``fit.robot()`` is the robot with the identified joint.
"""

from spacearm.identify.joint.flexible_joints import with_gear
from spacearm.identify.joint.identify import (
    DataWarning,
    IdentifiabilityWarning,
    JointFit,
    identify_joints,
    profile_likelihood,
    sample_posterior,
)
from spacearm.identify.joint.laws import Law
from spacearm.identify.joint.measured import JointTest, joint_test_from_record, joint_test_from_vision
from spacearm.identify.joint.measurement_chain import Chain
from spacearm.identify.joint.prediction import FrequencyResponse, frequency_response, hold_out
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.sampling import early
from spacearm.identify.joint.select import Selection, select_law
from spacearm.identify.joint.twin import Truth, observe, twin

__all__ = [
    "Chain",
    "DataWarning",
    "FrequencyResponse",
    "IdentifiabilityWarning",
    "JointFit",
    "JointProblem",
    "JointTest",
    "Law",
    "Selection",
    "Truth",
    "early",
    "frequency_response",
    "hold_out",
    "identify_joints",
    "joint_test_from_record",
    "joint_test_from_vision",
    "observe",
    "profile_likelihood",
    "sample_posterior",
    "select_law",
    "twin",
    "with_gear",
]
