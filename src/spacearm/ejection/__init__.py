"""Emergency ejection: throwing an arm off its satellite by springs on a rail, after Cai et al. (2023)."""

from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import Box, Plane, clearance
from spacearm.ejection.compare import compare
from spacearm.ejection.configuration import BestConfiguration, Constraints, Goal, best_configuration, configuration_map
from spacearm.ejection.mass import equivalent_mass
from spacearm.ejection.montecarlo import Uncertainty, monte_carlo
from spacearm.ejection.release import Release
from spacearm.ejection.rig import Rig, planar
from spacearm.ejection.run import Ejection, eject
from spacearm.ejection.segmented import Segmented, segmented
from spacearm.ejection.separation_device import Device, SeparationSpring

__all__ = [
    "BestConfiguration",
    "Box",
    "Constraints",
    "Device",
    "Ejection",
    "Ejections",
    "Goal",
    "Plane",
    "Release",
    "Rig",
    "Segmented",
    "SeparationSpring",
    "Uncertainty",
    "best_configuration",
    "clearance",
    "compare",
    "configuration_map",
    "eject",
    "eject_batch",
    "equivalent_mass",
    "monte_carlo",
    "planar",
    "segmented",
]
