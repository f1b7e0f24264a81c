"""Validation: the prediction of a measured run, with its uncertainty, beside what was measured."""

from spacearm.validation.comparison import ChannelComparison, Comparison, compare_prediction
from spacearm.validation.quantities import read_quantity

__all__ = ["ChannelComparison", "Comparison", "compare_prediction", "read_quantity"]
