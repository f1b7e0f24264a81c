"""Pictures of a scene without a browser: triangles through a depth buffer, each pixel the mean of four.

A small software rasteriser, for reports on machines without a display. Triangles are projected by a pinhole camera and
filled by barycentric coordinates; the depth buffer holds one over the distance, which is linear in the picture where
the distance is not, so that plain interpolation is exact. Shades are computed at corners (Gouraud) in linear light and
interpolated. Twice the resolution, averaged, smooths the edges.

World axes, m; the camera's axes are right, up, toward the eye. Images are (height, width, 3) bytes. No shadows, no
transparency (ghosts are left out), no clipping: a triangle that reaches behind the eye is left out.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spacearm.engine.loops import compile_loop
from spacearm.scene.scene import SceneBody, SceneForce, SceneSystem, SceneView
from spacearm.scene.solids import revolve_rows, triangles
from spacearm.typing import Array

Image = npt.NDArray[np.uint8]
#: Half the angle that is seen, from top to bottom, rad; as in the viewer.
HALF_ANGLE = 0.3
_GROUND = {False: (243, 245, 247), True: (20, 24, 29)}
_GRID = {False: (205, 210, 216), True: (52, 60, 68)}
#: Where the light comes from: right, up, toward the eye.
_LIGHT = np.array([0.45, 0.75, 0.75]) / np.linalg.norm([0.45, 0.75, 0.75])
_ARROW = revolve_rows(
    [(0.0, 0.0, 0.0, -1.0), (0.035, 0.0, 0.0, -1.0)],
    [(0.035, 0.0, 1.0, 0.0), (0.035, 0.75, 1.0, 0.0)],
    [(0.035, 0.75, 0.0, -1.0), (0.1, 0.75, 0.0, -1.0)],
    [(0.1, 0.75, 0.93, 0.37), (0.0, 1.0, 0.93, 0.37)],
)
_PLUME = revolve_rows([(0.0, 0.0, 0.98, -0.2), (0.22, 1.0, 0.98, -0.2)], [(0.22, 1.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0)])
_FORCE, _MOMENT, _FIRE, _GUIDE = (200, 45, 35), (140, 50, 180), (255, 150, 50), (150, 150, 150)


@dataclass(frozen=True)
class Viewpoint:
    """From where a picture is taken: azimuth and height of the eye, rad; None for a good one."""

    azimuth: float | None = None
    height: float | None = None
    dark: bool = False


class Camera:
    """Takes pictures of one view. Shapes are taken apart once."""

    def __init__(self, view: SceneView, look: Viewpoint | None = None) -> None:
        self.view, self.look = view, look or Viewpoint()
        self.bodies = [[self._solid(body) for body in actor.bodies] for actor in view.actors]

    def _solid(self, body: SceneBody) -> tuple[Array, Array, Array]:
        """Corners, normals and colours of a body's triangles."""
        parts = [
            (triangles(each.visual, self.view.meshes[each.mesh] if each.mesh >= 0 else None), each.colour)
            for each in body.shapes
        ]
        if not parts:
            return np.zeros((0, 3, 3)), np.zeros((0, 3, 3)), np.zeros((0, 3))
        colours = [np.tile(_rgb(c), (len(s[0]), 1)) for s, c in parts]
        return (
            np.concatenate([shape[0] for shape, _ in parts]),
            np.concatenate([shape[1] for shape, _ in parts]),
            np.concatenate(colours).astype(np.float64),
        )

    @cached_property
    def _sphere_bounds(self) -> list[tuple[Array, Array]]:
        """Of each actor the middles (bodies, 3) of its bodies and their radii."""
        found = []
        for bodies in self.bodies:
            points = [corners.reshape(-1, 3) if len(corners) else np.zeros((1, 3)) for corners, _, _ in bodies]
            middles = np.array([0.5 * (p.min(axis=0) + p.max(axis=0)) for p in points])
            radii = [np.linalg.norm(p - m, axis=1).max() for p, m in zip(points, middles, strict=True)]
            found.append((middles, np.array(radii)))
        return found

    @cached_property
    def _extent(self) -> tuple[Array, float, float, float, bool]:
        """Middle and radius of all, radius of the largest system by itself, lowest height, whether it is flat."""
        spheres, own = [], 0.0
        for actor, (middles, radii) in zip(self.view.actors, self._sphere_bounds, strict=True):
            # Some 60 instants bound the motion well enough for a camera; a run may have a hundred thousand.
            poses = actor.poses[:: max(1, len(actor.times) // 60)]
            places = poses[..., :3] + _rotate_vectors(poses[..., 3:], middles)
            centre = _mass_centre(actor, poses)
            own = max(own, float((np.linalg.norm(places - centre[:, None], axis=2) + radii).max()))
            spheres.append(np.concatenate([places.reshape(-1, 3), np.tile(radii, len(poses))[:, None]], axis=1))
        every = np.concatenate(spheres)
        low, high = (every[:, :3] - every[:, 3:]).min(axis=0), (every[:, :3] + every[:, 3:]).max(axis=0)
        middle = 0.5 * (low + high)
        whole = float((np.linalg.norm(every[:, :3] - middle, axis=1) + every[:, 3]).max())
        origins = np.concatenate([actor.poses[..., :3].reshape(-1, 3) for actor in self.view.actors])
        spread = np.ptp(origins, axis=0)
        # Flat: origins stay in a horizontal plane to 2 % of their spread. Such motions are seen best from above.
        return middle, whole, own or 1.0, float(low[2]), bool(spread[2] < 0.02 * spread[:2].max())

    def picture(self, time: float | None = None, width: int = 800, height: int = 600) -> Image:
        """The picture (height, width, 3) at a time, s; at the middle of the run by default."""
        start, end = self.view.span
        time = 0.5 * (start + end) if time is None else min(max(time, start), end)
        live = [
            (actor, bodies)
            for actor, bodies in zip(self.view.actors, self.bodies, strict=True)
            if actor.times[0] <= time <= actor.times[-1]
            and (time < actor.times[-1] or actor.times[-1] >= end)
            # Nothing is translucent here, and an opaque ghost would hide what it is compared with.
            and not actor.ghost
        ]
        middle, whole, own, low, flat = self._extent
        leader = next((actor for actor, _ in live if actor.system == 0), None)
        # Systems that fly far apart would be dots: the camera then follows the first one.
        if whole > 1.8 * own and leader is not None:
            middle, whole = _mass_centre(leader, _poses_at(leader, time)[None])[0], 1.1 * own
        fine = _Raster(self.look, middle, whole, width, height, flat)
        self._grid(fine, own, low)
        for actor, bodies in live:
            poses = _poses_at(actor, time)
            for pose, (corners, normals, colours) in zip(poses, bodies, strict=True):
                fine.draw_triangles(_transform_points(pose, corners), _rotate_vectors(pose[3:], normals), colours)
            for push in actor.pushes:
                self._draw_force(fine, push, actor, poses, time, own)
        for actor, _ in live:
            self._paths(fine, actor)
        return fine.image()

    def _grid(self, fine: _Raster, own: float, low: float) -> None:
        step = own / 3.0
        # The largest of 1, 2, 5 times a power of ten that is no longer than a third of the system: sizes can be read
        # off.
        cell = 10.0 ** math.floor(math.log10(step))
        cell *= max(k for k in (1.0, 2.0, 5.0) if k * cell <= step or k == 1.0)
        lines = np.arange(-14, 15) * cell
        # Lines keep to multiples of a cell, so that the grid stands still when the camera follows a system.
        x, y = np.round(fine.middle[:2] / cell) * cell
        reach, z = 14 * cell, low - 0.02 * own
        ends = [[(x + k, y - reach, z), (x + k, y + reach, z)] for k in lines]
        ends += [[(x - reach, y + k, z), (x + reach, y + k, z)] for k in lines]
        for pair in np.array(ends):
            # In short segments: each can fade by its own distance, and one that is behind the eye takes no others with
            # it.
            points = pair[0] + np.linspace(0.0, 1.0, 57)[:, None] * (pair[1] - pair[0])
            fine.draw_line(points, _GRID[self.look.dark], 1.0, np.linalg.norm(points[:, :2] - [x, y], axis=1) / reach)

    def _draw_force(
        self, fine: _Raster, push: SceneForce, actor: SceneSystem, poses: Array, time: float, own: float
    ) -> None:
        value = np.array([np.interp(time, actor.times, column) for column in push.values.T])
        # Thrusters have levels from 0 to 1, forces N, moments N m: each kind has its own scale of lengths.
        size, pose = float(np.linalg.norm(value)), poses[push.body]
        point = _transform_points(pose, push.at[None])[0]
        if push.kind == "thruster":
            if size > 1e-3:
                direction = _rotate_vectors(pose[3:], -push.direction)
                fine.draw_shape(_PLUME, point, direction, 0.3 * own * (0.3 + 0.7 * size), _FIRE)
            return
        share = size / self._peaks[push.kind]
        if share > 1e-3:
            length = 0.55 * own * (0.25 + 0.75 * share)
            # A force's arrow ends where it acts, and is not hidden in the body; a moment's begins there.
            tail = point - value / size * length if push.kind == "force" else point
            fine.draw_shape(_ARROW, tail, value / size, length, _FORCE if push.kind == "force" else _MOMENT)

    @cached_property
    def _peaks(self) -> dict[str, float]:
        return self.view.peaks

    def _paths(self, fine: _Raster, actor: SceneSystem) -> None:
        for _, k, point in actor.paths:
            points = actor.poses[:, k, :3] + _rotate_vectors(actor.poses[:, k, 3:], point)
            fine.draw_line(points, _rgb(self.view.systems[actor.bodies[k].system][1]), 3.0)
        for _, guide in actor.guides:
            fine.draw_line(guide, _GUIDE, 1.5)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


class _Raster:
    """The picture in twice its resolution."""

    def __init__(self, look: Viewpoint, middle: Array, radius: float, width: int, height: int, flat: bool) -> None:
        azimuth = look.azimuth if look.azimuth is not None else -1.57 if flat else -0.95
        rise = look.height if look.height is not None else 1.2 if flat else 0.42
        toward = np.array([math.cos(rise) * math.cos(azimuth), math.cos(rise) * math.sin(azimuth), math.sin(rise)])
        right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
        self.axes = np.stack([right, np.cross(toward, right), toward])
        # The ball of all touches the cone of view; a narrow picture needs more distance.
        distance = radius / math.sin(HALF_ANGLE) / min(1.0, width / height)
        self.middle, self.eye = middle, middle + distance * toward
        self.width, self.height = 2 * width, 2 * height
        self.scale = height / math.tan(HALF_ANGLE)  # pixels for a slope of one
        self.dark = look.dark
        self.ink = np.empty((self.height, self.width, 3))
        self.ink[:] = _GROUND[look.dark]
        self.depth = np.zeros((self.height, self.width))  # one over the distance

    def _project_points(self, points: Array) -> tuple[Array, Array]:
        """Pixels (..., 2) and one over the distance; that of what is behind the eye is below zero."""
        local = (points - self.eye) @ self.axes.T
        # The eye looks along minus z of the camera; -1 marks points at or behind it.
        near = np.where(local[..., 2] < -1e-9, -1.0 / np.minimum(local[..., 2], -1e-9), -1.0)
        x = self.width / 2 + self.scale * local[..., 0] * near
        y = self.height / 2 - self.scale * local[..., 1] * near
        return np.stack([x, y], axis=-1), near

    def draw_triangles(self, corners: Array, normals: Array, colours: Array) -> None:
        """Triangles of matt colours."""
        if not len(corners):
            return
        pixels, near = self._project_points(corners)
        # Two-sided: normals of imported meshes are often inside out, and open shells show their inside.
        facing = np.einsum("fkc,fkc->fk", normals, self.eye - corners)
        local = (normals * np.where(facing < 0.0, -1.0, 1.0)[..., None]) @ self.axes.T
        sky = 0.5 + 0.5 * (local @ (self.axes @ [0.0, 0.0, 1.0]))
        light = 0.22 + 0.26 * sky + 0.72 * np.maximum(local @ _LIGHT, 0.0) + 0.1 * np.maximum(local[..., 2], 0.0)
        # Light adds up linearly, stored colours do not: to linear values by the exponent 2.2, and back.
        shades = 255.0 * np.clip((colours[:, None] / 255.0) ** 2.2 * light[..., None], 0.0, 1.0) ** (1 / 2.2)
        _fill(pixels, near, shades, self.ink, self.depth)

    def draw_shape(
        self, shape: tuple[Array, Array], point: Array, direction: Array, size: float, colour: tuple[int, ...]
    ) -> None:
        """A shape along z, at a point along a direction."""
        z = direction / np.linalg.norm(direction)
        x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], axis=1)
        corners, normals = shape
        self.draw_triangles(
            corners @ rotation.T * size + point, normals @ rotation.T, np.tile(colour, (len(corners), 1)) * 1.0
        )

    def draw_line(self, points: Array, colour: tuple[int, ...], width: float, fading: Array | None = None) -> None:
        """A line through points, ``width`` pixels wide; it is gone where ``fading`` is one."""
        pixels, near = self._project_points(points)
        strength = np.ones(len(points)) if fading is None else np.clip(1.3 * (1.0 - fading), 0.0, 1.0)
        _stroke(pixels, near, strength, np.array(colour, dtype=np.float64), width, self.ink, self.depth)

    def image(self) -> Image:
        fine = self.ink
        # Four samples per pixel in place of one: edges get five shades between both sides.
        mean = (fine[::2, ::2] + fine[1::2, ::2] + fine[::2, 1::2] + fine[1::2, 1::2]) / 4.0
        return np.asarray(np.rint(mean).clip(0, 255), dtype=np.uint8)


@compile_loop
def _fill(pixels: Array, near: Array, shades: Array, ink: Array, depth: Array) -> None:
    """Triangles that are nearer than what is there."""
    height, width = depth.shape
    for f in range(len(pixels)):
        if near[f].min() <= 0.0:
            continue
        # Barycentric coordinates u, v, w of each pixel's middle: none is negative inside the triangle.
        (ax, ay), (bx, by), (cx, cy) = pixels[f, 0], pixels[f, 1], pixels[f, 2]
        # Twice the signed area; both orientations are filled, since u, v, w share its sign.
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0.0:
            continue
        left, right = max(int(min(ax, bx, cx)), 0), min(int(max(ax, bx, cx)) + 1, width - 1)
        top, bottom = max(int(min(ay, by, cy)), 0), min(int(max(ay, by, cy)) + 1, height - 1)
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                px, py = x + 0.5, y + 0.5
                u = ((bx - px) * (cy - py) - (by - py) * (cx - px)) / area
                v = ((cx - px) * (ay - py) - (cy - py) * (ax - px)) / area
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                distance = u * near[f, 0] + v * near[f, 1] + w * near[f, 2]
                # The larger reciprocal is the nearer one.
                if distance > depth[y, x]:
                    depth[y, x] = distance
                    for k in range(3):
                        ink[y, x, k] = u * shades[f, 0, k] + v * shades[f, 1, k] + w * shades[f, 2, k]


@compile_loop
def _stroke(pixels: Array, near: Array, strength: Array, colour: Array, wide: float, ink: Array, depth: Array) -> None:
    """A line over what is there, where nothing is before it."""
    height, width = depth.shape
    half = int(wide) // 2
    for k in range(len(pixels) - 1):
        if near[k] <= 0.0 or near[k + 1] <= 0.0:
            continue
        (ax, ay), (bx, by) = pixels[k], pixels[k + 1]
        if max(ax, bx) < 0 or min(ax, bx) > width or max(ay, by) < 0 or min(ay, by) > height:
            continue
        steps = int(max(abs(bx - ax), abs(by - ay))) + 1
        # A segment that passes close to the eye has endpoints far outside the picture: left out, it would take forever.
        if steps > 8 * (width + height):
            continue
        for s in range(steps):
            t = s / steps
            share = strength[k] + t * (strength[k + 1] - strength[k])
            distance = near[k] + t * (near[k + 1] - near[k])
            for dx in range(-half, half + 1):
                for dy in range(-half, half + 1):
                    x, y = int(ax + t * (bx - ax)) + dx, int(ay + t * (by - ay)) + dy
                    # A line that lies on a surface wins against it.
                    if 0 <= x < width and 0 <= y < height and distance * 1.001 > depth[y, x]:
                        for c in range(3):
                            ink[y, x, c] += share * (colour[c] - ink[y, x, c])


# -- places ----------------------------------------------------------------------------------------------------------


def _rotate_vectors(quaternion: Array, vector: Array) -> Array:
    """Vectors turned by quaternions x y z w; leading shapes broadcast."""
    axis, real = quaternion[..., :3], quaternion[..., 3:]
    # v + 2 w (a x v) + 2 a x (a x v): two cross products, no matrix.
    twice = 2.0 * np.cross(axis, vector)
    rotated: Array = vector + real * twice + np.cross(axis, twice)
    return rotated


def _transform_points(pose: Array, points: Array) -> Array:
    moved: Array = _rotate_vectors(pose[3:], points) + pose[:3]
    return moved


def _poses_at(actor: SceneSystem, time: float) -> Array:
    """(bodies, 7) between two samples."""
    k = int(np.clip(np.searchsorted(actor.times, time, side="right") - 1, 0, len(actor.times) - 1))
    last = min(k + 1, len(actor.times) - 1)
    gap = actor.times[last] - actor.times[k]
    share = (time - actor.times[k]) / gap if gap > 0.0 else 0.0
    a, b = actor.poses[k], actor.poses[last]
    # q and -q are one attitude: between them the straight line would pass zero.
    sign = np.where(np.einsum("bi,bi->b", a[:, 3:], b[:, 3:]) < 0.0, -1.0, 1.0)[:, None]
    rotation = (1.0 - share) * a[:, 3:] + share * sign * b[:, 3:]
    place = (1.0 - share) * a[:, :3] + share * b[:, :3]
    return np.concatenate([place, rotation / np.linalg.norm(rotation, axis=1, keepdims=True)], axis=1)


def _mass_centre(actor: SceneSystem, poses: Array) -> Array:
    """(T, 3)."""
    mass = np.array([body.mass for body in actor.bodies])
    com = np.array([body.com for body in actor.bodies])
    places = poses[..., :3] + _rotate_vectors(poses[..., 3:], com)
    centre: Array = np.einsum("b,tbi->ti", mass, places) / mass.sum()
    return centre


def png(image: Image) -> bytes:
    """A picture as a PNG file."""
    height, width, _ = image.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    # Each row begins with the number of its filter: none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
