"""Triangle meshes of visuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spacearm.typing import Array


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles: vertices (V, 3) in m, faces (F, 3) of their numbers."""

    vertices: Array
    faces: npt.NDArray[np.int64]

    @property
    def low(self) -> Array:
        return np.asarray(self.vertices.min(axis=0))

    @property
    def high(self) -> Array:
        return np.asarray(self.vertices.max(axis=0))

    @property
    def quantised(self) -> npt.NDArray[np.int64]:
        """Vertices in steps of 1/65535 of the extent."""
        span = np.where(self.high > self.low, self.high - self.low, 1.0)
        return np.rint((self.vertices - self.low) / span * 65535).astype(np.int64)
