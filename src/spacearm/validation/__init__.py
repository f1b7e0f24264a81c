"""Validation: the prediction of a measured run, with its uncertainty, beside what was measured."""

from spacearm.validation.comparison import Comparison, compare_prediction

__all__ = ["Comparison", "compare_prediction"]
