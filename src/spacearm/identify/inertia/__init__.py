"""Inertia identification: weighing the bodies of a space robot in orbit, and saying what cannot be weighed.

Start with :func:`base_parameters` (what any motion can tell), simulate or read :class:`MotionRecord` s, look at
:func:`identifiability`, then :func:`identify`. The docs' page has an example.
"""

from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.consistent import ConsistentEstimator
from spacearm.identify.inertia.design import design
from spacearm.identify.inertia.experiment import Experiment, SplineNodes, ThrusterFiring, measure, one_joint
from spacearm.identify.inertia.identifiability import identifiability
from spacearm.identify.inertia.identify import Identification, identify
from spacearm.identify.inertia.load import extract_load
from spacearm.identify.inertia.montecarlo import monte_carlo
from spacearm.identify.inertia.online import TargetFilter, track_target
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.record_files import read_record, write_record
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalLeastSquares
from spacearm.identify.inertia.standard_parameters import Prior, standard_parameters
from spacearm.identify.inertia.validate import compare_models, predict_held_out

__all__ = [
    "ConsistentEstimator",
    "Experiment",
    "Identification",
    "InertiaProblem",
    "LinearLeastSquares",
    "MotionRecord",
    "OutputErrorProblem",
    "Prior",
    "SplineNodes",
    "TargetFilter",
    "ThrusterFiring",
    "TotalLeastSquares",
    "base_parameters",
    "compare_models",
    "design",
    "extract_load",
    "identifiability",
    "identify",
    "measure",
    "monte_carlo",
    "one_joint",
    "predict_held_out",
    "read_record",
    "standard_parameters",
    "track_target",
    "write_record",
]
