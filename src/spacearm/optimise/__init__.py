"""Estimation and search: one :class:`Problem` goes in, one :class:`Estimate` with its uncertainty comes out.

Estimators (least squares, Nelder-Mead, particle swarm, several starts), searches of many points at once within bounds
(:func:`minimise_boxed`, :func:`evolve`) and for a Pareto front (:func:`pareto_search`), what an estimate is worth
(:func:`diagnose`), and uncertainty beyond standard deviations (:func:`profile`, :func:`sample`). Nothing here knows
robots.
"""

from spacearm.optimise.boxed import Searches, minimise_boxed
from spacearm.optimise.diagnose import ChiSquare, Diagnosis, Whiteness, diagnose, whiteness
from spacearm.optimise.estimate import Estimate, Estimator, Reason
from spacearm.optimise.evolution import evolve
from spacearm.optimise.information import Direction, Information, covariance_at
from spacearm.optimise.least_squares import LeastSquares
from spacearm.optimise.multistart import MultiStart
from spacearm.optimise.nelder_mead import NelderMead
from spacearm.optimise.pareto import ParetoFront, crowding, not_dominated, pareto_search
from spacearm.optimise.posterior import Posterior, Profile, profile, sample
from spacearm.optimise.problem import Block, Parameter, Problem
from spacearm.optimise.swarm import ParticleSwarm

__all__ = [
    "Block",
    "ChiSquare",
    "Diagnosis",
    "Direction",
    "Estimate",
    "Estimator",
    "Information",
    "LeastSquares",
    "MultiStart",
    "NelderMead",
    "Parameter",
    "ParetoFront",
    "ParticleSwarm",
    "Posterior",
    "Problem",
    "Profile",
    "Reason",
    "Searches",
    "Whiteness",
    "covariance_at",
    "crowding",
    "diagnose",
    "evolve",
    "minimise_boxed",
    "not_dominated",
    "pareto_search",
    "profile",
    "sample",
    "whiteness",
]
