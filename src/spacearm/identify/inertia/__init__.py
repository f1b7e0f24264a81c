"""Inertia identification: the bodies' inertias of a space robot in orbit, and which of them no data determine.

Start with :func:`base_parameters` (what any motion can tell). :func:`identify` takes records: of files
(:func:`read_record`), or of runs (:func:`spacearm.measure.record_run`). The docs' page has an example.
"""

from spacearm.identify.inertia.base_parameters import base_parameters
from spacearm.identify.inertia.consistent import ConsistentEstimator
from spacearm.identify.inertia.design import design
from spacearm.identify.inertia.experiments import command_phases, run_experiment, start_state
from spacearm.identify.inertia.identifiability import identifiability
from spacearm.identify.inertia.identify import Identification, identify
from spacearm.identify.inertia.load import extract_load
from spacearm.identify.inertia.montecarlo import monte_carlo
from spacearm.identify.inertia.online import TargetFilter
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.prepare_record import prepare_record
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import MotionRecord
from spacearm.identify.inertia.record_files import read_record, write_record
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalLeastSquares
from spacearm.identify.inertia.standard_parameters import Prior, standard_parameters
from spacearm.identify.inertia.validate import compare_models, predict_held_out

__all__ = [
    "ConsistentEstimator",
    "Identification",
    "InertiaProblem",
    "LinearLeastSquares",
    "MotionRecord",
    "OutputErrorProblem",
    "Prior",
    "TargetFilter",
    "TotalLeastSquares",
    "base_parameters",
    "command_phases",
    "compare_models",
    "design",
    "extract_load",
    "identifiability",
    "identify",
    "monte_carlo",
    "predict_held_out",
    "prepare_record",
    "read_record",
    "run_experiment",
    "standard_parameters",
    "start_state",
    "write_record",
]
