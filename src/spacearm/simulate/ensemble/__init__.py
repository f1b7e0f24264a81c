"""Ensembles: the same phases from many starts, vectorised roll-outs and roll-outs on a GPU."""

__all__: list[str] = []
