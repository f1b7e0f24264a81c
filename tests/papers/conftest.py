"""The rigs of Cai et al. (2023)."""

from support.ejection_rigs import rig, runs, space

__all__ = ["rig", "runs", "space"]
