"""Shapes as triangles with normals, for pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from spacearm.model import Visual
from spacearm.scene.meshes import Mesh
from spacearm.typing import Array

#: Corners around a cylinder, steps from pole to equator of a ball.
AROUND, STEPS = 28, 7
#: Rows that are turned about z: radius, height, the normal's radius and height.
Row = tuple[float, float, float, float]


def triangles(visual: Visual, mesh: Mesh | None = None) -> tuple[Array, Array]:
    """Corners and normals (F, 3, 3) in the body's frame."""
    corners, normals = _shape(visual, mesh)
    rotation = visual.placement.rotation
    return corners @ rotation.T + visual.placement.translation, normals @ rotation.T


def _shape(visual: Visual, mesh: Mesh | None) -> tuple[Array, Array]:
    size = visual.size
    if visual.shape == "mesh":
        assert mesh is not None
        return flat_triangles((mesh.vertices * size)[mesh.faces])
    if visual.shape == "box":
        x, y = np.meshgrid([-0.5, 0.5], [-0.5, 0.5])
        corners = np.stack([x.ravel(), y.ravel(), np.full(4, 0.5)], axis=1)[[[0, 1, 3], [0, 3, 2]]]
        sides = [np.roll(corners * sign, k, axis=2) for k in range(3) for sign in (1.0, -1.0)]
        return flat_triangles(np.concatenate(sides) * size)
    if visual.shape == "cylinder":
        radius, half = size[0], size[1] / 2.0
        return revolve_rows(
            [(0.0, -half, 0.0, -1.0), (radius, -half, 0.0, -1.0)],
            [(radius, -half, 1.0, 0.0), (radius, half, 1.0, 0.0)],
            [(radius, half, 0.0, 1.0), (0.0, half, 0.0, 1.0)],
        )
    if visual.shape == "ellipsoid":
        corners, normals = revolve_rows(_ball(1.0, 0.0))
        # Normals of an ellipsoid are those of the ball by the inverse half axes: stretched like points they would lean.
        normals = normals / np.maximum(size, 1e-9)
        return corners * size, normals / np.linalg.norm(normals, axis=2, keepdims=True)
    return revolve_rows(_ball(size[0], size[1] if visual.shape == "capsule" else 0.0))


def flat_triangles(corners: Array) -> tuple[Array, Array]:
    """Triangles that each have one normal."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    return corners, np.repeat(normal[:, None], 3, axis=1)


def _ball(radius: float, length: float) -> list[Row]:
    """A capsule from below."""
    angles = np.linspace(0.0, np.pi / 2, STEPS + 1)
    rows = [(-angle, -length / 2) for angle in angles[::-1]] + [(angle, length / 2) for angle in angles]
    return [(radius * np.cos(a), radius * np.sin(a) + shift, np.cos(a), np.sin(a)) for a, shift in rows]


def revolve_rows(*strips: Sequence[Row]) -> tuple[Array, Array]:
    """Strips of rows turned about z."""
    angle = 2.0 * np.pi * np.arange(AROUND + 1) / AROUND
    corners: list[Array] = []
    normals: list[Array] = []
    for strip in strips:
        rows = np.array(strip, dtype=np.float64)
        around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        rings, directions = (
            [np.column_stack([r * around, np.full(len(angle), z)]) for r, z in part]
            for part in (rows[:, :2], rows[:, 2:])
        )
        for found, ring in ((corners, rings), (normals, directions)):
            for a, b in pairwise(ring):
                # Two triangles for each facet, wound alike, so that normals and corners correspond.
                found.append(np.stack([a[:-1], a[1:], b[1:]], axis=1))
                found.append(np.stack([a[:-1], b[1:], b[:-1]], axis=1))
    return np.concatenate(corners), np.concatenate(normals)
