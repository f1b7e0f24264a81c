"""URDF: reading (fixed joints fused) and writing.

URDF's link frame is the frame of the joint that carries the link, as in spacearm, so no frame changes. What spacearm
makes of each element, and what URDF cannot say, is listed in ``docs/urdf-and-mjcf.md``.
"""

from spacearm.model.urdf_read import MAX_LINKS, read_urdf, robot_from_urdf
from spacearm.model.urdf_write import urdf_text

__all__ = ["MAX_LINKS", "read_urdf", "robot_from_urdf", "urdf_text"]
