"""Emergency ejection: throwing an arm off its satellite by springs on a rail, after Cai et al. (2023)."""

from spacearm.ejection.batch import Ejections, eject_batch
from spacearm.ejection.clearance import Box, Plane, clearance, skeleton
from spacearm.ejection.compare import Comparison, compare
from spacearm.ejection.configuration import BestConfiguration, Constraints, Goal, best_configuration, configuration_map
from spacearm.ejection.mass import equivalent_mass, joint_free_bound
from spacearm.ejection.montecarlo import Sensitivity, Uncertainty, monte_carlo
from spacearm.ejection.release import Release
from spacearm.ejection.rig import Rig, planar
from spacearm.ejection.run import Clearance, Ejection, LimitReached, eject
from spacearm.ejection.segmented import Segmented, segmented
from spacearm.ejection.separation_device import Device, SeparationSpring
from spacearm.ejection.verify import check_in_mujoco, friction_check, friction_laws

__all__ = [
    "BestConfiguration",
    "Box",
    "Clearance",
    "Comparison",
    "Constraints",
    "Device",
    "Ejection",
    "Ejections",
    "Goal",
    "LimitReached",
    "Plane",
    "Release",
    "Rig",
    "Segmented",
    "Sensitivity",
    "SeparationSpring",
    "Uncertainty",
    "best_configuration",
    "check_in_mujoco",
    "clearance",
    "compare",
    "configuration_map",
    "eject",
    "eject_batch",
    "equivalent_mass",
    "friction_check",
    "friction_laws",
    "joint_free_bound",
    "monte_carlo",
    "planar",
    "segmented",
    "skeleton",
]
