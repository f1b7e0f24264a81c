"""Inertia identification: weighing the bodies of a space robot in orbit, and saying what cannot be weighed.

Start with :func:`base_parameters` (what any motion can tell), simulate or read :class:`Record` s, look at
:func:`identifiability`, then :func:`identify`. The docs' page has an example.
"""

from spacearm.identify.inertia.base_parameters import BaseParameters, base_parameters
from spacearm.identify.inertia.consistent import Consistent
from spacearm.identify.inertia.design import design
from spacearm.identify.inertia.equivalent import Recursive, SwarmSequence
from spacearm.identify.inertia.experiment import Experiment, Firing, Nodes, measure, one_joint
from spacearm.identify.inertia.identifiability import Identifiability, identifiability
from spacearm.identify.inertia.identify import Identification, identify
from spacearm.identify.inertia.load import Load, load_of
from spacearm.identify.inertia.montecarlo import monte_carlo
from spacearm.identify.inertia.online import TargetFilter, follow
from spacearm.identify.inertia.output_error import OutputErrorProblem
from spacearm.identify.inertia.prepare_record import prepare_record
from spacearm.identify.inertia.problem import InertiaProblem
from spacearm.identify.inertia.readings import Record
from spacearm.identify.inertia.record_files import read_record, write_record
from spacearm.identify.inertia.regression import LinearLeastSquares, TotalLeastSquares
from spacearm.identify.inertia.standard_parameters import Prior, standard_parameters
from spacearm.identify.inertia.validate import compare_models, hold_out
from spacearm.identify.inertia.writeback import identified_robot, save_identified

__all__ = [
    "BaseParameters",
    "Consistent",
    "Experiment",
    "Firing",
    "Identifiability",
    "Identification",
    "InertiaProblem",
    "LinearLeastSquares",
    "Load",
    "Nodes",
    "OutputErrorProblem",
    "Prior",
    "Record",
    "Recursive",
    "SwarmSequence",
    "TargetFilter",
    "TotalLeastSquares",
    "base_parameters",
    "compare_models",
    "design",
    "follow",
    "hold_out",
    "identifiability",
    "identified_robot",
    "identify",
    "load_of",
    "measure",
    "monte_carlo",
    "one_joint",
    "prepare_record",
    "read_record",
    "save_identified",
    "standard_parameters",
    "write_record",
]
