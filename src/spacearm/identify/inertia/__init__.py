"""Inertia identification: weighing the bodies of a space robot in orbit, and saying what cannot be weighed.

Start with :func:`base_parameters` (what any motion can tell), simulate or read :class:`Record` s, look at
:func:`identifiability`, then :func:`identify`. The docs' page has an example.
"""

from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.consistent import Consistent, log_cholesky, possible
from spacearm.identify.inertia.design import Limits, Plan, design, evaluate
from spacearm.identify.inertia.equations import Equations
from spacearm.identify.inertia.equivalent import (
    Recursive,
    SwarmSequence,
    equivalent_robot,
    lumped,
    recursion,
    single_body_problem,
    two_body_problem,
)
from spacearm.identify.inertia.experiment import Experiment, Firing, Nodes, measure, one_joint
from spacearm.identify.inertia.identifiability import Identifiability, identifiability
from spacearm.identify.inertia.identify import Identification, identify
from spacearm.identify.inertia.load import Load, load_of
from spacearm.identify.inertia.montecarlo import MonteCarlo, monte_carlo
from spacearm.identify.inertia.online import TargetFilter, TargetState, follow
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.output_error_fit import OutputErrorFit, fit_output_error
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_files import read_record, write_record
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalLeastSquares, fit_total
from spacearm.identify.inertia.sensors import Sensors
from spacearm.identify.inertia.standard_parameters import Number, Prior, Source, StandardParameters, standard_parameters
from spacearm.identify.inertia.validate import (
    Comparison,
    Torque,
    compare_models,
    hold_out,
    hold_out_record,
    null_twin,
    sensitivity,
)
from spacearm.identify.inertia.writeback import identified_robot, provenance, save_identified

__all__ = [
    "BaseParameters",
    "Comparison",
    "Consistent",
    "Equations",
    "Experiment",
    "Firing",
    "Identifiability",
    "Identification",
    "InertiaProblem",
    "Limits",
    "LinearLeastSquares",
    "Load",
    "MonteCarlo",
    "Nodes",
    "Number",
    "OutputErrorFit",
    "OutputErrorProblem",
    "Plan",
    "Prior",
    "Record",
    "Recursive",
    "Sensors",
    "Source",
    "StandardParameters",
    "SwarmSequence",
    "TargetFilter",
    "TargetState",
    "Torque",
    "TotalLeastSquares",
    "base_parameters",
    "compare_models",
    "design",
    "equivalent_robot",
    "evaluate",
    "fit_output_error",
    "fit_total",
    "follow",
    "hold_out",
    "hold_out_record",
    "identifiability",
    "identified_robot",
    "identify",
    "load_of",
    "log_cholesky",
    "lumped",
    "measure",
    "monte_carlo",
    "null_twin",
    "one_joint",
    "possible",
    "provenance",
    "read_record",
    "recursion",
    "save_identified",
    "sensitivity",
    "single_body_problem",
    "standard_parameters",
    "two_body_problem",
    "write_record",
]
