"""Flexible joints: stiffness, damping, motor inertia and start offset from measured motion, with their uncertainty.

The way of the data: sensors (:class:`Chain`, Eq. 21 of Wojtunik 2023) or a twin experiment (:func:`twin`,
:func:`observe`) give a :class:`JointTest`; :func:`identify_joints` makes a :class:`JointFit` of one or several tests;
:func:`profile_likelihood`, :func:`sample_posterior`, :func:`select_law`, :func:`frequency_response` and
:func:`hold_out` say what it is worth. ``fit.robot()`` is the robot with the identified joint.
"""

from spacearm.identify.joint.flexible_joints import (
    FlexibleJoint,
    Linear,
    flexible_joints,
    linearise,
    with_gear,
    with_values,
)
from spacearm.identify.joint.forward import Accuracy, Forward, Response, Setup
from spacearm.identify.joint.identify import (
    DataWarning,
    IdentifiabilityWarning,
    JointFit,
    identify_joints,
    profile_likelihood,
    sample_posterior,
)
from spacearm.identify.joint.laws import Law
from spacearm.identify.joint.measured import JointTest, joint_test_from_measurements, joint_test_from_vision
from spacearm.identify.joint.measurement_chain import Chain, Reconstruction, SensorNoise, planar_pose
from spacearm.identify.joint.paths import smooth_path
from spacearm.identify.joint.prediction import FrequencyResponse, HoldOut, frequency_response, hold_out
from spacearm.identify.joint.problem import JointProblem
from spacearm.identify.joint.sampling import early
from spacearm.identify.joint.select import Candidate, Selection, select_law
from spacearm.identify.joint.suspects import Suspect
from spacearm.identify.joint.twin import Truth, observe, twin

__all__ = [
    "Accuracy",
    "Candidate",
    "Chain",
    "DataWarning",
    "FlexibleJoint",
    "Forward",
    "FrequencyResponse",
    "HoldOut",
    "IdentifiabilityWarning",
    "JointFit",
    "JointProblem",
    "JointTest",
    "Law",
    "Linear",
    "Reconstruction",
    "Response",
    "Selection",
    "SensorNoise",
    "Setup",
    "Suspect",
    "Truth",
    "early",
    "flexible_joints",
    "frequency_response",
    "hold_out",
    "identify_joints",
    "joint_test_from_measurements",
    "joint_test_from_vision",
    "linearise",
    "observe",
    "planar_pose",
    "profile_likelihood",
    "sample_posterior",
    "select_law",
    "smooth_path",
    "twin",
    "with_gear",
    "with_values",
]
