"""Estimation and search: one :class:`Problem` goes in, one :class:`Estimate` with its uncertainty comes out.

Estimators (least squares, Nelder-Mead, particle swarm, several starts), searches of many points at once within bounds
(:mod:`~spacearm.optimise.box_constrained`, :mod:`~spacearm.optimise.evolution`) and for a Pareto front
(:mod:`~spacearm.optimise.pareto`), what an estimate is worth (:func:`diagnose`), and uncertainty beyond standard
deviations (:func:`profile`, :func:`sample`). Nothing here knows robots.
"""

from spacearm.optimise.diagnose import diagnose, whiteness
from spacearm.optimise.estimate import Estimate
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.multistart import MultiStart
from spacearm.optimise.nelder_mead import NelderMead
from spacearm.optimise.posterior import profile, sample
from spacearm.optimise.problem import Block, Parameter, Problem

__all__ = [
    "Block",
    "Estimate",
    "LeastSquares",
    "MultiStart",
    "NelderMead",
    "Parameter",
    "Problem",
    "diagnose",
    "profile",
    "sample",
    "whiteness",
]
