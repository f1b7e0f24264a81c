"""Identification: parameters of a robot from measurements, with their uncertainty.

The shared pieces are measured data from files (:mod:`spacearm.identify.data`) and estimators behind one interface
(:mod:`spacearm.identify.estimate`). The studies stand in their own rooms: :mod:`spacearm.identify.inertia` weighs the
bodies of a robot in orbit, :mod:`spacearm.identify.joint` finds the laws of a flexible joint.
"""

from spacearm.identify.data import Column, Measurements, read_measurements
from spacearm.identify.estimate import Estimate, Estimator, Parameter, Problem, Reason, covariance_at
from spacearm.identify.least_squares import LeastSquares
from spacearm.identify.multistart import MultiStart
from spacearm.identify.nelder_mead import NelderMead
from spacearm.identify.swarm import ParticleSwarm

__all__ = [
    "Column",
    "Estimate",
    "Estimator",
    "LeastSquares",
    "Measurements",
    "MultiStart",
    "NelderMead",
    "Parameter",
    "ParticleSwarm",
    "Problem",
    "Reason",
    "covariance_at",
    "read_measurements",
]
