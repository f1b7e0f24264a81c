"""Other programs: guidance processes, learners, files of other tools."""

from spacearm.connect.ccsds import read_aem, read_oem, write_aem, write_oem
from spacearm.connect.gltf import write_gltf
from spacearm.connect.guidance import GuidanceClient, GuidanceProcess, connect_guidance
from spacearm.connect.mcap_files import write_mcap
from spacearm.connect.trajectory import CircularOrbit, Trajectory, trajectories_of, write_trajectory_csv

__all__ = [
    "CircularOrbit",
    "GuidanceClient",
    "GuidanceProcess",
    "Trajectory",
    "connect_guidance",
    "read_aem",
    "read_oem",
    "trajectories_of",
    "write_aem",
    "write_gltf",
    "write_mcap",
    "write_oem",
    "write_trajectory_csv",
]
