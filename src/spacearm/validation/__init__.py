"""Validation: the prediction of a measured run, with its uncertainty, beside what was measured."""

__all__: list[str] = []
