"""Comparisons of runs: the same run with the dynamics of MuJoCo, and the difference of two runs."""

__all__: list[str] = []
