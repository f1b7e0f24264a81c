"""Where a box meets a box, and a capsule a box: a patch of fixed places, in closed form on CasADi scalars.

A contact law wants places that neither jump nor come and go, a depth that is the true one, and forces without steps.
Vertices of a clipped polygon give none of these where edges of two boxes lie on each other, as in a stack: there the
crossing of two edges may be anywhere along them. The polygon itself is continuous, and so are its extent and the
point of it that is nearest to a given one. So a patch is found in five steps.

1. Normal: of the axes along which convex bodies can be separated (faces, and products of edges) those of least
   overlap, blended over half that overlap. The change of the normal where another axis takes over is spread over a
   distance that grows with the depth; a force that is linear in the depth has a bounded slope there.
2. Gap: the greatest separation along these axes where bodies overlap, which is their penetration; the distance of the
   nearest vertices, faces and edges where they are apart.
3. Patch: the faces that look along the normal most, projected along it on one of them, and what they share. Both are
   planes, so the gap along the normal is linear on it. Only what lies near the least gap counts: a strip along an edge
   or a corner's surroundings where bodies are tilted.
4. Places: the corners of the patch's extent along the edges of the smaller box, each moved to the nearest point of the
   patch. A patch that is a parallelogram along these edges gives its own corners. Where the patch is steep, the corners
   first move down its slope, so that they find the edge or corner that touches whichever of its faces was taken. All
   gaps are shifted by one number so that the least is that of step 2.
5. Places that fall together become one, so that an edge that shrinks to a point ends as one place and not as two.

A box flat on a box so has four places, on an edge two, on a corner one; the others have positive gaps.

Separating axes are those of S. Gottschalk, M. C. Lin and D. Manocha, OBBTree (SIGGRAPH 1996): 3 + 3 faces and 9
products of edges for two boxes. Lengths in m. Everything is straight-line code without loops over data: branches are
``if_else`` on both values, so each quotient must be finite on the branch that is not taken too. Only convex pairs are
handled, and the patch is that of one pair of faces: no shape is meshed.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import casadi as ca
import numpy as np

from spacearm.mechanics.spatial import SX
from spacearm.typing import Array

#: Gap, point between the surfaces, normal from the first body to the second.
Place: TypeAlias = tuple[SX, SX, SX]

#: Share of the least overlap over which normals are blended.
_BLEND = 0.5
#: Sine of the angle of two edges below which the axis across both counts less and less.
_PARALLEL = 0.05
#: Depth of the patch below its highest place, of the shortest half edge; twice the penetration is added to it.
_DEEP = 1e-3
#: Distance of two ends of a capsule's patch below which they become one, of its radius or the box's half edges.
_TOGETHER = 0.1
#: By which faces and edges are longer when they are cut, so that edges that lie on each other are found.
_SLACK = 1e-11
#: Gap up to which bodies count as touching, m: below it the line between the nearest points has no direction.
_TOUCHING = 1e-9
#: Cosines of a face's slant between which differences of gaps on it are enlarged, and by how much.
_STEEP, _STEEP_FACTOR = (0.95, 0.8), 10.0
#: Distance of two places, of the depth of the patch, below which they are one.
_MERGED = 4.0
#: How far corners of an extent move down a slope, of the width of the strip that counts there; slope of a level patch.
_DOWN, _LEVEL = 3.0, 0.1
_TINY, _FAR = 1e-200, 1e6


def _sign(value: SX) -> SX:
    return ca.if_else(value >= 0, 1, -1)


def _clip(value: SX, low: SX | float, high: SX | float) -> SX:
    return ca.fmin(ca.fmax(value, low), high)


def _clip_low(value: SX, least: float) -> SX:
    """The value, or ``least`` where it is smaller than that: what can be divided by."""
    return ca.if_else(ca.fabs(value) < least, least, value)


class _Axes:
    """Candidate axes of separation, each with its signed separation (m), unit normal and share."""

    def __init__(self) -> None:
        self._found: list[tuple[SX, SX, SX | float]] = []

    def add(self, separation: SX, normal: SX, share: SX | float = 1.0) -> None:
        self._found.append((separation, normal, share))

    def add_product(self, product: SX, offset: SX, reach: SX | float, spans: list[tuple[float, SX]]) -> None:
        """The axis across two edges, from the product of their directions; ``spans`` are half edges of both bodies."""
        square = ca.dot(product, product)
        # Parallel edges have no common normal. The axis is then taken out by a separation far below any other, and near
        # there its share fades, so that a normal of noise does not enter the blend.
        there = square > 1e-20
        size = ca.sqrt(ca.if_else(there, square, 1))
        normal = product / size
        along = ca.dot(offset, normal)
        extent = sum((half * ca.fabs(ca.dot(edge, normal)) for half, edge in spans), ca.SX(reach))
        self.add(ca.if_else(there, ca.fabs(along) - extent, -_FAR), _sign(along) * normal, ca.fmin(1, size / _PARALLEL))

    def greatest(self) -> tuple[SX, SX, SX]:
        """Separation, the blended unit normal, and how far (sine) those that it is blended of differ."""
        most = self._found[0][0]
        for separation, _, _ in self._found[1:]:
            most = ca.fmax(most, separation)
        # Linear weights that reach zero at the edge of the band: an axis enters and leaves the blend without a jump.
        # The 1e-15 keeps the quotient finite where bodies just touch.
        width = _BLEND * ca.fabs(most) + 1e-15
        normal, total = ca.SX.zeros(3), ca.SX(0)
        for separation, each, share in self._found:
            own = share * ca.fmax(0, 1 - (most - separation) / width)
            normal, total = normal + own * each, total + own
        square = ca.dot(normal, normal) + _TINY
        return most, normal / ca.sqrt(square), ca.sqrt(ca.fmax(1 - square / (total * total + _TINY), 0) + _TINY)


class _Nearest:
    """The nearest pair of points (one on each body) of those added, with its squared distance (m2)."""

    def __init__(self, first: SX, second: SX) -> None:
        self.first, self.second = first, second
        self.square = ca.dot(second - first, second - first)

    def add(self, first: SX, second: SX, counts: SX | None = None) -> None:
        square = ca.dot(second - first, second - first)
        closer = square < self.square
        if counts is not None:
            closer = ca.logic_and(closer, counts)
        self.first, self.second = ca.if_else(closer, first, self.first), ca.if_else(closer, second, self.second)
        self.square = ca.if_else(closer, square, self.square)


def _clip_to_box(point: SX, half: Array) -> SX:
    return ca.vertcat(*(_clip(point[i], -half[i], half[i]) for i in range(3)))


def _corners(half: Array) -> list[Array]:
    return [half * [x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]


def _nearest_of_boxes(a: Array, b: Array, rotation: SX, offset: SX) -> _Nearest:
    """Nearest points of two boxes that are apart: a corner and a box, or two edges that both look at the other box."""
    found: _Nearest | None = None
    # Corners of the first box against the second, clipped to its extent in its own axes.
    for corner in _corners(a):
        local = rotation.T @ (ca.SX(corner) - offset)
        pair = ca.SX(corner), offset + rotation @ _clip_to_box(local, b)
        if found is None:
            found = _Nearest(*pair)
        else:
            found.add(*pair)
    assert found is not None
    for corner in _corners(b):
        point = offset + rotation @ ca.SX(corner)
        found.add(_clip_to_box(point, a), point)
    seen = rotation.T @ offset
    for i in range(3):
        for j in range(3):
            own, other = ca.SX(np.eye(3)[i]), rotation[:, j]
            # Two edges are nearest along the normal of both directions, taken toward the other box.
            product = ca.cross(own, other)
            normal = _sign(ca.dot(product, offset)) * product
            local = rotation.T @ normal
            # Of edges that look along the normal alike, the one that is nearer to the other box.
            start, end = ca.SX.zeros(3), ca.SX(offset)
            for k in range(3):
                if k != i:
                    start[k] = a[k] * _sign(normal[k] + 1e-9 * offset[k])
                if k != j:
                    end -= b[k] * _sign(local[k] + 1e-9 * seen[k]) * rotation[:, k]
            apart, square = end - start, ca.dot(product, product)
            # Parallel edges have no such normal: a corner is as near there.
            crossing = square > 1e-28
            safe = ca.if_else(crossing, square, 1)
            # The feet of the common perpendicular of two lines, which count within the edges only.
            along = [ca.dot(ca.cross(apart, edge), product) / safe for edge in (other, own)]
            within = ca.logic_and(ca.fabs(along[0]) <= a[i], ca.fabs(along[1]) <= b[j])
            found.add(start + along[0] * own, end + along[1] * other, ca.logic_and(crossing, within))
    return found


class _Order:
    """Axes of a box in the cyclic order in which the face that looks along a direction most comes last."""

    def __init__(self, direction: SX) -> None:
        x, y, z = (ca.fabs(direction[i]) for i in range(3))
        first = ca.logic_and(x >= y, x >= z)
        second = ca.logic_and(ca.logic_not(first), y >= z)
        self._is = first, second

    def _pick(self, one: SX, two: SX, three: SX) -> SX:
        return ca.if_else(self._is[0], one, ca.if_else(self._is[1], two, three))

    def forward(self, vector: SX) -> SX:
        """Rows in this order."""
        x, y, z = ca.vertsplit(vector)
        return ca.vertcat(self._pick(y, z, x), self._pick(z, x, y), self._pick(x, y, z))

    def back(self, vector: SX) -> SX:
        """From this order to the box's own."""
        x, y, z = ca.vertsplit(vector)
        return ca.vertcat(self._pick(z, y, x), self._pick(x, z, y), self._pick(y, x, z))


class _LineSegment(NamedTuple):
    """A piece of a line, ``start + t along`` from t = ``low`` to ``high``; nothing where these are crossed."""

    start: SX
    along: SX
    low: SX
    high: SX

    def point(self, t: SX) -> SX:
        return self.start + t * self.along

    def clip_between(self, value: SX, slope: SX, bound: SX | float) -> _LineSegment:
        """Where ``|value + t slope|`` is at most the bound."""
        safe = _clip_low(slope, 1e-14)
        ends = (-bound - value) / safe, (bound - value) / safe
        return self._replace(low=ca.fmax(self.low, ca.fmin(*ends)), high=ca.fmin(self.high, ca.fmax(*ends)))

    def clip_below(self, value: SX, slope: SX, bound: SX) -> _LineSegment:
        """Where ``value + t slope`` is at most the bound."""
        end = (bound - value) / _clip_low(slope, 1e-14)
        level = ca.fabs(slope) < 1e-14
        # A level line is either wholly below the bound or not at all: an end of _FAR crosses the piece out.
        low = ca.if_else(level, ca.if_else(value > bound, _FAR, self.low), self.low)
        return self._replace(
            low=ca.if_else(slope <= -1e-14, ca.fmax(low, end), low),
            high=ca.if_else(slope >= 1e-14, ca.fmin(self.high, end), self.high),
        )

    def close(self) -> tuple[_LineSegment, SX]:
        """The piece, a point where it has nothing; and whether that is so."""
        nothing = self.low > self.high
        middle = _clip(0.5 * (self.low + self.high), -1, 1)
        low, high = ca.if_else(nothing, middle, self.low), ca.if_else(nothing, middle, self.high)
        return self._replace(low=low, high=high), nothing


class _Overlap:
    """What a rectangle about the origin and a parallelogram share, in the plane; ``gap`` is linear on it.

    Lengths and shares by which both are ``wider`` when they are cut, and the range ``deep`` of gaps that count.
    """

    def __init__(
        self, half: SX, centre: SX, edges: tuple[SX, SX], gap: tuple[SX, SX], deep: SX, wider: tuple[SX, SX]
    ) -> None:
        first, second = edges
        self._half, self._centre = half, centre
        self._bounds = half * (1 + _SLACK) + wider[0], 1 + _SLACK + wider[1]
        # Rows of the inverse of [first second]: a point's coordinates along the parallelogram's edges, within it from
        # -1 to 1.
        det = _clip_low(first[0] * second[1] - first[1] * second[0], 1e-30)
        self._shares = (
            ca.vertcat(second[1], -second[0]) / det,
            ca.vertcat(-first[1], first[0]) / det,
        )
        self._level, self._slope = gap
        one, axes = ca.SX(1), (ca.vertcat(half[0], 0), ca.vertcat(0, half[1]))
        pieces = [
            self._clip_to_parallelogram(_LineSegment(sign * axes[k], axes[1 - k], -one, one))
            for k in range(2)
            for sign in (-1, 1)
        ]
        pieces += [
            self._clip_to_rectangle(_LineSegment(centre + sign * edges[k], edges[1 - k], -one, one))
            for k in range(2)
            for sign in (-1, 1)
        ]
        self._far = _FAR * (half[0] + half[1])
        # The least gap of a linear function on a convex polygon lies on its boundary, at an end of one of these pieces.
        least = self._far
        for piece in pieces:
            whole, nothing = piece.close()
            ends = ca.fmin(self.gap(whole.point(whole.low)), self.gap(whole.point(whole.high)))
            least = ca.fmin(least, ca.if_else(nothing, self._far, ends))
        high = least + deep
        cut = [p.clip_below(self.gap(p.start), ca.dot(self._slope, p.along), high) for p in pieces]
        # The boundary of what counts: the cut boundary of the polygon, and the contour of the highest gap that closes
        # it.
        self._pieces = [piece.close() for piece in (*cut, self._contour(high))]

    def gap(self, point: SX) -> SX:
        return self._level + ca.dot(self._slope, point)

    def _clip_to_parallelogram(self, piece: _LineSegment) -> _LineSegment:
        for i, share in enumerate(self._shares):
            value, slope = ca.dot(share, piece.start - self._centre), ca.dot(share, piece.along)
            piece = piece.clip_between(value, slope, self._bounds[1][i])
        return piece

    def _clip_to_rectangle(self, piece: _LineSegment) -> _LineSegment:
        for i in range(2):
            piece = piece.clip_between(piece.start[i], piece.along[i], self._bounds[0][i])
        return piece

    def _contour(self, gap: SX) -> _LineSegment:
        """The line on which the gap has this value, within both shapes; nothing where the gap is constant."""
        steep = ca.dot(self._slope, self._slope)
        there = steep > 1e-26
        safe = ca.if_else(there, steep, 1)
        along = ca.vertcat(-self._slope[1], self._slope[0]) / ca.sqrt(safe) * (self._half[0] + self._half[1])
        start = self._slope * ((gap - self._level) / safe)
        return self._clip_to_parallelogram(
            self._clip_to_rectangle(
                _LineSegment(start, along, ca.if_else(there, -1, _FAR), ca.if_else(there, 1, -_FAR))
            )
        )

    def corners(self, down: SX) -> list[SX]:
        """The corners of the extent along the rectangle's edges, each moved to the nearest point of what is shared.

        They are first moved ``down`` the slope of the gap, m^2: where it is steep, to the edge or corner that touches.
        """
        low, high = ca.SX([1, 1]) * self._far, -ca.SX([1, 1]) * self._far
        for piece, nothing in self._pieces:
            for end in (piece.point(piece.low), piece.point(piece.high)):
                low = ca.fmin(low, ca.if_else(nothing, self._far, end))
                high = ca.fmax(high, ca.if_else(nothing, -self._far, end))
        sides = (low, high)
        shift = down * self._slope / (ca.sumsqr(self._slope) + _LEVEL**2)
        corners = (ca.vertcat(sides[i][0], sides[j][1]) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1)))
        return [self._nearest(corner - shift) for corner in corners]

    def _nearest(self, target: SX) -> SX:
        """The point on the boundary of what is shared that is nearest to ``target``."""
        best, least = ca.SX.zeros(2), ca.SX(4) * self._far**2
        for piece, nothing in self._pieces:
            t = ca.dot(target - piece.start, piece.along) / _clip_low(ca.dot(piece.along, piece.along), 1e-30)
            point = piece.point(_clip(t, piece.low, piece.high))
            # A piece with nothing on it is pushed far away and not left out: the number of candidates is fixed.
            square = ca.sumsqr(point - target) + ca.if_else(nothing, self._far**2, 0)
            closer = square < least
            best, least = ca.if_else(closer, point, best), ca.fmin(square, least)
        return best


def _steepness(*slants: SX) -> SX:
    """0 where bodies lie flat on each other, 1 where a corner or an edge touches."""
    slant = ca.mmin(ca.vertcat(*map(ca.fabs, slants)))
    return _clip((_STEEP[0] - slant) / (_STEEP[0] - _STEEP[1]), 0, 1)


def _shift(gap: SX, gaps: list[SX], *slants: SX) -> list[SX]:
    """Gaps of places, moved so that the least of them is ``gap``.

    ``slants`` are cosines of the normal on faces. Where a face is steep, a corner or an edge touches, and which of two
    faces stands for it is a matter of chance: there differences are enlarged, so that the lowest places count.
    """
    least = ca.mmin(ca.vertcat(*gaps))
    factor = 1 + _STEEP_FACTOR * _steepness(*slants)
    return [gap + factor * (each - least) for each in gaps]


def box_box(a: Array, b: Array, rotation: SX, offset: SX) -> list[Place]:
    """Four places of two boxes of half edges a and b, in the axes of the first.

    The second is rotated by ``rotation`` against the first; its centre lies at ``offset``.
    """
    axes = _Axes()
    seen = rotation.T @ offset
    size = ca.fabs(rotation)
    own, other = [ca.SX(each) for each in np.eye(3)], ca.horzsplit(rotation)
    for i in range(3):
        axes.add(ca.fabs(offset[i]) - a[i] - ca.dot(size[i, :].T, ca.SX(b)), _sign(offset[i]) * own[i])
        axes.add(ca.fabs(seen[i]) - b[i] - ca.dot(size[:, i], ca.SX(a)), _sign(seen[i]) * other[i])
    for i in range(3):
        for j in range(3):
            spans = [(a[k], own[k]) for k in range(3) if k != i] + [(b[k], other[k]) for k in range(3) if k != j]
            axes.add_product(ca.cross(own[i], other[j]), offset, 0.0, spans)
    # Overlap and distance need two methods: the separating axis gives the true penetration where bodies overlap but
    # only a bound of the distance where a corner faces a corner; nearest features give the distance.
    separation, normal, spread = axes.greatest()
    near = _nearest_of_boxes(a, b, rotation, offset)
    gap = ca.if_else(separation > 0, ca.sqrt(near.square + _TINY), separation)

    # Axes of both boxes in an order in which the faces that meet have the normal z.
    mine, its = _Order(normal), _Order(rotation.T @ normal)
    n, directions = mine.forward(normal), its.forward(mine.forward(rotation).T).T
    half, other_half = mine.forward(ca.SX(a)), its.forward(ca.SX(b))
    out, height = directions[:, 2], _sign(n[2]) * half[2]
    centre = mine.forward(offset) - _sign(ca.dot(n, out)) * other_half[2] * out - ca.vertcat(0, 0, height)
    steep = ca.dot(n, out)

    # Along the normal, not along z: the gap is measured along the normal, and only so is it linear on the patch.
    def project(vector: SX) -> SX:
        return vector[:2] - n[:2] * (vector[2] / n[2])

    # A blended normal may pass by the edges of both faces: by the depth at most.
    wider = 2 * spread * ca.fmax(-separation, 0)
    deep = _depth_of_patch(min(*a, *b), separation)
    shared = _Overlap(
        half[:2],
        project(centre),
        (project(other_half[0] * directions[:, 0]), project(other_half[1] * directions[:, 1])),
        (ca.dot(centre, out) / steep, -out[:2] / steep),
        deep,
        (wider, wider / other_half[:2]),
    )
    corners = shared.corners(_DOWN * deep * _steepness(n[2], steep))
    gaps = _shift(gap, [shared.gap(corner) for corner in corners], n[2], steep)
    gaps, corners = _merge(gap, gaps, corners, deep)
    points = [mine.back(ca.vertcat(corner, height)) for corner in corners]
    return _places(gaps, points, normal, near, separation)


def _merge(gap: SX, gaps: list[SX], points: list[SX], deep: SX) -> tuple[list[SX], list[SX]]:
    """Gaps and points where those that lie together have become one, at the lowest of them.

    Each moves towards those beside it, the more the lower these are, and is then lifted by those before it in the list.
    Where all are together it so does not matter in which order they came, or how many of them were lowest.
    """
    count = range(len(points))

    def share(value: SX) -> SX:
        # 1 for the lowest gap, 0 for one that is higher by ``deep``, and continuous between.
        return _clip(1 - (value - gap) / deep, 0, 1)

    def beside(i: int, j: int) -> SX:
        # 1 within a distance, 0 beyond twice that; the tiny number keeps the root differentiable where points coincide.
        return _clip(2 - ca.sqrt(ca.sumsqr(points[i] - points[j]) + _TINY) / (_MERGED * deep), 0, 1)

    together = {(i, j): beside(*sorted((i, j))) for i in count for j in count if i != j}
    moved_gaps, moved = [], []
    for i in count:
        pulls = {j: together[i, j] * share(gaps[j]) for j in count if j != i}
        total = share(gaps[i]) + 1 - ca.mmax(ca.vertcat(*pulls.values())) + sum(pulls.values(), ca.SX(0))
        moved.append(sum((pull / total * (points[j] - points[i]) for j, pull in pulls.items()), points[i]))
        moved_gaps.append(sum((pull / total * (gaps[j] - gaps[i]) for j, pull in pulls.items()), gaps[i]))
    lifted = [
        moved_gaps[j] + deep * ca.mmax(ca.vertcat(0, *(together[i, j] * share(moved_gaps[i]) for i in range(j))))
        for j in count
    ]
    least = ca.mmin(ca.vertcat(*lifted))
    return [gap + each - least for each in lifted], moved


def _depth_of_patch(shortest: float, separation: SX) -> SX:
    """Range of gaps above the least that belong to the patch, m."""
    return _DEEP * shortest + 2 * ca.fmax(-separation, 0)


def _places(gaps: list[SX], points: list[SX], normal: SX, near: _Nearest, separation: SX) -> list[Place]:
    """Places of points on the first body; while bodies are apart, all are where these are nearest."""
    apart, distance = separation > _TOUCHING, ca.sqrt(near.square + _TINY)
    direction = ca.if_else(apart, (near.second - near.first) / ca.fmax(distance, _TOUCHING), normal)
    return [
        (gap, ca.if_else(apart, 0.5 * (near.first + near.second), point + 0.5 * gap * normal), direction)
        for gap, point in zip(gaps, points, strict=True)
    ]


def _nearest_on_segment(centre: SX, along: SX, half: Array) -> SX:
    """The point ``centre + t along``, t from -1 to 1, that is nearest to a box about the origin.

    Half the squared distance from the box is convex along the segment, and its slope consists of straight lines
    between the places where the segment passes a face's plane: its root lies between two of these.
    """

    def slope(t: SX) -> SX:
        point = centre + t * along
        return ca.dot(point - _clip_to_box(point, half), along)

    low, high = ca.SX(-1), ca.SX(1)
    for i in range(3):
        level = ca.fabs(along[i]) < 1e-12 * half[i]
        safe = ca.if_else(level, 1, along[i])
        for side in (-1, 1):
            t = _clip(ca.if_else(level, side, (side * half[i] - centre[i]) / safe), -1, 1)
            down = slope(t) < 0
            low, high = ca.if_else(down, ca.fmax(low, t), low), ca.if_else(down, high, ca.fmin(high, t))
    first, last = slope(low), slope(high)
    steep = last - first > 1e-14 * ca.dot(along, along)
    share = low - first * (high - low) / ca.if_else(steep, last - first, 1)
    # Where the slope does not rise, the segment runs along the box or within it.
    return centre + ca.if_else(steep, _clip(share, -1, 1), 0.5 * (low + high)) * along


def capsule_box(radius: float, centre: SX, along: SX, b: Array) -> list[Place]:
    """Two places of a capsule and a box, in the axes of the box.

    The capsule's axis goes from ``centre - along`` to ``centre + along``.
    """
    axes = _Axes()
    own = [ca.SX(each) for each in np.eye(3)]
    length = ca.sqrt(ca.dot(along, along) + _TINY)
    for i in range(3):
        axes.add(ca.fabs(centre[i]) - b[i] - ca.fabs(along[i]), -_sign(centre[i]) * own[i])
        spans = [(b[k], own[k]) for k in range(3) if k != i]
        axes.add_product(ca.cross(own[i], along / length), -centre, 0.0, spans)
    separation, inner, spread = axes.greatest()
    foot = _nearest_on_segment(centre, along, b)
    near = _Nearest(foot, _clip_to_box(foot, b))
    distance = ca.sqrt(near.square + _TINY)
    outside = separation > _TOUCHING
    normal = ca.if_else(outside, (near.second - near.first) / ca.fmax(distance, _TOUCHING), inner)
    # The capsule is its axis thickened: all is found for the segment, and the radius is taken off last.
    gap = ca.if_else(separation > 0, distance, separation) - radius
    near.first = near.first + radius * normal
    near.square = ca.sumsqr(near.second - near.first)

    its = _Order(normal)
    n, half, middle, reach = (its.forward(each) for each in (normal, ca.SX(b), centre, along))
    wider = ca.if_else(outside, 0, 2 * spread * ca.fmax(-separation, 0))
    # Gap along the normal from the axis at t to the plane of the face that is met: level + slope t.
    level, slope = (-_sign(n[2]) * half[2] - middle[2]) / n[2], -reach[2] / n[2]
    piece = _LineSegment(centre, along, ca.SX(-1), ca.SX(1))
    for i in range(2):
        value, change = middle[i] + level * n[i], reach[i] + slope * n[i]
        piece = piece.clip_between(value, change, half[i] * (1 + _SLACK) + wider)
    piece, _ = piece.close()
    least = level + ca.fmin(slope * piece.low, slope * piece.high)
    deep = _depth_of_patch(min(radius, *b), gap)
    piece, _ = piece.clip_below(level, slope, least + deep).close()
    ends = piece.low, piece.high
    gaps = _shift(gap, [level + slope * end for end in ends], n[2])
    # Ends that fall together are one place: the higher of them is lifted.
    lift = deep * ca.fmax(0, 1 - (piece.high - piece.low) * length / (_TOGETHER * min(radius, *b)))
    gaps = [gaps[0] + ca.if_else(slope < 0, lift, 0), gaps[1] + ca.if_else(slope < 0, 0, lift)]
    return _places(gaps, [piece.point(end) + radius * normal for end in ends], normal, near, gap)
