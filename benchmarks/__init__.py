"""Timings of spacearm beside MuJoCo and Pinocchio: ``make bench``, or ``python benchmarks NAME...``."""
