"""Emergency ejection: separating an arm from its satellite by springs on a rail, after Cai et al. (2023)."""

from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import BoxRegion, PlaneRegion, clearance
from spacearm.ejection.configuration import EjectionConstraints, EjectionGoal, best_configuration, configuration_map
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.montecarlo import EjectionUncertainty, monte_carlo
from spacearm.ejection.release import ReleaseState
from spacearm.ejection.rig import Rig, reduce_to_plane
from spacearm.ejection.run import Ejection, eject
from spacearm.ejection.separation_device import SeparationDevice, SeparationSpring

__all__ = [
    "BoxRegion",
    "Ejection",
    "EjectionConstraints",
    "EjectionGoal",
    "EjectionUncertainty",
    "Ejections",
    "PlaneRegion",
    "ReleaseState",
    "Rig",
    "SeparationDevice",
    "SeparationSpring",
    "best_configuration",
    "clearance",
    "configuration_map",
    "eject",
    "eject_batch",
    "equivalent_mass",
    "monte_carlo",
    "reduce_to_plane",
]
