"""3-D scenes of robots and runs: one self-contained page, a picture or a film of each."""

from spacearm.scene.build import scene_of
from spacearm.scene.scene import Scene

__all__ = [
    "Scene",
    "scene_of",
    "show",
]

#: ``spacearm.show(robot)``, ``spacearm.show(run)``: a notebook shows the scene, ``save`` keeps it.
show = scene_of
