"""Estimation and search: one :class:`Problem` goes in, one :class:`Estimate` with its uncertainty comes out.

Estimators (least squares, Nelder-Mead, particle swarm, several starts), searches of many points at once within bounds
(:func:`minimise_in_box`, :func:`evolve`) and for a Pareto front (:func:`pareto_search`), what an estimate is worth
(:func:`diagnose`), and uncertainty beyond standard deviations (:func:`profile`, :func:`sample`). Nothing here knows
robots.
"""

from spacearm.optimise.diagnose import Diagnosis, diagnose, whiteness
from spacearm.optimise.estimate import Estimate, Estimator
from spacearm.optimise.evolution import evolve
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.multistart import MultiStart
from spacearm.optimise.nelder_mead import NelderMead
from spacearm.optimise.pareto import ParetoFront, pareto_search
from spacearm.optimise.posterior import Posterior, Profile, profile, sample
from spacearm.optimise.problem import Block, Parameter, Problem

__all__ = [
    "Block",
    "Diagnosis",
    "Estimate",
    "Estimator",
    "LeastSquares",
    "MultiStart",
    "NelderMead",
    "Parameter",
    "ParetoFront",
    "Posterior",
    "Problem",
    "Profile",
    "diagnose",
    "evolve",
    "pareto_search",
    "profile",
    "sample",
    "whiteness",
]
